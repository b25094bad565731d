//! Text with expressions in it.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use minijinja::machinery::{ast, parse};
use serde_json::Value;

use super::budget::Budget;
use super::evaluate::Evaluation;
use super::names::{Names, is_taken};
use super::parse::Compiler;
use super::references::References;
use super::scope::Scope;
use super::source::{self, ESCAPED, Form, PLACEHOLDER};
use super::tree::Expr;
use super::value::{kind, own, print};
use super::{Expression, Unrendered, Way};
use crate::diagnostic::Finding;
use crate::yaml::{Node, NodeValue, Scalar};

/// A text whose expressions are compiled. What it prints is a string, whatever is printed.
#[derive(Debug)]
pub struct Text {
    /// Without an expression, one raw piece.
    pieces: Vec<Piece>,
}

#[derive(Debug)]
pub(crate) enum Piece {
    Raw(String),
    /// `place`: where in the file the expression stands, here and below.
    Print {
        expr: Expr,
        place: Range<usize>,
    },
    If {
        test: Expr,
        place: Range<usize>,
        then: Vec<Piece>,
        otherwise: Vec<Piece>,
    },
    For(Box<Loop>),
}

#[derive(Debug)]
pub(crate) struct Loop {
    pub targets: Vec<String>,
    pub items: Expr,
    pub place: Range<usize>,
    pub filter: Option<Expr>,
    pub body: Vec<Piece>,
    pub otherwise: Vec<Piece>,
}

impl Text {
    /// Compiles a string with `{{ }}` or `{% %}` in it, or one `${{ }}` that is to be printed.
    pub fn compile(node: &Arc<Node>, names: &Names, findings: &mut Vec<Finding>) -> Option<Self> {
        let NodeValue::String(scalar) = &node.value else {
            findings
                .push(Finding::new("SE0209", node.headline(), "text is expected here").help("put quotes around it"));
            return None;
        };
        let pieces = match source::classify(scalar, findings)? {
            Form::Literal => vec![Piece::Raw(scalar.text.to_string())],
            // `name: ${{ … }}` where text is wanted: its value is printed.
            Form::Typed(range) => {
                let Expression { expr, place, .. } = Expression::compile_typed(scalar, range, names, findings)?;
                vec![Piece::Print { expr, place }]
            }
            Form::Text => Self::compile_pieces(scalar, names, findings)?,
        };
        Some(Self { pieces })
    }

    fn compile_pieces(scalar: &Scalar, names: &Names, findings: &mut Vec<Finding>) -> Option<Vec<Piece>> {
        let prepared = source::prepare(scalar, findings)?;
        let mut compiler = Compiler::new(scalar, &prepared, 0, names, findings);
        compiler.check_tokens(false)?;
        let pieces = match parse(&prepared, "", source::syntax()) {
            Ok(ast::Stmt::Template(template)) => compiler.pieces(&template.children),
            Ok(_) => return None,
            Err(error) => return compiler.syntax_error(&error),
        };
        compiler.is_clean().then(|| joined(pieces))
    }

