//! Where the values of what is rendered come from: the line of the mapping that wrote each, and what it reads.

use serde::Serialize;
use serde_json::Value;

use super::render::{Desired, Rendering};
use crate::mapping::expression::Scope;
use crate::mapping::template::provenance::{Origin, Place, Step};
use crate::mapping::{Mapping, ObjectRule};
use crate::object::compare::escape_pointer;

#[derive(Debug, Clone, Serialize)]
pub struct Written {
    pub object: String,
    pub field: String,
    /// The same as a JSON pointer.
    #[serde(skip)]
    pub pointer: String,
    pub value: Value,
    /// `mappings/mongodb.yaml:57`
    pub place: String,
    pub expression: Option<String>,
    pub reads: Vec<String>,
}

/// A file that a mapping stands in, or a part of it.
#[derive(Debug)]
pub struct File<'a> {
    pub path: &'a str,
    /// The number of its first line.
    pub first_line: usize,
    pub content: &'a [u8],
}

impl File<'_> {
    /// The fields of everything that is rendered. What the engine adds (its marks) is left out.
    pub fn rows(&self, mapping: &Mapping, rendering: &Rendering) -> Vec<Written> {
        let mut rows = Vec::new();
        for ((_, rule), wanted) in mapping.written_objects().zip(&rendering.objects) {
            for one in wanted.iter().flatten() {
                let mut scope = rendering.scope.clone();
                if let (Some(each), Some(item)) = (&rule.for_each, &one.item) {
                    scope.set_local(&each.item, item.clone());
                }
                if let Some(desired) = one.desired() {
                    rows.extend(self.of_object(rule, &scope, desired));
                }
            }
        }
        rows
    }

    fn of_object(&self, rule: &ObjectRule, scope: &Scope, desired: &Desired) -> Vec<Written> {
        let object = desired.reference.to_string();
        let origins = rule.template.provenance(scope);
        let placed = ["name", "namespace"].into_iter().filter_map(|field| {
            let given = origins.keys().any(|place| place.to_string() == format!("metadata.{field}"));
            let value = desired.body["metadata"].get(field).filter(|_| !given)?;
            Some(Written {
                object: object.clone(),
                field: format!("metadata.{field}"),
                pointer: format!("/metadata/{field}"),
                value: value.clone(),
                place: String::new(),
                expression: None,
                reads: vec![format!("placement.{field}")],
            })
        });
        let mut rows: Vec<Written> = placed.collect();
        rows.extend(origins.into_iter().map(|(place, Origin { value, span, expression, reads })| Written {
            object: object.clone(),
            field: place.to_string(),
            pointer: pointer(&place),
            value,
            place: format!("{}:{}", self.path, self.line(span.start)),
            expression,
            reads,
        }));
        rows
    }

    fn line(&self, byte: usize) -> usize {
        self.content.iter().take(byte).filter(|byte| **byte == b'\n').count() + self.first_line
    }
}

fn pointer(Place(steps): &Place) -> String {
    let step = |step: &Step| match step {
        Step::Key(key) => format!("/{}", escape_pointer(key)),
        Step::Index(index) => format!("/{index}"),
    };
    steps.iter().map(step).collect()
}
