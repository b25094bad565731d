//! What a story is about: the APIs that are published, what runs them, and what is ordered. Pure: documents in, a script
//! out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::toy_cluster::ToyCluster;
use super::toy_operator::ToyOperator;
use crate::engine::DEFAULT_TARGET;
use crate::mapping::{ApiExportRef, ClusterProvider, Direction, Kind, Mapping, ProviderKind, Resource, SourceClusters};
use crate::sandbox::setup::{anything, definition};

const DEFINITION: &str = "CustomResourceDefinition";

/// A document, and the folder it was found in.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub folder: PathBuf,
    pub document: Value,
}

/// What a script is made of.
#[derive(Debug, Default)]
pub struct Given<'a> {
    pub mappings: &'a [Arc<Mapping>],
    pub providers: &'a [ClusterProvider],
    pub clusters: Vec<ToyCluster>,
    pub operators: Vec<Arc<ToyOperator>>,
    pub found: &'a [Found],
}

/// What is played.
#[derive(Debug, Clone, Default)]
pub struct Script {
    pub exports: Vec<Published>,
    /// Clusters beside the downstream one.
    pub clusters: Vec<ToyCluster>,
    /// Where Secrets with the kubeconfigs of these clusters stand, for providers that read them.
    pub listings: Vec<Listing>,
    /// CustomResourceDefinitions of the downstream cluster and those beside it.
    pub definitions: Vec<Value>,
    /// Kinds that mappings render and no document defines; the cluster may serve them anyway.
    pub undefined: Vec<Kind>,
    pub operators: Vec<Arc<ToyOperator>>,
    /// What each consumer creates first: Secrets that an order refers to, and the like.
    pub companions: Vec<Value>,
    /// What each consumer orders.
    pub orders: Vec<Order>,
    /// Why something is not played, a sentence each.
    pub left_out: Vec<String>,
}

/// An API that the provider publishes.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Path of its workspace.
    pub path: String,
    /// Of the APIExport.
    pub name: String,
    /// As the story calls it.
    pub title: String,
    pub schemas: Vec<Value>,
    /// Group and plural of each permission claim.
    pub claims: Vec<(String, String)>,
}

/// A namespace that lists clusters for a ClusterProvider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The connection of its cluster.
    pub hub: String,
    pub namespace: String,
    /// The key of the Secrets that holds a kubeconfig.
    pub key: String,
}

/// Where something is ordered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the workspace of each consumer.
    Workspaces,
    /// On the clusters of these connections.
    Clusters(BTreeSet<String>),
}

impl Place {
    /// Whether the cluster of a connection belongs to it.
    pub fn has(&self, connection: &str) -> bool {
        matches!(self, Self::Clusters(connections) if connections.contains(connection))
    }
}

/// An object that consumers create.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// In the version that it is written in.
    pub resource: Resource,
    pub place: Place,
    pub object: Value,
    /// Whether something is reported back.
    pub has_status: bool,
}

impl Order {
    /// Whether it is of a resource, in whichever version.
    pub fn is_of(&self, plural: &str, group: &str) -> bool {
        self.resource.plural == plural && self.resource.group == group
    }
}

impl Script {
    /// A story of a visitor's mappings, from the documents beside them. `None` if these have no schema of what the mappings
    /// serve.
    ///
    /// # Errors
    /// Two different objects or two clusters with one name, and an operator of a resource that no document defines.
    pub fn of(given: Given<'_>) -> Result<Option<Self>, String> {
        let mut script = Self { clusters: given.clusters, ..Self::default() };
        script.name_each_cluster_once()?;
        script.leave_out_clusters(given.mappings, given.providers);
        script.list_for(given.providers);
        let mut is_story = false;
        for mapping in given.mappings {
            is_story |= script.add(mapping, given.providers, given.found)?;
        }
        if !is_story {
            return Ok(None);
        }
        let served: Vec<Value> =
            script.undefined.iter().map(open_definition).chain(script.definitions.clone()).collect();
        for operator in given.operators {
            if served.iter().any(|definition| serves(definition, DEFINITION, &operator.resource)) {
                script.operators.push(operator);
            } else if !given.found.iter().any(|found| serves(&found.document, DEFINITION, &operator.resource)) {
                let ToyOperator { name, resource, .. } = &*operator;
                return Err(format!(
                    "ToyOperator `{name}`: no CustomResourceDefinition beside the mappings defines `{resource}`"
                ));
            }
        }
        Ok(Some(script))
    }

