//! Nodes → typed values, every error at once.
//!
//! serde stops at the first error. So each node that fails is set aside as dead, and the type is read again from the root
//! without it, until it can be read; what fails only because a part of it is dead stays silent. Unknown and missing
//! fields are found by comparing keys up front.

mod access;
mod error;

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde::forward_to_deserialize_any;

use self::access::{Chosen, Fields, Items};
use self::error::{Cause, Error};
use super::spanned::{TOKEN, hand_over};
use super::{Finding, Node, NodeValue};

/// After this many rounds the rest of the errors waits: reading again costs as much as the document is long.
const MAX_ROUNDS: usize = 100;

/// A value read from a tree.
#[derive(Debug)]
pub struct Typed<T> {
    pub value: T,
    /// Whether all of the tree was read. Otherwise findings say what was left out.
    pub complete: bool,
}

/// Reads a type from a tree. `required` gives the required fields of a struct by the struct's name.
///
/// Everything wrong is added to `findings`; `None` where nothing of the type could be read.
pub fn from_node<T: DeserializeOwned>(
    root: &Arc<Node>,
    required: &dyn Fn(&str) -> Vec<String>,
    findings: &mut Vec<Finding>,
) -> Option<Typed<T>> {
    let context = Context { required, memory: RefCell::default() };
    let outcome = loop {
        match T::deserialize(NodeDeserializer { node: root, key: None, context: &context }) {
            Ok(value) => break Some(value),
            Err(error) => {
                if !context.bury(error, root) {
                    break None;
                }
            }
        }
    };
    let memory = context.memory.into_inner();
    findings.extend(memory.findings);
    outcome.map(|value| Typed { value, complete: memory.dead.is_empty() })
}

/// What is common to all rounds of one reading.
struct Context<'a> {
    required: &'a dyn Fn(&str) -> Vec<String>,
    memory: RefCell<Memory>,
}

#[derive(Default)]
struct Memory {
    findings: Vec<Finding>,
    /// Nodes that failed, by address: the tree outlives the reading.
    dead: HashSet<*const Node>,
    /// Nodes whose failure is the consequence of something said already.
    silent: HashSet<*const Node>,
    /// Structs whose keys have been compared.
    compared: HashSet<*const Node>,
}

impl Context<'_> {
    fn is_dead(&self, node: &Arc<Node>) -> bool {
        self.memory.borrow().dead.contains(&Arc::as_ptr(node))
    }

    /// Sets the failed node aside. False where reading again is of no use.
    fn bury(&self, error: Error, root: &Arc<Node>) -> bool {
        let failed = error.node().unwrap_or(Arc::as_ptr(root));
        let mut memory = self.memory.borrow_mut();
        let silent = memory.silent.contains(&failed);
        if !silent {
            memory.findings.extend(error.into_finding());
        }
        memory.dead.insert(failed) && failed != Arc::as_ptr(root) && memory.dead.len() < MAX_ROUNDS
    }

    /// What contains a dead node may fail without a word.
    fn silence(&self, node: &Arc<Node>) {
        self.memory.borrow_mut().silent.insert(Arc::as_ptr(node));
    }
}

#[derive(Clone, Copy)]
struct NodeDeserializer<'a> {
    node: &'a Arc<Node>,
    /// The key that led here.
    key: Option<&'a Arc<Node>>,
    context: &'a Context<'a>,
}

impl<'a> NodeDeserializer<'a> {
    fn at(self, node: &'a Arc<Node>, key: Option<&'a Arc<Node>>) -> Self {
        Self { node, key, ..self }
    }

    /// Where something is missing: the key that leads to the node, or its start.
    fn heading(&self) -> Range<usize> {
        self.key.map_or_else(|| self.node.headline(), |key| key.span.clone())
    }

    fn mistyped(&self, expected: impl Into<String>) -> Error {
        Error::at(self.node, Cause::Mistyped(expected.into()))
    }

