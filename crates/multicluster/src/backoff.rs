//! How long to wait before trying again.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Exponential backoff: doubles from `min` to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub min: Duration,
    pub max: Duration,
}

impl Backoff {
    /// The wait after `failures` earlier failures: between half and the whole of `min · 2^failures`, at most `max`.
    pub fn delay(&self, failures: u32, jitter: &mut Jitter) -> Duration {
        let doubled = self.min.saturating_mul(1u32.checked_shl(failures.min(31)).unwrap_or(u32::MAX));
        let whole = doubled.clamp(self.min, self.max.max(self.min));
        whole.mul_f64(0.5 + jitter.unit() / 2.0)
    }
}

/// A stream of pseudo-random numbers (xorshift64*), so that what waits together does not come back together.
#[derive(Debug, Clone)]
pub struct Jitter(u64);

impl Jitter {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// The jitter of something by its name: another one for each name, and the same in each process.
    pub fn of(name: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self::new(hasher.finish())
    }

    /// At least 0, less than 1.
    pub fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        bits as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_within_its_bounds_and_never_overflows() {
        let backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(300) };
        let mut jitter = Jitter::new(7);
        for failures in [0, 1, 5, 8, 31, 32, u32::MAX] {
            let whole = Duration::from_secs(2u64.saturating_pow(failures).clamp(1, 300));
            for _ in 0..100 {
                let delay = backoff.delay(failures, &mut jitter);
                assert!(delay >= whole / 2 && delay <= whole, "{failures}: {delay:?}");
            }
        }
    }

    #[test]
    fn names_of_one_length_do_not_come_back_together() {
        let backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(300) };
        let delay = |name| backoff.delay(4, &mut Jitter::of(name));
        assert_ne!(delay("shard-1"), delay("shard-2"));
        assert_eq!(delay("shard-1"), delay("shard-1"));
    }
}
