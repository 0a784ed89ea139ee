//! Machines under QEMU: for tests that must not happen on ours, because they set the clock or start a systemd, and for a
//! figure of eight nodes. Each is made from Debian's packages, in memory alone, and is gone afterwards. This crate is in
//! no binary that is shipped. It panics with a sentence where a test could only fail.

#![forbid(unsafe_code)]

pub mod debian;
pub mod front_end;
pub mod guest;
pub mod hub;
pub mod image;
pub mod small;
pub mod staggered;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it. Generous, since everything is emulated: it is a bound, not
/// a measurement.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks at a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The root of the checkout.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Where packages and images are kept: `guest` below the folder that cargo builds into.
pub fn folder() -> PathBuf {
    let this = std::env::current_exe().expect("the path of the running test is known");
    let target = this.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    target.map_or_else(|| root().join("target"), PathBuf::from).join("guest")
}

/// The static khz that `cargo xtask static` has built: nothing else runs on a machine without a C library.
pub fn static_khz() -> PathBuf {
    let built = folder().join("../x86_64-unknown-linux-musl/release/khz");
    let khz = std::env::var_os("KHZ_STATIC").map_or(built, PathBuf::from);
    assert!(khz.exists(), "{} is missing: `cargo xtask static` builds it", khz.display());
    khz
}

/// Waits until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "it never came to be: {what}");
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Runs a command of this machine that must succeed, and returns what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?} failed: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}
