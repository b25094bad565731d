//! From a seed to what happens in its world.

use super::action::{
    Action, Edit, Meddling, NAMES, Plan, RARE_NAMES, Roster, Secrecy, SourceRef, Step, TENANTS, VERSIONS, Versions,
};
use super::core::Weather;
use super::dice::Dice;
use super::mapping::{CONNECTION, MAPPINGS, MORE, More, NAMESPACES, OPEN, PASSWORD, Spread};
use super::matrix::{ACTIONS, FAULTS, faults_of};
use super::process::{OTHER, THIRD};
use super::server::{Ahead, RESOURCES, Side};

type Turn = fn(Plan) -> Plan;

/// Kinds of worlds: where the variable is set, the world of each seed is turned into one.
const KINDS: [(&str, Turn); 7] = [
    ("SYNC_ENGINE_FLEETS", of_fleets),
    ("SYNC_ENGINE_COPIES", of_copies),
    ("SYNC_ENGINE_BESIDE", of_beside),
    ("SYNC_ENGINE_SEVERAL", of_several),
    ("SYNC_ENGINE_FORMS", of_forms),
    ("SYNC_ENGINE_LIMITED", of_limited),
    ("SYNC_ENGINE_REPLICAS", of_replicas),
];

/// What the world of a seed does.
pub fn plan(seed: u64) -> Plan {
    let kinds = KINDS.into_iter().filter(|(variable, _)| std::env::var_os(variable).is_some());
    kinds.fold(plan_of(seed), |plan, (_, turned)| turned(plan))
}

/// The same with two or three replicas from the beginning. The Lease is lost, and replicas stop for a while to see it.
pub fn of_replicas(mut plan: Plan) -> Plan {
    let mut dice = Dice::new(plan.seed.rotate_left(48));
    let processes = if dice.percent(50) { &[0, 1, THIRD][..] } else { &[0, 1] };
    for _ in 0..dice.between(1, 5) {
        let at = dice.below(plan.steps.len() as u64 + 1) as usize;
        let process = dice.pick(processes);
        let (first, then) = match dice.below(5) {
            0 => (Action::Bar(process), Action::Unbar(process)),
            1 => (Action::Crash(process), Action::Start(process)),
            2 => (Action::Stop(process), Action::Start(process)),
            3 => (Action::Pause(process), Action::Resume(process)),
            _ => (Action::DropLease(process), Action::DropLease(process)),
        };
        // While others may take over, there is something to write.
        let changes = (0..dice.below(4)).map(|_| (dice.below(2_000), Action::Change(source(&mut dice, plan.is_kcp))));
        let changes: Vec<_> = changes.collect();
        let dropped = dice.percent(50).then_some((dice.below(2_000), Action::DropLease(process)));
        let steps = [(pause(&mut dice), first)].into_iter().chain(dropped).chain(changes);
        let steps = steps.chain([(pause(&mut dice), then)]).map(|(after_ms, action)| Step { after_ms, action });
        plan.steps.splice(at..at, steps.collect::<Vec<_>>());
    }
    for process in &processes[1..] {
        plan.steps.insert(0, Step { after_ms: dice.below(3_000), action: Action::Start(*process) });
    }
    Plan { elects: true, ..plan }
}

/// The same with sources in one plain cluster of a fleet, whose list changes.
pub fn of_fleets(plan: Plan) -> Plan {
    let (mut dice, only) = (Dice::new(plan.seed.rotate_left(32)), TENANTS[0]);
    let plan = Plan { is_kcp: false, has_fleet: true, ..plan };
    let mut plan = plan
        .keeping(|action| action.tenant().is_none_or(|tenant| tenant == only) && !is_about_workspaces(&action.kind()));
    for _ in 0..dice.between(2, 8) {
        let at = dice.below(plan.steps.len() as u64 + 1) as usize;
        plan.steps.insert(at, Step { after_ms: pause(&mut dice), action: listing(&mut dice) });
    }
    plan
}

