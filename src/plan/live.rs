//! Rows "live, in": a source that wants its objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::decision::{Decision, Evidence, Fit, Found, Row, Stage, Verdict, Wish, decide};
use super::observed::{ObjectState, Observed, Original, Sight, TargetObject};
use super::readiness::{Case, Waits};
use super::related::Related;
use super::render::{self, Desired, Instance, Rendered, Rendering, Wanted};
use super::{
    Action, Cause, Intent, Plan, Reason, Reasons, departure, each, merge_patch, on_source_recreated, owns_finalizer,
    related, source, status, target_changed, targets,
};
use crate::mapping::template::Unrendered;
use crate::mapping::{Adopt, Drift, Mapping, ObjectRule, Propagation, RELATED, Side, SourceRecreated};
use crate::object::compare::{Difference, differences, escape_pointer};
use crate::object::hash::tuple_hash;
use crate::object::marks::{self, Reference};
use crate::object::{metadata, shortened};

/// What one object comes to: something to do, something to wait for, or nothing.
#[derive(Debug, Default)]
pub struct Step {
    pub actions: Vec<Action>,
    pub reasons: Reasons,
}

/// Plans for a source that passes the filter.
pub fn live(
    mapping: &Mapping,
    observed: &Observed,
    source: &Arc<Value>,
    places: &mut Option<BTreeSet<String>>,
) -> Plan {
    if let Some(reason) = target_changed(observed, source) {
        return report_only(mapping, observed, source, reason);
    }
    if let Err(reason) = &observed.target.kinds {
        let is_told = observed.target.is_lost && !mapping.has_several_targets();
        return match is_told {
            true => report_only(mapping, observed, source, reason.clone()),
            false => Plan::Rest(Reasons(vec![reason.clone()])),
        };
    }
    match render::begin(mapping, observed, source) {
        Err(unrendered) => report_only(mapping, observed, source, unrendered.into()),
        Ok(begun) => {
            *places = mapping.has_shared().then(|| render::shared_places(mapping, &begun));
            let unread = related::unread(&begun.related);
            if !unread.is_empty() {
                return Plan::Act(unread.into_iter().map(Action::Read).collect());
            }
            converge(mapping, observed, source, &render::with_objects(mapping, observed, begun))
        }
    }
}

/// Where nothing can be decided on objects, the last decisions are kept: nothing but the reason is written, into the status.
pub fn report_only(mapping: &Mapping, observed: &Observed, source: &Arc<Value>, reason: Reason) -> Plan {
    say(mapping, observed, source, None, Reasons(vec![reason]))
}

fn converge(mapping: &Mapping, observed: &Observed, source: &Arc<Value>, rendering: &Rendering) -> Plan {
    let finalizer = owns_finalizer(observed, source);
    let live = Live { mapping, observed, rendering, finalizer, waits: Waits::default() };
    let mut all = Step::default();
    live.rules().for_each(|(rule, wanted)| all.extend(live.rule(rule, wanted)));
    all.extend(live.dropped());
    all.extend(live.no_longer_named());
    let mut asked = BTreeSet::new();
    all.actions.retain(|action| !matches!(action, Action::ReadAnew(original) if !asked.insert(original.clone())));
    if live.finalizer && !all.actions.is_empty() {
        return Plan::Act(live.with_namespace(all.actions));
    }
    if !all.actions.is_empty() {
        let others = targets::in_sight(mapping, observed, source);
        return Plan::Act(vec![source::add_finalizer(observed, source, others)]);
    }
    all.reasons.0.dedup();
    if observed.subject.hold.is_some() {
        return bootstrapped(&live, source, all.reasons);
    }
    let said = say(mapping, observed, source, Some(rendering), all.reasons);
    let reads = mapping.status.depends_on_related.iter().copied();
    if matches!(said, Plan::Last(..))
        && let Some(selection) = live.first_unconfirmed(reads)
    {
        return Plan::Act(vec![Action::ReadAnew(selection)]);
    }
    said
}

/// What the objects that a source wants still wait for, or fail at, once it has its finalizer.
pub fn unsettled(mapping: &Mapping, observed: &Observed, rendering: &Rendering) -> Reasons {
    let live = Live { mapping, observed, rendering, finalizer: true, waits: Waits::default() };
    let mut all = Step::default();
    live.rules().for_each(|(rule, wanted)| all.extend(live.instances(rule, wanted)));
    all.reasons.0.dedup();
    all.reasons
}

/// A workspace that is held up is let go once everything in it is ready.
fn bootstrapped(live: &Live<'_>, source: &Arc<Value>, mut reasons: Reasons) -> Plan {
    if reasons.0.is_empty() {
        reasons.0.extend(live.case().unready_objects());
    }
    // A workspace that is let go is not deleted: nothing of it is.
    match source::release(live.observed, source, Evidence::Unwanted).filter(|_| reasons.is_in_sync()) {
        Some(action) => Plan::Act(vec![action]),
        None => Plan::Rest(reasons),
    }
}

