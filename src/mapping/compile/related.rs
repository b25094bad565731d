//! `spec.related`: objects that travel along.

use std::collections::BTreeMap;

use super::for_each::Written;
use super::{Compiler, names};
use crate::mapping::diagnostic::Finding;
use crate::mapping::document::{Direction, RelatedDataSpec, RelatedPlaceSpec, RelatedSpec};
use crate::mapping::expression::{References, RootSet};
use crate::mapping::template::Text;
use crate::mapping::{RelatedData, RelatedPlace, RelatedRule};
use crate::yaml::{Raw, Spanned};

/// What has `data`, and keys in it.
const WITH_DATA: [&str; 2] = ["secrets.v1", "configmaps.v1"];

impl Compiler {
    pub(super) fn related(&mut self, specs: &[Spanned<RelatedSpec>]) -> Option<Vec<RelatedRule>> {
        for (index, spec) in specs.iter().enumerate() {
            names::check_identifier(&spec.id, "a related object's id", &mut self.findings);
            if specs[..index].iter().any(|earlier| earlier.id.value == spec.id.value) {
                let finding =
                    Finding::new("SE0111", spec.id.span(), format!("the id `{}` stands here twice", spec.id.value));
                self.report(finding.label("second of this id"));
            }
        }
        let rules: Vec<_> = specs.iter().map(|spec| self.one_related(spec)).collect();
        self.locals.clear();
        rules.into_iter().collect()
    }

    fn one_related(&mut self, spec: &Spanned<RelatedSpec>) -> Option<RelatedRule> {
        let resource = names::resource(&spec.resource, &mut self.findings);
        let for_each = self.for_each(&Written {
            node: &spec.node,
            list: spec.for_each.as_ref(),
            item: spec.item.as_ref(),
            key: spec.key.as_ref(),
        });
        let from = self.from(spec);
        let to = spec.to.as_ref().map_or(Some(RelatedPlace::default()), |to| self.place(to));
        self.check_destination(spec);
        self.check_names_differ(spec, from.as_ref(), to.as_ref());
        let data = self.related_data(spec);
        Some(RelatedRule {
            id: spec.id.value.clone(),
            direction: spec.direction,
            resource: resource?,
            for_each: for_each?.map(Box::new),
            from: from?,
            to: to?,
            data,
            on_missing: spec.on_missing,
        })
    }

    /// Where it is read: by name, or by labels.
    fn from(&mut self, spec: &Spanned<RelatedSpec>) -> Option<RelatedPlace> {
        let at = spec.node.entry("from").map_or(spec.id.span(), |(key, _)| key.span.clone());
        let refused = match (&spec.from.name, &spec.from.selector) {
            (None, None) => Some(("`from` has neither `name` nor `selector`", "say which object it is")),
            (Some(_), Some(_)) => {
                Some(("`from` has both `name` and `selector`", "one object by name, or all by labels"))
            }
            (None, Some(_)) if spec.for_each.is_some() => {
                Some(("`selector` and `forEach` are two ways to many objects", "take one of them"))
            }
            _ => None,
        };
        if let Some((message, help)) = refused {
            self.report(Finding::new("SE0104", at, message).help(help));
        }
        self.place(&spec.from)
    }

    fn place(&mut self, spec: &RelatedPlaceSpec) -> Option<RelatedPlace> {
        let (namespace, name) = (self.text(spec.namespace.as_ref()), self.text(spec.name.as_ref()));
        let selector = spec.selector.as_ref().map(|selector| self.selector(selector));
        Some(RelatedPlace { namespace: namespace?, name: name?, selector })
    }

    /// The outer `None`: a finding says why.
    fn text(&mut self, given: Option<&Raw>) -> Option<Option<Text>> {
        given.map_or(Some(None), |raw| self.leaf(raw, RootSet::TEMPLATE, Text::compile).map(Some))
    }

    fn check_destination(&mut self, spec: &Spanned<RelatedSpec>) {
        let selector = spec.node.get("to").and_then(|to| to.entry("selector"));
        if let Some((key, _)) = selector.filter(|_| spec.to.as_ref().is_some_and(|to| to.selector.is_some())) {
            let finding = Finding::new("SE0114", key.span.clone(), "a destination is no selection");
            self.report(finding.help("write `name`, or leave it out: then it is the name it has where it comes from"));
        }
        let name = spec.node.get("to").and_then(|to| to.entry("name"));
        if let Some((key, _)) = name.filter(|_| spec.from.selector.is_some()) {
            let finding = Finding::new("SE0114", key.span.clone(), "many objects cannot go to one name");
            self.report(finding.help("leave it out: each keeps the name it has where it comes from"));
        }
        if spec.owner_reference && spec.direction == Direction::ToTarget {
            let at = spec.node.entry("ownerReference").map_or(spec.id.span(), |(key, _)| key.span.clone());
            let finding = Finding::new("SE0114", at, "on the target there is no source that could own it");
            self.report(finding.help("`ownerReference` goes with `direction: ToSource`"));
        }
    }

    /// Of several, each needs a place of its own.
    fn check_names_differ(&mut self, spec: &RelatedSpec, from: Option<&RelatedPlace>, to: Option<&RelatedPlace>) {
        let Some(item) = spec.item.as_ref().filter(|_| spec.for_each.is_some()) else { return };
        let sides = [("from", Some(&spec.from), from), ("to", spec.to.as_ref(), to)];
        for (side, spec, place) in sides {
            let Some((name, text)) = spec.and_then(|spec| spec.name.as_ref()).zip(place.and_then(|p| p.name.as_ref()))
            else {
                continue;
            };
            if !text.references().locals.contains(&item.value) {
                let message = format!("every item of the list would get one name in `{side}`");
                let finding = Finding::new("SE0119", name.0.headline(), message);
                self.report(
                    finding.help(format!("make it from the item: `{{{{ {}.name }}}}`, for example", item.value)),
                );
            }
        }
    }

    fn related_data(&mut self, spec: &Spanned<RelatedSpec>) -> RelatedData {
        let Some(RelatedDataSpec { include, rename }) = &spec.data else { return RelatedData::default() };
        let at = spec.node.entry("data").map_or(spec.id.span(), |(key, _)| key.span.clone());
        if !WITH_DATA.contains(&spec.resource.as_str()) {
            let message = format!("`data` goes with {}", WITH_DATA.join(" and "));
            self.report(Finding::new("SE0114", at, message).help("leave it out: the whole object is carried"));
        }
        let mut renamed = BTreeMap::new();
        for (from, to) in &rename.0 {
            if !include.is_empty() && !include.contains(&from.value) {
                let message = format!("`{}` is renamed, and not included", from.value);
                self.report(Finding::new("SE0114", from.span(), message).help("add it to `include`"));
            }
            renamed.insert(from.value.clone(), to.clone());
        }
        RelatedData { include: include.clone(), rename: renamed }
    }

    /// What the places of a related object read.
    pub(super) fn related_references(&self, rule: &RelatedRule) -> References {
        let mut direct = References::default();
        let texts = [&rule.from.namespace, &rule.from.name, &rule.to.namespace, &rule.to.name];
        texts.into_iter().flatten().for_each(|text| direct.extend(text.references()));
        if let Some(each) = &rule.for_each {
            direct.extend(each.list.references());
            direct.extend(each.key.references());
        }
        self.all_references(&direct)
    }
}

/// Whether a related object is several: by `forEach`, or by labels.
pub(super) fn is_several(spec: &RelatedSpec) -> bool {
    spec.for_each.is_some() || spec.from.selector.is_some()
}
