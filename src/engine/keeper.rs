//! Keeps the state store of a pipeline in step with its mapping.

mod agreement;
mod home;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{info, warn};

use super::controller::Feed;
use super::inventory::{self, Inventory, SourceId};
use super::pipeline::learned::{LATE_REQUEST, Late};
use super::pipeline::{Generation, NOT_READ, Pipeline};
use super::serving::{compiled, names_other_sources, other_document};
use super::slots::Slot;
use super::target::{is_removed, other_version};
use super::{DEFAULT_TARGET, Event};
use crate::health::{Condition, Level};
use crate::mapping::{Kind, Mapping, Side, SourceClusters};
use crate::multicluster::backoff::{Backoff, Jitter};
use crate::multicluster::permit::{Epoch, Permit};
use crate::multicluster::raw::is_older;
use crate::multicluster::watch::WatchState;
use crate::multicluster::{Endpoint, RequestError};
use crate::object::hold::HoldStage;
use crate::object::{are, count};
use crate::plan::Phase;
use agreement::{provider, stand_by};
pub use home::ToldHome;
pub(super) use home::{heed_home, home_of_list, look_at_home, tell_home};

/// How often kinds that are no longer in use are looked for, where there may be some.
const REVIEW: Duration = Duration::from_secs(30);

/// How often the state store of objects beside their sources is read: no watch on its cluster tells that it was restored.
const LOOK: Duration = Duration::from_secs(120);

/// How soon a request that failed is made again.
pub(super) const RETRY: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(30) };

/// Confirms the inventory at the start and after each change, until dropped.
pub async fn keep(pipeline: Arc<Pipeline>, slot: Slot, events: mpsc::Sender<Event>) {
    let mut failures = 0;
    let mut jitter = Jitter::of(&pipeline.name());
    let mut unused = BTreeMap::new();
    let mut unanswered = Unanswered::default();
    let lease = &pipeline.shared.lease;
    loop {
        // Before anything is read: in another term, it counts no more.
        pipeline.leadership(lease.number());
        note_unused(&pipeline, &mut unused).await;
        let (generation, term) = (pipeline.generation(), lease.number());
        let Some(permit) = lease.permit() else {
            stand_by(&pipeline, &generation).await;
            continue;
        };
        let mut result = confirm(&pipeline, &generation, &unused, &permit, &mut unanswered).await;
        if !Arc::ptr_eq(&generation, &pipeline.generation()) {
            // It says nothing of the document that runs now.
            continue;
        }
        let found = match &mut result {
            Ok(stored) => Some(Box::new(stored.clone())),
            Err(doubt) => doubt.found.take(),
        };
        if let Some(found) = found {
            let _ = events.send(Event::Recorded(term, slot.clone(), found)).await;
        }
        failures = if result.is_ok() { 0 } else { failures + 1 };
        let confirmed = result.as_ref().ok().cloned();
        say(&pipeline, &generation, result);
        let pause = match confirmed {
            Some(inventory)
                if is_final(&pipeline, &inventory) && !unanswered.is_home_untold && !unanswered.write.may_come() =>
            {
                match generation.mapping.is_beside() {
                    true => LOOK,
                    false => Duration::MAX,
                }
            }
            Some(_) => REVIEW,
            None => RETRY.delay(failures, &mut jitter),
        };
        // A write that came later would create what is removed.
        if !unanswered.write.may_come() && has_left(&pipeline).await {
            match remove(&pipeline, &permit).await {
                Ok(()) => {
                    let _ = events.send(Event::Left(slot.clone())).await;
                }
                Err(error) => unanswered.removal.failed(&error),
            }
        }
        // Cancel-safe: a permit that is not taken stays stored.
        if tokio::time::timeout(pause, pipeline.inventory_due()).await.is_ok() {
            // What has changed may be what failed.
            failures = 0;
        }
    }
}

/// What a keeper knows of its own requests. One that failed without the word of a server may still, for a while, reach the state
/// store, or what home says of the mapping.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    /// It may bring back a former document, or what was removed.
    write: Late,
    /// It may remove what is there now, unless that is written anew.
    removal: Late,
    /// Whether home could not be told, whatever it said.
    is_home_untold: bool,
    /// Whether the state store that is found may be this keeper's own: it has written it, or may have.
    pub(super) may_be_own: bool,
    newest: Newest,
}

