//! How a watch proceeds: list the first page, watch from there while the other pages come, and what follows from each thing
//! that can go wrong. Pure.
//!
//! ```text
//!            first page            opened
//! Listing ──────────────► Opening ─────────► Reading ──┐ event, bookmark, further page
//!    ▲                     ▲    ▲  in its time  │  ▲───┘
//!    │            verified │    └───────────────┤ end of stream
//!    │  410, silence,      │   before its time, │
//!    │  unreachable,       │   other errors     │
//!    │  a lost page,       │                    │
//!    │  a version that     │                    │
//!    │  goes back          │                    │
//!    └───────────────── Verifying ◄─────────────┘  (each by way of Pausing where it failed)
//! ```
//!
//! All pages of a list are of one version, that of the first. Large objects make the list last, on kcp some 20 ms for each
//! megabyte. What changes meanwhile is told by the watch: nobody waits for what others have.
//!
//! A server that is restored to an earlier state keeps silent on a watch from a version of its future. So a watch whose
//! connection broke never resumes unseen: the machine first compares the collection's version with its own, and lists
//! again after the server was unreachable or silent for long, or a version went back. A server that has passed the version
//! meanwhile may show another history by the object that comes with it.

use std::time::Duration;

use super::backoff::{Backoff, Jitter};
use super::raw::is_older;
use super::request_error::RequestError;

/// What a watch shows of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchState {
    /// The first list since it is served is not complete: what is in the store is there, and more may be.
    Starting,
    /// Listed completely since it was served, and watching.
    Synced,
    /// The server does not serve the resource (on kcp also: nobody has bound it there yet). Nothing is
    /// known, and nothing is evidence.
    NotServed,
    /// It fails and goes on trying. `code`: the HTTP status, where there was an answer; `synced_before`: what is in
    /// the store was complete once.
    Failed { reason: String, code: Option<u16>, synced_before: bool },
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// Fetch the first page of a new list.
    Listing,
    /// Ask for the collection's version: a server that was restored to an earlier state has a lower one than this.
    Verifying { version: String },
    /// Open a watch from this version.
    Opening { version: String },
    /// Read the next line.
    Reading { version: String },
    /// Wait, and go on with this.
    Pausing { delay: Duration, then: Box<Phase> },
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A page of the list.
    Page { version: String, is_last: bool },
    /// A page could not be fetched: what is known of the list is of no use.
    NoPage { error: RequestError },
    /// The version that the collection has now.
    Verified { version: String },
    /// The stream is open.
    Opened,
    /// An event or a bookmark, with its version.
    Line { version: String },
    /// Another watch of the endpoint saw a version go back, or this one what is of another history.
    Doubted,
    /// A request, the stream or a line in it failed. `lived`: since the stream was opened.
    Failed { error: RequestError, lived: Duration },
    /// The stream ended, or brought nothing in time. `silent`: how long it brought no line at most.
    Ended { lived: Duration, silent: Duration },
    /// The pause is over.
    Paused,
}

const USUAL: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(30) };
/// Asking is cheap where nobody answers, and the server may be back any moment.
const UNREACHABLE: Backoff = Backoff { min: Duration::from_millis(500), max: Duration::from_secs(8) };
/// Rights are given by people. What was allowed before is mostly refused by a server that has just come up and does not
/// know its rules yet: see [`USUAL`].
const FORBIDDEN: Backoff = Backoff { min: Duration::from_secs(5), max: Duration::from_secs(60) };
/// A stream that ends before this is counted as a failure.
const SHORT_LIVED: Duration = Duration::from_secs(5);
/// The least that a watch is asked to live.
const WATCH_SECONDS: Duration = Duration::from_secs(240);
/// A stream that lived about as long as it was asked to was ended by the server, in its time.
const NEARLY: Duration = Duration::from_secs(2);
/// A stream that brought nothing for this long is not resumed, also where the process stood still meanwhile. kube-apiserver sends a bookmark each minute, kcp more often.
const SILENT: Duration = Duration::from_secs(90);
/// After so many failures or short-lived streams on end, the version to resume from is no longer trusted: the server may be
/// restored while the engine waits, and pass that version in another history. One short stream alone is a server that was
/// restarted.
const DISTRUST_AFTER: u32 = 4;

