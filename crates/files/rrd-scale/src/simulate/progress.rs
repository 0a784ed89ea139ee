//! How far long work has come, on a terminal: one line on stderr, which the end removes.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nothing is printed before, and more often.
const PAUSE: Duration = Duration::from_secs(1);

/// Work in progress; counted by several threads.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    all: u64,
    done: AtomicU64,
    printed: Mutex<Instant>,
    /// Whether somebody sees it.
    is_seen: bool,
}

impl Progress {
    /// Begins work of `all` parts.
    pub fn start(what: &'static str, all: u64) -> Self {
        let is_seen = std::io::stderr().is_terminal();
        Self { what, all: all.max(1), done: AtomicU64::new(0), printed: Mutex::new(Instant::now()), is_seen }
    }

    /// `parts` more are done.
    pub fn add(&self, parts: u64) {
        let done = self.done.fetch_add(parts, Ordering::Relaxed) + parts;
        if !self.is_seen {
            return;
        }
        // Another thread is printing: that will do.
        if let Ok(mut printed) = self.printed.try_lock()
            && printed.elapsed() >= PAUSE
        {
            *printed = Instant::now();
            self.print(&format!("{}: {} %", self.what, 100 * done / self.all));
        }
    }

    fn print(&self, line: &str) {
        // A failure cannot be reported anywhere.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_seen {
            self.print("");
        }
    }
}
