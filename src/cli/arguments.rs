//! What was said: the flags, their environment variables and their help.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use tracing_subscriber::filter::LevelFilter;

use super::abandon_target::{self, AbandonTargetArguments};
use super::completions::{self, CompletionsArguments};
use super::diff::{self, DiffArguments};
use super::explain::ExplainArguments;
use super::init::{self, InitArguments};
use super::options::{KubeconfigRef, Listen, NamedKubeconfig};
use super::orphans::{self, OrphansArguments};
use super::rbac::{self, RbacArguments};
use super::render::{self, RenderArguments};
use super::retarget::{self, RetargetArguments};
use super::sandbox::{self, SandboxArguments};
use super::schema::SchemaVerb;
use super::test::{self, TestArguments};
use super::validate::{self, ValidateArguments};
use crate::object;
use crate::telemetry::{LogFilter, LogFormat};

const LONG_ABOUT: &str = "\
Syncs the objects of kcp workspaces to Kubernetes clusters, as a directory of YAML mapping files says.

For every consumer object of a mapping's source the engine renders objects onto the target cluster, keeps them as they \
should be, and carries chosen status fields back. The directory is watched: an edit takes effect without a restart, and \
a broken edit changes nothing.";

const AFTER_HELP: &str = "\
Exit codes: 0 the engine was told to stop and did; 1 it failed, or was told twice; 2 the command line cannot be \
understood; 78 it names something that is wrong (a directory, kubeconfig or context that is not there).

The first SIGTERM or Ctrl-C lets what is under way end, the second stops at once. SIGHUP reads the mappings again.";

/// A declarative multi-cluster sync engine for kcp and Kubernetes.
#[derive(Debug, Parser)]
#[command(
    name = "sync-engine",
    version,
    long_about = LONG_ABOUT,
    after_help = AFTER_HELP,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    max_term_width = 110
)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    run: Option<RunArguments>,
    #[command(flatten)]
    log: LogArguments,
}

/// One verb a file.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run the engine: the same as giving its flags without a verb.
    #[command(after_help = AFTER_HELP)]
    Run(RunArguments),
    /// Play the whole story on this machine, in memory: a kcp, a cluster, consumers, an operator, and the engine.
    #[command(after_help = sandbox::AFTER_HELP)]
    Sandbox(SandboxArguments),
    /// Make a folder that offers an operator's API to workspaces, of its CustomResourceDefinition.
    #[command(after_help = init::AFTER_HELP)]
    Init(InitArguments),
    /// Say what a change of mappings changes, or what the engine would change on live clusters now.
    #[command(after_help = diff::AFTER_HELP)]
    Diff(DiffArguments),
    /// List the objects on targets that no source asks for, and delete or release those that you select.
    #[command(after_help = orphans::AFTER_HELP)]
    Orphans(OrphansArguments),
    /// Pin sources to the target that the connection leads to now: the move to another cluster is meant.
    #[command(after_help = retarget::AFTER_HELP)]
    Retarget(RetargetArguments),
    /// Release the sources of a lost target. Nothing is deleted.
    #[command(after_help = abandon_target::AFTER_HELP)]
    AbandonTarget(AbandonTargetArguments),
    /// Say everything that is wrong with mappings, without a cluster.
    #[command(after_help = validate::AFTER_HELP)]
    Validate(ValidateArguments),
    /// Say what a code of `validate` stands for, or list all codes.
    Explain(ExplainArguments),
    /// Print the objects that a mapping makes of a consumer's object, without a cluster.
    #[command(after_help = render::AFTER_HELP)]
    Render(RenderArguments),
    /// Print the least rights that the engine needs for mappings, without a cluster.
    #[command(after_help = rbac::AFTER_HELP)]
    Rbac(RbacArguments),
    /// Run MappingTest documents, without a cluster.
    #[command(after_help = test::AFTER_HELP)]
    Test(TestArguments),
    /// The JSON Schema of the documents, for editors; and schemas from live clusters, for checks.
    #[command(subcommand)]
    Schema(SchemaVerb),
    /// Print a completion script for a shell.
    #[command(after_help = completions::AFTER_HELP)]
    Completions(CompletionsArguments),
}

