//! Kubernetes' quantities: `500m`, `1.5Gi`, `2e3`.

use serde_json::Value;

use super::super::given::Given;
use super::super::value::Operand;
use super::{Answer, gives};

/// Digits a quantity may have: more do not fit a number of JSON.
const DIGITS: usize = 40;

/// Suffixes of powers of 1000, from 10^-9 on.
pub const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Suffixes of powers of 1024, from 1024^1 on.
pub const BINARY_SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The number a quantity stands for, in its base unit: an integer where it is whole. A number stays as it is.
///
/// Suffixes are those of apimachinery's `resource.Quantity`: `n u m k M G T P E`, `Ki Mi Gi Ti Pi Ei`, and an exponent.
pub fn quantity<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let value = given.value(0)?;
    let Some(text) = value.as_str() else { return Ok(Operand::Value(value)) };
    number(text).map(Operand::owned).ok_or_else(|| given.fail("needs a quantity such as `500m` or `1Gi`"))
}

/// The same of a text.
pub fn number(text: &str) -> Option<Value> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (digits, suffix) = rest.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let written = whole.len() + fraction.len();
    if written == 0 || written > DIGITS || fraction.contains('.') {
        return None;
    }
    let (binary, decimal) = quantity_scale(suffix)?;
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let exponent = decimal - i32::try_from(fraction.len()).ok()?;
    exact(sign * mantissa, binary, exponent).or_else(|| {
        let value = sign as f64 * mantissa as f64 * 2_f64.powi(binary) * 10_f64.powi(exponent);
        serde_json::Number::from_f64(value).map(Value::Number)
    })
}

/// The powers of 2 and of 10 that the suffix of a quantity multiplies with.
pub fn quantity_scale(suffix: &str) -> Option<(i32, i32)> {
    let power = |suffixes: &[&str]| (0..).zip(suffixes).find_map(|(power, known)| (*known == suffix).then_some(power));
    match (power(&BINARY_SUFFIXES), power(&DECIMAL_SUFFIXES)) {
        (Some(power), _) => Some((10 * (power + 1), 0)),
        (None, Some(power)) => Some((0, 3 * power - 9)),
        (None, None) => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (-40..=40).contains(&exponent).then_some((0, exponent))
        }
    }
}

/// The value as an integer of JSON, where it is one.
fn exact(mantissa: i128, binary: i32, exponent: i32) -> Option<Value> {
    let scaled = mantissa.checked_mul(1_i128.checked_shl(binary.unsigned_abs())?)?;
    let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
    let whole =
        if exponent >= 0 { scaled.checked_mul(power)? } else { (scaled % power == 0).then_some(scaled / power)? };
    i64::try_from(whole).map(Value::from).or_else(|_| u64::try_from(whole).map(Value::from)).ok()
}

/// A number as a quantity: with the largest binary suffix that leaves it whole, else the largest decimal one.
pub fn as_quantity<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let text = given.value(0)?.as_number().and_then(written);
    gives(text.ok_or_else(|| given.fail("needs a number that is a multiple of a billionth"))?)
}

fn written(number: &serde_json::Number) -> Option<String> {
    let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match integer.or_else(|| whole(number.as_f64()?)) {
        Some(0) => Some("0".to_owned()),
        Some(integer) => Some(suffixed(integer)),
        None => DECIMAL_SUFFIXES[..3].iter().rev().zip(1..).find_map(|(suffix, power)| {
            let scaled = whole(number.as_f64()? * 1000_f64.powi(power))?;
            Some(format!("{scaled}{suffix}"))
        }),
    }
}

/// A float as the integer that it is, or is but for the error of a multiplication.
fn whole(float: f64) -> Option<i128> {
    let rounded = float.round();
    let near = (float - rounded).abs() <= f64::EPSILON * float.abs() && rounded != 0.0 || float == 0.0;
    (near && rounded.abs() < 1e38).then_some(rounded as i128)
}

fn suffixed(integer: i128) -> String {
    let largest = |step: i128, suffixes: &[&'static str]| {
        let powers = (1..).zip(suffixes).map(|(power, suffix)| (step.pow(power), *suffix));
        powers.filter(|(power, _)| integer % power == 0).last()
    };
    match largest(1024, &BINARY_SUFFIXES).or_else(|| largest(1000, &DECIMAL_SUFFIXES[4..])) {
        Some((power, suffix)) => format!("{}{suffix}", integer / power),
        None => integer.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_apimachinerys() {
        for (text, value) in [
            ("0", json!(0)),
            ("500m", json!(0.5)),
            ("1500m", json!(1.5)),
            ("2000m", json!(2)),
            ("1Gi", json!(1_073_741_824)),
            ("1.5Gi", json!(1_610_612_736)),
            ("10k", json!(10_000)),
            ("1e3", json!(1000)),
            ("1E", json!(1_000_000_000_000_000_000_i64)),
            ("2E2", json!(200)),
            ("-3", json!(-3)),
            ("+.5", json!(0.5)),
            ("5.", json!(5)),
            ("16Ei", json!(18_446_744_073_709_551_616_f64)),
            ("8Ei", json!(9_223_372_036_854_775_808_u64)),
        ] {
            assert_eq!(number(text), Some(value), "{text}");
        }
        for bad in ["", ".", "-", "1gi", "1 Gi", "Gi", "1.2.3", "1e", "1e99", "0x1", "NaN", "1KiB", "٣"] {
            assert_eq!(number(bad), None, "{bad}");
        }
        assert_eq!(number(&"9".repeat(41)), None);
        for text in ["0", "500m", "1500m", "1Gi", "1536Mi", "10k", "999", "-3", "250m", "7u", "100n", "8Ei", "3G"] {
            let Some(Value::Number(value)) = number(text) else { panic!("{text} is a quantity") };
            assert_eq!(written(&value).as_deref(), Some(text));
        }
        assert_eq!(written(&serde_json::Number::from_f64(1e-10).expect("finite")), None);
        assert!(number(&"9".repeat(38)).is_some_and(|value| value.is_f64()));
    }
}
