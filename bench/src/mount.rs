//! `khz-bench mount`: what a value costs who reads it, out of shared memory and out of the mounted tree, beside local
//! files, an empty FUSE file system and a daemon at a socket; how long a change takes to a reader on another node; what
//! the mount's process costs. Needs root and /dev/fuse. The sections stand in files of their own; this one only
//! chooses among them.

mod answer;
mod change;
mod empty;
mod nodes;
mod page;
mod read;
mod site;
mod throughput;
mod timed;
mod waiter;

use crate::error::BenchError;
use crate::record::Record;

pub use site::{Class, Site};

type Section = (&'static str, fn(&mut Record) -> Result<(), BenchError>);

/// What it measures.
pub const SECTIONS: [Section; 5] = [
    ("shm", page::run),
    ("read", read::run),
    ("throughput", throughput::run),
    ("change", change::run),
    ("nodes", nodes::run),
];

/// What the benchmark starts of itself.
pub fn part(words: &[&str]) -> Option<Result<(), BenchError>> {
    match words {
        ["answer", socket] => Some(answer::work(socket)),
        ["empty", directory] => Some(empty::work(directory)),
        ["wait", files @ ..] => Some(waiter::work(files)),
        _ => None,
    }
}
