//! Which clusters there are: what providers say, turned into engage and disengage. Pure.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::endpoint::Endpoint;
use super::identity::IdentityState;
use sync_engine_mapping::object::ClusterName;
use sync_engine_mapping::object::claims::Claims;
use sync_engine_mapping::object::hold::Hold;
use sync_engine_mapping::{SourceClusters, Traits};

/// Who describes clusters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProviderName {
    /// A mapping's `source` names it.
    Source(SourceClusters),
    /// A connection, whose one cluster a mapping's `target` names.
    Connection(String),
}

impl From<SourceClusters> for ProviderName {
    fn from(clusters: SourceClusters) -> Self {
        Self::Source(clusters)
    }
}

/// What a provider is looked up by, for each event: its name, or what a mapping's `source` names.
pub trait NamesProvider {
    /// How the name of a provider is ordered to the one that is meant.
    fn compare(&self, name: &ProviderName) -> Ordering;
}

impl NamesProvider for ProviderName {
    fn compare(&self, name: &ProviderName) -> Ordering {
        name.cmp(self)
    }
}

impl NamesProvider for SourceClusters {
    fn compare(&self, name: &ProviderName) -> Ordering {
        match name {
            ProviderName::Source(clusters) => clusters.cmp(self),
            ProviderName::Connection(_) => Ordering::Greater,
        }
    }
}

/// A cluster as its provider describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSpec {
    pub name: ClusterName,
    /// Which cluster it is, whatever its address: in kcp the name of the logical cluster, elsewhere the uid of a namespace
    /// that is never recreated. Of a namespace that stands for a cluster: that of its cluster, a dot, and its own uid.
    pub identity: String,
    /// Workspace path, where there is one (`root:orgs:acme`).
    pub path: Option<String>,
    /// Where the cluster itself is read and written.
    pub endpoint: Endpoint,
    /// Where its objects are watched: shared by all clusters of a kcp shard.
    pub scope: WatchScope,
    /// What the workspace lets the engine do with resources that are not of its APIExport; `None`: RBAC alone decides.
    pub claims: Option<Claims>,
    /// By what mappings select clusters, where its provider tells any.
    pub traits: Traits,
    /// What kcp holds the workspace up by, until the engine is done with it.
    pub holding: Option<Holding>,
}

impl ClusterSpec {
    /// One of which nothing else is known.
    pub fn new(name: ClusterName, identity: String, endpoint: Endpoint, scope: WatchScope) -> Self {
        let (path, claims, traits, holding) = (None, None, Traits::default(), None);
        Self { name, identity, path, endpoint, scope, claims, traits, holding }
    }
}

/// A workspace that kcp holds up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    pub hold: Hold,
    /// Where the LogicalClusters of such workspaces are watched: at an address of each one they cannot be.
    pub scope: WatchScope,
}

/// One address at which objects of one or of many clusters are listed and watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchScope {
    pub endpoint: Endpoint,
    pub clusters: ClustersOf,
}

/// Whose objects a scope serves.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ClustersOf {
    One(ClusterName),
    /// A kcp wildcard: the annotation `kcp.io/cluster` of each object says it.
    Annotated,
    /// Each namespace is a cluster of its own, called by its name.
    Namespaces,
}

/// An engaged cluster. A new value for each engagement: compare with `Arc::ptr_eq`.
#[derive(Debug, PartialEq, Eq)]
pub struct Cluster {
    pub provider: ProviderName,
    /// Its provider has it too.
    pub spec: Arc<ClusterSpec>,
}

impl Cluster {
    /// Which cluster it is, whatever its provider, name or address.
    pub fn identity(&self) -> &str {
        &self.spec.identity
    }

    /// What the sources of this cluster are called while it is not engaged: ownership annotations tell the identity alone.
    pub fn named_by_identity(&self) -> ClusterName {
        ClusterName::try_from(self.identity()).unwrap_or_else(|_| self.spec.name.clone())
    }

    /// What is known of its identity right now. An object of a kcp shard says itself whose it is; of a cluster behind an
    /// address of its own this has to be confirmed again after each reason for doubt.
    pub fn known(&self) -> IdentityState {
        let whole = match self.spec.scope.clusters {
            ClustersOf::Annotated => return IdentityState::Identity(self.spec.identity.clone()),
            ClustersOf::One(_) => self.spec.identity.as_str(),
            ClustersOf::Namespaces => self.spec.identity.rsplit_once('.').map_or("", |(whole, _)| whole),
        };
        match self.spec.endpoint.connection().identity().known() {
            IdentityState::Identity(known) if known == whole => IdentityState::Identity(self.spec.identity.clone()),
            IdentityState::Identity(_) => IdentityState::Pending,
            known => known,
        }
    }
}

/// Why a cluster is no longer engaged. None of them means that objects were deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Its provider no longer describes it: a binding is gone.
    Removed,
    /// It is described anew, with another address; or the address where it was found is another, and it is not there.
    Replaced,
    /// The address at which it was seen is no longer served.
    EndpointLost,
    /// No mapping uses its provider any more.
    ProviderStopped,
    Shutdown,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What a provider sends. The stream is level-based: after a restart everything is applied again.
