//! The log: rows of base lanes as the hub gets them, safe on the disk within a second, until they are columns.
//! docs/store.md describes its bytes.
//!
//! [`Intake`] takes blocks and hears of rows, [`Log`] writes both, [`LogView`] reads them. Rows of a block that has not ended are
//! written for a restart only: it makes blocks of them. Everything else reads blocks.

mod batch;
mod bundle;
mod bundler;
mod bundles;
mod bundling;
mod index;
mod intake;
mod known;
mod lane;
mod left_out;
mod list;
mod parts;
mod pieces;
mod record;
mod replay;
mod segment;
mod sheet;
mod tail;
mod taken;
mod view;
mod walk;
mod writer;

use std::sync::Arc;

use khz_block::Header;
use khz_model::{Columns, Nanos};

pub use bundler::Bundler;
pub(crate) use index::{Entry, InBundle};
pub use intake::{Intake, LogCounts};
pub use known::KnownBlock;
pub use lane::LoggedLane;
pub(crate) use sheet::{Line, RowTimes, Sheet};
pub(crate) use view::BlockSource;
pub use view::LogView;
pub use writer::{Commit, Log};

/// The hash by which peers know a schema.
pub type SchemaHash = [u8; 16];

/// Blocks that have not ended. Each commit asks for what has come of them.
pub trait OpenBlocks: Send + Sync {
    /// Gives what has come of each block since `take` has taken something of it. If `take` returns false, it has no room
    /// now, and wants the bytes again.
    fn grown(&self, take: &mut Take<'_>);
}

/// Takes bytes of a lane's open block; false: there is no room now.
pub type Take<'a> = dyn FnMut(&Arc<LoggedLane>, OpenBlock<'_>) -> bool + 'a;

/// Bytes of a lane's open block.
#[derive(Clone)]
pub struct OpenBlock<'a> {
    /// The block's header.
    pub header: &'a Header,
    /// The columns of its slots, and the hash of their schema. Set if these bytes include the header.
    pub begins: Option<(Arc<dyn Columns>, SchemaHash)>,
    /// Where these bytes are in the block; 0: they begin with its header.
    pub offset: usize,
    /// The bytes.
    pub bytes: &'a [u8],
    /// The number after the last whole row that the block has with these bytes.
    pub end: u64,
    /// See [`LoggedBlock::shift`].
    pub shift: i64,
}

/// A block, or the rows that came of it.
#[derive(Clone)]
pub struct LoggedBlock {
    /// Its header.
    pub header: Header,
    /// How many rows it has.
    pub rows: u32,
    /// What its slots mean.
    pub schema: Arc<dyn Columns>,
    /// The hash of that schema.
    pub schema_hash: SchemaHash,
    /// Header and rows.
    pub bytes: Arc<Vec<u8>>,
    /// When its last row was gathered, by the node's wall clock. (The header has the time of the first.)
    pub last: Nanos,
    /// Nanoseconds to add to its times, because the node's clock is wrong; 0 as a rule.
    pub shift: i64,
}

impl LoggedBlock {
    /// The times of its first and last row, corrected.
    pub fn span(&self) -> (Nanos, Nanos) {
        let corrected = |time: Nanos| Nanos(time.0.saturating_add_signed(self.shift));
        (corrected(self.header.stamp.real()), corrected(self.last))
    }
}

impl std::fmt::Debug for LoggedBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, rows) = (self.header.first_row, self.rows);
        f.debug_struct("LoggedBlock").field("first_row", &first).field("rows", &rows).finish_non_exhaustive()
    }
}
