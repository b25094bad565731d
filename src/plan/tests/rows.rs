//! One test for each row of the decision table of a live source.

use serde_json::json;

use super::world::World;
use super::{DATABASES, cause, changed, condition, mapping, reasons, said, source, synced};
use crate::mapping::Kind;
use crate::object::marks;
use crate::object::{generation, has_finalizer};
use crate::plan::{Cause, Plan, Prune, Rest, plan};

#[test]
fn a_new_object_costs_three_writes_and_no_read_beside_its_namespace() {
    let mut world = World::new(source());
    let namespaced = changed(
        "    - id: account\n      shared: Namespace\n      template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: database}}\n",
        "",
    );
    assert_eq!(world.settle(&namespaced), Rest::InSync);
    let namespace = &world.reference("Database").namespace;
    let expected = [
        "add finalizer".to_owned(),
        format!("create Namespace {namespace}"),
        format!("create Database {namespace}/db"),
        "update status".to_owned(),
    ];
    assert_eq!(world.log, expected);
}

#[test]
fn unknown_target_waits() {
    let mut world = World::new(source());
    world.target_unknown = Some("target `t`: connection refused".into());
    let plan = world.settle(&mapping(DATABASES));
    assert_eq!(cause(&plan), Some(Cause::Unknown));
    assert!(world.log.is_empty(), "nothing is written, not even a status");
}

#[test]
fn unknown_kind_waits_and_says_for_what() {
    let mut world = World::new(source());
    let kind = Kind::new("example.dev", "v1", "Database");
    world.unseen_kinds.insert(kind, "Database is not served".into());
    let plan = world.settle(&mapping(DATABASES));
    assert_eq!(reasons(&plan).to_string(), "Unknown: object `db`: Database is not served");
    assert!(world.objects.keys().all(|reference| reference.kind.kind == "ServiceAccount"), "its neighbour is made");
}

#[test]
fn render_failed_writes_nothing_and_says_why() {
    let mut world = World::new(source());
    let plan = world.settle(&changed("spec: ${{ source.spec }}", "spec: {size: \"${{ source.spec.missing }}\"}"));
    assert_eq!(cause(&plan), Some(Cause::RenderFailed));
    assert_eq!(condition(&world)["reason"], "RenderFailed");
}

#[test]
fn placement_that_cannot_be_rendered_takes_no_finalizer() {
    let mut world = World::new(source());
    let failing = changed(
        "  objects:\n",
        "  placement: {name: \"{{ source.spec.where }}-{{ source.metadata.name }}\"}\n  objects:\n",
    );
    assert_eq!(cause(&world.settle(&failing)), Some(Cause::RenderFailed));
    assert!(!has_finalizer(world.source.as_ref().unwrap(), World::writer().finalizer()));
    assert_eq!(world.take_log(), ["update status"]);
}

#[test]
fn the_finalizer_comes_before_the_first_object_and_pins_the_target() {
    let world = synced();
    let source = world.source.as_ref().unwrap();
    assert!(has_finalizer(source, "sync-engine.dev/main.databases"));
    assert_eq!(marks::annotation(source, "target.sync-engine.dev/main.databases"), Some("target=target-1"));
}

pub fn recreated(policy: &str) -> (World, Rest, String) {
    let mut world = synced();
    let former = world.object("Database")["metadata"]["uid"].as_str().unwrap().to_owned();
    world.edit_source(|source| source["metadata"]["uid"] = json!("source-2"));
    let rest =
        world.settle(&changed("  objects:\n", &format!("  lifecycle: {{onSourceRecreated: {policy}}}\n  objects:\n")));
    (world, rest, former)
}

#[test]
fn ours_of_earlier_is_adopted() {
    let (mut world, rest, former) = recreated("Adopt");
    assert_eq!(rest, Rest::InSync);
    assert_eq!(world.object("Database")["metadata"]["uid"], former);
    assert_eq!(marks::annotation(world.object("Database"), marks::SOURCE_UID), Some("source-2"));
    assert_eq!(condition(&world)["reason"], "Adopted");
    world.take_log();
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync, "and stays reported");
    assert!(world.log.is_empty(), "{:?}", world.log);
}

