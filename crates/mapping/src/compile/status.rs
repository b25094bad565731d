//! `spec.status`: which leaves flow back, from where.

use std::collections::BTreeSet;

use super::dependencies::{positions, read};
use super::{Compiler, names};
use crate::diagnostic::Finding;
use crate::document::{
    ConditionSpec, MirrorSpec, MirroredConditionSpec, ObjectSpec, ObservedGeneration, Redact, StatusFieldObject,
    StatusFieldSpec, StatusSpec, WrittenConditionSpec,
};
use crate::expression::Root;
use crate::jsonpath::JsonPath;
use crate::names::pointer;
use crate::template::Template;
use crate::yaml::{Node, NodeValue, Raw, Spanned, meant};
use crate::{ConditionRule, EngineCondition, MirrorRule, StatusField, StatusRules, StatusValue, Take};

type Objects = [Spanned<ObjectSpec>];

impl Compiler {
    pub(super) fn status(&mut self, spec: Option<&StatusSpec>, objects: &Objects) -> Option<StatusRules> {
        let default = StatusSpec::default();
        let spec = spec.unwrap_or(&default);
        if let Some(from) = &spec.from {
            self.check_object(from);
        }
        let observed_generation =
            spec.observed_generation.as_ref().is_none_or(|given| given.value == ObservedGeneration::Auto);
        let redact = spec.redact.unwrap_or_default() == Redact::Consumer;
        let from = default_object(spec, objects);
        let fields: Vec<_> =
            spec.fields.0.iter().map(|(key, field)| self.field(key, field, from.as_deref(), spec.redact)).collect();
        self.check_places(spec, observed_generation);
        let engine_conditions = engine_conditions(spec);
        let conditions = self.conditions(spec, from.as_deref(), &engine_conditions);
        let fields = fields.into_iter().collect::<Option<_>>();
        let (conditions, mirrors) = conditions?;
        let mut rules = StatusRules { fields: fields?, conditions, mirrors, engine_conditions, ..Default::default() };
        (rules.observed_generation, rules.redact) = (observed_generation, redact);
        rules.depends_on_related = positions(&self.related, &self.all_references(&read(rules.leaves())).related);
        Some(rules)
    }

    fn check_object(&mut self, id: &Spanned<String>) {
        if self.several.contains(&id.value) {
            let finding = Finding::new("SE0308", id.span(), format!("`{}` is several objects", id.value));
            return self.report(finding.help(format!(
                "read one of them by its key, or all: `value: ${{{{ objects.{}[…].status.phase }}}}`",
                id.value
            )));
        }
        if self.objects.contains(&id.value) {
            return;
        }
        let known: Vec<&str> = self.objects.iter().map(String::as_str).collect();
        let finding = Finding::new("SE0310", id.span(), format!("the mapping has no object `{}`", id.value));
        let help = meant(id, &known).unwrap_or_else(|| format!("it has {}", known.join(", ")));
        self.report(finding.help(help));
    }

    fn field(
        &mut self,
        key: &Spanned<String>,
        spec: &StatusFieldSpec,
        from: Option<&str>,
        redact: Option<Redact>,
    ) -> Option<StatusField> {
        let target = self.status_path(key);
        let short;
        let full = match spec {
            StatusFieldSpec::Full(full) => full,
            StatusFieldSpec::Path(path) => {
                short = StatusFieldObject { path: Some(path.clone()), ..StatusFieldObject::default() };
                &short
            }
        };
        let value = self.value(key, full, from);
        let transform = self.optional(full.transform.as_ref(), self.status_roots.and(Root::Value), Template::compile);
        let default = self.default_value(full);
        let on_missing = full.on_missing.as_ref().map_or_else(Default::default, |given| given.value);
        let (target, from) = (target?, value?);
        let pointer = pointer(&target);
        let redact = full.redact.or(redact).unwrap_or_default() == Redact::Consumer;
        Some(StatusField { target, pointer, from, transform, default, on_missing, redact })
    }

    /// Where the value comes from: exactly one of `path` and `value`.
    fn value(&mut self, key: &Spanned<String>, spec: &StatusFieldObject, from: Option<&str>) -> Option<StatusValue> {
        match (&spec.path, &spec.value) {
            (Some(path), None) if self.status_roots.contains(Root::Targets) => {
                let finding =
                    Finding::new("SE0114", path.0.headline(), "there are several targets, so a path has no one object");
                let help =
                    "read it from one of them: `value: ${{ targets.east.objects.db.status.phase | default('') }}`";
                self.refused(finding.help(help))
            }
            (Some(path), None) => self.path(path, spec, from),
            (None, Some(value)) => {
                let only_with_path = spec
                    .from
                    .as_ref()
                    .map(|from| (from.span(), "from"))
                    .or(spec.take.as_ref().map(|take| (take.span(), "take")));
                if let Some((at, field)) = only_with_path {
                    let finding =
                        Finding::new("SE0114", at, format!("`{field}` goes with `path`, and `value` stands here"));
                    self.report(
                        finding.help("an expression names its object itself: `${{ objects.db.status.phase }}`"),
                    );
                }
                if value.0.as_str().is_some_and(|text| text.starts_with("$.")) {
                    let finding = Finding::new("SE0114", value.0.headline(), "a value is a template, not a JSONPath");
                    self.report(finding.help("write `path: …` in place of `value: …`"));
                }
                self.leaf(value, self.status_roots, Template::compile).map(Box::new).map(StatusValue::Value)
            }
            (None, None) => {
                let message = format!("`{}` has neither `path` nor `value`", key.value);
                self.refused(Finding::new("SE0104", key.span(), message).help("for example `path: $.status.phase`"))
            }
            (Some(_), Some(value)) => {
                let message = format!("`{}` has both `path` and `value`", key.value);
                self.refused(
                    Finding::new("SE0104", value.0.headline(), message).help("a `path` can be refined by `transform`"),
                )
            }
        }
    }

