//! Summaries of series in buckets of time: node by node, series by series. Roll-ups answer where they can (`slices.rs`), so that
//! weeks take some thousand summaries of a series, not its million values.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::vec::IntoIter;

use khz_model::{
    Labels, Nanos, NodeName, QueryError, RangeAnswer, RangeContent, RangePart, RangePoint, RangeTotal,
    Series, ValueType,
};

use crate::StoreError;
use crate::file::ColumnFile;
use crate::joined::Rows;
use crate::layout::Key;
use crate::limits::BUCKETS_MAX;
use crate::range::HOUR;
use crate::range::ahead::Ahead;
use crate::range::answer::Asked;
use crate::range::hours::HourFiles;
use crate::range::live::LiveRows;
use crate::range::slices::{Available, Rolled, Slice};
use crate::range::strand::{SeriesList, Strand, Strip};
use crate::shelf::Tier;
use crate::summary::{Summary, Total};
use crate::sums::Sums;
use crate::writer::Content;

/// The answer with buckets.
pub(crate) struct PointsAnswer {
    asked: Asked,
    grid: Grid,
    files: HourFiles,
    /// The files of each resolution, finest first; `None`: they must be found.
    rolled: Option<Vec<RolledFiles>>,
    /// The nodes that are still to come; `None`: before the first.
    nodes: Option<IntoIter<NodeName>>,
    node: Option<NodePoints>,
    /// The files from which the last node was read.
    read: Vec<Arc<ColumnFile>>,
    ahead: Ahead,
}

/// The roll-ups of one resolution.
struct RolledFiles {
    resolution: u64,
    files: Vec<Arc<ColumnFile>>,
}

/// Where buckets begin, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub origin: u64,
    pub width: u64,
}

impl Grid {
    /// At most `points` buckets from `from` to `to`. They are multiples of the coarsest resolution that is not longer than
    /// they are, else of a second, so that roll-ups fit into them.
    pub fn of(from: Nanos, to: Nanos, points: u32, resolutions: &[Nanos]) -> Self {
        let points = u64::from(points.max(1));
        let least = to.0.saturating_sub(from.0).div_ceil(points).max(1);
        let units = [Nanos(1), Nanos::SECOND].into_iter().chain(resolutions.iter().copied());
        let unit = units.map(|unit| unit.0.max(1)).filter(|unit| *unit <= least).max().unwrap_or(1);
        let origin = from.0 - from.0 % unit;
        let least = to.0.saturating_sub(origin).div_ceil(points).max(1);
        Grid { origin, width: least.checked_next_multiple_of(unit).unwrap_or(least) }
    }

    /// True if buckets of this resolution fit into these.
    fn fits(self, resolution: u64) -> bool {
        self.width.is_multiple_of(resolution) && self.origin.is_multiple_of(resolution)
    }
}

/// What a node has.
struct NodePoints {
    node: NodeName,
    available: Available,
    /// Rows, then roll-ups, finest first.
    strands: Vec<Strand>,
    /// The slices for numbers, and those for everything else: roll-ups have only the last labels of each bucket.
    numbers: Vec<Slice>,
    others: Vec<Slice>,
    series: IntoIter<(Key, Series)>,
}

impl PointsAnswer {
    pub fn new(asked: Asked, points: u32) -> Self {
        let grid = Grid::of(asked.from, asked.to, points, &asked.reader.files.resolutions());
        Self::on(asked, grid)
    }

    /// The answer with buckets of this length.
    pub fn of_length(asked: Asked, length: Nanos) -> Self {
        let width = length.0.max(1);
        let grid = Grid { origin: asked.from.0 - asked.from.0 % width, width };
        Self::on(asked, grid)
    }

    fn on(asked: Asked, grid: Grid) -> Self {
        let files = HourFiles::new(&asked.reader.files);
        let (read, ahead) = Default::default();
        PointsAnswer { asked, grid, files, rolled: None, nodes: None, node: None, read, ahead }
    }

