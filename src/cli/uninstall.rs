//! `sync-engine uninstall`: takes away what an engine that no longer runs has left, or says what that is.
//!
//! For each mapping, what is there is looked at, written to, and looked at again, until nothing of it is left. The state stores,
//! which say where to look, go last: a second run finishes what a first one began.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Args};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::arguments::{ADVANCED, Connections, Format, MachineArguments, WhichArguments, duration};
use super::live::{act, no_state_store, path_of, report, take_away};
use super::lost_target::{self, Found};
use super::options::{Listen, listen};
use super::terminal::{self, count};
use super::{Exit, Misconfigured, ask, inputs, progress, sources, status};
use crate::catalog::{Catalog, Files};
use crate::engine::consumer_schema::ConsumerSchemas;
use crate::engine::election;
use crate::engine::inventory::{Inventories, Inventory, namespaces};
use crate::mapping::schema::Schemas;
use crate::mapping::{Mapping, OnExit, Resource};
use crate::multicluster::backoff::{Backoff, Jitter};
use crate::multicluster::{Endpoint, RequestError};
use crate::object::marks::{ENGINE, MANAGED_BY, MANAGER, Origin, Writer};
use crate::object::{has_finalizer, metadata, one_line};
use crate::plan::status::{says_not_selected, taken_back, without_condition};
use crate::plan::{
    Action, Evidence, Observed, Phase, Reason, Source, is_needed, pins, release_finalizer, stays, unmarked,
};
use crate::survey::{Remains, Remnant, SourceCluster, Surveyor, Unseen, find, items};

pub(super) const AFTER_HELP: &str = "\
For example: sync-engine uninstall --delete --kcp-kubeconfig kcp.kubeconfig --target-kubeconfig target.kubeconfig
             sync-engine uninstall mongodb --release --yes --kcp-kubeconfig kcp.kubeconfig --target-kubeconfig target.kubeconfig
             sync-engine uninstall --lost-target edge --yes --mappings mappings --connection edge=edge.kubeconfig

Stop the engine first, and give every connection that it had: the state stores there tell what is to be taken away. They go last: a \
second run finishes what a first one began. Namespaces stay, without the engine's labels.

With --lost-target NAME, the verb removes the pin of each source that is pinned to that target, and the engine's finalizer if no other \
target is pinned. By itself it deletes nothing; with --delete or --release, the rest is uninstalled without that target. A source \
is refused while its target can still be reached. An engine that runs with the same mappings takes the sources on again, on the \
target that it finds.

Exit codes: 0 listed, or nothing is left; 1 an engine runs, or something is left or refused; 2 usage error; 3 a file or the home \
cluster cannot be read.";

/// Flags of `uninstall`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("how").multiple(true))]
pub struct UninstallArguments {
    /// Mappings to uninstall. Default: all of the engine.
    #[arg(value_name = "MAPPING")]
    pub mapping: Vec<String>,

    /// Delete the target objects. Those with `delete.policy: Orphan` are released.
    #[arg(long, group = "how", conflicts_with = "release")]
    pub delete: bool,

    /// Remove the ownership labels and annotations from the target objects. The objects stay.
    #[arg(long, group = "how")]
    pub release: bool,

    /// Release the sources of the target with this connection, which is lost. Give its last kubeconfig.
    #[arg(long, value_name = "NAME", group = "how")]
    pub lost_target: Option<String>,

    /// Take away only what former sources have, which an earlier version of the engine served. The mappings go on.
    #[arg(long, conflicts_with = "lost_target")]
    pub former: bool,

    /// Folder or file of mappings that no state store on a connection tells of: the target is lost, or a ClusterProvider gives
    /// the targets. Can be repeated.
    #[arg(long, value_name = "DIR|FILE", env = "SYNC_ENGINE_MAPPINGS")]
    pub mappings: Vec<PathBuf>,

    /// How long to wait until the objects of a mapping are gone.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration, help_heading = ADVANCED)]
    pub timeout: Duration,

