//! The bytes that a commit has taken from open blocks, one after the other, and their lanes.

use std::sync::Arc;

use crate::limits::ROWS_RECORD_BYTES;
use crate::log::intake::{KnownSchema, Shared};
use crate::log::record::Piece;
use crate::log::{LoggedLane, OpenBlock};

/// Bytes of open blocks for one record of rows.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub pieces: Vec<(Arc<LoggedLane>, Piece)>,
    /// The bytes of all pieces, in their order.
    pub bytes: Vec<u8>,
    /// Some lanes have more.
    pub is_full: bool,
}

impl Taken {
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.bytes.clear();
        self.is_full = false;
    }

    /// Takes bytes that have come of a lane's open block; false: there is no room for them now.
    pub fn take(&mut self, shared: &Shared, lane: &Arc<LoggedLane>, open: OpenBlock<'_>) -> bool {
        if !self.has_room(open.bytes.len()) {
            self.is_full = true;
            return false;
        }
        let begins = open.begins.map(|(columns, hash)| {
            let number = shared.state().schema(&hash, &columns);
            (number, KnownSchema { hash, columns })
        });
        let first_row = open.header.first_row;
        // Bytes that do not continue those in the log are useless for a restart.
        if let Some(schema) = lane.take(first_row, open.offset, open.bytes.len(), begins) {
            let piece = Piece {
                lane: lane.number,
                schema,
                first_row,
                offset: open.offset,
                length: open.bytes.len(),
                end: open.end.max(first_row),
                shift: open.shift,
            };
            self.push(lane, piece, open.bytes);
        }
        true
    }

    /// Whether this many bytes fit. If there is nothing yet, any number does.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.pieces.is_empty() || self.bytes.len() + bytes <= ROWS_RECORD_BYTES
    }

    pub fn push(&mut self, lane: &Arc<LoggedLane>, piece: Piece, bytes: &[u8]) {
        self.pieces.push((lane.clone(), piece));
        self.bytes.extend_from_slice(bytes);
    }
}
