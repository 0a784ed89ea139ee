//! Buckets of time that are filled with what a series did. It knows no files.

use khz_model::{Nanos, ValueType};

use crate::StoreError;
use crate::limits::BUCKETS_MAX;
use crate::summary::Summary;

/// Buckets that are being filled, in the order of time.
pub(crate) struct Sums {
    value_type: ValueType,
    /// When the first bucket begins: at `from`, or before.
    origin: u64,
    from: u64,
    to: u64,
    width: u64,
    pub buckets: Vec<Option<Summary>>,
    /// The bucket of the last value, and when it begins and ends: most values fall into the same one.
    current: usize,
    begin: u64,
    end: u64,
}

impl Sums {
    /// Buckets of `width` from `origin` on. Times before `from`, and from `to` on, do not count.
    pub fn new(
        value_type: ValueType,
        origin: Nanos,
        (from, to): (Nanos, Nanos),
        width: Nanos,
    ) -> Result<Self, StoreError> {
        let (origin, width) = (origin.0.min(from.0), width.0.max(1));
        let count = to.0.saturating_sub(origin).div_ceil(width);
        let count = usize::try_from(count).ok().filter(|&count| count <= BUCKETS_MAX);
        let count = count.ok_or(StoreError::TooMuch { what: "buckets in one answer", limit: BUCKETS_MAX })?;
        let buckets = vec![None; count];
        Ok(Sums { value_type, origin, from: from.0, to: to.0, width, buckets, current: 0, begin: 0, end: 0 })
    }

    /// The bucket of a time, if it is within the question.
    #[inline]
    fn bucket(&mut self, time: u64) -> Option<&mut Option<Summary>> {
        if !(self.begin..self.end).contains(&time) {
            if !(self.from..self.to).contains(&time) {
                return None;
            }
            self.current = ((time - self.origin) / self.width) as usize;
            let begin = self.origin + self.current as u64 * self.width;
            self.begin = begin.max(self.from);
            self.end = begin.saturating_add(self.width).min(self.to);
        }
        self.buckets.get_mut(self.current)
    }

    /// Adds the values at these times, all of one bucket at once.
    pub fn add(&mut self, mut times: &[u64], mut values: &[u64]) {
        let before = times.partition_point(|&time| time < self.from);
        (times, values) = (&times[before..], &values[before..]);
        let value_type = self.value_type;
        while let Some(&first) = times.first() {
            let Some(bucket) = self.bucket(first) else { return };
            let bucket = std::mem::take(bucket);
            let count = times.partition_point(|&time| time < self.end);
            let sum = Summary::add_all(bucket, value_type, &times[..count], &values[..count]);
            self.buckets[self.current] = sum;
            (times, values) = (&times[count..], &values[count..]);
        }
    }

    /// Adds the summary of a time that lies in one bucket.
    pub fn join(&mut self, time: u64, summary: &Summary) {
        let value_type = self.value_type;
        if let Some(bucket) = self.bucket(time) {
            Summary::join_to(bucket, value_type, summary);
        }
    }
}

impl Sums {
    /// True if both times are in one bucket.
    pub fn has_both(&mut self, first: u64, last: u64) -> bool {
        self.bucket(first).is_some() && (self.begin..self.end).contains(&last)
    }

    /// When a bucket begins.
    pub fn begin_of(&self, bucket: usize) -> Nanos {
        Nanos(self.origin.saturating_add((bucket as u64).saturating_mul(self.width)))
    }
}
