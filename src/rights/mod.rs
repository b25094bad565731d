//! The least rights that an engine needs for its mappings: on the targets, where the consumers' API is published, and
//! as permission claims.
//!
//! The verbs are those of the requests that [`engine`](crate::engine) and [`provider`](crate::provider) make; a trial on a real API server
//! shows that they are enough.

mod documents;
mod granted;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::mapping::schema::Schemas;
use crate::mapping::{
    ApiExportRef, Direction, Kind, Mapping, Mode, ObjectRule, ProviderKind, Resource, Side, SourceClusters,
    WorkspaceType,
};
use crate::object::claims::{READ, WRITE};
use crate::object::hold::HoldStage;

pub use documents::{Subject, claims, roles};

/// Somewhere that rights are needed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A target, by its connection's name.
    Target(String),
    /// The workspace of an APIExport.
    Provider { connection: String, path: Option<String> },
    /// A plain cluster whose objects are sources, by its connection's name. One that is a target too is that.
    Source(String),
    /// Each cluster of a `ClusterProvider` of several, by the provider's name.
    Fleet(String),
    /// The cluster that says where others are, by its connection's name. One that has sources, or is a target, is that.
    Hub(String),
}

/// One rule, and what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// `None`: everywhere in the place; else in this namespace alone.
    pub namespace: Option<String>,
    pub group: String,
    /// With its subresource: `widgets/status`. Empty for URLs.
    pub resource: String,
    /// These objects alone; empty for all.
    pub names: Vec<String>,
    /// URLs that are no resources.
    pub urls: Vec<String>,
    pub verbs: Vec<String>,
    pub why: String,
}

impl Rule {
    /// `widgets.example.dev`, or the URLs.
    pub fn what(&self) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        format!("{}{}{dot}{}", self.urls.join(","), self.resource, self.group)
    }
}

/// Everything that is needed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rights {
    pub places: BTreeMap<Place, Vec<Rule>>,
    /// What an APIExport must ask its consumers for, because it does not publish it itself.
    pub claims: BTreeMap<ApiExportRef, Vec<Rule>>,
    /// Kinds whose resource was guessed from their name, for no schema tells it.
    pub guessed: BTreeSet<(Kind, String)>,
}

/// What the rights depend on beside the mappings.
pub struct Setting<'a> {
    pub schemas: &'a Schemas,
    /// Where the engine keeps its notes on targets.
    pub inventory_namespace: &'a str,
    /// Connections of `ClusterProvider`s, by provider.
    pub providers: BTreeMap<String, ProviderKind>,
    /// The connection of the home cluster.
    pub home: &'a str,
    /// What it does with Leases, where several replicas run.
    pub leases: &'a [&'a str],
    /// Whether it writes Kubernetes Events.
    pub events: bool,
}

/// What the engine does with its own ConfigMaps.
const STATE: &[&str] = &["get", "list", "create", "patch", "delete"];

/// Why a cluster with a state store is asked for its namespaces.
const TOLD_APART: &str = "tells the cluster from others, and finds the state store";

/// The group of APIExports.
const APIS: &str = "apis.kcp.io";

/// Computes what an engine with these mappings needs.
pub fn rights<'m>(mappings: impl IntoIterator<Item = &'m Mapping>, setting: &Setting<'_>) -> Rights {
    let mut rights = Rights::default();
    let mappings: Vec<&Mapping> = mappings.into_iter().collect();
    for mapping in &mappings {
        targets(mapping, setting.home).into_iter().for_each(|place| rights.at_target(mapping, place, setting));
        match &mapping.source.clusters {
            SourceClusters::ApiExport(export) => rights.on_export(mapping, export),
            SourceClusters::Provider(name) => rights.on_cluster(mapping, name, setting),
        }
        rights.of_related(mapping, setting);
        if setting.events && mapping.mode != Mode::Observe {
            rights.beside(mapping, &events(), &["create"], "tells why a source is not in sync", setting);
        }
    }
    rights.drop_published(&mappings, setting.schemas);
    rights.at_home(setting);
    rights.join_clusters();
    rights
}

