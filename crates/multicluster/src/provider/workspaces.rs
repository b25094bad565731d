//! Workspaces of kcp. An object of one workspace, the home, lists an address for each shard. At such an address, an object of
//! each workspace can be watched that stands for the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::mpsc;

use super::discovery::{Collection, changed, refusal};
use crate::Endpoint;
use crate::connection::Connection;
use crate::environment::Reporter;
use crate::registry::{ClusterSpec, ClustersOf, ProviderEvent, Reason, WatchScope};
use crate::watch::{Selectors, WatchState, Watches};
use sync_engine_mapping::Resource;
use sync_engine_mapping::object::ClusterName;

/// What lists the addresses, and what stands for a workspace there.
pub(super) trait Find: Send + Sync + 'static {
    /// What an address is listed for.
    type Of: PartialEq + Send + Sync;

    /// What lists addresses.
    fn homes(&mut self) -> Vec<&mut Collection>;

    /// The objects that stand for workspaces, newest version first, and what of them is read.
    fn stand_ins(&self) -> (Vec<Resource>, Selectors);

    /// The addresses that are listed now. None is normal.
    fn addresses(&self) -> BTreeMap<String, Self::Of>;

    /// Whether it is known which addresses are listed.
    fn is_complete(&self) -> bool;

    /// What the sources are known by, once that is known.
    fn identity(&self) -> Option<String>;

    /// A workspace, as its objects at an address describe it. `is_described`: it was described from there before.
    fn describe(&self, shard: &Shard<Self::Of>, cluster: &ClusterName, is_described: bool) -> Option<ClusterSpec>;

    /// Of several addresses that show a workspace, one of the lowest rank counts.
    fn rank(&self, _of: &Self::Of) -> usize {
        0
    }

    /// What is wrong at home.
    fn trouble(&self) -> Option<String>;

    /// What the engine's user has to be allowed at an address.
    fn needed(&self, of: &Self::Of) -> String;
}

/// One address.
pub(super) struct Shard<Of> {
    pub(super) of: Of,
    pub(super) endpoint: Endpoint,
    /// Where all workspaces are watched.
    pub(super) scope: WatchScope,
    pub(super) stand_ins: Collection,
}

impl<Of> Shard<Of> {
    /// A workspace there.
    pub(super) fn workspace(&self, cluster: &ClusterName) -> ClusterSpec {
        let endpoint = self.endpoint.at(&format!("clusters/{cluster}"));
        ClusterSpec::new(cluster.clone(), cluster.as_str().to_owned(), endpoint, self.scope.clone())
    }
}

/// Describes workspaces.
pub(super) struct Workspaces<F: Find> {
    find: F,
    connection: Arc<Connection>,
    condition: Reporter,
    watches: Arc<Watches>,
    shards: BTreeMap<Arc<str>, Shard<F::Of>>,
    /// Each with the address that it was described from.
    described: BTreeMap<ClusterName, (Arc<str>, Arc<ClusterSpec>)>,
    identity: Option<String>,
    is_synced: bool,
    /// What is listed and is no address.
    unusable: Vec<String>,
}

impl<F: Find> Workspaces<F> {
    pub(super) fn new(find: F, connection: Arc<Connection>, condition: Reporter, watches: &Arc<Watches>) -> Self {
        Self {
            find,
            connection,
            condition,
            watches: watches.clone(),
            shards: BTreeMap::new(),
            described: BTreeMap::new(),
            identity: None,
            is_synced: false,
            unusable: Vec::new(),
        }
    }

