//! Kinds that documents define: CustomResourceDefinition, and kcp's APIResourceSchema.

use serde_json::{Value, json};

use super::resource::{Resource, Version};
use super::schema::{Schema, strings};
use super::table;

/// Keeps a CustomResourceDefinition until its objects are gone.
pub(super) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The resource that a CustomResourceDefinition defines; or an APIResourceSchema, as an export of the given identity publishes it.
pub(super) fn resource(document: &Value, identity: &str) -> Resource {
    let is_exported = !identity.is_empty();
    let schema_of = |version: &Value| match is_exported {
        true => version["schema"].clone(),
        false => version["schema"]["openAPIV3Schema"].clone(),
    };
    let spec = &document["spec"];
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&names["kind"]);
    let or = |value: String, fallback: String| if value.is_empty() { fallback } else { value };
    let versions: Vec<&Value> = spec["versions"].as_array().into_iter().flatten().collect();
    let stored = versions.iter().find(|version| version["storage"] == true).or(versions.first());
    let is_served = |version: &&&Value| version["served"] != false;
    Resource {
        group: text(&spec["group"]).into(),
        plural: text(&names["plural"]).into(),
        singular: or(text(&names["singular"]), kind.to_ascii_lowercase()),
        list_kind: or(text(&names["listKind"]), format!("{kind}List")),
        kind: kind.into(),
        short_names: strings(&names["shortNames"]),
        categories: strings(&names["categories"]),
        namespaced: spec["scope"] != "Cluster",
        generation: true,
        custom: true,
        identity: identity.into(),
        storage_version: stored.map(|version| text(&version["name"])).unwrap_or_default().into(),
        versions: versions.iter().filter(is_served).map(|version| read_version(version, schema_of(version))).collect(),
        unserved: versions.iter().filter(|one| !is_served(one)).map(|one| text(&one["name"]).into()).collect(),
    }
}

fn read_version(version: &Value, document: Value) -> Version {
    Version {
        name: version["name"].as_str().unwrap_or_default().into(),
        status: version["subresources"].get("status").is_some(),
        columns: table::stated_columns(version),
        schema: Schema::of_object(&document),
        is_typed: document.is_object(),
        document,
    }
}

/// The status of a CustomResourceDefinition that is served.
pub(super) fn establish(definition: &mut Value, now: &str) {
    let names = definition["spec"]["names"].clone();
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let now_stored = versions.filter(|version| version["storage"] == true).map(|version| &version["name"]);
    // What was stored in a version may still be: a person takes it off the list.
    let mut stored: Vec<Value> = definition["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    let added: Vec<Value> = now_stored.filter(|name| !stored.contains(name)).cloned().collect();
    stored.extend(added);
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message});
    if definition["status"]["conditions"].is_null() {
        definition["status"]["conditions"] = json!([
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ]);
    }
    definition["status"]["acceptedNames"] = names;
    definition["status"]["storedVersions"] = stored.into();
}
