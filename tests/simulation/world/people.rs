//! What consumers do to their sources, and people to the objects on the target.

use serde_json::{Value, json};
use sync_engine::sandbox::Request;

use super::super::action::{Meddling, NAMES, Secrecy, SourceRef};
use super::super::mapping::{
    CA, CONN, CONNECTION, COPY, GUEST, MADE, More, PASSWORD, QUOTA, READS, Rule, WIDGET, api_version, base64, url,
};
use super::super::marks;
use super::super::records::{TARGETS, finalizer};
use super::super::server::{GROUP, RESOURCES, Side, merge};
use super::{World, side_of, text};

/// Names of Secrets that sources refer to.
const SECRETS: [&str; 2] = ["s1", "s2"];
/// Types of Secrets that mean nothing to servers.
const TYPES: [&str; 2] = ["Opaque", "example.dev/other"];
/// Fields that a consumer says the template set.
const FORGED: [&str; 7] = [
    "/data/note",
    "/data",
    "/metadata/labels/sync-engine.dev~1owner",
    "/metadata/finalizers",
    "/metadata/ownerReferences",
    "/metadata/uid",
    "/data/size",
];
/// Who creates a source creates its Secret too, but for each so many times.
const FORGOTTEN: u32 = 4;

impl World {
    pub(super) fn create(&mut self, source: SourceRef) {
        let written = self.next_written(source.tenant);
        let kind = RESOURCES.iter().find(|(plural, _)| *plural == source.resource).map_or("", |(_, kind)| kind);
        let token = format!("token-{}-of-{}", written, source.tenant);
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": kind,
            "metadata": {"name": source.name, "namespace": "default", "labels": {"tier": "managed"}},
            "spec": {
                "size": written, "token": token, "extra": written.is_multiple_of(2), "secret": SECRETS[0],
            },
        });
        let cluster = self.cluster(source.tenant);
        if cluster.is_empty() {
            return;
        }
        if self.plan.has_related
            && !written.is_multiple_of(FORGOTTEN)
            && self.secret(source.tenant, SECRETS[0]).is_none()
        {
            self.put(source.tenant, SECRETS[0], TYPES[0]);
        }
        let url = self.sources_url(source.tenant, source.resource);
        self.core(|core| {
            if self.plan.is_kcp {
                core.checker.tokens.insert(token, cluster.clone());
                core.checker.tenants.insert(cluster, source.tenant);
            }
            core.act(Side::Source, &Request::post(&url, &object))
        });
    }

    pub(super) fn change(&mut self, source: SourceRef) {
        let written = self.next_written(source.tenant);
        let patch = json!({"spec": {"size": written, "extra": written.is_multiple_of(2)}});
        self.source_server(&merge(&self.source_url(source), &patch));
    }

    pub(super) fn delete(&mut self, source: SourceRef) {
        self.source_server(&Request::delete(&self.source_url(source)));
    }

    pub(super) fn strip(&self, source: SourceRef) {
        self.source_server(&merge(&self.source_url(source), &json!({"metadata": {"finalizers": null}})));
    }

    pub(super) fn keep(&self, source: SourceRef) {
        let url = self.source_url(source);
        let Some(object) = self.get(Side::Source, &url) else { return };
        let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.insert(0, "example.dev/keep".into());
        self.source_server(&merge(&url, &json!({"metadata": {"finalizers": finalizers}})));
    }

    pub(super) fn label(&self, source: SourceRef) {
        let url = self.source_url(source);
        let Some(object) = self.get(Side::Source, &url) else { return };
        let managed = object["metadata"]["labels"]["tier"] == "managed";
        let tier = if managed { Value::Null } else { "managed".into() };
        self.source_server(&merge(&url, &json!({"metadata": {"labels": {"tier": tier}}})));
    }

    /// Nothing, for the annotations of an object that was stripped: then the source loses its own.
    pub(super) fn forge(&mut self, source: SourceRef) {
        let Some(object) = self.target_object(source) else { return };
        let metadata = &object["metadata"];
        self.pins_lost |= metadata["annotations"].is_null();
        let patch = json!({"metadata": {"labels": metadata["labels"], "annotations": metadata["annotations"]}});
        self.source_server(&merge(&self.source_url(source), &patch));
    }

    /// What a mapping that has not come yet would write.
    pub(super) fn mark(&mut self, source: SourceRef) {
        let url = self.source_url(source);
        let Some(object) = self.get(Side::Source, &url).filter(|_| self.guests == 0) else { return };
        let finalizer = finalizer("main", GUEST);
        let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.retain(|one| *one != *finalizer);
        finalizers.push(finalizer.into());
        let annotations = object["metadata"]["annotations"].as_object().into_iter().flatten();
        let pin = annotations.filter(|(key, _)| key.starts_with(TARGETS)).map(|(_, value)| value.clone()).next();
        let mark = json!({"finalizers": finalizers, "annotations": {format!("{TARGETS}main.{GUEST}"): pin}});
        self.source_server(&merge(&url, &json!({"metadata": mark})));
        self.marked.insert(text(&object, "uid"));
    }

    /// Larger than what the engine keeps whole.
    pub(super) fn fill(&self, source: SourceRef) {
        let url = self.source_url(source);
        let Some(object) = self.get(Side::Source, &url) else { return };
        let ballast = if object["spec"]["ballast"].is_null() { "x".repeat(300 << 10).into() } else { Value::Null };
        self.source_server(&merge(&url, &json!({"spec": {"ballast": ballast}})));
    }

    pub(super) fn plant(&self, source: SourceRef) {
        let Some(mut object) = self.target_object(source) else { return };
        self.make_namespace(source, "elsewhere");
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        metadata.retain(|field, _| matches!(field.as_str(), "labels" | "annotations" | "name"));
        let (side, place) = self.object_url(source.tenant, "ConfigMap", "elsewhere", "");
        self.core(|core| core.act(side, &Request::post(&place, &object)));
    }

    fn make_namespace(&self, source: SourceRef, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let (side, cluster) = self.object_url(source.tenant, "ConfigMap", "", "");
        let place = cluster.replace("/configmaps", "/namespaces");
        self.core(|core| core.act(side, &Request::post(&place, &namespace)));
    }

    pub(super) fn meddle(&self, source: SourceRef, meddling: Meddling) {
        let namespace = self.namespace(source);
        let (side, place) = self.object_url(source.tenant, "ConfigMap", &namespace, source.name);
        let (_, all) = self.object_url(source.tenant, "ConfigMap", &namespace, "");
        let act = |request: &Request| drop(self.core(|core| core.act(side, request)));
        let present = self.get(side, &place);
        let edit = |place: &str, body: Value| act(&merge(&format!("{place}?fieldManager=people"), &body));
        let patch = |body: Value| edit(&place, body);
        let of_rule = |rule: &Rule| {
            let name = format!("{}{}", source.name, rule.suffix);
            self.object_url(source.tenant, rule.kind, &namespace, &name).1
        };
        match (meddling, present) {
            (Meddling::Edit, Some(_)) => patch(json!({
                "metadata": {"labels": {"example.dev/people": "x"}, "annotations": {"example.dev/people": "x"}},
                "data": {"size": "edited", "more": "edited"},
            })),
            (Meddling::Delete, Some(_)) => act(&Request::delete(&place)),
            (Meddling::Strip, Some(_)) => patch(json!({"metadata": {"labels": null, "annotations": null}})),
            (Meddling::Hold, Some(_)) => {
                let hold = json!({"metadata": {"finalizers": ["example.dev/hold"]}});
                patch(hold.clone());
                // What depends on it is held too: it has to wait for that.
                edit(&of_rule(&CA), hold);
            }
            (Meddling::Copy, Some(mut object)) => {
                let metadata = object["metadata"].as_object_mut().expect("metadata");
                metadata.retain(|field, _| matches!(field.as_str(), "labels" | "annotations" | "namespace"));
                metadata.insert("name".to_owned(), format!("{}-copy", source.name).into());
                act(&Request::post(&all, &object));
            }
            (Meddling::Resize, _) => {
                let place = of_rule(&QUOTA);
                let Some(quota) = self.get(side, &place) else { return };
                let memory = if quota["spec"]["hard"]["memory"] == "7Gi" { "7168Mi" } else { "7Gi" };
                edit(&place, json!({"spec": {"hard": {"memory": memory}}}));
            }
            (Meddling::Rotate, _) => {
                let place = of_rule(&MADE);
                let Some(secret) = self.get(side, &place) else { return };
                let rotated = Value::from(base64("rotated by people"));
                let password = if secret["data"][READS] == rotated { Value::Null } else { rotated };
                edit(&place, json!({"data": {READS: password}}));
            }
            (Meddling::Fields, Some(object)) => {
                // Another way each time.
                let note = format!("{}x", object["data"]["note"].as_str().unwrap_or_default());
                let forged = [Value::Null, "/data".into(), FORGED.join("\n").into()][note.len() % 3].clone();
                patch(json!({
                    "metadata": {"annotations": {"sync-engine.dev/fields": forged}}, "data": {"note": note},
                }));
            }
            (Meddling::Disguise, Some(_)) => {
                let Some(other) = self.get(side, &of_rule(&CA)) else { return };
                let (labels, mut annotations) =
                    (&other["metadata"]["labels"], other["metadata"]["annotations"].clone());
                // It would say that the source is placed under another name.
                annotations.as_object_mut().map(|all| all.remove("sync-engine.dev/placement-name"));
                patch(json!({"metadata": {"labels": labels, "annotations": annotations}}));
            }
            (Meddling::Squat, None) => {
                self.make_namespace(source, &namespace);
                let object = json!({
                    "apiVersion": api_version("ConfigMap"), "kind": "ConfigMap",
                    "metadata": {"name": source.name}, "data": {"of": "people"},
                });
                act(&Request::post(&all, &object));
            }
            _ => {}
        }
    }

    pub(super) fn deal_with_secret(&mut self, source: SourceRef, side: Side, secrecy: Secrecy) {
        let (tenant, is_beside, place) = (source.tenant, side == Side::Source, self.source_url(source));
        let object = self.get(Side::Source, &place).unwrap_or_default();
        let named = object["spec"]["secret"].as_str().unwrap_or(SECRETS[0]);
        let copy = format!("{}{}", source.name, if is_beside { CONNECTION.suffix } else { PASSWORD.suffix });
        let namespace = self.namespace(source);
        let [original_at, copy_at] = match is_beside {
            true => [named, &*copy].map(|name| self.secret_url(tenant, name)),
            false => [&*format!("{}{CONN}", source.name), &*copy].map(|name| url("Secret", &namespace, name)),
        };
        let send = |world: &Self, request: &Request| drop(world.core(|core| core.act(side, request)));
        let create = |world: &mut Self, kind: &str| match is_beside {
            true => world.put(tenant, named, kind),
            false => world.connect(source, kind),
        };
        match (secrecy, self.get(side, &original_at), self.get(side, &copy_at)) {
            (Secrecy::Put, None, _) => create(self, TYPES[0]),
            (Secrecy::Put, Some(_), _) => {
                let data = match is_beside {
                    true => json!({"password": self.next_value(tenant)}),
                    false => json!({"uri": self.next_connection(source)}),
                };
                send(self, &merge(&original_at, &json!({"data": data})));
            }
            (Secrecy::Delete, ..) => send(self, &Request::delete(&original_at)),
            (Secrecy::Retype, Some(secret), _) => {
                send(self, &Request::delete(&original_at));
                create(self, other(&secret["type"], TYPES));
            }
            (Secrecy::Select, Some(secret), _) => {
                let label = if secret["metadata"]["labels"][COPY] == "yes" { Value::Null } else { "yes".into() };
                send(self, &merge(&original_at, &json!({"metadata": {"labels": {COPY: label}}})));
            }
            (Secrecy::Rename, ..) => {
                let patch = json!({"spec": {"secret": other(&named.into(), SECRETS)}});
                self.source_server(&merge(&place, &patch));
            }
            (Secrecy::EditCopy, _, Some(secret)) => send(self, &merge(&copy_at, &edited(&secret))),
            (Secrecy::DeleteCopy, _, Some(_)) => send(self, &Request::delete(&copy_at)),
            (Secrecy::Squat, _, None) if is_beside => self.put(tenant, &copy, TYPES[0]),
            (Secrecy::Squat, _, None) => {
                let secret = secret(&copy, TYPES[0], "uri", &self.next_connection(source));
                send(self, &Request::post(&url("Secret", &namespace, ""), &secret));
            }
            _ => {}
        }
    }

    /// Operators write how to connect to what is new.
    pub(super) fn connect_new(&mut self) {
        let resource = self.mapping.resource;
        let all = self.tenants().iter().flat_map(|tenant| NAMES.map(|name| SourceRef { tenant, resource, name }));
        for source in all.filter(|_| self.plan.has_operators).collect::<Vec<_>>() {
            let is_new = !self.connections.contains_key(&(source.tenant, source.name));
            if is_new && self.target_object(source).is_some() {
                self.connect(source, TYPES[0]);
            }
        }
    }

    /// An operator writes how to connect. It needs no engine for that.
    fn connect(&mut self, source: SourceRef, kind: &str) {
        let namespace = self.namespace(source);
        let name = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        self.target_server(&Request::post("/api/v1/namespaces", &name));
        let secret = secret(&format!("{}{CONN}", source.name), kind, "uri", &self.next_connection(source));
        self.target_server(&Request::post(&url("Secret", &namespace, ""), &secret));
    }

    /// A tenant creates a Secret.
    fn put(&mut self, tenant: &'static str, name: &str, kind: &str) {
        let mut secret = secret(name, kind, "password", &self.next_value(tenant));
        if self.mapping.more == More::Selected {
            secret["metadata"]["labels"] = json!({COPY: "yes"});
        }
        self.source_server(&Request::post(&self.secret_url(tenant, ""), &secret));
    }

    fn secret(&self, tenant: &str, name: &str) -> Option<Value> {
        self.get(Side::Source, &self.secret_url(tenant, name))
    }

    /// A value that no Secret had before, as Secrets have it.
    fn next_value(&mut self, tenant: &'static str) -> String {
        let written = self.next_written(tenant);
        base64(&marks::value(self.plan.seed, tenant, written))
    }

    /// The same of a connection. Who else writes meanwhile changes nothing about it.
    fn next_connection(&mut self, source: SourceRef) -> String {
        let written = self.connections.entry((source.tenant, source.name)).or_default();
        *written += 1;
        let tenant = format!("{}-{}", source.tenant, source.name);
        base64(&marks::value(self.plan.seed, &tenant, *written))
    }

    /// Takes people's finalizers off.
    pub(super) fn release(&self) {
        for object in self.target_objects() {
            if !object["metadata"]["finalizers"].is_null() {
                let kind = object["kind"].as_str().unwrap_or_default();
                let cluster = object["metadata"]["annotations"]["kcp.io/cluster"].as_str();
                let cluster = cluster.map(|cluster| format!("/clusters/{cluster}")).unwrap_or_default();
                let place = url(kind, &text(&object, "namespace"), &text(&object, "name"));
                let place = if kind == WIDGET.kind { self.of_widgets(&place) } else { place };
                let request = merge(&format!("{cluster}{place}"), &json!({"metadata": {"finalizers": null}}));
                self.core(|core| core.act(side_of(&object), &request));
            }
        }
    }

    fn target_object(&self, source: SourceRef) -> Option<Value> {
        let (side, place) = self.object_url(source.tenant, "ConfigMap", &self.namespace(source), source.name);
        self.get(side, &place)
    }

    /// Counts what a tenant writes.
    fn next_written(&mut self, tenant: &'static str) -> u32 {
        let written = self.written.entry(tenant).or_default();
        *written += 1;
        *written
    }
}

fn secret(name: &str, kind: &str, key: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": name},
        "data": {key: value},
    })
}

/// What somebody makes of the data of a Secret. Now and then nobody can change it afterwards.
fn edited(secret: &Value) -> Value {
    let keys = secret["data"].as_object().into_iter().flatten().map(|(key, _)| (key.clone(), "ZWRpdGVk".into()));
    let data: serde_json::Map<String, Value> = keys.collect();
    let version = text(secret, "resourceVersion").parse::<u64>().unwrap_or_default();
    json!({"data": data, "immutable": version.is_multiple_of(4)})
}

/// The other one of two.
fn other(one: &Value, of: [&'static str; 2]) -> &'static str {
    if one == of[0] { of[1] } else { of[0] }
}
