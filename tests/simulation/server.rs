//! A simulated API server: the sandbox's state machine, its watches and its backups.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::action::{VERSIONS, Versions};
use super::core::Weather;
use super::dice::Dice;
use hyper::body::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sync_engine::sandbox::{
    self, Claim, Controllers, Event, Failure, Flavor, Outcome, Request, Settings, State, Timestamp, Verb,
};
use tokio::sync::Notify;

/// The most objects that a page of a list has.
const PAGE: u32 = 2;

/// One of the servers of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Side {
    #[default]
    Source,
    Target,
    /// Another target, where the mapping has several.
    Second,
}

impl Side {
    pub const ALL: [Self; 3] = [Self::Source, Self::Target, Self::Second];

    pub fn is_target(self) -> bool {
        self != Self::Source
    }

    /// The server with this host.
    pub fn of_host(host: &str) -> Self {
        Self::ALL.into_iter().find(|side| host.starts_with(side.name())).unwrap_or(Self::Target)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Target => "target",
            Self::Second => "second",
        }
    }
}

pub struct Server {
    pub state: State,
    watchers: Vec<Watcher>,
    /// Watches that stay open and bring nothing any more.
    silenced: Vec<Watcher>,
    pub backup: Option<State>,
    /// Restores and rebuilds so far: each draws other uids.
    pub epoch: u32,
    flavor: Flavor,
    side: Side,
    /// Whether anything listens.
    pub up: bool,
    /// What a watch from a version that the server has not reached comes to.
    pub ahead: Ahead,
    /// What it does to events.
    pub weather: Weather,
    dice: Dice,
    /// Notified when something waits for its controllers.
    pub work: Arc<Notify>,
    /// What kubeconfigs say of it.
    pub kubeconfig: Kubeconfig,
    shards: usize,
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kubeconfig {
    /// Which of its addresses.
    pub address: u32,
    /// The token that it knows.
    pub token: u32,
}

impl Kubeconfig {
    pub fn url(self, side: Side) -> String {
        let number = if self.address.is_multiple_of(2) { "" } else { "-2" };
        format!("http://{}{number}", side.name())
    }

    pub fn token(self) -> String {
        format!("token-{}", self.token)
    }
}

/// What a watch from a version of the future comes to: servers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ahead {
    /// It is silent until then.
    Silent,
    /// It is refused as too old.
    Expired,
    /// It begins with what happened before, under versions lower than the one asked for.
    Old,
}

struct Watcher {
    end: sandbox::Watcher,
    /// A line that waits for the next one.
    waiting: Option<Bytes>,
}

impl Watcher {
    /// Sends what happened, as the weather has it; `false`: the watch is over.
    fn show(&mut self, line: Bytes, weather: Weather, dice: &mut Dice) -> bool {
        if dice.percent(weather.dropped) {
            self.flush();
            let half = line.slice(..line.len() / 2);
            let _ = self.end.lines.send(if dice.percent(50) { half } else { Bytes::new() });
            return false;
        }
        let line = match self.waiting.take() {
            None => Some(line),
            Some(first) => self.after(first, line),
        };
        let Some(line) = line else { return true };
        if dice.percent(weather.merged) {
            self.waiting = Some(line);
            return true;
        }
        let twice = dice.percent(weather.doubled);
        self.end.lines.send(line.clone()).is_ok() && (!twice || self.end.lines.send(line).is_ok())
    }

    /// What is left to send of two events: one, if both are of one object.
    fn after(&self, first: Bytes, second: Bytes) -> Option<Bytes> {
        let (old, new) = (Line::of(&first), Line::of(&second));
        if old.object != new.object {
            let _ = self.end.lines.send(first);
            return Some(second);
        }
        match (&*old.kind, &*new.kind) {
            // Who made the object knows it without the event: its end is told in any case.
            ("ADDED", "DELETED") => Some(second),
            ("ADDED", _) => Some(new.said("ADDED")),
            // An object of the same name that came at once.
            ("DELETED", "ADDED") => Some(new.said("MODIFIED")),
            _ => Some(second),
        }
    }

    fn flush(&mut self) {
        if let Some(line) = self.waiting.take() {
            let _ = self.end.lines.send(line);
        }
    }
}

/// A line of a watch, taken apart.
struct Line {
    kind: String,
    /// Cluster, namespace and name.
    object: [String; 3],
    body: Value,
}

impl Line {
    fn of(line: &Bytes) -> Self {
        let event: Value = serde_json::from_slice(line).expect("a line of a watch");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &event["object"]["metadata"];
        let cluster = &metadata["annotations"]["kcp.io/cluster"];
        let object = [text(cluster), text(&metadata["namespace"]), text(&metadata["name"])];
        Self { kind: text(&event["type"]), object, body: event["object"].clone() }
    }

