//! What consumers decide of fields that are not theirs to fill: what a mapping lets them write at such a field, and
//! whether they can write anything there.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::reads::Reads;
use super::reserved::{Value, What, Why, fields, meaning};
use super::safety;
use super::types::{Environment, Type};
use crate::Kind;
use crate::diagnostic::Finding;
use crate::expression::{Base, Expr, Text};
use crate::schema::{DEPTH, Field, Form, View};
use crate::template::{Content, Entry, Tree};
use crate::yaml::Node;

/// What a consumer writes at a place of the target object: above, at or below a field of the operator's API that stays
/// with the provider.
pub(super) fn check(kind: &Kind, node: &Node, place: &[String], types: &[Type<'_>], findings: &mut Vec<Finding>) {
    let place = place.join(".");
    for field in fields(&kind.group, &kind.kind) {
        let (What::Kept(why) | What::Written(why, _)) = field.what else { continue };
        let Some(rest) = between(field.path, &place) else { continue };
        // Within pods that the mapping writes, the names of their fields tell what is not a consumer's: resources are, and the
        // value of a variable that the mapping names.
        match (why, place.strip_prefix(field.path)) {
            (Why::Pods, Some(below)) if !below.is_empty() => continue,
            (Why::Environment, Some(".value")) => continue,
            _ => {}
        }
        let in_texts = !matches!(why, Why::Alone(_));
        let is_command = matches!(why, Why::Command(_));
        let written: Cow<'_, [Type<'_>]> = if is_command { Cow::Owned(texts(types)) } else { Cow::Borrowed(types) };
        if written.iter().any(|one| is_free_at(one, &rest, in_texts)) {
            findings.push(finding(node, why, &format!("`{}` of {}", field.path, kind.kind)));
        }
    }
}

/// A field whose name says that it stays with the provider, filled as a whole.
pub(super) fn check_name(kind: &Kind, node: &Node, path: &[String], types: &[Type<'_>], findings: &mut Vec<Finding>) {
    let path = path.join(".");
    let mut free = types.iter().filter(|one| is_free_at(one, &[], false));
    let meant = free.find_map(|one| {
        let keys = if let Type::Of(shape) = one { keys(shape.view) } else { Vec::new() };
        meaning(fields(&kind.group, &kind.kind), &path, &Value { form: one.form(), keys })
    });
    findings.extend(meant.map(|why| named(node, why, &path)));
}

/// What is found where the name of a field says that it stays with the provider.
pub(super) fn named(node: &Node, why: Why, path: &str) -> Finding {
    match why {
        Why::Pods => safety::pods(node, path),
        Why::Reach => safety::reaching(node, path, "namespace"),
        why => finding(node, why, &format!("`{path}`")),
    }
}

const FINALIZERS: &str = "nobody takes off a finalizer of the consumer's choice, and the object would stay for ever";
const OWNERS: &str = "the garbage collector deletes an object with its owners, and a consumer would name them";
const ANNOTATIONS: &str = "controllers take orders from annotations: ingress controllers, operators, cloud providers";
const ACCOUNT: &str = "a consumer would get the token of any service account of the namespace";
const NAMESPACE_LABELS: &str = "labels of a namespace say how its pods are confined and who may reach them";

/// What a consumer writes into the metadata of any kind. `is_open`: the consumer chooses the keys, too.
pub(super) fn check_metadata(node: &Node, path: &[String], is_open: bool, findings: &mut Vec<Finding>) {
    let keys: Vec<&str> = path.iter().map(String::as_str).collect();
    let why = match &keys[..] {
        ["metadata", "finalizers", ..] => FINALIZERS,
        ["metadata", "ownerReferences", ..] => OWNERS,
        ["metadata", "annotations"] if is_open => ANNOTATIONS,
        ["metadata", "annotations", "kubernetes.io/service-account.name"] => ACCOUNT,
        _ => return,
    };
    let found = finding(node, Why::Reserved(why), &format!("`{}`", keys.join(".")));
    findings.push(match why {
        ANNOTATIONS => found.help(format!("{why}; name the keys that a consumer may set: `only(…)`")),
        _ => found,
    });
}

/// What a consumer writes into the labels of a namespace.
pub(super) fn check_namespace_label<'s>(
    environment: &Environment<'s>,
    node: &Node,
    (key, text): (&str, &'s Text),
    findings: &mut Vec<Finding>,
) {
    // A filter that only makes a valid label of a listed value leaves it one of a list.
    let bare = |expr: &'s Expr| match expr {
        Expr::Call(call) if ["label_value", "lower", "upper"].contains(&call.name()) => {
            call.arguments.first().and_then(Option::as_ref).unwrap_or(expr)
        }
        _ => expr,
    };
    if text.printed().into_iter().any(|expr| prints_any(environment, bare(expr), true)) {
        findings.push(finding(node, Why::Reserved(NAMESPACE_LABELS), &format!("`placement.namespaceLabels.{key}`")));
    }
}

