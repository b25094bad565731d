//! Versions, as semver.org orders them.

use semver::Version;
use serde_json::json;

use super::super::Unrendered;
use super::super::given::Given;
use super::{Answer, gives};

/// `major`, `minor`, `patch` and `prerelease` (`""`: none) of a version.
pub fn semver<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let Version { major, minor, patch, pre, .. } = subject(given)?;
    given.budget.charge(256)?;
    gives(json!({"major": major, "minor": minor, "patch": patch, "prerelease": pre.as_str()}))
}

/// Whether a version meets all of a list of requirements: `>=6.0, <8`.
pub fn satisfies<'a>(given: &mut Given<'a, '_>) -> Answer<'a> {
    let (version, requirement) = (subject(given)?, given.text(1)?);
    given.budget.charge(requirement.len().saturating_mul(version.pre.len() + 32))?;
    let held: Option<Vec<bool>> = requirement.split(',').map(|one| holds(&version, one.trim())).collect();
    gives(held.ok_or_else(|| given.fail("needs requirements such as `>=6.0, <8`"))?.into_iter().all(|holds| holds))
}

fn subject(given: &mut Given<'_, '_>) -> Result<Version, Unrendered> {
    version(&given.text(0)?).ok_or_else(|| given.fail("needs a version such as `6.0.5`"))
}

fn holds(given: &Version, requirement: &str) -> Option<bool> {
    let end = requirement.find(|c: char| !"<>=!".contains(c)).unwrap_or(requirement.len());
    let (operator, other) = requirement.split_at(end);
    let order = given.cmp_precedence(&version(other.trim())?);
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

/// A version; missing parts are 0, and a `v` before it is ignored.
fn version(text: &str) -> Option<Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (numbers, rest) = text.split_at(text.find(['-', '+']).unwrap_or(text.len()));
    let missing = 2_usize.checked_sub(numbers.matches('.').count())?;
    Version::parse(&format!("{numbers}{}{rest}", ".0".repeat(missing))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_parts_are_zero() {
        let parsed =
            ["6", "v6.0", "6.0.0+build", "6-rc.1"].map(|text| version(text).map(|version| version.to_string()));
        assert_eq!(parsed, ["6.0.0", "6.0.0", "6.0.0+build", "6.0.0-rc.1"].map(|text| Some(text.to_owned())));
        for bad in ["", "v", "1.", "1..2", "1.2.3.4", "1.x", "1-", "1-a..b", "+1", "-1", "1.-2", "99999999999999999999"]
        {
            assert_eq!(version(bad), None, "{bad}");
        }
    }

    #[test]
    fn requirements() {
        let given = version("6.0.5").expect("a version");
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
            assert_eq!(holds(&given, requirement), held, "{requirement}");
        }
    }
}
