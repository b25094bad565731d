//! Worlds that are in order in the end, and in which a process once kept what it did not need, or forgot what it did.

use super::super::action::Forever;
use super::*;

#[test]
fn a_held_deletion_waits_until_its_target_is_seen() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Away(Side::Target)),
        (1_000, Action::Edit(Edit::MaxLost(0))),
        (1_000, Action::Edit(Edit::Toggle("ca"))),
        (120_000, Action::Back(Side::Target)),
    ];
    holds(&world(Kcp, &steps), 8);
}

/// What a release may still take away is counted at home. Put back to a moment before, home is told anew.
#[test]
fn a_release_that_home_has_forgotten_is_recorded_anew() {
    let steps = [
        (0, Action::Create(X)),
        (30_000, Action::BackUp(Side::Target)),
        (10_000, Action::Edit(Edit::Name("-2"))),
        (20_000, Action::Restore(Side::Target, Ahead::Silent)),
    ];
    holds(&world(Plain, &steps), 8);
}

#[test]
fn a_process_that_starts_makes_no_second_object_of_another_kind() {
    let steps = [(0, Action::Create(X)), (5_000, Action::Edit(Edit::Kind("Secret")))];
    holds(&world(Plain, &steps), 16);
}

#[test]
fn a_mapping_that_is_renamed_before_it_was_recorded_is_forgotten() {
    let steps = [(0, Action::Create(X)), (1, Action::Edit(Edit::Rename("n")))];
    holds(&world(Kcp, &steps), 8);
}

#[test]
fn a_former_source_out_of_sight_keeps_nothing_of_the_cluster_in_its_place() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Rebuild(Side::Source, Ahead::Expired)),
        (5_000, Action::Create(X_CA)),
        (5_000, Action::Delete(X_CA)),
    ];
    holds(&world(Plain, &steps), 4);
}

#[test]
fn a_source_of_a_former_resource_leaves_no_entry() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Away(Side::Target)),
        (1_000, Action::Change(X)),
        (1_000, Action::Edit(Edit::Resource("gadgets"))),
        (60_000, Action::Back(Side::Target)),
    ];
    holds(&world(Kcp, &steps), 4);
}

#[test]
fn a_source_whose_kind_is_missing_for_ever_says_so() {
    let steps = [(0, Action::NoWidgets), (0, Action::Edit(Edit::Toggle("widget"))), (0, Action::Create(X))];
    holds(&Plan { forever: Some(Forever::NoWidgets), ..world(Kcp, &steps) }, 2);
}

/// As where a first document has a typo: nothing was made of a kind that was never served and has no definition.
#[test]
fn a_kind_that_was_never_served_holds_up_no_deletion_and_goes_with_the_last_document_that_names_it() {
    let runs = |last| {
        let steps = [
            (0, Action::NoWidgets),
            (0, Action::Edit(Edit::OnMappingRemoved("Delete"))),
            (0, Action::Edit(Edit::Toggle("widget"))),
            (0, Action::Create(X)),
            (20_000, last),
        ];
        held(&Plan { forever: Some(Forever::NoWidgets), ..world(Kcp, &steps) }, 2)
    };
    let has = |run: &Run, what: &str| run.trace.iter().any(|line| line.contains(what));
    assert!(runs(Action::Delete(X)).iter().all(|run| has(run, " get customresourcedefinitions ")));
    assert!(runs(Action::Edit(Edit::Toggle("widget"))).iter().all(|run| has(run, " get customresourcedefinitions ")));
    for run in runs(Action::Edit(Edit::Remove)) {
        let is_removal = |line: &String| line.contains(" delete configmaps ") && line.contains("/main.m at target: 20");
        assert!(run.trace.iter().any(is_removal), "the state store stays: {:#?}", run.trace);
    }
}

/// It is kept, and the source cannot be let go, for nobody can tell whether it has Widgets.
#[test]
fn what_an_earlier_source_left_is_counted_while_its_successor_is_deleted() {
    let steps = [
        (0, Action::Unserve),
        (0, Action::Edit(Edit::Toggle("widget"))),
        (0, Action::Create(X)),
        (20_000, Action::Stop(0)),
        (1_000, Action::Recreate(X)),
        (1_000, Action::Start(0)),
        (20_000, Action::Delete(X)),
    ];
    holds(&Plan { forever: Some(Forever::Unserved), ..world(Plain, &steps) }, 2);
}

#[test]
fn an_object_that_is_to_stay_is_let_go_of_before_its_source_although_patches_conflict() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Edit(Edit::DeletePolicy("Orphan"))),
        (5_000, Action::Weather(Weather { conflict: 60, ..Weather::default() })),
        (1_000, Action::Delete(X)),
        (60_000, Action::Weather(Weather::default())),
    ];
    holds(&world(Kcp, &steps), 16);
}

#[test]
fn in_the_mode_observe_an_object_whose_source_vanished_is_counted() {
    let steps = [
        (0, Action::BackUp(Side::Source)),
        (1_000, Action::Create(X)),
        (5_000, Action::Edit(Edit::OnSourceVanished("Delete"))),
        (1_000, Action::Edit(Edit::Mode("Observe"))),
        (1_000, Action::Restore(Side::Source, Ahead::Expired)),
    ];
    holds(&world(Plain, &steps), 8);
}

