//! The page of every field, made of the JSON Schema of the documents.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;
use sync_engine::mapping::document::json_schema;
use sync_engine::story::toy_operator;

use super::generated::notice;
use super::read;

const INTRODUCTION: &str = "
# Every field

[The language](language.md) says what the fields mean. Editors read `schemas/sync-engine.dev_v1alpha1.json`. An unknown field
([SE0101](errors.md#se0101)) and a value of another type ([SE0102](errors.md#se0102)) are errors.

*template*: any YAML, with expressions in it. *expression*: one `${{ … }}`, or a plain value. *word*: one of those that the text
explains.
";

/// What a free place of a document takes, where it is not a template.
const EXPRESSIONS: [&str; 5] = ["when", "forEach", "key", "ready", "failed"];

/// A map whose fields get a table of their own.
struct Section {
    title: String,
    definition: String,
}

/// Writes sections, each kind of map once.
struct Writer {
    definitions: Value,
    page: String,
    /// Titles of the sections by definition.
    titles: BTreeMap<String, String>,
    waiting: Vec<Section>,
}

pub fn page() -> String {
    let page = notice("the JSON Schema of crates/mapping/src/document") + INTRODUCTION;
    written(page, &json_schema(), &["Mapping", "ClusterProvider", "MappingTest", "ApiSchema"])
}

const TOY_OPERATORS: &str = "
# Toy operators

The [sandbox](sandbox.md) has no real operators. A `ToyOperator` document says what an operator would write into the objects of a
resource, and when. The engine ignores such documents. This one stands in for an object store:

";

/// The page of the documents that play operators.
pub fn toy_operators() -> String {
    let example = read("examples/bucket/examples/operator.yaml");
    let page = notice("src/story/toy_operator.rs") + TOY_OPERATORS + &format!("```yaml\n{example}```\n");
    written(page, &toy_operator::json_schema(), &["ToyOperator"])
}

/// The page with the documents of these kinds behind what it begins with.
fn written(page: String, schema: &Value, kinds: &[&str]) -> String {
    let definitions = schema["definitions"].clone();
    let mut writer = Writer { definitions, page, titles: BTreeMap::new(), waiting: Vec::new() };
    kinds.iter().for_each(|kind| writer.kind(kind));
    writer.page
}

impl Writer {
    fn kind(&mut self, kind: &str) {
        let definition = format!("{kind}Document");
        let _ = write!(self.page, "\n## {kind}\n\n{}\n", text(&self.definitions[&definition]["description"]));
        self.table(&definition, kind, "");
        while !self.waiting.is_empty() {
            // In the order in which a reader meets them: what belongs to a field before its neighbours.
            let section = self.waiting.remove(0);
            let later = std::mem::take(&mut self.waiting);
            self.section(kind, &section);
            self.waiting.extend(later);
        }
    }

    fn section(&mut self, kind: &str, section: &Section) {
        let _ = write!(self.page, "\n### {}\n", section.title);
        // One plain sentence says no more than the field of the map does.
        let description = text(&self.definitions[&section.definition]["description"]);
        if [": ", ". ", "("].iter().any(|more| description.contains(more)) {
            let _ = write!(self.page, "\n{description}\n");
        }
        let path = section.title.split(' ').nth(1).unwrap_or_default().to_owned();
        self.table(&section.definition, kind, &path);
    }

    fn table(&mut self, definition: &str, kind: &str, path: &str) {
        let schema = self.definitions[definition].clone();
        self.page.push('\n');
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let is_required = |(name, _): &(String, Value)| required.contains(&name.as_str());
        let (must, may): (Vec<_>, Vec<_>) = fields(&schema).into_iter().partition(is_required);
        for (name, field) in must.into_iter().chain(may) {
            let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let value = self.value(&name, &field, kind, &below);
            let must = if required.contains(&name.as_str()) { ", **required**" } else { "" };
            let description = self.description(&field).replace(&format!(": {value}."), ".");
            let description = match description.strip_prefix(&value) {
                Some("") => "",
                Some(rest) if rest.starts_with('.') => rest[1..].trim_start(),
                _ => &description,
            };
            let words = value.split('`').skip(1).step_by(2);
            let explained =
                value.starts_with('`') && words.clone().all(|word| description.contains(&format!("`{word}`: ")));
            let value = if explained { "*word*" } else { &value };
            let colon = if description.is_empty() { "" } else { ": " };
            let _ = writeln!(self.page, "* `{name}` ({value}{must}){colon}{description}");
        }
    }

    /// What a field takes; maps get a section, and a link to it.
    fn value(&mut self, name: &str, field: &Value, kind: &str, path: &str) -> String {
        if let Some(definition) = reference(field) {
            return self.referenced(&definition, kind, path);
        }
        let either = field["anyOf"].as_array().or(field["oneOf"].as_array());
        if let Some(choices) = either {
            let choices: Vec<_> = choices.iter().filter(|choice| choice["type"] != "null").cloned().collect();
            let values: Vec<_> = choices.iter().map(|choice| self.value(name, choice, kind, path)).collect();
            return values.join(" or ");
        }
        match form(field) {
            Some("array") => {
                format!("list of {}", self.value(name, &field["items"].clone(), kind, &format!("{path}[]")))
            }
            Some("object") => match field.get("additionalProperties") {
                Some(below) if below.is_object() => {
                    format!("map of {}", self.value(name, &below.clone(), kind, &format!("{path}.*")))
                }
                _ => format!("map of {}", free(name, kind)),
            },
            Some(form) => form.to_owned(),
            None => free(name, kind).to_owned(),
        }
    }

    fn referenced(&mut self, definition: &str, kind: &str, path: &str) -> String {
        let schema = self.definitions[definition].clone();
        if let Some(words) = words(&schema) {
            return words;
        }
        let either = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
        if let Some(choices) = either.filter(|choices| choices.iter().all(|one| one["properties"].is_null())) {
            let values: Vec<_> = choices.clone().iter().map(|choice| self.value("", choice, kind, path)).collect();
            return values.join(" or ");
        }
        if fields(&schema).is_empty() {
            return match schema["pattern"].as_str() {
                Some(_) => "length of time".to_owned(),
                None => form(&schema).unwrap_or("map").to_owned(),
            };
        }
        let title = self.titles.get(definition).cloned().unwrap_or_else(|| {
            let mut title = format!("{kind} {path}");
            // A second form of one field is told from the first by what it must have.
            if self.titles.values().any(|taken| *taken == title) {
                let _ = write!(title, " with {}", text(&schema["required"][0]));
            }
            self.titles.insert(definition.to_owned(), title.clone());
            self.waiting.push(Section { title: title.clone(), definition: definition.to_owned() });
            title
        });
        format!("[{}](#{})", title.split_once(' ').map_or("", |(_, path)| path), anchor(&title))
    }

    /// What a field is for, what its words mean, and its default.
    fn description(&self, field: &Value) -> String {
        let mut description = text(&field["description"]);
        let nested = field["anyOf"].as_array().into_iter().flatten().find_map(reference);
        let items = reference(&field["items"]);
        if let Some(definition) = reference(field).or(nested).or(items) {
            let words = self.definitions[&definition]["oneOf"].as_array().into_iter().flatten();
            for word in words.filter(|word| word["const"].is_string() && word["description"].is_string()) {
                let _ = write!(description, " `{}`: {}", text(&word["const"]), text(&word["description"]));
            }
        }
        if let Some(default) = field.get("default").and_then(Value::as_str) {
            let _ = write!(description, " Default: `{default}`.");
        }
        description.trim().to_owned()
    }
}

/// What a place takes that the schema leaves free.
fn free(name: &str, kind: &str) -> &'static str {
    match (kind, name) {
        ("ApiSchema", _) => "field",
        ("MappingTest", "observed" | "related") => "*template*",
        ("MappingTest", _) | (_, "default" | "parameters") => "any value",
        (_, "path") => "JSONPath",
        (_, name) if EXPRESSIONS.contains(&name) => "*expression*",
        _ => "*template*",
    }
}

/// The fields of a map; of a choice between maps of one field, those.
fn fields(schema: &Value) -> Vec<(String, Value)> {
    let own = schema["properties"].as_object().into_iter().flatten();
    let choices = schema["oneOf"].as_array().into_iter().flatten();
    let chosen = choices.flat_map(|choice| {
        let fields = choice["properties"].as_object().into_iter().flatten();
        fields.map(|(name, field)| {
            let mut field = field.clone();
            if let (Some(field), Some(description)) = (field.as_object_mut(), choice.get("description")) {
                field.insert("description".to_owned(), description.clone());
            }
            (name.clone(), field)
        })
    });
    own.map(|(name, field)| (name.clone(), field.clone())).chain(chosen).collect()
}

/// `A`, `B` or `C` of a choice between words.
fn words(schema: &Value) -> Option<String> {
    let listed = schema["enum"].as_array().map(|words| words.iter().map(text).collect::<Vec<_>>());
    let described = schema["oneOf"].as_array().map(|choices| {
        let one = choices.iter().flat_map(|choice| match &choice["const"] {
            Value::String(word) => vec![word.clone()],
            _ => choice["enum"].as_array().into_iter().flatten().map(text).collect(),
        });
        one.collect::<Vec<_>>()
    });
    let constant = schema["const"].as_str().map(|word| vec![word.to_owned()]);
    let words = listed.or(constant).or(described).filter(|words| !words.is_empty())?;
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    Some(match &quoted[..] {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        all => all.concat(),
    })
}

fn reference(schema: &Value) -> Option<String> {
    schema["$ref"].as_str()?.strip_prefix("#/definitions/").map(str::to_owned)
}

/// The one type that is not null.
fn form(schema: &Value) -> Option<&'static str> {
    let name = match &schema["type"] {
        Value::String(name) => name.as_str(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).find(|name| *name != "null")?,
        _ => return None,
    };
    ["string", "integer", "number", "boolean", "array", "object"].into_iter().find(|known| *known == name)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().replace('\n', " ")
}

/// How GitHub names a heading.
pub fn anchor(title: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    title.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}
