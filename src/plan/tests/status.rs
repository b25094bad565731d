//! What flows back into the status.

use std::sync::Arc;

use serde_json::{Value, json};

use super::world::{World, foreign};
use super::{CHAIN, DATABASES, causes, changed, edited, fresh, mapping, synced};
use crate::mapping::Resource;
use crate::mapping::schema::{Schema, Schemas};
use crate::object::marks::Reference;
use crate::plan::Prune;

#[test]
fn a_status_change_is_one_write() {
    let mut world = synced();
    world.edit("Database", |object| object["status"] = json!({"phase": "Running", "version": "8.0"}));
    world.sync(&mapping(DATABASES));
    assert_eq!(
        (&world.status()["phase"], world.log.as_slice()),
        (&json!("Running"), &["update status".to_owned()][..])
    );
    world.edit("Database", |object| drop(object.as_object_mut().unwrap().remove("status")));
    world.sync(&mapping(DATABASES));
    let status = world.status();
    assert_eq!((&status["phase"], status.get("version")), (&json!("Pending"), None), "default, and removed");
}

#[test]
fn conditions_are_mirrored() {
    let mirroring = changed(
        "  status:\n",
        "  status:\n    conditions: [{mirror: {from: db, types: [Ready, Healthy], as: Backend}}]\n",
    );
    let mut world = fresh().in_sync(&mirroring);
    let shown = |world: &World| {
        let all = world.status()["conditions"].as_array().expect("conditions").iter().map(|one| {
            let text = |field: &str| one[field].as_str().unwrap_or_default();
            format!("{} {} {} {}", text("type"), text("status"), text("reason"), text("message"))
        });
        all.collect::<Vec<_>>().join("\n")
    };
    let mut said = vec![shown(&world)];
    let namespace = world.reference("Database").namespace.clone();
    world.edit("Database", |object| {
        object["status"] = json!({"conditions": [
            {"type": "Ready", "status": "False", "reason": "no pods!", "message": format!("none in {namespace}")},
            {"type": "Other", "status": "True"},
        ]});
    });
    world.sync(&mirroring);
    assert_eq!(world.take_log(), ["update status"]);
    said.push(shown(&world));
    let reference = world.reference("Database");
    world.objects.insert(reference, foreign());
    world.settle(&mirroring);
    said.push(shown(&world));
    insta::assert_snapshot!(said.join("\n---\n"), @"
    BackendReady Unknown NotReported 
    BackendHealthy Unknown NotReported 
    Synced True Synced 
    ---
    BackendReady False nopods none in default
    BackendHealthy Unknown NotReported 
    Synced True Synced 
    ---
    BackendReady False nopods none in default
    BackendHealthy Unknown NotReported 
    Synced False Conflict a foreign object has the name that this one needs; it is left untouched
    ");
}

#[test]
fn a_status_leaf_that_the_schema_refuses_is_left_out_and_reported() {
    let mut world = synced();
    world.edit("Database", |object| object["status"] = json!({"phase": "Odd", "version": "8.0"}));
    world.refused_status = vec![json!("Odd")];
    assert_eq!(causes(&world.settle(&mapping(DATABASES))), "StatusFailed");
    assert_eq!((&world.status()["phase"], &world.status()["version"]), (&json!("Pending"), &json!("8.0")));
    assert_eq!(world.condition(), "False StatusFailed");
}

/// A document writes `gone` and the condition `Old` no longer: they go, and what somebody else writes stays.
#[test]
fn what_a_former_document_wrote_into_the_status_goes() {
    let mut world = synced();
    let old = json!({"type": "Old", "status": "True"});
    let source = world.source.as_mut().expect("the source is there");
    source["status"]["gone"] = json!({"leaf": 1, "others": 2});
    source["status"]["conditions"].as_array_mut().expect("conditions").push(old);
    world.former_status = ["/gone/leaf", "/phase", "Old"].map(str::to_owned).into();
    world.sync(&mapping(DATABASES));
    let status = world.status();
    assert_eq!((&status["gone"], &status["phase"]), (&json!({"others": 2}), &json!("Pending")));
    assert_eq!(status["conditions"].as_array().map(Vec::len), Some(1), "{status}");
    assert_eq!(world.take_log(), ["update status"]);
}

/// The schema of the consumer's API, with `status.observedGeneration`.
fn consumer_schema() -> Arc<Schema> {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "databases.example.dev"},
        "spec": {
            "group": "example.dev", "scope": "Namespaced", "names": {"plural": "databases", "kind": "Database"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"status": {
                    "type": "object", "properties": {"observedGeneration": {"type": "integer"}},
                }},
            }}}],
        },
    });
    let mut schemas = Schemas::default();
    schemas.add_file(definition.to_string().as_bytes());
    let resource = Resource { group: "example.dev".into(), version: "v1".into(), plural: "databases".into() };
    schemas.resource(&resource).expect("its schema").clone()
}

