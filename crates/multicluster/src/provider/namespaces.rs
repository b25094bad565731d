//! Each namespace of a cluster as a cluster of its own, for tests.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::pending;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::discovery::{Collection, LOOK_AGAIN_AT_OBJECTS, changed, home, settled};
use super::hub;
use super::kubeconfig::KubeconfigProvider;
use crate::environment::Reporter;
use crate::registry::{ClusterSpec, ClustersOf, ProviderEvent, Reason, WatchScope};
use crate::watch::{Selectors, Watches};
use sync_engine_mapping::object::{ClusterName, metadata};
use sync_engine_mapping::{Resource, Selector};

/// Describes the namespaces of one connection's cluster that a selector finds.
pub struct NamespacesProvider {
    /// The cluster, under the name of the `ClusterProvider`.
    pub(super) whole: KubeconfigProvider,
    pub(super) selector: Selector,
    pub(super) condition: Reporter,
    pub(super) watches: Arc<Watches>,
}

/// The cluster that has the namespaces, or why it is not known; `None` before the first answer.
type Found = Option<Result<ClusterSpec, String>>;

impl NamespacesProvider {
    async fn describe(&self, mut whole: watch::Receiver<Found>, events: mpsc::Sender<ProviderEvent>) {
        // The set may change as it likes: ownership goes by the identity of each namespace.
        if events.send(ProviderEvent::Identity(format!("fleet/{}", self.whole.name))).await.is_err() {
            return;
        }
        let mut described = BTreeSet::new();
        let mut followed: Option<(ClusterSpec, Collection)> = None;
        loop {
            match whole.borrow_and_update().clone() {
                // Another cluster has other namespaces, also where they have the same names.
                Some(Ok(found)) if followed.as_ref().is_none_or(|(known, _)| *known != found) => {
                    let (home, namespaces) = (home(&found.endpoint), Resource::new("", "v1", "namespaces"));
                    let selectors = Selectors { label: self.selector.to_string(), ..Selectors::default() };
                    let namespaces = Collection::follow(&self.watches, home, &[namespaces], selectors);
                    followed = Some((found, namespaces));
                }
                Some(Err(why)) => self.condition.report(Err(why)),
                Some(Ok(_)) | None => {}
            }
            let look = async {
                match &mut followed {
                    Some((cluster, namespaces)) => (&*cluster, namespaces.objects("namespaces").await),
                    None => pending().await,
                }
            };
            let (cluster, listed) = tokio::select! {
                biased;
                // Cancel-safe: the value stays marked until it is read.
                changed = whole.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                found = look => found,
            };
            // A cluster that is not confirmed has its own words in the condition.
            if matches!(&*whole.borrow(), Some(Ok(_))) {
                self.condition.report(listed.as_ref().map(|_| ()).map_err(String::clone));
            }
            let mut news = Vec::new();
            if let Ok(listed) = listed {
                let clusters = clusters_of(cluster, &listed);
                let names: BTreeSet<_> = clusters.iter().map(|cluster| cluster.name.clone()).collect();
                let former = std::mem::replace(&mut described, names);
                let gone = former.difference(&described).cloned();
                news.extend(gone.map(|name| ProviderEvent::Gone(name, Reason::Removed)));
                // What is as before is no news to the registry.
                news.extend(clusters.into_iter().map(|cluster| ProviderEvent::Apply(Arc::new(cluster))));
                news.push(ProviderEvent::Synced);
            }
            for event in news {
                if events.send(event).await.is_err() {
                    return;
                }
            }
            if let Some((_, namespaces)) = &mut followed {
                tokio::select! {
                    biased;
                    // Cancel-safe: the value stays marked until it is read.
                    _ = whole.changed() => whole.mark_changed(),
                    () = settled(changed([namespaces]), LOOK_AGAIN_AT_OBJECTS) => {}
                }
            }
        }
    }

    pub(super) async fn run(self, events: mpsc::Sender<ProviderEvent>) {
        let (send, receive) = watch::channel(None);
        let tell = |found| {
            send.send_replace(Some(found));
            std::future::ready(!send.is_closed())
        };
        tokio::join!(self.whole.follow(tell), self.describe(receive, events));
    }
}

/// A namespace is known by its uid, in the cluster that it is in: one that is created again is another cluster.
fn clusters_of(whole: &ClusterSpec, namespaces: &[Value]) -> Vec<ClusterSpec> {
    let scope = WatchScope { endpoint: whole.endpoint.clone(), clusters: ClustersOf::Namespaces };
    let cluster = |namespace: &Value| {
        let name = ClusterName::try_from(metadata(namespace, "name")).ok()?;
        let identity = format!("{}.{}", whole.identity, metadata(namespace, "uid"));
        let endpoint = whole.endpoint.clone().within(name.as_str());
        let (scope, traits) = (scope.clone(), hub::traits(namespace));
        Some(ClusterSpec { name, identity, endpoint, scope, traits, ..whole.clone() })
    };
    namespaces.iter().filter_map(cluster).collect()
}
