//! The servers, the consumers and the operators.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow};
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

impl Scene {
    /// Publishes the MongoDB API, and makes workspaces that bind it.
    pub async fn set(objects: usize) -> Result<Scene> {
        let upstream = Options::kcp().seed("upstream").start().await?;
        let downstream = Options::kubernetes().seed("downstream").start().await?;
        let definitions = ApiRef { cluster: "", resource: "customresourcedefinitions.v1.apiextensions.k8s.io" };
        done(downstream.create(definitions, &document("schemas/mongodb/crd.yaml")?))?;
        let provider = done(upstream.create_workspace("root", EXPORT))?;
        done(upstream.publish(PROVIDER, EXPORT, &[document("schemas/mongodb/apiresourceschema.yaml")?], &CLAIMS))?;
        let mut workspaces = Vec::new();
        for index in 0..objects.div_ceil(WORKSPACE) {
            let name = format!("consumer-{index}");
            done(upstream.create_workspace("root", &name))?;
            workspaces.push(format!("root:{name}"));
            done(upstream.bind(&workspaces[index], PROVIDER, EXPORT, &CLAIMS))?;
        }
        let everywhere = format!("/services/apiexport/{provider}/{EXPORT}/{EVERYWHERE}");
        let upstream_events = done(upstream.events(&Request::get(&everywhere)))?;
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
    pub async fn engine_is_ready(&self) -> Result<()> {
        let mut before = self.upstream.counters();
        for _ in 0..PATIENCE.as_secs() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = self.upstream.counters();
            if now == before && now.of(Verb::Watch, "mongodbcommunity") > 0 {
                return Ok(());
            }
            before = now;
        }
        Err(self.stuck(0))
    }

    /// Consumers create their databases, and a password for all of a workspace.
    pub fn create_objects(&self) -> Result<()> {
        let password = document("examples/mongodb/secret.yaml")?;
        for cluster in &self.workspaces {
            done(self.upstream.create(ApiRef { cluster, resource: "secrets.v1" }, &password))?;
        }
        let sample = document("examples/mongodb/mongodb.yaml")?;
        for index in 0..self.objects {
            let mut database = sample.clone();
            database["metadata"]["name"] = format!("database-{}", index % WORKSPACE).into();
            let cluster = &self.workspaces[index / WORKSPACE];
            done(self.upstream.create(ApiRef { cluster, resource: DATABASES }, &database))?;
        }
        Ok(())
    }

    /// The operator writes every downstream status.
    pub fn run_operators(&self, phase: &str) -> Result<()> {
        let databases = ApiRef { cluster: "", resource: DATABASES };
        let status = json!({
            "phase": phase, "version": "6.0.5", "currentMongoDBMembers": 3, "currentStatefulSetReplicas": 3,
            "mongoUri": "mongodb://database.example:27017",
        });
        for database in self.downstream.list(databases) {
            let text = |field: &str| database["metadata"][field].as_str().unwrap_or_default().to_owned();
            done(self.downstream.merge_status(databases, &text("namespace"), &text("name"), &status))?;
        }
        Ok(())
    }

    /// Waits until every consumer's object shows a phase.
    pub async fn every_phase(&mut self, phase: &str) -> Result<()> {
        let mut arrived = HashSet::new();
        while arrived.len() < self.objects {
            let next = tokio::time::timeout(PATIENCE, self.upstream_events.next_line()).await;
            let Ok(Some(line)) = next else {
                return Err(self.stuck(arrived.len()));
            };
            let Told { object } = serde_json::from_slice(&line)?;
            if object.status.phase.is_some_and(|shown| shown == phase) {
                arrived.insert(object.metadata.uid);
            }
        }
        Ok(())
    }

    /// The engine does not go on.
    fn stuck(&self, arrived: usize) -> Error {
        let log = fs::read_to_string(Engine::log(self.folder())).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let (wanted, end) = (self.objects, lines[lines.len().saturating_sub(10)..].join("\n"));
        anyhow!("nothing has happened for {PATIENCE:?}: {arrived} of {wanted} objects are where they should be\n{end}")
    }
}

/// What a server does not refuse.
fn done<T>(answer: Result<T, Answer>) -> Result<T> {
    answer.map_err(|answer| anyhow!("refused with {}: {}", answer.code, answer.to_json()))
}

/// The first document of a file of this repository, as JSON.
fn document(path: &'static str) -> Result<Value> {
    let text = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path))?;
    let first = yaml::parse(&text).into_iter().find_map(|document| document.root);
    first.map(|root| root.to_json()).with_context(|| format!("{path} holds no document"))
}