/// The version of the state store that was read or written last.
#[derive(Debug, Default)]
struct Newest {
    /// The identity of the target: the versions of two clusters cannot be compared.
    at: String,
    version: String,
    /// How often its server was known to be restored then.
    restored: u64,
}

impl Newest {
    /// It is read in this version. An older one than before tells of a restore that no watch may show: where the process stood still,
    /// the server may have passed meanwhile what they have heard of.
    fn read(&mut self, at: &str, version: &str, restored: &Epoch) {
        if *at == self.at && is_older(version, &self.version) {
            warn!(identity = at, "the version of a state store went back: the server was restored to an earlier state");
            restored.advance_from(self.restored);
        }
        *self = Self { at: at.to_owned(), version: version.to_owned(), restored: restored.now() };
    }

    /// It is there in this version now. On a cluster that had none, nothing was read before.
    fn wrote(&mut self, at: &str, version: &str, restored: &Epoch) {
        let restored = if *at == self.at { self.restored } else { restored.now() };
        *self = Self { at: at.to_owned(), version: version.to_owned(), restored };
    }
}

impl Unanswered {
    /// A write of the state store failed.
    fn store_failed(&mut self, error: &RequestError) {
        self.write.failed(error);
        self.may_be_own |= error.may_take_effect();
    }
}

/// Whether nothing can change by itself: no kind of a former generation, none that is to be deleted in another version, no mapping
/// that is leaving, and no release that is open.
pub(super) fn is_final(pipeline: &Pipeline, inventory: &Inventory) -> bool {
    let generation = pipeline.generation();
    // Another process of this engine may release what waits here, or end what is released.
    !pipeline.has_candidate()
        && inventory.release.is_empty()
        && inventory.kinds.iter().all(|kind| generation.mapping.makes(kind))
        && (generation.phase == Phase::Active || pipeline.follows_every_kind())
        && inventory.status == generation.mapping.status.written()
        && !is_leaving(pipeline, &generation)
}

/// The condition of a pipeline's state store in readiness.
pub fn component(pipeline: &Pipeline) -> String {
    format!("state store {}", pipeline.name())
}

/// Why the state store is not confirmed.
#[derive(Debug)]
pub(super) struct Doubt {
    why: String,
    /// Whether it is one of other targets: nothing is wrong with this one.
    is_of_others: bool,
    /// What the state store says, if that is known.
    found: Option<Box<Inventory>>,
}

impl From<String> for Doubt {
    fn from(why: String) -> Self {
        Self { why, is_of_others: false, found: None }
    }
}

/// Says what holds up a pipeline's state store, where that is news.
fn report(pipeline: &Pipeline, condition: Condition) {
    let (is_ready, why) = (condition.level == Level::Ready, condition.message.clone());
    if pipeline.shared.instruments.health.set(&component(pipeline), condition) && !is_ready {
        info!(mapping = pipeline.writer.mapping(), why, "the mapping waits");
    }
}

fn say(pipeline: &Pipeline, generation: &Arc<Generation>, result: Result<Inventory, Doubt>) {
    let may_wait = || is_leaving(pipeline, generation) && !pipeline.is_unrecorded();
    let condition = match &result {
        Ok(_) => match may_wait().then(|| pipeline.lost_in_words()).flatten() {
            Some(lost) => Condition::degraded(format!("its removal waits: {lost}")),
            None => Condition::ready(""),
        },
        Err(doubt) => Condition::of(Err(doubt.why.clone()), generation.target.trouble()),
    };
    report(pipeline, condition);
    let result = result.map_err(|doubt| if doubt.is_of_others { NOT_READ.to_owned() } else { doubt.why });
    pipeline.confirm(generation, result);
}