    /// The roll-ups; they are found again when the store has changed.
    fn rolled(&mut self) -> &[RolledFiles] {
        let asked = &mut self.asked;
        self.rolled.get_or_insert_with(|| {
            let files = asked.reader.files.clone();
            let of = |resolution: Nanos| {
                let from = Nanos(asked.from.0 - asked.from.0 % resolution.0.max(1));
                let files = files.files(resolution, from, asked.to, &mut asked.damage);
                RolledFiles { resolution: resolution.0.max(1), files }
            };
            files.resolutions().into_iter().map(of).collect()
        })
    }

    fn begin(&mut self) -> Vec<NodeName> {
        let grid = self.grid;
        let mut files: Vec<Arc<ColumnFile>> = Vec::new();
        for rolled in self.rolled() {
            files.extend(rolled.files.iter().cloned());
        }
        // Nodes of settled hours are in the roll-ups, if these are used at all.
        let fitting: Vec<&ColumnFile> = self
            .rolled
            .iter()
            .flatten()
            .filter(|rolled| grid.fits(rolled.resolution))
            .flat_map(|rolled| rolled.files.iter().map(|file| &**file))
            .collect();
        let is_rolled = |hour: u64| {
            let reaches = |file: &&ColumnFile| file.span().0.0 < hour + HOUR && file.span().1.0 >= hour;
            fitting.iter().any(reaches)
        };
        let filed = self.asked.reader.files.hours(self.asked.from, self.asked.to);
        let others = filed.iter().filter(|hour| !(hour.is_settled && is_rolled(hour.begin.0)));
        let others: Vec<u64> = others.map(|hour| hour.begin.0).collect();
        drop(fitting);
        files.extend(self.files.of_all(others, &mut self.asked.damage));
        self.asked.nodes(&files)
    }

    fn node(&mut self, node: NodeName) -> Result<Option<NodePoints>, QueryError> {
        let (from, to) = (self.asked.from, self.asked.to);
        let live = self.asked.live(&node, from, to);
        if self.files.renew() {
            self.rolled = None;
        }
        let grid = self.grid;
        self.rolled();
        self.read.clear();
        let mut strands = vec![Strand::default()];
        let mut available = Available { rolled: Vec::new(), filed: Vec::new(), live: BTreeSet::new() };
        for rolled in self.rolled.iter().flatten() {
            let strips = self.asked.sections(&rolled.files, &node);
            self.read.extend(rolled.files.iter().cloned());
            let strand = Strand::of(strips, &mut self.asked.damage);
            let begins = strand.stretches.iter().flat_map(|stretch| &stretch.joined.times.at[..]);
            let hours = begins.map(|begin| begin - begin % HOUR).collect();
            let resolution = rolled.resolution;
            available.rolled.push(Rolled { resolution, hours, fits: grid.fits(resolution) });
            strands.push(strand);
        }
        let filed = self.asked.reader.files.hours(from, to);
        available.filed = filed.iter().map(|hour| (hour.begin.0, hour.is_settled)).collect();
        for rows in &live {
            available.live.extend(rows.instants().iter().map(|time| time - time % HOUR));
        }
        let numbers = available.slices(from.0, to.0, true);
        let others = available.slices(from.0, to.0, false);
        let mut series = SeriesList::default();
        // Labels are rare: only where some are asked for, all rows are needed.
        strands.iter().for_each(|strand| self.asked.select(&node, strand.strips(), &mut series));
        live.iter().for_each(|rows| series.add(rows.selected()));
        let has_labels = series.has(|series| !is_number(series.metric.value_type));
        let needed = numbers.iter().chain(others.iter().filter(|_| has_labels));
        let hours: BTreeSet<u64> = needed.filter(|slice| slice.source == 0).flat_map(hours_of).collect();
        let known = self.asked.damage.len();
        strands[0] = self.raw(&node, hours.iter().copied(), &live);
        let of_node: BTreeSet<u64> = self.asked.damage[known..].iter().filter_map(hour_of).collect();
        let is_damaged = |hour: &u64| of_node.contains(hour) || self.files.is_damaged(*hour);
        let available = available.without(&hours.into_iter().filter(is_damaged).collect());
        self.asked.select(&node, strands[0].strips(), &mut series);
        let held: usize = strands.iter().map(Strand::held).sum();
        let live: usize = live.iter().map(|rows| rows.held()).sum();
        self.asked.hold(held + live)?;
        let series = series.sorted().into_iter();
        let [numbers, others] = [true, false].map(|may_fit| available.slices(from.0, to.0, may_fit));
        Ok(Some(NodePoints { node, available, strands, numbers, others, series }))
    }

