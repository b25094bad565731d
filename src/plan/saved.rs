//! What was observed of one source, kept without the values of Secrets: it is decided again elsewhere, without a server.
//!
//! Each value of a Secret is replaced by one that tells nothing of it, wherever it is: two values that were the same are the
//! same afterwards. So what is rendered from them compares as before.

use std::collections::BTreeMap;

use data_encoding::BASE64;
use serde::ser::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::provenance::File;
use super::trace::{Past, Trace};
use super::{Observed, render};
use crate::mapping::Mapping;
use crate::mapping::compile::{Compiled, compile};
use crate::object::compare::differences;
use crate::object::{decoded, json_text, marks};
use crate::yaml;

/// One source on one target, with all that its decision follows from.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Saved {
    #[serde(flatten)]
    pub context: Context,
    pub mapping: String,
    /// Whether the decision is the same without the values of Secrets.
    pub is_same_without_secrets: bool,
    pub observed: Observed,
}

/// Where a mapping stands, and who decided.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Context {
    /// Of the engine that decided.
    pub version: String,
    /// The file of the mapping, and the line in it on which the document begins.
    pub file: String,
    pub line: usize,
    pub past: Past,
}

/// Why a file cannot be decided again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("it is no saved trace: {0}")]
    NotSaved(String),
    #[error(
        "version {saved} saved it, and this is version {own}: what one version saved, only that version decides again"
    )]
    OtherVersion { saved: String, own: String },
    #[error("its mapping does not compile")]
    Mapping,
}

impl Saved {
    /// `mask` gives a text that stands for a secret value: the same for the same value, and nothing can be told from it.
    ///
    /// # Errors
    /// What cannot be kept.
    pub fn of(
        mapping: &Mapping,
        observed: &Observed,
        context: Context,
        mask: &dyn Fn(&str) -> String,
    ) -> Result<Self, serde_json::Error> {
        let mut tree = serde_json::to_value(observed)?;
        let too_many = "the Secrets that the source reads have too many values to leave them out of a trace";
        let masks = Masks::of(&tree, mask).ok_or_else(|| serde_json::Error::custom(too_many))?;
        masks.redact(&mut tree);
        let mut redacted: Observed = serde_json::from_value(tree.clone())?;
        let hashes = other_hashes(mapping, observed, &redacted);
        if !hashes.is_empty() {
            each_text(&mut tree, &|text| hashes.iter().fold(text, |text, (from, to)| text.replace(from, to)));
            redacted = serde_json::from_value(tree)?;
        }
        let decided = |observed: &Observed| {
            let Trace { verdict, reasons, objects, .. } = Trace::of(mapping, observed, None, Past::default());
            let reasons: Vec<String> = reasons.into_iter().map(|said| said.reason).collect();
            let rows: Vec<_> = objects.into_iter().map(|one| (one.id, one.object, one.row, one.verdict)).collect();
            (verdict, reasons, rows)
        };
        Ok(Self {
            context,
            mapping: mapping.text.to_string(),
            is_same_without_secrets: decided(observed) == decided(&redacted),
            observed: redacted,
        })
    }

    /// Reads what the same version saved.
    ///
    /// # Errors
    /// What it is instead.
    pub fn read(text: &[u8], own: &str) -> Result<Self, Unreadable> {
        let not_saved = |error: serde_json::Error| Unreadable::NotSaved(error.to_string());
        let tree: Value = serde_json::from_slice(text).map_err(not_saved)?;
        match tree.get("version").and_then(Value::as_str) {
            Some(saved) if saved == own => serde_json::from_value(tree).map_err(not_saved),
            Some(saved) => Err(Unreadable::OtherVersion { saved: saved.to_owned(), own: own.to_owned() }),
            None => Err(Unreadable::NotSaved("it names no version".to_owned())),
        }
    }

