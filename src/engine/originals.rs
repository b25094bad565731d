//! Reads related objects: from a watch that keeps only what is asked for, or once from the server where the watch passed
//! an object by before anybody asked for it, or showed that it is gone.

use std::sync::Arc;

use serde_json::Value;

use super::apply::Executor;
use super::controller::Feed;
use super::interests::{Collection, Facts, Interest, Related, Topic, selection};
use crate::mapping::Side;
use crate::multicluster::registry::WatchScope;
use crate::multicluster::store::Cached;
use crate::multicluster::watch::WatchState;
use crate::multicluster::{ApiPath, Object, RequestError};
use crate::object::claims::READ;
use crate::object::{Key, list_items, metadata};
use crate::plan::related::flood;
use crate::plan::{Action, Cause, Original, Outcome, Pick, Reason, Sight};

/// What an action reads of related objects, with what of it is secret noted. `None`: it reads none.
pub async fn answer(executor: &Executor<'_>, facts: &mut Facts<'_>, action: &Action) -> Option<Outcome> {
    let (Action::Read(original) | Action::ReadAnew(original)) = action else { return None };
    let seen = read(executor, facts, original, matches!(action, Action::ReadAnew(_))).await;
    seen.iter().flatten().for_each(|object| executor.secrets.note(object));
    Some(Outcome::Seen(seen))
}

/// The related objects that a source's last reconcile read by their names.
pub fn read_last(executor: &Executor<'_>) -> Vec<Original> {
    let here = &executor.cluster.spec.scope;
    let place = here.endpoint.place();
    let original = |interest: Arc<Interest>| match &*interest {
        Interest::Object(Collection::Related(of), at) => Some(Original {
            side: if (&of.at, &of.clusters) == (&place, &here.clusters) { Side::Source } else { Side::Target },
            resource: of.resource.clone(),
            namespace: at.namespace.to_string(),
            pick: Pick::Name(at.name.to_string()),
        }),
        _ => None,
    };
    executor.pipeline.controller.interests.reads_of(executor.key).into_iter().filter_map(original).collect()
}

/// What there is of a related object; `anew`: as its server says. From now on, its changes wake the source.
pub async fn read(
    executor: &Executor<'_>,
    facts: &mut Facts<'_>,
    original: &Original,
    anew: bool,
) -> Sight<Vec<Arc<Value>>> {
    let Some(scope) = scope(executor, original.side) else { return Err(original.unread()) };
    let cluster = executor.cluster_at(original.side);
    let key = |name: &str| Key::new(cluster.clone(), original.namespace.as_str(), name);
    let labels = match &original.pick {
        Pick::Name(_) => String::new(),
        Pick::Labels(labels) => labels.clone(),
    };
    let (at, clusters, resource) = (scope.endpoint.place(), scope.clusters.clone(), original.resource.clone());
    let of = Arc::new(Related { at, clusters, resource, labels: labels.clone() });
    let collection = Collection::Related(of.clone());
    let claims = executor.cluster.spec.claims.as_ref().filter(|_| original.side == Side::Source);
    let wanted = executor.generation.mapping.verbs_beside(&original.resource);
    if let Some(why) = claims.and_then(|claims| claims.lacking_of(&original.resource, READ, wanted)) {
        // Once it is accepted, the cluster is described anew.
        return Err(Reason { cause: Cause::ClaimNotAccepted, detail: why });
    }
    // The interest before the feed: a feed that nobody reads is ended.
    let open = || executor.pipeline.controller.related_feed(&scope, &of);
    let feed = match &original.pick {
        Pick::Name(name) => facts.object(&collection, &key(name), open),
        Pick::Labels(_) => facts.selection(&collection, &selection(cluster, &original.namespace), open),
    };
    // The state before the objects: a list that ends in between is no evidence.
    let synced = Topic::Synced(collection);
    let state = facts.read([synced], || feed.watch.state(), |state| *state != WatchState::Synced);
    // Where there are too many bytes already, no more is read.
    executor.read.relate(original, 0)?;
    match &original.pick {
        Pick::Name(name) => {
            let key = key(name);
            let known = feed.subscription.ask(&key);
            is_visible(original, state)?;
            match known {
                Cached::Answer(object) if !anew && object.as_ref().is_none_or(|object| object.is_whole()) => {
                    executor.read.relate(original, object.as_ref().map_or(0, |object| object.length()))?;
                    executor.tally.work(|| object.iter().map(|object| value(object)).collect())
                }
                _ => look(executor, &feed, &key, original).await,
            }
        }
        Pick::Labels(_) => {
            is_visible(original, state)?;
            let all = feed.watch.store().of_cluster(cluster);
            let there = || all.iter().filter(|(key, _)| *key.namespace == original.namespace);
            // On a target, others may have some of them.
            if original.side == Side::Source
                && let Some(why) = flood(original, there().count())
            {
                return Err(why);
            }
            let bytes = there().map(|(_, object)| object.length()).sum();
            let are_whole = there().all(|(_, object)| object.is_whole());
            match are_whole {
                true => executor.read.relate(original, bytes)?,
                // Of what is not known whole, this says how large it is at most.
                false => executor.read.make_room(executor.at_source.connection().budget().bodies(), bytes).await,
            }
            if anew || !are_whole {
                return select(executor, original, labels).await;
            }
            executor.tally.work(|| there().map(|(_, object)| value(object)).collect())
        }
    }
}

