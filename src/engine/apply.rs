//! The only writer: carries out one action, and returns what the server answered. It decides nothing.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use json_patch::Patch;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tracing::{debug, info, warn};

use super::bodies::Read;
use super::controller::Feed;
use super::inventory::namespaces;
use super::observe::{Outline, SourceTree};
use super::pipeline::{Generation, Pipeline};
use super::target::is_removed;
use crate::mapping::{GENERATED, Kind, Resource, Side};
use crate::multicluster::connection::Connection;
use crate::multicluster::endpoint::DeleteOptions;
use crate::multicluster::permit::Permit;
use crate::multicluster::queue::Cost;
use crate::multicluster::raw::Parsed;
use crate::multicluster::registry::Cluster;
use crate::multicluster::{ApiPath, Body, Endpoint, Object, PendingWrite, Reply, RequestError};
use crate::object::marks::{self, Owner, Reference};
use crate::object::{ClusterName, Key, decoded, json_text, list_items, metadata, shortened};
use crate::plan::{Action, Cause, Intent, Outcome, Reason, SourcePatch, TargetObject};
use crate::server::metrics::WriteResult;

/// Where the actions of one reconcile go.
pub struct Executor<'a> {
    pub pipeline: &'a Arc<Pipeline>,
    pub generation: &'a Generation,
    pub cluster: &'a Cluster,
    /// Where the source is read and written.
    pub at_source: Endpoint,
    /// Where the target's objects are. It is the cluster that the plan was made for, or refuses to write.
    pub at_target: Endpoint,
    pub feed: &'a Feed,
    pub key: &'a Key,
    pub source_tree: SourceTree,
    /// Secrets that were read in this reconcile.
    pub secrets: Secrets,
    /// Objects that the caches have as outlines.
    pub read: Read,
    /// What the source waited for, where a timer and no event brought it here.
    pub waited_for: Option<&'static str>,
    pub tally: Tally,
}

/// Secrets that were read. What a server says of an object may quote them.
#[derive(Debug, Default)]
pub struct Secrets(Mutex<Vec<Arc<Value>>>);

/// Of a value shorter than this, a message would still tell where it was left out.
const SHORTEST: usize = 6;
/// Values that are left out of one message. A tenant's Secret may have ten thousands.
const MOST_QUOTED: usize = 64;
/// Bytes that are searched, a message once for each value: some 50 ms.
const MOST_SEARCHED: usize = 64 << 20;
/// Characters of what is remembered and logged of a source: ten thousand of one tenant may be refused, each with a text as long as
/// an object.
pub const MOST_SAID: usize = 4096;
const LEFT_OUT: &str = "the server's message quotes a secret and is left out";
const NOT_SEARCHED: &str = "the server's message is too long to be searched for secrets, and is left out";

impl Secrets {
    /// An object was read.
    pub fn note(&self, object: &Arc<Value>) {
        if is_secret(object) {
            self.0.lock().push(object.clone());
        }
    }

    /// What is kept of a server's message about a request, with this body if it has one. A webhook says what it likes, and in kcp
    /// each tenant can have one.
    fn told(&self, message: String, body: Option<&Value>) -> String {
        // First, for half a secret would not be found.
        let message = match body {
            Some(body) => self.without(message, body),
            None => message,
        };
        shortened(&message, MOST_SAID)
    }

    /// A server's message about a request with this body, without the values in it that are secret.
    fn without(&self, message: String, body: &Value) -> String {
        let read = self.0.lock();
        let own = Some(body).filter(|body| is_secret(body));
        let all: BTreeSet<String> = read.iter().map(|object| &**object).chain(own).flat_map(values).collect();
        if all.len().saturating_mul(message.len()) > MOST_SEARCHED {
            return NOT_SEARCHED.to_owned();
        }
        // Before the request, which may have as many leaves as there are values.
        let is_named = |secret: &&String| {
            message.contains(secret.as_str()) || message.contains(&secret.escape_debug().to_string())
        };
        let named: Vec<&String> = all.iter().filter(is_named).take(MOST_QUOTED + 1).collect();
        if named.len() > MOST_QUOTED {
            return LEFT_OUT.to_owned();
        }
        let (mut message, mut leaves) = (message, Vec::new());
        texts(body, &mut leaves);
        let is_quoted = |secret: &&String| {
            let is_short = secret.len() < SHORTEST;
            leaves.iter().any(|leaf| if is_short { leaf == *secret } else { leaf.contains(&***secret) })
        };
        let mut quoted: Vec<&String> = named.into_iter().filter(is_quoted).collect();
        quoted.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        for secret in quoted {
            // As Go quotes a text, too.
            let escaped = secret.escape_debug().to_string();
            for form in [secret.as_str(), &escaped] {
                if secret.len() < SHORTEST && message.contains(form) {
                    return LEFT_OUT.to_owned();
                }
                message = message.replace(form, "(secret)");
            }
        }
        message
    }
}

fn is_secret(object: &Value) -> bool {
    object["kind"] == "Secret"
}

/// What a Secret holds, encoded and as it is.
fn values(secret: &Value) -> Vec<String> {
    let encoded = secret["data"].as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str());
    let both = encoded.flat_map(|text| [Some(text.to_owned()), decoded(text)]);
    both.flatten().filter(|value| !value.is_empty()).collect()
}

