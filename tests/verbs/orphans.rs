//! `sync-engine diff` on live clusters: what stands there for no source, or for no object of the mapping.

use insta::assert_snapshot;
use serde_json::{Value, json};
use sync_engine::mapping::Kind;
use sync_engine::object::hash::tuple_hash;
use sync_engine::object::marks::{self, Origin, Owner, Reference, Writer};
use sync_engine::sandbox::{ApiRef, Options, Sandbox};

use super::{directory, shown_in};

const MAPPING: &str = "\
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

const CONFIG_MAPS: ApiRef<'_> = ApiRef { cluster: "", resource: "configmaps.v1" };

fn schema() -> Value {
    json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": "v1.things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"type": "object"}}],
        },
    })
}

/// A provider with two consumers, and a target.
struct Scene {
    kcp: Sandbox,
    target: Sandbox,
    acme: String,
    globex: String,
}

impl Scene {
    async fn new() -> Self {
        let kcp = Options::kcp().start().await.expect("starts");
        let target = Options::kubernetes().start().await.expect("starts");
        let workspace = |name: &str| kcp.create_workspace("root", name).expect("a workspace");
        let [_, acme, globex] = ["provider", "acme", "globex"].map(workspace);
        kcp.publish("root:provider", "things", &[schema()], &[]).expect("an export");
        for consumer in [&acme, &globex] {
            kcp.bind(consumer, "root:provider", "things", &[]).expect("a binding");
        }
        let scene = Self { kcp, target, acme, globex };
        let placed = [&scene.acme, &scene.globex].map(|cluster| scene.placed(cluster));
        for name in placed.iter().map(String::as_str).chain(["empty", "sync-engine"]) {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            scene.target.create(ApiRef { cluster: "", resource: "namespaces.v1" }, &namespace).expect("a namespace");
        }
        scene
    }

    /// A source; gives its uid.
    fn order(&self, name: &str) -> String {
        let api = ApiRef { cluster: &self.acme, resource: "things.v1.example.com" };
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, "namespace": "default"}});
        let made = self.kcp.create(api, &thing).expect("a source");
        made["metadata"]["uid"].as_str().expect("a uid").to_owned()
    }

    /// An object with the marks of an engine that made it for a source; `marked` is what it was called then.
    fn made(&self, kind: &str, name: &str, marked: &str, id: &str, source: (&str, &str, &str)) {
        let (cluster, of, uid) = source;
        let origin = Origin {
            resource: "things.example.com".into(),
            cluster: cluster.into(),
            namespace: "default".into(),
            name: of.into(),
        };
        let owner = writer().owner(&origin);
        let mark = owner.self_mark(id, &reference(kind, &self.placed(cluster), marked));
        let mut annotations = json!({marks::OBJECT: id, marks::SOURCE_UID: uid, marks::SELF: mark});
        for (key, value) in marks::origin_annotations(&origin) {
            annotations[key] = json!(value);
        }
        self.put(kind, &self.placed(cluster), name, &owner, &annotations);
    }

    /// The namespace that the mapping gives to the sources of a workspace's namespace `default`.
    fn placed(&self, cluster: &str) -> String {
        format!("default-{}", tuple_hash([cluster, "default"], 10))
    }

    fn made_for_all(&self, namespace: &str, name: &str) {
        let owner = writer().shared_owner(namespace);
        let mark = owner.self_mark("common", &reference("ConfigMap", namespace, name));
        self.put("ConfigMap", namespace, name, &owner, &json!({marks::OBJECT: "common", marks::SELF: mark}));
    }

    fn put(&self, kind: &str, namespace: &str, name: &str, owner: &Owner, annotations: &Value) {
        let resource = if kind == "Secret" { "secrets.v1" } else { "configmaps.v1" };
        let labels = json!({marks::OWNER: owner.0, marks::MAPPING: writer().label()});
        let metadata = json!({"name": name, "namespace": namespace, "labels": labels, "annotations": annotations});
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
        self.target.create(ApiRef { cluster: "", resource }, &object).expect("an object");
    }

    /// The engine's notes of what it made, and of which source.
    fn remember(&self) {
        let inventory = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "main.things", "namespace": "sync-engine"},
            "data": {"mapping": "things", "kinds": "v1 ConfigMap\nv1 Secret", "document": "", "source": ""},
        });
        self.target.create(CONFIG_MAPS, &inventory).expect("an inventory");
    }

    fn diff(&self, mapping: &str, flags: &[&str]) -> String {
        let (kcp, target) = (self.kcp.kubeconfig(None), self.target.kubeconfig(None));
        let root = directory(&[("maps/a.yaml", mapping), ("kcp", &kcp), ("target", &target)]);
        let arguments = ["diff", "ROOT/maps", "--kcp-kubeconfig", "ROOT/kcp", "--target-kubeconfig", "ROOT/target"];
        let arguments = [&arguments[..], flags].concat();
        // The servers stand in this process: they must go on meanwhile.
        let said = tokio::task::block_in_place(|| shown_in(&root, &arguments));
        let said =
            said.replace(&self.placed(&self.acme), "placed-acme").replace(&self.placed(&self.globex), "placed-globex");
        said.replace(&self.acme, "ACME").replace(&self.globex, "GLOBEX")
    }
}

