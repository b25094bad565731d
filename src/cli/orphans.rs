//! `sync-engine orphans`: lists orphaned objects, and deletes or releases those that a person selects.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args};

use super::live::{Finding, LiveArguments, Outcome, no_state_store, report, say_unread, survey, take_away};
use super::{Exit, Misconfigured, ask, inputs, progress};
use crate::catalog::{Catalog, Files, Standing};
use crate::engine::DEFAULT_TARGET;
use crate::engine::consumer_schema::ConsumerSchemas;
use crate::engine::inventory::Inventory;
use crate::mapping::Mapping;
use crate::plan::{Action, Evidence, Phase, TargetObject, give_up};
use crate::survey::orphans::{Orphan, OrphanReason, orphans as find};
use crate::survey::{Surveyor, TargetCluster, Unseen, Whole};

pub(super) const AFTER_HELP: &str = "\
For example: sync-engine orphans mappings --kcp-kubeconfig kcp.kubeconfig --target-kubeconfig target.kubeconfig
             sync-engine orphans mappings --reason SourceMissing --delete
             sync-engine orphans mappings --object ConfigMap tenant/a --release --yes

Without --yes, the verb writes nothing. Before each write, it reads the object and its source again. It refuses an object whose \
source asks for it, and an object that is another, has changed, or is in no namespace of its source.

It reads targets alone. Objects beside their sources (`target: {cluster: source}`) and copies in the clusters of consumers are \
not listed: they are where consumers list and delete them themselves. The metric sync_engine_orphans counts them.

Exit codes: 0 listed or done; 1 an object was refused; 2 usage error; 3 a file or a cluster cannot be read, or a mapping is wrong.";

/// Flags of `orphans`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("selection").multiple(true))]
pub struct OrphansArguments {
    #[command(flatten)]
    pub live: LiveArguments,

    /// Include mappings whose files are gone: the state stores on the targets keep their last documents.
    #[arg(long)]
    pub retained: bool,

    /// Only objects that are orphaned for this reason. Can be repeated.
    #[arg(long, value_name = "REASON", group = "selection", value_parser = reasons())]
    pub reason: Vec<OrphanReason>,

    /// Only this object. Can be repeated.
    #[arg(long, num_args = 2, value_names = ["KIND", "[NAMESPACE/]NAME"], group = "selection")]
    pub object: Vec<String>,

    /// Delete the selected objects.
    #[arg(long, requires = "selection", conflicts_with = "release")]
    pub delete: bool,

    /// Remove the ownership labels and annotations from the selected objects. The objects stay.
    #[arg(long, requires = "selection")]
    pub release: bool,
}

fn reasons() -> impl TypedValueParser<Value = OrphanReason> {
    let known = |name: String| OrphanReason::ALL.into_iter().find(|reason| reason.as_str() == name);
    PossibleValuesParser::new(OrphanReason::ALL.map(OrphanReason::as_str))
        .try_map(move |name| known(name).ok_or("no such reason"))
}

pub(super) fn orphans(arguments: &OrphansArguments) -> anyhow::Result<Exit> {
    let (catalog, surveyor) = if arguments.retained { arguments.open_retained()? } else { arguments.live.open()? };
    let (schemas, _) = arguments.live.from.schemas()?;
    let (schemas, is_partial) = (ConsumerSchemas::new(schemas), Cell::new(false));
    let verb = Verb { arguments, surveyor: &surveyor, schemas, is_partial };
    let findings = survey(&catalog, async |mapping| verb.of_mapping(mapping).await)?;
    let exit = report(&findings, arguments.live.output)?;
    if verb.is_partial.get() && exit == Exit::Success {
        return Ok(Exit::Unchecked);
    }
    if findings.is_empty() && arguments.object.is_empty() {
        eprintln!("no such object is orphaned");
    }
    Ok(if arguments.says_what_is_not_there(&findings) { Exit::Failure } else { exit })
}

impl OrphansArguments {
    /// The mappings of files and state stores, and how to read their clusters. The file of each of them may be gone.
    fn open_retained(&self) -> anyhow::Result<(Catalog, Surveyor)> {
        let paths = &self.live.from.mappings;
        let files = inputs::only_ours(inputs::mappings_if_any(paths)?);
        let own = inputs::all_good(&files, paths)?;
        let mut surveyor = self.live.connections.surveyor_of(&self.live.which, &own)?;
        let all = ask(retained(&files, &own, &surveyor))?;
        surveyor.providers = all.provider_kinds();
        Ok((all, surveyor))
    }

    fn selects(&self, orphan: &Orphan) -> bool {
        let object = orphan.object.reference.to_string();
        let is_named = || self.named().any(|name| name == object);
        (self.reason.is_empty() || self.reason.contains(&orphan.reason))
            && (self.object.is_empty() || is_named())
            && self.live.scope.includes(&orphan.object.object)
    }

    /// `ConfigMap tenant/a`
    fn named(&self) -> impl Iterator<Item = String> {
        self.object.chunks(2).map(|words| words.join(" "))
    }

    /// Whether an object was named that is not orphaned.
    fn says_what_is_not_there(&self, findings: &[Finding]) -> bool {
        let found: BTreeSet<&str> = findings.iter().map(|finding| finding.object.as_str()).collect();
        let missing: Vec<String> = self.named().filter(|name| !found.contains(name.as_str())).collect();
        missing.iter().for_each(|name| eprintln!("refused: {name}: it is not orphaned, or not for this reason"));
        !missing.is_empty()
    }
}

