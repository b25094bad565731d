//! SE0213: what is meant as an expression, and stands in the braces of another language, or in none.

use std::ops::Range;

use crate::Mapping;
use crate::diagnostic::Finding;
use crate::expression::Root;
use crate::yaml::{Node, NodeValue};

/// What opens and closes an expression in other languages.
const BRACES: [(&str, char); 2] = [("${", '}'), ("$(", ')')];

pub(super) fn check(mapping: &Mapping, node: &Node, findings: &mut Vec<Finding>) {
    match &node.value {
        NodeValue::String(scalar) => {
            for (range, meant) in expressions_in(mapping, &scalar.text) {
                let written = &scalar.text[range.clone()];
                let dollar = if written == scalar.text.trim() { "$" } else { "" };
                let message = format!("`{written}` is text, and no expression");
                let finding = Finding::new("SE0213", scalar.locate(range), message);
                findings.push(finding.help(format!("write `{dollar}{{{{ {meant} }}}}`")));
            }
        }
        NodeValue::Sequence(items) => items.iter().for_each(|item| check(mapping, item, findings)),
        NodeValue::Mapping(entries) => entries.iter().for_each(|(_, value)| check(mapping, value, findings)),
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => {}
    }
}

/// The parts of a text that are meant as expressions, each with its expression. Scripts have variables of their own.
fn expressions_in(mapping: &Mapping, text: &str) -> Vec<(Range<usize>, String)> {
    let bare = text.trim();
    let in_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    if bare.matches('.').count() > 1 && bare.chars().all(in_path) && begins_with_path(mapping, bare) {
        let start = text.len() - text.trim_start().len();
        return vec![(start..start + bare.len(), bare.to_owned())];
    }
    let braced = BRACES.iter().flat_map(|(open, close)| {
        text.match_indices(*open).filter_map(move |(start, _)| {
            let inner = start + open.len();
            let end = inner + text[inner..].find(*close)?;
            let meant = text[inner..end].trim();
            // kro calls the source `schema`.
            let of_kro = meant.strip_prefix("schema.").map(|path| format!("source.{path}"));
            let meant = of_kro.unwrap_or_else(|| meant.to_owned());
            let is_meant = !text[..start].ends_with('$') && !meant.contains('\n') && begins_with_path(mapping, &meant);
            is_meant.then(|| (start..end + 1, meant))
        })
    });
    braced.collect()
}

/// Whether a text begins with a path that an expression of the mapping can read.
fn begins_with_path(mapping: &Mapping, text: &str) -> bool {
    let Some((root, rest)) = text.split_once('.') else { return false };
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let field = &rest[..end];
    match Root::from_name(root) {
        Some(Root::Source) => matches!(field, "metadata" | "spec"),
        Some(Root::Vars) => mapping.vars.iter().any(|(name, _)| name == field),
        Some(Root::Related) => mapping.related.iter().any(|rule| rule.id == field),
        Some(Root::Objects) => mapping.objects.iter().any(|rule| rule.id == field),
        Some(root) => root.fields().is_some_and(|fields| fields.contains(&field)),
        None => false,
    }
}
