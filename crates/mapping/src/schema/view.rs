//! A place of a schema, and where one can go from it.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::Schema;

/// What every object has, whatever its schema spells out:
/// <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/>. A `default` stands for what the server
/// always sets.
static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let (text, integer) = (json!({"type": "string"}), json!({"type": "integer"}));
    let (set, texts) = (
        json!({"type": "string", "default": ""}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
    );
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"type": "object", "default": {}, "properties": {
        "name": set, "namespace": set, "uid": set, "resourceVersion": set, "creationTimestamp": set,
        "generation": {"type": "integer", "default": 0},
        "labels": texts, "annotations": texts,
        "generateName": text, "selfLink": text, "deletionTimestamp": text, "deletionGracePeriodSeconds": integer,
        "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "ownerReferences": {"type": "array", "x-kubernetes-list-type": "map", "items": open},
        "managedFields": {"type": "array", "items": open},
    }})
});

/// A place of a schema: the whole object, a field, an item.
#[derive(Debug, Clone, Copy)]
pub struct View<'s> {
    schema: &'s Schema,
    node: &'s Value,
    is_root: bool,
}

/// What stands under a name.
#[derive(Debug, Clone, Copy)]
pub enum Field<'s> {
    Known(View<'s>),
    /// The schema leaves it open.
    Open,
    Unknown,
}

impl<'s> Field<'s> {
    /// What stands there, where the schema says it.
    pub fn known(self) -> Option<View<'s>> {
        if let Self::Known(view) = self { Some(view) } else { None }
    }
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text,
    Integer,
    Number,
    Boolean,
    List,
    Map,
    IntegerOrText,
    /// The schema does not say.
    Any,
}

impl Schema {
    /// The whole object.
    pub fn view(&self) -> View<'_> {
        View { schema: self, node: self.resolve(&self.root), is_root: true }
    }
}

impl<'s> View<'s> {
    fn below(self, node: &'s Value) -> Self {
        View { schema: self.schema, node: self.schema.resolve(node), is_root: false }
    }

