//! Two directories of mappings over given sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::DiffArguments;
use super::change::{Change, What};
use crate::catalog::{Catalog, have_same_effect};
use crate::cli::arguments::DEFAULT_ENGINE;
use crate::cli::inputs;
use crate::cli::render::{Document, documents, said};
use crate::cli::{Misconfigured, Usage, sources};
use crate::mapping::schema::Schemas;
use crate::mapping::{IdentityChange, Mapping, MappingRemoved, OnExit, TargetChange, TargetChoice};
use crate::object::{ClusterName, Key, metadata};
use crate::plan::preview::{MadeOnTarget, Scene, Unseen, preview};
use crate::plan::{Cause, Reason};
use crate::release::{Effect, Loss, Rehearsal};

/// Files name no targets.
const TARGET: &str = "target";

/// What changes, and what the release of each mapping would come to.
pub(super) fn changes(arguments: &DiffArguments, old: &Path, new: &Path) -> anyhow::Result<(Vec<Change>, Vec<String>)> {
    if arguments.filename.is_empty() {
        return Err(Usage("give the source objects to compare with: -f FILE or DIR".to_owned()).into());
    }
    let new_folder = new.to_owned();
    let [old, new] = [old, new].map(|path| inputs::sound(&[path.to_owned()]));
    let (old, new) = (old?, new?);
    let (schemas, _) = inputs::schemas(arguments.schemas.as_deref(), &[new_folder])?;
    let mut related: Vec<_> = sources::all(&arguments.related)?.into_iter().map(Arc::new).collect();
    let given = given(&arguments.filename)?;
    let (_, beside) = sources::apart(&new, &schemas, given.clone());
    related.extend(beside);
    let bench = Bench {
        old: &old,
        new: &new,
        schemas: &schemas,
        standing: sources::all(&arguments.observed)?,
        related,
        engine: arguments.which.engine_id.as_deref().unwrap_or(DEFAULT_ENGINE),
    };
    let mut changes = Vec::new();
    let mut releases: BTreeMap<String, Rehearsal> = BTreeMap::new();
    let mut compared = false;
    for source in given.into_iter().filter(|source| arguments.scope.includes(source)) {
        let names = bench.takers(&source);
        compared |= !names.is_empty();
        let mut before = BTreeMap::new();
        for name in &names {
            before.insert(name.clone(), bench.made(bench.old, name, &source, Past::default())?);
        }
        for name in names {
            let (of_source, effect, objects) = bench.compare(&name, &source, &before)?;
            changes.extend(of_source);
            let release = releases.entry(name).or_default();
            release.add(TARGET, key(&source)?, effect);
            release.objects += objects;
        }
    }
    let told = releases.iter().filter_map(|(name, release)| bench.told(name, release)).collect();
    match compared {
        true => Ok((changes, told)),
        false => Err(Misconfigured("no mapping takes any of the source objects".to_owned()).into()),
    }
}

/// The objects of files and directories. Documents that are no objects of consumers' are passed over in directories.
fn given(paths: &[PathBuf]) -> Result<Vec<Value>, Misconfigured> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.extend(sources::objects(path)?);
            continue;
        }
        let files = inputs::read(std::slice::from_ref(path))?.readable;
        for file in files.keys().filter(|file| !inputs::is_expected(file)) {
            all.extend(sources::objects(Path::new(file)).unwrap_or_default());
        }
    }
    Ok(all)
}

struct Bench<'a> {
    old: &'a Catalog,
    new: &'a Catalog,
    schemas: &'a Schemas,
    standing: Vec<Value>,
    related: Vec<Arc<Value>>,
    engine: &'a str,
}

/// What the documents before made of a source.
#[derive(Default)]
struct Past {
    /// By the mapping itself.
    before: Vec<MadeOnTarget>,
    /// By mappings that are removed, and keep it.
    foreign: Vec<MadeOnTarget>,
}

