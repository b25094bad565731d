//! From an author's text to a compiled expression: the syntax is minijinja's, everything after it is ours.

use std::ops::Range;

use minijinja::machinery::{Span, ast, parse_expr};
use serde_json::Value;

use super::names::Names;
use super::registry::Role;
use super::source::{ESCAPED, EXPRESSION_LENGTH, PLACEHOLDER, SHORTER};
use super::tree::{Arithmetic, Comparison, Expr, Segment};
use crate::diagnostic::Finding;
use crate::yaml::Scalar;

/// Levels an expression may be nested: what walks it is recursive.
const DEPTH: usize = 64;

/// What puts right what minijinja's parser says, by a part of it; the more particular ones first.
const HELP: [(&str, &str); 9] = [
    ("unexpected `.`", "a path begins with a root: `source.spec.x`, for example"),
    ("unexpected end of input, expected end of variable block", CLOSED),
    ("unexpected `}`, expected end of variable block", CLOSED),
    ("unexpected `}`, expected end of block", "close it with `%}`"),
    (
        "unexpected end of input, expected end of block",
        "`{% if %}` needs `{% endif %}`, and `{% for %}` needs `{% endfor %}`",
    ),
    (", expected end of block", STATEMENTS),
    ("unknown statement", STATEMENTS),
    (", expected end of variable block", ENDED),
    ("unexpected input after expression", ENDED),
];
const CLOSED: &str = "close it with `}}`";
const ENDED: &str = "the expression ends here: an operator is missing, or the parentheses of `name(a, b)`; `if` and `for` stand in `{% %}`";
const STATEMENTS: &str =
    "there are `{% if %}`, `{% elif %}`, `{% else %}`, `{% endif %}`, `{% for %}` and `{% endfor %}`";

/// Stands for a part that cannot be compiled: a finding says why, and the whole is not used.
pub(super) const REFUSED: Expr = Expr::Omit;

/// Compiles the expressions of one scalar, and collects what is wrong with them.
pub(super) struct Compiler<'s> {
    pub names: &'s Names<'s>,
    pub findings: &'s mut Vec<Finding>,
    /// How many of them are of other scalars.
    before: usize,
    /// Loop variables around the place.
    pub locals: Vec<String>,
    scalar: &'s Scalar,
    /// The text that was parsed, and where in the scalar it begins.
    source: &'s str,
    start: usize,
    depth: usize,
    /// Said once, however many branches are too deep.
    too_deep: bool,
}

impl<'s> Compiler<'s> {
    pub fn new(
        scalar: &'s Scalar,
        source: &'s str,
        start: usize,
        names: &'s Names<'s>,
        findings: &'s mut Vec<Finding>,
    ) -> Self {
        Self {
            before: findings.len(),
            names,
            findings,
            locals: Vec::new(),
            scalar,
            source,
            start,
            depth: 0,
            too_deep: false,
        }
    }

    /// Compiles the whole source as one expression.
    pub fn parse(&mut self) -> Option<Expr> {
        if self.source.trim().is_empty() {
            self.report("SE0201", 0..self.source.len(), "an expression is missing here");
            return None;
        }
        if self.source.len() > EXPRESSION_LENGTH {
            let message = format!("an expression has at most {EXPRESSION_LENGTH} bytes");
            return self.refused("SE0208", 0..self.source.len(), message, SHORTER);
        }
        self.check_tokens(true)?;
        match parse_expr(self.source) {
            Ok(expr) => {
                let lowered = self.lower(&expr);
                self.is_clean().then_some(lowered)
            }
            Err(error) => self.syntax_error(&error),
        }
    }

    /// Whether nothing is wrong so far.
    pub fn is_clean(&self) -> bool {
        self.findings.len() == self.before
    }

