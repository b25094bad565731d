//! One row for each row of the decision table of a live source.

use serde_json::{Value, json};

use super::world::{World, check, check_by, foreign, part, steps};
use super::{
    DATABASES, changed, database, db, drift, edited, fresh, leave_filter, mapping, of_another_kind, recreate, said,
    source, spec, synced,
};
use crate::mapping::{Kind, Mapping};
use crate::object::compare::{COMPARED, remove_pointer};
use crate::object::generation;
use crate::object::marks::{self, Reference};
use crate::plan::{Action, Outcome, Plan, Prune, Reason, plan};

/// The mapping does not want `db` of a source with three members.
const NOT_WANTED: &str = "when: ${{ source.spec.members > 3 }}";

fn put_foreign(world: &mut World) {
    let reference = world.reference("Database");
    world.objects.insert(reference, foreign());
}

#[test]
#[rustfmt::skip]
fn a_source_that_is_new() {
    let account = "    - id: account\n      shared: Namespace\n      template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: database}}\n";
    let labelled = spec("placement: {namespaceLabels: {team: \"{{ source.metadata.labels.team | default('Team A') }}\"}}");
    let plain = mapping(DATABASES);
    check(fresh, &[
        ("an object costs three writes and no read beside its namespace", |_| {}, &changed(account, ""),
            "in sync; held, True Synced; add finalizer, create Namespace, create Database, update status; Database"),
        ("whose object is not wanted", |_| {}, &db(NOT_WANTED),
            "in sync; held, True Synced; add finalizer, create Namespace, create ServiceAccount, update status; ServiceAccount"),
        ("on an unknown target", |world| world.target_unknown = Some("target `t`: connection refused".into()), &plain,
            "Unknown; free, none none; ; "),
        ("of a kind that is not seen", |world| world.unsee(&database()), &plain,
            "Unknown; held, none none; add finalizer, create Namespace, create ServiceAccount; ServiceAccount"),
        ("not rendered", |_| {}, &changed("spec: ${{ source.spec }}", "spec: {size: \"${{ source.spec.missing }}\"}"),
            "RenderFailed; held, False RenderFailed; add finalizer, create Namespace, create ServiceAccount, update status; ServiceAccount"),
        ("without a placement", |_| {}, &spec("placement: {name: \"{{ source.spec.where }}-{{ source.metadata.name }}\"}"),
            "RenderFailed; free, False RenderFailed; update status; "),
        ("with a label of its namespace that is none", |_| {}, &labelled,
            "RenderFailed; free, False RenderFailed; update status; "),
        ("with a label of its namespace", |world| world.edit_source(|source| source["metadata"]["labels"]["team"] = json!("a")), &labelled,
            "in sync; held, True Synced; add finalizer, create Namespace, create ServiceAccount, create Database, update status; ServiceAccount Database"),
    ]);
    assert_eq!(said(&fresh().with(|world| world.unsee(&database())).settle(&plain)), "waiting: Unknown: object `db`: Database is not served");
    assert!(said(&fresh().settle(&labelled)).contains("placement.namespaceLabels.team"));
}

#[test]
fn the_finalizer_pins_the_target() {
    let world = synced();
    let (finalizers, key) = (&world.live()["metadata"]["finalizers"], "target.sync-engine.dev/main.databases");
    assert_eq!(finalizers, &json!(["sync-engine.dev/main.databases"]));
    assert_eq!(marks::annotation(world.live(), key), Some("target=target-1"));
}