    fn said(&self, kind: &str) -> Bytes {
        format!("{}\n", json!({"type": kind, "object": self.body})).into()
    }
}

impl Server {
    pub fn new(side: Side, flavor: Flavor, now: Timestamp, dice: u64, shards: usize) -> Self {
        let state = State::new(settings(side, flavor, 0, shards), now);
        Self {
            state,
            watchers: Vec::new(),
            silenced: Vec::new(),
            backup: None,
            epoch: 0,
            flavor,
            side,
            up: true,
            ahead: Ahead::Silent,
            weather: Weather::default(),
            work: Arc::default(),
            kubeconfig: Kubeconfig::default(),
            shards,
            dice: Dice::new(dice.rotate_left(side as u32 + 7)),
        }
    }

    /// Carries out a request and shows what it wrote to the watches.
    pub fn handle(&mut self, request: &Request, now: Timestamp) -> (Outcome, Vec<Event>) {
        if self.ahead == Ahead::Expired && self.is_ahead(request) {
            let expired = Failure::expired("too old resource version");
            return (Outcome::refused(&expired), Vec::new());
        }
        let old = (self.ahead == Ahead::Old && self.is_ahead(request)).then(|| self.since_long_ago(request));
        let (reply, events) = self.state.handle(&in_pages(old.as_ref().unwrap_or(request)), now);
        self.show(&events);
        self.wake();
        let (outcome, end) = reply.open();
        self.watchers.extend(end.map(|end| Watcher { end, waiting: None }));
        (outcome, events)
    }

    fn is_ahead(&self, request: &Request) -> bool {
        let from = request.query.get("resourceVersion").and_then(|version| version.parse::<u64>().ok());
        request.query.is_true("watch") && from.is_some_and(|from| from > self.state.version())
    }

    fn show(&mut self, events: &[Event]) {
        let (weather, dice) = (self.weather, &mut self.dice);
        for event in events {
            self.watchers.retain_mut(|watcher| match watcher.end.interest.line_for(event) {
                Some(line) => watcher.show(line, weather, dice),
                None => !watcher.end.lines.is_closed(),
            });
        }
    }

    /// Has the controllers run, if anything waits for them.
    fn wake(&self) {
        if self.state.waiting() > 0 {
            self.work.notify_one();
        }
    }

    /// Runs one of its controllers on one of the changes that wait for them.
    pub fn step(&mut self, now: Timestamp) -> Vec<Event> {
        let which = self.dice.below(self.state.waiting() as u64) as usize;
        let events = self.state.step(which, now);
        self.show(&events);
        events
    }

    /// How long until one of its controllers gets round to its work, in milliseconds.
    pub fn pause(&mut self) -> u64 {
        if self.dice.percent(85) { self.dice.below(20) } else { self.dice.below(3_000) }
    }

    /// The same watch from the middle of what this server knows.
    fn since_long_ago(&self, request: &Request) -> Request {
        let mut request = request.clone();
        request.query = request.query.with("resourceVersion", &(self.state.version() / 2).to_string());
        request
    }

    pub fn send_bookmarks(&mut self) {
        let version = self.state.version();
        self.silenced.retain(|watcher| !watcher.end.lines.is_closed());
        self.watchers.iter_mut().for_each(Watcher::flush);
        self.watchers.retain(|watcher| watcher.end.send_bookmark(version));
    }

    /// Ends every watch, as a broken connection does.
    pub fn cut_watches(&mut self) {
        self.watchers.clear();
        self.silenced.clear();
    }

    /// Ends the watches of one API, as a server does whose definition of it changes.
    pub fn end_watches(&mut self, plural: &str) {
        self.watchers.retain(|watcher| &*watcher.end.interest.storage.plural != plural);
    }

    /// Every watch stays open and brings nothing any more.
    pub fn silence_watches(&mut self) {
        self.silenced.append(&mut self.watchers);
    }

    pub fn back_up(&mut self) {
        self.backup = Some(self.state.clone());
    }

    /// Puts the backup back: the former objects and versions, and other uids from now on.
    pub fn restore(&mut self, ahead: Ahead) -> bool {
        let Some(backup) = self.backup.clone() else { return false };
        self.epoch += 1;
        self.ahead = ahead;
        self.state = backup.diverge(&seed(self.side, self.epoch));
        self.cut_watches();
        self.wake();
        true
    }

    pub fn compact(&mut self) {
        self.state.compact();
    }

    /// An empty server behind the same address.
    pub fn rebuild(&mut self, now: Timestamp, ahead: Ahead) {
        self.ahead = ahead;
        self.epoch += 1;
        self.state = State::new(settings(self.side, self.flavor, self.epoch, self.shards), now);
        self.cut_watches();
    }
}

