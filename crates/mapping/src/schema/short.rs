//! kcp's documents of an API that an `ApiSchema` says in short.

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::compile::{is_version, parse_resource};
use crate::diagnostic::Finding;
use crate::document::ApiSchemaDocument;
use crate::hash::tuple_hash;
use crate::names::{is_dns_label, is_dns_subdomain};
use crate::object::claims::WRITE;
use crate::yaml::{Node, NodeValue, Spanned, closest, meant};

/// What is written from an `ApiSchema`.
#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    pub resource_schema: Value,
    pub export: Value,
}

const TYPES: [&str; 5] = ["string", "integer", "number", "boolean", "object"];

/// What can be said of a field, and of which types; of no type: of any.
const MARKERS: [(&str, &[&str]); 12] = [
    ("required", &[]),
    ("default", &[]),
    ("description", &[]),
    ("immutable", &[]),
    ("enum", &["string", "integer", "number"]),
    ("minimum", &["integer", "number"]),
    ("maximum", &["integer", "number"]),
    ("minLength", &["string"]),
    ("maxLength", &["string"]),
    ("pattern", &["string"]),
    ("minItems", &["array"]),
    ("maxItems", &["array"]),
];

const IN_QUOTES: &str = "`key=value`, values with spaces in quotes: `description=\"The size.\"`";

/// Markers that bound a value from both sides.
const LIMITS: [(&str, &str); 3] = [("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")];

