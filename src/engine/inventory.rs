//! The state store of a mapping: one ConfigMap per engine and mapping on each target.
//!
//! It holds the kinds in use, the last good document, the namespace rules so far, and the source as it was. It outlives the
//! mapping's file: deletions go on from it, and a source that changed is noticed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hyper::body::Bytes;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{DEFAULT_TARGET, approval};
use crate::catalog;
use crate::mapping::{Kind, Resource, Side};
use crate::multicluster::endpoint::DeleteOptions;
use crate::multicluster::{ApiPath, Endpoint, RequestError};
use crate::object::hash::tuple_hash;
use crate::object::marks::{self, ENGINE, Writer};
use crate::object::{count, list_items, metadata};

/// Version of the format. A reader refuses a later one.
const FORMAT: &str = "1";

/// Kinds of one mapping: those of a document, and of the one before it.
const MOST_KINDS: usize = 2 * catalog::MOST_KINDS;

const MOMENT: SignedDuration = SignedDuration::from_millis(1);

/// What one state store says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    pub mapping: String,
    pub kinds: BTreeSet<Kind>,
    /// The plurals of those that the target has served, in any version: they name the CustomResourceDefinitions.
    pub plurals: BTreeMap<Kind, String>,
    pub document: Arc<str>,
    /// When it was written first: state stores on other targets may hold an earlier or a later one.
    pub recorded: Option<Timestamp>,
    /// Documents of the `ClusterProvider`s that the source's clusters and the targets come from; empty where there are none.
    pub provider: String,
    pub source: SourceId,
    /// Where its sources may carry the finalizer: clusters by identity, and addresses of kcp shards.
    pub clusters: BTreeSet<String>,
    /// Sources of former documents that may still carry the engine's finalizer: an earlier version of the engine served them
    /// beside those of the document.
    pub former: Vec<Former>,
    /// The namespace rules so far.
    pub placements: BTreeSet<String>,
    /// The targets so far, where the mapping has several.
    pub targets: BTreeSet<String>,
    /// What of the status is to go where the document no longer writes it: as [`StatusRules::written`] tells it, of this
    /// document and of those before it that some source may still show.
    ///
    /// [`StatusRules::written`]: crate::mapping::StatusRules::written
    pub status: BTreeSet<String>,
    /// Hash of the release that is under way; home tells how far it is. Empty: none is.
    pub release: String,
    /// Whether an earlier version of the engine, which counted otherwise, held what the document deletes.
    pub is_held_as_before: bool,
    /// The connection of the engine's home cluster; empty for the default.
    pub home: String,
    /// Whether it is what home says of a mapping: its document and its targets alone.
    pub is_list: bool,
    /// The version that was read; empty before the first write.
    pub resource_version: String,
}

/// Which objects a mapping serves.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceId {
    /// `plural.group`.
    pub resource: String,
    /// `status.identityHash` of the APIExport, or the identity of the cluster.
    pub identity: String,
}

/// A source that a former document of the mapping served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Former {
    pub source: SourceId,
    pub document: String,
}

impl Inventory {
    /// The plural by which the target has served a kind: all its versions have one CustomResourceDefinition.
    pub fn plural(&self, kind: &Kind) -> Option<String> {
        self.plurals.iter().find(|(one, _)| one.is_same_in_any_version(kind)).map(|(_, plural)| plural.clone())
    }

    /// What this state store and another one of the same mapping say together: the later document, and the kinds, clusters,
    /// namespaces, targets and former sources of both.
    pub fn and(self, other: Self) -> Self {
        let (mut later, earlier) = if other.recorded > self.recorded { (other, self) } else { (self, other) };
        later.kinds.extend(earlier.kinds);
        later.plurals.extend(earlier.plurals);
        later.clusters.extend(earlier.clusters);
        later.placements.extend(earlier.placements);
        later.targets.extend(earlier.targets);
        later.former.extend(earlier.former);
        later.former.push(Former { source: earlier.source, document: earlier.document.to_string() });
        later
    }

