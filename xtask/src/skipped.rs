//! Which tests were skipped because something is missing here. The test harness hides the output of a passing
//! test, so tests write it into a file (crate `khz-skip`); this counts it at the end.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use crate::step;

/// The environment variable that names the file; the same as in `crates/testing/skip`.
pub const VARIABLE: &str = "KHZ_SKIPPED_TESTS";

/// The file into which tests write.
pub fn file() -> PathBuf {
    step::target().join("skipped-tests")
}

/// Removes the file of an earlier run.
pub fn forget() -> Result<(), String> {
    match fs::remove_file(file()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", file().display()))
        }
        _ => Ok(()),
    }
}

/// Notes that xtask itself skips something. Where every test is required, that is an error.
pub fn note(name: &str, reason: &str) -> Result<(), String> {
    if std::env::var_os("KHZ_TEST_ALL").is_some() {
        return Err(format!("{name} would be skipped, but KHZ_TEST_ALL is set: {reason}"));
    }
    eprintln!("xtask: {name} is skipped: {reason}");
    let file = fs::OpenOptions::new().append(true).create(true).open(file());
    let written = file.and_then(|mut file| file.write_all(format!("{name}\t{reason}\n").as_bytes()));
    written.map_err(|error| format!("{}: {error}", self::file().display()))
}

/// The report about skipped tests at the end of a run.
pub fn told() -> String {
    match fs::read_to_string(file()) {
        Ok(text) => in_words(&text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => in_words(""),
        Err(error) => format!("{}: {error}; it is not known which tests were skipped\n", file().display()),
    }
}

/// The file's lines (`NAME<tab>REASON`), each once, counted.
fn in_words(lines: &str) -> String {
    let lines: BTreeSet<&str> = lines.lines().filter(|line| !line.is_empty()).collect();
    let mut text = match lines.len() {
        0 => return String::from("No test was skipped.\n"),
        1 => String::from("1 test was skipped:\n"),
        number => format!("{number} tests were skipped:\n"),
    };
    for line in lines {
        let (name, reason) = line.split_once('\t').unwrap_or((line, "it does not say why"));
        text.push_str(&format!("  {name}: {reason}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_skipped_test_is_listed_once_with_its_reason() {
        assert_eq!(in_words(""), "No test was skipped.\n");
        assert_eq!(in_words("khz a\tno ip\n"), "1 test was skipped:\n  khz a: no ip\n");
        let twice = "khz b\tno ip\nkhz a\tno mount\nkhz b\tno ip\n";
        assert_eq!(in_words(twice), "2 tests were skipped:\n  khz a: no mount\n  khz b: no ip\n");
    }

    /// A test that returns early in another way would not be counted.
    #[test]
    fn no_test_skips_itself_but_through_the_crate_that_counts() {
        let mut found = Vec::new();
        let mut folders = vec![step::root().join("crates"), step::root().join("bench/src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.ends_with("skip") {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "rs") {
                    let text = fs::read_to_string(&path).unwrap();
                    let own = ["SKIPPED: ", "\"skipped: ", "\"not tested", "KHZ_TEST_ALL"];
                    found.extend(
                        own.iter().filter(|own| text.contains(**own)).map(|own| (path.clone(), *own)),
                    );
                }
            }
        }
        assert!(found.is_empty(), "call khz_skip::skip instead: {found:?}");
    }

    #[test]
    fn xtask_and_the_tests_mean_the_same_variable() {
        let theirs = fs::read_to_string(step::root().join("crates/testing/skip/src/lib.rs")).unwrap();
        assert!(theirs.contains(&format!("pub const FILE: &str = \"{VARIABLE}\";")));
    }
}
