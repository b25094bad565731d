//! What an expression can come to, as far as schemas tell.

use std::rc::Rc;

use serde_json::Value;

use crate::ForEach;
use crate::expression::{Arithmetic, Base, Call, Comparison, Expr, Expression, Root, Segment, VERDICT};
use crate::schema::{Field, Form, Schema, View};

/// One of the types a value can have.
#[derive(Debug, Clone)]
pub(super) enum Type<'s> {
    /// Nothing is known.
    Any,
    /// A scalar.
    Literal(&'s Value),
    Simple(Form),
    /// A text that is never what a consumer writes alone; with the consumer's words in it.
    Text(Vec<Self>),
    /// A number or a truth value as text.
    Printed(Box<Self>),
    Of(Shape<'s>),
    /// A list of such items; without any, an empty one.
    List(Vec<Self>),
    /// An entry of a map, as `items` gives it: its key, and such a value.
    Entry(Vec<Self>),
    /// A map with these fields; `is_open`: it can have others.
    Map {
        fields: Vec<(String, Bound<'s>)>,
        is_open: bool,
    },
    /// A map with such values under keys that only the run tells. `lacks`: nothing waits for one that is not there.
    Keyed {
        values: Vec<Self>,
        lacks: bool,
    },
    /// Maps laid over each other, the later ones on top, each without what those above it replace.
    Merged(Vec<Bound<'s>>),
}

/// A value that a schema describes.
#[derive(Debug, Clone)]
pub(super) struct Shape<'s> {
    pub view: View<'s>,
    /// How the author reaches it: `source.spec`.
    pub path: String,
    /// Fields that were taken away, by their paths.
    pub without: Vec<Vec<String>>,
    /// The fields that are left, where they were picked.
    pub only: Option<Vec<String>>,
    /// It is a whole object of the mapping, of which expressions read whether it is ready.
    pub has_verdict: bool,
    /// An expression waits for it, and for those of its fields that the schema does not require.
    pub is_awaited: bool,
}

/// What the names of an expression stand for. Each place has its own, so what is large is shared.
#[derive(Debug, Clone)]
pub(super) struct Environment<'s> {
    pub source: Option<&'s Schema>,
    pub objects: Vec<Object<'s>>,
    pub related: Vec<Object<'s>>,
    pub vars: Rc<Vec<(String, Bound<'s>)>>,
    pub locals: Vec<(String, Bound<'s>)>,
    /// What a `transform` is given.
    pub value: Vec<Type<'s>>,
    /// What the conditions around the place say of the values that it reads.
    pub facts: Vec<Fact<'s>>,
    /// What they ask for, as it is written: it may be read.
    pub asked: Vec<String>,
    /// What they read: of a list, it may be whether it has items.
    pub seen: Vec<String>,
    /// What each variable reads.
    pub read_by: Rc<Vec<(String, Vec<String>)>>,
    /// What each variable asks for that is one expression: a condition that reads it asks for it, too.
    pub asked_by: Rc<Vec<(String, Vec<String>)>>,
}

/// An object of the mapping, or a related one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object<'s> {
    pub id: &'s str,
    pub schema: Option<&'s Schema>,
    pub is_several: bool,
    /// Whether what is read by its id is left out where its `when` is false.
    pub can_be_left_out: bool,
    /// Of several, whether one can be missing without being waited for.
    pub lacks_one: bool,
    /// When it is there, where only that decides.
    pub case: Option<Case<'s>>,
    /// Whether a consumer writes it.
    pub is_consumers: bool,
}

/// A `when` with the list and its item that it is asked for, as they are written.
pub(super) type Case<'s> = (&'s str, Option<(&'s str, &'s str)>);

/// `None`: the list is not written as an expression.
pub(super) fn case<'s>(when: &'s Expression, each: Option<&'s ForEach>) -> Option<Case<'s>> {
    let list = match each {
        Some(each) => Some((each.list.root().node.as_str()?, each.item.as_str())),
        None => None,
    };
    Some((when.source_text(), list))
}

impl Object<'_> {
    /// Where it is asked about itself.
    pub fn take_as_there(&mut self) {
        (self.can_be_left_out, self.lacks_one) = (false, false);
    }
}

