//! What was said: the flags, their environment variables and their help.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use k8s_openapi::jiff::SignedDuration;
use serde::Serialize;
use serde_json::{Value, json};
use tracing_subscriber::filter::LevelFilter;

use super::approve::{self, ApproveArguments};
use super::completions::{self, CompletionsArguments};
use super::diff::{self, DiffArguments};
use super::doctor::{self, DoctorArguments};
use super::explain::ExplainArguments;
use super::init::{self, InitArguments};
use super::live::LiveArguments;
use super::options::{Listen, kubeconfig, listen, named_directory, named_kubeconfig};
use super::orphans::{self, OrphansArguments};
use super::rbac::{self, RbacArguments};
use super::render::{self, RenderArguments};
use super::retarget;
use super::sandbox::{self, SandboxArguments};
use super::schema::SchemaVerb;
use super::status::{self, StatusArguments};
use super::test::{self, TestArguments};
use super::trace::{self, TraceArguments};
use super::uninstall::{self, UninstallArguments};
use super::validate::{self, ValidateArguments};
use crate::mapping::Selector;
use crate::mapping::expression::quantity;
use crate::multicluster::connection::ConnectionSource;
use crate::object;
use crate::server::HostName;
use crate::telemetry::{LogFilter, LogFormat};
use crate::yaml;

const LONG_ABOUT: &str = "\
Syncs objects of kcp workspaces to Kubernetes clusters. You describe what to sync in YAML mapping files.

The engine applies target objects for each source object of a mapping, corrects drift, and writes chosen status fields back. \
It watches the folder of mappings: an edit takes effect without a restart, and a broken edit changes nothing.

Every verb but `run` that reads mappings takes them as arguments. A folder that has a folder `mappings` stands for that folder, \
with `schemas` and `examples` beside it. Objects are given with -f, the output format with -o.

Exit codes of every verb but `run`: 0 clean; 1 findings or differences; 2 usage error; 3 the verb could not check.";

const AFTER_HELP: &str = "\
Exit codes: 0 clean shutdown; 1 failure, or a second signal; 2 usage error; 78 a folder, kubeconfig or context does not exist \
or cannot be used.

On the first SIGTERM or Ctrl-C, the engine finishes what is under way. On the second, it stops at once. On SIGHUP, it reads the \
mappings again.";

/// The heading of flags that few need.
pub(super) const ADVANCED: &str = "Advanced options";

/// Id of an engine that has no other.
pub(super) const DEFAULT_ENGINE: &str = "main";

/// Namespace of its state stores.
pub(super) const DEFAULT_NAMESPACE: &str = "sync-engine";

/// What `--version` prints behind the program's name.
const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("SYNC_ENGINE_COMMIT"), ", ", env!("SYNC_ENGINE_BUILD"), ")");

/// A declarative multi-cluster sync engine for kcp and Kubernetes.
#[derive(Debug, Parser)]
#[command(
    name = "sync-engine",
    version = VERSION,
    long_about = LONG_ABOUT,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    max_term_width = 110
)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    run: RunArguments,
    #[command(flatten)]
    log: LogArguments,
}

