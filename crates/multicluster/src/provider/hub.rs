//! Kubeconfigs that objects of a hub cluster hold or stand for.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::connection::{ConnectionSource, Held};
use crate::environment::Listed;
use crate::watch::Selectors;
use sync_engine_mapping::Traits;
use sync_engine_mapping::document::HubSpec;
use sync_engine_mapping::object::{ClusterName, decoded, metadata};

/// The kubeconfigs that a hub holds, by the names of their clusters.
#[derive(Default)]
pub(super) struct HeldKubeconfigs(BTreeMap<ClusterName, Held>);

/// A cluster that a hub lists, and its kubeconfig or why there is none.
pub(super) struct Member {
    pub(super) name: ClusterName,
    pub(super) traits: Traits,
    pub(super) kubeconfig: Result<Held, String>,
}

impl HeldKubeconfigs {
    /// Exactly these are members now; the others cannot be. What was read of one last stays in use where it cannot be read now.
    pub(super) fn list(&mut self, members: Vec<Result<Member, String>>) -> Listed {
        let mut former = std::mem::take(&mut self.0);
        let (mut refused, mut traits) = (Vec::new(), BTreeMap::new());
        for member in members {
            let Ok(member) = member.map_err(|why| refused.push(why)) else { continue };
            let Member { name, traits: its_own, kubeconfig } = member;
            let held = match (kubeconfig, former.remove(&name)) {
                (Ok(now), Some(held)) => {
                    held.replace(now.text());
                    Some(held)
                }
                (Ok(now), None) => Some(now),
                (Err(why), held) => {
                    refused.push(why);
                    held
                }
            };
            self.0.extend(held.map(|held| (name.clone(), held)));
            traits.insert(name, its_own);
        }
        let source = |held: &Held| ConnectionSource::Held { kubeconfig: held.clone(), context: None };
        let members = self.0.iter().map(|(name, held)| (name.clone(), source(held))).collect();
        Listed { members, refused, traits }
    }

    pub(super) fn has(&self, name: &ClusterName) -> bool {
        self.0.contains_key(name)
    }

    /// The cluster that a namespaced object stands for; `None`: it is not up, and never was. One that was has sources whose
    /// finalizers the engine holds. A namespace has no dots, so no two clusters get one name.
    pub(super) fn member(
        &self,
        object: &Value,
        is_up: bool,
        describe: impl FnOnce() -> (Traits, Result<Held, String>),
    ) -> Option<Result<Member, String>> {
        let name = format!("{}.{}", metadata(object, "namespace"), metadata(object, "name"));
        let name = match ClusterName::try_from(name) {
            Ok(name) => Some(name).filter(|name| is_up || self.has(name))?,
            Err(error) => return Some(Err(error.to_string())),
        };
        let (traits, kubeconfig) = describe();
        Some(Ok(Member { name, traits, kubeconfig }))
    }
}

/// What selects the objects of a hub.
pub(super) fn selectors(of: &HubSpec) -> Selectors {
    let namespace = of.namespace.clone().unwrap_or_default();
    Selectors { label: of.selector.to_string(), namespace, ..Selectors::default() }
}

/// The kubeconfig in a key of a Secret.
///
/// # Errors
/// It holds none.
pub(super) fn of_secret(secret: &Value, key: &str) -> Result<Held, String> {
    let origin = format!("Secret {}/{}", metadata(secret, "namespace"), metadata(secret, "name"));
    let encoded = secret["data"][key].as_str().ok_or_else(|| format!("{origin} has no key `{key}`"))?;
    match decoded(encoded) {
        Some(text) if !text.is_empty() => Ok(Held::new(origin, text)),
        _ => Err(format!("key `{key}` of {origin} holds no text")),
    }
}

/// What an object tells of the cluster that it stands for: its labels.
pub(super) fn traits(object: &Value) -> Traits {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    Traits { labels: Some(labels.into_iter().flatten().filter_map(text).collect()), properties: None }
}
