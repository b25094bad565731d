//! Where two lists of answers differ.

use std::fmt;

use serde_json::Value;

/// One place where the sandbox, or a recording, says something else than a real server.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Number of the compared step, from 1, and a JSON pointer into its answer: `2/body/metadata/labels`.
    pub at: String,
    pub request: String,
    pub ours: Option<Value>,
    pub theirs: Option<Value>,
}

/// Every difference between the answers to the same steps.
pub fn compare(ours: &[Value], theirs: &[Value]) -> Vec<Difference> {
    let mut found = Vec::new();
    for index in 0..ours.len().max(theirs.len()) {
        let (ours, theirs) = (ours.get(index), theirs.get(index));
        let request = ours.or(theirs).and_then(|answer| answer["send"].as_str()).unwrap_or_default();
        let mut differ = |at: &str, ours: Option<&Value>, theirs: Option<&Value>| {
            let (at, request) = (at.to_owned(), request.to_owned());
            found.push(Difference { at, request, ours: ours.cloned(), theirs: theirs.cloned() });
        };
        let step = (index + 1).to_string();
        match code(ours) == code(theirs) {
            true => descend(&step, ours, theirs, &mut differ),
            // All else follows from it.
            false => differ(&format!("{step}/code"), ours, theirs),
        }
    }
    found
}

fn code(answer: Option<&Value>) -> Option<&Value> {
    answer.and_then(|answer| answer.get("code"))
}

/// Names each place where the two differ.
fn descend(
    at: &str,
    ours: Option<&Value>,
    theirs: Option<&Value>,
    differ: &mut impl FnMut(&str, Option<&Value>, Option<&Value>),
) {
    match (ours, theirs) {
        (Some(Value::Object(ours)), Some(Value::Object(theirs))) => {
            for (key, value) in ours {
                descend(&joined(at, key), Some(value), theirs.get(key), differ);
            }
            for (key, value) in theirs.iter().filter(|(key, _)| !ours.contains_key(*key)) {
                descend(&joined(at, key), None, Some(value), differ);
            }
        }
        (Some(Value::Array(ours)), Some(Value::Array(theirs))) if ours.len() == theirs.len() => {
            for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                descend(&format!("{at}/{index}"), Some(ours), Some(theirs), differ);
            }
        }
        (ours, theirs) if ours == theirs => (),
        (ours, theirs) => differ(at, ours, theirs),
    }
}

fn joined(at: &str, key: &str) -> String {
    format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"))
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), Value::to_string);
        write!(
            f,
            "at {} ({})\n    ours:   {}\n    theirs: {}",
            self.at,
            self.request,
            said(&self.ours),
            said(&self.theirs)
        )
    }
}