/// Reads the state store, and writes what is new.
async fn confirm(
    pipeline: &Pipeline,
    generation: &Arc<Generation>,
    unused: &BTreeMap<Kind, Instant>,
    permit: &Permit,
    unanswered: &mut Unanswered,
) -> Result<Inventory, Doubt> {
    let inventories = pipeline.shared.inventories(generation.target.endpoint().permitted(permit.clone()));
    let can_none_come = !unanswered.write.may_come();
    let at = generation.target.identity()?;
    let source = source_id(pipeline, generation)?;
    let found = inventories.get(pipeline.writer.mapping()).await;
    let found = found.map_err(|error| unreadable(generation, &error.to_string()))?;
    if let Some(found) = &found {
        unanswered.newest.read(&at, &found.resource_version, inventories.endpoint.connection().restored());
    }
    match &found {
        _ if !Arc::ptr_eq(generation, &pipeline.generation()) => {
            return Err("another term or document has begun meanwhile".to_owned().into());
        }
        None => pipeline.lacks_store(),
        Some(_) if unanswered.may_be_own => {}
        Some(_) => pipeline.recorded_by_another(),
    }
    let is_other = |found: &Inventory| other_document(found, &generation.mapping).is_some();
    if found.as_ref().is_some_and(is_other) && pipeline.went_unrecorded(generation) {
        look_at_home(pipeline, generation).await?;
    }
    let home = home_of_list(pipeline, generation).filter(|_| generation.phase == Phase::Active);
    if let Some(home) = home {
        heed_home(pipeline, generation, home, found.as_ref()).await?;
    } else if let Some(other) = pipeline.untold_target() {
        let why = format!("target `{other}` has not told yet whether its state store holds a later document");
        return Err(Doubt { why, is_of_others: true, found: found.map(Box::new) });
    }
    let checked = match &found {
        Some(found) => check_sources(pipeline, generation, found, &source),
        None => check_first(pipeline, generation),
    };
    if let Err(why) = checked {
        let is_heeded = |found: &Inventory| home.is_none() || !is_other(found);
        return Err(Doubt { found: found.filter(is_heeded).map(Box::new), ..why.into() });
    }
    let mut wanted = wanted(pipeline, generation, found.as_ref(), source, unused);
    follow_versions(pipeline, generation, &mut wanted).await;
    if generation.records() && unanswered.removal.may_come() {
        // The document is in force again. A removal that is under way hits the version that it names, and no later one.
        wanted.recorded = Some(wanted.next_moment(pipeline.shared.settings.clock.now()));
    }
    if let Some(named) = inventory::too_many(&wanted) {
        // It would not be read again.
        let why = format!("it would name {named}: edit the mapping in steps, for a kind leaves once it has no object");
        return Err(unreadable(generation, &why).into());
    }
    let told = tell_home(pipeline, generation, &wanted, permit, unanswered).await;
    unanswered.is_home_untold = told.is_err();
    let is_new = found.as_ref().is_none_or(is_other);
    match told {
        // Home alone says when.
        Ok(Some(at)) if found.as_ref().is_none_or(|found| found.recorded != wanted.recorded) => {
            wanted.recorded = Some(at);
        }
        // Home that goes away holds up nothing that it knows of.
        Err(error) if is_new => {
            let why = format!("home has to name the document and the target first: a start goes by that: {error}");
            return Err(Doubt { is_of_others: true, ..why.into() });
        }
        _ => {}
    }
    let stored = match found.as_ref() == Some(&wanted) || !generation.records() {
        true => wanted,
        false => {
            let stored = inventories.put(&wanted).await.map_err(|error| {
                unanswered.store_failed(&error);
                unreadable(generation, &error.to_string())
            })?;
            (unanswered.removal, unanswered.may_be_own) = (Late::default(), true);
            unanswered.newest.wrote(&at, &stored.resource_version, inventories.endpoint.connection().restored());
            stored
        }
    };
    if can_none_come && !unanswered.is_home_untold {
        unanswered.write = Late::default();
    }
    match inventories.endpoint.is_permitted() {
        true => Ok(stored),
        false => Err(unreadable(generation, "the target may be another cluster meanwhile").into()),
    }
}

