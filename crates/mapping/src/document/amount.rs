//! A number, or a share of all.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// How many of all: a whole number, or a share in percent. As Kubernetes' `IntOrString` in `maxUnavailable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(untagged, description = "A whole number, or a share such as 10%.")]
pub enum Amount {
    Number(usize),
    /// 0 to 100.
    Percent(#[schemars(with = "String", extend("pattern" = "^([0-9]|[1-9][0-9]|100)%$"))] u8),
}

impl Default for Amount {
    fn default() -> Self {
        Self::Number(0)
    }
}

impl Amount {
    /// How many that is of `all`, rounded down.
    pub fn of(self, all: usize) -> usize {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => all * usize::from(percent) / 100,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('%') {
            Some(percent) => percent.parse().ok().filter(|percent| *percent <= 100).map(Self::Percent),
            None => text.parse().ok().map(Self::Number),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfAmount;

        impl Visitor<'_> for OfAmount {
            type Value = Amount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, or a share such as `10%`")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Amount, E> {
                usize::try_from(number).map(Amount::Number).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Amount, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
                Amount::parse(text)
                    .ok_or_else(|| E::custom(format_args!("`{text}` is no amount; write a number, or `0%` to `100%`")))
            }
        }

        deserializer.deserialize_any(OfAmount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_a_number_or_a_share() {
        let read = |text: &str| serde_json::from_str::<Amount>(text).map_err(|error| error.to_string());
        assert_eq!(read("3"), Ok(Amount::Number(3)));
        assert_eq!(read(r#""25%""#), Ok(Amount::Percent(25)));
        for bad in ["-1", r#""101%""#, r#""many""#, r#""%""#, "1.5", "true", "null"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert_eq!((Amount::Percent(10).of(19), Amount::Number(3).of(1), Amount::default().of(9)), (1, 3, 0));
    }
}
