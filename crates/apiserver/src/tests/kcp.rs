//! Workspaces, exports and bindings.

use serde_json::json;

use super::*;
use crate::{Claim, Unbound, anything, resource_schema, setup};

const APIS: &str = "apis/apis.kcp.io";
const STAR: &str = "/services/apiexport/root/things/clusters/*";
const OF_THINGS: &str = "apis/example.com/v1/namespaces/default/things";

impl World {
    /// Publishes `things` from root, with a claim on secrets.
    fn publish(&mut self) {
        let schema = resource_schema("things.v1.example.com", "Thing", &schema());
        self.ok(Request::post(&format!("/clusters/root/{APIS}/v1alpha1/apiresourceschemas"), &schema));
        let export = setup::export("things", &[schema], &[Claim { group: "", resource: "secrets" }]);
        self.ok(Request::post(&format!("/clusters/root/{APIS}/v1alpha2/apiexports"), &export));
    }

    /// Makes a workspace below root and returns its logical cluster.
    fn workspace(&mut self, name: &str) -> String {
        let workspaces = "/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces";
        let workspace =
            json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}});
        self.ok(Request::post(workspaces, &workspace));
        let ready = self.get(&format!("{workspaces}/{name}"));
        assert_eq!(ready["status"]["phase"], "Ready");
        ready["spec"]["cluster"].as_str().expect("a cluster").to_owned()
    }

    fn bind(&mut self, workspace: &str) {
        let binding = setup::binding("root", "things", &[]);
        self.ok(Request::post(&format!("/clusters/root:{workspace}/{APIS}/v1alpha2/apibindings"), &binding));
    }

    fn endpoints(&mut self) -> Value {
        let slice = self.get(&format!("/clusters/root/{APIS}/v1alpha1/apiexportendpointslices/things"));
        slice["status"].get("endpoints").cloned().unwrap_or_default()
    }

    /// Makes a thing called `x` in a workspace.
    fn make_thing(&mut self, workspace: &str) {
        let things = format!("/clusters/root:{workspace}/{OF_THINGS}");
        self.ok(Request::post(&things, &thing("x", json!({"size": 1}))));
    }
}

fn bound(workspaces: &[&str]) -> (World, Vec<String>) {
    let mut world = World::kcp();
    world.publish();
    let clusters = workspaces.iter().map(|name| world.workspace(name)).collect();
    workspaces.iter().for_each(|name| world.bind(name));
    (world, clusters)
}

#[test]
fn a_binding_becomes_bound_and_is_seen_through_the_virtual_workspace() {
    let (mut world, clusters) = bound(&["a"]);
    let phases: Vec<Value> = world
        .events
        .iter()
        .filter(|event| &*event.storage.plural == "apibindings")
        .map(|event| event.object.object()["status"]["phase"].clone())
        .collect();
    assert_eq!(phases, [json!(null), json!("Binding"), json!("Bound")]);
    let list = world.get(&format!("{STAR}/{APIS}/v1alpha2/apibindings"));
    let annotations = &list["items"][0]["metadata"]["annotations"];
    assert_eq!(annotations["kcp.io/cluster"], clusters[0]);
    assert_eq!(annotations["kcp.io/path"], "root:a");
    let export = world.get(&format!("/clusters/root/{APIS}/v1alpha2/apiexports/things"));
    assert_eq!(export["metadata"]["annotations"]["kcp.io/path"], "root", "as the admission of kcp");
    let older = world.get(&format!("{STAR}/{APIS}/v1alpha1/apibindings"));
    assert_eq!(older["items"][0]["apiVersion"], "apis.kcp.io/v1alpha1");
}

#[test]
fn a_binding_waits_for_its_export() {
    let mut world = World::kcp();
    world.workspace("a");
    world.bind("a");
    let url = format!("/clusters/root:a/{APIS}/v1alpha2/apibindings/things");
    assert_eq!(world.get(&url)["status"]["phase"], "Binding");
    world.publish();
    assert_eq!(world.get(&url)["status"]["phase"], "Bound");
}