/// All leaves of a tree, as texts: a template may make a number of what it read.
fn texts<'v>(value: &'v Value, found: &mut Vec<Cow<'v, str>>) {
    match value {
        Value::String(text) => found.push(Cow::Borrowed(text)),
        Value::Number(number) => found.push(Cow::Owned(number.to_string())),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => fields.values().for_each(|value| texts(value, found)),
        _ => {}
    }
}

/// What the requests of a reconcile came to. Several are under way at once.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Sum>);

#[derive(Debug, Clone, Default)]
pub struct Sum {
    /// With what was written, and where: the same again is a correction.
    pub cost: Cost,
    /// An event beyond the engine's own writes came in while a request was under way: the source is reconciled again.
    pub overtaken: bool,
    /// A request about an object failed in a way that time may mend: it is tried again, and not before this time.
    pub retry: Option<Duration>,
    /// The first writes, for people.
    pub done: Vec<String>,
}

/// Bytes of a body that count as one request more. kcp takes as long for them.
const TURN: usize = 128 << 10;

/// Writes of one reconcile that are told.
const TOLD: usize = 16;

impl Tally {
    pub fn so_far(&self) -> MutexGuard<'_, Sum> {
        self.0.lock()
    }

    pub fn sent(&self, requests: u32) {
        let mut sum = self.so_far();
        sum.cost.requests = sum.cost.requests.saturating_add(requests);
    }

    /// Work on the source during which nobody else is served.
    pub fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        let begun = tokio::time::Instant::now();
        let done = work();
        self.so_far().cost.worked += begun.elapsed();
        done
    }

    pub fn fail(&self, error: &RequestError) {
        let mut sum = self.so_far();
        sum.retry = Some(sum.retry.unwrap_or_default().max(error.retry_after().unwrap_or_default()));
    }

    fn did(&self, action: &Action) {
        let mut sum = self.so_far();
        if sum.done.len() < TOLD {
            sum.done.push(format!("{action:#}"));
        }
    }
}

/// Why an action on the source brought no outcome.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{action}: {source}")]
    Request { action: String, source: RequestError },
    /// The object moved on since the plan was made.
    #[error("{action}: it changed in the meantime")]
    Stale { action: String },
    /// The right to write ended before the request was sent.
    #[error("{action}: not sent: {source}")]
    NotOwned { action: String, source: RequestError },
}

impl ApplyError {
    /// Whether a server has said no, and time alone does not mend it.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Request { source, .. } if !source.retryable())
    }
}

impl<'a> Executor<'a> {
    /// One that writes as long as the permit holds.
    pub fn permitted(
        pipeline: &'a Arc<Pipeline>,
        generation: &'a Generation,
        cluster: &'a Cluster,
        feed: &'a Feed,
        key: &'a Key,
        permit: Permit,
    ) -> Self {
        let at_target = generation.target.endpoint().permitted(permit.clone());
        Self {
            pipeline,
            generation,
            cluster,
            at_source: cluster.spec.endpoint.clone().permitted(permit),
            at_target: at_target.paced(generation.mapping.reconcile.target_writes_per_second),
            feed,
            key,
            source_tree: SourceTree::default(),
            secrets: Secrets::default(),
            read: Read::default(),
            waited_for: None,
            tally: Tally::default(),
        }
    }

    /// # Errors
    /// A request about the source that failed. A request about the target that failed is an outcome: it blocks the object
    /// that it is about and nothing else.
    pub async fn execute(&self, action: &Action) -> Result<Outcome, ApplyError> {
        debug!(action = format!("{action:#}"), "acting");
        let started = Instant::now();
        self.tally.so_far().cost.writes.extend(action.content());
        let action = match self.with_made_text(action) {
            Ok(made) => made,
            Err(error) => return Ok(Outcome::Failed(self.failed_on_target(&error))),
        };
        let action = &*action;
        let result = match action {
            Action::PatchSource { purpose, .. } if purpose.is_release() && !self.at_target.is_permitted() => {
                // What the target was seen to hold may be back: it may be another cluster, or restored.
                Err(RequestError::NotPermitted { url: self.at_target.url().to_owned() })
            }
            Action::PatchSource { purpose, patch } => {
                let status = matches!(purpose, SourcePatch::ReleaseHold(_));
                self.patch_source(patch, status, matches!(purpose, SourcePatch::ReleaseFinalizer(_))).await
            }
            Action::PatchStatus { patch, .. } => self.patch_source(patch, true, false).await,
            // It is read with its interest registered: `originals`.
            Action::Read(original) | Action::ReadAnew(original) => Ok(Outcome::Seen(Err(original.unread()))),
            Action::LookForSource => {
                let found = self.read_source(None).await;
                if let Ok(found) = &found {
                    self.pipeline.learned.lock().looked_for(self.key, matches!(found, Outcome::Absent));
                }
                found
            }
            Action::Sweep { owners, kinds, namespaces, objects } => {
                self.sweep(owners, kinds, namespaces, objects).await
            }
            Action::CreateNamespace { name, labels } => self.create_namespace(name, labels).await,
            Action::Apply { reference, body, intent } => self.apply(reference, body, intent).await,
            Action::Delete { reference, uid, resource_version, propagation, .. } => {
                let propagation = propagation.as_str();
                self.delete(reference, DeleteOptions { uid, resource_version, propagation }).await
            }
            Action::GiveUp { reference, patch, .. } | Action::Restore { reference, patch } => {
                self.patch_object(reference, patch).await
            }
        };
        let result = result.map_err(|error| self.without_secrets(action, error));
        self.note(action, &result, started.elapsed());
        let result = if was_gone(action, &result) { Ok(Outcome::Absent) } else { result };
        match (action, result) {
            (_, Ok(outcome)) => Ok(outcome),
            (_, Err(error)) if error.is_not_permitted() => {
                Err(ApplyError::NotOwned { action: action.to_string(), source: error })
            }
            (Action::PatchSource { .. } | Action::PatchStatus { .. }, Err(error)) => failed_on_source(action, error),
            (_, Err(error)) => Ok(Outcome::Failed(self.failed_on_target(&error))),
        }
    }