    /// Address of the engine's console. An engine that answers there is not uninstalled.
    #[arg(long, value_name = "ADDR", env = "SYNC_ENGINE_CONSOLE", default_value = "127.0.0.1:8080", value_parser = listen)]
    pub console: Listen,

    #[command(flatten)]
    pub connections: Connections,

    #[command(flatten)]
    pub machine: MachineArguments,

    #[command(flatten)]
    pub which: WhichArguments,

    /// Write. Without this flag, the verb prints what it would do, and writes nothing.
    #[arg(long, requires = "how")]
    pub yes: bool,
}

/// A source with its resource and cluster.
type Served<'r> = (&'r Resource, &'r SourceCluster, &'r Arc<Value>);

/// How soon what is being deleted is looked at again.
const LOOK: Backoff = Backoff { min: Duration::from_millis(200), max: Duration::from_secs(10) };

/// How often a write that changes nothing is tried: a conflict says that somebody else wrote meanwhile.
const ATTEMPTS: usize = 3;

pub(super) fn uninstall(arguments: &UninstallArguments) -> anyhow::Result<Exit> {
    let mappings: Vec<&str> = arguments.mapping.iter().map(String::as_str).collect();
    let mut surveyor = arguments.connections.surveyor_of(&arguments.which, &mappings)?;
    surveyor.machine = arguments.machine.given()?;
    let schemas = ConsumerSchemas::new(Schemas::default());
    let (stores, unread) = Default::default();
    ask(async { Verb { arguments, surveyor, schemas, stores, unread, lost: None, left: Vec::new() }.run().await })
}

struct Verb<'a> {
    arguments: &'a UninstallArguments,
    surveyor: Surveyor,
    schemas: ConsumerSchemas,
    /// What the state stores of each mapping say together, and on which connections they are.
    stores: BTreeMap<String, (Inventory, BTreeSet<String>)>,
    /// The connections, and clusters of providers, whose state stores cannot be read, and why.
    unread: BTreeMap<String, String>,
    /// The lost target, and what answers there.
    lost: Option<(String, Found)>,
    /// What is left, and why; with the mapping, where it is of one.
    left: Vec<(Option<String>, String)>,
}

