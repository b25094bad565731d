//! What an unquoted scalar means: YAML 1.2's core schema (10.3.2), with its silent traps made loud.

use serde_json::Number;

/// The value of a plain scalar.
#[derive(Debug, PartialEq)]
pub(super) enum Plain {
    Null,
    Bool(bool),
    Number(Number),
    /// Everything else, `yes` and `on` included.
    Text,
    /// Looks like a number, and is none that JSON can hold or that readers agree about.
    Refused {
        message: String,
        help: String,
    },
}

pub(super) fn resolve(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Plain::Null,
        "true" | "True" | "TRUE" => Plain::Bool(true),
        "false" | "False" | "FALSE" => Plain::Bool(false),
        _ => number(text),
    }
}

fn number(text: &str) -> Plain {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        let Some(digits) = digits.strip_prefix(prefix) else { continue };
        // Only unsigned ones are numbers in the core schema.
        if text.starts_with(['-', '+']) || digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
            return Plain::Text;
        }
        return u64::from_str_radix(digits, radix).map_or_else(|_| out_of_range(text), |n| Plain::Number(n.into()));
    }
    if is_digits(digits) {
        return integer(text, digits);
    }
    if matches!(digits, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return refused(format!("`{text}` has no counterpart in JSON"), text);
    }
    if is_float(digits) { float(text) } else { Plain::Text }
}

fn integer(text: &str, digits: &str) -> Plain {
    if digits.len() > 1 && digits.starts_with('0') {
        let octal = digits.trim_start_matches('0');
        return Plain::Refused {
            message: format!("`{text}` is octal to some readers of YAML and decimal to others"),
            help: format!("write `0o{octal}` for octal, or quote it for text: \"{text}\""),
        };
    }
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    if let Ok(number) = unsigned.parse::<i64>() {
        return Plain::Number(number.into());
    }
    unsigned.parse::<u64>().map_or_else(|_| out_of_range(text), |number| Plain::Number(number.into()))
}

fn float(text: &str) -> Plain {
    match text.parse::<f64>().ok().and_then(Number::from_f64) {
        Some(number) => Plain::Number(number),
        None => out_of_range(text),
    }
}

fn out_of_range(text: &str) -> Plain {
    refused(format!("`{text}` is beyond the numbers that JSON carries safely"), text)
}

fn refused(message: String, text: &str) -> Plain {
    Plain::Refused { message, help: format!("quote it for text: \"{text}\"") }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `1.`, `.5`, `1.5`, each with an exponent, and `1e5`.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (text, None),
    };
    let mantissa_fits = match mantissa.split_once('.') {
        Some((whole, part)) => {
            (is_digits(whole) && (part.is_empty() || is_digits(part))) || (whole.is_empty() && is_digits(part))
        }
        None => is_digits(mantissa) && exponent.is_some(),
    };
    mantissa_fits && exponent.is_none_or(is_digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match resolve(text) {
            Plain::Number(number) => number.to_string(),
            Plain::Text => "text".into(),
            Plain::Refused { message, .. } => message,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn core_schema() {
        for (text, value) in [
            ("~", "Null"),
            ("TRUE", "Bool(true)"),
            ("yes", "text"),
            ("on", "text"),
            ("0", "0"),
            ("-7", "-7"),
            ("+7", "7"),
            ("0x1F", "31"),
            ("0o17", "15"),
            ("-0x1F", "text"),
            ("0x", "text"),
            ("1.0", "1.0"),
            ("1.", "1.0"),
            (".5", "0.5"),
            ("1e3", "1000.0"),
            ("1_000", "text"),
            ("12:30:00", "text"),
            ("1.2.3", "text"),
            ("-", "text"),
            ("+", "text"),
            (".", "text"),
            ("e5", "text"),
            ("9007199254740993", "9007199254740993"),
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("18446744073709551616", "`18446744073709551616` is beyond the numbers that JSON carries safely"),
            ("1e999", "`1e999` is beyond the numbers that JSON carries safely"),
            ("0644", "`0644` is octal to some readers of YAML and decimal to others"),
            (".inf", "`.inf` has no counterpart in JSON"),
            ("-.inf", "`-.inf` has no counterpart in JSON"),
            (".nan", "`.nan` has no counterpart in JSON"),
        ] {
            assert_eq!(shown(text), value, "{text}");
        }
    }
}
