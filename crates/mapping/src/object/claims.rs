//! What a kcp workspace lets the engine do beside its APIExport's own resources.

use std::collections::{BTreeMap, BTreeSet};

use crate::Resource;

/// Verbs with which related objects are read.
pub const READ: &[&str] = &["get", "list", "watch"];
/// Verbs with which objects are written: server-side apply is `patch`, and `create` where there is no object yet.
pub const WRITE: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// The permission claims that are in force in a workspace: verbs by resource (`plural.group`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims(BTreeMap<String, BTreeSet<String>>);

impl FromIterator<(Resource, Vec<String>)> for Claims {
    fn from_iter<I: IntoIterator<Item = (Resource, Vec<String>)>>(claims: I) -> Self {
        let claim = |(resource, verbs): (Resource, Vec<String>)| (resource.group_plural(), verbs.into_iter().collect());
        Self(claims.into_iter().map(claim).collect())
    }
}

impl Claims {
    /// What has to be done before a resource can be used with these verbs; `None`: nothing.
    pub fn lacking(&self, resource: &Resource, verbs: &[&str]) -> Option<String> {
        let accepted = self.0.get(&resource.group_plural());
        let is_accepted = |verb: &&str| accepted.is_some_and(|all| all.contains("*") || all.contains(*verb));
        if verbs.iter().all(is_accepted) {
            return None;
        }
        let Resource { group, plural, .. } = resource;
        Some(format!(
            "the workspace has not accepted the permission claim for {} with the verbs {verbs}. Add to \
             `spec.permissionClaims` of its APIBinding: {{group: \"{group}\", resource: {plural}, verbs: [{verbs}], state: \
             Accepted, selector: {{matchAll: true}}}}",
            resource.group_plural(),
            verbs = verbs.join(", "),
        ))
    }
}