    /// What a server says of what was written may quote it, and be as long as a webhook likes.
    fn without_secrets(&self, action: &Action, error: RequestError) -> RequestError {
        let body = match action {
            Action::Apply { body, .. } => Some(Cow::Borrowed(&**body)),
            Action::PatchStatus { values, .. } => Some(Cow::Owned(json!(values))),
            _ => None,
        };
        match error {
            RequestError::Status(mut status) => {
                status.message = self.secrets.told(status.message, body.as_deref());
                RequestError::Status(status)
            }
            error => error,
        }
    }

    /// What became of a request about the target.
    fn failed_on_target(&self, error: &RequestError) -> Reason {
        let cause = cause(error);
        if cause != Cause::Refused {
            self.tally.fail(error);
        }
        Reason { cause, detail: error.to_string() }
    }

    /// Counts a write and logs it.
    fn note(&self, action: &Action, sent: &Result<Outcome, RequestError>, took: Duration) {
        let Some(verb) = action.verb() else { return };
        let was_gone = was_gone(action, sent);
        let result = match sent {
            Err(error) if error.is_not_permitted() => return,
            Ok(_) => WriteResult::Success,
            Err(_) if was_gone => WriteResult::Success,
            Err(error) if error.is_conflict() => WriteResult::Conflict,
            Err(error) if error.retryable() => WriteResult::Error,
            Err(_) => WriteResult::Rejected,
        };
        let namespace;
        let about = match action {
            Action::CreateNamespace { name, .. } => {
                namespace = Reference::namespace(name);
                Some(&namespace)
            }
            action => action.reference(),
        };
        let connection = match about.map(|reference| reference.kind.side) {
            Some(Side::Target) => &*self.generation.target.name,
            Some(Side::Source) | None => "source",
        };
        let (metrics, mapping) = (&self.pipeline.shared.instruments.metrics, self.pipeline.writer.mapping());
        metrics.written(mapping, connection, verb, result);
        // Nothing was left to write.
        if let Some(waited_for) = self.waited_for.filter(|_| !was_gone) {
            metrics.written_by_timer(mapping, waited_for);
        }
        if result == WriteResult::Success && !was_gone && !matches!(sent, Ok(Outcome::Existing(_))) {
            self.tally.did(action);
        }
        let kind = about.map(|reference| &*reference.kind.kind);
        let object = about.map(Reference::place);
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let (what, because) = (action.name(), action.because().map(|because| because.to_string()));
        let because = because.as_deref();
        match sent {
            // What became of it is the reason of the source, which is logged once.
            Err(error) if !was_gone => debug!(verb, kind, object, connection, took_ms, %error, "{what}: failed"),
            Err(_) => debug!(verb, kind, object, connection, took_ms, "{what}: gone already"),
            Ok(Outcome::StatusRefused { why, .. }) => warn!(verb, connection, took_ms, why, "{what}: refused in part"),
            Ok(Outcome::Existing(_)) => {
                debug!(verb, kind, object, connection, took_ms, "{what}: nothing was written, for an object exists");
            }
            // What was deleted is missing, and of a namespace that was created nothing is read.
            Ok(Outcome::Absent) if !matches!(verb, "create" | "delete") => {
                debug!(verb, kind, object, connection, took_ms, "{what}: gone already");
            }
            Ok(_) if matches!(verb, "create" | "patch_status") => {
                debug!(verb, kind, object, connection, took_ms, "{what}");
            }
            Ok(_) => info!(verb, kind, object, connection, took_ms, because, "{what}"),
        }
    }

    pub fn at(&self, side: Side) -> &Endpoint {
        match side {
            Side::Target => &self.at_target,
            Side::Source => &self.at_source,
        }
    }

    pub fn cluster_at(&self, side: Side) -> &ClusterName {
        match side {
            Side::Target => &self.generation.target.cluster,
            Side::Source => &self.cluster.spec.name,
        }
    }

