//! The schemas of every example are ones that real servers take, and so are a consumer's object and what is rendered of it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::case::{Case, Stage, case};
use crate::credentials::ADMIN;
use crate::engine::output;
use crate::kubectl::repository;

pub fn cases() -> Vec<Case> {
    vec![case!(kcp_and_kubernetes_take_every_example).on_kcp()]
}

async fn kcp_and_kubernetes_take_every_example(stage: &Stage) {
    let kcp = stage.kcp().await;
    let provider = kcp.workspace(&format!("{}-provider", stage.id)).await;
    let consumer = kcp.workspace(&format!("{}-consumer", stage.id)).await;
    let target = stage.fleet.own_cluster(&stage.id).await;
    let as_provider = stage.kubectl("provider", &kcp.workspace_kubeconfig(&provider.path, ADMIN));
    let as_consumer = stage.kubectl("consumer", &kcp.workspace_kubeconfig(&consumer.path, ADMIN));
    let on_target = stage.kubectl("target", &target.kubeconfig(ADMIN));
    for folder in folders() {
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let file = |path: &str| folder.join(path).display().to_string();
        as_provider.run(&[
            "apply",
            "-f",
            &file("schemas/apiresourceschema.yaml"),
            "-f",
            &file("schemas/apiexport.yaml"),
        ]);
        let binding = stage.keep(&format!("{name}.binding.yaml"), &binding(&name, &provider.path));
        as_consumer.run(&["apply", "-f", &binding.display().to_string()]);
        as_consumer.run(&[
            "wait",
            "--for=jsonpath={.status.phase}=Bound",
            &format!("apibinding/{name}"),
            "--timeout=60s",
        ]);
        let source = object(&folder.join("examples"));
        as_consumer.run(&["apply", "--validate=strict", "-f", &source.display().to_string()]);

        on_target.run(&["apply", "-f", &file("schemas/crd.yaml")]);
        on_target.run(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]);
        let rendered = stage.keep(&format!("{name}.rendered.yaml"), &rendered(&folder, &source));
        let rendered = rendered.display().to_string();
        on_target.run(&["create", "namespace", &name]);
        on_target.run(&["apply", "--dry-run=server", "--validate=strict", "-n", &name, "-f", &rendered]);
    }
}

/// The examples that stand for themselves, and publish an API to consumers of a kcp.
fn folders() -> Vec<PathBuf> {
    let entries = fs::read_dir(repository().join("examples")).expect("the examples");
    let folders = entries.map(|entry| entry.expect("an entry").path());
    let mut folders: Vec<_> = folders.filter(|folder| folder.join("schemas/apiexport.yaml").is_file()).collect();
    folders.sort();
    assert!(folders.len() >= 7, "{folders:?}");
    folders
}

fn binding(name: &str, path: &str) -> String {
    format!(
        "apiVersion: apis.kcp.io/v1alpha2\nkind: APIBinding\nmetadata: {{name: {name}}}\nspec: {{reference: {{export: \
         {{name: {name}, path: \"{path}\"}}}}}}\n"
    )
}

/// What the consumer writes: neither the test nor the operator.
fn object(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder).expect("the examples").map(|entry| entry.expect("an entry").path());
    let is_object = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.ends_with(".yaml") && !name.ends_with(".test.yaml") && name != "operator.yaml"
    };
    entries.into_iter().find(is_object).expect("an object")
}

/// The objects that are made of a source, without the namespaces that they are placed in.
fn rendered(folder: &Path, source: &Path) -> String {
    let [folder, source] = [folder, source].map(|path| path.display().to_string());
    let text = output(&["render", &folder, "-f", &source, "--no-marks"]);
    assert!(text.contains("kind: "), "{folder}: {text}");
    let placed = text.lines().filter(|line| !line.starts_with("  namespace: "));
    // The engine puts random text there.
    placed.map(|line| format!("{line}\n").replace("(generated)", "Z2VuZXJhdGVk")).collect()
}
