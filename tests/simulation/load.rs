//! What load on one part, or a refusal of it, costs the others, in virtual time: each request takes as long as its server says,
//! and nothing else takes any time, so every figure is exact.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::env;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http::Uri;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use k8s_openapi::jiff;
use serde_json::{Value, json};
use sync_engine::engine::Settings;
use sync_engine::engine::clock::Clock;
use sync_engine::health::{Condition, Level};
use sync_engine::multicluster::connection::{Connection, ConnectionSource, ConnectionSpec};
use sync_engine::multicluster::environment::{CustomProviders, Listed, Members};
use sync_engine::multicluster::in_process::{InProcess, Surroundings};
use sync_engine::object::ClusterName;
use sync_engine::reload;
use sync_engine::sandbox::{Answer, Call, Failure, Flavor, Outcome, Request, Timestamp, Verb};
use tokio::io::DuplexStream;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use super::core::BEGINNING;
use super::network::{self, Content, Cut};
use super::process::{Running, terms};
use super::server::{Ahead, GROUP, Server, Side, binding, binding_url, definitions, export, merge, workspace};
use super::world::{Log, in_virtual_time};

const USUAL: Duration = Duration::from_millis(4);

/// The state store of the mapping `m`.
const STORE: &str = "/api/v1/namespaces/sync-engine/configmaps/main.m";

/// `large` where `SYNC_ENGINE_LOAD=large` asks for the load that takes minutes (beside the gate), else `small`.
fn load(small: u32, large: u32) -> u32 {
    if env::var("SYNC_ENGINE_LOAD").is_ok_and(|load| load == "large") { large } else { small }
}

/// The servers by their hosts, and what was written at them.
#[derive(Clone)]
struct Net(Arc<Mutex<Inner>>);

struct Inner {
    sites: BTreeMap<String, (Server, Duration)>,
    start: Instant,
    writes: Vec<Written>,
    /// How often the engine read, by host and path.
    reads: BTreeMap<(String, String), usize>,
    /// The host that takes requests and answers none.
    hung: Option<&'static str>,
    /// Whether the server shows the size [`DEEP`] as a value of 200 levels. It takes none that deep itself.
    deepens: bool,
    /// Logical clusters, and names of objects, whose admission is slow.
    slow: BTreeSet<String>,
    /// What admission says to each write of the objects of a name.
    refused: BTreeMap<&'static str, Failure>,
    /// What the source server takes for each object of a page before it sends any of it.
    listing: Duration,
}

/// A write of the engine that arrived, also one that was refused.
struct Written {
    at: Duration,
    host: String,
    verb: Verb,
    cluster: String,
    resource: String,
    name: String,
    path: String,
}

impl Net {
    fn new(source: Flavor) -> Self {
        let inner = Inner {
            sites: BTreeMap::new(),
            start: Instant::now(),
            writes: Vec::new(),
            reads: BTreeMap::new(),
            hung: None,
            deepens: false,
            slow: BTreeSet::new(),
            refused: BTreeMap::new(),
            listing: Duration::ZERO,
        };
        let net = Self(Arc::new(Mutex::new(inner)));
        net.add("source", Side::Source, source, 0, USUAL);
        net
    }

    /// A server with uids of its own.
    fn add(&self, host: &str, side: Side, flavor: Flavor, number: u32, latency: Duration) {
        let mut server = Server::new(side, flavor, Timestamp(BEGINNING), 0, 1);
        (0..number).for_each(|_| server.rebuild(Timestamp(BEGINNING), Ahead::Silent));
        self.lock().sites.insert(host.to_owned(), (server, latency));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("nobody panics with the lock")
    }

    fn source(&self, host: &str, path: &'static str) -> ConnectionSource {
        ConnectionSource::InProcess(InProcess(Arc::new(Way { net: self.clone(), host: host.to_owned(), path })))
    }

    fn connection(&self, name: &str, host: &str, path: &'static str) -> (String, Arc<Connection>) {
        let source = self.source(host, path);
        let connection = Connection::open(ConnectionSpec { name: name.into(), source }).expect("a connection");
        (name.to_owned(), connection)
    }

    /// Somebody who is no engine asks the source server.
    fn act(&self, request: &Request) {
        self.act_at("source", request);
    }

    fn act_at(&self, host: &str, request: &Request) {
        let (outcome, _) = self.lock().handle(host, request);
        let Outcome::Answer(answer) = outcome else { return };
        assert!(answer.code < 300, "{} {}: {}", request.method, request.path, answer.to_json());
    }

    fn get(&self, host: &str, path: &str) -> Value {
        let Outcome::Answer(answer) = self.lock().handle(host, &Request::get(path)).0 else { panic!("no answer") };
        answer.to_json()
    }

