//! Schemas of consumers: read from their servers, and again whenever they change.

use serde_json::{Map, Value, json};
use sync_engine::engine::consumer_schema::{ConsumerSchemas, PublishedSchema};
use sync_engine::mapping::Resource;
use sync_engine::mapping::schema::Schemas;
use sync_engine::multicluster::Endpoint;
use sync_engine::sandbox::{ApiRef, Options, Sandbox};

use crate::multicluster::scene::{connection, resource};

const CRDS: ApiRef<'static> = ApiRef { cluster: "", resource: "customresourcedefinitions.v1.apiextensions.k8s.io" };

fn things() -> Resource {
    resource("things.v1.example.com")
}

fn definition(status: &[&str]) -> Value {
    let fields: Map<String, Value> =
        status.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": {"status": {"type": "object", "properties": fields}}});
    sync_engine::sandbox::definition("things.v1.example.com", "Thing", &schema)
}

fn endpoint(sandbox: &Sandbox) -> Endpoint {
    connection(&sandbox.kubeconfig(None)).endpoint()
}

async fn scene(status: &[&str]) -> (Sandbox, Endpoint, ConsumerSchemas) {
    let sandbox = Options::kubernetes().start().await.expect("a sandbox");
    sandbox.create(CRDS, &definition(status)).expect("defined");
    let endpoint = endpoint(&sandbox);
    (sandbox, endpoint, ConsumerSchemas::new(Schemas::default()))
}

fn has(known: &PublishedSchema, pointer: &str) -> Option<bool> {
    known.schema.as_ref().expect("a schema").has_status(pointer)
}

#[tokio::test]
async fn a_schema_that_changes_is_read_again() {
    let (sandbox, endpoint, schemas) = scene(&["phase"]).await;
    let before = schemas.check(&endpoint, &things()).await.unwrap();
    assert_eq!(has(&before, "/phase"), Some(true));
    assert_eq!(has(&before, "/more"), Some(false));

    let new = definition(&["phase", "more"]);
    sandbox.merge(CRDS, "", "things.example.com", &json!({"spec": new["spec"]})).expect("updated");
    let after = schemas.check(&endpoint, &things()).await.unwrap();
    assert_eq!(has(&after, "/more"), Some(true));
    assert_ne!(before.version, after.version);
    let known = schemas.get(&endpoint.place(), &things()).expect("known");
    assert_eq!(known.version, after.version);
}

#[tokio::test]
async fn one_look_at_an_address_serves_whoever_asks_at_the_same_time() {
    let (sandbox, endpoint, schemas) = scene(&["phase"]).await;
    let (since, things) = (tokio::time::Instant::now(), things());
    let looks = (0..3).map(|_| schemas.check_since(since, &endpoint, &things));
    let known: Vec<PublishedSchema> = futures::future::try_join_all(looks).await.unwrap();
    assert!(known.iter().all(|one| one.is_published()));
    assert_eq!(sandbox.counters().total(), 2, "the index and the document");
    schemas.check(&endpoint, &things).await.unwrap();
    assert_eq!(sandbox.counters().total(), 3, "the index");
}

#[tokio::test]
async fn what_no_server_publishes_comes_from_the_files_until_it_does() {
    let sandbox = Options::kubernetes().start().await.expect("a sandbox");
    let mut files = Schemas::default();
    files.add_file(definition(&["phase"]).to_string().as_bytes());
    let (endpoint, schemas) = (endpoint(&sandbox), ConsumerSchemas::new(files));
    assert!(schemas.get(&endpoint.place(), &things()).is_none());
    let before = schemas.check(&endpoint, &things()).await.unwrap();
    assert!(!before.is_published());
    assert_eq!(has(&before, "/phase"), Some(true));

    sandbox.create(CRDS, &definition(&["phase", "more"])).expect("defined");
    let after = schemas.check(&endpoint, &things()).await.unwrap();
    assert!(after.is_published());
    assert_eq!(has(&after, "/more"), Some(true));
    schemas.retain(|_| false);
    assert!(schemas.get(&endpoint.place(), &things()).is_none());
}
