//! The thread that makes surveys: one subject after the other, whenever one is wanted. It ends when all is over, or when
//! it was given up and comes back.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use khz_model::instance::kernel_text;
use khz_model::printable::printable;
use khz_parse::Subject;
use khz_parse::survey::unescaped;

use super::course::Course;
use super::{Step, Stuck, Survey};
use crate::clock;

/// The stack of the thread: its deepest call lists a folder, its largest buffer has 4 KiB.
const STACK_BYTES: usize = 128 << 10;

/// Starts the thread with this number.
pub(super) fn start(survey: Arc<Survey>, number: u64) -> std::io::Result<()> {
    let run = move || {
        run(&survey, number);
        // If it was given up, it is stuck no more.
        let mut state = survey.lock();
        state.stuck.retain(|stuck| stuck.worker != number);
        survey.counts.stuck.store(state.stuck.len() as u64, Ordering::Relaxed);
    };
    std::thread::Builder::new().name("survey".into()).stack_size(STACK_BYTES).spawn(run).map(drop)
}

fn run(survey: &Survey, number: u64) {
    while let Some((index, subject)) = next(survey, number) {
        let (start, before) = (clock::boot(), clock::thread_cpu());
        let mut course = Course { survey, worker: number, subject, left_out: 0, problem: None };
        let Ok(answer) = (survey.surveyor)(&mut course) else { return };
        let mut state = survey.lock();
        if state.worker != number {
            return;
        }
        state.step = None;
        survey.step_since.store(0, Ordering::Relaxed);
        let cost = clock::thread_cpu().since(before);
        state.took[index] = clock::boot().since(start);
        survey.costs[index].store(cost.0, Ordering::Relaxed);
        state.answers[index] = Some(answer);
        state.left_out[index] = course.left_out;
        state.problems[index] = course.problem;
        survey.counts.left_out.store(state.left_out.iter().sum(), Ordering::Relaxed);
        survey.versions[index].fetch_add(1, Ordering::Release);
        survey.counts.surveys.fetch_add(1, Ordering::Relaxed);
        survey.counts.cpu.fetch_add(cost.0, Ordering::Relaxed);
        if state.wanted == 0 {
            survey.made.notify_all();
        }
    }
}

/// Sleeps until a subject is wanted; `None`: there is nothing more to do for this thread.
fn next(survey: &Survey, number: u64) -> Option<(usize, Subject)> {
    let mut state = survey.lock();
    loop {
        if state.is_over || state.worker != number {
            return None;
        }
        let index = state.wanted.trailing_zeros() as usize;
        if let Some(&subject) = survey.subjects.get(index) {
            state.wanted &= state.wanted - 1;
            // A thread that waits for all answers must see that this one is still to come.
            state.step = Some(Step { subject, item: Vec::new() });
            return Some((index, subject));
        }
        state = survey.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// A subject in words.
pub(super) fn named(subject: Subject) -> &'static str {
    match subject {
        Subject::FileSystems => "file systems",
        Subject::Interfaces => "network interfaces",
        Subject::Throttling => "throttled processors",
        Subject::Clock => "the clock",
        Subject::Disks => "disks",
        Subject::Sensors => "sensors",
        Subject::ControlGroups => "control groups",
        Subject::Logins => "users that are logged in",
        Subject::Processes => "processes",
        Subject::TextFiles => "files of numbers (*.prom)",
        Subject::Tree(name) => name,
    }
}

/// What does not answer, in words: its name may have any bytes.
pub(super) fn called(stuck: &Stuck) -> String {
    let shown = |bytes: &[u8]| printable(&kernel_text(bytes)).into_owned();
    let (subject, item) = (stuck.step.subject, &stuck.step.item);
    match subject {
        Subject::FileSystems if item.is_empty() => "the list of mounted file systems".to_owned(),
        Subject::FileSystems => format!("the file system at {}", shown(&unescaped(item))),
        Subject::TextFiles if !item.is_empty() => shown(item),
        _ if !stuck.file.is_empty() => shown(&stuck.file),
        Subject::Sensors | Subject::Tree(_) if !item.is_empty() => format!("the driver of /{}", shown(item)),
        _ => format!("the kernel, asked about {},", named(subject)),
    }
}
