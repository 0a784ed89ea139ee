//! Which records hold bytes of blocks that the log does not have complete. A start reads them, and so does a later copy of these
//! bytes. The lane keeps track of its open block. This module keeps the records, and the blocks that will get no more bytes.

use std::collections::{HashMap, VecDeque};

use crate::log::LoggedLane;
use crate::log::list::RecordPlace;
use crate::log::record::Piece;

/// Blocks that the log has only in pieces, among those that came since it was opened. The older ones were turned into blocks.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    records: Records,
    /// By lane and first row. As a rule there are few: the open block of a lane is not here.
    left: HashMap<(u32, u64), Left>,
}

/// A block that is not its lane's open one any more.
#[derive(Debug)]
pub(crate) struct Left {
    pub first_row: u64,
    /// The number after the last whole row.
    pub end: u64,
    /// The records that have its pieces.
    pub records: Ranges,
}

/// Numbers of records: the first and the last of each range. A block has a piece in each record while it is open, so as a rule
/// there is one.
#[derive(Debug, Default)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

/// Records of rows, numbered one after the other, and how many blocks need each.
#[derive(Debug)]
pub(crate) struct Records {
    /// The number of the first in `steps`.
    first: u64,
    /// From the first that a block needs up to the newest, and one more without a place.
    steps: VecDeque<Step>,
}

/// A record.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    /// Where it is; `None`: it is gone.
    place: Option<RecordPlace>,
    /// How many more blocks need it than the one before.
    more: i64,
}

impl Default for Records {
    fn default() -> Self {
        Records { first: 0, steps: VecDeque::from([Step::default()]) }
    }
}

impl Pieces {
    /// A record of this segment has a piece of a lane's block. Returns how many rows were not safe before.
    pub fn add(&mut self, lane: &LoggedLane, piece: &Piece, record: RecordPlace) -> u64 {
        let number = self.records.number(record);
        if piece.offset == 0 {
            // It came again from its start.
            self.release(lane.number, piece.first_row, u64::MAX);
        }
        let (rows, left) = lane.journalled(piece, number, record.0, &mut self.records);
        self.leave(lane, left);
        rows
    }

    /// The log has a block. Its earlier parts are not needed any more. Returns how many rows were not safe before.
    pub fn block(&mut self, lane: &LoggedLane, first_row: u64, end: u64) -> u64 {
        let (rows, left) = lane.logged(first_row, end, &mut self.records);
        self.leave(lane, left);
        self.release(lane.number, first_row, end);
        rows
    }

    /// Nothing more comes of this block.
    pub fn leave(&mut self, lane: &LoggedLane, left: Option<Left>) {
        if let Some(left) = left {
            self.left.insert((lane.number, left.first_row), left);
        }
    }

    /// Gives a block free that is not open, if it has no row from `end` on.
    fn release(&mut self, lane: u32, first_row: u64, end: u64) {
        if !self.left.is_empty()
            && self.left.get(&(lane, first_row)).is_some_and(|left| left.end <= end)
            && let Some(left) = self.left.remove(&(lane, first_row))
        {
            self.records.release(left.records);
        }
    }

    /// Blocks with pieces in a segment that will get no more bytes: the number of the lane, the first row, and the row after the
    /// last one.
    pub fn left_in(&self, segment: u64) -> Vec<(u32, u64, u64)> {
        let is_in = |left: &&Left| self.records.of(&left.records).any(|place| place.0 == segment);
        let left = self.left.iter().filter(|(_, left)| is_in(left));
        left.map(|((lane, first_row), left)| (*lane, *first_row, left.end)).collect()
    }

    /// A segment is gone.
    pub fn forget_segment(&mut self, segment: u64) {
        let Pieces { records, left } = self;
        records.forget_segment(segment);
        let is_gone = |_: &_, left: &mut Left| records.of(&left.records).next().is_none();
        for (_, left) in left.extract_if(is_gone).collect::<Vec<_>>() {
            records.release(left.records);
        }
    }

    /// The records that have such pieces.
    pub fn records(&self) -> Vec<RecordPlace> {
        self.records.needed()
    }

    /// The records that have pieces of a lane's open block.
    pub fn of(&self, lane: &LoggedLane) -> Vec<RecordPlace> {
        lane.with_records(|records| self.records.of(records).collect())
    }
}

impl Records {
    /// The number of a record: the newest one, or one more.
    fn number(&mut self, place: RecordPlace) -> u64 {
        let newest = self.steps.len().checked_sub(2).map(|newest| self.steps[newest]);
        if newest.is_none_or(|newest| newest.place != Some(place)) {
            // Before the first that a block needs, none is.
            while self.steps.len() > 1 && self.steps[0].more == 0 {
                self.steps.pop_front();
                self.first += 1;
            }
            if let Some(last) = self.steps.back_mut() {
                last.place = Some(place);
            }
            self.steps.push_back(Step::default());
        }
        self.first + self.steps.len() as u64 - 2
    }

    /// A block has a piece in a record, the newest one.
    pub fn add(&mut self, ranges: &mut Ranges, number: u64) {
        match ranges.0.last_mut() {
            Some((_, last)) if *last == number => return,
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => {
                ranges.0.push((number, number));
                self.change(number, 1);
                self.change(number + 1, -1);
                return;
            }
        }
        self.change(number, 1);
        self.change(number + 1, -1);
    }

    /// A block does not need its records any more.
    pub fn release(&mut self, ranges: Ranges) {
        for (first, last) in ranges.0 {
            self.change(first, -1);
            self.change(last + 1, 1);
        }
    }

    fn change(&mut self, number: u64, more: i64) {
        if let Some(step) = number.checked_sub(self.first).and_then(|at| self.steps.get_mut(at as usize)) {
            step.more += more;
        }
    }

