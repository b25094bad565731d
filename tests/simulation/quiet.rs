//! What an engine asks for in a world where nothing happens any more.

use serde_json::Value;

use super::action::{Action, Forever, LONGEST, Meddling, SourceRef, TENANTS};
use super::checker::{LEASES, RECORDS};
use super::server::{RESOURCES, Side};
use super::world::{File, World};

/// How often one request may be repeated meanwhile, by its backoff.
const REPEATED: usize = 10;

/// How often a watch may start over in the time that faults are felt.
const CAUGHT_UP: usize = 3;

/// Watches of Secrets at one server: of originals and of copies, of the mapping and of one whose name it had.
const WATCHES_OF_SECRETS: usize = 4;

/// How often a process looks in that time whether home has the record of an open release still.
const LOOKED_AGAIN: usize = 2;

/// How often a process asks in that time whether an address still answers of which it hears nothing else: once a minute.
const SILENT_MINUTES: usize = 2;

/// How often a source is planned anew where a list came: while it is confirmed that the cluster is the same, and after that.
const PLANNED: usize = 2;

/// Waits that no event can end, by the reason in the condition `Synced`.
const TIMED: [&str; 3] = ["Conflict", "Refused", "RequestFailed"];

/// Reasons that the engine names before `Refused` and `Conflict`, where a source has both.
const WORSE: [&str; 5] = ["TargetChanged", "RenderFailed", "IdentityChanged", "Recreated", "Orphaned"];

/// Judges what was asked for since the world was quiet, and what timers found until now.
pub fn check(world: &World) {
    let (is_held_up, is_unbound, forever) = (is_held_up(world), is_unbound(world), world.plan.forever);
    let core = &mut *world.shared.lock();
    let asked = std::mem::take(&mut core.checker.asked);
    // What watches missed is read again when they time out.
    let catches_up = core.checker.is_troubled_still(core.age());
    let was_silenced = core.checker.was_kept_in_the_dark();
    // A source with a large text is read for each of its plans.
    let lists: usize = asked.iter().filter(|(request, _)| request.starts_with("list ")).map(|(_, times)| times).sum();
    let is_wrong = |(request, times): &(&String, &usize)| {
        let (request, server) = request.rsplit_once(" at ").unwrap_or_default();
        let is_away = server == Side::Second.name() && forever == Some(Forever::Second);
        // What a silent watch still shows is deleted again, where a workspace is unbound in vain.
        let is_hidden = catches_up && was_silenced && request.starts_with("delete ");
        let is_awaited = is_held_up || is_hidden || (is_unbound && request.starts_with("list /services/apiexport/"));
        // Of this name are the object `ca` of one source and the object `main` of another; and each source that is being deleted
        // asks whether a kind still has its definition. Each has its own backoff, in each process.
        let is_of_two = request.ends_with("/x-ca") || request.contains("/customresourcedefinitions/");
        let askers = if is_of_two { 2 } else { 1 } * world.processes.len();
        // Originals and copies are watched apart, and a mapping that has left its name watches them too.
        let watches = if request.ends_with("/secrets") { WATCHES_OF_SECRETS } else { 1 };
        let most =
            if is_awaited { REPEATED * askers } else { CAUGHT_UP * world.plan.shards() * usize::from(catches_up) };
        let is_of_releases = request.ends_with(&format!("/namespaces/{RECORDS}/configmaps"));
        let looks = match request {
            "get /version" => SILENT_MINUTES * world.plan.shards(),
            _ if is_of_releases => LOOKED_AGAIN,
            _ => 0,
        };
        let looks = looks * world.processes.len();
        let is_of_source = RESOURCES.iter().any(|(plural, _)| request.contains(&format!("/{plural}/")));
        let reads = if request.starts_with("get ") && is_of_source { PLANNED * lists } else { 0 };
        let most = (most * watches).max(looks) + reads;
        !is_away && !is_routine(request) && **times > most
    };
    let wrong: Vec<_> =
        asked.iter().filter(is_wrong).map(|(request, times)| format!("{times} times {request}")).collect();
    if !wrong.is_empty() {
        core.checker.violated("I5", format!("a quiet world is asked for {}", wrong.join(", ")));
    }
    // A source that vanished counts as deleted after a while: no event tells when that is over.
    let vanishes = core.checker.ever(|mapping| mapping.on_source_vanished == "Delete");
    // The engine itself refuses a name that no server takes.
    let is_long = |source: SourceRef| source.name.len() == LONGEST;
    let creates_long = |action| matches!(action, Action::Create(source) | Action::Recreate(source) if is_long(source));
    let has_refused = core.checker.has_refused || world.plan.has(creates_long);
    let has_holds = world.plan.has(|action| matches!(action, Action::Meddle(_, Meddling::Hold)));
    // What was stripped is in no watch: a create finds it, though it may be known as made for an earlier source.
    let is_unseen = core.checker.made.values().any(|made| made.stripped && !made.gone);
    let is_timed = |reason: &str| {
        // A deletion that a silent watch does not tell is asked for again.
        let may_hide = has_refused || was_silenced;
        let is_hidden = (may_hide && WORSE.contains(&reason)) || (is_unseen && reason == "Recreated");
        // There, `stuckAfter` is a minute: what a finalizer of people holds is told as stuck when that is over.
        let is_stuck = vanishes && has_holds && reason == "Deleting";
        TIMED.contains(&reason) || is_hidden || is_stuck || (vanishes && reason == "Orphaned")
    };
    for process in world.processes.values() {
        for (labels, writes) in process.figures("sync_engine_timer_writes_total") {
            let reason = labels.split_once("waited_for=\"").and_then(|(_, rest)| rest.split_once('"'));
            if !reason.is_some_and(|(reason, _)| is_timed(reason)) {
                core.checker.violated("I6", format!("{writes} writes of a timer where an event would do: {labels}"));
            }
        }
        for metric in ["sync_engine_sources_not_synced", "sync_engine_held"] {
            let counted = process.figures(metric).into_iter().find(|(_, figure)| *figure > 0);
            if let Some((labels, figure)) = counted.filter(|_| !process.leads()) {
                core.checker.violated("I6b", format!("a replica that stands by says {metric} {figure}: {labels}"));
            }
        }
    }
}

