//! List and watch: one resource of one endpoint, into a store, for as long as somebody holds the watch.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::api_path::ApiPath;
use super::endpoint::{DEFAULT_DEADLINE, Endpoint, Reply};
use super::lines::Lines;
use super::list::{PageEnd, WatchLine, read_page};
use super::list_watch::{ListWatch, Outcome, Phase};
use super::own_lists::{self, OwnLists, OwnPage};
use super::pages::{OBJECT_BYTES, Pages};
use super::permit::{Epoch, Follower};
use super::raw::{MAPPING_LABEL, NotAnObject, Parsed, is_older};
use super::registry::{ClusterSpec, ClustersOf, WatchScope};
use super::request_error::RequestError;
use super::store::Store;
use super::stores::{Listing, Stores};
use crate::health::{Condition, Health};
use sync_engine_mapping::Resource;

pub use super::list_watch::WatchState;

/// A server that gives no metadata says so with this code.
const NOT_ACCEPTABLE: u16 = 406;
/// What the condition is called that names clusters with large objects.
const LARGE_OBJECTS: &str = "large objects";
/// A page of 500 large objects takes its time.
const LIST_DEADLINE: Duration = Duration::from_secs(120);
/// How long after its own `timeoutSeconds` a watch is given up.
const GRACE: Duration = Duration::from_secs(15);

/// What is watched.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchKey {
    /// Base address of the endpoint.
    pub endpoint: String,
    /// With whose credential it is watched.
    pub connection: String,
    pub clusters: ClustersOf,
    pub resource: Resource,
    pub selectors: Selectors,
}

impl fmt::Display for WatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "watch of {} at {} through {}", self.resource, self.endpoint, self.connection)?;
        if let ClustersOf::One(cluster) = &self.clusters {
            write!(f, " ({cluster})")?;
        }
        let Selectors { label, field, namespace, of_mapping, ending, by_name, outlines: _ } = &self.selectors;
        let parts = [("in", namespace), ("where", label), ("where", field), ("for", of_mapping), ("ending in", ending)];
        for (word, part) in parts.iter().filter(|(_, part)| !part.is_empty()) {
            write!(f, " {word} {part}")?;
        }
        f.write_str(if *by_name { " by name" } else { "" })
    }
}

/// Server-side selectors of a watch, as they stand in the query. Empty: everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selectors {
    pub label: String,
    pub field: String,
    /// One namespace alone; empty: all.
    pub namespace: String,
    /// Objects of this mapping alone, `<engine>.<mapping>`; empty: all. One watch serves all mappings of an engine.
    pub of_mapping: String,
    /// Only objects are kept whose names end like this. Others pass by and are forgotten at once.
    pub ending: String,
    /// Whether only objects are kept that somebody asks for by name.
    pub by_name: bool,
    /// Whether objects that are too large are kept as outlines. Whoever asks for it reads them when they are needed.
    pub outlines: bool,
}

/// What somebody sees of a running watch. Dropping the last handle ends it.
#[derive(Debug)]
pub struct Watch {
    store: Arc<Store>,
    running: Arc<Running>,
}

#[derive(Debug)]
struct Running {
    endpoint: Endpoint,
    stores: Arc<Stores>,
    states: watch::Sender<WatchState>,
    /// Advances with each state.
    changed: Epoch,
    served: Epoch,
    own_lists: Arc<OwnLists>,
    task: JoinHandle<()>,
    condition: Arc<Shown>,
}

/// The condition of the watches of one key: one that begins for another one's user may end after it.
#[derive(Debug)]
struct Shown {
    health: Health,
    what: String,
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.health.remove(&self.what);
    }
}

