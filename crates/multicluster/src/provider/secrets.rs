//! Kubeconfigs in Secrets of a hub.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::hub;
use super::hub::{Collection, Holding, of_secret};
use crate::connection::Connection;
use crate::environment::{Listed, Members};
use crate::watch::Selectors;
use sync_engine_mapping::object::ClusterName;
use sync_engine_mapping::{Resource, Selector};

/// Every change of a Secret is told; this is for what no event tells.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

/// The Secrets of one namespace that a selector finds, each with a kubeconfig.
pub struct KubeconfigSecrets {
    secrets: Collection,
    key: String,
    holding: Holding,
}

pub(super) fn secrets() -> Resource {
    Resource { group: String::new(), version: "v1".into(), plural: "secrets".into() }
}

impl KubeconfigSecrets {
    pub fn new(hub: &Arc<Connection>, namespace: &str, selector: &Selector, key: &str) -> Result<Self, String> {
        let selectors =
            Selectors { label: selector.to_string(), namespace: namespace.to_owned(), ..Selectors::default() };
        let secrets = Collection::follow(hub, "Secrets", &[secrets()], &selectors)?;
        Ok(Self { secrets, key: key.to_owned(), holding: Holding::default() })
    }
}

impl Members for KubeconfigSecrets {
    async fn look(&mut self) -> Result<Listed, String> {
        let (mut found, mut refused, mut traits) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        for secret in self.secrets.objects().await? {
            let name = ClusterName::try_from(secret["metadata"]["name"].as_str().unwrap_or_default());
            let Ok(name) = name else { continue };
            if secret["data"][&self.key].is_null() && !self.holding.has(&name) {
                // The selector may find Secrets that are none of the fleet's.
                continue;
            }
            traits.insert(name.clone(), hub::traits(&secret));
            let kubeconfig = of_secret(&secret, &self.key).or_else(|why| {
                refused.push(why);
                // A Secret that is edited badly is no reason to lose its cluster.
                self.holding.kept(&name).ok_or(())
            });
            if let Ok(kubeconfig) = kubeconfig {
                found.insert(name, kubeconfig);
            }
        }
        Ok(self.holding.list(found, refused, traits))
    }

    async fn changed(&mut self) {
        self.secrets.changed(LOOK_AGAIN).await;
    }
}
