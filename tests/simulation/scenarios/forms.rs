//! What a server stores in another form, kinds whose versions come and go, and marks of a mapping that is yet to come.

use super::*;

fn forms(sources: Sources, steps: &[(u64, Action)]) -> Plan {
    Plan { has_forms: true, ..world(sources, steps) }
}

#[test]
fn objects_are_stored_in_other_forms_and_versions() {
    every_seed_holds("SYNC_ENGINE_SEEDS_FORMS", 0..16, plan::of_forms);
}

/// Whether an engine carried this out.
fn has(run: &Run, what: &str) -> bool {
    run.trace.iter().any(|line| line.contains("engine 0") && line.contains(what))
}

#[test]
fn a_value_that_the_server_stores_in_another_form_is_corrected_when_people_change_it() {
    for pause in [0, 5_000] {
        let steps = [(0, Action::Create(X)), (5_000, Action::Meddle(X, Meddling::Resize)), (pause, Action::Change(X))];
        let run = &held(&forms(Kcp, &steps[..if pause == 0 { 2 } else { 3 }]), 4)[0];
        assert!(has(run, "patch resourcequotas") || has(run, "apply resourcequotas"), "there is a quota");
    }
}

/// Nobody who read it has to ask again: neither after a crash, nor after lost or late answers, nor where the server was put back.
#[test]
fn a_password_that_was_made_stays() {
    let lost = Weather { lost_after: 40, late: 20, broken: 20, only_writes: true, ..Weather::default() };
    let steps = [
        (0, Action::Weather(lost)),
        (0, Action::Create(X)),
        (800, Action::Crash(0)),
        (0, Action::Start(0)),
        (5_000, Action::Edit(Edit::Edition)),
        (5_000, Action::BackUp(Side::Target)),
        (0, Action::Meddle(X, Meddling::Rotate)),
        (0, Action::Change(X)),
        (5_000, Action::Restore(Side::Target, Ahead::Silent)),
        (0, Action::Change(X)),
        (5_000, Action::Deny("apply")),
        (0, Action::Meddle(X, Meddling::Rotate)),
        (0, Action::Meddle(X, Meddling::Rotate)),
        (5_000, Action::Allow),
    ];
    for sources in [Kcp, Plain] {
        let runs = held(&forms(sources, &steps), 16);
        assert!(has(&runs[0], "apply secrets"), "there is a password");
    }
}

/// Nobody has changed it: answers to writes were lost, the engine could not look at what came of them, or it found the sources at
/// another address meanwhile.
#[test]
fn what_a_server_stores_in_another_form_is_not_reported_as_drift() {
    let lost = Weather { lost_after: 80, broken: 15, only_writes: true, ..Weather::default() };
    let steps = [
        (0, Action::Edit(Edit::Drift("Report"))),
        (2_000, Action::Create(X)),
        (6_000, Action::Weather(lost)),
        (0, Action::Change(X)),
        (0, Action::Address(Side::Source)),
        // The faults last until the engine has looked for the address, and longer.
        (4_000, Action::Weather(Weather::default())),
    ];
    [Kcp, Plain].into_iter().for_each(|sources| holds(&forms(sources, &steps), 16));
}

/// What admission sets is not written again and again, and what it does not set follows the source.
#[test]
fn what_admission_changes_is_left_as_it_is_until_the_source_changes() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Mutate(true)),
        (5_000, Action::Change(X)),
        (60_000, Action::Change(X)),
        (60_000, Action::Mutate(false)),
        (5_000, Action::Change(X)),
    ];
    for sources in [Kcp, Plain] {
        (3..=steps.len()).filter(|until| *until != 5).for_each(|until| holds(&world(sources, &steps[..until]), 4));
    }
}

#[test]
fn an_object_follows_its_template_after_its_former_version_is_gone() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Version(Versions::Moved)),
        (5_000, Action::Stop(0)),
        (5_000, Action::Edit(Edit::Version(VERSIONS[1]))),
        (5_000, Action::Version(Versions::Gone)),
        (5_000, Action::Change(X)),
        (0, Action::Start(0)),
    ];
    let run = &held(&forms(Kcp, &steps), 4)[0];
    let is_refused = run.trace.iter().any(|line| line.contains("widgets") && line.ends_with(": 500"));
    assert!(has(run, "widgets") && is_refused, "an apply meets the former version");
}

#[test]
fn marks_of_a_mapping_that_is_yet_to_come_hold_up_nobody_else() {
    let steps = [
        (0, Action::Create(X)),
        (0, Action::Create(X_CA)),
        (5_000, Action::Mark(X)),
        (5_000, Action::Edit(Edit::Guest)),
        (20_000, Action::Delete(X_CA)),
        (5_000, Action::Create(X_CA)),
    ];
    let run = &held(&forms(Kcp, &steps), 4)[0];
    let guest = |name: &str| has(run, &format!("/{name}-g "));
    assert!(!guest("x") && guest("x-ca"), "the marked one is blocked");
}