impl Watch {
    /// Where it is watched.
    pub fn endpoint(&self) -> &Endpoint {
        &self.running.endpoint
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub fn state(&self) -> WatchState {
        self.running.states.borrow().clone()
    }

    /// Advances with the first page of each list: the resource is served, and what is known of it may be acted on.
    pub fn served(&self) -> &Epoch {
        &self.running.served
    }

    /// One of the clusters that it shows is engaged. Nobody there waits for the first list of all where that lasts.
    pub fn engage(&self, cluster: &ClusterSpec) {
        if cluster.scope.clusters == ClustersOf::Annotated && cluster.holding.is_none() {
            self.running.own_lists.engage(&cluster.name, &cluster.endpoint);
        }
    }

    /// To wait for changes of the state.
    pub fn changes(&self) -> Follower {
        self.running.changed.follow()
    }

    pub fn is_synced(&self) -> bool {
        *self.running.states.borrow() == WatchState::Synced
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// All watches of the process, one per [`WatchKey`], shared by whoever asks.
#[derive(Debug, Default)]
pub struct Watches {
    health: Health,
    running: Mutex<BTreeMap<WatchKey, Weak<Running>>>,
}

impl Watches {
    /// Watches that report into `health`.
    pub fn new(health: Health) -> Arc<Self> {
        Arc::new(Self { health, running: Mutex::default() })
    }

    /// The running watch of this scope, resource and selector, or a new one. Never waits; must be called within a Tokio runtime.
    ///
    /// Whoever replaces a user of a watch acquires the watch before the old user drops it: then nothing is listed anew.
    pub fn acquire(&self, scope: &WatchScope, resource: &Resource, selectors: &Selectors) -> Arc<Watch> {
        let mut key = WatchKey {
            endpoint: scope.endpoint.url().to_owned(),
            connection: scope.endpoint.connection().name().to_owned(),
            clusters: scope.clusters.clone(),
            resource: resource.clone(),
            selectors: selectors.clone(),
        };
        let mapping = selectors.of_mapping.as_str();
        if let Some((engine, _)) = mapping.split_once('.') {
            key.selectors.label = MAPPING_LABEL.to_owned();
            key.selectors.of_mapping = format!("{engine}.");
        }
        let running = self.shared(key, scope);
        Arc::new(Watch { store: running.stores.of(mapping), running })
    }

    fn shared(&self, key: WatchKey, scope: &WatchScope) -> Arc<Running> {
        let mut running = self.running.lock();
        running.retain(|_, watch| watch.strong_count() > 0);
        let former = running.get(&key).and_then(Weak::upgrade);
        let condition = match former {
            Some(watch) if watch.endpoint == scope.endpoint => return watch,
            Some(watch) => watch.condition.clone(),
            None => Arc::new(Shown { health: self.health.clone(), what: key.to_string() }),
        };
        let watch = Arc::new(self.start(key.clone(), scope, condition));
        running.insert(key, Arc::downgrade(&watch));
        watch
    }

    /// How many watches run.
    pub fn len(&self) -> usize {
        let running = self.running.lock();
        running.values().filter(|watch| watch.strong_count() > 0).count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn start(&self, key: WatchKey, scope: &WatchScope, condition: Arc<Shown>) -> Running {
        let bodies = key.selectors.outlines.then(|| scope.endpoint.connection().budget().bodies().clone());
        let Selectors { ending, by_name, .. } = &key.selectors;
        let store = Store::bounded(scope.clusters.clone(), ending, *by_name, bodies);
        let prefix = Some(key.selectors.of_mapping.clone()).filter(|prefix| !prefix.is_empty());
        let stores = Arc::new(Stores::new(store, prefix));
        let states = watch::Sender::new(WatchState::Starting);
        let (changed, served, own_lists) = (Epoch::default(), Epoch::default(), Arc::<OwnLists>::default());
        let worker = Worker {
            endpoint: scope.endpoint.clone(),
            key: key.clone(),
            stores: stores.clone(),
            states: states.clone(),
            changed: changed.clone(),
            served: served.clone(),
            own_lists: own_lists.clone(),
            health: self.health.clone(),
            machine: ListWatch::new(scope.endpoint.connection().entropy()),
            place: None,
            pages: Pages::new(key.selectors.outlines),
        };
        let task = tokio::spawn(worker.run());
        Running { endpoint: scope.endpoint.clone(), stores, states, changed, served, own_lists, task, condition }
    }
}

/// Carries out what [`ListWatch`] decides.
struct Worker {
    endpoint: Endpoint,
    key: WatchKey,
    stores: Arc<Stores>,
    states: watch::Sender<WatchState>,
    changed: Epoch,
    served: Epoch,
    own_lists: Arc<OwnLists>,
    health: Health,
    machine: ListWatch,
    /// Among the watches that may run at once; taken before the first list.
    place: Option<OwnedSemaphorePermit>,
    pages: Pages,
}

type Answered = Result<Reply, RequestError>;

/// A list in progress: where its objects go, and the page that was asked for.
struct List<'a> {
    listing: Listing<'a>,
    begun: Instant,
    /// The token of the page; `None`: it is the first.
    page: Option<String>,
    asked: BoxFuture<'static, Answered>,
    /// A page of a single cluster, and what came of it; `None`: it is to be asked for.
    own: BoxFuture<'static, (OwnPage, Option<Answered>)>,
}

enum Came {
    Page(Answered),
    Own(OwnPage, Option<Answered>),
}

/// What was asked for. Cancel-safe: it stays asked for.
async fn answer(list: &mut Option<List<'_>>) -> Came {
    match list {
        Some(List { asked, own, .. }) => tokio::select! {
            biased;
            page = asked => Came::Page(page),
            (page, answered) = own => Came::Own(page, answered),
        },
        None => pending().await,
    }
}

/// An open stream: since when it is open, when it brought its last line, how long it brought none at most, and until when
/// it may stay.
struct Stream {
    lines: Lines,
    opened: Instant,
    heard: Instant,
    silent: Duration,
    until: Instant,
}

impl Worker {
    /// Ends only by being dropped. A panic (of a subscriber, say) restarts it with a list.
    async fn run(mut self) {
        loop {
            if AssertUnwindSafe(self.list_and_watch()).catch_unwind().await.is_ok() {
                return;
            }
            let reason = "the watch broke down, which is a bug; it begins anew".to_owned();
            self.machine.state = WatchState::Failed { reason, code: None, synced_before: true };
            self.report();
            sleep(Duration::from_secs(1)).await;
        }
    }

    async fn list_and_watch(&mut self) {
        let stores = self.stores.clone();
        let mut list: Option<List<'_>> = None;
        let mut stream: Option<Stream> = None;
        let mut restored = self.endpoint.restored().follow();
        let mut known = restored.catch_up();
        let mut phase = Phase::Listing;
        loop {
            let outcome = match &phase {
                Phase::Listing => {
                    stream = None;
                    known = restored.catch_up();
                    self.own_lists.begin();
                    let (listing, begun) = (stores.begin_list(), Instant::now());
                    let (asked, own) = (self.ask_for_page(None), pending().boxed());
                    list = Some(List { listing, begun, page: None, asked, own });
                    loop {
                        let came = answer(&mut list).await;
                        if let Some(outcome) = self.take(&mut list, came) {
                            break outcome;
                        }
                    }
                }
                Phase::Pausing { delay, .. } => {
                    stream = None;
                    sleep(*delay).await;
                    Outcome::Paused
                }
                _ if restored.is_behind() => Outcome::Doubted,
                Phase::Verifying { .. } => {
                    stream = None;
                    self.verify().await
                }
                Phase::Opening { version } => {
                    let (outcome, opened) = self.open(version).await;
                    stream = opened;
                    outcome
                }
                Phase::Reading { version } => match stream.as_mut() {
                    // All are cancel-safe: where the stream loses a line, a list follows.
                    Some(stream) => tokio::select! {
                        biased;
                        () = restored.advanced() => Outcome::Doubted,
                        came = answer(&mut list) => match self.take(&mut list, came) {
                            Some(outcome) => outcome,
                            None => continue,
                        },
                        outcome = self.read(stream, version) => outcome,
                    },
                    None => Outcome::Ended { lived: Duration::ZERO, silent: Duration::ZERO },
                },
            };
            let was_reading = matches!(phase, Phase::Reading { .. });
            if matches!(outcome, Outcome::Doubted) {
                stores.doubt_versions();
            }
            phase = self.machine.step(phase, outcome);
            if self.machine.take_went_back() {
                tracing::warn!(watch = %self.key, "a version went back: the server was restored to an earlier state");
                stores.doubt_versions();
                self.endpoint.restored().advance_from(known);
            }
            if was_reading && !matches!(phase, Phase::Reading { .. } | Phase::Opening { .. }) {
                self.endpoint.connection().identity().doubt();
            }
            self.report();
        }
    }

    /// Before each page of the first list. What is known already is listed again whatever that takes.
    fn within_budget(&mut self) -> Result<(), RequestError> {
        let budget = self.endpoint.connection().budget();
        let no_budget = |reason| RequestError::NoBudget { reason };
        if self.place.is_none() {
            self.place = Some(budget.place().map_err(no_budget)?);
        }
        if self.machine.has_listed() { Ok(()) } else { budget.permits_more().map_err(no_budget) }
    }

    /// Asks for the first page of a list, or for the one of this token.
    fn ask_for_page(&mut self, token: Option<&str>) -> BoxFuture<'static, Answered> {
        let page = self.pages.next();
        let endpoint = if page.is_metadata { self.endpoint.for_metadata() } else { self.endpoint.clone() };
        self.ask(endpoint, page.limit, token.map(str::to_owned), page.bytes()).boxed()
    }

    fn ask(
        &mut self,
        endpoint: Endpoint,
        limit: u32,
        token: Option<String>,
        most: usize,
    ) -> impl Future<Output = Answered> + use<> {
        let (permitted, path) = (self.within_budget(), self.path());
        async move {
            permitted?;
            let path = path?.query("limit", &limit.to_string());
            let path = token.iter().fold(path, |path, token| path.query("continue", token));
            endpoint.list_page(&path, LIST_DEADLINE, most).await
        }
    }

    /// Waits until a single cluster is to be listed, while the first list lasts.
    fn wait_for_cluster(&self, from: Instant) -> BoxFuture<'static, (OwnPage, Option<Answered>)> {
        if self.machine.has_listed() {
            return pending().boxed();
        }
        let own_lists = self.own_lists.clone();
        let next = async move {
            sleep_until(from).await;
            (own_lists.next().await, None)
        };
        next.boxed()
    }

    /// Takes what was asked for, and asks for the next page. `None`: nothing follows from it for the watch.
    fn take(&mut self, list: &mut Option<List<'_>>, came: Came) -> Option<Outcome> {
        match came {
            Came::Page(answered) => self.take_page(list, answered),
            Came::Own(page, answered) => {
                self.take_own(list.as_mut()?, page, answered);
                None
            }
        }
    }

    /// `None`: it was too long, and is asked for in another form.
    fn take_page(&mut self, list: &mut Option<List<'_>>, answered: Answered) -> Option<Outcome> {
        let in_progress = list.as_mut()?;
        let own_lists = self.own_lists.clone();
        let put = |object: Parsed<'_>| {
            object.cluster.iter().for_each(|cluster| own_lists.shown(cluster));
            in_progress.listing.item(object)
        };
        let came = match answered {
            Err(RequestError::TooLong { .. }) if self.pages.too_long() => None,
            Err(error) if error.code() == Some(NOT_ACCEPTABLE) && self.pages.refused() => None,
            answered => Some(answered.and_then(|reply| {
                let end = self.put_page(&reply, put)?;
                self.pages.came(reply.body.len());
                Ok(end)
            })),
        };
        let end = match came {
            None => {
                in_progress.asked = self.ask_for_page(in_progress.page.as_deref());
                return None;
            }
            Some(Err(error)) => {
                *list = None;
                return Some(Outcome::NoPage { error });
            }
            Some(Ok(end)) => end,
        };
        if in_progress.page.is_none() && !end.version.is_empty() {
            self.served.advance();
            in_progress.own = self.wait_for_cluster(in_progress.begun + own_lists::AFTER);
        }
        if end.next.is_some() {
            in_progress.asked = self.ask_for_page(end.next.as_deref());
            in_progress.page = end.next;
            return Some(Outcome::Page { version: end.version, is_last: false });
        }
        if let Some(List { listing, .. }) = list.take_if(|_| !end.version.is_empty()) {
            listing.finish(&end.version);
            self.own_lists.finish();
        }
        *list = None;
        Some(Outcome::Page { version: end.version, is_last: true })
    }

