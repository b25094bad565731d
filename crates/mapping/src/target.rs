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

/// Clusters of a provider: of a source, or those that may be targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSelection {
    pub provider: String,
    /// Only these; empty: all.
    pub names: Vec<String>,
    pub labels: BTreeMap<String, String>,
    pub properties: BTreeMap<String, String>,
}

/// What a provider tells of a cluster, by which mappings select it. Never its identity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traits {
    /// `None`: its provider tells none of any cluster.
    pub labels: Option<BTreeMap<String, String>>,
    /// `None`: its provider tells none, or none yet.
    pub properties: Option<BTreeMap<String, String>>,
}

impl ClusterSelection {
    /// Whether a cluster of the provider is one of them. `None`: its provider does not tell what would say so. A provider that
    /// is edited may tell less than a document needs that is still in force: then the cluster has not left.
    pub fn matches(&self, name: &str, traits: &Traits) -> Option<bool> {
        let has_all = |wanted: &BTreeMap<String, String>, told: &Option<BTreeMap<String, String>>| {
            let has = |told: &BTreeMap<String, String>| wanted.iter().all(|(key, value)| told.get(key) == Some(value));
            if wanted.is_empty() { Some(true) } else { told.as_ref().map(has) }
        };
        let is_named = self.names.is_empty() || self.names.iter().any(|one| one == name);
        let all =
            [Some(is_named), has_all(&self.labels, &traits.labels), has_all(&self.properties, &traits.properties)];
        if all.contains(&Some(false)) { Some(false) } else { all.into_iter().fold(Some(true), Option::and) }
    }
}

impl TargetRule {
    /// Whether a source has several targets at a time.
    pub fn is_several(&self) -> bool {
        !matches!(self.choice, TargetChoice::One { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> BTreeMap<String, String> {
        let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn a_selection_compares_name_labels_and_properties() {
        let selection = |names: &[&str], labels: &str, properties: &str| ClusterSelection {
            provider: "fleet".into(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            labels: map(labels),
            properties: map(properties),
        };
        let known = Traits { labels: Some(map("tier=gold zone=a")), properties: Some(map("id=east")) };
        let unknown = Traits { properties: None, ..known.clone() };
        for (selection, of_known, of_unknown, of_untold) in [
            (selection(&[], "", ""), Some(true), Some(true), Some(true)),
            (selection(&["a", "b"], "tier=gold", ""), Some(true), Some(true), None),
            (selection(&["b"], "tier=gold", "id=east"), Some(false), Some(false), Some(false)),
            (selection(&[], "tier=silver", "id=east"), Some(false), Some(false), None),
            (selection(&["a"], "tier=gold", "id=east"), Some(true), None, None),
            (selection(&[], "", "id=west"), Some(false), None, None),
            (selection(&[], "", "other=east"), Some(false), None, None),
        ] {
            assert_eq!(selection.matches("a", &known), of_known, "{selection:?}");
            assert_eq!(selection.matches("a", &unknown), of_unknown, "{selection:?}");
            assert_eq!(selection.matches("a", &Traits::default()), of_untold, "{selection:?}");
        }
    }
}
