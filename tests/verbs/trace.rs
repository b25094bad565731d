//! `sync-engine trace`, asked of a real engine, and decided again without one.

use std::time::{Duration, Instant};

use insta::assert_snapshot;
use regex::Regex;
use serde_json::{Value, json};
use sync_engine::sandbox::{ApiRef, Claim, Failure, Fault};

use super::scene::{CONFIG_MAPS, Scene, THINGS};
use super::{read, shown_in};

const MAPPING: &str = "\
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: things}
spec:
  source:
    apiExport: {name: things, path: root:provider}
    resource: things.v1.example.com
  objects:
    - id: login
      template: {apiVersion: v1, kind: Secret, stringData: {password: \"${{ source.spec.password }}\"}}
    - id: settings
      drift: Report
      template:
        apiVersion: v1
        kind: ConfigMap
        data:
          size: \"{{ source.spec.size }}\"
          url: \"db://it:{{ source.spec.password }}@db\"
";

/// Longer than anything here takes, on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(60);

impl Scene {
    async fn new() -> Self {
        // The first document of its file is another one.
        Self::traced(&format!("# none\n---\n{MAPPING}")).await
    }

    async fn traced(mapping: &str) -> Self {
        let scene = Self::set(mapping, &[THINGS], &[Claim { group: "", resource: "secrets" }], &[]).await;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scene.placed()}});
        scene.target.create(ApiRef { cluster: "", resource: "namespaces.v1" }, &namespace).expect("a namespace");
        scene
    }

    fn order(&self, name: &str) {
        self.thing(name, json!({"password": "hunter22", "size": 3}));
    }

    /// What a verb prints, without what differs from run to run. What is remembered depends on how fast the engine is.
    fn shown(&self, arguments: &[&str]) -> String {
        let said = tokio::task::block_in_place(|| shown_in(&self.root, arguments));
        let said =
            said.replace(&self.placed(), "PLACED").replace(&self.acme, "ACME").replace(&self.target.url(), "TARGET");
        let said = said.split("waits for\n").next().unwrap_or_default().to_owned();
        let volatile = [
            (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME"),
            ("redacted-[0-9a-f]{16}", "MASK"),
            ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
            (r"\b[a-z2-7]{16}\b", "HASH"),
            (r"(no answer from \S+): .*", "$1: WHY"),
        ];
        volatile.into_iter().fold(said, |said, (pattern, name)| {
            Regex::new(pattern).expect("a pattern").replace_all(&said, name).into_owned()
        })
    }

    /// The same once it has a part, and nothing is about to be written.
    fn shows(&self, arguments: &[&str], part: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let said = self.shown(arguments);
            if said.contains(part) && !said.contains("\nnext\n") {
                return said;
            }
            assert!(Instant::now() < until, "no `{part}` in {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_is_traced_by_its_name_by_its_object_and_from_a_file() {
    let scene = Scene::new().await;
    // Helm's, where the engine would make one.
    let metadata =
        json!({"name": "a", "namespace": scene.placed(), "labels": {"app.kubernetes.io/managed-by": "Helm"}});
    let foreign = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"size": "theirs"}});
    scene.target.create(CONFIG_MAPS, &foreign).expect("an object");
    ["a", "b"].iter().for_each(|name| scene.order(name));
    let engine = scene.engine(&[]);
    let console = engine.console();
    let asked = |what: &[&str]| scene.shown(&[&["trace", "--console", &console], what].concat());
    let by_name = |name| ["trace", "--console", &console, "things", "root:acme", name];
    let conflict = scene.shows(&by_name("default/a"), "Conflict: ");
    assert_snapshot!("conflict", conflict);
    assert_eq!(asked(&["things", &scene.acme, "default/a"]), conflict, "by its cluster");
    assert_snapshot!("in-sync", scene.shows(&by_name("default/b"), "in sync"));

    // Somebody edits what the mapping only reports.
    let edit = json!({"data": {"size": "5", "url": "db://it:hunter22@elsewhere"}});
    scene.target.merge(CONFIG_MAPS, &scene.placed(), "b", &edit).expect("an edit");
    let object = format!("{}/b", scene.placed());
    let by_object = ["trace", "--console", &console, "--object", "ConfigMap", &object, "--save", "ROOT/b.json"];
    assert_snapshot!("drift", scene.shows(&by_object, "ReportDrift"));
    assert_snapshot!(
        "unknown",
        [
            asked(&["things", "root:acme", "default/c"]),
            asked(&["things", "root:acme", "a"]),
            asked(&["other", "root:acme", "default/a"]),
            asked(&["--object", "Secret", "default/x"]),
            asked(&["things", "root:acme", "a/b/c"]),
        ]
        .join("\n")
    );

    // Nothing listens any more.
    let placed = scene.placed();
    drop((engine, scene.kcp, scene.target));
    let path = scene.root.path().join("b.json");
    let kept = read(&path);
    for secret in ["hunter22", "aHVudGVyMjI="] {
        assert!(!kept.contains(secret), "{secret}");
    }
    let replay = |file: &str| shown_in(&scene.root, &["trace", "--replay", file, "-o", "json"]);
    let replayed = replay("ROOT/b.json");
    assert!(replayed.contains("\"reason\": \"Waiting\"") && replayed.contains("ReportDrift"), "{replayed}");
    assert_snapshot!(
        "table",
        shown_in(&scene.root, &["trace", "--replay", "ROOT/b.json", "-o", "table"]).replace(&placed, "PLACED")
    );
    let mut older: Value = serde_json::from_str(&kept).expect("JSON");
    older["version"] = json!("0.0.9");
    std::fs::write(&path, older.to_string()).expect("a file");
    assert_snapshot!("older", replay("ROOT/b.json"));
    std::fs::write(&path, "kind: Mapping").expect("a file");
    assert_snapshot!("no-trace", replay("ROOT/b.json"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_stands_by_says_who_leads_and_what_the_state_store_says() {
    let scene = Scene::new().await;
    scene.order("a");
    let leader = scene.engine(&["--leader-elect", "lease", "--replica", "one"]);
    let first = leader.console();
    let status = |console: &str, part: &str| scene.shows(&["status", "--console", console], part);
    status(&first, "things    1         1         2");
    let standby = scene.engine(&["--leader-elect", "lease", "--replica", "two"]);
    let second = standby.console();
    assert_snapshot!("standby", status(&second, "standby: in force"));
    let traced = ["trace", "--console", &second, "things", "root:acme", "default/a"];
    assert_snapshot!("standby-trace", scene.shown(&traced));
    // The order of the first two depends on the machine.
    let changes = scene.shown(&["status", "--console", &first, "--changes", "--reason", "DocumentLoaded"]);
    assert_snapshot!("changes", changes);
    let elected = scene.shown(&["status", "--console", &first, "--changes", "--reason", "LeaderElected", "-o", "json"]);
    assert!(elected.contains("\"message\": \"one leads\""), "{elected}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_wrong_in_files_is_reported_at_once() {
    let scene = Scene::traced(&MAPPING.replace("template:", "tempalte:")).await;
    let broken = "apiVersion: sync-engine.dev/v1alpha1\nkind: {Mapping\n";
    std::fs::write(scene.root.path().join("maps/broken.yaml"), broken).expect("a file");
    let engine = scene.engine(&[]);
    let console = engine.console();
    for wrong in ["unknown field `tempalte`", "unknown field `tempalte`", "broken.yaml:2:7"] {
        tokio::task::block_in_place(|| engine.line(wrong));
    }
    assert_snapshot!("refused-edit", scene.shows(&["status", "--console", &console], "errors in documents"));
}

/// Nothing is wrong: the engine does what `release` asks of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_edit_is_a_warning_and_a_refused_one_an_error() {
    let mapping = MAPPING.replace("  objects:\n", "  release: {maxLost: {objects: 0}}\n  objects:\n");
    let scene = Scene::traced(&mapping).await;
    scene.order("a");
    let engine = scene.engine(&[]);
    let console = engine.console();
    scene.shows(&["status", "--console", &console], "things    1         1         2");
    let edit = |text: String, said: &str| {
        std::fs::write(scene.root.path().join("maps/a.yaml"), text).expect("a file");
        engine.signal("HUP");
        tokio::task::block_in_place(|| engine.line(said))
    };
    let (before, rest) = mapping.split_once("    - id: login\n").expect("the first object");
    let (_, after) = rest.split_once("    - id: settings\n").expect("the second object");
    let held = edit(format!("{before}    - id: settings\n{after}"), "an edit is held");
    assert!(held.contains("WARN") && held.contains("`sync-engine approve things`"), "{held}");
    let refused = edit(mapping.replace("things.v1", "gadgets.v1"), "an edit is refused");
    assert!(refused.contains("ERROR"), "{refused}");
}

/// Each source has a trouble of its own.
const TROUBLES: &str = "\
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: things}
spec:
  source:
    apiExport: {name: things, path: root:provider}
    resource: things.v1.example.com
    selector: {matchLabels: {tier: managed}}
  lifecycle: {onSourceRecreated: Block, onMappingRemoved: Delete}
  release: {maxLost: {objects: 0}}
  related:
    - id: password
      direction: ToTarget
      resource: secrets.v1
      forEach: ${{ source.spec.secrets | default([]) }}
      as: secret
      key: ${{ secret }}
      from: {name: \"{{ secret }}\"}
      to: {name: \"{{ placement.name }}-{{ secret }}\"}
  objects:
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, data: {size: \"{{ source.spec.size }}\"}}
    - id: later
      dependsOn: [settings]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: \"{{ placement.name }}-later\"}, data: {a: b}}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_trouble_is_traced_on_a_running_engine() {
    let scene = Scene::traced(TROUBLES).await;
    let denied = Failure::status(403, "Forbidden", "configmaps \"refused\" is forbidden: no".to_owned());
    scene.target.faults().inject(move |call| {
        (call.resource == "configmaps" && call.name == "refused").then(|| Fault::Refuse(denied.clone()))
    });
    let engine = scene.engine(&[]);
    let console = engine.console();
    let mut told = Vec::new();
    let mut tell = |scene: &Scene, console: &str, name: &str, reason: &str| {
        let source = format!("default/{name}");
        let arguments = ["trace", "--console", console, "things", "root:acme", &source];
        told.push(scene.shows(&arguments, &format!("  {reason}: ")));
    };
    let is_synced = |scene: &Scene, console: &str, name: &str| {
        let source = format!("default/{name}");
        scene.shows(&["trace", "--console", console, "things", "root:acme", &source], ": in sync\n");
    };

    scene.thing("unrendered", json!({}));
    scene.thing("refused", json!({"size": 1}));
    scene.thing("claims", json!({"size": 1, "secrets": ["login"]}));
    ["plain", "out", "hangs"].iter().for_each(|name| scene.thing(name, json!({"size": 1})));
    tell(&scene, &console, "unrendered", "RenderFailed");
    tell(&scene, &console, "refused", "Refused");
    tell(&scene, &console, "claims", "ClaimNotAccepted");
    let refused = ["status", "--console", &console, "--reason", "Refused"];
    scene.shows(&refused, "default/refused of root:acme (mapping things, target target)");
    scene.shows(&["status", "--console", &console], "the first is root:acme|default/refused: ");
    ["plain", "out", "hangs"].iter().for_each(|name| is_synced(&scene, &console, name));

    scene.kcp.merge(scene.things(), "default", "out", &json!({"metadata": {"labels": null}})).expect("an edit");
    tell(&scene, &console, "out", "Retained");
    let holds = json!({"metadata": {"finalizers": ["operator.example.com/hold"]}});
    scene.target.merge(CONFIG_MAPS, &scene.placed(), "hangs", &holds).expect("an edit");
    scene.kcp.delete(scene.things(), "default", "hangs").expect("a deletion");
    tell(&scene, &console, "hangs", "Deleting");

    // kcp is restored, and the consumer creates what is lost once more.
    let backup = scene.kcp.backup();
    scene.thing("lost", json!({"size": 1}));
    is_synced(&scene, &console, "lost");
    scene.kcp.restore(&backup);
    tell(&scene, &console, "lost", "Orphaned");
    // The server's next uid is another one.
    scene.thing("between", json!({"size": 1}));
    scene.thing("lost", json!({"size": 1}));
    tell(&scene, &console, "lost", "Recreated");

    for name in ["between", "claims"] {
        scene.kcp.delete(scene.things(), "default", name).expect("a deletion");
    }

    // An edit drops an object while it counts nothing of a source that cannot be rendered.
    let size = |size: Value| {
        scene.kcp.merge(scene.things(), "default", "plain", &json!({"spec": {"size": size}})).expect("an edit");
    };
    size(Value::Null);
    let arguments = ["trace", "--console", &*console, "things", "root:acme", "default/plain"];
    scene.shows(&arguments, "  RenderFailed: ");
    let (without_later, _) = TROUBLES.split_once("    - id: later\n").expect("the last object");
    std::fs::write(scene.root.path().join("maps/a.yaml"), without_later).expect("a file");
    engine.signal("HUP");
    tokio::task::block_in_place(|| engine.line("the document in the file is in force now"));
    size(json!(1));
    tell(&scene, &console, "plain", "Held");
    std::fs::write(scene.root.path().join("maps/a.yaml"), TROUBLES).expect("a file");
    engine.signal("HUP");
    is_synced(&scene, &console, "plain");

    // No answer any more.
    scene.target.faults().inject(|_| Some(Fault::DropBefore));
    scene.kcp.merge(scene.things(), "default", "plain", &json!({"spec": {"size": 2}})).expect("an edit");
    tell(&scene, &console, "plain", "Unknown");
    drop(engine);
    std::fs::write(scene.root.path().join("target"), scene.edge.kubeconfig(None)).expect("a file");
    let engine = scene.engine(&[]);
    let console = engine.console();
    tell(&scene, &console, "plain", "TargetChanged");
    assert_snapshot!("troubles", told.join("\n"));
}
