//! kcp's documents, as far as the provider, and whoever looks at the same clusters, reads them.

use serde::Deserialize;
use serde_json::Value;

use crate::raw::CLUSTER_ANNOTATION;
use sync_engine_mapping::object::claims::Claims;
use sync_engine_mapping::object::metadata;
use sync_engine_mapping::{ApiExportRef, Resource};

const GROUP: &str = "apis.kcp.io";

pub fn endpoint_slices() -> Resource {
    Resource::new(GROUP, "v1alpha1", "apiexportendpointslices")
}

pub fn resource_schemas() -> Resource {
    Resource::new(GROUP, "v1alpha1", "apiresourceschemas")
}

/// Newest version first: an older kcp serves only the second.
pub fn exports() -> [Resource; 2] {
    ["v1alpha2", "v1alpha1"].map(|version| Resource::new(GROUP, version, "apiexports"))
}

/// Newest version first: an older kcp serves only the second.
pub fn bindings() -> [Resource; 2] {
    ["v1alpha2", "v1alpha1"].map(|version| Resource::new(GROUP, version, "apibindings"))
}

/// An APIExportEndpointSlice.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct EndpointSlice(Value);

impl EndpointSlice {
    /// The addresses of the shards that have a consumer. None is normal.
    pub fn urls(&self) -> Vec<&str> {
        let urls = listed(&self.0["status"]["endpoints"]).filter_map(|endpoint| endpoint["url"].as_str());
        urls.filter(|url| !url.is_empty()).collect()
    }
}

/// The entries of a list. One that is empty may be missing, or null.
fn listed(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// An annotation by which kcp says where an object is.
pub(super) fn annotation<'d>(document: &'d Value, name: &str) -> Option<&'d str> {
    document["metadata"]["annotations"][name].as_str()
}

/// The slice that an export's clusters are found through: the one that is named, else the one that kcp creates under the
/// export's name, else the first one that refers to the export.
pub fn choose<'a>(slices: &'a [EndpointSlice], export: &ApiExportRef) -> Option<&'a EndpointSlice> {
    let named = |name: &str| slices.iter().find(|slice| metadata(&slice.0, "name") == name);
    let refers = |slice: &&EndpointSlice| slice.0["spec"]["export"]["name"] == *export.name;
    match &export.endpoint_slice {
        Some(name) => named(name),
        None => named(&export.name).filter(refers).or_else(|| slices.iter().find(refers)),
    }
}

/// What is read of an APIExport, for each workspace that is described. The rest is as long as it has resources.
pub(super) const READ_OF_EXPORTS: [&str; 2] = ["/metadata/annotations/kcp.io~1cluster", "/status/identityHash"];

/// What is read of an APIBinding. Of the rest, a tenant may write as much as there is room for.
pub(super) const READ_OF_BINDINGS: [&str; 8] = [
    "/metadata/annotations/kcp.io~1cluster",
    "/metadata/annotations/kcp.io~1path",
    "/spec/reference/export/name",
    "/status/phase",
    "/status/apiExportClusterName",
    "/status/appliedPermissionClaims",
    "/status/boundResources",
    "/status/exportPermissionClaims",
];

/// An APIBinding.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Binding(Value);

impl Binding {
    /// Whether it binds this export. Bindings of other exports are seen where they are claimed.
    pub fn binds(&self, export: &str, export_cluster: Option<&str>) -> bool {
        let bound_cluster = self.0["status"]["apiExportClusterName"].as_str();
        let same_cluster = bound_cluster.zip(export_cluster).is_none_or(|(bound, export)| bound == export);
        same_cluster && self.0["spec"]["reference"]["export"]["name"] == *export
    }

    pub fn is_bound(&self) -> bool {
        self.0["status"]["phase"] == "Bound"
    }

    /// The claims that are in force, and the export's own resources, which need none. The condition `PermissionClaimsApplied`
    /// says nothing of a claim that is not accepted.
    pub fn claims(&self) -> Claims {
        let status = &self.0["status"];
        let claim = |claim: &Value| {
            let text = |field: &str| claim[field].as_str().unwrap_or_default().to_owned();
            // Missing in older versions: all.
            let verbs =
                claim["verbs"].as_array().map(|verbs| verbs.iter().filter_map(Value::as_str).map(str::to_owned));
            let resource = Resource { group: text("group"), version: String::new(), plural: text("resource") };
            (resource, verbs.map_or_else(|| vec!["*".to_owned()], Iterator::collect))
        };
        let in_force =
            ["appliedPermissionClaims", "boundResources"].into_iter().flat_map(|field| listed(&status[field]));
        let claims: Claims = in_force.map(claim).collect();
        // An export that asks for nothing leaves the field out.
        match self.is_bound() {
            true => claims.asked(listed(&status["exportPermissionClaims"]).map(claim)),
            false => claims,
        }
    }

    /// Logical cluster of the workspace it stands in.
    pub fn cluster(&self) -> Option<&str> {
        annotation(&self.0, CLUSTER_ANNOTATION)
    }

