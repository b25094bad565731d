//! SE0314: variables that nothing reads.

use std::collections::BTreeSet;

use crate::diagnostic::Finding;
use crate::expression::{References, Text};
use crate::template::Template;
use crate::{ForEach, Mapping, ObjectRule, RelatedRule, StatusRules, StatusValue};

pub(super) fn check(mapping: &Mapping, findings: &mut Vec<Finding>) {
    let read: BTreeSet<&str> = references(mapping).flat_map(|read| read.vars.iter().map(String::as_str)).collect();
    for (name, _) in mapping.vars.iter().filter(|(name, _)| !read.contains(name.as_str())) {
        if let Some((key, _)) = mapping.spec.get("vars").and_then(|vars| vars.entry(name)) {
            let finding = Finding::new("SE0314", key.headline(), format!("nothing reads `vars.{name}`"));
            findings.push(finding.help("read it, or remove it"));
        }
    }
}

/// What every part of a mapping reads by name that may read variables.
pub(crate) fn references(mapping: &Mapping) -> impl Iterator<Item = &References> {
    let vars = mapping.vars.iter().map(|(_, template)| template.references());
    let parts = mapping.objects.iter().flat_map(of_object).chain(mapping.related.iter().flat_map(of_related));
    vars.chain(parts).chain(of_status(&mapping.status))
}

fn of_object(rule: &ObjectRule) -> Vec<&References> {
    let expressions = rule.when.iter().chain(&rule.ready).chain(&rule.failed).map(|expression| expression.references());
    let texts = rule.name.iter().map(Text::references);
    let each = rule.for_each.iter().flat_map(|each| of_for_each(each));
    expressions.chain(texts).chain(each).chain([rule.template.references()]).collect()
}

fn of_related(rule: &RelatedRule) -> Vec<&References> {
    let places = [&rule.from, &rule.to].into_iter().flat_map(|place| place.namespace.iter().chain(&place.name));
    let data = rule.data.transform.values().chain(rule.data.add.values()).map(Template::references);
    places
        .map(Text::references)
        .chain(rule.for_each.iter().flat_map(|each| of_for_each(each)))
        .chain(data)
        .chain(rule.when.iter().map(|when| when.references()))
        .collect()
}

fn of_for_each(each: &ForEach) -> [&References; 2] {
    [each.list.references(), each.key.references()]
}

fn of_status(status: &StatusRules) -> impl Iterator<Item = &References> {
    let fields = status.fields.iter().flat_map(|field| {
        let value = if let StatusValue::Value(template) = &field.from { Some(&**template) } else { None };
        value.into_iter().chain(&field.transform)
    });
    let conditions = status
        .conditions
        .iter()
        .flat_map(|rule| std::iter::once(&rule.status).chain(&rule.reason).chain(&rule.message));
    fields.chain(conditions).map(Template::references)
}