/// The same with more copies of Secrets, and with more that happens to Secrets.
pub fn of_copies(plan: Plan) -> Plan {
    let mut dice = Dice::new(plan.seed.rotate_left(16));
    let more = dice.pick(&[More::Shared, More::Shared, More::Selected, More::Each]);
    let plan = Plan { has_related: true, has_operators: true, more: Some(more), ..plan };
    let is_kcp = plan.is_kcp;
    strewn(plan, dice, (3, 12), |dice| copying(dice, is_kcp))
}

/// The same with so many more steps, anywhere after the first one.
fn strewn(mut plan: Plan, mut dice: Dice, (least, most): (u64, u64), action: impl Fn(&mut Dice) -> Action) -> Plan {
    for _ in 0..dice.between(least, most) {
        let at = dice.below(plan.steps.len() as u64) as usize + 1;
        let action = action(&mut dice);
        plan.steps.insert(at, Step { after_ms: pause(&mut dice), action });
    }
    plan
}

/// The same without related objects, and without what happens to Secrets.
fn without_secrets(plan: Plan) -> Plan {
    Plan { has_related: false, more: None, has_operators: false, ..plan }
        .keeping(|action| !matches!(action, Action::Edit(Edit::Related(_)) | Action::Secret(..)))
}

fn copying(dice: &mut Dice, is_kcp: bool) -> Action {
    match dice.below(12) {
        0 => Action::Edit(Edit::Related(MORE.id)),
        1..=3 => Action::Secret(source(dice, is_kcp), Side::Source, Secrecy::Select),
        4..=5 => Action::Secret(source(dice, is_kcp), Side::Source, Secrecy::Rename),
        6..=7 => consumer(dice, is_kcp),
        _ => secrets(dice, is_kcp),
    }
}

/// The same with objects beside their sources, which consumers edit, delete and forge.
pub fn of_beside(plan: Plan) -> Plan {
    let (dice, is_kcp) = (Dice::new(plan.seed.rotate_left(48)), plan.is_kcp);
    // No rule says the namespace.
    let plan = without_secrets(Plan { is_beside: true, ..plan })
        .keeping(|action| !matches!(action, Action::DeleteNamespace(_) | Action::Edit(Edit::Namespace(_))));
    strewn(plan, dice, (4, 14), |dice| besides(dice, is_kcp))
}

fn besides(dice: &mut Dice, is_kcp: bool) -> Action {
    use Meddling::{Copy, Delete, Disguise, Edit as Change, Fields, Hold, Squat, Strip};
    let source = source(dice, is_kcp);
    match dice.below(16) {
        0..=6 => {
            Action::Meddle(source, dice.pick(&[Change, Delete, Strip, Copy, Hold, Squat, Fields, Fields, Disguise]))
        }
        7 => Action::Plant(source),
        8 => Action::Edit(Edit::Edition),
        9 => Action::Edit(Edit::Toggle(dice.pick(&["ca", "extra", "widget"]))),
        10 if is_kcp => Action::Unclaim(source.tenant),
        11 if is_kcp => Action::Claim(source.tenant),
        12 if is_kcp => tenant(dice, is_kcp),
        13 => Action::Release,
        _ => consumer(dice, is_kcp),
    }
}

/// The same with a second target, to which everything may happen that may happen to the first one.
pub fn of_several(plan: Plan) -> Plan {
    let mut dice = Dice::new(plan.seed.rotate_left(24));
    let spread = dice.pick(&[Spread::Extra, Spread::Extra, Spread::Both, Spread::Choice]);
    let is_kcp = plan.is_kcp;
    strewn(without_secrets(Plan { spread, ..plan }), dice, (4, 14), |dice| of_second(dice, spread, is_kcp))
}

