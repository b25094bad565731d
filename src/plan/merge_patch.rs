//! What is written beside a source, where server-side apply does not work as on Kubernetes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::live::is_ownership;
use super::observed::TargetObject;
use crate::mapping::is_within;
use crate::object::compare::{Pointers, has_short_pointers, leaves, make_pointer};
use crate::object::marks;

/// Makes a merge patch of what is desired: with null for what is no longer desired, and the version that this was computed from.
pub fn complete(body: &mut Value, object: &TargetObject) {
    body["metadata"]["resourceVersion"] = json!(object.resource_version());
    // A tenant may have written what takes pointers of any size. Then nothing is looked for that is no longer desired.
    let is_short = has_short_pointers(body) && has_short_pointers(&object.object);
    let leaves = |tree: &Value| if is_short { leaves(tree) } else { Vec::new() };
    let now: BTreeSet<String> = leaves(body).into_iter().collect();
    // An empty map merges with what is there.
    let replaces = |now: &str| !body.pointer(now).is_some_and(Value::is_object);
    let is_above_or_at = |former: &str| {
        let below = format!("{former}/");
        now.contains(former) || now.range(below.clone()..).next().is_some_and(|now| now.starts_with(&below))
    };
    let is_below = |former: &str| {
        let ends = former.match_indices('/').map(|(end, _)| &former[..end]);
        ends.into_iter().any(|above| now.contains(above) && replaces(above))
    };
    let is_left = |former: &String| {
        // Tenants can write it: it says nothing of what no template sets.
        let is_templates = ["/metadata/labels/", "/metadata/annotations/"].iter().any(|map| former.starts_with(map))
            || !["/metadata", "/apiVersion", "/kind", "/status"].iter().any(|field| is_within(former, field));
        let overlaps = is_above_or_at(former) || is_below(former);
        is_templates && !is_ownership(former) && !overlaps && object.object.pointer(former).is_some()
    };
    let rendered = marks::annotation(&object.object, marks::FIELDS).filter(|_| is_short).unwrap_or_default();
    let former = Pointers::read(rendered).among(leaves(&object.object).into_iter());
    let left: Vec<String> = former.into_iter().filter(is_left).collect();
    left.iter().for_each(|former| make_pointer(body, former, Value::Null));
    // A copy holds what its original holds and nothing else.
    let is_copy = marks::annotation(body, marks::FIELDS).is_none();
    for field in ["data", "binaryData"].into_iter().filter(|_| is_copy) {
        let Some(Value::Object(present)) = object.object.get(field) else { continue };
        for key in present.keys() {
            if body.get(field).and_then(|data| data.get(key)).is_none() {
                body[field][key] = Value::Null;
            }
        }
    }
}
