//! One connection to a caching daemon, ours or rrdcached: batches of updates, requests, counts. Stops at the
//! first update that is refused.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::tree::sample;
use crate::error::BenchError;

/// Updates in a batch.
const BATCH: usize = 1000;

/// A connection.
pub struct Connection {
    stream: BufReader<UnixStream>,
}

impl Connection {
    /// Connects to the socket.
    pub fn open(socket: &Path) -> Result<Self, BenchError> {
        let stream = UnixStream::connect(socket).map_err(BenchError::file(socket))?;
        Ok(Connection { stream: BufReader::new(stream) })
    }

    /// Sends a line; returns the status text and the lines after it.
    pub fn ask(&mut self, line: &str) -> Result<(String, Vec<String>), BenchError> {
        let failed = BenchError::file("the daemon's socket");
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes()).map_err(failed)?;
        let status = self.read()?;
        let count = status.split(' ').next().and_then(|word| word.parse::<i64>().ok()).unwrap_or(-1);
        if count < 0 {
            return Err(BenchError::Reply(format!("'{line}' was answered with '{status}'")));
        }
        let lines = (0..count).map(|_| self.read()).collect::<Result<_, _>>()?;
        Ok((status, lines))
    }

    /// Sends a batch made by [`batches`]; the daemon must accept all of it.
    pub fn send(&mut self, batch: &[u8]) -> Result<(), BenchError> {
        self.stream.get_mut().write_all(batch).map_err(BenchError::file("the daemon's socket"))?;
        self.read()?; // "0 Go ahead"
        let status = self.read()?;
        if status.starts_with("0 ") {
            return Ok(());
        }
        Err(BenchError::Reply(format!("a batch ended with '{status}', first '{}'", self.read()?)))
    }

    /// Sends a batch that the daemon may have already, in part. Returns how many of its updates it had.
    pub fn send_again(&mut self, batch: &[u8]) -> Result<u64, BenchError> {
        self.stream.get_mut().write_all(batch).map_err(BenchError::file("the daemon's socket"))?;
        self.read()?; // "0 Go ahead"
        let status = self.read()?;
        let refused = status.split(' ').next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        for _ in 0..refused {
            let reason = self.read()?;
            if !reason.contains("illegal attempt to update using time") {
                return Err(BenchError::Reply(format!("an update that was sent again: '{reason}'")));
            }
        }
        Ok(refused)
    }

    /// The counts of `STATS`.
    pub fn stats(&mut self) -> Result<HashMap<String, u64>, BenchError> {
        let (_, lines) = self.ask("STATS")?;
        let pair = |line: String| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Ok(lines.into_iter().filter_map(pair).collect())
    }

    fn read(&mut self) -> Result<String, BenchError> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).map_err(BenchError::file("the daemon's socket"))?;
        if read == 0 {
            return Err(BenchError::Reply("the daemon hung up".into()));
        }
        Ok(line.trim_end().to_owned())
    }
}

/// One update of each of `paths` with the sample for `time`, in batches ready to send.
pub fn batches<'a>(paths: impl Iterator<Item = &'a PathBuf>, time: i64) -> Vec<Vec<u8>> {
    let (sample, mut all) = (sample(time), Vec::new());
    let mut paths = paths.peekable();
    while paths.peek().is_some() {
        let mut bytes = b"BATCH\n".to_vec();
        for path in paths.by_ref().take(BATCH) {
            bytes.extend_from_slice(format!("UPDATE {} {sample}\n", path.display()).as_bytes());
        }
        bytes.extend_from_slice(b".\n");
        all.push(bytes);
    }
    all
}
