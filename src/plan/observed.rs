//! What is known of one source object and everything that belongs to it, at one moment.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::action::Action;
use super::memo::Memo;
use crate::mapping::expression::{Recorder, SourceView};
use crate::mapping::schema::Schema;
use crate::mapping::{Kind, OnExit};
use crate::object::marks::{self, Owner, Reference, Writer};
use crate::object::{Key, metadata};

/// The planner's whole input beside the mapping. The shell fills it from its caches, and [`Observed::absorb`] carries
/// what each action brought to light into the next plan.
#[derive(Debug, Clone)]
pub struct Observed {
    pub writer: Writer,
    pub phase: Phase,
    pub key: Key,
    /// The writer's owner of this key.
    pub owner: Owner,
    /// Path of the source's workspace, where it is known.
    pub workspace_path: Option<String>,
    pub source: Source,
    /// Where the source stands there without what its author asks for (`spec` and the like): an object that asks for the
    /// same.
    pub body: Option<Arc<Value>>,
    pub target: Target,
    /// What carries this source's owner and a true self mark.
    pub owned: Vec<Standing>,
    /// Shared objects of this mapping with a true self mark, in the namespaces of this source.
    pub shared: Shared,
    /// These very versions of the shared objects were found in sync with this very generation of the mapping: they
    /// need not be rendered and compared again.
    pub shared_settled: bool,
    /// Beside status and version, the source and its own objects say what they said when they were found in sync with
    /// this very generation of the mapping: they need not be rendered and compared again. Where
    /// [the mapping](crate::mapping::Mapping::reports_from_heads) reads no more, they may be given without their specs.
    pub settled: bool,
    /// Whether another source needs the shared objects of a namespace; a namespace not listed is not known of.
    pub shared_in_use: BTreeMap<String, bool>,
    /// Related objects as they stand, where they come from.
    pub related: Vec<Arc<Value>>,
    /// Namespaces of the target known to exist.
    pub namespaces: BTreeSet<String>,
    /// The consumer API, where its schema is known.
    pub schema: Option<Arc<Schema>>,
    /// Status leaves (JSON pointers) that the consumer's server dropped before.
    pub unkept_status: Arc<BTreeSet<String>>,
    pub now: Timestamp,
    /// What this reconcile learned beyond the caches.
    pub learned: Learned,
    /// What it has rendered so far.
    pub memo: Memo,
    /// Takes down what is evaluated, where somebody asks for it.
    pub recorder: Option<Recorder>,
}

/// Results of a reconcile's own actions.
#[derive(Debug, Clone, Default)]
pub struct Learned {
    pub looks: BTreeMap<Reference, Look>,
    /// Applied in this reconcile: what still differs does not stick.
    pub applied: BTreeSet<Reference>,
    /// Refused by the server in a way that trying again at once does not mend.
    pub refused: BTreeMap<Reference, String>,
    /// Owners of whom a fresh, uncached read found nothing.
    pub swept: BTreeSet<String>,
    pub evidence: Option<Evidence>,
}

/// What a mapping may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Everything.
    Active,
    /// Deletions alone: the mapping is suspended, or its file is gone.
    DeletionsOnly,
    /// The mapping was removed, and its sources leave it by this policy.
    Leaving(OnExit),
}

#[derive(Debug, Clone)]
pub enum Source {
    /// Not known to be there or not, and why.
    Unknown(String),
    Present(Arc<Value>),
    /// Not in a cache that is in sync.
    Missing,
}

/// Is a missing source gone?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// A 404 that names it, from a collection that lists normally, in a workspace that is bound.
    Gone,
    /// Anything else; the text says what.
    None(String),
}

#[derive(Debug, Clone)]
pub enum Target {
    /// Not reachable, not identified, or its inventory is not confirmed; the text says why.
    Unknown(String),
    Known {
        /// Hash of the target's identity.
        identity: String,
        /// The kinds of the mapping and of its inventory; an error says why a kind cannot be seen.
        kinds: Arc<BTreeMap<Kind, Result<(), String>>>,
    },
}

