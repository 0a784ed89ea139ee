//! A file of bundles from anywhere, beside a segment of the log that is whole: whatever it says of the segment's blocks, no reader
//! panics. Checksums are not compared here (feature `fuzz`): no fuzzer would get past them.

#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use khz_model::{Nanos, Pattern, RangeRequest, RangeShape, Ranges};
use khz_store::log::LogView;
use khz_store::range::RangeReader;

const SEGMENT: &[u8] = include_bytes!("../../crates/history/store/tests/golden2.log");

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let folder = PathBuf::from(format!("/dev/shm/khz-fuzz-bundles-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("shared memory can be written");
    fs::write(folder.join("0000000001.log"), SEGMENT).expect("shared memory can be written");
    fs::write(folder.join("0000000001.bundles"), bytes).expect("shared memory can be written");
    let (view, _) = LogView::of(&folder).expect("the folder can be read");
    let reader = RangeReader::new(Arc::new(()), Some(view), Arc::new(()));
    for metric in ["test.counter", "test.gauge", "test.double", "test.labels"] {
        let patterns = vec![Pattern::new(metric).expect("it is a pattern")];
        let request = RangeRequest { patterns, from: Nanos(0), to: Nanos(u64::MAX), shape: RangeShape::Rows };
        let mut answer = reader.range(request).expect("there is room");
        while let Ok(Some(_)) = answer.next() {}
    }
});