/// Flags of `run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// Directory of mapping files: every *.yaml and *.yml in it and below, hidden ones left out.
    #[arg(long, value_name = "DIR", env = "SYNC_ENGINE_MAPPINGS")]
    pub mappings: PathBuf,

    /// Kubeconfig of the connection `kcp`, from which APIExports are read unless a mapping names another connection.
    ///
    /// It may point at any workspace: a mapping's `apiExport.path` replaces the `/clusters/…` part of its server address.
    /// Without a context, the file's current one is used.
    #[arg(long, value_name = "PATH[#CONTEXT]", env = "SYNC_ENGINE_KCP_KUBECONFIG")]
    pub kcp_kubeconfig: Option<KubeconfigRef>,

    /// Kubeconfig of the connection `target`, the cluster that receives the objects unless a mapping names another.
    ///
    /// Without it, the cluster that the engine runs in.
    #[arg(long, value_name = "PATH[#CONTEXT]", env = "SYNC_ENGINE_TARGET_KUBECONFIG")]
    pub target_kubeconfig: Option<KubeconfigRef>,

    /// A further connection that mappings and providers can name. May be given several times.
    ///
    /// In the environment variable, several are separated by commas.
    #[arg(
        long = "kubeconfig",
        value_name = "NAME=PATH[#CONTEXT]",
        env = "SYNC_ENGINE_KUBECONFIG",
        value_delimiter = ','
    )]
    pub kubeconfigs: Vec<NamedKubeconfig>,

    /// Directory of schemas (APIResourceSchemas, CustomResourceDefinitions) that mappings are checked against.
    #[arg(long, value_name = "DIR", env = "SYNC_ENGINE_SCHEMAS")]
    pub schemas: Option<PathBuf>,

    /// Address for health, metrics and the status page; `off` for none. Port 0 takes a free one and logs it.
    #[arg(long, value_name = "ADDR", env = "SYNC_ENGINE_LISTEN", default_value = "127.0.0.1:8080")]
    pub listen: Listen,

    /// Which engine this is, where several work on the same clusters. Objects, finalizers and field managers carry it.
    ///
    /// An engine that starts under another id does not know the objects of the first as its own.
    #[arg(long, value_name = "ID", env = "SYNC_ENGINE_ENGINE_ID", default_value = "main", value_parser = engine_id)]
    pub engine_id: String,

    /// Namespace on each target for the engine's notes of what it has made there. Created when it is missing.
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "SYNC_ENGINE_INVENTORY_NAMESPACE",
        default_value = "sync-engine",
        value_parser = namespace
    )]
    pub inventory_namespace: String,
}

/// Kubeconfigs of the clusters that mappings name, for verbs that read them. (`run` has the same flags as its own: clap
/// cannot tell whether a flattened group within an optional one was given.)
#[derive(Debug, Clone, Default, Args)]
pub struct ConnectionArguments {
    /// Kubeconfig of the connection `kcp`.
    #[arg(long, value_name = "PATH[#CONTEXT]", env = "SYNC_ENGINE_KCP_KUBECONFIG")]
    pub kcp_kubeconfig: Option<KubeconfigRef>,

    /// Kubeconfig of the connection `target`.
    #[arg(long, value_name = "PATH[#CONTEXT]", env = "SYNC_ENGINE_TARGET_KUBECONFIG")]
    pub target_kubeconfig: Option<KubeconfigRef>,

    /// A further connection that mappings and providers name. May be given several times.
    #[arg(
        long = "kubeconfig",
        value_name = "NAME=PATH[#CONTEXT]",
        env = "SYNC_ENGINE_KUBECONFIG",
        value_delimiter = ','
    )]
    pub kubeconfigs: Vec<NamedKubeconfig>,
}

/// How findings are printed that people read as well as programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    Yaml,
    Json,
    Table,
}

/// How the program logs, on standard error.
#[derive(Debug, Args)]
pub struct LogArguments {
    /// One line for people, or one JSON object, for each event.
    #[arg(long, global = true, value_enum, env = "SYNC_ENGINE_LOG_FORMAT", default_value_t)]
    pub log_format: LogFormat,

    /// A level (off, error, warn, info, debug, trace), or a filter such as `info,sync_engine::engine=debug`.
    ///
    /// Without it `info`; `off` for the sandbox, which tells a story instead.
    #[arg(
        long,
        global = true,
        value_name = "LEVEL|FILTER",
        env = "SYNC_ENGINE_LOG_LEVEL",
        value_parser = LogFilter::parse
    )]
    pub log_level: Option<LogFilter>,
}

impl LogArguments {
    /// What is logged while a verb runs.
    pub fn filter(&self, verb: &Verb) -> LogFilter {
        self.log_level.clone().unwrap_or_else(|| {
            LogFilter::level(match verb {
                Verb::Run(_) => LevelFilter::INFO,
                Verb::Sandbox(_) => LevelFilter::OFF,
                // Verbs that end say what they found on standard output.
                _ => LevelFilter::WARN,
            })
        })
    }
}

impl Arguments {
    /// This process's command line. Prints help or a usage error and exits where there is nothing to run.
    pub fn read() -> (Verb, LogArguments) {
        let Self { verb, run, log } = Self::parse();
        let missing = || Self::command().error(ErrorKind::MissingRequiredArgument, "--mappings DIR is missing");
        (verb.or_else(|| run.map(Verb::Run)).unwrap_or_else(|| missing().exit()), log)
    }
}

/// Longest engine id: `<engine>.<mapping>` must fit the 63 characters that the name of a finalizer or annotation has.
pub const MAX_ENGINE_ID: usize = 20;

fn engine_id(text: &str) -> Result<String, String> {
    if object::is_dns_label(text) && text.len() <= MAX_ENGINE_ID {
        return Ok(text.to_owned());
    }
    Err(format!("an engine id has at most {MAX_ENGINE_ID} lower case letters, digits and `-`, with no `-` at its ends"))
}

fn namespace(text: &str) -> Result<String, String> {
    if object::is_dns_label(text) {
        return Ok(text.to_owned());
    }
    Err("a namespace has at most 63 lower case letters, digits and `-`, with no `-` at its ends".to_owned())
}
