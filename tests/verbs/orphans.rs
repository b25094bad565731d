//! `sync-engine orphans`, and what `diff` on live clusters says of orphaned objects.

use insta::assert_snapshot;
use serde_json::{Value, json};
use sync_engine::engine::compiled;
use sync_engine::engine::consumer_schema::ConsumerSchemas;
use sync_engine::mapping::schema::Schemas;
use sync_engine::mapping::{Kind, Resource};
use sync_engine::multicluster::connection::{Connection, ConnectionSource, ConnectionSpec};
use sync_engine::object::marks::{self, Origin, Owner, Reference, Writer};
use sync_engine::object::metadata;
use sync_engine::sandbox::{ApiRef, Claim, Failure, Fault, Verb};
use sync_engine::survey::Surveyor;
use sync_engine::survey::orphans::orphans;

use super::directory;
use super::scene::{CONFIG_MAPS, Scene, THINGS};

pub const MAPPING: &str = "\
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: things}
spec:
  source:
    apiExport: {name: things, path: root:provider}
    resource: things.v1.example.com
    when: ${{ source.metadata.name != \"out\" }}
  objects:
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, data: {size: big}}
";

const NONE: &str = "exit 0\nstderr:\nno such object is orphaned\n";

impl Scene {
    /// With a second consumer.
    pub async fn of_two_consumers() -> Self {
        let scene = Self::set(MAPPING, &[THINGS, ("gadgets", "Gadget")], &[], &[]).await;
        scene.kcp.bind(&scene.globex, "root:provider", "things", &[]).expect("a binding");
        let placed = [&scene.acme, &scene.globex].map(|cluster| scene.placed_of(cluster));
        for name in placed.iter().map(String::as_str).chain(["empty", "sync-engine"]) {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            scene.target.create(ApiRef { cluster: "", resource: "namespaces.v1" }, &namespace).expect("a namespace");
        }
        scene
    }

    /// A source; gives its uid.
    fn create(&self, name: &str) -> String {
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, "namespace": "default"}});
        let made = self.kcp.create(self.things(), &thing).expect("a source");
        made["metadata"]["uid"].as_str().expect("a uid").to_owned()
    }

    /// An object with the marks of an engine that made it for a source.
    fn make(&self, made: &Made<'_>) {
        let Made { mapping, resource, name, source: (cluster, of, uid), .. } = *made;
        let namespace = self.placed_of(made.placed);
        let writer = Writer::new("main", mapping);
        let origin =
            Origin { resource: resource.into(), cluster: cluster.into(), namespace: "default".into(), name: of.into() };
        let owner = writer.owner(&origin);
        let mark = owner.self_mark(made.id, &reference(made.kind, &namespace, made.marked));
        let mut annotations = json!({marks::OBJECT: made.id, marks::SOURCE_UID: uid, marks::SELF: mark});
        for (key, value) in marks::origin_annotations(&origin) {
            annotations[key] = json!(value);
        }
        self.put(&writer, (made.kind, &namespace, name), &owner, &annotations);
    }

    fn made_for_all(&self, namespace: &str, name: &str) {
        let writer = Writer::new("main", "things");
        let owner = writer.shared_owner(namespace);
        let mark = owner.self_mark("common", &reference("ConfigMap", namespace, name));
        let annotations = json!({marks::OBJECT: "common", marks::SELF: mark});
        self.put(&writer, ("ConfigMap", namespace, name), &owner, &annotations);
    }

    fn put(&self, writer: &Writer, (kind, namespace, name): (&str, &str, &str), owner: &Owner, annotations: &Value) {
        let resource = if kind == "Secret" { "secrets.v1" } else { "configmaps.v1" };
        let labels = json!({marks::OWNER: owner.0, marks::MAPPING: writer.label()});
        let metadata = json!({"name": name, "namespace": namespace, "labels": labels, "annotations": annotations});
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
        self.target.create(ApiRef { cluster: "", resource }, &object).expect("an object");
    }

    /// The state store. It remembers a former document, which served gadgets.
    fn remember(&self) {
        let exports = ApiRef { cluster: "root:provider", resource: "apiexports.v1alpha2.apis.kcp.io" };
        let export = self.kcp.get(exports, "", "things").expect("the export");
        let former = json!([{
            "source": {"resource": "gadgets.example.com", "identity": export["status"]["identityHash"]},
            "document": MAPPING.replace("things.v1", "gadgets.v1"),
        }]);
        let inventory = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "main.things", "namespace": "sync-engine"},
            "data": {"mapping": "things", "kinds": "v1 ConfigMap\nv1 Secret", "document": "", "source": "", "former": former.to_string()},
        });
        self.target.create(CONFIG_MAPS, &inventory).expect("an inventory");
    }

    fn diff(&self, mapping: &str, flags: &[&str]) -> String {
        self.told("diff", mapping, &self.target.kubeconfig(None), flags)
    }

    fn orphans(&self, flags: &[&str]) -> String {
        self.told("orphans", MAPPING, &self.target.kubeconfig(None), flags)
    }

    /// What a verb prints, with the names of the workspaces replaced.
    pub fn told(&self, verb: &str, mapping: &str, target: &str, flags: &[&str]) -> String {
        self.told_of(verb, &["ROOT/maps"], mapping, target, flags)
    }

    /// The same of a verb that takes its mappings in other words.
    pub fn told_of(&self, verb: &str, maps: &[&str], mapping: &str, target: &str, flags: &[&str]) -> String {
        for (name, text) in [("maps/a.yaml", mapping), ("target", target)] {
            std::fs::write(self.root.path().join(name), text).expect("a file");
        }
        let said = self.said(&[&[verb], maps].concat(), flags);
        let said = said.replace(&self.placed(), "placed-acme").replace(&self.placed_of(&self.globex), "placed-globex");
        said.replace(&self.acme, "ACME").replace(&self.globex, "GLOBEX")
    }
}