    /// The same, as far as it is about former sources.
    pub fn former_alone(&self) -> Self {
        let (source, document, clusters) = Default::default();
        Self { source, document, clusters, ..self.clone() }
    }

    fn name(&self, engine: &str) -> String {
        if self.is_list { name_of_list(engine, &self.mapping) } else { name(engine, &self.mapping) }
    }

    /// When a document is recorded that follows this one: later, whatever the clock says.
    pub fn next_moment(&self, now: Timestamp) -> Timestamp {
        self.recorded.map_or(now, |before| now.max(before.saturating_add(MOMENT).unwrap_or(before)))
    }

    /// All that is needed to serve the mapping without its files.
    pub fn documents(&self) -> Arc<str> {
        if self.provider.is_empty() {
            self.document.clone()
        } else {
            // The mapping comes last. Anything behind it would become part of its text, and the engine would see an edited
            // document.
            format!("{}\n---\n{}", self.provider, self.document).into()
        }
    }
}

/// What a release knows a document by, or the step from one to another.
pub fn document_hash(document: &str, other: &str) -> String {
    match other {
        "" => tuple_hash([document], 10),
        _ => tuple_hash([document, other], 10),
    }
}

/// The inventories of one engine on one target.
#[derive(Debug, Clone)]
pub struct Inventories {
    pub endpoint: Endpoint,
    pub engine: String,
    pub namespace: String,
}

/// The name of a mapping's ConfigMap.
pub fn name(engine: &str, mapping: &str) -> String {
    format!("{engine}.{mapping}")
}

/// The name of the ConfigMap at home that names a mapping's targets.
pub(super) fn name_of_list(engine: &str, mapping: &str) -> String {
    format!("{engine}.{mapping}.targets")
}

impl Inventories {
    /// Every mapping this engine ever wrote for there, and at home those with targets elsewhere. No namespace is no inventory.
    pub async fn list(&self) -> Result<Vec<Inventory>, RequestError> {
        self.list_each().await?.into_iter().map(|one| one.map_err(|(_, why)| why)).collect()
    }

    /// The same, with the mapping of each that this version does not read, and why.
    pub async fn list_each(&self) -> Result<Vec<Result<Inventory, (String, RequestError)>>, RequestError> {
        let found = self.config_maps(&format!("{ENGINE}={}", self.engine)).await?;
        let unread = |item: &Value, why: RequestError| {
            let name = metadata(item, "name");
            let of_engine = name.strip_prefix(&*self.engine).and_then(|rest| rest.strip_prefix('.'));
            (of_engine.unwrap_or(name).split('.').next().unwrap_or_default().to_owned(), why)
        };
        let read = |item: &Value| Some(self.read(item).transpose()?.map_err(|why| unread(item, why)));
        Ok(found.iter().filter_map(read).collect())
    }

    /// # Errors
    /// The request's; an inventory that is not there is `None`.
    pub async fn get(&self, mapping: &str) -> Result<Option<Inventory>, RequestError> {
        self.get_named(&name(&self.engine, mapping)).await
    }

    /// What home says of a mapping.
    pub async fn list_of_targets(&self, mapping: &str) -> Result<Option<Inventory>, RequestError> {
        self.get_named(&name_of_list(&self.engine, mapping)).await
    }

    async fn get_named(&self, name: &str) -> Result<Option<Inventory>, RequestError> {
        match self.config_map(name).await? {
            Some(found) => self.read(&found),
            None => Ok(None),
        }
    }

    /// The ConfigMaps in the namespace of the state store with these labels. No namespace is no ConfigMap.
    pub async fn config_maps(&self, selector: &str) -> Result<Vec<Value>, RequestError> {
        let path = ApiPath::collection(&config_maps(), &self.namespace)?.query("labelSelector", selector);
        let reply = self.endpoint.get(&path).await?;
        Ok(list_items(self.endpoint.parse(&reply)?))
    }

