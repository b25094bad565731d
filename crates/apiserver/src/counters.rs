//! How many requests came, by what they did to which resource.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::Sum;

use super::request::{Call, Verb};

/// Counts of requests, by verb and resource (`configmaps`, `mongodbcommunity/status`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<(Verb, String), u64>);

impl Counters {
    pub(super) fn record(&mut self, call: &Call) {
        *self.0.entry((call.verb, call.resource.clone())).or_default() += 1;
    }

    /// Requests of one verb for one resource.
    pub fn of(&self, verb: Verb, resource: &str) -> u64 {
        self.0.get(&(verb, resource.to_owned())).copied().unwrap_or_default()
    }

    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Requests that write.
    pub fn writes(&self) -> u64 {
        let reading = [Verb::Get, Verb::List, Verb::Watch];
        self.0.iter().filter(|((verb, _), _)| !reading.contains(verb)).map(|(_, count)| count).sum()
    }

    /// What was counted since an earlier state of these counters.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let grown = self.0.iter().map(|(key, count)| (key.clone(), count - earlier.0.get(key).unwrap_or(&0)));
        Counters(grown.filter(|(_, count)| *count > 0).collect())
    }

    /// All counts, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Verb, &str, u64)> {
        self.0.iter().map(|((verb, resource), count)| (*verb, resource.as_str(), *count))
    }
}

/// What several servers counted.
impl Sum for Counters {
    fn sum<I: Iterator<Item = Counters>>(all: I) -> Counters {
        let mut counts = BTreeMap::new();
        all.flat_map(|one| one.0).for_each(|(key, count)| *counts.entry(key).or_default() += count);
        Counters(counts)
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> =
            self.iter().map(|(verb, resource, count)| format!("{verb} {resource}: {count}")).collect();
        f.write_str(&lines.join(", "))
    }
}
