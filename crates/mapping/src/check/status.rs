//! SE06: what flows back, against the consumer's schema and the schemas of what it is read from.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};

use super::fit::{self, Misfit, Mismatch};
use super::places::put;
use super::reads::{Reads, with_suggestion};
use super::target::{Place, TYPED};
use super::types::{Environment, Shape, Type, is_within, written};
use crate::diagnostic::Finding;
use crate::jsonpath::{JsonPath, Step};
use crate::leaf::Leaf;
use crate::schema::{Field, Form, Schema, View};
use crate::template::{Content, Template, Tree};
use crate::yaml::{Node, quoted};
use crate::{Mapping, MirrorRule, StatusField, StatusValue, Take};

pub(super) fn check<'s>(mapping: &'s Mapping, environment: &Environment<'s>, findings: &mut Vec<Finding>) {
    let spec = &mapping.spec;
    let at = spec.entry("status").map(|(key, _)| key.span.clone());
    let at = at.or_else(|| Some(spec.at(&["source", "resource"])?.headline())).unwrap_or(0..0);
    let mut status = Status { mapping, consumer: environment.source, environment, findings, at };
    let node = spec.get("status");
    status.subresource();
    if let Some(node) = node {
        status.fields(node);
        status.conditions(node);
    }
    status.generation(node);
    status.required(node);
    if mapping.has_several_targets() {
        status.of_several();
    }
}

struct Status<'e, 's> {
    mapping: &'s Mapping,
    consumer: Option<&'s Schema>,
    environment: &'e Environment<'s>,
    findings: &'e mut Vec<Finding>,
    /// Where `status` stands; without one, the source's resource.
    at: Range<usize>,
}