    /// The text that was parsed.
    pub fn source(&self) -> &'s str {
        self.source
    }

    pub fn syntax_error<T>(&mut self, error: &minijinja::Error) -> Option<T> {
        let message = error.detail().unwrap_or("this is no expression").replace(PLACEHOLDER, ESCAPED);
        // The engine's range can lie outside the text, inside a character, or be empty.
        let range = error.range().filter(|range| self.source.get(range.clone()).is_some_and(|text| !text.is_empty()));
        let range = range.unwrap_or_else(|| self.last_character());
        let help = HELP.iter().find(|(part, _)| message.contains(*part)).map(|(_, help)| (*help).to_owned());
        self.report("SE0201", range, message).help = help;
        None
    }

    fn last_character(&self) -> Range<usize> {
        let text = self.source.trim_end();
        text.char_indices().next_back().map_or(0..0, |(start, _)| start..text.len())
    }

    pub fn report(&mut self, code: &'static str, range: Range<usize>, message: impl Into<String>) -> &mut Finding {
        let span = self.place(range);
        self.findings.push(Finding::new(code, span, message));
        let last = self.findings.len() - 1;
        &mut self.findings[last]
    }

    /// Says why something cannot be compiled, and what to do about it.
    pub fn refused<T>(
        &mut self,
        code: &'static str,
        range: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        self.report(code, range, message).help = Some(help.into());
        None
    }

    /// Where in the file a range of the parsed text stands.
    pub fn place(&self, range: Range<usize>) -> Range<usize> {
        self.scalar.locate(self.start + range.start..self.start + range.end)
    }

    /// Where a slice of the parsed text stands in it.
    pub fn range_of(&self, part: &str) -> Range<usize> {
        let start = (part.as_ptr() as usize).wrapping_sub(self.source.as_ptr() as usize);
        if start.checked_add(part.len()).is_some_and(|end| end <= self.source.len()) {
            start..start + part.len()
        } else {
            0..self.source.len()
        }
    }

    pub fn range(&self, expr: &ast::Expr<'_>) -> Range<usize> {
        let (mut first, end) = (expr, expr.span().end_offset as usize);
        loop {
            first = match first {
                ast::Expr::GetAttr(node) => &node.expr,
                ast::Expr::GetItem(node) => &node.expr,
                ast::Expr::Slice(node) => &node.expr,
                ast::Expr::Call(node) => &node.expr,
                ast::Expr::Test(node) => &node.expr,
                ast::Expr::BinOp(node) => &node.left,
                ast::Expr::Compare(node) => &node.expr,
                ast::Expr::IfExpr(node) => &node.true_expr,
                ast::Expr::Filter(node) => match &node.expr {
                    Some(expr) => expr,
                    None => break,
                },
                _ => break,
            };
        }
        self.with_parentheses(self.clamp(first.span().start_offset as usize..end))
    }

    /// The parser drops parentheses: those that a range closes are taken in again.
    fn with_parentheses(&self, mut range: Range<usize>) -> Range<usize> {
        let part = &self.source[range.clone()];
        let mut closed = part.matches(')').count().saturating_sub(part.matches('(').count());
        while closed > 0 {
            let before = self.source[..range.start].trim_end();
            let Some(before) = before.strip_suffix('(') else { break };
            range.start = before.len();
            closed -= 1;
        }
        range
    }

    pub fn span(&self, span: Span) -> Range<usize> {
        self.clamp(span.start_offset as usize..span.end_offset as usize)
    }

    fn clamp(&self, range: Range<usize>) -> Range<usize> {
        if self.source.get(range.clone()).is_some() { range } else { 0..self.source.len() }
    }

    pub fn written(&self, expr: &ast::Expr<'_>) -> String {
        self.source[self.range(expr)].to_owned()
    }

    /// All parts of an expression are looked at, so that every error is found.
    pub fn lower(&mut self, expr: &ast::Expr<'_>) -> Expr {
        self.depth += 1;
        let lowered = if self.depth > DEPTH { self.refuse_depth(expr) } else { self.lower_node(expr) };
        self.depth -= 1;
        lowered.unwrap_or(REFUSED)
    }

    fn refuse_depth(&mut self, expr: &ast::Expr<'_>) -> Option<Expr> {
        if !std::mem::replace(&mut self.too_deep, true) {
            let range = self.range(expr);
            self.report("SE0208", range, format!("the expression is nested more than {DEPTH} levels deep")).help =
                Some(SHORTER.to_owned());
        }
        None
    }

    fn boxed(&mut self, expr: &ast::Expr<'_>) -> Box<Expr> {
        Box::new(self.lower(expr))
    }

    fn lower_node(&mut self, expr: &ast::Expr<'_>) -> Option<Expr> {
        if let Some(path) = self.static_path(expr) {
            return Some(path);
        }
        match expr {
            ast::Expr::Var(node) => self.unknown_name(node.id),
            ast::Expr::Const(node) => self.constant(&node.value, expr),
            ast::Expr::GetAttr(node) => Some(Expr::Member {
                base: self.boxed(&node.expr),
                name: Segment::Key(node.name.to_owned()),
                written: self.written(expr),
                place: self.place(self.range_of(node.name)),
            }),
            ast::Expr::GetItem(node) => Some(Expr::Index {
                base: self.boxed(&node.expr),
                index: self.boxed(&node.subscript_expr),
                written: self.written(expr),
                place: self.place(self.range(&node.subscript_expr)),
            }),
            ast::Expr::Slice(node) => Some(self.slice(node)),
            ast::Expr::UnaryOp(node) => match node.op {
                ast::UnaryOpKind::Not => Some(Expr::Not(self.boxed(&node.expr))),
                ast::UnaryOpKind::Neg => Some(Expr::Negate(self.boxed(&node.expr), self.place(self.range(&node.expr)))),
            },
            ast::Expr::BinOp(node) => Some(self.binary(node)),
            ast::Expr::Compare(node) => {
                let first = self.boxed(&node.expr);
                let rest = node.ops.iter().map(|op| (comparison(op.op), self.lower(&op.expr))).collect();
                let operands = std::iter::once(&node.expr).chain(node.ops.iter().map(|op| &op.expr));
                let places = operands.map(|operand| self.place(self.range(operand))).collect();
                Some(Expr::Compare { first, rest, places })
            }
            ast::Expr::IfExpr(node) => self.conditional(node, expr),
            ast::Expr::List(node) => Some(self.list(&node.items)),
            ast::Expr::Tuple(node) => Some(self.list(&node.items)),
            ast::Expr::Map(node) => {
                let entries = node.keys.iter().zip(&node.values);
                Some(Expr::Map(entries.map(|(key, value)| (self.lower(key), self.lower(value))).collect()))
            }
            ast::Expr::Filter(node) => self.filter(node),
            ast::Expr::Test(node) => {
                let call = self.call(Role::Test, node.name, Some(&node.expr), &node.args);
                call.map(Expr::Call)
            }
            ast::Expr::Call(node) => self.function(node),
        }
    }

    fn list(&mut self, items: &[ast::Expr<'_>]) -> Expr {
        Expr::List(items.iter().map(|item| self.lower(item)).collect())
    }

    fn constant(&mut self, value: &minijinja::Value, expr: &ast::Expr<'_>) -> Option<Expr> {
        match literal(value) {
            Some(value) => Some(Expr::Literal(value)),
            None => {
                let range = self.range(expr);
                self.report("SE0201", range, "JSON has no such number: integers have 64 bits");
                None
            }
        }
    }

    fn slice(&mut self, node: &ast::Slice<'_>) -> Expr {
        if let Some(step) = &node.step {
            let range = self.range(step);
            self.report("SE0206", range, "a slice takes no step");
        }
        Expr::Slice {
            base: self.boxed(&node.expr),
            start: node.start.as_ref().map(|start| self.boxed(start)),
            stop: node.stop.as_ref().map(|stop| self.boxed(stop)),
        }
    }

    fn conditional(&mut self, node: &ast::IfExpr<'_>, expr: &ast::Expr<'_>) -> Option<Expr> {
        let (test, then) = (self.boxed(&node.test_expr), self.boxed(&node.true_expr));
        let Some(otherwise) = &node.false_expr else {
            let (range, written) = (self.range(expr), self.written(expr));
            let message = "`if` without `else` has no value where its condition is false";
            return self.refused(
                "SE0206",
                range,
                message,
                format!("write `{written} else …`; `else omit` leaves a whole key or item out"),
            );
        };
        let places = [&node.true_expr, otherwise].map(|branch| self.place(self.range(branch)));
        Some(Expr::Conditional { test, then, otherwise: self.boxed(otherwise), places })
    }

    fn binary(&mut self, node: &ast::BinOp<'_>) -> Expr {
        use ast::BinOpKind as Kind;
        let (left, right) = (self.boxed(&node.left), self.boxed(&node.right));
        let places = [&node.left, &node.right].map(|operand| self.place(self.range(operand)));
        let [one, other] = places.clone();
        let compare = |comparison, left: Box<Expr>, right: Box<Expr>| Expr::Compare {
            first: left,
            rest: vec![(comparison, *right)],
            places: vec![one, other],
        };
        let arithmetic = |operator, left, right| Expr::Arithmetic { operator, left, right, places: places.clone() };
        match node.op {
            Kind::ScAnd => Expr::And(left, right),
            Kind::ScOr => Expr::Or(left, right),
            Kind::Concat => Expr::Concat { left, right, places: places.clone() },
            Kind::Add => arithmetic(Arithmetic::Add, left, right),
            Kind::Sub => arithmetic(Arithmetic::Subtract, left, right),
            Kind::Mul => arithmetic(Arithmetic::Multiply, left, right),
            Kind::Div => arithmetic(Arithmetic::Divide, left, right),
            Kind::FloorDiv => arithmetic(Arithmetic::FloorDivide, left, right),
            Kind::Rem => arithmetic(Arithmetic::Remainder, left, right),
            Kind::Pow => {
                let range = self.range(&node.left).start..self.range(&node.right).end;
                let finding = self.report("SE0201", range, "`**` is no operator of the language");
                finding.help = Some("write `x * x`".to_owned());
                REFUSED
            }
            Kind::Eq => compare(Comparison::Equal, left, right),
            Kind::Ne => compare(Comparison::NotEqual, left, right),
            Kind::Lt => compare(Comparison::Less, left, right),
            Kind::Lte => compare(Comparison::LessOrEqual, left, right),
            Kind::Gt => compare(Comparison::Greater, left, right),
            Kind::Gte => compare(Comparison::GreaterOrEqual, left, right),
            Kind::In => compare(Comparison::In, left, right),
        }
    }
}

/// A literal as JSON; the escape's placeholder becomes again what was written.
fn literal(value: &minijinja::Value) -> Option<Value> {
    match value.as_str() {
        Some(text) => Some(Value::String(text.replace(PLACEHOLDER, ESCAPED))),
        // Of an infinite number serde would make null.
        None if f64::try_from(value.clone()).is_ok_and(f64::is_infinite) => None,
        None => serde_json::to_value(value).ok(),
    }
}

fn comparison(kind: ast::CompareOpKind) -> Comparison {
    match kind {
        ast::CompareOpKind::Eq => Comparison::Equal,
        ast::CompareOpKind::Ne => Comparison::NotEqual,
        ast::CompareOpKind::Lt => Comparison::Less,
        ast::CompareOpKind::Lte => Comparison::LessOrEqual,
        ast::CompareOpKind::Gt => Comparison::Greater,
        ast::CompareOpKind::Gte => Comparison::GreaterOrEqual,
        ast::CompareOpKind::In => Comparison::In,
        ast::CompareOpKind::NotIn => Comparison::NotIn,
    }
}