    async fn wait_while_hung(&self, host: &str) {
        while self.lock().hung == Some(host) {
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Waits until something holds.
    async fn until(&self, what: &str, holds: impl Fn(&Inner) -> bool) {
        let patience = Instant::now() + Duration::from_secs(600);
        while !holds(&self.lock()) {
            assert!(Instant::now() < patience, "{what}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the engine has made an object of each name.
    async fn until_made(&self, what: &str, names: &[impl AsRef<str>]) {
        self.until(what, |inner| names.iter().all(|name| inner.applied(name.as_ref()).next().is_some())).await;
    }
}

impl Inner {
    fn age(&self) -> Duration {
        self.start.elapsed()
    }

    fn now(&self) -> i64 {
        BEGINNING + self.age().as_secs() as i64
    }

    fn handle(&mut self, host: &str, request: &Request) -> (Outcome, bool) {
        let now = Timestamp(self.now());
        let (server, _) = self.sites.get_mut(host).expect("a host");
        let (outcome, events) = server.handle(request, now);
        while server.state.waiting() > 0 {
            server.step(now);
        }
        (outcome, !events.is_empty())
    }

    /// The applies of the objects of a name.
    fn applied(&self, name: &str) -> impl Iterator<Item = &Written> {
        self.writes.iter().filter(move |one| one.verb == Verb::Apply && one.name == name)
    }

    /// Whether the state store on the first target has a text in this field.
    fn is_recorded(&mut self, field: &str, text: &str) -> bool {
        self.is_recorded_at("t1", field, text)
    }

    fn is_recorded_at(&mut self, host: &str, field: &str, text: &str) -> bool {
        let stores = Request::get("/api/v1/namespaces/sync-engine/configmaps");
        let Outcome::Answer(answer) = self.handle(host, &stores).0 else { return false };
        let has = |store: &Value| store["data"][field].as_str().is_some_and(|all| all.contains(text));
        answer.to_json()["items"].as_array().is_some_and(|stores| stores.iter().any(has))
    }

    /// Where the engine made an object of this name.
    fn made(&self, name: &str) -> BTreeSet<&str> {
        self.applied(name).map(|one| one.host.as_str()).collect()
    }

    /// How many accounts that sources share were deleted.
    fn accounts_deleted(&self) -> usize {
        let is_deleted = |one: &&Written| one.verb == Verb::Delete && one.resource == "serviceaccounts";
        self.writes.iter().filter(is_deleted).count()
    }
}

/// How the engine reaches one server.
struct Way {
    net: Net,
    host: String,
    path: &'static str,
}

impl Surroundings for Way {
    fn kubeconfig(&self) -> (Uri, String) {
        (format!("http://{}{}", self.host, self.path).parse().expect("a URL"), "token".to_owned())
    }

    fn dial(&self, to: &Uri) -> io::Result<DuplexStream> {
        let (net, host) = (self.net.clone(), to.host().unwrap_or_default().to_owned());
        let (client, served) = network::pipe(move |request| exchange(net.clone(), host.clone(), request));
        tokio::spawn(served);
        Ok(client)
    }

    fn entropy(&self) -> u64 {
        7
    }
}

async fn exchange(net: Net, host: String, request: hyper::Request<Incoming>) -> Result<hyper::Response<Content>, Cut> {
    let request = network::read(request).await?;
    let writes = request.method != "GET";
    let call = request.call();
    let is_slow = |inner: &Inner| inner.slow.contains(&call.cluster) || inner.slow.contains(&call.name);
    let latency = if writes && is_slow(&net.lock()) { ADMISSION } else { net.lock().sites[&host].1 };
    sleep(latency).await;
    net.wait_while_hung(&host).await;
    let (outcome, deepens, listing) = {
        let inner = &mut *net.lock();
        let refusal = inner.refused.get(&*call.name).filter(|_| writes).map(Outcome::refused);
        let (outcome, is_write) = match refusal {
            Some(refusal) => (refusal, true),
            None => inner.handle(&host, &request),
        };
        if !writes {
            *inner.reads.entry((host.clone(), request.path.clone())).or_default() += 1;
        }
        if is_write {
            let Call { verb, cluster, resource, name, .. } = call;
            let (at, path) = (inner.age(), request.path.clone());
            inner.writes.push(Written { at, host: host.clone(), verb, cluster, resource, name, path });
        }
        (outcome, inner.deepens, if host == "source" { inner.listing } else { Duration::ZERO })
    };
    if let (Outcome::Answer(answer), false) = (&outcome, listing.is_zero()) {
        sleep(listing * items(&answer.body)).await;
    }
    Ok(match outcome {
        Outcome::Answer(answer) => {
            let body = deepened(answer.body, deepens);
            Answer { body, ..answer }.into_response().map(BodyExt::boxed_unsync)
        }
        Outcome::Stream(watch) => {
            let net = net.clone();
            let lines =
                futures::stream::unfold((watch.lines, net, host, deepens), async |(mut lines, net, host, deepens)| {
                    let line = lines.recv().await?;
                    net.wait_while_hung(&host).await;
                    Some((Ok::<_, Infallible>(Frame::data(deepened(line, deepens))), (lines, net, host, deepens)))
                });
            hyper::Response::new(StreamBody::new(lines).boxed_unsync())
        }
    })
}

/// How many objects a page has.
fn items(body: &[u8]) -> u32 {
    let page: Value = serde_json::from_slice(body).unwrap_or_default();
    page["items"].as_array().map_or(0, |items| items.len() as u32)
}

/// A size that a server shows as what no reader of JSON trees takes.
const DEEP: u32 = 987_654;

fn deepened(text: Bytes, deepens: bool) -> Bytes {
    if !deepens {
        return text;
    }
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    String::from_utf8_lossy(&text).replace(&DEEP.to_string(), &deep).into()
}

impl Running {
    async fn put(&self, documents: &[Value]) {
        let outcome = self.try_put(documents).await;
        assert!(outcome.accepted, "{}", outcome.text);
    }

    async fn try_put(&self, documents: &[Value]) -> reload::Outcome {
        let text = documents.iter().map(|document| format!("{document}\n")).collect::<Vec<_>>().join("---\n");
        self.read(Some(text)).await.expect("the engine answers")
    }
}

/// Runs the engine with these documents beside what happens.
async fn with_engine(net: &Net, connections: &Connections, documents: &[Value], happens: impl Future<Output = ()>) {
    let edited = async |engine: &Running| {
        engine.put(documents).await;
        happens.await;
    };
    with_edits(net, connections, edited).await;
}

/// Runs the engine while somebody edits its documents.
async fn with_edits(net: &Net, connections: &Connections, happens: impl AsyncFnOnce(&Running)) {
    with_fleets(net, connections, &[], happens).await;
}

/// The same while clusters come and go.
async fn with_fleets(net: &Net, connections: &Connections, fleets: &[&Fleet], happens: impl AsyncFnOnce(&Running)) {
    let custom_providers = fleets.iter().fold(CustomProviders::default(), |all, fleet| {
        let fleet = Fleet::clone(fleet);
        all.with(fleet.provider, move |_| Ok(fleet.clone()))
    });
    with_settings(net, connections, Settings { custom_providers, ..Settings::default() }, happens).await;
}

/// The same of an engine with more settings.
async fn with_settings(net: &Net, connections: &Connections, settings: Settings, happens: impl AsyncFnOnce(&Running)) {
    let clock = net.clone();
    let mut engine = Running::start(Settings {
        home: "t1".to_owned(),
        engine: "main".into(),
        inventory_namespace: "sync-engine".into(),
        connections: connections.clone(),
        clock: Clock::new(move || jiff::Timestamp::from_second(clock.lock().now()).expect("a moment")),
        ..settings
    });
    happens(&engine).await;
    engine.task.shutdown().await;
}

/// A provider of clusters, which come and go.
#[derive(Clone)]
struct Fleet {
    provider: &'static str,
    members: Vec<(String, ConnectionSource)>,
    /// How many of them, the first ones, are there.
    listed: Arc<AtomicUsize>,
    /// How often it looks.
    period: Duration,
}

impl Fleet {
    fn new(net: &Net, provider: &'static str, clusters: &[impl AsRef<str>]) -> Self {
        let names = clusters.iter().map(AsRef::as_ref);
        let members: Vec<_> = names.map(|name: &str| (name.to_owned(), net.source(name, ""))).collect();
        let listed = Arc::new(AtomicUsize::new(members.len()));
        Self { provider, members, listed, period: Duration::from_secs(1) }
    }

    fn document(&self) -> Value {
        let provider = self.provider;
        json!({
            "apiVersion": "sync-engine.dev/v1alpha1", "kind": "ClusterProvider", "metadata": {"name": provider},
            "spec": {"custom": {"name": provider}},
        })
    }

    fn lists(&self, number: usize) {
        self.listed.store(number, Ordering::Relaxed);
    }
}

impl Members for Fleet {
    async fn look(&mut self) -> Result<Listed, String> {
        let named = |(name, source): &(String, ConnectionSource)| {
            let name = ClusterName::try_from(name.as_str()).map_err(|error| error.to_string())?;
            Ok::<_, String>((name, source.clone()))
        };
        let here = self.members.iter().take(self.listed.load(Ordering::Relaxed));
        let members = here.map(named).collect::<Result<_, String>>()?;
        Ok(Listed { members, ..Listed::default() })
    }

    async fn changed(&mut self) {
        sleep(self.period).await;
    }
}

type Connections = BTreeMap<String, Arc<Connection>>;

/// A kcp whose tenants bind the export, and a target.
fn kcp(tenants: &[impl AsRef<str>]) -> (Net, Connections) {
    let net = Net::new(Flavor::Kcp);
    let bound = tenants.iter().map(AsRef::as_ref).flat_map(|tenant| [workspace(tenant), binding(tenant, false)]);
    export(false).into_iter().chain(bound).for_each(|request| net.act(&request));
    net.add("t1", Side::Target, Flavor::Kubernetes, 1, USUAL);
    let connections = [net.connection("kcp", "source", "/clusters/root"), net.connection("t1", "t1", "")];
    (net, connections.into())
}

/// A plain cluster with the API, and these targets.
fn plain(targets: &[impl AsRef<str>], latency_of_first: Duration) -> (Net, Connections) {
    let net = Net::new(Flavor::Kubernetes);
    definitions(false).iter().for_each(|request| net.act(request));
    let mut connections = Connections::from([net.connection("source", "source", "")]);
    for (name, number) in targets.iter().map(AsRef::as_ref).zip(1..) {
        let latency = if number == 1 { latency_of_first } else { USUAL };
        net.add(name, Side::Target, Flavor::Kubernetes, number, latency);
        connections.extend([net.connection(name, name, "")]);
    }
    (net, connections)
}

/// The provider of the plain cluster.
fn provider() -> Value {
    json!({
        "apiVersion": "sync-engine.dev/v1alpha1", "kind": "ClusterProvider", "metadata": {"name": "plain"},
        "spec": {"kubeconfig": {"connection": "source"}},
    })
}

/// What a mapping says of sources in the plain cluster.
fn of_provider() -> Value {
    json!({"provider": "plain", "resource": format!("things.v1.{GROUP}")})
}

/// What it says of those of the tenants of kcp.
fn of_export() -> Value {
    json!({"apiExport": {"name": "things", "path": "root"}, "resource": format!("things.v1.{GROUP}")})
}

/// Where the sources of the plain cluster are.
fn things() -> String {
    format!("/apis/{GROUP}/v1/namespaces/default/things")
}

fn things_of(tenant: &str) -> String {
    format!("/clusters/root:{tenant}{}", things())
}

/// A mapping that makes a ConfigMap of each source.
fn mapping(name: &str, target: &str, source: Value) -> Value {
    let template = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"size": "{{ source.spec.size }}"}});
    json!({
        "apiVersion": "sync-engine.dev/v1alpha1", "kind": "Mapping", "metadata": {"name": name},
        "spec": {
            "source": source, "target": {"cluster": target}, "objects": [{"id": "main", "template": template}],
            "status": {"observedGeneration": "Off", "engineConditions": []},
        },
    })
}

/// The same with an account that the sources of a namespace share.
fn sharing() -> Value {
    let mut sharing = mapping("m", "t1", of_export());
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "shared"}});
    let shared = json!({"id": "account", "shared": "Namespace", "template": account});
    sharing["spec"]["objects"].as_array_mut().expect("objects").push(shared);
    sharing
}

