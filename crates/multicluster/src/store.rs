//! The cache of one watch: objects by (cluster, namespace, name), with uid.
//!
//! One ordered map serves every access: an object, the objects of a cluster (a range), all. What
//! a watch tells enters through [`Store::put`], [`Store::delete`] and a list; what the engine's
//! own writes answer enters through a [`PendingWrite`].

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock, Weak};

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use parking_lot::Mutex;

use super::bodies::Bodies;
use super::raw::{NotAnObject, Object, Parsed, is_older};
use super::registry::ClustersOf;
use sync_engine_mapping::object::{ClusterName, Key};

/// More of a first object would not fit what LZ4 looks back on.
const MAX_DICTIONARY: usize = 32 * 1024;

/// Objects that changed last are not packed yet: most of them are about to be read, or to change again. So many of one store at
/// most, and fewer where there are [many stores](Bodies::plain_of_each).
const PLAIN: usize = 64;

/// What a subscriber is told.
///
/// `before` and `after` are the same object only where an event was overtaken by the answer of a
/// later write: something happened in between, and its result is known already.
#[derive(Debug)]
pub struct Change<'a> {
    pub key: &'a Key,
    pub before: Option<&'a Arc<Object>>,
    pub after: Option<&'a Arc<Object>>,
    pub cause: ChangeCause,
}

/// How the store learned of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeCause {
    /// Part of the first list, or of what came while that was in progress.
    InitialList,
    /// Found by listing again: the deletion itself was not seen, only that the object is no longer there.
    Relist,
    Event,
    /// An event told that the object is gone, and `before` is its last state; or the answer to a write did.
    Deleted,
    /// The answer of another subscriber's write.
    Write,
}

type Notify = Arc<dyn Fn(&Change<'_>) + Send + Sync>;

/// Objects of one watch. All methods are short and never wait: the lock is never held across an await.
pub struct Store {
    clusters: ClustersOf,
    state: Mutex<State>,
    /// Set where bodies that are too large to keep are read when they are needed.
    bodies: Option<Bodies>,
}

#[derive(Default)]
struct State {
    /// What texts are packed against, once there is an object. All stores of a watch have one.
    dictionary: Arc<OnceLock<Arc<[u8]>>>,
    /// Room to pack in, as much as the largest text took.
    scratch: Vec<u8>,
    objects: BTreeMap<Key, Entry>,
    /// What changed last, oldest first.
    plain: VecDeque<(Key, Arc<Object>)>,
    owners: Owners,
    pending: HashMap<Key, Vec<Pending>>,
    /// The uids of objects whose end the answer to a write told, until the watch tells it: older events may still arrive.
    ended: HashMap<Key, Box<str>>,
    subscribers: Vec<(u64, Notify)>,
    last_id: u64,
    /// What is kept where only what somebody asked for is; `None`: everything is kept.
    asked: Option<HashMap<Key, Asked>>,
    /// How the names of objects end that are kept.
    ending: Box<str>,
    /// The parts of an object that are kept; empty: all.
    only: &'static [&'static str],
    /// Number of the list that is in force; 0 before the first.
    list: u32,
    /// Number of the last list that was complete.
    complete: u32,
    /// Versions that were heard before this list are of another history.
    doubted_before: u32,
    bodies: Option<Bodies>,
    /// Whether each cluster has a share of the memory for bodies.
    shares: bool,
}

/// An object that somebody asked for.
#[derive(Debug)]
struct Asked {
    /// The subscribers that asked for it.
    by: Vec<u64>,
    /// Number of the list that was in force then: what it showed before was not kept. `None`: the object was seen to go, which no
    /// list proves.
    list: Option<u32>,
    /// Whether a read found out since then what a list would have shown.
    looked: bool,
}

/// What a store knows of an object that was asked for by name.
#[derive(Debug)]
pub enum Cached {
    /// It is this, or missing.
    Answer(Option<Arc<Object>>),
    /// Nobody asked for it before, or it is gone since then: it has to be read once. Its changes are kept from now on.
    Unread,
}

#[derive(Debug, Clone)]
struct Entry {
    object: Arc<Object>,
    /// The last list in which, or since which, the object was seen.
    list: u32,
    by: By,
    /// Whether the watch told of it at least once.
    told: bool,
    /// Whether all subscribers were told of an event that is older than this version.
    has_told_older: bool,
    /// Of an outline, the whole object while somebody has it.
    whole: Weak<Object>,
}

/// What an object is known from as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Watch,
    /// The list of its own cluster alone.
    OwnList,
    /// The answer to a write alone.
    Answer,
}

impl Entry {
    /// Not yet told by the watch: older events may still arrive.
    fn is_ahead(&self) -> bool {
        self.by != By::Watch
    }

