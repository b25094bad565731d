use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use json_patch::Patch;
use serde_json::json;

use super::*;
use crate::mapping::{Amount, Kind, MaxLost, Propagation};
use crate::plan::SourcePatch;

fn key(name: &str) -> Key {
    Key::new(ClusterName::try_from("c").unwrap(), "ns", name)
}

fn reference(name: &str) -> Reference {
    Reference { kind: Kind::new("", "v1", "ConfigMap"), namespace: "ns".into(), name: name.into() }
}

fn apply(intent: Intent) -> Action {
    Action::Apply { reference: reference("a"), body: Arc::new(json!({})), intent }
}

fn delete(name: &str, because: Evidence) -> Action {
    Action::Delete {
        reference: reference(name),
        uid: "u".into(),
        resource_version: "1".into(),
        propagation: Propagation::Background,
        because,
    }
}

const IN_SYNC: Option<Reasons> = Some(Reasons(Vec::new()));

fn rests(cause: Cause) -> Option<Reasons> {
    Some(Reasons::one(cause, "why"))
}

fn effect(now: Now, writes: Vec<Action>, rest: Option<Reasons>) -> Effect {
    Effect::of(now, &Followed { writes, rest }, &[])
}

/// Each way in which a plan ends, for a source that is in sync now.
#[test]
fn what_cannot_be_in_sync_fails_and_what_nobody_knows_is_not_told() {
    let create = || vec![apply(Intent::Create)];
    let update = || vec![apply(Intent::Update { uid: "u".into() })];
    // What is written, how it ends, whether it fails, whether it is not told.
    let rows = [
        ("in sync", update(), IN_SYNC, false, false),
        ("cannot be rendered", vec![], rests(Cause::RenderFailed), true, false),
        ("would have another name", vec![], rests(Cause::IdentityChanged), true, false),
        ("is on another target", vec![], rests(Cause::TargetChanged), true, false),
        ("lacks a claim", vec![], rests(Cause::ClaimNotAccepted), true, false),
        ("waits for what nobody makes", update(), rests(Cause::Waiting), true, false),
        ("waits, and something is made", create(), rests(Cause::Waiting), false, true),
        ("fails, and something is made", create(), rests(Cause::RenderFailed), true, false),
        ("a target is out of sight", vec![], rests(Cause::Unknown), false, true),
        ("does not come to rest", update(), None, false, true),
        ("leaves the filter, and keeps its objects", vec![], rests(Cause::Retained), true, false),
        ("leaves the filter", vec![delete("a", Evidence::Exit)], IN_SYNC, true, false),
        ("loses an object", vec![delete("a", Evidence::RuleGone)], IN_SYNC, false, false),
    ];
    for (case, writes, rest, fails, is_not_told) in rows {
        let found = effect(Now::InSync, writes.clone(), rest.clone());
        assert_eq!((found.failing.is_some(), found.not_told.is_some()), (fails, is_not_told), "{case}: {found:?}");
        for now in [Now::Troubled, Now::NotServed] {
            assert_eq!(effect(now, writes.clone(), rest.clone()).failing, None, "{case}: {now:?} cannot newly fail");
        }
    }
}

/// What happens to a source whichever document is in force is no reason to hold one: its consumer takes an object away, or the kind
/// of its objects is gone.
#[test]
fn a_candidate_is_not_to_blame_for_what_the_documents_before_come_to_as_well() {
    let plan = |deleted: &[&str], rest| Followed {
        writes: deleted.iter().map(|name| delete(name, Evidence::RuleGone)).collect(),
        rest,
    };
    let waits = || rests(Cause::Waiting);
    let candidate = plan(&["a", "b"], waits());
    // The documents before, whether it fails, and how many objects it loses.
    let rows = [
        ("nothing is known of them", vec![], true, 2),
        ("all do the same", vec![plan(&["a", "b"], waits()), plan(&["b", "a"], rests(Cause::Conflict))], false, 0),
        ("one loses less", vec![plan(&["a"], waits()), plan(&["a", "b"], waits())], false, 1),
        ("one keeps it in sync", vec![plan(&["a"], waits()), plan(&["b"], IN_SYNC)], true, 2),
        ("one does not see its target", vec![plan(&[], rests(Cause::Unknown))], true, 2),
    ];
    for (case, before, fails, lost) in rows {
        let found = Effect::of(Now::InSync, &candidate, &before);
        assert_eq!((found.failing.is_some(), found.lost.len()), (fails, lost), "{case}: {found:?}");
    }
}

/// A consumer takes away an object whose kind the edit has in another version.
#[test]
fn documents_that_have_a_kind_in_two_versions_lose_the_same_object() {
    let plan = |version: &str, name: &str| {
        let mut writes = vec![delete(name, Evidence::Unwanted)];
        if let Action::Delete { reference, .. } = &mut writes[0] {
            reference.kind = Kind::new("example.dev", version, "Widget");
        }
        Followed { writes, rest: IN_SYNC }
    };
    let lost = |plans: &[Followed]| lost_by_all(plans, Followed::lost_objects, Reference::order_in_any_version).len();
    assert_eq!(lost(&[plan("v1", "a"), plan("v2", "a")]), 1);
    assert_eq!(lost(&[plan("v1", "a"), plan("v2", "b")]), 0);
}

