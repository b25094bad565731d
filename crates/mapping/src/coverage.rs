//! What of a mapping its tests can reach, and what of it they did.

use std::cmp::Reverse;
use std::ops::Range;

use super::Mapping;
use super::expression::{Base, Call, Expr, Expression, Piece, Recorder, Root, Segment, Way};
use super::leaf::Leaf;
use super::template::{Content, Each, Tree};

/// Something that a test can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Bytes of the mapping's file, as it was compiled.
    pub place: Range<usize>,
    pub goal: Goal,
}

crate::words! {
    /// What it takes to reach a place.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Goal {
        /// An expression is evaluated.
        Expression = "expression",
        /// A `when`, `ready`, `failed`, `$when` or `{% if %}` holds.
        True = "true",
        /// The same does not hold.
        False = "false",
        /// One of both values of `a if b else c` is taken.
        Branch = "branch",
        /// What `default` gives is needed.
        Fallback = "fallback",
        /// `$each`, `forEach` or `{% for %}` makes something from an item.
        Item = "item",
        /// `{% for %}` has no items, and an `{% else %}` for that.
        Empty = "empty",
    }
}

/// How much of a mapping was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    pub total: usize,
    /// What was not, in the order of the file.
    pub missed: Vec<Point>,
}

impl Coverage {
    /// What of a mapping's points a recorder, which was handed to the evaluations of this mapping alone, has taken down.
    pub fn of(mapping: &Mapping, recorder: &Recorder) -> Self {
        let points = points(mapping);
        let total = points.len();
        let missed = points.into_iter().filter(|point| !recorder.has(&point.place, point.goal.way())).collect();
        Self { total, missed }
    }

    pub fn covered(&self) -> usize {
        self.total - self.missed.len()
    }

    /// Rounded down, so that only all is 100; of nothing, all is reached.
    pub fn percent(&self) -> usize {
        (self.covered() * 100).checked_div(self.total).unwrap_or(100)
    }
}

impl Goal {
    fn way(self) -> Way {
        match self {
            Self::Expression | Self::Branch | Self::Fallback => Way::Evaluated,
            Self::True => Way::True,
            Self::False | Self::Empty => Way::False,
            Self::Item => Way::Item,
        }
    }

    /// What no test does, in an author's words.
    pub fn missed(self) -> &'static str {
        match self {
            Self::Expression => "no test evaluates this expression",
            Self::True => "no test makes this condition true",
            Self::False => "no test makes this condition false",
            Self::Branch => "no test takes this branch",
            Self::Fallback => "no test needs this fallback",
            Self::Item => "no test gives this list an item",
            Self::Empty => "no test leaves this list empty",
        }
    }
}

/// Everything that tests of a mapping can reach, in the order of the file.
fn points(mapping: &Mapping) -> Vec<Point> {
    let mut points = Points::default();
    // Nobody asks whether an object is ready that no other depends on.
    let needed = mapping.objects.iter().flat_map(|rule| &rule.depends_on).map(|position| &mapping.objects[*position]);
    let is_asked = |leaf: &Leaf<'_>| match leaf {
        Leaf::Verdict(rule, _) => needed.clone().any(|other| other.id == rule.id),
        _ => true,
    };
    mapping.leaves().filter(is_asked).for_each(|leaf| points.leaf(leaf));
    let mut all = points.all;
    // An object's name is a leaf of its template, too; an alias stands in several places.
    all.sort_by_key(|point| (point.place.start, Reverse(point.place.end), point.goal));
    all.dedup();
    all
}

/// What an expression reads of the source.
#[derive(Debug)]
pub struct SourceRead<'m> {
    /// It ends where an item of a list is read: whoever reads the list may read all of it.
    pub path: Vec<&'m str>,
    pub part: Part<'m>,
}

/// How much of a value is read.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'m> {
    All,
    /// Only whether it is there, or how it counts.
    Presence,
    Only(Vec<&'m str>),
    Without(Vec<&'m str>),
}

impl SourceRead<'_> {
    /// Whether all below a path is read.
    pub fn covers(&self, path: &[&str]) -> bool {
        let below = path.get(self.path.len());
        path.starts_with(&self.path)
            && match &self.part {
                Part::All => true,
                Part::Presence => false,
                Part::Only(names) => below.is_some_and(|name| names.contains(name)),
                Part::Without(names) => below.is_some_and(|name| !names.contains(name)),
            }
    }
}

/// What the expressions of a mapping read of the source.
pub fn reads_of_source(mapping: &Mapping) -> Vec<SourceRead<'_>> {
    let mut points = Points::default();
    mapping.leaves().for_each(|leaf| points.leaf(leaf));
    points.reads
}

/// The fields that `only` and `without` name.
fn names_of(call: &Call) -> Option<Vec<&str>> {
    call.rest.iter().map(|name| if let Expr::Literal(name) = name { name.as_str() } else { None }).collect()
}

