//! `spec.objects`: ids, identities, and what is written how.

use std::collections::BTreeMap;
use std::ops::Range;

use super::for_each::told_apart;
use super::{Compiler, names};
use crate::diagnostic::Finding;
use crate::document::{DeletePolicy, MappingSpec, ObjectSpec};
use crate::expression::{Expression, RootSet};
use crate::names::is_dns_subdomain;
use crate::pointer::{Pointer, Step};
use crate::template::{Template, Text};
use crate::yaml::{Node, NodeValue, Raw, Spanned};
use crate::{Kind, ObjectRule, RelatedRule};

/// What the server or the engine says about an object, never a template: why, and the fields.
const METADATA_OF_OTHERS: [(&str, &[&str]); 3] = [
    ("it comes from `placement.namespace`", &["namespace"]),
    ("a rendered object has one name, from `placement.name` or `metadata.name`", &["generateName"]),
    ("the server sets it", OF_SERVER),
];
const OF_SERVER: &[&str] =
    &["uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields", "selfLink"];

/// Pointers that would leave an object without its identity.
const NEVER_IGNORED: [&str; 6] = ["", "/apiVersion", "/kind", "/metadata", "/metadata/name", "/metadata/namespace"];

impl Compiler {
    pub(super) fn objects(&mut self, spec: &MappingSpec, related: &[RelatedRule]) -> Option<Vec<ObjectRule>> {
        let specs = &spec.objects;
        if specs.is_empty() && matches!(&specs.node.value, NodeValue::Sequence(items) if items.is_empty()) {
            self.report(Finding::new("SE0103", specs.span(), "a mapping has at least one object"));
        }
        self.check_ids(specs.iter().map(|spec| &spec.id), "an object's id");
        let mut rules: Vec<_> = specs.iter().map(|spec| self.object(spec)).collect();
        self.check_identities(specs, &rules);
        self.dependencies(spec, &mut rules, related);
        rules.into_iter().collect()
    }

    /// Two rules for one object would write it in turns.
    fn check_identities(&mut self, specs: &[Spanned<ObjectSpec>], rules: &[Option<ObjectRule>]) {
        let identity = |spec: &ObjectSpec, rule: &Option<ObjectRule>| -> Option<(Kind, Option<String>)> {
            let name = spec.template.0.at(&["metadata", "name"]);
            Some((rule.as_ref()?.kind.clone(), name.and_then(|name| name.as_str()).map(str::to_owned)))
        };
        let identities: Vec<_> = specs.iter().zip(rules).map(|(spec, rule)| identity(spec, rule)).collect();
        for (index, found) in identities.iter().enumerate() {
            let Some((kind, name)) = found else { continue };
            if let Some(earlier) = identities[..index].iter().position(|earlier| earlier == found) {
                let name = name.as_ref().map_or("the placement's name".into(), |name| format!("the name `{name}`"));
                let (first, second) = (&specs[earlier].id, &specs[index].id);
                let message =
                    format!("`{}` and `{}` are one object: {} with {name}", first.value, second.value, kind.kind);
                self.report(
                    Finding::new("SE0111", second.span(), message)
                        .help("give one of them a `metadata.name` of its own"),
                );
            }
        }
    }

    fn object(&mut self, spec: &Spanned<ObjectSpec>) -> Option<ObjectRule> {
        let shared = spec.shared.is_some();
        let for_each = self.for_each(&spec.node, (&spec.for_each, &spec.item, &spec.key), RootSet::TEMPLATE);
        if let Some((field, _)) = spec.node.entry("forEach").filter(|_| shared && spec.for_each.is_some()) {
            let finding = Finding::new("SE0114", field.span.clone(), "a shared object is one");
            self.report(finding.help("it stands for all sources of a namespace, so no source has a list of them"));
        }
        let roots = if shared { RootSet::SHARED } else { RootSet::TEMPLATE };
        let when = self.optional(spec.when.as_ref(), roots, Expression::compile);
        if let Some((key, _)) = spec.template.0.entry("$when") {
            let finding = Finding::new("SE0191", key.headline(), "a whole object cannot be left out by its template");
            self.report(finding.help("write the condition as `when` of the object: it is deleted where that is false"));
        }
        let kind = self.kind(&spec.template.0);
        let name = self.object_name(spec, roots);
        let template = self.leaf(&spec.template, roots, Template::compile);
        let [ready, failed] = [&spec.ready, &spec.failed]
            .map(|verdict| self.optional(verdict.as_ref(), RootSet::STATUS, Expression::compile));
        self.end_item();
        let kind = kind?;
        let (ignore, at_creation) = self.left_to_others(spec, kind.is_secret());
        let generate = self.generated(spec, &kind);
        Some(ObjectRule {
            id: spec.id.value.clone(),
            kind,
            shared,
            for_each: for_each.map(Box::new),
            when,
            ready,
            failed,
            template: template?,
            name,
            ignore,
            at_creation,
            generate,
            drift: spec.drift,
            adopt: spec.adopt,
            orphan_on_delete: spec.delete.policy == DeletePolicy::Orphan,
            propagation: spec.delete.propagation,
            on_identity_change: spec.on_identity_change,
            ..ObjectRule::default()
        })
    }

