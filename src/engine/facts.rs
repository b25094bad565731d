//! What a reconcile reads beside its own objects, and which of that it waits for.

use std::collections::BTreeSet;

use super::pipeline::wakes::{Collection, Interest, Reader, Token, Topic, in_words};
use crate::multicluster::queue::Requeue;
use crate::object::Key;
use crate::plan::Cause;

/// Facts that one reconcile reads. Those that are not in order stay open: a plan that waits, waits for them.
#[derive(Debug)]
pub struct Facts<'i> {
    reader: Reader<'i>,
    open: Vec<Token>,
}

impl<'i> Facts<'i> {
    pub fn new(reader: Reader<'i>) -> Self {
        Self { reader, open: Vec::new() }
    }

    /// Facts that are read at the same time, in the same reconcile.
    pub fn part(&self) -> Self {
        Self::new(self.reader.sibling())
    }

    /// What a part has read was read in this reconcile.
    pub fn join(&mut self, part: Self) {
        self.reader.join(part.reader);
        self.open.extend(part.open);
    }

    /// Everything is read once more, but for related objects, which are read once.
    pub fn again(&mut self) {
        let of_related =
            |token: &Token| matches!(token.interest(), Interest::Topic(Topic::Synced(Collection::Related(_))));
        self.open.retain(of_related);
    }

    /// Reads something that changes with these topics. `is_open`: a source may have to wait for it.
    pub fn read<T>(
        &mut self,
        topics: impl IntoIterator<Item = Topic>,
        read: impl FnOnce() -> T,
        is_open: impl FnOnce(&T) -> bool,
    ) -> T {
        let tokens: Vec<Token> = topics.into_iter().map(|topic| self.reader.topic(topic)).collect();
        let value = read();
        if is_open(&value) {
            self.open.extend(tokens);
        }
        value
    }

    /// Reads one related object, whose changes wake the source from now on.
    pub fn object<T>(&mut self, of: &Collection, key: &Key, read: impl FnOnce() -> T) -> T {
        self.reader.get(of, key, read)
    }

    /// The same of a selection: all related objects in one namespace, or what carries the label of another owner than the source.
    pub fn selection<T>(&mut self, of: &Collection, value: &str, read: impl FnOnce() -> T) -> T {
        self.reader.list(of, value, read)
    }

    /// What is open, in words.
    pub fn waits_for(&self) -> Vec<String> {
        let words: BTreeSet<String> = self.open.iter().filter_map(in_words).collect();
        let own = "a change of the source, or of its objects".to_owned();
        words.into_iter().chain([own]).collect()
    }

    /// Ends the reconcile. Without a cause, everything is in order. Else it waits for what is open, beside its own objects, and
    /// is looked at again by `timer`: for what is stuck, and for what no event tells.
    pub fn finish(self, causes: &[Cause], timer: Requeue) -> Requeue {
        if causes.is_empty() {
            return self.reader.finish(&[], timer);
        }
        let is_unseen = causes.contains(&Cause::Unknown) && self.open.is_empty();
        let timer = if is_unseen { timer.sooner(Requeue::Retry) } else { timer };
        self.reader.finish(&self.open, timer)
    }
}
