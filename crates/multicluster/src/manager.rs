//! Runs providers and owns the lifecycle of clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::task::{Id, JoinHandle};

use super::connection::{Connection, ConnectionError, Reloaded};
use super::environment::{Environment, condition_name, finds_by};
use super::mailbox::Mailbox;
use super::provider;
use super::registry::{Cluster, NamesProvider, ProviderEvent, ProviderName, Reason, Registry, WatchScope};
use super::silence::look_for_silence;
use crate::health::{Condition, Level};
use sync_engine_mapping::object::ClusterName;
use sync_engine_mapping::{ClusterProvider, SourceClusters};

pub use super::registry::ClusterEvent;

/// How often the connections' configurations are looked at: a rotated certificate is in use this soon.
const LOOK_AT_CONNECTIONS: Duration = Duration::from_secs(10);
/// Events of a provider that wait for the registry.
const EVENTS_WAITING: usize = 256;

/// The manager; cheap to clone.
#[derive(Clone)]
pub struct Manager(Arc<Shared>);

struct Shared {
    environment: Environment,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    registry: Registry,
    documents: Vec<ClusterProvider>,
    running: BTreeMap<ProviderName, Running>,
    subscribers: Vec<Arc<Subscriber>>,
    /// Looks after changes of the connections' configurations.
    looking: Option<JoinHandle<()>>,
    stopped: bool,
}

struct Running {
    /// What the provider was built from: where that changes, it is built anew.
    document: Option<ClusterProvider>,
    /// Its number says which one it is: one that was stopped may still be at its last event, and is heard no more.
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Subscriber {
    mailbox: Mutex<Mailbox>,
    changed: Notify,
}

impl Manager {
    pub fn new(environment: Environment) -> Self {
        Self(Arc::new(Shared { environment, state: Mutex::default() }))
    }

    /// The `ClusterProvider` documents in force. Providers in use whose document changed are replaced.
    pub fn configure(&self, documents: Vec<ClusterProvider>) {
        let mut state = self.0.state.lock();
        state.documents = documents;
        for provider in state.of_which(|state, name, running| running.document != state.document(name)) {
            state.stop(&provider, Reason::Replaced);
            self.start(&mut state, provider);
        }
    }

    /// The `ClusterProvider` document in force that a source's clusters come from.
    pub fn document(&self, clusters: &SourceClusters) -> Option<ClusterProvider> {
        self.0.state.lock().document(&ProviderName::Source(clusters.clone()))
    }

    /// Runs exactly these providers from now on: starts the new ones, stops those no longer named
    /// (`ProviderStopped`). Must be called within a Tokio runtime.
    pub fn run(&self, providers: impl IntoIterator<Item = impl Into<ProviderName>>) {
        let wanted: BTreeSet<ProviderName> = providers.into_iter().map(Into::into).collect();
        let mut state = self.0.state.lock();
        let unwanted: Vec<ProviderName> = state.running.keys().filter(|name| !wanted.contains(name)).cloned().collect();
        for provider in unwanted {
            state.stop(&provider, Reason::ProviderStopped);
            self.0.environment.health.remove(&condition_name(&provider));
        }
        if state.looking.is_none() && !state.stopped {
            state.looking = Some(tokio::spawn(look_at_connections(Arc::downgrade(&self.0))));
        }
        for provider in wanted {
            if !state.stopped && !state.running.contains_key(&provider) {
                self.start(&mut state, provider);
            }
        }
    }

    /// Events from now on, preceded by what they stand on: every engaged cluster, every identity.
    pub fn subscribe(&self) -> ClusterEvents {
        let subscriber = Arc::new(Subscriber::default());
        let mut state = self.0.state.lock();
        state.registry.replay().into_iter().for_each(|event| subscriber.put(event));
        state.subscribers.push(subscriber.clone());
        ClusterEvents(subscriber)
    }

    pub fn clusters(&self, provider: &impl NamesProvider) -> Vec<Arc<Cluster>> {
        self.0.state.lock().registry.clusters(provider).cloned().collect()
    }

    /// Whether something holds of where an engaged cluster is watched. It is asked once for all that are watched there.
    pub fn any_scope(&self, provider: &impl NamesProvider, holds: impl Fn(&WatchScope) -> bool) -> bool {
        self.0.state.lock().registry.scopes(provider).any(holds)
    }

    /// A number that is another one once a cluster of any provider has come, gone or changed.
    pub fn changes(&self) -> u64 {
        self.0.state.lock().registry.changes()
    }

