//! Every way of listing the clusters of a fleet.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::sleep;

use super::cluster_inventory::ClusterInventory;
use super::discovery::LOOK_AGAIN;
use super::files::KubeconfigFiles;
use super::kind::Kind;
use super::secrets::{ClusterApi, KubeconfigSecrets};
use crate::connection::{Connection, Machine};
use crate::environment::{AnyMembers, CustomProviders, Listed, Members};
use crate::watch::Watches;
use sync_engine_mapping::object::ClusterName;
use sync_engine_mapping::{Part, ProviderKind};

/// The members of a provider, or of one that it joins.
pub struct Group {
    /// What stands before the members' names: the name of the provider that is joined.
    pub prefix: Option<String>,
    pub members: Box<dyn AnyMembers>,
    /// Whether the provider tells labels of its clusters: those of a member that has none are known.
    tells_labels: bool,
}

/// The members of a provider, and why some cannot be had.
#[derive(Default)]
pub struct Groups {
    pub groups: Vec<Group>,
    pub refused: Vec<String>,
}

impl Groups {
    /// Those of the provider of this name and kind.
    ///
    /// # Errors
    /// There is no such connection, or the provider lists no kubeconfigs.
    pub fn of(
        provider: &str,
        kind: &ProviderKind,
        connection: impl Fn(&str) -> Result<Arc<Connection>, String>,
        custom: &CustomProviders,
        machine: &Machine,
        watches: &Arc<Watches>,
    ) -> Result<Self, String> {
        let ProviderKind::Multi(parts) = kind else {
            let members = members_of(provider, kind, &connection, custom, machine, watches)?;
            let tells_labels = kind.tells_labels();
            return Ok(Self { groups: vec![Group { prefix: None, members, tells_labels }], refused: Vec::new() });
        };
        let tells_labels = parts.iter().filter_map(|part| part.kind.as_ref()).any(ProviderKind::tells_labels);
        let mut joint = Self::default();
        for Part { name, kind } in parts {
            let missing = || {
                format!(
                    "the ClusterProvider `{name}` cannot be joined: add its document, or correct it (the log and \
                     `/readyz?verbose` tell its errors)"
                )
            };
            let members = kind
                .as_ref()
                .ok_or_else(missing)
                .and_then(|kind| members_of(name, kind, &connection, custom, machine, watches));
            // The one cluster of a kubeconfig has the provider's name already.
            let prefix = (!matches!(kind, Some(ProviderKind::Kubeconfig(_)))).then(|| name.clone());
            match members {
                Ok(members) => joint.groups.push(Group { prefix, members, tells_labels }),
                Err(why) => joint.refused.push(why),
            }
        }
        Ok(joint)
    }
}

impl Group {
    /// What was listed, by the names that the members have among those of all groups.
    pub fn named(&self, listed: Listed) -> Listed {
        let name = |name: &ClusterName| match &self.prefix {
            Some(prefix) => ClusterName::try_from(format!("{prefix}.{name}").as_str()),
            None => Ok(name.clone()),
        };
        let (mut members, mut traits, mut refused) = (BTreeMap::new(), BTreeMap::new(), listed.refused);
        for (of, source) in listed.members {
            let Ok(name) = name(&of).map_err(|error| refused.push(error.to_string())) else { continue };
            let mut told = listed.traits.get(&of).cloned().unwrap_or_default();
            if self.tells_labels {
                told.labels.get_or_insert_default();
            }
            traits.insert(name.clone(), told);
            members.insert(name, source);
        }
        Listed { members, traits, refused }
    }
}

/// Where a provider lists its clusters.
fn members_of(
    provider: &str,
    kind: &ProviderKind,
    connection: impl Fn(&str) -> Result<Arc<Connection>, String>,
    custom: &CustomProviders,
    machine: &Machine,
    watches: &Arc<Watches>,
) -> Result<Box<dyn AnyMembers>, String> {
    Ok(match kind {
        ProviderKind::Kubeconfig(one) => {
            let source = connection(&one.connection)?.source().clone();
            let name = ClusterName::try_from(provider).map_err(|error| error.to_string())?;
            Box::new(Same(Listed { members: BTreeMap::from([(name, source)]), ..Listed::default() }))
        }
        ProviderKind::KubeconfigFiles(files) => {
            Box::new(KubeconfigFiles::new(machine.directory(&files.directory)?, files.glob.as_deref()))
        }
        ProviderKind::KubeconfigSecrets(of) => {
            Box::new(KubeconfigSecrets::new(&connection(&of.connection)?.endpoint(), of, watches))
        }
        ProviderKind::Kind(_) if !machine.allow_kind => {
            return Err(format!("ClusterProvider `{provider}` runs the program `kind`: add `--allow-kind`"));
        }
        ProviderKind::Kind(_) => Box::new(Kind::default()),
        ProviderKind::ClusterApi(of) => Box::new(ClusterApi::new(&connection(&of.connection)?.endpoint(), of, watches)),
        ProviderKind::ClusterInventory(of) => {
            let access_providers = machine.access_providers.as_deref().ok_or_else(|| {
                format!("ClusterProvider `{provider}` needs to know which programs give credentials: add `--access-providers FILE`")
            })?;
            Box::new(ClusterInventory::new(&connection(&of.connection)?.endpoint(), of, access_providers, watches))
        }
        ProviderKind::Custom(own) => custom.make(&own.name, &own.parameters)?,
        ProviderKind::None(_) => Box::new(Same(Listed::default())),
        ProviderKind::Multi(_) | ProviderKind::Namespaces(_) | ProviderKind::WorkspaceTypes(_) => {
            return Err(format!("ClusterProvider `{provider}` is of a kind that lists no kubeconfigs"));
        }
    })
}

/// The cluster of a connection of the command line, among others, or none at all. What its kubeconfig says may change.
struct Same(Listed);

impl Members for Same {
    async fn look(&mut self) -> Result<Listed, String> {
        Ok(self.0.clone())
    }

    async fn changed(&mut self) {
        sleep(LOOK_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::ConnectionSource;

    #[test]
    fn a_member_whose_name_is_too_long_among_those_of_all_groups_is_refused() {
        let own = "a".repeat(250);
        let name = ClusterName::try_from(own.as_str()).expect("a name");
        let listed = Listed { members: BTreeMap::from([(name, ConnectionSource::Default)]), ..Listed::default() };
        let members = Box::new(Same(Listed::default()));
        let group = Group { prefix: Some("joined".to_owned()), members, tells_labels: false };
        let Listed { members, refused, .. } = group.named(listed);
        assert!(members.is_empty() && refused[0].starts_with(&format!("`joined.{own}` is no ")), "{refused:?}");
    }
}
