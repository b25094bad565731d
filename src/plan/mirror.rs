//! Mirrored conditions: what a downstream object says of itself, said to the consumer.

use serde_json::Value;

use super::redact::Redaction;
use super::status::{Condition, View, object_at, reason_word, set_condition};

/// Carries the conditions over. One that the object does not report is `Unknown`; of an object that cannot be seen, or
/// is somebody else's, they stay as they are.
pub fn conditions(view: &View<'_>, generation: Option<i64>, status: &mut Value) {
    for rule in &view.mapping.status.mirrors {
        let object = match object_at(view.mapping, view.observed, view.rendering, &rule.object) {
            Err(_) => continue,
            Ok(standing) => standing.map(|standing| &*standing.object),
        };
        for (kind, written) in &rule.types {
            let reported = object.and_then(|object| reported(object, kind));
            let condition = reported.map_or_else(unreported, |found| mirrored(found, kind, view.redaction));
            set_condition(view.observed, generation, status, written, condition);
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

/// What it says.
fn mirrored(found: &Value, kind: &str, redaction: &Redaction) -> Condition {
    let text = |field: &str| found[field].as_str().unwrap_or_default();
    let reason = reason_word(text("reason"));
    Condition {
        status: match text("status") {
            "True" => "True",
            "False" => "False",
            _ => "Unknown",
        },
        reason: if reason.is_empty() { reason_word(kind.rsplit('/').next().unwrap_or_default()) } else { reason },
        message: redaction.text(text("message").to_owned()),
    }
}
