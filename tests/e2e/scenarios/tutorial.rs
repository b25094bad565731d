//! The part of the tutorial that needs a kcp and a cluster is followed with them, line by line.

use std::fs;
use std::path::Path;

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
    let off = Path::new("off");
    let run = |script: &str| stage.shell(&place, &[("SYNC_ENGINE_PROBES", off), ("SYNC_ENGINE_CONSOLE", off)], script);
    let mut printed = None;
    for step in steps(&page) {
        match step {
            Step::File { name, text } => write(&place.join(name), &text),
            // What runs in the background ends with the block.
            Step::Commands { kind: Commands::OnServers, text } => {
                printed = Some(run(&format!("set -u\ntrap 'kill $!' EXIT\n{text}")));
            }
            // It changes a file that a later step needs.
            Step::Commands { text, .. } if text.starts_with("sed ") || text.starts_with("sync-engine schema ") => {
                run(&text);
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
