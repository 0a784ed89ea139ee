//! The work of each survey thread: one thread takes the wanted subjects, one after the other. If its step takes long, another thread
//! takes the rest. If the step is stuck, the survey is made without it. It starts no thread and waits for none.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use khz_model::Nanos;

use super::{
    SURVEYS_STUCK_MAX, SURVEYS_STUCK_OF_SUBJECT_END, SURVEYS_STUCK_OF_SUBJECT_MAX, TREE_INSTANCES_MAX,
};

/// If no thread can be made, the kernel is asked again after this time: asking costs some microseconds, and the gather thread asks.
const RETRY: Nanos = Nanos::from_millis(200);

/// The most steps of a subject that are known to answer while a thread hangs: the steps of the largest tree, and the same number
/// again for mounts that come and go meanwhile.
const SOUND_MAX: usize = 4 * TREE_INSTANCES_MAX;

/// The file that a thread is reading, for people; empty: it has not said so.
pub(super) type Place = Arc<Mutex<Vec<u8>>>;

/// A part of a survey that may block, such as a file system or a folder; and how often this survey had the same part before. Steps
/// that hang together begin with the same bytes up to [`END_OF_KIN`].
pub(super) type Step = (Vec<u8>, usize);

/// Ends the part of a step that it shares with all that hang together with it. No path has this byte.
pub(super) const END_OF_KIN: u8 = 0;

/// If this many steps of one kin have no answer, the others are not asked: each would take one more thread. One alone may have
/// none because of the path to it.
const HELD_OF_KIN_MAX: usize = 2;

/// The bytes that a step shares with all steps that hang together with it; `None`: it is
/// independent.
fn kin(item: &[u8]) -> Option<&[u8]> {
    let end = item.iter().position(|&byte| byte == END_OF_KIN)?;
    Some(&item[..end])
}

/// What a survey does with a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It takes the step.
    Take,
    /// It writes the last answer of the step: another thread waits for the step, or has just had its answer, or too many threads
    /// wait. The text says what was wrong.
    Keep(Option<String>),
    /// It leaves the step out, because the step does not answer.
    Leave,
}

/// All of them.
pub(super) struct Threads {
    /// The subjects to survey, a bit each.
    wanted: u64,
    /// The thread that takes subjects.
    taker: Option<u64>,
    /// The number of the next thread.
    next: u64,
    /// The subject that was taken last.
    latest: usize,
    at_work: Vec<Thread>,
    rounds: Vec<Round>,
    /// While no thread can be made for what is wanted.
    without_thread: Option<WithoutThread>,
}

/// The kernel makes no thread.
#[derive(Clone, Copy)]
struct WithoutThread {
    since: Nanos,
    /// When it was tried last.
    tried: Nanos,
}

/// A thread that has a subject.
pub(super) struct Thread {
    number: u64,
    index: usize,
    pub step: Step,
    /// When the step began; 0: before the first.
    since: Nanos,
    /// Others may go on with the survey while it is in this step.
    is_apart: bool,
    part: Part,
    pub place: Place,
}

/// What a thread has to do with the survey of its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// It makes it.
    All,
    /// Another thread makes it. The answer of this one's step is waited for.
    Step,
    /// The same, but nobody waits for the answer.
    Stuck,
}

/// What is known of the steps of a subject.
#[derive(Default)]
struct Round {
    /// The steps that have answered since a survey was wanted, and what was wrong. If the survey is made again, they are not
    /// asked again.
    answered: HashMap<Step, Option<String>>,
    /// The steps that have answered in earlier rounds, while a thread hangs.
    sound: HashSet<Vec<u8>>,
}

impl Threads {
    /// None, for this number of subjects.
    pub fn of(subjects: usize) -> Self {
        let rounds = (0..subjects).map(|_| Round::default()).collect();
        Threads {
            wanted: 0,
            taker: None,
            next: 0,
            latest: 0,
            at_work: Vec::new(),
            rounds,
            without_thread: None,
        }
    }

