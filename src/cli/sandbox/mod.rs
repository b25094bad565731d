//! `sync-engine sandbox`: servers, consumers, operator and engine in one process, and what happens among them told.

mod arguments;
mod guide;
mod material;
mod parts;
mod screen;
mod stage;
mod teller;

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval};

pub use arguments::{AFTER_HELP, SandboxArguments};

use super::signals::StopSignals;
use parts::Parts;
use screen::Screen;
use stage::Stage;
use teller::Teller;

/// How often the story goes on by itself: how far it is, deadlines, the next act.
const TICK: Duration = Duration::from_millis(100);

/// How long the consumers wait at the start for an engine that is not ready.
const START: Duration = Duration::from_secs(5);

/// Where the story is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// The engine starts.
    Starting,
    /// The consumers have created their objects, and wait.
    Ordered,
    /// Nothing is waited for any more.
    Open,
}

/// Plays until a signal, or until everything is synced.
///
/// # Errors
/// [`Misconfigured`](super::Misconfigured) when something that the command line names is wrong; where not everything
/// was synced in time, what it was waiting for.
pub(super) async fn play(arguments: SandboxArguments) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen().context("cannot listen for signals")?;
    // A closed terminal must leave nothing behind either.
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for signals")?;
    let started = Instant::now();
    let stage = Stage::set(&arguments).await?;
    let (parts, mut news) = Parts::start(&stage, arguments.port).await?;
    let mut play = Play {
        teller: Teller::new(Screen::of_this_process(), &stage.scene, started),
        arguments: &arguments,
        stage: &stage,
        parts,
        act: Act::Starting,
        since: started,
    };
    play.introduce()?;
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let outcome = loop {
        // Each arm is cancel-safe: signals, a channel, a tick, and `join_next`.
        tokio::select! {
            () = signals.next() => break Ok(()),
            _ = hangup.recv() => break Ok(()),
            Some(news) = news.recv() => play.teller.hear(news)?,
            _ = ticks.tick() => match play.go_on() {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(error) => break Err(error),
            },
            ended = play.parts.failed() => break ended,
        }
    };
    let Play { parts, mut teller, .. } = play;
    teller.close()?;
    parts.stop().await;
    outcome
}

/// What the story needs at hand.
struct Play<'s> {
    teller: Teller,
    arguments: &'s SandboxArguments,
    stage: &'s Stage,
    parts: Parts,
    act: Act,
    /// When the act began.
    since: Instant,
}

impl Play<'_> {
    fn introduce(&mut self) -> anyhow::Result<()> {
        let endpoints = guide::endpoints(self.stage, &self.parts.status_page);
        self.teller.introduce(&endpoints, &self.stage.scene)?;
        self.stage.instead.iter().try_for_each(|why| self.teller.warn(why))?;
        Ok(())
    }

    /// Looks whether the next act begins. Gives whether this was the last.
    fn go_on(&mut self) -> anyhow::Result<bool> {
        let waits_for = self.parts.waits_for();
        let is_ready = self.teller.has_mappings && waits_for.is_none();
        match self.act {
            Act::Starting if is_ready || self.since.elapsed() > START => self.begin()?,
            Act::Ordered if self.teller.all_ready() => return self.finish(),
            Act::Ordered if self.since.elapsed() > self.arguments.deadline => self.give_up(waits_for.as_deref())?,
            Act::Starting | Act::Ordered | Act::Open => {}
        }
        self.teller.pass_time(self.act == Act::Ordered, waits_for.as_deref())?;
        Ok(false)
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        let has_none = self.stage.scene.script.orders.is_empty();
        if has_none && self.arguments.exit_when_synced {
            bail!(
                "nothing is there to be synced: put a source object into a folder `examples` beside the mappings, or name one with -f"
            );
        }
        if has_none || self.arguments.empty {
            return self.open(false);
        }
        self.enter(Act::Ordered);
        Ok(self.stage.scene.order()?)
    }

    fn finish(&mut self) -> anyhow::Result<bool> {
        self.teller.finish(self.since.elapsed())?;
        if self.arguments.exit_when_synced {
            return Ok(true);
        }
        self.open(true)?;
        Ok(false)
    }

    fn give_up(&mut self, waits_for: Option<&str>) -> anyhow::Result<()> {
        let standing = self.teller.standing();
        let why = waits_for.map(|what| format!("; waiting for {what}")).unwrap_or_default();
        let seconds = self.arguments.deadline.as_secs();
        let reasons: String = self.teller.troubles().iter().map(|reason| format!("\n  {reason}")).collect();
        let message = format!("not synced after {seconds} s: {standing}{why}{reasons}");
        if self.arguments.exit_when_synced {
            bail!(message);
        }
        self.teller.complain(&message)?;
        self.open(true)
    }

    fn open(&mut self, ordered: bool) -> anyhow::Result<()> {
        self.enter(Act::Open);
        Ok(self.teller.screen.say(&format!("\n{}\n", guide::suggestions(self.stage, ordered)))?)
    }

    fn enter(&mut self, act: Act) {
        (self.act, self.since) = (act, Instant::now());
    }
}