/// One verb a file.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Write a folder that offers an operator's API to workspaces.
    #[command(after_help = init::AFTER_HELP)]
    Init(InitArguments),
    /// Print the JSON Schema of the documents, or copy schemas from live clusters.
    #[command(subcommand)]
    Schema(SchemaVerb),
    /// Check mappings for errors, without a cluster.
    #[command(after_help = validate::AFTER_HELP)]
    Validate(ValidateArguments),
    /// Print the target objects of a source object, without a cluster.
    #[command(after_help = render::AFTER_HELP)]
    Render(RenderArguments),
    /// Run MappingTest documents, without a cluster.
    #[command(after_help = test::AFTER_HELP)]
    Test(TestArguments),
    /// Run the engine: the same as giving its flags without a verb.
    #[command(after_help = AFTER_HELP)]
    Run(RunArguments),
    /// Print the RBAC rules that the engine needs for mappings, without a cluster.
    #[command(after_help = rbac::AFTER_HELP)]
    Rbac(RbacArguments),
    /// Run kcp, a target cluster, consumers, a toy operator and the engine, in memory.
    #[command(after_help = sandbox::AFTER_HELP)]
    Sandbox(SandboxArguments),
    /// Show what a running engine syncs, what is not in sync and why, and what to do.
    #[command(after_help = status::AFTER_HELP)]
    Status(StatusArguments),
    /// Show why one source is as it is: what decided on each object, what it waits for.
    #[command(after_help = trace::AFTER_HELP)]
    Trace(TraceArguments),
    /// Check live clusters for what mappings need: rights, claims, kinds, clocks, credentials.
    #[command(after_help = doctor::AFTER_HELP)]
    Doctor(DoctorArguments),
    /// Dry run: what an edit of mappings changes, or what the engine would change now.
    #[command(after_help = diff::AFTER_HELP)]
    Diff(DiffArguments),
    /// Explain an error code, a reason of `Synced` or an alert, or list all of them.
    Explain(ExplainArguments),
    /// Show what the engine holds, and approve or reject it.
    #[command(after_help = approve::AFTER_HELP)]
    Approve(ApproveArguments),
    /// List orphaned objects on targets, and delete or release those that you select.
    #[command(after_help = orphans::AFTER_HELP)]
    Orphans(OrphansArguments),
    /// Move sources to the target that the connection leads to now.
    #[command(after_help = retarget::AFTER_HELP)]
    Retarget(LiveArguments),
    /// Take away what a stopped engine has left, or release the sources of a lost target.
    #[command(after_help = uninstall::AFTER_HELP)]
    Uninstall(UninstallArguments),
    /// Print a completion script for a shell.
    #[command(after_help = completions::AFTER_HELP)]
    Completions(CompletionsArguments),
    /// Print version, commit and build.
    Version,
}

/// Flags of `run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// Folder of mapping files: every *.yaml and *.yml in it and below, except hidden files.
    // Always there once it is parsed, unless a verb stands for the flags.
    #[arg(long, value_name = "DIR", env = "SYNC_ENGINE_MAPPINGS", required = true)]
    pub mappings: Option<PathBuf>,

    #[command(flatten)]
    pub connections: Connections,

    #[command(flatten)]
    pub machine: MachineArguments,

    /// Folder of schemas (APIResourceSchemas, CustomResourceDefinitions). Default: the folders `schemas` beside the folders of
    /// mappings.
    #[arg(long, value_name = "DIR", env = "SYNC_ENGINE_SCHEMAS")]
    pub schemas: Option<PathBuf>,

    /// Address of /healthz, /readyz and /metrics, for the kubelet and Prometheus; `off` for none. Port 0 takes a free port
    /// and logs it.
    #[arg(long, value_name = "ADDR", env = "SYNC_ENGINE_PROBES", default_value = "127.0.0.1:8081", value_parser = listen)]
    pub probes: Listen,

    /// Address of the status page and of `POST /-/reload`, for people; `off` for none. It has no password: keep it on loopback,
    /// and reach it with `kubectl port-forward`.
    #[arg(long, value_name = "ADDR", env = "SYNC_ENGINE_CONSOLE", default_value = "127.0.0.1:8080", value_parser = listen)]
    pub console: Listen,

    /// A host name by which browsers may ask the console, beside those of loopback. Repeatable.
    #[arg(long, value_name = "HOST", env = "SYNC_ENGINE_CONSOLE_HOST", value_delimiter = ',', help_heading = ADVANCED)]
    pub console_host: Vec<HostName>,

    /// Write Kubernetes Events: of sources, where the reason of `Synced` changes and the workspace accepts a claim for `events`; and in
    /// the namespace of the state store, of documents, held edits and leadership.
    #[arg(long, env = "SYNC_ENGINE_EVENTS")]
    pub events: bool,

    /// Id of the engine, where several work on the same clusters. Objects, finalizers and field managers carry it.
    ///
    /// An engine with another id does not own the objects of the first.
    #[arg(
        long,
        value_name = "ID",
        env = "SYNC_ENGINE_ENGINE_ID",
        default_value = DEFAULT_ENGINE,
        value_parser = engine_id,
        help_heading = ADVANCED
    )]
    pub engine_id: String,

    #[command(flatten)]
    pub state: StateArguments,

    #[command(flatten)]
    pub election: ElectionArguments,

    /// How many watches may run at once; each holds a connection where the server speaks HTTP/1.1 alone. Default: three quarters
    /// of the limit of open files.
    ///
    /// A watch beyond it waits, and `/readyz` says so. The others go on.
    #[arg(long, value_name = "NUMBER", env = "SYNC_ENGINE_MAX_WATCHES", help_heading = ADVANCED)]
    pub max_watches: Option<usize>,

    /// How much memory the engine may use and still begin another watch: bytes, or a quantity such as 400Mi. Default: nine
    /// tenths of the limit of its container.
    ///
    /// Watches beyond it wait, and `/readyz` says so. What is known already is kept up to date, whatever that takes.
    #[arg(long, value_name = "QUANTITY", env = "SYNC_ENGINE_MAX_MEMORY", value_parser = memory, help_heading = ADVANCED)]
    pub max_memory: Option<u64>,
}

