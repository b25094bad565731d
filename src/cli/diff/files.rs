//! Two directories of mappings over given sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::DiffArguments;
use super::change::{Change, What};
use crate::catalog::Catalog;
use crate::cli::arguments::DEFAULT_ENGINE;
use crate::cli::inputs::{self, Inputs};
use crate::cli::{Misconfigured, Usage, render, sources};
use crate::mapping::schema::Schemas;
use crate::mapping::{Mapping, MappingRemoved, OnExit};
use crate::plan::Reason;
use crate::plan::preview::{Scene, Unseen, preview};

/// Folders whose documents are what tests expect.
const EXPECTED: &str = "testdata";

pub(super) fn changes(arguments: &DiffArguments, old: &Path, new: &Path) -> anyhow::Result<Vec<Change>> {
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
    let mut compared = false;
    for source in given.into_iter().filter(|source| arguments.scope.includes(source)) {
        let names = bench.takers(&source);
        compared |= !names.is_empty();
        for name in names {
            changes.extend(bench.compare(&name, &source)?);
        }
    }
    match compared {
        true => Ok(changes),
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
        let files = Inputs::read(std::slice::from_ref(path))?.readable;
        let is_expected = |file: &str| Path::new(file).iter().any(|part| part == EXPECTED);
        for file in files.keys().filter(|file| !is_expected(file)) {
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

/// What a mapping makes of a source: objects by their titles, the status, or why there is nothing.
#[derive(Default, PartialEq)]
struct Made {
    objects: BTreeMap<String, Value>,
    /// The rules that the objects are rendered from, by the same titles.
    rules: BTreeMap<String, String>,
    status: Value,
    why: Vec<String>,
    /// What becomes of objects that are not rendered any more, and why it is not their deletion.
    rest: Option<(What, String)>,
    /// Rules of which something cannot be rendered: their objects are kept.
    failing: BTreeMap<String, String>,
}

impl Made {
    /// What becomes of an object that an earlier mapping made from a rule.
    fn without(&self, rule: Option<&String>) -> (What, Option<String>) {
        let kept = rule.and_then(|rule| self.failing.get(rule)).map(|why| (What::Keep, why.clone()));
        match kept.or_else(|| self.rest.clone()) {
            Some((what, why)) => (what, Some(why)),
            None => (What::Delete, None),
        }
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

    fn compare(&self, name: &str, source: &Value) -> Result<Vec<Change>, Misconfigured> {
        let [old, new] = [self.old, self.new].map(|catalog| self.made(catalog, name, source));
        let (old, new) = (old?, new?);
        let title = sources::title(source);
        let change = |what, object: &str, old, new| Change::new(what, (name, &title, object), (old, new));
        let mut changes = Vec::new();
        let objects: BTreeSet<&String> = old.objects.keys().chain(new.objects.keys()).collect();
        for object in objects {
            let (before, after) = (old.objects.get(object), new.objects.get(object));
            let (what, why) = match (before, after) {
                (before, after) if before == after => continue,
                (None, _) => (What::Create, None),
                (_, None) => new.without(old.rules.get(object)),
                _ => (What::Update, None),
            };
            let (before, after) = (before.cloned().unwrap_or_default(), after.cloned().unwrap_or_default());
            // What is kept does not differ.
            let after = if what == What::Keep { before.clone() } else { after };
            changes.push(Change { why, ..change(what, object, before, after) });
        }
        if old.status != new.status {
            changes.push(change(What::Status, &title, old.status, new.status));
        }
        if old.why != new.why {
            changes.push(change(What::Rendering, &title, json!(old.why), json!(new.why)));
        }
        Ok(changes)
    }

    fn made(&self, catalog: &Catalog, name: &str, source: &Value) -> Result<Made, Misconfigured> {
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
        let scene = Scene {
            engine: self.engine.to_owned(),
            standing: self.standing.clone(),
            related: self.related.clone(),
            ..sources::scene(source.clone(), mapping, self.schemas)?
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
        let documents = render::documents(&preview, &scene, false, false);
        // A reason names its object. Of what is rendered, everything else is told.
        let failing = mapping.objects.iter().filter_map(|rule| {
            let prefix = format!("object `{}", rule.id);
            let of_rule = |reason: &&Reason| {
                let rest = reason.detail.strip_prefix(&prefix);
                rest.is_some_and(|rest| rest.starts_with(['`', '[']))
            };
            preview.reasons.0.iter().find(of_rule).map(|reason| (rule.id.clone(), said(reason)))
        });
        let failing = failing.collect();
        let objects = documents.into_iter();
        let title = |one: &render::Document| match &one.target {
            Some(target) => format!("{} on {target}", sources::title(&one.body)),
            None => sources::title(&one.body),
        };
        let (mut bodies, mut rules) = (BTreeMap::new(), BTreeMap::new());
        for one in objects {
            rules.extend(one.rule.clone().map(|rule| (title(&one), rule)));
            bodies.insert(title(&one), one.body);
        }
        Ok(Made {
            objects: bodies,
            rules,
            rest: None,
            failing,
            status: preview.status.clone().unwrap_or_default(),
            why: preview.reasons.0.iter().map(said).collect(),
        })
    }
}

fn said(reason: &Reason) -> String {
    format!("{}: {}", reason.cause.as_str(), reason.detail)
}