/// Writes an API out. `None`: a finding says why.
pub fn build(document: &ApiSchemaDocument, findings: &mut Vec<Finding>) -> Option<Built> {
    let spec = &document.spec;
    // Servers take no API of one's own without such a group.
    let Some(resource) = parse_resource(&spec.resource).filter(|resource| resource.group.contains('.')) else {
        let message = format!("`{}` is no resource of a group of its own", spec.resource.value);
        let help = "a plural, a version, and a domain name: `databases.v1.example.com`";
        findings.push(Finding::new("SE0112", spec.resource.span(), message).help(help));
        return None;
    };
    let mut fields = Fields { findings };
    let (before, object) =
        (fields.findings.len(), |properties: Value| json!({"type": "object", "properties": properties}));
    let mut properties = json!({"apiVersion": {"type": "string"}, "kind": {"type": "string"}});
    properties["metadata"] = match &spec.name {
        Some(name) => object(json!({"name": fields.name(&name.0)})),
        None => json!({"type": "object"}),
    };
    let of_spec = fields.field(&spec.spec.0);
    let is_required = has_required(&of_spec.schema);
    properties["spec"] = of_spec.schema;
    let status = spec.status.as_ref().map(|status| fields.field(&status.0).schema);
    properties["status"] = status.unwrap_or_else(|| object(json!({})));
    if spec.conditions != Some(false) {
        if let Some((key, _)) = spec.status.as_ref().and_then(|status| status.0.entry("conditions")) {
            let help = "leave it out; `conditions: false` beside `status` takes them out".to_owned();
            fields.wrong(key, "`conditions` come by themselves".to_owned(), help);
        }
        let status = &mut properties["status"]["properties"];
        status["observedGeneration"] = json!({"type": "integer", "format": "int64"});
        status["conditions"] = conditions();
    }
    let mut root = object(properties);
    if is_required {
        root["required"] = json!(["spec"]);
    }
    let columns = spec.columns.0.iter().filter_map(|(name, path)| fields.column(name, path, &root));
    let age = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
    let columns: Vec<Value> = columns.collect::<Vec<_>>().into_iter().chain([age]).collect();
    for (name, _) in spec.versions.0.iter().filter(|(name, _)| !is_version(name) || **name == resource.version) {
        let message = format!("`{}` names no other version of the API", name.value);
        let help = format!("`v1beta1`, for example; `resource` has `{}` already", resource.version);
        fields.findings.push(Finding::new("SE0132", name.span(), message).help(help));
    }
    if !is_dns_label(&spec.kind.to_lowercase()) {
        let finding = Finding::new("SE0132", spec.kind.span(), format!("`{}` is no kind", spec.kind.value));
        fields.findings.push(finding.help("letters and digits, a capital first: `Database`, for example"));
    }
    for name in spec.short_names.iter().filter(|name| !is_dns_label(name)) {
        let finding = Finding::new("SE0132", name.span(), format!("`{}` is no short name", name.value));
        fields.findings.push(finding.help("lower case letters, digits and `-`: `db`, for example"));
    }
    for claim in spec.claims.iter().filter(|claim| !is_claim(claim)) {
        let finding = Finding::new("SE0132", claim.span(), format!("`{}` is no resource to claim", claim.value));
        fields.findings.push(finding.help("a plural with its group, without a version: `secrets`, `deployments.apps`"));
    }
    if fields.findings.len() > before {
        return None;
    }
    let lower = spec.kind.to_lowercase();
    let mut names = json!({
        "kind": spec.kind.value, "listKind": format!("{}List", spec.kind.value), "plural": resource.plural, "singular": lower,
    });
    if !spec.short_names.is_empty() {
        names["shortNames"] = spec.short_names.iter().map(|name| name.value.as_str()).collect();
    }
    let version = |name: &str, served: bool, storage: bool| {
        json!({
            "name": name, "served": served, "storage": storage, "subresources": {"status": {}},
            "additionalPrinterColumns": columns, "schema": root,
        })
    };
    let others = spec.versions.0.iter().map(|(name, other)| {
        let mut version = version(name, other.served != Some(false), false);
        if let Some(warning) = &other.deprecated {
            version["deprecated"] = true.into();
            version["deprecationWarning"] = json!(warning);
        }
        version
    });
    let versions: Vec<Value> = std::iter::once(version(&resource.version, true, true)).chain(others).collect();
    let mut body = json!({"group": resource.group, "names": names, "scope": "Namespaced", "versions": versions});
    if versions.len() > 1 {
        body["conversion"] = json!({"strategy": "None"});
    }
    // kcp lets nobody change the spec of an APIResourceSchema: another spec has another name.
    let prefix = format!("{}-{}", resource.version, tuple_hash([&*body.to_string()], 8));
    let name = format!("{prefix}.{}.{}", resource.plural, resource.group);
    let claim = |claim: &Spanned<String>| {
        let (resource, group) = claim.split_once('.').unwrap_or((claim.as_str(), ""));
        json!({"group": group, "resource": resource, "verbs": WRITE})
    };
    let claims = spec.claims.iter().map(claim).collect();
    Some(documents(&document.metadata.name.value, &name, body, claims))
}

/// kcp's documents of an API: the APIExport of this name, and the APIResourceSchema `name` with this spec.
pub fn documents(export: &str, name: &str, body: Value, claims: Vec<Value>) -> Built {
    let mut export = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": export},
        "spec": {"resources": [
            {"group": body["group"], "name": body["names"]["plural"], "schema": name, "storage": {"crd": {}}},
        ]},
    });
    if !claims.is_empty() {
        export["spec"]["permissionClaims"] = claims.into();
    }
    let resource_schema = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": name}, "spec": body,
    });
    Built { resource_schema, export }
}

/// Conditions as Kubernetes has them (`metav1.Condition`).
pub fn conditions() -> Value {
    json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "items": {"type": "object", "required": ["type", "status"], "properties": {
            "type": {"type": "string"},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": {"type": "string"},
            "message": {"type": "string"},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64"},
        }},
    })
}

fn has_required(schema: &Value) -> bool {
    schema["required"].as_array().is_some_and(|required| !required.is_empty())
}

/// Reads fields, and says what is wrong with them.
struct Fields<'f> {
    findings: &'f mut Vec<Finding>,
}

#[derive(Default)]
struct Field {
    schema: Value,
    is_required: bool,
}