/// An object as an engine made it.
struct Made<'a> {
    mapping: &'a str,
    resource: &'a str,
    kind: &'a str,
    name: &'a str,
    /// What it was called then.
    marked: &'a str,
    id: &'a str,
    /// Cluster, name and uid.
    source: (&'a str, &'a str, &'a str),
    /// The cluster whose sources have the object's namespace.
    placed: &'a str,
}

/// The ConfigMap of a thing.
fn made<'a>(name: &'a str, source: (&'a str, &'a str, &'a str)) -> Made<'a> {
    let (mapping, resource, kind, id) = ("things", "things.example.com", "ConfigMap", "settings");
    Made { mapping, resource, kind, name, marked: name, id, source, placed: source.0 }
}

fn reference(kind: &str, namespace: &str, name: &str) -> Reference {
    let kind = Kind::new("", "v1", kind);
    Reference { kind, namespace: namespace.into(), name: name.into() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_for_nothing_is_listed_with_what_becomes_of_it() {
    let scene = Scene::of_two_consumers().await;
    // It is left alone, and needs nothing.
    scene.create("out");
    assert_eq!(scene.diff(MAPPING, &[]), "exit 0\nstderr:\nno difference\n");
    let (acme, globex) = (scene.acme.as_str(), scene.globex.as_str());
    // Its source is gone, and its workspace in order.
    scene.make(&made("gone", (acme, "gone", "u")));
    // The workspace has left: nobody knows what its source would be.
    scene.make(&made("lost", (globex, "lost", "u")));
    scene.kcp.unbind(globex, "things").expect("unbound");
    // Of no source of this engine, for its name is another; and of another engine's mapping.
    scene.make(&Made { marked: "original", ..made("copy", (acme, "gone", "u")) });
    // Of a namespace that no source needs.
    scene.made_for_all("empty", "common");
    let orphans = scene.diff(MAPPING, &[]);
    let left = MAPPING.replace("  objects:", "  lifecycle: {onSourceDelete: Orphan}\n  objects:");
    assert_eq!(scene.diff(&left, &[]), orphans, "a deletion that nobody saw is no deletion");
    assert_snapshot!("orphans", orphans);
    assert_eq!(scene.target.list(CONFIG_MAPS).len(), 4, "nothing was written");
}

/// The status tells of all targets, and one is looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_targets_at_a_time_the_status_is_not_compared() {
    let scene = Scene::of_two_consumers().await;
    scene.create("here");
    let several = "  targets: {allowed: [target, edge]}\n  status: {fields: {up: {value: \"${{ targets | items | length }}\"}}}\n";
    let mapping = MAPPING.replace("  objects:", &format!("{several}  objects:"));
    let said = scene.diff(&mapping, &["--connection", "edge=ROOT/target"]);
    assert!(said.contains("of its targets, `edge` is looked at alone"), "{said}");
    assert!(said.contains("the status is not compared") && said.contains("create ConfigMap "), "{said}");
    assert!(!said.contains("status Thing") && !said.contains("no such cluster"), "{said}");
}

/// One tenant that has accepted nothing keeps nobody from a look at all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workspace_that_has_not_accepted_a_claim_is_looked_at_without_what_that_hides() {
    let related = "  related:
    - {id: password, direction: ToTarget, resource: secrets.v1, from: {name: \"{{ placement.name }}-password\"}}
    - {id: access, direction: ToSource, resource: secrets.v1, from: {name: \"{{ placement.name }}-access\"}}
  objects:";
    let mapping = MAPPING.replace("  objects:", related);
    let scene = Scene::set(&mapping, &[THINGS], &[Claim { group: "", resource: "secrets" }], &[]).await;
    scene.thing("a", json!({}));
    let shown = |verb: &str| scene.said(&[verb, "ROOT/maps"], &[]);
    assert_eq!(shown("orphans"), NONE);
    let diff = shown("diff");
    assert!(diff.starts_with("exit 1\n") && diff.contains("\n  ClaimNotAccepted: related object `password`"), "{diff}");
    let doctor = shown("doctor");
    assert!(doctor.contains("did not accept the claim for secrets") && !doctor.contains("error["), "{doctor}");
}

/// Also of a kind that the mapping itself no longer has: the inventory knows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_mapping_no_longer_has_stays_with_its_source() {
    let scene = Scene::of_two_consumers().await;
    let uid = scene.create("here");
    let here = (&*scene.acme, "here", &*uid);
    // What the mapping calls `settings` now.
    scene.make(&Made { id: "former", ..made("here", here) });
    scene.make(&Made { id: "spare", ..made("spare", here) });
    scene.make(&Made { kind: "Secret", id: "login", ..made("here", here) });
    let elsewhere = scene.diff(MAPPING, &[]);
    scene.remember();
    assert_snapshot!("dropped", scene.diff(MAPPING, &[]));
    assert!(elsewhere.contains("/spare") && !elsewhere.contains("Secret"), "{elsewhere}");
}

impl Scene {
    /// An orphan for each reason; the state store knows the mapping.
    async fn with_orphans() -> Self {
        let scene = Self::of_two_consumers().await;
        scene.remember();
        let (acme, globex) = (scene.acme.as_str(), scene.globex.as_str());
        let out = scene.create("out");
        scene.make(&made("out", (acme, "out", &out)));
        scene.make(&made("gone", (acme, "gone", "u")));
        scene.make(&made("gone-too", (acme, "gone-too", "u")));
        scene.make(&Made { marked: "original", ..made("copy", (acme, "gone", "u")) });
        scene.make(&Made { resource: "relics.example.com", ..made("relic", (acme, "relic", "u")) });
        scene.make(&made("lost", (globex, "lost", "u")));
        scene.kcp.unbind(globex, "things").expect("unbound");
        scene.made_for_all("empty", "common");
        scene
    }

    /// Names of the ConfigMaps that the scene made.
    fn left(&self) -> Vec<String> {
        let names = self.target.list(CONFIG_MAPS).into_iter().map(|one| metadata(&one, "name").to_owned());
        names.filter(|name| name != "main.things").collect()
    }

    fn placed_object(&self, name: &str) -> String {
        format!("{}/{name}", self.placed())
    }

    fn object(&self, name: &str) -> Option<Value> {
        self.target.get(CONFIG_MAPS, &self.placed(), name)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_are_listed_with_their_reasons() {
    let scene = Scene::with_orphans().await;
    assert_snapshot!("list-text", scene.orphans(&["-o", "text"]));
    // As kubectl selects: by the namespace and the labels of the objects.
    let placed = scene.placed();
    let all = scene.orphans(&[]);
    let rows = |text: &str| text.lines().filter(|line| line.contains("ConfigMap")).count();
    let here = scene.orphans(&["-n", &placed]);
    assert_eq!(rows(&here), all.lines().filter(|line| line.contains("ConfigMap placed-acme/")).count(), "{here}");
    assert!((1..rows(&all)).contains(&rows(&here)), "{here}");
    assert_eq!(scene.orphans(&["-l", "sync-engine.dev/mapping"]), all);
    assert_eq!(scene.orphans(&["-l", "!sync-engine.dev/mapping"]), NONE);
    assert_snapshot!("list-yaml", scene.orphans(&["-o", "yaml", "--reason", "ClusterUnseen", "--reason", "NotShared"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_deletes_nothing_and_yes_deletes_what_is_selected() {
    let scene = Scene::with_orphans().await;
    let before = scene.left();
    let selected = ["--reason", "SourceMissing", "--delete"];
    assert_snapshot!("delete-dry-run", scene.orphans(&selected));
    assert_eq!(scene.left(), before, "nothing was written");
    assert_snapshot!("delete", scene.orphans(&[&selected[..], &["--yes"]].concat()));
    let rest: Vec<String> = before.into_iter().filter(|name| !name.starts_with("gone")).collect();
    assert_eq!(scene.left(), rest);
    assert!(scene.orphans(&["--delete", "--yes"]).starts_with("exit 2\n"), "nothing is selected");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_object_stays_without_ownership() {
    let scene = Scene::with_orphans().await;
    let gone = scene.placed_object("gone");
    assert_snapshot!("release", scene.orphans(&["--object", "ConfigMap", &gone, "--release", "--yes"]));
    let released = scene.object("gone").expect("it stays");
    let annotations = &released["metadata"]["annotations"];
    assert_eq!(*annotations, json!({"sync-engine.dev/released": "true"}), "the engine leaves it alone");
    assert_eq!(released["metadata"]["labels"], Value::Null);
    let other = scene.object("gone-too").expect("it was not selected");
    assert!(other.to_string().contains("sync-engine.dev/"), "{other}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_of_a_living_source_is_refused() {
    let scene = Scene::with_orphans().await;
    // The engine still serves gadgets: the state store remembers the document.
    let gadgets = ApiRef { cluster: &scene.acme, resource: "gadgets.v1.example.com" };
    let gadget =
        json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "old", "namespace": "default"}});
    scene.kcp.create(gadgets, &gadget).expect("a source");
    let here = scene.create("here");
    scene.make(&made("here", (&scene.acme, "here", &here)));
    scene.make(&Made { resource: "gadgets.example.com", ..made("old", (&scene.acme, "old", "u")) });
    let (here, old) = (scene.placed_object("here"), scene.placed_object("old"));
    let named = ["--object", "ConfigMap", &here, "--object", "ConfigMap", &old, "--delete", "--yes"];
    assert_snapshot!(scene.orphans(&named), @r"
    exit 1
    stderr:
    refused: ConfigMap placed-acme/here: it is not orphaned, or not for this reason
    refused: ConfigMap placed-acme/old: it is not orphaned, or not for this reason
    ");
    assert!(scene.object("here").is_some() && scene.object("old").is_some());
    // A gadget that is gone leaves an orphan.
    scene.kcp.delete(gadgets, "default", "old").expect("deleted");
    assert!(scene.orphans(&["--object", "ConfigMap", &old]).contains("OtherResource"));
}

/// Without it, a source of an earlier document may be there unseen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_deleted_without_the_state_store() {
    let scene = Scene::with_orphans().await;
    let before = scene.left();
    scene.target.delete(CONFIG_MAPS, "sync-engine", "main.things").expect("deleted");
    let said = scene.orphans(&["--reason", "SourceMissing", "--delete", "--yes"]);
    assert!(said.starts_with("exit 1\n") && said.contains("holds no state store of the mapping"), "{said}");
    assert_eq!(scene.left(), before);
}

/// The state store names the kinds and the sources of former documents: nobody can tell what is there of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_looked_at_is_not_said_to_be_in_order() {
    let scene = Scene::of_two_consumers().await;
    let verbs = || [scene.diff(MAPPING, &[]), scene.orphans(&[])];
    assert_eq!(verbs().map(|said| said[..6].to_owned()), ["exit 0", "exit 0"]);
    scene.target.faults().inject(|call| {
        let is_store = call.resource == "configmaps" && call.verb == Verb::Get;
        is_store.then(|| Fault::Refuse(Failure::status(403, "Forbidden", "not these ConfigMaps")))
    });
    for said in verbs() {
        assert!(said.starts_with("exit 3\n") && said.contains("the mapping's state store cannot be read"), "{said}");
        assert!(!said.contains("no difference") && !said.contains("no such object"), "{said}");
    }
    scene.target.faults().clear();
    scene.remember();
    scene.kcp.faults().inject(|call| {
        let is_former = call.resource == "gadgets" && call.verb == Verb::List;
        is_former.then(|| Fault::Refuse(Failure::status(403, "Forbidden", "not these gadgets")))
    });
    for said in verbs() {
        assert!(said.starts_with("exit 3\n") && said.contains("objects of gadgets.example.com are left out"), "{said}");
    }
}

/// A workspace whose binding could not be read for a moment has not left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bindings_that_cannot_be_read_now_leave_no_workspace_out() {
    let scene = Scene::with_orphans().await;
    let before = scene.left();
    scene.kcp.faults().inject(|call| {
        let is_bindings = call.resource == "apibindings" && call.verb == Verb::List;
        is_bindings.then(|| Fault::Refuse(Failure::status(500, "InternalError", "not now")))
    });
    let said = scene.orphans(&["--reason", "ClusterUnseen", "--delete", "--yes"]);
    assert!(said.starts_with("exit 3\n") && said.contains("not now"), "{said}");
    assert_eq!(scene.left(), before);
}

/// A wrong kubeconfig of kcp looks the same as a workspace that has left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_shared_stays_beside_an_object_whose_source_is_out_of_sight() {
    let scene = Scene::of_two_consumers().await;
    scene.remember();
    scene.make(&made("lost", (&scene.globex, "lost", "u")));
    scene.made_for_all(&scene.placed_of(&scene.globex), "common");
    scene.kcp.unbind(&scene.globex, "things").expect("unbound");
    let delete = |reason: &str| scene.orphans(&["--reason", reason, "--delete", "--yes"]);
    assert_eq!(delete("NotShared"), NONE);
    assert!(delete("ClusterUnseen").starts_with("exit 0\n"));
    assert_eq!(scene.left(), ["common"]);
    assert!(delete("NotShared").starts_with("exit 0\n"));
    assert_eq!(scene.left(), Vec::<String>::new());
}

/// The verb looks at one orphan again before it acts: here the source has come back in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_came_back_asks_for_its_objects_again() {
    let scene = Scene::with_orphans().await;
    let root = directory(&[("kcp", &scene.kcp.kubeconfig(None)), ("target", &scene.target.kubeconfig(None))]);
    let connection = |name: &str| {
        let source = ConnectionSource::Kubeconfig { path: root.path().join(name), context: None };
        let spec = ConnectionSpec { name: name.to_owned(), source };
        (name.to_owned(), Connection::open(spec).expect("a connection"))
    };
    let surveyor = Surveyor {
        connections: ["kcp", "target"].map(connection).into(),
        providers: Default::default(),
        machine: Default::default(),
        home: "target".to_owned(),
        engine: "main".to_owned(),
        namespace: "sync-engine".to_owned(),
        target: None,
    };
    let (mapping, schemas) = (compiled(MAPPING).expect("a mapping"), ConsumerSchemas::new(Schemas::default()));
    let whole = surveyor.whole(&schemas, &mapping).await.expect("reads");
    let all = orphans(&surveyor, &mapping, &whole).await.expect("reads");
    let gone = all.iter().find(|one| one.object.reference.name == "gone").expect("an orphan");
    let again = async || {
        let fresh = surveyor.afresh(&schemas, &mapping, (&whole, gone)).await.expect("reads");
        let all = orphans(&surveyor, &mapping, &fresh).await.expect("reads");
        all.iter().any(|one| one.object.uid() == gone.object.uid())
    };
    assert!(again().await, "nothing has changed");
    scene.create("gone");
    assert!(!again().await, "its source asks for it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mapping_without_a_file_is_read_from_its_state_store() {
    let scene = Scene::of_two_consumers().await;
    let store = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "main.old", "namespace": "sync-engine", "labels": {marks::ENGINE: "main"}},
        "data": {"mapping": "old", "kinds": "v1 ConfigMap", "document": MAPPING.replace("name: things}", "name: old}")},
    });
    scene.target.create(CONFIG_MAPS, &store).expect("a state store");
    scene.make(&Made { mapping: "old", ..made("a", (&scene.acme, "a", "u")) });
    assert_eq!(scene.orphans(&[]), NONE);
    assert_snapshot!(scene.orphans(&["--retained", "-o", "text"]), @r"
    exit 0
    kept ConfigMap placed-acme/a (mapping old, for things default/a of ACME)
      SourceMissing: its source is missing, and nobody saw it being deleted
    stderr:
    mapping `old`: its file is gone; its last document is read from the state store
    ");
    // The last file is gone as well.
    std::fs::create_dir(scene.root.path().join("none")).expect("a folder");
    let without_files = |flags: &[&str]| scene.said(&["orphans", "ROOT/none"], flags);
    let found = without_files(&["--retained"]);
    assert!(found.starts_with("exit 0\n") && found.contains("SourceMissing"), "{found}");
    assert_snapshot!(without_files(&["--retained", "--engine-id", "other"]), @r"
    exit 0
    stderr:
    there is no state store of engine other in the namespace sync-engine of the connections target
    no such object is orphaned
    ");
    assert_snapshot!(without_files(&[]), @r"
    exit 3
    stderr:
    error: there is no *.yaml or *.yml in `ROOT/none`
    ");
    let object = scene.placed_object("a");
    scene.orphans(&["--retained", "--object", "ConfigMap", &object, "--delete", "--yes"]);
    assert!(scene.object("a").is_none());
}

/// Whoever can write on the target can compute the ownership labels and annotations of any source.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planted_objects_are_refused_in_every_namespace_but_their_sources() {
    let scene = Scene::with_orphans().await;
    scene.make(&Made { placed: &scene.globex, ..made("gone", (&scene.acme, "gone", "u")) });
    let planted = format!("{}/gone", scene.placed_of(&scene.globex));
    let listed = scene.orphans(&["--object", "ConfigMap", &planted, "-o", "text"]);
    assert!(listed.contains("OtherNamespace"), "{listed}");
    let before = scene.left();
    for verb in ["--delete", "--release"] {
        let said = scene.orphans(&["--object", "ConfigMap", &planted, verb, "--yes"]);
        assert!(said.starts_with("exit 1\n") && said.contains("it is in no namespace of its source"), "{said}");
    }
    assert_eq!(scene.left(), before);
    scene.orphans(&["--reason", "SourceMissing", "--delete", "--yes"]);
    assert!(scene.target.get(CONFIG_MAPS, &scene.placed_of(&scene.globex), "gone").is_some());
}

/// Ownership names a plain cluster by its identity, not by the provider's name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_a_plain_cluster_belong_to_its_identity() {
    let scene = Scene::of_two_consumers().await;
    let namespaces = ApiRef { cluster: "", resource: "namespaces.v1" };
    let identity = scene.target.get(namespaces, "", "kube-system").expect("a namespace");
    let identity = metadata(&identity, "uid");
    let placed = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scene.placed_of(identity)}});
    scene.target.create(namespaces, &placed).expect("a namespace");
    let resource = Resource { group: String::new(), version: "v1".into(), plural: "serviceaccounts".into() };
    scene.make(&Made { resource: &resource.group_plural(), ..made("gone", (identity, "gone", "u")) });
    let mapping = MAPPING
        .replace("apiExport: {name: things, path: root:provider}", "provider: plain")
        .replace("things.v1.example.com", "serviceaccounts.v1");
    let provider = "---\napiVersion: sync-engine.dev/v1alpha1\nkind: ClusterProvider\nmetadata: {name: plain}\n\
        spec: {kubeconfig: {connection: target}}\n";
    let said = scene.told("orphans", &format!("{mapping}{provider}"), &scene.target.kubeconfig(None), &["-o", "text"]);
    assert!(said.contains("SourceMissing"), "{said}");
}