/// What is known of a name.
#[derive(Debug, Clone)]
pub(super) struct Bound<'s> {
    pub types: Vec<Type<'s>>,
    /// Whether a consumer decides what it holds.
    pub is_consumers: bool,
    /// Whether there may be no value.
    pub is_optional: bool,
}

/// Where a step leads.
#[derive(Debug)]
pub(super) struct Stepped<'s> {
    pub bound: Bound<'s>,
    /// The types that have no such field.
    pub unknown: Vec<Type<'s>>,
    /// The first type that can lack the field.
    pub optional: Option<Type<'s>>,
}

impl<'s> Bound<'s> {
    pub fn new(types: Vec<Type<'s>>, is_consumers: bool) -> Self {
        Self { types, is_consumers, is_optional: false }
    }

    /// Nothing is known.
    pub fn any(is_consumers: bool) -> Self {
        Self::new(vec![Type::Any], is_consumers)
    }

    /// Of this type, made from these.
    pub fn made(form: Form, from: &[Self]) -> Self {
        Self::new(vec![Type::Simple(form)], any_consumers(from))
    }

    /// A list of these.
    pub fn list(items: Vec<Self>) -> Self {
        let is_consumers = any_consumers(&items);
        Self::new(vec![Type::List(items.into_iter().flat_map(|item| item.types).collect())], is_consumers)
    }

    /// A map with these fields.
    pub fn map(fields: Vec<(String, Self)>) -> Self {
        let is_consumers = fields.iter().any(|(_, field)| field.is_consumers);
        Self::new(vec![Type::Map { fields, is_open: false }], is_consumers)
    }

    /// One of the two.
    pub fn or(self, other: Self) -> Self {
        Self::new([self.types, other.types].concat(), self.is_consumers || other.is_consumers)
    }

    /// Maps to be laid over each other, each without what those above it replace.
    pub fn layered(layers: Vec<Self>) -> Vec<Self> {
        let replaced: Vec<_> = layers.iter().map(Self::replaces).collect();
        let of = |(index, layer): (usize, Self)| layer.lacking(&replaced[index + 1..].concat());
        layers.into_iter().enumerate().map(of).collect()
    }

    /// The paths that a map replaces in one that it is laid over: a map in a map leaves what it does not name. The name that
    /// is empty stands for the map itself, which replaces what is none.
    fn replaces(&self) -> Vec<Vec<String>> {
        let fields = match &self.types[..] {
            _ if self.is_optional => return Vec::new(),
            [Type::Map { fields, .. }] => fields,
            [Type::Merged(layers)] => return layers.iter().flat_map(Self::replaces).collect(),
            _ => return Vec::new(),
        };
        let mut paths = Vec::new();
        for (name, field) in fields {
            let mut below = vec![Vec::new()];
            if let [Type::Map { .. } | Type::Merged(_)] = &field.types[..] {
                below = [field.replaces(), vec![vec![String::new()]]].concat();
            }
            paths.extend(below.into_iter().map(|path| [vec![name.clone()], path].concat()));
        }
        paths
    }

    fn lacking(self, replaced: &[Vec<String>]) -> Self {
        Self { types: self.types.into_iter().map(|one| one.lacking(replaced)).collect(), ..self }
    }

    /// What stands under a key of two maps that are laid over each other: of two maps, both.
    fn overlaid(self, upper: Self) -> Self {
        let is_optional = self.is_optional && upper.is_optional;
        let is_consumers = self.is_consumers || upper.is_consumers;
        if upper.is_optional || upper.types.iter().any(|one| one.form() == Form::Any) {
            return Self { is_optional, ..self.or(upper) };
        }
        let is_map = |one: &Type<'s>| one.form().meets(Form::Map);
        if !upper.types.iter().all(is_map) || !self.types.iter().any(is_map) {
            return Self { is_optional, ..upper };
        }
        let lower = Self { types: self.types.into_iter().filter(is_map).collect(), ..self };
        Self { is_optional, ..Self::new(vec![Type::Merged(vec![lower, upper])], is_consumers) }
    }

