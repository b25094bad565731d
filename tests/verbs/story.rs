//! `sync-engine sandbox` as its visitor meets it: what it tells, what its kubeconfig shows, and what it leaves behind.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{self, Running, text};
use crate::{ROOT, read};

/// A place without mappings, whose `tmp` is the program's folder for temporary files.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(place.path().join("tmp")).expect("a directory");
        Self(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program::command(self.0.path(), &[&["sandbox"], arguments].concat());
        command.env("TMPDIR", self.path("tmp"));
        command
    }

    /// A sandbox that stays.
    fn start(&self, arguments: &[&str]) -> Running {
        Running::start(&mut self.command(arguments))
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary starts")
    }

    /// Exit code and standard error.
    fn said(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        format!("exit {:?}\n{}", output.status.code(), String::from_utf8_lossy(&output.stderr).trim())
    }

    /// What is left in it, `tmp` and what is in that included.
    fn remains(&self) -> Vec<String> {
        let names = |folder: &Path| {
            let entries = fs::read_dir(folder).expect("a directory").map(|entry| entry.expect("an entry").file_name());
            entries.map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let mut all = names(self.0.path());
        all.extend(names(&self.path("tmp")));
        all.sort();
        all
    }
}

/// A client in a context of a kubeconfig.
async fn client(kubeconfig: &Path, context: &str) -> Client {
    let options = KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
    let read = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(read, &options).await.expect("a usable context");
    Client::try_from(config).expect("a client")
}

/// The rows that `kubectl get mongodbcommunity` prints, without the age.
async fn rows(kubeconfig: &Path, context: &str) -> Vec<Value> {
    let path = "/apis/mongodbcommunity.mongodb.com/v1/namespaces/default/mongodbcommunity";
    let request = http::Request::get(path).header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1");
    let request = request.body(Vec::new()).expect("a request");
    let table: Value = client(kubeconfig, context).await.request(request).await.expect("a table");
    let rows = table["rows"].as_array().expect("rows").iter();
    rows.map(|row| row["cells"].as_array().expect("cells").split_last().expect("an age").1.into()).collect()
}

/// The operator has left what a pod needs to connect.
async fn assert_can_be_connected_to(kubeconfig: &Path, database: &DynamicObject) {
    let namespace = database.metadata.namespace.as_deref().expect("a namespace");
    let secrets: Api<Secret> = Api::namespaced(client(kubeconfig, "downstream").await, namespace);
    let data = secrets.get("my-database-admin-app").await.expect("the connection string").data.expect("data");
    let text = |key: &str| String::from_utf8(data[key].0.clone()).expect("text");
    assert_eq!(text("username"), "app");
    let (password, host) = (text("password"), format!("my-database-0.my-database-svc.{namespace}.svc.cluster.local"));
    let expected = format!("mongodb://app:{password}@{host}:27017,");
    assert!(text("connectionString.standard").starts_with(&expected), "{}", text("connectionString.standard"));
}

/// The databases that a context of a kubeconfig shows.
async fn databases(kubeconfig: &Path, context: &str) -> Vec<DynamicObject> {
    let client = client(kubeconfig, context).await;
    let kind = GroupVersionKind::gvk("mongodbcommunity.mongodb.com", "v1", "MongoDBCommunity");
    let resource = ApiResource::from_gvk_with_plural(&kind, "mongodbcommunity");
    Api::<DynamicObject>::all_with(client, &resource).list(&ListParams::default()).await.expect("a list").items
}

