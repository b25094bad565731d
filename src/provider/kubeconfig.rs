//! One cluster, reached through a connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::multicluster::RequestError;
use crate::multicluster::backoff::{Backoff, Jitter};
use crate::multicluster::connection::Connection;
use crate::multicluster::environment::{Provider, Reporter};
use crate::multicluster::identity::cluster_identity;
use crate::multicluster::registry::{ClusterSpec, ClustersOf, ProviderEvent, WatchScope};
use crate::object::ClusterName;

const BACKOFF: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(15) };
/// How often we look whether the address still leads to the same cluster, though nothing speaks against it.
const LOOK_AGAIN: Duration = Duration::from_secs(300);

/// Describes the cluster of one connection, under the provider's own name.
pub struct KubeconfigProvider {
    connection: Arc<Connection>,
    name: ClusterName,
    condition: Option<Reporter>,
}

impl KubeconfigProvider {
    /// Without a condition, whoever uses the cluster reports what is known of its identity.
    ///
    /// # Errors
    /// A name that no cluster can have.
    pub fn new(connection: Arc<Connection>, name: &str, condition: Option<Reporter>) -> Result<Self, String> {
        let name = ClusterName::try_from(name).map_err(|error| error.to_string())?;
        Ok(Self { connection, name, condition })
    }

    /// What the connection leads to now.
    async fn look(&self) -> Result<ClusterSpec, RequestError> {
        let endpoint = self.connection.endpoint();
        let identity = cluster_identity(&endpoint).await?;
        let endpoint = endpoint.leading_to(&identity);
        let scope = WatchScope { endpoint: endpoint.clone(), clusters: ClustersOf::One(self.name.clone()) };
        Ok(ClusterSpec { name: self.name.clone(), identity, path: None, endpoint, scope, claims: None })
    }

    fn report(&self, state: Result<(), String>) {
        if let Some(condition) = &self.condition {
            condition.report(state);
        }
    }
}

impl Provider for KubeconfigProvider {
    /// The cluster is applied once it is known which one it is, and whenever it is another. One that does not answer stays
    /// as it was described: losing sight of a cluster does not end it.
    async fn run(self, events: mpsc::Sender<ProviderEvent>) {
        let mut doubts = self.connection.identity().doubts();
        let mut jitter = Jitter::new(self.name.as_str().len() as u64);
        let mut failures = 0;
        loop {
            // Before the address is read: what becomes doubtful during the look is looked at again.
            let as_of = *doubts.borrow_and_update();
            let pause = match self.look().await {
                Ok(spec) => {
                    failures = 0;
                    self.report(Ok(()));
                    let identity = spec.identity.clone();
                    let described = [
                        ProviderEvent::Apply(Box::new(spec)),
                        ProviderEvent::Identity(identity.clone()),
                        ProviderEvent::Synced,
                    ];
                    for event in described {
                        if events.send(event).await.is_err() {
                            return;
                        }
                    }
                    self.connection.identity().confirm(as_of, Ok(identity));
                    LOOK_AGAIN
                }
                Err(error) => {
                    self.report(Err(advice(&error)));
                    self.connection.identity().confirm(as_of, Err(advice(&error)));
                    failures += 1;
                    BACKOFF.delay(failures - 1, &mut jitter)
                }
            };
            // Cancel-safe: a doubt that comes meanwhile is kept.
            let _ = timeout(pause, doubts.changed()).await;
        }
    }
}

/// What is wrong, and what to do about it.
fn advice(error: &RequestError) -> String {
    match error.code() {
        Some(403) => format!(
            "{error}; let the engine's user get the namespaces `kube-system` and `default`, and in a kcp workspace the LogicalCluster `cluster`; `sync-engine rbac` prints these rights"
        ),
        _ => error.to_string(),
    }
}
