//! The cluster as a file tree: every node's values as files that any program reads, from the page cache, as if they were
//! its own (`docs/mount.md`).
//!
//! Begin with [`Tree`]: which files there are, which are open, and what the mount subscribes to because of that, without any
//! I/O. [`Mount`] shows it to the kernel; an [`Upstream`] brings the values.

#![forbid(unsafe_code)]

mod answer;
mod attributes;
mod cluster;
mod control;
mod controls;
mod effects;
mod file;
mod first_reads;
mod handles;
mod hub_link;
mod inode;
mod interrupted;
mod kernel;
mod kernel_files;
mod layout;
mod leases;
pub mod limits;
mod mount;
mod names;
mod options;
mod page;
mod paths;
mod polls;
mod pusher;
mod roster;
#[cfg(test)]
mod sample;
mod settings;
mod state;
mod status;
mod subscriptions;
mod tables;
mod tree;
mod upstream;
mod value_files;
mod values;

pub use hub_link::HubLink;
pub use mount::{Mount, MountError, Place, detach};
pub use options::Options;
pub use tree::Tree;
pub use upstream::{Sink, Subscription, TextSubscription, Upstream};

// The names that the program still uses for them.
#[doc(hidden)]
pub use hub_link::HubLink as LinkSource;
#[doc(hidden)]
pub use upstream::Upstream as Source;
