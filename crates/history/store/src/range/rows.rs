//! Every reading: hour by hour, node by node, series by series. It holds the times of one node's hour and one column.

use std::vec::IntoIter;

use khz_model::{Nanos, NodeName, QueryError, RangeAnswer, RangeContent, RangePart, Reading, Series, Stamp};

use crate::joined::{Joined, Rows};
use crate::layout::Key;
use crate::range::answer::Asked;
use crate::range::hours::HourFiles;
use crate::range::strand::{SeriesList, Strip};
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
}

/// A node in one hour.
pub(crate) struct NodeHour {
    node: NodeName,
    joined: Joined<Strip>,
    series: IntoIter<(Key, Series)>,
}

/// Bytes for each row of a column while it becomes readings: what pieces have of it, joined, and the readings.
const BYTES_A_ROW: usize = 3 * 8 + size_of::<(Stamp, Reading)>();

impl RowsAnswer {
    pub fn new(asked: Asked) -> Self {
        let files = HourFiles::new(&asked.reader.files);
        RowsAnswer { asked, files, hours: None, hour: 0, nodes: Vec::new().into_iter(), node: None }
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
        let files = self.files.of(hour, &mut self.asked.damage).to_vec();
        self.nodes = self.asked.nodes(&files).into_iter();
        Ok(true)
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
        let (from, to) = asked.within(hour);
        let live = asked.live(&node, from, to);
        files.renew();
        let mut strips = Strip::sections(files.of(hour, &mut asked.damage), &node, &mut asked.damage);
        strips.retain(|strip| strip.span().0 < to.0 && strip.span().1 >= from.0);
        let held: usize = live.iter().map(|rows| rows.held()).sum();
        strips.extend(live.into_iter().map(Strip::Live));
        let mut series = SeriesList::default();
        let patterns = asked.patterns_of(&node);
        strips.iter().for_each(|strip| series.add(crate::joined::Rows::series(strip), &patterns));
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
        Ok(Some(NodeHour { node, joined, series: series.into_iter() }))
    }

    /// Leaves out series.
    pub fn keep(&mut self, is_kept: impl Fn(&Key) -> bool) {
        let series: Vec<(Key, Series)> =
            std::mem::take(&mut self.series).filter(|(key, _)| is_kept(key)).collect();
        self.series = series.into_iter();
    }

    /// The readings of the next series that has some.
    pub fn next(&mut self, asked: &mut Asked, step: Nanos, hour: u64) -> Option<RangePart> {
        let (from, to) = asked.within(hour);
        loop {
            let (key, series) = self.series.next()?;
            let Content::Readings(track) = self.joined.column(&key, &mut asked.damage) else { continue };
            let times = &self.joined.times;
            let within = |(row, _): &(usize, Reading)| (from.0..to.0).contains(&times.at[*row]);
            let readings: Vec<(Stamp, Reading)> =
                track.readings().filter(within).map(|(row, reading)| (times.stamp(row), reading)).collect();
            if readings.is_empty() {
                continue;
            }
            let content = RangeContent::Readings(readings);
            return Some(RangePart { node: self.node.clone(), series, step, content, labels: track.labels });
        }
    }
}

impl RangeAnswer for RowsAnswer {
    fn next(&mut self) -> Result<Option<RangePart>, QueryError> {
        loop {
            let step = self.asked.within(self.hour).0;
            if let Some(node) = &mut self.node {
                if let Some(part) = node.next(&mut self.asked, step, self.hour) {
                    return self.asked.give(part);
                }
                self.node = None;
            }
            if let Some(node) = self.nodes.next() {
                self.node = NodeHour::of(&mut self.asked, &mut self.files, self.hour, node)?;
            } else if !self.next_hour()? {
                return Ok(None);
            }
        }
    }

    fn damage(&mut self) -> Vec<String> {
        self.asked.damages()
    }
}
