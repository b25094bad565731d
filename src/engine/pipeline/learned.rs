//! What servers answered and people did, as far as the caches do not show it: each fact of one source or one cluster, and
//! forgotten with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;
use serde_json::Value;
use tokio::time::Instant;

use crate::engine::consumer_schema::dropped::DroppedFields;
use crate::mapping::{Mapping, Side};
use crate::multicluster::RequestError;
use crate::object::marks::{self, Owner, OwnershipRecord, Reference};
use crate::object::{ClusterName, Key};
use crate::plan::Missing;

/// For how long objects of a source that was deleted or let go are deleted as well: a create may come late.
const LATE_CREATE: Duration = Duration::from_secs(600);

/// For how long a request without an answer may still take effect.
pub const LATE_REQUEST: Duration = Duration::from_secs(120);

/// When a request last failed without the word of a server: it may still take effect.
#[derive(Debug, Default)]
pub struct Late(Option<Instant>);

impl Late {
    pub fn failed(&mut self, error: &RequestError) {
        self.0 = error.may_take_effect().then(Instant::now).or(self.0);
    }

    /// Whether one failed so, however long ago.
    pub fn has_failed(&self) -> bool {
        self.0.is_some()
    }

    /// Whether it may still arrive.
    pub fn may_come(&self) -> bool {
        self.0.is_some_and(|at| at.elapsed() < LATE_REQUEST)
    }
}

#[derive(Debug, Default)]
pub struct Learned {
    /// Status fields that clusters do not keep.
    pub dropped: DroppedFields,
    /// By source: status leaves that its server refused.
    refused_status: BTreeMap<Key, RefusedStatus>,
    /// Sources that were seen being deleted, or were released, and under which uid.
    deleted: BTreeMap<Key, (String, Instant)>,
    /// Live sources that were let go, and under which uid.
    let_go: BTreeMap<Key, (String, Instant)>,
    /// Since when a source is missing whose objects exist, and whether its server said so.
    missing: BTreeMap<Key, (Instant, bool)>,
    /// The requests to add the finalizer.
    pub finalizer: Late,
    /// Deletions without an answer.
    unanswered: BTreeMap<Place, Instant>,
    /// By source: objects that were written, while no plan has seen what the server made of that.
    uncompared: BTreeMap<Key, BTreeSet<Reference>>,
    /// Owned objects that were stripped of their ownership annotations, or left the watch, until their source is in sync.
    stripped: BTreeMap<Owner, BTreeMap<Reference, OwnershipRecord>>,
}

/// Where an object is: on the target, or in this cluster of sources.
type Place = (Option<ClusterName>, Reference);

fn place(cluster: &ClusterName, reference: &Reference) -> Place {
    ((reference.kind.side == Side::Source).then(|| cluster.clone()), reference.clone())
}

/// Takes out what is known of the sources of a cluster, without a look at those of others.
fn take_of_cluster<V>(known: &mut BTreeMap<Key, V>, cluster: &ClusterName) -> Vec<(Key, V)> {
    let from_there = known.range(Key::least_of(cluster)..).map(|(key, _)| key);
    let keys: Vec<Key> = from_there.take_while(|key| key.cluster == *cluster).cloned().collect();
    keys.iter().filter_map(|key| known.remove_entry(key)).collect()
}

/// Refused leaves by JSON pointer, and the mapping that they were written by.
type RefusedStatus = (Arc<Mapping>, BTreeMap<String, (Value, String)>);

impl Learned {
    /// The status leaves of a source that its server refused, as this mapping wrote them.
    pub fn refused_status(&self, key: &Key, mapping: &Arc<Mapping>) -> BTreeMap<String, (Value, String)> {
        let of = self.refused_status.get(key).filter(|(by, _)| Arc::ptr_eq(by, mapping));
        of.map(|(_, leaves)| leaves.clone()).unwrap_or_default()
    }

