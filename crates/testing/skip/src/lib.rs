//! How a test says that it was skipped because the machine lacks something. The harness swallows what a test that passes
//! prints; so [`skip`] also appends a line to the file that `cargo xtask test` names, and xtask counts them at its end.
//! It refuses to skip where all tests are wanted (`KHZ_TEST_ALL`).

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

/// The variable with the file that collects what was skipped: `NAME<tab>REASON`, a line each.
pub const FILE: &str = "KHZ_SKIPPED_TESTS";

/// The variable that makes every skip a failure, whatever its value.
pub const ALL: &str = "KHZ_TEST_ALL";

/// Says that the test that calls is skipped, and why: what is missing. The test then returns.
///
/// # Panics
///
/// Where `KHZ_TEST_ALL` is set, and where the file cannot be written: a skip that nobody hears of is what this prevents.
#[track_caller]
pub fn skip(reason: impl Display) {
    let name = name(Location::caller());
    assert!(std::env::var_os(ALL).is_none(), "{name} would be skipped, but {ALL} is set: {reason}");
    println!("SKIPPED: {name}: {reason}");
    let Some(path) = std::env::var_os(FILE) else { return };
    let line = line(&name, &reason.to_string());
    // One write of a short line to a file that only grows: lines of tests that run at the same time stay whole.
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut f| f.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!("{FILE}={}: {error}; the skip of {name} would not be counted", path.display());
    }
}

/// The test's name within its package. The harness names the thread of a test after it, but runs a single test in the
/// main thread; there the place of the call has to do.
fn name(caller: &Location<'_>) -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| String::from("?"));
    match std::thread::current().name() {
        Some(test) if test != "main" => format!("{package} {test}"),
        _ => format!("{package} {}:{}", caller.file(), caller.line()),
    }
}

/// A line of the file, whatever the reason holds.
fn line(name: &str, reason: &str) -> String {
    let words: Vec<&str> = reason.split_whitespace().collect();
    format!("{name}\t{}\n", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Output};

    /// Runs a test of this file in a process of its own, whose environment is nobody else's.
    fn child(variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "tests::a_test_that_lacks_a_flux_capacitor", "--ignored"]);
        command.env_remove(FILE).env_remove(ALL).env("CARGO_PKG_NAME", "khz-skip");
        command.envs(variables.iter().copied()).output().unwrap()
    }

    #[test]
    #[ignore = "the other tests run it, in processes of their own"]
    fn a_test_that_lacks_a_flux_capacitor() {
        let skips = || skip("there is no flux\ncapacitor");
        // A thread with a name, as the harness gives it to a test beside others.
        std::thread::Builder::new()
            .name(String::from("tests::travels"))
            .spawn(skips)
            .unwrap()
            .join()
            .unwrap();
    }

    #[test]
    fn what_was_skipped_is_in_the_file_a_line_each() {
        let path = std::env::temp_dir().join(format!("khz-skip-{}", std::process::id()));
        for _ in 0..2 {
            assert!(child(&[(FILE, path.to_str().unwrap())]).status.success());
        }
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, "khz-skip tests::travels\tthere is no flux capacitor\n".repeat(2));
    }

    #[test]
    fn where_all_tests_are_wanted_a_skip_is_a_failure() {
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
    fn without_a_file_a_skip_only_speaks() {
        assert!(child(&[]).status.success());
    }
}