    /// Whether it is known from an answer that is newer than what an event or the list in force tells. A list that began after a write
    /// was answered shows this write, or the server has lost it.
    fn overtakes(&self, told: &Parsed<'_>, list: u32) -> bool {
        self.is_ahead() && self.list == list && is_older(told.resource_version, self.object.resource_version())
    }

    /// The object, whole where somebody has it.
    fn known(&self) -> Arc<Object> {
        self.whole.upgrade().unwrap_or_else(|| self.object.clone())
    }

    /// Keeps the same object in another form.
    fn keep(&mut self, object: Arc<Object>, cluster: &ClusterName, bodies: Option<&Bodies>) {
        if let Some(bodies) = bodies {
            bodies.forget(cluster, &self.object);
            bodies.note(cluster, &object);
        }
        self.object = object;
    }
}

/// A write on its way, and what the watch told of its object meanwhile.
struct Pending {
    id: u64,
    subscriber: u64,
    /// What was there when it was sent, or the last object since then that went, for good or for another one.
    before: Option<Arc<Object>>,
    /// Number of the list that was in force when it was sent.
    list: u32,
    /// Versions seen; `None` for a deletion.
    seen: Vec<Option<Box<str>>>,
    /// The last state, where an event told that the object is gone.
    last: Option<Arc<Object>>,
}

impl Store {
    /// A store that keeps everything.
    pub fn new(clusters: ClustersOf) -> Arc<Self> {
        Self::bounded(clusters, "", false, &[], None)
    }