/// The memory of one watch: how often it failed, and what it shows.
#[derive(Debug)]
pub(super) struct ListWatch {
    pub(super) state: WatchState,
    synced: bool,
    /// Whether pages of the list are still to come.
    is_listing: bool,
    /// Whether a list was ever complete: what is known is kept.
    pub(super) listed: bool,
    failures: u32,
    /// Whether the last failure was that nobody answered.
    unreachable: bool,
    unserved: u32,
    /// The newest version that was heard; empty: none of this history.
    last: String,
    /// Whether a version went back, and nobody was told of it yet.
    went_back: bool,
    /// Whether a version went back since the last stream that lived. Another watch of the connection may have seen that just before
    /// this one began.
    pub(super) restored: bool,
    /// How long the last stream was to live.
    asked: Duration,
    jitter: Jitter,
}

impl ListWatch {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            state: WatchState::Starting,
            synced: false,
            is_listing: false,
            listed: false,
            failures: 0,
            unreachable: false,
            unserved: 0,
            last: String::new(),
            went_back: false,
            restored: false,
            asked: WATCH_SECONDS,
            jitter: Jitter::new(seed),
        }
    }

    /// `timeoutSeconds` of the next watch: 240 to 300, so that many watches do not end together.
    pub(super) fn watch_seconds(&mut self) -> u64 {
        let seconds = WATCH_SECONDS.as_secs() + (self.jitter.unit() * 60.0) as u64;
        self.asked = Duration::from_secs(seconds);
        seconds
    }

    /// Whether a version went back since the last call: the history that the cache is of has ended.
    pub(super) fn take_went_back(&mut self) -> bool {
        std::mem::take(&mut self.went_back)
    }

    /// What follows from an outcome.
    pub(super) fn step(&mut self, phase: Phase, outcome: Outcome) -> Phase {
        match (phase, outcome) {
            // A kcp shard where nobody has bound the resource (any more): an empty list without a version.
            (_, Outcome::Page { version, .. }) if version.is_empty() => self.not_served(),
            (Phase::Listing, Outcome::Page { version, .. }) if is_older(&version, &self.last) => self.restored(),
            (Phase::Listing, Outcome::Page { version, is_last }) => {
                self.last.clone_from(&version);
                self.is_listing = true;
                // It is served again. Who takes what is not served for known waits for the other pages.
                if self.state == WatchState::NotServed {
                    self.state = WatchState::Starting;
                }
                self.came(is_last);
                Phase::Opening { version }
            }
            (phase, Outcome::Page { is_last, .. }) => {
                self.came(is_last);
                phase
            }
            (_, Outcome::NoPage { error }) => self.failed(Phase::Listing, &error, Duration::ZERO),
            (Phase::Verifying { .. }, Outcome::Verified { version }) if version.is_empty() => self.not_served(),
            (Phase::Verifying { version: from }, Outcome::Verified { version }) => match is_older(&version, &from) {
                true => self.restored(),
                false => Phase::Opening { version: from },
            },
            (Phase::Opening { version }, Outcome::Opened) => {
                if !self.is_listing {
                    self.state = WatchState::Synced;
                }
                Phase::Reading { version }
            }
            (Phase::Reading { version }, Outcome::Line { version: new }) => match is_older(&new, &version) {
                true => self.restored(),
                false => {
                    self.last.clone_from(&new);
                    Phase::Reading { version: new }
                }
            },
            (_, Outcome::Doubted) => {
                self.last.clear();
                self.list_doubted()
            }
            (Phase::Reading { version }, Outcome::Ended { lived, silent }) => self.ended(version, lived, silent),
            (Phase::Pausing { then, .. }, Outcome::Paused) => *then,
            (phase, Outcome::Failed { error, lived }) => self.failed(phase, &error, lived),
            // No other pair comes about; if it did, a list would put everything right.
            _ => Phase::Listing,
        }
    }

    /// A page came.
    fn came(&mut self, is_last: bool) {
        if is_last {
            (self.is_listing, self.listed, self.synced, self.unserved) = (false, true, true, 0);
            self.state = WatchState::Synced;
        }
    }

    fn ended(&mut self, version: String, lived: Duration, silent: Duration) -> Phase {
        if lived < SHORT_LIVED {
            // A server that was just put back may be put back again, and pass this version in another history.
            let mut then = if self.restored { Phase::Listing } else { Phase::Verifying { version } };
            if self.failures >= DISTRUST_AFTER {
                let reason = "the server ends each watch at once".to_owned();
                self.state = WatchState::Failed { reason, code: None, synced_before: self.synced };
                then = Phase::Listing;
            }
            return self.pause(then, USUAL, None);
        }
        self.failures = 0;
        self.restored = false;
        // Not even a bookmark: the version may lie in the server's future, where a watch is silent. Or the server was restored
        // meanwhile, and has reached this version in another history.
        if silent >= SILENT {
            return Phase::Listing;
        }
        match lived.abs_diff(self.asked) > NEARLY {
            // Too early, or too late: then it was we who gave up the stream.
            true => Phase::Verifying { version },
            false => Phase::Opening { version },
        }
    }

    /// The server is at an earlier state than before: what we hold is of another history.
    fn restored(&mut self) -> Phase {
        self.went_back = true;
        self.last.clear();
        self.list_doubted()
    }

    /// At once the first time, with backoff where versions go back again and again.
    fn list_doubted(&mut self) -> Phase {
        match std::mem::replace(&mut self.restored, true) {
            false => Phase::Listing,
            true => self.pause(Phase::Listing, USUAL, None),
        }
    }

    fn failed(&mut self, phase: Phase, error: &RequestError, lived: Duration) -> Phase {
        if lived >= SHORT_LIVED {
            self.failures = 0;
            self.restored = false;
        }
        if error.code() == Some(404) {
            return self.not_served();
        }
        if error.is_expired() {
            // The version (or the page) is too old: at once the first time, with backoff where it happens again.
            if self.failures == 0 {
                self.failures = 1;
                return Phase::Listing;
            }
            return self.pause(Phase::Listing, USUAL, None);
        }
        self.state = WatchState::Failed { reason: error.to_string(), code: error.code(), synced_before: self.synced };
        let backoff = match error {
            RequestError::Unreachable { .. } => UNREACHABLE,
            error if error.is_forbidden() && !self.synced => FORBIDDEN,
            _ => USUAL,
        };
        let unreachable = matches!(error, RequestError::Unreachable { .. });
        if self.unreachable && !unreachable {
            // It is back: how long it was away says nothing about how long this will take.
            self.failures = 0;
        }
        self.unreachable = unreachable;
        // Also where a proxy answers for a server that is away.
        let was_away = unreachable || matches!(error.code(), Some(502 | 503));
        let then = match phase {
            // Whoever was away may come back as another: only a list tells for sure. So may a server that does not even answer
            // which version it has: until it does, it may pass ours in another history.
            Phase::Opening { version } | Phase::Reading { version }
                if !was_away && !self.restored && !error.is_invalid() && self.failures < DISTRUST_AFTER =>
            {
                Phase::Verifying { version }
            }
            _ => Phase::Listing,
        };
        self.pause(then, backoff, error.retry_after())
    }

    fn not_served(&mut self) -> Phase {
        self.state = WatchState::NotServed;
        self.synced = false;
        self.failures = 0;
        let delay = USUAL.delay(self.unserved, &mut self.jitter);
        self.unserved = self.unserved.saturating_add(1);
        Phase::Pausing { delay, then: Box::new(Phase::Listing) }
    }

    fn pause(&mut self, then: Phase, backoff: Backoff, asked: Option<Duration>) -> Phase {
        let delay = backoff.delay(self.failures, &mut self.jitter).max(asked.unwrap_or_default());
        self.failures = self.failures.saturating_add(1);
        Phase::Pausing { delay, then: Box::new(then) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_error::Status;

    fn status(code: u16, reason: &str) -> RequestError {
        RequestError::Status(Box::new(Status { code, reason: reason.into(), ..Status::default() }))
    }

    fn refused() -> RequestError {
        RequestError::Unreachable { url: "u".into(), reason: "connection refused".into() }
    }

    fn failed(error: RequestError) -> Outcome {
        Outcome::Failed { error, lived: Duration::ZERO }
    }

    fn reading(version: &str) -> Phase {
        Phase::Reading { version: version.into() }
    }

    fn ended(lived: Duration, silent: u64) -> Outcome {
        Outcome::Ended { lived, silent: Duration::from_secs(silent) }
    }

    fn page(version: &str, is_last: bool) -> Outcome {
        Outcome::Page { version: version.into(), is_last }
    }

    fn line(version: &str) -> Outcome {
        Outcome::Line { version: version.into() }
    }

    fn verifying(version: &str) -> Phase {
        Phase::Verifying { version: version.into() }
    }

    fn verified(version: &str) -> Outcome {
        Outcome::Verified { version: version.into() }
    }

    fn paused(phase: Phase) -> (Duration, Phase) {
        match phase {
            Phase::Pausing { delay, then } => (delay, *then),
            phase => panic!("no pause: {phase:?}"),
        }
    }

    #[test]
    fn watches_from_the_first_page_and_is_in_sync_with_the_last() {
        let mut watch = ListWatch::new(1);
        let opening = watch.step(Phase::Listing, page("7", false));
        assert_eq!(opening, Phase::Opening { version: "7".into() });
        let mut phase = watch.step(opening, Outcome::Opened);
        for outcome in [line("9"), page("7", false), line("10")] {
            phase = watch.step(phase, outcome);
            assert_eq!(watch.state, WatchState::Starting);
        }
        assert_eq!(phase, reading("10"));
        // The stream may end and be resumed meanwhile.
        phase = watch.step(phase, ended(WATCH_SECONDS, 60));
        phase = watch.step(phase, Outcome::Opened);
        assert_eq!((&phase, &watch.state), (&reading("10"), &WatchState::Starting));
        phase = watch.step(phase, page("7", true));
        assert_eq!((&phase, &watch.state), (&reading("10"), &WatchState::Synced));
        let again = watch.step(phase, ended(WATCH_SECONDS, 60));
        assert_eq!(again, Phase::Opening { version: "10".into() });
    }

    #[test]
    fn a_page_that_cannot_be_fetched_ends_the_watch_beside_the_list() {
        let failed = |error| {
            let mut watch = ListWatch::new(1);
            watch.step(Phase::Listing, page("7", false));
            let then = watch.step(reading("9"), Outcome::NoPage { error });
            (then, watch.state)
        };
        assert_eq!(failed(status(410, "Expired")).0, Phase::Listing);
        let (then, state) = failed(status(500, ""));
        assert!(paused(then).1 == Phase::Listing && matches!(state, WatchState::Failed { synced_before: false, .. }));
        assert_eq!(failed(status(404, "NotFound")).1, WatchState::NotServed);
        let mut watch = ListWatch::new(1);
        watch.step(Phase::Listing, page("7", false));
        assert_eq!(paused(watch.step(reading("9"), page("", true))).1, Phase::Listing, "nobody has bound it any more");
        assert_eq!((&watch.state, watch.listed), (&WatchState::NotServed, false), "what was to come is not missing");
    }

    /// What is not served keeps nobody waiting, and of a list in progress nobody knows what is missing.
    #[test]
    fn until_its_last_page_a_new_list_leaves_a_watch_failed_and_one_that_was_not_served_starting() {
        for (error, was_served) in [(refused(), true), (status(404, "NotFound"), false)] {
            let mut watch = ListWatch::new(1);
            watch.step(Phase::Listing, page("3", true));
            assert_eq!(paused(watch.step(reading("3"), failed(error))).1, Phase::Listing);
            let is_as_before = |state: &WatchState| match was_served {
                true => matches!(state, WatchState::Failed { synced_before: true, .. }),
                false => *state == WatchState::Starting,
            };
            let opening = watch.step(Phase::Listing, page("7", false));
            assert!(is_as_before(&watch.state), "{:?}", watch.state);
            let phase = watch.step(opening, Outcome::Opened);
            assert!(is_as_before(&watch.state), "{:?}", watch.state);
            watch.step(phase, page("7", true));
            assert_eq!(watch.state, WatchState::Synced);
        }
    }

    #[test]
    fn an_expired_version_is_listed_anew_on_connect_and_in_the_stream() {
        for phase in [Phase::Opening { version: "7".into() }, reading("7"), Phase::Listing] {
            let mut watch = ListWatch::new(1);
            let first = watch.step(phase.clone(), failed(status(410, "Expired")));
            assert_eq!(first, Phase::Listing, "at once");
            let (delay, then) = paused(watch.step(phase, failed(status(410, "Gone"))));
            assert!(then == Phase::Listing && delay >= Duration::from_millis(500), "not in a loop");
        }
    }

    #[test]
    fn what_is_not_served_is_asked_for_again_and_is_not_an_empty_list() {
        let mut watch = ListWatch::new(1);
        let not_served = || failed(RequestError::NotServed { url: "u".into() });
        for outcome in [page("", true), not_served(), failed(status(404, "NotFound"))] {
            let (delay, then) = paused(watch.step(Phase::Listing, outcome));
            assert_eq!((then, &watch.state), (Phase::Listing, &WatchState::NotServed));
            assert!(delay <= Duration::from_secs(4));
        }
        for _ in 0..20 {
            let (delay, _) = paused(watch.step(Phase::Listing, not_served()));
            assert!(delay <= Duration::from_secs(30));
        }
        assert_eq!(watch.step(Phase::Listing, page("3", true)), Phase::Opening { version: "3".into() });
        assert_eq!(watch.state, WatchState::Synced);
        paused(watch.step(reading("3"), not_served()));
        assert_eq!(watch.state, WatchState::NotServed, "an API that is taken away");
    }

    #[test]
    fn failures_back_off_and_say_why_and_who_was_unreachable_is_listed() {
        let mut watch = ListWatch::new(1);
        watch.step(Phase::Listing, page("3", true));
        let mut before = Duration::ZERO;
        for _ in 0..5 {
            let (delay, then) = paused(watch.step(reading("7"), failed(refused())));
            assert_eq!(then, Phase::Listing, "it may come back with another history");
            assert!(delay * 2 > before);
            before = delay;
        }
        let reason = "cannot reach u: connection refused".to_owned();
        assert_eq!(watch.state, WatchState::Failed { reason, code: None, synced_before: true });
        watch.step(Phase::Opening { version: "7".into() }, Outcome::Opened);
        assert_eq!(watch.state, WatchState::Synced);
    }

    #[test]
    fn a_refused_version_or_endless_errors_lead_to_a_list() {
        let mut watch = ListWatch::new(1);
        let opening = || Phase::Opening { version: "7".into() };
        assert_eq!(paused(watch.step(opening(), failed(status(400, "BadRequest")))).1, Phase::Listing);
        let mut watch = ListWatch::new(1);
        assert_eq!(paused(watch.step(opening(), failed(status(500, "")))).1, verifying("7"));
        let then = (0..20).map(|_| paused(watch.step(opening(), failed(status(500, "")))).1).last();
        assert_eq!(then, Some(Phase::Listing));
    }

    #[test]
    fn a_version_that_goes_back_is_listed_and_told_to_others_wherever_it_shows() {
        for (phase, outcome) in
            [(reading("7"), line("3")), (verifying("7"), verified("3")), (Phase::Listing, page("3", true))]
        {
            let mut watch = ListWatch::new(1);
            watch.step(Phase::Listing, page("7", true));
            assert!(!watch.take_went_back());
            assert_eq!(watch.step(phase, outcome), Phase::Listing, "at once");
            assert!(watch.take_went_back() && !watch.take_went_back());
            assert_eq!(watch.step(Phase::Listing, page("3", true)), Phase::Opening { version: "3".into() });
            assert!(!watch.take_went_back(), "said once");
            assert_eq!(paused(watch.step(reading("3"), line("2"))).1, Phase::Listing, "not in a loop");
        }
    }

    #[test]
    fn until_a_stream_lives_a_server_that_was_restored_is_listed() {
        for outcome in [ended(Duration::from_secs(4), 4), failed(status(500, ""))] {
            let mut watch = ListWatch::new(1);
            watch.step(Phase::Listing, page("7", true));
            watch.step(reading("7"), line("3"));
            watch.step(Phase::Listing, page("3", true));
            assert_eq!(paused(watch.step(reading("3"), outcome)).1, Phase::Listing, "it may be restored again");
            assert_eq!(watch.step(reading("3"), ended(Duration::from_secs(100), 60)), verifying("3"));
            assert_eq!(paused(watch.step(reading("3"), ended(Duration::from_secs(4), 4))).1, verifying("3"));
        }
        // Where the cluster was another one meanwhile, its watches are new.
        let mut watch = ListWatch { restored: true, ..ListWatch::new(1) };
        assert_eq!(watch.step(Phase::Listing, page("3", true)), Phase::Opening { version: "3".into() });
        assert_eq!(paused(watch.step(reading("3"), ended(Duration::from_secs(4), 4))).1, Phase::Listing);
    }

    #[test]
    fn what_another_watch_saw_go_back_is_listed_and_not_told_again() {
        for phase in [reading("7"), verifying("7"), Phase::Opening { version: "7".into() }] {
            let mut watch = ListWatch::new(1);
            watch.step(Phase::Listing, page("7", true));
            assert_eq!(watch.step(phase, Outcome::Doubted), Phase::Listing);
            assert_eq!(watch.step(Phase::Listing, page("3", true)), Phase::Opening { version: "3".into() });
            assert!(!watch.take_went_back());
        }
    }

    #[test]
    fn a_stream_that_ends_before_its_time_is_resumed_from_the_same_history_only() {
        let mut watch = ListWatch::new(1);
        for lived in [Duration::from_secs(100), WATCH_SECONDS + Duration::from_secs(15)] {
            assert_eq!(watch.step(reading("7"), ended(lived, 60)), verifying("7"));
            assert_eq!(
                watch.step(reading("7"), ended(lived, 91)),
                Phase::Listing,
                "it may be of another history by now"
            );
        }
        assert_eq!(watch.step(verifying("7"), verified("9")), Phase::Opening { version: "7".into() });
        for was_away in [refused(), status(502, ""), status(503, "")] {
            assert_eq!(paused(watch.step(reading("7"), failed(was_away))).1, Phase::Listing);
        }
        assert_eq!(paused(watch.step(reading("7"), failed(status(504, "")))).1, verifying("7"));
        assert_eq!(paused(watch.step(verifying("7"), failed(status(403, "")))).1, Phase::Listing);
        paused(watch.step(verifying("7"), verified("")));
        assert_eq!(watch.state, WatchState::NotServed);
    }

    #[test]
    fn forbidden_is_retried_slowly_and_retry_after_is_kept() {
        let mut watch = ListWatch::new(1);
        let (delay, _) = paused(watch.step(Phase::Listing, failed(status(403, "Forbidden"))));
        assert!(delay >= Duration::from_millis(2500));
        let asked = Status { code: 429, retry_after: Some(Duration::from_secs(45)), ..Status::default() };
        let (delay, _) = paused(watch.step(Phase::Listing, failed(RequestError::Status(Box::new(asked)))));
        assert_eq!(delay, Duration::from_secs(45));
    }

    #[test]
    fn a_server_that_comes_back_is_asked_often_though_it_forbids_at_first_what_it_allowed() {
        let mut watch = ListWatch::new(1);
        watch.step(Phase::Listing, page("3", true));
        (0..10).for_each(|_| drop(watch.step(reading("7"), failed(refused()))));
        let delays = (0..4).map(|_| paused(watch.step(reading("7"), failed(status(403, "Forbidden")))).0);
        assert!(delays.sum::<Duration>() <= Duration::from_secs(30));
    }

    #[test]
    fn streams_that_end_at_once_do_not_spin_and_silent_ones_are_doubted() {
        let mut watch = ListWatch::new(1);
        let ended = |seconds| ended(Duration::from_secs(seconds), seconds);
        let (delay, then) = paused(watch.step(reading("7"), ended(0)));
        assert!(delay >= Duration::from_millis(500) && then == verifying("7"));
        assert_eq!(watch.state, WatchState::Starting, "no failure yet");
        (0..5).for_each(|_| drop(watch.step(reading("7"), ended(0))));
        assert!(matches!(watch.state, WatchState::Failed { .. }));
        assert_eq!(watch.step(reading("7"), ended(240)), Phase::Listing);
    }
}
