//! What the actors of a world may do, as data.

use std::fmt;

use super::core::Weather;
use super::server::{Ahead, Side};

/// Names that tell weak rules apart: `x-ca` is also what an object of `x` may be called.
pub const NAMES: [&str; 2] = ["x", "x-ca"];
pub const TENANTS: [&str; 2] = ["a", "b"];

/// A consumer's object, as people speak of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceRef {
    pub tenant: &'static str,
    pub resource: &'static str,
    pub name: &'static str,
}

impl fmt::Display for SourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} of tenant {}", self.resource, self.name, self.tenant)
    }
}

/// What an author does to the mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    Resource(&'static str),
    /// Adds the object of this id, or removes it.
    Toggle(&'static str),
    /// Another text in every object.
    Edition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Create(SourceRef),
    Change(SourceRef),
    Delete(SourceRef),
    Edit(Edit),
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
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(source) => write!(f, "a consumer creates {source}"),
            Self::Change(source) => write!(f, "a consumer edits {source}"),
            Self::Delete(source) => write!(f, "a consumer deletes {source}"),
            Self::Edit(Edit::Resource(resource)) => write!(f, "the author sets source.resource to {resource}"),
            Self::Edit(Edit::Toggle(id)) => write!(f, "the author adds or removes the object `{id}`"),
            Self::Edit(Edit::Edition) => write!(f, "the author edits the templates"),
            Self::BackUp(side) => write!(f, "the {} server is backed up", side.name()),
            Self::Restore(side, ahead) => write!(f, "the {} server is restored to its backup ({ahead:?})", side.name()),
            Self::Rebuild(side, ahead) => write!(f, "the {} server is rebuilt empty ({ahead:?})", side.name()),
            Self::Away(side) => write!(f, "the {} server goes away", side.name()),
            Self::Back(side) => write!(f, "the {} server is back", side.name()),
            Self::Cut(side) => write!(f, "the watches at the {} server are cut", side.name()),
            Self::Silence(side) => write!(f, "the watches at the {} server fall silent", side.name()),
            Self::Weather(weather) if *weather == Weather::default() => write!(f, "the network is well"),
            Self::Weather(weather) => write!(f, "the network is bad: {weather:?}"),
            Self::Crash(process) => write!(f, "engine {process} is killed"),
            Self::Stop(process) => write!(f, "engine {process} is told to stop"),
            Self::Start(process) => write!(f, "engine {process} starts"),
        }
    }
}

impl Action {
    /// Its name, as in the matrix of actions and faults.
    pub fn kind(&self) -> String {
        let text = format!("{self:?}");
        let end = text.find(['{', ' ']).unwrap_or(text.len());
        let short = text.split("SourceRef").next().unwrap_or(&text);
        match self {
            Self::Weather(_) => "Weather".to_owned(),
            Self::Edit(_) => text.clone(),
            _ if short.len() < text.len() => short.trim_end_matches('(').to_owned(),
            _ => text[..end].to_owned(),
        }
    }
}

/// An action, and how long after the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub after_ms: u64,
    pub action: Action,
}

/// Everything that is decided before a world begins. Steps can be left out of it, to find the ones that matter.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Sources in kcp workspaces; else in one plain cluster, whose only tenant is `a`.
    pub is_kcp: bool,
    pub steps: Vec<Step>,
}
