//! The course of one survey: before each step that may block, the surveyor says what it is about to ask, so that others
//! see where it is stuck. Within a step it also says which file it reads: only for people, and for what was never read before.

use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use khz_parse::Subject;
use rustix::io::Errno;

use super::folder::shown;
use super::{Step, Survey};
use crate::clock;

/// Another thread has taken this one's place while it was stuck: it has nothing to do any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Abandoned;

/// One survey of one subject.
pub(super) struct Course<'a> {
    pub survey: &'a Survey,
    pub worker: u64,
    pub subject: Subject,
    /// Instances beyond a limit.
    pub left_out: u64,
    /// Why the first file that should have a number has none, for people.
    pub problem: Option<String>,
}

impl<'a> Course<'a> {
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// Begins a step. `false`: leave it out, because another thread is stuck at it.
    pub fn begin(&mut self, item: &[u8]) -> Result<bool, Abandoned> {
        let mut state = self.survey.lock();
        if state.worker != self.worker {
            return Err(Abandoned);
        }
        if state.stuck.iter().any(|stuck| stuck.step.is_of(self.subject, item)) {
            return Ok(false);
        }
        state.step = Some(Step { subject: self.subject, item: item.to_owned() });
        self.whereabouts().clear();
        self.survey.step_since.store(clock::boot().0, Ordering::Relaxed);
        Ok(true)
    }

    /// The file at which a thread is stuck in this step; empty: it has not said so.
    pub fn stuck_file(&self, item: &[u8]) -> Vec<u8> {
        let state = self.survey.lock();
        let stuck = state.stuck.iter().find(|stuck| stuck.step.is_of(self.subject, item));
        stuck.map(|stuck| stuck.file.clone()).unwrap_or_default()
    }

    /// Notes why a file that should have a number has none, unless another one before it had none.
    pub fn note(&mut self, problem: impl FnOnce() -> Option<String>) {
        if self.problem.is_none() {
            self.problem = problem();
        }
    }

    /// The same of a file or folder that the kernel refuses.
    pub fn note_refused(&mut self, path: &Path, errno: Errno) {
        self.note(|| Some(format!("{}: {}", shown(path), std::io::Error::from(errno))));
    }

    /// Where it says which file it reads.
    pub fn whereabouts(&self) -> Whereabouts<'a> {
        Whereabouts { survey: self.survey, worker: self.worker }
    }
}

/// Where a survey says which file it is about to read.
#[derive(Clone, Copy)]
pub(super) struct Whereabouts<'a> {
    survey: &'a Survey,
    worker: u64,
}

impl Whereabouts<'_> {
    /// This file of a folder is read next; without a file, the folder itself.
    pub fn reads(self, folder: &Path, file: &[u8]) {
        let mut place = self.survey.file.lock().unwrap_or_else(PoisonError::into_inner);
        // A thread that was given up and comes back must not speak for the present one.
        if self.worker >= place.0 {
            place.0 = self.worker;
            place.1.clear();
            place.1.extend(folder.as_os_str().as_encoded_bytes());
            if !file.is_empty() {
                place.1.push(b'/');
                place.1.extend(file);
            }
        }
    }

    fn clear(self) {
        let mut place = self.survey.file.lock().unwrap_or_else(PoisonError::into_inner);
        if self.worker >= place.0 {
            *place = (self.worker, Vec::new());
        }
    }
}
