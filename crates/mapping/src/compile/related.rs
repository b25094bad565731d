//! `spec.related`: objects that are copied along with the source, or read beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::for_each::told_apart;
use super::{Compiler, names, source};
use crate::diagnostic::Finding;
use crate::document::{Direction, RelatedDataSpec, RelatedPlaceSpec, RelatedSpec, SourceDelete};
use crate::expression::{Expression, RootSet};
use crate::template::{Template, Text};
use crate::yaml::{Node, NodeValue, Spanned};
use crate::{
    Copied, IdentityChange, ObjectRule, OriginalOwner, RELATED, RelatedData, RelatedPlace, RelatedRule,
    SERVICE_ACCOUNT_TOKEN, Side,
};

/// What is copied. Objects of other resources are only read.
pub(super) const COPIED: [&str; 2] = ["secrets.v1", "configmaps.v1"];

const HOME: &str = "leave it out: a copy goes to the namespace of the source's placement";
const KEEPS_NAME: &str = "leave it out: each keeps the name it has where it comes from";
const SELECTED: &str = "write `name`, or leave it out: then it is the name it has where it comes from";
const TOKEN: &str = "its cluster would take the copy for a token of its own";
const ADDED: &str = "each source could give it others; leave `shared` or `add` out";
const TRANSFORMED: &str = "each source could give it another value; leave `shared` or `transform` out";

impl Compiler {
    pub(super) fn related(&mut self, specs: &[Spanned<RelatedSpec>]) -> Option<Vec<RelatedRule>> {
        self.check_ids(specs.iter().map(|spec| &spec.id), "a related object's id");
        let rules: Vec<_> = specs.iter().map(|spec| self.one_related(spec)).collect();
        self.end_item();
        rules.into_iter().collect()
    }

    fn one_related(&mut self, spec: &Spanned<RelatedSpec>) -> Option<RelatedRule> {
        let resource = names::resource(&spec.resource, &mut self.findings);
        self.end_item();
        let when = self.optional(spec.when.as_ref(), RootSet::TEMPLATE, Expression::compile);
        let for_each = self.for_each(&spec.node, (&spec.for_each, &spec.item, &spec.key), RootSet::TEMPLATE);
        let from = self.from(spec);
        let to = spec.to.as_ref().map(|to| self.place(to)).unwrap_or_default();
        self.check_copy(spec, resource.is_some());
        self.check_names_differ(spec, &from, &to);
        let data = self.related_data(spec);
        let keys = |keys: &[Spanned<String>]| keys.iter().map(|key| key.value.clone()).collect();
        Some(RelatedRule {
            id: spec.id.value.clone(),
            direction: spec.direction,
            resource: resource?,
            when,
            for_each: for_each.map(Box::new),
            from,
            to,
            data: data?,
            labels: keys(&spec.labels),
            annotations: keys(&spec.annotations),
            secret_type: spec.secret_type.as_ref().map(|kind| kind.value.clone()),
            owner_reference: spec.owner_reference,
            on_missing: spec.on_missing,
            owner: OriginalOwner::default(),
            is_read: false,
        })
    }

    /// A copy is an object like any other: these are the rules of the copies, which follow the rules of the objects.
    pub(super) fn copies(
        &self,
        specs: &[Spanned<RelatedSpec>],
        related: &[RelatedRule],
        objects: &mut Vec<ObjectRule>,
    ) {
        for (position, (spec, rule)) in specs.iter().zip(related).enumerate() {
            let Some(kind) = rule.copied_kind() else { continue };
            if rule.direction == Direction::ToTarget {
                let copy = objects.len();
                let dependent = objects.iter_mut().filter(|object| object.depends_on_related.contains(&position));
                dependent.for_each(|object| object.depends_on.push(copy));
            }
            objects.push(ObjectRule {
                id: format!("{RELATED}{}", rule.id),
                kind: match rule.direction {
                    Direction::ToTarget => kind,
                    Direction::ToSource => kind.on(Side::Source),
                },
                shared: spec.shared.is_some(),
                adopt: spec.adopt,
                orphan_on_delete: spec.on_source_delete == SourceDelete::Orphan,
                on_identity_change: IdentityChange::Recreate,
                copy: Some(Copied { related: position, several: rule.is_several() }),
                ..ObjectRule::default()
            });
        }
    }

