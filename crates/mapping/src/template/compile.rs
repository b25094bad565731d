//! From YAML nodes to a template's tree.

use std::sync::Arc;

use serde_json::Value;

use super::{Content, Each, Entry, Text, Tree, When};
use crate::diagnostic::Finding;
use crate::expression::{Expression, Names, is_identifier, is_taken};
use crate::yaml::{Node, NodeValue, closest};

/// Keys that build structure.
const STRUCTURE: [&str; 6] = ["$each", "$as", "$when", "$item", "$empty", "$merge"];

/// What goes with `$each`.
const EACH: [&str; 5] = ["$each", "$as", "$when", "$item", "$empty"];

/// What `$as` is where it is left out.
const ITEM: &str = "item";

/// Stands for what cannot be compiled: a finding says why, and the template is not used.
const REFUSED: Content = Content::Literal(Value::Null);

/// Key and value.
type Pair = (Arc<Node>, Arc<Node>);

pub(super) struct Compiler<'c> {
    names: &'c Names<'c>,
    /// `names.locals`, and the names of the lists around the place.
    locals: Vec<String>,
    findings: &'c mut Vec<Finding>,
}

impl<'c> Compiler<'c> {
    pub fn new(names: &'c Names<'c>, findings: &'c mut Vec<Finding>) -> Self {
        Self { names, locals: names.locals.to_vec(), findings }
    }

    /// All parts of a tree are compiled, so that every error is found.
    pub fn tree(&mut self, node: &Arc<Node>) -> Tree {
        let content = match &node.value {
            NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => Some(Content::Literal(node.to_json())),
            NodeValue::String(_) => self.leaf(node),
            NodeValue::Sequence(items) => Some(Content::Sequence(self.trees(items))),
            NodeValue::Mapping(entries) => match (structure_of(entries), node.get("$when")) {
                (Some("$each"), _) => self.each(node, entries),
                (structure, None) => self.map(structure, entries),
                (structure, Some(when)) => {
                    let is_when = |key: &Node| key.as_str() == Some("$when");
                    let others: Vec<_> = entries.iter().filter(|(key, _)| !is_when(key)).cloned().collect();
                    let (condition, content) = (self.expression(when), self.map(structure, &others));
                    condition.zip(content).map(|(condition, content)| {
                        let tree = Tree { node: node.clone(), content };
                        Content::When(Box::new(When { condition, tree }))
                    })
                }
            },
        };
        Tree { node: node.clone(), content: content.unwrap_or(REFUSED) }
    }

    /// A map that holds for itself, or maps laid over each other.
    fn map(&mut self, structure: Option<&str>, entries: &[Pair]) -> Option<Content> {
        if structure.is_some() { self.merge(entries) } else { Some(self.mapping(entries)) }
    }

    fn trees(&mut self, items: &[Arc<Node>]) -> Vec<Tree> {
        items.iter().map(|item| self.tree(item)).collect()
    }

    fn mapping(&mut self, entries: &[Pair]) -> Content {
        let entries = entries.iter().map(|(key, value)| {
            let name = self.key(key).unwrap_or_default();
            Entry { name, place: key.span.clone(), tree: self.tree(value) }
        });
        Content::Mapping(entries.collect())
    }

    fn leaf(&mut self, node: &Arc<Node>) -> Option<Content> {
        if Expression::is_typed(node) {
            return self.expression(node).map(Content::Expression);
        }
        let names = Names { locals: &self.locals, ..*self.names };
        let text = Text::compile(node, &names, self.findings)?;
        Some(match text.literal() {
            Some(literal) => Content::Literal(Value::from(literal)),
            None => Content::Text(text),
        })
    }

    fn key(&mut self, node: &Node) -> Option<String> {
        let NodeValue::String(key) = &node.value else {
            return self.refuse("SE0191", node, "a key must be a string", "put quotes around it");
        };
        let key = &*key.text;
        if let Some(literal) = key.strip_prefix("$$") {
            return Some(format!("${literal}"));
        }
        if key.contains("{{") || key.contains("{%") {
            let help = "keys are what the mapping's author writes, never data";
            return self.refuse("SE0211", node, "a key cannot hold an expression", help);
        }
        if key.starts_with('$') {
            return self.unknown_structure(node, key);
        }
        Some(key.to_owned())
    }

    fn unknown_structure<T>(&mut self, node: &Node, key: &str) -> Option<T> {
        let help = match closest(key, &STRUCTURE) {
            _ if EACH.contains(&key) => "it goes with `$each`: write `$each` and `$item`".to_owned(),
            Some(hint) => format!("did you mean `{hint}`?"),
            None => format!("a key of that name is written `${key}`"),
        };
        self.refuse("SE0191", node, &format!("`{key}` has no meaning here"), &help)
    }

    fn merge(&mut self, entries: &[Pair]) -> Option<Content> {
        self.refuse_neighbours(entries, &["$merge"]);
        let (_, node) = entries.iter().find(|(key, _)| key.as_str() == Some("$merge"))?;
        let NodeValue::Sequence(items) = &node.value else {
            let message = format!("`$merge` lists the maps it lays over each other; this is {}", node.describe());
            return self.refuse("SE0191", node, &message, "write them with `-` before each");
        };
        let layers = self.trees(items);
        items.iter().for_each(|item| self.check_layer(item));
        Some(Content::Merge(layers))
    }

