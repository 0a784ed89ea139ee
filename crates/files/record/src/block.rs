//! One block: its rows one by one, and how an open block is closed.

use khz_block::{BlockError, Decoder, Encoder, HEADER_BYTES, Header, RowScanner, Step};
use khz_model::Nanos;

/// Gives every row of a whole block, with its number.
///
/// # Errors
/// A row does not decode, or the checksum is wrong. The rows before were given.
pub fn rows(block: &[u8], mut take: impl FnMut(u64, &Decoder)) -> Result<(), BlockError> {
    let damaged = |at, problem| BlockError::Damaged { at, problem };
    let (mut decoder, mut done) = (Decoder::new(), 0);
    while done < block.len() {
        match decoder.step(&block[done..])? {
            Step::Header(length) if done == 0 => done += length,
            Step::Header(_) => return Err(damaged(done, "a header within a block")),
            Step::Row(length) => {
                done += length;
                take(decoder.next_row() - 1, &decoder);
            }
            Step::Incomplete => return Err(damaged(done, "a row that is cut off")),
        }
    }
    match decoder.header().and_then(|header| header.closed) {
        Some((_, bytes, checksum))
            if bytes as usize != block.len() - HEADER_BYTES
                || checksum != crc32fast::hash(&block[HEADER_BYTES..]) =>
        {
            Err(damaged(0, "a block whose checksum is wrong"))
        }
        _ => Ok(()),
    }
}

/// The rows of a whole block that were gathered at this time since boot or later, as a closed block; `None`: there are none.
///
/// # Errors
/// As for [`rows`].
pub(crate) fn since(block: &[u8], boot: Nanos) -> Result<Option<Vec<u8>>, BlockError> {
    let (mut encoder, mut bytes) = (None::<Encoder>, Vec::new());
    rows(block, |number, row| {
        let reading = |slot: usize| (row.states()[slot], row.values()[slot]);
        if let Some(encoder) = &mut encoder {
            let changed = row.changed().iter().map(|&slot| slot as usize);
            return encoder.delta_row(row.stamp(), changed, reading, &mut bytes);
        }
        let Some(header) = row.header().filter(|_| row.stamp().boot >= boot) else { return };
        let mut first = Encoder::new(header.lane, header.generation, header.period);
        first.resume(number, header.generation);
        first.key_row(row.stamp(), row.slots(), reading, &mut bytes);
        encoder = Some(first);
    })?;
    let Some(header) = encoder.and_then(|mut encoder| encoder.close()) else { return Ok(None) };
    bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    Ok(Some(bytes))
}

/// The block with another header. Its rows stay; the checksum covers only them.
pub fn with_header(block: &[u8], header: &Header) -> Vec<u8> {
    [&header.to_bytes(), &block[HEADER_BYTES..]].concat()
}

/// Closes a block that was copied from a lane while the block was open: its header gets the number of rows, the bytes
/// and the checksum. `false`: it has no rows, or they are damaged.
pub fn close(block: &mut [u8]) -> bool {
    let mut scanner = RowScanner::new();
    let is_whole = scanner.feed(block).is_ok_and(|rows| rows > 0) && scanner.unfinished() == 0;
    let Some(header) = scanner.header().filter(|_| is_whole) else { return false };
    let mut header = *header;
    if header.closed.is_none() {
        let bytes = (block.len() - HEADER_BYTES) as u32;
        header.closed = Some((scanner.rows(), bytes, crc32fast::hash(&block[HEADER_BYTES..])));
        block[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    }
    true
}
