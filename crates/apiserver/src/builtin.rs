//! The resources that a server brings itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::builtin_schemas;
use super::object;
use super::resource::{Resource, Version};
use super::schema::Schema;
use super::table;

/// Resources of one cluster, by group and plural.
pub(super) type Served = BTreeMap<(Arc<str>, Arc<str>), Arc<Resource>>;

struct Row {
    group: &'static str,
    versions: &'static [&'static str],
    plural: &'static str,
    kind: &'static str,
    short_names: &'static [&'static str],
    namespaced: bool,
    status: bool,
    generation: bool,
}

/// A namespaced kind of Kubernetes without a status.
const fn row(group: &'static str, plural: &'static str, kind: &'static str) -> Row {
    let (versions, short_names): (&[&str], &[&str]) = (&["v1"], &[]);
    Row { group, versions, plural, kind, short_names, namespaced: true, status: false, generation: false }
}

/// A kind of kcp without a status.
const fn kcp_row(
    group: &'static str,
    versions: &'static [&'static str],
    plural: &'static str,
    kind: &'static str,
) -> Row {
    Row { versions, namespaced: false, generation: true, ..row(group, plural, kind) }
}

impl Row {
    /// Whether the schema says all: kcp's kinds are kept as they come.
    fn is_typed(&self) -> bool {
        ![APIS, TENANCY, CORE, TOPOLOGY].contains(&self.group)
    }

    fn resource(&self) -> Resource {
        let document = builtin_schemas::document(self.group, self.kind);
        let versions = self.versions.iter().map(|version| Version {
            name: (*version).into(),
            status: self.status,
            schema: Schema::of_object(&document),
            is_typed: self.is_typed(),
            columns: table::columns_of(self.group, self.plural),
            document: json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        });
        Resource {
            group: self.group.into(),
            plural: self.plural.into(),
            singular: self.kind.to_ascii_lowercase(),
            kind: self.kind.into(),
            list_kind: format!("{}List", self.kind),
            short_names: self.short_names.iter().map(|name| name.to_string()).collect(),
            categories: Vec::new(),
            namespaced: self.namespaced,
            generation: self.generation,
            custom: false,
            identity: "".into(),
            versions: versions.collect(),
            unserved: Vec::new(),
            storage_version: self.versions[0].into(),
        }
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";

const KUBERNETES: &[Row] = &[
    Row { short_names: &["ns"], namespaced: false, status: true, ..row("", "namespaces", "Namespace") },
    Row { short_names: &["cm"], ..row("", "configmaps", "ConfigMap") },
    row("", "secrets", "Secret"),
    Row { short_names: &["sa"], ..row("", "serviceaccounts", "ServiceAccount") },
    Row { short_names: &["quota"], status: true, ..row("", "resourcequotas", "ResourceQuota") },
    Row { short_names: &["ev"], ..row("", "events", "Event") },
    row(RBAC, "roles", "Role"),
    row(RBAC, "rolebindings", "RoleBinding"),
    Row { namespaced: false, ..row(RBAC, "clusterroles", "ClusterRole") },
    Row { namespaced: false, ..row(RBAC, "clusterrolebindings", "ClusterRoleBinding") },
    row("coordination.k8s.io", "leases", "Lease"),
    Row {
        short_names: &["crd", "crds"],
        namespaced: false,
        status: true,
        generation: true,
        ..row("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition")
    },
];

pub(super) const APIS: &str = "apis.kcp.io";
pub(super) const TENANCY: &str = "tenancy.kcp.io";
pub(super) const CORE: &str = "core.kcp.io";
pub(super) const TOPOLOGY: &str = "topology.kcp.io";

const KCP: &[Row] = &[
    Row { short_names: &["ws"], status: true, ..kcp_row(TENANCY, &["v1alpha1"], "workspaces", "Workspace") },
    Row { status: true, ..kcp_row(CORE, &["v1alpha1"], "logicalclusters", "LogicalCluster") },
    kcp_row(APIS, &["v1alpha1"], "apiresourceschemas", "APIResourceSchema"),
    Row { status: true, ..kcp_row(APIS, &["v1alpha2", "v1alpha1"], "apiexports", "APIExport") },
    Row { status: true, ..kcp_row(APIS, &["v1alpha2", "v1alpha1"], "apibindings", "APIBinding") },
    Row { status: true, ..kcp_row(APIS, &["v1alpha1"], "apiexportendpointslices", "APIExportEndpointSlice") },
    kcp_row(TOPOLOGY, &["v1alpha1"], "partitions", "Partition"),
];

/// What every Kubernetes cluster serves here.
pub(super) fn kubernetes() -> Served {
    served(KUBERNETES.iter())
}

/// What every kcp workspace serves here.
pub(super) fn kcp() -> Served {
    served(KUBERNETES.iter().chain(KCP))
}

fn served<'a>(rows: impl Iterator<Item = &'a Row>) -> Served {
    rows.map(Row::resource)
        .map(|resource| ((resource.group.clone(), resource.plural.clone()), Arc::new(resource)))
        .collect()
}

/// Fills in what a client may leave out of an object of a built-in kind: it counts as said by the client.
pub(super) fn default(resource: &Resource, object: &mut Value) {
    match (&*resource.group, &*resource.plural) {
        ("", "namespaces") => {
            let name = object::text(object, "name").to_owned();
            object::set_entry(object, "labels", "kubernetes.io/metadata.name", Some(&name));
        }
        ("", "secrets") if object["type"].is_null() => object["type"] = "Opaque".into(),
        _ => (),
    }
}

/// What an object of a kind has before anybody says anything: what is a structure is there though it is empty.
pub(super) fn nothing(resource: &Resource) -> Value {
    match (&*resource.group, &*resource.plural) {
        ("", "resourcequotas") => json!({"metadata": {}, "spec": {}}),
        _ => json!({"metadata": {}}),
    }
}

/// What is said of a role without rules.
pub(super) fn say_nothing(resource: &Resource, object: &mut Value) {
    if matches!(&*resource.plural, "roles" | "clusterroles") && object.get("rules").is_none() {
        object["rules"] = Value::Null;
    }
}

/// What the server adds on its own account to a new object of a built-in kind.
pub(super) fn complete(resource: &Resource, object: &mut Value) {
    match (&*resource.group, &*resource.plural) {
        ("", "namespaces") => {
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
        }
        ("", "resourcequotas") => object["status"] = json!({}),
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            object::add_finalizer(object, super::definition::CLEANUP_FINALIZER);
        }
        (TENANCY, "workspaces") => object::add_finalizer(object, super::kcp::workspace::CLEANUP_FINALIZER),
        (APIS, "apibindings") => object::add_finalizer(object, super::kcp::binding::CLEANUP_FINALIZER),
        _ => (),
    }
}
