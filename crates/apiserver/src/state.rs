//! The state of a server, and the one door to it: [`State::handle`].

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::builtin::{self, Served};
use super::collection::{Change, ChangeKind, Collection, Event, Key, Stored};
use super::garbage::Ownership;
use super::kcp::Exports;
use super::options;
use super::reply::{Answer, Reply};
use super::representation::Representation;
use super::request::{Endpoint, Place, Request, ResourcePath, Route, Verb};
use super::resource::{Resource, Storage};
use super::settle::Touched;
use super::status::Failure;
use super::timestamp::Timestamp;

/// Which API server this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// One plain Kubernetes cluster.
    Kubernetes,
    /// kcp: logical clusters, exports and bindings.
    Kcp,
}

/// Choices a server is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    pub flavor: Flavor,
    /// Distinguishes the uids of one server from those of another.
    pub seed: String,
    /// Changes of each resource that a watch can resume from.
    pub history: usize,
    /// What a list of an export's resource answers on a shard where nothing binds it.
    pub unbound: Unbound,
    pub controllers: Controllers,
    /// Base URL of each shard that workspaces are spread over, as endpoint slices and workspaces name it.
    pub urls: Vec<String>,
}

/// When a server's own controllers (namespaces, garbage collection, binding, definitions) run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controllers {
    /// Before the request that gives them work is answered.
    AtOnce,
    /// One step at a time, when [`State::step`] is called.
    Stepwise,
}

/// What a list through a virtual workspace answers where nothing binds the export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unbound {
    /// 404, as kcp up to 0.32.3.
    NotFound,
    /// 200 with an empty list that has no resourceVersion, and a silent watch, as later.
    EmptyWithoutVersion,
}

/// One cluster: its own definitions on top of what every cluster serves.
#[derive(Clone, Debug)]
pub(super) struct LogicalCluster {
    /// Path of its workspace; empty in a plain cluster.
    pub path: String,
    pub shard: usize,
    /// Resources defined or bound here.
    pub defined: Served,
    /// Claims of exports that bindings here have accepted: group and plural with the export's mark.
    pub claims: BTreeSet<(String, String, String)>,
}

/// All that a server knows. A clone is a backup: put back, it is the server restored to that moment.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) settings: Settings,
    pub(super) now: Timestamp,
    /// Field manager of the request at hand.
    author: Arc<str>,
    version: u64,
    uids: u64,
    builtin: Served,
    pub(super) clusters: BTreeMap<Arc<str>, LogicalCluster>,
    pub(super) paths: HashMap<String, Arc<str>>,
    pub(super) exports: Exports,
    collections: HashMap<Storage, Collection>,
    pub(super) ownership: Ownership,
    /// Events of the request at hand.
    events: Vec<Event>,
    pub(super) touched: VecDeque<Touched>,
    /// What goes when the objects it contains are gone. Its controller looks again whenever one is removed in this cluster.
    pub(super) draining: BTreeMap<Touched, Arc<str>>,
    /// What admission changes on what is written, until it is told otherwise.
    pub(super) admission: Vec<Admission>,
}

/// A change that mutating admission makes on each object of a resource that is created or updated. As on a real server,
/// managedFields do not tell of it.
#[derive(Clone, Debug)]
pub struct Admission {
    pub group: String,
    pub plural: String,
    /// A JSON merge patch.
    pub patch: Value,
}

/// A resource of one request, resolved: what it is and whose objects of it are meant.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub resource: Arc<Resource>,
    pub version: Arc<str>,
    pub scope: Scope,
    /// A label that objects must have to be seen, beside the request's own selector.
    pub mark: Option<(String, String)>,
    /// Reached through a virtual workspace, where apply is recorded as an update.
    pub is_virtual: bool,
    /// How objects are shown to who asks.
    pub representation: Representation,
}

/// Whose objects are meant.
#[derive(Clone, Debug)]
pub(super) enum Scope {
    /// Those of one logical cluster.
    Cluster(Arc<str>),
    /// Those of every logical cluster on a shard that binds an export.
    Bound { export: Arc<str>, shard: usize },
    /// None, and there is no resourceVersion to tell.
    Nothing,
}

