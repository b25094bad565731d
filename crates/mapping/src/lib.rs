//! The mapping language of `sync-engine`: from the documents an author writes to the rules the engine runs, and the catalog
//! of all of them.
//!
//! All of it is pure: no async, no I/O, no clock, no randomness, no environment.
//!
//! A `document::…` is what was written, the types of this file are what is needed; where the two are the same, as of a
//! [`ProviderKind`], there is one type. [`compile`] is the only way from one to the other, and no string is parsed after it.

pub mod catalog;
pub mod check;
pub mod compile;
pub mod coverage;
pub mod diagnostic;
pub mod document;
pub mod expression;
pub mod form;
pub mod hash;
pub mod jsonpath;
mod leaf;
pub mod names;
pub mod object;
pub mod placement;
pub mod pointer;
mod provider;
pub mod schema;
pub mod selector;
mod target;
pub mod template;
#[cfg(test)]
mod tests;
mod words;
pub mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use document::{
    Adopt, Amount, Direction, Drift, EngineCondition, IdentityChange, LifecycleSpec, MappingRemoved, Mode,
    NamespacesSpec, OnExit, OnFailure, OnMissing, Propagation, ProviderKind, RelatedMissing, SelectorOperator,
    SelectorRequirement, SourceDelete, SourceRecreated, SourceVanished, Take, TargetChange,
};

pub use target::{ClusterSelection, TargetChoice, TargetRule, Traits};

pub use provider::{ClusterProvider, Part, WorkspaceType};

use expression::Expression;
use jsonpath::JsonPath;
use object::claims::{READ, WRITE};
use placement::Placement;
use pointer::Pointer;
use template::{Template, Text};
use yaml::Node;

/// A compiled mapping: immutable, shared by every reconcile of one generation.
#[derive(Debug)]
pub struct Mapping {
    pub name: String,
    pub mode: Mode,
    pub source: Source,
    /// The connection (or provider's cluster) that receives the objects, or [`OWN_CLUSTER`]; where there are several
    /// targets, the first that the document names.
    pub target: String,
    /// Set where there are several targets: which of them a source's objects go to.
    pub target_rule: Option<TargetRule>,
    /// Objects that travel along.
    pub related: Vec<RelatedRule>,
    pub placement: Placement,
    /// In the order of their evaluation; a variable may read the ones before it.
    pub vars: Vec<(String, Template)>,
    pub objects: Vec<ObjectRule>,
    pub status: StatusRules,
    /// `onSourceRecreated`: `None`, where it depends on the source's workspace.
    pub lifecycle: LifecycleSpec,
    pub release: Release,
    pub reconcile: Reconcile,
    pub constants: Constants,
    /// The document's own text, as it is kept in the inventory.
    pub text: Arc<str>,
    /// `spec` as it is written: where in the file each part of it stands.
    pub spec: Arc<Node>,
}

/// The target that is the source's own cluster.
pub const OWN_CLUSTER: &str = "source";

/// What expressions read that is the same for every source.
#[derive(Debug)]
pub struct Constants {
    /// The root `mapping`.
    pub mapping: Arc<Value>,
    /// The root `target`, unless a rule chooses.
    pub target: Arc<Value>,
}

impl Constants {
    pub fn new(mapping: &str, target: &str) -> Self {
        Self { mapping: Arc::new(json!({"name": mapping})), target: target_root(target) }
    }
}

/// The root `target` where this is the target.
pub fn target_root(target: &str) -> Arc<Value> {
    Arc::new(json!({"cluster": target}))
}

/// Which consumer objects a mapping serves.
#[derive(Debug)]
pub struct Source {
    pub clusters: SourceClusters,
    /// Which clusters of the provider; `None`: all. Part of the filter.
    pub selection: Option<ClusterSelection>,
    pub resource: Resource,
    pub selector: Selector,
    pub namespaces: NamespacesSpec,
    pub when: Option<Expression>,
    pub on_exit: OnExit,
}

impl Source {
    /// Whether the sources of a cluster pass the filter as far as the cluster goes. `None`: that is not known.
    pub fn selects(&self, cluster: &str, traits: &Traits) -> Option<bool> {
        self.selection.as_ref().map_or(Some(true), |selection| selection.matches(cluster, traits))
    }
}