/// An object by its id, for people.
pub fn what(id: &str) -> String {
    match id.strip_prefix(RELATED) {
        Some(id) => format!("related object `{id}`"),
        None => format!("object `{id}`"),
    }
}

struct Live<'a> {
    mapping: &'a Mapping,
    observed: &'a Observed,
    rendering: &'a Rendering,
    finalizer: bool,
    waits: Waits,
}

impl<'a> Live<'a> {
    fn case(&self) -> Case<'a> {
        Case { mapping: self.mapping, observed: self.observed, rendering: self.rendering }
    }

    /// What is wanted of each rule, copies first: what refers to a copy finds it.
    fn rules(&self) -> impl Iterator<Item = (&'a ObjectRule, &'a Wanted)> {
        let all = self.mapping.objects.iter().zip(&self.rendering.objects);
        let (copies, others): (Vec<_>, Vec<_>) = all.partition(|(rule, _)| rule.copy.is_some());
        copies.into_iter().chain(others)
    }

    /// The rows of the objects that a rule gives.
    fn instances(&self, rule: &ObjectRule, wanted: &Wanted) -> Step {
        let mut step = Step::default();
        match wanted {
            Err(unrendered) => step.extend(self.unrendered(rule, &rule.id, unrendered).of(&rule.id)),
            Ok(all) => all.iter().for_each(|one| step.extend(self.instance(rule, one))),
        }
        step
    }

    /// The rows of one rule's objects.
    fn rule(&self, rule: &ObjectRule, wanted: &Wanted) -> Step {
        let mut step = self.instances(rule, wanted);
        let leaving = each::leaving(self.observed, rule, wanted, &self.rendering.place);
        if leaving.is_empty() {
            return step;
        }
        if let Some(original) = self.unconfirmed(rule) {
            step.extend(Step::act(Action::ReadAnew(original)));
            return step;
        }
        // What goes before them, and what may still refer to them, once for all: a consumer's list may have a thousand items.
        let other = self.depending(rule);
        let reader = self.unwritten(|other| self.mapping.depends(other, &rule.id));
        for object in leaving {
            let because = if object.key().is_some() { Evidence::KeyGone } else { Evidence::Unwanted };
            let of_object = match (other, reader) {
                (Some(other), _) => Step::rest(goes_after(&object.reference, other)),
                (None, Some(reader)) => kept_for(object, reader),
                (None, None) => self.taken_away(object, because, rule.propagation),
            };
            step.extend(of_object.of(object.object_id()));
        }
        step
    }

    /// A selection whose copies a rule makes, or from which it makes objects, where it was not read past the caches: a watch that
    /// loses sight of objects (a permission claim is taken back) shows them as deleted.
    fn unconfirmed(&self, rule: &ObjectRule) -> Option<Original> {
        let copied = rule.copy.map(|copy| copy.related);
        self.first_unconfirmed(copied.into_iter().chain(rule.depends_on_related.iter().copied()))
    }

    /// The same of those that an object reads which is rendered otherwise than it was written: it may be for what is out of sight.
    fn unconfirmed_change(&self, rule: &ObjectRule, desired: &Desired, object: &TargetObject) -> Option<Original> {
        let is_rendered_anew = object.annotation(marks::HASH) != marks::annotation(&desired.body, marks::HASH);
        let reads = rule.depends_on_related.iter().copied().filter(|_| is_rendered_anew);
        self.first_unconfirmed(reads)
    }

    /// The first selection among these that was not read past the caches. A status that reads one waits for that, too.
    fn first_unconfirmed(&self, mut positions: impl Iterator<Item = usize>) -> Option<Original> {
        let source = self.observed.present()?;
        let (place, scope) = (&self.rendering.place, &self.rendering.scope);
        positions.find_map(|position| {
            let of = self.mapping.related.get(position)?;
            let selection = related::selection(of, self.observed, source, place, scope)?;
            (!self.observed.answers.read_anew.contains(&selection)).then_some(selection)
        })
    }

    fn instance(&self, rule: &ObjectRule, one: &Instance) -> Step {
        let id = one.id(rule);
        let step = match &one.rendered {
            Err(unrendered) => self.unrendered(rule, &id, unrendered),
            Ok(Rendered::Present(desired)) => self.wanted(rule, one.key.as_deref(), &id, desired),
            // What stands of it is decided on as what the mapping no longer wants.
            Ok(Rendered::Absent) if own_with(self.observed, &id).next().is_some() => Step::default(),
            Ok(Rendered::Absent) => {
                let row = decide(Stage::In, self.finalizer, Found::Absent, Wish::Unwanted(Evidence::Unwanted));
                Step::default().noted(self.observed, &id, Some(row), About::default())
            }
            Ok(Rendered::Kept(reason)) => {
                let step = reason.clone().map_or_else(Step::default, Step::rest);
                step.noted(self.observed, &id, None, About::default())
            }
        };
        step.of(&id)
    }

    fn unrendered(&self, rule: &ObjectRule, id: &str, why: &Unrendered) -> Step {
        let row = decide(Stage::In, self.finalizer, Found::Absent, Wish::Unrendered);
        let mut reason = Reason::from(why.clone());
        let mut read = rule.depends_on_related.iter().filter_map(|position| self.rendering.related.get(*position));
        // A process that starts sees what it reads a moment later: nobody is told until then.
        if reason.cause == Cause::Waiting && read.any(|resolved| related::unseen(resolved) == Some(Cause::Unknown)) {
            reason.cause = Cause::Unknown;
        }
        Step::rest(reason).noted(self.observed, id, Some(row), About::default())
    }

    fn wanted(&self, rule: &ObjectRule, key: Option<&str>, id: &str, desired: &Desired) -> Step {
        let state = self.observed.state(&desired.reference, rule.shared);
        let former = moved(self.case(), rule, id, desired);
        let unmet = match state {
            Ok(ObjectState::Absent) => self.case().unmet((rule, key), &self.waits),
            Ok(ObjectState::Ours(_)) => self.case().copies_unmet((rule, key), &self.waits),
            _ => None,
        };
        let is_earlier = matches!(state, Ok(ObjectState::OursOfEarlier(_)));
        let dependent = if is_earlier { self.replaced_before(rule) } else { None };
        let unmet = unmet.or_else(|| Some(goes_after(&desired.reference, dependent?)));
        let wish = if unmet.is_some() { Wish::Unmet } else { Wish::Wanted };
        let unowned = render::adoptable(self.observed, rule, &desired.reference);
        let found = match &former {
            _ if dependent.is_some() => Found::Ours(Fit::Uncompared { needed: true }),
            Some(_) if state.is_ok() => Found::Ours(Fit::Moved(rule.on_identity_change)),
            _ if matches!(state, Ok(ObjectState::Foreign)) && unowned.is_some() => Found::Unowned,
            _ => self.found(&state, |object| self.fit(rule, desired, object)),
        };
        let object = former.or(match state {
            Ok(ObjectState::Ours(object) | ObjectState::OursOfEarlier(object)) => Some(object),
            _ => None,
        });
        let row = decide(Stage::In, self.finalizer, found, wish);
        let step = match (row.verdict, object) {
            (Verdict::Wait, _) => match state {
                Err(reason) => Step::rest(reason),
                Ok(_) => object.and_then(|object| self.being_deleted(object, rule.propagation)).unwrap_or_else(|| {
                    let reason = unmet.or_else(|| self.observed.answers.failed.get(&desired.reference).cloned());
                    reason.map_or_else(Step::default, Step::rest)
                }),
            },
            (Verdict::AddFinalizer | Verdict::Create, _) => self.act(self.create(desired)),
            (Verdict::Apply, Some(object)) => match self.unconfirmed_change(rule, desired, object) {
                Some(selection) => Step::act(Action::ReadAnew(selection)),
                None => {
                    let intent = Intent::Update { uid: object.uid().to_owned() };
                    // Text that was made once is written onto the version that it was read from.
                    self.act(self.apply(desired, object, intent, !rule.generate.is_empty()))
                }
            },
            (Verdict::Adopt, _) => unowned.map_or_else(Step::default, |found| self.act(self.adopt(desired, found))),
            (Verdict::ReportDrift, _) => self.drifted(desired, object),
            (Verdict::ReportMove, _) => Step::rest(moves(id, object, desired)),
            (Verdict::ReportRecreated, _) => Step::rest(recreated(desired)),
            (Verdict::Conflict, _) => Step::rest(conflict(self.observed, rule, desired)),
            (Verdict::Delete(Evidence::FollowsOriginal), Some(object)) => self.recreate(rule, desired, object),
            (Verdict::Delete(because), Some(object)) => {
                self.lose(object, departure::delete(object, rule.propagation, because))
            }
            (Verdict::GiveUp(because), Some(object)) => self.lose(object, departure::give_up(object, because)),
            _ => Step::default(),
        };
        let foreign = self.observed.answers.foreign.get(&desired.reference).filter(|_| found == Found::Foreign);
        let object = object.map(|object| &object.object).or(foreign);
        let about = About { reference: Some(&desired.reference), desired: Some(&desired.body), object };
        step.noted(self.observed, id, Some(row), about)
    }

    /// Deletes a copy that cannot become what its original is: it is created at once. A cache that lags behind is no reason.
    fn recreate(&self, rule: &ObjectRule, desired: &Desired, copy: &TargetObject) -> Step {
        let Some((original, used)) = self.original(rule, desired) else { return Step::default() };
        if !self.observed.answers.read_anew.contains(&original) {
            return Step::act(Action::ReadAnew(original));
        }
        if departure::is_held(self.observed, copy) {
            return Step::rest(departure::held(copy));
        }
        let version = |object: &Value| metadata(object, "resourceVersion").to_owned();
        let is_current = |now: &Vec<Arc<Value>>| now.iter().any(|now| version(now) == version(used));
        if self.observed.originals(&original).is_some_and(|now| now.is_ok_and(|now| is_current(&now))) {
            return self.act(departure::delete(copy, rule.propagation, Evidence::FollowsOriginal));
        }
        Step::rest(Reason::unseen(format!("{original} is being read anew")))
    }

    /// The original of a copy, by its name, and as it was used.
    fn original(&self, rule: &ObjectRule, desired: &Desired) -> Option<(Original, &Arc<Value>)> {
        let position = rule.copy?.related;
        let (of, all) = (self.mapping.related.get(position)?, self.rendering.related.get(position)?.as_ref().ok()?);
        let one = all.iter().find(|one| render::copy_reference(rule, one).is_same_object(&desired.reference))?;
        Some((related::by_name(of, one), one.present()?))
    }

    fn being_deleted(&self, object: &TargetObject, propagation: Propagation) -> Option<Step> {
        departure::being_deleted(self.mapping, self.observed, object, propagation)
    }

    fn found(&self, state: &Sight<ObjectState<'_>>, fit: impl FnOnce(&TargetObject) -> Fit) -> Found {
        let Ok(state) = state else { return Found::Unknown };
        match state {
            ObjectState::Absent => Found::Absent,
            ObjectState::Foreign => Found::Foreign,
            ObjectState::Ours(object) | ObjectState::OursOfEarlier(object) if object.is_deleting() => {
                Found::BeingDeleted
            }
            ObjectState::OursOfEarlier(object) => match on_source_recreated(self.mapping, self.observed, object) {
                SourceRecreated::Adopt if fit(object) == Fit::Fixed => Found::Ours(Fit::Fixed),
                policy => Found::OursOfEarlier(policy),
            },
            ObjectState::Ours(object) => Found::Ours(fit(object)),
        }
    }

    fn fit(&self, rule: &ObjectRule, desired: &Desired, object: &TargetObject) -> Fit {
        let answers = &self.observed.answers;
        if answers.failed.contains_key(&desired.reference) {
            return Fit::Refused;
        }
        if self.observed.limits.is_promoted && rule.shared && rule.copy.is_none() {
            return Fit::Same;
        }
        let (all, unkept) = (differences(&desired.body, &object.object), unkept(&object.object));
        let differing: Vec<&str> = differing_among(&all, &unkept).collect();
        let applied = self.applied(desired);
        // A value that is another one after each write is not written for ever.
        let is_remembered = || unkept == lines(&all);
        // What a deletion may take away yet is written, whatever `drift` says: what depends on it waits for that.
        let is_doubted = answers.unanswered.contains(&object.reference);
        if applied > 1 || differing.is_empty() && (applied == 0 || is_remembered()) {
            return if is_doubted { Fit::Differs } else { Fit::Same };
        }
        if rule.copy.is_some() && is_fixed(desired, object) {
            return Fit::Fixed;
        }
        // What the server made of the last write is nobody's drift.
        let is_just_written = applied > 0 || answers.uncompared.contains(&desired.reference);
        // Ownership labels and annotations are restored, whatever `drift` says.
        let is_the_engines = |path: &str| path == hash_pointer() || is_ownership(path);
        let is_drift = !is_just_written && !is_doubted && !differing.into_iter().any(is_the_engines);
        if is_drift { Fit::Drifted(rule.drift) } else { Fit::Differs }
    }

    /// How often this very rendering was applied in this reconcile.
    fn applied(&self, desired: &Desired) -> usize {
        let applied = self.observed.answers.applied.get(&desired.reference);
        applied
            .filter(|(hash, _)| hash == marks::annotation(&desired.body, marks::HASH).unwrap_or_default())
            .map_or(0, |(_, times)| *times)
    }

    fn create(&self, desired: &Desired) -> Action {
        let mut body = desired.body.clone();
        if desired.reference.kind.side == Side::Target {
            // No object has this version: the server answers 409 where any object exists.
            Arc::make_mut(&mut body)["metadata"]["resourceVersion"] = json!("1");
        }
        Action::Apply { reference: desired.reference.clone(), body, intent: Intent::Create }
    }

    /// An apply onto this incarnation, or onto this version of it. What the server did not keep of the last one is remembered
    /// on the object, and not written again.
    fn apply(&self, desired: &Desired, object: &TargetObject, intent: Intent, onto_version: bool) -> Action {
        let answers = &self.observed.answers;
        let mut body = Value::clone(&desired.body);
        let unkept = self.unkept(desired, object);
        let annotations = &mut body["metadata"]["annotations"];
        if !unkept.is_empty() {
            annotations[marks::UNKEPT] = json!(Vec::from_iter(unkept).join("\n"));
        }
        if !object.source_uid().is_empty() && object.source_uid() != self.observed.source_uid() {
            annotations[marks::ADOPTED_FROM] = json!(object.source_uid());
        }
        if marks::is_released(&object.object) {
            annotations[marks::RELEASED] = json!(marks::ADOPTED);
        }
        if answers.unanswered.contains(&object.reference) {
            annotations[marks::TOUCHED] = json!(self.observed.now.to_string());
        }
        body["metadata"]["uid"] = json!(object.uid());
        if onto_version {
            body["metadata"]["resourceVersion"] = json!(object.resource_version());
        }
        if desired.reference.kind.side == Side::Source {
            merge_patch::complete(&mut body, object);
        }
        Action::Apply { reference: desired.reference.clone(), body: Arc::new(body), intent }
    }

    /// Makes the version that was seen the source's own: its other fields stay as they are.
    fn adopt(&self, desired: &Desired, found: &Arc<Value>) -> Action {
        let found = TargetObject::new(desired.reference.clone(), found.clone());
        self.apply(desired, &found, Intent::Adopt { uid: found.uid().to_owned() }, true)
    }

    /// What the server will not keep as far as that is known: after an apply, what differs. Before it, what it did not keep of
    /// the same value.
    fn unkept(&self, desired: &Desired, object: &TargetObject) -> BTreeSet<String> {
        let (known, is_applied) = (unkept(&object.object), self.applied(desired) > 0);
        if known.is_empty() && !is_applied {
            return known;
        }
        let all = differences(&desired.body, &object.object);
        if is_applied {
            return lines(&all);
        }
        let (there, pointers) = (lines(&all), all.iter().map(|one| one.pointer.as_str()).collect::<BTreeSet<_>>());
        let is_rendered_anew = pointers.contains(&*hash_pointer());
        let was_changed = |line: &str| line.split_once(' ').is_none_or(|(_, pointer)| pointers.contains(pointer));
        let may_be_desired = |line: &String| there.contains(line) || !is_rendered_anew && was_changed(line);
        known.into_iter().filter(may_be_desired).collect()
    }

    fn drifted(&self, desired: &Desired, object: Option<&TargetObject>) -> Step {
        let all = object.map(|object| differing(&desired.body, &object.object)).unwrap_or_default();
        let mut paths: Vec<String> = all.iter().take(MOST_NAMED).map(|path| shortened(path, MOST_PATH)).collect();
        if let Some(more) = all.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
            paths.push(format!("and {more} more"));
        }
        let (paths, drift) = (paths.join(", "), Drift::Report);
        let detail = format!("{} was changed at {paths} (drift: {drift:?})", desired.reference);
        Step::rest(Reason::waiting(detail))
    }

    /// An object of such a rule that may still refer to what is on its way out: it was not written as it is rendered now.
    fn unwritten(&self, is_reader: impl Fn(&ObjectRule) -> bool) -> Option<&'a Reference> {
        let Live { mapping, observed, rendering, .. } = self;
        let written = rendering.desired(mapping).filter_map(|(_, _, desired)| {
            let hash = marks::annotation(&desired.body, marks::HASH);
            let object = observed.objects.at(&desired.reference)?;
            (object.annotation(marks::HASH) == hash).then_some(&object.reference)
        });
        let written: BTreeSet<&Reference> = written.collect();
        let reads = |object: &&TargetObject| {
            let is_its_rule = |rule: &&ObjectRule| rule.kind.side == object.reference.kind.side;
            let rule = mapping.rule(object.rule_id()).filter(is_its_rule);
            render::has_rule(mapping, object) && rule.is_some_and(&is_reader)
        };
        let mut readers = observed.objects.iter().filter(reads).map(|object| &object.reference);
        readers.find(|reader| !written.contains(reader))
    }

    /// Objects whose rule the mapping no longer has, and that no other source uses, of a former document perhaps: they go when
    /// everything was rendered completely.
    fn dropped(&self) -> Step {
        let mut all = Step::default();
        let is_left = |object: &&TargetObject| {
            !is_wanted(self.case(), &object.reference) && self.observed.others_use(object) != Ok(true)
        };
        let mut dropped = render::dropped(self.mapping, self.observed).filter(is_left).peekable();
        // Which objects refer to them, only a former document tells.
        let reader = dropped.peek().and_then(|_| self.unwritten(|other| other.copy.is_none()));
        for object in dropped {
            let is_incomplete = self.rendering.unrendered(self.mapping).next().is_some();
            let step = if is_incomplete {
                let what = object.reference.to_string();
                let why = Reason::waiting("the mapping no longer has it; it is kept until everything is rendered");
                Step::rest(why.within(&what))
            } else if let Some(reader) = reader {
                kept_for(object, reader)
            } else {
                self.taken_away(object, Evidence::RuleGone, Propagation::default())
            };
            all.extend(step.of(object.object_id()));
        }
        all
    }

    /// Shared copies that this source no longer names, nor any other.
    fn no_longer_named(&self) -> Step {
        let Live { mapping, observed, rendering, .. } = self;
        let rules = mapping.objects.iter().filter(|rule| rule.shared && rule.copy.is_some());
        let mut all = Step::default();
        let is_told = |rule: &ObjectRule| {
            let all = rule.copy.and_then(|copy| rendering.related.get(copy.related)?.as_ref().ok());
            all.is_some_and(|all| all.iter().all(Related::is_placed))
        };
        if !rules.clone().all(is_told) {
            return all;
        }
        let selections: Vec<Original> = rules.clone().filter_map(|rule| self.unconfirmed(rule)).collect();
        let named: Vec<Reference> = rules
            .flat_map(|rule| render::places(rule, &rendering.place, &rendering.scope, &rendering.related))
            .map(|(_, reference)| reference)
            .collect();
        let is_left = |object: &&TargetObject| {
            object.object_id().starts_with(RELATED)
                && render::has_rule(mapping, object)
                && !named.iter().any(|one| one.is_same_object(&object.reference))
                && observed.others_use(object) != Ok(true)
        };
        let mut readers = BTreeMap::new();
        for object in observed.objects.shared().filter(is_left) {
            if !selections.is_empty() {
                all.actions.extend(selections.into_iter().map(Action::ReadAnew));
                return all;
            }
            let id = object.rule_id();
            let reader = readers.entry(id).or_insert_with(|| self.unwritten(|other| mapping.depends(other, id)));
            if let Some(reader) = *reader {
                all.extend(kept_for(object, reader));
                continue;
            }
            all.extend(self.taken_away(object, Evidence::LastUser, Propagation::default()).of(object.object_id()));
        }
        all
    }

    fn taken_away(&self, object: &TargetObject, because: Evidence, propagation: Propagation) -> Step {
        let state = self.observed.others_use(object).and_then(|_| self.observed.state_of(object));
        let found = self.found(&state, |_| Fit::Uncompared { needed: false });
        let row = decide(Stage::In, self.finalizer, found, Wish::Unwanted(because));
        let step = match row.verdict {
            Verdict::Delete(because) => self.lose(object, departure::delete(object, propagation, because)),
            Verdict::ReportRecreated => Step::default(),
            _ => match state {
                Err(reason) => Step::rest(reason),
                Ok(_) => self.being_deleted(object, propagation).unwrap_or_default(),
            },
        };
        step.noted(self.observed, object.object_id(), Some(row), About::of(object))
    }

    /// Deletes an object or gives it up, unless that is held.
    fn lose(&self, object: &TargetObject, action: Action) -> Step {
        match departure::is_held(self.observed, object) {
            false => self.act(action),
            true => Step::rest(departure::held(object)),
        }
    }

    /// Another object that is on its way out as well, and depends on this one.
    fn depending(&self, rule: &ObjectRule) -> Option<&Reference> {
        let rules = self.mapping.objects.iter().zip(self.rendering.objects.iter());
        let mut leaving = rules
            .filter(|(other, _)| self.mapping.depends(other, &rule.id))
            .flat_map(|(other, wanted)| each::leaving(self.observed, other, wanted, &self.rendering.place));
        leaving.next().map(|object| &object.reference)
    }

    /// Another object of an earlier source that is replaced as well, and depends on this one.
    fn replaced_before(&self, rule: &ObjectRule) -> Option<&Reference> {
        let is_replaced = self.mapping.lifecycle.on_source_recreated == Some(SourceRecreated::Replace);
        let depends = |object: &&TargetObject| {
            let other = self.mapping.rule(object.rule_id()).filter(|other| self.mapping.depends(other, &rule.id));
            other.is_some() && object.source_uid() != self.observed.source_uid()
        };
        let mut others = self.observed.objects.own().filter(|_| is_replaced);
        others.find(depends).map(|object| &object.reference)
    }

    /// An action on an object about which no request has failed in this reconcile.
    fn act(&self, action: Action) -> Step {
        departure::unless_failed(self.observed, action)
    }

    fn with_namespace(&self, actions: Vec<Action>) -> Vec<Action> {
        let creates = actions.iter().any(|action| match action {
            Action::Apply { reference, intent: Intent::Create, .. } => reference.kind.side == Side::Target,
            _ => false,
        });
        let namespace = &self.rendering.place.namespace;
        let tried = self.observed.answers.failed.contains_key(&Reference::namespace(namespace));
        let known = self.observed.target.namespaces.contains(namespace) || tried;
        if !creates || !self.mapping.placement.create_namespace || known {
            return actions;
        }
        let labels = self.rendering.namespace_labels.clone();
        std::iter::once(Action::CreateNamespace { name: namespace.clone(), labels }).chain(actions).collect()
    }
}

