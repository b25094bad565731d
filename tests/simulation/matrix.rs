//! Which actions met which faults: an action counts where the fault was active within five virtual seconds of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use super::action::{Action, Plan};
use super::core::Weather;
use super::plan::is_about_workspaces;
use super::process::OTHER;
use super::server::Side;

/// How close to each other an action and a fault have to be, in milliseconds.
const NEAR: u64 = 5_000;

/// Every kind of action, by who does it or what it is about.
pub static ACTIONS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let kinds: [&[&str]; 17] = [
        &["Create", "Change", "Delete", "Recreate", "Strip", "Label", "Forge", "Plant"],
        &["Bind", "Unbind", "CreateWorkspace", "DeleteWorkspace"],
        &["Approve", "Schema"],
        &["DeleteNamespace", "Release", "NoWidgets", "Widgets", "Unserve", "Serve", "Deny", "Allow"],
        &["Compact", "Jump", "BackUp", "Restore", "Rebuild", "Away", "Back", "Cut", "Silence", "Weather"],
        &["Crash", "Stop", "Start", "Pause", "Resume", "Skew", "Address", "Token"],
        &["EditResource", "EditToggle", "EditEdition", "EditSelector", "EditWhen", "EditNamespace"],
        &["EditOnIdentityChange", "EditOnSourceVanished", "EditOnSourceRecreated", "EditDrift", "EditDeletePolicy"],
        &["EditMaxLost", "EditStatus", "EditNoStatus", "EditMode"],
        &["EditOnExit", "EditOnSourceDelete", "EditOnMappingRemoved"],
        &["EditName", "EditKind", "EditId", "EditRename", "EditGuest", "EditRemove", "EditBreak"],
        &["MeddleEdit", "MeddleDelete", "MeddleStrip", "MeddleCopy", "MeddleHold", "MeddleSquat"],
        &["SecretPut", "SecretDelete", "SecretRetype", "SecretRename"],
        &["SecretEditCopy", "SecretDeleteCopy", "SecretSquat"],
        &["TargetSecretPut", "TargetSecretDelete", "TargetSecretRetype"],
        &["TargetSecretEditCopy", "TargetSecretDeleteCopy", "TargetSecretSquat"],
        &["Claim", "Unclaim", "EditRelated"],
    ];
    kinds.concat()
});

/// Every fault.
pub static FAULTS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let kinds: [&[&str]; 6] = [
        &["Away source", "Away target", "Silent source", "Silent target", "Cut source", "Cut target"],
        &["410 source", "410 target", "Restore source", "Restore target", "Rebuild"],
        &["Crash", "Stop", "Two engines", "Another id", "Paused", "New address", "New token", "Jump"],
        &["No apply", "No create", "No delete", "No patch", "No CRD", "Not served"],
        &["Lost before", "Lost after", "Late", "Slow", "409", "429", "5xx", "403"],
        &["Doubled", "Merged", "Dropped"],
    ];
    kinds.concat()
});

/// Cells that cannot be: the action is the fault, under another name.
const SAME: [(&str, &str); 6] = [
    ("NoWidgets", "No CRD"),
    ("Unserve", "Not served"),
    ("Skew", "Jump"),
    ("Pause", "Paused"),
    ("Address", "New address"),
    ("Token", "New token"),
];

/// Number of actions, by kind and by fault.
#[derive(Default)]
pub struct Matrix {
    cells: BTreeMap<String, BTreeMap<String, u64>>,
}

/// A fault, from when until when.
struct Spell {
    fault: String,
    from: u64,
    to: u64,
}

impl Matrix {
    pub fn count(&mut self, plan: &Plan) {
        let spells = spells(plan);
        for (at, action) in moments(plan) {
            let near = |spell: &&Spell| spell.from <= at + NEAR && spell.to + NEAR >= at;
            let kind = action.kind();
            if ELSEWHERE.iter().any(|kinds| kinds.contains(&kind.as_str())) {
                continue;
            }
            assert!(ACTIONS.contains(&kind.as_str()), "the matrix has no row for {kind}");
            let row = self.cells.entry(kind).or_default();
            for spell in spells.iter().filter(near).filter(|spell| spell.fault != fault_of(action).0) {
                *row.entry(spell.fault.clone()).or_default() += 1;
                assert!(FAULTS.contains(&spell.fault.as_str()), "the matrix has no column for {}", spell.fault);
            }
        }
    }

    fn cell(&self, action: &str, fault: &str) -> u64 {
        self.cells.get(action).and_then(|row| row.get(fault)).copied().unwrap_or_default()
    }

    /// Actions that never met a fault although they can.
    pub fn gaps(&self) -> Vec<String> {
        let gaps = cells().filter(|(action, fault)| !is_impossible(action, fault) && self.cell(action, fault) == 0);
        gaps.map(|(action, fault)| format!("{action} never met {fault}")).collect()
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:24}", "")?;
        FAULTS.iter().try_for_each(|fault| write!(f, "{fault:>15}"))?;
        for action in ACTIONS.iter() {
            write!(f, "\n{action:24}")?;
            FAULTS.iter().try_for_each(|fault| match is_impossible(action, fault) {
                true => write!(f, "{:>15}", "-"),
                false => write!(f, "{:>15}", self.cell(action, fault)),
            })?;
        }
        Ok(())
    }
}

fn cells() -> impl Iterator<Item = (&'static str, &'static str)> {
    ACTIONS.iter().flat_map(|action| FAULTS.iter().map(move |fault| (*action, *fault)))
}

