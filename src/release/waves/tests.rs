use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::mapping::{Amount, Selector};
use crate::object::hash::tuple_hash;

fn share(percent: u8) -> Wave {
    Wave { members: Members::Percent(percent), soak: Duration::ZERO, max_failing: None }
}

fn owner(number: usize) -> Owner {
    Owner(tuple_hash(["widgets", &number.to_string()], 16))
}

#[test]
fn a_share_of_the_sources_follows_from_their_names_and_grows_with_each_wave() {
    let members = |percent| -> BTreeSet<usize> {
        (0..2_000).filter(|number| belongs(&[share(percent)], &owner(*number), || None)).collect()
    };
    let (tenth, half, all) = (members(10), members(50), members(100));
    assert!((150..250).contains(&tenth.len()) && (900..1_100).contains(&half.len()) && all.len() == 2_000);
    assert!(tenth.is_subset(&half));
    // What is written into no cluster may still not change: a process of a later version goes on with the same sources.
    let first = |number| (1..=100).find(|percent| belongs(&[share(*percent)], &owner(number), || None));
    assert_eq!([first(0), first(1), first(2)], [Some(89), Some(5), Some(15)]);
}

#[test]
fn a_wave_by_labels_has_its_sources_whatever_their_names() {
    let canary = Selector { match_labels: [("tier".to_owned(), "canary".to_owned())].into(), ..Selector::default() };
    let waves = [Wave { members: Members::Labeled(canary), ..share(1) }];
    assert!((0..50).all(|number| belongs(&waves, &owner(number), || Some(json!({"tier": "canary"})))));
    assert!((0..50).all(|number| !belongs(&waves, &owner(number), || Some(json!({"tier": "gold"})))));
    assert!(!belongs(&waves, &owner(0), || None));
}

fn tally(sources: usize, broken: usize, behind: usize, out_of_sight: usize) -> Tally {
    Tally { sources, broken, behind, out_of_sight, ..Tally::default() }
}

/// What becomes of a wave at one look, and why.
#[test]
fn a_gate_passes_waits_or_fails() {
    const SOAK: Duration = Duration::from_secs(60);
    let wave = |max_failing| Wave { soak: SOAK, max_failing, ..share(10) };
    let (default, none, third) = (wave(None), wave(Some(Amount::Number(0))), wave(Some(Amount::Percent(30))));
    // The wave, how many failed before, its sources, how long ago it began, what becomes of it.
    let rows = [
        ("all are in order, and the soak is over", &none, 0, tally(10, 0, 0, 0), 60, "Passed"),
        ("the soak is not over", &none, 0, tally(10, 0, 0, 0), 59, "Waits"),
        ("one may fail by default", &default, 0, tally(10, 1, 0, 0), 60, "Passed"),
        ("but not the only one", &default, 0, tally(1, 1, 0, 0), 1, "Failed"),
        ("two of ten cannot be in order: at once", &default, 0, tally(10, 2, 0, 0), 1, "Failed"),
        ("two of ten are not there yet", &default, 0, tally(10, 0, 2, 0), 60, "Waits"),
        ("every source is planned first", &third, 0, Tally { unplanned: 1, ..tally(10, 0, 0, 0) }, 60, "Waits"),
        ("a share may fail", &third, 0, tally(10, 3, 0, 0), 60, "Passed"),
        ("those that failed before do not count", &none, 2, tally(10, 2, 0, 0), 60, "Passed"),
        ("one more than before does", &none, 2, tally(10, 3, 0, 0), 1, "Failed"),
        ("those that would fail anyway do not", &none, 0, Tally { anyway: 3, ..tally(10, 0, 0, 0) }, 60, "Passed"),
        ("and make no room for others", &none, 2, Tally { anyway: 2, ..tally(10, 1, 0, 0) }, 1, "Failed"),
        ("half of it may be out of sight", &none, 0, tally(10, 0, 0, 5), 60, "Passed"),
        ("of less, nothing is known", &none, 0, tally(10, 4, 0, 6), 1, "Waits"),
        ("a wave without sources", &none, 0, tally(0, 0, 0, 0), 60, "Passed"),
    ];
    let underway = Underway { out_of_sight: 9, ..Underway::default() };
    let hidden = Gate::default().look(&none, SOAK, &underway, &tally(10, 0, 0, 9), SOAK);
    assert_eq!(hidden, Verdict::Passed, "they were out of sight before");
    for (what, wave, failing, now, after, expected) in rows {
        let underway = Underway { failing, ..Underway::default() };
        let verdict = Gate::default().look(wave, SOAK * 100, &underway, &now, Duration::from_secs(after));
        assert!(format!("{verdict:?}").starts_with(expected), "{what}: {verdict:?}");
    }
}

#[test]
fn a_wave_fails_once_it_has_stood_still_for_the_deadline() {
    let (wave, deadline) = (share(100), Duration::from_secs(10));
    let mut gate = Gate::default();
    let mut look = |behind, seconds| {
        let now = tally(100, 0, behind, 0);
        gate.look(&wave, deadline, &Underway::default(), &now, Duration::from_secs(seconds))
    };
    assert!(matches!(look(90, 9), Verdict::Waits(_)));
    assert!(matches!(look(90, 9), Verdict::Waits(_)));
    assert!(matches!(look(80, 9), Verdict::Waits(_)), "fewer: it counts anew");
    assert!(matches!(look(85, 9), Verdict::Waits(_)), "more is no progress");
    let Verdict::Failed(why) = look(80, 1) else { panic!("it stands still") };
    assert_eq!(
        why,
        "of 100 sources 0 cannot be in order and 80 are not yet, `maxFailing` allows 1, and it has not become fewer for 10 s"
    );
    assert_eq!(look(1, 1), Verdict::Passed, "they came after all");
}

/// Another process repeats a tenth of the soak at most.
#[test]
fn a_soak_goes_on_where_it_was() {
    let wave = Wave { soak: Duration::from_secs(60), ..share(10) };
    let underway = Underway { passed: 54, ..Underway::default() };
    let mut gate = Gate::of(&underway);
    let now = tally(10, 0, 0, 0);
    assert_eq!(
        gate.look(&wave, wave.soak, &underway, &now, Duration::from_secs(5)),
        Verdict::Waits("its soak ends in 1 s".into())
    );
    assert_eq!(gate.look(&wave, wave.soak, &underway, &now, Duration::from_secs(1)), Verdict::Passed);
}
