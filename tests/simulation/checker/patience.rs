//! Whether engines wait as long as a server or a mapping asks for.

use std::time::Duration;

use serde_json::Value;
use sync_engine::sandbox::Request;

use super::super::mapping::Mapping;
use super::Checker;

/// Process, host and cluster: at another address, there may be another server.
pub(super) type Lane = (u32, String, String);

impl Checker {
    /// An engine hears then that a server wants no write to a cluster for so long.
    pub(super) fn is_told_to_wait(&mut self, heard: Duration, wait: Duration, at: (u32, &str), to: &Request) {
        self.pauses.push((lane(at, to), heard, heard + wait));
    }

    /// What an engine was told by a server is forgotten: it has another connection, or is another process.
    pub fn forgets_pauses(&mut self) {
        self.pauses.clear();
    }

    /// An engine sends a write.
    pub(super) fn check_pause(&mut self, at: Duration, (process, host): (u32, &str), request: &Request) {
        self.pauses.retain(|(_, _, until)| *until > at);
        let lane = lane((process, host), request);
        if self.pauses.iter().any(|(of, heard, _)| *of == lane && *heard < at) {
            let call = request.call();
            let text =
                format!("engine {process} sends a {} of {} before `Retry-After` is over", call.verb, call.resource);
            self.violated("I6b", text);
        }
    }

    /// An engine calls a deletion stuck, where the clocks of all go alike.
    pub(super) fn check_stuck(&mut self, at: Duration, uid: &str, source: &Value) {
        let mut conditions = source["status"]["conditions"].as_array().into_iter().flatten();
        let is_stuck = conditions.any(|one| one["type"] == "Synced" && one["reason"] == "Stuck");
        let was_stuck = self.sources.get_mut(uid).map(|known| std::mem::replace(&mut known.is_stuck, is_stuck));
        if self.has_jumped || !is_stuck || was_stuck == Some(true) {
            return;
        }
        let Some(least) = self.editions.iter().filter_map(|(_, one)| one.as_ref()).map(Mapping::stuck_after).min()
        else {
            return;
        };
        // Clocks show whole seconds.
        let is_overdue = |since: Duration| since + least <= at + Duration::from_secs(1);
        let mut overdue = self.made.values().filter(|made| self.is_of(made, uid));
        if !overdue.any(|made| made.deleting.is_some_and(is_overdue)) {
            self.violated("I6b", format!("a deletion is called stuck, and nothing is being deleted since {least:?}"));
        }
    }
}

fn lane((process, host): (u32, &str), request: &Request) -> Lane {
    (process, host.to_owned(), request.call().cluster.to_string())
}

#[test]
fn a_server_asks_for_no_write_at_the_address_at_which_it_was_asked() {
    let (mut checker, second) = (Checker::default(), Duration::from_secs);
    let body = serde_json::json!({});
    let write = Request::patch("/api/v1/namespaces/default/configmaps/x", "application/merge-patch+json", &body);
    checker.is_told_to_wait(second(1), second(5), (0, "target"), &write);
    for (host, violations) in [("target-2", 0), ("target", 1)] {
        checker.check_pause(second(2), (0, host), &write);
        assert_eq!(checker.violations.len(), violations, "{host}");
    }
}