/// ConfigMaps with these ids, with which their names end.
fn config_maps(ids: &[&str]) -> Value {
    let object = |id: &&str| {
        let metadata = json!({"name": format!("{{{{ placement.name }}}}-{id}")});
        let data = json!({"id": id, "size": "{{ source.spec.size }}"});
        let template = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        json!({"id": id, "template": template})
    };
    ids.iter().map(object).collect()
}

fn thing(name: &str, size: u32) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Thing",
        "metadata": {"name": name, "namespace": "default", "labels": {"target": name}}, "spec": {"size": size},
    })
}

const ROUNDS: u32 = 2;
/// When the first round begins: what happens from time to time is then as far away in each world.
const FIRST_ROUND: Duration = Duration::from_secs(200);

/// The 99th percentile of the time from a change of a source to the write of its object, over all targets but the first.
fn percentile_of_others(latency_of_first: Duration) -> Duration {
    in_virtual_time(async {
        let targets = load(10, 50);
        let names: Vec<String> = (1..=targets).map(|number| format!("t{number}")).collect();
        let (net, connections) = plain(&names, latency_of_first);
        let mut documents = vec![provider()];
        for name in &names {
            let mut source = of_provider();
            source["selector"] = json!({"matchLabels": {"target": name}});
            documents.push(mapping(&format!("of-{name}"), name, source));
            net.act(&Request::post(&things(), &thing(name, 0)));
        }
        let mut took = Vec::new();
        with_engine(&net, &connections, &documents, async {
            net.until_made("every target has its object", &names).await;
            let until_then = FIRST_ROUND - net.lock().age();
            sleep(until_then).await;
            for round in 1..=ROUNDS {
                let begin = net.lock().age();
                net.lock().writes.clear();
                for name in &names {
                    let patch = json!({"spec": {"size": round}});
                    net.act(&merge(&format!("{}/{name}", things()), &patch));
                }
                sleep(Duration::from_secs(10)).await;
                let inner = net.lock();
                let others = inner.writes.iter().filter(|one| one.verb == Verb::Apply && one.host != names[0]);
                let others = others.filter(|one| one.name == one.host);
                took.extend(others.map(|one| one.at - begin));
            }
        })
        .await;
        assert_eq!(took.len() as u32, (targets - 1) * ROUNDS, "each change was written once");
        took.sort();
        took[took.len() * 99 / 100]
    })
}

#[test]
fn one_slow_target_of_many_slows_no_other() {
    let alone = percentile_of_others(USUAL);
    let beside_a_slow_one = percentile_of_others(Duration::from_secs(3));
    assert!(beside_a_slow_one <= alone.mul_f64(1.1), "{beside_a_slow_one:?}, and {alone:?} where no target is slow");
}

/// A mapping that puts each source on all of these targets.
fn spread_over(names: &[&str]) -> Value {
    let mut document = mapping("spread", "", of_provider());
    document["spec"].as_object_mut().expect("a mapping").remove("target");
    document["spec"]["targets"] = json!({
        "forEach": format!("${{{{ {} }}}}", json!(names)), "as": "place", "key": "${{ place }}", "cluster": "{{ place }}",
        "allowed": names,
    });
    document
}

/// How long it takes until an edit of all sources is written to every target but the first, where each source is on all of them.
fn spread_beside(latency_of_first: Duration) -> Duration {
    const SOURCES: u32 = 40;
    in_virtual_time(async {
        let names = ["t1", "t2", "t3", "t4"];
        let (net, connections) = plain(&names, latency_of_first);
        let document = spread_over(&names);
        (0..SOURCES).for_each(|number| net.act(&Request::post(&things(), &thing(&format!("s{number}"), 0))));
        let mut took = Duration::ZERO;
        with_engine(&net, &connections, &[provider(), document], async {
            let is_there = |inner: &Inner| (0..SOURCES).all(|number| inner.made(&format!("s{number}")).len() == 4);
            net.until("every target has its objects", is_there).await;
            let until_then = FIRST_ROUND - net.lock().age();
            sleep(until_then).await;
            let begin = net.lock().age();
            net.lock().writes.clear();
            for number in 0..SOURCES {
                let patch = json!({"spec": {"size": 1}});
                net.act(&merge(&format!("{}/s{number}", things()), &patch));
            }
            let is_other = |one: &&Written| one.verb == Verb::Apply && one.host != "t1" && one.host != "source";
            let are_written = |inner: &Inner| inner.writes.iter().filter(is_other).count() as u32 >= 3 * SOURCES;
            net.until("the others have all", are_written).await;
            took = net.lock().writes.iter().filter(is_other).map(|one| one.at).max().expect("a write") - begin;
        })
        .await;
        took
    })
}

/// One reconcile sees all targets of its source: those that wait for a slow one leave their places to others.
#[test]
fn a_slow_target_of_several_keeps_the_others_of_its_mapping_waiting_for_a_moment_only() {
    let (alone, beside) = (spread_beside(USUAL), spread_beside(Duration::from_secs(3)));
    assert!(beside <= alone + Duration::from_millis(300), "{beside:?}, and {alone:?} where none is slow");
}

/// Edits sources that are on two targets, of which the first is slow, and meddles then. What says that it is in sync has its object of
/// this id on the slow one. Gives back whether any said that it is not.
fn has_waited_beside_a_slow_target(document: Value, sources: &[&str], id: &str, meddles: fn(&Net, &str)) -> bool {
    in_virtual_time(async {
        let (net, connections) = plain(&["t1", "t2"], Duration::from_secs(3));
        sources.iter().for_each(|name| net.act(&Request::post(&things(), &thing(name, 0))));
        let (mut in_sync, mut has_waited) = (BTreeSet::new(), false);
        with_engine(&net, &connections, &[provider(), document], async {
            let are_there = |inner: &Inner| sources.iter().all(|name| inner.made(&format!("{name}-main")).len() == 2);
            net.until("both targets have their objects", are_there).await;
            let is_first = |one: &&Written| one.host == "t1" && one.name.ends_with("-main");
            let place = net.lock().writes.iter().find(is_first).expect("a write").path.clone();
            let until_then = FIRST_ROUND - net.lock().age();
            sleep(until_then).await;
            net.lock().writes.clear();
            let edit = json!({"spec": {"size": 1}});
            sources.iter().for_each(|name| net.act(&merge(&format!("{}/{name}", things()), &edit)));
            for looks in 0..300 {
                sleep(Duration::from_millis(100)).await;
                if looks == 10 {
                    meddles(&net, &place);
                }
                for name in sources {
                    let source = net.get("source", &format!("{}/{name}", things()));
                    let synced = &source["status"]["conditions"][0];
                    if synced["observedGeneration"] != source["metadata"]["generation"] {
                        continue;
                    }
                    if synced["status"] != "True" {
                        has_waited = true;
                        continue;
                    }
                    assert!(net.lock().made(&format!("{name}-{id}")).contains("t1"), "{name}: {synced}");
                    in_sync.insert(*name);
                }
            }
        })
        .await;
        assert_eq!(in_sync.len(), sources.len(), "each is in sync in the end");
        has_waited
    })
}

/// Two objects of a source on two targets, with its condition, which the second target tells. The second object is made once the first
/// one is as the source is.
fn spread_one_after_another() -> Value {
    let mut document = spread_over(&["t2", "t1"]);
    document["spec"].as_object_mut().expect("a mapping").remove("status");
    document["spec"]["objects"] = config_maps(&["main", "next"]);
    document["spec"]["objects"][0]["ready"] = json!("${{ objects.main.data.size | default('') == '1' }}");
    document["spec"]["objects"][1]["when"] = json!("${{ source.spec.size == 1 }}");
    document["spec"]["objects"][1]["dependsOn"] = json!(["main"]);
    document
}

#[test]
fn a_source_is_in_sync_once_a_plan_that_was_overtaken_on_one_of_its_targets_is_made_again() {
    let edits = |net: &Net, place: &str| {
        net.act_at("t1", &merge(place, &json!({"metadata": {"annotations": {"people": "were here"}}})));
    };
    has_waited_beside_a_slow_target(spread_one_after_another(), &["a"], "next", edits);
}