/// A document acts where the state store holds one that serves the same.
pub(super) fn check_sources(
    pipeline: &Pipeline,
    generation: &Generation,
    found: &Inventory,
    source: &SourceId,
) -> Result<(), String> {
    let (mapping, is_active) = (&generation.mapping, generation.phase == Phase::Active);
    if is_active && !found.former.is_empty() {
        let mapping = pipeline.writer.mapping();
        let why = format!(
            "it names former sources of an earlier version of the engine: deletions alone go on, until `sync-engine uninstall \
             {mapping} --former` has released them"
        );
        return Err(unreadable(generation, &why));
    }
    if is_active && found.is_held_as_before {
        let why = "an earlier version of the engine held what its document deletes: run that version again, and approve it there, \
                   or put the former file back there. Without the field `inForce` in the ConfigMap, it is deleted at once, \
                   whatever the file says now";
        return Err(unreadable(generation, why));
    }
    if is_active && is_unread(found, mapping) {
        let why = "it holds a document that this version of the engine cannot read: run the version that wrote it, or take the \
                   field `document` out of the ConfigMap to have the one in the file run at once";
        return Err(unreadable(generation, why));
    }
    let went_unrecorded = pipeline.went_unrecorded(generation);
    match other_document(found, mapping) {
        Some(recorded) if !went_unrecorded && pipeline.supersedes(&recorded) => return Ok(()),
        Some(recorded) if names_other_sources(&recorded, mapping) => {
            return Err(unreadable(generation, "it holds a document of other sources, which goes on"));
        }
        // Another process has released it meanwhile: nothing is deleted by the one before.
        Some(_) if !is_active && !went_unrecorded && !pipeline.is_replaced_by(found) => {}
        Some(_) => {
            let why = match pipeline.is_replaced_by(found) {
                false => "it holds an earlier document, which goes on until this one is released",
                true => {
                    "another process with this engine id has recorded another document there, which goes on until this one is \
                     released: give all replicas the same files, and each other engine an id of its own (`--engine-id`)"
                }
            };
            return Err(unreadable(generation, why));
        }
        None => {}
    }
    if found.source.resource != source.resource && !found.source.resource.is_empty() {
        // Its document is of the same sources, or cannot be read.
        let why = format!("it holds a document of {}, which this version cannot read", found.source.resource);
        return Err(unreadable(generation, &why));
    }
    let is_export = matches!(mapping.source.clusters, SourceClusters::ApiExport(_));
    if is_export && !found.source.identity.is_empty() && found.source.identity != source.identity {
        return Err(format!(
            "SourceChanged: {} has another identity hash than when the mapping served it: somebody created the APIExport \
             anew, or kcp was put back. Nothing is written or deleted. Give a mapping another metadata.name to serve the \
             new APIExport, and keep this one until the former sources are gone, or uninstall it",
            mapping.source.clusters,
        ));
    }
    Ok(())
}

/// Whether nobody can tell what a document would take away of what the one in a state store, or at home, has made.
fn is_unread(store: &Inventory, mapping: &Mapping) -> bool {
    store.document != mapping.text && !store.document.is_empty() && compiled(&store.document).is_none()
}

fn source_id(pipeline: &Pipeline, generation: &Generation) -> Result<SourceId, String> {
    let clusters = &generation.mapping.source.clusters;
    let identity = pipeline.shared.manager.identity(clusters);
    let identity = identity.ok_or_else(|| format!("{clusters}: its identity is not known yet"))?;
    Ok(SourceId { resource: generation.mapping.source.resource.group_plural(), identity })
}

/// Before the first write of a state store, no source may be pinned to this very target: it was synced while the target held a
/// state store. (A source that is pinned to another target is reported as TargetChanged.)
pub(super) fn check_first(pipeline: &Pipeline, generation: &Generation) -> Result<(), String> {
    let settings = &pipeline.shared.settings;
    let is_at_home = settings.home_connection().is_some() && home_of_list(pipeline, generation).is_none();
    if is_at_home && generation.phase == Phase::Active && !generation.is_of_file {
        return Err(format!(
            "target `{}`: no file holds the document of the mapping, and home knows it from another target alone: nothing is \
             written or deleted there. Put it into a file",
            generation.target.name
        ));
    }
    if !pipeline.controller.have_sources_told() {
        return Err(format!(
            "target `{}`: it holds no state store yet; sources are listed first",
            generation.target.name
        ));
    }
    // A workspace carries no annotation that says where it was synced to.
    let leaving = if generation.mapping.is_beside() { 0 } else { workspaces_leaving(pipeline, generation) };
    if leaving > 0 {
        return Err(format!(
            "target `{}` holds no state store of this engine, although {} {} being deleted that may have objects on another: \
             give the engine the kubeconfig of that target; or, if they were never served, take the terminator out of their \
             LogicalClusters",
            generation.target.name,
            count(leaving, "workspace"),
            are(leaving),
        ));
    }
    let held = pipeline.controller.sources_held(&generation.target.identity()?);
    // What tenants can write is no evidence against other tenants. They cannot write on the target.
    let is_written_by_tenants = generation.mapping.is_beside();
    if held.is_empty() {
        return Ok(());
    }
    if !is_written_by_tenants && !pipeline.follows_every_kind() {
        return Err(format!(
            "target `{}`: it holds no state store yet, although {} {} synced with it; its objects are listed first",
            generation.target.name,
            count(held.len(), "source"),
            are(held.len()),
        ));
    }
    if !is_written_by_tenants && pipeline.has_any_object() {
        return Err(format!(
            "target `{}` holds no state store of this engine, although {} {} synced with it: somebody deleted \
             the ConfigMap, or the cluster was put back to an earlier state; nothing is written or deleted. Restore the \
             ConfigMap, or remove the annotation `{}` from those sources",
            generation.target.name,
            count(held.len(), "source"),
            are(held.len()),
            pipeline.writer.target_annotation(),
        ));
    }
    pipeline.set_unproven(held);
    Ok(())
}

