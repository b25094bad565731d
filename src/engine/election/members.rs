//! Which replicas are alive, as one of them sees their Leases. Pure: the time is given.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::record::{Listed, Record, Seen, holder, lasts};
use crate::multicluster::shares::View;

/// For how long a Lease stays that ran out or was handed back. Its replica does not return: a Pod's name is not used again.
const KEPT: Duration = Duration::from_secs(600);

/// The Leases of an engine, by name.
#[derive(Debug, Default)]
pub struct Members {
    leases: BTreeMap<String, Member>,
    /// The version of the last list.
    version: u64,
}

#[derive(Debug)]
struct Member {
    seen: Seen,
    /// Somebody deleted the Lease. Its holder may still be writing, and counts as alive for as long as a Lease lasts.
    is_missing: bool,
}

impl Member {
    fn lives(&self, now: Instant) -> bool {
        !holder(&self.seen.record).is_empty() && now < self.seen.ends()
    }
}

impl Members {
    /// Every Lease was listed.
    pub fn note(&mut self, listed: Listed, now: Instant) {
        let version = listed.metadata.resource_version.and_then(|version| version.parse().ok()).unwrap_or_default();
        // A server was put back to an earlier state: a Lease that looks as it did before may have been renewed in between.
        let is_restored = version < std::mem::replace(&mut self.version, version);
        let mut former = std::mem::take(&mut self.leases);
        for record in listed.items {
            let name = record.metadata.name.clone().unwrap_or_default();
            let known = former.remove(&name).filter(|member| !member.is_missing && !is_restored);
            let seen = Seen::after(known.map(|member| member.seen), record, now);
            self.leases.insert(name, Member { seen, is_missing: false });
        }
        for (name, mut member) in former {
            if !std::mem::replace(&mut member.is_missing, true) {
                // It may have been renewed since it was seen last, but not since it is known to be missing.
                member.seen.since = now;
            }
            if member.lives(now) {
                self.leases.insert(name, member);
            }
        }
    }

    /// Those that share the work: all that are alive, but for the holder of the Lease of leader election.
    pub fn view(&self, leaders: &str, now: Instant) -> View {
        let living = self.leases.iter().filter(|(name, member)| *name != leaders && member.lives(now));
        living.map(|(_, member)| holder(&member.seen.record)).collect()
    }

    /// Who leads, where some replica runs with leader election.
    pub fn leader(&self, leaders: &str, now: Instant) -> Option<&str> {
        let member = self.leases.get(leaders).filter(|member| member.lives(now))?;
        Some(holder(&member.seen.record))
    }

    /// A Lease as it was listed.
    pub fn listed(&self, name: &str) -> Option<&Record> {
        self.leases.get(name).filter(|member| !member.is_missing).map(|member| &member.seen.record)
    }

    /// When the next replica counts as dead, if its Lease stays as it is.
    pub fn next_end(&self, now: Instant) -> Option<Instant> {
        self.leases.values().filter(|member| member.lives(now)).map(|member| member.seen.ends()).min()
    }

    /// How long a replica may go on that did not see another one join: as long as this one where its Lease lasts as long, else
    /// at most as long as its Lease.
    pub fn longest(&self, own: Duration, deadline: Duration, now: Instant) -> Duration {
        let living = self.leases.values().filter(|member| member.lives(now));
        let others = living.map(|member| lasts(&member.seen.record)).filter(|lasts| *lasts != own);
        others.fold(deadline, Duration::max)
    }

