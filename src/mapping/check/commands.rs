//! Fields of operators' APIs whose text ends in a command line: the one table of them, for mappings that are checked and
//! for mappings that are made.

use super::types::Type;
use crate::mapping::Kind;
use crate::mapping::diagnostic::Finding;
use crate::mapping::schema::{Field, Form, View};
use crate::yaml::Node;

/// A field that an operator puts into a command line as it is.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    pub group: &'static str,
    pub kind: &'static str,
    /// From the object's root, with dots.
    pub path: &'static str,
    /// What becomes of it, as a main clause.
    pub why: &'static str,
}

/// Seen in the StatefulSets that release 0.13 of MongoDB's operator creates.
const COMMANDS: [Command; 3] = [
    Command {
        group: "mongodbcommunity.mongodb.com",
        kind: "MongoDBCommunity",
        path: "spec.agent.logFile",
        why: "the operator puts it into the `bash -c` of the agent",
    },
    Command {
        group: "mongodbcommunity.mongodb.com",
        kind: "MongoDBCommunity",
        path: "spec.agent.logLevel",
        why: "the operator puts it into the `bash -c` of the agent",
    },
    Command {
        group: "mongodbcommunity.mongodb.com",
        kind: "MongoDBCommunity",
        path: "spec.additionalMongodConfig.storage.dbPath",
        why: "the operator puts it into the `sh -c` of mongod, whether it is nested or written with dots",
    },
];

/// The fields of a kind that end in a command line.
pub fn commands(group: &str, kind: &str) -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().filter(move |command| command.group == group && command.kind == kind)
}

/// What a consumer writes at a place of the target object, or below it. No types: a text.
pub(super) fn check(kind: &Kind, node: &Node, place: &[String], types: &[Type<'_>], findings: &mut Vec<Finding>) {
    let place = place.join(".");
    for command in commands(&kind.group, &kind.kind) {
        let Some(rest) = below(command.path, &place) else { continue };
        let is_text = types.is_empty() && rest.is_empty();
        if is_text || types.iter().any(|one| gives_free_text(one, &rest)) {
            let message = format!("a consumer's free text ends in a command line: `{}` of {}", command.path, kind.kind);
            findings.push(Finding::new("SE0707", node.headline(), message).label("the consumer decides this").help(
                format!(
                    "{}; give it an `enum` or a `pattern` in the consumers' schema, or leave it out with `without(…)`",
                    command.why
                ),
            ));
        }
    }
}

/// The keys that lead from a place to a path; `None` where the path is elsewhere.
fn below<'p>(path: &'p str, place: &str) -> Option<Vec<&'p str>> {
    let rest = path.strip_prefix(place)?;
    match rest.strip_prefix('.') {
        _ if rest.is_empty() => Some(Vec::new()),
        _ if place.is_empty() => Some(path.split('.').collect()),
        Some(rest) => Some(rest.split('.').collect()),
        None => None,
    }
}

fn gives_free_text(one: &Type<'_>, rest: &[&str]) -> bool {
    match one {
        Type::Literal(_) => false,
        Type::Any => rest.is_empty(),
        Type::Simple(form) => rest.is_empty() && form.meets(Form::Text),
        Type::Of(shape) if rest.is_empty() => is_free(shape.view, rest),
        Type::Of(shape) => groups(rest).any(|(key, rest)| shape.keeps(&key) && field_is_free(shape.view, &key, rest)),
    }
}

/// Whether any text can stand at a path of a schema.
fn is_free(view: View<'_>, path: &[&str]) -> bool {
    if path.is_empty() {
        return view.form().meets(Form::Text) && view.choices().is_none() && view.bounds().0.is_none();
    }
    groups(path).any(|(key, rest)| field_is_free(view, &key, rest))
}

fn field_is_free(view: View<'_>, key: &str, rest: &[&str]) -> bool {
    match view.field(key) {
        Field::Known(view) => is_free(view, rest),
        Field::Open => true,
        Field::Unknown => false,
    }
}

/// The ways to take a first key off a path: operators read `{a.b: c}` as `{a: {b: c}}`.
fn groups<'p>(path: &'p [&'p str]) -> impl Iterator<Item = (String, &'p [&'p str])> {
    (1..=path.len()).map(|length| (path[..length].join("."), &path[length..]))
}
