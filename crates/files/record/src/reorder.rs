//! Blocks of a lane, put back into the order of their rows: a block that comes after a gap waits until the gap is filled or
//! lost, within limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use khz_block::Header;
use khz_model::Series;

/// Bytes of all waiting blocks: seconds of many nodes, hours of one. Beyond, every waiting block is given out.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// A block that waits, with the series of its slots.
pub(crate) struct Waiting {
    pub header: Header,
    pub bytes: Vec<u8>,
    pub columns: Arc<Vec<Series>>,
}

impl Waiting {
    fn end(&self) -> u64 {
        self.header.first_row.saturating_add(self.header.closed.map_or(0, |(rows, ..)| rows.into()))
    }
}

/// One lane.
#[derive(Default)]
struct Lane {
    /// The next row, after the first has come.
    expected: Option<u64>,
    /// Blocks that wait, by their first row.
    waiting: BTreeMap<u64, Waiting>,
    /// Ranges of lost rows: first row and end.
    lost: BTreeMap<u64, u64>,
}

/// The waiting blocks of all lanes.
#[derive(Default)]
pub(crate) struct ReorderBuffer {
    lanes: Vec<Lane>,
    bytes: usize,
}

impl ReorderBuffer {
    fn lane(&mut self, place: usize) -> &mut Lane {
        if self.lanes.len() <= place {
            self.lanes.resize_with(place + 1, Lane::default);
        }
        &mut self.lanes[place]
    }

    /// True when a block with this header may be given out now: no row before it is expected.
    pub fn is_due(&mut self, place: usize, header: &Header) -> bool {
        let rows: u64 = header.closed.map_or(0, |(rows, ..)| rows.into());
        let lane = self.lane(place);
        lane.pass_lost();
        let is_due = lane.expected.is_none_or(|expected| header.first_row <= expected);
        if is_due {
            lane.expected = lane.expected.max(Some(header.first_row.saturating_add(rows)));
        }
        is_due
    }

    /// A block waits. `true`: too much waits, and every waiting block has to be given out.
    pub fn put(&mut self, place: usize, block: Waiting) -> bool {
        self.bytes += block.bytes.len();
        let before = self.lane(place).waiting.insert(block.header.first_row, block);
        self.bytes -= before.map_or(0, |block| block.bytes.len());
        self.bytes > WAITING_BYTES_MAX
    }

    /// These rows will not come.
    pub fn lose(&mut self, place: usize, from: u64, to: u64) {
        let end = self.lane(place).lost.entry(from).or_insert(to);
        *end = to.max(*end);
    }

    /// Takes out the next block of a lane, if no row before it is expected; with `all`, in any case.
    pub fn take(&mut self, place: usize, all: bool) -> Option<Waiting> {
        let lane = self.lane(place);
        lane.pass_lost();
        let (&first, _) = lane.waiting.first_key_value()?;
        if !all && lane.expected.is_some_and(|expected| first > expected) {
            return None;
        }
        let block = lane.waiting.remove(&first)?;
        lane.expected = lane.expected.max(Some(block.end()));
        self.bytes -= block.bytes.len();
        Some(block)
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }
}

impl Lane {
    fn pass_lost(&mut self) {
        let Some(expected) = &mut self.expected else { return };
        while let Some(entry) = self.lost.first_entry().filter(|entry| entry.key() <= expected) {
            *expected = entry.remove().max(*expected);
        }
    }
}