    fn any<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.value {
            NodeValue::Null => visitor.visit_unit(),
            NodeValue::Bool(bool) => visitor.visit_bool(*bool),
            NodeValue::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            NodeValue::String(scalar) => visitor.visit_str(&scalar.text),
            NodeValue::Sequence(items) => visitor.visit_seq(Items::new(self, items)),
            NodeValue::Mapping(entries) => visitor.visit_map(Fields::new(self, entries, None)),
        }
    }

    fn sequence<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.value {
            NodeValue::Sequence(items) => visitor.visit_seq(Items::new(self, items)),
            _ => Err(self.mistyped("a list")),
        }
    }

    fn structure<'de, V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let NodeValue::Mapping(entries) = &self.node.value else {
            return Err(self.mistyped(format!("a map with {}", quoted(fields))));
        };
        if self.context.memory.borrow_mut().compared.insert(Arc::as_ptr(self.node)) {
            self.compare(entries, name, fields);
        }
        visitor.visit_map(Fields::new(self, entries, Some(fields)))
    }

    /// Reports every unknown and every missing field of a struct.
    fn compare(&self, entries: &[(Arc<Node>, Arc<Node>)], name: &str, fields: &'static [&'static str]) {
        let mut meant = Vec::new();
        let mut findings = Vec::new();
        for (key, _) in entries {
            let text = key.as_str().unwrap_or_default();
            if !fields.contains(&text) {
                meant.extend(closest(text, fields));
                findings.push(unknown_field(key, text, fields));
            }
        }
        let stands = |field: &str| self.node.get(field).is_some_and(|value| value.value != NodeValue::Null);
        for field in (self.context.required)(name) {
            if !stands(&field) {
                self.context.silence(self.node);
                if !meant.contains(&field.as_str()) {
                    findings.push(Finding::new("SE0103", self.heading(), format!("the field `{field}` is missing")));
                }
            }
        }
        self.context.memory.borrow_mut().findings.extend(findings);
    }

    fn choice<'de, V: Visitor<'de>>(self, variants: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        let (name, content) = match &self.node.value {
            NodeValue::String(_) => (self.node, None),
            NodeValue::Mapping(entries) => match entries.as_slice() {
                [(key, value)] => (key, Some(value)),
                _ => return Err(Error::at(self.node, Cause::Union(variants))),
            },
            _ => return Err(self.mistyped(format!("one of {}", quoted(variants)))),
        };
        let text = name.as_str().unwrap_or_default();
        let Some(variant) = variants.iter().copied().find(|variant| *variant == text) else {
            let (text, span) = (text.to_owned(), name.span.clone());
            return Err(Error::at(self.node, Cause::UnknownChoice { text, variants, span }));
        };
        if content.is_some_and(|content| self.context.is_dead(content)) {
            self.context.silence(self.node);
        }
        visitor.visit_enum(Chosen {
            variant,
            content: content.map(|content| self.at(content, Some(name))),
            node: self.node,
        })
    }
}

impl<'de> Deserializer<'de> for NodeDeserializer<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.any(visitor).map_err(|error| error.located(self.node))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.node.value == NodeValue::Null { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        if name == TOKEN {
            hand_over(self.node);
        }
        visitor.visit_newtype_struct(self).map_err(|error| error.located(self.node))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.sequence(visitor).map_err(|error| error.located(self.node))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.value {
            NodeValue::Mapping(entries) => visitor.visit_map(Fields::new(self, entries, None)),
            _ => Err(self.mistyped("a map")),
        }
        .map_err(|error| error.located(self.node))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.structure(name, fields, visitor).map_err(|error| error.located(self.node))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.choice(variants, visitor).map_err(|error| error.located(self.node))
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.node.as_str().unwrap_or_default())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple
        tuple_struct
    }
}

/// Fields and choices of earlier builds, and what to write.
const MOVED: [(&str, &str); 7] = [
    ("pruneGuard", "write `release: {maxLost: {objects: 10, percent: 20}}` below `spec`, with your numbers"),
    ("accessProviders", "leave it out; the engine is given the file as `--access-providers FILE`"),
    ("apiExport", "write it below `source` of each mapping, in place of `provider`"),
    ("strategy", "leave it out; each target has one way to be written to"),
    ("replaces", "leave it out; nothing takes its place"),
    ("waitForOtherFinalizers", "leave it out; nothing takes its place"),
    ("IfAnnotated", "write `IfUnowned`"),
];

/// What to write in the place of a field or a choice that an earlier build had.
fn moved(text: &str) -> Option<&'static str> {
    MOVED.iter().find(|(former, _)| *former == text).map(|(_, now)| *now)
}

fn unknown_field(key: &Node, text: &str, fields: &[&str]) -> Finding {
    let finding = Finding::new("SE0101", key.span.clone(), format!("unknown field `{text}`"));
    if let Some(now) = moved(text) {
        return finding.help(now);
    }
    let known = || match fields {
        [] => "no fields are known here".to_owned(),
        _ => format!("known here: {}", quoted(fields)),
    };
    finding.help(meant(text, fields).unwrap_or_else(known))
}

/// "`a`, `b`"
pub fn quoted<T: Display>(names: impl IntoIterator<Item = T>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The question whether an author meant the closest of the candidates, where one is close.
pub fn meant(name: &str, candidates: &[&str]) -> Option<String> {
    closest(name, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// The candidate that an author probably meant.
pub fn closest<'c>(name: &str, candidates: &[&'c str]) -> Option<&'c str> {
    nearest(name, candidates).into_iter().next()
}

/// The candidates that an author may have meant, the most likely first.
pub fn nearest<'c>(name: &str, candidates: &[&'c str]) -> Vec<&'c str> {
    let lower = name.to_lowercase();
    let distance = |candidate: &str| strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
    let all = candidates.iter().map(|candidate| (distance(candidate), *candidate));
    let mut near: Vec<_> = all.filter(|(distance, one)| *distance <= one.len().max(name.len()) / 3).collect();
    near.sort_by_key(|(distance, _)| *distance);
    near.into_iter().map(|(_, candidate)| candidate).collect()
}
