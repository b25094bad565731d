//! `sync-engine diff`: two directories, and live clusters.

use insta::assert_snapshot;

use super::live::Live;
use super::{GOOD, SOURCE, broken, directory, read, run, said, shown_in};

const SAME: &str = "exit 0\nstderr:\nno difference\n";

#[test]
fn two_directories_are_compared_over_sources() {
    let after =
        GOOD.replace("spec: {size:", "spec: {plan: small, size:").replace("default: Pending", "default: Waiting");
    let root = directory(&[
        ("old/a.yaml", GOOD),
        ("new/a.yaml", &after),
        ("gone/a.yaml", &GOOD.replace("name: databases}\n", "name: other}\n").replace("databases.v1", "caches.v1")),
        ("bad/a.yaml", &broken()),
        ("sources/a.yaml", SOURCE),
        ("sources/testdata/b.yaml", &SOURCE.replace("name: a", "name: b")),
    ]);
    assert_eq!(said(&root, ["diff ROOT/old ROOT/old -f ROOT/sources"]), SAME);
    assert_snapshot!("text", said(&root, ["diff ROOT/old ROOT/new -f ROOT/sources"]));
    assert_snapshot!("table", said(&root, ["diff ROOT/old ROOT/gone -f ROOT/sources -o table"]));
    assert_snapshot!("yaml", said(&root, ["diff ROOT/old ROOT/new -f ROOT/sources -o yaml"]));
    let refused = [
        "diff ROOT/old ROOT/new",
        "diff ROOT/old ROOT/new -f examples/mongodb/mongodb.yaml",
        "diff ROOT/old ROOT/new -f ROOT/sources -n nowhere",
        "diff ROOT/old ROOT/new -f ROOT/sources/testdata",
    ];
    assert_snapshot!(said(&root, refused), @"
    exit 2
    stderr:
    error: give the source objects to compare with: -f FILE or DIR
    exit 3
    stderr:
    error: no mapping takes any of the source objects; the mappings take databases.v1.example.dev
    exit 3
    stderr:
    error: no source object is in the namespace, or has the labels, that --namespace and --selector ask for
    exit 3
    stderr:
    error: there is no source object in `ROOT/sources/testdata`
    ");
    assert!(said(&root, ["diff ROOT/old ROOT/bad -f ROOT/sources"]).starts_with("exit 3\n"));
}

/// What cannot be rendered any more is not deleted, and neither is what a removed mapping made.
#[test]
fn what_the_engine_keeps_is_not_said_to_be_deleted() {
    let after = GOOD.replace("spec: {size:", "spec: {plan: \"${{ source.spec.plan }}\", size:");
    let root = directory(&[
        ("old/a.yaml", GOOD),
        ("new/a.yaml", &after),
        ("gone/a.yaml", &GOOD.replace("name: databases}\n", "name: other}\n").replace("databases.v1", "caches.v1")),
        ("sources/a.yaml", SOURCE),
    ]);
    assert_ne!(after, GOOD);
    for (new, why) in [("ROOT/new", "RenderFailed: object `db`"), ("ROOT/gone", "onMappingRemoved: Retain")] {
        for format in ["text", "table", "yaml", "json"] {
            let said = shown_in(&root, &["diff", "ROOT/old", new, "-f", "ROOT/sources", "-o", format]);
            assert!(said.starts_with("exit 1\n"), "{said}");
            assert!(said.contains("keep") && said.contains(why) && !said.contains("delete"), "{new} {format}: {said}");
        }
    }
    // The release is told as the engine tells it.
    let said = shown_in(&root, &["diff", "ROOT/old", "ROOT/new", "-f", "ROOT/sources"]);
    let told = ["mapping databases: 1 newly failing", "rehearsed on 1 of 1 source; servers were not asked"];
    let held = "mapping databases: an engine would hold this: 1 source that is in sync would not be";
    assert!(told.iter().all(|told| said.contains(told)) && said.contains(held), "{said}");
}

/// The new document is compared on what the old one has made.
#[test]
fn an_edit_of_identity_does_what_the_engine_does() {
    let named = GOOD.replace("kind: Cluster, spec", "kind: Cluster, metadata: {name: '{{ placement.name }}-x'}, spec");
    let policy = |policy: &str| named.replace("- id: db\n", &format!("- id: db\n      onIdentityChange: {policy}\n"));
    let put = |part: &str| GOOD.replace("  objects:\n", &format!("  {part}\n  objects:\n"));
    let gone = "Cluster default-dxrcslzy2prezvhl/a ";
    let held = "an engine would hold this";
    let edits: [(String, &[&str]); 11] = [
        (
            put("placement: {name: '{{ source.metadata.name }}-new'}"),
            &["exit 0", "0 newly failing", "0 objects created, 0 lost"],
        ),
        (
            named.clone(),
            &["keep", "IdentityChanged: object `db`", "1 newly failing", "0 objects created, 0 lost", held],
        ),
        (
            GOOD.replace("kind: Cluster", "kind: Other"),
            &["keep", "and would become Other default-dxrcslzy2prezvhl/a:", "1 newly failing", "0 lost", held],
        ),
        (policy("Orphan"), &["give up", "onIdentityChange: Orphan", "create", " lost; ", held]),
        (policy("Recreate"), &["delete", "onIdentityChange: Recreate", "create", " lost; ", held]),
        (
            put("target: {cluster: west}"),
            &["keep", "`target` is not a target of the mapping any more", "(pinned target=target, found west", held],
        ),
        (
            GOOD.replace("{tier: managed}}", "{tier: other}}\n    onExit: Delete"),
            &["delete", "its source left the mapping's filter", "release Database default/a", "1 newly failing", held],
        ),
        (GOOD.replace("databases.v1.", "databases.v2."), &["exit 0", "rehearsed on 0 of 1"]),
        (
            named.replace("  objects:\n", "  mode: Suspend\n  objects:\n"),
            &["exit 0", "its mode is Suspend, so the engine runs deletions alone", "0 newly failing"],
        ),
        (
            GOOD.replace("databases.v1.", "caches.v1."),
            &["blocked", "it would serve caches.example.dev instead of databases.example.dev"],
        ),
        (GOOD.replace("name: databases}\n", "name: other}\n"), &["keep", "Conflict: object `db`", "of main.databases"]),
    ];
    for (edited, expected) in edits {
        assert_ne!(edited, GOOD);
        let root = directory(&[("old/a.yaml", GOOD), ("new/a.yaml", &edited), ("sources/a.yaml", SOURCE)]);
        let said = shown_in(&root, &["diff", "ROOT/old", "ROOT/new", "-f", "ROOT/sources"]);
        assert!(expected.iter().all(|part| said.contains(part)), "{edited}\n{said}");
        assert!(said.starts_with("exit 0") || said.contains(gone) || said.contains("blocked"), "{said}");
        let is_replaced = edited.contains("Orphan") || edited.contains("Recreate");
        assert_eq!(said.contains("\ncreate "), is_replaced, "{edited}\n{said}");
    }
}

/// A document that leaves a source alone says nothing of what there is of it, and one that keeps the same changes nothing.
#[test]
fn an_object_that_exists_is_not_created_for_a_source_that_the_document_before_excludes() {
    let excluding = GOOD.replace("{tier: managed}}", "{tier: other}}");
    let root = directory(&[
        ("old/a.yaml", &excluding),
        ("new/a.yaml", GOOD),
        ("other/a.yaml", &excluding.replace("tier: other", "tier: another")),
        ("sources/a.yaml", SOURCE),
        ("observed.yaml", "apiVersion: example.dev/v1\nkind: Cluster\nmetadata: {name: a}\nspec: {size: 3}\n"),
    ]);
    let [taken_in, excluded] = ["new", "other"].map(|new| {
        let line = format!("diff ROOT/old ROOT/{new} -f ROOT/sources --observed ROOT/observed.yaml");
        said(&root, [line.as_str()])
    });
    assert!(taken_in.starts_with("exit 1\n") && !taken_in.contains("\ncreate "), "{taken_in}");
    assert!(excluded.starts_with("exit 0\n") && !excluded.contains("keep"), "{excluded}");
}

/// What an engine wrote on a source that comes from a cluster is no news.
#[test]
fn a_source_of_a_cluster_is_compared_as_one_of_a_file() {
    let marks = "resourceVersion: '7', finalizers: [sync-engine.dev/main.databases], \
        annotations: {target.sync-engine.dev/main.databases: target=abc}, labels";
    let after = GOOD.replace("spec: {size:", "spec: {plan: small, size:");
    let source = SOURCE.replace("labels", marks);
    let root = directory(&[("old/a.yaml", GOOD), ("new/a.yaml", &after), ("sources/a.yaml", &source)]);
    assert_eq!(said(&root, ["diff ROOT/old ROOT/old -f ROOT/sources"]), SAME);
    let said = said(&root, ["diff ROOT/old ROOT/new -f ROOT/sources"]);
    assert!(said.contains("\nupdate Cluster") && said.contains("0 newly failing, 1 updated"), "{said}");
    assert!(!said.contains("take on"), "{said}");
}

#[test]
fn a_change_of_mapping_is_compared_with_live_clusters() {
    let live = Live::mongodb();
    assert_eq!(live.shown(&["diff", "mappings"]), SAME, "the engine has nothing to do");
    let shipped = read("mappings/mongodb.yaml");
    let labelled = "kind: MongoDBCommunity\n        metadata: {labels: {offered-by: platform}}\n        spec";
    let edited = shipped.replace("kind: MongoDBCommunity\n        spec", labelled).replacen(
        "kind: ServiceAccount\n",
        "kind: ServiceAccount\n        automountServiceAccountToken: false\n",
        1,
    );
    assert_ne!(edited, shipped);
    let root = directory(&[("maps/mongodb.yaml", &edited)]);
    let path = root.path().join("maps").display().to_string();
    assert_snapshot!("live", live.shown(&["diff", &path]));
    assert_eq!(live.shown(&["diff", "mappings"]), SAME, "nothing was written");
    // The release is told as the engine tells it, once servers were asked.
    let dropped = shipped.replace("    - id: db\n", "    - id: db\n      when: ${{ false }}\n");
    let demanding = "${{ (source.spec if source.spec.members > 99 else null) | required(\"too few\") }}";
    let failing =
        shipped.replace("        spec: ${{ source.spec }}\n", &format!("        spec: >-\n          {demanding}\n"));
    let (asked, held) =
        ("on 2 of 2 sources; servers were asked", "mapping `mongodb`: the engine would hold this: 2 sources");
    // What sources share goes with the edit as well, where none of the same namespace needs it.
    let (before, after) = shipped.split_once("    - id: role\n").expect("the Role");
    let (_, after) = after.split_once("    - id: db\n").expect("the database");
    let unshared = format!("{before}    - id: db\n{after}");
    for (edited, counted, is_held) in [
        (&dropped, "0 objects created, 2 lost", false),
        (&unshared, "0 objects created, 4 lost", false),
        (&failing, "mapping `mongodb`: 2 newly failing", true),
    ] {
        let root = directory(&[("maps/mongodb.yaml", edited)]);
        let said = live.shown(&["diff", &root.path().join("maps").display().to_string()]);
        assert!(said.contains(asked) && said.contains(counted), "{said}");
        assert_eq!(said.contains(held), is_held, "{said}");
    }
}

#[test]
fn what_cannot_be_read_is_said() {
    let root = directory(&[("kubeconfig", UNREACHABLE)]);
    let kubeconfig = root.path().join("kubeconfig").display().to_string();
    let output = run(&["diff", "mappings", "--kcp-kubeconfig", &kubeconfig, "--target-kubeconfig", &kubeconfig]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.starts_with("error: mapping `mongodb`: ") && error.contains("127.0.0.1:1"), "{error}");
}

/// Nothing listens on port 1.
pub const UNREACHABLE: &str = "\
apiVersion: v1
kind: Config
clusters: [{name: it, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: it, user: {}}]
contexts: [{name: it, context: {cluster: it, user: it}}]
current-context: it
";