fn goes_after(object: &Reference, dependent: &Reference) -> Reason {
    Reason::waiting(format!("{object} is deleted after {dependent}, which depends on it"))
}

/// An object on its way out to which another one may still refer.
fn kept_for(object: &TargetObject, reader: &Reference) -> Step {
    Step::rest(Reason::waiting(format!("{} is deleted after {reader} was written without it", object.reference)))
}

/// Whether servers refuse to change an object into what is desired: a Secret keeps its type, and one that is immutable its
/// data.
fn is_fixed(desired: &Desired, object: &TargetObject) -> bool {
    let differs = |field: &str| desired.body.get(field) != object.object.get(field);
    let is_immutable = object.object["immutable"] == json!(true);
    differs("type") || is_immutable && (differs("data") || differs("binaryData"))
}

/// An object of this id that exists under another kind or name. One on the other side is what the mapping had there before, unless
/// something is where the object goes: beside the source, its tenant writes what they like.
fn moved<'a>(case: Case<'a>, rule: &ObjectRule, id: &str, desired: &Desired) -> Option<&'a TargetObject> {
    let is_there = case.observed.objects.at(&desired.reference).is_some();
    let may_be_former = |one: &&TargetObject| !is_there || one.reference.kind.side == rule.kind.side;
    let is_elsewhere = |one: &&TargetObject| !one.reference.is_same_object(&desired.reference) && may_be_former(one);
    let former = own_with(case.observed, id).find(is_elsewhere);
    former.filter(|one| !rule.shared && !is_wanted(case, &one.reference))
}