/// What a consumer writes into a script that a container's shell runs, after `-c`.
pub(super) fn check_script<'s>(
    environment: &Environment<'s>,
    container: &'s [Entry],
    path: &[String],
    findings: &mut Vec<Finding>,
) {
    const SHELLS: [&str; 6] = ["ash", "bash", "dash", "ksh", "sh", "zsh"];
    let lists = ["command", "args"].into_iter().filter_map(|field| container.iter().find(|entry| entry.name == field));
    let words = lists.flat_map(|entry| match &entry.tree.content {
        Content::Sequence(items) => &items[..],
        _ => &[][..],
    });
    let words: Vec<&'s Tree> = words.collect();
    let is_shell = |word: &&Tree| match &word.content {
        Content::Literal(Json::String(text)) => text.rsplit('/').next().is_some_and(|name| SHELLS.contains(&name)),
        _ => false,
    };
    for (index, pair) in words.windows(2).enumerate() {
        let [Tree { content: Content::Literal(Json::String(flag)), .. }, script] = pair else { continue };
        let is_flag = flag.strip_prefix('-').is_some_and(|letters| letters.ends_with('c') && !letters.contains('-'));
        let printed = match &script.content {
            Content::Text(text) => text.printed(),
            Content::Expression(expression) => vec![expression.expr()],
            _ => continue,
        };
        let is_script = is_flag && words[..index].iter().any(is_shell);
        if is_script && printed.into_iter().any(|expr| !is_plain(environment, expr)) {
            let message = format!("a shell runs what a consumer writes here: a container in `{}`", path.join("."));
            let finding = Finding::new("SE0709", script.node.headline(), message).label("the consumer decides this");
            findings.push(finding.help("hand it over in `env`, and write `\"$NAME\"` in the script"));
        }
    }
}

/// What of these a consumer can write a command into: no number and no boolean.
fn texts<'s>(types: &[Type<'s>]) -> Vec<Type<'s>> {
    let is_text = |one: &&Type<'s>| !matches!(one.form(), Form::Integer | Form::Number | Form::Boolean);
    let text = |one: &Type<'s>| match one {
        Type::Text(words) => Type::Text(texts(words)),
        Type::Printed(_) => Type::Text(Vec::new()),
        one => one.clone(),
    };
    types.iter().filter(is_text).map(text).collect()
}

/// Whether no consumer can have it print a character that means something to a shell.
fn is_plain<'s>(environment: &Environment<'s>, expr: &'s Expr) -> bool {
    const PLAIN: [&str; 4] = ["b64encode", "dns_label", "dns_subdomain", "label_value"];
    let is_consumers = |read: &str| read.starts_with("source") || read.starts_with("related");
    let is_named = match expr {
        Expr::Call(call) => PLAIN.contains(&call.name()),
        Expr::Path(path) if matches!(path.base, Base::Var(_)) => {
            environment.meant(path.text()).iter().all(|read| is_name(read) || !is_consumers(read))
        }
        Expr::Path(path) => is_name(path.text()),
        Expr::Concat { .. } | Expr::Default { .. } => expr.operands().into_iter().all(|one| is_plain(environment, one)),
        _ => false,
    };
    is_named || !prints(environment, expr, is_free_text)
}

/// Whether it has no other characters than letters, digits, `-` and `.`.
fn is_name(read: &str) -> bool {
    ["source.metadata.name", "source.metadata.namespace", "source.metadata.uid"].contains(&read)
}

/// Whether a consumer can write any text there, and not only a name or a number.
fn is_free_text(one: &Type<'_>) -> bool {
    match one {
        Type::Text(words) => words.iter().any(is_free_text),
        Type::Printed(_) => false,
        Type::Of(shape) if is_name(&shape.path) => false,
        one => one.form().meets(Form::Text) && is_free_at(one, &[], true),
    }
}

/// Whether a consumer can have an expression print anything; `in_texts`: or anything among other words.
pub(super) fn prints_any<'s>(environment: &Environment<'s>, expr: &'s Expr, in_texts: bool) -> bool {
    prints(environment, expr, |one| is_free_at(one, &[], in_texts))
}

/// Whether a consumer can have it print what is such a value.
fn prints<'s>(environment: &Environment<'s>, expr: &'s Expr, is_such: impl Fn(&Type<'_>) -> bool) -> bool {
    let known = Reads::new(environment, true, &mut Vec::new()).expression(expr);
    known.is_consumers && known.types.iter().any(is_such)
}

/// Whether an expression names every key of the map that it gives.
pub(super) fn names_its_keys(expr: &Expr) -> bool {
    match expr {
        Expr::Map(entries) => entries.iter().all(|(key, _)| matches!(key, Expr::Literal(_))),
        Expr::Call(call) => call.name() == "only",
        Expr::Default { value, fallback, .. } => {
            names_its_keys(value) && fallback.as_ref().is_none_or(|fallback| names_its_keys(fallback))
        }
        Expr::Conditional { then, otherwise, .. } => names_its_keys(then) && names_its_keys(otherwise),
        Expr::And(_, other) => names_its_keys(other),
        Expr::Or(one, other) => names_its_keys(one) && names_its_keys(other),
        Expr::Literal(_) | Expr::Omit => true,
        _ => false,
    }
}

