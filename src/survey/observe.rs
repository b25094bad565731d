//! What the engine would do now for one source: the planner is followed to its end, reads are made, writes imagined.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::{SourceCluster, Standing, Surveyor, TargetCluster, by_namespace, find, items, list};
use crate::engine::inventory::namespaces;
use crate::engine::target::Unserved;
use crate::engine::{SharedUse, Use, Uses};
use crate::mapping::schema::Schema;
use crate::mapping::{Kind, Mapping, Mode, Side, placement};
use crate::multicluster::{ApiPath, Endpoint, RequestError};
use crate::object::claims::READ;
use crate::object::marks::{self, Owner, Reference};
use crate::object::{Key, has_finalizer, is_deleting, metadata};
use crate::plan::rehearsal::Imagined;
use crate::plan::targets::TargetContext;
use crate::plan::{
    Action, Cause, Consumer, Intent, Kinds, MAX_ROUNDS, Observed, Original, Outcome, Phase, Pick, Pin, Reason, Reasons,
    Source, TargetObject, plan, rehearsal, render,
};

/// What would be done for a source.
pub struct Rehearsed {
    /// The writes in their order.
    pub writes: Vec<Imagined>,
    /// The source as it is, and as it would be.
    pub source: (Arc<Value>, Arc<Value>),
    pub key: Key,
    /// The workspace or cluster of the source, for people.
    pub place: String,
    /// What stands beside the source now.
    pub beside: BTreeSet<Reference>,
    /// What it would use of what sources share.
    pub uses: Uses,
    pub rest: Option<Reasons>,
}

/// What the plans of a cluster's sources depend on.
pub struct Scene<'a> {
    pub surveyor: &'a Surveyor,
    pub mapping: &'a Mapping,
    pub cluster: &'a SourceCluster,
    pub target: &'a TargetCluster,
    /// What each source uses; `None`: it is not known yet.
    pub shared: Option<&'a SharedUse>,
    pub schema: Option<Arc<Schema>>,
    /// The copies beside the sources.
    pub copies: Standing,
}

impl Surveyor {
    /// The copies beside the sources of a cluster, where it lets the engine see them: one list of each kind serves all sources.
    pub async fn copies(&self, mapping: &Mapping, cluster: &SourceCluster) -> Result<Standing, RequestError> {
        let label = format!("{}={}", marks::MAPPING, self.writer(mapping).label());
        let mut copies = Standing::new();
        for kind in beside(mapping) {
            let resource = kind.resource(&kind.plural());
            let lacking =
                cluster.claims.as_ref().and_then(|claims| claims.lacking(&resource, mapping.verbs_beside(&resource)));
            if lacking.is_none() {
                copies.insert(kind.clone(), by_namespace(items(&cluster.own, &resource, Some(&label)).await?));
            }
        }
        Ok(copies)
    }
}

