//! The moment a request is handled at, given from outside so that tests can choose it.

use std::fmt;

use k8s_openapi::jiff;

/// Seconds since 1970-01-01T00:00:00Z; prints as Kubernetes writes times: `2026-08-01T12:00:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The machine's clock; for the HTTP front, never for the core.
    pub fn of_the_clock() -> Timestamp {
        Timestamp(jiff::Timestamp::now().as_second())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        jiff::Timestamp::from_second(self.0).unwrap_or_default().fmt(f)
    }
}
