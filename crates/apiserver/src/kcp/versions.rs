//! APIExport and APIBinding in their two versions, v1alpha1 and v1alpha2.

use serde_json::{Map, Value, json};

use super::super::builtin::APIS;
use super::super::resource::Resource;

/// Rewrites what differs between the versions of kcp's kinds; an object that has the shape of `version` stays as it is.
pub(crate) fn convert(resource: &Resource, version: &str, object: &mut Value) {
    if !resource.is(APIS, "apiexports") && !resource.is(APIS, "apibindings") {
        return;
    }
    let Some(spec) = object["spec"].as_object_mut() else { return };
    match version {
        "v1alpha1" => to_v1alpha1(spec),
        _ => to_v1alpha2(spec),
    }
}

fn to_v1alpha1(spec: &mut Map<String, Value>) {
    if let Some(Value::Array(resources)) = spec.remove("resources") {
        let schemas = resources.iter().map(|resource| resource["schema"].clone()).collect();
        spec.insert("latestResourceSchemas".into(), Value::Array(schemas));
    }
    for claim in claims(spec) {
        if claim.remove("verbs").is_some() {
            claim.remove("selector");
            claim.insert("all".into(), true.into());
        }
    }
}

fn to_v1alpha2(spec: &mut Map<String, Value>) {
    if let Some(Value::Array(schemas)) = spec.remove("latestResourceSchemas") {
        let resources = schemas.iter().filter_map(|schema| exported(schema.as_str()?)).collect();
        spec.insert("resources".into(), Value::Array(resources));
    }
    for claim in claims(spec) {
        if claim.remove("all").is_some() {
            let is_accepted_or_refused = claim.contains_key("state");
            claim.insert("verbs".into(), json!(["*"]));
            if is_accepted_or_refused {
                claim.insert("selector".into(), json!({"matchAll": true}));
            }
        }
    }
}

/// What `<prefix>.<plural>.<group>` exports.
fn exported(schema: &str) -> Option<Value> {
    let (_, qualified) = schema.split_once('.')?;
    let (plural, group) = qualified.split_once('.')?;
    Some(json!({"group": group, "name": plural, "schema": schema, "storage": {"crd": {}}}))
}

fn claims(spec: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let claims = spec.get_mut("permissionClaims").and_then(Value::as_array_mut);
    claims.into_iter().flatten().filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_again() {
        let old = json!({
            "latestResourceSchemas": ["v1.things.example.com"], "permissionClaims": [{"resource": "secrets", "all": true}],
        });
        let new = json!({
            "permissionClaims": [{"resource": "secrets", "verbs": ["*"]}],
            "resources": [
                {"group": "example.com", "name": "things", "schema": "v1.things.example.com", "storage": {"crd": {}}},
            ],
        });
        let Value::Object(mut spec) = old.clone() else { unreachable!("an object") };
        to_v1alpha2(&mut spec);
        assert_eq!(Value::Object(spec.clone()), new);
        to_v1alpha1(&mut spec);
        assert_eq!(Value::Object(spec), old);
    }
}
