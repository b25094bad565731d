//! What related objects read, and whether what is read on the target is the tenant's own.

use crate::expression::References;
use crate::template::{Text, Tree};
use crate::yaml::{Node, NodeValue};
use crate::{ForEach, OriginalOwner, RelatedPlace, RelatedRule};

use super::reads::Reads;
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
        self.reading(node, rule);
    }

    /// What is read back must be the tenant's own. Where only the objects that are read tell the place, the engine asks at run
    /// time who owns it.
    fn reading(&mut self, node: &Node, rule: &RelatedRule) {
        let RelatedPlace { namespace, name, selector } = &rule.from;
        let asks_later = |text: &Text| self.reads_objects(text.references());
        if rule.owner == OriginalOwner::Unknown && (selector.is_some() || !namespace.iter().chain(name).any(asks_later))
        {
            let from = node.get("from");
            let field = |name: &str| from.and_then(|from| from.get(name));
            let written = field("name").or(field("selector")).or(from);
            self.findings.push(safety::reading(written.map_or(node, |written| written)));
        }
    }

    /// Whether a name stands for what is known at run time alone, also through variables.
    fn reads_objects(&self, references: &References) -> bool {
        let of_var = |name: &String| {
            let mut vars = self.mapping.vars.iter().filter(|(known, _)| known == name);
            vars.any(|(_, template)| self.reads_objects(template.references()))
        };
        !references.objects.is_empty() || !references.related.is_empty() || references.vars.iter().any(of_var)
    }

    /// What a list's items are, for all that is made from them.
    pub(super) fn list(&mut self, node: &Node, each: &'s ForEach) {
        match (node.get("forEach"), each.list.root()) {
            (_, Tree::Expression(list)) => {
                Reads { environment: &self.environment, findings: &mut self.findings }.list(list, self.guarded);
            }
            (Some(node), tree) => self.template(node, tree, None, self.guarded),
            (None, _) => {}
        }
        let items = self.environment.bound(each.list.root()).items();
        self.environment.locals.push((each.item.clone(), items));
        Reads { environment: &self.environment, findings: &mut self.findings }.text(&each.key, self.guarded);
    }
}
