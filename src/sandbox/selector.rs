//! Label selectors and field selectors.

use serde_json::Value;

use super::collection::{Key, Labels, Stored};
use super::resource::Resource;
use super::status::Failure;

/// Labels and fields that objects must have; empty for all objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    labels: Vec<Requirement>,
    name: Option<String>,
    namespace: Option<String>,
    fields: Vec<Field>,
}

/// A field of the object itself.
#[derive(Clone, Debug, PartialEq)]
struct Field {
    /// JSON pointer.
    pointer: String,
    value: String,
    /// Whether it must be this value, or must not.
    is: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Selector {
    /// Reads the parameters `labelSelector` and `fieldSelector`, on objects of a resource.
    pub(super) fn parse(labels: Option<&str>, fields: Option<&str>, resource: &Resource) -> Result<Selector, Failure> {
        let mut selector = Selector::default();
        for term in split_terms(labels.unwrap_or_default()) {
            selector.labels.push(requirement(term.trim())?);
        }
        for term in fields.unwrap_or_default().split(',').filter(|term| !term.is_empty()) {
            selector.add_field(term, resource)?;
        }
        Ok(selector)
    }

    /// Requires one more label.
    pub(super) fn and_label(mut self, key: &str, value: &str) -> Selector {
        self.labels.push(Requirement::In(key.to_owned(), vec![value.to_owned()]));
        self
    }

    /// Requires a name.
    pub(super) fn and_name(mut self, name: &str) -> Selector {
        self.name = Some(name.to_owned());
        self
    }

    fn add_field(&mut self, term: &str, resource: &Resource) -> Result<(), Failure> {
        let (field, value) = term
            .split_once("!=")
            .or_else(|| term.split_once("=="))
            .or_else(|| term.split_once('='))
            .ok_or_else(|| Failure::bad_request(format!("invalid field selector: {term:?}")))?;
        let is = !term.contains("!=");
        match field {
            "metadata.name" if is => self.name = Some(value.to_owned()),
            "metadata.namespace" if is => self.namespace = Some(value.to_owned()),
            "metadata.name" | "metadata.namespace" => self.add_own_field(field, value, is),
            other if selectable(resource).contains(&other) => self.add_own_field(other, value, is),
            other => return Err(Failure::bad_request(format!("field label not supported: {other}"))),
        }
        Ok(())
    }

    fn add_own_field(&mut self, field: &str, value: &str, is: bool) {
        // An event's source is a structure, of which the component is meant.
        let field = if field == "source" { "source.component" } else { field };
        self.fields.push(Field { pointer: format!("/{}", field.replace('.', "/")), value: value.to_owned(), is });
    }

    /// Whether every object matches.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.name.is_none() && self.namespace.is_none() && self.fields.is_empty()
    }

    pub(super) fn matches(&self, key: &Key, stored: &Stored) -> bool {
        self.name.as_deref().is_none_or(|name| name == &*key.name)
            && self.namespace.as_deref().is_none_or(|namespace| namespace == &*key.namespace)
            && self.labels.iter().all(|requirement| requirement.holds(&stored.labels))
            && self.fields_match(stored)
    }

    fn fields_match(&self, stored: &Stored) -> bool {
        if self.fields.is_empty() {
            return true;
        }
        let object = stored.object();
        let text = |field: &Field| object.pointer(&field.pointer).and_then(Value::as_str).unwrap_or_default();
        self.fields.iter().all(|field| (text(field) == field.value) == field.is)
    }
}

/// Fields that a built-in resource lets be selected, beside name and namespace.
fn selectable(resource: &Resource) -> &'static [&'static str] {
    match (&*resource.group, &*resource.plural) {
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("", "secrets") => &["type"],
        ("", "namespaces") => &["status.phase"],
        _ => &[],
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
    use serde_json::json;

    use super::super::builtin;
    use super::*;

    fn resource(plural: &str) -> std::sync::Arc<Resource> {
        builtin::kubernetes()[&("".into(), plural.into())].clone()
    }

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let selector = Selector::parse(Some(selector), None, &resource("configmaps")).expect("a valid selector");
        let labels: serde_json::Map<String, Value> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
        selector.matches(&Key::new("", "ns", "name"), &Stored::new(json!({"metadata": {"labels": labels}}), 1))
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
    fn fields() {
        let parse = |plural: &str, fields: &str| Selector::parse(None, Some(fields), &resource(plural));
        let secret = Stored::new(json!({"type": "Opaque"}), 1);
        let matches = |fields: &str, name: &str| {
            parse("secrets", fields).expect("valid").matches(&Key::new("", "y", name), &secret)
        };
        assert!(matches("metadata.name=x,metadata.namespace=y", "x"));
        assert!(!matches("metadata.name=x,metadata.namespace=y", "z"));
        assert!(matches("type=Opaque,type!=other", "x"));
        assert!(!matches("type==other", "x"));
        assert_eq!(parse("configmaps", "type=a").map_err(|failure| failure.code()), Err(400));
    }
}