/// Where the source clusters come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceClusters {
    /// Every workspace bound to a kcp APIExport.
    ApiExport(ApiExportRef),
    /// The clusters of the `ClusterProvider` of this name.
    Provider(String),
}

/// An APIExport as a mapping names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiExportRef {
    pub connection: String,
    /// Workspace path of the export; `None`: the connection's own server address as it stands.
    pub path: Option<String>,
    pub name: String,
    /// Name of the APIExportEndpointSlice; `None`: the one kcp creates, named as the export.
    pub endpoint_slice: Option<String>,
}

/// One entry of `spec.related`: an object that is copied along with the source, or read beside it.
#[derive(Debug)]
pub struct RelatedRule {
    pub id: String,
    pub direction: Direction,
    pub resource: Resource,
    /// Whether there are related objects at all.
    pub when: Option<Expression>,
    pub for_each: Option<Box<ForEach>>,
    pub from: RelatedPlace,
    pub to: RelatedPlace,
    pub data: RelatedData,
    /// Keys of the labels and annotations that the copy gets from the original.
    pub labels: Vec<String>,
    pub annotations: Vec<String>,
    /// Type of the copy of a Secret; `None`: that of the original.
    pub secret_type: Option<String>,
    /// Whether the source owns the copy in its cluster.
    pub owner_reference: bool,
    pub on_missing: RelatedMissing,
    pub owner: OriginalOwner,
    /// Whether an expression reads it.
    pub is_read: bool,
}

/// Whose the objects are that a rule can read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OriginalOwner {
    /// The tenant's of the source: the namespace or the name differs from tenant to tenant.
    Tenant,
    /// The provider's: the document names the object and a namespace of its own.
    Provider,
    /// Nothing tells it. Only what the engine owns for the source, and what that owns in turn, is known to be the tenant's.
    #[default]
    Unknown,
}

/// Where a related object is. What is omitted follows from the direction.
#[derive(Debug, Default)]
pub struct RelatedPlace {
    pub namespace: Option<Text>,
    pub name: Option<Text>,
    /// All objects with these labels, told apart by their names.
    pub selector: Option<Selector>,
}

/// Which keys of a Secret or ConfigMap are copied, under which names, with which values, and what is added.
#[derive(Debug, Default)]
pub struct RelatedData {
    /// Empty: all.
    pub include: Vec<String>,
    pub rename: BTreeMap<String, String>,
    pub transform: BTreeMap<String, Template>,
    /// What the copy has beside that.
    pub add: BTreeMap<String, Template>,
}

/// A served resource: `plural.version.group`, the core group left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Resource {
    pub group: String,
    pub version: String,
    pub plural: String,
}

/// Group, version and kind of a rendered object, literals of the template, and the side that it is on. Cheap to clone: whatever names an object holds
/// one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kind(Arc<GroupVersionKind>);

/// On which side of a mapping an object is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Side {
    /// On the target.
    #[default]
    Target,
    /// In the cluster of the source, beside it.
    Source,
}

/// What a [`Kind`] is made of.
#[derive(Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupVersionKind {
    /// Objects of one kind on two sides are two kinds to the engine: other watches, rights and writes.
    pub side: Side,
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// A label selector, evaluated by the engine. Empty matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    pub match_labels: BTreeMap<String, String>,
    pub match_expressions: Vec<SelectorRequirement>,
}

