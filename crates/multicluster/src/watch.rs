//! List and watch: one resource of one endpoint, into a store, for as long as somebody holds the watch.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
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
        let Selectors { label, field, namespace, of_mapping, ending, by_name, outlines: _, only: _ } = &self.selectors;
        // One that all mappings of an engine share is of the beginning of their labels.
        let of = match of_mapping.strip_suffix('.') {
            Some(engine) => format!("all mappings of engine {engine}"),
            None => of_mapping.clone(),
        };
        let parts = [("in", namespace), ("where", label), ("where", field), ("for", &of), ("ending in", ending)];
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
    /// The parts of an object that are kept, by their JSON pointers; empty: all.
    pub only: &'static [&'static str],
}

/// What somebody sees of a running watch. Dropping the last handle ends it.
#[derive(Debug)]
pub struct Watch {
    store: Arc<Store>,
    running: Arc<Running>,
}

#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    condition: Arc<Shown>,
}

/// What is watched, and what that brought.
#[derive(Debug)]
struct Shared {
    key: WatchKey,
    endpoint: Endpoint,
    stores: Stores,
    state: Mutex<WatchState>,
    /// Advances with each state.
    changed: Epoch,
    served: Epoch,
    own_lists: OwnLists,
    health: Health,
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
        &self.running.shared.endpoint
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub fn state(&self) -> WatchState {
        self.running.shared.state.lock().clone()
    }

    /// Advances with the first page of each list: the resource is served, and what is known of it may be acted on.
    pub fn served(&self) -> &Epoch {
        &self.running.shared.served
    }

    /// One of the clusters that it shows is engaged. Nobody there waits for the first list of all where that lasts.
    pub fn engage(&self, cluster: &ClusterSpec) {
        if cluster.scope.clusters == ClustersOf::Annotated && cluster.holding.is_none() {
            self.running.shared.own_lists.engage(&cluster.name, &cluster.endpoint);
        }
    }

    /// To wait for changes of the state.
    pub fn changes(&self) -> Follower {
        self.running.shared.changed.follow()
    }

    pub fn is_synced(&self) -> bool {
        *self.running.shared.state.lock() == WatchState::Synced
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
        Arc::new(Watch { store: running.shared.stores.of(mapping), running })
    }

    fn shared(&self, key: WatchKey, scope: &WatchScope) -> Arc<Running> {
        let mut running = self.running.lock();
        running.retain(|_, watch| watch.strong_count() > 0);
        let former = running.get(&key).and_then(Weak::upgrade);
        let condition = match former {
            Some(watch) if watch.shared.endpoint == scope.endpoint => return watch,
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
        let Selectors { ending, by_name, only, .. } = &key.selectors;
        let store = Store::bounded(scope.clusters.clone(), ending, *by_name, only, bodies);
        let prefix = Some(key.selectors.of_mapping.clone()).filter(|prefix| !prefix.is_empty());
        let pages = Pages::new(key.selectors.outlines);
        let shared = Arc::new(Shared {
            key,
            endpoint: scope.endpoint.clone(),
            stores: Stores::new(store, prefix),
            state: Mutex::new(WatchState::Starting),
            changed: Epoch::default(),
            served: Epoch::default(),
            own_lists: OwnLists::default(),
            health: self.health.clone(),
        });
        let connection = scope.endpoint.connection();
        let mut machine = ListWatch::new(connection.entropy());
        machine.restored = connection.restored().now() > 0;
        let worker = Worker { shared: shared.clone(), machine, place: None, pages };
        Running { shared, task: tokio::spawn(worker.run()), condition }
    }
}

/// Carries out what [`ListWatch`] decides.
struct Worker {
    shared: Arc<Shared>,
    machine: ListWatch,
    /// Among the watches that may run at once; taken before the first list.
    place: Option<OwnedSemaphorePermit>,
    pages: Pages,
}

type Answered = Result<Reply, RequestError>;

/// A list in progress: where its objects go, and the page that was asked for.
struct List<'a> {
    listing: Listing<'a>,
    /// The token of the page; `None`: it is the first.
    page: Option<String>,
    asked: BoxFuture<'static, Answered>,
    /// Lists single clusters from the second page on. It never ends.
    own: BoxFuture<'a, ()>,
}

