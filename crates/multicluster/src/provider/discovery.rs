//! How providers find clusters: they watch collections in the newest version that is served, look, and wait for a change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::permit::{Epoch, Follower};
use crate::registry::{ClustersOf, WatchScope};
use crate::watch::{Selectors, Watch, WatchState, Watches};
use crate::{Endpoint, Object, Subscription};
use sync_engine_mapping::Resource;
use sync_engine_mapping::object::{ClusterName, Key};

/// How long after a change it is looked at: changes come in groups, and a file is often written in several steps.
const SETTLE: Duration = Duration::from_millis(250);

/// How often is looked at what tells no change: a file, or what a program says.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How often is looked at objects of which every change is told: for what no event tells.
pub(super) const LOOK_AGAIN_AT_OBJECTS: Duration = Duration::from_secs(600);

/// What the one cluster behind the address of a hub or of a workspace is called in the keys of objects.
const HOME: &str = "home";

/// A collection, followed in the newest version that is served. What it tells is as of the last [`look`](Self::look).
pub(super) struct Collection {
    /// Those of all providers.
    watches: Arc<Watches>,
    scope: WatchScope,
    versions: Vec<Resource>,
    selectors: Selectors,
    /// The first versions: an older one is followed while no newer one is served.
    followed: Vec<Followed>,
    /// Which of them was synced last.
    known: usize,
    touched: Arc<Mutex<BTreeSet<ClusterName>>>,
    /// Advances with each change of an object.
    changed: Epoch,
    seen: Follower,
}

struct Followed {
    watch: Arc<Watch>,
    changes: Follower,
    state: WatchState,
    _subscription: Subscription,
}

impl Collection {
    /// Follows a collection; its versions are given newest first. Must be called within a Tokio runtime.
    pub(super) fn follow(
        watches: &Arc<Watches>,
        scope: WatchScope,
        versions: &[Resource],
        selectors: Selectors,
    ) -> Self {
        let (watches, versions, touched, changed) =
            (watches.clone(), versions.to_vec(), Arc::default(), Epoch::default());
        let (followed, seen) = (Vec::new(), changed.follow());
        let mut collection = Self { watches, scope, versions, selectors, followed, known: 0, touched, changed, seen };
        collection.follow_next();
        collection
    }

    /// Takes the states of the watches. What changes after that ends the next wait.
    pub(super) fn look(&mut self) {
        self.seen.catch_up();
        for one in &mut self.followed {
            one.changes.catch_up();
            one.state = one.watch.state();
        }
        while self.followed.iter().all(|one| one.state == WatchState::NotServed)
            && self.followed.len() < self.versions.len()
        {
            self.follow_next();
        }
        let synced = self.followed.iter().position(|one| one.state == WatchState::Synced);
        if let Some(at) = synced.filter(|at| *at != self.known) {
            // The other version may have shown what this one does not.
            touch(&self.touched, self.store_keys());
            self.known = at;
        }
        self.followed.truncate(synced.map_or(self.followed.len(), |at| at + 1));
    }

    fn follow_next(&mut self) {
        let Some(resource) = self.versions.get(self.followed.len()) else { return };
        let watch = self.watches.acquire(&self.scope, resource, &self.selectors);
        let (touched, changed) = (self.touched.clone(), self.changed.clone());
        let subscription = watch.store().subscribe(move |change| {
            touch(&touched, [change.key.clone()]);
            changed.advance();
        });
        // Another provider may have opened it before.
        touch(&self.touched, watch.store().keys());
        let (changes, state) = (watch.changes(), watch.state());
        self.followed.push(Followed { watch, changes, state, _subscription: subscription });
    }

    /// The state of the version that tells most.
    pub(super) fn state(&self) -> &WatchState {
        let rank = |state: &&WatchState| match state {
            WatchState::Synced => 0,
            WatchState::Failed { .. } => 1,
            WatchState::Starting => 2,
            WatchState::NotServed => 3,
        };
        self.followed.iter().map(|one| &one.state).min_by_key(rank).unwrap_or(&WatchState::Starting)
    }

    pub(super) fn is_synced(&self) -> bool {
        *self.state() == WatchState::Synced
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.scope.endpoint
    }

