//! A receiver checks and cuts closed blocks with this file: it reads their rows and the times of the rows, and removes some rows from
//! a block. It knows no lane.

use khz_block::{Decoder, Encoder, HEADER_BYTES, Header, RowScanner, Step};
use khz_model::Stamp;

use crate::error::Reject;
use crate::ranges::Ranges;
use crate::span::Span;

/// First row and number of rows of a closed block whose checksum is right.
pub(crate) fn check(bytes: &[u8]) -> Result<(u64, u64), Reject> {
    let header = bytes.first_chunk().and_then(|head| Header::from_bytes(head, 0).ok());
    let Some(header) = header else { return Err(Reject::protocol("a closed block without a header")) };
    let Some((rows, length, crc)) = header.closed else {
        return Err(Reject::protocol("a block of the past that is still open"));
    };
    let body = &bytes[HEADER_BYTES..];
    if body.len() != length as usize || crc32fast::hash(body) != crc {
        return Err(Reject::protocol("a block whose checksum is wrong"));
    }
    Ok((header.first_row, rows.into()))
}

/// When the first and the last row of a sound block were gathered.
pub(crate) fn span_of(bytes: &[u8]) -> Option<Span> {
    let first = Header::from_bytes(bytes.first_chunk()?, 0).ok()?.stamp;
    let mut scanner = RowScanner::new();
    scanner.feed(bytes).ok()?;
    (scanner.rows() > 0).then(|| Span { first, last: scanner.stamp() })
}

/// Consecutive rows of a block, as a closed block of their own.
pub(crate) struct Part {
    /// The number of the first row.
    pub first: u64,
    /// The number after the last one.
    pub end: u64,
    /// The block.
    pub bytes: Vec<u8>,
}

/// The rows of a closed block that are not among these, as closed blocks. If rows were copied out of a ring twice, a caller gets each
/// row once: a block that was open at the first copy is longer at the second.
pub fn without_rows(bytes: &[u8], have: &Ranges) -> Vec<Vec<u8>> {
    let parts = parts_without(bytes, |row, _| have.contains(row));
    parts.into_iter().map(|part| part.bytes).collect()
}

/// The rows of a closed block for which `is_left_out` is false, as closed blocks.
pub(crate) fn parts_without(bytes: &[u8], is_left_out: impl Fn(u64, Stamp) -> bool) -> Vec<Part> {
    let (mut parts, mut open) = (Vec::new(), None::<(Encoder, Part)>);
    let (mut decoder, mut rest) = (Decoder::new(), bytes);
    let Some(header) = bytes.first_chunk().and_then(|head| Header::from_bytes(head, 0).ok()) else {
        return parts;
    };
    while let Ok(step @ (Step::Header(length) | Step::Row(length))) = decoder.step(rest) {
        rest = &rest[length..];
        let Some(row) = decoder.next_row().checked_sub(1).filter(|_| matches!(step, Step::Row(_))) else {
            continue;
        };
        let stamp = decoder.stamp();
        if is_left_out(row, stamp) {
            parts.extend(open.take().and_then(close));
            continue;
        }
        let reading = |slot: usize| (decoder.states()[slot], decoder.values()[slot]);
        match &mut open {
            Some((encoder, part)) => {
                let changed = decoder.changed().iter().map(|&slot| slot as usize);
                encoder.delta_row(stamp, changed, reading, &mut part.bytes);
                part.end = row + 1;
            }
            None => {
                let mut part = Part { first: row, end: row + 1, bytes: Vec::new() };
                let mut encoder = Encoder::new(header.lane, header.generation, header.period);
                encoder.resume(row, header.generation);
                encoder.key_row(stamp, decoder.slots(), reading, &mut part.bytes);
                open = Some((encoder, part));
            }
        }
    }
    parts.extend(open.take().and_then(close));
    parts
}

fn close((mut encoder, mut part): (Encoder, Part)) -> Option<Part> {
    part.bytes[..HEADER_BYTES].copy_from_slice(&encoder.close()?.to_bytes());
    Some(part)
}

#[cfg(test)]
mod tests {
    use khz_model::Nanos;

    use super::*;

    /// The number and the value of each row.
    fn rows(bytes: &[u8]) -> Vec<(u64, u64)> {
        let (mut decoder, mut rest, mut rows) = (Decoder::new(), bytes, Vec::new());
        while let Ok(step @ (Step::Header(length) | Step::Row(length))) = decoder.step(rest) {
            rest = &rest[length..];
            if matches!(step, Step::Row(_)) {
                rows.push((decoder.next_row() - 1, decoder.values()[0]));
            }
        }
        rows
    }

    #[test]
    fn without_some_rows_a_block_is_one_sound_block_for_each_stretch_of_the_others() {
        let (mut encoder, mut bytes) = (Encoder::new(3, 9, Nanos::SECOND), Vec::new());
        encoder.resume(10, 9);
        for row in 10..20 {
            let stamp = Stamp { boot: Nanos::from_secs(row), real_offset: 0 };
            match row == 10 {
                true => encoder.key_row(stamp, 1, |_| (0, row / 4), &mut bytes),
                // Some rows have no change.
                false => encoder.delta_row(stamp, 0..usize::from(row % 4 == 0), |_| (0, row / 4), &mut bytes),
            }
        }
        bytes[..HEADER_BYTES].copy_from_slice(&encoder.close().expect("rows").to_bytes());
        for (left_out, stretches) in [
            (vec![], vec![(10, 20)]),
            (vec![10, 13, 14, 19], vec![(11, 13), (15, 19)]),
            (vec![11, 18], vec![(10, 11), (12, 18), (19, 20)]),
            ((10..20).collect(), vec![]),
        ] {
            let parts =
                parts_without(&bytes, |_, stamp| left_out.contains(&(stamp.boot.0 / Nanos::SECOND.0)));
            let found: Vec<_> = parts.iter().map(|part| (part.first, part.end)).collect();
            assert_eq!(found, stretches);
            for Part { first, end, bytes } in parts {
                assert_eq!(check(&bytes), Ok((first, end - first)));
                let span = span_of(&bytes).expect("rows");
                let times = [span.first, span.last].map(|stamp| stamp.boot);
                assert_eq!(times, [first, end - 1].map(Nanos::from_secs));
                assert_eq!(rows(&bytes), (first..end).map(|row| (row, row / 4)).collect::<Vec<_>>());
                let header = Header::from_bytes(bytes.first_chunk().expect("a header"), 0).expect("a header");
                assert_eq!((header.lane, header.generation), (3, 9));
            }
        }
    }
}