    /// One ConfigMap in that namespace.
    pub(super) async fn config_map(&self, name: &str) -> Result<Option<Value>, RequestError> {
        match self.endpoint.get(&ApiPath::object(&config_maps(), &self.namespace, name)?).await {
            Ok(reply) => self.endpoint.parse(&reply).map(Some),
            Err(error) if error.is_not_found_of(name) || error.is_not_found_of(&self.namespace) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives it as it is stored.
    pub(super) async fn apply_config_map(&self, name: &str, manager: &str, body: Bytes) -> Result<Value, RequestError> {
        let path = ApiPath::object(&config_maps(), &self.namespace, name)?;
        let reply = self.endpoint.apply(&path, manager, true, body).await?;
        self.endpoint.parse(&reply)
    }

    /// Deletes exactly this version of it.
    pub(super) async fn delete_config_map(
        &self,
        name: &str,
        uid: &str,
        resource_version: &str,
    ) -> Result<(), RequestError> {
        let path = ApiPath::object(&config_maps(), &self.namespace, name)?;
        self.endpoint.delete(&path, DeleteOptions { uid, resource_version, propagation: "Background" }).await.map(drop)
    }

    /// Writes one, and the namespace where it is missing. Gives it as it is stored.
    ///
    /// # Errors
    /// The request's: a conflict where somebody else wrote it since it was read.
    pub async fn put(&self, inventory: &Inventory) -> Result<Inventory, RequestError> {
        self.ensure_namespace().await?;
        let writer = Writer::new(&self.engine, &inventory.mapping);
        let name = inventory.name(&self.engine);
        let body = body(&self.engine, &self.namespace, inventory).to_string();
        let stored = self.apply_config_map(&name, writer.field_manager(), Bytes::from(body)).await?;
        Ok(self.read(&stored)?.unwrap_or_default())
    }

    /// Creates the namespace where it is missing. `true`: it was.
    pub async fn ensure_namespace(&self) -> Result<bool, RequestError> {
        let namespace = ApiPath::object(&namespaces(), "", &self.namespace)?;
        match self.endpoint.get(&namespace).await {
            Err(error) if error.is_not_found_of(&self.namespace) => self.create_namespace().await,
            // Who may not read namespaces may still write into one that exists.
            _ => Ok(false),
        }
    }

    /// Deletes what is there of a mapping that leaves nothing behind, each ConfigMap as it is now: last what says where to look.
    pub async fn forget(&self, mapping: &str) -> Result<(), RequestError> {
        let stores = [name(&self.engine, mapping), name_of_list(&self.engine, mapping)];
        for name in approval::names(&self.engine, mapping).into_iter().chain(stores) {
            self.delete_as_it_is(&name).await?;
        }
        Ok(())
    }

    /// Deletes a ConfigMap as it is now: a request that comes late hits none that was written since. One that is gone already is
    /// fine.
    pub(super) async fn delete_as_it_is(&self, name: &str) -> Result<(), RequestError> {
        let Some(found) = self.config_map(name).await? else { return Ok(()) };
        self.delete_config_map(name, metadata(&found, "uid"), metadata(&found, "resourceVersion")).await
    }

    /// `None`: it is no state store.
    fn read(&self, config_map: &Value) -> Result<Option<Inventory>, RequestError> {
        let format = config_map["data"]["format"].as_str().unwrap_or(FORMAT);
        let name = metadata(config_map, "name");
        if format != FORMAT {
            let reason = format!(
                "the ConfigMap `{name}` has format {format}, and this engine reads {FORMAT}: run a later version"
            );
            return Err(self.endpoint.unreadable(&reason));
        }
        let store = read(config_map);
        match store.as_ref().and_then(too_many) {
            Some(named) => {
                let why = format!("the ConfigMap `{name}` names {named}: take those out that no document had");
                Err(self.endpoint.unreadable(&why))
            }
            None => Ok(store),
        }
    }

    async fn create_namespace(&self) -> Result<bool, RequestError> {
        let path = ApiPath::all(&namespaces())?;
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": self.namespace, "labels": {marks::MANAGED_BY: marks::MANAGER},
        }});
        match self.endpoint.create(&path, marks::MANAGER, Bytes::from(body.to_string())).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_already_exists() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The ConfigMap of an engine's state store.
fn body(engine: &str, namespace: &str, inventory: &Inventory) -> Value {
    let plural = |kind: &Kind| inventory.plurals.get(kind).map(|plural| format!(" {plural}")).unwrap_or_default();
    let beside = |kind: &Kind| if kind.side == Side::Source { BESIDE } else { "" };
    let kinds = inventory.kinds.iter();
    let kinds: Vec<_> =
        kinds.map(|kind| format!("{} {}{}{}", kind.api_version(), kind.kind, plural(kind), beside(kind))).collect();
    let mut body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": inventory.name(engine),
            "namespace": namespace,
            "labels": {ENGINE: engine, marks::MANAGED_BY: marks::MANAGER},
            // Where nothing was read, only a create: no object has the version 1.
            "resourceVersion": if inventory.resource_version.is_empty() { "1" } else { &inventory.resource_version },
        },
        "data": {
            "format": FORMAT,
            "mapping": inventory.mapping,
            "kinds": kinds.join("\n"),
            "document": inventory.document,
            "provider": inventory.provider,
            "source": json!(inventory.source).to_string(),
            "former": json!(inventory.former).to_string(),
            "placements": json!(inventory.placements).to_string(),
            "targets": json!(inventory.targets).to_string(),
            "status": json!(inventory.status).to_string(),
        },
    });
    if let Some(recorded) = inventory.recorded {
        body["data"]["recorded"] = recorded.to_string().into();
    }
    if !inventory.is_list {
        // Also where there are none: whoever took one out by hand keeps a field that the engine no longer sets.
        body["data"]["clusters"] = json!(inventory.clusters).to_string().into();
    }
    if !inventory.home.is_empty() {
        body["data"]["home"] = inventory.home.as_str().into();
    }
    if inventory.is_list {
        body["data"]["list"] = "true".into();
    }
    if !inventory.release.is_empty() {
        body["data"]["release"] = inventory.release.as_str().into();
    }
    body
}

