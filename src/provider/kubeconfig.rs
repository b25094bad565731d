//! One plain cluster, reached through a connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::multicluster::RequestError;
use crate::multicluster::backoff::{Backoff, Jitter};
use crate::multicluster::connection::Connection;
use crate::multicluster::environment::{Provider, Reporter};
use crate::multicluster::identity::cluster_identity;
use crate::multicluster::registry::{ClusterSpec, ClustersOf, ProviderEvent, WatchScope};
use crate::object::ClusterName;

const BACKOFF: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(30) };
/// How often we look whether the address still leads to the same cluster.
const LOOK_AGAIN: Duration = Duration::from_secs(300);

/// Describes the cluster of one connection, under the provider's own name.
pub struct KubeconfigProvider {
    connection: Arc<Connection>,
    name: ClusterName,
    condition: Reporter,
}

impl KubeconfigProvider {
    pub fn new(connection: Arc<Connection>, name: &str, condition: Reporter) -> Result<Self, String> {
        let name = ClusterName::try_from(name).map_err(|error| error.to_string())?;
        Ok(Self { connection, name, condition })
    }

    fn spec(&self) -> ClusterSpec {
        let endpoint = self.connection.endpoint();
        let scope = WatchScope { endpoint: endpoint.clone(), clusters: ClustersOf::One(self.name.clone()) };
        ClusterSpec { name: self.name.clone(), path: None, endpoint, scope }
    }
}

impl Provider for KubeconfigProvider {
    /// The cluster is applied at once, whether it answers or not; its identity follows when it does.
    async fn run(self, events: mpsc::Sender<ProviderEvent>) {
        let spec = self.spec();
        let endpoint = spec.endpoint.clone();
        let mut jitter = Jitter::new(self.name.as_str().len() as u64);
        let mut failures = 0;
        let described = [ProviderEvent::Apply(spec), ProviderEvent::Synced];
        for event in described {
            if events.send(event).await.is_err() {
                return;
            }
        }
        loop {
            let pause = match cluster_identity(&endpoint).await {
                Ok(identity) => {
                    failures = 0;
                    self.condition.report(Ok(()));
                    if events.send(ProviderEvent::Identity(identity)).await.is_err() {
                        return;
                    }
                    LOOK_AGAIN
                }
                Err(error) => {
                    self.condition.report(Err(advice(&error)));
                    failures += 1;
                    BACKOFF.delay(failures - 1, &mut jitter)
                }
            };
            sleep(pause).await;
        }
    }
}

/// What is wrong, and what to do about it.
fn advice(error: &RequestError) -> String {
    match error.code() {
        Some(403) => format!("{error}; let the engine's user get the namespaces `kube-system` and `default`"),
        _ => error.to_string(),
    }
}
