//! Objects as rows, and bodies in Protobuf.

use serde_json::json;

use super::*;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

fn table_of(url: &str) -> Request {
    Request { accept: TABLE.to_owned(), ..Request::get(url) }
}

fn rows(table: &Value) -> Vec<Value> {
    table["rows"].as_array().expect("rows").iter().map(|row| row["cells"].clone()).collect()
}

fn columns(table: &Value) -> Vec<&str> {
    let columns = table["columnDefinitions"].as_array().expect("columns");
    columns.iter().map(|column| column["name"].as_str().expect("a name")).collect()
}

#[test]
fn a_list_is_a_table_where_that_is_asked_for() {
    let mut world = World::kubernetes();
    world.ok(Request::post(MAPS, &config_map("a", json!({"k": "v"}))));
    world.now = Timestamp(world.now.0 + 90);
    let table = world.ok(table_of(MAPS));
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(columns(&table), ["Name", "Data", "Age"]);
    assert_eq!(rows(&table), [json!(["a", 1, "90s"])]);
    let object = &table["rows"][0]["object"];
    assert_eq!((&object["kind"], &object["metadata"]["name"]), (&json!("PartialObjectMetadata"), &json!("a")));
    assert_eq!(object["data"], Value::Null);
    let whole = world.ok(table_of(&format!("{MAPS}?includeObject=Object")));
    assert_eq!(whole["rows"][0]["object"]["data"], json!({"k": "v"}));
    assert_eq!(rows(&world.ok(table_of(&format!("{MAPS}/a")))), [json!(["a", 1, "90s"])]);
}

#[test]
fn a_definition_says_what_its_table_shows() {
    let mut world = World::kubernetes();
    world.define_things();
    world.ok(Request::post(THINGS, &thing("a", json!({"size": 3}))));
    assert_eq!(columns(&world.ok(table_of(THINGS))), ["Name", "Age"]);
    let columns_of_v1 = json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}]);
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";
    let change = json!([{"op": "add", "path": "/spec/versions/0/additionalPrinterColumns", "value": columns_of_v1}]);
    world.ok(patch(definition, JSON_PATCH, change));
    let table = world.ok(table_of(THINGS));
    assert_eq!(columns(&table), ["Name", "Size"]);
    assert_eq!(table["columnDefinitions"][1]["priority"], 1);
    assert_eq!(rows(&table), [json!(["a", 3])]);
}

#[test]
fn a_watch_sends_rows() {
    let mut world = World::kubernetes();
    world.ok(Request::post(MAPS, &config_map("a", json!({}))));
    let (Reply::Watch(watch), _) = world.state.handle(&table_of(&format!("{MAPS}?watch=1")), world.now) else {
        panic!("no watch");
    };
    world.seen();
    world.ok(Request::post(MAPS, &config_map("b", json!({"x": "1", "y": "2"}))));
    let later = world.events.iter().filter_map(|event| watch.interest.line_for(event));
    let lines: Vec<Value> =
        watch.backlog.iter().cloned().chain(later).map(|line| serde_json::from_slice(&line).expect("JSON")).collect();
    let shown: Vec<_> = lines.iter().map(|line| (line["type"].clone(), rows(&line["object"]))).collect();
    let added = |cells: Value| (json!("ADDED"), vec![cells]);
    assert_eq!(shown, [added(json!(["a", 0, "0s"])), added(json!(["b", 2, "0s"]))]);
    let bookmark: Value = serde_json::from_slice(&watch.interest.bookmark(7, None)).expect("JSON");
    assert_eq!((rows(&bookmark["object"]).len(), &bookmark["object"]["metadata"]["resourceVersion"]), (0, &json!("7")));
}

#[test]
fn a_body_can_be_protobuf() {
    let mut world = World::kubernetes();
    let mut request = Request::post("/api/v1/namespaces", &Value::Null);
    request.content_type = "application/vnd.kubernetes.protobuf".into();
    // The envelope with `v1` and `Namespace`, around metadata with the name `a`.
    request.body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x05\x0a\x03\x0a\x01a".as_slice().into();
    assert_eq!(world.ok(request.clone())["status"]["phase"], "Active");
    request.body = b"k8s\0\x0a\x0b\x0a\x02v1\x12\x05Thing".as_slice().into();
    assert_eq!(world.refused(request).0, 415);
}