/// The same with a kind whose versions come and go, values that a server stores in another form, large sources, and marks of
/// a mapping that is yet to come.
pub fn of_forms(plan: Plan) -> Plan {
    let (dice, is_kcp) = (Dice::new(plan.seed.rotate_left(56)), plan.is_kcp);
    // A kind of two versions is served in one of them, or in both.
    let plan = without_secrets(Plan { has_forms: true, ..plan })
        .keeping(|action| !matches!(action, Action::Unserve | Action::Serve));
    strewn(plan, dice, (4, 14), |dice| of_form(dice, is_kcp))
}

fn of_form(dice: &mut Dice, is_kcp: bool) -> Action {
    use Versions::{Both, First, Gone, Moved, Second};
    match dice.below(14) {
        0..=2 => Action::Version(dice.pick(&[Both, Moved, First, Second, Gone])),
        3..=4 => Action::Edit(Edit::Version(dice.pick(&VERSIONS))),
        5..=6 => Action::Meddle(source(dice, is_kcp), dice.pick(&[Meddling::Resize, Meddling::Rotate])),
        7 => Action::Mark(source(dice, is_kcp)),
        8 => Action::Edit(Edit::Guest),
        9 => Action::Fill(source(dice, is_kcp)),
        _ => consumer(dice, is_kcp),
    }
}

/// The same with engines that may run too few watches, until the faults end.
pub fn of_limited(plan: Plan) -> Plan {
    Plan { max_watches: Some(1 + plan.seed as usize % 8), ..plan }
}

fn of_second(dice: &mut Dice, spread: Spread, is_kcp: bool) -> Action {
    use Meddling::{Copy, Delete, Edit as Change, Hold, Squat, Strip};
    match dice.below(16) {
        0 => Action::Away(Side::Second),
        1 => Action::Back(Side::Second),
        2 => dice.pick(&[Action::Cut(Side::Second), Action::Silence(Side::Second), Action::Compact(Side::Second)]),
        3 => Action::BackUp(Side::Second),
        4 => Action::Restore(Side::Second, ahead(dice)),
        5 => dice.pick(&[Action::Address(Side::Second), Action::Token(Side::Second)]),
        6 if spread == Spread::Choice => Action::Edit(Edit::OnTargetChange(dice.pick(&["Block", "Recreate"]))),
        6 => Action::Edit(Edit::Spread(dice.pick(&[Spread::Extra, Spread::Both]))),
        7..=8 => Action::Meddle(source(dice, is_kcp), dice.pick(&[Change, Delete, Strip, Copy, Hold, Squat])),
        9 => Action::Delete(source(dice, is_kcp)),
        10 => Action::Create(source(dice, is_kcp)),
        _ => Action::Change(source(dice, is_kcp)),
    }
}

fn listing(dice: &mut Dice) -> Action {
    use Roster::{Astray, Doubled, Listed, Missing, Relabelled, Renamed, Unreadable};
    match dice.below(8) {
        0 => Action::Edit(Edit::Fleet),
        _ => Action::List(
            dice.pick(&[Listed, Listed, Relabelled, Relabelled, Renamed, Doubled, Missing, Unreadable, Astray]),
        ),
    }
}

