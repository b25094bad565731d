//! Names in expressions: roots, what is declared under them, and what an unknown one probably meant.

use std::ops::Range;

use minijinja::machinery::ast;

use super::names::{NAMESPACE_READS, Root};
use super::parse::{Compiler, REFUSED};
use super::registry::Role;
use super::tree::{Base, Expr, Path, Segment};
use crate::yaml::{closest, quoted};

/// The segments of a path, each with its place.
type Steps = Vec<(Segment, Range<usize>)>;

/// Fields of the source that the engine's own writes change.
const FEEDBACK: [&[&str]; 3] = [&["status"], &["metadata", "resourceVersion"], &["metadata", "managedFields"]];

/// Fields of the source that cannot change while it exists, and are the same when it is created again.
const IDENTITY: [&str; 2] = ["namespace", "name"];

impl Compiler<'_> {
    /// An expression that is a name with keys and indexes known at load; `None`: it is none.
    pub fn static_path(&mut self, expr: &ast::Expr<'_>) -> Option<Expr> {
        let (name, steps) = self.peel(expr)?;
        let range = self.range_of(name);
        let whole = self.place(self.range(expr));
        match name {
            _ if self.is_local(name) => self.path(Base::Local(name.to_owned()), steps, whole),
            "omit" | "null" if steps.is_empty() => {
                Some(if name == "omit" { Expr::Omit } else { Expr::Literal(serde_json::Value::Null) })
            }
            _ => Root::from_name(name).map(|root| self.rooted(root, range, steps, whole).unwrap_or(REFUSED)),
        }
    }

    /// Takes the steps off a path, down to its first name.
    fn peel<'e>(&self, expr: &ast::Expr<'e>) -> Option<(&'e str, Steps)> {
        let mut steps = Vec::new();
        let mut expr = expr;
        loop {
            expr = match expr {
                ast::Expr::Var(node) => {
                    steps.reverse();
                    return Some((node.id, steps));
                }
                ast::Expr::GetAttr(node) => {
                    steps.push((Segment::Key(node.name.to_owned()), self.range_of(node.name)));
                    &node.expr
                }
                ast::Expr::GetItem(node) => {
                    let ast::Expr::Const(index) = &node.subscript_expr else { return None };
                    let segment = match index.value.as_str() {
                        Some(key) => Segment::Key(key.to_owned()),
                        None if index.value.is_integer() => Segment::Index(i64::try_from(index.value.clone()).ok()?),
                        None => return None,
                    };
                    steps.push((segment, self.span(node.subscript_expr.span())));
                    &node.expr
                }
                _ => return None,
            };
        }
    }

    fn path(&self, base: Base, steps: Steps, whole: Range<usize>) -> Option<Expr> {
        let placed = steps.into_iter().map(|(segment, range)| (segment, self.place(range)));
        Some(Expr::Path(Path::new(base, placed.collect(), whole)))
    }

    fn is_local(&self, name: &str) -> bool {
        self.locals.iter().chain(self.names.locals).any(|local| local == name)
    }

    fn rooted(&mut self, root: Root, range: Range<usize>, steps: Steps, whole: Range<usize>) -> Option<Expr> {
        if !self.names.roots.contains(root) {
            let roots = self.names.roots.iter().map(|root| -> &str { root.as_str() });
            let readable = roots.chain(self.names.locals.iter().map(String::as_str));
            let help = format!("here can be read: {}", quoted(readable));
            return self.refused("SE0306", range, format!("`{}` cannot be read here", root.as_str()), help);
        }
        match root {
            Root::Vars => self.declared(root, range, steps, (Base::Var, whole)),
            Root::Objects => self.declared(root, range, steps, (Base::Object, whole)),
            Root::Related => self.declared(root, range, steps, (Base::Related, whole)),
            Root::Source => self.source_path(range, steps, whole),
            _ => self.fixed(root, range, steps, whole),
        }
    }

    /// A path under a root whose entries the document declares.
    fn declared(
        &mut self,
        root: Root,
        range: Range<usize>,
        steps: Steps,
        (base, whole): (fn(String) -> Base, Range<usize>),
    ) -> Option<Expr> {
        let names = *self.names;
        let (code, what, known) = match root {
            Root::Vars => ("SE0302", "variable", names.vars),
            Root::Related => ("SE0305", "related object", names.related),
            _ => ("SE0303", "object", names.objects),
        };
        let mut steps = steps.into_iter();
        let Some((Segment::Key(name), place)) = steps.next() else {
            let root = root.as_str();
            return self.refused(code, range, format!("`{root}` is read by name"), format!("write `{root}.<name>`"));
        };
        if known.contains(&name) {
            return self.path(base(name), steps.collect(), whole);
        }
        let help = match closest(&name, &known.iter().map(String::as_str).collect::<Vec<_>>()) {
            Some(hint) => format!("did you mean `{hint}`?"),
            None if known.is_empty() => format!("none is declared where this can read it (`spec.{}`)", root.as_str()),
            None => format!("declared are: {}", quoted(known)),
        };
        self.refused(code, place, format!("there is no {what} `{name}`"), help)
    }

    fn source_path(&mut self, range: Range<usize>, steps: Steps, whole: Range<usize>) -> Option<Expr> {
        if self.names.roots.reads_identity_only() && !is_identity(&steps) {
            let place = steps.last().map_or(range.clone(), |(_, last)| range.start..last.end);
            return self.refused("SE0313", place, "a namespace rule reads what can change", NAMESPACE_READS);
        }
        for field in FEEDBACK {
            let reads = steps.len() >= field.len()
                && steps.iter().zip(field).all(|((segment, _), name)| *segment == Segment::Key((*name).to_owned()));
            if reads {
                let place = steps[field.len() - 1].1.clone();
                let message = format!("`source.{}` is not readable", field.join("."));
                let help = "the engine's own writes change it, which would never come to rest";
                return self.refused("SE0304", place, message, help);
            }
        }
        self.path(Base::Root(Root::Source), steps, whole)
    }

    /// A path under a root whose fields the engine gives.
    fn fixed(&mut self, root: Root, range: Range<usize>, steps: Steps, whole: Range<usize>) -> Option<Expr> {
        let Some(fields) = self.names.roots.fields(root) else { return self.path(Base::Root(root), steps, whole) };
        match steps.first() {
            Some((Segment::Key(name), _)) if fields.contains(&name.as_str()) => {
                self.path(Base::Root(root), steps, whole)
            }
            None if Some(fields) == root.fields() => self.path(Base::Root(root), steps, whole),
            step => {
                let place = step.map_or(range, |(_, place)| place.clone());
                let read = fields.iter().map(|field| format!("{}.{field}", root.as_str()));
                let message = match step {
                    Some((Segment::Key(name), _)) => format!("`{}.{name}` is not readable here", root.as_str()),
                    _ => format!("`{}` is read by its fields", root.as_str()),
                };
                let help = format!("here can be read: {}", quoted(read));
                self.refused("SE0307", place, message, help)
            }
        }
    }

    /// A name that is no root, local or constant.
    pub fn unknown_name<T>(&mut self, name: &str) -> Option<T> {
        let names = *self.names;
        let locals = self.locals.clone();
        let roots = names.roots.iter().map(|root| -> &str { root.as_str() });
        let candidates: Vec<&str> = roots.chain(names.locals.iter().chain(&locals).map(String::as_str)).collect();
        let help = if names.vars.iter().any(|var| var == name) {
            format!("variables are read as `vars.{name}`")
        } else if names.objects.iter().any(|id| id == name) {
            format!("objects are read as `objects.{name}`")
        } else if matches!(name, "if" | "else" | "end" | "endif" | "for" | "endfor" | "with") {
            "statements stand in `{% %}`: `{% if source.spec.x %}…{% endif %}`, for example".to_owned()
        } else if let Some(hint) = closest(name, &candidates) {
            format!("did you mean `{hint}`?")
        } else if Role::Function.find(name).is_some() {
            format!("`{name}` is a function: write `{name}(…)`")
        } else {
            format!("here can be read: {}; text stands in quotes", quoted(names.roots.iter().map(Root::as_str)))
        };
        let range = self.range_of(name);
        self.refused("SE0301", range, format!("`{name}` is not known"), help)
    }
}

fn is_identity(steps: &Steps) -> bool {
    let keys: Vec<_> = steps.iter().map(|(segment, _)| segment).collect();
    matches!(keys[..], [Segment::Key(metadata), Segment::Key(field)]
        if metadata == "metadata" && IDENTITY.contains(&field.as_str()))
}
