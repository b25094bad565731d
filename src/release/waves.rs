//! The steps by which a candidate reaches the sources: who follows it, when the next step is due, and when it has failed.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ledger::Ledger;
use crate::mapping::{Members, Wave};
use crate::object::marks::Owner;
use crate::object::{are, count};

#[cfg(test)]
mod tests;

/// Where the release of a candidate stands. It is recorded before anything follows from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Which document takes the place of which one: a hash.
    pub release: String,
    /// The document in force: a hash.
    pub in_force: String,
    /// The candidate's text: whoever starts in the middle serves the sources of the waves with it, whatever its file holds then.
    pub candidate: String,
    pub stage: Stage,
    /// What the document that runs may still take away; `None`: every source was seen at its end.
    #[serde(default)]
    pub ledger: Option<Ledger>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The sources of a wave, and of those before it, follow the candidate.
    Wave(Underway),
    /// It went back, or a person refused it, and why: it is not released before its text changes or a person approves it.
    Refused(String),
    /// It takes the place of the document in force, or has: what goes with that goes.
    Released,
}

impl Stage {
    /// The wave that is under way.
    pub fn wave(&self) -> Option<usize> {
        match self {
            Self::Wave(underway) => Some(underway.wave),
            Self::Refused(_) | Self::Released => None,
        }
    }
}

/// Notes how far the release of a mapping is; `None`: there is none. `true`: that is news.
pub fn note(known: &mut BTreeMap<String, Progress>, mapping: &str, progress: Option<Progress>) -> bool {
    match progress {
        Some(progress) => known.insert(mapping.to_owned(), progress.clone()).as_ref() != Some(&progress),
        None => known.remove(mapping).is_some(),
    }
}

/// A wave that has begun.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Underway {
    /// From 0.
    pub wave: usize,
    /// How many of its sources were out of order before it began, and how many out of sight.
    pub failing: usize,
    #[serde(default)]
    pub out_of_sight: usize,
    /// How much of its soak has passed, in seconds.
    pub passed: u64,
}

/// Whether a source belongs to one of these waves. A share depends on nothing but the source's name, so that a process that
/// starts finds the same sources. `labels` reads those of the source.
pub fn belongs(waves: &[Wave], owner: &Owner, labels: impl Fn() -> Option<Value>) -> bool {
    waves.iter().any(|wave| match &wave.members {
        Members::Labeled(selector) => selector.matches(labels().as_ref()),
        Members::Percent(percent) => place(owner) < f64::from(*percent),
    })
}

/// Where a source stands among all, from 0 to below 100.
fn place(owner: &Owner) -> f64 {
    const DIGITS: usize = 6;
    let digit = |letter: u8| match letter {
        b'a'..=b'z' => letter - b'a',
        _ => letter.saturating_sub(b'2') + 26,
    };
    let digits = owner.0.bytes().take(DIGITS).map(|letter| f64::from(digit(letter)));
    digits.rev().fold(0.0, |below, digit| (digit + below) / 32.0) * 100.0
}

/// How a source is that follows a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// Everything is as the candidate has it, and ready; or what is left waits for the end of the release.
    InOrder,
    /// Its cluster or its target tells nothing.
    OutOfSight,
    /// It would be out of order by the document in force, too.
    Anyway,
    /// It is not there yet: something is not made, or not ready.
    Behind,
    /// It was not planned with the candidate yet.
    Unplanned,
    /// It cannot get there: somebody has to mend something.
    Broken,
}

/// The sources of the waves so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub sources: usize,
    pub out_of_sight: usize,
    pub anyway: usize,
    pub unplanned: usize,
    pub behind: usize,
    pub broken: usize,
}

impl FromIterator<Condition> for Tally {
    fn from_iter<T: IntoIterator<Item = Condition>>(conditions: T) -> Self {
        conditions.into_iter().fold(Self::default(), |mut tally, condition| {
            tally.sources += 1;
            match condition {
                Condition::InOrder => {}
                Condition::OutOfSight => tally.out_of_sight += 1,
                Condition::Anyway => tally.anyway += 1,
                Condition::Unplanned => tally.unplanned += 1,
                Condition::Behind => tally.behind += 1,
                Condition::Broken => tally.broken += 1,
            }
            tally
        })
    }
}

impl Tally {
    /// Those that are out of order by the candidate.
    pub fn failing(&self) -> usize {
        self.unplanned + self.behind + self.broken
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.unplanned + self.behind;
        let sources = count(self.sources, "source");
        write!(f, "of {sources} {} cannot be in order and {pending} {} not yet", self.broken, are(pending))?;
        if self.out_of_sight > 0 {
            write!(f, ", {} {} out of sight", self.out_of_sight, are(self.out_of_sight))?;
        }
        Ok(())
    }
}

/// What stands between a wave and the next one. What it remembers is of one process: another one waits for progress anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gate {
    passed: Duration,
    /// The fewest sources that were out of order at once, and for how long it has not been fewer.
    fewest: Option<usize>,
    still: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Waits(String),
    Passed,
    Failed(String),
}

impl Gate {
    /// The gate of a wave whose soak has passed in part.
    pub fn of(underway: &Underway) -> Self {
        Self { passed: Duration::from_secs(underway.passed), ..Self::default() }
    }

    pub fn passed(&self) -> Duration {
        self.passed
    }

    /// Looks at the sources, `elapsed` after the last look.
    pub fn look(
        &mut self,
        wave: &Wave,
        deadline: Duration,
        underway: &Underway,
        now: &Tally,
        elapsed: Duration,
    ) -> Verdict {
        let Underway { failing, out_of_sight: before, .. } = *underway;
        // Those that were out of sight before tell nothing of the candidate.
        if now.out_of_sight.saturating_sub(before) * 2 > now.sources.saturating_sub(before) {
            let (hidden, sources) = (now.out_of_sight, count(now.sources, "source"));
            return Verdict::Waits(format!("{hidden} of its {sources} {} out of sight", are(hidden)));
        }
        // One of one tells nothing of the rest.
        let may_fail = match wave.max_failing {
            Some(_) => wave.may_fail(now.sources),
            None => wave.may_fail(now.sources).min(now.sources.saturating_sub(1)),
        };
        // Most of those that fail anyway did so before.
        let failing = failing.saturating_sub(now.anyway);
        let limit = failing + may_fail;
        self.passed += elapsed;
        match self.fewest {
            Some(fewest) if now.failing() >= fewest => self.still += elapsed,
            _ => (self.fewest, self.still) = (Some(now.failing()), Duration::ZERO),
        }
        let allowed = match failing {
            0 => format!("`maxFailing` allows {may_fail}"),
            before => format!("`maxFailing` allows {may_fail} more than the {before} of before"),
        };
        if now.broken > limit {
            return Verdict::Failed(format!("{now}, and {allowed}"));
        }
        if now.failing() > limit || now.unplanned > 0 {
            return match self.still >= deadline {
                true => {
                    let seconds = deadline.as_secs();
                    Verdict::Failed(format!("{now}, {allowed}, and it has not become fewer for {seconds} s"))
                }
                false => Verdict::Waits(format!("{now}, and {allowed}")),
            };
        }
        match wave.soak.saturating_sub(self.passed) {
            Duration::ZERO => Verdict::Passed,
            left => Verdict::Waits(format!("its soak ends in {} s", left.as_secs().max(1))),
        }
    }
}