impl Scope {
    /// The one logical cluster that is meant; `None` for several, or none.
    pub(super) fn cluster(&self) -> Option<&str> {
        match self {
            Scope::Cluster(cluster) => Some(cluster),
            Scope::Bound { .. } | Scope::Nothing => None,
        }
    }

    /// Whether an object is meant.
    pub(super) fn holds(&self, state: &State, key: &Key) -> bool {
        match self {
            Scope::Cluster(cluster) => *cluster == key.cluster,
            Scope::Bound { export, shard } => {
                state.clusters_bound(export, *shard).any(|cluster| *cluster == key.cluster)
            }
            Scope::Nothing => false,
        }
    }
}

/// The cluster that a URL without `/clusters/` means.
const ROOT: &str = "root";

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            flavor: Flavor::Kubernetes,
            seed: "cluster".into(),
            history: 50_000,
            unbound: Unbound::EmptyWithoutVersion,
            controllers: Controllers::AtOnce,
            urls: vec!["http://127.0.0.1".into()],
        }
    }
}

impl State {
    /// A server with what a fresh one has: a few namespaces.
    pub fn new(settings: Settings, now: Timestamp) -> State {
        let builtin = match settings.flavor {
            Flavor::Kubernetes => builtin::kubernetes(),
            Flavor::Kcp => builtin::kcp(),
        };
        let mut state = State {
            settings,
            now,
            author: "".into(),
            version: 1,
            uids: 0,
            builtin,
            clusters: BTreeMap::new(),
            paths: HashMap::new(),
            exports: Exports::default(),
            collections: HashMap::new(),
            ownership: Ownership::default(),
            events: Vec::new(),
            touched: VecDeque::new(),
            draining: BTreeMap::new(),
            admission: Vec::new(),
        };
        match state.settings.flavor {
            Flavor::Kubernetes => {
                let namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"];
                state.add_cluster("", "", 0, &namespaces);
            }
            Flavor::Kcp => state.add_cluster(ROOT, ROOT, 0, &["default"]),
        }
        state.events.clear();
        state
    }

    /// Carries out one request at the given moment. The events are what watches are to be sent, in order; they are all
    /// in the past already when the next request is handled.
    pub fn handle(&mut self, request: &Request, now: Timestamp) -> (Reply, Vec<Event>) {
        self.now = now;
        self.author = request.field_manager().into();
        let reply = self.answer(request).unwrap_or_else(|failure| Reply::Answer(Answer::from(&failure)));
        if self.settings.controllers == Controllers::AtOnce {
            self.settle();
        }
        (reply, std::mem::take(&mut self.events))
    }

    /// How many changes wait for the server's own controllers.
    pub fn waiting(&self) -> usize {
        self.touched.len()
    }

    /// Runs the controller that one of the waiting changes concerns. The events are what watches are to be sent.
    pub fn step(&mut self, which: usize, now: Timestamp) -> Vec<Event> {
        self.now = now;
        self.author = "".into();
        if let Some(touched) = self.touched.remove(which) {
            self.settle_one(touched);
        }
        std::mem::take(&mut self.events)
    }

    /// Replaces what admission changes from now on.
    pub fn set_admission(&mut self, changes: Vec<Admission>) {
        self.admission = changes;
    }

    /// The resourceVersion of the last write.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The same server with other uids from now on: a backup that was put back shares none with what came after it.
    pub fn diverge(mut self, seed: &str) -> State {
        self.settings.seed = seed.to_owned();
        self
    }

    /// Forgets all history: a watch from any version before now gets a 410.
    pub fn compact(&mut self) {
        let version = self.version;
        self.collections.values_mut().for_each(|collection| collection.compact(version));
    }

    fn answer(&mut self, request: &Request) -> Result<Reply, Failure> {
        let route = request.route();
        self.authorize(request, &route)?;
        let Route { place, endpoint } = route;
        match endpoint {
            Endpoint::Health => Ok(Reply::Answer(Answer::text(200, "ok"))),
            Endpoint::Resource(path) => {
                let view = self.view(&place, &path, request)?;
                let representation = Representation::asked_for(request);
                let representation = representation.ok_or_else(|| Failure::not_acceptable(view.resource.custom))?;
                let view = View { representation, ..view };
                self.answer_resource(request, &view, &path)
            }
            other => self.discover(&place, &other).map(Reply::Answer),
        }
    }

