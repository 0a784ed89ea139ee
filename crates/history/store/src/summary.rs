//! The summary of a series over some time: the number of values, the first, lowest, highest and last one, their sum, and the resets
//! of a counter. Summaries of consecutive times can be joined. It knows no rows.

use std::cmp::Ordering;

use khz_model::{Nanos, ValueType};

/// A value and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Nanoseconds since 1970, by the node's wall clock.
    pub time: Nanos,
    /// The bits of the reading ([`khz_model::ValueFormat`] says what they mean); of labels their number.
    pub bits: u64,
}

/// A sum of values: exact for whole numbers, in steps of the metric's decimal places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Total {
    /// Whole steps. A hundred bits suffice for the largest value in every row of a century at 1,000 Hz.
    Exact(i128),
    /// A sum of doubles, added up in the order of time.
    Double(f64),
}

/// The summary of a series over some time. Absent and failed readings do not count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Readings with a value.
    pub count: u64,
    /// The first value.
    pub first: Point,
    /// The last value.
    pub last: Point,
    /// The bits of the lowest value; 0 for labels.
    pub lowest: u64,
    /// The bits of the highest value; 0 for labels. NaN is higher than any number.
    pub highest: u64,
    /// The sum of all values; 0 for labels.
    pub sum: Total,
    /// The sum of the values before each reset. Added to the last value, it gives the full count.
    pub correction: Total,
    /// How many times the value fell: a counter that falls was reset.
    pub resets: u64,
    /// How many times a value differed from the one before.
    pub changes: u64,
}

impl Total {
    /// The value that these bits stand for, as the first part of a sum.
    #[inline(always)]
    pub(crate) fn of(value_type: ValueType, bits: u64) -> Self {
        match value_type {
            ValueType::Unsigned => Total::Exact(i128::from(bits)),
            ValueType::Signed => Total::Exact(i128::from(bits.cast_signed())),
            ValueType::Float => Total::Double(f64::from_bits(bits)),
            ValueType::Labels | ValueType::Unknown => Total::Exact(0),
        }
    }

    fn zero(value_type: ValueType) -> Self {
        if value_type == ValueType::Float { Total::Double(0.0) } else { Total::Exact(0) }
    }

    #[inline(always)]
    fn add(&mut self, other: Total) {
        match (&mut *self, other) {
            (Total::Exact(sum), Total::Exact(other)) => *sum = sum.saturating_add(other),
            (Total::Double(sum), Total::Double(other)) => *sum += other,
            // No series has values of two types.
            (Total::Exact(_), Total::Double(_)) | (Total::Double(_), Total::Exact(_)) => {}
        }
    }
}

/// Which of two values is larger: as the model compares numbers, NaN above all.
#[inline(always)]
fn by_size(value_type: ValueType, one: u64, two: u64) -> Ordering {
    match value_type {
        ValueType::Unsigned => one.cmp(&two),
        ValueType::Signed => one.cast_signed().cmp(&two.cast_signed()),
        ValueType::Float => {
            let (one, two) = (f64::from_bits(one), f64::from_bits(two));
            one.partial_cmp(&two).unwrap_or_else(|| one.is_nan().cmp(&two.is_nan()))
        }
        ValueType::Labels | ValueType::Unknown => Ordering::Equal,
    }
}

impl Summary {
    /// The summary of one value.
    pub fn of(value_type: ValueType, point: Point) -> Self {
        let is_number = !matches!(value_type, ValueType::Labels | ValueType::Unknown);
        let bits = if is_number { point.bits } else { 0 };
        Summary {
            count: 1,
            first: point,
            last: point,
            lowest: bits,
            highest: bits,
            sum: Total::of(value_type, point.bits),
            correction: Total::zero(value_type),
            resets: 0,
            changes: 0,
        }
    }

    /// Adds the next value.
    #[inline(always)]
    pub fn add(&mut self, value_type: ValueType, point: Point) {
        self.follow(value_type, point.bits);
        self.count = self.count.wrapping_add(1);
        self.last = point;
        self.extend(value_type, point.bits, point.bits);
        self.sum.add(Total::of(value_type, point.bits));
    }

    /// Adds the summary of the time that follows. It may be out of a damaged file, whose counts add up to anything.
    pub fn join(&mut self, value_type: ValueType, later: &Summary) {
        self.follow(value_type, later.first.bits);
        self.count = self.count.wrapping_add(later.count);
        self.last = later.last;
        self.extend(value_type, later.lowest, later.highest);
        self.sum.add(later.sum);
        self.correction.add(later.correction);
        self.resets = self.resets.wrapping_add(later.resets);
        self.changes = self.changes.wrapping_add(later.changes);
    }

    /// Counts the step from the last value to the next.
    #[inline(always)]
    fn follow(&mut self, value_type: ValueType, next: u64) {
        if next == self.last.bits {
            return;
        }
        self.changes = self.changes.wrapping_add(1);
        if by_size(value_type, next, self.last.bits) == Ordering::Less {
            self.resets = self.resets.wrapping_add(1);
            self.correction.add(Total::of(value_type, self.last.bits));
        }
    }

