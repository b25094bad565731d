//! The workspaces that kcp holds up for the engine: those of a WorkspaceType with an initializer or a terminator.
//!
//! The type's status lists one address per shard at which the LogicalClusters that still carry the entry can be watched,
//! across all workspaces. What is in such a workspace is read and written below the same address, as long as it carries
//! the entry. A workspace that no longer does is out of sight: nothing was deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::future::select_all;
use serde::Deserialize;
use tokio::sync::{Notify, mpsc, watch};

use super::api_export::{Followed, parsed, refusal};
use crate::Endpoint;
use crate::Object;
use crate::connection::Connection;
use crate::environment::{Provider, Reporter};
use crate::health::Health;
use crate::registry::{ClusterSpec, ClustersOf, Holding, ProviderEvent, Reason, WatchScope};
use crate::watch::{Selectors, WatchState, Watches};
use sync_engine_mapping::object::ClusterName;
use sync_engine_mapping::object::hold::{Hold, HoldStage};
use sync_engine_mapping::{Resource, Traits, WorkspaceType};

/// Describes the workspaces of one or two types.
pub struct WorkspaceTypesProvider {
    connection: Arc<Connection>,
    /// Each type, and the workspace that it is in.
    types: Vec<(HoldStage, WorkspaceType, Endpoint)>,
    condition: Reporter,
}

impl WorkspaceTypesProvider {
    pub fn new(
        connection: Arc<Connection>,
        initializing: Option<WorkspaceType>,
        terminating: Option<WorkspaceType>,
        condition: Reporter,
    ) -> Result<Self, String> {
        let staged = [(HoldStage::Initializing, initializing), (HoldStage::Terminating, terminating)];
        let types = staged.into_iter().filter_map(|(stage, of)| Some((stage, of?))).map(|(stage, of)| {
            let home = connection.workspace(Some(&of.workspace)).map_err(|error| error.to_string())?;
            Ok((stage, of, home))
        });
        let types = types.collect::<Result<_, String>>()?;
        Ok(Self { connection, types, condition })
    }
}

impl Provider for WorkspaceTypesProvider {
    async fn run(self, events: mpsc::Sender<ProviderEvent>) {
        let mut discovery = match Discovery::start(&self) {
            Ok(discovery) => discovery,
            Err(message) => {
                self.condition.report(Err(message));
                return std::future::pending().await;
            }
        };
        loop {
            // Taken before the look, so that what changes during it wakes us.
            let states = discovery.states();
            let (found, again) = discovery.look();
            for event in found {
                if events.send(event).await.is_err() {
                    return;
                }
            }
            if let Some(condition) = discovery.condition() {
                self.condition.report(condition);
            }
            if !again {
                discovery.wait(states).await;
            }
        }
    }
}

/// A WorkspaceType, as far as its workspaces are found by it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TypeDocument {
    status: TypeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TypeStatus {
    virtual_workspaces: Vec<VirtualWorkspace>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VirtualWorkspace {
    url: String,
}

impl TypeDocument {
    /// The addresses of a stage, each with what the workspaces there are held up by. kcp says both in the path:
    /// `/services/initializingworkspaces/<logical cluster>:<type>`.
    fn addresses(&self, stage: HoldStage) -> Vec<(String, Hold)> {
        let service = match stage {
            HoldStage::Initializing => "/services/initializingworkspaces/",
            HoldStage::Terminating => "/services/terminatingworkspaces/",
        };
        let address = |one: &VirtualWorkspace| {
            let url = one.url.trim_end_matches('/');
            let (_, name) = url.split_once(service)?;
            (!name.is_empty() && !name.contains('/')).then(|| (url.to_owned(), Hold { stage, name: name.to_owned() }))
        };
        self.status.virtual_workspaces.iter().filter_map(address).collect()
    }
}

/// The caches that tell the workspaces, and what was described from them so far.
struct Discovery<'a> {
    provider: &'a WorkspaceTypesProvider,
    watches: Arc<Watches>,
    wake: Arc<Notify>,
    /// In the order of the provider's types.
    types: Vec<Followed>,
    shards: BTreeMap<String, Shard>,
    described: BTreeMap<ClusterName, ClusterSpec>,
    identity: Option<String>,
    synced: bool,
    /// Addresses of a type that are none.
    unusable: Vec<String>,
}

/// One address of a type.
struct Shard {
    /// Which of the provider's types it is of.
    of: usize,
    hold: Hold,
    endpoint: Endpoint,
    scope: WatchScope,
    logical_clusters: Followed,
}

