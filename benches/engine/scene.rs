//! The servers, the consumers and the operators.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use sync_engine::sandbox::{Answer, ApiRef, Claim, Events, Options, Request, Sandbox, Verb};
use sync_engine::yaml;
use tempfile::TempDir;

use crate::process::Engine;

/// How many objects a workspace holds.
const WORKSPACE: usize = 100;
/// How long nothing may happen before a run is given up.
const PATIENCE: Duration = Duration::from_secs(60);
const PROVIDER: &str = "root:mongodb";
const EXPORT: &str = "mongodb";
const DATABASES: &str = "mongodbcommunity.v1.mongodbcommunity.mongodb.com";
const EVERYWHERE: &str = "clusters/*/apis/mongodbcommunity.mongodb.com/v1/mongodbcommunity?watch=true";

/// What consumers let the provider use.
const CLAIMS: [Claim<'_>; 2] = [Claim { group: "", resource: "secrets" }, Claim { group: "", resource: "configmaps" }];

/// kcp with consumers, and the downstream cluster.
pub struct Scene {
    pub upstream: Sandbox,
    pub downstream: Sandbox,
    objects: usize,
    /// Paths of the consumers' workspaces.
    workspaces: Vec<String>,
    /// Everything that happens to the consumers' objects.
    upstream_events: Events,
    folder: TempDir,
}

/// What of an event the scene waits for. The rest is not read: the engine would wait for the servers meanwhile.
#[derive(Deserialize)]
struct Told {
    object: Database,
}

#[derive(Deserialize)]
struct Database {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
}

#[derive(Default, Deserialize)]
struct Status {
    phase: Option<String>,
}

/// Why a scene could not be played.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// A server refused what the scene needs.
    #[error("refused with {code}: {body}")]
    Refused { code: u16, body: Value },
    /// A document of the repository does not read.
    #[error("{0} holds no document")]
    Document(&'static str),
    /// The engine does not go on.
    #[error("nothing has happened for {PATIENCE:?}: {arrived} of {wanted} objects are where they should be\n{log}")]
    Stuck { arrived: usize, wanted: usize, log: String },
    /// The watch told something else than an object.
    #[error("a line of the watch is no event of an object")]
    Event(#[from] serde_json::Error),
    /// A port or a file could not be opened.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<Answer> for Failed {
    fn from(answer: Answer) -> Failed {
        Failed::Refused { code: answer.code, body: answer.to_json() }
    }
}

impl Scene {
    /// Publishes the MongoDB API, and makes workspaces that bind it.
    pub async fn set(objects: usize) -> Result<Scene, Failed> {
        let upstream = Options::kcp().seed("upstream").start().await?;
        let downstream = Options::kubernetes().seed("downstream").start().await?;
        let definitions = ApiRef { cluster: "", resource: "customresourcedefinitions.v1.apiextensions.k8s.io" };
        downstream.create(definitions, &document("schemas/mongodb/crd.yaml")?)?;
        let provider = upstream.create_workspace("root", EXPORT)?;
        upstream.publish(PROVIDER, EXPORT, &[document("schemas/mongodb/apiresourceschema.yaml")?], &CLAIMS)?;
        let mut workspaces = Vec::new();
        for index in 0..objects.div_ceil(WORKSPACE) {
            let name = format!("consumer-{index}");
            upstream.create_workspace("root", &name)?;
            workspaces.push(format!("root:{name}"));
            upstream.bind(&workspaces[index], PROVIDER, EXPORT, &CLAIMS)?;
        }
        let everywhere = format!("/services/apiexport/{provider}/{EXPORT}/{EVERYWHERE}");
        let upstream_events = upstream.events(&Request::get(&everywhere))?;
        let folder = TempDir::new()?;
        fs::write(folder.path().join("kcp.kubeconfig"), upstream.kubeconfig(Some("root")))?;
        fs::write(folder.path().join("target.kubeconfig"), downstream.kubeconfig(None))?;
        Ok(Scene { upstream, downstream, objects, workspaces, upstream_events, folder })
    }

    /// Where the kubeconfigs are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until the engine is ready for the consumers: it watches their objects, and no request has come for a while.
    pub async fn engine_is_ready(&self) -> Result<(), Failed> {
        let mut before = self.upstream.counters();
        for _ in 0..PATIENCE.as_secs() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = self.upstream.counters();
            if now == before && now.of(Verb::Watch, "mongodbcommunity") > 0 {
                return Ok(());
            }
            before = now;
        }
        Err(Failed::Stuck { arrived: 0, wanted: self.objects, log: self.log() })
    }

    /// Consumers create their databases, and a password for all of a workspace.
    pub fn create_objects(&self) -> Result<(), Failed> {
        let password = document("examples/mongodb/secret.yaml")?;
        for cluster in &self.workspaces {
            self.upstream.create(ApiRef { cluster, resource: "secrets.v1" }, &password)?;
        }
        let sample = document("examples/mongodb/mongodb.yaml")?;
        for index in 0..self.objects {
            let mut database = sample.clone();
            database["metadata"]["name"] = format!("database-{}", index % WORKSPACE).into();
            let cluster = &self.workspaces[index / WORKSPACE];
            self.upstream.create(ApiRef { cluster, resource: DATABASES }, &database)?;
        }
        Ok(())
    }

    /// The operator writes every downstream status.
    pub fn run_operators(&self, phase: &str) -> Result<(), Failed> {
        let databases = ApiRef { cluster: "", resource: DATABASES };
        let status = json!({
            "phase": phase, "version": "6.0.5", "currentMongoDBMembers": 3, "currentStatefulSetReplicas": 3,
            "mongoUri": "mongodb://database.example:27017",
        });
        for database in self.downstream.list(databases) {
            let text = |field: &str| database["metadata"][field].as_str().unwrap_or_default().to_owned();
            self.downstream.merge_status(databases, &text("namespace"), &text("name"), &status)?;
        }
        Ok(())
    }

    /// Waits until every consumer's object shows a phase.
    pub async fn every_phase(&mut self, phase: &str) -> Result<(), Failed> {
        let mut arrived = HashSet::new();
        while arrived.len() < self.objects {
            let next = tokio::time::timeout(PATIENCE, self.upstream_events.next_line()).await;
            let Ok(Some(line)) = next else {
                return Err(Failed::Stuck { arrived: arrived.len(), wanted: self.objects, log: self.log() });
            };
            let Told { object } = serde_json::from_slice(&line)?;
            if object.status.phase.is_some_and(|shown| shown == phase) {
                arrived.insert(object.metadata.uid);
            }
        }
        Ok(())
    }

    fn log(&self) -> String {
        let log = fs::read_to_string(Engine::log(self.folder())).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

/// The first document of a file of this repository, as JSON.
fn document(path: &'static str) -> Result<Value, Failed> {
    let text = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path))?;
    let first = yaml::parse(&text).into_iter().find_map(|document| document.root);
    first.map(|root| root.to_json()).ok_or(Failed::Document(path))
}
