//! The files that are wanted from the slow lane, and when each is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::Nanos;

use super::{TEXT_PERIOD_MIN, TextError};

/// A wanted file.
#[derive(Debug)]
pub(super) struct Want {
    pub path: String,
    pub period: Nanos,
    pub due: Instant,
    /// An ask to read the file at once, which the next read answers.
    ask: Option<u32>,
    /// The time at which all reads until now would have been made at the fastest pace.
    free: Instant,
    /// The last text that was passed on.
    pub last: Option<Arc<[u8]>>,
    /// The last problem.
    pub problem: Option<TextError>,
}

/// All wanted files.
#[derive(Debug, Default)]
pub(super) struct Wants {
    all: BTreeMap<u64, Want>,
}

impl Wants {
    /// Adds a want, due at once, or changes the pace of an existing one.
    pub fn put(&mut self, number: u64, path: &str, period: Nanos) {
        let now = Instant::now();
        match self.all.get_mut(&number) {
            Some(want) => {
                want.period = period;
                want.due = want.due.min(now + Duration::from(period));
            }
            None => {
                let path = path.to_owned();
                let want = Want { path, period, due: now, ask: None, free: now, last: None, problem: None };
                self.all.insert(number, want);
            }
        }
    }

    pub fn take(&mut self, number: u64) {
        self.all.remove(&number);
    }

    pub fn clear(&mut self) {
        self.all.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut Want> {
        self.all.get_mut(&number)
    }

    /// The want that is due first, and when.
    pub fn next(&self) -> Option<(u64, Instant)> {
        self.all.iter().map(|(&number, want)| (number, want.due)).min_by_key(|&(_, due)| due)
    }

    /// Makes a want due at once. Two reads may follow each other closely, because the first one may have
    /// begun just before the ask. On average, reads are never faster than the fastest pace.
    pub fn ask(&mut self, number: u64, ask: u32) {
        let Some(want) = self.all.get_mut(&number) else { return };
        want.ask = Some(ask);
        let fastest = Duration::from(TEXT_PERIOD_MIN);
        want.due = want.due.min(want.free.checked_sub(fastest).unwrap_or(want.free).max(Instant::now()));
    }

    /// Begins a read of a want: returns its path and its ask. Missed reads are not repeated.
    pub fn look_at(&mut self, number: u64, now: Instant) -> Option<(String, Option<u32>)> {
        let want = self.all.get_mut(&number)?;
        want.due = (want.due + Duration::from(want.period)).max(now + Duration::from(want.period) / 2);
        want.free = want.free.max(now) + Duration::from(TEXT_PERIOD_MIN);
        Some((want.path.clone(), want.ask.take()))
    }

    /// Skips a read; a want with an ask tries again soon.
    pub fn leave_out(&mut self, number: u64, now: Instant) {
        if let Some(want) = self.all.get_mut(&number) {
            let later = if want.ask.is_some() { TEXT_PERIOD_MIN } else { want.period };
            want.due = now + Duration::from(later);
        }
    }
}