    /// What goes with a copy, and with which. `is_resource`: where it is none, that is said, and it may be meant for one that
    /// is copied.
    fn check_copy(&mut self, spec: &Spanned<RelatedSpec>, is_resource: bool) {
        let is_copied = COPIED.contains(&spec.resource.as_str());
        let meant = COPIED.iter().find(|copied| copied.replacen("s.", ".", 1) == spec.resource.value);
        let is_only_read = is_resource && !is_copied && meant.is_none();
        if let Some(meant) = meant {
            let finding =
                Finding::new("SE0112", spec.resource.span(), format!("`{}` is no plural", spec.resource.value));
            self.report(finding.help(format!("write `{meant}`")));
        }
        let of_copies =
            ["to", "data", "labels", "annotations", "type", "shared", "ownerReference", "adopt", "onSourceDelete"];
        for (key, _) in of_copies.iter().filter(|_| is_only_read).filter_map(|field| spec.node.entry(field)) {
            let finding = Finding::new("SE0114", key.span.clone(), format!("{} is not copied", spec.resource.value));
            let help = format!("only {} are copied; objects of other resources are only read", COPIED.join(" and "));
            self.report(finding.help(help));
        }
        let (to_source, is_secret) = (spec.direction == Direction::ToSource, spec.resource.value == COPIED[0]);
        let is_token = spec.secret_type.as_ref().is_some_and(|kind| kind.value == SERVICE_ACCOUNT_TOKEN);
        let home = if to_source { "leave it out: a copy goes to the namespace of the source" } else { HOME };
        let refused: [(bool, &[&str], &str, &str); 9] = [
            (is_copied && !is_secret, &["type"], "only Secrets have a `type`", "leave it out"),
            (is_token, &["type"], "the token of a service account is never copied", TOKEN),
            (
                to_source,
                &["shared"],
                "a copy for the consumer belongs to one source",
                "`shared` goes with `direction: ToTarget`",
            ),
            (spec.shared.is_some(), &["data", "transform"], "a shared copy cannot be transformed", TRANSFORMED),
            (spec.shared.is_some(), &["data", "add"], "a shared copy has no keys of its own", ADDED),
            (true, &["to", "selector"], "a destination is no selection", SELECTED),
            (spec.from.selector.is_some(), &["to", "name"], "many objects cannot go to one name", KEEPS_NAME),
            (true, &["to", "namespace"], "a copy cannot go to another namespace", home),
            (
                spec.owner_reference && !to_source,
                &["ownerReference"],
                "on the target there is no source that could own it",
                "`ownerReference` goes with `direction: ToSource`",
            ),
        ];
        for (_, path, message, help) in refused.into_iter().filter(|(is_refused, ..)| *is_refused) {
            let (field, above) = path.split_last().map_or(("", path), |(field, above)| (*field, above));
            let node = above.iter().try_fold(&*spec.node, |node, key| node.get(key).map(|node| &**node));
            if let Some((key, _)) = node.and_then(|node| node.given(field)) {
                self.report(Finding::new("SE0114", key.span.clone(), message).help(help));
            }
        }
        for key in spec.labels.iter().chain(&spec.annotations).filter(|key| names::is_internal(key)) {
            let finding = Finding::new("SE0114", key.span(), format!("`{}` never leaves its cluster", key.value));
            self.report(finding.help("labels and annotations of kcp and of this engine are not copied"));
        }
    }

    /// Where it is read: by name, or by labels.
    fn from(&mut self, spec: &Spanned<RelatedSpec>) -> RelatedPlace {
        let at = spec.node.entry("from").map_or(spec.id.span(), |(key, _)| key.span.clone());
        // What stands there and cannot be read was said.
        let selector = spec.node.get("from").and_then(|from| from.given("selector"));
        let is_empty = |(_, node): &(_, Arc<Node>)| match &node.value {
            NodeValue::Null => true,
            NodeValue::Sequence(items) => items.is_empty(),
            NodeValue::Mapping(entries) => entries.is_empty(),
            NodeValue::Bool(_) | NodeValue::Number(_) | NodeValue::String(_) => false,
        };
        let refused = match (&spec.from.name, &spec.from.selector) {
            (None, None) if selector.is_some() => None,
            (None, None) => Some(("`from` has neither `name` nor `selector`", "say which object it is")),
            (Some(_), Some(_)) => {
                Some(("`from` has both `name` and `selector`", "one object by name, or all by labels"))
            }
            (None, Some(_)) if spec.for_each.is_some() => {
                Some(("`selector` and `forEach` are two ways to many objects", "take one of them"))
            }
            (None, Some(_)) if selector.is_some_and(|(_, node)| node.entries().iter().all(is_empty)) => {
                Some(("an empty `selector` selects every object", "name a label"))
            }
            _ => None,
        };
        if let Some((message, help)) = refused {
            self.report(Finding::new("SE0104", at, message).help(help));
        }
        self.place(&spec.from)
    }

