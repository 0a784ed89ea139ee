//! The log: events as lines on stderr. It has no spans, colours or filters by target; the journal's tools filter a daemon's
//! log.

use std::fmt::{self, Write as _};
use std::io::{IsTerminal, Write as _};

use khz_model::printable::printable;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Writes events of a level and those more severe.
struct Log {
    level: Level,
    /// Clears the status line where there is one.
    prefix: &'static str,
}

/// Writes events to stderr from now on; with `None` no event.
pub fn start(level: Option<Level>) {
    let Some(level) = level else { return };
    let prefix = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
    // It fails only at a second call, which does not happen.
    let _ = tracing::subscriber::set_global_default(Log { level, prefix });
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(self.level.into())
    }

    fn event(&self, event: &Event<'_>) {
        let line = format!("{}{}", self.prefix, line(event));
        // Where the log cannot be written, there is nowhere to report that.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// `khz: warn: the sentence (field=value, ...)`.
fn line(event: &Event<'_>) -> String {
    let mut parts = Parts::default();
    event.record(&mut parts);
    let level = event.metadata().level().as_str().to_ascii_lowercase();
    let fields = match parts.fields.as_slice() {
        [] => String::new(),
        fields => format!(" ({})", fields.join(", ")),
    };
    // An event is one line, also of a message with several.
    let message = parts.message.trim_end().replace('\n', "; ");
    let line = format!("khz: {level}: {message}{fields}");
    format!("{}\n", printable(&line))
}

#[derive(Default)]
struct Parts {
    message: String,
    fields: Vec<String>,
}

impl Visit for Parts {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            // Writing to a String cannot fail.
            "message" => drop(write!(self.message, "{value:?}")),
            name => self.fields.push(format!("{name}={value:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Hands every line to the test instead of stderr.
    struct Kept(Arc<Mutex<Vec<String>>>);

    impl Subscriber for Kept {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            Log { level: Level::INFO, prefix: "" }.enabled(metadata)
        }
        fn event(&self, event: &Event<'_>) {
            self.0.lock().unwrap().push(line(event));
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn an_event_is_one_line() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        tracing::subscriber::with_default(Kept(Arc::clone(&kept)), || {
            tracing::warn!(source = "stat", late = 3, "slowed\ndown");
            tracing::warn!(node = %"n\u{202e}1\x1b[2J", "left");
            tracing::debug!("not at this level");
        });
        assert_eq!(
            *kept.lock().unwrap(),
            ["khz: warn: slowed; down (source=\"stat\", late=3)\n", "khz: warn: left (node=n\\u202e1?[2J)\n"]
        );
    }
}
