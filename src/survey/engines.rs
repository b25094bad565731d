//! Which engines have something on the clusters, as their state stores and their records of what is held tell.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use serde_json::Value;

use super::{Surveyor, items};
use crate::engine::inventory::{config_maps, home, name};
use crate::object::marks::{ENGINE, HELD, MANAGED_BY, MANAGER, label};
use crate::object::metadata;

/// An engine, where it keeps its state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineFound {
    pub id: String,
    /// Of its state stores.
    pub namespace: String,
    /// Connections of its home cluster: several, where it was moved and not every state store says so yet.
    pub homes: BTreeSet<String>,
    pub mappings: BTreeSet<String>,
}

impl Surveyor {
    /// The engines that have something on the connections. Who may not list all namespaces is told of the surveyor's own.
    /// A cluster that cannot be read tells nothing.
    pub async fn engines(&self) -> Vec<EngineFound> {
        let label = format!("{MANAGED_BY}={MANAGER}");
        let looks = self.connections.iter().map(async |(connection, found)| {
            let endpoint = found.endpoint();
            let all = match items(&endpoint, &config_maps(), Some(&label)).await {
                Err(error) if error.is_forbidden() => self.inventories(endpoint).config_maps(&label).await,
                all => all,
            };
            (connection, all.unwrap_or_default())
        });
        let mut engines: BTreeMap<(String, String), EngineFound> = BTreeMap::new();
        for (connection, found) in join_all(looks).await {
            for (id, mapping, home, config_map) in found.iter().filter_map(|one| told(one, connection)) {
                let key = (id.to_owned(), metadata(config_map, "namespace").to_owned());
                let (id, namespace) = key.clone();
                let engine = engines.entry(key).or_insert_with(|| EngineFound { id, namespace, ..Default::default() });
                engine.homes.insert(home);
                engine.mappings.insert(mapping.to_owned());
            }
        }
        engines.into_values().collect()
    }
}

/// The engine, the mapping and the home of which a ConfigMap tells. A record is at home.
fn told<'a>(config_map: &'a Value, connection: &str) -> Option<(&'a str, &'a str, String, &'a Value)> {
    let text = |field: &str| config_map["data"][field].as_str();
    if let Some(id) = label(config_map, HELD) {
        return Some((id, text("of")?, connection.to_owned(), config_map));
    }
    let (id, mapping) = (label(config_map, ENGINE)?, text("mapping")?);
    (metadata(config_map, "name") == name(id, mapping)).then(|| (id, mapping, home(config_map), config_map))
}
