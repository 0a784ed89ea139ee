//! Calls cargo-mutants: in a copy of the project that stays between runs, one mutant at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Decisive;
use super::mutant::Mutant;
use crate::{step, test};

/// Longer tests wait for something that the mutant has removed. The slowest crate's tests take a minute on a
/// busy machine.
const TEST_SECONDS_MAX: &str = "300";
/// Longer builds are stuck: the first one builds everything.
const BUILD_SECONDS_MAX: &str = "1200";

/// Worlds that the simulations play: a fifth of those in the quick tests, so that a mutant takes one minute
/// and not three. If the first thirty worlds do not notice a mutant, the others hardly ever do.
const WORLDS: [(&str, &str); 2] = [("KHZ_HUB_SEEDS", "30"), ("KHZ_LINK_SEEDS", "30")];

/// Its exit codes after a complete run: all noticed, some survived, some timed out.
const DONE: [i32; 3] = [0, 2, 3];

/// Installs it if it is missing.
pub fn install() -> Result<(), String> {
    let mut version = Command::new("cargo");
    version.args(["mutants", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    match version.status().is_ok_and(|status| status.success()) {
        true => Ok(()),
        false => step::run("cargo install cargo-mutants --locked", &[], &[]),
    }
}

/// All mutants of a crate.
pub fn list(one: &Decisive, tree: &Path) -> Result<Vec<Mutant>, String> {
    let mut command = command(one, tree);
    let listed = command.args(["--list", "--json"]).stderr(Stdio::inherit()).output();
    let listed = listed.map_err(|error| format!("cannot run cargo mutants: {error}"))?;
    if !listed.status.success() {
        return Err(format!("`cargo mutants --list` failed for {} ({})", one.name, listed.status));
    }
    serde_json::from_slice(&listed.stdout)
        .map_err(|error| format!("cannot read the output of `cargo mutants --list`: {error}"))
}

/// Tests all mutants except those in `left_out`. Returns the file with the outcomes; its other output is
/// beside that file.
pub fn test(one: &Decisive, tree: &Path, left_out: &[Mutant], output: &Path) -> Result<PathBuf, String> {
    let results = output.join("mutants.out");
    leave_out(left_out, &results).map_err(|error| format!("{}: {error}", results.display()))?;
    let mut command = command(one, tree);
    command.args(["--in-place", "--no-shuffle", "--colors", "never", "--iterate"]);
    command.args(["--timeout", TEST_SECONDS_MAX, "--build-timeout", BUILD_SECONDS_MAX]);
    command.arg("--output").arg(output);
    command.arg("--").args(one.tests);
    // Unlike other builds, each one differs from the one before it by one line.
    command.env("CARGO_INCREMENTAL", "1").env("CARGO_PROFILE_DEV_DEBUG", "false");
    command.env("CARGO_TARGET_DIR", tree.with_file_name("build"));
    command.envs(test::same_cases()).envs(WORLDS);
    let status = command.status().map_err(|error| format!("cannot run cargo mutants: {error}"))?;
    match status.code() {
        Some(code) if DONE.contains(&code) => Ok(results.join("outcomes.json")),
        _ => Err(format!(
            "cargo mutants failed for {} ({status}); where the tests fail without any change, {} says why",
            one.name,
            results.join("log/baseline.log").display()
        )),
    }
}

/// Lists these mutants as noticed in an earlier run, so that they are not tested. (Its filters by expression
/// do not stop mutants that delete fields of structs, in version 27.1.)
fn leave_out(mutants: &[Mutant], results: &Path) -> Result<(), std::io::Error> {
    match fs::remove_dir_all(results) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir_all(results)?,
    }
    let names: String = mutants.iter().map(|mutant| format!("{}\n", mutant.name)).collect();
    fs::write(results.join("previously_caught.txt"), names)
}

fn command(one: &Decisive, tree: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(tree).arg("mutants").args(["--package", &format!("khz-{}", one.name)]);
    for file in one.files {
        command.args(["--file", file]);
    }
    command
}
