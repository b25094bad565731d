//! Several targets of one mapping: each plans for itself, and they agree by the annotation on the source.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::world::{World, check_by, steps};
use super::{causes, mapping, of};
use crate::mapping::Mapping;
use crate::object::has_finalizer;
use crate::plan::targets::{OtherTarget, Reach, TargetContext, keys, known_pins, reports_for_all};
use crate::plan::{Prune, Reason, Reasons, Source, pins};

const OBJECTS: &str = r#"
  objects:
    - id: db
      template:
        apiVersion: example.dev/v1
        kind: Database
        spec: {members: "${{ source.spec.members }}", on: "{{ target.cluster }}"}
"#;

const ONE: &str = "  target: {cluster: \"${{ source.spec.region }}\", allowed: [east, west], onTargetChange: Block}";

const EACH: &str = r#"  targets:
    forEach: ${{ source.spec.regions | default(["east", "west"]) }}
    as: region
    key: ${{ region }}
    cluster: "{{ region }}"
    allowed: [east, west]"#;

const STATUS: &str = r#"
  status:
    fields:
      east: {value: "${{ targets.east.reason | default('none') }}"}
      west: {value: "${{ targets.west.reason | default('none') }}"}
"#;

/// A source and the worlds that its targets are.
#[derive(Clone)]
struct Targets {
    source: Option<Value>,
    worlds: BTreeMap<&'static str, World>,
    reach: BTreeMap<&'static str, Reach>,
    selected: BTreeSet<String>,
    unsettled: BTreeMap<&'static str, Reason>,
}

impl Targets {
    fn new(spec: Value) -> Self {
        let world = of(spec);
        let on = |name: &'static str| (name, world.clone().with(|it| it.identity = format!("identity-of-{name}")));
        Self {
            worlds: ["east", "west"].map(on).into(),
            source: world.source,
            reach: [("east", Reach::Seen), ("west", Reach::Seen)].into(),
            selected: BTreeSet::new(),
            unsettled: BTreeMap::new(),
        }
    }

    /// One target plans and acts until its plan rests, or it has written so often.
    fn settle_within(&mut self, mapping: &Mapping, name: &'static str, writes: usize) -> Option<Reasons> {
        let others = self.worlds.iter().filter(|(other, _)| **other != name).map(|(other, world)| {
            let seen = world.observe(mapping);
            let other_target = OtherTarget {
                reach: self.reach[other],
                identity: Some(world.identity.clone()),
                url: None,
                objects: seen.objects,
                unsettled: self.unsettled.get(other).cloned(),
            };
            ((*other).to_owned(), other_target)
        });
        let (selected, targets) = (Arc::new(self.selected.clone()), Arc::new(others.collect()));
        let among = TargetContext { name: name.to_owned(), selected, targets };
        let world = self.worlds.get_mut(name).expect("a target");
        world.source.clone_from(&self.source);
        world.seen.among = Some(among);
        let observed = world.observe(mapping);
        let source = world.source.clone().map(Arc::new);
        let among = observed.among.as_ref().expect("several targets");
        let tells = |source| reports_for_all(mapping, &observed, &source, |name| among.is_seen(name));
        world.seen.limits.tells_nothing = !source.is_none_or(tells);
        let rest = world.settle_within(mapping, writes);
        self.source.clone_from(&world.source);
        self.unsettled.remove(name);
        let unsettled = rest.as_ref().and_then(Reasons::of_target);
        self.unsettled.extend(unsettled.map(|why| (name, why)));
        rest
    }

    fn settle(&mut self, mapping: &Mapping, name: &'static str) -> String {
        causes(&self.settle_within(mapping, name, usize::MAX).expect("no limit of writes"))
    }

    /// Both, until neither writes any more.
    fn settle_both(&mut self, mapping: &Mapping) -> [String; 2] {
        for _ in 0..10 {
            let rests = ["east", "west"].map(|name| self.settle(mapping, name));
            let logs: usize = self.worlds.values_mut().map(|world| world.take_log().len()).sum();
            if logs == 0 {
                return rests;
            }
        }
        panic!("the targets write for ever");
    }