/// The page that was asked for. Cancel-safe: it stays asked for.
async fn answer(list: &mut Option<List<'_>>) -> Answered {
    match list {
        Some(List { asked, own, page, .. }) => tokio::select! {
            biased;
            answered = &mut *asked => answered,
            () = own, if page.is_some() => asked.await,
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
        let shared = self.shared.clone();
        let Shared { key, endpoint, stores, own_lists, .. } = &*shared;
        let mut list: Option<List<'_>> = None;
        let mut stream: Option<Stream> = None;
        let mut restored = endpoint.connection().restored().follow();
        let mut known = restored.catch_up();
        let mut phase = Phase::Listing;
        loop {
            let outcome = match &phase {
                Phase::Listing => {
                    stream = None;
                    known = restored.catch_up();
                    own_lists.begin();
                    let listing = stores.begin_list();
                    let own = match self.machine.listed {
                        true => pending().boxed(),
                        false => shared.list_clusters(listing, Instant::now() + own_lists::AFTER).boxed(),
                    };
                    list = Some(List { listing, page: None, asked: self.ask_for_page(None), own });
                    loop {
                        let answered = answer(&mut list).await;
                        if let Some(outcome) = self.take_page(&mut list, answered) {
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
                Phase::Verifying { version } => {
                    stream = None;
                    shared.verify(version).await
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
                        answered = answer(&mut list) => match self.take_page(&mut list, answered) {
                            Some(outcome) => outcome,
                            None => continue,
                        },
                        outcome = shared.read(stream, version) => outcome,
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
                tracing::warn!(watch = %key, "a version went back: the server was restored to an earlier state");
                stores.doubt_versions();
                endpoint.connection().restored().advance_from(known);
            }
            if was_reading && !matches!(phase, Phase::Reading { .. } | Phase::Opening { .. }) {
                endpoint.connection().identity().doubt();
            }
            self.report();
        }
    }

    /// Before each page of the first list. What is known already is listed again whatever that takes.
    fn within_budget(&mut self) -> Result<(), RequestError> {
        if self.place.is_none() {
            self.place = Some(self.shared.endpoint.connection().budget().place()?);
        }
        if self.machine.listed { Ok(()) } else { self.shared.endpoint.connection().budget().permits_more() }
    }

    /// Asks for the first page of a list, or for the one of this token.
    fn ask_for_page(&mut self, token: Option<&str>) -> BoxFuture<'static, Answered> {
        let (page, permitted, shared) = (self.pages.next(), self.within_budget(), self.shared.clone());
        let token = token.map(str::to_owned);
        let asked = async move {
            permitted?;
            let endpoint = &shared.endpoint;
            let endpoint = if page.is_metadata { endpoint.for_metadata() } else { endpoint.clone() };
            shared.list_page(&endpoint, page.limit, token.as_deref(), page.bytes()).await
        };
        asked.boxed()
    }

    /// `None`: it was too long, and is asked for in another form.
    fn take_page(&mut self, list: &mut Option<List<'_>>, answered: Answered) -> Option<Outcome> {
        let in_progress = list.as_mut()?;
        let shared = self.shared.clone();
        let put = |object: Parsed<'_>| {
            object.cluster.iter().for_each(|cluster| shared.own_lists.shown(cluster));
            in_progress.listing.item(object)
        };
        let came = match answered {
            Err(RequestError::TooLong { .. }) if self.pages.too_long() => None,
            Err(error) if error.code() == Some(NOT_ACCEPTABLE) && self.pages.refused() => None,
            answered => Some(answered.and_then(|reply| {
                let end = shared.put_page(&reply, put)?;
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
            shared.served.advance();
        }
        if end.next.is_some() {
            in_progress.asked = self.ask_for_page(end.next.as_deref());
            in_progress.page = end.next;
            return Some(Outcome::Page { version: end.version, is_last: false });
        }
        if let Some(List { listing, .. }) = list.take_if(|_| !end.version.is_empty()) {
            listing.finish(&end.version);
            shared.own_lists.finish();
        }
        *list = None;
        Some(Outcome::Page { version: end.version, is_last: true })
    }

    async fn open(&mut self, version: &str) -> (Outcome, Option<Stream>) {
        let seconds = self.machine.watch_seconds();
        match self.shared.lines_from(version, seconds).await {
            Ok(lines) => {
                let opened = Instant::now();
                let until = opened + Duration::from_secs(seconds) + GRACE;
                (Outcome::Opened, Some(Stream { lines, opened, heard: opened, silent: Duration::ZERO, until }))
            }
            Err(error) => (Outcome::Failed { error, lived: Duration::ZERO }, None),
        }
    }

    /// Shows the state where it changed, and says failures and recoveries aloud.
    fn report(&self) {
        let (Shared { key, endpoint, health, .. }, state) = (&*self.shared, &self.machine.state);
        if *self.shared.state.lock() == *state {
            return;
        }
        let what = key.to_string();
        match state {
            WatchState::Failed { reason, .. } => {
                let trouble = endpoint.connection().trouble();
                if health.set(&what, Condition::of(Err(reason.clone()), trouble)) {
                    tracing::warn!(watch = what, %reason, "a watch fails and is retried");
                }
            }
            WatchState::Synced | WatchState::NotServed => {
                health.set(&what, Condition::ready(""));
                tracing::debug!(watch = what, ?state, "state of a watch");
            }
            WatchState::Starting => {}
        }
        *self.shared.state.lock() = state.clone();
        self.shared.changed.advance();
    }
}

impl Shared {
    /// A page of so many objects and bytes at most; `token`: of one that is not the first.
    async fn list_page(&self, endpoint: &Endpoint, limit: u32, token: Option<&str>, most: usize) -> Answered {
        let path = self.path()?.query("limit", &limit.to_string());
        let path = token.iter().fold(path, |path, token| path.query("continue", token));
        endpoint.list_page(&path, LIST_DEADLINE, most).await
    }

    /// Lists single clusters, one after the other, for as long as the first list lasts. Where one fails or is too long, the list
    /// in progress shows what is there.
    async fn list_clusters(&self, listing: Listing<'_>, mut from: Instant) {
        loop {
            sleep_until(from).await;
            let (mut next, mut pause) = (Some(self.own_lists.next().await), own_lists::PACE);
            while let Some(page) = next.take() {
                match self.own_page(&page).await {
                    Ok(reply) => {
                        let put = |object: Parsed<'_>| match object.cluster == Some(&*page.cluster) {
                            true => listing.ahead(&object),
                            false => Ok(false),
                        };
                        let end = self.put_page(&reply, put).ok();
                        next = end.and_then(|end| page.next(end.next, reply.body.len()));
                    }
                    Err(RequestError::TooLong { .. }) => {}
                    Err(error) => {
                        let cluster = &page.cluster;
                        tracing::debug!(watch = %self.key, %cluster, %error, "a cluster is not listed by itself");
                        pause = own_lists::PAUSE;
                    }
                }
            }
            from = Instant::now() + pause;
        }
    }

    async fn own_page(&self, page: &OwnPage) -> Answered {
        self.endpoint.connection().budget().permits_more()?;
        self.list_page(&page.endpoint, page.limit, page.token.as_deref(), own_lists::BYTES).await
    }

    /// Puts the objects of a page into their stores.
    fn put_page(
        &self,
        reply: &Reply,
        put: impl Fn(Parsed<'_>) -> Result<bool, NotAnObject>,
    ) -> Result<PageEnd, RequestError> {
        // A list was complete before, or was refused: time has passed, and the server may be another one.
        if *self.state.lock() != WatchState::Starting {
            // Before anybody acts on it: it may be the answer of another cluster behind the same address.
            self.endpoint.connection().identity().doubt();
        }
        let item = |parsed: Parsed<'_>| {
            let name = parsed.name.clone();
            if !put(parsed)? {
                self.warn_without_cluster(&name);
            }
            Ok(())
        };
        let end = read_page(&reply.body, item).map_err(|error| self.endpoint.unreadable(&error))?;
        self.report_bodies();
        Ok(end)
    }

    /// The collection's version, by the cheapest list. Its object tells where a server that was restored has passed the version
    /// `heard` since, which no version tells.
    async fn verify(&self, heard: &str) -> Outcome {
        match self.first_of_list(heard).await {
            Ok(_) if self.stores.has_untold_answer() => Outcome::Doubted,
            Ok((end, true)) if !is_older(&end.version, heard) => Outcome::Doubted,
            Ok((end, _)) => Outcome::Verified { version: end.version },
            Err(error) => Outcome::Failed { error, lived: Duration::ZERO },
        }
    }

    /// The end of the page, and whether its object is of another history than what was heard.
    async fn first_of_list(&self, heard: &str) -> Result<(PageEnd, bool), RequestError> {
        let reply = self.endpoint.list_page(&self.path()?.query("limit", "1"), DEFAULT_DEADLINE, OBJECT_BYTES).await?;
        let mut is_other = false;
        let first = |shown: Parsed<'_>| {
            is_other |= self.stores.contradict(&shown, heard);
            Ok(())
        };
        let end = read_page(&reply.body, first).map_err(|error| self.endpoint.unreadable(&error))?;
        Ok((end, is_other))
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
        acted.unwrap_or_else(|error| Outcome::Failed {
            error: self.endpoint.unreadable(&error),
            lived: opened.elapsed(),
        })
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
        let name = parsed.name.clone();
        // An event of another history says nothing of this one.
        if !is_older(&new, version) && !apply(&self.stores, parsed)? {
            self.warn_without_cluster(&name);
        }
        self.report_bodies();
        Ok(Outcome::Line { version: new })
    }

    /// Shows which clusters have more than what is kept whole.
    fn report_bodies(&self) {
        match self.endpoint.connection().budget().bodies().condition() {
            None => {}
            Some(Ok(())) => drop(self.health.remove(LARGE_OBJECTS)),
            Some(Err(clusters)) => drop(self.health.set(LARGE_OBJECTS, Condition::degraded(clusters))),
        }
    }

    fn path(&self) -> Result<ApiPath, RequestError> {
        let Selectors { label, field, namespace, .. } = &self.key.selectors;
        let selectors = [("labelSelector", label), ("fieldSelector", field)].into_iter();
        let path = ApiPath::collection(&self.key.resource, namespace)?;
        Ok(selectors.filter(|(_, text)| !text.is_empty()).fold(path, |path, (key, text)| path.query(key, text)))
    }

    fn warn_without_cluster(&self, name: &str) {
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
        assert!(names[11].ends_with(" for all mappings of engine e"), "{}", names[11]);
    }
}
