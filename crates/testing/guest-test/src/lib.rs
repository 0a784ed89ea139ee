//! Virtual machines (guests) under QEMU: for tests that must not run on this machine, because they set the clock or
//! have systemd as first process, and for a figure of eight nodes. Each guest is made from Debian's packages, in memory,
//! and removed. This crate is part of no shipped binary. It panics with a sentence when a test cannot go on.

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

/// Longest wait for anything before a test fails. It is long because everything is emulated, and it is a bound, not a
/// measurement.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Pause between two checks of a condition.
const CHECK_AGAIN: Duration = Duration::from_millis(200);

/// The root of the checkout.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The folder of packages and images: `guest` below cargo's target folder.
pub fn folder() -> PathBuf {
    let this = std::env::current_exe().expect("the path of the running test is known");
    let target = this.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    target.map_or_else(|| root().join("target"), PathBuf::from).join("guest")
}

/// The static khz that `cargo xtask static` has built. Guests have no C library, so no other khz runs there.
pub fn static_khz() -> PathBuf {
    let built = folder().join("../x86_64-unknown-linux-musl/release/khz");
    let khz = std::env::var_os("KHZ_STATIC").map_or(built, PathBuf::from);
    assert!(khz.exists(), "{} is missing: `cargo xtask static` builds it", khz.display());
    khz
}

/// Waits until the condition holds. `what` names it if it never does.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain until {what}");
        std::thread::sleep(CHECK_AGAIN);
    }
}

/// Runs a command on this machine that must succeed. Returns what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?} failed: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}
