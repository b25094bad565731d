//! How many sources have orphaned objects, by the world's own records.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::checker::state_store;
use super::mapping::{Mapping, Spread};
use super::process::Process;
use super::records::{Made, finalizer, is_sent_to};
use super::server::Side;
use super::world::{File, SourceKey, World, text};

/// Mappings whose objects a process takes away from living sources, for it saw their file go. A removal that is held waits.
pub fn leaving(world: &World, process: &Process) -> BTreeSet<&'static str> {
    let is_leaving = |name: &&&'static str| {
        let last = world.shared.lock().checker.last_of(name).cloned();
        let is_held = world.get(Side::Target, &state_store(&format!("{name}.held"))).is_some();
        last.is_some_and(|last| last.on_mapping_removed != "Retain") && !is_held
    };
    process.removed.iter().filter(is_leaving).copied().collect()
}

/// Mappings whose published count is not what the records say.
pub fn miscounts(world: &World, leaving: &BTreeSet<&str>, published: &BTreeMap<String, i64>) -> Vec<String> {
    let expected = expected(world, leaving);
    let miscount = |(label, counted): (&String, &i64)| {
        let mapping = label.trim_start_matches("mapping=\"").trim_end_matches('"');
        let of: Vec<&String> = expected.iter().filter(|(name, _)| name == mapping).map(|(_, owner)| owner).collect();
        let text = || format!("{counted} sources of {mapping} are counted as orphaned, but there are {of:?}");
        (of.len() as i64 != *counted).then(text)
    };
    published.iter().filter_map(miscount).collect()
}

/// Sources with orphaned objects, each with its mapping. Two resources may have sources of one name.
fn expected(world: &World, leaving: &BTreeSet<&str>) -> BTreeSet<(String, String)> {
    let sources = world.sources();
    let identity = |key: &SourceKey| (key.cluster.clone(), world.identity(&key.cluster));
    let identities: BTreeMap<String, String> = sources.keys().map(identity).collect();
    let made_for: BTreeSet<String> =
        world.shared.lock().checker.made.values().map(|made| made.owner.cluster.clone()).collect();
    let claimed: BTreeSet<String> = made_for.into_iter().filter(|cluster| world.is_claimed(cluster)).collect();
    let plain = world.identity("plain");
    let core = world.shared.lock();
    let resource_of = |made: &Made| core.checker.sources.get(&made.source_uid).map_or("", |source| &source.resource);
    let orphaned = core.checker.made.values().filter(|made| {
        let is_owner = |key: &SourceKey| {
            key.name == made.owner.name
                && key.resource == resource_of(made)
                && identities.get(&key.cluster).is_some_and(|identity| *identity == made.owner.cluster)
        };
        let source = sources.iter().find(|(key, _)| is_owner(key)).map(|(_, source)| source);
        let leaves = leaving.contains(made.owner.mapping.as_str());
        let is_orphaned = |source: &Value| {
            let governing = core.checker.governing(Some(&world.mapping), made);
            // A mapping that is suspended, or retained without its file, does not look at living sources.
            let is_in_file = made.owner.mapping == world.mapping.name && world.file != File::Missing;
            (leaves || is_in_file && world.mapping.mode != "Suspend" || is_deleting(source))
                && governing.is_some_and(|mapping| is_orphaned(world, mapping, leaves, made, source))
        };
        // What beside its source cannot be seen, or is of a kind that is looked at no more, is not counted.
        // Nor is what came late into the cluster that took the place of its source's.
        let is_at_home = world.plan.is_kcp || made.owner.cluster == plain;
        let is_watched = claimed.contains(&made.owner.cluster) && !core.checker.is_forgotten(made);
        let is_seen = made.side.is_target() || is_watched && is_at_home;
        made.owner.engine == "main" && !made.is_shared && made.remains() && is_seen && source.is_none_or(is_orphaned)
    });
    orphaned.map(|made| (made.owner.mapping.clone(), format!("{} {}", resource_of(made), made.owner))).collect()
}

fn is_deleting(source: &Value) -> bool {
    !source["metadata"]["deletionTimestamp"].is_null()
}

/// Whether an object is orphaned although there is a source of its name. `leaves`: for all sources, its mapping is removed.
fn is_orphaned(world: &World, mapping: &Mapping, leaves: bool, made: &Made, source: &Value) -> bool {
    let finalizers = source["metadata"]["finalizers"].to_string();
    let is_its_own = text(source, "uid") == made.source_uid;
    let is_named = is_sent_to(source, made.side);
    // Of several targets, the finalizer is about those that the source names.
    let is_held = finalizers.contains(&finalizer(&made.owner.engine, &made.owner.mapping))
        && (mapping.spread == Spread::One || is_named);
    // A source may name fewer targets than have objects of it. Where it has one, the one that it names counts.
    let names_one = || [Side::Target, Side::Second].iter().any(|side| is_sent_to(source, *side));
    let stays_elsewhere = || mapping.spread == Spread::Choice && names_one();
    let is_given = || is_named || mapping.sides(source).contains(&made.side) && !stays_elsewhere();
    let is_forgotten = || mapping.spread != Spread::One && !is_given();
    match mapping.selects(source) && !leaves {
        _ if is_deleting(source) => is_held && !is_its_own,
        true if is_its_own => world.has_forgotten_targets() && is_forgotten(),
        // What an earlier source has on a target that it names, and that is to lose what is there of it.
        true => is_held && mapping.may_leave_targets() && !mapping.sides(source).contains(&made.side),
        false => is_held != is_its_own,
    }
}
