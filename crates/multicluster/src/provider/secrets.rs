//! Kubeconfigs in Secrets of a hub: of the Secrets that a selector finds, or of the Clusters of Cluster API.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::discovery::{Collection, LOOK_AGAIN_AT_OBJECTS, changed, home, settled};
use super::hub::{self, HeldKubeconfigs, Member, of_secret};
use crate::Endpoint;
use crate::environment::{Listed, Members};
use crate::watch::{Selectors, Watches};
use sync_engine_mapping::Resource;
use sync_engine_mapping::document::{HubSpec, KubeconfigSecretsSpec};
use sync_engine_mapping::object::{ClusterName, metadata};

/// Cluster API's contract: a Secret that carries this label has the kubeconfig under this key. Other Secrets of a cluster carry
/// it too.
const OF_CLUSTER_API: &str = "cluster.x-k8s.io/cluster-name";
const KEY_OF_CLUSTER_API: &str = "value";
const ENDING_OF_CLUSTER_API: &str = "-kubeconfig";

/// Each Secret of one namespace that a selector finds and that has a kubeconfig.
pub struct KubeconfigSecrets {
    secrets: Collection,
    key: String,
    held: HeldKubeconfigs,
}

/// Every `Cluster` of Cluster API that was provisioned.
pub struct ClusterApi {
    clusters: Collection,
    secrets: Collection,
    held: HeldKubeconfigs,
}

impl KubeconfigSecrets {
    pub fn new(hub: &Endpoint, of: &KubeconfigSecretsSpec, watches: &Arc<Watches>) -> Self {
        let (label, namespace) = (of.selector.to_string(), of.namespace.clone());
        let secrets = secrets(hub, Selectors { label, namespace, ..Selectors::default() }, watches);
        Self { secrets, key: of.key.clone(), held: HeldKubeconfigs::default() }
    }
}

impl Members for KubeconfigSecrets {
    async fn look(&mut self) -> Result<Listed, String> {
        let mut members = Vec::new();
        for secret in self.secrets.objects("Secrets").await? {
            let Ok(name) = ClusterName::try_from(metadata(&secret, "name")) else { continue };
            // The selector may find Secrets that are none of the fleet's.
            if secret["data"][&self.key].is_null() && !self.held.has(&name) {
                continue;
            }
            let (traits, kubeconfig) = (hub::traits(&secret), of_secret(&secret, &self.key));
            members.push(Ok(Member { name, traits, kubeconfig }));
        }
        Ok(self.held.list(members))
    }

    async fn changed(&mut self) {
        settled(changed([&mut self.secrets]), LOOK_AGAIN_AT_OBJECTS).await;
    }
}

impl ClusterApi {
    pub fn new(hub: &Endpoint, of: &HubSpec, watches: &Arc<Watches>) -> Self {
        // Cluster API 1.11 brought the newest version, and older ones serve only the second.
        let versions = ["v1beta2", "v1beta1"].map(|version| Resource::new("cluster.x-k8s.io", version, "clusters"));
        let (label, ending) = (OF_CLUSTER_API.to_owned(), ENDING_OF_CLUSTER_API.to_owned());
        let secrets = secrets(hub, Selectors { label, ending, ..hub::selectors(of) }, watches);
        let clusters = Collection::follow(watches, home(hub), &versions, hub::selectors(of));
        Self { clusters, secrets, held: HeldKubeconfigs::default() }
    }
}

impl Members for ClusterApi {
    async fn look(&mut self) -> Result<Listed, String> {
        let clusters = self.clusters.objects("Clusters of Cluster API (cluster.x-k8s.io)").await?;
        let secrets = self.secrets.objects("Secrets").await?;
        let place = |secret: &Value| (metadata(secret, "namespace").to_owned(), metadata(secret, "name").to_owned());
        let secrets: BTreeMap<_, _> = secrets.iter().map(|secret| (place(secret), secret)).collect();
        // Its Secret goes before the Cluster itself is gone.
        let kubeconfig = |cluster: &Value| {
            let (namespace, name) = place(cluster);
            let secret = (namespace, format!("{name}{ENDING_OF_CLUSTER_API}"));
            let (namespace, name_of_secret) = &secret;
            let missing = || format!("there is no Secret {namespace}/{name_of_secret} with the label {OF_CLUSTER_API}");
            let kubeconfig = secrets.get(&secret).ok_or_else(missing);
            let kubeconfig = kubeconfig.and_then(|secret| of_secret(secret, KEY_OF_CLUSTER_API));
            kubeconfig.map_err(|why| format!("Cluster {namespace}/{name}: {why}"))
        };
        let member =
            |cluster: &Value| self.held.member(cluster, is_up(cluster), || (hub::traits(cluster), kubeconfig(cluster)));
        let members = clusters.iter().filter_map(member).collect();
        Ok(self.held.list(members))
    }

    async fn changed(&mut self) {
        settled(changed([&mut self.clusters, &mut self.secrets]), LOOK_AGAIN_AT_OBJECTS).await;
    }
}

fn secrets(hub: &Endpoint, selectors: Selectors, watches: &Arc<Watches>) -> Collection {
    Collection::follow(watches, home(hub), &[Resource::new("", "v1", "secrets")], selectors)
}

/// Whether its API server was reachable once. One that is being deleted has sources whose finalizers the engine holds.
fn is_up(cluster: &Value) -> bool {
    matches!(cluster["status"]["phase"].as_str(), Some("Provisioned" | "Deleting"))
}
