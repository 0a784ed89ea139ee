//! UPDATE: samples are taken into memory and into the log, and then answered.
//!
//! Updates that come together take the lock once and share one write to the log. If nothing is known of a
//! file, the cache releases the lock and asks the disk about it.

use khz_rrd::error::{Error, Result, refused};

use super::Cache;
use super::backlog::{FileId, Flags};
use super::effects::Wake;
use super::sample;
use super::state::State;
use crate::log::{self, Record, Ticket};

/// One UPDATE: a whole name, and samples with blanks between them.
#[derive(Debug, Clone, Copy)]
pub struct Update<'a> {
    /// The file, as [`crate::Base::name`] gives it.
    pub file: &'a str,
    /// The samples.
    pub samples: &'a str,
}

/// Updates that came together, on their way.
struct Intake {
    now: u32,
    /// The last of them in the log.
    ticket: Option<Ticket>,
    /// The file of the update before: clients usually update their files in the same order.
    previous: Option<FileId>,
    wake: Wake,
}

/// The result of one update.
enum Taking {
    /// How many of its samples were taken, or why one was not.
    Done(Result<usize>),
    /// The file must be inspected: it is new, or may have changed. If it has not, this error is the answer.
    Inspect(Option<Error>),
}

/// The samples of an update that can be taken: those before the first that cannot.
struct Valid<'a> {
    samples: &'a str,
    count: usize,
    /// The stamp of the last of them.
    newest: i64,
    /// Why the next one cannot be taken.
    wrong: Option<Error>,
}

