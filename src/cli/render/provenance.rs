//! `render --provenance`: for each field of what is rendered, where its value came from.

use serde_json::{Value, json};

use super::Format;
use crate::cli::inputs::Inputs;
use crate::mapping::expression::Scope;
use crate::mapping::template::provenance::Origin;
use crate::mapping::{Mapping, ObjectRule};
use crate::plan::preview::Preview;
use crate::plan::render::{Desired, Rendered, Wanted};
use crate::table;
use crate::yaml::{self, Node, NodeValue};

/// Longest value and expression in a table.
const WIDTH: usize = 60;

/// One field.
pub(super) struct Row {
    object: String,
    field: String,
    value: Value,
    /// `mappings/mongodb.yaml:57`
    place: String,
    expression: Option<String>,
    reads: Vec<String>,
}

/// The fields of everything that is rendered of a source, of several targets on the first. What the engine adds (its marks) is
/// left out.
pub(super) fn rows(inputs: &Inputs, mapping: &Mapping, preview: &Preview) -> Vec<Row> {
    let Some(file) = File::of(inputs, mapping) else { return Vec::new() };
    let mut rows = Vec::new();
    for (position, (rule, wanted)) in mapping.objects.iter().zip(preview.rendering().objects.iter()).enumerate() {
        let Some(node) = file.template(position) else { continue };
        match wanted {
            Ok(Wanted::One(Rendered::Present(desired))) => {
                rows.extend(file.rows(rule, node, &preview.rendering().scope, desired))
            }
            Ok(Wanted::Each(instances)) => {
                for instance in instances {
                    let mut scope = preview.rendering().scope.clone();
                    if let Some(each) = &rule.for_each {
                        scope.set_local(&each.item, instance.item.clone());
                    }
                    if let Some(desired) = instance.desired() {
                        rows.extend(file.rows(rule, node, &scope, desired));
                    }
                }
            }
            Ok(Wanted::One(_)) | Err(_) => {}
        }
    }
    rows
}

/// The file that a mapping stands in.
struct File<'a> {
    path: &'a str,
    content: &'a [u8],
    document: yaml::Document,
}

impl<'a> File<'a> {
    fn of(inputs: &'a Inputs, mapping: &Mapping) -> Option<Self> {
        inputs.readable.iter().find_map(|(path, content)| {
            let document = yaml::parse(content).into_iter().find(|document| document.text == mapping.text)?;
            Some(File { path, content, document })
        })
    }

    fn template(&self, position: usize) -> Option<&Node> {
        let objects = self.document.root.as_ref()?.get("spec")?.get("objects")?;
        let NodeValue::Sequence(nodes) = &objects.value else { return None };
        nodes.get(position)?.get("template").map(|node| &**node)
    }

    fn rows(&self, rule: &ObjectRule, node: &Node, scope: &Scope, desired: &Desired) -> Vec<Row> {
        let object = desired.reference.to_string();
        let origins = rule.template.provenance(node, scope);
        let placed = ["name", "namespace"].into_iter().filter_map(|field| {
            let given = origins.keys().any(|place| place.to_string() == format!("metadata.{field}"));
            let value = desired.body["metadata"].get(field).filter(|_| !given)?;
            Some(Row {
                object: object.clone(),
                field: format!("metadata.{field}"),
                value: value.clone(),
                place: String::new(),
                expression: None,
                reads: vec![format!("placement.{field}")],
            })
        });
        let mut rows: Vec<Row> = placed.collect();
        rows.extend(origins.into_iter().map(|(place, Origin { value, span, expression, reads })| Row {
            object: object.clone(),
            field: place.to_string(),
            value,
            place: format!("{}:{}", self.path, self.line(span.start)),
            expression,
            reads,
        }));
        rows
    }

    fn line(&self, byte: usize) -> usize {
        self.content.iter().take(byte).filter(|byte| **byte == b'\n').count() + 1
    }
}

pub(super) fn shown(format: Format, rows: &[Row]) -> String {
    format.shown(|| by_object(rows), || by_object(rows), || rows.iter().map(Row::to_json).collect())
}

impl Row {
    fn to_json(&self) -> Value {
        json!({
            "object": self.object, "field": self.field, "value": self.value, "place": self.place,
            "expression": self.expression, "reads": self.reads,
        })
    }
}

/// A table an object.
fn by_object(rows: &[Row]) -> String {
    let mut text = String::new();
    for of_one in rows.chunk_by(|one, other| one.object == other.object) {
        let cells = |row: &Row| {
            let written = row.expression.as_deref().unwrap_or(if row.place.is_empty() { "" } else { "literal" });
            [row.field.clone(), short(&row.value.to_string()), row.place.clone(), short(written), row.reads.join(", ")]
        };
        let title = of_one.first().map(|row| row.object.as_str()).unwrap_or_default();
        let separator = if text.is_empty() { "" } else { "\n" };
        text.push_str(&format!(
            "{separator}{title}\n{}",
            table::table(["FIELD", "VALUE", "LINE", "WRITTEN", "READS"], of_one.iter().map(cells))
        ));
    }
    text
}

/// One line, cut where it is too long.
fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
