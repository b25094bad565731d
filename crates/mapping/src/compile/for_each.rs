//! `forEach`, `as` and `key`: several objects from one rule.

use super::{Compiler, names};
use crate::ForEach;
use crate::diagnostic::Finding;
use crate::expression::{Expression, Root, RootSet};
use crate::template::{Template, Text};
use crate::yaml::{Node, NodeValue, Raw, Spanned};

/// Words that mean something in every expression.
const CONSTANTS: [&str; 5] = ["omit", "null", "true", "false", "none"];

/// The three fields as they are written beside each other.
pub(super) struct Written<'a> {
    pub node: &'a Node,
    pub list: Option<&'a Raw>,
    pub item: Option<&'a Spanned<String>>,
    pub key: Option<&'a Raw>,
    /// What the list and its keys read.
    pub roots: RootSet,
}

impl Compiler {
    /// Compiles the list and its keys; what follows reads the item, until
    /// [`end_item`](Self::end_item). The outer `None`: a
    /// finding says why.
    pub(super) fn for_each(&mut self, written: &Written<'_>) -> Option<Option<ForEach>> {
        self.locals = self.target_item.iter().chain(written.item.as_ref().map(|item| &item.value)).cloned().collect();
        let Some(list) = written.list else {
            let alone = self.refuse_without_list(written.node);
            return alone.then_some(None);
        };
        let item = self.item(written);
        let inner = std::mem::replace(&mut self.locals, self.target_item.iter().cloned().collect());
        let place = list.0.headline();
        let list = self.list(list, written.roots);
        self.locals = inner;
        let key = match written.key {
            Some(key) => self.leaf(key, written.roots, Text::compile),
            None => self.needs(
                written.node,
                "key",
                "what tells the objects apart, for ever: `${{ user.name }}`, for example",
            ),
        };
        if let (Some(key), Some(item)) = (&key, &item)
            && !key.references().locals.contains(item)
        {
            let at = written.key.map_or(0..0, |key| key.0.headline());
            let finding = Finding::new("SE0119", at, "every item of the list would get one key");
            self.report(finding.help(format!(
                "make it from the item: `${{{{ {item} }}}}` where it is a text, else one of its fields: `${{{{ {item}.name }}}}`"
            )));
        }
        Some(Some(ForEach { list: list?, place, item: item?, key: key? }))
    }

    /// What follows is outside of the list.
    pub(super) fn end_item(&mut self) {
        self.locals = self.target_item.iter().cloned().collect();
    }

    fn list(&mut self, raw: &Raw, roots: RootSet) -> Option<Template> {
        let fits = match &raw.0.value {
            NodeValue::Sequence(_) => true,
            NodeValue::String(_) => Expression::is_typed(&raw.0),
            _ => false,
        };
        if !fits {
            let message = format!("`forEach` takes a list; this is {}", raw.0.describe());
            let finding = Finding::new("SE0102", raw.0.headline(), message);
            self.report(finding.help("a list, or `${{ … }}` that gives one"));
            return None;
        }
        self.leaf(raw, roots, Template::compile)
    }

    fn item(&mut self, written: &Written<'_>) -> Option<String> {
        let Some(item) = written.item else {
            return self.needs(written.node, "as", "the name under which expressions read the item");
        };
        names::check_identifier(item, "the item's name", &mut self.findings);
        if Root::from_name(item).is_some() || CONSTANTS.contains(&item.as_str()) {
            let finding = Finding::new("SE0111", item.span(), format!("`{}` has a meaning here already", item.value));
            self.report(finding.help("choose another name"));
        }
        Some(item.value.clone())
    }

    fn needs<T>(&mut self, node: &Node, field: &str, what: &str) -> Option<T> {
        let at = node.entry("forEach").map_or(node.headline(), |(key, _)| key.span.clone());
        self.report(Finding::new("SE0114", at, format!("`forEach` needs `{field}`")).help(what));
        None
    }

    /// Whether nothing stands there that only a list gives a meaning.
    fn refuse_without_list(&mut self, node: &Node) -> bool {
        let mut alone = true;
        for field in ["as", "key"] {
            if let Some((key, value)) = node.entry(field)
                && value.value != NodeValue::Null
            {
                let finding = Finding::new("SE0114", key.span.clone(), format!("`{field}` goes with `forEach`"));
                self.report(finding.help("add the list, `forEach: ${{ … }}`, or leave this out"));
                alone = false;
            }
        }
        alone
    }
}

/// What tells the items apart: the key's expression, where it is nothing else.
pub(super) fn told_apart<'w>(key: Option<&'w Raw>, item: Option<&'w Spanned<String>>) -> &'w str {
    let key = key.and_then(|key| key.0.as_str()).map(|key| key.trim().trim_start_matches('$'));
    let expression = key.and_then(|key| key.strip_prefix("{{")?.strip_suffix("}}")).map(str::trim);
    expression.filter(|text| !text.contains("}}")).or(item.map(|item| item.value.as_str())).unwrap_or("item")
}
