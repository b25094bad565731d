//! What a mapping serves is part of its identity. A document that would serve something else is refused while the one in force
//! serves sources: it needs a name of its own.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use tracing::{error, info};

use super::Engine;
use super::inventory::Inventory;
use super::pipeline::Pipeline;
use super::slots::Slot;
use crate::catalog::{Entry, Standing};
use crate::health::Condition;
use crate::mapping::compile::Compiled;
use crate::mapping::{Mapping, SourceClusters};
use crate::plan::Phase;

/// A document that goes on although its file holds another one.
#[derive(Debug)]
pub struct InForce {
    mapping: Arc<Mapping>,
    /// When the state store that holds it was written; `None`: this process ran it.
    recorded: Option<Timestamp>,
    stage: Stage,
    /// Why the document in the file waits.
    why: String,
    /// What the engine tells of it.
    refusal: String,
}

/// How far the document in force is from its end.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Serving,
    /// It was found to serve no source. It takes in none, and everything is looked at once more: a finalizer may be on its way.
    Closing,
    /// The state store, of an earlier version of the engine, names former sources with these resources.
    Former(BTreeSet<String>),
}

impl InForce {
    fn new(mapping: Arc<Mapping>, recorded: Option<Timestamp>, stage: Stage) -> Self {
        Self { mapping, recorded, stage, why: String::new(), refusal: String::new() }
    }
}

/// What the judgement of a document in force comes to.
enum Verdict {
    /// The document in the file takes its place.
    Over,
    Close,
    GoesOn(Why),
    Unchanged,
}

/// Why a document in a file waits.
struct Why {
    /// Whether a person has to do something.
    is_refused: bool,
    text: String,
}

impl Why {
    fn refused(text: String) -> Self {
        Self { is_refused: true, text }
    }

    /// Servers are still to tell.
    fn unknown(text: String) -> Self {
        Self { is_refused: false, text }
    }
}