    /// Wants surveys of these subjects, unless too many threads are stuck at one.
    pub fn want(&mut self, subjects: u64) {
        for index in (0..self.rounds.len()).filter(|index| subjects & 1 << index != 0) {
            let hangs = self.held(index) > 0;
            let round = &mut self.rounds[index];
            match hangs {
                true => {
                    if round.sound.len() > SOUND_MAX {
                        // Most of these steps have gone; only the latest answers count.
                        round.sound.clear();
                    }
                    round.sound.extend(round.answered.drain().map(|((item, _), _)| item));
                }
                false => (round.answered.clear(), round.sound.clear()).0,
            }
            if !self.is_at_end(index) {
                self.wanted |= 1 << index;
            }
        }
    }

    pub fn want_no_more(&mut self, index: usize) {
        self.wanted &= !(1 << index);
    }

    /// The subjects that are wanted, and that no thread surveys.
    fn free(&self) -> u64 {
        let is_made = |thread: &&Thread| thread.part == Part::All;
        self.at_work.iter().filter(is_made).fold(self.wanted, |free, thread| free & !(1 << thread.index))
    }

    /// True if there is something for a thread to take.
    pub fn has_work(&self) -> bool {
        self.free() != 0
    }

    /// True if a thread takes subjects.
    #[cfg(test)]
    pub fn has_taker(&self) -> bool {
        self.taker.is_some()
    }

    /// True while an answer is waited for.
    pub fn is_busy(&self) -> bool {
        self.wanted != 0 || self.at_work.iter().any(|thread| thread.part != Part::Stuck)
    }

    /// The number of a thread to start; `None`: a thread already takes subjects, or there are too many threads, or starting one has
    /// just failed.
    pub fn next_thread(&mut self, now: Nanos) -> Option<u64> {
        let is_soon = |none: WithoutThread| now.since(none.tried) < RETRY;
        if self.taker.is_some()
            || self.at_work.len() >= SURVEYS_STUCK_MAX
            || self.without_thread.is_some_and(is_soon)
        {
            return None;
        }
        self.next += 1;
        self.taker = Some(self.next);
        self.taker
    }

    /// The thread with this number has ended.
    pub fn has_left(&mut self, number: u64) {
        self.at_work.retain(|thread| thread.number != number);
        if self.taker == Some(number) {
            self.taker = None;
        }
    }

    /// This thread could not be made. Returns `true` if the one before could.
    pub fn has_failed(&mut self, number: u64, now: Nanos) -> bool {
        self.has_left(number);
        let before = self.without_thread;
        let since = before.map_or(now, |before| before.since);
        self.without_thread = Some(WithoutThread { since, tried: now });
        before.is_none()
    }

    /// A thread was made, or one that was slow takes subjects again. Returns `true` if none could be made before.
    pub fn has_begun(&mut self) -> bool {
        self.without_thread.take().is_some()
    }

    /// The subjects that wait because no thread could be made for this long, a bit each.
    pub fn waiting_in_vain(&self, now: Nanos, stuck_after: Nanos) -> u64 {
        let is_long = self.taker.is_none()
            && self.without_thread.is_some_and(|none| now.since(none.since) >= stuck_after);
        if is_long { self.free() } else { 0 }
    }

    /// A subject for this thread; `Err`: there is none and will be none, since another thread takes them.
    pub fn take(&mut self, number: u64, place: &Place) -> Result<Option<usize>, ()> {
        if *self.taker.get_or_insert(number) != number {
            return Err(());
        }
        // Subjects take turns: a subject that is wanted again because of a slow step does not come before
        // subjects that wait.
        let (free, count) = (self.free(), self.rounds.len());
        let mut turns = (self.latest + 1..count).chain(0..count);
        let Some(index) = turns.find(|index| free & 1 << index != 0) else { return Ok(None) };
        self.latest = index;
        self.wanted &= !(1 << index);
        self.without_thread = None;
        self.at_work.push(Thread {
            number,
            index,
            step: Step::default(),
            since: Nanos(0),
            is_apart: false,
            part: Part::All,
            place: place.clone(),
        });
        Ok(Some(index))
    }

