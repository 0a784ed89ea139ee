//! Which rows of each lane a recording has, and which clocks were set, by the headers of its blocks alone: read before the first row, so that rows can be given
//! out in their order whatever order their blocks came in. Rows are not decoded.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use khz_block::trace::Chunk;
use khz_block::trace::Sealed;

use crate::RecordError;
use crate::chunks::chunks;
use crate::clocks::Clocks;
use crate::numbering::{Lane, Numbering};
use crate::recording::header_of;

/// Ranges of rows of all lanes that are remembered, some 20 MB. With more, a lane's further holes count as rows that may come.
const RANGES_MAX: usize = 262_144;

/// Half-open ranges of rows, none touching the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows(BTreeMap<u64, u64>);

impl Rows {
    /// Adds these rows. With `is_full` no range is added: the one before or after grows up to these rows.
    fn add(&mut self, mut from: u64, mut to: u64, is_full: bool) {
        if from >= to {
            return;
        }
        if let Some((&start, &end)) = self.0.range(..=from).next_back()
            && (end >= from || is_full)
        {
            (from, to) = (start, to.max(end));
        }
        if is_full
            && let Some((&start, _)) = self.0.range(from..).next()
            && self.0.range(..=from).next_back().is_none()
        {
            to = to.max(start);
        }
        while let Some((&start, &end)) = self.0.range(from..).next().filter(|&(&start, _)| start <= to) {
            self.0.remove(&start);
            to = to.max(end);
        }
        self.0.insert(from, to);
    }

    /// These rows will not be given out.
    pub fn remove(&mut self, from: u64, to: u64) {
        let touched = self.0.range(..to).rev().take_while(|&(_, &end)| end > from);
        for (start, end) in touched.map(|(&start, &end)| (start, end)).collect::<Vec<_>>() {
            self.0.remove(&start);
            for (start, end) in [(start, end.min(from)), (start.max(to), end)] {
                if start < end {
                    self.0.insert(start, end);
                }
            }
        }
    }

    /// The first row from `row` on; rows before it are forgotten.
    pub fn first_from(&mut self, row: u64) -> Option<u64> {
        loop {
            let first = self.0.first_entry()?;
            let (start, end) = (*first.key(), *first.get());
            if end > row {
                return Some(start.max(row));
            }
            first.remove();
        }
    }
}

/// The rows of each lane.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    lanes: HashMap<Lane, Rows>,
    /// The clocks of its nodes.
    pub clocks: Clocks,
}

impl Outline {
    /// Reads the headers of a recording. The reader of the rows reports what is damaged.
    pub fn of(paths: &[PathBuf]) -> Result<Self, RecordError> {
        let (mut numbering, mut rows, mut count) = (Numbering::default(), Vec::<Rows>::new(), 0);
        let mut clocks = Clocks::default();
        for path in paths {
            numbering.begin_file(path);
            chunks(path, |_, chunk| {
                let (place, bytes) = match chunk {
                    Chunk::Sealed(Sealed::Lane(head)) => {
                        numbering.lane(&head)?;
                        return Ok(());
                    }
                    Chunk::Sealed(Sealed::Block { lane, bytes }) => (numbering.place(lane)?, bytes),
                    Chunk::Block(bytes) => (numbering.only(bytes)?.0, bytes),
                    _ => return Ok(()),
                };
                let header = header_of(bytes)?;
                clocks.note(&numbering.at(place).node, place, &header);
                let count_of = header.closed.map_or(0, |(rows, ..)| u64::from(rows));
                if rows.len() <= place {
                    rows.resize_with(place + 1, Rows::default);
                }
                let before = rows[place].0.len();
                let is_full = count >= RANGES_MAX;
                rows[place].add(header.first_row, header.first_row.saturating_add(count_of), is_full);
                count = count + rows[place].0.len() - before;
                Ok(())
            })?;
        }
        clocks.keep_set();
        Ok(Outline { lanes: numbering.into_lanes().into_iter().zip(rows).collect(), clocks })
    }

    /// Takes out the rows of a lane.
    pub fn take(&mut self, lane: &Lane) -> Rows {
        self.lanes.remove(lane).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(ranges: &[(u64, u64)], is_full: bool) -> Vec<(u64, u64)> {
        let mut rows = Rows::default();
        ranges.iter().for_each(|&(from, to)| rows.add(from, to, is_full && !rows.0.is_empty()));
        rows.0.into_iter().collect()
    }

    #[test]
    fn ranges_that_touch_become_one_and_beyond_the_limit_all_do() {
        let some = [(10, 20), (30, 40), (0, 5), (20, 25), (4, 6), (50, 50)];
        assert_eq!(rows(&some, false), [(0, 6), (10, 25), (30, 40)]);
        assert_eq!(rows(&some, true), [(0, 40)]);
        let all = [(0, 10), (12, 14), (16, 20), (8, 17)];
        assert_eq!(rows(&all, false), [(0, 20)]);
    }

    #[test]
    fn rows_that_are_taken_away_or_given_out_are_not_expected() {
        let mut rows = Rows::default();
        [(0, 10), (20, 30), (40, 50)].into_iter().for_each(|(from, to)| rows.add(from, to, false));
        rows.remove(5, 25);
        assert_eq!(rows.0.clone().into_iter().collect::<Vec<_>>(), [(0, 5), (25, 30), (40, 50)]);
        assert_eq!(
            [rows.first_from(0), rows.first_from(3), rows.first_from(5)],
            [Some(0), Some(3), Some(25)]
        );
        assert_eq!(
            [rows.first_from(30), rows.first_from(49), rows.first_from(50)],
            [Some(40), Some(49), None]
        );
    }
}
