//! An in-memory Kubernetes-style API server, with kcp's semantics where they are asked for.
//!
//! [`State::handle`] is the whole server: a request and a moment in, an answer and the events that watches are sent
//! out. It knows no I/O, no clock and no randomness. [`Sandbox`] puts it behind one lock and plain HTTP on loopback,
//! for any Kubernetes client, and adds [`Faults`]. A write carries out at once what a real cluster's controllers do a
//! moment later: a namespace empties, a CustomResourceDefinition is served, an APIBinding is Bound before the next
//! request.
//!
//! # What is not modelled
//!
//! * **Who asks.** One bearer token for all, and one for each workspace: no other users, no groups, no impersonation, nobody is anonymous. No admission plugins but for what [`State::set_admission`] changes, no quotas. RBAC objects are kept, and
//!   mean nothing. Permission claims are looked at, their verbs and selectors are not.
//! * **Built-in kinds** have their fields and types, and few of their rules: what Kubernetes would refuse in a Role or a
//!   CustomResourceDefinition is stored (kcp's kinds have no schemas). Served are namespaces, configmaps, secrets,
//!   serviceaccounts, resourcequotas, events, RBAC, leases and CustomResourceDefinitions; nothing that runs (pods, deployments, jobs), no
//!   `/scale`, no tokens, no access reviews.
//! * **Schemas**: CEL rules, `oneOf`, `anyOf`, `allOf`, `not` and formats are not evaluated. Defaults are filled in on
//!   writes only. A changed definition changes nothing that is stored. Versions of a custom resource differ in nothing
//!   but their names, and there are no conversion webhooks; what is stored in a version that is gone can still be read. A field that a body says twice is not noticed.
//! * **Depth**: an object nested deeper than 100 levels is refused.
//! * **Server-side apply** knows no change of a schema between two applies.
//! * **Strategic merge patch** merges finalizers, ownerReferences and the secrets of a ServiceAccount, and replaces all other
//!   lists.
//! * **Garbage collection** happens at once. An owner whose kind is not served never counts as gone.
//! * **Lists**: of `resourceVersionMatch` only `Exact` makes a difference. Items of built-in kinds carry their `apiVersion` and
//!   `kind`. Field selectors know name and namespace, and what Kubernetes knows of Events, Secrets and Namespaces; label
//!   selectors are read leniently.
//! * **Watches** have no end of their own and no limit on what waits for a slow client. History is bounded by number of
//!   changes, not by time, and begins with the server.
//! * **Formats**: answers are JSON; bodies are JSON, also for server-side apply, or Protobuf of the built-in kinds. No
//!   YAML, CBOR or compression. Reads and watches come as tables or as metadata alone where that is asked for, answers
//!   to writes never. No aggregated discovery, no OpenAPI v2, no schemas of kcp's kinds. What is said of a body that
//!   cannot be read is in the words of another parser.
//! * **kcp**: no workspace types, no initializers, terminators, mounts, Shards, PartitionSets or replication; the virtual
//!   workspace of exports is the only one. `fieldManager` is never recorded as `kcp`. An export that is deleted leaves
//!   its bindings as they are. Two exports bound in one workspace that bring the same resource: the later one is served.
//!   `kcp.io/cluster` is stored like any annotation; kcp adds it on the way out, and stores it with the next write.
//!   A slice lists no shard that its partition does not select; kcp 0.32 may, where consumers are there before the slice.
//!
//! The suite in `tests/conformance` compares all this with real servers; `known.yaml` there lists where the answers differ.

mod access;
mod apply;
mod builtin;
mod builtin_rules;
mod builtin_schemas;
mod coerce;
mod collection;
mod counters;
mod definition;
mod delete;
mod difference;
mod discovery;
mod faults;
mod fields;
mod garbage;
mod http;
mod kcp;
mod kubeconfig;
mod last_applied;
mod managers;
mod merge;
mod names;
mod object;
mod openapi;
mod options;
mod patch;
mod protobuf;
mod quantity;
mod read;
mod reply;
mod representation;
mod request;
mod resource;
pub mod schema;
mod selector;
mod server;
mod settle;
pub mod setup;
mod shape;
mod state;
mod status;
mod table;
mod timestamp;
mod tls;
mod validation;
mod watch;
mod write;