/// The keys of a map, or of the maps in a list.
pub(super) fn keys(view: View<'_>) -> Vec<&str> {
    view.item().unwrap_or(view).fields().map(|(name, _)| name).collect()
}

fn finding(node: &Node, why: Why, field: &str) -> Finding {
    let (message, help) = match why {
        Why::Command(_) => (
            format!("a consumer's free text ends in a command line: {field}"),
            "give it an `enum` or a `pattern` in the consumers' schema, or leave it out with `without(…)`",
        ),
        Why::Alone(_) => (
            format!("a consumer chooses a name that all tenants share: {field}"),
            "put words of the mapping beside it, such as the tenant's prefix, or list the values that you allow (`enum`) in the \
             consumers' schema",
        ),
        _ => (
            format!("a consumer fills a field that should stay with the provider: {field}"),
            "write it in the mapping, list the values that you allow (`enum`) in the consumers' schema, or leave it out with \
             `without(…)`",
        ),
    };
    let finding = Finding::new(why.code(), node.headline(), message).label("the consumer decides this");
    finding.help(format!("{}; {help}", why.sentence()))
}

/// The keys that lead from a place to a path; none from a place below it. `None` where the path is elsewhere.
fn between<'p>(path: &'p str, place: &str) -> Option<Vec<&'p str>> {
    let keys = |rest: &'p str| rest.split('.').filter(|key| !key.is_empty()).collect();
    if place.is_empty() || place.strip_prefix(path).is_some_and(|below| below.starts_with('.')) {
        return Some(if place.is_empty() { keys(path) } else { Vec::new() });
    }
    let rest = path.strip_prefix(place)?;
    (rest.is_empty() || rest.starts_with('.')).then(|| keys(rest))
}

/// Whether a consumer can write any value at a path below what an expression comes to; `in_texts`: or any words in a text.
fn is_free_at(one: &Type<'_>, rest: &[&str], in_texts: bool) -> bool {
    let is_any = |types: &[Type<'_>], rest: &[&str]| types.iter().any(|one| is_free_at(one, rest, in_texts));
    match one {
        Type::Literal(_) => false,
        Type::Any => rest.is_empty(),
        Type::Simple(form) => rest.is_empty() && (form.meets(Form::Text) || matches!(form, Form::Map | Form::List)),
        Type::Text(words) => in_texts && rest.is_empty() && is_any(words, &[]),
        Type::Printed(value) => in_texts && rest.is_empty() && is_free_at(value, &[], in_texts),
        Type::List(items) | Type::Keyed { values: items, .. } => is_any(items, rest),
        // Its key can be any text.
        Type::Entry(values) => rest.is_empty() || is_any(values, rest),
        Type::Merged(layers) => layers.iter().any(|layer| layer.is_consumers && is_any(&layer.types, rest)),
        Type::Map { fields, is_open } => {
            let mut written = fields.iter().filter(|(_, field)| field.is_consumers);
            *is_open
                || match rest {
                    [] => written.any(|(_, field)| is_any(&field.types, &[])),
                    _ => groups(rest).any(|(key, rest)| {
                        written.clone().any(|(name, field)| *name == key && is_any(&field.types, rest))
                    }),
                }
        }
        Type::Of(shape) if rest.is_empty() => is_free(shape.view, rest, DEPTH),
        Type::Of(shape) if shape.lacks(rest) => false,
        Type::Of(shape) => {
            groups(rest).any(|(key, rest)| shape.keeps(&key) && field_is_free(shape.view, &key, rest, DEPTH))
        }
    }
}

/// Whether any value can stand at a path of a schema; of a map or list, somewhere in it.
pub(super) fn is_free(view: View<'_>, path: &[&str], depth: usize) -> bool {
    // A path says nothing of lists.
    if let Some(item) = view.item() {
        return depth > 0 && is_free(item, path, depth - 1);
    }
    if path.is_empty() {
        let mut fields = view.fields().peekable();
        let is_bounded = view.choices().is_some() || view.bounds().0.is_some();
        return match fields.peek() {
            Some(_) => depth > 0 && fields.any(|(_, field)| is_free(field, path, depth - 1)),
            None => !is_bounded,
        };
    }
    groups(path).any(|(key, rest)| field_is_free(view, &key, rest, depth))
}

fn field_is_free(view: View<'_>, key: &str, rest: &[&str], depth: usize) -> bool {
    match view.field(key) {
        Field::Known(view) => is_free(view, rest, depth),
        Field::Open => true,
        Field::Unknown => false,
    }
}

/// The ways to take a first key off a path: operators read `{a.b: c}` as `{a: {b: c}}`.
fn groups<'p>(path: &'p [&'p str]) -> impl Iterator<Item = (String, &'p [&'p str])> {
    (1..=path.len()).map(|length| (path[..length].join("."), &path[length..]))
}