/// One entry of `spec.objects`.
#[derive(Debug, Default)]
pub struct ObjectRule {
    pub id: String,
    pub kind: Kind,
    /// One per (target, namespace) for all sources; otherwise one per source.
    pub shared: bool,
    /// Several objects of this rule, one for each item of a list.
    pub for_each: Option<Box<ForEach>>,
    pub when: Option<Expression>,
    /// Positions in [`Mapping::objects`] of the objects that must be ready before this one is made.
    pub depends_on: Vec<usize>,
    /// The same of [`Mapping::related`].
    pub depends_on_related: Vec<usize>,
    /// When it is ready; `None`: as its kind tells.
    pub ready: Option<Expression>,
    /// When it has failed for good.
    pub failed: Option<Expression>,
    /// The whole document, `apiVersion` and `kind` included.
    pub template: Template,
    /// `metadata.name` when the template gives one; else the placement's name.
    pub name: Option<Text>,
    /// Where the object is left to others.
    pub ignore: Vec<Pointer>,
    /// Where it is set when it is created, and left to others from then on.
    pub at_creation: Vec<Pointer>,
    /// Keys of a Secret that hold random text, with its length. Each is made once, by whoever writes the object.
    pub generate: BTreeMap<String, u16>,
    pub drift: Drift,
    pub adopt: Adopt,
    /// Whether a deletion of the source leaves this object (`delete.policy: Orphan`).
    pub orphan_on_delete: bool,
    pub propagation: Propagation,
    pub on_identity_change: IdentityChange,
    /// Set where the object is a copy: the template is empty then.
    pub copy: Option<Copied>,
    /// Whether an expression reads it, and whether one asks if it is ready.
    pub is_read: bool,
    pub is_asked: bool,
}

/// Which related rule the copies of an [`ObjectRule`] follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// Position in [`Mapping::related`].
    pub related: usize,
    /// Whether there are several, told apart by their keys.
    pub several: bool,
}

/// The type of Secrets that hold the token of a service account. They are never copied.
pub const SERVICE_ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";

/// Stands in the `data` of a rendered Secret for text that is yet to be made: `(generated)`.
pub const GENERATED: &str = "KGdlbmVyYXRlZCk=";

/// Before the id of a related rule, in `dependsOn` and in the id of its copies.
pub const RELATED: &str = "related.";

/// `forEach`, `as` and `key`: one object for each item of a list.
#[derive(Debug)]
pub struct ForEach {
    pub list: Template,
    /// The name under which expressions read the item.
    pub item: String,
    /// Tells the objects apart, and is part of who they are.
    pub key: Text,
}

/// What flows back to the consumer's `.status`.
#[derive(Debug, Default)]
pub struct StatusRules {
    pub fields: Vec<StatusField>,
    pub conditions: Vec<ConditionRule>,
    pub mirrors: Vec<MirrorRule>,
    /// The engine's own conditions (`Synced`), by the type they are written under.
    pub engine_conditions: Vec<EngineCondition>,
    pub observed_generation: bool,
    /// The same of conditions and messages.
    pub redact: bool,
    /// Positions in [`Mapping::related`] of what they read.
    pub depends_on_related: Vec<usize>,
}

/// One leaf of the consumer's status.
#[derive(Debug)]
pub struct StatusField {
    /// Path under `.status`, split at the dots.
    pub target: Vec<String>,
    /// The same as a JSON pointer below `.status`.
    pub pointer: String,
    pub from: StatusValue,
    pub transform: Option<Template>,
    /// Stands in for a value that is missing; excludes `on_missing`.
    pub default: Option<Value>,
    pub on_missing: OnMissing,
    /// Whether texts in it have the consumer's names in place of the target's.
    pub redact: bool,
}

/// Where a status value is read.
#[derive(Debug)]
pub enum StatusValue {
    Path { object: String, path: JsonPath, take: Take },
    Value(Box<Template>),
}

/// A condition the mapping writes, by expressions.
#[derive(Debug)]
pub struct ConditionRule {
    pub kind: String,
    pub status: Template,
    pub reason: Option<Template>,
    pub message: Option<Template>,
}

/// Conditions of a downstream object, carried over one by one.
#[derive(Debug)]
pub struct MirrorRule {
    /// Id of the object.
    pub object: String,
    /// The type there, and the type it is written under.
    pub types: Vec<(String, String)>,
}

impl LifecycleSpec {
    /// After this long a deletion that does not end is reported.
    pub fn stuck_after(&self) -> Duration {
        self.stuck_after.map_or(Duration::from_secs(900), |period| period.0)
    }
}

