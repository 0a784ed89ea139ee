//! What is wanted of the slow lane, and what of it is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::Nanos;

use super::{TEXT_PERIOD_MIN, TextError};

/// A file that somebody wants to see.
#[derive(Debug)]
pub(super) struct Want {
    pub path: String,
    pub period: Nanos,
    pub due: Instant,
    /// It is to be read at once, and this is to be told then.
    ask: Option<u32>,
    /// At the fastest pace, every look at it so far would have been made until then.
    free: Instant,
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

    /// The one that has waited longest, and since when it is due, or will be.
    pub fn next(&self) -> Option<(u64, Instant)> {
        self.all.iter().map(|(&number, want)| (number, want.due)).min_by_key(|&(_, due)| due)
    }

    /// One is to be read at once. Two looks may follow each other closely, since the first one may have begun just before
    /// somebody asked; on the average none is faster than the fastest pace.
    pub fn ask(&mut self, number: u64, ask: u32) {
        let Some(want) = self.all.get_mut(&number) else { return };
        want.ask = Some(ask);
        let fastest = Duration::from(TEXT_PERIOD_MIN);
        want.due = want.due.min(want.free.checked_sub(fastest).unwrap_or(want.free).max(Instant::now()));
    }

    /// One is looked at: its path, and what was asked before. What was missed is not made up for.
    pub fn look_at(&mut self, number: u64, now: Instant) -> Option<(String, Option<u32>)> {
        let want = self.all.get_mut(&number)?;
        want.due = (want.due + Duration::from(want.period)).max(now + Duration::from(want.period) / 2);
        want.free = want.free.max(now) + Duration::from(TEXT_PERIOD_MIN);
        Some((want.path.clone(), want.ask.take()))
    }

    /// A look is left out; who has asked for one gets it a little later.
    pub fn leave_out(&mut self, number: u64, now: Instant) {
        if let Some(want) = self.all.get_mut(&number) {
            let later = if want.ask.is_some() { TEXT_PERIOD_MIN } else { want.period };
            want.due = now + Duration::from(later);
        }
    }
}