/// The source's own objects with an id.
fn own_with<'a>(observed: &'a Observed, id: &str) -> impl Iterator<Item = &'a TargetObject> {
    observed.objects.with_id(id).into_iter().filter(|one| !one.is_shared)
}

/// Whether an object of the mapping is rendered to exactly this.
fn is_wanted(case: Case<'_>, reference: &Reference) -> bool {
    case.rendering.desired(case.mapping).any(|(_, _, desired)| desired.reference.is_same_object(reference))
}

fn moves(id: &str, former: Option<&TargetObject>, desired: &Desired) -> Reason {
    let former = former.map(|object| object.reference.to_string()).unwrap_or_default();
    Reason {
        cause: Cause::IdentityChanged,
        detail: format!(
            "`{id}` exists as {former} and would become {}: set onIdentityChange to Orphan to leave the former object \
             behind, to Recreate to delete it, or go back to its kind and name",
            desired.reference
        ),
    }
}

fn recreated(desired: &Desired) -> Reason {
    Reason {
        cause: Cause::Recreated,
        detail: format!(
            "{} was made for an earlier source of the same name (onSourceRecreated: {:?}): adopt it with \
             onSourceRecreated: Adopt, or delete it by hand",
            desired.reference,
            SourceRecreated::Block
        ),
    }
}

