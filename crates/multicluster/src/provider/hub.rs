//! Objects of a hub cluster that say where other clusters are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::watch::Receiver;
use tokio::time::{sleep, timeout};

use crate::connection::{Connection, ConnectionSource, Held};
use crate::environment::Listed;
use crate::health::Health;
use crate::registry::{ClustersOf, WatchScope};
use crate::watch::{Selectors, Watch, WatchState, Watches};
use crate::{Endpoint, Subscription};
use sync_engine_mapping::object::{ClusterName, metadata};
use sync_engine_mapping::{Resource, Traits};

/// How long after a change the hub is looked at: changes come in groups.
const SETTLE: Duration = Duration::from_millis(250);

/// One collection of a hub, followed in the newest version that the hub serves.
pub(super) struct Collection {
    /// What is missing where none is served.
    what: &'static str,
    /// Newest version first.
    watches: Vec<(Arc<Watch>, Subscription)>,
    /// What was seen of each watch: what changes between a look and the wait for the next one rings too.
    states: Vec<Receiver<WatchState>>,
    wake: Arc<Notify>,
    _running: Arc<Watches>,
}

impl Collection {
    pub(super) fn follow(
        connection: &Arc<Connection>,
        what: &'static str,
        versions: &[Resource],
        selectors: &Selectors,
    ) -> Result<Self, String> {
        Self::at(&connection.endpoint(), what, versions, selectors)
    }

    /// The same at an address.
    pub(super) fn at(
        endpoint: &Endpoint,
        what: &'static str,
        versions: &[Resource],
        selectors: &Selectors,
    ) -> Result<Self, String> {
        // The provider's own condition speaks for its watches.
        let running = Watches::new(Health::default());
        let clusters = ClustersOf::One(ClusterName::try_from("hub").map_err(|error| error.to_string())?);
        let scope = WatchScope { endpoint: endpoint.clone(), clusters };
        let wake = Arc::<Notify>::default();
        let follow = |resource| {
            let (watch, wake) = (running.acquire(&scope, resource, selectors), wake.clone());
            let subscription = watch.store().subscribe(move |_| wake.notify_one());
            (watch, subscription)
        };
        let watches: Vec<_> = versions.iter().map(follow).collect();
        let states = watches.iter().map(|(watch, _)| watch.states()).collect();
        Ok(Self { what, watches, states, wake, _running: running })
    }

    /// The objects, once they are known.
    ///
    /// # Errors
    /// Why they cannot be told.
    pub(super) async fn objects(&mut self) -> Result<Vec<Value>, String> {
        loop {
            // Taken before the look, so that what changes during it is waited for no longer.
            let states = self.states.iter_mut();
            let known: Vec<WatchState> = states.map(|state| state.borrow_and_update().clone()).collect();
            if let Some(at) = known.iter().position(|state| *state == WatchState::Synced) {
                let store = self.watches[at].0.store();
                let objects = store.keys().into_iter().filter_map(|key| store.get(&key)?.value().ok());
                return Ok(objects.collect());
            }
            if let Some((reason, code)) = known.iter().find_map(failure) {
                let advice =
                    if code == Some(403) { "; `sync-engine rbac` prints the rights that are needed" } else { "" };
                return Err(format!("{reason}{advice}"));
            }
            if known.iter().all(|state| *state == WatchState::NotServed) {
                return Err(format!("the hub serves no {}", self.what));
            }
            self.state_changed().await;
        }
    }

    /// Until something changed, at most as long as this.
    pub(super) async fn changed(&mut self, at_most: Duration) {
        let wake = self.wake.clone();
        let either = async {
            tokio::select! {
                () = wake.notified() => {}
                () = self.state_changed() => {}
            }
        };
        // Whether or not something changed: what the objects refer to may be another.
        let _ = timeout(at_most, either).await;
        sleep(SETTLE).await;
    }

    async fn state_changed(&mut self) {
        // A watch that has ended is no longer held by anybody.
        let _ = select_all(self.states.iter_mut().map(|state| Box::pin(state.changed()))).await;
    }
}

fn failure(state: &WatchState) -> Option<(&str, Option<u16>)> {
    match state {
        WatchState::Failed { reason, code, .. } => Some((reason, *code)),
        WatchState::Starting | WatchState::Synced | WatchState::NotServed => None,
    }
}