#[test]
fn a_source_that_waits_for_its_turn_at_one_of_its_targets_is_not_in_sync() {
    let mut document = spread_one_after_another();
    document["spec"]["reconcile"] = json!({"concurrency": 1});
    assert!(has_waited_beside_a_slow_target(document, &["a", "b"], "main", |_, _| {}));
}

/// A related object is read before anything is planned.
#[test]
fn a_source_stays_in_sync_while_others_are_written_at_one_of_its_targets() {
    in_virtual_time(async {
        let (net, connections) = plain(&["t1", "t2"], Duration::from_secs(3));
        ["a", "b"].iter().for_each(|name| net.act(&Request::post(&things(), &thing(name, 0))));
        let mut document = spread_one_after_another();
        document["spec"]["reconcile"] = json!({"concurrency": 1});
        document["spec"]["related"] = json!([{
            "id": "extra", "direction": "ToTarget", "resource": "configmaps.v1", "from": {"name": "extra"},
            "to": {"name": "{{ placement.name }}-extra"}, "onMissing": "Skip",
        }]);
        with_engine(&net, &connections, &[provider(), document], async {
            let are_there = |inner: &Inner| ["a-main", "b-main"].iter().all(|name| inner.made(name).len() == 2);
            net.until("both targets have their objects", are_there).await;
            let until_then = FIRST_ROUND - net.lock().age();
            sleep(until_then).await;
            net.act(&merge(&format!("{}/a", things()), &json!({"spec": {"size": 1}})));
            sleep(Duration::from_secs(1)).await;
            net.act(&merge(&format!("{}/b", things()), &json!({"metadata": {"annotations": {"people": "were here"}}})));
            for _ in 0..100 {
                sleep(Duration::from_millis(100)).await;
                let source = net.get("source", &format!("{}/b", things()));
                assert_eq!(source["status"]["conditions"][0]["status"], "True", "{source}");
            }
        })
        .await;
    });
}

/// How many sources of a busy tenant are begun after another tenant's single change and before it. A round of the queue serves
/// each tenant once; one reconcile at a time shows the rounds in the order of the requests.
fn begun_before_another_tenant() -> usize {
    in_virtual_time(async {
        let (net, connections) = kcp(&["a", "b"]);
        let mut document = mapping("m", "t1", of_export());
        document["spec"]["reconcile"] = json!({"concurrency": 1});
        let mut begun = 0;
        with_engine(&net, &connections, &[document], async {
            for tenant in ["a", "b"] {
                net.act(&Request::post(&things_of(tenant), &thing(&format!("first-of-{tenant}"), 0)));
            }
            net.until_made("both tenants are served", &["first-of-a", "first-of-b"]).await;
            sleep(Duration::from_secs(5)).await;
            (0..load(1_000, 10_000))
                .for_each(|number| net.act(&Request::post(&things_of("a"), &thing(&format!("n{number}"), 1))));
            sleep(Duration::from_millis(500)).await;
            net.lock().writes.clear();
            net.act(&Request::post(&things_of("b"), &thing("single", 1)));
            let is_begun = |one: &Written| one.resource == "things" && one.verb == Verb::Patch;
            let single = move |one: &Written| is_begun(one) && one.name == "single";
            net.until("the single change is begun", |inner| inner.writes.iter().any(single)).await;
            let inner = net.lock();
            let clusters: BTreeSet<&str> = inner.writes.iter().map(|one| one.cluster.as_str()).collect();
            assert!(clusters.len() > 2, "both tenants are busy: {clusters:?}");
            begun = inner.writes.iter().take_while(|one| !single(one)).filter(|one| is_begun(one)).count();
        })
        .await;
        begun
    })
}

#[test]
fn thousands_of_changes_of_one_tenant_delay_another_by_two_rounds_at_most() {
    let begun = begun_before_another_tenant();
    // The one that is in flight goes on.
    assert!(begun <= 1 + 2, "{begun} changes of the other tenant were begun first");
}

/// How long after a change an operator reports.
const REPORT: Duration = Duration::from_millis(300);

/// How many status writes the sources of two tenants get that are created at once, each, and after how long the first one is
/// written.
fn status_writes(sources: u32) -> (f64, Duration) {
    in_virtual_time(async {
        let tenants = ["a", "b"];
        let (net, connections) = kcp(&tenants);
        let mut document = mapping("m", "t1", of_export());
        document["spec"]["objects"][0]["template"]["data"] = json!({"of": "{{ source.metadata.name }}"});
        document["spec"]["status"] = json!({
            "fields": {"size": {"path": "$.data.size", "default": "unknown"}},
            "observedGeneration": "Off", "engineConditions": [],
        });
        let mut found = (0.0, Duration::ZERO);
        with_engine(&net, &connections, &[document], async {
            sleep(FIRST_ROUND).await;
            let begin = net.lock().age();
            net.lock().writes.clear();
            for (number, tenant) in (0..sources).flat_map(|number| tenants.map(|tenant| (number, tenant))) {
                net.act(&Request::post(&things_of(tenant), &thing(&format!("n{number}"), 0)));
            }
            // The state store is a ConfigMap, too.
            let is_made = |one: &&Written| one.host == "t1" && one.verb == Verb::Apply && one.name.starts_with('n');
            let mut reported = 0;
            while reported < 2 * sources as usize {
                sleep(REPORT / 10).await;
                let mut inner = net.lock();
                let age = inner.age();
                let made = inner.writes.iter().filter(is_made).filter(|one| one.at + REPORT <= age);
                let paths: Vec<String> = made.map(|one| one.path.clone()).collect();
                for path in &paths[reported..] {
                    let report = json!({"data": {"size": "large"}});
                    inner.handle("t1", &merge(path, &report));
                }
                reported = paths.len();
            }
            sleep(FIRST_ROUND).await;
            let inner = net.lock();
            let is_status = |one: &&Written| one.resource == "things/status" && one.verb == Verb::Patch;
            let statuses: Vec<&Written> = inner.writes.iter().filter(is_status).collect();
            found = (statuses.len() as f64 / f64::from(2 * sources), statuses[0].at - begin);
        })
        .await;
        found
    })
}

#[test]
fn the_first_status_of_one_source_is_written_at_once_and_that_of_many_with_what_the_target_reports() {
    let (writes, first) = status_writes(1);
    assert!(writes == 2.0 && first < REPORT, "{writes} writes, the first after {first:?}");
    let (writes, _) = status_writes(load(500, 1_000));
    assert!(writes < 1.5, "{writes} writes");
}

/// How long a tenant's admission takes where it is slow.
const ADMISSION: Duration = Duration::from_secs(28);
/// How long the requests of all take where a server is slow.
const SLUGGISH: Duration = Duration::from_millis(1200);

/// The longest time from a new source of a tenant to its object, while the admission of so many other tenants is slow. Any
/// other request of that server takes `usual`.
fn longest_beside_slow_tenants(number: u32, usual: Duration) -> Duration {
    in_virtual_time(async {
        let slow: Vec<String> = (0..number).map(|number| format!("slow{number}")).collect();
        let tenants: Vec<&str> = slow.iter().map(String::as_str).chain(["quiet"]).collect();
        let (net, connections) = kcp(&tenants);
        let create = |tenant: &str, name: &str| net.act(&Request::post(&things_of(tenant), &thing(name, 1)));
        let mut longest = Duration::ZERO;
        with_engine(&net, &connections, &[mapping("m", "t1", of_export())], async {
            let first: Vec<String> = tenants.iter().map(|tenant| format!("first-of-{tenant}")).collect();
            tenants.iter().zip(&first).for_each(|(tenant, name)| create(tenant, name));
            net.until_made("every tenant is served", &first).await;
            sleep(Duration::from_secs(5)).await;
            let of_slow = |one: &&Written| one.host == "source" && one.name.starts_with("first-of-slow");
            let clusters = |inner: &Inner| inner.writes.iter().filter(of_slow).map(|one| one.cluster.clone()).collect();
            let clusters: BTreeSet<String> = clusters(&net.lock());
            assert_eq!(clusters.len(), slow.len());
            net.lock().slow = clusters;
            net.lock().sites.get_mut("source").expect("the source server").1 = usual;
            for tenant in &slow {
                (0..20).for_each(|number| create(tenant, &format!("{tenant}-{number}")));
            }
            sleep(Duration::from_millis(10)).await;
            for number in 0..20 {
                let (name, begin) = (format!("quiet-{number}"), net.lock().age());
                create("quiet", &name);
                net.until_made("the quiet tenant is served", &[&name]).await;
                let made = net.lock().applied(&name).next().map(|one| one.at);
                longest = longest.max(made.map_or(Duration::MAX, |at| at - begin));
                sleep(Duration::from_millis(3_700)).await;
            }
            let inner = net.lock();
            let written = inner.writes.iter().filter(|one| one.host == "source" && inner.slow.contains(&one.cluster));
            assert!(written.count() > slow.len(), "slow tenants are served too");
        })
        .await;
        longest
    })
}

