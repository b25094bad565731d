//! The servers, the consumers and the operators.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use serde::Deserialize;
use serde_json::{Value, json};
use sync_engine::engine::approval::{Decision, Record};
use sync_engine::sandbox::{ApiRef, Claim, Counters, Events, Options, Request, Sandbox, Verb};
use tempfile::TempDir;

use crate::process::Engine;
use crate::servers::{document, done, name_of_target};
use crate::size::Size;

/// How long nothing may happen before a run is given up.
pub const PATIENCE: Duration = Duration::from_secs(300);
const EXPORT: &str = "mongodb";
const DATABASES: &str = "mongodbcommunity.v1.mongodbcommunity.mongodb.com";
const DOWNSTREAM: ApiRef<'_> = ApiRef { cluster: "", resource: DATABASES };
/// What engines keep of mappings.
const RECORDS: ApiRef<'_> = ApiRef { cluster: "", resource: "configmaps.v1" };
const EVERYWHERE: &str = "clusters/*/apis/mongodbcommunity.mongodb.com/v1/mongodbcommunity?watch=true";

/// What consumers let the provider use.
const CLAIMS: [Claim<'_>; 2] = [Claim { group: "", resource: "secrets" }, Claim { group: "", resource: "configmaps" }];

/// kcp with consumers, and the targets.
pub struct Scene {
    pub upstream: Sandbox,
    targets: Vec<Sandbox>,
    size: Size,
    /// Paths of the consumers' workspaces.
    workspaces: Vec<String>,
    /// Everything that happens to the consumers' objects, for each mapping.
    events: Vec<Events>,
    /// What the first of them is of.
    watched: String,
    folder: TempDir,
    /// Objects that came later.
    others: usize,
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
    pub async fn set(size: Size) -> Result<Scene> {
        let folder = TempDir::new()?;
        let upstream = options(size, Options::kcp()).seed("upstream").start().await?;
        let mut targets = Vec::new();
        for index in 0..size.targets {
            let target = options(size, Options::kubernetes()).seed(&format!("target-{index}")).start().await?;
            let definitions = ApiRef { cluster: "", resource: "customresourcedefinitions.v1.apiextensions.k8s.io" };
            done(target.create(definitions, &document("schemas/mongodb/crd.yaml")?))?;
            fs::write(folder.path().join(format!("{}.kubeconfig", name_of_target(index))), target.kubeconfig(None))?;
            targets.push(target);
        }
        let mut exports = Vec::new();
        for index in 0..size.mappings {
            let provider = name_of_provider(index);
            let cluster = done(upstream.create_workspace("root", &provider))?;
            let schema = document("schemas/mongodb/apiresourceschema.yaml")?;
            done(upstream.publish(&format!("root:{provider}"), EXPORT, &[schema], &CLAIMS))?;
            exports.push(format!("/services/apiexport/{cluster}/{EXPORT}/{EVERYWHERE}"));
        }
        let mut workspaces = Vec::new();
        for index in 0..size.workspaces {
            let (name, provider) = (format!("consumer-{index}"), name_of_provider(index % size.mappings));
            done(upstream.create_workspace("root", &name))?;
            done(upstream.bind(&format!("root:{name}"), &format!("root:{provider}"), EXPORT, &CLAIMS))?;
            workspaces.push(format!("root:{name}"));
        }
        // Before the first binding, an export serves nothing that could be watched.
        let watched = exports[0].clone();
        let events = exports.iter().map(|path| done(upstream.events(&Request::get(path)))).collect::<Result<_>>()?;
        fs::write(folder.path().join("kcp.kubeconfig"), upstream.kubeconfig(Some("root")))?;
        let scene = Scene { upstream, targets, size, workspaces, events, watched, folder, others: 0 };
        scene.write_mappings()?;
        Ok(scene)
    }

    /// The shipped mapping for each export.
    fn write_mappings(&self) -> Result<()> {
        fs::create_dir(self.mappings())?;
        let shipped = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("mappings/mongodb.yaml"))?;
        for index in 0..self.size.mappings {
            let (name, target) = (name_of_provider(index), name_of_target(index % self.size.targets));
            let mapping = shipped
                .replacen("\n  name: mongodb\n", &format!("\n  name: {name}\n"), 1)
                .replacen("\nspec:\n", &format!("\nspec:\n  target: {{cluster: {target}}}\n"), 1)
                .replacen("path: root:mongodb}", &format!("path: root:{name}}}"), 1);
            fs::write(self.mappings().join(format!("{name}.yaml")), mapping)?;
        }
        Ok(())
    }

    /// The first mapping, as it was, but for some lines that follow the id of its database.
    pub fn edit(&self, lines: &str) -> Result<()> {
        self.write_first(|mapping| mapping.replacen("    - id: db\n", &format!("    - id: db\n{lines}"), 1))
    }

    /// The first mapping, with a label on its databases.
    pub fn edit_template(&self, mark: &str) -> Result<()> {
        let spec = "        spec: ${{ source.spec }}\n";
        let label = format!("        metadata: {{labels: {{example.dev/edition: {mark}}}}}\n{spec}");
        self.write_first(|mapping| mapping.replacen(spec, &label, 1))
    }

    fn write_first(&self, edit: impl Fn(String) -> String) -> Result<()> {
        let file = self.mappings().join(format!("{EXPORT}.yaml"));
        let original = self.folder().join("original.yaml");
        if !original.exists() {
            fs::copy(&file, &original)?;
        }
        Ok(fs::write(file, edit(fs::read_to_string(original)?))?)
    }

    fn records(&self) -> Vec<Value> {
        self.targets.iter().flat_map(|target| target.list(RECORDS)).collect()
    }

    /// Whether the engine holds an edit of the first mapping.
    pub fn asks_a_person(&self) -> bool {
        self.records().iter().any(|record| record["metadata"]["name"] == format!("main.{EXPORT}.held"))
    }

    /// A person approves what is held, as `sync-engine approve` does.
    pub fn approve(&self) -> Result<()> {
        for target in &self.targets {
            for record in target.list(RECORDS).iter().filter_map(Record::read) {
                let approval = record.decision("main", "sync-engine", Decision::Approve);
                done(target.create(RECORDS, &approval))?;
            }
        }
        Ok(())
    }

    /// Whether no target has a database of those that were there first.
    pub fn has_no_database(&self) -> bool {
        self.targets.iter().all(|target| target.list(DOWNSTREAM).is_empty())
    }

    /// Whether the document in force of the first mapping has this text in it.
    pub fn is_in_force(&self, mark: &str) -> bool {
        let is_it = |record: &&Value| record["metadata"]["name"] == format!("main.{EXPORT}");
        let records = self.records();
        let document = records.iter().find(is_it).and_then(|record| record["data"]["document"].as_str());
        document.is_some_and(|document| document.contains(mark))
    }

    /// What happens from now on to the consumers' objects of the first mapping.
    pub fn new_events(&self) -> Result<Events> {
        done(self.upstream.events(&Request::get(&self.watched)))
    }

    /// One more object in the first workspace; its uid.
    pub fn create_another(&mut self) -> Result<String> {
        let mut database = document("examples/mongodb/mongodb.yaml")?;
        self.others += 1;
        database["metadata"]["name"] = format!("another-{}", self.others).into();
        let created =
            done(self.upstream.create(ApiRef { cluster: &self.workspaces[0], resource: DATABASES }, &database))?;
        Ok(created["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
    }

    /// The uid of an object, as an event tells it, that has a phase.
    pub fn has_phase(event: &[u8]) -> Option<String> {
        let Told { object } = serde_json::from_slice(event).ok()?;
        object.status.phase.map(|_| object.metadata.uid)
    }

    /// Where the mappings are.
    pub fn mappings(&self) -> PathBuf {
        self.folder().join("mappings")
    }

    /// The requests to all targets.
    pub fn downstream(&self) -> Counters {
        self.targets.iter().map(Sandbox::counters).sum()
    }

    /// Where the kubeconfigs are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until an engine that was started after this is ready for the consumers: it watches their objects, and no request
    /// has come for a while.
    pub async fn engine_is_ready(&self, start: &Counters) -> Result<()> {
        let mut before = self.upstream.counters();
        for _ in 0..PATIENCE.as_secs() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = self.upstream.counters();
            if now == before && now.since(start).of(Verb::Watch, "mongodbcommunity") >= self.size.mappings as u64 {
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
        let in_each = self.size.objects.div_ceil(self.workspaces.len());
        for index in 0..self.size.objects {
            let mut database = sample.clone();
            database["metadata"]["name"] = format!("database-{}", index % in_each).into();
            let cluster = &self.workspaces[index / in_each];
            done(self.upstream.create(ApiRef { cluster, resource: DATABASES }, &database))?;
        }
        Ok(())
    }

    /// Waits until the targets have every object: the first status may come before, where the password is not read yet.
    pub async fn every_object(&self) -> Result<()> {
        const LOOKS: u64 = 10;
        let mut made = 0;
        for _ in 0..PATIENCE.as_secs() * LOOKS {
            made = self.targets.iter().map(|target| target.list(DOWNSTREAM).len()).sum();
            if made >= self.size.objects {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1) / LOOKS as u32).await;
        }
        Err(self.stuck(made))
    }

    /// The operator writes every downstream status.
    pub fn run_operators(&self, phase: &str) -> Result<()> {
        let status = json!({
            "phase": phase, "version": "6.0.5", "currentMongoDBMembers": 3, "currentStatefulSetReplicas": 3,
            "mongoUri": "mongodb://database.example:27017",
        });
        for target in &self.targets {
            for database in target.list(DOWNSTREAM) {
                let text = |field: &str| database["metadata"][field].as_str().unwrap_or_default().to_owned();
                done(target.merge_status(DOWNSTREAM, &text("namespace"), &text("name"), &status))?;
            }
        }
        Ok(())
    }

    /// Waits until every consumer's object shows a phase.
    pub async fn every_phase(&mut self, phase: &str) -> Result<()> {
        let in_each = self.size.objects.div_ceil(self.workspaces.len());
        let mut wanted = vec![0; self.size.mappings];
        (0..self.size.objects).for_each(|index| wanted[index / in_each % self.size.mappings] += 1);
        let mut arrived = 0;
        for (index, wanted) in wanted.into_iter().enumerate() {
            let mut uids = HashSet::new();
            while uids.len() < wanted {
                let next = tokio::time::timeout(PATIENCE, self.events[index].next_line()).await;
                let Ok(Some(line)) = next else {
                    return Err(self.stuck(arrived + uids.len()));
                };
                let Told { object } = serde_json::from_slice(&line)?;
                if object.status.phase.is_some_and(|shown| shown == phase) {
                    uids.insert(object.metadata.uid);
                }
            }
            arrived += wanted;
        }
        Ok(())
    }

    /// The engine does not go on.
    fn stuck(&self, arrived: usize) -> Error {
        let log = fs::read_to_string(Engine::log(self.folder())).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let (wanted, end) = (self.size.objects, lines[lines.len().saturating_sub(10)..].join("\n"));
        anyhow!("nothing has happened for {PATIENCE:?}: {arrived} of {wanted} objects are where they should be\n{end}")
    }
}

/// The workspace of an export and the name of its mapping. The first one is as the shipped mapping has it.
fn name_of_provider(index: usize) -> String {
    if index == 0 { EXPORT.to_owned() } else { format!("{EXPORT}-{index}") }
}

/// A kube-apiserver sends a bookmark to each watch about once a minute.
/// Many mappings are measured over TLS, as providers have it: over plain HTTP, watches have a connection each.
fn options(size: Size, server: Options) -> Options {
    let server = server.bookmarks_every(Duration::from_secs(60));
    if size.mappings > 1 { server.encrypted() } else { server }
}