    /// A store that keeps outlines of objects that are too large for `bodies`, and only objects whose names have this `ending`.
    /// `by_name`: it keeps only what somebody [asked for](Subscription::ask). `only`: parts of objects that are kept; empty: all.
    pub fn bounded(
        clusters: ClustersOf,
        ending: &str,
        by_name: bool,
        only: &'static [&'static str],
        bodies: Option<Bodies>,
    ) -> Arc<Self> {
        let asked = by_name.then(HashMap::new);
        let shares = clusters == ClustersOf::Annotated;
        let ending = ending.into();
        let state = Mutex::new(State { asked, ending, only, bodies: bodies.clone(), shares, ..State::default() });
        let store = Arc::new(Self { clusters, state, bodies });
        store.bodies.iter().for_each(|bodies| bodies.counts_of(&store));
        store
    }

    /// The object; an outline where its body is not kept and nobody has read it.
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.state.lock().objects.get(key).map(Entry::known)
    }

    /// Keeps outlines of a cluster's objects, the largest first, until so many bytes are free. Returns how many still are to
    /// be freed.
    pub(super) fn outline(&self, cluster: &ClusterName, bytes: usize) -> usize {
        self.state.lock().outline(cluster, bytes)
    }

    /// Keys and objects of one cluster, in order. O(its objects).
    pub fn of_cluster(&self, cluster: &ClusterName) -> Vec<(Key, Arc<Object>)> {
        let state = self.state.lock();
        let range = state.objects.range(Key::least_of(cluster)..).take_while(|(key, _)| key.cluster == *cluster);
        range.map(|(key, entry)| (key.clone(), entry.known())).collect()
    }

    /// Objects that carry this value in the label `sync-engine.dev/owner`, in order; where a cluster is given, those in it. Whoever
    /// writes in another one may have given any number of objects the same label.
    pub fn of_owner(&self, owner: &str, cluster: Option<&ClusterName>) -> Vec<(Key, Arc<Object>)> {
        let state = self.state.lock();
        let found = state.owners.of(owner).filter(|key| cluster.is_none_or(|cluster| key.cluster == *cluster));
        let mut found: Vec<_> = found
            .filter_map(|key| state.objects.get(key).map(|entry| (key.clone(), entry.known())))
            .filter(|(_, object)| object.owner() == Some(owner))
            .collect();
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        found
    }

    /// Every key, in order.
    pub fn keys(&self) -> Vec<Key> {
        self.state.lock().objects.keys().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.state.lock().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `notify` after each change, without any lock held, until the subscription is dropped.
    ///
    /// `notify` must be quick (put a key into a queue). What stands in the store already is not
    /// replayed: subscribe first, then read.
    pub fn subscribe(self: &Arc<Self>, notify: impl Fn(&Change<'_>) + Send + Sync + 'static) -> Subscription {
        let mut state = self.state.lock();
        let id = state.next_id();
        state.subscribers.push((id, Arc::new(notify)));
        Subscription { store: self.clone(), id }
    }

    /// An event told that the object is as it stands in its text. `false`: that names no cluster.
    ///
    /// # Errors
    /// Its metadata cannot be kept; the store is as it was.
    pub fn put(&self, parsed: Parsed<'_>) -> Result<bool, NotAnObject> {
        self.put_told(parsed, false)
    }

    /// An event told that the object is gone; `last` is its last state.
    pub fn delete(&self, last: Parsed<'_>) -> bool {
        let mut state = self.state.lock();
        let Some(key) = state.key(&self.clusters, &last) else { return false };
        if !state.keeps(&key) {
            return true;
        }
        if state.has_ended(&key, &last) {
            state.ended.remove(&key);
            return true;
        }
        // The page that shows it was still to come: whoever hears of its end heard of it before.
        let is_to_come = state.list > state.complete && !state.objects.contains_key(&key);
        if let Some(Ok(listed)) = is_to_come.then(|| state.put(&key, &last)) {
            let cause = state.cause_of_list();
            drop(state);
            listed.tell(&key, cause);
            state = self.state.lock();
        }
        let told = state.remove(&key, &last, true);
        drop(state);
        told.tell(&key, ChangeCause::Deleted);
        true
    }

    /// An event told that the object, as it is now, is none of this store's.
    pub(super) fn leave(&self, key: &Key, now: &Parsed<'_>) {
        let mut state = self.state.lock();
        if !state.objects.contains_key(key) {
            return;
        }
        let told = state.remove(key, now, false);
        drop(state);
        told.tell(key, ChangeCause::Deleted);
    }

    /// Whether the watch put the object here.
    pub(super) fn was_told(&self, parsed: &Parsed<'_>) -> bool {
        let state = self.state.lock();
        let key = key(&self.clusters, parsed);
        key.is_some_and(|key| state.objects.get(&key).is_some_and(|entry| entry.told))
    }

    /// The key of an object that may be none of this store's.
    pub(super) fn key_of(&self, parsed: &Parsed<'_>) -> Option<Key> {
        key(&self.clusters, parsed)
    }

    /// An empty store for the same watch, as far in its lists.
    pub(super) fn another(&self) -> Arc<Self> {
        let store = Self::bounded(self.clusters.clone(), "", false, &[], self.bodies.clone());
        let own = self.state.lock();
        let mut state = store.state.lock();
        (state.list, state.complete, state.doubted_before) = (own.list, own.complete, own.doubted_before);
        state.dictionary = own.dictionary.clone();
        drop(own);
        drop(state);
        store
    }

    /// A list begins: what is not in it by its end is gone. Its number is for [`finish_list`](Self::finish_list).
    pub(super) fn begin_list(&self) -> u32 {
        let mut state = self.state.lock();
        state.ended.clear();
        state.list += 1;
        state.list
    }

    /// The list was complete as of `version`.
    pub(super) fn finish_list(&self, number: u32, version: &str) {
        let mut state = self.state.lock();
        let cause = state.cause_of_list();
        state.complete = number;
        let stale = state.stale(version);
        let gone: Vec<(Key, Told)> = stale.into_iter().map(|key| (key.clone(), state.forget(&key))).collect();
        drop(state);
        gone.into_iter().for_each(|(key, told)| told.tell(&key, cause));
    }

    /// The server was restored to an earlier state: an object of the next list may be another one under the same version.
    pub fn doubt_versions(&self) {
        let mut state = self.state.lock();
        state.list += 1;
        state.doubted_before = state.list;
    }

    /// Whether a write was answered that the watch has not told of: it may be of another history than the watch. What the list of a
    /// cluster shows is no such answer: most of it is on pages of the list in progress that are still to come.
    pub fn has_untold_answer(&self) -> bool {
        self.state.lock().objects.values().any(|entry| entry.by == By::Answer)
    }

    /// Whether a read that was sent after everything up to `version` was heard shows an object of another history: what is not newer is
    /// known exactly so.
    pub(super) fn contradicts(&self, shown: &Parsed<'_>, version: &str) -> bool {
        let state = self.state.lock();
        // Of a list in progress, pages are still to come.
        let is_complete = state.complete > 0 && state.complete == state.list;
        let is_heard = shown.resource_version == version || is_older(shown.resource_version, version);
        let key = key(&self.clusters, shown).filter(|_| is_complete && is_heard);
        key.is_some_and(|key| match state.objects.get(&key) {
            // A write may have been answered while it was read.
            Some(entry) => !entry.is_ahead() && !is_version(&entry.object, shown),
            None => state.asked.is_none() && state.keeps(&key) && !state.has_ended(&key, shown),
        })
    }

    /// As [`put`](Self::put), of what a list or an event tells.
    pub(super) fn put_told(&self, parsed: Parsed<'_>, is_listed: bool) -> Result<bool, NotAnObject> {
        let mut state = self.state.lock();
        let Some(key) = state.key(&self.clusters, &parsed) else { return Ok(false) };
        if !state.keeps(&key) || state.has_ended(&key, &parsed) {
            return Ok(true);
        }
        // What an event tells of before its page came was there before, as far as anybody knows.
        let is_initial = state.complete == 0 && state.list > 0 && !state.objects.contains_key(&key);
        let cause = if is_listed || is_initial { state.cause_of_list() } else { ChangeCause::Event };
        let told = state.put(&key, &parsed)?;
        drop(state);
        told.tell(&key, cause);
        self.bodies.iter().for_each(Bodies::shrink);
        Ok(true)
    }

    /// An object as the list of its own cluster tells it, and nothing else yet. The list in progress is older, and the watch has
    /// still to tell of it: it is ahead of them, as the answer of a write is.
    pub(super) fn put_ahead(&self, parsed: &Parsed<'_>) -> Result<(), NotAnObject> {
        let mut state = self.state.lock();
        let key = state.key(&self.clusters, parsed);
        let is_new = |key: &Key| !state.objects.contains_key(key) && !state.has_ended(key, parsed);
        let Some(key) = key.filter(|key| state.keeps(key) && is_new(key)) else { return Ok(()) };
        let cause = state.cause_of_list();
        let object = state.object(parsed)?;
        let told = state.replace(&key, object, By::OwnList);
        drop(state);
        told.tell(&key, cause);
        self.bodies.iter().for_each(Bodies::shrink);
        Ok(())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        for (key, entry) in &state.objects {
            state.bodies.iter().for_each(|bodies| bodies.forget(&key.cluster, &entry.object));
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("clusters", &self.clusters).field("objects", &self.len()).finish()
    }
}

/// Keeps a subscriber registered.
#[derive(Debug)]
pub struct Subscription {
    store: Arc<Store>,
    id: u64,
}

impl Subscription {
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// What is known of one object, which is kept from now on.
    pub fn ask(&self, key: &Key) -> Cached {
        let mut state = self.store.state.lock();
        let (list, complete) = (state.list, state.complete);
        let known = state.objects.get(key).map(Entry::known);
        let Some(asked) = &mut state.asked else { return Cached::Answer(known) };
        let asked = asked.entry(key.clone()).or_insert(Asked { by: Vec::new(), list: Some(list), looked: false });
        if !asked.by.contains(&self.id) {
            asked.by.push(self.id);
        }
        let is_known = known.is_some() || asked.looked || asked.list.is_some_and(|list| complete > list);
        if is_known { Cached::Answer(known) } else { Cached::Unread }
    }

    /// The list that is in force, for [`looked`](Self::looked).
    pub fn list(&self) -> u32 {
        self.store.state.lock().list
    }

    /// A read that was sent while a list was in force has told what there is, and an object that it found is in the store.
    pub fn looked(&self, key: &Key, list: u32) {
        let mut state = self.store.state.lock();
        let is_current = state.list == list;
        let asked = state.asked.as_mut().and_then(|asked| asked.get_mut(key));
        asked.into_iter().for_each(|asked| asked.looked |= is_current);
    }

    /// Withdraws what this subscriber asked for and needs no longer.
    pub fn keep(&self, needs: impl Fn(&Key) -> bool) {
        self.store.state.lock().withdraw(self.id, needs);
    }

    /// Registers a write of this subscriber before it is sent: its event may overtake its answer.
    ///
    /// Until the [`PendingWrite`] is completed or dropped, events for `key` are stored and not told
    /// to this subscriber; others hear of them.
    pub fn expect(&self, key: &Key) -> PendingWrite {
        let mut state = self.store.state.lock();
        let id = state.next_id();
        let before = state.objects.get(key).map(|entry| entry.object.clone());
        let pending = Pending { id, subscriber: self.id, before, list: state.list, seen: Vec::new(), last: None };
        state.pending.entry(key.clone()).or_default().push(pending);
        PendingWrite { store: self.store.clone(), key: key.clone(), id }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.store.state.lock();
        let at = state.subscribers.iter().position(|(id, _)| *id == self.id);
        let gone = at.map(|at| state.subscribers.swap_remove(at));
        state.withdraw(self.id, |_| false);
        drop(state);
        // Dropped without the lock: what the closure owns may drop handles of this store.
        drop(gone);
    }
}

/// A write on its way. Dropped without [`complete`](Self::complete), its answer was lost (or is of no
/// use, as a delete's, which tells an [end](Self::ended) at most): events that were held back are told now.
#[derive(Debug)]
#[must_use = "dropping it says that the answer was lost"]
pub struct PendingWrite {
    store: Arc<Store>,
    key: Key,
    id: u64,
}

impl PendingWrite {
    /// Puts the answer into the store unless something newer came in the meantime; its event is then no change. Where the
    /// event came first, the answer is not kept.
    ///
    /// `true`: an event beyond this write came in between, reconcile the key again. Do not complete
    /// with an object that the watch's selector no longer matches: its event would never come.
    ///
    /// # Errors
    /// The answer cannot be kept, and is as good as lost.
    pub fn complete(self, answer: &Parsed<'_>) -> Result<(Arc<Object>, bool), NotAnObject> {
        let is_answer = |known: &Arc<Object>| known.is_whole() && is_version(known, answer);
        let object = match self.store.get(&self.key).filter(is_answer) {
            Some(known) => known,
            None => Arc::new(answer.object()?),
        };
        let mut state = self.store.state.lock();
        let Some(pending) = state.unregister(&self.key, self.id) else { return Ok((object, true)) };
        let version = object.resource_version();
        let own_seen = pending.seen.iter().any(|seen| seen.as_deref() == Some(version));
        let others_seen = pending.seen.iter().any(|seen| seen.as_deref() != Some(version));
        // The list may be of a server that was restored meanwhile, and has lost the write.
        let is_listed_since = pending.list < state.list;
        let told = if own_seen || is_listed_since {
            Told::default()
        } else {
            state.put_answer(&self.key, object.clone(), &pending)
        };
        state.has_read(&self.key, &object);
        let (held_back, cause) = state.held_back(&self.key, pending);
        drop(state);
        told.tell(&self.key, ChangeCause::Write);
        self.store.bodies.iter().for_each(Bodies::shrink);
        // Another object was or is in its place: it may be one of another source, which the writer has to wake.
        let is_another = |it: &Option<Arc<Object>>| it.as_ref().is_some_and(|it| it.uid() != object.uid());
        let is_deleted = cause == ChangeCause::Deleted;
        if others_seen && (is_deleted || is_another(&held_back.before) || is_another(&held_back.after)) {
            held_back.tell(&self.key, cause);
        }
        Ok((object, others_seen || is_listed_since))
    }

    /// The answer tells that the object of this uid is gone, which a watch may be late to tell. Its event is then no change.
    pub fn ended(&self, uid: &str) {
        let mut state = self.store.state.lock();
        let own = state.registered(&self.key, self.id);
        // The list may be of a server that was restored meanwhile, and what an event told to be gone was shown again since.
        let is_latest = own.is_some_and(|own| own.list == state.list && !own.seen.contains(&None));
        // Another object may be in its place already.
        let is_known = state.objects.get(&self.key).is_some_and(|entry| entry.object.uid() == uid);
        if !is_latest || !is_known {
            return;
        }
        state.ended.insert(self.key.clone(), uid.into());
        let told = state.end(&self.key, None);
        drop(state);
        told.tell(&self.key, ChangeCause::Deleted);
    }

    /// The answer tells that nothing is there: what was known when it was asked for is gone.
    pub fn missing(&self) {
        let state = self.store.state.lock();
        let before = state.registered(&self.key, self.id).and_then(|own| own.before.clone());
        drop(state);
        before.iter().for_each(|before| self.ended(before.uid()));
    }
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        let mut state = self.store.state.lock();
        // One that was completed is registered no more.
        let Some(pending) = state.unregister(&self.key, self.id) else { return };
        if pending.seen.is_empty() {
            return;
        }
        let (held_back, cause) = state.held_back(&self.key, pending);
        drop(state);
        held_back.tell(&self.key, cause);
    }
}

/// The key of an object; `None`: it does not say which cluster it lives in.
fn key(clusters: &ClustersOf, parsed: &Parsed<'_>) -> Option<Key> {
    let cluster = match clusters {
        ClustersOf::One(cluster) => cluster.clone(),
        ClustersOf::Annotated => parsed.cluster?.try_into().ok()?,
        ClustersOf::Namespaces => parsed.namespace.try_into().ok()?,
    };
    Some(Key::new(cluster, parsed.namespace, &*parsed.name))
}

impl State {
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// How what the list in progress shows is learned.
    fn cause_of_list(&self) -> ChangeCause {
        if self.complete > 0 { ChangeCause::Relist } else { ChangeCause::InitialList }
    }

    fn keeps(&self, key: &Key) -> bool {
        key.name.ends_with(&*self.ending) && self.asked.as_ref().is_none_or(|asked| asked.contains_key(key))
    }

    fn has_ended(&self, key: &Key, object: &Parsed<'_>) -> bool {
        self.ended.get(key).is_some_and(|uid| **uid == *object.uid)
    }

    fn withdraw(&mut self, subscriber: u64, needs: impl Fn(&Key) -> bool) {
        let Some(all) = &mut self.asked else { return };
        let gone = all.extract_if(|key, asked| {
            if !needs(key) {
                asked.by.retain(|id| *id != subscriber);
            }
            asked.by.is_empty()
        });
        let gone: Vec<Key> = gone.map(|(key, _)| key).collect();
        gone.iter().for_each(|key| drop(self.forget(key)));
        self.plain.retain(|(key, _)| !gone.contains(key));
    }

    /// The key of an object. It is the same one each time, and shares with its neighbours the names that it has in common with
    /// them.
    fn key(&self, clusters: &ClustersOf, parsed: &Parsed<'_>) -> Option<Key> {
        let key = key(clusters, parsed)?;
        let mut from = self.objects.range(&key..).map(|(known, _)| known);
        let next = match from.next() {
            Some(known) if *known == key => return Some(known.clone()),
            next => next,
        };
        let before = self.objects.range(..&key).next_back().map(|(known, _)| known);
        let near = |is_same: &dyn Fn(&Key) -> bool| [before, next].into_iter().flatten().find(|known| is_same(known));
        let cluster = near(&|known| known.cluster == key.cluster).unwrap_or(&key).cluster.clone();
        let namespace = near(&|known| known.namespace == key.namespace).unwrap_or(&key).namespace.clone();
        Some(Key::new(cluster, namespace, &*parsed.name))
    }

    /// An object as a list or an event tells it.
    fn put(&mut self, key: &Key, parsed: &Parsed<'_>) -> Result<Told, NotAnObject> {
        let (list, doubted_before) = (self.list, self.doubted_before);
        if let Some(entry) = self.objects.get_mut(key) {
            let (is_doubted, is_overtaken) = (entry.list < doubted_before, entry.overtakes(parsed, list));
            entry.list = list;
            if is_version(&entry.object, parsed) && !is_doubted {
                (entry.by, entry.told) = (By::Watch, true);
                return Ok(Told::default());
            }
            if is_overtaken {
                return Ok(self.overtaken(key, parsed));
            }
        }
        let object = self.object(parsed)?;
        Ok(self.replace(key, object, By::Watch))
    }

    /// An event that is older than what is known. One of them is told: whoever looks then sees what all of them tell. A silent watch
    /// tells late, one by one, what a writer did.
    fn overtaken(&mut self, key: &Key, older: &Parsed<'_>) -> Told {
        let is_held_back = self.pending.contains_key(key);
        let Some(entry) = self.objects.get_mut(key).filter(|entry| !entry.has_told_older) else {
            return Told::default();
        };
        entry.has_told_older = !is_held_back;
        let known = Some(entry.object.clone());
        self.told(key, known.clone(), known, Some(older.resource_version))
    }

    /// What is kept of an object that comes.
    fn object(&self, parsed: &Parsed<'_>) -> Result<Arc<Object>, NotAnObject> {
        let object = parsed.object()?;
        Ok(Arc::new(if self.only.is_empty() { object } else { object.with_only(self.only) }))
    }

    /// An object as the answer of a write tells it. The writer is not told of its own write, unless another object was in its
    /// place: that one went unseen.
    fn put_answer(&mut self, key: &Key, answer: Arc<Object>, pending: &Pending) -> Told {
        let newer = match self.objects.get(key) {
            None => pending.seen.is_empty(),
            Some(entry) if entry.object.resource_version() == answer.resource_version() => false,
            Some(entry) => {
                pending.seen.is_empty() || is_older(entry.object.resource_version(), answer.resource_version())
            }
        };
        if !newer {
            return Told::default();
        }
        let mut told = self.replace(key, answer, By::Answer);
        let is_same =
            told.before.as_ref().is_none_or(|before| told.after.as_ref().is_some_and(|it| it.uid() == before.uid()));
        told.to.retain(|(id, _)| !is_same || *id != pending.subscriber);
        told
    }

    fn replace(&mut self, key: &Key, object: Arc<Object>, by: By) -> Told {
        let version = object.resource_version();
        let former = self.objects.get(key);
        let told = by == By::Watch || former.is_some_and(|entry| entry.told);
        if let (Some(bodies), Some(former)) = (&self.bodies, former) {
            bodies.forget(&key.cluster, &former.object);
        }
        let (kept, whole) = match self.outline_of(key, &object) {
            Some(outline) => (outline, Arc::downgrade(&object)),
            None => (object.clone(), Weak::new()),
        };
        self.bodies.iter().for_each(|bodies| bodies.note(&key.cluster, &kept));
        let is_whole = kept.is_whole();
        let entry = Entry { object: kept, list: self.list, by, told, has_told_older: false, whole };
        // The map keeps the key that it has, which all share.
        let before = self.objects.insert(key.clone(), entry).map(|entry| entry.object);
        let former = before.as_ref().and_then(|before| before.owner());
        if former != object.owner() {
            former.into_iter().for_each(|owner| self.owners.remove(owner, key));
            object.owner().into_iter().for_each(|owner| self.owners.insert(owner, key));
        }
        if is_whole {
            self.keep_plain(key, &object);
        }
        self.told(key, before, Some(object.clone()), Some(version))
    }

    /// What is kept of an object that is too large, or of a cluster that has too much.
    fn outline_of(&self, key: &Key, object: &Object) -> Option<Arc<Object>> {
        let bodies = self.bodies.as_ref().filter(|_| object.is_whole())?;
        if bodies.keeps(&key.cluster, object, self.shares) { None } else { object.outlined().map(Arc::new) }
    }

    /// What was put last is asked for again soon: it is packed once others follow.
    fn keep_plain(&mut self, key: &Key, object: &Arc<Object>) {
        self.plain.push_back((key.clone(), object.clone()));
        let most = self.bodies.as_ref().map_or(PLAIN, |bodies| bodies.plain_of_each().min(PLAIN));
        while self.plain.len() > most {
            self.pack_oldest();
        }
    }

    /// Packs the object that has not changed for longest, unless it did. The first object is the dictionary that all of them are
    /// packed against.
    fn pack_oldest(&mut self) {
        let Some((key, object)) = self.plain.pop_front() else { return };
        let Some(entry) = self.objects.get_mut(&key).filter(|entry| Arc::ptr_eq(&entry.object, &object)) else {
            return;
        };
        let first = || {
            let text = object.json();
            text.as_bytes()[..text.len().min(MAX_DICTIONARY)].into()
        };
        let dictionary = self.dictionary.get_or_init(first);
        if let Some(packed) = object.packed(dictionary, &mut self.scratch) {
            entry.keep(Arc::new(packed), &key.cluster, self.bodies.as_ref());
        }
    }

    fn outline(&mut self, cluster: &ClusterName, mut bytes: usize) -> usize {
        let range = self.objects.range(Key::least_of(cluster)..).take_while(|(key, _)| key.cluster == *cluster);
        let whole = range.filter(|(_, entry)| entry.object.is_whole());
        let mut all: Vec<(usize, Key)> = whole.map(|(key, entry)| (entry.object.takes(), key.clone())).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        for (takes, key) in all {
            let Some(entry) = self.objects.get_mut(&key).filter(|_| bytes > 0) else { break };
            let Some(outline) = entry.object.outlined() else { continue };
            entry.whole = Arc::downgrade(&entry.object);
            entry.keep(Arc::new(outline), cluster, self.bodies.as_ref());
            bytes = bytes.saturating_sub(takes);
        }
        let objects = &self.objects;
        self.plain.retain(|(key, object)| objects.get(key).is_some_and(|entry| Arc::ptr_eq(&entry.object, object)));
        bytes
    }

    /// Somebody has read an object, and has it for a while.
    fn has_read(&mut self, key: &Key, object: &Arc<Object>) {
        let is_it = |entry: &&mut Entry| {
            !entry.object.is_whole()
                && entry.object.uid() == object.uid()
                && entry.object.resource_version() == object.resource_version()
        };
        let Some(entry) = self.objects.get_mut(key).filter(|entry| is_it(entry)) else { return };
        entry.whole = Arc::downgrade(object);
        if entry.object.is_outlined() {
            return;
        }
        // Only its metadata was listed: now it is known whether it is large.
        let outline = self.outline_of(key, object);
        let is_kept = outline.is_none();
        let known = outline.unwrap_or_else(|| object.clone());
        let Some(entry) = self.objects.get_mut(key) else { return };
        entry.keep(known, &key.cluster, self.bodies.as_ref());
        if is_kept {
            self.keep_plain(key, object);
        }
    }

    /// A deletion as an event tells it: not of what a later write of ours created anew, or gave back the label that it had lost.
    /// `is_last`: the event has the last state of the object, which says more than the cached one: whether it was being deleted.
    fn remove(&mut self, key: &Key, last: &Parsed<'_>, is_last: bool) -> Told {
        let Some(entry) = self.objects.get(key) else {
            return self.told(key, None, None, None);
        };
        if entry.overtakes(last, self.list) {
            return self.overtaken(key, last);
        }
        let last = if is_last { last.object().ok().map(Arc::new) } else { None };
        self.end(key, last)
    }

    /// An object is gone, as an event or an answer tells. `None`: its last state is the cached one.
    fn end(&mut self, key: &Key, last: Option<Arc<Object>>) -> Told {
        let mut told = self.forget(key);
        if let Some(last) = last.or_else(|| told.before.clone()) {
            for pending in self.pending.get_mut(key).into_iter().flatten() {
                pending.last = Some(last.clone());
            }
            told.before = told.before.map(|_| last);
        }
        told
    }

    /// An object is no longer there. One that somebody asked for is read once before that is believed: a watch shows what it may
    /// not see any more (a permission claim is taken back) as deleted.
    fn forget(&mut self, key: &Key) -> Told {
        let before = self.objects.remove(key).map(|entry| entry.object);
        if let Some(asked) = self.asked.as_mut().and_then(|asked| asked.get_mut(key)) {
            (asked.list, asked.looked) = (None, false);
        }
        if let Some(before) = &before {
            self.bodies.iter().for_each(|bodies| bodies.forget(&key.cluster, before));
            before.owner().into_iter().for_each(|owner| self.owners.remove(owner, key));
        }
        self.told(key, before, None, None)
    }

    /// Keys that the list of `version` no longer held. What a write put while the list was taken stays.
    fn stale(&self, version: &str) -> Vec<Key> {
        let stale = |entry: &Entry| {
            entry.list < self.list || entry.is_ahead() && is_older(entry.object.resource_version(), version)
        };
        self.objects.iter().filter(|(_, entry)| stale(entry)).map(|(key, _)| key.clone()).collect()
    }

    /// Records a change with the pending writes of its key, and gathers who is to be told now.
    fn told(
        &mut self,
        key: &Key,
        before: Option<Arc<Object>>,
        after: Option<Arc<Object>>,
        version: Option<&str>,
    ) -> Told {
        let mut held_back = Vec::new();
        let is_gone = |it: &&Arc<Object>| after.as_ref().is_none_or(|after| after.uid() != it.uid());
        let gone = before.as_ref().filter(is_gone);
        for pending in self.pending.get_mut(key).into_iter().flatten() {
            pending.seen.push(version.map(Box::from));
            // Another writer of the subscriber may know of it, though it came after this one.
            pending.before = gone.cloned().or_else(|| pending.before.take());
            held_back.push(pending.subscriber);
        }
        if before.is_none() && after.is_none() {
            return Told::default();
        }
        let to = self.subscribers.iter().filter(|(id, _)| !held_back.contains(id)).cloned().collect();
        Told { before, after, to }
    }

    /// What the watch told of an object while a write was on its way, for the writer.
    fn held_back(&self, key: &Key, pending: Pending) -> (Told, ChangeCause) {
        let after = self.objects.get(key).map(|entry| entry.object.clone());
        let to = self.subscribers.iter().filter(|(id, _)| *id == pending.subscriber).cloned().collect();
        match pending.last.filter(|_| after.is_none()) {
            Some(last) => (Told { before: Some(last), after, to }, ChangeCause::Deleted),
            None => (Told { before: pending.before, after, to }, ChangeCause::Event),
        }
    }

    fn registered(&self, key: &Key, id: u64) -> Option<&Pending> {
        self.pending.get(key)?.iter().find(|pending| pending.id == id)
    }

    fn unregister(&mut self, key: &Key, id: u64) -> Option<Pending> {
        let pending = self.pending.get_mut(key)?;
        let at = pending.iter().position(|pending| pending.id == id)?;
        let found = pending.swap_remove(at);
        if pending.is_empty() {
            self.pending.remove(key);
        }
        Some(found)
    }
}

/// A change that left the lock, and who is to hear of it.
#[derive(Default)]
struct Told {
    before: Option<Arc<Object>>,
    after: Option<Arc<Object>>,
    to: Vec<(u64, Notify)>,
}

impl Told {
    fn tell(self, key: &Key, cause: ChangeCause) {
        let change = Change { key, before: self.before.as_ref(), after: self.after.as_ref(), cause };
        for (_, notify) in &self.to {
            notify(&change);
        }
    }
}

/// Whether a text holds this version of this object.
fn is_version(known: &Object, text: &Parsed<'_>) -> bool {
    known.uid() == text.uid && known.resource_version() == text.resource_version
}

/// Keys by a hash of the owner whose label their objects carry: 64 bits an object instead of the label, which is compared
/// in the end.
#[derive(Default)]
struct Owners {
    keys: HashTable<(u64, Key)>,
    hasher: DefaultHashBuilder,
}

impl Owners {
    fn of(&self, owner: &str) -> impl Iterator<Item = &Key> {
        let hash = self.hasher.hash_one(owner);
        self.keys.iter_hash(hash).filter(move |(of, _)| *of == hash).map(|(_, key)| key)
    }

    fn insert(&mut self, owner: &str, key: &Key) {
        let hash = self.hasher.hash_one(owner);
        self.keys.insert_unique(hash, (hash, key.clone()), |(hash, _)| *hash);
    }

    fn remove(&mut self, owner: &str, key: &Key) {
        let hash = self.hasher.hash_one(owner);
        if let Ok(entry) = self.keys.find_entry(hash, |(of, one)| *of == hash && one == key) {
            entry.remove();
        }
    }
}

#[cfg(test)]
pub mod tests;