    /// Path of the workspace it stands in.
    pub fn workspace_path(&self) -> Option<String> {
        annotation(&self.0, "kcp.io/path").map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn slice(name: &str, export: &str) -> EndpointSlice {
        serde_json::from_value(
            json!({"metadata": {"name": name}, "spec": {"export": {"path": "root:p", "name": export}}}),
        )
        .unwrap()
    }

    fn export(name: &str, slice: Option<&str>) -> ApiExportRef {
        ApiExportRef { connection: "kcp".into(), path: None, name: name.into(), endpoint_slice: slice.map(Into::into) }
    }

    fn chosen(slices: &[EndpointSlice], export: &ApiExportRef) -> Option<String> {
        choose(slices, export).map(|slice| metadata(&slice.0, "name").to_owned())
    }

    #[test]
    fn slices_are_found_by_name_and_by_what_they_refer_to() {
        let slices = [slice("db", "other"), slice("x", "db"), slice("cache", "cache")];
        assert_eq!(chosen(&slices, &export("cache", None)).as_deref(), Some("cache"));
        assert_eq!(chosen(&slices, &export("db", None)).as_deref(), Some("x"), "its namesake refers to another export");
        assert_eq!(chosen(&slices, &export("db", Some("db"))).as_deref(), Some("db"), "it was asked for");
        assert_eq!(chosen(&slices, &export("none", None)), None);
    }

    #[test]
    fn a_slice_without_status_or_endpoints_has_no_urls() {
        for status in
            [json!({}), json!({"status": null}), json!({"status": {}}), json!({"status": {"endpoints": null}})]
        {
            let slice: EndpointSlice = serde_json::from_value(status).unwrap();
            assert!(slice.urls().is_empty());
        }
    }

    #[test]
    fn what_is_claimed_or_published_may_be_used() {
        let status = json!({
            "appliedPermissionClaims": [{"group": "", "resource": "secrets", "verbs": ["get"]}],
            "boundResources": [{"group": "example.dev", "resource": "databases", "schema": {"name": "v1"}, "storageVersions": ["v1"]}],
        });
        let binding: Binding = serde_json::from_value(json!({"status": status})).unwrap();
        let of = |group: &str, plural: &str| Resource::new(group, "v1", plural);
        let claims = binding.claims();
        assert_eq!(claims.lacking(&of("example.dev", "databases"), &["create"]), None);
        assert_eq!(claims.lacking(&of("", "secrets"), &["get"]), None);
        assert!(
            claims.lacking(&of("", "secrets"), &["create"]).is_some()
                && claims.lacking(&of("", "pods"), &["get"]).is_some()
        );
    }

    /// A consumer cannot accept what the provider does not ask for.
    #[test]
    fn who_has_to_add_a_claim_is_said() {
        let secrets = Resource::new("", "v1", "secrets");
        let lacking = |asked: serde_json::Value| {
            let status = json!({"phase": "Bound", "exportPermissionClaims": asked});
            let binding: Binding = serde_json::from_value(json!({"status": status})).unwrap();
            binding.claims().lacking(&secrets, &["get", "list"]).unwrap()
        };
        insta::assert_snapshot!(lacking(json!([{"resource": "secrets", "verbs": ["*"]}])), @r#"the workspace has not accepted the permission claim for secrets with the verbs get, list. Add to `spec.permissionClaims` of its APIBinding: {group: "", resource: secrets, verbs: [get, list], state: Accepted, selector: {matchAll: true}}"#);
        for asked in [json!(null), json!([]), json!([{"resource": "secrets", "verbs": ["get"]}])] {
            insta::allow_duplicates! {
                insta::assert_snapshot!(lacking(asked), @r#"the APIExport of the service does not ask for the permission claim for secrets with the verbs get, list. Its provider has to add to `spec.permissionClaims` of the APIExport: {group: "", resource: secrets, verbs: [get, list]}"#);
            }
        }
        let accept = |asked: serde_json::Value| {
            let status = json!({"phase": "Bound", "exportPermissionClaims": [{"resource": "secrets", "verbs": asked}]});
            let binding: Binding = serde_json::from_value(json!({"status": status})).unwrap();
            let why = binding.claims().lacking_of(&secrets, &["get"], &["get", "create"]).unwrap();
            why.contains("has not accepted").then(|| why.contains("verbs: [get, create]"))
        };
        assert_eq!(accept(json!(["*"])), Some(true), "all verbs at once");
        assert_eq!(accept(json!(["get", "list"])), Some(false), "nobody can accept what is not asked for");
        assert_eq!(accept(json!(["list"])), None, "its provider has to ask first");
    }

    #[test]
    fn bindings_of_other_exports_are_told_apart() {
        let binding = |name: &str, cluster: &str| -> Binding {
            let status = json!({"phase": "Bound", "apiExportClusterName": cluster});
            serde_json::from_value(json!({"spec": {"reference": {"export": {"name": name}}}, "status": status}))
                .unwrap()
        };
        assert!(binding("db", "c1").binds("db", Some("c1")) && binding("db", "c1").binds("db", None));
        assert!(!binding("db", "c2").binds("db", Some("c1")) && !binding("x", "c1").binds("db", Some("c1")));
        assert!(!Binding::default().binds("db", None) && !Binding::default().is_bound());
    }
}