#[test]
fn tenants_with_slow_admission_delay_another_by_two_seconds_at_most() {
    // Where the server itself is slow, it is so for everybody: nobody can tell who hangs.
    for (number, usual) in [(1, USUAL), (20, USUAL), (1, SLUGGISH), (20, SLUGGISH)] {
        let longest = longest_beside_slow_tenants(number, usual);
        assert!(longest <= Duration::from_secs(2) + usual, "{longest:?} beside {number} of {usual:?}");
    }
}

/// kcp takes some 20 ms for each megabyte of a page, and lists one tenant after the other.
#[tokio::test(start_paused = true)]
async fn a_tenant_whose_objects_take_long_to_list_delays_no_other_after_a_restart() {
    let objects = load(200, 2_000);
    let quiet: Vec<String> = (0..8).map(|number| format!("quiet-{number}")).collect();
    let tenants: Vec<&str> = quiet.iter().map(String::as_str).chain(["greedy"]).collect();
    let (net, connections) = kcp(&tenants);
    let documents = [mapping("m", "t1", of_export())];
    let create = |tenant: &str, name: &str| net.act(&Request::post(&things_of(tenant), &thing(name, 1)));
    with_engine(&net, &connections, &documents, async {
        let names: Vec<String> = (0..objects).map(|number| format!("large-{number}")).collect();
        names.iter().for_each(|name| create("greedy", name));
        net.until_made("all are served", &names).await;
        sleep(Duration::from_secs(10)).await;
    })
    .await;
    let listing = Duration::from_millis(25);
    net.lock().listing = listing;
    for tenant in &quiet {
        (0..3).for_each(|number| create(tenant, &format!("{tenant}-before-{number}")));
    }
    let begin = net.lock().age();
    with_engine(&net, &connections, &documents, async {
        sleep(Duration::from_millis(500)).await;
        quiet.iter().for_each(|tenant| create(tenant, &format!("{tenant}-new")));
        let all = ["before-0", "before-1", "before-2", "new"];
        let all = quiet.iter().flat_map(|tenant| all.map(|name| format!("{tenant}-{name}")));
        let all: Vec<String> = all.collect();
        net.until_made("the quiet tenants are served", &all).await;
        let took = net.lock().age() - begin;
        assert!(took <= Duration::from_secs(3) && took < listing * objects / 2, "{took:?}");
        // What is deleted before its page comes stays deleted.
        for tenant in &quiet {
            net.act(&Request::delete(&format!("{}/{tenant}-before-0", things_of(tenant))));
        }
        sleep(listing * objects * 2).await;
        let inner = net.lock();
        all.iter().for_each(|name| assert_eq!(inner.applied(name).count(), 1, "{name}"));
        let is_of_target = |one: &&Written| one.host == "t1" && one.verb == Verb::Delete;
        let deleted: BTreeSet<String> = inner.writes.iter().filter(is_of_target).map(|one| one.name.clone()).collect();
        let expected = quiet.iter().map(|tenant| format!("{tenant}-before-0")).collect();
        assert_eq!(deleted, expected);
    })
    .await;
}

/// Sources that are deleted within a second take along what they share, also beside one that nobody can read, in their
/// namespace and elsewhere.
#[test]
fn the_last_of_several_sources_takes_the_shared_object_along() {
    for (gap, deep_goes) in [(0, false), (7, true), (90, false), (240, true)] {
        in_virtual_time(async {
            let (net, connections) = kcp(&["a", "b"]);
            let of = |tenant| (0..5).map(move |number| (tenant, format!("x{number}")));
            let all: Vec<(&str, String)> = of("a").chain(of("b")).collect();
            for (tenant, name) in &all {
                net.act(&Request::post(&things_of(tenant), &thing(name, 1)));
            }
            net.lock().deepens = true;
            net.act(&Request::post(&things_of("a"), &thing("deep", DEEP)));
            with_engine(&net, &connections, &[sharing()], async {
                let served = |inner: &Inner| {
                    let is_main = |one: &&Written| one.verb == Verb::Apply && one.resource == "configmaps";
                    inner.writes.iter().filter(|one| one.host == "t1").filter(is_main).count() >= all.len()
                };
                net.until("every source is served", served).await;
                sleep(Duration::from_secs(10)).await;
                if deep_goes {
                    net.act(&Request::delete(&format!("{}/deep", things_of("a"))));
                }
                for (tenant, name) in &all {
                    net.act(&Request::delete(&format!("{}/{name}", things_of(tenant))));
                    sleep(Duration::from_millis(gap)).await;
                }
                sleep(Duration::from_secs(5)).await;
                assert_eq!(net.lock().accounts_deleted(), 2, "{gap} ms apart");
            })
            .await;
        });
    }
}

