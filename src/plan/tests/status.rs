//! What flows back into the status.

use std::sync::Arc;

use json_patch::jsonptr::Pointer;
use json_patch::{PatchOperation, ReplaceOperation};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::world::{World, check_by, foreign, steps};
use super::{CHAIN, DATABASES, causes, changed, db, edited, fresh, leave_filter, mapping, synced};
use crate::mapping::schema::{Schema, Schemas};
use crate::mapping::{Mapping, OnExit, Resource};
use crate::object::marks::{self, Reference, Writer};
use crate::plan::source::guarded;
use crate::plan::status::refused_conditions;
use crate::plan::{Phase, Prune};

/// The causes, the writes, and the status, with each of its conditions as one text.
fn told(world: &mut World, mapping: &Mapping) -> String {
    let causes = causes(&world.settle(mapping));
    let mut status = world.status().clone();
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        *condition = ["type", "status", "reason", "message"].map(text).join(" ").into();
    }
    format!("{causes}; {}; {status}", world.writes().join(", "))
}

fn report(world: &mut World, status: Value) {
    world.edit("Database", |object| object["status"] = status);
}

/// A document writes `gone` and the condition `Old` no longer: they go, and what somebody else writes stays.
#[test]
#[rustfmt::skip]
fn a_status_says_what_the_object_reports() {
    let plain = mapping(DATABASES);
    let mirroring = changed("  status:\n", "  status:\n    conditions: [{mirror: {from: db, types: [Ready, Healthy], as: Backend}}]\n");
    steps(synced(), &[
        ("the object reports", |world| report(world, json!({"phase": "Running", "version": "8.0"})), &plain,
            "in sync; update status; {'conditions':['Synced True Synced '],'phase':'Running','version':'8.0'}"),
        ("the object reports nothing any more: default, and removed", |world| world.edit("Database", |object| drop(object.as_object_mut().unwrap().remove("status"))), &plain,
            "in sync; update status; {'conditions':['Synced True Synced '],'phase':'Pending'}"),
    ], told);
    let takes = |take: &str| format!("      {take}: {{path: \"$.status.many[*]\", take: {take}}}\n");
    let taking = changed("      version: $.status.version\n", &["first", "count", "one"].map(takes).concat());
    steps(fresh().in_sync(&mirroring), &[
        ("mirrored conditions that are not reported", |_| {}, &mirroring,
            "in sync; ; {'conditions':['BackendReady Unknown NotReported ','BackendHealthy Unknown NotReported ','Synced True Synced '],'phase':'Pending'}"),
        ("one of them is reported", |world| {
            let message = format!("none in {}", world.reference("Database").namespace);
            report(world, json!({"conditions": [
                {"type": "Ready", "status": "False", "reason": "no pods!", "message": message},
                {"type": "Other", "status": "True"},
            ]}));
        }, &mirroring,
            "in sync; update status; {'conditions':['BackendReady False nopods none in default','BackendHealthy Unknown NotReported ','Synced True Synced '],'phase':'Pending'}"),
        ("the object is somebody else's", |world| world.objects.extend([(world.reference("Database"), foreign())]), &mirroring,
            "Conflict; create Database, update status; {'conditions':['BackendReady False nopods none in default','BackendHealthy Unknown NotReported ','Synced False Conflict a foreign object has the name that this one needs, and is left untouched; take another name, or ask the provider of the service'],'phase':'Pending'}"),
    ], told);
    check_by(synced, &[
        ("of several values, what the document says; and a leaf that fails holds no other back", |world| report(world, json!({"phase": "Running", "many": ["a", "b"]})), &taking,
            "StatusFailed; update status; {'conditions':['Synced False StatusFailed part of the status could not be computed or written: status.one: the path matches 2 values: say `take: first`, `all` or `count`'],'count':2,'first':'a','phase':'Running'}"),
        ("a leaf that the schema refuses is left out and reported", |world| {
            report(world, json!({"phase": "Odd", "version": "8.0"}));
            world.refused_status = vec![json!("Odd")];
        }, &plain,
            "StatusFailed; update status, update status; {'conditions':['Synced False StatusFailed part of the status could not be computed or written: status.phase: not in the enum'],'phase':'Pending','version':'8.0'}"),
        ("a condition that the schema refuses is left out and reported as well", |world| {
            report(world, json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "reason": "Odd"}]}));
            world.refused_status = vec![json!("Odd")];
        }, &mirroring,
            "StatusFailed; update status, update status; {'conditions':['Synced False StatusFailed part of the status could not be computed or written: condition BackendReady: not in the enum','BackendHealthy Unknown NotReported '],'phase':'Running'}"),
        ("the reason of a condition is no longer than it may be", |world| {
            report(world, json!({"conditions": [{"type": "Ready", "status": "True", "reason": "x".repeat(1 << 16)}]}));
        }, &mirroring,
            &format!("in sync; update status; {{'conditions':['Synced True Synced ','BackendReady True {} ','BackendHealthy Unknown NotReported '],'phase':'Pending'}}", "x".repeat(1024))),
        ("what a former document wrote goes", |world| {
            world.edit_source(|source| {
                source["status"]["gone"] = json!({"leaf": 1, "others": 2});
                source["status"]["conditions"].as_array_mut().expect("conditions").push(json!({"type": "Old", "status": "True"}));
            });
            world.former_status = ["/gone/leaf", "/phase", "Old"].map(str::to_owned).into();
        }, &plain,
            "in sync; update status; {'conditions':['Synced True Synced '],'gone':{'others':2},'phase':'Pending'}"),
    ], told);
}

