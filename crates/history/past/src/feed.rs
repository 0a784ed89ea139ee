//! Passes on the series of a range as samples. An Absent or Failed slot ends its series. A silent node ends all its series. A
//! change of labels ends one series and begins another.

use std::collections::{BTreeMap, HashMap, HashSet};

use khz_model::metric::Text;
use khz_model::reading::LABELS_STATE;
use khz_model::{
    Instance, Labels, Metric, Nanos, NodeName, RangeColumn, RangePiece, RangePoint, Reading, Series,
    ValueType, exposed,
};
use khz_promql::{LabelSet, Matcher, QueryError, Run, SeriesId, Sink, Summary, is_stale};

use crate::clock::milliseconds;
use crate::history::History;
use crate::labelled::Labelled;
use crate::limits::{BUCKET_END_LATE, SAMPLES_HELD_MAX};
use crate::rows::{Group, Rows, labels_at};
use crate::strand::{Pace, Samples, distances_ms};
use crate::unclear::Unclear;
use crate::values::{Form, Scale, Words};

/// A step of an answer lies in one hour (ns).
const HOUR: u64 = 3_600_000_000_000;
/// [`Reading::state`] of a number.
const NUMBER: u8 = 0;

/// The target of samples, and the wanted samples.
pub(crate) struct Feed<'a> {
    pub form: Form,
    pub job: &'a str,
    pub matchers: &'a [Matcher],
    pub words: Words,
    /// The wanted time: after the first moment, up to the second one (ms). All rows that come lie in it; buckets may not.
    pub wanted: (i64, i64),
    /// Nothing after this time (ms).
    pub end: i64,
    strands: HashMap<(NodeName, Text, Option<Instance>), Strand>,
    /// Times (ms) and values of many rows, kept to reuse their memory.
    times: Vec<i64>,
    values: Vec<f64>,
    /// The label sets that are in use, each with the number of its strand.
    taken: HashMap<LabelSet, (SeriesId, usize)>,
    /// The label sets of series of nodes: a recorded series with one of them is not shown.
    of_nodes: HashSet<LabelSet>,
    held: Held,
    /// The source of rows before the selection, needed only to find the ends of series.
    history: Option<History<'a>>,
}

/// Recorded series that wait in their strands. If a rule was moved, several groups have recorded the same series, and a range
/// delivers one group after the other.
#[derive(Default)]
struct Held {
    /// Samples that wait.
    count: usize,
    /// The time of the waiting samples: the begin of their hour, or of their buckets (ns).
    of: u64,
    /// The time of the last sample (ms) of each series that was passed on.
    passed: HashMap<SeriesId, i64>,
}

/// One series of a node, which may have had several label sets.
#[derive(Default)]
struct Strand {
    number: usize,
    pace: Pace,
    /// What described it last.
    description: Option<Labels>,
    /// The series of the last samples; the inner `None`: it is not wanted.
    current: Option<Option<SeriesId>>,
    samples: Samples,
    /// Buckets of a recorded series that wait.
    summaries: Vec<Summary>,
    /// When the last bucket ends (ms), if no row has come since.
    bucket_end: Option<i64>,
}

impl Strand {
    /// Asks for the rows before the first one, if only they can show whether the node is silent at a time (ms). The row after that
    /// time may show it, too.
    fn look_back(
        &mut self,
        history: &mut Option<History<'_>>,
        of: (&NodeName, &Text, Option<&Instance>),
        (time, next): (i64, Option<i64>),
    ) -> Result<(), QueryError> {
        if let Some(history) = history
            && let Some(first) = self.pace.doubts(time, next)
        {
            self.pace.learn(&history.of_series(of, first)?);
        }
        Ok(())
    }
}

