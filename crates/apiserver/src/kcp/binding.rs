//! APIBinding: how a workspace comes by an API, and how it gives it up.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::builtin::APIS;
use super::super::collection::Key;
use super::super::object;
use super::super::resource::Resource;
use super::super::settle::{Touched, drop_finalizer};
use super::super::state::State;
use super::export::claims;
use super::{BINDS, CLAIMED, set_condition, short_hash};

/// Keeps an APIBinding until the objects it brought are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "apis.kcp.io/apibinding-finalizer";

impl State {
    pub(crate) fn settle_binding(&mut self, key: &Key) {
        let Some(bindings) = self.builtin(APIS, "apibindings") else { return };
        let Some(stored) = self.stored(&bindings, key).cloned() else {
            self.exports.waiting.remove(key);
            self.draining.remove(&Touched::Binding(key.clone()));
            return;
        };
        let object = stored.object();
        let export = self.referred(&object["spec"]["reference"]["export"], key);
        let export = export.filter(|export| self.exports.published.contains_key(export));
        match (stored.deleting, export) {
            (true, _) => self.unbind(&bindings, key, &object),
            (false, Some(export)) => self.bind(&bindings, key, &object, &export),
            (false, None) => self.wait_for_export(&bindings, key),
        }
    }

    fn wait_for_export(&mut self, bindings: &Resource, key: &Key) {
        self.exports.waiting.insert(key.clone());
        let now = self.now.to_string();
        self.change_own(bindings, key, |binding| {
            binding["status"]["phase"] = "Binding".into();
            let message = "associated export could not be found";
            set_condition(binding, "APIExportValid", Err(("APIExportNotFound", message)), &now);
        });
    }

    fn bind(&mut self, bindings: &Resource, key: &Key, binding: &Value, export: &Arc<str>) {
        self.exports.waiting.remove(key);
        let mark = short_hash(export);
        self.change_own(bindings, key, |binding| {
            object::set_entry(binding, "labels", BINDS, Some(&mark));
            if binding["status"]["phase"].is_null() {
                binding["status"]["phase"] = "Binding".into();
            }
        });
        let Some(published) = self.exports.published.get_mut(export) else { return };
        let is_new = published.clusters.insert(key.cluster.clone());
        let (resources, asked) = (published.resources.clone(), published.claims.clone());
        resources.iter().for_each(|resource| self.define(&key.cluster, resource.clone()));
        let stated = binding["spec"]["permissionClaims"].as_array().into_iter().flatten();
        let accepted = claims(stated.filter(|claim| claim["state"] == "Accepted"));
        let applied: BTreeSet<(String, String)> = accepted.intersection(&asked).cloned().collect();
        self.apply_claims(&key.cluster, &mark, &applied);
        let (now, cluster) = (self.now.to_string(), export.split_once('/').map_or("", |(cluster, _)| cluster));
        self.change_own(bindings, key, |binding| {
            let claims = |claims: &BTreeSet<(String, String)>| -> Vec<Value> {
                claims.iter().map(|(group, resource)| claim(group, resource, &binding["spec"])).collect()
            };
            let (applied, asked) = (claims(&applied), claims(&asked));
            let status = &mut binding["status"];
            status["apiExportClusterName"] = cluster.into();
            status["boundResources"] = resources.iter().map(|resource| bound_resource(resource)).collect();
            status["appliedPermissionClaims"] = applied.into();
            status["exportPermissionClaims"] = asked.into();
            status["phase"] = "Bound".into();
            for kind in
                ["Ready", "APIExportValid", "BindingUpToDate", "InitialBindingCompleted", "PermissionClaimsApplied"]
            {
                set_condition(binding, kind, Ok(()), &now);
            }
        });
        if is_new {
            self.publish_endpoints(export);
        }
    }

    /// Labels what is claimed in a cluster, and what no longer is.
    fn apply_claims(&mut self, cluster: &Arc<str>, mark: &str, claims: &BTreeSet<(String, String)>) {
        let Some(logical) = self.clusters.get_mut(cluster) else { return };
        let before: BTreeSet<_> = logical.claims.iter().filter(|(_, _, by)| by == mark).cloned().collect();
        let after: BTreeSet<_> =
            claims.iter().map(|(group, plural)| (group.clone(), plural.clone(), mark.to_owned())).collect();
        logical.claims.retain(|(_, _, by)| by != mark);
        logical.claims.extend(after.iter().cloned());
        for (group, plural, _) in before.symmetric_difference(&after) {
            let is_claimed = claims.contains(&(group.clone(), plural.clone()));
            self.label_claimed(cluster, group, plural, mark, is_claimed);
        }
    }

    fn label_claimed(&mut self, cluster: &str, group: &str, plural: &str, mark: &str, is_claimed: bool) {
        let Some(resource) = self.served(cluster, group, plural) else { return };
        let label = format!("{CLAIMED}/{mark}");
        for key in self.keys_of(&resource, cluster, None) {
            self.change_own(&resource, &key, |object| {
                object::set_entry(object, "labels", &label, is_claimed.then_some(mark));
            });
        }
    }

    /// Deletes what the binding brought, waits for the finalizers there, and lets the binding go.
    fn unbind(&mut self, bindings: &Resource, key: &Key, binding: &Value) {
        let mark = binding["metadata"]["labels"][BINDS].as_str().unwrap_or_default();
        let export = self.exports.published.keys().find(|export| short_hash(export) == mark).cloned();
        let resources = self.all_served(&key.cluster);
        let brought: Vec<&Arc<Resource>> =
            resources.iter().filter(|resource| short_hash(&resource.identity) == mark).collect();
        let held: usize = brought.iter().map(|resource| self.empty(resource, &key.cluster, None)).sum();
        if held > 0 {
            self.draining.insert(Touched::Binding(key.clone()), key.cluster.clone());
            let now = self.now.to_string();
            let message = format!("Some content in the workspace has finalizers remaining: {held} object(s)");
            self.change_own(bindings, key, |binding| {
                let reason = "SomeFinalizersRemain";
                set_condition(binding, "BindingResourceDeleteSuccess", Err((reason, message.as_str())), &now);
            });
            return;
        }
        self.draining.remove(&Touched::Binding(key.clone()));
        self.apply_claims(&key.cluster, mark, &BTreeSet::new());
        self.change_own(bindings, key, |binding| drop_finalizer(binding, CLEANUP_FINALIZER));
        brought.iter().for_each(|resource| self.undefine(&key.cluster, resource));
        if let Some(export) = export {
            if let Some(published) = self.exports.published.get_mut(&export) {
                published.clusters.remove(&key.cluster);
            }
            self.publish_endpoints(&export);
        }
    }
}

/// A claim in a binding's status, with the verbs and the selector of its spec.
fn claim(group: &str, resource: &str, spec: &Value) -> Value {
    let claims = spec["permissionClaims"].as_array().into_iter().flatten();
    let mut same =
        claims.filter(|claim| claim["group"].as_str().unwrap_or_default() == group && claim["resource"] == resource);
    let stated = same.next();
    let verbs = stated.map_or(json!(["*"]), |claim| claim["verbs"].clone());
    let selector = stated.map_or(json!({"matchAll": true}), |claim| claim["selector"].clone());
    json!({"group": group, "resource": resource, "verbs": verbs, "selector": selector})
}

fn bound_resource(resource: &Resource) -> Value {
    let versions: Vec<&str> = resource.versions.iter().map(|version| &*version.name).collect();
    json!({
        "group": *resource.group, "resource": *resource.plural, "storageVersions": [*resource.storage_version],
        "schema": {"name": resource.qualified(), "versions": versions},
    })
}