/// Whichever of them the server takes, none is sent again that it refused: not as the one that tells of that either, and not because
/// it would have another time.
#[test]
#[rustfmt::skip]
fn conditions_that_are_refused_are_sent_once() {
    let mirroring = changed("  status:\n", "  status:\n    conditions: [{mirror: {from: db, types: [Ready, Healthy], as: Backend}}]\n");
    steps(synced(), &[
        ("all of them are refused, and the fields are written", |world| {
            report(world, json!({"phase": "Running"}));
            world.refused_status = ["NotReported", "StatusFailed"].map(Value::from).into();
        }, &mirroring,
            "StatusFailed; update status, update status, update status; {'conditions':['Synced True Synced '],'phase':'Running'}"),
        ("a minute later", |world| {
            (world.seen.answers.refused_status, world.seen.now) = (world.refused(), Timestamp::from_second(1_800_000_060).expect("a time in range"));
        }, &mirroring,
            "StatusFailed; ; {'conditions':['Synced True Synced '],'phase':'Running'}"),
        ("one is another one now", |world| {
            report(world, json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}));
        }, &mirroring,
            "StatusFailed; update status, update status; {'conditions':['Synced True Synced ','BackendReady True Ready '],'phase':'Running'}"),
    ], told);
}

/// A webhook may name the conditions as a whole, or one that is there already: then it takes none of what is new.
#[test]
fn conditions_are_refused_one_by_one_where_the_server_names_them() {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2027-01-15T08:00:00Z"});
    let source = json!({"status": {"conditions": [condition("A")]}});
    let sent = json!([condition("A"), condition("B"), condition("C")]);
    for (leaf, refused) in [
        ("/conditions/2/reason", &["/conditions/C"][..]),
        ("/conditions", &["/conditions/B", "/conditions/C"]),
        ("/conditions/0/reason", &["/conditions/B", "/conditions/C"]),
    ] {
        let all = refused_conditions(Some(&source), &sent, &[leaf.to_owned()]);
        assert!(all.iter().all(|(_, value)| value.get("lastTransitionTime").is_none()), "{all:?}");
        let all: Vec<&str> = all.iter().map(|(pointer, _)| pointer.as_str()).collect();
        assert_eq!(all, refused, "{leaf}");
    }
}