/// Workspaces that wait for the engine before they are deleted.
fn workspaces_leaving(pipeline: &Pipeline, generation: &Generation) -> usize {
    let clusters = pipeline.shared.manager.clusters(&generation.mapping.source.clusters);
    let stages = clusters.iter().filter_map(|cluster| Some(cluster.spec.holding.as_ref()?.hold.stage));
    stages.filter(|stage| *stage == HoldStage::Terminating).count()
}

fn unreadable(generation: &Generation, error: &str) -> String {
    format!("target `{}`: the state store cannot be kept: {error}", generation.target.name)
}

/// What the state store should say.
pub(super) fn wanted(
    pipeline: &Pipeline,
    generation: &Generation,
    found: Option<&Inventory>,
    source: SourceId,
    unused: &BTreeMap<Kind, Instant>,
) -> Inventory {
    let former = found.cloned().unwrap_or_default();
    let (document, provider) = (generation.mapping.text.clone(), provider(pipeline, generation));
    let mapping = pipeline.writer.mapping().to_owned();
    let recorded = match (&document, &provider) == (&former.document, &former.provider) {
        true => former.recorded,
        false => Some(former.next_moment(pipeline.shared.settings.clock.now())),
    };
    let home = Some(pipeline.shared.settings.home.clone()).filter(|home| home != DEFAULT_TARGET).unwrap_or_default();
    let mut wanted = Inventory { mapping, source, document, provider, recorded, home, ..former.clone() };
    // The objects of a kind are seen in any version of it.
    let is_in_another =
        |kind: &Kind| generation.mapping.objects.iter().any(|rule| rule.kind.is_same_in_any_version(kind));
    let is_unused = |kind: &Kind| unused.get(kind).is_some_and(|since| since.elapsed() >= LATE_REQUEST);
    wanted.kinds.retain(|kind| !is_in_another(kind) && !is_unused(kind));
    let has_other_sources = |recorded: Arc<Mapping>| names_other_sources(&recorded, &generation.mapping);
    if found.and_then(|found| other_document(found, &generation.mapping)).is_some_and(has_other_sources) {
        // Those of the document before have no source that carries the finalizer.
        wanted.clusters.clear();
    }
    wanted.clusters.retain(|place| !pipeline.has_left(place));
    wanted.clusters.extend(pipeline.controller.clusters_with_sources());
    wanted.targets.retain(|name| !pipeline.was_target(name));
    wanted.targets.extend(pipeline.controller.targets().iter().cloned());
    // It may not have heard of the others yet. Home names a target before that is written to.
    wanted.targets.extend(generation.mapping.target_rule.as_ref().map(|_| generation.target.name.clone()));
    if pipeline.is_carried_out() {
        wanted.status.clear();
    }
    if former.document == wanted.document && former.release.is_empty() {
        pipeline.names_no_release();
    }
    let release = pipeline.release_to_record();
    wanted.release = match &release {
        Some(candidate) => candidate.release.clone(),
        None if pipeline.is_over(&former.release) => String::new(),
        // Home tells how far it is, or another process goes on with it.
        None => former.release.clone(),
    };
    // A part of the sources is served with a candidate, which leaves something if they go back.
    let candidate = release.iter().map(|candidate| &candidate.document);
    for document in std::iter::once(&generation.mapping).chain(candidate) {
        wanted.kinds.extend(document.objects.iter().map(|rule| rule.kind.clone()));
        wanted.placements.extend((!document.is_beside()).then(|| document.namespace_rule().to_owned()));
        wanted.status.extend(document.status.written());
    }
    let served = |kind: &Kind| generation.target.kind(kind).ok().map(|served| served.resource.plural);
    // Of a version that is not served, there may be objects in the one before it.
    let plural = |kind: &Kind| Some((kind.clone(), served(kind).or_else(|| former.plural(kind))?));
    wanted.plurals.extend(wanted.kinds.iter().filter_map(plural));
    wanted.plurals.retain(|kind, _| wanted.kinds.contains(kind));
    wanted
}