#[test]
fn the_story_ends_well_and_leaves_nothing_behind() {
    let place = Place::new();
    let output = place.run(&["--exit-when-synced"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for sentence in [
        "provider     publishes MongoDBCommunity",
        "acme         creates MongoDBCommunity default/my-database",
        "globex       creates MongoDBCommunity default/my-database",
        "for acme",
        "for globex",
        "2 of 2 source objects are ready",
    ] {
        assert!(text.contains(sentence), "`{sentence}` is not told:\n{text}");
    }
    assert!(!text.contains('\x1b'), "no colours in a pipe: {text}");
    assert_eq!(place.remains(), ["tmp"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_visitor_looks_around_edits_a_mapping_and_leaves() {
    let place = Place::new();
    let kubeconfig = place.path("kubeconfig");
    let mut sandbox = place.start(&["--kubeconfig-out", "kubeconfig"]);
    let pages: Vec<String> = ["kcp  ", "downstream", "status page"].map(|name| sandbox.line(name)).into();
    let mappings = sandbox.line("mappings  ");
    sandbox.line("2 of 2 source objects are ready");

    let read = Kubeconfig::read_from(&kubeconfig).expect("a kubeconfig");
    assert_eq!(read.current_context.as_deref(), Some("provider"));
    for consumer in ["acme", "globex"] {
        let found = databases(&kubeconfig, consumer).await;
        let [database] = &found[..] else { panic!("{consumer} has one database: {found:?}") };
        assert_eq!(database.metadata.name.as_deref(), Some("my-database"));
        assert_eq!(database.data["status"]["phase"], "Running", "{database:?}");
        assert_eq!(database.data["status"]["version"], "6.0.5", "{database:?}");
        assert_eq!(rows(&kubeconfig, consumer).await, [json!(["my-database", "Running", "6.0.5", "True"])]);
    }
    let downstream = databases(&kubeconfig, "downstream").await;
    assert_eq!(downstream.len(), 2);
    for database in &downstream {
        assert_can_be_connected_to(&kubeconfig, database).await;
    }
    assert_writes_nowhere_else(&sandbox.child, &place);
    assert_listens_on_loopback_alone(&sandbox.child);
    assert_keeps_to_small_pages(&sandbox.child);
    let mode = fs::metadata(&kubeconfig).expect("the kubeconfig").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it holds tokens");

    sandbox.line("Ctrl-C");
    let mapping = Path::new(mappings.split_whitespace().last().expect("a path")).join("mongodb.yaml");
    let (kind, label) = ("kind: MongoDBCommunity\n", "        metadata: {labels: {offered-by: platform}}\n");
    let edit = || {
        let text = fs::read_to_string(&mapping).expect("the mapping");
        fs::write(&mapping, text.replace(kind, &format!("{kind}{label}"))).expect("an edit");
    };
    edit();
    sandbox.line("generation 2");
    sandbox.line("metadata.labels.offered-by: platform");
    sandbox.line("metadata.labels.offered-by: platform");
    let labelled = databases(&kubeconfig, "downstream").await.into_iter().filter_map(|one| one.metadata.labels);
    assert_eq!(labelled.filter(|labels| labels["offered-by"] == "platform").count(), 2);
    edit();
    sandbox.line("keeps what ran");
    sandbox.line("error[SE0002]");

    assert_eq!(sandbox.stop("TERM"), Some(0));
    assert_eq!(place.remains(), ["tmp"]);
    for page in pages {
        let address = page.split("://").nth(1).expect("an address").trim_end_matches('/');
        std::net::TcpStream::connect(address).expect_err("nobody listens any more");
    }
}

/// What Linux tells of a process's sockets.
fn assert_listens_on_loopback_alone(child: &Child) {
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    let Ok(files) = fs::read_dir(process.join("fd")) else { return };
    let own: HashSet<String> = files.flatten().filter_map(|file| inode(&file.path())).collect();
    let mut listening = Vec::new();
    for table in ["net/tcp", "net/tcp6"] {
        let table = fs::read_to_string(process.join(table)).unwrap_or_default();
        for row in table.lines().skip(1) {
            // sl, local address, remote address, state (0A: listening), queues, timer, retransmits, uid, timeout, inode
            let fields: Vec<&str> = row.split_whitespace().collect();
            if fields[3] == "0A" && own.contains(fields[9]) {
                listening.push(fields[1].to_owned());
            }
        }
    }
    assert_eq!(listening.len(), 3, "kcp, the downstream cluster and the status page: {listening:?}");
    assert!(listening.iter().all(|address| address.starts_with("0100007F:")), "127.0.0.1 alone: {listening:?}");
}

/// What Linux, from 5.0 on, tells of a process's memory.
fn assert_keeps_to_small_pages(child: &Child) {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let huge_pages = status.lines().find_map(|line| line.strip_prefix("THP_enabled:"));
    assert!(huge_pages.is_none_or(|enabled| enabled.trim() == "0"), "{huge_pages:?}");
}

/// While it runs, a program has a folder of its own below that for temporary files, and what it was told to write;
/// no file elsewhere is open for writing. What Linux tells of a process's files.
fn assert_writes_nowhere_else(child: &Child, place: &Place) {
    let [kubeconfig, own, tmp] = &place.remains()[..] else { panic!("{:?}", place.remains()) };
    assert!(own.starts_with("sync-engine-sandbox-"), "{own}");
    assert_eq!((kubeconfig.as_str(), tmp.as_str()), ("kubeconfig", "tmp"));
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    let Ok(files) = fs::read_dir(process.join("fd")) else { return };
    // What it says goes wherever the test's own words go.
    let standard = ["0", "1", "2"];
    for file in files.flatten().filter(|file| !standard.iter().any(|name| file.file_name() == *name)) {
        let Ok(target) = fs::read_link(file.path()) else { continue };
        let text = fs::read_to_string(process.join("fdinfo").join(file.file_name())).unwrap_or_default();
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or_default().trim();
        // The lowest two bits: 0 for reading alone.
        let is_written = !flags.ends_with(['0', '4']);
        let is_elsewhere =
            target.is_absolute() && !target.starts_with("/dev") && !target.starts_with(place.path("tmp"));
        assert!(!(is_written && is_elsewhere), "{} is open for writing", target.display());
    }
}

/// `socket:[12345]`
fn inode(file: &Path) -> Option<String> {
    let link = fs::read_link(file).ok()?;
    Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
}

#[test]
fn an_end_in_the_middle_leaves_nothing_behind_either() {
    for signal in ["INT", "HUP"] {
        let place = Place::new();
        let mut sandbox = place.start(&["--kubeconfig-out", "kubeconfig"]);
        let page = sandbox.line("kcp  ");
        sandbox.line("creates MongoDBCommunity");
        assert_eq!(sandbox.stop(signal), Some(0), "{signal}");
        assert_eq!(place.remains(), ["tmp"], "{signal}");
        let address = page.split("://").nth(1).expect("an address");
        std::net::TcpStream::connect(address).expect_err("nobody listens any more");
    }
}

#[test]
fn a_crowd_on_several_shards_is_summed_up() {
    let place = Place::new();
    let output = place.run(&["--exit-when-synced", "--workspaces", "6", "--objects", "5", "--shards", "3"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("30 of 30 source objects are ready"), "{text}");
    assert!(!text.contains("creates MongoDBCommunity"), "{text}");
}

#[test]
fn an_empty_sandbox_waits_for_its_visitor() {
    let place = Place::new();
    let mut sandbox = place.start(&["--empty"]);
    sandbox.line("apply -f examples/mongodb/secret.yaml -f examples/mongodb/mongodb.yaml");
    assert_eq!(sandbox.stop("TERM"), Some(0));
    assert!(sandbox.lines.try_iter().all(|line| !line.contains("creates MongoDBCommunity")));
}

#[test]
fn what_is_not_synced_in_time_is_a_failure_that_says_so() {
    let place = Place::new();
    fs::create_dir(place.path("mappings")).expect("a directory");
    insta::assert_snapshot!(place.said(&["--exit-when-synced", "--deadline", "1"]), @"
    exit Some(1)
    error: not synced after 1 s: 0 of 2 source objects are ready in their workspaces
    ");
    assert_eq!(place.remains(), ["mappings", "tmp"]);
}

#[test]
fn what_has_nothing_to_sync_is_no_success() {
    let place = Place::new();
    redis(&place);
    let order = place.path("redis/examples/cache.yaml");
    fs::write(&order, read(&order).replace("kind: Cache", "kind: Cach")).expect("an edit");
    let output = place.run(&["redis", "--exit-when-synced"]);
    let told = text(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    for part in ["no Cache of redis.example.com/v1alpha1 is there to be created", "nothing is there to be synced"] {
        assert!(told.contains(part), "{told}");
    }
}

const REDIS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/redis");
const FLEET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/fleet");

/// A copy of an example that a visitor may break.
fn redis(place: &Place) -> PathBuf {
    let mapping = place.path("redis/mappings/redis.yaml");
    for folder in ["mappings", "schemas", "examples"] {
        fs::create_dir_all(place.path("redis").join(folder)).expect("a folder");
        for entry in fs::read_dir(Path::new(REDIS).join(folder)).expect("the example").map(|entry| entry.expect("one"))
        {
            if entry.path().is_file() {
                fs::copy(entry.path(), place.path("redis").join(folder).join(entry.file_name())).expect("a copy");
            }
        }
    }
    mapping
}

/// What `validate` refuses is refused here, and a file that is emptied for a moment removes nothing.
#[test]
fn an_edit_is_judged_as_everywhere_else() {
    let place = Place::new();
    let mapping = redis(&place);
    let good = read(&mapping);
    let bad = good.replacen("source.spec.memory", "source.spec.memorie", 1);
    assert_ne!(bad, good);
    let mut sandbox = place.start(&["redis"]);
    sandbox.line("source objects are ready in their workspaces");
    // What it suggests to get is served on that side.
    sandbox.line("kubectl --context acme get caches");
    sandbox.line("kubectl --context downstream get redisreplications -A");
    sandbox.line("Ctrl-C");
    fs::write(&mapping, bad).expect("an edit");
    sandbox.line("keeps what ran");
    sandbox.line("error[SE0401]");
    fs::write(&mapping, "").expect("an edit");
    sandbox.line("warning[SE0012]");
    assert_eq!(sandbox.stop("TERM"), Some(0));
}

#[test]
fn why_objects_are_not_ready_is_the_reason_of_the_failure() {
    let place = Place::new();
    let mapping = redis(&place);
    let text = read(&mapping);
    let annotations = "annotations: {never: \"{{ source.spec.memory | fromjson }}\"}";
    let of_cache = format!("        metadata: {{{annotations}}}\n        spec:\n");
    // `Ready` is `True` then, as the operator says.
    let metadata = format!("{{name: \"{{{{ placement.name }}}}-never\", {annotations}}}");
    let template = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {metadata}}}");
    let of_another = format!("  objects:\n    - {{id: never, template: {template}}}\n");
    for (before, after) in [("        spec:\n", of_cache), ("  objects:\n", of_another)] {
        let failing = text.replacen(before, &after, 1);
        assert_ne!(failing, text);
        fs::write(&mapping, failing).expect("an edit");
        let said = place.said(&["redis", "--exit-when-synced", "--deadline", "3"]);
        assert!(said.starts_with("exit Some(1)\n") && said.contains("Synced is False (RenderFailed)"), "{said}");
    }
}

/// Clusters of another example are not started, and whoever has no schemas is told what is played instead.
#[test]
fn what_is_played_is_the_visitors_story_or_it_is_said() {
    let place = Place::new();
    let output = place.run(&[ROOT, "--exit-when-synced"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("a kcp, a cluster, an operator") && !told.contains("is a cluster of its own"), "{told}");
    let mapping = redis(&place);
    fs::create_dir_all(place.path("alone/mappings")).expect("a folder");
    fs::copy(mapping, place.path("alone/mappings/redis.yaml")).expect("a copy");
    let mut sandbox = place.start(&["alone"]);
    let said = sandbox.line("plays its own example");
    assert!(said.contains("no document beside the mappings defines caches.v1"), "{said}");
    assert_eq!(sandbox.stop("TERM"), Some(0));
}

/// No CustomResourceDefinition may name a kind of the core group.
#[test]
fn a_kind_of_the_core_group_that_nothing_defines_is_served() {
    let place = Place::new();
    let mapping = redis(&place);
    let entry = "    - {id: entry, template: {apiVersion: v1, kind: Service, spec: {ports: [{port: 6379}]}}}\n";
    let edited = read(&mapping).replacen("  objects:\n", &format!("  objects:\n{entry}"), 1);
    fs::write(&mapping, edited).expect("an edit");
    let output = place.run(&["redis", "--exit-when-synced"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && told.contains("creates Service"), "{output:?}");
}

/// Its objects are somebody else's, and the mapping makes none.
#[test]
fn a_kind_that_is_only_read_is_served_as_a_document_defines_it() {
    let place = Place::new();
    let mapping = redis(&place);
    let policies = "  related:
    - {id: policy, direction: ToSource, resource: policies.v1.example.com, from: {name: \"{{ placement.name }}\"}, onMissing: Skip}
";
    let reader = "  objects:
    - id: reader
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: \"{{ placement.name }}-reader\"}
        data: {policy: \"{{ related.policy.spec.text | default('none') }}\"}
";
    let edited = read(&mapping).replacen("  related:\n", policies, 1).replacen("  objects:\n", reader, 1);
    fs::write(&mapping, edited).expect("an edit");
    let definition = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: policies.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Policy, listKind: PolicyList, plural: policies, singular: policy}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
    fs::write(place.path("redis/schemas/policy.yaml"), definition).expect("a definition");
    let output = place.run(&["redis", "--exit-when-synced"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && told.contains("creates ConfigMap"), "{output:?}");
}

#[test]
fn what_is_wrong_with_the_command_line_exits_with_3() {
    let place = Place::new();
    fs::write(place.path("mine"), "apiVersion: v1").expect("a file");
    let lines = [&["--kubeconfig-out", "mine"][..], &["missing"], &["--operator", "mine"]];
    insta::assert_snapshot!(lines.map(|line| place.said(line)).join("\n"), @"
    exit Some(3)
    error: cannot write `mine` (--kubeconfig-out): it is there already, and none of ours; name another, or move it away
    exit Some(3)
    error: cannot read the mappings directory `missing`: it does not exist; create it, or name another
    exit Some(3)
    error: mine cannot be played:
    error[SE0104]: `v1` is not `sandbox.sync-engine.dev/v1alpha1`, the only choice
     --> mine:1:13
      |
    1 | apiVersion: v1
      |             ^^
    ");
    std::os::unix::fs::symlink(place.path("nowhere"), place.path("link")).expect("a link");
    let linked = place.said(&["--kubeconfig-out", "link"]);
    assert!(linked.starts_with("exit Some(3)\nerror: cannot write `link`"), "{linked}");
    assert!(!place.path("nowhere").exists(), "a link leads to somebody else's file");
    assert_eq!(read(place.path("mine")), "apiVersion: v1");
    assert_eq!(place.remains(), ["link", "mine", "tmp"]);
}

/// The objects of a resource of the example in a context of a kubeconfig.
fn logistics(client: Client, kind: &str, plural: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("logistics.example.com", "v1", kind);
    Api::all_with(client, &ApiResource::from_gvk_with_plural(&kind, plural))
}

/// Each pattern leaves its objects where it says, on clusters that are not each other, and the commands of the page show them.
#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_of_clusters_is_looked_around_in() {
    let place = Place::new();
    let kubeconfig = place.path("kubeconfig");
    let mut sandbox = place.start(&[FLEET, "--kubeconfig-out", "kubeconfig"]);
    sandbox.line("6 of 6 source objects are ready where they were created");
    sandbox.line("kubectl --context downstream get restocks");

    let mut uids = HashSet::new();
    for context in ["downstream", "north", "south", "depot"] {
        let namespaces: Api<Namespace> = Api::all(client(&kubeconfig, context).await);
        uids.insert(namespaces.get("kube-system").await.expect("the namespace").metadata.uid);
    }
    assert_eq!(uids.len(), 4, "each has an identity of its own");

    let names = async |context: &str, kind: &str, plural: &str| -> Vec<String> {
        let found = logistics(client(&kubeconfig, context).await, kind, plural).list(&ListParams::default()).await;
        let mut found: Vec<_> = found.expect("a list").items.into_iter().filter_map(|one| one.metadata.name).collect();
        found.sort();
        found
    };
    assert_eq!(names("downstream", "Shipment", "shipments").await, ["morning", "morning"], "one of each shop");
    assert_eq!(names("depot", "Restock", "restocks").await, ["winter"]);
    assert_eq!(names("depot", "Shipment", "shipments").await, [""; 0]);
    for shop in ["north", "south"] {
        let shipments = logistics(client(&kubeconfig, shop).await, "Shipment", "shipments");
        let shipment = shipments.list(&ListParams::default()).await.expect("a list").items.pop().expect("the order");
        assert_eq!(shipment.data["status"]["phase"], "Delivered", "{shop}");
        let settings: Api<ConfigMap> = Api::namespaced(client(&kubeconfig, shop).await, "shop-1");
        let settings = settings.get("front-settings").await.expect("beside the till").data.expect("data");
        assert_eq!(settings["currency"], "CHF", "{shop}");
    }

    let page = read("docs/patterns.md");
    let commands: Vec<&str> = page.lines().filter(|line| line.starts_with("kubectl ")).collect();
    assert!(commands.len() >= 9, "{commands:?}");
    for command in commands {
        let [_, _, context, "get", plural, rest @ ..] = &command.split(' ').collect::<Vec<_>>()[..] else {
            panic!("it cannot be followed: {command}")
        };
        let namespace = rest.iter().skip_while(|word| **word != "-n").nth(1).map(|name| format!("/namespaces/{name}"));
        let api = if ["secrets", "configmaps"].contains(plural) { "api/v1" } else { "apis/logistics.example.com/v1" };
        let path = format!("/{api}{}/{plural}", namespace.unwrap_or_default());
        let request = http::Request::get(&path).body(Vec::new()).expect("a request");
        let list: Value = client(&kubeconfig, context).await.request(request).await.expect("a list");
        assert_ne!(list["items"], json!([]), "`{command}` shows nothing");
    }

    // A visitor lists the depot among the shops: the providers read Secrets that kubectl can label.
    let secrets: Api<Secret> = Api::namespaced(client(&kubeconfig, "downstream").await, "fleet");
    let shops = secrets.list(&ListParams::default().labels("fleet=shops")).await.expect("a list").items;
    assert_eq!(shops.iter().filter_map(|one| one.metadata.name.as_deref()).collect::<Vec<_>>(), ["north", "south"]);
    let label = json!({"metadata": {"labels": {"fleet": "shops"}}});
    secrets.patch("depot", &PatchParams::default(), &Patch::Merge(label)).await.expect("a label");
    let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop-1"}});
    let depot = client(&kubeconfig, "depot").await;
    let shop = serde_json::from_value(shop).expect("a Namespace");
    Api::<Namespace>::all(depot.clone()).create(&PostParams::default(), &shop).await.expect("a namespace");
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("logistics.example.com", "v1", "Till"));
    let tills: Api<DynamicObject> = Api::namespaced_with(depot, "shop-1", &kind);
    let till = DynamicObject::new("front", &kind).data(json!({"spec": {"lane": 7}}));
    tills.create(&PostParams::default(), &till).await.expect("a till");
    sandbox.line("creates ConfigMap shop-1/front-settings on depot");
    assert_eq!(sandbox.stop("TERM"), Some(0));
    assert_eq!(place.remains(), ["tmp"]);
}

#[test]
fn what_is_wrong_with_a_fleet_is_said() {
    let place = Place::new();
    let said = |name: &str| {
        let text =
            format!("apiVersion: sandbox.sync-engine.dev/v1alpha1\nkind: ToyCluster\nmetadata: {{name: {name}}}\n");
        fs::write(place.path("cluster.yaml"), text).expect("a file");
        place.said(&[FLEET, "-f", "cluster.yaml", "--exit-when-synced"])
    };
    insta::assert_snapshot!(["north", "target"].map(said).join("\n"), @"
    exit Some(3)
    error: two ToyClusters are called `north`; rename one
    exit Some(3)
    error: cluster.yaml cannot be played:
    error[SE0104]: no ToyCluster can be called `target`
     --> cluster.yaml:3:18
      |
    3 | metadata: {name: target}
      |                  ^^^^^^
      |
      = help: use a DNS label other than `kcp`, `target`, `provider`, `downstream`, `acme`, `globex`, `initech`, `umbrella`, which the sandbox needs
    ");

    // Its clusters are those of a machine that the sandbox does not have.
    fs::create_dir(place.path("mappings")).expect("a directory");
    for name in ["uniform", "cross-cluster", "providers"] {
        let text = read(format!("{FLEET}/mappings/{name}.yaml"));
        let text = if name == "uniform" { text.replace("shops", "edge") } else { text };
        fs::write(place.path(&format!("mappings/{name}.yaml")), text).expect("a file");
    }
    let [schemas, orders] = ["schemas", "examples"].map(|folder| format!("{FLEET}/{folder}"));
    let output = place.run(&["-f", &schemas, "-f", &orders, "--exit-when-synced"]);
    let told = text(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let left_out = "mapping `uniform` is not played: the sandbox has no cluster of the ClusterProvider `edge`";
    assert!(told.contains(left_out) && told.contains("1 of 1 source object is ready"), "{told}");
}

/// What cannot be meant is no story with a part left out.
#[test]
fn a_name_used_twice_and_an_operator_of_nothing_are_errors() {
    let place = Place::new();
    let said = |name: &str, text: String| {
        fs::write(place.path(name), text).expect("a file");
        place.said(&[REDIS, "-f", name, "--exit-when-synced"])
    };
    let order = read(format!("{REDIS}/examples/cache.yaml"));
    assert_eq!(said("same.yaml", order.clone()), "exit Some(0)\n", "the same object twice is one");
    let operator = read(format!("{REDIS}/examples/operator.yaml"));
    let resource = operator.lines().find_map(|line| line.trim().strip_prefix("resource: ")).expect("its resource");
    let refused = [
        said("other.yaml", order.replace("spec:", "spec: # another\n  plan: other")),
        said("operator.yaml", operator.replace(resource, "nothings.v1.example.com")),
        said("kind.yaml", operator.replace("ToyOperator", "ToyOperators")),
    ];
    insta::assert_snapshot!(refused.join("\n"), @"
    exit Some(3)
    error: two different documents are Cache default/sessions; rename one
    exit Some(3)
    error: ToyOperator `redis-operator`: no CustomResourceDefinition beside the mappings defines `nothings.v1.example.com`
    exit Some(3)
    error: kind.yaml cannot be played:
    error[SE0104]: `ToyOperators` is not one of `ToyOperator`, `ToyCluster`
     --> kind.yaml:3:7
      |
    3 | kind: ToyOperators
      |       ^^^^^^^^^^^^
      |
      = help: did you mean `ToyOperator`?
    ");
    let broken = said("broken.yaml", operator.replace("  steps:", "   steps:"));
    assert!(broken.contains("error: broken.yaml cannot be played:\nerror[SE0001]: "), "{broken}");
}

/// Its errors are told in place of another story.
#[test]
fn a_folder_in_which_no_mapping_can_be_used_is_not_played() {
    let place = Place::new();
    let mapping = redis(&place);
    fs::write(&mapping, read(&mapping).replace("  vars:\n", "  varz:\n")).expect("an edit");
    let said = place.said(&["redis", "--exit-when-synced"]);
    let refused =
        "exit Some(3)\nerror: no mapping in `redis/mappings` can be used\n\nerror[SE0101]: unknown field `varz`";
    assert!(said.starts_with(refused), "{said}");
}
