//! A difference, and how it is shown.

use serde::Serialize;
use serde_json::Value;

use crate::cli::arguments::Format;
use crate::cli::difference::difference;
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
        /// Nothing of it can be rendered any more, or for the first time.
        Rendering = "rendering",
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
    std::iter::once(head)
        .chain(change.why.iter().map(|why| format!("  {why}")))
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
    use serde_json::json;

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