/// Pages of a list are small, so that there are several.
fn in_pages(request: &Request) -> Cow<'_, Request> {
    let limit = request.query.get("limit").and_then(|limit| limit.parse::<u32>().ok());
    if limit.is_none_or(|limit| limit <= PAGE) {
        return Cow::Borrowed(request);
    }
    let query = request.query.clone().with("limit", &PAGE.to_string());
    Cow::Owned(Request { query, ..request.clone() })
}

fn seed(side: Side, epoch: u32) -> String {
    format!("{}-{epoch}", side.name())
}

fn settings(side: Side, flavor: Flavor, epoch: u32, shards: usize) -> Settings {
    let urls = (0..shards).map(|shard| format!("http://{}{}", side.name(), if shard == 0 { "" } else { SHARD }));
    let (seed, urls, controllers) = (seed(side, epoch), urls.collect(), Controllers::Stepwise);
    Settings { flavor, seed, urls, controllers, ..Settings::default() }
}

/// Whether such a request changes nothing.
pub fn is_read(verb: Verb) -> bool {
    matches!(verb, Verb::Get | Verb::List | Verb::Watch)
}

/// Changes these fields of an object.
pub fn merge(url: &str, fields: &Value) -> Request {
    Request::patch(url, "application/merge-patch+json", fields)
}

/// What the host of the second shard ends with.
pub const SHARD: &str = "-shard";

/// Plural and kind of the two APIs that consumers use.
pub const RESOURCES: [(&str, &str); 2] = [("things", "Thing"), ("gadgets", "Gadget")];
const WIDGETS: (&str, &str) = ("widgets", "Widget");
pub const GROUP: &str = "example.dev";

fn schema(has_edition: bool) -> Value {
    let condition = json!({"type": "object", "properties": {
        "type": {"type": "string"}, "status": {"type": "string"}, "reason": {"type": "string"},
        "message": {"type": "string"}, "lastTransitionTime": {"type": "string"},
        "observedGeneration": {"type": "integer"},
    }});
    let mut schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer"}, "token": {"type": "string"}, "extra": {"type": "boolean"},
            "secret": {"type": "string"}, "ballast": {"type": "string"},
        }},
        "status": {"type": "object", "properties": {
            "size": {"type": "string"}, "observedGeneration": {"type": "integer"},
            "conditions": {"type": "array", "items": condition},
        }},
    }});
    if has_edition {
        schema["properties"]["status"]["properties"]["edition"] = json!({"type": "string"});
    }
    schema
}

/// Where the API of the first resource is published.
pub fn api_url(is_kcp: bool) -> &'static str {
    match is_kcp {
        true => "/clusters/root/apis/apis.kcp.io/v1alpha2/apiexports/things",
        false => "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.dev",
    }
}

/// Whether it has the field `status.edition`.
pub fn has_edition(api: &Value) -> bool {
    let text = api["spec"].to_string();
    text.contains("\"edition\"") || text.contains("\"v2.things")
}

/// Puts another schema behind the APIs.
pub fn new_schema(is_kcp: bool, has_edition: bool, is_beside: bool) -> Vec<Request> {
    let version = if has_edition { "v2" } else { "v1" };
    if is_kcp {
        let (schemas, export) = published(version, has_edition, is_beside);
        let patch = merge(api_url(true), &json!({"spec": {"resources": export["spec"]["resources"]}}));
        return schemas[..RESOURCES.len()].iter().map(create_schema).chain([patch]).collect();
    }
    let versions = json!({"spec": {"versions": [version_of(json!({"openAPIV3Schema": schema(has_edition)}))]}});
    RESOURCES.iter().map(|(plural, _)| merge(&format!("{DEFINITIONS}/{plural}.{GROUP}"), &versions)).collect()
}

fn version_of(schema: Value) -> Value {
    json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": schema})
}

/// Requests that define the APIs in a plain cluster.
pub fn definitions(is_beside: bool) -> Vec<Request> {
    RESOURCES.iter().map(|api| definition(api, schema(false))).chain(is_beside.then(widgets)).collect()
}

/// Defines the kind of objects that are not built in.
pub fn widgets() -> Request {
    definition(&WIDGETS, widget())
}

fn definition((plural, kind): &(&str, &str), schema: Value) -> Request {
    Request::post(DEFINITIONS, &sandbox::definition(&format!("{plural}.v1.{GROUP}"), kind, &schema))
}

