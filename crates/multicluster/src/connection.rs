//! Connections: what the command line named, read as kubectl reads it.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::{HeaderValue, Uri};
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::Instant;

use super::budget::Budget;
use super::client::Client;
use super::directory::Reading;
use super::endpoint::Endpoint;
use super::identity::Confirmation;
use super::in_process::InProcess;
use super::kubeconfig::{self, Loaded};
use super::lane::{AddressLimits, Counters};
use super::permit::Epoch;
use super::proxy::without_password;
use super::request_error::RequestError;
use crate::health::Level;
use sync_engine_mapping::object::is_dns_label;

/// One connection of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionSpec {
    pub name: String,
    pub source: ConnectionSource,
}

/// Where a connection's address and credential come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionSource {
    /// A kubeconfig file; `context` `None`: its current context.
    Kubeconfig { path: PathBuf, context: Option<String> },
    /// The service account of the pod.
    InCluster,
    /// As kubectl: `KUBECONFIG` (a list), else `~/.kube/config`.
    Default,
    /// A kubeconfig that a cluster holds; `context` `None`: its current context.
    Held { kubeconfig: Held, context: Option<String> },
    /// Servers in this process: no file is read and no network used.
    InProcess(InProcess),
}

/// A kubeconfig that stands in a cluster, in a Secret for example: its text is replaced when it changes there.
#[derive(Debug, Clone)]
pub struct Held(Arc<HeldText>);

struct HeldText {
    origin: String,
    text: ArcSwap<String>,
    is_user_local: bool,
}

impl Held {
    /// `origin` says in messages where it stands.
    pub fn new(origin: String, text: String) -> Self {
        Self(Arc::new(HeldText { origin, text: ArcSwap::from_pointee(text), is_user_local: false }))
    }

    /// The same for a kubeconfig whose user the operator of the engine wrote: it may run a program.
    pub fn with_local_user(origin: String, text: String) -> Self {
        Self(Arc::new(HeldText { origin, text: ArcSwap::from_pointee(text), is_user_local: true }))
    }

    /// Whether the operator of the engine wrote its user.
    pub fn is_user_local(&self) -> bool {
        self.0.is_user_local
    }

    /// It says something else now: [`Connection::reload`] takes that up.
    pub fn replace(&self, text: impl Into<Arc<String>>) {
        self.0.text.store(text.into());
    }

    pub fn origin(&self) -> &str {
        &self.0.origin
    }

    pub fn text(&self) -> Arc<String> {
        self.0.text.load_full()
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Held {}

impl fmt::Debug for HeldText {
    /// Without the text: it is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.origin).finish()
    }
}

/// What is wrong with a connection as it was given: the command line's to mend (exit code 78).
#[derive(Debug, thiserror::Error)]
#[error("connection `{connection}`: {why}")]
pub struct ConnectionError {
    connection: String,
    why: String,
}

impl ConnectionError {
    pub(super) fn new(connection: &str, why: String) -> Self {
        Self { connection: connection.to_owned(), why }
    }

    /// Its files hang.
    pub(super) fn unread(connection: &str, why: &str) -> Self {
        Self::new(connection, format!("its configuration cannot be read: {why}"))
    }
}

/// Names in a message.
pub(crate) fn listed<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The flag that gives a connection its kubeconfig.
pub fn flag(connection: &str) -> String {
    match connection {
        "kcp" | "target" => format!("--{connection}-kubeconfig PATH[#CONTEXT]"),
        name => format!("--connection {name}=PATH[#CONTEXT]"),
    }
}

/// What the connections of one process share.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// The replica's name, where there are several: servers are told it in each request.
    pub replica: Option<Arc<str>>,
    pub budget: Budget,
    pub machine: Arc<Machine>,
}

/// What the command line opens of the engine's machine to providers: a document names neither a program nor a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Directories of kubeconfig files, by the names that documents use.
    pub directories: BTreeMap<String, PathBuf>,
    /// The file that says which program gives the credential for each access provider of a cluster inventory.
    pub access_providers: Option<PathBuf>,
    /// Whether the program `kind` may be run.
    pub allow_kind: bool,
}