    /// A page of a single cluster. Where it fails or is too long, the list in progress shows what is there.
    fn take_own(&mut self, list: &mut List<'_>, page: OwnPage, answered: Option<Answered>) {
        let put = |object: Parsed<'_>| match object.cluster == Some(&*page.cluster) {
            true => list.listing.ahead(&object),
            false => Ok(false),
        };
        let (next, pause) = match answered {
            None => (Some(page), own_lists::PACE),
            Some(Ok(reply)) => {
                let end = self.put_page(&reply, put).ok();
                (end.and_then(|end| page.next(end.next, reply.body.len())), own_lists::PACE)
            }
            Some(Err(RequestError::TooLong { .. })) => (None, own_lists::PACE),
            Some(Err(error)) => {
                tracing::debug!(watch = %self.key, cluster = %page.cluster, %error, "a cluster is not listed by itself");
                (None, own_lists::PAUSE)
            }
        };
        list.own = match next {
            Some(page) => {
                let (endpoint, token) = (page.endpoint.clone(), page.token.clone());
                let asked = self.ask(endpoint, page.limit, token, own_lists::BYTES);
                asked.map(|answered| (page, Some(answered))).boxed()
            }
            None => self.wait_for_cluster(Instant::now() + pause),
        };
    }

    /// Puts the objects of a page into their stores.
    fn put_page(
        &mut self,
        reply: &Reply,
        put: impl Fn(Parsed<'_>) -> Result<bool, NotAnObject>,
    ) -> Result<PageEnd, RequestError> {
        if self.machine.lists_again() {
            // Before anybody acts on it: it may be the answer of another cluster behind the same address.
            self.endpoint.connection().identity().doubt();
        }
        let item = |parsed: Parsed<'_>| {
            let name = parsed.name;
            if !put(parsed)? {
                self.homeless(name);
            }
            Ok(())
        };
        let end = read_page(&reply.body, item).map_err(|error| self.unreadable(&error))?;
        self.report_bodies();
        Ok(end)
    }

    /// The collection's version, by the cheapest list.
    async fn verify(&self) -> Outcome {
        match self.first_of_list().await {
            Ok(_) if self.stores.has_untold_answer() => Outcome::Doubted,
            Ok(end) => Outcome::Verified { version: end.version },
            Err(error) => Outcome::Failed { error, lived: Duration::ZERO },
        }
    }

    async fn first_of_list(&self) -> Result<PageEnd, RequestError> {
        let reply = self.endpoint.list_page(&self.path()?.query("limit", "1"), DEFAULT_DEADLINE, OBJECT_BYTES).await?;
        read_page(&reply.body, |_| Ok(())).map_err(|error| self.unreadable(&error))
    }

    async fn open(&mut self, version: &str) -> (Outcome, Option<Stream>) {
        let seconds = self.machine.watch_seconds();
        match self.lines_from(version, seconds).await {
            Ok(lines) => {
                let opened = Instant::now();
                let until = opened + Duration::from_secs(seconds) + GRACE;
                (Outcome::Opened, Some(Stream { lines, opened, heard: opened, silent: Duration::ZERO, until }))
            }
            Err(error) => (Outcome::Failed { error, lived: Duration::ZERO }, None),
        }
    }

    async fn lines_from(&self, version: &str, seconds: u64) -> Result<Lines, RequestError> {
        let path = self.path()?.query("watch", "true").query("allowWatchBookmarks", "true");
        let path = path.query("timeoutSeconds", &seconds.to_string()).query("resourceVersion", version);
        self.endpoint.watch(&path, DEFAULT_DEADLINE).await
    }

    /// Reads lines until one is worth a step: an event changes nothing but the version.
    async fn read(&self, stream: &mut Stream, version: &str) -> Outcome {
        let (opened, heard, silent) = (stream.opened, stream.heard, stream.silent);
        let ended = || Outcome::Ended { lived: opened.elapsed(), silent: silent.max(heard.elapsed()) };
        let line = match timeout_at(stream.until, stream.lines.next()).await {
            Err(_) | Ok(Ok(None)) => return ended(),
            Ok(Err(reason)) => {
                tracing::debug!(watch = %self.key, reason, "the stream broke off");
                return ended();
            }
            Ok(Ok(Some(line))) => line,
        };
        stream.silent = silent.max(heard.elapsed());
        stream.heard = Instant::now();
        self.endpoint.note_answer();
        let act = |line| match line {
            WatchLine::Put(parsed) => self.event(parsed, version, Stores::put),
            WatchLine::Deleted(parsed) => self.event(parsed, version, |stores, last| Ok(stores.delete(last))),
            WatchLine::Bookmark(new) if new.is_empty() => Ok(Outcome::Line { version: version.to_owned() }),
            WatchLine::Bookmark(version) => Ok(Outcome::Line { version }),
            WatchLine::Error(status) => {
                Ok(Outcome::Failed { error: RequestError::Status(status), lived: opened.elapsed() })
            }
        };
        let acted = WatchLine::read(line).and_then(act);
        acted.unwrap_or_else(|error| Outcome::Failed { error: self.unreadable(&error), lived: opened.elapsed() })
    }

    fn event(
        &self,
        parsed: Parsed<'_>,
        version: &str,
        apply: impl Fn(&Stores, Parsed<'_>) -> Result<bool, NotAnObject>,
    ) -> Result<Outcome, NotAnObject> {
        let new = match parsed.resource_version {
            "" => version.to_owned(),
            new => new.to_owned(),
        };
        let name = parsed.name;
        // An event of another history says nothing of this one.
        if !is_older(&new, version) && !apply(&self.stores, parsed)? {
            self.homeless(name);
        }
        self.report_bodies();
        Ok(Outcome::Line { version: new })
    }

    /// Shows which clusters have more than what is kept whole.
    fn report_bodies(&self) {
        match self.endpoint.connection().budget().bodies().condition() {
            None => {}
            Some(Ok(())) => self.health.remove(LARGE_OBJECTS),
            Some(Err(clusters)) => drop(self.health.set(LARGE_OBJECTS, Condition::degraded(clusters))),
        }
    }

    fn path(&self) -> Result<ApiPath, RequestError> {
        let Selectors { label, field, namespace, .. } = &self.key.selectors;
        let selectors = [("labelSelector", label), ("fieldSelector", field)].into_iter();
        let path = ApiPath::collection(&self.key.resource, namespace)?;
        Ok(selectors.filter(|(_, text)| !text.is_empty()).fold(path, |path, (key, text)| path.query(key, text)))
    }

    /// Shows the state where it changed, and says failures and recoveries aloud.
    fn report(&self) {
        let state = &self.machine.state;
        if *self.states.borrow() == *state {
            return;
        }
        let what = self.key.to_string();
        match state {
            WatchState::Failed { reason, .. } => {
                let trouble = self.endpoint.connection().trouble();
                if self.health.set(&what, Condition::of(Err(reason.clone()), trouble)) {
                    tracing::warn!(watch = what, %reason, "a watch fails and is retried");
                }
            }
            WatchState::Synced | WatchState::NotServed => {
                self.health.report(&what, Ok(()));
                tracing::debug!(watch = what, ?state, "state of a watch");
            }
            WatchState::Starting => {}
        }
        self.states.send_replace(state.clone());
        self.changed.advance();
    }

    fn unreadable(&self, error: &NotAnObject) -> RequestError {
        RequestError::Body { url: self.endpoint.url().to_owned(), reason: error.to_string() }
    }

    fn homeless(&self, name: &str) {
        tracing::warn!(name, "{}: an object does not say which cluster it lives in, and is left out", self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use sync_engine_mapping::object::ClusterName;

    /// Their conditions would take each other's place.
    #[test]
    fn no_two_watches_have_one_name() {
        let key = |endpoint: &str, connection: &str, clusters: ClustersOf, resource: &str, selectors: Selectors| {
            let resource = Resource { group: String::new(), version: "v1".to_owned(), plural: resource.to_owned() };
            let (endpoint, connection) = (endpoint.to_owned(), connection.to_owned());
            WatchKey { endpoint, connection, clusters, resource, selectors }.to_string()
        };
        let one = |name: &str| ClustersOf::One(ClusterName::try_from(name).expect("a name"));
        let all = Selectors::default;
        let names = [
            key("https://a", "x", ClustersOf::Annotated, "secrets", all()),
            key("https://b", "x", ClustersOf::Annotated, "secrets", all()),
            key("https://a", "y", ClustersOf::Annotated, "secrets", all()),
            key("https://a", "x", one("c"), "secrets", all()),
            key("https://a", "x", one("d"), "secrets", all()),
            key("https://a", "x", ClustersOf::Annotated, "configmaps", all()),
            key("https://a", "x", ClustersOf::Annotated, "secrets", Selectors { label: "a=b".into(), ..all() }),
            key("https://a", "x", ClustersOf::Annotated, "secrets", Selectors { field: "a.b=c".into(), ..all() }),
            key("https://a", "x", ClustersOf::Annotated, "secrets", Selectors { namespace: "n".into(), ..all() }),
            key("https://a", "x", ClustersOf::Annotated, "secrets", Selectors { by_name: true, ..all() }),
            key("https://a", "x", ClustersOf::Annotated, "secrets", Selectors { ending: "-a".into(), ..all() }),
            key("https://a", "x", ClustersOf::Annotated, "secrets", Selectors { of_mapping: "e.".into(), ..all() }),
        ];
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:#?}");
    }
}
