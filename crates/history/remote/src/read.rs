//! Answers remote read out of anything that has samples. Every answer is of the kind SAMPLES, which each reader takes.

use std::collections::HashMap;

use khz_promql::{LabelSet, Matcher, QueryError, Selection, SeriesId, Sink, Source, Summaries};

use crate::RemoteError;
use crate::limits::{ANSWER_BYTES_MAX, READ_TIME_MAX, SERIES_MAX};
use crate::message::{
    Label, LabelMatcher, Query, QueryResult, ReadRequest, ReadResponse, Sample, TimeSeries,
};

/// The function of a reader that wants no samples.
const SERIES_ALONE: &str = "series";
/// Bytes of a sample in a message, at most.
const SAMPLE_BYTES: usize = 22;

/// Answers a request.
pub fn read(source: &dyn Source, request: &ReadRequest) -> Result<ReadResponse, RemoteError> {
    let mut room = Room { bytes: ANSWER_BYTES_MAX };
    let results = request.queries.iter().map(|query| answer(source, query, &mut room));
    Ok(ReadResponse { results: results.collect::<Result<_, _>>()? })
}

fn answer(source: &dyn Source, query: &Query, room: &mut Room) -> Result<QueryResult, RemoteError> {
    let (start, end) = (query.start_timestamp_ms, query.end_timestamp_ms);
    if start > end {
        return Err(RemoteError::Question(format!(
            "the time begins at {start} and ends before that, at {end}"
        )));
    }
    let matchers = query.matchers.iter().map(matcher).collect::<Result<Vec<_>, _>>()?;
    if matchers.iter().all(|matcher| matcher.matches("")) {
        return Err(RemoteError::Question(
            "no condition chooses any series; name a metric or a label".into(),
        ));
    }
    if start > READ_TIME_MAX || end < 0 {
        return Ok(QueryResult::default());
    }
    // A request for everything spans the first to the last possible time.
    let (start, end) = (start.max(0), end.min(READ_TIME_MAX));
    if query.hints.as_ref().is_some_and(|hints| hints.func == SERIES_ALONE) {
        return listed(source, &matchers, (start, end), room);
    }
    let wanted = Selection {
        matchers,
        after: start.saturating_sub(1),
        to: end,
        step: 0,
        window: end - start,
        last_only: false,
        summaries: Summaries::Nowhere,
    };
    let mut answer = Answer { room, series: Vec::new(), known: HashMap::new() };
    source.select(&wanted, &mut answer)?;
    let mut series = answer.series;
    series.retain(|series| !series.samples.is_empty());
    Ok(sorted(series))
}

/// The series without their samples: a reader that only lists them (Prometheus' `/api/v1/series`) asks for all of the time.
fn listed(
    source: &dyn Source,
    matchers: &[Matcher],
    (start, end): (i64, i64),
    room: &mut Room,
) -> Result<QueryResult, RemoteError> {
    let (all, is_cut) = source.series(matchers, start - 1, end, SERIES_MAX)?;
    if is_cut {
        return Err(QueryError::Execution(format!("there are more than {SERIES_MAX} series")).into());
    }
    let mut answer = Answer { room, series: Vec::new(), known: HashMap::new() };
    for labels in all {
        answer.series(labels)?;
    }
    Ok(sorted(answer.series))
}

fn sorted(mut series: Vec<TimeSeries>) -> QueryResult {
    // A reader merges these with its own series, and relies on their order.
    series.sort_by(|one, two| labels_of(one).cmp(labels_of(two)));
    QueryResult { timeseries: series }
}

fn labels_of(series: &TimeSeries) -> impl Iterator<Item = (&str, &str)> {
    series.labels.iter().map(|label| (&*label.name, &*label.value))
}

