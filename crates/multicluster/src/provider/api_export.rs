//! Every workspace bound to a kcp APIExport.
//!
//! The export's endpoint slice lists one address per shard that has a consumer; at each of them the
//! APIBindings of the export can be watched across all workspaces. A workspace is described from the
//! moment its binding is Bound until the binding is gone, its deletion included: its objects still
//! carry our finalizers then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::select_all;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, mpsc, watch};

use super::kcp::{self, Binding, EndpointSlice, Export};
use crate::connection::Connection;
use crate::environment::{Provider, Reporter};
use crate::health::Health;
use crate::registry::{ClusterSpec, ClustersOf, ProviderEvent, Reason, WatchScope};
use crate::watch::{Selectors, Watch, WatchState, Watches};
use crate::{Endpoint, Object, Subscription};
use sync_engine_mapping::object::ClusterName;
use sync_engine_mapping::object::claims::Claims;
use sync_engine_mapping::{ApiExportRef, Resource, Traits};

/// Describes the workspaces bound to one APIExport.
pub struct ApiExportProvider {
    export: ApiExportRef,
    connection: Arc<Connection>,
    /// The workspace of the export.
    home: Endpoint,
    condition: Reporter,
}

impl ApiExportProvider {
    pub fn new(connection: Arc<Connection>, export: ApiExportRef, condition: Reporter) -> Result<Self, String> {
        let home = connection.workspace(export.path.as_deref()).map_err(|error| error.to_string())?;
        Ok(Self { export, connection, home, condition })
    }
}

impl Provider for ApiExportProvider {
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
            let look = discovery.look();
            for event in look.events {
                if events.send(event).await.is_err() {
                    return;
                }
            }
            if let Some(condition) = discovery.condition() {
                self.condition.report(condition);
            }
            if !look.again {
                discovery.wait(states).await;
            }
        }
    }
}

/// What a look at the caches found.
#[derive(Default)]
struct Look {
    events: Vec<ProviderEvent>,
    /// A watch was started: its state is to be looked at as well.
    again: bool,
}

/// The caches that tell the clusters, and what was described from them so far.
struct Discovery<'a> {
    provider: &'a ApiExportProvider,
    watches: Arc<Watches>,
    wake: Arc<Notify>,
    slices: Arc<Watch>,
    _slices_subscription: Subscription,
    export: Versions,
    shards: BTreeMap<String, Shard>,
    described: BTreeMap<ClusterName, Described>,
    identity: Option<String>,
    synced: bool,
    /// Addresses of the slice that are none.
    unusable: Vec<String>,
}

/// One address of the slice.
struct Shard {
    endpoint: Endpoint,
    scope: WatchScope,
    bindings: Versions,
}

/// A cluster that was described, and the shard it was seen at.
struct Described {
    url: String,
    path: Option<String>,
    claims: Option<Claims>,
}

impl<'a> Discovery<'a> {
    fn start(provider: &'a ApiExportProvider) -> Result<Self, String> {
        // The provider's own condition speaks for its watches.
        let watches = Watches::new(Health::default());
        let wake = Arc::new(Notify::new());
        let place = ClusterName::try_from("export").map_err(|error| error.to_string())?;
        let scope = WatchScope { endpoint: provider.home.clone(), clusters: ClustersOf::One(place) };
        let slices = watches.acquire(&scope, &kcp::endpoint_slices(), &Selectors::default());
        let notify = wake.clone();
        let subscription = slices.store().subscribe(move |_| notify.notify_one());
        let by_name = Selectors { field: format!("metadata.name={}", provider.export.name), ..Selectors::default() };
        let export = Versions::start(&watches, scope, kcp::exports(), by_name, &wake);
        Ok(Self {
            provider,
            watches,
            wake,
            slices,
            _slices_subscription: subscription,
            export,
            shards: BTreeMap::new(),
            described: BTreeMap::new(),
            identity: None,
            synced: false,
            unusable: Vec::new(),
        })
    }

