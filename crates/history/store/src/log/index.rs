//! Where each block is in the segments: a list for each node, in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use khz_model::{Columns, Nanos, NodeName};

use crate::StoreError;
use crate::log::bundle::{Bundle, Bundled};
use crate::log::record::{BLOCK_META_BYTES, BlockMeta, HEAD_BYTES, Head};
use crate::log::segment::SegmentFile;
use crate::log::{LoggedBlock, LoggedLane, SchemaHash};

/// A block in a segment.
#[derive(Clone)]
pub(crate) struct Entry {
    pub lane: Arc<LoggedLane>,
    pub schema: Arc<dyn Columns>,
    pub schema_hash: SchemaHash,
    pub segment: Arc<SegmentFile>,
    /// Where its record begins.
    pub at: u64,
    /// Bytes of the record's body.
    pub length: usize,
    pub first_row: u64,
    pub rows: u32,
    /// The corrected times of its first and last row.
    pub span: (Nanos, Nanos),
    pub bundle: InBundle,
}

/// Whether a block is in a bundle.
#[derive(Clone, Default)]
pub(crate) enum InBundle {
    /// Not yet.
    #[default]
    Not,
    /// It cannot be.
    Never,
    /// It is, at this place.
    At(Arc<Bundle>, u32),
}

impl Entry {
    /// True if this is the block that a bundle has.
    pub fn is(&self, bundled: &Bundled) -> bool {
        let Bundled { at, first_row, rows, first } = *bundled;
        (self.at, self.first_row, self.rows, self.span.0) == (at, first_row, rows, first)
    }

    /// Reads the block.
    pub fn read(&self) -> Result<LoggedBlock, StoreError> {
        let record = self.segment.bytes(self.at, HEAD_BYTES + self.length)?;
        let damaged = |problem| self.segment.damaged(self.at, record.len() as u64, problem);
        let (head, body) = record.split_first_chunk().ok_or_else(|| damaged("it has no head"))?;
        let head = Head::take(head).map_err(damaged)?;
        if !head.fits(body) {
            return Err(damaged("its checksum differs"));
        }
        let (meta, header) = BlockMeta::take(crate::bytes::Bytes(body)).map_err(damaged)?;
        if (header.first_row, meta.rows) != (self.first_row, self.rows) {
            return Err(damaged("it is another block than before"));
        }
        Ok(LoggedBlock {
            header,
            rows: meta.rows,
            schema: self.schema.clone(),
            schema_hash: self.schema_hash,
            bytes: Arc::new(body[BLOCK_META_BYTES..].to_vec()),
            last: meta.last,
            shift: meta.shift,
        })
    }
}

/// All blocks of all segments.
#[derive(Default)]
pub(crate) struct Index {
    nodes: BTreeMap<NodeName, Vec<Entry>>,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("nodes", &self.nodes.len()).finish()
    }
}

impl Index {
    pub fn add(&mut self, entry: Entry) {
        self.nodes.entry(entry.lane.node().clone()).or_default().push(entry);
    }

    /// Adds blocks of a node.
    pub fn add_all(&mut self, node: &NodeName, entries: Vec<Entry>) {
        if !entries.is_empty() {
            self.nodes.entry(node.clone()).or_default().extend(entries);
        }
    }

    /// Takes out the blocks of a segment, and calls `each` with every one. Returns how many rows they had.
    pub fn remove(&mut self, segment: u64, mut each: impl FnMut(&Entry)) -> u64 {
        let mut rows = 0;
        self.nodes.retain(|_, entries| {
            entries.retain(|entry| {
                let stays = entry.segment.number != segment;
                if !stays {
                    rows += u64::from(entry.rows);
                    each(entry);
                }
                stays
            });
            !entries.is_empty()
        });
        rows
    }

    /// Calls `each` with every block of a segment.
    pub fn each_of(&mut self, segment: u64, mut each: impl FnMut(&mut Entry)) {
        let entries = self.nodes.values_mut().flatten();
        entries.filter(|entry| entry.segment.number == segment).for_each(&mut each);
    }

    /// The block at this place, of this node.
    pub fn block(&mut self, node: &NodeName, segment: u64, at: u64) -> Option<&mut Entry> {
        let entries = self.nodes.get_mut(node)?;
        entries.iter_mut().rev().find(|entry| (entry.segment.number, entry.at) == (segment, at))
    }

    pub fn nodes(&self) -> impl Iterator<Item = (&NodeName, &[Entry])> {
        self.nodes.iter().map(|(node, entries)| (node, &entries[..]))
    }

    pub fn of(&self, node: &NodeName) -> &[Entry] {
        self.nodes.get(node).map_or(&[], |entries| entries)
    }
}
