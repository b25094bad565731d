//! Reading and writing objects.

use serde_json::json;

use super::*;

#[test]
fn an_object_lives_from_create_to_delete() {
    let mut world = World::kubernetes();
    let created = world.ok(Request::post(MAPS, &config_map("a", json!({"x": "1"}))));
    assert_eq!(created["metadata"]["creationTimestamp"], "2026-08-01T12:00:00Z");
    assert_eq!(created["metadata"]["namespace"], "default");
    let url = format!("{MAPS}/a");
    assert_eq!(world.get(&url), created);
    let merged = world.ok(patch(&url, MERGE, json!({"data": {"y": "2"}})));
    assert_eq!(merged["data"], json!({"x": "1", "y": "2"}));
    assert_ne!(version(&merged), version(&created));
    let gone = world.ok(Request::delete(&url));
    assert_eq!(gone["status"], "Success");
    assert_eq!(gone["details"]["uid"], created["metadata"]["uid"]);
    assert_eq!(world.seen(), ["added configmaps/a", "modified configmaps/a", "deleted configmaps/a"]);
}

#[test]
fn a_missing_object_is_named_and_a_missing_kind_is_plain_text() {
    let mut world = World::kubernetes();
    let (code, body) = world.send(Request::get(&format!("{MAPS}/a")));
    assert_eq!((code, &body["reason"]), (404, &json!("NotFound")));
    assert_eq!(body["message"], "configmaps \"a\" not found");
    assert_eq!(body["details"], json!({"name": "a", "kind": "configmaps"}));
    let (code, body) = world.send(Request::get("/api/v1/pods"));
    assert_eq!((code, &body["details"]), (404, &json!({})));
    for url in ["/apis/example.com/v1/things", "/apis/example.com/v1"] {
        let (reply, _) = world.state.handle(&Request::get(url), world.now);
        let answer = reply.answer().expect("an answer");
        assert_eq!((answer.code, &answer.body[..]), (404, &b"404 page not found\n"[..]), "{url}");
    }
}

#[test]
fn a_namespace_must_exist() {
    let mut world = World::kubernetes();
    let refused = world.refused(Request::post("/api/v1/namespaces/no/configmaps", &config_map("a", json!({}))));
    assert_eq!(refused, (404, "NotFound".into(), "namespaces \"no\" not found".into()));
}

#[test]
fn what_exists_is_not_created_again() {
    let mut world = World::kubernetes();
    world.ok(Request::post(MAPS, &config_map("a", json!({}))));
    let refused = world.refused(Request::post(MAPS, &config_map("a", json!({}))));
    assert_eq!(refused, (409, "AlreadyExists".into(), "configmaps \"a\" already exists".into()));
}

#[test]
fn a_stale_version_is_a_conflict_by_every_way_of_writing() {
    let mut world = World::kubernetes();
    world.define_things();
    let old = world.ok(Request::post(THINGS, &thing("a", json!({"size": 1}))));
    let url = format!("{THINGS}/a");
    world.ok(patch(&url, MERGE, json!({"spec": {"size": 2}})));
    let stale = version(&old);
    let guard = json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": stale}]);
    let attempts = [
        Request::put(&url, &old),
        patch(&url, MERGE, json!({"metadata": {"resourceVersion": stale}, "spec": {"size": 3}})),
        patch(&url, JSON_PATCH, guard.clone()),
        patch(&format!("{url}/status"), JSON_PATCH, guard),
    ];
    for attempt in attempts {
        let (code, reason, message) = world.refused(attempt);
        assert_eq!((code, &*reason), (409, "Conflict"));
        assert!(message.contains("the object has been modified"), "{message}");
    }
}

#[test]
fn an_update_of_a_custom_resource_names_its_version() {
    let mut world = World::kubernetes();
    world.define_things();
    world.ok(Request::post(THINGS, &thing("a", json!({}))));
    world.ok(Request::post(MAPS, &config_map("a", json!({}))));
    let refused = world.refused(Request::put(&format!("{THINGS}/a"), &thing("a", json!({}))));
    assert_eq!(refused.0, 422);
    world.ok(Request::put(&format!("{MAPS}/a"), &config_map("a", json!({"x": "1"}))));
}

#[test]
fn writing_what_stands_keeps_the_version() {
    let mut world = World::kubernetes();
    world.define_things();
    let created = world.ok(Request::post(THINGS, &thing("a", json!({"size": 1}))));
    world.seen();
    let url = format!("{THINGS}/a");
    let writes = [
        Request::put(&url, &created),
        patch(&url, MERGE, json!({"spec": {"size": 1.0}})),
        patch(&url, JSON_PATCH, json!([{"op": "add", "path": "/spec/size", "value": 1}])),
        patch(&url, MERGE, json!({"spec": {"unknown": 1}})),
    ];
    for write in writes {
        let answer = world.ok(write);
        assert_eq!(version(&answer), version(&created));
    }
    assert!(world.seen().is_empty());
}