/// What a mapping makes of a source: objects by their titles, the status, or why there is nothing.
#[derive(Default)]
struct Made {
    objects: BTreeMap<String, Document>,
    on_targets: Vec<MadeOnTarget>,
    status: Value,
    why: Vec<String>,
    /// What becomes of objects that are not rendered any more, and why it is not their deletion.
    rest: Option<(What, String)>,
    /// Rules of which something cannot be rendered: their objects are kept.
    failing: BTreeMap<String, String>,
    /// Objects that have another kind or name now, and what becomes of the former ones.
    replaced: BTreeMap<String, (What, String)>,
}

impl Made {
    /// What becomes of an object that an earlier mapping made from a rule.
    fn without(&self, object: &str, rule: Option<&String>) -> (What, Option<String>) {
        let replaced = self.replaced.get(object).cloned();
        let kept = || rule.and_then(|rule| self.failing.get(rule)).map(|why| (What::Keep, why.clone()));
        match replaced.or_else(kept).or_else(|| self.rest.clone()) {
            Some((what, why)) => (what, Some(why)),
            None => (What::Delete, None),
        }
    }

    /// The targets that it has objects on, as far as files tell them.
    fn targets(&self) -> BTreeSet<&str> {
        self.on_targets.iter().filter_map(|one| one.target.as_deref()).collect()
    }
}