/// A kind that a former document made, or that a mapping only deletes, is followed in another version where its own is no longer
/// served: its objects are there in that one. A kind that a document writes stays in the version of the document.
async fn follow_versions(pipeline: &Pipeline, generation: &Generation, wanted: &mut Inventory) {
    let (followed, endpoint) = (pipeline.kinds(), generation.target.endpoint());
    let candidate = pipeline.release_to_record().map(|candidate| candidate.document);
    let is_written = |kind: &Kind| {
        generation.phase == Phase::Active
            && std::iter::once(&generation.mapping).chain(&candidate).any(|one| one.makes(kind))
    };
    let is_unserved = |kind: &Kind| match pipeline.kind_feed(kind) {
        Some(feed) => feed.watch.state() == WatchState::NotServed && !feed.is_removed(),
        // It may be followed in the other one already.
        None => pipeline.is_store_read() && !followed.contains(kind),
    };
    let former =
        wanted.plurals.iter().filter(|(kind, _)| kind.side == Side::Target && !is_written(kind) && is_unserved(kind));
    let former: Vec<(Kind, String)> = former.map(|(kind, plural)| (kind.clone(), plural.clone())).collect();
    for (kind, plural) in former {
        let is_seen = |other: &&Kind| {
            let feed = pipeline.kind_feed(other).filter(|_| other.is_same_in_any_version(&kind));
            feed.is_some_and(|feed| feed.watch.state() == WatchState::Synced)
        };
        let seen = followed.iter().find(is_seen).cloned();
        let other = match seen {
            Some(seen) => seen,
            None => match other_version(&endpoint, &kind.resource(&plural)).await {
                Ok(Some(version)) => Kind::new(kind.group.clone(), version, kind.kind.clone()),
                _ => continue,
            },
        };
        wanted.kinds.remove(&kind);
        wanted.plurals.remove(&kind);
        wanted.kinds.insert(other.clone());
        wanted.plurals.insert(other, plural);
    }
}

/// Since when each kind that the mapping does not name has no objects. It may get one as long as a request may come late.
async fn note_unused(pipeline: &Pipeline, unused: &mut BTreeMap<Kind, Instant>) {
    let (mapping, mut now) = (pipeline.generation().mapping.clone(), BTreeSet::new());
    for kind in pipeline.kinds() {
        if !mapping.makes(&kind) && is_unused(pipeline, &kind).await {
            now.insert(kind);
        }
    }
    unused.retain(|kind, _| now.contains(kind));
    for kind in now {
        unused.entry(kind).or_insert_with(Instant::now);
    }
}

/// A kind whose collection lists normally, without objects of the mapping; or that is gone with all of them, or was never served.
async fn is_unused(pipeline: &Pipeline, kind: &Kind) -> bool {
    if kind.side == Side::Source {
        return pipeline.controller.all_copies(kind, is_empty);
    }
    match pipeline.kind_feed(kind) {
        Some(feed) => is_empty(&feed),
        None => pipeline.generation().target.lacks(kind) && is_gone(pipeline, kind).await,
    }
}

fn is_empty(feed: &Feed) -> bool {
    feed.is_removed() || (feed.watch.state() == WatchState::Synced && feed.watch.store().is_empty())
}

/// Whether nothing of a mapping that leaves is left, and no source, former ones included, carries its finalizer. Those of a
/// cluster that is out of sight may.
async fn has_left(pipeline: &Pipeline) -> bool {
    let are_in_sight = || pipeline.lost_cluster().is_none() && pipeline.controller.are_sources_listed();
    let may_hold = || !pipeline.is_unrecorded() && (pipeline.has_former() || !are_in_sight());
    if !is_leaving(pipeline, &pipeline.generation()) || may_hold() || !pipeline.controller.holds_no_source() {
        return false;
    }
    for kind in pipeline.kinds() {
        if !is_unused(pipeline, &kind).await && !is_gone(pipeline, &kind).await {
            return false;
        }
    }
    true
}

