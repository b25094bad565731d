//! What is known of one source object and everything that belongs to it, at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::action::Action;
use super::decision::Decision;
use super::objects::Objects;
use super::status::{CONDITIONS, refused_conditions};
use super::targets::{Evaluated, TargetContext};
use super::{Cause, Reason};
use crate::mapping::expression::Recorder;
use crate::mapping::schema::Schema;
use crate::mapping::{Kind, Mode, ObjectRule, OnExit, RELATED, Resource, Selector, Side, form, is_within};
use crate::object::claims::{Claims, READ, WRITE};
use crate::object::hold::Hold;
use crate::object::marks::{self, Origin, Owner, Reference, Writer};
use crate::object::{Key, is_deleting, metadata, shortened, with_namespace};

/// What may be unknown: what is known of it, or why it is out of sight. A plan waits for what is out of sight.
pub type Sight<T> = Result<T, Reason>;

/// The planner's whole input beside the mapping. The shell fills it from its caches, and [`Observed::absorb`] adds what
/// the server answered to each action.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Observed {
    pub subject: Subject,
    pub phase: Phase,
    pub source: Sight<Source>,
    pub consumer: Consumer,
    pub target: Target,
    /// Set where the mapping has several targets.
    pub among: Option<TargetContext>,
    /// What belongs to this source, and the shared objects of this mapping in its namespaces.
    pub objects: Objects,
    /// Related objects as they are where they come from.
    pub related: Originals,
    pub limits: Limits,
    pub answers: Answers,
    pub now: Timestamp,
    #[serde(skip)]
    pub study: Study,
}

/// The source that a plan is for, and who plans.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Subject {
    pub writer: Writer,
    pub key: Key,
    /// The source as ownership knows it.
    pub origin: Origin,
    /// The writer's owner of this origin.
    pub owner: Owner,
    /// What the source is held up by until the engine is done with it, in place of a finalizer: then it is a LogicalCluster, and
    /// nothing else is written to it.
    pub hold: Option<Hold>,
}

/// The source's own cluster, and the API that it is written by.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Consumer {
    /// Path of the source's workspace, where it is known.
    pub path: Option<String>,
    pub is_selected: Sight<bool>,
    /// Permission claims that are in force in the source's workspace; `None`: RBAC alone decides.
    pub claims: Option<Claims>,
    /// Whether the mapping writes nothing: it has to read there alone.
    #[serde(default)]
    pub is_read_alone: bool,
    pub schema: Option<Arc<Schema>>,
    /// Status leaves (JSON pointers) that the consumer's server dropped before.
    pub unkept_status: Arc<BTreeSet<String>>,
    /// What only former documents of the mapping wrote into the status, as [`StatusRules::written`] tells it.
    ///
    /// [`StatusRules::written`]: crate::mapping::StatusRules::written
    pub former_status: Arc<BTreeSet<String>>,
}

impl Consumer {
    /// Whether the mapping selects the cluster, as [`Source::selects`] tells it.
    ///
    /// # Errors
    /// Where that rests on labels or properties of the cluster which are not known.
    ///
    /// [`Source::selects`]: crate::mapping::Source::selects
    pub fn selection(selects: Option<bool>) -> Sight<bool> {
        let unknown = "source.clusters: the labels or properties of the source's cluster are not known";
        selects.ok_or_else(|| Reason::waiting(unknown))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Target {
    /// Out of sight: it is not reachable, not identified, or its state store is not confirmed.
    pub kinds: Sight<Kinds>,
    /// Whether it cannot be reached, and is not just being looked up.
    pub is_lost: bool,
    /// How the source is pinned to it, also while nothing more is known of it.
    pub pin: Option<Pin>,
    /// Whether the source was let go here a while ago: what the target has of it came late.
    #[serde(default)]
    pub was_let_go: bool,
    /// Address of its server, which no consumer reads.
    pub url: Option<String>,
    /// Namespaces in which this source's objects may be: ownership labels and annotations count nowhere else.
    pub places: BTreeSet<String>,
    /// Namespaces known to exist.
    pub namespaces: BTreeSet<String>,
    /// Kinds of target objects whose controllers report on each object, as their schemas say.
    pub reporting: Arc<BTreeSet<Kind>>,
}

/// The kinds of the mapping and of its state store. One that the target does not serve is waited for ([`Cause::Waiting`]): where
/// its CustomResourceDefinition is gone, so are its objects.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Kinds(#[serde(with = "form::pairs")] pub BTreeMap<Kind, Sight<()>>);

impl Kinds {
    /// All of them in sight.
    pub fn in_sight<'k>(kinds: impl IntoIterator<Item = &'k Kind>) -> Self {
        Self(kinds.into_iter().map(|kind| (kind.clone(), Ok(()))).collect())
    }
}

/// What a plan may do, beside what the [phase](Observed::phase) of its mapping allows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Limits {
    pub prune: Prune,
    /// Whether the source follows a document that is not in force yet: what it shares with others stays as it is.
    #[serde(default)]
    pub is_promoted: bool,
    /// The plan is followed for what it makes and loses: no status is written.
    pub tells_nothing: bool,
}

