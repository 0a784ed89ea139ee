//! cargo-mutants as it is called here: in a copy of the project that stays from run to run, one mutant at a time.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Decisive;
use super::mutant::Mutant;
use crate::{step, test};

/// Tests that take longer wait for something that the mutant has taken away. The slowest crate's take a minute on a busy
/// machine.
const TEST_SECONDS_MAX: &str = "300";
/// A build that takes longer is stuck: the first one builds everything.
const BUILD_SECONDS_MAX: &str = "1200";

/// How it ends when it has done its work: all noticed, some survived, some timed out.
const DONE: [i32; 3] = [0, 2, 3];

/// Installs it where it is missing.
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
    let mut command = command(one, tree, one.files.iter().copied());
    let listed = command.args(["--list", "--json"]).stderr(Stdio::inherit()).output();
    let listed = listed.map_err(|error| format!("cannot run cargo mutants: {error}"))?;
    if !listed.status.success() {
        return Err(format!("`cargo mutants --list` failed for {} ({})", one.name, listed.status));
    }
    serde_json::from_slice(&listed.stdout)
        .map_err(|error| format!("what `cargo mutants --list` says: {error}"))
}

/// Tests `only` these, or all but `equal`. Gives the file that says what became of them; everything else that it has
/// written lies beside it.
pub fn test(
    one: &Decisive,
    tree: &Path,
    only: Option<&[Mutant]>,
    equal: &[Mutant],
    output: &Path,
) -> Result<PathBuf, String> {
    fs::create_dir_all(output).map_err(|error| format!("{}: {error}", output.display()))?;
    // Deleted fields of structs are tried whatever the names that are asked for (cargo-mutants 27.1), so a sample names its
    // files too.
    let files: BTreeSet<&str> = match only {
        Some(only) => only.iter().map(|mutant| mutant.file.as_str()).collect(),
        None => one.files.iter().copied().collect(),
    };
    let mut command = command(one, tree, files.into_iter());
    command.args(["--in-place", "--no-shuffle", "--colors", "never"]);
    command.args(["--timeout", TEST_SECONDS_MAX, "--build-timeout", BUILD_SECONDS_MAX]);
    command.arg("--output").arg(output);
    let flag = if only.is_some() { "--re" } else { "--exclude-re" };
    for mutant in only.unwrap_or(equal) {
        command.args([flag, &mutant.pattern()]);
    }
    command.arg("--").args(one.tests);
    // Unlike the builds beside it, this one is always the same but for a line.
    command.env("CARGO_INCREMENTAL", "1").env("CARGO_PROFILE_DEV_DEBUG", "false");
    command.env("CARGO_TARGET_DIR", tree.with_file_name("build"));
    command.envs(test::same_cases());
    eprintln!(
        "\n== cargo mutants: {}, {}",
        one.name,
        only.map_or("all".into(), |only| only.len().to_string())
    );
    let status = command.status().map_err(|error| format!("cannot run cargo mutants: {error}"))?;
    match status.code() {
        Some(code) if DONE.contains(&code) => Ok(output.join("mutants.out/outcomes.json")),
        _ => Err(format!(
            "cargo mutants failed for {} ({status}); where the tests fail without any change, {} says why",
            one.name,
            output.join("mutants.out/log/baseline.log").display()
        )),
    }
}

fn command<'a>(one: &Decisive, tree: &Path, files: impl Iterator<Item = &'a str>) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(tree).arg("mutants").args(["--package", &format!("khz-{}", one.name)]);
    files.for_each(|file| {
        command.args(["--file", file]);
    });
    command
}
