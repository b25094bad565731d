//! The part of the tutorial that needs a kcp and a cluster is followed with them, line by line.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::case::{Case, Stage, case};
use crate::credentials::ADMIN;
use crate::kubectl::repository;
use crate::steps::{Commands, Step, steps};

pub fn cases() -> Vec<Case> {
    vec![case!(the_api_of_the_tutorial_is_published).on_kcp()]
}

async fn the_api_of_the_tutorial_is_published(stage: &Stage) {
    let kcp = stage.kcp().await;
    let provider = kcp.workspace("queues").await;
    let consumer = kcp.workspace(&format!("{}-consumer", stage.id)).await;
    let target = stage.fleet.own_cluster(&stage.id).await;
    let place = stage.folder.join("queues");
    for (name, kubeconfig) in [
        ("provider", kcp.workspace_kubeconfig(&provider.path, ADMIN)),
        ("consumer", kcp.workspace_kubeconfig(&consumer.path, ADMIN)),
        ("target", target.kubeconfig(ADMIN)),
    ] {
        write(&place.join(format!("{name}.kubeconfig")), &kubeconfig);
    }
    let page = fs::read_to_string(repository().join("docs/tutorial.md")).expect("the tutorial");
    let mut printed = None;
    for step in steps(&page) {
        match step {
            Step::File { name, text } => write(&place.join(name), &text),
            Step::Commands { kind: Commands::OnServers, text } => printed = Some(follow(stage, &place, &text)),
            Step::Commands { text, .. } if text.starts_with("sed ") || text.starts_with("sync-engine schema ") => {
                edit(&place, &text);
            }
            Step::Commands { .. } => printed = None,
            Step::Output(text) => {
                let missing = printed.iter().flat_map(|said| text.lines().filter(|line| !said.contains(line)));
                assert_eq!(missing.collect::<Vec<_>>(), Vec::<&str>::new(), "{printed:?}");
            }
        }
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("it stands in a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

/// Changes a file that a later step needs.
fn edit(place: &Path, block: &str) {
    let binary = Path::new(env!("CARGO_BIN_EXE_sync-engine")).parent().expect("a folder").display();
    let path = format!("{binary}:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    let status = command.env("PATH", path).current_dir(place).args(["-ec", block]).status().expect("a shell");
    assert!(status.success(), "{block}");
}

/// Runs a block as a shell does, until a line fails; what runs in the background ends with it.
fn follow(stage: &Stage, place: &Path, block: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_sync-engine"));
    let kubectl = stage.fleet.kubectl();
    let folders: Vec<_> = [binary, &kubectl].iter().filter_map(|file| file.parent()).collect();
    let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let path = format!("{}:{}", folders.join(":"), std::env::var("PATH").unwrap_or_default());
    let script = format!("set -eu\ntrap 'kill $!' EXIT\n{block}");
    let mut command = Command::new("sh");
    command
        .env("PATH", path)
        .env("SYNC_ENGINE_PROBES", "off")
        .env("SYNC_ENGINE_CONSOLE", "off")
        .current_dir(place)
        .args(["-c", &script]);
    let output = command.output().expect("a shell");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{block}\n{stdout}{stderr}");
    stdout.into_owned()
}