/// What is not observed: what somebody who reads along wants, and what is known already of an evaluation.
#[derive(Debug, Clone, Default)]
pub struct Study {
    /// Objects that are taken for made and ready, for an author who has no cluster.
    pub supposed: BTreeSet<Reference>,
    /// Takes down what is evaluated.
    pub recorder: Option<Recorder>,
    /// Takes down what is decided.
    pub decisions: Option<Arc<Mutex<Vec<Decision>>>>,
    /// Which targets the mapping gives, once that was evaluated.
    pub evaluated_targets: Evaluated,
}

/// What servers answered that the caches do not show.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Answers {
    /// Objects at this source's places that are not owned.
    #[serde(with = "form::pairs")]
    pub foreign: BTreeMap<Reference, Arc<Value>>,
    /// Applied in this reconcile: the hash of the rendering, and how often. What differs then is not kept by the server.
    #[serde(with = "form::pairs")]
    pub applied: BTreeMap<Reference, (String, usize)>,
    /// Objects whose ownership labels were put back.
    pub restored: BTreeSet<Reference>,
    /// Deleted in this reconcile, and held by finalizers.
    pub deleted: BTreeSet<Reference>,
    /// Why requests about objects failed in this reconcile: an object rests until the next one.
    #[serde(with = "form::pairs")]
    pub failed: BTreeMap<Reference, Reason>,
    /// Deletions without an answer: they may still take effect.
    pub unanswered: BTreeSet<Reference>,
    /// Written in an earlier reconcile, before a plan has seen what the server made of that.
    #[serde(default)]
    pub uncompared: BTreeSet<Reference>,
    /// Related objects that were read past the caches.
    pub read_anew: BTreeSet<Original>,
    /// Whether an uncached read found the source, which the cache does not show.
    pub source_exists: Option<bool>,
    /// Owners whose objects were read afresh, past the caches.
    pub swept: BTreeSet<String>,
    /// What those reads found.
    pub found: BTreeSet<Reference>,
    /// Why an uncached read failed.
    pub read_failed: Option<String>,
    /// Status leaves (JSON pointers below `.status`) that the consumer's server refused, with the value and the reason.
    pub refused_status: BTreeMap<String, (Value, String)>,
    /// Why the consumer's server refused the status, if it named no leaf.
    pub status_failed: Option<String>,
}

/// What a mapping may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    Active,
    /// Deletions alone: the mapping is suspended, or its file is gone.
    DeletionsOnly,
    /// The mapping was removed, and its sources leave it by this policy.
    Leaving(OnExit),
}

impl Phase {
    /// Of a mapping that is not removed.
    pub fn of(mode: Mode) -> Self {
        if mode == Mode::Suspend { Self::DeletionsOnly } else { Self::Active }
    }
}

/// Related objects, as a rule names them: one by its name, or all with some labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Original {
    pub side: Side,
    pub resource: Resource,
    pub namespace: String,
    pub pick: Pick,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Pick {
    Name(String),
    /// A label selector as servers take it.
    Labels(String),
}

/// What is known of related objects.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Originals {
    /// What was read so far. What is not among it has to be read first.
    Read(#[serde(with = "form::pairs")] BTreeMap<Original, Sight<Vec<Arc<Value>>>>),
    /// All there are, for a dry run, which is not kept.
    #[serde(skip)]
    Given(Vec<Arc<Value>>),
}