impl Bench<'_> {
    /// Names of the mappings that take a source, before or after.
    fn takers(&self, source: &Value) -> BTreeSet<String> {
        let both = [self.old, self.new].into_iter();
        both.flat_map(|catalog| sources::takers(catalog, self.schemas, source))
            .map(|mapping| mapping.name.clone())
            .collect()
    }

    /// What the release of a mapping would come to, in the words of the engine. `None`: nothing takes its place.
    fn told(&self, name: &str, release: &Rehearsal) -> Option<String> {
        let (old, new) = (self.old.mapping(name), self.new.mapping(name));
        let new = new?;
        if old.is_some_and(|old| have_same_effect(&old.mapping, &new.mapping)) {
            return None;
        }
        let held = old.and_then(|old| release.excess(&old.mapping.release));
        let held = held.map(|why| format!("\nmapping {name}: an engine would hold this: {why}")).unwrap_or_default();
        Some(format!("mapping {name}: {release}{held}"))
    }

    /// What changes for a source, what a release makes of it, and how many objects it has. `before`: what the documents before
    /// make of it, by mapping.
    fn compare(
        &self,
        name: &str,
        source: &Value,
        before: &BTreeMap<String, Made>,
    ) -> Result<(Vec<Change>, Effect, usize), Misconfigured> {
        let title = sources::title(source);
        let change = |what, object: &str, old, new| Change::new(what, (name, &title, object), (old, new));
        let old = &before[name];
        if let Some(why) = self.refused(name) {
            let blocked = change(What::Blocked, &title, Value::Null, Value::Null);
            let effect = Effect { not_told: Some(why.clone()), ..Effect::default() };
            return Ok((vec![Change { why: Some(why), ..blocked }], effect, old.objects.len()));
        }
        let foreign = before.iter().filter(|(other, _)| *other != name && self.is_retained(other));
        let foreign = foreign.flat_map(|(_, made)| made.on_targets.clone()).collect();
        let new = self.made(self.new, name, source, Past { before: old.on_targets.clone(), foreign })?;
        let mut new = match self.target_changed(name, old, &new) {
            Some(why) => Made { rest: Some((What::Keep, why.clone())), why: vec![why], ..Made::default() },
            None => new,
        };
        if matches!(new.rest, Some((What::Keep, _))) {
            new.status.clone_from(&old.status);
        }
        let mut changes = Vec::new();
        let objects: BTreeSet<&String> = old.objects.keys().chain(new.objects.keys()).collect();
        for object in objects {
            let (before, after) = (old.objects.get(object), new.objects.get(object));
            let rule = before.and_then(|before| before.rule.as_ref());
            let [before, after] = [before, after].map(|one| one.map(|one| &one.body));
            let (what, why) = match (before, after) {
                (before, after) if before == after => continue,
                (None, _) => (What::Create, None),
                (_, None) => new.without(object, rule),
                _ => (What::Update, None),
            };
            let (before, after) = (before.cloned().unwrap_or_default(), after.cloned().unwrap_or_default());
            // What is kept does not differ.
            let after = if what == What::Keep { before.clone() } else { after };
            changes.push(Change { why, ..change(what, object, before, after) });
        }
        if old.status != new.status {
            changes.push(change(What::Status, &title, old.status.clone(), new.status.clone()));
        }
        let effect = match self.is_in_another_version(name) {
            true => {
                let why = "the candidate reads another version of it".to_owned();
                Effect { not_told: Some(why), ..Effect::default() }
            }
            false => effect(old, &new, &changes),
        };
        if old.why != new.why {
            changes.push(change(What::Rendering, &title, json!(old.why), json!(new.why)));
        }
        Ok((changes, effect, old.objects.len()))
    }

    /// Both documents of a mapping.
    fn both(&self, name: &str) -> Option<[&Mapping; 2]> {
        let (old, new) = (self.old.mapping(name)?, self.new.mapping(name)?);
        Some([&*old.mapping, &*new.mapping])
    }

    /// Why the new document of a mapping does not take the place of the old one while that serves sources.
    fn refused(&self, name: &str) -> Option<String> {
        let [old, new] = self.both(name)?.map(|mapping| mapping.source.resource.group_plural());
        let why =
            || format!("the document is refused while the mapping has sources: it would serve {new} instead of {old}");
        (old != new).then(why)
    }

    fn is_in_another_version(&self, name: &str) -> bool {
        self.both(name).is_some_and(|[old, new]| old.source.resource != new.source.resource)
    }

    /// Whether a mapping is removed, and what it made stays its own.
    fn is_retained(&self, name: &str) -> bool {
        let policy = self.old.mapping(name).map(|old| old.mapping.lifecycle.on_mapping_removed);
        self.new.mapping(name).is_none() && policy == Some(MappingRemoved::Retain)
    }

    /// Why nothing is written: the objects are on another target than the new document gives.
    fn target_changed(&self, name: &str, old: &Made, new: &Made) -> Option<String> {
        let [_, mapping] = self.both(name)?;
        let stays = match mapping.target_rule.as_ref().map(|rule| &rule.choice) {
            None => true,
            Some(TargetChoice::One { on_change, .. }) => *on_change == TargetChange::Block,
            Some(TargetChoice::Each { .. } | TargetChoice::All) => false,
        };
        let (from, to) = (old.targets(), new.targets());
        if !stays || from.is_empty() || to.is_empty() || !from.is_disjoint(&to) {
            return None;
        }
        let [from, to] = [from, to].map(|names| Vec::from_iter(names).join("`, `"));
        let why = format!("its objects are on target `{from}`, and the mapping now gives `{to}`");
        Some(format!("{}: {why}", Cause::TargetChanged.as_str()))
    }

    fn made(&self, catalog: &Catalog, name: &str, source: &Value, past: Past) -> Result<Made, Misconfigured> {
        let Some(entry) = catalog.mapping(name) else {
            let earlier = self.old.mapping(name).map(|entry| entry.mapping.lifecycle.on_mapping_removed);
            let why = |policy: &str| format!("the mapping is removed (onMappingRemoved: {policy})");
            let rest = match earlier {
                Some(MappingRemoved::Retain) => Some((What::Keep, why("Retain"))),
                Some(MappingRemoved::Orphan) => Some((What::GiveUp, why("Orphan"))),
                Some(MappingRemoved::Delete) | None => None,
            };
            return Ok(Made { rest, ..Made::default() });
        };
        let mapping: &Mapping = &entry.mapping;
        let resource = &mapping.source.resource;
        let mut source = source.clone();
        // Its versions differ in nothing else.
        if source["apiVersion"].as_str().is_some_and(|version| group(version) == resource.group) {
            source["apiVersion"] = json!(resource.api_version());
        }
        if !sources::takes(mapping, self.schemas, &source) {
            return Ok(Made::default());
        }
        let scene = Scene {
            engine: self.engine.to_owned(),
            standing: self.standing.clone(),
            related: self.related.clone(),
            before: past.before,
            foreign: past.foreign,
            ..sources::scene(source, mapping, self.schemas)?
        };
        let preview = match preview(mapping, &scene) {
            Ok(preview) => preview,
            Err(Unseen::Out) => {
                let why = |policy: &str| format!("the filter leaves the source alone (onExit: {policy})");
                let rest = match mapping.source.on_exit {
                    OnExit::Retain => Some((What::Keep, why("Retain"))),
                    OnExit::Orphan => Some((What::GiveUp, why("Orphan"))),
                    OnExit::Delete => None,
                };
                return Ok(Made { why: vec!["the filter leaves it alone".to_owned()], rest, ..Made::default() });
            }
            Err(Unseen::Unrendered(reason)) => {
                let why = said(&reason);
                return Ok(Made { rest: Some((What::Keep, why.clone())), why: vec![why], ..Made::default() });
            }
        };
        let documents = documents(&preview, &scene, false, false);
        // A reason names its object, after its target where there are several. Of what is rendered, everything else is told.
        let failing = mapping.objects.iter().filter_map(|rule| {
            let prefix = format!("object `{}", rule.id);
            let of_rule = |reason: &&Reason| {
                let of_target = reason.detail.strip_prefix("target `").and_then(|rest| rest.split_once("`: "));
                let rest = of_target.map_or(&*reason.detail, |(_, rest)| rest).strip_prefix(&prefix);
                rest.is_some_and(|rest| rest.starts_with(['`', '[']))
            };
            preview.reasons.0.iter().find(of_rule).map(|reason| (rule.id.clone(), said(reason)))
        });
        // Where one document has several targets, the objects of both are told apart by them.
        let has_several = self.both(name).is_some_and(|both| both.iter().any(|one| one.target_rule.is_some()));
        let only = Some(mapping.target.as_str()).filter(|_| has_several && mapping.target_rule.is_none());
        let on = |target: Option<&str>, title: String| match target.or(only) {
            Some(target) => format!("{title} on {target}"),
            None => title,
        };
        let title = |one: &Document| on(one.target.as_deref(), sources::title(&one.body));
        let replaced = preview.replaced().map(|(at, former, policy)| {
            let metadata = json!({"namespace": former.namespace, "name": former.name});
            let title = sources::title(&json!({"kind": former.kind.kind, "metadata": metadata}));
            let what = if policy == IdentityChange::Orphan { What::GiveUp } else { What::Delete };
            (on(at.name(), title), (what, format!("onIdentityChange: {policy:?}")))
        });
        Ok(Made {
            replaced: replaced.collect(),
            on_targets: preview.made(),
            objects: documents.into_iter().map(|one| (title(&one), one)).collect(),
            rest: None,
            failing: failing.collect(),
            status: preview.status.clone().unwrap_or_default(),
            why: preview.reasons.0.iter().map(said).collect(),
        })
    }
}

