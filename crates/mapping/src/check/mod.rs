//! Static checks: a compiled mapping against the schemas of what it reads and writes.
//!
//! Everything is found at once. What a schema leaves open, and what has no schema, is `any` and never a finding.

mod collisions;
mod decided;
mod fit;
mod lengths;
mod places;
mod reads;
mod related;
pub mod reserved;
mod safety;
mod status;
mod target;
mod types;
mod unused;

use std::sync::Arc;

use super::diagnostic::Finding;
use super::expression::Expr;
use super::schema::{Schema, Schemas};
use super::template::Tree;
use super::{Mapping, ObjectRule, Side};
use crate::yaml::{self, Node, NodeValue};

pub use collisions::common_object;
pub(super) use places::owner_of;
use reads::{Reads, guards};
pub use safety::is_namespace;
use target::{Place, Target};
use types::{Environment, Type};

/// Everything that is wrong with a mapping that compiles, in the order of the file.
///
/// `document` is the one `mapping` was compiled from; the findings point into its file.
pub fn check(document: &yaml::Document, mapping: &Mapping, schemas: &Schemas) -> Vec<Finding> {
    let Some(spec) = document.root.as_ref().and_then(|root| root.get("spec")) else { return Vec::new() };
    let mut checker = Checker::new(spec, mapping, schemas);
    checker.filter();
    checker.vars();
    checker.namespace_labels();
    places::check(spec, mapping, &mut checker.findings);
    collisions::check(spec, mapping, &mut checker.findings);
    lengths::check(spec, mapping, checker.environment.source, &mut checker.findings);
    unused::check(spec, mapping, &mut checker.findings);
    checker.related();
    checker.objects();
    status::check(spec, mapping, schemas, &checker.environment, &mut checker.findings);
    let mut findings = checker.findings;
    findings.sort_by_key(|finding| (finding.span.start, finding.code));
    findings.dedup();
    findings
}

struct Checker<'s> {
    spec: &'s Node,
    mapping: &'s Mapping,
    schemas: &'s Schemas,
    environment: Environment<'s>,
    /// The source's filter asks what is there: everything else may rely on it.
    guarded: bool,
    findings: Vec<Finding>,
}

impl<'s> Checker<'s> {
    fn new(spec: &'s Node, mapping: &'s Mapping, schemas: &'s Schemas) -> Self {
        // Of several objects, the first step is a key.
        let of =
            |rule: &'s ObjectRule| (rule.id.as_str(), schema_of(schemas, rule).filter(|_| rule.for_each.is_none()));
        let environment = Environment {
            source: schemas.resource(&mapping.source.resource).map(|schema| &**schema),
            objects: mapping.objects.iter().map(of).collect(),
            vars: Vec::new(),
            locals: Vec::new(),
            value: vec![Type::Any],
        };
        let guarded = mapping.source.when.as_ref().is_some_and(|when| guards(when.expr()));
        Self { spec, mapping, schemas, environment, guarded, findings: Vec::new() }
    }

    fn filter(&mut self) {
        if let Some(when) = &self.mapping.source.when {
            Reads { environment: &self.environment, findings: &mut self.findings }.expression(when.expr(), false);
        }
        let placement = &self.mapping.placement;
        for text in [&placement.namespace, &placement.name] {
            Reads { environment: &self.environment, findings: &mut self.findings }.text(text, self.guarded);
        }
    }

    /// After the variables, which the labels may read.
    fn namespace_labels(&mut self) {
        let labels = self.spec.get("placement").and_then(|placement| placement.get("namespaceLabels"));
        for (key, text) in &self.mapping.placement.namespace_labels {
            if let Some(node) = labels.and_then(|labels| labels.get(key)) {
                decided::check_namespace_label(&self.environment, node, (key, text), &mut self.findings);
            }
        }
    }

    /// A variable that is nothing but a path may be absent: it is undefined where it is read.
    fn vars(&mut self) {
        for (name, template) in &self.mapping.vars {
            let node = self.spec.get("vars").and_then(|vars| vars.get(name));
            let bound = self.environment.bound(template.root());
            if let Some(node) = node {
                let alone = matches!(
                    template.root(),
                    Tree::Expression(expression) if matches!(expression.expr(), Expr::Path(_))
                );
                self.template(node, template.root(), None, self.guarded || alone);
            }
            self.environment.vars.push((name.clone(), bound));
        }
    }

    fn template(&mut self, node: &Node, tree: &'s Tree, rule: Option<&'s ObjectRule>, guarded: bool) {
        let kind = rule.map(|rule| &rule.kind);
        let view = rule.and_then(|rule| schema_of(self.schemas, rule)).map(Schema::view);
        let mut target = Target { environment: &self.environment, kind, guarded, findings: &mut self.findings };
        target.tree(node, tree, &Place::top(view));
    }

    fn objects(&mut self) {
        let Some(NodeValue::Sequence(nodes)) = self.spec.get("objects").map(|objects| &objects.value) else { return };
        for (node, rule) in nodes.iter().zip(&self.mapping.objects) {
            self.object(node, rule);
        }
    }

    fn object(&mut self, node: &Arc<Node>, rule: &'s ObjectRule) {
        if let Some(each) = &rule.for_each {
            self.list(node, each);
        }
        self.parts(node, rule);
        self.environment.locals.clear();
    }

    fn parts(&mut self, node: &Arc<Node>, rule: &'s ObjectRule) {
        if let Some(when) = &rule.when {
            Reads { environment: &self.environment, findings: &mut self.findings }
                .expression(when.expr(), self.guarded);
        }
        for expression in rule.ready.iter().chain(&rule.failed) {
            Reads { environment: &self.environment, findings: &mut self.findings }
                .expression(expression.expr(), self.guarded);
        }
        let guarded = self.guarded || rule.when.as_ref().is_some_and(|when| guards(when.expr()));
        let Some(template) = node.get("template") else { return };
        if let Some(kind) = template.get("kind") {
            let schema = schema_of(self.schemas, rule);
            match rule.kind.side {
                Side::Target => safety::scope(&rule.kind, schema, kind, &mut self.findings),
                Side::Source => {
                    let source = (&self.mapping.source.resource, self.environment.source);
                    safety::scope_beside(&rule.kind, schema, source, kind, &mut self.findings);
                }
            }
        }
        self.template(template, rule.template.root(), Some(rule), guarded);
        self.left_to_others(node, rule);
    }

    /// Each pointer must lead to a field that can be left to others by itself.
    fn left_to_others(&mut self, node: &Node, rule: &ObjectRule) {
        let Some(schema) = schema_of(self.schemas, rule) else { return };
        for (field, pointers) in [("ignore", &rule.ignore), ("atCreation", &rule.at_creation)] {
            let list = node.get("apply").and_then(|apply| apply.get(field));
            let Some(NodeValue::Sequence(nodes)) = list.map(|list| &list.value) else { continue };
            for (node, pointer) in nodes.iter().zip(pointers) {
                self.findings.extend(target::pointer(node, pointer, schema.view()));
            }
        }
    }
}

fn schema_of<'s>(schemas: &'s Schemas, rule: &ObjectRule) -> Option<&'s Schema> {
    schemas.kind(&rule.kind).map(|schema| &**schema)
}

#[cfg(test)]
mod tests;
