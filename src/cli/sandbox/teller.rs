//! Tells news as they come, and keeps count.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::parts::News;
use super::screen::{BAD, BY_ENGINE, CONSUMER, FAINT, GOOD, STRONG, Screen};
use crate::cli::arguments::DEFAULT_NAMESPACE;
use crate::engine::DEFAULT_TARGET;
use crate::object::{are, count};
use crate::reload::Outcome;
use crate::sandbox::{Change, ChangeKind, Key, Storage};
use crate::story::{Narrator, Order, Place, Scene, Side};

/// Most orders whose way is told one by one.
const FEW: usize = 8;
/// Most sentences a second; beyond, they are counted.
const SENTENCES: usize = 60;
/// How often it is told how far the story is.
const REPORT: Duration = Duration::from_secs(5);

/// The voice of the story.
pub(super) struct Teller {
    pub screen: Screen<io::Stdout>,
    narrator: Narrator,
    started: Instant,
    /// How many objects are ordered.
    orders: usize,
    ordered: Vec<Order>,
    /// What is ready, by the cluster beside kcp and the resource.
    ready: BTreeSet<(String, String, Key)>,
    /// Why others are not, as far as their conditions tell.
    unready: BTreeMap<(String, String, Key), String>,
    pace: Pace,
    reported: Instant,
    /// Whether the story is under way whose single sentences would be too many.
    sums_up: bool,
    /// Whether the engine has read its mappings.
    pub has_mappings: bool,
}

/// Keeps a flood of changes readable.
struct Pace {
    second: u64,
    told: usize,
    untold: usize,
}

impl Teller {
    pub fn new(screen: Screen<io::Stdout>, scene: &Scene, started: Instant) -> Self {
        Self {
            screen,
            narrator: Narrator::new(&scene.consumers, DEFAULT_NAMESPACE),
            started,
            orders: scene.orders(),
            ordered: scene.script.orders.clone(),
            ready: BTreeSet::new(),
            unready: BTreeMap::new(),
            pace: Pace { second: 0, told: 0, untold: 0 },
            reported: started,
            sums_up: scene.orders() > FEW,
            has_mappings: false,
        }
    }

    /// Where everything is, and what stands there already.
    pub fn introduce(&mut self, endpoints: &str, scene: &Scene) -> io::Result<()> {
        let clusters = match scene.clusters.len() {
            1 => "a cluster".to_owned(),
            several => format!("{several} clusters"),
        };
        let title = format!("sync-engine sandbox: a kcp, {clusters}, an operator and the engine");
        let title = self.screen.paint(STRONG, &title);
        self.screen.say(&format!("{title}\n\n{endpoints}\n"))?;
        let now = self.started.elapsed();
        for export in &scene.script.exports {
            let text = format!("publishes {}: APIExport {}", export.title, export.name);
            self.screen.sentence(now, "provider", CONSUMER, &text)?;
        }
        for cluster in &scene.script.clusters {
            let labels: Vec<_> = cluster.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let labels = if labels.is_empty() { String::new() } else { format!(" with {}", labels.join(", ")) };
            self.screen.sentence(now, &cluster.name, CONSUMER, &format!("is a cluster of its own{labels}"))?;
        }
        for sentence in &scene.script.left_out {
            self.screen.sentence(now, "sandbox", BAD, sentence)?;
        }
        let bound = match scene.script.exports.len() {
            1 => "binds it in a workspace of its own",
            _ => "binds them in a workspace of its own",
        };
        for consumer in scene.consumers.iter().take(FEW) {
            self.screen.sentence(now, &consumer.name, CONSUMER, bound)?;
        }
        match scene.consumers.len().saturating_sub(FEW) {
            0 => Ok(()),
            more => self.screen.detail(&format!("… and {more} more")),
        }
    }

    /// Something happened.
    pub fn hear(&mut self, news: News) -> io::Result<()> {
        match news {
            News::Change(at, side, change) => self.change(at, &side, &change),
            News::Reload(outcome) => self.reload(&outcome),
            News::Trouble(trouble) => {
                let now = self.started.elapsed();
                self.screen.sentence(now, "operator", BAD, &format!("cannot go on: {trouble}"))
            }
        }
    }

    fn change(&mut self, at: Instant, side: &Side, change: &Change) -> io::Result<()> {
        self.count(side, change);
        if self.sums_up {
            return Ok(());
        }
        let Some(line) = self.narrator.tell(side, change) else { return Ok(()) };
        let at = at.duration_since(self.started);
        match self.pace.admits(at.as_secs()) {
            true => self.screen.tell(at, &line),
            false => Ok(()),
        }
    }

    fn count(&mut self, side: &Side, change: &Change) {
        let Some(order) = self.ordered.iter().find(|order| is_of(order, side, &change.storage)) else { return };
        let cluster = if let Side::Beside(cluster) = side { cluster.to_string() } else { String::new() };
        let key = (cluster, order.resource.plural.clone(), change.key.clone());
        let object = change.object.object();
        if change.kind != ChangeKind::Deleted && is_ready(&object, order.has_status) {
            self.unready.remove(&key);
            self.ready.insert(key);
            return;
        }
        self.ready.remove(&key);
        match trouble(&object).filter(|_| change.kind != ChangeKind::Deleted) {
            Some(why) => drop(self.unready.insert(key, why)),
            None => drop(self.unready.remove(&key)),
        }
    }