impl Fields<'_> {
    fn wrong(&mut self, node: &Node, message: String, help: String) -> Field {
        self.findings.push(Finding::new("SE0132", node.headline(), message).help(help));
        Field::default()
    }

    fn name(&mut self, node: &Node) -> Value {
        let Field { schema, .. } = self.field(node);
        if !schema.is_null() && schema["type"] != "string" {
            self.wrong(node, "the name of an object is a text".into(), "`string | maxLength=40`, for example".into());
        }
        schema
    }

    fn field(&mut self, node: &Node) -> Field {
        match &node.value {
            NodeValue::String(scalar) => self.text(node, &scalar.text),
            NodeValue::Mapping(entries) => self.map(entries),
            NodeValue::Sequence(items) if items.len() == 1 => {
                let items = self.field(&items[0]).schema;
                Field { schema: json!({"type": "array", "items": items}), is_required: false }
            }
            _ => self.wrong(
                node,
                format!("expected a field, found {}", node.describe()),
                "`string | required=true`, a map of fields, or a list with one of them".into(),
            ),
        }
    }

    fn map(&mut self, entries: &[(std::sync::Arc<Node>, std::sync::Arc<Node>)]) -> Field {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        let mut own = Field { schema: json!({"type": "object"}), is_required: false };
        for (key, node) in entries {
            let name = key.as_str().unwrap_or_default();
            if name == "$" {
                own = self.marked(node, json!({"type": "object"}), "object", node.as_str().unwrap_or_default());
                continue;
            }
            let Field { schema, is_required } = self.field(node);
            if is_required {
                required.push(name.to_owned());
            }
            properties.insert(name.to_owned(), schema);
        }
        let has_default = properties.values().any(|field| field.get("default").is_some());
        if has_default && required.is_empty() && !own.is_required {
            // A server fills in defaults of maps that are there.
            own.schema["default"] = json!({});
        }
        if !required.is_empty() {
            own.schema["required"] = json!(required);
        }
        own.schema["properties"] = Value::Object(properties);
        own
    }

    /// `integer | default=3 minimum=1`
    fn text(&mut self, node: &Node, text: &str) -> Field {
        let (of, markers) = text.split_once('|').unwrap_or((text, ""));
        let Some(schema) = schema_of(of.trim()) else {
            let types = || format!("{}; `[]string` and `map[string]string` of them", TYPES.join(", "));
            let parted = of.trim().split_once(char::is_whitespace).filter(|(first, _)| schema_of(first).is_some());
            let parted = parted.map(|(first, rest)| format!("write `{first} | {}`", rest.trim()));
            let listed = of.trim().strip_suffix("[]").filter(|item| schema_of(item).is_some());
            let listed = listed.map(|item| format!("write `\"[]{item}\"`, in quotes"));
            let help = parted.or(listed).or_else(|| meant(of.trim(), &TYPES)).unwrap_or_else(types);
            return self.wrong(node, format!("`{}` is no type", of.trim()), help);
        };
        let form = schema["type"].as_str().unwrap_or_default().to_owned();
        self.marked(node, schema, &form, markers)
    }

    fn marked(&mut self, node: &Node, schema: Value, form: &str, text: &str) -> Field {
        let mut field = Field { schema, is_required: false };
        let Some(markers) = markers(text) else {
            let help = match text.matches('"').count() % 2 {
                0 => IN_QUOTES,
                _ => {
                    "close the quote; inside `{…}` and `[…]` a comma ends a text: put the whole field in single quotes there"
                }
            };
            return self.wrong(node, format!("`{}` cannot be read", text.trim()), help.to_owned());
        };
        for (index, (key, value)) in markers.iter().enumerate() {
            if markers[..index].iter().any(|(earlier, _)| earlier == key) {
                let message = format!("`{key}` stands here twice");
                return self.wrong(node, message, "a field has each marker once".into());
            }
            let names = MARKERS.map(|(name, _)| name);
            let Some((_, forms)) = MARKERS.iter().find(|(name, _)| name == key) else {
                let words = key.split_once(char::is_whitespace).map(|(first, _)| match names.contains(&first) {
                    true => format!("write `{first}=…`"),
                    false => IN_QUOTES.to_owned(),
                });
                let help = words.or_else(|| meant(key, &names));
                let help = help.unwrap_or_else(|| format!("there are: {}", names.join(", ")));
                return self.wrong(node, format!("a field has no `{key}`"), help);
            };
            if !forms.is_empty() && !forms.contains(&form) {
                let help = format!("it goes with {}", forms.join(" and "));
                return self.wrong(node, format!("`{key}` does not go with `{form}`"), help);
            }
            let typed = |text: &str| match form {
                "string" => Some(json!(text)),
                form => serde_json::from_str(text).ok().filter(|value| is_of(value, form)),
            };
            let said = match (&**key, &**value) {
                ("required", "true") => {
                    field.is_required = true;
                    continue;
                }
                ("immutable", "true") => {
                    let rule = json!([{"rule": "self == oldSelf", "message": "it cannot be changed"}]);
                    Some(("x-kubernetes-validations", rule))
                }
                ("required" | "immutable", "false") => continue,
                ("required" | "immutable", _) => None,
                ("default", _) => typed(value).map(|value| ("default", value)),
                ("enum", _) if !value.contains(',') && value.contains(['|', ';']) => None,
                ("enum", _) => {
                    let values: Option<Vec<_>> = value.split(',').map(|one| typed(one.trim())).collect();
                    values.map(|values| ("enum", json!(values)))
                }
                ("pattern", _) if Regex::new(value).is_err() => {
                    let message = format!("`{value}` is no regular expression");
                    let help = "groups are closed, `\\{` and `\\[` are the characters, and there is no `(?=…)`";
                    return self.wrong(node, message, help.to_owned());
                }
                ("description" | "pattern", _) => Some((&**key, json!(value))),
                ("minLength" | "maxLength" | "minItems" | "maxItems", _) => {
                    value.parse::<u32>().ok().map(|count| (&**key, json!(count)))
                }
                _ => serde_json::from_str::<Value>(value).ok().filter(Value::is_number).map(|value| (&**key, value)),
            };
            match said {
                Some((key, value)) => field.schema[key] = value,
                None => {
                    let message = format!("`{value}` cannot be the `{key}` of `{form}`");
                    let help = match &**key {
                        "required" | "immutable" => "`true` or `false`".to_owned(),
                        "default" => format!("a value of the type `{form}`"),
                        "enum" => format!("values of the type `{form}`, with commas between them"),
                        "minimum" | "maximum" => "a number".to_owned(),
                        _ => "a whole number, 0 at least".to_owned(),
                    };
                    return self.wrong(node, message, help);
                }
            }
        }
        let limit = |key: &str| field.schema.get(key).and_then(Value::as_f64);
        let crossed = LIMITS.iter().find(|(least, most)| limit(least).zip(limit(most)).is_some_and(|(a, b)| a > b));
        if let Some((least, most)) = crossed {
            let message = format!("no value is within `{least}` and `{most}`");
            return self.wrong(node, message, format!("`{least}` is at most as large as `{most}`"));
        }
        if let Some(default) = field.schema.get("default").filter(|default| !takes(&field.schema, default)) {
            let message = format!("the default {default} is no value that the field takes");
            return self.wrong(
                node,
                message,
                "give another one, or let `enum`, `pattern` and the limits take it".into(),
            );
        }
        field
    }

    fn column(&mut self, name: &Spanned<String>, path: &Spanned<String>, root: &Value) -> Option<Value> {
        let (mut schema, mut before) = (root, String::new());
        let mut help = "`.status.phase`, for example".to_owned();
        for key in path.value.strip_prefix('.').unwrap_or(&path.value).split('.') {
            let Some(below) = schema["properties"].get(key) else {
                let fields = schema["properties"].as_object().into_iter().flatten();
                let names: Vec<&str> = fields.map(|(name, _)| name.as_str()).collect();
                if let Some(meant) = closest(key, &names) {
                    help = format!("did you mean `{before}.{meant}`?");
                }
                schema = &Value::Null;
                break;
            };
            // What is wrong with the field was said.
            if below.is_null() {
                return None;
            }
            schema = below;
            before = format!("{before}.{key}");
        }
        match schema["type"].as_str().filter(|_| path.starts_with('.')) {
            Some(form) if !matches!(form, "object" | "array") => {
                Some(json!({"name": name.value, "type": form, "jsonPath": path.value}))
            }
            _ => {
                let message = format!("`{}` leads to no field that a column can show", path.value);
                self.findings.push(Finding::new("SE0132", path.span(), message).help(help));
                None
            }
        }
    }
}