#[test]
fn ours_of_earlier_is_blocked() {
    let (world, rest, former) = recreated("Block");
    assert_eq!(cause(&rest), Some(Cause::Recreated));
    assert_eq!(world.object("Database")["metadata"]["uid"], former);
    assert_eq!(marks::annotation(world.object("Database"), marks::SOURCE_UID), Some("source-1"));
}

#[test]
fn by_default_a_recreated_source_takes_over_its_objects_but_not_in_a_home_workspace() {
    let cases = [
        (Some("root:acme"), None),
        (Some("root:users:ab:cd:jane"), Some(Cause::Recreated)),
        (Some("root:users-guide"), None),
        (None, Some(Cause::Recreated)),
    ];
    for (path, expected) in cases {
        let mut world = synced();
        world.workspace_path = path.map(str::to_owned);
        world.edit_source(|source| source["metadata"]["uid"] = json!("source-2"));
        let rest = world.settle(&mapping(DATABASES));
        assert_eq!(if rest == Rest::InSync { None } else { cause(&rest) }, expected, "{path:?}");
    }
}

#[test]
fn ours_of_earlier_is_replaced() {
    let (world, rest, former) = recreated("Replace");
    assert_eq!(rest, Rest::InSync);
    assert_ne!(world.object("Database")["metadata"]["uid"], former);
    assert_eq!(marks::annotation(world.object("Database"), marks::SOURCE_UID), Some("source-2"));
}

#[test]
fn absent_is_created() {
    let mut world = synced();
    world.objects.clear();
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    world.object("Database");
}

#[test]
fn a_refused_object_waits_and_is_requested_once_a_reconcile() {
    for (action, change) in [("create", "cleared"), ("update", "edited")] {
        let mut world = synced();
        match change {
            "cleared" => world.objects.clear(),
            _ => world.edit_source(|source| source["spec"] = json!({"members": 4})),
        }
        world.refuses = vec![format!("{action} Database")];
        let rest = world.settle(&mapping(DATABASES));
        assert_eq!(cause(&rest), Some(Cause::Refused), "{action}");
        let sent = world.log.iter().filter(|line| line.starts_with(&world.refuses[0])).count();
        assert_eq!(sent, 1, "{:?}", world.log);
        assert_eq!(condition(&world)["reason"], "Refused");
    }
}

#[test]
fn refused_removals_are_requested_once_and_reported() {
    let refused = |mapping: &crate::mapping::Mapping, request: &str, change: fn(&mut World)| {
        let mut world = synced();
        change(&mut world);
        world.refuses = vec![request.to_owned()];
        let rest = world.settle(mapping);
        assert_eq!(cause(&rest), Some(Cause::Refused), "{request}");
        let sent = world.log.iter().filter(|line| line.starts_with(request)).count();
        assert_eq!(sent, 1, "{request}: {:?}", world.log);
        assert_eq!(condition(&world)["reason"], "Refused", "{request}");
    };
    let without = changed("    - id: db\n", "    - id: db\n      when: ${{ source.spec.members > 3 }}\n");
    refused(&without, "delete Database", |_| {});
    let renamed = DATABASES
        .replace("        kind: Database\n", "        kind: Cluster\n")
        .replace("    - id: db\n", "    - id: db\n      onIdentityChange: Orphan\n");
    refused(&mapping(&renamed), "give up Database", |_| {});
    refused(&mapping(DATABASES), "delete Database", World::delete_source);
    let orphaned = changed("  objects:\n", "  lifecycle: {onSourceDelete: Orphan}\n  objects:\n");
    refused(&orphaned, "give up Database", World::delete_source);
}

#[test]
fn ours_that_differs_is_applied_and_others_fields_stay() {
    let mut world = synced();
    world.edit("Database", |object| {
        object["spec"]["members"] = json!(5);
        object["spec"]["others"] = json!("kept");
    });
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert_eq!(world.object("Database")["spec"]["members"], 3);
    assert_eq!(world.object("Database")["spec"]["others"], "kept");
    assert_eq!(world.log.len(), 1, "one write");
}

#[test]
fn a_spec_change_is_one_write_and_a_removed_field_goes() {
    let mut world = synced();
    world.edit_source(|source| source["spec"] = json!({"members": 4}));
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert_eq!(world.object("Database")["spec"], json!({"members": 4}));
    assert_eq!(world.log.len(), 1, "{:?}", world.log);
}