    /// Decides again.
    ///
    /// # Errors
    /// Where the mapping does not compile.
    pub fn trace(&self) -> Result<Trace, Unreadable> {
        let document = yaml::parse_one(&self.mapping).ok_or(Unreadable::Mapping)?;
        let Some(Compiled::Mapping(mapping)) = compile(&document).compiled else { return Err(Unreadable::Mapping) };
        let content = self.mapping.as_bytes();
        let Context { file, line, past, .. } = &self.context;
        let file = File { path: file, first_line: *line, content };
        Ok(Trace::of(&mapping, &self.observed, Some(&file), past.clone()))
    }
}

/// Hashes of what is rendered, as they were, and as they are without secrets.
fn other_hashes(mapping: &Mapping, before: &Observed, after: &Observed) -> BTreeMap<String, String> {
    let rendered = |observed: &Observed| render::render(mapping, observed, observed.present()?).ok();
    let (Some(former), Some(latter)) = (rendered(before), rendered(after)) else { return BTreeMap::new() };
    let mut found = BTreeMap::new();
    for ((_, _, one), (_, _, other)) in former.desired(mapping).zip(latter.desired(mapping)) {
        if one.reference != other.reference {
            continue;
        }
        let hash = |body: &Value| marks::annotation(body, marks::HASH).unwrap_or_default().to_owned();
        found.insert(hash(&one.body), hash(&other.body));
        let at = |observed: &Observed, body: &Value| {
            let object = observed.objects.at(&one.reference);
            object.map(|object| differences(body, &object.object)).unwrap_or_default()
        };
        for (one, other) in at(before, &one.body).into_iter().zip(at(after, &other.body)) {
            if one.pointer == other.pointer {
                found.insert(one.hash, other.hash);
            }
        }
    }
    found.retain(|from, to| !from.is_empty() && from != to);
    found
}

/// Values of Secrets, each with what stands for it.
struct Masks<'m> {
    mask: &'m dyn Fn(&str) -> String,
    /// Longer ones first: one may be a part of another.
    all: Vec<(String, String)>,
    /// Of objects. A value that is in one stays where no Secret holds it: it is known, and what is rendered from it keeps its name.
    names: Vec<String>,
}

/// A shorter value is replaced where it is a word: it may be a part of any.
const SHORTEST: usize = 6;

/// Bytes that are searched, all that is kept once for each value: a second, in which an engine does nothing else. A tenant's Secret
/// may have ten thousands.
const MOST_SEARCHED: usize = 1 << 30;

/// kubectl keeps the whole object here.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What of an object's metadata tenants write freely.
const FREE: [&str; 2] = ["labels", "annotations"];

/// Beside objects, where servers are quoted.
const QUOTES: [&str; 4] = ["detail", "refused_status", "status_failed", "read_failed"];

impl<'m> Masks<'m> {
    /// `None`: they are more than can be searched for.
    fn of(tree: &Value, mask: &'m dyn Fn(&str) -> String) -> Option<Self> {
        let mut masks = Self { mask, all: Vec::new(), names: Vec::new() };
        masks.collect(tree);
        let Self { all, names, .. } = &mut masks;
        all.sort_by(|(one, _), (other, _)| other.len().cmp(&one.len()).then(one.cmp(other)));
        all.dedup();
        if all.len().saturating_mul(json_text(tree).len()) > MOST_SEARCHED {
            return None;
        }
        let is_named = |value: &str| names.iter().any(|name| masked(name.clone(), value, "") != *name);
        all.retain(|(value, _)| !value.is_empty() && !is_named(value));
        Some(masks)
    }

    fn collect(&mut self, tree: &Value) {
        match tree {
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(fields) => {
                let name = fields.get("metadata").and_then(|metadata| metadata.get("name"));
                self.names.extend(name.and_then(Value::as_str).map(str::to_owned));
                if is_secret(fields) {
                    for text in texts(fields, "data") {
                        self.all.push((text.to_owned(), self.encoded(text)));
                        self.all.extend(decoded(text).map(|plain| self.plain(plain)));
                    }
                    for text in texts(fields, "stringData") {
                        self.all.push(self.plain(text.to_owned()));
                    }
                }
                fields.values().for_each(|below| self.collect(below));
            }
            _ => {}
        }
    }

