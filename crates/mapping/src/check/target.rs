//! SE05: what templates write, against the schemas of the kinds they write; and what of it is the consumer's.

use std::borrow::Cow;

use serde_json::Value;

use super::decided;
use super::fit::{self, Misfit, Mismatch};
use super::reads::{Reads, with_suggestion};
use super::reserved::holds_free_text;
use super::safety;
use super::types::{Bound, Environment, Type, any_consumers, is_within};
use crate::Kind;
use crate::diagnostic::Finding;
use crate::expression::{Expr, Expression, Piece, Segment};
use crate::names;
use crate::pointer::{Pointer, Step};
use crate::schema::{Field, Form, View};
use crate::template::{Content, Each, Entry, Tree};
use crate::yaml::{Node, NodeValue, quoted};

/// How to keep the type of what a text prints.
pub(super) const TYPED: &str = "`{{ … }}` prints text; a value keeps its type as `${{ … }}`, alone";

/// A place of the rendered object.
#[derive(Clone)]
pub(super) struct Place<'s> {
    /// Of the object; `None`: a variable, which is no object of its own.
    pub kind: Option<&'s Kind>,
    /// `None`: the schema leaves it open, or there is none.
    pub view: Option<View<'s>>,
    /// Keys from the top; items of lists do not count.
    pub path: Vec<String>,
    /// Whether any text stands here, whatever the names of its keys.
    pub is_free_text: bool,
}

impl<'s> Place<'s> {
    pub fn top(kind: Option<&'s Kind>, view: Option<View<'s>>) -> Self {
        Self { kind, view, path: Vec::new(), is_free_text: false }
    }

    pub fn under(&self, key: &str, view: Option<View<'s>>) -> Self {
        let mut path = self.path.clone();
        path.push(key.to_owned());
        // As the data of a Secret does.
        let holds_texts = view.is_some_and(|view| {
            view.field("*").known().is_some_and(|any| any.form() == Form::Text) && view.fields().next().is_none()
        });
        let is_free_text = self.is_free_text || holds_free_text(key, !holds_texts);
        Self { kind: self.kind, view, path, is_free_text }
    }

    pub fn item(&self) -> Self {
        Self { view: self.view.and_then(View::item), ..self.clone() }
    }
}

