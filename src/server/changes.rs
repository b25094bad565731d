//! What became of documents, held edits and leadership: the last thousand changes, for the console.

use std::collections::VecDeque;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::api::{Filter, Page};

/// Older ones are forgotten.
const KEPT: usize = 1000;

/// Takes down changes. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Changes(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    /// Of the last change.
    number: u64,
    kept: VecDeque<Change>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Counts from 1 when the process starts.
    pub number: u64,
    pub time: Timestamp,
    /// Empty: it is about the whole engine.
    pub mapping: String,
    /// As its Event has it.
    pub reason: String,
    pub is_warning: bool,
    pub message: String,
}

impl Changes {
    pub fn note(&self, time: Timestamp, mapping: &str, is_warning: bool, reason: &str, message: &str) {
        let mut log = self.0.lock();
        log.number += 1;
        let (number, mapping) = (log.number, mapping.to_owned());
        let (reason, message) = (reason.to_owned(), message.to_owned());
        log.kept.push_back(Change { number, time, mapping, reason, is_warning, message });
        if log.kept.len() > KEPT {
            log.kept.pop_front();
        }
    }

    /// A page of those that are asked for, the latest first.
    ///
    /// # Errors
    /// Where the page before ended with something else.
    pub(super) fn page(&self, filter: &Filter) -> Result<Page<Change>, String> {
        let before = match &filter.after {
            Some(number) => number.parse().map_err(|_| format!("continue: `{number}` is no number"))?,
            None => u64::MAX,
        };
        let is_asked = |change: &&Change| {
            change.number < before
                && filter.mapping.as_ref().is_none_or(|mapping| *mapping == change.mapping)
                && filter.reason.as_ref().is_none_or(|reason| *reason == change.reason)
        };
        let log = self.0.lock();
        let mut found = log.kept.iter().rev().filter(is_asked);
        let items: Vec<Change> = found.by_ref().take(filter.at_most()).cloned().collect();
        let next = found.next().and(items.last()).map(|last| last.number.to_string());
        Ok(Page { items, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(page: &Page<Change>) -> Vec<u64> {
        page.items.iter().map(|change| change.number).collect()
    }

    #[test]
    fn the_latest_changes_come_first_and_pages_follow_each_other() {
        let changes = Changes::default();
        for number in 0..KEPT + 5 {
            let (mapping, reason) = (["a", "b"][number % 2], ["DocumentLoaded", "DocumentRefused"][number / 4 % 2]);
            changes.note(Timestamp::UNIX_EPOCH, mapping, false, reason, "why");
        }
        let page = |filter: &Filter| changes.page(filter).expect("a page");
        let mut filter = Filter { limit: Some(2), mapping: Some("a".to_owned()), ..Filter::default() };
        let first = page(&filter);
        assert_eq!((numbers(&first), first.next.as_deref()), (vec![1005, 1003], Some("1003")));
        filter.after = first.next;
        assert_eq!(numbers(&page(&filter)), [1001, 999]);
        let all = page(&Filter::default());
        assert_eq!((all.items.len(), all.next), (KEPT, None), "the first five are forgotten");
        let refused = page(&Filter { reason: Some("DocumentRefused".to_owned()), ..Filter::default() });
        assert!(refused.items.iter().all(|change| change.reason == "DocumentRefused") && !refused.items.is_empty());
        assert!(changes.page(&Filter { after: Some("x".to_owned()), ..Filter::default() }).is_err());
    }
}
