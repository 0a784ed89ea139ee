//! Events that a thread of their own reads, so that a reader notices when nothing comes any more. Does not know what the
//! events mean.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use crate::event::{Event, Events};

/// A server is silent when nothing comes for three heartbeats, and for at least this long: as long as a hub waits before it
/// calls a node down.
const SILENCE_MIN: Duration = Duration::from_secs(3);
/// While the server is silent, the time between two checks whether it is back.
const CHECK_PERIOD: Duration = Duration::from_millis(250);
/// Events that wait for the reader; more wait in the socket. Each has at most 64 MiB.
const EVENTS_WAITING_MAX: usize = 4;

/// Events, and when the last byte came.
pub(crate) struct TimedEvents {
    events: Receiver<io::Result<Option<Event>>>,
    last: Arc<Last>,
    /// How long a pause makes silence; `None`: an older door, which sends no heartbeats.
    patience: Option<Duration>,
    /// While the server is silent: when the last byte came before that.
    silent_since: Option<Instant>,
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Next {
    /// An event.
    Event(Event),
    /// The end.
    End,
    /// Nothing has come for this long. Returned once for each silence.
    Silent(Duration),
    /// Bytes come again after a silence of this length.
    Back(Duration),
    /// Nothing new.
    Nothing,
}

impl TimedEvents {
    /// Starts to read. A living server sends something every `heartbeat`.
    pub(crate) fn new(bytes: impl Read + Send + 'static, heartbeat: Option<Duration>) -> io::Result<Self> {
        let last = Arc::new(Last { began: Instant::now(), millis: AtomicU64::new(0) });
        let (sender, events) = sync_channel(EVENTS_WAITING_MAX);
        let mut source = Events::new(Stamped { bytes, last: Arc::clone(&last) });
        // The thread ends with the stream, or when this value is dropped.
        std::thread::Builder::new().name("stream".into()).spawn(move || {
            loop {
                let event = source.next();
                let is_last = !matches!(event, Ok(Some(_)));
                if sender.send(event).is_err() || is_last {
                    return;
                }
            }
        })?;
        let patience = heartbeat.map(|heartbeat| (3 * heartbeat).max(SILENCE_MIN));
        Ok(TimedEvents { events, last, patience, silent_since: None })
    }

    /// Waits for the next event or change.
    pub(crate) fn next(&mut self) -> io::Result<Next> {
        let last = self.last.at();
        if let Some(since) = self.silent_since
            && last > since
        {
            self.silent_since = None;
            return Ok(Next::Back(last.duration_since(since)));
        }
        let event = match (self.patience, self.silent_since) {
            (None, _) => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            (Some(patience), None) => {
                // With a wait of 0 an event that has come already would be missed.
                let left = (last + patience).saturating_duration_since(Instant::now()).max(CHECK_PERIOD);
                self.events.recv_timeout(left)
            }
            (Some(_), Some(_)) => self.events.recv_timeout(CHECK_PERIOD),
        };
        match event {
            Ok(event) => Ok(event?.map_or(Next::End, Next::Event)),
            Err(RecvTimeoutError::Disconnected) => Ok(Next::End),
            Err(RecvTimeoutError::Timeout) => {
                let last = self.last.at();
                let silence = last.elapsed();
                match self.patience {
                    Some(patience) if self.silent_since.is_none() && silence >= patience => {
                        self.silent_since = Some(last);
                        Ok(Next::Silent(silence))
                    }
                    _ => Ok(Next::Nothing),
                }
            }
        }
    }
}

/// When the last byte came.
struct Last {
    began: Instant,
    millis: AtomicU64,
}

impl Last {
    fn at(&self) -> Instant {
        self.began + Duration::from_millis(self.millis.load(Ordering::Acquire))
    }
}

/// Notes when bytes come.
struct Stamped<R> {
    bytes: R,
    last: Arc<Last>,
}

impl<R: Read> Read for Stamped<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(room)?;
        self.last.millis.store(self.last.began.elapsed().as_millis() as u64, Ordering::Release);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The next event or change.
    fn next(events: &mut TimedEvents) -> Next {
        loop {
            match events.next().unwrap() {
                Next::Nothing => {}
                other => return other,
            }
        }
    }

    #[test]
    fn silence_is_reported_once_and_its_end_even_where_only_a_comment_comes() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut events = TimedEvents::new(ours, Some(Duration::from_millis(1))).unwrap();
        theirs.write_all(b"data: 1\n\n").unwrap();
        assert!(matches!(next(&mut events), Next::Event(_)));
        assert!(matches!(next(&mut events), Next::Silent(silence) if silence >= SILENCE_MIN));
        assert!(matches!(events.next().unwrap(), Next::Nothing), "once");
        theirs.write_all(b": heartbeat\n\n").unwrap();
        assert!(matches!(next(&mut events), Next::Back(silence) if silence >= SILENCE_MIN));
        theirs.write_all(b"data: 2\n\n").unwrap();
        assert!(matches!(next(&mut events), Next::Event(_)));
        drop(theirs);
        assert!(matches!(next(&mut events), Next::End));
    }

    #[test]
    fn a_door_without_heartbeats_is_never_called_silent() {
        let mut events = TimedEvents::new(&b"data: 1\n\n"[..], None).unwrap();
        assert!(matches!(events.next().unwrap(), Next::Event(_)));
        assert!(matches!(events.next().unwrap(), Next::End));
    }
}
