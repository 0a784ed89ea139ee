//! The rows of one node's base lane, hour by hour, for a follower of the store: each row with its time, and each series in the
//! wanted rows. It reads column files, the log and open blocks, and gives each row once.

use std::collections::BTreeSet;

use khz_model::{Labels, Nanos, NodeName, Pattern, QueryError, RangeRequest, RangeShape, Reading, Series};

use crate::StoreError;
use crate::lane_of::are_of_channel;
use crate::log::{KnownBlock, LogView};
use crate::range::answer::Asked;
use crate::range::hours::HourFiles;
use crate::range::rows::NodeHour;
use crate::range::{HOUR, RangeReader, live};
use crate::writer::Content;

/// Reads node after node. It keeps the files open that it has read last.
pub struct NodeReader {
    reader: RangeReader,
    files: HourFiles,
}

/// The rows of a node in one hour.
pub struct NodeRowsRead {
    hour: NodeHour,
    asked: Asked,
    /// The times of all rows of the hour.
    times: Vec<u64>,
    /// Numbers of the rows within the time that was asked for.
    first: usize,
    end: usize,
}

impl RangeReader {
    /// Reads whole nodes.
    pub fn nodes_reader(&self) -> NodeReader {
        NodeReader { reader: self.clone(), files: HourFiles::new(&self.files) }
    }
}

impl NodeReader {
    /// Another number after each change of the column files.
    pub fn version(&self) -> u64 {
        self.reader.files.version()
    }

    /// The begin of the oldest hour in the column files; `None`: there are none.
    pub fn begin(&self) -> Option<Nanos> {
        self.reader.files.hours(Nanos(0), Nanos(u64::MAX)).first().map(|hour| hour.begin)
    }

    /// The log, if there is one.
    pub fn log(&self) -> Option<&LogView> {
        self.reader.log.as_ref()
    }

    /// The blocks of a node's base lane in the log, and the one that has not come there yet.
    pub fn known(&self, node: &NodeName) -> Vec<KnownBlock> {
        let mut known = self.reader.log.as_ref().map(|log| log.known(node)).unwrap_or_default();
        let newest = known.iter().max_by_key(|block| block.span.1).map(|block| block.lane.clone());
        let newest = newest.or_else(|| self.reader.log.as_ref()?.newest_base(node));
        let open = self.reader.open.of(node, Nanos(0), Nanos(u64::MAX)).into_iter();
        let open = open.filter(|open| !are_of_channel(open.schema.series())).last();
        if let Some((lane, open)) = newest.zip(open) {
            known.push(KnownBlock {
                lane,
                first_row: open.header.first_row,
                rows: open.rows,
                span: open.span(),
            });
        }
        known
    }

    /// The nodes that have rows in the log or in open blocks.
    pub fn nodes(&self) -> BTreeSet<NodeName> {
        let mut nodes: BTreeSet<NodeName> = self.reader.open.nodes().into_iter().collect();
        if let Some(log) = &self.reader.log {
            nodes.extend(log.nodes(None));
        }
        nodes
    }

    /// The nodes that have rows in the column files of this time.
    pub fn stored_nodes(
        &mut self,
        from: Nanos,
        to: Nanos,
        damage: &mut Vec<StoreError>,
    ) -> BTreeSet<NodeName> {
        self.files.renew();
        let mut nodes = BTreeSet::new();
        for hour in self.reader.files.hours(from, to) {
            for file in self.files.of(hour.begin.0, damage) {
                let (found, damaged) = file.nodes();
                nodes.extend(found);
                damage.extend(damaged);
            }
        }
        nodes
    }

