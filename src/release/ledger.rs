//! What a document that took another one's place may still take away.
//!
//! What a release loses is counted by its rehearsal, and everything that was counted goes. The ledger is for the rest: sources
//! that were out of sight, or did not come to their end then. Each loss of theirs that the documents before would not have is
//! given out of it, after that is recorded; what is beyond it is held until a person approves it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Bytes of the owners that are recorded as counted, at most, as they are written: the record is a ConfigMap, which has 1 MiB. The
/// others ask like everybody else after a restart.
const COUNTED: usize = 224 << 10;

/// Documents that losses are compared with, at most, and their bytes as they are written: the present document is in the record too,
/// and each has 256 KiB at most.
const DOCUMENTS: usize = 4;
const BYTES: usize = 512 << 10;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Which release it is of: a hash.
    pub release: String,
    /// Texts of the documents before: what all of them would lose as well is not lost by a release.
    pub former: Arc<Vec<String>>,
    /// Owners whose losses were counted before the release, by target.
    #[serde(default)]
    pub counted: Arc<BTreeMap<String, BTreeSet<String>>>,
    /// How many objects may go beyond those.
    pub allowed: usize,
    /// How many of these were given to sources, or are about to be.
    #[serde(default)]
    pub given: usize,
}

/// What becomes of what sources ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Share {
    /// Which of them have it.
    pub granted: Vec<usize>,
    /// How much has to be recorded as given before the others have theirs.
    pub given: usize,
    /// Whether some are beyond the ledger.
    pub is_exceeded: bool,
}

impl Ledger {
    /// That of a release by which `allowed` objects may be lost: those that the limits allow, and those that a person does.
    pub fn new(release: String, former: Vec<String>, allowed: usize) -> Self {
        Self { release, former: Arc::new(few(former)), allowed, ..Self::default() }
    }

    /// What these owners lose was counted, as many objects each: so much less is left to those who ask.
    pub fn count(&mut self, target: &str, owners: impl IntoIterator<Item = (String, usize)>) {
        let known = self.counted.iter().flat_map(|(target, owners)| owners.iter().chain([target]));
        let mut bytes: usize = known.map(|text| written(text)).sum::<usize>() + written(target);
        let mut counted = BTreeSet::new();
        for (owner, lost) in owners {
            bytes += written(&owner);
            if bytes > COUNTED {
                break;
            }
            counted.insert(owner);
            self.allowed = self.allowed.saturating_sub(lost);
        }
        if !counted.is_empty() {
            Arc::make_mut(&mut self.counted).entry(target.to_owned()).or_default().extend(counted);
        }
    }

    /// Owners whose losses on a target were counted.
    pub fn counts_on(&self, target: &str) -> BTreeSet<String> {
        self.counted.get(target).cloned().unwrap_or_default()
    }

    /// Shares out what is recorded as `given` and not `spent` by this process. Who asks for more than is left waits, and holds up
    /// nobody.
    pub fn share(&self, given: usize, spent: usize, asked: &[usize]) -> Share {
        let mut share = Share { given, ..Share::default() };
        let (mut spent, mut planned) = (spent, spent);
        for (index, objects) in asked.iter().enumerate() {
            if spent + objects <= given {
                spent += objects;
                planned = planned.max(spent);
                share.granted.push(index);
            } else if planned + objects <= self.allowed {
                planned += objects;
            } else {
                share.is_exceeded = true;
            }
        }
        share.given = share.given.max(planned);
        share
    }

    /// Goes by what is recorded, where `known` was given out when that was read last. Returns how much others have given out
    /// since: this process gives nothing before it has recorded it. What it recorded without an answer counts as theirs.
    pub fn reread(&mut self, recorded: &Self, known: usize) -> usize {
        self.given = recorded.given;
        self.allowed = self.allowed.max(recorded.allowed);
        recorded.given.saturating_sub(known)
    }

    /// A person allows everything that is held.
    pub fn approve(&mut self, spent: usize, held: usize) {
        self.allowed = self.allowed.max(spent + held);
    }
}

/// As many of the documents as are recorded, each once. One source that is never in sync keeps a ledger open through any number of
/// edits: the oldest document stays, which most of its objects are of, and the latest ones.
fn few(mut former: Vec<String>) -> Vec<String> {
    let mut known = BTreeSet::new();
    former.retain(|text| known.insert(text.clone()));
    let is_too_much =
        |all: &[String]| all.len() > DOCUMENTS || all.iter().map(|text| written(text)).sum::<usize>() > BYTES;
    while former.len() > 2 && is_too_much(&former) {
        former.remove(1);
    }
    former
}

