//! `forEach`, `as` and `key`: several objects from one rule.

use super::{Compiler, Needs, names};
use crate::ForEach;
use crate::diagnostic::Finding;
use crate::expression::{Expression, Root, RootSet};
use crate::template::{Template, Text};
use crate::yaml::{Node, NodeValue, Raw, Spanned};

/// Words that mean something in every expression.
const CONSTANTS: [&str; 5] = ["omit", "null", "true", "false", "none"];

/// What goes with a list.
const REPEATED: &[Needs] = &[
    ("forEach", "as", "the name under which expressions read the item"),
    ("forEach", "key", "what tells the objects apart, for ever: `${{ user.name }}`, for example"),
    ("as", "forEach", "add the list, `forEach: ${{ … }}`, or leave this out"),
    ("key", "forEach", "add the list, `forEach: ${{ … }}`, or leave this out"),
];

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
    /// Compiles the list and its keys; what follows reads the item, until [`end_item`](Self::end_item).
    pub(super) fn for_each(&mut self, written: &Written<'_>) -> Option<ForEach> {
        self.check_needs(written.node, REPEATED);
        self.locals = self.target_item.iter().chain(written.item.as_ref().map(|item| &item.value)).cloned().collect();
        let list = written.list?;
        let item = written.item.map(|item| self.item(item));
        let inner = std::mem::replace(&mut self.locals, self.target_item.iter().cloned().collect());
        let place = list.0.headline();
        let list = self.list(list, written.roots);
        self.locals = inner;
        let key = self.optional(written.key, written.roots, Text::compile);
        if let (Some(key), Some(item)) = (&key, &item)
            && !key.references().locals.contains(item)
        {
            let at = written.key.map_or(0..0, |key| key.0.headline());
            let help = format!(
                "make it from the item: `${{{{ {item} }}}}` where it is a text, else one of its fields: `${{{{ {item}.name }}}}`"
            );
            self.report(Finding::new("SE0119", at, "every item of the list would get one key").help(help));
        }
        Some(ForEach { list: list?, place, item: item?, key: key? })
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
            return self.refused(finding.help("a list, or `${{ … }}` that gives one"));
        }
        self.leaf(raw, roots, Template::compile)
    }

    fn item(&mut self, item: &Spanned<String>) -> String {
        names::check_identifier(item, "the item's name", &mut self.findings);
        if Root::from_name(item).is_some() || CONSTANTS.contains(&item.as_str()) {
            let message = format!("`{}` has a meaning here already", item.value);
            self.report(Finding::new("SE0111", item.span(), message).help("choose another name"));
        }
        item.value.clone()
    }
}

/// What tells the items apart: the key's expression, where it is nothing else.
pub(super) fn told_apart<'w>(key: Option<&'w Raw>, item: Option<&'w Spanned<String>>) -> &'w str {
    let key = key.and_then(|key| key.0.as_str()).map(|key| key.trim().trim_start_matches('$'));
    let expression = key.and_then(|key| key.strip_prefix("{{")?.strip_suffix("}}")).map(str::trim);
    expression.filter(|text| !text.contains("}}")).or(item.map(|item| item.value.as_str())).unwrap_or("item")
}