#[test]
fn a_generation_is_observed_where_the_objects_are_of_it_and_their_controllers_have_seen_them() {
    let mut world = synced();
    world.seen.consumer.schema = Some(consumer_schema());
    let observed = |world: &mut World| {
        world.source.as_mut().expect("it is there")["status"]["observedGeneration"] = json!(7);
        world.settle(&mapping(DATABASES));
        world.status()["observedGeneration"].clone()
    };
    assert_eq!(observed(&mut world), 1);
    world.edit("Database", |object| object["status"] = json!({"observedGeneration": 0, "phase": "Running"}));
    assert_eq!(observed(&mut world), 7, "the object's controller has not seen it");
    world.edit("Database", |object| object["status"]["observedGeneration"] = json!(1));
    assert_eq!(observed(&mut world), 1);
    world.edit_source(|source| {
        source["spec"]["members"] = json!(4);
        source["metadata"]["generation"] = json!(2);
    });
    world.refuses = vec!["update Database".into()];
    assert_eq!(observed(&mut world), 7, "the object is not of it");
}

/// While it follows a candidate, what goes with the document in force is still there: that is not the consumer's concern.
#[test]
fn a_generation_is_observed_while_a_release_holds_what_goes_at_its_end() {
    let not_wanted = edited(DATABASES, &[("    - id: db\n", "    - id: db\n      when: ${{ false }}\n")]);
    let mut world = synced();
    world.seen.consumer.schema = Some(consumer_schema());
    world.edit_source(|source| source["status"]["observedGeneration"] = json!(7));
    (world.seen.limits.prune, world.seen.limits.is_promoted) = (Prune::none(), true);
    world.settle(&not_wanted);
    assert_eq!(world.status()["observedGeneration"], 1);
    world.seen.limits.is_promoted = false;
    world.edit_source(|source| source["status"]["observedGeneration"] = json!(7));
    world.settle(&not_wanted);
    assert_eq!(world.status()["observedGeneration"], 7, "a person has to decide");
}

#[test]
fn texts_for_the_consumer_have_the_consumers_names() {
    let said = |redact: &str| {
        let fields = "      version: $.status.version\n      all: $.status.all\n      told: {value: \"in {{ placement.namespace }}\"}\n";
        let conditions = "    conditions: [{type: Told, status: true, message: \"{{ placement.namespace }}\"}]\n";
        let fields = format!("{fields}{conditions}    redact: {redact}\n");
        let named =
            "  placement: {name: \"{{ source.metadata.name }}-{{ short_hash(source.metadata.name) }}\"}\n  objects:\n";
        let text = edited(DATABASES, &[("      version: $.status.version\n", &fields), ("  objects:\n", named)]);
        let mut world = fresh().in_sync(&text);
        let Reference { namespace, name, .. } = world.reference("Database");
        world.edit("Database", |object| {
            object["status"] = json!({
                "version": format!("{name}-0 in {namespace}"),
                "all": [{"at": format!("https://api.edge.example.com:6443/{namespace}/{name}")}],
            });
        });
        world.seen.target.url = Some("https://api.edge.example.com:6443".to_owned());
        world.settle(&text);
        let status = world.status();
        let parts = [&status["version"], &status["all"], &status["told"], &status["conditions"][0]["message"]];
        parts.map(Value::to_string).join("\n")
    };
    insta::assert_snapshot!(said("Consumer"), @r#"
    "db-0 in default"
    [{"at":"https://target:6443/default/db"}]
    "in default"
    "default"
    "#);
    assert!(!said("None").contains("default/db"));
}

#[test]
fn the_consumer_reads_what_is_waited_for_and_why_it_was_refused() {
    let mut world = fresh().with(|world| world.refuses = vec!["create Database".to_owned()]);
    world.settle(&mapping(DATABASES));
    let refused = world.message();
    world.refuses.clear();
    world.settle(&edited(CHAIN, &[("    - id: db\n", "    - id: db\n      ready: ${{ false }}\n")]));
    insta::assert_snapshot!(format!("{refused}\n{}", world.message()), @"
    the service's cluster refused what this object asks for: object `db`: Database default/db: refused by admission
    waits for what it depends on: object `view`: waits for object `db`, which is not ready: its `ready` is false
    ");
}

/// An operator that writes a megabyte into its status does not fill the consumer's object with it.
#[test]
fn what_is_copied_into_a_status_is_bounded() {
    let mapping = changed(
        "      version: $.status.version\n",
        "      version: $.status.version\n      log: {path: $.status.log}\n      all: {path: \"$.status.many[*]\", take: all}\n    conditions: [{mirror: {from: db, types: [Ready]}}]\n",
    );
    let mut world = fresh().in_sync(&mapping);
    let long = "ü".repeat(1_400_000);
    let many = |count: usize| vec!["x".repeat(1000); count];
    world.edit("Database", |object| {
        object["status"] = json!({
            "version": "8.0", "log": long, "many": many(3),
            "conditions": [{"type": "Ready", "status": "True", "reason": "Up", "message": long}],
        });
    });
    world.sync(&mapping);
    let status = world.status().clone();
    let text = |value: &Value| value.as_str().map(|text| (text.chars().count(), text.ends_with("ü…")));
    assert_eq!(text(&status["log"]), Some((32_768, true)));
    let ready = status["conditions"].as_array().expect("conditions").iter().find(|one| one["type"] == "Ready");
    assert_eq!(ready.and_then(|one| text(&one["message"])), Some((32_768, true)));
    world.edit("Database", |object| object["status"]["many"] = json!(many(1000)));
    assert_eq!(causes(&world.settle(&mapping)), "StatusFailed");
    assert_eq!(world.status()["all"], json!(many(3)), "what it had stays");
}
