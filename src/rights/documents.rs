//! Rights as the documents that grant them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Rule;
use crate::mapping::ApiExportRef;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Who is granted something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
}

impl Subject {
    fn reference(&self) -> Value {
        match self {
            Self::User(name) => json!({"apiGroup": RBAC, "kind": "User", "name": name}),
            Self::Group(name) => json!({"apiGroup": RBAC, "kind": "Group", "name": name}),
            Self::ServiceAccount { namespace, name } => {
                json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
            }
        }
    }
}

/// Roles and their bindings, all called `name`; namespaces of Roles first.
pub fn roles(rules: &[Rule], name: &str, subject: &Subject) -> Vec<Value> {
    let mut by_namespace: BTreeMap<Option<&str>, Vec<Value>> = BTreeMap::new();
    for rule in rules {
        by_namespace.entry(rule.namespace.as_deref()).or_default().push(policy_rule(rule));
    }
    let namespaces = by_namespace.keys().flatten();
    let mut documents: Vec<Value> =
        namespaces.map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).collect();
    for (namespace, rules) in by_namespace {
        let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), name.into());
        metadata.extend(namespace.map(|namespace| ("namespace".to_owned(), namespace.into())));
        documents.push(json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata, "rules": rules,
        }));
        documents.push(json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
            "subjects": [subject.reference()],
        }));
    }
    documents
}

fn policy_rule(rule: &Rule) -> Value {
    if !rule.urls.is_empty() {
        return json!({"nonResourceURLs": rule.urls, "verbs": rule.verbs});
    }
    let mut policy = json!({"apiGroups": [rule.group], "resources": [rule.resource]});
    if !rule.names.is_empty() {
        policy["resourceNames"] = json!(rule.names);
    }
    policy["verbs"] = json!(rule.verbs);
    policy
}

/// The part of an APIExport that asks its consumers for something.
pub fn claims(export: &ApiExportRef, claims: &[Rule]) -> Value {
    let claims: Vec<Value> = claims
        .iter()
        .map(|claim| json!({"group": claim.group, "resource": claim.resource, "verbs": claim.verbs}))
        .collect();
    json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": export.name},
        "spec": {"permissionClaims": claims},
    })
}
