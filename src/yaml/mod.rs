//! YAML: text → spanned nodes → typed values, every error at once.
//!
//! [`split`](documents) cuts a file at its document markers, so that no document can hide its neighbours; each is
//! composed to a tree of [`Node`]s, and read into types by [`from_node`].

mod finding;
mod node;
mod origin;
mod spanned;

pub use finding::Finding;
pub use node::{Node, NodeValue, Scalar};
pub use spanned::{Entries, FromNode, Raw, Spanned, deserialize_node};