/// A consumer writes as many as an object holds, and has a webhook refuse what the engine adds. The engine has one thread: with each
/// of them compared with all, it would stand still for minutes.
#[test]
fn conditions_that_others_wrote_are_told_from_those_that_are_refused_however_many_they_are() {
    let condition = |kind: &str| json!({"type": kind});
    let others: Vec<Value> = (0..80_000).map(|number| condition(&number.to_string())).collect();
    let sent: Vec<Value> = others.iter().cloned().chain([condition("B")]).collect();
    let source = json!({"status": {"conditions": others}});
    let refused = refused_conditions(Some(&source), &json!(sent), &["/conditions".to_owned()]);
    assert_eq!(refused, [("/conditions/B".to_owned(), condition("B"))]);
}

/// A patch of each field would have the whole name.
#[test]
fn ten_thousands_of_fields_below_a_name_of_a_megabyte_are_written_as_one() {
    let status = |text: &str| {
        let many: Value = (0..10_000).map(|number| (number.to_string(), json!(text))).collect();
        json!({("n".repeat(1 << 20)): many})
    };
    let (old, new) = (status("a"), status("b"));
    let patch = guarded(&json!({}), Pointer::from_static("/status"), Some(&old), Some(new.clone()));
    let whole = ReplaceOperation { path: Pointer::from_static("/status").to_buf(), value: new };
    assert_eq!(patch.0[1..], [PatchOperation::Replace(whole)]);
}

/// Its reason may be another one meanwhile.
#[test]
fn a_condition_has_the_time_at_which_its_status_changed() {
    let up = "    conditions: [{type: Up, status: \"${{ objects.db.status.phase == 'Running' }}\", reason: \"${{ objects.db.status.phase }}\"}]\n";
    let telling = changed("      version: $.status.version\n", up);
    let mut world = synced();
    let told = [("Starting", 0), ("Late", 60), ("Running", 120)].map(|(phase, seconds)| {
        report(&mut world, json!({"phase": phase}));
        world.seen.now = Timestamp::from_second(1_800_000_000 + seconds).expect("a time in range");
        world.sync(&telling);
        let conditions = world.status()["conditions"].as_array().expect("conditions");
        let up = conditions.iter().find(|one| one["type"] == "Up").expect("its condition");
        format!("{} {}", up["reason"], up["lastTransitionTime"]).replace('"', "")
    });
    assert_eq!(told, ["Starting 2027-01-15T08:00:00Z", "Late 2027-01-15T08:00:00Z", "Running 2027-01-15T08:02:00Z"]);
}