    pub fn refuse_status(&mut self, key: &Key, mapping: &Arc<Mapping>, leaves: &BTreeMap<String, (Value, String)>) {
        if leaves.is_empty() {
            self.refused_status.remove(key);
        } else {
            self.refused_status.insert(key.clone(), (mapping.clone(), leaves.clone()));
        }
    }

    /// What the servers of these clusters dropped or refused of a status is forgotten: they go by another schema. Gives those of which
    /// something was known.
    pub fn forget_status(&mut self, clusters: &BTreeSet<ClusterName>) -> Vec<ClusterName> {
        let was_known = |cluster: &&ClusterName| {
            self.dropped.forget(cluster) | !take_of_cluster(&mut self.refused_status, cluster).is_empty()
        };
        clusters.iter().filter(was_known).cloned().collect()
    }

    /// How many facts are known. Those that no longer count are forgotten first.
    pub fn size(&mut self, now: Instant) -> usize {
        [&mut self.deleted, &mut self.let_go]
            .into_iter()
            .for_each(|known| known.retain(|_, (_, at)| now.duration_since(*at) < LATE_CREATE));
        self.unanswered.retain(|_, since| now.duration_since(*since) < LATE_REQUEST);
        self.refused_status.len()
            + self.deleted.len()
            + self.let_go.len()
            + self.missing.len()
            + self.unanswered.len()
            + self.uncompared.values().map(BTreeSet::len).sum::<usize>()
            + self.stripped.values().map(BTreeMap::len).sum::<usize>()
            + self.dropped.size()
    }

    /// A source was seen being deleted, or was released, under this uid.
    pub fn saw_deletion(&mut self, key: &Key, uid: &str, now: Instant) {
        self.deleted.insert(key.clone(), (uid.to_owned(), now));
    }

    /// Sources that were seen being deleted, or were released, of which objects may still come.
    pub fn deleted_lately(&self, now: Instant) -> Vec<Key> {
        let lately = self.deleted.iter().filter(|(_, (_, at))| now.duration_since(*at) < LATE_CREATE);
        lately.map(|(key, _)| key.clone()).collect()
    }

    /// A live source was let go under this uid: nothing of it is left on the target.
    pub fn lets_go(&mut self, key: &Key, uid: &str, now: Instant) {
        self.let_go.insert(key.clone(), (uid.to_owned(), now));
    }

    /// A source is about to be taken in again.
    pub fn takes_in(&mut self, key: &Key) {
        self.let_go.remove(key);
    }

    /// Whether what the target has of a live source came after it was let go.
    pub fn was_let_go(&self, key: &Key, uid: &str, now: Instant) -> bool {
        self.let_go.get(key).is_some_and(|(of, at)| of == uid && now.duration_since(*at) < LATE_CREATE)
    }

    /// Whether an object of a source that was let go may still come by itself.
    pub fn may_come_late(&self, now: Instant) -> bool {
        self.let_go.values().any(|(_, at)| now.duration_since(*at) < LATE_REQUEST)
    }

    /// What is known of a source that is missing now.
    pub fn missing(&mut self, key: &Key, stuck_after: Duration, now: Instant) -> Missing {
        let seen = self.deleted.get(key).filter(|(_, at)| now.duration_since(*at) < LATE_CREATE);
        let (since, _) = *self.missing.entry(key.clone()).or_insert((now, false));
        let long = now.duration_since(since) >= stuck_after;
        Missing { deleted: seen.map(|(uid, _)| uid.clone()), long, shares: false }
    }

    /// The server was asked for a source that the watch does not show.
    pub fn looked_for(&mut self, key: &Key, is_missing: bool) {
        if let Some((_, is_sure)) = self.missing.get_mut(key) {
            *is_sure = is_missing;
        }
    }

    /// Whether the server said last that a source is missing.
    pub fn is_surely_missing(&self, key: &Key) -> bool {
        self.missing.get(key).is_some_and(|(_, is_sure)| *is_sure)
    }

    /// A source is live: what was seen of an earlier one of its name counts no more.
    pub fn lives(&mut self, key: &Key) {
        self.deleted.remove(key);
        self.missing.remove(key);
    }