impl Default for Originals {
    fn default() -> Self {
        Self::Read(BTreeMap::new())
    }
}

impl Original {
    /// Why nothing is known of it before it is read.
    pub fn unread(&self) -> Reason {
        Reason::unseen(format!("{self} is not read yet"))
    }

    /// Whether an object is meant. One without a namespace may be in any.
    pub fn is(&self, object: &Value) -> bool {
        self.resource.may_have(object)
            && [self.namespace.as_str(), ""].contains(&metadata(object, "namespace"))
            && match &self.pick {
                Pick::Name(name) => metadata(object, "name") == name,
                Pick::Labels(labels) => {
                    labels.parse().is_ok_and(|labels: Selector| labels.matches(object.pointer("/metadata/labels")))
                }
            }
    }
}

impl fmt::Display for Original {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, namespace, pick, .. } = self;
        let (name, rest) = match pick {
            Pick::Name(name) => (name.as_str(), String::new()),
            Pick::Labels(labels) => ("*", format!(" where {labels}")),
        };
        write!(f, "{} {}{rest}", resource.group_plural(), with_namespace(namespace, name))
    }
}

/// What may be deleted or given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prune {
    Allowed,
    /// Nothing but what the documents before would lose as well: the rest waits for the end of a release, or for its ledger.
    Held(BTreeSet<Reference>),
}

impl Prune {
    /// Nothing at all, as long as it is not known what the documents before would lose.
    pub fn none() -> Self {
        Self::Held(BTreeSet::new())
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Source {
    Present(Arc<Value>),
    /// Not in a cache that is in sync.
    Missing(Missing),
}

/// What is known of a source that is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The uid under which it was seen being deleted, or was released.
    pub deleted: Option<String>,
    /// Whether it has been missing for `stuckAfter`.
    pub long: bool,
    /// It was seen being deleted, and is a user of what sources share until nothing of it is left. So it is of what they shared and
    /// nobody is known to use.
    #[serde(default)]
    pub shares: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The connection (or provider/cluster) by which the mapping names it.
    pub connection: String,
    /// Hash of its identity.
    pub identity: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TargetObject {
    pub reference: Reference,
    pub object: Arc<Value>,
    /// Whether all sources placed there own it, and not one.
    pub is_shared: bool,
    /// What its ownership annotations said, where somebody stripped them.
    stripped_of: Option<BTreeMap<String, String>>,
}

/// What an object on the target is to a source. Computed in one place: [`Observed::state`].
#[derive(Debug, Clone)]
pub enum ObjectState<'o> {
    Absent,
    Ours(&'o TargetObject),
    /// Made for an earlier source of the same name (another uid).
    OursOfEarlier(&'o TargetObject),
    Foreign,
}

/// What the server answered to an action.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The object as the server has it now.
    Object(Arc<Value>),
    /// The request was refused because of the object that is there: it changed nothing.
    Existing(Arc<Value>),
    /// The object is not there (any more), or gone with this write.
    Absent,
    /// What a read of related objects found.
    Seen(Sight<Vec<Arc<Value>>>),
    /// What a sweep found: true self marks, and what is where an object of the source is expected.
    Found(Vec<TargetObject>),
    /// `Refused` is the server's word on this very request: only a change of it helps. `RequestFailed` says nothing about it (5xx).
    /// `Unknown`: there is no answer, or the server asks for patience.
    Failed(Reason),
    /// A status that the consumer's server refuses: the leaves that it names, as JSON pointers below `.status`.
    StatusRefused { leaves: Vec<String>, why: String },
}

/// Characters of all reasons why requests failed that are remembered of one source.
const MOST_FAILED: usize = 64 << 10;

impl Answers {
    /// What decides, without what is in objects that are foreign: who they belong to is enough. A thousand objects may have failed,
    /// each with a text of a server.
    #[must_use]
    pub fn without_bodies(mut self) -> Self {
        self.foreign.values_mut().for_each(|object| *object = Arc::new(marks::head(object)));
        let most = MOST_FAILED / self.failed.len().max(1);
        self.failed.values_mut().for_each(|failure| failure.detail = shortened(&failure.detail, most));
        self
    }
}

impl TargetObject {
    /// One that a source does not share.
    pub fn new(reference: Reference, object: Arc<Value>) -> Self {
        Self { reference, object, is_shared: false, stripped_of: None }
    }

    pub fn of_rule(rule: &ObjectRule, reference: Reference, object: Arc<Value>) -> Self {
        Self { reference, object, is_shared: rule.shared, stripped_of: None }
    }

    /// One of the engine's annotations, as the engine wrote it.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        match &self.stripped_of {
            Some(known) => known.get(key).map(String::as_str),
            None => marks::annotation(&self.object, key),
        }
    }