impl Machine {
    /// # Errors
    /// The command line gives no directory of this name.
    pub fn directory(&self, name: &str) -> Result<&Path, String> {
        let missing = || {
            let known = listed(self.directories.keys().map(String::as_str));
            format!("there is no directory `{name}` (there are: {known}); add `--directory {name}=PATH`")
        };
        self.directories.get(name).map(PathBuf::as_path).ok_or_else(missing)
    }
}

/// What a reload of a connection found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reloaded {
    Unchanged,
    /// Swapped in place: every endpoint of the connection uses the new credential from now on.
    Credential,
    /// The server's address is another: clusters have to be replaced. The endpoints made before keep the former credential.
    Address,
}

/// A connection that works: one HTTP client, shared by all endpoints made from it.
pub struct Connection {
    spec: ConnectionSpec,
    current: ArcSwap<Current>,
    /// The limits of each address that is in use, and the client that it is asked with.
    lanes: Mutex<HashMap<String, (Weak<AddressLimits>, Site)>>,
    counters: Arc<Counters>,
    identity: Confirmation,
    restored: Epoch,
    /// What it means that something is wrong with it.
    trouble: Level,
    rereading: tokio::sync::Mutex<Rereading>,
    agent: HeaderValue,
    budget: Budget,
}

/// The User-Agent of requests.
const AGENT: &str = concat!("sync-engine/", env!("CARGO_PKG_VERSION"));

const REREAD_PAUSE: Duration = Duration::from_secs(5);

/// How the configuration is read again.
#[derive(Default)]
struct Rereading {
    reading: Reading<Changed>,
    /// When it was last read because of a refusal.
    refused: Option<Instant>,
}

/// What the configuration says, if that is another thing than before.
type Changed = Result<Option<Current>, ConnectionError>;

/// What a reload replaces as a whole.
struct Current {
    fingerprint: u64,
    /// With scheme, without trailing slash.
    address: String,
    site: Site,
}

/// The client that the endpoints of one server share: another credential is swapped in. Another address gets a client of
/// its own, so that no server is sent the credential of another.
pub(super) type Site = Arc<ArcSwap<Client>>;

impl Connection {
    /// Reads the configuration. Talks to no server; an exec plugin runs with the first request.
    pub fn open(spec: ConnectionSpec) -> Result<Arc<Self>, ConnectionError> {
        Self::of_process(spec, &Process::default())
    }

    /// The same as one of a process's connections.
    pub fn of_process(spec: ConnectionSpec, process: &Process) -> Result<Arc<Self>, ConnectionError> {
        Self::build(spec, process, Level::Waiting)
    }

    /// The same for one of many clusters, which a provider found: what is wrong with it leaves the engine ready.
    pub fn of_fleet(spec: ConnectionSpec, process: &Process) -> Result<Arc<Self>, ConnectionError> {
        Self::build(spec, process, Level::Degraded)
    }

    fn build(spec: ConnectionSpec, process: &Process, trouble: Level) -> Result<Arc<Self>, ConnectionError> {
        let agent = process.replica.as_ref().map(|name| format!("{AGENT} ({name})"));
        let agent = agent.and_then(|agent| HeaderValue::try_from(agent).ok());
        let agent = agent.unwrap_or(HeaderValue::from_static(AGENT));
        let current = Current::build(&spec, kubeconfig::load(&spec)?, agent.clone())?;
        Ok(Arc::new(Self {
            spec,
            current: ArcSwap::from_pointee(current),
            lanes: Mutex::default(),
            counters: Arc::default(),
            identity: Confirmation::default(),
            restored: Epoch::default(),
            trouble,
            rereading: tokio::sync::Mutex::default(),
            agent,
            budget: process.budget.clone(),
        }))
    }

    pub fn name(&self) -> &str {
        &self.spec.name
    }

    pub fn source(&self) -> &ConnectionSource {
        &self.spec.source
    }

    /// What it means for the engine's readiness that something is wrong with it.
    pub fn trouble(&self) -> Level {
        self.trouble
    }

