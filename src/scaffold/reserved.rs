//! Fields of operators' APIs that stay with the provider for a reason of their own: the table of them.

/// A field that decides about more than the tenant who fills it.
#[derive(Debug, Clone, Copy)]
pub struct Reserved {
    group: &'static str,
    kind: &'static str,
    /// From the object's root, with dots.
    pub path: &'static str,
    /// What a consumer would do with it, as a main clause.
    pub why: &'static str,
}

const fn field(group: &'static str, kind: &'static str, path: &'static str, why: &'static str) -> Reserved {
    Reserved { group, kind, path, why }
}

const CERT_MANAGER: &str = "cert-manager.io";
const ARGO_CD: &str = "argoproj.io";
const CLOUD_NATIVE_PG: &str = "postgresql.cnpg.io";

const ISSUER: &str = "a consumer would choose who signs the certificate, with whose account";
const AUTHORITY: &str = "a consumer would get a certificate that signs certificates for any name";
const CLUSTER: &str = "a consumer would choose the cluster that Argo CD deploys to, with Argo CD's rights";
const PROJECT: &str = "a consumer would choose the Argo CD project, whose rules say what may be deployed where";
const ENVIRONMENT: &str = "a consumer would set the environment of the operator's pods, also from other Secrets";
const ELSEWHERE: &str = "the operator connects to any server that a consumer names, with any Secret of the namespace";
const SUPERUSER: &str = "the operator runs the SQL as superuser";

const RESERVED: [Reserved; 16] = [
    field(CERT_MANAGER, "Certificate", "spec.issuerRef", ISSUER),
    field(CERT_MANAGER, "Certificate", "spec.isCA", AUTHORITY),
    field(CERT_MANAGER, "CertificateRequest", "spec.issuerRef", ISSUER),
    field(CERT_MANAGER, "CertificateRequest", "spec.isCA", AUTHORITY),
    field(ARGO_CD, "Application", "spec.destination.server", CLUSTER),
    field(ARGO_CD, "Application", "spec.destination.name", CLUSTER),
    field(ARGO_CD, "Application", "spec.project", PROJECT),
    field(CLOUD_NATIVE_PG, "Cluster", "spec.env", ENVIRONMENT),
    field(CLOUD_NATIVE_PG, "Cluster", "spec.envFrom", ENVIRONMENT),
    field(CLOUD_NATIVE_PG, "Cluster", "spec.externalClusters", ELSEWHERE),
    field(CLOUD_NATIVE_PG, "Cluster", "spec.bootstrap.initdb.postInitSQL", SUPERUSER),
    field(CLOUD_NATIVE_PG, "Cluster", "spec.bootstrap.initdb.postInitSQLRefs", SUPERUSER),
    field(CLOUD_NATIVE_PG, "Cluster", "spec.bootstrap.initdb.postInitApplicationSQL", SUPERUSER),
    field(CLOUD_NATIVE_PG, "Cluster", "spec.bootstrap.initdb.postInitApplicationSQLRefs", SUPERUSER),
    field(CLOUD_NATIVE_PG, "Cluster", "spec.bootstrap.initdb.postInitTemplateSQL", SUPERUSER),
    field(CLOUD_NATIVE_PG, "Cluster", "spec.bootstrap.initdb.postInitTemplateSQLRefs", SUPERUSER),
];

/// The reserved fields of a kind.
pub fn reserved(group: &str, kind: &str) -> impl Iterator<Item = &'static Reserved> {
    RESERVED.iter().filter(move |field| field.group == group && field.kind == kind)
}
