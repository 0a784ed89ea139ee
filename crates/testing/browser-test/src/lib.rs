//! Shared by the tests of the live page: a khz that serves it, and a headless Chromium that opens it. This crate is
//! part of no shipped binary. It panics with a sentence when a test cannot go on.

#![forbid(unsafe_code)]

pub mod axe;
pub mod base64;
pub mod browser;
pub mod cluster;
pub mod demo;
pub mod door;
pub mod firefox;
mod left_over;
pub mod looks;
pub mod moving_picture;
pub mod page;
pub mod run;
pub mod server;
pub mod time_zone;

use std::path::PathBuf;
use std::time::Duration;

/// Longest wait for anything before a test fails. It is long, since it is a bound, not a measurement.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The root of the checkout. Relative paths from the environment start there.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Cargo's target folder. The running test is in it: `target/debug/deps/page-…`.
pub fn target_dir() -> PathBuf {
    let this = std::env::current_exe().expect("the path of the running test is known");
    this.ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").exists())
        .map(PathBuf::from)
        .unwrap_or_else(|| root().join("target"))
}