/// How an edit of the mapping comes into force.
#[derive(Debug, Clone, Default)]
pub struct Release {
    /// How many sources may newly fail by it.
    pub max_failing: Amount,
    pub max_lost: MaxLost,
    /// The last one has all sources. Empty: it comes into force at once.
    pub waves: Vec<Wave>,
    /// How long a wave may stand without fewer sources out of order.
    pub progress_deadline: Duration,
    pub on_failure: OnFailure,
}

/// One step of a release. The sources of the steps before belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wave {
    pub members: Members,
    pub soak: Duration,
    /// How many of its sources may be out of order, beyond those that were before. `None`: one in a hundred, at least one.
    pub max_failing: Option<Amount>,
}

/// The sources of a wave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Members {
    Labeled(Selector),
    /// 1 to 100.
    Percent(u8),
}

impl Wave {
    /// How many of so many sources may be out of order.
    pub fn may_fail(&self, sources: usize) -> usize {
        self.max_failing.map_or_else(|| (sources / 100).max(1), |amount| amount.of(sources))
    }
}

/// How many objects may go by an edit, or by the removal of the mapping, without an approval: at most so many, and at most this
/// share of the mapping's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxLost {
    pub objects: usize,
    /// 0 to 100.
    pub percent: u8,
}

impl Default for MaxLost {
    fn default() -> Self {
        Self { objects: 10, percent: 20 }
    }
}

impl MaxLost {
    /// Whether that many of all are more than may go.
    pub fn is_exceeded_by(self, lost: usize, all: usize) -> bool {
        lost > self.objects || lost * 100 > all.max(lost) * usize::from(self.percent)
    }

    /// How many of so many may go.
    pub fn most(self, all: usize) -> usize {
        if self.percent >= 100 { self.objects } else { self.objects.min(all * usize::from(self.percent) / 100) }
    }
}

#[derive(Debug, Clone)]
pub struct Reconcile {
    pub concurrency: usize,
    pub resync: Duration,
    pub backoff_min: Duration,
    pub backoff_max: Duration,
    /// 0: no limit.
    pub target_writes_per_second: u32,
}

impl Mapping {
    /// The rule of this id.
    pub fn rule(&self, id: &str) -> Option<&ObjectRule> {
        self.objects.iter().find(|rule| rule.id == id)
    }

    /// The objects that the document lists, each with what is written of it. Copies of related objects are not among them.
    pub fn written_objects(&self) -> impl Iterator<Item = (&Arc<Node>, &ObjectRule)> {
        self.spec.get("objects").map_or(&[][..], |objects| objects.items()).iter().zip(&self.objects)
    }

    /// The related objects, each with what is written of it.
    pub fn written_related(&self) -> impl Iterator<Item = (&Arc<Node>, &RelatedRule)> {
        self.spec.get("related").map_or(&[][..], |related| related.items()).iter().zip(&self.related)
    }

    /// The rule of the namespace as it is written, which the state store keeps.
    pub fn namespace_rule(&self) -> &str {
        let written = self.spec.at(&["placement", "namespace"]).and_then(|rule| rule.as_str());
        written.unwrap_or(Placement::DEFAULT_NAMESPACE)
    }

    /// Whether its objects are beside their sources, in the cluster of each.
    pub fn is_beside(&self) -> bool {
        self.target == OWN_CLUSTER
    }

    /// The side that its objects are on, copies of related objects aside.
    pub fn side(&self) -> Side {
        if self.is_beside() { Side::Source } else { Side::Target }
    }

