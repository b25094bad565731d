//! Templates: trees of values with expressions at their leaves.
//!
//! The YAML is parsed before anything is rendered, so what a consumer writes becomes a value and never structure.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::diagnostic::Finding;
use super::expression::{Budget, Expression, Names, Outcome, Scope};
use crate::yaml::{Node, NodeValue, closest};

pub use super::expression::{Text, Unrendered};

/// A YAML tree whose leaves are compiled.
#[derive(Debug)]
pub struct Template {
    root: Tree,
    objects: BTreeSet<String>,
}

#[derive(Debug)]
enum Tree {
    /// A subtree without any expression.
    Literal(Value),
    Expression(Expression),
    Text(Text),
    Sequence(Vec<Tree>),
    Mapping(Vec<(String, Tree)>),
}

/// Keys that build structure.
const STRUCTURE: [&str; 5] = ["$each", "$as", "$when", "$item", "$merge"];

impl Template {
    pub fn compile(node: &Node, names: &Names, findings: &mut Vec<Finding>) -> Option<Self> {
        let mut objects = BTreeSet::new();
        let root = Compiler { names, findings, objects: &mut objects }.tree(node)?;
        Some(Self { root, objects })
    }

    /// The whole tree as a value. An absent leaf is a failure, `omit` leaves its key or item out.
    pub fn render(&self, scope: &Scope) -> Result<Value, Unrendered> {
        match self.evaluate(scope) {
            Outcome::Value(value) => Ok(value),
            outcome => {
                Err(outcome.unrendered().unwrap_or_else(|| Unrendered::Failed("nothing is rendered".to_owned())))
            }
        }
    }

    /// As `render`; a template that is one expression keeps its `Absent` and `Omit`.
    pub fn evaluate(&self, scope: &Scope) -> Outcome {
        let budget = &mut Budget::for_template();
        match &self.root {
            Tree::Expression(expression) => expression.evaluate_within(scope, budget),
            tree => match tree.render(scope, budget) {
                Ok(Some(value)) => Outcome::Value(value),
                Ok(None) => Outcome::Omit,
                Err(stopped) => stopped.outcome(),
            },
        }
    }

    /// The value, where the tree holds no expression.
    pub fn literal(&self) -> Option<&Value> {
        match &self.root {
            Tree::Literal(value) => Some(value),
            _ => None,
        }
    }

    /// Ids of the objects it reads, as `objects.<id>`.
    pub fn objects_read(&self) -> impl Iterator<Item = &str> {
        self.objects.iter().map(String::as_str)
    }
}

struct Compiler<'c> {
    names: &'c Names<'c>,
    findings: &'c mut Vec<Finding>,
    objects: &'c mut BTreeSet<String>,
}

impl Compiler<'_> {
    fn tree(&mut self, node: &Node) -> Option<Tree> {
        match &node.value {
            NodeValue::Null => Some(Tree::Literal(Value::Null)),
            NodeValue::Bool(value) => Some(Tree::Literal(Value::Bool(*value))),
            NodeValue::Number(number) => Some(Tree::Literal(Value::Number(number.clone()))),
            NodeValue::String(_) => self.leaf(node),
            NodeValue::Sequence(items) => {
                // All items are compiled, so that every error is found.
                let items: Vec<_> = items.iter().map(|item| self.tree(item)).collect();
                items.into_iter().collect::<Option<_>>().map(sequence)
            }
            NodeValue::Mapping(entries) => {
                let entries: Vec<_> = entries
                    .iter()
                    .map(|(key, value)| {
                        let (key, value) = (self.key(key), self.tree(value));
                        Some((key?, value?))
                    })
                    .collect();
                entries.into_iter().collect::<Option<_>>().map(mapping)
            }
        }
    }

    fn leaf(&mut self, node: &Node) -> Option<Tree> {
        if Expression::is_typed(node) {
            let expression = Expression::compile(node, self.names, self.findings)?;
            self.objects.extend(expression.objects_read().map(str::to_owned));
            return Some(Tree::Expression(expression));
        }
        let text = Text::compile(node, self.names, self.findings)?;
        self.objects.extend(text.objects_read().map(str::to_owned));
        Some(match text.literal() {
            Some(literal) => Tree::Literal(Value::from(literal)),
            None => Tree::Text(text),
        })
    }

    fn key(&mut self, node: &Node) -> Option<String> {
        let NodeValue::String(key) = &node.value else {
            self.refuse("SE0191", node, "a key must be a string", "put quotes around it");
            return None;
        };
        let key = &*key.text;
        if let Some(literal) = key.strip_prefix("$$") {
            return Some(format!("${literal}"));
        }
        if key.contains("{{") || key.contains("{%") {
            self.refuse(
                "SE0211",
                node,
                "a key cannot hold an expression",
                "keys are what the mapping's author writes, never data",
            );
            return None;
        }
        if STRUCTURE.contains(&key) {
            self.refuse(
                "SE0190",
                node,
                &format!("`{key}` is not supported yet"),
                "lists and maps can come whole from `${{ … }}`",
            );
            return None;
        }
        if key.starts_with('$') {
            let help = closest(key, &STRUCTURE).map_or_else(
                || format!("a key of that name is written `${key}`"),
                |hint| format!("did you mean `{hint}`?"),
            );
            self.refuse("SE0191", node, &format!("`{key}` has no meaning"), &help);
            return None;
        }
        Some(key.to_owned())
    }

    fn refuse(&mut self, code: &'static str, node: &Node, message: &str, help: &str) {
        self.findings.push(Finding::new(code, node.headline(), message).help(help));
    }
}

