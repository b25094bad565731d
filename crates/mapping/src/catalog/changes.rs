//! What is different between two catalogs, in the words of the acknowledgement line.

use serde_json::{Map, Value};

use super::{Catalog, Change, ChangeKind, Entry, Standing};
use crate::Mapping;

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
        (None | Some(Standing::Retained), Standing::Running) => Some(ChangeKind::Added(generation)),
        (Some(Standing::Running | Standing::KeptOnError), Standing::Retained) => Some(ChangeKind::Removed(generation)),
        (None | Some(Standing::Running | Standing::Retained), Standing::KeptOnError) => {
            Some(ChangeKind::Kept(generation))
        }
        (Some(was), Standing::Running) => {
            let before = before?;
            if before.generation != generation {
                return Some(ChangeKind::Changed(generation, describe(&before.mapping, &after.mapping)));
            }
            (was == Standing::KeptOnError).then_some(ChangeKind::Restored(generation))
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
    one.spec.to_json() == other.spec.to_json()
}

/// What of a document changes neither an object nor a status: it is in force as soon as it is read.
const WITHOUT_EFFECT: [&str; 4] = ["release", "reconcile", "description", "mode"];

/// Whether two versions of a mapping make the same of every source.
pub fn have_same_effect(one: &Mapping, other: &Mapping) -> bool {
    let effect = |mapping: &Mapping| without(&mapping.spec.to_json(), &WITHOUT_EFFECT);
    one.text == other.text || effect(one) == effect(other)
}

/// Whether two versions of a mapping have something else in a field of their `spec`.
pub fn differ_in(one: &Mapping, other: &Mapping, field: &str) -> bool {
    one.text != other.text && one.spec.to_json()[field] != other.spec.to_json()[field]
}

/// What is different between two versions of a mapping; never empty.
pub fn describe(before: &Mapping, after: &Mapping) -> Vec<String> {
    let mut words = Words { before: before.spec.to_json(), after: after.spec.to_json(), said: Vec::new() };
    match (&words.before["mode"], &words.after["mode"]) {
        (Value::String(one), Value::String(other)) if one != other => {
            words.said.push(format!("mode {one} becomes {other}"));
        }
        _ => words.fields(&["/mode"], "mode"),
    }
    words.fields(&["/source/apiExport", "/source/provider", "/source/resource"], "source");
    words.fields(&["/source/clusters", "/source/selector", "/source/namespaces", "/source/when"], "source filter");
    words.fields(&["/source/onExit"], "onExit");
    words.fields(&["/target"], "target");
    if words.before["placement"] != words.after["placement"] {
        words.said.push("placement rule changed (new sources only)".to_owned());
    }
    words.entries("variable", |spec| spec["vars"].as_object().cloned().unwrap_or_default());
    words.entries("related object", |spec| by_key(&spec["related"], "id"));
    // Named once where it is new or gone, and by its part where that changed.
    words.entries("object", |spec| named(by_key(&spec["objects"], "id")));
    words.common("template of object", |spec| by_key(&spec["objects"], "id"), |object| object["template"].clone());
    words.common("settings of object", |spec| by_key(&spec["objects"], "id"), |object| without(object, &["template"]));
    words.entries("status field", |spec| spec["status"]["fields"].as_object().cloned().unwrap_or_default());
    words.entries("condition", |spec| {
        let mut by_type = by_key(&spec["status"]["conditions"], "type");
        // Mirrored ones have no type of their own.
        by_type.remove("");
        by_type
    });
    words.part("mirrored conditions", |spec| {
        let all = spec["status"]["conditions"].as_array().into_iter().flatten();
        all.filter(|condition| condition.get("mirror").is_some()).cloned().collect()
    });
    words.part("status settings", |spec| without(&spec["status"], &["fields", "conditions"]));
    words.fields(&["/lifecycle"], "lifecycle");
    words.fields(&["/release"], "release settings");
    words.fields(&["/reconcile"], "reconcile settings");
    words.fields(&["/description"], "description");
    if words.said.is_empty() {
        words.said.push("changed".to_owned());
    }
    words.said
}

/// Both versions, and what is said of them.
struct Words {
    before: Value,
    after: Value,
    said: Vec<String>,
}

impl Words {
    fn fields(&mut self, pointers: &[&str], name: &str) {
        self.part(name, |spec| pointers.iter().map(|pointer| spec.pointer(pointer).cloned()).collect());
    }

    fn part(&mut self, name: &str, of: impl Fn(&Value) -> Value) {
        if of(&self.before) != of(&self.after) {
            self.said.push(format!("{name} changed"));
        }
    }

    /// Added, changed and removed entries.
    fn entries(&mut self, what: &str, of: impl Fn(&Value) -> Map<String, Value>) {
        let (before, after) = (of(&self.before), of(&self.after));
        let of_now = after.iter().filter_map(|(name, value)| match before.get(name) {
            None => Some(format!("{what} {name} added")),
            Some(old) => (old != value).then(|| format!("{what} {name} changed")),
        });
        let gone = before.keys().filter(|name| !after.contains_key(*name));
        self.said.extend(of_now.chain(gone.map(|name| format!("{what} {name} removed"))));
    }

    /// Entries of both versions of which a part changed.
    fn common(&mut self, what: &str, of: impl Fn(&Value) -> Map<String, Value>, part: impl Fn(&Value) -> Value) {
        let (before, after) = (of(&self.before), of(&self.after));
        let changed = after.iter().filter(|(name, now)| before.get(*name).is_some_and(|old| part(old) != part(now)));
        self.said.extend(changed.map(|(name, _)| format!("{what} {name} changed")));
    }
}

/// The names of entries alone.
fn named(entries: Map<String, Value>) -> Map<String, Value> {
    entries.into_iter().map(|(name, _)| (name, Value::Null)).collect()
}

/// A list of mappings as a mapping by one of their fields.
fn by_key(list: &Value, key: &str) -> Map<String, Value> {
    let items = list.as_array().into_iter().flatten();
    items.map(|item| (item[key].as_str().unwrap_or_default().to_owned(), item.clone())).collect()
}

fn without(value: &Value, keys: &[&str]) -> Value {
    let fields = value.as_object().into_iter().flatten().filter(|(name, _)| !keys.contains(&name.as_str()));
    Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
}