impl Rights {
    fn at_target(&mut self, mapping: &Mapping, place: Place, setting: &Setting<'_>) {
        if let Place::Fleet(provider) = &place {
            self.at_hub(provider, setting);
        }
        self.reach_target(&place, setting);
        let why = format!("mapping {}", mapping.name);
        if mapping.placement.create_namespace && mapping.mode != Mode::Observe {
            self.add(&place, rule("", "namespaces", &["create"], &format!("{why}: the namespaces of its objects")));
        }
        let verbs = write(mapping);
        // Copies beside the sources are looked at with the related objects.
        let is_meant = |object: &&ObjectRule| object.kind.side == Side::Target || object.copy.is_none();
        for object in mapping.objects.iter().filter(is_meant) {
            let resource = self.resource(&object.kind, setting.schemas);
            let of_object = format!("{why}: object {}", object.id);
            if object.kind.side == Side::Source {
                self.beside(mapping, &object.kind.resource(&resource), verbs, &of_object, setting);
                if let SourceClusters::Provider(name) = &mapping.source.clusters {
                    let place = source_of(name, setting);
                    self.add(&place, urls(&["/apis/*"], "finds out which kinds are served"));
                    self.definition(&place, &object.kind.resource(&object.kind.plural()));
                }
                continue;
            }
            self.add(&place, rule(&object.kind.group, &resource, verbs, &of_object));
            self.definition(&place, &object.kind.resource(&resource));
        }
        if mapping.mode != Mode::Observe {
            granted::rules(mapping, Side::Target).into_iter().for_each(|rule| self.add(&place, rule));
            // In a consumer's workspace, claims decide.
            if let SourceClusters::Provider(name) = &mapping.source.clusters {
                let source = source_of(name, setting);
                granted::rules(mapping, Side::Source).into_iter().for_each(|rule| self.add(&source, rule));
            }
        }
    }

    /// What tells whether a kind is gone with all its objects.
    fn definition(&mut self, place: &Place, resource: &Resource) {
        if !resource.is_built_in() {
            let what = "a kind whose definition is missing has no objects that a deletion waits for";
            let definition = rule("apiextensions.k8s.io", "customresourcedefinitions", &["get"], what);
            self.add(place, Rule { names: vec![resource.group_plural()], ..definition });
        }
    }

    /// What leader election and approvals need, and a target without mappings, whose state stores are read all the same.
    fn at_home(&mut self, setting: &Setting<'_>) {
        let namespace = || Some(setting.inventory_namespace.to_owned());
        let home = Place::Target(setting.home.to_owned());
        self.identify(&home, &[setting.inventory_namespace], TOLD_APART);
        let held = rule("", "configmaps", STATE, "what is held, and approvals");
        self.add(&home, Rule { namespace: namespace(), ..held });
        if setting.events {
            let told = rule("", "events", &["create"], "tells of documents, held edits and leadership");
            self.add(&home, Rule { namespace: namespace(), ..told });
        }
        if !setting.leases.is_empty() {
            let leases = rule("coordination.k8s.io", "leases", setting.leases, "leader election");
            self.add(&home, Rule { namespace: namespace(), ..leases });
        }
    }

    /// What every target is asked, whatever the mappings are.
    fn reach_target(&mut self, place: &Place, setting: &Setting<'_>) {
        let notes = setting.inventory_namespace;
        self.identify(place, &[notes], TOLD_APART);
        self.add(place, urls(&["/api/*", "/apis/*"], "finds out which kinds are served"));
        let inventory = rule("", "configmaps", STATE, "the state store");
        self.add(place, Rule { namespace: Some(notes.to_owned()), ..inventory });
    }

