//! The course of one survey: before each step that may block, the surveyor says what it is about to ask, so that others
//! see where it is stuck. Within a step it also says which file it reads: only for people, and for what was never read before.

use std::collections::HashMap;
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use khz_parse::Subject;
use rustix::io::Errno;

use super::Survey;
use super::folder::shown;
use super::threads::{Place, Step, Turn};
use crate::clock;

/// This survey has no text: another thread makes it, or an answer is waited for without which nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Abandoned;

/// One survey of one subject.
pub(super) struct Course<'a> {
    survey: &'a Survey,
    worker: u64,
    index: usize,
    place: &'a Place,
    /// How often each step was begun.
    begun: HashMap<Vec<u8>, usize>,
    /// Instances beyond a limit.
    pub left_out: u64,
    /// Why the first file that should have a number has none, for people.
    pub problem: Option<String>,
    /// True if that was noted in the present step.
    is_of_step: bool,
}

impl<'a> Course<'a> {
    pub fn new(survey: &'a Survey, worker: u64, index: usize, place: &'a Place) -> Self {
        let begun = HashMap::new();
        Course { survey, worker, index, place, begun, left_out: 0, problem: None, is_of_step: false }
    }

    pub fn subject(&self) -> Subject {
        self.survey.subjects[self.index]
    }

    /// Begins a step, for whose answer the whole survey waits. `false`: leave it out, because another thread is stuck at it.
    pub fn begin(&mut self, item: &[u8]) -> Result<bool, Abandoned> {
        Ok(self.turn((item.to_owned(), 0), false)? == Turn::Take)
    }

    /// Begins a step whose latest answer the surveyor keeps, together with its number: if it takes long, another thread goes on with
    /// this survey, and writes what was kept.
    pub fn begin_apart(&mut self, item: &[u8]) -> Result<(Turn, usize), Abandoned> {
        let count = self.begun.entry(item.to_owned()).or_default();
        let number = *count;
        *count += 1;
        let turn = self.turn((item.to_owned(), number), true)?;
        if let Turn::Keep(problem) = &turn {
            self.note(|| problem.clone());
        }
        Ok((turn, number))
    }

    fn turn(&mut self, step: Step, is_apart: bool) -> Result<Turn, Abandoned> {
        let problem = self.problem_of_step();
        let mut state = self.survey.lock();
        let turn = state.threads.begin(self.worker, step, is_apart, problem, clock::boot());
        self.survey.step_since.store(state.threads.oldest_step(), Ordering::Relaxed);
        drop(state);
        self.is_of_step = false;
        turn.ok_or(Abandoned)
    }

    /// What was wrong in the present step.
    pub fn problem_of_step(&self) -> Option<String> {
        self.problem.clone().filter(|_| self.is_of_step)
    }

    /// All steps have ended, and the surveyor is about to change what it keeps of the whole survey.
    pub fn close(&mut self) -> Result<(), Abandoned> {
        let problem = self.problem_of_step();
        let is_made = self.survey.lock().threads.end_step(self.worker, problem).is_some();
        if is_made { Ok(()) } else { Err(Abandoned) }
    }

    /// The file at which a thread is stuck in this step; empty: it has not said so.
    pub fn stuck_file(&self, item: &[u8]) -> Vec<u8> {
        let state = self.survey.lock();
        let place = state.threads.stuck_in(self.index, item).map(|stuck| stuck.place.clone());
        place.map(|place| place.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }

    /// Notes why a file that should have a number has none, unless another one before it had none.
    pub fn note(&mut self, problem: impl FnOnce() -> Option<String>) {
        if self.problem.is_none() {
            self.problem = problem();
            self.is_of_step = self.problem.is_some();
        }
    }

    /// The same of a file or folder that the kernel refuses.
    pub fn note_refused(&mut self, path: &Path, errno: Errno) {
        self.note(|| Some(format!("{}: {}", shown(path), std::io::Error::from(errno))));
    }

    /// Where it says which file it reads.
    pub fn whereabouts(&self) -> Whereabouts<'a> {
        Whereabouts(self.place)
    }
}

/// Where a survey says which file it is about to read.
#[derive(Clone, Copy)]
pub(super) struct Whereabouts<'a>(&'a Place);

impl Whereabouts<'_> {
    /// This file of a folder is read next; without a file, the folder itself.
    pub fn reads(self, folder: &Path, file: &[u8]) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.clear();
        place.extend(folder.as_os_str().as_encoded_bytes());
        if !file.is_empty() {
            place.push(b'/');
            place.extend(file);
        }
    }
}
