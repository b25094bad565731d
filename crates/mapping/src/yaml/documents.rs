//! A file's documents: cut apart at their markers, then parsed one by one.
//!
//! A `---` or `...` at the start of a line ends a document whatever is open (YAML 1.2.2, 9.1.2: inside scalars it is
//! forbidden), so cutting comes first, and nothing that is wrong in a document can reach its neighbours.

use std::ops::Range;
use std::sync::Arc;

use super::compose::compose;
use super::{Finding, Node};

/// What a file may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub bytes: usize,
    /// Levels of lists and mappings within each other.
    pub depth: usize,
}

impl Limits {
    /// For files of mappings. None comes near, and a fat one would be parsed at each change.
    pub const MAPPINGS: Self = Self { bytes: 1 << 20, depth: 64 };
    /// For schemas: each level of an API costs two or three levels of its schema.
    pub const SCHEMAS: Self = Self { bytes: 1 << 25, depth: 200 };
}

/// One document of a file.
#[derive(Debug, Clone)]
pub struct Document {
    /// Bytes of the file, markers left out.
    pub span: Range<usize>,
    /// The document as it was written, from its first line to its last.
    pub text: Arc<str>,
    /// `None`: its syntax is broken, and `findings` says how.
    pub root: Option<Arc<Node>>,
    /// What is wrong; a tree can have findings too.
    pub findings: Vec<Finding>,
}

/// All documents of a file that hold anything.
pub fn parse(file: &[u8]) -> Vec<Document> {
    parse_within(file, Limits::MAPPINGS)
}

/// All documents of a file that hold anything.
pub fn parse_within(file: &[u8], limits: Limits) -> Vec<Document> {
    if file.len() > limits.bytes {
        return vec![too_large(file, limits.bytes)];
    }
    // A file in UTF-16 cannot be cut.
    let wide = file.starts_with(&[0xff, 0xfe]) || file.starts_with(&[0xfe, 0xff]);
    let parts = if wide { std::iter::once(0..file.len()).collect() } else { cut(file) };
    parts.into_iter().filter_map(|span| document(file, span, limits.depth)).collect()
}

/// The single document of a text: as the inventory keeps it.
pub fn parse_one(text: &str) -> Option<Document> {
    parse(text.as_bytes()).into_iter().next()
}

fn too_large(file: &[u8], limit: usize) -> Document {
    let message = format!("the file has {} bytes; more than {limit} are not read", file.len());
    Document {
        span: 0..file.len(),
        text: Arc::from(""),
        root: None,
        findings: vec![
            Finding::new("SE0010", 0..0, message).help("split it: each document can stand in a file of its own"),
        ],
    }
}

fn document(file: &[u8], span: Range<usize>, depth: usize) -> Option<Document> {
    let bytes = &file[span.clone()];
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let (root, findings) = compose(text, span.start, depth);
            let is_empty = root.is_none() && findings.is_empty();
            (!is_empty).then(|| Document { span, text: Arc::from(text), root, findings })
        }
        Err(error) => {
            let at = span.start + error.valid_up_to();
            let text: Arc<str> = String::from_utf8_lossy(bytes).into();
            let finding = Finding::new("SE0007", at..at + error.error_len().unwrap_or(1), "this is not UTF-8")
                .help("save the file with the encoding UTF-8");
            Some(Document { span, text, root: None, findings: vec![finding] })
        }
    }
}

/// The ranges between markers. What follows `---` on its own line belongs to the document.
fn cut(file: &[u8]) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let mut start = if file.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut line = start;
    while line < file.len() {
        let end = file[line..].iter().position(|byte| *byte == b'\n').map_or(file.len(), |at| line + at + 1);
        if let Some(next) = marker(&file[line..end]) {
            chunks.push(start..line);
            start = line + next;
        }
        line = end;
    }
    chunks.push(start..file.len());
    chunks
}

/// Whether a line is a document marker, and where after it the next document starts.
fn marker(line: &[u8]) -> Option<usize> {
    let rest = line.strip_prefix(b"---").or_else(|| line.strip_prefix(b"..."))?;
    match rest.first() {
        None | Some(b'\n' | b'\r') => Some(line.len()),
        Some(b' ' | b'\t') if rest.trim_ascii().is_empty() => Some(line.len()),
        Some(b' ' | b'\t') => Some(3),
        Some(_) => None,
    }
}