fn sequence(items: Vec<Tree>) -> Tree {
    if items.iter().all(Tree::is_literal) {
        Tree::Literal(Value::Array(items.into_iter().filter_map(Tree::into_literal).collect()))
    } else {
        Tree::Sequence(items)
    }
}

fn mapping(entries: Vec<(String, Tree)>) -> Tree {
    if entries.iter().all(|(_, tree)| tree.is_literal()) {
        let entries = entries.into_iter().filter_map(|(key, tree)| Some((key, tree.into_literal()?)));
        Tree::Literal(Value::Object(entries.collect()))
    } else {
        Tree::Mapping(entries)
    }
}

/// Why a tree was not rendered, and where in it.
struct Stopped {
    path: String,
    why: Unrendered,
}

impl Stopped {
    fn at(why: Unrendered) -> Self {
        Self { path: String::new(), why }
    }

    fn under_key(mut self, key: &str) -> Self {
        let step = if key.contains('.') { format!("[{key:?}]") } else { key.to_owned() };
        let separator = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{step}{separator}{}", self.path);
        self
    }

    fn under_index(mut self, index: usize) -> Self {
        let separator = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("[{index}]{separator}{}", self.path);
        self
    }

    fn outcome(self) -> Outcome {
        match (self.why, self.path) {
            (Unrendered::Waiting(what), path) if path.is_empty() => Outcome::Waiting(what),
            (Unrendered::Waiting(what), path) => Outcome::Waiting(format!("{what} (read at `{path}`)")),
            (Unrendered::Failed(why), path) if path.is_empty() => Outcome::Failed(why),
            (Unrendered::Failed(why), path) => Outcome::Failed(format!("{path}: {why}")),
        }
    }
}

impl Tree {
    fn is_literal(&self) -> bool {
        matches!(self, Self::Literal(_))
    }

    fn into_literal(self) -> Option<Value> {
        match self {
            Self::Literal(value) => Some(value),
            _ => None,
        }
    }

    /// The value; `None`: left out.
    fn render(&self, scope: &Scope, budget: &mut Budget) -> Result<Option<Value>, Stopped> {
        match self {
            Self::Literal(value) => Ok(Some(value.clone())),
            Self::Expression(expression) => match expression.evaluate_within(scope, budget) {
                Outcome::Value(value) => Ok(Some(value)),
                Outcome::Omit => Ok(None),
                outcome => Err(Stopped::at(
                    outcome.unrendered().unwrap_or_else(|| Unrendered::Failed("nothing is rendered".to_owned())),
                )),
            },
            Self::Text(text) => {
                text.render_within(scope, budget).map(|text| Some(Value::String(text))).map_err(Stopped::at)
            }
            Self::Sequence(items) => Self::render_sequence(items, scope, budget),
            Self::Mapping(entries) => Self::render_mapping(entries, scope, budget),
        }
    }

    fn render_sequence(items: &[Self], scope: &Scope, budget: &mut Budget) -> Result<Option<Value>, Stopped> {
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            list.extend(item.render(scope, budget).map_err(|stopped| stopped.under_index(index))?);
        }
        Ok(Some(Value::Array(list)))
    }

    fn render_mapping(
        entries: &[(String, Self)],
        scope: &Scope,
        budget: &mut Budget,
    ) -> Result<Option<Value>, Stopped> {
        let mut map = Map::with_capacity(entries.len());
        for (key, tree) in entries {
            if let Some(value) = tree.render(scope, budget).map_err(|stopped| stopped.under_key(key))? {
                map.insert(key.clone(), value);
            }
        }
        Ok(Some(Value::Object(map)))
    }
}

#[cfg(test)]
mod tests;
