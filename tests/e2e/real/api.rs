//! The small API that most cases sync, in a group of the case's own: `Widget`, with a status and conditions.

use serde_json::{Value, json};
use sync_engine::sandbox::{definition, resource_schema};

use crate::eventually::eventually;
use crate::rest::{Patch, Rest};

/// A namespaced API with a status subresource, the same on both sides.
#[derive(Clone)]
pub struct Api {
    pub group: String,
    pub plural: String,
    kind: String,
    schema: Value,
    /// Which of its schemas this is: kcp's are immutable.
    revision: usize,
}

impl Api {
    pub fn widgets(group: String) -> Self {
        let schema = serde_json::from_str(include_str!("../fixtures/widget.json")).expect("a schema");
        Self { group, plural: "widgets".to_owned(), kind: "Widget".to_owned(), schema, revision: 1 }
    }

    /// The API of the MongoDB community operator, whose schemas the repository ships: its objects can be addressed, not installed.
    pub fn mongodb() -> Self {
        Self {
            group: "mongodbcommunity.mongodb.com".to_owned(),
            plural: "mongodbcommunity".to_owned(),
            kind: "MongoDBCommunity".to_owned(),
            schema: Value::Null,
            revision: 1,
        }
    }

    /// The same API with one more status field, a text.
    pub fn with_status_field(&self, name: &str) -> Self {
        let mut api = Self { revision: self.revision + 1, ..self.clone() };
        api.schema["properties"]["status"]["properties"][name] = json!({"type": "string"});
        api
    }

    /// The same API whose status takes no other phase than these.
    pub fn with_phases(&self, phases: &[&str]) -> Self {
        let mut api = Self { revision: self.revision + 1, ..self.clone() };
        api.schema["properties"]["status"]["properties"]["phase"]["enum"] = json!(phases);
        api
    }

    /// Another resource of the same group and schema.
    pub fn sibling(&self, plural: &str, kind: &str) -> Self {
        Self { plural: plural.to_owned(), kind: kind.to_owned(), ..self.clone() }
    }

    /// As a mapping writes it: `plural.version.group`.
    pub fn resource(&self) -> String {
        format!("{}.v1.{}", self.plural, self.group)
    }

    /// The path of the collection across namespaces.
    pub fn everywhere(&self) -> String {
        format!("/apis/{}/v1/{}", self.group, self.plural)
    }

    /// The path of the collection in a namespace.
    pub fn collection(&self, namespace: &str) -> String {
        format!("/apis/{}/v1/namespaces/{namespace}/{}", self.group, self.plural)
    }

    /// A new object for `collection`.
    pub fn object(&self, name: &str, spec: Value) -> Value {
        json!({
            "apiVersion": format!("{}/v1", self.group),
            "kind": self.kind,
            "metadata": {"name": name},
            "spec": spec,
        })
    }

    /// kcp's form of the schema.
    pub fn resource_schema(&self) -> Value {
        let mut schema = resource_schema(&self.resource(), &self.kind, &self.schema);
        schema["metadata"]["name"] = self.resource_schema_name().into();
        schema
    }

    fn resource_schema_name(&self) -> String {
        format!("v{}.{}.{}", self.revision, self.plural, self.group)
    }

    /// The APIExport, named like the plural.
    pub fn export(&self) -> Value {
        json!({
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": self.plural},
            "spec": {"resources": [{
                "group": self.group, "name": self.plural, "schema": self.resource_schema_name(), "storage": {"crd": {}},
            }]},
        })
    }

    /// Has a plain cluster serve this revision of the API.
    pub async fn update(&self, cluster: &Rest) {
        let path = format!("{DEFINITIONS}/{}", self.definition_name());
        let change = json!({"spec": {"versions": self.definition()["spec"]["versions"]}});
        cluster.patch(Patch::Merge, &path, &change).await;
    }

    fn definition(&self) -> Value {
        definition(&self.resource(), &self.kind, &self.schema)
    }

    fn definition_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Makes a plain cluster serve the API, also after a restart of its server: that serves a definition once its names are
    /// accepted, and one that it was killed before it had established is never served again.
    pub async fn install(&self, cluster: &Rest) {
        cluster.create(DEFINITIONS, &self.definition()).await;
        let path = format!("{DEFINITIONS}/{}", self.definition_name());
        eventually(&format!("{} is established and served", self.definition_name()), async || {
            let definition = cluster.look(&path).await?;
            let conditions = definition.body["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_established = conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True");
            let answer = cluster.look(&self.everywhere()).await?;
            let is_served = is_established && answer.is_success();
            is_served.then_some(()).ok_or_else(|| format!("{conditions:?} {answer:?}"))
        })
        .await;
    }

    /// Stops or starts serving the API, its objects untouched.
    pub async fn serve(&self, cluster: &Rest, served: bool) {
        let path = format!("{DEFINITIONS}/{}", self.definition_name());
        let change = json!([{"op": "replace", "path": "/spec/versions/0/served", "value": served}]);
        cluster.patch(Patch::Json, &path, &change).await;
        eventually(&format!("{} is served: {served}", self.definition_name()), async || {
            let answer = cluster.look(&self.everywhere()).await?;
            (answer.is_success() == served).then_some(()).ok_or_else(|| format!("{answer:?}"))
        })
        .await;
    }

    /// Takes the API away from a plain cluster, with all its objects.
    pub async fn uninstall(&self, cluster: &Rest) {
        let path = format!("{DEFINITIONS}/{}", self.definition_name());
        cluster.delete(&path).await;
        cluster.disappears(&path).await;
    }
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