    pub fn feed_of(&self, kind: &Kind) -> Option<Arc<Feed>> {
        match kind.side {
            Side::Target => self.pipeline.kind_feed(kind),
            Side::Source => self.pipeline.controller.copy_feed(&self.cluster.spec.scope, kind),
        }
    }

    fn source_path(&self) -> Result<ApiPath, RequestError> {
        let resource = &self.generation.mapping.source.resource;
        Ok(ApiPath::object(resource, &self.key.namespace, &self.key.name)?)
    }

    /// `releases`: the source may be gone after it, which a silent watch does not tell.
    async fn patch_source(&self, patch: &Patch, status: bool, releases: bool) -> Result<Outcome, RequestError> {
        let path = self.source_path()?;
        let path = if status { path.status() } else { path };
        let pending = self.feed.subscription.expect(self.key);
        let body = Body::json_patch(json_text(patch));
        self.tally.sent(1);
        let sent = self.at_source.patch(&path, self.pipeline.writer.field_manager(), body).await;
        if let Ok(reply) = sent.as_ref()
            && releases
            && serde_json::from_slice(&reply.body).is_ok_and(|answer: Value| is_let_go(&answer))
            && let Ok(last) = Parsed::from_json(&reply.body)
        {
            pending.ended(last.uid);
        }
        self.found(&self.at_source, &self.key.name, sent, Some(pending))
    }

    /// What a server says of an object. Only a 404 that names it says that it is missing.
    fn found(
        &self,
        at: &Endpoint,
        name: &str,
        sent: Result<Reply, RequestError>,
        pending: Option<PendingWrite>,
    ) -> Result<Outcome, RequestError> {
        match sent {
            Ok(reply) => self.shown(at, &reply, pending).map(Outcome::Object),
            Err(error) if error.is_not_found_of(name) => Ok(Outcome::Absent),
            Err(error) => Err(error),
        }
    }

    /// The object of an answer, which goes into the cache that waits for it.
    fn shown(&self, at: &Endpoint, reply: &Reply, pending: Option<PendingWrite>) -> Result<Arc<Value>, RequestError> {
        let object = match pending {
            Some(pending) => self.completed(at, pending, reply)?,
            None => Arc::new(Object::from_json(&reply.body).map_err(|error| at.unreadable(&error))?),
        };
        object.value().map(Arc::new).map_err(|error| at.unreadable(&error))
    }

    /// Puts an answer into the cache it belongs to.
    pub fn completed(&self, at: &Endpoint, pending: PendingWrite, reply: &Reply) -> Result<Arc<Object>, RequestError> {
        let completed = Parsed::from_json(&reply.body).and_then(|answer| pending.complete(&answer));
        let (object, overtaken) = completed.map_err(|error| at.unreadable(&error))?;
        self.tally.so_far().overtaken |= overtaken;
        Ok(object)
    }

    /// Reads the source past the cache. `pending`: what it finds goes into the cache.
    pub async fn read_source(&self, pending: Option<PendingWrite>) -> Result<Outcome, RequestError> {
        self.tally.sent(1);
        let sent = self.at_source.get(&self.source_path()?).await;
        self.found(&self.at_source, &self.key.name, sent, pending)
    }

