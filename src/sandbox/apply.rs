//! Server-side apply: merge what a manager wants into what is there, take back what it no longer wants.
//!
//! What merges with what is the schema's matter: see [`Shape`].

use serde_json::{Value, json};

use super::difference::Difference;
use super::fields::FieldSet;
use super::managers::{Author, Managers};
use super::merge;
use super::object;
use super::shape::Shape;
use super::status::Failure;
use super::timestamp::Timestamp;

/// What an apply makes of an object.
#[derive(Debug)]
pub struct Applied {
    /// The object, without managers.
    pub object: Value,
    /// Its managers.
    pub managers: Managers,
}

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
) -> Result<Applied, Failure> {
    let shape = options.shape;
    let config = options.part.of(config);
    let merged = merge::merged(live, &config, shape);
    if options.as_update {
        let conflicts = managers.conflicts(author, &Difference::between(live, &merged, shape).changed);
        return match options.forced || conflicts.is_empty() {
            true => Ok(Applied { object: merged, managers }),
            false => Err(Failure::apply_conflicts(&conflicts)),
        };
    }
    let before = managers.fields_of(author);
    managers.set(author, FieldSet::of_object(&config, shape));
    let object = pruned(merged, &before, &managers, shape);
    // Who says what is so already is not noted with a time.
    if object != *live {
        managers.stamp(author, options.now);
    }
    let difference = Difference::between(live, &object, shape);
    let conflicts = managers.conflicts(author, &difference.changed);
    if !options.forced && !conflicts.is_empty() {
        return Err(Failure::apply_conflicts(&conflicts));
    }
    managers.take_from_others(author, &difference);
    Ok(Applied { object, managers })
}

/// Takes out of an object what its author had `before`, and nobody wants now.
fn pruned(merged: Value, before: &FieldSet, managers: &Managers, shape: &Shape) -> Value {
    if before.is_empty() {
        return merged;
    }
    let all_in = |object: &Value| FieldSet::all_of_object(object, shape).with_declared_parents(shape);
    let without = |fields: &FieldSet| fields.taken_out_of(&merged, shape);
    let before = before.with_declared_parents(shape);
    let everything = all_in(&merged);
    // What is owned comes back, and then what is not, but never was the author's either.
    let identity = FieldSet::all_of_object(&merged, shape).difference(&FieldSet::of_object(&merged, shape));
    let owned = managers.all_fields().union(&identity).with_declared_parents(shape);
    let kept = all_in(&without(&before)).union(&owned);
    let kept = all_in(&without(&everything.difference(&kept)));
    without(&everything.difference(&kept).intersection(&before))
}

/// How an apply is carried out.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// What the schema says of merging.
    pub shape: &'a Shape,
    /// Part of the object meant.
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

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::super::managers::Operation;
    use super::*;

    static SHAPE: LazyLock<Shape> =
        LazyLock::new(|| Shape::of_object(&json!({"properties": {"data": {}, "spec": {}}})));

    fn author(manager: &str, operation: Operation) -> Author {
        Author { manager: manager.into(), operation, api_version: "v1".into(), subresource: String::new() }
    }

    fn options(forced: bool) -> Options<'static> {
        Options { shape: &SHAPE, part: Part::Whole, forced, as_update: false, now: Timestamp(0) }
    }

    fn applied(on: &Applied, config: Value, manager: &str, forced: bool) -> Result<Applied, Failure> {
        let author = author(manager, Operation::Apply);
        apply(&on.object, on.managers.clone(), &config, &author, options(forced))
    }

    fn nothing() -> Applied {
        Applied { object: json!({"metadata": {"name": "x"}}), managers: Managers::default() }
    }

    #[test]
    fn a_field_left_out_is_given_up() {
        let first = applied(&nothing(), json!({"data": {"a": "1", "b": "2"}}), "me", false).expect("applies");
        let second = applied(&first, json!({"data": {"a": "1"}}), "me", false).expect("applies");
        assert_eq!(second.object["data"], json!({"a": "1"}));
        let third = applied(&second, json!({}), "me", false).expect("applies");
        assert_eq!(third.object, nothing().object);
        assert_eq!(third.managers, Managers::default());
    }

    #[test]
    fn a_field_that_another_manager_has_as_well_stays() {
        let first = applied(&nothing(), json!({"data": {"a": "1", "b": "2"}}), "me", false).expect("applies");
        let second = applied(&first, json!({"data": {"a": "1"}}), "other", false).expect("applies");
        let third = applied(&second, json!({"data": {"b": "2"}}), "me", false).expect("applies");
        assert_eq!(third.object["data"], json!({"a": "1", "b": "2"}));
    }

    #[test]
    fn another_managers_field_is_a_conflict_unless_forced() {
        let first = applied(&nothing(), json!({"data": {"a": "1"}}), "me", false).expect("applies");
        let refused = applied(&first, json!({"data": {"a": "2"}}), "other", false).expect_err("conflict");
        let Failure::Status(status) = refused else { panic!("a Status") };
        assert_eq!(status.message, r#"Apply failed with 1 conflict: conflict with "me": .data.a"#);
        let forced = applied(&first, json!({"data": {"a": "2"}}), "other", true).expect("applies");
        let me = author("me", Operation::Apply);
        assert_eq!(forced.object["data"], json!({"a": "2"}));
        assert!(forced.managers.fields_of(&me).is_empty());
    }

    #[test]
    fn a_hand_edit_takes_the_field_and_force_takes_it_back() {
        let mut first =
            applied(&nothing(), json!({"spec": {"size": 3, "list": [1, 2]}}), "me", false).expect("applies");
        let edited = json!({"metadata": {"name": "x"}, "spec": {"size": 4, "list": [1, 2], "more": true}});
        first.managers.record_update(
            &author("edit", Operation::Update),
            &first.object,
            &edited,
            Shape::untyped(),
            Timestamp(0),
        );
        first.object = edited;
        let back = applied(&first, json!({"spec": {"size": 3, "list": [1, 2]}}), "me", true).expect("applies");
        assert_eq!(back.object["spec"], json!({"size": 3, "list": [1, 2], "more": true}));
    }

    #[test]
    fn recorded_as_an_update_nothing_is_given_up() {
        let options = Options { as_update: true, ..options(true) };
        let me = author("me", Operation::Update);
        let first = apply(&nothing().object, Managers::default(), &json!({"data": {"a": "1"}}), &me, options);
        let first = first.expect("applies");
        let second = apply(&first.object, first.managers, &json!({"data": {"b": "2"}}), &me, options).expect("applies");
        assert_eq!(second.object["data"], json!({"a": "1", "b": "2"}));
    }
}