/// Where a side is watched; `None` before it was reached.
fn scope(executor: &Executor<'_>, side: Side) -> Option<WatchScope> {
    match side {
        Side::Source => Some(executor.cluster.spec.scope.clone()),
        Side::Target => executor.generation.target.scope(),
    }
}

/// A collection that is not in sight says nothing of what it holds.
fn is_visible(original: &Original, state: WatchState) -> Sight<()> {
    let resource = &original.resource;
    match state {
        WatchState::Synced => Ok(()),
        WatchState::Starting => Err(Reason::unseen(format!("{resource} is not listed yet"))),
        WatchState::NotServed => Err(Reason::unseen(format!("{resource} is not served"))),
        WatchState::Failed { reason, .. } => Err(Reason::unseen(reason)),
    }
}

fn value(object: &Object) -> Sight<Arc<Value>> {
    object.value().map(Arc::new).map_err(|error| Reason::unseen(error.to_string()))
}

/// One uncached list of a selection: whose objects the engine may not see any more, it is refused.
async fn select(executor: &Executor<'_>, original: &Original, labels: String) -> Sight<Vec<Arc<Value>>> {
    let path = ApiPath::collection(&original.resource, &original.namespace);
    let path = path.map_err(|error| Reason::unseen(error.to_string()))?.query("labelSelector", &labels);
    executor.tally.sent(1);
    let reply = executor.at(original.side).get(&path).await.map_err(|error| failed(executor, &error))?;
    executor.read.relate(original, reply.body.len())?;
    let list = executor.tally.work(|| serde_json::from_slice::<Value>(&reply.body));
    Ok(items(list.map_err(|error| Reason::unseen(error.to_string()))?, &original.namespace))
}

/// The items of a list in a namespace. For a cluster-scoped source, the server lists those of all namespaces.
fn items(list: Value, namespace: &str) -> Vec<Arc<Value>> {
    list_items(list).into_iter().filter(|item| metadata(item, "namespace") == namespace).map(Arc::new).collect()
}

/// One uncached read of an object that the watch passed by.
async fn look(executor: &Executor<'_>, feed: &Feed, key: &Key, original: &Original) -> Sight<Vec<Arc<Value>>> {
    let path = ApiPath::object(&original.resource, &key.namespace, &key.name);
    let path = path.map_err(|error| Reason::unseen(error.to_string()))?;
    if let Some(outline) = feed.watch.store().get(key) {
        executor.read.make_room(executor.at_source.connection().budget().bodies(), outline.length()).await;
    }
    let list = feed.subscription.list();
    let pending = feed.subscription.expect(key);
    executor.tally.sent(1);
    let at = executor.at(original.side);
    match at.get(&path).await {
        Ok(reply) => {
            let object = executor.completed(at, pending, &reply);
            let object = object.map_err(|error| Reason::unseen(error.to_string()))?;
            feed.subscription.looked(key, list);
            executor.read.relate(original, object.length())?;
            Ok(vec![executor.tally.work(|| value(&object))?])
        }
        Err(error) if error.is_not_found_of(&key.name) => {
            pending.missing();
            drop(pending);
            feed.subscription.looked(key, list);
            Ok(Vec::new())
        }
        Err(error) => Err(failed(executor, &error)),
    }
}

/// Time may mend it: nothing else tells when.
fn failed(executor: &Executor<'_>, error: &RequestError) -> Reason {
    executor.tally.fail(error);
    Reason::unseen(error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_source_without_a_namespace_selects_in_none() {
        let list = json!({"items": [{"metadata": {"namespace": "a"}}, {"metadata": {"namespace": "b"}}, {}]});
        for (namespace, found) in [("a", 1), ("", 1), ("c", 0)] {
            assert_eq!(items(list.clone(), namespace).len(), found, "{namespace}");
        }
    }

    /// By its kind, the values of a Secret are left out of messages and traces, and an object of the source is known for its own.
    #[test]
    fn what_is_selected_says_what_it_is() {
        let of_custom = json!({"apiVersion": "a.test/v1", "kind": "Db", "metadata": {}});
        let list = |items: Value| json!({"apiVersion": "v1", "kind": "SecretList", "items": items});
        let found = items(list(json!([{"metadata": {}}, of_custom, 7])), "");
        let types: Vec<_> = found.iter().map(|one| (&one["apiVersion"], &one["kind"])).collect();
        let [secret, db, none] = ["v1 Secret", "a.test/v1 Db", ""].map(str::to_owned);
        let told = types.iter().map(|(version, kind)| {
            [version, kind].map(|text| text.as_str().unwrap_or_default()).join(" ").trim().to_owned()
        });
        assert_eq!(told.collect::<Vec<_>>(), [secret, db, none]);
        assert!(items(json!("no list"), "").is_empty());
    }
}
