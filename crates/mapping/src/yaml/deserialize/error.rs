//! Errors of reading a type, and their way to findings.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{Expected, Unexpected};

use super::super::{Finding, Node, NodeValue};
use super::{meant, moved, quoted};

/// Why a node could not be read; located at the innermost node that failed.
#[derive(Debug)]
pub(super) struct Error {
    cause: Cause,
    node: Option<Arc<Node>>,
}

#[derive(Debug)]
pub(super) enum Cause {
    /// What was expected instead.
    Mistyped(String),
    Missing(&'static str),
    Union(&'static [&'static str]),
    UnknownChoice {
        text: String,
        variants: &'static [&'static str],
        span: Range<usize>,
    },
    Other(String),
}

impl Error {
    pub(super) fn at(node: &Arc<Node>, cause: Cause) -> Self {
        Self { cause, node: Some(node.clone()) }
    }

    fn because(cause: Cause) -> Self {
        Self { cause, node: None }
    }

    pub(super) fn located(self, node: &Arc<Node>) -> Self {
        Self { node: Some(self.node.unwrap_or_else(|| node.clone())), ..self }
    }

    pub(super) fn node(&self) -> Option<*const Node> {
        self.node.as_ref().map(Arc::as_ptr)
    }

    pub(super) fn into_finding(self) -> Option<Finding> {
        let node = self.node?;
        let at = node.headline();
        Some(match self.cause {
            Cause::Mistyped(expected) => mistyped(&node, &expected),
            Cause::Missing(field) => Finding::new("SE0103", at, format!("the field `{field}` is missing")),
            Cause::Union(variants) => {
                let found = match &node.value {
                    NodeValue::Mapping(entries) => entries.len(),
                    _ => 0,
                };
                Finding::new("SE0104", at, format!("exactly one field is expected here, and {found} stand"))
                    .help(format!("choose one of {}", quoted(variants)))
            }
            Cause::UnknownChoice { text, variants, span } => {
                let message = match variants {
                    [only] => format!("`{text}` is not `{only}`, the only choice"),
                    _ => format!("`{text}` is not one of {}", quoted(variants)),
                };
                let help = || meant(&text, variants).filter(|_| variants.len() > 1);
                let help = moved(&text).map(str::to_owned).or_else(help);
                Finding { help, ..Finding::new("SE0104", span, message) }
            }
            Cause::Other(message) => Finding::new("SE0102", at, message),
        })
    }
}

fn mistyped(node: &Node, expected: &str) -> Finding {
    let expected = plainly(expected);
    let finding = Finding::new("SE0102", node.headline(), format!("expected {expected}, found {}", node.describe()));
    match &node.value {
        NodeValue::String(scalar) if expected == "true or false" => match scalar.text.to_lowercase().as_str() {
            "yes" | "on" | "y" => finding.help("`yes` and `on` are texts: write `true`"),
            "no" | "off" | "n" => finding.help("`no` and `off` are texts: write `false`"),
            _ => finding,
        },
        NodeValue::Bool(_) | NodeValue::Number(_) if expected == "a text" => finding.help("put it in quotes"),
        _ => finding,
    }
}

/// serde's words for what it expects, in an author's.
fn plainly(expected: &str) -> String {
    match expected {
        "a string" => "a text".into(),
        "a boolean" => "true or false".into(),
        "a sequence" => "a list".into(),
        "u8" => "a whole number from 0 to 255".into(),
        "u16" => "a whole number from 0 to 65535".into(),
        "u32" | "u64" | "usize" => "a whole number, 0 or more".into(),
        other => other.into(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.cause)
    }
}

impl std::error::Error for Error {}

impl serde::de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::because(Cause::Other(message.to_string()))
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::because(Cause::Mistyped(expected.to_string()))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::because(Cause::Mistyped(expected.to_string()))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::because(Cause::Missing(field))
    }
}
