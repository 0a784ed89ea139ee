//! `khz-bench hub`: the hub with thousands of nodes, beside plain TCP loops that move the same bytes. Each
//! section has its own file; this one only lists them.

mod agent;
mod bytes;
pub mod cluster;
mod drain;
mod epoll;
mod fanout;
mod floor;
mod freeze;
mod gzip;
mod hello;
mod latency;
mod nodes;
mod publisher;
mod reconnect;
mod relay;
pub mod scrape;

use crate::error::BenchError;
use crate::section::{Section, Suite};

/// The suite and its sections.
pub static SUITE: Suite = Suite {
    name: "hub",
    about: "many nodes and their hub, on one machine",
    sections: &[
        Section {
            name: "nodes",
            seconds: (780, 150),
            about: "4,096 nodes at 100 Hz and 128 at 1,000 Hz: CPU per row, memory, with TLS, readers and\nhistory",
            run: nodes::run,
        },
        Section {
            name: "usual",
            seconds: (320, 70),
            about: "1,000 nodes at 10 Hz and at 1 Hz: CPU per row, memory",
            run: nodes::usual,
        },
        Section {
            name: "wide",
            seconds: (420, 90),
            about: "4,096 nodes at 100 Hz and at 1 Hz, 1,000 nodes at 10 Hz, with 1,000 slots a row",
            run: nodes::wide,
        },
        Section {
            name: "bytes",
            seconds: (60, 60),
            about: "bytes per value and per node on the wire, at 1, 10, 100 and 1,000 Hz",
            run: bytes::run,
        },
        Section {
            name: "latency",
            seconds: (270, 30),
            about: "one node at 1,000 Hz, row by row, to a reader; beside two plain TCP hops",
            run: latency::run,
        },
        Section {
            name: "fanout",
            seconds: (420, 45),
            about: "one node at 100 Hz to 1,000 readers",
            run: fanout::run,
        },
        Section {
            name: "freeze",
            seconds: (420, 120),
            about: "freezes of 128 nodes with 20 s at 10 Hz: until all are marked, and fetched",
            run: freeze::run,
        },
        Section {
            name: "reconnect",
            seconds: (480, 170),
            about: "4,096 nodes come back after their hub was killed and started again",
            run: reconnect::run,
        },
        Section {
            name: "agent",
            seconds: (1400, 420),
            about: "an agent that sends every row to a hub, beside a bare C loop, at 1, 10, 100 and\n1,000 Hz; at 1 Hz beside one that sends, too",
            run: agent::run,
        },
        Section {
            name: "scrape",
            seconds: (820, 160),
            about: "how evenly counters grow over scrapes, every 2 s and every 15 s, beside node_exporter\n(Debian package prometheus-node-exporter)",
            run: scrape::run,
        },
        Section {
            name: "gzip",
            seconds: (10, 5),
            about: "what gzip costs a hub at a scrape of one node, and the bytes that it saves",
            run: gzip::run,
        },
    ],
};

/// Runs a helper process of this benchmark.
pub fn part(words: &[&str]) -> Result<(), BenchError> {
    match words {
        ["drain", rest @ ..] => drain::work(rest),
        ["receive"] => floor::receive(),
        ["send", rest @ ..] => floor::send(rest),
        ["relay"] => relay::work(),
        _ => Err(BenchError::Usage("no such part of the hub's benchmark".into())),
    }
}

/// Parses a word as a number.
fn number(word: &str) -> Result<u64, BenchError> {
    word.parse().map_err(|_| BenchError::Usage(format!("'{word}' is not a number")))
}
