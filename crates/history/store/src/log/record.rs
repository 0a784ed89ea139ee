//! The records of a segment, as bytes. docs/store.md describes them.

use khz_block::varint;
use khz_block::{HEADER_BYTES, Header};
use khz_model::{Nanos, NodeName};

use crate::bytes::{Bytes, Read, put_text};
use crate::limits::{RECORD_BYTES_MAX, STORED_RANGES_MAX};
use crate::log::SchemaHash;

/// The first bytes of a segment: magic, version, zeros.
pub(crate) const SEGMENT_HEADER: [u8; 8] = *b"khzL\x02\0\0\0";
/// The same of a segment whose commits have no lists, as earlier programs wrote it.
pub(crate) const SEGMENT_HEADER_1: [u8; 8] = *b"khzL\x01\0\0\0";
/// The newest version that is read.
pub(crate) const SEGMENT_VERSION: u8 = 2;
/// Bytes before the body of a record: kind, length, checksum.
pub(crate) const HEAD_BYTES: usize = 9;
/// The bytes with which the body of a commit begins.
pub(crate) const COMMIT_MAGIC: [u8; 8] = *b"khz-sync";
/// Bytes of a commit: the record's head, the magic, and its place in the file.
pub(crate) const COMMIT_BYTES: usize = HEAD_BYTES + 16;
/// Bytes before the block in the body of its record.
pub(crate) const BLOCK_META_BYTES: usize = 29;
/// The flag of a block that may go on.
const PART: u8 = 1;

/// What a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A lane, and which of its rows were stored before.
    Lane = 1,
    /// A schema.
    Schema = 2,
    /// New bytes of open blocks since the last commit.
    Rows = 3,
    /// A block.
    Block = 4,
    /// The end of what was synced together.
    Commit = 5,
    /// What some commits wrote, and where. It stands before the last of them.
    List = 6,
}

/// The first bytes of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub kind: Kind,
    pub length: usize,
    pub checksum: u32,
}

impl Head {
    pub fn take(bytes: &[u8; HEAD_BYTES]) -> Read<Self> {
        let mut bytes = Bytes(bytes);
        let kind = match bytes.byte()? {
            1 => Kind::Lane,
            2 => Kind::Schema,
            3 => Kind::Rows,
            4 => Kind::Block,
            5 => Kind::Commit,
            6 => Kind::List,
            _ => return Err("it is no record of a log"),
        };
        let length = bytes.u32()? as usize;
        if length > RECORD_BYTES_MAX {
            return Err("a record is longer than any may be");
        }
        Ok(Head { kind, length, checksum: bytes.u32()? })
    }

    /// Whether this is the body that was written.
    pub fn fits(&self, body: &[u8]) -> bool {
        cfg!(feature = "fuzz") || checksum(self.kind, body, &[]) == self.checksum
    }
}

fn checksum(kind: Kind, body: &[u8], rest: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind as u8]);
    hasher.update(&((body.len() + rest.len()) as u32).to_le_bytes());
    hasher.update(body);
    hasher.update(rest);
    hasher.finalize()
}

/// Appends a record whose body `fill` appends.
pub(crate) fn put(out: &mut Vec<u8>, kind: Kind, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = begin(out);
    fill(out);
    end(out, start, kind, &[]);
}

/// Makes room for the head of a record.
fn begin(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; HEAD_BYTES]);
    out.len() - HEAD_BYTES
}

/// Fills in the head of the record that begins at `start`. Its body is what follows the head, and `rest`, which is elsewhere.
fn end(out: &mut [u8], start: usize, kind: Kind, rest: &[u8]) {
    let body = &out[start + HEAD_BYTES..];
    let (length, checksum) = ((body.len() + rest.len()) as u32, checksum(kind, body, rest));
    out[start] = kind as u8;
    out[start + 1..start + 5].copy_from_slice(&length.to_le_bytes());
    out[start + 5..start + HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

/// Appends a commit that stands at `offset` of the file.
pub(crate) fn put_commit(out: &mut Vec<u8>, offset: u64) {
    put(out, Kind::Commit, |out| {
        out.extend_from_slice(&COMMIT_MAGIC);
        out.extend_from_slice(&offset.to_le_bytes());
    });
}

/// Whether this is the body of the commit that stands at this place.
pub(crate) fn is_commit_at(body: &[u8], at: u64) -> bool {
    let place = body.get(COMMIT_MAGIC.len()..).and_then(|rest| rest.first_chunk());
    body.starts_with(&COMMIT_MAGIC) && place.map(|place| u64::from_le_bytes(*place)) == Some(at)
}

/// A lane, as a segment declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LaneRecord {
    pub number: u32,
    pub epoch: u64,
    pub node: NodeName,
    /// Rows that were stored before this record.
    pub stored: Vec<(u64, u64)>,
}

impl LaneRecord {
    pub fn put(&self, out: &mut Vec<u8>) {
        put(out, Kind::Lane, |out| self.put_body(out));
    }

    pub fn put_body(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        put_text(out, self.node.as_str());
        varint::put(out, self.stored.len() as u64);
        for (from, to) in &self.stored {
            varint::put(out, *from);
            varint::put(out, to - from);
        }
    }

    pub fn take(mut bytes: Bytes<'_>) -> Read<Self> {
        let (number, epoch) = (bytes.u32()?, bytes.u64()?);
        let node = NodeName::stored(bytes.text(khz_model::name::NODE_NAME_MAX)?);
        let node = node.map_err(|_| "it is no name of a node")?;
        let mut stored = Vec::new();
        for _ in 0..bytes.count(STORED_RANGES_MAX)? {
            let (from, rows) = (bytes.number()?, bytes.number()?);
            stored.push((from, from.checked_add(rows).ok_or("rows that cannot be counted")?));
        }
        if !stored.is_sorted_by(|one, next| one.1 < next.0) {
            return Err("ranges of rows are not in order");
        }
        bytes.end()?;
        Ok(LaneRecord { number, epoch, node, stored })
    }
}

/// Appends a schema.
pub(crate) fn put_schema(out: &mut Vec<u8>, number: u32, hash: &SchemaHash, schema: &[u8]) {
    put(out, Kind::Schema, |out| {
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(hash);
        out.extend_from_slice(schema);
    });
}

/// Reads what [`put_schema`] wrote: its number, its hash, and its bytes.
pub(crate) fn take_schema(mut bytes: Bytes<'_>) -> Read<(u32, SchemaHash, &[u8])> {
    let number = bytes.u32()?;
    let mut hash = SchemaHash::default();
    hash.copy_from_slice(bytes.take(16)?);
    Ok((number, hash, bytes.0))
}

/// The data of a segment about a block, before its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockMeta {
    pub lane: u32,
    pub schema: u32,
    pub rows: u32,
    pub last: Nanos,
    pub shift: i64,
    /// Its rows stay among those of open blocks, because more may follow.
    pub is_part: bool,
}

