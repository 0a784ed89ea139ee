//! Rows as they come from a server, in pieces, with the server's silences.

use std::io::Read;
use std::time::Duration;

use khz_trust::explain_io;
use serde::Deserialize;

use crate::event::Event;
use crate::silence::{Next, TimedEvents};
use crate::{AskError, Piece};

/// Rows as they come. A thread reads the connection; it ends with the stream.
pub struct Stream {
    /// Address of the server, as people write it.
    url: String,
    events: TimedEvents,
}

impl Stream {
    /// Reads server-sent events from `bytes`. A living server sends something every `heartbeat`, where it promises one.
    pub(crate) fn new(
        url: &str,
        bytes: impl Read + Send + 'static,
        heartbeat: Option<Duration>,
    ) -> Result<Self, AskError> {
        let events = TimedEvents::new(bytes, heartbeat).map_err(AskError::Thread)?;
        Ok(Stream { url: url.to_owned(), events })
    }

    /// Waits for the next pieces: none where it only waited for a while, `None` at the end of the stream.
    ///
    /// # Errors
    /// [`AskError::Dropped`] where the server ends the stream, and says why; [`AskError::Stream`] where the connection breaks, or an
    /// event is malformed.
    pub fn next_pieces(&mut self) -> Result<Option<Vec<Piece>>, AskError> {
        let next = self.events.next();
        let next =
            next.map_err(|error| self.broken(format!("the stream broke off: {}", explain_io(&error))))?;
        let server = |is_silent, span| Piece::Server { server: self.url.clone(), is_silent, span };
        match next {
            Next::End => Ok(None),
            Next::Nothing => Ok(Some(Vec::new())),
            Next::Silent(span) => Ok(Some(vec![server(true, span)])),
            Next::Back(span) => Ok(Some(vec![server(false, span)])),
            Next::Event(event) => {
                if event.name == "dropped" {
                    return Err(AskError::Dropped { url: self.url.clone(), reason: reason(&event) });
                }
                let piece = Piece::decode(&event.name, &event.data);
                let piece = piece.map_err(|error| self.broken(error.to_string()))?;
                Ok(Some(piece.into_iter().collect()))
            }
        }
    }

    fn broken(&self, problem: String) -> AskError {
        AskError::Stream { url: self.url.clone(), problem }
    }
}

/// Why the server drops this reader.
fn reason(event: &Event) -> String {
    #[derive(Deserialize)]
    struct Dropped {
        error: String,
    }
    let read = serde_json::from_str::<Dropped>(&event.data);
    read.map_or_else(|_| "this reader was dropped".to_owned(), |dropped| dropped.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(text: &'static str) -> Result<Option<Vec<Piece>>, String> {
        let mut stream = Stream::new("http://127.0.0.1:7070", text.as_bytes(), None).unwrap();
        stream.next_pieces().map_err(|error| error.to_string())
    }

    #[test]
    fn a_dropped_reader_gets_the_reason() {
        assert_eq!(
            next("event: dropped\ndata: {\"error\":\"fell behind\"}\n\n").unwrap_err(),
            "http://127.0.0.1:7070: fell behind"
        );
    }

    #[test]
    fn events_that_this_version_does_not_know_are_skipped() {
        assert_eq!(next("event: weather\ndata: sunny\n\n").unwrap(), Some(Vec::new()));
        assert_eq!(next(": heartbeat\n\n").unwrap(), None);
    }
}
