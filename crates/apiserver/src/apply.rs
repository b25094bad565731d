//! Server-side apply: merge what a manager wants into what is there, take back what it no longer wants.
//!
//! What merges with what is the schema's matter: see [`Schema`].

use serde_json::{Value, json};

use super::difference::Difference;
use super::fields::FieldSet;
use super::managers::{Author, Managed, Managers};
use super::merge;
use super::object;
use super::schema::Schema;
use super::status::Failure;
use super::timestamp::Timestamp;

/// Which part of the object an apply is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything: the kind has no status subresource.
    Whole,
    /// Everything but `status`.
    AllButStatus,
    /// `status` alone.
    Status,
}

/// Applies a configuration to a live object. Fails where it would change fields of others and is not `forced` to.
///
/// With `as_update`, kcp's virtual workspaces: the outcome is to be recorded as an ordinary update, so nothing is ever
/// given up by a later apply.
pub fn apply(
    live: &Value,
    mut managers: Managers,
    config: &Value,
    author: &Author,
    options: Options,
) -> Result<Managed, Failure> {
    let schema = options.schema;
    let config = options.part.of(config);
    let merged = merge::merged(live, &config, schema);
    if options.as_update {
        let conflicts = managers.conflicts(author, &Difference::between(live, &merged, schema).changed);
        return match options.forced || conflicts.is_empty() {
            true => Ok(Managed { object: merged, managers }),
            false => Err(Failure::apply_conflicts(&conflicts)),
        };
    }
    let before = managers.fields_of(author);
    managers.set(author, FieldSet::of_object(&config, schema));
    let object = pruned(merged, &before, &managers, schema);
    // Who says what is so already is not noted with a time.
    if object != *live {
        managers.stamp(author, options.now);
    }
    let difference = Difference::between(live, &object, schema);
    let conflicts = managers.conflicts(author, &difference.changed);
    if !options.forced && !conflicts.is_empty() {
        return Err(Failure::apply_conflicts(&conflicts));
    }
    managers.take_from_others(author, &difference);
    Ok(Managed { object, managers })
}

/// Takes out of an object what its author had `before`, and nobody wants now.
fn pruned(merged: Value, before: &FieldSet, managers: &Managers, schema: &Schema) -> Value {
    if before.is_empty() {
        return merged;
    }
    let all_in = |object: &Value| FieldSet::all_of_object(object, schema).with_declared_parents(schema);
    let without = |fields: &FieldSet| fields.taken_out_of(&merged, schema);
    let before = before.with_declared_parents(schema);
    let everything = all_in(&merged);
    // What is owned comes back, and then what is not, but never was the author's either.
    let identity = FieldSet::all_of_object(&merged, schema).difference(&FieldSet::of_object(&merged, schema));
    let owned = managers.all_fields().union(&identity).with_declared_parents(schema);
    let kept = all_in(&without(&before)).union(&owned);
    let kept = all_in(&without(&everything.difference(&kept)));
    without(&everything.difference(&kept).intersection(&before))
}

/// How an apply is carried out.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// What the schema says of merging.
    pub schema: &'a Schema,
    pub part: Part,
    /// Take fields from other managers.
    pub forced: bool,
    /// Record as an update.
    pub as_update: bool,
    /// Time of the entry.
    pub now: Timestamp,
}

impl Part {
    /// The part of a configuration that counts; the identity stays out.
    fn of(self, config: &Value) -> Value {
        let mut part = match self {
            Part::Status => json!({"status": config["status"]}),
            Part::AllButStatus | Part::Whole => config.clone(),
        };
        if self == Part::AllButStatus {
            object::set_part(&mut part, "status", None);
        }
        for name in ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "deletionTimestamp"]
        {
            if part.get("metadata").is_some() {
                object::set(&mut part, name, None);
            }
        }
        part
    }
}
