//! What consumers do to their sources, and people to the objects on the target.

use serde_json::{Value, json};
use sync_engine::sandbox::Request;

use super::super::action::{LONGEST, Meddling, SourceRef};
use super::super::mapping::{api_version, url};
use super::super::server::{GROUP, RESOURCES, Side};
use super::{World, text};

const MERGE: &str = "application/merge-patch+json";

impl World {
    pub(super) fn create(&mut self, source: SourceRef) {
        self.had_long_name |= source.name.len() == LONGEST;
        let written = self.next_written(source.tenant);
        let kind = RESOURCES.iter().find(|(plural, _)| *plural == source.resource).map_or("", |(_, kind)| kind);
        let token = format!("token-{}-of-{}", written, source.tenant);
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": kind,
            "metadata": {"name": source.name, "namespace": "default", "labels": {"tier": "managed"}},
            "spec": {"size": written, "token": token, "extra": written.is_multiple_of(2)},
        });
        let cluster = self.cluster(source.tenant);
        if cluster.is_empty() {
            return;
        }
        let url = self.url(source.tenant, source.resource, "");
        let is_kcp = self.is_kcp;
        self.core(|core| {
            if is_kcp {
                core.checker.tokens.insert(token, cluster);
            }
            core.act(Side::Source, &Request::post(&url, &object))
        });
    }

    pub(super) fn change(&mut self, source: SourceRef) {
        let written = self.next_written(source.tenant);
        let patch = json!({"spec": {"size": written, "extra": written.is_multiple_of(2)}});
        let url = self.url(source.tenant, source.resource, source.name);
        self.core(|core| core.act(Side::Source, &Request::patch(&url, MERGE, &patch)));
    }

    pub(super) fn delete(&mut self, source: SourceRef) {
        let url = self.url(source.tenant, source.resource, source.name);
        self.core(|core| core.act(Side::Source, &Request::delete(&url)));
    }

    pub(super) fn strip(&self, source: SourceRef) {
        let url = self.url(source.tenant, source.resource, source.name);
        let patch = json!({"metadata": {"finalizers": null}});
        self.source_server(&Request::patch(&url, MERGE, &patch));
    }

    pub(super) fn label(&self, source: SourceRef) {
        let url = self.url(source.tenant, source.resource, source.name);
        let Some(object) = self.core(|core| core.get(Side::Source, &url)) else { return };
        let managed = object["metadata"]["labels"]["tier"] == "managed";
        let tier = if managed { Value::Null } else { "managed".into() };
        self.source_server(&Request::patch(&url, MERGE, &json!({"metadata": {"labels": {"tier": tier}}})));
    }

    pub(super) fn forge(&self, source: SourceRef) {
        let Some(object) = self.target_object(source) else { return };
        let metadata = &object["metadata"];
        let patch = json!({"metadata": {"labels": metadata["labels"], "annotations": metadata["annotations"]}});
        let url = self.url(source.tenant, source.resource, source.name);
        self.source_server(&Request::patch(&url, MERGE, &patch));
    }

    pub(super) fn plant(&self, source: SourceRef) {
        let Some(mut object) = self.target_object(source) else { return };
        let name = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}});
        self.target_server(&Request::post("/api/v1/namespaces", &name));
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        metadata.retain(|field, _| matches!(field.as_str(), "labels" | "annotations" | "name"));
        self.target_server(&Request::post(&url("ConfigMap", "elsewhere", ""), &object));
    }

    pub(super) fn meddle(&self, source: SourceRef, meddling: Meddling) {
        let namespace = self.namespace(source);
        let place = url("ConfigMap", &namespace, source.name);
        let present = self.core(|core| core.get(Side::Target, &place));
        let patch =
            |body: Value| self.target_server(&Request::patch(&format!("{place}?fieldManager=people"), MERGE, &body));
        match (meddling, present) {
            (Meddling::Edit, Some(_)) => patch(json!({"data": {"size": "edited", "more": "edited"}})),
            (Meddling::Delete, Some(_)) => self.target_server(&Request::delete(&place)),
            (Meddling::Strip, Some(_)) => patch(json!({"metadata": {"labels": null, "annotations": null}})),
            (Meddling::Hold, Some(_)) => patch(json!({"metadata": {"finalizers": ["example.dev/hold"]}})),
            (Meddling::Copy, Some(mut object)) => {
                let metadata = object["metadata"].as_object_mut().expect("metadata");
                metadata.retain(|field, _| matches!(field.as_str(), "labels" | "annotations" | "namespace"));
                metadata.insert("name".to_owned(), format!("{}-copy", source.name).into());
                self.target_server(&Request::post(&url("ConfigMap", &namespace, ""), &object));
            }
            (Meddling::Squat, None) => {
                let name = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
                self.target_server(&Request::post("/api/v1/namespaces", &name));
                let object = json!({
                    "apiVersion": api_version("ConfigMap"), "kind": "ConfigMap",
                    "metadata": {"name": source.name}, "data": {"of": "people"},
                });
                self.target_server(&Request::post(&url("ConfigMap", &namespace, ""), &object));
            }
            _ => {}
        }
    }

    /// Takes people's finalizers off.
    pub(super) fn release(&self) {
        for object in self.target_objects() {
            if !object["metadata"]["finalizers"].is_null() {
                let kind = object["kind"].as_str().unwrap_or_default();
                let place = url(kind, &text(&object, "namespace"), &text(&object, "name"));
                let patch = json!({"metadata": {"finalizers": null}});
                self.target_server(&Request::patch(&place, MERGE, &patch));
            }
        }
    }

    fn target_object(&self, source: SourceRef) -> Option<Value> {
        let place = url("ConfigMap", &self.namespace(source), source.name);
        self.core(|core| core.get(Side::Target, &place))
    }

    /// Counts what a tenant writes.
    fn next_written(&mut self, tenant: &'static str) -> u32 {
        let written = self.written.entry(tenant).or_default();
        *written += 1;
        *written
    }
}