    /// Why some of what was ordered is not ready: the first few.
    pub fn troubles(&self) -> Vec<String> {
        let one = |((_, plural, key), why): (&(String, String, Key), &String)| {
            format!("{plural} {}/{} of {}: {why}", key.namespace, key.name, key.cluster)
        };
        self.unready.iter().take(FEW).map(one).collect()
    }

    /// Something is not as the visitor may think.
    pub fn warn(&mut self, text: &str) -> io::Result<()> {
        self.screen.sentence(self.started.elapsed(), "sandbox", BAD, text)
    }

    fn reload(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.has_mappings = true;
        let (style, text) = match (outcome.accepted, outcome.text.is_empty()) {
            (true, true) => (BY_ENGINE, "reads the mappings: nothing changes"),
            (true, false) => (BY_ENGINE, "reads the mappings"),
            (false, _) => (BAD, "reads the mappings, and keeps what ran where it cannot run them"),
        };
        self.screen.sentence(self.started.elapsed(), "engine", style, text)?;
        if outcome.text.is_empty() { Ok(()) } else { self.screen.detail(&outcome.text) }
    }

    /// Tells how far the story is, what is waited for, and how many sentences were left out.
    pub fn pass_time(&mut self, ordered: bool, waits_for: Option<&str>) -> io::Result<()> {
        if let Some(untold) = self.pace.left_out(self.started.elapsed().as_secs()) {
            self.screen.detail(&format!("… and {untold} more changes"))?;
        }
        if !ordered || self.reported.elapsed() < REPORT {
            return Ok(());
        }
        self.reported = Instant::now();
        let reason = waits_for.map(|what| format!("; {what}")).unwrap_or_default();
        let text = format!("{}{reason}", self.standing());
        self.screen.sentence(self.started.elapsed(), "", FAINT, &text)
    }

    /// `1 of 2 source objects are ready in their workspaces`.
    pub fn standing(&self) -> String {
        let in_workspaces = self.ordered.iter().all(|order| order.place == Place::Workspaces);
        let places = if in_workspaces { "in their workspaces" } else { "where they were created" };
        let (all, are) = (count(self.orders, "source object"), are(self.orders));
        format!("{} of {all} {are} ready {places}", self.ready.len())
    }

    pub fn all_ready(&self) -> bool {
        self.ready.len() >= self.orders
    }

    /// Everything is synced.
    pub fn finish(&mut self, took: Duration) -> io::Result<()> {
        self.sums_up = false;
        let text = format!("{}, {:.1} s after they were created", self.standing(), took.as_secs_f64());
        let text = self.screen.paint(GOOD, &text);
        self.screen.say(&format!("\n{text}"))
    }

    /// Something is not as it should be.
    pub fn complain(&mut self, text: &str) -> io::Result<()> {
        self.sums_up = false;
        let text = self.screen.paint(BAD, text);
        self.screen.say(&format!("\n{text}"))
    }

    /// The end.
    pub fn close(&mut self) -> io::Result<()> {
        self.screen.sentence(self.started.elapsed(), "sandbox", FAINT, "ends, and leaves nothing behind")
    }
}

/// Whether objects of a resource on a side are such orders.
fn is_of(order: &Order, side: &Side, storage: &Storage) -> bool {
    let is_there = match side {
        Side::Kcp => order.place == Place::Workspaces,
        Side::Downstream => order.place.has(DEFAULT_TARGET),
        Side::Beside(cluster) => order.place.has(cluster),
    };
    is_there && order.is_of(&storage.plural, &storage.group)
}

/// What the conditions of an object say is wrong with it: the engine's own word first.
fn trouble(object: &Value) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array()?;
    let is_bad = |kind: &str| conditions.iter().find(|one| one["type"] == kind && one["status"] != "True");
    let bad = is_bad("Synced").or_else(|| is_bad("Ready"))?;
    let text = |field: &str| bad[field].as_str().unwrap_or_default();
    Some(format!("{} is {} ({}): {}", text("type"), text("status"), text("reason"), text("message")))
}

/// Whether a consumer has what was ordered: by the condition `Ready` and the engine's own; without them by the status, and
/// without a status by the engine's finalizer.
fn is_ready(object: &Value, has_status: bool) -> bool {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut told =
        conditions.iter().filter(|condition| ["Ready", "Synced"].iter().any(|kind| condition["type"] == *kind));
    match (told.clone().next(), object["status"].as_object()) {
        (Some(_), _) => told.all(|condition| condition["status"] == "True"),
        (None, Some(status)) => !status.is_empty(),
        (None, None) if has_status => false,
        (None, None) => object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty()),
    }
}

impl Pace {
    fn admits(&mut self, second: u64) -> bool {
        if second != self.second {
            (self.second, self.told) = (second, 0);
        }
        let admitted = self.told < SENTENCES;
        match admitted {
            true => self.told += 1,
            false => self.untold += 1,
        }
        admitted
    }

    /// How many were left out, once their second is over.
    fn left_out(&mut self, second: u64) -> Option<usize> {
        let over = second != self.second && self.untold > 0;
        over.then(|| std::mem::take(&mut self.untold))
    }
}
