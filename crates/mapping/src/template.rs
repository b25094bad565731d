//! Templates: trees of values with expressions at their leaves.
//!
//! The YAML is parsed before anything is rendered, so what a consumer writes becomes a value and never structure.

mod compile;
pub mod provenance;
mod render;

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::diagnostic::Finding;
use super::expression::{Budget, Evaluated, Expr, Expression, Names, References, Scope};
use crate::yaml::{Node, NodeValue};

pub use super::expression::{Text, Unrendered};

/// A YAML tree whose leaves are compiled.
#[derive(Debug)]
pub struct Template {
    root: Tree,
}

/// A part of a template, and where it stands in the file.
#[derive(Debug)]
pub(super) struct Tree {
    pub node: Arc<Node>,
    pub content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    /// A scalar without any expression.
    Literal(Value),
    Expression(Expression),
    Text(Text),
    Sequence(Vec<Tree>),
    Mapping(Vec<Entry>),
    Each(Box<Each>),
    /// Maps laid over each other, the later ones on top.
    Merge(Vec<Tree>),
    /// A map that is left out where its `$when` is false.
    When(Box<When>),
}

impl Tree {
    /// Whether it is nothing but one path.
    pub fn is_path(&self) -> bool {
        matches!(&self.content, Content::Expression(expression) if matches!(expression.expr(), Expr::Path(_)))
    }

    /// Its expressions, conditions among them.
    pub fn expressions(&self) -> Vec<&Expr> {
        match &self.content {
            Content::Literal(_) => Vec::new(),
            Content::Expression(expression) => vec![expression.expr()],
            Content::Text(text) => text.expressions(),
            Content::Sequence(trees) | Content::Merge(trees) => trees.iter().flat_map(Self::expressions).collect(),
            Content::Mapping(entries) => entries.iter().flat_map(|entry| entry.tree.expressions()).collect(),
            Content::Each(each) => {
                let when = each.when.iter().map(Expression::expr).collect();
                [each.list.expressions(), when, each.item.expressions()].concat()
            }
            Content::When(when) => [vec![when.condition.expr()], when.tree.expressions()].concat(),
        }
    }

    /// What stands under a key of a map.
    pub fn entry(&self, name: &str) -> Option<&Self> {
        let Content::Mapping(entries) = &self.content else { return None };
        entries.iter().find(|entry| entry.name == name).map(|entry| &entry.tree)
    }
}

/// A key of a map, without the escape of a `$`.
#[derive(Debug)]
pub(super) struct Entry {
    pub name: String,
    /// Where in the file the key stands.
    pub place: Range<usize>,
    pub tree: Tree,
}

/// `$when` beside other keys.
#[derive(Debug)]
pub(super) struct When {
    pub condition: Expression,
    pub tree: Tree,
}

/// `$each`, `$as`, `$when`, `$item`, `$empty`: a list with one item for each of another.
#[derive(Debug)]
pub(super) struct Each {
    pub list: Tree,
    /// The name under which `when` and `item` read what they are made from.
    pub name: String,
    pub when: Option<Expression>,
    pub item: Tree,
    /// `$empty: omit`: a list without items is left out.
    pub omit_empty: bool,
}

impl Template {
    pub fn compile(node: &Arc<Node>, names: &Names, findings: &mut Vec<Finding>) -> Option<Self> {
        let before = findings.len();
        let root = compile::Compiler::new(names, findings).tree(node);
        (findings.len() == before).then_some(Self { root })
    }

    /// The whole tree as a value. An absent leaf is a failure, `omit` leaves its key or item out.
    pub fn render(&self, scope: &Scope) -> Result<Value, Unrendered> {
        self.evaluate(scope)?.value()
    }

    /// As `render`; a template that is one expression keeps its `Absent` and `Omit`.
    pub fn evaluate(&self, scope: &Scope) -> Result<Evaluated, Unrendered> {
        let budget = &mut Budget::for_template(scope);
        match &self.root.content {
            Content::Expression(expression) => expression.evaluate_within(scope, budget),
            _ => match self.root.render(scope, budget) {
                Ok(value) => Ok(value.map_or(Evaluated::Omit, Evaluated::Value)),
                Err(stopped) => Err(stopped.into_unrendered()),
            },
        }
    }

    pub(super) fn root(&self) -> &Tree {
        &self.root
    }

    /// Everything it reads by name.
    pub fn references(&self) -> References {
        References::of(self.root.expressions())
    }
}

/// An empty map.
impl Default for Template {
    fn default() -> Self {
        let node = Arc::new(Node { span: 0..0, value: NodeValue::Mapping(Vec::new()) });
        Self { root: Tree { node, content: Content::Mapping(Vec::new()) } }
    }
}

#[cfg(test)]
mod tests;
