//! Fields of operators' APIs that are not a consumer's to fill: the one table of them, for mappings that are checked
//! (`validate`) and for mappings that are made (`init`).

use crate::schema::Form;

/// Why a field is not the consumer's to fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Pods, or parts of them.
    Pods,
    /// What runs in the operator's pods.
    Program,
    /// The environment of the operator's pods.
    Environment,
    /// What an operator puts into a command line.
    Command(&'static str),
    /// Where and as whom pods run.
    Placement,
    /// Other tenants' namespaces.
    Reach,
    /// For a reason of its own, as a main clause.
    Reserved(&'static str),
}

impl Why {
    /// As a main clause.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Pods => "pods of the consumer's making would run on the target",
            Self::Program => "a consumer would choose the program that runs with the operator's rights",
            Self::Environment => {
                "a consumer would set the environment of the operator's pods, also from other Secrets of the namespace"
            }
            Self::Placement => "a consumer would say on which nodes, and with whose rights, pods run",
            Self::Reach => "an operator that follows them would reach into other tenants' namespaces",
            Self::Command(why) | Self::Reserved(why) => why,
        }
    }

    /// Of the finding about a mapping that lets a consumer fill the field.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Pods => "SE0705",
            Self::Reach => "SE0703",
            Self::Command(_) => "SE0707",
            Self::Program | Self::Environment | Self::Placement | Self::Reserved(_) => "SE0709",
        }
    }
}

/// What a value must look like for its name to count.
#[derive(Debug, Clone, Copy)]
enum Looks {
    Anything,
    Text,
    /// A list, or a map; what a schema leaves open can be both.
    Structure,
    List,
    /// A map or a list of maps with one of these keys, or one whose keys the schema leaves open.
    With(&'static [&'static str]),
    /// The same, and its keys are spelled out.
    Exactly(&'static [&'static str]),
}

/// A field as far as a schema tells: its form, and the keys of the map, or of the maps in the list.
#[derive(Debug, Clone)]
pub struct Value<'s> {
    pub form: Form,
    pub keys: Vec<&'s str>,
}

impl Looks {
    fn fits(self, value: &Value<'_>) -> bool {
        let structured = matches!(value.form, Form::Map | Form::List | Form::Any);
        let has = |keys: &[&str]| value.keys.iter().any(|key| keys.contains(key));
        match self {
            Self::Anything => true,
            Self::Text => value.form.meets(Form::Text),
            Self::Structure => structured,
            Self::List => matches!(value.form, Form::List | Form::Any),
            Self::With(keys) => structured && (value.keys.is_empty() || has(keys)),
            Self::Exactly(keys) => structured && has(keys),
        }
    }
}

const POD: Looks = Looks::Exactly(&["containers"]);
const VOLUMES: &[&str] = &["csi", "hostPath", "projected", "secret"];
const HOST: &[&str] = &["hostIPC", "hostNetwork", "hostPID", "hostPath", "hostPort", "hostUsers"];
const NODES: &[&str] = &["affinity", "hostAliases", "nodeAffinity", "nodeSelector", "tolerations"];
const CONTEXTS: &[&str] = &["*SecurityContext", "seccompProfile", "securityContext", "serviceAccountTemplate"];
const CLASSES: &[&str] = &["podPriorityClassName", "priorityClassName", "runtimeClassName", "schedulerName"];

const EXTERNAL: &str =
    "a Service with addresses of a consumer's choice gets traffic that is meant for others (CVE-2020-8554)";

