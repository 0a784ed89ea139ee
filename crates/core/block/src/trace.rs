//! A trace, the format of a recording (`.khzt`): pieces of schemas and blocks, of one lane or of many, in one file. It
//! knows where the pieces begin and end, not what they mean.

mod past;
mod sealed;

use crate::BlockError;

pub use past::PastTrace;
pub use sealed::{LaneHead, Sealed, begin as begin_sealed, find};

/// Magic, version, three bytes of zeros.
const HEADER: [u8; 8] = *b"khzT\x01\0\0\0";
/// A trace of many lanes, whose schemas may be packed. A reader of version 1 would find blocks without their
/// schema, so the version is 2.
const HEADER_OF_MANY: [u8; 8] = *b"khzT\x02\0\0\0";
const SCHEMA: u8 = 1;
const BLOCK: u8 = 2;
/// The size of a chunk's kind and length.
pub const FRONT_BYTES: usize = 5;
/// The size of a trace's header.
pub const HEADER_BYTES: usize = HEADER.len();
/// The largest chunk: the largest block that a link carries, with some room.
pub const CHUNK_BYTES_MAX: usize = 65 << 20;

/// Begins a trace.
pub fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&HEADER);
}

/// Appends the next bytes of the schema. They must precede the first block that needs them.
pub fn put_schema(bytes: &[u8], out: &mut Vec<u8>) {
    put(SCHEMA, bytes, out);
}

/// Appends a whole block.
pub fn put_block(bytes: &[u8], out: &mut Vec<u8>) {
    put(BLOCK, bytes, out);
}