#[derive(Debug, Clone)]
pub enum ProviderEvent {
    Apply(Arc<ClusterSpec>),
    Gone(ClusterName, Reason),
    /// Everything there is was applied since the stream (re)started. No cluster at all is a normal case.
    Synced,
    /// Identity of the source: `status.identityHash` of the APIExport, or the cluster's identity.
    Identity(String),
}

/// What follows from a provider's event, and what the manager tells its subscribers.
#[derive(Debug, Clone)]
pub enum ClusterEvent {
    Engaged(Arc<Cluster>),
    /// An engaged cluster has other traits, or allows the engine other things. Nothing else is another: it stays engaged.
    Described(Arc<Cluster>),
    Disengaged(Arc<Cluster>, Reason),
    /// The provider has described all there is (maybe nothing).
    Synced(ProviderName),
    /// The identity of the provider's source became known, or is another.
    Identity(ProviderName, String),
}

/// The clusters of every provider that runs.
#[derive(Debug, Default)]
pub struct Registry {
    /// In the order of their names.
    providers: Vec<(ProviderName, Described)>,
    /// How often something of them has changed.
    changes: u64,
}

/// What one provider has described.
#[derive(Debug, Default)]
struct Described {
    clusters: BTreeMap<ClusterName, Arc<Cluster>>,
    /// By identity, where that is not the name. Each object of a source that is out of sight is looked up by it.
    others: BTreeMap<String, BTreeSet<ClusterName>>,
    /// Where they are watched, and how many of them there: the thousands of workspaces of a shard have one scope.
    scopes: Vec<(WatchScope, usize)>,
    /// Those that were not applied yet since the stream started again.
    unconfirmed: BTreeSet<ClusterName>,
    /// Whether those were found at another address.
    has_moved: bool,
    synced: bool,
    identity: Option<String>,
}

impl Registry {
    /// A provider's stream starts, or starts again: what it does not apply before it is synced is gone.
    pub fn start(&mut self, provider: &ProviderName) {
        let at = self.position(provider).unwrap_or_else(|at| {
            self.providers.insert(at, (provider.clone(), Described::default()));
            at
        });
        let described = &mut self.providers[at].1;
        described.unconfirmed = described.clusters.keys().cloned().collect();
        described.synced = false;
    }

    /// The provider finds its clusters at another address from now on, and starts again: they stay as they are until it is known
    /// which ones are there. What its source is known by has to be told anew.
    pub fn moved(&mut self, provider: &ProviderName) {
        if let Ok(at) = self.position(provider) {
            let described = &mut self.providers[at].1;
            (described.has_moved, described.identity) = (true, None);
        }
    }

    /// What follows from an event. Events of a provider that was not started, or was stopped, change nothing.
    pub fn apply(&mut self, provider: &ProviderName, event: ProviderEvent) -> Vec<ClusterEvent> {
        let Ok(at) = self.position(provider) else { return Vec::new() };
        let described = &mut self.providers[at].1;
        let transitions = match event {
            ProviderEvent::Apply(spec) => described.apply(provider, spec),
            ProviderEvent::Gone(name, reason) => described.gone(&name, reason).into_iter().collect(),
            ProviderEvent::Synced => described.sync(provider),
            ProviderEvent::Identity(identity) => described.identify(provider, identity).into_iter().collect(),
        };
        self.changes += u64::from(!transitions.is_empty());
        transitions
    }

    /// A number that is another one once a cluster has come, gone or changed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The provider runs no longer.
    pub fn stop(&mut self, provider: &ProviderName, reason: Reason) -> Vec<ClusterEvent> {
        let Ok(at) = self.position(provider) else { return Vec::new() };
        let (_, described) = self.providers.remove(at);
        self.changes += 1;
        described.clusters.into_values().map(|cluster| ClusterEvent::Disengaged(cluster, reason)).collect()
    }

    /// The clusters engaged through a provider, in order.
    pub fn clusters(&self, provider: &impl NamesProvider) -> impl Iterator<Item = &Arc<Cluster>> {
        self.described(provider).into_iter().flat_map(|described| described.clusters.values())
    }

    /// Where the clusters of a provider are watched, each scope once.
    pub fn scopes(&self, provider: &impl NamesProvider) -> impl Iterator<Item = &WatchScope> {
        self.described(provider).into_iter().flat_map(|described| described.scopes.iter().map(|(scope, _)| scope))
    }

    pub fn cluster(&self, provider: &impl NamesProvider, name: &ClusterName) -> Option<&Arc<Cluster>> {
        self.described(provider)?.clusters.get(name)
    }

