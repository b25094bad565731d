//! A difference, and how it is shown.

use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::arguments::Format;
use crate::cli::difference::difference;
use crate::cli::render::unmarked;
use crate::mapping::{Mapping, Mode, Side};
use crate::object::one_line;
use crate::plan::rehearsal::Imagined;
use crate::plan::{Action, Cause, Intent, Reason, Reasons, SourcePatch, status};
use crate::table;
use crate::yaml;

/// Fields of a Secret that are never shown.
const SECRET: [&str; 2] = ["data", "stringData"];

/// Something that is, or would be, another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Change {
    #[serde(rename = "change")]
    pub what: What,
    /// Name of the mapping.
    pub mapping: String,
    /// The consumer's object: `Widget default/a of acme`.
    pub source: String,
    /// What changes: `Deployment tenant/a`, or the source itself.
    pub object: String,
    /// As it stands, and as it would; null for nothing.
    pub old: Value,
    pub new: Value,
    /// Where it does not follow from the mapping and the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

crate::mapping::words! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum What {
        Create = "create",
        Update = "update",
        /// An object that nobody owns becomes the source's.
        Adopt = "adopt",
        Delete = "delete",
        /// Left standing, without our marks.
        GiveUp = "give up",
        /// Left standing as it is, although nothing asks for it.
        Orphan = "orphan",
        /// Kept as it is, for what becomes of it cannot be told or is not asked for.
        Keep = "keep",
        /// Nothing can be written until something else changes.
        Blocked = "blocked",
        Waiting = "waiting",
        /// The consumer's status.
        Status = "status",
        /// The finalizer.
        TakeOn = "add finalizer",
        Release = "release",
    }
}

impl Change {
    /// Of a mapping and a source, what becomes of an object.
    pub fn new(what: What, (mapping, source, object): (&str, &str, &str), (old, new): (Value, Value)) -> Self {
        let [mapping, source, object] = [mapping, source, object].map(str::to_owned);
        Self { what, mapping, source, object, old, new, why: None }
    }

    /// The same with what a Secret holds made unreadable: only whether it differs can be seen.
    fn masked(&self) -> Self {
        let mut change = self.clone();
        if [&self.old, &self.new].iter().any(|object| object["kind"] == "Secret") {
            for field in SECRET {
                let (old, new) = (self.old[field].clone(), self.new[field].clone());
                change.old.get_mut(field).into_iter().for_each(|values| mask(values, &new, "before"));
                change.new.get_mut(field).into_iter().for_each(|values| mask(values, &old, "after"));
            }
        }
        change
    }

    /// Lines that differ; both sides as people read them.
    fn lines(&self) -> String {
        difference(&text(&self.old), &text(&self.new))
    }
}

/// What writes for a source of a mapping come to. `on`: the target, where that has to be said.
pub(super) fn of_writes((mapping, source): (&str, &str), on: &str, writes: &[Imagined]) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for Imagined { action, before, after } in writes {
        let [before, after] = [before, after].map(|one| one.as_deref().map(of_people).unwrap_or_default());
        let none = (Value::Null, Value::Null);
        let object = match action.reference() {
            Some(reference) if reference.kind.side == Side::Target => format!("{reference}{on}"),
            Some(reference) => reference.to_string(),
            None => source.to_owned(),
        };
        let (what, object, (before, after)) = match action {
            Action::PatchSource { purpose: SourcePatch::AddFinalizer, .. } => (What::TakeOn, object, none),
            Action::PatchSource { .. } => (What::Release, object, none),
            Action::CreateNamespace { name, labels } => {
                let labels = json!({"metadata": {"labels": labels}});
                (What::Create, format!("Namespace {name}{on}"), (Value::Null, labels))
            }
            Action::Apply { intent: Intent::Create, .. } => (What::Create, object, (Value::Null, after)),
            Action::Apply { intent: Intent::Adopt { .. }, .. } => (What::Adopt, object, (before, after)),
            Action::Apply { intent: Intent::Update { .. }, .. } => (What::Update, object, (before, after)),
            Action::Delete { .. } => (What::Delete, object, (before, Value::Null)),
            Action::GiveUp { .. } => (What::GiveUp, object, (before.clone(), before)),
            // Several updates of the status are one difference; and ownership labels are none.
            Action::PatchStatus { .. } | Action::Restore { .. } => continue,
            Action::LookForSource | Action::Sweep { .. } | Action::Read(_) | Action::ReadAnew(_) => continue,
        };
        let is_apply = |what| matches!(what, What::Create | What::Adopt | What::Update);
        let last = changes.iter().rposition(|one| one.object == object);
        match last.filter(|at| is_apply(changes[*at].what) && is_apply(what)) {
            Some(at) => changes[at].new = after,
            None => {
                let why = action.because().map(|because| because.to_string());
                changes.push(Change { why, ..Change::new(what, (mapping, source, &object), (before, after)) });
            }
        }
    }
    changes
}

/// What becomes of the status of a source of a mapping.
pub(super) fn of_status((mapping, title): (&str, &str), before: &Value, after: &Value) -> Option<Change> {
    let [before, after] = [before, after].map(|source| status::shown(source, source["status"].clone(), |_| false));
    (before != after).then(|| Change::new(What::Status, (mapping, title, title), (before, after)))
}