/// The engine whose objects they are tells of a source that two engines see.
#[test]
#[rustfmt::skip]
fn fields_and_conditions_are_told_by_the_engine_that_has_the_objects() {
    fn made_by(world: &mut World, kind: &str, engine: &str) {
        let (writer, reference) = (Writer::new(engine, "others"), world.reference(kind));
        let mark = writer.owner(&World::origin()).self_mark("db", &reference);
        world.edit(kind, |object| {
            object["metadata"]["labels"][marks::MAPPING] = json!(writer.label());
            object["metadata"]["annotations"][marks::SELF] = json!(mark);
        });
    }
    let ready = "    conditions: [{type: Ready, status: \"${{ objects.db.spec.members | default(0) == 3 }}\"}]\n";
    let mapping = changed("  status:\n", &format!("  status:\n{ready}"));
    steps(fresh().in_sync(&mapping), &[
        ("another mapping of the same engine has them", |world| made_by(world, "Database", "main"), &mapping,
            "Conflict; create Database, update status; {'conditions':['Ready False Ready ','Synced False Conflict a foreign object has the name that this one needs, and is left untouched; take another name, or ask the provider of the service'],'phase':'Pending'}"),
        ("another engine has them, and says that they are ready", |world| {
            made_by(world, "Database", "west");
            world.edit_source(|source| source["status"]["conditions"][0]["status"] = json!("True"));
        }, &mapping,
            "Conflict; create Database; {'conditions':['Ready True Ready ','Synced False Conflict a foreign object has the name that this one needs, and is left untouched; take another name, or ask the provider of the service'],'phase':'Pending'}"),
        ("the source leaves this one's filter", leave_filter, &mapping,
            "in sync; list all, update status, release finalizer; {'conditions':['Ready True Ready ','Synced False NotSelected the object is not selected (any more)'],'phase':'Pending'}"),
    ], told);
    let with_two = changed("  status:\n", "    - id: config\n      template: {apiVersion: v1, kind: ConfigMap, data: {a: b}}\n  status:\n    from: db\n");
    steps(synced().in_sync(&with_two), &[
        ("another engine has one of them, and this one starts: it may be told first of what it has itself", |world| {
            made_by(world, "ConfigMap", "west");
            world.edit_source(|source| {
                let all = source["status"]["conditions"].as_array_mut().expect("conditions");
                all[0] = json!({"type": "Synced", "status": "False", "reason": "Conflict"});
                all.push(json!({"type": "west.sync-engine.dev/Synced", "status": "False", "reason": "Conflict"}));
            });
            world.unsee(&world.reference("ConfigMap").kind);
            report(world, json!({"phase": "Running"}));
        }, &with_two,
            "Unknown; ; {'conditions':['Synced False Conflict ','west.sync-engine.dev/Synced False Conflict '],'phase':'Pending'}"),
    ], told);
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

/// While it follows a candidate, what goes with the document in force is still there: that is not the consumer's concern.
#[test]
#[rustfmt::skip]
fn a_generation_is_observed_where_the_objects_are_of_it_and_their_controllers_have_seen_them() {
    let (plain, not_wanted) = (mapping(DATABASES), db("when: ${{ false }}"));
    let start = || synced().with(|world| world.seen.consumer.schema = Some(consumer_schema()));
    let observed = |world: &mut World, mapping: &Mapping| {
        world.edit_source(|source| source["status"]["observedGeneration"] = json!(7));
        world.settle(mapping);
        world.status()["observedGeneration"].to_string()
    };
    steps(start(), &[
        ("the objects are of it", |_| {}, &plain, "1"),
        ("the object's controller has not seen it", |world| report(world, json!({"observedGeneration": 0, "phase": "Running"})), &plain, "7"),
        ("the object's controller has seen it", |world| report(world, json!({"observedGeneration": 1, "phase": "Running"})), &plain, "1"),
        ("the object is not of it", |world| {
            world.edit_source(|source| { source["spec"]["members"] = json!(4); source["metadata"]["generation"] = json!(2); });
            world.refuses = vec!["update Database".into()];
        }, &plain, "7"),
    ], observed);
    steps(start(), &[
        ("a release holds what goes at its end", |world| (world.seen.limits.prune, world.seen.limits.is_promoted) = (Prune::none(), true), &not_wanted, "1"),
        ("a person has to decide what goes", |world| world.seen.limits.is_promoted = false, &not_wanted, "7"),
    ], observed);
    steps(start(), &[
        ("the mapping is removed", |world| world.seen.phase = Phase::Leaving(OnExit::Delete), &plain, "null"),
    ], observed);
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
        "      version: $.status.version\n      log: {path: $.status.log}\n      all: {path: \"$.status.many[*]\", take: all}\n    conditions: [{mirror: {from: db, types: [Ready]}}]\n    redact: Consumer\n",
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
    // It is not searched for names, by which it would become small enough.
    world.seen.target.url = Some("https://api.edge.example.com:6443".to_owned());
    let named = |count: usize| vec!["api.edge.example.com ".repeat(50); count];
    for (count, causes_then) in [(300, "StatusFailed"), (200, "in sync")] {
        world.edit("Database", |object| object["status"]["many"] = json!(named(count)));
        assert_eq!(causes(&world.settle(&mapping)), causes_then, "{count}");
    }
    assert_eq!(world.status()["all"][199], "target ".repeat(50));
}
