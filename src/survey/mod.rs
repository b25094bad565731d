//! What live clusters hold now, read once: for verbs that compare, check and copy. It writes nothing.
//!
//! The engine's own caches are watches; a verb that ends needs one look. What is read is handed to the same planner.

pub mod access;
pub mod engines;
mod observe;
mod openapi;
pub mod orphans;
mod remains;
pub mod schemas;
pub mod servers;
mod trial;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::engine::inventory::{Inventories, Inventory};
use crate::engine::target::{ServedKind, Unserved, identity, other_version, served};
use crate::mapping::schema::schema_names;
use crate::mapping::{ApiExportRef, Kind, Mapping, ProviderKind, Resource, Side, SourceClusters, Traits};
use crate::multicluster::connection::{Connection, ConnectionSource, ConnectionSpec, Machine, flag};
use crate::multicluster::environment::CustomProviders;
use crate::multicluster::identity::cluster_identity;
use crate::multicluster::raw::CLUSTER_ANNOTATION;
use crate::multicluster::{ApiPath, Endpoint, Reply, RequestError};
use crate::object::claims::Claims;
use crate::object::marks::{self, Origin, Writer};
use crate::object::{ClusterName, Key, is_deleting, list_items, metadata};
use crate::plan::Phase;
use crate::provider::kcp::{self, Binding, EndpointSlice};
use crate::provider::members::Groups;

pub use observe::{Rehearsed, Scene};
pub use remains::{Remains, Remnant};
pub use whole::{Former, Whole};

/// The connections by their names, and what says where providers' clusters are.
#[derive(Default)]
pub struct Surveyor {
    pub connections: BTreeMap<String, Arc<Connection>>,
    pub providers: BTreeMap<String, ProviderKind>,
    pub machine: Machine,
    /// The engine's id.
    pub engine: String,
    /// Of its state stores.
    pub namespace: String,
    /// The connection of the home cluster.
    pub home: String,
    /// The target that is looked at, where a mapping has several; `None`: the first that it names.
    pub target: Option<String>,
}

/// A workspace or cluster where sources of a mapping stand, or could.
#[derive(Clone)]
pub struct SourceCluster {
    pub name: ClusterName,
    /// As ownership labels and annotations have it.
    pub identity: String,
    pub path: Option<String>,
    /// Where its API is served, for all clusters of a shard.
    pub shard: Endpoint,
    /// Where its own objects are served.
    pub own: Endpoint,
    /// Whether the engine engages it: of a workspace, the binding is seen.
    pub engaged: bool,
    /// Permission claims that are in force there; `None`: RBAC alone decides, or the binding is not seen.
    pub claims: Option<Claims>,
    /// By what a mapping selects it.
    pub traits: Traits,
    pub sources: Vec<Arc<Value>>,
}

impl SourceCluster {
    /// For people.
    pub fn place(&self) -> &str {
        self.path.as_deref().unwrap_or(self.name.as_str())
    }

    /// A source there, as the engine knows it, and as ownership annotations name it.
    pub fn identify(&self, resource: &Resource, source: &Value) -> (Key, Origin) {
        let key = Key::new(self.name.clone(), metadata(source, "namespace"), metadata(source, "name"));
        let origin = Origin::new(resource, &self.identity, &key);
        (key, origin)
    }
}

/// A target, and what of a mapping stands there.
#[derive(Clone)]
pub struct TargetCluster {
    pub endpoint: Endpoint,
    /// Hash of its identity.
    pub identity: String,
    /// How the mapping's kinds are served, or why they are not; then also another version of them that is.
    pub kinds: BTreeMap<Kind, Result<ServedKind, Unserved>>,
    /// Objects that carry the mapping's label.
    pub standing: Standing,
    /// What the mapping's inventory says, or why it cannot be read; nothing where nobody asked for it.
    pub inventory: Result<Inventory, String>,
}

impl TargetCluster {
    /// The kinds that a mapping has there, each in one version: in that of its document as long as that writes it. Who only looks
    /// or deletes goes by one that is served.
    pub fn kinds_of(&self, mapping: &Mapping, phase: Phase) -> BTreeSet<&Kind> {
        let is_written = |kind: &Kind| phase == Phase::Active && mapping.makes(kind);
        let mut all: Vec<_> = self.kinds.iter().collect();
        all.sort_by_key(|(kind, served)| (!is_written(kind), served.is_err(), !mapping.makes(kind)));
        let mut seen: BTreeSet<&Kind> = BTreeSet::new();
        for (kind, _) in all {
            if is_written(kind) || !seen.iter().any(|one| one.is_same_in_any_version(kind)) {
                seen.insert(kind);
            }
        }
        seen
    }
}