/// That the engine does less for a mapping than its document says.
pub(super) fn of_mode(mapping: &Mapping) -> Option<String> {
    let what = match mapping.mode {
        Mode::Enforce => return None,
        Mode::Observe => "Observe, so the engine writes none of this",
        Mode::Suspend => "Suspend, so the engine runs deletions alone",
    };
    Some(format!("mapping `{}`: its mode is {what}", mapping.name))
}

/// Why the plan for a source of a mapping rests, where it is not in sync.
pub(super) fn of_rest((mapping, title): (&str, &str), writes: &[Imagined], rest: Option<&Reasons>) -> Vec<Change> {
    let Some(reasons) = rest else { return Vec::new() };
    let what = if reasons.is_blocked() { What::Blocked } else { What::Waiting };
    let makes = writes.iter().any(|write| matches!(write.action, Action::Apply { .. }));
    let one = |reason: &Reason| {
        let unknown = match reason.cause {
            Cause::Conflict => " (a rehearsal of the engine does not ask for it)",
            Cause::Waiting if makes => " (whether it comes to that, only its operator tells)",
            _ => "",
        };
        let why = Some(format!("{reason}{unknown}"));
        Change { why, ..Change::new(what, (mapping, title, title), Default::default()) }
    };
    reasons.0.iter().map(one).collect()
}

/// An object as far as a mapping speaks of it.
pub(super) fn of_people(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| ["name", "namespace", "labels", "annotations"].contains(&key.as_str()));
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    unmarked(object)
}

/// Replaces values; those that are others on the other side say on which they are.
fn mask(values: &mut Value, other: &Value, side: &str) {
    for (key, value) in values.as_object_mut().into_iter().flatten() {
        let differs = other.get(key).is_some_and(|other| other != value);
        *value = if differs { format!("*** ({side})") } else { "***".to_owned() }.into();
    }
}

fn text(value: &Value) -> String {
    if value.is_null() { String::new() } else { yaml::write(value) }
}

pub(super) fn shown(changes: &[Change], format: Format, colours: bool) -> String {
    let changes: Vec<Change> = changes.iter().map(Change::masked).collect();
    let row = |change: &Change| {
        let why = change.why.clone().unwrap_or_default();
        [change.what.as_str().to_owned(), change.object.clone(), change.source.clone(), change.mapping.clone(), why]
    };
    let text = || changes.iter().map(|change| for_people(change, colours)).collect();
    let table = || table::table(["CHANGE", "OBJECT", "FOR", "MAPPING", "WHY"], changes.iter().map(row));
    format.shown(text, table, &changes)
}

/// A head, and the lines that differ below it.
fn for_people(change: &Change, colours: bool) -> String {
    let Change { what, mapping, source, object, .. } = change;
    let head = match source == object {
        true => format!("{} {object} (mapping {mapping})", what.as_str()),
        false => format!("{} {object} (mapping {mapping}, for {source})", what.as_str()),
    };
    let lines = change.lines();
    let painted = lines.lines().map(|line| painted(line, colours));
    std::iter::once(one_line(&head).into_owned())
        .chain(change.why.iter().map(|why| format!("  {}", one_line(why))))
        .chain(painted.map(|line| format!("  {line}")))
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// Red for what goes, green for what comes (ECMA-48).
fn painted(line: &str, colours: bool) -> String {
    let colour = match line.as_bytes().first() {
        Some(b'-') if colours => "31",
        Some(b'+') if colours => "32",
        _ => return line.to_owned(),
    };
    format!("\x1b[{colour}m{line}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change() -> Change {
        let sides = (json!({"spec": {"size": 1}}), json!({"spec": {"size": 2}}));
        Change::new(What::Update, ("m", "Widget default/a", "Gadget t/a"), sides)
    }

    #[test]
    fn what_a_secret_holds_is_not_shown() {
        let secret = |password: &str| json!({"kind": "Secret", "data": {"user": "dXNlcg==", "password": password}});
        let change = Change { old: secret("b2xk"), new: secret("bmV3"), ..change() };
        insta::assert_snapshot!(shown(std::slice::from_ref(&change), Format::Text, false), @r#"
        update Gadget t/a (mapping m, for Widget default/a)
            data:
          -   password: "*** (before)"
          +   password: "*** (after)"
              user: "***"
            kind: Secret
        "#);
        let json = shown(&[change], Format::Json, false);
        assert!(!json.contains("b2xk") && !json.contains("bmV3") && !json.contains("dXNlcg"), "{json}");
    }

    #[test]
    fn lines_have_colours_on_a_terminal_alone() {
        insta::assert_snapshot!(shown(&[change()], Format::Text, false), @"
        update Gadget t/a (mapping m, for Widget default/a)
            spec:
          -   size: 1
          +   size: 2
        ");
        let coloured = shown(&[change()], Format::Text, true);
        assert!(coloured.contains("\x1b[31m-   size: 1\x1b[0m"), "{coloured:?}");
    }
}
