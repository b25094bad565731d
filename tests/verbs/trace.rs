//! `sync-engine trace`, asked of a real engine, and decided again without one.

use std::time::{Duration, Instant};

use insta::assert_snapshot;
use regex::Regex;
use serde_json::{Value, json};
use sync_engine::object::hash::tuple_hash;
use sync_engine::sandbox::{ApiRef, Claim, Failure, Fault, Options, Sandbox, anything, resource_schema};
use tempfile::TempDir;

use super::program::Running;
use super::{directory, shown_in};

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

const CONFIG_MAPS: ApiRef<'_> = ApiRef { cluster: "", resource: "configmaps.v1" };

/// Longer than anything here takes, on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(60);

struct Scene {
    kcp: Sandbox,
    target: Sandbox,
    acme: String,
    root: TempDir,
}

impl Scene {
    async fn new() -> Self {
        // The first document of its file is another one.
        Self::of(&format!("# none\n---\n{MAPPING}")).await
    }

    async fn of(mapping: &str) -> Self {
        let kcp = Options::kcp().start().await.expect("starts");
        let target = Options::kubernetes().start().await.expect("starts");
        let [_, acme] = ["provider", "acme"].map(|name| kcp.create_workspace("root", name).expect("a workspace"));
        let schema = resource_schema("things.v1.example.com", "Thing", &anything());
        let claims = [Claim { group: "", resource: "secrets" }];
        kcp.publish("root:provider", "things", &[schema], &claims).expect("an export");
        kcp.bind(&acme, "root:provider", "things", &[]).expect("a binding");
        let root = directory(&[
            ("maps/a.yaml", mapping),
            ("kcp", &kcp.kubeconfig(None)),
            ("target", &target.kubeconfig(None)),
        ]);
        let scene = Self { kcp, target, acme, root };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scene.placed()}});
        scene.target.create(ApiRef { cluster: "", resource: "namespaces.v1" }, &namespace).expect("a namespace");
        scene
    }

    fn things(&self) -> ApiRef<'_> {
        ApiRef { cluster: &self.acme, resource: "things.v1.example.com" }
    }

    fn thing(&self, name: &str) {
        self.thing_of(name, json!({"password": "hunter22", "size": 3}));
    }

    fn thing_of(&self, name: &str, spec: Value) {
        let metadata = json!({"name": name, "namespace": "default", "labels": {"tier": "managed"}});
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "spec": spec});
        self.kcp.create(self.things(), &thing).expect("a source");
    }

    /// A ConfigMap of Helm's where the engine would make one.
    fn foreign(&self, name: &str) {
        let metadata = json!({
            "name": name, "namespace": self.placed(), "labels": {"app.kubernetes.io/managed-by": "Helm"},
        });
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"size": "theirs"}});
        self.target.create(CONFIG_MAPS, &object).expect("an object");
    }

    fn engine(&self, flags: &[&str]) -> (Running, String) {
        let engine = Running::engine(self.root.path(), flags);
        let console = engine.console();
        (engine, console)
    }

    fn placed(&self) -> String {
        format!("default-{}", tuple_hash([&*self.acme, "default"], 10))
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
    scene.foreign("a");
    ["a", "b"].iter().for_each(|name| scene.thing(name));
    let (engine, console) = scene.engine(&[]);
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
    let kept = std::fs::read_to_string(&path).expect("the saved trace");
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
    scene.thing("a");
    let (_leader, first) = scene.engine(&["--leader-elect", "lease", "--replica", "one"]);
    let status = |console: &str, part: &str| scene.shows(&["status", "--console", console], part);
    status(&first, "things    1         1         2");
    let (_standby, second) = scene.engine(&["--leader-elect", "lease", "--replica", "two"]);
    assert_snapshot!("standby", status(&second, "standby: in force"));
    let traced = ["trace", "--console", &second, "things", "root:acme", "default/a"];
    assert_snapshot!("standby-trace", scene.shown(&traced));
    // The order of the first two depends on the machine.
    let changes = scene.shown(&["status", "--console", &first, "--changes", "--reason", "DocumentLoaded"]);
    assert_snapshot!("changes", changes);
    let elected = scene.shown(&["status", "--console", &first, "--changes", "--reason", "LeaderElected", "-o", "json"]);
    assert!(elected.contains("\"message\": \"one leads\""), "{elected}");
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
    let scene = Scene::of(TROUBLES).await;
    let edge = Options::kubernetes().seed("edge").start().await.expect("starts");
    let denied = Failure::status(403, "Forbidden", "configmaps \"refused\" is forbidden: no".to_owned());
    scene.target.faults().inject(move |call| {
        (call.resource == "configmaps" && call.name == "refused").then(|| Fault::Refuse(denied.clone()))
    });
    let (engine, console) = scene.engine(&[]);
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

    scene.thing_of("unrendered", json!({}));
    scene.thing_of("refused", json!({"size": 1}));
    scene.thing_of("claims", json!({"size": 1, "secrets": ["login"]}));
    ["plain", "out", "hangs"].iter().for_each(|name| scene.thing_of(name, json!({"size": 1})));
    tell(&scene, &console, "unrendered", "RenderFailed");
    tell(&scene, &console, "refused", "Refused");
    tell(&scene, &console, "claims", "ClaimNotAccepted");
    ["plain", "out", "hangs"].iter().for_each(|name| is_synced(&scene, &console, name));

    scene.kcp.merge(scene.things(), "default", "out", &json!({"metadata": {"labels": null}})).expect("an edit");
    tell(&scene, &console, "out", "Retained");
    let holds = json!({"metadata": {"finalizers": ["operator.example.com/hold"]}});
    scene.target.merge(CONFIG_MAPS, &scene.placed(), "hangs", &holds).expect("an edit");
    scene.kcp.delete(scene.things(), "default", "hangs").expect("a deletion");
    tell(&scene, &console, "hangs", "Deleting");

    // kcp is restored, and the consumer creates what is lost once more.
    let backup = scene.kcp.backup();
    scene.thing_of("lost", json!({"size": 1}));
    is_synced(&scene, &console, "lost");
    scene.kcp.restore(&backup);
    tell(&scene, &console, "lost", "Orphaned");
    // The server's next uid is another one.
    scene.thing_of("between", json!({"size": 1}));
    scene.thing_of("lost", json!({"size": 1}));
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
    std::fs::write(scene.root.path().join("target"), edge.kubeconfig(None)).expect("a file");
    let (_engine, console) = scene.engine(&[]);
    tell(&scene, &console, "plain", "TargetChanged");
    assert_snapshot!("troubles", told.join("\n"));
}
