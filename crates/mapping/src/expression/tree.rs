//! A compiled expression: names resolved, functions looked up, arguments in their places.

use std::ops::Range;

use serde_json::Value;

use super::pattern::Pattern;
use super::registry::{Function, Role};
use crate::schema::Form;

/// One node of a compiled expression. Nothing in it is parsed or looked up by name again.
#[derive(Debug)]
pub(crate) enum Expr {
    Literal(Value),
    /// Leaves out the key or item it stands for.
    Omit,
    Path(Path),
    /// `written` is the step with its base as the author wrote them, to name where nothing is there.
    Member {
        base: Box<Expr>,
        name: Segment,
        written: String,
        /// Where in the file the name stands.
        place: Range<usize>,
    },
    Index {
        base: Box<Expr>,
        index: Box<Expr>,
        written: String,
        /// Where in the file the index stands.
        place: Range<usize>,
    },
    Slice {
        base: Box<Expr>,
        start: Option<Box<Expr>>,
        stop: Option<Box<Expr>>,
    },
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    Not(Box<Expr>),
    /// With the place of the operand in the file.
    Negate(Box<Expr>, Range<usize>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Arithmetic {
        operator: Arithmetic,
        left: Box<Expr>,
        right: Box<Expr>,
        /// Where in the file the operands stand.
        places: [Range<usize>; 2],
    },
    Concat {
        left: Box<Expr>,
        right: Box<Expr>,
        places: [Range<usize>; 2],
    },
    /// `a < b < c`: each comparison holds.
    Compare {
        first: Box<Expr>,
        rest: Vec<(Comparison, Expr)>,
        /// Where in the file each operand stands.
        places: Vec<Range<usize>>,
    },
    Conditional {
        test: Box<Expr>,
        then: Box<Expr>,
        otherwise: Box<Expr>,
        /// Where in the file the two values stand.
        places: [Range<usize>; 2],
    },
    /// `value | default(fallback, lax)`: the fallback is evaluated only where it is needed.
    Default {
        value: Box<Expr>,
        fallback: Option<Box<Expr>>,
        lax: Option<Box<Expr>>,
        /// Where in the file the fallback stands.
        place: Range<usize>,
    },
    /// `value | regex_replace(pattern, replacement)`: the pattern is compiled at load.
    RegexReplace {
        value: Box<Expr>,
        pattern: Box<Pattern>,
        replacement: Box<Expr>,
    },
    Call(Call),
}

/// A filter, function or test with its arguments, one slot a parameter.
#[derive(Debug)]
pub(crate) struct Call {
    pub function: &'static Function,
    pub arguments: Vec<Option<Expr>>,
    /// Further arguments of a function that takes any number.
    pub rest: Vec<Expr>,
    /// Where in the file its name stands.
    pub place: Range<usize>,
}

impl Expr {
    /// The paths that it reads.
    pub fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Path(path) => vec![path],
            _ => self.operands().into_iter().flat_map(Self::paths).collect(),
        }
    }

    /// Where `omit` would have to be a value. `is_whole`: what stands at the place is a whole key or item.
    pub fn misplaced_omits(&self, place: &Range<usize>, is_whole: bool) -> Vec<Range<usize>> {
        match self {
            Self::Omit if is_whole => Vec::new(),
            Self::Omit => vec![place.clone()],
            Self::Conditional { test, then, otherwise, places: [one, other] } => [
                test.misplaced_omits(place, false),
                then.misplaced_omits(one, is_whole),
                otherwise.misplaced_omits(other, is_whole),
            ]
            .concat(),
            Self::Default { value, fallback: Some(fallback), place: at, .. } => {
                [value.misplaced_omits(place, is_whole), fallback.misplaced_omits(at, is_whole)].concat()
            }
            Self::List(items) => items.iter().flat_map(|item| item.misplaced_omits(place, true)).collect(),
            Self::Map(entries) => entries.iter().flat_map(|(_, value)| value.misplaced_omits(place, true)).collect(),
            _ => self.operands().into_iter().flat_map(|operand| operand.misplaced_omits(place, false)).collect(),
        }
    }

    /// Its operands, in the order in which they are written or nearly so.
    pub fn operands(&self) -> Vec<&Self> {
        match self {
            Self::Literal(_) | Self::Omit | Self::Path(_) => Vec::new(),
            Self::Member { base, .. } => vec![base],
            Self::Index { base, index, .. } => vec![base, index],
            Self::Slice { base, start, stop } => {
                std::iter::once(base).chain(start).chain(stop).map(|one| &**one).collect()
            }
            Self::List(items) => items.iter().collect(),
            Self::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).collect(),
            Self::Not(one) | Self::Negate(one, _) => vec![one],
            Self::And(left, right) | Self::Or(left, right) => vec![left, right],
            Self::Concat { left, right, .. } | Self::Arithmetic { left, right, .. } => vec![left, right],
            Self::Compare { first, rest, .. } => {
                std::iter::once(&**first).chain(rest.iter().map(|(_, operand)| operand)).collect()
            }
            Self::Conditional { test, then, otherwise, .. } => vec![test, then, otherwise],
            Self::Default { value, fallback, lax, .. } => {
                std::iter::once(value).chain(fallback).chain(lax).map(|one| &**one).collect()
            }
            Self::RegexReplace { value, replacement, .. } => vec![value, replacement],
            Self::Call(call) => call.arguments.iter().flatten().chain(&call.rest).collect(),
        }
    }
}

