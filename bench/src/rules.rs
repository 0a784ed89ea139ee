//! Rules: from the row that makes one true to the receiver of its alert, what thousands of them on thousands of nodes cost the hub, and
//! how well those that khz ships foretell.

mod alert;
mod beside;
mod faults;
mod scale;
mod site;

use crate::section::{Section, Suite};

/// The suite and its sections.
pub static SUITE: Suite = Suite {
    name: "rules",
    about: "rules judged at the nodes, and how well the shipped ones foretell",
    sections: &[
        Section {
            name: "alert",
            seconds: (150, 30),
            about: "from the row that makes a rule true, or false, at a node to the request at an\nAlertmanager",
            run: alert::run,
        },
        Section {
            name: "beside",
            seconds: (900, 150),
            about: "from a fault on a node to the receiver, beside Prometheus (Debian package prometheus)\nwith the same rule every 15 s and every second",
            run: beside::run,
        },
        Section {
            name: "scale",
            seconds: (420, 120),
            about: "10,000 rules on 4,096 simulated nodes at 1 Hz: the hub's CPU and memory, beside\nno rules",
            run: scale::run,
        },
        Section {
            name: "faults",
            seconds: (900, 60),
            about: "the shipped rules over days of a simulated cluster with faults: recall, false alarms,\nlead time",
            run: faults::run,
        },
    ],
};