    /// Connections of the clusters that an operator works on. Where its resource is ordered, the orders are not its own.
    pub fn works_on(&self, operator: &ToyOperator) -> impl Iterator<Item = &str> {
        let Resource { plural, group, .. } = &operator.resource;
        let is_ordered = move |connection: &str| {
            self.orders.iter().any(|order| order.is_of(plural, group) && order.place.has(connection))
        };
        self.connections().filter(move |connection| !is_ordered(connection))
    }

    /// Connections of all clusters.
    fn connections(&self) -> impl Iterator<Item = &str> {
        [DEFAULT_TARGET].into_iter().chain(self.clusters.iter().map(|cluster| cluster.name.as_str()))
    }

    fn name_each_cluster_once(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        let again = self.clusters.iter().find(|cluster| !names.insert(&cluster.name));
        again.map_or(Ok(()), |cluster| Err(format!("two ToyClusters are called `{}`; rename one", cluster.name)))
    }

    /// Clusters that no mapping and no provider names are of another story.
    fn leave_out_clusters(&mut self, mappings: &[Arc<Mapping>], providers: &[ClusterProvider]) {
        let mut named: BTreeSet<String> = BTreeSet::new();
        for mapping in mappings {
            named.insert(mapping.target.clone());
            named.extend(mapping.target_rule.iter().flat_map(|rule| rule.allowed.iter().cloned()));
        }
        for kind in providers.iter().flat_map(|provider| provider.kind.parts()) {
            named.extend(kind.hub().map(str::to_owned));
            named.extend(self.clusters_of(kind));
        }
        self.clusters.retain(|cluster| named.contains(&cluster.name));
    }

    fn list_for(&mut self, providers: &[ClusterProvider]) {
        for kind in providers.iter().flat_map(|provider| provider.kind.parts()) {
            let ProviderKind::KubeconfigSecrets(spec) = kind else { continue };
            let (hub, namespace, key) = (spec.connection.clone(), spec.namespace.clone(), spec.key.clone());
            let listing = Listing { hub, namespace, key };
            if self.connections().any(|known| known == spec.connection) && !self.listings.contains(&listing) {
                self.listings.push(listing);
            }
        }
    }

    /// The clusters that a provider finds in the sandbox; none where it looks for them elsewhere.
    fn clusters_of(&self, kind: &ProviderKind) -> BTreeSet<String> {
        let known = |name: &str| self.connections().any(|known| known == name);
        match kind {
            ProviderKind::Kubeconfig(one) if known(&one.connection) => [one.connection.clone()].into(),
            ProviderKind::KubeconfigSecrets(hub) if known(&hub.connection) => {
                let labels = |cluster: &ToyCluster| Value::from_iter(cluster.labels.clone());
                let selected = self.clusters.iter().filter(|cluster| hub.selector.matches(Some(&labels(cluster))));
                selected.map(|cluster| cluster.name.clone()).collect()
            }
            ProviderKind::Multi(_) => {
                let parts: Vec<_> = kind.parts().into_iter().map(|part| self.clusters_of(part)).collect();
                // One that cannot be listed holds up the others.
                let is_whole = !parts.iter().any(BTreeSet::is_empty);
                parts.into_iter().filter(|_| is_whole).flatten().collect()
            }
            _ => BTreeSet::new(),
        }
    }