fn schema_of(of: &str) -> Option<Value> {
    if let Some(item) = of.strip_prefix("[]") {
        return Some(json!({"type": "array", "items": schema_of(item)?}));
    }
    if let Some(value) = of.strip_prefix("map[string]") {
        return Some(json!({"type": "object", "additionalProperties": schema_of(value)?}));
    }
    match TYPES.contains(&of) {
        true if of == "object" => Some(json!({"type": of, "x-kubernetes-preserve-unknown-fields": true})),
        true => Some(json!({"type": of})),
        false => None,
    }
}

/// Whether a value is one that `enum`, `pattern` and the limits leave.
fn takes(schema: &Value, value: &Value) -> bool {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let is_listed = schema.get("enum").and_then(Value::as_array).is_none_or(|listed| listed.contains(value));
    let is_within = |number: f64, least: &str, most: &str| {
        bound(least).is_none_or(|least| number >= least) && bound(most).is_none_or(|most| number <= most)
    };
    let pattern = schema.get("pattern").and_then(Value::as_str).and_then(|pattern| Regex::new(pattern).ok());
    let fits = match value {
        Value::String(text) => {
            is_within(text.chars().count() as f64, "minLength", "maxLength")
                && pattern.is_none_or(|pattern| pattern.is_match(text))
        }
        Value::Array(items) => is_within(items.len() as f64, "minItems", "maxItems"),
        value => value.as_f64().is_none_or(|number| is_within(number, "minimum", "maximum")),
    };
    is_listed && fits
}