#[test]
fn ours_the_same_is_nothing() {
    let mut world = synced();
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(world.log.is_empty());
}

#[test]
fn when_false_deletes() {
    let mut world = synced();
    let without = changed("    - id: db\n", "    - id: db\n      when: ${{ source.spec.members > 3 }}\n");
    assert_eq!(world.settle(&without), Rest::InSync);
    assert!(world.objects.keys().all(|reference| reference.kind.kind == "ServiceAccount"));
}

#[test]
fn when_that_cannot_be_evaluated_keeps() {
    let mut world = synced();
    let unclear = changed("    - id: db\n", "    - id: db\n      when: ${{ source.spec.missing }}\n");
    assert_eq!(cause(&world.settle(&unclear)), Some(Cause::RenderFailed));
    world.object("Database");
}

#[test]
fn an_id_that_was_dropped_is_pruned_after_a_complete_rendering() {
    let (before_db, _) = DATABASES.split_once("    - id: db").unwrap();
    let dropped = mapping(before_db);
    let mut world = synced();
    assert_eq!(world.settle(&dropped), Rest::InSync);
    assert!(!world.objects.keys().any(|reference| reference.kind.kind == "Database"));
    let mut world = synced();
    let failing = mapping(&format!(
        "{before_db}    - id: other\n      template: {{apiVersion: v1, kind: ConfigMap, data: {{a: \"{{{{ source.spec.missing }}}}\"}}}}\n"
    ));
    assert_eq!(cause(&world.settle(&failing)), Some(Cause::RenderFailed));
    world.object("Database");
}

#[test]
fn prune_guard_holds_what_a_document_deletes_and_nothing_else() {
    let without = changed("    - id: db\n", "    - id: db\n      when: ${{ source.spec.members > 3 }}\n");
    let mut world = synced();
    world.prune = Prune::Held;
    assert_eq!(cause(&world.settle(&without)), Some(Cause::Held));
    world.object("Database");
    assert_eq!(condition(&world)["reason"], "Held");
    world.delete_source();
    assert_eq!(world.settle(&without), Rest::InSync, "the consumer asks for its own deletion");
    assert!(world.objects.is_empty());
}

#[test]
fn another_target_writes_nothing() {
    let mut world = synced();
    world.objects.clear();
    world.identity = "target-2".into();
    assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::TargetChanged));
    assert!(world.objects.is_empty());
    assert_eq!(condition(&world)["reason"], "TargetChanged");
    world.delete_source();
    assert_eq!(cause(&world.settle(&mapping(DATABASES))), Some(Cause::TargetChanged), "nor is the source released");
    assert!(world.source.is_some());
}

#[test]
fn what_does_not_stick_is_written_twice_and_then_remembered() {
    let mut world = World::new(source());
    world.drops = vec!["/spec/size".into()];
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    let unkept = marks::annotation(world.object("Database"), marks::UNKEPT).expect("it is remembered");
    assert!(unkept.ends_with(" /spec/size") && unkept.lines().count() == 1, "{unkept}");
    world.take_log();
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(world.log.is_empty());
}

/// A server that stores the number 3 as text, and the size not at all.
fn stores_another_form() -> World {
    let mut world = World::new(source());
    world.stores = vec![
        ("/spec/members".into(), json!(3), json!("3")),
        ("/spec/size".into(), source()["spec"]["size"].clone(), json!(null)),
    ];
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert_eq!(world.object("Database")["spec"], json!({"members": "3", "size": null}));
    world.take_log();
    assert_eq!((world.settle(&mapping(DATABASES)), world.take_log()), (Rest::InSync, Vec::<String>::new()));
    world
}

/// How often the object was written since the last look.
fn updates(world: &mut World) -> usize {
    world.take_log().iter().filter(|line| line.starts_with("update Database ")).count()
}

#[test]
fn drift_of_what_the_server_stored_in_another_form_is_corrected_by_one_write() {
    for (field, value) in [("members", json!(7)), ("members", json!("7")), ("size", json!(1))] {
        let mut world = stores_another_form();
        let stored = world.object("Database").clone();
        world.edit("Database", |object| object["spec"][field] = value);
        assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
        assert_eq!(updates(&mut world), 1);
        assert_eq!(world.object("Database")["spec"], stored["spec"]);
    }
}

