//! Which objects a mapping serves: label selectors and namespace globs, evaluated here, so that a relabel is no deletion.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::{NamespacesSpec, Selector, SelectorOperator, SelectorRequirement};
use crate::yaml::Spanned;

impl Selector {
    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether an object's labels (the map at `metadata.labels`, if there is one) pass, by Kubernetes' rules.
    pub fn matches(&self, labels: Option<&Value>) -> bool {
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        self.match_labels.iter().all(|(key, value)| label(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// Whether all that is asked of a label can hold at once, for some value or without the label.
    pub fn can_hold(&self, key: &str) -> bool {
        let asked = || self.match_expressions.iter().filter(move |requirement| requirement.key == key);
        let given = self.match_labels.get(key).map(String::as_str);
        let named = asked().flat_map(|requirement| &requirement.values).map(String::as_str).chain(given);
        // No label has the value NUL, which stands for all that are not named.
        let mut labels = named.chain(["\0"]).map(Some).chain([None]);
        labels.any(|label| {
            given.is_none_or(|given| label == Some(given)) && asked().all(|requirement| requirement.matches(label))
        })
    }
}

impl fmt::Display for Selector {
    /// As servers take it in a query.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let expressions = self.match_expressions.iter().map(|SelectorRequirement { key, operator, values }| {
            let values = values.join(",");
            match operator {
                SelectorOperator::In => format!("{key} in ({values})"),
                SelectorOperator::NotIn => format!("{key} notin ({values})"),
                SelectorOperator::Exists => key.clone(),
                SelectorOperator::DoesNotExist => format!("!{key}"),
            }
        });
        f.write_str(&labels.chain(expressions).collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Selector {
    type Err = String;

    /// As kubectl's `-l` takes it: `tier=gold,team!=a,zone in (x, y),owner,!legacy`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut depth = 0;
        let ends_term = |character: char| {
            depth += i32::from(character == '(') - i32::from(character == ')');
            character == ',' && depth == 0
        };
        let terms = text.split(ends_term).map(str::trim);
        let match_expressions = terms.map(requirement).collect::<Result<_, _>>()?;
        Ok(Self { match_expressions, ..Self::default() })
    }
}

fn requirement(term: &str) -> Result<SelectorRequirement, String> {
    let words = |text: &str, operator| text.split_once(operator).map(|(key, value)| (key.to_owned(), value.to_owned()));
    let set = term.strip_suffix(')').and_then(|term| term.split_once('('));
    let (key, operator, values) = if let Some((head, values)) = set {
        match head.trim().rsplit_once(char::is_whitespace) {
            Some((key, "in")) => (key.to_owned(), SelectorOperator::In, values.to_owned()),
            Some((key, "notin")) => (key.to_owned(), SelectorOperator::NotIn, values.to_owned()),
            _ => return Err(format!("`{term}` is no requirement; write KEY in (A, B) or KEY notin (A, B)")),
        }
    } else if let Some((key, value)) = words(term, "!=") {
        (key, SelectorOperator::NotIn, value)
    } else if let Some((key, value)) = words(term, "==").or_else(|| words(term, "=")) {
        (key, SelectorOperator::In, value)
    } else if let Some(key) = term.strip_prefix('!') {
        (key.to_owned(), SelectorOperator::DoesNotExist, String::new())
    } else {
        (term.to_owned(), SelectorOperator::Exists, String::new())
    };
    let key = key.trim();
    if key.is_empty() || key.contains(|character: char| character.is_whitespace() || "()!=,".contains(character)) {
        return Err(format!("`{term}` is no requirement; write KEY=VALUE, KEY!=VALUE, KEY in (A, B), KEY or !KEY"));
    }
    let values = values.split(',').map(|value| value.trim().to_owned()).collect();
    Ok(SelectorRequirement { key: key.to_owned(), operator, values })
}

impl SelectorRequirement {
    /// Whether a label passes; `None`: the object lacks it.
    pub fn matches(&self, label: Option<&str>) -> bool {
        let listed = label.is_some_and(|label| self.values.iter().any(|value| value == label));
        match self.operator {
            SelectorOperator::In => listed,
            // As Kubernetes has it, a label that is not there is not in any list.
            SelectorOperator::NotIn => !listed,
            SelectorOperator::Exists => label.is_some(),
            SelectorOperator::DoesNotExist => label.is_none(),
        }
    }
}

impl NamespacesSpec {
    pub fn matches(&self, namespace: &str) -> bool {
        let any =
            |globs: &[Spanned<String>]| globs.iter().any(|one| glob_matches(one.as_bytes(), namespace.as_bytes()));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }

    /// Whether nothing is left. A `?` of `exclude` counts for nothing: it takes one character, where `include` may have a `*`.
    pub fn is_all_excluded(&self) -> bool {
        let exclude = || self.exclude.iter().filter(|glob| !glob.contains('?'));
        let is_excluded = |include: &str| exclude().any(|glob| glob_matches(glob.as_bytes(), include.as_bytes()));
        if self.include.is_empty() { is_excluded("*") } else { self.include.iter().all(|glob| is_excluded(glob)) }
    }
}

/// `*` stands for any run of characters, `?` for one. Linear but for the last star, which alone is tried again.
pub fn glob_matches(glob: &[u8], text: &[u8]) -> bool {
    let (mut at, mut in_text) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while in_text < text.len() {
        match glob.get(at) {
            Some(b'*') => {
                star = Some((at, in_text));
                at += 1;
            }
            Some(&expected) if expected == b'?' || expected == text[in_text] => {
                at += 1;
                in_text += 1;
            }
            _ => match star {
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    (at, in_text) = (star_at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    glob[at..].iter().all(|rest| *rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::{Node, NodeValue};

    #[test]
    fn globs() {
        for (glob, text, expected) in [
            ("kube-*", "kube-system", true),
            ("kube-*", "my-kube-system", false),
            ("*-prod", "a-prod-prod", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
        ] {
            assert_eq!(glob_matches(glob.as_bytes(), text.as_bytes()), expected, "{glob} {text}");
        }
    }

    #[test]
    fn exclude_wins() {
        let node = std::sync::Arc::new(Node { span: 0..0, value: NodeValue::Null });
        let globs = |glob: &str| vec![Spanned { value: glob.to_owned(), node: node.clone() }];
        let filter = NamespacesSpec { include: globs("team-*"), exclude: globs("*-test") };
        assert!(filter.matches("team-a"));
        assert!(!filter.matches("team-a-test"));
        assert!(!filter.matches("other"));
        let is_empty = |include: &[&str], exclude: &[&str]| {
            let globs = |all: &[&str]| all.iter().flat_map(|glob| globs(glob)).collect();
            NamespacesSpec { include: globs(include), exclude: globs(exclude) }.is_all_excluded()
        };
        assert!(is_empty(&[], &["*"]) && is_empty(&["a", "team-?"], &["team-*", "a"]));
        assert!(!is_empty(&[], &[]) && !is_empty(&[], &["?*"]) && !is_empty(&["a", "b"], &["a"]));
        assert!(!is_empty(&["team-*"], &["team-?"]) && !is_empty(&["team-*"], &["team-a"]));
    }

    #[test]
    fn what_contradicts_itself_holds_for_no_label() {
        let can_hold = |text: &str| text.parse::<Selector>().map(|selector| selector.can_hold("a"));
        for text in ["a", "!a", "a=1", "a!=1", "a!=1,a", "a in (1, 2),a!=1", "a=1,a=1", "!a,a!=1", "b=1,b=2"] {
            assert_eq!(can_hold(text), Ok(true), "{text}");
        }
        for text in ["a,!a", "a=1,!a", "a=1,a!=1", "a=1,a=2", "a in (1, 2),a notin (2, 1)"] {
            assert_eq!(can_hold(text), Ok(false), "{text}");
        }
        let labelled = |text: &str| {
            let match_labels = [("a".to_owned(), "1".to_owned())].into();
            Selector { match_labels, ..text.parse::<Selector>().expect(text) }.can_hold("a")
        };
        assert!(labelled("a") && !labelled("a!=1") && !labelled("!a"));
    }

    #[test]
    fn a_selector_is_read_as_kubectl_reads_it() {
        let labels = serde_json::json!({"a": "1", "b": "2"});
        let matches = |text: &str| text.parse::<Selector>().map(|selector| selector.matches(Some(&labels)));
        for text in ["a=1", "a==1,b=2", "a in (0, 1)", "a in (1),b notin (3)", "a", "!c", "c!=1", "c notin (1)"] {
            assert_eq!(matches(text), Ok(true), "{text}");
        }
        for text in ["a=2", "c", "!a", "a!=1", "a in (0,2)", "a notin (1)", "a=1,c"] {
            assert_eq!(matches(text), Ok(false), "{text}");
        }
        for text in ["", "a=1,", "a b", "a on (1)", "in (1)", "=1"] {
            assert!(matches(text).is_err(), "{text}");
        }
        let of_none = |text: &str| text.parse::<Selector>().map(|selector| selector.matches(None));
        assert_eq!((of_none("a=1"), of_none("a!=1")), (Ok(false), Ok(true)));
    }
}
