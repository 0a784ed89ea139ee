//! Where a reader of blocks is: the header of the block, and the number and the time of its rows.

use khz_model::{Nanos, Stamp};

use crate::BlockError;
use crate::decode::Step;
use crate::front::RowFront;
use crate::header::{HEADER_BYTES, Header};

/// The place of a reader in a lane.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// The header of the current block.
    pub header: Option<Header>,
    /// When the last row was gathered.
    pub stamp: Stamp,
    /// The number of the next row in the lane.
    pub next_row: u64,
    /// The rows of the block that were read.
    pub rows: u32,
}

/// What begins at the reader's place.
pub(crate) enum Front {
    Header(Header),
    Row(RowFront),
    /// The bytes end before one can tell.
    CutOff,
}

impl Walk {
    /// Takes the next header, or the next row if all of it is in `bytes`. `row` takes the row's kind, the slots of the
    /// block, and the row's entries; `None`: they are damaged. After an error, a header must come.
    #[inline]
    pub fn step(
        &mut self,
        bytes: &[u8],
        row: impl FnOnce(u8, usize, &[u8]) -> Option<()>,
    ) -> Result<Step, BlockError> {
        let result = self.try_step(bytes, row);
        if result.is_err() {
            self.header = None;
        }
        result
    }

    #[inline]
    fn try_step(
        &mut self,
        bytes: &[u8],
        row: impl FnOnce(u8, usize, &[u8]) -> Option<()>,
    ) -> Result<Step, BlockError> {
        let front = match self.front(bytes)? {
            Front::Header(header) => {
                self.begin(header);
                return Ok(Step::Header(HEADER_BYTES));
            }
            Front::Row(front) if front.end <= bytes.len() => front,
            Front::Row(_) | Front::CutOff => return Ok(Step::Incomplete),
        };
        let boot = self.time(&front)?;
        let slots = self.header.as_ref().map_or(0, |header| header.slots as usize);
        row(front.kind, slots, &bytes[front.entries..front.end]).ok_or(BlockError::Damaged {
            at: front.entries,
            problem: "the row's entries do not fit its length or the schema",
        })?;
        self.end_row(boot)?;
        Ok(Step::Row(front.end))
    }

    /// Reads the header or the front of the row at the start of `bytes`.
    #[inline]
    pub fn front(&self, bytes: &[u8]) -> Result<Front, BlockError> {
        if bytes.first().is_some_and(|&first| Header::begins_with(first)) {
            return match bytes.first_chunk::<HEADER_BYTES>() {
                Some(head) => Header::from_bytes(head, 0).map(Front::Header),
                None => Ok(Front::CutOff),
            };
        }
        Ok(RowFront::read(bytes, self.header.as_ref(), self.rows)?.map_or(Front::CutOff, Front::Row))
    }

    /// When the row with this front was gathered, on the node's boot clock.
    #[inline]
    pub fn time(&self, front: &RowFront) -> Result<Nanos, BlockError> {
        let boot = self.stamp.boot.0.checked_add(front.elapsed).map(Nanos);
        boot.ok_or(BlockError::Damaged { at: 0, problem: "the row's time overflows" })
    }

    /// A block begins.
    #[inline]
    pub fn begin(&mut self, header: Header) {
        self.next_row = header.first_row;
        self.stamp = header.stamp;
        self.rows = 0;
        self.header = Some(header);
    }

    /// A row has ended, which was gathered at this time.
    #[inline]
    pub fn end_row(&mut self, boot: Nanos) -> Result<(), BlockError> {
        let overflow = BlockError::Damaged { at: 0, problem: "the row's number overflows" };
        self.next_row = self.next_row.checked_add(1).ok_or(overflow)?;
        self.stamp.boot = boot;
        self.rows = self.rows.saturating_add(1);
        Ok(())
    }
}
