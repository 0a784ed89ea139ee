//! Schemas from anywhere: refused or read, in one piece and in many alike, and what was read survives being written again.

#![no_main]

use khz_block::{BlockError, SchemaDecoder, SchemaEncoder};
use khz_model::Series;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // The first byte says how large the pieces are.
    let Some((&size, bytes)) = bytes.split_first() else { return };
    let (whole, result) = read(bytes, usize::MAX);
    let (pieces, result_in_pieces) = read(bytes, usize::from(size) + 1);
    assert_eq!(result, result_in_pieces);
    same(whole.series(), pieces.series());
    if result.is_ok() {
        assert_eq!((whole.bytes(), pieces.bytes()), (bytes.len() as u64, bytes.len() as u64));
    }
    let (again, result) = read(&write(whole.series()), usize::MAX);
    assert_eq!(result, Ok(()));
    same(whole.series(), again.series());
});

fn read(bytes: &[u8], size: usize) -> (SchemaDecoder, Result<(), BlockError>) {
    let mut decoder = SchemaDecoder::new();
    let result = bytes.chunks(size).try_for_each(|piece| decoder.feed(piece));
    if let Err(error) = &result {
        assert!(!error.to_string().is_empty());
        assert_eq!(decoder.feed(b"more").as_ref(), Err(error));
    }
    (decoder, result)
}

fn write(series: &[Series]) -> Vec<u8> {
    let (mut encoder, mut bytes) = (SchemaEncoder::new(), Vec::new());
    for series in series {
        encoder.append(series, &mut bytes).expect("what was read can be written");
    }
    assert_eq!(encoder.bytes(), bytes.len() as u64);
    bytes
}

fn same(left: &[Series], right: &[Series]) {
    let parts = |series: &[Series]| -> Vec<_> {
        series.iter().map(|series| (series.metric.clone(), series.instance.clone())).collect()
    };
    assert_eq!(parts(left), parts(right));
}
