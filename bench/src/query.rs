//! PromQL: queries that people ask, put to khz, Prometheus and VictoriaMetrics with the same samples, each on one core.

pub mod contender;
mod feed;
mod peers;
mod questions;
pub mod served;

use crate::section::{Section, Suite};

/// The suite and its sections.
pub static SUITE: Suite = Suite {
    name: "query",
    about: "PromQL beside Prometheus and VictoriaMetrics; needs 8 GB in the folder of temporary files",
    sections: &[
        Section {
            name: "weeks",
            seconds: (30, 10),
            about: "rate(x[5m]) of one series over three weeks at 1 Hz, step 5 min",
            run: questions::weeks,
        },
        Section {
            name: "cluster",
            seconds: (120, 20),
            about: "topk(10, rate(x[1m])) of 4,096 nodes over the hour up to now, step 15 s",
            run: questions::cluster,
        },
        Section {
            name: "day",
            seconds: (40, 10),
            about: "avg by (mode)(rate(x[5m])) of 128 nodes over a day at 10 s; a dashboard's thirty\nqueries at once",
            run: questions::day,
        },
    ],
};