    pub fn uid(&self) -> &str {
        metadata(&self.object, "uid")
    }

    pub fn resource_version(&self) -> &str {
        metadata(&self.object, "resourceVersion")
    }

    pub fn is_deleting(&self) -> bool {
        is_deleting(&self.object)
    }

    /// uid of the source that it was made for.
    pub fn source_uid(&self) -> &str {
        self.annotation(marks::SOURCE_UID).unwrap_or_default()
    }

    /// Id of the mapping's object that this one was rendered from; of several, `id[key]`.
    pub fn object_id(&self) -> &str {
        self.annotation(marks::OBJECT).unwrap_or_default()
    }

    /// Id of the mapping's rule that this one was rendered from.
    pub fn rule_id(&self) -> &str {
        let id = self.object_id();
        id.split_once('[').map_or(id, |(rule, _)| rule)
    }

    /// What its users have in common: the namespace, or, of a shared copy, the copy itself.
    pub fn shared_place(&self) -> String {
        match self.object_id().starts_with(RELATED) {
            true => copy_place(&self.reference),
            false => self.reference.namespace.clone(),
        }
    }

    /// Which of several it is.
    pub fn key(&self) -> Option<&str> {
        self.object_id().split_once('[')?.1.strip_suffix(']')
    }
}

/// The place of a shared copy, for [`Objects::in_use`].
pub fn copy_place(reference: &Reference) -> String {
    let Reference { kind, namespace, name } = reference;
    format!("{namespace}/{}/{name}", kind.kind)
}

/// The place of all shared copies of a namespace: of a source that cannot tell which of them it names.
pub fn all_copies(namespace: &str) -> String {
    format!("{namespace}/*")
}

/// A namespace, with the place of all shared copies in it.
pub fn all_in(namespace: &str) -> [String; 2] {
    [namespace.to_owned(), all_copies(namespace)]
}

impl Observed {
    /// A source of which nothing is on the target and nothing was answered yet, under an active mapping.
    pub fn new(
        writer: Writer,
        key: Key,
        origin: Origin,
        source: Sight<Source>,
        kinds: Sight<Kinds>,
        now: Timestamp,
    ) -> Self {
        let owner = writer.owner(&origin);
        Self {
            subject: Subject { writer, key, origin, owner, hold: None },
            phase: Phase::Active,
            source,
            consumer: Consumer {
                path: None,
                is_selected: Ok(true),
                claims: None,
                is_read_alone: false,
                schema: None,
                unkept_status: Arc::default(),
                former_status: Arc::default(),
            },
            target: Target {
                kinds,
                is_lost: false,
                pin: None,
                was_let_go: false,
                url: None,
                places: BTreeSet::new(),
                namespaces: BTreeSet::new(),
                reporting: Arc::default(),
            },
            among: None,
            objects: Objects::default(),
            related: Originals::default(),
            limits: Limits { prune: Prune::Allowed, is_promoted: false, tells_nothing: false },
            answers: Answers::default(),
            now,
            study: Study::default(),
        }
    }

    /// The source, where it is known to exist.
    pub fn present(&self) -> Option<&Arc<Value>> {
        match &self.source {
            Ok(Source::Present(source)) => Some(source),
            Ok(Source::Missing(_)) | Err(_) => None,
        }
    }

    /// uid of the source as it is now; empty where it is missing.
    pub fn source_uid(&self) -> &str {
        self.present().map_or("", |source| metadata(source, "uid"))
    }