/// Bytes of a text in the record, which is JSON, with what stands between it and the next one.
fn written(text: &str) -> usize {
    serde_json::Value::from(text).to_string().len() + 1
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::release::waves::{Progress, Stage};

    #[test]
    fn what_was_counted_leaves_less_of_the_limits() {
        for (allowed, lost, left) in [(10, 0, 10), (10, 4, 6), (110, 100, 10), (0, 3, 0)] {
            let mut ledger = Ledger::new(String::new(), Vec::new(), allowed);
            ledger.count("east", [("a".to_owned(), lost)]);
            assert_eq!(ledger.allowed, left, "{allowed} {lost}");
        }
    }

    #[test]
    fn what_is_asked_for_is_recorded_before_anybody_has_it() {
        // What is recorded as given and spent, and asked for; who has it, what is recorded, and whether it is too much.
        let rows = [
            ("two of three fit", 0, 0, &[4, 4, 4][..], vec![], 8, true),
            ("they have it once it is recorded", 8, 0, &[4, 4, 4], vec![0, 1], 8, true),
            ("as much is left as one asks for", 8, 8, &[2], vec![], 10, false),
            ("who asks for too much holds up nobody", 3, 0, &[20, 3], vec![1], 3, true),
            ("a process that starts takes all that was given for spent", 8, 8, &[4], vec![], 8, true),
        ];
        let mut ledger = Ledger { allowed: 10, ..Ledger::default() };
        for (case, given, spent, asked, granted, recorded, is_exceeded) in rows {
            let share = Share { granted, given: recorded, is_exceeded };
            assert_eq!(ledger.share(given, spent, asked), share, "{case}");
        }
        ledger.approve(8, 4);
        assert_eq!(ledger.share(8, 8, &[4]), Share { granted: vec![], given: 12, is_exceeded: false });
    }

    #[test]
    fn what_another_process_gave_is_not_given_again() {
        let recorded = |given, allowed| Ledger { given, allowed, ..Ledger::default() };
        let mut ledger = recorded(7, 10);
        assert_eq!(ledger.reread(&recorded(9, 12), 3), 6, "7 was wanted here, and never recorded");
        assert_eq!((ledger.given, ledger.allowed), (9, 12));
        assert_eq!(ledger.share(9, 6, &[4]), Share { granted: vec![], given: 10, is_exceeded: false });
        assert_eq!(ledger.reread(&recorded(9, 10), 9), 0);
        assert_eq!(ledger.allowed, 12, "a person has approved as much here");
    }

    #[test]
    fn the_record_has_an_end() {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(few(texts(&["a", "b", "a", "b"])), ["a", "b"], "an author who goes back and forth");
        assert_eq!(few(texts(&["a", "b", "c", "d", "e", "f"])), ["a", "d", "e", "f"]);
        let large = "x".repeat(BYTES / 2);
        assert_eq!(few(vec!["a".into(), large.clone(), large.clone() + "y", "b".into()]).len(), 3);
        // Who is not named in it asks, and there is enough for them.
        let owner = |number: usize| format!("{number:032}");
        let recorded = (COUNTED - written("east")) / written(&owner(0));
        let mut all = Ledger::new(String::new(), Vec::new(), 10 + recorded + 7);
        all.count("east", (0..10_000).map(|number| (owner(number), 1)));
        all.count("west", [(owner(10_000), 7)]);
        assert_eq!((all.counts_on("east").len(), all.counts_on("west").len()), (recorded, 0));
        assert_eq!(all.share(0, 0, &[7, 10, 1]), Share { granted: vec![], given: 17, is_exceeded: true });
    }

    /// Home refused it otherwise, and the release waited for ever.
    #[test]
    fn the_largest_record_fits_into_a_config_map() {
        // As large as a document may be, of what is twice as long as it is written.
        let document = |letter: &str| letter.to_owned() + &"\"".repeat((128 << 10) - 2);
        let former = ["a", "b", "c", "d", "e"].map(document).to_vec();
        let mut ledger = Ledger::new("r".repeat(16), former, usize::MAX);
        for target in 0..100 {
            ledger
                .count(&format!("target-{target}"), (0..1_000).map(|number| (format!("{target:016}{number:016}"), 1)));
        }
        let (release, in_force) = ("r".repeat(16), "f".repeat(16));
        let (candidate, stage) = (document("f"), Stage::Refused("why".repeat(1_000)));
        let record = json!(Progress { release, in_force, candidate, stage, ledger: Some(ledger) }).to_string();
        assert!(record.len() > 900 << 10 && record.len() < (1 << 20) - (16 << 10), "{}", record.len());
    }
}
