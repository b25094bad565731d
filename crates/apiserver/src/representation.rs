//! How the objects of an answer are shown: whole, by their metadata alone, or as the rows of a table.
//! The header `Accept` asks for it; reads and watches heed it.

use hyper::body::Bytes;
use serde_json::{Value, json};

use super::collection::Stored;
use super::read;
use super::request::Request;
use super::state::View;
use super::table::Column;
use super::timestamp::Timestamp;

/// What is shown of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Representation {
    #[default]
    Whole,
    Metadata,
    Table(InRow),
}

/// What a table's row holds of its object, beside the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InRow {
    Nothing,
    Metadata,
    Object,
}

/// Group and version of tables and of metadata alone.
const META: &str = "meta.k8s.io/v1";

impl Representation {
    /// The first of the forms that a request accepts and that there is; `None` where there is none of them. Who names
    /// none takes any.
    pub fn asked_for(request: &Request) -> Option<Representation> {
        if request.accept.is_empty() {
            return Some(Representation::Whole);
        }
        let in_row = match request.query.get("includeObject") {
            Some("None") => InRow::Nothing,
            Some("Object") => InRow::Object,
            _ => InRow::Metadata,
        };
        let mut accepted = request.accept.split(',').filter_map(|range| Representation::of_range(range, in_row));
        accepted.next()
    }

    /// `application/json;as=Table;v=v1;g=meta.k8s.io`
    fn of_range(range: &str, in_row: InRow) -> Option<Representation> {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next()?;
        if !matches!(media_type, "application/json" | "application/*" | "*/*") {
            return None;
        }
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let parameter = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let is_meta = (parameter("g"), parameter("v")) == (Some("meta.k8s.io"), Some("v1"));
        match parameter("as") {
            None => Some(Representation::Whole),
            Some("Table") if is_meta => Some(Representation::Table(in_row)),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") if is_meta => Some(Representation::Metadata),
            Some(_) => None,
        }
    }
}

impl View {
    /// One object by itself.
    pub(super) fn object(&self, stored: &Stored, now: Timestamp) -> Bytes {
        let item = self.item(stored, now);
        let Representation::Table(_) = self.representation else { return item };
        let head = self.head(json!({"resourceVersion": stored.version.to_string()}));
        self.with_items(&head, &[item]).into()
    }

    /// One object among others.
    pub(super) fn item(&self, stored: &Stored, now: Timestamp) -> Bytes {
        match self.representation {
            Representation::Whole => read::body(&self.resource, &self.version, stored),
            Representation::Metadata => metadata(&stored.object()).to_string().into(),
            Representation::Table(in_row) => {
                let object = read::in_version(&self.resource, &self.version, stored.object());
                let cells: Vec<Value> = self.columns().iter().map(|column| column.cell(&object, now)).collect();
                match in_row {
                    InRow::Nothing => json!({"cells": cells}),
                    InRow::Metadata => json!({"cells": cells, "object": metadata(&object)}),
                    InRow::Object => json!({"cells": cells, "object": object}),
                }
                .to_string()
                .into()
            }
        }
    }

    /// What stands for no object, only for a version.
    pub(super) fn bookmark(&self, bookmark_metadata: Value) -> String {
        let (kind, api_version) = match self.representation {
            Representation::Whole => (&*self.resource.kind, &*self.resource.api_version(&self.version)),
            Representation::Metadata => ("PartialObjectMetadata", META),
            Representation::Table(_) => return self.with_items(&self.head(bookmark_metadata), &[]),
        };
        json!({"kind": kind, "apiVersion": api_version, "metadata": bookmark_metadata}).to_string()
    }

    /// A list without its items.
    pub(super) fn head(&self, list_metadata: Value) -> Value {
        let (kind, api_version) = match self.representation {
            Representation::Whole => (&*self.resource.list_kind, &*self.resource.api_version(&self.version)),
            Representation::Metadata => ("PartialObjectMetadataList", META),
            Representation::Table(_) => ("Table", META),
        };
        let mut head = json!({"kind": kind, "apiVersion": api_version, "metadata": list_metadata});
        // A typed list omits what is empty.
        let fields = head["metadata"].as_object_mut().filter(|_| self.representation == Representation::Metadata);
        fields.into_iter().for_each(|fields| fields.retain(|_, value| value != ""));
        if let Representation::Table(_) = self.representation {
            head["columnDefinitions"] = json!(self.columns());
        }
        head
    }

    /// A list with its items, which are JSON already.
    pub(super) fn with_items(&self, head: &Value, items: &[Bytes]) -> String {
        let mut text = head.to_string();
        text.pop();
        text.reserve(items.iter().map(|item| item.len() + 1).sum::<usize>() + 16);
        let field = if let Representation::Table(_) = self.representation { ",\"rows\":[" } else { ",\"items\":[" };
        text.push_str(field);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(std::str::from_utf8(item).expect("bodies are serialized JSON"));
        }
        text.push_str("]}");
        text
    }

    fn columns(&self) -> &[Column] {
        self.resource.version(&self.version).map_or(&[][..], |version| &version.columns)
    }
}

fn metadata(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": object["metadata"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(accept: &str) -> Option<Representation> {
        let mut request = Request::get("/api/v1/namespaces?includeObject=None");
        request.accept = accept.to_owned();
        Representation::asked_for(&request)
    }

    #[test]
    fn the_first_form_that_there_is_is_taken() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(asked(table), Some(Representation::Table(InRow::Nothing)));
        let later = "application/json;as=Table;v=v9;g=meta.k8s.io, application/json";
        assert_eq!(asked(later), Some(Representation::Whole));
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(asked(metadata), Some(Representation::Metadata));
        for whole in ["", "*/*", "application/json;stream=watch", "text/html, */*;q=0.8"] {
            assert_eq!(asked(whole), Some(Representation::Whole), "{whole}");
        }
        assert_eq!(asked("application/vnd.kubernetes.protobuf"), None);
    }
}
