//! The course of one survey: before each step that may block, the surveyor notes what it will read, so that others see where
//! it is stuck. Within a step it also notes the file: only for people, and for folders that were never read.

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

/// For how many files of a survey the log says why they have no number: all of them are in one line.
const PROBLEMS_MAX: usize = 16;

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
    /// Why files that should have a number have none, for people: at most one of each step.
    problems: Vec<String>,
    /// Those beyond the most.
    problems_more: usize,
    /// That of the present step.
    problem: Option<String>,
    /// That a limit cuts the list of instances, for people.
    cut: Option<String>,
}

impl<'a> Course<'a> {
    pub fn new(survey: &'a Survey, worker: u64, index: usize, place: &'a Place) -> Self {
        let begun = HashMap::new();
        Course {
            survey,
            worker,
            index,
            place,
            begun,
            left_out: 0,
            problems: Vec::new(),
            problems_more: 0,
            problem: None,
            cut: None,
        }
    }

    pub fn subject(&self) -> Subject {
        self.survey.subjects[self.index]
    }

    /// Begins a step, for whose answer the whole survey waits. `false`: leave it out, because another thread is stuck at it.
    pub fn begin(&mut self, item: &[u8]) -> Result<bool, Abandoned> {
        Ok(self.turn((item.to_owned(), 0), false)? == Turn::Take)
    }

    /// Begins a step whose latest answer the surveyor keeps, and returns the step's number. If the step takes long, another thread
    /// continues this survey, and writes the kept answer.
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
        self.problem = None;
        turn.ok_or(Abandoned)
    }

    /// What was wrong in the present step.
    pub fn problem_of_step(&self) -> Option<String> {
        self.problem.clone()
    }

    /// What was wrong in all steps, in one sentence, and how a limit cuts the list.
    pub fn into_problems(self) -> (Option<String>, Option<String>) {
        let more = match self.problems_more {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        ((!self.problems.is_empty()).then(|| self.problems.join("; ") + &more), self.cut)
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

    /// Notes why a file that should have a number has none, unless another one of this step had none.
    pub fn note(&mut self, problem: impl FnOnce() -> Option<String>) {
        if self.problem.is_some() {
            return;
        }
        self.problem = problem();
        match &self.problem {
            Some(problem) if self.problems.len() < PROBLEMS_MAX => self.problems.push(problem.clone()),
            Some(_) => self.problems_more += 1,
            None => {}
        }
    }

    /// The same of a file or folder that the kernel refuses.
    pub fn note_refused(&mut self, path: &Path, errno: Errno) {
        self.note(|| Some(format!("{}: {}", shown(path), std::io::Error::from(errno))));
    }

    /// Notes that a limit cuts the list of instances: how many are left out, and why. The log says so once, with the number of that time.
    pub fn note_left_out(&mut self, what: String) {
        self.cut = Some(what);
    }

    /// Notes what is wrong with the survey as a whole.
    pub fn note_of_all(&mut self, problem: String) {
        self.problems.insert(0, problem);
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
