//! SE0710: whether a name or label can grow beyond what servers take, because a consumer chose a long name; SE0110: whether
//! it is a valid one at all. As with placements, the rules are tried on a source.

use std::sync::Arc;

use serde_json::{Value, json};

use super::places::{Candidate, longest_candidate, scope, served_candidate, stand_in};
use super::safety::{self, RBAC};
use super::schema_of;
use crate::diagnostic::Finding;
use crate::expression::{Base, Evaluated, Expr, Path, Root, Scope, Text};
use crate::names::{is_dns_label, is_dns_subdomain, is_label_key, is_label_value};
use crate::schema::{Field, Schema, Schemas, View};
use crate::template::{Content, Entry, Tree};
use crate::yaml::Node;
use crate::{Mapping, ObjectRule};

/// Characters of the name that is tried where the consumers' schema does not limit it. Servers take 253: an ending like
/// `-ca` is not worth a warning, two names that are joined are.
const LONG: usize = 200;

/// What servers take at a place.
#[derive(Clone, Copy)]
struct Taken {
    /// At most so many characters.
    most: usize,
    is_valid: fn(&str) -> bool,
    characters: &'static str,
    /// The filter that makes a valid text.
    filter: &'static str,
}

const NAMESPACE: Taken = Taken { most: 63, is_valid: is_dns_label, ..NAME };
const NAME: Taken = Taken {
    most: 253,
    is_valid: is_dns_subdomain,
    characters: "lower case letters, digits and `-`",
    filter: "dns_label",
};
const LABEL: Taken = Taken {
    most: 63,
    is_valid: is_label_value,
    characters: "letters, digits, `-`, `_` and `.`",
    filter: "label_value",
};

/// Kinds that take shorter names: <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/> and
/// <https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/>.
const SHORT_NAMES: [(&str, &str, usize); 3] = [("", "Service", 63), ("batch", "CronJob", 52), ("batch", "Job", 63)];

pub(super) fn check(mapping: &Mapping, source: Option<&Schema>, schemas: &Schemas, findings: &mut Vec<Finding>) {
    let length = source.and_then(longest_name).unwrap_or(LONG);
    let long = "n".repeat(length);
    if let Some(candidate) = served_candidate(mapping) {
        tried(mapping, schemas, candidate, Trial { tried: None, findings });
    }
    if let Some(candidate) = longest_candidate(mapping, &long) {
        let tried_on = Some((candidate.namespace.len(), length));
        tried(mapping, schemas, candidate, Trial { tried: tried_on, findings });
    }
}

fn tried(mapping: &Mapping, schemas: &Schemas, candidate: Candidate<'_>, mut trial: Trial<'_>) {
    let before = trial.findings.len();
    let placement = &mapping.placement;
    let read = stand_in(&[&placement.namespace, &placement.name], &Base::Root(Root::Source));
    let mut scope = scope(mapping, candidate, read.as_object().cloned().unwrap_or_default());
    let rules = [("namespace", &placement.namespace, NAMESPACE), ("name", &placement.name, NAME)];
    let [Some(namespace), Some(name)] = rules.map(|(field, rule, taken)| {
        let text = rule.render(&scope).ok()?;
        let node = mapping.spec.at(&["placement", field]).unwrap_or(&mapping.spec);
        trial.judge(node, &format!("`placement.{field}`"), &text, taken);
        Some(text)
    }) else {
        return;
    };
    // What is made of an invalid name is invalid, too.
    if trial.tried.is_none() && trial.findings.len() > before {
        return;
    }
    scope.set(Root::Placement, Arc::new(json!({"namespace": namespace, "name": name})));
    for (key, text) in &placement.namespace_labels {
        let node = mapping.spec.at(&["placement", "namespaceLabels", key]);
        trial.text(node, &format!("the label `{key}` of the namespace"), text, &scope);
    }
    for (node, rule) in mapping.written_related().filter(|(_, rule)| rule.for_each.is_none()) {
        if let (Some(node), Some(Ok(name))) =
            (node.at(&["to", "name"]), rule.to.name.as_ref().map(|name| name.render(&scope)))
        {
            trial.judge(node, "the name of the copy", &name, NAME);
        }
    }
    for (node, rule) in mapping.written_objects() {
        if let Some(template) = node.get("template") {
            trial.name(template, rule, &name, &scope);
            if let Some(schema) = schema_of(schemas, rule) {
                trial.fields(rule.template.root(), schema.view(), "", &scope);
            }
            // Of the object, and of its pods.
            let pods = safety::pod_spec(&rule.kind).and_then(|spec| spec.split_last()).map(|(_, above)| above);
            for above in std::iter::once(&[][..]).chain(pods.filter(|above| !above.is_empty())) {
                let mut path = above.iter().copied().chain(["metadata", "labels"]);
                let labels = path.try_fold(rule.template.root(), |tree, key| tree.entry(key));
                labels.into_iter().for_each(|labels| trial.labels(mapping, labels, &scope));
            }
        }
    }
}

/// The characters that the consumers' schema allows a name.
fn longest_name(schema: &Schema) -> Option<usize> {
    let length = schema.document().pointer("/properties/metadata/properties/name/maxLength")?.as_u64()?;
    usize::try_from(length).ok().map(|length| length.min(NAME.most))
}

/// Of kinds whose names may have a `:`, as `system:controller` has, or `example.com:signer:bundle` of a ClusterTrustBundle.
fn is_name_with_colon(text: &str) -> bool {
    is_dns_subdomain(text) || text.contains(':')
}

