//! Parser events → a tree of nodes.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::origin::{Origin, Style};
use super::resolve::{Plain, resolve};
use super::{Finding, Node, NodeValue, Scalar, syntax};

/// How many nodes aliases may add to a document, each counted as often as it is reached.
const MAX_ALIAS_WEIGHT: usize = 100_000;

/// Builds the tree of one document, which starts at byte `offset` of its file, and says what is wrong with it. Without
/// content there is neither a root nor a finding.
pub(super) fn compose(text: &str, offset: usize, max_depth: usize) -> (Option<Arc<Node>>, Vec<Finding>) {
    let options = granit_parser::options! { emit_comments: false, disallow_directives: true };
    let mut composer = Composer {
        text,
        offset,
        max_depth,
        open: Vec::new(),
        anchors: HashMap::new(),
        alias_weight: 0,
        root: None,
        findings: Vec::new(),
    };
    for event in Parser::new_from_str_with_options(text, options) {
        let outcome = match event {
            Ok((event, span)) => composer.take(event, span),
            Err(error) => Err(Box::new(syntax::explain(&error, text, offset))),
        };
        if let Err(finding) = outcome {
            composer.break_off(*finding);
            return (None, composer.findings);
        }
    }
    // An explicit document without content is `null`, and means nothing.
    (composer.root.filter(|root| root.value != NodeValue::Null), composer.findings)
}

/// A node and what it costs to walk it.
#[derive(Clone)]
struct Built {
    node: Arc<Node>,
    weight: usize,
    height: usize,
}

/// A collection that is not closed yet.
struct Frame {
    start: usize,
    anchor: usize,
    flow: bool,
    children: Children,
    weight: usize,
    height: usize,
}

enum Children {
    Sequence(Vec<Arc<Node>>),
    Mapping { entries: Vec<(Arc<Node>, Arc<Node>)>, seen: HashSet<Arc<str>>, key: Option<Key> },
}

/// A key that waits for its value.
enum Key {
    Use(Arc<Node>),
    /// Already reported: its value is read and dropped.
    Drop,
}

struct Composer<'a> {
    text: &'a str,
    offset: usize,
    max_depth: usize,
    open: Vec<Frame>,
    anchors: HashMap<usize, Built>,
    alias_weight: usize,
    root: Option<Arc<Node>>,
    findings: Vec<Finding>,
}

/// A finding that ends the document.
type Fatal = Box<Finding>;