#[test]
fn drift_of_another_form_is_reported_where_the_mapping_says_so() {
    let reports = changed("    - id: db\n", "    - id: db\n      drift: Report\n");
    let mut world = stores_another_form();
    assert_eq!(world.settle(&reports), Rest::InSync);
    world.edit("Database", |object| object["spec"]["members"] = json!("7"));
    let rest = world.settle(&reports);
    assert!(said(&rest).contains("was changed at /spec/members"), "{}", said(&rest));
    assert_eq!(world.object("Database")["spec"]["members"], "7");
}

#[test]
fn a_change_of_another_field_leaves_what_the_server_stored_in_another_form() {
    let mut world = stores_another_form();
    world.edit_source(|source| source["spec"]["zone"] = json!("a"));
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert_eq!(updates(&mut world), 1, "in one write");
    world.edit_source(|source| source["spec"]["members"] = json!(4));
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert_eq!(world.object("Database")["spec"]["members"], 4);
    let unkept = marks::annotation(world.object("Database"), marks::UNKEPT).expect("the size is still not kept");
    assert!(unkept.ends_with(" /spec/size") && unkept.lines().count() == 1, "{unkept}");
}

/// An admission webhook put another value in place of the template's, and was removed.
#[test]
fn after_a_webhook_that_changed_a_field_is_gone_the_field_is_compared_again() {
    let mut world = stores_another_form();
    world.stores.clear();
    for value in ["x", "3"] {
        world.edit("Database", |object| object["spec"]["members"] = json!(value));
        assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
        assert_eq!(world.object("Database")["spec"], source()["spec"], "{value}");
        assert_eq!(marks::annotation(world.object("Database"), marks::UNKEPT), None);
    }
}

#[test]
fn a_value_that_is_another_one_after_each_write_comes_to_rest() {
    let mut world = stores_another_form();
    world.stores.clear();
    world.counts = Some("/spec/members".into());
    world.edit("Database", |object| object["spec"]["members"] = json!("x"));
    assert_eq!(world.settle(&mapping(DATABASES)), Rest::InSync);
    assert!(world.take_log().len() <= 2);
}

#[test]
fn string_data_is_compared_as_the_data_that_servers_store() {
    let secret = "        apiVersion: v1\n        kind: Secret\n        stringData: {user: \"${{ source.spec.user | default(omit) }}\", key: x}\n";
    let template = "        apiVersion: example.dev/v1\n        kind: Database\n        spec: ${{ source.spec }}\n";
    let apply = "    - id: db\n      apply: {atCreation: [/stringData/key]}\n";
    let login = mapping(&DATABASES.replace(template, secret).replace("    - id: db\n", apply));
    let mut world = World::new(source());
    world.edit_source(|source| source["spec"]["user"] = json!("ann"));
    assert_eq!(world.settle(&login), Rest::InSync);
    assert_eq!(world.object("Secret")["data"], json!({"user": "YW5u", "key": "eA=="}));
    assert_eq!(world.object("Secret").get("stringData"), None);
    world.edit("Secret", |object| object["data"] = json!({"user": "bWFs", "key": "eQ=="}));
    assert_eq!(world.settle(&login), Rest::InSync);
    assert_eq!(
        world.object("Secret")["data"],
        json!({"user": "YW5u", "key": "eQ=="}),
        "the key is set at creation alone"
    );
    world.edit_source(|source| drop(source["spec"].as_object_mut().expect("a map").remove("user")));
    assert_eq!(world.settle(&login), Rest::InSync);
    assert_eq!(world.object("Secret")["data"], json!({"key": "eQ=="}));
}

#[test]
fn an_object_that_cannot_be_written_keeps_what_the_mapping_no_longer_has() {
    let alone = DATABASES.replace("  status:\n", "  status:\n    from: db\n");
    let login = "    - id: login\n      template: {apiVersion: v1, kind: ConfigMap}\n    - id: db\n";
    let mut world = World::new(source());
    assert_eq!(world.settle(&mapping(&alone.replace("    - id: db\n", login))), Rest::InSync);
    world.edit_source(|source| source["spec"]["members"] = json!(4));
    world.refuses = vec!["update Database".into()];
    assert!(said(&world.settle(&mapping(&alone))).contains("is deleted after Database"));
    world.object("ConfigMap");
    world.refuses.clear();
    assert_eq!(world.settle(&mapping(&alone)), Rest::InSync);
    assert!(world.objects.keys().all(|at| at.kind.kind != "ConfigMap"));
}

