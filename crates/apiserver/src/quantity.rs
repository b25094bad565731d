//! Quantities of resources: `1024Mi` is `1Gi`, and a server stores what it reads in one form only.

use sync_engine_mapping::expression::{BINARY_SUFFIXES, DECIMAL_SUFFIXES, quantity_scale};

/// What is said of a text that is no quantity.
pub(super) const EXPECTED: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// How a quantity is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Decimal,
    Binary,
    Exponent,
}

/// A quantity as servers store it, or `None` for what is none, or is too large to be one.
pub(super) fn canonical(text: &str) -> Option<String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    let mut nanos: i128 = digits.parse().ok()?;
    let (twos, tens) = quantity_scale(suffix)?;
    let form = match suffix {
        _ if twos > 0 => Form::Binary,
        known if DECIMAL_SUFFIXES.contains(&known) => Form::Decimal,
        _ => Form::Exponent,
    };
    // 10^9 parts of one, rounded away from zero.
    let shift = tens + 9 - i32::try_from(fraction.len()).ok()?;
    nanos = nanos.checked_mul(1_i128 << twos)?;
    nanos = match u32::try_from(shift) {
        Ok(shift) => nanos.checked_mul(10_i128.checked_pow(shift)?)?,
        Err(_) => up(nanos, 10_i128.checked_pow(shift.unsigned_abs())?),
    };
    let sign = if text.starts_with('-') { "-" } else { "" };
    Some(match nanos {
        0 => "0".to_owned(),
        nanos if form == Form::Binary && nanos >= 1024 * ONE => format!("{sign}{}", binary(up(nanos, ONE))),
        nanos => format!("{sign}{}", decimal(nanos, form)),
    })
}

const ONE: i128 = 1_000_000_000;

fn up(number: i128, divisor: i128) -> i128 {
    number / divisor + i128::from(number % divisor > 0)
}

fn binary(mut number: i128) -> String {
    let mut suffix = "";
    for larger in BINARY_SUFFIXES {
        if number % 1024 != 0 {
            break;
        }
        (number, suffix) = (number / 1024, larger);
    }
    format!("{number}{suffix}")
}

fn decimal(nanos: i128, form: Form) -> String {
    let (mut number, mut power) = (nanos, 0);
    while number % 1000 == 0 && (form == Form::Exponent || power + 1 < DECIMAL_SUFFIXES.len()) {
        (number, power) = (number / 1000, power + 1);
    }
    match (form, DECIMAL_SUFFIXES.get(power)) {
        (Form::Exponent, _) if power == 3 => number.to_string(),
        (Form::Exponent, _) | (_, None) => format!("{number}e{}", 3 * power as i32 - 9),
        (_, Some(suffix)) => format!("{number}{suffix}"),
    }
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn a_quantity_has_one_form() {
        let forms = [
            ("1024Mi", "1Gi"),
            ("1500Mi", "1500Mi"),
            ("0.5Gi", "512Mi"),
            ("1.1Ki", "1127"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.50", "1500m"),
            ("2000", "2k"),
            ("1000000k", "1G"),
            ("1e3", "1e3"),
            ("100e1", "1e3"),
            ("0Mi", "0"),
            ("-2048Ki", "-2Mi"),
            ("+5", "5"),
            ("1E", "1E"),
            ("0.0000000001", "1n"),
        ];
        for (written, stored) in forms {
            assert_eq!(canonical(written).as_deref(), Some(stored), "{written}");
        }
        for none in ["", "Gi", "1 Gi", "1Gb", "1.2.3", "--1", "1e"] {
            assert_eq!(canonical(none), None, "{none}");
        }
    }
}