    /// Group, version and kind of a template, and that it says nothing that is not its to say.
    fn kind(&mut self, template: &Node) -> Option<Kind> {
        if !matches!(template.value, NodeValue::Mapping(_)) {
            let message =
                format!("a template is an object with `apiVersion` and `kind`; this is {}", template.describe());
            let finding = Finding::new("SE0113", template.headline(), message);
            return self.refused(
                finding.help("write the object's outline, and expressions for its parts: `spec: ${{ source.spec }}`"),
            );
        }
        self.check_metadata(template);
        let mut field = |name: &str| {
            let found = template.get(name);
            if found.is_none() {
                let finding = Finding::new("SE0113", template.headline(), format!("the template has no `{name}`"));
                self.findings.push(finding);
            }
            found
        };
        let (api_version, kind) = (field("apiVersion"), field("kind"));
        names::kind(api_version?, kind?, &mut self.findings)
    }

    fn check_metadata(&mut self, template: &Node) {
        let Some(metadata) = template.get("metadata") else { return };
        if !matches!(metadata.value, NodeValue::Mapping(_) | NodeValue::Null) {
            let message = format!(
                "`metadata` is written out, so that an object's identity is known; this is {}",
                metadata.describe()
            );
            let finding = Finding::new("SE0113", metadata.headline(), message);
            self.report(
                finding.help("its parts can be expressions: `labels: ${{ source.metadata.labels | default({}) }}`"),
            );
        }
        for structure in ["$merge", "$each"] {
            if let Some((key, _)) = metadata.entry(structure) {
                let message = "`metadata` is written out, so that an object's identity is known";
                let finding = Finding::new("SE0113", key.span.clone(), message);
                self.report(finding.help("use it one level deeper: `labels: {$merge: …}`"));
            }
        }
        for (why, fields) in METADATA_OF_OTHERS {
            for (key, field) in fields.iter().filter_map(|field| Some((&metadata.entry(field)?.0, field))) {
                let message = format!("a template does not set `metadata.{field}`");
                self.report(Finding::new("SE0113", key.span.clone(), message).help(format!("leave it out: {why}")));
            }
        }
        for part in ["labels", "annotations"] {
            self.check_marks(metadata.get(part));
        }
    }

    /// Owner marks are the engine's.
    fn check_marks(&mut self, part: Option<&std::sync::Arc<Node>>) {
        for (key, _) in part.map_or(&[][..], |part| part.entries()) {
            let name = key.as_str().unwrap_or_default();
            if names::is_mark(name) {
                let finding = Finding::new("SE0113", key.span.clone(), format!("`{name}` is set by the engine"));
                self.report(finding.help("leave it out"));
            }
        }
    }

    /// `metadata.name`: for a shared object a literal, for others a text or nothing.
    fn object_name(&mut self, spec: &ObjectSpec, roots: RootSet) -> Option<Text> {
        let written = spec.template.0.at(&["metadata", "name"]);
        let Some(name) = written.filter(|name| name.value != NodeValue::Null) else {
            if spec.for_each.is_some() {
                return self.one_name(spec, spec.id.span());
            }
            spec.shared?;
            let finding = Finding::new("SE0113", spec.id.span(), "a shared object needs a fixed `metadata.name`");
            return self.refused(finding.help("it stands for all sources of a namespace, so no source can name it"));
        };
        let Some(text) = name.as_str() else {
            let message = format!("`metadata.name` must be a text; this is {}", name.describe());
            return self.refused(Finding::new("SE0113", name.headline(), message));
        };
        if names::is_template(text) {
            if spec.shared.is_some() {
                let finding = Finding::new("SE0113", name.headline(), "the name of a shared object must be a literal");
                return self
                    .refused(finding.help("it stands for all sources of a namespace, so no source can name it"));
            }
        } else if spec.for_each.is_none() {
            self.check_fixed_name(text, name.headline(), spec.shared.is_some());
        }
        let compiled = self.leaf(&Raw(name.clone()), roots, Text::compile)?;
        let differs = spec.item.as_ref().is_none_or(|item| compiled.references().locals.contains(&item.value));
        if spec.for_each.is_some() && !differs {
            return self.one_name(spec, name.headline());
        }
        Some(compiled)
    }

    /// Several objects whose names are the same would be one.
    fn one_name<T>(&mut self, spec: &ObjectSpec, at: Range<usize>) -> Option<T> {
        let told = told_apart(&spec.key, &spec.item);
        let message = format!("every object of `{}` would get one name", spec.id.value);
        let finding = Finding::new("SE0119", at, message);
        self.refused(finding.help(format!(
            "make `metadata.name` from the item as well: `{{{{ placement.name }}}}-{{{{ {told} | dns_label }}}}`, for example"
        )))
    }

