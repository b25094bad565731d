//! Mirrored conditions: what a downstream object says of itself, said to the consumer.

use serde_json::Value;

use super::observed::Observed;
use super::render::Rendering;
use super::status::{Condition, Seen, object_at, reason_word, set_condition};
use crate::mapping::Mapping;
use crate::object::metadata;

/// Carries the conditions over. One that the object does not report is `Unknown`; of an object that cannot be seen, or
/// is somebody else's, they stay as they are.
pub fn conditions(
    mapping: &Mapping,
    observed: &Observed,
    source: &Value,
    generation: Option<i64>,
    rendering: &Rendering,
    status: &mut Value,
) {
    for rule in &mapping.status.mirrors {
        let object = match object_at(mapping, observed, rendering, &rule.object) {
            Seen::Hidden => continue,
            Seen::Absent => None,
            Seen::Standing(standing) => Some(&*standing.object),
        };
        for (kind, written) in &rule.types {
            let reported = object.and_then(|object| reported(object, kind));
            let condition = reported.map_or_else(unreported, |found| mirrored(found, kind, source, rendering));
            set_condition(observed, generation, status, written, condition);
        }
    }
}

fn reported<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().find(|condition| condition["type"] == kind)
}

fn unreported() -> Condition {
    Condition { status: "Unknown", reason: "NotReported".into(), message: String::new() }
}

/// What it says. The namespace there is the provider's own affair: the consumer reads of its own.
fn mirrored(found: &Value, kind: &str, source: &Value, rendering: &Rendering) -> Condition {
    let text = |field: &str| found[field].as_str().unwrap_or_default();
    let reason = reason_word(text("reason"));
    Condition {
        status: match text("status") {
            "True" => "True",
            "False" => "False",
            _ => "Unknown",
        },
        reason: if reason.is_empty() { reason_word(kind.rsplit('/').next().unwrap_or_default()) } else { reason },
        message: renamed(text("message"), &rendering.place.namespace, metadata(source, "namespace")),
    }
}

/// The text with every whole word that is one name replaced by another.
fn renamed(text: &str, from: &str, to: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut renamed = String::new();
    let mut rest = 0;
    for (at, _) in text.match_indices(from) {
        let end = at + from.len();
        let inside = text[..at].ends_with(is_name) || text[end..].starts_with(is_name);
        renamed.push_str(&text[rest..at]);
        renamed.push_str(if inside { from } else { to });
        rest = end;
    }
    renamed + &text[rest..]
}

#[cfg(test)]
mod tests {
    use super::renamed;

    #[test]
    fn only_whole_names_are_replaced() {
        let said = renamed("db in db, my-db/db-2 has no db: adb.db", "db", "ns");
        assert_eq!(said, "ns in ns, my-db/db-2 has no ns: adb.ns");
    }
}
