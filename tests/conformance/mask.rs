//! Takes out of answers what differs from run to run, and keeps what it tells: which uids, and which versions of an object,
//! are the same and which are not.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::play::{Played, Variables};

/// The names that volatile texts get, in the order of their first appearance.
#[derive(Default)]
struct Names {
    uids: HashMap<String, String>,
    versions: HashMap<String, String>,
    /// Kept texts that are long enough not to be met by chance, with the variable's name.
    kept: Vec<(String, String)>,
}

/// The answers of a case with stable names for all that is volatile, the values of variables among it.
pub fn masked(played: Played) -> Vec<Value> {
    let mut names = Names { kept: kept(&played.variables), ..Names::default() };
    played.answers.iter().for_each(|answer| names.collect(answer));
    played.answers.into_iter().map(|answer| names.replace(answer, None)).collect()
}

fn kept(variables: &Variables) -> Vec<(String, String)> {
    let volatile = variables.iter().filter(|(_, value)| value.len() > 4 && !looks_like_a_uid(value));
    let mut kept: Vec<(String, String)> = volatile.map(|(name, value)| (value.clone(), format!("<{name}>"))).collect();
    // The longest first: a URL has a cluster's name in it.
    kept.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
    kept
}

impl Names {
    fn collect(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(map) => {
                if let Some(uid) = map.get("uid").and_then(Value::as_str).filter(|uid| looks_like_a_uid(uid)) {
                    let name = format!("<uid {}>", self.uids.len() + 1);
                    self.uids.entry(uid.to_owned()).or_insert(name);
                    if let Some(version) = map.get("resourceVersion").and_then(Value::as_str) {
                        let name = format!("<version {}>", self.versions.len() + 1);
                        self.versions.entry(version.to_owned()).or_insert(name);
                    }
                }
                map.values().for_each(|value| self.collect(value));
            }
            _ => (),
        }
    }

    fn replace(&self, value: Value, key: Option<&str>) -> Value {
        match value {
            Value::Array(mut items) => {
                match key {
                    Some("managedFields") => items.sort_by_key(manager_key),
                    // Servers name the managers in any order.
                    Some("causes") if items.iter().all(|cause| cause["reason"] == "FieldManagerConflict") => {
                        items.sort_by_key(Value::to_string);
                    }
                    _ => (),
                }
                items.into_iter().map(|item| self.replace(item, None)).collect()
            }
            Value::Object(map) => {
                let of_object = map.contains_key("uid");
                map.into_iter()
                    .map(|(key, value)| {
                        let value = match (key.as_str(), value) {
                            ("resourceVersion", Value::String(version)) => self.version(&version, of_object),
                            ("continue", Value::String(token)) if !token.is_empty() => "<continue>".into(),
                            (key, value) => self.replace(value, Some(key)),
                        };
                        (self.text(&key), value)
                    })
                    .collect()
            }
            Value::String(text) => self.text(&text).into(),
            other => other,
        }
    }

    /// The version of an object by its name; that of a list, or of a bookmark, is whatever the server is at.
    fn version(&self, version: &str, of_object: bool) -> Value {
        let named = self.versions.get(version).filter(|_| of_object);
        named.cloned().unwrap_or_else(|| "<version>".to_owned()).into()
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (value, name) in &self.kept {
            text = text.replace(value, name);
        }
        for (uid, name) in &self.uids {
            text = text.replace(uid, name);
        }
        for (pattern, name) in PATTERNS.iter() {
            if let Cow::Owned(replaced) = pattern.replace_all(&text, *name) {
                text = replaced;
            }
        }
        text
    }
}

/// The order of entries with the times of one second: by operation, manager and subresource.
fn manager_key(entry: &Value) -> String {
    let part = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    [part("operation"), part("manager"), part("apiVersion"), part("subresource")].join("/")
}

fn looks_like_a_uid(text: &str) -> bool {
    text.len() == 36 && text.bytes().filter(|byte| *byte == b'-').count() == 4
}

/// Volatile texts in messages, and what stands for them.
static PATTERNS: LazyLock<[(Regex, &str); 6]> = LazyLock::new(|| {
    let pattern = |pattern: &str| Regex::new(pattern).expect("a pattern");
    [
        (pattern(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z"), "<time>"),
        // Where etcd keeps an object.
        (pattern(r"Key: /\S+,"), "Key: <key>,"),
        (pattern(r"(ResourceVersion in record )\(\d+\)"), "$1(<version>)"),
        (pattern(r#"in scheme "[^"]+""#), "in scheme <scheme>"),
        (pattern(r#"User "[^"]*""#), "User <user>"),
        (pattern(r"(resource version: )\d+ \(\d+\)"), "$1<version> (<version>)"),
    ]
});
