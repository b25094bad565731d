//! The reloader on a real directory. Every wait is for an event; nothing sleeps.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::*;
use crate::health::Level;
use crate::multicluster::directory;

/// Longer than anything here takes, on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(30);

struct Bench {
    root: TempDir,
    health: Health,
    handle: ReloadHandle,
    reloads: mpsc::Receiver<Reload>,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Bench {
    /// A running reloader on `maps/` below a temporary root, with the given files in it, and its first reload taken.
    async fn new(files: &[(&str, &str)]) -> Self {
        Self::polling(files, Duration::from_millis(50)).await
    }

    async fn polling(files: &[(&str, &str)], poll: Duration) -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        let health = Health::default();
        fs::create_dir(root.path().join("maps")).expect("a directory");
        for (name, content) in files {
            fs::write(root.path().join("maps").join(name), content).expect("a file");
        }
        let (mut reloader, handle, reloads) =
            Reloader::open(&root.path().join("maps"), health.clone()).expect("a readable directory");
        reloader.pace = Pace {
            look: Duration::from_millis(2),
            confirm: Duration::from_millis(8),
            limit: Duration::from_millis(200),
        };
        reloader.poll = poll;
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(reloader.run(shutdown.clone()));
        let mut bench = Self { root, health, handle, reloads, shutdown, task };
        assert_eq!(bench.next("all is well").await.readable.len(), files.len());
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("maps").join(name)
    }

    /// The next reload, answered with a text.
    async fn next(&mut self, answer: &str) -> Files {
        self.answer(true, answer).await
    }

    async fn answer(&mut self, accepted: bool, text: &str) -> Files {
        let reload = timeout(PATIENCE, self.reloads.recv()).await.expect("a reload in time").expect("a reloader");
        let files = (*reload.files).clone();
        reload.answer(Outcome { accepted, text: text.to_owned() });
        files
    }

    /// What a request is told, where the engine answers this as often as it is asked.
    async fn told(&mut self, accepted: bool, text: &str) -> (bool, String) {
        let handle = self.handle.clone();
        let mut request = tokio::spawn(async move { handle.reload().await });
        loop {
            tokio::select! {
                outcome = &mut request => {
                    let Outcome { accepted, text } = outcome.expect("no panic").expect("an answer");
                    return (accepted, text);
                }
                _ = self.answer(accepted, text) => {}
            }
        }
    }

    /// Reloads until one is as wanted: a change that is made in several steps may be seen between them.
    async fn until(&mut self, wanted: impl Fn(&Files) -> bool) -> Files {
        loop {
            let files = self.next("taken").await;
            if wanted(&files) {
                return files;
            }
        }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        timeout(PATIENCE, self.task).await.expect("an end in time").expect("no panic");
    }
}

fn content<'a>(files: &'a Files, name: &str) -> Option<&'a str> {
    files.readable.get(name).map(|bytes| std::str::from_utf8(bytes).expect("UTF-8"))
}

#[tokio::test]
async fn an_edit_an_addition_and_a_removal_are_passed_on() {
    let mut bench = Bench::new(&[("a.yaml", "one")]).await;
    fs::write(bench.path("a.yaml"), "two").expect("written");
    bench.until(|files| content(files, "a.yaml") == Some("two")).await;
    fs::create_dir(bench.path("sub")).expect("created");
    fs::write(bench.path("sub/b.yml"), "new").expect("written");
    bench.until(|files| content(files, "sub/b.yml") == Some("new")).await;
    fs::remove_file(bench.path("a.yaml")).expect("removed");
    bench.until(|files| content(files, "a.yaml").is_none()).await;
    bench.stop().await;
}

#[tokio::test]
async fn events_alone_are_enough() {
    let mut bench = Bench::polling(&[("a.yaml", "one")], Duration::from_secs(3_600)).await;
    fs::write(bench.path(".a.yaml.swp"), "two").expect("written");
    fs::rename(bench.path(".a.yaml.swp"), bench.path("a.yaml")).expect("an editor's rename over the file");
    bench.until(|files| content(files, "a.yaml") == Some("two")).await;
    bench.stop().await;
}

#[tokio::test]
async fn a_swapped_config_map_is_one_reload() {
    let mut bench = Bench::new(&[]).await;
    for (folder, text) in [("..one", "one"), ("..two", "two")] {
        fs::create_dir(bench.path(folder)).expect("created");
        fs::write(bench.path(folder).join("a.yaml"), text).expect("written");
        fs::write(bench.path(folder).join("b.yaml"), text).expect("written");
    }
    symlink("..one", bench.path("..data")).expect("linked");
    symlink("..data/a.yaml", bench.path("a.yaml")).expect("linked");
    symlink("..data/b.yaml", bench.path("b.yaml")).expect("linked");
    bench.until(|files| files.readable.len() == 2).await;
    symlink("..two", bench.path("..data_tmp")).expect("linked");
    fs::rename(bench.path("..data_tmp"), bench.path("..data")).expect("swapped");
    let swapped = bench.next("taken").await;
    assert_eq!((content(&swapped, "a.yaml"), content(&swapped, "b.yaml")), (Some("two"), Some("two")));
    bench.stop().await;
}