/// A source may have thousands of objects, and each of them is lost with a rule that is removed.
#[test]
fn losses_are_not_each_compared_with_all_others() {
    let (names, compared): (Vec<String>, _) = ((0..1_000).map(|name| name.to_string()).collect(), Cell::new(0));
    let writes: Vec<Action> = names.iter().map(|name| delete(name, Evidence::RuleGone)).collect();
    let plan = Followed { writes, rest: IN_SYNC };
    let order = |one: &Reference, other: &Reference| {
        compared.set(compared.get() + 1);
        one.order_in_any_version(other)
    };
    assert_eq!(lost_by_all(&[plan.clone(), plan], Followed::lost_objects, order).len(), 1_000);
    assert!(compared.get() < 30_000, "{}", compared.get());
}

/// Whatever it follows from: a copy that follows its original only by recreation is lost, if the document before kept it.
#[test]
fn what_is_deleted_given_up_and_released_is_lost() {
    for because in [Evidence::FollowsOriginal, Evidence::SourceDeleted, Evidence::LastUser, Evidence::Exit] {
        assert_eq!(Loss::of(&delete("a", because)), Some(Loss::Deleted(reference("a").to_string())), "{because}");
    }
    let give_up = Action::GiveUp { reference: reference("b"), patch: Patch::default(), because: Evidence::Exit };
    let patch = |purpose| Action::PatchSource { purpose, patch: Patch::default() };
    let writes = vec![
        delete("a", Evidence::RuleGone),
        give_up,
        patch(SourcePatch::AddFinalizer),
        patch(SourcePatch::ReleaseFinalizer(Evidence::Exit)),
        apply(Intent::Create),
    ];
    let lost = Followed { writes, rest: None }.losses();
    let texts: BTreeSet<String> = lost.iter().map(ToString::to_string).collect();
    let expected = ["ConfigMap ns/a is deleted", "ConfigMap ns/b is given up", "its finalizer is released"];
    assert_eq!(texts, expected.map(str::to_owned).into());
}

fn rehearsal(failing: usize, well: usize) -> Rehearsal {
    let mut all = Rehearsal { seen: ["shard".to_owned()].into(), ..Rehearsal::default() };
    let failed = || effect(Now::InSync, vec![], rests(Cause::RenderFailed));
    (0..failing).for_each(|number| all.add("east", key(&format!("bad-{number}")), failed()));
    let updated = || effect(Now::InSync, vec![apply(Intent::Update { uid: "u".into() })], IN_SYNC);
    (0..well).for_each(|number| all.add("east", key(&format!("good-{number}")), updated()));
    all
}

/// So many objects of the mapping's are lost on a target.
fn losing(target: &str, lost: usize, objects: usize) -> Rehearsal {
    let mut all = Rehearsal { objects, ..rehearsal(0, 1) };
    for number in 0..lost {
        let writes = vec![delete(&format!("a-{number}"), Evidence::RuleGone)];
        all.add(target, key(&format!("source-{number}")), effect(Now::InSync, writes, IN_SYNC));
    }
    all
}

#[test]
fn more_failing_than_the_limits_allow_hold_a_candidate() {
    let excess = |all: &Rehearsal, max_failing| all.excess(&Release { max_failing, ..Release::default() });
    assert_eq!(excess(&rehearsal(0, 9), Amount::default()), None);
    assert!(excess(&rehearsal(1, 9), Amount::default()).is_some());
    assert_eq!(excess(&rehearsal(1, 9), Amount::Percent(10)), None, "one of ten");
    assert!(excess(&rehearsal(2, 8), Amount::Percent(10)).is_some());
    let why = excess(&rehearsal(7, 3), Amount::Percent(10)).expect("a reason");
    let expected = "7 sources that are in sync would not be, and `release.maxFailing` allows 10%; first c|ns/bad-0: RenderFailed: why; ";
    assert!(why.starts_with(expected) && !why.contains("bad-5"), "{why}");
    let paths = BTreeMap::from([(key("a").cluster.clone(), "root:acme".to_owned())]);
    let why = excess(&Rehearsal { paths, ..rehearsal(1, 0) }, Amount::default()).expect("a reason");
    let expected =
        "1 source that is in sync would not be, and `release.maxFailing` allows 0; first root:acme|ns/bad-0: ";
    assert!(why.starts_with(expected), "{why}");
}

