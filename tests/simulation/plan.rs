//! From a seed to what happens in its world.

use super::action::{Action, Edit, NAMES, Plan, SourceRef, Step, TENANTS};
use super::core::Weather;
use super::dice::Dice;
use super::server::{Ahead, RESOURCES, Side};

/// What the world of a seed does.
pub fn plan(seed: u64) -> Plan {
    let mut dice = Dice::new(seed);
    let is_kcp = dice.percent(60);
    let mut steps: Vec<Step> = Vec::new();
    let first = source(&mut dice, is_kcp);
    steps.push(Step { after_ms: 0, action: Action::Create(first) });
    for _ in 0..dice.between(4, 24) {
        let action = action(&mut dice, is_kcp);
        steps.push(Step { after_ms: pause(&mut dice), action });
    }
    Plan { seed, is_kcp, steps }
}

/// Mostly little: what happens at once is what nobody thought of.
fn pause(dice: &mut Dice) -> u64 {
    match dice.below(10) {
        0..=2 => dice.below(20),
        3..=6 => dice.below(2_000),
        7..=8 => dice.below(20_000),
        _ => dice.below(120_000),
    }
}

fn source(dice: &mut Dice, is_kcp: bool) -> SourceRef {
    let tenant = if is_kcp { *dice.pick(&TENANTS) } else { TENANTS[0] };
    let resource = if dice.percent(75) { RESOURCES[0].0 } else { RESOURCES[1].0 };
    SourceRef { tenant, resource, name: *dice.pick(&NAMES) }
}

fn ahead(dice: &mut Dice) -> Ahead {
    if dice.percent(50) { Ahead::Silent } else { Ahead::Expired }
}

fn side(dice: &mut Dice) -> Side {
    if dice.percent(50) { Side::Source } else { Side::Target }
}

fn action(dice: &mut Dice, is_kcp: bool) -> Action {
    match dice.below(100) {
        0..=23 => Action::Create(source(dice, is_kcp)),
        24..=31 => Action::Change(source(dice, is_kcp)),
        32..=41 => Action::Delete(source(dice, is_kcp)),
        42..=46 => Action::Edit(Edit::Resource(dice.pick(&RESOURCES).0)),
        47..=51 => Action::Edit(Edit::Toggle(*dice.pick(&["ca", "extra"]))),
        52..=54 => Action::Edit(Edit::Edition),
        55..=60 => Action::BackUp(Side::Source),
        61..=66 => Action::Restore(Side::Source, ahead(dice)),
        67..=68 if !is_kcp => Action::Rebuild(Side::Source, ahead(dice)),
        67..=69 => Action::Away(side(dice)),
        70..=72 => Action::Back(side(dice)),
        73..=75 => Action::Cut(side(dice)),
        76 => Action::Silence(side(dice)),
        77..=87 => Action::Weather(weather(dice)),
        88..=91 => Action::Crash(dice.below(2) as u32),
        92..=93 => Action::Stop(dice.below(2) as u32),
        _ => Action::Start(dice.below(2) as u32),
    }
}

fn weather(dice: &mut Dice) -> Weather {
    if dice.percent(30) {
        return Weather::default();
    }
    let mut chance = |most: u64| if dice.percent(50) { dice.below(most) } else { 0 };
    Weather {
        lost_before: chance(30),
        lost_after: chance(30),
        late: chance(40),
        slow: chance(60),
        refused: chance(30),
        only_writes: chance(2) == 1,
    }
}
