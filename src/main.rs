//! The command `sync-engine`: arguments, logs, exit code. Everything else is the library's.

use std::process::ExitCode;

use sync_engine::{cli, telemetry};

fn main() -> ExitCode {
    let verb = cli::Arguments::read();
    telemetry::start(verb.log().log_format, &verb.log().log_level);
    cli::execute(verb).into()
}
