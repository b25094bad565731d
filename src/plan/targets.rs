//! Several targets of one mapping: which of them a source's objects go to, and what one of them has to do about it.
//!
//! A plan is for one target. They agree by the annotation on the source that names the targets which may hold objects of it: a
//! target is added there before the first write to it, and removed once an uncached read found nothing left. The last one
//! releases the finalizer. One of them tells of all in the source's status, once the others are planned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::objects::Objects;
use super::observed::{Kinds, Observed, Pin, Target};
use super::readiness::Case;
use super::render::{self, Rendering};
use super::{Cause, Reason, Reasons, each, source};
use crate::mapping::expression::Scope;
use crate::mapping::template::{Text, Unrendered};
use crate::mapping::{Mapping, Side, TargetChange, TargetChoice, TargetRule};
use crate::object::{has_finalizer, metadata};

/// One of several targets of a mapping, and what is known of the others.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TargetContext {
    pub name: String,
    /// The clusters of the provider that may be targets now.
    pub selected: Arc<BTreeSet<String>>,
    /// All that run.
    pub targets: Arc<BTreeMap<String, OtherTarget>>,
}

impl TargetContext {
    /// Another target that runs.
    pub fn other(&self, name: &str) -> Option<&OtherTarget> {
        self.targets.get(name).filter(|_| *name != self.name)
    }

    /// Whether what a target has of a source can be told.
    pub fn is_seen(&self, name: &str) -> bool {
        self.other(name).map_or(*name == self.name, |other| other.reach == Reach::Seen)
    }

    /// The others that run.
    pub fn others(&self) -> impl Iterator<Item = (&String, &OtherTarget)> {
        self.targets.iter().filter(|(name, _)| **name != self.name)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OtherTarget {
    pub reach: Reach,
    /// Hash of its identity, where that is confirmed.
    pub identity: Option<String>,
    /// Address of its server, which no consumer reads.
    pub url: Option<String>,
    /// What it has of the source; nothing, where nobody reads it.
    pub objects: Objects,
    /// Why the source is not in sync there, as [`Reasons::of_target`] tells it.
    pub unsettled: Option<Reason>,
}

/// Whether what a target has of a source is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// Not yet.
    Starting,
    /// Its cluster cannot be reached.
    Lost,
    Seen,
}

/// One target that a source's objects go to.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// By which expressions know it.
    pub key: String,
    /// What it was made from.
    pub item: Option<Arc<Value>>,
    /// The target, or why there is none.
    pub cluster: Result<String, String>,
}

/// What one of several targets has to do about a source that passes the filter.
#[derive(Debug, PartialEq)]
pub enum Share {
    /// The source's objects go there.
    Wanted,
    /// They went there, and no longer do, or came there late.
    Leaving,
    /// They went there, and somebody removed the finalizer: it has to be back before anything else.
    Released,
    /// They do not go there.
    Elsewhere,
    /// They are on another target than the mapping now gives.
    Moved(Reason),
}

/// The targets of a source. One that cannot be told does not keep the others from being known.
fn choices(rule: &TargetRule, among: Option<&TargetContext>, scope: &Scope) -> Result<Vec<Choice>, Unrendered> {
    match &rule.choice {
        TargetChoice::One { cluster, .. } => {
            let name = named(rule, among, cluster, scope)?.map_err(Unrendered::Failed)?;
            Ok(vec![Choice { key: name.clone(), item: None, cluster: Ok(name) }])
        }
        TargetChoice::Each { each, cluster } => {
            let mut scope = scope.clone();
            let mut all: Vec<Choice> = Vec::new();
            for (key, item) in each::keyed(each, &mut scope).map_err(|why| why.within("targets"))? {
                scope.set_local(&each.item, item.clone());
                let cluster = match named(rule, among, cluster, &scope) {
                    Err(Unrendered::Waiting(what)) => return Err(Unrendered::Waiting(what)),
                    Err(Unrendered::Failed(why)) => Err(why),
                    Ok(cluster) => cluster,
                };
                let same = all.iter().find(|earlier| cluster.is_ok() && earlier.cluster == cluster);
                let cluster = match same {
                    Some(earlier) => Err(format!("it is on the same cluster as `{}`", earlier.key)),
                    None => cluster,
                };
                all.push(Choice { key, item: Some(item), cluster });
            }
            Ok(all)
        }
        TargetChoice::All => {
            let selected = among.iter().flat_map(|among| &*among.selected);
            let all: BTreeSet<&String> = rule.allowed.iter().chain(selected).collect();
            let mut times = BTreeMap::<&str, usize>::new();
            all.iter().for_each(|name| *times.entry(short(name)).or_default() += 1);
            let key = |name: &str| String::from(if times[short(name)] == 1 { short(name) } else { name });
            Ok(all.iter().map(|name| Choice { key: key(name), item: None, cluster: Ok((*name).clone()) }).collect())
        }
    }
}