impl<'a> Discovery<'a> {
    fn start(provider: &'a WorkspaceTypesProvider) -> Result<Self, String> {
        // The provider's own condition speaks for its watches.
        let watches = Watches::new(Health::default());
        let wake = Arc::new(Notify::new());
        let place = ClusterName::try_from("types").map_err(|error| error.to_string())?;
        let follow = |(_, of, home): &(HoldStage, WorkspaceType, Endpoint)| {
            let scope = WatchScope { endpoint: home.clone(), clusters: ClustersOf::One(place.clone()) };
            let by_name = Selectors { field: format!("metadata.name={}", of.name), ..Selectors::default() };
            Followed::start(&watches, &scope, &workspace_types(), &by_name, &Arc::new(Mutex::default()), &wake)
        };
        let types = provider.types.iter().map(follow).collect();
        Ok(Self {
            provider,
            types,
            watches,
            wake,
            shards: BTreeMap::new(),
            described: BTreeMap::new(),
            identity: None,
            synced: false,
            unusable: Vec::new(),
        })
    }

    /// What follows from the caches as they are, and whether a watch was started that is to be looked at as well.
    fn look(&mut self) -> (Vec<ProviderEvent>, bool) {
        let again = self.look_at_types();
        let mut events = self.look_at_clusters();
        if self.is_complete() {
            events.extend(self.identify());
            if !self.synced {
                self.synced = true;
                events.push(ProviderEvent::Synced);
            }
        }
        (events, again)
    }

    /// Follows the addresses of the types.
    fn look_at_types(&mut self) -> bool {
        let mut listed = BTreeMap::new();
        for (of, (stage, ..)) in self.provider.types.iter().enumerate() {
            let addresses = self.type_of(of).map(|found| found.addresses(*stage)).unwrap_or_default();
            listed.extend(addresses.into_iter().map(|(url, hold)| (url, (of, hold))));
        }
        self.shards.retain(|url, shard| listed.get(url).is_some_and(|(_, hold)| *hold == shard.hold));
        self.unusable.clear();
        let mut again = false;
        for (url, (of, hold)) in listed {
            if !self.shards.contains_key(&url) {
                again |= self.follow_shard(url, of, hold);
            }
        }
        again
    }

    fn follow_shard(&mut self, url: String, of: usize, hold: Hold) -> bool {
        let Ok(endpoint) = self.provider.connection.endpoint_at(&url) else {
            self.unusable.push(url);
            return false;
        };
        let scope = WatchScope { endpoint: endpoint.at("clusters/*"), clusters: ClustersOf::Annotated };
        let (resource, touched) = (logical_clusters(), Arc::new(Mutex::default()));
        let logical_clusters =
            Followed::start(&self.watches, &scope, &resource, &Selectors::default(), &touched, &self.wake);
        self.shards.insert(url, Shard { of, hold, endpoint, scope, logical_clusters });
        true
    }

    fn type_of(&self, of: usize) -> Option<TypeDocument> {
        let store = self.types.get(of)?.watch.store();
        let name = &self.provider.types.get(of)?.1.name;
        let key = store.keys().into_iter().find(|key| *key.name == **name)?;
        store.get(&key).as_deref().and_then(parsed)
    }

    /// Describes the workspaces that are in sight, and those that no longer are.
    fn look_at_clusters(&mut self) -> Vec<ProviderEvent> {
        let found: BTreeMap<ClusterName, ClusterSpec> =
            self.shards.values().flat_map(Shard::clusters).map(|spec| (spec.name.clone(), spec)).collect();
        let mut events = Vec::new();
        for (name, spec) in &self.described {
            if !found.contains_key(name) {
                let at = spec.holding.as_ref().map(|holding| &holding.scope);
                let is_served = self.shards.values().any(|shard| Some(&shard.scope) == at);
                let reason = if is_served { Reason::Removed } else { Reason::EndpointLost };
                events.push(ProviderEvent::Gone(name.clone(), reason));
            }
        }
        let is_new = |spec: &&ClusterSpec| self.described.get(&spec.name) != Some(*spec);
        events.extend(found.values().filter(is_new).map(|spec| ProviderEvent::Apply(Box::new(spec.clone()))));
        self.described = found;
        events
    }

    /// What the sources are known by: what they are held up by.
    fn identify(&mut self) -> Option<ProviderEvent> {
        let names: BTreeSet<&str> = self.shards.values().map(|shard| shard.hold.name.as_str()).collect();
        let names: Vec<_> = names.into_iter().collect();
        let identity = Some(names.join(",")).filter(|identity| self.identity.as_ref() != Some(identity))?;
        self.identity = Some(identity.clone());
        Some(ProviderEvent::Identity(identity))
    }

    fn is_complete(&self) -> bool {
        let has_addresses = |of: usize| self.shards.values().any(|shard| shard.of == of);
        self.types.iter().enumerate().all(|(of, followed)| followed.watch.is_synced() && has_addresses(of))
            && self.shards.values().all(|shard| shard.logical_clusters.watch.is_synced())
    }

    fn states(&self) -> Vec<watch::Receiver<WatchState>> {
        let shards = self.shards.values().map(|shard| &shard.logical_clusters);
        let mut states: Vec<_> = self.types.iter().chain(shards).map(|followed| followed.watch.states()).collect();
        states.iter_mut().for_each(watch::Receiver::mark_unchanged);
        states
    }

