//! Every reading: hour by hour, node by node, series by series. It holds the times of one node's hour and one column. In
//! short steps, an hour with many readings is given piece by piece, and each piece unpacks its columns again. Where columns are
//! asked for and rows are damaged, roll-ups answer.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::vec::IntoIter;

use khz_model::{Nanos, NodeName, QueryError, RangeAnswer, RangeContent, RangePart, Reading, Series, Stamp};

use crate::joined::{Joined, Rows};
use crate::layout::Key;
use crate::range::HOUR;
use crate::range::ahead::Ahead;
use crate::range::answer::Asked;
use crate::range::hours::HourFiles;
use crate::range::instead::Instead;
use crate::range::strand::{SeriesList, Strip};
use crate::times::Times;
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
    /// What roll-ups have of the present node in this hour, if something of it is damaged.
    instead: Option<Instead>,
    /// Parts that come next, with the length of their buckets.
    waiting: VecDeque<(RangePart, Option<Nanos>)>,
    /// The length of the buckets of the last part.
    width: Option<Nanos>,
}

/// A node in one hour.
pub(crate) struct NodeHour {
    node: NodeName,
    pub joined: Joined<Strip>,
    pub series: Vec<(Key, Series)>,
    /// The present step, from its begin to its end, and the later ones before it.
    steps: Vec<(u64, u64)>,
    /// The series of the present step that comes next.
    place: usize,
    /// The times of the present step's rows, if somebody wants columns.
    columns: Option<(u64, Arc<[u64]>)>,
    /// Series with damage that nobody has looked at yet.
    damaged: Vec<Key>,
    /// Series that something else answers for.
    left_out: HashSet<Key>,
}

/// Bytes for each row of a column while it becomes readings: what pieces have of it, joined, and the readings.
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
        let left = self.node.as_ref().map_or(0, |rows| rows.joined.column(key, &mut asked.damage).values());
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
    /// What a node has in one hour; `None`: nothing of what is asked for.
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
        let joined = match Joined::of(strips, &mut asked.damage) {
            Ok(joined) => joined,
            Err(error) => {
                asked.damage.push(error);
                return Ok(None);
            }
        };
        asked.hold(held + joined.times.rows() * (32 + BYTES_A_ROW))?;
        let steps = vec![(from.0, to.0)];
        let (columns, damaged, left_out) = Default::default();
        Ok(Some(NodeHour { node, joined, series, steps, place: 0, columns, damaged, left_out }))
    }

    /// Leaves out series.
    pub fn keep(&mut self, is_kept: impl Fn(&Key) -> bool) {
        self.series.retain(|(key, _)| is_kept(key));
    }

    /// Divides the time into steps of at most this many readings, or one row.
    fn divide(&mut self, readings_max: usize) {
        let rows_max = (readings_max / self.series.len().max(1)).max(1);
        let times = &self.joined.times.at;
        let divided = self.steps.drain(..).flat_map(|(from, to)| {
            let first = times.partition_point(|time| *time < from);
            let last = times.partition_point(|time| *time < to);
            let later = times[first..last].chunks(rows_max).skip(1).map(|rows| rows[0]);
            let begins: Vec<u64> = std::iter::once(from).chain(later).collect();
            let ends = begins.clone().into_iter().skip(1).chain([to]);
            begins.into_iter().zip(ends).collect::<Vec<_>>()
        });
        let mut steps: Vec<(u64, u64)> = divided.collect();
        steps.reverse();
        self.steps = steps;
    }

    /// The readings of the next series that has some in this step; after the last one those of the next step.
    pub fn next(&mut self, asked: &mut Asked) -> Option<RangePart> {
        self.next_as(asked, |track, rows, times| {
            let readings = track.readings_of(rows, |row| times.stamp(row));
            (!readings.is_empty()).then_some(RangeContent::Readings(readings))
        })
    }

    /// The same as a column.
    pub fn next_column(&mut self, asked: &mut Asked) -> Option<RangePart> {
        let mut columns = self.columns.take();
        let part = self.next_as(asked, |track, rows, times| {
            let first = rows.start as u64;
            let of_step = |known: &&mut (u64, Arc<[u64]>)| known.0 == first && known.1.len() == rows.len();
            let shared = match columns.as_mut().filter(of_step) {
                Some((_, shared)) => shared.clone(),
                None => columns.insert((first, times.at[rows.clone()].into())).1.clone(),
            };
            let column = track.column_of(rows, shared);
            (!column.runs.is_empty()).then_some(RangeContent::Column(column))
        });
        self.columns = columns;
        part
    }

    fn next_as(
        &mut self,
        asked: &mut Asked,
        mut content: impl FnMut(&Track<u64>, Range<usize>, &Times) -> Option<RangeContent>,
    ) -> Option<RangePart> {
        loop {
            let &(from, to) = self.steps.last()?;
            let Some((key, series)) = self.series.get(self.place) else {
                self.steps.pop();
                self.place = 0;
                continue;
            };
            self.place += 1;
            if self.left_out.contains(key) {
                continue;
            }
            let known = asked.damage.len();
            let column = self.joined.column(key, &mut asked.damage);
            if asked.damage.len() > known {
                self.damaged.push(key.clone());
            }
            let Content::Readings(track) = &*column else { continue };
            let times = &self.joined.times;
            let place = |time: u64| times.at.partition_point(|at| *at < time);
            let rows = place(from)..place(to);
            let Some(content) = content(track, rows.clone(), times) else { continue };
            let (node, series, step) = (self.node.clone(), series.clone(), Nanos(from));
            let shift = times.largest_shift(rows);
            return Some(RangePart { node, series, step, shift, content, labels: track.labels.clone() });
        }
    }
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
