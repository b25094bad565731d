//! What an expression can come to, as far as schemas tell.

use serde_json::Value;

use crate::expression::{Base, Call, Expr, Path, Piece, Root, Segment, Text, TextForm};
use crate::schema::{Field, Form, Schema, View};
use crate::template::Tree;

/// One of the types a value can have.
#[derive(Debug, Clone)]
pub(super) enum Type<'s> {
    /// Nothing is known.
    Any,
    Literal(&'s Value),
    Simple(Form),
    Of(Shape<'s>),
}

/// A value that a schema describes.
#[derive(Debug, Clone)]
pub(super) struct Shape<'s> {
    pub view: View<'s>,
    /// How the author reaches it: `source.spec`.
    pub path: String,
    /// Fields that were taken away.
    pub without: Vec<String>,
    /// The fields that are left, where they were picked.
    pub only: Option<Vec<String>>,
}

/// What the names of an expression stand for.
#[derive(Debug, Clone)]
pub(super) struct Environment<'s> {
    pub source: Option<&'s Schema>,
    /// Schemas of the objects by id.
    pub objects: Vec<(&'s str, Option<&'s Schema>)>,
    pub vars: Vec<(String, Bound<'s>)>,
    pub locals: Vec<(String, Bound<'s>)>,
    /// What a `transform` is given.
    pub value: Vec<Type<'s>>,
}

/// What is known of a name.
#[derive(Debug, Clone)]
pub(super) struct Bound<'s> {
    pub types: Vec<Type<'s>>,
    /// Whether a consumer decides what it holds.
    pub is_consumers: bool,
    /// Of a map that the document writes out, its fields.
    pub fields: Vec<(String, Self)>,
}

impl Bound<'_> {
    pub fn new<'s>(types: Vec<Type<'s>>, is_consumers: bool) -> Bound<'s> {
        Bound { types, is_consumers, fields: Vec::new() }
    }

    /// Nothing is known.
    pub fn any<'s>(is_consumers: bool) -> Bound<'s> {
        Bound::new(vec![Type::Any], is_consumers)
    }
}

impl<'s> Shape<'s> {
    pub fn new(view: View<'s>, path: String) -> Self {
        Self { view, path, without: Vec::new(), only: None }
    }

    /// Whether a field is still there.
    pub fn keeps(&self, name: &str) -> bool {
        !self.without.iter().any(|field| field == name)
            && self.only.as_ref().is_none_or(|only| only.iter().any(|field| field == name))
    }

    fn step(&self, segment: &Segment) -> Option<Self> {
        let mut path = self.path.clone();
        segment.write(&mut path);
        match segment {
            Segment::Key(key) => match self.view.field(key) {
                Field::Known(view) => Some(Self::new(view, path)),
                Field::Open | Field::Unknown => None,
            },
            Segment::Index(_) => self.view.item().map(|view| Self::new(view, path)),
        }
    }

    fn item(&self) -> Option<Self> {
        self.view.item().map(|view| Self::new(view, format!("{}[]", self.path)))
    }
}

impl<'s> Type<'s> {
    pub fn form(&self) -> Form {
        match self {
            Self::Any => Form::Any,
            Self::Literal(value) => Form::of(value),
            Self::Simple(form) => *form,
            Self::Of(shape) => shape.view.form(),
        }
    }

    fn step(self, segment: &Segment) -> Self {
        match self {
            Self::Of(shape) => shape.step(segment).map_or(Self::Any, Self::Of),
            _ => Self::Any,
        }
    }

    fn item(self) -> Self {
        match self {
            Self::Of(shape) => shape.item().map_or(Self::Any, Self::Of),
            _ => Self::Any,
        }
    }
}

/// Filters that give a string, whatever they are given.
const TEXTS: [&str; 17] = [
    "as_quantity",
    "b64decode",
    "b64encode",
    "capitalize",
    "dns_label",
    "dns_subdomain",
    "join",
    "label_value",
    "lower",
    "replace",
    "sha256",
    "short_hash",
    "string",
    "tojson",
    "toyaml",
    "trim",
    "upper",
];

