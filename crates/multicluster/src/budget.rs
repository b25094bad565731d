//! How many watches a process may run, and how much memory it may use before it begins more.
//!
//! Each watch holds a connection, and keeps what it lists in memory. A process at its limits would fail anywhere: a probe
//! that nobody answers, a file that cannot be read, the system that kills it. So a watch that has not begun waits instead
//! and says what to raise, and those that run go on.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::bodies::Bodies;
use super::request_error::RequestError;

/// What is left for watches. Clones share it; the default is no limit.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Watches that may run at once.
    most: usize,
    left: Arc<Semaphore>,
    memory: Option<Memory>,
    bodies: Bodies,
}

/// How much memory there may be when a list begins.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// In bytes.
    pub most: u64,
    /// What the process has resident now, in bytes; `None`: that cannot be told.
    pub resident: fn() -> Option<u64>,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(None, None)
    }
}

impl Budget {
    /// `None`: no limit. Whatever is larger than a semaphore's maximum is none either.
    pub fn new(watches: Option<usize>, memory: Option<Memory>) -> Self {
        let most = watches.unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS);
        let bodies = memory.and_then(|memory| usize::try_from(memory.most / 2).ok());
        Self { most, left: Arc::new(Semaphore::new(most)), memory, bodies: Bodies::new(bodies) }
    }

    /// The memory for bodies of objects: half of what there may be.
    pub fn bodies(&self) -> &Bodies {
        &self.bodies
    }

    /// The place of one more watch. Dropped, it is another's.
    ///
    /// # Errors
    /// All are taken.
    pub(super) fn place(&self) -> Result<OwnedSemaphorePermit, RequestError> {
        self.left.clone().try_acquire_owned().map_err(|_| RequestError::NoBudget {
            reason: format!(
                "this process runs {} watches, as many as it may: raise its limit of open files, or give --max-watches",
                self.most
            ),
        })
    }

    /// Whether there is memory for more than what is known now.
    ///
    /// # Errors
    /// There is not.
    pub(super) fn permits_more(&self) -> Result<(), RequestError> {
        let Some(Memory { most, resident }) = self.memory else { return Ok(()) };
        let Some(resident) = resident().filter(|resident| *resident > most) else { return Ok(()) };
        let reason = format!(
            "this process uses {} MiB of memory, more than {} MiB, so nothing more is listed: give its container more, \
             or give --max-memory",
            resident >> 20,
            most >> 20
        );
        Err(RequestError::NoBudget { reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_once_its_watch_has_ended() {
        let budget = Budget::new(Some(1), None);
        let place = budget.place().unwrap();
        insta::assert_snapshot!(budget.clone().place().unwrap_err(), @"this process runs 1 watches, as many as it may: raise its limit of open files, or give --max-watches");
        drop(place);
        assert!(budget.place().is_ok() && budget.place().is_ok());
        let unlimited = Budget::default();
        assert!(unlimited.place().is_ok() && unlimited.permits_more().is_ok());
    }

    #[test]
    fn more_is_listed_while_there_is_memory() {
        let with = |most, resident| Budget::new(None, Some(Memory { most, resident })).permits_more();
        assert!(with(300 << 20, || Some(300 << 20)).is_ok() && with(0, || None).is_ok());
        insta::assert_snapshot!(with(300 << 20, || Some(301 << 20)).unwrap_err(), @"this process uses 301 MiB of memory, more than 300 MiB, so nothing more is listed: give its container more, or give --max-memory");
    }
}