/// A tenant may have ten thousand of them.
#[tokio::test(start_paused = true)]
async fn the_log_tells_no_more_of_a_source_that_nobody_can_read_while_nothing_happens() {
    let (net, connections) = kcp(&["a"]);
    let log = Log::default();
    let (writer, lines) = (log.clone(), tracing_subscriber::fmt().with_env_filter("sync_engine=warn"));
    let _guard = tracing::subscriber::set_default(lines.with_writer(move || writer.clone()).finish());
    net.lock().deepens = true;
    net.act(&Request::post(&things_of("a"), &thing("deep", DEEP)));
    with_engine(&net, &connections, &[mapping("m", "t1", of_export())], async {
        let told = || log.text().lines().filter(|line| line.contains("the source cannot be read")).count();
        sleep(Duration::from_secs(120)).await;
        let at_first = told();
        sleep(Duration::from_secs(3600)).await;
        assert!(at_first > 0 && told() == at_first, "{}", log.text());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_last_source_of_a_namespace_ends_while_an_edit_is_carried_out() {
    let (net, connections) = kcp(&["a", "b"]);
    for (tenant, name) in [("a", "last"), ("b", "other")] {
        net.act(&Request::post(&things_of(tenant), &thing(name, 1)));
    }
    let settle = Duration::from_secs(5);
    with_edits(&net, &connections, async |engine: &Running| {
        let mut document = sharing();
        engine.put(std::slice::from_ref(&document)).await;
        net.until_made("both are served", &["last", "other"]).await;
        sleep(settle).await;
        net.lock().slow.insert("other".to_owned());
        document["spec"]["objects"][0]["template"]["data"]["edition"] = json!("second");
        engine.put(&[document]).await;
        net.until("one follows the edit", |inner| inner.applied("last").count() == 2).await;
        net.act(&Request::delete(&format!("{}/last", things_of("a"))));
        sleep(settle).await;
        let inner = net.lock();
        assert_eq!(inner.applied("other").count(), 1, "the other is still to follow");
        assert_eq!(inner.accounts_deleted(), 1, "the last source takes the account along");
    })
    .await;
}

/// Whether it comes to use what is shared would be open for as long as its server refuses the finalizer.
#[tokio::test(start_paused = true)]
async fn a_source_that_cannot_be_taken_in_keeps_no_other_from_leaving() {
    let (net, connections) = kcp(&["a"]);
    let log = Log::default();
    let (writer, lines) = (log.clone(), tracing_subscriber::fmt().with_env_filter("sync_engine=warn").with_ansi(false));
    let _guard = tracing::subscriber::set_default(lines.with_writer(move || writer.clone()).finish());
    net.act(&Request::post(&things_of("a"), &thing("last", 1)));
    with_engine(&net, &connections, &[sharing()], async {
        net.until_made("it is served", &["last"]).await;
        sleep(Duration::from_secs(10)).await;
        let refusal = Failure::status(403, "Forbidden", "nobody may change it");
        net.lock().refused.insert("barred", refusal);
        net.act(&Request::post(&things_of("a"), &thing("barred", 1)));
        let is_refused = |inner: &Inner| inner.writes.iter().any(|one| one.name == "barred");
        net.until("the engine may not take it in", is_refused).await;
        net.act(&Request::delete(&format!("{}/last", things_of("a"))));
        sleep(Duration::from_secs(30)).await;
        assert_eq!(net.lock().accounts_deleted(), 1, "nobody else has come to use it");
        let says = |line: &str| line.contains("not in sync reason=\"RequestFailed\"");
        assert!(log.text().lines().any(says), "a request failed, and that is the reason: {}", log.text());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_object_delays_no_other_of_its_source() {
    let (net, connections) = plain(&["t1"], USUAL);
    net.act(&Request::post(&things(), &thing("x", 0)));
    net.lock().slow.insert("x-a".to_owned());
    let mut document = mapping("m", "t1", of_provider());
    document["spec"]["objects"] = config_maps(&["a", "b", "c"]);
    with_engine(&net, &connections, &[provider(), document], async {
        net.until_made("the others are there", &["x-b", "x-c"]).await;
        assert!(net.lock().made("x-a").is_empty(), "one after the other, they would come after it");
        net.until_made("the slow one follows", &["x-a"]).await;
    })
    .await;
}

/// A server that asks whether the Role of a RoleBinding is there says that it is missing.
#[tokio::test(start_paused = true)]
async fn a_binding_whose_role_is_refused_keeps_neither_the_others_nor_the_status_back() {
    let (net, connections) = plain(&["t1"], USUAL);
    net.act(&Request::post(&things(), &thing("x", 1)));
    let (group, version) = ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1");
    let role = json!({"apiVersion": version, "kind": "Role", "metadata": {"name": "role"}, "rules": []});
    let binding = json!({
        "apiVersion": version, "kind": "RoleBinding", "metadata": {"name": "binding"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "role"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader"}],
    });
    let shared = |(id, template): (&str, Value)| json!({"id": id, "shared": "Namespace", "template": template});
    let mut document = mapping("m", "t1", of_provider());
    let objects = document["spec"]["objects"].as_array_mut().expect("objects");
    objects.extend([("role", role), ("binding", binding)].map(shared));
    document["spec"]["status"] = json!({"from": "main", "fields": {"size": "$.data.size"}});
    let [forbidden, missing] = ["user may not create roles", "roles.rbac.authorization.k8s.io \"role\" not found"];
    net.lock().refused.insert("role", Failure::status(403, "Forbidden", forbidden));
    net.lock().refused.insert("binding", Failure::status(404, "NotFound", missing));
    let says = |is_synced: &str, reason: &str| {
        let status = net.get("source", &format!("{}/x", things()))["status"].clone();
        let synced = &status["conditions"][0];
        assert_eq!(status["size"], "1");
        assert_eq!((&synced["status"], &synced["reason"]), (&json!(is_synced), &json!(reason)));
    };
    with_edits(&net, &connections, async |engine: &Running| {
        let of_sources = || {
            let standings = engine.instruments.health.standings();
            standings.into_iter().find(|one| one.component == "mapping m: sources").map(|one| one.condition)
        };
        engine.put(&[provider(), document]).await;
        net.until("operators are told", |_| of_sources().is_some()).await;
        let told = of_sources().expect("a condition");
        assert_eq!(told.level, Level::Degraded);
        assert!(told.message.contains(forbidden) && told.message.contains(missing), "{}", told.message);
        says("False", "Refused");
        net.lock().refused.clear();
        net.until("nothing is refused any more", |_| of_sources().is_none()).await;
        says("True", "Synced");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_observing_mapping_writes_nothing() {
    let (net, connections) = plain(&["t1"], USUAL);
    let log = Log::default();
    let (writer, lines) = (log.clone(), tracing_subscriber::fmt().with_env_filter("sync_engine=warn"));
    let _guard = tracing::subscriber::set_default(lines.with_writer(move || writer.clone()).finish());
    let documents = |mode: &str| {
        let mut document = mapping("m", "t1", of_provider());
        document["spec"]["mode"] = json!(mode);
        [provider(), document]
    };
    with_edits(&net, &connections, async |engine: &Running| {
        engine.put(&documents("Observe")).await;
        sleep(Duration::from_secs(60)).await;
        net.lock().writes.clear();
        net.act(&Request::post(&things(), &thing("x", 1)));
        sleep(Duration::from_secs(600)).await;
        assert!(net.lock().writes.is_empty());
        let says = |line: &str| line.contains("finalizer") && line.contains("(mode: Observe)");
        assert!(log.text().lines().any(says), "it says what it would do: {}", log.text());
        let status = engine.instruments.status.latest();
        let told = status.mappings.iter().flat_map(|one| &one.not_synced);
        let told: Vec<_> = told.map(|one| (&*one.reason, one.sources)).collect();
        assert_eq!(told, [("Observed", 1)]);
        engine.try_put(&documents("Enforce")).await;
        net.until_made("it is served", &["x"]).await;
    })
    .await;
}

/// The document of the one that leads counts.
#[tokio::test(start_paused = true)]
async fn a_standby_with_other_mappings_says_so() {
    let (net, connections) = plain(&["t1"], USUAL);
    let of_standby = [net.connection("source", "source", ""), net.connection("t1", "t1", "")].into();
    net.act(&Request::post(&things(), &thing("x", 0)));
    let documents = |objects: &[&str]| {
        let mut document = mapping("m", "t1", of_provider());
        document["spec"]["objects"] = config_maps(objects);
        [provider(), document]
    };
    let (one, both) = (documents(&["a"]), documents(&["a", "b"]));
    let replica = |number| Settings { election: Some(terms(number)), ..Settings::default() };
    with_settings(&net, &connections, replica(0), async |leader: &Running| {
        leader.try_put(&one).await;
        net.until_made("it is served", &["x-a"]).await;
        with_settings(&net, &of_standby, replica(1), async |standby: &Running| {
            let differs = || {
                let standings = standby.instruments.health.standings();
                let advice = "give all replicas the same documents";
                let tells = |one: &Condition| one.level == Level::Degraded && one.message.contains(advice);
                standings.iter().any(|one| tells(&one.condition))
            };
            standby.try_put(&one).await;
            sleep(Duration::from_secs(60)).await;
            assert!(!differs());
            standby.try_put(&both).await;
            net.until("it has another document than the state store", |_| differs()).await;
            assert!(standby.instruments.health.is_ready());
            net.act(&merge(&format!("{}/x", things()), &json!({"spec": {"size": 1}})));
            net.until("its change is followed", |inner| inner.applied("x-a").count() == 2).await;
            assert!(net.lock().made("x-b").is_empty());
            leader.try_put(&both).await;
            net.until_made("the leader has the same document", &["x-b"]).await;
            net.until("the standby is content", |_| !differs()).await;
        })
        .await;
    })
    .await;
}

/// Large objects are read when they are needed, and as seldom as others are written.
#[test]
fn a_large_source_is_served_and_followed() {
    const BEFORE: usize = 14;
    in_virtual_time(async {
        let (net, connections) = kcp(&["a"]);
        let mut copies = mapping("m", "t1", of_export());
        copies["spec"]["objects"][0]["template"]["data"]["token"] = json!("{{ source.spec.token }}");
        let things = things_of("a");
        let with_token = |name: &str, size: u32, length: usize| {
            let mut thing = thing(name, size);
            thing["spec"]["token"] = "x".repeat(length).into();
            thing
        };
        let large = |name: &str, size: u32| with_token(name, size, 400_000);
        let made = |inner: &Inner, name: &str| inner.applied(name).count();
        // More than a page: after the restart only their metadata is listed, and that of the small one among them.
        for number in 0..BEFORE {
            net.act(&Request::post(&things, &large(&format!("before-{number}"), 1)));
        }
        net.act(&Request::post(&things, &with_token("before-small", 1, 10)));
        for round in 1..=2 {
            with_engine(&net, &connections, std::slice::from_ref(&copies), async {
                net.act(&Request::post(&things, &large(&format!("x{round}"), 1)));
                let all = |inner: &Inner| {
                    made(inner, &format!("x{round}")) == 1
                        && made(inner, "before-small") == 1
                        && (0..BEFORE).all(|n| made(inner, &format!("before-{n}")) == 1)
                };
                net.until("large sources are served", all).await;
                sleep(Duration::from_secs(300)).await;
                let writes = net.lock().writes.len();
                let size = json!({"spec": {"size": round + 1}});
                let path = format!("{things}/x{round}");
                net.act(&merge(&path, &size));
                net.until("its change is followed", |inner| made(inner, &format!("x{round}")) == 2).await;
                sleep(Duration::from_secs(300)).await;
                let inner = net.lock();
                assert!(inner.writes[writes..].iter().all(|one| one.name == format!("x{round}")));
                assert!(inner.writes.len() <= writes + 3, "one change is written once");
                assert!((0..BEFORE).all(|n| made(&inner, &format!("before-{n}")) == 1), "a start writes nothing");
            })
            .await;
        }
    });
}

/// Whoever may write on the target may give any number of them the label.
#[tokio::test(start_paused = true)]
async fn large_objects_that_carry_the_label_of_a_source_and_are_not_its_own_are_not_read() {
    let (net, connections) = kcp(&["a"]);
    net.act(&Request::post(&things_of("a"), &thing("x", 1)));
    with_engine(&net, &connections, &[mapping("m", "t1", of_export())], async {
        net.until_made("the source is served", &["x"]).await;
        let own = net.lock().applied("x").map(|one| one.path.clone()).next().unwrap_or_default();
        let at = own.strip_suffix("/x").expect("the path of an object");
        let of = |field: &str| net.get("t1", &own)["metadata"][field].clone();
        let metadata = json!({"name": "forged", "namespace": of("namespace"), "labels": of("labels")});
        let data = json!({"text": "x".repeat(400_000)});
        let forged = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        net.act_at("t1", &Request::post(at, &forged));
        net.act(&merge(&format!("{}/x", things_of("a")), &json!({"spec": {"size": 2}})));
        net.until("its change is followed", |inner| inner.applied("x").count() == 2).await;
        sleep(Duration::from_secs(60)).await;
        assert_eq!(net.lock().reads.get(&("t1".to_owned(), format!("{at}/forged"))), None);
    })
    .await;
}

/// A tenant may write the engine's finalizer and annotation before a mapping of that name ever runs.
#[tokio::test(start_paused = true)]
async fn a_forged_finalizer_of_a_future_mapping_blocks_its_own_source_alone() {
    let (net, connections) = kcp(&["a", "b"]);
    // What a mapping writes shows how the identity of the target is written.
    let mut pin = Value::Null;
    with_engine(&net, &connections, &[mapping("before", "t1", of_export())], async {
        let first = format!("{}/first", things_of("a"));
        net.act(&Request::post(&things_of("a"), &thing("first", 1)));
        net.until_made("the first one is served", &["first"]).await;
        pin = net.get("source", &first)["metadata"]["annotations"]["target.sync-engine.dev/main.before"].clone();
        net.act(&Request::delete(&first));
        sleep(Duration::from_secs(30)).await;
    })
    .await;
    assert!(pin.as_str().is_some_and(|pin| pin.starts_with("t1=")), "{pin}");
    let mut forged = thing("forged", 1);
    forged["metadata"]["finalizers"] = json!(["sync-engine.dev/main.m"]);
    forged["metadata"]["annotations"] = json!({"target.sync-engine.dev/main.m": pin});
    net.act(&Request::post(&things_of("a"), &forged));
    net.act(&Request::post(&things_of("a"), &thing("beside", 1)));
    net.act(&Request::post(&things_of("b"), &thing("other", 1)));
    with_engine(&net, &connections, &[mapping("m", "t1", of_export())], async {
        net.until_made("every other source is served", &["beside", "other"]).await;
        sleep(Duration::from_secs(60)).await;
        assert!(net.lock().made("forged").is_empty(), "the forged one is reported, and nothing is written for it");
        let let_go = json!({"metadata": {"finalizers": null, "annotations": null}});
        net.act(&merge(&format!("{}/forged", things_of("a")), &let_go));
        net.until_made("it is served once it is let go", &["forged"]).await;
    })
    .await;
}

/// Clusters of a fleet come and go, and those that went were targets for ever.
#[tokio::test(start_paused = true)]
async fn a_target_that_no_document_names_goes_once_nothing_is_left_there() {
    let (net, connections) = plain(&["t1", "t2"], USUAL);
    let documents = |allowed: &[&str]| {
        let mut document = mapping("m", "{{ source.metadata.labels.target }}", of_provider());
        document["spec"]["target"]["allowed"] = json!(allowed);
        document["spec"]["target"]["onTargetChange"] = json!("Recreate");
        document["spec"]["release"] = json!({"maxFailing": "100%"});
        [provider(), document]
    };
    ["t1", "t2"].iter().for_each(|name| net.act(&Request::post(&things(), &thing(name, 0))));
    let settle = Duration::from_secs(60);
    with_edits(&net, &connections, async |engine: &Running| {
        engine.put(&documents(&["t1", "t2"])).await;
        net.until("both are served", |inner| ["t1", "t2"].iter().all(|name| inner.made(name).contains(name))).await;
        engine.put(&documents(&["t1"])).await;
        sleep(settle).await;
        assert!(net.lock().is_recorded("targets", "t2"), "what it has is still to be deleted with its source");
        net.act(&Request::delete(&format!("{}/t2", things())));
        sleep(settle).await;
        assert!(!net.lock().is_recorded("targets", "t2"), "nothing is left there");
        assert!(net.lock().is_recorded("targets", "t1"));
        engine.put(&documents(&["t1", "t2"])).await;
        net.act(&Request::post(&things(), &thing("t2", 1)));
        sleep(settle).await;
        let later = net.lock().writes.iter().filter(|one| one.host == "t2" && one.verb == Verb::Apply).count();
        assert!(later >= 2, "it is a target again");
    })
    .await;
}

/// An edit names another connection to the target, on which no mapping runs, and a kind that the mapping did not have.
#[tokio::test(start_paused = true)]
async fn an_edit_is_rehearsed_on_the_target_that_it_names() {
    let (net, mut connections) = plain(&["t1", "t2"], USUAL);
    connections.extend([net.connection("again", "t2", "")]);
    net.act(&Request::post(&things(), &thing("x", 0)));
    let mut edited = mapping("m", "again", of_provider());
    let template = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"size": "{{ source.spec.size }}"}});
    let objects = edited["spec"]["objects"].as_array_mut().expect("a list");
    objects.push(json!({"id": "secret", "template": template}));
    with_edits(&net, &connections, async |engine: &Running| {
        engine.put(&[provider(), mapping("m", "t2", of_provider())]).await;
        net.until_made("it is served", &["x"]).await;
        engine.put(&[provider(), edited]).await;
        let is_secret = |one: &Written| one.host == "t2" && one.path.contains("/secrets/");
        net.until("it has the new object", |inner| inner.applied("x").any(is_secret)).await;
    })
    .await;
}

/// A mapping that serves none of its sources is given those of another one, and a field of their status, which that one writes
/// as long as its own edit is held.
#[tokio::test(start_paused = true)]
async fn a_document_of_other_sources_waits_for_the_edit_that_gives_up_a_field_which_it_takes_over() {
    let (net, connections) = plain(&["t1"], USUAL);
    net.act(&Request::post(&things(), &thing("x", 0)));
    let document = |name: &str, resource: &str, objects: &[&str], tells: bool| {
        let source = json!({"provider": "plain", "resource": format!("{resource}.v1.{GROUP}")});
        let mut document = mapping(name, "t1", source);
        document["spec"]["objects"] = config_maps(objects);
        document["spec"]["release"] = json!({"maxLost": {"objects": 0, "percent": 0}});
        if tells {
            document["spec"]["status"]["from"] = json!(objects[0]);
            document["spec"]["status"]["fields"] = json!({"size": "$.data.id"});
        }
        document
    };
    let settle = Duration::from_secs(60);
    with_edits(&net, &connections, async |engine: &Running| {
        let gadgets = document("n", "gadgets", &["n"], false);
        engine.put(&[provider(), document("m", "things", &["a", "b"], true), gadgets]).await;
        net.until_made("it is served", &["x-a", "x-b"]).await;
        sleep(settle).await;
        let takes_over = document("n", "things", &["n"], true);
        let losing = document("m", "things", &["a"], false);
        let told = engine.try_put(&[provider(), losing, takes_over.clone()]).await;
        sleep(settle).await;
        assert!(net.lock().made("x-n").is_empty(), "{}", told.text);
        engine.try_put(&[provider(), document("m", "things", &["a", "b"], false), takes_over]).await;
        net.until_made("the field is given up", &["x-n"]).await;
    })
    .await;
}

/// Somebody takes a label off that both documents read. No consumer has edited the source.
#[tokio::test(start_paused = true)]
async fn a_gate_passes_for_a_source_that_fails_by_the_document_in_force_too() {
    let (net, connections) = plain(&["t1"], USUAL);
    let names = ["x", "y"];
    names.iter().for_each(|name| net.act(&Request::post(&things(), &thing(name, 0))));
    let document = |edition: &str| {
        let mut document = mapping("m", "t1", of_provider());
        document["spec"]["objects"][0]["template"]["data"] =
            json!({"edition": edition, "label": "{{ source.metadata.labels.target }}"});
        document["spec"]["release"] = json!({"waves": [{"percent": 100, "soak": "60s", "maxFailing": 0}]});
        [provider(), document]
    };
    with_edits(&net, &connections, async |engine: &Running| {
        engine.put(&document("first")).await;
        net.until_made("both are served", &names).await;
        sleep(Duration::from_secs(60)).await;
        net.lock().writes.clear();
        engine.put(&document("second")).await;
        net.until_made("both follow it", &names).await;
        net.act(&merge(&format!("{}/x", things()), &json!({"metadata": {"labels": {"target": null}}})));
        sleep(Duration::from_secs(30)).await;
        assert!(!net.lock().is_recorded("document", "second"), "the wave soaks");
        sleep(Duration::from_secs(170)).await;
        assert!(net.lock().is_recorded("document", "second"), "it is in force");
    })
    .await;
}

/// Sources of a cluster that is out of sight may be there.
#[tokio::test(start_paused = true)]
async fn a_target_that_is_away_is_forgotten_for_no_source_that_is_out_of_sight() {
    let (net, connections) = plain(&["t1", "e1"], USUAL);
    let (sources, targets) = (Fleet::new(&net, "plain", &["source"]), Fleet::new(&net, "edge", &["e1"]));
    let mut document = mapping("m", "edge/{{ source.metadata.labels.target }}", of_provider());
    document["spec"]["target"]["allowed"] = json!(["t1"]);
    document["spec"]["target"]["clusters"] = json!({"provider": "edge"});
    net.act(&Request::post(&things(), &thing("e1", 0)));
    with_fleets(&net, &connections, &[&sources, &targets], async |engine: &Running| {
        engine.put(&[sources.document(), targets.document(), document]).await;
        net.until_made("it is served", &["e1"]).await;
        for fleet in [&sources, &targets] {
            fleet.lists(0);
            sleep(Duration::from_secs(60)).await;
        }
        assert!(net.lock().is_recorded("targets", "edge/e1"), "what it has is still to be deleted with its source");
    })
    .await;
}

/// How often the state stores of a mapping are written on so many clusters that come into sight one by one for the first time, and
/// how often they are read once they do so after a restart.
fn uses_of_state_stores(clusters: usize) -> (usize, usize) {
    in_virtual_time(async {
        let names: Vec<String> = (1..=clusters).map(|number| format!("e{number}")).collect();
        let hosts: Vec<&str> = ["t1"].into_iter().chain(names.iter().map(String::as_str)).collect();
        let (net, connections) = plain(&hosts, USUAL);
        let fleet = Fleet { period: 4 * USUAL, ..Fleet::new(&net, "edge", &names) };
        let mut document = mapping("m", "", of_provider());
        document["spec"].as_object_mut().expect("a mapping").remove("target");
        document["spec"]["targets"] = json!({"clusters": {"provider": "edge"}});
        net.act(&Request::post(&things(), &thing("x", 0)));
        let documents = [provider(), fleet.document(), document];
        let comes_up = async || {
            fleet.lists(0);
            with_fleets(&net, &connections, &[&fleet], async |engine: &Running| {
                engine.put(&documents).await;
                for number in 1..=clusters {
                    fleet.lists(number);
                    // Meanwhile, a state store is read and written.
                    sleep(12 * USUAL).await;
                }
                sleep(Duration::from_secs(10)).await;
            })
            .await;
        };
        comes_up().await;
        let written = {
            let inner = &mut *net.lock();
            assert_eq!(inner.made("x").len(), clusters, "the source is on all of them");
            for (host, other) in names.iter().flat_map(|host| names.iter().map(move |other| (host, other))) {
                assert!(inner.is_recorded_at(host, "targets", &format!("\"edge/{other}\"")), "{host}, {other}");
            }
            inner.reads.clear();
            inner.writes.iter().filter(|one| one.path == STORE).count()
        };
        comes_up().await;
        let inner = net.lock();
        let read: usize = names.iter().filter_map(|host| inner.reads.get(&(host.clone(), STORE.to_owned()))).sum();
        assert!(written >= clusters && read >= clusters, "{written} and {read} for {clusters} clusters");
        (written, read)
    })
}

#[test]
fn state_stores_of_a_fleet_are_read_and_written_as_often_as_it_has_clusters_and_not_as_their_square() {
    let ((written, read), (written_for_more, read_after_more)) = (uses_of_state_stores(8), uses_of_state_stores(16));
    assert!(2 * written_for_more <= 5 * written, "{written}, and {written_for_more} for twice as many clusters");
    assert!(2 * read_after_more <= 5 * read, "{read}, and {read_after_more} for twice as many clusters");
}

/// How many clusters the engine let go, and the most of them in one stretch.
#[derive(Debug, Default)]
struct Gone {
    total: AtomicUsize,
    stretch: AtomicUsize,
    longest: AtomicUsize,
    first: Notify,
}

/// Reads the log of the engine.
impl io::Write for &Gone {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if line.windows(10).any(|text| text == b"disengaged") {
            self.total.fetch_add(1, Ordering::Relaxed);
            self.longest.fetch_max(self.stretch.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            self.first.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn many_workspaces_that_go_at_once_leave_turns_to_leases_and_probes() {
    let tenants: Vec<String> = (0..load(300, 10_000)).map(|number| format!("tenant{number}")).collect();
    let (net, connections) = kcp(&tenants);
    let gone = Arc::new(Gone::default());
    let log = tracing_subscriber::fmt().with_env_filter("sync_engine::engine::clusters=debug").with_ansi(false);
    let _guard = tracing::subscriber::set_default(log.with_writer(gone.clone()).finish());
    with_engine(&net, &connections, &[mapping("m", "t1", of_export())], async {
        sleep(Duration::from_secs(30)).await;
        tenants.iter().for_each(|tenant| net.act(&Request::delete(&binding_url(tenant))));
        timeout(Duration::from_secs(600), gone.first.notified()).await.expect("the log tells of the first one");
        // As a lease or a probe whose time has come.
        for _ in 0..tenants.len() * 100 {
            gone.stretch.store(0, Ordering::Relaxed);
            yield_now().await;
        }
        sleep(Duration::from_secs(30)).await;
    })
    .await;
    let (total, longest) = (gone.total.load(Ordering::Relaxed), gone.longest.load(Ordering::Relaxed));
    // One walk serves those that are taken together.
    assert!(total == tenants.len() && longest <= 128, "{longest} of {total} in one turn");
}

/// A server that was stopped takes connections. Its watches are silent, as they are where nothing happens.
#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_asked_after_a_minute_and_reported() {
    let (net, connections) = plain(&["t1"], USUAL);
    net.act(&Request::post(&things(), &thing("x", 0)));
    let documents = [provider(), mapping("m", "t1", of_provider())];
    with_edits(&net, &connections, async |engine: &Running| {
        let silent = || {
            let standings = engine.instruments.health.standings();
            let silent = standings.into_iter().filter(|standing| standing.condition.message.contains("no answer"));
            silent.map(|standing| (standing.component, standing.condition)).collect::<Vec<_>>()
        };
        let since_the_last_answer = || {
            let metrics = engine.metrics();
            let name = "sync_engine_connection_last_answer_timestamp_seconds{connection=\"t1\"} ";
            let seconds = metrics.lines().find_map(|line| line.strip_prefix(name)?.parse::<f64>().ok());
            net.lock().now() as f64 - seconds.expect("a number")
        };
        engine.put(&documents).await;
        net.until_made("it is served", &["x"]).await;
        // A target is asked which cluster it is every five minutes, whatever it does.
        sleep(Duration::from_secs(400)).await;
        assert_eq!((silent(), engine.instruments.health.is_ready()), (vec![], true));
        assert!(since_the_last_answer() < 70.0);
        net.lock().hung = Some("t1");
        sleep(Duration::from_secs(80)).await;
        let message = "no answer from http://t1 for more than a minute";
        assert_eq!(silent(), [("answers of connection t1".to_owned(), Condition::waiting(message))]);
        assert!(!engine.instruments.health.is_ready());
        assert!(since_the_last_answer() > 60.0);
        net.lock().hung = None;
        sleep(Duration::from_secs(30)).await;
        assert_eq!(silent(), []);
    })
    .await;
}
