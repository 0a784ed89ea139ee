//! Lists the label sets that series had within a time, where labels are values and so may have changed. Reads the latest times
//! first, and stops after some millions of readings: before them, the newest labels stand for all.

use std::collections::BTreeSet;

use khz_model::metric::Text;
use khz_model::{Metric, Nanos, Pattern, RANGE_STEP_READINGS, RangeShape, ValueType};
use khz_promql::{QueryError, Sink};

use crate::chosen::Chosen;
use crate::feed::Feed;
use crate::limits::{LISTED_FIRST, LISTED_READINGS_MAX, METRICS_NAMED_MAX};
use crate::source::PastSource;

/// The names of metrics whose series get labels from values, and of those that have these values.
#[derive(Debug, Default)]
pub(crate) struct Labelled(BTreeSet<Text>);

impl Labelled {
    /// Notes a metric, if it is such a one.
    pub fn note(&mut self, metric: &Metric) {
        if metric.value_type == ValueType::Labels || metric.labels_from.is_some() {
            self.0.extend([Some(&metric.name), metric.labels_from.as_ref()].into_iter().flatten().cloned());
        }
    }

    /// Lists their series with all label sets of this time that the feed has not listed.
    pub fn list(
        self,
        source: &PastSource,
        chosen: &Chosen,
        span: (Nanos, Nanos),
        is_wanted: impl Fn(&Metric) -> bool,
        feed: &mut Feed<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        let mut left = LISTED_READINGS_MAX;
        for span in back(span) {
            for names in names.chunks(METRICS_NAMED_MAX) {
                if !part(source, chosen.of_names(names), span, (&mut left, &is_wanted), feed, sink)? {
                    return Ok(());
                }
            }
            feed.forget_rows();
        }
        Ok(())
    }
}

/// Lists the series of these patterns that have values in this time and that the feed has not listed.
pub(crate) fn list_within(
    source: &PastSource,
    patterns: &[Pattern],
    span: (Nanos, Nanos),
    feed: &mut Feed<'_>,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let mut left = LISTED_READINGS_MAX;
    for span in back(span) {
        if !part(source, patterns.to_vec(), span, (&mut left, |_: &Metric| true), feed, sink)? {
            return Ok(());
        }
        feed.forget_rows();
    }
    Ok(())
}

/// Lists what a part of the time has; false: no more may be read.
fn part(
    source: &PastSource,
    patterns: Vec<Pattern>,
    span: (Nanos, Nanos),
    (left, is_wanted): (&mut usize, impl Fn(&Metric) -> bool),
    feed: &mut Feed<'_>,
    sink: &mut dyn Sink,
) -> Result<bool, QueryError> {
    let mut is_over = false;
    let read = source.read(patterns, span, RangeShape::Columns(RANGE_STEP_READINGS), |group| {
        feed.group(group, &is_wanted, sink)?;
        *left = left.saturating_sub(group.count());
        is_over = *left == 0;
        if is_over { Err(QueryError::Cancelled) } else { Ok(()) }
    });
    match read {
        Err(_) if is_over => Ok(false),
        read => read.map(|_| true),
    }
}

/// The time in parts, the latest first: each is twice as long as the one after it, so that there are few.
fn back((from, to): (Nanos, Nanos)) -> impl Iterator<Item = (Nanos, Nanos)> {
    let begin = move |end: Nanos, length: Nanos| Nanos(end.0.saturating_sub(length.0).max(from.0));
    let first = (from < to).then(|| ((begin(to, LISTED_FIRST), to), LISTED_FIRST));
    let parts = std::iter::successors(first, move |((end, _), length)| {
        let length = Nanos(length.0.saturating_mul(2));
        (*end > from).then(|| ((begin(*end, length), *end), length))
    });
    parts.map(|(part, _)| part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_from_its_end_in_few_parts_without_a_gap() {
        let hours = |from, to| {
            let hour = LISTED_FIRST.0;
            let parts = back((Nanos(from * hour), Nanos(to * hour)));
            parts.map(|(from, to)| (from.0 / hour, to.0 / hour)).collect::<Vec<_>>()
        };
        assert_eq!(hours(10, 21), [(20, 21), (18, 20), (14, 18), (10, 14)]);
        assert_eq!(hours(10, 11), [(10, 11)]);
        assert_eq!(hours(10, 10), []);
        assert_eq!(back((Nanos(0), Nanos(u64::MAX))).last().unwrap().0, Nanos(0));
        assert!(back((Nanos(0), Nanos(u64::MAX))).count() < 64);
    }
}
