//! Every reading: hour by hour, node by node, series by series. It holds the times of one node's hour and one column. In short
//! steps, an hour with many readings is given step by step, and each step unpacks its columns again. If columns are asked for and
//! rows are damaged, roll-ups answer.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::vec::IntoIter;

use khz_model::{
    Nanos, NodeName, QueryError, RangeAnswer, RangeColumn, RangeContent, RangePart, RangePiece, RangeRun,
    RangeTimes, Reading, Series, Stamp,
};

use crate::joined::Rows;
use crate::layout::Key;
use crate::range::HOUR;
use crate::range::ahead::Ahead;
use crate::range::answer::Asked;
use crate::range::hours::HourFiles;
use crate::range::instead::Instead;
use crate::range::strand::{SeriesList, Strand, Stretch, Strip};
use crate::track::Track;
use crate::writer::Content;

/// The answer with every reading.
pub(crate) struct RowsAnswer {
    asked: Asked,
    files: HourFiles,
    /// The hours that are still to come; `None`: before the first.
    hours: Option<IntoIter<u64>>,
    hour: u64,
    nodes: IntoIter<NodeName>,
    node: Option<NodeHour>,
    ahead: Ahead,
    /// The most readings of a step.
    step_max: usize,
    /// They are given as columns, and summaries in place of those that are damaged.
    is_columns: bool,
    /// The roll-ups of the current node in this hour, if some of its rows are damaged.
    instead: Option<Instead>,
    /// Parts that come next, with the length of their buckets.
    waiting: VecDeque<(RangePart, Option<Nanos>)>,
    /// The length of the buckets of the last part.
    width: Option<Nanos>,
}

/// A node in one hour.
pub(crate) struct NodeHour {
    node: NodeName,
    pub strand: Strand,
    pub series: Vec<(Key, Series)>,
    /// The present step, from its begin to its end, and the later ones before it.
    steps: Vec<(u64, u64)>,
    /// The series of the present step that comes next.
    place: usize,
    /// The present step is the first one: its columns are looked at in all of the time, and damage is known before rows are given.
    is_first: bool,
    /// Times of the part of each stretch that lies in the current step. The columns of all series share them.
    parts: Vec<(usize, Arc<RangeTimes>)>,
    /// Series with damage that nobody has looked at yet.
    damaged: Vec<Key>,
    /// Series that something else answers for.
    left_out: HashSet<Key>,
}

/// Bytes for each row of a column while it becomes readings: the values from pieces, the joined values, and the readings.
const BYTES_A_ROW: usize = 3 * 8 + size_of::<(Stamp, Reading)>();

impl RowsAnswer {
    /// An answer in steps of an hour; in shorter ones where a node has more readings than `step_max` in it.
    pub fn new(asked: Asked, step_max: usize) -> Self {
        let files = HourFiles::new(&asked.reader.files);
        RowsAnswer {
            asked,
            files,
            hours: None,
            hour: 0,
            nodes: Vec::new().into_iter(),
            node: None,
            ahead: Ahead::default(),
            step_max,
            is_columns: false,
            instead: None,
            waiting: VecDeque::new(),
            width: None,
        }
    }

    /// The same as columns.
    pub fn with_columns(self) -> Self {
        RowsAnswer { is_columns: true, ..self }
    }

    /// Goes to the next hour; false after the last.
    fn next_hour(&mut self) -> Result<bool, QueryError> {
        let hours = match &mut self.hours {
            Some(hours) => hours,
            None => self.hours.insert(self.asked.hours()?.into_iter()),
        };
        let Some(hour) = hours.next() else { return Ok(false) };
        self.hour = hour;
        self.files.close_before(hour);
        let mut files = self.files.of(hour, &mut self.asked.damage).to_vec();
        let known = self.asked.damage.len();
        let mut nodes = self.asked.nodes(&files);
        if self.is_columns && (self.files.is_damaged(hour) || self.asked.damage.len() > known) {
            let (of_store, end) = (self.asked.reader.files.clone(), hour.saturating_add(HOUR));
            for width in of_store.resolutions() {
                files.extend(of_store.files(width, Nanos(hour), Nanos(end), &mut self.asked.damage));
            }
            nodes = self.asked.nodes(&files);
        }
        self.nodes = nodes.into_iter();
        Ok(true)
    }

    /// Begins the next node of this hour; false after the last.
    fn next_node(&mut self) -> Result<bool, QueryError> {
        let Some(node) = self.nodes.next() else { return Ok(false) };
        let known = self.asked.damage.len();
        self.node = NodeHour::of(&mut self.asked, &mut self.files, self.hour, node.clone())?;
        let is_damaged = self.files.is_damaged(self.hour) || self.asked.damage.len() > known;
        self.instead = None;
        if self.is_columns && is_damaged {
            self.find_instead(&node);
            let series = self.instead.as_ref().map_or_else(Vec::new, |instead| instead.series.clone());
            series.into_iter().for_each(|(key, series)| _ = self.replace(&node, &key, &series));
        }
        if let Some(node) = &mut self.node {
            node.divide(self.step_max);
        }
        Ok(true)
    }

