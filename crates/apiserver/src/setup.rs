//! Setting a scene from inside the process: the requests that kubectl would send.

use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use super::Sandbox;
use super::collection::Event;
use super::openapi::version_path;
use super::reply::{Answer, Outcome};
use super::request::{Exchange, Request};

/// Objects of one resource in one cluster.
#[derive(Clone, Copy, Debug)]
pub struct ApiRef<'a> {
    /// Logical cluster by name or path; empty for a plain cluster.
    pub cluster: &'a str,
    /// `plural.version.group`; the core group is left out: `secrets.v1`.
    pub resource: &'a str,
}

/// What an export asks for beside its own resources: group and plural, with all verbs.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Plural of the resource.
    pub resource: &'a str,
}

impl Claim<'_> {
    fn asked(&self) -> Value {
        json!({"group": self.group, "resource": self.resource, "verbs": ["*"]})
    }

    fn accepted(&self) -> Value {
        let mut claim = self.asked();
        claim["state"] = json!("Accepted");
        claim["selector"] = json!({"matchAll": true});
        claim
    }
}

impl ApiRef<'_> {
    /// URL of an object, or of the collection where `name` is empty; of all namespaces where `namespace` is.
    pub fn url(&self, namespace: &str, name: &str) -> String {
        let (plural, version, group) = parts(self.resource);
        let part = |start: &str, name: &str| if name.is_empty() { String::new() } else { format!("/{start}{name}") };
        let (cluster, namespace) = (part("clusters/", self.cluster), part("namespaces/", namespace));
        format!("{cluster}/{}{namespace}/{plural}{}", version_path(group, version), part("", name))
    }
}

/// Plural, version and group of `plural.version.group`.
pub fn parts(resource: &str) -> (&str, &str, &str) {
    let mut parts = resource.splitn(3, '.');
    let mut next = || parts.next().unwrap_or_default();
    (next(), next(), next())
}

/// The schema of an object that keeps whatever is written.
pub fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A CustomResourceDefinition of a namespaced kind with a status; `resource` is its `plural.version.group`.
pub fn definition(resource: &str, kind: &str, schema: &Value) -> Value {
    let (name, spec) = namespaced(resource, kind, &json!({"openAPIV3Schema": schema}));
    let metadata = json!({"name": name});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec,
    })
}

/// The same as an APIResourceSchema, which an export publishes.
pub fn resource_schema(resource: &str, kind: &str, schema: &Value) -> Value {
    let (name, spec) = namespaced(resource, kind, schema);
    let metadata = json!({"name": format!("v1.{name}")});
    json!({"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": metadata, "spec": spec})
}

/// Name and spec of a definition.
fn namespaced(resource: &str, kind: &str, schema: &Value) -> (String, Value) {
    let (plural, version, group) = parts(resource);
    let spec = json!({
        "group": group, "scope": "Namespaced",
        "names": {
            "kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List"),
        },
        "versions": [{
            "name": version, "served": true, "storage": true, "subresources": {"status": {}}, "schema": schema,
        }],
    });
    (format!("{plural}.{group}"), spec)
}

/// An APIExport of APIResourceSchemas.
pub fn export(name: &str, schemas: &[Value], claims: &[Claim<'_>]) -> Value {
    let resources: Vec<Value> = schemas
        .iter()
        .map(|schema| {
            let spec = &schema["spec"];
            json!({
                "group": spec["group"], "name": spec["names"]["plural"], "schema": schema["metadata"]["name"],
                "storage": {"crd": {}},
            })
        })
        .collect();
    let claims: Vec<Value> = claims.iter().map(Claim::asked).collect();
    json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": name},
        "spec": {"resources": resources, "permissionClaims": claims},
    })
}

/// An APIBinding of an export under the export's name, with the claims that it accepts.
pub fn binding(provider: &str, export: &str, claims: &[Claim<'_>]) -> Value {
    let claims: Vec<Value> = claims.iter().map(Claim::accepted).collect();
    json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": export},
        "spec": {"reference": {"export": {"path": provider, "name": export}}, "permissionClaims": claims},
    })
}

/// A watch from inside the process.
pub struct Events(UnboundedReceiver<Bytes>);

impl Events {
    /// The next event, as its type and its object; `None` after the watch has ended.
    pub async fn next(&mut self) -> Option<(String, Value)> {
        let line = self.next_line().await?;
        let mut event: Value = serde_json::from_slice(&line).unwrap_or_default();
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        Some((kind, event["object"].take()))
    }

    /// The same as its line of the watch, a JSON map of `type` and `object`.
    pub async fn next_line(&mut self) -> Option<Bytes> {
        self.0.recv().await
    }
}