impl<'a> Feed<'a> {
    /// A feed for series with these labels.
    pub fn new(form: Form, job: &'a str, matchers: &'a [Matcher], wanted: (i64, i64), end: i64) -> Self {
        let (words, strands, taken) = (Words::default(), HashMap::new(), HashMap::new());
        let (times, values) = (Vec::new(), Vec::new());
        let (of_nodes, held, history) = Default::default();
        Feed {
            form,
            job,
            matchers,
            words,
            wanted,
            end,
            strands,
            times,
            values,
            taken,
            of_nodes,
            held,
            history,
        }
    }

    /// A feed that may ask for the rows before the selection, to learn how often nodes send.
    pub fn with_history(self, history: History<'a>) -> Self {
        Feed { history: Some(history), ..self }
    }

    /// A feed for recorded series after this one, and label sets that are in use besides those of this one.
    pub fn recorded(self, others: impl IntoIterator<Item = LabelSet>) -> Self {
        let Feed { job, matchers, words, wanted, end, taken, .. } = self;
        let of_nodes = taken.into_keys().chain(others).collect();
        Feed { words, of_nodes, ..Feed::new(Form::Recorded, job, matchers, wanted, end) }
    }

    /// Takes the data of one node in one step: rows, and buckets in place of damaged rows, as summaries or as samples.
    pub fn group(
        &mut self,
        group: &Group,
        as_summaries: bool,
        is_wanted: impl Fn(&Metric) -> bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        if let Some(step) = group.step().filter(|_| !self.form.has_pace()) {
            self.hold(step.0 - step.0 % HOUR, sink)?;
        }
        self.each_series(group, is_wanted, sink, |filler, rows, described| match rows.are_buckets() {
            true => filler.buckets(rows, (group.width(), as_summaries), described),
            false => filler.rows(rows, described),
        })
    }

    /// Takes the data of one node in buckets of this length, as summaries or as samples.
    pub fn buckets(
        &mut self,
        group: &Group,
        (length, as_summaries): (Nanos, bool),
        is_wanted: impl Fn(&Metric) -> bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        if let Some(step) = group.step().filter(|_| !self.form.has_pace()) {
            self.hold(step.0, sink)?;
        }
        self.each_series(group, is_wanted, sink, |filler, rows, described| {
            filler.buckets(rows, (length, as_summaries), described)
        })
    }

