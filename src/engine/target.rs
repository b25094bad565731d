//! A downstream cluster: who it is, and what it serves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::Notify;
use tracing::{info, warn};

use crate::health::Health;
use crate::mapping::{Kind, Resource};
use crate::multicluster::registry::{ClustersOf, WatchScope};
use crate::multicluster::{ApiPath, Endpoint, RequestError};
use crate::object::hash::tuple_hash;
use crate::object::{ClusterName, InvalidName};

/// How soon a target that cannot be identified, or a kind that is not served, is asked for again.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(15);

/// One downstream cluster, shared by all mappings that write to it.
#[derive(Debug)]
pub struct Target {
    pub name: String,
    pub cluster: ClusterName,
    pub endpoint: Endpoint,
    pub scope: WatchScope,
    state: Mutex<State>,
    /// Rings when a kind is wanted that is not resolved.
    wanted: Notify,
    /// One lock per namespace, for its shared objects.
    locks: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Debug)]
struct State {
    identity: Result<String, String>,
    /// Whether the identity has to be confirmed.
    doubted: bool,
    kinds: BTreeMap<Kind, Result<ServedKind, String>>,
    /// Namespaces seen to exist.
    namespaces: BTreeSet<String>,
}

/// A kind as the target serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedKind {
    pub resource: Resource,
    pub namespaced: bool,
}

impl Target {
    /// # Errors
    /// A connection's name that cannot name a cluster.
    pub fn new(name: &str, endpoint: Endpoint) -> Result<Self, InvalidName> {
        let cluster = ClusterName::try_from(name)?;
        let identity = Err(format!("target `{name}`: not reached yet"));
        Ok(Self {
            name: name.to_owned(),
            scope: WatchScope { endpoint: endpoint.clone(), clusters: ClustersOf::One(cluster.clone()) },
            cluster,
            endpoint,
            state: Mutex::new(State { identity, doubted: true, kinds: BTreeMap::new(), namespaces: BTreeSet::new() }),
            wanted: Notify::new(),
            locks: Mutex::default(),
        })
    }

    /// Hash of the cluster's identity, or why it is not known.
    pub fn identity(&self) -> Result<String, String> {
        self.state().identity.clone()
    }

    /// How a kind is served, or why it is not.
    pub fn kind(&self, kind: &Kind) -> Result<ServedKind, String> {
        let unknown = || Err(format!("target `{}`: {kind} is being looked up", self.name));
        self.state().kinds.get(kind).cloned().unwrap_or_else(unknown)
    }

    /// Whether a kind is known to be served.
    pub fn serves(&self, kind: &Kind) -> bool {
        self.state().kinds.get(kind).is_some_and(Result::is_ok)
    }

    /// Asks for a kind to be resolved; resolved ones stay so.
    pub fn want(&self, kind: &Kind) {
        let mut state = self.state();
        if !state.kinds.contains_key(kind) {
            let pending = format!("target `{}`: {kind} is being looked up", self.name);
            state.kinds.insert(kind.clone(), Err(pending));
            drop(state);
            self.wanted.notify_one();
        }
    }

    /// A request failed: makes sure that the target is there, and still the same cluster, before anything else is
    /// written to it.
    pub fn recheck(&self) {
        self.state().doubted = true;
        self.wanted.notify_one();
    }

    pub fn knows_namespace(&self, name: &str) -> bool {
        self.state().namespaces.contains(name)
    }

    pub fn saw_namespace(&self, name: &str) {
        let mut state = self.state();
        if !state.namespaces.contains(name) {
            state.namespaces.insert(name.to_owned());
        }
    }

    pub fn lost_namespace(&self, name: &str) {
        self.state().namespaces.remove(name);
    }

    /// Forgets namespaces that are not used.
    pub fn retain_namespaces(&self, is_used: impl Fn(&str) -> bool) {
        self.state().namespaces.retain(|name| is_used(name));
    }