#[test]
fn status_is_written_apart_and_only_spec_counts_generations() {
    let mut world = World::kubernetes();
    world.define_things();
    let (url, status) = (format!("{THINGS}/a"), format!("{THINGS}/a/status"));
    let mut first = thing("a", json!({"size": 1}));
    first["status"] = json!({"phase": "Forged"});
    let created = world.ok(Request::post(THINGS, &first));
    assert_eq!((created.get("status"), &created["metadata"]["generation"]), (None, &json!(1)));
    let both = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"size": 2}, "status": {"phase": "Running"}});
    let after = world.ok(patch(&status, MERGE, both.clone()));
    assert_eq!((&after["spec"]["size"], &after["status"]["phase"]), (&json!(1), &json!("Running")));
    assert_eq!((&after["metadata"]["generation"], after["metadata"].get("labels")), (&json!(1), None));
    let after = world.ok(patch(&url, MERGE, json!({"spec": {"size": 2}, "status": {"phase": "Other"}})));
    assert_eq!((&after["spec"]["size"], &after["status"]["phase"]), (&json!(2), &json!("Running")));
    assert_eq!(after["metadata"]["generation"], 2);
    let labelled = world.ok(patch(&url, MERGE, json!({"metadata": {"labels": {"a": "b"}}})));
    assert_eq!(labelled["metadata"]["generation"], 2);
}

#[test]
fn a_schema_prunes_defaults_and_requires() {
    let mut world = World::kubernetes();
    world.define_things();
    let created = world.ok(Request::post(THINGS, &thing("a", json!({"sise": 1, "free": {"any": [1.0]}}))));
    assert_eq!(created["spec"], json!({"name": "none", "free": {"any": [1]}}));
    let refused = world.refused(patch(&format!("{THINGS}/a/status"), MERGE, json!({"status": {"version": "1"}})));
    let message = "Thing.example.com \"a\" is invalid: status.phase: Required value";
    assert_eq!(refused, (422, "Invalid".into(), message.into()));
    let strict = Request::post(&format!("{THINGS}?fieldValidation=Strict"), &thing("b", json!({"sise": 1})));
    let (code, _, message) = world.refused(strict);
    assert_eq!(code, 400);
    assert!(message.ends_with("strict decoding error: unknown field \"spec.sise\""), "{message}");
}

#[test]
fn a_dry_run_changes_nothing() {
    let mut world = World::kubernetes();
    world.ok(Request::post(&format!("{MAPS}?dryRun=All"), &config_map("a", json!({}))));
    assert_eq!(world.refused(Request::get(&format!("{MAPS}/a"))).0, 404);
    assert!(world.seen().is_empty());
}

#[test]
fn a_json_patch_that_does_not_apply_says_nothing_useful() {
    let mut world = World::kubernetes();
    world.ok(Request::post(MAPS, &config_map("a", json!({}))));
    let failing = [
        json!([{"op": "test", "path": "/metadata/uid", "value": "x"}]),
        json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "a/b"}]),
    ];
    for operations in failing {
        let refused = world.refused(patch(&format!("{MAPS}/a"), JSON_PATCH, operations));
        let message = "the server rejected our request due to an error in our request";
        assert_eq!(refused, (422, "Invalid".into(), message.into()));
    }
    assert_eq!(world.refused(patch(&format!("{MAPS}/b"), JSON_PATCH, json!([]))).0, 404);
}

#[test]
fn a_finalizer_holds_an_object_until_it_is_taken_off() {
    let mut world = World::kubernetes();
    world.define_things();
    let mut held = thing("a", json!({}));
    held["metadata"]["finalizers"] = json!(["a.io/one", "a.io/two"]);
    world.ok(Request::post(THINGS, &held));
    let url = format!("{THINGS}/a");
    let marked = world.ok(Request::delete(&url));
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-08-01T12:00:00Z");
    assert_eq!(marked["metadata"]["generation"], 2);
    world.now = Timestamp(world.now.0 + 60);
    assert_eq!(world.ok(Request::delete(&url)), marked);
    let refused = world.refused(patch(&url, MERGE, json!({"metadata": {"finalizers": ["a.io/one", "a.io/more"]}})));
    assert_eq!(refused.0, 422);
    assert!(refused.2.contains("no new finalizers can be added"), "{}", refused.2);
    world.ok(patch(&url, MERGE, json!({"metadata": {"finalizers": ["a.io/one"]}})));
    world.seen();
    world.ok(patch(&url, JSON_PATCH, json!([{"op": "remove", "path": "/metadata/finalizers"}])));
    assert_eq!(world.seen(), ["deleted things/a"]);
    assert_eq!(world.refused(Request::get(&url)).0, 404);
}

