//! Label selectors and the field selectors every resource has.

use super::collection::{Key, Labels};
use super::status::Failure;

/// Labels and fields that objects must have; empty for all objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    labels: Vec<Requirement>,
    name: Option<String>,
    namespace: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Selector {
    /// Reads the parameters `labelSelector` and `fieldSelector`.
    pub(super) fn parse(labels: Option<&str>, fields: Option<&str>) -> Result<Selector, Failure> {
        let mut selector = Selector::default();
        for term in split_terms(labels.unwrap_or_default()) {
            selector.labels.push(requirement(term.trim())?);
        }
        for term in fields.unwrap_or_default().split(',').filter(|term| !term.is_empty()) {
            selector.add_field(term)?;
        }
        Ok(selector)
    }

    /// Requires one more label.
    pub(super) fn and_label(mut self, key: &str, value: &str) -> Selector {
        self.labels.push(Requirement::In(key.to_owned(), vec![value.to_owned()]));
        self
    }

    fn add_field(&mut self, term: &str) -> Result<(), Failure> {
        let (field, value) = term
            .split_once("==")
            .or_else(|| term.split_once('=').filter(|(field, _)| !field.ends_with('!')))
            .ok_or_else(|| Failure::bad_request(format!("invalid field selector: {term:?}")))?;
        match field {
            "metadata.name" => self.name = Some(value.to_owned()),
            "metadata.namespace" => self.namespace = Some(value.to_owned()),
            other => return Err(Failure::bad_request(format!("field label not supported: {other}"))),
        }
        Ok(())
    }

    /// Whether every object matches.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.name.is_none() && self.namespace.is_none()
    }

    pub(super) fn matches(&self, key: &Key, labels: &Labels) -> bool {
        self.name.as_deref().is_none_or(|name| name == &*key.name)
            && self.namespace.as_deref().is_none_or(|namespace| namespace == &*key.namespace)
            && self.labels.iter().all(|requirement| requirement.holds(labels))
    }
}

impl Requirement {
    fn holds(&self, labels: &Labels) -> bool {
        match self {
            Requirement::In(key, values) => {
                labels.get(key).is_some_and(|value| values.iter().any(|allowed| allowed == value))
            }
            Requirement::NotIn(key, values) => {
                labels.get(key).is_none_or(|value| values.iter().all(|refused| refused != value))
            }
            Requirement::Exists(key) => labels.get(key).is_some(),
            Requirement::Absent(key) => labels.get(key).is_none(),
        }
    }
}

/// Splits at commas outside parentheses.
fn split_terms(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let at_top = |character: char| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => (),
        }
        character == ',' && depth == 0
    };
    text.split(at_top).filter(|term| !term.trim().is_empty()).collect()
}

fn requirement(term: &str) -> Result<Requirement, Failure> {
    let words: Vec<&str> = term.splitn(3, ' ').map(str::trim).filter(|word| !word.is_empty()).collect();
    if let [key, operator @ ("in" | "notin"), set] = words.as_slice() {
        return set_requirement(key, operator, set);
    }
    if let Some((key, rest)) = term.split_once(" in").filter(|(_, rest)| rest.starts_with('(')) {
        return set_requirement(key.trim(), "in", rest);
    }
    if let Some((key, rest)) = term.split_once(" notin").filter(|(_, rest)| rest.starts_with('(')) {
        return set_requirement(key.trim(), "notin", rest);
    }
    if let Some((key, value)) = term.split_once("!=") {
        return Ok(Requirement::NotIn(key.trim().into(), vec![value.trim().into()]));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(Requirement::In(key.trim().into(), vec![value.trim().into()]));
    }
    if term.contains(' ') {
        return Err(unparsable(term));
    }
    Ok(match term.strip_prefix('!') {
        Some(key) => Requirement::Absent(key.into()),
        None => Requirement::Exists(term.into()),
    })
}

fn set_requirement(key: &str, operator: &str, set: &str) -> Result<Requirement, Failure> {
    let inner = set.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or_else(|| unparsable(set))?;
    let values = inner.split(',').map(|value| value.trim().to_owned()).collect();
    Ok(if operator == "in" { Requirement::In(key.into(), values) } else { Requirement::NotIn(key.into(), values) })
}

fn unparsable(term: &str) -> Failure {
    Failure::bad_request(format!("unable to parse requirement: {term:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let selector = Selector::parse(Some(selector), None).expect("a valid selector");
        selector.matches(&Key::new("", "ns", "name"), &labels.iter().copied().collect())
    }

    #[test]
    fn labels() {
        let labels = [("a", "1"), ("b", "2")];
        let matching = ["a=1", "a==1,b=2", "a in (0, 1)", "a in (1),b notin (3)", "a", "!c", "c!=1", "c notin (1)"];
        for selector in matching {
            assert!(matches(selector, &labels), "{selector}");
        }
        for selector in ["a=2", "c", "!a", "a!=1", "a in (0,2)", "a notin (1)", "a=1,c"] {
            assert!(!matches(selector, &labels), "{selector}");
        }
    }

    #[test]
    fn fields_of_metadata_only() {
        let selector = Selector::parse(None, Some("metadata.name=x,metadata.namespace=y")).expect("valid");
        assert!(selector.matches(&Key::new("", "y", "x"), &Labels::default()));
        assert!(!selector.matches(&Key::new("", "y", "z"), &Labels::default()));
        assert_eq!(Selector::parse(None, Some("spec.a=b")).map_err(|failure| failure.code()), Err(400));
    }
}