/// Whether several replicas of the engine run.
#[derive(Debug, Clone, Args)]
pub struct LeaderElectArguments {
    /// `lease`: several replicas run, and the one that holds a Lease writes. `none`: there is one replica.
    ///
    /// The Lease `sync-engine-ID` is in the namespace of the state store. All replicas need the same --home.
    #[arg(long, value_name = "HOW", env = "SYNC_ENGINE_LEADER_ELECT", value_enum, default_value_t)]
    pub leader_elect: LeaderElect,
}

/// How the replicas of an engine agree on which of them writes.
#[derive(Debug, Clone, Args)]
pub struct ElectionArguments {
    #[command(flatten)]
    pub how: LeaderElectArguments,

    /// Name of this replica, in the Lease and in the User-Agent of its requests. Default: the host's name and a random ending.
    #[arg(long, value_name = "NAME", env = "SYNC_ENGINE_REPLICA", value_parser = replica, help_heading = ADVANCED)]
    pub replica: Option<String>,

    /// How long other replicas wait after the last renewal that they saw before one takes over.
    #[arg(
        long,
        value_name = "DURATION",
        env = "SYNC_ENGINE_LEADER_ELECT_LEASE_DURATION",
        default_value = "15s",
        value_parser = duration,
        help_heading = ADVANCED
    )]
    pub leader_elect_lease_duration: Duration,

    /// How long a replica writes without a renewal.
    #[arg(
        long,
        value_name = "DURATION",
        env = "SYNC_ENGINE_LEADER_ELECT_RENEW_DEADLINE",
        default_value = "10s",
        value_parser = duration,
        help_heading = ADVANCED
    )]
    pub leader_elect_renew_deadline: Duration,

    /// The pause between two renewals, or two attempts to take over.
    #[arg(
        long,
        value_name = "DURATION",
        env = "SYNC_ENGINE_LEADER_ELECT_RETRY_PERIOD",
        default_value = "2s",
        value_parser = duration,
        help_heading = ADVANCED
    )]
    pub leader_elect_retry_period: Duration,
}

/// How replicas agree on which of them writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LeaderElect {
    #[default]
    None,
    Lease,
}

/// The connections that mappings and providers name.
#[derive(Debug, Clone, Args)]
pub struct Connections {
    /// Kubeconfig of the connection `kcp`, from which the engine reads APIExports unless a mapping names another connection.
    ///
    /// It may point at any workspace: a mapping's `apiExport.path` replaces the `/clusters/…` part of its server address.
    /// Default context: the current one of the file.
    #[arg(long, value_name = "PATH[#CONTEXT]", env = "SYNC_ENGINE_KCP_KUBECONFIG", value_parser = kubeconfig)]
    pub kcp_kubeconfig: Option<ConnectionSource>,

    /// Kubeconfig of the connection `target`, the cluster that receives the objects unless a mapping names another.
    ///
    /// `in-cluster` stands for the cluster of the Pod that the command runs in, here and for every other connection.
    #[arg(long, value_name = "PATH[#CONTEXT]", env = "SYNC_ENGINE_TARGET_KUBECONFIG", value_parser = kubeconfig)]
    pub target_kubeconfig: Option<ConnectionSource>,

    /// Another connection that mappings and providers name. Can be repeated; the environment variable separates several with
    /// commas.
    #[arg(
        long = "connection",
        value_name = "NAME=PATH[#CONTEXT]",
        env = "SYNC_ENGINE_CONNECTION",
        value_delimiter = ',',
        value_parser = named_kubeconfig
    )]
    pub others: Vec<(String, ConnectionSource)>,
}

