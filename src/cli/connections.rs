//! The kubeconfigs of the command line: each file and context must be there before anything starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Misconfigured;
use super::options::KubeconfigRef;
use crate::multicluster::connection::{Connection, ConnectionSource, ConnectionSpec};

/// The connections that mappings name by default.
const DEFAULTS: [&str; 2] = ["kcp", "target"];

/// Opens every connection; in a pod, one of the default names that is not given is the pod's own cluster.
///
/// # Errors
/// For the first connection whose kubeconfig or context cannot be used.
pub(super) fn open(
    given: &BTreeMap<String, KubeconfigRef>,
) -> Result<BTreeMap<String, Arc<Connection>>, Misconfigured> {
    let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let missing = DEFAULTS.iter().filter(|name| in_pod && !given.contains_key(**name));
    let own = missing.map(|name| ConnectionSpec { name: (*name).to_owned(), source: ConnectionSource::InCluster });
    let named = given.iter().map(|(name, reference)| ConnectionSpec {
        name: name.clone(),
        source: ConnectionSource::Kubeconfig { path: reference.path.clone(), context: reference.context.clone() },
    });
    named.chain(own).map(|spec| Ok((spec.name.clone(), opened(spec)?))).collect()
}

fn opened(spec: ConnectionSpec) -> Result<Arc<Connection>, Misconfigured> {
    Connection::open(spec).map_err(|error| Misconfigured(error.to_string()))
}
