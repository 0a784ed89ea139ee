//! The newest reading of each series: out of the rows of the last hours, from the last row back, and before these out of
//! roll-ups, which know when a series had a value last. It stops when it has all series that there are. So the question costs
//! little however long the time is.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::vec::IntoIter;

use khz_model::{Nanos, NodeName, QueryError, RangeAnswer, RangeContent, RangePart, Reading, Series, Stamp};

use crate::file::ColumnFile;
use crate::layout::Key;
use crate::limits::NEWEST_HOURS;
use crate::range::HOUR;
use crate::range::ahead::Ahead;
use crate::range::answer::Asked;
use crate::range::chosen::{List, Selected};
use crate::range::hours::HourFiles;
use crate::range::rows::NodeHour;
use crate::range::strand::{SeriesList, Strand};
use crate::writer::Content;

/// The answer with the newest readings.
pub(crate) struct NewestAnswer {
    asked: Asked,
    files: HourFiles,
    /// The files of roll-ups, by resolution, and the version of the store to which they belong.
    rolled: (u64, Vec<Vec<Arc<ColumnFile>>>),
    /// The nodes that are still to come; `None`: before the first.
    nodes: Option<IntoIter<NodeName>>,
    hours: Hours,
    /// Rows of the present node cannot be read.
    is_damaged: bool,
    /// The readings that were found for a node.
    found: IntoIter<RangePart>,
    ahead: Ahead,
}

impl NewestAnswer {
    pub fn new(asked: Asked) -> Self {
        let files = HourFiles::new(&asked.reader.files);
        let (rolled, hours, ahead) = Default::default();
        let (nodes, is_damaged, found) = (None, false, Vec::new().into_iter());
        NewestAnswer { asked, files, rolled, nodes, hours, is_damaged, found, ahead }
    }

    fn begin(&mut self) -> Result<IntoIter<NodeName>, QueryError> {
        let (from, to) = (self.asked.from, self.asked.to);
        self.list_rolled();
        let rolled: Vec<Arc<ColumnFile>> = self.rolled.1.iter().flatten().cloned().collect();
        let spans: Vec<(u64, u64)> = rolled.iter().map(|file| (file.span().0.0, file.span().1.0)).collect();
        let filed = self.asked.reader.files.hours(from, to);
        let settled: BTreeSet<u64> =
            filed.iter().filter(|hour| hour.is_settled).map(|hour| hour.begin.0).collect();
        let is_rolled = |hour: u64| {
            settled.contains(&hour) && spans.iter().any(|(first, last)| *first < hour + HOUR && *last >= hour)
        };
        self.hours = Hours::of(self.asked.hours()?, is_rolled);
        let read = self.hours.recent.iter().chain(&self.hours.others).copied();
        let mut files = self.files.of_all(read, &mut self.asked.damage);
        files.extend(rolled);
        Ok(self.asked.nodes(&files).into_iter())
    }

    /// Lists the files of roll-ups, if they are not those that there are now.
    fn list_rolled(&mut self) {
        let version = self.asked.reader.files.version();
        if self.rolled.0 == version && !self.rolled.1.is_empty() {
            return;
        }
        let (from, to) = (self.asked.from, self.asked.to);
        let files = self.asked.reader.files.clone();
        let of = |resolution| files.files(resolution, from, to, &mut self.asked.damage);
        self.rolled = (version, files.resolutions().into_iter().map(of).collect());
    }

    fn node(&mut self, node: &NodeName) -> Result<Vec<RangePart>, QueryError> {
        let mut newest: HashMap<Key, RangePart> = HashMap::new();
        let known = self.asked.damage.len();
        for hour in self.hours.recent.clone() {
            self.recent(node, hour, &mut newest)?;
        }
        self.is_damaged = self.asked.damage.len() > known;
        let recent: HashSet<Key> = newest.keys().cloned().collect();
        self.rolled_up(node, &mut newest);
        for hour in self.hours.others.clone() {
            self.rows(node, self.asked.within(hour), &mut newest, &recent)?;
        }
        let mut list = SeriesList::default();
        newest.iter().for_each(|(key, part)| list.insert(key, &part.series));
        let order = list.sorted();
        Ok(order.into_iter().filter_map(|(key, _)| newest.remove(&key)).collect())
    }