    /// The text, where it holds no expression.
    pub fn literal(&self) -> Option<&str> {
        match &self.pieces[..] {
            [Piece::Raw(text)] => Some(text),
            _ => None,
        }
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub fn render(&self, scope: &Scope) -> Result<String, Unrendered> {
        self.render_within(scope, &mut Budget::for_expression(scope))
    }

    /// As `render`, paid out of a budget that others share.
    pub(crate) fn render_within(&self, scope: &Scope, budget: &mut Budget) -> Result<String, Unrendered> {
        let mut printed = String::new();
        Evaluation::new(scope, budget).print(&self.pieces, &mut printed)?;
        budget.deliver_text(printed.len())?;
        Ok(printed)
    }

    /// Whether it comes to different texts in two scopes. One part that does is enough, whatever the others come to.
    pub(crate) fn tells_apart(&self, one: &Scope, other: &Scope) -> bool {
        let printed = |piece: &Piece, scope: &Scope| {
            let mut printed = String::new();
            Evaluation::new(scope, &mut Budget::for_expression(scope)).print_one(piece, &mut printed).ok()?;
            Some(printed)
        };
        let differs = |piece: &Piece| {
            let [one, other] = [one, other].map(|scope| printed(piece, scope));
            one.zip(other).is_some_and(|(one, other)| one != other)
        };
        self.pieces.iter().any(differs)
    }

    /// Its expression, where it is nothing else.
    pub(crate) fn only_expression(&self) -> Option<&Expr> {
        match &self.pieces[..] {
            [Piece::Print { expr, .. }] => Some(expr),
            _ => None,
        }
    }

    /// Whether it can be nothing but what such expressions print: what stands between them has no letter or digit.
    pub(crate) fn can_be_bare<'t>(&'t self, is_such: &dyn Fn(&'t Expr) -> bool) -> bool {
        can_be_bare(&self.pieces, is_such)
    }

    /// Its expressions, those of all branches and loops among them.
    pub(crate) fn expressions(&self) -> Vec<&Expr> {
        expressions(&self.pieces, true)
    }

    /// The same without conditions, which only decide what is printed.
    pub(crate) fn printed(&self) -> Vec<&Expr> {
        expressions(&self.pieces, false)
    }

    /// Everything it reads by name.
    pub fn references(&self) -> References {
        References::of(self.expressions())
    }
}

fn expressions(pieces: &[Piece], conditions: bool) -> Vec<&Expr> {
    let of = |piece| match piece {
        &Piece::Raw(_) => Vec::new(),
        Piece::Print { expr, .. } => vec![expr],
        Piece::If { test, then, otherwise, .. } => {
            let test = Some(test).filter(|_| conditions).into_iter().collect();
            [test, expressions(then, conditions), expressions(otherwise, conditions)].concat()
        }
        Piece::For(node) => {
            let filter = node.filter.as_ref().filter(|_| conditions);
            let around = std::iter::once(&node.items).chain(filter).collect();
            [around, expressions(&node.body, conditions), expressions(&node.otherwise, conditions)].concat()
        }
    };
    pieces.iter().flat_map(of).collect()
}

fn can_be_bare<'t>(pieces: &'t [Piece], is_such: &dyn Fn(&'t Expr) -> bool) -> bool {
    pieces.iter().all(|piece| match piece {
        Piece::Raw(text) => !text.contains(char::is_alphanumeric),
        Piece::Print { expr, .. } => is_such(expr),
        Piece::If { then, otherwise, .. } => can_be_bare(then, is_such) || can_be_bare(otherwise, is_such),
        Piece::For(node) => is_such(&node.items) && can_be_bare(&node.body, &|_| true),
    })
}

/// Text that turned out to hold escapes alone is literal.
fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
    let raw = pieces.iter().map(|piece| match piece {
        Piece::Raw(text) => Some(text.as_str()),
        _ => None,
    });
    match raw.collect::<Option<String>>() {
        Some(literal) => vec![Piece::Raw(literal)],
        None => pieces,
    }
}

