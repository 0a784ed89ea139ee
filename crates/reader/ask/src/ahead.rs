//! Reads an answer ahead of the one who uses it, in a thread of its own. A khz cuts off a client that takes nothing for ten seconds,
//! and a command may need longer for an hour of rows, or wait for who reads its output. It parses nothing.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 128 << 10;

/// How far an answer is read ahead.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// This many bytes as fast as they come.
    fast: usize,
    /// Beyond that a chunk in this time. The khz wants its clients to take much less; but the kernel collects some megabytes of free
    /// room before it tells the other side of them.
    pace: Duration,
    /// At most this much. Then the khz may cut off the answer, which is an error here.
    most: usize,
}

/// Most answers are smaller than 64 MiB; at the slow pace, a megabyte a second, a gigabyte is a quarter of an hour.
const LIMITS: Limits = Limits { fast: 64 << 20, pace: Duration::from_millis(125), most: 1 << 30 };

/// The bytes of an answer.
pub(crate) struct Ahead {
    shared: Arc<Shared>,
    chunk: Vec<u8>,
    /// Bytes of the chunk that are used.
    used: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Something has come, or nothing more comes.
    came: Condvar,
    /// Something was taken.
    taken: Condvar,
}

#[derive(Default)]
struct State {
    chunks: VecDeque<Vec<u8>>,
    /// Bytes in them.
    bytes: usize,
    /// How the answer has ended.
    end: Option<io::Result<()>>,
    /// Nobody uses the answer any more.
    is_left: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until another chunk may be read; false: nobody wants it.
    fn wait_for_room(&self, limits: Limits) -> bool {
        let full = |state: &mut State| !state.is_left && state.bytes >= limits.most;
        let state = self.taken.wait_while(self.state(), full).unwrap_or_else(PoisonError::into_inner);
        let many = |state: &mut State| !state.is_left && state.bytes >= limits.fast;
        let waited = self.taken.wait_timeout_while(state, limits.pace, many);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_left
    }
}

impl Ahead {
    /// Begins to read. The thread ends with the answer, or with the next bytes after this value was dropped.
    pub fn new(answer: impl Read + Send + 'static) -> io::Result<Self> {
        Self::within(answer, LIMITS)
    }

    fn within(mut answer: impl Read + Send + 'static, limits: Limits) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let theirs = shared.clone();
        std::thread::Builder::new().name("answer".into()).spawn(move || {
            while theirs.wait_for_room(limits) {
                let mut chunk = Vec::new();
                let read = answer.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk);
                let mut state = theirs.state();
                state.end = match read {
                    Ok(length @ 1..) => {
                        state.bytes += length;
                        None
                    }
                    ended => Some(ended.map(drop)),
                };
                if !chunk.is_empty() {
                    // What came before an error counts.
                    state.chunks.push_back(chunk);
                }
                let is_over = state.end.is_some();
                drop(state);
                theirs.came.notify_one();
                if is_over {
                    return;
                }
            }
        })?;
        Ok(Ahead { shared, chunk: Vec::new(), used: 0 })
    }
}

impl Read for Ahead {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.used == self.chunk.len() {
            let nothing = |state: &mut State| state.chunks.is_empty() && state.end.is_none();
            let state = self.shared.came.wait_while(self.shared.state(), nothing);
            let mut state = state.unwrap_or_else(PoisonError::into_inner);
            let Some(chunk) = state.chunks.pop_front() else {
                // Once an error, then the end.
                return state.end.replace(Ok(())).unwrap_or(Ok(())).map(|()| 0);
            };
            state.bytes = state.bytes.saturating_sub(chunk.len());
            drop(state);
            self.shared.taken.notify_one();
            (self.chunk, self.used) = (chunk, 0);
        }
        let length = room.len().min(self.chunk.len() - self.used);
        room[..length].copy_from_slice(&self.chunk[self.used..self.used + length]);
        self.used += length;
        Ok(length)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.state().is_left = true;
        self.shared.taken.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// An answer of this many chunks; it says when each is read, and then ends or breaks off.
    struct Answer {
        chunks: u8,
        read: u8,
        at: usize,
        breaks_off: bool,
        said: Sender<u8>,
    }

    fn answer(chunks: u8, breaks_off: bool) -> (Answer, Receiver<u8>) {
        let (said, hears) = channel();
        (Answer { chunks, read: 0, at: 0, breaks_off, said }, hears)
    }

    impl Read for Answer {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            if self.read == self.chunks {
                return if self.breaks_off { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(0) };
            }
            let length = room.len().min(CHUNK_BYTES - self.at);
            room[..length].fill(self.read);
            self.at += length;
            if self.at == CHUNK_BYTES {
                (self.at, self.read) = (0, self.read + 1);
                // In one test nobody listens.
                let _ = self.said.send(self.read);
            }
            Ok(length)
        }
    }

    fn expected(chunks: u8) -> Vec<u8> {
        (0..chunks).flat_map(|chunk| vec![chunk; CHUNK_BYTES]).collect()
    }

    #[test]
    fn an_answer_that_nobody_takes_is_read_on_and_nothing_of_it_is_lost() {
        let limits = Limits { fast: 2 * CHUNK_BYTES, pace: Duration::from_millis(1), most: 6 * CHUNK_BYTES };
        let (answer, read) = answer(9, false);
        let mut ahead = Ahead::within(answer, limits).unwrap();
        // Fast, then slowly; nothing is taken meanwhile.
        assert_eq!(read.iter().take(6).collect::<Vec<u8>>(), [1, 2, 3, 4, 5, 6]);
        let comes = |state: &mut State| state.bytes < limits.most;
        let state = ahead.shared.came.wait_while(ahead.shared.state(), comes).unwrap();
        assert_eq!(state.bytes, limits.most);
        drop(state);
        assert!(read.try_recv().is_err(), "it is full");
        let mut all = Vec::new();
        ahead.read_to_end(&mut all).unwrap();
        assert!(all == expected(9));
        assert_eq!(ahead.read(&mut [0; 9]).unwrap(), 0, "the end stays the end");
    }

    #[test]
    fn an_answer_that_breaks_off_is_an_error_after_what_came_of_it() {
        let (answer, _) = answer(3, true);
        let mut ahead = Ahead::new(answer).unwrap();
        let mut all = vec![0; 3 * CHUNK_BYTES];
        ahead.read_exact(&mut all).unwrap();
        assert!(all == expected(3));
        assert_eq!(ahead.read(&mut [0; 9]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn the_thread_ends_when_nobody_wants_the_answer_any_more() {
        let limits = Limits { fast: CHUNK_BYTES, pace: Duration::from_secs(3_600), most: 2 * CHUNK_BYTES };
        let (answer, read) = answer(9, false);
        let ahead = Ahead::within(answer, limits).unwrap();
        assert_eq!(read.recv(), Ok(1));
        drop(ahead);
        // Whatever it reads until it notices, the other end goes with the thread.
        while read.recv().is_ok() {}
    }
}
