//! SE0710: whether a name or label can grow beyond what servers take, because a consumer chose a long name. As with
//! placements, the rules are tried on a source.

use std::sync::Arc;

use serde_json::{Value, json};

use super::places::{longest_candidate, scope, stand_in};
use crate::diagnostic::Finding;
use crate::expression::{Base, Outcome, Root, Scope, Text};
use crate::schema::Schema;
use crate::template::{Content, Entry};
use crate::yaml::Node;
use crate::{Kind, Mapping, ObjectRule};

/// Characters of the name that is tried where the consumers' schema does not limit it. Servers take 253: an ending like
/// `-ca` is not worth a warning, two names that are joined are.
const LONG: usize = 200;

/// Characters of an object's name, and of a label's value.
const NAME: usize = 253;
const LABEL: usize = 63;

/// Kinds that take shorter names: <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/> and
/// <https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/>.
const SHORT_NAMES: [(&str, &str, usize); 3] =
    [("", "Service", LABEL), ("batch", "CronJob", 52), ("batch", "Job", LABEL)];

pub(super) fn check(mapping: &Mapping, source: Option<&Schema>, findings: &mut Vec<Finding>) {
    let length = source.and_then(longest_name).unwrap_or(LONG);
    let name = "n".repeat(length);
    let Some(candidate) = longest_candidate(mapping, &name) else { return };
    let placement = &mapping.placement;
    let read = stand_in(&[&placement.namespace, &placement.name], &Base::Root(Root::Source));
    let mut scope = scope(mapping, candidate, read.as_object().cloned().unwrap_or_default());
    let mut trial = Trial { tried: (candidate.namespace.len(), length), findings };
    let rules = [("namespace", &placement.namespace, LABEL), ("name", &placement.name, NAME)];
    let [Some(namespace), Some(name)] = rules.map(|(field, rule, most)| {
        let text = rule.render(&scope).ok()?;
        let node = mapping.spec.at(&["placement", field]).unwrap_or(&mapping.spec);
        trial.judge(node, &format!("`placement.{field}`"), &text, most);
        Some(text)
    }) else {
        return;
    };
    scope.set(Root::Placement, Arc::new(json!({"namespace": namespace, "name": name})));
    for (key, text) in &placement.namespace_labels {
        let node = mapping.spec.at(&["placement", "namespaceLabels", key]);
        trial.text(node, &format!("the label `{key}` of the namespace"), text, &scope);
    }
    for (node, rule) in mapping.written_objects() {
        if let Some(template) = node.get("template") {
            trial.name(template, rule, &name, &scope);
            trial.labels(rule, &scope);
        }
    }
}

/// The characters that the consumers' schema allows a name.
fn longest_name(schema: &Schema) -> Option<usize> {
    let length = schema.document().pointer("/properties/metadata/properties/name/maxLength")?.as_u64()?;
    usize::try_from(length).ok().map(|length| length.min(NAME))
}

/// The source that the rules are tried on, and what is found.
struct Trial<'f> {
    /// The characters of its namespace and of its name.
    tried: (usize, usize),
    findings: &'f mut Vec<Finding>,
}

impl Trial<'_> {
    fn name(&mut self, template: &Node, rule: &ObjectRule, placed: &str, scope: &Scope) {
        let most = longest(&rule.kind);
        let own = template.at(&["metadata", "name"]);
        match (&rule.name, own) {
            (Some(text), Some(node)) if text.literal().is_none() && rule.for_each.is_none() => {
                if let Ok(name) = text.render(scope) {
                    self.judge(node, &format!("the name of {}", rule.kind.kind), &name, most);
                }
            }
            (None, _) if most < NAME => {
                let node = template.get("kind").map_or(template, Arc::as_ref);
                self.judge(node, &format!("the name of {}", rule.kind.kind), placed, most);
            }
            _ => {}
        }
    }

    fn labels(&mut self, rule: &ObjectRule, scope: &Scope) {
        let labels = rule.template.root().entry("metadata").and_then(|metadata| metadata.entry("labels"));
        let Some(Content::Mapping(labels)) = labels.map(|labels| &labels.content) else { return };
        for Entry { name, tree, .. } in labels {
            let what = format!("the label `{name}`");
            match &tree.content {
                Content::Text(text) => self.text(Some(&tree.node), &what, text, scope),
                Content::Expression(expression) => {
                    if let Outcome::Value(Value::String(value)) = expression.evaluate(scope) {
                        self.judge(&tree.node, &what, &value, LABEL);
                    }
                }
                _ => {}
            }
        }
    }

    fn text(&mut self, node: Option<&Arc<Node>>, what: &str, text: &Text, scope: &Scope) {
        if let (Some(node), Ok(value)) = (node, text.render(scope)) {
            self.judge(node, what, &value, LABEL);
        }
    }

    fn judge(&mut self, node: &Node, what: &str, value: &str, most: usize) {
        if value.len() <= most {
            return;
        }
        let message = format!("{what} can grow too long: at most {most} characters are taken");
        let shorter = if most == LABEL && what.contains("label") { "label_value" } else { "dns_label" };
        let finding =
            Finding::new("SE0710", node.headline(), message).label(format!("up to {} characters", value.len()));
        let help = format!(
            "shorten it (`| {shorter}(…)`, with a `short_hash` beside it where different names must stay different), or limit \
             the consumers' names: `maxLength` of `metadata.name` in their schema"
        );
        let (namespace, name) = self.tried;
        let note = format!("tried with a source whose namespace has {namespace} characters and whose name has {name}");
        self.findings.push(finding.help(help).note(note));
    }
}

fn longest(kind: &Kind) -> usize {
    let found = SHORT_NAMES.iter().find(|(group, name, _)| kind.group == *group && kind.kind == *name);
    found.map_or(NAME, |(.., most)| *most)
}