#[test]
#[rustfmt::skip]
fn a_source_that_is_in_sync() {
    let (without_db, _) = DATABASES.split_once("    - id: db").unwrap();
    let incomplete = format!("{without_db}    - id: other\n      template: {{apiVersion: v1, kind: ConfigMap, data: {{a: \"{{{{ source.spec.missing }}}}\"}}}}\n");
    let (plain, not_wanted) = (mapping(DATABASES), db(NOT_WANTED));
    check(synced, &[
        ("the same", |_| {}, &plain,
            "in sync; held, True Synced; ; ServiceAccount Database"),
        ("absent", |world| world.objects.clear(), &plain,
            "in sync; held, True Synced; create ServiceAccount, create Database; ServiceAccount Database"),
        ("another spec", |world| world.edit_source(|source| source["spec"] = json!({"members": 4})), &plain,
            "in sync; held, True Synced; update Database; ServiceAccount Database"),
        ("not wanted", |_| {}, &not_wanted,
            "in sync; held, True Synced; delete Database; ServiceAccount"),
        ("not wanted, and absent", |world| world.objects.clear(), &not_wanted,
            "in sync; held, True Synced; create ServiceAccount; ServiceAccount"),
        ("not wanted, and foreign", put_foreign, &not_wanted,
            "in sync; held, True Synced; ; ServiceAccount Database?"),
        ("whether it is wanted cannot be told", |_| {}, &db("when: ${{ source.spec.missing }}"),
            "RenderFailed; held, False RenderFailed; update status; ServiceAccount Database"),
        ("its id is gone", |_| {}, &mapping(without_db),
            "in sync; held, True Synced; delete Database; ServiceAccount"),
        ("its id is gone, and another object is not rendered", |_| {}, &mapping(&incomplete),
            "RenderFailed, Waiting; held, False RenderFailed; update status; ServiceAccount Database"),
        ("changed by somebody else", drift, &plain,
            "in sync; held, True Synced; update Database; ServiceAccount Database"),
        ("changed by somebody else (Report)", drift, &db("drift: Report"),
            "Waiting; held, False Waiting; update status; ServiceAccount Database"),
        ("changed by somebody else (Ignore)", drift, &db("drift: Ignore"),
            "in sync; held, True Synced; ; ServiceAccount Database"),
        ("of another kind (Block)", |_| {}, &of_another_kind("Block"),
            "IdentityChanged; held, False IdentityChanged; update status; ServiceAccount Database"),
        ("of another kind (Orphan)", |_| {}, &of_another_kind("Orphan"),
            "in sync; held, True Synced; give up Database, create Cluster; ServiceAccount Cluster Database?"),
        ("of another kind (Recreate)", |_| {}, &of_another_kind("Recreate"),
            "in sync; held, True Synced; delete Database, create Cluster; ServiceAccount Cluster"),
        ("on another target", |world| { world.objects.clear(); world.identity = "target-2".into(); }, &plain,
            "TargetChanged; held, False TargetChanged; update status; "),
        ("on another target, and deleted", |world| { world.identity = "target-2".into(); world.delete_source(); }, &plain,
            "TargetChanged; held, False TargetChanged; update status; ServiceAccount Database"),
        ("not wanted, and held", |world| world.seen.limits.prune = Prune::none(), &not_wanted,
            "Held; held, False Held; update status; ServiceAccount Database"),
        ("not wanted and held, and deleted by its consumer", |world| { world.seen.limits.prune = Prune::none(); world.delete_source(); }, &not_wanted,
            "in sync; gone; delete Database, delete ServiceAccount, list all, release finalizer; "),
    ]);
}

/// The documents before would lose its objects of this kind as well.
fn spare(world: &mut World, kind: &str) {
    let spared = world.objects.keys().filter(|reference| reference.kind.kind == kind);
    world.seen.limits.prune = Prune::Held(spared.cloned().collect());
}

fn spare_in_another_version(world: &mut World) {
    let databases = world.objects.keys().filter(|reference| reference.kind.kind == "Database");
    let former = |kind: &Kind| Kind::new(&*kind.group, "v1alpha1", &*kind.kind);
    let spared = databases.map(|reference| Reference { kind: former(&reference.kind), ..reference.clone() });
    world.seen.limits.prune = Prune::Held(spared.collect());
}

