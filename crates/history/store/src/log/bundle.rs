//! A bundle: the blocks of many nodes with one schema, turned into columns, so that one read gets a series of all of them. It
//! stands beside a segment of the log, and is made of its blocks: a reader that cannot read it reads the blocks. docs/store.md
//! describes its bytes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use khz_block::varint;
use khz_model::Nanos;

use crate::StoreError;
use crate::bytes::{Bytes, Read};
use crate::limits::{BUNDLE_BLOCKS, BUNDLE_BYTES_MAX, PART_BYTES_MAX};
use crate::log::sheet::Sheet;
use crate::part::Part;

/// The first bytes of a file of bundles: magic, version, zeros.
pub(crate) const BUNDLES_HEADER: [u8; 8] = *b"khzU\x01\0\0\0";
/// Bytes before the directory of a bundle: its length, that of the sheets, and the checksum of all this.
pub(crate) const HEAD_BYTES: usize = 12;

/// A block that is in a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bundled {
    /// Where its record is in the segment.
    pub at: u64,
    pub first_row: u64,
    pub rows: u32,
    /// The corrected time of its first row. With the rest it says that this is the block which was turned into columns.
    pub first: Nanos,
}

/// An open file of bundles.
#[derive(Debug)]
pub(crate) struct BundleFile {
    pub path: PathBuf,
    pub identity: u64,
    pub file: File,
}

impl BundleFile {
    pub fn failed(&self, what: &'static str, source: std::io::Error) -> StoreError {
        StoreError::File { what, path: self.path.clone(), source }
    }

    pub fn damaged(&self, part: Part, problem: &'static str) -> StoreError {
        let (path, offset, bytes) = (self.path.clone(), part.offset, part.length as u64);
        StoreError::Damaged { path, offset, bytes, problem }
    }

    pub fn bytes(&self, at: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, at).map_err(|error| self.failed("read", error))?;
        Ok(bytes)
    }
}

/// A bundle in a file.
#[derive(Debug)]
pub(crate) struct Bundle {
    file: Arc<BundleFile>,
    /// The times, then each slot.
    sheets: Vec<Part>,
    blocks: usize,
    /// How many nodes have these blocks.
    nodes: usize,
    /// A sheet of it could not be read.
    is_left: AtomicBool,
}

impl Bundle {
    /// Where a sheet is; 0: the times, and 1 more than a slot's number: that slot.
    pub fn sheet(&self, number: usize) -> Option<Part> {
        self.sheets.get(number).copied()
    }

    /// The number of the open file.
    pub fn identity(&self) -> u64 {
        self.file.identity
    }

    /// How many of its blocks a question about this many nodes wants.
    pub fn wanted(&self, nodes: usize) -> usize {
        self.blocks * nodes.min(self.nodes) / self.nodes.max(1)
    }

    /// Reads a sheet.
    pub fn read(&self, part: Part) -> Result<Sheet, StoreError> {
        let bytes = self.file.bytes(part.offset, part.length)?;
        if !cfg!(feature = "fuzz") && crc32fast::hash(&bytes) != part.checksum {
            return Err(self.file.damaged(part, "its checksum differs"));
        }
        Sheet::of(bytes, self.blocks).map_err(|problem| self.file.damaged(part, problem))
    }

    /// From now on its blocks are read in place of it.
    pub fn leave(&self) {
        self.is_left.store(true, Ordering::Relaxed);
    }

    pub fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Relaxed)
    }

    /// Every byte of it that is damaged.
    pub fn check(&self) -> Vec<StoreError> {
        self.sheets.iter().filter_map(|part| self.read(*part).err()).collect()
    }
}

/// A bundle that was found in a file: the blocks that it holds, and its end.
pub(crate) struct FoundBundle {
    pub bundle: Bundle,
    pub blocks: Vec<Bundled>,
    pub end: u64,
}

impl FoundBundle {
    /// Where what begins here says that it ends; `None`: it was cut off.
    pub fn claimed(file: &BundleFile, at: u64, length: u64) -> Result<Option<u64>, StoreError> {
        if at + HEAD_BYTES as u64 > length {
            return Ok(None);
        }
        let head = file.bytes(at, HEAD_BYTES)?;
        let mut bytes = Bytes(&head);
        let (Ok(directory), Ok(sheets)) = (bytes.u32(), bytes.u32()) else { return Ok(None) };
        let end = at + HEAD_BYTES as u64 + u64::from(directory) + u64::from(sheets);
        Ok((end <= length).then_some(end))
    }

