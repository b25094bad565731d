//! Which actions met which faults: an action counts where the fault was active within five virtual seconds of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::action::{Action, Plan};
use super::core::Weather;

/// How close to each other an action and a fault have to be, in milliseconds.
const NEAR: u64 = 5_000;

/// Cells that cannot be filled: action, fault, and why.
const IMPOSSIBLE: [(&str, &str, &str); 0] = [];

/// Number of actions, by kind and by fault.
#[derive(Default)]
pub struct Matrix {
    cells: BTreeMap<String, BTreeMap<String, u64>>,
    faults: BTreeSet<String>,
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
            let row = self.cells.entry(action.kind()).or_default();
            for spell in spells.iter().filter(near).filter(|spell| spell.fault != fault_of(action).0) {
                *row.entry(spell.fault.clone()).or_default() += 1;
                self.faults.insert(spell.fault.clone());
            }
        }
    }

    /// Actions that never met a fault although they can.
    pub fn gaps(&self) -> Vec<String> {
        let is_gap = |action: &str, fault: &str| {
            let met = self.cells[action].get(fault).copied().unwrap_or_default();
            met == 0 && !IMPOSSIBLE.iter().any(|(of, meets, _)| *of == action && *meets == fault)
        };
        let of = |action| {
            let gaps = self.faults.iter().filter(move |fault| is_gap(action, fault));
            gaps.map(move |fault| format!("{action} never met {fault}"))
        };
        self.cells.keys().flat_map(|action| of(action.as_str())).collect()
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<&String> = self.faults.iter().collect();
        write!(f, "{:22}", "")?;
        faults.iter().try_for_each(|fault| write!(f, "{fault:>13}"))?;
        for (action, row) in &self.cells {
            write!(f, "\n{action:22}")?;
            faults.iter().try_for_each(|fault| write!(f, "{:>13}", row.get(*fault).unwrap_or(&0)))?;
        }
        Ok(())
    }
}

/// When each action happens, in milliseconds.
fn moments(plan: &Plan) -> impl Iterator<Item = (u64, Action)> {
    plan.steps.iter().scan(0, |at, step| {
        *at += step.after_ms;
        Some((*at, step.action))
    })
}

/// The fault that an action is, and the one that ends it; a fault without end is a moment.
fn fault_of(action: Action) -> (String, Option<Action>) {
    let end = match action {
        Action::Away(side) => Some(Action::Back(side)),
        Action::Deny(_) => Some(Action::Allow),
        Action::NoWidgets => Some(Action::Widgets),
        Action::Start(1) => Some(Action::Stop(1)),
        _ => None,
    };
    let name = match action {
        Action::Away(side) => format!("Away {}", side.name()),
        Action::Silence(side) => format!("Silent {}", side.name()),
        Action::Cut(side) => format!("Cut {}", side.name()),
        Action::Compact(side) => format!("410 {}", side.name()),
        Action::Restore(side, _) => format!("Restore {}", side.name()),
        Action::Rebuild(..) => "Rebuild".to_owned(),
        Action::Crash(_) => "Crash".to_owned(),
        Action::Stop(_) => "Stop".to_owned(),
        Action::Start(1) => "Two engines".to_owned(),
        Action::Jump(_) => "Jump".to_owned(),
        Action::Deny(verb) => format!("No {verb}"),
        Action::NoWidgets => "No CRD".to_owned(),
        _ => String::new(),
    };
    (name, end)
}

/// Whether an action is a fault: something that people who use the engine do not do on purpose.
pub fn is_fault(action: Action) -> bool {
    matches!(action, Action::Weather(_) | Action::Start(_)) || !fault_of(action).0.is_empty()
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
        ("Errors", weather.refused),
    ];
    all.into_iter().filter(|(_, chance)| *chance > 0).map(|(name, _)| name)
}