impl<'s> Status<'_, 's> {
    /// The consumer's `.status`; `None`: there is no schema, or it leaves status open.
    fn view(&self) -> Option<View<'s>> {
        self.consumer?.view().field("status").known()
    }

    /// SE0306: what each of several targets has for itself, read at once or through a variable.
    fn of_several(&mut self) {
        let mut of_name = self.mapping.placement.name.expressions().into_iter().flat_map(written);
        let is_named_by_target = of_name.any(|read| is_within(&read, "target"));
        let is_of_one = |read: &String| {
            let is_name = is_within(read, "placement") && !is_within(read, "placement.namespace");
            is_within(read, "objects") || is_within(read, "target") || is_named_by_target && is_name
        };
        for leaf in self.mapping.status.leaves() {
            let Leaf::Template(template) = leaf else { continue };
            let root = template.root();
            let mut all = root.expressions().into_iter().flat_map(written);
            let found = all.find_map(|read| Some((self.environment.meant(&read).into_iter().find(is_of_one)?, read)));
            let Some((of_one, read)) = found else { continue };
            let why = if of_one == read { String::new() } else { format!("it reads `{of_one}`, and ") };
            let message = format!("the status of several targets cannot read `{read}`: {why}each target has its own");
            let help = "read what one target has: `targets.<key>.cluster`, `targets.<key>.objects.<id>`";
            self.findings.push(Finding::new("SE0306", root.node.headline(), message).help(help));
        }
    }

    fn subresource(&mut self) {
        let Some(schema) = self.consumer.filter(|schema| schema.status_subresource == Some(false)) else { return };
        let message = format!("{} has no status subresource: no status can be written", schema.kind);
        self.findings.push(
            Finding::new("SE0608", self.at.clone(), message)
                .help("in its schema, write `subresources: {status: {}}` beside the version's `schema`"),
        );
    }

    fn fields(&mut self, node: &Node) {
        let entries = node.get("fields").map_or(&[][..], |fields| fields.entries());
        for ((key, value), field) in entries.iter().zip(&self.mapping.status.fields) {
            let place = self.place(key, field);
            self.field(value, field, place);
        }
    }

    /// The place a field is written to; says so where there is none.
    fn place(&mut self, key: &Node, field: &StatusField) -> Option<View<'s>> {
        let mut view = self.view()?;
        let mut start = 0;
        for (index, segment) in field.target.iter().enumerate() {
            let below = match view.field(segment) {
                Field::Known(below) => below,
                Field::Open => return None,
                Field::Unknown => {
                    let range = key.locate(start..start + segment.len());
                    let path = field.target[..=index].join(".");
                    let message = format!("`status.{path}` does not exist in {}", view.schema().kind);
                    let before = [&["status".to_owned()], &field.target[..index]].concat().join(".");
                    let finding = Finding::new("SE0601", range, message).label("no such field");
                    self.findings.push(with_suggestion(finding, segment, &before, view));
                    return None;
                }
            };
            view = below;
            start += segment.len() + 1;
        }
        Some(view)
    }

    fn field(&mut self, node: &Node, field: &'s StatusField, place: Option<View<'s>>) {
        let source = node.get("path").or(node.get("value")).map_or(node, |node| node);
        let mut types = match &field.from {
            StatusValue::Path { object, path, take } => self.path(source, object, path, *take, node),
            StatusValue::Value(template) => self.template(template, None),
        };
        let mut at = source;
        if let Some(transform) = &field.transform {
            types = self.template(transform, Some(types));
            at = &transform.root().node;
        }
        let Some(view) = place else { return };
        let path = field.target.join(".");
        for mismatch in types.iter().flat_map(|one| fit::mismatches(one, view)) {
            match mismatch {
                // It is told below.
                Mismatch::Misfit { misfit: Misfit::Choices(_) | Misfit::Text(_), .. } => {}
                Mismatch::Misfit { misfit, below, view, .. } => {
                    self.findings.push(misfitting(at, &format!("{path}{below}"), view, &misfit));
                }
                // What is read may bring along more than the consumer sees.
                Mismatch::Pruned { path: read, below, name, at: view } if read.is_empty() => {
                    let message = format!("`status.{path}{below}` does not exist in {}", view.schema().kind);
                    let finding = Finding::new("SE0601", at.headline(), message).label("no such field");
                    self.findings.push(with_suggestion(finding, &name, "", view));
                }
                Mismatch::Pruned { .. } => {}
            }
        }
        if let (Some(from), Some(choices)) = (types.iter().find_map(|one| free_text(one, view)), view.choices()) {
            let listed = quoted(choices.iter().filter_map(Value::as_str));
            let message = format!("`status.{path}` takes no text but {listed}");
            let finding = Finding::new("SE0609", at.headline(), message).label(from);
            let help = "write each of its values: `\"A\" if value == \"a\" else \"B\"`, for example";
            self.findings.push(finding.help(help));
        }
        if let (Some(default), Some(node)) = (&field.default, node.get("default"))
            && let Some(misfit) = fit::literal(default, view)
        {
            self.findings.push(misfitting(node, &path, view, &misfit));
        }
    }

    /// The types that a template comes to. Read on its own, what is absent leaves the field out.
    fn template(&mut self, template: &'s Template, value: Option<Vec<Type<'s>>>) -> Vec<Type<'s>> {
        let value = value.unwrap_or_else(|| vec![Type::Any]);
        let environment = Environment { value, ..self.environment.clone() };
        let (root, guarded) = (template.root(), template.root().is_path());
        Reads::new(&environment, guarded, self.findings).tree(root, &Place::top(None, None)).types
    }

    /// The types that a path leads to.
    fn path(&mut self, node: &Node, object: &str, path: &JsonPath, take: Take, field: &Node) -> Vec<Type<'s>> {
        let every = path.steps().is_some() && !path.is_singular();
        if every && take == Take::One && field.get("take").is_none() {
            let message = format!("`{}` can match several values", path.text());
            self.findings.push(
                Finding::new("SE0607", node.headline(), message)
                    .help("`take: first`, `all` or `count` says which; `take: one` makes more than one an error"),
            );
        }
        // A transform may ask whether it is there.
        let is_singular = path.is_singular() && field.get("transform").is_none();
        if let (Take::Count, true, Some(written)) = (take, is_singular, field.get("take")) {
            let message = format!("`{}` matches one value at most, so its count is 0 or 1", path.text());
            let finding = Finding::new("SE0114", written.headline(), message);
            self.findings.push(finding.help(format!("`{}[*]` matches each item of a list", path.text())));
        }
        let Some(schema) = self.environment.object(object) else {
            return if take == Take::Count { vec![Type::Simple(Form::Integer)] } else { vec![Type::Any] };
        };
        let mut view = Some(schema.view());
        for (step, place) in path.beginning() {
            view = match (view, step) {
                (None, _) => None,
                (Some(at), Step::Name(name)) => match at.field(name) {
                    Field::Known(below) => Some(below),
                    Field::Open => None,
                    Field::Unknown => {
                        self.findings.push(unknown_step(node, path.text(), place, name, at));
                        return vec![Type::Any];
                    }
                },
                (Some(at), Step::Index(_) | Step::Every | Step::Selection(_)) => at.item(),
            };
        }
        match (take, view.filter(|_| path.is_whole())) {
            (Take::Count, _) => vec![Type::Simple(Form::Integer)],
            (Take::All, Some(view)) => vec![Type::List(vec![Type::Of(Shape::new(view, path.text().to_owned()))])],
            (Take::All, None) => vec![Type::Simple(Form::List)],
            (_, Some(view)) => vec![Type::Of(Shape::new(view, path.text().to_owned()))],
            (_, None) => vec![Type::Any],
        }
    }

    fn conditions(&mut self, node: &Node) {
        let nodes = node.get("conditions").map_or(&[][..], |conditions| conditions.items());
        let mirrors = nodes.iter().filter(|node| node.get("mirror").is_some());
        for rule in &self.mapping.status.conditions {
            rule.parts().for_each(|template| drop(self.template(template, None)));
            self.condition_status(rule.status.root());
        }
        for (node, rule) in mirrors.zip(&self.mapping.status.mirrors) {
            self.mirror(node, rule);
        }
        self.conditions_have_a_place(node);
    }

    /// Whether a condition can come to a status. A text prints no boolean: `true` is no word of a condition.
    fn condition_status(&mut self, status: &'s Tree) {
        let printed = if let Content::Text(text) = &status.content { text.only_expression() } else { None };
        let mut silent = Vec::new();
        let mut reads = Reads::new(self.environment, true, &mut silent);
        let types = match printed {
            Some(expr) => reads.expression(expr).types,
            None => reads.tree(status, &Place::top(None, None)).types,
        };
        let is_word = |value: &Value| match value {
            Value::Bool(_) => printed.is_none(),
            other => other.as_str().is_some_and(|text| ["True", "False", "Unknown"].contains(&text)),
        };
        let fits = |one: &Type<'_>| match one.values() {
            Some(values) => values.into_iter().any(is_word),
            None => one.form().meets(Form::Text) || printed.is_none() && one.form().meets(Form::Boolean),
        };
        if let (Some(one), false) = (types.first(), types.iter().any(fits)) {
            let message = "the status of a condition is true or false, or one of `True`, `False` and `Unknown`";
            let finding = Finding::new("SE0407", status.node.headline(), message).label(one.form().name());
            let help = if printed.is_some() { TYPED } else { "an expression, `${{ objects.db.ready }}` for example" };
            self.findings.push(finding.help(help));
        }
    }

    /// An object whose schema has no conditions will never report one.
    fn mirror(&mut self, node: &Arc<Node>, rule: &MirrorRule) {
        let schema = self.environment.object(&rule.object);
        let Some(status) = schema.and_then(|schema| schema.view().field("status").known()) else { return };
        if matches!(status.field("conditions"), Field::Unknown) {
            let at = node.at(&["mirror", "types"]).unwrap_or(node).headline();
            let message = format!("{} has no `status.conditions` that could be mirrored", status.schema().kind);
            let finding = Finding::new("SE0606", at, message).label("would be `Unknown` for ever");
            self.findings.push(finding.help("write the condition by expressions over what its status has"));
        }
    }

    fn conditions_have_a_place(&mut self, node: &Node) {
        let wanted = ["conditions", "engineConditions"]
            .into_iter()
            .find_map(|field| node.entry(field).filter(|(_, list)| !list.items().is_empty()));
        let (Some((key, _)), Some(view)) = (wanted, self.view()) else { return };
        if matches!(view.field("conditions"), Field::Unknown) {
            let message = format!("{} has no `status.conditions`: they would be pruned", view.schema().kind);
            self.findings.push(
                Finding::new("SE0604", key.span.clone(), message)
                    .label("the schema has no place for them")
                    .help("add `conditions` to its schema, a list of maps with `type`, `status`, `reason`, `message` and `lastTransitionTime`; or write a field such as `phase` instead"),
            );
        }
    }

    /// `observedGeneration: Auto`, where somebody asks for it.
    fn generation(&mut self, node: Option<&Arc<Node>>) {
        let Some(given) = node.and_then(|node| node.get("observedGeneration")) else { return };
        let Some(view) = self.view().filter(|_| self.mapping.status.observed_generation) else { return };
        if matches!(view.field("observedGeneration"), Field::Unknown) {
            let message = format!("{} has no `status.observedGeneration`: it would be pruned", view.schema().kind);
            self.findings.push(Finding::new("SE0605", given.headline(), message).help(
                "add `observedGeneration: {type: integer, format: int64}` to its status, or leave this line out",
            ));
        }
    }

    /// What the schema requires and nothing writes: every write of the status would be refused.
    fn required(&mut self, node: Option<&Arc<Node>>) {
        let Some(schema) = self.consumer else { return };
        let mut written = json!({});
        for field in &self.mapping.status.fields {
            put(&mut written, field.target.iter().map(String::as_str));
        }
        let rules = &self.mapping.status;
        if rules.condition_types().next().is_some() || !rules.engine_conditions.is_empty() {
            put(&mut written, ["conditions"].into_iter());
        }
        if rules.observed_generation {
            put(&mut written, ["observedGeneration"].into_iter());
        }
        let at = node.and_then(|node| node.entry("fields")).map_or(self.at.clone(), |(key, _)| key.span.clone());
        let missing = schema.required_missing(&written);
        if missing.is_empty() {
            return;
        }
        let message = format!("{} requires {} in its status, and nothing writes them", schema.kind, quoted(missing));
        self.findings.push(
            Finding::new("SE0603", at, message)
                .label("every write of the status would be refused")
                .help("write them all, each with a `default`; or take them off `required` in the consumer's schema"),
        );
    }
}

