//! What a reconcile reads beside its own objects, and which of that it waits for.

use std::collections::BTreeSet;

use super::pipeline::wakes::{Collection, Reader, Token, Topic, Until, in_words};
use crate::multicluster::interests::Waits;
use crate::multicluster::queue::Outcome;
use crate::object::Key;
use crate::plan::Cause;

/// Facts that one reconcile reads. Those that are not in order stay open: a plan that waits, waits for them.
#[derive(Debug)]
pub struct Facts<'i> {
    reader: Reader<'i>,
    open: Vec<Token>,
    /// The same of related objects, which are read once.
    related: Vec<Token>,
}

impl<'i> Facts<'i> {
    pub fn new(reader: Reader<'i>) -> Self {
        Self { reader, open: Vec::new(), related: Vec::new() }
    }

    /// Facts that are read at the same time, in the same reconcile.
    pub fn part(&self) -> Self {
        Self::new(self.reader.sibling())
    }

    /// What a part has read was read in this reconcile.
    pub fn join(&mut self, part: Self) {
        self.reader.join(part.reader);
        self.open.extend(part.open);
        self.related.extend(part.related);
    }

    /// Everything is read once more, but for related objects.
    pub fn again(&mut self) {
        self.open.clear();
    }

    /// Reads something that changes with these topics. `is_open`: a source may have to wait for it.
    pub fn read<T>(
        &mut self,
        topics: impl IntoIterator<Item = Topic>,
        read: impl FnOnce() -> T,
        is_open: impl FnOnce(&T) -> bool,
    ) -> T {
        let tokens: Vec<Token> = topics.into_iter().map(|topic| self.reader.topic(topic, || ()).1).collect();
        let value = read();
        if is_open(&value) {
            self.open.extend(tokens);
        }
        value
    }

    /// The same of what is known of a collection of related objects.
    pub fn read_related<T>(&mut self, topic: Topic, read: impl FnOnce() -> T, is_open: impl FnOnce(&T) -> bool) -> T {
        let token = self.reader.topic(topic, || ()).1;
        let value = read();
        if is_open(&value) {
            self.related.push(token);
        }
        value
    }

    /// Reads one related object, whose changes wake the source from now on.
    pub fn object<T>(&mut self, of: &Collection, key: &Key, read: impl FnOnce() -> T) -> T {
        self.reader.get(of, key, read).0
    }

    /// The same of all related objects of a selection that are in one namespace.
    pub fn selection<T>(&mut self, of: &Collection, namespace: &str, read: impl FnOnce() -> T) -> T {
        self.reader.list(of, namespace, read).0
    }

    /// Reads the objects that carry the label of another owner than the source.
    pub fn owned_by<T>(&mut self, owner: &str, read: impl FnOnce() -> T) -> T {
        self.reader.list(&Collection::Target, owner, read).0
    }

    /// What is open, in words.
    pub fn waits_for(&self) -> Vec<String> {
        let words: BTreeSet<String> = self.open.iter().chain(&self.related).filter_map(in_words).collect();
        let own = "a change of the source, or of its objects".to_owned();
        words.into_iter().chain([own]).collect()
    }

    /// Ends the reconcile. Without a cause, everything is in order. Else it waits for its own objects and for what is open,
    /// and is looked at again by `timer`: for what is stuck, and for what no event tells.
    pub fn finish(mut self, causes: &[Cause], timer: Outcome) -> Outcome {
        let ((), own) = self.reader.own(|| ());
        let open = self.open.iter().chain(&self.related).chain([&own]).map(|token| Until::Change(token.clone()));
        let ends: Vec<Until> = open.chain([Until::Timer(timer)]).collect();
        let unseen = causes.contains(&Cause::Unknown) && self.open.is_empty() && self.related.is_empty();
        let unseen = unseen.then_some((Cause::Unknown, Until::Timer(Outcome::Retry)));
        let waits = causes.iter().flat_map(|cause| ends.iter().map(|until| (*cause, until.clone()))).chain(unseen);
        let outcome = self.reader.finish(&Waits(waits.collect()));
        if causes.is_empty() { timer } else { outcome }
    }
}
