//! What an object waits for before it is made: the objects that it depends on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::observed::{ObjectState, Observed, TargetObject};
use super::related::{Related, State};
use super::render::{self, Rendered, Rendering};
use super::{Reason, live, related, status};
use crate::mapping::expression::{Expression, Scope};
use crate::mapping::{Mapping, ObjectRule, RelatedMissing, Side};
use crate::object::readiness::{Readiness, readiness};

/// Why the objects of rules, by the positions of these, hold up what depends on them: what one of a thousand objects waits for is
/// known to the others then. It counts while nothing else is observed.
#[derive(Debug, Default)]
pub struct Waits(RefCell<BTreeMap<(usize, Waited), Option<Reason>>>);

/// What of a rule is waited for. Of its copies, whether those of an earlier source count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Waited {
    Objects,
    Copies(bool),
    /// The copies whose originals are there.
    Originals(bool),
}

impl Waits {
    fn once(&self, of: (usize, Waited), tell: impl FnOnce() -> Option<Reason>) -> Option<Reason> {
        if let Some(known) = self.0.borrow().get(&of) {
            return known.clone();
        }
        let told = tell();
        self.0.borrow_mut().insert(of, told.clone());
        told
    }
}

/// A source that was observed, as its mapping renders it.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    pub mapping: &'a Mapping,
    pub observed: &'a Observed,
    pub rendering: &'a Rendering,
}

impl Case<'_> {
    /// Why an object cannot be created yet. One of several, with its key, does not wait for what another key lacks.
    pub fn unmet(self, (rule, key): (&ObjectRule, Option<&str>), waits: &Waits) -> Option<Reason> {
        let original = |at: &usize| Some((self.mapping.related.get(*at)?, self.rendering.related.get(*at)?));
        let originals = rule.depends_on_related.iter().filter_map(original);
        if let Some(reason) = originals.into_iter().find_map(|(rule, resolved)| related::missing(rule, resolved, key)) {
            return Some(Reason { detail: format!("waits for {}", reason.detail), ..reason });
        }
        rule.depends_on.iter().find_map(|position| self.lacking(*position, key, waits))
    }

    /// Why the objects of a mapping are not all there and ready.
    pub fn unready_objects(self) -> Vec<Reason> {
        let waits = Waits::default();
        (0..self.mapping.objects.len()).filter_map(|position| self.lacking(position, None, &waits)).collect()
    }

    pub fn has_failed_object(self) -> bool {
        let Self { mapping, observed, rendering } = self;
        let has_failed = |rule: &ObjectRule, id: &str, item: Option<&Arc<Value>>| {
            let standing = render::standing_as(observed, rule, id, &rendering.place);
            let state = standing.map(|standing| state(mapping, observed, rule, standing, item, &rendering.scope));
            matches!(state, Some(Ok(Readiness::Failed(_))))
        };
        let rules = mapping.objects.iter().zip(&rendering.objects).filter(|(rule, _)| rule.copy.is_none());
        rules.into_iter().any(|(rule, wanted)| match wanted {
            Ok(all) => all.iter().any(|one| has_failed(rule, &one.id(rule), one.item.as_ref())),
            Err(_) => has_failed(rule, &rule.id, None),
        })
    }

    /// What is not ready yet of one rule's objects.
    fn lacking(self, position: usize, key: Option<&str>, waits: &Waits) -> Option<Reason> {
        let needed = self.mapping.objects.get(position)?;
        if needed.copy.is_some() {
            return self.copy_missing(position, key, false, waits);
        }
        waits.once((position, Waited::Objects), || match self.rendering.objects.get(position) {
            Some(Ok(all)) => {
                // What is wanted absent delays nothing.
                let mut wanted = all.iter().filter(|one| !matches!(one.rendered, Ok(Rendered::Absent)));
                wanted.find_map(|one| self.unready(needed, &one.id(needed), one.item.as_ref()))
            }
            _ => self.unready(needed, &needed.id, None),
        })
    }

    /// Why an object that exists is not changed yet: what it newly refers to has to be copied first.
    pub fn copies_unmet(self, (rule, key): (&ObjectRule, Option<&str>), waits: &Waits) -> Option<Reason> {
        rule.depends_on.iter().find_map(|position| self.copy_missing(*position, key, true, waits))
    }

    /// A copy that does not exist yet. Where there is no original either, and nothing waits for one, none is missing.
    /// `of_earlier`: whether that of an earlier source counts, taken over or not. What is made waits for its own: that one may be
    /// replaced.
    fn copy_missing(self, position: usize, key: Option<&str>, of_earlier: bool, waits: &Waits) -> Option<Reason> {
        let rule = self.mapping.objects.get(position)?;
        let related = rule.copy?.related;
        let (of, resolved) = (self.mapping.related.get(related)?, self.rendering.related.get(related)?);
        let all = match resolved {
            Ok(all) => all,
            Err(reason) => return Some(reason.clone().within(&live::what(&rule.id))),
        };
        let missing = |one: &Related| {
            let reference = render::copy_reference(rule, one);
            let state = self.observed.state(&reference, rule.shared);
            let copy = match state {
                Ok(ObjectState::Ours(copy)) => Some(copy),
                Ok(ObjectState::OursOfEarlier(copy)) => of_earlier.then_some(copy),
                _ => None,
            };
            let exists = copy.is_some_and(|copy| !copy.is_deleting() && !self.is_in_doubt(copy));
            let is_optional = matches!(one.original, State::Missing) && of.on_missing == RelatedMissing::Skip;
            if exists || is_optional {
                return None;
            }
            let id = render::instance_id(rule, one.key.as_deref());
            let why =
                related::lacking(of, one).map_or("its copy does not exist yet".to_owned(), |reason| reason.detail);
            Some(Reason::waiting(format!("waits for {}: {why}", live::what(&id))))
        };
        // Where one of them is its own, it waits for that one, and for no other that has no original.
        let own = related::with_key(all, key);
        let waited = if own.is_some() { Waited::Originals(of_earlier) } else { Waited::Copies(of_earlier) };
        let others = waits.once((position, waited), || {
            let mut needed = all.iter().filter(|one| own.is_none() || one.present().is_some());
            needed.find_map(missing)
        });
        others.or_else(|| missing(own?))
    }

    /// Whether a deletion without an answer may have taken an object away, or may do so yet: until it is written once more.
    fn is_in_doubt(self, standing: &TargetObject) -> bool {
        self.observed.answers.unanswered.contains(&standing.reference)
    }

    fn unready(self, rule: &ObjectRule, id: &str, item: Option<&Arc<Value>>) -> Option<Reason> {
        let Self { mapping, observed, rendering } = self;
        let what = live::what(id);
        let waiting = |detail: String| Some(Reason::waiting(detail));
        let standing = render::standing_as(observed, rule, id, &rendering.place);
        let is_current = |object: &&TargetObject| matches!(observed.state_of(object), Ok(ObjectState::Ours(_)));
        let Some(standing) = standing.filter(is_current) else {
            return waiting(format!("waits for {what}, which does not exist yet"));
        };
        if self.is_in_doubt(standing) {
            return waiting(format!("waits for {what}, whose deletion was not answered"));
        }
        match state(mapping, observed, rule, standing, item, &rendering.scope) {
            Ok(Readiness::Ready) => None,
            Ok(Readiness::Pending(why)) => waiting(format!("waits for {what}, which is not ready: {why}")),
            Ok(Readiness::Failed(why)) => waiting(format!("waits for {what}, which has failed: {why}")),
            Err(reason) => Some(reason),
        }
    }
}

