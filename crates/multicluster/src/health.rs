//! What the engine is waiting for: a registry of named conditions that `/readyz` reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::permit::{Epoch, Follower};

/// The shared registry. Cloning gives another handle to the same one.
///
/// A component that is not in it says nothing. The engine is ready while no condition is [`Level::Waiting`], so whatever
/// readiness has to wait for must be set before the server starts to answer.
#[derive(Debug, Clone, Default)]
pub struct Health {
    entries: Arc<Mutex<BTreeMap<String, Entry>>>,
    changes: Epoch,
}

/// Condition of one component, as the component itself reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub level: Level,
    /// Why, and what to do about it, in a sentence. May be empty where nothing is wrong.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Ready,
    /// Part of the work cannot be done, for one cluster of a fleet or one tenant. The engine is ready all the same, so that
    /// none of them can hold up a roll-out.
    Degraded,
    /// The engine is not ready.
    Waiting,
}

impl Level {
    /// The word of one at which something is wrong.
    pub fn wrong(self) -> Option<&'static str> {
        match self {
            Self::Ready => None,
            Self::Degraded => Some("degraded"),
            Self::Waiting => Some("waiting"),
        }
    }
}

/// A condition together with how long it has stood like this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub component: String,
    pub condition: Condition,
    /// Since its level last changed; a new message alone does not start it again.
    pub lasted: Duration,
}

impl Standing {
    /// What kind of component it is: how its name begins. The rest names one of them.
    pub fn kind(&self) -> &str {
        const OF_TWO_WORDS: [&str; 4] = ["state store", "leader election", "large objects", "mappings directory"];
        let component = self.component.as_str();
        let known = OF_TWO_WORDS.into_iter().find(|kind| component.starts_with(kind));
        known.unwrap_or_else(|| component.split([' ', ':', ',']).next().unwrap_or_default())
    }
}

#[derive(Debug)]
struct Entry {
    condition: Condition,
    since: Instant,
}

impl Condition {
    pub fn ready(message: impl Into<String>) -> Self {
        Self { level: Level::Ready, message: message.into() }
    }

    pub fn degraded(message: impl Into<String>) -> Self {
        Self { level: Level::Degraded, message: message.into() }
    }

    pub fn waiting(message: impl Into<String>) -> Self {
        Self { level: Level::Waiting, message: message.into() }
    }

    /// An error is `otherwise`.
    pub fn of(result: Result<(), String>, otherwise: Level) -> Self {
        result.map_or_else(|message| Self { level: otherwise, message }, |()| Self::ready(""))
    }
}

impl Health {
    /// Puts a component's condition in the place of its last one. Answers whether it differs.
    pub fn set(&self, component: &str, condition: Condition) -> bool {
        let mut entries = self.entries.lock();
        let known = entries.get(component);
        if known.is_some_and(|known| known.condition == condition) {
            return false;
        }
        let same_level = known.filter(|known| known.condition.level == condition.level);
        let since = same_level.map_or_else(Instant::now, |known| known.since);
        entries.insert(component.to_owned(), Entry { condition, since });
        self.changes.advance();
        true
    }

    /// Forgets a component that is no longer there to be waited for. Answers whether it was.
    pub fn remove(&self, component: &str) -> bool {
        let was_there = self.entries.lock().remove(component).is_some();
        if was_there {
            self.changes.advance();
        }
        was_there
    }

    /// To wait for changes.
    pub fn changes(&self) -> Follower {
        self.changes.follow()
    }

    /// Whether no component is waiting.
    pub fn is_ready(&self) -> bool {
        self.count(Level::Waiting) == 0
    }

    /// How many components are at this level.
    pub fn count(&self, level: Level) -> usize {
        self.entries.lock().values().filter(|entry| entry.condition.level == level).count()
    }

    /// All conditions by the name of their component.
    pub fn standings(&self) -> Vec<Standing> {
        let now = Instant::now();
        let standing = |(component, entry): (&String, &Entry)| Standing {
            component: component.clone(),
            condition: entry.condition.clone(),
            lasted: now.saturating_duration_since(entry.since),
        };
        self.entries.lock().iter().map(standing).collect()
    }
}

/// The body of `/readyz`: one line for each condition in which something is wrong, or for all of them.
pub fn report(standings: &[Standing], all: bool) -> String {
    let mut text = String::new();
    for Standing { component, condition: Condition { level, message }, lasted } in standings {
        let (mark, level) = match level {
            Level::Ready if !all => continue,
            Level::Ready => ("[+]", "ready"),
            Level::Degraded => ("[!]", "degraded"),
            Level::Waiting => ("[-]", "not ready"),
        };
        let message = if message.is_empty() { String::new() } else { format!(": {message}") };
        let _ = writeln!(text, "{mark} {component} {level} for {}{message}", humanize(*lasted));
    }
    let count = |level| standings.iter().filter(|standing| standing.condition.level == level).count();
    let conditions = |count| if count == 1 { "condition" } else { "conditions" };
    let _ = match (count(Level::Waiting), count(Level::Degraded)) {
        (0, 0) => writeln!(text, "ready"),
        (0, some) => writeln!(text, "ready; degraded: {some} {} of {}", conditions(some), standings.len()),
        (some, _) => writeln!(text, "not ready: {some} {} of {}", conditions(some), standings.len()),
    };
    text
}

/// `45s`, `12m5s`, `3h20m` or `4d2h`: two units say enough.
fn humanize(duration: Duration) -> String {
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
    fn one_waiting_component_is_enough_and_removing_it_ends_the_wait() {
        let health = Health::default();
        assert!(health.is_ready(), "there is nothing to wait for");
        assert!(health.set("connection kcp", Condition::ready("")));
        assert!(health.set("connection target", Condition::waiting("connection refused")));
        assert!(!health.is_ready());
        assert!(!health.set("connection target", Condition::waiting("connection refused")), "nothing new was said");
        health.remove("connection target");
        assert!(health.is_ready());
        health.set("cluster b of a fleet", Condition::degraded("connection refused"));
        assert!(health.is_ready(), "one cluster of many holds up no roll-out");
    }

    #[test]
    fn a_new_message_keeps_the_time_and_a_changed_standing_starts_it_again() {
        let health = Health::default();
        let since = |health: &Health| health.entries.lock()["target"].since;
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
        let degraded = standing("cluster b", Condition::degraded("connection refused"), 65);
        insta::assert_snapshot!(report(&[degraded, standings[2].clone()], false), @r"
        [!] cluster b degraded for 1m5s: connection refused
        ready; degraded: 1 condition of 2
        ");
    }
}