/// Names that mean the same wherever operators have them; the first that fits counts. A `*` stands for any beginning.
const NAMED: [(Why, Looks, &[&str]); 25] = [
    (Why::Pods, POD, &["*"]),
    (Why::Pods, Looks::Structure, &["containers", "ephemeralContainers", "extraContainers", "initContainers"]),
    (Why::Pods, Looks::Structure, &["podSpec", "podTemplate", "podTemplateSpec"]),
    (Why::Pods, Looks::Structure, &["sidecarContainers", "sidecars", "statefulSet"]),
    (Why::Program, Looks::List, &["command"]),
    (Why::Program, Looks::Structure, &["args", "*Args", "extraFlags", "*ExtraFlags"]),
    (Why::Program, Looks::Structure, &["images", "imagePullSecret", "imagePullSecrets"]),
    (Why::Program, Looks::Anything, &["image"]),
    (Why::Program, Looks::Text, &["baseImage", "command", "dockerImage", "hookScript", "imageName", "*Image"]),
    (Why::Program, Looks::Exactly(&["postStart", "preStop"]), &["lifecycle"]),
    (Why::Environment, Looks::Exactly(&["valueFrom"]), &["env", "*Env", "*EnvVars"]),
    (Why::Environment, Looks::Structure, &["envFrom"]),
    (Why::Environment, Looks::Text, &["envVarsSecret"]),
    (Why::Placement, Looks::Anything, HOST),
    (Why::Placement, Looks::Anything, &["serviceAccount"]),
    (Why::Placement, Looks::Text, &["nodeName", "serviceAccountName"]),
    (Why::Placement, Looks::Text, CLASSES),
    (Why::Placement, Looks::Exactly(&["name"]), &["scheduler"]),
    (Why::Placement, Looks::Structure, NODES),
    (Why::Placement, Looks::Structure, CONTEXTS),
    (Why::Placement, Looks::With(VOLUMES), &["volume", "volumes", "*Volumes"]),
    (Why::Placement, Looks::Exactly(&["projected"]), &["*"]),
    (Why::Reserved(EXTERNAL), Looks::Anything, &["externalIPs"]),
    (Why::Reach, Looks::Text, &["namespace", "*Namespace"]),
    (Why::Reach, Looks::Anything, &["namespaces", "*Namespaces", "*amespaceSelector", "allowCrossNamespaceImport"]),
];

/// What a name means by itself.
pub(super) fn named(name: &str, value: &Value<'_>) -> Option<Why> {
    let is_it = |pattern: &&str| match pattern.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == *pattern,
    };
    NAMED.iter().find(|(_, looks, names)| names.iter().any(is_it) && looks.fits(value)).map(|(why, ..)| *why)
}

/// A field of one operator's API.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    group: &'static str,
    kind: &'static str,
    /// From the object's root, with dots; items of a list have no key.
    pub path: &'static str,
    pub what: What,
}