/// Whether anything is not as the mapping says, so that the engine has to look again.
pub fn is_held_up(world: &World) -> bool {
    let is_in_order = |source: &Value| {
        let conditions = source["status"]["conditions"].as_array().into_iter().flatten();
        // Each engine writes one of its own.
        let mut synced = conditions.filter(|one| one["type"].as_str().is_some_and(|name| name.ends_with("Synced")));
        synced.all(|synced| synced["status"] == "True")
    };
    world.file != File::Whole || world.plan.forever.is_some() || !world.sources().values().all(is_in_order)
}

/// Whether a shard has no workspace that binds the export: it serves no resource of it there that could be watched.
fn is_unbound(world: &World) -> bool {
    let is_served = TENANTS.map(|tenant| world.is_served(&world.cluster(tenant)));
    let tenants_of_shards = if world.plan.shards() == 1 { vec![&is_served[..]] } else { is_served.chunks(1).collect() };
    tenants_of_shards.into_iter().any(|tenants| !tenants.contains(&true))
}

/// What no watch tells: the schemas of APIs, which kinds are served, the identity of a cluster after a watch started over,
/// and the state store, while it names former sources or kinds.
fn is_routine(request: &str) -> bool {
    let is_store = request.contains(&format!("/namespaces/{RECORDS}/configmaps/"));
    let is_discovery = request.contains("/openapi") || request.ends_with("/v1");
    let is_identity = request.ends_with("/namespaces/kube-system") || request.ends_with("/namespaces/default");
    is_store || is_discovery || is_identity || request.contains(&format!("/{LEASES}"))
}
