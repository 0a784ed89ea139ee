//! Files that cannot be written: when each is tried again, and which failures the administrator hears of. Writes nothing itself.
//!
//! A file that was deleted is tried for as long as the daemon runs. So it rests longer after each failure, its cause is
//! reported once, and a summary every ten minutes says how many files fail.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::backlog::FileId;
use khz_rrd::error::Error;

/// Seconds that a file rests after a failed write. Each further failure doubles them.
const REST: u32 = 10;
/// The longest rest.
const REST_MAX: u32 = 600;
/// Seconds that a claimed file rests.
const BUSY: u32 = 1;
/// Seconds between summaries.
const SUMMARY: u32 = 600;

/// A file whose last write failed.
struct Failure {
    /// Its next rest.
    rest: u32,
    /// A hash of the error that was reported.
    cause: u64,
    /// The file does not exist, and [`Retries::missing`] has not returned it yet.
    missing: bool,
    /// Whether it has failed more than once.
    again: bool,
}

/// Files to be tried again.
#[derive(Default)]
pub struct Retries {
    /// Each with the time of its next attempt.
    waiting: Vec<(u32, FileId)>,
    failures: HashMap<FileId, Failure>,
    summed: u32,
}

impl Retries {
    /// Files that rest.
    pub fn ids(&self) -> impl Iterator<Item = FileId> {
        self.waiting.iter().map(|(_, id)| *id)
    }

    /// How many files rest.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Files whose last write failed.
    pub fn failed(&self) -> usize {
        self.failures.len()
    }

    /// A write of `id` failed; whether that is news: the file's first failure, or one of another cause.
    pub fn fail(&mut self, id: FileId, error: &Error) -> bool {
        let mut hasher = DefaultHasher::new();
        error.to_string().hash(&mut hasher);
        let cause = hasher.finish();
        let missing = error.is_not_found();
        let before = self.failures.get(&id).map(|failure| (failure.cause, failure.rest));
        let rest = before.map_or(REST, |(_, rest)| rest);
        self.failures.insert(id, Failure { rest, cause, missing, again: before.is_some() });
        before.is_none_or(|(reported, _)| reported != cause)
    }

    /// Has a file that failed rest until its next attempt.
    pub fn rest(&mut self, id: FileId, now: u32) {
        let Some(failure) = self.failures.get_mut(&id) else { return self.waiting.push((now + REST, id)) };
        self.waiting.push((now + failure.rest, id));
        failure.rest = (2 * failure.rest).min(REST_MAX);
    }

    /// Has a claimed file rest for a moment.
    pub fn wait(&mut self, id: FileId, now: u32) {
        self.waiting.push((now + BUSY, id));
    }

    /// A file was written, or nothing waits for it any more.
    pub fn end(&mut self, id: FileId) {
        self.failures.remove(&id);
    }

    /// Takes the files out whose time has come; at the daemon's end (`all`) every file.
    pub fn ripe(&mut self, now: u32, all: bool) -> impl Iterator<Item = FileId> + use<> {
        let (ripe, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(at, _)| *at <= now || all);
        self.waiting = rest;
        ripe.into_iter().map(|(_, id)| id)
    }

    /// Shortens every rest to that after a first failure: room is needed.
    pub fn hurry(&mut self, now: u32) {
        self.waiting.iter_mut().for_each(|(at, _)| *at = (*at).min(now + REST));
    }

    /// The files that do not exist; each is returned once a failure.
    pub fn missing(&mut self) -> Vec<FileId> {
        let missing = self.failures.iter_mut().filter(|(_, failure)| failure.missing);
        missing.map(|(id, failure)| (failure.missing = false, *id).1).collect()
    }

    /// A summary of the files that failed more than once, if one is due.
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
        // Once it was written, it is like any other file.
        retries.end(7);
        assert!(retries.fail(7, &error("gone")));
        retries.rest(7, 1000);
        assert_eq!(retries.ripe(1010, false).count(), 1);
    }

    #[test]
    fn a_cause_is_reported_once_a_file_and_summed_up_every_ten_minutes() {
        let mut retries = Retries::default();
        let fail = |retries: &mut Retries, id, text| retries.fail(id, &error(text));
        assert!(fail(&mut retries, 1, "gone") && fail(&mut retries, 2, "gone"));
        assert_eq!(retries.summary(600), None);
        assert!(!fail(&mut retries, 1, "gone") && fail(&mut retries, 1, "locked"));
        assert_eq!(retries.summary(1100), None);
        let line = retries.summary(1200).unwrap();
        assert_eq!(line, "1 files cannot be written; what waits for them is kept and tried again");
        assert_eq!((retries.summary(1201), retries.failed()), (None, 2));
    }

    #[test]
    fn files_that_do_not_exist_are_returned_once_a_failure() {
        let mut retries = Retries::default();
        let gone = || Error::io("opening", "x", std::io::Error::from_raw_os_error(libc::ENOENT));
        retries.fail(1, &gone());
        retries.fail(2, &error("locked"));
        assert_eq!((retries.missing(), retries.missing()), (vec![1], vec![]));
        retries.fail(1, &gone());
        assert_eq!(retries.missing(), [1]);
    }
}
