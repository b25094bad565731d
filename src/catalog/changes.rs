//! What is different between two catalogs, in the words of the acknowledgement line.

use serde_json::{Map, Value};

use super::{Catalog, Change, ChangeKind, Entry, Standing};
use crate::mapping::Mapping;
use crate::yaml;

/// Every change, mappings first, by name.
pub(super) fn between(before: &Catalog, after: &Catalog) -> Vec<Change> {
    let mappings = after.mappings.iter().filter_map(|(name, entry)| {
        let kind = mapping(before.mappings.get(name), entry)?;
        Some(Change { name: name.clone(), kind })
    });
    mappings.chain(providers(before, after)).collect()
}

fn mapping(before: Option<&Entry>, after: &Entry) -> Option<ChangeKind> {
    let generation = after.generation;
    let was = before.map(|before| before.standing);
    match (was, after.standing) {
        (None, Standing::Retained) => Some(ChangeKind::Retained),
        (None | Some(Standing::Retained), Standing::Running) => Some(ChangeKind::Added { generation }),
        (Some(Standing::Running | Standing::KeptOnError), Standing::Retained) => {
            Some(ChangeKind::Removed { generation })
        }
        (None | Some(Standing::Running | Standing::Retained), Standing::KeptOnError) => {
            Some(ChangeKind::Kept { generation })
        }
        (Some(was), Standing::Running) => {
            let before = before?;
            if before.generation != generation {
                return Some(ChangeKind::Changed { generation, what: describe(&before.mapping, &after.mapping) });
            }
            (was == Standing::KeptOnError).then_some(ChangeKind::Restored { generation })
        }
        (Some(Standing::Retained), Standing::Retained) | (Some(Standing::KeptOnError), Standing::KeptOnError) => None,
    }
}

fn providers(before: &Catalog, after: &Catalog) -> Vec<Change> {
    let mut changes = Vec::new();
    for (name, entry) in &after.providers {
        let kind = match before.providers.get(name) {
            None => ChangeKind::ProviderAdded,
            Some(before) if before.provider != entry.provider => ChangeKind::ProviderChanged,
            Some(_) => continue,
        };
        changes.push(Change { name: name.clone(), kind });
    }
    let gone = before.providers.keys().filter(|name| !after.providers.contains_key(*name));
    changes.extend(gone.map(|name| Change { name: name.clone(), kind: ChangeKind::ProviderRemoved }));
    changes
}

/// Whether two versions differ in comments and layout alone.
pub(super) fn same_content(one: &Mapping, other: &Mapping) -> bool {
    content(one) == content(other)
}

/// What is different between two versions of a mapping; never empty.
pub fn describe(before: &Mapping, after: &Mapping) -> Vec<String> {
    let (before, after) = (content(before), content(after));
    let mut words = Words::default();
    words.field(&before, &after, "mode", "mode");
    source(&before["source"], &after["source"], &mut words);
    words.field(&before, &after, "target", "target");
    if before["placement"] != after["placement"] {
        words.say("placement rule changed (new sources only)".into());
    }
    words.entries("variable", &before["vars"], &after["vars"]);
    let related = |spec: &Value| Value::Object(by_key(&spec["related"], "id"));
    words.entries("related object", &related(&before), &related(&after));
    objects(&before["objects"], &after["objects"], &mut words);
    status(&before["status"], &after["status"], &mut words);
    words.field(&before, &after, "lifecycle", "lifecycle");
    words.field(&before, &after, "reconcile", "reconcile settings");
    words.field(&before, &after, "description", "description");
    if words.0.is_empty() {
        words.say("changed".into());
    }
    words.0
}

/// `spec` of a mapping's document, without positions.
fn content(mapping: &Mapping) -> Value {
    let root = yaml::parse_one(&mapping.text).and_then(|document| document.root);
    root.and_then(|root| root.get("spec").map(|spec| spec.to_json())).unwrap_or_default()
}

#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    fn say(&mut self, words: String) {
        self.0.push(words);
    }

    fn field(&mut self, before: &Value, after: &Value, field: &str, name: &str) {
        if before[field] == after[field] {
            return;
        }
        match (&before[field], &after[field]) {
            (Value::String(before), Value::String(after)) if field == "mode" => {
                self.say(format!("{name} {before} becomes {after}"));
            }
            _ => self.say(format!("{name} changed")),
        }
    }

    /// Added, changed and removed entries of a mapping.
    fn entries(&mut self, what: &str, before: &Value, after: &Value) {
        let empty = Map::new();
        let (before, after) = (before.as_object().unwrap_or(&empty), after.as_object().unwrap_or(&empty));
        for (name, value) in after {
            match before.get(name) {
                None => self.say(format!("{what} {name} added")),
                Some(old) if old != value => self.say(format!("{what} {name} changed")),
                Some(_) => {}
            }
        }
        for name in before.keys().filter(|name| !after.contains_key(*name)) {
            self.say(format!("{what} {name} removed"));
        }
    }
}

fn source(before: &Value, after: &Value, words: &mut Words) {
    if ["apiExport", "provider", "resource"].iter().any(|field| before[field] != after[field]) {
        words.say("source changed".into());
    }
    if ["selector", "namespaces", "when"].iter().any(|field| before[field] != after[field]) {
        words.say("source filter changed".into());
    }
    words.field(before, after, "onExit", "onExit");
}

fn objects(before: &Value, after: &Value, words: &mut Words) {
    let (before, after) = (by_key(before, "id"), by_key(after, "id"));
    for (id, object) in &after {
        let Some(old) = before.get(id) else {
            words.say(format!("object {id} added"));
            continue;
        };
        if old["template"] != object["template"] {
            words.say(format!("template of object {id} changed"));
        }
        if without(old, "template") != without(object, "template") {
            words.say(format!("settings of object {id} changed"));
        }
    }
    for id in before.keys().filter(|id| !after.contains_key(*id)) {
        words.say(format!("object {id} removed"));
    }
}

fn status(before: &Value, after: &Value, words: &mut Words) {
    words.entries("status field", &before["fields"], &after["fields"]);
    let conditions = |status: &Value| {
        let mut by_type = by_key(&status["conditions"], "type");
        // Mirrored ones have no type of their own.
        by_type.remove("");
        Value::Object(by_type)
    };
    words.entries("condition", &conditions(before), &conditions(after));
    let mirrored = |status: &Value| -> Vec<Value> {
        let all = status["conditions"].as_array().into_iter().flatten();
        all.filter(|condition| condition.get("mirror").is_some()).cloned().collect()
    };
    if mirrored(before) != mirrored(after) {
        words.say("mirrored conditions changed".into());
    }
    let rest = |status: &Value| without(&without(status, "fields"), "conditions");
    if rest(before) != rest(after) {
        words.say("status settings changed".into());
    }
}

/// A list of mappings as a mapping by one of their fields.
fn by_key(list: &Value, key: &str) -> Map<String, Value> {
    let items = list.as_array().into_iter().flatten();
    items.map(|item| (item[key].as_str().unwrap_or_default().to_owned(), item.clone())).collect()
}

fn without(value: &Value, key: &str) -> Value {
    let fields = value.as_object().into_iter().flatten().filter(|(name, _)| *name != key);
    Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
}
