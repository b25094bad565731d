//! How long ago something was, as kubectl's users read it: `45s`, `3m20s`, `5d3h`.

use k8s_openapi::jiff;

use super::super::timestamp::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Time since a moment as objects write it; `<unknown>` where it is empty.
pub(super) fn since(moment: &str, now: Timestamp) -> String {
    if moment.is_empty() {
        return "<unknown>".to_owned();
    }
    match moment.parse::<jiff::Timestamp>() {
        Ok(moment) => duration(now.0 - moment.as_second()),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// Seconds in one unit or two: the longer it is, the less the small ones matter.
/// The steps are those of `HumanDuration` in `k8s.io/apimachinery/pkg/util/duration`.
fn duration(seconds: i64) -> String {
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => units(seconds, (MINUTE, 'm'), (1, 's')),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => units(seconds, (HOUR, 'h'), (MINUTE, 'm')),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => units(seconds, (DAY, 'd'), (HOUR, 'h')),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => units(seconds, (YEAR, 'y'), (DAY, 'd')),
        _ => format!("{}y", seconds / YEAR),
    }
}

fn units(seconds: i64, (large, large_name): (i64, char), (small, small_name): (i64, char)) -> String {
    match seconds % large / small {
        0 => format!("{}{large_name}", seconds / large),
        rest => format!("{}{large_name}{rest}{small_name}", seconds / large),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_ago_the_coarser() {
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (12_060, "3h21m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (183_600, "2d3h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(duration(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn moments_are_those_of_objects() {
        let now = Timestamp(1_785_585_600);
        assert_eq!(since("2026-08-01T11:59:15Z", now), "45s");
        assert_eq!(since("2026-08-01T11:59:15.123456Z", now), "45s");
        assert_eq!(since("", now), "<unknown>");
        assert_eq!(since("yesterday", now), "<invalid>");
    }
}