/// What is said of a field by its path.
#[derive(Debug, Clone, Copy)]
pub enum What {
    /// It stays with the provider.
    Kept(Why),
    /// It stays with the provider, and the operator needs it although its schema does not say so: what `init` writes.
    Written(Why, &'static str),
    /// It is offered although its name speaks against it, and so are programs and their environment below it; why, as a
    /// main clause.
    Offered(&'static str),
}

/// A field that stays with the provider.
pub const fn kept(group: &'static str, kind: &'static str, path: &'static str, why: Why) -> Field {
    Field { group, kind, path, what: What::Kept(why) }
}

const fn reserved(group: &'static str, kind: &'static str, path: &'static str, why: &'static str) -> Field {
    kept(group, kind, path, Why::Reserved(why))
}

const fn written(
    group: &'static str,
    kind: &'static str,
    path: &'static str,
    why: &'static str,
    value: &'static str,
) -> Field {
    Field { group, kind, path, what: What::Written(Why::Reserved(why), value) }
}

const fn offered(group: &'static str, kind: &'static str, path: &'static str, why: &'static str) -> Field {
    Field { group, kind, path, what: What::Offered(why) }
}

const ARGO_CD: &str = "argoproj.io";
const CERT_MANAGER: &str = "cert-manager.io";
const CLOUD_NATIVE_PG: &str = "postgresql.cnpg.io";
const FLINK: &str = "flink.apache.org";
const GRAFANA: &str = "grafana.integreatly.org";
const KEYCLOAK: &str = "k8s.keycloak.org";
const KNATIVE: &str = "serving.knative.dev";
const MINIO: &str = "minio.min.io";
const MONGODB: &str = "mongodbcommunity.mongodb.com";
const OPENSEARCH: &str = "opensearch.org";
const PERCONA: &str = "pxc.percona.com";
const PROMETHEUS: &str = "monitoring.coreos.com";
const RABBITMQ: &str = "rabbitmq.com";
const RAY: &str = "ray.io";
const STRIMZI: &str = "kafka.strimzi.io";
const VITESS: &str = "planetscale.com";
const ZALANDO: &str = "acid.zalan.do";

const ISSUER: &str = "a consumer would choose who signs the certificate, with whose account";
const AUTHORITY: &str = "a consumer would get a certificate that signs certificates for any name";
const CLUSTER: &str = "a consumer would choose the cluster that Argo CD deploys to, with Argo CD's rights";
const NAMESPACE: &str = "a consumer would choose the namespace that Argo CD deploys to";
const PROJECT: &str = "a consumer would choose the Argo CD project, whose rules say what may be deployed where";
const OPERATION: &str =
    "Argo CD removes it when the operation ends, so the engine would start the operation again and again";
const ELSEWHERE: &str = "the operator connects to any server that a consumer names, with any Secret of the namespace";
const CONFIGURATION: &str = "it also says which image and pods run, and with which service account";
const JOB: &str = "to run the consumer's job is what the kind is for";
const ROOT: &str = "it has the password of the root user, and the environment of MinIO";
const SCRAPED: &str = "the operator changes the configuration of the cluster's Prometheus for it";
const SUPERUSER: &str = "a superuser of PostgreSQL can run programs in the operator's pods";
const SQL: &str = "the operator runs the SQL as superuser";
const QUERY: &str = "PgBouncer runs the query in the database, as the role that the consumer names";
const IDENTITY: &str = "a consumer would say with whose rights pods run";
const MOUNTS: &str = "a consumer would mount any Secret of the namespace, and tokens of the pod's service account";
const VAULT: &str = "a consumer would choose the role with which the pods log in to Vault";
const CLONE: Why = Why::Reserved("a consumer would copy the data of any cluster that the operator can reach");
const JAVA: Why = Why::Command("the options `OnError` and `OnOutOfMemoryError` of Java run a command");
const PROPERTIES: Why = Why::Command("a property with a space in it adds options of Java, some of which run a command");
const BASH: Why = Why::Command("the operator puts it into the `bash -c` of the agent");
const RAY_START: Why = Why::Command("the operator puts them into the `bash -c` of the pods");
const POSTGRES: Why = Why::Command("parameters of PostgreSQL such as `archive_command` run commands");
const MYSQL: Why = Why::Command("options such as `wsrep_notify_cmd` run commands");
const BALANCER: Why = Why::Command("the configuration can name programs that run");
const SH: Why =
    Why::Command("the operator puts it into the `sh -c` of mongod, whether it is nested or written with dots");
const SOURCED: Why = Why::Command("the file is a shell script that the container sources at its start");
const LISTENER: &str = "it says who may connect to the consumer's own listener";
const TEAM: &str = "a consumer would choose the team, whose members the operator gives access";
const HEAD: &str = r#"${{ {"containers": [{"name": "ray-head", "image": "rayproject/ray:2.46.0"}]} }}"#;
const CONTAINERS: &str = "to run the consumer's containers is what the kind is for";

/// Fields that mean something in one operator's API, from its documentation. The commands of MongoDB's operator were
/// seen in the StatefulSets that its release 0.13 creates.
const FIELDS: [Field; 89] = [
    written(ARGO_CD, "Application", "spec.destination.server", CLUSTER, "https://kubernetes.default.svc"),
    written(ARGO_CD, "Application", "spec.destination.namespace", NAMESPACE, "${{ placement.namespace }}"),
    reserved(ARGO_CD, "Application", "spec.destination.name", CLUSTER),
    reserved(ARGO_CD, "Application", "spec.project", PROJECT),
    reserved(ARGO_CD, "Application", "operation", OPERATION),
    offered(ARGO_CD, "Application", "spec.ignoreDifferences.namespace", "it only selects what is not compared"),
    reserved(CERT_MANAGER, "Certificate", "spec.issuerRef", ISSUER),
    reserved(CERT_MANAGER, "Certificate", "spec.isCA", AUTHORITY),
    reserved(CERT_MANAGER, "CertificateRequest", "spec.issuerRef", ISSUER),
    reserved(CERT_MANAGER, "CertificateRequest", "spec.isCA", AUTHORITY),
    offered(CERT_MANAGER, "Issuer", "spec.vault.namespace", "it is a namespace of Vault, not of Kubernetes"),
    kept(CLOUD_NATIVE_PG, "Cluster", "spec.env", Why::Environment),
    kept(CLOUD_NATIVE_PG, "Cluster", "spec.envFrom", Why::Environment),
    reserved(CLOUD_NATIVE_PG, "Cluster", "spec.externalClusters", ELSEWHERE),
    reserved(CLOUD_NATIVE_PG, "Cluster", "spec.bootstrap.initdb.postInitSQL", SQL),
    reserved(CLOUD_NATIVE_PG, "Cluster", "spec.bootstrap.initdb.postInitSQLRefs", SQL),
    reserved(CLOUD_NATIVE_PG, "Cluster", "spec.bootstrap.initdb.postInitApplicationSQL", SQL),
    reserved(CLOUD_NATIVE_PG, "Cluster", "spec.bootstrap.initdb.postInitApplicationSQLRefs", SQL),
    reserved(CLOUD_NATIVE_PG, "Cluster", "spec.bootstrap.initdb.postInitTemplateSQL", SQL),
    reserved(CLOUD_NATIVE_PG, "Cluster", "spec.bootstrap.initdb.postInitTemplateSQLRefs", SQL),
    reserved(CLOUD_NATIVE_PG, "Cluster", "spec.bootstrap.initdb.import.postImportApplicationSQL", SQL),
    kept(CLOUD_NATIVE_PG, "Cluster", "spec.postgresql.extensions.env", Why::Environment),
    reserved(CLOUD_NATIVE_PG, "Cluster", "spec.enableSuperuserAccess", SUPERUSER),
    reserved(CLOUD_NATIVE_PG, "Cluster", "spec.superuserSecret", SUPERUSER),
    reserved(CLOUD_NATIVE_PG, "Cluster", "spec.managed.roles.superuser", SUPERUSER),
    reserved(CLOUD_NATIVE_PG, "Cluster", "spec.managed.roles.inRoles", SUPERUSER),
    reserved(CLOUD_NATIVE_PG, "DatabaseRole", "spec.superuser", SUPERUSER),
    reserved(CLOUD_NATIVE_PG, "DatabaseRole", "spec.inRoles", SUPERUSER),
    reserved(CLOUD_NATIVE_PG, "Pooler", "spec.pgbouncer.authQuery", QUERY),
    reserved(CLOUD_NATIVE_PG, "Pooler", "spec.pgbouncer.authQuerySecret", QUERY),
    reserved(CLOUD_NATIVE_PG, "Cluster", "spec.projectedVolumeTemplate", MOUNTS),
    reserved(CLOUD_NATIVE_PG, "Cluster", "spec.postgresUID", IDENTITY),
    reserved(CLOUD_NATIVE_PG, "Cluster", "spec.postgresGID", IDENTITY),
    reserved(FLINK, "FlinkDeployment", "spec.flinkConfiguration", CONFIGURATION),
    offered(FLINK, "FlinkDeployment", "spec.job.jarURI", JOB),
    offered(FLINK, "FlinkDeployment", "spec.job.args", JOB),
    kept(GRAFANA, "Grafana", "spec.version", Why::Program),
    reserved(GRAFANA, "Grafana", "spec.external", ELSEWHERE),
    kept(KEYCLOAK, "Keycloak", "spec.additionalOptions", Why::Environment),
    offered(KNATIVE, "Service", "spec.template.spec", CONTAINERS),
    offered(KNATIVE, "Service", "spec.template.spec.containers", CONTAINERS),
    written(MINIO, "Tenant", "spec.configuration", ROOT, r#"${{ {"name": placement.name ~ "-configuration"} }}"#),
    reserved(MINIO, "Tenant", "spec.prometheusOperator", SCRAPED),
    kept(MONGODB, "MongoDBCommunity", "spec.agent.logFile", BASH),
    kept(MONGODB, "MongoDBCommunity", "spec.agent.logLevel", BASH),
    kept(MONGODB, "MongoDBCommunity", "spec.additionalMongodConfig.storage.dbPath", SH),
    kept(OPENSEARCH, "OpenSearchCluster", "spec.bootstrap.jvm", JAVA),
    kept(OPENSEARCH, "OpenSearchCluster", "spec.nodePools.jvm", JAVA),
    kept(OPENSEARCH, "OpenSearchCluster", "spec.bootstrap.pluginsList", Why::Program),
    kept(OPENSEARCH, "OpenSearchCluster", "spec.dashboards.pluginsList", Why::Program),
    kept(OPENSEARCH, "OpenSearchCluster", "spec.general.pluginsList", Why::Program),
    kept(OPENSEARCH, "OpenSearchCluster", "spec.general.monitoring.pluginUrl", Why::Program),
    kept(PERCONA, "PerconaXtraDBCluster", "spec.pxc.configuration", MYSQL),
    kept(PERCONA, "PerconaXtraDBCluster", "spec.haproxy.configuration", BALANCER),
    kept(PERCONA, "PerconaXtraDBCluster", "spec.proxysql.configuration", BALANCER),
    kept(PROMETHEUS, "Prometheus", "spec.tag", Why::Program),
    kept(PROMETHEUS, "Prometheus", "spec.sha", Why::Program),
    kept(PROMETHEUS, "Alertmanager", "spec.tag", Why::Program),
    kept(PROMETHEUS, "Alertmanager", "spec.sha", Why::Program),
    kept(RABBITMQ, "RabbitmqCluster", "spec.rabbitmq.envConfig", SOURCED),
    reserved(RABBITMQ, "RabbitmqCluster", "spec.secretBackend.vault", VAULT),
    Field {
        group: RAY,
        kind: "RayCluster",
        path: "spec.headGroupSpec.template.spec",
        what: What::Written(Why::Pods, HEAD),
    },
    kept(RAY, "RayCluster", "spec.headGroupSpec.rayStartParams", RAY_START),
    kept(STRIMZI, "Kafka", "spec.kafka.jvmOptions.-XX.OnOutOfMemoryError", JAVA),
    kept(STRIMZI, "Kafka", "spec.cruiseControl.jvmOptions.-XX.OnOutOfMemoryError", JAVA),
    kept(STRIMZI, "Kafka", "spec.entityOperator.topicOperator.jvmOptions.-XX.OnOutOfMemoryError", JAVA),
    kept(STRIMZI, "Kafka", "spec.entityOperator.userOperator.jvmOptions.-XX.OnOutOfMemoryError", JAVA),
    kept(STRIMZI, "Kafka", "spec.kafka.jvmOptions.javaSystemProperties", PROPERTIES),
    kept(STRIMZI, "Kafka", "spec.cruiseControl.jvmOptions.javaSystemProperties", PROPERTIES),
    kept(STRIMZI, "Kafka", "spec.entityOperator.topicOperator.jvmOptions.javaSystemProperties", PROPERTIES),
    kept(STRIMZI, "Kafka", "spec.entityOperator.userOperator.jvmOptions.javaSystemProperties", PROPERTIES),
    kept(STRIMZI, "KafkaNodePool", "spec.jvmOptions.javaSystemProperties", PROPERTIES),
    kept(STRIMZI, "KafkaConnect", "spec.jvmOptions.javaSystemProperties", PROPERTIES),
    kept(STRIMZI, "KafkaNodePool", "spec.jvmOptions.-XX.OnOutOfMemoryError", JAVA),
    kept(STRIMZI, "KafkaConnect", "spec.jvmOptions.-XX.OnOutOfMemoryError", JAVA),
    kept(STRIMZI, "KafkaConnect", "spec.build", Why::Program),
    kept(STRIMZI, "KafkaConnect", "spec.plugins", Why::Program),
    offered(STRIMZI, "Kafka", "spec.kafka.listeners.networkPolicyPeers.namespaceSelector", LISTENER),
    kept(VITESS, "VitessCluster", "spec.extraVitessFlags", Why::Program),
    kept(ZALANDO, "postgresql", "spec.postgresql.parameters.archive_command", POSTGRES),
    kept(ZALANDO, "postgresql", "spec.clone", CLONE),
    kept(ZALANDO, "postgresql", "spec.standby", CLONE),
    kept(ZALANDO, "postgresql", "spec.env", Why::Environment),
    written(ZALANDO, "postgresql", "spec.users", SUPERUSER, r#"${{ {"app": []} }}"#),
    reserved(ZALANDO, "postgresql", "spec.additionalVolumes", MOUNTS),
    reserved(ZALANDO, "postgresql", "spec.spiloRunAsUser", IDENTITY),
    reserved(ZALANDO, "postgresql", "spec.spiloRunAsGroup", IDENTITY),
    reserved(ZALANDO, "postgresql", "spec.spiloFSGroup", IDENTITY),
    reserved(ZALANDO, "postgresql", "spec.teamId", TEAM),
];

/// What a field means by its name, unless its path says otherwise. `fields`: what is said of the fields of its kind.
pub fn meaning<'f>(fields: impl IntoIterator<Item = &'f Field>, path: &str, value: &Value<'_>) -> Option<Why> {
    let name = path.rsplit('.').next().unwrap_or_default();
    let why = named(name, value)?;
    let is_below = |field: &Field| path.strip_prefix(field.path).is_some_and(|rest| rest.starts_with('.'));
    let is_offered = |field: &Field| {
        matches!(field.what, What::Offered(_))
            && (field.path == path || is_below(field) && matches!(why, Why::Program | Why::Environment))
    };
    (!fields.into_iter().any(is_offered)).then_some(why)
}

/// What is said of the fields of a kind.
pub fn fields(group: &str, kind: &str) -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(move |field| field.group == group && field.kind == kind)
}

/// Keys under which any text stands, whatever their names.
const FREE_TEXT: [&str; 5] = ["annotations", "binaryData", "data", "labels", "stringData"];

/// Whether any text stands under a key of this name, whatever its own names.
pub fn is_free_text(name: &str) -> bool {
    FREE_TEXT.contains(&name)
}

/// The same of a field of a schema. A part of an API that is called `data` has fields of its own.
pub fn holds_free_text(name: &str, has_fields: bool) -> bool {
    is_free_text(name) && !(name == "data" && has_fields)
}
