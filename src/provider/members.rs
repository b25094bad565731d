//! Every way of listing the clusters of a fleet.

use std::sync::Arc;

use super::cluster_api::ClusterApi;
use super::files::KubeconfigFiles;
use super::fleet::{Listed, Members};
use super::kind::Kind;
use super::secrets::KubeconfigSecrets;
use crate::mapping::ProviderKind;
use crate::multicluster::connection::Connection;

/// Where a provider lists its clusters.
pub enum AnyMembers {
    Files(KubeconfigFiles),
    Secrets(KubeconfigSecrets),
    Kind(Kind),
    ClusterApi(ClusterApi),
}

impl AnyMembers {
    /// `None`: the provider has one cluster, or clusters that no list of kubeconfigs tells.
    ///
    /// # Errors
    /// There is no such connection.
    pub fn of(
        kind: &ProviderKind,
        connection: impl Fn(&str) -> Result<Arc<Connection>, String>,
    ) -> Result<Option<Self>, String> {
        Ok(Some(match kind {
            ProviderKind::Kubeconfig { .. } | ProviderKind::NotYet(_) => return Ok(None),
            ProviderKind::KubeconfigFiles { directory, glob } => {
                Self::Files(KubeconfigFiles::new(directory, glob.as_deref()))
            }
            ProviderKind::KubeconfigSecrets { connection: hub, namespace, selector, key } => {
                Self::Secrets(KubeconfigSecrets::new(&connection(hub)?, namespace, selector, key)?)
            }
            ProviderKind::Kind => Self::Kind(Kind::default()),
            ProviderKind::ClusterApi { connection: hub, namespace, selector } => Self::ClusterApi(ClusterApi::new(
                &connection(hub)?,
                namespace.as_deref().unwrap_or_default(),
                selector,
            )?),
        }))
    }
}

impl Members for AnyMembers {
    async fn look(&mut self) -> Result<Listed, String> {
        match self {
            Self::Files(members) => members.look().await,
            Self::Secrets(members) => members.look().await,
            Self::Kind(members) => members.look().await,
            Self::ClusterApi(members) => members.look().await,
        }
    }

    async fn changed(&mut self) {
        match self {
            Self::Files(members) => members.changed().await,
            Self::Secrets(members) => members.changed().await,
            Self::Kind(members) => members.changed().await,
            Self::ClusterApi(members) => members.changed().await,
        }
    }
}
