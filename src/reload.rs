//! The mappings directory as a stream of [`Reload`]s: what to run now, whenever that changes.
//!
//! Every event of the file system, every SIGHUP, every `POST /-/reload` and every tick of a slow poll is only a hint:
//! the directory is read, the reading [settles](settle), and it is passed on when it differs from what runs. What
//! cannot be read keeps its last content, for not seeing a file says nothing about the file.

pub mod mount;
pub mod scan;
pub mod settle;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::OptionFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::catalog::Files;
use crate::health::{Condition, Health};
use crate::multicluster::directory::{Reading, Watch};
use settle::{Pace, Settle};

/// Name of the reloader's condition in [`Health`].
pub const COMPONENT: &str = "mappings directory";

/// A slow poll finds what no event tells: network file systems, lost watches, replaced directories.
const POLL: Duration = Duration::from_secs(10);

/// Longer than any compile takes; an engine that drops a [`Reload`] unanswered ends the wait at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The content of the directory, to be run from now on.
///
/// It wants an answer: [`Reload::answer`] with what became of it is what `POST /-/reload` says.
#[derive(Debug)]
pub struct Reload {
    pub files: Arc<Files>,
    answer: oneshot::Sender<Outcome>,
}

/// What became of a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Whether everything runs as it is written.
    pub accepted: bool,
    /// What the reload changes, or the diagnostics.
    pub text: String,
}

/// Asks for a reload. Cloning gives another handle to the same reloader.
#[derive(Debug, Clone)]
pub struct ReloadHandle {
    requests: mpsc::Sender<Request>,
}

/// Where the answer to a request goes, when somebody waits for it.
type Request = Option<oneshot::Sender<Outcome>>;

/// The directory cannot be read at the start.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the mappings directory `{}`: {why}", directory.display())]
pub struct OpenError {
    pub directory: PathBuf,
    pub why: String,
}

/// Watches one directory. Made by [`Reloader::open`], driven by [`Reloader::run`].
#[derive(Debug)]
pub struct Reloader {
    directory: PathBuf,
    pace: Pace,
    poll: Duration,
    health: Health,
    requests: mpsc::Receiver<Request>,
    reloads: mpsc::Sender<Reload>,
    current: Arc<Files>,
    reading: Reading<Files>,
    last: Outcome,
    waiting: Vec<oneshot::Sender<Outcome>>,
}

impl Reload {
    /// A content to run, and where the answer comes.
    pub fn new(files: Arc<Files>) -> (Self, oneshot::Receiver<Outcome>) {
        let (answer, reported) = oneshot::channel();
        (Self { files, answer }, reported)
    }

    /// Says what became of it.
    pub fn answer(self, outcome: Outcome) {
        // Nobody listens when the reloader is shutting down.
        let _ = self.answer.send(outcome);
    }
}

impl ReloadHandle {
    /// Asks for a reload and waits for no answer (SIGHUP).
    pub fn request(&self) {
        // A full channel holds a request already, and all are answered by one reading.
        let _ = self.requests.try_send(None);
    }

    /// Asks for a reload and waits for what became of it. `None` when the engine is shutting down.
    pub async fn reload(&self) -> Option<Outcome> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(Some(reply)).await.ok()?;
        answer.await.ok()
    }
}

impl Reloader {
    /// Reads the directory for the first time; the first [`Reload`] is sent as soon as [`Reloader::run`] does. Reads files: not
    /// for an async task.
    ///
    /// # Errors
    /// When the directory itself cannot be read. A single file or folder that cannot is among the unreadable files.
    pub fn open(directory: &Path, health: Health) -> Result<(Self, ReloadHandle, mpsc::Receiver<Reload>), OpenError> {
        let files = scan::read(directory, scan::MAX_FILE_BYTES);
        if let Some(why) = files.unreadable.get(scan::ROOT) {
            return Err(OpenError { directory: directory.to_owned(), why: why.clone() });
        }
        warn_of_frozen_mounts(directory);
        let (sender, requests) = mpsc::channel(16);
        let (reloads, receiver) = mpsc::channel(1);
        let reloader = Self {
            directory: directory.to_owned(),
            pace: Pace::default(),
            poll: POLL,
            health,
            requests,
            reloads,
            current: Arc::new(files),
            reading: Reading::default(),
            last: Outcome { accepted: true, text: "nothing was reloaded yet".to_owned() },
            waiting: Vec::new(),
        };
        Ok((reloader, ReloadHandle { requests: sender }, receiver))
    }

