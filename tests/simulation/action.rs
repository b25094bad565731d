//! What the actors of a world may do, as data.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::core::Weather;
use super::mapping::{More, Spread};
use super::server::{Ahead, Side};

/// Names that tell weak rules apart: `x-ca` is also what an object of `x` may be called.
pub const NAMES: [&str; 2] = ["x", "x-ca"];
/// Names that are rare, and allowed: with a dot, and as long as a name may be. What is longer by a suffix is refused.
pub const RARE_NAMES: [&str; 2] = ["x.y", LONG];
const LETTERS: [u8; LONGEST] = [b'x'; LONGEST];
const LONG: &str = match std::str::from_utf8(&LETTERS) {
    Ok(text) => text,
    Err(_) => panic!("letters"),
};
/// As long as the name of an object may be.
pub const LONGEST: usize = 253;
pub const TENANTS: [&str; 2] = ["a", "b"];

/// A consumer's object, as people speak of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceRef {
    pub tenant: &'static str,
    pub resource: &'static str,
    pub name: &'static str,
}

impl fmt::Debug for SourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.len() == LONGEST { "a long name" } else { self.name };
        write!(f, "{}/{name} of tenant {}", self.resource, self.tenant)
    }
}

/// What an author does to the mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edit {
    Resource(&'static str),
    /// Adds the object of this id, or removes it.
    Toggle(&'static str),
    /// Adds the copy of this id, or removes it.
    Related(&'static str),
    /// Another text in every object.
    Edition,
    /// Turns the selector on or off.
    Selector,
    /// Turns the condition on sources on or off.
    When,
    /// What follows the namespace that the placement gives by default.
    Namespace(&'static str),
    OnIdentityChange(&'static str),
    OnSourceVanished(&'static str),
    OnSourceRecreated(&'static str),
    Drift(&'static str),
    /// What becomes of each object that is deleted: `delete.policy`.
    DeletePolicy(&'static str),
    /// How many objects a changed document may delete.
    MaxLost(u32),
    /// Writes this field of the status as well.
    Status(&'static str),
    /// No longer writes this field of the status.
    NoStatus(&'static str),
    Mode(&'static str),
    OnExit(&'static str),
    OnSourceDelete(&'static str),
    OnMappingRemoved(&'static str),
    /// Another name for the first object: from `{{ placement.name }}` to one with this suffix.
    Name(&'static str),
    /// Another kind for the first object.
    Kind(&'static str),
    /// Another id for the first object.
    Id(&'static str),
    /// Another version of the kind Widget in the templates.
    Version(&'static str),
    /// The objects of a source are on other targets.
    Spread(Spread),
    OnTargetChange(&'static str),
    /// Objects that nobody owns are taken over, or are not any more.
    Adopt,
    /// Another `metadata.name`.
    Rename(&'static str),
    /// The provider of the plain cluster becomes a fleet, or one connection again.
    Fleet,
    /// A second mapping on the same resource is put into the file, or taken out of it.
    Guest,
    /// That mapping writes this field of the status from now on, and this one no longer.
    Hand(&'static str),
    /// The file is removed, or comes back.
    Remove,
    /// The file is broken, or repaired.
    Break,
}

/// What people do to an object on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Meddling {
    Edit,
    Delete,
    /// Strips the ownership labels and annotations.
    Strip,
    /// Copies it with all labels and annotations under another name.
    Copy,
    /// Adds a finalizer, as an operator does.
    Hold,
    /// Creates an object there, if there is none.
    Squat,
    /// Forges the list of fields that a template set: more of them, others, or none.
    Fields,
    /// Puts the ownership labels and annotations of another object of the source on it.
    Disguise,
    /// Gives the quota of the source another size, or the same size in another form.
    Resize,
    /// Puts another password in place of the one that was made, or takes it out.
    Rotate,
}

/// Which versions of the kind Widget there are at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Versions {
    /// Both, stored in the first one.
    Both,
    /// Both, stored in the second one.
    Moved,
    /// The second one is not served.
    First,
    /// The first one is not served.
    Second,
    /// The first one is gone from the definition.
    Gone,
}

impl Versions {
    pub fn serves(self, version: &str) -> bool {
        match self {
            Self::Both | Self::Moved => true,
            Self::First => version == VERSIONS[0],
            Self::Second | Self::Gone => version == VERSIONS[1],
        }
    }
}

/// The versions of the kind Widget.
pub const VERSIONS: [&str; 2] = ["v1", "v2"];

/// What is done to the Secrets of a source. Beside the source, by its consumer: there is the Secret with the password, which the
/// source names, and the copy of the connection. On the target, by operators and people: there is the Secret with the
/// connection, and the copy of the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Secrecy {
    /// Creates the Secret, or puts another value into it.
    Put,
    /// Deletes it.
    Delete,
    /// Deletes it, and creates it again with another type.
    Retype,
    /// Has the source name another one.
    Rename,
    /// Puts the label on the one beside the source by which Secrets are selected, or takes it off.
    Select,
    /// Edits the copy.
    EditCopy,
    /// Deletes the copy.
    DeleteCopy,
    /// Creates a Secret in place of the copy, if there is none.
    Squat,
}

/// Traces show it as scenarios write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    Create(SourceRef),
    Change(SourceRef),
    Delete(SourceRef),
    /// Deletes it, strips its finalizers and creates it again.
    Recreate(SourceRef),
    /// Takes all finalizers off.
    Strip(SourceRef),
    /// Somebody else puts a finalizer on it.
    Keep(SourceRef),
    /// Writes the ownership labels and annotations of a target object on the source of it.
    Forge(SourceRef),
    /// Writes the finalizer of a mapping on it that is yet to come, and that it is on the target.
    Mark(SourceRef),
    /// Fills it with so much text that the engine keeps an outline, or takes that out.
    Fill(SourceRef),
    /// Puts the label on that the selector asks for, or takes it off.
    Label(SourceRef),
    Secret(SourceRef, Side, Secrecy),
    /// A tenant accepts the permission claim for Secrets.
    Claim(&'static str),
    /// Takes that back.
    Unclaim(&'static str),
    Bind(&'static str),
    Unbind(&'static str),
    CreateWorkspace(&'static str),
    DeleteWorkspace(&'static str),
    Edit(Edit),
    /// A person approves the deletions that the limits of a release hold.
    Approve,
    /// A person rejects the edit that they hold.
    Reject,
    /// The provider of the API puts a new schema behind it: with the field `status.edition`, or without.
    Schema,
    Meddle(SourceRef, Meddling),
    /// Somebody writes a document of their own into the state store on a target, or takes it out.
    Usurp(Side),
    /// Somebody with a namespace of their own on the target copies an object into it, with all labels and annotations.
    Plant(SourceRef),
    /// The namespace of a tenant's objects is deleted.
    DeleteNamespace(SourceRef),
    /// Takes all finalizers off that people added to the target's objects.
    Release,
    /// The kind Widget is removed from the target.
    NoWidgets,
    /// It is installed there.
    Widgets,
    /// Versions of their kind come and go.
    Version(Versions),
    /// Widgets stay, and are not served for a while.
    Unserve,
    Serve,
    /// Admission refuses these writes at the target.
    Deny(&'static str),
    Allow,
    /// Whether admission at the target sets the edition of each ConfigMap that is written, and a label.
    Mutate(bool),
    /// History is forgotten: watches that resume get a 410.
    Compact(Side),
    /// The clocks jump by so many seconds.
    Jump(i64),
    /// Keeps a copy of a server's data.
    BackUp(Side),
    /// Puts it back.
    Restore(Side, Ahead),
    /// An empty server behind the same address, with the same APIs.
    Rebuild(Side, Ahead),
    /// A server is away.
    Away(Side),
    Back(Side),
    Cut(Side),
    Silence(Side),
    Weather(Weather),
    /// A process of the engine is killed.
    Crash(u32),
    /// It is told to stop, and stops.
    Stop(u32),
    Start(u32),
    /// It stands still: nothing of it leaves, nothing reaches it. Its timers go on, as they do after SIGCONT.
    Pause(u32),
    Resume(u32),
    /// Its clock alone jumps by so many seconds.
    Skew(u32, i64),
    /// A process may not touch Leases any more.
    Bar(u32),
    /// It may again.
    Unbar(u32),
    /// Somebody deletes the Lease that it holds.
    DropLease(u32),
    /// The kubeconfigs name another address of the same server.
    Address(Side),
    /// The kubeconfigs hold another token, and the server knows the former one no longer.
    Token(Side),
    /// The fleet lists the plain cluster otherwise.
    List(Roster),
}

/// How a fleet lists the plain cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Roster {
    Listed,
    /// Under another name.
    Renamed,
    /// Under both names.
    Doubled,
    /// With labels that the mappings do not select.
    Relabelled,
    /// Not at all.
    Missing,
    /// The list cannot be read.
    Unreadable,
    /// The kubeconfig leads to the target.
    Astray,
}

impl Action {
    /// What no state shows: it concerns connections and clocks.
    pub fn is_of_connections_or_clocks(self) -> bool {
        matches!(
            self,
            Self::Cut(_) | Self::Silence(_) | Self::Compact(_) | Self::Weather(_) | Self::Jump(_) | Self::Skew(..)
        )
    }

    /// What consumers and people at the target do, while the engine runs and sees everything.
    pub fn is_everyday(self) -> bool {
        matches!(
            self,
            Self::Create(_)
                | Self::Change(_)
                | Self::Delete(_)
                | Self::Recreate(_)
                | Self::Label(_)
                | Self::Meddle(..)
                | Self::Secret(..)
        )
    }
}

impl Action {
    /// The tenant whose action it is, or whose objects it is about.
    pub fn tenant(self) -> Option<&'static str> {
        match self {
            Self::Create(source)
            | Self::Change(source)
            | Self::Delete(source)
            | Self::Recreate(source)
            | Self::Strip(source)
            | Self::Keep(source)
            | Self::Label(source)
            | Self::Forge(source)
            | Self::Mark(source)
            | Self::Fill(source)
            | Self::Plant(source)
            | Self::Meddle(source, _)
            | Self::Secret(source, ..)
            | Self::DeleteNamespace(source) => Some(source.tenant),
            Self::Bind(tenant)
            | Self::Claim(tenant)
            | Self::Unclaim(tenant)
            | Self::Unbind(tenant)
            | Self::CreateWorkspace(tenant)
            | Self::DeleteWorkspace(tenant) => Some(tenant),
            _ => None,
        }
    }

    /// Its name, as in the matrix of actions and faults.
    pub fn kind(&self) -> String {
        let text = match self {
            Self::Edit(edit) => format!("Edit{edit:?}"),
            Self::Meddle(_, meddling) => format!("Meddle{meddling:?}"),
            Self::Secret(_, Side::Source, secrecy) => format!("Secret{secrecy:?}"),
            Self::Secret(_, _, secrecy) => format!("TargetSecret{secrecy:?}"),
            action => format!("{action:?}"),
        };
        let end = text.find(['(', '{', ' ']).unwrap_or(text.len());
        text[..end].to_owned()
    }
}

/// An action, and how long after the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub struct Step {
    pub after_ms: u64,
    pub action: Action,
}

/// What stays broken for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Forever {
    /// Admission at the target refuses every write of the objects of this name.
    Refusal(&'static str),
    /// The workspace of a tenant answers no request.
    Workspace(&'static str),
    /// The target does not have the kind Widget.
    NoWidgets,
    /// It has that kind, and does not serve it.
    Unserved,
    /// The second target goes away, and does not come back.
    Second,
}

/// Everything that is decided before a world begins. Steps can be left out of it, to find the ones that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub struct Plan {
    pub seed: u64,
    /// Other luck: what is a matter of chance at the servers and in the network is drawn otherwise.
    pub luck: u64,
    /// Sources in kcp workspaces; else in one plain cluster, whose only tenant is `a`.
    pub is_kcp: bool,
    /// Whether the first mapping has related objects.
    pub has_related: bool,
    /// What the first mapping copies beside that.
    pub more: Option<More>,
    /// Whether objects are beside their sources, where consumers can write them.
    pub is_beside: bool,
    /// Whether objects are of a kind with two versions, and of one whose values have several forms.
    #[serde(default)]
    pub has_forms: bool,
    /// Whether an edit of a mapping reaches half of its sources first.
    #[serde(default)]
    pub in_waves: bool,
    /// On which targets objects are in the beginning.
    pub spread: Spread,
    /// Whether operators connect what is new by themselves.
    pub has_operators: bool,
    /// Whether the plain cluster is one of a fleet.
    pub has_fleet: bool,
    /// Whether there are replicas of an engine, which agree by a Lease on who writes.
    pub elects: bool,
    /// How many watches an engine may run that starts before the faults end.
    pub max_watches: Option<usize>,
    pub steps: Vec<Step>,
    pub forever: Option<Forever>,
}

impl Plan {
    /// With two shards each tenant is on its own: the endpoint comes and goes with its binding.
    pub fn shards(&self) -> usize {
        if self.is_kcp && self.seed % 2 == 1 { 2 } else { 1 }
    }

    /// Whether such a thing happens.
    pub fn has(&self, is_it: impl Fn(Action) -> bool) -> bool {
        self.steps.iter().any(|step| is_it(step.action))
    }

    /// The same with these steps alone, each at its moment.
    pub fn keeping(&self, keeps: impl Fn(Action) -> bool) -> Self {
        let (mut steps, mut pause) = (Vec::new(), 0);
        for step in &self.steps {
            pause += step.after_ms;
            if keeps(step.action) {
                steps.push(Step { after_ms: std::mem::take(&mut pause), ..*step });
            }
        }
        Self { steps, ..self.clone() }
    }
}