    /// What tells a cluster from others; in kcp, a workspace is entered first, and has its LogicalCluster beside.
    fn identify(&mut self, place: &Place, namespaces: &[&str], why: &str) {
        let mut known = rule("", "namespaces", &["get"], why);
        known.names = texts(&[&["default", "kube-system"], namespaces].concat());
        known.names.sort();
        known.names.dedup();
        self.add(place, known);
        let in_kcp = "tells the workspace from others, where the cluster is one of kcp";
        let logical_cluster = rule("core.kcp.io", "logicalclusters", &["get"], in_kcp);
        self.add(place, Rule { names: texts(&["cluster"]), ..logical_cluster });
        self.add(
            place,
            Rule { verbs: texts(&["access"]), ..urls(&["/"], "enters the workspace, where it is one of kcp") },
        );
    }

    fn on_export(&mut self, mapping: &Mapping, export: &ApiExportRef) {
        let place = Place::Provider { connection: export.connection.clone(), path: export.path.clone() };
        self.add(&place, Rule { verbs: texts(&["access"]), ..urls(&["/"], "enters the workspace") });
        self.add(&place, rule(APIS, "apiexportendpointslices", &["list", "watch"], "where the shards are"));
        let exports = rule(APIS, "apiexports", &["list", "watch"], "tells the export from another of its name");
        self.add(&place, exports);
        let verbs: &[&str] = if mapping.mode == Mode::Observe { READ } else { &["get", "list", "watch", "patch"] };
        let why = format!("mapping {}: {} in every bound workspace", mapping.name, mapping.source.resource);
        let content = rule(APIS, "apiexports/content", verbs, &why);
        self.add(&place, Rule { names: vec![export.name.clone()], ..content });
    }

    fn on_cluster(&mut self, mapping: &Mapping, provider: &str, setting: &Setting<'_>) {
        self.at_hub(provider, setting);
        if matches!(setting.providers.get(provider), Some(ProviderKind::WorkspaceTypes(_))) {
            // The verbs on the types stand for the LogicalClusters.
            return;
        }
        let place = source_of(provider, setting);
        self.identify(&place, &[], "tells the cluster from others");
        self.add(&place, urls(&["/openapi/v3", "/openapi/v3/*"], "the schema of the status"));
        let resource = &mapping.source.resource;
        let why = format!("mapping {}: its sources", mapping.name);
        let writes = mapping.mode != Mode::Observe;
        let verbs: &[&str] = if writes { &["get", "list", "watch", "patch"] } else { READ };
        self.add(&place, rule(&resource.group, &resource.plural, verbs, &why));
        if writes {
            let status = format!("{}/status", resource.plural);
            self.add(&place, rule(&resource.group, &status, &["patch"], &format!("{why}, their status")));
        }
        self.add(&place, urls(&["/apis/*"], "finds out which kinds are served"));
        self.definition(&place, resource);
    }

    /// What the clusters that list a provider's clusters are asked.
    fn at_hub(&mut self, provider: &str, setting: &Setting<'_>) {
        let why = format!("ClusterProvider {provider}: where its clusters are");
        for kind in setting.providers.get(provider).into_iter().flat_map(ProviderKind::parts) {
            match kind {
                ProviderKind::KubeconfigSecrets(hub) => {
                    let secrets = rule("", "secrets", &["list", "watch"], &why);
                    let secrets = Rule { namespace: Some(hub.namespace.clone()), ..secrets };
                    self.add(&Place::Hub(hub.connection.clone()), secrets);
                }
                ProviderKind::ClusterApi(hub) => {
                    let place = Place::Hub(hub.connection.clone());
                    let clusters = rule("cluster.x-k8s.io", "clusters", &["list", "watch"], &why);
                    self.add(&place, Rule { namespace: hub.namespace.clone(), ..clusters });
                    let secrets = rule("", "secrets", &["list", "watch"], &format!("{why}, their kubeconfigs"));
                    self.add(&place, Rule { namespace: hub.namespace.clone(), ..secrets });
                }
                ProviderKind::ClusterInventory(hub) => {
                    let profiles = rule("multicluster.x-k8s.io", "clusterprofiles", &["list", "watch"], &why);
                    let profiles = Rule { namespace: hub.namespace.clone(), ..profiles };
                    self.add(&Place::Hub(hub.connection.clone()), profiles);
                }
                ProviderKind::Namespaces(of) => {
                    let namespaces = rule("", "namespaces", &["list", "watch"], &why);
                    self.add(&Place::Source(of.connection.clone()), namespaces);
                }
                ProviderKind::WorkspaceTypes(types) => {
                    let stages =
                        [(HoldStage::Initializing, &types.initializing), (HoldStage::Terminating, &types.terminating)];
                    for (stage, of) in stages {
                        if let Some(of) = of {
                            self.on_type(&types.connection, stage, of, &why);
                        }
                    }
                }
                ProviderKind::Kubeconfig(_)
                | ProviderKind::KubeconfigFiles(_)
                | ProviderKind::Kind(_)
                | ProviderKind::None(_)
                | ProviderKind::Custom(_)
                | ProviderKind::Multi(_) => {}
            }
        }
    }