/// Objects by kind, those of a kind in the order of their namespaces: what a source has is found without a look at all others.
pub type Standing = BTreeMap<Kind, Vec<Arc<Value>>>;

/// Why something cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum Unseen {
    #[error("no kubeconfig is given for the connection `{0}`; give one with `{flag}`", flag = flag(.0))]
    NoConnection(String),
    #[error("{0}")]
    Connection(String),
    #[error("there is no APIExport `{name}` in {place}; create it, or correct `source.apiExport`")]
    NoExport { name: String, place: String },
    #[error("{0}")]
    NoSlice(String),
    #[error(
        "{why}; an engine does not need this right, so `sync-engine rbac` does not print it: let your user get {what}, or give the \
         kubeconfig of one who may"
    )]
    NotOfEngine { what: &'static str, why: RequestError },
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl Surveyor {
    pub fn connection(&self, name: &str) -> Result<&Arc<Connection>, Unseen> {
        self.connections.get(name).ok_or_else(|| Unseen::NoConnection(name.to_owned()))
    }

    /// The workspace of an export.
    pub fn workspace(&self, export: &ApiExportRef) -> Result<Endpoint, Unseen> {
        let connection = self.connection(&export.connection)?;
        connection.workspace(export.path.as_deref()).map_err(|error| Unseen::Connection(error.to_string()))
    }

    /// The APIExport as it stands. It is read as the engine reads it: by a list of its name.
    pub async fn export(&self, export: &ApiExportRef) -> Result<Value, Unseen> {
        let workspace = self.workspace(export)?;
        let by_name = format!("metadata.name={}", export.name);
        for resource in kcp::exports() {
            let path = ApiPath::all(&resource).map_err(RequestError::from)?;
            match list(&workspace, &path.query("fieldSelector", &by_name)).await {
                Ok(found) => {
                    let missing = || Unseen::NoExport { name: export.name.clone(), place: workspace.url().to_owned() };
                    return found.into_iter().next().ok_or_else(missing);
                }
                Err(error) if error.kind_not_served() || error.code() == Some(404) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Unseen::NoExport { name: export.name.clone(), place: workspace.url().to_owned() })
    }

    /// Whether an export publishes a resource; else what it does publish. A schema that may not be read is believed.
    pub async fn publishes(
        &self,
        export: &ApiExportRef,
        found: &Value,
        resource: &Resource,
    ) -> Result<Result<(), Vec<String>>, Unseen> {
        let workspace = self.workspace(export)?;
        let mut published = Vec::new();
        for name in schema_names(found) {
            // `<prefix>.<plural>.<group>`
            let served = name.split_once('.').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
            if served != format!("{}.{}", resource.plural, resource.group) {
                published.push(served);
                continue;
            }
            let schema = match object(&workspace, &kcp::resource_schemas(), "", &name).await {
                Ok(schema) => schema,
                Err(error) if error.is_not_found_of(&name) => continue,
                Err(error) if error.is_forbidden() => return Ok(Ok(())),
                Err(error) => return Err(error.into()),
            };
            let versions = schema["spec"]["versions"].as_array().into_iter().flatten();
            let versions: Vec<&str> = versions.filter_map(|version| version["name"].as_str()).collect();
            if versions.contains(&&*resource.version) {
                return Ok(Ok(()));
            }
            published
                .extend(versions.iter().map(|version| format!("{}.{version}.{}", resource.plural, resource.group)));
        }
        Ok(Err(published))
    }

    /// Addresses of the shards on which an export is bound; none where nobody has bound it.
    pub async fn shards(&self, export: &ApiExportRef) -> Result<Vec<Endpoint>, Unseen> {
        let workspace = self.workspace(export)?;
        // As the provider reads them: one that does not read says nothing.
        let slices = items(&workspace, &kcp::endpoint_slices(), None).await?.into_iter();
        let slices: Vec<EndpointSlice> = slices.filter_map(|slice| serde_json::from_value(slice).ok()).collect();
        let missing = || {
            let (name, place) = (&export.name, workspace.url());
            Unseen::NoSlice(match &export.endpoint_slice {
                Some(slice) => {
                    format!(
                        "there is no APIExportEndpointSlice `{slice}` in {place}; correct `apiExport.endpointSlice`"
                    )
                }
                None => format!(
                    "no APIExportEndpointSlice in {place} refers to APIExport `{name}`; kcp makes one with the export, or create one"
                ),
            })
        };
        let slice = kcp::choose(&slices, export).ok_or_else(missing)?;
        let connection = self.connection(&export.connection)?;
        let endpoint = |url| connection.endpoint_at(url).map_err(|error| Unseen::Connection(error.to_string()));
        slice.urls().into_iter().map(endpoint).collect()
    }

    /// Every workspace or cluster that may have sources of a mapping.
    pub async fn sources(&self, mapping: &Mapping) -> Result<Vec<SourceCluster>, Unseen> {
        let provider = match &mapping.source.clusters {
            SourceClusters::ApiExport(export) => return self.sources_of_export(mapping, export).await,
            SourceClusters::Provider(provider) => provider,
        };
        let mut found: Vec<SourceCluster> = Vec::new();
        for (name, endpoint, traits) in self.clusters(provider).await? {
            let identity = cluster_identity(&endpoint).await?;
            if found.iter().any(|other| other.identity == identity) {
                continue;
            }
            let sources = items(&endpoint, &mapping.source.resource, None).await?;
            let sources = sources.into_iter().map(Arc::new).collect();
            let (own, shard, path, claims) = (endpoint.clone(), endpoint, None, None);
            found.push(SourceCluster { name, identity, path, own, shard, engaged: true, claims, traits, sources });
        }
        Ok(found)
    }

    /// The clusters of a `ClusterProvider`, by the names that the engine gives them.
    ///
    /// # Errors
    /// Where one of them cannot be told or used: whoever asks wants to know of all.
    pub async fn clusters(&self, provider: &str) -> Result<Vec<(ClusterName, Endpoint, Traits)>, Unseen> {
        let kind = self.providers.get(provider).ok_or_else(|| {
            Unseen::Connection(format!("there is no ClusterProvider `{provider}` that can be looked at"))
        })?;
        if let ProviderKind::Kubeconfig(one) = kind {
            let name = ClusterName::try_from(provider).map_err(|error| Unseen::Connection(error.to_string()))?;
            return Ok(vec![(name, self.connection(&one.connection)?.endpoint(), Traits::default())]);
        }
        let connection = |name: &str| self.connection(name).cloned().map_err(|error| error.to_string());
        let Groups { groups, mut refused } =
            Groups::of(provider, kind, connection, &CustomProviders::default(), &self.machine, &Arc::default())
                .map_err(Unseen::Connection)?;
        let (mut members, mut traits) = (BTreeMap::new(), BTreeMap::new());
        for mut group in groups {
            let listed = group.members.look().await.map_err(Unseen::Connection)?;
            let listed = group.named(listed);
            members.extend(listed.members);
            traits.extend(listed.traits);
            refused.extend(listed.refused);
        }
        if let Some(why) = refused.into_iter().next() {
            return Err(Unseen::Connection(why));
        }
        let mut open = |(name, source): (ClusterName, ConnectionSource)| {
            let connection = Connection::open(ConnectionSpec { name: format!("{provider}/{name}"), source });
            let traits = traits.remove(&name).unwrap_or_default();
            connection.map(|one| (name, one.endpoint(), traits)).map_err(|error| Unseen::Connection(error.to_string()))
        };
        members.into_iter().map(&mut open).collect()
    }

    async fn sources_of_export(&self, mapping: &Mapping, export: &ApiExportRef) -> Result<Vec<SourceCluster>, Unseen> {
        let mut clusters: BTreeMap<ClusterName, SourceCluster> = BTreeMap::new();
        for shard in self.shards(export).await? {
            let everywhere = shard.at("/clusters/*");
            let cluster = |name: ClusterName| SourceCluster {
                path: None,
                shard: everywhere.clone(),
                own: shard.at(&format!("/clusters/{name}")),
                identity: name.to_string(),
                name,
                engaged: false,
                claims: None,
                traits: Traits::default(),
                sources: Vec::new(),
            };
            let bindings = bindings(&everywhere, export).await?.into_iter().flatten();
            for Bound { cluster: name, binding, engaged } in bindings {
                let cluster = clusters.entry(name.clone()).or_insert_with(|| cluster(name));
                cluster.path = cluster.path.take().or(binding.workspace_path());
                cluster.engaged |= engaged;
                if engaged {
                    cluster.claims = Some(binding.claims());
                }
            }
            for source in items(&everywhere, &mapping.source.resource, None).await? {
                let name = marks::annotation(&source, CLUSTER_ANNOTATION).map(ClusterName::try_from);
                let Some(Ok(name)) = name else { continue };
                let cluster = clusters.entry(name.clone()).or_insert_with(|| cluster(name));
                cluster.sources.push(Arc::new(source));
            }
        }
        Ok(clusters.into_values().collect())
    }

    /// The permission claims that are in force in each workspace that binds an export, by the workspace's path, where that is
    /// known. `None`: the APIBindings of a shard cannot be read.
    pub async fn claims(&self, export: &ApiExportRef) -> Result<Option<BTreeMap<String, Claims>>, Unseen> {
        let mut claims = BTreeMap::new();
        for shard in self.shards(export).await? {
            let Ok(Some(bindings)) = bindings(&shard.at("/clusters/*"), export).await else { return Ok(None) };
            for Bound { cluster, binding, .. } in bindings.into_iter().filter(|one| one.engaged) {
                claims.insert(binding.workspace_path().unwrap_or_else(|| cluster.to_string()), binding.claims());
            }
        }
        Ok(Some(claims))
    }

    /// The state stores of the engine on a cluster.
    pub fn inventories(&self, endpoint: Endpoint) -> Inventories {
        Inventories { endpoint, engine: self.engine.clone(), namespace: self.namespace.clone() }
    }

    /// The connection of a mapping's target, or of its state store where its objects are beside their sources.
    pub fn target_name<'a>(&'a self, mapping: &'a Mapping) -> &'a str {
        match &self.target {
            Some(target) if mapping.target_rule.is_some() => target,
            _ => mapping.state_store(&self.home),
        }
    }

    /// A target of a mapping, with what of the mapping stands there; of a fleet, its first cluster.
    pub async fn target(&self, mapping: &Mapping, name: &str) -> Result<TargetCluster, Unseen> {
        let endpoint = self.endpoint_of(name).await?;
        self.target_of(mapping, endpoint, Ok(Inventory::default())).await
    }

    /// Of a connection, of `PROVIDER/CLUSTER`, or of the first cluster of a provider.
    async fn endpoint_of(&self, name: &str) -> Result<Endpoint, Unseen> {
        let (provider, cluster) = name.split_once('/').map_or((name, None), |(one, cluster)| (one, Some(cluster)));
        if cluster.is_none() && !self.providers.contains_key(provider) || self.connections.contains_key(name) {
            return Ok(self.connection(name)?.endpoint());
        }
        let mut clusters = self.clusters(provider).await?.into_iter();
        let found = clusters.find(|(name, ..)| cluster.is_none_or(|wanted| wanted == name.as_str()));
        let missing =
            || Unseen::Connection(format!("the ClusterProvider `{provider}` does not list such a cluster now"));
        found.map(|(_, endpoint, _)| endpoint).ok_or_else(missing)
    }

    /// The same with the kinds that only earlier versions of the mapping used, as its inventory keeps them.
    pub async fn target_with_past(&self, mapping: &Mapping) -> Result<TargetCluster, Unseen> {
        let endpoint = self.connection(self.target_name(mapping))?.endpoint();
        let inventory = self.inventories(endpoint.clone()).get(&mapping.name).await;
        let inventory = inventory.map(Option::unwrap_or_default);
        let unreadable = |error| format!("the mapping's state store cannot be read: {error}");
        self.target_of(mapping, endpoint, inventory.map_err(unreadable)).await
    }

    async fn target_of(
        &self,
        mapping: &Mapping,
        endpoint: Endpoint,
        inventory: Result<Inventory, String>,
    ) -> Result<TargetCluster, Unseen> {
        let identity = identity(&endpoint).await.map_err(Unseen::Connection)?;
        let label = format!("{}={}", marks::MAPPING, self.writer(mapping).label());
        let (mut kinds, mut standing) = (BTreeMap::new(), BTreeMap::new());
        let past = inventory.iter().flat_map(|inventory| &inventory.kinds);
        let named = mapping.objects.iter().map(|rule| &rule.kind).chain(past);
        let mut open: Vec<Kind> = named.filter(|kind| kind.side == Side::Target).cloned().collect();
        while let Some(kind) = open.pop() {
            if kinds.contains_key(&kind) {
                continue;
            }
            let found = served(&endpoint, &kind).await;
            if let Ok(served) = &found {
                let objects = items(&endpoint, &served.resource, Some(&label)).await?;
                standing.insert(kind.clone(), by_namespace(objects));
            }
            if let Err(Unserved::Missing(_)) = found {
                let plural = inventory.iter().find_map(|store| store.plural(&kind)).unwrap_or_else(|| kind.plural());
                if let Ok(Some(version)) = other_version(&endpoint, &kind.resource(&plural)).await {
                    open.push(Kind::new(kind.group.clone(), version, kind.kind.clone()));
                }
            }
            kinds.insert(kind, found);
        }
        Ok(TargetCluster { endpoint, identity, kinds, standing, inventory })
    }

    /// Who writes for a mapping.
    pub fn writer(&self, mapping: &Mapping) -> Writer {
        Writer::new(&self.engine, &mapping.name)
    }
}

/// A workspace that binds something.
struct Bound {
    cluster: ClusterName,
    binding: Binding,
    /// Whether it binds the export that was asked for.
    engaged: bool,
}

/// The workspaces that bind something. `None`: nobody lets us read bindings.
async fn bindings(everywhere: &Endpoint, export: &ApiExportRef) -> Result<Option<Vec<Bound>>, RequestError> {
    for resource in kcp::bindings() {
        let bindings = match items(everywhere, &resource, None).await {
            Ok(bindings) => bindings,
            Err(error) if error.retryable() => return Err(error),
            Err(_) => continue,
        };
        let read = |document: Value| {
            let leaving = is_deleting(&document);
            let binding: Binding = serde_json::from_value(document).ok()?;
            let cluster = ClusterName::try_from(binding.cluster()?).ok()?;
            let engaged = binding.binds(&export.name, None) && (binding.is_bound() || leaving);
            Some(Bound { cluster, binding, engaged })
        };
        return Ok(Some(bindings.into_iter().filter_map(read).collect()));
    }
    Ok(None)
}

/// In the order of their namespaces.
fn by_namespace(mut objects: Vec<Value>) -> Vec<Arc<Value>> {
    objects.sort_by(|one, other| metadata(one, "namespace").cmp(metadata(other, "namespace")));
    objects.into_iter().map(Arc::new).collect()
}

/// All objects of a resource that carry a label, with their kinds.
pub async fn items(endpoint: &Endpoint, resource: &Resource, label: Option<&str>) -> Result<Vec<Value>, RequestError> {
    let path = ApiPath::all(resource)?;
    list(endpoint, &label.map_or(path.clone(), |label| path.query("labelSelector", label))).await
}

async fn list(endpoint: &Endpoint, path: &ApiPath) -> Result<Vec<Value>, RequestError> {
    Ok(list_items(endpoint.parse(&get(endpoint, path).await?)?))
}

/// One object.
pub async fn object(
    endpoint: &Endpoint,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Value, RequestError> {
    endpoint.parse(&get(endpoint, &ApiPath::object(resource, namespace, name)?).await?)
}

/// The same; `None` where it is missing.
pub async fn find(
    endpoint: &Endpoint,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, RequestError> {
    match object(endpoint, resource, namespace, name).await {
        Err(error) if error.is_not_found_of(name) => Ok(None),
        found => found.map(Some),
    }
}

/// How often a server is asked that says that it is not ready yet, and how long it is left alone where it does not say.
const ATTEMPTS: usize = 6;
const PAUSE: Duration = Duration::from_secs(1);

/// A GET, repeated while the server is too busy or still setting up.
async fn get(endpoint: &Endpoint, path: &ApiPath) -> Result<Reply, RequestError> {
    for _ in 1..ATTEMPTS {
        match endpoint.get(path).await {
            Err(error) if matches!(error.code(), Some(429 | 503 | 504)) => {
                tokio::time::sleep(error.retry_after().unwrap_or(PAUSE)).await;
            }
            answer => return answer,
        }
    }
    endpoint.get(path).await
}