impl Engine {
    /// What runs of each mapping: the document in force.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, Cow<'_, Entry>)> {
        self.catalog.mappings().map(|(name, entry)| (name, self.entry_in_force(name, entry)))
    }

    /// The same of one mapping.
    pub(super) fn entry(&self, name: &str) -> Option<Cow<'_, Entry>> {
        self.catalog.mapping(name).map(|entry| self.entry_in_force(name, entry))
    }

    fn entry_in_force<'a>(&self, name: &str, entry: &'a Entry) -> Cow<'a, Entry> {
        let Some(InForce { mapping, .. }) = self.in_force.get(name) else { return Cow::Borrowed(entry) };
        let standing = if entry.standing == Standing::Running { Standing::KeptOnError } else { entry.standing };
        Cow::Owned(Entry { mapping: mapping.clone(), standing, ..entry.clone() })
    }

    /// What a document in force may still do.
    pub(super) fn limit(&self, name: &str, phase: Phase) -> Phase {
        match (self.in_force.get(name).map(|one| &one.stage), phase) {
            (Some(Stage::Former(_)), _) | (Some(Stage::Closing), Phase::Active) => Phase::DeletionsOnly,
            _ => phase,
        }
    }

    /// The documents in files that wait for one in force, whose sources the engine has to look at too.
    pub(super) fn waiting_documents(&self) -> impl Iterator<Item = &Arc<Mapping>> {
        self.in_force.keys().filter_map(|name| Some(&self.catalog.mapping(name)?.mapping))
    }

    /// A document that names other sources than the one that runs does not take its place before it is judged.
    pub(super) fn hold_other_sources(&mut self) {
        let (catalog, health) = (&self.catalog, &self.shared.instruments.health);
        self.in_force.retain(|name, one| {
            let is_other = |entry: &Entry| names_other_sources(&one.mapping, &entry.mapping);
            let stays = matches!(one.stage, Stage::Former(_));
            let holds = catalog.mapping(name).is_some_and(|entry| stays || is_other(entry));
            if !holds {
                health.remove(&component(name));
            }
            holds
        });
        let is_decided = |name: &str| self.in_force.contains_key(name) || self.released.contains(name);
        let running = self.catalog.mappings().filter(|(name, _)| !is_decided(name));
        let other = running.filter_map(|(name, entry)| {
            // What the state store holds is told before a document takes anything in.
            let pipeline = self.pipelines_of(name).find(|pipeline| pipeline.has_served())?;
            let mapping = pipeline.generation().mapping.clone();
            names_other_sources(&mapping, &entry.mapping)
                .then(|| (name.to_owned(), InForce::new(mapping, None, Stage::Serving)))
        });
        let other: Vec<_> = other.collect();
        self.in_force.extend(other);
    }

    /// What a state store says of a mapping.
    pub(super) fn recorded(&mut self, slot: &Slot, store: Inventory) {
        let name = &slot.mapping;
        if !slot.target.is_empty() {
            self.follow_targets(name, &store.targets);
        }
        let (Some(pipeline), Some(entry)) =
            (self.pipelines.get(slot).map(|one| one.pipeline.clone()), self.entry(name))
        else {
            return;
        };
        let former: BTreeSet<String> = store.former.iter().map(|former| former.source.resource.clone()).collect();
        let was_former = self.in_force.get(name).is_some_and(|one| matches!(one.stage, Stage::Former(_)));
        if former.is_empty() && was_former {
            self.in_force.remove(name);
            self.shared.instruments.health.remove(&component(name));
            return self.converge();
        }
        let (document, stage) = match former.is_empty() {
            false => (compiled(&store.document), Stage::Former(former)),
            true => (other_document(&store, &entry.mapping), Stage::Serving),
        };
        let Some(document) = document.filter(|one| !pipeline.supersedes(one)) else { return };
        let is_in_force = |one: &Arc<Pipeline>| one.is_confirmed_with(&entry.mapping);
        let is_earlier = self.in_force.get(name).is_some_and(|one| one.recorded > store.recorded);
        if stage == Stage::Serving && (is_earlier || self.pipelines_of(name).any(is_in_force)) {
            // A target that the mapping had once, and has again.
            pipeline.supersede(&document);
            return pipeline.check_inventory();
        }
        if self.in_force.get(name).is_some_and(|one| one.stage == stage && one.mapping.text == document.text) {
            return;
        }
        self.in_force.insert(name.clone(), InForce::new(document, store.recorded, stage));
        self.converge();
    }

    /// Lets the documents in files take the place of those in force, as far as nothing is served by these any more.
    pub(super) fn judge_documents(&mut self) {
        if !self.shared.lease.is_held() {
            return;
        }
        let names: Vec<String> = self.in_force.keys().cloned().collect();
        let mut changes = false;
        for name in names {
            match self.verdict(&name) {
                Verdict::Over => {
                    info!(
                        mapping = name,
                        "the document serves what it did, or nothing is left: the file's takes its place"
                    );
                    self.in_force.remove(&name);
                    self.shared.instruments.health.remove(&component(&name));
                    self.released.insert(name);
                    changes = true;
                }
                Verdict::Close => changes |= self.set_stage(&name, Stage::Closing),
                Verdict::GoesOn(why) => {
                    changes |= self.set_stage(&name, Stage::Serving);
                    self.keep_waiting(&name, why);
                }
                Verdict::Unchanged => {}
            }
        }
        if changes {
            self.converge();
        }
        self.released.clear();
    }

    fn set_stage(&mut self, name: &str, stage: Stage) -> bool {
        let known = self.in_force.get_mut(name).filter(|one| !matches!(one.stage, Stage::Former(_)));
        known.is_some_and(|one| std::mem::replace(&mut one.stage, stage.clone()) != stage)
    }

    fn verdict(&self, name: &str) -> Verdict {
        let (Some(one), Some(entry)) = (self.in_force.get(name), self.catalog.mapping(name)) else {
            return Verdict::Unchanged;
        };
        if let Stage::Former(resources) = &one.stage {
            let resources = Vec::from_iter(resources.iter().map(String::as_str)).join(", ");
            return Verdict::GoesOn(Why::unknown(format!(
                "its state store names former sources of an earlier version of the engine ({resources}): deletions alone go \
                 on, until `sync-engine uninstall {name} --former` has released them",
            )));
        }
        if entry.standing == Standing::Retained {
            return Verdict::Unchanged;
        }
        let all: Vec<_> = self.pipelines_of(name).collect();
        if all.is_empty() {
            return Verdict::Unchanged;
        }
        let Some(why) = self.difference(&one.mapping, &entry.mapping, &all) else { return Verdict::Over };
        match all.iter().map(|pipeline| pipeline.serves_any()).collect::<Option<Vec<bool>>>() {
            Some(serves) if !serves.contains(&true) => match one.stage {
                Stage::Closing if all.iter().all(|pipeline| pipeline.is_closed()) => Verdict::Over,
                _ => Verdict::Close,
            },
            None if one.stage == Stage::Closing => Verdict::Unchanged,
            None if let Some(lost) = all.iter().find_map(|pipeline| pipeline.lost_cluster()) => {
                let text =
                    format!("{}, and `{lost}`, where the document in force served sources, is out of sight", why.text);
                Verdict::GoesOn(Why::refused(text))
            }
            None => Verdict::GoesOn(Why::unknown(format!(
                "{}, and not all that the document in force serves is in sight",
                why.text
            ))),
            Some(_) => Verdict::GoesOn(why),
        }
    }

    /// Why a document would serve something else than the one in force. `None`: it serves the same.
    fn difference(&self, in_force: &Mapping, other: &Mapping, all: &[&Arc<Pipeline>]) -> Option<Why> {
        let manager = &self.shared.manager;
        let (here, there) = (&in_force.source, &other.source);
        let (resource, other) = (here.resource.group_plural(), there.resource.group_plural());
        if resource != other {
            return Some(Why::refused(format!("it would serve {other} instead of {resource}")));
        }
        if here.clusters == there.clusters {
            return None;
        }
        let from = format!("the sources of {} instead of {}", named(&there.clusters), named(&here.clusters));
        if let (SourceClusters::ApiExport(_), SourceClusters::ApiExport(_)) = (&here.clusters, &there.clusters) {
            return match (manager.identity(&here.clusters), manager.identity(&there.clusters)) {
                (Some(here), Some(there)) if here == there => None,
                (Some(_), Some(_)) => {
                    Some(Why::refused(format!("it would serve {from}, which has another identity hash")))
                }
                _ => {
                    Some(Why::unknown(format!("whether it serves {from} is not known before both APIExports are read")))
                }
            };
        }
        let served: BTreeSet<_> =
            all.iter().flat_map(|one| one.sources_held("")).map(|key| key.cluster.clone()).collect();
        let is_lacking = |name: &_| {
            let cluster = manager.cluster(&here.clusters, name);
            cluster.is_none_or(|one| manager.cluster_of_identity(&there.clusters, one.identity()).is_none())
        };
        let lacking = served.iter().find(|name| is_lacking(*name));
        match lacking {
            Some(lacking) => {
                Some(Why::refused(format!("it would serve {from}, which does not have the cluster {lacking}")))
            }
            None if manager.is_synced(&there.clusters) && all.iter().all(|one| one.are_sources_listed()) => None,
            None => Some(Why::unknown(format!("whether it serves {from} is not known before all clusters are"))),
        }
    }

    fn keep_waiting(&mut self, name: &str, Why { is_refused, text: why }: Why) {
        if self.in_force.get_mut(name).is_none_or(|one| std::mem::replace(&mut one.why, why.clone()) == why) {
            return;
        }
        let Some(file) = self.catalog.mapping(name).map(|entry| entry.file.clone()) else { return };
        let file = file.unwrap_or_else(|| "its file".to_owned());
        let text = match is_refused {
            false => format!("the document in {file} waits: {why}"),
            true => format!(
                "the document in {file} is refused: {why}{}; the former document goes on. Put its text back into {file}, write \
                 the new one into a file of its own with another metadata.name, and remove {file} once its sources are gone",
                served(&self.pipelines_of(name).collect::<Vec<_>>())
            ),
        };
        let Some(one) = self.in_force.get_mut(name) else { return };
        one.refusal.clone_from(&text);
        self.shared.instruments.health.set(&component(name), Condition::degraded(text.clone()));
        if is_refused {
            error!(mapping = name, why = text, "the document does not run");
            self.tell_provider(Some(name), true, "DocumentRefused", text);
        } else {
            info!(mapping = name, why = text, "the document does not run yet");
        }
    }

    /// What is wrong with documents that wait, by mapping.
    pub(super) fn refusals(&self) -> Vec<String> {
        let told = self.in_force.iter().filter(|(_, one)| !one.refusal.is_empty());
        told.map(|(name, one)| format!("mapping {name}: {}", one.refusal)).collect()
    }
}

