//! One file, parsed, compiled and checked once for as long as its content stays.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use serde_json::json;

use crate::check::check;
use crate::compile::{Compiled, compile};
use crate::diagnostic::{Finding, is_error};
use crate::schema::Schemas;
use crate::yaml;

/// Bytes of a mapping's document as a text in JSON: a ConfigMap has 1 MiB, and the record of a release holds three documents like that.
const LARGEST: usize = 256 << 10;

/// Bytes of a ClusterProvider in the same form: a state store holds that of its mapping, and those that this one joins.
const LARGEST_PROVIDER: usize = 64 << 10;

/// Kinds of the objects of a mapping, at most: each is a watch.
pub const MOST_KINDS: usize = 128;

#[derive(Debug)]
pub(super) struct File {
    pub content: Arc<[u8]>,
    pub documents: Vec<Document>,
}

#[derive(Debug)]
pub(super) struct Document {
    /// `metadata.name`, also of a broken document.
    pub name: Option<String>,
    /// Where the document says its name; else its start.
    pub name_span: Range<usize>,
    /// Whether it may be a mapping where it is broken: only a clear claim to another kind says no.
    pub may_be_mapping: bool,
    pub compiled: Option<Compiled>,
    pub findings: Vec<Finding>,
}

impl File {
    /// The file as it was read before, where its content is the same.
    pub(super) fn read(content: &[u8], before: Option<&Arc<Self>>, schemas: Option<&Schemas>) -> Arc<Self> {
        if let Some(before) = before.filter(|before| *before.content == *content) {
            return before.clone();
        }
        let parsed = yaml::parse(content);
        let documents = parsed.iter().map(|document| Document::compile(document, schemas)).collect();
        // A file with one document is kept once.
        let whole = parsed.first().map(|document| &document.text).filter(|text| text.as_bytes() == content);
        let content = whole.map_or_else(|| content.into(), |text| Arc::from(text.clone()));
        Arc::new(Self { content, documents })
    }

    /// Nothing at all, not even a comment: what an editor leaves between truncating and writing.
    pub(super) fn is_blank(&self) -> bool {
        self.content.trim_ascii().is_empty()
    }
}

impl Document {
    pub(super) fn compile(document: &yaml::Document, schemas: Option<&Schemas>) -> Self {
        let outcome = compile(document);
        let (mut compiled, mut findings) = (outcome.compiled, outcome.findings);
        if let (Some(Compiled::Mapping(mapping)), Some(schemas)) = (&compiled, schemas) {
            findings.extend(check(mapping, schemas));
        }
        let limit = match &compiled {
            Some(Compiled::Mapping(_)) => Some(("mapping", LARGEST)),
            Some(Compiled::ClusterProvider(_)) => Some(("ClusterProvider", LARGEST_PROVIDER)),
            _ => None,
        };
        let bytes = json!(*document.text).to_string().len();
        if let Some((what, limit)) = limit.filter(|(_, limit)| bytes > *limit) {
            let message = format!("the {what} has {bytes} bytes as a text in JSON; more than {limit} are not kept");
            let finding = Finding::new("SE0010", document.span.start..document.span.start, message);
            findings.push(finding.help("divide it among several of its kind"));
        }
        if let Some(Compiled::Mapping(mapping)) = &compiled {
            let kinds: BTreeSet<_> = mapping.objects.iter().map(|rule| &rule.kind).collect();
            if kinds.len() > MOST_KINDS {
                let message = format!("its objects are of {} kinds; more than {MOST_KINDS} are not kept", kinds.len());
                let finding = Finding::new("SE0010", document.span.start..document.span.start, message);
                findings.push(finding.help("divide it among several mappings"));
            }
        }
        if findings.iter().any(|finding| is_error(finding.code)) {
            compiled = None;
        }
        let root = document.root.as_ref();
        let name = root.and_then(|root| root.at(&["metadata", "name"]));
        let kind = root.and_then(|root| root.get("kind")?.as_str());
        Self {
            name: name.and_then(|name| name.as_str()).map(str::to_owned),
            may_be_mapping: !matches!(kind, Some("ClusterProvider" | "MappingTest" | "ApiSchema")),
            name_span: name.map_or(document.span.start..document.span.start, |name| name.span.clone()),
            compiled,
            findings,
        }
    }
}
