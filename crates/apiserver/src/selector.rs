//! Label selectors and field selectors.

use serde_json::Value;

use super::collection::{Key, Stored};
use super::resource::Resource;
use super::status::Failure;
use sync_engine_mapping::{Selector as LabelSelector, SelectorOperator, SelectorRequirement};

/// Labels and fields that objects must have; empty for all objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    labels: Vec<SelectorRequirement>,
    name: Option<String>,
    namespace: Option<String>,
    fields: Vec<Field>,
}

/// A field of the object itself.
#[derive(Clone, Debug, PartialEq)]
struct Field {
    pointer: String,
    value: String,
    /// Whether it must be this value, or must not.
    is: bool,
}

impl Selector {
    /// Reads the parameters `labelSelector` and `fieldSelector`, on objects of a resource.
    pub(super) fn parse(labels: Option<&str>, fields: Option<&str>, resource: &Resource) -> Result<Selector, Failure> {
        let mut selector = Selector::default();
        if let Some(labels) = labels.filter(|labels| !labels.trim().is_empty()) {
            let unparsable = |why| Failure::bad_request(format!("unable to parse requirement: {why}"));
            selector.labels = labels.parse::<LabelSelector>().map_err(unparsable)?.match_expressions;
        }
        for term in fields.unwrap_or_default().split(',').filter(|term| !term.is_empty()) {
            selector.add_field(term, resource)?;
        }
        Ok(selector)
    }

    /// Requires one more label.
    pub(super) fn and_label(mut self, key: &str, value: &str) -> Selector {
        let (operator, values) = (SelectorOperator::In, vec![value.to_owned()]);
        self.labels.push(SelectorRequirement { key: key.to_owned(), operator, values });
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

    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.name.is_none() && self.namespace.is_none() && self.fields.is_empty()
    }

    pub(super) fn matches(&self, key: &Key, stored: &Stored) -> bool {
        let label = |key: &str| stored.labels.get(key).map(|value| &**value);
        self.name.as_deref().is_none_or(|name| name == &*key.name)
            && self.namespace.as_deref().is_none_or(|namespace| namespace == &*key.namespace)
            && self.labels.iter().all(|requirement| requirement.matches(label(&requirement.key)))
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
