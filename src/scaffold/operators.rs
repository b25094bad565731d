//! What known operators need beside the fields of their objects, and which Secrets they make: two tables, from the
//! operators' documentation.

/// A label of the consumer's object that the operator reads.
#[derive(Debug, Clone, Copy)]
pub struct Label {
    group: &'static str,
    kind: &'static str,
    pub key: &'static str,
    /// A value for the example.
    pub sample: &'static str,
    /// Whether the operator ignores an object without it.
    pub required: bool,
    /// What it holds.
    pub holds: &'static str,
    pub documentation: &'static str,
}

/// A Secret that the operator makes for an object.
#[derive(Debug, Clone, Copy)]
pub struct Secret {
    group: &'static str,
    kind: &'static str,
    /// Of the entry of `related`, and the ending of the copy's name.
    pub id: &'static str,
    /// A template.
    pub name: &'static str,
    /// Where there is one for each item of a list: the list, and the key of an item, which is called `item`.
    pub each: Option<(&'static str, &'static str)>,
    pub keys: &'static [&'static str],
    pub documentation: &'static str,
}

/// Where the operator of a kind says that an object is ready, if not by a condition `Ready`.
#[derive(Debug, Clone, Copy)]
pub struct Ready {
    group: &'static str,
    kind: &'static str,
    /// A field of the status, and its value where all is well.
    pub field: &'static str,
    pub value: &'static str,
}

const STRIMZI: &str = "kafka.strimzi.io";
const STRIMZI_PAGE: &str = "https://strimzi.io/docs/operators/latest/deploying";
const STRIMZI_CLUSTER: &str = "strimzi.io/cluster";
const KAFKA: &str = "the name of the Kafka cluster";

const fn of_strimzi(kind: &'static str, sample: &'static str, holds: &'static str) -> Label {
    Label { group: STRIMZI, kind, key: STRIMZI_CLUSTER, sample, required: true, holds, documentation: STRIMZI_PAGE }
}

const LABELS: [Label; 6] = [
    of_strimzi("KafkaTopic", "my-kafka", KAFKA),
    of_strimzi("KafkaUser", "my-kafka", KAFKA),
    of_strimzi("KafkaNodePool", "my-kafka", KAFKA),
    of_strimzi("KafkaRebalance", "my-kafka", KAFKA),
    of_strimzi("KafkaConnector", "my-kafkaconnect", "the name of the KafkaConnect cluster"),
    Label {
        group: "serving.knative.dev",
        kind: "Service",
        key: "networking.knative.dev/visibility",
        sample: "cluster-local",
        required: false,
        holds: "whether only the cluster reaches the service",
        documentation: "https://knative.dev/docs/serving/services/private-services/",
    },
];

const fn secret(
    (group, kind): (&'static str, &'static str),
    id: &'static str,
    name: &'static str,
    keys: &'static [&'static str],
    documentation: &'static str,
) -> Secret {
    Secret { group, kind, id, name, each: None, keys, documentation }
}

const ELASTIC_PAGE: &str =
    "https://www.elastic.co/guide/en/cloud-on-k8s/current/k8s-request-elasticsearch-endpoint.html";

const SECRETS: [Secret; 10] = [
    secret(
        ("postgresql.cnpg.io", "Cluster"),
        "app",
        "{{ placement.name }}-app",
        &["username", "password", "dbname", "host", "port", "pgpass", "uri", "jdbc-uri"],
        "https://cloudnative-pg.io/documentation/current/applications/#secrets",
    ),
    secret(
        ("cert-manager.io", "Certificate"),
        "tls",
        "{{ source.spec.secretName }}",
        &["tls.crt", "tls.key", "ca.crt"],
        "https://cert-manager.io/docs/usage/certificate/",
    ),
    secret(
        (STRIMZI, "Kafka"),
        "ca",
        "{{ placement.name }}-cluster-ca-cert",
        &["ca.crt", "ca.p12", "ca.password"],
        STRIMZI_PAGE,
    ),
    secret(
        (STRIMZI, "KafkaUser"),
        "credentials",
        "{{ placement.name }}",
        &["ca.crt", "user.crt", "user.key", "user.p12", "user.password", "password", "sasl.jaas.config"],
        STRIMZI_PAGE,
    ),
    secret(
        ("rabbitmq.com", "RabbitmqCluster"),
        "user",
        "{{ placement.name }}-default-user",
        &["username", "password", "host", "port", "provider", "type", "connection_string"],
        "https://www.rabbitmq.com/kubernetes/operator/using-operator",
    ),
    Secret {
        group: "mongodbcommunity.mongodb.com",
        kind: "MongoDBCommunity",
        id: "connection",
        name: "{{ placement.name }}-{{ item.db | default('admin') }}-{{ item.name }}",
        each: Some(("${{ source.spec.users }}", "${{ item.name }}")),
        keys: &["username", "password", "connectionString.standard", "connectionString.standardSrv"],
        documentation: "https://github.com/mongodb/mongodb-kubernetes-operator/blob/master/docs/deploy-configure.md",
    },
    secret(
        ("acid.zalan.do", "postgresql"),
        "app",
        "app.{{ placement.name }}.credentials.postgresql.acid.zalan.do",
        &["username", "password"],
        "https://postgres-operator.readthedocs.io/en/latest/user/#connect-to-postgresql",
    ),
    secret(
        ("elasticsearch.k8s.elastic.co", "Elasticsearch"),
        "elastic",
        "{{ placement.name }}-es-elastic-user",
        &["elastic"],
        ELASTIC_PAGE,
    ),
    secret(
        ("elasticsearch.k8s.elastic.co", "Elasticsearch"),
        "certificates",
        "{{ placement.name }}-es-http-certs-public",
        &["ca.crt", "tls.crt"],
        ELASTIC_PAGE,
    ),
    secret(
        ("kibana.k8s.elastic.co", "Kibana"),
        "certificates",
        "{{ placement.name }}-kb-http-certs-public",
        &["ca.crt", "tls.crt"],
        "https://www.elastic.co/guide/en/cloud-on-k8s/current/k8s-kibana-http-configuration.html",
    ),
];