    fn answer_resource(&mut self, request: &Request, view: &View, path: &ResourcePath) -> Result<Reply, Failure> {
        let verb = request.verb(path.name.is_some());
        self.check_reach(view, path, verb)?;
        options::check(request, verb)?;
        let answer = match verb {
            Verb::Get => self.get(view, path),
            Verb::List => self.list(view, path, &request.query),
            Verb::Watch => return Ok(Reply::Watch(Box::new(self.watch(view, path, &request.query)?))),
            Verb::Create => self.create(view, path, request),
            Verb::Update => self.update(view, path, request),
            Verb::Patch | Verb::Apply => self.patch(view, path, request),
            Verb::Delete => self.delete(view, path, request),
            Verb::DeleteCollection => self.delete_collection(view, path, request),
        };
        answer.map(Reply::Answer)
    }

    /// Refuses URLs that do not fit the resource, and writes across clusters.
    fn check_reach(&self, view: &View, path: &ResourcePath, verb: Verb) -> Result<(), Failure> {
        let reads_many = matches!(verb, Verb::List | Verb::Watch);
        let resource = &view.resource;
        if !resource.namespaced && path.namespace.is_some() {
            return Err(Failure::PageNotFound);
        }
        if resource.namespaced && path.namespace.is_none() && (path.name.is_some() || !reads_many) {
            let is_page = path.name.is_some() || resource.custom;
            return Err(if is_page { Failure::PageNotFound } else { Failure::method_not_allowed() });
        }
        check_method(resource, path, verb)?;
        match (&view.scope, &path.namespace) {
            (Scope::Cluster(_), _) => Ok(()),
            // What patches an object has to read it first, and finds none.
            (_, _) if verb.of_rbac() == Verb::Patch => {
                Err(Failure::not_found(resource, path.name.as_deref().unwrap_or_default()))
            }
            (_, _) if !reads_many => Err(Failure::no_page_behind()),
            (_, Some(namespace)) => Err(Failure::status(
                400,
                "",
                format!(
                    "cross-cluster LIST and WATCH are required to be cross-namespace, not scoped to namespace {namespace}"
                ),
            )),
            (_, None) => Ok(()),
        }
    }

    fn view(&self, place: &Place, path: &ResourcePath, request: &Request) -> Result<View, Failure> {
        let cluster = match place {
            Place::Virtual { provider, export, cluster } => {
                return self.virtual_view(provider, export, cluster.as_deref(), path, request);
            }
            Place::Here | Place::Cluster(_) => self.cluster_at(place)?,
        };
        let resource = self.served(&cluster, &path.group, &path.plural);
        let resource = resource.ok_or_else(|| self.not_served(&path.group))?;
        self.view_of(resource, path, Scope::Cluster(cluster))
    }

    /// What is said of a resource that is not served: a Status in the groups that the server brings itself.
    fn not_served(&self, group: &str) -> Failure {
        let is_own = self.builtin.keys().any(|(own, _)| &**own == group);
        if is_own { Failure::no_such_resource() } else { Failure::PageNotFound }
    }

    /// A view of a resource in the version that the URL names.
    pub(super) fn view_of(&self, resource: Arc<Resource>, path: &ResourcePath, scope: Scope) -> Result<View, Failure> {
        let version = resource.version(&path.version).ok_or_else(|| self.not_served(&path.group))?;
        let has_subresource = match path.subresource.as_deref() {
            None => true,
            Some("status") => version.status,
            Some(_) => false,
        };
        if !has_subresource {
            let name = path.name.as_deref().unwrap_or_default();
            return Err(if resource.custom {
                Failure::not_found(&resource, name)
            } else {
                Failure::no_such_resource()
            });
        }
        let version = version.name.clone();
        Ok(View { resource, version, scope, mark: None, is_virtual: false, representation: Representation::Whole })
    }

    /// The logical cluster that a URL names, by name or path.
    pub(super) fn cluster_at(&self, place: &Place) -> Result<Arc<str>, Failure> {
        let wanted = match (self.settings.flavor, place) {
            (Flavor::Kubernetes, Place::Here) => "",
            (Flavor::Kcp, Place::Here) => ROOT,
            (Flavor::Kcp, Place::Cluster(cluster)) => cluster,
            _ => return Err(Failure::PageNotFound),
        };
        let known = self.clusters.get_key_value(wanted).map(|(name, _)| name.clone());
        known.or_else(|| self.paths.get(wanted).cloned()).ok_or_else(|| {
            Failure::status(403, "Forbidden", "forbidden: User \"sandbox\" cannot access the workspace: access denied")
        })
    }

