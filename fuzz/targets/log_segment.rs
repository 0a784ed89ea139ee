//! A segment of the log from anywhere: read by its lists, and record by record up to where it is damaged. No block that it has
//! makes a reader panic. Checksums are not compared here (feature `fuzz`): no fuzzer would get past them.

#![no_main]

use std::fs;
use std::path::PathBuf;

use khz_block::{Decoder, Step};
use khz_model::Nanos;
use khz_store::StoreError;
use khz_store::log::LogView;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let folder = PathBuf::from(format!("/dev/shm/khz-fuzz-log-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("shared memory can be written");
    fs::write(folder.join("0000000001.log"), bytes).expect("shared memory can be written");
    for read in [LogView::of, LogView::walked] {
        let (view, damage) = read(&folder).expect("the folder can be read");
        read_all(&view, damage);
    }
});

fn read_all(view: &LogView, mut damage: Vec<StoreError>) {
    for node in view.nodes(None) {
        for block in view.blocks(&node, None, Nanos(0), Nanos(u64::MAX), &mut damage) {
            let (mut decoder, mut rest) = (Decoder::new(), &block.bytes[..]);
            while let Ok(Step::Header(length) | Step::Row(length)) = decoder.step(rest) {
                rest = &rest[length..];
            }
            let _ = block.span();
        }
    }
    assert!(damage.iter().all(|damage| !damage.to_string().is_empty()));
}