#[test]
fn same_names_in_many_workspaces_are_told_apart_by_an_annotation() {
    let (mut world, mut clusters) = bound(&["a", "b"]);
    ["a", "b"].iter().for_each(|name| world.make_thing(name));
    let list = world.get(&format!("{STAR}/apis/example.com/v1/things"));
    let items = list["items"].as_array().expect("items");
    let mut seen: Vec<&str> =
        items.iter().filter_map(|item| item["metadata"]["annotations"]["kcp.io/cluster"].as_str()).collect();
    seen.sort_unstable();
    clusters.sort_unstable();
    assert_eq!(seen, clusters);
    let page = world.get(&format!("{STAR}/apis/example.com/v1/things?limit=1"));
    let token = page["metadata"]["continue"].as_str().expect("a token");
    let rest = world.get(&format!("{STAR}/apis/example.com/v1/things?limit=1&continue={token}"));
    assert_eq!(rest["items"].as_array().map(Vec::len), Some(1));
    assert_ne!(page["items"][0], rest["items"][0]);
}

#[test]
fn a_workspace_goes_when_it_is_empty() {
    let (mut world, clusters) = bound(&["a"]);
    let mut held = thing("x", json!({}));
    held["metadata"]["finalizers"] = json!(["a.io/b"]);
    world.ok(Request::post(&format!("/clusters/root:a/{OF_THINGS}"), &held));
    let workspace = "/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces/a";
    world.ok(Request::delete(workspace));
    assert!(world.get(workspace)["metadata"]["deletionTimestamp"].is_string());
    let through = format!("/services/apiexport/root/things/clusters/{}/{OF_THINGS}/x", clusters[0]);
    world.ok(patch(&through, MERGE, json!({"metadata": {"finalizers": null}})));
    assert_eq!(world.refused(Request::get(workspace)).0, 404);
    assert_eq!(world.refused(Request::get("/clusters/root:a/api/v1/namespaces")).0, 403);
    assert_eq!(world.endpoints(), json!(null));
    world.workspace("a");
}

#[test]
fn without_bindings_a_list_has_no_version() {
    let mut world = World::kcp();
    world.publish();
    let list = world.get(&format!("{STAR}/apis/example.com/v1/things"));
    assert_eq!((&list["metadata"], &list["items"]), (&json!({}), &json!([])));
    let mut older = World::of(Settings { flavor: Flavor::Kcp, unbound: Unbound::NotFound, ..Settings::default() });
    older.publish();
    assert_eq!(older.send(Request::get(&format!("{STAR}/apis/example.com/v1/things"))).0, 404);
}

#[test]
fn shards_have_endpoints_of_their_own() {
    let urls = ["http://one", "http://two"].map(str::to_owned).to_vec();
    let mut world = World::of(Settings { flavor: Flavor::Kcp, urls, ..Settings::default() });
    world.publish();
    for name in ["a", "b", "c"] {
        world.workspace(name);
        world.bind(name);
        world.make_thing(name);
    }
    assert_eq!(world.endpoints().as_array().map(Vec::len), Some(2));
    let mut seen = 0;
    for shard in [0, 1] {
        let request = Request { shard, ..Request::get(&format!("{STAR}/apis/example.com/v1/things")) };
        let items = world.ok(request)["items"].as_array().map_or(0, Vec::len);
        assert!(items > 0);
        seen += items;
    }
    assert_eq!(seen, 3);
}

