//! What of a case does not hold.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Problem {
    message: String,
    #[serde(flatten)]
    about: Option<About>,
}

/// What programs get beside the words, where there is more.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
enum About {
    /// Something else stands at a path than is expected; null for nothing.
    Unmet { path: String, expected: Value, actual: Value },
    /// What is rendered is not what the case's golden file, this one, holds.
    Golden { golden: String, difference: String },
}

impl Problem {
    pub fn said(words: impl Into<String>) -> Self {
        Self { message: words.into(), about: None }
    }

    pub fn unmet(path: String, expected: Value, actual: Value) -> Self {
        let shown = |value: &Value| if value.is_null() { "nothing".to_owned() } else { value.to_string() };
        let message = format!("{path}: expected {}, got {}", shown(&expected), shown(&actual));
        Self { message, about: Some(About::Unmet { path, expected, actual }) }
    }

    /// Nothing can ever stand there.
    pub fn unknown(path: String, expected: Value) -> Self {
        let Self { message, about } = Self::unmet(path, expected, Value::Null);
        Self { message: format!("{message}: there is no such field"), about }
    }

    pub fn golden(name: &str, golden: String, difference: String) -> Self {
        let message = format!("golden {name} differs (- the file, + what is rendered; --update takes the latter)");
        Self { message, about: Some(About::Golden { golden, difference }) }
    }
}

/// For people; of a golden file, with what differs below it.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.about {
            Some(About::Golden { difference, .. }) => write!(f, "{}:\n{difference}", self.message),
            Some(About::Unmet { .. }) | None => f.write_str(&self.message),
        }
    }
}