/// What the release of a mapping makes of a source that is in sync before.
fn effect(old: &Made, new: &Made, changes: &[Change]) -> Effect {
    let count = |is_such: fn(What) -> bool| changes.iter().filter(|change| is_such(change.what)).count();
    let lost = changes.iter().filter_map(|change| match change.what {
        What::Delete => Some(Loss::Deleted(change.object.clone())),
        What::GiveUp => Some(Loss::GivenUp(change.object.clone())),
        _ => None,
    });
    let created = count(|what| what == What::Create);
    let trouble = new.why.first().filter(|_| old.why.is_empty() && !old.objects.is_empty()).cloned();
    // What it waits for may be made by the release itself.
    let is_told = |why: &String| created == 0 || !why.starts_with(Cause::Waiting.as_str());
    Effect {
        created,
        is_updated: count(|what| matches!(what, What::Update | What::Status)) > 0,
        is_taken_in: old.objects.is_empty() && created > 0,
        lost: lost.collect(),
        failing: trouble.clone().filter(is_told),
        not_told: trouble.filter(|why| !is_told(why)),
        ..Effect::default()
    }
}

/// The group of `group/version`; empty of the core group.
fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn key(source: &Value) -> Result<Key, Misconfigured> {
    let cluster = source["metadata"]["annotations"]["kcp.io/cluster"].as_str().unwrap_or("file");
    let cluster = ClusterName::try_from(cluster).map_err(|error| Misconfigured(error.to_string()))?;
    Ok(Key::new(cluster, metadata(source, "namespace"), metadata(source, "name")))
}
