//! Flags of `sandbox`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Shown under the flags.
pub const AFTER_HELP: &str = "\
Everything listens on loopback alone and is kept in memory, or in a temporary folder that is named and goes with the \
program. Ctrl-C, SIGTERM and a closed terminal end it.

Exit codes: 0 it was told to stop, or everything was synced (--exit-when-synced); 1 it failed, or was not synced in \
time; 2 the command line cannot be understood; 78 it names something that is wrong.";

/// What a sandbox is to hold.
#[derive(Debug, Args)]
pub struct SandboxArguments {
    /// Directory of mapping files, which are run and reloaded when they change; or a folder with one called `mappings`.
    ///
    /// What the story needs beside them is looked for among them and in `schemas` and `examples` beside them: the
    /// APIResourceSchemas that consumers see, CustomResourceDefinitions, objects to order (with the Secrets and ConfigMaps in
    /// their folder), and ToyOperators. Where there is no schema of what the mappings serve, the MongoDB story is played.
    ///
    /// Without it `mappings`; where that is missing, the MongoDB mapping that comes with the program.
    #[arg(long, value_name = "DIR")]
    pub mappings: Option<PathBuf>,

    /// Further files or directories with such documents. May be given several times.
    #[arg(long, value_name = "DIR|FILE")]
    pub documents: Vec<PathBuf>,

    /// Workspaces that order.
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub workspaces: u32,

    /// How often each workspace orders everything.
    #[arg(long, value_name = "M", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub objects: u32,

    /// Shards that the workspaces are spread over.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub shards: u32,

    /// Port of kcp; the downstream cluster and the status page take the next two. Any free ones without it.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=65_533))]
    pub port: Option<u16>,

    /// ToyOperator that says how the status of the orders evolves, instead of those that are found.
    #[arg(long, value_name = "FILE")]
    pub operator: Option<PathBuf>,

    /// Also write the kubeconfig to this file, which goes with the program; one of somebody else's is left alone.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig_out: Option<PathBuf>,

    /// No story: the servers, the workspaces, the operator and the engine, for you to create what you like.
    #[arg(long, conflicts_with = "exit_when_synced")]
    pub empty: bool,

    /// End as soon as every order is ready in its workspace.
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
