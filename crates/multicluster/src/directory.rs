//! Directories: hints that something in one may have changed, and readings of one that may hang.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{info, warn};

/// How long a file system is waited for.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Reads files on a thread of its own. A mount that hangs keeps this one thread, however often it is asked.
#[derive(Debug)]
pub struct Reading<T>(Option<JoinHandle<T>>);

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Send + 'static> Reading<T> {
    /// What the reading comes to. One that is still under way is waited for instead. Cancel-safe.
    ///
    /// # Errors
    /// It does not end in time.
    pub async fn of(&mut self, read: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
        let reading = self.0.get_or_insert_with(|| tokio::task::spawn_blocking(read));
        let ended = timeout(PATIENCE, reading).await;
        let ended = ended.map_err(|_| format!("its file system has not answered for {} s", PATIENCE.as_secs()))?;
        self.0 = None;
        // It fails when the runtime shuts down.
        ended.map_err(|error| error.to_string())
    }
}

/// What a look at the directory found: another one than is watched, and the watch on it, if there is a directory.
type Looked = Option<(Option<Identity>, Option<notify::Result<RecommendedWatcher>>)>;

/// A watch on one directory that survives the directory's replacement.
#[derive(Debug)]
pub struct Watch {
    directory: PathBuf,
    /// Any number of events is one hint.
    hints: Arc<Notify>,
    watcher: Option<RecommendedWatcher>,
    /// The directory that is watched; another one may stand at its path by now.
    watched: Option<Identity>,
    looking: Reading<Looked>,
    /// The last failure that was told, to tell each once.
    told: Option<String>,
}

impl Watch {
    /// Begins with the first [`renew`](Self::renew).
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            hints: Arc::default(),
            watcher: None,
            watched: None,
            looking: Reading::default(),
            told: None,
        }
    }

    /// Waits until something may have changed. Cancel-safe.
    pub async fn hint(&self) {
        self.hints.notified().await;
    }

    /// Watches the directory that stands at the path now, if it is not the one that is watched already. While a
    /// mount hangs, the watch stays as it is.
    pub async fn renew(&mut self) {
        let (directory, hints, watched) = (self.directory.clone(), self.hints.clone(), self.watched);
        let looking = self.looking.of(move || {
            let identity = fs::metadata(&directory).ok().as_ref().map(Identity::of);
            (identity != watched).then(|| (identity, identity.map(|_| watch(&directory, hints))))
        });
        let Ok(Some((identity, begun))) = looking.await else { return };
        (self.watcher, self.watched) = (None, None);
        let directory = self.directory.display();
        match begun {
            None => {}
            Some(Ok(watcher)) => {
                (self.watcher, self.watched) = (Some(watcher), identity);
                if self.told.take().is_some() {
                    info!(%directory, "watching the directory again");
                }
                // What changed before the watch stood has sent no event.
                self.hints.notify_one();
            }
            Some(Err(error)) => {
                let text = error.to_string();
                if self.told.as_ref() != Some(&text) {
                    warn!(%directory, why = text, "no file events, changes are seen by polling every 10 s");
                    self.told = Some(text);
                }
            }
        }
    }
}

fn watch(directory: &Path, hints: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // An error (a queue that overflowed) may hide a change as well as an event may be one.
        if event.is_err() || event.is_ok_and(|event| is_change(event.kind)) {
            hints.notify_one();
        }
    })?;
    watcher.watch(directory, RecursiveMode::Recursive)?;
    Ok(watcher)
}

/// Our own reading opens and closes every file: only what may write counts, or we would wake ourselves for ever.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

/// Which folder it is, whatever path leads there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}