    /// The first rows of a node from `from` on and before `to`: those of the first hour that has some. `known` are its blocks.
    pub fn first(
        &mut self,
        node: &NodeName,
        known: &[KnownBlock],
        (from, to): (Nanos, Nanos),
        patterns: &[Pattern],
        damage: &mut Vec<StoreError>,
    ) -> Result<Option<NodeRowsRead>, QueryError> {
        let filed = self.reader.files.hours(from, to);
        let mut hours: BTreeSet<u64> = filed.into_iter().map(|hour| hour.begin.0).collect();
        for block in known {
            hours.extend(live::hours_between(block.span.0.max(from), block.span.1, to));
        }
        for &hour in hours.range(from.0 - from.0 % HOUR..to.0) {
            let (from, to) = (Nanos(hour.max(from.0)), Nanos(hour.saturating_add(HOUR).min(to.0)));
            let request = RangeRequest { patterns: patterns.to_vec(), from, to, shape: RangeShape::Rows };
            let mut asked = Asked::new(self.reader.clone(), request)?.of_base();
            let read = NodeHour::of(&mut asked, &mut self.files, hour, node.clone())?;
            damage.append(&mut asked.damage);
            let Some(read) = read else { continue };
            let times: Vec<u64> = read
                .strand
                .stretches
                .iter()
                .flat_map(|stretch| &stretch.joined.times.at[..])
                .copied()
                .collect();
            let (first, end) =
                (times.partition_point(|time| *time < from.0), times.partition_point(|time| *time < to.0));
            if first < end {
                return Ok(Some(NodeRowsRead { hour: read, asked, times, first, end }));
            }
        }
        Ok(None)
    }

    /// Closes the files of the hours before this time.
    pub fn close_before(&mut self, time: Nanos) {
        self.files.close_before(time.0 - time.0 % HOUR);
    }
}

impl NodeRowsRead {
    /// When each row was gathered, in order, in ns.
    pub fn times(&self) -> &[u64] {
        &self.times[self.first..self.end]
    }

    /// Leaves out the rows from this time on.
    pub fn cut(&mut self, to: Nanos) {
        let end = self.times.partition_point(|time| *time < to.0);
        self.end = self.end.min(end).max(self.first);
    }

    /// The series that the rows have, in the order of their names. A metric that changed its type or its decimal places is
    /// there once for each.
    pub fn series(&self) -> impl ExactSizeIterator<Item = &Series> {
        self.hour.series.iter().map(|(_, series)| series)
    }

    /// The readings of a series, by its place in that list, in these rows (numbers of [`NodeRowsRead::times`], in order);
    /// `None`: the row does not have it. The labels must be held as long as the readings are used.
    pub fn readings(&mut self, place: usize, rows: &[usize], out: &mut Vec<Option<Reading>>) -> Vec<Labels> {
        out.clear();
        out.resize(rows.len(), None);
        let Some((key, _)) = self.hour.series.get(place) else { return Vec::new() };
        let mut wanted = rows.iter().map(|row| row + self.first).zip(out.iter_mut()).peekable();
        let (mut begin, mut labels) = (0, Vec::new());
        for stretch in &self.hour.strand.stretches {
            let (first, end) = (begin, begin + stretch.joined.times.rows());
            begin = end;
            while wanted.next_if(|(next, _)| *next < first).is_some() {}
            if wanted.peek().is_none_or(|(next, _)| *next >= end) {
                continue;
            }
            let column = stretch.joined.column(key, &mut self.asked.damage);
            let Content::Readings(track) = &*column else { continue };
            for (row, reading) in track.readings().map(|(row, reading)| (first + row, reading)) {
                while wanted.next_if(|(next, _)| *next < row).is_some() {}
                if let Some((_, place)) = wanted.next_if(|(next, _)| *next == row) {
                    *place = Some(reading);
                } else if wanted.peek().is_none() {
                    break;
                }
            }
            labels.extend(track.labels.iter().cloned());
        }
        labels
    }

    /// Returns the unreadable parts since the last call.
    pub fn damage(&mut self) -> Vec<StoreError> {
        std::mem::take(&mut self.asked.damage)
    }
}
