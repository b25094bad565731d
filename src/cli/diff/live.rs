//! What the engine would change on live clusters now.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::DiffArguments;
use super::change::{self, Change, What};
use crate::cli::live::{say_unread, survey};
use crate::cli::{inputs, progress, sources};
use crate::engine::consumer_schema::ConsumerSchemas;
use crate::mapping::Mapping;
use crate::object::has_finalizer;
use crate::plan::Phase;
use crate::release::{Effect, Followed, Now, Rehearsal};
use crate::survey::orphans::{Orphan, orphans};
use crate::survey::{Rehearsed, Surveyor, Whole};

/// The changes, and whether there may be more than what could be read.
pub(super) fn changes(arguments: &DiffArguments, path: &Path) -> anyhow::Result<(Vec<Change>, bool)> {
    let catalog = inputs::sound(&[path.to_owned()])?;
    let (schemas, _) = inputs::schemas(arguments.schemas.as_deref(), &arguments.mappings)?;
    let surveyor = arguments.connections.surveyor_of(&arguments.which, &catalog)?;
    let schemas = ConsumerSchemas::new(schemas);
    let is_partial = Cell::new(false);
    let changes =
        survey(&catalog, async |mapping| of_mapping(arguments, &surveyor, &schemas, mapping, &is_partial).await)?;
    Ok((changes, is_partial.get()))
}

async fn of_mapping(
    arguments: &DiffArguments,
    surveyor: &Surveyor,
    schemas: &ConsumerSchemas,
    mapping: &Mapping,
    is_partial: &Cell<bool>,
) -> anyhow::Result<Vec<Change>> {
    let whole = surveyor.whole(schemas, mapping).await?;
    if say_unread(surveyor, mapping, &whole, Phase::of(mapping.mode)) {
        is_partial.set(true);
    }
    let release = told(surveyor, schemas, mapping, &whole).await?;
    change::of_mode(mapping).iter().chain(&release).for_each(|told| progress::say(told));
    // One target was looked at, and to the plan the others are no clusters.
    let tells_of_others = mapping.has_several_targets();
    if tells_of_others {
        progress::say(&format!("mapping `{}`: the status is not compared: it tells of all targets", mapping.name));
    }
    let mut changes = Vec::new();
    for rehearsed in whole.rehearsed.iter().filter(|one| arguments.scope.includes(&one.source.0)) {
        let title = title(rehearsed);
        let of = (mapping.name.as_str(), title.as_str());
        changes.extend(change::of_writes(of, "", &rehearsed.writes));
        let [before, after] = [&rehearsed.source.0, &rehearsed.source.1];
        changes.extend(change::of_status(of, before, after).filter(|_| !tells_of_others));
        changes.extend(change::of_rest(of, &rehearsed.writes, rehearsed.rest.as_ref()));
    }
    let orphans = orphans(surveyor, mapping, &whole).await?;
    let orphans = orphans.iter().filter(|orphan| arguments.scope.includes(&orphan.object.object));
    changes.extend(orphans.map(|orphan| of_orphan(mapping, orphan)));
    Ok(changes)
}

/// What the release of the mapping would come to for all its sources, in the words of the engine. `None`: it does what the
/// document in force does.
async fn told(
    surveyor: &Surveyor,
    schemas: &ConsumerSchemas,
    mapping: &Mapping,
    whole: &Whole,
) -> anyhow::Result<Option<String>> {
    let Some((in_force, before)) = surveyor.by_document_in_force(schemas, mapping, whole).await? else {
        return Ok(None);
    };
    let finalizer = surveyor.writer(mapping).finalizer().to_owned();
    let mut release = Rehearsal::default();
    release.asks_servers = true;
    for (after, before) in whole.rehearsed.iter().zip(&before) {
        let [followed, before] = [after, before].map(|one| Followed::new(&one.writes, one.rest.clone()));
        let now = match has_finalizer(&after.source.0, &finalizer) {
            true => Now::InSync,
            false => Now::NotServed,
        };
        release.paths.insert(after.key.cluster.clone(), after.place.clone());
        release.add(&mapping.target, after.key.clone(), Effect::of(now, &followed, &[before]));
    }
    // Sources of a namespace can share a copy.
    let beside = whole.rehearsed.iter().flat_map(|one| one.beside.iter().map(move |at| (&one.key.cluster, at)));
    let copies = beside.collect::<BTreeSet<_>>().len();
    let kinds = whole.target.kinds_of(mapping, Phase::of(mapping.mode)).into_iter();
    release.objects = kinds.filter_map(|kind| whole.target.standing.get(kind)).map(Vec::len).sum::<usize>() + copies;
    let held = release.excess(&in_force.release);
    let held = held.map(|why| format!("\nmapping `{}`: the engine would hold this: {why}", mapping.name));
    Ok(Some(format!("mapping `{}`: {release}{}", mapping.name, held.unwrap_or_default())))
}

/// An object that no source asks for.
fn of_orphan(mapping: &Mapping, orphan: &Orphan) -> Change {
    let (source, object) = (orphan.source(), orphan.object.reference.to_string());
    let change = Change::new(What::Orphan, (&mapping.name, &source, &object), (Value::Null, Value::Null));
    Change { why: Some(orphan.why.clone()), ..change }
}

/// `Widget default/a of root:acme`
fn title(rehearsed: &Rehearsed) -> String {
    format!("{} of {}", sources::title(&rehearsed.source.0), rehearsed.place)
}
