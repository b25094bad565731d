//! Reading and writing objects.

use serde_json::json;

use super::*;

#[test]
fn a_definition_takes_its_objects_along() {
    let mut world = World::kubernetes();
    world.define_things();
    world.ok(Request::post(THINGS, &thing("a", json!({}))));
    world.seen();
    world.ok(Request::delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com"));
    let definition = "customresourcedefinitions/things.example.com";
    assert_eq!(
        world.seen(),
        [format!("modified {definition}"), "deleted things/a".into(), format!("deleted {definition}")]
    );
    assert_eq!(world.send(Request::get(THINGS)), (404, json!(null)));
}

#[test]
fn a_page_of_a_forgotten_version_has_expired() {
    let mut world = World::kubernetes();
    for name in ["a", "b", "c"] {
        world.ok(Request::post(MAPS, &config_map(name, json!({}))));
    }
    let first = world.get(&format!("{MAPS}?limit=2"));
    let token = first["metadata"]["continue"].as_str().expect("a token");
    assert_eq!(world.names(&format!("{MAPS}?limit=3&continue={token}")), ["c"]);
    world.ok(Request::post(MAPS, &config_map("d", json!({}))));
    world.state.compact();
    let expired = world.refused(Request::get(&format!("{MAPS}?limit=3&continue={token}")));
    assert_eq!((expired.0, &*expired.1), (410, "Expired"));
}

#[test]
fn discovery_lists_what_is_served() {
    let mut world = World::kubernetes();
    world.define_things();
    let groups = world.get("/apis");
    let has_group = groups["groups"].as_array().expect("groups").iter().any(|group| group["name"] == "example.com");
    assert!(has_group, "{groups}");
    let resources = world.get("/apis/example.com/v1");
    assert_eq!(resources["resources"][0]["name"], "things");
    assert_eq!(resources["resources"][1]["name"], "things/status");
    let document = world.get("/openapi/v3/apis/example.com/v1");
    let schema = &document["components"]["schemas"]["com.example.v1.Thing"];
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["type"], "integer");
    let list = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/things"]["get"];
    assert_eq!(
        (&list["x-kubernetes-action"], &list["x-kubernetes-group-version-kind"]["kind"]),
        (&json!("list"), &json!("Thing"))
    );
    let common = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let metadata = json!([{"$ref": format!("#/components/schemas/{common}")}]);
    assert_eq!(schema["properties"]["metadata"]["allOf"], metadata);
    assert_eq!(
        document["components"]["schemas"][common]["properties"]["finalizers"]["x-kubernetes-patch-strategy"],
        "merge"
    );
    assert_eq!(world.get("/api/v1")["groupVersion"], "v1");
    let core = &world.get("/openapi/v3/api/v1")["components"]["schemas"];
    let map = &core["io.k8s.api.core.v1.ConfigMap"];
    assert_eq!((&map["properties"]["data"]["type"], &map["required"]), (&json!("object"), &json!([])));
    assert_eq!(map["x-kubernetes-group-version-kind"], json!([{"group": "", "version": "v1", "kind": "ConfigMap"}]));
    assert!(world.get("/openapi/v3")["paths"]["apis/example.com/v1"].is_object());
}

#[test]
fn the_index_of_documents_tells_when_one_changes() {
    let mut world = World::kubernetes();
    world.define_things();
    let hashes = |world: &mut World| {
        let index = world.get("/openapi/v3");
        ["apis/example.com/v1", "api/v1"].map(|path| index["paths"][path]["serverRelativeURL"].clone())
    };
    let [things, core] = hashes(&mut world);
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";
    let mut crd = world.get(definition);
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["more"] = json!({"type": "string"});
    world.ok(Request::put(definition, &crd));
    let [things_now, core_now] = hashes(&mut world);
    assert_ne!(things, things_now);
    assert_eq!(core, core_now);
}

/// managedFields nest deeper than what they speak of, and a patch can go deeper than any body.
#[test]
fn an_object_as_deep_as_is_taken_can_be_read_again() {
    let mut world = World::kubernetes();
    world.define_things();
    let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"a": inner}));
    let mut taken = Vec::new();
    for levels in 80..160 {
        let name = format!("at-{levels}");
        let (code, _) = world.send(Request::post(THINGS, &thing(&name, json!({"free": deep(levels)}))));
        assert!(matches!(code, 201 | 400), "{levels}: {code}");
        if code == 201 {
            taken.push(levels);
            let url = format!("{THINGS}/{name}");
            assert_eq!(world.ok(patch(&url, MERGE, json!({"spec": {"size": 1}})))["spec"]["size"], 1);
            let path = format!("/spec/free{}", "/a".repeat(levels));
            let further = json!([{"op": "replace", "path": path, "value": deep(30)}]);
            assert_eq!(world.refused(patch(&url, "application/json-patch+json", further)).0, 400);
        }
    }
    assert_eq!(taken.last(), Some(&97));
}