#[cfg(test)]
mod tests;

pub use access::User;
pub use collection::{Change, ChangeKind, Event, Key, Stored};
pub use counters::Counters;
pub use faults::{Fault, Faults};
pub use kubeconfig::{Context, kubeconfig};
pub use object::normalise_numbers;
pub use reply::{Answer, Outcome, Reply, Stream, Subscription, Watcher};
pub use request::{Call, Exchange, Query, Request, Verb};
pub use resource::Storage;
pub use setup::{ApiRef, Claim, Events, anything, binding, definition, export, parts, resource_schema};
pub use state::{Admission, Controllers, Flavor, Settings, State, Unbound};
pub use status::{Cause, Failure, Status};
pub use timestamp::Timestamp;
pub use watch::Interest;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;

use self::access::Tokens;
use self::request::Place;
use self::server::{Clock, Server};
use self::tls::Tls;

/// A running API server. Dropping it closes its ports and every connection.
pub struct Sandbox {
    server: Arc<Server>,
    ports: Vec<u16>,
    tls: Option<Tls>,
    bookmarks_every: Duration,
    tasks: JoinSet<()>,
}

/// How to start a [`Sandbox`].
pub struct Options {
    settings: Settings,
    shards: usize,
    port: u16,
    encrypted: bool,
    bookmarks_every: Duration,
    clock: Clock,
}

impl Options {
    /// A plain Kubernetes cluster.
    pub fn kubernetes() -> Options {
        Options::of(Flavor::Kubernetes)
    }

    /// A kcp with the workspace `root`.
    pub fn kcp() -> Options {
        Options::of(Flavor::Kcp)
    }

    fn of(flavor: Flavor) -> Options {
        Options {
            settings: Settings { flavor, ..Settings::default() },
            shards: 1,
            port: 0,
            encrypted: false,
            bookmarks_every: Duration::from_secs(1),
            clock: Arc::new(Timestamp::of_the_clock),
        }
    }

    /// Distinguishes the uids of one server from those of another.
    pub fn seed(mut self, seed: &str) -> Options {
        self.settings.seed = seed.to_owned();
        self
    }

    /// Spreads workspaces over shards, each with a port of its own.
    pub fn shards(mut self, shards: usize) -> Options {
        self.shards = shards.max(1);
        self
    }

    /// The port of the first shard; 0, the default, for any.
    pub fn port(mut self, port: u16) -> Options {
        self.port = port;
        self
    }

    /// Serves TLS, with a certificate that is made at the start. Needed by whatever is built on client-go, which sends no token
    /// without it.
    pub fn encrypted(mut self) -> Options {
        self.encrypted = true;
        self
    }

    /// How often watches get bookmarks; a second, if nothing else is said.
    pub fn bookmarks_every(mut self, every: Duration) -> Options {
        self.bookmarks_every = every;
        self
    }

    /// What a list answers on a shard where nothing binds an export.
    pub fn unbound(mut self, unbound: Unbound) -> Options {
        self.settings.unbound = unbound;
        self
    }

    /// The clock that requests are handled by.
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Options {
        self.clock = Arc::new(clock);
        self
    }

    /// Opens the ports and serves; needs a Tokio runtime.
    pub async fn start(mut self) -> io::Result<Sandbox> {
        let mut listeners = vec![http::listen(self.port).await?];
        while listeners.len() < self.shards {
            listeners.push(http::listen(0).await?);
        }
        let ports: Vec<u16> = listeners.iter().map(|one| Ok(one.local_addr()?.port())).collect::<io::Result<_>>()?;
        let tls = if self.encrypted { Some(Tls::make()?) } else { None };
        self.settings.urls = ports.iter().map(|port| url(*port, tls.is_some())).collect();
        let state = State::new(self.settings, (self.clock)());
        let server = Arc::new(Server::new(state, Tokens::draw()?, self.clock));
        let (bookmarks_every, tasks) = (self.bookmarks_every, JoinSet::new());
        let mut sandbox = Sandbox { server, ports, tls, bookmarks_every, tasks };
        sandbox.serve(listeners);
        Ok(sandbox)
    }
}