    /// The node's rows of these hours.
    fn raw(&mut self, node: &NodeName, hours: impl Iterator<Item = u64>, live: &[Arc<LiveRows>]) -> Strand {
        let files = self.files.of_all(hours, &mut self.asked.damage);
        let mut strips = self.asked.sections(&files, node);
        self.read.extend(files);
        strips.extend(live.iter().cloned().map(Strip::Live));
        let (from, to) = (self.asked.from.0, self.asked.to.0);
        strips.retain(|strip| strip.span().0 < to && strip.span().1 >= from);
        Strand::of(strips, &mut self.asked.damage)
    }
}

/// The hours that a slice touches.
fn hours_of(slice: &Slice) -> impl Iterator<Item = u64> + use<> {
    let Slice { from, to, .. } = *slice;
    std::iter::successors(Some(from - from % HOUR), |hour| hour.checked_add(HOUR))
        .take_while(move |hour| *hour < to)
}

fn is_number(value_type: ValueType) -> bool {
    !matches!(value_type, ValueType::Labels | ValueType::Unknown)
}

impl NodePoints {
    fn next(&mut self, asked: &mut Asked, grid: Grid) -> Result<Option<RangePart>, QueryError> {
        while let Some((key, series)) = self.series.next() {
            let (points, labels) = self.points(&key, asked, grid)?;
            if !points.is_empty() {
                let content = RangeContent::Points(points);
                let (node, step) = (self.node.clone(), asked.from);
                return Ok(Some(RangePart { node, series, step, shift: 0, content, labels }));
            }
        }
        Ok(None)
    }

    fn points(
        &self,
        key: &Key,
        asked: &mut Asked,
        grid: Grid,
    ) -> Result<(Vec<RangePoint>, Vec<Labels>), QueryError> {
        let may_fit = is_number(key.format.value_type);
        let slices = if may_fit { &self.numbers } else { &self.others };
        let mut damaged = BTreeSet::new();
        let found = self.sums(key, slices, asked, grid, &mut damaged)?;
        if damaged.is_empty() {
            return Ok(found);
        }
        // Roll-ups answer for the hours whose rows are damaged.
        let available = self.available.clone().without(&damaged);
        let slices = available.slices(asked.from.0, asked.to.0, may_fit);
        self.sums(key, &slices, asked, grid, &mut damaged)
    }

    /// The summaries of a series in these slices. Notes the hours whose rows of it are damaged.
    fn sums(
        &self,
        key: &Key,
        slices: &[Slice],
        asked: &mut Asked,
        grid: Grid,
        damaged: &mut BTreeSet<u64>,
    ) -> Result<(Vec<RangePoint>, Vec<Labels>), QueryError> {
        let value_type = key.format.value_type;
        let sums = Sums::new(value_type, Nanos(grid.origin), (asked.from, asked.to), Nanos(grid.width));
        let mut sums = sums.map_err(|_| QueryError::RangeTooFine { limit: BUCKETS_MAX as u64 })?;
        let mut labels = Vec::new();
        // The stretch that was unpacked last: several slices may lie in it.
        let mut unpacked: Option<((usize, usize), Arc<Content>)> = None;
        for slice in slices {
            let stretches = &self.strands[slice.source].stretches;
            let first = stretches.partition_point(|stretch| stretch.last < slice.from);
            for (number, stretch) in stretches.iter().enumerate().skip(first) {
                if stretch.first >= slice.to {
                    break;
                }
                let place = (slice.source, number);
                if unpacked.as_ref().is_none_or(|(known, _)| *known != place) {
                    let known = asked.damage.len();
                    let content = stretch.joined.column(key, &mut asked.damage);
                    damaged.extend(asked.damage[known..].iter().filter_map(hour_of));
                    labels.extend(content.labels().iter().cloned());
                    unpacked = Some((place, content));
                }
                if let Some((_, content)) = &unpacked {
                    add(&mut sums, content, &stretch.joined.times.at, slice);
                }
            }
        }
        Ok((points_of(&sums), labels))
    }
}