    /// Until a cache or the state of a watch changes.
    async fn wait(&self, mut states: Vec<watch::Receiver<WatchState>>) {
        let changed = states.iter_mut().map(|state| Box::pin(state.changed()));
        tokio::select! {
            biased;
            () = self.wake.notified() => {}
            _ = select_all(changed) => {}
        }
    }

    /// What is to be said: the first thing that is wrong. `None` while nothing is known yet.
    fn condition(&self) -> Option<Result<(), String>> {
        if self.types.iter().any(|followed| matches!(followed.watch.state(), WatchState::Starting)) {
            return None;
        }
        let trouble = (0..self.types.len()).find_map(|of| self.trouble(of));
        let unusable = || self.unusable.first().map(|url| format!("`{url}` is no http or https address"));
        Some(trouble.or_else(unusable).map_or(Ok(()), Err))
    }

    fn trouble(&self, of: usize) -> Option<String> {
        let ((stage, kind, home), followed) = (self.provider.types.get(of)?, self.types.get(of)?);
        let WorkspaceType { workspace, name } = kind;
        match followed.watch.state() {
            WatchState::Failed { reason, code, .. } => {
                return Some(refusal(
                    &reason,
                    code,
                    &format!("list and watch workspacetypes in workspace {workspace}"),
                ));
            }
            WatchState::NotServed => {
                return Some(format!("{} serves no WorkspaceTypes: check the kubeconfig and the path", home.url()));
            }
            WatchState::Starting | WatchState::Synced => {}
        }
        if self.type_of(of).is_none() {
            return Some(format!(
                "there is no WorkspaceType `{name}` in workspace {workspace}: create it, or correct its path"
            ));
        }
        let mut shards = self.shards.values().filter(|shard| shard.of == of).peekable();
        if shards.peek().is_none() && self.unusable.is_empty() {
            let entry = stage.entry();
            return Some(format!("the WorkspaceType `{kind}` has no {entry}: set `spec.{entry}: true` in it"));
        }
        shards.find_map(|shard| match shard.logical_clusters.watch.state() {
            WatchState::Failed { reason, code, .. } => {
                let verb = stage.verb();
                let needed = format!("have the verb `{verb}` on workspacetypes `{name}` in workspace {workspace}");
                Some(refusal(&reason, code, &needed))
            }
            _ => None,
        })
    }
}

impl Shard {
    /// The workspaces of the shard that are still held up.
    fn clusters(&self) -> Vec<ClusterSpec> {
        let store = self.logical_clusters.watch.store();
        let all = store.keys().into_iter().filter_map(|key| self.described(&key.cluster, &*store.get(&key)?));
        all.collect()
    }

    fn described(&self, cluster: &ClusterName, logical_cluster: &Object) -> Option<ClusterSpec> {
        let value = logical_cluster.value().ok()?;
        self.hold.index_in(&value)?;
        let path = value.pointer("/metadata/annotations/kcp.io~1path").and_then(serde_json::Value::as_str);
        let endpoint = self.endpoint.at(&format!("clusters/{cluster}"));
        Some(ClusterSpec {
            name: cluster.clone(),
            identity: cluster.as_str().to_owned(),
            path: path.map(str::to_owned),
            scope: WatchScope { endpoint: endpoint.clone(), clusters: ClustersOf::Annotated },
            endpoint,
            claims: None,
            traits: Traits::default(),
            holding: Some(Holding { hold: self.hold.clone(), scope: self.scope.clone() }),
        })
    }
}

fn workspace_types() -> Resource {
    Resource { group: "tenancy.kcp.io".into(), version: "v1alpha1".into(), plural: "workspacetypes".into() }
}

fn logical_clusters() -> Resource {
    Resource { group: "core.kcp.io".into(), version: "v1alpha1".into(), plural: "logicalclusters".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_a_type_are_told_apart_by_their_service() {
        let found: TypeDocument = serde_json::from_value(serde_json::json!({"status": {"virtualWorkspaces": [
            {"type": "initializing", "url": "https://kcp:6443/services/initializingworkspaces/35g9:team"},
            {"url": "https://other:6443/services/initializingworkspaces/35g9:team/"},
            {"type": "terminating", "url": "https://kcp:6443/services/terminatingworkspaces/35g9:team"},
            {"url": "https://kcp:6443/services/initializingworkspaces/"},
        ]}}))
        .unwrap();
        let of = |stage| found.addresses(stage).into_iter().map(|(url, hold)| format!("{url} {}", hold.name));
        insta::assert_debug_snapshot!(of(HoldStage::Initializing).collect::<Vec<_>>(), @r#"
        [
            "https://kcp:6443/services/initializingworkspaces/35g9:team 35g9:team",
            "https://other:6443/services/initializingworkspaces/35g9:team 35g9:team",
        ]
        "#);
        assert_eq!(of(HoldStage::Terminating).count(), 1);
    }
}