impl BlockMeta {
    /// Appends the record of a block up to the bytes of the block, which follow it.
    pub fn put(&self, out: &mut Vec<u8>, block: &[u8]) {
        let start = begin(out);
        out.extend_from_slice(&self.lane.to_le_bytes());
        out.extend_from_slice(&self.schema.to_le_bytes());
        out.extend_from_slice(&self.rows.to_le_bytes());
        out.extend_from_slice(&self.last.0.to_le_bytes());
        out.extend_from_slice(&self.shift.to_le_bytes());
        out.push(if self.is_part { PART } else { 0 });
        end(out, start, Kind::Block, block);
    }

    /// Reads it, and the header of the block after it.
    pub fn take(mut bytes: Bytes<'_>) -> Read<(Self, Header)> {
        let (lane, schema, rows) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
        let (last, shift) = (Nanos(bytes.u64()?), bytes.u64()?.cast_signed());
        let is_part = bytes.byte()? & PART != 0;
        let head: &[u8; HEADER_BYTES] = bytes.0.first_chunk().ok_or("a block without its header")?;
        let header = Header::from_bytes(head, 0).map_err(|_| "it is no block")?;
        let end = header.first_row.checked_add(u64::from(rows));
        end.ok_or("rows that cannot be counted")?;
        Ok((BlockMeta { lane, schema, rows, last, shift, is_part }, header))
    }
}

/// Bytes of one open block in a record of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub lane: u32,
    pub schema: u32,
    /// The first row of the block.
    pub first_row: u64,
    /// Where the bytes are in the block.
    pub offset: usize,
    pub length: usize,
    /// The number after the last whole row.
    pub end: u64,
    pub shift: i64,
}

impl Piece {
    fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, u64::from(self.lane));
        varint::put(out, u64::from(self.schema));
        varint::put(out, self.first_row);
        varint::put(out, self.offset as u64);
        varint::put(out, self.length as u64);
        varint::put(out, self.end - self.first_row);
        varint::put(out, varint::zigzag(self.shift.cast_unsigned()));
    }

    fn take(bytes: &mut Bytes<'_>) -> Read<Self> {
        let number = |bytes: &mut Bytes<'_>| bytes.count(u32::MAX as usize).map(|number| number as u32);
        let (lane, schema, first_row) = (number(bytes)?, number(bytes)?, bytes.number()?);
        let (offset, length) = (bytes.count(RECORD_BYTES_MAX)?, bytes.count(RECORD_BYTES_MAX)?);
        let end = first_row.checked_add(bytes.number()?).ok_or("rows that cannot be counted")?;
        let shift = varint::unzigzag(bytes.number()?).cast_signed();
        Ok(Piece { lane, schema, first_row, offset, length, end, shift })
    }
}

/// Appends a record of rows up to the bytes of its pieces, which follow it: its head, the length of the table, and the table.
pub(crate) fn put_table<'a>(out: &mut Vec<u8>, pieces: impl Iterator<Item = &'a Piece>, bytes: &[u8]) {
    let start = begin(out);
    out.extend_from_slice(&[0; 4]);
    pieces.for_each(|piece| piece.put(out));
    let table = start + HEAD_BYTES;
    let length = (out.len() - table - 4) as u32;
    out[table..table + 4].copy_from_slice(&length.to_le_bytes());
    end(out, start, Kind::Rows, bytes);
}

/// The table of a record of rows whose body has `body` bytes: each piece, and where its bytes begin in the body.
pub(crate) fn take_table(table: &[u8], body: usize) -> Read<Vec<(Piece, usize)>> {
    let (mut bytes, mut at, mut pieces) = (Bytes(table), 4 + table.len(), Vec::new());
    while !bytes.0.is_empty() {
        let piece = Piece::take(&mut bytes)?;
        pieces.push((piece, at));
        at = at.saturating_add(piece.length);
        if at > body {
            return Err("rows lie beyond the end of their record");
        }
    }
    if at == body { Ok(pieces) } else { Err("bytes follow the last rows") }
}
