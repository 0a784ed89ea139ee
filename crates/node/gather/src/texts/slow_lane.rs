//! The thread of the slow lane: it reads each wanted file when it is due, passes on what changed, and ends
//! when no file is wanted. It opens no file itself. A reader thread does, and the slow lane abandons it if a
//! read takes too long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::Stamp;

use super::reader::{Outcome, Reader};
use super::{AT_ONCE, DEADLINE, SHARE, STUCK_MAX, Shared, TextError, TextTaker};
use crate::clock;

/// The stack of the thread: its deepest call packs a text.
const STACK_BYTES: usize = 256 << 10;

/// The thread's own state. While no thread runs, it is in [`Shared`].
pub(super) struct SlowLane {
    taker: Box<dyn TextTaker>,
    reader: Option<Reader>,
    /// Readers that are stuck in the kernel, with the file of each.
    stuck: Vec<(String, Reader)>,
    /// The time at which the reads until now are paid for, at the share that reading may take.
    spent_until: Instant,
}

/// Starts the thread, which runs until no file is wanted.
pub(super) fn start(shared: Arc<Shared>) -> std::io::Result<()> {
    let run = move || {
        let Some(mut lane) = shared.lock().asleep.take() else { return };
        loop {
            lane.run(&shared);
            let mut state = shared.lock();
            if state.wants.is_empty() {
                (state.asleep, state.is_awake) = (Some(lane), false);
                return;
            }
        }
    };
    std::thread::Builder::new().name("texts".into()).stack_size(STACK_BYTES).spawn(run).map(drop)
}

impl SlowLane {
    pub fn new(taker: Box<dyn TextTaker>) -> Self {
        SlowLane { taker, reader: None, stuck: Vec::new(), spent_until: Instant::now() }
    }

    fn run(&mut self, shared: &Shared) {
        while let Some((number, path, ask)) = self.next(shared) {
            let text = self.look(shared, &path);
            self.hand_over(shared, number, text);
            if let Some(ask) = ask {
                self.taker.given(number, ask);
            }
        }
        self.reader = None;
    }

    /// Waits until a file is due and has room for its text; returns the file and the ask that it answers.
    /// `None` if no file is wanted any more.
    fn next(&mut self, shared: &Shared) -> Option<(u64, String, Option<u32>)> {
        let mut state = shared.lock();
        loop {
            let (number, due) = state.wants.next()?;
            let now = Instant::now();
            let until = due.max(self.spent_until.checked_sub(AT_ONCE * SHARE).unwrap_or(now));
            if now < until {
                let waited = shared.bell.wait_timeout(state, until - now);
                state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
                continue;
            }
            // The last text was not sent yet: the link is slow.
            if !self.taker.has_room(number) {
                state.wants.leave_out(number, now);
                continue;
            }
            return state.wants.look_at(number, now).map(|(path, ask)| (number, path, ask));
        }
    }

    /// Reads a file in a reader thread.
    fn look(&mut self, shared: &Shared, path: &str) -> Result<(Vec<u8>, Stamp), TextError> {
        self.stuck.retain(|(_, reader)| !reader.has_come_back());
        if self.stuck.iter().any(|(stuck, _)| stuck == path) {
            return Err(TextError::Stuck { path: path.to_owned() });
        }
        if self.stuck.len() >= STUCK_MAX {
            return Err(TextError::Crowded);
        }
        let no_thread = |error: std::io::Error| TextError::Failed {
            path: path.to_owned(),
            errno: rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::AGAIN),
        };
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => Reader::start(shared.door.clone()).map_err(no_thread)?,
        };
        shared.lock().counts.reads += 1;
        match reader.read(path, DEADLINE) {
            Some(Outcome { text, took }) => {
                self.reader = Some(reader);
                self.spend(took);
                text.map(|text| (text, clock::stamp()))
            }
            None => {
                shared.lock().counts.stuck += 1;
                self.stuck.push((path.to_owned(), reader));
                Err(TextError::Stuck { path: path.to_owned() })
            }
        }
    }

    /// Counts the CPU time of reading and packing.
    fn spend(&mut self, took: Duration) {
        self.spent_until = self.spent_until.max(Instant::now()) + took * SHARE;
    }

    /// Passes on a text or an error if it is new.
    fn hand_over(&mut self, shared: &Shared, number: u64, text: Result<(Vec<u8>, Stamp), TextError>) {
        let mut state = shared.lock();
        // The want may have ended meanwhile.
        let Some(want) = state.wants.get_mut(number) else { return };
        match text {
            Ok((text, stamp)) => {
                let is_same = want.last.as_deref() == Some(&text[..]) && want.problem.is_none();
                if is_same {
                    return;
                }
                let text: Arc<[u8]> = text.into();
                want.last = Some(text.clone());
                want.problem = None;
                state.counts.texts += 1;
                drop(state);
                let before = clock::thread_cpu();
                self.taker.text(number, &text, stamp);
                self.spend(clock::thread_cpu().since(before).into());
            }
            Err(error) if want.problem.as_ref() == Some(&error) => {}
            Err(error) => {
                want.problem = Some(error.clone());
                want.last = None;
                state.counts.refused += 1;
                drop(state);
                self.taker.failed(number, &error);
            }
        }
    }
}