/// Whether a mapping ends once nothing of it is left: it was removed and takes all along, or it was never recorded.
fn is_leaving(pipeline: &Pipeline, generation: &Generation) -> bool {
    match generation.phase {
        Phase::Active => false,
        Phase::DeletionsOnly => pipeline.is_unrecorded(),
        Phase::Leaving(_) => true,
    }
}

/// A kind whose CustomResourceDefinition is missing, and with it all objects; one that was never served; or one that no workspace lets
/// the engine see, but for those in which none is left.
async fn is_gone(pipeline: &Pipeline, kind: &Kind) -> bool {
    if kind.side == Side::Source {
        let has_none = |feed: &Feed| feed.watch.state() == WatchState::NotServed || is_empty(feed);
        return pipeline.controller.all_copies(kind, has_none);
    }
    let (endpoint, plural) = (pipeline.generation().target.endpoint(), pipeline.plural(kind));
    let is_told = plural.is_some() || pipeline.is_store_read();
    is_told && is_removed(&endpoint, kind, plural.as_deref()).await.unwrap_or(false)
}

/// Removes the state store, and what home says of the mapping with that on the last target. It may have had other targets before.
pub(super) async fn remove(pipeline: &Pipeline, permit: &Permit) -> Result<(), RequestError> {
    let (generation, mapping) = (pipeline.generation(), pipeline.writer.mapping());
    let at = |endpoint: Endpoint| pipeline.shared.inventories(endpoint.permitted(permit.clone()));
    if !pipeline.is_unrecorded() {
        let store = at(generation.target.endpoint());
        store.delete_as_it_is(&inventory::name(&store.engine, mapping)).await?;
    }
    pipeline.take_leave(&generation);
    let is_last = pipeline.controller.pipelines().iter().all(|one| one.has_taken_leave());
    match pipeline.shared.settings.home_connection().filter(|_| is_last) {
        Some(home) => {
            // None of them writes it any more.
            *pipeline.controller.told_home.lock().await = ToldHome::default();
            let home = at(home.endpoint());
            home.delete_as_it_is(&inventory::name_of_list(&home.engine, mapping)).await
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multicluster::request_error::Status;

    /// A write may be found without an answer, and one that was refused, or that never left, never is.
    #[test]
    fn a_state_store_that_this_keeper_may_have_written_is_not_taken_for_anothers() {
        let lost = RequestError::AnswerLost { url: "https://target".into(), reason: "the connection broke".into() };
        let refused = RequestError::Status(Box::new(Status { code: 409, ..Status::default() }));
        let unsent = RequestError::NotPermitted { url: "https://target".into() };
        let mut unanswered = Unanswered::default();
        for (error, may_be_own) in [(&refused, false), (&unsent, false), (&lost, true), (&unsent, true)] {
            unanswered.store_failed(error);
            assert_eq!(unanswered.may_be_own, may_be_own);
        }
    }

    #[test]
    fn a_state_store_whose_version_goes_back_tells_of_a_restore_that_nobody_has_seen() {
        let (mut newest, restored) = (Newest::default(), Epoch::default());
        let mut told = |version: &str| {
            newest.read("one", version, &restored);
            restored.now()
        };
        assert_eq!(["7", "9", "4", "4", "12"].map(&mut told), [0, 0, 1, 1, 1]);
        restored.advance();
        assert_eq!(["5", "3"].map(told), [2, 3], "a watch saw the first of them");
    }

    /// An edit may give the mapping another target, or the connection may lead to another cluster.
    #[test]
    fn the_state_store_of_another_cluster_tells_of_no_restore() {
        let (mut newest, restored) = (Newest::default(), Epoch::default());
        for (at, version) in [("one", "7"), ("other", "3"), ("one", "5")] {
            newest.read(at, version, &restored);
            assert_eq!(restored.now(), 0, "{at}");
        }
        newest.wrote("other", "9", &restored);
        newest.read("one", "5", &restored);
        assert_eq!(restored.now(), 0, "it had none before");
    }
}
