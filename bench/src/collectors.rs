//! What gathering everything costs: the default set beside node_exporter, and how surveys grow with processes and control groups.

mod crowd;
mod default_set;
mod growth;

use crate::section::{Section, Suite};

/// The suite and its sections.
pub static SUITE: Suite = Suite {
    name: "collectors",
    about: "the default set of sources",
    sections: &[
        Section {
            name: "default",
            seconds: (150, 40),
            about: "an agent at 1 Hz beside Debian's node_exporter, scraped every second: CPU a sample,\nmemory, series",
            run: default_set::run,
        },
        Section {
            name: "growth",
            seconds: (240, 60),
            about: "what a survey costs with up to 10,000 processes and 1,000 control groups (root)",
            run: growth::run,
        },
    ],
};
