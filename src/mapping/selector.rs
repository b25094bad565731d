//! Which objects a mapping serves: label selectors and namespace globs, evaluated here, so that a relabel is no deletion.

use serde_json::Value;

use super::{NamespaceFilter, Selector, SelectorOperator, SelectorRequirement};

impl Selector {
    /// Whether an object's labels (the map at `metadata.labels`, if there is one) pass, by Kubernetes' rules.
    pub fn matches(&self, labels: Option<&Value>) -> bool {
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        self.match_labels.iter().all(|(key, value)| label(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }
}

impl SelectorRequirement {
    fn matches(&self, label: Option<&str>) -> bool {
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

impl NamespaceFilter {
    pub fn matches(&self, namespace: &str) -> bool {
        let any = |globs: &[String]| globs.iter().any(|glob| glob_matches(glob.as_bytes(), namespace.as_bytes()));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// `*` stands for any run of characters, `?` for one. Linear but for the last star, which alone is tried again.
fn glob_matches(glob: &[u8], text: &[u8]) -> bool {
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
    use serde_json::json;

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
        let filter = NamespaceFilter { include: vec!["team-*".into()], exclude: vec!["*-test".into()] };
        assert!(filter.matches("team-a"));
        assert!(!filter.matches("team-a-test"));
        assert!(!filter.matches("other"));
    }

    #[test]
    fn requirements_follow_kubernetes() {
        let requirement = |operator| Selector {
            match_expressions: vec![SelectorRequirement { key: "tier".into(), operator, values: vec!["gold".into()] }],
            ..Selector::default()
        };
        let gold = json!({"tier": "gold"});
        assert!(requirement(SelectorOperator::In).matches(Some(&gold)));
        assert!(!requirement(SelectorOperator::In).matches(None));
        assert!(requirement(SelectorOperator::NotIn).matches(None));
        assert!(requirement(SelectorOperator::Exists).matches(Some(&gold)));
        assert!(requirement(SelectorOperator::DoesNotExist).matches(Some(&json!({}))));
    }
}