/// The kubeconfigs that a hub holds, by the names of their clusters.
#[derive(Default)]
pub(super) struct Holding {
    held: BTreeMap<ClusterName, Held>,
    are_users_local: bool,
}

impl Holding {
    /// Of kubeconfigs whose users the operator of the engine wrote: only their clusters come from the hub.
    pub(super) fn of_local_users() -> Self {
        Self { are_users_local: true, ..Self::default() }
    }

    /// Exactly these are members now; one that is known gets its present text.
    pub(super) fn list(
        &mut self,
        found: BTreeMap<ClusterName, Kubeconfig>,
        refused: Vec<String>,
        traits: BTreeMap<ClusterName, Traits>,
    ) -> Listed {
        self.held.retain(|name, _| found.contains_key(name));
        let hold = if self.are_users_local { Held::with_local_user } else { Held::new };
        for (name, Kubeconfig { origin, text }) in found {
            match self.held.get(&name) {
                Some(held) => held.replace(text),
                None => drop(self.held.insert(name, hold(origin, text))),
            }
        }
        let source = |held: &Held| ConnectionSource::Held { kubeconfig: held.clone(), context: None };
        let members = self.held.iter().map(|(name, held)| (name.clone(), source(held))).collect();
        Listed { members, refused, traits }
    }

    pub(super) fn has(&self, name: &ClusterName) -> bool {
        self.held.contains_key(name)
    }

    /// What was read of it last, where it cannot be read now.
    pub(super) fn kept(&self, name: &ClusterName) -> Option<Kubeconfig> {
        self.held.get(name).map(|held| Kubeconfig { origin: held.origin().to_owned(), text: held.text().to_string() })
    }
}

/// What the cluster of a namespaced object is called. A namespace has no dots, so no two clusters get one name.
pub(super) fn member_of(object: &Value) -> Option<ClusterName> {
    ClusterName::try_from(format!("{}.{}", metadata(object, "namespace"), metadata(object, "name")).as_str()).ok()
}

/// A kubeconfig, and where it stands.
pub(super) struct Kubeconfig {
    pub(super) origin: String,
    pub(super) text: String,
}

/// The kubeconfig in a key of a Secret.
///
/// # Errors
/// It holds none.
pub(super) fn of_secret(secret: &Value, key: &str) -> Result<Kubeconfig, String> {
    let [namespace, name] = ["namespace", "name"].map(|field| secret["metadata"][field].as_str().unwrap_or_default());
    let origin = format!("Secret {namespace}/{name}");
    let encoded = secret["data"][key].as_str().ok_or_else(|| format!("{origin} has no key `{key}`"))?;
    let bytes = data_encoding::BASE64.decode(encoded.as_bytes()).unwrap_or_default();
    match String::from_utf8(bytes) {
        Ok(text) if !text.is_empty() => Ok(Kubeconfig { origin, text }),
        _ => Err(format!("key `{key}` of {origin} holds no text")),
    }
}

/// What an object tells of the cluster that it stands for: its labels.
pub(super) fn traits(object: &Value) -> Traits {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    Traits { labels: labels.into_iter().flatten().filter_map(text).collect(), properties: None }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch::channel;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_changes_between_two_looks_is_not_waited_for() {
        let (state, seen) = channel(WatchState::NotServed);
        let running = Watches::new(Health::default());
        let mut collection = Collection {
            what: "things",
            watches: Vec::new(),
            states: vec![seen],
            wake: Arc::default(),
            _running: running,
        };
        let mut look = async |change: &dyn Fn()| {
            let found = collection.objects().await;
            assert_eq!(found.map_err(|why| why.contains("serves no things")), Err(true));
            change();
            let begin = Instant::now();
            collection.changed(Duration::from_secs(600)).await;
            begin.elapsed()
        };
        let rings = look(&|| drop(state.send_replace(WatchState::NotServed))).await;
        assert_eq!(rings, SETTLE, "a watch that says something anew");
        assert_eq!(look(&|| ()).await, Duration::from_secs(600) + SETTLE, "nothing changes");
    }
}
