//! Which files are to be written, and in which order: in rounds, sorted by their place on disk. Files that failed rest in
//! [`Retries`]. Knows nothing of how a file is written.

use std::cmp::Reverse;

use super::backlog::{Backlog, FileId, Flags};
use super::effects::Wake;
use super::retries::Retries;
use khz_rrd::error::Error;

/// Files that one writer takes from a round at once.
const CHUNK: usize = 256;

/// Files to be written.
#[derive(Default)]
pub struct Queue {
    /// The next round.
    next: Vec<FileId>,
    /// The current round, the last file first.
    round: Vec<FileId>,
    retries: Retries,
}

impl Queue {
    /// How many files wait to be written.
    pub fn len(&self) -> usize {
        self.next.len() + self.round.len() + self.retries.len()
    }

    /// Whether no file waits but those that rest after a failure.
    pub fn is_idle(&self) -> bool {
        self.next.is_empty() && self.round.is_empty()
    }

    /// Every file that waits, in the order of writing.
    pub fn ids(&self) -> impl Iterator<Item = FileId> {
        self.round.iter().rev().chain(&self.next).copied().chain(self.retries.ids())
    }

    /// Adds a file to the next round.
    pub fn push(&mut self, id: FileId) -> Wake {
        self.next.push(id);
        if self.next.len() == 1 { Wake::One } else { Wake::Nobody }
    }

    /// Takes the next files out and claims them; at the daemon's end (`is_ending`) also those that rest.
    pub fn take_chunk(&mut self, backlog: &mut Backlog, now: u32, is_ending: bool) -> Vec<FileId> {
        self.next.extend(self.retries.ripe(now, is_ending));
        if self.round.is_empty() {
            self.begin_round(backlog);
        }
        let mut chunk = vec![];
        while chunk.len() < CHUNK {
            let Some(id) = self.round.pop() else { break };
            if backlog.file(id).is(Flags::CLAIMED) {
                self.retries.wait(id, now);
                continue;
            }
            backlog.set(id, Flags::QUEUED, false);
            if backlog.file(id).count() > 0 && !backlog.file(id).is(Flags::SUSPENDED) {
                backlog.set(id, Flags::CLAIMED, true);
                chunk.push(id);
            }
        }
        chunk
    }

    fn begin_round(&mut self, backlog: &Backlog) {
        self.round = std::mem::take(&mut self.next);
        self.round.sort_unstable_by_key(|id| Reverse(backlog.file(*id).place()));
    }

    /// Whether the current round has more files.
    pub fn has_more(&self) -> bool {
        !self.round.is_empty()
    }

    /// A file was written, or nothing waits for it any more.
    pub fn succeeded(&mut self, id: FileId) {
        self.retries.end(id);
    }

    /// The write of a file failed; true if the administrator should hear of it.
    pub fn failed(&mut self, id: FileId, error: &Error) -> bool {
        self.retries.fail(id, error)
    }

    /// Lets a file that failed rest until its next attempt.
    pub fn rest(&mut self, id: FileId, now: u32) {
        self.retries.rest(id, now);
    }

    /// Shortens each rest to that after a first failure, because room is needed.
    pub fn hurry(&mut self, now: u32) {
        self.retries.hurry(now);
    }

    /// How many files failed when they were written last.
    pub fn failed_count(&self) -> usize {
        self.retries.failed()
    }

    /// Files that failed because they do not exist; each is returned once for each failure.
    pub fn missing(&mut self) -> Vec<FileId> {
        self.retries.missing()
    }

    /// A line about the files that go on failing, when it is time for one.
    pub fn summary(&mut self, now: u32) -> Option<String> {
        self.retries.summary(now)
    }
}
