//! Static checks: a compiled mapping against the schemas of what it reads and writes.
//!
//! Everything is found at once. What a schema leaves open, and what has no schema, is `any` and never a finding.

mod braces;
mod collisions;
mod decided;
mod encoded;
mod fit;
mod lengths;
mod operands;
mod places;
mod reads;
mod related;
pub mod reserved;
mod safety;
mod status;
mod target;
mod types;

use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;

use super::diagnostic::Finding;
use super::expression::Base;
use super::schema::{Schema, Schemas};
use super::template::{Content, Tree};
use super::{Direction, Mapping, ObjectRule, RelatedMissing, RelatedRule, Side, TargetChoice};
use crate::yaml::Node;

pub use collisions::{Places, common_object};
pub(super) use places::{copy_of_clusters, owner_of};
use reads::Reads;
pub(crate) use safety::is_kubernetes_group;
pub use safety::is_namespace;
use target::Place;
use types::{Bound, Environment, Object, Type, case, written};

/// Everything that is wrong with a mapping that compiles, in the order of the file.
///
/// They point into the file that it was compiled from.
pub fn check(mapping: &Mapping, schemas: &Schemas) -> Vec<Finding> {
    let others = mapping.objects.iter().filter(|rule| schema_of(schemas, rule).is_none());
    let undocumented: Vec<Schema> = others.map(|rule| Schema::undocumented(rule.kind.clone())).collect();
    let mut checker = Checker::new(mapping, schemas, &undocumented);
    checker.known_source();
    checker.filter();
    checker.target();
    checker.namespace_labels();
    checker.vars();
    places::check(mapping, &mut checker.findings);
    collisions::check(mapping, &mut checker.findings);
    braces::check(mapping, &mapping.spec, &mut checker.findings);
    lengths::check(mapping, checker.environment.source, schemas, &mut checker.findings);
    encoded::check(mapping, &mut checker.findings);
    checker.unused_vars();
    checker.related();
    checker.objects();
    // A status says what there is, and waits for none of them.
    for (object, rule) in checker.environment.related.iter_mut().zip(&mapping.related) {
        (object.can_be_left_out, object.lacks_one) = (rule.when.is_some(), false);
    }
    status::check(mapping, &checker.environment, &mut checker.findings);
    let mut findings = checker.findings;
    findings.sort_by_key(|finding| (finding.span.start, finding.code));
    let mut said = HashSet::new();
    findings.retain(|finding| said.insert(finding.clone()));
    findings
}

struct Checker<'s> {
    mapping: &'s Mapping,
    schemas: &'s Schemas,
    /// What is known of the kinds that have none.
    undocumented: &'s [Schema],
    environment: Environment<'s>,
    findings: Vec<Finding>,
}

