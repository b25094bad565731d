//! kcp: workspaces, exports, bindings and the virtual workspace.

pub(super) mod binding;
mod export;
mod slice;
pub(super) mod versions;
mod view;
pub(super) mod workspace;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use data_encoding::BASE32_NOPAD;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::builtin::APIS;
use super::collection::Key;
use super::object;
use super::resource::Resource;
use super::state::{Flavor, State};

const CLUSTER: &str = "kcp.io/cluster";
const PATH: &str = "kcp.io/path";
/// Label of an APIBinding: the mark of the export it binds.
const BINDS: &str = "internal.apis.kcp.io/export";
/// Prefix of the label of claimed objects.
const CLAIMED: &str = "claimed.internal.apis.kcp.io";

/// What an export has published, and who binds it.
#[derive(Clone, Debug, Default)]
struct Export {
    resources: Vec<Arc<Resource>>,
    claims: BTreeSet<(String, String)>,
    clusters: BTreeSet<Arc<str>>,
}

/// All exports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exports {
    /// By identity, `<cluster>/<name>`.
    published: BTreeMap<Arc<str>, Export>,
    /// Bindings whose export cannot be found yet.
    waiting: BTreeSet<Key>,
    /// Every APIExportEndpointSlice.
    slices: BTreeSet<Key>,
}

impl State {
    /// Puts kcp's own annotations and labels on an object that is about to be stored.
    pub(super) fn mark(&self, key: &Key, resource: &Resource, object: &mut Value) {
        if self.settings.flavor != Flavor::Kcp {
            return;
        }
        object::set_entry(object, "annotations", CLUSTER, Some(&key.cluster));
        let Some(cluster) = self.clusters.get(&key.cluster) else { return };
        let by_path = resource.is(APIS, "apibindings") || resource.is(APIS, "apiexports");
        if by_path || matches!(&*resource.plural, "logicalclusters" | "workspacetypes") {
            object::set_entry(object, "annotations", PATH, Some(&cluster.path));
        }
        for (group, plural, mark) in &cluster.claims {
            if resource.is(group, plural) {
                object::set_entry(object, "labels", &format!("{CLAIMED}/{mark}"), Some(mark));
            }
        }
    }

    /// Logical clusters on a shard that bind an export, in order.
    pub(super) fn clusters_bound(&self, export: &str, shard: usize) -> impl Iterator<Item = &Arc<str>> {
        let clusters = self.exports.published.get(export).into_iter().flat_map(|export| &export.clusters);
        clusters.filter(move |name| self.clusters.get(*name).is_some_and(|cluster| cluster.shard == shard))
    }
}

/// Thirteen lower-case letters and digits, the first of them a letter: fit for labels.
fn short_hash(text: &str) -> String {
    let digits = BASE32_NOPAD.encode(&Sha256::digest(text)).to_ascii_lowercase();
    format!("k{}", &digits[..12])
}

/// Sets a condition as kcp writes it: that it holds, or the reason why not and a message. The time stays where nothing else is
/// new.
fn set_condition(object: &mut Value, kind: &str, holds: Result<(), (&str, &str)>, now: &str) {
    let status = if holds.is_ok() { "True" } else { "False" };
    let mut condition = serde_json::json!({"type": kind, "status": status, "lastTransitionTime": now});
    if let Err((reason, message)) = holds {
        condition["severity"] = "Error".into();
        condition["reason"] = reason.into();
        condition["message"] = message.into();
    }
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = Value::Array(Vec::new());
    }
    let Some(conditions) = object["status"]["conditions"].as_array_mut() else { return };
    let Some(present) = conditions.iter_mut().find(|present| present["type"] == condition["type"]) else {
        conditions.push(condition);
        return;
    };
    let says = |condition: &Value| ["status", "reason", "message"].map(|field| condition[field].clone());
    if says(present) != says(&condition) {
        *present = condition;
    }
}