    /// What the items of it are, where it is a list.
    pub fn items(self) -> Self {
        Self::new(self.types.into_iter().flat_map(Type::items).collect(), self.is_consumers)
    }

    pub fn step(&self, segment: &Segment) -> Stepped<'s> {
        let mut stepped = Stepped { bound: Self::new(Vec::new(), false), unknown: Vec::new(), optional: None };
        for one in &self.types {
            let Some(below) = one.step(segment, self.is_consumers) else {
                stepped.unknown.push(one.clone());
                continue;
            };
            if below.is_optional && stepped.optional.is_none() {
                stepped.optional = Some(one.clone());
            }
            stepped.bound.is_consumers |= below.is_consumers;
            stepped.bound.types.extend(below.types);
        }
        // An empty map stands in for another in `x | default({})`: what it lacks can be absent.
        if !stepped.bound.types.is_empty() && stepped.optional.is_none() {
            let is_map = |one: &&Type<'s>| one.form() == Form::Map && !matches!(one, Type::Of(_));
            stepped.optional = stepped.unknown.iter().find(is_map).cloned();
        }
        stepped.bound.is_optional = self.is_optional || stepped.optional.is_some();
        stepped
    }
}

/// Whether a consumer decides one of them.
pub(super) fn any_consumers(all: &[Bound<'_>]) -> bool {
    all.iter().any(|one| one.is_consumers)
}

impl<'s> Shape<'s> {
    pub fn new(view: View<'s>, path: String) -> Self {
        Self { view, path, without: Vec::new(), only: None, has_verdict: false, is_awaited: false }
    }

    /// Whether a field is still there.
    pub fn keeps(&self, name: &str) -> bool {
        !self.without.iter().any(|path| path[..] == [name])
            && self.only.as_ref().is_none_or(|only| only.iter().any(|field| field == name))
    }

    /// Whether what stands at a path was taken away.
    pub fn lacks(&self, path: &[&str]) -> bool {
        self.without.iter().any(|without| without.len() <= path.len() && without.iter().zip(path).all(|(a, b)| a == b))
    }

    /// One of its fields.
    pub fn field(&self, name: &str, view: View<'s>) -> Self {
        Self { without: below(&self.without, name), ..Self::new(view, format!("{}.{name}", self.path)) }
    }

    /// The value below one of its keys or indexes.
    pub fn below(&self, view: View<'s>, segment: &Segment) -> Self {
        let mut path = self.path.clone();
        segment.write(&mut path);
        let without = if let Segment::Key(key) = segment { below(&self.without, key) } else { Vec::new() };
        Self { without, ..Self::new(view, path) }
    }

    fn step(&self, segment: &Segment, is_consumers: bool) -> Option<Bound<'s>> {
        let to = |one: Type<'s>| Bound::new(vec![one], is_consumers);
        let Segment::Key(key) = segment else {
            return Some(to(self.view.item().map_or(Type::Any, |view| Type::Of(self.below(view, segment)))));
        };
        // A list has no fields, and neither has a text.
        if !self.view.form().meets(Form::Map) || !self.keeps(key) {
            return None;
        }
        if self.has_verdict && key == VERDICT {
            return Some(to(Type::Simple(Form::Boolean)));
        }
        match self.view.field(key) {
            Field::Open => Some(to(Type::Any)),
            Field::Unknown => None,
            Field::Known(view) => {
                let is_whole = self.path == Root::Source.as_str();
                let is_required = || self.view.required().any(|required| required == key);
                let stands = is_whole || self.is_awaited || view.has_default() || is_required();
                Some(Bound { is_optional: !stands, ..to(Type::Of(self.below(view, segment))) })
            }
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
            Self::Text(_) | Self::Printed(_) => Form::Text,
            Self::Of(shape) => shape.view.form(),
            Self::List(_) | Self::Entry(_) => Form::List,
            Self::Map { .. } | Self::Keyed { .. } | Self::Merged(_) => Form::Map,
        }
    }

    /// Where a step leads; `None`: there is no such field. `is_consumers`: whether a consumer decides the value.
    fn step(&self, segment: &Segment, is_consumers: bool) -> Option<Bound<'s>> {
        let to = |types| Some(Bound::new(types, is_consumers));
        match (self, segment) {
            (Self::Of(shape), _) => shape.step(segment, is_consumers),
            (Self::List(items), Segment::Index(_)) => to(items.clone()),
            (Self::Entry(_), Segment::Index(0 | -2)) => to(vec![Self::Simple(Form::Text)]),
            (Self::Entry(values), Segment::Index(1 | -1)) => to(values.clone()),
            (Self::Keyed { values, lacks }, Segment::Key(_)) => {
                Some(Bound { is_optional: *lacks, ..Bound::new(values.clone(), is_consumers) })
            }
            (Self::Merged(layers), Segment::Key(_)) => {
                let found = layers.iter().map(|layer| layer.step(segment).bound);
                found.filter(|bound| !bound.types.is_empty()).reduce(Bound::overlaid)
            }
            (Self::Map { fields, is_open }, Segment::Key(key)) => match fields.iter().find(|(name, _)| name == key) {
                Some((_, field)) => Some(field.clone()),
                None if *is_open => to(vec![Self::Any]),
                None => None,
            },
            // A list has no fields, and neither has a text.
            (one, Segment::Key(_)) if !one.form().meets(Form::Map) => None,
            _ => to(vec![Self::Any]),
        }
    }

    /// What its values are, where it is a map.
    pub fn entries(self) -> Vec<Self> {
        match self {
            Self::Of(shape) if shape.view.form() == Form::Map => {
                let kept = shape.view.fields().filter(|(name, _)| shape.keeps(name));
                let fields = kept.map(|(name, view)| Self::Of(shape.field(name, view)));
                let others = match shape.view.field("*") {
                    Field::Known(view) => Some(Self::Of(shape.field("*", view))),
                    Field::Open => Some(Self::Any),
                    Field::Unknown => None,
                };
                fields.chain(others).collect()
            }
            Self::Map { fields, is_open: false } => fields.into_iter().flat_map(|(_, field)| field.types).collect(),
            Self::Keyed { values, .. } => values,
            _ => vec![Self::Any],
        }
    }

    /// What its items are; of a map, its keys.
    pub fn items(self) -> Vec<Self> {
        match self {
            Self::Of(shape) if shape.view.form() != Form::Map => vec![shape.item().map_or(Self::Any, Self::Of)],
            Self::List(items) => items,
            Self::Entry(values) => [vec![Self::Simple(Form::Text)], values].concat(),
            one if one.form() == Form::Map => vec![Self::Simple(Form::Text)],
            _ => vec![Self::Any],
        }
    }

    /// Whether it can be a list with no item at an index.
    pub fn can_be_shorter(&self, index: i64) -> bool {
        let items = index.unsigned_abs() + u64::from(index >= 0);
        match self {
            Self::Of(shape) => shape.view.form() == Form::List && shape.view.min_items() < items,
            Self::List(items) => items.is_empty(),
            _ => false,
        }
    }

    /// The keys of a map that has no others.
    pub fn keys(&self) -> Option<Vec<&str>> {
        match self {
            Self::Map { fields, is_open: false } => Some(fields.iter().map(|(name, _)| name.as_str()).collect()),
            Self::Merged(layers) => {
                let keys: Option<Vec<_>> = layers.iter().flat_map(|layer| &layer.types).map(Self::keys).collect();
                keys.map(|keys| keys.concat())
            }
            _ => None,
        }
    }

    /// The same without what stands at these paths. What is no map has nothing below it, and goes as a whole.
    fn lacking(self, paths: &[Vec<String>]) -> Self {
        match self {
            Self::Of(mut shape) => {
                shape.without.extend(paths.iter().map(|path| through_maps(shape.view, path)));
                Self::Of(shape)
            }
            Self::Map { mut fields, is_open } => {
                fields.retain(|(name, field)| {
                    let is_map = field.types.iter().any(|one| one.form().meets(Form::Map));
                    !paths.iter().any(|path| path.first() == Some(name) && (path.len() == 1 || !is_map))
                });
                let fields = fields.into_iter().map(|(name, field)| {
                    let field = field.lacking(&below(paths, &name));
                    (name, field)
                });
                Self::Map { fields: fields.collect(), is_open }
            }
            Self::Merged(layers) => Self::Merged(layers.into_iter().map(|layer| layer.lacking(paths)).collect()),
            one => one,
        }
    }

    /// The values that it can have, where they are listed.
    pub fn values(&self) -> Option<Vec<&'s Value>> {
        match self {
            Self::Literal(value) => Some(vec![value]),
            Self::Of(shape) => shape.view.choices().map(|choices| choices.iter().collect()),
            _ => None,
        }
    }
}

