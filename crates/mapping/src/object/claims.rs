//! What a kcp workspace lets the engine do beside its APIExport's own resources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Resource;

/// Verbs with which related objects are read.
pub const READ: &[&str] = &["get", "list", "watch"];
/// Verbs with which objects are written: server-side apply is `patch`, and `create` where there is no object yet.
pub const WRITE: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// The permission claims that are in force in a workspace, and those that its APIExport asks for. Cheap to clone: each look at a
/// source has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    accepted: Arc<Verbs>,
    /// `None`: it is not known.
    asked: Option<Arc<Verbs>>,
}

/// Verbs by resource (`plural.group`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Verbs(BTreeMap<String, BTreeSet<String>>);

impl FromIterator<(Resource, Vec<String>)> for Claims {
    fn from_iter<I: IntoIterator<Item = (Resource, Vec<String>)>>(claims: I) -> Self {
        let claim = |(resource, verbs): (Resource, Vec<String>)| (resource.group_plural(), verbs.into_iter().collect());
        Self { accepted: Arc::new(Verbs(claims.into_iter().map(claim).collect())), asked: None }
    }
}

impl Verbs {
    fn have(&self, resource: &Resource, verbs: &[&str]) -> bool {
        let known = self.0.get(&resource.group_plural());
        verbs.iter().all(|verb| known.is_some_and(|all| all.contains("*") || all.contains(*verb)))
    }
}

impl Claims {
    /// The same, where the APIExport asks for these claims.
    #[must_use]
    pub fn asked(self, claims: impl IntoIterator<Item = (Resource, Vec<String>)>) -> Self {
        let asked: Self = claims.into_iter().collect();
        Self { asked: Some(asked.accepted), ..self }
    }

    /// What has to be done before a resource can be used with these verbs; `None`: nothing.
    pub fn lacking(&self, resource: &Resource, verbs: &[&str]) -> Option<String> {
        self.lacking_of(resource, verbs, verbs)
    }

    /// The same where more verbs are wanted than are needed now. All are told at once, as far as the APIExport asks for them: a
    /// binding has one entry for each resource.
    pub fn lacking_of(&self, resource: &Resource, verbs: &[&str], wanted: &[&str]) -> Option<String> {
        if self.accepted.have(resource, verbs) {
            return None;
        }
        let only_needed = self.asks_not(resource, wanted) && !self.asks_not(resource, verbs);
        let verbs = if only_needed { verbs } else { wanted };
        let Resource { group, plural, .. } = resource;
        if self.asks_not(resource, verbs) {
            return Some(format!(
                "the APIExport of the service does not ask for the permission claim for {} with the verbs {verbs}. Its provider \
                 has to add to `spec.permissionClaims` of the APIExport: {{group: \"{group}\", resource: {plural}, verbs: \
                 [{verbs}]}}",
                resource.group_plural(),
                verbs = verbs.join(", "),
            ));
        }
        Some(format!(
            "the workspace has not accepted the permission claim for {} with the verbs {}. Add to \
             `spec.permissionClaims` of its APIBinding: {}",
            resource.group_plural(),
            verbs.join(", "),
            acceptance(resource, verbs),
        ))
    }

    /// Whether the workspace has not accepted what its APIExport asks for, as far as that is known.
    pub fn is_unaccepted(&self, resource: &Resource, verbs: &[&str]) -> bool {
        !self.accepted.have(resource, verbs) && !self.asks_not(resource, verbs)
    }

    fn asks_not(&self, resource: &Resource, verbs: &[&str]) -> bool {
        self.asked.as_ref().is_some_and(|asked| !asked.have(resource, verbs))
    }
}

/// The entry of an APIBinding that accepts a claim.
pub fn acceptance(Resource { group, plural, .. }: &Resource, verbs: &[&str]) -> String {
    let verbs = verbs.join(", ");
    format!(
        "{{group: \"{group}\", resource: {plural}, verbs: [{verbs}], state: Accepted, selector: {{matchAll: true}}}}"
    )
}