    fn path(&mut self, path: &Raw, spec: &StatusFieldObject, from: Option<&str>) -> Option<StatusValue> {
        if let Some(from) = &spec.from {
            self.check_object(from);
        }
        let object = spec.from.as_ref().map(|from| from.value.as_str()).or(from);
        // What is to be an expression names its object itself.
        let is_path = path.0.as_str().is_some_and(|text| !names::is_template(text));
        if object.is_none() && is_path {
            let finding = Finding::new("SE0310", path.0.headline(), "it is not clear which object this path reads");
            self.report(finding.help("name it for all paths with `status.from`, or for this one with `from`"));
        }
        let parsed = self.json_path(&path.0);
        let take = spec.take.as_ref().map_or(Take::One, |take| take.value);
        Some(StatusValue::Path { object: object?.to_owned(), path: parsed?, take })
    }

    fn json_path(&mut self, node: &Node) -> Option<JsonPath> {
        let NodeValue::String(scalar) = &node.value else {
            let message = format!("a path is a text such as `$.status.phase`; this is {}", node.describe());
            return self.refused(Finding::new("SE0102", node.headline(), message));
        };
        if names::is_template(&scalar.text) {
            let finding = Finding::new("SE0114", node.headline(), "a path is a JSONPath, not an expression");
            return self.refused(finding.help("write `{value: \"${{ … }}\"}` for an expression"));
        }
        match JsonPath::parse(&scalar.text) {
            Ok(path) => Some(path),
            Err(error) => {
                let message = format!("JSONPath: {}", error.message);
                self.refused(Finding::new("SE0210", scalar.locate(error.range), message))
            }
        }
    }

    fn default_value(&mut self, spec: &StatusFieldObject) -> Option<serde_json::Value> {
        let default = &spec.default.as_ref()?.0;
        if let Some(on_missing) = &spec.on_missing {
            let finding = Finding::new("SE0114", on_missing.span(), "`default` and `onMissing` exclude each other");
            self.report(finding.help("with a default the value is never missing: remove `onMissing`"));
        }
        if has_template(default) {
            let finding = Finding::new("SE0114", default.headline(), "a `default` is a literal, not an expression");
            self.report(finding.help("write `value: ${{ … | default(…) }}`"));
        }
        Some(default.to_json())
    }

    /// The key of a field: a path below `.status`.
    fn status_path(&mut self, key: &Spanned<String>) -> Option<Vec<String>> {
        let segments: Vec<String> = key.split('.').map(str::to_owned).collect();
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let said = if !segments.iter().all(|segment| !segment.is_empty() && segment.chars().all(fits)) {
            Some((
                "a key is a path such as `a.b.c`: letters, digits, `_` and `-` between dots",
                "lists are written as a whole",
            ))
        } else if segments[0] == "status" && segments.len() > 1 {
            Some(("the path starts below `.status`", "leave `status.` out"))
        } else if segments[0] == "conditions" {
            Some(("conditions are not fields", "write them under `status.conditions`"))
        } else {
            None
        };
        match said {
            Some((message, help)) => self.refused(Finding::new("SE0115", key.span(), message).help(help)),
            None => Some(segments),
        }
    }

    /// No two rules write one place, nor one below the other.
    fn check_places(&mut self, spec: &StatusSpec, observed_generation: bool) {
        let mut seen: Vec<&str> = Vec::new();
        for (key, _) in &spec.fields.0 {
            let key_text = key.value.as_str();
            if let Some(other) = seen.iter().find(|other| overlap(other, key_text)) {
                let finding = Finding::new("SE0117", key.span(), format!("`{key_text}` and `{other}` write one place"));
                self.report(finding.help("write either the whole or its parts"));
            }
            if observed_generation && overlap(key_text, "observedGeneration") {
                let finding = Finding::new("SE0117", key.span(), "the engine writes `observedGeneration` itself");
                self.report(finding.help("remove it, or set `observedGeneration: Off`"));
            }
            seen.push(key_text);
        }
    }

