//! Lists, mappings and unions as serde walks them: dead nodes are passed over.

use std::sync::Arc;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::error::{Cause, Error};
use super::{Node, NodeDeserializer, NodeValue};

pub(super) struct Items<'a> {
    parent: NodeDeserializer<'a>,
    rest: std::slice::Iter<'a, Arc<Node>>,
}

impl<'a> Items<'a> {
    pub(super) fn new(parent: NodeDeserializer<'a>, items: &'a [Arc<Node>]) -> Self {
        Self { parent, rest: items.iter() }
    }
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        for item in self.rest.by_ref() {
            if self.parent.context.is_dead(item) {
                self.parent.context.silence(self.parent.node);
                continue;
            }
            return seed.deserialize(self.parent.at(item, None)).map(Some).map_err(|error| error.located(item));
        }
        Ok(None)
    }
}

/// The fields of a struct, or all entries of a free mapping.
pub(super) struct Fields<'a> {
    parent: NodeDeserializer<'a>,
    rest: std::slice::Iter<'a, (Arc<Node>, Arc<Node>)>,
    /// Of a struct: the fields it knows.
    known: Option<&'static [&'static str]>,
    value: Option<NodeDeserializer<'a>>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(
        parent: NodeDeserializer<'a>,
        entries: &'a [(Arc<Node>, Arc<Node>)],
        known: Option<&'static [&'static str]>,
    ) -> Self {
        Self { parent, rest: entries.iter(), known, value: None }
    }

    /// Whether an entry is passed over: dead, unknown to the struct, or empty, which is as if it were not there.
    fn passes(&self, key: &Arc<Node>, value: &Arc<Node>) -> bool {
        let context = self.parent.context;
        if context.is_dead(key) || context.is_dead(value) {
            context.silence(self.parent.node);
            return true;
        }
        let text = key.as_str().unwrap_or_default();
        self.known.is_some_and(|known| !known.contains(&text) || value.value == NodeValue::Null)
    }
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        while let Some((key, value)) = self.rest.next() {
            if self.passes(key, value) {
                continue;
            }
            self.value = Some(self.parent.at(value, Some(key)));
            return seed.deserialize(self.parent.at(key, None)).map(Some).map_err(|error| error.located(key));
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        match self.value.take() {
            Some(value) => seed.deserialize(value).map_err(|error| error.located(value.node)),
            None => Err(serde::de::Error::custom("a value was asked for before its key")),
        }
    }
}

/// One variant of a union, with its content.
pub(super) struct Chosen<'a> {
    pub(super) variant: &'static str,
    pub(super) content: Option<NodeDeserializer<'a>>,
    pub(super) node: &'a Arc<Node>,
}

impl Chosen<'_> {
    fn content(&self) -> Result<NodeDeserializer<'_>, Error> {
        match self.content {
            Some(content) if content.context.is_dead(content.node) => {
                Err(Error::at(self.node, Cause::Mistyped("a readable value".into())))
            }
            Some(content) => Ok(content),
            None => Err(Error::at(self.node, Cause::Mistyped(format!("`{}` with a value below it", self.variant)))),
        }
    }
}

impl<'de, 'a> EnumAccess<'de> for Chosen<'a> {
    type Error = Error;
    type Variant = Chosen<'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self::Variant), Error> {
        let name: StrDeserializer<'_, Error> = self.variant.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Chosen<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.content {
            None => Ok(()),
            Some(_) => Err(Error::at(self.node, Cause::Mistyped(format!("the word `{}` alone", self.variant)))),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        let content = self.content()?;
        seed.deserialize(content).map_err(|error| error.located(content.node))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.content()?.sequence(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.content()?.structure(self.variant, fields, visitor)
    }
}