    /// What is known of related objects. In a dry run, what is taken for made is read back in place of what is given. `None`: not
    /// read yet.
    pub fn originals(&self, original: &Original) -> Option<Sight<Vec<Arc<Value>>>> {
        let given = match &self.related {
            Originals::Read(read) => return read.get(original).cloned(),
            Originals::Given(given) => given,
        };
        let is_made = |at: &Reference| at.kind.side == Side::Target && self.study.supposed.contains(at);
        let made: Vec<_> = self.objects.iter().filter(|one| is_made(&one.reference)).collect();
        let given = given.iter().filter(|object| !made.iter().any(|one| one.reference.is(object)));
        let all = given.chain(made.iter().map(|one| &one.object));
        Some(Ok(all.filter(|object| original.is(object)).cloned().collect()))
    }

    /// What belongs to this source, on the mapping's other targets too.
    pub fn owned_anywhere(&self) -> impl Iterator<Item = &TargetObject> {
        let others = self.among.iter().flat_map(TargetContext::others);
        self.objects.own().chain(others.flat_map(|(_, other)| other.objects.own()))
    }

    /// Whether other sources use an object.
    ///
    /// # Errors
    /// Why nobody can tell that yet.
    pub fn others_use(&self, object: &TargetObject) -> Sight<bool> {
        let in_use =
            if object.is_shared { self.objects.in_use.get(&object.shared_place()).copied() } else { Some(false) };
        in_use
            .ok_or_else(|| Reason::unseen(format!("whether other sources need {} is not known yet", object.reference)))
    }

    /// Whether another engine has made an object that this source needs, for the same source: both serve it while a shard of kcp
    /// moves to another partition.
    pub fn is_served_by_another_engine(&self) -> bool {
        self.answers.foreign.iter().any(|(reference, object)| {
            let names = marks::label(object, marks::MAPPING).and_then(|label| label.split_once('.'));
            let is_another = |(engine, mapping): (&str, &str)| {
                let origin = marks::origin(&Writer::new(engine, mapping), object, reference);
                engine != self.subject.writer.engine() && origin.as_ref() == Some(&self.subject.origin)
            };
            names.is_some_and(is_another)
        })
    }

    /// An object, if it belongs to this source, or is a shared one of this mapping: it is in one of the source's namespaces, and
    /// its self mark is true, or was true when this process saw it last.
    pub fn recognize(&self, reference: &Reference, object: &Arc<Value>) -> Option<TargetObject> {
        let is_own = self.is_of(reference, object, &self.subject.owner);
        if !is_own && !self.is_of(reference, object, &self.subject.writer.shared_owner(&reference.namespace)) {
            return None;
        }
        let known = self.objects.stripped.get(reference).filter(|known| known.is(object));
        let stripped_of = known
            .filter(|known| !marks::is_ours(object, reference, &known.owner))
            .map(|known| known.annotations.clone());
        Some(TargetObject { reference: reference.clone(), object: object.clone(), is_shared: !is_own, stripped_of })
    }

    fn is_of(&self, reference: &Reference, object: &Value, owner: &Owner) -> bool {
        let known = || self.objects.stripped.get(reference).filter(|known| known.owner == *owner && known.is(object));
        self.is_place(reference) && (marks::is_ours(object, reference, owner) || known().is_some())
    }

    /// Whether an object there can belong to this source, whatever it says of itself.
    pub fn is_place(&self, reference: &Reference) -> bool {
        match reference.kind.side {
            Side::Target => self.target.places.contains(&reference.namespace),
            Side::Source => *self.subject.key.namespace == reference.namespace,
        }
    }

