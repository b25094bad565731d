//! What related objects read, and whether what is read on the target is the tenant's own.

use crate::expression::References;
use crate::schema::Form;
use crate::template::{Content, Text};
use crate::yaml::Node;
use crate::{Direction, ForEach, OriginalOwner, RelatedPlace, RelatedRule};

use super::types::Object;
use super::{Checker, decided, places, safety};

impl<'s> Checker<'s> {
    pub(super) fn related(&mut self) {
        for (node, rule) in self.mapping.written_related() {
            let around = self.environment.clone();
            self.one_related(node, rule);
            self.environment = around;
        }
    }

    fn one_related(&mut self, node: &Node, rule: &'s RelatedRule) {
        if let Some(when) = &rule.when {
            self.reads().condition(when);
            self.environment = self.environment.where_holds(when, None);
        }
        if let Some(each) = &rule.for_each {
            self.list(each);
        }
        let texts = [&rule.from.namespace, &rule.from.name, &rule.to.namespace, &rule.to.name];
        for text in texts.into_iter().flatten() {
            self.reads().text(text);
        }
        // What belongs to a copy is only read where there is one.
        let around = self.environment.related.clone();
        self.environment.related.iter_mut().filter(|one| one.id == rule.id).for_each(Object::take_as_there);
        for template in rule.data.transform.values().chain(rule.data.add.values()) {
            let bound = self.template(template.root(), None, false);
            let place = template.root().node.headline();
            self.reads().operand(&bound, &place, &[Form::Text], "a key of a copy holds");
        }
        self.environment.related = around;
        self.reading(node, rule);
        self.reaching(node, rule);
    }

    /// What is read back must be the tenant's own. Where only the objects that are read tell the place, the engine asks at run
    /// time who owns it.
    fn reading(&mut self, node: &Node, rule: &RelatedRule) {
        let RelatedPlace { namespace, name, selector } = &rule.from;
        let asks_later = |text: &Text| self.reads_objects(&text.references());
        let is_asked_later =
            rule.owner == OriginalOwner::Unknown && selector.is_none() && namespace.iter().chain(name).any(asks_later);
        if !is_asked_later && places::is_anybodys(self.mapping, rule) {
            let written = node.at(&["from", "name"]).or(node.at(&["from", "selector"])).or(node.get("from"));
            self.findings.push(safety::reading(written.map_or(node, |written| written)));
        }
    }

    /// Tenants of one cluster each have namespaces of their own there.
    fn reaching(&mut self, node: &Node, rule: &'s RelatedRule) {
        let (Direction::ToTarget, Some(namespace)) = (rule.direction, &rule.from.namespace) else { return };
        let is_chosen = namespace.printed().into_iter().any(|expr| decided::prints_any(&self.environment, expr, true));
        if is_chosen && places::share_namespace(self.mapping, rule, namespace) {
            let written = node.at(&["from", "namespace"]);
            let finding = safety::reaching(written.map_or(node, |written| written), "from.namespace", "namespace");
            self.findings.push(finding.help("leave it out: then it is the namespace of the source"));
        }
    }

    /// Whether a name stands for what is known at run time alone, also through variables.
    fn reads_objects(&self, references: &References) -> bool {
        let of_var = |name: &String| {
            let mut vars = self.mapping.vars.iter().filter(|(known, _)| known == name);
            vars.any(|(_, template)| self.reads_objects(&template.references()))
        };
        !references.objects.is_empty() || !references.related.is_empty() || references.vars.iter().any(of_var)
    }

    /// What a list's items are, for all that is made from them.
    pub(super) fn list(&mut self, each: &'s ForEach) {
        let list = match &each.list.root().content {
            Content::Expression(list) => self.reads().list(list),
            _ => self.template(each.list.root(), None, false),
        };
        let chosen = if let Content::Expression(list) = &each.list.root().content { Some(list.expr()) } else { None };
        self.environment.take_item(&each.item, None, chosen, list.items());
        self.reads().text(&each.key);
    }
}