pub fn conflict(observed: &Observed, rule: &ObjectRule, desired: &Desired) -> Reason {
    let found = observed.answers.foreign.get(&desired.reference);
    let holder = found.and_then(|object| marks::holder(object));
    let whose = holder.map_or("does not belong to this source".to_owned(), |holder| format!("belongs to {holder}"));
    let is = |free: fn(&Value) -> bool| found.is_some_and(|object| free(object));
    let or = match rule.adopt {
        Adopt::Never if is(marks::is_unowned) => ", or set `adopt: IfUnowned` to take it over",
        Adopt::Never if is(marks::is_unowned_but_for_manager) => {
            ", or take that label off and set `adopt: IfUnowned` to take it over"
        }
        Adopt::IfUnowned if is(marks::is_unowned_but_for_manager) => {
            ", or take that label off: `adopt: IfUnowned` takes it over then"
        }
        Adopt::Never | Adopt::IfUnowned => "",
    };
    let exists = format!("{} exists and {whose}", desired.reference);
    let detail = format!("{exists}: the engine does not modify it; remove or rename it{or}");
    Reason { cause: Cause::Conflict, detail }
}

/// JSON pointers at which an object differs, but for values that the server stored in place of the same value before.
pub fn differing(desired: &Value, object: &Value) -> Vec<String> {
    differing_among(&differences(desired, object), &unkept(object)).map(str::to_owned).collect()
}

