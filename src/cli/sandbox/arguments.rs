//! Flags of `sandbox`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Shown under the flags.
pub const AFTER_HELP: &str = "\
Everything listens on loopback only. Data is in memory, and in a temporary folder that the sandbox prints and removes at its end. \
Ctrl-C, SIGTERM and a closed terminal end it.

Exit codes: 0 stopped by a signal, or everything is synced (--exit-when-synced); 1 failure, or not synced in time; 2 usage error; \
3 a file cannot be used.";

/// What a sandbox is to hold.
#[derive(Debug, Args)]
pub struct SandboxArguments {
    /// Folder of mappings, which the engine runs and reloads when they change; or a folder that has a folder `mappings`.
    ///
    /// In it, and in `schemas` and `examples` beside it, the sandbox finds the APIResourceSchemas that consumers see,
    /// CustomResourceDefinitions, source objects (with the Secrets and ConfigMaps in their folder), ToyOperators, and ToyClusters,
    /// each of which is one more cluster. If no schema fits the mappings, it plays the MongoDB example.
    ///
    /// Default: `mappings`; if that is missing, the MongoDB mapping that comes with the program.
    #[arg(value_name = "DIR")]
    pub mappings: Option<PathBuf>,

    /// Other files or folders with such documents. Can be repeated.
    #[arg(short, long, value_name = "DIR|FILE")]
    pub filename: Vec<PathBuf>,

    /// Workspaces that create the source objects.
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub workspaces: u32,

    /// How often each workspace creates each source object.
    #[arg(long, value_name = "M", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub objects: u32,

    /// Number of shards.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub shards: u32,

    /// Port of kcp; the target cluster and the status page take the next two, ToyClusters those after. Default: free ports.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=65_533))]
    pub port: Option<u16>,

    /// ToyOperator to use instead of those that are found.
    #[arg(long, value_name = "FILE")]
    pub operator: Option<PathBuf>,

    /// Write the kubeconfig to this file too, and remove it at the end. The file must be missing or of a sandbox.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig_out: Option<PathBuf>,

    /// Create no source objects.
    #[arg(long, conflicts_with = "exit_when_synced")]
    pub empty: bool,

    /// End as soon as every source object is ready, and in sync.
    #[arg(long)]
    pub exit_when_synced: bool,

    /// How long that may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub deadline: Duration,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: u32 = text.parse().map_err(|_| "write a whole number of seconds".to_owned())?;
    Ok(Duration::from_secs(seconds.into()))
}
