//! A plain cluster that one of several kubeconfigs leads to.

use super::super::action::Roster;
use super::*;

fn fleet(steps: &[(u64, Action)]) -> Plan {
    Plan { has_fleet: true, ..world(Plain, steps) }
}

#[test]
fn a_fleet_may_list_its_clusters_as_it_likes() {
    every_seed_holds("SYNC_ENGINE_SEEDS_FLEETS", 0..24, plan::of_fleets);
}

#[test]
fn a_cluster_that_leaves_the_selection_and_comes_back_loses_nothing() {
    let steps = [
        (0, Action::Create(X)),
        (12_000, Action::List(Roster::Relabelled)),
        (12_000, Action::Change(X)),
        (1_000, Action::Create(X_CA)),
        (1_000, Action::Crash(0)),
        (1_000, Action::Start(0)),
        (12_000, Action::Delete(X)),
    ];
    holds(&fleet(&steps), 8);
}

/// The second name took the place of the first, and took its watches along when it left.
#[test]
fn a_cluster_of_two_names_that_is_rebuilt_is_followed_by_one_of_them() {
    let steps = [
        (1_000, Action::List(Roster::Doubled)),
        (12_000, Action::List(Roster::Listed)),
        (1_000, Action::Rebuild(Side::Source, Ahead::Old)),
        (2_000, Action::Create(X)),
    ];
    holds(&fleet(&steps), 4);
}

/// A source of the former cluster was taken for one of the new one, and got an object.
#[test]
fn sources_of_a_cluster_that_was_rebuilt_get_nothing_in_the_name_of_the_new_one() {
    let steps = [
        (0, Action::Create(X)),
        (1_500, Action::List(Roster::Doubled)),
        (6_000, Action::Change(X)),
        (1_440, Action::Edit(Edit::OnSourceVanished("Delete"))),
        (12, Action::Rebuild(Side::Source, Ahead::Old)),
    ];
    holds(&fleet(&steps), 64);
}

/// The former source's document deleted the objects while the present one let go of them.
#[test]
fn a_source_that_a_former_document_serves_too_goes_by_the_present_one() {
    let steps = [
        (0, Action::Create(X)),
        (12_000, Action::Edit(Edit::Fleet)),
        (100_000, Action::Edit(Edit::OnSourceDelete("Orphan"))),
        (90_000, Action::Delete(X)),
    ];
    // In the end, the provider is the fleet again.
    holds(&fleet(&steps), 4);
}

/// The provider acts at once and tells no labels any more, by which the document in force selects its cluster.
#[test]
fn sources_stay_where_the_provider_no_longer_tells_what_the_document_in_force_selects_by() {
    for policy in [Edit::OnExit("Delete"), Edit::OnExit("Orphan")] {
        let steps = [(0, Action::Create(X)), (12_000, Action::Edit(policy)), (60_000, Action::Edit(Edit::Fleet))];
        holds(&fleet(&steps), 8);
    }
}

/// Nothing of the mapping is left on the target, and a process that starts sees no source: the state store names where there are some.
#[test]
fn a_mapping_that_is_removed_while_its_cluster_is_out_of_sight_lets_its_sources_go_once_that_is_back() {
    let steps = [
        (0, Action::Create(X)),
        (12_000, Action::Edit(Edit::OnMappingRemoved("Orphan"))),
        (60_000, Action::Crash(0)),
        (1_000, Action::List(Roster::Missing)),
        (1_000, Action::DeleteNamespace(X)),
        (1_000, Action::Start(0)),
        (12_000, Action::Edit(Edit::Remove)),
        (60_000, Action::List(Roster::Listed)),
        (12_000, Action::Delete(X)),
    ];
    holds(&fleet(&steps), 8);
}

/// The engine wrote down where sources may be, and waited for ever for a cluster that never had one.
#[test]
fn a_document_of_another_resource_waits_for_no_cluster_to_which_a_kubeconfig_led_for_a_while() {
    let steps = [
        (10_000, Action::List(Roster::Astray)),
        (15_000, Action::List(Roster::Listed)),
        (15_000, Action::Edit(Edit::Resource("gadgets"))),
    ];
    holds(&fleet(&steps), 4);
    // No process sees it leave.
    let unseen = [
        (10_000, Action::List(Roster::Astray)),
        (15_000, Action::Crash(0)),
        (1_000, Action::List(Roster::Listed)),
        (1_000, Action::Start(0)),
        (15_000, Action::Edit(Edit::Resource("gadgets"))),
    ];
    holds(&fleet(&unseen), 4);
}

/// Their cluster is not listed when the edit is released: nothing was counted of what they have.
#[test]
fn what_an_edit_takes_of_sources_that_vanish_out_of_sight_is_held_once_their_cluster_is_back() {
    let steps = [
        (0, Action::BackUp(Side::Source)),
        (1_000, Action::Create(X)),
        (20_000, Action::Edit(Edit::MaxLost(0))),
        (30_000, Action::List(Roster::Missing)),
        (15_000, Action::Restore(Side::Source, Ahead::Expired)),
        (1_000, Action::Edit(Edit::OnSourceVanished("Delete"))),
        (30_000, Action::List(Roster::Listed)),
        // `onSourceVanished: Delete` comes with a `stuckAfter` of a minute.
        (150_000, Action::Create(X_CA)),
    ];
    let is_lost = |line: &String| line.contains("engine 0 delete configmaps") && !line.contains(" sync-engine/");
    for run in held(&fleet(&steps), 4) {
        assert!(!run.trace.iter().any(is_lost), "{:#?}", run.trace);
    }
}

#[test]
fn a_cluster_of_two_names_has_a_backoff_for_each() {
    let steps = [
        (1_000, Action::List(Roster::Doubled)),
        (12_000, Action::Create(X)),
        (5_000, Action::Deny("apply")),
        (1_000, Action::Change(X)),
        (60_000, Action::Allow),
    ];
    holds(&fleet(&steps), 8);
}

/// Its sources were known by what they waited for alone: under the name that both clusters have, and until the engine had heard of the
/// new one.
#[test]
fn sources_of_a_cluster_that_is_rebuilt_before_it_is_listed_again_are_counted_as_orphaned() {
    let rough = Weather { lost_after: 13, slow: 59, busy: 29, doubled: 35, ..Weather::default() };
    let plans = [1_010, 1_200, 1_400].map(|pause| {
        fleet(&[
            (0, Action::Create(X)),
            (12_000, Action::List(Roster::Astray)),
            (60_000, Action::Weather(rough)),
            (12_000, Action::List(Roster::Listed)),
            (pause, Action::Rebuild(Side::Source, Ahead::Old)),
        ])
    });
    hold(&plans, 8);
}
