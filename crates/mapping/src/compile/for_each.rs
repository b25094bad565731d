//! `forEach`, `as` and `key`: several objects from one rule.

use super::{Compiler, Needs, names};
use crate::ForEach;
use crate::diagnostic::Finding;
use crate::expression::{Expression, RootSet, is_taken};
use crate::template::{Template, Text};
use crate::yaml::{Node, NodeValue, Raw, Spanned};

/// What goes with a list.
const REPEATED: &[Needs] = &[
    ("forEach", "as", "the name under which expressions read the item"),
    ("forEach", "key", "what tells the objects apart, for ever: `${{ user.name }}`, for example"),
    ("as", "forEach", "add the list, `forEach: ${{ … }}`, or leave this out"),
    ("key", "forEach", "add the list, `forEach: ${{ … }}`, or leave this out"),
];

/// `forEach`, `as` and `key` as they are written beside each other.
type Written<'a> = (&'a Option<Raw>, &'a Option<Spanned<String>>, &'a Option<Raw>);

impl Compiler {
    /// Compiles the list and its keys, which read these roots; what follows reads the item, until
    /// [`end_item`](Self::end_item).
    pub(super) fn for_each(&mut self, node: &Node, (list, item, key): Written<'_>, roots: RootSet) -> Option<ForEach> {
        self.check_needs(node, REPEATED);
        self.locals = self.target_item.iter().chain(item.as_ref().map(|item| &item.value)).cloned().collect();
        let list = list.as_ref()?;
        let item = item.as_ref().map(|item| self.item(item));
        let inner = std::mem::replace(&mut self.locals, self.target_item.iter().cloned().collect());
        let list = self.list(list, roots);
        self.locals = inner;
        let text = self.optional(key.as_ref(), roots, Text::compile);
        if let (Some(key), Some(text), Some(item)) = (key, &text, &item)
            && !text.references().locals.contains(item)
        {
            let at = key.0.headline();
            let help = format!(
                "make it from the item: `${{{{ {item} }}}}` where it is a text, else one of its fields: `${{{{ {item}.name }}}}`"
            );
            self.report(Finding::new("SE0119", at, "every item of the list would get one key").help(help));
        }
        Some(ForEach { list: list?, item: item?, key: text? })
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
        if is_taken(item) {
            let message = format!("`{}` has a meaning here already", item.value);
            self.report(Finding::new("SE0111", item.span(), message).help("choose another name"));
        }
        item.value.clone()
    }
}

/// What tells the items apart: the key's expression, where it is nothing else.
pub(super) fn told_apart<'w>(key: &'w Option<Raw>, item: &'w Option<Spanned<String>>) -> &'w str {
    let key = key.as_ref().and_then(|key| key.0.as_str()).map(|key| key.trim().trim_start_matches('$'));
    let expression = key.and_then(|key| key.strip_prefix("{{")?.strip_suffix("}}")).map(str::trim);
    expression.filter(|text| !text.contains("}}")).or(item.as_ref().map(|item| item.value.as_str())).unwrap_or("item")
}
