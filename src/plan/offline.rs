//! What the documents of a mapping make of one source, one after the other, without any cluster: each plan is followed to its end
//! on every target, on what the document before it made. Whatever is made is taken for ready.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::decision::Decision;
use super::objects::Objects;
use super::observed::{Kinds, Observed, Outcome, Phase, Pin, Source, TargetObject};
use super::preview::{SETTLED, Scene, there};
use super::rehearsal::{self, Imagined};
use super::targets::{self, OtherTarget, Reach, TargetContext};
use super::{Action, Cause, Reason, Reasons, live, plan};
use crate::mapping::{Mapping, Side, TargetChoice};
use crate::object::marks::{Reference, Writer};

/// How often each of several targets is planned: what one does, the others see.
const PASSES: usize = 8;

/// A source, and what there is of it.
#[derive(Debug, Clone, Default)]
pub struct World {
    pub source: Arc<Value>,
    /// By target; `None`: beside the source.
    on: BTreeMap<Option<String>, Objects>,
    /// What was there before any document: it is as ready as it says.
    given: BTreeSet<Reference>,
}

#[derive(Debug, Default)]
pub struct Steps {
    pub writes: Vec<Imagined>,
    /// `None`: it does not come to an end.
    pub rest: Option<Reasons>,
    /// Objects that stay as they are although the document has another wish, or none, and why.
    pub kept: Vec<(TargetObject, Reason)>,
}