    fn check_fixed_name(&mut self, text: &str, at: Range<usize>, shared: bool) {
        // RBAC's names are path segments, not DNS names: `system:controller` is one.
        let segment =
            !text.is_empty() && text.len() <= 253 && !text.contains(['/', '%']) && text != "." && text != "..";
        if !(is_dns_subdomain(text) || segment && text.contains(':')) {
            let finding = Finding::new("SE0113", at, format!("`{text}` is no object's name"));
            self.report(finding.help("lower case letters, digits, `-` and `.`, at most 253 characters"));
        } else if !shared && !self.place_per_source {
            let finding =
                Finding::new("SE0113", at, format!("every source of a namespace would write the one object `{text}`"));
            self.report(
                finding.help("write `shared: Namespace`, or make the name the source's: `{{ placement.name }}-…`"),
            );
        }
    }

    /// Fields that are left to others: always, and once the object exists.
    fn left_to_others(&mut self, spec: &ObjectSpec, is_secret: bool) -> (Vec<Pointer>, Vec<Pointer>) {
        let Some(apply) = &spec.apply else { return Default::default() };
        let is_index = |segment: &str| segment == "-" || segment.parse::<usize>().is_ok();
        for pointer in apply.at_creation.iter().filter(|pointer| pointer.split('/').any(is_index)) {
            let message = format!("`{}` leads to an item of a list, which others may move", pointer.value);
            let help = "name the item, `[name=…]`, or leave the whole list to others";
            self.report(Finding::new("SE0118", pointer.span(), message).help(help));
        }
        let mut pointers =
            |all: &[Spanned<String>]| all.iter().filter_map(|one| self.pointer(one, is_secret)).collect();
        (pointers(&apply.ignore), pointers(&apply.at_creation))
    }

    /// A pointer; into a Secret, as servers store it.
    fn pointer(&mut self, written: &Spanned<String>, is_secret: bool) -> Option<Pointer> {
        let stored = written.strip_prefix("/stringData").filter(|_| is_secret).map(|rest| format!("/data{rest}"));
        let pointer = Pointer::parse(stored.as_deref().unwrap_or(written));
        let refused = match &pointer {
            None => Some(("is no JSON pointer", format!("`{}`, for example", pointer_of(written)))),
            Some(_) if NEVER_IGNORED.contains(&written.as_str()) => {
                Some(("cannot be left to others: it says which object this is", String::new()))
            }
            Some(pointer) if !matches!(pointer.steps.last(), Some(Step::Field(_))) => Some((
                "leads to whole items of a list",
                "name a field of theirs, or leave the whole list to others".into(),
            )),
            Some(_) => return pointer,
        };
        if let Some((why, help)) = refused {
            let finding = Finding::new("SE0118", written.span(), format!("`{}` {why}", written.value));
            self.report(if help.is_empty() { finding } else { finding.help(help) });
        }
        None
    }

    /// Keys with random text, which nothing else may write.
    fn generated(&mut self, spec: &Spanned<ObjectSpec>, kind: &Kind) -> BTreeMap<String, u16> {
        if let Some((field, _)) = spec.node.entry("generate").filter(|_| !kind.is_secret()) {
            let finding = Finding::new("SE0114", field.span.clone(), "random text is kept in Secrets alone");
            self.report(finding.help("make a Secret of it, and let other objects name that"));
        }
        let written = ["data", "stringData"].map(|field| spec.template.0.get(field));
        let mut generate = BTreeMap::new();
        for (key, value) in &spec.generate.0 {
            let mut refused = None;
            if !names::is_data_key(key) {
                refused = Some((format!("`{}` is no key of a Secret", key.value), "letters, digits, `-`, `_` and `.`"));
            } else if written.iter().flatten().any(|data| data.get(&key.value).is_some()) {
                refused = Some((format!("the template writes `{}` as well", key.value), "take it out of the template"));
            }
            if let Some((message, help)) = refused {
                self.report(Finding::new("SE0114", key.span(), message).help(help));
            }
            let length = value.length.as_ref().map_or(24, |length| length.value);
            if let Some(given) = value.length.as_ref().filter(|_| !(16..=128).contains(&length)) {
                let message = format!("random text has 16 to 128 characters, not {length}");
                self.report(Finding::new("SE0102", given.span(), message));
            }
            generate.insert(key.value.clone(), length);
        }
        generate
    }
}

/// `spec.replicas` → `/spec/replicas`
fn pointer_of(text: &str) -> String {
    let path = text.trim_start_matches(['$', '.', '/']).replace('~', "~0");
    format!("/{}", if path.contains('/') { path } else { path.replace('.', "/") })
}