/// What of these paths is below a field.
fn below(paths: &[Vec<String>], name: &str) -> Vec<Vec<String>> {
    let rest = |path: &Vec<String>| match &path[..] {
        [first, rest @ ..] if first == name && !rest.is_empty() => Some(rest.to_vec()),
        _ => None,
    };
    paths.iter().filter_map(rest).collect()
}

/// As much of a path as leads through maps.
fn through_maps(view: View<'_>, path: &[String]) -> Vec<String> {
    let mut view = Some(view);
    let mut taken = Vec::new();
    for name in path {
        taken.push(name.clone());
        view = view.and_then(|view| view.field(name).known());
        if view.is_some_and(|view| !view.form().meets(Form::Map)) {
            break;
        }
    }
    taken
}

/// What a condition says of a value.
#[derive(Debug, Clone)]
pub(super) struct Fact<'s> {
    /// How the value is read.
    read: String,
    /// It is one of these, or none of them.
    is_one: bool,
    of: Vec<&'s Value>,
}

/// What holds where a condition does, or does not.
fn facts(test: &Expr, holds: bool) -> Vec<Fact<'_>> {
    let both = |one, other| [facts(one, holds), facts(other, holds)].concat();
    match test {
        Expr::Not(test) => facts(test, !holds),
        Expr::And(one, other) if holds => both(one, other),
        Expr::Or(one, other) if !holds => both(one, other),
        // One of the two holds: what both say of one value.
        Expr::Or(one, other) => {
            let others = facts(other, true);
            let joined = facts(one, true).into_iter().filter_map(|mut fact| {
                let other = others.iter().find(|other| other.read == fact.read && other.is_one && fact.is_one)?;
                fact.of.extend(&other.of);
                Some(fact)
            });
            joined.collect()
        }
        Expr::Compare { first, rest, .. } => {
            let [(comparison, other)] = &rest[..] else { return Vec::new() };
            fn literals(expr: &Expr) -> Option<Vec<&Value>> {
                if let Expr::Literal(value) = expr { Some(vec![value]) } else { None }
            }
            let (read, of) = match (comparison, other) {
                (Comparison::Equal | Comparison::NotEqual, other) => match literals(other) {
                    Some(values) => (read(first), Some(values)),
                    None => (read(other), literals(first)),
                },
                (Comparison::In | Comparison::NotIn, Expr::List(items)) => {
                    let values: Option<Vec<_>> = items.iter().map(literals).collect();
                    (read(first), values.map(|values| values.concat()))
                }
                _ => return Vec::new(),
            };
            let is_one = matches!(comparison, Comparison::Equal | Comparison::In) == holds;
            read.zip(of).map(|(read, of)| Fact { read, is_one, of }).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// What a condition asks for, as it is written.
fn asked(test: &Expr) -> Vec<String> {
    let below = || -> Vec<String> { test.operands().into_iter().flat_map(asked).collect() };
    match test {
        Expr::Default { value, .. } => [written(value), below()].concat(),
        Expr::Call(call) if call.name() == "defined" => call.arguments.iter().flatten().flat_map(written).collect(),
        Expr::Call(call) if call.name() == "dig" => {
            let mut all: Vec<String> = call.arguments.first().into_iter().flatten().flat_map(written).collect();
            if let Some(Expr::Literal(Value::String(path))) = call.argument("path") {
                all.iter_mut().for_each(|one| steps(path).for_each(|step| step.write(one)));
            }
            [all, below()].concat()
        }
        _ => below(),
    }
}

/// The attributes that the items of a list are chosen by.
fn chosen_by(list: &Expr) -> Vec<&str> {
    const KEEPING: [&str; 8] = ["list", "reject", "rejectattr", "reverse", "select", "selectattr", "sort", "unique"];
    let Expr::Call(call) = list else { return Vec::new() };
    if !KEEPING.contains(&call.name()) {
        return Vec::new();
    }
    let own = match call.argument("attribute") {
        Some(Expr::Literal(Value::String(attribute))) if call.name() == "selectattr" => Some(attribute.as_str()),
        _ => None,
    };
    let of = call.arguments.first().and_then(Option::as_ref);
    own.into_iter().chain(of.into_iter().flat_map(chosen_by)).collect()
}

/// The values that an expression reads, as they are written.
pub(super) fn written(expr: &Expr) -> Vec<String> {
    let own = match expr {
        Expr::Path(path) => Some(path.text()),
        Expr::Member { written, .. } | Expr::Index { written, .. } => Some(written.as_str()),
        _ => None,
    };
    own.map(str::to_owned).into_iter().chain(expr.operands().into_iter().flat_map(written)).collect()
}

/// Whether a path leads to what another one leads to, or below it.
pub(super) fn is_within(path: &str, other: &str) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// How a value is read, where a path leads to it; also with a constant that stands in for it.
fn read(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Path(path) => Some(path.text().to_owned()),
        Expr::Default { value, fallback: Some(fallback), lax: None, .. } => match (&**value, &**fallback) {
            (Expr::Path(path), Expr::Literal(fallback)) => Some(format!("{} | default({fallback})", path.text())),
            _ => None,
        },
        _ => None,
    }
}

/// The steps of `attribute="a.b"` or `dig("a.b")`.
pub(super) fn steps(path: &str) -> impl Iterator<Item = Segment> {
    path.split('.').map(|step| step.parse().map_or_else(|_| Segment::Key(step.to_owned()), Segment::Index))
}

impl<'s> Environment<'s> {
    pub fn object(&self, id: &str) -> Option<&'s Schema> {
        self.objects.iter().find(|object| object.id == id).and_then(|object| object.schema)
    }

    /// The same where a condition holds, or does not.
    pub fn where_it(&self, test: &'s Expr, holds: bool) -> Self {
        let mut known = self.clone();
        known.facts.extend(facts(test, holds));
        known.asked.extend(self.asked_of(test));
        known.seen.extend(written(test).iter().flat_map(|read| self.meant(read)));
        known
    }

    /// Names an item of a list, or what each item has `at` an index. What its items are chosen by, they have:
    /// `selectattr("secret", "defined")`.
    pub fn take_item(&mut self, name: &str, at: Option<i64>, list: Option<&Expr>, item: Bound<'s>) {
        let read = |attribute: &str| {
            let mut steps = steps(attribute);
            if at.is_some_and(|at| steps.next() != Some(Segment::Index(at))) {
                return None;
            }
            let mut read = name.to_owned();
            steps.for_each(|step| step.write(&mut read));
            Some(read)
        };
        self.asked.extend(list.into_iter().flat_map(chosen_by).filter_map(read));
        self.locals.push((name.to_owned(), item));
    }

    /// The same where a `when` holds: what has the same one is there; of several objects, those of the same list.
    pub fn where_holds(&self, when: &'s Expression, each: Option<&'s ForEach>) -> Self {
        let mut known = self.where_it(when.expr(), true);
        let cases = [case(when, None), case(when, each)];
        let all = known.objects.iter_mut().chain(&mut known.related);
        all.filter(|one| one.case.is_some() && cases.contains(&one.case)).for_each(Object::take_as_there);
        known
    }

    /// What is read, and what the variable reads that it is of.
    pub fn meant(&self, read: &str) -> Vec<String> {
        let of_vars = self.read_by.iter().filter(|(var, _)| is_within(read, var)).flat_map(|(_, read)| read.clone());
        std::iter::once(read.to_owned()).chain(of_vars).collect()
    }

    /// What a condition asks for, itself and through variables.
    pub fn asked_of(&self, test: &Expr) -> Vec<String> {
        let read = written(test);
        let of_vars = self.asked_by.iter().filter(|(var, _)| read.contains(var)).flat_map(|(_, asked)| asked.clone());
        asked(test).iter().flat_map(|read| self.meant(read)).chain(of_vars).collect()
    }

    /// Whether a condition around the place asks for what is read, for what is below it, or for what it is below of.
    pub fn asks_for(&self, read: &str) -> bool {
        let is_asked = |read: &String| self.asked.iter().any(|one| is_within(read, one) || is_within(one, read));
        !self.asked.is_empty() && self.meant(read).iter().any(is_asked)
    }

    /// Whether a condition around the place reads one of these values, also through a variable.
    pub fn sees(&self, read: &[String]) -> bool {
        !self.seen.is_empty() && read.iter().flat_map(|one| self.meant(one)).any(|one| self.seen.contains(&one))
    }

    /// Whether the conditions around a place say something of a value.
    pub fn speaks_of(&self, read: &str) -> bool {
        self.facts.iter().any(|fact| fact.read == read)
    }

    /// What the conditions around a place leave of a value's types.
    pub fn narrowed(&self, expr: &Expr, mut bound: Bound<'s>) -> Bound<'s> {
        if !self.facts.is_empty()
            && let Some(read) = read(expr)
        {
            bound.types = self.facts.iter().filter(|fact| fact.read == read).fold(bound.types, narrowed);
        }
        bound
    }

    /// What the first word of a path stands for.
    pub fn base(&self, base: &Base) -> Bound<'s> {
        let whole = |schema: Option<&'s Schema>, path: String, has_verdict: bool| match schema {
            Some(schema) => vec![Type::Of(Shape { has_verdict, ..Shape::new(schema.view(), path) })],
            None => vec![Type::Any],
        };
        let named = |bound: &[(String, Bound<'s>)], name: &str| {
            let found = bound.iter().rev().find(|(known, _)| known == name);
            found.map_or_else(|| Bound::any(false), |(_, bound)| bound.clone())
        };
        match base {
            Base::Root(Root::Source) => Bound::new(whole(self.source, base.to_string(), false), true),
            Base::Root(Root::Value) => Bound::new(self.value.clone(), false),
            Base::Root(_) => Bound::any(false),
            Base::Object(id) => {
                let object = self.objects.iter().find(|object| object.id == id);
                let is_several = object.is_some_and(|object| object.is_several);
                let path = if is_several { format!("{base}[…]") } else { base.to_string() };
                named_by_id(object, whole(self.object(id), path, true))
            }
            Base::Related(id) => named_by_id(self.related.iter().find(|related| related.id == id), vec![related()]),
            Base::Var(name) => named(&self.vars, name),
            Base::Local(name) => named(&self.locals, name),
        }
    }
}

