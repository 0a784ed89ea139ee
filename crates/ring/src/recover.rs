//! A ring whose writer has died is made ready for the next one: walked from tail, cut behind its last whole row,
//! its open block closed. It refuses what a writer of ours cannot have left behind.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_block::{Decoder, HEADER_BYTES, Header, Step};

use crate::layout::{Label, SCHEMA_BYTES, WORDS_AT, word};
use crate::memory::Memory;
use crate::reader::{Entries, Reader};
use crate::store::Store;
use crate::writer::close_block;

/// A new generation needs at least this part of the schema area to be free, so that it can grow.
const SCHEMA_ROOM: u64 = SCHEMA_BYTES / 4;

/// Where the next writer goes on.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// Where the blocks begin, oldest first.
    pub blocks: VecDeque<u64>,
    pub head: u64,
    pub next_row: u64,
    /// The last generation.
    pub generation: u32,
    /// Where the next entry of the schema area begins.
    pub schema_end: u64,
}

/// Makes the ring ready. The error says why it cannot be gone on with; then nothing in it was changed.
pub(crate) fn recover(memory: &Arc<Memory>, size: u64, label: &Arc<Label>) -> Result<Recovered, String> {
    let reader = Reader::new(Store::Mapped(memory.clone()), size, label.clone());
    let (tail, head) = (reader.oldest(), reader.head());
    if tail > head || head - tail > size {
        return Err(format!("tail is {tail} and head {head}, with {size} bytes of data"));
    }
    let blocks = walk(&reader, tail, head)?;
    let (schema_end, last_generation) = last_schema(memory);
    let generation = reader.generation().max(last_generation);
    if SCHEMA_BYTES - schema_end < SCHEMA_ROOM {
        return Err("no room for the schema of another generation".into());
    }
    if generation == u32::MAX {
        return Err("the generations are used up".into());
    }
    let Some(&newest) = blocks.back() else {
        // Before its first row a ring is empty; later it never is, but in the middle of giving up its only block.
        return if head == 0 {
            Ok(Recovered { generation, schema_end, ..Recovered::default() })
        } else {
            Err("no whole block".into())
        };
    };
    let end = reread(&reader, newest)?;
    close_block(memory, size, newest, &end.header);
    let set = |word: usize, value| memory.store(WORDS_AT + word as u64 * 8, value, Ordering::Release);
    set(word::HEAD, end.head);
    set(word::NEWEST, newest);
    Ok(Recovered { blocks, head: end.head, next_row: end.next_row, generation, schema_end })
}

/// Where the blocks from tail to head begin. Row numbers only grow, and only the last block may be open.
fn walk(reader: &Reader, tail: u64, head: u64) -> Result<VecDeque<u64>, String> {
    let mut blocks = VecDeque::new();
    let (mut at, mut row) = (tail, 0);
    while at < head {
        let header = reader.header(at).ok_or_else(|| format!("no block begins at {at}"))?;
        if header.first_row < row || header.lane != reader.label().number {
            return Err(format!("the block at {at} is not of this ring"));
        }
        blocks.push_back(at);
        let Some((rows, length, _)) = header.closed else { return Ok(blocks) };
        row = header.first_row.saturating_add(rows.into());
        at += HEADER_BYTES as u64 + u64::from(length);
    }
    if at == head { Ok(blocks) } else { Err(format!("a block ends at {at}, behind head at {head}")) }
}

/// How the newest block ends.
struct End {
    header: Header,
    head: u64,
    next_row: u64,
}

/// Decodes the newest block as far as it goes, whatever its header says: the writer may have died while it closed it.
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

/// Where the schema area's next entry begins, and the last generation that it has.
fn last_schema(memory: &Arc<Memory>) -> (u64, u32) {
    let store = Store::Mapped(memory.clone());
    let complete = store.load(WORDS_AT + word::SCHEMA as u64 * 8);
    let mut entries = Entries { store: &store, at: 0, end: complete };
    let generation = entries.by_ref().map(|entry| entry.generation).max().unwrap_or(0);
    (entries.at, generation)
}
