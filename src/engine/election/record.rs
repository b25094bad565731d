//! Leases as a server keeps them.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
pub use k8s_openapi::api::coordination::v1::Lease as Record;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use tokio::time::Instant;

use super::super::inventory::Inventories;
use super::Election;
use crate::mapping::Resource;
use crate::multicluster::ApiPath;
use crate::multicluster::endpoint::{Body, DeleteOptions};
use crate::multicluster::raw::is_older;
use crate::multicluster::request_error::RequestError;
use crate::object::marks::{ENGINE, MANAGED_BY, MANAGER};

/// A Lease as it was seen last.
#[derive(Debug, Clone)]
pub struct Seen {
    pub record: Record,
    /// When it was seen like this for the first time.
    pub since: Instant,
    /// Whether it is of an earlier state of its server than what was seen before: it says nothing of who leads now.
    pub is_restored: bool,
}

impl Seen {
    /// What was read, and since when it is so. By the version too: a holder whose clock stands still renews all the same.
    pub fn after(before: Option<Self>, record: Record, now: Instant) -> Self {
        let version = |record: &Record| record.metadata.resource_version.clone().unwrap_or_default();
        let went_back = before.as_ref().is_some_and(|seen| is_older(&version(&record), &version(&seen.record)));
        let same = before.filter(|seen| seen.record.spec == record.spec && version(&seen.record) == version(&record));
        let is_restored = went_back || same.as_ref().is_some_and(|seen| seen.is_restored);
        let since = same.map_or(now, |seen| seen.since);
        Self { record, since, is_restored }
    }

    /// When it has run out, if it stays as it is.
    pub fn ends(&self) -> Instant {
        self.since + lasts(&self.record)
    }
}