/// What an id stands for. Of several objects, the first step is a key.
fn named_by_id<'s>(object: Option<&Object<'s>>, types: Vec<Type<'s>>) -> Bound<'s> {
    let is_several = object.is_some_and(|object| object.is_several);
    let lacks = object.is_some_and(|object| object.lacks_one);
    let types = if is_several { vec![Type::Keyed { values: types, lacks }] } else { types };
    let is_consumers = object.is_some_and(|object| object.is_consumers);
    Bound { is_optional: object.is_some_and(|object| object.can_be_left_out), ..Bound::new(types, is_consumers) }
}

/// The original of a related object, with the names of itself and of its copy.
fn related<'s>() -> Type<'s> {
    let text = || Bound::made(Form::Text, &[]);
    let place = || Bound::map(["namespace", "name"].map(|field| (field.to_owned(), text())).to_vec());
    Type::Map { fields: ["from", "to"].map(|side| (side.to_owned(), place())).to_vec(), is_open: true }
}

/// What stands under a key or an index that the run tells.
pub(super) fn indexed<'s>(base: &Bound<'s>, index: &Bound<'s>) -> Vec<Type<'s>> {
    let listed: Option<Vec<_>> = index.types.iter().map(Type::values).collect();
    let keys: Option<Vec<_>> = listed.map(|listed| listed.concat().into_iter().filter_map(Value::as_str).collect());
    let of = |one: &Type<'s>| match (one, &keys, one.keys()) {
        (Type::Keyed { values, .. }, ..) => values.clone(),
        (Type::Of(_) | Type::List(_), ..) if one.form() == Form::List => one.clone().items(),
        (_, _, Some(own)) => {
            let read = own.iter().filter(|key| keys.as_ref().is_none_or(|keys| keys.contains(*key)));
            let bound = Bound::new(vec![one.clone()], false);
            read.flat_map(|key| bound.step(&Segment::Key((*key).to_owned())).bound.types).collect()
        }
        _ => vec![Type::Any],
    };
    base.types.iter().flat_map(of).collect()
}