impl Scene<'_> {
    /// Follows the plan of one source to its end.
    ///
    /// # Errors
    /// Of a look at the target.
    pub async fn rehearse(&self, source: &Arc<Value>) -> Result<Rehearsed, RequestError> {
        let mut observed = self.observed(source);
        let namespace = [observed.subject.key.namespace.to_string()].into();
        let copies = standing_in(&self.copies, &namespace);
        let copies = copies.filter_map(|(at, object)| observed.recognize(&at, object));
        let copies: Vec<TargetObject> = copies.collect();
        let beside = copies.iter().map(|one| one.reference.clone()).collect();
        observed.objects.extend(copies);
        let (writes, rest) = self.follow(&mut observed).await?;
        let after = observed.present().unwrap_or(source).clone();
        let places = || render::places_in_use(self.mapping, &observed, &after);
        let holds = has_finalizer(&after, observed.subject.writer.finalizer());
        let way = if is_deleting(&after) { Use::Leaves } else { Use::Needs };
        Ok(Rehearsed {
            uses: Uses { places: holds.then(places).unwrap_or_default(), way },
            key: observed.subject.key,
            beside,
            writes,
            source: (source.clone(), after),
            place: self.cluster.place().to_owned(),
            rest,
        })
    }

    /// The target at hand, of several. The others are not looked at.
    fn among(&self) -> TargetContext {
        let name = self.surveyor.target_name(self.mapping).to_owned();
        TargetContext { selected: Arc::new([name.clone()].into()), name, ..TargetContext::default() }
    }

    fn observed(&self, source: &Arc<Value>) -> Observed {
        let Self { surveyor, mapping, cluster, target, .. } = *self;
        let (key, origin) = cluster.identify(&mapping.source.resource, source);
        let (source, kinds) = (Ok(Source::Present(source.clone())), Ok(known(mapping, target)));
        let mut observed = Observed::new(surveyor.writer(mapping), key, origin, source, kinds, Timestamp::now());
        observed.phase = Phase::of(mapping.mode);
        observed.consumer.path.clone_from(&cluster.path);
        observed.consumer.claims.clone_from(&cluster.claims);
        observed.consumer.is_read_alone = mapping.mode == Mode::Observe;
        observed.consumer.is_selected =
            Consumer::selection(mapping.source.selects(cluster.name.as_str(), &cluster.traits));
        observed.consumer.schema.clone_from(&self.schema);
        observed.target.url = Some(target.endpoint.url().to_owned());
        let connection = surveyor.target_name(mapping).to_owned();
        observed.target.pin = Some(Pin { connection, identity: target.identity.clone() });
        observed.among = mapping.target_rule.as_ref().map(|_| self.among());
        let former = target.inventory.iter().flat_map(|store| &store.placements);
        let former: Vec<_> = former.filter_map(|text| placement::rule(text)).map(Arc::new).collect();
        observed.target.places = render::namespaces(mapping, &former, &observed);
        let kinds = target.kinds_of(mapping, observed.phase);
        let there = standing_in(&target.standing, &observed.target.places).filter(|(at, _)| kinds.contains(&at.kind));
        observed.objects = there.filter_map(|(at, object)| observed.recognize(&at, object)).collect();
        let used = observed.objects.iter().map(|one| one.reference.namespace.clone());
        observed.target.namespaces = used.filter(|namespace| observed.target.places.contains(namespace)).collect();
        if let Some(shared) = self.shared {
            let standing = observed.objects.shared().map(TargetObject::shared_place);
            let places = observed.target.places.iter().cloned().chain(standing);
            let in_use = |place: String| Some((shared.is_kept(&place, &observed.subject.key)?, place));
            let known: Vec<_> = places.filter_map(in_use).collect();
            observed.objects.in_use = known.into_iter().map(|(in_use, place)| (place, in_use)).collect();
        }
        observed
    }

    /// The writes, and why there are no more.
    async fn follow(&self, observed: &mut Observed) -> Result<Followed, RequestError> {
        let mut writes = Vec::new();
        for _ in 0..MAX_ROUNDS {
            let (actions, rest) = plan(self.mapping, observed).into_steps();
            for action in actions {
                let outcome = match rehearsal::imagined(&action, observed) {
                    None => self.read(observed, &action).await?,
                    Some(_) if self.is_taken(&action).await? => self.look(action.reference()).await?,
                    Some(outcome) => {
                        if !is_there_already(self.target, &action).await? {
                            writes.push(Imagined::new(&action, observed, &outcome));
                        }
                        outcome
                    }
                };
                observed.absorb(&action, outcome);
            }
            if rest.is_some() {
                return Ok((writes, rest));
            }
        }
        Ok((writes, None))
    }

    /// The uncached reads that the engine would make.
    async fn read(&self, observed: &Observed, action: &Action) -> Result<Outcome, RequestError> {
        let owners = match action {
            Action::Read(original) | Action::ReadAnew(original) => return self.original(original).await,
            Action::Sweep { owners, .. } => owners,
            _ => return Ok(Outcome::Absent),
        };
        let is_owners = |at: &Reference, object: &Value| {
            owners.iter().any(|owner| marks::is_ours(object, at, &Owner(owner.clone())))
        };
        // What this rehearsal has deleted is gone for it.
        let exists = |one: &TargetObject| observed.objects.iter().any(|other| other.reference == one.reference);
        Ok(Outcome::Found(owned(self.target, is_owners).into_iter().filter(exists).collect()))
    }

    async fn original(&self, original: &Original) -> Result<Outcome, RequestError> {
        let Original { side, resource, namespace, pick } = original;
        let claims = self.cluster.claims.as_ref().filter(|_| *side == Side::Source);
        let wanted = self.mapping.verbs_beside(resource);
        if let Some(detail) = claims.and_then(|claims| claims.lacking_of(resource, READ, wanted)) {
            return Ok(Outcome::Seen(Err(Reason { cause: Cause::ClaimNotAccepted, detail })));
        }
        let endpoint = self.endpoint(*side);
        let found = match pick {
            Pick::Name(name) => Vec::from_iter(find(endpoint, resource, namespace, name).await?),
            Pick::Labels(labels) => {
                let path = ApiPath::collection(resource, namespace)?.query("labelSelector", labels);
                // Of a source without a namespace, the server lists those of all.
                let all = list(endpoint, &path).await?;
                all.into_iter().filter(|object| metadata(object, "namespace") == namespace).collect()
            }
        };
        Ok(Outcome::Seen(Ok(found.into_iter().map(Arc::new).collect())))
    }

    fn endpoint(&self, side: Side) -> &Endpoint {
        match side {
            Side::Target => &self.target.endpoint,
            Side::Source => &self.cluster.own,
        }
    }

    /// Whether a create would find an object.
    async fn is_taken(&self, action: &Action) -> Result<bool, RequestError> {
        let Action::Apply { reference, intent: Intent::Create, .. } = action else { return Ok(false) };
        Ok(matches!(self.look(Some(reference)).await?, Outcome::Existing(_)))
    }

    async fn look(&self, reference: Option<&Reference>) -> Result<Outcome, RequestError> {
        let Some(Reference { kind, namespace, name }) = reference else { return Ok(Outcome::Absent) };
        let resource = match (kind.side, self.target.kinds.get(kind)) {
            (Side::Source, _) => kind.resource(&kind.plural()),
            (Side::Target, Some(Ok(served))) => served.resource.clone(),
            (Side::Target, _) => return Ok(Outcome::Absent),
        };
        let found = find(self.endpoint(kind.side), &resource, namespace, name).await?;
        Ok(found.map_or(Outcome::Absent, |found| Outcome::Existing(Arc::new(found))))
    }
}