/// The catalog with the mappings that only state stores know.
async fn retained(files: &Files, own: &Catalog, surveyor: &Surveyor) -> anyhow::Result<Catalog> {
    let mut targets: BTreeSet<&str> = own.mappings().map(|(_, one)| surveyor.target_name(&one.mapping)).collect();
    targets.insert(&surveyor.home);
    targets.extend(surveyor.connections.contains_key(DEFAULT_TARGET).then_some(DEFAULT_TARGET));
    let mut documents = BTreeMap::new();
    let unseen = |why: Unseen| Misconfigured(format!("the state stores cannot be read: {why}"));
    let endpoint = |name: &str| Ok((name.to_owned(), surveyor.connection(name).map_err(unseen)?.endpoint()));
    let targets = targets.into_iter().map(endpoint).collect::<Result<BTreeMap<_, _>, Misconfigured>>()?;
    for (target, stores) in surveyor.stores(&targets).await {
        let unread = |why| Misconfigured(format!("target `{target}`: the state stores cannot be read: {why}"));
        let stores = stores.map_err(unread)?;
        let of_store = |store: Inventory| (store.mapping.clone(), store.documents());
        documents.extend(stores.into_iter().map(of_store));
    }
    let (all, _) = Catalog::default().update(files, &documents);
    for (name, _) in all.mappings().filter(|(_, entry)| entry.standing == Standing::Retained) {
        progress::say(&format!("mapping `{name}`: its file is gone; its last document is read from the state store"));
    }
    if all.mappings().next().is_none() {
        progress::say(&no_state_store(surveyor, targets.keys()));
    }
    Ok(all)
}

struct Verb<'a> {
    arguments: &'a OrphansArguments,
    surveyor: &'a Surveyor,
    schemas: ConsumerSchemas,
    /// Whether there may be more than what could be read.
    is_partial: Cell<bool>,
}

impl Verb<'_> {
    async fn of_mapping(&self, mapping: &Mapping) -> Result<Vec<Finding>, Unseen> {
        let whole = self.surveyor.whole(&self.schemas, mapping).await?;
        self.is_partial.set(warn(self.surveyor, mapping, &whole) || self.is_partial.get());
        let all = find(self.surveyor, mapping, &whole).await?;
        let mut findings = Vec::new();
        for orphan in all.into_iter().filter(|orphan| self.arguments.selects(orphan)) {
            let outcome = self.outcome(mapping, &whole, &orphan).await;
            findings.push(Finding {
                outcome,
                mapping: mapping.name.clone(),
                object: orphan.object.reference.to_string(),
                source: orphan.source(),
                reason: orphan.reason.as_str(),
                why: orphan.why,
            });
        }
        Ok(findings)
    }

    async fn outcome(&self, mapping: &Mapping, whole: &Whole, orphan: &Orphan) -> Outcome {
        let words = match (self.arguments.delete, self.arguments.release) {
            (true, _) => ("delete", "deleted"),
            (_, true) => ("release", "released"),
            _ => return Outcome::Kept,
        };
        Outcome::of(self.act(mapping, whole, orphan).await, self.arguments.live.yes, words)
    }

    /// Reads both sides again, and writes if `--yes` says so.
    async fn act(&self, mapping: &Mapping, whole: &Whole, orphan: &Orphan) -> Result<(), String> {
        if orphan.reason == OrphanReason::OtherNamespace {
            return Err("it is in no namespace of its source, and somebody else can have made it".to_owned());
        }
        is_remembered(&whole.target)?;
        let fresh = self.surveyor.afresh(&self.schemas, mapping, (whole, orphan)).await;
        let fresh = fresh.map_err(|error| error.to_string())?;
        let found = find(self.surveyor, mapping, &fresh).await.map_err(|error| error.to_string())?;
        let found =
            found.into_iter().find(|one| one.object.uid() == orphan.object.uid() && one.reason == orphan.reason);
        let object = found.ok_or("it is gone, or its source asks for it now")?.object;
        if object.is_deleting() {
            return Err("it is being deleted already".to_owned());
        }
        if self.arguments.live.yes { self.write(mapping, &fresh.target, &object).await } else { Ok(()) }
    }

    async fn write(&self, mapping: &Mapping, target: &TargetCluster, object: &TargetObject) -> Result<(), String> {
        let served = target.kinds.get(&object.reference.kind).ok_or("its kind is not served")?;
        let served = served.as_ref().map_err(ToString::to_string)?;
        let writer = self.surveyor.writer(mapping);
        let release = match give_up(object, Evidence::Person) {
            Action::GiveUp { patch, .. } if self.arguments.release => Some(patch),
            _ => None,
        };
        take_away(&target.endpoint, &served.resource, (mapping, &writer), object, release.as_ref()).await
    }
}

/// The state store names the sources of earlier documents. Without it, a source can exist that nobody has looked for.
fn is_remembered(target: &TargetCluster) -> Result<(), String> {
    match &target.inventory {
        Err(why) => Err(why.clone()),
        Ok(store) if store.mapping.is_empty() => {
            Err("the target holds no state store of the mapping, which names the sources of earlier documents"
                .to_owned())
        }
        Ok(_) => Ok(()),
    }
}

/// What keeps objects out of the list. Gives whether something cannot be read.
fn warn(surveyor: &Surveyor, mapping: &Mapping, whole: &Whole) -> bool {
    if mapping.is_beside() {
        progress::say(&format!("mapping `{}`: objects beside their sources are not listed", mapping.name));
    }
    say_unread(surveyor, mapping, whole, Phase::DeletionsOnly)
}