    /// The engaged cluster of this identity; of several, the first.
    pub fn cluster_of_identity(&self, provider: &impl NamesProvider, identity: &str) -> Option<&Arc<Cluster>> {
        let described = self.described(provider)?;
        let named = ClusterName::try_from(identity).ok().and_then(|name| described.clusters.get(&name));
        let other = || described.clusters.get(described.others.get(identity)?.first()?);
        named.filter(|cluster| cluster.identity() == identity).or_else(other)
    }

    pub fn identity(&self, provider: &impl NamesProvider) -> Option<&str> {
        self.described(provider)?.identity.as_deref()
    }

    pub fn is_synced(&self, provider: &impl NamesProvider) -> bool {
        self.described(provider).is_some_and(|described| described.synced)
    }

    fn described(&self, provider: &impl NamesProvider) -> Option<&Described> {
        self.position(provider).ok().map(|at| &self.providers[at].1)
    }

    /// Where a provider is, or would be.
    fn position(&self, provider: &impl NamesProvider) -> Result<usize, usize> {
        self.providers.binary_search_by(|(name, _)| provider.compare(name))
    }

    /// What somebody who comes late has missed of each provider.
    pub fn replay(&self) -> Vec<ClusterEvent> {
        let of = |(name, described): &(ProviderName, Described)| {
            let engaged = described.clusters.values().cloned().map(ClusterEvent::Engaged);
            let identity = described.identity.clone().map(|identity| ClusterEvent::Identity(name.clone(), identity));
            let synced = described.synced.then(|| ClusterEvent::Synced(name.clone()));
            engaged.chain(identity).chain(synced).collect::<Vec<_>>()
        };
        self.providers.iter().flat_map(of).collect()
    }
}

impl Described {
    fn apply(&mut self, provider: &ProviderName, spec: Arc<ClusterSpec>) -> Vec<ClusterEvent> {
        self.unconfirmed.remove(&spec.name);
        let known = self.clusters.get(&spec.name).map(|known| &*known.spec);
        if known == Some(&*spec) {
            return Vec::new();
        }
        // A tenant may accept a claim and take that back as often as it likes: what is known of its sources stays.
        let is_same = |known: &ClusterSpec| {
            let (traits, claims) = (spec.traits.clone(), spec.claims.clone());
            ClusterSpec { traits, claims, ..known.clone() } == *spec
        };
        let is_described = known.is_some_and(is_same);
        let name = spec.name.clone();
        let cluster = Arc::new(Cluster { provider: provider.clone(), spec });
        let former = self.clusters.insert(name, cluster.clone());
        self.enter(&cluster.spec.scope);
        former.iter().for_each(|former| self.leave(former));
        if !is_named_by_identity(&cluster.spec) {
            self.others.entry(cluster.spec.identity.clone()).or_default().insert(cluster.spec.name.clone());
        }
        if is_described {
            return vec![ClusterEvent::Described(cluster)];
        }
        let disengage = former.map(|former| ClusterEvent::Disengaged(former, Reason::Replaced));
        disengage.into_iter().chain([ClusterEvent::Engaged(cluster)]).collect()
    }

    fn gone(&mut self, name: &ClusterName, reason: Reason) -> Option<ClusterEvent> {
        let cluster = self.clusters.remove(name)?;
        self.leave(&cluster);
        Some(ClusterEvent::Disengaged(cluster, reason))
    }

    /// One more cluster is watched there.
    fn enter(&mut self, scope: &WatchScope) {
        match self.scopes.iter_mut().find(|(known, _)| *known == *scope) {
            Some((_, clusters)) => *clusters += 1,
            None => self.scopes.push((scope.clone(), 1)),
        }
    }

    /// One cluster less is, and it is found by its identity no more.
    fn leave(&mut self, cluster: &Cluster) {
        let spec = &cluster.spec;
        self.scopes.retain_mut(|(known, clusters)| {
            *clusters -= usize::from(*known == spec.scope);
            *clusters > 0
        });
        if let Some(names) = self.others.get_mut(&spec.identity).filter(|_| !is_named_by_identity(spec)) {
            names.remove(&spec.name);
            if names.is_empty() {
                self.others.remove(&spec.identity);
            }
        }
    }

    fn sync(&mut self, provider: &ProviderName) -> Vec<ClusterEvent> {
        let gone = std::mem::take(&mut self.unconfirmed);
        let reason = if std::mem::take(&mut self.has_moved) { Reason::Replaced } else { Reason::Removed };
        let mut transitions: Vec<_> = gone.iter().filter_map(|name| self.gone(name, reason)).collect();
        if !std::mem::replace(&mut self.synced, true) {
            transitions.push(ClusterEvent::Synced(provider.clone()));
        }
        transitions
    }

    fn identify(&mut self, provider: &ProviderName, identity: String) -> Option<ClusterEvent> {
        let former = self.identity.replace(identity.clone());
        (former.as_ref() != Some(&identity)).then(|| ClusterEvent::Identity(provider.clone(), identity))
    }
}

/// In kcp, all are.
fn is_named_by_identity(spec: &ClusterSpec) -> bool {
    spec.identity == spec.name.as_str()
}

#[cfg(test)]
pub mod tests;