    /// Looks at everything that changed, and says what follows.
    fn look(&mut self) -> Look {
        let mut look = Look { again: self.export.follow(&self.watches, &self.wake), ..Look::default() };
        self.look_at_export(&mut look);
        self.look_at_slice(&mut look);
        self.look_at_bindings(&mut look);
        if !self.synced && self.is_complete() {
            self.synced = true;
            look.events.push(ProviderEvent::Synced);
        }
        look
    }

    fn look_at_export(&mut self, look: &mut Look) {
        // The hash tells whether two exports share their storage: the same API may move to another export.
        let hash = |object: Arc<Object>| Some(object.value().ok()?["status"]["identityHash"].as_str()?.to_owned());
        let found = self.export_object().and_then(hash);
        if found.is_some() && found != self.identity {
            self.identity = found;
            look.events.extend(self.identity.clone().map(ProviderEvent::Identity));
        }
    }

    fn export_object(&self) -> Option<Arc<Object>> {
        let store = self.export.watch().store();
        let key = store.keys().into_iter().find(|key| *key.name == *self.provider.export.name)?;
        store.get(&key)
    }

    /// Follows the addresses of the slice. What was seen at one that is taken away is out of sight, not deleted.
    fn look_at_slice(&mut self, look: &mut Look) {
        let urls: BTreeSet<String> =
            self.slice().iter().flat_map(EndpointSlice::urls).map(|url| url.trim_end_matches('/').to_owned()).collect();
        let lost: Vec<String> = self.shards.keys().filter(|url| !urls.contains(*url)).cloned().collect();
        for url in lost {
            self.shards.remove(&url);
            let seen_there: Vec<ClusterName> =
                self.described.iter().filter(|(_, seen)| seen.url == url).map(|(name, _)| name.clone()).collect();
            seen_there.iter().for_each(|cluster| self.look_at_cluster(cluster, Reason::EndpointLost, look));
        }
        self.unusable.clear();
        for url in urls {
            if !self.shards.contains_key(&url) {
                self.follow_shard(url, look);
            }
        }
    }

    fn follow_shard(&mut self, url: String, look: &mut Look) {
        let Ok(endpoint) = self.provider.connection.endpoint_at(&url) else {
            self.unusable.push(url);
            return;
        };
        let scope = WatchScope { endpoint: endpoint.at("clusters/*"), clusters: ClustersOf::Annotated };
        let bindings = Versions::start(&self.watches, scope.clone(), kcp::bindings(), Selectors::default(), &self.wake);
        self.shards.insert(url, Shard { endpoint, scope, bindings });
        look.again = true;
    }

    fn look_at_bindings(&mut self, look: &mut Look) {
        let mut touched = BTreeSet::new();
        for shard in self.shards.values_mut() {
            look.again |= shard.bindings.follow(&self.watches, &self.wake);
            touched.append(&mut shard.bindings.touched());
        }
        touched.iter().for_each(|cluster| self.look_at_cluster(cluster, Reason::Removed, look));
    }

    /// Describes a cluster anew; `reason` is why it is gone if no shard has it any more.
    fn look_at_cluster(&mut self, cluster: &ClusterName, reason: Reason, look: &mut Look) {
        match self.find(cluster) {
            Some((url, spec)) => {
                let known = self.described.get(cluster);
                let (path, claims) = (spec.path.clone(), spec.claims.clone());
                if known.is_none_or(|known| known.url != url || known.path != path || known.claims != claims) {
                    self.described.insert(cluster.clone(), Described { url, path, claims });
                    look.events.push(ProviderEvent::Apply(Box::new(spec)));
                }
            }
            None => {
                if self.described.remove(cluster).is_some() {
                    look.events.push(ProviderEvent::Gone(cluster.clone(), reason));
                }
            }
        }
    }

