//! What is well and what is not, in words, for `/readyz`, metrics and the status page.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch;

/// The state of one thing the engine depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// What it speaks of: `provider of APIExport mongodb`, `watch of secrets.v1 at https://…`.
    pub what: String,
    pub ok: bool,
    /// What is wrong and what to do about it; empty when all is well.
    pub message: String,
    pub since: SystemTime,
}

/// All conditions of the process; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Conditions(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    all: Mutex<BTreeMap<String, Condition>>,
    changes: watch::Sender<u64>,
}

impl Conditions {
    /// Sets one. `since` moves when it becomes well or ill; returns whether that or the message changed.
    pub fn set(&self, what: &str, state: Result<(), String>) -> bool {
        let mut all = self.lock();
        let before = all.get(what);
        let (ok, message) = (state.is_ok(), state.err().unwrap_or_default());
        let changed = before.is_none_or(|before| before.ok != ok || before.message != message);
        let since = before.filter(|before| before.ok == ok).map_or_else(SystemTime::now, |before| before.since);
        all.insert(what.to_owned(), Condition { what: what.to_owned(), ok, message, since });
        if changed {
            self.0.changes.send_modify(|changes| *changes += 1);
        }
        changed
    }

    pub fn remove(&self, what: &str) {
        if self.lock().remove(what).is_some() {
            self.0.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// To wait for changes: their number so far.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Ordered by what they speak of.
    pub fn all(&self) -> Vec<Condition> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Condition>> {
        self.0.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_moves_only_between_well_and_ill() {
        let conditions = Conditions::default();
        assert!(conditions.set("a", Err("x".into())));
        let since = conditions.all()[0].since;
        assert!(!conditions.set("a", Err("x".into())));
        assert!(conditions.set("a", Err("y".into())), "another message is a change");
        assert_eq!((conditions.all()[0].since, conditions.all()[0].message.as_str()), (since, "y"));
        assert!(conditions.set("a", Ok(())));
        assert!(conditions.all()[0].ok && conditions.all()[0].message.is_empty());
        conditions.remove("a");
        assert!(conditions.all().is_empty());
    }
}