/// What documents may use of this machine. They name no path and no program themselves.
#[derive(Debug, Clone, Args)]
pub struct MachineArguments {
    /// A directory of kubeconfig files that a ClusterProvider names (`kubeconfigFiles.directory`). Can be repeated; the
    /// environment variable separates several with commas.
    ///
    /// A kubeconfig file can run programs as the engine: mount the directory read-only.
    #[arg(
        long = "directory",
        value_name = "NAME=PATH",
        env = "SYNC_ENGINE_DIRECTORY",
        value_delimiter = ',',
        value_parser = named_directory,
        help_heading = ADVANCED
    )]
    pub directories: Vec<(String, PathBuf)>,

    /// File that says which program gives the credential for each access provider of a cluster inventory.
    #[arg(long, value_name = "FILE", env = "SYNC_ENGINE_ACCESS_PROVIDERS", help_heading = ADVANCED)]
    pub access_providers: Option<PathBuf>,

    /// Lets ClusterProviders of the kind `kind` run the program `kind`.
    #[arg(long, env = "SYNC_ENGINE_ALLOW_KIND", help_heading = ADVANCED)]
    pub allow_kind: bool,
}

/// The mappings that a verb is about, and their schemas.
#[derive(Debug, Clone, Args)]
pub struct MappingArguments {
    /// Folders and files of mappings; `-` is standard input. A folder that has a folder `mappings` stands for that folder.
    #[arg(value_name = "DIR|FILE", env = "SYNC_ENGINE_MAPPINGS", default_value = ".")]
    pub mappings: Vec<PathBuf>,

    /// Folder of schemas (APIResourceSchemas, CustomResourceDefinitions). Default: the folders `schemas` beside the folders of
    /// mappings.
    #[arg(long, value_name = "DIR", env = "SYNC_ENGINE_SCHEMAS")]
    pub schemas: Option<PathBuf>,
}

/// The clusters that mappings name, for verbs that read live clusters.
#[derive(Debug, Clone, Args)]
pub struct ConnectionArguments {
    #[command(flatten)]
    pub named: Connections,

    #[command(flatten)]
    pub machine: MachineArguments,

    /// Connection of the target that the verb is about, where a mapping has several. Default: the first that the mapping
    /// names.
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
}

/// The engine that a verb is about. Its state stores tell the rest.
#[derive(Debug, Clone, Args)]
pub struct WhichArguments {
    /// Id of the engine. Default: the one that has state stores on the clusters; if there are several, the one that has these
    /// mappings.
    ///
    /// The state stores also tell their namespace and the home cluster. SYNC_ENGINE_STATE_NAMESPACE and SYNC_ENGINE_HOME say
    /// otherwise.
    #[arg(long, value_name = "ID", env = "SYNC_ENGINE_ENGINE_ID", value_parser = engine_id, help_heading = ADVANCED)]
    pub engine_id: Option<String>,
}

/// Where the engine keeps its state.
#[derive(Debug, Clone, Args)]
pub struct StateArguments {
    /// Namespace of the state store on each target. The engine creates it if it is missing.
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "SYNC_ENGINE_STATE_NAMESPACE",
        default_value = DEFAULT_NAMESPACE,
        value_parser = namespace,
        help_heading = ADVANCED
    )]
    pub state_namespace: String,

    /// The connection of the cluster that holds the Lease, and the state stores of mappings whose target is the source's own
    /// cluster.
    #[arg(long, value_name = "CONNECTION", env = "SYNC_ENGINE_HOME", default_value = "target", help_heading = ADVANCED)]
    pub home: String,
}

/// Which of the objects a verb is about, as kubectl takes it.
#[derive(Debug, Clone, Default, Args)]
pub struct ScopeArguments {
    /// Only objects in this namespace. Default: in all.
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// Only objects with these labels, such as `tier=gold,team in (a, b),!legacy`.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = Selector::from_str)]
    pub selector: Option<Selector>,
}

impl ScopeArguments {
    /// Whether the verb is about an object.
    pub(super) fn includes(&self, object: &Value) -> bool {
        let namespace = self.namespace.as_deref();
        namespace.is_none_or(|namespace| namespace == object::metadata(object, "namespace"))
            && self.selector.as_ref().is_none_or(|selector| selector.matches(object.pointer("/metadata/labels")))
    }
}

/// How a verb prints. Each value means the same in every verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// A row each.
    Table,
    /// YAML documents.
    Yaml,
    /// One JSON document.
    Json,
    /// Annotations of a pull request: workflow commands of GitHub Actions.
    Github,
    /// Values of the Helm chart.
    Values,
}

