//! Kubernetes Events: to a consumer, that the reason of `Synced` changed; to the provider, what became of documents,
//! deletions and leadership. They go nowhere unless they are asked for (`--events`), and one that is refused or lost is
//! not repeated: conditions and the state store are what counts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::debug;

use super::clock::Clock;
use crate::multicluster::{ApiPath, Endpoint};
use crate::object::metadata;
use crate::plan::status::synced_condition;
use crate::rights::events;

/// As client-go's filter of spam: so many at once of one object, and one more every five minutes.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);
/// Objects whose events are counted. Beyond that, the one that may have the most is forgotten.
const OBJECTS: usize = 4096;
/// Events that wait, requests at one time, and those of them for one cluster. What is beyond is dropped.
const WAITING: usize = 256;
const AT_ONCE: usize = 64;
const AT_ONCE_FOR_EACH: usize = 8;
/// client-go's names of events: the object's, and a number.
const LONGEST_NAME: usize = 230;

/// Takes events and never waits. The default drops them.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Option<mpsc::Sender<(Endpoint, Event)>>);

/// What is told of an object.
#[derive(Debug, Clone)]
pub struct Event {
    /// `ObjectReference` of the core API.
    pub involved: Value,
    pub is_warning: bool,
    pub reason: String,
    pub message: String,
}

impl Event {
    /// What a status tells that was just written: its condition `Synced`, where the reason is another than before.
    pub fn of_status(engine: &str, before: &Value, after: &Value) -> Option<Self> {
        let condition = |object| {
            let condition = synced_condition(engine, object)?;
            let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            Some((text("status"), text("reason"), text("message")))
        };
        let (status, reason, message) = condition(after)?;
        if condition(before).is_some_and(|(_, former, _)| former == reason) {
            return None;
        }
        let involved = json!({
            "apiVersion": after["apiVersion"], "kind": after["kind"], "uid": metadata(after, "uid"),
            "namespace": metadata(after, "namespace"), "name": metadata(after, "name"),
            "resourceVersion": metadata(after, "resourceVersion"),
        });
        Some(Self { involved, is_warning: status == "False", reason, message })
    }

    /// The object, in whichever version.
    fn object(&self) -> String {
        ["kind", "namespace", "name", "uid"].map(|field| self.involved[field].as_str().unwrap_or_default()).join(" ")
    }

    /// An event about an object without namespace is in `default`, as client-go has it.
    fn namespace(&self) -> &str {
        match self.involved["namespace"].as_str() {
            None | Some("") => "default",
            Some(namespace) => namespace,
        }
    }

    fn body(&self, component: &str, clock: &Clock, number: u64) -> Value {
        let (now, name) = (clock.now(), self.involved["name"].as_str().unwrap_or_default());
        let name: String = name.chars().take(LONGEST_NAME).collect();
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {
                "namespace": self.namespace(),
                "name": format!("{name}.{:x}", now.as_nanosecond().unsigned_abs().wrapping_add(number.into())),
            },
            "involvedObject": self.involved,
            "type": if self.is_warning { "Warning" } else { "Normal" },
            "reason": self.reason, "message": self.message, "count": 1,
            "firstTimestamp": seconds(now), "lastTimestamp": seconds(now),
            "source": {"component": component}, "reportingComponent": component, "reportingInstance": "",
        })
    }
}

/// `metav1.Time` has no fractions.
fn seconds(time: k8s_openapi::jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Recorder {
    /// Writes events until it and all its clones are dropped, or the task is.
    pub fn start(tasks: &mut JoinSet<()>, engine: &str, clock: Clock) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        tasks.spawn(run(receiver, format!("sync-engine/{engine}"), clock));
        Self(Some(sender))
    }

    /// Tells it at the cluster of the object. Who does not read fast enough loses some.
    pub fn tell(&self, at: &Endpoint, event: impl FnOnce() -> Option<Event>) {
        let Some(sender) = &self.0 else { return };
        if let Some(event) = event()
            && sender.try_send((at.clone(), event)).is_err()
        {
            debug!("an event is dropped: too many wait");
        }
    }
}

async fn run(mut received: mpsc::Receiver<(Endpoint, Event)>, component: String, clock: Clock) {
    let (mut spam, mut under_way, mut sending, mut number) = (Spam::default(), UnderWay::default(), JoinSet::new(), 0);
    let component: Arc<str> = component.into();
    while let Some((at, event)) = received.recv().await {
        while sending.try_join_next().is_some() {}
        let place = at.place();
        let begun = under_way.begin(&place).filter(|_| sending.len() < AT_ONCE);
        let begun = begun.filter(|_| spam.permits(format!("{place} {}", event.object()), Instant::now()));
        let Some(begun) = begun else {
            debug!(reason = event.reason, "an event is dropped");
            continue;
        };
        number += 1;
        let writing = write(at, event.body(&component, &clock, number), component.clone());
        sending.spawn(async move {
            writing.await;
            drop(begun);
        });
    }
}

