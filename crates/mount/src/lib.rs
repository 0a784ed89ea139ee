//! The cluster as a file tree: every node's values as files that any program reads, from the page cache, as if they
//! were its own (`docs/mount.md`). [`Tree`] is what there is and who wants what, without any I/O; [`Mount`] shows it to
//! the kernel; a [`Source`] brings the values.

#![forbid(unsafe_code)]

mod attributes;
mod control;
mod inode;
mod interrupted;
mod kernel;
mod layout;
pub mod limits;
mod link_source;
mod mount;
mod names;
mod pusher;
#[cfg(test)]
mod sample;
mod settings;
mod source;
mod state;
mod tree;

pub use link_source::LinkSource;
pub use mount::{Mount, MountError, Place, detach};
pub use source::{Sink, Source, TextWish, Wish};
pub use tree::{Options, Tree};