impl Call {
    /// The name of what is called.
    pub fn name(&self) -> &'static str {
        self.function.name
    }

    /// An argument by the name of its parameter.
    pub fn argument(&self, name: &str) -> Option<&Expr> {
        let position = self.function.parameters.iter().position(|parameter| parameter.name == name)?;
        self.arguments.get(position)?.as_ref()
    }

    /// Whether it stands after `is`: some names are filters as well.
    pub fn is_test(&self) -> bool {
        self.function.role == Role::Test
    }

    /// Whether it stands after `|`.
    pub fn is_filter(&self) -> bool {
        self.function.role == Role::Filter
    }

    /// The types that its first argument can have; none: all.
    pub fn takes(&self) -> &'static [Form] {
        self.function.parameters.first().map_or(&[], |parameter| parameter.takes)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

/// A path whose every segment is known at load: walked on the JSON itself.
#[derive(Debug)]
pub(crate) struct Path {
    pub base: Base,
    pub segments: Vec<Segment>,
    /// The path as it is written, and where in it each segment ends.
    text: String,
    ends: Vec<usize>,
    /// Where in the file each segment stands.
    pub places: Vec<Range<usize>>,
    /// Where in the file it stands as a whole.
    pub place: Range<usize>,
}

/// What a path starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Base {
    Root(super::Root),
    Var(String),
    Object(String),
    Related(String),
    /// A loop variable, or a name that the document declares (`as: user`).
    Local(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    Key(String),
    /// Counted from the end where negative.
    Index(i64),
}

impl Path {
    pub fn new(base: Base, steps: Vec<(Segment, Range<usize>)>, place: Range<usize>) -> Self {
        let (segments, places): (Vec<_>, _) = steps.into_iter().unzip();
        let mut text = base.to_string();
        let ends = segments
            .iter()
            .map(|segment| {
                segment.write(&mut text);
                text.len()
            })
            .collect();
        Self { base, segments, text, ends, places, place }
    }

    /// The path up to and with a segment: what to name where that segment is missing.
    pub fn up_to(&self, segment: usize) -> &str {
        &self.text[..self.ends[segment]]
    }

    /// The whole path.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Base {
    /// The name that stands behind the root.
    pub fn name(&self) -> &str {
        match self {
            Self::Root(root) => root.as_str(),
            Self::Var(name) | Self::Object(name) | Self::Related(name) | Self::Local(name) => name,
        }
    }
}

impl std::fmt::Display for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut dotted = |root: &str, id: &str| {
            let mut text = root.to_owned();
            Segment::Key(id.to_owned()).write(&mut text);
            f.write_str(&text)
        };
        match self {
            Self::Root(root) => f.write_str(root.as_str()),
            Self::Var(name) => dotted("vars", name),
            Self::Object(id) => dotted("objects", id),
            Self::Related(id) => dotted("related", id),
            Self::Local(name) => f.write_str(name),
        }
    }
}

impl Segment {
    /// Appends the segment as an author would write it.
    pub fn write(&self, text: &mut String) {
        match self {
            Self::Key(key) if is_identifier(key) => {
                text.push('.');
                text.push_str(key);
            }
            Self::Key(key) => text.push_str(&format!("[{key:?}]")),
            Self::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