/// Shared objects: the same for all sources of a namespace, and seldom looked at once they stand, hence read from
/// their text only when somebody asks.
#[derive(Clone, Default)]
pub struct Shared {
    read: Option<Arc<dyn Fn() -> Vec<Standing> + Send + Sync>>,
    /// Gone since, and not to be found in what is read later.
    gone: Vec<Reference>,
    standing: OnceCell<Vec<Standing>>,
}

impl Shared {
    pub fn of(standing: Vec<Standing>) -> Self {
        Self { standing: standing.into(), ..Self::default() }
    }

    /// Read once, when first asked for. `read` must always give the same.
    pub fn later(read: impl Fn() -> Vec<Standing> + Send + Sync + 'static) -> Self {
        Self { read: Some(Arc::new(read)), ..Self::default() }
    }

    pub fn all(&self) -> &[Standing] {
        self.standing.get_or_init(|| {
            let all = self.read.as_ref().map(|read| read()).unwrap_or_default();
            all.into_iter().filter(|standing| !self.gone.contains(&standing.reference)).collect()
        })
    }

    pub fn push(&mut self, standing: Standing) {
        let mut all = self.all().to_vec();
        all.push(standing);
        self.standing = all.into();
    }

    fn forget(&mut self, reference: &Reference) {
        match self.standing.get_mut() {
            Some(all) => all.retain(|standing| &standing.reference != reference),
            None => self.gone.push(reference.clone()),
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}

/// An object that stands on the target.
#[derive(Debug, Clone)]
pub struct Standing {
    pub reference: Reference,
    pub object: Arc<Value>,
    /// Its mark [`marks::OBJECT`], which is asked for all the time.
    id: Box<str>,
}

#[derive(Debug, Clone)]
pub enum Look {
    Absent,
    Found(Arc<Value>),
}

/// What carrying out an action showed.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The object as the server has it now.
    Object(Arc<Value>),
    /// The source as the server has it now, without what its author asks for, which is what it was.
    Head(Arc<Value>),
    /// The write went through, and nothing remains to be learned from its answer.
    Accepted,
    /// The object is not there (any more), or gone with this write.
    Absent,
    /// A sweep's findings: true self marks only.
    Found(Vec<Standing>),
    Evidence(Evidence),
    /// Refused for a reason that the author, the consumer or an administrator has to mend.
    Refused(String),
}

impl Standing {
    pub fn new(reference: Reference, object: Arc<Value>) -> Self {
        let id = marks::annotation(&object, marks::OBJECT).unwrap_or_default().into();
        Self { reference, object, id }
    }

    pub fn uid(&self) -> &str {
        metadata(&self.object, "uid")
    }

    pub fn is_deleting(&self) -> bool {
        !metadata(&self.object, "deletionTimestamp").is_empty()
    }

    /// Id of the mapping's object that this one was rendered from; of several, `id[key]`.
    pub fn object_id(&self) -> &str {
        &self.id
    }

    /// Id of the mapping's rule that this one was rendered from.
    pub fn rule_id(&self) -> &str {
        let id = self.object_id();
        id.split_once('[').map_or(id, |(rule, _)| rule)
    }

    /// Which of several it is.
    pub fn key(&self) -> Option<&str> {
        self.object_id().split_once('[')?.1.strip_suffix(']')
    }
}

impl Observed {
    /// A source of which nothing stands and nothing was learned yet, under an active mapping.
    pub fn new(writer: Writer, key: Key, source: Source, target: Target, now: Timestamp) -> Self {
        let owner = writer.owner(&key);
        Self {
            writer,
            phase: Phase::Active,
            key,
            owner,
            workspace_path: None,
            source,
            body: None,
            target,
            owned: Vec::new(),
            shared: Shared::default(),
            shared_settled: false,
            settled: false,
            shared_in_use: BTreeMap::new(),
            related: Vec::new(),
            namespaces: BTreeSet::new(),
            schema: None,
            unkept_status: Arc::default(),
            now,
            learned: Learned::default(),
            memo: Memo::default(),
            recorder: None,
        }
    }

