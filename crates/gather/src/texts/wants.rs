//! What is wanted of the slow lane, and what of it is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::Nanos;

use super::TextError;

/// A file that somebody wants to see.
#[derive(Debug)]
pub(super) struct Want {
    pub path: String,
    pub period: Nanos,
    pub due: Instant,
    /// The last text that was handed over.
    pub last: Option<Arc<[u8]>>,
    /// What was wrong last.
    pub problem: Option<TextError>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Wants {
    all: BTreeMap<u64, Want>,
}

impl Wants {
    /// A new one, due at once, or another pace for one that is there.
    pub fn put(&mut self, number: u64, path: &str, period: Nanos) {
        let now = Instant::now();
        match self.all.get_mut(&number) {
            Some(want) => {
                want.period = period;
                want.due = want.due.min(now + Duration::from(period));
            }
            None => {
                let want = Want { path: path.to_owned(), period, due: now, last: None, problem: None };
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

    /// The one that has waited longest, and since when it is due, or will be.
    pub fn next(&self) -> Option<(u64, Instant)> {
        self.all.iter().map(|(&number, want)| (number, want.due)).min_by_key(|&(_, due)| due)
    }

    /// The next time of one that was looked at; what was missed is not made up for.
    pub fn looked_at(&mut self, number: u64, now: Instant) {
        if let Some(want) = self.all.get_mut(&number) {
            want.due = (want.due + Duration::from(want.period)).max(now + Duration::from(want.period) / 2);
        }
    }
}
