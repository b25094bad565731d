//! Standard output: what a verb has to say.

use std::env;
use std::io::{self, IsTerminal, Write};

/// Writes a result to standard output.
///
/// # Errors
/// When it cannot be written; a reader that has seen enough (`| head`) is among them, and no failure to the caller.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// Whether standard output is a terminal that shows colours: <https://no-color.org>.
pub(super) fn colours() -> bool {
    let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    io::stdout().is_terminal() && !refused && !dumb
}

/// `1 file`, `2 files`.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