impl<'s> Reads<'_, 's> {
    /// What a tree comes to. Looks at what it reads, and at what it writes at a place.
    pub fn tree(&mut self, tree: &'s Tree, place: &Place<'s>) -> Bound<'s> {
        let node = &*tree.node;
        match &tree.content {
            Content::Literal(value) => {
                if let Some(view) = place.view
                    && let Some(misfit) = fit::literal(value, view)
                {
                    self.findings.push(misfitting(node, &place.path.join("."), view, "this", &misfit));
                }
                Bound::new(vec![Type::Literal(value)], false)
            }
            Content::Expression(expression) => {
                let bound = self.leaf(expression);
                self.written(node, expression.expr(), &bound, place);
                bound
            }
            Content::Text(text) => {
                let printed = self.text(text);
                let mut written = Bound::made(Form::Text, &printed);
                let before = self.findings.len();
                self.typed(node, &written.types, place);
                if let [Piece::Print { .. }] = text.pieces()
                    && self.findings.len() == before
                {
                    let is_number = |form| matches!(form, Form::Integer | Form::Number | Form::Boolean);
                    let numbers = printed.iter().flat_map(|bound| &bound.types).filter(|one| is_number(one.form()));
                    let numbers: Vec<_> = numbers.map(|one| Type::Printed(Box::new(one.clone()))).collect();
                    self.typed(node, &numbers, place);
                }
                if !written.is_consumers {
                    return written;
                }
                let words = printed.into_iter().filter(|bound| bound.is_consumers).flat_map(|bound| bound.types);
                let words: Vec<_> = words.collect();
                // A text that is nothing but what it prints is written as a value is.
                let is_bare = text.can_be_bare(&|expr| decided::prints_any(&self.environment, expr, false));
                if is_bare && self.findings.len() == before {
                    let is_open = |one: &&Type<'s>| one.form() == Form::Text && one.values().is_none();
                    self.typed(node, &words.iter().filter(is_open).cloned().collect::<Vec<_>>(), place);
                }
                let types = if is_bare { words } else { vec![Type::Text(words)] };
                if let Some(kind) = place.kind {
                    let alone = if is_bare { &types[..] } else { &[][..] };
                    safety::leaf(kind, node, place, alone, self.findings);
                    decided::check_metadata(node, &place.path, false, self.findings);
                    decided::check(kind, node, &place.path, &types, self.findings);
                }
                if !is_bare {
                    written.types = types;
                }
                written
            }
            Content::Sequence(trees) => {
                if self.expect(node, Form::List, place)
                    && let Some(view) = place.view
                {
                    self.findings.extend(refused_item(trees, &place.path.join("."), view));
                }
                let item = place.item();
                Bound::list(trees.iter().map(|tree| self.tree(tree, &item)).collect())
            }
            Content::Mapping(entries) => {
                if !self.expect(node, Form::Map, place) {
                    return Bound::any(false);
                }
                self.required(node, entries, place);
                if place.kind.is_some() {
                    decided::check_script(&self.environment, entries, &place.path, self.findings);
                }
                self.fields(entries, place, Self::tree)
            }
            Content::Each(each) => self.each(node, each, place),
            Content::When(when) => Bound { is_optional: true, ..self.when(&when.condition).tree(&when.tree, place) },
            Content::Merge(layers) => {
                let layered = layers.iter().map(|layer| match &layer.content {
                    Content::Expression(expression) => self.leaf(expression),
                    _ => self.layer(layer, place),
                });
                let layered = Bound::layered(layered.collect());
                for (layer, bound) in layers.iter().zip(&layered) {
                    let Content::Expression(expression) = &layer.content else { continue };
                    let before = self.findings.len();
                    self.written(&layer.node, expression.expr(), bound, place);
                    if self.findings.len() == before {
                        self.operand(bound, expression.place(), &[Form::Map], "`$merge` takes");
                    }
                }
                let is_consumers = any_consumers(&layered);
                Bound::new(vec![Type::Merged(layered)], is_consumers)
            }
        }
    }

    /// For what relies on what a condition asks for.
    fn when(&mut self, condition: &'s Expression) -> Reads<'_, 's> {
        self.condition(condition);
        let environment = Cow::Owned(self.environment.where_holds(condition, None));
        Reads { environment, guarded: self.guarded, findings: self.findings }
    }

    /// One of several maps laid over each other: what it lacks, another may have.
    fn layer(&mut self, tree: &'s Tree, place: &Place<'s>) -> Bound<'s> {
        match &tree.content {
            Content::Mapping(entries) => self.fields(entries, place, Self::layer),
            Content::When(when) => Bound { is_optional: true, ..self.when(&when.condition).layer(&when.tree, place) },
            _ => self.tree(tree, place),
        }
    }

    /// The fields of a map; nothing is known of one that has no place.
    fn fields(
        &mut self,
        entries: &'s [Entry],
        place: &Place<'s>,
        check: fn(&mut Self, &'s Tree, &Place<'s>) -> Bound<'s>,
    ) -> Bound<'s> {
        let fields = entries.iter().map(|entry| {
            let below = self.field(entry, place);
            (entry.name.clone(), below.map_or_else(|| Bound::any(false), |below| check(self, &entry.tree, &below)))
        });
        Bound::map(fields.collect())
    }

    fn each(&mut self, node: &Node, each: &'s Each, place: &Place<'s>) -> Bound<'s> {
        self.expect(node, Form::List, place);
        let list = match &each.list.content {
            Content::Expression(expression) => self.list(expression),
            _ => self.tree(&each.list, &Place { view: None, ..place.clone() }),
        };
        let mut environment = Environment::clone(&self.environment);
        let chosen = if let Content::Expression(list) = &each.list.content { Some(list.expr()) } else { None };
        environment.take_item(&each.name, None, chosen, list.items());
        if let Some(when) = &each.when {
            Reads::new(&environment, false, self.findings).condition(when);
            environment = environment.where_it(when.expr(), true);
        }
        let item = Reads::new(&environment, self.guarded, self.findings).tree(&each.item, &place.item());
        Bound::new(vec![Type::List(item.types)], item.is_consumers)
    }

    /// The place under a key; `None` where there is none, and a finding says so.
    fn field(&mut self, Entry { name, place: at, .. }: &Entry, place: &Place<'s>) -> Option<Place<'s>> {
        let Some(view) = place.view else { return Some(place.under(name, None)) };
        match view.field(name) {
            Field::Known(below) => Some(place.under(name, Some(below))),
            Field::Open => Some(place.under(name, None)),
            Field::Unknown => {
                let path = place.under(name, None).path.join(".");
                let message = format!("`{path}` does not exist in {}: it would be pruned", view.schema().kind);
                let finding = Finding::new("SE0501", at.clone(), message).label("no such field");
                self.findings.push(with_suggestion(finding, name, &place.path.join("."), view));
                None
            }
        }
    }

    /// Whether a place can be a list or a map; says so where it cannot.
    fn expect(&mut self, node: &Node, form: Form, place: &Place<'s>) -> bool {
        let Some(view) = place.view.filter(|view| !form.meets(view.form())) else { return true };
        let misfit = Misfit::Form { is: form, wanted: view.form() };
        self.findings.push(misfitting(node, &place.path.join("."), view, "this", &misfit));
        false
    }

    /// The fields that must be there, and are not.
    fn required(&mut self, node: &Node, entries: &[Entry], place: &Place<'s>) {
        let Some(view) = place.view else { return };
        for name in view.required() {
            let given = entries.iter().any(|entry| entry.name == name);
            let stands = view.field(name).known().is_none_or(View::has_default);
            if !given && !stands {
                let path = place.under(name, None).path.join(".");
                let message = format!("{} requires `{path}`", view.schema().kind);
                self.findings.push(
                    Finding::new("SE0503", node.headline(), message)
                        .label(format!("`{name}` is missing here"))
                        .help("the API server would refuse the object"),
                );
            }
        }
    }

    /// What an expression writes.
    fn written(&mut self, node: &Node, expr: &'s Expr, bound: &Bound<'s>, place: &Place<'s>) {
        self.typed(node, &bound.types, place);
        if let Some(kind) = place.kind.filter(|_| bound.is_consumers) {
            safety::subtree(kind, node, &bound.types, place, self.findings);
            decided::check(kind, node, &place.path, &bound.types, self.findings);
            decided::check_metadata(node, &place.path, !decided::names_its_keys(expr), self.findings);
        }
    }

    fn typed(&mut self, node: &Node, types: &[Type<'s>], place: &Place<'s>) {
        let Some(view) = place.view else { return };
        let at = place.path.join(".");
        for mismatch in types.iter().flat_map(|one| fit::mismatches(one, view)) {
            self.findings.push(match mismatch {
                // A text outside the source is not the consumer's, and names have a form of their own.
                Mismatch::Misfit { path, misfit: Misfit::Text(_), .. }
                    if !is_within(&path, "source") || is_within(&path, "source.metadata") =>
                {
                    continue;
                }
                // It may be one of those that are taken.
                Mismatch::Misfit { path, misfit: Misfit::Choices(_) | Misfit::Text(_), .. }
                    if self.environment.speaks_of(&path) =>
                {
                    continue;
                }
                Mismatch::Misfit { path, below, view, misfit } => {
                    let what = if path.is_empty() { "this".to_owned() } else { format!("`{path}`") };
                    misfitting(node, &format!("{at}{below}"), view, &what, &misfit)
                }
                Mismatch::Pruned { path, below, name, at } => pruned(node, (&path, &below), &name, at),
            });
        }
    }
}

/// An item of a written list by which a server refuses the list.
fn refused_item(trees: &[Tree], at: &str, view: View<'_>) -> Option<Finding> {
    let refused = |tree: &Tree, why| Misfit::Value(why).finding(["SE0502", "SE0504"], &tree.node, at, view, "this");
    let is_there = |tree: &&Tree| !matches!(tree.content, Content::Expression(_) | Content::When(_));
    if let Some(most) = view.max_items()
        && let Some(tree) = trees.iter().filter(is_there).nth(most)
    {
        return Some(refused(tree, format!("the longest list has {}", names::count(most, "item"))));
    }
    let keys = view.item_keys()?;
    let literal = |tree: &Tree| if let Content::Literal(value) = &tree.content { Some(value.clone()) } else { None };
    let told_apart_by = |tree: &Tree| -> Option<Vec<Value>> {
        let by_whole = keys.is_empty().then(|| literal(tree));
        by_whole.into_iter().chain(keys.iter().map(|key| tree.entry(key).and_then(literal))).collect()
    };
    let all: Vec<_> = trees.iter().map(told_apart_by).collect();
    let again = (1..all.len()).find(|at| all[*at].is_some() && all[..*at].contains(&all[*at]))?;
    let same = if keys.is_empty() { "the same".to_owned() } else { format!("one of the same {}", quoted(keys)) };
    Some(refused(&trees[again], format!("{same} stands before it in the list")))
}

/// What is wrong with a pointer to a field that is left to others; `never_set`: also when the object is created.
pub(super) fn pointer(node: &Node, pointer: &Pointer, root: View<'_>, never_set: bool) -> Option<Finding> {
    let text = &pointer.text;
    let (mut view, mut is_required, mut is_key) = (root, false, false);
    let mut above = Vec::new();
    for step in &pointer.steps {
        let segment = match step {
            Step::Field(name) => name.clone(),
            Step::Each | Step::With { .. } => {
                let item = view.item().filter(|_| view.form() == Form::List);
                let (below, named) = match (item, step) {
                    (Some(item), Step::With { field, .. }) => (Some(item), item.field(field)),
                    (item, _) => (item, Field::Open),
                };
                let Some(below) = below.filter(|_| !matches!(named, Field::Unknown)) else {
                    if matches!(view.form(), Form::Any) {
                        return None;
                    }
                    let message = format!("`{text}` leads to no list of {} with such items", root.schema().kind);
                    return Some(Finding::new("SE0118", node.headline(), message).label("no such items"));
                };
                (view, is_required, is_key) = (below, false, false);
                above.push("*".to_owned());
                continue;
            }
        };
        if view.is_atomic() {
            let whole = if above.is_empty() { String::new() } else { format!("/{}", above.join("/")) };
            let message = format!("`{whole}` is applied as a whole: `{text}` cannot be left to others by itself");
            let finding = Finding::new("SE0118", node.headline(), message).label("each apply would reset this field");
            let by = if view.form() == Form::List { ", name the item (`[name=…]`)" } else { "" };
            return Some(finding.help(format!("leave all of it to others (`{whole}`){by}, or write the field")));
        }
        let below = match view.item() {
            Some(item) if view.form() == Form::List && segment.parse::<usize>().is_ok() => Field::Known(item),
            _ if view.form() == Form::List => Field::Unknown,
            _ => view.field(&segment),
        };
        is_required = view.required().any(|name| name == segment);
        let is_text_of_key = is_key && view.form() == Form::Text;
        is_key = view.form() == Form::Map && !view.fields().any(|(name, _)| name == segment);
        view = match below {
            Field::Known(below) => below,
            Field::Open => return None,
            Field::Unknown => {
                let message = format!("`{text}` leads to no field of {}", root.schema().kind);
                let finding = Finding::new("SE0118", node.headline(), message).label("no such field");
                if is_text_of_key {
                    let key = format!("{}~1{}", names::pointer(&above), names::escape_pointer(&segment));
                    return Some(finding.help(format!("a `/` within a key is written `~1`: `{key}`")));
                }
                return Some(with_suggestion(finding, &segment, &above.join("."), view));
            }
        };
        above.push(segment);
    }
    // The object must have it from the start: others come too late.
    (never_set && is_required && !view.has_default()).then(|| {
        let message = format!("{} requires `{text}`, which is left to others", root.schema().kind);
        let finding = Finding::new("SE0503", node.headline(), message).label("never set");
        finding.help("`atCreation` sets it once, and leaves it to others from then on")
    })
}

/// A pointer to a map that also holds what says whose an object is, and as what it was rendered.
pub(super) fn marked(node: &Node, pointer: &Pointer) -> Option<Finding> {
    let text = pointer.text.as_str();
    matches!(text, "/metadata/labels" | "/metadata/annotations").then(|| {
        let message = format!("`{text}` holds what the engine itself writes as well");
        let help = format!("name the keys that are left to others: `{text}/team`, for example");
        Finding::new("SE0118", node.headline(), message).help(help)
    })
}

/// A pointer to what the template does not write: there is nothing to leave to others.
pub(super) fn unwritten(node: &Node, pointer: &Pointer, written: &Bound<'_>) -> Option<Finding> {
    let mut written = written.clone();
    for step in &pointer.steps {
        let segment = match step {
            Step::Field(name) => name.parse().map_or_else(|_| Segment::Key(name.clone()), Segment::Index),
            Step::Each | Step::With { .. } => Segment::Index(0),
        };
        let stepped = written.step(&segment);
        if stepped.bound.types.is_empty() && !stepped.unknown.is_empty() {
            let message = format!("the template does not write `{}`", pointer.text);
            let finding = Finding::new("SE0122", node.headline(), message).label("left to others anyway");
            return Some(finding.help("write the field, or leave the pointer out"));
        }
        written = stepped.bound;
    }
    None
}

/// A field that the target does not have, with where it comes from and where it would stand.
fn pruned(node: &Node, (path, below): (&str, &str), name: &str, at: View<'_>) -> Finding {
    let read = if path.is_empty() { below.trim_start_matches('.') } else { path };
    let message = format!("`{read}` does not exist in {}: it would be pruned", at.schema().kind);
    let finding = Finding::new("SE0501", node.headline(), message).label("writes this field");
    if path.is_empty() {
        return with_suggestion(finding, name, "", at);
    }
    finding.help(if below.strip_prefix('.') == Some(name) {
        format!("leave it out with `| without(\"{name}\")`, or put it where it belongs")
    } else {
        "write this part field by field, a list with `$each`, in a further item of `$merge`".to_owned()
    })
}

fn misfitting(node: &Node, at: &str, view: View<'_>, what: &str, misfit: &Misfit) -> Finding {
    let finding = misfit.finding(["SE0502", "SE0504"], node, at, view, what);
    let Misfit::Form { is, wanted } = misfit else { return finding };
    let meant = |text: &str| serde_json::from_str::<Value>(text).ok().filter(|value| Form::of(value).meets(*wanted));
    // With the right type, it may still be no value that the place takes.
    let then = |help: &str, value: &Value| match fit::literal(value, view) {
        Some(Misfit::Value(why)) => format!("{help}; {why}"),
        _ => help.to_owned(),
    };
    match &node.value {
        NodeValue::Number(_) | NodeValue::Bool(_) if *wanted == Form::Text => {
            finding.help(then("put quotes around it", &node.to_json().to_string().into()))
        }
        NodeValue::String(scalar) if *is == Form::Text && !Expression::is_typed(node) => {
            match (&*scalar.text, meant(&scalar.text)) {
                (text, _) if text.contains("{{") => finding.help(TYPED),
                (_, Some(value)) => finding.help(then("leave the quotes out", &value)),
                ("yes" | "no" | "on" | "off", None) if *wanted == Form::Boolean => {
                    finding.help("write `true` or `false`")
                }
                _ => finding,
            }
        }
        _ => finding,
    }
}
