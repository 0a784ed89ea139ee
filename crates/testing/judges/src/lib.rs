//! Prometheus and VictoriaMetrics as judges of tests: where they are, how they are started, killed and asked. A judge that this
//! machine lacks is `None`, with the reason; the test says that it is skipped.

#![forbid(unsafe_code)]

mod place;
mod running;

pub use place::{Kind, Lacking, find, module};
pub use running::{Judge, Samples};