/// What an expression reads of its first operand.
fn part(expr: &Expr) -> Part<'_> {
    match expr {
        Expr::Not(_) | Expr::Conditional { .. } => Part::Presence,
        Expr::Call(call) => match (call.name(), names_of(call)) {
            ("length", _) => Part::Presence,
            ("only", Some(names)) => Part::Only(names),
            ("without", Some(names)) => Part::Without(names),
            _ if call.is_test() && call.arguments.len() == 1 => Part::Presence,
            _ => Part::All,
        },
        _ => Part::All,
    }
}

#[derive(Default)]
struct Points<'m> {
    all: Vec<Point>,
    reads: Vec<SourceRead<'m>>,
}

impl<'m> Points<'m> {
    fn put(&mut self, place: &Range<usize>, goal: Goal) {
        self.all.push(Point { place: place.clone(), goal });
    }

    fn leaf(&mut self, leaf: Leaf<'m>) {
        match leaf {
            Leaf::Condition(condition) | Leaf::Verdict(_, condition) => self.condition(condition),
            Leaf::List(each) => {
                self.tree(each.list.root());
                self.put(&each.place(), Goal::Item);
            }
            Leaf::Text(text) => self.pieces(text.pieces()),
            Leaf::Template(template) => self.tree(template.root()),
        }
    }

    fn tree(&mut self, tree: &'m Tree) {
        match &tree.content {
            Content::Literal(_) => {}
            Content::Expression(expression) => self.expression(expression),
            Content::Text(text) => self.pieces(text.pieces()),
            Content::Sequence(trees) | Content::Merge(trees) => trees.iter().for_each(|tree| self.tree(tree)),
            Content::Mapping(entries) => entries.iter().for_each(|entry| self.tree(&entry.tree)),
            Content::Each(each) => self.each(each),
            Content::When(when) => {
                self.condition(&when.condition);
                self.tree(&when.tree);
            }
        }
    }

    fn each(&mut self, each: &'m Each) {
        self.tree(&each.list);
        self.put(&each.list.node.headline(), Goal::Item);
        each.when.iter().for_each(|when| self.condition(when));
        self.tree(&each.item);
    }

    fn expression(&mut self, expression: &'m Expression) {
        self.put(expression.place(), Goal::Expression);
        self.branches(expression.expr());
    }

    /// A constant has one outcome.
    fn condition(&mut self, expression: &'m Expression) {
        if matches!(expression.expr(), Expr::Literal(_)) {
            return;
        }
        self.put(expression.place(), Goal::True);
        self.put(expression.place(), Goal::False);
        self.branches(expression.expr());
    }

    fn branches(&mut self, expr: &'m Expr) {
        match expr {
            Expr::Conditional { places, .. } => places.iter().for_each(|place| self.put(place, Goal::Branch)),
            Expr::Default { place, .. } => self.put(place, Goal::Fallback),
            _ => {}
        }
        for (index, operand) in expr.operands().into_iter().enumerate() {
            match operand {
                // The first operand is the one that a filter or test is about.
                Expr::Path(_) if index == 0 => self.read(operand, part(expr)),
                _ => self.branches(operand),
            }
        }
        if matches!(expr, Expr::Path(_)) {
            self.read(expr, Part::All);
        }
    }

    fn read(&mut self, expr: &'m Expr, part: Part<'m>) {
        let Expr::Path(path) = expr else { return };
        if path.base != Base::Root(Root::Source) {
            return;
        }
        let keys = path.segments.iter().map_while(|segment| match segment {
            Segment::Key(key) => Some(key.as_str()),
            Segment::Index(_) => None,
        });
        let path: Vec<_> = keys.collect();
        self.reads.push(SourceRead { path, part });
    }

    fn pieces(&mut self, pieces: &'m [Piece]) {
        for piece in pieces {
            match piece {
                Piece::Raw(_) => {}
                Piece::Print { expr, place } => {
                    self.put(place, Goal::Expression);
                    self.branches(expr);
                }
                Piece::If { test, place, then, otherwise } => {
                    self.put(place, Goal::True);
                    self.put(place, Goal::False);
                    match test {
                        Expr::Path(_) => self.read(test, Part::Presence),
                        _ => self.branches(test),
                    }
                    self.pieces(then);
                    self.pieces(otherwise);
                }
                Piece::For(node) => {
                    self.put(&node.place, Goal::Item);
                    if !node.otherwise.is_empty() {
                        self.put(&node.place, Goal::Empty);
                    }
                    node.filter.iter().chain([&node.items]).for_each(|expr| self.branches(expr));
                    self.pieces(&node.body);
                    self.pieces(&node.otherwise);
                }
            }
        }
    }
}
