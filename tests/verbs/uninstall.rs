//! `sync-engine uninstall`, on what a real engine has left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use insta::assert_snapshot;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sync_engine::object::metadata;
use sync_engine::sandbox::{ApiRef, Claim, Failure, Fault, Options, Sandbox, Verb, anything, definition};

use super::scene::{CONFIG_MAPS, Scene, THINGS};
use super::shown_in;

const MAPPING: &str = "\
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: things}
spec:
  source:
    apiExport: {name: things, path: root:provider}
    resource: things.v1.example.com
    selector: {matchLabels: {tier: managed}}
  objects:
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, data: {size: big}}
    - id: login
      dependsOn: [settings]
      template: {apiVersion: v1, kind: Secret, stringData: {user: it}}
    - id: common
      shared: Namespace
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: common}, data: {size: big}}
  status:
    fields: {phase: {value: Made}}
    conditions: [{type: Ready, status: true, reason: Made}]
";

const SECRETS: ApiRef<'_> = ApiRef { cluster: "", resource: "secrets.v1" };
const NAMESPACES: ApiRef<'_> = ApiRef { cluster: "", resource: "namespaces.v1" };
const LEASES: ApiRef<'_> = ApiRef { cluster: "", resource: "leases.v1.coordination.k8s.io" };

const DEFINITIONS: ApiRef<'_> = ApiRef { cluster: "", resource: "customresourcedefinitions.v1.apiextensions.k8s.io" };

/// What the engine is told beside its mappings and targets.
const FLAGS: [&str; 6] =
    ["--connection", "edge=ROOT/edge", "--directory", "fleet=ROOT/fleet", "--leader-elect", "lease"];

impl Scene {
    /// An engine with more flags has synced what the consumer has, and was stopped.
    async fn behind(mapping: &str, flags: &[&str]) -> Self {
        let claims = ["configmaps", "secrets"].map(|resource| Claim { group: "", resource });
        let left = Self::set(mapping, &[THINGS], &claims, &claims).await;
        let widgets = definition("widgets.v1.example.com", "Widget", &anything());
        left.target.create(DEFINITIONS, &widgets).expect("a definition");
        ["a", "b"].iter().for_each(|name| left.thing(name, json!({})));
        let engine = left.engine(&[&FLAGS, flags].concat());
        tokio::task::block_in_place(|| {
            // The last object of each; what follows in a reconcile is finished.
            (0..2).for_each(|_| drop(engine.line("create verb=\"apply\" kind=\"Secret\"")));
            let mut engine = engine;
            assert_eq!(engine.stop("TERM"), Some(0));
        });
        left
    }

    fn uninstall(&self, flags: &[&str]) -> String {
        self.uninstall_at("off", flags)
    }

    /// What the verb prints; names that differ from run to run are replaced.
    fn uninstall_at(&self, console: &str, flags: &[&str]) -> String {
        let placed = self.placed();
        let flags = [&["--connection", "edge=ROOT/edge"], flags].concat();
        let said = self.said(&["uninstall", "--console", console], &flags);
        let urls = [(&self.target, "TARGET"), (&self.edge, "EDGE"), (&self.kcp, "KCP")];
        let said = urls.into_iter().fold(said, |said, (server, name)| said.replace(&server.url(), name));
        said.replace(&placed, "PLACED").replace(&self.acme, "ACME")
    }

    fn source(&self, name: &str) -> Value {
        self.kcp.get(self.things(), "default", name).expect("a source")
    }

    /// Everything on both servers that names the engine, as text.
    fn of_engine(&self) -> Vec<String> {
        let of = |server: &Sandbox| [CONFIG_MAPS, SECRETS, NAMESPACES, LEASES].map(|api| server.list(api)).concat();
        let on_targets = [&self.target, &self.edge].into_iter().flat_map(of);
        let beside = ["configmaps.v1", "secrets.v1"].map(|resource| ApiRef { cluster: &self.acme, resource });
        let at_source = beside.into_iter().chain([self.things()]).flat_map(|api| self.kcp.list(api));
        let all = on_targets.chain(at_source).map(|mut object| {
            // Who wrote a field once is history.
            object["metadata"]["managedFields"] = Value::Null;
            object["metadata"]["name"] = Value::Null;
            object["metadata"]["namespace"] = Value::Null;
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = Value::Null;
            object.to_string()
        });
        all.filter(|text| text.contains("sync-engine")).collect()
    }
}

