//! The core by requests: what goes in, what comes out, at a moment the test chooses.

mod apply;
mod kcp;
mod objects;
mod tables;
mod watches;

use serde_json::{Value, json};

use super::{ChangeKind, Event, Flavor, Reply, Request, Settings, State, Timestamp, definition};

pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(super) const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// A server, the time there, and the events it has sent.
pub(super) struct World {
    pub state: State,
    pub now: Timestamp,
    pub events: Vec<Event>,
}

impl World {
    pub fn kubernetes() -> World {
        World::of(Settings::default())
    }

    pub fn kcp() -> World {
        World::of(Settings { flavor: Flavor::Kcp, ..Settings::default() })
    }

    pub fn of(settings: Settings) -> World {
        let now = Timestamp(1_785_585_600);
        World { state: State::new(settings, now), now, events: Vec::new() }
    }

    /// Sends a request and returns code and body.
    pub fn send(&mut self, request: Request) -> (u16, Value) {
        let (reply, events) = self.state.handle(&request, self.now);
        self.events.extend(events);
        match reply {
            Reply::Answer(answer) => (answer.code, answer.to_json()),
            Reply::Watch(_) => panic!("{} is a watch", request.path),
        }
    }

    /// Sends a request that must succeed.
    pub fn ok(&mut self, request: Request) -> Value {
        let shown = format!("{} {}", request.method, request.path);
        let (code, body) = self.send(request);
        assert!(code < 300, "{shown}: {code} {body}");
        body
    }

    /// Sends a request that must fail, and returns code, reason and message.
    pub fn refused(&mut self, request: Request) -> (u16, String, String) {
        let (code, body) = self.send(request);
        let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
        assert!(code >= 400, "{code} {body}");
        (code, text("reason"), text("message"))
    }

    pub fn get(&mut self, url: &str) -> Value {
        self.ok(Request::get(url))
    }

    /// Names of a list's items.
    pub fn names(&mut self, url: &str) -> Vec<String> {
        let list = self.get(url);
        let items = list["items"].as_array().expect("a list");
        items.iter().map(|item| item["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// Events since the last look, as `Added things/a`.
    pub fn seen(&mut self) -> Vec<String> {
        let line = |event: &Event| {
            let kind = match event.kind {
                ChangeKind::Added => "added",
                ChangeKind::Modified => "modified",
                ChangeKind::Deleted => "deleted",
            };
            format!("{kind} {}/{}", event.storage.plural, event.key.name)
        };
        std::mem::take(&mut self.events).iter().map(line).collect()
    }

    /// Serves `things.example.com` with a status.
    pub fn define_things(&mut self) {
        let things = definition("things.v1.example.com", "Thing", &schema());
        self.ok(Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &things));
        self.seen();
    }
}

pub(super) fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().expect("a version").to_owned()
}

pub(super) fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

pub(super) fn thing(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

pub(super) fn schema() -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer"}, "name": {"type": "string", "default": "none"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }},
        "status": {"type": "object", "required": ["phase"], "properties": {
            "phase": {"type": "string"}, "version": {"type": "string"},
        }},
    }})
}

pub(super) fn patch(url: &str, kind: &str, body: Value) -> Request {
    Request::patch(url, kind, &body)
}
