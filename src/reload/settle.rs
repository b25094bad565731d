//! When a reading of the directory may be believed. Pure: time is a parameter.

use std::time::Duration;

use tokio::time::Instant;

/// How long readings must stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// From the last hint to the first reading: an editor's second event comes in this time.
    pub look: Duration,
    /// From one reading to the next; two that agree are believed.
    pub confirm: Duration,
    /// From the first hint to the reading that is taken as it is, for a file that never stops changing.
    pub limit: Duration,
}

impl Default for Pace {
    /// 250 ms in all for a directory that is quiet.
    fn default() -> Self {
        Self { look: Duration::from_millis(50), confirm: Duration::from_millis(200), limit: Duration::from_secs(2) }
    }
}

/// Believes a reading once a second one agrees with it and nothing stirred between them.
///
/// A file that is being written differs from reading to reading, so half of it is not taken for the whole, also where
/// the file system sends no events.
#[derive(Debug)]
pub struct Settle<R> {
    pace: Pace,
    /// `None`: nothing stirs.
    stirred: Option<Stirred<R>>,
}

/// Something may have changed.
#[derive(Debug)]
struct Stirred<R> {
    since: Instant,
    /// The time of the last hint, or of the reading.
    at: Instant,
    /// To be confirmed; `None`: nothing was read since the last hint.
    reading: Option<R>,
}

impl<R: PartialEq> Settle<R> {
    pub fn new(pace: Pace) -> Self {
        Self { pace, stirred: None }
    }

    /// Something may have changed.
    pub fn hint(&mut self, now: Instant) {
        let since = self.stirred.as_ref().map_or(now, |stirred| stirred.since);
        self.stirred = Some(Stirred { since, at: now, reading: None });
    }

    /// When [`Settle::read`] is due; `None` when nothing stirs.
    pub fn wake_at(&self) -> Option<Instant> {
        let Stirred { since, at, reading } = self.stirred.as_ref()?;
        let pause = if reading.is_some() { self.pace.confirm } else { self.pace.look };
        Some((*at + pause).min(*since + self.pace.limit))
    }

    /// Takes a reading and gives it back once it is believed.
    pub fn read(&mut self, now: Instant, reading: R) -> Option<R> {
        let Stirred { since, reading: held, .. } = self.stirred.take()?;
        if held.as_ref() == Some(&reading) || now >= since + self.pace.limit {
            return Some(reading);
        }
        self.stirred = Some(Stirred { since, at: now, reading: Some(reading) });
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays hints (`h`) and the readings that fall due, which see what `content` says of their time; gives the time
    /// in milliseconds and the content of the one that is believed.
    fn play(hints: &[u64], content: impl Fn(u64) -> u32) -> Vec<(u64, u32)> {
        let start = Instant::now();
        let time = |milliseconds: u64| start + Duration::from_millis(milliseconds);
        let mut settle = Settle::new(Pace::default());
        let mut believed = Vec::new();
        let mut hints = hints.iter().copied().peekable();
        loop {
            let due = settle.wake_at().map(|at| at.duration_since(start).as_millis() as u64);
            match (hints.peek().copied(), due) {
                (Some(hint), due) if due.is_none_or(|due| hint <= due) => {
                    settle.hint(time(hint));
                    hints.next();
                }
                (_, Some(due)) => believed.extend(settle.read(time(due), content(due)).map(|it| (due, it))),
                (None | Some(_), None) => return believed,
            }
        }
    }

    #[test]
    fn a_content_is_believed_once_two_readings_agree_or_two_seconds_have_passed() {
        let ticks: Vec<u64> = (0..40).map(|tick| tick * 45).collect();
        let constant: fn(u64) -> u32 = |_| 1;
        let changing: fn(u64) -> u32 = |now| now as u32;
        let growing: fn(u64) -> u32 = |now| if now < 400 { now as u32 } else { 7 };
        let edited: fn(u64) -> u32 = |now| (now > 500).into();
        let rows = [
            ("one hint is believed after 250 ms", &[0][..], constant, &[(250, 1)][..]),
            ("hints in quick succession are one change", &[0, 10, 20, 100], constant, &[(350, 1)]),
            ("a hint between two readings starts again", &[0, 200], constant, &[(450, 1)]),
            ("a file that grows without events is believed once it stands still", &[0], growing, &[(650, 7)]),
            ("a file that never stops changing is taken after two seconds", &ticks[..], changing, &[(2000, 2000)]),
            ("one that changes without events is taken then as well", &[0], changing, &[(2000, 2000)]),
            ("two changes far apart are two", &[0, 1000], edited, &[(250, 0), (1250, 1)]),
        ];
        for (case, hints, content, believed) in rows {
            assert_eq!(play(hints, content), believed, "{case}");
        }
    }

    #[test]
    fn a_reading_that_nothing_asked_for_is_not_believed() {
        let mut settle = Settle::new(Pace::default());
        assert_eq!(settle.read(Instant::now(), 1), None);
        assert_eq!(settle.wake_at(), None);
    }
}
