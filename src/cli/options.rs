//! What is needed: arguments checked against each other and against the files they name.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use super::arguments::{ConnectionArguments, RunArguments};
use crate::object;

/// Everything the engine is told from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOptions {
    pub mappings: PathBuf,
    pub schemas: Option<PathBuf>,
    /// By the names that mappings and providers use. A connection that is not in it has no kubeconfig: the cluster that
    /// the engine runs in.
    pub connections: BTreeMap<String, KubeconfigRef>,
    /// `None`: no server.
    pub listen: Option<SocketAddr>,
    pub engine_id: String,
    pub inventory_namespace: String,
}

/// A kubeconfig file, and one of its contexts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeconfigRef {
    pub path: PathBuf,
    /// `None`: the file's `current-context`.
    pub context: Option<String>,
}

/// `NAME=PATH[#CONTEXT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedKubeconfig {
    pub name: String,
    pub kubeconfig: KubeconfigRef,
}

/// An address, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    Off,
    At(SocketAddr),
}

/// A flag's value that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("there is no path in it; write PATH or PATH#CONTEXT")]
    NoPath,
    #[error("there is nothing behind the `#`; leave it out for the file's current context")]
    NoContext,
    #[error("there is no `=` in it; write NAME=PATH or NAME=PATH#CONTEXT, such as edge=/etc/edge.kubeconfig")]
    NoName,
    #[error("`{0}` cannot name a connection: use at most 63 lower case letters, digits and `-`, no `-` at the ends")]
    BadName(String),
    #[error("write an address with a port, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::]:8080, or `off`")]
    BadAddress,
}

/// Two flags give the same connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the connection `{name}` is given twice: as {one} and as {other}")]
pub struct GivenTwice {
    pub name: String,
    pub one: KubeconfigRef,
    pub other: KubeconfigRef,
}

impl TryFrom<RunArguments> for RunOptions {
    type Error = GivenTwice;

    fn try_from(arguments: RunArguments) -> Result<Self, GivenTwice> {
        let connections = ConnectionArguments {
            kcp_kubeconfig: arguments.kcp_kubeconfig,
            target_kubeconfig: arguments.target_kubeconfig,
            kubeconfigs: arguments.kubeconfigs,
        };
        Ok(Self {
            connections: connections.by_name()?,
            mappings: arguments.mappings,
            schemas: arguments.schemas,
            listen: match arguments.listen {
                Listen::Off => None,
                Listen::At(address) => Some(address),
            },
            engine_id: arguments.engine_id,
            inventory_namespace: arguments.inventory_namespace,
        })
    }
}

impl ConnectionArguments {
    /// The kubeconfigs by the names of their connections.
    ///
    /// # Errors
    /// Where two flags give the same connection.
    pub fn by_name(self) -> Result<BTreeMap<String, KubeconfigRef>, GivenTwice> {
        let Self { kcp_kubeconfig, target_kubeconfig, kubeconfigs } = self;
        let named = |name: &str| {
            let name = name.to_owned();
            move |kubeconfig| NamedKubeconfig { name, kubeconfig }
        };
        let mut connections = BTreeMap::new();
        for NamedKubeconfig { name, kubeconfig } in kcp_kubeconfig
            .map(named("kcp"))
            .into_iter()
            .chain(target_kubeconfig.map(named("target")))
            .chain(kubeconfigs)
        {
            match connections.entry(name) {
                Entry::Vacant(place) => {
                    place.insert(kubeconfig);
                }
                Entry::Occupied(taken) => {
                    let name = taken.key().clone();
                    return Err(GivenTwice { name, one: taken.get().clone(), other: kubeconfig });
                }
            }
        }
        Ok(connections)
    }
}

impl FromStr for KubeconfigRef {
    type Err = ValueError;

    /// The context begins behind the last `#`: a context's name is less likely to hold one than a path.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (path, context) = match text.rsplit_once('#') {
            Some((_, "")) => return Err(ValueError::NoContext),
            Some((path, context)) => (path, Some(context.to_owned())),
            None => (text, None),
        };
        if path.is_empty() {
            return Err(ValueError::NoPath);
        }
        Ok(Self { path: PathBuf::from(path), context })
    }
}

impl fmt::Display for KubeconfigRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.context {
            Some(context) => write!(f, "{}#{context}", self.path.display()),
            None => write!(f, "{}", self.path.display()),
        }
    }
}

impl FromStr for NamedKubeconfig {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (name, kubeconfig) = text.split_once('=').ok_or(ValueError::NoName)?;
        if !object::is_dns_label(name) {
            return Err(ValueError::BadName(name.to_owned()));
        }
        Ok(Self { name: name.to_owned(), kubeconfig: kubeconfig.parse()? })
    }
}

impl FromStr for Listen {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text == "off" {
            return Ok(Self::Off);
        }
        text.parse().map(Self::At).map_err(|_| ValueError::BadAddress)
    }
}