fn put(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// A chunk of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// The next bytes of the schema.
    Schema(&'a [u8]),
    /// A block, from its header to its last row.
    Block(&'a [u8]),
    /// A chunk of a trace with many lanes.
    Sealed(Sealed<'a>),
}

/// What the bytes of a trace begin with, after its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// A chunk of this many bytes; `None` if this version does not know its kind.
    Chunk(Option<Chunk<'a>>, usize),
    /// The bytes end inside the chunk, which has at least this many bytes.
    Incomplete(usize),
    /// No chunk begins here; [`find`] finds the next one.
    Damaged(&'static str),
}

/// Checks that `bytes` begin like a trace that this program can read.
pub fn check_header(bytes: &[u8]) -> Result<(), BlockError> {
    match bytes.first_chunk::<HEADER_BYTES>() {
        Some(head) if head[..5] == HEADER[..5] || head[..5] == HEADER_OF_MANY[..5] => Ok(()),
        Some(head) if head[..4] == HEADER[..4] => Err(BlockError::UnknownTraceVersion { version: head[4] }),
        _ => Err(BlockError::Damaged { at: 0, problem: "no trace begins here" }),
    }
}

/// The chunk at the start of `bytes`.
pub fn next(bytes: &[u8]) -> Next<'_> {
    let Some(front) = bytes.first_chunk::<FRONT_BYTES>() else { return Next::Incomplete(FRONT_BYTES) };
    let length = u32::from_le_bytes([front[1], front[2], front[3], front[4]]) as usize;
    if length > CHUNK_BYTES_MAX {
        return Next::Damaged("a chunk is longer than the limit");
    }
    let end = FRONT_BYTES + length;
    let Some(chunk) = bytes.get(..end) else { return Next::Incomplete(end) };
    match front[0] {
        SCHEMA => Next::Chunk(Some(Chunk::Schema(&chunk[FRONT_BYTES..])), end),
        BLOCK => Next::Chunk(Some(Chunk::Block(&chunk[FRONT_BYTES..])), end),
        kind if sealed::is_sealed(kind) => match sealed::read(chunk) {
            Ok(Sealed::Unknown(_)) => Next::Chunk(None, end),
            Ok(sealed) => Next::Chunk(Some(Chunk::Sealed(sealed)), end),
            Err(problem) => Next::Damaged(problem),
        },
        _ => Next::Chunk(None, end),
    }
}

/// The chunks of a trace, in order. It ends after the first error and skips kinds of a newer version.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    trace: &'a [u8],
    at: usize,
}

impl<'a> Chunks<'a> {
    /// The chunks of this trace.
    pub fn of(trace: &'a [u8]) -> Result<Self, BlockError> {
        check_header(trace)?;
        Ok(Chunks { trace, at: HEADER.len() })
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>, BlockError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.trace.len() {
            let at = self.at;
            let damaged = |problem| Some(Err(BlockError::Damaged { at, problem }));
            match next(&self.trace[at..]) {
                Next::Chunk(chunk, length) => {
                    self.at += length;
                    if let Some(chunk) = chunk {
                        return Some(Ok(chunk));
                    }
                }
                Next::Incomplete(_) => {
                    self.at = self.trace.len();
                    return damaged("a chunk of the trace is cut off");
                }
                Next::Damaged(problem) => {
                    self.at = self.trace.len();
                    return damaged(problem);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decoder, HEADER_BYTES, RowScanner, SchemaDecoder};

    fn trace() -> Vec<u8> {
        let mut bytes = Vec::new();
        begin(&mut bytes);
        put_schema(b"what", &mut bytes);
        put(77, b"of a later version", &mut bytes);
        put_block(b"", &mut bytes);
        bytes
    }

    #[test]
    fn chunks_come_in_order_and_unknown_kinds_are_passed_over() {
        let bytes = trace();
        assert_eq!(&bytes[..17], b"khzT\x01\0\0\0\x01\x04\0\0\0what");
        let chunks: Vec<_> = Chunks::of(&bytes).unwrap().map(Result::unwrap).collect();
        assert_eq!(chunks, [Chunk::Schema(b"what"), Chunk::Block(b"")]);
    }

    #[test]
    fn the_recorded_workloads_read_to_their_last_row() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fixtures/workloads");
        for name in ["idle", "compile", "netcopy", "mempressure"] {
            let bytes = std::fs::read(format!("{folder}/{name}-100hz.khzt")).unwrap();
            let (mut schema, mut decoder, mut scanner) =
                (SchemaDecoder::new(), Decoder::new(), RowScanner::new());
            let mut rows = 0;
            for chunk in Chunks::of(&bytes).unwrap() {
                match chunk.unwrap() {
                    Chunk::Schema(bytes) => schema.feed(bytes).unwrap(),
                    Chunk::Block(bytes) => {
                        assert_eq!(decoder.catch_up(bytes), Ok(bytes.len()), "{name}");
                        let mut last = None;
                        crate::stamps(bytes, |number, at| last = Some((number + 1, at))).unwrap();
                        assert_eq!(last, Some((decoder.next_row(), decoder.stamp().boot)), "{name}");
                        let scanned = scanner.feed(bytes).unwrap();
                        let (count, length, checksum) = scanner.header().unwrap().closed.unwrap();
                        assert_eq!(
                            (u64::from(count), length as usize),
                            (scanned, bytes.len() - HEADER_BYTES)
                        );
                        assert_eq!(checksum, crc32fast::hash(&bytes[HEADER_BYTES..]), "{name}");
                        assert_eq!(
                            (scanner.next_row(), scanner.stamp()),
                            (decoder.next_row(), decoder.stamp())
                        );
                        rows += scanned;
                    }
                    Chunk::Sealed(_) => panic!("{name}: a trace of one lane"),
                }
            }
            assert_eq!((scanner.unfinished(), decoder.slots()), (0, schema.series().len()), "{name}");
            assert!(
                rows > 5_000 && decoder.slots() > 250,
                "{name}: {rows} rows of {} slots",
                decoder.slots()
            );
        }
    }

    fn many() -> Vec<Sealed<'static>> {
        let head = LaneHead { lane: 7, node: "n1", name: "base", epoch: 99, period: 1_000_000 };
        vec![
            Sealed::Lane(head),
            Sealed::Schema { lane: 7, generation: 2, offset: 0, bytes: b"what" },
            Sealed::PackedSchema { lane: 7, generation: 2, offset: 4, packed: b"more" },
            Sealed::Block { lane: 7, bytes: b"a block khzC of any bytes" },
            Sealed::Lost { lane: 7, from: 10, to: 20 },
            Sealed::Note("{}"),
        ]
    }

    #[test]
    fn the_bytes_of_a_sealed_chunk_stay() {
        let mut bytes = Vec::new();
        Sealed::Lost { lane: 7, from: 10, to: 20 }.put(&mut bytes);
        let checksum = crc32fast::hash(b"\x06\x1c\0\0\0\x07\0\0\0\x0a\0\0\0\0\0\0\0\x14\0\0\0\0\0\0\0");
        assert_eq!(bytes[..9], *b"\x06\x1c\0\0\0khzC");
        assert_eq!(bytes[9..13], checksum.to_le_bytes());
        assert_eq!(bytes.len(), FRONT_BYTES + 8 + 20);
    }

    #[test]
    fn many_lanes_survive_the_way_to_bytes_and_back() {
        let mut bytes = Vec::new();
        begin_sealed("{}", &mut bytes);
        many().iter().for_each(|chunk| chunk.put(&mut bytes));
        Sealed::Unknown(60).put(&mut bytes);
        let chunks: Vec<_> = Chunks::of(&bytes).unwrap().map(Result::unwrap).collect();
        let expected = [Sealed::Note("{}")].into_iter().chain(many()).map(Chunk::Sealed);
        assert_eq!(chunks, expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_flipped_bit_is_seen_wherever_it_is_and_the_next_chunk_is_found() {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        many()[3].put(&mut first);
        many()[4].put(&mut second);
        let whole = [&first[..], &second[..]].concat();
        for bit in 0..first.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let is_seen = match next(&bytes) {
                Next::Damaged(_) | Next::Incomplete(_) => true,
                // The flip turned the kind into one that is not sealed, which a trace of many lanes does not
                // use.
                Next::Chunk(chunk, _) => bit < 8 && !matches!(chunk, Some(Chunk::Sealed(_))),
            };
            assert!(is_seen, "bit {bit}");
            let mut at = find(&bytes, 1).unwrap();
            while !matches!(next(&bytes[at..]), Next::Chunk(..)) {
                at = find(&bytes, at + 1).unwrap();
            }
            assert_eq!(next(&bytes[at..]), Next::Chunk(Some(Chunk::Sealed(many().remove(4))), second.len()));
        }
    }

    #[test]
    fn a_trace_that_is_cut_off_gives_what_is_whole_and_then_an_error() {
        let bytes = trace();
        for cut in 0..bytes.len() {
            let Ok(chunks) = Chunks::of(&bytes[..cut]) else {
                assert!(cut < HEADER.len());
                continue;
            };
            let chunks: Vec<_> = chunks.collect();
            let whole = chunks.iter().filter(|chunk| chunk.is_ok()).count();
            assert_eq!(whole, usize::from(cut >= 17), "{cut}");
            assert!(chunks.iter().rev().skip(1).all(Result::is_ok), "{cut}");
        }
        assert_eq!(
            Chunks::of(b"khzT\x03\0\0\0").unwrap_err(),
            BlockError::UnknownTraceVersion { version: 3 }
        );
    }
}