    /// What follows from the caches as they are.
    fn look(&mut self) -> Vec<ProviderEvent> {
        self.find.homes().into_iter().for_each(Collection::look);
        let lost = self.follow_addresses();
        self.shards.values_mut().for_each(|shard| shard.stand_ins.look());
        let mut events = Vec::new();
        let identity = self.find.identity();
        if identity.is_some() && identity != self.identity {
            self.identity = identity;
            events.extend(self.identity.clone().map(ProviderEvent::Identity));
        }
        if self.identity.is_none() {
            // Another server may have workspaces of the same names: nobody goes by what was known of the former one.
            return events;
        }
        // What was seen at an address that is no longer listed is out of sight, not deleted.
        let seen_there = self.described.iter().filter(|(_, (url, _))| lost.contains(url));
        let seen_there: Vec<ClusterName> = seen_there.map(|(name, _)| name.clone()).collect();
        events.extend(seen_there.iter().filter_map(|cluster| self.describe(cluster, Reason::EndpointLost)));
        let touched: BTreeSet<_> = self.shards.values().flat_map(|shard| shard.stand_ins.take_touched()).collect();
        events.extend(touched.iter().filter_map(|cluster| self.describe(cluster, Reason::Removed)));
        if !self.is_synced && self.is_complete() {
            self.is_synced = true;
            events.push(ProviderEvent::Synced);
        }
        events
    }

    /// Follows exactly the addresses that are listed, and returns those that no longer are.
    fn follow_addresses(&mut self) -> BTreeSet<Arc<str>> {
        let listed = self.find.addresses();
        let lost = self.shards.extract_if(.., |url, shard| listed.get(&**url) != Some(&shard.of));
        let lost = lost.map(|(url, _)| url).collect();
        self.unusable.clear();
        for (url, of) in listed {
            if self.shards.contains_key(&*url) {
                continue;
            }
            let Ok(endpoint) = self.connection.endpoint_at(&url) else {
                self.unusable.push(url);
                continue;
            };
            let scope = WatchScope { endpoint: endpoint.at("clusters/*"), clusters: ClustersOf::Annotated };
            let (versions, selectors) = self.find.stand_ins();
            let stand_ins = Collection::follow(&self.watches, scope.clone(), &versions, selectors);
            self.shards.insert(url.into(), Shard { of, endpoint, scope, stand_ins });
        }
        lost
    }

    /// Describes a workspace anew; `reason` is why it is gone if no address shows it any more.
    fn describe(&mut self, cluster: &ClusterName, reason: Reason) -> Option<ProviderEvent> {
        let former = self.described.get(cluster);
        let at = |(url, shard): (&Arc<str>, &Shard<F::Of>)| {
            let is_described = former.is_some_and(|(known, _)| known == url);
            let spec = Arc::new(self.find.describe(shard, cluster, is_described)?);
            Some(((self.find.rank(&shard.of), !is_described), (url.clone(), spec)))
        };
        let found = self.shards.iter().filter_map(at).min_by_key(|(rank, _)| *rank).map(|(_, found)| found);
        match found {
            Some(found) if former == Some(&found) => None,
            Some((url, spec)) => {
                self.described.insert(cluster.clone(), (url, spec.clone()));
                Some(ProviderEvent::Apply(spec))
            }
            None => self.described.remove(cluster).map(|_| ProviderEvent::Gone(cluster.clone(), reason)),
        }
    }

    fn is_complete(&self) -> bool {
        // A shard of which no workspace uses the API does not serve it.
        let is_known =
            |shard: &Shard<F::Of>| matches!(shard.stand_ins.state(), WatchState::Synced | WatchState::NotServed);
        self.find.is_complete() && self.shards.values().all(is_known)
    }

    /// What is to be said: the first thing that is wrong. `None` while nothing is known yet.
    fn condition(&mut self) -> Option<Result<(), String>> {
        if self.find.homes().iter().any(|home| *home.state() == WatchState::Starting) {
            return None;
        }
        let unusable = || Some(format!("`{}` is listed and is no http or https address", self.unusable.first()?));
        let refused = |shard: &Shard<F::Of>| refusal(shard.stand_ins.state(), || self.find.needed(&shard.of));
        let trouble = self.find.trouble().or_else(unusable);
        let trouble = trouble.or_else(|| self.shards.values().find_map(refused));
        Some(trouble.map_or(Ok(()), Err))
    }

    pub(super) async fn run(mut self, events: mpsc::Sender<ProviderEvent>) {
        loop {
            for event in self.look() {
                if events.send(event).await.is_err() {
                    return;
                }
            }
            if let Some(condition) = self.condition() {
                self.condition.report(condition);
            }
            let shards = self.shards.values_mut().map(|shard| &mut shard.stand_ins);
            changed(self.find.homes().into_iter().chain(shards)).await;
        }
    }
}
