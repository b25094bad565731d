//! The command line: one file a verb. The only place that prints, and the only user of `anyhow`.

pub mod approve;
pub mod arguments;
pub mod completions;
mod connections;
pub mod diff;
mod difference;
pub mod doctor;
pub mod explain;
pub mod init;
mod inputs;
mod limits;
pub mod live;
mod lost_target;
pub mod options;
pub mod orphans;
mod pinned;
mod progress;
pub mod rbac;
pub mod render;
pub mod retarget;
mod run;
pub mod sandbox;
pub mod schema;
mod signals;
mod sources;
pub mod status;
mod terminal;
pub mod test;
pub mod trace;
pub mod uninstall;
pub mod validate;
mod watching;
mod which;

use std::io;
use std::process::ExitCode;

use anyhow::Context;
use tokio::runtime::Builder;

pub use arguments::{Arguments, Verb};

use crate::multicluster::environment::CustomProviders;
use crate::reload::OpenError;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Success,
    /// Findings or differences; of `run` and `sandbox`, a failure.
    Failure,
    /// The command line cannot be understood. (Clap ends with the same code.)
    Usage,
    /// A verb could not check: a file, a cluster or a mapping cannot be used.
    Unchecked,
    /// The same, of `run`: `EX_CONFIG` of sysexits(3).
    Configuration,
}

/// Arguments that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Something that the command line names is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Misconfigured(pub String);

/// Runs a verb to its end, and says on standard error why it could not. `custom_providers` are those of a program that embeds
/// the engine.
pub fn execute(verb: Verb, custom_providers: CustomProviders) -> Exit {
    limits::raise_open_files();
    // How it ends where something is misconfigured, and at any other error: most verbs could not check then, and to the sandbox
    // it is a finding what does not sync in time.
    let (misconfigured, failed) = match verb {
        Verb::Run(_) => (Exit::Configuration, Exit::Failure),
        Verb::Sandbox(_) => (Exit::Unchecked, Exit::Failure),
        _ => (Exit::Unchecked, Exit::Unchecked),
    };
    let result = match verb {
        Verb::Run(arguments) => to_the_end(Builder::new_current_thread(), run::run(arguments, custom_providers)),
        Verb::Sandbox(arguments) => to_the_end(Builder::new_multi_thread(), sandbox::play(arguments)),
        Verb::Init(arguments) => init::init(&arguments),
        Verb::Diff(arguments) => diff::diff(&arguments),
        Verb::Status(arguments) => status::status(&arguments),
        Verb::Trace(arguments) => trace::trace(&arguments),
        Verb::Approve(arguments) => approve::approve(&arguments),
        Verb::Orphans(arguments) => orphans::orphans(&arguments),
        Verb::Retarget(arguments) => retarget::retarget(&arguments),
        Verb::Uninstall(arguments) => uninstall::uninstall(&arguments),
        Verb::Validate(arguments) => validate::validate(&arguments),
        Verb::Doctor(arguments) => doctor::doctor(&arguments),
        Verb::Explain(arguments) => explain::explain(&arguments),
        Verb::Render(arguments) => render::render(&arguments),
        Verb::Rbac(arguments) => rbac::rbac(&arguments),
        Verb::Test(arguments) => test::test(&arguments),
        Verb::Schema(verb) => schema::schema(&verb),
        Verb::Completions(arguments) => completions::completions(&arguments),
        Verb::Version => version(),
    };
    match result {
        Ok(exit) => exit,
        // Who reads our output has seen enough (`| head`).
        Err(error) if is_broken_pipe(&error) => Exit::Success,
        Err(error) => {
            progress::clear();
            eprintln!("error: {error:#}");
            if error.is::<Usage>() {
                Exit::Usage
            } else if error.is::<Misconfigured>() {
                misconfigured
            } else {
                failed
            }
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Runs what goes on until it is stopped.
fn to_the_end(mut threads: Builder, work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<Exit> {
    let runtime = threads.enable_all().build().context("cannot start the threads that the program runs on")?;
    let result = runtime.block_on(work);
    // What is still under way was told to stop and did not: a second signal, or a lost file system.
    runtime.shutdown_background();
    result.map(|()| Exit::Success)
}

/// A line each, for reports of problems and for scripts.
fn version() -> anyhow::Result<Exit> {
    let [version, commit, build] = [env!("CARGO_PKG_VERSION"), env!("SYNC_ENGINE_COMMIT"), env!("SYNC_ENGINE_BUILD")];
    terminal::print(&format!("sync-engine {version}\ncommit {commit}\nbuild {build}\n"))?;
    Ok(Exit::Success)
}

/// Runs what a verb asks of live clusters.
fn ask<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime that requests run on")?.block_on(work)
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::Unchecked => 3,
            Exit::Configuration => 78,
        })
    }
}

impl From<OpenError> for Misconfigured {
    fn from(error: OpenError) -> Self {
        Self(format!("{error}; create it, or name another"))
    }
}