    fn conditions(
        &mut self,
        spec: &StatusSpec,
        from: Option<&str>,
        engine: &[EngineCondition],
    ) -> Option<(Vec<ConditionRule>, Vec<MirrorRule>)> {
        let mut types: BTreeSet<String> = engine.iter().map(|EngineCondition::Synced| "Synced".to_owned()).collect();
        let (mut rules, mut mirrors) = (Vec::new(), Vec::new());
        for condition in &spec.conditions {
            match condition {
                ConditionSpec::Mirrored(mirrored) => mirrors.push(self.mirror(mirrored, from, &mut types)),
                ConditionSpec::Written(written) => {
                    self.claim_condition(&written.kind, &written.kind.value, &mut types);
                    rules.push(self.condition(written));
                }
            }
        }
        Some((rules.into_iter().collect::<Option<_>>()?, mirrors.into_iter().collect::<Option<_>>()?))
    }

    /// One type of condition has one writer.
    fn claim_condition(&mut self, at: &Spanned<String>, kind: &str, types: &mut BTreeSet<String>) {
        // Kubernetes' rule: a qualified name, at most 316 characters.
        let name = kind.rsplit('/').next().unwrap_or_default();
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let edges = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let good = name.chars().all(fits) && edges(name.chars().next()) && edges(name.chars().next_back());
        if !good || kind.len() > 316 || kind.matches('/').count() > 1 {
            let finding = Finding::new("SE0110", at.span(), format!("`{kind}` is no condition type"));
            self.report(finding.help("one word in CamelCase, such as `Ready`"));
        }
        if !types.insert(kind.to_owned()) {
            let message = format!("two rules write the condition `{kind}`");
            let help = match kind {
                "Synced" => "the engine's own are in `engineConditions`",
                _ => "remove one of them; `as` gives mirrored conditions other names",
            };
            self.report(Finding::new("SE0117", at.span(), message).help(help));
        }
    }

    fn mirror(
        &mut self,
        spec: &Spanned<MirroredConditionSpec>,
        from: Option<&str>,
        types: &mut BTreeSet<String>,
    ) -> Option<MirrorRule> {
        let MirrorSpec { from: own, types: mirrored, prefix } = &spec.mirror;
        if self.status_roots.contains(Root::Targets) {
            let message = "there are several targets, so no one object has the condition";
            let finding = Finding::new("SE0114", spec.span(), message);
            self.report(finding.help("write the condition with `type` and `status`, from `targets`"));
        }
        own.iter().for_each(|own| self.check_object(own));
        let object = own.as_ref().map(|own| own.value.as_str()).or(from);
        if object.is_none() {
            let finding = Finding::new("SE0310", spec.span(), "it is not clear whose conditions are mirrored");
            self.report(finding.help("name the object with `from`, or with `status.from`"));
        }
        if mirrored.is_empty() {
            let finding = Finding::new("SE0103", spec.span(), "there is nothing to mirror");
            self.report(finding.help("name the conditions: `types: [Ready]`"));
        }
        let prefix = prefix.as_deref().unwrap_or_default();
        let mut rule = MirrorRule { object: object?.to_owned(), types: Vec::new() };
        for kind in mirrored {
            let written = format!("{prefix}{}", kind.value);
            self.claim_condition(kind, &written, types);
            rule.types.push((kind.value.clone(), written));
        }
        Some(rule)
    }

    fn condition(&mut self, spec: &WrittenConditionSpec) -> Option<ConditionRule> {
        let [reason, message] =
            [&spec.reason, &spec.message].map(|raw| self.optional(raw.as_ref(), self.status_roots, Template::compile));
        let status = self.leaf(&spec.status, self.status_roots, Template::compile);
        Some(ConditionRule { kind: spec.kind.value.clone(), status: status?, reason, message })
    }
}

/// The object that bare paths read: the one named, else the only one that is not shared.
fn default_object(spec: &StatusSpec, objects: &Objects) -> Option<String> {
    if let Some(from) = &spec.from {
        return Some(from.value.clone());
    }
    let mut own = objects.iter().filter(|object| object.shared.is_none() && object.for_each.is_none());
    match (own.next(), own.next()) {
        (Some(only), None) => Some(only.id.value.clone()),
        _ => None,
    }
}

fn engine_conditions(spec: &StatusSpec) -> Vec<EngineCondition> {
    match &spec.engine_conditions {
        None => vec![EngineCondition::Synced],
        Some(given) => given.iter().copied().take(1).collect(),
    }
}

/// Whether one path is the other, or lies below it.
pub fn overlap(one: &str, other: &str) -> bool {
    let mut pairs = one.split('.').zip(other.split('.'));
    pairs.all(|(one, other)| one == other)
}

fn has_template(node: &Node) -> bool {
    match &node.value {
        NodeValue::String(scalar) => names::is_template(&scalar.text),
        NodeValue::Sequence(items) => items.iter().any(|item| has_template(item)),
        NodeValue::Mapping(entries) => entries.iter().any(|(_, value)| has_template(value)),
        _ => false,
    }
}
