//! A target: which cluster it is now, and what that serves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Notify, OwnedMutexGuard, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Event;
use crate::health::{Condition, Health, Level};
use crate::mapping::{Kind, Resource};
use crate::multicluster::connection::Connection;
use crate::multicluster::identity::{IdentityState, cluster_identity};
use crate::multicluster::permit::Epoch;
use crate::multicluster::registry::{Cluster, WatchScope};
use crate::multicluster::{ApiPath, Endpoint, Reply, RequestError};
use crate::object::hash::tuple_hash;
use crate::object::{ClusterName, InvalidName};

/// How soon a kind that is not served is asked for again.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(15);

/// What a connection that mappings write to leads to, shared by all of them.
///
/// The cluster comes from the registry, and may be replaced there: by the same cluster at another address, or by another
/// cluster. So nobody keeps its [`endpoint`](Self::endpoint) for longer than a reconcile.
#[derive(Debug)]
pub struct Target {
    pub name: String,
    pub cluster: ClusterName,
    connection: Arc<Connection>,
    state: Mutex<State>,
    /// Advances whenever the cluster is replaced.
    engagement: Epoch,
    /// Rings when a kind is wanted that is not resolved, or the cluster is another.
    wanted: Notify,
    locks: Arc<NamespaceLocks>,
    /// Set once another connection leads to the target.
    retired: CancellationToken,
    /// Whether its provider no longer lists it.
    is_away: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    engaged: Option<Engaged>,
    kinds: BTreeMap<Kind, Result<ServedKind, Unserved>>,
    /// Those that are to be resolved once more.
    again: BTreeSet<Kind>,
    /// Namespaces seen to exist.
    namespaces: BTreeSet<String>,
}

#[derive(Debug)]
struct Engaged {
    cluster: Arc<Cluster>,
    /// Hash of its identity: annotations show it.
    identity: String,
}

/// A kind as the target serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedKind {
    pub resource: Resource,
    pub namespaced: bool,
}

/// One lock per cluster and namespace, for its shared objects: connections that lead to one cluster share them.
#[derive(Debug, Default)]
pub struct NamespaceLocks(Mutex<BTreeMap<(String, String), NamespaceLock>>);

type NamespaceLock = Arc<tokio::sync::Mutex<()>>;

impl NamespaceLocks {
    /// All namespaces that the objects of a source may be in: it may share one with a source whose others, those of a former
    /// placement, are not its own. In their order, so that no two wait for each other.
    async fn lock_all(&self, cluster: &str, namespaces: &BTreeSet<String>) -> Vec<OwnedMutexGuard<()>> {
        let mut held = Vec::new();
        for namespace in namespaces {
            held.push(self.lock(cluster, namespace).lock_owned().await);
        }
        held
    }

    /// Locks that nobody holds are forgotten.
    fn lock(&self, cluster: &str, namespace: &str) -> NamespaceLock {
        let mut locks = self.0.lock();
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        locks.entry((cluster.to_owned(), namespace.to_owned())).or_default().clone()
    }
}

impl Target {
    /// # Errors
    /// A connection's name that cannot name a cluster.
    pub fn new(name: &str, connection: Arc<Connection>, locks: Arc<NamespaceLocks>) -> Result<Self, InvalidName> {
        Ok(Self {
            name: name.to_owned(),
            // As its watches call it: a provider's cluster has the provider's name before its own.
            cluster: ClusterName::try_from(name.rsplit('/').next().unwrap_or_default())?,
            connection,
            state: Mutex::default(),
            engagement: Epoch::default(),
            wanted: Notify::new(),
            locks,
            retired: CancellationToken::new(),
            is_away: AtomicBool::new(false),
        })
    }

    /// The registry has the cluster. `true`: another one than before, of which nothing is known.
    pub fn engage(&self, cluster: &Arc<Cluster>) -> bool {
        let mut state = self.state.lock();
        let former = state.engaged.as_ref();
        if former.is_some_and(|former| Arc::ptr_eq(&former.cluster, cluster)) {
            return false;
        }
        let identity = hashed(cluster.identity());
        let is_other = former.is_none_or(|former| former.identity != identity);
        if is_other {
            let unknown = Err(Unserved::Unknown("what it serves is being looked up".to_owned()));
            state.kinds.values_mut().for_each(|served| *served = unknown.clone());
            state.namespaces.clear();
        }
        state.engaged = Some(Engaged { cluster: cluster.clone(), identity });
        drop(state);
        self.engagement.advance();
        self.wanted.notify_one();
        is_other
    }