fn writer() -> Writer {
    Writer::new("main", "things")
}

fn reference(kind: &str, namespace: &str, name: &str) -> Reference {
    let kind = Kind::new("", "v1", kind);
    Reference { kind, namespace: namespace.into(), name: name.into() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_for_nothing_is_listed_with_what_becomes_of_it() {
    let scene = Scene::new().await;
    // It is left alone, and needs nothing.
    scene.order("out");
    assert_eq!(scene.diff(MAPPING, &[]), "exit 0\n");
    let (acme, globex) = (scene.acme.as_str(), scene.globex.as_str());
    // Its source is gone, and its workspace in order.
    scene.made("ConfigMap", "gone", "gone", "settings", (acme, "gone", "u"));
    // The workspace has left: nobody knows what its source would be.
    scene.made("ConfigMap", "lost", "lost", "settings", (globex, "lost", "u"));
    scene.kcp.unbind(globex, "things").expect("unbound");
    // Of no source of this engine, for its name is another; and of another engine's mapping.
    scene.made("ConfigMap", "copy", "original", "settings", (acme, "gone", "u"));
    // Of a namespace that no source needs.
    scene.made_for_all("empty", "common");
    assert_snapshot!("orphans", scene.diff(MAPPING, &[]));
    let left = MAPPING.replace("  objects:", "  lifecycle: {onSourceDelete: Orphan}\n  objects:");
    assert_snapshot!("orphans-yaml", scene.diff(&left, &["-o", "yaml"]));
    assert_eq!(scene.target.list(CONFIG_MAPS).len(), 4, "nothing was written");
}

/// Also of a kind that the mapping itself no longer has: the inventory knows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_mapping_no_longer_has_stays_with_its_source() {
    let scene = Scene::new().await;
    let uid = scene.order("here");
    let here = (&*scene.acme, "here", &*uid);
    // What the mapping calls `settings` now.
    scene.made("ConfigMap", "here", "here", "former", here);
    scene.made("ConfigMap", "spare", "spare", "spare", here);
    scene.made("Secret", "here", "here", "login", here);
    scene.remember();
    let orphans = |said: &str| {
        let lines = said.lines().skip_while(|line| !line.starts_with("orphan"));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_snapshot!(orphans(&scene.diff(MAPPING, &[])), @r"
    orphan ConfigMap tenant/spare (mapping things, for things default/here of ACME)
      the mapping has no object `spare` any more; it goes with its source
    orphan Secret tenant/here (mapping things, for things default/here of ACME)
      the mapping has no object `login` any more; it goes with its source
    ");
    assert_snapshot!(orphans(&scene.diff(MAPPING, &["--inventory-namespace", "elsewhere"])), @r"
    orphan ConfigMap tenant/spare (mapping things, for things default/here of ACME)
      the mapping has no object `spare` any more; it goes with its source
    ");
}