#[test]
fn preconditions_of_a_deletion() {
    let mut world = World::kubernetes();
    let created = world.ok(Request::post(MAPS, &config_map("a", json!({}))));
    let url = format!("{MAPS}/a");
    for preconditions in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        let body = json!({"preconditions": preconditions});
        let refused = world.refused(Request::delete(&url).with_body(&body));
        assert_eq!((refused.0, &*refused.1), (409, "Conflict"));
    }
    let right = json!({"preconditions": {"uid": created["metadata"]["uid"]}});
    world.ok(Request::delete(&url).with_body(&right));
}

#[test]
fn a_patch_cannot_change_the_uid() {
    let mut world = World::kubernetes();
    world.ok(Request::post(MAPS, &config_map("a", json!({}))));
    let refused = world.refused(patch(&format!("{MAPS}/a"), MERGE, json!({"metadata": {"uid": "x"}})));
    assert_eq!(refused.0, 422);
}

#[test]
fn a_namespace_empties_before_it_goes() {
    let mut world = World::kubernetes();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    world.ok(Request::post("/api/v1/namespaces", &namespace));
    let maps = "/api/v1/namespaces/n/configmaps";
    let mut held = config_map("held", json!({}));
    held["metadata"]["finalizers"] = json!(["a.io/b"]);
    world.ok(Request::post(maps, &held));
    world.ok(Request::post(maps, &config_map("free", json!({}))));
    world.seen();
    world.ok(Request::delete("/api/v1/namespaces/n"));
    assert_eq!(world.seen(), ["modified namespaces/n", "deleted configmaps/free", "modified configmaps/held"]);
    let refused = world.refused(Request::post(maps, &config_map("late", json!({}))));
    assert_eq!((refused.0, &*refused.1), (403, "Forbidden"));
    world.ok(patch(&format!("{maps}/held"), MERGE, json!({"metadata": {"finalizers": null}})));
    assert_eq!(world.seen(), ["deleted configmaps/held", "deleted namespaces/n"]);
}

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
fn lists_are_selected_and_paged() {
    let mut world = World::kubernetes();
    for (index, name) in ["a", "b", "c", "d", "e"].iter().enumerate() {
        let mut map = config_map(name, json!({}));
        map["metadata"]["labels"] = json!({"even": (index % 2 == 0).to_string()});
        world.ok(Request::post(MAPS, &map));
    }
    assert_eq!(world.names(&format!("{MAPS}?labelSelector=even%3Dfalse")), ["b", "d"]);
    assert_eq!(world.names("/api/v1/configmaps?fieldSelector=metadata.name%3Dc"), ["c"]);
    let first = world.get(&format!("{MAPS}?limit=2"));
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let second = world.get(&format!("{MAPS}?limit=3&continue={token}"));
    let names: Vec<&str> =
        second["items"].as_array().expect("items").iter().filter_map(|i| i["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["c", "d", "e"]);
    assert_eq!(second["metadata"].get("continue"), None);
    world.ok(Request::post(MAPS, &config_map("f", json!({}))));
    world.state.compact();
    let expired = world.refused(Request::get(&format!("{MAPS}?limit=3&continue={token}")));
    assert_eq!((expired.0, &*expired.1), (410, "Expired"));
}

#[test]
fn a_collection_is_deleted_by_selector() {
    let mut world = World::kubernetes();
    for name in ["a", "b"] {
        world.ok(Request::post(MAPS, &config_map(name, json!({}))));
    }
    world.ok(Request::delete(&format!("{MAPS}?fieldSelector=metadata.name%3Da")));
    assert_eq!(world.names(MAPS), ["b"]);
}

#[test]
fn a_secret_keeps_its_text_encoded() {
    let mut world = World::kubernetes();
    let metadata = json!({"name": "s"});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"a": "b"}});
    let created = world.ok(Request::post("/api/v1/namespaces/default/secrets", &secret));
    assert_eq!((&created["data"], &created["type"]), (&json!({"a": "Yg=="}), &json!("Opaque")));
}

#[test]
fn labels_and_names_are_checked() {
    let mut world = World::kubernetes();
    assert_eq!(world.refused(Request::post(MAPS, &config_map("Upper", json!({})))).0, 422);
    let mut map = config_map("a", json!({}));
    map["metadata"]["labels"] = json!({"a": "no spaces"});
    assert_eq!(world.refused(Request::post(MAPS, &map)).0, 422);
}

#[test]
fn names_can_be_generated() {
    let mut world = World::kubernetes();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}});
    let names: Vec<_> = [0, 1].map(|_| world.ok(Request::post(MAPS, &map))["metadata"]["name"].clone()).into();
    assert_ne!(names[0], names[1]);
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