    /// Where the target is read and written now. Its writes are sent only while it stays the same cluster at the same
    /// address, and nothing casts doubt on that.
    ///
    /// Whoever plans takes the endpoint first: what is planned then is never written to another cluster.
    pub fn endpoint(&self) -> Endpoint {
        let (engagement, confirmation) = (self.engagement.permit(), self.connection.identity().permit());
        let engaged = self.state.lock().engaged.as_ref().map(|engaged| engaged.cluster.spec.endpoint.clone());
        let endpoint = engaged.unwrap_or_else(|| self.connection.endpoint());
        endpoint.permitted(engagement).permitted(confirmation)
    }

    pub fn is_reached_by(&self, connection: &Arc<Connection>) -> bool {
        Arc::ptr_eq(&self.connection, connection)
    }

    /// Whether it cannot be reached: which cluster it is could not be confirmed, or its provider no longer lists it.
    pub fn is_lost(&self) -> bool {
        self.is_away.load(Ordering::Relaxed) || matches!(self.known(), IdentityState::Failed(_))
    }

    pub fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    /// Where the target's objects are watched; `None` before it was reached.
    pub fn scope(&self) -> Option<WatchScope> {
        self.state.lock().engaged.as_ref().map(|engaged| engaged.cluster.spec.scope.clone())
    }

    /// Hash of the cluster's identity, or why it is not confirmed.
    pub fn identity(&self) -> Result<String, String> {
        match (self.known(), &self.state.lock().engaged) {
            (IdentityState::Identity(_), Some(engaged)) => Ok(engaged.identity.clone()),
            (IdentityState::Failed(why), _) => Err(self.pending(&why)),
            (_, None) => Err(self.pending("not reached yet")),
            (_, Some(_)) => Err(self.pending("whether it is still the same cluster is being confirmed")),
        }
    }

    fn known(&self) -> IdentityState {
        match &self.state.lock().engaged {
            Some(engaged) => engaged.cluster.known(),
            None => match self.connection.identity().known() {
                IdentityState::Identity(_) => IdentityState::Pending,
                known => known,
            },
        }
    }

    /// How a kind is served, or why it is not.
    pub fn kind(&self, kind: &Kind) -> Result<ServedKind, String> {
        let known = self.state.lock().kinds.get(kind).cloned();
        known.unwrap_or_else(|| Err(being_looked_up(kind))).map_err(|why| self.pending(&why.to_string()))
    }

    /// Whether discovery does not have a kind.
    pub fn lacks(&self, kind: &Kind) -> bool {
        matches!(self.state.lock().kinds.get(kind), Some(Err(Unserved::Missing(_))))
    }

    /// Asks for a kind to be resolved; resolved ones stay so.
    pub fn want(&self, kind: &Kind) {
        let mut state = self.state.lock();
        if !state.kinds.contains_key(kind) {
            state.kinds.insert(kind.clone(), Err(being_looked_up(kind)));
            drop(state);
            self.wanted.notify_one();
        }
    }

    /// Forgets the kinds that no document names any more: nothing is wrong with a target that does not serve these.
    pub fn retain_kinds(&self, is_used: impl Fn(&Kind) -> bool) {
        let mut state = self.state.lock();
        let forgotten = state.kinds.extract_if(.., |kind, _| !is_used(kind));
        let unserved = forgotten.filter(|(_, served)| served.is_err()).count();
        drop(state);
        if unserved > 0 {
            self.wanted.notify_one();
        }
    }

    /// A kind was not served, and is again. What is known of it counts until the target has said so anew.
    pub fn look_again(&self, kind: &Kind) {
        self.state.lock().again.insert(kind.clone());
        self.wanted.notify_one();
    }

    pub fn knows_namespace(&self, name: &str) -> bool {
        self.state.lock().namespaces.contains(name)
    }

    pub fn saw_namespace(&self, name: &str) {
        let mut state = self.state.lock();
        if !state.namespaces.contains(name) {
            state.namespaces.insert(name.to_owned());
        }
    }

    pub fn lost_namespace(&self, name: &str) {
        self.state.lock().namespaces.remove(name);
    }

    pub fn retain_namespaces(&self, is_used: impl Fn(&str) -> bool) {
        self.state.lock().namespaces.retain(|name| is_used(name));
    }

    /// Waits until nobody else decides on the shared objects of these namespaces.
    pub async fn lock_namespaces(&self, namespaces: &BTreeSet<String>) -> Vec<OwnedMutexGuard<()>> {
        let cluster = self.state.lock().engaged.as_ref().map(|engaged| engaged.identity.clone());
        self.locks.lock_all(cluster.as_ref().unwrap_or(&self.name), namespaces).await
    }

