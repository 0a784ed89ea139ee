//! Rule files and files of tests of our own, judged by promtool, too: Debian's, and that of Prometheus 3, which is built from its
//! Go module. Both must come to our verdict. Where Prometheus' own test files are at hand, their verdicts are compared, too.

#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use khz_rules::{RuleSet, TestFile};

const MODULE: &str = "github.com/prometheus/prometheus";
const VERSION: &str = "v0.316.0";

/// Debian's promtool, and that of Prometheus 3; with a reason if there is none.
fn promtools() -> Vec<Result<PathBuf, String>> {
    let debian = Path::new("/usr/bin/promtool").to_owned();
    let debian = if debian.is_file() {
        Ok(debian)
    } else {
        Err(String::from("promtool is not installed (package prometheus)"))
    };
    vec![debian, built()]
}

/// Tests that run at the same time build it once.
fn built() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("promtool");
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let program = folder.join("promtool");
    if program.is_file() {
        return Ok(program);
    }
    let output = Command::new("go")
        .args(["install", "-tags=remove_all_sd", "-ldflags=-s"])
        .arg(format!("{MODULE}/cmd/promtool@{VERSION}"))
        .env("GOBIN", &folder)
        .output()
        .map_err(|error| format!("the Go tool does not run: {error}"))?;
    match output.status.success() {
        true => Ok(program),
        false => Err(format!("promtool cannot be built: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Whether promtool accepts a file, and what it says.
fn judged(promtool: &Path, verb: &str, file: &Path) -> (bool, String) {
    let output = Command::new(promtool).args([verb, "rules"]).arg(file).output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.success(), said)
}

fn checked(file: &Path) -> (bool, String) {
    match RuleSet::load(&[file.to_owned()]) {
        Ok(set) => (true, set.warnings.to_string()),
        Err(error) => (false, error.to_string()),
    }
}

fn tested(file: &Path) -> (bool, String) {
    let ran = TestFile::load(file).and_then(|file| file.run(&|_| true));
    match ran {
        Ok(outcomes) => {
            let failures = outcomes.iter().flat_map(|outcome| &outcome.failures);
            let said: Vec<String> = failures.map(|failure| failure.problem.clone()).collect();
            (said.is_empty(), said.join("\n"))
        }
        Err(error) => (false, error.to_string()),
    }
}

/// The files of a folder whose name begins so.
fn files(folder: &Path, begin: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> =
        all.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(begin)).collect();
    all.sort();
    all
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/promtool")
}

/// The fixture that old versions judge otherwise: they know no names of other letters, and no newer keys.
fn is_new(path: &Path) -> bool {
    path.file_name().unwrap().to_string_lossy().contains("new")
}

#[test]
fn promtool_comes_to_the_same_verdict_on_rule_files() {
    let mut count = 0;
    for promtool in promtools() {
        let promtool = match promtool {
            Ok(promtool) => promtool,
            Err(reason) => {
                khz_skip::skip(reason);
                continue;
            }
        };
        let is_old = promtool.starts_with("/usr");
        let scratch =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("check-{}-{is_old}", std::process::id()));
        fs::create_dir_all(&scratch).unwrap();
        let cases = fs::read_to_string(here().join("cases.txt")).unwrap();
        for (number, case) in cases.split("\n%%").enumerate().skip(1) {
            let (title, text) = case.split_once('\n').unwrap_or((case, ""));
            let file = scratch.join(format!("{number}.yml"));
            fs::write(&file, text).unwrap();
            if is_old && title.contains("new") {
                continue;
            }
            let (ours, theirs) = (checked(&file), judged(&promtool, "check", &file));
            assert_eq!(
                ours.0,
                theirs.0,
                "{}: {title}\nours: {}\ntheirs: {}",
                promtool.display(),
                ours.1,
                theirs.1
            );
            assert_eq!(ours.0, title.contains("good"), "{title}: {}", ours.1);
            count += 1;
        }
        fs::remove_dir_all(&scratch).unwrap();
    }
    assert!(count == 0 || count > 40, "{count}");
}

#[test]
fn promtool_comes_to_the_same_verdict_on_tests() {
    for promtool in promtools() {
        let promtool = match promtool {
            Ok(promtool) => promtool,
            Err(reason) => {
                khz_skip::skip(reason);
                continue;
            }
        };
        for file in files(&here(), "test_") {
            if promtool.starts_with("/usr") && is_new(&file) {
                continue;
            }
            let (ours, theirs) = (tested(&file), judged(&promtool, "test", &file));
            assert_eq!(ours.0, theirs.0, "{}\nours: {}\ntheirs: {}", file.display(), ours.1, theirs.1);
            assert_eq!(ours.0, file.to_string_lossy().contains("good"), "{}: {}", file.display(), ours.1);
        }
    }
}

/// Prometheus' own files, run where they are.
fn module() -> Result<PathBuf, String> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", &format!("{MODULE}@{VERSION}")])
        .current_dir(std::env::temp_dir())
        .output()
        .map_err(|error| format!("the Go tool does not run: {error}"))?;
    let found: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    found["Dir"].as_str().map(PathBuf::from).ok_or_else(|| format!("{MODULE} cannot be fetched"))
}

#[test]
fn prometheus_own_files_get_the_verdict_of_promtool() {
    let (folder, promtool) = match (module(), built()) {
        (Ok(folder), Ok(promtool)) => (folder, promtool),
        (Err(reason), _) | (_, Err(reason)) => return khz_skip::skip(reason),
    };
    let mut compared = 0;
    let mut wrong = Vec::new();
    for (under, verb) in
        [("model/rulefmt/testdata", "check"), ("rules/fixtures", "check"), ("cmd/promtool/testdata", "both")]
    {
        for file in files(&folder.join(under), "") {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&file).unwrap_or_default();
            // What PromQL has here is in its own tests.
            let is_foreign = text.contains("{{schema")
                || text.contains("histogram:")
                || name.contains("experimental")
                || name.contains("features");
            if !file.is_file()
                || !(name.ends_with(".yml") || name.ends_with(".yaml"))
                || is_foreign
                || text.len() > 1 << 20
            {
                continue;
            }
            let mut verdicts = vec![("check", checked(&file))];
            if verb == "both" {
                verdicts.push(("test", tested(&file)));
            }
            for (verb, ours) in verdicts {
                let theirs = judged(&promtool, verb, &file);
                compared += 1;
                if ours.0 != theirs.0 {
                    wrong.push(format!(
                        "{verb} {name}: ours {} {}\ntheirs {} {}",
                        ours.0, ours.1, theirs.0, theirs.1
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(compared > 40, "{compared}");
}
