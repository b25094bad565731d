//! One cluster, reached through a connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::RequestError;
use crate::backoff::{Backoff, Jitter};
use crate::connection::Connection;
use crate::environment::Reporter;
use crate::identity::cluster_identity;
use crate::registry::{ClusterSpec, ClustersOf, ProviderEvent, WatchScope};
use sync_engine_mapping::object::ClusterName;

const BACKOFF: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(15) };
/// How often we look whether the address still leads to the same cluster, though nothing speaks against it.
const LOOK_AGAIN: Duration = Duration::from_secs(300);

/// Describes the cluster of one connection, under the provider's own name.
#[derive(Clone)]
pub struct KubeconfigProvider {
    pub(super) connection: Arc<Connection>,
    pub(super) name: ClusterName,
}

impl KubeconfigProvider {
    /// What the connection leads to now.
    async fn look(&self) -> Result<ClusterSpec, RequestError> {
        let endpoint = self.connection.endpoint();
        let identity = cluster_identity(&endpoint).await?;
        let endpoint = endpoint.leading_to(&identity);
        let scope = WatchScope { endpoint: endpoint.clone(), clusters: ClustersOf::One(self.name.clone()) };
        Ok(ClusterSpec::new(self.name.clone(), identity, endpoint, scope))
    }

    /// Tells which cluster the connection leads to, or why that cannot be told, now and whenever it was doubtful. Ends where
    /// `tell` answers that nobody listens.
    pub(super) async fn follow<F: Future<Output = bool> + Send>(
        &self,
        tell: impl Fn(Result<ClusterSpec, String>) -> F + Send,
    ) {
        let mut doubts = self.connection.identity().doubts();
        let mut jitter = Jitter::of(self.name.as_str());
        let mut failures = 0;
        loop {
            // Before the address is read: what becomes doubtful during the look is looked at again.
            let as_of = doubts.catch_up();
            let found = self.look().await.map_err(|error| advice(&error));
            let outcome = found.as_ref().map(|spec| spec.identity.clone()).map_err(String::clone);
            failures = if found.is_ok() { 0 } else { failures + 1 };
            if !tell(found).await {
                return;
            }
            self.connection.identity().confirm(as_of, outcome);
            let pause = if failures == 0 { LOOK_AGAIN } else { BACKOFF.delay(failures - 1, &mut jitter) };
            // Cancel-safe: a doubt that comes meanwhile is kept.
            let _ = timeout(pause, doubts.advanced()).await;
        }
    }

    /// The cluster is applied once it is known which one it is, and whenever it is another. One that does not answer stays
    /// as it was described: losing sight of a cluster does not end it. Without a condition, whoever uses the cluster reports
    /// what is known of its identity.
    pub(super) async fn run(self, condition: Option<Reporter>, events: mpsc::Sender<ProviderEvent>) {
        let report = |state| condition.as_ref().map(|condition| condition.report(state));
        let tell = |found: Result<ClusterSpec, String>| {
            report(found.as_ref().map(|_| ()).map_err(String::clone));
            describe(&events, found.ok())
        };
        self.follow(tell).await;
    }
}

/// Whether somebody still listens.
async fn describe(events: &mpsc::Sender<ProviderEvent>, spec: Option<ClusterSpec>) -> bool {
    let Some(spec) = spec else { return true };
    let identity = ProviderEvent::Identity(spec.identity.clone());
    for event in [ProviderEvent::Apply(Arc::new(spec)), identity, ProviderEvent::Synced] {
        if events.send(event).await.is_err() {
            return false;
        }
    }
    true
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