    fn pending(&self, why: &str) -> String {
        format!("target `{}`: {why}", self.name)
    }

    /// Another connection leads to the target from now on, or none does.
    pub fn retire(&self) {
        self.retired.cancel();
    }

    /// Waits until it is [retired](Self::retire).
    pub async fn retired(&self) {
        self.retired.cancelled().await;
    }

    /// Finds out what the target serves, reports its state, and tells of each piece of news, until it is
    /// [retired](Self::retire).
    pub(super) async fn discover(&self, health: &Health, events: &mpsc::Sender<Event>) {
        let mut outcomes = self.connection.identity().outcomes();
        let mut doubts = self.connection.identity().doubts();
        let mut delay = RETRY_MIN;
        let mut before = None;
        loop {
            outcomes.catch_up();
            let as_of = doubts.catch_up();
            let (known, identity) = (self.known(), self.identity());
            let resolved = if identity.is_ok() { self.resolve().await } else { Ok(()) };
            if known != IdentityState::Pending && !self.retired.is_cancelled() {
                self.report(health, identity.clone().and(resolved.clone()));
            }
            // A doubt that was answered is news even if the answer is the former one: some wait for it. As long as the cluster
            // cannot be reached, nobody does, and why it cannot is no news to them.
            let reached = identity.ok().map(|identity| (as_of, identity));
            let now = Some((reached, matches!(known, IdentityState::Failed(_)), self.state.lock().kinds.clone()));
            if before != now {
                before = now;
                delay = RETRY_MIN;
                let _ = events.send(Event::Target(self.name.clone())).await;
            }
            tokio::select! {
                biased;
                // Cancel-safe: a token stays cancelled.
                () = self.retired.cancelled() => return,
                // Cancel-safe: a permit that is not taken stays stored.
                () = self.wanted.notified() => delay = RETRY_MIN,
                // Cancel-safe, and marked as seen above.
                () = outcomes.advanced() => {}
                () = tokio::time::sleep(delay), if resolved.is_err() => delay = (delay * 2).min(RETRY_MAX),
            }
        }
    }

    /// What it means for the engine's readiness that something is wrong with it.
    pub fn trouble(&self) -> Level {
        self.connection.trouble()
    }

    fn report(&self, health: &Health, state: Result<(), String>) {
        if health.set(&format!("target {}", self.name), Condition::of(state.clone(), self.trouble())) {
            match state {
                Ok(()) => {
                    info!(connection = self.name, identity = self.identity().unwrap_or_default(), "target in order")
                }
                Err(why) => warn!(connection = self.name, why, "target not in order"),
            }
        }
    }

    async fn resolve(&self) -> Result<(), String> {
        let (epoch, endpoint) = (self.engagement.permit(), self.endpoint());
        let mut result = Ok(());
        for kind in self.open_kinds() {
            let served = served(&endpoint, &kind).await;
            result = result.and(served.clone().map(drop).map_err(|why| self.pending(&why.to_string())));
            let mut state = self.state.lock();
            // What another cluster serves says nothing of this one.
            if epoch.holds() {
                state.kinds.insert(kind, served);
            }
        }
        result
    }

    /// Kinds that are to be looked up.
    fn open_kinds(&self) -> Vec<Kind> {
        let mut state = self.state.lock();
        let again = std::mem::take(&mut state.again);
        let is_open = |(kind, served): &(&Kind, &Result<_, _>)| served.is_err() || again.contains(*kind);
        state.kinds.iter().filter(is_open).map(|(kind, _)| kind.clone()).collect()
    }
}

/// Connections to one cluster: the first one with each other. A fleet may have a thousand targets.
pub fn aliases<'t>(targets: impl IntoIterator<Item = &'t Arc<Target>>) -> Vec<(&'t Target, &'t Target)> {
    let (mut first, mut pairs) = (BTreeMap::<String, &Target>::new(), Vec::new());
    for target in targets {
        let identity = target.state.lock().engaged.as_ref().map(|engaged| engaged.identity.clone());
        let Some(identity) = identity else { continue };
        let known = *first.entry(identity).or_insert(target);
        if known.name != target.name {
            pairs.push((known, &**target));
        }
    }
    pairs
}

/// The identity of the cluster behind an endpoint as annotations show it.
pub async fn identity(endpoint: &Endpoint) -> Result<String, String> {
    cluster_identity(endpoint).await.map(|identity| hashed(&identity)).map_err(|error| describe(&error))
}

/// An identity as annotations show it.
pub fn hashed(identity: &str) -> String {
    tuple_hash([identity], 10)
}