#[test]
fn a_slice_with_a_partition_has_the_shards_that_it_selects() {
    let urls = ["http://one", "http://two"].map(str::to_owned).to_vec();
    let mut world = World::of(Settings { flavor: Flavor::Kcp, urls, ..Settings::default() });
    let slices = format!("/clusters/root/{APIS}/v1alpha1/apiexportendpointslices");
    let partitions = "/clusters/root/apis/topology.kcp.io/v1alpha1/partitions";
    let status = |world: &mut World| world.get(&format!("{slices}/half"))["status"].clone();
    let url = |host: &str| json!([{"url": format!("http://{host}/services/apiexport/root/things")}]);
    let valid = |status: &Value, kind: &str| {
        let conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.clone().find(|one| one["type"] == kind).map(|one| one["status"].clone()).unwrap_or_default()
    };
    let slice = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": "half"},
        "spec": {"export": {"path": "root", "name": "things"}, "partition": "half"},
    });
    world.ok(Request::post(&slices, &slice));
    assert_eq!(valid(&status(&mut world), "APIExportValid"), "False", "its export is missing");
    world.publish();
    assert_eq!(valid(&status(&mut world), "PartitionValid"), "False", "its partition is missing");
    let partition = |name: &str| {
        json!({
            "apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": "half"},
            "spec": {"selector": {"matchLabels": {"name": name}}},
        })
    };
    world.ok(Request::post(partitions, &partition("shard-1")));
    let found = status(&mut world);
    assert_eq!((&found["endpoints"], &found["shardSelector"]), (&json!(null), &json!("name=shard-1")), "{found}");
    for name in ["a", "b"] {
        world.workspace(name);
        world.bind(name);
    }
    assert_eq!(status(&mut world)["endpoints"], url("two"));
    // A shard that left keeps its URL for as long as it has consumers.
    world.ok(patch(&format!("{partitions}/half"), MERGE, partition("root")));
    let both = status(&mut world)["endpoints"].as_array().map(Vec::len);
    assert_eq!(both, Some(2));
    for shard in [0, 1] {
        let request = Request { shard, ..Request::get(&format!("{STAR}/{APIS}/v1alpha2/apibindings")) };
        let items = world.ok(request)["items"].as_array().map(Vec::len);
        assert_eq!(items, Some(1), "one binding on the shard {shard}");
    }
    let gone = ["a", "b"].map(|name| format!("/clusters/root:{name}/{APIS}/v1alpha2/apibindings/things"));
    gone.iter().for_each(|binding| drop(world.ok(Request::delete(binding))));
    assert_eq!(status(&mut world)["endpoints"], json!(null));
    world.workspace("c");
    world.bind("c");
    world.workspace("d");
    world.bind("d");
    assert_eq!(status(&mut world)["endpoints"], url("one"));
}

#[test]
fn a_schema_cannot_be_changed() {
    let mut world = World::kcp();
    world.publish();
    let url = format!("/clusters/root/{APIS}/v1alpha1/apiresourceschemas/v1.things.example.com");
    assert_eq!(world.refused(patch(&url, MERGE, json!({"spec": {"group": "other"}}))).0, 422);
}

#[test]
fn a_workspace_serves_its_own_definitions() {
    let (mut world, _) = bound(&["a", "b"]);
    let mut definition = definition("own.v1.example.org", "Own", &anything());
    definition["spec"]["scope"] = json!("Cluster");
    world.ok(Request::post("/clusters/root:a/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition));
    let own = json!({"apiVersion": "example.org/v1", "kind": "Own", "metadata": {"name": "o"}});
    world.ok(Request::post("/clusters/root:a/apis/example.org/v1/own", &own));
    assert_eq!(world.send(Request::get("/clusters/root:b/apis/example.org/v1/own")).0, 404);
}

#[test]
fn a_workspace_is_watched_past_what_happens_in_others() {
    let mut world = World::of(Settings { flavor: Flavor::Kcp, history: 4, ..Settings::default() });
    world.publish();
    let clusters = ["acme", "globex"].map(|name| {
        let cluster = world.workspace(name);
        world.bind(name);
        format!("/clusters/{cluster}/{OF_THINGS}")
    });
    let [acme, globex] = &clusters;
    let mut create = |url: &str, name: &str| version(&world.ok(Request::post(url, &thing(name, json!({})))));
    let [first, second] = [create(acme, "a"), create(globex, "b")];
    create(acme, "c");
    create(globex, "d");
    assert_eq!(resumed(&mut world, acme, &first), ["c"]);
    assert_eq!(resumed(&mut world, globex, &first), ["b", "d"]);
    assert_eq!(resumed(&mut world, globex, &second), ["d"]);
    // Four changes are remembered, wherever they were.
    world.ok(Request::post(globex, &thing("e", json!({}))));
    world.ok(Request::post(globex, &thing("f", json!({}))));
    assert_eq!(resumed(&mut world, acme, &first), ["410"]);
    assert_eq!(resumed(&mut world, acme, &second), ["c"]);
}

/// Names of what a watch that goes on from a version is sent at once; the code of an error.
fn resumed(world: &mut World, url: &str, version: &str) -> Vec<String> {
    let request = Request::get(&format!("{url}?watch=1&resourceVersion={version}"));
    let (Reply::Watch(watch), _) = world.state.handle(&request, world.now) else { panic!("no watch") };
    let objects =
        watch.backlog.iter().map(|line| serde_json::from_slice::<Value>(line).expect("JSON")["object"].take());
    let name = |object: Value| object["metadata"]["name"].as_str().map_or(object["code"].to_string(), str::to_owned);
    objects.map(name).collect()
}
