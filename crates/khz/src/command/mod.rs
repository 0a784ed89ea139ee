//! The subcommands: each file or folder has the flags of one command, its examples and how it runs.

pub mod catalog;
pub mod certs;
pub mod check;
pub mod config;
pub mod correlate;
pub mod export;
pub mod get;
pub mod man;
pub mod mount;
pub mod nodes;
pub mod plot;
pub mod publish;
pub mod record;
pub mod recording;
pub mod recording_flags;
pub mod ring;
pub mod rrd;
pub mod simulate;
pub mod target;
pub mod this_node;
pub mod watch;