    /// From now on, takes down what is evaluated, or no longer does. What was rendered is forgotten, so that it is evaluated.
    pub fn record(&mut self, recorder: Option<Recorder>) {
        if recorder.is_some() || self.recorder.is_some() {
            self.memo = Memo::default();
        }
        self.recorder = recorder;
    }

    /// uid of the source as it is now; empty where it is not there.
    pub fn source_uid(&self) -> &str {
        match &self.source {
            Source::Present(source) => metadata(source, "uid"),
            _ => "",
        }
    }

    /// The source as templates read it.
    pub fn readable(&self, source: &Arc<Value>) -> Arc<SourceView> {
        self.memo.readable(source, self.body_of(source))
    }

    /// What says all that the source says beside metadata and status.
    pub fn body_of<'o>(&'o self, source: &'o Arc<Value>) -> &'o Arc<Value> {
        self.body.as_ref().unwrap_or(source)
    }

    /// What stands at a place and is ours by its self mark (this source's, or the namespace's for shared objects).
    pub fn ours_at(&self, reference: &Reference, shared: bool) -> Option<&Standing> {
        let all = if shared { self.shared.all() } else { &self.owned };
        all.iter().find(|standing| &standing.reference == reference)
    }

    /// Carries the outcome of an action into the picture, so that the next plan starts from it.
    pub fn absorb(&mut self, action: &Action, outcome: Outcome) {
        match (action, outcome) {
            (Action::PatchSource { .. } | Action::PatchStatus { .. }, Outcome::Object(object)) => {
                self.source = Source::Present(object);
                self.body = None;
            }
            (Action::PatchSource { .. } | Action::PatchStatus { .. }, Outcome::Head(head)) => {
                if let Source::Present(former) = std::mem::replace(&mut self.source, Source::Present(head)) {
                    self.body.get_or_insert(former);
                }
            }
            (Action::PatchSource { .. } | Action::PatchStatus { .. }, Outcome::Absent) => self.source = Source::Missing,
            (Action::LookForSource, Outcome::Evidence(evidence)) => self.learned.evidence = Some(evidence),
            (Action::Look { reference }, Outcome::Object(object)) => self.see(reference, object),
            (Action::Look { reference }, Outcome::Absent) => {
                self.learned.looks.insert(reference.clone(), Look::Absent);
            }
            (Action::Sweep { owners, .. }, Outcome::Found(found)) if found.is_empty() => {
                self.learned.swept.extend(owners.iter().cloned());
            }
            (Action::Sweep { .. }, Outcome::Found(found)) => {
                found.into_iter().for_each(|one| self.see(&one.reference, one.object))
            }
            (Action::CreateNamespace { name, .. }, _) => {
                self.namespaces.insert(name.clone());
            }
            (Action::Apply { reference, .. }, Outcome::Object(object)) => {
                self.learned.applied.insert(reference.clone());
                self.see(reference, object);
            }
            (Action::Delete { reference, .. }, Outcome::Object(object)) => self.see(reference, object),
            (
                Action::Delete { reference, .. } | Action::Apply { reference, .. } | Action::Unmark { reference, .. },
                Outcome::Absent,
            ) => {
                self.forget(reference);
            }
            (Action::Unmark { reference, .. }, Outcome::Object(_)) => self.forget(reference),
            (action, Outcome::Refused(why)) => {
                if let Some(reference) = action.reference() {
                    self.learned.refused.insert(reference.clone(), why);
                }
            }
            _ => {}
        }
    }

    /// Files an object under what it is: ours, shared, or somebody else's.
    fn see(&mut self, reference: &Reference, object: Arc<Value>) {
        self.forget(reference);
        let standing = Standing::new(reference.clone(), object);
        if marks::is_ours(&standing.object, reference, &self.owner) {
            self.owned.push(standing);
        } else if marks::is_ours(&standing.object, reference, &self.writer.shared_owner(&reference.namespace)) {
            self.shared.push(standing);
        } else {
            self.learned.looks.insert(reference.clone(), Look::Found(standing.object));
        }
    }

    fn forget(&mut self, reference: &Reference) {
        self.owned.retain(|standing| &standing.reference != reference);
        self.shared.forget(reference);
        self.learned.looks.remove(reference);
    }
}