    /// What was read last.
    pub fn files(&self) -> &Files {
        &self.current
    }

    /// Sends a [`Reload`] for what stands in the directory now, and one for every change, until `shutdown` or until
    /// nobody receives them.
    pub async fn run(mut self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            // Dropping it anywhere is safe: it owns no state that outlives this call, and writes nothing.
            () = self.follow() => {}
        }
    }

    async fn follow(&mut self) {
        self.tell_problems(&Files::default());
        if self.pass_on().await.is_err() {
            return;
        }
        let mut watch = Watch::new(&self.directory);
        watch.renew().await;
        let mut settle = Settle::new(self.pace);
        let mut poll = interval(self.poll);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Each arm is cancel-safe: channels and timers lose nothing when another arm is taken.
            tokio::select! {
                () = watch.hint() => settle.hint(Instant::now()),
                // Where no handle is left that could ask, poll and watch go on.
                Some(reply) = self.requests.recv() => {
                    self.waiting.extend(reply);
                    settle.hint(Instant::now());
                }
                _ = poll.tick() => {
                    watch.renew().await;
                    if self.read().await != *self.current {
                        settle.hint(Instant::now());
                    }
                }
                Some(()) = OptionFuture::from(settle.wake_at().map(sleep_until)) => {
                    let reading = self.read().await;
                    if let Some(files) = settle.read(Instant::now(), reading) {
                        watch.renew().await;
                        if self.take(files).await.is_err() {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// The directory as it stands, what cannot be read held at its current content.
    async fn read(&mut self) -> Files {
        let directory = self.directory.clone();
        let read = self.reading.of(move || scan::read(&directory, scan::MAX_FILE_BYTES)).await;
        let mut files = read.unwrap_or_else(|why| Files {
            unreadable: BTreeMap::from([(scan::ROOT.to_owned(), why)]),
            ..Files::default()
        });
        scan::fill(&mut files, &self.current);
        files
    }

    async fn take(&mut self, files: Files) -> Result<(), Closed> {
        if files != *self.current {
            let earlier = std::mem::replace(&mut self.current, Arc::new(files));
            self.tell_problems(&earlier);
            self.pass_on().await?;
        } else if !self.waiting.is_empty() {
            // What was held may be approved by now, and what was still rehearsed may be held. What the edit changed is told again.
            let former = self.last.clone();
            self.pass_on().await?;
            if former.accepted && self.last.accepted {
                self.last = former;
            }
        }
        for reply in self.waiting.drain(..) {
            // Whoever asked may have hung up.
            let _ = reply.send(self.last.clone());
        }
        Ok(())
    }

    async fn pass_on(&mut self) -> Result<(), Closed> {
        let (reload, outcome) = Reload::new(Arc::clone(&self.current));
        self.reloads.send(reload).await.map_err(|_| Closed)?;
        self.last = match timeout(ANSWER_TIMEOUT, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) | Err(_) => {
                Outcome { accepted: false, text: "the engine gave no answer; see its log".to_owned() }
            }
        };
        Ok(())
    }

    /// Logs what is new about problems, and puts all of them into the health registry.
    fn tell_problems(&self, earlier: &Files) {
        let (before, now) = (scan::problems(earlier), scan::problems(&self.current));
        for problem in now.difference(&before) {
            warn!(directory = %self.directory.display(), problem, "mappings not readable");
        }
        for problem in before.difference(&now) {
            info!(directory = %self.directory.display(), problem, "mappings readable again");
        }
        // Ready all the same: what ran before runs on, and a restart would only lose it.
        self.health.set(COMPONENT, Condition::ready(now.into_iter().collect::<Vec<_>>().join("; ")));
    }
}

/// Nobody receives reloads any more.
struct Closed;

/// Says once that a mount will never show a change; nothing else would tell.
fn warn_of_frozen_mounts(directory: &Path) {
    for mount in mount::frozen(directory) {
        warn!(
            mount = %mount.display(),
            "mounted with subPath: Kubernetes never updates it. Mount the whole volume to reload while running"
        );
    }
}

#[cfg(test)]
mod tests;