/// The same before a variable turns it into a kind: half of the worlds have related objects.
pub fn plan_of(seed: u64) -> Plan {
    let mut dice = Dice::new(seed);
    let cells = (0..MEETINGS).map(|cell| meeting(seed * MEETINGS + cell));
    // Workspaces are in kcp, and a rebuild is of a plain cluster.
    let has_workspaces = dice.percent(60) || cells.clone().any(|(_, action)| is_about_workspaces(action));
    let is_kcp = has_workspaces && !cells.clone().any(|(fault, _)| fault == "Rebuild");
    // Few kinds of actions in a world, many of each: rare ones meet each other too.
    let has_related = dice.percent(50) || cells.clone().any(|(_, action)| is_about_secrets(action));
    let mood = Mood { bits: dice.next(), is_kcp, has_related };
    let first = source(&mut dice, is_kcp);
    let mut steps = vec![Step { after_ms: 0, action: Action::Create(first) }];
    for _ in 0..dice.between(4, 20) {
        let action = action(&mut dice, mood);
        steps.push(Step { after_ms: pause(&mut dice), action });
    }
    for (fault, action) in cells {
        let everybody = Mood { bits: u64::MAX, is_kcp, has_related: true };
        let Some(fault) = draw(&mut dice, everybody, |drawn| faults_of(drawn).contains(&fault.to_owned())) else {
            continue;
        };
        let Some(action) = draw(&mut dice, everybody, |drawn| drawn.kind() == action) else { continue };
        let at = dice.below(steps.len() as u64) as usize + 1;
        let pair = [Step { after_ms: pause(&mut dice), action: fault }, Step { after_ms: dice.below(3_000), action }];
        steps.splice(at..at, pair);
    }
    Plan { seed, is_kcp, has_related, has_operators: has_related, steps, ..Plan::default() }
}

/// Whether a kind of action is one of a tenant of kcp.
pub fn is_about_workspaces(action: &str) -> bool {
    ["Bind", "Unbind", "CreateWorkspace", "DeleteWorkspace", "Claim", "Unclaim"].contains(&action)
}

/// Whether a kind of action means nothing where there are no related objects.
fn is_about_secrets(action: &str) -> bool {
    ["Secret", "TargetSecret", "Claim", "Unclaim"].iter().any(|kind| action.starts_with(kind))
}

/// In each world a few cells of the matrix of actions and faults are tried: a thousand seeds in a row try them all.
const MEETINGS: u64 = 5;

/// The fault and the kind of action of a cell.
fn meeting(cell: u64) -> (&'static str, &'static str) {
    // A prime, so that the cells of one world have nothing to do with each other.
    let cell = (cell * 7_919) as usize % (FAULTS.len() * ACTIONS.len());
    (FAULTS[cell % FAULTS.len()], ACTIONS[cell / FAULTS.len()])
}

/// Draws from everything that may happen until it is what is wanted; `None`: it does not happen in this kind of world.
fn draw(dice: &mut Dice, everybody: Mood, wanted: impl Fn(Action) -> bool) -> Option<Action> {
    (0..20_000).map(|_| action(dice, everybody)).find(|drawn| wanted(*drawn))
}

/// Which actors are busy in a world.
#[derive(Clone, Copy)]
struct Mood {
    bits: u64,
    is_kcp: bool,
    has_related: bool,
}

impl Mood {
    fn has(self, actor: u64) -> bool {
        self.bits >> actor & 1 == 1
    }
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
    let tenant = if is_kcp { dice.pick(&TENANTS) } else { TENANTS[0] };
    let resource = if dice.percent(75) { RESOURCES[0].0 } else { RESOURCES[1].0 };
    let names = if dice.percent(92) { NAMES } else { RARE_NAMES };
    SourceRef { tenant, resource, name: dice.pick(&names) }
}

fn ahead(dice: &mut Dice) -> Ahead {
    dice.pick(&[Ahead::Silent, Ahead::Expired, Ahead::Old])
}

fn side(dice: &mut Dice) -> Side {
    if dice.percent(50) { Side::Source } else { Side::Target }
}

fn action(dice: &mut Dice, mood: Mood) -> Action {
    for _ in 0..8 {
        let (actor, action) = match dice.below(13) {
            0..=2 => return consumer(dice, mood.is_kcp),
            3 => (0, if dice.percent(85) { author(dice) } else { provider(dice) }),
            4 => (1, network(dice)),
            5 => (2, operator(dice)),
            6 => (3, backups(dice, mood.is_kcp)),
            7 => (4, people(dice, mood.is_kcp)),
            8 => (5, admission(dice)),
            9 => (6, tenant(dice, mood.is_kcp)),
            10..=11 if mood.has_related => (8, secrets(dice, mood.is_kcp)),
            10..=11 => continue,
            _ => (7, finalizers(dice, mood.is_kcp)),
        };
        if mood.has(actor) {
            return action;
        }
    }
    consumer(dice, mood.is_kcp)
}