/// What an operator makes of two values.
pub(super) fn calculated<'s>(operator: Arithmetic, left: Vec<Type<'s>>, right: Vec<Type<'s>>) -> Vec<Type<'s>> {
    let are = |form: Form| left.iter().chain(&right).all(|one| one.form() == form);
    match operator {
        Arithmetic::Add if are(Form::List) => {
            vec![Type::List([left, right].concat().into_iter().flat_map(Type::items).collect())]
        }
        Arithmetic::Add if are(Form::Text) => vec![Type::Simple(Form::Text)],
        Arithmetic::Divide => vec![Type::Simple(Form::Number)],
        _ if are(Form::Integer) => vec![Type::Simple(Form::Integer)],
        Arithmetic::Add => vec![Type::Any],
        _ => vec![Type::Simple(Form::Number)],
    }
}

/// A type as far as a fact leaves it.
fn narrowed<'s>(types: Vec<Type<'s>>, fact: &Fact<'s>) -> Vec<Type<'s>> {
    let is_said = |value: &&'s Value| fact.of.contains(value) == fact.is_one;
    let of = |one: Type<'s>| match one.values() {
        Some(values) => values.into_iter().filter(is_said).map(Type::Literal).collect(),
        None if fact.is_one => fact.of.iter().copied().map(Type::Literal).collect(),
        None => vec![one],
    };
    types.into_iter().flat_map(of).collect()
}