impl Sandbox {
    /// Base URL, without a trailing slash.
    pub fn url(&self) -> String {
        url(self.ports[0], self.tls.is_some())
    }

    /// The bearer token of whoever started the server, for everything in it.
    pub fn token(&self) -> &str {
        self.server.tokens.administrator()
    }

    /// Takes another bearer token for the administrator's: one that says when it ends, say.
    pub fn accept(&self, token: &str) {
        self.server.tokens.accept(token, User::Administrator);
    }

    /// The bearer token for one workspace, by its name or path; `None` where there is none.
    pub fn token_of(&self, workspace: &str) -> Option<String> {
        let path = self.server.with_state(|state| {
            let cluster = state.cluster_at(&Place::Cluster(workspace.to_owned())).ok()?;
            Some(state.path_of(&cluster))
        })?;
        Some(self.server.tokens.of(User::Workspace(path.into())))
    }

    /// The administrator's context for the cluster, or for a workspace of kcp by its name or path.
    pub fn context(&self, name: &str, workspace: Option<&str>) -> Context {
        let path = workspace.map(|workspace| format!("/clusters/{workspace}")).unwrap_or_default();
        Context {
            name: name.to_owned(),
            server: format!("{}{path}", self.url()),
            authority: self.tls.as_ref().map(|tls| tls.authority.clone()),
            token: self.token().to_owned(),
        }
    }

    /// A kubeconfig with that context alone; JSON, which is YAML.
    pub fn kubeconfig(&self, workspace: Option<&str>) -> String {
        kubeconfig(&[self.context("sandbox", workspace)])
    }

    /// Faults in force; none at the start. They meet what comes over HTTP, not [`Sandbox::request`].
    pub fn faults(&self) -> &Faults {
        &self.server.faults
    }

    /// Requests that came over HTTP so far.
    pub fn counters(&self) -> Counters {
        self.server.counters()
    }

    /// The resourceVersion of the last write: stands still where nobody writes.
    pub fn version(&self) -> u64 {
        self.server.with_state(|state| state.version())
    }

    /// Forgets all history: a watch that resumes from before now gets a 410.
    pub fn compact(&self) {
        self.server.with_state(State::compact);
    }

    /// Replaces what mutating admission changes from now on.
    pub fn set_admission(&self, changes: Vec<Admission>) {
        self.server.with_state(|state| state.set_admission(changes));
    }

    /// All that the server knows now, to be [put back](Self::restore).
    pub fn backup(&self) -> State {
        self.server.with_state(|state| state.clone())
    }

    /// Puts an earlier state back, its resourceVersions included. Watches stay open and silent, as those from a version
    /// of the future.
    pub fn restore(&self, backup: &State) {
        self.server.with_state(|state| *state = backup.clone());
    }

    /// Carries out a request without HTTP. A watch belongs to [`Sandbox::events`] and is refused.
    pub fn request(&self, request: &Request) -> Answer {
        match self.server.handle(request) {
            Outcome::Answer(answer) => answer,
            Outcome::Stream(_) => Answer::from(&Failure::bad_request("a watch has no single answer")),
        }
    }

    /// Goes off the network, as a server that is killed: every connection is cut. The state stays.
    pub async fn disconnect(&mut self) {
        self.tasks.shutdown().await;
    }

    /// Comes back under the same addresses.
    pub async fn reconnect(&mut self) -> io::Result<()> {
        self.disconnect().await;
        let mut listeners = Vec::new();
        for port in &self.ports {
            listeners.push(http::listen_again(*port).await?);
        }
        self.serve(listeners);
        Ok(())
    }

    fn serve(&mut self, listeners: Vec<TcpListener>) {
        for (shard, listener) in listeners.into_iter().enumerate() {
            let acceptor = self.tls.as_ref().map(|tls| tls.acceptor.clone());
            self.tasks.spawn(http::accept(listener, acceptor, self.server.clone(), shard));
        }
        self.tasks.spawn(http::send_bookmarks(self.server.clone(), self.bookmarks_every));
    }
}

fn url(port: u16, encrypted: bool) -> String {
    let scheme = if encrypted { "https" } else { "http" };
    format!("{scheme}://127.0.0.1:{port}")
}