/// Filters that give a list of what they are given.
const SAME: [&str; 8] = ["reject", "rejectattr", "required", "reverse", "select", "selectattr", "sort", "unique"];

impl<'s> Environment<'s> {
    pub fn object(&self, id: &str) -> Option<&'s Schema> {
        self.objects.iter().find(|(known, _)| *known == id).and_then(|(_, schema)| *schema)
    }

    /// The types an expression can come to; none for `omit`.
    pub fn infer(&self, expr: &'s Expr) -> Vec<Type<'s>> {
        match expr {
            Expr::Literal(value) => vec![Type::Literal(value)],
            Expr::Omit => Vec::new(),
            Expr::Path(path) => self.path(path),
            Expr::Member { base, name, .. } => self.infer(base).into_iter().map(|one| one.step(name)).collect(),
            Expr::Default { value, fallback, .. } => {
                let fallback = fallback.as_ref().map_or(vec![Type::Simple(Form::Text)], |expr| self.infer(expr));
                [self.infer(value), fallback].concat()
            }
            Expr::Conditional { then, otherwise, .. } => [self.infer(then), self.infer(otherwise)].concat(),
            Expr::And(one, other) | Expr::Or(one, other) => [self.infer(one), self.infer(other)].concat(),
            Expr::Not(_) | Expr::Compare { .. } => vec![Type::Simple(Form::Boolean)],
            Expr::Concat(..) | Expr::RegexReplace { .. } => vec![Type::Simple(Form::Text)],
            Expr::List(_) => vec![Type::Simple(Form::List)],
            Expr::Map(_) => vec![Type::Simple(Form::Map)],
            Expr::Call(call) => self.call(call),
            Expr::Index { .. } | Expr::Slice { .. } | Expr::Negate(_) | Expr::Arithmetic { .. } => vec![Type::Any],
        }
    }

    fn call(&self, call: &'s Call) -> Vec<Type<'s>> {
        let first = || call.arguments.first().and_then(Option::as_ref).map_or(vec![Type::Any], |expr| self.infer(expr));
        match call.name() {
            _ if call.is_test() => vec![Type::Simple(Form::Boolean)],
            "length" | "int" => vec![Type::Simple(Form::Integer)],
            "observed_generation_current" => vec![Type::Simple(Form::Boolean)],
            "first" | "last" => first().into_iter().map(Type::item).collect(),
            "without" | "only" => first().into_iter().map(|one| picked(one, call)).collect(),
            name if TEXTS.contains(&name) => vec![Type::Simple(Form::Text)],
            name if SAME.contains(&name) => first(),
            _ => vec![Type::Any],
        }
    }

    fn path(&self, path: &Path) -> Vec<Type<'s>> {
        self.reached(path).types
    }

    fn reached(&self, path: &Path) -> Bound<'s> {
        let mut bound = self.base(&path.base);
        for segment in &path.segments {
            let written = |(key, _): &(String, _)| matches!(segment, Segment::Key(name) if name == key);
            bound = match bound.fields.iter().position(written) {
                Some(position) => bound.fields.swap_remove(position).1,
                None => Bound::new(bound.types.into_iter().map(|one| one.step(segment)).collect(), bound.is_consumers),
            };
        }
        bound
    }

    /// What is known of what a variable's tree gives.
    pub fn bound(&self, tree: &'s Tree) -> Bound<'s> {
        match tree {
            Tree::Literal(_) => Bound::any(false),
            Tree::Expression(expression) => {
                Bound::new(self.infer(expression.expr()), self.is_consumers(expression.expr()))
            }
            Tree::Text(text) => Bound::any(self.prints_consumers(text)),
            Tree::Sequence(trees) | Tree::Merge(trees) => {
                Bound::any(trees.iter().any(|tree| self.bound(tree).is_consumers))
            }
            Tree::Each(each) => {
                let items = self.bound(&each.list);
                let mut environment = self.clone();
                environment.locals.push((each.name.clone(), Bound::any(items.is_consumers)));
                Bound::any(environment.bound(&each.item).is_consumers)
            }
            Tree::When(when) => self.bound(&when.tree),
            Tree::Mapping(entries) => {
                let fields: Vec<_> = entries.iter().map(|(key, tree)| (key.clone(), self.bound(tree))).collect();
                let is_consumers = fields.iter().any(|(_, field)| field.is_consumers);
                Bound { fields, ..Bound::any(is_consumers) }
            }
        }
    }

    /// What the first word of a path stands for.
    pub fn base(&self, base: &Base) -> Bound<'s> {
        let of = |schema: Option<&'s Schema>| match schema {
            Some(schema) => vec![Type::Of(Shape::new(schema.view(), base.to_string()))],
            None => vec![Type::Any],
        };
        let named = |bound: &[(String, Bound<'s>)], name: &str| {
            let found = bound.iter().rev().find(|(known, _)| known == name);
            found.map_or_else(|| Bound::any(false), |(_, bound)| bound.clone())
        };
        match base {
            Base::Root(Root::Source) => Bound::new(of(self.source), true),
            Base::Root(Root::Value) => Bound::new(self.value.clone(), false),
            Base::Root(_) | Base::Related(_) => Bound::any(false),
            Base::Object(id) => Bound::new(of(self.object(id)), false),
            Base::Var(name) => named(&self.vars, name),
            Base::Local(name) => named(&self.locals, name),
        }
    }

    /// The items of the lists that an expression can come to.
    pub fn items(&self, expr: &'s Expr) -> Bound<'s> {
        let types = self.infer(expr).into_iter().map(Type::item).collect();
        Bound::new(types, self.is_consumers(expr))
    }

    /// Whether a consumer's own words can come out of an expression; a hash of them is none.
    pub fn is_consumers(&self, expr: &Expr) -> bool {
        let any = |all: Vec<&Expr>| all.into_iter().any(|expr| self.is_consumers(expr));
        match expr {
            Expr::Not(_) | Expr::Compare { .. } => false,
            Expr::Path(path) => self.reached(path).is_consumers,
            Expr::Index { base, .. } | Expr::Slice { base, .. } => any(vec![base]),
            Expr::Map(entries) => any(entries.iter().map(|(_, value)| value).collect()),
            Expr::Conditional { then, otherwise, .. } => any(vec![then, otherwise]),
            Expr::Call(call)
                if call.is_test()
                    || matches!(call.name(), "short_hash" | "sha256" | "length" | "observed_generation_current") =>
            {
                false
            }
            _ => any(expr.operands()),
        }
    }

    /// The same of a text.
    pub fn prints_consumers(&self, text: &Text) -> bool {
        match text.form() {
            TextForm::Literal(_) => false,
            TextForm::Typed(expression) => self.is_consumers(expression.expr()),
            TextForm::Pieces(pieces) => self.pieces_consumers(pieces),
        }
    }

    fn pieces_consumers(&self, pieces: &[Piece]) -> bool {
        pieces.iter().any(|piece| match piece {
            Piece::Raw(_) => false,
            Piece::Print { expr, .. } => self.is_consumers(expr),
            Piece::If { then, otherwise, .. } => self.pieces_consumers(then) || self.pieces_consumers(otherwise),
            Piece::For(node) => {
                self.is_consumers(&node.items)
                    || self.pieces_consumers(&node.body)
                    || self.pieces_consumers(&node.otherwise)
            }
        })
    }
}

/// `without("a")`, `only("a")`.
fn picked<'s>(one: Type<'s>, call: &'s Call) -> Type<'s> {
    let Type::Of(mut shape) = one else { return Type::Any };
    let names = call.rest.iter().map(|argument| match argument {
        Expr::Literal(Value::String(name)) => Some(name.clone()),
        _ => None,
    });
    let Some(names) = names.collect::<Option<Vec<_>>>() else { return Type::Any };
    match call.name() {
        "without" => shape.without.extend(names),
        _ => shape.only = Some(names),
    }
    Type::Of(shape)
}