    pub fn thread(&self, number: u64) -> Option<&Thread> {
        self.at_work.iter().find(|thread| thread.number == number)
    }

    fn thread_mut(&mut self, number: u64) -> Option<&mut Thread> {
        self.at_work.iter_mut().find(|thread| thread.number == number)
    }

    /// What a thread does with the next step of its survey; `None`: nothing, since another thread makes the survey. `problem` says what
    /// was wrong in the previous step.
    pub fn begin(
        &mut self,
        number: u64,
        step: Step,
        is_apart: bool,
        problem: Option<String>,
        now: Nanos,
    ) -> Option<Turn> {
        let index = self.end_step(number, problem)?;
        let turn = self.turn(index, &step, is_apart);
        if turn == Turn::Take {
            let thread = self.thread_mut(number)?;
            (thread.step, thread.since, thread.is_apart) = (step, now, is_apart);
            thread.place.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        Some(turn)
    }

    /// The step of a thread has an answer. Returns the subject, if this thread makes the survey.
    pub fn end_step(&mut self, number: u64, problem: Option<String>) -> Option<usize> {
        let thread = self.thread_mut(number)?;
        let (index, is_all) = (thread.index, thread.part == Part::All);
        thread.since = Nanos(0);
        if std::mem::take(&mut thread.is_apart) {
            let step = thread.step.clone();
            self.rounds[index].answered.insert(step, problem);
        }
        is_all.then_some(index)
    }

    /// What to do with one more of the steps that hang together; `None`: it is asked.
    fn turn_of_kin(&self, index: usize, of: &[u8]) -> Option<Turn> {
        let is_it = |thread: &&Thread| {
            thread.part != Part::All && thread.index == index && kin(&thread.step.0) == Some(of)
        };
        let held = || self.at_work.iter().filter(is_it);
        let waits = held().any(|thread| thread.part == Part::Step);
        (held().count() >= HELD_OF_KIN_MAX).then_some(if waits { Turn::Keep(None) } else { Turn::Leave })
    }

    fn turn(&self, index: usize, step: &Step, is_apart: bool) -> Turn {
        let held = |part| {
            let is_it = |thread: &Thread| thread.part == part && thread.index == index;
            self.at_work.iter().any(|thread| is_it(thread) && thread.step.0 == step.0)
        };
        if held(Part::Stuck) {
            return Turn::Leave;
        }
        if held(Part::Step) {
            return if is_apart { Turn::Keep(None) } else { Turn::Leave };
        }
        if let Some(turn) = kin(&step.0).filter(|_| is_apart).and_then(|kin| self.turn_of_kin(index, kin)) {
            return turn;
        }
        let round = &self.rounds[index];
        if !is_apart {
            return Turn::Take;
        }
        if let Some(problem) = round.answered.get(step) {
            return Turn::Keep(problem.clone());
        }
        let is_sound = || round.sound.contains(&step.0) || round.answered.contains_key(&(step.0.clone(), 0));
        if self.held(index) < SURVEYS_STUCK_OF_SUBJECT_MAX || is_sound() {
            Turn::Take
        } else if self.stuck_at(index) < SURVEYS_STUCK_OF_SUBJECT_MAX {
            // Some may answer yet; then it is asked.
            Turn::Keep(None)
        } else {
            Turn::Leave
        }
    }

    /// The survey of a thread has ended. `true`: it has made it; else the subject is wanted again, for the answer of its step.
    pub fn end(&mut self, number: u64, problem: Option<String>) -> bool {
        let is_made = self.end_step(number, problem).is_some();
        if let Some(index) = self.thread(number).map(|thread| thread.index).filter(|_| !is_made) {
            self.wanted |= 1 << index;
        }
        self.at_work.retain(|thread| thread.number != number);
        is_made
    }

    /// The thread that takes subjects, if it has been in one step for this long.
    pub fn slow(&self, now: Nanos, slow_after: Nanos) -> Option<u64> {
        let thread = self.thread(self.taker?)?;
        (thread.since.0 != 0 && now.since(thread.since) >= slow_after).then_some(thread.number)
    }

    /// Lets another thread take the subjects, and continue the survey of this thread if possible.
    pub fn overtake(&mut self, number: u64) {
        if self.at_work.len() + 1 >= SURVEYS_STUCK_MAX {
            return;
        }
        let Some(index) = self.thread(number).map(|thread| thread.index) else { return };
        let has_room = self.held(index) < SURVEYS_STUCK_OF_SUBJECT_MAX;
        let Some(thread) = self.thread_mut(number) else { return };
        let (item, goes_on) = (thread.step.0.clone(), thread.is_apart && has_room);
        if goes_on {
            thread.part = Part::Step;
            self.wanted |= 1 << index;
            self.rounds[index].sound.remove(&item);
        }
        self.taker = None;
    }

    /// A thread that has been in one step for this long, and is not known to be stuck.
    pub fn overdue(&self, now: Nanos, stuck_after: Nanos) -> Option<u64> {
        let is_overdue = |thread: &&Thread| {
            thread.part != Part::Stuck && thread.since.0 != 0 && now.since(thread.since) >= stuck_after
        };
        self.at_work.iter().find(is_overdue).map(|thread| thread.number)
    }

    /// Nobody waits for this thread any more; its subject is wanted again. Returns the subject.
    pub fn give_up(&mut self, number: u64) -> Option<usize> {
        let thread = self.thread_mut(number)?;
        thread.part = Part::Stuck;
        let (index, item) = (thread.index, thread.step.0.clone());
        self.rounds[index].sound.remove(&item);
        self.wanted |= 1 << index;
        if self.taker == Some(number) {
            self.taker = None;
        }
        Some(index)
    }

    /// When the oldest step of a thread that is not known to be stuck began, or since when wanted subjects wait for a thread; 0:
    /// there is neither.
    pub fn oldest_step(&self) -> u64 {
        let is_waited_for = |thread: &&Thread| thread.part != Part::Stuck && thread.since.0 != 0;
        let steps = self.at_work.iter().filter(is_waited_for).map(|thread| thread.since.0);
        let waits = self.without_thread.filter(|_| self.has_work()).map(|none| none.since.0);
        steps.chain(waits).min().unwrap_or(0)
    }

    /// The thread that is stuck at this step of a subject.
    pub fn stuck_in(&self, index: usize, item: &[u8]) -> Option<&Thread> {
        self.all_stuck().find(|(at, thread)| *at == index && thread.step.0 == item).map(|(_, thread)| thread)
    }

    /// The threads that are stuck, and the number of the subject of each.
    pub fn all_stuck(&self) -> impl Iterator<Item = (usize, &Thread)> {
        let is_it = |thread: &&Thread| thread.part == Part::Stuck;
        self.at_work.iter().filter(is_it).map(|thread| (thread.index, thread))
    }

    /// The number of threads that are stuck.
    pub fn stuck(&self) -> usize {
        self.all_stuck().count()
    }

    fn stuck_at(&self, index: usize) -> usize {
        self.all_stuck().filter(|(at, _)| *at == index).count()
    }

    /// The threads whose surveys others make.
    fn held(&self, index: usize) -> usize {
        self.at_work.iter().filter(|thread| thread.part != Part::All && thread.index == index).count()
    }

    /// True if of a subject only those steps are taken from now on that have answered since the first one was stuck.
    pub fn has_become_crowded(&self, index: usize) -> bool {
        self.stuck_at(index) == SURVEYS_STUCK_OF_SUBJECT_MAX
    }

    /// True if a subject is not surveyed until one of the threads at it comes back.
    pub fn is_at_end(&self, index: usize) -> bool {
        self.stuck_at(index) >= SURVEYS_STUCK_OF_SUBJECT_END
    }
}

#[cfg(test)]
mod tests;
