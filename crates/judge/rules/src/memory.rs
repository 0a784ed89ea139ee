//! Samples in memory, as a source: the records of rules, or the samples of a test. It drops nothing by itself; the owner calls
//! [`Memory::forget`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use khz_promql::{LabelSet, METRIC_NAME, Matcher, Operator, QueryError, Selection, Sink, Source};

/// The samples of one series, in the order of time.
#[derive(Clone, Debug, Default)]
struct Samples {
    times: Vec<i64>,
    values: Vec<f64>,
}

/// Series and their samples.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// By the name of the metric: nearly all selectors have one.
    names: HashMap<Arc<str>, BTreeMap<LabelSet, Samples>>,
    count: usize,
}

impl Memory {
    /// Adds a sample (ms since 1970). Returns false, and takes nothing, if the series has a sample of this time or a later one.
    pub fn add(&mut self, labels: &LabelSet, time: i64, value: f64) -> bool {
        let name = labels.get(METRIC_NAME);
        if !self.names.contains_key(name) {
            self.names.insert(name.into(), BTreeMap::new());
        }
        let Some(series) = self.names.get_mut(name) else { return false };
        if !series.contains_key(labels) {
            series.insert(labels.clone(), Samples::default());
        }
        let Some(samples) = series.get_mut(labels) else { return false };
        if samples.times.last().is_some_and(|last| *last >= time) {
            return false;
        }
        samples.times.push(time);
        samples.values.push(value);
        self.count += 1;
        true
    }

    /// Forgets all samples up to this time, included.
    pub fn forget(&mut self, to: i64) {
        for series in self.names.values_mut() {
            for samples in series.values_mut() {
                let gone = samples.times.partition_point(|time| *time <= to);
                samples.times.drain(..gone);
                samples.values.drain(..gone);
                self.count -= gone;
            }
            series.retain(|_, samples| !samples.times.is_empty());
        }
        self.names.retain(|_, series| !series.is_empty());
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there is no sample.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The series that fit, with their samples after one time and up to another.
    fn chosen<'a>(
        &'a self,
        matchers: &'a [Matcher],
        after: i64,
        to: i64,
    ) -> impl Iterator<Item = (&'a LabelSet, &'a [i64], &'a [f64])> {
        let is_name =
            |matcher: &&Matcher| matcher.name == METRIC_NAME && matches!(matcher.operator, Operator::Equal);
        let name = matchers.iter().find(is_name).map(|matcher| &*matcher.value);
        let all = self.names.iter().filter(move |(known, _)| name.is_none_or(|name| name == &***known));
        all.flat_map(|(_, series)| series).filter_map(move |(labels, samples)| {
            let range = samples.times.partition_point(|time| *time <= after)
                ..samples.times.partition_point(|time| *time <= to);
            let fits = || matchers.iter().all(|matcher| matcher.matches(labels.get(&matcher.name)));
            (!range.is_empty() && fits())
                .then(|| (labels, &samples.times[range.clone()], &samples.values[range]))
        })
    }
}

impl Source for Memory {
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
        for (labels, times, values) in self.chosen(&wanted.matchers, wanted.after, wanted.to) {
            let series = sink.series(labels.clone())?;
            sink.samples(series, times, values)?;
        }
        Ok(Vec::new())
    }

    fn series(
        &self,
        matchers: &[Matcher],
        after: i64,
        to: i64,
        limit: usize,
    ) -> Result<(Vec<LabelSet>, bool), QueryError> {
        let mut all = self.chosen(matchers, after, to).map(|(labels, ..)| labels.clone());
        let first = all.by_ref().take(limit).collect();
        Ok((first, all.next().is_some()))
    }
}

/// A source with samples above it: the rules of a group see the fresh records of earlier rules.
pub struct Overlay<'a> {
    below: &'a dyn Source,
    above: &'a Memory,
}

impl<'a> Overlay<'a> {
    /// `above` over `below`. If both have samples of a series, those above count only after the last one below.
    pub fn new(below: &'a dyn Source, above: &'a Memory) -> Self {
        Overlay { below, above }
    }
}

/// Passes on the series from below, and notes which of them are also above.
struct Noting<'a> {
    sink: &'a mut dyn Sink,
    above: &'a HashMap<LabelSet, usize>,
    /// For each series above: its number at the sink, and the time of its last sample from below.
    known: Vec<Option<(khz_promql::SeriesId, i64)>>,
    of: HashMap<khz_promql::SeriesId, usize>,
}

impl Noting<'_> {
    fn note(&mut self, series: khz_promql::SeriesId, time: i64) {
        if let Some(known) = self.of.get(&series).and_then(|at| self.known[*at].as_mut()) {
            known.1 = known.1.max(time);
        }
    }
}

impl Sink for Noting<'_> {
    fn series(&mut self, labels: LabelSet) -> Result<khz_promql::SeriesId, QueryError> {
        let at = self.above.get(&labels).copied();
        let series = self.sink.series(labels)?;
        if let Some(at) = at {
            self.known[at] = Some((series, i64::MIN));
            self.of.insert(series, at);
        }
        Ok(series)
    }

    fn samples(
        &mut self,
        series: khz_promql::SeriesId,
        times: &[i64],
        values: &[f64],
    ) -> Result<(), QueryError> {
        if let Some(last) = times.last() {
            self.note(series, *last);
        }
        self.sink.samples(series, times, values)
    }

    fn summaries(
        &mut self,
        series: khz_promql::SeriesId,
        summaries: &[khz_promql::Summary],
    ) -> Result<(), QueryError> {
        if let Some(last) = summaries.last() {
            self.note(series, last.last.0);
        }
        self.sink.summaries(series, summaries)
    }
}

impl Source for Overlay<'_> {
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
        let above: Vec<(&LabelSet, &[i64], &[f64])> =
            self.above.chosen(&wanted.matchers, wanted.after, wanted.to).collect();
        if above.is_empty() {
            return self.below.select(wanted, sink);
        }
        let places: HashMap<LabelSet, usize> =
            above.iter().enumerate().map(|(at, (labels, ..))| ((*labels).clone(), at)).collect();
        let mut noting = Noting { sink, above: &places, known: vec![None; above.len()], of: HashMap::new() };
        let notes = self.below.select(wanted, &mut noting)?;
        let known = noting.known;
        for ((labels, times, values), known) in above.into_iter().zip(known) {
            let (series, last) = match known {
                Some(known) => known,
                None => (sink.series(labels.clone())?, i64::MIN),
            };
            let from = times.partition_point(|time| *time <= last);
            if from < times.len() {
                sink.samples(series, &times[from..], &values[from..])?;
            }
        }
        Ok(notes)
    }

    fn series(
        &self,
        matchers: &[Matcher],
        after: i64,
        to: i64,
        limit: usize,
    ) -> Result<(Vec<LabelSet>, bool), QueryError> {
        let (mut all, mut more) = self.below.series(matchers, after, to, limit)?;
        for (labels, ..) in self.above.chosen(matchers, after, to) {
            if all.contains(labels) {
                continue;
            }
            more |= all.len() >= limit;
            if all.len() < limit {
                all.push(labels.clone());
            }
        }
        Ok((all, more))
    }
}