#[test]
fn a_source_is_not_in_sync_with_a_document_whose_kinds_cannot_be_listed() {
    let said = |world: &World| condition(world)["status"].clone();
    let mut world = synced();
    let kind = mapping(DATABASES).objects[0].kind.clone();
    world.unseen_kinds.insert(kind, "Database cannot be listed".into());
    world.settle(&mapping(DATABASES));
    assert_eq!(said(&world), "True", "a start alone changes nothing");
    world.is_held_up = true;
    world.settle(&mapping(DATABASES));
    assert_eq!((said(&world), &condition(&world)["reason"]), (json!("False"), &json!("Unknown")));
    let mut world = synced();
    (world.target_unknown, world.is_held_up) = (Some("Database is not listed yet".into()), true);
    world.settle(&mapping(DATABASES));
    assert_eq!(said(&world), "False");
    world.take_log();
    world.settle(&mapping(DATABASES));
    assert_eq!(world.take_log(), Vec::<String>::new());
    (world.target_unknown, world.is_held_up) = (None, false);
    world.settle(&mapping(DATABASES));
    assert_eq!(said(&world), "True");
}

#[test]
fn a_new_source_is_told_once_that_its_target_cannot_be_reached() {
    let mut world = World::new(source());
    (world.target_unknown, world.is_target_lost) = (Some("no answer".into()), true);
    world.settle(&mapping(DATABASES));
    assert_eq!(
        (&condition(&world)["status"], &condition(&world)["reason"]),
        (&json!("Unknown"), &json!("TargetUnreachable"))
    );
    world.take_log();
    world.settle(&mapping(DATABASES));
    assert_eq!(world.take_log(), Vec::<String>::new());
    let mut world = synced();
    (world.target_unknown, world.is_target_lost) = (Some("no answer".into()), true);
    world.settle(&mapping(DATABASES));
    assert_eq!((&condition(&world)["status"], world.take_log()), (&json!("True"), Vec::<String>::new()));
    let mut world = World::new(source());
    world.target_unknown = Some("it is being looked up".into());
    world.settle(&mapping(DATABASES));
    assert_eq!(world.take_log(), Vec::<String>::new(), "a start is no news");
}

#[test]
fn an_item_of_a_list_that_is_merged_by_key_is_corrected_beside_others_items() {
    let users = changed("        spec: ${{ source.spec }}\n", "        spec: {users: [{name: ann, role: admin}]}\n");
    let mut world = World::new(source());
    assert_eq!(world.settle(&users), Rest::InSync);
    world.edit("Database", |object| {
        object["metadata"]["managedFields"] = json!({"/spec/users": ["name"]});
        object["spec"]["users"] = json!([{"name": "op"}, {"name": "ann", "role": "admin"}]);
    });
    world.take_log();
    assert_eq!(
        (world.settle(&users), world.take_log()),
        (Rest::InSync, Vec::<String>::new()),
        "theirs is no difference"
    );
    world.edit("Database", |object| object["spec"]["users"][1]["role"] = json!("x"));
    assert_eq!(world.settle(&users), Rest::InSync);
    assert_eq!(updates(&mut world), 1);
}

#[test]
fn a_namespace_label_that_is_none_is_said_and_takes_no_finalizer() {
    let labelled = changed(
        "  objects:\n",
        "  placement: {namespaceLabels: {team: \"{{ source.metadata.labels.team | default('Team A') }}\"}}\n  objects:\n",
    );
    let mut world = World::new(source());
    let rest = world.settle(&labelled);
    assert_eq!(cause(&rest), Some(Cause::RenderFailed));
    assert!(format!("{rest:?}").contains("placement.namespaceLabels.team"), "{rest:?}");
    assert!(world.objects.is_empty() && !has_finalizer(world.source.as_ref().unwrap(), World::writer().finalizer()));
    world.edit_source(|source| source["metadata"]["labels"] = json!({"team": "team-a"}));
    assert_eq!(world.settle(&labelled), Rest::InSync);
}

