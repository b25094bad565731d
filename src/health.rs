//! What the engine is waiting for: a registry of named conditions that `/readyz` reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// The shared registry. Cloning gives another handle to the same one.
///
/// A component that is not in it says nothing, so the engine is ready when every condition in it is:
/// whatever readiness has to wait for must be set before the server starts to answer.
#[derive(Debug, Clone, Default)]
pub struct Health {
    entries: Arc<Mutex<BTreeMap<String, Entry>>>,
    changes: watch::Sender<u64>,
}

/// Standing of one component, as the component itself reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub ready: bool,
    /// Why, and what to do about it, in a sentence. May be empty where `ready`.
    pub message: String,
}

/// A condition together with how long it has stood like this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub component: String,
    pub condition: Condition,
    /// Since `ready` last changed; a new message alone does not start it again.
    pub lasted: Duration,
}

#[derive(Debug)]
struct Entry {
    condition: Condition,
    since: Instant,
}

impl Condition {
    pub fn ready(message: impl Into<String>) -> Self {
        Self { ready: true, message: message.into() }
    }

    pub fn waiting(message: impl Into<String>) -> Self {
        Self { ready: false, message: message.into() }
    }
}

impl Health {
    /// Puts a component's condition in the place of its last one. Answers whether it differs.
    pub fn set(&self, component: &str, condition: Condition) -> bool {
        let changed = self.place(component, condition);
        if changed {
            self.changes.send_modify(|changes| *changes += 1);
        }
        changed
    }

    fn place(&self, component: &str, condition: Condition) -> bool {
        let mut entries = self.lock();
        match entries.get_mut(component) {
            Some(entry) if entry.condition == condition => false,
            Some(entry) => {
                if entry.condition.ready != condition.ready {
                    entry.since = Instant::now();
                }
                entry.condition = condition;
                true
            }
            None => {
                entries.insert(component.to_owned(), Entry { condition, since: Instant::now() });
                true
            }
        }
    }

    /// [`set`](Self::set) from a result: an error is what is waited for.
    pub fn report(&self, component: &str, state: Result<(), String>) -> bool {
        self.set(component, state.map_or_else(Condition::waiting, |()| Condition::ready("")))
    }

    /// Forgets a component that is no longer there to be waited for.
    pub fn remove(&self, component: &str) {
        if self.lock().remove(component).is_some() {
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// To wait for changes: their number so far.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether no component is waiting.
    pub fn is_ready(&self) -> bool {
        self.lock().values().all(|entry| entry.condition.ready)
    }

    /// All conditions by the name of their component.
    pub fn standings(&self) -> Vec<Standing> {
        let now = Instant::now();
        let standing = |(component, entry): (&String, &Entry)| Standing {
            component: component.clone(),
            condition: entry.condition.clone(),
            lasted: now.saturating_duration_since(entry.since),
        };
        self.lock().iter().map(standing).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        // Every change below the lock is a single assignment: a panic elsewhere leaves nothing half done.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of `/readyz`: one line for each condition that is not ready, or for all of them.
pub fn report(standings: &[Standing], all: bool) -> String {
    let mut text = String::new();
    for standing in standings.iter().filter(|standing| all || !standing.condition.ready) {
        let mark = if standing.condition.ready { "[+]" } else { "[-]" };
        let lasted = humanize(standing.lasted);
        let _ = match (standing.condition.ready, standing.condition.message.as_str()) {
            (true, "") => writeln!(text, "{mark} {} ready for {lasted}", standing.component),
            (true, why) => writeln!(text, "{mark} {} ready for {lasted}: {why}", standing.component),
            (false, why) => writeln!(text, "{mark} {} not ready for {lasted}: {why}", standing.component),
        };
    }
    let waiting = standings.iter().filter(|standing| !standing.condition.ready).count();
    let _ = match waiting {
        0 => writeln!(text, "ready"),
        1 => writeln!(text, "not ready: 1 condition of {}", standings.len()),
        several => writeln!(text, "not ready: {several} conditions of {}", standings.len()),
    };
    text
}

/// `45s`, `12m5s`, `3h20m` or `4d2h`: two units say enough.
pub fn humanize(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m{}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h{minutes}m"),
        (days, hours, _) => format!("{days}d{hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(component: &str, condition: Condition, seconds: u64) -> Standing {
        Standing { component: component.to_owned(), condition, lasted: Duration::from_secs(seconds) }
    }

    #[test]
    fn nothing_to_wait_for_is_ready() {
        assert!(Health::default().is_ready());
    }

    #[test]
    fn one_waiting_component_is_enough_and_removing_it_ends_the_wait() {
        let health = Health::default();
        assert!(health.set("connection kcp", Condition::ready("")));
        assert!(health.set("connection target", Condition::waiting("connection refused")));
        assert!(!health.is_ready());
        assert!(!health.set("connection target", Condition::waiting("connection refused")), "nothing new was said");
        health.remove("connection target");
        assert!(health.is_ready());
    }

    #[test]
    fn a_new_message_keeps_the_time_and_a_changed_standing_starts_it_again() {
        let health = Health::default();
        let since = |health: &Health| health.lock()["target"].since;
        health.set("target", Condition::waiting("refused"));
        let first = since(&health);
        health.set("target", Condition::waiting("forbidden"));
        assert_eq!(since(&health), first);
        while Instant::now() == first {}
        health.set("target", Condition::ready(""));
        assert!(since(&health) > first);
    }

    #[test]
    fn the_report_names_what_waits_why_and_since_when() {
        let standings = [
            standing("connection kcp", Condition::ready("2 endpoints"), 7_300),
            standing("connection target", Condition::waiting("https://10.0.0.1:6443 refuses connections"), 65),
            standing("mapping mongodb", Condition::ready(""), 5),
        ];
        insta::assert_snapshot!(report(&standings, false), @r"
        [-] connection target not ready for 1m5s: https://10.0.0.1:6443 refuses connections
        not ready: 1 condition of 3
        ");
        insta::assert_snapshot!(report(&standings, true), @r"
        [+] connection kcp ready for 2h1m: 2 endpoints
        [-] connection target not ready for 1m5s: https://10.0.0.1:6443 refuses connections
        [+] mapping mongodb ready for 5s
        not ready: 1 condition of 3
        ");
        insta::assert_snapshot!(report(&standings[..1], false), @"ready");
    }
}
