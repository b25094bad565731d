//! What related objects read, and whether a consumer decides where on the target.

use crate::template::Tree;
use crate::yaml::{Node, NodeValue};
use crate::{Direction, ForEach, RelatedPlace, RelatedRule};

use super::reads::Reads;
use super::types::{Bound, Type};
use super::{Checker, safety};

impl<'s> Checker<'s> {
    pub(super) fn related(&mut self) {
        let Some(NodeValue::Sequence(nodes)) = self.spec.get("related").map(|related| &related.value) else { return };
        for (node, rule) in nodes.iter().zip(&self.mapping.related) {
            self.one_related(node, rule);
            self.environment.locals.clear();
        }
    }

    fn one_related(&mut self, node: &Node, rule: &'s RelatedRule) {
        if let Some(each) = &rule.for_each {
            self.list(node, each);
        }
        let texts = [&rule.from.namespace, &rule.from.name, &rule.to.namespace, &rule.to.name];
        for text in texts.into_iter().flatten() {
            Reads { environment: &self.environment, findings: &mut self.findings }.text(text, self.guarded);
        }
        let transform = node.get("data").and_then(|data| data.get("transform"));
        for (key, template) in &rule.data.transform {
            if let Some(node) = transform.and_then(|transform| transform.get(key)) {
                self.template(node, template.root(), None, self.guarded);
            }
        }
        // On the target, only the tenant's own namespace is the tenant's.
        let (side, place) = match rule.direction {
            Direction::ToTarget => ("to", &rule.to),
            Direction::ToSource => ("from", &rule.from),
        };
        let written = node.get(side).and_then(|side| side.get("namespace"));
        if let (Some(text), Some(at)) = (&place.namespace, written)
            && self.environment.prints_consumers(text)
        {
            self.findings.push(safety::reaching(at, &format!("{side}.namespace"), "namespace"));
        }
        self.reading(node, rule);
    }

    /// In a namespace of the provider's choice, a consumer who gives the name could read any object.
    fn reading(&mut self, node: &Node, rule: &RelatedRule) {
        let RelatedPlace { namespace: Some(namespace), name: Some(name), .. } = &rule.from else { return };
        let written = node.get("from").and_then(|from| from.get("name"));
        let is_shared = rule.direction == Direction::ToSource && !self.environment.prints_consumers(namespace);
        if let Some(at) = written.filter(|_| is_shared && self.environment.prints_consumers(name)) {
            self.findings.push(safety::reading(at));
        }
    }

    /// What a list's items are, for all that is made from them.
    pub(super) fn list(&mut self, node: &Node, each: &'s ForEach) {
        let items = match each.list.root() {
            Tree::Expression(expression) => self.environment.items(expression.expr()),
            _ => Bound { types: vec![Type::Any], is_consumers: false },
        };
        if let Some(node) = node.get("forEach") {
            self.template(node, each.list.root(), None, self.guarded);
        }
        self.environment.locals.push((each.item.clone(), items));
        Reads { environment: &self.environment, findings: &mut self.findings }.text(&each.key, self.guarded);
    }
}