    pub fn cluster(&self, provider: &impl NamesProvider, name: &ClusterName) -> Option<Arc<Cluster>> {
        self.0.state.lock().registry.cluster(provider, name).cloned()
    }

    /// The engaged cluster of this identity.
    pub fn cluster_of_identity(&self, provider: &impl NamesProvider, identity: &str) -> Option<Arc<Cluster>> {
        self.0.state.lock().registry.cluster_of_identity(provider, identity).cloned()
    }

    /// Uid of the APIExport or of the cluster; `None` until known.
    pub fn identity(&self, provider: &impl NamesProvider) -> Option<String> {
        self.0.state.lock().registry.identity(provider).map(str::to_owned)
    }

    pub fn is_synced(&self, provider: &impl NamesProvider) -> bool {
        self.0.state.lock().registry.is_synced(provider)
    }

    /// Reads every connection's configuration again, and returns what it found in those that are not as before.
    /// Each is read by itself every ten seconds; call this where a change is known to have happened.
    ///
    /// A changed credential is in use from then on; where the address changed, the clusters found there are replaced once it
    /// is known which ones they are now. A broken configuration keeps what works, and is a condition.
    pub async fn reload_connections(&self) -> Vec<(String, Result<Reloaded, ConnectionError>)> {
        let reloads = self.0.environment.connections.iter().map(|(name, connection)| async move {
            let result = connection.reload().await;
            self.handle_reload(name, &result);
            (!matches!(result, Ok(Reloaded::Unchanged))).then(|| (name.clone(), result))
        });
        join_all(reloads).await.into_iter().flatten().collect()
    }

    fn handle_reload(&self, connection: &str, found: &Result<Reloaded, ConnectionError>) {
        self.0.environment.configuration_of(connection, Level::Waiting).report_reload(connection, found);
        if matches!(found, Ok(Reloaded::Address)) {
            let mut state = self.0.state.lock();
            for provider in state.of_which(|_, name, running| finds_by(name, running.document.as_ref(), connection)) {
                // Its clusters stay until it has found out which ones are at the new address.
                state.registry.moved(&provider);
                if let Some(running) = state.running.remove(&provider) {
                    running.task.abort();
                }
                self.start(&mut state, provider);
            }
        }
    }

    /// Stops every provider, disengages every cluster (`Shutdown`), and waits for the tasks.
    pub async fn shutdown(&self) {
        let tasks = self.0.state.lock().stop_all();
        for task in tasks {
            // It was aborted: the error says so.
            let _ = task.await;
        }
    }

    /// The same at once, without waiting: for an engine that is dropped.
    pub fn abort(&self) {
        self.0.state.lock().stop_all().iter().for_each(JoinHandle::abort);
    }