impl<'s> Checker<'s> {
    fn new(mapping: &'s Mapping, schemas: &'s Schemas, undocumented: &'s [Schema]) -> Self {
        let object = |rule: &'s ObjectRule| Object {
            id: &rule.id,
            schema: schema_of(schemas, rule),
            is_several: rule.is_several(),
            can_be_left_out: rule.when.is_some() && !rule.is_several(),
            lacks_one: rule.when.is_some(),
            case: rule.when.as_ref().and_then(|when| case(when, rule.for_each.as_deref())),
            is_consumers: false,
        };
        let skips = |rule: &RelatedRule| rule.on_missing == RelatedMissing::Skip;
        let related = |rule: &'s RelatedRule| Object {
            id: &rule.id,
            schema: None,
            is_several: rule.is_several(),
            // Of several, each is found by its key.
            can_be_left_out: rule.when.is_some() || skips(rule) && !rule.is_several(),
            lacks_one: skips(rule),
            case: rule.when.as_ref().filter(|_| !skips(rule)).and_then(|when| case(when, None)),
            is_consumers: rule.direction == Direction::ToTarget,
        };
        let environment = Environment {
            source: schemas.resource(&mapping.source.resource).map(|schema| &**schema),
            objects: mapping.objects.iter().map(object).collect(),
            related: mapping.related.iter().map(related).collect(),
            vars: Rc::default(),
            locals: Vec::new(),
            value: vec![Type::Any],
            facts: Vec::new(),
            asked: Vec::new(),
            seen: Vec::new(),
            read_by: Rc::default(),
            asked_by: Rc::default(),
        };
        Self { mapping, schemas, undocumented, environment, findings: Vec::new() }
    }

    fn reads(&mut self) -> Reads<'_, 's> {
        Reads::new(&self.environment, false, &mut self.findings)
    }

    /// Without a schema of the source, nothing that is read of it is checked.
    fn known_source(&mut self) {
        let resource = &self.mapping.source.resource;
        let is_built_in = resource.is_built_in() || resource.is_workspace();
        let node = self.mapping.spec.at(&["source", "resource"]);
        if let Some(node) = node.filter(|_| !is_built_in && self.environment.source.is_none()) {
            self.untyped(node, &resource.to_string(), self.schemas.closest_resource(resource), None);
        }
    }

    /// Says it once for each kind.
    fn known_kind(&mut self, rule: &ObjectRule, node: &Node) {
        let position = self.mapping.objects.iter().position(|other| other.kind == rule.kind);
        let is_first = position.is_some_and(|first| std::ptr::eq(&self.mapping.objects[first], rule));
        if !is_first || schema_of(self.schemas, rule).is_some() {
            return;
        }
        if let Some(meant) = safety::meant(&rule.kind) {
            let finding = Finding::new("SE0505", node.headline(), format!("Kubernetes has no kind {}", rule.kind));
            self.findings.push(finding.label("not known").help(format!("did you mean {meant}?")));
        } else if !rule.kind.is_built_in() {
            let objects = &self.mapping.objects;
            let is_bare = |of: &ObjectRule| of.kind == rule.kind && of.ready.is_none();
            let waits = |other: &&ObjectRule| other.depends_on.iter().any(|position| is_bare(&objects[*position]));
            let note = objects.iter().find(waits).map(|other| {
                let why = "without a schema or `ready`, it counts as ready before its operator has reported";
                format!("`{}` waits for such an object: {why}", other.id)
            });
            self.untyped(node, &rule.kind.to_string(), self.schemas.closest_kind(&rule.kind), note);
        }
    }

    /// Where there are no schemas at all, it goes without saying.
    fn untyped(&mut self, node: &Node, what: &str, closest: Option<String>, note: Option<String>) {
        if self.schemas.is_empty() {
            return;
        }
        let finding = Finding::new("SE0505", node.headline(), format!("no schema describes {what}"))
            .label("nothing that is read or written of it is checked");
        let finding = Finding { notes: note.into_iter().collect(), ..finding };
        self.findings.push(match closest {
            Some(closest) => finding.help(format!("did you mean {closest}?")),
            None => finding.help("add its CustomResourceDefinition or APIResourceSchema to the schemas"),
        });
    }

    fn filter(&mut self) {
        if let Some(when) = &self.mapping.source.when {
            Reads::new(&self.environment, false, &mut self.findings).condition(when);
            self.environment = self.environment.where_it(when.expr(), true);
        }
        let placement = &self.mapping.placement;
        for text in [&placement.namespace, &placement.name] {
            self.reads().text(text);
        }
    }

    /// What chooses a source's targets; objects read the item of a list of them.
    fn target(&mut self) {
        match self.mapping.target_rule.as_ref().map(|rule| &rule.choice) {
            Some(TargetChoice::One { cluster, .. }) => drop(self.reads().text(cluster)),
            Some(TargetChoice::Each { each, cluster }) => {
                self.list(each);
                self.reads().text(cluster);
            }
            Some(TargetChoice::All) | None => {}
        }
    }

    fn namespace_labels(&mut self) {
        for (key, text) in &self.mapping.placement.namespace_labels {
            self.reads().text(text);
            if let Some(node) = self.mapping.spec.at(&["placement", "namespaceLabels", key]) {
                decided::check_namespace_label(&self.environment, node, (key, text), &mut self.findings);
            }
        }
    }

    /// A variable that is nothing but a path may be absent: it is undefined where it is read.
    fn vars(&mut self) {
        for (name, template) in &self.mapping.vars {
            let bound = self.template(template.root(), None, template.root().is_path());
            let read = template.root().expressions().into_iter().flat_map(written);
            let read = read.flat_map(|read| self.environment.meant(&read)).collect();
            let var = Base::Var(name.clone()).to_string();
            if let Content::Expression(expression) = &template.root().content {
                let asked = self.environment.asked_of(expression.expr());
                Rc::make_mut(&mut self.environment.asked_by).push((var.clone(), asked));
            }
            Rc::make_mut(&mut self.environment.read_by).push((var, read));
            Rc::make_mut(&mut self.environment.vars).push((name.clone(), bound));
        }
    }

    fn unused_vars(&mut self) {
        let read: BTreeSet<String> = self.mapping.leaves().flat_map(|leaf| leaf.references().vars).collect();
        for (name, _) in self.mapping.vars.iter().filter(|(name, _)| !read.contains(name)) {
            if let Some((key, _)) = self.mapping.spec.get("vars").and_then(|vars| vars.entry(name)) {
                let finding = Finding::new("SE0314", key.headline(), format!("nothing reads `vars.{name}`"));
                self.findings.push(finding.help("read it, or remove it"));
            }
        }
    }

    fn template(&mut self, tree: &'s Tree, rule: Option<&'s ObjectRule>, guarded: bool) -> Bound<'s> {
        let kind = rule.map(|rule| &rule.kind);
        let (schemas, undocumented) = (self.schemas, self.undocumented);
        let known = |rule: &ObjectRule| undocumented.iter().find(|schema| schema.kind == rule.kind);
        let view = rule.and_then(|rule| schema_of(schemas, rule).or_else(|| known(rule))).map(Schema::view);
        Reads::new(&self.environment, guarded, &mut self.findings).tree(tree, &Place::top(kind, view))
    }

    fn objects(&mut self) {
        for (node, rule) in self.mapping.written_objects() {
            let around = self.environment.clone();
            self.object(node, rule);
            self.environment = around;
        }
    }

    fn object(&mut self, node: &Node, rule: &'s ObjectRule) {
        if let Some(each) = &rule.for_each {
            self.list(each);
        }
        if let Some(when) = &rule.when {
            self.reads().condition(when);
            self.environment = self.environment.where_holds(when, rule.for_each.as_deref());
        }
        // Nobody asks for the verdict on an object that is left out.
        let mut environment = self.environment.clone();
        environment.objects.iter_mut().filter(|one| one.id == rule.id).for_each(Object::take_as_there);
        for expression in rule.ready.iter().chain(&rule.failed) {
            Reads::new(&environment, false, &mut self.findings).condition(expression);
        }
        if let Some(kind) = node.at(&["template", "kind"]) {
            self.known_kind(rule, kind);
            let schema = schema_of(self.schemas, rule);
            match rule.kind.side {
                Side::Target => safety::scope(&rule.kind, schema, kind, &mut self.findings),
                Side::Source => {
                    let source = (&self.mapping.source.resource, self.environment.source);
                    safety::scope_beside(&rule.kind, schema, source, kind, &mut self.findings);
                }
            }
        }
        let written = self.template(rule.template.root(), Some(rule), false);
        self.left_to_others(node, rule, &written);
    }

    /// Each pointer must lead to a field that can be left to others by itself, and that the template writes.
    fn left_to_others(&mut self, node: &Node, rule: &ObjectRule, written: &Bound<'_>) {
        let schema = schema_of(self.schemas, rule);
        for (field, pointers) in [("ignore", &rule.ignore), ("atCreation", &rule.at_creation)] {
            let nodes = node.at(&["apply", field]).map_or(&[][..], |list| list.items());
            for (node, pointer) in nodes.iter().zip(pointers) {
                let is_ignored = field == "ignore";
                let of_schema = schema.and_then(|schema| target::pointer(node, pointer, schema.view(), is_ignored));
                let marked = || target::marked(node, pointer).filter(|_| field == "atCreation");
                self.findings.extend(of_schema.or_else(marked).or_else(|| target::unwritten(node, pointer, written)));
            }
        }
    }
}

fn schema_of<'s>(schemas: &'s Schemas, rule: &ObjectRule) -> Option<&'s Schema> {
    schemas.kind(&rule.kind).map(|schema| &**schema)
}

#[cfg(test)]
mod tests;
