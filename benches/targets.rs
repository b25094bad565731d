//! What an edit of a source with several targets costs: `cargo bench --bench targets [-- TARGETS...]`.
//!
//! One mapping puts one ConfigMap of each source on every target, and tells of all targets in the status. A consumer edits each
//! source once; the bench waits until every target and the status follow. CPU is the engine's `utime + stime`. It fails where a
//! target of many costs more than [`GROWTH`] times one of few: twelve times as many targets take 1.6 times as much each.

#[path = "engine/process.rs"]
mod process;
#[path = "engine/servers.rs"]
mod servers;
#[path = "engine/usage.rs"]
mod usage;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use sync_engine::sandbox::{ApiRef, Options, Sandbox};
use tempfile::TempDir;

use crate::process::Engine;
use crate::servers::{document, done, name_of_target};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TARGETS: [&str; 4] = ["5", "10", "20", "40"];
const SOURCES: usize = 20;
const EDITS: usize = 5;
const GROWTH: f64 = 3.0;
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

const DATABASES: &str = "mongodbcommunity.v1.mongodbcommunity.mongodb.com";
const WORKSPACE: &str = "root:consumer";

const MAPPING: &str = r#"apiVersion: sync-engine.dev/v1alpha1
kind: Mapping
metadata: {name: spread}
spec:
  source:
    apiExport: {name: mongodb, path: root:mongodb}
    resource: mongodbcommunity.v1.mongodbcommunity.mongodb.com
  targets:
    forEach: ${{ NAMES }}
    as: place
    key: ${{ place }}
    cluster: "{{ place }}"
    allowed: NAMES
  objects:
    - id: settings
      template:
        apiVersion: v1
        kind: ConfigMap
        data: {members: "{{ source.spec.members }}"}
  status:
    observedGeneration: "Off"
    fields:
      version:
        value: "${{ targets | items | map(attribute='1.objects.settings.data.members', default='none') | unique | join(' ') }}"
"#;

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut least = f64::MAX;
    for size in servers::sizes(TARGETS) {
        let targets: usize = size.parse().with_context(|| format!("{size}: a number of targets"))?;
        let (edit, memory) = runtime.block_on(measure(targets))?;
        let each = edit.as_secs_f64() * 1e6 / targets as f64;
        println!(
            "{targets} targets: an edit takes {:.2} ms of CPU, {each:.0} us for each target; memory {:.1} MiB",
            edit.as_secs_f64() * 1e3,
            memory as f64 / f64::from(1 << 20),
        );
        least = least.min(each);
        ensure!(each <= least * GROWTH, "a target of {targets} costs more than {GROWTH} times one of fewer");
    }
    Ok(())
}

/// CPU time of the engine for one edit, and its memory afterwards.
async fn measure(targets: usize) -> Result<(Duration, u64)> {
    let folder = TempDir::new()?;
    let upstream = Options::kcp().seed("upstream").start().await?;
    done(upstream.create_workspace("root", "mongodb"))?;
    let schema = document("schemas/mongodb/apiresourceschema.yaml")?;
    done(upstream.publish("root:mongodb", "mongodb", &[schema], &[]))?;
    done(upstream.create_workspace("root", "consumer"))?;
    done(upstream.bind(WORKSPACE, "root:mongodb", "mongodb", &[]))?;
    fs::write(folder.path().join("kcp.kubeconfig"), upstream.kubeconfig(Some("root")))?;
    let mut all = Vec::new();
    for index in 0..targets {
        let target = Options::kubernetes().seed(&name_of_target(index)).start().await?;
        fs::write(folder.path().join(format!("{}.kubeconfig", name_of_target(index))), target.kubeconfig(None))?;
        all.push(target);
    }
    let names = json!((0..targets).map(name_of_target).collect::<Vec<_>>()).to_string();
    let mappings = folder.path().join("mappings");
    fs::create_dir(&mappings)?;
    fs::write(mappings.join("spread.yaml"), MAPPING.replace("NAMES", &names))?;
    let engine = Engine::start(folder.path(), &mappings)?;
    let source = ApiRef { cluster: WORKSPACE, resource: DATABASES };
    for number in 0..SOURCES {
        done(upstream.create(source, &database(number, 0)))?;
    }
    follows(&upstream, &all, 0, folder.path()).await?;
    let before = engine.usage()?.cpu;
    for members in 1..=EDITS {
        for number in 0..SOURCES {
            done(upstream.merge(source, "default", &format!("db-{number}"), &json!({"spec": {"members": members}})))?;
        }
        follows(&upstream, &all, members, folder.path()).await?;
    }
    let after = engine.usage()?;
    Ok(((after.cpu - before) / (SOURCES * EDITS) as u32, after.memory))
}

/// Waits until every target and every status has the number.
async fn follows(upstream: &Sandbox, targets: &[Sandbox], members: usize, folder: &Path) -> Result<()> {
    let settings = ApiRef { cluster: "", resource: "configmaps.v1" };
    let source = ApiRef { cluster: WORKSPACE, resource: DATABASES };
    let wanted = members.to_string();
    let start = Instant::now();
    loop {
        let shown = upstream.list(source).iter().filter(|one| one["status"]["version"] == *wanted).count();
        let there =
            |target: &Sandbox| target.list(settings).iter().filter(|one| one["data"]["members"] == *wanted).count();
        if shown == SOURCES && targets.iter().all(|target| there(target) == SOURCES) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            let log = fs::read_to_string(Engine::log(folder)).unwrap_or_default();
            let told = upstream.list(source).iter().map(|one| one["status"].to_string()).collect::<Vec<_>>().join("\n");
            return Err(anyhow!("{shown} of {SOURCES} statuses have {members}\n{told}\n{log}"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn database(number: usize, members: usize) -> Value {
    json!({
        "apiVersion": "mongodbcommunity.mongodb.com/v1", "kind": "MongoDBCommunity",
        "metadata": {"name": format!("db-{number}"), "namespace": "default"},
        "spec": {
            "members": members, "type": "ReplicaSet", "version": "6.0.5", "users": [],
            "security": {"authentication": {"modes": ["SCRAM"]}},
        },
    })
}
