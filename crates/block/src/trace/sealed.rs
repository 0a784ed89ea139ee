//! Chunks of a trace with many lanes. Each is sealed: a mark and a checksum over kind, length and content, so that
//! damage is seen wherever it strikes, and the next whole chunk is found behind it.

use super::{CHUNK_BYTES_MAX, FRONT_BYTES, HEADER_OF_MANY};
use crate::varint;

/// Stands in every sealed chunk, so that a reader finds the next one behind damage.
const MARK: [u8; 4] = *b"khzC";
/// Mark and checksum.
const SEAL_BYTES: usize = 8;
/// Kinds from here to [`LAST`] are sealed, also those that a later version invents.
const FIRST: u8 = 3;
const LAST: u8 = 63;
const LANE: u8 = 3;
const SCHEMA: u8 = 4;
const BLOCK: u8 = 5;
const LOST: u8 = 6;
const NOTE: u8 = 7;
const PACKED_SCHEMA: u8 = 8;
/// A name of a node or a lane.
const NAME_BYTES_MAX: usize = 255;

/// What a lane is, before anything of it comes. Said anew, with a higher epoch or another one, it replaces what was
/// said before under its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneHead<'a> {
    /// Its number in this trace.
    pub lane: u32,
    /// The node whose lane it is.
    pub node: &'a str,
    /// Its name at that node.
    pub name: &'a str,
    /// Row numbers run within it.
    pub epoch: u64,
    /// Time between two rows, as granted, ns.
    pub period: u64,
}

/// A sealed chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sealed<'a> {
    /// A lane that may come from here on.
    Lane(LaneHead<'a>),
    /// Bytes of a generation's schema from an offset on.
    Schema {
        /// The lane.
        lane: u32,
        /// The generation.
        generation: u32,
        /// Where in that schema they stand.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The same, packed by zstd. Version 2 of the trace.
    PackedSchema {
        /// The lane.
        lane: u32,
        /// The generation.
        generation: u32,
        /// Where in that schema they stand, unpacked.
        offset: u64,
        /// A frame of zstd that says how large its content is.
        packed: &'a [u8],
    },
    /// A whole block.
    Block {
        /// The lane.
        lane: u32,
        /// Header and rows.
        bytes: &'a [u8],
    },
    /// Rows that the recorder was told are lost for good; the last is not included.
    Lost {
        /// The lane.
        lane: u32,
        /// The first.
        from: u64,
        /// The one behind the last.
        to: u64,
    },
    /// Something about the whole recording: one JSON object.
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

/// Whether chunks of this kind are sealed.
pub(super) fn is_sealed(kind: u8) -> bool {
    (FIRST..=LAST).contains(&kind)
}

/// Reads a whole sealed chunk, from its kind on.
pub(super) fn read(chunk: &[u8]) -> Result<Sealed<'_>, &'static str> {
    let seal = chunk.get(FRONT_BYTES..FRONT_BYTES + SEAL_BYTES).ok_or("a chunk too short for its seal")?;
    if seal[..4] != MARK {
        return Err("a chunk without its mark");
    }
    if seal[4..] != checksum(chunk).to_le_bytes() {
        return Err("a chunk whose checksum is wrong");
    }
    content(chunk[0], &chunk[FRONT_BYTES + SEAL_BYTES..])
        .ok_or("a chunk that does not say what its kind says")
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

/// Over kind and length, and everything behind the checksum's place.
fn checksum(chunk: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&chunk[..FRONT_BYTES]);
    hasher.update(&chunk[FRONT_BYTES + SEAL_BYTES..]);
    hasher.finalize()
}

/// Where the next sealed chunk seems to begin, `from` bytes into `bytes` or later: a mark behind a front that could be
/// one. Whether it is one, its checksum says.
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

/// Begins a trace whose first chunk says what it is.
pub fn begin(note: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&HEADER_OF_MANY);
    Sealed::Note(note).put(out);
}
