//! Two directories of mappings over given sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::DiffArguments;
use super::change::{self, Change, What};
use crate::catalog::{Catalog, have_same_effect};
use crate::cli::arguments::DEFAULT_ENGINE;
use crate::cli::inputs;
use crate::cli::{Misconfigured, Usage, sources};
use crate::engine::departure;
use crate::mapping::Mapping;
use crate::mapping::schema::Schemas;
use crate::object::marks::Writer;
use crate::object::{ClusterName, Key, has_finalizer, metadata};
use crate::plan::offline::{Steps, World};
use crate::plan::preview::Scene;
use crate::plan::{Phase, Reason, TargetObject};
use crate::release::{Effect, Followed, Now, Rehearsal};

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
    if given.is_empty() {
        let files = inputs::listed(&arguments.filename);
        return Err(Misconfigured(format!("there is no source object in {files}")).into());
    }
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
    let (mut is_any_in_scope, mut compared) = (false, false);
    for source in given.into_iter().filter(|source| arguments.scope.includes(source)) {
        is_any_in_scope = true;
        let names = bench.takers(&source);
        compared |= !names.is_empty();
        let mut before = BTreeMap::new();
        for name in &names {
            before.insert(name.clone(), bench.before(name, &source)?);
        }
        for name in names {
            let (of_source, effects) = bench.compare(&name, &source, &before)?;
            changes.extend(of_source);
            let release = releases.entry(name.clone()).or_default();
            for (target, effect) in effects {
                release.add(&target, key(&source)?, effect);
            }
            release.objects += before[&name].world.objects().count();
        }
    }
    let modes = releases.keys().filter_map(|name| change::of_mode(&new.mapping(name)?.mapping));
    let told = modes.chain(releases.iter().filter_map(|(name, release)| bench.told(name, release))).collect();
    match compared {
        true => Ok((changes, told)),
        false => Err(bench.takes_none(is_any_in_scope).into()),
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

/// What the document before made of a source.
#[derive(Default)]
struct Before {
    world: World,
    /// Why it is not in sync.
    rest: Vec<Change>,
    /// What it keeps, and why.
    kept: Vec<(TargetObject, Reason)>,
}

/// What becomes of a source on each target.
type Effects = Vec<(String, Effect)>;

impl Bench<'_> {
    /// Names of the mappings that take a source, before or after.
    fn takers(&self, source: &Value) -> BTreeSet<String> {
        let both = [self.old, self.new].into_iter();
        both.flat_map(|catalog| sources::takers(catalog, self.schemas, source))
            .map(|mapping| mapping.name.clone())
            .collect()
    }

    /// Why nothing is compared.
    fn takes_none(&self, is_any_in_scope: bool) -> Misconfigured {
        let of = |catalog: &Catalog| -> Vec<String> {
            catalog.mappings().map(|(_, entry)| entry.mapping.source.resource.to_string()).collect()
        };
        let served: BTreeSet<String> = [self.old, self.new].into_iter().flat_map(of).collect();
        Misconfigured(match is_any_in_scope {
            true => format!(
                "no mapping takes any of the source objects; the mappings take {}",
                served.into_iter().collect::<Vec<_>>().join(", ")
            ),
            false => "no source object is in the namespace, or has the labels, that --namespace and --selector ask for"
                .to_owned(),
        })
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

    fn before(&self, name: &str, source: &Value) -> Result<Before, Misconfigured> {
        let (old, new) = (self.old.mapping(name), self.new.mapping(name));
        let Some(document) = old.or(new).map(|entry| &*entry.mapping) else { return Ok(Before::default()) };
        let Some(scene) = self.scene(document, source)? else { return Ok(Before::default()) };
        let mut world = World::of(document, &scene);
        let followed = old.map(|old| world.follow(&old.mapping, &scene, Phase::Active, &[])).unwrap_or_default();
        let kept = followed.values().flat_map(|steps| steps.kept.clone()).collect();
        Ok(Before { world, rest: rest((name, &sources::title(source)), &followed), kept })
    }

    /// What changes for a source, and what a release makes of it. `before`: what the documents before make of it, by mapping.
    fn compare(
        &self,
        name: &str,
        source: &Value,
        before: &BTreeMap<String, Before>,
    ) -> Result<(Vec<Change>, Effects), Misconfigured> {
        let title = sources::title(source);
        let told = |what, object: &str, body: Value, why: String| Change {
            why: Some(why),
            ..Change::new(what, (name, &title, object), (body.clone(), body))
        };
        let not_told = |why: String| vec![(String::new(), Effect { not_told: Some(why), ..Effect::default() })];
        let old = &before[name];
        let Some((mapping, phase)) = self.then(name) else { return Ok((Vec::new(), Vec::new())) };
        let former = self.old.mapping(name).map_or(mapping, |entry| &*entry.mapping);
        let [from, to] = [former, mapping].map(|one| &one.source.resource);
        if from.group_plural() != to.group_plural() {
            let instead = format!("it would serve {} instead of {}", to.group_plural(), from.group_plural());
            let why = format!("the document is refused while the mapping has sources: {instead}");
            return Ok((vec![told(What::Blocked, &title, Value::Null, why.clone())], not_told(why)));
        }
        let Some(scene) = self.scene(mapping, source)? else { return Ok((Vec::new(), Vec::new())) };
        let is_kept = |other: &str| self.then(other).is_some_and(|(_, phase)| phase == Phase::DeletionsOnly);
        let others = before.iter().filter(|(other, _)| *other != name && is_kept(other));
        let others: Vec<&World> = others.map(|(_, one)| &one.world).collect();
        let mut world = old.world.clone();
        let followed = world.follow(mapping, &scene, phase, &others);
        let mut changes = Vec::new();
        for (target, steps) in &followed {
            let is_one_of_several = mapping.target_rule.is_some() && !target.is_empty();
            let on = if is_one_of_several { format!(" on {target}") } else { String::new() };
            changes.extend(change::of_writes((name, &title), &on, &steps.writes));
            let was_kept = |(one, why): &&(TargetObject, Reason)| {
                old.kept.iter().any(|(former, as_why)| former.reference == one.reference && as_why == why)
            };
            changes.extend(steps.kept.iter().filter(|kept| !was_kept(kept)).map(|(one, why)| {
                let object = format!("{}{on}", one.reference);
                told(What::Keep, &object, change::of_people(&one.object), why.to_string())
            }));
        }
        let is_removed = self.new.mapping(name).is_none();
        let removed = old.world.objects().filter(|_| is_removed && phase == Phase::DeletionsOnly);
        changes.extend(removed.map(|one| {
            let why = "the mapping is removed (onMappingRemoved: Retain)".to_owned();
            told(What::Keep, &one.reference.to_string(), change::of_people(&one.object), why)
        }));
        changes.extend(change::of_status((name, &title), &old.world.source, &world.source));
        let rest = rest((name, &title), &followed);
        changes.extend(rest.into_iter().filter(|one| !old.rest.contains(one)));
        if from != to {
            return Ok((changes, not_told("the candidate reads another version of it".to_owned())));
        }
        let is_served = has_finalizer(&old.world.source, Writer::new(self.engine, name).finalizer());
        let now = match (is_served, old.rest.is_empty()) {
            (false, _) => Now::NotServed,
            (true, true) => Now::InSync,
            (true, false) => Now::Troubled,
        };
        let effect = |steps: &Steps| Effect::of(now, &Followed::new(&steps.writes, steps.rest.clone()), &[]);
        let effects = followed.iter().map(|(target, steps)| (target.clone(), effect(steps)));
        Ok((changes, effects.collect()))
    }

    /// What a mapping follows then. One that is removed departs, or keeps what it made.
    fn then(&self, name: &str) -> Option<(&Mapping, Phase)> {
        let removed = |mapping| departure(mapping).map_or(Phase::DeletionsOnly, Phase::Leaving);
        match self.new.mapping(name) {
            Some(new) => Some((&*new.mapping, Phase::of(new.mapping.mode))),
            None => self.old.mapping(name).map(|old| (&*old.mapping, removed(&*old.mapping))),
        }
    }

    /// What a mapping is rendered from. `None`: it does not take the source.
    fn scene(&self, mapping: &Mapping, source: &Value) -> Result<Option<Scene>, Misconfigured> {
        let resource = &mapping.source.resource;
        let mut source = source.clone();
        // Its versions differ in nothing else.
        let group = source["apiVersion"].as_str().map(|version| version.split_once('/').map_or("", |(group, _)| group));
        if group == Some(&*resource.group) {
            source["apiVersion"] = json!(resource.api_version());
        }
        if !sources::takes(mapping, self.schemas, &source) {
            return Ok(None);
        }
        let scene = sources::scene(source, mapping, self.schemas)?;
        let (standing, related) = (self.standing.clone(), self.related.clone());
        Ok(Some(Scene { engine: self.engine.to_owned(), standing, related, ..scene }))
    }
}

/// Why a source is not in sync, whatever was written on the way.
fn rest(of: (&str, &str), followed: &BTreeMap<String, Steps>) -> Vec<Change> {
    followed.values().flat_map(|steps| change::of_rest(of, &[], steps.rest.as_ref())).collect()
}

fn key(source: &Value) -> Result<Key, Misconfigured> {
    let cluster = source["metadata"]["annotations"]["kcp.io/cluster"].as_str().unwrap_or("file");
    let cluster = ClusterName::try_from(cluster).map_err(|error| Misconfigured(error.to_string()))?;
    Ok(Key::new(cluster, metadata(source, "namespace"), metadata(source, "name")))
}
