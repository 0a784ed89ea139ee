//! `khz-bench text`: the text door with many nodes behind it, beside a bare loop that writes the same bytes and beside
//! Debian's rstatd. The sections stand in files of their own; this one only chooses among them.

mod client;
mod merge;
mod pull;
mod rstat;
mod rstatd;
mod status;

use crate::error::BenchError;
use crate::record::Record;

type Section = (&'static str, fn(&mut Record) -> Result<(), BenchError>);

/// What it measures.
pub const SECTIONS: [Section; 4] =
    [("pull", pull::run), ("merge", merge::run), ("status", status::run), ("rstat", rstatd::run)];