impl Sandbox {
    /// Tells every write from now on, of whatever resource and cluster, in order and before the request is answered.
    /// `tell` must be quick, must not call the sandbox, and ends it by `false`.
    pub fn follow(&self, tell: impl Fn(&Event) -> bool + Send + 'static) {
        self.server.follow(Box::new(tell));
    }

    /// Tells every request that comes over HTTP from now on, once it is answered. `tell` must be quick.
    pub fn audit(&self, tell: impl Fn(&Exchange) + Send + 'static) {
        self.server.audit(Box::new(tell));
    }

    /// Opens a watch: a GET with `watch=true`.
    pub fn events(&self, request: &Request) -> Result<Events, Answer> {
        match self.server.handle(request) {
            Outcome::Stream(stream) => Ok(Events(stream.lines)),
            Outcome::Answer(answer) => Err(answer),
        }
    }

    /// Serves what a CustomResourceDefinition describes, without an object of it: none may name a resource of the core group.
    pub fn define(&self, definition: &Value) {
        let resource = Arc::new(super::definition::resource(definition, ""));
        self.server.with_state(|state| state.define("", resource));
    }

    /// Creates an object in the namespace that it names.
    pub fn create(&self, api: ApiRef<'_>, object: &Value) -> Result<Value, Answer> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        self.expect(&Request::post(&api.url(namespace, ""), object))
    }

    /// An object as it stands; `None` where it is missing.
    pub fn get(&self, api: ApiRef<'_>, namespace: &str, name: &str) -> Option<Value> {
        self.expect(&Request::get(&api.url(namespace, name))).ok()
    }

    /// All objects of a resource in a cluster.
    pub fn list(&self, api: ApiRef<'_>) -> Vec<Value> {
        let list = self.expect(&Request::get(&api.url("", ""))).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub fn merge(&self, api: ApiRef<'_>, namespace: &str, name: &str, patch: &Value) -> Result<Value, Answer> {
        self.expect(&Request::patch(&api.url(namespace, name), MERGE, patch))
    }

    /// Merges into an object's status, as an operator would.
    pub fn merge_status(&self, api: ApiRef<'_>, namespace: &str, name: &str, status: &Value) -> Result<Value, Answer> {
        let url = format!("{}/status?fieldManager=operator", api.url(namespace, name));
        self.expect(&Request::patch(&url, MERGE, &json!({"status": status})))
    }

    pub fn delete(&self, api: ApiRef<'_>, namespace: &str, name: &str) -> Result<Value, Answer> {
        self.expect(&Request::delete(&api.url(namespace, name)))
    }

    /// Creates a workspace below another and returns the name of its logical cluster.
    pub fn create_workspace(&self, parent: &str, name: &str) -> Result<String, Answer> {
        let workspaces = ApiRef { cluster: parent, resource: "workspaces.v1alpha1.tenancy.kcp.io" };
        let metadata = json!({"name": name});
        let workspace = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": metadata});
        self.create(workspaces, &workspace)?;
        let ready = self.get(workspaces, "", name).unwrap_or_default();
        Ok(ready["spec"]["cluster"].as_str().unwrap_or_default().to_owned())
    }

    /// Publishes an API: creates APIResourceSchemas and an APIExport of them in a workspace.
    pub fn publish(
        &self,
        workspace: &str,
        export: &str,
        schemas: &[Value],
        claims: &[Claim<'_>],
    ) -> Result<Value, Answer> {
        let api = ApiRef { cluster: workspace, resource: "apiresourceschemas.v1alpha1.apis.kcp.io" };
        for schema in schemas {
            self.create(api, schema)?;
        }
        let exports = ApiRef { cluster: workspace, resource: "apiexports.v1alpha2.apis.kcp.io" };
        self.create(exports, &self::export(export, schemas, claims))
    }

    /// Binds an export in a workspace, under the export's name, and accepts the given claims.
    pub fn bind(&self, workspace: &str, provider: &str, export: &str, claims: &[Claim<'_>]) -> Result<Value, Answer> {
        let bindings = ApiRef { cluster: workspace, resource: "apibindings.v1alpha2.apis.kcp.io" };
        self.create(bindings, &binding(provider, export, claims))
    }

    /// Deletes the binding that [`Sandbox::bind`] made.
    pub fn unbind(&self, workspace: &str, export: &str) -> Result<Value, Answer> {
        self.delete(ApiRef { cluster: workspace, resource: "apibindings.v1alpha2.apis.kcp.io" }, "", export)
    }

    fn expect(&self, request: &Request) -> Result<Value, Answer> {
        let answer = self.request(request);
        if answer.code < 300 { Ok(answer.to_json()) } else { Err(answer) }
    }
}

const MERGE: &str = "application/merge-patch+json";