    /// Both, and how that ends; with what is in sync of this generation.
    fn ends(&mut self, mapping: &Mapping) -> String {
        let rests = self.settle_both(mapping).join(", ");
        let all = self.worlds.values().flat_map(|world| &world.objects);
        let members: Vec<_> = all.map(|(_, object)| object["spec"]["members"].to_string()).collect();
        format!("{rests}; {}; members {}", self.shown(), members.join(" "))
    }

    fn synced(spec: Value, mapping: &Mapping) -> Self {
        let mut targets = Self::new(spec);
        targets.settle_both(mapping);
        targets
    }

    fn east(&mut self) -> &mut World {
        self.worlds.get_mut("east").expect("a target")
    }

    fn west(&mut self) -> &mut World {
        self.worlds.get_mut("west").expect("a target")
    }

    fn with_source(&mut self, change: impl FnOnce(&mut World)) {
        let source = self.source.clone();
        let east = self.east();
        east.source = source;
        change(east);
        self.source = east.source.clone();
    }

    fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        self.with_source(|world| world.edit_source(change));
    }

    fn set(&mut self, field: &str, value: Value) {
        self.edit(|source| source["spec"][field] = value);
    }

    fn delete(&mut self) {
        self.with_source(World::delete_source);
    }

    /// Where the objects are, to which targets the source is pinned while it has the finalizer, and its condition.
    fn shown(&self) -> String {
        let names = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(" ") };
        let having = self.worlds.iter().filter(|(_, world)| world.has("Database")).map(|(name, _)| *name).collect();
        let Some(source) = &self.source else { return format!("{}; gone", names(having)) };
        let all = pins(&World::writer(), source);
        let is_told = |(name, identity): (&String, &String)| identity.ends_with(name.trim_start_matches("fleet/"));
        assert!(all.iter().all(is_told), "{all:?}");
        let held = if has_finalizer(source, World::writer().finalizer()) { "held by" } else { "free of" };
        let condition = &source["status"]["conditions"][0]["reason"].as_str().unwrap_or("none");
        format!("{}; {held} {}; {condition}", names(having), names(all.keys().map(String::as_str).collect()))
    }

    fn message(&self) -> &str {
        self.status()["conditions"][0]["message"].as_str().expect("a message")
    }

    fn status(&self) -> &Value {
        &self.source.as_ref().expect("the source")["status"]
    }

    /// What the status says of both.
    fn told(&self) -> [&Value; 2] {
        ["east", "west"].map(|name| &self.status()[name])
    }

    /// What remains when versions and times are forgotten.
    fn essence(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let worlds = self.worlds.iter().map(|(name, world)| {
            let mut world = world.clone();
            world.source.clone_from(&self.source);
            (*name, world.essence())
        });
        worlds.collect::<Vec<_>>()
    }
}

fn one(change: &str) -> Mapping {
    mapping(&format!("{}{OBJECTS}", ONE.replace("Block", change)))
}

fn each() -> Mapping {
    mapping(&format!("{EACH}{OBJECTS}{STATUS}"))
}

fn fleet() -> Mapping {
    mapping(&format!("  targets: {{clusters: {{provider: fleet}}, allowed: [east]}}{OBJECTS}"))
}

/// A source with three members, on both targets.
fn both() -> Targets {
    Targets::synced(json!({"members": 3}), &each())
}

/// A source that names the one target that it goes to.
fn in_west(change: &str) -> Targets {
    Targets::synced(json!({"region": "west", "members": 3}), &one(change))
}

/// Somebody removes the source's finalizers, or its annotations.
fn remove(targets: &mut Targets, field: &str) {
    targets.edit(|source| drop(source["metadata"].as_object_mut().unwrap().remove(field)));
}