    fn find_instead(&mut self, node: &NodeName) {
        if self.instead.is_none() {
            self.instead = Instead::of(&mut self.asked, node, self.hour);
        }
    }

    /// Gives what a roll-up has of a series in place of its rows, if it knows more of them than are left.
    fn replace(&mut self, node: &NodeName, key: &Key, series: &Series) -> bool {
        let (asked, Some(instead)) = (&mut self.asked, &self.instead) else { return false };
        let left = self.node.as_ref().map_or(0, |rows| rows.values(key, asked));
        if instead.count(key, asked) <= left {
            return false;
        }
        let time = asked.within(self.hour);
        let (points, labels) = instead.points(key, time, asked);
        let (node, series) = (node.clone(), series.clone());
        let part =
            RangePart { node, series, step: time.0, shift: 0, content: RangeContent::Points(points), labels };
        if part.content.count() > 0 {
            self.waiting.push_back((part, Some(instead.width)));
        }
        if let Some(rows) = &mut self.node {
            rows.left_out.insert(key.clone());
        }
        true
    }

    /// Takes a part of rows, and looks at the series that were damaged on the way to it.
    fn take(&mut self, mut part: Option<RangePart>) {
        let Some(rows) = self.node.as_mut().filter(|_| self.is_columns) else {
            return self.waiting.extend(part.map(|part| (part, None)));
        };
        let (node, damaged) = (rows.node.clone(), std::mem::take(&mut rows.damaged));
        for key in damaged {
            self.find_instead(&node);
            let of_rows = self.node.as_ref().and_then(|rows| rows.series.iter().find(|it| it.0 == key));
            let Some((_, series)) = of_rows.cloned() else { continue };
            let is_replaced = self.replace(&node, &key, &series);
            part = part.filter(|part| !is_replaced || Key::of(&part.series) != key);
        }
        self.waiting.extend(part.map(|part| (part, None)));
    }
}

impl NodeHour {
    /// The data of a node in one hour; `None`: nothing that was asked for.
    pub fn of(
        asked: &mut Asked,
        files: &mut HourFiles,
        hour: u64,
        node: NodeName,
    ) -> Result<Option<Self>, QueryError> {
        let time = asked.within(hour);
        Self::within(asked, files, time, node)
    }

    /// The same of a part of an hour.
    pub fn within(
        asked: &mut Asked,
        files: &mut HourFiles,
        (from, to): (Nanos, Nanos),
        node: NodeName,
    ) -> Result<Option<Self>, QueryError> {
        let hour = from.0 - from.0 % HOUR;
        let live = asked.live(&node, from, to);
        files.renew();
        let sections = files.of(hour, &mut asked.damage).to_vec();
        let mut strips = asked.sections(&sections, &node);
        strips.retain(|strip| strip.span().0 < to.0 && strip.span().1 >= from.0);
        let held: usize = live.iter().map(|rows| rows.held()).sum();
        strips.extend(live.into_iter().map(Strip::Live));
        let mut series = SeriesList::default();
        asked.select(&node, strips.iter(), &mut series);
        let series = series.sorted();
        if series.is_empty() {
            return Ok(None);
        }
        let strand = Strand::of(strips, &mut asked.damage);
        asked.hold(held + strand.rows() * (32 + BYTES_A_ROW))?;
        let steps = vec![(from.0, to.0)];
        let (parts, damaged, left_out) = Default::default();
        Ok(Some(NodeHour { node, strand, series, steps, place: 0, is_first: true, parts, damaged, left_out }))
    }

    /// How many values of a series are left in all of it.
    fn values(&self, key: &Key, asked: &mut Asked) -> u64 {
        let of_stretch = |stretch: &Stretch| stretch.joined.column(key, &mut asked.damage).values();
        self.strand.stretches.iter().map(of_stretch).sum()
    }

    /// Leaves out series.
    pub fn keep(&mut self, is_kept: impl Fn(&Key) -> bool) {
        self.series.retain(|(key, _)| is_kept(key));
    }

    /// Divides the time into steps of at most this many readings, or one row.
    fn divide(&mut self, readings_max: usize) {
        let rows_max = (readings_max / self.series.len().max(1)).max(1);
        if self.strand.rows() <= rows_max {
            return;
        }
        let mut steps: Vec<(u64, u64)> = Vec::new();
        for (from, to) in self.steps.drain(..) {
            let (mut begin, mut rows) = (from, 0);
            let times = self.strand.stretches.iter().flat_map(|stretch| &stretch.joined.times.at[..]);
            for &time in times.filter(|time| (from..to).contains(time)) {
                if rows == rows_max {
                    steps.push((std::mem::replace(&mut begin, time), time));
                    rows = 0;
                }
                rows += 1;
            }
            steps.push((begin, to));
        }
        steps.reverse();
        self.steps = steps;
    }

