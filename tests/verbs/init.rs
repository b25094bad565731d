//! `sync-engine init`, on definitions in the shape of well-known operators' own: what it writes must run at once.

use insta::assert_snapshot;
use tempfile::TempDir;

use super::{read, run, said, shown_in};

const OPERATORS: [(&str, &str); 10] = [
    ("postgres", "cluster"),
    ("kafka", "kafka"),
    ("certificate", "certificate"),
    ("elasticsearch", "elasticsearch"),
    ("redis", "redis"),
    ("servicemonitor", "servicemonitor"),
    ("topic", "kafkatopic"),
    // Operators that need more than their object, by the definitions of the examples.
    ("mongodb", "mongodbcommunity"),
    ("keycloak", "keycloak"),
    ("minio", "tenant"),
];

fn made(operator: &str) -> TempDir {
    let root = tempfile::tempdir().expect("a temporary directory");
    let crd = match operator {
        "mongodb" => "schemas/mongodb/crd.yaml".to_owned(),
        "keycloak" | "minio" => format!("examples/{operator}/schemas/crd.yaml"),
        _ => format!("tests/verbs/crds/{operator}.yaml"),
    };
    let out = root.path().join("kit").display().to_string();
    let output = run(&["init", &out, "-f", &crd]);
    assert!(output.status.success(), "{operator}: {}", String::from_utf8_lossy(&output.stderr));
    root
}

#[test]
fn what_it_writes_is_good_and_tested() {
    let mut all_columns = String::new();
    for (operator, name) in OPERATORS {
        let root = made(operator);
        let validate = shown_in(&root, &["validate", "ROOT/kit"]);
        assert_eq!(validate, "exit 0\n1 mapping in 1 file, nothing wrong\n", "{operator}");
        assert!(shown_in(&root, &["test", "ROOT/kit"]).ends_with("\n1 case passed, 0 failed\n"), "{operator}");
        let source = format!("ROOT/kit/examples/{name}.yaml");
        let rendered = shown_in(&root, &["render", "ROOT/kit", "-f", &source, "--no-marks"]);
        assert_snapshot!(format!("render-{operator}"), rendered);
        let mapping = read(root.path().join(format!("kit/mappings/{name}.yaml")));
        assert_snapshot!(format!("mapping-{operator}"), mapping);
        let schema = read(root.path().join("kit/schemas/apiresourceschema.yaml"));
        let schema = sync_engine::yaml::parse_one(&schema).expect("a document");
        let columns = &schema.root.expect("a value").to_json()["spec"]["versions"][0]["additionalPrinterColumns"];
        all_columns.push_str(&format!("# {operator}\n{}", sync_engine::yaml::write(columns)));
    }
    assert_snapshot!("columns", all_columns);
}

/// Elasticsearch says `phase: Ready`, and has conditions without a `Ready` among them.
#[test]
fn ready_is_read_where_the_operator_writes_it() {
    let root = made("elasticsearch");
    let of_kit = |path: &str| read(root.path().join("kit").join(path));
    let (operator, schema) = (of_kit("examples/operator.yaml"), of_kit("schemas/apiresourceschema.yaml"));
    assert!(operator.contains("phase: Ready") && !operator.contains("conditions"), "{operator}");
    assert!(!schema.contains("scheduler") && !schema.contains("allowCrossNamespaceImport"), "{schema}");
}

#[test]
fn what_it_writes_runs_in_the_sandbox() {
    for (operator, _) in OPERATORS {
        let root = made(operator);
        let story = shown_in(&root, &["sandbox", "ROOT/kit", "--exit-when-synced"]);
        assert!(story.starts_with("exit 0\n"), "{operator}: {story}");
        assert!(story.contains("\n2 of 2 ") && story.contains(" in their workspaces"), "{operator}: {story}");
    }
}

#[test]
fn it_says_what_it_wrote_and_overwrites_nothing() {
    let root = made("redis");
    let crd = "tests/verbs/crds/redis.yaml";
    assert_snapshot!(shown_in(&root, &["init", "ROOT/more", "-f", crd, "--name", "cache"]));
    assert_snapshot!(shown_in(&root, &["init", "ROOT/kit", "-f", crd]), @"
    exit 3
    stderr:
    error: cannot write `ROOT/kit`: it holds something already; name another folder
    ");
    assert_snapshot!("readme", read(root.path().join("more/README.md")));
    assert_snapshot!("schema", read(root.path().join("more/schemas/apiresourceschema.yaml")));
}

#[test]
fn it_says_why_nothing_can_be_offered() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let lines = [
        "init ROOT/kit -f tests/verbs/crds/issuer.yaml",
        "init ROOT/kit -f tests/verbs/crds/issuer.yaml --kind Isuer",
        "init ROOT/kit -f tests/verbs/crds/issuer.yaml --kind ClusterIssuer",
        "init ROOT/kit -f tests/verbs/crds/issuer.yaml --kind Issuer",
        "init ROOT/kit -f mappings/mongodb.yaml",
        "init ROOT/kit -f ROOT/missing.yaml",
    ];
    assert_snapshot!(said(&root, lines).replace("exit 3\nstderr:\n", ""), @"
    error: `tests/verbs/crds/issuer.yaml`: it defines several kinds: ClusterIssuer, Issuer; choose one with --kind
    error: `tests/verbs/crds/issuer.yaml`: it defines no kind `Isuer`; it defines ClusterIssuer, Issuer
    error: `tests/verbs/crds/issuer.yaml`: ClusterIssuer is cluster-scoped: an object of it belongs to no tenant, so none can be made for one; take a kind that lives in a namespace, and let the cluster's owner make this one beforehand
    error: `tests/verbs/crds/issuer.yaml`: version v1 of Issuer has no schema with fields, so there is nothing to offer
    error: `mappings/mongodb.yaml`: it holds no CustomResourceDefinition (apiextensions.k8s.io/v1)
    error: cannot read `ROOT/missing.yaml`: it does not exist
    ");
    assert!(!root.path().join("kit").exists(), "nothing is written");
}
