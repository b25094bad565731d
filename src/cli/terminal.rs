//! Standard output: what a verb has to say.

use std::io::{self, Write};

use anstream::{AutoStream, ColorChoice};

pub(super) use crate::object::count;

/// Writes a result to standard output.
///
/// # Errors
/// When it cannot be written; a reader that has seen enough (`| head`) is among them, and no failure to the caller.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// Whether standard output shows colours, by the terminal and `NO_COLOR`, `CLICOLOR` and their like.
pub(super) fn colours() -> bool {
    AutoStream::choice(&io::stdout()) != ColorChoice::Never
}
