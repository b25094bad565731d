//! The clusters of Cluster API.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::hub;
use super::hub::{Collection, Holding, Kubeconfig, member_of, of_secret};
use super::secrets::secrets;
use crate::connection::Connection;
use crate::environment::{Listed, Members};
use crate::watch::Selectors;
use crate::{ApiPath, RequestError};
use sync_engine_mapping::object::{ClusterName, metadata};
use sync_engine_mapping::{Resource, Selector};

/// How often the kubeconfigs are read: Cluster API renews them long before they end, and nothing at the Cluster tells it.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The key of a `<cluster>-kubeconfig` Secret (Cluster API's contract for kubeconfigs).
const KEY: &str = "value";

/// Every `Cluster` of a hub that was provisioned.
pub struct ClusterApi {
    hub: Arc<Connection>,
    clusters: Collection,
    holding: Holding,
    /// When the kubeconfig of each cluster was read, and at which version of its Cluster. An event of one Cluster reads one Secret.
    read: BTreeMap<ClusterName, (String, Instant)>,
}

/// Newest version first: Cluster API 1.11 brought the first, and older ones serve only the second.
pub(super) fn clusters() -> [Resource; 2] {
    ["v1beta2", "v1beta1"].map(|version| Resource {
        group: "cluster.x-k8s.io".into(),
        version: version.into(),
        plural: "clusters".into(),
    })
}

impl ClusterApi {
    pub fn new(hub: &Arc<Connection>, namespace: &str, selector: &Selector) -> Result<Self, String> {
        let selectors =
            Selectors { label: selector.to_string(), namespace: namespace.to_owned(), ..Selectors::default() };
        let clusters = Collection::follow(hub, "Clusters of Cluster API (cluster.x-k8s.io)", &clusters(), &selectors)?;
        Ok(Self { hub: hub.clone(), clusters, holding: Holding::default(), read: BTreeMap::new() })
    }

    async fn kubeconfig(&self, namespace: &str, name: &str) -> Result<Kubeconfig, String> {
        let secret = self.secret(namespace, &format!("{name}-kubeconfig")).await;
        of_secret(&secret.map_err(|error| error.to_string())?, KEY)
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Value, RequestError> {
        let endpoint = self.hub.endpoint();
        let reply = endpoint.get(&ApiPath::object(&secrets(), namespace, name)?).await?;
        serde_json::from_slice(&reply.body)
            .map_err(|error| RequestError::Body { url: endpoint.url().to_owned(), reason: error.to_string() })
    }
}

impl Members for ClusterApi {
    async fn look(&mut self) -> Result<Listed, String> {
        let (mut found, mut refused, mut traits) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        for cluster in self.clusters.objects().await? {
            let [namespace, name] = ["namespace", "name"].map(|field| metadata(&cluster, field));
            let Some(member) = member_of(&cluster) else { continue };
            if !is_up(&cluster) && !self.holding.has(&member) {
                continue;
            }
            traits.insert(member.clone(), hub::traits(&cluster));
            let version = metadata(&cluster, "resourceVersion");
            let is_read = |(read, at): &(String, Instant)| read == version && at.elapsed() < LOOK_AGAIN;
            if let Some(kept) = self.read.get(&member).filter(|read| is_read(read)).and(self.holding.kept(&member)) {
                found.insert(member, kept);
                continue;
            }
            match self.kubeconfig(namespace, name).await {
                Ok(kubeconfig) => {
                    self.read.insert(member.clone(), (version.to_owned(), Instant::now()));
                    found.insert(member, kubeconfig);
                }
                Err(why) => {
                    refused.push(format!("Cluster {namespace}/{name}: {why}"));
                    // Its Secret goes before it does: it stays what it was until the Cluster itself is gone.
                    if let Some(kept) = self.holding.kept(&member) {
                        found.insert(member, kept);
                    }
                }
            }
        }
        self.read.retain(|member, _| found.contains_key(member));
        Ok(self.holding.list(found, refused, traits))
    }

    async fn changed(&mut self) {
        self.clusters.changed(LOOK_AGAIN).await;
    }
}

/// Whether its API server was reachable once. One that is being deleted has sources whose finalizers the engine holds.
fn is_up(cluster: &Value) -> bool {
    matches!(cluster["status"]["phase"].as_str(), Some("Provisioned" | "Deleting"))
}