/// A target that does not serve what only a withdrawn edit named is in order.
#[test]
fn a_target_is_asked_for_no_version_that_no_document_has_any_more() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Away(Side::Target)),
        (1_000, Action::Edit(Edit::Version(VERSIONS[1]))),
        (1_000, Action::Edit(Edit::Version(VERSIONS[0]))),
        (1_000, Action::Version(Versions::First)),
        (1_000, Action::Back(Side::Target)),
    ];
    holds(&forms(Kcp, &steps), 4);
}

/// What a process remembers of an object that went is of the version in which it was watched.
#[test]
fn a_source_is_released_in_the_version_that_is_served() {
    let unlisted = Weather { busy: 100, ..Weather::default() };
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Edit(Edit::Version(VERSIONS[1]))),
        (5_000, Action::Delete(X)),
        (20, Action::Weather(unlisted)),
        (5_000, Action::Edit(Edit::Version(VERSIONS[0]))),
        (5_000, Action::Version(Versions::First)),
    ];
    holds(&forms(Kcp, &steps), 16);
}

/// What is left of it is seen in the other version, in which the state store names it from then on.
#[test]
fn a_kind_leaves_a_state_store_that_alone_names_it_after_its_version_is_gone() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Edit(Edit::Toggle("widget"))),
        (5_000, Action::Edit(Edit::Version(VERSIONS[1]))),
        (5_000, Action::Version(Versions::Gone)),
        (5_000, Action::Delete(X)),
    ];
    [Kcp, Plain].into_iter().for_each(|sources| holds(&forms(sources, &steps), 4));
}

/// The document in the file is held: it would delete what the one in force does not see, whose version is gone.
#[test]
fn a_source_is_released_where_the_document_in_force_has_a_version_that_was_gone_for_a_while() {
    let steps = [
        (0, Action::Create(X)),
        (1_000, Action::Edit(Edit::Version(VERSIONS[1]))),
        (7_000, Action::Edit(Edit::MaxLost(0))),
        (20_000, Action::Pause(0)),
        (2_000, Action::Edit(Edit::Version(VERSIONS[0]))),
        (20_000, Action::Version(Versions::First)),
        (10, Action::Delete(X)),
    ];
    holds(&forms(Kcp, &steps), 4);
}

/// Four kinds whose watches fell silent are listed one after the other, and each list has a source planned anew that is held up: by
/// this luck, eleven times in the two minutes that are to be quiet.
#[test]
fn a_conflict_is_judged_once_silent_watches_have_timed_out() {
    let steps = [
        (0, Action::Create(X)),
        (47_000, Action::Silence(Side::Target)),
        (49_000, Action::Edit(Edit::Edition)),
        (50_000, Action::Edit(Edit::Guest)),
        (0, Action::NoWidgets),
        (2_000, Action::Edit(Edit::Rename("n"))),
    ];
    holds(&Plan { luck: 29, ..forms(Kcp, &steps) }, 2);
}

/// The document in force goes on without its file. The one that was in the file last never came to run.
#[test]
fn a_source_is_released_in_the_version_of_a_mapping_whose_file_went_before_its_edit_ran() {
    let unrecorded = Weather { conflict: 100, only_writes: true, ..Weather::default() };
    let steps = [
        (0, Action::Create(X)),
        (70_000, Action::Weather(unrecorded)),
        (0, Action::Edit(Edit::Version(VERSIONS[1]))),
        (5_000, Action::Version(Versions::Gone)),
        (5_000, Action::Edit(Edit::Remove)),
        (1_000, Action::Weather(Weather::default())),
        (5_000, Action::Delete(X)),
    ];
    [Kcp, Plain].into_iter().for_each(|sources| holds(&forms(sources, &steps), 4));
}

/// Nobody writes the kind any more, and nobody names the other version: what is there goes in that.
#[test]
fn a_source_is_released_by_a_mapping_without_a_file_whose_version_is_gone() {
    let steps = [
        (0, Action::Create(X)),
        (5_000, Action::Edit(Edit::Remove)),
        (5_000, Action::Version(Versions::Gone)),
        (5_000, Action::Stop(0)),
        (0, Action::Start(0)),
        (5_000, Action::Delete(X)),
    ];
    let is_restart = |step: &Action| matches!(step, Action::Stop(_) | Action::Start(_));
    let goes_on: Vec<_> = steps.into_iter().filter(|(_, step)| !is_restart(step)).collect();
    for sources in [Kcp, Plain] {
        holds(&forms(sources, &steps), 4);
        holds(&forms(sources, &goes_on), 4);
    }
}