/// What is wrong with a request, with what to do about it where that can be told.
fn describe(error: &RequestError) -> String {
    // A 401 says it by itself.
    match error.code() {
        Some(403) => format!("{error}: check the kubeconfig's user and its RBAC"),
        _ => error.to_string(),
    }
}

#[derive(Deserialize)]
struct ApiResourceList {
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
struct ApiResource {
    name: String,
    kind: String,
    namespaced: bool,
}

/// Why a kind is not served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unserved {
    /// Discovery answers, and does not have it.
    #[error("{0} is not served there; install its CustomResourceDefinition, or name a version that it serves")]
    Missing(Kind),
    #[error("{0}")]
    Unknown(String),
}

fn being_looked_up(kind: &Kind) -> Unserved {
    Unserved::Unknown(format!("{kind} is being looked up"))
}

/// How a kind is served there, or why it is not.
pub async fn served(endpoint: &Endpoint, kind: &Kind) -> Result<ServedKind, Unserved> {
    let unknown = |why: &dyn std::fmt::Display| Unserved::Unknown(why.to_string());
    let path = ApiPath::group_version(&kind.group, &kind.version).map_err(|error| unknown(&error))?;
    let missing = || Unserved::Missing(kind.clone());
    let reply = match endpoint.get(&path).await {
        Ok(reply) => reply,
        Err(error) if error.code() == Some(404) => return Err(missing()),
        Err(error) => return Err(unknown(&describe(&error))),
    };
    let list: ApiResourceList = serde_json::from_slice(&reply.body).map_err(|error| unknown(&error))?;
    let found = list.resources.into_iter().find(|one| one.kind == kind.kind && !one.name.contains('/'));
    found.map(|one| ServedKind { resource: kind.resource(&one.name), namespaced: one.namespaced }).ok_or_else(missing)
}

/// Whether a kind is gone with all its objects: discovery does not have it, and its CustomResourceDefinition itself is
/// missing. A kind of Kubernetes' own has none, and an API of another server answers 503 while that is away.
///
/// `plural`: by which it was served. `None`: it never was, in any version, so that nothing was made of it. A definition of its name
/// casts doubt on that.
pub async fn is_removed(endpoint: &Endpoint, kind: &Kind, plural: Option<&str>) -> Result<bool, RequestError> {
    let is_missing = matches!(served(endpoint, kind).await, Err(Unserved::Missing(_)));
    match plural {
        _ if !is_missing => Ok(false),
        plural if kind.is_built_in() => Ok(plural.is_none()),
        plural => is_undefined(endpoint, &kind.resource(plural.unwrap_or(&kind.plural()))).await,
    }
}

/// The same of a resource.
pub async fn is_resource_removed(endpoint: &Endpoint, resource: &Resource) -> Result<bool, RequestError> {
    if resource.is_built_in() {
        return Ok(false);
    }
    let lacks = |body: &[u8]| {
        let list: Option<ApiResourceList> = serde_json::from_slice(body).ok();
        list.is_some_and(|list| list.resources.iter().all(|one| one.name != resource.plural))
    };
    let is_missing = match endpoint.get(&ApiPath::group_version(&resource.group, &resource.version)?).await {
        Ok(reply) => lacks(&reply.body),
        Err(error) => error.code() == Some(404),
    };
    Ok(is_missing && is_undefined(endpoint, resource).await?)
}

/// The version in which the objects of a resource are, where its own is not served. `None`: it is, or none is.
pub async fn other_version(endpoint: &Endpoint, resource: &Resource) -> Result<Option<String>, RequestError> {
    if resource.is_built_in() {
        return Ok(None);
    }
    let Some(found) = definition(endpoint, resource).await? else { return Ok(None) };
    let found: Value = endpoint.parse(&found)?;
    Ok(served_instead(&found, &resource.version))
}

/// The version that a definition serves where it does not serve this one. The one in which objects are stored comes first.
fn served_instead(definition: &Value, version: &str) -> Option<String> {
    let served = || definition["spec"]["versions"].as_array().into_iter().flatten().filter(|one| one["served"] == true);
    let is_served = served().any(|one| one["name"] == version);
    let other = served().filter(|_| !is_served).min_by_key(|one| one["storage"] != true)?;
    other["name"].as_str().map(str::to_owned)
}

/// Whether no CustomResourceDefinition has a resource, in any version.
async fn is_undefined(endpoint: &Endpoint, resource: &Resource) -> Result<bool, RequestError> {
    definition(endpoint, resource).await.map(|found| found.is_none())
}

