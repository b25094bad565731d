//! What is needed: arguments checked against each other and against the files they name.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::path::PathBuf;

use super::Usage;
use super::arguments::{Connections, ElectionArguments, LeaderElect, MachineArguments};
use crate::engine::DEFAULT_TARGET;
use crate::engine::election::Terms;
use crate::multicluster::connection::{ConnectionSource, Machine, flag};
use crate::object;

/// The value that stands for the cluster of the Pod.
const IN_CLUSTER: &str = "in-cluster";

/// An address; of `off`, none. Under this name, for clap takes an `Option` for the value of a flag that may be left out.
pub type Listen = Option<SocketAddr>;

impl ElectionArguments {
    /// How replicas agree at the home cluster; `None`: there is one replica.
    ///
    /// # Errors
    /// Where the times do not fit together, or no connection is the home cluster's.
    pub(super) fn terms(
        self,
        home: &str,
        connections: &BTreeMap<String, ConnectionSource>,
    ) -> Result<Option<Terms>, Usage> {
        let elects = self.how.leader_elect == LeaderElect::Lease;
        let terms = Terms {
            replica: self.replica.unwrap_or_else(some_replica),
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
        };
        if elects {
            terms.check().map_err(|why| Usage(format!("--leader-elect-…: {why}")))?;
        }
        // The default may be missing: an engine whose targets are all of a fleet works without a home.
        if !connections.contains_key(home) && (elects || home != DEFAULT_TARGET) {
            let what = format!("--home names the connection `{home}`, which the command line does not give");
            return Err(Usage(format!("{what}: add `{}`", flag(home))));
        }
        Ok(elects.then_some(terms))
    }
}

/// The host's name, which is a Pod's own, and an ending that another process there does not have.
fn some_replica() -> String {
    let host = std::env::var("HOSTNAME").ok().or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let host = host.map(|host| host.trim().to_owned()).filter(|host| !host.is_empty());
    let ending = RandomState::new().build_hasher().finish();
    format!("{}_{ending:016x}", host.unwrap_or_else(|| "replica".to_owned()))
}

impl Connections {
    /// The connections of a verb by their names. `kubeconfig`: whether there is a KUBECONFIG; it names the target where no
    /// connection is given.
    ///
    /// # Errors
    /// Where two flags give the same connection.
    pub fn for_verb(&self, kubeconfig: bool) -> Result<BTreeMap<String, ConnectionSource>, Usage> {
        let mut connections = self.clone().by_name()?;
        if connections.is_empty() && kubeconfig {
            connections.insert(DEFAULT_TARGET.to_owned(), ConnectionSource::Default);
        }
        Ok(connections)
    }

    /// # Errors
    /// Where two flags give the same connection.
    pub(super) fn by_name(self) -> Result<BTreeMap<String, ConnectionSource>, Usage> {
        let default = |name: &str, given: Option<ConnectionSource>| given.map(|given| (name.to_owned(), given));
        let defaults = [default("kcp", self.kcp_kubeconfig), default(DEFAULT_TARGET, self.target_kubeconfig)];
        given_once("connection", defaults.into_iter().flatten().chain(self.others), |source| match source {
            ConnectionSource::Kubeconfig { path, context: Some(context) } => format!("{}#{context}", path.display()),
            ConnectionSource::Kubeconfig { path, context: None } => path.display().to_string(),
            // No flag gives another source.
            _ => IN_CLUSTER.to_owned(),
        })
    }
}

impl MachineArguments {
    /// # Errors
    /// Where two flags give the same directory.
    pub fn given(&self) -> Result<Machine, Usage> {
        let directories = given_once("directory", self.directories.clone(), |path| path.display().to_string())?;
        Ok(Machine { directories, access_providers: self.access_providers.clone(), allow_kind: self.allow_kind })
    }
}

/// What flags give by name.
fn given_once<T: Clone>(
    what: &str,
    given: impl IntoIterator<Item = (String, T)>,
    shown: impl Fn(&T) -> String,
) -> Result<BTreeMap<String, T>, Usage> {
    let mut all = BTreeMap::new();
    for (name, other) in given {
        if let Some(one) = all.insert(name.clone(), other.clone()) {
            let (one, other) = (shown(&one), shown(&other));
            return Err(Usage(format!("the {what} `{name}` is given twice: as {one} and as {other}")));
        }
    }
    Ok(all)
}