/// The pointers of those that no apply left.
fn differing_among<'d>(all: &'d [Difference], unkept: &'d BTreeSet<String>) -> impl Iterator<Item = &'d str> {
    let is_remembered = *unkept == lines(all);
    let left = all.iter().filter(move |one| !is_remembered && !unkept.contains(&one.to_string()));
    left.map(|one| one.pointer.as_str())
}

/// Places that a message names of those at which an object was changed, and characters of each. Whoever may write on the target may
/// change ten thousands, each below a name of a megabyte.
const MOST_NAMED: usize = 16;
const MOST_PATH: usize = 256;

/// Bytes of the lines that an object remembers: annotations have 256 KiB together, and the pointers of what was rendered are there.
const MOST_UNKEPT: usize = 32 << 10;

/// Differences that were left by an apply: lines as [`lines`] makes them.
fn unkept(object: &Value) -> BTreeSet<String> {
    let marked = marks::annotation(object, marks::UNKEPT).unwrap_or_default();
    marked.lines().map(str::to_owned).collect()
}

/// What an object remembers of differences: of too many, one hash of them all.
fn lines(differences: &[Difference]) -> BTreeSet<String> {
    let all: BTreeSet<String> = differences.iter().map(Difference::to_string).collect();
    match all.iter().map(|line| line.len() + 1).sum::<usize>() <= MOST_UNKEPT {
        true => all,
        false => BTreeSet::from([tuple_hash(all.iter().map(String::as_str), 10)]),
    }
}

