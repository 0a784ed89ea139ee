//! Files that cannot be written: when each is tried again, and how often that is told; tries nothing itself.
//!
//! A file that was deleted with its device is tried for as long as the daemon runs. So it rests longer from time to
//! time, and its cause is told once; a line now and then says how many there are.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::backlog::FileId;
use khz_rrd::error::Error;

/// Seconds a file rests after a failed write; twice as long after each further one.
const REST: u32 = 10;
/// The longest rest.
const REST_MAX: u32 = 600;
/// Seconds after which somebody who has the file is asked again.
const BUSY: u32 = 1;
/// Seconds between the lines that sum up.
const SUMMARY: u32 = 600;

/// A file whose last write failed.
struct Failure {
    /// Its next rest.
    rest: u32,
    /// What was told, as a number.
    cause: u64,
    /// Nobody has been told yet that it is not there.
    missing: bool,
    /// Whether it has failed more than once.
    again: bool,
}

/// Files to be tried again.
#[derive(Default)]
pub struct Retries {
    /// With the time.
    waiting: Vec<(u32, FileId)>,
    failures: HashMap<FileId, Failure>,
    summed: u32,
}

impl Retries {
    /// Files that wait for their next try.
    pub fn ids(&self) -> impl Iterator<Item = FileId> {
        self.waiting.iter().map(|(_, id)| *id)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Files whose last write failed.
    pub fn failed(&self) -> usize {
        self.failures.len()
    }

    /// A write of `id` failed; whether that is to be told: the file's first failure, or one of another cause.
    pub fn fail(&mut self, id: FileId, error: &Error) -> bool {
        let mut hasher = DefaultHasher::new();
        error.to_string().hash(&mut hasher);
        let cause = hasher.finish();
        let missing = match error {
            Error::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        };
        let before = self.failures.get(&id).map(|failure| (failure.cause, failure.rest));
        let rest = before.map_or(REST, |(_, rest)| rest);
        self.failures.insert(id, Failure { rest, cause, missing, again: before.is_some() });
        before.is_none_or(|(told, _)| told != cause)
    }

    /// Has a file that failed wait for its next try.
    pub fn rest(&mut self, id: FileId, now: u32) {
        let Some(failure) = self.failures.get_mut(&id) else { return self.waiting.push((now + REST, id)) };
        self.waiting.push((now + failure.rest, id));
        failure.rest = (2 * failure.rest).min(REST_MAX);
    }

    /// Has a file that somebody works on wait a moment.
    pub fn wait(&mut self, id: FileId, now: u32) {
        self.waiting.push((now + BUSY, id));
    }

    /// A file was written, or has nothing more to be written.
    pub fn end(&mut self, id: FileId) {
        self.failures.remove(&id);
    }

    /// The files whose time has come; at the daemon's end, all.
    pub fn ripe(&mut self, now: u32, all: bool) -> impl Iterator<Item = FileId> + use<> {
        let (ripe, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(at, _)| *at <= now || all);
        self.waiting = rest;
        ripe.into_iter().map(|(_, id)| id)
    }

    /// Nobody rests longer than after a first failure: room is needed.
    pub fn hurry(&mut self, now: u32) {
        self.waiting.iter_mut().for_each(|(at, _)| *at = (*at).min(now + REST));
    }

    /// The files that are not there; each is told of once a failure.
    pub fn missing(&mut self) -> Vec<FileId> {
        let missing = self.failures.iter_mut().filter(|(_, failure)| failure.missing);
        missing.map(|(id, failure)| (failure.missing = false, *id).1).collect()
    }

    /// A line about those that failed more than once, when it is time for one.
    pub fn summary(&mut self, now: u32) -> Option<String> {
        if now.saturating_sub(self.summed) < SUMMARY {
            return None;
        }
        self.summed = now;
        let count = self.failures.values().filter(|failure| failure.again).count();
        (count > 0)
            .then(|| format!("{count} files cannot be written; what waits for them is kept and tried again"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_rrd::error::refused;

    fn error(text: &str) -> Error {
        refused::<()>(text).unwrap_err()
    }

    #[test]
    fn a_file_that_goes_on_failing_rests_longer_up_to_ten_minutes() {
        let mut retries = Retries::default();
        let mut rests = vec![];
        for _ in 0..9 {
            retries.fail(7, &error("gone"));
            retries.rest(7, 1000);
            rests.push((0..).find(|rest| retries.ripe(1000 + rest, false).count() == 1).unwrap());
        }
        assert_eq!(rests, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
        retries.rest(7, 1000);
        retries.hurry(1000);
        assert_eq!(retries.ripe(1010, false).collect::<Vec<_>>(), [7]);
        // Written once, it is as any other.
        retries.end(7);
        assert!(retries.fail(7, &error("gone")));
        retries.rest(7, 1000);
        assert_eq!(retries.ripe(1010, false).count(), 1);
    }

    #[test]
    fn a_cause_is_told_once_a_file_and_summed_up_now_and_then() {
        let mut retries = Retries::default();
        let told = |retries: &mut Retries, id, text| retries.fail(id, &error(text));
        assert!(told(&mut retries, 1, "gone") && told(&mut retries, 2, "gone"));
        assert_eq!(retries.summary(600), None);
        assert!(!told(&mut retries, 1, "gone") && told(&mut retries, 1, "locked"));
        assert_eq!(retries.summary(1100), None);
        let line = retries.summary(1200).unwrap();
        assert_eq!(line, "1 files cannot be written; what waits for them is kept and tried again");
        assert_eq!((retries.summary(1201), retries.failed()), (None, 2));
    }

    #[test]
    fn files_that_are_not_there_are_named_once_a_failure() {
        let mut retries = Retries::default();
        let gone = || Error::io("opening", "x", std::io::Error::from_raw_os_error(libc::ENOENT));
        retries.fail(1, &gone());
        retries.fail(2, &error("locked"));
        assert_eq!((retries.missing(), retries.missing()), (vec![1], vec![]));
        retries.fail(1, &gone());
        assert_eq!(retries.missing(), [1]);
    }
}
