//! `sync-engine schema`: what `pull` copies and `build` writes is enough for the checks.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use sync_engine::sandbox::{Call, Failure, Fault};

use super::live::Live;
use super::orphans::MAPPING;
use super::scene::{Scene, THINGS};
use super::{read, shown_in};

#[test]
fn what_is_pulled_is_what_mappings_are_checked_against() {
    let live = Live::mongodb();
    let root = tempfile::tempdir().expect("a temporary directory");
    let schemas = root.path().join("schemas").display().to_string();
    let said = live.shown(&["schema", "pull", "mappings", "--schemas", &schemas]).replace(&schemas, "SCHEMAS");
    assert!(said.contains("wrote SCHEMAS/kcp/v1.mongodbcommunity.mongodbcommunity.mongodb.com.yaml\n"), "{said}");
    assert!(said.contains("wrote SCHEMAS/target/mongodbcommunity.mongodbcommunity.mongodb.com.yaml\n"), "{said}");
    let checked = shown_in(&root, &["validate", "mappings", "--schemas", "ROOT/schemas"]);
    assert_eq!(checked, "exit 0\n1 mapping in 1 file, nothing wrong\n");
    let trap = ["validate", "tests/ui/checks/status.yaml", "--schemas", "ROOT/schemas", "-o", "github"];
    assert!(!shown_in(&root, &trap).contains("SE0130"), "the copies are schemas");
}

#[test]
fn what_is_not_to_be_had_is_said() {
    let live = Live::mongodb();
    let root = tempfile::tempdir().expect("a temporary directory");
    let shipped = read("mappings/mongodb.yaml");
    let path = root.path().join("mongodb.yaml");
    let pull = |text: String| {
        std::fs::write(&path, text).expect("a file");
        let (path, schemas) = (path.display().to_string(), root.path().join("schemas").display().to_string());
        let said = live.shown(&["schema", "pull", &path, "--schemas", &schemas]);
        let said = said.replace(&root.path().display().to_string(), "ROOT");
        let lines = said.lines().filter(|line| !line.contains("openapi."));
        // The port is another each time.
        lines.map(|line| line.split(" in http").next().unwrap_or(line).to_owned() + "\n").collect::<String>()
    };
    let unknown = shipped.replacen("kind: MongoDBCommunity", "kind: Postgres", 1);
    let said = pull(unknown.replacen("apiVersion: mongodbcommunity.mongodb.com/v1", "apiVersion: postgres.dev/v1", 1));
    assert!(said.starts_with("exit 1\n"), "{said}");
    assert!(said.contains("not found: target `target`: Postgres (postgres.dev/v1) is not served there"), "{said}");
    assert_snapshot!(pull(shipped.replace("{name: mongodb, path", "{name: other, path")), @"
    exit 3
    stderr:
    error: mapping `mongodb`: there is no APIExport `other`
    ");
}

/// The rights of an engine do not suffice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_that_rbac_does_not_print_are_named() {
    let scene = Scene::set(MAPPING, &[THINGS], &[], &[]).await;
    let pull = || scene.said(&["schema", "pull", "ROOT/maps"], &["--schemas", "ROOT/schemas"]);
    let denied = |what: &str| Failure::status(403, "Forbidden", format!("{what} is forbidden: no"));
    let refuse = |resource: &'static str| {
        let denied = denied(resource);
        move |call: &Call| (call.resource == resource).then(|| Fault::Refuse(denied.clone()))
    };
    scene.target.faults().inject(refuse("/openapi"));
    assert_snapshot!(pull(), @"
    exit 3
    stderr:
    error: mapping `things`: /openapi is forbidden: no (403 Forbidden); an engine does not need this right, so `sync-engine rbac` does not print it: let your user get the path `/openapi/v3/*` of the target, or give the kubeconfig of one who may
    ");
    scene.kcp.faults().inject(refuse("apiresourceschemas"));
    assert_snapshot!(pull(), @"
    exit 3
    stderr:
    error: mapping `things`: apiresourceschemas is forbidden: no (403 Forbidden); an engine does not need this right, so `sync-engine rbac` does not print it: let your user get `apiresourceschemas` of `apis.kcp.io` in that workspace, or give the kubeconfig of one who may
    ");
}

/// Both versions are published, and the mapping reads the new one.
#[test]
fn an_api_moves_to_a_new_version() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let example = Path::new("examples/minio");
    let copied = [
        "mappings/minio.yaml",
        "schemas/apischema.yaml",
        "schemas/crd.yaml",
        "examples/store.yaml",
        "examples/operator.yaml",
    ];
    for file in copied {
        let text = read(example.join(file));
        let new = "objectstores.v1.minio.example.com";
        let versions = format!("  resource: {new}\n  versions: {{v1alpha1: {{deprecated: use v1}}}}\n  kind:");
        let text = text.replace("  resource: objectstores.v1alpha1.minio.example.com\n  kind:", &versions);
        let text = text.replace("objectstores.v1alpha1.minio.example.com", new);
        let text = text.replace("minio.example.com/v1alpha1", "minio.example.com/v1");
        let path = root.path().join("kit").join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    let built = shown_in(&root, &["schema", "build", "ROOT/kit/schemas/apischema.yaml"]);
    assert!(built.starts_with("exit 0\n"), "{built}");
    let schema = read(root.path().join("kit/schemas/apiresourceschema.yaml"));
    let schema = sync_engine::yaml::parse_one(&schema).expect("a document").root.expect("a value").to_json();
    let spec = &schema["spec"];
    assert_eq!(spec["conversion"]["strategy"], "None");
    let told = |field: &str| [&spec["versions"][0][field], &spec["versions"][1][field]].map(ToString::to_string);
    assert_eq!(told("name"), ["\"v1\"", "\"v1alpha1\""]);
    assert_eq!(
        (told("served"), told("storage")),
        (["true", "true"].map(str::to_owned), ["true", "false"].map(str::to_owned))
    );
    assert_eq!(told("deprecationWarning"), ["null", "\"use v1\""]);
    assert_eq!(spec["versions"][0]["schema"], spec["versions"][1]["schema"]);

    assert_eq!(shown_in(&root, &["validate", "ROOT/kit"]), "exit 0\n1 mapping in 1 file, nothing wrong\n");
    // A consumer that has not moved yet.
    let old = read(example.join("examples/store.yaml")).replace("pictures", "drawings");
    assert!(old.contains("minio.example.com/v1alpha1"), "{old}");
    fs::write(root.path().join("kit/examples/old.yaml"), old).expect("a file");
    let story = shown_in(&root, &["sandbox", "ROOT/kit", "--exit-when-synced"]);
    assert!(story.contains("4 of 4 source objects are ready in their workspaces"), "{story}");
}