/// The name of a cluster without that of its provider.
fn short(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// What a mapping's rule gives for a source.
type Choices = Result<Arc<[Choice]>, Unrendered>;

/// The targets of a source as they were evaluated and read last, so that a reconcile does that once for all of them.
#[derive(Debug, Clone, Default)]
pub struct Evaluated {
    choices: Arc<Mutex<Option<(Basis, Choices)>>>,
    pins: Arc<Mutex<Option<PinsOf>>>,
}

/// A source, and its pins.
type PinsOf = (Arc<Value>, Pins);

/// The targets that a source was synced to: identity by connection.
pub type Pins = Arc<BTreeMap<String, String>>;

/// What they were evaluated from: the source, and the clusters that may be targets.
type Basis = (Arc<Value>, Option<Arc<BTreeSet<String>>>);

/// The targets of a source; none, where the mapping has one for all.
///
/// # Errors
/// What stands in the way of all of them.
pub fn of(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Choices {
    let Some(rule) = &mapping.target_rule else { return Ok(Arc::default()) };
    let tell = || {
        let all = choices(rule, observed.among.as_ref(), &render::source_scope(mapping, observed, source));
        all.map(Arc::from)
    };
    if observed.study.recorder.is_some() {
        return tell();
    }
    let selected = observed.among.as_ref().map(|among| &among.selected);
    let is_same =
        |(of, among): &Basis| Arc::ptr_eq(of, source) && among.as_ref().map(Arc::as_ptr) == selected.map(Arc::as_ptr);
    let mut known = observed.study.evaluated_targets.choices.lock();
    match &*known {
        Some((basis, all)) if is_same(basis) => all.clone(),
        _ => known.insert(((source.clone(), selected.cloned()), tell())).1.clone(),
    }
}

/// The targets that a source was synced to. A fleet may have a thousand, and the plan for each asks several times.
pub fn known_pins(observed: &Observed, source: &Value) -> Pins {
    let read = || Arc::new(source::pins(&observed.subject.writer, source));
    let Some(present) = observed.present().filter(|present| std::ptr::eq(&***present, source)) else { return read() };
    let mut known = observed.study.evaluated_targets.pins.lock();
    match &*known {
        Some((of, pins)) if Arc::ptr_eq(of, present) => pins.clone(),
        _ => known.insert((present.clone(), read())).1.clone(),
    }
}

/// The target that a text names; the inner error: it is none that there may be.
fn named(
    rule: &TargetRule,
    among: Option<&TargetContext>,
    cluster: &Text,
    scope: &Scope,
) -> Result<Result<String, String>, Unrendered> {
    let field = if rule.is_several() { "targets.cluster" } else { "target.cluster" };
    let name = cluster.render(scope).map_err(|why| why.within(field))?;
    let is_of_fleet = || match (&rule.fleet, among) {
        (Some(_), Some(among)) => among.selected.contains(&name),
        // Without an engine, nobody knows which clusters there are.
        (Some(fleet), None) => name.split_once('/').is_some_and(|(provider, cluster)| {
            provider == fleet.provider && (fleet.names.is_empty() || fleet.names.iter().any(|one| one == cluster))
        }),
        (None, _) => false,
    };
    if rule.allowed.contains(&name) || is_of_fleet() {
        return Ok(Ok(name));
    }
    let named = rule.allowed.iter().map(|name| format!("`{name}`"));
    let fleet = rule.fleet.iter().map(|fleet| format!("clusters of `{}`", fleet.provider));
    let allowed: Vec<String> = named.chain(fleet).collect();
    Ok(Err(format!("{field}: it gives none of the targets that are allowed ({})", allowed.join(", "))))
}

/// The names by which a source with several targets calls them.
pub fn keys(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> BTreeSet<String> {
    if !mapping.has_several_targets() {
        return BTreeSet::new();
    }
    of(mapping, observed, source).unwrap_or_default().iter().map(|choice| choice.key.clone()).collect()
}

/// What this target has to do about a source that passes the filter.
///
/// # Errors
/// Why the source's targets cannot be told.
pub fn share(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Result<Share, Unrendered> {
    let Some((rule, among)) = mapping.target_rule.as_ref().zip(observed.among.as_ref()) else {
        return Ok(Share::Wanted);
    };
    let choices = of(mapping, observed, source)?;
    let is_chosen = choices.iter().any(|choice| choice.cluster.as_ref() == Ok(&among.name));
    let pins = known_pins(observed, source);
    let own = own_pins(observed, &pins);
    let has_finalizer = has_finalizer(source, observed.subject.writer.finalizer());
    let is_here = has_finalizer && !own.is_empty();
    // Who strips the finalizer leaves the names of the targets.
    let is_released = observed.target.pin.is_some() && !has_finalizer && !own.is_empty();
    // That this target was another cluster is no move.
    let is_elsewhere = |name: &&String| **name != among.name && !own.contains(name);
    let elsewhere = || pins.keys().filter(is_elsewhere).collect::<BTreeSet<_>>();
    let is_complete = choices.iter().all(|choice| choice.cluster.is_ok());
    let wanted = || choices.iter().filter_map(|choice| choice.cluster.clone().ok()).collect::<Vec<_>>().join("`, `");
    Ok(match (&rule.choice, is_here, is_chosen) {
        (_, true, true) => Share::Wanted,
        (TargetChoice::One { on_change: TargetChange::Block, .. }, true, false) => Share::Moved(Reason {
            cause: Cause::TargetChanged,
            detail: format!(
                "its objects are on target `{}`, and the mapping now gives `{}`: set onTargetChange to Recreate to delete \
                 them there and to create them anew, or go back to the former target",
                among.name,
                wanted(),
            ),
        }),
        (TargetChoice::One { .. }, true, false) => match choices.iter().find_map(|choice| unreached(among, choice)) {
            Some(reason) => Share::Moved(reason),
            None => Share::Leaving,
        },
        (TargetChoice::Each { .. }, true, false) if is_complete => Share::Leaving,
        // A cluster that is out of sight, or was relabelled, is no reason to delete what it has.
        (TargetChoice::Each { .. } | TargetChoice::All, true, false) => Share::Moved(Reason {
            cause: Cause::Retained,
            detail: format!("target `{}` is not among the source's targets now: what it has is kept", among.name),
        }),
        (TargetChoice::One { .. }, false, true) if !elsewhere().is_empty() => moved_from(among, &elsewhere()),
        (_, false, true) => Share::Wanted,
        (_, false, false) if is_released => Share::Released,
        (_, false, false) if observed.target.was_let_go && is_complete => Share::Leaving,
        (_, false, false) => Share::Elsewhere,
    })
}

/// Whether this target tells what the status of a source says of all targets: the first one that may have objects of it, of those
/// that it goes to before those that it leaves. One that cannot leaves it to the next one.
pub fn reports_for_all(
    mapping: &Mapping,
    observed: &Observed,
    source: &Arc<Value>,
    can_report: impl Fn(&str) -> bool,
) -> bool {
    let Some(among) = observed.among.as_ref().filter(|_| mapping.has_several_targets()) else { return true };
    let Ok(choices) = of(mapping, observed, source) else { return true };
    let can_report = |name: &&String| can_report(name);
    let pins = known_pins(observed, source);
    let is_here = !own_pins(observed, &pins).is_empty();
    let has_any = |name: &&String| pins.contains_key(*name) || **name == among.name && is_here;
    let chosen = || choices.iter().filter_map(|choice| choice.cluster.as_ref().ok()).filter(can_report);
    let all = || known(among).into_iter().filter(can_report);
    let first = chosen().find(has_any).or_else(|| all().find(has_any)).or_else(|| chosen().next());
    first.is_none_or(|name| *name == among.name)
}

/// This target and the others that run, by name.
fn known(among: &TargetContext) -> BTreeSet<&String> {
    among.targets.keys().chain([&among.name]).collect()
}

/// The targets that a source goes to and that are in sight, each with its identity.
pub fn in_sight(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Vec<(String, String)> {
    let Some(among) = &observed.among else { return Vec::new() };
    let choices = of(mapping, observed, source).unwrap_or_default();
    let seen = |name: &String| among.other(name).filter(|other| other.reach == Reach::Seen);
    let pair = |name: &String| Some((name.clone(), seen(name)?.identity.clone()?));
    choices.iter().filter_map(|choice| pair(choice.cluster.as_ref().ok()?)).collect()
}

/// Why a source does not leave for a target yet: what it has is not deleted for one that cannot receive it.
fn unreached(among: &TargetContext, choice: &Choice) -> Option<Reason> {
    let name = choice.cluster.as_ref().ok()?;
    let is_reached = |other: &OtherTarget| other.identity.is_some() && other.reach != Reach::Lost;
    let why = || format!("its new target `{name}` is not given, or cannot be reached: it stays on `{}`", among.name);
    (!among.other(name).is_some_and(is_reached)).then(|| Reason::waiting(why()))
}

/// The source is to move here. The target that it is on reports that, or takes the objects away first.
fn moved_from(among: &TargetContext, targets: &BTreeSet<&String>) -> Share {
    // The former target alone reports, so that none overwrites what the other wrote.
    let is_served = |name: &&String| among.other(name).is_some();
    match targets.iter().all(is_served) {
        true => Share::Elsewhere,
        false => Share::Moved(unserved(targets.iter().copied().filter(|name| !is_served(name)))),
    }
}

fn unserved<'n>(names: impl Iterator<Item = &'n String>) -> Reason {
    Reason {
        cause: Cause::TargetChanged,
        detail: format!(
            "it may have objects on `{}`, which is not a target of the engine (any more): give the engine that connection; or, \
             if it is lost, run `sync-engine uninstall --lost-target`",
            names.map(String::as_str).collect::<Vec<_>>().join("`, `"),
        ),
    }
}

/// Why the finalizer of a source stays that has nothing on any target of the mapping.
pub fn pinned_to_none(observed: &Observed, source: &Value) -> Option<Reason> {
    let among = observed.among.as_ref().filter(|_| has_finalizer(source, observed.subject.writer.finalizer()))?;
    let pins = known_pins(observed, source);
    let is_served = |name: &String| *name == among.name || among.targets.contains_key(name);
    (!pins.is_empty() && !pins.keys().any(is_served)).then(|| unserved(pins.keys()))
}

/// Names under which a source is pinned to this target: its own, and one that it had before, which no target has now.
pub fn own_pins(observed: &Observed, pins: &BTreeMap<String, String>) -> Vec<String> {
    let is_others = |name: &String| observed.among.as_ref().is_some_and(|among| among.other(name).is_some());
    let is_own = |(name, identity): &(&String, &String)| match (&observed.target.pin, &observed.among) {
        (Some(pin), _) => **identity == pin.identity && !is_others(name),
        // Which cluster it is now is not confirmed.
        (None, Some(among)) => **name == among.name,
        (None, None) => true,
    };
    pins.iter().filter(is_own).map(|(name, _)| name.clone()).collect()
}

/// Whether the finalizer of a source is about objects on this target.
pub fn is_held_here(observed: &Observed, source: &Value) -> bool {
    observed.among.is_none() || !own_pins(observed, &known_pins(observed, source)).is_empty()
}

/// Whether another target tells of a source that has one, so that none overwrites what the other wrote. Of those that it is pinned to,
/// the one that it names now does, or else the first.
pub fn is_told_elsewhere(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> bool {
    let Some(among) = observed.among.as_ref().filter(|_| !mapping.has_several_targets()) else { return false };
    let pins = known_pins(observed, source);
    let is_here = !own_pins(observed, &pins).is_empty();
    let has_any = |name: &&String| if **name == among.name { is_here } else { pins.contains_key(*name) };
    let pinned: Vec<&String> = known(among).into_iter().filter(has_any).collect();
    let choices = of(mapping, observed, source).unwrap_or_default();
    let is_chosen = |name: &&&String| choices.iter().any(|choice| choice.cluster.as_ref() == Ok(**name));
    let teller = pinned.iter().find(is_chosen).or(pinned.first());
    teller.is_some_and(|name| **name != among.name)
}

/// A source whose pins somebody removed may have objects on any target. It is released by whoever sees that none has any.
pub fn is_held_by_none(observed: &Observed, source: &Value) -> bool {
    let Some(among) = &observed.among else { return false };
    let is_known_empty = |other: &OtherTarget| other.reach == Reach::Seen && is_empty(&other.objects);
    let mut others = among.others().map(|(_, other)| other);
    has_lost_its_pins(observed, source) && is_empty(&observed.objects) && others.all(is_known_empty)
}

/// Whether a source names no target that it was synced to, although it was.
pub fn has_lost_its_pins(observed: &Observed, source: &Value) -> bool {
    has_finalizer(source, observed.subject.writer.finalizer()) && known_pins(observed, source).is_empty()
}

fn is_empty(objects: &Objects) -> bool {
    !objects.own().any(|one| one.reference.kind.side == Side::Target)
}

/// Why nothing may be written to a target that is the cluster of another target of the mapping.
pub fn double(among: &TargetContext, pin: Option<&Pin>) -> Option<String> {
    let identity = &pin?.identity;
    let (other, _) = among.others().find(|(_, other)| other.identity.as_ref() == Some(identity))?;
    Some(format!("target `{}`: it is the same cluster as `{other}`; name one of them in the mapping", among.name))
}

/// What is reported of a source with several targets: the reasons of every target. `None`: one is not in sight yet, so that
/// nothing can be said of them all.
pub fn overall(mapping: &Mapping, observed: &Observed, source: &Arc<Value>, own: &Reasons) -> Option<Reasons> {
    let among = observed.among.as_ref().filter(|_| mapping.has_several_targets());
    let Some(among) = among else { return Some(own.clone()) };
    let Ok(choices) = of(mapping, observed, source) else {
        return Some(own.clone());
    };
    let mut all = Reasons::default();
    let pins = known_pins(observed, source);
    // What leaves a target is told as well.
    let chosen = |name: &String| choices.iter().any(|choice| choice.cluster.as_ref() == Ok(name));
    let left: BTreeSet<&String> = known(among).into_iter().filter(|name| !chosen(name)).collect();
    // A source that was restored may name fewer targets than have objects of it. What an earlier one left is none of its.
    let uid = metadata(source, "uid");
    let has_any = |name: &String| {
        let mut there = among.other(name).into_iter().flat_map(|other| other.objects.own());
        there.any(|one| one.reference.kind.side == Side::Target && one.source_uid() == uid)
    };
    let left = left.into_iter().map(|name| (name, Ok(name), pins.contains_key(name) || has_any(name)));
    let given = choices.iter().map(|choice| (&choice.key, choice.cluster.as_ref(), true));
    for (key, cluster, has_objects) in given.chain(left) {
        let mut tell = |cause, why: &str| all.push(cause, format!("target `{key}`: {why}"));
        let other = match cluster {
            Err(why) => {
                tell(Cause::RenderFailed, why);
                continue;
            }
            Ok(name) if *name == among.name => {
                own.0.iter().for_each(|reason| tell(reason.cause, &reason.detail));
                continue;
            }
            Ok(name) => among.other(name),
        };
        match other.map(|other| (other.reach, &other.unsettled)) {
            None => tell(Cause::Waiting, "there is no such cluster now"),
            Some((Reach::Seen, Some(why))) if has_objects || why.cause != Cause::Unknown => {
                tell(why.cause, &why.detail)
            }
            // One that left its provider is not waited for, whether it can be reached or not.
            Some((Reach::Lost, Some(why))) if why.cause == Cause::Retained => tell(why.cause, &why.detail),
            // It may have orphaned objects, also where the source does not name it.
            Some((Reach::Starting, _)) => return None,
            Some((Reach::Lost, _)) if has_objects => tell(Cause::Waiting, "its cluster cannot be reached"),
            Some(_) => {}
        }
    }
    Some(all)
}

/// The root `targets`: what each target of a source has, by its key. `reasons`: why the source is not in sync on this one.
pub fn view(
    mapping: &Mapping,
    observed: &Observed,
    source: &Arc<Value>,
    own: &Rendering,
    reasons: Option<Cause>,
) -> Value {
    if mapping.target_rule.is_none() {
        return Value::Null;
    }
    let among = observed.among.as_ref();
    let mut all = Map::new();
    for Choice { key, cluster, .. } in of(mapping, observed, source).unwrap_or_default().iter() {
        let nothing = |reason: &str| json!({"ready": false, "reason": reason, "objects": {}});
        let seen = match (cluster, among) {
            (Err(_), _) => nothing(Cause::RenderFailed.as_str()),
            (Ok(name), Some(among)) if *name != among.name => match among.other(name) {
                Some(other) => there(mapping, observed, source, name, other),
                None => nothing("Missing"),
            },
            (Ok(name), _) => one(Case { mapping, observed, rendering: own }, name, reasons.and_then(trouble)),
        };
        all.insert(key.clone(), seen);
    }
    Value::Object(all)
}

/// What expressions read of the reason why a source is not in sync on a target. What cannot be seen yet is as it was.
fn trouble(cause: Cause) -> Option<&'static str> {
    (cause != Cause::Unknown).then_some(cause.as_str())
}

/// What another target has of a source.
fn there(mapping: &Mapping, observed: &Observed, source: &Arc<Value>, name: &str, other: &OtherTarget) -> Value {
    let there = from_there(mapping, observed, name, other);
    let why = match (other.reach, &other.unsettled) {
        (Reach::Lost, _) => Some("Unreachable"),
        (Reach::Starting, _) => Some("Starting"),
        (Reach::Seen, unsettled) => unsettled.as_ref().and_then(|why| trouble(why.cause)),
    };
    match render::render(mapping, &there, source) {
        Ok(rendering) => one(Case { mapping, observed: &there, rendering: &rendering }, name, why),
        Err(_) => json!({"ready": false, "reason": Cause::RenderFailed.as_str(), "cluster": name, "objects": {}}),
    }
}

/// The same source, observed from another target.
fn from_there(mapping: &Mapping, observed: &Observed, name: &str, other: &OtherTarget) -> Observed {
    let kinds = Ok(Kinds::in_sight(mapping.objects.iter().map(|rule| &rule.kind)));
    let among = observed.among.clone().unwrap_or_default();
    Observed {
        among: Some(TargetContext { name: name.to_owned(), targets: Arc::default(), ..among }),
        objects: other.objects.clone(),
        target: Target { kinds, ..observed.target.clone() },
        answers: super::Answers::default(),
        ..observed.clone()
    }
}

fn one(case: Case<'_>, name: &str, trouble: Option<&'static str>) -> Value {
    let Case { mapping, observed, rendering } = case;
    let unready = trouble.or_else(|| (!case.unready_objects().is_empty()).then_some("NotReady"));
    let mut objects = Map::new();
    for rule in mapping.objects.iter().filter(|rule| rule.copy.is_none()) {
        if rule.for_each.is_some() {
            let all = render::instances(observed, rule, &rendering.place);
            let keyed = all.filter_map(|one| Some((one.key()?.to_owned(), Value::clone(&one.object))));
            objects.insert(rule.id.clone(), Value::Object(keyed.collect()));
        } else if let Some(standing) = render::standing(observed, rule, &rendering.place) {
            objects.insert(rule.id.clone(), Value::clone(&standing.object));
        }
    }
    let reason = unready.unwrap_or("Ready");
    json!({"cluster": name, "ready": unready.is_none(), "reason": reason, "objects": objects})
}
