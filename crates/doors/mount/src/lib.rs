//! The cluster as a file tree: every node's values as files that any program reads, from the page cache, as if they were
//! its own (`docs/mount.md`).
//!
//! Begin with [`Tree`]: which files there are, which are open, and what the mount subscribes to because of that, without any
//! I/O. [`Mount`] shows it to the kernel; an [`Upstream`] brings the values.
//!
//! | you look for | see |
//! |---|---|
//! | the routes of every request and every row | `tree.rs`, `tree/` |
//! | nodes, values, tables of `.by`, subscriptions | `cluster/` |
//! | `NODE/proc` | `kernel_files/` |
//! | `.channels` | `channels/` |
//! | open files, pages of the page cache, `poll` | `open_files/` |
//! | `.control`: settings and their language | `controls/` |
//! | the kernel's side: requests, waiting, pushing | `fuse/`, `mount.rs` |
//! | the hub's side | `upstream.rs`, `hub_link.rs` |
//! | names, inode numbers, what a path is about | `names.rs`, `inode.rs`, `paths.rs` |
//! | what has to be done outside the tree | `effects.rs` |
//! | limits | `limits.rs` |

#![forbid(unsafe_code)]

mod answer;
mod channels;
mod cluster;
mod controls;
mod effects;
mod file;
mod fuse;
mod hub_link;
mod inode;
mod kernel_files;
pub mod limits;
mod mount;
mod names;
mod open_files;
mod options;
mod paths;
#[cfg(test)]
mod sample;
mod tree;
mod upstream;

pub use hub_link::HubLink;
pub use mount::{Mount, MountError, Place, detach};
pub use options::Options;
pub use tree::Tree;
pub use upstream::{ChannelRow, ChannelSubscription, Sink, Subscription, TextSubscription, Upstream};