pub fn config_maps() -> Resource {
    Resource::new("", "v1", "configmaps")
}

pub fn namespaces() -> Resource {
    Resource::new("", "v1", "namespaces")
}

fn read(config_map: &Value) -> Option<Inventory> {
    let text = |field: &str| config_map["data"][field].as_str().unwrap_or_default().to_owned();
    let (mapping, in_force, release) = (text("mapping"), text("inForce"), text("release"));
    (!mapping.is_empty()).then(|| Inventory {
        mapping,
        kinds: text("kinds").lines().filter_map(kind).map(|(kind, _)| kind).collect(),
        plurals: text("kinds").lines().filter_map(kind).filter_map(|(kind, plural)| Some((kind, plural?))).collect(),
        document: text("document").into(),
        recorded: text("recorded").parse().ok(),
        provider: text("provider"),
        source: serde_json::from_str(&text("source")).unwrap_or_default(),
        clusters: serde_json::from_str(&text("clusters")).unwrap_or_default(),
        former: serde_json::from_str(&text("former")).unwrap_or_default(),
        placements: serde_json::from_str(&text("placements")).unwrap_or_default(),
        targets: serde_json::from_str(&text("targets")).unwrap_or_default(),
        status: serde_json::from_str(&text("status")).unwrap_or_default(),
        is_held_as_before: !in_force.is_empty()
            && release.is_empty()
            && in_force != document_hash(&text("document"), ""),
        release,
        home: text("home"),
        is_list: text("list") == "true",
        resource_version: metadata(config_map, "resourceVersion").to_owned(),
    })
}

