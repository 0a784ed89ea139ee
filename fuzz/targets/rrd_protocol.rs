//! Lines from anywhere to the caching daemon: each is answered as the protocol says, and none leads out of its
//! directory.

#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use khz_rrdcached::{Base, Cache, Limits, Messages, Permissions, Rules, Session};

/// Nobody writes here, so a command that waits for a write would wait for ever; and CREATE may fill a disk.
const COMMANDS: &str = "UPDATE,PENDING,FORGET,QUEUE,STATS,PING,BATCH,FETCH,FETCHBIN,INFO,FIRST,LAST,LIST,DUMP,SUSPEND,\
                        RESUME,SUSPENDALL,RESUMEALL";

/// A directory with one file, `a.rrd`.
fn directory() -> &'static PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let directory = PathBuf::from(format!("/dev/shm/khz-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory in memory");
        let file = directory.join("a.rrd").display().to_string();
        let create = ["create", &file, "-b", "1000000000", "DS:x:GAUGE:600:U:U", "RRA:AVERAGE:0.5:1:10"];
        let words: Vec<String> = create.iter().map(|word| (*word).to_owned()).collect();
        khz_rrd::cli::command(&words, &[], &mut std::io::sink()).expect("a file");
        directory
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let base = Base::new(directory(), true).expect("the directory is there");
    let cache = Cache::new(base, Limits::default(), None, false, Messages::none());
    let permissions = Permissions::parse(COMMANDS).expect("every name is a command");
    let rules = Rules { permissions, no_overwrite: true, make_directories: false };
    let mut session = Session::new(&cache, rules);
    // In two pieces, as a socket may deliver them; each piece ends with a line.
    let cut = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1).max(cut);
    let mut out = Vec::new();
    for piece in [&bytes[..cut], &bytes[cut..end]] {
        session.answer(piece, &mut out);
    }
    assert!(out.is_empty() || out.ends_with(b"\n"), "an answer without its end");
});