    /// Where the sources of a mapping are ordered, and the export that brings them there.
    ///
    /// # Errors
    /// Why they cannot be.
    fn place_of<'a>(
        &self,
        mapping: &'a Mapping,
        providers: &'a [ClusterProvider],
    ) -> Result<(Place, Option<&'a ApiExportRef>), String> {
        let name = match &mapping.source.clusters {
            SourceClusters::ApiExport(export) => return Ok((Place::Workspaces, Some(export))),
            SourceClusters::Provider(name) => name,
        };
        match providers.iter().find(|provider| provider.name == *name).map(|provider| &provider.kind) {
            None => Err(format!("there is no ClusterProvider `{name}`")),
            Some(kind) => match self.clusters_of(kind) {
                clusters if clusters.is_empty() => {
                    Err(format!("the sandbox has no cluster of the ClusterProvider `{name}`"))
                }
                clusters => Ok((Place::Clusters(clusters), None)),
            },
        }
    }

    /// Whether the mapping can be played.
    fn add(&mut self, mapping: &Mapping, providers: &[ClusterProvider], found: &[Found]) -> Result<bool, String> {
        let (place, export) = match self.place_of(mapping, providers) {
            Ok(place) => place,
            Err(why) => {
                self.leave_out(mapping, &why);
                return Ok(false);
            }
        };
        let resource = &mapping.source.resource;
        let what = if export.is_some() { "APIResourceSchema" } else { DEFINITION };
        let Some(schema) = found.iter().find(|found| serves(&found.document, what, resource)) else {
            self.leave_out(mapping, &format!("no {what} of {resource} is there"));
            return Ok(false);
        };
        let kind = Kind::new(&resource.group, &resource.version, text(&schema.document["spec"]["names"]["kind"]));
        match export {
            Some(export) => self.publish(export, &schema.document, found),
            None => self.define(&kind, found),
        }
        for kind in mapping.objects.iter().map(|rule| &rule.kind) {
            self.define(kind, found);
        }
        // What is only read on the target is served there, too.
        for read in mapping.related.iter().filter(|rule| rule.direction == Direction::ToSource) {
            let Resource { group, version, .. } = &read.resource;
            if let Some(definition) = found.iter().find(|found| serves(&found.document, DEFINITION, &read.resource)) {
                self.define(&Kind::new(group, version, text(&definition.document["spec"]["names"]["kind"])), found);
            }
        }
        let served = versions(&schema.document).filter(|version| version["served"] != false);
        let kinds = served.map(|version| Kind::new(&resource.group, text(&version["name"]), &kind.kind));
        let kinds: Vec<Kind> = kinds.collect();
        let is_namespaced = schema.document["spec"]["scope"] != "Cluster";
        let has_status = reports(mapping, &schema.document);
        let mut folders: BTreeSet<&Path> = BTreeSet::new();
        for Found { folder, document } in found {
            let Some(kind) = kinds.iter().find(|kind| is_of(document, kind)) else { continue };
            let object = if is_namespaced { in_namespace(document) } else { document.clone() };
            let resource = kind.resource(&resource.plural);
            self.order(Order { resource, place: place.clone(), object, has_status })?;
            folders.insert(folder);
        }
        if folders.is_empty() {
            let versions: Vec<&str> = kinds.iter().map(|kind| kind.version.as_str()).collect();
            let versions = versions.join(" or ");
            self.left_out.push(format!("no {} of {}/{versions} is there to be created", kind.kind, resource.group));
        }
        self.accompany(found, &folders);
        Ok(true)
    }

    fn order(&mut self, order: Order) -> Result<(), String> {
        match self.orders.iter_mut().find(|known| is_same(known, &order)) {
            None => self.orders.push(order),
            // Another mapping of the same resource, or the same file twice.
            Some(known) if known.object == order.object => {
                if let (Place::Clusters(known), Place::Clusters(more)) = (&mut known.place, order.place) {
                    known.extend(more);
                }
            }
            Some(_) => {
                let [namespace, name] = ["namespace", "name"].map(|field| text(&order.object["metadata"][field]));
                let kind = text(&order.object["kind"]);
                return Err(format!("two different documents are {kind} {namespace}/{name}; rename one"));
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, mapping: &Mapping, why: &str) {
        self.left_out.push(format!("mapping `{}` is not played: {why}", mapping.name));
    }

    fn publish(&mut self, export: &ApiExportRef, schema: &Value, found: &[Found]) {
        let path = export.path.clone().unwrap_or_else(|| "root:provider".to_owned());
        let title = schema["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
        let known = self.exports.iter_mut().find(|known| known.path == path && known.name == export.name);
        match known {
            Some(known) if known.schemas.contains(schema) => {}
            Some(known) => {
                known.title = format!("{}, {title}", known.title);
                known.schemas.push(schema.clone());
            }
            None => {
                let claims = claims(&export.name, found);
                let schemas = vec![schema.clone()];
                self.exports.push(Published { path, name: export.name.clone(), title, schemas, claims });
            }
        }
    }

    fn define(&mut self, kind: &Kind, found: &[Found]) {
        let definition = found.iter().find(|found| defines(&found.document, kind));
        match definition {
            Some(found) if self.definitions.contains(&found.document) => {}
            Some(found) => self.definitions.push(found.document.clone()),
            None if self.undefined.contains(kind) => {}
            None => self.undefined.push(kind.clone()),
        }
    }

    /// What lies beside the orders of some folders, and is of a kind that every workspace has.
    fn accompany(&mut self, found: &[Found], folders: &BTreeSet<&Path>) {
        for beside in found.iter().filter(|found| folders.contains(found.folder.as_path())) {
            let everywhere = ["Secret", "ConfigMap"].iter().any(|kind| beside.document["kind"] == *kind);
            let companion = in_namespace(&beside.document);
            if everywhere && beside.document["apiVersion"] == "v1" && !self.companions.contains(&companion) {
                self.companions.push(companion);
            }
        }
    }
}

/// Whether a mapping writes a status; the engine's own conditions only where the schema has room for them.
fn reports(mapping: &Mapping, schema: &Value) -> bool {
    let version = mapping.source.resource.version.as_str();
    let schema = versions(schema).find(|known| known["name"] == version).map(|version| &version["schema"]);
    // A CustomResourceDefinition has it a level deeper than an APIResourceSchema.
    let schema = schema.map(|schema| schema.get("openAPIV3Schema").unwrap_or(schema));
    let has_conditions =
        schema.is_some_and(|schema| schema.pointer("/properties/status/properties/conditions").is_some());
    let rules = &mapping.status;
    !rules.fields.is_empty() || !rules.conditions.is_empty() || (has_conditions && !rules.engine_conditions.is_empty())
}

/// Whether two documents are of one object.
fn is_same(one: &Order, other: &Order) -> bool {
    let named = |order: &Order| ["namespace", "name"].map(|field| order.object["metadata"][field].clone());
    let in_workspaces = |order: &Order| order.place == Place::Workspaces;
    one.is_of(&other.resource.plural, &other.resource.group)
        && named(one) == named(other)
        && in_workspaces(one) == in_workspaces(other)
}

/// A document without a namespace stands in `default`, as for kubectl.
fn in_namespace(object: &Value) -> Value {
    let mut object = object.clone();
    if object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = "default".into();
    }
    object
}

/// The versions of an APIResourceSchema or a CustomResourceDefinition.
fn versions(schema: &Value) -> impl Iterator<Item = &Value> {
    schema["spec"]["versions"].as_array().into_iter().flatten()
}

/// Whether a document of a kind defines something in a version.
fn has_version(document: &Value, kind: &str, group: &str, version: &str) -> bool {
    let mut versions = versions(document);
    document["kind"] == kind && document["spec"]["group"] == group && versions.any(|known| known["name"] == version)
}

/// Whether a document of a kind defines a resource.
fn serves(document: &Value, kind: &str, Resource { group, version, plural }: &Resource) -> bool {
    has_version(document, kind, group, version) && document["spec"]["names"]["plural"] == *plural
}

fn defines(document: &Value, kind: &Kind) -> bool {
    has_version(document, DEFINITION, &kind.group, &kind.version) && document["spec"]["names"]["kind"] == kind.kind
}

fn is_of(document: &Value, kind: &Kind) -> bool {
    document["kind"] == kind.kind && document["apiVersion"] == kind.api_version() && document["metadata"].is_object()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What an APIExport document of this name asks for.
fn claims(name: &str, found: &[Found]) -> Vec<(String, String)> {
    let is_it = |found: &&Found| found.document["kind"] == "APIExport" && found.document["metadata"]["name"] == name;
    let claims = found.iter().find(is_it).and_then(|found| found.document["spec"]["permissionClaims"].as_array());
    let text = |value: &Value| text(value).to_owned();
    claims.into_iter().flatten().map(|claim| (text(&claim["group"]), text(&claim["resource"]))).collect()
}

/// A definition of a kind without fields of its own: whatever is written is kept.
pub fn open_definition(kind: &Kind) -> Value {
    let resource = format!("{}.{}.{}", kind.plural(), kind.version, kind.group);
    definition(&resource, &kind.kind, &anything())
}