/// Requests under way, by cluster: a tenant's admission webhook that takes its time keeps nobody else's events back.
#[derive(Default)]
struct UnderWay(HashMap<String, Arc<()>>);

impl UnderWay {
    /// One more, as long as it is held. `None`: there are so many.
    fn begin(&mut self, place: &str) -> Option<Arc<()>> {
        // The map has one of each.
        self.0.retain(|_, held| Arc::strong_count(held) > 1);
        let held = self.0.entry(place.to_owned()).or_default();
        (Arc::strong_count(held) <= AT_ONCE_FOR_EACH).then(|| held.clone())
    }
}

async fn write(at: Endpoint, body: Value, component: Arc<str>) {
    let namespace = metadata(&body, "namespace");
    let Ok(path) = ApiPath::collection(&events(), namespace) else { return };
    // Where the claim for events is not accepted, or the right is missing, there are none.
    if let Err(error) = at.create(&path, &component, body.to_string().into()).await {
        debug!(%error, "an event is not written");
    }
}

/// When each object's share is full again.
#[derive(Default)]
struct Spam(HashMap<String, Instant>);

impl Spam {
    fn permits(&mut self, of: String, now: Instant) -> bool {
        if self.0.len() >= OBJECTS && !self.0.contains_key(&of) {
            // Whoever has thousands of objects keeps nobody else's events back.
            let fullest = self.0.iter().min_by_key(|(_, full)| **full).map(|(of, _)| of.clone());
            if let Some(fullest) = fullest {
                self.0.remove(&fullest);
            }
        }
        let full = self.0.entry(of).or_insert(now);
        let after = (*full).max(now) + REFILL;
        let permits = after <= now + REFILL * BURST;
        if permits {
            *full = after;
        }
        permits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(reason: Option<&str>) -> Value {
        let condition = reason.map(|reason| {
            let status = if reason == "Synced" { "True" } else { "False" };
            json!({"type": "Synced", "status": status, "reason": reason, "message": "why"})
        });
        json!({
            "apiVersion": "a.test/v1", "kind": "Db",
            "metadata": {"name": "db", "namespace": "ns", "uid": "u", "resourceVersion": "7"},
            "status": {"conditions": condition.into_iter().collect::<Vec<_>>()},
        })
    }

    #[test]
    fn a_status_is_told_where_the_reason_of_synced_is_another() {
        let told = |before, after| Event::of_status("main", &object(before), &object(after));
        assert!(told(Some("Conflict"), Some("Conflict")).is_none());
        assert!(told(Some("Conflict"), None).is_none(), "it is taken off");
        assert!(Event::of_status("other", &object(None), &object(Some("Conflict"))).is_none(), "another engine's");
        let warning = told(Some("Synced"), Some("Conflict")).expect("an event");
        assert!(warning.is_warning && warning.namespace() == "ns" && warning.message == "why");
        assert!(!told(Some("Conflict"), Some("Synced")).expect("an event").is_warning);
        let mut later = object(Some("Refused"));
        later["metadata"]["resourceVersion"] = json!("8");
        let later = Event::of_status("main", &object(None), &later).expect("an event");
        assert_eq!(later.object(), warning.object(), "they are counted together");
        let body = warning.body("sync-engine/main", &Clock::default(), 1);
        assert_eq!((&body["involvedObject"]["uid"], &body["type"]), (&json!("u"), &json!("Warning")));
    }

    #[test]
    fn one_cluster_whose_requests_take_long_leaves_room_for_others() {
        let mut under_way = UnderWay::default();
        let mut held: Vec<_> = std::iter::from_fn(|| under_way.begin("slow")).collect();
        assert_eq!(held.len(), AT_ONCE_FOR_EACH);
        assert!(under_way.begin("other").is_some());
        held.pop();
        assert!(under_way.begin("slow").is_some());
        drop(held);
        assert!(under_way.begin("other").is_some() && under_way.0.len() == 1, "who has none is forgotten");
    }

    #[test]
    fn one_object_has_so_many_events_at_once_and_then_one_in_five_minutes() {
        let (mut spam, now) = (Spam::default(), Instant::now());
        let mut permitted = |at| (0..100).filter(|_| spam.permits("a".into(), at)).count();
        assert_eq!(permitted(now), BURST as usize);
        assert_eq!(permitted(now + REFILL), 1);
        assert_eq!(permitted(now + 3 * REFILL), 2);
        assert!(spam.permits("b".into(), now), "others have their own");
        for number in 0..OBJECTS + 10 {
            assert!(spam.permits(number.to_string(), now), "{number}: others have many");
        }
        assert!(spam.0.len() <= OBJECTS);
    }
}