    fn each_series(
        &mut self,
        group: &Group,
        is_wanted: impl Fn(&Metric) -> bool,
        sink: &mut dyn Sink,
        fill: impl Fn(&mut Filler<'_, 'a>, Rows<'_>, Option<&[(Nanos, Reading)]>) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        let Some(node) = group.node() else { return Ok(()) };
        let descriptions = group.descriptions();
        for rows in group.series().filter(|rows| is_wanted(&rows.series().metric)) {
            let series = rows.series();
            let key = (node.clone(), series.metric.name.clone(), series.instance.clone());
            let number = self.strands.len();
            let mut strand = self.strands.remove(&key).unwrap_or(Strand { number, ..Strand::default() });
            let mut filler = Filler { feed: self, node, series, strand: &mut strand, sink };
            fill(&mut filler, rows, descriptions.of(series))?;
            filler.pass(false)?;
            self.strands.insert(key, strand);
        }
        Ok(())
    }

    /// Forgets the rows, so that earlier ones may follow. The list of named series stays.
    pub fn forget_rows(&mut self) {
        self.strands.clear();
        self.held.count = 0;
    }

    /// Names the series whose newest reading is a value. For the others it is unclear whether they had a value before. If labels
    /// are values, a series may have had other labels: its metric is noted.
    pub fn newest(
        &mut self,
        group: &Group,
        is_wanted: impl Fn(&Metric) -> bool,
        (labelled, unclear): (&mut Labelled, &mut Unclear),
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let Some(node) = group.node() else { return Ok(()) };
        let descriptions = group.descriptions();
        for rows in group.series().filter(|rows| is_wanted(&rows.series().metric)) {
            let series = rows.series();
            labelled.note(&series.metric);
            let Some((_, newest, _)) = rows.merged().pop() else { continue };
            let description = newest.labels().or_else(|| descriptions.of(series)?.last()?.1.labels());
            let labels = self.words.labels(self.form, node, self.job, series, description.as_ref());
            match newest {
                Reading::Present(_) | Reading::Labels(_) => self.list(labels, sink)?,
                Reading::Absent(_) | Reading::Failed(_) => unclear.note(node, series, newest, labels),
            }
        }
        Ok(())
    }

    /// Names the recorded series whose newest reading is a value. Returns true if others had ended.
    pub fn newest_recorded(&mut self, group: &Group, sink: &mut dyn Sink) -> Result<bool, QueryError> {
        let Some(owner) = group.node() else { return Ok(false) };
        let mut has_ended = false;
        for rows in group.series() {
            let Some((_, newest, _)) = rows.merged().pop() else { continue };
            if !matches!(newest, Reading::Present(_)) {
                has_ended = true;
                continue;
            }
            let labels = self.words.labels(self.form, owner, self.job, rows.series(), None);
            self.begin(self.taken.len(), labels, sink)?;
        }
        Ok(has_ended)
    }

    /// Names the series with a value in these buckets, within the wanted time. No bucket is longer than `length`.
    pub fn had(
        &mut self,
        group: &Group,
        length: Nanos,
        is_wanted: impl Fn(&Metric) -> bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let Some(node) = group.node() else { return Ok(()) };
        let ((after, to), descriptions) = (self.wanted, group.descriptions());
        for rows in group.series().filter(|rows| is_wanted(&rows.series().metric)) {
            let described = descriptions.of(rows.series());
            let mut last: Option<Option<Labels>> = None;
            for (point, series) in rows.buckets() {
                // It is not known when labels were in force within a bucket.
                let (first, end) = match series.metric.value_type {
                    ValueType::Labels => (point.begin, point.begin.0.saturating_add(length.0)),
                    _ => (point.first.0, point.last.0.0.saturating_add(1)),
                };
                if milliseconds(first.0) > to || milliseconds(end - 1) <= after {
                    continue;
                }
                let description = description(point, series, described);
                if last.as_ref() == Some(&description) {
                    continue;
                }
                let labels = self.words.labels(self.form, node, self.job, series, description.as_ref());
                self.list(labels, sink)?;
                last = Some(description);
            }
        }
        Ok(())
    }

    /// Names a series of a listing once.
    pub fn list(&mut self, labels: LabelSet, sink: &mut dyn Sink) -> Result<(), QueryError> {
        self.begin(self.taken.len(), labels, sink).map(|_| ())
    }

    /// Ends the series of silent nodes, and passes on the waiting samples.
    pub fn finish(&mut self, sink: &mut dyn Sink) -> Result<(), QueryError> {
        if !self.form.has_pace() {
            return self.pass_held(sink);
        }
        let after_end = self.end.saturating_add(1);
        for ((node, metric, instance), strand) in &mut self.strands {
            strand.look_back(&mut self.history, (node, metric, instance.as_ref()), (after_end, None))?;
            if let Some(end) = strand.bucket_end.filter(|end| end + BUCKET_END_LATE <= self.end) {
                strand.samples.end(end);
            }
            if let Some(end) = strand.pace.silent_by(after_end) {
                strand.samples.end(end);
            }
            pass(strand, true, sink)?;
        }
        Ok(())
    }

    /// The next samples belong to this time. Waiting samples are passed on if they belong to another time, or are too many.
    fn hold(&mut self, of: u64, sink: &mut dyn Sink) -> Result<(), QueryError> {
        if std::mem::replace(&mut self.held.of, of) != of || self.held.count > SAMPLES_HELD_MAX {
            self.pass_held(sink)?;
        }
        Ok(())
    }

    /// Passes on the waiting samples, each series in the order of time.
    fn pass_held(&mut self, sink: &mut dyn Sink) -> Result<(), QueryError> {
        let mut waiting: BTreeMap<SeriesId, Vec<&mut Strand>> = BTreeMap::new();
        for strand in self.strands.values_mut() {
            if let Some(Some(id)) = strand.current
                && !(strand.samples.times.is_empty() && strand.summaries.is_empty())
            {
                waiting.entry(id).or_default().push(strand);
            }
        }
        for (id, mut strands) in waiting {
            let passed = self.held.passed.entry(id).or_insert(i64::MIN);
            if let [strand] = &mut strands[..] {
                pass_after(id, (&strand.samples.times, &strand.samples.values), passed, sink)?;
            } else {
                let samples =
                    strands.iter().flat_map(|strand| strand.samples.times.iter().zip(&strand.samples.values));
                let mut samples: Vec<(i64, f64)> = samples.map(|(time, value)| (*time, *value)).collect();
                // Of two samples at the same time, the one with a value counts.
                samples.sort_by_key(|(time, value)| (*time, is_stale(*value)));
                samples.dedup_by_key(|(time, _)| *time);
                let (times, values): (Vec<i64>, Vec<f64>) = samples.into_iter().unzip();
                pass_after(id, (&times, &values), passed, sink)?;
            }
            let mut summaries: Vec<Summary> =
                strands.iter_mut().flat_map(|strand| std::mem::take(&mut strand.summaries)).collect();
            summaries.sort_by_key(|summary| summary.first.0);
            summaries.retain(|summary| {
                let is_later = summary.first.0 > *passed;
                *passed = if is_later { summary.last.0 } else { *passed };
                is_later
            });
            if !summaries.is_empty() {
                sink.summaries(id, &summaries)?;
            }
            strands.iter_mut().for_each(|strand| strand.samples.clear(true));
        }
        self.held.count = 0;
        Ok(())
    }

    /// The series with these labels, if it is wanted and no other one has them.
    fn begin(
        &mut self,
        number: usize,
        labels: LabelSet,
        sink: &mut dyn Sink,
    ) -> Result<Option<SeriesId>, QueryError> {
        if let Some((id, owner)) = self.taken.get(&labels) {
            return Ok((*owner == number || self.form == Form::Recorded).then_some(*id));
        }
        if self.of_nodes.contains(&labels) {
            return Ok(None);
        }
        if !self.matchers.iter().all(|matcher| matcher.matches(labels.get(&matcher.name))) {
            return Ok(None);
        }
        let id = sink.series(labels.clone())?;
        self.taken.insert(labels, (id, number));
        Ok(Some(id))
    }
}

/// The labels that describe a series in a bucket: its own, or those of another series.
fn description(
    point: &RangePoint,
    series: &Series,
    described: Option<&[(Nanos, Reading)]>,
) -> Option<Labels> {
    let own = (series.metric.value_type == ValueType::Labels)
        .then(|| Reading::from_parts(LABELS_STATE, point.last.1).labels())
        .flatten();
    own.or_else(|| labels_at(described?, point.begin))
}

/// Fills one strand.
struct Filler<'f, 'a> {
    feed: &'f mut Feed<'a>,
    node: &'f NodeName,
    series: &'f Series,
    strand: &'f mut Strand,
    sink: &'f mut dyn Sink,
}

impl Filler<'_, '_> {
    fn rows(&mut self, rows: Rows<'_>, described: Option<&[(Nanos, Reading)]>) -> Result<(), QueryError> {
        if let Some(column) = rows.column() {
            return self.column(column, described);
        }
        let rows = rows.merged();
        for (row, (time, reading, series)) in rows.iter().enumerate() {
            let scale = self.feed.form.scale(&series.metric);
            let next = rows.get(row + 1).map(|(time, ..)| *time);
            self.row((*time, next), *reading, scale, described)?;
        }
        Ok(())
    }

