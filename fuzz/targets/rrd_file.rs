//! `.rrd` files from anywhere: refused with a place in the file, or read; updates of what was read change no byte after
//! its end; files of other machines are recognised or refused.

#![no_main]

use std::path::PathBuf;

use khz_rrd::file::{Access, Rrd};
use khz_rrd::rra::Function;
use khz_rrd::sample::Stamp;
use khz_rrd::update::{Failure, Options};
use khz_rrd::{Error, fetch, import, info};

/// Rows that are read: a file of a few kilobytes may claim as many as it has bytes for.
const SECONDS: i64 = 86_400;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let path = PathBuf::from(format!("/dev/shm/khz-fuzz-{}.rrd", std::process::id()));
    std::fs::write(&path, bytes).expect("a file in memory");
    match import::import(bytes, &path) {
        Ok(content) => assert!(!content.sources.is_empty()),
        Err(error) => explained(&error, bytes),
    }
    match Rrd::open(&path, Access::Write) {
        Ok(mut rrd) => use_it(&mut rrd),
        Err(error) => explained(&error, bytes),
    }
    let length = std::fs::metadata(&path).expect("it is still there").len();
    assert_eq!(length, bytes.len() as u64, "an update made the file longer");
});

fn explained(error: &Error, bytes: &[u8]) {
    assert!(!error.to_string().is_empty());
    if let Some((_, offset)) = error.place() {
        assert!(offset <= bytes.len() as u64, "{error}: at {offset}");
    }
}

fn use_it(rrd: &mut Rrd) {
    assert!(!info::describe(&rrd.header, "x").is_empty());
    let last = rrd.header.last_update();
    for function in [Function::Average, Function::Max, Function::HwPredict] {
        // It may have no such archive.
        let _ = fetch::fetch(rrd, function, last.saturating_sub(SECONDS), last, 1);
    }
    let values = ":1".repeat(rrd.header.readings());
    let options = Options {
        name: "x",
        template: None,
        skip_past: false,
        now: Stamp { seconds: 1_700_000_000, usec: 0 },
        failure: Failure::ChangesNothing,
        record: false,
    };
    for ahead in [1, 299, 301, 100_000] {
        let sample = format!("{}{values}", rrd.header.last_update().saturating_add(ahead));
        // Refused, for instance because time cannot go on.
        let _ = rrd.update(&[&sample], &options);
    }
}