impl World {
    /// What a scene has of a source, as an engine finds it that does not serve it yet.
    pub fn of(mapping: &Mapping, scene: &Scene) -> Self {
        let mut source = Value::clone(&scene.source);
        if let Some(metadata) = source["metadata"].as_object_mut() {
            metadata.remove("finalizers");
            if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                annotations.remove(Writer::new(&scene.engine, &mapping.name).target_annotation());
            }
            // Patches are bound to it.
            metadata.entry("resourceVersion").or_insert_with(|| json!("1"));
        }
        let mut world = Self { source: Arc::new(source), ..Self::default() };
        there(mapping, scene).iter().for_each(|(target, objects)| world.put(target, objects));
        world.given = world.objects().map(|one| one.reference.clone()).collect();
        world
    }

    pub fn objects(&self) -> impl Iterator<Item = &TargetObject> {
        self.on.values().flat_map(|objects| objects.iter())
    }

    /// Follows a document on each target, by the name of that. `others`: what other mappings have of the source.
    pub fn follow(
        &mut self,
        mapping: &Mapping,
        scene: &Scene,
        phase: Phase,
        others: &[&Self],
    ) -> BTreeMap<String, Steps> {
        let mut source = Value::clone(&scene.source);
        for field in ["metadata", "status"] {
            if let Some(value) = self.source.get(field) {
                source[field] = value.clone();
            }
        }
        self.source = Arc::new(source);
        let names = self.targets(mapping, scene);
        let mut all: BTreeMap<String, Steps> = names.iter().map(|name| (name.clone(), Steps::default())).collect();
        for _ in 0..PASSES {
            let mut is_settled = true;
            for name in &names {
                let mut observed = self.observed(mapping, scene, (name.as_str(), &all));
                let foreign = others.iter().flat_map(|world| world.at(name));
                observed.answers.foreign = foreign.map(|one| (one.reference.clone(), one.object.clone())).collect();
                observed.phase = phase;
                let mut steps = self.settle(mapping, &mut observed);
                self.put(name, &observed.objects);
                self.source = observed.present().unwrap_or(&self.source).clone();
                is_settled &= steps.writes.is_empty();
                let mut writes = all.remove(name).unwrap_or_default().writes;
                writes.append(&mut steps.writes);
                all.insert(name.clone(), Steps { writes, ..steps });
            }
            if is_settled || names.len() == 1 {
                break;
            }
        }
        // Nobody looks after what is on any other target.
        for (name, objects) in self.on.iter().filter_map(|(name, objects)| Some((name.as_ref()?, objects))) {
            let detail = format!("`{name}` is not a target of the mapping any more");
            let why = Reason { cause: Cause::TargetChanged, detail };
            let kept = objects.iter().map(|one| (one.clone(), why.clone())).collect();
            all.entry(name.clone()).or_insert(Steps { kept, rest: Some(Reasons::default()), ..Steps::default() });
        }
        all
    }

    /// The targets that a document is planned for: those that it names, and those that have objects of former ones.
    fn targets(&self, mapping: &Mapping, scene: &Scene) -> BTreeSet<String> {
        let Some(rule) = &mapping.target_rule else { return BTreeSet::from([mapping.target.clone()]) };
        let observed = scene.observed(mapping);
        let choices = targets::of(mapping, &observed, &scene.source);
        // Nobody knows here which clusters a provider has: one stands for all.
        let is_open = choices.is_err() || matches!(rule.choice, TargetChoice::All);
        let chosen = choices.iter().flat_map(|all| all.iter()).filter_map(|choice| choice.cluster.clone().ok());
        let mut names: BTreeSet<String> = chosen.chain(rule.allowed.iter().cloned()).collect();
        if names.is_empty() && is_open {
            names.insert(String::new());
        }
        names.extend(self.on.keys().flatten().filter(|name| !name.is_empty()).cloned());
        names
    }

    /// What there is on a target, and beside the source.
    fn at(&self, target: &str) -> impl Iterator<Item = &TargetObject> {
        let there = [None, Some(target.to_owned())];
        there.into_iter().filter_map(move |target| self.on.get(&target)).flat_map(|objects| objects.iter())
    }

    fn put(&mut self, target: &str, objects: &Objects) {
        let is_beside = |one: &TargetObject| one.reference.kind.side == Side::Source;
        let (beside, there): (Vec<_>, Vec<_>) = objects.iter().cloned().partition(is_beside);
        self.on.insert(None, beside.into_iter().collect());
        self.on.insert(Some(target.to_owned()), there.into_iter().collect());
    }

    fn observed(&self, mapping: &Mapping, scene: &Scene, (name, all): (&str, &BTreeMap<String, Steps>)) -> Observed {
        let mut observed = scene.observed(mapping);
        observed.source = Ok(Source::Present(self.source.clone()));
        observed.objects = self.at(name).cloned().collect();
        observed.objects.in_use = observed.objects.shared().map(|one| (one.shared_place(), false)).collect();
        if let Ok(Kinds(kinds)) = &mut observed.target.kinds {
            kinds.extend(observed.objects.iter().map(|one| (one.reference.kind.clone(), Ok(()))));
        }
        let there = observed.objects.iter().map(|one| &one.reference).filter(|one| one.kind.side == Side::Target);
        let used: BTreeSet<String> = there.map(|one| one.namespace.clone()).collect();
        observed.target.places.extend(used.iter().cloned());
        observed.target.namespaces = used;
        observed.target.pin = Some(Pin { connection: name.to_owned(), identity: name.to_owned() });
        let other = |name: &String, steps: &Steps| OtherTarget {
            reach: Reach::Seen,
            identity: Some(name.clone()),
            url: None,
            objects: self.on.get(&Some(name.clone())).cloned().unwrap_or_default(),
            unsettled: steps.rest.as_ref().and_then(Reasons::of_target),
        };
        observed.among = mapping.target_rule.as_ref().filter(|_| !name.is_empty()).map(|rule| {
            let provider = rule.fleet.as_ref().map(|fleet| fleet.provider.as_str());
            let is_selected = |name: &&String| name.split_once('/').is_some_and(|(of, _)| provider == Some(of));
            TargetContext {
                name: name.to_owned(),
                selected: Arc::new(all.keys().filter(is_selected).cloned().collect()),
                targets: Arc::new(all.iter().map(|(name, steps)| (name.clone(), other(name, steps))).collect()),
            }
        });
        observed
    }

    /// Follows the plan for one target to its end.
    fn settle(&self, mapping: &Mapping, observed: &mut Observed) -> Steps {
        let is_made = |one: &Reference| one.kind.side == Side::Target && !self.given.contains(one);
        let mut steps = Steps::default();
        for _ in 0..SETTLED {
            let there = self.objects().chain(observed.objects.iter()).map(|one| &one.reference);
            observed.study.supposed = there.filter(|one| !self.given.contains(*one)).cloned().collect();
            let decisions = Arc::new(Mutex::new(Vec::new()));
            observed.study.decisions = Some(decisions.clone());
            let (actions, rest) = plan(mapping, observed).into_steps();
            for action in actions {
                let outcome = match &action {
                    // Nobody else writes it, so that it is what is applied.
                    Action::Apply { reference, body, .. } if is_made(reference) => Outcome::Object(body.clone()),
                    action => rehearsal::expected(action, observed).unwrap_or(Outcome::Absent),
                };
                if action.verb().is_some() {
                    steps.writes.push(Imagined::new(&action, observed, &outcome));
                }
                observed.absorb(&action, outcome);
            }
            if let Some(rest) = rest {
                let written: BTreeSet<_> = steps.writes.iter().filter_map(|write| write.action.reference()).collect();
                let left = observed.objects.iter().filter(|one| !written.contains(&one.reference));
                let why = |one: &TargetObject| reasons(&decisions.lock(), &rest, one);
                let kept = left.flat_map(|one| why(one).into_iter().map(move |why| (one.clone(), why)));
                steps.kept = kept.collect();
                steps.rest = Some(rest);
                break;
            }
        }
        steps
    }
}

/// Why a plan leaves an object as it is. One that decides on no object has the same reasons for all.
fn reasons(decisions: &[Decision], rest: &Reasons, object: &TargetObject) -> Vec<Reason> {
    if decisions.is_empty() {
        return rest.0.clone();
    }
    let ids = [object.object_id(), object.rule_id()];
    let about = decisions.iter().filter(|decision| ids.contains(&decision.id.as_str()));
    about.flat_map(|one| one.reasons.0.iter().map(|why| why.clone().within(&live::what(&one.id)))).collect()
}