    /// A resource as a cluster serves it.
    pub(super) fn served(&self, cluster: &str, group: &str, plural: &str) -> Option<Arc<Resource>> {
        let key = (group.into(), plural.into());
        self.builtin.get(&key).or_else(|| self.clusters.get(cluster)?.defined.get(&key)).cloned()
    }

    /// All resources that a cluster serves.
    pub(super) fn all_served(&self, cluster: &str) -> Vec<Arc<Resource>> {
        let defined = self.clusters.get(cluster).map(|cluster| cluster.defined.values());
        self.builtin.values().chain(defined.into_iter().flatten()).cloned().collect()
    }

    /// A resource that every cluster serves.
    pub(super) fn builtin(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        self.builtin.get(&(group.into(), plural.into())).cloned()
    }

    pub(super) fn collection(&self, resource: &Resource) -> Option<&Collection> {
        self.collections.get(&resource.storage())
    }

    pub(super) fn stored(&self, resource: &Resource, key: &Key) -> Option<&Arc<Stored>> {
        self.collection(resource)?.get(key)
    }

    /// Writes an object, or the removal of one, under the next version.
    pub(super) fn commit(&mut self, resource: &Resource, key: &Key, kind: ChangeKind, object: Value) -> Arc<Stored> {
        self.version += 1;
        let shard = self.clusters.get(&key.cluster).map_or(0, |cluster| cluster.shard);
        let storage = resource.storage();
        let collection = self.collections.entry(storage.clone()).or_default();
        let object = Arc::new(Stored::new(object, self.version));
        let previous = collection.get(key).cloned();
        let event = Arc::new(Change {
            storage,
            key: key.clone(),
            shard,
            kind,
            at: self.now,
            object: object.clone(),
            previous,
            author: self.author.clone(),
        });
        collection.commit(event.clone(), self.settings.history);
        self.touch(resource, &event);
        self.touch_owners(&event);
        self.events.push(event);
        object
    }

    /// A uid that no other object of this server, nor of one with another seed, has.
    pub(super) fn next_uid(&mut self) -> String {
        self.uids += 1;
        let hash = HEXLOWER.encode(&Sha256::digest(format!("{}/{}", self.settings.seed, self.uids)));
        format!("{}-{}-4{}-a{}-{}", &hash[..8], &hash[8..12], &hash[13..16], &hash[17..20], &hash[20..32])
    }

    /// Adds a cluster with namespaces in it.
    pub(super) fn add_cluster(&mut self, name: &str, path: &str, shard: usize, namespaces: &[&str]) {
        let name: Arc<str> = name.into();
        let (defined, claims) = (Served::new(), BTreeSet::new());
        self.clusters.insert(name.clone(), LogicalCluster { path: path.to_owned(), shard, defined, claims });
        if !path.is_empty() {
            self.paths.insert(path.to_owned(), name.clone());
        }
        for namespace in namespaces {
            let object = serde_json::json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
            });
            self.add_own(&name, "", "namespaces", object);
        }
    }
}

/// Refuses methods that a URL does not know.
fn check_method(resource: &Resource, path: &ResourcePath, verb: Verb) -> Result<(), Failure> {
    let is_named = path.name.is_some();
    let wants_name = matches!(verb, Verb::Update | Verb::Patch | Verb::Apply);
    match (verb, resource.custom) {
        (Verb::Create | Verb::Delete, true) if path.subresource.is_some() => {
            Err(Failure::method_not_supported(resource, verb))
        }
        (Verb::Delete, false) if path.subresource.is_some() => Err(Failure::method_not_allowed()),
        (Verb::Create, false) if is_named => Err(Failure::method_not_allowed()),
        (Verb::DeleteCollection, false) if resource.is("", "namespaces") => Err(Failure::method_not_allowed()),
        (_, true) if wants_name && !is_named => Err(Failure::bad_request("name must be provided")),
        (_, false) if wants_name && !is_named => Err(Failure::method_not_allowed()),
        _ => Ok(()),
    }
}
