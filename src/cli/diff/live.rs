//! What the engine would change on live clusters now.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::DiffArguments;
use super::change::{Change, What};
use crate::cli::live::{say_unread, survey};
use crate::cli::{inputs, progress, render, sources};
use crate::engine::consumer_schema::ConsumerSchemas;
use crate::mapping::{Mapping, Mode};
use crate::object::has_finalizer;
use crate::plan::{Action, Cause, Intent, Reason, SourcePatch};
use crate::release::{Effect, Now, Rehearsal};
use crate::survey::orphans::{Orphan, orphans};
use crate::survey::{Rehearsed, Surveyor, Whole};

pub(super) fn changes(arguments: &DiffArguments, path: &Path) -> anyhow::Result<Vec<Change>> {
    let catalog = inputs::sound(&[path.to_owned()])?;
    let (schemas, _) = inputs::schemas(arguments.schemas.as_deref(), &arguments.mappings)?;
    let surveyor = arguments.connections.surveyor_of(&arguments.which, &catalog)?;
    let schemas = ConsumerSchemas::new(schemas);
    survey(&catalog, async |mapping| of_mapping(arguments, &surveyor, &schemas, mapping).await)
}

async fn of_mapping(
    arguments: &DiffArguments,
    surveyor: &Surveyor,
    schemas: &ConsumerSchemas,
    mapping: &Mapping,
) -> anyhow::Result<Vec<Change>> {
    let whole = surveyor.whole(schemas, mapping).await?;
    say_unread(mapping, &whole.target);
    if mapping.mode == Mode::Observe {
        progress::say(&format!("mapping `{}`: its mode is Observe, so the engine writes none of this", mapping.name));
    }
    if let Some(told) = told(surveyor, schemas, mapping, &whole).await? {
        progress::say(&told);
    }
    let mut changes = Vec::new();
    for rehearsed in whole.rehearsed.iter().filter(|one| arguments.scope.includes(&one.source.0)) {
        let title = title(rehearsed);
        changes.extend(of_source(mapping, &title, rehearsed));
        changes.extend(of_rest(mapping, &title, rehearsed));
    }
    let orphans = orphans(surveyor, mapping, &whole).await?;
    let orphans = orphans.iter().filter(|orphan| arguments.scope.includes(&orphan.object.object));
    changes.extend(orphans.map(|orphan| of_orphan(mapping, orphan)));
    Ok(changes)
}

/// What the release of the mapping would come to for all its sources, in the words of the engine. `None`: it does what the
/// document in force does.
async fn told(
    surveyor: &Surveyor,
    schemas: &ConsumerSchemas,
    mapping: &Mapping,
    whole: &Whole,
) -> anyhow::Result<Option<String>> {
    let Some((in_force, before)) = surveyor.by_document_in_force(schemas, mapping, whole).await? else {
        return Ok(None);
    };
    let finalizer = surveyor.writer(mapping).finalizer().to_owned();
    let mut release = Rehearsal::default();
    (release.objects, release.asks_servers) = (whole.target.standing.values().map(Vec::len).sum(), true);
    for (after, before) in whole.rehearsed.iter().zip(&before) {
        let (followed, before) = (after.followed(), before.followed());
        let now = match has_finalizer(&after.source.0, &finalizer) {
            true => Now::InSync,
            false => Now::NotServed,
        };
        release.paths.insert(after.key.cluster.clone(), after.place.clone());
        release.add(&mapping.target, after.key.clone(), Effect::of(now, &followed, &[before]));
    }
    let held = release.excess(&in_force.release);
    let held = held.map(|why| format!("\nmapping `{}`: the engine would hold this: {why}", mapping.name));
    Ok(Some(format!("mapping `{}`: {release}{}", mapping.name, held.unwrap_or_default())))
}

/// An object that no source asks for.
fn of_orphan(mapping: &Mapping, orphan: &Orphan) -> Change {
    let (source, object) = (orphan.source(), orphan.object.reference.to_string());
    let change = Change::new(What::Orphan, (&mapping.name, &source, &object), (Value::Null, Value::Null));
    Change { why: Some(orphan.why.clone()), ..change }
}