    fn place(&mut self, spec: &RelatedPlaceSpec) -> RelatedPlace {
        let [namespace, name] =
            [&spec.namespace, &spec.name].map(|raw| self.optional(raw.as_ref(), RootSet::TEMPLATE, Text::compile));
        let selector = spec.selector.as_ref().map(|spec| source::selector(spec, &mut self.findings));
        RelatedPlace { namespace, name, selector }
    }

    /// Of several, each needs a place of its own.
    fn check_names_differ(&mut self, spec: &RelatedSpec, from: &RelatedPlace, to: &RelatedPlace) {
        let Some(item) = spec.item.as_ref().filter(|_| spec.for_each.is_some()) else { return };
        let told = told_apart(&spec.key, &spec.item);
        let sides = [("from", Some(&spec.from), from), ("to", spec.to.as_ref(), to)];
        for (side, spec, place) in sides {
            let Some((name, text)) = spec.and_then(|spec| spec.name.as_ref()).zip(place.name.as_ref()) else {
                continue;
            };
            if !text.references().locals.contains(&item.value) {
                let message = format!("every item of the list would get one name in `{side}`");
                let finding = Finding::new("SE0119", name.0.headline(), message);
                self.report(finding.help(format!("make it from the item: `{{{{ {told} }}}}`, for example")));
            }
        }
    }

    /// `None`: a finding says why.
    fn related_data(&mut self, spec: &Spanned<RelatedSpec>) -> Option<RelatedData> {
        let Some(RelatedDataSpec { include, rename, transform, add }) = &spec.data else {
            return Some(RelatedData::default());
        };
        let mut renamed = BTreeMap::new();
        for (from, to) in &rename.0 {
            self.check_included(include, from, "renamed");
            self.check_data_key(from, to);
            let is_kept = include.contains(to) && !rename.0.iter().any(|(from, _)| from.value == *to);
            if is_kept || renamed.values().any(|other| other == to) {
                let finding = Finding::new("SE0114", from.span(), format!("two keys would be copied as `{to}`"));
                self.report(finding.help("give one of them another name"));
            }
            renamed.insert(from.value.clone(), to.clone());
        }
        let mut transformed = BTreeMap::new();
        for (key, value) in &transform.0 {
            self.check_included(include, key, "transformed");
            transformed.insert(key.value.clone(), self.leaf(value, RootSet::TRANSFORM, Template::compile)?);
        }
        let mut added = BTreeMap::new();
        for (key, value) in &add.0 {
            self.check_data_key(key, &key.value);
            let copied = |name: &String| renamed.get(name).unwrap_or(name) == &key.value;
            if include.iter().any(copied) || renamed.values().any(|name| *name == key.value) {
                let finding = Finding::new("SE0114", key.span(), format!("`{}` is copied and added", key.value));
                self.report(finding.help("give one of them another name"));
            }
            added.insert(key.value.clone(), self.leaf(value, RootSet::TEMPLATE, Template::compile)?);
        }
        Some(RelatedData { include: include.clone(), rename: renamed, transform: transformed, add: added })
    }

    fn check_data_key(&mut self, at: &Spanned<String>, key: &str) {
        if !names::is_data_key(key) {
            let finding = Finding::new("SE0114", at.span(), format!("`{key}` is no key of a Secret or ConfigMap"));
            self.report(finding.help("letters, digits, `-`, `_` and `.`"));
        }
    }

    fn check_included(&mut self, include: &[String], key: &Spanned<String>, how: &str) {
        if !include.is_empty() && !include.contains(&key.value) {
            let message = format!("`{}` is {how}, and not included", key.value);
            self.report(Finding::new("SE0114", key.span(), message).help("add it to `include`"));
        }
    }
}