/// The CustomResourceDefinition of a resource.
async fn definition(endpoint: &Endpoint, resource: &Resource) -> Result<Option<Reply>, RequestError> {
    let definitions = Resource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let name = format!("{}.{}", resource.plural, resource.group);
    match endpoint.get(&ApiPath::object(&definitions, "", &name)?).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_not_found_of(&name) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
pub mod tests {
    use futures::FutureExt;
    use serde_json::json;

    use super::*;
    use crate::multicluster::connection::{ConnectionError, ConnectionSource, ConnectionSpec, Held, Process};
    use crate::multicluster::registry::{ClusterSpec, ClustersOf, ProviderName};

    pub type Open = fn(ConnectionSpec, &Process) -> Result<Arc<Connection>, ConnectionError>;

    /// To an address at which nobody answers.
    pub fn connection_by(open: Open) -> Arc<Connection> {
        let text = r#"{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x"}}],
            "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}]}"#;
        let source = ConnectionSource::Held { kubeconfig: Held::new("a test".into(), text.into()), context: None };
        open(ConnectionSpec { name: "target".into(), source }, &Process::default()).expect("a connection")
    }

    pub fn connection() -> Arc<Connection> {
        connection_by(Connection::of_process)
    }

    pub fn cluster(name: &str) -> Cluster {
        cluster_at(name, connection().endpoint())
    }

    pub fn cluster_at(name: &str, endpoint: Endpoint) -> Cluster {
        let (provider, name) = (ProviderName::Connection(name.into()), ClusterName::try_from(name).expect("a name"));
        let scope = WatchScope { endpoint: endpoint.clone(), clusters: ClustersOf::One(name.clone()) };
        Cluster { provider, spec: ClusterSpec::new(name, "uid".into(), endpoint, scope).into() }
    }

    /// It was found to serve this kind.
    pub fn serves(target: &Target, kind: &Kind) {
        let served = ServedKind { resource: kind.resource(&kind.plural()), namespaced: true };
        target.state.lock().kinds.insert(kind.clone(), Ok(served));
    }

    #[test]
    fn a_kind_whose_version_is_not_served_is_followed_in_the_one_in_which_it_is_stored() {
        let definition = |versions: &[(&str, bool, bool)]| {
            let of = |(name, served, storage): &(&str, bool, bool)| json!({"name": name, "served": served, "storage": storage});
            json!({"spec": {"versions": versions.iter().map(of).collect::<Vec<_>>()}})
        };
        for (versions, instead) in [
            (&[("v1", true, true), ("v2", true, false)][..], None),
            (&[("v1", false, false), ("v2", true, false), ("v3", true, true)], Some("v3")),
            (&[("v1", false, true), ("v2", true, false)], Some("v2")),
            (&[("v2", true, true)], Some("v2")),
            (&[("v1", false, true), ("v2", false, false)], None),
        ] {
            assert_eq!(served_instead(&definition(versions), "v1").as_deref(), instead, "{versions:?}");
        }
    }

    #[tokio::test]
    async fn a_kind_that_is_served_again_is_looked_up_again() {
        let target = Target::new("target", connection(), Arc::default()).expect("a target");
        let kind = Kind::new("example.dev", "v1", "Widget");
        serves(&target, &kind);
        assert_eq!(target.resolve().await, Ok(()), "it is known");
        target.look_again(&kind);
        let why = target.resolve().await.expect_err("nobody answers there");
        assert!(why.contains("http://127.0.0.1:1/apis/example.dev/v1"), "{why}");
    }

    /// The same cluster may have another address meanwhile.
    #[tokio::test]
    async fn a_target_is_called_where_it_was_engaged_last() {
        let target = Target::new("target", connection(), Arc::default()).expect("a target");
        for (url, is_other) in [("http://127.0.0.1:1", true), ("http://127.0.0.1:2", false)] {
            let endpoint = connection().endpoint_at(url).expect("an address");
            assert_eq!(target.engage(&Arc::new(cluster_at("target", endpoint))), is_other);
            assert_eq!(target.endpoint().url(), url);
        }
    }

    #[tokio::test]
    async fn sources_that_share_a_namespace_wait_for_each_other_whatever_others_they_have() {
        let (locks, of) = (NamespaceLocks::default(), |all: [&str; 2]| BTreeSet::from(all.map(str::to_owned)));
        let held = locks.lock_all("c", &of(["former-a", "tenant"])).await;
        assert!(locks.lock_all("c", &of(["former-b", "tenant"])).now_or_never().is_none());
        assert!(locks.lock_all("c", &of(["former-b", "other"])).now_or_never().is_some());
        assert!(locks.lock_all("d", &of(["former-a", "tenant"])).now_or_never().is_some());
        drop(held);
        assert!(locks.lock_all("c", &of(["former-b", "tenant"])).now_or_never().is_some());
    }
}
