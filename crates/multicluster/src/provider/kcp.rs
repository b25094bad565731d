//! kcp's documents, as far as the provider, and whoever looks at the same clusters, reads them.

use serde::Deserialize;

use sync_engine_mapping::object::claims::Claims;
use sync_engine_mapping::{ApiExportRef, Resource};

const GROUP: &str = "apis.kcp.io";

pub fn endpoint_slices() -> Resource {
    resource("v1alpha1", "apiexportendpointslices")
}

pub fn resource_schemas() -> Resource {
    resource("v1alpha1", "apiresourceschemas")
}

/// Newest version first: an older kcp serves only the second.
pub fn exports() -> [Resource; 2] {
    ["v1alpha2", "v1alpha1"].map(|version| resource(version, "apiexports"))
}

/// Newest version first: an older kcp serves only the second.
pub fn bindings() -> [Resource; 2] {
    ["v1alpha2", "v1alpha1"].map(|version| resource(version, "apibindings"))
}

fn resource(version: &str, plural: &str) -> Resource {
    Resource { group: GROUP.into(), version: version.into(), plural: plural.into() }
}

/// An APIExportEndpointSlice.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct EndpointSlice {
    pub metadata: Metadata,
    spec: SliceSpec,
    status: Option<SliceStatus>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Metadata {
    pub name: String,
    annotations: Option<Annotations>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "kcp.io/cluster")]
    cluster: Option<String>,
    #[serde(rename = "kcp.io/path")]
    path: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct SliceSpec {
    export: ExportReference,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ExportReference {
    name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct SliceStatus {
    endpoints: Option<Vec<SliceEndpoint>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct SliceEndpoint {
    url: String,
}

impl EndpointSlice {
    /// The addresses of the shards that have a consumer. None is normal.
    pub fn urls(&self) -> Vec<&str> {
        let endpoints = self.status.iter().flat_map(|status| status.endpoints.iter().flatten());
        endpoints.map(|endpoint| endpoint.url.as_str()).filter(|url| !url.is_empty()).collect()
    }
}

/// The slice that an export's clusters are found through: the one that is named, else the one that kcp creates under the
/// export's name, else the first one that refers to the export.
pub fn choose<'a>(slices: &'a [EndpointSlice], export: &ApiExportRef) -> Option<&'a EndpointSlice> {
    let named = |name: &str| slices.iter().find(|slice| slice.metadata.name == name);
    let refers = |slice: &&EndpointSlice| slice.spec.export.name == export.name;
    match &export.endpoint_slice {
        Some(name) => named(name),
        None => named(&export.name).filter(refers).or_else(|| slices.iter().find(refers)),
    }
}

/// An APIBinding.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Binding {
    metadata: Metadata,
    spec: BindingSpec,
    status: Option<BindingStatus>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct BindingSpec {
    reference: BindingReference,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct BindingReference {
    export: Option<ExportReference>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BindingStatus {
    phase: String,
    api_export_cluster_name: Option<String>,
    applied_permission_claims: Option<Vec<AppliedClaim>>,
    /// What the export asks for.
    export_permission_claims: Option<Vec<AppliedClaim>>,
    /// What the export itself publishes.
    bound_resources: Option<Vec<AppliedClaim>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct AppliedClaim {
    group: String,
    resource: String,
    /// Missing in older versions: all.
    verbs: Option<Vec<String>>,
}

impl Binding {
    /// Whether it binds this export. Bindings of other exports are seen where they are claimed.
    pub fn binds(&self, export: &str, export_cluster: Option<&str>) -> bool {
        let bound_cluster = self.status.as_ref().and_then(|status| status.api_export_cluster_name.as_deref());
        let same_cluster = match (bound_cluster, export_cluster) {
            (Some(bound), Some(export)) => bound == export,
            _ => true,
        };
        same_cluster && self.spec.reference.export.as_ref().is_some_and(|reference| reference.name == export)
    }

    pub fn is_bound(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.phase == "Bound")
    }

    /// The claims that are in force, and the export's own resources, which need none. The condition `PermissionClaimsApplied`
    /// says nothing of a claim that is not accepted.
    pub fn claims(&self) -> Claims {
        let own = self.status.iter().flat_map(|status| status.bound_resources.iter().flatten());
        let applied =
            self.status.iter().flat_map(|status| status.applied_permission_claims.iter().flatten()).chain(own);
        let claim = |claim: &AppliedClaim| {
            let AppliedClaim { group, resource, verbs } = claim;
            let resource = Resource { group: group.clone(), version: String::new(), plural: resource.clone() };
            (resource, verbs.clone().unwrap_or_else(|| vec!["*".into()]))
        };
        let claims: Claims = applied.map(claim).collect();
        // An export that asks for nothing leaves the field out.
        match self.status.as_ref().filter(|_| self.is_bound()) {
            Some(status) => claims.asked(status.export_permission_claims.iter().flatten().map(claim)),
            None => claims,
        }
    }

    /// Logical cluster of the workspace it stands in.
    pub fn cluster(&self) -> Option<&str> {
        self.metadata.annotations.as_ref()?.cluster.as_deref()
    }

    /// Path of the workspace it stands in.
    pub fn workspace_path(&self) -> Option<String> {
        self.metadata.annotations.as_ref().and_then(|annotations| annotations.path.clone())
    }
}

/// An APIExport.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Export {
    metadata: Metadata,
}

impl Export {
    /// Logical cluster of the export.
    pub fn cluster(&self) -> Option<&str> {
        self.metadata.annotations.as_ref()?.cluster.as_deref()
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
        choose(slices, export).map(|slice| slice.metadata.name.clone())
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
        let of =
            |group: &str, plural: &str| Resource { group: group.into(), version: "v1".into(), plural: plural.into() };
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
        let secrets = Resource { group: String::new(), version: "v1".into(), plural: "secrets".into() };
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