impl Verb<'_> {
    async fn run(mut self) -> anyhow::Result<Exit> {
        let UninstallArguments { delete, release, yes, .. } = *self.arguments;
        let is_of_target = self.arguments.lost_target.is_some() && !delete && !release;
        self.look_for_lost().await?;
        let engine = if is_of_target { None } else { self.who_runs().await? };
        if let Some(engine) = engine.as_ref().filter(|_| yes) {
            eprintln!("refused: {engine}: stop the engine first");
            return Ok(Exit::Failure);
        }
        self.read_stores().await;
        let catalog = self.catalog()?;
        if catalog.mappings().next().is_none() {
            let nothing = no_state_store(&self.surveyor, self.surveyor.connections.keys());
            if is_of_target {
                return Err(Misconfigured(format!("{nothing}; give the files of the mappings with --mappings")).into());
            }
            // What cannot be read may have some, and is listed.
            if self.left.is_empty() {
                eprintln!("{nothing}");
            }
        }
        self.read_fleets(&catalog).await;
        let mut exit = Exit::Success;
        if let Some((name, found)) = &self.lost {
            exit = self.abandon(&catalog, name, found).await?;
            if is_of_target {
                return Ok(exit);
            }
        }
        for (name, entry) in progress::mappings(&catalog).filter(|(name, _)| self.is_meant(name)) {
            let remains = self.look(&entry.mapping).await;
            let (text, is_whole) = self.plan(&entry.mapping, &remains);
            progress::print(&format!("mapping {name}: {text}\n"))?;
            exit = if is_whole { exit } else { Exit::Failure };
        }
        if !yes {
            return self.end_of_dry_run(engine.as_deref(), exit);
        }
        let (mut uninstalled, exit) = (Vec::new(), Exit::Success);
        for (name, entry) in progress::mappings(&catalog) {
            if self.is_meant(name) {
                uninstalled.push((entry.mapping.clone(), self.take(&entry.mapping).await));
            }
        }
        self.finish(&uninstalled).await;
        self.report(exit)
    }

    /// The engine that runs, in words.
    async fn who_runs(&self) -> anyhow::Result<Option<String>> {
        let id = &self.surveyor.engine;
        if let Some(address) = self.arguments.console
            && status::engine_at(address).await.as_ref() == Some(id)
        {
            return Ok(Some(format!("an engine with the id {id} answers at {address}")));
        }
        let home = &self.surveyor.home;
        if self.is_gone(home) {
            return Ok(None);
        }
        let unread = |why: &dyn Display| Misconfigured(format!("home `{home}`: the Leases cannot be read: {why}"));
        let store = self.store(home).map_err(|why| unread(&why))?;
        Ok(election::holder(&store, self.arguments.yes).await.map_err(|why| unread(&why))?)
    }

    fn store(&self, connection: &str) -> Result<Inventories, Unseen> {
        Ok(self.surveyor.inventories(self.surveyor.connection(connection)?.endpoint()))
    }

    async fn look_for_lost(&mut self) -> Result<(), Misconfigured> {
        let Some(name) = &self.arguments.lost_target else { return Ok(()) };
        let connection = self.surveyor.connection(name).map_err(|why| Misconfigured(why.to_string()))?;
        self.lost = Some((name.clone(), lost_target::look(&connection.endpoint()).await));
        Ok(())
    }

    /// Whether nothing answers at a connection, and a person says that it is lost.
    fn is_gone(&self, connection: &str) -> bool {
        matches!(&self.lost, Some((lost, Found::Nothing(_))) if lost == connection)
    }

    /// Notes what is left of a mapping.
    fn leave(&mut self, mapping: &str, left: impl IntoIterator<Item = String>) {
        let of = |why| (Some(mapping.to_owned()), format!("mapping {mapping}: {why}"));
        self.left.extend(left.into_iter().map(of));
    }

    async fn read_stores(&mut self) {
        let names: Vec<String> = self.surveyor.connections.keys().filter(|name| !self.is_gone(name)).cloned().collect();
        for name in &names {
            let Ok(store) = self.store(name) else { continue };
            match store.list().await {
                Ok(found) => {
                    found.into_iter().for_each(|one| self.remember(one, name.clone()));
                }
                Err(why) => {
                    // Of a cluster that has sources alone, nobody need see ConfigMaps.
                    if *name == self.surveyor.home || !matches!(why.code(), Some(403 | 404)) {
                        self.left.push((None, format!("connection `{name}`: the state stores cannot be read: {why}")));
                    }
                    self.unread.insert(name.clone(), why.to_string());
                }
            }
        }
    }

    /// The state stores on targets that providers give: no flag names those.
    async fn read_fleets(&mut self, catalog: &Catalog) {
        for (name, entry) in catalog.mappings() {
            let fleet = entry.mapping.target_rule.as_ref().and_then(|rule| rule.fleet.as_ref());
            let Some(fleet) = fleet.filter(|_| self.is_meant(name)) else { continue };
            let clusters = self.surveyor.clusters(&fleet.provider).await;
            let mut unread = clusters.as_ref().err().map(ToString::to_string).into_iter().collect::<Vec<_>>();
            for (cluster, endpoint, _) in clusters.into_iter().flatten() {
                match self.surveyor.inventories(endpoint).get(name).await {
                    Ok(found) => {
                        found.into_iter().for_each(|one| self.remember(one, format!("{}/{cluster}", fleet.provider)))
                    }
                    Err(why) => {
                        unread.push(format!("`{cluster}`: {why}"));
                        self.unread.insert(format!("{}/{cluster}", fleet.provider), why.to_string());
                    }
                }
            }
            self.leave(name, unread.into_iter().map(|why| format!("the targets of {}: {why}", fleet.provider)));
        }
    }

    fn remember(&mut self, store: Inventory, at: String) {
        let (known, places) = self.stores.entry(store.mapping.clone()).or_default();
        places.extend(Some(at).filter(|_| !store.is_list));
        *known = if known.mapping.is_empty() { store } else { std::mem::take(known).and(store) };
    }

    /// The mappings of state stores and of files.
    fn catalog(&mut self) -> anyhow::Result<Catalog> {
        let files = match &*self.arguments.mappings {
            [] => Files::default(),
            paths => inputs::only_ours(inputs::mappings(paths)?),
        };
        let documents = self.stores.iter().map(|(name, (store, _))| (name.clone(), store.documents())).collect();
        let (catalog, _) = Catalog::default().update(&files, &documents);
        self.surveyor.providers = catalog.provider_kinds();
        let unusable = self.stores.keys().filter(|name| self.is_meant(name) && catalog.mapping(name).is_none());
        for name in unusable.cloned().collect::<Vec<_>>() {
            self.leave(&name, ["this version cannot use the document in its state store".to_owned()]);
        }
        for name in &self.arguments.mapping {
            if catalog.mapping(name).is_none() && !self.stores.contains_key(name) {
                self.leave(name, ["no state store of the engine names it".to_owned()]);
            }
        }
        Ok(catalog)
    }

    fn is_meant(&self, name: &str) -> bool {
        self.arguments.mapping.is_empty() || self.arguments.mapping.iter().any(|one| one == name)
    }

    async fn abandon(&self, catalog: &Catalog, target: &str, found: &Found) -> anyhow::Result<Exit> {
        let mut findings = Vec::new();
        for (name, entry) in progress::mappings(catalog).filter(|(name, _)| self.is_meant(name)) {
            let of = lost_target::abandon(&self.surveyor, &entry.mapping, target, found, self.arguments.yes).await;
            findings.extend(of.map_err(|why| Misconfigured(format!("mapping `{name}`: {why}")))?);
        }
        report(&findings, Format::Text)
    }

    async fn look(&self, mapping: &Mapping) -> Remains {
        let (store, at) = self.stores.get(&mapping.name).cloned().unwrap_or_default();
        let home = mapping.is_beside().then_some(self.surveyor.home.as_str());
        let of_document = mapping.named_targets().into_iter().chain(home).map(str::to_owned);
        let all = of_document.chain(store.targets.clone()).chain(at);
        let targets = all.filter(|name| !self.is_gone(name)).collect();
        let looked_for = if self.arguments.former { store.former_alone() } else { store.clone() };
        let mut remains = self.surveyor.remains(mapping, &looked_for, &targets).await;
        for (name, why) in &self.unread {
            // What former documents made there, and where, its state store alone tells.
            if remains.targets.remove(name).is_some() {
                remains.unseen.push(format!("target `{name}`: the state stores cannot be read: {why}"));
            }
        }
        if !self.arguments.former {
            return remains;
        }
        let is_served_there = |origin: &Origin| {
            let mut there = remains.clusters.iter().filter(|(resource, _)| resource.group_plural() == origin.resource);
            origin.resource != store.source.resource || there.any(|(_, cluster)| cluster.identity == origin.cluster)
        };
        let is_former = |origin: &Origin| {
            store.former.iter().any(|one| one.source.resource == origin.resource) && is_served_there(origin)
        };
        let is_its = |one: &Remnant| one.origin.as_ref().is_some_and(is_former);
        let objects: Vec<_> = std::mem::take(&mut remains.objects).into_iter().filter(is_its).collect();
        remains.objects = objects;
        remains
    }

    /// What would be done, in words, and whether that is everything.
    fn plan(&self, mapping: &Mapping, remains: &Remains) -> (String, bool) {
        let writer = self.surveyor.writer(mapping);
        let UninstallArguments { delete, release, .. } = *self.arguments;
        let carrying = remains.sources().filter(|(.., source)| carries(mapping, &writer, source));
        let (kept, sources): (Vec<_>, Vec<_>) =
            carrying.partition(|(.., source)| self.unread_pin(&writer, remains, source).is_some());
        let (elsewhere, owned): (Vec<_>, Vec<_>) = remains.objects.iter().partition(|one| one.is_elsewhere);
        let deleted = owned.iter().filter(|one| delete && !stays(mapping, &one.object)).count();
        let rest = owned.len() - deleted;
        let (sources, verb) = (count(sources.len(), "source"), if delete || release { "release " } else { "" });
        let mut parts = Vec::new();
        if delete {
            parts.push(format!("delete {}", count(deleted, "object")));
        }
        if !delete || rest > 0 {
            parts.push(format!("{verb}{}", count(rest, "object")));
        }
        parts.push(format!("{verb}{sources}"));
        let targets: Vec<_> = remains.targets.keys().map(String::as_str).collect();
        let mut text = format!("{} ({})", parts.join(", "), targets.join(", "));
        let unread = (!kept.is_empty())
            .then(|| format!("{}, which may have objects on a target that is not read", count(kept.len(), "source")));
        let elsewhere = elsewhere.into_iter().map(|one| format!("{}: {ELSEWHERE}", title(one)));
        let left: Vec<_> = remains.unseen.iter().cloned().chain(unread).chain(elsewhere).collect();
        text.extend(left.iter().map(|why| format!("\n  leave {}", one_line(why))));
        (text, left.is_empty())
    }

    fn end_of_dry_run(self, engine: Option<&str>, exit: Exit) -> anyhow::Result<Exit> {
        for (_, why) in &self.left {
            progress::print(&format!("leave {}\n", one_line(why)))?;
        }
        match self.arguments.delete || self.arguments.release {
            true => eprintln!("nothing was written; add --yes to write"),
            false => eprintln!("nothing was written; choose --delete or --release"),
        }
        if let Some(engine) = engine {
            eprintln!("refused: {engine}: stop the engine before you add --yes");
        }
        let is_all = engine.is_none() && self.left.is_empty();
        Ok(if is_all { exit } else { Exit::Failure })
    }

    /// Takes away the objects of a mapping, and then what its sources carry. Gives what is left.
    async fn take(&mut self, mapping: &Arc<Mapping>) -> Remains {
        let writer = self.surveyor.writer(mapping);
        let (remains, failed) = self.take_objects(mapping, &writer).await;
        let mut left: Vec<String> = remains.unseen.clone();
        left.extend(remains.objects.iter().map(|one| format!("{}: {}", title(one), why_left(one, &failed))));
        let (remains, sources) = self.take_sources(mapping, &writer, remains).await;
        left.extend(sources);
        self.leave(&mapping.name, left);
        remains
    }

    /// Deletes or releases objects until none is left, or nothing moves any more. Gives why writes failed.
    async fn take_objects(&self, mapping: &Mapping, writer: &Writer) -> (Remains, BTreeMap<String, String>) {
        let (began, mut jitter) = (Instant::now(), Jitter::of(&mapping.name));
        let (mut idle, mut looks, mut failed) = (0, 0, BTreeMap::new());
        loop {
            let remains = self.look(mapping).await;
            let owned: Vec<&Remnant> = remains.objects.iter().filter(|one| !one.is_elsewhere).collect();
            progress::show(&format!("mapping `{}`: {} left", mapping.name, count(owned.len(), "object")));
            let due = self.due(mapping, &owned);
            let is_late = looks > 0 && began.elapsed() >= self.arguments.timeout;
            if owned.is_empty() || idle == ATTEMPTS || is_late && due.is_empty() {
                return (remains, failed);
            }
            let mut is_moving = owned.iter().any(|one| one.object.is_deleting());
            failed.clear();
            for one in due {
                match self.take_object(mapping, writer, one).await {
                    Ok(()) => is_moving = true,
                    Err(why) => drop(failed.insert(title(one), why)),
                }
            }
            idle = if is_moving && !is_late { 0 } else { idle + 1 };
            sleep(LOOK.delay(looks, &mut jitter)).await;
            looks += 1;
        }
    }

    /// What is to be written to now: an object that is deleted goes after those that depend on it, and what is shared goes after
    /// all else of its namespace.
    fn due<'r>(&self, mapping: &Mapping, owned: &[&'r Remnant]) -> Vec<&'r Remnant> {
        let place = |one: &'r Remnant| (&one.place, &one.object.reference.namespace);
        // An object depends on those of the same source, and what is shared on what is shared with it.
        let among = |one: &'r Remnant| (one.origin.as_ref(), one.origin.is_none().then(|| place(one)));
        let in_use: BTreeSet<_> = owned.iter().filter(|one| one.origin.is_some()).map(|one| place(one)).collect();
        let mut together: BTreeMap<_, Vec<_>> = BTreeMap::new();
        owned.iter().for_each(|one| together.entry(among(one)).or_default().push(&one.object));
        let is_free = |one: &'r Remnant| {
            let is_shared_in_use = one.origin.is_none() && in_use.contains(&place(one));
            !is_shared_in_use && !is_needed(mapping, &one.object, together[&among(one)].iter().copied())
        };
        let is_kept = |one: &Remnant| self.arguments.release || stays(mapping, &one.object);
        let is_due = |one: &&'r Remnant| is_kept(one) || !one.object.is_deleting() && is_free(one);
        owned.iter().copied().filter(is_due).collect()
    }

    async fn take_object(&self, mapping: &Mapping, writer: &Writer, one: &Remnant) -> Result<(), String> {
        let is_kept = self.arguments.release || stays(mapping, &one.object);
        let release = is_kept.then(|| unmarked(&one.object.object));
        take_away(&one.at, &one.resource, (mapping, writer), &one.object, release.as_ref()).await
    }

    /// Releases the sources of which nothing is left, until none carries anything. Gives why others do.
    async fn take_sources(&self, mapping: &Mapping, writer: &Writer, remains: Remains) -> (Remains, Vec<String>) {
        let (mut remains, mut failed, mut noted) = (remains, BTreeMap::new(), Vec::new());
        for attempt in 0..=ATTEMPTS {
            let carrying: Vec<_> = remains.sources().filter(|(.., source)| carries(mapping, writer, source)).collect();
            let (kept, free): (Vec<_>, Vec<_>) = carrying
                .into_iter()
                .map(|one| (one, self.keeps(writer, &remains, one)))
                .partition(|(_, why)| why.is_some());
            if free.is_empty() || attempt == ATTEMPTS {
                let again = || "it carries the finalizer again: does an engine run?".to_owned();
                let why =
                    |one, why: Option<String>| why.or_else(|| failed.get(&name_of(one)).cloned()).unwrap_or_else(again);
                let left =
                    kept.into_iter().chain(free).map(|(one, kept)| format!("{}: {}", name_of(one), why(one, kept)));
                noted.extend(left);
                break;
            }
            failed.clear();
            for (one, _) in free {
                match self.take_source(mapping, writer, one).await {
                    Ok(note) => noted.extend(note.map(|why| format!("the status of {}: {why}", name_of(one)))),
                    Err(why) => drop(failed.insert(name_of(one), why)),
                }
            }
            remains = self.look(mapping).await;
        }
        (remains, noted)
    }

    /// Why a source may not be released.
    fn keeps(&self, writer: &Writer, remains: &Remains, (resource, cluster, source): Served<'_>) -> Option<String> {
        let (_, origin) = cluster.identify(resource, source);
        let is_its = |one: &&Remnant| !one.is_elsewhere && one.origin.as_ref() == Some(&origin);
        let object = remains.objects.iter().find(is_its).map(|object| format!("{} is left", title(object)));
        object.or_else(|| self.unread_pin(writer, remains, source))
    }

    fn unread_pin(&self, writer: &Writer, remains: &Remains, source: &Value) -> Option<String> {
        let is_read = |connection: &str, identity: &str| {
            let lost = self.lost.as_ref().filter(|(_, found)| !matches!(found, Found::Unidentified(_)));
            lost.is_some_and(|(lost, _)| lost == connection)
                || remains.targets.values().any(|target| target.identity == *identity)
        };
        let (connection, identity) =
            pins(writer, source).into_iter().find(|(connection, identity)| !is_read(connection, identity))?;
        Some(format!("it may have objects on {connection}={identity}, which is not read"))
    }

    /// Its status first: without the finalizer, nothing would tell that it is the engine's. Gives why that one stays as it is.
    async fn take_source(
        &self,
        mapping: &Mapping,
        writer: &Writer,
        (resource, cluster, source): Served<'_>,
    ) -> Result<Option<String>, String> {
        let path = path_of(resource, source)?;
        let (key, origin) = cluster.identify(resource, source);
        let schema = self.schemas.check(&cluster.shard, resource).await.map_err(|error| error.to_string())?.schema;
        let present = Ok(Source::Present(source.clone()));
        let unseen = Err(Reason::unseen(String::new()));
        let mut observed = Observed::new(writer.clone(), key, origin, present, unseen, Timestamp::now());
        observed.phase = Phase::Leaving(OnExit::Orphan);
        observed.consumer.schema.clone_from(&schema);
        let is_held = is_held(writer, source);
        let taken = if is_held { taken_back(mapping, &observed, source) } else { None };
        let (mut now, mut refused) = (source.clone(), None);
        if let Some(Action::PatchStatus { patch, .. }) =
            taken.or_else(|| without_condition(writer, schema.as_deref(), source))
        {
            match act(&cluster.own, &path.clone().status(), writer, &patch).await {
                Ok(reply) => now = Arc::new(serde_json::from_slice(&reply.body).map_err(|error| error.to_string())?),
                Err(why) if !is_held => return Err(why),
                Err(why) => refused = Some(why),
            }
        }
        if let Action::PatchSource { patch, .. } = release_finalizer(writer, &now, Evidence::Person)
            && is_held
        {
            act(&cluster.own, &path, writer, &patch).await?;
        }
        Ok(refused)
    }

    /// What is of the engine and of no mapping, and the state stores.
    async fn finish(&mut self, uninstalled: &[(Arc<Mapping>, Remains)]) {
        let targets = uninstalled.iter().flat_map(|(_, remains)| remains.targets.values());
        let mut places: Vec<Endpoint> = targets.map(|target| target.endpoint.clone()).collect();
        // Where no state store tells any more, each cluster may be one that an interrupted run was about.
        let is_place = |name: &str| name == self.surveyor.home || uninstalled.is_empty() && name != "kcp";
        let given = self.surveyor.connections.iter().filter(|(name, _)| is_place(name) && !self.is_gone(name));
        places.extend(given.map(|(_, connection)| connection.endpoint()));
        let home = self.store(&self.surveyor.home).ok().filter(|_| !self.is_gone(&self.surveyor.home));
        if self.arguments.former {
            let stores = places.iter().map(|endpoint| self.surveyor.inventories(endpoint.clone())).collect::<Vec<_>>();
            for (mapping, _) in uninstalled {
                for store in stores.iter().filter(|_| !self.has_left(&mapping.name)).collect::<Vec<_>>() {
                    let what = format!("the state store of mapping {}", mapping.name);
                    self.note(&what, &store.endpoint, forget_former(store, &mapping.name).await);
                }
            }
            return;
        }
        if self.arguments.mapping.is_empty() {
            for endpoint in &places {
                let selector = format!("{ENGINE}={}", self.surveyor.engine);
                let found = items(endpoint, &namespaces(), Some(&selector)).await;
                let result = match found {
                    Ok(found) => self.unlabel(endpoint, &found).await,
                    Err(error) => Err(error.to_string()),
                };
                self.note("labels of namespaces", endpoint, result);
            }
            if let Some(home) = home.as_ref().filter(|_| self.left.is_empty()) {
                self.note("the Leases", &home.endpoint, election::remove(home).await);
            }
        }
        for (mapping, remains) in uninstalled {
            // Each store that is found without a provider names all targets, and the one at home is looked for first.
            let others = remains.targets.iter().filter(|(name, _)| **name != self.surveyor.home);
            let (of_fleets, others): (Vec<_>, Vec<_>) = others.partition(|(name, _)| name.contains('/'));
            let others = of_fleets
                .into_iter()
                .chain(others)
                .map(|(_, target)| self.surveyor.inventories(target.endpoint.clone()));
            for store in others.chain(home.clone()).collect::<Vec<_>>() {
                if !self.has_left(&mapping.name) {
                    let what = format!("the state store of mapping {}", mapping.name);
                    self.note(&what, &store.endpoint, store.forget(&mapping.name).await);
                }
            }
        }
        if self.arguments.mapping.is_empty() && self.left.is_empty() {
            for endpoint in &places {
                let result = self.unlabel_state_namespace(endpoint).await;
                self.note("labels of the namespace of the state store", endpoint, result);
            }
        }
    }

    /// Whether something is left of a mapping, or of all.
    fn has_left(&self, mapping: &str) -> bool {
        self.left.iter().any(|(of, _)| of.as_ref().is_none_or(|of| of == mapping))
    }

    fn note(&mut self, what: &str, endpoint: &Endpoint, result: Result<(), impl Display>) {
        if let Err(why) = result {
            self.left.push((None, format!("{what} at {}: {why}", endpoint.url())));
        }
    }

    async fn unlabel(&self, endpoint: &Endpoint, found: &[Value]) -> Result<(), String> {
        let writer = Writer::new(&self.surveyor.engine, "");
        for namespace in found {
            act(endpoint, &path_of(&namespaces(), namespace)?, &writer, &unmarked(namespace)).await?;
        }
        Ok(())
    }

    /// It has no label of one engine: several may use it.
    async fn unlabel_state_namespace(&self, endpoint: &Endpoint) -> Result<(), String> {
        let store = self.surveyor.inventories(endpoint.clone());
        let found = find(endpoint, &namespaces(), "", &store.namespace).await.map_err(|error| error.to_string())?;
        let found = found.filter(|found| found["metadata"]["labels"][MANAGED_BY] == MANAGER);
        let Some(found) = found else { return Ok(()) };
        let others = store.config_maps(&format!("{MANAGED_BY}={MANAGER}")).await.map_err(|error| error.to_string())?;
        if others.is_empty() { self.unlabel(endpoint, &[found]).await } else { Ok(()) }
    }

    fn report(mut self, exit: Exit) -> anyhow::Result<Exit> {
        progress::clear();
        if !self.left.is_empty() && !self.stores.is_empty() {
            self.left.push((None, "the state stores that name it, and the Leases: a second run needs them".to_owned()));
        }
        if self.left.is_empty() {
            terminal::print("left: nothing\n")?;
            return Ok(exit);
        }
        let lines: String = self.left.iter().map(|(_, why)| format!("  {}\n", one_line(why))).collect();
        terminal::print(&format!("left:\n{lines}"))?;
        Ok(Exit::Failure)
    }
}

