//! Rows counted without decoding them: in pieces as in one, and as the decoder counts them for as long as it goes on.

#![no_main]

use khz_block::{Decoder, RowScanner, Step};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // The first byte says how large the pieces are.
    let Some((&size, bytes)) = bytes.split_first() else { return };
    let (mut whole, mut pieces) = (RowScanner::new(), RowScanner::new());
    let rows = whole.feed(bytes);
    let rows_in_pieces = bytes
        .chunks(usize::from(size) + 1)
        .try_fold(0, |sum, piece| Ok::<_, ()>(sum + pieces.feed(piece).map_err(drop)?));
    assert_eq!(rows.clone().map_err(drop), rows_in_pieces);
    let (mut decoder, mut at, mut decoded) = (Decoder::new(), 0, 0);
    let fits = loop {
        match decoder.step(&bytes[at..]) {
            Ok(Step::Header(length)) => at += length,
            Ok(Step::Row(length)) => {
                at += length;
                decoded += 1;
            }
            Ok(Step::Incomplete) => break true,
            Err(_) => break false,
        }
    };
    // The scanner does not look at entries, so it may go on where the decoder cannot. The other way it only refuses
    // the beginning of a row whose end the decoder still waits for.
    if fits && (rows.is_ok() || at == bytes.len()) {
        assert_eq!(rows, Ok(decoded));
        for scanner in [&whole, &pieces] {
            assert_eq!((scanner.next_row(), scanner.stamp()), (decoder.next_row(), decoder.stamp()));
            assert_eq!((scanner.header(), scanner.unfinished()), (decoder.header(), bytes.len() - at));
        }
        let mut fast = Decoder::new();
        assert_eq!(fast.catch_up(bytes), Ok(at));
        assert!((0..decoder.slots()).all(|slot| fast.reading(slot) == decoder.reading(slot)));
    }
});