    /// What the process may use.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(super) fn in_process(&self) -> Option<&InProcess> {
        match &self.spec.source {
            ConnectionSource::InProcess(servers) => Some(servers),
            _ => None,
        }
    }

    /// A seed for what is random: requests that wait together must not come back together.
    pub fn entropy(&self) -> u64 {
        self.in_process().map_or_else(|| RandomState::new().build_hasher().finish(), |servers| servers.0.entropy())
    }

    /// Fills these with random bytes that nobody can foretell: those of the system. Servers in this process have their own, so that
    /// a simulation is the same each time.
    ///
    /// # Errors
    /// The system gives none.
    pub fn fill_random(&self, bytes: &mut [u8]) -> Result<(), RequestError> {
        if let Some(servers) = self.in_process() {
            let fill = |part: &mut [u8]| part.copy_from_slice(&servers.0.entropy().to_le_bytes()[..part.len()]);
            bytes.chunks_mut(8).for_each(fill);
            return Ok(());
        }
        let reason = "the system gives no random bytes".to_owned();
        SystemRandom::new().fill(bytes).map_err(|_| RequestError::NoBudget { reason })
    }

    /// Requests sent so far, to any of the connection's addresses.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How long ago an address of it answered last; `None` also where none is in use any more, for nobody asks it then.
    pub fn last_answer(&self) -> Option<Duration> {
        let is_in_use = self.lanes.lock().values().any(|(lane, _)| lane.strong_count() > 0);
        self.counters.last_answer().filter(|_| is_in_use)
    }

    /// When its credential ends, as far as it says so and nothing here replaces it: a client certificate, or a token that is a
    /// JWT. An exec plugin gives another in time.
    pub fn credential_ends(&self) -> Option<Timestamp> {
        self.current.load().site.load().ends()
    }

    /// Which cluster the connection's own address leads to, as far as that is confirmed.
    pub fn identity(&self) -> &Confirmation {
        &self.identity
    }

    /// Advances whenever a watch, or whoever reads one object again and again, sees a version go back: the server was restored to an
    /// earlier state. It may be asked at other addresses too, as kcp is at those of its virtual workspaces, and have passed there what
    /// a watch has heard of.
    pub fn restored(&self) -> &Epoch {
        &self.restored
    }

    /// The connection's own address.
    pub fn endpoint(self: &Arc<Self>) -> Endpoint {
        let current = self.current.load();
        self.endpoint_of(&current, current.address.clone())
    }

    /// Another address with the same credential, verbatim: an endpoint slice's URL.
    pub fn endpoint_at(self: &Arc<Self>, url: &str) -> Result<Endpoint, ConnectionError> {
        Ok(self.endpoint_of(&self.current.load(), address(&self.spec.name, url, false)?))
    }

    /// The address of a workspace: `path` replaces the `/clusters/…` part of the connection's address; `None`: as it stands.
    pub fn workspace(self: &Arc<Self>, path: Option<&str>) -> Result<Endpoint, ConnectionError> {
        let current = self.current.load();
        let address = current.address.as_str();
        let Some(path) = path else { return Ok(self.endpoint_of(&current, address.to_owned())) };
        if path.len() > 1024 || !path.split(':').all(is_dns_label) {
            let rule = "names of lower case letters, digits and `-`, joined by `:`";
            return Err(ConnectionError::new(self.name(), format!("`{path}` is no workspace path ({rule})")));
        }
        let server = address.split_once("/clusters/").map_or(address, |(server, _)| server);
        Ok(self.endpoint_of(&current, format!("{server}/clusters/{path}")))
    }

    /// The addresses in use that gave no answer for so long.
    pub(super) fn silent(self: &Arc<Self>, silence: Duration) -> Vec<Endpoint> {
        let lanes = self.lanes.lock();
        let lanes = lanes.iter().filter_map(|(url, (lane, site))| Some((url.clone(), lane.upgrade()?, site.clone())));
        let silent = lanes.filter(|(_, lane, _)| lane.silence() >= silence);
        let mut silent: Vec<Endpoint> =
            silent.map(|(url, lane, site)| Endpoint::new(self.clone(), url, lane, site)).collect();
        silent.sort_by(|one, other| one.url().cmp(other.url()));
        silent
    }

    /// Reads the configuration again; call it when a file changed, or now and then.
    ///
    /// # Errors
    /// The configuration cannot be used, or its file system gives no answer: what works stays in use.
    pub async fn reload(self: &Arc<Self>) -> Result<Reloaded, ConnectionError> {
        let mut rereading = self.rereading.lock().await;
        let changed = self.changed_aside(&mut rereading.reading).await?;
        Ok(match changed.map(|after| self.take(after)) {
            None => Reloaded::Unchanged,
            Some(true) => Reloaded::Credential,
            Some(false) => Reloaded::Address,
        })
    }

    /// Files are read on a thread of their own; servers in this process have none.
    async fn changed_aside(self: &Arc<Self>, reading: &mut Reading<Changed>) -> Changed {
        if self.in_process().is_some() {
            return self.changed();
        }
        let connection = self.clone();
        let read = reading.of(move || connection.changed()).await;
        read.unwrap_or_else(|why| Err(ConnectionError::unread(self.name(), &why)))
    }

    fn changed(&self) -> Changed {
        let loaded = kubeconfig::load(&self.spec)?;
        let is_same = loaded.fingerprint == self.current.load().fingerprint;
        if is_same { Ok(None) } else { Current::build(&self.spec, loaded, self.agent.clone()).map(Some) }
    }

    /// Reads the configuration again because a server refused the credential of a client: a kcp that starts anew, say, writes a
    /// new token. Whether requests to that server have another one now. It is read once for all whom the server refuses at the
    /// same time, and not more often than every [`REREAD_PAUSE`].
    pub(super) async fn reread(self: &Arc<Self>, site: &Site, refused: &Arc<Client>) -> bool {
        let is_replaced = || !Arc::ptr_eq(&site.load_full(), refused);
        let Ok(mut rereading) = self.rereading.try_lock() else {
            // Somebody reads it right now, and what that finds is true of this refusal too.
            drop(self.rereading.lock().await);
            return is_replaced();
        };
        if is_replaced() || rereading.refused.is_some_and(|at| at.elapsed() < REREAD_PAUSE) {
            return is_replaced();
        }
        rereading.refused = Some(Instant::now());
        let after = self.changed_aside(&mut rereading.reading).await.ok().flatten();
        // A new address is left to `reload`, whose caller replaces the clusters, and who says what is wrong.
        if let Some(after) = after.filter(|after| after.address == self.current.load().address) {
            tracing::info!(connection = self.name(), "the credential was refused, and is another now");
            self.take(after);
        }
        is_replaced()
    }

    /// Uses what was read from now on. Whether it leads to the same cluster is to be confirmed. `false`: it is another address.
    fn take(&self, mut after: Current) -> bool {
        let before = self.current.load_full();
        let is_same_address = after.address == before.address;
        if is_same_address {
            let site = std::mem::replace(&mut after.site, before.site.clone());
            before.site.store(site.load_full());
        }
        self.current.store(Arc::new(after));
        self.identity.doubt();
        is_same_address
    }

    /// Endpoints of one address share their limits, however often they are made. The address and the credential are of one
    /// configuration.
    fn endpoint_of(self: &Arc<Self>, current: &Current, address: String) -> Endpoint {
        let mut lanes = self.lanes.lock();
        lanes.retain(|_, (lane, _)| lane.strong_count() > 0);
        let lane = lanes.get(&address).and_then(|(lane, _)| lane.upgrade());
        let lane = lane.unwrap_or_else(|| Arc::new(AddressLimits::new(self.counters.clone())));
        lanes.insert(address.clone(), (Arc::downgrade(&lane), current.site.clone()));
        Endpoint::new(self.clone(), address, lane, current.site.clone())
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("spec", &self.spec).field("address", &self.current.load().address).finish()
    }
}

