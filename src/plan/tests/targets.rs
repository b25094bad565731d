//! Several targets of one mapping: each plans for itself, and they agree by the annotation on the source.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::world::World;
use super::{cause, mapping, reasons, source};
use crate::mapping::Mapping;
use crate::object::marks;
use crate::plan::targets::{Among, Other, Sight};
use crate::plan::{Cause, Prune, Rest};

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
    sight: BTreeMap<&'static str, Sight>,
    selected: BTreeSet<String>,
    unsettled: BTreeMap<&'static str, (Cause, String)>,
}

impl Targets {
    fn new(spec: Value) -> Self {
        let mut source = source();
        source["spec"] = spec;
        let world = |name: &'static str| {
            let mut world = World::new(source.clone());
            world.identity = format!("identity-of-{name}");
            (name, world)
        };
        Self {
            worlds: ["east", "west"].map(world).into(),
            source: Some(source),
            sight: [("east", Sight::Seen), ("west", Sight::Seen)].into(),
            selected: BTreeSet::new(),
            unsettled: BTreeMap::new(),
        }
    }

    /// One target plans and acts until its plan rests, or it has written so often.
    fn settle_within(&mut self, mapping: &Mapping, name: &'static str, writes: usize) -> Option<Rest> {
        let others = self.worlds.iter().filter(|(other, _)| **other != name).map(|(other, world)| {
            let seen = world.observe(mapping);
            let other_target = Other {
                sight: self.sight[other],
                identity: Some(world.identity.clone()),
                url: None,
                objects: seen.owned,
                unsettled: self.unsettled.get(other).cloned(),
            };
            ((*other).to_owned(), other_target)
        });
        let among = Among { name: name.to_owned(), selected: self.selected.clone(), others: others.collect() };
        let world = self.worlds.get_mut(name).expect("a target");
        world.source.clone_from(&self.source);
        world.among = Some(among);
        let rest = world.settle_within(mapping, writes);
        self.source.clone_from(&world.source);
        match rest.as_ref().filter(|rest| **rest != Rest::InSync).and_then(|rest| reasons(rest).of_target()) {
            Some(of_target) => drop(self.unsettled.insert(name, of_target)),
            None => drop(self.unsettled.remove(name)),
        }
        rest
    }

    fn settle(&mut self, mapping: &Mapping, name: &'static str) -> Rest {
        self.settle_within(mapping, name, usize::MAX).expect("no limit of writes")
    }

    /// Both, until neither writes any more.
    fn settle_both(&mut self, mapping: &Mapping) -> [Rest; 2] {
        for _ in 0..10 {
            let rests = ["east", "west"].map(|name| self.settle(mapping, name));
            let logs: usize = self.worlds.values_mut().map(|world| world.take_log().len()).sum();
            if logs == 0 {
                return rests;
            }
        }
        panic!("the targets write for ever");
    }

    fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        let world = self.worlds.get_mut("east").expect("a target");
        world.source.clone_from(&self.source);
        world.edit_source(change);
        self.source.clone_from(&world.source);
    }

    fn delete(&mut self) {
        let world = self.worlds.get_mut("east").expect("a target");
        world.source.clone_from(&self.source);
        world.delete_source();
        self.source.clone_from(&world.source);
    }

    fn has(&self) -> [bool; 2] {
        let has = |name: &str| self.worlds[name].objects.keys().any(|reference| reference.kind.kind == "Database");
        [has("east"), has("west")]
    }

    fn pins(&self) -> &str {
        let source = self.source.as_ref().expect("the source");
        marks::annotation(source, World::writer().target_annotation()).unwrap_or_default()
    }

    fn holds_finalizer(&self) -> bool {
        let source = self.source.as_ref().expect("the source");
        crate::object::has_finalizer(source, World::writer().finalizer())
    }

    fn status(&self) -> &Value {
        &self.source.as_ref().expect("the source")["status"]
    }

    fn condition(&self) -> &Value {
        &self.status()["conditions"][0]
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

#[test]
fn each_item_of_a_list_is_a_target() {
    let mut targets = Targets::new(json!({"members": 3}));
    assert_eq!(targets.settle_both(&each()), [Rest::InSync, Rest::InSync]);
    assert_eq!(targets.has(), [true, true]);
    assert_eq!(targets.pins(), "east=identity-of-east,west=identity-of-west");
    assert_eq!(targets.worlds["west"].object("Database")["spec"]["on"], "west");
    assert_eq!((&targets.status()["east"], &targets.status()["west"]), (&json!("Ready"), &json!("Ready")));
}

#[test]
fn a_key_that_is_gone_takes_its_objects_along_and_the_finalizer_stays() {
    let mut targets = Targets::new(json!({"members": 3}));
    targets.settle_both(&each());
    targets.edit(|source| source["spec"]["regions"] = json!(["west"]));
    for world in targets.worlds.values_mut() {
        world.prune = Prune::Held;
    }
    assert_eq!(cause(&targets.settle_both(&each())[0]), Some(Cause::Held), "pruneGuard limits it");
    assert_eq!(targets.has(), [true, true]);
    for world in targets.worlds.values_mut() {
        world.prune = Prune::Allowed;
    }
    assert_eq!(targets.settle_both(&each()), [Rest::InSync, Rest::InSync]);
    assert_eq!((targets.has(), targets.pins()), ([false, true], "west=identity-of-west"));
    assert!(targets.holds_finalizer());
    targets.edit(|source| source["spec"]["regions"] = json!([]));
    targets.settle_both(&each());
    assert_eq!((targets.has(), targets.holds_finalizer()), ([false, false], false));
}

#[test]
fn a_list_that_is_not_rendered_completely_deletes_nothing() {
    let mut targets = Targets::new(json!({"members": 3}));
    targets.settle_both(&each());
    for regions in [json!(["west", "north"]), json!("none"), json!(["west", "west"]), json!([{}])] {
        targets.edit(|source| source["spec"]["regions"] = regions.clone());
        targets.settle_both(&each());
        assert_eq!((targets.has(), targets.holds_finalizer()), ([true, true], true), "{regions}");
    }
    targets.edit(|source| source["spec"]["regions"] = json!(["west", "north"]));
    targets.settle_both(&each());
    assert_eq!(targets.condition()["reason"], "RenderFailed");
}

#[test]
fn the_last_target_releases_the_finalizer() {
    for order in [["east", "west"], ["west", "east"]] {
        let mut targets = Targets::new(json!({"members": 3}));
        targets.settle_both(&each());
        targets.delete();
        targets.settle(&each(), order[0]);
        assert!(targets.holds_finalizer(), "the other one has objects");
        targets.settle(&each(), order[1]);
        assert_eq!((targets.has(), &targets.source), ([false, false], &None));
    }
}

#[test]
fn a_crash_after_any_write_ends_in_the_same_world() {
    type Story = fn(&mut Targets);
    let stories: [Story; 4] = [
        |_| {},
        |targets| targets.edit(|source| source["spec"]["members"] = json!(9)),
        |targets| targets.edit(|source| source["spec"]["regions"] = json!(["west"])),
        Targets::delete,
    ];
    for (number, story) in stories.into_iter().enumerate() {
        let before = || {
            let mut targets = Targets::new(json!({"members": 3}));
            if number > 0 {
                targets.settle_both(&each());
            }
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
    let mut targets = Targets::new(json!({"members": 3}));
    targets.settle_both(&each());
    targets.edit(|source| drop(source["metadata"].as_object_mut().unwrap().remove("annotations")));
    targets.delete();
    targets.sight.insert("west", Sight::Lost);
    targets.settle(&each(), "east");
    assert_eq!(targets.has(), [false, true]);
    assert!(targets.holds_finalizer(), "west may have objects, and cannot be seen");
    targets.sight.insert("west", Sight::Seen);
    targets.settle(&each(), "west");
    assert_eq!((targets.has(), &targets.source), ([false, false], &None));
}

#[test]
fn a_source_that_lives_is_pinned_again() {
    let mut targets = Targets::new(json!({"members": 3}));
    targets.settle_both(&each());
    let pins = targets.pins().to_owned();
    targets.edit(|source| drop(source["metadata"].as_object_mut().unwrap().remove("annotations")));
    targets.edit(|source| source["spec"]["members"] = json!(4));
    targets.settle_both(&each());
    assert_eq!(targets.pins(), pins);
    assert_eq!(targets.worlds["east"].object("Database")["spec"]["members"], 4);
}

#[test]
fn a_target_that_is_lost_is_named_and_one_that_starts_is_waited_for() {
    let mut targets = Targets::new(json!({"members": 3}));
    targets.settle_both(&each());
    targets.sight.insert("west", Sight::Starting);
    targets.edit(|source| source["spec"]["members"] = json!(4));
    targets.settle(&each(), "east");
    assert_eq!(targets.worlds["east"].object("Database")["spec"]["members"], 4);
    assert_eq!(targets.worlds.get_mut("east").unwrap().take_log().last().unwrap().split(' ').next(), Some("update"));
    assert_eq!(targets.condition()["status"], "True", "a start changes no status");
    targets.sight.insert("west", Sight::Lost);
    assert_eq!(targets.settle(&each(), "east"), Rest::InSync, "it is no trouble of this target");
    assert_eq!(targets.condition()["reason"], "Waiting");
    assert!(targets.condition()["message"].as_str().unwrap().contains("target `west`: its cluster cannot be reached"));
    assert_eq!((&targets.status()["east"], &targets.status()["west"]), (&json!("Ready"), &json!("Unreachable")));
}

#[test]
fn every_target_says_the_same_of_all() {
    let mut targets = Targets::new(json!({"members": 3}));
    targets.worlds.get_mut("west").unwrap().refuses = vec!["create Database".into()];
    for _ in 0..2 {
        targets.settle(&each(), "east");
        assert_eq!(cause(&targets.settle(&each(), "west")), Some(Cause::Refused));
    }
    targets.worlds.values_mut().for_each(|world| drop(world.take_log()));
    targets.settle(&each(), "east");
    targets.settle(&each(), "west");
    let logs: Vec<String> = targets.worlds.values_mut().flat_map(World::take_log).collect();
    assert!(logs.iter().all(|line| line.starts_with("create Database")), "neither writes the status again: {logs:?}");
    assert_eq!(targets.condition()["reason"], "Refused");
    assert!(targets.condition()["message"].as_str().unwrap().contains("target `west`"));
    assert_eq!((&targets.status()["east"], &targets.status()["west"]), (&json!("Ready"), &json!("Refused")));
}

#[test]
fn a_source_stays_on_its_target() {
    let mut targets = Targets::new(json!({"region": "west", "members": 3}));
    targets.settle_both(&one("Block"));
    assert_eq!((targets.has(), targets.pins()), ([false, true], "west=identity-of-west"));
    targets.edit(|source| source["spec"]["region"] = json!("east"));
    let [_, west] = targets.settle_both(&one("Block"));
    assert_eq!((targets.has(), cause(&west)), ([false, true], Some(Cause::TargetChanged)));
    assert_eq!(targets.condition()["reason"], "TargetChanged");
    targets.delete();
    targets.settle_both_of_deleted(&one("Block"));
    assert_eq!((targets.has(), &targets.source), ([false, false], &None));
}

impl Targets {
    fn settle_both_of_deleted(&mut self, mapping: &Mapping) {
        for name in ["east", "west"] {
            if self.source.is_some() {
                self.settle(mapping, name);
            }
        }
    }
}

#[test]
fn a_source_that_may_move_leaves_its_target_first() {
    let mut targets = Targets::new(json!({"region": "west", "members": 3}));
    targets.settle_both(&one("Recreate"));
    targets.edit(|source| source["spec"]["region"] = json!("east"));
    let east = targets.settle(&one("Recreate"), "east");
    assert_eq!((targets.has(), cause(&east)), ([false, true], None), "the former target reports");
    targets.settle_both(&one("Recreate"));
    assert_eq!((targets.has(), targets.pins()), ([true, false], "east=identity-of-east"));
    assert_eq!(targets.condition()["status"], "True");
}

#[test]
fn a_source_does_not_leave_for_a_target_that_cannot_receive_it() {
    let mut targets = Targets::new(json!({"region": "west", "members": 3}));
    targets.settle_both(&one("Recreate"));
    targets.edit(|source| source["spec"]["region"] = json!("east"));
    targets.sight.insert("east", Sight::Lost);
    let west = targets.settle(&one("Recreate"), "west");
    assert_eq!((targets.has(), cause(&west)), ([false, true], Some(Cause::Waiting)), "it cannot be reached");
    targets.worlds.remove("east");
    let west = targets.settle(&one("Recreate"), "west");
    assert!(!targets.worlds["west"].objects.is_empty(), "it is not given");
    assert_eq!(cause(&west), Some(Cause::Waiting));
}

#[test]
fn a_source_that_is_stripped_and_edited_at_once_leaves_its_target_all_the_same() {
    let strip = |source: &mut Value| drop(source["metadata"].as_object_mut().unwrap().remove("finalizers"));
    let mut targets = Targets::new(json!({"region": "west", "members": 3}));
    targets.settle_both(&one("Recreate"));
    targets.edit(strip);
    targets.edit(|source| source["spec"]["region"] = json!("east"));
    targets.settle_both(&one("Recreate"));
    assert_eq!((targets.has(), targets.pins()), ([true, false], "east=identity-of-east"));
    assert!(targets.holds_finalizer());

    targets.edit(strip);
    targets.edit(|source| source["spec"]["region"] = json!("west"));
    targets.settle_both(&one("Block"));
    assert_eq!((targets.has(), targets.holds_finalizer()), ([true, false], true));
    assert_eq!(targets.condition()["reason"], "TargetChanged");

    let mut targets = Targets::new(json!({"members": 3}));
    targets.settle_both(&each());
    targets.edit(strip);
    targets.edit(|source| source["spec"]["regions"] = json!([]));
    targets.settle_both(&each());
    assert_eq!((targets.has(), targets.holds_finalizer()), ([false, false], false));
}

#[test]
fn a_former_target_that_is_not_given_any_more_keeps_what_it_has() {
    let mut targets = Targets::new(json!({"region": "west", "members": 3}));
    targets.settle_both(&one("Recreate"));
    targets.edit(|source| source["spec"]["region"] = json!("east"));
    targets.worlds.remove("west");
    let east = targets.settle(&one("Recreate"), "east");
    assert_eq!(cause(&east), Some(Cause::TargetChanged));
    assert!(targets.worlds["east"].objects.is_empty(), "nothing is made elsewhere");
    targets.delete();
    let east = targets.settle(&one("Recreate"), "east");
    assert_eq!((targets.holds_finalizer(), cause(&east)), (true, Some(Cause::TargetChanged)), "west may have objects");
}

#[test]
fn a_source_of_several_that_is_deleted_says_which_target_is_not_given_any_more() {
    let mut targets = Targets::new(json!({"members": 3}));
    targets.settle_both(&each());
    targets.worlds.remove("west");
    targets.delete();
    let east = targets.settle(&each(), "east");
    assert!(targets.worlds["east"].objects.keys().all(|one| one.kind.kind != "Database"));
    assert_eq!((targets.pins(), cause(&east)), ("west=identity-of-west", Some(Cause::TargetChanged)));
    assert_eq!(targets.condition()["reason"], "TargetChanged");
}

#[test]
fn a_cluster_that_leaves_the_selection_keeps_what_it_has() {
    let mut targets = Targets::new(json!({"members": 3}));
    let west = targets.worlds.remove("west").unwrap();
    targets.worlds.insert("fleet/west", west);
    targets.sight.insert("fleet/west", Sight::Seen);
    targets.selected = ["fleet/west".to_owned()].into();
    targets.settle(&fleet(), "east");
    assert_eq!(targets.settle(&fleet(), "fleet/west"), Rest::InSync);
    assert_eq!(targets.pins(), "east=identity-of-east,fleet/west=identity-of-west");
    targets.selected.clear();
    let west = targets.settle(&fleet(), "fleet/west");
    assert_eq!(cause(&west), Some(Cause::Retained));
    assert!(!targets.worlds["fleet/west"].objects.is_empty());
    targets.delete();
    for name in ["fleet/west", "east"] {
        targets.settle(&fleet(), name);
    }
    assert!(targets.source.is_none() && targets.worlds.values().all(|world| world.objects.is_empty()));
}

#[test]
fn a_cluster_that_was_replaced_is_written_to_no_more_and_holds_up_no_other_target() {
    let mut targets = Targets::new(json!({"members": 3}));
    targets.settle_both(&each());
    targets.worlds.get_mut("west").unwrap().identity = "another".into();
    targets.worlds.get_mut("west").unwrap().objects.clear();
    targets.edit(|source| source["spec"]["members"] = json!(4));
    let [east, west] = targets.settle_both(&each());
    assert_eq!((east, cause(&west)), (Rest::InSync, Some(Cause::TargetChanged)));
    assert_eq!(targets.has(), [true, false]);
    assert_eq!(targets.worlds["east"].object("Database")["spec"]["members"], 4);
    assert_eq!(targets.condition()["reason"], "TargetChanged");
}