#[tokio::test]
async fn a_directory_that_goes_away_removes_nothing_and_its_successor_is_followed() {
    let mut bench = Bench::new(&[("a.yaml", "one")]).await;
    fs::rename(bench.path(""), bench.root.path().join("old")).expect("moved");
    let lost = bench.next("taken").await;
    assert_eq!(content(&lost, "a.yaml"), Some("one"));
    assert!(lost.unreadable.contains_key(scan::ROOT));
    let standings = bench.health.standings();
    assert!(standings[0].condition.level == Level::Ready, "what ran before runs on");
    assert!(standings[0].condition.message.contains("it does not exist"), "{standings:?}");

    fs::create_dir(bench.root.path().join("new")).expect("created");
    fs::write(bench.root.path().join("new/a.yaml"), "two").expect("written");
    fs::rename(bench.root.path().join("new"), bench.path("")).expect("moved");
    let found = bench.next("taken").await;
    assert_eq!((content(&found, "a.yaml"), found.unreadable.len()), (Some("two"), 0));
    fs::write(bench.path("a.yaml"), "three").expect("written");
    bench.until(|files| content(files, "a.yaml") == Some("three")).await;
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_hangs_is_told_keeps_one_thread_and_is_read_once_it_answers() {
    let root = tempfile::tempdir().expect("a temporary directory");
    fs::write(root.path().join("a.yaml"), "one").expect("a file");
    let (mut reloader, _handle, _reloads) = Reloader::open(root.path(), Health::default()).expect("readable");
    let (answer, answered) = std::sync::mpsc::channel();
    let hang = reloader.reading.of(move || answered.recv().unwrap_or_default());
    let (hangs, ()) = tokio::join!(hang, tokio::time::advance(directory::PATIENCE));
    let why = hangs.expect_err("no answer");
    fs::write(root.path().join("a.yaml"), "two").expect("written");

    let (held, ()) = tokio::join!(reloader.read(), tokio::time::advance(directory::PATIENCE));
    assert_eq!((content(&held, "a.yaml"), &held.unreadable[scan::ROOT]), (Some("one"), &why));
    answer.send(Files::default()).expect("it waits");
    assert_eq!(reloader.read().await, Files::default(), "the reading that hung");
    assert_eq!(content(&reloader.read().await, "a.yaml"), Some("two"));
}

#[tokio::test]
async fn a_request_is_answered_with_what_became_of_the_last_reload() {
    let mut bench = Bench::new(&[("a.yaml", "one")]).await;
    fs::write(bench.path("a.yaml"), "two").expect("written");
    assert_eq!(bench.told(true, "taken").await.1, "taken");
    bench.stop().await;
}

/// Its rehearsal may have held it, and a person approved it.
#[tokio::test]
async fn a_request_asks_again_what_became_of_a_reload() {
    let mut bench = Bench::new(&[("a.yaml", "one")]).await;
    for (accepted, text, told) in [
        (true, "", "all is well"),
        (false, "held", "held"),
        (false, "still held", "still held"),
        (true, "approved", "approved"),
        (true, "", "approved"),
    ] {
        assert_eq!(bench.told(accepted, text).await, (accepted, told.to_owned()));
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_request_after_the_end_is_told_so() {
    let bench = Bench::new(&[]).await;
    let handle = bench.handle.clone();
    bench.stop().await;
    assert_eq!(handle.reload().await, None);
    handle.request();
}

#[tokio::test]
async fn an_edit_is_passed_on_where_nobody_is_left_to_ask() {
    let mut bench = Bench::new(&[("a.yaml", "one")]).await;
    let (_, other, _) = Reloader::open(&bench.path(""), Health::default()).expect("a readable directory");
    bench.handle = other;
    fs::write(bench.path("a.yaml"), "two").expect("written");
    bench.until(|files| content(files, "a.yaml") == Some("two")).await;
    bench.stop().await;
}

#[tokio::test]
async fn a_reload_that_the_engine_drops_is_no_success() {
    let mut bench = Bench::new(&[("a.yaml", "one")]).await;
    fs::write(bench.path("a.yaml"), "two").expect("written");
    let handle = bench.handle.clone();
    let request = tokio::spawn(async move { handle.reload().await });
    drop(timeout(PATIENCE, bench.reloads.recv()).await.expect("a reload in time"));
    assert!(!request.await.expect("no panic").expect("an answer").accepted);
    bench.stop().await;
}

#[tokio::test]
async fn an_unchanged_directory_is_quiet() {
    let mut bench = Bench::new(&[("a.yaml", "one")]).await;
    fs::write(bench.path("a.yaml"), "one").expect("written with the same content");
    fs::write(bench.path("notes.md"), "nothing of ours").expect("written");
    bench.told(true, "").await;
    assert!(bench.reloads.try_recv().is_err(), "nothing changed");
    bench.stop().await;
}