fn widget() -> Value {
    let data = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({"type": "object", "properties": {"data": data}})
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Which of its versions there are. Whoever takes one away has stored all objects in the other one.
pub fn widget_versions(versions: Versions) -> Request {
    let stored = if matches!(versions, Versions::Both | Versions::First) { VERSIONS[0] } else { VERSIONS[1] };
    let definition = |(name, served): (&str, bool)| {
        let version = version_of(json!({"openAPIV3Schema": widget()}));
        let (storage, served) = (name == stored, served || name == stored);
        json!({"name": name, "served": served, "storage": storage, "subresources": {"status": {}}, "schema": version["schema"]})
    };
    let all = VERSIONS.map(|name| (name, versions.serves(name)));
    let all = all.into_iter().filter(|(name, _)| versions != Versions::Gone || *name != VERSIONS[0]).map(definition);
    merge(&format!("{DEFINITIONS}/widgets.{GROUP}"), &json!({"spec": {"versions": all.collect::<Vec<_>>()}}))
}

/// Whether its API is served, which says nothing of its objects.
pub fn serve_widgets(served: bool) -> Request {
    let change = json!([{"op": "replace", "path": "/spec/versions/0/served", "value": served}]);
    Request::patch(&format!("{DEFINITIONS}/widgets.{GROUP}"), "application/json-patch+json", &change)
}

/// Takes it away, with all its objects.
pub fn no_widgets() -> Request {
    Request::delete(&format!("{DEFINITIONS}/widgets.{GROUP}"))
}

/// Requests that publish the APIs from kcp's `root`.
pub fn export(is_beside: bool) -> Vec<Request> {
    let (schemas, export) = published("v1", false, is_beside);
    let export = Request::post("/clusters/root/apis/apis.kcp.io/v1alpha2/apiexports", &export);
    schemas.iter().map(create_schema).chain([export]).collect()
}

/// The schemas of the APIs in kcp, and their export. Beside sources, Widgets are the export's own, and need no claim.
fn published(version: &str, has_edition: bool, is_beside: bool) -> (Vec<Value>, Value) {
    let schema_of = |(plural, kind): &(&str, &str), version: &str, schema: Value| {
        let mut object = sandbox::resource_schema(&format!("{plural}.v1.{GROUP}"), kind, &schema);
        object["metadata"]["name"] = format!("{version}.{plural}.{GROUP}").into();
        object
    };
    let own = is_beside.then(|| schema_of(&WIDGETS, "v1", widget()));
    let schemas: Vec<Value> =
        RESOURCES.iter().map(|api| schema_of(api, version, schema(has_edition))).chain(own).collect();
    let export = sandbox::export("things", &schemas, claimed(is_beside));
    (schemas, export)
}

fn create_schema(schema: &Value) -> Request {
    Request::post("/clusters/root/apis/apis.kcp.io/v1alpha1/apiresourceschemas", schema)
}

/// What consumers let the engine use.
fn claimed(is_beside: bool) -> &'static [Claim<'static>] {
    static CLAIMS: [Claim<'static>; 2] =
        [Claim { group: "", resource: "secrets" }, Claim { group: "", resource: "configmaps" }];
    if is_beside { &CLAIMS } else { &CLAIMS[..1] }
}

/// Where a workspace below `root` is.
pub fn workspace_url(name: &str) -> String {
    format!("/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces/{name}")
}

/// Makes a workspace there.
pub fn workspace(name: &str) -> Request {
    let workspace = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}});
    Request::post("/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces", &workspace)
}

/// Binds the export in a workspace.
pub fn binding(workspace: &str, is_beside: bool) -> Request {
    let binding = sandbox::binding("root", "things", claimed(is_beside));
    Request::post(&format!("/clusters/root:{workspace}/apis/apis.kcp.io/v1alpha2/apibindings"), &binding)
}

/// Where the binding of a workspace is.
pub fn binding_url(workspace: &str) -> String {
    format!("/clusters/root:{workspace}/apis/apis.kcp.io/v1alpha2/apibindings/things")
}

/// Accepts the claims in a workspace, or takes that back.
pub fn accept(workspace: &str, accepts: bool, is_beside: bool) -> Request {
    let mut claims = sandbox::binding("root", "things", claimed(is_beside))["spec"]["permissionClaims"].take();
    for claim in claims.as_array_mut().into_iter().flatten().filter(|_| !accepts) {
        claim["state"] = "Rejected".into();
    }
    merge(&binding_url(workspace), &json!({"spec": {"permissionClaims": claims}}))
}

/// Whether a binding accepts them. While it is being deleted, those that it had go on, and no other is applied.
pub fn accepts(binding: &Value) -> bool {
    match binding["metadata"]["deletionTimestamp"].is_null() {
        true => binding["spec"]["permissionClaims"][0]["state"] == "Accepted",
        false => binding["status"]["appliedPermissionClaims"].as_array().is_some_and(|applied| !applied.is_empty()),
    }
}

/// Objects of a list, by namespace and name.
pub fn items(list: &Value) -> BTreeMap<(String, String), Value> {
    let text = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.into_iter().map(|item| ((text(&item, "namespace"), text(&item, "name")), item)).collect()
}