/// The hour whose file of rows has this damage.
fn hour_of(error: &StoreError) -> Option<u64> {
    let (StoreError::Damaged { path, .. } | StoreError::File { path, .. }) = error else { return None };
    Tier::Raw.unit_of(path).map(|unit| unit.begin.0)
}

/// The buckets with a value.
pub(crate) fn points_of(sums: &Sums) -> Vec<RangePoint> {
    let point = |(bucket, summary): (usize, &Option<Summary>)| {
        summary.as_ref().map(|summary| point(sums.begin_of(bucket), summary))
    };
    sums.buckets.iter().enumerate().filter_map(point).collect()
}

/// Adds what lies in a slice.
pub(crate) fn add(sums: &mut Sums, content: &Content, times: &[u64], slice: &Slice) {
    match content {
        Content::Readings(track) => track.each_run(|row, values| {
            let times = &times[row..row + values.len()];
            let from = times.partition_point(|time| *time < slice.from);
            let to = times.partition_point(|time| *time < slice.to);
            if from < to {
                sums.add(&times[from..to], &values[from..to]);
            }
        }),
        Content::Summaries(track) => track.each_value_ref(|row, summary| {
            if (slice.from..slice.to).contains(&times[row]) {
                sums.join(times[row], summary);
            }
        }),
    }
}

fn point(begin: Nanos, summary: &Summary) -> RangePoint {
    let total = |total| match total {
        Total::Exact(sum) => RangeTotal::Exact(sum),
        Total::Double(sum) => RangeTotal::Double(sum),
    };
    RangePoint {
        begin,
        count: summary.count,
        first: (summary.first.time, summary.first.bits),
        last: (summary.last.time, summary.last.bits),
        lowest: summary.lowest,
        highest: summary.highest,
        sum: total(summary.sum),
        resets: summary.resets,
        changes: summary.changes,
        correction: total(summary.correction),
    }
}

impl RangeAnswer for PointsAnswer {
    fn next(&mut self) -> Result<Option<RangePart>, QueryError> {
        loop {
            if let Some(node) = &mut self.node {
                if let Some(part) = node.next(&mut self.asked, self.grid)? {
                    return self.asked.give(part);
                }
                self.node = None;
            }
            if self.nodes.is_none() {
                self.nodes = Some(self.begin().into_iter());
            }
            let left = self.nodes.as_ref().map_or(&[][..], IntoIter::as_slice);
            self.ahead.look(&mut self.asked, &self.read, left);
            let Some(node) = self.nodes.as_mut().and_then(Iterator::next) else { return Ok(None) };
            self.node = self.node(node)?;
        }
    }

    fn width(&self) -> Option<Nanos> {
        Some(Nanos(self.grid.width))
    }

    fn damage(&mut self) -> Vec<String> {
        self.asked.damages()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_multiples_of_a_resolution_where_they_are_long_enough() {
        let resolutions = [Nanos::from_secs(60), Nanos::from_secs(3_600)];
        let second = 1_000_000_000;
        for (from, to, points, origin, width) in [
            // Three weeks in a thousand points: half hours, rounded up to minutes.
            (30, 21 * 86_400, 1_000, 0, 31 * 60),
            (0, 3_600, 60, 0, 60),
            (1, 3_601, 60, 0, 120),
            (90, 150, 7, 90, 9),
            (7_000, 7_000 + 400 * 86_400, 1_000, 3_600, 10 * 3_600),
        ] {
            let grid = Grid::of(Nanos(from * second), Nanos(to * second), points, &resolutions);
            assert_eq!(
                (grid.origin / second, grid.width / second),
                (origin, width),
                "{from}..{to} by {points}"
            );
            assert!(grid.origin + grid.width * u64::from(points) >= to * second);
        }
        assert_eq!(Grid::of(Nanos(5), Nanos(12), 3, &resolutions), Grid { origin: 5, width: 3 });
    }
}