/// Empty: it was handed back.
pub fn holder(record: &Record) -> &str {
    record.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// How often it changed hands: the epoch of its holder.
pub fn transitions(record: &Record) -> i32 {
    record.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default()
}

/// For how long it counts after its last renewal.
pub fn lasts(record: &Record) -> Duration {
    let seconds = record.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
    Duration::from_secs(seconds.unsigned_abs().into())
}

/// Whether it counts by the time of day that its holder wrote.
pub fn is_current(record: &Record, now: Timestamp) -> bool {
    let renewed = record.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
    let since = |renewed: &MicroTime| now.duration_since(renewed.0);
    renewed.is_some_and(|renewed| Duration::try_from(since(renewed)).map_or(true, |since| since < lasts(record)))
}

#[derive(Deserialize)]
struct Listed {
    items: Vec<Record>,
}

fn leases() -> Resource {
    Resource::new("coordination.k8s.io", "v1", "leases")
}

/// The name of the one Lease of an engine.
pub fn leaders_lease(engine: &str) -> String {
    format!("sync-engine-{engine}")
}

/// Every Lease of an engine, as the server has them now: no cache is asked. An earlier version had one for each replica.
pub async fn list(store: &Inventories) -> Result<Vec<Record>, RequestError> {
    let selector = format!("{MANAGED_BY}={MANAGER}");
    let path = ApiPath::collection(&leases(), &store.namespace)?.query("labelSelector", &selector);
    let reply = store.endpoint.get(&path).await?;
    let mut list: Listed = store.endpoint.parse(&reply)?;
    let label = |record: &Record| record.metadata.labels.as_ref().and_then(|labels| labels.get(ENGINE)).cloned();
    let leaders = leaders_lease(&store.engine);
    let is_own = |record: &Record| {
        label(record).is_some_and(|engine| engine == store.engine) || record.metadata.name.as_ref() == Some(&leaders)
    };
    list.items.retain(is_own);
    Ok(list.items)
}

/// Deletes a Lease, as it was seen.
pub async fn delete(store: &Inventories, record: &Record) -> Result<(), RequestError> {
    let ObjectMeta { name, uid, resource_version, .. } = &record.metadata;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (uid, version) = (text(uid), text(resource_version));
    let options = DeleteOptions { uid: &uid, resource_version: &version, propagation: "Background" };
    let path = ApiPath::object(&leases(), &store.namespace, &text(name))?;
    store.endpoint.delete(&path, options).await.map(drop)
}

impl Election {
    pub(super) fn name(&self) -> String {
        leaders_lease(&self.shared.settings.engine)
    }

    pub(super) async fn get(&self) -> Result<Option<Record>, RequestError> {
        let (store, name) = (self.store(), self.name());
        let path = ApiPath::object(&leases(), &store.namespace, &name)?;
        match store.endpoint.request(Method::GET, &path, None, self.deadline()).await {
            Ok(reply) => store.endpoint.parse(&reply).map(Some),
            Err(error) if error.is_not_found_of(&name) || error.is_not_found_of(&store.namespace) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn put(&self, record: &Record) -> Result<Record, RequestError> {
        let path = ApiPath::object(&leases(), &self.store().namespace, &self.name())?;
        self.send(Method::PUT, path, record).await
    }

    /// Creates the Lease. The spec is that of one which is known to have been there.
    pub(super) async fn post(&self, spec: Option<LeaseSpec>) -> Result<Record, RequestError> {
        let namespace = self.store().namespace;
        let path = ApiPath::collection(&leases(), &namespace)?;
        let metadata = ObjectMeta { name: Some(self.name()), namespace: Some(namespace), ..ObjectMeta::default() };
        self.send(Method::POST, path, &self.taken(&Record { metadata, spec })).await
    }

    pub(super) fn renewed(&self, record: &Record) -> Record {
        let mut record = self.labelled(record);
        record.spec.get_or_insert_default().renew_time = Some(MicroTime(self.shared.settings.clock.now()));
        record
    }

    pub(super) fn taken(&self, record: &Record) -> Record {
        let now = MicroTime(self.shared.settings.clock.now());
        let is_first = record.spec.is_none();
        let spec = LeaseSpec {
            holder_identity: Some(self.terms.replica.clone()),
            lease_duration_seconds: self.terms.lease_seconds(),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(if is_first { 0 } else { transitions(record).saturating_add(1) }),
            ..LeaseSpec::default()
        };
        Record { spec: Some(spec), ..self.labelled(record) }
    }

    pub(super) fn handed_back(&self, record: &Record) -> Record {
        let mut record = record.clone();
        let spec = record.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(self.shared.settings.clock.now()));
        record
    }

    /// Other replicas find a Lease by its labels: who strips them is corrected with the next renewal.
    fn labelled(&self, record: &Record) -> Record {
        let mut record = record.clone();
        let labels: &mut BTreeMap<String, String> = record.metadata.labels.get_or_insert_default();
        labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
        labels.insert(ENGINE.to_owned(), self.shared.settings.engine.clone());
        record
    }

    async fn send(&self, method: Method, path: ApiPath, record: &Record) -> Result<Record, RequestError> {
        let store = self.store();
        let body = serde_json::to_vec(record).map_err(|error| store.endpoint.unreadable(&error))?;
        let path = path.query("fieldManager", MANAGER);
        let reply = store.endpoint.request(method, &path, Some(Body::json(body)), self.deadline()).await?;
        store.endpoint.parse(&reply)
    }

    /// So that two attempts fit in a renew deadline.
    pub(super) fn deadline(&self) -> Duration {
        self.terms.renew_deadline / 2
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::Terms;
    use super::*;

    #[test]
    fn a_lease_says_no_shorter_time_than_its_holder_counts_on() {
        let says = |millis: u64| {
            let lease_duration = Duration::from_millis(millis);
            let (renew_deadline, retry_period) = (lease_duration / 2, lease_duration / 8);
            Terms { replica: "me".to_owned(), lease_duration, renew_deadline, retry_period }.lease_seconds()
        };
        assert_eq!([15_000, 15_001, 1_999].map(says), [15, 16, 2].map(Some));
    }

    pub fn record(holder: &str, seconds: i32, version: &str) -> Record {
        Record {
            metadata: ObjectMeta {
                name: Some(holder.to_owned()),
                resource_version: Some(version.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(seconds),
                ..LeaseSpec::default()
            }),
        }
    }
}
