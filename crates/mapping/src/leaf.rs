//! Everything of a mapping that is evaluated.

use std::iter::once;

use super::expression::{Expression, References};
use super::template::{Template, Text};
use super::{ConditionRule, ForEach, Mapping, ObjectRule, RelatedRule, StatusRules, StatusValue, TargetChoice};

/// What is evaluated, and what must come of it. Each part of it knows its place in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Leaf<'m> {
    /// It is true or false.
    Condition(&'m Expression),
    /// The same of an object that exists: `ready` or `failed`.
    Verdict(&'m ObjectRule, &'m Expression),
    /// The list of a `forEach`.
    List(&'m ForEach),
    Text(&'m Text),
    Template(&'m Template),
}

impl<'m> Leaf<'m> {
    /// Everything it reads by name.
    pub fn references(self) -> References {
        match self {
            Self::Condition(expression) | Self::Verdict(_, expression) => expression.references(),
            Self::List(each) => each.list.references(),
            Self::Text(text) => text.references(),
            Self::Template(template) => template.references(),
        }
    }
}

impl Mapping {
    /// What its author wrote and the engine evaluates: without the default rules of the placement.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = Leaf<'_>> {
        let filter = self.source.when.iter().map(Leaf::Condition);
        let (each, cluster) = match self.target_rule.as_ref().map(|rule| &rule.choice) {
            Some(TargetChoice::One { cluster, .. }) => (None, Some(cluster)),
            Some(TargetChoice::Each { each, cluster }) => (Some(&**each), Some(cluster)),
            Some(TargetChoice::All) | None => (None, None),
        };
        let target = each.into_iter().flat_map(ForEach::leaves).chain(cluster.map(Leaf::Text));
        let placement = [("namespace", &self.placement.namespace), ("name", &self.placement.name)].into_iter();
        let placement = placement.filter(|(field, _)| self.spec.at(&["placement", field]).is_some());
        let labels = self.placement.namespace_labels.iter().map(|(_, text)| text);
        let texts = placement.map(|(_, text)| text).chain(labels).map(Leaf::Text);
        let vars = self.vars.iter().map(|(_, template)| Leaf::Template(template));
        let related = self.related.iter().flat_map(|rule| rule.leaves().chain(rule.added()));
        let objects = self.objects.iter().flat_map(|rule| rule.leaves().chain(rule.verdicts()));
        filter.chain(target).chain(texts).chain(vars).chain(related).chain(objects).chain(self.status.leaves())
    }
}

impl ForEach {
    fn leaves(&self) -> impl Iterator<Item = Leaf<'_>> {
        [Leaf::List(self), Leaf::Text(&self.key)].into_iter()
    }
}

impl RelatedRule {
    /// What an original is found by, and what its copy is made of.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = Leaf<'_>> {
        let places = [&self.from, &self.to].into_iter().flat_map(|place| place.namespace.iter().chain(&place.name));
        let each = self.for_each.iter().flat_map(|each| each.leaves());
        let transformed = self.data.transform.values().map(Leaf::Template);
        self.when.iter().map(Leaf::Condition).chain(each).chain(places.map(Leaf::Text)).chain(transformed)
    }

    /// What a copy has beside that, for which the original is read.
    pub(crate) fn added(&self) -> impl Iterator<Item = Leaf<'_>> {
        self.data.add.values().map(Leaf::Template)
    }
}

impl ObjectRule {
    /// What an object is made of.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = Leaf<'_>> {
        let each = self.for_each.iter().flat_map(|each| each.leaves());
        let parts = each.chain(self.when.iter().map(Leaf::Condition)).chain(self.name.iter().map(Leaf::Text));
        parts.chain(once(Leaf::Template(&self.template)))
    }

    /// What tells how it is once it exists.
    pub(crate) fn verdicts(&self) -> impl Iterator<Item = Leaf<'_>> {
        self.ready.iter().chain(&self.failed).map(|verdict| Leaf::Verdict(self, verdict))
    }
}

impl StatusRules {
    pub(crate) fn leaves(&self) -> impl Iterator<Item = Leaf<'_>> {
        let fields = self.fields.iter().flat_map(|field| {
            let value = if let StatusValue::Value(template) = &field.from { Some(&**template) } else { None };
            value.into_iter().chain(&field.transform)
        });
        fields.chain(self.conditions.iter().flat_map(ConditionRule::parts)).map(Leaf::Template)
    }
}

impl ConditionRule {
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Template> {
        once(&self.status).chain(&self.reason).chain(&self.message)
    }
}
