//! How far long work is: one line on standard error, on a terminal only.

use std::io;
use std::sync::LazyLock;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::terminal;
use crate::catalog::{Catalog, Entry};

/// The line of this process; `indicatif` draws nothing where standard error is no terminal.
static LINE: LazyLock<ProgressBar> = LazyLock::new(|| {
    let style = ProgressStyle::with_template("{spinner} {msg} ({pos} of {len})");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
});

/// The mappings of a catalog one after another, each shown while it is worked on.
pub(super) fn mappings(catalog: &Catalog) -> impl Iterator<Item = (&str, &Entry)> {
    LINE.set_message("reading clusters");
    LINE.set_length(catalog.mappings().count() as u64);
    LINE.reset();
    LINE.enable_steady_tick(Duration::from_millis(100));
    let shown = |(name, _): &(&str, &Entry)| {
        LINE.set_message(format!("reading the clusters of mapping `{name}`"));
        LINE.inc(1);
    };
    let end = std::iter::from_fn(|| {
        LINE.finish_and_clear();
        None
    });
    catalog.mappings().inspect(shown).chain(end)
}

/// Writes a line to standard error, above the line of progress.
pub(super) fn say(text: &str) {
    LINE.suspend(|| eprintln!("{text}"));
}

/// Says what is being done now.
pub(super) fn show(text: &str) {
    LINE.set_message(text.to_owned());
}

/// Writes to standard output, above the line of progress.
pub(super) fn print(text: &str) -> io::Result<()> {
    LINE.suspend(|| terminal::print(text))
}

/// Takes the line away before an error is reported.
pub(super) fn clear() {
    LINE.finish_and_clear();
}