    /// A layer comes to a map.
    fn check_layer(&mut self, node: &Node) {
        let fits = match &node.value {
            NodeValue::Mapping(entries) => !matches!(structure_of(entries), Some(key) if key != "$merge"),
            NodeValue::String(_) => Expression::is_typed(node),
            _ => false,
        };
        if !fits {
            let message = match &node.value {
                NodeValue::Mapping(_) => "`$merge` takes maps; `$each` makes a list".to_owned(),
                _ => format!("`$merge` takes maps; this is {}", node.describe()),
            };
            self.refuse::<()>("SE0191", node, &message, "a map, or `${{ … }}` that gives one");
        }
    }

    fn each(&mut self, node: &Node, entries: &[Pair]) -> Option<Content> {
        self.refuse_neighbours(entries, &EACH);
        let list = node.get("$each").and_then(|list| self.list(list));
        let name = match node.get("$as") {
            Some(name) => self.local(name),
            None => self.default_local(node),
        };
        // What reads an unknown name would only repeat that it is unknown.
        let name = name?;
        self.locals.push(name.clone());
        let when = node.get("$when").and_then(|when| self.expression(when));
        let item = match node.get("$item") {
            Some(item) => Some(self.tree(item)),
            None => self.missing(node, "$item", "what stands in the list for each"),
        };
        self.locals.pop();
        let omit_empty = node.get("$empty").map_or(Some(false), |empty| self.empty(empty));
        Some(Content::Each(Box::new(Each { list: list?, name, when, item: item?, omit_empty: omit_empty? })))
    }

    fn list(&mut self, node: &Arc<Node>) -> Option<Tree> {
        let fits = match &node.value {
            NodeValue::Sequence(_) => true,
            NodeValue::String(_) => Expression::is_typed(node),
            NodeValue::Mapping(entries) => matches!(structure_of(entries), Some(key) if key != "$merge"),
            _ => false,
        };
        if fits {
            return Some(self.tree(node));
        }
        let message = format!("`$each` takes a list; this is {}", node.describe());
        self.refuse("SE0191", node, &message, "a list, or `${{ … }}` that gives one")
    }

    fn expression(&mut self, node: &Arc<Node>) -> Option<Expression> {
        let names = Names { locals: &self.locals, ..*self.names };
        Expression::compile(node, &names, self.findings)
    }

    /// What `$empty` says of a list without items.
    fn empty(&mut self, node: &Node) -> Option<bool> {
        if node.as_str() == Some("omit") {
            return Some(true);
        }
        let message = format!("`$empty` is `omit`; this is {}", node.describe());
        self.refuse("SE0191", node, &message, "without `$empty`, a list without items is `[]`")
    }

    /// The name that `$as` gives.
    fn local(&mut self, node: &Node) -> Option<String> {
        let name = node.as_str().unwrap_or_default();
        if !is_identifier(name) {
            let message = "`$as` is a name: letters, digits and `_`, a letter first";
            let help = "`user`, for example, which `$item` reads as `${{ user.name }}`";
            return self.refuse("SE0110", node, message, help);
        }
        if is_taken(name) || self.locals.iter().any(|local| local == name) {
            return self.refuse("SE0111", node, &format!("`{name}` has a meaning here already"), "choose another name");
        }
        Some(name.to_owned())
    }

    /// The name where `$as` is left out; a list within a list needs one of its own.
    fn default_local(&mut self, node: &Node) -> Option<String> {
        if self.locals.iter().any(|local| local == ITEM) {
            let message = format!("`{ITEM}` is the item of a list around this one");
            let at = node.entry("$each").map_or(node, |(key, _)| key);
            return self.refuse("SE0111", at, &message, "give this one a name with `$as`");
        }
        Some(ITEM.to_owned())
    }

    fn missing<T>(&mut self, node: &Node, key: &str, what: &str) -> Option<T> {
        let at = node.entry("$each").map_or(node, |(key, _)| key);
        self.refuse("SE0191", at, &format!("`$each` needs `{key}`"), what)
    }

    /// Nothing stands beside the keys that build structure.
    fn refuse_neighbours(&mut self, entries: &[Pair], known: &[&str]) {
        for (key, _) in entries.iter().filter(|(key, _)| !key.as_str().is_some_and(|key| known.contains(&key))) {
            let (first, name) = (known[0], key.as_str().unwrap_or_default());
            let help = if first == "$merge" {
                "put it into a further item of `$merge`".to_owned()
            } else {
                format!("it goes with {} alone", known[1..].join(", "))
            };
            self.refuse::<()>("SE0191", key, &format!("`{name}` cannot stand beside `{first}`"), &help);
        }
    }

    fn refuse<T>(&mut self, code: &'static str, node: &Node, message: &str, help: &str) -> Option<T> {
        self.findings.push(Finding::new(code, node.headline(), message).help(help));
        None
    }
}

/// Whether a map stands for a list or for maps laid over each other: its first key that says so.
fn structure_of(entries: &[Pair]) -> Option<&str> {
    entries.iter().filter_map(|(key, _)| key.as_str()).find(|key| matches!(*key, "$each" | "$merge"))
}