impl Composer<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Fatal> {
        let range = self.range(&span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let built = self.scalar(&text, style, tag.as_deref(), range);
                self.add(built, anchor)
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.check_tag(tag.as_deref(), &range);
                let flow = style == granit_parser::StructureStyle::Flow;
                self.start(range, anchor, flow, Children::Sequence(Vec::new()))
            }
            Event::MappingStart(style, anchor, tag) => {
                self.check_tag(tag.as_deref(), &range);
                let flow = style == granit_parser::StructureStyle::Flow;
                let children = Children::Mapping { entries: Vec::new(), seen: HashSet::new(), key: None };
                self.start(range, anchor, flow, children)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(range),
            Event::Alias(anchor) => self.alias(anchor, range),
            _ => Ok(()),
        }
    }

    fn range(&self, span: &Span) -> Range<usize> {
        let range = span.byte_range().unwrap_or(0..0);
        range.start + self.offset..range.end + self.offset
    }

    /// The text of a range of the file.
    fn slice(&self, range: &Range<usize>) -> &str {
        self.text.get(range.start - self.offset..range.end - self.offset).unwrap_or_default()
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, span: Range<usize>) -> Built {
        let text_forced = tag.is_some_and(|tag| tag.core_suffix() == Some("str"));
        self.check_tag(tag, &span);
        let raw = self.slice(&span);
        // Without content the parser gives `~`.
        let written = if raw.is_empty() && style == ScalarStyle::Plain { "" } else { text };
        let resolved = if style == ScalarStyle::Plain && !text_forced { resolve(written) } else { Plain::Text };
        let value = match resolved {
            Plain::Null => NodeValue::Null,
            Plain::Bool(bool) => NodeValue::Bool(bool),
            Plain::Number(number) => NodeValue::Number(number),
            Plain::Text => {
                if style == ScalarStyle::Plain {
                    let rest = &self.text[(span.end - self.offset).min(self.text.len())..];
                    self.findings.extend(syntax::cut_by_comment(written, rest, &span));
                }
                NodeValue::String(self.string(written, style, &span))
            }
            Plain::Refused { message, help } => {
                self.findings.push(Finding::new("SE0009", span.clone(), message).help(help));
                NodeValue::String(self.string(written, style, &span))
            }
        };
        let end = span.start + self.slice(&span).trim_end().len();
        Built { node: Arc::new(Node { span: span.start..end, value }), weight: 1, height: 0 }
    }

    fn string(&self, text: &str, style: ScalarStyle, span: &Range<usize>) -> Scalar {
        let style = match style {
            ScalarStyle::SingleQuoted => Style::SingleQuoted,
            ScalarStyle::DoubleQuoted => Style::DoubleQuoted,
            _ => Style::Unquoted,
        };
        Scalar { text: Arc::from(text), origin: Origin::of(text, self.slice(span), span.start, style) }
    }

    fn check_tag(&mut self, tag: Option<&Tag>, span: &Range<usize>) {
        let Some(tag) = tag.filter(|tag| tag.core_suffix() != Some("str")) else { return };
        let finding = Finding::new("SE0004", span.clone(), format!("the tag `{}` is not allowed", tag.original()))
            .help("leave it out: the value's own form says what it is; only `!!str` is known");
        self.findings.push(finding);
    }

    fn start(&mut self, span: Range<usize>, anchor: usize, flow: bool, children: Children) -> Result<(), Fatal> {
        if self.open.len() >= self.max_depth {
            return Err(self.too_deep(span));
        }
        self.open.push(Frame { start: span.start, anchor, flow, children, weight: 1, height: 0 });
        Ok(())
    }

    fn end(&mut self, span: Range<usize>) -> Result<(), Fatal> {
        let Some(frame) = self.open.pop() else { return Ok(()) };
        let end = if frame.flow { span.end } else { frame.children.end().unwrap_or(span.start) };
        // A mapping keeps its tree.
        let value = match frame.children {
            Children::Sequence(mut items) => {
                items.shrink_to_fit();
                NodeValue::Sequence(items)
            }
            Children::Mapping { mut entries, .. } => {
                entries.shrink_to_fit();
                NodeValue::Mapping(entries)
            }
        };
        let node = Arc::new(Node { span: frame.start..end.max(frame.start), value });
        self.add(Built { node, weight: frame.weight, height: frame.height }, frame.anchor)
    }

    fn alias(&mut self, anchor: usize, span: Range<usize>) -> Result<(), Fatal> {
        let Some(target) = self.anchors.get(&anchor).cloned() else {
            return Err(Box::new(Finding::new("SE0006", span, "an alias is part of the value that it stands for")));
        };
        self.alias_weight += target.weight;
        if self.alias_weight > MAX_ALIAS_WEIGHT {
            let message = format!("aliases add more than {MAX_ALIAS_WEIGHT} values to the document");
            return Err(Box::new(Finding::new("SE0006", span, message)));
        }
        if self.open.len() + target.height > self.max_depth {
            return Err(self.too_deep(span));
        }
        self.add(target, 0)
    }

    fn too_deep(&self, span: Range<usize>) -> Fatal {
        Box::new(Finding::new("SE0006", span, format!("more than {} levels deep", self.max_depth)))
    }

    /// Puts a finished node where it belongs: as root, item, key or value.
    fn add(&mut self, built: Built, anchor: usize) -> Result<(), Fatal> {
        if anchor != 0 {
            self.anchors.insert(anchor, built.clone());
        }
        let Some(frame) = self.open.last_mut() else {
            self.root.get_or_insert(built.node);
            return Ok(());
        };
        frame.weight += built.weight;
        frame.height = frame.height.max(built.height + 1);
        match &mut frame.children {
            Children::Sequence(items) => items.push(built.node),
            Children::Mapping { key, entries, .. } if key.is_some() => {
                if let Some(Key::Use(key)) = key.take() {
                    entries.push((key, built.node));
                }
            }
            Children::Mapping { .. } => self.key(&built.node),
        }
        Ok(())
    }

    fn key(&mut self, node: &Arc<Node>) {
        let checked = self.check_key(node);
        let Some(Frame { children: Children::Mapping { seen, key, .. }, .. }) = self.open.last_mut() else { return };
        *key = Some(match checked {
            Ok(node) => {
                if let Some(text) = node.as_str() {
                    seen.insert(Arc::from(text));
                }
                Key::Use(node)
            }
            Err(finding) => {
                self.findings.push(*finding);
                Key::Drop
            }
        });
    }

    /// A key as a string node; any plain scalar is one, as written.
    fn check_key(&self, node: &Arc<Node>) -> Result<Arc<Node>, Fatal> {
        let written = self.slice(&node.span);
        let node = match &node.value {
            NodeValue::String(_) => node.clone(),
            NodeValue::Bool(_) | NodeValue::Number(_) => {
                let scalar = Scalar { text: Arc::from(written), origin: Origin::Verbatim(node.span.start) };
                Arc::new(Node { span: node.span.clone(), value: NodeValue::String(scalar) })
            }
            _ => return Err(Box::new(syntax::no_key(node, self.text, self.offset))),
        };
        let text = node.as_str().unwrap_or_default();
        if text == "<<" {
            return Err(Box::new(
                Finding::new("SE0003", node.span.clone(), "the merge key `<<` is not allowed")
                    .help("write the fields out, or use `$merge` in a template"),
            ));
        }
        match self.open.last().map(|frame| &frame.children) {
            Some(Children::Mapping { seen, .. }) if seen.contains(text) => Err(Box::new(
                Finding::new("SE0002", node.span.clone(), format!("the key `{text}` stands here twice"))
                    .label("second of this name")
                    .help("remove one of the two: only one value can stand"),
            )),
            _ => Ok(node),
        }
    }

    /// Ends a broken document. What was already said about the same line stands for the syntax error that follows from it.
    fn break_off(&mut self, fatal: Finding) {
        let line = |at: usize| syntax::line_of(self.text, at - self.offset);
        let fatal_line = line(fatal.span.start);
        if !self.findings.iter().any(|finding| line(finding.span.start) == fatal_line) {
            self.findings.push(fatal);
        }
    }
}

impl Children {
    /// Where the last child ends.
    fn end(&self) -> Option<usize> {
        match self {
            Self::Sequence(items) => items.last().map(|item| item.span.end),
            Self::Mapping { entries, .. } => entries.last().map(|(key, value)| value.span.end.max(key.span.end)),
        }
    }
}
