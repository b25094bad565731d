//! Lists and watch lines as API servers write them, read without building trees. Pure.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::raw::{ItemType, NotAnObject, Parsed};
use super::request_error::Status;

/// Version and continue token of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PageEnd {
    /// Empty where the server gave none: the list says nothing then.
    pub(super) version: String,
    pub(super) next: Option<String>,
}

/// Reads a page and calls `item` for each object, in order.
pub(super) fn read_page(
    body: &[u8],
    mut item: impl FnMut(Parsed<'_>) -> Result<(), NotAnObject>,
) -> Result<PageEnd, NotAnObject> {
    let page: Page<'_> = serde_json::from_slice(body).map_err(|e| NotAnObject::new(format!("not a list: {e}")))?;
    let kind = page.kind.as_deref().and_then(|kind| kind.strip_suffix("List")).filter(|kind| !kind.is_empty());
    let is_metadata = page.kind.as_deref() == Some("PartialObjectMetadataList");
    let item_type = page.api_version.as_deref().zip(kind).map(|(api_version, kind)| ItemType { api_version, kind });
    for raw in page.items.into_iter().flatten() {
        item(Parsed::read(raw.get())?.of_list(item_type, is_metadata))?;
    }
    let next = page.metadata.next.filter(|token| !token.is_empty());
    Ok(PageEnd { version: page.metadata.resource_version.unwrap_or_default(), next })
}

/// One line of a watch.
#[derive(Debug)]
pub(super) enum WatchLine<'a> {
    Put(Parsed<'a>),
    Deleted(Parsed<'a>),
    Bookmark(String),
    Error(Box<Status>),
}

impl<'a> WatchLine<'a> {
    pub(super) fn read(line: &'a [u8]) -> Result<Self, NotAnObject> {
        // As servers write nearly every line: the object is read once, and not passed over first to find its end.
        if let Some((kind @ ("ADDED" | "MODIFIED" | "DELETED"), text)) = envelope(line)
            && let Ok(parsed) = Parsed::read(text)
        {
            return Ok(if kind == "DELETED" { Self::Deleted(parsed) } else { Self::Put(parsed) });
        }
        // A plain struct: the order of its two fields does not matter, as it would for a tagged enum.
        let line: RawLine<'a> = serde_json::from_slice(line).map_err(|e| NotAnObject::new(e.to_string()))?;
        let text = line.object.get();
        match line.kind.as_ref() {
            "ADDED" | "MODIFIED" => Ok(Self::Put(Parsed::read(text)?)),
            "DELETED" => Ok(Self::Deleted(Parsed::read(text)?)),
            "BOOKMARK" => {
                let object: Bookmark = serde_json::from_str(text).map_err(|e| NotAnObject::new(e.to_string()))?;
                Ok(Self::Bookmark(object.metadata.resource_version.unwrap_or_default()))
            }
            "ERROR" => Ok(Self::Error(Box::new(Status::parse(500, text.as_bytes()).unwrap_or_default()))),
            kind => Err(NotAnObject::new(format!("a watch event of type `{kind}`"))),
        }
    }
}

/// Type and object of a line as servers write it: in this order, and without blanks between them.
fn envelope(line: &[u8]) -> Option<(&str, &str)> {
    let line = std::str::from_utf8(line).ok()?.trim_end();
    line.strip_prefix(r#"{"type":""#)?.strip_suffix('}')?.split_once(r#"","object":"#)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow)]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(default)]
    metadata: Metadata,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct RawLine<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: Metadata,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_with_and_without_version_and_items() {
        let read = |text: &str| {
            let mut names = Vec::new();
            let item = |parsed: Parsed<'_>| {
                names.push(parsed.name.into_owned());
                Ok(())
            };
            let end = read_page(text.as_bytes(), item).unwrap();
            (names, end.version, end.next)
        };
        let page = r#"{"kind":"DbList","apiVersion":"x/v1","metadata":{"resourceVersion":"7","continue":"t","remainingItemCount":9},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}"#;
        assert_eq!(read(page), (vec!["a".into(), "b".into()], "7".into(), Some("t".into())));
        assert_eq!(read(r#"{"kind":"DbList","metadata":{"continue":""},"items":null}"#), (vec![], "".into(), None));
        assert_eq!(read("{}"), (vec![], "".into(), None));
        assert!(read_page(b"404 page not found", |_| Ok(())).is_err());
    }

    #[test]
    fn items_of_built_in_kinds_get_their_type() {
        let page = r#"{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a","managedFields":[1],"uid":"u"}}]}"#;
        let mut json = String::new();
        let item = |parsed: Parsed<'_>| {
            json = parsed.object()?.json().into_owned();
            Ok(())
        };
        read_page(page.as_bytes(), item).unwrap();
        assert_eq!(json, r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","uid":"u"}}"#);
    }

    #[test]
    fn lines_in_either_order_of_fields() {
        for line in [
            r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"3"}}}"#,
            r#"{"object":{"metadata":{"name":"a","resourceVersion":"3"}},"type":"MODIFIED"}"#,
            r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"3"}},"more":1}"#,
        ] {
            let WatchLine::Put(parsed) = WatchLine::read(line.as_bytes()).unwrap() else { panic!("{line}") };
            assert_eq!((&*parsed.name, parsed.resource_version), ("a", "3"));
            assert_eq!(parsed.object().unwrap().resource_version(), "3");
        }
    }

    #[test]
    fn bookmarks_and_errors() {
        let bookmark =
            br#"{"type":"BOOKMARK","object":{"kind":"Db","metadata":{"resourceVersion":"99","annotations":null}}}"#;
        assert!(matches!(WatchLine::read(bookmark), Ok(WatchLine::Bookmark(version)) if version == "99"));
        let expired =
            br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
        assert!(matches!(WatchLine::read(expired), Ok(WatchLine::Error(status)) if status.code == 410));
        assert!(WatchLine::read(b"{\"type\":\"NEW\",\"object\":{}}").is_err() && WatchLine::read(b"oops").is_err());
    }
}
