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
        let mut places = Vec::new();
        match code(ours) == code(theirs) {
            true => descend(&format!("{}", index + 1), ours, theirs, &mut places),
            // All else follows from it.
            false => places.push((format!("{}/code", index + 1), ours.cloned(), theirs.cloned())),
        }
        found.extend(places.into_iter().map(|(at, ours, theirs)| Difference {
            at,
            request: request.to_owned(),
            ours,
            theirs,
        }));
    }
    found
}

fn code(answer: Option<&Value>) -> Option<&Value> {
    answer.and_then(|answer| answer.get("code"))
}

type Place = (String, Option<Value>, Option<Value>);

fn descend(at: &str, ours: Option<&Value>, theirs: Option<&Value>, found: &mut Vec<Place>) {
    match (ours, theirs) {
        (Some(Value::Object(ours)), Some(Value::Object(theirs))) => {
            for (key, value) in ours {
                descend(&joined(at, key), Some(value), theirs.get(key), found);
            }
            for (key, value) in theirs.iter().filter(|(key, _)| !ours.contains_key(*key)) {
                descend(&joined(at, key), None, Some(value), found);
            }
        }
        (Some(Value::Array(ours)), Some(Value::Array(theirs))) if ours.len() == theirs.len() => {
            for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                descend(&format!("{at}/{index}"), Some(ours), Some(theirs), found);
            }
        }
        (ours, theirs) if ours == theirs => (),
        (ours, theirs) => found.push((at.to_owned(), ours.cloned(), theirs.cloned())),
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
