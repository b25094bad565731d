//! `metadata.managedFields`: who set which field.

use serde_json::{Value, json};

use super::difference::Difference;
use super::fields::FieldSet;
use super::object;
use super::schema::Schema;
use super::timestamp::Timestamp;

/// All managers of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Managers(Vec<Manager>);

/// An object without its managers, and those.
#[derive(Debug)]
pub struct Managed {
    pub object: Value,
    pub managers: Managers,
}

/// Who writes: the key of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    /// Subresource it writes to; empty for the object itself.
    pub subresource: String,
}

sync_engine_mapping::words! {
    /// How a manager came by its fields.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Operation {
        Apply = "Apply",
        Update = "Update",
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Manager {
    author: Author,
    time: String,
    fields: FieldSet,
}

impl Author {
    /// Whether it is the same one. Who applies is, in whatever version.
    fn is(&self, other: &Author) -> bool {
        let key = |author: &Author| (author.manager.clone(), author.operation, author.subresource.clone());
        key(self) == key(other) && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }
}

impl Managers {
    pub fn take_from(object: &mut Value) -> Managers {
        let taken = object["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields"));
        let entries = taken.as_ref().and_then(Value::as_array);
        let named = entries.into_iter().flatten().filter(|entry| entry["manager"].is_string());
        Managers(named.map(Manager::from_json).collect())
    }

    /// Puts the managers into an object: those who apply first, then in the order of their times and names.
    pub fn put_into(&self, object: &mut Value) {
        let mut sorted: Vec<&Manager> = self.0.iter().collect();
        sorted.sort_by_key(|entry| {
            let Author { manager, operation, api_version, subresource } = &entry.author;
            (operation.as_str(), &entry.time, manager, api_version, subresource)
        });
        let entries: Vec<Value> = sorted.into_iter().map(Manager::to_json).collect();
        object::set(object, "managedFields", (!entries.is_empty()).then(|| entries.into()));
    }

    pub fn fields_of(&self, author: &Author) -> FieldSet {
        self.0.iter().find(|entry| entry.author.is(author)).map(|entry| entry.fields.clone()).unwrap_or_default()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same, or, where nobody has said anything, one to whom all belongs that was there before somebody applied.
    pub fn before_first_apply(&self, live: &Value, author: &Author, schema: &Schema, now: Timestamp) -> Managers {
        let mut managers = self.clone();
        if managers.is_empty() {
            let manager = "before-first-apply".to_owned();
            let before = Author { manager, operation: Operation::Update, subresource: String::new(), ..author.clone() };
            managers.record_update(&before, &json!({"metadata": {}}), live, schema, now);
        }
        managers
    }

    /// A version that somebody wrote in, and that is none of these.
    pub fn in_another_version(&self, is_declared: impl Fn(&str) -> bool) -> Option<&str> {
        self.0.iter().map(|entry| &*entry.author.api_version).find(|version| !is_declared(version))
    }

    /// The fields that anybody has set.
    pub fn all_fields(&self) -> FieldSet {
        self.0.iter().fold(FieldSet::default(), |all, entry| all.union(&entry.fields))
    }

    /// Fields that an author is about to take from others: each with the other's name as messages print it.
    pub fn conflicts(&self, author: &Author, changed: &FieldSet) -> Vec<(String, FieldSet)> {
        let others = self.0.iter().filter(|entry| !entry.author.is(author));
        others
            .map(|entry| (entry.printed(), entry.fields.intersection(changed)))
            .filter(|(_, fields)| !fields.is_empty())
            .collect()
    }

    /// Takes changed and removed fields from everybody but an author.
    pub fn take_from_others(&mut self, author: &Author, difference: &Difference) {
        for entry in self.0.iter_mut().filter(|entry| !entry.author.is(author)) {
            entry.fields = entry.fields.difference(&difference.changed).difference(&difference.removed);
        }
        self.0.retain(|entry| entry.author.is(author) || !entry.fields.is_empty());
    }

    /// States an author's fields; when it did so is said by [`Managers::stamp`].
    pub fn set(&mut self, author: &Author, fields: FieldSet) {
        match self.0.iter_mut().find(|entry| entry.author.is(author)) {
            Some(entry) => (entry.author, entry.fields) = (author.clone(), fields),
            None => self.0.push(Manager { author: author.clone(), time: String::new(), fields }),
        }
        self.0.retain(|entry| !entry.fields.is_empty());
    }

    /// Notes that an author has changed the object.
    pub fn stamp(&mut self, author: &Author, now: Timestamp) {
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.author.is(author)) {
            entry.time = now.to_string();
        }
    }

    /// Records an ordinary write: what it changed belongs to its author from now on.
    pub fn record_update(&mut self, author: &Author, old: &Value, new: &Value, schema: &Schema, now: Timestamp) {
        let difference = Difference::between(old, new, schema);
        self.take_from_others(author, &difference);
        let before = self.fields_of(author);
        let fields = before.difference(&difference.removed).union(&difference.changed);
        let takes_some = !difference.changed.is_empty();
        self.set(author, fields);
        if takes_some {
            self.stamp(author, now);
        }
    }
}

impl Manager {
    fn printed(&self) -> String {
        let Author { manager, operation, api_version, subresource } = &self.author;
        let through = if subresource.is_empty() { String::new() } else { format!(" with subresource {subresource:?}") };
        match operation {
            Operation::Apply => format!("{manager:?}{through}"),
            Operation::Update => format!("{manager:?}{through} using {api_version}"),
        }
    }

    fn to_json(&self) -> Value {
        let Author { manager, operation, api_version, subresource } = &self.author;
        let mut entry = json!({
            "manager": manager, "operation": operation, "apiVersion": api_version,
            "fieldsType": "FieldsV1", "fieldsV1": self.fields.to_json(),
        });
        if !self.time.is_empty() {
            entry["time"] = self.time.as_str().into();
        }
        if !subresource.is_empty() {
            entry["subresource"] = subresource.as_str().into();
        }
        entry
    }

    fn from_json(entry: &Value) -> Manager {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let operation = if entry["operation"] == "Apply" { Operation::Apply } else { Operation::Update };
        let (manager, api_version, subresource) = (text("manager"), text("apiVersion"), text("subresource"));
        let author = Author { manager, operation, api_version, subresource };
        Manager { author, time: text("time"), fields: FieldSet::from_json(&entry["fieldsV1"]) }
    }
}