    /// Where a cluster is to be seen now: where it was, or else at the first shard that has it.
    fn find(&self, cluster: &ClusterName) -> Option<(String, ClusterSpec)> {
        let known = self.described.get(cluster).map(|known| known.url.as_str());
        let at = |url: &str| Some((url.to_owned(), self.seen_at(url, cluster, known == Some(url))?));
        known.and_then(at).or_else(|| self.shards.keys().find_map(|url| at(url)))
    }

    fn seen_at(&self, url: &str, cluster: &ClusterName, engaged: bool) -> Option<ClusterSpec> {
        let shard = self.shards.get(url)?;
        let export: Option<Export> = self.export_object().as_deref().and_then(parsed);
        let export_cluster = export.as_ref().and_then(Export::cluster);
        let bindings = shard.bindings.watch().store().of_cluster(cluster);
        let binding = bindings.iter().find_map(|(_, object)| {
            let binding: Binding = parsed(object)?;
            let seen = engaged || binding.is_bound() || object.deleting();
            (seen && binding.binds(&self.provider.export.name, export_cluster)).then_some(binding)
        })?;
        Some(ClusterSpec {
            name: cluster.clone(),
            identity: cluster.as_str().to_owned(),
            path: binding.workspace_path(),
            endpoint: shard.endpoint.at(&format!("clusters/{cluster}")),
            scope: shard.scope.clone(),
            claims: Some(binding.claims()),
            traits: Traits::default(),
            holding: None,
        })
    }

    fn slice(&self) -> Option<EndpointSlice> {
        let store = self.slices.store();
        let slices: Vec<EndpointSlice> =
            store.keys().iter().filter_map(|key| store.get(key)).filter_map(|object| parsed(&object)).collect();
        kcp::choose(&slices, &self.provider.export).cloned()
    }

    fn is_complete(&self) -> bool {
        let known = |state| matches!(state, WatchState::Synced | WatchState::NotServed);
        self.slices.is_synced()
            && self.slice().is_some()
            && self.shards.values().all(|shard| known(shard.bindings.watch().state()))
    }

    fn states(&self) -> Vec<watch::Receiver<WatchState>> {
        let shards = self.shards.values().flat_map(|shard| shard.bindings.states());
        let mut states: Vec<_> = [self.slices.states()].into_iter().chain(self.export.states()).chain(shards).collect();
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
        let export = &self.provider.export.name;
        let home = self.provider.export.path.as_deref().map_or_else(
            || format!("the workspace at {}", self.provider.home.url()),
            |path| format!("workspace {path}"),
        );
        let message = match self.slices.state() {
            WatchState::Starting => return None,
            WatchState::Failed { reason, code, .. } => {
                refusal(&reason, code, &format!("get, list and watch apiexports and apiexportendpointslices in {home}"))
            }
            WatchState::NotServed => format!(
                "{} serves no APIExportEndpointSlices: check that the kubeconfig leads to a kcp workspace, and `apiExport.path`",
                self.provider.home.url()
            ),
            WatchState::Synced => match self.trouble(export, &home) {
                Some(message) => message,
                None => return Some(Ok(())),
            },
        };
        Some(Err(message))
    }

    fn trouble(&self, export: &str, home: &str) -> Option<String> {
        let exports = self.export.watch();
        if exports.is_synced() && self.export_object().is_none() {
            return Some(format!(
                "there is no APIExport `{export}` in {home}: create it, or correct `source.apiExport`"
            ));
        }
        if self.slice().is_none() {
            return Some(match &self.provider.export.endpoint_slice {
                Some(slice) => {
                    format!("there is no APIExportEndpointSlice `{slice}` in {home}: correct `apiExport.endpointSlice`")
                }
                None => format!(
                    "no APIExportEndpointSlice in {home} refers to APIExport `{export}`: kcp makes one with the export, or create one"
                ),
            });
        }
        if let WatchState::Failed { reason, code, .. } = exports.state() {
            return Some(refusal(&reason, code, &format!("get, list and watch apiexports in {home}")));
        }
        if let Some(url) = self.unusable.first() {
            return Some(format!("the endpoint slice holds `{url}`, which is no http or https address"));
        }
        self.shards.values().find_map(|shard| match shard.bindings.watch().state() {
            WatchState::Failed { reason, code, .. } => {
                Some(refusal(&reason, code, &format!("have all verbs on apiexports/content of `{export}` in {home}")))
            }
            _ => None,
        })
    }
}