fn matcher(asked: &LabelMatcher) -> Result<Matcher, RemoteError> {
    let operator = usize::try_from(asked.kind).ok().and_then(|kind| ["=", "!=", "=~", "!~"].get(kind));
    let unknown = || RemoteError::Question(format!("conditions have no kind {}", asked.kind));
    let operator = operator.ok_or_else(unknown)?;
    let matcher = Matcher::new(&asked.name, operator, &asked.value).ok_or_else(unknown)?;
    matcher.map_err(|error| RemoteError::Question(error.to_string()))
}

/// The room that is left in the answer.
struct Room {
    bytes: usize,
}

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(|| {
            QueryError::Execution(format!(
                "the answer has more than {ANSWER_BYTES_MAX} bytes: ask for fewer series or a shorter time"
            ))
        })?;
        Ok(())
    }
}

/// Takes the samples of one query.
struct Answer<'a> {
    room: &'a mut Room,
    series: Vec<TimeSeries>,
    /// A source may begin one series twice, under two names of ours that are one in Prometheus.
    known: HashMap<LabelSet, usize>,
}

impl Sink for Answer<'_> {
    fn series(&mut self, labels: LabelSet) -> Result<SeriesId, QueryError> {
        if let Some(&known) = self.known.get(&labels) {
            return Ok(SeriesId(known));
        }
        let texts: usize = labels.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
        self.room.take(texts + 8)?;
        let label = |(name, value): (&std::sync::Arc<str>, &std::sync::Arc<str>)| Label {
            name: name.to_string(),
            value: value.to_string(),
        };
        self.series.push(TimeSeries { labels: labels.iter().map(label).collect(), samples: Vec::new() });
        self.known.insert(labels, self.series.len() - 1);
        Ok(SeriesId(self.series.len() - 1))
    }

    fn samples(&mut self, series: SeriesId, times: &[i64], values: &[f64]) -> Result<(), QueryError> {
        let count = times.len().min(values.len());
        self.room.take(count * SAMPLE_BYTES)?;
        let series = self.series.get_mut(series.0);
        let series =
            series.ok_or_else(|| QueryError::Internal("samples of a series that has not begun".into()))?;
        series
            .samples
            .extend(times.iter().zip(values).map(|(&timestamp, &value)| Sample::new(value, timestamp)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some series, each with a sample a second.
    struct Made(Vec<LabelSet>);

    impl Source for Made {
        fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
            for labels in self.0.iter().filter(|labels| chosen(labels, &wanted.matchers)) {
                let series = sink.series(labels.clone())?;
                let first = wanted.after.div_euclid(1_000) + 1;
                for second in first..=wanted.to.div_euclid(1_000) {
                    sink.samples(series, &[second * 1_000], &[second as f64])?;
                }
            }
            Ok(Vec::new())
        }

        fn series(
            &self,
            _: &[Matcher],
            _: i64,
            _: i64,
            _: usize,
        ) -> Result<(Vec<LabelSet>, bool), QueryError> {
            Ok((self.0.clone(), false))
        }
    }

    fn chosen(labels: &LabelSet, matchers: &[Matcher]) -> bool {
        matchers.iter().all(|matcher| matcher.matches(labels.get(&matcher.name)))
    }

    fn made() -> Made {
        Made(["n2", "n1"].map(|node| LabelSet::new([("__name__", "up"), ("instance", node)])).into())
    }

    fn asked(from: i64, to: i64, conditions: &[(i32, &str, &str)]) -> ReadRequest {
        let matcher = |&(kind, name, value): &(i32, &str, &str)| LabelMatcher {
            kind,
            name: name.into(),
            value: value.into(),
        };
        let matchers = conditions.iter().map(matcher).collect();
        let query = Query { start_timestamp_ms: from, end_timestamp_ms: to, matchers, hints: None };
        ReadRequest { queries: vec![query], ..ReadRequest::default() }
    }

    #[test]
    fn an_answer_has_both_ends_of_the_time_and_series_in_the_order_of_their_labels() {
        let answer = read(&made(), &asked(2_000, 4_000, &[(0, "__name__", "up")])).unwrap();
        let shown: Vec<(&str, Vec<i64>)> = answer.results[0]
            .timeseries
            .iter()
            .map(|series| {
                let times = series.samples.iter().map(|sample| sample.timestamp).collect();
                (&*series.labels[1].value, times)
            })
            .collect();
        assert_eq!(shown, [("n1", vec![2_000, 3_000, 4_000]), ("n2", vec![2_000, 3_000, 4_000])]);
        let one = read(&made(), &asked(0, 0, &[(2, "instance", "n1|x"), (1, "job", "y")])).unwrap();
        assert_eq!(one.results[0].timeseries.len(), 1);
        assert_eq!(one.results[0].timeseries[0].samples, [Sample::new(0.0, 0)]);
    }

    #[test]
    fn the_time_from_the_first_to_the_last_that_there_can_be_is_the_time_that_there_is() {
        /// Writes down the times that it is asked for.
        struct Asked(std::sync::Mutex<Vec<(i64, i64)>>);
        impl Source for Asked {
            fn select(&self, wanted: &Selection, _: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
                self.0.lock().unwrap().push((wanted.after, wanted.to));
                Ok(Vec::new())
            }
            fn series(
                &self,
                _: &[Matcher],
                after: i64,
                to: i64,
                _: usize,
            ) -> Result<(Vec<LabelSet>, bool), QueryError> {
                self.0.lock().unwrap().push((after, to));
                Ok((vec![LabelSet::new([("__name__", "up")])], false))
            }
        }
        let up = (0, "__name__", "up");
        for (from, to, expected) in [
            (i64::MIN, i64::MAX, Some((-1, READ_TIME_MAX))),
            // Prometheus' MinTime and MaxTime.
            (-9_223_309_901_257_974, 9_223_309_901_257_974, Some((-1, READ_TIME_MAX))),
            (5, i64::MAX, Some((4, READ_TIME_MAX))),
            (i64::MIN, 7, Some((-1, 7))),
            (i64::MIN, -1, None),
            (i64::MAX, i64::MAX, None),
        ] {
            let source = Asked(std::sync::Mutex::default());
            read(&source, &asked(from, to, &[up])).unwrap();
            let mut alone = asked(from, to, &[up]);
            alone.queries[0].hints = Some(crate::message::ReadHints { func: "series".into() });
            let listed = read(&source, &alone).unwrap();
            let expected: Vec<(i64, i64)> = expected.into_iter().flat_map(|time| [time; 2]).collect();
            assert_eq!(*source.0.lock().unwrap(), expected, "{from} {to}");
            assert_eq!(listed.results[0].timeseries.len(), expected.len() / 2, "without samples");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_a_reason() {
        let up = (0, "__name__", "up");
        let refused = |request: ReadRequest| read(&made(), &request).unwrap_err().to_string();
        assert_eq!(refused(asked(5, 4, &[up])), "the time begins at 5 and ends before that, at 4");
        assert_eq!(refused(asked(0, 1, &[(4, "a", "b")])), "conditions have no kind 4");
        assert_eq!(refused(asked(0, 1, &[(-1, "a", "b")])), "conditions have no kind -1");
        assert!(refused(asked(0, 1, &[(2, "a", "(")])).contains("\"(\""));
        let any = "no condition chooses any series; name a metric or a label";
        assert_eq!(refused(asked(0, 1, &[])), any);
        assert_eq!(refused(asked(0, 1, &[(2, "a", ".*")])), any);
    }

    #[test]
    fn an_answer_that_is_too_large_is_refused() {
        let refused = read(&made(), &asked(0, ANSWER_BYTES_MAX as i64 * 30, &[(0, "__name__", "up")]));
        let problem = format!("the answer has more than {ANSWER_BYTES_MAX} bytes");
        assert!(refused.unwrap_err().to_string().starts_with(&problem));
    }
}