/// `PATH[#CONTEXT]`, or `in-cluster` for the cluster of the Pod. The context begins behind the last `#`: a context's name is
/// less likely to hold one than a path. Without a context: the file's `current-context`.
pub(super) fn kubeconfig(text: &str) -> Result<ConnectionSource, String> {
    if text == IN_CLUSTER {
        return Ok(ConnectionSource::InCluster);
    }
    let (path, context) = match text.rsplit_once('#') {
        Some((_, "")) => {
            return Err("there is nothing behind the `#`; leave it out for the file's current context".to_owned());
        }
        Some((path, context)) => (path, Some(context.to_owned())),
        None => (text, None),
    };
    if path.is_empty() {
        return Err("there is no path in it; write PATH or PATH#CONTEXT".to_owned());
    }
    Ok(ConnectionSource::Kubeconfig { path: PathBuf::from(path), context })
}

/// `NAME=PATH[#CONTEXT]`
pub(super) fn named_kubeconfig(text: &str) -> Result<(String, ConnectionSource), String> {
    let write = "write NAME=PATH or NAME=PATH#CONTEXT, such as edge=/etc/edge.kubeconfig";
    let (name, path) = text.split_once('=').ok_or_else(|| format!("there is no `=` in it; {write}"))?;
    check_name(name, "connection")?;
    Ok((name.to_owned(), kubeconfig(path)?))
}

/// `NAME=PATH`
pub(super) fn named_directory(text: &str) -> Result<(String, PathBuf), String> {
    const WRITE: &str = "write NAME=PATH, such as fleet=/etc/fleet";
    let (name, path) = text.split_once('=').ok_or(WRITE)?;
    check_name(name, "directory")?;
    if path.is_empty() {
        return Err(WRITE.to_owned());
    }
    Ok((name.to_owned(), PathBuf::from(path)))
}

/// Refuses a name that cannot be one of `what`.
fn check_name(name: &str, what: &str) -> Result<(), String> {
    let why = "use at most 63 lower case letters, digits and `-`, no `-` at the ends";
    if object::is_dns_label(name) { Ok(()) } else { Err(format!("`{name}` cannot name a {what}: {why}")) }
}

pub(super) fn listen(text: &str) -> Result<Listen, String> {
    if text == "off" {
        return Ok(None);
    }
    let write = "write an address with a port, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::]:8080, or `off`";
    text.parse().map(Some).map_err(|_| write.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Verb {
        #[command(flatten)]
        connections: Connections,
    }

    /// The connections of a verb's flags, where there is a KUBECONFIG or not.
    fn named(flags: &str, kubeconfig: bool) -> String {
        let verb = Verb::try_parse_from(["verb"].into_iter().chain(flags.split_whitespace()));
        let verb = verb.unwrap_or_else(|error| panic!("{flags}: {error}"));
        let connections = verb.connections.for_verb(kubeconfig).expect("each is given once");
        connections.iter().map(|(name, reference)| format!("{name}={reference:?} ")).collect()
    }

    #[test]
    fn kubeconfig_names_the_target_where_no_connection_is_given() {
        insta::assert_snapshot!(named("--target-kubeconfig t#c", true), @r#"target=Kubeconfig { path: "t", context: Some("c") } "#);
        insta::assert_snapshot!(named("", true), @"target=Default ");
        assert_eq!(named("", false), "");
        // KUBECONFIG may as well be of the kcp, and then no verb may write to it as to a target.
        insta::assert_snapshot!(named("--kcp-kubeconfig k", true), @r#"kcp=Kubeconfig { path: "k", context: None } "#);
        insta::assert_snapshot!(named("--connection edge=e#x", true), @r#"edge=Kubeconfig { path: "e", context: Some("x") } "#);
    }

    #[test]
    fn the_cluster_of_the_pod_is_named_by_a_word() {
        insta::assert_snapshot!(named("--target-kubeconfig in-cluster --connection edge=in-cluster", true), @"edge=InCluster target=InCluster ");
    }
}
