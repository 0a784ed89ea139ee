//! What has come of open blocks, until a commit takes it, as a hub has it.

use std::sync::{Arc, Mutex};

use khz_block::Header;
use khz_model::Columns;
use khz_store::log::{Intake, LoggedBlock, LoggedLane, OpenBlock, OpenBlocks, SchemaHash, Take};

/// The open blocks of a log.
#[derive(Default)]
pub struct Open(Mutex<Vec<Piece>>);

/// Bytes of an open block.
pub struct Piece {
    pub lane: Arc<LoggedLane>,
    pub header: Header,
    pub begins: Option<(Arc<dyn Columns>, SchemaHash)>,
    pub offset: usize,
    pub bytes: Vec<u8>,
    /// The number after the last row.
    pub end: u64,
}

impl Open {
    /// The open blocks for which a log asks.
    pub fn of(intake: &Intake) -> Arc<Self> {
        let open = Arc::<Open>::default();
        intake.ask(&open);
        open
    }

    /// Something comes.
    pub fn came(&self, intake: &Intake, piece: Piece) {
        self.0.lock().unwrap().push(piece);
        intake.grown();
    }

    /// A block comes, and does not end.
    pub fn block(&self, intake: &Intake, lane: &Arc<LoggedLane>, block: &LoggedBlock) {
        let piece = Piece {
            lane: lane.clone(),
            header: block.header,
            begins: Some((block.schema.clone(), block.schema_hash)),
            offset: 0,
            bytes: block.bytes.to_vec(),
            end: block.header.first_row + u64::from(block.rows),
        };
        self.came(intake, piece);
    }
}

impl OpenBlocks for Open {
    fn grown(&self, take: &mut Take<'_>) {
        self.0.lock().unwrap().retain(|Piece { lane, header, begins, offset, bytes, end }| {
            let begins = begins.clone();
            !take(lane, OpenBlock { header, begins, offset: *offset, bytes, end: *end, shift: 0 })
        });
    }
}