    /// The schema it is a place of.
    pub fn schema(self) -> &'s Schema {
        self.schema
    }

    /// What a field of a map is, or an item of a list: `*` or a number.
    pub fn field(self, name: &str) -> Field<'s> {
        let (schema, is_metadata) = (self.node, matches!(name, "apiVersion" | "kind" | "metadata"));
        if self.is_root && is_metadata {
            return if name == "metadata" { Field::Known(self.below(&METADATA)) } else { Field::Open };
        }
        if let Some(property) = schema["properties"].get(name) {
            return Field::Known(self.below(property));
        }
        let embedded = schema["x-kubernetes-embedded-resource"] == true;
        if embedded && is_metadata || schema["x-kubernetes-preserve-unknown-fields"] == true {
            return Field::Open;
        }
        match &schema["additionalProperties"] {
            Value::Bool(true) => return Field::Open,
            below @ Value::Object(_) => return Field::Known(self.below(below)),
            _ => {}
        }
        let is_item = name == "*" || name.bytes().all(|byte| byte.is_ascii_digit());
        match &schema["items"] {
            below @ Value::Object(_) if is_item => Field::Known(self.below(below)),
            // Neither type nor fields: anything goes.
            _ if schema.get("type").is_none()
                && schema.get("properties").is_none()
                && schema["x-kubernetes-int-or-string"] != true =>
            {
                Field::Open
            }
            _ => Field::Unknown,
        }
    }

    /// What the items of a list are; `None`: the schema does not say.
    pub fn item(self) -> Option<Self> {
        self.node.get("items").filter(|items| items.is_object()).map(|items| self.below(items))
    }

    /// The fields that are spelled out.
    pub fn fields(self) -> impl Iterator<Item = (&'s str, View<'s>)> {
        let properties = self.node.get("properties").and_then(Value::as_object);
        properties.into_iter().flatten().map(move |(name, node)| (name.as_str(), self.below(node)))
    }

    pub fn required(self) -> impl Iterator<Item = &'s str> {
        self.node.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// Whether the server puts a value where there is none.
    pub fn has_default(self) -> bool {
        self.node.get("default").is_some()
    }

    pub fn is_nullable(self) -> bool {
        self.node["nullable"] == true
    }

    /// The values it can have, where they are listed.
    pub fn choices(self) -> Option<&'s [Value]> {
        self.node.get("enum").and_then(Value::as_array).map(Vec::as_slice)
    }

    /// The pattern, the smallest and the largest value.
    pub fn bounds(self) -> (Option<&'s str>, Option<f64>, Option<f64>) {
        (self.node["pattern"].as_str(), self.node["minimum"].as_f64(), self.node["maximum"].as_f64())
    }

    /// Whether it is a text of which nothing says what it can be.
    pub fn is_any_text(self) -> bool {
        let rules = ["pattern", "enum", "format", "x-kubernetes-validations", "allOf", "anyOf", "oneOf", "not"];
        self.form() == Form::Text && rules.iter().all(|rule| self.node.get(rule).is_none())
    }

    /// Some values that a number or a truth value can be.
    pub fn examples(self) -> Vec<Value> {
        let rules = ["multipleOf", "x-kubernetes-validations", "allOf", "anyOf", "oneOf", "not"];
        let is_exclusive = ["exclusiveMinimum", "exclusiveMaximum"].iter().any(|rule| self.node.get(rule).is_some());
        if is_exclusive || rules.iter().any(|rule| self.node.get(rule).is_some()) {
            return Vec::new();
        }
        match (self.choices(), self.form()) {
            (Some(choices), _) => choices.iter().filter(|choice| !choice.is_null()).cloned().collect(),
            (None, Form::Boolean) => vec![Value::Bool(true), Value::Bool(false)],
            (None, Form::Integer) => {
                let ends = ["minimum", "maximum"].map(|end| self.node[end].as_i64());
                ends.into_iter().flatten().map(Value::from).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The items that a list has at least.
    pub fn min_items(self) -> u64 {
        self.node["minItems"].as_u64().unwrap_or_default()
    }

    /// The items that a list has at most.
    pub fn max_items(self) -> Option<usize> {
        self.node["maxItems"].as_u64().and_then(|most| most.try_into().ok())
    }

    /// The fields by which a server tells the items of a list apart; none: by the whole items.
    pub fn item_keys(self) -> Option<Vec<&'s str>> {
        match self.node["x-kubernetes-list-type"].as_str()? {
            "set" => Some(Vec::new()),
            "map" => {
                let keys = self.node["x-kubernetes-list-map-keys"].as_array()?;
                Some(keys.iter().filter_map(Value::as_str).collect())
            }
            _ => None,
        }
    }

    /// The characters that a text has at least and at most.
    pub fn lengths(self) -> (Option<usize>, Option<usize>) {
        let characters = |limit: &str| self.node[limit].as_u64().and_then(|length| length.try_into().ok());
        (characters("minLength"), characters("maxLength"))
    }

    pub fn form(self) -> Form {
        Form::of_schema(self.node)
    }

    /// Whether server-side apply replaces it as a whole: what an apply leaves out of it is gone.
    pub fn is_atomic(self) -> bool {
        match self.form() {
            Form::List => !matches!(self.node["x-kubernetes-list-type"].as_str(), Some("map" | "set")),
            Form::Map => self.node["x-kubernetes-map-type"] == "atomic",
            _ => false,
        }
    }
}

impl Form {
    /// Of the values that a schema describes.
    pub fn of_schema(schema: &Value) -> Self {
        if schema["x-kubernetes-int-or-string"] == true || schema["format"] == "int-or-string" {
            return Self::IntegerOrText;
        }
        match schema["type"].as_str() {
            Some("string") => Self::Text,
            Some("integer") => Self::Integer,
            Some("number") => Self::Number,
            Some("boolean") => Self::Boolean,
            Some("array") => Self::List,
            Some("object") => Self::Map,
            _ => Self::Any,
        }
    }

    /// Of a value.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Any,
            Value::Bool(_) => Self::Boolean,
            // Numbers are compared by value: the server takes `1.0` for an integer.
            Value::Number(number) if number.as_f64().is_some_and(|number| number.fract() == 0.0) => Self::Integer,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::Text,
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Map,
        }
    }

    /// Whether some value of this type is one of the other.
    pub fn meets(self, other: Self) -> bool {
        use Form::{Any, Integer, IntegerOrText, Number, Text};
        self == other
            || matches!(
                (self, other),
                (Any, _)
                    | (_, Any)
                    | (Integer, Number)
                    | (Number, Integer)
                    | (IntegerOrText, Integer | Number | Text)
                    | (Integer | Number | Text, IntegerOrText)
            )
    }

    /// With its article.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::List => "a list",
            Self::Map => "a map",
            Self::IntegerOrText => "an integer or a string",
            Self::Any => "anything",
        }
    }
}
