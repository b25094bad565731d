//! The arena: nodes that know which bytes of the file they came from.

use std::ops::Range;
use std::sync::Arc;

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
    origin: Origin,
}

/// How the decoded text lies in the file.
#[derive(Debug, Clone, PartialEq)]
enum Origin {
    /// Byte for byte, from this offset on.
    Verbatim(usize),
}

impl Scalar {
    /// A string that stands byte for byte at the start of its file.
    pub fn plain(text: &str) -> Self {
        Self { text: Arc::from(text), origin: Origin::Verbatim(0) }
    }

    /// The bytes of the file that hold these bytes of `text`.
    pub fn locate(&self, range: Range<usize>) -> Range<usize> {
        match self.origin {
            Origin::Verbatim(start) => start + range.start..start + range.end,
        }
    }
}