    /// What a WorkspaceType is asked, and what lets the engine at its workspaces.
    fn on_type(&mut self, connection: &str, stage: HoldStage, of: &WorkspaceType, why: &str) {
        let place = Place::Provider { connection: connection.to_owned(), path: Some(of.workspace.clone()) };
        self.add(&place, Rule { verbs: texts(&["access"]), ..urls(&["/"], "enters the workspace") });
        let verbs = ["list", "watch", stage.verb()];
        let types = rule("tenancy.kcp.io", "workspacetypes", &verbs, why);
        self.add(&place, Rule { names: vec![of.name.clone()], ..types });
    }

    /// What travels along: read on one side, and written on the other where it is copied.
    fn of_related(&mut self, mapping: &Mapping, setting: &Setting<'_>) {
        for related in &mapping.related {
            let resource = &related.resource;
            let why = format!("mapping {}: related {}", mapping.name, related.id);
            let written = related.copied_kind().map(|_| write(mapping));
            let (consumer, target) = match related.direction {
                Direction::ToSource if !mapping.is_beside() => (written, Some(READ)),
                Direction::ToTarget | Direction::ToSource => (Some(READ), written),
            };
            if let Some(verbs) = target.filter(|_| !mapping.is_beside()) {
                for place in targets(mapping, setting.home) {
                    self.add(&place, rule(&resource.group, &resource.plural, verbs, &why));
                }
            }
            if let Some(verbs) = consumer {
                self.beside(mapping, resource, verbs, &why, setting);
            }
        }
    }

    /// Objects that are read or written where the sources are.
    fn beside(&mut self, mapping: &Mapping, resource: &Resource, verbs: &[&str], why: &str, setting: &Setting<'_>) {
        match &mapping.source.clusters {
            SourceClusters::ApiExport(export) => {
                let claims = self.claims.entry(export.clone()).or_default();
                widen(claims, rule(&resource.group, &resource.plural, verbs, why));
                let place = Place::Provider { connection: export.connection.clone(), path: export.path.clone() };
                let content = rule(APIS, "apiexports/content", verbs, why);
                self.add(&place, Rule { names: vec![export.name.clone()], ..content });
            }
            SourceClusters::Provider(name) => {
                let place = source_of(name, setting);
                self.add(&place, rule(&resource.group, &resource.plural, verbs, why));
            }
        }
    }

    /// A binding brings what its export publishes, and lets the engine use it: only resources of others are claimed.
    fn drop_published(&mut self, mappings: &[&Mapping], schemas: &Schemas) {
        let is_source = |export: &ApiExportRef, claim: &Rule| {
            mappings.iter().any(|mapping| {
                let resource = &mapping.source.resource;
                matches!(&mapping.source.clusters, SourceClusters::ApiExport(own) if own == export)
                    && (&resource.group, &resource.plural) == (&claim.group, &claim.resource)
            })
        };
        for (export, claims) in &mut self.claims {
            let is_published = |claim: &Rule| {
                is_source(export, claim) || schemas.publishes(&export.name, &claim.group, &claim.resource)
            };
            claims.retain(|claim| !is_published(claim));
        }
        self.claims.retain(|_, claims| !claims.is_empty());
    }

