//! Nodes that know which bytes of the file they came from.

use std::ops::Range;
use std::sync::Arc;

use super::origin::Origin;

/// One YAML node and the bytes of the file it covers.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub span: Range<usize>,
    pub value: NodeValue,
}

/// What a node holds. Aliases are resolved: the same `Arc` stands in several places.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeValue {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    String(Scalar),
    Sequence(Vec<Arc<Node>>),
    /// Keys are strings, each of them once, in the order of the file.
    Mapping(Vec<(Arc<Node>, Arc<Node>)>),
}

/// A string, and where each part of it stands in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Scalar {
    pub text: Arc<str>,
    pub(super) origin: Origin,
}

impl Scalar {
    /// A string that stands byte for byte at the start of its file.
    pub fn plain(text: &str) -> Self {
        Self { text: Arc::from(text), origin: Origin::Verbatim(0) }
    }

    /// The bytes of the file that hold these bytes of `text`; the whole scalar where that cannot be told.
    pub fn locate(&self, range: Range<usize>) -> Range<usize> {
        self.origin.locate(range)
    }
}

impl Node {
    /// The text of a string node.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            NodeValue::String(scalar) => Some(&scalar.text),
            _ => None,
        }
    }

    /// The bytes of the file that hold these bytes of a text; of anything else, those of its headline.
    pub fn locate(&self, range: Range<usize>) -> Range<usize> {
        if let NodeValue::String(scalar) = &self.value { scalar.locate(range) } else { self.headline() }
    }

    /// The value that stands under a key of a mapping node.
    pub fn get(&self, key: &str) -> Option<&Arc<Node>> {
        self.entry(key).map(|(_, value)| value)
    }

    /// The value at the end of a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<&Arc<Node>> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.get(first)?, |node, key| node.get(key))
    }

    /// The items of a list; of anything else, none.
    pub fn items(&self) -> &[Arc<Node>] {
        if let NodeValue::Sequence(items) = &self.value { items } else { &[] }
    }

    /// The entries of a mapping; of anything else, none.
    pub fn entries(&self) -> &[(Arc<Node>, Arc<Node>)] {
        if let NodeValue::Mapping(entries) = &self.value { entries } else { &[] }
    }

    /// The same with what stands at a path edited, or left out where that gives nothing; `*` is every item of a list.
    pub fn edited(
        self: &Arc<Self>,
        path: &[&str],
        edit: &dyn Fn(&Arc<Self>) -> Option<Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let Some((key, below)) = path.split_first() else { return edit(self) };
        let value = match &self.value {
            NodeValue::Sequence(items) if *key == "*" => {
                NodeValue::Sequence(items.iter().filter_map(|item| item.edited(below, edit)).collect())
            }
            NodeValue::Mapping(entries) => {
                let kept = |(entry, value): &(Arc<Self>, Arc<Self>)| {
                    let is_it = entry.as_str() == Some(*key);
                    let value = if is_it { value.edited(below, edit)? } else { value.clone() };
                    Some((entry.clone(), value))
                };
                NodeValue::Mapping(entries.iter().filter_map(kept).collect())
            }
            other => other.clone(),
        };
        Some(Arc::new(Self { span: self.span.clone(), value }))
    }

    /// Key and value of a mapping node's entry.
    pub fn entry(&self, key: &str) -> Option<&(Arc<Node>, Arc<Node>)> {
        match &self.value {
            NodeValue::Mapping(entries) => entries.iter().find(|(name, _)| name.as_str() == Some(key)),
            _ => None,
        }
    }

    /// The same of an entry that holds something.
    pub fn given(&self, key: &str) -> Option<&(Arc<Node>, Arc<Node>)> {
        self.entry(key).filter(|(_, value)| value.value != NodeValue::Null)
    }

    /// The bare value, without positions: for comparison, and for literals.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value;
        match &self.value {
            NodeValue::Null => Value::Null,
            NodeValue::Bool(bool) => Value::Bool(*bool),
            NodeValue::Number(number) => Value::Number(number.clone()),
            NodeValue::String(scalar) => Value::String(scalar.text.to_string()),
            NodeValue::Sequence(items) => Value::Array(items.iter().map(|item| item.to_json()).collect()),
            NodeValue::Mapping(entries) => Value::Object(
                entries
                    .iter()
                    .map(|(key, value)| (key.as_str().unwrap_or_default().to_owned(), value.to_json()))
                    .collect(),
            ),
        }
    }

    /// What the node is, in an author's words.
    pub fn describe(&self) -> String {
        match &self.value {
            NodeValue::Null => "nothing (null)".into(),
            NodeValue::Bool(bool) => format!("the boolean `{bool}`"),
            NodeValue::Number(number) => format!("the number `{number}`"),
            NodeValue::String(scalar) if scalar.text.chars().count() <= 40 && !scalar.text.contains('\n') => {
                format!("the string `{}`", scalar.text)
            }
            NodeValue::String(_) => "a string".into(),
            NodeValue::Sequence(_) => "a list".into(),
            NodeValue::Mapping(_) => "a map".into(),
        }
    }

    /// Where a caret for the whole node goes: never a whole block of lines.
    pub fn headline(&self) -> Range<usize> {
        match &self.value {
            NodeValue::Mapping(entries) => entries.first().map_or(self.span.clone(), |(key, _)| key.span.clone()),
            NodeValue::Sequence(items) => items.first().map_or(self.span.clone(), |item| item.headline()),
            _ => self.span.clone(),
        }
    }
}