    /// Clusters of which something changed since the last call.
    pub(super) fn take_touched(&self) -> BTreeSet<ClusterName> {
        std::mem::take(&mut *self.touched.lock())
    }

    /// An object of the home that has no namespace.
    pub(super) fn get(&self, name: &str) -> Option<Arc<Object>> {
        let ClustersOf::One(home) = &self.scope.clusters else { return None };
        self.watch()?.store().get(&Key::new(home.clone(), "", name))
    }

    /// Objects of a cluster.
    pub(super) fn of_cluster(&self, cluster: &ClusterName) -> Vec<Arc<Object>> {
        let objects = self.watch().map(|watch| watch.store().of_cluster(cluster)).unwrap_or_default();
        objects.into_iter().map(|(_, object)| object).collect()
    }

    /// Every object.
    pub(super) fn all(&self) -> impl Iterator<Item = Arc<Object>> {
        self.store_keys().into_iter().filter_map(|key| self.watch()?.store().get(&key))
    }

    fn store_keys(&self) -> Vec<Key> {
        self.watch().map(|watch| watch.store().keys()).unwrap_or_default()
    }

    fn watch(&self) -> Option<&Arc<Watch>> {
        self.followed.get(self.known).map(|one| &one.watch)
    }

    /// The objects, once they are known. `what` is missing where the hub serves no version. Cancel-safe.
    ///
    /// # Errors
    /// Why they cannot be told.
    pub(super) async fn objects(&mut self, what: &str) -> Result<Vec<Value>, String> {
        loop {
            self.look();
            match self.state() {
                WatchState::Synced => return Ok(self.all().filter_map(|object| object.value().ok()).collect()),
                WatchState::Failed { reason, code, .. } => {
                    let advice =
                        if *code == Some(403) { "; `sync-engine rbac` prints the rights that are needed" } else { "" };
                    return Err(format!("{reason}{advice}"));
                }
                WatchState::NotServed => return Err(format!("the hub serves no {what}")),
                WatchState::Starting => self.changed().await,
            }
        }
    }

    /// Waits until an object or the state of a watch is not as it was seen.
    async fn changed(&mut self) {
        let states = self.followed.iter_mut().map(|one| Box::pin(one.changes.advanced()));
        tokio::select! {
            biased;
            // Cancel-safe: what is not seen yet ends the next wait.
            () = self.seen.advanced() => {}
            _ = select_all(states) => {}
        }
    }
}

/// Waits until one of these has changed.
pub(super) async fn changed<'c>(collections: impl IntoIterator<Item = &'c mut Collection>) {
    select_all(collections.into_iter().map(|one| Box::pin(one.changed()))).await;
}

/// Waits for changes to come to rest, at most as long as this: what is listed may refer to what is another without one.
pub(super) async fn settled(change: impl Future<Output = ()>, at_most: Duration) {
    let _ = timeout(at_most, change).await;
    sleep(SETTLE).await;
}

/// Notes the clusters of these objects.
fn touch(touched: &Mutex<BTreeSet<ClusterName>>, keys: impl IntoIterator<Item = Key>) {
    touched.lock().extend(keys.into_iter().map(|key| key.cluster.clone()));
}

/// The scope of an address that one cluster has for itself.
pub(super) fn home(endpoint: &Endpoint) -> WatchScope {
    let name = ClusterName::try_from(HOME).expect("a DNS label");
    WatchScope { endpoint: endpoint.clone(), clusters: ClustersOf::One(name) }
}

/// A failure in words; where rights are missing, which.
pub(super) fn refusal(state: &WatchState, needed: impl FnOnce() -> String) -> Option<String> {
    match state {
        WatchState::Failed { reason, code: Some(403), .. } => {
            Some(format!("{reason}; let the engine's user {}", needed()))
        }
        WatchState::Failed { reason, .. } => Some(reason.clone()),
        WatchState::Starting | WatchState::Synced | WatchState::NotServed => None,
    }
}

/// An object as a document; what another version of kcp writes differently is as good as absent: the condition says what is
/// missing.
pub(super) fn parsed<T: DeserializeOwned>(object: &Object) -> Option<T> {
    serde_json::from_str(&object.json()).ok()
}