fn unknown_step(node: &Node, path: &str, place: &Range<usize>, name: &str, at: View<'_>) -> Finding {
    let span = node.locate(place.clone());
    let message = format!("`{}` does not exist in {}", &path[..place.end], at.schema().kind);
    let finding = Finding::new("SE0606", span, message).label("no such field");
    if name == "observedGeneration" {
        return finding.help(
            "its controller does not say which generation it speaks of; `observedGeneration: Auto` in the mapping's \
             `status` lets the engine say it",
        );
    }
    let before = path[..place.start].trim_end_matches('.');
    if at.form() == Form::List {
        return finding.help(format!("it is a list: `{before}[0].{name}` reads one item, `{before}[*].{name}` all"));
    }
    with_suggestion(finding, name, before, at)
}

fn misfitting(node: &Node, path: &str, view: View<'_>, misfit: &Misfit) -> Finding {
    misfit.finding(["SE0602"; 2], node, &format!("status.{path}"), view, "this")
}

/// What a text can be beside the values that an enum lists.
fn free_text(one: &Type<'_>, view: View<'_>) -> Option<String> {
    let choices = view.choices()?;
    match one {
        Type::Simple(Form::Text) | Type::Text(_) | Type::Printed(_) => Some("any text can come here".to_owned()),
        Type::Of(shape) if shape.view.form() == Form::Text => match shape.view.choices() {
            None => Some(format!("`{}` is any text", shape.path)),
            Some(values) => {
                let other =
                    values.iter().filter_map(|value| value.as_str().filter(|_| !choices.contains(value))).next()?;
                Some(format!("`{}` can be `{other}`", shape.path))
            }
        },
        _ => None,
    }
}
