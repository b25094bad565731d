//! Objects as rows for people: what `kubectl get` asks for.

mod age;
mod builtin;

use serde::Serialize;
use serde_json::Value;

use super::object;
use super::timestamp::Timestamp;
use age::since;
pub(super) use builtin::columns_of;
use sync_engine_mapping::jsonpath::JsonPath;

/// A column of a kind's table, as an answer says what its rows hold.
#[derive(Debug, Serialize)]
pub struct Column {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    format: String,
    description: String,
    /// 0: always shown; more: on a wide screen only.
    priority: i64,
    #[serde(skip)]
    cell: Cell,
}

/// How a column's cells are found.
#[derive(Debug)]
enum Cell {
    Path(JsonPath),
    Computed(fn(&Value, Timestamp) -> Value),
}

impl Column {
    fn computed(name: &str, cell: fn(&Value, Timestamp) -> Value) -> Column {
        let (kind, format) = ("string".to_owned(), String::new());
        Column {
            name: name.to_owned(),
            kind,
            format,
            description: String::new(),
            priority: 0,
            cell: Cell::Computed(cell),
        }
    }

    fn name() -> Column {
        let column = Column::computed("Name", |object, _| object::text(object, "name").into());
        Column { format: "name".into(), ..column }
    }

    fn wide(self) -> Column {
        Column { priority: 1, ..self }
    }

    /// One of `additionalPrinterColumns`. A path that cannot be read finds nothing.
    fn stated(column: &Value) -> Column {
        let text = |field: &str| column[field].as_str().unwrap_or_default().to_owned();
        Column {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: column["priority"].as_i64().unwrap_or_default(),
            cell: JsonPath::parse(&text("jsonPath")).map_or(Cell::Computed(|_, _| Value::Null), Cell::Path),
        }
    }

    pub(super) fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match &self.cell {
            Cell::Path(path) => path.select(object).first().map_or(Value::Null, |found| self.typed(found, now)),
            Cell::Computed(cell) => cell(object, now),
        }
    }

    /// A field's value under the column's type; null where it is of another.
    fn typed(&self, value: &Value, now: Timestamp) -> Value {
        match (&*self.kind, value) {
            (_, Value::Null) => Value::Null,
            ("string", Value::String(text)) => text.as_str().into(),
            ("string", other) => other.to_string().into(),
            ("integer", Value::Number(number)) => {
                number.as_i64().or(number.as_f64().map(|float| float as i64)).map_or(Value::Null, Value::from)
            }
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            ("date", Value::String(text)) => since(text, now).into(),
            _ => Value::Null,
        }
    }
}

/// The columns of a kind that a document defines: its own, or else the age.
pub(super) fn stated_columns(version: &Value) -> Vec<Column> {
    let stated: Vec<Column> =
        version["additionalPrinterColumns"].as_array().into_iter().flatten().map(Column::stated).collect();
    let stated = match stated.is_empty() {
        true => vec![Column { kind: "date".into(), ..builtin::age() }],
        false => stated,
    };
    std::iter::once(Column::name()).chain(stated).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_have_the_type_of_their_column() {
        let object = json!({
            "metadata": {"name": "a", "creationTimestamp": "1970-01-01T00:01:00Z"},
            "spec": {"size": 3, "share": 0.5, "on": true, "list": ["x"]},
            "status": {"conditions": [{"type": "Other", "status": "x"}, {"type": "Ready", "status": "True"}]},
        });
        let cases = [
            ("string", ".spec.size", json!("3")),
            ("string", ".spec.list", json!("[\"x\"]")),
            ("string", ".status.conditions[?(@.type==\"Ready\")].status", json!("True")),
            ("string", ".spec.missing", Value::Null),
            ("string", ".spec..[", Value::Null),
            ("integer", ".spec.size", json!(3)),
            ("integer", ".spec.on", Value::Null),
            ("number", ".spec.share", json!(0.5)),
            ("boolean", ".spec.on", json!(true)),
            ("date", ".metadata.creationTimestamp", json!("2m")),
            ("date", ".metadata.name", json!("<invalid>")),
        ];
        for (kind, path, expected) in cases {
            let column = Column::stated(&json!({"name": "X", "type": kind, "jsonPath": path}));
            assert_eq!(column.cell(&object, Timestamp(180)), expected, "{kind} {path}");
        }
    }
}
