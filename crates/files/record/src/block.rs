//! One block: its rows one by one, and how an open block is closed.

use khz_block::{BlockError, Decoder, HEADER_BYTES, RowScanner, Step};

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

/// Closes a block that was copied out of a lane while it was open: its header gets the number of rows, the bytes and the
/// checksum. `false`: it has no rows, or they are damaged.
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
