//! What an action would bring about, without carrying it out: so that a plan can be followed to its end.

use std::sync::Arc;

use json_patch::Patch;
use serde_json::{Value, json};

use super::action::Action;
use super::observed::{Observed, Outcome, TargetObject};
use crate::object::marks::{self, Owner, Reference};

/// A write that was not carried out, with its object before and after it.
#[derive(Debug, Clone)]
pub struct Imagined {
    pub action: Action,
    pub before: Option<Arc<Value>>,
    pub after: Option<Arc<Value>>,
}

impl Imagined {
    /// A write that has this outcome on what is observed.
    pub fn new(action: &Action, observed: &Observed, outcome: &Outcome) -> Self {
        let after = if let Outcome::Object(object) = outcome { Some(object.clone()) } else { None };
        Self { action: action.clone(), before: action.reference().and_then(|at| found(observed, at)).cloned(), after }
    }
}

/// The outcome of a write on servers that do what they are told. `None`: the action reads, and only a server knows.
pub fn imagined(action: &Action, observed: &Observed) -> Option<Outcome> {
    Some(match action {
        Action::LookForSource | Action::Sweep { .. } | Action::Read(_) | Action::ReadAnew(_) => return None,
        Action::PatchSource { patch, .. } | Action::PatchStatus { patch, .. } => {
            observed.present().map_or(Outcome::Absent, |source| Outcome::Object(Arc::new(patched(source, patch))))
        }
        Action::CreateNamespace { .. } | Action::Delete { .. } | Action::GiveUp { .. } => Outcome::Absent,
        Action::Restore { reference, patch } => {
            let restored = observed.objects.iter().find(|one| one.reference == *reference);
            restored.map_or(Outcome::Absent, |one| Outcome::Object(Arc::new(patched(&one.object, patch))))
        }
        Action::Apply { reference, body, .. } => {
            let mut object = found(observed, reference).map_or_else(|| json!({}), |there| (**there).clone());
            json_patch::merge(&mut object, body);
            give_up(&mut object, body, observed.subject.writer.field_manager());
            Outcome::Object(Arc::new(object))
        }
    })
}

/// The object at a place, whoever it belongs to: an adoption writes one that is foreign.
fn found<'o>(observed: &'o Observed, reference: &Reference) -> Option<&'o Arc<Value>> {
    let owned = observed.objects.at(reference).map(|one| &one.object);
    owned.or_else(|| observed.answers.foreign.get(reference))
}

/// Takes out what an apply gives up: fields that the manager applied before, does not now, and nobody else has. Where
/// managedFields are not at hand, as in the caches, all of it stays. Lists are whole in what is applied.
fn give_up(object: &mut Value, body: &Value, manager: &str) {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let is_own = |entry: &&Value| {
        entry["manager"] == manager && entry["operation"] == "Apply" && entry.get("subresource").is_none()
    };
    let (own, others): (Vec<&Value>, Vec<&Value>) = entries.iter().partition(is_own);
    let others: Vec<&Value> = others.into_iter().map(|entry| &entry["fieldsV1"]).collect();
    for entry in own {
        give_up_fields(object, Some(body), &entry["fieldsV1"], &others);
    }
}

fn give_up_fields(object: &mut Value, body: Option<&Value>, own: &Value, others: &[&Value]) {
    for (key, own) in own.as_object().into_iter().flatten() {
        let Some(name) = key.strip_prefix("f:") else { continue };
        let others: Vec<&Value> = others.iter().filter_map(|other| other.get(key)).collect();
        let said = body.and_then(|body| body.get(name));
        let Some(below) = object.get_mut(name) else { continue };
        give_up_fields(below, said, own, &others);
        // What a server filled in stays, and the map that it is in.
        let has_rest = *own != json!({}) && below.as_object().is_some_and(|rest| !rest.is_empty());
        if said.is_none()
            && others.is_empty()
            && !has_rest
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove(name);
        }
    }
}

/// The same on what the caches show, where a plan asks for a fresh read. `None`: a related object that nobody has read yet.
pub fn expected(action: &Action, observed: &Observed) -> Option<Outcome> {
    match action {
        Action::Read(original) | Action::ReadAnew(original) => observed.originals(original).map(Outcome::Seen),
        Action::Sweep { owners, .. } => {
            let is_theirs = |one: &&TargetObject| {
                owners.iter().any(|owner| marks::is_ours(&one.object, &one.reference, &Owner(owner.clone())))
            };
            Some(Outcome::Found(observed.objects.iter().filter(is_theirs).cloned().collect()))
        }
        Action::LookForSource => Some(Outcome::Absent),
        action => imagined(action, observed),
    }
}

/// A patch that does not fit changes nothing: the plan would be made again.
fn patched(object: &Value, patch: &Patch) -> Value {
    let mut after = object.clone();
    match json_patch::patch(&mut after, patch) {
        Ok(()) => after,
        Err(_) => object.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Kind;
    use crate::plan::Intent;

    #[test]
    fn an_adopted_object_keeps_what_others_wrote() {
        let kind = Kind::new("example.dev", "v1", "Database");
        let reference = Reference { kind, namespace: "tenant".into(), name: "a".into() };
        let theirs =
            json!({"metadata": {"uid": "u"}, "spec": {"size": 1, "more": true}, "status": {"phase": "Running"}});
        let mut observed = Observed::default();
        observed.answers.foreign.insert(reference.clone(), Arc::new(theirs));
        let body = Arc::new(json!({"metadata": {"uid": "u", "labels": {"a": "b"}}, "spec": {"size": 2}}));
        let adopt = Action::Apply { reference, body, intent: Intent::Adopt { uid: "u".into() } };
        let Some(Outcome::Object(adopted)) = imagined(&adopt, &observed) else { panic!("it is adopted") };
        assert_eq!(
            *adopted,
            json!({
                "metadata": {"uid": "u", "labels": {"a": "b"}}, "spec": {"size": 2, "more": true},
                "status": {"phase": "Running"},
            })
        );
    }

    #[test]
    fn an_apply_gives_up_what_nobody_else_has() {
        let own = json!({
            "f:size": {}, "f:plan": {}, "f:scaled": {}, "f:limits": {"f:cpu": {}}, "f:filled": {"f:one": {}},
            "f:users": {"k:{}": {}},
        });
        let entries = json!([
            {"manager": "me", "operation": "Apply", "fieldsV1": {"f:spec": own}},
            {"manager": "me", "operation": "Update", "fieldsV1": {"f:spec": {"f:edited": {}}}},
            {"manager": "scaler", "operation": "Update", "fieldsV1": {"f:spec": {"f:scaled": {}}}},
        ]);
        let mut object = json!({"metadata": {"managedFields": entries}, "spec": {
            "size": 1, "plan": "small", "scaled": 3, "limits": {"cpu": 1}, "filled": {"one": 1, "two": 2}, "users": [{}],
            "edited": true, "other": 1,
        }});
        give_up(&mut object, &json!({"spec": {"size": 1}}), "me");
        assert_eq!(object["spec"], json!({"size": 1, "scaled": 3, "filled": {"two": 2}, "edited": true, "other": 1}));
    }
}