    fn buckets(
        &mut self,
        rows: Rows<'_>,
        (length, as_summaries): (Nanos, bool),
        described: Option<&[(Nanos, Reading)]>,
    ) -> Result<(), QueryError> {
        let (after, to) = self.feed.wanted;
        // The pace of the rows is unknown from here on.
        self.strand.pace = Pace::default();
        for (point, series) in rows.buckets() {
            let Some(summary) = self.feed.form.scale(&series.metric).summary(point, length) else {
                continue;
            };
            let (begin, end) = (milliseconds(point.begin.0), milliseconds(point.begin.0 + length.0));
            let before = self.strand.bucket_end.replace(end);
            if let Some(ended) = before.filter(|ended| self.feed.form.has_pace() && *ended < begin) {
                self.strand.samples.end(ended);
            }
            self.named(summary.first.0, description(point, series, described))?;
            let Some(Some(id)) = self.strand.current else { continue };
            if as_summaries {
                if !self.feed.form.has_pace() {
                    self.strand.summaries.push(summary);
                    self.feed.held.count += 1;
                    continue;
                }
                self.pass(true)?;
                self.sink.summaries(id, &[summary])?;
            } else {
                let samples = summary.samples().filter(|(time, _)| *time > after && *time <= to);
                samples.for_each(|(time, value)| self.strand.samples.push(time, value));
            }
        }
        Ok(())
    }