    /// What the engine does with a resource in the clusters of sources.
    pub fn verbs_beside(&self, resource: &Resource) -> &'static [&'static str] {
        let is_written = |kind: &Kind| {
            kind.side == Side::Source && kind.resource(&kind.plural()).group_plural() == resource.group_plural()
        };
        let writes = self.mode != Mode::Observe && self.objects.iter().any(|rule| is_written(&rule.kind));
        if writes { WRITE } else { READ }
    }

    /// Whether the objects of one source go to several targets at a time.
    pub fn has_several_targets(&self) -> bool {
        self.target_rule.as_ref().is_some_and(TargetRule::is_several)
    }

    /// The targets that the document names.
    pub fn named_targets(&self) -> Vec<&str> {
        match &self.target_rule {
            Some(rule) => rule.allowed.iter().map(String::as_str).collect(),
            None if self.is_beside() => Vec::new(),
            None => vec![&self.target],
        }
    }

    /// The `ClusterProvider`s that give the clusters of its source, and its targets.
    pub fn providers(&self) -> BTreeSet<&str> {
        let of_source = match &self.source.clusters {
            SourceClusters::Provider(name) => Some(name.as_str()),
            SourceClusters::ApiExport(_) => None,
        };
        let fleet = self.target_rule.as_ref().and_then(|rule| rule.fleet.as_ref()).map(|fleet| fleet.provider.as_str());
        let named = self.named_targets().into_iter().filter_map(|name| Some(name.split_once('/')?.0));
        of_source.into_iter().chain(fleet).chain(named).collect()
    }

    /// Their documents, as the state store keeps them. `document`: what is in force of a name.
    pub fn provider_documents(&self, document: impl Fn(&str) -> Option<ClusterProvider>) -> String {
        let documents = self.providers().into_iter().filter_map(document).map(|provider| provider.document());
        documents.collect::<Vec<_>>().join("\n---\n")
    }

    /// The connection of the cluster that holds its state store: the target, unless tenants can write to that.
    pub fn state_store<'a>(&'a self, home: &'a str) -> &'a str {
        if self.is_beside() { home } else { &self.target }
    }

    /// Whether objects of a kind are made.
    pub fn makes(&self, kind: &Kind) -> bool {
        self.objects.iter().any(|rule| rule.kind == *kind)
    }

    /// Whether one object depends on another, at once or through others.
    pub fn depends(&self, rule: &ObjectRule, id: &str) -> bool {
        let direct = rule.depends_on.iter().filter_map(|position| self.objects.get(*position));
        direct.into_iter().any(|other| other.id == id || self.depends(other, id))
    }

    /// Whether any object is shared by the sources of a namespace.
    pub fn has_shared(&self) -> bool {
        self.objects.iter().any(|rule| rule.shared)
    }
}

/// Whether a JSON pointer is another one, or leads to something below it.
pub fn is_within(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl StatusRules {
    /// What goes when the mapping no longer writes it: its fields, as JSON pointers below `.status`, but those with
    /// `onMissing: Keep`, and the types of its conditions.
    pub fn written(&self) -> BTreeSet<String> {
        let fields = self.fields.iter().filter(|field| field.on_missing != OnMissing::Keep);
        let fields = fields.map(|field| field.pointer.clone());
        fields.chain(self.condition_types().map(str::to_owned)).collect()
    }

    /// What of such a set these rules write no longer. A field above or below one that they write counts as written.
    pub fn no_longer_written(&self, former: &BTreeSet<String>) -> BTreeSet<String> {
        let written = self.written();
        let overlaps = |former: &String| written.iter().any(|one| is_within(one, former) || is_within(former, one));
        former.iter().filter(|former| !overlaps(former)).cloned().collect()
    }

    /// Types of the conditions that the mapping itself writes.
    pub fn condition_types(&self) -> impl Iterator<Item = &str> {
        let mirrored = self.mirrors.iter().flat_map(|rule| rule.types.iter().map(|(_, written)| written.as_str()));
        self.conditions.iter().map(|rule| rule.kind.as_str()).chain(mirrored)
    }
}

impl ForEach {
    /// Bytes of the file that hold the list.
    pub fn place(&self) -> Range<usize> {
        self.list.root().node.headline()
    }
}

impl RelatedRule {
    /// Whether there are several related objects, told apart by their keys.
    pub fn is_several(&self) -> bool {
        self.for_each.is_some() || self.from.selector.is_some()
    }

    /// The kind of its copies; `None`: the object is only read.
    pub fn copied_kind(&self) -> Option<Kind> {
        let kind = match (&*self.resource.group, &*self.resource.plural) {
            ("", "secrets") => "Secret",
            ("", "configmaps") => "ConfigMap",
            _ => return None,
        };
        Some(Kind::new("", "v1", kind))
    }
}

impl ObjectRule {
    /// Whether there are several objects, told apart by their keys.
    pub fn is_several(&self) -> bool {
        self.for_each.is_some() || self.copy.is_some_and(|copy| copy.several)
    }

    /// Whether its objects may have other names than the placement's.
    pub fn is_named(&self) -> bool {
        self.name.is_some() || self.copy.is_some()
    }

    /// Whether this is the rule of a shared object at a place.
    pub fn is_shared_at(&self, kind: &Kind, name: &str) -> bool {
        let is_any_name = self.copy.is_some();
        self.shared && self.kind == *kind && (is_any_name || self.name.as_ref().and_then(Text::literal) == Some(name))
    }
}

impl Resource {
    pub fn new(group: impl Into<String>, version: impl Into<String>, plural: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), plural: plural.into() }
    }

    /// Whether it is kcp's own, of which each workspace has exactly one object: the workspace itself.
    pub fn is_workspace(&self) -> bool {
        self.group == "core.kcp.io" && self.plural == "logicalclusters"
    }

    /// Whether a kind may be served under this name. Plurals are the author's own; those of English leave all of the kind
    /// but its last letter.
    pub fn may_serve(&self, kind: &str) -> bool {
        let kind = kind.to_lowercase();
        let mut stem = kind.chars();
        stem.next_back();
        !kind.is_empty() && self.plural.starts_with(stem.as_str()) && self.plural.len() <= kind.len() + 3
    }

    /// Whether an object may be one of these, as far as its kind tells.
    pub fn may_have(&self, object: &Value) -> bool {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        text("apiVersion") == self.api_version() && self.may_serve(text("kind"))
    }

    /// As [`Kind::is_built_in`].
    pub fn is_built_in(&self) -> bool {
        is_built_in(&self.group)
    }

    /// `plural.group`: the resource in any version.
    pub fn group_plural(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `group/version`, or `version` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.plural, self.version)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

