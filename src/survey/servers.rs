//! What servers tell of themselves: their version, the time of day, and the state stores that they hold.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use serde_json::Value;

use super::{Surveyor, Unseen};
use crate::engine::inventory::Inventory;
use crate::multicluster::{Endpoint, RequestError};

/// How many servers are asked at one time.
const AT_ONCE: usize = 16;

/// What one server tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub version: String,
    /// By how much its clock is ahead of ours, at least; negative: behind. `None`: it does not tell the time.
    pub ahead: Option<SignedDuration>,
}

impl Surveyor {
    /// The addresses of all connections and of the clusters of all providers, by name, and which providers cannot be read.
    pub async fn endpoints(&self) -> (BTreeMap<String, Endpoint>, Vec<(String, Unseen)>) {
        let named = self.connections.iter().map(|(name, connection)| (name.clone(), connection.endpoint()));
        let (mut endpoints, mut unseen): (BTreeMap<_, _>, _) = (named.collect(), Vec::new());
        for provider in self.providers.keys() {
            match self.clusters(provider).await {
                // A cluster that a connection leads to is the connection's.
                Ok(clusters) => endpoints.extend(clusters.into_iter().map(|(_, endpoint, _)| {
                    let name = endpoint.connection().name().to_owned();
                    (name, endpoint)
                })),
                Err(why) => unseen.push((provider.clone(), why)),
            }
        }
        (endpoints, unseen)
    }

    /// The state stores of the engine on targets, by the target's name.
    pub async fn stores<'t>(
        &self,
        targets: &'t BTreeMap<String, Endpoint>,
    ) -> BTreeMap<&'t str, Result<Vec<Inventory>, RequestError>> {
        of_each(targets, async |target| self.inventories(target.clone()).list().await).await
    }
}

/// What servers tell, by name.
pub async fn ask(endpoints: &BTreeMap<String, Endpoint>) -> BTreeMap<&str, Result<Told, RequestError>> {
    of_each(endpoints, ask_one).await
}

/// Asks servers, several at one time.
async fn of_each<'e, T>(
    endpoints: &'e BTreeMap<String, Endpoint>,
    ask: impl AsyncFn(&'e Endpoint) -> T,
) -> BTreeMap<&'e str, T> {
    let ask = &ask;
    let asked = endpoints.iter().map(|(name, endpoint)| async move { (name.as_str(), ask(endpoint).await) });
    stream::iter(asked).buffer_unordered(AT_ONCE).collect().await
}

async fn ask_one(endpoint: &Endpoint) -> Result<Told, RequestError> {
    let sent = Timestamp::now();
    let (reply, time) = endpoint.version().await?;
    let received = Timestamp::now();
    let version = endpoint.parse::<Value>(&reply)?["gitVersion"].as_str().unwrap_or("no version").to_owned();
    Ok(Told { version, ahead: time.map(|time| ahead(time, sent, received)) })
}

/// What is certain of the difference of two clocks: the server read its own between two moments of ours, and told the seconds.
fn ahead(told: Timestamp, sent: Timestamp, received: Timestamp) -> SignedDuration {
    let least = told.duration_since(received);
    let most = told.duration_since(sent).saturating_add(SignedDuration::from_secs(1));
    if least.is_positive() { least } else { most.min(SignedDuration::ZERO) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_differs_by_no_more_than_is_certain() {
        let at = |milliseconds| Timestamp::from_millisecond(milliseconds).expect("a time");
        let ahead = |told, sent, received| ahead(at(told), at(sent), at(received)).as_millis();
        assert_eq!(ahead(10_000, 10_500, 10_900), 0, "the seconds alone are told");
        assert_eq!(ahead(10_000, 5_000, 70_000), 0, "the answer took a minute");
        assert_eq!(ahead(50_000, 10_000, 10_500), 39_500);
        assert_eq!(ahead(10_000, 50_000, 50_500), -39_000);
    }
}
