//! A column file from anywhere: refused or read. What it has can be asked for, and no question panics. Checksums are not
//! compared here (feature `fuzz`): no fuzzer would get past them.

#![no_main]

use khz_model::Nanos;
use khz_store::{ColumnFile, History, Key};

const EVER: (Nanos, Nanos) = (Nanos(0), Nanos(u64::MAX));
const BUCKETS: u64 = 100;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = ColumnFile::from_bytes(bytes.to_vec()) else { return };
    for damage in file.check() {
        assert!(!damage.to_string().is_empty());
    }
    let mut keys = Vec::new();
    for node in file.nodes().0 {
        let series = file.sections(&node).into_iter().flatten();
        keys.extend(series.flat_map(|section| {
            section.series().iter().map(Key::of).map(|key| (section.node.clone(), key)).collect::<Vec<_>>()
        }));
    }
    let history = History::of(vec![file]).expect("one file has one resolution");
    for (node, key) in keys.iter().take(8) {
        let _ = history.range(node, key, EVER.0, EVER.1, |_, _| {});
        let _ = history.buckets(node, key, EVER.0, EVER.1, Nanos(u64::MAX / BUCKETS));
    }
});
