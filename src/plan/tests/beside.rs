//! Objects in the source's own cluster: no server-side apply, no namespace of the engine's own, and tenants who can write there.

use std::sync::Arc;

use json_patch::Patch;
use serde_json::{Value, json};

use super::world::{Unserved, foreign, part, steps};
use super::{LISTS, causes, fresh, lists_beside, mapping, of};
use crate::mapping::{Mapping, Side};
use crate::object::marks;
use crate::plan::{Action, Intent, Reason};

const SETTINGS: &str = r#"  target: {cluster: source}
  objects:
    - id: settings
      template:
        apiVersion: example.dev/v1
        kind: Settings
        metadata: {labels: {plan: "${{ source.spec.plan | default(omit) }}"}}
        spec: ${{ source.spec | without("plan") }}
"#;

fn settings() -> Mapping {
    mapping(SETTINGS)
}

#[test]
fn an_object_beside_its_source_is_in_its_namespace_and_needs_no_other() {
    let mut world = of(json!({"size": 1}));
    world.sync(&settings());
    insta::assert_snapshot!(world.take_log().join("\n"), @"
    add finalizer
    create Settings default/db in the consumer's cluster
    update status
    ");
    let reference = world.reference("Settings");
    assert_eq!((reference.kind.side, &*reference.namespace, &*reference.name), (Side::Source, "default", "db"));
    assert!(world.seen.target.namespaces.is_empty());
}

#[test]
#[rustfmt::skip]
fn what_the_template_no_longer_says_is_removed_and_all_else_stays() {
    let spec = json!({"plan": "a", "size": {"cpu": 1, "disk": 2}, "zones": ["a", "b"], "name": "x"});
    let mut world = of(spec).in_sync(&settings());
    world.edit("Settings", |object| object["spec"]["byOthers"] = json!({"a": 1}));
    let world = steps(world, &[
        ("other fields", |world| world.edit_source(|source| source["spec"] = json!({"size": {"disk": 3}, "zones": ["b"], "name": {"first": "x"}})), &settings(),
            "in sync; update Settings; {'byOthers':{'a':1},'name':{'first':'x'},'size':{'disk':3},'zones':['b']}"),
        ("no field", |world| world.edit_source(|source| source["spec"] = json!({})), &settings(),
            "in sync; update Settings; {'byOthers':{'a':1},'name':{},'size':{}}"),
    ], part("Settings", "/spec"));
    assert_eq!(world.object("Settings")["metadata"]["labels"]["plan"], Value::Null);
}

#[test]
fn thousands_of_fields_fit_the_annotation_and_go_when_they_are_no_longer_rendered() {
    let keys =
        |count: usize| -> Value { (0..count).map(|n| (format!("key-{n:06}-{}", "k".repeat(30)), json!(1))).collect() };
    let mut world = of(keys(6_000));
    world.sync(&settings());
    let annotations = world.object("Settings")["metadata"]["annotations"].to_string();
    assert!(annotations.len() < 256 << 10, "{}", annotations.len());
    world.edit("Settings", |object| object["spec"]["byOthers"] = json!(1));
    world.edit_source(|source| source["spec"] = keys(1_000));
    world.sync(&settings());
    let fields = world.object("Settings")["spec"].as_object().expect("a map");
    assert_eq!((fields.len(), &fields["byOthers"]), (1_001, &json!(1)));
}

/// The pointer of each field has the whole name.
#[test]
fn ten_thousands_of_fields_below_a_name_of_a_megabyte_are_not_rendered() {
    let many: Value = (0..10_000).map(|number| (number.to_string(), json!(number))).collect();
    let mut world = of(json!({("n".repeat(1 << 20)): many}));
    let said = world.settle(&settings()).to_string();
    assert!(said.contains("RenderFailed: object `settings`: too many of its fields are below a long name"), "{said}");
}

#[test]
fn a_status_is_the_same_whenever_its_conditions_changed() {
    let status = |at: &str, size: u32| {
        let conditions = json!([{"type": "Synced", "status": "True", "lastTransitionTime": at}]);
        let values = [("/status/conditions".to_owned(), conditions), ("/status/size".to_owned(), json!(size))];
        Action::PatchStatus { patch: Patch(Vec::new()), values: values.into() }.content()
    };
    assert_eq!(status("2026-01-01T00:00:00Z", 1), status("2026-02-01T00:00:00Z", 1));
    assert_ne!(status("2026-01-01T00:00:00Z", 1), status("2026-01-01T00:00:00Z", 2));
}

/// Whatever version it is written onto: whoever undoes each correction is written against no faster than the pace of corrections.
#[test]
fn what_is_written_is_told_by_its_place_and_its_content() {
    let reference = marks::Reference::namespace("ns");
    let apply = |body: Value| {
        Action::Apply { reference: reference.clone(), body: Arc::new(body), intent: Intent::Create }.content()
    };
    let first = apply(json!({"metadata": {"resourceVersion": "1"}, "data": {"lastTransitionTime": "a"}}));
    assert_eq!(first, apply(json!({"metadata": {"resourceVersion": "2"}, "data": {"lastTransitionTime": "a"}})));
    let other = apply(json!({"metadata": {}, "data": {"lastTransitionTime": "b"}}));
    let restore = Action::Restore { reference: reference.clone(), patch: Patch(Vec::new()) }.content();
    let place = |content: Option<(u64, u64)>| content.map(|(place, _)| place);
    assert_ne!(first, other);
    assert_eq!([place(first), place(other)], [place(restore); 2], "one place, whatever is done there");
}

/// A tenant takes off what says which fields are the engine's, or says more: nothing but that tenant's own object changes.
#[test]
fn a_forged_list_of_fields_takes_nothing_else() {
    let mut world = of(json!({"size": 1, "zone": "a"})).in_sync(&settings());
    let others = ["/metadata/uid", "/metadata/resourceVersion", "/metadata/finalizers", "/kind", "spec", "/"];
    let owner = "/metadata/labels/sync-engine.dev~1owner";
    let forged = [&others[..], &[owner, "/spec/byOthers"]].concat().join("\n");
    world.edit("Settings", |object| {
        object["metadata"]["annotations"][marks::FIELDS] = json!(forged);
        object["spec"]["byOthers"] = json!(1);
        object["metadata"]["finalizers"] = json!(["of/others"]);
    });
    world.edit_source(|source| source["spec"] = json!({"size": 1}));
    world.sync(&settings());
    assert_eq!(world.object("Settings")["spec"], json!({"size": 1, "zone": "a"}), "it was not said to be the engine's");
    let metadata = &world.object("Settings")["metadata"];
    assert_eq!((&metadata["name"], &metadata["finalizers"]), (&json!("db"), &json!(["of/others"])));
    assert!(metadata["labels"][marks::OWNER].is_string(), "{metadata}");
}

#[test]
fn a_foreign_object_beside_a_source_is_left_alone() {
    let mut world = of(json!({"size": 1}));
    let reference = world.clone().in_sync(&settings()).reference("Settings");
    world.objects.insert(reference.clone(), foreign());
    assert_eq!(causes(&world.settle(&settings())), "Conflict");
    world.delete_source();
    world.settle(&settings());
    assert_eq!((world.source.clone(), world.objects.get(&reference)), (None, Some(&foreign())));
}

/// All objects of a kind are gone with its definition.
#[test]
fn a_source_goes_where_the_definition_of_its_objects_is_gone() {
    let mut world = of(json!({"size": 1})).in_sync(&settings());
    let kind = world.reference("Settings").kind;
    world.unseen.insert(kind, Reason::waiting("it is not served"));
    world.unserved_for = Unserved::Removed;
    assert_eq!(causes(&world.settle(&settings())), "Waiting");
    world.delete_source();
    world.settle(&settings());
    assert_eq!(world.source, None, "{:?}", world.log);
}

#[test]
fn a_mapping_that_moves_into_the_sources_own_cluster_makes_and_deletes_nothing_by_itself() {
    for (before, after) in [(LISTS.to_owned(), lists_beside()), (lists_beside(), LISTS.to_owned())] {
        let mut world = fresh().in_sync(&mapping(&before));
        let (objects, rule) = (world.objects.clone(), mapping(LISTS).namespace_rule().to_owned());
        world.former_placements = vec![rule];
        let causes = causes(&world.settle(&mapping(&after)));
        assert!(causes.starts_with("IdentityChanged"), "{causes}");
        assert_eq!(world.objects, objects);
        world.delete_source();
        world.settle(&mapping(&after));
        assert_eq!((world.source.clone(), world.objects.len()), (None, 0), "a deletion takes both sides along");
    }
}
