//! Reports that a test was skipped because the machine lacks something. The test harness hides what a passing test
//! prints. So [`skip`] also appends a line to the file that `cargo xtask test` names, and xtask counts these lines at
//! its end. With `KHZ_TEST_ALL` it refuses to skip.

#![forbid(unsafe_code)]

mod namespace;

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

pub use namespace::in_mount_namespace;

/// The variable with the path of the file of skipped tests. A line is `NAME<tab>REASON`.
pub const FILE: &str = "KHZ_SKIPPED_TESTS";

/// The variable that turns every skip into a failure, whatever its value.
pub const ALL: &str = "KHZ_TEST_ALL";

/// Reports that the calling test is skipped, and what is missing. The test then returns.
///
/// # Panics
///
/// If `KHZ_TEST_ALL` is set, or if the file cannot be written: every skip must be seen.
#[track_caller]
pub fn skip(reason: impl Display) {
    let name = name(Location::caller());
    assert!(std::env::var_os(ALL).is_none(), "{name} would be skipped, but {ALL} is set: {reason}");
    println!("SKIPPED: {name}: {reason}");
    let Some(path) = std::env::var_os(FILE) else { return };
    let line = line(&name, &reason.to_string());
    // One write of a short line in append mode: lines of tests that run at the same time do not mix.
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut f| f.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!("{FILE}={}: {error}; the skip of {name} would not be counted", path.display());
    }
}

/// The name of the package and of the test. The harness names the thread of a test after the test. A single test runs
/// in the main thread; then the place of the call replaces the name.
fn name(caller: &Location<'_>) -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| String::from("?"));
    match std::thread::current().name() {
        Some(test) if test != "main" => format!("{package} {test}"),
        _ => format!("{package} {}:{}", caller.file(), caller.line()),
    }
}

/// A line of the file. The reason may have line breaks.
fn line(name: &str, reason: &str) -> String {
    let words: Vec<&str> = reason.split_whitespace().collect();
    format!("{name}\t{}\n", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Output};

    /// Runs a test of this file in a child process with these variables.
    fn child(variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "tests::a_test_that_lacks_a_flux_capacitor", "--ignored"]);
        command.env_remove(FILE).env_remove(ALL).env("CARGO_PKG_NAME", "khz-skip");
        command.envs(variables.iter().copied()).output().unwrap()
    }

    #[test]
    #[ignore = "the other tests run it in child processes"]
    fn a_test_that_lacks_a_flux_capacitor() {
        let skips = || skip("there is no flux\ncapacitor");
        // A thread with a name, as the harness starts one when several tests run.
        std::thread::Builder::new()
            .name(String::from("tests::travels"))
            .spawn(skips)
            .unwrap()
            .join()
            .unwrap();
    }

    #[test]
    fn each_skipped_test_is_a_line_of_the_file() {
        let path = std::env::temp_dir().join(format!("khz-skip-{}", std::process::id()));
        for _ in 0..2 {
            assert!(child(&[(FILE, path.to_str().unwrap())]).status.success());
        }
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, "khz-skip tests::travels\tthere is no flux capacitor\n".repeat(2));
    }

    #[test]
    fn a_skip_fails_the_test_when_all_tests_are_required() {
        let output = child(&[(ALL, "1")]);
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            said.contains("tests::travels would be skipped") || {
                let errors = String::from_utf8_lossy(&output.stderr);
                errors.contains("tests::travels would be skipped")
            }
        );
    }

    #[test]
    fn a_file_that_cannot_be_written_fails_the_test() {
        assert!(!child(&[(FILE, "/no/such/folder/skipped")]).status.success());
    }

    #[test]
    fn without_a_file_a_skip_is_only_printed() {
        assert!(child(&[]).status.success());
    }
}
