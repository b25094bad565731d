//! What the engine would do now for one source: the planner is followed to its end, reads are made, writes imagined.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::{SourceCluster, Surveyor, TargetCluster, object};
use crate::mapping::schema::Schema;
use crate::mapping::{Kind, Mapping, Mode, Resource};
use crate::multicluster::RequestError;
use crate::object::marks::{self, Owner, Reference};
use crate::object::{Key, has_finalizer, metadata};
use crate::plan::{
    Action, Evidence, MAX_ROUNDS, Observed, Outcome, Phase, Plan, Rest, Shared, Source, Standing, Target, plan,
    rehearsal, render,
};

/// What would be done for a source.
pub struct Rehearsed {
    /// The writes in their order, each with what stood there before.
    pub writes: Vec<(Action, Option<Arc<Value>>)>,
    /// The source as it is, and as it would be.
    pub source: (Arc<Value>, Arc<Value>),
    /// Where its objects would stand; `None`: it would have none.
    pub namespace: Option<String>,
    pub rest: Option<Rest>,
}

/// What would be done for a source that is gone.
pub struct Departed {
    pub writes: Vec<Action>,
    pub rest: Option<Rest>,
}

/// Follows the plan of one source to its end.
///
/// # Errors
/// Of a look at the target.
pub async fn rehearse(
    surveyor: &Surveyor,
    mapping: &Mapping,
    cluster: &SourceCluster,
    target: &TargetCluster,
    schema: Option<Arc<Schema>>,
    source: &Arc<Value>,
) -> Result<Rehearsed, RequestError> {
    let mut observed = observed(surveyor, mapping, cluster, target, schema, source);
    let (writes, rest) = follow(mapping, target, &mut observed).await?;
    let after = match &observed.source {
        Source::Present(after) => after.clone(),
        _ => source.clone(),
    };
    let namespace = has_finalizer(&after, observed.writer.finalizer()).then(|| namespace(mapping, &observed, &after));
    Ok(Rehearsed { writes, source: (source.clone(), after), namespace: namespace.flatten(), rest })
}

/// Follows the plan of a source that is not there.
///
/// # Errors
/// Of a look at the target.
pub async fn rehearse_gone(
    surveyor: &Surveyor,
    mapping: &Mapping,
    target: &TargetCluster,
    key: Key,
    evidence: Evidence,
) -> Result<Departed, RequestError> {
    let mut observed = Observed {
        phase: phase(mapping),
        ..Observed::new(surveyor.writer(mapping), key, Source::Missing, known(target), Timestamp::now())
    };
    observed.owned = standing(target, &observed.owner);
    observed.learned.evidence = Some(evidence);
    let (writes, rest) = follow(mapping, target, &mut observed).await?;
    Ok(Departed { writes: writes.into_iter().map(|(action, _)| action).collect(), rest })
}

/// The writes, each with what stood there before, and why there are no more.
async fn follow(mapping: &Mapping, target: &TargetCluster, observed: &mut Observed) -> Result<Followed, RequestError> {
    let mut writes = Vec::new();
    let mut rest = None;
    for _ in 0..MAX_ROUNDS {
        let (actions, last) = match plan(mapping, observed) {
            Plan::Act(actions) => (actions, None),
            Plan::Last(action, rest) => (vec![*action], Some(rest)),
            Plan::Rest(found) => {
                rest = Some(found);
                break;
            }
        };
        for action in actions {
            let before = before(&action, observed);
            let outcome = match rehearsal::imagined(&action, observed) {
                None => read(target, observed, &action).await?,
                Some(outcome) => {
                    if !is_there_already(target, &action).await? {
                        writes.push((action.clone(), before));
                    }
                    outcome
                }
            };
            observed.absorb(&action, outcome);
        }
        if last.is_some() {
            rest = last;
            break;
        }
    }
    Ok((writes, rest))
}

type Followed = (Vec<(Action, Option<Arc<Value>>)>, Option<Rest>);

fn phase(mapping: &Mapping) -> Phase {
    if mapping.mode == Mode::Suspend { Phase::DeletionsOnly } else { Phase::Active }
}