#[test]
fn more_lost_than_the_limits_allow_hold_a_candidate() {
    let excess = |all: &Rehearsal| all.excess(&Release::default());
    assert_eq!(excess(&losing("east", 10, 50)), None, "a fifth of them");
    assert!(excess(&losing("east", 10, 49)).is_some(), "more than a fifth");
    let mut elsewhere = losing("east", 10, 50);
    elsewhere.takes_all("west", 1);
    assert!(excess(&elsewhere).is_some(), "of all targets together");
    let why = excess(&losing("east", 11, 1000)).expect("a reason");
    let expected = "11 of 1000 objects would be lost, and `release.maxLost` allows 10 and 20%; first c|ns/source-0: ConfigMap \
                    ns/a-0 is deleted; ";
    assert!(why.starts_with(expected), "{why}");
}

#[test]
fn too_little_in_sight_holds_a_candidate() {
    let names = |count: usize, what: &str| (0..count).map(|number| format!("{what}-{number}")).collect();
    let unseen = |seen: usize, unseen: usize| Rehearsal {
        seen: names(seen, "seen"),
        unseen: names(unseen, "shard"),
        ..rehearsal(0, 1)
    };
    let excess = |all: &Rehearsal| all.excess(&Release::default());
    assert_eq!(excess(&unseen(4, 1)), None);
    assert_eq!(excess(&unseen(3, 1)), Some("1 of 4 clusters of its sources is out of sight: shard-0".to_owned()));
    // A rehearsal looks at them once for each target.
    let mut several = unseen(3, 1);
    several.seen.extend(unseen(3, 1).seen);
    assert!(excess(&several).is_some());
    // Their clusters are in sight, and their target is not.
    let lost = |now, hidden: usize| {
        let mut all = rehearsal(0, 4);
        (0..hidden)
            .for_each(|at| all.add("east", key(&format!("lost-{at}")), effect(now, vec![], rests(Cause::Unknown))));
        all
    };
    assert_eq!(excess(&lost(Now::InSync, 1)), None);
    assert_eq!(excess(&lost(Now::Troubled, 2)), Some("2 of 6 sources are out of sight (Unknown: why)".to_owned()));
    assert_eq!(excess(&lost(Now::NotServed, 2)), None, "nobody has taken them in");
    // What is on another target says nothing of what is on the lost one.
    let mut several = lost(Now::InSync, 2);
    (0..2).for_each(|at| several.add("west", key(&format!("lost-{at}")), effect(Now::NotServed, vec![], IN_SYNC)));
    assert!(excess(&several).is_some());
}

#[test]
fn an_approval_covers_what_was_shown_and_what_the_limits_allow_besides() {
    let nothing = Release { max_lost: MaxLost { objects: 0, percent: 100 }, ..Release::default() };
    let held = |all: Rehearsal| all.held("a".to_owned(), &nothing);
    let approved = held(losing("east", 3, 9));
    assert!(approved.is_within(&approved));
    assert!(held(losing("east", 2, 9)).is_within(&approved), "less is held now");
    assert!(!held(losing("east", 4, 9)).is_within(&approved), "more on this target");
    assert!(!held(losing("west", 1, 9)).is_within(&approved), "another target");
    assert!(!losing("east", 3, 9).held("b".to_owned(), &nothing).is_within(&approved), "another document");
    let failing = held(rehearsal(2, 1));
    assert!(held(rehearsal(1, 2)).is_within(&failing) && !held(rehearsal(3, 1)).is_within(&failing));
    let away = |names: &[&str]| {
        let unseen = names.iter().map(|name| (*name).to_owned()).collect();
        held(Rehearsal { unseen, ..rehearsal(0, 1) })
    };
    assert!(away(&["a"]).is_within(&away(&["a", "b"])) && !away(&["c"]).is_within(&away(&["a", "b"])));
    // Consumers go on creating objects while a person reads.
    let some = Release { max_failing: Amount::Number(1), ..Release::default() };
    let grown = |lost| losing("east", lost, 100).held("a".to_owned(), &some).is_within(&held(losing("east", 50, 90)));
    assert!(grown(60) && !grown(61), "10 by default");
    assert!(rehearsal(3, 1).held("a".to_owned(), &some).is_within(&failing));
    assert!(!rehearsal(4, 1).held("a".to_owned(), &some).is_within(&failing));
    let mut elsewhere = losing("east", 55, 100);
    elsewhere.takes_all("west", 6);
    assert!(!elsewhere.held("a".to_owned(), &some).is_within(&held(losing("east", 50, 90))), "of all targets together");
}

/// A source has the effects of all its targets, and counts once.
#[test]
fn the_acknowledgement_counts_each_source_once() {
    let mut all = rehearsal(1, 2);
    let lost = effect(Now::InSync, vec![delete("a", Evidence::RuleGone)], rests(Cause::Unknown));
    all.add("west", key("good-0"), lost);
    let created = vec![apply(Intent::Create), apply(Intent::Create)];
    all.add("east", key("new"), effect(Now::NotServed, created, IN_SYNC));
    all.unseen.insert("shard".into());
    let expected = "1 newly failing, 2 updated, 1 newly taken in, 2 objects created, 1 lost; rehearsed on 3 of 4 sources, 1 \
                    cluster is out of sight; servers were not asked";
    assert_eq!(all.to_string(), expected);
}