    /// Nothing of a missing source is left. That it was deleted still counts for objects that come late.
    pub fn forget(&mut self, key: &Key) {
        self.missing.remove(key);
        self.refused_status.remove(key);
        self.uncompared.remove(key);
    }

    /// A cluster is engaged. It may have had another name before.
    pub fn engage(&mut self, cluster: &ClusterName, identity: &str) {
        if let Ok(former) = ClusterName::try_from(identity) {
            self.rename(&former, cluster);
        }
    }

    /// What was seen of the ends of a cluster's sources is kept under another name of the cluster, where nothing later was.
    fn rename(&mut self, from: &ClusterName, to: &ClusterName) {
        if from == to {
            return;
        }
        for known in [&mut self.deleted, &mut self.let_go] {
            for (key, seen) in take_of_cluster(known, from) {
                let last = known.entry(key.in_cluster(to.clone())).or_insert_with(|| seen.clone());
                if last.1 < seen.1 {
                    *last = seen;
                }
            }
        }
    }

    /// Clusters, each with its identity, are no longer engaged. What was seen of their deletions counts if they come back, under whatever
    /// name.
    pub fn forget_clusters(&mut self, gone: &[(&ClusterName, &str)]) {
        for (cluster, identity) in gone {
            if let Ok(named) = ClusterName::try_from(*identity) {
                self.rename(cluster, &named);
            }
            self.dropped.forget(cluster);
            take_of_cluster(&mut self.missing, cluster);
            take_of_cluster(&mut self.refused_status, cluster);
        }
    }

    /// Nothing is written any more for the sources of these clusters, each with its identity. A cluster that is engaged at another
    /// address is none of them: its objects are what they were.
    pub fn forget_objects_of(&mut self, away: &[(&ClusterName, &str)]) {
        let identities: HashSet<&str> = away.iter().map(|(_, identity)| *identity).collect();
        let is_of = |known: &OwnershipRecord| {
            known.annotations.get(marks::CLUSTER).is_some_and(|of| identities.contains(of.as_str()))
        };
        self.stripped.retain(|_, all| {
            all.retain(|_, known| !is_of(known));
            !all.is_empty()
        });
        away.iter().for_each(|(cluster, _)| drop(take_of_cluster(&mut self.uncompared, cluster)));
    }

    /// Deletions without an answer that may still take effect, in these namespaces of the target and in a cluster of sources. Where a
    /// target refuses deletions for a while, there may be ten thousand elsewhere.
    pub fn unanswered(
        &self,
        cluster: &ClusterName,
        namespaces: &BTreeSet<String>,
        now: Instant,
    ) -> BTreeSet<Reference> {
        let counts = |since: &Instant| now.duration_since(*since) < LATE_REQUEST;
        let is_there = |(at, reference): &Place| match at {
            Some(at) => at == cluster,
            None => namespaces.contains(&reference.namespace),
        };
        let all = self.unanswered.iter().filter(|(place, since)| counts(since) && is_there(place));
        all.map(|((_, reference), _)| reference.clone()).collect()
    }

    /// Somebody stripped an owned object of its ownership annotations, or released it, which the object itself tells.
    pub fn saw_stripped(&mut self, reference: Reference, known: OwnershipRecord) {
        let of_owner = self.stripped.entry(known.owner.clone()).or_default();
        of_owner.retain(|at, _| !at.is_same_object(&reference));
        of_owner.insert(reference, known);
    }

    /// What is known of stripped objects of these owners.
    pub fn stripped(&self, owners: &[Owner]) -> BTreeMap<Reference, OwnershipRecord> {
        let of = owners.iter().filter_map(|owner| self.stripped.get(owner)).flatten();
        of.map(|(reference, known)| (reference.clone(), known.clone())).collect()
    }

