//! The store: what it costs a hub to make rows safe, and to keep them in small space.

mod compact;
mod ingest;
mod nodes;

use crate::section::{Section, Suite};

/// The suite and its sections.
pub static SUITE: Suite = Suite {
    name: "store",
    about: "history in fixed space; needs 12 GB in the folder of temporary files",
    sections: &[
        Section {
            name: "ingest",
            seconds: (60, 15),
            about: "4,096 nodes x 300 slots into the log, a commit for each second: CPU per row, bytes",
            run: ingest::run,
        },
        Section {
            name: "compact",
            seconds: (900, 60),
            about: "an hour of 4,096 nodes x 300 and x 1,000 slots becomes columns: CPU, memory",
            run: compact::run,
        },
    ],
};
