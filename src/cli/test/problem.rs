//! What of a case does not hold.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Problem {
    /// Something else stands at a path than is expected; null for nothing.
    Unmet { path: String, expected: Value, actual: Value },
    /// What is rendered is not what the case's golden file holds.
    Golden { file: String, name: String, difference: String },
    /// There are only words for it.
    Said(String),
}

impl Problem {
    pub fn said(words: impl Into<String>) -> Self {
        Self::Said(words.into())
    }
}

/// For programs: the words, and what they are about.
impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let words = self.to_string();
        let json = match self {
            Self::Unmet { path, expected, actual } => {
                json!({"message": words, "path": path, "expected": expected, "actual": actual})
            }
            Self::Golden { file, difference, .. } => {
                let head = words.lines().next().unwrap_or_default().trim_end_matches(':');
                json!({"message": head, "golden": file, "difference": difference})
            }
            Self::Said(_) => json!({"message": words}),
        };
        json.serialize(serializer)
    }
}

/// For people; of a golden file, with what differs below it.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmet { path, expected, actual } => {
                write!(f, "{path}: expected {}, got {}", Shown(expected), Shown(actual))
            }
            Self::Golden { name, difference, .. } => write!(
                f,
                "golden {name} differs (- the file, + what is rendered; --update takes the latter):\n{difference}"
            ),
            Self::Said(words) => f.write_str(words),
        }
    }
}

struct Shown<'v>(&'v Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_null() { f.write_str("nothing") } else { write!(f, "{}", self.0) }
    }
}