    /// The readings of the next series that has some in this step; after the last one those of the next step.
    pub fn next(&mut self, asked: &mut Asked) -> Option<RangePart> {
        self.next_as(asked, false)
    }

    /// The same as a column.
    pub fn next_column(&mut self, asked: &mut Asked) -> Option<RangePart> {
        self.next_as(asked, true)
    }

    fn next_as(&mut self, asked: &mut Asked, is_column: bool) -> Option<RangePart> {
        loop {
            let &(from, to) = self.steps.last()?;
            let Some((key, series)) = self.series.get(self.place) else {
                self.steps.pop();
                (self.place, self.is_first) = (0, false);
                self.parts.clear();
                continue;
            };
            self.place += 1;
            if self.left_out.contains(key) {
                continue;
            }
            let known = asked.damage.len();
            let all = self.strand.stretches.iter().map(|stretch| stretch.rows(from, to).len());
            let mut readings = Vec::with_capacity(if is_column { 0 } else { all.sum() });
            let (mut pieces, mut labels, mut shift) = (Vec::new(), Vec::new(), 0);
            for (number, stretch) in self.strand.stretches.iter().enumerate() {
                let rows = stretch.rows(from, to);
                if rows.is_empty() && !(is_column && self.is_first) {
                    continue;
                }
                let column = stretch.joined.column(key, &mut asked.damage);
                let Content::Readings(track) = &*column else { continue };
                if rows.is_empty() {
                    continue;
                }
                shift = larger(shift, stretch.joined.times.largest_shift(rows.clone()));
                match is_column {
                    true => pieces.extend(piece(&column, track, rows, (number, stretch), &mut self.parts)),
                    false => track.readings_of(rows, |row| stretch.joined.times.stamp(row), &mut readings),
                }
                labels.extend(track.labels.iter().cloned());
            }
            if asked.damage.len() > known {
                self.damaged.push(key.clone());
            }
            let content = match is_column {
                true if !pieces.is_empty() => RangeContent::Column(RangeColumn { pieces }),
                false if !readings.is_empty() => RangeContent::Readings(readings),
                _ => continue,
            };
            let (node, series, step) = (self.node.clone(), series.clone(), Nanos(from));
            return Some(RangePart { node, series, step, shift, content, labels });
        }
    }
}

/// The larger of two shifts, up or down; of equal ones the later.
fn larger(one: i64, later: i64) -> i64 {
    if later.unsigned_abs() >= one.unsigned_abs() { later } else { one }
}

/// Some rows of a column, without a copy, unless most of the column is not wanted: then it would be held for nothing.
fn piece(
    column: &Arc<Content>,
    track: &Track<u64>,
    rows: Range<usize>,
    (number, stretch): (usize, &Stretch),
    parts: &mut Vec<(usize, Arc<RangeTimes>)>,
) -> Option<RangePiece> {
    let all = &stretch.joined.times.at;
    let mut runs: Vec<RangeRun> = track.runs_of(rows.clone()).collect();
    if runs.is_empty() {
        return None;
    }
    if rows.len() >= all.len() / 2 {
        return Some(RangePiece { times: all.clone(), runs, values: column.clone() });
    }
    let mut values = Vec::new();
    for run in &mut runs {
        if let Some(begin) = &mut run.values {
            let from = std::mem::replace(begin, values.len());
            values.extend_from_slice(&track.values[from..from + run.rows.len()]);
        }
        run.rows = run.rows.start - rows.start..run.rows.end - rows.start;
    }
    let known = parts.iter().find(|(known, _)| *known == number).map(|(_, times)| times.clone());
    let times = known.unwrap_or_else(|| {
        let times = Arc::new(all[rows].to_vec().into());
        parts.push((number, Arc::clone(&times)));
        times
    });
    Some(RangePiece { times, runs, values: Arc::new(values) })
}

impl RangeAnswer for RowsAnswer {
    fn next(&mut self) -> Result<Option<RangePart>, QueryError> {
        loop {
            if let Some((part, width)) = self.waiting.pop_front() {
                self.width = width;
                return self.asked.give(part);
            }
            if let Some(node) = &mut self.node {
                let part = match self.is_columns {
                    true => node.next_column(&mut self.asked),
                    false => node.next(&mut self.asked),
                };
                let is_over = part.is_none();
                self.take(part);
                if is_over {
                    self.node = None;
                }
                continue;
            }
            let files = self.files.of(self.hour, &mut self.asked.damage);
            self.ahead.look(&mut self.asked, files, self.nodes.as_slice());
            if !self.next_node()? && !self.next_hour()? {
                return Ok(None);
            }
        }
    }

    fn width(&self) -> Option<Nanos> {
        self.width
    }

    fn damage(&mut self) -> Vec<String> {
        self.asked.damages()
    }
}