#[test]
fn a_process_whose_first_list_fails_makes_no_second_object_of_another_kind() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Stop(0)),
        (5_000, Action::Edit(Edit::Kind("Secret"))),
        (0, Action::Weather(Weather { broken: 40, ..Weather::default() })),
        (0, Action::Start(0)),
        (60_000, Action::Weather(Weather::default())),
    ];
    holds(&world(Plain, &steps), 32);
}

#[test]
fn an_object_of_a_former_source_that_was_stripped_is_counted_once_its_cluster_is_gone() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Edit(Edit::Resource("gadgets"))),
        (5_000, Action::Strip(X)),
        (60_000, Action::Rebuild(Side::Source, Ahead::Old)),
    ];
    holds(&world(Plain, &steps), 4);
}

#[test]
fn a_former_source_that_is_one_again_is_served_again() {
    let edits = ["gadgets", "things", "gadgets"].map(|resource| (5_000, Action::Edit(Edit::Resource(resource))));
    let again =
        [[(0, Action::Create(X)), (5_000, Action::Delete(X))].as_slice(), &edits[..2], &[(5_000, Action::Create(X))]];
    let last = [edits[2], (20_000, Action::Delete(X))];
    holds(&world(Kcp, &[again.concat(), last.to_vec()].concat()), 4);

    let restored = [
        (0, Action::Create(X)),
        (5_000, Action::BackUp(Side::Target)),
        (5_000, Action::DeleteWorkspace("a")),
        edits[0],
        (13_000, Action::Restore(Side::Target, Ahead::Old)),
    ];
    holds(&world(Kcp, &restored), 4);
}

/// Where the target was restored since somebody looked at it, what was deleted there may be back.
#[test]
fn a_finalizer_is_not_released_by_what_was_seen_before_the_target_was_restored() {
    for pause in 0..24 {
        let steps = [
            (0, Action::Create(X)),
            (5_000, Action::BackUp(Side::Target)),
            (5_000, Action::Delete(X)),
            (pause, Action::Restore(Side::Target, Ahead::Expired)),
        ];
        let run = held(&world(Plain, &steps), 1).remove(0);
        let lines = || run.trace.iter().skip_while(|line| !line.contains("** Restore"));
        let heard = lines()
            .find(|line| line.contains("list configmaps  / at target"))
            .map(|line| number(line))
            .expect("a list");
        let since =
            |what: &str| lines().find(|line| line.contains(what) && number(line) > heard).map(|line| number(line));
        let (looked, released) = (since("list configmaps  default-"), since("patch things  default/x"));
        assert!(released.is_none() || looked.is_some() && looked < released, "{pause}: {:#?}", run.trace);
    }
}

