//! Where each value of a rendered template came from: for the author, who wonders why it is there.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Content, Each, Template, Tree};
use crate::expression::{Budget, Evaluated, Expr, Expression, Scope, Segment, Text};
use crate::yaml::Node;

/// A field of what is rendered, as the steps that lead to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Key(String),
    Index(usize),
}

/// What a field holds, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    pub value: Value,
    /// Bytes of the file: the scalar of the template.
    pub span: Range<usize>,
    /// As it is written; `None` for a literal.
    pub expression: Option<String>,
    /// What the expression reads. Of a subtree that is taken whole, the field itself.
    pub reads: Vec<String>,
}

/// Leaves by their places; empty maps and lists are leaves too.
pub type Origins = BTreeMap<Place, Origin>;

impl Template {
    /// The origin of everything that is rendered in a scope; what cannot be evaluated is left out.
    pub fn provenance(&self, scope: &Scope) -> Origins {
        let mut walk = Walk { scope: scope.clone(), place: Place::default(), origins: Origins::new() };
        walk.tree(&self.root);
        walk.origins
    }
}

struct Walk {
    scope: Scope,
    place: Place,
    origins: Origins,
}

impl Walk {
    fn tree(&mut self, tree: &Tree) {
        let node = &*tree.node;
        match &tree.content {
            Content::Literal(value) => self.put(value.clone(), node, None, Vec::new()),
            Content::Expression(expression) => self.expression(expression, node),
            Content::Text(text) => self.text(text, node),
            Content::Sequence(items) if items.is_empty() => self.put(json!([]), node, None, Vec::new()),
            Content::Sequence(items) => self.sequence(items),
            Content::Mapping(entries) if entries.is_empty() => self.put(json!({}), node, None, Vec::new()),
            Content::Mapping(entries) => {
                for entry in entries {
                    self.under(Step::Key(entry.name.clone()), |walk| walk.tree(&entry.tree));
                }
            }
            Content::Each(each) => self.each(each),
            Content::When(when) if when.condition.holds(&self.scope).unwrap_or(false) => self.tree(&when.tree),
            Content::When(_) => {}
            Content::Merge(layers) => layers.iter().for_each(|layer| self.tree(layer)),
        }
    }

    fn under(&mut self, step: Step, walk: impl FnOnce(&mut Self)) {
        self.place.0.push(step);
        walk(self);
        self.place.0.pop();
    }

    fn expression(&mut self, expression: &Expression, node: &Node) {
        let Ok(Evaluated::Value(value)) = expression.evaluate(&self.scope) else { return };
        let written = node.as_str().unwrap_or_default().to_owned();
        match expression.expr() {
            Expr::Path(_) => self.subtree(&value, node, &written, expression.source_text()),
            expr => self.put(value, node, Some(written), read_by([expr])),
        }
    }

    /// A part of the source that is taken as it is: each of its fields comes from its own.
    fn subtree(&mut self, value: &Value, node: &Node, written: &str, from: &str) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (key, value) in fields {
                    let mut from = from.to_owned();
                    Segment::Key(key.clone()).write(&mut from);
                    self.under(Step::Key(key.clone()), |walk| walk.subtree(value, node, written, &from));
                }
            }
            Value::Array(values) if !values.is_empty() => {
                self.clear();
                for (index, value) in values.iter().enumerate() {
                    let from = format!("{from}[{index}]");
                    self.under(Step::Index(index), |walk| walk.subtree(value, node, written, &from));
                }
            }
            leaf => self.put(leaf.clone(), node, Some(written.to_owned()), vec![from.to_owned()]),
        }
    }

    fn text(&mut self, text: &Text, node: &Node) {
        let Ok(value) = text.render(&self.scope) else { return };
        let reads = read_by(text.expressions());
        let written = (!reads.is_empty()).then(|| node.as_str().unwrap_or_default().to_owned());
        self.put(value.into(), node, written, reads);
    }

    /// What is left out moves the items behind it.
    fn sequence(&mut self, trees: &[Tree]) {
        self.clear();
        let mut index = 0;
        for tree in trees {
            let stands =
                tree.render(&self.scope, &mut Budget::for_template(&self.scope)).is_ok_and(|value| value.is_some());
            if stands {
                self.under(Step::Index(index), |walk| walk.tree(tree));
                index += 1;
            }
        }
    }

    fn each(&mut self, each: &Each) {
        self.clear();
        let list = each.list.render(&self.scope, &mut Budget::for_template(&self.scope));
        let Ok(Some(Value::Array(values))) = list else { return };
        let outer = self.scope.clone();
        let mut index = 0;
        for value in values {
            self.scope.set_local(&each.name, Arc::new(value));
            let wanted = each.when.as_ref().is_none_or(|when| when.holds(&self.scope).unwrap_or(false));
            if wanted {
                self.under(Step::Index(index), |walk| walk.tree(&each.item));
                index += 1;
            }
        }
        self.scope = outer;
    }

    /// A list replaces what a lower layer of `$merge` has there.
    fn clear(&mut self) {
        let place = self.place.clone();
        self.origins.retain(|known, _| !known.0.starts_with(&place.0));
    }

    fn put(&mut self, value: Value, node: &Node, expression: Option<String>, reads: Vec<String>) {
        if !value.is_object() {
            self.clear();
        }
        // What was a leaf in a lower layer is a map now.
        let place = self.place.clone();
        self.origins.retain(|known, _| known == &place || !place.0.starts_with(&known.0));
        self.origins.insert(place, Origin { value, span: node.headline(), expression, reads });
    }
}

/// The paths that expressions read, each once.
fn read_by<'e>(expressions: impl IntoIterator<Item = &'e Expr>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for path in expressions.into_iter().flat_map(Expr::paths).map(|path| path.text().to_owned()) {
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) if key.contains('.') => write!(f, "[{key:?}]")?,
                Step::Key(key) if position == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::{Names, Root, RootSet};
    use crate::yaml;

    const TEMPLATE: &str = r#"
kind: Cache
metadata: {labels: {plan: "{{ source.spec.plan }}-{{ source.metadata.name }}"}}
spec:
  $merge:
    - ${{ source.spec }}
    - size: ${{ source.spec.size * 2 }}
      tags: [fixed]
      users:
        $each: ${{ source.spec.users }}
        $as: user
        $item: {name: "${{ user.name }}", role: "${{ user.role | default(omit) }}"}
"#;

    #[test]
    fn each_leaf_says_where_it_came_from() {
        let node = yaml::parse_one(TEMPLATE).and_then(|document| document.root).expect("a document");
        let mut findings = Vec::new();
        let names = Names::only(RootSet::of(&[Root::Source]));
        let template = Template::compile(&node, &names, &mut findings).unwrap_or_else(|| panic!("{findings:?}"));
        let mut scope = Scope::new();
        let source = json!({"metadata": {"name": "a"}, "spec": {
            "plan": "free", "size": 2, "tags": ["x", "y"], "net": {"port": 1}, "users": [{"name": "u"}],
        }});
        scope.set(Root::Source, Arc::new(source));
        let line = |span: &Range<usize>| TEMPLATE[..span.start].matches('\n').count() + 1;
        let shown: String = template
            .provenance(&scope)
            .iter()
            .map(|(place, origin)| {
                format!("{place} = {} from {} in line {}\n", origin.value, origin.reads.join(", "), line(&origin.span))
            })
            .collect();
        insta::assert_snapshot!(shown);
    }
}