    fn column(
        &mut self,
        column: &RangeColumn,
        described: Option<&[(Nanos, Reading)]>,
    ) -> Result<(), QueryError> {
        let scale = self.feed.form.scale(&self.series.metric);
        for (piece, run) in
            column.pieces.iter().flat_map(|piece| piece.runs.iter().map(move |run| (piece, run)))
        {
            let (times, values) = piece.of_run(run);
            let is_plain = run.state == NUMBER && described.is_none();
            for (row, &time) in times.iter().enumerate() {
                // The first row of a series needs labels. The later ones are handled together if that is enough.
                let bits = values.map_or(0, |values| values[row]);
                if is_plain
                    && row < 2
                    && self.numbers(piece, &times[row..], &values.unwrap_or_default()[row..], scale)?
                {
                    break;
                }
                let next = times.get(row + 1).map(|time| Nanos(*time));
                self.row((Nanos(time), next), Reading::from_parts(run.state, bits), scale, described)?;
            }
        }
        Ok(())
    }

    /// Takes many numbers at a time of a piece without gaps. Returns false, and takes none, if they must be handled one by one.
    fn numbers(
        &mut self,
        piece: &RangePiece,
        times: &[u64],
        bits: &[u64],
        scale: Scale<'_>,
    ) -> Result<bool, QueryError> {
        let Strand { pace, current, description, samples, bucket_end, .. } = &mut *self.strand;
        let (Some(current), None, None) = (*current, description, bucket_end) else { return Ok(false) };
        let (&[first, ..], &[.., newest], &[.., newest_bits]) = (times, times, bits) else {
            return Ok(false);
        };
        let has_pace = self.feed.form.has_pace();
        let rises = piece.values.rises();
        // Samples that wait for other groups are stored as times and values.
        let divisor = scale.divisor(bits, rises).filter(|_| has_pace);
        if divisor.is_none() && !scale.numbers(bits, &mut self.feed.values) {
            return Ok(false);
        }
        let (Some(newest_value), true) = (scale.number(newest_bits), samples.is_before(milliseconds(first)))
        else {
            return Ok(false);
        };
        // The cached distances of the whole piece are tried first.
        if has_pace
            && !(pace.rows(times, piece.times.distances_ms()) || pace.rows(times, distances_ms(times)))
        {
            return Ok(false);
        }
        let Some(id) = current else { return Ok(true) };
        if divisor.is_none() {
            let ms = &mut self.feed.times;
            ms.clear();
            ms.extend(times.iter().map(|time| milliseconds(*time)));
        }
        if !has_pace {
            let Feed { times: ms, values, held, .. } = &mut *self.feed;
            self.strand.samples.extend(ms, values);
            held.count += ms.len();
            return Ok(true);
        }
        // The waiting samples are older than all of these. Only the last of these waits, and no other one is copied.
        pass(self.strand, true, self.sink)?;
        let last = times.len() - 1;
        if last > 0 {
            match divisor {
                Some(divisor) => {
                    self.sink.run(id, &Run::new(&times[..last], &bits[..last], divisor, rises))?
                }
                None => {
                    let Feed { times: ms, values, .. } = &*self.feed;
                    self.sink.samples(id, &ms[..last], &values[..last])?;
                }
            }
        }
        self.strand.samples.push(milliseconds(newest), newest_value);
        Ok(true)
    }