    /// A source is in sync that was planned with these: they are restored, or gone.
    pub fn restored<'k>(&mut self, known: impl IntoIterator<Item = (&'k Reference, &'k OwnershipRecord)>) {
        for (reference, one) in known {
            let Some(all) = self.stripped.get_mut(&one.owner) else { continue };
            all.retain(|at, of_owner| !at.is_same_object(reference) || of_owner != one);
            if all.is_empty() {
                self.stripped.remove(&one.owner);
            }
        }
    }

    /// Nobody is left who would restore what these had.
    pub fn forget_owners(&mut self, owners: &[Owner]) {
        owners.iter().for_each(|owner| drop(self.stripped.remove(owner)));
    }

    /// The mapping reads another source: no plan would restore what its sources had.
    pub fn forget_stripped(&mut self) {
        self.stripped.clear();
    }

    /// The target is another cluster.
    pub fn forget_target(&mut self) {
        self.forget_stripped();
        self.let_go.clear();
        self.uncompared.clear();
        self.unanswered.retain(|(at, _), _| at.is_some());
    }

    /// Objects of a source that were written, while no plan has seen what the server made of that.
    pub fn uncompared(&self, key: &Key) -> BTreeSet<Reference> {
        self.uncompared.get(key).cloned().unwrap_or_default()
    }

    pub fn leave_uncompared(&mut self, key: &Key, left: BTreeSet<Reference>) {
        if left.is_empty() {
            self.uncompared.remove(key);
        } else {
            self.uncompared.insert(key.clone(), left);
        }
    }

    /// Notes which deletions are without an answer now, of those that a reconcile of a cluster's source knew of before and
    /// those it knows of after.
    pub fn note_unanswered(
        &mut self,
        cluster: &ClusterName,
        before: &BTreeSet<Reference>,
        after: &BTreeSet<Reference>,
        now: Instant,
    ) {
        for answered in before.difference(after) {
            let (at, answered) = place(cluster, answered);
            self.unanswered.retain(|(of, one), _| *of != at || !one.is_same_object(&answered));
        }
        self.unanswered.extend(after.difference(before).map(|reference| (place(cluster, reference), now)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multicluster::request_error::Status;

    fn key(cluster: &str) -> Key {
        Key::new(ClusterName::try_from(cluster).unwrap(), "ns", "a")
    }

    /// What a server refused, or what never left, has changed nothing, and takes nothing back of what was lost before it.
    #[tokio::test(start_paused = true)]
    async fn a_request_without_an_answer_may_arrive_for_two_minutes() {
        let lost = RequestError::AnswerLost { url: "https://target".into(), reason: "the connection broke".into() };
        let refused = RequestError::Status(Box::new(Status { code: 409, ..Status::default() }));
        let unsent = RequestError::NotPermitted { url: "https://target".into() };
        let mut late = Late::default();
        for (error, may_come) in [(&refused, false), (&unsent, false), (&lost, true), (&unsent, true)] {
            late.failed(error);
            assert_eq!(late.may_come(), may_come);
        }
        tokio::time::advance(LATE_REQUEST).await;
        assert!(!late.may_come() && late.has_failed());
    }

    #[test]
    fn a_deletion_counts_for_ten_minutes_or_until_the_source_lives() {
        let (mut learned, start) = (Learned::default(), Instant::now());
        learned.saw_deletion(&key("a"), "u1", start);
        learned.forget(&key("a"));
        let deleted = |learned: &mut Learned, at| learned.missing(&key("a"), LATE_CREATE, at).deleted;
        assert_eq!(deleted(&mut learned, start + LATE_CREATE / 2).as_deref(), Some("u1"));
        assert_eq!(deleted(&mut learned, start + LATE_CREATE), None);
        let lately = [start, start + LATE_CREATE].map(|at| learned.deleted_lately(at));
        assert_eq!(lately, [vec![key("a")], vec![]]);
        learned.lives(&key("a"));
        assert_eq!(deleted(&mut learned, start), None);
    }

    #[test]
    fn a_source_that_is_let_go_is_known_for_ten_minutes_or_until_it_is_taken_in() {
        let (mut learned, start) = (Learned::default(), Instant::now());
        learned.lets_go(&key("a"), "u1", start);
        learned.lives(&key("a"));
        assert!(learned.was_let_go(&key("a"), "u1", start + LATE_CREATE / 2));
        assert!(!learned.was_let_go(&key("a"), "u2", start), "another source of its name");
        assert!(!learned.was_let_go(&key("a"), "u1", start + LATE_CREATE));
        assert_eq!([start, start + LATE_REQUEST].map(|at| learned.may_come_late(at)), [true, false]);
        learned.takes_in(&key("a"));
        assert!(!learned.was_let_go(&key("a"), "u1", start));
        learned.lets_go(&key("a"), "u1", start);
        learned.saw_deletion(&key("b"), "u2", start);
        assert_eq!((learned.size(start), learned.size(start + LATE_CREATE)), (2, 0));
    }

    fn namespaces(name: &str) -> BTreeSet<String> {
        BTreeSet::from([name.to_owned()])
    }

    fn known(owner: &str, cluster: &str) -> (Reference, OwnershipRecord) {
        let kind = crate::mapping::Kind::new("", "v1", "ConfigMap");
        let reference = Reference { kind, namespace: "ns".into(), name: format!("{owner}-{cluster}") };
        let annotations = BTreeMap::from([(marks::CLUSTER.to_owned(), cluster.to_owned())]);
        (reference, OwnershipRecord { owner: Owner(owner.into()), uid: "u".into(), annotations })
    }

    #[test]
    fn a_stripped_object_is_known_until_a_plan_that_knew_it_is_in_sync() {
        let mut learned = Learned::default();
        let ((one, of_one), (other, of_other)) = (known("a", "c"), known("b", "c"));
        learned.saw_stripped(one.clone(), of_one.clone());
        let planned = learned.stripped(&[Owner("a".into())]);
        assert_eq!(planned, BTreeMap::from([(one.clone(), of_one.clone())]));
        let again = OwnershipRecord { uid: "u2".into(), ..of_one };
        learned.saw_stripped(one.clone(), again.clone());
        learned.saw_stripped(other, of_other);
        learned.restored(&planned);
        assert_eq!(learned.stripped(&[Owner("a".into())]), BTreeMap::from([(one, again)]), "it was seen since");
        learned.forget_clusters(&[(&key("c").cluster, "c")]);
        assert_eq!(learned.stripped.len(), 2, "it may be engaged at another address");
        learned.forget_objects_of(&[(&key("c").cluster, "c")]);
        assert!(learned.stripped.is_empty());
        let (shared, of_it) = known("s", "of no cluster");
        learned.saw_stripped(shared, of_it);
        learned.forget_owners(&[Owner("a".into())]);
        assert_eq!(learned.size(Instant::now()), 1);
        learned.forget_owners(&[Owner("s".into())]);
        assert_eq!(learned.size(Instant::now()), 0);
    }

    /// Documents name one object in different versions of its kind.
    #[test]
    fn an_object_is_known_once_in_whichever_version() {
        let (mut learned, start) = (Learned::default(), Instant::now());
        let (former, of_it) = known("a", "c");
        let present = Reference { kind: crate::mapping::Kind::new("", "v2", "ConfigMap"), ..former.clone() };
        learned.saw_stripped(former.clone(), of_it.clone());
        learned.saw_stripped(present.clone(), of_it.clone());
        let all = learned.stripped(&[Owner("a".into())]);
        assert_eq!(all, BTreeMap::from([(present.clone(), of_it.clone())]));
        learned.restored(&BTreeMap::from([(former.clone(), of_it)]));
        assert!(learned.stripped.is_empty());
        let (none, cluster) = (BTreeSet::new(), key("c").cluster.clone());
        learned.note_unanswered(&cluster, &none, &BTreeSet::from([former]), start);
        learned.note_unanswered(&cluster, &BTreeSet::from([present]), &none, start);
        assert!(learned.unanswered(&cluster, &namespaces("ns"), start).is_empty());
    }

    /// Two clusters of sources have objects of one kind, namespace and name.
    #[test]
    fn what_is_known_of_one_cluster_says_nothing_of_another() {
        let (mut learned, start) = (Learned::default(), Instant::now());
        let on_target = known("a", "c").0;
        let beside = Reference { kind: on_target.kind.on(Side::Source), ..on_target.clone() };
        let both = BTreeSet::from([on_target.clone(), beside.clone()]);
        let (none, one, other) = (BTreeSet::new(), key("one").cluster.clone(), key("other").cluster.clone());
        learned.note_unanswered(&one, &none, &both, start);
        let here = namespaces("ns");
        assert_eq!(learned.unanswered(&one, &here, start), both);
        assert_eq!(learned.unanswered(&other, &here, start), BTreeSet::from([on_target]));
        assert!(learned.unanswered(&other, &namespaces("elsewhere"), start).is_empty());
        learned.note_unanswered(&other, &both, &none, start);
        assert_eq!(learned.unanswered(&one, &here, start), BTreeSet::from([beside.clone()]));
        assert!(learned.unanswered(&one, &here, start + LATE_REQUEST).is_empty());
        for owner in ["a", "b"] {
            learned.saw_stripped(beside.clone(), known(owner, "c").1);
        }
        assert_eq!(learned.stripped(&[Owner("a".into())])[&beside].owner.0, "a");
    }

    /// It is taken into a fleet, for example, while a create is still under way.
    #[test]
    fn what_was_deleted_counts_also_where_its_cluster_comes_back_under_another_name() {
        let (mut learned, start) = (Learned::default(), Instant::now());
        learned.saw_deletion(&key("plain"), "u1", start);
        learned.lets_go(&key("plain"), "u2", start);
        learned.forget_clusters(&[(&key("plain").cluster, "identity")]);
        learned.engage(&key("other").cluster, "another");
        assert_eq!(learned.missing(&key("other"), LATE_CREATE, start).deleted, None);
        learned.engage(&key("one").cluster, "identity");
        assert_eq!(learned.missing(&key("one"), LATE_CREATE, start).deleted.as_deref(), Some("u1"));
        assert!(learned.was_let_go(&key("one"), "u2", start));
    }

    /// A watch may show that the next source of its name was deleted before its cluster is engaged again.
    #[test]
    fn of_two_deletions_that_were_seen_under_two_names_of_a_cluster_the_later_one_counts() {
        let (start, uids) = (Instant::now(), ["u1", "u2"]);
        for names in [["identity", "one"], ["one", "identity"]] {
            let mut learned = Learned::default();
            for ((name, uid), second) in names.into_iter().zip(uids).zip(0..) {
                learned.saw_deletion(&key(name), uid, start + Duration::from_secs(second));
            }
            learned.engage(&key("one").cluster, "identity");
            assert_eq!(learned.missing(&key("one"), LATE_CREATE, start).deleted.as_deref(), Some("u2"));
        }
    }

    #[test]
    fn clusters_that_go_take_along_what_was_learned_of_them() {
        let (mut learned, start) = (Learned::default(), Instant::now());
        for cluster in ["gone", "lost", "stays"] {
            assert!(!learned.missing(&key(cluster), LATE_CREATE, start).long);
            learned.dropped.note(&key(cluster).cluster, &Arc::from("1"), &["/x"]);
            learned.leave_uncompared(&key(cluster), BTreeSet::from([known("a", cluster).0]));
        }
        let [gone, lost] = ["gone", "lost"].map(|name| key(name).cluster.clone());
        let both = [(&gone, "gone"), (&lost, "lost")];
        learned.forget_clusters(&both);
        assert_eq!((learned.missing.len(), learned.uncompared.len()), (1, 3), "they may be engaged at other addresses");
        learned.forget_objects_of(&both);
        assert_eq!(learned.uncompared.len(), 1);
        assert!(learned.dropped.of(&key("gone").cluster, "1").is_empty());
        assert!(!learned.dropped.of(&key("stays").cluster, "1").is_empty());
    }
}
