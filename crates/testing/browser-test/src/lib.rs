//! What the tests of the live page share: a khz to look at, and a headless Chromium to look with. It belongs to no
//! binary that is shipped, and panics with a sentence where a test could only fail.

#![forbid(unsafe_code)]

pub mod browser;
pub mod cluster;
pub mod door;
pub mod page;
pub mod server;

use std::path::PathBuf;
use std::time::Duration;

/// How long anything may take before a test gives up on it. Generous: it is a bound, not a measurement.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The root of the checkout, where relative paths from the environment start.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The folder that cargo builds into, as told by where the running test lies: `target/debug/deps/page-…`.
pub fn target_dir() -> PathBuf {
    let this = std::env::current_exe().expect("the path of the running test is known");
    this.ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").exists())
        .map(PathBuf::from)
        .unwrap_or_else(|| root().join("target"))
}
