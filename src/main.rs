//! The command `sync-engine`: arguments, logs, exit code. Everything else is the library's.

use std::process::ExitCode;

use sync_engine::{cli, telemetry};

/// The engine parses and prints JSON all day: a third of its time went into the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let (verb, log) = cli::Arguments::read();
    telemetry::start(log.log_format, &log.filter(&verb));
    cli::execute(verb).into()
}
