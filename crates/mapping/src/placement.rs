//! Where a source's objects go: a namespace and a name, checked before they become part of a URL.

use std::sync::Arc;

use super::expression::{Names, RootSet, Scope};
use super::names::{is_dns_label, is_dns_subdomain, is_label_value};
use super::template::{Text, Unrendered};
use crate::yaml::{Node, NodeValue, Scalar};

/// The rule that places objects. A cluster-scoped source counts as one in a namespace called `cluster`, which the
/// caller puts into the scope.
#[derive(Debug)]
pub struct Placement {
    pub namespace: Text,
    pub name: Text,
    pub create_namespace: bool,
    /// Labels of a namespace that is created.
    pub namespace_labels: Vec<(String, Text)>,
}

/// Where the objects of one source go.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// A DNS-1123 label.
    pub namespace: String,
    /// A DNS-1123 subdomain.
    pub name: String,
}

impl Placement {
    /// The namespace of the default rule. 40 characters, `-` and 16 of the hash, which alone tells sources apart, fit
    /// into 63.
    pub const DEFAULT_NAMESPACE: &str = "{{ source.metadata.namespace | dns_label(40) }}-{{ short_hash(workspace.cluster, source.metadata.namespace) }}";
    /// The name of the default rule: the consumer's, so that references inside a spec stay valid.
    pub const DEFAULT_NAME: &str = "{{ source.metadata.name }}";

    pub fn default_namespace() -> Text {
        constant(Self::DEFAULT_NAMESPACE)
    }

    pub fn default_name() -> Text {
        constant(Self::DEFAULT_NAME)
    }

    pub fn place(&self, scope: &Scope) -> Result<Place, Unrendered> {
        Ok(Place { namespace: namespace(&self.namespace, scope)?, name: self.name(scope)? })
    }

    /// The name of a source's objects.
    pub fn name(&self, scope: &Scope) -> Result<String, Unrendered> {
        let name = render(&self.name, "name", scope)?;
        if !is_dns_subdomain(&name) {
            let rule = "a DNS-1123 subdomain (labels with dots between, at most 253): `| dns_subdomain` makes one";
            return Err(invalid("name", &name, rule));
        }
        Ok(name)
    }

    /// The labels of a namespace that is created.
    pub fn labels(&self, scope: &Scope) -> Result<Vec<(String, String)>, Unrendered> {
        let label = |(key, value): &(String, Text)| {
            let value = render(value, &format!("namespaceLabels.{key}"), scope)?;
            if is_label_value(&value) {
                Ok((key.clone(), value))
            } else {
                let rule =
                    "a label's value (letters, digits, `-`, `_` and `.` within, at most 63): `| label_value` makes one";
                Err(invalid(&format!("namespaceLabels.{key}"), &value, rule))
            }
        };
        self.namespace_labels.iter().map(label).collect()
    }
}

/// The namespace that a rule gives. A namespace rule reads only what cannot change: workspace, namespace and name.
pub fn namespace(rule: &Text, scope: &Scope) -> Result<String, Unrendered> {
    let namespace = render(rule, "namespace", scope)?;
    if is_dns_label(&namespace) {
        return Ok(namespace);
    }
    let rule = "a DNS-1123 label (a to z, 0 to 9 and `-` within, at most 63): `| dns_label` makes one";
    Err(invalid("namespace", &namespace, rule))
}

/// A rule as the state store keeps it; `None`: it is none.
pub fn rule(text: &str) -> Option<Text> {
    let node = Arc::new(Node { span: 0..text.len(), value: NodeValue::String(Scalar::plain(text)) });
    Text::compile(&node, &Names::only(RootSet::PLACEMENT), &mut Vec::new())
}

fn constant(text: &'static str) -> Text {
    rule(text).unwrap_or_else(|| panic!("the built-in rule `{text}` compiles"))
}

fn render(text: &Text, field: &str, scope: &Scope) -> Result<String, Unrendered> {
    text.render(scope).map_err(|unrendered| unrendered.within(&format!("placement.{field}")))
}

fn invalid(field: &str, value: &str, rule: &str) -> Unrendered {
    let shown: String = value.chars().take(64).collect();
    Unrendered::Failed(format!("placement.{field}: {shown:?} is not {rule}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::expression::Root;
    use super::*;

    fn scope(cluster: &str, namespace: &str, name: &str) -> Scope {
        let mut scope = Scope::new();
        scope.set(Root::Source, Arc::new(json!({"metadata": {"namespace": namespace, "name": name}})));
        scope.set(Root::Workspace, Arc::new(json!({"cluster": cluster})));
        scope
    }

    #[test]
    fn default_rule_is_stable_for_ever() {
        let place = default_rule().place(&scope("2xcau5l8pb5n4bev", "default", "my-database")).expect("a place");
        assert_eq!((place.namespace.as_str(), place.name.as_str()), ("default-awjngjkggz5jmake", "my-database"));
    }

    fn default_rule() -> Placement {
        Placement {
            namespace: Placement::default_namespace(),
            name: Placement::default_name(),
            create_namespace: true,
            namespace_labels: Vec::new(),
        }
    }

    #[test]
    fn default_rule_fits_and_tells_long_names_apart() {
        let rule = default_rule();
        let place = |namespace: String| {
            rule.place(&scope("abc", &namespace, "db")).expect("the default rule places any namespace")
        };
        let (one, other) = (place("n".repeat(62) + "1"), place("n".repeat(62) + "2"));
        assert_eq!(one.namespace.len(), 57);
        assert_ne!(one, other);
    }

    #[test]
    fn names_that_must_not_reach_a_url_are_refused() {
        let rule = Placement { namespace: constant("{{ source.metadata.namespace }}"), ..default_rule() };
        let refusals: Vec<_> = [("tenant-a?", "db"), ("a/b", "db"), ("", "db"), ("a", "x/status"), ("a", "..")]
            .into_iter()
            .map(|(namespace, name)| rule.place(&scope("abc", namespace, name)).unwrap_err().to_string())
            .collect();
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        placement.namespace: "tenant-a?" is not a DNS-1123 label (a to z, 0 to 9 and `-` within, at most 63): `| dns_label` makes one
        placement.namespace: "a/b" is not a DNS-1123 label (a to z, 0 to 9 and `-` within, at most 63): `| dns_label` makes one
        placement.namespace: "" is not a DNS-1123 label (a to z, 0 to 9 and `-` within, at most 63): `| dns_label` makes one
        placement.name: "x/status" is not a DNS-1123 subdomain (labels with dots between, at most 253): `| dns_subdomain` makes one
        placement.name: ".." is not a DNS-1123 subdomain (labels with dots between, at most 253): `| dns_subdomain` makes one
        "#);
    }

    #[test]
    fn labels_are_checked() {
        let rule = Placement {
            namespace_labels: vec![("team".to_owned(), constant("{{ source.metadata.name }}"))],
            ..default_rule()
        };
        let good = rule.labels(&scope("abc", "default", "blue"));
        assert_eq!(good, Ok(vec![("team".to_owned(), "blue".to_owned())]));
        let bad = rule.labels(&scope("abc", "default", "a b")).unwrap_err().to_string();
        insta::assert_snapshot!(bad, @r#"placement.namespaceLabels.team: "a b" is not a label's value (letters, digits, `-`, `_` and `.` within, at most 63): `| label_value` makes one"#);
    }
}