/// `Widget default/a of root:acme`
fn title(rehearsed: &Rehearsed) -> String {
    format!("{} of {}", sources::title(&rehearsed.source.0), rehearsed.place)
}

/// Why the plan rests, where it is not in sync.
fn of_rest(mapping: &Mapping, title: &str, rehearsed: &Rehearsed) -> Vec<Change> {
    let Some(reasons) = &rehearsed.rest else { return Vec::new() };
    let what = if reasons.is_blocked() { What::Blocked } else { What::Waiting };
    let makes = rehearsed.writes.iter().any(|(action, _)| matches!(action, Action::Apply { .. }));
    let one = |reason: &Reason| {
        let change = Change::new(what, (&mapping.name, title, title), (Value::Null, Value::Null));
        let unknown = match reason.cause {
            Cause::Conflict => " (a rehearsal of the engine does not ask for it)",
            Cause::Waiting if makes => " (whether it comes to that, only its operator tells)",
            _ => "",
        };
        Change { why: Some(format!("{}: {}{unknown}", reason.cause.as_str(), reason.detail)), ..change }
    };
    reasons.0.iter().map(one).collect()
}

fn of_source(mapping: &Mapping, title: &str, rehearsed: &Rehearsed) -> Vec<Change> {
    let change = |what, object: &str, old, new| Change::new(what, (&mapping.name, title, object), (old, new));
    let none = || (Value::Null, Value::Null);
    let mut changes = Vec::new();
    for (action, before) in &rehearsed.writes {
        let object = action.reference().map_or_else(|| title.to_owned(), ToString::to_string);
        let (what, object, (old, new)) = match action {
            // Several updates of it are one difference, below.
            Action::PatchStatus { .. } => continue,
            Action::PatchSource { purpose: SourcePatch::AddFinalizer, .. } => (What::TakeOn, object, none()),
            Action::PatchSource { .. } => (What::Release, object, none()),
            Action::CreateNamespace { name, labels } => {
                let labels = json!({"metadata": {"labels": labels}});
                (What::Create, format!("Namespace {name}"), (Value::Null, labels))
            }
            Action::Apply { body, intent: Intent::Create, .. } => {
                (What::Create, object, (Value::Null, render::unmarked(Value::clone(body))))
            }
            Action::Apply { body, intent, .. } => {
                let what = if matches!(intent, Intent::Adopt { .. }) { What::Adopt } else { What::Update };
                (what, object, updated(before.as_deref(), body))
            }
            Action::Delete { .. } => (What::Delete, object, none()),
            Action::GiveUp { .. } => (What::GiveUp, object, none()),
            // Ownership labels are no difference.
            Action::Restore { .. } => continue,
            Action::LookForSource | Action::Sweep { .. } | Action::Read(_) | Action::ReadAnew(_) => continue,
        };
        changes.push(change(what, &object, old, new));
    }
    let status = |source: &Arc<Value>| without_times(source["status"].clone());
    let (before, after) = (status(&rehearsed.source.0), status(&rehearsed.source.1));
    if before != after {
        changes.push(change(What::Status, title, before, after));
    }
    changes
}

/// An object as it stands and as it would, as far as the mapping speaks of it.
fn updated(before: Option<&Value>, body: &Value) -> (Value, Value) {
    let old = before.cloned().unwrap_or_default();
    let mut new = old.clone();
    json_patch::merge(&mut new, body);
    let of_people = |mut object: Value| {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|key, _| ["name", "namespace", "labels", "annotations"].contains(&key.as_str()));
        }
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        render::unmarked(object)
    };
    (of_people(old), of_people(new))
}

/// Times of conditions are others each time.
fn without_times(mut status: Value) -> Value {
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        if let Some(fields) = condition.as_object_mut() {
            fields.remove("lastTransitionTime");
        }
    }
    status
}
