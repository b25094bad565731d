//! What verbs say of files; with `--watch`, again whenever it is something else, until the process ends.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::{Exit, terminal};

/// Changes come in bursts; one that no event tells is found after a while.
const SETTLE: Duration = Duration::from_millis(100);
const POLL: Duration = Duration::from_secs(5);

/// What there is to say, on standard error and on standard output, and how the verb ends for it.
pub(super) type Said = (String, String, Exit);

/// Says what a look at files or folders gives; to watch them is to look at each change. What is said twice in a row is shown once.
pub(super) fn say(
    is_watched: bool,
    paths: impl Iterator<Item = PathBuf>,
    mut look: impl FnMut() -> anyhow::Result<Said>,
) -> anyhow::Result<Exit> {
    if !is_watched {
        let (note, text, exit) = look()?;
        eprint!("{note}");
        terminal::print(&text)?;
        return Ok(exit);
    }
    let (hints, changes) = mpsc::channel();
    let _watcher = watcher(paths, hints).context("cannot watch the files")?;
    let mut shown = None;
    loop {
        let now = look().map_or_else(|error| format!("error: {error:#}\n"), |(note, text, _)| note + &text);
        if shown.as_ref() != Some(&now) {
            terminal::print(&now)?;
            shown = Some(now);
        }
        // Either an event or a time-out: both are a reason to look, and what comes while it settles is the same hint.
        let _ = changes.recv_timeout(POLL);
        while changes.recv_timeout(SETTLE).is_ok() {}
    }
}

fn watcher(paths: impl Iterator<Item = PathBuf>, hints: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Our own reading is an event too. Nobody listens once the process ends.
        if !event.is_ok_and(|event| event.kind.is_access()) {
            let _ = hints.send(());
        }
    })?;
    for path in paths {
        // Editors replace files: an event is sure only in the folder that holds one.
        let folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
        let folder = folder.map(|folder| if folder.as_os_str().is_empty() { ".".as_ref() } else { folder });
        let mode = if path.is_dir() { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
        if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
            watcher.watch(folder, mode)?;
        }
    }
    Ok(watcher)
}