/// A part of a list, or of a text.
pub(super) fn sliced(one: Type<'_>) -> Type<'_> {
    match (one.form(), one) {
        (_, one @ Type::Entry(_)) => Type::List(one.items()),
        (Form::List, one) => one,
        (Form::Text, _) => Type::Simple(Form::Text),
        _ => Type::Any,
    }
}

/// The items of a list that stands in a list; what is no list stays as it is.
pub(super) fn flat(one: Type<'_>) -> Vec<Type<'_>> {
    match one.form() {
        Form::List => one.items(),
        Form::Any => vec![Type::Any],
        _ => vec![one],
    }
}

/// `without("a")`, `only("a")`.
pub(super) fn picked<'s>(one: Type<'s>, call: &'s Call) -> Type<'s> {
    let names = call.rest.iter().map(|argument| match argument {
        Expr::Literal(Value::String(name)) => Some(name.clone()),
        _ => None,
    });
    let Some(names) = names.collect::<Option<Vec<_>>>() else { return Type::Any };
    let without = call.name() == "without";
    match one {
        Type::Of(mut shape) if without => {
            shape.without.extend(names.into_iter().map(|name| vec![name]));
            Type::Of(shape)
        }
        Type::Of(shape) => Type::Of(Shape { only: Some(names), ..shape }),
        Type::Map { mut fields, is_open } => {
            fields.retain(|(name, _)| names.contains(name) != without);
            Type::Map { fields, is_open: is_open && without }
        }
        Type::Merged(layers) => {
            let of = |layer: Bound<'s>| {
                let types = layer.types.into_iter().map(|one| picked(one, call)).collect();
                Bound { types, ..layer }
            };
            Type::Merged(layers.into_iter().map(of).collect())
        }
        _ => Type::Any,
    }
}
