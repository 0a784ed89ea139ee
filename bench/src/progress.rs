//! The progress of a run on stderr: which section of how many, which step, how long it has taken and will
//! take. A thread prints it regularly, so that a section without messages is not silent.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::section::in_words;

/// A person who waits wants a sign of life this often; one wake-up in this time does not disturb the
/// measurement.
const BETWEEN_LINES: Duration = Duration::from_secs(15);
/// Steps that follow each other faster are not all told: nobody reads a thousand lines.
const BETWEEN_STEPS: Duration = Duration::from_secs(1);

/// A run's progress. After it is dropped nothing more is printed.
pub struct Progress {
    state: Arc<Mutex<State>>,
    end: Option<Sender<()>>,
    teller: Option<JoinHandle<()>>,
}

struct State {
    started: Instant,
    last_line: Instant,
    /// The present section: `agent (6 of 7)`, when it began, and its stated seconds.
    section: Option<(String, Instant, u64)>,
    step: String,
}

impl Progress {
    /// Starts now.
    pub fn start() -> Self {
        let now = Instant::now();
        let state = State { started: now, last_line: now, section: None, step: String::new() };
        let state = Arc::new(Mutex::new(state));
        let (end, ended) = channel();
        let shared = Arc::clone(&state);
        // Without the thread a run prints less, and measures the same.
        let teller = std::thread::Builder::new().name("progress".into()).spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(BETWEEN_LINES) {
                let mut state = lock(&shared);
                if state.last_line.elapsed() >= BETWEEN_LINES && state.section.is_some() {
                    state.tell();
                }
            }
        });
        Progress { state, end: Some(end), teller: teller.ok() }
    }

    /// Begins a section that takes about this many seconds.
    pub fn section(&self, name: &str, number: usize, of: usize, seconds: u64) {
        let mut state = lock(&self.state);
        state.section = Some((format!("{name} ({number} of {of})"), Instant::now(), seconds));
        state.step = String::new();
        state.tell();
    }

    /// Begins a step of the section. It is told if the line before is a second old.
    pub fn step(&self, what: &str) {
        let mut state = lock(&self.state);
        state.step = what.to_owned();
        if state.last_line.elapsed() >= BETWEEN_STEPS {
            state.tell();
        }
    }
}

impl State {
    fn tell(&mut self) {
        self.last_line = Instant::now();
        eprintln!("{}", self.line(self.last_line));
    }

    fn line(&self, now: Instant) -> String {
        let so_far = (now - self.started).as_secs();
        let Some((section, began, stated)) = &self.section else {
            return format!("[{so_far:4} s] {}", self.step);
        };
        let taken = (now - *began).as_secs();
        let left = match stated.checked_sub(taken) {
            Some(left) if left > 0 => format!("about {} left", in_words(left)),
            _ => format!("longer than the {} that it states", in_words(*stated)),
        };
        let step = if self.step.is_empty() { String::new() } else { format!(": {}", self.step) };
        format!("[{so_far:4} s] {section}{step}; {left}")
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end = None; // which wakes the thread
        if let Some(teller) = self.teller.take() {
            let _ = teller.join();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_section_step_and_the_time_left() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut state = State { started: start, last_line: start, section: None, step: "building".into() };
        assert_eq!(state.line(at(3)), "[   3 s] building");
        state.section = Some(("agent (2 of 7)".into(), at(60), 540));
        state.step = String::new();
        assert_eq!(state.line(at(60)), "[  60 s] agent (2 of 7); about 9 min left");
        state.step = "10 Hz, turn 3 of 20".into();
        assert_eq!(state.line(at(560)), "[ 560 s] agent (2 of 7): 10 Hz, turn 3 of 20; about 40 s left");
        let late = "[ 700 s] agent (2 of 7): 10 Hz, turn 3 of 20; longer than the 9 min that it states";
        assert_eq!(state.line(at(700)), late);
    }
}