    /// Adds the readings of an hour for series that are not known yet. It goes backwards from the last block, until it has all
    /// series that the hour may have.
    fn recent(
        &mut self,
        node: &NodeName,
        hour: u64,
        newest: &mut HashMap<Key, RangePart>,
    ) -> Result<(), QueryError> {
        let (from, to) = self.asked.within(hour);
        let patterns = self.asked.chosen.patterns_of(&self.asked.patterns, node);
        let mut live = self.asked.reader.log.as_ref().map_or_else(Vec::new, |log| log.lists(node, from, to));
        live.extend(
            self.asked.reader.open.of(node, from, to).into_iter().map(|open| (open.span(), open.schema)),
        );
        // Blocks that have left the log are in a file now.
        self.files.renew();
        let mut lists: Vec<List> = live.iter().map(|(_, schema)| List::Slots(schema.clone())).collect();
        for file in self.files.of(hour, &mut self.asked.damage) {
            match file.layouts_of(node) {
                Ok(layouts) => lists.extend(layouts.into_iter().map(List::Columns)),
                Err(error) => self.asked.damage.push(error),
            }
        }
        lists.dedup_by_key(|list| list.address());
        let mut wanted: Vec<Arc<Selected>> = Vec::new();
        for list in &lists {
            wanted.push(self.asked.chosen.of(&self.asked.patterns, &patterns, list));
        }
        // A block in which the clock went back may have rows that are not in its span.
        let is_ordered = live.iter().all(|((first, last), _)| first <= last);
        let begins = live.iter().filter(|_| is_ordered).map(|((first, _), _)| first.0);
        for (from, to) in windows(begins.collect(), from.0, to.0) {
            wanted.retain(|selected| selected.keys().iter().any(|key| !newest.contains_key(key)));
            if wanted.is_empty() {
                return Ok(());
            }
            self.rows(node, (Nanos(from), Nanos(to)), newest, &HashSet::new())?;
        }
        Ok(())
    }

    /// Adds what the rows of some time, which lies in one hour, have of series that are not known, and not `left_out`; of
    /// other series only what is newer.
    fn rows(
        &mut self,
        node: &NodeName,
        (from, to): (Nanos, Nanos),
        newest: &mut HashMap<Key, RangePart>,
        left_out: &HashSet<Key>,
    ) -> Result<(), QueryError> {
        let Some(mut rows) = NodeHour::within(&mut self.asked, &mut self.files, (from, to), node.clone())?
        else {
            return Ok(());
        };
        rows.keep(|key| {
            !left_out.contains(key) && newest.get(key).is_none_or(|known| time_of(known) < Some(to))
        });
        while let Some(mut part) = rows.next(&mut self.asked) {
            part.step = self.asked.from;
            if let RangeContent::Readings(readings) = &mut part.content {
                readings.drain(..readings.len().saturating_sub(1));
            }
            let key = Key::of(&part.series);
            if newest.get(&key).is_none_or(|known| time_of(known) < time_of(&part)) {
                newest.insert(key, part);
            }
        }
        Ok(())
    }

    /// Whether a node has series in these files that are not known.
    fn misses(
        &mut self,
        node: &NodeName,
        files: &[Arc<ColumnFile>],
        newest: &HashMap<Key, RangePart>,
    ) -> bool {
        let patterns = self.asked.chosen.patterns_of(&self.asked.patterns, node);
        let mut last = None;
        files.iter().any(|file| {
            // Reading a damaged file says what is wrong.
            let Ok(layouts) = file.layouts_of(node) else { return true };
            layouts.into_iter().map(List::Columns).any(|list| {
                let is_new = last.replace(list.address()) != Some(list.address());
                let selected = is_new.then(|| self.asked.chosen.of(&self.asked.patterns, &patterns, &list));
                selected.is_some_and(|selected| selected.keys().iter().any(|key| !newest.contains_key(key)))
            })
        })
    }

    /// Adds what only roll-ups have: the last value of a bucket, with its own time.
    fn rolled_up(&mut self, node: &NodeName, newest: &mut HashMap<Key, RangePart>) {
        let (from, to) = (self.asked.from, self.asked.to);
        self.list_rolled();
        let is_damaged = self.is_damaged || self.hours.recent.iter().any(|hour| self.files.is_damaged(*hour));
        for files in self.rolled.1.clone() {
            if !is_damaged && !self.misses(node, &files, newest) {
                continue;
            }
            let strips = self.asked.sections(&files, node);
            let mut list = SeriesList::default();
            self.asked.select(node, strips.iter(), &mut list);
            let mut missed = list.sorted();
            // A roll-up may have what is newer than the rows that are left.
            missed.retain(|(key, _)| is_damaged || !newest.contains_key(key));
            let strand = Strand::of(strips, &mut self.asked.damage);
            for (key, series) in missed {
                let known = newest.get(&key).and_then(time_of);
                let part = last_of(&strand, &key, &series, node, (from, to), &mut self.asked);
                if let Some(part) = part.filter(|part| known.is_none_or(|known| time_of(part) > Some(known)))
                {
                    newest.insert(key, part);
                }
            }
        }
    }
}

