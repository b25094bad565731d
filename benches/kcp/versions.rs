//! Two builds of the engine on one kcp, in turns: what a new object, an edit and a status cost each, and how long they take.
//!
//! Each build has an API, a workspace of consumers and a target workspace of its own, so that neither serves what the other made.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::api::Api;
use crate::bare::lines;
use crate::credentials;
use crate::engine::Engine;
use crate::kcp::Workspace;
use crate::real::kube::ApiServer;
use crate::rest::Patch;
use crate::{Failed, PATIENCE, are_served, create_object, endpoint_of, mapping, mebibytes};

const TURNS: usize = 5;
const FIGURES: [&str; 9] = [
    "CPU of a new object, ms",
    "requests for a new object",
    "CPU of an edit, ms",
    "requests for an edit",
    "CPU of a status, ms",
    "requests for a status",
    "from an edit to its target object, ms, p50",
    "from a status to its source, ms, p50",
    "memory, MiB",
];
const LATE: [&str; 2] = ["from an edit to its target object, ms, p99", "from a status to its source, ms, p99"];

type Told = UnboundedReceiver<(String, Instant)>;

/// One of two builds, with what is its own.
struct Build {
    name: &'static str,
    binary: PathBuf,
    user: String,
    folder: TempDir,
    api: Api,
    consumer: Workspace,
    target: Workspace,
}

/// Compares this build with another one.
pub async fn compare(kcp: PathBuf, other: &Path, objects: usize) -> Result<(), Failed> {
    let folder = TempDir::new()?;
    let kcp = ApiServer::start_kcp(kcp, folder.path()).await;
    let builds = [
        Build::set(&kcp, "this", crate::engine::binary(), 0).await?,
        Build::set(&kcp, "other", other.into(), 1).await?,
    ];
    let mut figures = [Vec::new(), Vec::new()];
    let mut late = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for turn in 0..TURNS {
        for (index, build) in builds.iter().enumerate() {
            let (of_turn, waits) = build.turn(&kcp, turn, objects).await?;
            println!("turn {turn}, {}: {of_turn:.2?}", build.name);
            figures[index].push(of_turn);
            late[index].iter_mut().zip(waits).for_each(|(all, waits)| all.extend(waits));
        }
    }
    println!("medians of {TURNS} turns of {objects} objects");
    for (at, what) in FIGURES.iter().enumerate() {
        let of = |build: &[[f64; FIGURES.len()]]| percentile(&build.iter().map(|one| one[at]).collect::<Vec<_>>(), 50);
        let [this, other] = [of(&figures[0]), of(&figures[1])];
        println!("  {what}: {this:.2}, the other {other:.2}: {:.2}", this / other);
    }
    for (at, what) in LATE.iter().enumerate() {
        let [this, other] = [&late[0][at], &late[1][at]].map(|all| percentile(all, 99));
        println!("  {what}: {this:.1}, the other {other:.1}: {:.2}", this / other);
    }
    Ok(())
}

impl Build {
    async fn set(kcp: &ApiServer, name: &'static str, binary: PathBuf, number: usize) -> Result<Self, Failed> {
        let (folder, user) = (TempDir::new()?, credentials::engine(number));
        let api = Api::widgets(format!("{name}.example.dev"));
        let [provider, consumer, target] = [
            kcp.workspace(&format!("{name}-provider")).await,
            kcp.workspace(name).await,
            kcp.workspace(&format!("{name}-target")).await,
        ];
        provider.publish(&api, &user).await;
        consumer.bind(&provider.path, &api).await;
        api.install(&target.rest).await;
        admit(&target, &user).await;
        fs::write(folder.path().join("kcp.kubeconfig"), kcp.workspace_kubeconfig(&provider.path, &user))?;
        fs::write(folder.path().join("target.kubeconfig"), kcp.workspace_kubeconfig(&target.path, &user))?;
        fs::create_dir_all(folder.path().join("mappings"))?;
        fs::write(folder.path().join("mappings/widgets.yaml"), mapping(&api, &provider.path))?;
        endpoint_of(&provider).await;
        fs::write(folder.path().join("admin.kubeconfig.yaml"), kcp.workspace_kubeconfig("root", credentials::ADMIN))?;
        Ok(Self { name, binary, user, folder, api, consumer, target })
    }