fn consumer(dice: &mut Dice, is_kcp: bool) -> Action {
    let source = source(dice, is_kcp);
    match dice.below(10) {
        0..=5 => Action::Create(source),
        6..=7 => Action::Change(source),
        _ => Action::Delete(source),
    }
}

/// Something that a tenant does, or that is done to its objects.
pub fn of_tenants(dice: &mut Dice) -> Action {
    match dice.below(5) {
        0 | 1 => consumer(dice, true),
        2 => tenant(dice, true),
        3 => secrets(dice, true),
        _ => finalizers(dice, true),
    }
}

fn finalizers(dice: &mut Dice, is_kcp: bool) -> Action {
    let source = source(dice, is_kcp);
    match dice.below(5) {
        4 => Action::Forge(source),
        0 => Action::Recreate(source),
        1 => Action::Strip(source),
        _ => Action::Label(source),
    }
}

/// What is done to Secrets on either side, and to the claim for them.
fn secrets(dice: &mut Dice, is_kcp: bool) -> Action {
    use Secrecy::{Delete, DeleteCopy, EditCopy, Put, Rename, Retype, Squat};
    let source = source(dice, is_kcp);
    let (side, secrecy) = match dice.below(16) {
        0..=2 => (Side::Source, Put),
        3 => (Side::Source, Delete),
        4 => (Side::Source, Retype),
        5 => (Side::Source, Rename),
        6 => (Side::Source, EditCopy),
        7 => (Side::Source, DeleteCopy),
        8 => (Side::Source, Squat),
        9 => (Side::Target, dice.pick(&[EditCopy, DeleteCopy, Squat])),
        10 => (Side::Target, dice.pick(&[Delete, Retype])),
        11 | 12 if is_kcp => return Action::Unclaim(source.tenant),
        13 if is_kcp => return Action::Claim(source.tenant),
        _ => (Side::Target, Put),
    };
    Action::Secret(source, side, secrecy)
}

fn author(dice: &mut Dice) -> Action {
    Action::Edit(match dice.below(29) {
        0..=2 => Edit::Resource(dice.pick(&RESOURCES).0),
        3..=5 => Edit::Toggle(dice.pick(&["ca", "extra", "widget"])),
        6 => Edit::Edition,
        7..=8 => Edit::Selector,
        9 => Edit::OnExit(dice.pick(&["Retain", "Delete", "Orphan"])),
        10 => Edit::OnSourceDelete(dice.pick(&["Delete", "Orphan"])),
        11 => Edit::OnMappingRemoved(dice.pick(&["Retain", "Delete", "Orphan"])),
        12 => match dice.below(3) {
            0 => Edit::Name(dice.pick(&["", "-2"])),
            1 => Edit::Kind(dice.pick(&["ConfigMap", "Secret"])),
            _ => Edit::Id(dice.pick(&["main", "first"])),
        },
        13 => Edit::Rename(dice.pick(&MAPPINGS)),
        14 => Edit::Remove,
        15 => Edit::When,
        16 => Edit::Namespace(dice.pick(&NAMESPACES)),
        17 => Edit::OnIdentityChange(dice.pick(&["Block", "Orphan", "Recreate"])),
        18 => Edit::OnSourceVanished(dice.pick(&["Retain", "Delete"])),
        19 => Edit::OnSourceRecreated(dice.pick(&["Adopt", "Block", "Replace"])),
        20 => Edit::Drift(dice.pick(&["Correct", "Report", "Ignore"])),
        21 => Edit::DeletePolicy(dice.pick(&["Delete", "Orphan"])),
        22 => Edit::MaxLost(dice.pick(&[0, OPEN])),
        23 if dice.percent(50) => Edit::NoStatus("size"),
        23 => Edit::Status(dice.pick(&["edition", "size"])),
        24..=25 => Edit::Guest,
        26 => Edit::Mode(dice.pick(&["Enforce", "Enforce", "Observe", "Suspend"])),
        27 => Edit::Related(dice.pick(&[PASSWORD.id, CONNECTION.id])),
        _ => Edit::Break,
    })
}

