//! sync-engine with a provider of its own: clusters from a company's inventory, here a text file of lines
//! `<name> <path of its kubeconfig>`.
//!
//! ```text
//! cargo run --example custom_provider -- run --mappings mappings --target-kubeconfig target.kubeconfig
//! ```
//!
//! A mapping names the clusters by a document:
//!
//! ```yaml
//! apiVersion: sync-engine.dev/v1alpha1
//! kind: ClusterProvider
//! metadata: {name: edge}
//! spec:
//!   custom: {name: inventory, parameters: {file: /etc/inventory.txt}}
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use sync_engine::multicluster::connection::ConnectionSource;
use sync_engine::multicluster::environment::{CustomProviders, Listed, Members};
use sync_engine::object::ClusterName;
use sync_engine::{cli, telemetry};

fn main() -> ExitCode {
    let (verb, log) = cli::Arguments::read();
    telemetry::start(log.log_format, &log.filter(&verb));
    cli::execute(verb, CustomProviders::default().with("inventory", Inventory::new)).into()
}

/// The clusters of a text file.
pub struct Inventory {
    file: PathBuf,
}

impl Inventory {
    /// # Errors
    /// The parameters name no file.
    pub fn new(parameters: &Value) -> Result<Self, String> {
        let file = parameters["file"].as_str().ok_or("add `file`, the path of the inventory")?;
        Ok(Self { file: Path::new(file).to_owned() })
    }
}

impl Members for Inventory {
    async fn look(&mut self) -> Result<Listed, String> {
        let text = tokio::fs::read_to_string(&self.file).await;
        // The clusters that are known stay where the list cannot be read: nothing concludes that they are gone.
        let text = text.map_err(|error| format!("cannot read {}: {error}", self.file.display()))?;
        let mut listed = Listed::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (name, kubeconfig) = line.trim().split_once(' ').unwrap_or((line, ""));
            match ClusterName::try_from(name) {
                Ok(name) if !kubeconfig.is_empty() => {
                    let source = ConnectionSource::Kubeconfig { path: kubeconfig.trim().into(), context: None };
                    listed.members.insert(name, source);
                }
                _ => listed.refused.push(format!("the line `{line}` is not `<name> <path of its kubeconfig>`")),
            }
        }
        Ok(listed)
    }

    async fn changed(&mut self) {
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}