fn component(name: &str) -> String {
    format!("document of mapping {name}")
}

/// How many sources the document in force serves, and where.
fn served(all: &[&Arc<Pipeline>]) -> String {
    let sources: BTreeSet<_> = all.iter().flat_map(|pipeline| pipeline.sources_held("")).collect();
    let clusters: BTreeSet<_> = sources.iter().map(|key| &key.cluster).collect();
    let plural = |number: usize| if number == 1 { "" } else { "s" };
    let (of_sources, of_clusters) = (plural(sources.len()), plural(clusters.len()));
    let first = sources.first().map(|key| format!("{} {}/{}", key.cluster, key.namespace, key.name));
    match first {
        Some(first) => format!(
            ", and {} source{of_sources} of {} cluster{of_clusters} carry its finalizer, the first is {first}",
            sources.len(),
            clusters.len()
        ),
        None => ", and orphaned objects are left (`sync-engine orphans`)".to_owned(),
    }
}

/// The clusters of sources as a mapping names them.
fn named(clusters: &SourceClusters) -> String {
    match clusters {
        SourceClusters::ApiExport(export) => match &export.path {
            Some(path) => format!("the APIExport {} of {path}", export.name),
            None => format!("the APIExport {}", export.name),
        },
        SourceClusters::Provider(name) => format!("the ClusterProvider {name}"),
    }
}

/// Whether two documents name different sources. They may lead to the same ones all the same.
pub fn names_other_sources(one: &Mapping, other: &Mapping) -> bool {
    let (one, other) = (&one.source, &other.source);
    one.clusters != other.clusters || one.resource.group_plural() != other.resource.group_plural()
}

/// The document of a state store, where it names other sources than the one that runs.
pub fn other_document(store: &Inventory, mapping: &Mapping) -> Option<Arc<Mapping>> {
    let recorded = (store.document != *mapping.text).then(|| compiled(&store.document)).flatten();
    recorded.filter(|recorded| names_other_sources(recorded, mapping))
}

/// The mapping of a document as the state store keeps it.
pub fn compiled(document: &str) -> Option<Arc<Mapping>> {
    let document = crate::yaml::parse_one(document)?;
    match crate::mapping::compile::compile_kept(&document)? {
        Compiled::Mapping(mapping) => Some(mapping),
        _ => None,
    }
}
