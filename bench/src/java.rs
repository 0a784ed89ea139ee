//! The gatherer on the JVM beside ours, C and OSHI, on the same files and in turns or at a fixed rate; then the benchmarks of `java/bench`
//! by JMH.

use crate::section::{Section, Suite};

mod jmh;
mod jvm;
mod ladder;
mod paced;
mod peers;
mod snapshot;
mod table;

/// The suite and its sections.
pub static SUITE: Suite = Suite {
    name: "java",
    about: "the gatherer on the JVM (needs JDK 25, Maven)",
    sections: &[
        Section {
            name: "table",
            seconds: (240, 90),
            about: "load, parse and total of the five classic files on the JVM, beside C and ours",
            run: table::run,
        },
        Section {
            name: "ladder",
            seconds: (90, 40),
            about: "the paper's ways to read /proc/meminfo, in Java",
            run: ladder::run,
        },
        Section {
            name: "paced",
            seconds: (920, 130),
            about: "the JVM at 1 to 1,000 Hz beside a C loop and ours:\nCPU, missed ticks, pauses, memory, cold start",
            run: paced::run,
        },
        Section { name: "peers", seconds: (90, 40), about: "the same values through OSHI", run: peers::run },
        Section {
            name: "snapshot",
            seconds: (80, 30),
            about: "a value out of shared memory, ns; needs root and /dev/fuse",
            run: snapshot::run,
        },
        Section {
            name: "jmh",
            seconds: (600, 150),
            about: "the benchmarks of java/bench, as JMH runs them; its figures are kept as jmh.json",
            run: jmh::run,
        },
    ],
};
