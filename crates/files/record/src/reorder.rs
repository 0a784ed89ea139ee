//! Blocks of a lane, put back into the order of their rows: a block that comes before older ones waits until these have come, within
//! limits. Which rows will come is known before.

use std::collections::BTreeMap;
use std::sync::Arc;

use khz_block::Header;
use khz_model::Series;

use crate::outline::Rows;

/// Bytes of all waiting blocks: seconds of many nodes, hours of one. Beyond, every waiting block is given out.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// A block that waits, with the series of its slots.
pub(crate) struct Waiting {
    pub header: Header,
    pub bytes: Vec<u8>,
    pub columns: Arc<Vec<Series>>,
}

/// The row after those of a block.
fn end_of(header: &Header) -> u64 {
    header.first_row.saturating_add(header.closed.map_or(0, |(rows, ..)| rows.into()))
}

/// One lane.
#[derive(Default)]
struct Lane {
    /// Rows that the recording has, without those that were given out.
    here: Rows,
    /// The row after the newest that was given out.
    next: u64,
    /// Blocks that wait, by their first row.
    waiting: BTreeMap<u64, Waiting>,
}

impl Lane {
    /// True if no row before this one is to come.
    fn is_due(&mut self, row: u64) -> bool {
        self.here.first_from(self.next).is_none_or(|expected| row <= expected)
    }

    fn gave(&mut self, header: &Header) {
        self.next = self.next.max(end_of(header));
    }
}

/// The waiting blocks of all lanes.
#[derive(Default)]
pub(crate) struct ReorderBuffer {
    lanes: Vec<Lane>,
    bytes: usize,
}

impl ReorderBuffer {
    /// A lane begins, of which the recording has these rows.
    pub fn begin(&mut self, place: usize, here: Rows) {
        self.lane(place).here = here;
    }

    fn lane(&mut self, place: usize) -> &mut Lane {
        if self.lanes.len() <= place {
            self.lanes.resize_with(place + 1, Lane::default);
        }
        &mut self.lanes[place]
    }

    /// True when a block with this header is given out now: no row before it is to come.
    pub fn is_due(&mut self, place: usize, header: &Header) -> bool {
        let lane = self.lane(place);
        let is_due = lane.is_due(header.first_row);
        if is_due {
            lane.gave(header);
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

    /// A block with this header cannot be used: nobody waits for its rows.
    pub fn refuse(&mut self, place: usize, header: &Header) {
        self.lane(place).here.remove(header.first_row, end_of(header));
    }

    /// Takes out the next block of a lane, if no row before it is to come; with `all`, in any case.
    pub fn take(&mut self, place: usize, all: bool) -> Option<Waiting> {
        let lane = self.lane(place);
        let (&first, _) = lane.waiting.first_key_value()?;
        if !all && !lane.is_due(first) {
            return None;
        }
        let block = lane.waiting.remove(&first)?;
        lane.gave(&block.header);
        self.bytes -= block.bytes.len();
        Some(block)
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }
}
