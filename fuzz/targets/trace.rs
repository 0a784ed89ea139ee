//! Traces from anywhere: their chunks lie inside of them, and what stands in the chunks is read or refused.

#![no_main]

use khz_block::trace::{Chunk, Chunks, Next};
use khz_block::{Decoder, SchemaDecoder};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(chunks) = Chunks::of(bytes) else { return };
    let (mut schema, mut decoder, mut held) = (SchemaDecoder::new(), Decoder::new(), 0);
    for chunk in chunks {
        match chunk {
            Ok(Chunk::Schema(bytes)) => {
                held += bytes.len();
                let _ = schema.feed(bytes); // refusing is as good as reading
            }
            Ok(Chunk::Block(bytes)) => {
                held += bytes.len();
                let _ = decoder.catch_up(bytes);
            }
            Ok(Chunk::Sealed(sealed)) => {
                // What is read says the same when it is written again.
                let mut again = Vec::new();
                sealed.put(&mut again);
                let read = khz_block::trace::next(&again);
                assert_eq!(read, Next::Chunk(Some(Chunk::Sealed(sealed)), again.len()));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert!(held < bytes.len());
});
