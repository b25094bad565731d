//! Claims that a mapping needs, and that an APIExport does not ask for.

use std::ops::Range;

use serde_json::Value;

use crate::mapping::ApiExportRef;
use crate::mapping::diagnostic::Finding;
use crate::rights::{Rights, Rule};
use crate::yaml::Node;

/// What a mapping needs in the consumers' workspaces and its APIExport does not ask for.
pub(in crate::cli) fn unasked(spec: &Node, export: &ApiExportRef, needed: &Rights, document: &Value) -> Vec<Finding> {
    let finding = |claim: &Rule| {
        let lacking = unclaimed(claim, document);
        let verbs = lacking.join(", ");
        let message = format!("the APIExport `{}` does not claim {verbs} of `{}`", export.name, claim.resource);
        let finding = Finding::new("SE0805", place_of(spec, "related"), message);
        let help =
            "`sync-engine rbac --for claims` prints what to add (of an ApiSchema: `claims`); consumers must accept it";
        (!lacking.is_empty()).then(|| finding.help(help))
    };
    needed.claims.get(export).into_iter().flatten().filter_map(finding).collect()
}

/// The key of a part of the spec; where it has none, its first line.
pub(in crate::cli) fn place_of(node: &Node, key: &str) -> Range<usize> {
    node.entry(key).map_or_else(|| node.headline(), |(key, _)| key.span.clone())
}

/// Verbs of a claim that an APIExport does not ask for.
fn unclaimed(claim: &Rule, export: &Value) -> Vec<String> {
    let mut claims = export["spec"]["permissionClaims"].as_array().into_iter().flatten();
    // The core group can be left out.
    let group = |one: &Value| one["group"].as_str().unwrap_or_default().to_owned();
    let known = claims.find(|one| one["resource"] == claim.resource && group(one) == claim.group);
    let verbs: Vec<&str> =
        known.and_then(|known| known["verbs"].as_array()).into_iter().flatten().filter_map(Value::as_str).collect();
    let lacks = |verb: &&String| !verbs.contains(&"*") && !verbs.contains(&verb.as_str());
    claim.verbs.iter().filter(lacks).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rights::rule;

    #[test]
    fn a_claim_is_met_by_its_verbs_or_by_all() {
        let claim = rule("", "secrets", &["get", "list"], "");
        let of = |claims: Value| unclaimed(&claim, &json!({"spec": {"permissionClaims": claims}}));
        assert_eq!(of(json!(null)), ["get", "list"]);
        assert_eq!(of(json!([{"group": "x", "resource": "secrets", "verbs": ["*"]}])), ["get", "list"]);
        assert_eq!(of(json!([{"resource": "secrets", "verbs": ["get", "watch"]}])), ["list"]);
        assert!(of(json!([{"group": "", "resource": "secrets", "verbs": ["*"]}])).is_empty());
    }
}
