//! The course of one survey: before each step that may block, the surveyor says what it is about to ask, so that others
//! see where it is stuck.

use std::sync::atomic::Ordering;

use khz_parse::Subject;

use super::Survey;
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
}

impl Course<'_> {
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// Begins a step. `false`: leave it out, because another thread is stuck at it.
    pub fn begin(&mut self, item: &[u8]) -> Result<bool, Abandoned> {
        let mut state = self.survey.lock();
        if state.worker != self.worker {
            return Err(Abandoned);
        }
        if state.stuck.iter().any(|(_, subject, stuck)| *subject == self.subject && stuck == item) {
            return Ok(false);
        }
        state.step = Some((self.subject, item.to_owned()));
        self.survey.step_since.store(clock::boot().0, Ordering::Relaxed);
        Ok(true)
    }
}
