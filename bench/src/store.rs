//! The store: what it costs a hub to make rows safe, and to keep them in small space.

mod burst;
mod compact;
pub mod folder;
mod ingest;
pub mod made_up;
pub mod memory;
pub mod nodes;
pub mod ranges;
mod remote;
pub mod restart;
mod sizes;
mod synthetic;
mod victoria;

use crate::section::{Section, Suite};

/// The suite and its sections.
pub static SUITE: Suite = Suite {
    name: "store",
    about: "history in fixed space; needs 12 GB in the folder of temporary files",
    sections: &[
        Section {
            name: "ingest",
            seconds: (120, 30),
            about: "4,096 nodes x 300 and x 1,000 slots into the log, a commit each second:\nCPU per row, bytes",
            run: ingest::run,
        },
        Section {
            name: "compact",
            seconds: (900, 60),
            about: "an hour of 4,096 nodes x 300 and x 1,000 slots becomes columns: CPU, memory",
            run: compact::run,
        },
        Section {
            name: "ranges",
            seconds: (360, 90),
            about: "three weeks of one series; the hour up to now of 4,096 nodes; others. Warm and cold",
            run: ranges::run,
        },
        Section {
            name: "restart",
            seconds: (600, 60),
            about: "500 column files and a full log: from the start to the first answer",
            run: restart::run,
        },
        Section {
            name: "burst",
            seconds: (150, 40),
            about: "a minute of 4,096 nodes at 100 Hz, 15 s with 1,000 slots: rows lost, memory",
            run: burst::run,
        },
        Section {
            name: "remote",
            seconds: (300, 60),
            about: "remote write of 4,096 nodes x 300 slots out of the log: samples a second, into\nVictoriaMetrics (Debian package victoria-metrics), if it is installed",
            run: remote::run,
        },
        Section {
            name: "sizes",
            seconds: (3_000, 420),
            about: "bytes a value: recordings of this machine, days made of them; beside\nVictoriaMetrics (Debian package victoria-metrics), if it is installed",
            run: sizes::run,
        },
    ],
};