fn known(target: &TargetCluster) -> Target {
    let kinds = target.kinds.iter().map(|(kind, served)| (kind.clone(), served.clone().map(drop)));
    Target::Known { identity: target.identity.clone(), kinds: Arc::new(kinds.collect()) }
}

/// The namespace that a source's objects go to, as far as it can be told.
fn namespace(mapping: &Mapping, observed: &Observed, source: &Arc<Value>) -> Option<String> {
    render::place(mapping, observed, source).ok().map(|place| place.namespace)
}

fn observed(
    surveyor: &Surveyor,
    mapping: &Mapping,
    cluster: &SourceCluster,
    target: &TargetCluster,
    schema: Option<Arc<Schema>>,
    source: &Arc<Value>,
) -> Observed {
    let key = Key::new(cluster.name.clone(), metadata(source, "namespace"), metadata(source, "name"));
    let present = Source::Present(source.clone());
    let mut observed = Observed {
        phase: phase(mapping),
        workspace_path: cluster.path.clone(),
        schema,
        ..Observed::new(surveyor.writer(mapping), key, present, known(target), Timestamp::now())
    };
    observed.owned = standing(target, &observed.owner);
    if let Some(namespace) = namespace(mapping, &observed, source) {
        observed.shared = Shared::of(standing(target, &observed.writer.shared_owner(&namespace)));
        let stands = observed.owned.iter().chain(observed.shared.all()).any(|one| one.reference.namespace == namespace);
        observed.namespaces.extend(stands.then_some(namespace));
    }
    observed
}

/// What carries an owner and a true self mark.
fn standing(target: &TargetCluster, owner: &Owner) -> Vec<Standing> {
    let all = target.standing.iter().flat_map(|(kind, objects)| objects.iter().map(move |object| (kind, object)));
    all.filter_map(|(kind, object)| ours(kind, object, owner)).collect()
}

fn ours(kind: &Kind, object: &Arc<Value>, owner: &Owner) -> Option<Standing> {
    let text = |field| metadata(object, field).to_owned();
    let reference = Reference { kind: kind.clone(), namespace: text("namespace"), name: text("name") };
    marks::is_ours(object, &reference, owner).then(|| Standing::new(reference, object.clone()))
}

fn before(action: &Action, observed: &Observed) -> Option<Arc<Value>> {
    let reference = action.reference()?;
    let all = observed.owned.iter().chain(observed.shared.all());
    all.into_iter().find(|one| one.reference == *reference).map(|one| one.object.clone())
}

/// The looks that the engine would make.
async fn read(target: &TargetCluster, observed: &Observed, action: &Action) -> Result<Outcome, RequestError> {
    match action {
        Action::Look { reference } => look(target, reference).await,
        Action::Sweep { owners, .. } => {
            let found = owners.iter().flat_map(|owner| standing(target, &Owner(owner.clone())));
            // What this rehearsal has taken away is gone for it.
            let stands = |one: &Standing| {
                observed.owned.iter().chain(observed.shared.all()).any(|o| o.reference == one.reference)
            };
            Ok(Outcome::Found(found.filter(stands).collect()))
        }
        _ => Ok(Outcome::Absent),
    }
}

async fn look(target: &TargetCluster, reference: &Reference) -> Result<Outcome, RequestError> {
    let Some(Ok(served)) = target.kinds.get(&reference.kind) else { return Ok(Outcome::Absent) };
    match object(&target.endpoint, &served.resource, &reference.namespace, &reference.name).await {
        Ok(found) => Ok(Outcome::Object(Arc::new(found))),
        Err(error) if error.is_not_found_of(&reference.name) => Ok(Outcome::Absent),
        Err(error) => Err(error),
    }
}

/// The engine makes a namespace without asking; one that exists is no change.
async fn is_there_already(target: &TargetCluster, action: &Action) -> Result<bool, RequestError> {
    let Action::CreateNamespace { name, .. } = action else { return Ok(false) };
    let namespaces = Resource { group: String::new(), version: "v1".into(), plural: "namespaces".into() };
    match object(&target.endpoint, &namespaces, "", name).await {
        Ok(_) => Ok(true),
        // An engine with the least rights may make namespaces, and not look at them.
        Err(error) if error.is_not_found_of(name) || error.is_forbidden() => Ok(false),
        Err(error) => Err(error),
    }
}
