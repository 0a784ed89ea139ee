//! `khz-bench mount`: the cost of reading a value from shared memory and from the mounted tree, beside local
//! files, an empty FUSE file system and a daemon at a socket, on an idle machine and a busy one; the time of a change
//! to a reader on another node, and of texts by size; the cost of the mount's process. Needs root and /dev/fuse. Each
//! section has its own file; this one only lists them.

mod answer;
mod change;
mod empty;
mod local;
mod nodes;
mod page;
mod publish;
mod read;
pub mod site;
mod throughput;
mod timed;
mod waiter;

use crate::error::BenchError;
use crate::section::{Section, Suite};

pub use site::{Class, Site};

/// The suite and its sections.
pub static SUITE: Suite = Suite {
    name: "mount",
    about: "the mounted tree and shared memory; needs root and /dev/fuse",
    sections: &[
        Section { name: "shm", seconds: (20, 5), about: "a value out of shared memory, ns", run: page::run },
        Section {
            name: "read",
            seconds: (300, 30),
            about: "a mounted value, kept open and opened each time, beside an empty FUSE file system,\n/proc/meminfo and a daemon at a socket; the first read of each new value",
            run: read::run,
        },
        Section {
            name: "throughput",
            seconds: (60, 10),
            about: "bytes a second, 64 B to 64 kB, beside memcpy",
            run: throughput::run,
        },
        Section {
            name: "change",
            seconds: (120, 35),
            about: "from a published change to readers in two mounts, with 0, 1, 4, 16 CPU hogs, normal\nand raised class",
            run: change::run,
        },
        Section {
            name: "publish",
            seconds: (120, 30),
            about: "from publishing to a reader of the tree, a number and texts of 8 B to 64 kB,\nbeside memcpy",
            run: publish::run,
        },
        Section {
            name: "local",
            seconds: (240, 40),
            about: "a local read of a pushed value, a channel file, /proc/meminfo and a daemon at a socket\nbeside 0, 1, 4, 16 CPU hogs",
            run: local::run,
        },
        Section {
            name: "nodes",
            seconds: (80, 45),
            about: "the mount's CPU with 64 nodes x 300 values x 10 Hz: unread, open, read",
            run: nodes::run,
        },
    ],
};

/// Runs a helper process of this benchmark.
pub fn part(words: &[&str]) -> Option<Result<(), BenchError>> {
    match words {
        ["answer", socket] => Some(answer::work(socket)),
        ["empty", directory] => Some(empty::work(directory)),
        ["wait", files @ ..] => Some(waiter::work(files)),
        _ => None,
    }
}