    /// What an object on the target is to this source.
    ///
    /// # Errors
    /// Why it cannot be seen.
    pub fn state(&self, reference: &Reference, shared: bool) -> Sight<ObjectState<'_>> {
        self.sees(&reference.kind)?;
        Ok(match self.objects.at(reference) {
            Some(object) if object.is_shared == shared => self.state_of(object)?,
            // Its rule began or ceased to share it.
            Some(object) if self.others_use(object)? => ObjectState::Foreign,
            Some(object) => self.state_of(object)?,
            None if self.answers.foreign.contains_key(reference) => ObjectState::Foreign,
            None => ObjectState::Absent,
        })
    }

    /// The same of an object that is known to be owned.
    pub fn state_of<'o>(&'o self, object: &'o TargetObject) -> Sight<ObjectState<'o>> {
        self.sees(&object.reference.kind)?;
        let uid = match &self.source {
            Ok(Source::Present(source)) => Some(metadata(source, "uid")),
            Ok(Source::Missing(missing)) => missing.deleted.as_deref(),
            Err(_) => None,
        };
        let is_ours = object.is_shared || uid == Some(object.source_uid());
        Ok(if is_ours { ObjectState::Ours(object) } else { ObjectState::OursOfEarlier(object) })
    }

    /// Whether objects of a kind are in sight.
    ///
    /// # Errors
    /// Why they are not. It may stay so where a claim is not accepted, or the target does not serve the kind.
    pub fn sees(&self, kind: &Kind) -> Sight<()> {
        let kinds = self.target.kinds.as_ref().map_err(Reason::clone)?;
        if let Some(detail) = self.unclaimed(kind) {
            return Err(Reason { cause: Cause::ClaimNotAccepted, detail });
        }
        let unwatched = || Err(Reason::unseen(format!("{kind} is not watched yet")));
        kinds.0.get(kind).cloned().unwrap_or_else(unwatched)
    }

    /// What the source's workspace has not accepted, where objects of a kind are kept beside the source.
    pub fn unclaimed(&self, kind: &Kind) -> Option<String> {
        let claims = self.consumer.claims.as_ref().filter(|_| kind.side == Side::Source)?;
        claims.lacking(&kind.resource(&kind.plural()), if self.consumer.is_read_alone { READ } else { WRITE })
    }

    pub fn is_target_unreachable(&self) -> bool {
        let is_unreachable = |failure: &Reason| failure.cause == Cause::Unknown;
        self.target.is_lost || self.answers.failed.values().any(is_unreachable)
    }

    /// Whether what the target has of the source is in sight, so that a plan tells every deletion that it asks for.
    pub fn is_in_sight(&self) -> bool {
        let Ok(kinds) = &self.target.kinds else { return false };
        kinds.0.iter().all(|(kind, state)| kind.side == Side::Source || state.is_ok() || self.is_unserved(kind))
    }

    /// Whether the target does not serve a kind (any more).
    pub fn is_unserved(&self, kind: &Kind) -> bool {
        let state = self.target.kinds.as_ref().ok().and_then(|kinds| kinds.0.get(kind));
        matches!(state, Some(Err(reason)) if reason.cause == Cause::Waiting)
    }

    /// Whether a stripped object was restored or released, or another one is in its place.
    pub fn is_no_longer_stripped(&self, reference: &Reference) -> bool {
        let Some(known) = self.objects.stripped.get(reference) else { return false };
        match self.objects.iter().find(|one| one.reference == *reference) {
            Some(owned) => owned.stripped_of.is_none(),
            None => self.answers.foreign.get(reference).is_some_and(|object| !known.is(object)),
        }
    }

    /// Objects that were written, while no plan has seen what the server made of that. `is_at_rest`: the last plan came after the
    /// last write. `sees_all`: it had every object in sight.
    pub fn uncompared(&self, is_at_rest: bool, sees_all: bool) -> BTreeSet<Reference> {
        let Answers { applied, failed, uncompared, .. } = &self.answers;
        let is_compared = |at: &Reference| match applied.get(at) {
            Some((_, times)) => is_at_rest || *times > 1,
            None => sees_all,
        };
        let written = applied.keys().chain(uncompared).filter(|at| !is_compared(at));
        // They may have taken effect.
        let failed = failed.iter().filter(|(_, why)| why.cause != Cause::Refused).map(|(at, _)| at);
        written.chain(failed).cloned().collect()
    }

    /// Adds what the server answered, so that the next plan starts from it.
    pub fn absorb(&mut self, action: &Action, outcome: Outcome) {
        match (action, outcome) {
            (Action::PatchSource { .. } | Action::PatchStatus { .. }, Outcome::Object(object)) => {
                self.source = Ok(Source::Present(object));
            }
            (Action::PatchSource { .. } | Action::PatchStatus { .. }, Outcome::Absent) => {
                self.source = Ok(Source::Missing(Missing::default()));
            }
            (Action::PatchStatus { values, .. }, Outcome::StatusRefused { leaves, why }) => {
                self.refuse_status(values, &leaves, &why);
            }
            (Action::Read(original), outcome) => self.read(original, outcome),
            (Action::ReadAnew(original), outcome) => {
                self.answers.read_anew.insert(original.clone());
                self.read(original, outcome);
            }
            (Action::LookForSource, Outcome::Object(_)) => self.answers.source_exists = Some(true),
            (Action::LookForSource, Outcome::Absent) => self.answers.source_exists = Some(false),
            (Action::LookForSource | Action::Sweep { .. }, Outcome::Failed(failure)) => {
                self.answers.read_failed = Some(failure.detail);
            }
            (Action::Sweep { owners, .. }, Outcome::Found(found)) => {
                self.answers.swept.extend(owners.iter().cloned());
                self.answers.found.extend(found.iter().map(|one| one.reference.clone()));
                found.into_iter().for_each(|one| self.see(&one.reference, one.object));
            }
            (Action::CreateNamespace { name, .. }, Outcome::Failed(failure)) => {
                // The objects that were to be made in it say so.
                self.answers.failed.insert(Reference::namespace(name), failure);
            }
            (Action::CreateNamespace { name, .. }, _) => {
                self.target.namespaces.insert(name.clone());
            }
            (action, outcome) => {
                if let Some(reference) = action.reference() {
                    self.answered(action, &reference.clone(), outcome);
                }
            }
        }
    }

    /// A read that brought nothing leaves the object unknown until the next reconcile.
    fn read(&mut self, original: &Original, outcome: Outcome) {
        let seen = match outcome {
            Outcome::Seen(seen) => seen,
            Outcome::Failed(failure) => Err(Reason::unseen(failure.detail)),
            _ => Err(original.unread()),
        };
        if let Originals::Read(read) = &mut self.related {
            read.insert(original.clone(), seen);
        }
    }

    fn answered(&mut self, action: &Action, reference: &Reference, outcome: Outcome) {
        match (action, outcome) {
            (_, Outcome::Failed(failure)) => {
                let is_at_target = reference.kind.side == Side::Target;
                if matches!(action, Action::Delete { .. }) && is_at_target && failure.cause != Cause::Refused {
                    self.answers.unanswered.insert(reference.clone());
                }
                self.answers.failed.insert(reference.clone(), failure.within(&reference.to_string()));
            }
            (Action::GiveUp { .. }, Outcome::Object(_)) | (_, Outcome::Absent) => self.forget(reference),
            (_, Outcome::Existing(object)) => self.see(reference, object),
            (action, Outcome::Object(object)) => {
                if matches!(action, Action::Delete { .. }) && is_deleting(&object) {
                    self.answers.deleted.insert(reference.clone());
                }
                if matches!(action, Action::Restore { .. }) {
                    self.answers.restored.insert(reference.clone());
                }
                if let Action::Apply { body, .. } = action
                    && self.recognize(reference, &object).is_some()
                {
                    let hash = marks::annotation(body, marks::HASH).unwrap_or_default();
                    let applied = self.answers.applied.entry(reference.clone()).or_default();
                    let times = if applied.0 == hash { applied.1 } else { 0 };
                    *applied = (hash.to_owned(), times + 1);
                    self.answers.unanswered.remove(reference);
                }
                self.see(reference, object);
            }
            _ => {}
        }
    }

    fn refuse_status(&mut self, values: &BTreeMap<String, Value>, leaves: &[String], why: &str) {
        let is_named = |pointer: &str| leaves.iter().any(|leaf| is_within(leaf, pointer) || is_within(pointer, leaf));
        let named = values.iter().filter(|(pointer, _)| is_named(pointer));
        let named = named.flat_map(|(pointer, value)| match pointer.as_str() {
            CONDITIONS => refused_conditions(self.present().map(|source| &**source), value, leaves),
            _ => vec![(pointer.clone(), value.clone())],
        });
        let named: Vec<(String, Value)> = named.collect();
        if named.is_empty() {
            self.answers.status_failed = Some(why.to_owned());
        }
        for (pointer, value) in named {
            self.answers.refused_status.insert(pointer, (value, why.to_owned()));
        }
    }

    /// Files an object under what it is: this source's, shared, or foreign.
    fn see(&mut self, reference: &Reference, object: Arc<Value>) {
        self.forget(reference);
        match self.recognize(reference, &object) {
            Some(seen) => self.objects.push(seen),
            None => drop(self.answers.foreign.insert(reference.clone(), object)),
        }
    }

    fn forget(&mut self, reference: &Reference) {
        self.objects.remove(reference);
        self.answers.foreign.remove(reference);
    }
}