/// What stands at a place, or in the variable that stands there.
fn written<'m>(mapping: &'m Mapping, tree: &'m Tree) -> &'m Tree {
    let Content::Expression(expression) = &tree.content else { return tree };
    let Expr::Path(Path { base: Base::Var(name), segments, .. }) = expression.expr() else { return tree };
    let var = mapping.vars.iter().find(|(var, _)| var == name && segments.is_empty());
    var.map_or(tree, |(_, template)| template.root())
}

/// The source that the rules are tried on, and what is found.
struct Trial<'f> {
    /// The characters of its namespace and of its name; `None`: it is a plain one, which shows what is wrong with any.
    tried: Option<(usize, usize)>,
    findings: &'f mut Vec<Finding>,
}

impl Trial<'_> {
    fn name(&mut self, template: &Node, rule: &ObjectRule, placed: &str, scope: &Scope) {
        let short = SHORT_NAMES.iter().find(|(group, name, _)| rule.kind.group == *group && rule.kind.kind == *name);
        let may_have_colon = matches!(rule.kind.group.as_str(), RBAC | "certificates.k8s.io");
        let is_valid: fn(&str) -> bool = if may_have_colon { is_name_with_colon } else { NAME.is_valid };
        let taken = Taken { most: short.map_or(NAME.most, |(.., most)| *most), is_valid, ..NAME };
        let own = template.at(&["metadata", "name"]);
        match (&rule.name, own) {
            (Some(text), Some(node)) if text.literal().is_none() && rule.for_each.is_none() => {
                if let Ok(name) = text.render(scope) {
                    self.judge(node, &format!("the name of {}", rule.kind.kind), &name, taken);
                }
            }
            (None, _) if taken.most < NAME.most => {
                let node = template.get("kind").map_or(template, Arc::as_ref);
                self.judge(node, &format!("the name of {}", rule.kind.kind), placed, taken);
            }
            _ => {}
        }
    }

    /// Texts that the schema of the kind limits.
    fn fields(&mut self, tree: &Tree, view: View<'_>, at: &str, scope: &Scope) {
        match &tree.content {
            Content::Mapping(entries) => {
                for Entry { name, tree, .. } in entries {
                    if let Field::Known(below) = view.field(name) {
                        let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                        self.fields(tree, below, &at, scope);
                    }
                }
            }
            Content::Sequence(items) => {
                let item = view.item();
                item.into_iter().for_each(|view| items.iter().for_each(|tree| self.fields(tree, view, at, scope)));
            }
            Content::Merge(layers) => layers.iter().for_each(|layer| self.fields(layer, view, at, scope)),
            content => {
                let Some(most) = view.lengths().1 else { return };
                let value = match content {
                    Content::Text(text) => text.render(scope).ok().map(Value::from),
                    Content::Expression(expression) => expression.evaluate(scope).and_then(Evaluated::value).ok(),
                    _ => None,
                };
                if let Some(Value::String(value)) = value {
                    self.judge(&tree.node, &format!("`{at}`"), &value, Taken { most, is_valid: |_| true, ..NAME });
                }
            }
        }
    }

    fn labels(&mut self, mapping: &Mapping, labels: &Tree, scope: &Scope) {
        let Content::Mapping(labels) = &written(mapping, labels).content else { return };
        for Entry { name, place, tree } in labels {
            let tree = written(mapping, tree);
            if self.tried.is_none() && !is_label_key(name) {
                let finding = Finding::new("SE0110", place.clone(), format!("`{name}` is no label's key"));
                let help = "letters, digits, `-`, `_` and `.`, with a DNS name and `/` before it if needed";
                self.findings.push(finding.help(help));
            }
            let what = format!("the label `{name}`");
            match &tree.content {
                Content::Literal(Value::String(value)) => self.literal(&tree.node, &what, value),
                Content::Text(text) => self.text(Some(&tree.node), &what, text, scope),
                Content::Expression(expression) => {
                    if let Ok(Evaluated::Value(Value::String(value))) = expression.evaluate(scope) {
                        self.judge(&tree.node, &what, &value, LABEL);
                    }
                }
                _ => {}
            }
        }
    }

    /// No name of a consumer's makes it longer or shorter.
    fn literal(&mut self, node: &Node, what: &str, value: &str) {
        let Taken { most, .. } = LABEL;
        if self.tried.is_none() && value.len() > most {
            let message = format!("{what} is too long: at most {most} characters are taken");
            let label = format!("{} characters", value.len());
            self.findings.push(Finding::new("SE0110", node.headline(), message).label(label));
        } else if self.tried.is_none() {
            self.judge(node, what, value, LABEL);
        }
    }

    fn text(&mut self, node: Option<&Arc<Node>>, what: &str, text: &Text, scope: &Scope) {
        if let (Some(node), Ok(value)) = (node, text.render(scope)) {
            self.judge(node, what, &value, LABEL);
        }
    }

    fn judge(&mut self, node: &Node, what: &str, value: &str, taken: Taken) {
        let Taken { most, is_valid, characters, filter } = taken;
        match self.tried {
            None if value.len() <= most && !is_valid(value) => {
                let message = format!("{what} comes to `{value}`, which servers refuse");
                let help = format!("{characters} are taken; `| {filter}` makes such a text");
                self.findings.push(Finding::new("SE0110", node.headline(), message).help(help));
            }
            Some((namespace, name)) if value.len() > most => {
                let message = format!("{what} can grow too long: at most {most} characters are taken");
                let finding =
                    Finding::new("SE0710", node.headline(), message).label(format!("up to {} characters", value.len()));
                let help = format!(
                    "shorten it (`| {filter}(…)`, with a `short_hash` beside it where different names must stay different), \
                     or limit the consumers' names: `maxLength` of `metadata.name` in their schema"
                );
                let note =
                    format!("tried with a source whose namespace has {namespace} characters and whose name has {name}");
                self.findings.push(finding.help(help).note(note));
            }
            _ => {}
        }
    }
}