    fn forget_segment(&mut self, segment: u64) {
        for step in &mut self.steps {
            step.place = step.place.filter(|place| place.0 != segment);
        }
    }

    /// Where these records are, as far as they are there.
    fn of(&self, ranges: &Ranges) -> impl Iterator<Item = RecordPlace> {
        let numbers = ranges.0.iter().flat_map(|(first, last)| *first..=*last);
        numbers.filter_map(|number| self.steps.get(number.checked_sub(self.first)? as usize)?.place)
    }

    /// Those that a block needs.
    fn needed(&self) -> Vec<RecordPlace> {
        let mut blocks = 0;
        let counted = self.steps.iter().filter_map(|step| {
            blocks += step.more;
            step.place.filter(|_| blocks > 0)
        });
        counted.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use khz_model::NodeName;
    use proptest::prelude::*;

    use super::*;

    fn lane(number: u32) -> LoggedLane {
        LoggedLane::new(number, NodeName::new(&format!("node{number}")).unwrap(), 1)
    }

    fn piece(lane: &LoggedLane, first_row: u64, offset: usize, end: u64) -> Piece {
        Piece { lane: lane.number, schema: 0, first_row, offset, length: 10, end, shift: 0 }
    }

    #[test]
    fn a_record_is_needed_until_all_its_blocks_are_there_as_a_whole() {
        let (mut pieces, one, two) = (Pieces::default(), lane(1), lane(2));
        for (offset, record) in [(0, 100), (10, 200)] {
            for lane in [&one, &two] {
                pieces.add(lane, &piece(lane, 60, offset, 61 + offset as u64 / 10), (1, record));
            }
        }
        pieces.block(&one, 60, 61);
        assert_eq!(pieces.records(), [(1, 100), (1, 200)], "row 61 came after that");
        pieces.block(&one, 60, 62);
        assert_eq!(pieces.records(), [(1, 100), (1, 200)], "the other lane");
        pieces.add(&two, &piece(&two, 60, 0, 62), (2, 300));
        assert_eq!((pieces.records(), pieces.of(&two)), (vec![(2, 300)], vec![(2, 300)]));
        pieces.add(&two, &piece(&two, 60, 10, 63), (3, 400));
        pieces.forget_segment(2);
        assert_eq!((pieces.records(), pieces.of(&two)), (vec![(3, 400)], vec![(3, 400)]));
        pieces.block(&two, 60, 120);
        assert!(pieces.records().is_empty() && pieces.left.is_empty());
    }

    #[derive(Clone, Debug)]
    enum Act {
        /// A commit has pieces of these lanes; true: of the next block.
        Commit(Vec<(usize, bool)>),
        /// A lane's block with this number from the end is there as a whole.
        Block(usize, u64),
        /// What the log has of the open block comes again.
        Again(usize),
        Forget(usize),
        Gone(u64),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            8 => prop::collection::vec((0usize..4, prop::bool::weighted(0.2)), 1..6).prop_map(Act::Commit),
            4 => (0usize..4, 0u64..3).prop_map(|(lane, before)| Act::Block(lane, before)),
            1 => (0usize..4).prop_map(Act::Again),
            1 => (0usize..4).prop_map(Act::Forget),
            1 => (0u64..20).prop_map(Act::Gone),
        ]
    }

    proptest! {
        #[test]
        fn needed_records_are_those_of_a_map(acts in prop::collection::vec(act(), 0..80)) {
            let (mut pieces, lanes) = (Pieces::default(), [1, 2, 3, 4].map(lane));
            // Of each block, its records; of each lane, its last block and how many bytes came of it.
            let mut known = BTreeMap::<(usize, u64), BTreeSet<RecordPlace>>::new();
            let mut open = [(0u64, 0usize); 4];
            let mut record = 0;
            for act in acts {
                record += 1;
                let place = (record / 10, record);
                match act {
                    Act::Commit(of) => for (number, is_next) in of {
                        let (block, offset) = &mut open[number];
                        if is_next || lanes[number].open().is_none() {
                            (*block, *offset) = (*block + 1, 0);
                        }
                        let first_row = *block * 100;
                        pieces.add(&lanes[number], &piece(&lanes[number], first_row, *offset, first_row + 1), place);
                        *offset += 10;
                        known.entry((number, first_row)).or_default().insert(place);
                    },
                    Act::Block(number, before) => {
                        let first_row = open[number].0.saturating_sub(before) * 100;
                        pieces.block(&lanes[number], first_row, first_row + 100);
                        known.remove(&(number, first_row));
                    }
                    Act::Again(number) => if lanes[number].open().is_some() {
                        let first_row = open[number].0 * 100;
                        pieces.add(&lanes[number], &piece(&lanes[number], first_row, 0, first_row + 1), place);
                        known.insert((number, first_row), BTreeSet::from([place]));
                    },
                    Act::Forget(number) => pieces.leave(&lanes[number], lanes[number].forget_open()),
                    Act::Gone(segment) => {
                        pieces.forget_segment(segment);
                        known.values_mut().for_each(|records| records.retain(|place| place.0 != segment));
                    }
                }
                let needed: BTreeSet<RecordPlace> = known.values().flatten().copied().collect();
                prop_assert_eq!(pieces.records(), needed.into_iter().collect::<Vec<_>>());
                for (number, lane) in lanes.iter().enumerate().filter(|(_, lane)| lane.open().is_some()) {
                    let of_open = &known[&(number, open[number].0 * 100)];
                    prop_assert_eq!(pieces.of(lane), of_open.iter().copied().collect::<Vec<_>>());
                }
            }
        }
    }
}
