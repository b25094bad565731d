//! The command `sync-engine`: arguments, logs, exit code. Everything else is the library's.

use std::process::ExitCode;

use sync_engine::{cli, telemetry};

fn main() -> ExitCode {
    let (verb, log) = cli::Arguments::read();
    telemetry::start(log.log_format, &log.filter(&verb));
    cli::execute(verb).into()
}