fn provider(dice: &mut Dice) -> Action {
    if dice.percent(50) { Action::Approve } else { Action::Schema }
}

fn network(dice: &mut Dice) -> Action {
    match dice.below(8) {
        0 => Action::Away(side(dice)),
        1 => Action::Back(side(dice)),
        2 => Action::Cut(side(dice)),
        3 => Action::Silence(side(dice)),
        4 => Action::Compact(side(dice)),
        _ => Action::Weather(weather(dice)),
    }
}

fn operator(dice: &mut Dice) -> Action {
    let process = if dice.percent(15) { OTHER } else { dice.below(2) as u32 };
    match dice.below(13) {
        8 => Action::Pause(process),
        9 => Action::Resume(process),
        10 => Action::Skew(process, dice.between(0, 7200) as i64 - 3600),
        11 => Action::Address(side(dice)),
        12 => Action::Token(side(dice)),
        0..=2 => Action::Crash(process),
        3 => Action::Stop(process),
        4 => Action::Jump(dice.between(0, 7200) as i64 - 3600),
        _ => Action::Start(process),
    }
}

fn backups(dice: &mut Dice, is_kcp: bool) -> Action {
    let side = if dice.percent(75) { Side::Source } else { Side::Target };
    match dice.below(9) {
        0..=3 => Action::BackUp(side),
        4 if !is_kcp => Action::Rebuild(Side::Source, ahead(dice)),
        _ => Action::Restore(side, ahead(dice)),
    }
}

fn people(dice: &mut Dice, is_kcp: bool) -> Action {
    use Meddling::{Copy, Delete, Edit, Hold, Squat, Strip};
    let source = source(dice, is_kcp);
    match dice.below(16) {
        12 => Action::Plant(source),
        13..=14 => Action::Unserve,
        15 => Action::Serve,
        0 => Action::DeleteNamespace(source),
        1..=2 => Action::Release,
        3 => Action::NoWidgets,
        4 => Action::Widgets,
        _ => Action::Meddle(source, dice.pick(&[Edit, Delete, Strip, Copy, Hold, Squat])),
    }
}

fn admission(dice: &mut Dice) -> Action {
    match dice.below(4) {
        0 => Action::Allow,
        _ => Action::Deny(dice.pick(&["apply", "delete", "create", "patch"])),
    }
}

fn tenant(dice: &mut Dice, is_kcp: bool) -> Action {
    let tenant = dice.pick(&TENANTS);
    match dice.below(6) {
        _ if !is_kcp => consumer(dice, is_kcp),
        0..=1 => Action::Unbind(tenant),
        2..=3 => Action::Bind(tenant),
        4 => Action::DeleteWorkspace(tenant),
        _ => Action::CreateWorkspace(tenant),
    }
}

fn weather(dice: &mut Dice) -> Weather {
    if dice.percent(30) {
        return Weather::default();
    }
    let mut chance = |most: u64| if dice.percent(35) { dice.between(1, most) } else { 0 };
    Weather {
        lost_before: chance(30),
        lost_after: chance(30),
        late: chance(40),
        slow: chance(60),
        conflict: chance(30),
        busy: chance(30),
        broken: chance(30),
        forbidden: chance(20),
        doubled: chance(60),
        merged: chance(60),
        dropped: chance(20),
        only_writes: chance(2) == 1,
    }
}
