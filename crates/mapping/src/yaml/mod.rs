//! YAML: text → spanned nodes → typed values, every error at once.
//!
//! [`parse`] cuts a file at its document markers, so that no document can hide its neighbours; each is composed to a
//! tree of [`Node`]s, and read into types by [`from_node`].

mod compose;
mod deserialize;
mod documents;
mod finding;
mod node;
mod origin;
mod resolve;
mod spanned;
mod syntax;
mod write;

pub use deserialize::{Typed, closest, from_node, meant, nearest, quoted};
pub use documents::{Document, Limits, parse, parse_one, parse_within};
pub use finding::Finding;
pub use node::{Node, NodeValue, Scalar};
pub use spanned::{Entries, FromNode, Raw, Spanned, deserialize_node};
pub use write::{write, write_all};

#[cfg(test)]
mod tests;
