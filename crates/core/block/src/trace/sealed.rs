//! Chunks of a trace with many lanes. Each is sealed with a mark, and with a checksum over kind, length and
//! content. A reader notices damage anywhere, and finds the next whole chunk after it.

use super::{CHUNK_BYTES_MAX, FRONT_BYTES, HEADER_OF_MANY};
use crate::varint;

/// The mark in every sealed chunk; a reader searches for it after damage.
const MARK: [u8; 4] = *b"khzC";
/// The size of mark and checksum.
const SEAL_BYTES: usize = 8;
/// Kinds from here to [`LAST`] are sealed, including those of later versions.
const FIRST: u8 = 3;
const LAST: u8 = 63;
const LANE: u8 = 3;
const SCHEMA: u8 = 4;
const BLOCK: u8 = 5;
const LOST: u8 = 6;
const NOTE: u8 = 7;
const PACKED_SCHEMA: u8 = 8;
/// The longest name of a node or lane.
const NAME_BYTES_MAX: usize = 255;

/// The description of a lane; it precedes everything else of the lane. A later head with the same
/// number replaces it: that head has a higher epoch, or belongs to another lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneHead<'a> {
    /// The lane's number in this trace.
    pub lane: u32,
    /// The node that the lane belongs to.
    pub node: &'a str,
    /// The lane's name at that node.
    pub name: &'a str,
    /// The epoch of the row numbers.
    pub epoch: u64,
    /// The granted time between two rows, ns.
    pub period: u64,
}

/// A sealed chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sealed<'a> {
    /// A lane that may appear from here on.
    Lane(LaneHead<'a>),
    /// Bytes of one generation's schema, from an offset on.
    Schema {
        /// The lane.
        lane: u32,
        /// The generation.
        generation: u32,
        /// The offset of the bytes in that schema.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The same, packed by zstd. Only in version 2 of the trace.
    PackedSchema {
        /// The lane.
        lane: u32,
        /// The generation.
        generation: u32,
        /// The offset of the bytes in that schema, unpacked.
        offset: u64,
        /// A zstd frame that states the size of its content.
        packed: &'a [u8],
    },
    /// A whole block.
    Block {
        /// The lane.
        lane: u32,
        /// Header and rows.
        bytes: &'a [u8],
    },
    /// Rows that the recorder knows to be lost for good, up to but not including `to`.
    Lost {
        /// The lane.
        lane: u32,
        /// The first lost row.
        from: u64,
        /// The row after the last lost one.
        to: u64,
    },
    /// A note about the whole recording: one JSON object.
    Note(&'a str),
    /// A kind of a later version.
    Unknown(u8),
}

impl Sealed<'_> {
    /// Appends the chunk.
    pub fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let kind = match self {
            Sealed::Lane(_) => LANE,
            Sealed::Schema { .. } => SCHEMA,
            Sealed::PackedSchema { .. } => PACKED_SCHEMA,
            Sealed::Block { .. } => BLOCK,
            Sealed::Lost { .. } => LOST,
            Sealed::Note(_) => NOTE,
            Sealed::Unknown(kind) => *kind,
        };
        out.push(kind);
        out.extend_from_slice(&[0; FRONT_BYTES - 1]);
        out.extend_from_slice(&MARK);
        out.extend_from_slice(&[0; 4]);
        self.put_content(out);
        let length = (out.len() - start - FRONT_BYTES) as u32;
        out[start + 1..start + FRONT_BYTES].copy_from_slice(&length.to_le_bytes());
        let checksum = checksum(&out[start..]);
        out[start + FRONT_BYTES + 4..start + FRONT_BYTES + 8].copy_from_slice(&checksum.to_le_bytes());
    }

    fn put_content(&self, out: &mut Vec<u8>) {
        match *self {
            Sealed::Lane(LaneHead { lane, node, name, epoch, period }) => {
                out.extend_from_slice(&lane.to_le_bytes());
                out.extend_from_slice(&epoch.to_le_bytes());
                out.extend_from_slice(&period.to_le_bytes());
                for text in [node, name] {
                    varint::put(out, text.len() as u64);
                    out.extend_from_slice(text.as_bytes());
                }
            }
            Sealed::Schema { lane, generation, offset, bytes }
            | Sealed::PackedSchema { lane, generation, offset, packed: bytes } => {
                out.extend_from_slice(&lane.to_le_bytes());
                out.extend_from_slice(&generation.to_le_bytes());
                out.extend_from_slice(&offset.to_le_bytes());
                out.extend_from_slice(bytes);
            }
            Sealed::Block { lane, bytes } => {
                out.extend_from_slice(&lane.to_le_bytes());
                out.extend_from_slice(bytes);
            }
            Sealed::Lost { lane, from, to } => {
                out.extend_from_slice(&lane.to_le_bytes());
                out.extend_from_slice(&from.to_le_bytes());
                out.extend_from_slice(&to.to_le_bytes());
            }
            Sealed::Note(text) => out.extend_from_slice(text.as_bytes()),
            Sealed::Unknown(_) => {}
        }
    }
}

