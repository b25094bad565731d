//! Typed values that keep the node they came from.
//!
//! A serde visitor is only ever given plain values. A node reaches it by a hand-over: the deserializer of this module's
//! parent recognizes [`TOKEN`], leaves the node in a slot, and the visitor takes it from there at once.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use super::Node;

/// Name of the newtype struct that asks for the node itself.
pub(super) const TOKEN: &str = "$sync_engine::yaml::Node";

thread_local! {
    static SLOT: RefCell<Option<Arc<Node>>> = const { RefCell::new(None) };
}

pub(super) fn hand_over(node: &Arc<Node>) {
    SLOT.with_borrow_mut(|slot| *slot = Some(node.clone()));
}

/// A type whose form depends on the node, or that keeps it.
pub trait FromNode: Sized {
    /// `deserializer` reads the same node.
    fn from_node<'de, D: Deserializer<'de>>(node: &Arc<Node>, deserializer: D) -> Result<Self, D::Error>;
}

/// Deserializes a type that needs its node. Works with this crate's YAML alone.
pub fn deserialize_node<'de, T: FromNode, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct NodeVisitor<T>(PhantomData<T>);

    impl<'de, T: FromNode> Visitor<'de> for NodeVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a YAML node")
        }

        fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
            let node =
                SLOT.with_borrow_mut(Option::take).ok_or_else(|| D::Error::custom("not read from a YAML node"))?;
            T::from_node(&node, deserializer)
        }
    }

    deserializer.deserialize_newtype_struct(TOKEN, NodeVisitor(PhantomData))
}

/// A value of any shape, kept as the node it is: templates and expressions.
#[derive(Debug, Clone)]
pub struct Raw(pub Arc<Node>);

/// A value and the node it was read from.
#[derive(Debug, Clone)]
pub struct Spanned<T> {
    pub value: T,
    pub node: Arc<Node>,
}

impl<T> Spanned<T> {
    /// The bytes of the file; for a block only its first key or item.
    pub fn span(&self) -> Range<usize> {
        self.node.headline()
    }
}

impl<T> Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A mapping with free keys, in the order of the file.
#[derive(Debug, Clone)]
pub struct Entries<V>(pub Vec<(Spanned<String>, V)>);

impl<V> Default for Entries<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl FromNode for Raw {
    fn from_node<'de, D: Deserializer<'de>>(node: &Arc<Node>, _: D) -> Result<Self, D::Error> {
        Ok(Self(node.clone()))
    }
}

impl<T: for<'a> Deserialize<'a>> FromNode for Spanned<T> {
    fn from_node<'de, D: Deserializer<'de>>(node: &Arc<Node>, deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { value: T::deserialize(deserializer)?, node: node.clone() })
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_node(deserializer)
    }
}

impl<'de, T: for<'a> Deserialize<'a>> Deserialize<'de> for Spanned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_node(deserializer)
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Entries<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for EntriesVisitor<V> {
            type Value = Entries<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

impl JsonSchema for Raw {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Raw".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!(true)
    }
}

impl<T: JsonSchema> JsonSchema for Spanned<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl<V: JsonSchema> JsonSchema for Entries<V> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Entries_of_{}", V::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "additionalProperties": generator.subschema_for::<V>()})
    }
}