/// Whether a JSON pointer leads to an ownership label or annotation.
pub fn is_ownership(path: &str) -> bool {
    // Where there are none at all, these are missing too.
    if matches!(path, "/metadata/labels" | "/metadata/annotations") {
        return true;
    }
    let key = path.strip_prefix("/metadata/labels/").or_else(|| path.strip_prefix("/metadata/annotations/"));
    key.is_some_and(|key| key.starts_with("sync-engine.dev~1") || key == escape_pointer(marks::MANAGED_BY))
}

fn hash_pointer() -> String {
    format!("/metadata/annotations/{}", escape_pointer(marks::HASH))
}

/// Ends a plan: the status that follows from it, or, once that is written, the reasons themselves.
pub fn say(
    mapping: &Mapping,
    observed: &Observed,
    source: &Arc<Value>,
    rendering: Option<&Rendering>,
    mut reasons: Reasons,
) -> Plan {
    let is_told_elsewhere = || targets::is_told_elsewhere(mapping, observed, source);
    if observed.subject.hold.is_some() || observed.limits.tells_nothing || is_told_elsewhere() {
        return Plan::Rest(reasons);
    }
    // The status is about all targets.
    let Some(mut all) = targets::overall(mapping, observed, source, &reasons) else {
        // It is told once that is in sight: nothing else may wake the source.
        reasons.0.push(Reason::unseen("another of its targets is not in sight yet"));
        return Plan::Rest(reasons);
    };
    let (known, here) = (all.0.len(), reasons.of_target().map(|reason| reason.cause));
    let written = status::patch(mapping, observed, source, rendering, here, &mut all);
    // What the status of several lacks is for the source's condition, and is no reason to wait for one of them.
    let is_of_one = |reason: &Reason| !mapping.has_several_targets() || reason.cause == Cause::StatusFailed;
    reasons.0.extend(all.0.drain(known..).filter(is_of_one));
    match written {
        Some(action) => Plan::Last(Box::new(action), reasons),
        None => Plan::Rest(reasons),
    }
}