/// Why a state store is not used, and not written: each kind is a watch, and who can write it could have the engine do nothing else.
pub(super) fn too_many(store: &Inventory) -> Option<String> {
    let kinds = count(store.kinds.len(), "kind");
    (store.kinds.len() > MOST_KINDS).then(|| format!("{kinds}, and {MOST_KINDS} are the most"))
}

/// The connection of the home cluster, as a state store tells it.
pub fn home(config_map: &Value) -> String {
    config_map["data"]["home"].as_str().unwrap_or(DEFAULT_TARGET).to_owned()
}

/// What ends the line of a kind whose objects are beside the sources.
const BESIDE: &str = " (source)";

/// `example.dev/v1 Widget widgets`
fn kind(line: &str) -> Option<(Kind, Option<String>)> {
    if let Some(line) = line.strip_suffix(BESIDE) {
        return kind(line).map(|(kind, plural)| (kind.on(Side::Source), plural));
    }
    let mut words = line.split(' ');
    let (api_version, kind) = (words.next()?, words.next()?);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Some((Kind::new(group, version, kind), words.next().map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new engine that wrote another text would write every state store.
    #[test]
    fn what_the_release_before_wrote_is_read_and_written_back_as_it_is() {
        let former = include_str!("../../tests/e2e/fixtures/former-state-store.json");
        let former: Value = serde_json::from_str(former).expect("JSON");
        assert_eq!(former["data"]["format"], FORMAT);
        let written = body("main", "sync-engine", &read(&former).expect("a state store"));
        assert_eq!(written["metadata"]["name"], former["metadata"]["name"]);
        // By this, earlier versions knew what they had counted.
        let mut kept = former["data"].clone();
        kept.as_object_mut().expect("fields").remove("inForce").expect("what was in force");
        // It reads the same.
        kept["clusters"] = "[]".into();
        assert_eq!(written["data"], kept);
        assert_eq!(written["metadata"]["labels"], former["metadata"]["labels"]);
    }

    /// It counted all over again what a document deletes, and may have held it.
    #[test]
    fn what_the_release_before_held_is_not_taken_for_released() {
        let store = |in_force: &str, release: &str| json!({"data": {"mapping": "a", "document": "text", "inForce": in_force, "release": release}});
        let is_held = |in_force: &str, release: &str| read(&store(in_force, release)).expect("read").is_held_as_before;
        assert!(is_held(&document_hash("another", ""), ""));
        assert!(!is_held(&document_hash("text", ""), "") && !is_held("", "") && !is_held("x", "y"));
    }

    #[test]
    fn one_that_would_have_the_engine_do_nothing_else_is_not_used() {
        let store = |number: usize| {
            let kinds = (0..number).map(|kind| format!("a.test/v1 Kind{kind}\n")).collect::<String>();
            too_many(&read(&json!({"data": {"mapping": "a", "kinds": kinds}})).expect("a state store"))
        };
        assert!(store(MOST_KINDS).is_none() && store(MOST_KINDS + 1).is_some());
    }

    /// Another writer, or a request of ours that arrives late, is a conflict.
    #[test]
    fn it_is_written_over_the_version_that_was_read_alone() {
        let version = |read: &str| {
            let store = Inventory { resource_version: read.into(), ..Inventory::default() };
            body("main", "sync-engine", &store)["metadata"]["resourceVersion"].clone()
        };
        assert_eq!(version("7"), "7");
        assert_eq!(version(""), "1", "where nothing was read, only a create: no object has the version 1");
    }

    #[test]
    fn a_document_is_handed_back_as_it_was_written() {
        for document in ["kind: Mapping", "kind: Mapping\n", "text: |\n  a", "text: |+\n  a\n\n\n"] {
            for provider in ["", "kind: ClusterProvider"] {
                let store = Inventory { document: document.into(), provider: provider.into(), ..Inventory::default() };
                let read = crate::yaml::parse(store.documents().as_bytes());
                assert_eq!(read.last().map(|last| &*last.text), Some(document));
            }
        }
    }
}