/// From the operators' documentation, as the Secrets are.
const READY: [Ready; 4] = [
    Ready { group: "elasticsearch.k8s.elastic.co", kind: "Elasticsearch", field: "phase", value: "Ready" },
    Ready { group: "kibana.k8s.elastic.co", kind: "Kibana", field: "health", value: "green" },
    Ready { group: "mongodbcommunity.mongodb.com", kind: "MongoDBCommunity", field: "phase", value: "Running" },
    Ready { group: "acid.zalan.do", kind: "postgresql", field: "PostgresClusterStatus", value: "Running" },
];

/// Where the operator of a kind says that an object is ready.
pub fn ready(group: &str, kind: &str) -> Option<&'static Ready> {
    READY.iter().find(|ready| ready.group == group && ready.kind == kind)
}

/// The labels that the operator of a kind reads.
pub fn labels(group: &str, kind: &str) -> impl Iterator<Item = &'static Label> {
    LABELS.iter().filter(move |label| label.group == group && label.kind == kind)
}

/// The Secrets that the operator makes for an object of a kind.
pub fn secrets(group: &str, kind: &str) -> impl Iterator<Item = &'static Secret> {
    SECRETS.iter().filter(move |secret| secret.group == group && secret.kind == kind)
}

impl Label {
    /// What the mapping writes: the consumer's own.
    pub fn value(&self) -> String {
        let read = format!("source.metadata.labels[\"{}\"]", self.key);
        if self.required {
            format!("${{{{ {read} | required(\"the label {} must hold {}\") }}}}", self.key, self.holds)
        } else {
            format!("${{{{ {read} | default(omit) }}}}")
        }
    }
}

impl Secret {
    /// The entry of `related` that carries it to the consumer. Ends with a line break.
    pub fn related(&self) -> String {
        let Self { id, name, .. } = self;
        let mut text = format!("- id: {id}\n  direction: ToSource\n  resource: secrets.v1\n");
        let mut copy = format!("{{{{ source.metadata.name }}}}-{id}");
        if let Some((list, key)) = self.each {
            text.push_str(&format!("  forEach: {list}\n  as: item\n  key: {key}\n"));
            copy.push_str("-{{ item.name }}");
        }
        text.push_str(&format!("  from: {{name: \"{name}\"}}\n  to: {{name: \"{copy}\"}}\n"));
        text.push_str(&format!("  data: {{include: [{}]}}\n", self.keys.join(", ")));
        text.push_str("  ownerReference: true\n  onMissing: Skip\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::compile::compile;
    use crate::yaml;

    /// Each entry is a part of a mapping that compiles.
    #[test]
    fn secrets_are_carried_by_entries_that_compile() {
        for secret in SECRETS {
            let entry = secret.related().replace('\n', "\n    ");
            let mapping = format!(
                "apiVersion: sync-engine.dev/v1alpha1\nkind: Mapping\nmetadata: {{name: x}}\nspec:\n  source: {{apiExport: {{name: \
                 x}}, resource: xs.v1.example.com}}\n  related:\n    {entry}\n  objects:\n    - {{id: x, template: {{apiVersion: \
                 v1, kind: ConfigMap}}}}\n"
            );
            let document = yaml::parse_one(&mapping).expect("a document");
            assert_eq!(compile(&document).findings, [], "{mapping}");
        }
    }
}
