//! Passes the series of a range on as samples. A slot that turns Absent or Failed ends its series, a node that falls silent ends
//! all of its own, and labels that change end one series and begin another.

use std::collections::HashMap;

use khz_model::metric::Text;
use khz_model::reading::LABELS_STATE;
use khz_model::{
    Absence, Instance, Labels, Metric, Nanos, NodeName, RangeColumn, RangePiece, Reading, Series, ValueType,
    exposed,
};
use khz_promql::{LabelSet, Matcher, QueryError, Run, SeriesId, Sink};

use crate::clock::milliseconds;
use crate::labelled::Labelled;
use crate::limits::BUCKET_END_LATE;
use crate::rows::{Group, Rows, labels_at};
use crate::strand::{Pace, Samples, distances_ms};
use crate::values::{Form, Scale, Words};

/// [`Reading::state`] of a number.
const NUMBER: u8 = 0;

/// Where samples go, and which of them.
pub(crate) struct Feed<'a> {
    pub form: Form,
    pub job: &'a str,
    pub matchers: &'a [Matcher],
    pub words: Words,
    /// Samples after the one time and up to the other (ms) are wanted. Rows that come are all of this time, buckets may not be.
    pub wanted: (i64, i64),
    /// Nothing after this time (ms).
    pub end: i64,
    strands: HashMap<(NodeName, Text, Option<Instance>), Strand>,
    /// Times (ms) and values of many rows, kept to reuse their memory.
    times: Vec<i64>,
    values: Vec<f64>,
    /// The label sets that are in use, each with the number of its strand.
    taken: HashMap<LabelSet, (SeriesId, usize)>,
}

/// One series of a node, which may have had several label sets.
#[derive(Default)]
struct Strand {
    number: usize,
    pace: Pace,
    /// What described it last.
    description: Option<Labels>,
    /// The series that has the last samples; `None` in it: that one is not wanted.
    current: Option<Option<SeriesId>>,
    samples: Samples,
    /// When the last bucket ends (ms), if no row came since.
    bucket_end: Option<i64>,
}

impl<'a> Feed<'a> {
    /// A feed for series with these labels.
    pub fn new(form: Form, job: &'a str, matchers: &'a [Matcher], wanted: (i64, i64), end: i64) -> Self {
        let (words, strands, taken) = (Words::default(), HashMap::new(), HashMap::new());
        let (times, values) = (Vec::new(), Vec::new());
        Feed { form, job, matchers, words, wanted, end, strands, times, values, taken }
    }

    /// Takes what there is of one node in one step.
    pub fn group(
        &mut self,
        group: &Group,
        is_wanted: impl Fn(&Metric) -> bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        self.each_series(group, is_wanted, sink, |filler, rows, described| filler.rows(rows, described))
    }

    /// Takes what there is of one node in buckets of this length, as summaries or as samples.
    pub fn buckets(
        &mut self,
        group: &Group,
        (length, as_summaries): (Nanos, bool),
        is_wanted: impl Fn(&Metric) -> bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
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

    /// Forgets the rows, so that earlier ones may follow; what was listed stays.
    pub fn forget_rows(&mut self) {
        self.strands.clear();
    }

    /// Names the series of which this is the newest reading; those that never had a value are left out. Those whose labels are
    /// values may have had further ones: their metrics are noted.
    pub fn newest(
        &mut self,
        group: &Group,
        is_wanted: impl Fn(&Metric) -> bool,
        labelled: &mut Labelled,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let Some(node) = group.node() else { return Ok(()) };
        let descriptions = group.descriptions();
        for rows in group.series() {
            let series = rows.series();
            if is_wanted(&series.metric) {
                labelled.note(&series.metric);
            }
            let newest = rows.merged().pop();
            let Some((_, newest, _)) =
                newest.filter(|(_, newest, _)| is_wanted(&series.metric) && had_value(*newest))
            else {
                continue;
            };
            let description = newest.labels().or_else(|| descriptions.of(series)?.last()?.1.labels());
            let labels = self.words.labels(self.form, node, self.job, series, description.as_ref());
            let number = self.taken.len();
            self.begin(number, labels, sink)?;
        }
        Ok(())
    }

    /// Ends the series of nodes that are silent, and passes on what waits.
    pub fn finish(&mut self, sink: &mut dyn Sink) -> Result<(), QueryError> {
        for strand in self.strands.values_mut() {
            if let Some(end) = strand.bucket_end.filter(|end| end + BUCKET_END_LATE <= self.end) {
                strand.samples.end(end);
            }
            if let Some(end) = strand.pace.silent_by(self.end.saturating_add(1)) {
                strand.samples.end(end);
            }
            pass(strand, true, sink)?;
        }
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
            return Ok((*owner == number).then_some(*id));
        }
        if !self.matchers.iter().all(|matcher| matcher.matches(labels.get(&matcher.name))) {
            return Ok(None);
        }
        let id = sink.series(labels.clone())?;
        self.taken.insert(labels, (id, number));
        Ok(Some(id))
    }
}

