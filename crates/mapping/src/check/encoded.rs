//! SE0409: what is read of a Secret's `data`, which is base64, where it is encoded once more.

use crate::Mapping;
use crate::diagnostic::Finding;
use crate::expression::{Base, Expr, Segment};
use crate::template::{Content, Tree};

/// The engine encodes what is added to a copy.
const DECODED: &str = "decode it first: `… | b64decode`";
/// The server encodes `stringData`.
const AS_IT_IS: &str = "write it in `data`, which takes base64";

pub(super) fn check(mapping: &Mapping, findings: &mut Vec<Finding>) {
    let of_secrets = |field: &'static str| {
        let secrets = mapping.objects.iter().filter(|rule| rule.kind.is_secret());
        let fields = secrets.filter_map(move |rule| rule.template.root().entry(field));
        fields.flat_map(|tree| if let Content::Mapping(entries) = &tree.content { &entries[..] } else { &[][..] })
    };
    let copies = mapping.related.iter().filter(|rule| rule.copied_kind().is_some_and(|kind| kind.is_secret()));
    let added = copies.flat_map(|rule| rule.data.add.values()).map(|template| (template.root(), Some(DECODED)));
    let texts = of_secrets("stringData").map(|entry| (&entry.tree, Some(AS_IT_IS)));
    let bytes = of_secrets("data").map(|entry| (&entry.tree, None));
    findings.extend(added.chain(texts).chain(bytes).filter_map(|(tree, help)| twice(mapping, tree, help)));
}

/// `help`: what to do where the place encodes what it is given.
fn twice(mapping: &Mapping, tree: &Tree, help: Option<&'static str>) -> Option<Finding> {
    let expr = match &tree.content {
        Content::Expression(expression) => expression.expr(),
        Content::Text(text) => text.only_expression()?,
        _ => return None,
    };
    let (given, help) = match expr {
        Expr::Call(call) if call.name() == "b64encode" => (call.arguments.first()?.as_ref()?, "leave `b64encode` out"),
        _ => (expr, help?),
    };
    is_base64(mapping, given).then(|| {
        let message = "what a Secret has in `data` is base64, and would be encoded once more";
        Finding::new("SE0409", tree.node.headline(), message).help(help)
    })
}

/// Whether an expression gives what a Secret has in `data`, as it is there.
fn is_base64(mapping: &Mapping, expr: &Expr) -> bool {
    match expr {
        Expr::Default { value, .. } => is_base64(mapping, value),
        Expr::Path(path) => {
            let rule = match &path.base {
                Base::Object(id) => mapping.rule(id),
                copied @ Base::Related(_) => mapping.rule(&copied.to_string()),
                _ => None,
            };
            let Some(rule) = rule.filter(|rule| rule.kind.is_secret()) else { return false };
            let mut segments = path.segments.iter().skip(usize::from(rule.is_several()));
            matches!(segments.next(), Some(Segment::Key(field)) if field == "data") && segments.next().is_some()
        }
        _ => false,
    }
}