impl Current {
    fn build(spec: &ConnectionSpec, loaded: Loaded, agent: HeaderValue) -> Result<Self, ConnectionError> {
        let encrypted = loaded.config.root_cert.is_some() || loaded.config.accept_invalid_certs;
        let address = address(&spec.name, &loaded.config.cluster_url.to_string(), encrypted)?;
        let client = Client::new(loaded.config, loaded.proxies, agent).map_err(|reason| {
            ConnectionError::new(&spec.name, format!("the credential of {} cannot be used: {reason}", loaded.origin))
        })?;
        Ok(Self { fingerprint: loaded.fingerprint, address, site: Arc::new(ArcSwap::from_pointee(client)) })
    }
}

/// Without a user and password, which must not show in messages. kubectl too reads `host:port` as an address.
fn address(connection: &str, url: &str, encrypted: bool) -> Result<String, ConnectionError> {
    let shown = without_password(url);
    let invalid = || ConnectionError::new(connection, format!("`{shown}` is no http or https address"));
    let trimmed = url.trim_end_matches('/');
    let scheme = if encrypted { "https" } else { "http" };
    let full = if trimmed.contains("://") { trimmed.to_owned() } else { format!("{scheme}://{trimmed}") };
    let uri: Uri = full.parse().map_err(|_| invalid())?;
    let usable = matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty());
    let credentials = uri.authority().and_then(|authority| authority.as_str().rsplit_once('@'));
    let text = credentials.map_or(full.clone(), |(credentials, _)| full.replacen(&format!("{credentials}@"), "", 1));
    if usable && uri.query().is_none() { Ok(text) } else { Err(invalid()) }
}