#[test]
fn each_item_of_a_list_is_a_target() {
    let mut targets = Targets::new(json!({"members": 3}));
    assert_eq!(targets.ends(&each()), "in sync, in sync; east west; held by east west; Synced; members 3 3");
    assert_eq!(targets.west().object("Database")["spec"]["on"], "west");
    assert_eq!(targets.told(), ["Ready", "Ready"]);
}

/// One that is not in sight yet is named by its own plan.
#[test]
fn one_write_names_every_target_in_sight_on_the_source() {
    for (sight, named) in [(Reach::Seen, "east west"), (Reach::Starting, "east"), (Reach::Lost, "east")] {
        let mut targets = Targets::new(json!({"members": 3}));
        targets.reach.insert("west", sight);
        targets.settle_within(&each(), "east", 1);
        assert_eq!(targets.shown(), format!("none; held by {named}; none"), "{sight:?}");
    }
}

/// A source leaves a target, and a create that comes late makes an object there.
fn late_in_east(targets: &mut Targets, was_let_go: bool) {
    let late = targets.east().objects.clone();
    targets.set("regions", json!(["west"]));
    targets.settle_both(&each());
    targets.east().objects = late;
    targets.east().seen.target.was_let_go = was_let_go;
}

/// Another cluster has the name of a target.
fn replace_west(targets: &mut Targets) {
    (targets.west().identity, targets.west().objects) = ("another".into(), BTreeMap::new());
}

/// Only a list that was rendered completely is evidence.
#[test]
#[rustfmt::skip]
fn a_source_of_several_targets_that_changes() {
    check_by(both, &[
        ("without a key", |targets| targets.set("regions", json!(["west"])), &each(),
            "in sync, in sync; west; held by west; Synced; members 3"),
        ("without a key, held", |targets| {
            targets.worlds.values_mut().for_each(|world| world.seen.limits.prune = Prune::none());
            targets.set("regions", json!(["west"]));
        }, &each(),
            "Held, in sync; east west; held by east west; Held; members 3 3"),
        ("without any key", |targets| targets.set("regions", json!([])), &each(),
            "in sync, in sync; none; free of none; Synced; members "),
        ("without any key, and stripped of its finalizer", |targets| { remove(targets, "finalizers"); targets.set("regions", json!([])); }, &each(),
            "in sync, in sync; none; free of none; Synced; members "),
        ("no list", |targets| targets.set("regions", json!("none")), &each(),
            "RenderFailed, RenderFailed; east west; held by east west; RenderFailed; members 3 3"),
        ("a key twice", |targets| targets.set("regions", json!(["west", "west"])), &each(),
            "RenderFailed, RenderFailed; east west; held by east west; RenderFailed; members 3 3"),
        ("an item that is no key", |targets| targets.set("regions", json!([{}])), &each(),
            "RenderFailed, RenderFailed; east west; held by east west; RenderFailed; members 3 3"),
        ("a target that is not allowed", |targets| targets.set("regions", json!(["west", "north"])), &each(),
            "Retained, in sync; east west; held by east west; RenderFailed; members 3 3"),
        ("stripped of its pins", |targets| { remove(targets, "annotations"); targets.set("members", json!(4)); }, &each(),
            "in sync, in sync; east west; held by east west; Synced; members 4 4"),
        ("and the cluster of one target was replaced", |targets| { replace_west(targets); targets.set("members", json!(4)); }, &each(),
            "in sync, TargetChanged; east; held by east west; TargetChanged; members 4"),
        ("that of one was replaced, and the source does not name it any more", |targets| {
            replace_west(targets);
            targets.set("regions", json!(["east"]));
            targets.set("members", json!(4));
        }, &each(),
            "in sync, TargetChanged; east; held by east west; TargetChanged; members 4"),
        ("the mapping gives one of them alone", |targets| targets.set("region", json!("east")), &one("Recreate"),
            "in sync, in sync; east; held by east; Synced; members 3"),
        ("the mapping gives one of them alone (Block)", |targets| targets.set("region", json!("east")), &one("Block"),
            "in sync, TargetChanged; east west; held by east west; Synced; members 3 3"),
        ("that of one was replaced, and the mapping gives the other alone", |targets| {
            replace_west(targets);
            targets.set("region", json!("east"));
        }, &one("Recreate"),
            "in sync, TargetChanged; east; held by east west; Synced; members 3"),
        ("that of one was replaced, and the source is deleted", |targets| { replace_west(targets); targets.delete(); }, &each(),
            "in sync, TargetChanged; none; held by west; TargetChanged; members "),
        ("their clusters were mixed up", |targets| {
            let east = targets.east().identity.clone();
            targets.east().identity = std::mem::replace(&mut targets.west().identity, east);
            targets.set("members", json!(4));
        }, &each(),
            "TargetChanged, TargetChanged; east west; held by east west; TargetChanged; members 3 3"),
        ("what comes late to a target that it has left goes as the rest did", |targets| late_in_east(targets, true), &each(),
            "in sync, in sync; west; held by west; Synced; members 3"),
        ("what comes late to a target where it was not let go", |targets| late_in_east(targets, false), &each(),
            "Orphaned, in sync; east west; held by west; Orphaned; members 3 3"),
        ("what comes late, and the list cannot be told", |targets| { late_in_east(targets, true); targets.set("regions", json!(["west", "north"])); }, &each(),
            "Orphaned, in sync; east west; held by west; RenderFailed; members 3 3"),
    ], Targets::ends);
}

