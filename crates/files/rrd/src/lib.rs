//! Real `.rrd` files: layout, arithmetic, commands and page-cache tools.
//!
//! | module | does |
//! |---|---|
//! | [`mod@file`], [`header`], [`layout`] | an open file, its header, where its parts lie |
//! | [`update`] | applies samples: [`sample`], [`pdp`] (primary points), [`cdp`] (rows), [`holt_winters`], [`rpn`] |
//! | [`create`], [`tune`], [`restore`], [`import`] | make a file, change one, make one of XML or of another machine's |
//! | [`fetch`], [`xport`], [`dump`], [`info`] | read a file |
//! | [`cli`], [`client`] | rrdtool's commands, alone or through a caching daemon |
//! | [`page_cache`], [`doctor`], [`machine`] | what the kernel keeps of files in memory, and what slows them down |
//!
//! Everything but [`mod@file`], [`page_cache`], [`doctor`], [`machine`], [`client`] and [`cli`] is pure: bytes and clock come in as
//! arguments. Results equal those of rrdtool 1.7 on x86-64 bit by bit (Holt-Winters within 1e-9). Where rrdtool is known to be
//! wrong, the module documents its own behaviour.

#![deny(unsafe_code)]

pub mod at;
pub mod cdp;
pub mod cli;
pub mod client;
pub mod content;
pub mod create;
pub mod doctor;
pub mod ds;
pub mod dump;
pub mod error;
pub mod fetch;
pub mod file;
pub mod header;
pub mod holt_winters;
pub mod import;
pub mod info;
pub mod layout;
pub mod lines;
pub mod local_time;
pub mod machine;
mod new_file;
pub mod number;
pub mod page_cache;
pub mod pdp;
pub mod prefill;
pub mod restore;
pub mod rpn;
pub mod rra;
pub mod sample;
pub mod spec;
pub mod text;
pub mod tune;
pub mod update;
pub mod xport;

pub use error::{Error, Result};
