//! The store: what it costs a hub to make rows safe. (More sections come with the parts that they measure.)

mod ingest;

use crate::section::{Section, Suite};

/// The suite and its sections.
pub static SUITE: Suite = Suite {
    name: "store",
    about: "history in fixed space",
    sections: &[Section {
        name: "ingest",
        seconds: (60, 15),
        about: "4,096 nodes x 300 slots into the log, a commit for each second: CPU per row, bytes",
        run: ingest::run,
    }],
};