impl Kind {
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        let (group, version, kind) = (group.into(), version.into(), kind.into());
        Self(Arc::new(GroupVersionKind { side: Side::default(), group, version, kind }))
    }

    /// The same kind on this side.
    pub fn on(&self, side: Side) -> Self {
        let GroupVersionKind { group, version, kind, .. } = &*self.0;
        let (group, version, kind) = (group.clone(), version.clone(), kind.clone());
        Self(Arc::new(GroupVersionKind { side, group, version, kind }))
    }

    /// Whether both are one kind on one side, in whichever version.
    pub fn is_same_in_any_version(&self, other: &Self) -> bool {
        self.side == other.side && self.group == other.group && self.kind == other.kind
    }

    /// The plural by which Kubernetes' own kinds are served (`UnsafeGuessKindToResource` of apimachinery).
    pub fn plural(&self) -> String {
        let lower = self.kind.to_lowercase();
        match lower.chars().last() {
            Some('s') => format!("{lower}es"),
            Some('y') => format!("{}ies", &lower[..lower.len() - 1]),
            _ => format!("{lower}s"),
        }
    }

    /// The resource that it is served as under this name.
    pub fn resource(&self, plural: &str) -> Resource {
        Resource { group: self.group.clone(), version: self.version.clone(), plural: plural.to_owned() }
    }

    /// Whether its objects have `stringData`, which servers store as `data`.
    pub fn is_secret(&self) -> bool {
        self.group.is_empty() && self.kind == "Secret"
    }

    /// Whether it is of Kubernetes' own groups, which no CustomResourceDefinition serves. One serves `autoscaling.k8s.io`.
    pub fn is_built_in(&self) -> bool {
        is_built_in(&self.group)
    }

    /// `group/version`, or `version` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

fn is_built_in(group: &str) -> bool {
    !group.contains('.') || check::is_kubernetes_group(group)
}

impl Deref for Kind {
    type Target = GroupVersionKind;

    fn deref(&self) -> &GroupVersionKind {
        &self.0
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.kind, self.api_version())
    }
}

impl std::fmt::Display for SourceClusters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ApiExport(export) => write!(f, "APIExport {}", export.name),
            Self::Provider(name) => write!(f, "ClusterProvider {name}"),
        }
    }
}
