//! Mirrored conditions: what a downstream object says of itself, said to the consumer.

use serde_json::Value;

use super::render::Rendering;
use super::status::{Condition, Draft, entry, object_at, reason_word};

/// Carries the conditions over. One that the object does not report is `Unknown`; of an object that cannot be seen, or
/// is somebody else's, they stay as they are.
pub fn conditions(draft: &mut Draft<'_>, rendering: &Rendering) {
    for rule in &draft.mapping.status.mirrors {
        let object = match object_at(draft.mapping, draft.observed, rendering, &rule.object) {
            Err(_) => continue,
            Ok(standing) => standing.map(|standing| &*standing.object),
        };
        for (kind, written) in &rule.types {
            let reported = object.and_then(|object| entry(object.get("status")?, kind));
            let condition = reported.map_or_else(unreported, |found| mirrored(found, kind, draft));
            draft.set_condition(written, condition);
        }
    }
}

fn unreported() -> Condition {
    Condition { status: "Unknown", reason: "NotReported".into(), message: String::new() }
}

/// What it says.
fn mirrored(found: &Value, kind: &str, draft: &Draft<'_>) -> Condition {
    let text = |field: &str| found[field].as_str().unwrap_or_default();
    Condition {
        status: match text("status") {
            "True" => "True",
            "False" => "False",
            _ => "Unknown",
        },
        reason: reason_word(text("reason"), kind),
        message: draft.told(text("message").to_owned()),
    }
}