    /// Takes a row. `next`: the time of the following row, if known.
    fn row(
        &mut self,
        (at, next): (Nanos, Option<Nanos>),
        reading: Reading,
        scale: Scale<'_>,
        described: Option<&[(Nanos, Reading)]>,
    ) -> Result<(), QueryError> {
        let time = milliseconds(at.0);
        let has_pace = self.feed.form.has_pace();
        let bucket_end = self.strand.bucket_end.take();
        if let Some(end) = bucket_end.filter(|end| has_pace && end + BUCKET_END_LATE < time) {
            self.strand.samples.end(end);
        }
        if has_pace {
            let series = (self.node, &self.series.metric.name, self.series.instance.as_ref());
            let next = next.map(|next| milliseconds(next.0));
            self.strand.look_back(&mut self.feed.history, series, (time, next))?;
        }
        if let Some(end) = self.strand.pace.row(time).filter(|_| has_pace) {
            self.strand.samples.end(end);
        }
        let value = match reading {
            Reading::Present(bits) => scale.number(bits),
            Reading::Labels(_) => Some(exposed::INFO_VALUE),
            Reading::Absent(_) | Reading::Failed(_) => None,
        };
        let description = match reading {
            Reading::Labels(_) => reading.labels(),
            _ => described.and_then(|described| labels_at(described, at)),
        };
        // Labels that the node has replaced long ago cannot be read.
        let is_readable = !matches!(reading, Reading::Labels(_)) || description.is_some();
        let Some(value) = value.filter(|_| is_readable) else {
            self.strand.samples.end(time);
            return Ok(());
        };
        self.named(time, description)?;
        if let Some(Some(_)) = self.strand.current {
            self.strand.samples.push(time, value);
            self.feed.held.count += 1;
        }
        Ok(())
    }

    /// Sets the description of the series from this time on. If it differs, the old labels end and the new ones begin.
    fn named(&mut self, time: i64, description: Option<Labels>) -> Result<(), QueryError> {
        if self.strand.current.is_some() && self.strand.description == description {
            return Ok(());
        }
        self.strand.samples.end(time);
        self.pass(true)?;
        let Feed { words, form, job, .. } = &mut *self.feed;
        let labels = words.labels(*form, self.node, job, self.series, description.as_ref());
        self.strand.current = Some(self.feed.begin(self.strand.number, labels, self.sink)?);
        self.strand.description = description;
        Ok(())
    }

    fn pass(&mut self, is_over: bool) -> Result<(), QueryError> {
        match self.feed.form.has_pace() {
            true => pass(self.strand, is_over, self.sink),
            // The samples wait for other groups.
            false => Ok(()),
        }
    }
}

/// Passes on the samples after a time, and moves that time to the last of them.
fn pass_after(
    id: SeriesId,
    (times, values): (&[i64], &[f64]),
    passed: &mut i64,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let begin = times.partition_point(|time| time <= passed);
    if let Some(last) = times[begin..].last() {
        *passed = *last;
        sink.samples(id, &times[begin..], &values[begin..])?;
    }
    Ok(())
}

fn pass(strand: &mut Strand, is_over: bool, sink: &mut dyn Sink) -> Result<(), QueryError> {
    let passed = strand.samples.passed(is_over);
    if let Some(Some(id)) = strand.current
        && passed > 0
    {
        sink.samples(id, &strand.samples.times[..passed], &strand.samples.values[..passed])?;
    }
    strand.samples.clear(is_over);
    Ok(())
}
