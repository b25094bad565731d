//! Where clusters come from: one file a provider. A provider only describes; the manager decides.

use tokio::sync::mpsc;

use crate::multicluster::registry::ProviderEvent;

/// A restartable, level-based stream of cluster descriptions.
pub trait Provider: Send + 'static {
    /// Describes clusters until dropped. Never ends on a server's failure: it says so in its condition and goes on trying.
    fn run(self, events: mpsc::Sender<ProviderEvent>) -> impl Future<Output = ()> + Send;
}
