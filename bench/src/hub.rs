//! `khz-bench hub`: the hub with thousands of nodes, beside plain TCP loops that move the same bytes. The sections
//! stand in files of their own; this one only chooses among them.

mod agent;
mod bytes;
pub mod cluster;
mod drain;
mod epoll;
mod fanout;
mod floor;
mod hello;
mod latency;
mod nodes;
mod publisher;
mod reconnect;
mod relay;
mod scrape;

use crate::error::BenchError;
use crate::record::Record;

type Section = (&'static str, fn(&mut Record) -> Result<(), BenchError>);

/// What it measures.
pub const SECTIONS: [Section; 7] = [
    ("nodes", nodes::run),
    ("bytes", bytes::run),
    ("latency", latency::run),
    ("fanout", fanout::run),
    ("reconnect", reconnect::run),
    ("agent", agent::run),
    ("scrape", scrape::run),
];

/// What the benchmark starts of itself.
pub fn part(words: &[&str]) -> Result<(), BenchError> {
    match words {
        ["drain", rest @ ..] => drain::work(rest),
        ["receive"] => floor::receive(),
        ["send", rest @ ..] => floor::send(rest),
        ["relay"] => relay::work(),
        _ => Err(BenchError::Usage("no such part of the hub's benchmark".into())),
    }
}

/// A word that must be a number.
fn number(word: &str) -> Result<u64, BenchError> {
    word.parse().map_err(|_| BenchError::Usage(format!("'{word}' is not a number")))
}