/// A failure in words; where rights are missing, which.
pub(super) fn refusal(reason: &str, code: Option<u16>, needed: &str) -> String {
    match code {
        Some(403) => format!("{reason}; let the engine's user {needed}"),
        _ => reason.to_owned(),
    }
}

pub(super) fn parsed<T: DeserializeOwned>(object: &Object) -> Option<T> {
    // What another version of kcp writes differently is as good as absent: the condition says what is missing.
    serde_json::from_str(&object.json()).ok()
}

/// A watch of one resource in the newest version that the server has.
struct Versions {
    scope: WatchScope,
    resources: [Resource; 2],
    selectors: Selectors,
    newest: Followed,
    older: Option<Followed>,
    touched: Arc<Mutex<BTreeSet<ClusterName>>>,
}

pub(super) struct Followed {
    pub(super) watch: Arc<Watch>,
    _subscription: Subscription,
}

impl Versions {
    fn start(
        watches: &Watches,
        scope: WatchScope,
        resources: [Resource; 2],
        selectors: Selectors,
        wake: &Arc<Notify>,
    ) -> Self {
        let touched = Arc::default();
        let newest = Followed::start(watches, &scope, &resources[0], &selectors, &touched, wake);
        Self { scope, resources, selectors, newest, older: None, touched }
    }

    /// Turns to the older version where the newest is not served, and back. Whether a watch was started.
    fn follow(&mut self, watches: &Watches, wake: &Arc<Notify>) -> bool {
        match (self.newest.watch.state(), &self.older) {
            (WatchState::NotServed, None) => {
                let older =
                    Followed::start(watches, &self.scope, &self.resources[1], &self.selectors, &self.touched, wake);
                self.older = Some(older);
                true
            }
            (WatchState::Synced, Some(older)) => {
                self.touch(older.watch.store().keys().into_iter().map(|key| key.cluster.clone()));
                self.older = None;
                false
            }
            _ => false,
        }
    }

    /// The watch that knows: the newest, unless only the older is served.
    fn watch(&self) -> &Arc<Watch> {
        match &self.older {
            Some(older) if older.watch.is_synced() => &older.watch,
            _ => &self.newest.watch,
        }
    }

    fn states(&self) -> impl Iterator<Item = watch::Receiver<WatchState>> {
        [Some(&self.newest), self.older.as_ref()].into_iter().flatten().map(|followed| followed.watch.states())
    }

    /// Clusters of which something changed since the last call.
    fn touched(&self) -> BTreeSet<ClusterName> {
        std::mem::take(&mut self.touched.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn touch(&self, clusters: impl Iterator<Item = ClusterName>) {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner).extend(clusters);
    }
}

impl Followed {
    pub(super) fn start(
        watches: &Watches,
        scope: &WatchScope,
        resource: &Resource,
        selectors: &Selectors,
        touched: &Arc<Mutex<BTreeSet<ClusterName>>>,
        wake: &Arc<Notify>,
    ) -> Self {
        let watch = watches.acquire(scope, resource, selectors);
        let (touched, wake) = (touched.clone(), wake.clone());
        let subscription = watch.store().subscribe(move |change| {
            touched.lock().unwrap_or_else(PoisonError::into_inner).insert(change.key.cluster.clone());
            wake.notify_one();
        });
        Self { watch, _subscription: subscription }
    }
}
