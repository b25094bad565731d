//! The moment a request is handled at, given from outside so that tests can choose it.

use std::fmt;

use k8s_openapi::jiff;
use k8s_openapi::jiff::fmt::rfc2822::DateTimePrinter;

/// Seconds since 1970-01-01T00:00:00Z; prints as Kubernetes writes times: `2026-08-01T12:00:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The machine's clock; for the HTTP front, never for the core.
    pub fn of_the_clock() -> Timestamp {
        Timestamp(jiff::Timestamp::now().as_second())
    }

    /// As the header `Date` has it. `None`: a year that it cannot write.
    pub fn date(self) -> Option<String> {
        let time = jiff::Timestamp::from_second(self.0).ok()?;
        DateTimePrinter::new().timestamp_to_rfc9110_string(&time).ok()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        jiff::Timestamp::from_second(self.0).unwrap_or_default().fmt(f)
    }
}