/// What the mapping says of an object that exists, else what its kind says. One that is taken for ready is, whatever is said of
/// it.
pub fn state(
    mapping: &Mapping,
    observed: &Observed,
    rule: &ObjectRule,
    standing: &TargetObject,
    item: Option<&Arc<Value>>,
    scope: &Scope,
) -> Result<Readiness, Reason> {
    let judged = || {
        let reports = observed.target.reporting.contains(&rule.kind.on(Side::Target));
        let library = readiness(&rule.kind, &standing.object, reports);
        if rule.ready.is_none() && rule.failed.is_none() {
            return Ok(library);
        }
        let mut scope = status::lenient(mapping, scope);
        if let (Some(each), Some(item)) = (&rule.for_each, item) {
            scope.set_local(&each.item, item.clone());
        }
        let holds = |expression: &Expression, field: &str| {
            let what = || format!("`{field}` of object `{}`", standing.object_id());
            expression.holds(&scope).map_err(|unrendered| Reason::from(unrendered).within(&what()))
        };
        if let Some(failed) = &rule.failed
            && holds(failed, "failed")?
        {
            return Ok(Readiness::Failed("its `failed` is true".into()));
        }
        match &rule.ready {
            _ if standing.is_deleting() => Ok(library),
            Some(ready) if holds(ready, "ready")? => Ok(Readiness::Ready),
            Some(_) => Ok(Readiness::Pending("its `ready` is false".into())),
            None => Ok(match library {
                // What failed is for `failed` to say.
                Readiness::Failed(why) => Readiness::Pending(why),
                other => other,
            }),
        }
    };
    // Evaluated in any case: coverage counts what is.
    let judged = judged();
    if observed.study.supposed.contains(&standing.reference) { Ok(Readiness::Ready) } else { judged }
}
