//! The finished text of a subject, as a source reads it: whether it is new, and a copy of it. It asks for no survey.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_parse::Subject;
use rustix::io::Errno;

use super::Survey;

/// The text of one subject, as one source reads it.
#[derive(Clone)]
pub(crate) struct SurveyText {
    survey: Arc<Survey>,
    /// The number of its subject; beyond all: it is not surveyed.
    number: usize,
    /// The answer that was read last.
    read: u64,
    /// Why the first file that should have a number has none in that answer.
    problem: Option<String>,
}

impl std::fmt::Debug for SurveyText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let subject = self.survey.subjects.get(self.number);
        f.debug_struct("SurveyText").field("subject", &subject).finish_non_exhaustive()
    }
}

impl SurveyText {
    pub fn new(survey: &Arc<Survey>, subject: Subject) -> Self {
        let number = survey.number_of(subject).unwrap_or(usize::MAX);
        SurveyText { survey: survey.clone(), number, read: 0, problem: None }
    }

    /// True when there is an answer that was not read yet.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.survey.versions.get(self.number).is_some_and(|made| made.load(Ordering::Acquire) != self.read)
    }

    /// Why the first file that should have a number has none in the text that was read last, for people.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Copies the latest text into the buffer; returns its length.
    #[cold]
    pub fn read(&mut self, buffer: &mut Vec<u8>) -> Result<usize, Errno> {
        let state = self.survey.lock();
        self.problem = state.problems.get(self.number).cloned().flatten();
        self.read = self.survey.versions.get(self.number).map_or(0, |made| made.load(Ordering::Acquire));
        let text = match state.answers.get(self.number).and_then(Option::as_ref) {
            Some(answer) => answer.as_ref().map_err(|errno| *errno)?,
            None => return Err(Errno::AGAIN),
        };
        if buffer.len() < text.len() {
            buffer.resize(text.len(), 0);
        }
        buffer[..text.len()].copy_from_slice(text);
        Ok(text.len())
    }
}
