//! A trace: pieces of a lane's schema and its blocks, in one file. It knows where they begin and end, and nothing of
//! what they mean.

use crate::BlockError;

/// Magic, version, three bytes of zeros.
const HEADER: [u8; 8] = *b"khzT\x01\0\0\0";
const SCHEMA: u8 = 1;
const BLOCK: u8 = 2;
/// Kind and length of a chunk.
const FRONT_BYTES: usize = 5;

/// Begins a trace.
pub fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&HEADER);
}

/// Appends the next bytes of the schema; they must stand before the first block that needs them.
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

/// A part of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// The next bytes of the schema.
    Schema(&'a [u8]),
    /// A block, from its header to its last row.
    Block(&'a [u8]),
}

/// The chunks of a trace, in order. Ends behind the first error; kinds of a newer version are passed over.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    trace: &'a [u8],
    at: usize,
}

impl<'a> Chunks<'a> {
    /// The chunks of the trace that these bytes are.
    pub fn of(trace: &'a [u8]) -> Result<Self, BlockError> {
        match trace.first_chunk::<8>() {
            Some(head) if head[..4] == HEADER[..4] && head[4] == HEADER[4] => {
                Ok(Chunks { trace, at: HEADER.len() })
            }
            Some(head) if head[..4] == HEADER[..4] => {
                Err(BlockError::UnknownTraceVersion { version: head[4] })
            }
            _ => Err(BlockError::Damaged { at: 0, problem: "no trace begins here" }),
        }
    }

    /// The next chunk, whatever its kind; `None` when it is cut off.
    fn take(&mut self) -> Option<(u8, &'a [u8])> {
        let front = self.trace[self.at..].first_chunk::<FRONT_BYTES>()?;
        let length = u32::from_le_bytes([front[1], front[2], front[3], front[4]]) as usize;
        let start = self.at + FRONT_BYTES;
        let bytes = self.trace.get(start..start.checked_add(length)?)?;
        self.at = start + length;
        Some((front[0], bytes))
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>, BlockError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.trace.len() {
            match self.take() {
                Some((SCHEMA, bytes)) => return Some(Ok(Chunk::Schema(bytes))),
                Some((BLOCK, bytes)) => return Some(Ok(Chunk::Block(bytes))),
                Some(_) => {}
                None => {
                    let at = std::mem::replace(&mut self.at, self.trace.len());
                    return Some(Err(BlockError::Damaged { at, problem: "a chunk of the trace is cut off" }));
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
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/workloads");
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
            Chunks::of(b"khzT\x02\0\0\0").unwrap_err(),
            BlockError::UnknownTraceVersion { version: 2 }
        );
    }
}