    fn plain(&self, value: String) -> (String, String) {
        let mask = (self.mask)(&value);
        (value, mask)
    }

    /// What stands for a value of `data`: it decodes to what stands for the plain value.
    fn encoded(&self, text: &str) -> String {
        let plain = decoded(text).unwrap_or_else(|| text.to_owned());
        BASE64.encode((self.mask)(&plain).as_bytes())
    }

    fn redact(&self, tree: &mut Value) {
        match tree {
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact(item)),
            Value::Object(fields) if fields.contains_key("kind") && fields.contains_key("metadata") => {
                self.redact_object(fields);
            }
            Value::Object(fields) => {
                for (key, below) in fields {
                    if QUOTES.contains(&key.as_str()) { self.replace_in(below) } else { self.redact(below) }
                }
            }
            _ => {}
        }
    }

    fn redact_object(&self, object: &mut Map<String, Value>) {
        let is_secret = is_secret(object);
        for (field, value) in object {
            match (field.as_str(), value) {
                ("apiVersion" | "kind", _) => {}
                ("metadata", Value::Object(metadata)) => {
                    for (_, value) in metadata.iter_mut().filter(|(field, _)| FREE.contains(&field.as_str())) {
                        if is_secret && let Some(annotations) = value.as_object_mut() {
                            annotations.remove(LAST_APPLIED);
                        }
                        self.replace_in(value);
                    }
                }
                ("data", Value::Object(data)) if is_secret => data.values_mut().for_each(|value| {
                    *value = value.as_str().map(|text| self.encoded(text)).into();
                }),
                ("stringData", Value::Object(data)) if is_secret => data.values_mut().for_each(|value| {
                    *value = value.as_str().map(|text| (self.mask)(text)).into();
                }),
                (_, value) => self.replace_in(value),
            }
        }
    }

    fn replace_in(&self, tree: &mut Value) {
        each_text(tree, &|text| self.all.iter().fold(text, |text, (value, mask)| masked(text, value, mask)));
    }
}

fn is_secret(object: &Map<String, Value>) -> bool {
    object.get("kind").is_some_and(|kind| kind == "Secret") && object.contains_key("metadata")
}

fn texts<'f>(fields: &'f Map<String, Value>, name: &str) -> impl Iterator<Item = &'f str> {
    fields.get(name).and_then(Value::as_object).into_iter().flatten().filter_map(|(_, value)| value.as_str())
}

/// Every text and number below. A number that stays as it is, stays a number.
fn each_text(tree: &mut Value, change: &dyn Fn(String) -> String) {
    match tree {
        Value::String(text) => *text = change(std::mem::take(text)),
        Value::Number(number) => {
            let (before, after) = (number.to_string(), change(number.to_string()));
            if before != after {
                *tree = after.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|below| each_text(below, change)),
        _ => {}
    }
}

fn masked(text: String, value: &str, mask: &str) -> String {
    match text.contains(value) {
        false => text,
        true if value.len() >= SHORTEST => text.replace(value, mask),
        true => replaced(&text, value, mask),
    }
}

/// A text with a value replaced, but where it is inside of a longer word.
fn replaced(text: &str, value: &str, mask: &str) -> String {
    let (mut replaced, mut rest) = (String::new(), 0);
    for (at, _) in text.match_indices(value) {
        let end = at + value.len();
        let is_inside = text[..at].ends_with(char::is_alphanumeric) || text[end..].starts_with(char::is_alphanumeric);
        replaced.push_str(&text[rest..at]);
        replaced.push_str(if is_inside { value } else { mask });
        rest = end;
    }
    replaced + &text[rest..]
}