/// What the verb says of what it has done to the objects and sources of the mapping.
fn nothing_left(done: &str) -> String {
    format!("exit 0\nmapping things: {done}\nleft: nothing\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_yes_nothing_is_written() {
    let left = Scene::behind(MAPPING, &[]).await;
    let versions = || (left.kcp.version(), left.target.version());
    let before = versions();
    let planned = [&["--delete"][..], &["--release", "things"], &[]].map(|flags| left.uninstall(flags));
    assert_snapshot!(planned.concat(), @"
    exit 0
    mapping things: delete 5 objects, release 2 sources (target)
    stderr:
    nothing was written; add --yes to write
    exit 0
    mapping things: release 5 objects, release 2 sources (target)
    stderr:
    nothing was written; add --yes to write
    exit 0
    mapping things: 5 objects, 2 sources (target)
    stderr:
    nothing was written; choose --delete or --release
    ");
    assert!(left.uninstall(&["--yes"]).starts_with("exit 2\n"), "what is to become of the objects is not said");
    assert!(left.uninstall(&["--delete", "--release"]).starts_with("exit 2\n"));
    assert_eq!(versions(), before);
    assert!(left.of_engine().len() > 6, "{:#?}", left.of_engine());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delete_leaves_nothing_of_the_engine() {
    let left = Scene::behind(MAPPING, &[]).await;
    // What an operator makes of an object carries its labels, and somebody else's carries none.
    let mut copied = left.target.get(CONFIG_MAPS, &left.placed(), "a").expect("an object");
    copied["metadata"] = json!({
        "name": "copied", "namespace": left.placed(), "labels": copied["metadata"]["labels"],
        "annotations": copied["metadata"]["annotations"],
    });
    let foreign =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": left.placed()}});
    let [copied, foreign] = [copied, foreign].map(|one| left.target.create(CONFIG_MAPS, &one).expect("an object"));
    // It held deletions of an edit, and a person approved them.
    for (name, labels) in [("held", json!({"sync-engine.dev/held": "main"})), ("approval", json!({}))] {
        let metadata = json!({"name": format!("main.things.{name}"), "namespace": "sync-engine", "labels": labels});
        let record = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"of": "things"}});
        left.target.create(CONFIG_MAPS, &record).expect("a record");
    }
    // Somebody's own condition stays, and so does the namespace.
    let conditions = |name: &str| left.source(name)["status"]["conditions"].clone();
    let mut all = conditions("a").as_array().expect("conditions").clone();
    all.push(json!({"type": "Paid", "status": "True", "reason": "Card"}));
    left.kcp.merge_status(left.things(), "default", "a", &json!({"conditions": all})).expect("a condition");
    // It left the filter while the engine ran: nothing but its condition tells of the engine.
    let out =
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "c", "namespace": "default"}});
    left.kcp.create(left.things(), &out).expect("a source");
    let said =
        json!([{"type": "Synced", "status": "False", "reason": "NotSelected"}, {"type": "Ready", "status": "True"}]);
    left.kcp.merge_status(left.things(), "default", "c", &json!({"conditions": said})).expect("a condition");

    let said = left.uninstall(&["--delete", "--yes"]);
    assert_eq!(said, nothing_left("delete 5 objects, release 3 sources (target)"));
    for kept in [&copied, &foreign] {
        let now = left.target.get(CONFIG_MAPS, metadata(kept, "namespace"), metadata(kept, "name"));
        assert_eq!(now.as_ref(), Some(kept), "it is foreign");
    }
    let kinds = |name: &str| {
        let all = conditions(name).as_array().cloned().unwrap_or_default();
        all.iter().map(|one| one["type"].as_str().expect("a type").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((kinds("a"), kinds("b"), kinds("c")), (vec!["Paid".to_owned()], vec![], vec!["Ready".to_owned()]));
    assert_eq!(left.source("a")["status"].get("phase"), None);
    assert!(conditions("b").is_null());
    assert!(left.target.get(NAMESPACES, "", metadata(&foreign, "namespace")).is_some());
    assert_eq!(left.target.list(CONFIG_MAPS).len(), 2, "{:?}", left.target.list(CONFIG_MAPS));
    left.target.delete(CONFIG_MAPS, metadata(&copied, "namespace"), "copied").expect("deleted");
    assert_eq!(left.of_engine(), Vec::<String>::new());
    assert_snapshot!(left.uninstall(&["--delete", "--yes"]), @"
    exit 0
    left: nothing
    stderr:
    there is no state store of engine main in the namespace sync-engine of the connections edge, kcp, target
    ");
}

/// Nobody need serve the version again in which they were written. What writes them says that it is not served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_a_version_that_is_gone_are_seen_once_in_the_one_that_is_served() {
    let widget = "    - id: widget\n      template: {apiVersion: example.com/v1, kind: Widget, spec: {size: big}}\n";
    let mapping = MAPPING.replace("    - id: login\n", &format!("{widget}    - id: login\n"));
    let left = Scene::behind(&mapping, &[]).await;
    let widgets = |version: &str| format!("widgets.{version}.example.com");
    let defined = left.target.get(DEFINITIONS, "", "widgets.example.com").expect("a definition");
    let serve = |first: bool| {
        let [mut v1, mut v2] = ["v1", "v2"].map(|_| defined["spec"]["versions"][0].clone());
        (v1["served"], v1["storage"], v2["name"]) = (first.into(), false.into(), "v2".into());
        let versions = json!({"spec": {"versions": [v1, v2]}});
        left.target.merge(DEFINITIONS, "", "widgets.example.com", &versions).expect("its versions");
    };
    // As in the middle of a release to the other version.
    serve(true);
    let store = left.target.get(CONFIG_MAPS, "sync-engine", "main.things").expect("a state store");
    let kinds = format!("{}\nexample.com/v2 Widget", store["data"]["kinds"].as_str().expect("kinds").trim_end());
    left.target.merge(CONFIG_MAPS, "sync-engine", "main.things", &json!({"data": {"kinds": kinds}})).expect("kinds");
    let planned = "exit 0\nmapping things: delete 7 objects, release 2 sources (target)\n";
    assert!(left.uninstall(&["--delete"]).starts_with(planned));
    let store = json!({"data": {"kinds": store["data"]["kinds"]}});
    left.target.merge(CONFIG_MAPS, "sync-engine", "main.things", &store).expect("kinds");

    serve(false);
    assert!(left.uninstall(&["--delete"]).starts_with(planned));
    let diff = left.said(&["diff", "ROOT/maps"], &[]);
    assert!(diff.contains("Widget (example.com/v1) is not served there") && !diff.contains("delete "), "{diff}");
    left.kcp.merge(left.things(), "default", "a", &json!({"metadata": {"finalizers": []}})).expect("released");
    left.kcp.delete(left.things(), "default", "a").expect("deleted");
    let orphans = left.said(&["orphans", "ROOT/maps", "--reason", "SourceMissing", "--delete", "--yes"], &[]);
    assert!(orphans.starts_with("exit 0\n") && orphans.contains("Widget ") && !orphans.contains("served"), "{orphans}");
    assert_eq!(left.target.list(ApiRef { cluster: "", resource: &widgets("v2") }).len(), 1);
    assert_eq!(left.uninstall(&["--delete", "--yes"]), nothing_left("delete 4 objects, release 1 source (target)"));
    assert_eq!(left.target.list(ApiRef { cluster: "", resource: &widgets("v2") }), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_released_by_the_flag_or_by_its_rule_stays_and_nothing_of_the_engine() {
    let orphaned = MAPPING.replace("    - id: login\n", "    - id: login\n      delete: {policy: Orphan}\n");
    // The mapping, the flag, what is done, and whether the ConfigMaps stay as the Secrets do.
    for (mapping, flag, done, stay) in [
        (MAPPING, "--release", "release 5 objects, release 2 sources (target)", true),
        (&orphaned, "--delete", "delete 3 objects, release 2 objects, release 2 sources (target)", false),
    ] {
        let left = Scene::behind(mapping, &[]).await;
        assert_eq!(left.uninstall(&[flag, "--yes"]), nothing_left(done));
        let stands = |api, name| left.target.get(api, &left.placed(), name).is_some();
        assert!(stands(SECRETS, "a") && stands(SECRETS, "b"), "{flag}");
        assert_eq!([stands(CONFIG_MAPS, "a"), stands(CONFIG_MAPS, "common")], [stay, stay], "{flag}");
        assert_eq!(left.of_engine(), Vec::<String>::new(), "{flag}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_beside_their_sources_go_too() {
    let (head, rest) = MAPPING.split_once("    - id: common").expect("a shared object");
    let (_, status) = rest.split_once("  status:").expect("a status");
    let beside =
        format!("{head}  status:{status}").replace("  objects:\n", "  target: {cluster: source}\n  objects:\n");
    let left = Scene::behind(&beside, &[]).await;
    let config_maps = ApiRef { cluster: &left.acme, resource: "configmaps.v1" };
    assert!(left.kcp.get(config_maps, "default", "a").is_some());
    let said = left.uninstall(&["--delete", "--yes"]);
    assert_eq!(said, nothing_left("delete 4 objects, release 2 sources (target)"));
    assert!(left.kcp.get(config_maps, "default", "a").is_none());
    assert_eq!(left.of_engine(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_runs_is_not_uninstalled() {
    let left = Scene::behind(MAPPING, &[]).await;
    let lease = left.target.list(LEASES).into_iter().next().expect("a Lease");
    let held = |seconds: i64| {
        let renewed = Timestamp::now() - SignedDuration::from_secs(seconds);
        let spec = json!({"holderIdentity": "pod-1", "leaseDurationSeconds": 1, "renewTime": format!("{renewed:.6}")});
        let (namespace, name) = (metadata(&lease, "namespace"), metadata(&lease, "name"));
        left.target.merge(LEASES, namespace, name, &json!({"spec": spec})).expect("a holder")
    };
    held(-600);
    let before = (left.kcp.version(), left.target.version());
    let refused = [&["--delete", "--yes"][..], &["--delete"]].map(|flags| left.uninstall(flags));
    assert_snapshot!(refused.concat(), @"
    exit 1
    stderr:
    refused: `pod-1` holds the Lease sync-engine/sync-engine-main: stop the engine first
    exit 1
    mapping things: delete 5 objects, release 2 sources (target)
    stderr:
    nothing was written; add --yes to write
    refused: `pod-1` holds the Lease sync-engine/sync-engine-main: stop the engine before you add --yes
    ");
    assert_eq!((left.kcp.version(), left.target.version()), before);

    // A Lease says nothing where an engine runs without one: its console does.
    held(600);
    let engine = left.engine(&FLAGS);
    let console = engine.console();
    let said = left.uninstall_at(&console, &["--delete", "--yes"]);
    assert!(said.contains(&format!("refused: an engine with the id main answers at {console}")), "{said}");
    drop(engine);

    // Its holder was killed, and the Lease has run out.
    held(600);
    assert!(left.uninstall(&["--delete", "--yes"]).ends_with("left: nothing\n"));
}

/// A kcp where another export has the name: what the engine served is out of sight, and not gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sources_of_another_export_are_no_sources_of_the_mapping() {
    let left = Scene::behind(MAPPING, &[]).await;
    let stores = ("sync-engine", "main.things");
    let store = left.target.get(CONFIG_MAPS, stores.0, stores.1).expect("a state store");
    let source = store["data"]["source"].as_str().expect("a source");
    let other = source.replace("\"identity\":\"", "\"identity\":\"other-");
    left.target.merge(CONFIG_MAPS, stores.0, stores.1, &json!({"data": {"source": other}})).expect("another identity");
    assert_snapshot!("other-export", left.uninstall(&["--release", "--yes"]));
    assert_eq!(left.source("a")["metadata"]["finalizers"], json!(["sync-engine.dev/main.things"]));
    // The engine went on with the new one, and remembers the former one, which nobody can read any more.
    let former =
        json!([{"source": serde_json::from_str::<Value>(&other).expect("JSON"), "document": MAPPING}]).to_string();
    let both = json!({"data": {"source": source, "former": former}});
    // Nor can this version read its document: its sources may carry the finalizer.
    let unusable = json!({"data": {"source": source, "former": former.replace("kind: Mapping", "kind: Other")}});
    left.target.merge(CONFIG_MAPS, stores.0, stores.1, &unusable).expect("a former source");
    let planned = left.uninstall(&["--release"]);
    let why = "  leave the sources of things.example.com: this version cannot use their document in the state store\n";
    assert!(planned.starts_with("exit 1\n") && planned.contains(why), "{planned}");
    left.target.merge(CONFIG_MAPS, stores.0, stores.1, &both).expect("a former source");
    assert!(left.uninstall(&["--release", "--yes"]).ends_with("left: nothing\n"));
    assert_eq!(left.of_engine(), Vec::<String>::new());
}

/// As a member of a fleet that is not listed at this moment: its sources may carry the finalizer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_of_sources_that_is_out_of_sight_keeps_the_state_store() {
    let left = Scene::behind(MAPPING, &[]).await;
    let store = || left.target.get(CONFIG_MAPS, "sync-engine", "main.things");
    let here = store().expect("a state store")["data"]["clusters"].clone();
    let mut all: Vec<String> = serde_json::from_str(here.as_str().expect("clusters")).expect("JSON");
    assert_eq!(all.len(), 1, "the shard, which is looked at: {all:?}");
    all.push("gone".to_owned());
    let name_clusters = |clusters: &Value| {
        let data = json!({"data": {"clusters": clusters}});
        left.target.merge(CONFIG_MAPS, "sync-engine", "main.things", &data).expect("the clusters of its sources");
    };
    name_clusters(&json!(all).to_string().into());
    let why = "`gone`, where the mapping served sources, is out of sight (if it is gone for good, take it out of \
               `clusters` in the ConfigMap `main.things` on each target)\n";
    let planned = left.uninstall(&["--delete"]);
    assert!(planned.starts_with("exit 1\n") && planned.contains(&format!("  leave {why}")), "{planned}");
    let said = left.uninstall(&["--delete", "--yes"]);
    assert!(said.starts_with("exit 1\n") && said.contains(&format!("left:\n  mapping things: {why}")), "{said}");
    assert!(store().is_some() && left.source("a")["metadata"]["finalizers"].is_null());
    name_clusters(&here);
    assert!(left.uninstall(&["--delete", "--yes"]).ends_with("left: nothing\n"));
    assert_eq!(left.of_engine(), Vec::<String>::new());
}

/// The process ends before each write in turn: whatever was done, another run does the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_run_finishes_what_an_interrupted_one_began() {
    let left = Scene::behind(MAPPING, &[]).await;
    let (kcp, target) = (left.kcp.backup(), left.target.backup());
    let mut interrupted = 0;
    for allowed in 0.. {
        left.kcp.restore(&kcp);
        left.target.restore(&target);
        let refused = refuse_after(&left, allowed);
        let first = left.uninstall(&["--delete", "--yes", "--timeout", "0s"]);
        left.kcp.faults().clear();
        left.target.faults().clear();
        if !refused.load(Ordering::Relaxed) {
            assert!(first.ends_with("left: nothing\n"), "{first}");
            break;
        }
        assert!(first.starts_with("exit 1\n") && first.contains("left:\n  "), "after {allowed} writes: {first}");
        interrupted += 1;
        let second = left.uninstall(&["--delete", "--yes"]);
        assert!(second.contains("left: nothing\n"), "after {allowed} writes: {second}");
        assert_eq!(left.of_engine(), Vec::<String>::new(), "after {allowed} writes");
    }
    // Five objects, two sources with a status and a finalizer, two namespaces, the Lease, and the state store.
    assert_eq!(interrupted, 13);
}

/// Both servers refuse every write after the first ones, as they would a process that is gone.
fn refuse_after(left: &Scene, allowed: usize) -> Arc<AtomicBool> {
    let (writes, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    for server in [&left.kcp, &left.target] {
        let (writes, refused) = (writes.clone(), refused.clone());
        server.faults().inject(move |call| {
            let is_write = !matches!(call.verb, Verb::Get | Verb::List | Verb::Watch);
            let is_refused = is_write && writes.fetch_add(1, Ordering::Relaxed) >= allowed;
            refused.fetch_or(is_refused, Ordering::Relaxed);
            is_refused.then(|| Fault::Refuse(Failure::status(403, "Forbidden", "the process is gone")))
        });
    }
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_go_is_listed_with_the_reason() {
    let left = Scene::behind(MAPPING, &[]).await;
    let (placed, hold) = (left.placed(), json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    left.target.merge(CONFIG_MAPS, &placed, "a", &hold).expect("a finalizer");
    let said = left.uninstall(&["--delete", "--yes", "--timeout", "0s"]);
    let since = said.split("since ").nth(1).and_then(|rest| rest.split(',').next()).expect("a time");
    assert_snapshot!("stuck", said.replace(since, "TIME"));
    let finalizers = |name: &str| left.source(name)["metadata"]["finalizers"].clone();
    assert_eq!((finalizers("a"), finalizers("b")), (json!(["sync-engine.dev/main.things"]), Value::Null));
    left.target.merge(CONFIG_MAPS, &placed, "a", &json!({"metadata": {"finalizers": []}})).expect("released");
    assert!(left.uninstall(&["--delete", "--yes"]).ends_with("left: nothing\n"));
    assert_eq!(left.of_engine(), Vec::<String>::new());
}

/// Each source has its objects on the target of its name.
fn of_two_targets() -> String {
    let target =
        "  target: {cluster: \"{{ 'edge' if source.metadata.name == 'b' else 'target' }}\", allowed: [target, edge]}\n";
    MAPPING.replace("  objects:\n", &format!("{target}  objects:\n"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_away_keeps_its_sources() {
    let mut left = Scene::behind(&of_two_targets(), &[]).await;
    left.edge.disconnect().await;
    assert_snapshot!("away-dry-run", left.uninstall(&["--delete"]));
    assert_snapshot!("away", left.uninstall(&["--delete", "--yes"]));
    let finalizers = |left: &Scene, name: &str| left.source(name)["metadata"]["finalizers"].clone();
    assert_eq!((finalizers(&left, "a"), finalizers(&left, "b")), (Value::Null, json!(["sync-engine.dev/main.things"])));
    left.edge.reconnect().await.expect("it is back");
    assert!(left.uninstall(&["--delete", "--yes"]).ends_with("left: nothing\n"));
    assert_eq!(left.of_engine(), Vec::<String>::new());
}

/// Its state store may name kinds and namespaces that the document has no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_whose_state_store_cannot_be_read_keeps_its_sources() {
    let left = Scene::behind(&of_two_targets(), &[]).await;
    left.edge.faults().inject(|call| {
        let is_store = call.resource == "configmaps" && call.verb == Verb::List && call.namespace == "sync-engine";
        is_store.then(|| Fault::Refuse(Failure::status(403, "Forbidden", "not these ConfigMaps")))
    });
    let planned = left.uninstall(&["--delete"]);
    let why = "target `edge`: the state stores cannot be read: ";
    assert!(planned.starts_with("exit 1\n") && planned.contains(&format!("  leave {why}")), "{planned}");
    let said = left.uninstall(&["--delete", "--yes"]);
    assert!(said.starts_with("exit 1\n") && said.contains(&format!("  mapping things: {why}")), "{said}");
    let finalizers = |name: &str| left.source(name)["metadata"]["finalizers"].clone();
    assert_eq!((finalizers("a"), finalizers("b")), (Value::Null, json!(["sync-engine.dev/main.things"])));
    left.edge.faults().clear();
    assert!(left.uninstall(&["--delete", "--yes"]).ends_with("left: nothing\n"));
    assert_eq!(left.of_engine(), Vec::<String>::new());
}

/// No connection leads to the targets: a provider does, and files say which.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_targets_of_a_fleet_are_found_by_the_files() {
    let target = "  target: {cluster: fleet/edge.sandbox, clusters: {provider: fleet}}\n";
    let provider = "---\napiVersion: sync-engine.dev/v1alpha1\nkind: ClusterProvider\nmetadata: {name: fleet}\n\
        spec: {kubeconfigFiles: {directory: fleet}}\n";
    let fleet = MAPPING.replace("  objects:\n", &format!("{target}  objects:\n"));
    let left = Scene::behind(&format!("{fleet}{provider}"), &[]).await;
    assert!(left.edge.list(SECRETS).len() == 2 && left.target.list(SECRETS).is_empty());
    let by_files = ["--mappings", "ROOT/maps", "--directory", "fleet=ROOT/fleet"];
    let both = left.uninstall(&[&["--delete"], &by_files[..]].concat());
    assert!(both.contains("delete 5 objects, release 2 sources"), "a connection leads there, too: {both}");
    // Home knows the target, and its state store alone knows what former documents made there.
    left.edge.faults().inject(|call| {
        let is_store = call.resource == "configmaps" && call.namespace == "sync-engine";
        is_store.then(|| Fault::Refuse(Failure::status(403, "Forbidden", "not these ConfigMaps")))
    });
    let unread = left.said(&["uninstall", "--delete", "--console", "off"], &by_files);
    assert!(unread.starts_with("exit 1\n") && unread.contains("leave 2 sources, which may have"), "{unread}");
    left.edge.faults().clear();
    let said = left.said(&["uninstall", "--delete", "--yes", "--console", "off"], &by_files);
    assert_eq!(said, nothing_left("delete 5 objects, release 2 sources (fleet/edge.sandbox)"));
    assert_eq!(left.of_engine(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_target_is_given_up_and_a_reachable_one_is_not() {
    let mut left = Scene::behind(&of_two_targets(), &[]).await;
    let reachable = left.uninstall(&["--lost-target", "edge", "--yes"]);
    assert!(reachable.starts_with("exit 1\n") && reachable.contains("`edge` leads to it"), "{reachable}");
    let unknown = left.uninstall(&["--lost-target", "edge", "--engine-id", "other"]);
    assert!(unknown.starts_with("exit 3\n") && unknown.contains("with --mappings"), "{unknown}");
    left.edge.disconnect().await;
    assert_snapshot!("lost", left.uninstall(&["--lost-target", "edge", "--delete", "--yes"]));
    let left_on_edge = left.edge.list(CONFIG_MAPS).len();
    left.edge = Options::kubernetes().start().await.expect("another cluster");
    assert_eq!((left.of_engine(), left_on_edge > 1), (Vec::new(), true), "what is on the lost target stays");
}

/// What the command line said to the engine, nobody says again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_stores_tell_which_engine_is_meant() {
    let flags = ["--engine-id", "eu", "--state-namespace", "notes", "--home", "edge"];
    let left = Scene::behind(MAPPING, &flags).await;
    let planned = left.uninstall(&["--delete"]);
    assert!(planned.starts_with("exit 0\nmapping things: delete 5 objects, release 2 sources (target)\n"), "{planned}");
    let of_another = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"mapping": "other"}, "metadata": {
        "name": "us.other", "namespace": "default",
        "labels": {"sync-engine.dev/engine": "us", "app.kubernetes.io/managed-by": "sync-engine"},
    }});
    left.target.create(CONFIG_MAPS, &of_another).expect("a state store");
    assert_snapshot!(left.uninstall(&["--delete"]), @"
    exit 2
    stderr:
    error: several engines have state stores on these clusters: `eu` in the namespace notes, `us` in the namespace default; choose one with --engine-id
    ");
    assert_eq!(left.uninstall(&["--delete", "things"]), planned);
    let said = left.uninstall(&["--delete", "--yes", "--engine-id", "eu"]);
    assert!(said.ends_with("left: nothing\n"), "{said}");
    left.target.delete(CONFIG_MAPS, "default", "us.other").expect("deleted");
    assert_eq!(left.of_engine(), Vec::<String>::new(), "the Lease on the home cluster goes, too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_read_one_namespace_is_told_of_that_one() {
    let left = Scene::behind(MAPPING, &["--engine-id", "eu"]).await;
    left.target.faults().inject(|call| {
        let is_whole = call.resource == "configmaps" && call.verb == Verb::List && call.namespace.is_empty();
        is_whole.then(|| Fault::Refuse(Failure::status(403, "Forbidden", "not in all namespaces")))
    });
    let target = ["--target-kubeconfig", "ROOT/target"];
    let said = tokio::task::block_in_place(|| shown_in(&left.root, &[&["approve"], &target[..]].concat()));
    assert!(said.contains("no mapping of engine eu is held"), "{said}");
}
