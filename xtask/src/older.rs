//! Tests with the program of the last release on the other side. It is built once, from the history, into a folder of its
//! own below target/.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step;

/// The newest commit of the last release: the one before values could be signed, doubles or labels.
const LAST_RELEASE: &str = "b7b0d345d24a59f240531edb8ab987b1ff016c3a";

/// Builds the program where it is not there yet, and runs the tests. Without the history they are skipped, and say so.
pub fn run() -> Result<(), String> {
    let program = program(&step::target().join("last-release"))?;
    let program = program.map(|program| program.to_string_lossy().into_owned());
    let named: Vec<(&str, &str)> = program.iter().map(|program| ("KHZ_OLDER", program.as_str())).collect();
    step::run("cargo test -p khz --test older --quiet -- --include-ignored", &[], &named)
}

/// The program's path; `None` where the history is not here.
fn program(folder: &Path) -> Result<Option<PathBuf>, String> {
    let program = folder.join("build/debug/khz");
    let marked = folder.join("commit");
    let is_built = || std::fs::read_to_string(&marked).is_ok_and(|commit| commit == LAST_RELEASE);
    if program.is_file() && is_built() {
        return Ok(Some(program));
    }
    let object = format!("{LAST_RELEASE}^{{commit}}");
    let known = Command::new("git").args(["cat-file", "-e", &object]).current_dir(step::root()).output();
    if !known.is_ok_and(|known| known.status.success()) {
        return Ok(None);
    }
    let failed = |what: &str, error: std::io::Error| format!("cannot {what} {}: {error}", folder.display());
    let tree = folder.join("tree");
    if tree.exists() {
        std::fs::remove_dir_all(&tree).map_err(|error| failed("empty", error))?;
    }
    std::fs::create_dir_all(&tree).map_err(|error| failed("make", error))?;
    let words = |path: &Path| path.to_string_lossy().into_owned();
    let archive = words(&folder.join("tree.tar"));
    step::run("git archive --output", &[&archive, LAST_RELEASE], &[])?;
    step::run("tar --extract --file", &[&archive, "--directory", &words(&tree)], &[])?;
    let (manifest, target) = (words(&tree.join("Cargo.toml")), words(&folder.join("build")));
    let words = ["--manifest-path", &manifest, "--target-dir", &target];
    step::run("cargo build --locked -p khz", &words, &[])?;
    std::fs::write(&marked, LAST_RELEASE).map_err(|error| failed("write to", error))?;
    Ok(Some(program))
}
