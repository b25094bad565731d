//! APIExportEndpointSlice, and the Partition that narrows one down to some shards.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::builtin::{APIS, TOPOLOGY};
use super::super::collection::Key;
use super::super::state::State;
use super::set_condition;
use sync_engine_mapping::Selector;

impl State {
    /// A slice came, changed or went.
    pub(crate) fn settle_slice(&mut self, key: &Key) {
        let Some(slices) = self.builtin(APIS, "apiexportendpointslices") else { return };
        if self.stored(&slices, key).is_none() {
            self.exports.slices.remove(key);
            return;
        }
        self.exports.slices.insert(key.clone());
        self.publish_slice(key);
    }

    /// The slices beside a partition may be of other shards now.
    pub(crate) fn settle_partition(&mut self, key: &Key) {
        let beside: Vec<Key> =
            self.exports.slices.iter().filter(|slice| slice.cluster == key.cluster).cloned().collect();
        beside.iter().for_each(|slice| self.publish_slice(slice));
    }

    /// Who binds an export, or whether it is there, has changed.
    pub(super) fn publish_endpoints(&mut self, export: &str) {
        let Some(slices) = self.builtin(APIS, "apiexportendpointslices") else { return };
        let is_of_it = |key: &&Key| {
            let slice = self.stored(&slices, key).map(|stored| stored.object());
            slice.is_some_and(|slice| self.referred(&slice["spec"]["export"], key).as_deref() == Some(export))
        };
        let touched: Vec<Key> = self.exports.slices.iter().filter(is_of_it).cloned().collect();
        touched.iter().for_each(|slice| self.publish_slice(slice));
    }

    /// Lists the URL of each shard of the partition on which something binds the export. As kcp has it, the URL of a shard
    /// that left the partition stays for as long as something there does.
    fn publish_slice(&mut self, key: &Key) {
        let Some(slices) = self.builtin(APIS, "apiexportendpointslices") else { return };
        let Some(slice) = self.stored(&slices, key).map(|stored| stored.object()) else { return };
        let export = self.referred(&slice["spec"]["export"], key);
        let export = export.filter(|export| self.exports.published.contains_key(export));
        let selector = self.selector_of(key, &slice);
        let now = self.now.to_string();
        let Some(export) = export else {
            let spec = &slice["spec"]["export"];
            let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
            let why = format!("Error getting APIExport {}|{}", text("path"), text("name"));
            return self.change_own(&slices, key, |slice| {
                set_endpoints(slice, Vec::new());
                set_condition(slice, "APIExportValid", Err(("APIExportNotFound", why.as_str())), &now);
            });
        };
        let listed = slice["status"]["endpoints"].as_array().into_iter().flatten();
        let listed: BTreeSet<&str> = listed.filter_map(|endpoint| endpoint["url"].as_str()).collect();
        let mut urls = Vec::new();
        for (shard, base) in self.settings.urls.iter().enumerate() {
            // kcp gives each shard its name as a label.
            let name = if shard == 0 { "root".to_owned() } else { format!("shard-{shard}") };
            let url = format!("{base}/services/apiexport/{export}");
            let is_inside = selector.as_ref().is_ok_and(|selector| selector.matches(Some(&json!({"name": name}))));
            let stays = selector.is_ok() && listed.contains(&*url);
            if (is_inside || stays) && self.clusters_bound(&export, shard).next().is_some() {
                urls.push(url);
            }
        }
        self.change_own(&slices, key, |slice| {
            set_endpoints(slice, urls);
            set_condition(slice, "APIExportValid", Ok(()), &now);
            let partition = selector.as_ref().map(drop).map_err(|why| ("PartitionInvalidReference", &**why));
            set_condition(slice, "PartitionValid", partition, &now);
            let status = &mut slice["status"];
            match selector.map(|selector| selector.to_string()) {
                Ok(text) if text.is_empty() => {
                    drop(status.as_object_mut().map(|status| status.remove("shardSelector")))
                }
                Ok(text) => status["shardSelector"] = text.into(),
                Err(_) => {}
            }
        });
    }

    /// Which shards a slice is for.
    fn selector_of(&self, key: &Key, slice: &Value) -> Result<Selector, String> {
        let Some(name) = slice["spec"]["partition"].as_str().filter(|name| !name.is_empty()) else {
            return Ok(Selector::default());
        };
        let partitions = self.builtin(TOPOLOGY, "partitions");
        let partition = partitions.and_then(|of| self.stored(&of, &Key::new(&key.cluster, "", name)).cloned());
        let partition = partition.ok_or_else(|| format!("partition.topology.kcp.io \"{name}\" not found"))?;
        let selector: Option<Selector> = serde_json::from_value(partition.object()["spec"]["selector"].clone())
            .map_err(|error| {
                format!("partition.topology.kcp.io \"{name}\" has no selector that can be read: {error}")
            })?;
        Ok(selector.unwrap_or_default())
    }
}

fn set_endpoints(slice: &mut Value, urls: Vec<String>) {
    let endpoints: Vec<Value> = urls.into_iter().map(|url| json!({"url": url})).collect();
    if !endpoints.is_empty() {
        slice["status"]["endpoints"] = endpoints.into();
    } else if let Some(status) = slice["status"].as_object_mut() {
        status.remove("endpoints");
    }
}
