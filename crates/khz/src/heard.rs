//! A stream of events that a thread of its own reads, so that who waits for the next one notices that nothing comes any
//! more. It refuses to judge what the events mean.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use crate::events::{Event, Events};

/// Silence for three of the door's heartbeats, and for no less than this, is told: as soon as a hub takes a node for gone.
const SILENCE_MIN: Duration = Duration::from_secs(3);
/// While nothing comes it is looked this often whether something has.
const SILENT_LOOK: Duration = Duration::from_millis(250);
/// Events that wait for whoever prints them; the others wait in the socket. One has 64 MiB at most.
const EVENTS_WAITING: usize = 4;

/// The stream.
pub struct Heard {
    events: Receiver<io::Result<Option<Event>>>,
    last: Arc<Last>,
    /// What is silence; `None`: an older door, which does not say how often it is heard.
    patience: Option<Duration>,
    /// When the last byte had come before the silence that was told.
    silent_since: Option<Instant>,
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// An event.
    Event(Event),
    /// The end.
    End,
    /// Nothing was heard for so long.
    Silent(Duration),
    /// Something was heard again, after so long.
    Back(Duration),
    /// Nothing new.
    Nothing,
}

impl Heard {
    /// Begins to read; something comes every `heartbeat` as long as somebody is there.
    pub fn new(bytes: impl Read + Send + 'static, heartbeat: Option<Duration>) -> io::Result<Self> {
        let last = Arc::new(Last { began: Instant::now(), millis: AtomicU64::new(0) });
        let (sender, events) = sync_channel(EVENTS_WAITING);
        let mut source = Events::new(Stamped { bytes, last: Arc::clone(&last) });
        // It ends with the stream, or when nobody takes its events any more.
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
        Ok(Heard { events, last, patience, silent_since: None })
    }

    /// Waits for the next thing to tell.
    pub fn next(&mut self) -> io::Result<Next> {
        let heard = self.last.heard();
        if let Some(since) = self.silent_since
            && heard > since
        {
            self.silent_since = None;
            return Ok(Next::Back(heard.duration_since(since)));
        }
        let event = match (self.patience, self.silent_since) {
            (None, _) => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            (Some(patience), None) => {
                // A wait of nothing would miss what has come already.
                let left = (heard + patience).saturating_duration_since(Instant::now()).max(SILENT_LOOK);
                self.events.recv_timeout(left)
            }
            (Some(_), Some(_)) => self.events.recv_timeout(SILENT_LOOK),
        };
        match event {
            Ok(event) => Ok(event?.map_or(Next::End, Next::Event)),
            Err(RecvTimeoutError::Disconnected) => Ok(Next::End),
            Err(RecvTimeoutError::Timeout) => {
                let heard = self.last.heard();
                let silence = heard.elapsed();
                match self.patience {
                    Some(patience) if self.silent_since.is_none() && silence >= patience => {
                        self.silent_since = Some(heard);
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
    fn heard(&self) -> Instant {
        self.began + Duration::from_millis(self.millis.load(Ordering::Acquire))
    }
}

/// Bytes that note when they come.
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

    /// What comes next that is something.
    fn next(heard: &mut Heard) -> Next {
        loop {
            match heard.next().unwrap() {
                Next::Nothing => {}
                something => return something,
            }
        }
    }

    #[test]
    fn silence_is_told_once_and_that_it_is_over_also_where_only_a_comment_comes() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut heard = Heard::new(ours, Some(Duration::from_millis(1))).unwrap();
        theirs.write_all(b"data: 1\n\n").unwrap();
        assert!(matches!(next(&mut heard), Next::Event(_)));
        assert!(matches!(next(&mut heard), Next::Silent(silence) if silence >= SILENCE_MIN));
        assert!(matches!(heard.next().unwrap(), Next::Nothing), "once");
        theirs.write_all(b": heartbeat\n\n").unwrap();
        assert!(matches!(next(&mut heard), Next::Back(silence) if silence >= SILENCE_MIN));
        theirs.write_all(b"data: 2\n\n").unwrap();
        assert!(matches!(next(&mut heard), Next::Event(_)));
        drop(theirs);
        assert!(matches!(next(&mut heard), Next::End));
    }

    #[test]
    fn a_door_that_does_not_say_how_often_it_is_heard_is_waited_for() {
        let mut heard = Heard::new(&b"data: 1\n\n"[..], None).unwrap();
        assert!(matches!(heard.next().unwrap(), Next::Event(_)));
        assert!(matches!(heard.next().unwrap(), Next::End));
    }
}
