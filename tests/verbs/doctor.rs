//! `sync-engine doctor`: what clusters lack, and what else is wrong. What takes users and their rights is shown on real
//! servers, by tests/e2e/scenarios/rights.rs.

use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use insta::assert_snapshot;
use serde_json::{Value, json};
use sync_engine::engine::compiled;
use sync_engine::sandbox::{
    ApiRef, Claim, Failure, Fault, Options, Sandbox, Timestamp, anything, definition, resource_schema,
};

use super::diff::UNREACHABLE;
use super::live::Live;
use super::orphans::MAPPING;
use super::scene::{self, Scene};
use super::{directory, read, shown_in};

/// Without what differs from one run to the next.
fn steady(text: &str) -> String {
    let patterns = [
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
        (r#"\d+\.\d+\.\d+, commit [^\s"]+"#, "VERSION"),
        (r"at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "at TIME"),
    ];
    patterns.into_iter().fold(text.to_owned(), |text, (pattern, word)| {
        regex::Regex::new(pattern).expect("a pattern").replace_all(&text, word).into_owned()
    })
}

/// Without the lines of what is fine.
fn wrong(text: &str) -> String {
    steady(text).lines().filter(|line| !line.starts_with("ok ")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn what_the_clusters_lack_is_said_with_its_place() {
    let live = Live::mongodb();
    assert_snapshot!("sandbox", steady(&live.shown(&["doctor", "mappings"])));
    let shipped = read("mappings/mongodb.yaml");
    let lacks = [
        ("  objects:\n", "  target: {cluster: edge}\n\n  objects:\n"),
        ("{name: mongodb, path", "{name: other, path"),
        ("path: root:mongodb}", "path: root:mongodb, endpointSlice: other}"),
        ("mongodbcommunity.v1.", "mongodbcommunity.v2."),
        (
            "  related:\n",
            "  related:\n    - {id: account, direction: ToTarget, resource: serviceaccounts.v1, from: {name: account}}\n",
        ),
        ("kind: MongoDBCommunity", "kind: MongoDB"),
        (
            "spec: ${{ source.spec }}",
            "spec:\n          $merge:\n            - ${{ source.spec }}\n            - {members: many}",
        ),
    ]
    .map(|(old, new)| {
        let changed = shipped.replacen(old, new, 1);
        assert_ne!(changed, shipped, "{old}");
        let root = directory(&[("mongodb.yaml", &changed)]);
        let path = root.path().display().to_string();
        let said = wrong(&live.shown(&["doctor", &path]).replace(&path, "ROOT"));
        // What follows is the same for each: the state store holds the document without the change.
        said.split("\nwarning  documents").next().unwrap_or_default().to_owned()
    });
    assert_snapshot!("lacks", lacks.concat());
}

const THINGS: &str = "\
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: things}
spec:
  source: {apiExport: {name: things, path: root:provider}, resource: things.v1.example.com}
  related:
    - {id: password, direction: ToTarget, resource: secrets.v1, from: {name: password}, shared: Namespace}
  objects:
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, data: {size: big}}
";

const CLAIM: Claim<'_> = Claim { group: "", resource: "secrets" };

/// kcp with a provider, a target, and the token of a user that says when it ends.
struct Practice {
    kcp: Sandbox,
    target: Sandbox,
    token: String,
}

impl Practice {
    /// `clock`: what the target's is ahead; `ends`: when the token of the target does; both from now on, in seconds.
    async fn new(clock: i64, ends: i64) -> Self {
        let kcp = Options::kcp().start().await.expect("starts");
        let target = Options::kubernetes().clock(move || Timestamp(now() + clock)).start().await.expect("starts");
        kcp.create_workspace("root", "provider").expect("a workspace");
        let schemas = [("things.v1.example.com", "Thing"), ("gadgets.v1.example.com", "Gadget")]
            .map(|(resource, kind)| resource_schema(resource, kind, &json!({"type": "object"})));
        kcp.publish("root:provider", "things", &schemas, &[CLAIM]).expect("an export");
        let encoded = |part: &Value| BASE64URL_NOPAD.encode(part.to_string().as_bytes());
        let token = format!("{}.{}.c2ln", encoded(&json!({})), encoded(&json!({"exp": now() + ends})));
        target.accept(&token);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sync-engine"}});
        target.create(ApiRef { cluster: "", resource: "namespaces.v1" }, &namespace).expect("a namespace");
        Self { kcp, target, token }
    }

    fn consumer(&self, name: &str, accepted: &[Claim<'_>]) {
        let workspace = self.kcp.create_workspace("root", name).expect("a workspace");
        self.kcp.bind(&workspace, "root:provider", "things", accepted).expect("a binding");
    }

    fn remember(&self, mapping: &str, document: &str) {
        let store = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("main.{mapping}"), "namespace": "sync-engine", "labels": {"sync-engine.dev/engine": "main"}},
            "data": {"mapping": mapping, "document": document, "recorded": "2026-08-01T12:00:00.123Z"},
        });
        self.target.create(ApiRef { cluster: "", resource: "configmaps.v1" }, &store).expect("a state store");
    }

    /// What the doctor prints.
    fn shown(&self, flags: &[&str]) -> String {
        self.shown_of(THINGS, flags)
    }

    /// The same of another file.
    fn shown_of(&self, file: &str, flags: &[&str]) -> String {
        let target = self.target.kubeconfig(None).replace(self.target.token(), &self.token);
        let kcp = self.kcp.kubeconfig(None);
        let root = directory(&[("things.yaml", file), ("kcp", &kcp), ("target", &target), ("edge", UNREACHABLE)]);
        let arguments =
            ["doctor", "ROOT/things.yaml", "--kcp-kubeconfig", "ROOT/kcp", "--target-kubeconfig", "ROOT/target"];
        let arguments = [&arguments[..], flags].concat();
        // The servers are in this process: they must go on meanwhile.
        steady(&tokio::task::block_in_place(|| shown_in(&root, &arguments)))
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    i64::try_from(now.as_secs()).expect("a time")
}

const DAY: i64 = 24 * 60 * 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_wrong_where_everything_is_well() {
    let practice = Practice::new(-5, 30 * DAY).await;
    practice.consumer("acme", &[CLAIM]);
    practice.remember("things", &compiled(THINGS).expect("a mapping").text);
    assert_snapshot!("well", practice.shown(&["-o", "table"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_trouble_is_said_with_what_mends_it() {
    let practice = Practice::new(5 * 60 + 30, DAY / 4 + 30 * 60).await;
    practice.consumer("acme", &[CLAIM]);
    (10..22).for_each(|number| practice.consumer(&format!("c{number}"), &[]));
    practice.remember("things", &THINGS.replace("big", "small"));
    practice.remember("gone", "");
    assert_snapshot!("warnings", practice.shown(&[]));
    assert_snapshot!("unread", wrong(&practice.shown(&["--connection", "edge=ROOT/edge"])));
    let json = practice.shown(&["-o", "json"]);
    let checks: Vec<Value> = serde_json::from_str(json.trim_start_matches("exit 0\n")).expect("one JSON value");
    assert_eq!(checks.len(), 9, "{json}");
    assert_snapshot!(format!("{:#}", checks[3]), @r#"
    {
      "about": "connection `target`",
      "check": "clock",
      "fix": "`timedatectl` on both shows which one is wrong",
      "message": "the server's clock is 5m ahead of this machine's",
      "verdict": "warning"
    }
    "#);
    // The document that cannot be used may be the one that is recorded.
    let broken = practice.shown_of(&THINGS.replace("objects:", "object:"), &[]);
    assert!(broken.starts_with("exit 1\n") && !broken.contains("mapping `gone`"), "{broken}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_that_ended_is_an_error() {
    let practice = Practice::new(-3 * DAY - DAY / 2, -60).await;
    assert_snapshot!("ended", practice.shown(&[]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_that_is_not_accepted_is_no_lack_of_rights() {
    let practice = Practice { token: "other".to_owned(), ..Practice::new(0, 30 * DAY).await };
    let said = practice.shown(&[]);
    let found =
        said.contains("error[SE0801]: the server does not accept the credential (401): check the kubeconfig's user\n");
    assert!(said.starts_with("exit 3\n") && found && !said.contains("SE0806"), "{said}");
}

/// Servers that answer, and refuse what is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_not_be_read_is_not_called_fine() {
    let practice = Practice::new(0, 30 * DAY).await;
    practice.consumer("acme", &[]);
    let refuse = |server: &Sandbox, resource: &'static str| {
        let denied = Failure::status(403, "Forbidden", "forbidden: access denied".to_owned());
        server.faults().inject(move |call| (call.resource == resource).then(|| Fault::Refuse(denied.clone())));
    };
    refuse(&practice.kcp, "apibindings");
    refuse(&practice.target, "configmaps");
    assert_snapshot!("refused", practice.shown(&[]));
    refuse(&practice.kcp, "apiexports");
    let said = practice.shown(&[]);
    assert!(said.contains("unknown  claims "), "{said}");
}

/// A Gadget beside each Thing.
const GADGETS: &str = "\
apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: gadgets}
spec:
  source: {apiExport: {name: things, path: root:provider}, resource: things.v1.example.com}
  target: {cluster: source}
  objects:
    - id: gadget
      template: {apiVersion: example.com/v1, kind: Gadget}
";

const GIZMOS: &str = "\
apiVersion: apis.kcp.io/v1alpha2
kind: APIExport
metadata: {name: things}
spec:
  resources:
    - {group: example.com, name: gizmos, schema: v1.gizmos.example.com, storage: {crd: {}}}
";

/// The live export is asked, whatever a file says of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_live_export_publishes_takes_no_claim() {
    let practice = Practice::new(0, 30 * DAY).await;
    let said = practice.shown_of(GADGETS, &[]);
    assert!(said.contains("1 mapping in 1 file, nothing wrong; "), "{said}");
    let schemas = directory(&[("export.yaml", GIZMOS)]);
    let schemas = schemas.path().display().to_string();
    let said = practice.shown_of(&GADGETS.replace("kind: Gadget", "kind: Gizmo"), &["--schemas", &schemas]);
    let lacks = "the APIExport `things` does not claim get, list, watch, create, patch, delete of `gizmos`";
    assert!(said.contains("SE0805") && said.contains(lacks), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_target_that_a_mapping_names_is_asked_for_its_kinds() {
    let mapping = MAPPING
        .replace("  objects:", "  targets: {allowed: [target, edge]}\n  objects:")
        .replace("{apiVersion: v1, kind: ConfigMap, data: {size: big}}", "{apiVersion: example.com/v1, kind: Widget}");
    let scene = Scene::set(&mapping, &[scene::THINGS], &[], &[]).await;
    let crds = ApiRef { cluster: "", resource: "customresourcedefinitions.v1.apiextensions.k8s.io" };
    let widgets = definition("widgets.v1.example.com", "Widget", &anything());
    let doctor = || scene.said(&["doctor", "ROOT/maps"], &["--connection", "edge=ROOT/edge"]);
    scene.edge.create(crds, &widgets).expect("a definition");
    let said = doctor();
    let lacks = "error[SE0807]: target `target`: Widget (example.com/v1) is not served there";
    assert!(said.starts_with("exit 1\n") && said.contains(lacks), "{said}");
    scene.target.create(crds, &widgets).expect("a definition");
    assert!(!doctor().contains("SE0807"));
}

/// Its sources and its targets are clusters of a directory.
const FLEET: &str = r#"apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: things}
spec:
  source: {provider: shops, resource: things.v1.example.com}
  target: {cluster: "shops/{{ source.metadata.labels.shop }}", clusters: {provider: shops}}
  objects:
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, data: {size: big}}
---
apiVersion: sync-engine.dev/v1alpha1
kind: ClusterProvider
metadata: {name: shops}
spec:
  kubeconfigFiles: {directory: shops, glob: "*.yaml"}
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clusters_of_a_fleet_are_looked_at_too() {
    let shops = [Options::kubernetes().seed("east"), Options::kubernetes().seed("west")];
    let mut servers = Vec::new();
    for shop in shops {
        let server = shop.start().await.expect("starts");
        let crds = ApiRef { cluster: "", resource: "customresourcedefinitions.v1.apiextensions.k8s.io" };
        server.create(crds, &definition("things.v1.example.com", "Thing", &anything())).expect("a definition");
        servers.push(server);
    }
    let shown = |files: &[(&str, &str)], flags: &[&str]| {
        let gadgets = FLEET.replace("kind: ConfigMap", "kind: Gadget");
        let root =
            directory(&[&[("maps/fleet.yaml", FLEET), ("gadgets/fleet.yaml", gadgets.as_str())], files].concat());
        let arguments = [&["doctor"], flags].concat();
        steady(&tokio::task::block_in_place(|| shown_in(&root, &arguments)))
    };
    let [east, west] = [&servers[0], &servers[1]].map(|server| server.kubeconfig(None));
    let both = [("shops/east.yaml", east.as_str()), ("shops/west.yaml", west.as_str())];
    let directory = ["ROOT/maps", "--directory", "shops=ROOT/shops"];
    assert_snapshot!("fleet", shown(&both, &directory));
    let west_is_down = [both[0], ("shops/west.yaml", UNREACHABLE)];
    let troubles = [
        (both, &["ROOT/gadgets", "--directory", "shops=ROOT/shops"][..]),
        (west_is_down, &directory[..]),
        (both, &["ROOT/maps", "--directory", "other=ROOT/shops"]),
        (both, &["ROOT/maps", "--directory", "shops=ROOT/shops", "--target", "shops/north"]),
    ];
    let troubles = troubles.map(|(files, flags)| wrong(&shown(&files, flags)));
    assert_snapshot!("fleet-troubles", troubles.concat());
}