/// It follows a document that is not in force yet: until it is, that document takes nothing away.
#[test]
#[rustfmt::skip]
fn a_source_that_follows_a_candidate_loses_nothing_by_it() {
    let not_wanted = edited(DATABASES, &[("    - id: db\n", &format!("    - id: db\n      {NOT_WANTED}\n"))]);
    let shared = edited(DATABASES, &[("kind: ServiceAccount", "kind: ServiceAccount, automountServiceAccountToken: false")]);
    let orphaned = edited(DATABASES, &[("    selector:", "    onExit: Orphan\n    selector:")]);
    let promoted = || synced().with(|world| (world.seen.limits.prune, world.seen.limits.is_promoted) = (Prune::none(), true));
    check(promoted, &[
        ("not wanted", |_| {}, &not_wanted,
            "Held; held, True Synced; ; ServiceAccount Database"),
        ("not wanted, by the document in force neither", |world| spare(world, "Database"), &not_wanted,
            "in sync; held, True Synced; delete Database; ServiceAccount"),
        ("not wanted, by the document in force neither, which has another version of the kind", spare_in_another_version, &not_wanted,
            "in sync; held, True Synced; delete Database; ServiceAccount"),
        ("of another kind (Orphan)", |_| {}, &of_another_kind("Orphan"),
            "Held; held, True Synced; ; ServiceAccount Database"),
        ("of another kind (Recreate)", |_| {}, &of_another_kind("Recreate"),
            "Held; held, True Synced; ; ServiceAccount Database"),
        ("out of the filter (Orphan)", leave_filter, &orphaned,
            "Held; held, True Synced; ; ServiceAccount Database"),
        ("deleted by its consumer", World::delete_source, &not_wanted,
            "in sync; gone; delete Database, delete ServiceAccount, list all, release finalizer; "),
        ("what it shares is another", |_| {}, &shared,
            "in sync; held, True Synced; ; ServiceAccount Database"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_source_that_is_created_anew() {
    let adopt = "  lifecycle: {onSourceRecreated: Adopt}\n  objects:\n";
    let not_wanted = edited(DATABASES, &[("  objects:\n", adopt), ("    - id: db\n", &format!("    - id: db\n      {NOT_WANTED}\n"))]);
    let plain = mapping(DATABASES);
    check(|| synced().with(recreate), &[
        ("Adopt", |_| {}, &spec("lifecycle: {onSourceRecreated: Adopt}"),
            "in sync; held, True Adopted; update Database, update status; ServiceAccount Database"),
        ("Adopt, and not wanted", |_| {}, &not_wanted,
            "in sync; held, True Synced; delete Database; ServiceAccount"),
        ("Block", |_| {}, &spec("lifecycle: {onSourceRecreated: Block}"),
            "Recreated; held, False Recreated; update status; ServiceAccount Database^"),
        ("Block, and deleted", World::delete_source, &spec("lifecycle: {onSourceRecreated: Block}"),
            "in sync; gone; delete ServiceAccount, list all, release finalizer; Database"),
        ("Block, and out of the filter", leave_filter, &edited(DATABASES, &[("  objects:\n", &adopt.replace("Adopt", "Block")), ("    selector:", "    onExit: Delete\n    selector:")]),
            "in sync; free, False NotSelected; delete ServiceAccount, list all, update status, release finalizer; Database^"),
        ("Replace", |_| {}, &spec("lifecycle: {onSourceRecreated: Replace}"),
            "in sync; held, True Synced; delete Database, create Database; ServiceAccount Database"),
        ("by default in a workspace of its path alone", |_| {}, &plain,
            "in sync; held, True Adopted; update Database, update status; ServiceAccount Database"),
        ("by default in a home workspace", |world| world.seen.consumer.path = Some("root:users:ab:cd:jane".into()), &plain,
            "Recreated; held, False Recreated; update status; ServiceAccount Database^"),
        ("by default in a home workspace whose path somebody changed", |world| world.edit("Database", |object| object["metadata"]["annotations"][marks::WORKSPACE] = json!("root:users:ab:cd:jane")), &plain,
            "Recreated; held, False Recreated; update status; ServiceAccount Database^"),
        ("by default in a workspace whose path only looks so", |world| world.seen.consumer.path = Some("root:users-guide".into()), &plain,
            "in sync; held, True Adopted; update Database, update status; ServiceAccount Database"),
        ("by default in a workspace of an unknown path", |world| world.seen.consumer.path = None, &plain,
            "Recreated; held, False Recreated; update status; ServiceAccount Database^"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_refused_request_is_sent_once_a_reconcile_and_reported() {
    fn refuse(world: &mut World, request: &str) {
        world.refuses = vec![request.to_owned()];
    }
    let plain = mapping(DATABASES);
    check(synced, &[
        ("create", |world| { world.objects.clear(); refuse(world, "create Database"); }, &plain,
            "Refused; held, False Refused; create ServiceAccount, create Database, update status; ServiceAccount"),
        ("update", |world| { world.edit_source(|source| source["spec"] = json!({"members": 4})); refuse(world, "update Database"); }, &plain,
            "Refused; held, False Refused; update Database, update status; ServiceAccount Database"),
        ("delete what is not wanted", |world| refuse(world, "delete Database"), &db(NOT_WANTED),
            "Refused; held, False Refused; delete Database, update status; ServiceAccount Database"),
        ("give up another kind", |world| refuse(world, "give up Database"), &of_another_kind("Orphan"),
            "Refused; held, False Refused; give up Database, update status; ServiceAccount Database"),
        ("delete with the source", |world| { world.delete_source(); refuse(world, "delete Database"); }, &plain,
            "Refused; held, False Refused; delete Database, update status; ServiceAccount Database"),
        ("give up with the source", |world| { world.delete_source(); refuse(world, "give up Database"); }, &spec("lifecycle: {onSourceDelete: Orphan}"),
            "Refused; held, False Refused; give up Database, update status; ServiceAccount Database"),
    ]);
}

#[test]
fn an_update_takes_removed_fields_out_and_leaves_those_of_others() {
    let mut world = synced();
    world.edit_source(|source| source["spec"] = json!({"members": 4}));
    world.sync(&mapping(DATABASES));
    assert_eq!(world.object("Database")["spec"], json!({"members": 4}));
    world.edit("Database", |object| object["spec"] = json!({"members": 5, "others": "kept"}));
    world.sync(&mapping(DATABASES));
    assert_eq!(world.object("Database")["spec"], json!({"members": 4, "others": "kept"}));
}

/// A server that stores the number 3 as text, and the size not at all.
fn stores_another_form() -> World {
    fn alter(object: &mut Value, _: &str) {
        let Some(spec) = object.get_mut("spec") else { return };
        if spec["members"] == 3 {
            spec["members"] = json!("3");
        }
        if spec["size"] == source()["spec"]["size"] {
            spec["size"] = json!(null);
        }
    }
    fresh().with(|world| world.alters = Some(alter)).in_sync(&mapping(DATABASES))
}

/// What the server stores, and what the object remembers of that.
fn stored(world: &mut World, mapping: &Mapping) -> String {
    let told = part("Database", "/spec")(world, mapping);
    let remembered = marks::annotation(world.object("Database"), marks::UNKEPT).unwrap_or_default();
    let pointers: Vec<&str> =
        remembered.lines().map(|line| line.split_once(' ').expect("a hash and a pointer").1).collect();
    format!("{told}; {}", pointers.join(" "))
}

fn of_spec(world: &mut World, field: &str, value: Value) {
    world.edit("Database", |object| object["spec"][field] = value);
}

#[test]
#[rustfmt::skip]
fn what_a_server_stores_otherwise_is_written_once_and_remembered() {
    let plain = mapping(DATABASES);
    check_by(stores_another_form, &[
        ("the same", |_| {}, &plain,
            "in sync; ; {'members':'3','size':null}; /spec/members /spec/size"),
        ("another number by somebody else", |world| of_spec(world, "members", json!(7)), &plain,
            "in sync; update Database; {'members':'3','size':null}; /spec/members /spec/size"),
        ("another text by somebody else", |world| of_spec(world, "members", json!("7")), &plain,
            "in sync; update Database; {'members':'3','size':null}; /spec/members /spec/size"),
        ("a value that was not kept by somebody else", |world| of_spec(world, "size", json!(1)), &plain,
            "in sync; update Database; {'members':'3','size':null}; /spec/members /spec/size"),
        ("another text by somebody else (Report)", |world| of_spec(world, "members", json!("7")), &db("drift: Report"),
            "Waiting; update status; {'members':'7','size':null}; /spec/members /spec/size"),
        ("another field of the source", |world| world.edit_source(|source| source["spec"]["zone"] = json!("a")), &plain,
            "in sync; update Database; {'members':'3','size':null,'zone':'a'}; /spec/members /spec/size"),
        ("another value of the source", |world| world.edit_source(|source| source["spec"]["members"] = json!(4)), &plain,
            "in sync; update Database; {'members':4,'size':null}; /spec/size"),
    ], stored);
    steps(stores_another_form().with(|world| world.alters = None), &[
        ("a webhook that changed it is gone, and somebody changes it", |world| of_spec(world, "members", json!("x")), &plain,
            "in sync; update Database, update Database; {'members':3,'size':9007199254740993}; "),
        ("somebody writes what the webhook wrote", |world| of_spec(world, "members", json!("3")), &plain,
            "in sync; update Database; {'members':3,'size':9007199254740993}; "),
    ], stored);
    steps(fresh().with(|world| world.alters = Some(|object, _| remove_pointer(object, "/spec/size"))), &[
        ("a field that the server drops is written twice", |_| {}, &plain,
            "in sync; add finalizer, create Namespace, create ServiceAccount, create Database, update Database, update status; {'members':3}; /spec/size"),
        ("and not again", |_| {}, &plain,
            "in sync; ; {'members':3}; /spec/size"),
    ], stored);
    let mut world = stores_another_form().with(|world| of_spec(world, "members", json!("7")));
    let reports = said(&world.settle(&db("drift: Report")));
    assert!(reports.contains("was changed at /spec/members"), "{reports}");
}

/// An answer is lost, or something else changes while the engine waits for it.
#[test]
fn what_a_server_makes_of_a_write_that_nobody_compared_is_not_reported_as_drift() {
    let reports = db("drift: Report");
    let mut world = fresh().with(|world| world.alters = Some(|object, _| remove_pointer(object, "/spec/size")));
    let lost = |action: &Action| {
        action.to_string().starts_with("update Database").then(|| Outcome::Failed(Reason::unseen("no answer")))
    };
    let observed = world.observe(&reports);
    world.settle_from(&reports, observed, usize::MAX, lost);
    let left = |world: &World| world.rested.as_ref().expect("it came to rest").uncompared(true, false);
    world.seen.answers.uncompared = left(&world);
    world.sync(&reports);
    world.seen.answers.uncompared = left(&world);
    world.rests(&reports);
    of_spec(&mut world, "members", json!(7));
    let told = said(&world.settle(&reports));
    assert!(told.contains("was changed at /spec/members"), "{told}");
}

#[test]
fn a_write_is_compared_by_the_plan_that_comes_after_it() {
    let (plain, world) = (mapping(DATABASES), synced());
    let left = |times: usize, is_at_rest: bool, sees_all: bool| {
        let (mut observed, reference) = (world.observe(&plain), world.reference("Database"));
        if times == 0 {
            observed.answers.uncompared.insert(reference);
        } else {
            observed.answers.applied.insert(reference, ("of what was rendered".to_owned(), times));
        }
        observed.uncompared(is_at_rest, sees_all).len()
    };
    assert_eq!([left(0, false, false), left(0, true, false), left(0, true, true)], [1, 1, 0], "written before");
    assert_eq!([left(1, false, false), left(2, false, false), left(1, true, false)], [1, 0, 0], "written now");
}

#[test]
fn a_plan_that_writes_an_object_has_compared_it_once() {
    let (plain, mut world) = (mapping(DATABASES), synced());
    world.edit_source(|source| source["spec"]["members"] = json!(4));
    let observed = world.observe(&plain);
    COMPARED.set(0);
    assert!(matches!(plan(&plain, &observed), Plan::Act(_)));
    assert_eq!(COMPARED.get(), 2, "the database and the account");
}

/// A consumer may write more of them than the annotations of an object can name: its server would refuse the object for ever.
#[test]
fn many_fields_that_a_server_stores_otherwise_are_remembered_by_one_hash() {
    fn alter(object: &mut Value, _: &str) {
        let limits = object.pointer_mut("/spec/limits").and_then(Value::as_object_mut);
        let written = limits.into_iter().flatten().filter(|(_, limit)| **limit == "1000m");
        written.for_each(|(_, limit)| *limit = json!("1"));
    }
    let plain = mapping(DATABASES);
    let limits: Value = (0..4_000).map(|number| (format!("limit{number}"), "1000m")).collect();
    let mut world = fresh().with(|world| {
        world.alters = Some(alter);
        world.edit_source(|source| source["spec"]["limits"] = limits);
    });
    let said = |world: &World| marks::annotation(world.object("Database"), marks::UNKEPT).map(str::to_owned);
    world.sync(&plain);
    let remembered = said(&world);
    assert_eq!(remembered.as_ref().map(String::len), Some(16));
    world.rests(&plain);
    world.edit("Database", |object| object["spec"]["limits"]["limit7"] = json!("2"));
    world.sync(&plain);
    assert_eq!(world.writes(), ["update Database"], "what the server stores in its place is known");
    world.edit_source(|source| source["spec"]["limits"]["limit7"] = json!("2"));
    world.sync(&plain);
    assert!(world.object("Database")["spec"]["limits"]["limit7"] == "2" && said(&world) != remembered);
    world.rests(&plain);
}

#[test]
fn a_value_that_is_another_one_after_each_write_comes_to_rest() {
    let mut world = stores_another_form();
    world.alters = Some(|object, version| object["spec"]["members"] = json!(version));
    of_spec(&mut world, "members", json!("x"));
    world.sync(&mapping(DATABASES));
    assert!(world.take_log().len() <= 2);
}

#[test]
#[rustfmt::skip]
fn string_data_is_compared_as_the_data_that_servers_store() {
    let secret = "        apiVersion: v1\n        kind: Secret\n        stringData: {user: \"${{ source.spec.user | default(omit) }}\", key: x}\n";
    let template = "        apiVersion: example.dev/v1\n        kind: Database\n        spec: ${{ source.spec }}\n";
    let at_creation = "    - id: db\n      apply: {atCreation: [/stringData/key]}\n";
    let login = edited(DATABASES, &[(template, secret), ("    - id: db\n", at_creation)]);
    let mut world = steps(fresh(), &[
        ("created", |world| world.edit_source(|source| source["spec"] = json!({"user": "ann"})), &login,
            "in sync; add finalizer, create Namespace, create ServiceAccount, create Secret, update status; {'key':'eA==','user':'YW5u'}"),
        ("changed by somebody else, who may set the key", |world| world.edit("Secret", |object| object["data"] = json!({"user": "bWFs", "key": "eQ=="})), &login,
            "in sync; update Secret; {'key':'eQ==','user':'YW5u'}"),
        ("without its user", |world| world.edit_source(|source| source["spec"] = json!({})), &login,
            "in sync; update Secret; {'key':'eQ=='}"),
    ], part("Secret", "/data"));
    assert_eq!(world.object("Secret").get("stringData"), None);
    // No server takes a number there: it does not become an empty text.
    world.edit_source(|source| source["spec"] = json!({"user": 7}));
    let told = said(&world.settle(&login));
    assert!(told.contains("RenderFailed: object `db`: stringData.user: it gives no text"), "{told}");
    assert_eq!(world.object("Secret")["data"], json!({"key": "eQ=="}));
}

#[test]
fn an_object_that_cannot_be_written_keeps_what_the_mapping_no_longer_has() {
    let alone = ("  status:\n", "  status:\n    from: db\n");
    let login = "    - id: login\n      template: {apiVersion: v1, kind: ConfigMap}\n    - id: db\n";
    let mut world = fresh().in_sync(&edited(DATABASES, &[alone, ("    - id: db\n", login)]));
    world.edit_source(|source| source["spec"]["members"] = json!(4));
    world.refuses = vec!["update Database".into()];
    assert!(said(&world.settle(&edited(DATABASES, &[alone]))).contains("is deleted after Database"));
    assert!(world.has("ConfigMap"));
    world.refuses.clear();
    world.sync(&edited(DATABASES, &[alone]));
    assert!(!world.has("ConfigMap"));
}

/// Once, and not at a start.
#[test]
fn what_is_out_of_sight_is_told_to_a_source_that_knows_nothing_yet() {
    let plain = mapping(DATABASES);
    let mut world = synced();
    world.unsee(&plain.objects[0].kind);
    world.settle(&plain);
    assert_eq!(world.condition(), "True Synced", "a start alone changes nothing");
    for (mut world, told) in [(fresh(), "Unknown TargetUnreachable"), (synced(), "True Synced")] {
        (world.target_unknown, world.seen.target.is_lost) = (Some("Database is not listed yet".to_owned()), true);
        world.settle(&plain);
        assert_eq!(world.condition(), told);
        assert_eq!(world.writes(), if told.contains("Unreachable") { vec!["update status"] } else { vec![] }, "{told}");
        world.rests(&plain);
    }
}

#[test]
#[rustfmt::skip]
fn an_item_of_a_list_that_is_merged_by_key_is_corrected_beside_others_items() {
    let users = changed("        spec: ${{ source.spec }}\n", "        spec: {users: [{name: ann, role: admin}]}\n");
    let add = |world: &mut World| world.edit("Database", |object| {
        object["metadata"]["managedFields"] = json!({"/spec/users": ["name"]});
        object["spec"]["users"] = json!([{"name": "op"}, {"name": "ann", "role": "admin"}]);
    });
    steps(fresh().in_sync(&users), &[
        ("somebody adds an item", add, &users,
            "in sync; ; [{'name':'op'},{'name':'ann','role':'admin'}]"),
        ("somebody changes the engine's item", |world| world.edit("Database", |object| object["spec"]["users"][1]["role"] = json!("none")), &users,
            "in sync; update Database; [{'name':'ann','role':'admin'}]"),
    ], part("Database", "/spec/users"));
}

#[test]
fn placement_is_sticky() {
    let mut world = synced();
    let former = world.reference("Database");
    world.former_placements = vec![mapping(DATABASES).namespace_rule().to_owned()];
    let namespace = "elsewhere-{{ short_hash(workspace.cluster, source.metadata.namespace) }}";
    let moved =
        spec(&format!("placement: {{namespace: \"{namespace}\", name: \"moved-{{{{ source.metadata.name }}}}\"}}"));
    world.sync(&moved);
    assert_eq!(world.reference("Database"), former);
    world.objects.clear();
    world.sync(&moved);
    let Reference { namespace, name, .. } = world.reference("Database");
    assert!(namespace.starts_with("elsewhere-") && name == "moved-db", "none anywhere: today's rule");
}

#[test]
fn an_id_renamed_with_the_same_kind_and_name_is_relabelled() {
    let mut world = synced();
    let uid = world.object("Database")["metadata"]["uid"].clone();
    world.sync(&edited(DATABASES, &[("id: db", "id: database"), ("  status:", "  status:\n    from: database")]));
    assert_eq!(world.object("Database")["metadata"]["uid"], uid);
    assert_eq!(marks::annotation(world.object("Database"), marks::OBJECT), Some("database"));
    assert_eq!(generation(world.live()), 1);
}

#[test]
#[rustfmt::skip]
fn what_is_set_at_creation_is_left_to_others_from_then_on() {
    let once = db("apply: {atCreation: [/spec/members, /spec/absent]}");
    steps(fresh(), &[
        ("created", |world| world.edit_source(|source| source["spec"] = json!({"members": 3})), &once,
            "in sync; add finalizer, create Namespace, create ServiceAccount, create Database, update status; {'members':3}"),
        ("somebody sets it", |world| of_spec(world, "members", json!(7)), &once,
            "in sync; ; {'members':7}"),
        ("the source has another value", |world| world.edit_source(|source| source["spec"] = json!({"members": 4, "size": 1})), &once,
            "in sync; update Database; {'members':7,'size':1}"),
        ("somebody removes it", |world| world.edit("Database", |object| object["spec"] = json!({"size": 1})), &once,
            "in sync; ; {'size':1}"),
        ("created again", |world| world.objects.clear(), &once,
            "in sync; create ServiceAccount, create Database; {'members':4,'size':1}"),
    ], part("Database", "/spec"));
}

/// An autoscaler's number of one item, in a list that the server merges by name and in one that it replaces.
#[test]
#[rustfmt::skip]
fn a_field_of_an_item_is_left_to_others() {
    fn give(world: &mut World, size: u8) {
        let groups = json!([{"name": "gpu", "n": 1, "size": size}, {"name": "cpu", "n": 3, "size": size}]);
        world.edit_source(|source| source["spec"] = json!({"groups": groups}));
    }
    let (ignore, once) = (db("apply: {ignore: [\"/spec/groups/[name=cpu]/n\"]}"), db("apply: {atCreation: [\"/spec/groups/[name=cpu]/n\"]}"));
    let set = |world: &mut World| world.edit("Database", |object| object["spec"]["groups"][1]["n"] = json!(9));
    let cpu = || part("Database", "/spec/groups/1");
    steps(fresh(), &[
        ("ignored: created", |world| give(world, 1), &ignore, "in sync; add finalizer, create Namespace, create ServiceAccount, create Database, update status; {'name':'cpu','size':1}"),
        ("ignored: somebody sets it", set, &ignore, "in sync; ; {'n':9,'name':'cpu','size':1}"),
        ("ignored: another field changes", |world| give(world, 2), &ignore, "in sync; update Database; {'n':9,'name':'cpu','size':2}"),
    ], cpu());
    steps(fresh(), &[
        ("at creation: created", |world| give(world, 1), &once, "in sync; add finalizer, create Namespace, create ServiceAccount, create Database, update status; {'n':3,'name':'cpu','size':1}"),
        ("at creation: somebody sets it", set, &once, "in sync; ; {'n':9,'name':'cpu','size':1}"),
        ("at creation: another field changes", |world| give(world, 2), &once, "in sync; update Database; {'n':9,'name':'cpu','size':2}"),
    ], cpu());
}

fn generating() -> Mapping {
    mapping(
        r#"  objects:
    - id: admin
      generate: {password: {}, key: {length: 32}}
      template: {apiVersion: v1, kind: Secret, stringData: {user: "{{ source.spec.user | default('admin') }}"}}
"#,
    )
}

fn user(world: &mut World, name: &str) {
    world.edit_source(|source| source["spec"]["user"] = json!(name));
}

#[test]
fn random_text_is_made_once_and_stays_on_the_object() {
    let mut world = fresh().in_sync(&generating());
    let made = world.object("Secret")["data"].clone();
    assert!(made["password"].as_str().is_some_and(|text| text.starts_with("made-")), "{made}");
    user(&mut world, "root");
    world.sync(&generating());
    let kept = json!({"user": "cm9vdA==", "password": made["password"], "key": made["key"]});
    assert_eq!(world.object("Secret")["data"], kept);

    // Somebody rotates it, which is no drift; who deletes it gets another.
    world.edit("Secret", |object| object["data"] = json!({"user": "cm9vdA==", "password": "cm90YXRlZA=="}));
    world.sync(&generating());
    let now = &world.object("Secret")["data"];
    assert_eq!(now["password"], "cm90YXRlZA==");
    assert!(now["key"].is_string() && now["key"] != made["key"], "{now}");
    world.objects.clear();
    world.sync(&generating());
    assert_ne!(world.object("Secret")["data"]["password"], "cm90YXRlZA==");
}

/// A cache that lags behind must not bring a former password back.
#[test]
fn random_text_is_carried_onto_the_version_that_it_was_read_from() {
    let mut world = fresh().in_sync(&generating());
    user(&mut world, "root");
    let lagging = world.observe(&generating());
    world.edit("Secret", |object| {
        object["data"]["password"] = json!("cm90YXRlZA==");
        object["metadata"]["resourceVersion"] = json!("999");
    });
    world.settle_from(&generating(), lagging, usize::MAX, |_| None);
    let now = &world.object("Secret")["data"];
    assert_eq!((&now["user"], &now["password"]), (&json!("cm9vdA=="), &json!("cm90YXRlZA==")));
}

/// The answer to any write is lost, and another process goes on.
#[test]
fn random_text_is_not_made_again_after_a_crash() {
    let crashed = (1..6).filter(|writes| {
        let mut world = fresh();
        world.settle_within(&generating(), *writes);
        let made = world.objects.values().find(|one| one["kind"] == "Secret").map(|secret| secret["data"].clone());
        user(&mut world, "root");
        world.sync(&generating());
        let now = &world.object("Secret")["data"];
        made.inspect(|made| assert_eq!((&now["password"], &now["key"]), (&made["password"], &made["key"]), "{writes}"))
            .is_some()
    });
    assert!(crashed.count() > 1, "a Secret is there after more than one write");
}
