//! `.rrd` files beside librrd and rrdcached: the sections, and the code that they share.

mod accept;
mod cgroup;
mod client;
mod course;
mod daemons;
mod disk;
mod drawn;
mod graph;
mod grow;
mod kept;
mod million;
mod pages;
mod paper;
mod pipe;
mod replay;
mod resident;
mod rounds;
mod side_by_side;
mod tree;
mod update;
mod updater;
mod way;
mod whole;

use crate::section::{Section, Suite};

/// The sections in their order.
pub static SUITE: Suite = Suite {
    name: "rrd",
    about: ".rrd files; needs rrdtool, rrdcached and librrd-dev, and 20 GB in the build folder",
    sections: &[
        Section {
            name: "update",
            seconds: (600, 60),
            about: "updates of warm files beside librrd, one core",
            run: update::run,
        },
        Section {
            name: "resident",
            seconds: (60, 30),
            about: "pages that a file holds after one update, with and without advice to the page cache",
            run: resident::run,
        },
        Section {
            name: "accept",
            seconds: (600, 60),
            about: "updates that the daemon accepts beside rrdcached, and its memory",
            run: accept::accepted,
        },
        Section {
            name: "drain",
            seconds: (480, 60),
            about: "the time until all that waits is written, beside rrdcached",
            run: accept::drained,
        },
        Section {
            name: "replay",
            seconds: (120, 60),
            about: "a million updates in the log after kill -9: first answer, all there again",
            run: replay::run,
        },
        Section {
            name: "graph",
            seconds: (300, 60),
            about: "pictures of captured commands beside rrdtool's: new process, cold, pipe mode (needs\nroot, to drop caches)",
            run: graph::run,
        },
        Section {
            name: "rounds",
            seconds: (900, 300),
            about: "200,000 files in 0.8 GiB of memory, two hours with a midnight in them (needs root, for\na cgroup)",
            run: rounds::run,
        },
        Section {
            name: "pages",
            seconds: (600, 20),
            about: "page-ins by memory: measured in a cgroup, simulated and planned (needs root)",
            run: pages::run,
        },
        Section {
            name: "million",
            seconds: (5_400, 240),
            about: "a million files in 4 GiB of memory, two hours with a midnight, a kill -9; needs\nroot, and 40 GB of disk, which it gives back",
            run: million::run,
        },
        Section {
            name: "paper",
            seconds: (6_000, 300),
            about: "the paper's 320,000 files with 10 GB of memory, each way to update them; needs\nroot and 32 GB of disk",
            run: paper::run,
        },
        Section {
            name: "grow",
            seconds: (9_000, 300),
            about: "from 160,000 to 480,000 files, until rounds no longer fit, each way; needs root and\n48 GB of disk",
            run: grow::run,
        },
    ],
};