/// The state store names no former source any more.
async fn forget_former(store: &Inventories, mapping: &str) -> Result<(), RequestError> {
    match store.get(mapping).await? {
        Some(found) if !found.former.is_empty() => {
            store.put(&Inventory { former: Vec::new(), ..found }).await.map(drop)
        }
        _ => Ok(()),
    }
}

const ELSEWHERE: &str = "it is in no namespace of its source, and somebody else can have made it";

/// `Widget default/a in root:acme`
fn name_of((_, cluster, source): Served<'_>) -> String {
    format!("{} in {}", sources::title(source), cluster.place())
}

fn title(one: &Remnant) -> String {
    format!("{} on {}", one.object.reference, one.place)
}

fn why_left(one: &Remnant, failed: &BTreeMap<String, String>) -> String {
    if one.is_elsewhere {
        return ELSEWHERE.to_owned();
    }
    if one.object.is_deleting() {
        let finalizers = one.object.object.pointer("/metadata/finalizers").map(Value::to_string).unwrap_or_default();
        let since = metadata(&one.object.object, "deletionTimestamp");
        return format!("it is being deleted since {since}, finalizers {finalizers}");
    }
    failed.get(&title(one)).cloned().unwrap_or_else(|| "it is deleted after objects that need it".to_owned())
}

/// Whether the engine serves a source, as the source says.
fn is_held(writer: &Writer, source: &Value) -> bool {
    has_finalizer(source, writer.finalizer()) || !pins(writer, source).is_empty()
}

/// Whether a source carries anything of a mapping.
fn carries(mapping: &Mapping, writer: &Writer, source: &Value) -> bool {
    is_held(writer, source) || !mapping.status.engine_conditions.is_empty() && says_not_selected(writer, source)
}
