//! The clusters of kind on this machine.

use std::time::Duration;

use tokio::process::Command;
use tokio::time::sleep;

use super::discovery::LOOK_AGAIN;
use super::hub::{HeldKubeconfigs, Member};
use crate::connection::Held;
use crate::environment::{Listed, Members};
use crate::exec_plugin::output;
use sync_engine_mapping::Traits;
use sync_engine_mapping::object::ClusterName;

/// How long kind may take to answer.
const DEADLINE: Duration = Duration::from_secs(30);

/// What `kind get clusters` lists.
#[derive(Default)]
pub struct Kind {
    held: HeldKubeconfigs,
}

impl Members for Kind {
    async fn look(&mut self) -> Result<Listed, String> {
        let listed = kind(&["get", "clusters"]).await?;
        let mut members = Vec::new();
        for cluster in listed.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let Ok(name) = ClusterName::try_from(cluster) else {
                members.push(Err(format!("kind's cluster `{cluster}` has a name that is no DNS-1123 subdomain")));
                continue;
            };
            // A cluster that is stopped has no kubeconfig for as long.
            let text = kind(&["get", "kubeconfig", "--name", cluster]).await;
            let kubeconfig = text.map(|text| Held::new(format!("kind's cluster {cluster}"), text));
            members.push(Ok(Member { name, traits: Traits::default(), kubeconfig }));
        }
        Ok(self.held.list(members))
    }

    async fn changed(&mut self) {
        sleep(LOOK_AGAIN).await;
    }
}

/// What kind prints.
async fn kind(arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("kind");
    command.args(arguments);
    let printed = output(command, DEADLINE).await;
    let printed = printed.map_err(|why| format!("`kind {}`: {why}", arguments.join(" ")))?;
    String::from_utf8(printed).map_err(|_| format!("`kind {}` printed no text", arguments.join(" ")))
}