#[test]
fn placement_is_sticky() {
    let mut world = synced();
    let former = world.reference("Database");
    world.former_placements = vec![mapping(DATABASES).placement.namespace_text];
    let moved = changed(
        "  objects:\n",
        "  placement: {namespace: \"elsewhere-{{ short_hash(workspace.cluster, source.metadata.namespace) }}\"}\n  objects:\n",
    );
    assert_eq!(world.settle(&moved), Rest::InSync);
    assert_eq!(world.reference("Database"), former);
    world.objects.clear();
    assert_eq!(world.settle(&moved), Rest::InSync);
    assert!(world.reference("Database").namespace.starts_with("elsewhere-"), "none anywhere: today's rule");
}

#[test]
fn another_kind_for_an_existing_object_is_blocked_orphaned_or_recreated() {
    let renamed = |policy: &str| {
        changed("        kind: Database\n", "        kind: Cluster\n")
            .text
            .replace("    - id: db\n", &format!("    - id: db\n      onIdentityChange: {policy}\n"))
    };
    let mut world = synced();
    assert_eq!(cause(&world.settle(&mapping(&renamed("Block")))), Some(Cause::IdentityChanged));
    assert!(!world.objects.keys().any(|reference| reference.kind.kind == "Cluster"));
    let mut world = synced();
    assert_eq!(world.settle(&mapping(&renamed("Orphan"))), Rest::InSync);
    assert!(marks::label(world.object("Database"), marks::OWNER).is_none(), "left behind, without our marks");
    world.object("Cluster");
    let mut world = synced();
    assert_eq!(world.settle(&mapping(&renamed("Recreate"))), Rest::InSync);
    assert!(!world.objects.keys().any(|reference| reference.kind.kind == "Database"), "deleted");
    world.object("Cluster");
}

#[test]
fn an_id_renamed_with_the_same_kind_and_name_is_relabelled() {
    let mut world = synced();
    let uid = world.object("Database")["metadata"]["uid"].clone();
    let renamed =
        mapping(&DATABASES.replace("id: db", "id: database").replace("  status:", "  status:\n    from: database"));
    assert_eq!(world.settle(&renamed), Rest::InSync);
    assert_eq!(world.object("Database")["metadata"]["uid"], uid);
    assert_eq!(marks::annotation(world.object("Database"), marks::OBJECT), Some("database"));
    assert_eq!(generation(world.source.as_ref().unwrap()), 1);
}

#[test]
fn what_is_set_at_creation_is_left_to_others_from_then_on() {
    let once = changed("    - id: db\n", "    - id: db\n      apply: {atCreation: [/spec/members, /spec/absent]}\n");
    let mut world = World::new(source());
    assert_eq!(world.settle(&once), Rest::InSync);
    assert_eq!(world.object("Database")["spec"]["members"], 3);
    world.edit("Database", |object| object["spec"]["members"] = json!(7));
    world.take_log();
    assert_eq!(world.settle(&once), Rest::InSync);
    assert_eq!(world.take_log(), Vec::<String>::new(), "what others set costs no write");
    world.edit_source(|source| source["spec"] = json!({"members": 4, "size": 1}));
    assert_eq!(world.settle(&once), Rest::InSync);
    assert_eq!(world.object("Database")["spec"], json!({"members": 7, "size": 1}));
    world.edit("Database", |object| drop(object["spec"].as_object_mut().expect("a map").remove("members")));
    assert_eq!(world.settle(&once), Rest::InSync);
    assert_eq!(world.object("Database")["spec"], json!({"size": 1}), "nor is it set again");
    world.objects.clear();
    assert_eq!(world.settle(&once), Rest::InSync);
    assert_eq!(world.object("Database")["spec"], json!({"members": 4, "size": 1}), "a new object has it again");
}

