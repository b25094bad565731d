//! Which of several targets a source's objects go to.

use std::collections::BTreeMap;

use super::template::Text;
use super::{ForEach, TargetChange};

/// Which of several targets the objects of a source go to.
#[derive(Debug)]
pub struct TargetRule {
    pub choice: TargetChoice,
    /// Targets that the document names.
    pub allowed: Vec<String>,
    /// Clusters of a provider that may be targets.
    pub fleet: Option<ClusterSelection>,
}

/// How a source's targets are chosen.
#[derive(Debug)]
pub enum TargetChoice {
    /// One for each source, sticky.
    One { cluster: Text, on_change: TargetChange },
    /// One for each item of a list.
    Each { each: Box<ForEach>, cluster: Text },
    /// Every one that there may be.
    All,
}

/// Clusters of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSelection {
    pub provider: String,
    /// Only these; empty: all.
    pub names: Vec<String>,
    pub labels: BTreeMap<String, String>,
}

impl ClusterSelection {
    /// Whether a cluster of the provider is one of them.
    pub fn matches(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        let is_named = self.names.is_empty() || self.names.iter().any(|one| one == name);
        is_named && self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

impl TargetRule {
    /// Whether a source has several targets at a time.
    pub fn is_several(&self) -> bool {
        !matches!(self.choice, TargetChoice::One { .. })
    }
}