#[test]
#[rustfmt::skip]
fn a_source_that_names_another_target() {
    fn strip(targets: &mut Targets) {
        remove(targets, "finalizers");
        targets.set("region", json!("east"));
    }
    check_by(|| in_west("Block"), &[
        ("the same (Block)", |_: &mut Targets| {}, &one("Block"),
            "in sync, in sync; west; held by west; Synced; members 3"),
        ("another one (Block)", |targets| targets.set("region", json!("east")), &one("Block"),
            "in sync, TargetChanged; west; held by west; TargetChanged; members 3"),
        ("another one, and stripped (Block)", strip, &one("Block"),
            "in sync, TargetChanged; west; held by west; TargetChanged; members 3"),
        ("another one (Recreate)", |targets| targets.set("region", json!("east")), &one("Recreate"),
            "in sync, in sync; east; held by east; Synced; members 3"),
        ("another one, and stripped (Recreate)", strip, &one("Recreate"),
            "in sync, in sync; east; held by east; Synced; members 3"),
        ("the same, whose cluster was replaced", replace_west, &one("Recreate"),
            "in sync, TargetChanged; none; held by west; TargetChanged; members "),
        ("another one, and the cluster of the former was replaced", |targets| { replace_west(targets); targets.set("region", json!("east")); }, &one("Recreate"),
            "in sync, TargetChanged; none; held by west; TargetChanged; members "),
        ("another one, stripped, and the cluster of the former was replaced", |targets| { replace_west(targets); strip(targets); }, &one("Recreate"),
            "in sync, TargetChanged; none; free of west; TargetChanged; members "),
        ("the same, whose cluster was replaced, and the source is deleted", |targets| { replace_west(targets); targets.delete(); }, &one("Recreate"),
            "in sync, TargetChanged; none; held by west; TargetChanged; members "),
    ], Targets::ends);
}

/// It is given, and is another cluster.
#[test]
fn a_target_whose_cluster_was_replaced_is_not_called_missing() {
    let mut targets = in_west("Recreate");
    replace_west(&mut targets);
    let why = targets.settle_within(&one("Recreate"), "west", usize::MAX).expect("no limit of writes");
    assert!(why.to_string().contains("(pinned west=identity-of-west, found west=another)"), "{why}");
}

