//! Kernel text to numbers. Each kernel file has one Rust file, with the catalogue entries beside the parser
//! that fills them. One differential parser serves all: it compares a text with the one before and parses
//! only the numbers that changed. When the layout moves, it falls back to the full parser, which walks the
//! text by field name.
//!
//! Pure: texts come in as bytes, readings go out. The crate opens no file and reads no clock.

#![deny(unsafe_code)]

pub mod bcache;
pub mod bcachefs;
pub mod bonding;
pub mod btrfs;
mod catalogue;
pub mod cgroup;
pub mod clock;
pub mod clocksource;
pub mod columns;
mod compare;
pub mod conntrack;
pub mod control_groups;
pub mod cpufreq;
pub mod description;
pub mod disk_info;
pub mod diskstats;
pub mod dmi;
pub mod edac;
pub mod entry;
pub mod exposition;
pub mod fibrechannel;
pub mod filesystem;
pub mod hung_tasks;
pub mod hwmon;
mod in_place;
pub mod infiniband;
pub mod ipvs;
pub mod isolated;
pub mod kernel_file;
pub mod kernel_values;
mod known_files;
mod layout;
pub mod loadavg;
pub mod logins;
pub mod md;
pub mod meminfo;
pub mod mountinfo;
pub mod multipath;
pub mod neighbours;
pub mod net_class;
pub mod net_dev;
pub mod nfs;
pub mod number;
pub mod nvme;
pub mod os_release;
pub mod own_source;
mod parser;
pub mod power_supply;
pub mod pressure;
pub mod processes;
pub mod protocols;
pub mod rapl;
pub mod schedstat;
pub mod selinux;
mod sink;
mod slots;
pub mod sockets;
pub mod softnet;
pub mod stat;
pub mod survey;
pub mod tape;
pub mod text;
pub mod textfile;
pub mod thermal;
pub mod throttle;
pub mod tree;
pub mod udp_queues;
pub mod uname;
pub mod uptime;
pub mod vmstat;
pub mod watchdog;
pub mod xfs;
pub mod zfs;

pub use catalogue::{catalogue, files};
pub use entry::Entry;
pub use kernel_file::{Group, KernelFile, Pieces, Subject, ValueFile};
pub use known_files::KnownFiles;
pub use parser::{Outcome, Parser};
pub use sink::{FAULTS_MAX, FaultNote, Sink};
pub use slots::SOURCE_NAMES_MAX;