/// An autoscaler's number of one item, in a list that the server merges by name and in one that it replaces.
#[test]
fn a_field_of_an_item_is_left_to_others() {
    let of = |apply: &str| {
        changed("    - id: db\n", &format!("    - id: db\n      apply: {{{apply}: [\"/spec/groups/[name=cpu]/n\"]}}\n"))
    };
    let groups =
        |n: u8, size: u8| json!([{"name": "gpu", "n": 1, "size": size}, {"name": "cpu", "n": n, "size": size}]);
    for (apply, first) in [("ignore", json!(null)), ("atCreation", json!(3))] {
        let mut world = World::new(source());
        world.edit_source(|source| source["spec"]["groups"] = groups(3, 1));
        assert_eq!(world.settle(&of(apply)), Rest::InSync);
        assert_eq!(world.object("Database")["spec"]["groups"][1]["n"], first, "{apply}");
        world.edit("Database", |object| object["spec"]["groups"][1]["n"] = json!(9));
        world.take_log();
        assert_eq!(world.settle(&of(apply)), Rest::InSync);
        assert_eq!(world.take_log(), Vec::<String>::new(), "{apply}");
        world.edit_source(|source| source["spec"]["groups"] = groups(3, 2));
        assert_eq!(world.settle(&of(apply)), Rest::InSync);
        assert_eq!(
            world.object("Database")["spec"]["groups"],
            groups(9, 2),
            "{apply}: the live value is carried along"
        );
    }
}

const PASSWORD: &str = r#"  objects:
    - id: admin
      generate: {password: {}, key: {length: 32}}
      template:
        apiVersion: v1
        kind: Secret
        stringData: {user: "{{ source.spec.user | default('admin') }}"}
"#;

#[test]
fn random_text_is_made_once_and_stays_on_the_object() {
    let generating = mapping(PASSWORD);
    let mut world = World::new(source());
    assert_eq!(world.settle(&generating), Rest::InSync);
    let made = world.object("Secret")["data"].clone();
    assert!(made["password"].as_str().is_some_and(|text| text.starts_with("made-")), "{made}");
    world.edit_source(|source| source["spec"]["user"] = json!("root"));
    assert_eq!(world.settle(&generating), Rest::InSync);
    let now = &world.object("Secret")["data"];
    assert_eq!((&now["user"], &now["password"], &now["key"]), (&json!("cm9vdA=="), &made["password"], &made["key"]));

    // Somebody rotates it, which is no drift; who deletes it gets another.
    world.edit("Secret", |object| object["data"]["password"] = json!("cm90YXRlZA=="));
    world.edit("Secret", |object| drop(object["data"].as_object_mut().expect("data").remove("key")));
    assert_eq!(world.settle(&generating), Rest::InSync);
    let now = &world.object("Secret")["data"];
    assert_eq!(now["password"], "cm90YXRlZA==");
    assert!(now["key"].is_string() && now["key"] != made["key"], "{now}");
    world.objects.clear();
    assert_eq!(world.settle(&generating), Rest::InSync);
    assert_ne!(world.object("Secret")["data"]["password"], "cm90YXRlZA==");
}

/// A cache that lags behind must not bring a former password back.
#[test]
fn random_text_is_carried_onto_the_version_that_it_was_read_from() {
    let generating = mapping(PASSWORD);
    let mut world = World::new(source());
    assert_eq!(world.settle(&generating), Rest::InSync);
    world.edit_source(|source| source["spec"]["user"] = json!("root"));
    let mut lagging = world.observe(&generating);
    world.edit("Secret", |object| {
        object["data"]["password"] = json!("cm90YXRlZA==");
        object["metadata"]["resourceVersion"] = json!("999");
    });
    for _ in 0..2 {
        let Plan::Act(actions) = plan(&generating, &lagging) else { panic!("it has to be written") };
        for action in actions {
            let outcome = world.execute(&action);
            lagging.absorb(&action, outcome);
        }
    }
    let now = &world.object("Secret")["data"];
    assert_eq!((&now["user"], &now["password"]), (&json!("cm9vdA=="), &json!("cm90YXRlZA==")));
}

/// The answer to any write is lost, and another process goes on.
#[test]
fn random_text_is_not_made_again_after_a_crash() {
    let generating = mapping(PASSWORD);
    let mut after = 0;
    for writes in 1..6 {
        let mut world = World::new(source());
        world.settle_within(&generating, writes);
        let made = world.objects.values().find(|one| one["kind"] == "Secret").map(|secret| secret["data"].clone());
        world.edit_source(|source| source["spec"]["user"] = json!("root"));
        assert_eq!(world.settle(&generating), Rest::InSync);
        let Some(made) = made else { continue };
        let now = &world.object("Secret")["data"];
        assert_eq!((&now["password"], &now["key"]), (&made["password"], &made["key"]), "after {writes} writes");
        after += 1;
    }
    assert!(after > 1, "{after}");
}
