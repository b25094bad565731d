//! One file, parsed, compiled and checked once for as long as its content stays.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::mapping::check::check;
use crate::mapping::compile::{Compiled, compile};
use crate::mapping::diagnostic::{Finding, is_error};
use crate::mapping::schema::Schemas;
use crate::yaml::{self, Claim, Limits};

#[derive(Debug)]
pub(super) struct File {
    pub content: Vec<u8>,
    pub documents: Vec<Document>,
}

#[derive(Debug)]
pub(super) struct Document {
    pub claim: Claim,
    /// Where the document says its name; else its start.
    pub name_span: Range<usize>,
    pub compiled: Option<Compiled>,
    pub findings: Vec<Finding>,
    /// Bytes of the file, markers left out.
    span: Range<usize>,
}

impl File {
    /// The file as it was read before, where its content is the same; of another content, the documents that were there
    /// before.
    pub(super) fn read(content: &[u8], before: Option<&Arc<Self>>, schemas: Option<&Schemas>) -> Arc<Self> {
        if let Some(before) = before.filter(|before| before.content == content) {
            return before.clone();
        }
        let known: HashMap<&[u8], &Document> = before.iter().flat_map(|before| before.by_bytes()).collect();
        let read = |span: Range<usize>| match known.get(&content[span.clone()]) {
            Some(same) => Some(same.at(span.start)),
            None => {
                let document = yaml::parse_part(content, span, Limits::MAPPINGS)?;
                Some(Document::compile(&document, schemas))
            }
        };
        let documents = yaml::parts(content, Limits::MAPPINGS).into_iter().filter_map(read).collect();
        Arc::new(Self { content: content.to_owned(), documents })
    }

    /// Each document by all that it depends on.
    fn by_bytes(&self) -> impl Iterator<Item = (&[u8], &Document)> {
        self.documents.iter().map(|document| (&self.content[document.span.clone()], document))
    }

    /// Nothing at all, not even a comment: what an editor leaves between truncating and writing.
    pub(super) fn is_blank(&self) -> bool {
        self.content.trim_ascii().is_empty()
    }
}

impl Document {
    fn compile(document: &yaml::Document, schemas: Option<&Schemas>) -> Self {
        let outcome = compile(document);
        let (mut compiled, mut findings) = (outcome.compiled, outcome.findings);
        if let (Some(Compiled::Mapping(mapping)), Some(schemas)) = (&compiled, schemas) {
            findings.extend(check(document, mapping, schemas));
        }
        if schemas.is_some() {
            findings.extend(outcome.not_yet);
            findings.sort_by_key(|finding| (finding.span.start, finding.code));
        }
        if findings.iter().any(|finding| is_error(finding.code)) {
            compiled = None;
        }
        let metadata = document.root.as_ref().and_then(|root| root.get("metadata"));
        let name = metadata.and_then(|metadata| metadata.get("name"));
        Self {
            claim: document.claim.clone(),
            name_span: name.map_or(document.span.start..document.span.start, |name| name.span.clone()),
            compiled,
            findings,
            span: document.span.clone(),
        }
    }

    /// The same document at another place of its file.
    fn at(&self, start: usize) -> Self {
        let moved = |span: &Range<usize>| span.start + start - self.span.start..span.end + start - self.span.start;
        let finding = |finding: &Finding| Finding { span: moved(&finding.span), ..finding.clone() };
        Self {
            claim: self.claim.clone(),
            name_span: moved(&self.name_span),
            compiled: self.compiled.clone(),
            findings: self.findings.iter().map(finding).collect(),
            span: moved(&self.span),
        }
    }

    /// Whether a broken document may be a mapping: only a clear claim to another kind says no.
    pub(super) fn may_be_mapping(&self) -> bool {
        !matches!(self.claim.kind.as_deref(), Some("ClusterProvider" | "MappingTest"))
    }
}
