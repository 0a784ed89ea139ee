//! A run: consecutive samples of one series, in the form in which a source holds them. It knows nothing of windows and steps.
//! Samples that are not needed are never converted.

use std::ops::Range;

use crate::error::QueryError;
use crate::summary::Summary;

/// Samples that are converted at a time: with their times they take eight kilobytes of stack.
const UNPACKED_AT_ONCE: usize = 512;

/// Samples of one series, none of them stale: whole numbers at nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    nanos: &'a [u64],
    numbers: &'a [u64],
    divisor: f64,
    rises: bool,
}

impl<'a> Run<'a> {
    /// Samples at these times (ns since 1970). They are in the order of time, and no two have the same millisecond. Each value is a
    /// number that a double can hold exactly, divided by `divisor`. `rises`: no number is lower than the previous one.
    pub fn new(nanos: &'a [u64], numbers: &'a [u64], divisor: f64, rises: bool) -> Self {
        debug_assert!(nanos.len() == numbers.len(), "BUG: a sample has a time and a number");
        Run { nanos, numbers, divisor, rises }
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.nanos.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.nanos.is_empty()
    }

    /// True if no value is lower than the one before.
    pub fn rises(&self) -> bool {
        self.rises
    }

    /// A sample: its time (ms) and its value.
    pub fn sample(&self, place: usize) -> (i64, f64) {
        (milliseconds(self.nanos[place]), self.value(self.numbers[place]))
    }

    /// Calls `each` with all samples, some hundred at a time.
    pub fn unpack(
        &self,
        mut each: impl FnMut(&[i64], &[f64]) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        let (mut times, mut values) = ([0; UNPACKED_AT_ONCE], [0.0; UNPACKED_AT_ONCE]);
        let pieces = self.nanos.chunks(UNPACKED_AT_ONCE).zip(self.numbers.chunks(UNPACKED_AT_ONCE));
        for (nanos, numbers) in pieces {
            times.iter_mut().zip(nanos).for_each(|(time, nanos)| *time = milliseconds(*nanos));
            values.iter_mut().zip(numbers).for_each(|(value, number)| *value = self.value(*number));
            each(&times[..nanos.len()], &values[..nanos.len()])?;
        }
        Ok(())
    }

    /// The summary of some samples of a rising run. The sum of the values and the number of changes are not computed: they are 0.
    pub(crate) fn risen(&self, places: Range<usize>) -> Option<Summary> {
        let count = places.len();
        let (first, last) = (places.start, places.end.checked_sub(1).filter(|_| count > 0)?);
        let (first, last) = (self.sample(first), self.sample(last));
        Some(Summary {
            first,
            last,
            count: count as u64,
            lowest: first.1,
            highest: last.1,
            sum: 0.0,
            correction: 0.0,
            resets: 0,
            changes: 0,
        })
    }

    fn value(&self, number: u64) -> f64 {
        number as f64 / self.divisor
    }
}

fn milliseconds(nanos: u64) -> i64 {
    (nanos / 1_000_000).cast_signed()
}

/// The nanoseconds at which the millisecond after this one begins; `None`: they are beyond all times.
fn next_millisecond(time: i64) -> Option<u64> {
    u64::try_from(time.saturating_add(1)).unwrap_or(0).checked_mul(1_000_000)
}

/// A place in a run that goes forward, mostly by as many samples as the last time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) at: usize,
    last: usize,
}

impl Place {
    /// Goes to the first sample that is after a time (ms).
    pub(crate) fn go_after(&mut self, run: &Run<'_>, time: i64) {
        let Some(limit) = next_millisecond(time) else { return self.at = run.len() };
        let left = run.nanos.get(self.at..).unwrap_or_default();
        let is_it = |by: usize| {
            (by == 0 || left.get(by - 1).is_some_and(|nanos| *nanos < limit))
                && left.get(by).is_none_or(|nanos| *nanos >= limit)
        };
        let by = if is_it(self.last) { self.last } else { first_from(left, limit) };
        (self.at, self.last) = (self.at + by, by);
    }
}

/// The first of these that is not below a limit. It is mostly near the begin, so wider and wider steps find it sooner than halving.
fn first_from(nanos: &[u64], limit: u64) -> usize {
    let (mut low, mut width) = (0, 1);
    while nanos.get(low + width - 1).is_some_and(|nanos| *nanos < limit) {
        low += width;
        width *= 2;
    }
    let high = (low + width).min(nanos.len());
    low + nanos[low..high].partition_point(|nanos| *nanos < limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn times() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(1_000_000u64..40_000_000, 1..1_200).prop_map(|distances| {
            let at = |at: &mut u64, distance: u64| {
                *at += distance;
                Some(*at)
            };
            distances.into_iter().scan(0, at).collect()
        })
    }

    proptest! {
        #[test]
        fn a_place_goes_where_the_milliseconds_say(
            nanos in times(), begin in -50i64..60, step in 1i64..400, steps in 1usize..40,
        ) {
            let numbers = vec![1; nanos.len()];
            let run = Run::new(&nanos, &numbers, 1.0, true);
            let stamps: Vec<i64> = nanos.iter().map(|nanos| milliseconds(*nanos)).collect();
            let mut place = Place::default();
            for time in (0..steps as i64).map(|n| begin + n * step).chain([i64::MAX]) {
                place.go_after(&run, time);
                prop_assert_eq!(place.at, stamps.partition_point(|stamp| *stamp <= time));
            }
        }

        #[test]
        fn unpacked_samples_are_those_of_the_places(nanos in times(), divisor in 1u32..1_000) {
            let numbers: Vec<u64> = nanos.iter().map(|nanos| nanos / 7).collect();
            let run = Run::new(&nanos, &numbers, f64::from(divisor), true);
            let mut found = Vec::new();
            run.unpack(|times, values| {
                found.extend(times.iter().copied().zip(values.iter().copied()));
                Ok(())
            }).unwrap();
            let expected: Vec<(i64, f64)> = (0..run.len()).map(|place| run.sample(place)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