    /// What one run of the engine comes to, and each wait of an edit and of a status.
    async fn turn(
        &self,
        kcp: &ApiServer,
        turn: usize,
        objects: usize,
    ) -> Result<([f64; FIGURES.len()], [Vec<f64>; LATE.len()]), Failed> {
        let engine = Engine::start_binary(&self.binary, self.folder.path(), &self.folder.path().join("mappings"))?;
        let names: Vec<String> = (0..objects).map(|index| format!("o{turn}-{index}")).collect();
        create_object(&self.consumer, &self.api, &format!("first-{turn}")).await;
        are_served(&self.consumer, &self.api, &format!("first-{turn}"), 1, PATIENCE).await;
        let spent = async || Ok::<_, Failed>((engine.usage()?.cpu, kcp.audit().requests(&self.user).len()));
        let each = |from: (Duration, usize), to: (Duration, usize)| {
            let cpu = (to.0 - from.0).as_secs_f64() * 1e3 / objects as f64;
            [cpu, (to.1 - from.1) as f64 / objects as f64]
        };
        let begun = spent().await?;
        for name in &names {
            create_object(&self.consumer, &self.api, name).await;
        }
        are_served(&self.consumer, &self.api, &format!("o{turn}-"), objects, PATIENCE).await;
        let made = spent().await?;
        let places = self.places().await;
        let mut told = self.everything(&self.target.path).await?;
        let mut edits = Vec::new();
        for name in &names {
            let note = format!("edit-{name}-");
            let edit = json!({"spec": {"note": note}});
            let begun = Instant::now();
            self.consumer.rest.patch(Patch::Merge, &format!("{}/{name}", self.api.collection("default")), &edit).await;
            edits.push(heard(&mut told, &note, begun).await?);
        }
        let edited = spent().await?;
        let mut told = self.everything(&self.consumer.path).await?;
        let mut statuses = Vec::new();
        for name in &names {
            let (namespace, at) = places.iter().find(|(_, of)| of == name).map(|(at, _)| at).ok_or("no object")?;
            let phase = format!("phase-{name}-");
            let status = json!({"status": {"phase": phase}});
            let path = format!("{}/{at}/status", self.api.collection(namespace));
            let begun = Instant::now();
            self.target.rest.patch(Patch::Merge, &path, &status).await;
            statuses.push(heard(&mut told, &phase, begun).await?);
        }
        let reported = spent().await?;
        let ([new, of_new], [edit, of_edit], [status, of_status]) =
            (each(begun, made), each(made, edited), each(edited, reported));
        let [middle_edit, middle_status] = [&edits, &statuses].map(|all| percentile(all, 50));
        let memory = mebibytes(&engine)?;
        let figures = [new, of_new, edit, of_edit, status, of_status, middle_edit, middle_status, memory];
        Ok((figures, [edits, statuses]))
    }

    /// Where the objects on the target are, with the names of their sources.
    async fn places(&self) -> Vec<((String, String), String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = self.target.rest.list(&self.api.everywhere()).await;
        let place = |one: &Value| {
            let metadata = &one["metadata"];
            (
                (text(&metadata["namespace"]), text(&metadata["name"])),
                text(&metadata["annotations"]["sync-engine.dev/name"]),
            )
        };
        all.iter().map(place).collect()
    }

    /// What a watch on all objects of a workspace tells from now on.
    async fn everything(&self, workspace: &str) -> Result<Told, Failed> {
        let kubeconfig = self.folder.path().join("admin.kubeconfig.yaml");
        lines(&kubeconfig, workspace, &self.api.group).await
    }
}

/// When a text was told for the first time, in milliseconds since a moment.
async fn heard(told: &mut Told, text: &str, since: Instant) -> Result<f64, Failed> {
    loop {
        let next = tokio::time::timeout(PATIENCE, told.recv()).await?;
        let (line, at) = next.ok_or("the watch has ended")?;
        if line.contains(text) {
            return Ok(at.saturating_duration_since(since).as_secs_f64() * 1e3);
        }
    }
}

fn percentile(all: &[f64], percent: usize) -> f64 {
    let mut all = all.to_vec();
    all.sort_by(f64::total_cmp);
    all.get((all.len() * percent / 100).min(all.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Gives an engine all rights in a target workspace.
async fn admit(workspace: &Workspace, user: &str) {
    let rules = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*", "access"]},
    ]);
    let (group, name) = ("rbac.authorization.k8s.io", "engine");
    let role =
        json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    });
    workspace.rest.create(&format!("/apis/{group}/v1/clusterroles"), &role).await;
    workspace.rest.create(&format!("/apis/{group}/v1/clusterrolebindings"), &binding).await;
}
