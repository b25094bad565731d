//! YAML: text → spanned nodes → typed values, every error at once.

mod node;

pub use node::{Node, NodeValue, Scalar};
