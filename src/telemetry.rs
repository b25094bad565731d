//! Logs: on standard error, as text for people or JSON for collectors.

use std::io;

use anstream::{AutoStream, ColorChoice};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use tracing::{Event, Subscriber};
use tracing_serde::fields::AsMap;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

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
const CHATTY: [&str; 9] = ["h2", "hyper", "hyper_util", "kube", "kube_client", "rustls", "tower", "notify", "mio"];

impl LogFilter {
    /// A level for everything of ours; the chatty crates are at warnings, or at less where less is asked for.
    pub fn level(level: LevelFilter) -> Self {
        let quiet = level.min(LevelFilter::WARN);
        let directives = CHATTY.iter().map(|name| format!("{name}={quiet}"));
        Self(std::iter::once(level.to_string()).chain(directives).collect::<Vec<_>>().join(","))
    }

    /// # Errors
    /// When the text is neither a level nor a filter.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(level) = text.parse::<LevelFilter>() {
            return Ok(Self::level(level));
        }
        // To `tracing` a lone word is the name of a crate, so that a mistyped level would log nothing.
        let is_word = !text.contains(['=', ',', '[']);
        if is_word || EnvFilter::try_new(text).is_err() {
            return Err(format!(
                "`{text}` is neither a level (off, error, warn, info, debug, trace) nor a filter such as \
                 `info,sync_engine::engine=debug`"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Sends every event of the process to standard error. A second call changes nothing.
pub fn start(format: LogFormat, filter: &LogFilter) {
    let filter = EnvFilter::new(&filter.0);
    let colours = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
    let builder = fmt().with_writer(io::stderr).with_env_filter(filter).with_ansi(colours);
    // An error here means that a subscriber stands already: an embedding program's choice, which wins.
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.fmt_fields(JsonFields::new()).event_format(Flat).try_init(),
    };
}

/// One JSON object an event, without nesting: time, level and module (`target`), the fields of the spans, and the event's own,
/// which take the place of a span's of the same name.
struct Flat;

impl<S> FormatEvent<S, JsonFields> for Flat
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let metadata = event.metadata();
        let mut line = Line::default();
        line.put("timestamp", time.into());
        line.put("level", metadata.level().as_str().into());
        let fields = serde_json::to_value(event.field_map()).map_err(|_| std::fmt::Error)?;
        let mut fields = fields.as_object().cloned().unwrap_or_default();
        line.put("message", fields.remove("message").unwrap_or_default());
        line.put("target", metadata.target().into());
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<JsonFields>>().map_or("", |fields| fields.as_str());
            let fields = serde_json::from_str::<Map<String, Value>>(fields).unwrap_or_default();
            fields.into_iter().for_each(|(name, value)| line.put(&name, value));
        }
        fields.into_iter().for_each(|(name, value)| line.put(&name, value));
        let line = serde_json::to_string(&line).map_err(|_| std::fmt::Error)?;
        writeln!(writer, "{line}")
    }
}

/// Fields in the order in which people read them.
#[derive(Default)]
struct Line(Vec<(String, Value)>);

impl Line {
    fn put(&mut self, name: &str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }
}

impl Serialize for Line {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::{info, info_span, subscriber};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic before").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_one_flat_object_whose_keys_are_unique() {
        let written = Written::default();
        let writer = written.clone();
        let builder = fmt().with_writer(move || writer.clone()).fmt_fields(JsonFields::new()).event_format(Flat);
        subscriber::with_default(builder.finish(), || {
            let span = info_span!("reconcile", mapping = "mongodb", name = "db", workspace = tracing::field::Empty);
            span.record("workspace", "root:a");
            let _entered = span.enter();
            info!(verb = "apply", name = "of the event", object = "a\nb", took_ms = 3, "create");
        });
        let text = String::from_utf8(written.0.lock().expect("no panic before").clone()).expect("UTF-8");
        assert_eq!(text.lines().count(), 1, "{text}");
        let mut line: Map<String, Value> = serde_json::from_str(&text).expect("an object");
        line.remove("timestamp").expect("a time");
        assert_eq!(
            Value::Object(line),
            serde_json::json!({
                "level": "INFO",
                "target": "sync_engine::telemetry::tests",
                "mapping": "mongodb",
                "workspace": "root:a",
                "verb": "apply",
                "name": "of the event",
                "object": "a\nb",
                "took_ms": 3,
                "message": "create",
            })
        );
        assert_eq!(text.matches("\"name\":").count(), 1, "{text}");
        assert!(text.starts_with("{\"timestamp\":"), "{text}");
    }

    #[test]
    fn a_level_keeps_the_http_stack_quiet_and_a_filter_stands_as_it_is_written() {
        for (text, start) in [
            ("debug", "debug,h2=warn,hyper=warn,hyper_util=warn,"),
            ("off", "off,h2=off,hyper=off,hyper_util=off,"),
            ("info,kube=trace", "info,kube=trace"),
        ] {
            let LogFilter(directives) = LogFilter::parse(text).expect("a level or a filter");
            assert!(directives.starts_with(start), "{directives}");
        }
        // To `tracing`, the last is the name of a crate.
        for text in ["sync_engine=loud", "inof"] {
            assert!(LogFilter::parse(text).is_err(), "{text}");
        }
    }
}