/// The kinds of the copies beside the sources.
fn beside(mapping: &Mapping) -> BTreeSet<&Kind> {
    mapping.objects.iter().map(|rule| &rule.kind).filter(|kind| kind.side == Side::Source).collect()
}

type Followed = (Vec<Imagined>, Option<Reasons>);

fn known(mapping: &Mapping, target: &TargetCluster) -> Kinds {
    let served =
        |served: &Result<_, Unserved>| served.as_ref().map(drop).map_err(|why| Reason::unseen(why.to_string()));
    let kinds = target.kinds_of(mapping, Phase::of(mapping.mode)).into_iter();
    let kinds = kinds.map(|kind| (kind.clone(), served(&target.kinds[kind])));
    let kinds = kinds.chain(beside(mapping).into_iter().map(|kind| (kind.clone(), Ok(()))));
    Kinds(kinds.collect())
}

/// What stands on a target.
fn standing(target: &TargetCluster) -> impl Iterator<Item = (Reference, &Arc<Value>)> {
    let all = target.standing.iter().flat_map(|(kind, objects)| objects.iter().map(move |object| (kind, object)));
    all.map(|(kind, object)| (reference(kind, object), object))
}

/// What stands in namespaces.
fn standing_in<'s>(
    all: &'s Standing,
    namespaces: &'s BTreeSet<String>,
) -> impl Iterator<Item = (Reference, &'s Arc<Value>)> {
    all.iter().flat_map(move |(kind, objects)| {
        let there = namespaces.iter().flat_map(move |namespace| {
            let from = objects.partition_point(|object| metadata(object, "namespace") < namespace.as_str());
            objects[from..].iter().take_while(move |object| metadata(object, "namespace") == namespace)
        });
        there.map(move |object| (reference(kind, object), object))
    })
}

/// What of a target belongs to somebody.
pub(super) fn owned(target: &TargetCluster, passes: impl Fn(&Reference, &Value) -> bool) -> Vec<TargetObject> {
    let all = standing(target).filter(|(at, object)| passes(at, object));
    all.map(|(at, object)| TargetObject::new(at, object.clone())).collect()
}

pub(super) fn reference(kind: &Kind, object: &Value) -> Reference {
    let text = |field| metadata(object, field).to_owned();
    Reference { kind: kind.clone(), namespace: text("namespace"), name: text("name") }
}

/// The engine makes a namespace without asking; one that exists is no change.
async fn is_there_already(target: &TargetCluster, action: &Action) -> Result<bool, RequestError> {
    let Action::CreateNamespace { name, .. } = action else { return Ok(false) };
    match find(&target.endpoint, &namespaces(), "", name).await {
        // An engine with the least rights may make namespaces, and not look at them.
        Err(error) if error.is_forbidden() => Ok(false),
        found => found.map(|found| found.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_stands_in_a_namespace_is_found_without_a_look_at_the_others() {
        let object = |at: &str| {
            let (namespace, name) = at.split_once('/').expect("a place");
            json!({"metadata": {"namespace": namespace, "name": name}})
        };
        let of = |places: &[&str]| by_namespace(places.iter().map(|at| object(at)).collect());
        let (first, second) = (Kind::new("", "v1", "ConfigMap"), Kind::new("", "v1", "Secret"));
        let all = Standing::from([(first, of(&["c/x", "a/z", "b/y", "a/a", "d/x"])), (second, of(&["b/z"]))]);
        let found = |namespaces: &[&str]| {
            let namespaces = namespaces.iter().map(|one| (*one).to_owned()).collect();
            standing_in(&all, &namespaces).map(|(at, _)| at.place()).collect::<Vec<_>>()
        };
        assert_eq!(found(&["a", "b"]), ["a/z", "a/a", "b/y", "b/z"]);
        assert_eq!((found(&["", "e"]), found(&["d"])), (Vec::new(), vec!["d/x".to_owned()]));
    }
}