impl Cache {
    /// Takes `updates` in their order. Returns for each how many of its samples were taken, or why its first sample was
    /// refused. With a log, the samples that were taken survive the process when this returns; without one they are in
    /// memory only.
    pub fn update(&self, updates: &[Update<'_>]) -> Vec<Result<usize>> {
        let refuse_all = |error: &Error| updates.iter().map(|_| refused(error.to_string())).collect();
        let mut intake = Intake { now: self.now(), ticket: None, previous: None, wake: Wake::Nobody };
        let mut state = self.lock();
        state.counters.received += updates.len() as u64;
        if let Err(error) = self.admit(&mut state, updates) {
            return refuse_all(&error);
        }
        let mut outcomes = Vec::with_capacity(updates.len());
        for update in updates {
            let outcome = match self.take(&mut state, update, &mut intake) {
                Taking::Done(outcome) => outcome,
                Taking::Inspect(refusal) => {
                    // Staged before the lock is released: another thread may then stage newer samples of the same file.
                    self.stage(&mut state, &mut intake);
                    drop(state);
                    let facts = self.files.inspect(update.file);
                    state = self.lock();
                    let learned = facts.and_then(|facts| match state.learn(update.file, &facts) {
                        Some(id) => Ok(id),
                        None => refused("no more files can be held"),
                    });
                    self.take_inspected(&mut state, update, learned, refusal, &mut intake)
                }
            };
            outcomes.push(outcome);
        }
        self.stage(&mut state, &mut intake);
        drop(state);
        self.carry_out(intake.wake.into());
        if let Err(error) = self.commit(intake.ticket) {
            // They stay in memory and may reach their files, but nothing is promised.
            self.report(&error);
            return refuse_all(&error);
        }
        outcomes
    }

    /// Whether there is room for `updates`.
    fn admit(&self, state: &mut State, updates: &[Update<'_>]) -> Result<()> {
        let bytes: usize = updates.iter().map(|update| update.file.len() + update.samples.len()).sum();
        let (held, most) = (state.memory(), self.limits.memory_max);
        if held + bytes as u64 > most {
            let age = state.backlog.age(self.now());
            return refused(format!(
                "{held} bytes of updates wait to be written, the oldest for {age} seconds; at most {most} are held"
            ));
        }
        let Some(log) = &self.log else { return Ok(()) };
        log.admit(bytes as u64).map_err(|error| {
            let age = state.backlog.age(self.now());
            Error::Refused(format!("{error}; the oldest waits for {age} seconds"))
        })
    }

    fn take(&self, state: &mut State, update: &Update<'_>, intake: &mut Intake) -> Taking {
        let Some(id) = known(state, update.file, intake.previous) else { return Taking::Inspect(None) };
        intake.previous = Some(id);
        let readings = state.backlog.shape(id).readings;
        let valid = valid(update.samples, state.newest(id), readings);
        if valid.count > 0
            && let Err(error) = self.accept(state, id, update.file, &valid, intake)
        {
            return Taking::Done(Err(error));
        }
        let refusal = match valid.wrong {
            Some(error) => error,
            None if valid.count == 0 => Error::Refused("No values updated.".into()),
            None => return Taking::Done(Ok(valid.count)),
        };
        match has_other_readings(update, readings) {
            // Somebody may have tuned or replaced the file.
            true => Taking::Inspect(Some(refusal)),
            false => Taking::Done(Err(refusal)),
        }
    }

    /// Takes an update once its file was inspected; `refusal` is why it was not taken before.
    fn take_inspected(
        &self,
        state: &mut State,
        update: &Update<'_>,
        learned: Result<FileId>,
        refusal: Option<Error>,
        intake: &mut Intake,
    ) -> Result<usize> {
        let id = match (learned, &refusal) {
            (Ok(id), _) => id,
            (Err(error), None) => return Err(error),
            (Err(_), Some(_)) => return Err(refusal.unwrap_or_else(unnamed)),
        };
        if let Some(refusal) = refusal
            && has_other_readings(update, state.backlog.shape(id).readings)
        {
            return Err(refusal);
        }
        match self.take(state, update, intake) {
            Taking::Done(outcome) => outcome,
            Taking::Inspect(refusal) => Err(refusal.unwrap_or_else(unnamed)),
        }
    }

    /// Takes valid samples into the log's records and into memory.
    fn accept(
        &self,
        state: &mut State,
        id: FileId,
        file: &str,
        valid: &Valid<'_>,
        intake: &mut Intake,
    ) -> Result<()> {
        let samples = valid.samples;
        let mut segment = None;
        if let Some(log) = &self.log {
            segment = Some(log.current());
            log::encode(&Record::Update { file, samples }, &mut state.unstaged)?;
        }
        if state.replay.is_running() {
            state.replay.defer(id, samples, segment, valid.newest);
            return Ok(());
        }
        state.backlog.append(id, samples, segment, intake.now);
        intake.wake = intake.wake.max(state.enqueue_if_due(&self.limits, id, intake.now));
        Ok(())
    }

    /// Fixes the place in the log of what was taken.
    fn stage(&self, state: &mut State, intake: &mut Intake) {
        if let Some(log) = self.log.as_ref().filter(|_| !state.unstaged.is_empty()) {
            intake.ticket = Some(log.stage_all(&mut state.unstaged));
        }
    }
}

fn unnamed() -> Error {
    Error::Refused("BUG: an update refused without a reason".into())
}

/// The number of the file called `name`, if it was inspected.
fn known(state: &State, name: &str, previous: Option<FileId>) -> Option<FileId> {
    let next = previous.and_then(|previous| state.backlog.find_next(name, previous));
    next.or_else(|| state.backlog.find(name).filter(|id| state.backlog.file(*id).is(Flags::KNOWN)))
}

/// The samples that are newer than `newest`, each newer than the one before, with `readings` readings.
fn valid(samples: &str, mut newest: i64, readings: usize) -> Valid<'_> {
    let (mut count, mut end, mut wrong) = (0, 0, None);
    let start = samples.as_ptr() as usize;
    for sample in sample::each(samples) {
        match sample::checked(sample, newest, readings) {
            Ok(stamp) => {
                (newest, count) = (stamp, count + 1);
                end = sample.as_ptr() as usize + sample.len() - start;
            }
            Err(error) => {
                wrong = Some(error);
                break;
            }
        }
    }
    Valid { samples: &samples[..end], count, newest, wrong }
}

/// Whether the first sample of `update` has another number of readings than its file takes.
fn has_other_readings(update: &Update<'_>, readings: usize) -> bool {
    let first = sample::each(update.samples).next().map(sample::readings);
    first.is_some_and(|found| found > 0 && found != readings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_valid_up_to_the_first_that_is_not() {
        let valid = valid(" 11:1  12:2 12:3 13:4", 10_000_000, 1);
        assert_eq!((valid.samples, valid.count, valid.newest), (" 11:1  12:2", 2, 12_000_000));
        assert!(valid.wrong.is_some_and(|error| error.to_string().contains("12.000000")));
    }
}
