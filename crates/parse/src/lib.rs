//! Kernel text to numbers. One file per kernel file, its catalogue entries beside the parser that fills them,
//! and one differential engine for all: compare with the last text, parse again only the numbers that
//! changed, and fall back to the full parser, by field name, whenever the layout moved.
//!
//! Pure: texts come in as bytes, readings go out. It never opens a file and never asks for the time.

#![deny(unsafe_code)]

mod catalogue;
pub mod cgroup;
#[allow(unsafe_code)]
mod compare;
pub mod diskstats;
pub mod entry;
mod in_place;
pub mod kernel_file;
mod layout;
pub mod loadavg;
pub mod meminfo;
pub mod net_dev;
pub mod number;
mod parser;
pub mod pressure;
mod sink;
mod slots;
pub mod stat;
pub mod text;
pub mod uptime;
pub mod vmstat;

pub use catalogue::{catalogue, files};
pub use entry::Entry;
pub use kernel_file::{Group, KernelFile, Pieces};
pub use parser::{Outcome, Parser};
pub use sink::{FAULTS_MAX, FaultNote, Sink};
