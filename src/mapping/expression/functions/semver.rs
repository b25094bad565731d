//! Versions, as semver.org orders them.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::super::budget::Budget;
use super::super::registry::Arguments;
use super::super::value::{Operand, Stop};

type Answer<'a> = Result<Operand<'a>, Stop>;

/// A version; parts that are left out are 0, and a `v` before it is passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version<'t> {
    numbers: [u64; 3],
    prerelease: &'t str,
}

/// `major`, `minor`, `patch` and `prerelease` (`""`: none) of a version.
pub fn semver<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let text = arguments.text(0)?;
    budget.charge(4 * text.len() + 256)?;
    let version = Version::parse(&text).ok_or_else(|| arguments.fail("needs a version such as `6.0.5`"))?;
    let [major, minor, patch] = version.numbers;
    let prerelease = version.prerelease;
    Ok(Operand::owned(json!({"major": major, "minor": minor, "patch": patch, "prerelease": prerelease})))
}

/// Whether a version meets all of a list of requirements: `>=6.0, <8`.
pub fn satisfies<'a>(mut arguments: Arguments<'a>, budget: &mut Budget) -> Answer<'a> {
    let (text, requirement) = (arguments.text(0)?, arguments.text(1)?);
    budget.charge(requirement.len().saturating_mul(text.len() + 4))?;
    let version = Version::parse(&text).ok_or_else(|| arguments.fail("needs a version such as `6.0.5`"))?;
    let held: Option<Vec<bool>> = requirement.split(',').map(|one| holds(&version, one.trim())).collect();
    let held = held.ok_or_else(|| arguments.fail("needs requirements such as `>=6.0, <8`"))?;
    Ok(Operand::owned(Value::Bool(held.into_iter().all(|holds| holds))))
}

fn holds(version: &Version, requirement: &str) -> Option<bool> {
    let end = requirement.find(|c: char| !"<>=!".contains(c)).unwrap_or(requirement.len());
    let (operator, other) = requirement.split_at(end);
    let order = version.cmp(&Version::parse(other.trim())?);
    Some(match operator {
        "" | "=" | "==" => order.is_eq(),
        "!=" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        _ => return None,
    })
}

impl<'t> Version<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split_once('+').map_or(text, |(version, _)| version);
        let (numbers, prerelease) = match text.split_once('-') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (text, ""),
        };
        let mut parsed = [0; 3];
        for (index, part) in numbers.split('.').enumerate() {
            let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
            *parsed.get_mut(index)? = part.parse().ok().filter(|_| is_number)?;
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let good = prerelease.is_empty() || prerelease.split('.').all(|one| !one.is_empty() && one.chars().all(fits));
        good.then_some(Self { numbers: parsed, prerelease })
    }

    /// A prerelease comes before its release.
    fn cmp(&self, other: &Self) -> Ordering {
        let prerelease = || match (self.prerelease, other.prerelease) {
            ("", "") => Ordering::Equal,
            ("", _) => Ordering::Greater,
            (_, "") => Ordering::Less,
            (one, two) => compare_identifiers(one, two),
        };
        self.numbers.cmp(&other.numbers).then_with(prerelease)
    }
}

/// Number by number and text by text; numbers come before texts, fewer before more.
fn compare_identifiers(one: &str, two: &str) -> Ordering {
    let mut pairs = one.split('.').zip(two.split('.'));
    let different = pairs.find_map(|(one, two)| {
        let order = match (one.parse::<u64>(), two.parse::<u64>()) {
            (Ok(one), Ok(two)) => one.cmp(&two),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => one.cmp(two),
        };
        order.is_ne().then_some(order)
    });
    different.unwrap_or_else(|| one.split('.').count().cmp(&two.split('.').count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_order() {
        let order = [
            "0.9",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1",
            "v1.0.1+build",
            "1.2",
            "1.10",
        ];
        for pair in order.windows(2) {
            let parsed = pair.iter().map(|text| Version::parse(text).expect("a version")).collect::<Vec<_>>();
            assert_eq!(parsed[0].cmp(&parsed[1]), Ordering::Less, "{pair:?}");
        }
        for bad in ["", "v", "1.", "1..2", "1.2.3.4", "1.x", "1-", "1-a..b", "+1", "-1", "1.-2", "99999999999999999999"]
        {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn requirements() {
        let version = Version::parse("6.0.5").expect("a version");
        for (requirement, held) in [
            (">=6.0", Some(true)),
            ("<6", Some(false)),
            ("6.0.5", Some(true)),
            ("!=6.0.5", Some(false)),
            ("> 6.0.4", Some(true)),
            ("<=6.0.4", Some(false)),
            ("~6", None),
            ("", None),
            ("=>6", None),
        ] {
            assert_eq!(holds(&version, requirement), held, "{requirement}");
        }
    }
}