/// The mapping gives it now, and the source stays where it is.
#[test]
fn what_is_kept_on_a_target_that_its_source_does_not_name_says_so() {
    let mut targets = in_west("Block");
    targets.east().objects = targets.west().objects.clone();
    targets.set("region", json!("east"));
    let why = targets.settle_within(&one("Block"), "east", usize::MAX).expect("no limit of writes");
    assert!(why.to_string().ends_with("is kept: its source does not name this target"), "{why}");
}

/// It was made for an earlier source of the name, and somebody's finalizer holds it.
#[test]
fn one_target_alone_tells_of_a_source_that_has_one() {
    for (region, west, said) in [("west", "in sync", "Synced"), ("east", "TargetChanged", "TargetChanged")] {
        let mut targets = in_west("Block");
        targets.east().objects = targets.west().objects.clone();
        targets.east().edit("Database", |object| {
            object["metadata"]["deletionTimestamp"] = json!("2027-01-15T07:59:00Z");
            object["metadata"]["finalizers"] = json!(["hold"]);
        });
        targets.set("region", json!(region));
        assert_eq!(targets.settle_both(&one("Block")), ["Deleting", west]);
        assert_eq!(targets.shown(), format!("east west; held by west; {said}"));
    }
}

#[test]
fn the_last_target_releases_the_finalizer() {
    for [first, last] in [["east", "west"], ["west", "east"]] {
        let mut targets = both();
        targets.delete();
        targets.settle(&each(), first);
        assert_eq!(targets.shown(), format!("{last}; held by {last}; Synced"), "the other one has objects");
        targets.settle(&each(), last);
        assert_eq!(targets.shown(), "none; gone");
    }
}

#[test]
fn a_crash_after_any_write_ends_in_the_same_world() {
    type Story = fn(&mut Targets);
    let stories: [Story; 4] = [
        |_| {},
        |targets| targets.set("members", json!(9)),
        |targets| targets.set("regions", json!(["west"])),
        Targets::delete,
    ];
    for (number, story) in stories.into_iter().enumerate() {
        let before = || {
            let mut targets = if number > 0 { both() } else { Targets::new(json!({"members": 3})) };
            story(&mut targets);
            targets
        };
        let mut whole = before();
        whole.settle_both(&each());
        for (first, writes) in ["east", "west"].into_iter().flat_map(|name| (0..8).map(move |writes| (name, writes))) {
            let mut targets = before();
            targets.settle_within(&each(), first, writes);
            if targets.source.is_some() {
                targets.settle_both(&each());
            }
            assert_eq!(targets.essence(), whole.essence(), "story {number}: {first}, write {writes}");
        }
    }
}

#[test]
fn a_source_whose_pins_were_removed_is_released_once_no_target_has_anything() {
    let mut targets = both();
    remove(&mut targets, "annotations");
    targets.delete();
    targets.reach.insert("west", Reach::Lost);
    targets.settle(&each(), "east");
    assert_eq!(targets.shown(), "west; held by none; Synced", "west may have objects, and cannot be seen");
    targets.reach.insert("west", Reach::Seen);
    targets.settle(&each(), "west");
    assert_eq!(targets.shown(), "none; gone");
}

#[test]
fn a_target_that_is_lost_is_named_and_one_that_starts_is_waited_for() {
    let mut targets = both();
    targets.reach.insert("west", Reach::Starting);
    targets.set("members", json!(4));
    targets.settle(&each(), "east");
    assert_eq!(targets.east().object("Database")["spec"]["members"], 4);
    assert_eq!(targets.east().writes(), ["update Database"], "a start changes no status");
    targets.reach.insert("west", Reach::Lost);
    assert_eq!(targets.settle(&each(), "east"), "in sync", "it is no trouble of this target");
    assert_eq!(targets.shown(), "east west; held by east west; Waiting");
    assert!(targets.message().contains("target `west`: its cluster cannot be reached"), "{}", targets.message());
    assert_eq!(targets.told(), ["Ready", "Unreachable"]);
}

