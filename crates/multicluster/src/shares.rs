//! Which replica of an engine does what: rendezvous hashing over those that are alive. Pure.
//!
//! Each replica decides alone, by what it sees. Two that see each other never both take the same work, whoever else they see:
//! of two replicas, the one with the higher score for a work is always the same.

use std::collections::BTreeSet;
use std::sync::Arc;

use sync_engine_mapping::hash::tuple_hash;

/// What exactly one replica does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work<'a> {
    /// Writes for the sources of the cluster with this identity.
    Cluster(&'a str),
    /// Keeps the state store of the mapping with this name, and decides what concerns all its sources.
    Mapping(&'a str),
}

/// The replicas that share the work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View(BTreeSet<Arc<str>>);

impl View {
    /// The replica that does a work; `None`: there is no replica.
    pub fn owner(&self, work: Work<'_>) -> Option<&str> {
        match self.0.len() {
            0 | 1 => self.0.first().map(AsRef::as_ref),
            // Of two with one score the later in the alphabet: every replica decides the same.
            _ => self.0.iter().max_by_key(|replica| (score(replica, work), *replica)).map(AsRef::as_ref),
        }
    }

    pub fn replicas(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<R: AsRef<str>> FromIterator<R> for View {
    fn from_iter<I: IntoIterator<Item = R>>(replicas: I) -> Self {
        Self(replicas.into_iter().map(|replica| replica.as_ref().into()).collect())
    }
}

/// It never changes: replicas of two versions of the engine would decide differently.
fn score(replica: &str, work: Work<'_>) -> String {
    let (kind, name) = match work {
        Work::Cluster(identity) => ("cluster", identity),
        Work::Mapping(name) => ("mapping", name),
    };
    tuple_hash([kind, name, replica], 10)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn view(replicas: &[&str]) -> View {
        replicas.iter().collect()
    }

    /// As kcp names logical clusters.
    fn identities() -> Vec<String> {
        (0..10_000).map(|number| tuple_hash([number.to_string().as_str()], 10)).collect()
    }

    #[test]
    fn ten_thousand_clusters_are_spread_evenly() {
        for replicas in [["a", "b", "c"], ["engine-7d9-x2x", "engine-7d9-x2y", "engine-7d9-x2z"]] {
            let view = view(&replicas);
            let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
            let identities = identities();
            for identity in &identities {
                *shares.entry(view.owner(Work::Cluster(identity)).unwrap()).or_default() += 1;
            }
            assert!(shares.len() == 3 && shares.values().all(|share| (3_000..=3_666).contains(share)), "{shares:?}");
        }
    }

    #[test]
    fn a_replica_that_joins_takes_its_share_and_nothing_else_moves() {
        let (before, after) = (view(&["a", "b", "c"]), view(&["a", "b", "c", "d"]));
        let identities = identities();
        let owners = |view: &View| -> Vec<String> {
            identities.iter().map(|identity| view.owner(Work::Cluster(identity)).unwrap().to_owned()).collect()
        };
        let moves: Vec<_> =
            owners(&before).into_iter().zip(owners(&after)).filter(|(one, other)| one != other).collect();
        assert!(moves.iter().all(|(_, to)| to == "d"));
        assert!((2_250..=2_750).contains(&moves.len()), "{}", moves.len());
    }

    #[test]
    fn two_that_see_each_other_never_do_the_same_work() {
        let identities = identities();
        for (one, other) in
            [(view(&["a", "b"]), view(&["a", "b", "c"])), (view(&["a", "b", "d"]), view(&["a", "b", "c"]))]
        {
            for identity in &identities {
                let work = Work::Cluster(identity);
                assert!(!(one.owner(work) == Some("a") && other.owner(work) == Some("b")), "{identity}");
                assert!(!(one.owner(work) == Some("b") && other.owner(work) == Some("a")), "{identity}");
            }
        }
    }

    #[test]
    fn owners_never_change_from_one_version_of_the_engine_to_the_next() {
        let view = view(&["a", "b", "c"]);
        let owner = |name| view.owner(Work::Cluster(name)).unwrap();
        assert_eq!(["one", "two", "three", "four", "five"].map(owner), ["c", "b", "c", "a", "a"]);
        assert_eq!(view.owner(Work::Mapping("one")), Some("a"));
        assert_eq!(View::default().owner(Work::Cluster("one")), None);
    }
}