/// What a decision is about, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct About<'a> {
    reference: Option<&'a Reference>,
    desired: Option<&'a Arc<Value>>,
    object: Option<&'a Arc<Value>>,
}

impl<'a> About<'a> {
    /// An object that exists, and is compared with nothing.
    pub fn of(object: &'a TargetObject) -> Self {
        Self { reference: Some(&object.reference), desired: None, object: Some(&object.object) }
    }
}

impl Step {
    /// Takes down what was decided about one object, where somebody asks for it.
    pub fn noted(self, observed: &Observed, id: &str, row: Option<Row>, about: About<'_>) -> Self {
        if let Some(decisions) = &observed.study.decisions {
            decisions.lock().push(Decision {
                id: id.to_owned(),
                reference: about.reference.cloned(),
                row,
                desired: about.desired.cloned(),
                object: about.object.cloned(),
                actions: self.actions.iter().map(|action| format!("{action:#}")).collect(),
                reasons: self.reasons.clone(),
            });
        }
        self
    }

    pub fn act(action: Action) -> Self {
        Self { actions: vec![action], reasons: Reasons::default() }
    }

    pub fn rest(reason: Reason) -> Self {
        Self { actions: Vec::new(), reasons: Reasons(vec![reason]) }
    }

    /// The same with the object named that it is about.
    fn of(mut self, id: &str) -> Self {
        self.reasons.0 = self.reasons.0.into_iter().map(|reason| reason.within(&what(id))).collect();
        self
    }

    pub fn extend(&mut self, other: Self) {
        self.actions.extend(other.actions);
        self.reasons.0.extend(other.reasons.0);
    }
}