impl Compiler<'_> {
    fn pieces(&mut self, statements: &[ast::Stmt<'_>]) -> Vec<Piece> {
        statements.iter().map(|statement| self.piece(statement)).collect()
    }

    fn piece(&mut self, statement: &ast::Stmt<'_>) -> Piece {
        match statement {
            ast::Stmt::EmitRaw(raw) => Piece::Raw(raw.raw.replace(PLACEHOLDER, &ESCAPED[1..])),
            ast::Stmt::EmitExpr(emit) => {
                Piece::Print { expr: self.lower(&emit.expr), place: self.place(self.range(&emit.expr)) }
            }
            ast::Stmt::IfCond(branch) => Piece::If {
                test: self.lower(&branch.expr),
                place: self.place(self.range(&branch.expr)),
                then: self.pieces(&branch.true_body),
                otherwise: self.pieces(&branch.false_body),
            },
            ast::Stmt::ForLoop(node) => self.for_loop(node),
            // It was reported when its tokens were read.
            _ => Piece::Raw(String::new()),
        }
    }

    fn for_loop(&mut self, node: &ast::ForLoop<'_>) -> Piece {
        let place = self.place(self.range(&node.iter));
        if node.recursive {
            let range = self.range(&node.iter);
            self.report("SE0206", range, "a loop cannot be recursive");
            return Piece::Raw(String::new());
        }
        let (items, targets) = (self.lower(&node.iter), self.loop_targets(&node.target));
        let around = self.locals.len();
        self.locals.extend(targets.iter().cloned());
        let filter = node.filter_expr.as_ref().map(|filter| self.lower(filter));
        let body = self.pieces(&node.body);
        self.locals.truncate(around);
        let otherwise = self.pieces(&node.else_body);
        Piece::For(Box::new(Loop { targets, items, place, filter, body, otherwise }))
    }

    /// The names of a loop's variables; none where they are wrong.
    fn loop_targets(&mut self, target: &ast::Expr<'_>) -> Vec<String> {
        let names: Vec<&str> = match target {
            ast::Expr::Var(name) => vec![name.id],
            ast::Expr::List(list) => list
                .items
                .iter()
                .filter_map(|item| match item {
                    ast::Expr::Var(name) => Some(name.id),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        };
        let expected = if let ast::Expr::List(list) = target { list.items.len() } else { 1 };
        if names.len() != expected || names.len() > 2 {
            let range = self.range(target);
            self.report("SE0206", range, "a loop has one variable, or a key and a value");
            return Vec::new();
        }
        for name in &names {
            if is_taken(name) {
                let range = self.range_of(name);
                let finding = self.report("SE0206", range, format!("`{name}` has a meaning already"));
                finding.help = Some("choose another name".to_owned());
                return Vec::new();
            }
        }
        names.into_iter().map(str::to_owned).collect()
    }
}

/// A failure, with the path that it is about.
fn of_path(stop: Unrendered, expr: &Expr) -> Unrendered {
    match (stop, expr) {
        (Unrendered::Failed(why), Expr::Path(path)) => Unrendered::Failed(format!("`{}`: {why}", path.text())),
        (stop, _) => stop,
    }
}

impl<'a> Evaluation<'a, '_> {
    /// Prints pieces one after the other.
    fn print(&mut self, pieces: &'a [Piece], printed: &mut String) -> Result<(), Unrendered> {
        pieces.iter().try_for_each(|piece| self.print_one(piece, printed))
    }

    fn print_one(&mut self, piece: &'a Piece, printed: &mut String) -> Result<(), Unrendered> {
        self.budget.step()?;
        let text = match piece {
            Piece::Raw(text) => Cow::Borrowed(text.as_str()),
            Piece::Print { expr, place } => {
                print(self.branch(expr, place)?.require()?).map_err(|stop| of_path(stop, expr))?
            }
            Piece::If { test, place, then, otherwise } => {
                let holds = self.holds(test)?;
                self.scope.note(place, Way::of_condition(holds));
                return self.print(if holds { then } else { otherwise }, printed);
            }
            Piece::For(node) => return self.print_loop(node, printed),
        };
        self.budget.charge(text.len())?;
        printed.push_str(&text);
        Ok(())
    }

    fn print_loop(&mut self, node: &'a Loop, printed: &mut String) -> Result<(), Unrendered> {
        let items = self.items(node)?;
        let around = self.locals.len();
        let mut none = true;
        for item in items {
            self.budget.step()?;
            self.bind(node, item)?;
            if node.filter.as_ref().map_or(Ok(true), |filter| self.holds(filter))? {
                none = false;
                self.scope.note(&node.place, Way::Item);
                self.print(&node.body, printed)?;
            }
            self.locals.truncate(around);
        }
        if none {
            self.scope.note(&node.place, Way::False);
            self.print(&node.otherwise, printed)?;
        }
        Ok(())
    }

    /// The items of a list, or the keys of a map.
    fn items(&mut self, node: &'a Loop) -> Result<Vec<Cow<'a, Value>>, Unrendered> {
        match self.value(&node.items)? {
            Cow::Borrowed(Value::Array(items)) => {
                self.budget.charge(64 * items.len())?;
                Ok(items.iter().map(Cow::Borrowed).collect())
            }
            Cow::Owned(Value::Array(items)) => Ok(items.into_iter().map(Cow::Owned).collect()),
            value => match &*value {
                Value::Object(fields) => {
                    self.budget.charge_value(&value)?;
                    Ok(fields.keys().map(|key| Cow::Owned(Value::from(key.as_str()))).collect())
                }
                other => Err(Unrendered::failed(format!("`for` needs a list or a map, not {}", kind(other)))),
            },
        }
    }

    /// Gives the loop's variables their values: the item, or the two parts of a pair.
    fn bind(&mut self, node: &'a Loop, item: Cow<'a, Value>) -> Result<(), Unrendered> {
        match &node.targets[..] {
            [name] => self.locals.push((name, item)),
            names => match own(item, self.budget)? {
                Value::Array(parts) if parts.len() == names.len() => {
                    self.locals.extend(names.iter().map(String::as_str).zip(parts.into_iter().map(Cow::Owned)));
                }
                _ => return Err(Unrendered::failed("a loop over keys and values needs pairs: write `… | items`")),
            },
        }
        Ok(())
    }
}
