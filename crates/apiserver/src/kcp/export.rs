//! APIResourceSchema and APIExport.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::builtin::APIS;
use super::super::collection::Key;
use super::super::definition;
use super::super::options::Propagation;
use super::super::request::Place;
use super::super::resource::Resource;
use super::super::settle::Touched;
use super::super::state::State;
use super::{Export, set_condition, short_hash};

impl State {
    /// A schema that came may be one that an export waits for.
    pub(crate) fn settle_schema(&mut self, key: &Key) {
        let Some(exports) = self.builtin(APIS, "apiexports") else { return };
        let waiting = self.keys_of(&exports, &key.cluster, None);
        self.touched.extend(waiting.into_iter().map(Touched::Export));
    }

    /// Publishes what an export offers.
    pub(crate) fn settle_export(&mut self, key: &Key) {
        let Some(exports) = self.builtin(APIS, "apiexports") else { return };
        let Some(slices) = self.builtin(APIS, "apiexportendpointslices") else { return };
        let identity = identity(key);
        let Some(stored) = self.stored(&exports, key).cloned() else {
            self.exports.published.remove(&*identity);
            self.remove(&slices, key, Propagation::Background);
            self.publish_endpoints(&identity);
            return;
        };
        let object = stored.object();
        let published = Export {
            resources: self.published_resources(&object, key, &identity),
            claims: claims(object["spec"]["permissionClaims"].as_array().into_iter().flatten()),
            clusters: self.exports.published.get(&*identity).map(|export| export.clusters.clone()).unwrap_or_default(),
        };
        let is_news = self.exports.published.get(&*identity).is_none_or(|known| !known.offers_the_same(&published));
        self.exports.published.insert(identity.clone(), published);
        let now = self.now.to_string();
        self.change_own(&exports, key, |object| {
            object["status"]["identityHash"] = short_hash(&format!("identity of {identity}")).into();
            set_condition(object, "IdentityValid", Ok(()), &now);
        });
        if self.stored(&slices, key).is_none() {
            let export = json!({"path": *self.path_of(&key.cluster), "name": *key.name});
            let slice = json!({
                "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice",
                "metadata": {"name": *key.name}, "spec": {"export": export},
            });
            self.add_own(&key.cluster, "", "apiexportendpointslices", slice);
        }
        self.publish_endpoints(&identity);
        if is_news {
            self.touch_bindings(&identity);
        }
    }

    fn published_resources(&self, export: &Value, key: &Key, identity: &str) -> Vec<Arc<Resource>> {
        let Some(schemas) = self.builtin(APIS, "apiresourceschemas") else { return Vec::new() };
        let named = export["spec"]["resources"].as_array().into_iter().flatten();
        let names = named.filter_map(|resource| resource["schema"].as_str());
        let stored = names.filter_map(|name| self.stored(&schemas, &Key::new(&key.cluster, "", name)));
        stored.map(|schema| Arc::new(definition::resource(&schema.object(), identity))).collect()
    }

    /// Everybody who binds the export, and everybody who waits for some export.
    fn touch_bindings(&mut self, identity: &str) {
        let Some(bindings) = self.builtin(APIS, "apibindings") else { return };
        let bound = self.exports.published.get(identity).map(|export| export.clusters.clone()).unwrap_or_default();
        let bound = bound.iter().flat_map(|cluster| self.keys_of(&bindings, cluster, None));
        let touched: Vec<Touched> = bound.chain(self.exports.waiting.iter().cloned()).map(Touched::Binding).collect();
        self.touched.extend(touched);
    }

    /// The identity of the export that an object at `key` refers to, whether that is published or not.
    pub(super) fn referred(&self, reference: &Value, key: &Key) -> Option<Arc<str>> {
        let cluster = match reference["path"].as_str().filter(|path| !path.is_empty()) {
            Some(path) => self.cluster_at(&Place::Cluster(path.to_owned())).ok()?,
            None => key.cluster.clone(),
        };
        Some(identity(&Key::new(&cluster, "", reference["name"].as_str()?)))
    }

    pub(crate) fn path_of(&self, cluster: &str) -> String {
        self.clusters.get(cluster).map(|cluster| cluster.path.clone()).unwrap_or_default()
    }
}

impl Export {
    fn offers_the_same(&self, other: &Export) -> bool {
        let documents = |export: &Export| -> Vec<Value> {
            let versions = export.resources.iter().flat_map(|resource| &resource.versions);
            versions.map(|version| version.document.clone()).collect()
        };
        self.claims == other.claims
            && self.resources.len() == other.resources.len()
            && documents(self) == documents(other)
    }
}

/// `<cluster>/<name>`.
pub(super) fn identity(export: &Key) -> Arc<str> {
    format!("{}/{}", export.cluster, export.name).into()
}

/// Group and resource of permission claims.
pub(super) fn claims<'a>(claims: impl Iterator<Item = &'a Value>) -> BTreeSet<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    claims.map(|claim| (text(&claim["group"]), text(&claim["resource"]))).collect()
}