    /// Leases of replicas that will not return.
    pub fn stale(&self, now: Instant) -> impl Iterator<Item = &Record> {
        let is_stale = move |member: &&Member| !member.is_missing && now >= member.seen.ends() + KEPT;
        self.leases.values().filter(is_stale).map(|member| &member.seen.record)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;

    use super::super::record::tests::record;
    use super::*;

    const LEADERS: &str = "leader";

    struct Story {
        members: Members,
        start: Instant,
    }

    impl Story {
        fn new() -> Self {
            Self { members: Members::default(), start: Instant::now() }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        /// Leases by holder and version, which is also the list's.
        fn list(&mut self, seconds: u64, version: u32, leases: &[(&str, &str)]) {
            let items = leases.iter().map(|(holder, version)| record(holder, 15, version)).collect();
            let metadata = ListMeta { resource_version: Some(version.to_string()), ..ListMeta::default() };
            self.members.note(Listed { metadata, items }, self.at(seconds));
        }

        fn living(&self, seconds: u64) -> Vec<String> {
            self.members.view(LEADERS, self.at(seconds)).replicas().map(str::to_owned).collect()
        }
    }

    #[tokio::test]
    async fn a_replica_lives_until_its_lease_was_seen_unchanged_for_as_long_as_it_lasts() {
        let mut story = Story::new();
        story.list(0, 1, &[("a", "1"), ("b", "1")]);
        story.list(10, 2, &[("a", "2"), ("b", "1")]);
        assert_eq!(story.living(14), ["a", "b"]);
        assert_eq!(story.members.next_end(story.at(10)), Some(story.at(15)));
        assert_eq!(story.living(15), ["a"]);
        story.list(16, 3, &[("a", "3"), ("b", "3")]);
        assert_eq!(story.living(16), ["a", "b"], "it came back");
    }

    #[tokio::test]
    async fn a_lease_that_was_handed_back_frees_its_share_at_once() {
        let mut story = Story::new();
        story.list(0, 1, &[("a", "1"), ("b", "1")]);
        let mut items = vec![record("a", 15, "2"), record("b", 15, "2")];
        items[1].spec.get_or_insert_default().holder_identity = Some(String::new());
        let metadata = ListMeta { resource_version: Some("2".into()), ..ListMeta::default() };
        story.members.note(Listed { metadata, items }, story.at(1));
        assert_eq!(story.living(1), ["a"]);
    }

    #[tokio::test]
    async fn the_holder_of_a_deleted_lease_lives_for_as_long_as_one_lasts_since_it_was_found_missing() {
        let mut story = Story::new();
        story.list(0, 1, &[("a", "1"), ("b", "1")]);
        // It may have been renewed a moment before it was deleted.
        story.list(9, 3, &[("a", "2")]);
        story.list(20, 4, &[("a", "4")]);
        assert_eq!(story.living(23), ["a", "b"]);
        assert_eq!(story.living(24), ["a"]);
        story.list(24, 5, &[("a", "5")]);
        assert_eq!(story.members.leases.len(), 1, "and is forgotten");
    }

    #[tokio::test]
    async fn after_a_restore_every_lease_counts_as_new() {
        let mut story = Story::new();
        story.list(0, 10, &[("a", "1"), ("b", "1")]);
        story.list(14, 9, &[("a", "1"), ("b", "1")]);
        assert_eq!(story.living(28), ["a", "b"]);
        assert_eq!(story.living(29), [""; 0]);
    }

    #[tokio::test]
    async fn the_lease_of_leader_election_is_no_share() {
        let mut story = Story::new();
        story.list(0, 1, &[("a", "1"), (LEADERS, "1")]);
        assert_eq!(story.living(0), ["a"]);
        assert_eq!(story.members.leader(LEADERS, story.at(14)), Some(LEADERS));
        assert_eq!(story.members.leader(LEADERS, story.at(15)), None);
    }

    #[tokio::test]
    async fn who_joins_waits_for_replicas_with_other_terms() {
        let mut story = Story::new();
        let seconds = Duration::from_secs;
        story.list(0, 1, &[("a", "1")]);
        assert_eq!(story.members.longest(seconds(15), seconds(10), story.at(1)), seconds(10));
        assert_eq!(story.members.longest(seconds(6), seconds(4), story.at(1)), seconds(15));
        assert_eq!(story.members.longest(seconds(60), seconds(40), story.at(1)), seconds(40));
    }

    #[tokio::test]
    async fn a_lease_is_stale_long_after_it_ran_out() {
        let mut story = Story::new();
        story.list(0, 1, &[("a", "1")]);
        let stale = |seconds| story.members.stale(story.at(seconds)).count();
        assert_eq!((stale(614), stale(615)), (0, 1));
    }
}