    /// The bundle that begins here; `None`: there is none, or it was cut off.
    pub fn at(file: &Arc<BundleFile>, at: u64, length: u64) -> Result<Option<Self>, StoreError> {
        if at + HEAD_BYTES as u64 > length {
            return Ok(None);
        }
        let head = file.bytes(at, HEAD_BYTES)?;
        let mut bytes = Bytes(&head);
        let (Ok(directory), Ok(sheets), Ok(checksum)) = (bytes.u32(), bytes.u32(), bytes.u32()) else {
            return Ok(None);
        };
        let begin = at + HEAD_BYTES as u64 + u64::from(directory);
        let end = begin + u64::from(sheets);
        if end > length || directory as usize > PART_BYTES_MAX || sheets as usize > BUNDLE_BYTES_MAX {
            return Ok(None);
        }
        let directory = file.bytes(at + HEAD_BYTES as u64, directory as usize)?;
        if !cfg!(feature = "fuzz") && self::checksum(&head[..8], &directory) != checksum {
            return Ok(None);
        }
        let Ok((nodes, blocks, sheets)) = take_directory(Bytes(&directory), begin) else { return Ok(None) };
        if sheets.last().is_none_or(|last| last.end() != end) {
            return Ok(None);
        }
        let is_left = AtomicBool::new(false);
        let bundle = Bundle { file: file.clone(), sheets, blocks: blocks.len(), nodes, is_left };
        Ok(Some(FoundBundle { bundle, blocks, end }))
    }
}

fn checksum(lengths: &[u8], directory: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(lengths);
    hasher.update(directory);
    hasher.finalize()
}

/// Head and directory of a bundle with these blocks, which are of this many nodes, and these sheets one after the other.
pub(crate) fn put_directory(nodes: usize, blocks: &[Bundled], sheets: &[Part]) -> Vec<u8> {
    let mut out = vec![0; HEAD_BYTES];
    varint::put(&mut out, nodes as u64);
    varint::put(&mut out, blocks.len() as u64);
    let mut before = 0;
    for block in blocks {
        varint::put(&mut out, block.at - before);
        varint::put(&mut out, block.first_row);
        varint::put(&mut out, u64::from(block.rows));
        out.extend_from_slice(&block.first.0.to_le_bytes());
        before = block.at;
    }
    varint::put(&mut out, sheets.len() as u64);
    for sheet in sheets {
        varint::put(&mut out, sheet.length as u64);
        out.extend_from_slice(&sheet.checksum.to_le_bytes());
    }
    let length: usize = sheets.iter().map(|sheet| sheet.length).sum();
    let directory = (out.len() - HEAD_BYTES) as u32;
    out[..4].copy_from_slice(&directory.to_le_bytes());
    out[4..8].copy_from_slice(&(length as u32).to_le_bytes());
    let checksum = checksum(&out[..8], &out[HEAD_BYTES..]);
    out[8..HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// The number of nodes of a bundle, its blocks, and its sheets; the first sheet begins at `begin`.
fn take_directory(mut bytes: Bytes<'_>, begin: u64) -> Read<(usize, Vec<Bundled>, Vec<Part>)> {
    let nodes = bytes.count(BUNDLE_BLOCKS)?;
    let count = bytes.count(BUNDLE_BLOCKS)?;
    let (mut blocks, mut at) = (Vec::with_capacity(count), 0u64);
    for _ in 0..count {
        at = at.checked_add(bytes.number()?).ok_or("a block beyond any file")?;
        let (first_row, rows) = (bytes.number()?, bytes.count(u32::MAX as usize)? as u32);
        blocks.push(Bundled { at, first_row, rows, first: Nanos(bytes.u64()?) });
    }
    let count = bytes.count(bytes.0.len())?;
    let (mut sheets, mut offset) = (Vec::with_capacity(count), begin);
    for _ in 0..count {
        let part = Part { offset, length: bytes.count(BUNDLE_BYTES_MAX)?, checksum: bytes.u32()? };
        offset = part.end();
        sheets.push(part);
    }
    bytes.end()?;
    Ok((nodes, blocks, sheets))
}