/// True when chunks of this kind are sealed.
pub(super) fn is_sealed(kind: u8) -> bool {
    (FIRST..=LAST).contains(&kind)
}

/// Reads a whole sealed chunk, including its kind.
pub(super) fn read(chunk: &[u8]) -> Result<Sealed<'_>, &'static str> {
    let seal = chunk.get(FRONT_BYTES..FRONT_BYTES + SEAL_BYTES).ok_or("a chunk too short for its seal")?;
    if seal[..4] != MARK {
        return Err("a chunk without its mark");
    }
    if seal[4..] != checksum(chunk).to_le_bytes() {
        return Err("a chunk whose checksum is wrong");
    }
    content(chunk[0], &chunk[FRONT_BYTES + SEAL_BYTES..]).ok_or("a chunk whose content does not fit its kind")
}

fn content(kind: u8, bytes: &[u8]) -> Option<Sealed<'_>> {
    Some(match kind {
        LANE => Sealed::Lane(lane_head(bytes)?),
        SCHEMA => {
            let (lane, rest) = u32_of(bytes)?;
            let (generation, rest) = u32_of(rest)?;
            let (offset, bytes) = u64_of(rest)?;
            Sealed::Schema { lane, generation, offset, bytes }
        }
        PACKED_SCHEMA => {
            let (lane, rest) = u32_of(bytes)?;
            let (generation, rest) = u32_of(rest)?;
            let (offset, packed) = u64_of(rest)?;
            Sealed::PackedSchema { lane, generation, offset, packed }
        }
        BLOCK => {
            let (lane, bytes) = u32_of(bytes)?;
            Sealed::Block { lane, bytes }
        }
        LOST => {
            let (lane, rest) = u32_of(bytes)?;
            let (from, rest) = u64_of(rest)?;
            let (to, _) = u64_of(rest)?;
            Sealed::Lost { lane, from, to }
        }
        NOTE => Sealed::Note(std::str::from_utf8(bytes).ok()?),
        other => Sealed::Unknown(other),
    })
}

fn lane_head(bytes: &[u8]) -> Option<LaneHead<'_>> {
    let (lane, rest) = u32_of(bytes)?;
    let (epoch, rest) = u64_of(rest)?;
    let (period, rest) = u64_of(rest)?;
    let (node, rest) = text_of(rest)?;
    let (name, _) = text_of(rest)?;
    Some(LaneHead { lane, node, name, epoch, period })
}

fn u32_of(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*number), rest))
}

fn u64_of(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), rest))
}

fn text_of(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = varint::get(bytes)?;
    let length = usize::try_from(length).ok().filter(|&length| length <= NAME_BYTES_MAX)?;
    let (text, rest) = rest.split_at_checked(length)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

/// The checksum over kind, length, and everything after the checksum's own bytes.
fn checksum(chunk: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&chunk[..FRONT_BYTES]);
    hasher.update(&chunk[FRONT_BYTES + SEAL_BYTES..]);
    hasher.finalize()
}

/// The position, from `from` on, at which the next sealed chunk seems to begin: a mark after a possible
/// front. Only the checksum proves that it is a chunk.
pub fn find(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from + FRONT_BYTES;
    loop {
        at += position(bytes.get(at..)?)?;
        let start = at - FRONT_BYTES;
        let length = bytes[start + 1..at].first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
        if start >= from
            && is_sealed(bytes[start])
            && (SEAL_BYTES..CHUNK_BYTES_MAX).contains(&(length as usize))
        {
            return Some(start);
        }
        at += 1;
    }
}

fn position(bytes: &[u8]) -> Option<usize> {
    bytes.windows(MARK.len()).position(|window| window == MARK)
}

/// Begins a trace; its first chunk is the note.
pub fn begin(note: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&HEADER_OF_MANY);
    Sealed::Note(note).put(out);
}