#[cfg(test)]
pub(crate) mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::directory::PATIENCE;

    /// Writes a kubeconfig of this server.
    pub(crate) fn write(path: &Path, server: &str) {
        let text = format!(
            r#"{{"current-context": "x", "contexts": [{{"name": "x", "context": {{"cluster": "x"}}}}],
            "clusters": [{{"name": "x", "cluster": {{"server": "{server}"}}}}]}}"#
        );
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn open(path: &Path) -> Arc<Connection> {
        let source = ConnectionSource::Kubeconfig { path: path.into(), context: None };
        Connection::open(ConnectionSpec { name: "target".into(), source }).unwrap()
    }

    /// A pipe that nobody writes to is a file on a mount that hangs.
    #[tokio::test(start_paused = true)]
    async fn a_kubeconfig_that_hangs_is_told_and_not_read_once_more_for_each_refusal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        write(&path, "http://127.0.0.1:1");
        let connection = open(&path);
        std::fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let site = connection.current.load().site.clone();
        let client = site.load_full();
        let reread = || connection.reread(&site, &client);
        assert_eq!(reread().now_or_never(), None);
        let (hangs, is_replaced, ()) = tokio::join!(connection.reload(), reread(), tokio::time::advance(PATIENCE));
        assert_eq!(
            hangs.expect_err("no answer").to_string(),
            "connection `target`: its configuration cannot be read: its file system has not answered for 30 s"
        );
        assert!(!is_replaced);
        std::fs::write(&path, "clusters: [").expect("whoever waits for it reads it");
        assert!(connection.reload().await.is_err(), "what the first reading found: another would wait");
    }

    #[tokio::test]
    async fn a_former_address_is_asked_with_its_own_credential_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        write(file.path(), "http://127.0.0.1:1");
        let connection = open(file.path());
        let former = connection.endpoint();
        write(file.path(), "http://127.0.0.1:2");
        assert_eq!(connection.reload().await.unwrap(), Reloaded::Address);
        assert_eq!(connection.silent(Duration::ZERO), std::slice::from_ref(&former));
        let present = connection.endpoint();
        assert_eq!(connection.silent(Duration::ZERO), [former, present]);
    }

    /// It would look like one whose servers give no answer.
    #[tokio::test]
    async fn a_connection_that_nothing_uses_any_more_tells_of_no_answer() {
        let file = tempfile::NamedTempFile::new().unwrap();
        write(file.path(), "http://127.0.0.1:1");
        let connection = open(file.path());
        let endpoint = connection.endpoint();
        assert_eq!(connection.last_answer(), None, "nothing was asked yet");
        connection.lanes.lock().values().for_each(|(lane, _)| lane.upgrade().unwrap().note_answer());
        assert!(connection.last_answer().is_some());
        drop(endpoint);
        assert_eq!(connection.last_answer(), None);
    }
}
