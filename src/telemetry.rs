//! Logs: on standard error, as text for people or JSON for collectors.

use std::io;

use anstream::{AutoStream, ColorChoice};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

/// How a log line is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One line for people, coloured on a terminal.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What is logged: a level for everything of ours, or a filter in `tracing`'s own language.
///
/// A bare level keeps the HTTP stack at warnings, for each request of it is a line at `debug`; a filter is taken as it
/// stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter(String);

/// Crates below us that log each connection and request.
const CHATTY: [&str; 8] = ["hyper", "hyper_util", "kube", "kube_client", "rustls", "tower", "notify", "mio"];

/// A text that is neither a level nor a filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is neither a level (off, error, warn, info, debug, trace) nor a filter such as `info,sync_engine::engine=debug`"
)]
pub struct InvalidFilter(String);

impl LogFilter {
    /// A level for everything of ours.
    pub fn level(level: LevelFilter) -> Self {
        Self(quieted(level))
    }

    /// # Errors
    /// When the text is neither a level nor a filter.
    pub fn parse(text: &str) -> Result<Self, InvalidFilter> {
        if let Ok(level) = text.parse::<LevelFilter>() {
            return Ok(Self::level(level));
        }
        // To `tracing` a lone word is the name of a crate, so that a mistyped level would log nothing.
        let is_word = !text.contains(['=', ',', '[']);
        if is_word || EnvFilter::try_new(text).is_err() {
            return Err(InvalidFilter(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

/// A level for everything, the chatty crates at warnings or at less where less is asked for.
fn quieted(level: LevelFilter) -> String {
    let quiet = level.min(LevelFilter::WARN);
    let directives = CHATTY.iter().map(|name| format!("{name}={quiet}"));
    std::iter::once(level.to_string()).chain(directives).collect::<Vec<_>>().join(",")
}

/// Sends every event of the process to standard error. A second call changes nothing.
pub fn start(format: LogFormat, filter: &LogFilter) {
    let filter = EnvFilter::new(&filter.0);
    let colours = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
    let builder = fmt().with_writer(io::stderr).with_env_filter(filter).with_ansi(colours);
    // An error here means that a subscriber stands already: an embedding program's choice, which wins.
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_keeps_the_http_stack_quiet() {
        let LogFilter(directives) = LogFilter::parse("debug").expect("a level");
        assert!(directives.starts_with("debug,hyper=warn,"), "{directives}");
        let LogFilter(directives) = LogFilter::parse("off").expect("a level");
        assert!(directives.starts_with("off,hyper=off,"), "{directives}");
    }

    #[test]
    fn a_filter_stands_as_it_is_written() {
        assert_eq!(LogFilter::parse("info,kube=trace"), Ok(LogFilter("info,kube=trace".to_owned())));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(LogFilter::parse("sync_engine=loud").is_err());
        insta::assert_snapshot!(LogFilter::parse("inof").expect_err("a mistyped level"), @"`inof` is neither a level (off, error, warn, info, debug, trace) nor a filter such as `info,sync_engine::engine=debug`");
    }
}
