//! A thread that makes surveys: one subject after the other, whenever one is wanted. It ends with the surveys, or when another
//! thread has taken its place while it was blocked.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use khz_model::instance::kernel_text;
use khz_model::printable::printable;
use khz_parse::Subject;
use khz_parse::survey::unescaped;

use super::course::Course;
use super::file_systems::place_of;
use super::threads::{Place, Thread};
use super::{CUT_TOLD_AGAIN, Survey};
use crate::clock;

/// The stack of the thread: its deepest call lists a folder, its largest buffer has 4 KiB.
const STACK_BYTES: usize = 128 << 10;

/// Starts the thread with this number.
pub(super) fn start(survey: Arc<Survey>, number: u64) -> std::io::Result<()> {
    let run = move || {
        run(&survey, number);
        survey.lock().threads.has_left(number);
    };
    std::thread::Builder::new().name("survey".into()).stack_size(STACK_BYTES).spawn(run).map(drop)
}

fn run(survey: &Survey, number: u64) {
    let place = Place::default();
    while let Some(index) = next(survey, number, &place) {
        let (start, before) = (clock::boot(), clock::thread_cpu());
        let mut course = Course::new(survey, number, index, &place);
        let answer = (survey.surveyor)(&mut course);
        let (mut news, mut news_of_cut) = (None, None);
        let mut state = survey.lock();
        let is_made = state.threads.end(number, course.problem_of_step());
        survey.step_since.store(state.threads.oldest_step(), Ordering::Relaxed);
        survey.counts.stuck.store(state.threads.stuck() as u64, Ordering::Relaxed);
        if let (true, Ok(answer)) = (is_made, answer) {
            let cost = clock::thread_cpu().since(before);
            state.took[index] = clock::boot().since(start);
            survey.costs[index].store(cost.0, Ordering::Relaxed);
            state.answers[index] = Some(answer);
            state.left_out[index] = course.left_out;
            let (problem, cut) = course.into_problems();
            // A file system returns its sizes, or is not there. Files of other subjects may have no number again and again.
            let is_news = survey.subjects[index] == Subject::FileSystems && problem != state.told[index];
            news = problem.clone().filter(|_| is_news);
            if cut.is_some() {
                let now = clock::boot();
                let before = state.cut[index].replace(now);
                let is_news = before.is_none_or(|before| now.since(before) >= CUT_TOLD_AGAIN);
                news_of_cut = cut.clone().filter(|_| is_news);
            }
            state.told[index].clone_from(&problem);
            let problems = [cut, problem].into_iter().flatten().collect::<Vec<_>>().join("; ");
            state.problems[index] = (!problems.is_empty()).then_some(problems);
            survey.counts.left_out.store(state.left_out.iter().sum(), Ordering::Relaxed);
            survey.versions[index].fetch_add(1, Ordering::Release);
            survey.counts.surveys.fetch_add(1, Ordering::Relaxed);
            survey.counts.cpu.fetch_add(cost.0, Ordering::Relaxed);
        }
        if !state.threads.is_busy() {
            survey.made.notify_all();
        } else if state.threads.has_work() {
            // Wakes this thread, or the thread that takes subjects now.
            survey.bell.notify_one();
        }
        drop(state);
        if let Some(cut) = news_of_cut {
            tracing::warn!("{cut}");
        }
        if let Some(problem) = news {
            tracing::warn!("{} that cannot be asked: {problem}", named(Subject::FileSystems));
        }
    }
}

/// Sleeps until a subject is wanted, and returns its number; `None`: this thread must end.
fn next(survey: &Survey, number: u64, place: &Place) -> Option<usize> {
    let mut state = survey.lock();
    loop {
        if state.is_over {
            return None;
        }
        if let Some(index) = state.threads.take(number, place).ok()? {
            return Some(index);
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
pub(super) fn called(subject: Subject, stuck: &Thread) -> String {
    let shown = |bytes: &[u8]| printable(&kernel_text(bytes)).into_owned();
    let item = &stuck.step.0;
    let file = stuck.place.lock().unwrap_or_else(PoisonError::into_inner);
    match subject {
        Subject::FileSystems if item.is_empty() => "the list of mounted file systems".to_owned(),
        Subject::FileSystems => format!("the file system at {}", shown(&unescaped(place_of(item)))),
        Subject::TextFiles if !item.is_empty() => shown(item),
        Subject::ControlGroups if !item.is_empty() => format!("what says the name of {}", shown(item)),
        _ if !file.is_empty() => shown(&file),
        Subject::Sensors | Subject::Tree(_) if !item.is_empty() => format!("the driver of /{}", shown(item)),
        _ => format!("the kernel, asked about {},", named(subject)),
    }
}