/// `secrets`, or `deployments.apps`.
fn is_claim(claim: &str) -> bool {
    is_dns_subdomain(claim) && !claim.split('.').nth(1).is_some_and(is_version)
}

fn is_of(value: &Value, form: &str) -> bool {
    match form {
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        _ => value.is_object(),
    }
}

/// `default=3 description="The size."`; in quotes, `\"` and `\\` stand for themselves.
fn markers(text: &str) -> Option<Vec<(String, String)>> {
    let (mut rest, mut all) = (text.trim(), Vec::new());
    while !rest.is_empty() {
        let (key, value) = rest.split_once('=')?;
        let (value, after) = match value.strip_prefix('"') {
            Some(quoted) => {
                let mut escaped = false;
                let end = quoted.find(|c| {
                    let ends = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    ends
                })?;
                (quoted[..end].replace("\\\"", "\"").replace("\\\\", "\\"), &quoted[end + 1..])
            }
            None => {
                let end = value.find(char::is_whitespace).unwrap_or(value.len());
                (value[..end].to_owned(), &value[end..])
            }
        };
        all.push((key.trim().to_owned(), value));
        rest = after.trim_start();
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::markers;

    #[test]
    fn markers_are_words_with_values() {
        let read =
            |text: &str| markers(text).map(|all| all.into_iter().map(|(k, v)| format!("{k}:{v}")).collect::<Vec<_>>());
        assert_eq!(
            read(" default=3  minimum=1 ").as_deref(),
            Some(&["default:3".to_owned(), "minimum:1".to_owned()][..])
        );
        assert_eq!(read(r#"description="a \"b\" \\ c" x=y"#).unwrap(), [r#"description:a "b" \ c"#, "x:y"]);
        assert_eq!(read(r#"description="a"#), None);
        assert_eq!(read("required"), None);
    }
}