impl Format {
    /// A report as text for people, as a table, or as it is for programs: in YAML, each item of a list is a document.
    pub(super) fn shown(
        self,
        text: impl FnOnce() -> String,
        table: impl FnOnce() -> String,
        report: &impl Serialize,
    ) -> String {
        match (self, || json!(report)) {
            (Self::Text | Self::Github | Self::Values, _) => text(),
            (Self::Table, _) => table(),
            (Self::Json, report) => format!("{:#}\n", report()),
            (Self::Yaml, report) => match report() {
                Value::Array(documents) => yaml::write_all(&documents),
                document => yaml::write(&document),
            },
        }
    }

    /// The formats of verbs whose findings have no place in a file.
    pub(super) fn without_places() -> impl TypedValueParser<Value = Self> {
        Self::but(&[Self::Github, Self::Values])
    }

    /// All formats but these.
    pub(super) fn but(others: &[Self]) -> impl TypedValueParser<Value = Self> + use<> {
        let formats = Self::value_variants().iter().filter(|format| !others.contains(format));
        let values: Vec<PossibleValue> = formats.filter_map(ValueEnum::to_possible_value).collect();
        PossibleValuesParser::new(values).try_map(|text| Self::from_str(&text, false))
    }
}

/// How the program logs, on standard error.
#[derive(Debug, Args)]
pub struct LogArguments {
    /// Print each event as a line for people, or as one JSON object.
    #[arg(long, global = true, value_enum, env = "SYNC_ENGINE_LOG_FORMAT", default_value_t, help_heading = ADVANCED)]
    pub log_format: LogFormat,

    /// A level (off, error, warn, info, debug, trace), or a filter such as `info,sync_engine::engine=debug`.
    ///
    /// Default: `info` for `run`, `off` for `sandbox`, `warn` for the other verbs.
    #[arg(
        long,
        global = true,
        value_name = "LEVEL|FILTER",
        env = "SYNC_ENGINE_LOG_LEVEL",
        value_parser = LogFilter::parse,
        help_heading = ADVANCED
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
        let parsed = grouped(Self::command()).try_get_matches().and_then(|matches| Self::from_arg_matches(&matches));
        let Self { verb, run, log } = parsed.unwrap_or_else(|error| error.exit());
        (verb.unwrap_or(Verb::Run(run)), log)
    }
}

/// What a person wants to do, and the verbs for it.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Write mappings", &["init", "schema", "validate", "render", "test"]),
    ("Run the engine", &["run", "rbac", "sandbox"]),
    ("Look", &["status", "trace", "doctor", "diff", "explain"]),
    ("Act", &["approve", "orphans", "retarget", "uninstall"]),
    ("For the shell", &["completions", "version", "help"]),
];

/// The program with its verbs in groups. The flags of `run` are in the help of `run`.
fn grouped(program: Command) -> Command {
    let mut built = program.clone();
    built.build();
    let about = |name: &str| {
        let verb = built.find_subcommand(name)?;
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        Some(format!("  {name:<11}  {about}\n"))
    };
    let group = |(title, verbs): &(&str, &[&str])| {
        let lines: String = verbs.iter().filter_map(|name| about(name)).collect();
        format!("{title}:\n{lines}\n")
    };
    let groups: String = GROUPS.iter().map(group).collect();
    let layout = format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{{all-args}}{{after-help}}");
    let of_run = |flag: Arg| if flag.is_global_set() { flag } else { flag.hide(true) };
    program
        .help_template(layout)
        .override_usage("sync-engine run --mappings <DIR> [OPTIONS]\n       sync-engine <COMMAND>")
        .mut_args(of_run)
        .mut_subcommands(|verb| verb.hide(true))
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok());
    parsed.ok_or_else(|| "write a duration such as 15s or 1m30s".to_owned())
}

fn memory(text: &str) -> Result<u64, String> {
    let bytes = quantity(text).and_then(|bytes| bytes.as_u64());
    bytes.ok_or_else(|| "write bytes, or a quantity such as 400Mi or 2Gi".to_owned())
}

/// It becomes part of a header.
fn replica(text: &str) -> Result<String, String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    match !text.is_empty() && text.len() <= 253 && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("write at most 253 letters, digits, `-`, `_` and `.`".to_owned()),
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

pub(super) fn namespace(text: &str) -> Result<String, String> {
    if object::is_dns_label(text) {
        return Ok(text.to_owned());
    }
    Err("a namespace has at most 63 lower case letters, digits and `-`, with no `-` at its ends".to_owned())
}