/// A time in parts, the last one first: each begins where a block does. They get longer, so that there are few, and most
/// questions need the last one only.
fn windows(mut begins: Vec<u64>, from: u64, to: u64) -> Vec<(u64, u64)> {
    begins.retain(|begin| from < *begin && *begin < to);
    begins.sort_unstable();
    begins.dedup();
    let (mut windows, mut end, mut blocks) = (Vec::new(), to, 1);
    while !begins.is_empty() {
        begins.truncate(begins.len().saturating_sub(blocks - 1).max(1));
        if let Some(begin) = begins.pop() {
            windows.push((begin, end));
            end = begin;
        }
        blocks *= 2;
    }
    windows.push((from, end));
    windows
}

/// The hours whose rows are read, the latest first.
#[derive(Default)]
struct Hours {
    /// The last hours.
    recent: Vec<u64>,
    /// Earlier ones that no roll-up has.
    others: Vec<u64>,
}

impl Hours {
    fn of(mut hours: Vec<u64>, is_rolled: impl Fn(u64) -> bool) -> Self {
        hours.reverse();
        let others = hours.split_off(hours.len().min(NEWEST_HOURS));
        Hours { recent: hours, others: others.into_iter().filter(|hour| !is_rolled(*hour)).collect() }
    }
}

/// When the newest reading of a part was.
fn time_of(part: &RangePart) -> Option<Nanos> {
    match &part.content {
        RangeContent::Readings(readings) => readings.last().map(|(stamp, _)| stamp.real()),
        RangeContent::Points(_) | RangeContent::Column(_) => None,
    }
}

/// The last value that a roll-up knows and that lies within the time.
fn last_of(
    strand: &Strand,
    key: &Key,
    series: &Series,
    node: &NodeName,
    (from, to): (Nanos, Nanos),
    asked: &mut Asked,
) -> Option<RangePart> {
    strand.stretches.iter().rev().filter(|stretch| stretch.first < to.0).find_map(|stretch| {
        let (mut last, mut labels) = (None, Vec::new());
        match &*stretch.joined.column(key, &mut asked.damage) {
            Content::Summaries(track) => track.each_value(|_, summary| {
                // The time may end within the bucket, after its first value.
                let known = [summary.last, summary.first];
                if let Some(value) = known.into_iter().find(|value| (from..to).contains(&value.time)) {
                    last = Some((value.time, Reading::Present(value.bits)));
                }
            }),
            // For labels, the time within the bucket is unknown. It is only known that the bucket is over.
            Content::Readings(track) => {
                let times = &stretch.joined.times;
                for (row, reading) in track.readings() {
                    let time = Nanos(times.beside[1].of_row(row));
                    if (from..to).contains(&time) {
                        last = Some((time, reading));
                    }
                }
                labels = track.labels.clone();
            }
        }
        let (time, reading) = last?;
        let content = RangeContent::Readings(vec![(Stamp { boot: time, real_offset: 0 }, reading)]);
        Some(RangePart { node: node.clone(), series: series.clone(), step: from, shift: 0, content, labels })
    })
}

impl RangeAnswer for NewestAnswer {
    fn next(&mut self) -> Result<Option<RangePart>, QueryError> {
        loop {
            if let Some(part) = self.found.next() {
                return self.asked.give(part);
            }
            if self.nodes.is_none() {
                self.nodes = Some(self.begin()?);
            }
            // Usually, only the series lists of the last hour are needed, or those of the hour before, if the last one has just
            // begun.
            let hours = self.hours.recent.iter().take(2).copied();
            let files = self.files.of_all(hours, &mut self.asked.damage);
            let left = self.nodes.as_ref().map_or(&[][..], IntoIter::as_slice);
            self.ahead.look_at_indexes(&mut self.asked, &files, left);
            let Some(node) = self.nodes.as_mut().and_then(Iterator::next) else { return Ok(None) };
            self.found = self.node(&node)?.into_iter();
        }
    }

    fn damage(&mut self) -> Vec<String> {
        self.asked.damages()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_from_its_end_in_parts_that_begin_with_blocks() {
        let begins = [50, 90, 10, 60, 70, 80, 5, 100, 40];
        assert_eq!(windows(begins.to_vec(), 10, 100), [(90, 100), (70, 90), (40, 70), (10, 40)]);
        assert_eq!(windows(vec![7, 7], 0, 9), [(7, 9), (0, 7)]);
        assert_eq!(windows(Vec::new(), 3, 9), [(3, 9)]);
    }

    #[test]
    fn rows_are_read_of_the_last_hours_and_of_those_that_no_roll_up_has() {
        let all: Vec<u64> = (0..1_000).map(|hour| hour * HOUR).collect();
        let hours = Hours::of(all, |hour| hour != 7 * HOUR && hour != 9 * HOUR);
        assert_eq!(hours.recent.len(), NEWEST_HOURS);
        assert_eq!((hours.recent[0], hours.recent[1]), (999 * HOUR, 998 * HOUR));
        assert_eq!(hours.others, [9 * HOUR, 7 * HOUR]);
        assert!(Hours::of(vec![0, HOUR], |_| true).others.is_empty());
    }
}