    /// The lock of a namespace's shared objects. Locks that nobody holds are forgotten.
    pub fn namespace_lock(&self, namespace: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        locks.entry(namespace.to_owned()).or_default().clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds out who the target is and what it serves, for as long as the future lives. `changed` is called after each
    /// piece of news.
    pub async fn discover(&self, health: &Health, changed: impl Fn()) {
        let what = format!("target {}", self.name);
        let mut delay = RETRY_MIN;
        loop {
            let before = (self.identity(), self.state().kinds.clone());
            let identified = self.identify().await;
            let resolved = self.resolve().await;
            let state = identified.and(resolved.clone());
            if health.report(&what, state.clone()) {
                match state {
                    Ok(()) => info!("target `{}`: in order", self.name),
                    Err(why) => warn!("{why}"),
                }
            }
            if before != (self.identity(), self.state().kinds.clone()) {
                delay = RETRY_MIN;
                changed();
            }
            let settled = self.identity().is_ok() && resolved.is_ok();
            tokio::select! {
                // Cancel-safe: a permit that is not taken stays stored.
                () = self.wanted.notified() => delay = RETRY_MIN,
                () = tokio::time::sleep(delay), if !settled => delay = (delay * 2).min(RETRY_MAX),
            }
        }
    }

    async fn identify(&self) -> Result<(), String> {
        if !std::mem::take(&mut self.state().doubted) && self.identity().is_ok() {
            return Ok(());
        }
        let found = identity(&self.endpoint).await.map_err(|error| format!("target `{}`: {error}", self.name));
        self.state().identity = found.clone();
        found.map(drop)
    }

    async fn resolve(&self) -> Result<(), String> {
        let open: Vec<Kind> =
            self.state().kinds.iter().filter(|(_, served)| served.is_err()).map(|(kind, _)| kind.clone()).collect();
        let mut result = Ok(());
        for kind in open {
            let served = served(&self.endpoint, &kind).await.map_err(|why| format!("target `{}`: {why}", self.name));
            result = result.and(served.clone().map(drop));
            self.state().kinds.insert(kind, served);
        }
        result
    }
}

/// uid of the namespace `kube-system`, else of `default` (a kcp workspace has no other), hashed: annotations show it.
pub async fn identity(endpoint: &Endpoint) -> Result<String, String> {
    let namespaces = Resource { group: String::new(), version: "v1".into(), plural: "namespaces".into() };
    for name in ["kube-system", "default"] {
        let path = ApiPath::object(&namespaces, "", name).map_err(|error| error.to_string())?;
        match endpoint.get(&path).await {
            Ok(reply) => return uid(&reply.body).map(|uid| tuple_hash([&*uid], 10)),
            Err(error) if error.is_not_found_of(name) => {}
            Err(error) => return Err(describe(&error)),
        }
    }
    Err("it has neither a namespace kube-system nor default, by which it could be told from another cluster".into())
}

fn uid(body: &[u8]) -> Result<String, String> {
    let object: serde_json::Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    match crate::object::metadata(&object, "uid") {
        "" => Err("its namespace has no uid".into()),
        uid => Ok(uid.to_owned()),
    }
}

/// What is wrong with a request, with what to do about it where that can be told.
fn describe(error: &RequestError) -> String {
    if error.is_forbidden() { format!("{error}: check the kubeconfig's user and its RBAC") } else { error.to_string() }
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

/// How a kind is served there, or why it is not.
pub async fn served(endpoint: &Endpoint, kind: &Kind) -> Result<ServedKind, String> {
    let path = ApiPath::group_version(&kind.group, &kind.version).map_err(|error| error.to_string())?;
    let missing = || format!("{kind} is not served there; install its CustomResourceDefinition");
    let reply = match endpoint.get(&path).await {
        Ok(reply) => reply,
        Err(error) if error.kind_not_served() || error.code() == Some(404) => return Err(missing()),
        Err(error) => return Err(describe(&error)),
    };
    let list: ApiResourceList = serde_json::from_slice(&reply.body).map_err(|error| error.to_string())?;
    let found = list.resources.into_iter().find(|one| one.kind == kind.kind && !one.name.contains('/'));
    found.map(|one| ServedKind { resource: kind.resource(&one.name), namespaced: one.namespaced }).ok_or_else(missing)
}