/// A source that was restored may name fewer targets than have objects of it. What an earlier one of its name left is none of its.
#[test]
fn a_target_that_is_lost_is_named_where_it_has_objects_of_a_source_that_does_not_name_it() {
    for (uid, told) in [("source-1", "Waiting"), ("source-2", "Synced")] {
        let mut targets = both();
        targets.east().objects.clear();
        ["finalizers", "annotations"].into_iter().for_each(|field| remove(&mut targets, field));
        targets.edit(|source| source["metadata"]["uid"] = json!(uid));
        targets.set("regions", json!(["east"]));
        targets.reach.insert("west", Reach::Lost);
        targets.settle(&each(), "east");
        assert_eq!(targets.shown(), format!("east west; held by east; {told}"));
    }
}

#[test]
fn what_is_told_of_all_names_the_target_that_is_not_in_order() {
    let mut targets = Targets::new(json!({"members": 3}));
    targets.west().refuses = vec!["create Database".into()];
    for _ in 0..2 {
        targets.settle(&each(), "east");
        assert_eq!(targets.settle(&each(), "west"), "Refused");
    }
    targets.worlds.values_mut().for_each(|world| world.log.clear());
    targets.settle(&each(), "east");
    targets.settle(&each(), "west");
    let logs: Vec<String> = targets.worlds.values_mut().flat_map(World::writes).collect();
    assert_eq!(logs, ["create Database"], "neither writes the status again");
    assert_eq!(targets.shown(), "east; held by east west; Refused");
    assert!(targets.message().contains("target `west`"), "{}", targets.message());
    assert_eq!(targets.told(), ["Ready", "Refused"]);
}

/// The first target that can tells of all; the work of an edit grows with the targets, and not with their square.
#[test]
fn one_target_tells_what_the_status_says_of_all() {
    // What east is like, and whether west tells of its own trouble.
    let rows = [
        ("it is seen", Reach::Seen, false),
        ("it is lost", Reach::Lost, true),
        ("it starts, and is waited for", Reach::Starting, false),
    ];
    for (what, sight, tells) in rows {
        let mut targets = both();
        targets.reach.insert("east", sight);
        targets.west().refuses = vec!["update Database".into()];
        targets.set("members", json!(4));
        // Once that is in sight, this source is planned again.
        let waits = if sight == Reach::Starting { "Refused, Unknown" } else { "Refused" };
        assert_eq!(targets.settle(&each(), "west"), waits, "{what}");
        assert_eq!(targets.told()[1] == "Refused", tells, "{what}");
        targets.reach.insert("east", Reach::Seen);
        targets.settle(&each(), "east");
        assert_eq!(targets.told(), ["Ready", "Refused"], "{what}: east tells of both");
    }
    // What has objects of a source that is on its way out tells of that.
    let mut targets = both();
    targets.set("regions", json!(["west"]));
    targets.settle(&each(), "east");
    targets.west().refuses = vec!["update Database".into()];
    targets.set("members", json!(5));
    targets.settle(&each(), "west");
    assert_eq!(targets.told()[1], "Refused");
}

/// One target settles: its causes, and what is shown then.
fn at(name: &'static str) -> impl Fn(&mut Targets, &Mapping) -> String {
    move |targets, mapping| format!("{}; {}", targets.settle(mapping, name), targets.shown())
}