    /// Reads what a cache has as an outline. That a source is gone, its watch alone tells: it may not have been deleted.
    pub async fn read_outline(&self, outline: &Outline) -> Result<(), RequestError> {
        let Outline { kind, at, .. } = outline;
        let (path, endpoint, pending) = match kind {
            None => (self.source_path()?, &self.at_source, self.feed.subscription.expect(at)),
            Some(kind) => {
                let Some(feed) = self.feed_of(kind) else { return Ok(()) };
                let path = ApiPath::object(&self.resource(kind)?, &at.namespace, &at.name)?;
                (path, self.at(kind.side), feed.subscription.expect(at))
            }
        };
        self.tally.sent(1);
        match endpoint.get(&path).await {
            Ok(reply) => {
                self.tally.sent(u32::try_from(reply.body.len() / TURN).unwrap_or(u32::MAX));
                self.read.hold(self.completed(endpoint, pending, &reply)?);
                Ok(())
            }
            Err(error) if error.is_not_found_of(&at.name) => {
                if kind.is_some() {
                    pending.missing();
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn resource(&self, kind: &Kind) -> Result<Resource, RequestError> {
        if kind.side == Side::Source {
            return Ok(kind.resource(&kind.plural()));
        }
        let served = self.generation.target.kind(kind);
        served.map(|served| served.resource).map_err(|why| RequestError::NotServed { url: why })
    }

    fn path(&self, reference: &Reference) -> Result<ApiPath, RequestError> {
        Ok(ApiPath::object(&self.resource(&reference.kind)?, &reference.namespace, &reference.name)?)
    }

    /// Registers a request about an object with the cache of its kind.
    fn expect(&self, reference: &Reference) -> Option<PendingWrite> {
        let cluster = self.cluster_at(reference.kind.side).clone();
        let key = Key::new(cluster, reference.namespace.as_str(), reference.name.as_str());
        Some(self.feed_of(&reference.kind)?.subscription.expect(&key))
    }

    async fn look(&self, reference: &Reference) -> Result<Outcome, RequestError> {
        self.tally.sent(1);
        let at = self.at(reference.kind.side);
        let sent = at.get(&self.path(reference)?).await;
        self.found(at, &reference.name, sent, None)
    }

    async fn sweep(
        &self,
        owners: &[String],
        kinds: &[Kind],
        namespaces: &[String],
        objects: &[Reference],
    ) -> Result<Outcome, RequestError> {
        let (mut found, mut removed) = (Vec::new(), Vec::new());
        for kind in kinds {
            match self.owned_of_kind(owners, kind, namespaces).await {
                Ok(owned) => found.extend(owned),
                Err(error) if error.code() == Some(404) && self.is_removed(kind).await? => removed.push(kind),
                Err(error) => return Err(error),
            }
        }
        for reference in objects.iter().filter(|one| !removed.contains(&&one.kind)) {
            let seen = match self.look(reference).await {
                // No object has a name that no server takes.
                Err(RequestError::Name(_)) => continue,
                seen => seen?,
            };
            if let Outcome::Object(object) = seen
                && !found.iter().any(|one: &TargetObject| &one.reference == reference)
            {
                found.push(TargetObject::new(reference.clone(), object));
            }
        }
        Ok(Outcome::Found(found))
    }

    /// Only a missing CustomResourceDefinition says that nothing is left of a kind that was served.
    async fn is_removed(&self, kind: &Kind) -> Result<bool, RequestError> {
        self.tally.sent(2);
        is_removed(self.at(kind.side), kind, self.pipeline.plural(kind).as_deref()).await
    }

    async fn owned_of_kind(
        &self,
        owners: &[String],
        kind: &Kind,
        namespaces: &[String],
    ) -> Result<Vec<TargetObject>, RequestError> {
        let (at, mut owned) = (self.at(kind.side), Vec::new());
        let selector = format!("{} in ({})", marks::OWNER, owners.join(","));
        let beside = [self.key.namespace.to_string()];
        let namespaces = if kind.side == Side::Source { &beside } else { namespaces };
        for namespace in namespaces {
            let path = ApiPath::collection(&self.resource(kind)?, namespace)?.query("labelSelector", &selector);
            self.tally.sent(1);
            let reply = at.get(&path).await?;
            owned.extend(list_items(at.parse(&reply)?).into_iter().filter_map(|item| {
                let text = |field| metadata(&item, field).to_owned();
                let reference = Reference { kind: kind.clone(), namespace: text("namespace"), name: text("name") };
                let is_owned = owners.iter().any(|owner| marks::is_ours(&item, &reference, &Owner(owner.clone())));
                is_owned.then(|| TargetObject::new(reference, Arc::new(item)))
            }));
        }
        Ok(owned)
    }

    async fn create_namespace(&self, name: &str, labels: &Value) -> Result<Outcome, RequestError> {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        let manager = self.pipeline.writer.field_manager();
        self.tally.sent(1);
        match self.at_target.create(&ApiPath::all(&namespaces())?, manager, json_text(&body).into()).await {
            Ok(_) => {}
            // Who may not create namespaces may still write into one that exists: the apply will tell.
            Err(error) if error.is_already_exists() || error.is_forbidden() => {}
            Err(error) => return Err(error),
        }
        self.generation.target.saw_namespace(name);
        Ok(Outcome::Absent)
    }

    async fn apply(&self, reference: &Reference, body: &Value, intent: &Intent) -> Result<Outcome, RequestError> {
        let force = *intent != Intent::Create;
        let (side, pending) = (reference.kind.side, self.expect(reference));
        self.tally.sent(1);
        let manager = self.pipeline.writer.field_manager();
        let (path, text) = (self.path(reference)?, json_text(&self.of_this_epoch(side, body)));
        let sent = match (side, intent) {
            (Side::Target, _) => match self.at_target.apply(&path, manager, force, text).await {
                Err(error)
                    if force && error.code() == Some(500) && self.follow_version(&path, body, &error).await? =>
                {
                    let text = json_text(&self.of_this_epoch(side, body));
                    self.tally.sent(1);
                    self.at_target.apply(&path, manager, force, text).await
                }
                sent => sent,
            },
            // Through a virtual workspace, server-side apply does not work as on Kubernetes.
            (Side::Source, Intent::Create) => {
                let collection = ApiPath::collection(&self.resource(&reference.kind)?, &reference.namespace)?;
                self.at_source.create(&collection, manager, text.into()).await
            }
            (Side::Source, Intent::Update { .. } | Intent::Adopt { .. }) => {
                self.at_source.patch(&path, manager, Body::merge_patch(text)).await
            }
        };
        match (sent, intent) {
            (Ok(reply), _) => {
                if side == Side::Target {
                    self.generation.target.saw_namespace(&reference.namespace);
                }
                self.shown(self.at(side), &reply, pending).map(Outcome::Object)
            }
            (Err(error), _) if side == Side::Target && error.is_not_found_of(&reference.namespace) => {
                self.generation.target.lost_namespace(&reference.namespace);
                Err(error)
            }
            // A create where an object exists, or an update of another incarnation: read what is there now.
            (Err(error), _) if error.is_conflict() || error.is_already_exists() => self.existing(reference).await,
            (Err(error), Intent::Update { uid } | Intent::Adopt { uid }) if error.is_invalid() => {
                self.look_for_other(reference, uid, error).await
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Makes the random text that a Secret lacks. Nothing but the object itself keeps it: a create finds no object, and an update
    /// the version that lacks it, so no text takes the place of another.
    fn with_made_text<'b>(&self, action: &'b Action) -> Result<Cow<'b, Action>, RequestError> {
        let Action::Apply { body, .. } = action else { return Ok(Cow::Borrowed(action)) };
        let id = marks::annotation(body, marks::OBJECT).unwrap_or_default();
        let rule = self.generation.mapping.rule(id.split_once('[').map_or(id, |(rule, _)| rule));
        let mut made = Cow::Borrowed(action);
        for (key, length) in rule.iter().flat_map(|rule| &rule.generate) {
            if body["data"][key] == GENERATED
                && let Action::Apply { body, .. } = made.to_mut()
            {
                let text = random_text(*length, self.at_target.connection())?;
                Arc::make_mut(body)["data"][key] = BASE64.encode(text.as_bytes()).into();
            }
        }
        Ok(made)
    }

    /// A server that no longer knows the version in which the engine applied an object before cannot compare the two, and
    /// answers 500. What the engine's own managedFields say holds for the new version too. `true`: they follow it now.
    async fn follow_version(&self, path: &ApiPath, body: &Value, error: &RequestError) -> Result<bool, RequestError> {
        if error.is_invalid() {
            return Ok(false);
        }
        self.tally.sent(1);
        let reply = self.at_target.get(path).await?;
        let object: Value = self.at_target.parse(&reply)?;
        let Some(patch) = followed_version(self.pipeline.writer.field_manager(), &object, body) else {
            return Ok(false);
        };
        self.tally.sent(1);
        let patch = Body::json_patch(json_text(&patch));
        self.at_target.patch(path, self.pipeline.writer.field_manager(), patch).await.map(|_| true)
    }

    /// What is written to a target says which epoch of the Lease it is of. That is no part of what was rendered: an object in
    /// sync is not written because another replica leads.
    fn of_this_epoch<'b>(&self, side: Side, body: &'b Value) -> Cow<'b, Value> {
        match self.pipeline.shared.lease.transitions() {
            Some(number) if side == Side::Target => {
                let mut body = body.clone();
                body["metadata"]["annotations"][marks::EPOCH] = number.to_string().into();
                Cow::Owned(body)
            }
            _ => Cow::Borrowed(body),
        }
    }

    /// An apply that carries a uid is a 422 where the uid is another; any other 422 is the schema's word.
    async fn look_for_other(
        &self,
        reference: &Reference,
        uid: &str,
        error: RequestError,
    ) -> Result<Outcome, RequestError> {
        match self.existing(reference).await? {
            Outcome::Existing(object) if metadata(&object, "uid") == uid => Err(error),
            outcome => Ok(outcome),
        }
    }

    /// What is there instead of what was to be written.
    async fn existing(&self, reference: &Reference) -> Result<Outcome, RequestError> {
        Ok(match self.look(reference).await? {
            Outcome::Object(object) => Outcome::Existing(object),
            outcome => outcome,
        })
    }

    async fn delete(&self, reference: &Reference, options: DeleteOptions<'_>) -> Result<Outcome, RequestError> {
        let (at, uid, pending) = (self.at(reference.kind.side), options.uid, self.expect(reference));
        self.tally.sent(1);
        let left = match at.delete(&self.path(reference)?, options).await {
            Ok(reply) => Ok(self.shown(at, &reply, None).map_or(Outcome::Absent, left_by_delete)),
            Err(error) if error.is_conflict() => self.look(reference).await,
            Err(error) => Err(error),
        };
        // A silent watch does not tell it, and its server may be out of reach before another one does.
        let is_gone = match &left {
            Ok(Outcome::Object(object)) => metadata(object, "uid") != uid,
            Ok(_) => true,
            Err(error) => error.is_not_found_of(&reference.name),
        };
        if let Some(pending) = pending.filter(|_| is_gone) {
            pending.ended(uid);
        }
        left
    }

    async fn patch_object(&self, reference: &Reference, patch: &Patch) -> Result<Outcome, RequestError> {
        self.tally.sent(1);
        let body = Body::json_patch(json_text(patch));
        let at = self.at(reference.kind.side);
        match at.patch(&self.path(reference)?, self.pipeline.writer.field_manager(), body).await {
            Err(error) if error.is_conflict() => self.existing(reference).await,
            sent => self.found(at, &reference.name, sent, None),
        }
    }
}

/// Letters and digits, each as likely as any other.
fn random_text(length: u16, connection: &Connection) -> Result<String, RequestError> {
    const CHARACTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut text = String::new();
    while text.len() < usize::from(length) {
        let mut bytes = [0; 64];
        connection.fill_random(&mut bytes)?;
        // The rest of a byte's values would favour the first characters.
        let even = bytes.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < 4 * CHARACTERS.len());
        text.extend(even.map(|byte| char::from(CHARACTERS[byte % CHARACTERS.len()])));
    }
    text.truncate(length.into());
    Ok(text)
}

/// Who can do something about a request that failed.
fn cause(error: &RequestError) -> Cause {
    match error {
        // No server takes such a name: nothing was sent, and nothing will be until it is another.
        RequestError::Name(_) => Cause::Refused,
        // A kind that is not served, a namespace that is missing or being terminated: no change of the object helps.
        error if error.code() == Some(404) || error.is_terminating() => Cause::RequestFailed,
        error if error.is_invalid() || error.is_forbidden() => Cause::Refused,
        error if error.code().is_none() || matches!(error.code(), Some(408 | 429 | 503 | 504)) => Cause::Unknown,
        _ => Cause::RequestFailed,
    }
}

/// The version of the engine's own entries of managedFields, as it is in the body that is applied now. `None`: they have it.
fn followed_version(manager: &str, object: &Value, body: &Value) -> Option<Value> {
    let entries = object.pointer("/metadata/managedFields")?.as_array()?.iter().enumerate();
    let is_outdated = |entry: &Value| {
        entry["manager"] == manager && entry["operation"] == "Apply" && entry["apiVersion"] != body["apiVersion"]
    };
    let replace = |(index, _): (usize, &Value)| {
        let path = format!("/metadata/managedFields/{index}/apiVersion");
        json!({"op": "replace", "path": path, "value": body["apiVersion"]})
    };
    let replaced: Vec<Value> = entries.filter(|(_, entry)| is_outdated(entry)).map(replace).collect();
    let version = metadata(object, "resourceVersion");
    let guard = json!({"op": "replace", "path": "/metadata/resourceVersion", "value": version});
    (!replaced.is_empty()).then(|| std::iter::once(guard).chain(replaced).collect())
}

/// Whether an object was deleted already, and its event is yet to come.
fn was_gone(action: &Action, sent: &Result<Outcome, RequestError>) -> bool {
    match (action, sent) {
        (Action::Delete { reference, .. }, Err(error)) => error.is_not_found_of(&reference.name),
        _ => false,
    }
}

/// Whether finalizers hold an object once it is being deleted, or its grace period does. A namespace has some in its `spec`.
fn is_held(answer: &Value) -> bool {
    let grace = answer.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_u64);
    let is_namespace = answer["apiVersion"] == "v1" && answer["kind"] == "Namespace";
    let places = ["/metadata/finalizers", "/spec/finalizers"].into_iter().take(if is_namespace { 2 } else { 1 });
    let mut finalizers = places.filter_map(|at| answer.pointer(at)?.as_array());
    grace.is_some_and(|seconds| seconds > 0) || finalizers.any(|all| !all.is_empty())
}

/// Whether the object of an answer was being deleted, and nobody holds it any more.
fn is_let_go(answer: &Value) -> bool {
    !metadata(answer, "deletionTimestamp").is_empty() && !is_held(answer)
}

/// The answer is the object where something holds it, and a `Status` (or the object as it was) where it is gone.
fn left_by_delete(answer: Arc<Value>) -> Outcome {
    match is_held(&answer) && !metadata(&answer, "deletionTimestamp").is_empty() {
        true => Outcome::Object(answer),
        false => Outcome::Absent,
    }
}

/// A newer version makes the plan stale; a status that the schema refuses is told leaf by leaf; all else is tried again.
fn failed_on_source(action: &Action, error: RequestError) -> Result<Outcome, ApplyError> {
    let is_status = matches!(action, Action::PatchStatus { .. });
    match &error {
        error if error.is_conflict() || is_failed_patch(error) => Err(ApplyError::Stale { action: action.to_string() }),
        RequestError::Status(status) if is_status && error.is_invalid() => {
            let leaves = status.causes.iter().filter_map(|cause| status_pointer(&cause.field)).collect();
            Ok(Outcome::StatusRefused { leaves, why: error.to_string() })
        }
        _ => Err(ApplyError::Request { action: action.to_string(), source: error }),
    }
}

/// The JSON pointer below `.status` of a field as a `Status` names it: `status.members[0].host`.
fn status_pointer(field: &str) -> Option<String> {
    let path = field.strip_prefix("status").filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']))?;
    let segments = path.split(['.', '[', ']']).filter(|segment| !segment.is_empty());
    Some(segments.map(|segment| format!("/{segment}")).collect())
}

/// A JSON Patch that does not fit what stands there is a 422 without causes; a schema violation has some.
fn is_failed_patch(error: &RequestError) -> bool {
    matches!(error, RequestError::Status(status) if status.code == 422 && status.causes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multicluster::request_error::{Status, StatusCause};

    #[test]
    fn what_a_server_quotes_of_a_secret_is_left_out() {
        let secrets = Secrets::default();
        let data = json!({"password": "aHVudGVyMjI=", "pin": "MTIz", "other": "dW51c2Vk"});
        secrets.note(&Arc::new(json!({"kind": "Secret", "data": data})));
        let body =
            json!({"kind": "Database", "spec": {"password": "hunter22", "pin": "123", "uri": "db://hunter22@a"}});
        let without = |message: &str| secrets.without(message.to_owned(), &body);
        assert_eq!(without("Invalid value: \"db://hunter22@a\""), "Invalid value: \"db://(secret)@a\"");
        assert_eq!(without("expected map, got &{123}"), LEFT_OUT);
        let number = json!({"kind": "Database", "spec": {"pin": 123}});
        assert_eq!(secrets.without("spec.pin: Invalid value: 123".into(), &number), LEFT_OUT);
        assert_eq!(without("unused"), "unused", "it is no part of the request");
        let secret = json!({"kind": "Secret", "data": {"key": "YSJiXG5jZGVm"}});
        assert_eq!(secrets.without("data.key: \"YSJiXG5jZGVm\"".into(), &secret), "data.key: \"(secret)\"");
    }

    /// The engine has one thread: whoever has a Secret of 1.5 MiB refused must not hold it for a minute.
    #[test]
    fn a_message_that_would_take_long_to_be_searched_is_left_out() {
        let values: Vec<String> = (0..20_000).map(|number| format!("value-{number:06}")).collect();
        let encoded = values.iter().map(|value| (value.clone(), json!(BASE64.encode(value.as_bytes()))));
        let secret = json!({"kind": "Secret", "data": encoded.collect::<serde_json::Map<_, _>>()});
        let secrets = Secrets::default();
        secrets.note(&Arc::new(secret.clone()));
        let without = |message: String| secrets.without(message, &secret);
        assert_eq!(without("etcdserver: request is too large".into()), "etcdserver: request is too large");
        let one = BASE64.encode(values[7].as_bytes());
        assert_eq!(without(format!("invalid: {one}")), "invalid: (secret)");
        assert_eq!(without(values[..100].join(" ")), LEFT_OUT);
        assert_eq!(without("long".repeat(1 << 20)), NOT_SEARCHED);
    }

    #[test]
    fn a_message_is_kept_up_to_a_length_and_not_cut_within_a_secret() {
        let (secrets, body) = (Secrets::default(), json!({"kind": "Secret", "data": {"key": "aHVudGVyMjI="}}));
        let message = format!("{}aHVudGVyMjI=", "x".repeat(MOST_SAID - 4));
        assert_eq!(secrets.told(message, Some(&body)), format!("{}(sec…", "x".repeat(MOST_SAID - 4)));
        assert_eq!(secrets.told("x".repeat(1 << 20), None).chars().count(), MOST_SAID + 1);
    }

    #[test]
    fn a_consumer_is_told_of_refusals_that_their_object_can_mend() {
        let status = |code, reason: &str| {
            let causes = vec![StatusCause { reason: reason.to_owned(), ..StatusCause::default() }];
            cause(&RequestError::Status(Box::new(Status { code, causes, ..Status::default() })))
        };
        assert_eq!(status(403, "NamespaceTerminating"), Cause::RequestFailed);
        assert_eq!(cause(&RequestError::NotServed { url: "u".into() }), Cause::RequestFailed);
        assert_eq!([status(403, ""), status(422, "FieldValueInvalid")], [Cause::Refused; 2]);
        assert_eq!(status(503, ""), Cause::Unknown);
    }

    #[test]
    fn what_finalizers_or_its_grace_period_hold_is_left_by_a_deletion() {
        let is_left = |metadata: Value| {
            let metadata = json!({"metadata": metadata});
            matches!(left_by_delete(Arc::new(metadata)), Outcome::Object(_))
        };
        let deleted = "2026-08-01T00:00:00Z";
        assert!(is_left(json!({"deletionTimestamp": deleted, "finalizers": ["f"], "deletionGracePeriodSeconds": 0})));
        assert!(is_left(json!({"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 30})));
        assert!(!is_left(json!({"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 0})));
        assert!(!is_left(json!({"finalizers": ["f"]})), "as it was");
    }

    /// It may last for minutes, or for ever. It was taken for gone, and nobody was woken once it was.
    #[test]
    fn a_namespace_that_is_being_emptied_is_left_by_its_deletion() {
        for (kind, is_left) in [("Namespace", true), ("Workspace", false)] {
            let metadata = json!({"name": "n", "deletionTimestamp": "2026-08-01T00:00:00Z"});
            let spec = json!({"finalizers": ["kubernetes"]});
            let answer = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec});
            assert_eq!(is_let_go(&answer), !is_left, "{kind}");
            assert_eq!(matches!(left_by_delete(Arc::new(answer)), Outcome::Object(_)), is_left, "{kind}");
        }
    }

    #[test]
    fn only_the_engines_own_fields_follow_the_version() {
        let entry = |manager: &str, operation: &str, version: &str| json!({"manager": manager, "operation": operation, "apiVersion": version});
        let entries = [entry("x", "Apply", "a/v1"), entry("m", "Update", "a/v1"), entry("m", "Apply", "a/v1")];
        let object = json!({"metadata": {"resourceVersion": "7", "managedFields": entries}});
        let expected = json!([
            {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "replace", "path": "/metadata/managedFields/2/apiVersion", "value": "a/v2"},
        ]);
        assert_eq!(followed_version("m", &object, &json!({"apiVersion": "a/v2"})), Some(expected));
        assert_eq!(followed_version("m", &object, &json!({"apiVersion": "a/v1"})), None);
    }
}
