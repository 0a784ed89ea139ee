//! The resources that a running query has used so far, against its limits. It does not know what it counts.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use crate::error::QueryError;
use crate::limits::Limits;

/// Samples between two looks at the clock: some ten microseconds.
const CHECKED_SAMPLES: usize = 8_192;
/// A call costs about as much as this many samples.
const CALL_SAMPLES: usize = 16;

/// What a query has taken.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) limits: Limits,
    deadline: Option<Instant>,
    cancelled: Option<Arc<AtomicBool>>,
    samples: Cell<u64>,
    bytes: Cell<usize>,
    /// The most bytes that were held at one time, and who wants to know it in the end.
    most: Cell<usize>,
    most_of_all: Option<Arc<AtomicUsize>>,
    /// Samples since the clock was asked.
    unchecked: Cell<usize>,
}

/// Bytes that are held until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Rc<Budget>,
    bytes: usize,
}

impl Budget {
    /// The time of the limits begins now; it ends at the deadline at the latest.
    pub(crate) fn new(
        limits: Limits,
        cancelled: Option<Arc<AtomicBool>>,
        deadline: Option<Instant>,
        most_of_all: Option<Arc<AtomicUsize>>,
    ) -> Rc<Self> {
        let own = Instant::now().checked_add(limits.time);
        Rc::new(Budget {
            limits,
            deadline: own.into_iter().chain(deadline).min(),
            cancelled,
            samples: Cell::new(0),
            bytes: Cell::new(0),
            most: Cell::new(0),
            most_of_all,
            unchecked: Cell::new(0),
        })
    }

    /// Fails if nobody waits any more, or if the time is over.
    pub(crate) fn check(&self) -> Result<(), QueryError> {
        if self.cancelled.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(QueryError::Cancelled);
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(QueryError::Timeout(String::from("query timed out in expression evaluation")));
        }
        Ok(())
    }

    /// Counts samples that were read.
    pub(crate) fn read(&self, samples: usize) -> Result<(), QueryError> {
        let all = self.samples.get().saturating_add(samples as u64);
        self.samples.set(all);
        if all > self.limits.samples {
            return Err(QueryError::Execution(format!(
                "query processing would load too many samples into memory in query execution: the limit is {}; ask \
                 for fewer series or a shorter time",
                self.limits.samples
            )));
        }
        // The clock is asked once for many samples: they may come one by one.
        let unchecked = self.unchecked.get() + samples + CALL_SAMPLES;
        self.unchecked.set(unchecked);
        if unchecked < CHECKED_SAMPLES {
            return Ok(());
        }
        self.unchecked.set(0);
        self.check()
    }

    /// Counts bytes that the caller is about to hold.
    pub(crate) fn hold(self: &Rc<Self>, bytes: usize) -> Result<Held, QueryError> {
        let mut held = Held { budget: Rc::clone(self), bytes: 0 };
        held.grow(bytes)?;
        Ok(held)
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        if let Some(most) = &self.most_of_all {
            most.fetch_max(self.most.get(), Ordering::Relaxed);
        }
    }
}

impl Held {
    /// Counts further bytes.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), QueryError> {
        let all = self.budget.bytes.get().saturating_add(bytes);
        if all > self.budget.limits.bytes {
            return Err(QueryError::Execution(format!(
                "the query would hold more than {} bytes of memory; ask for fewer series, fewer steps or a shorter time",
                self.budget.limits.bytes
            )));
        }
        self.budget.bytes.set(all);
        self.budget.most.set(all.max(self.budget.most.get()));
        self.bytes += bytes;
        Ok(())
    }

    /// Counts so that it holds this number of bytes altogether.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), QueryError> {
        if bytes > self.bytes {
            return self.grow(bytes - self.bytes);
        }
        self.shrink(self.bytes - bytes);
        Ok(())
    }

    /// How many they are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts bytes that are held no more.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.budget.bytes.set(self.budget.bytes.get().saturating_sub(bytes));
        self.bytes -= bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.bytes.set(self.budget.bytes.get().saturating_sub(self.bytes));
    }
}