#[test]
#[rustfmt::skip]
fn a_source_leaves_a_target_that_is_there_for_one_that_can_receive_it() {
    let moves = one("Recreate");
    let to_east = || {
        let mut targets = in_west("Recreate");
        targets.set("region", json!("east"));
        targets
    };
    steps(to_east(), &[
        ("it leaves its target first, which reports", |_| {}, &moves,
            "in sync; west; held by west; Synced"),
    ], at("east"));
    steps(to_east(), &[
        ("its new target cannot be reached", |targets| { targets.reach.insert("east", Reach::Lost); }, &moves,
            "Waiting; west; held by west; Waiting"),
        ("its new target is not given", |targets| drop(targets.worlds.remove("east")), &moves,
            "Waiting; west; held by west; Waiting"),
    ], at("west"));
    steps(to_east(), &[
        ("its former target is not given any more: nothing is made elsewhere", |targets| drop(targets.worlds.remove("west")), &moves,
            "TargetChanged; none; held by west; TargetChanged"),
        ("and it is deleted: its former target may have objects", Targets::delete, &moves,
            "TargetChanged; none; held by west; TargetChanged"),
    ], at("east"));
    steps(both(), &[
        ("it has several, one is not given any more, and it is deleted", |targets| { targets.worlds.remove("west"); targets.delete(); }, &each(),
            "TargetChanged; none; held by west; TargetChanged"),
    ], at("east"));
    steps(in_west("Block"), &[
        ("it names another target, and is deleted where it is", |targets| { targets.set("region", json!("east")); targets.delete(); targets.settle(&one("Block"), "east"); }, &one("Block"),
            "in sync; none; gone"),
    ], at("west"));
}

/// Expressions call a cluster by its own name, where no other target has that.
#[test]
fn a_target_is_called_by_its_own_name_unless_another_one_has_that_too() {
    let mut targets = Targets::new(json!({"members": 3}));
    let world = targets.east();
    let selected = Arc::new(BTreeSet::from(["fleet/east", "fleet/west"].map(str::to_owned)));
    world.seen.among = Some(TargetContext { name: "east".to_owned(), selected, ..TargetContext::default() });
    let source = Arc::new(world.source.clone().expect("the source"));
    let called = keys(&fleet(), &world.observe(&fleet()), &source);
    assert_eq!(called, BTreeSet::from(["east", "fleet/east", "west"].map(str::to_owned)));
}

/// The plan for each target asks for them several times.
#[test]
fn the_targets_that_a_source_names_are_read_once_for_all_of_them() {
    let observed = both().east().observe(&each());
    let source = observed.present().expect("the source").clone();
    let named = known_pins(&observed, &source);
    assert_eq!((named.len(), &*named), (2, &pins(&World::writer(), &source)));
    assert!(Arc::ptr_eq(&named, &known_pins(&observed.clone(), &source)));
    let mut edited = observed.clone();
    let mut other = Value::clone(&source);
    other["metadata"]["annotations"] = Value::Null;
    edited.source = Ok(Source::Present(Arc::new(other)));
    let other = edited.present().expect("the source");
    assert!(known_pins(&observed, other).is_empty() && known_pins(&edited, other).is_empty());
    assert_eq!(known_pins(&observed, &source), named);
}

#[test]
fn a_cluster_that_leaves_the_selection_keeps_what_it_has() {
    let mut targets = Targets::new(json!({"members": 3}));
    let west = targets.worlds.remove("west").unwrap();
    targets.worlds.insert("fleet/west", west);
    targets.reach.insert("fleet/west", Reach::Seen);
    targets.selected = ["fleet/west".to_owned()].into();
    targets.settle(&fleet(), "east");
    assert_eq!(targets.settle(&fleet(), "fleet/west"), "in sync");
    assert_eq!(targets.shown(), "east fleet/west; held by east fleet/west; Synced");
    targets.selected.clear();
    assert_eq!(targets.settle(&fleet(), "fleet/west"), "Retained");
    assert!(targets.worlds["fleet/west"].has("Database"));
    for reach in [Reach::Seen, Reach::Lost] {
        targets.reach.insert("fleet/west", reach);
        targets.settle(&fleet(), "east");
        assert_eq!(targets.shown(), "east fleet/west; held by east fleet/west; Retained", "{reach:?}");
    }
    targets.reach.insert("fleet/west", Reach::Seen);
    targets.delete();
    targets.settle(&fleet(), "fleet/west");
    targets.settle(&fleet(), "east");
    assert!(targets.source.is_none() && targets.worlds.values().all(|world| world.objects.is_empty()));
}
