//! Lists the label sets of series within a time, for series whose labels are values and so may have changed. Reads the latest times
//! first, from rows or roll-ups, and stops after some millions of readings. For the time before, the newest labels stand for all.

use std::collections::BTreeSet;

use khz_model::metric::Text;
use khz_model::{Metric, Nanos, Pattern, Reach, ValueType};
use khz_promql::{QueryError, Sink};

use crate::chosen::Chosen;
use crate::feed::Feed;
use crate::interval::plain;
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
        (span, reach): ((Nanos, Nanos), &Reach),
        is_wanted: impl Fn(&Metric) -> bool,
        feed: &mut Feed<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        let mut left = LISTED_READINGS_MAX;
        for span in back(span) {
            for names in names.chunks(METRICS_NAMED_MAX) {
                let part_of = (&mut left, &is_wanted);
                if !part(source, &chosen.of_names(names), (span, reach), part_of, feed, sink)? {
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
    (span, reach): ((Nanos, Nanos), &Reach),
    feed: &mut Feed<'_>,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let mut left = LISTED_READINGS_MAX;
    for span in back(span) {
        if !part(source, patterns, (span, reach), (&mut left, &|_: &Metric| true), feed, sink)? {
            return Ok(());
        }
        feed.forget_rows();
    }
    Ok(())
}

/// Lists what a part of the time has; false: no more may be read.
fn part(
    source: &PastSource,
    patterns: &[Pattern],
    (span, reach): ((Nanos, Nanos), &Reach),
    (left, is_wanted): (&mut usize, &impl Fn(&Metric) -> bool),
    feed: &mut Feed<'_>,
    sink: &mut dyn Sink,
) -> Result<bool, QueryError> {
    let mut is_over = false;
    let read = source.read_all(patterns, &plain(span, reach), |group, bucket| {
        match bucket {
            None => feed.group(group, false, is_wanted, sink)?,
            Some(length) => feed.had(group, length, is_wanted, sink)?,
        }
        *left = left.saturating_sub(group.count());
        is_over = *left == 0;
        if is_over { Err(QueryError::Cancelled) } else { Ok(()) }
    });
    match read {
        Err(_) if is_over => Ok(false),
        read => read.map(|_| true),
    }
}

/// Splits the time into parts, the latest first. Each earlier part is twice as long, so that there are few.
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