    fn start(&self, state: &mut State, provider: ProviderName) {
        let document = state.document(&provider);
        state.registry.start(&provider);
        let task = tokio::spawn(serve(self.0.clone(), provider.clone(), document.clone()));
        state.running.insert(provider, Running { document, task });
    }
}

/// Reloads connections, and looks whether they answer, for as long as the manager lives.
async fn look_at_connections(shared: Weak<Shared>) {
    let Some(environment) = shared.upgrade().map(|shared| shared.environment.clone()) else { return };
    let look = |(name, connection): (&String, &Arc<Connection>)| {
        let reloading = reload(shared.clone(), name.clone(), connection.clone());
        let silence = look_for_silence(connection.clone(), environment.answers_of(connection));
        async move {
            tokio::select! {
                biased;
                () = reloading => {}
                // It never ends.
                () = silence => {}
            }
        }
    };
    join_all(environment.connections.iter().map(look)).await;
}

/// Each by itself: a file that hangs holds up its own connection alone.
async fn reload(shared: Weak<Shared>, name: String, connection: Arc<Connection>) {
    loop {
        tokio::time::sleep(LOOK_AT_CONNECTIONS).await;
        let found = connection.reload().await;
        let Some(shared) = shared.upgrade() else { return };
        Manager(shared).handle_reload(&name, &found);
    }
}

/// Runs one provider for good; a panic starts it again.
async fn serve(shared: Arc<Shared>, name: ProviderName, document: Option<ClusterProvider>) {
    let number = tokio::task::id();
    loop {
        let (send, receive) = mpsc::channel(EVENTS_WAITING);
        let described = provider::run(shared.environment.clone(), name.clone(), document.clone(), send);
        let both = async { tokio::join!(described, shared.listen(&name, number, receive)) };
        if AssertUnwindSafe(both).catch_unwind().await.is_err() {
            let message = "it broke down, which is a bug; it begins anew";
            shared.environment.health.set(&condition_name(&name), Condition::waiting(message));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut state = shared.state.lock();
        if state.is_running(&name, number) {
            state.registry.start(&name);
        }
    }
}

impl Shared {
    async fn listen(&self, provider: &ProviderName, number: Id, mut events: mpsc::Receiver<ProviderEvent>) {
        while let Some(event) = events.recv().await {
            let mut state = self.state.lock();
            if !state.is_running(provider, number) {
                return;
            }
            let events = state.registry.apply(provider, event);
            state.tell(events);
        }
    }
}

impl State {
    fn document(&self, provider: &ProviderName) -> Option<ClusterProvider> {
        let ProviderName::Source(SourceClusters::Provider(name)) = provider else { return None };
        self.documents.iter().find(|document| document.name == *name).cloned()
    }

    /// The providers of which this holds.
    fn of_which(&self, holds: impl Fn(&Self, &ProviderName, &Running) -> bool) -> Vec<ProviderName> {
        let running = self.running.iter().filter(|(name, running)| holds(self, name, running));
        running.map(|(name, _)| name.clone()).collect()
    }

    fn is_running(&self, provider: &ProviderName, number: Id) -> bool {
        self.running.get(provider).is_some_and(|running| running.task.id() == number)
    }

    fn stop(&mut self, provider: &ProviderName, reason: Reason) -> Option<JoinHandle<()>> {
        let running = self.running.remove(provider)?;
        running.task.abort();
        let events = self.registry.stop(provider, reason);
        self.tell(events);
        Some(running.task)
    }

    fn stop_all(&mut self) -> Vec<JoinHandle<()>> {
        self.stopped = true;
        let running: Vec<ProviderName> = self.running.keys().cloned().collect();
        let stopped = running.iter().filter_map(|provider| self.stop(provider, Reason::Shutdown));
        let mut tasks: Vec<_> = stopped.collect();
        tasks.extend(self.looking.take().inspect(JoinHandle::abort));
        for subscriber in self.subscribers.drain(..) {
            subscriber.mailbox.lock().closed = true;
            subscriber.changed.notify_one();
        }
        tasks
    }

    fn tell(&mut self, events: Vec<ClusterEvent>) {
        // A subscriber that only we still hold has been dropped.
        self.subscribers.retain(|subscriber| Arc::strong_count(subscriber) > 1);
        for event in events {
            log(&event);
            self.subscribers.iter().for_each(|subscriber| subscriber.put(event.clone()));
        }
    }
}

fn log(event: &ClusterEvent) {
    match event {
        ClusterEvent::Engaged(cluster) => {
            let (component, path) =
                (condition_name(&cluster.provider), cluster.spec.path.as_deref().unwrap_or_default());
            let (name, identity) = (&cluster.spec.name, cluster.identity());
            tracing::info!(component, cluster = %name, identity, workspace = path, "cluster engaged");
        }
        ClusterEvent::Described(cluster) => {
            let component = condition_name(&cluster.provider);
            tracing::debug!(component, cluster = %cluster.spec.name, "labels, properties or permission claims are others");
        }
        ClusterEvent::Disengaged(cluster, reason) => {
            let (component, name, identity) =
                (condition_name(&cluster.provider), &cluster.spec.name, cluster.identity());
            tracing::info!(component, cluster = %name, identity, %reason, "cluster disengaged");
        }
        ClusterEvent::Synced(provider) => {
            tracing::info!(component = condition_name(provider), "every cluster is known");
        }
        ClusterEvent::Identity(provider, identity) => {
            tracing::debug!(component = condition_name(provider), identity, "identity of the source");
        }
    }
}

impl Subscriber {
    fn put(&self, event: ClusterEvent) {
        self.mailbox.lock().put(event);
        self.changed.notify_one();
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Manager").field(&self.0.state.lock().registry).finish()
    }
}

/// A subscriber's events, coalesced per cluster.
pub struct ClusterEvents(Arc<Subscriber>);

impl ClusterEvents {
    /// The next event; `None` after the shutdown. Cancel-safe.
    pub async fn next(&mut self) -> Option<ClusterEvent> {
        self.some(1).await?.pop()
    }

    /// The next events that wait, at least one and at most so many; `None` after the shutdown. Of a cluster, there is at most one that it
    /// is gone, and one that it is engaged after that. Cancel-safe.
    pub async fn some(&mut self, most: usize) -> Option<Vec<ClusterEvent>> {
        loop {
            {
                let mut mailbox = self.0.mailbox.lock();
                let some: Vec<_> = std::iter::from_fn(|| mailbox.take()).take(most.max(1)).collect();
                if !some.is_empty() {
                    return Some(some);
                }
                if mailbox.closed {
                    return None;
                }
            }
            // One reader: a notification given before this wait is kept for it.
            self.0.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use sync_engine_mapping::ProviderKind;
    use sync_engine_mapping::document::KubeconfigProviderSpec;

    use super::*;
    use crate::connection::tests::{open, write};

    /// Ten thousand workspaces of a shard may go at once.
    #[tokio::test]
    async fn events_that_wait_are_read_together_up_to_a_number() {
        let mut events = ClusterEvents(Arc::default());
        let synced = |name: &str| ClusterEvent::Synced(ProviderName::Connection(name.to_owned()));
        ["a", "b", "c"].into_iter().for_each(|name| events.0.put(synced(name)));
        for waiting in [2, 1] {
            assert_eq!(events.some(2).await.map(|some| some.len()), Some(waiting));
        }
        events.0.mailbox.lock().closed = true;
        assert!(events.some(2).await.is_none());
    }

    /// A pipe that nobody writes to is a file on a mount that hangs.
    #[tokio::test(start_paused = true)]
    async fn a_kubeconfig_that_hangs_keeps_no_other_from_being_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let (hung, works) = (folder.path().join("hung"), folder.path().join("works"));
        [&hung, &works].into_iter().for_each(|path| write(path, "http://127.0.0.1:1"));
        let connections = BTreeMap::from([("hung", open(&hung)), ("works", open(&works))]);
        std::fs::remove_file(&hung).expect("the file is there");
        assert!(std::process::Command::new("mkfifo").arg(&hung).status().expect("mkfifo").success());
        let named = connections.iter().map(|(name, connection)| ((*name).to_owned(), connection.clone()));
        let environment = Environment { connections: Arc::new(named.collect()), ..Environment::default() };
        let manager = Manager::new(environment);
        manager.run(std::iter::empty::<ProviderName>());
        for address in ["http://127.0.0.1:2", "http://127.0.0.1:3"] {
            write(&works, address);
            let is_read = || connections["works"].endpoint().url() == address;
            for _ in 0..10_000 {
                if is_read() {
                    break;
                }
                tokio::time::advance(LOOK_AT_CONNECTIONS).await;
                // Files are read on other threads.
                tokio::task::spawn_blocking(|| ()).await.expect("no panic");
            }
            assert!(is_read(), "{address}");
        }
        manager.shutdown().await;
        std::fs::write(&hung, "").expect("whoever waits for it reads it");
    }

    #[tokio::test]
    async fn a_provider_that_was_replaced_is_heard_no_more() {
        let manager = Manager::new(Environment::default());
        // Without their connection, providers tell nothing by themselves.
        let fleet = |connection: &str| {
            let kind = ProviderKind::Kubeconfig(KubeconfigProviderSpec { connection: connection.to_owned() });
            vec![ClusterProvider { name: "fleet".to_owned(), kind }]
        };
        let name = ProviderName::Source(SourceClusters::Provider("fleet".into()));
        let number = || manager.0.state.lock().running[&name].task.id();
        // It tells something in the moment in which it is stopped.
        let tell = async |number: Id, identity: &str| {
            let (send, receive) = mpsc::channel(1);
            send.try_send(ProviderEvent::Identity(identity.to_owned())).expect("there is room");
            drop(send);
            manager.0.listen(&name, number, receive).await;
            manager.identity(&name)
        };
        manager.configure(fleet("first"));
        manager.run([name.clone()]);
        let first = number();
        assert_eq!(tell(first, "first").await.as_deref(), Some("first"));
        manager.configure(fleet("second"));
        assert_eq!(tell(first, "late").await, None, "another document: nothing is known of it yet");
        assert_eq!(tell(number(), "second").await.as_deref(), Some("second"));
        assert_eq!(tell(first, "later").await.as_deref(), Some("second"));
        manager.shutdown().await;
    }
}