/// False for a reading of a series that never had a value.
fn had_value(newest: Reading) -> bool {
    !matches!(newest, Reading::Absent(Absence::NoField | Absence::NoSource | Absence::NotYet))
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
        for (time, reading, series) in rows.merged() {
            let scale = self.feed.form.scale(&series.metric);
            self.row(time, reading, scale, described)?;
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
        // Nobody knows any more at which pace the rows came.
        self.strand.pace = Pace::default();
        for (point, series) in rows.buckets() {
            let Some(summary) = self.feed.form.scale(&series.metric).summary(point, length) else {
                continue;
            };
            let (begin, end) = (milliseconds(point.begin.0), milliseconds(point.begin.0 + length.0));
            if let Some(ended) = self.strand.bucket_end.replace(end).filter(|ended| *ended < begin) {
                self.strand.samples.end(ended);
            }
            let own = (series.metric.value_type == ValueType::Labels)
                .then(|| Reading::from_parts(LABELS_STATE, point.last.1).labels())
                .flatten();
            let description = own.or_else(|| labels_at(described?, point.begin));
            self.named(summary.first.0, description)?;
            let Some(Some(id)) = self.strand.current else { continue };
            if as_summaries {
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
                // The first row of a series needs labels; those after it are looked at together where that suffices.
                let bits = values.map_or(0, |values| values[row]);
                if is_plain
                    && row < 2
                    && self.numbers(piece, &times[row..], &values.unwrap_or_default()[row..], scale)?
                {
                    break;
                }
                self.row(Nanos(time), Reading::from_parts(run.state, bits), scale, described)?;
            }
        }
        Ok(())
    }

    /// Takes numbers of a piece without gaps, many at a time; false, and none is taken: they must be looked at one by one.
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
        let rises = piece.values.rises();
        let divisor = scale.divisor(bits, rises);
        if divisor.is_none() && !scale.numbers(bits, &mut self.feed.values) {
            return Ok(false);
        }
        let (Some(newest_value), true) = (scale.number(newest_bits), samples.is_before(milliseconds(first)))
        else {
            return Ok(false);
        };
        // All rows of the piece are known better than these.
        if !(pace.rows(times, piece.times.distances_ms()) || pace.rows(times, distances_ms(times))) {
            return Ok(false);
        }
        let Some(id) = current else { return Ok(true) };
        // What waits is before all of these. Of these only the last one waits, and no other one is copied.
        pass(self.strand, true, self.sink)?;
        let last = times.len() - 1;
        if last > 0 {
            match divisor {
                Some(divisor) => {
                    self.sink.run(id, &Run::new(&times[..last], &bits[..last], divisor, rises))?
                }
                None => {
                    let Feed { times: ms, values, .. } = &mut *self.feed;
                    ms.clear();
                    ms.extend(times.iter().map(|time| milliseconds(*time)));
                    self.sink.samples(id, &ms[..last], &values[..last])?;
                }
            }
        }
        self.strand.samples.push(milliseconds(newest), newest_value);
        Ok(true)
    }

    fn row(
        &mut self,
        at: Nanos,
        reading: Reading,
        scale: Scale<'_>,
        described: Option<&[(Nanos, Reading)]>,
    ) -> Result<(), QueryError> {
        let time = milliseconds(at.0);
        if let Some(end) = self.strand.bucket_end.take().filter(|end| end + BUCKET_END_LATE < time) {
            self.strand.samples.end(end);
        }
        if let Some(end) = self.strand.pace.row(time) {
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
        // Labels that their node has replaced long ago cannot be read.
        let is_readable = !matches!(reading, Reading::Labels(_)) || description.is_some();
        let Some(value) = value.filter(|_| is_readable) else {
            self.strand.samples.end(time);
            return Ok(());
        };
        self.named(time, description)?;
        if let Some(Some(_)) = self.strand.current {
            self.strand.samples.push(time, value);
        }
        Ok(())
    }

    /// From this time on the series has this description: its labels end, and others begin, if it had another one.
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
        pass(self.strand, is_over, self.sink)
    }
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