fn is_impossible(action: &str, fault: &str) -> bool {
    // Workspaces are in kcp, where a rebuild is a new installation of the provider.
    action == fault || SAME.contains(&(action, fault)) || fault == "Rebuild" && is_about_workspaces(action)
}

/// When each action happens, in milliseconds.
fn moments(plan: &Plan) -> impl Iterator<Item = (u64, Action)> {
    plan.steps.iter().scan(0, |at, step| {
        *at += step.after_ms;
        Some((*at, step.action))
    })
}

/// The fault that an action is, and the one that ends it; a fault without end is a moment.
pub fn fault_of(action: Action) -> (String, Option<Action>) {
    // A second target has no columns of its own.
    let at = |side: Side| if side == Side::Second { Side::Target.name() } else { side.name() };
    match action {
        Action::Away(side) => (format!("Away {}", at(side)), Some(Action::Back(side))),
        Action::Silence(side) => (format!("Silent {}", at(side)), None),
        Action::Cut(side) => (format!("Cut {}", at(side)), None),
        Action::Compact(side) => (format!("410 {}", at(side)), None),
        Action::Restore(side, _) => (format!("Restore {}", at(side)), None),
        Action::Rebuild(..) => ("Rebuild".into(), None),
        Action::Crash(_) => ("Crash".into(), None),
        Action::Stop(_) => ("Stop".into(), None),
        Action::Start(1) => ("Two engines".into(), Some(Action::Stop(1))),
        Action::Start(OTHER) => ("Another id".into(), Some(Action::Stop(OTHER))),
        Action::Pause(process) => ("Paused".into(), Some(Action::Resume(process))),
        Action::Address(_) => ("New address".into(), None),
        Action::Token(_) => ("New token".into(), None),
        Action::Jump(_) | Action::Skew(..) => ("Jump".into(), None),
        Action::Deny(verb) => (format!("No {verb}"), Some(Action::Allow)),
        Action::NoWidgets => ("No CRD".into(), Some(Action::Widgets)),
        Action::Unserve => ("Not served".into(), Some(Action::Serve)),
        _ => (String::new(), None),
    }
}

/// The faults that an action begins.
pub fn faults_of(action: Action) -> Vec<String> {
    match action {
        Action::Weather(weather) => named(weather).map(str::to_owned).collect(),
        action => Vec::from_iter(Some(fault_of(action).0).filter(|fault| !fault.is_empty())),
    }
}

/// What happens in worlds with a fleet, with more copies, with objects beside sources or with several forms alone, which have no matrix of their own,
/// and in named worlds.
const ELSEWHERE: [&[&str]; 3] = [
    &["EditAdopt", "Mutate", "EditFleet", "EditSpread", "EditOnTargetChange", "EditVersion", "EditHand"],
    &["List", "Mark", "Fill", "Version", "Keep", "Reject", "Usurp"],
    &["SecretSelect", "MeddleFields", "MeddleDisguise", "MeddleResize", "MeddleRotate"],
];

/// Whether an action is a fault: something that people who use the engine do not do on purpose.
pub fn is_fault(action: Action) -> bool {
    matches!(action, Action::Weather(_) | Action::Start(_) | Action::List(_) | Action::Version(_))
        || !fault_of(action).0.is_empty()
}

fn spells(plan: &Plan) -> Vec<Spell> {
    let all: Vec<(u64, Action)> = moments(plan).collect();
    let last = all.last().map_or(0, |(at, _)| *at);
    let mut spells = Vec::new();
    for (index, &(from, action)) in all.iter().enumerate() {
        let later = &all[index + 1..];
        if let Action::Weather(weather) = action {
            let next = later.iter().find(|(_, action)| matches!(action, Action::Weather(_)));
            let to = next.map_or(last, |(at, _)| *at);
            spells.extend(named(weather).map(|fault| Spell { fault: fault.to_owned(), from, to }));
        }
        let (fault, end) = fault_of(action);
        if !fault.is_empty() {
            let ended = end.map(|end| later.iter().find(|(_, action)| *action == end).map_or(last, |(at, _)| *at));
            spells.push(Spell { fault, from, to: ended.unwrap_or(from) });
        }
    }
    spells
}

/// What a weather does.
fn named(weather: Weather) -> impl Iterator<Item = &'static str> {
    let all = [
        ("Lost before", weather.lost_before),
        ("Lost after", weather.lost_after),
        ("Late", weather.late),
        ("Slow", weather.slow),
        ("409", weather.conflict),
        ("429", weather.busy),
        ("5xx", weather.broken),
        ("403", weather.forbidden),
        ("Doubled", weather.doubled),
        ("Merged", weather.merged),
        ("Dropped", weather.dropped),
    ];
    all.into_iter().filter(|(_, chance)| *chance > 0).map(|(name, _)| name)
}

#[test]
fn a_thousand_seeds_in_a_row_try_every_cell_that_can_be() {
    let mut matrix = Matrix::default();
    (0..1_000).for_each(|seed| matrix.count(&super::plan::plan_of(seed)));
    let gaps = matrix.gaps();
    assert!(gaps.is_empty(), "{gaps:?}");
    let impossible = cells().filter(|(action, fault)| is_impossible(action, fault));
    let tried: Vec<_> = impossible.filter(|(action, fault)| matrix.cell(action, fault) > 0).collect();
    assert!(tried.is_empty(), "these are possible: {tried:?}");
}