    #[inline(always)]
    fn extend(&mut self, value_type: ValueType, lowest: u64, highest: u64) {
        if by_size(value_type, lowest, self.lowest) == Ordering::Less {
            self.lowest = lowest;
        }
        if by_size(value_type, highest, self.highest) == Ordering::Greater {
            self.highest = highest;
        }
    }

    /// Adds the values of rows that follow each other to a summary that may not have begun.
    pub(crate) fn add_all(
        summary: Option<Summary>,
        value_type: ValueType,
        times: &[u64],
        values: &[u64],
    ) -> Option<Summary> {
        // A loop for each type: inside it the type is a constant.
        match value_type {
            ValueType::Unsigned => Self::add_each(summary, ValueType::Unsigned, times, values),
            ValueType::Signed => Self::add_each(summary, ValueType::Signed, times, values),
            ValueType::Float => Self::add_each(summary, ValueType::Float, times, values),
            other => Self::add_each(summary, other, times, values),
        }
    }

    #[inline(always)]
    fn add_each(
        mut summary: Option<Summary>,
        value_type: ValueType,
        times: &[u64],
        values: &[u64],
    ) -> Option<Summary> {
        let mut points = times.iter().zip(values).map(|(&time, &bits)| Point { time: Nanos(time), bits });
        if summary.is_none() {
            summary = points.next().map(|point| Summary::of(value_type, point));
        }
        if let Some(summary) = &mut summary {
            points.for_each(|point| summary.add(value_type, point));
        }
        summary
    }

    /// Adds a later summary to one that may not have begun.
    pub(crate) fn join_to(summary: &mut Option<Summary>, value_type: ValueType, later: &Summary) {
        match summary {
            Some(summary) => summary.join(value_type, later),
            None => *summary = Some(*later),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn summary(value_type: ValueType, values: &[u64]) -> Option<Summary> {
        let times: Vec<u64> = (0..values.len() as u64).collect();
        // One after the other, as rows of different runs come.
        times
            .iter()
            .zip(values)
            .fold(None, |summary, (time, bits)| Summary::add_all(summary, value_type, &[*time], &[*bits]))
    }

    #[test]
    fn a_counter_that_is_reset_twice_says_what_it_counted_before() {
        let found = summary(ValueType::Unsigned, &[5, 9, 2, 2, 7, 1]).unwrap();
        assert_eq!((found.count, found.resets, found.changes), (6, 2, 4));
        assert_eq!((found.sum, found.correction), (Total::Exact(26), Total::Exact(16)));
        assert_eq!((found.first.bits, found.lowest, found.highest, found.last.bits), (5, 1, 9, 1));
        assert_eq!((found.first.time, found.last.time), (Nanos(0), Nanos(5)));
    }

    #[test]
    fn summaries_of_a_damaged_file_add_up_to_anything_and_do_not_panic() {
        let some = summary(ValueType::Unsigned, &[5, 9, 2]).unwrap();
        let mut foreign = Summary { count: u64::MAX, resets: u64::MAX, changes: u64::MAX, ..some };
        foreign.join(ValueType::Unsigned, &foreign.clone());
        foreign.add(ValueType::Unsigned, some.first);
        assert_eq!(foreign.count, u64::MAX);
    }

    #[test]
    fn signed_numbers_doubles_and_labels_are_each_summed_their_own_way() {
        let signed = summary(ValueType::Signed, &[3, u64::MAX, 1]).unwrap();
        assert_eq!((signed.lowest, signed.highest, signed.sum), (u64::MAX, 3, Total::Exact(3)));
        let doubles = [0.5, f64::NAN, -2.0].map(f64::to_bits);
        let doubles = summary(ValueType::Float, &doubles).unwrap();
        assert_eq!(f64::from_bits(doubles.lowest), -2.0);
        assert!(f64::from_bits(doubles.highest).is_nan());
        let labels = summary(ValueType::Labels, &[7, 7, 9]).unwrap();
        assert_eq!((labels.lowest, labels.highest, labels.sum, labels.changes), (0, 0, Total::Exact(0), 1));
        assert_eq!((labels.first.bits, labels.last.bits), (7, 9));
    }

    proptest! {
        #[test]
        fn joined_summaries_are_the_summary_of_the_whole(
            values in prop::collection::vec(any::<u64>(), 1..60),
            cuts in prop::collection::vec(0usize..60, 0..4),
            signed in any::<bool>(),
        ) {
            let value_type = if signed { ValueType::Signed } else { ValueType::Unsigned };
            let mut ends: Vec<usize> = cuts.into_iter().map(|cut| cut.min(values.len())).collect();
            ends.push(values.len());
            ends.sort_unstable();
            let (mut joined, mut from) = (None, 0);
            for end in ends {
                let times: Vec<u64> = (from as u64..end as u64).collect();
                if let Some(piece) = Summary::add_all(None, value_type, &times, &values[from..end]) {
                    Summary::join_to(&mut joined, value_type, &piece);
                }
                from = end;
            }
            prop_assert_eq!(joined, summary(value_type, &values));
        }
    }
}
