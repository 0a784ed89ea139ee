//! The thread that opens and reads kernel files, one at a time. It may be stuck in the kernel for ever; a
//! caller waits only for a limited time and then abandons it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::TextError;
use super::door::TextDoor;
use super::list::list;
use crate::clock;

/// The stack of the thread: its deepest call reads a directory.
const STACK_BYTES: usize = 128 << 10;

/// The result of reading a file, and the CPU time that it took.
pub(super) struct Outcome {
    pub text: Result<Vec<u8>, TextError>,
    pub took: Duration,
}

/// The handle of the thread. Dropping it ends the thread as soon as the kernel releases it.
#[derive(Debug)]
pub(super) struct Reader {
    jobs: Sender<String>,
    done: Receiver<Outcome>,
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outcome").field("took", &self.took).finish_non_exhaustive()
    }
}

impl Reader {
    pub fn start(door: Arc<TextDoor>) -> std::io::Result<Self> {
        let (jobs, todo) = channel::<String>();
        let (tell, done) = channel();
        let work = move || {
            for path in todo {
                let before = clock::thread_cpu();
                let text = match path.as_str() {
                    "" => list(&door).map_err(|errno| TextError::Failed { path: String::new(), errno }),
                    path => door.read(path),
                };
                let took = Duration::from(clock::thread_cpu().since(before));
                // The caller has abandoned this thread.
                if tell.send(Outcome { text, took }).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("texts-read".into()).stack_size(STACK_BYTES).spawn(work)?;
        Ok(Reader { jobs, done })
    }

    /// Reads a file, or makes the list if the path is empty; `None` if that takes longer than `longest`.
    pub fn read(&self, path: &str, longest: Duration) -> Option<Outcome> {
        let ended = |path: &str| {
            let path = path.to_owned();
            let text = Err(TextError::Failed { path, errno: rustix::io::Errno::IO });
            Outcome { text, took: Duration::ZERO }
        };
        if self.jobs.send(path.to_owned()).is_err() {
            return Some(ended(path));
        }
        match self.done.recv_timeout(longest) {
            Ok(outcome) => Some(outcome),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(ended(path)),
        }
    }

    /// True when the read that was abandoned has ended.
    pub fn has_come_back(&self) -> bool {
        !matches!(self.done.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty))
    }
}
