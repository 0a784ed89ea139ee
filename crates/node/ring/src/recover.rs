//! Prepares the ring of a dead writer for the next one: it walks the blocks from tail, cuts the ring after
//! the last whole row, and closes the open block. It refuses a ring that our writer cannot have left.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_block::{Decoder, HEADER_BYTES, Header, Step};

use crate::bytes::RingBytes;
use crate::layout::{Areas, Label, word};
use crate::memory::Memory;
use crate::reader::{Entries, Reader};
use crate::writer::close_block;

/// Only files are continued.
const AREAS: Areas = Areas::FILE;

/// The state with which the next writer continues.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// The positions of the blocks, oldest first.
    pub blocks: VecDeque<u64>,
    pub head: u64,
    pub next_row: u64,
    /// The last generation.
    pub generation: u32,
    /// The generations of the blocks, oldest first, and where the blocks of each end.
    pub older: VecDeque<(u32, u64)>,
    /// The offset of the next entry in the schema area.
    pub schema_end: u64,
}

/// Prepares the ring. The error is the reason why it cannot be continued; the ring is unchanged then.
pub(crate) fn recover(memory: &Arc<Memory>, size: u64, label: &Arc<Label>) -> Result<Recovered, String> {
    let reader = Reader::new(RingBytes::Mapped(memory.clone()), AREAS, size, label.clone());
    let (tail, head) = (reader.oldest(), reader.head());
    if tail > head || head - tail > size {
        return Err(format!("tail is {tail} and head {head}, with {size} bytes of data"));
    }
    if !memory.load(AREAS.word(word::SCHEMA_MOVES), Ordering::Acquire).is_multiple_of(2) {
        return Err("its writer died while it moved schemas".into());
    }
    let (blocks, mut older) = walk(&reader, tail, head)?;
    let (schema_end, last_generation) = last_schema(memory);
    let generation = reader.generation().max(last_generation);
    if generation == u32::MAX {
        return Err("the generation number cannot grow any more".into());
    }
    let Some(&newest) = blocks.back() else {
        // A ring is empty only before its first row, or while its writer gives up its only block.
        return if head == 0 {
            Ok(Recovered { generation, schema_end, ..Recovered::default() })
        } else {
            Err("no whole block".into())
        };
    };
    let end = reread(&reader, newest)?;
    close_block(memory, AREAS.data, size, newest, &end.header);
    let set = |word: usize, value| memory.store(AREAS.word(word), value, Ordering::Release);
    set(word::HEAD, end.head);
    set(word::NEWEST, newest);
    if let Some(last) = older.back_mut() {
        last.1 = end.head;
    }
    Ok(Recovered { blocks, head: end.head, next_row: end.next_row, generation, older, schema_end })
}

/// The positions of blocks, and their generations with the end of the blocks of each.
type Walked = (VecDeque<u64>, VecDeque<(u32, u64)>);

/// Walks the blocks from tail to head. Row numbers must grow, and only the last block may be open.
fn walk(reader: &Reader, tail: u64, head: u64) -> Result<Walked, String> {
    let (mut blocks, mut generations) = (VecDeque::new(), VecDeque::<(u32, u64)>::new());
    let (mut at, mut row) = (tail, 0);
    while at < head {
        let header = reader.header(at).ok_or_else(|| format!("no block begins at {at}"))?;
        if header.first_row < row || header.lane != reader.label().number {
            return Err(format!("the block at {at} does not belong to this ring"));
        }
        blocks.push_back(at);
        let end = header.closed.map_or(head, |(_, length, _)| at + HEADER_BYTES as u64 + u64::from(length));
        match generations.back_mut() {
            Some((generation, known)) if *generation == header.generation => *known = end,
            _ => generations.push_back((header.generation, end)),
        }
        let Some((rows, ..)) = header.closed else { return Ok((blocks, generations)) };
        row = header.first_row.saturating_add(rows.into());
        at = end;
    }
    if at == head {
        Ok((blocks, generations))
    } else {
        Err(format!("a block ends at {at}, after head at {head}"))
    }
}

/// The end of the newest block.
struct End {
    header: Header,
    head: u64,
    next_row: u64,
}

/// Decodes the newest block up to its last whole row, whatever its header says: the writer may have died
/// while it closed the block.
fn reread(reader: &Reader, at: u64) -> Result<End, String> {
    let mut bytes = Vec::new();
    reader.copy(at, usize::MAX, &mut bytes).map_err(|error| error.to_string())?;
    let mut decoder = Decoder::new();
    let (mut done, mut rows) = (0, 0);
    loop {
        match decoder.step(&bytes[done..]) {
            Ok(Step::Header(length)) if done == 0 => done = length,
            Ok(Step::Row(length)) => {
                done += length;
                rows += 1;
            }
            Ok(Step::Header(_) | Step::Incomplete) => break,
            Err(_) => break,
        }
    }
    let header = Header::from_bytes(bytes.first_chunk().ok_or("its newest block is cut short")?, 0);
    let mut header = header.map_err(|error| error.to_string())?;
    if rows == 0 {
        return Err("its newest block has no whole row".into());
    }
    let body = &bytes[HEADER_BYTES..done];
    header.closed = Some((rows, body.len() as u32, crc32fast::hash(body)));
    Ok(End { header, head: at + done as u64, next_row: decoder.next_row() })
}

/// The offset of the schema area's next entry, and the last generation in the area.
fn last_schema(memory: &Arc<Memory>) -> (u64, u32) {
    let ring = RingBytes::Mapped(memory.clone());
    let complete = ring.load(AREAS.word(word::SCHEMA));
    let mut entries = Entries { bytes: &ring, area: AREAS.schema, at: 0, end: complete };
    let generation = entries.by_ref().map(|entry| entry.generation).max().unwrap_or(0);
    (entries.at, generation)
}