    /// The resource that a kind is served as: as schemas say, as Kubernetes has it, else as English would.
    fn resource(&mut self, kind: &Kind, schemas: &Schemas) -> String {
        if let Some(resource) = schemas.resource_of(kind) {
            return resource.plural.clone();
        }
        let plural = kind.plural();
        if !kind.is_built_in() {
            self.guessed.insert((kind.clone(), plural.clone()));
        }
        plural
    }

    /// One cluster, one place: roles of two places have the same name, so that the last one applied would be the only one.
    fn join_clusters(&mut self) {
        // Targets come first, and hubs last.
        for (place, rules) in std::mem::take(&mut self.places) {
            let is_known = |place: Place| self.places.contains_key(&place);
            let place = match place {
                Place::Source(name) | Place::Hub(name) if is_known(Place::Target(name.clone())) => Place::Target(name),
                Place::Hub(name) if is_known(Place::Source(name.clone())) => Place::Source(name),
                place => place,
            };
            rules.into_iter().for_each(|rule| self.add(&place, rule));
        }
    }

    fn add(&mut self, place: &Place, new: Rule) {
        widen(self.places.entry(place.clone()).or_default(), new);
    }
}

/// Adds a rule; one about the same things is widened.
fn widen(rules: &mut Vec<Rule>, new: Rule) {
    let same = |old: &&mut Rule| {
        (&old.namespace, &old.group, &old.resource, &old.names, &old.urls)
            == (&new.namespace, &new.group, &new.resource, &new.names, &new.urls)
    };
    match rules.iter_mut().find(same) {
        Some(old) => {
            join(&mut old.verbs, &new.verbs);
            if !old.why.contains(&new.why) {
                old.why.push_str(&format!("; {}", new.why));
            }
        }
        None => rules.push(new),
    }
}

/// The targets of a mapping. Where its objects are beside their sources, the home of its state store.
pub fn targets(mapping: &Mapping, home: &str) -> Vec<Place> {
    let Some(rule) = &mapping.target_rule else {
        return vec![Place::Target(mapping.state_store(home).to_owned())];
    };
    let named = rule.allowed.iter().map(|name| match name.split_once('/') {
        Some((provider, _)) => Place::Fleet(provider.to_owned()),
        None => Place::Target(name.clone()),
    });
    let fleet = rule.fleet.iter().map(|fleet| Place::Fleet(fleet.provider.clone()));
    named.chain(fleet).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The clusters of a provider; one that nothing names goes by its own name.
fn source_of(provider: &str, setting: &Setting<'_>) -> Place {
    match setting.providers.get(provider) {
        Some(ProviderKind::Kubeconfig(one)) => Place::Source(one.connection.clone()),
        Some(ProviderKind::Namespaces(of)) => Place::Source(of.connection.clone()),
        None => Place::Source(provider.to_owned()),
        Some(_) => Place::Fleet(provider.to_owned()),
    }
}

/// What is done with objects that a mapping writes.
fn write(mapping: &Mapping) -> &'static [&'static str] {
    if mapping.mode == Mode::Observe { READ } else { WRITE }
}

pub(crate) fn rule(group: &str, resource: &str, verbs: &[&str], why: &str) -> Rule {
    Rule {
        namespace: None,
        group: group.to_owned(),
        resource: resource.to_owned(),
        names: Vec::new(),
        urls: Vec::new(),
        verbs: texts(verbs),
        why: why.to_owned(),
    }
}

fn urls(urls: &[&str], why: &str) -> Rule {
    Rule { urls: texts(urls), ..rule("", "", &["get"], why) }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Events are written as those of the core group: a claim for them has no other.
pub fn events() -> Resource {
    Resource { group: String::new(), version: "v1".into(), plural: "events".into() }
}

/// Adds the verbs that are new, in the order that people know.
fn join(verbs: &mut Vec<String>, more: &[String]) {
    verbs.extend(more.iter().filter(|verb| !verbs.contains(verb)).cloned().collect::<Vec<_>>());
    verbs.sort_by_key(|verb| WRITE.iter().position(|known| known == verb).unwrap_or(WRITE.len()));
}
