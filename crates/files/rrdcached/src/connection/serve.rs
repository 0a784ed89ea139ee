//! Threads that serve clients: one accepts connections on each socket, and one serves each connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use khz_rrd::error::{Error, Result};

use super::listen::{Connection, Socket};
use super::session::{LINE_MAX, Next, Rules, Session};
use crate::cache::Cache;
use crate::daemon::spawn;

/// Bytes read at once, whose updates are taken together: a few hundred share their system calls, in little memory.
const READ: usize = 1 << 14;
/// Bytes of the buffer of a silent client.
const READ_AT_FIRST: usize = 4096;
/// Connections served at once by default, as in rrdcached. Each has a thread.
pub const CONNECTIONS: usize = 10_000;
/// Time before accepting is tried again. Without a free file descriptor it fails at once, as long as a client waits.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Time between two messages about that.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// Connections that a socket could not accept, reported once a minute. (The crate `door` has the same as
/// `AcceptFailures`; this crate does not depend on it.)
#[derive(Default)]
struct Failures {
    reported: Option<Instant>,
    unreported: u64,
}

impl Failures {
    /// It failed once more; returns a message, when it is time for one.
    fn happened(&mut self, now: Instant, error: &io::Error) -> Option<String> {
        self.unreported += 1;
        let since = self.reported.map(|reported| now.duration_since(reported));
        if since.is_some_and(|since| since < REPORT_EVERY) {
            return None;
        }
        self.reported = Some(now);
        let times = std::mem::take(&mut self.unreported);
        let since = since
            .map_or_else(String::new, |since| format!(", {times} times in the last {} s", since.as_secs()));
        Some(format!("cannot accept connections: {error}{since}"))
    }
}

/// How many connections are served, and how many may be.
pub struct Places {
    most: usize,
    busy: AtomicUsize,
}

impl Places {
    /// Places for `most` connections.
    pub fn new(most: usize) -> Self {
        Self { most, busy: AtomicUsize::new(0) }
    }

    fn take(&self) -> bool {
        let free = self.busy.fetch_add(1, Ordering::Relaxed) < self.most;
        if !free {
            self.give();
        }
        free
    }

    fn give(&self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves the clients of `socket` in threads of their own, for as long as the process lives.
///
/// # Errors
/// No thread could be started.
pub fn serve(socket: Socket, cache: Arc<Cache>, places: Arc<Places>) -> Result<()> {
    let accept = move || {
        let mut failures = Failures::default();
        loop {
            match socket.accept() {
                Ok(connection) => admit(connection, &cache, socket.rules(), &places),
                Err(error) => {
                    if let Some(line) = failures.happened(Instant::now(), &error) {
                        cache.report(&Error::Refused(line));
                    }
                    std::thread::sleep(ACCEPT_RETRY);
                }
            }
        }
    };
    spawn("khz-rrd-accept", accept).map(|_| ())
}

/// Serves a connection in a thread of its own, if there is a place for it.
fn admit(mut connection: Box<dyn Connection>, cache: &Arc<Cache>, rules: Rules, places: &Arc<Places>) {
    if !places.take() {
        // A client over the limit gets an answer, not silence.
        let most = places.most;
        let answer = format!("-1 too many connections: {most} are served at once\n");
        let _ = connection.write_all(answer.as_bytes());
        return;
    }
    let (cache, taken) = (cache.clone(), places.clone());
    let started = spawn("khz-rrd-client", move || {
        let _ = converse(&mut *connection, &cache, rules);
        taken.give();
    });
    if started.is_err() {
        places.give();
    }
}

/// Bytes received and not answered yet.
struct Input {
    bytes: Vec<u8>,
    held: usize,
}

impl Input {
    /// Reads more; false at the end.
    fn read(&mut self, connection: &mut dyn Connection) -> io::Result<bool> {
        let read = connection.read(&mut self.bytes[self.held..])?;
        self.held += read;
        Ok(read > 0)
    }

    /// The whole lines.
    fn lines(&self) -> &[u8] {
        let held = &self.bytes[..self.held];
        &held[..held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)]
    }

    /// Removes the first `length` bytes, and makes room for more.
    fn remove(&mut self, length: usize) {
        let was_full = self.held == self.bytes.len();
        self.bytes.copy_within(length..self.held, 0);
        self.held -= length;
        if was_full {
            // A busy client gets a larger buffer, a silent one costs little.
            let larger = (2 * self.bytes.len()).min(READ).max(self.held + READ_AT_FIRST);
            self.bytes.resize(larger, 0);
        }
    }
}

/// Reads lines and answers them until the client is gone.
fn converse(connection: &mut dyn Connection, cache: &Cache, rules: Rules) -> io::Result<()> {
    let mut session = Session::new(cache, rules);
    let mut input = Input { bytes: vec![0; READ_AT_FIRST], held: 0 };
    let mut out = vec![];
    while input.read(connection)? {
        if answer(&mut session, input.lines(), connection, &mut out)? == Next::HangUp {
            return connection.flush();
        }
        input.remove(input.lines().len());
        if input.held > LINE_MAX {
            return connection.write_all(format!("-1 a line of more than {LINE_MAX} bytes\n").as_bytes());
        }
        out.shrink_to(READ);
    }
    Ok(())
}

/// Answers `lines` piece by piece: the client has to take each piece before the next is made.
fn answer(
    session: &mut Session<'_>,
    lines: &[u8],
    connection: &mut dyn Connection,
    out: &mut Vec<u8>,
) -> io::Result<Next> {
    let (mut answered, mut next) = (0, Next::Read);
    while next == Next::Read && answered < lines.len() {
        let (length, then) = session.answer(&lines[answered..], out);
        (answered, next) = (answered + length, then);
        connection.write_all(out)?;
        out.clear();
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_cannot_accept_says_so_once_a_minute() {
        let (mut failures, begin) = (Failures::default(), Instant::now());
        let error = io::Error::from_raw_os_error(24);
        let fail = |failures: &mut Failures, tenths: u64| {
            failures.happened(begin + Duration::from_millis(100 * tenths), &error)
        };
        let lines: Vec<String> = (0..1_300).filter_map(|tenths| fail(&mut failures, tenths)).collect();
        assert_eq!(
            lines,
            [
                "cannot accept connections: Too many open files (os error 24)",
                "cannot accept connections: Too many open files (os error 24), 600 times in the last 60 s",
                "cannot accept connections: Too many open files (os error 24), 600 times in the last 60 s"
            ]
        );
    }
}