/// The number of a request in a line of the trace.
fn number(line: &str) -> u64 {
    let number = line.split('#').nth(1).and_then(|rest| rest.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[test]
fn a_source_that_moves_on_does_not_begin_the_backoff_of_a_refused_request_anew() {
    let steps = [
        (0, Action::Create(X)),
        (0, Action::Create(X_CA)),
        (5_000, Action::Deny("apply")),
        (1_000, Action::Change(X)),
        (1_000, Action::Change(X_CA)),
        (20_000, Action::Weather(Weather { conflict: 30, forbidden: 10, ..Weather::default() })),
        (400_000, Action::Weather(Weather::default())),
    ];
    holds(&world(Kcp, &steps), 32);
}

/// `onSourceVanished: Delete` comes with a `stuckAfter` of a minute.
#[test]
fn what_the_finalizer_of_somebody_else_holds_is_told_as_stuck_in_its_time() {
    let steps = [
        (0, Action::Edit(Edit::OnSourceVanished("Delete"))),
        (1_000, Action::Create(X)),
        (5_000, Action::Meddle(X, Meddling::Hold)),
        (5_000, Action::Delete(X)),
        (90_000, Action::Create(X_CA)),
    ];
    holds(&world(Kcp, &steps), 2);
}

/// Its cluster is engaged anew a moment before its sources are followed there.
#[test]
fn an_object_whose_source_vanished_is_counted_at_another_address_of_its_cluster() {
    let steps = [
        (1_000, Action::BackUp(Side::Source)),
        (1_000, Action::Create(X)),
        (5_000, Action::Restore(Side::Source, Ahead::Expired)),
        (20_000, Action::Address(Side::Source)),
    ];
    holds(&world(Plain, &steps), 4);
}

/// The answer to the first list of the former source is lost, and so is the one that says what its state store holds: the
/// cluster is another before the former source was ever in sight.
#[test]
fn what_a_former_source_has_is_counted_although_it_never_was_in_sight() {
    let weather =
        Weather { lost_before: 2, lost_after: 8, slow: 43, conflict: 1, broken: 22, merged: 27, ..Weather::default() };
    let steps = [
        (0, Action::Create(X_CA)),
        (3_248, Action::Weather(weather)),
        (1_247, Action::Edit(Edit::Resource("gadgets"))),
        (15_128, Action::Rebuild(Side::Source, Ahead::Silent)),
    ];
    holds(&world(Plain, &steps), 16);
}

/// A create is on its way while its source leaves the filter and is let go, for there is nothing of it. What it makes is orphaned: the
/// source carries no finalizer, and nothing is said of it there.
#[test]
fn what_comes_late_for_a_source_that_left_the_filter_is_orphaned() {
    let left_after = |(sources, pause)| {
        let steps = [
            (0, Action::Edit(Edit::Toggle("ca"))),
            (0, Action::Create(X)),
            (30_000, Action::Weather(Weather { late: 100, only_writes: true, ..Weather::default() })),
            (0, Action::Meddle(X, Meddling::Delete)),
            (100, Action::Weather(Weather::default())),
            (pause, Action::Edit(Edit::When)),
        ];
        world(sources, &steps)
    };
    hold(&[(Kcp, 100), (Kcp, 5_000), (Plain, 100), (Plain, 5_000)].map(left_after), 4);
}

/// A process may end between the finalizer and the first status: there is nothing to take back.
#[test]
fn a_source_that_nothing_was_said_of_is_let_go_without_a_word() {
    let killed_after = |moment| {
        let steps = [
            (0, Action::Create(X_CA)),
            (5_000, Action::Create(X)),
            (moment, Action::Crash(0)),
            (0, Action::Edit(Edit::Selector)),
            (1_000, Action::Start(0)),
        ];
        world(Kcp, &steps)
    };
    hold(&(1..24).map(killed_after).collect::<Vec<_>>(), 1);
}

/// A source in `Conflict` does not come to its end. It is compared with no document once the removal is taken back.
#[test]
fn a_removal_that_is_taken_back_leaves_no_comparison_behind() {
    let steps = [
        (0, Action::Create(X)),
        (1_000, Action::Create(X_CA)),
        (1_000, Action::Edit(Edit::OnMappingRemoved("Delete"))),
        (1_000, Action::Meddle(X, Meddling::Hold)),
        (5_000, Action::Edit(Edit::Remove)),
        (10_000, Action::Edit(Edit::Remove)),
    ];
    holds_in_both(&steps, 2);
}

/// A write that arrives late would create anew what was removed before.
#[test]
fn the_state_store_of_a_removed_mapping_stays_away() {
    let late = Weather { late: 100, only_writes: true, ..Weather::default() };
    let steps = [
        (0, Action::Edit(Edit::OnMappingRemoved("Delete"))),
        (30_000, Action::Weather(late)),
        // The first state store of this mapping is on its way when it is removed.
        (0, Action::Edit(Edit::Rename("n"))),
        (1_500, Action::Edit(Edit::Remove)),
        (0, Action::Weather(Weather::default())),
    ];
    let is_write = |line: &&String| {
        let of_store = line.contains("/main.n at target: 20");
        of_store && [" apply configmaps ", " delete configmaps "].iter().any(|write| line.contains(write))
    };
    let runs = held(&world(Kcp, &steps), 8);
    let last: Vec<_> = runs.iter().map(|run| run.trace.iter().rfind(is_write)).collect();
    assert!(last.iter().any(Option::is_some), "no write arrived");
    for (seed, last) in last.iter().enumerate() {
        assert!(last.is_none_or(|line| line.contains(" delete configmaps ")), "{seed}: {last:?}");
    }
}

/// A source that is let go of may stay, for somebody else holds it: it gets nothing more, whatever is written to it.
#[test]
fn a_source_that_others_hold_after_its_deletion_gets_nothing_more() {
    let steps = [
        (0, Action::Create(X)),
        (20_000, Action::Keep(X)),
        (10_000, Action::Delete(X)),
        (60_000, Action::Change(X)),
        (10_000, Action::Crash(0)),
        (5_000, Action::Start(0)),
        (30_000, Action::Label(X)),
        (30_000, Action::Strip(X)),
    ];
    for sources in [Kcp, Plain] {
        for run in held(&world(sources, &steps), 2) {
            let since = run.trace.iter().skip_while(|line| !line.contains("** Delete("));
            let sends = |verb: &str| since.clone().any(|line| line.contains(verb) && line.contains(" default-"));
            assert!(sends(" delete configmaps ") && !sends(" apply configmaps "), "{:#?}", run.trace);
        }
    }
}

/// A process that starts later did not see the removal, and keeps what there is.
#[test]
fn what_a_removed_mapping_keeps_of_a_source_that_was_stripped_is_counted_by_the_process_that_saw_it_go() {
    let steps = [
        (0, Action::Create(X)),
        (60_000, Action::Edit(Edit::OnMappingRemoved("Delete"))),
        (60_000, Action::Edit(Edit::Rename("n"))),
        (0, Action::Strip(X)),
    ];
    let deletes = |line: &String| line.contains(" delete configmaps ") && line.contains(" default-");
    let runs = held(&world(Kcp, &steps), 4);
    assert!(runs.iter().any(|run| !run.trace.iter().any(deletes)), "each time, the removal came first");
}
