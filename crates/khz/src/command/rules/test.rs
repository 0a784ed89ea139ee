//! `khz rules test`: runs files of tests, and says what is not as expected.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use khz_rules::{TestFile, TestOutcome};
use serde_json::json;

use super::{name_all, refuse};
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::table::{json_line, printable, remark};

/// Examples for `khz rules test --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz rules test disk_test.yml      all tests of a file
  khz rules test *_test.yml --run full
                                    tests whose name contains this text";

/// `khz rules test`.
#[derive(Debug, Args)]
pub struct RulesTestFlags {
    /// Files of tests; each names its rule files.
    #[arg(value_name = "FILE", required = true)]
    pub paths: Vec<PathBuf>,
    /// Run only tests whose name has this text in it; several: any of them.
    #[arg(long, value_name = "TEXT")]
    pub run: Vec<String>,
    /// One JSON object a line: each test.
    #[arg(long)]
    pub json: bool,
}

/// Runs the tests of all files.
pub fn run(flags: &RulesTestFlags, out: &mut impl Write) -> Outcome {
    let passes =
        |name: &str| flags.run.is_empty() || flags.run.iter().any(|text| name.contains(text.as_str()));
    let (mut tests, mut failed, mut broken) = (0, 0, 0);
    for path in &flags.paths {
        let ran = TestFile::load(path).and_then(|file| {
            if !flags.json {
                name_all(&file.warnings);
            }
            file.run(&passes)
        });
        match ran {
            Ok(outcomes) => {
                tests += outcomes.len();
                failed += outcomes.iter().filter(|outcome| !outcome.failures.is_empty()).count();
                for outcome in &outcomes {
                    print(path, outcome, flags.json, out)?;
                }
            }
            Err(error) => {
                broken += 1;
                refuse(error, flags.json, out)?;
            }
        }
    }
    out.flush()?;
    match (broken, failed, tests) {
        (0, 0, 0) if !flags.run.is_empty() => {
            let texts: Vec<String> = flags.run.iter().map(|text| format!("'{}'", printable(text))).collect();
            Err(Failure::work(format!("no test has a name with {}", texts.join(" or "))))
        }
        (0, 0, 0) => {
            remark!("there are no tests in these files");
            Ok(Done::Wholly)
        }
        (0, 0, _) => Ok(Done::Wholly),
        (0, failed, tests) => Err(Failure::work(format!("{failed} of {tests} tests failed"))),
        _ => Err(Failure::Reported),
    }
}

fn print(path: &Path, outcome: &TestOutcome, as_json: bool, out: &mut impl Write) -> Result<(), Failure> {
    let path = path.to_string_lossy();
    if as_json {
        let failures = outcome.failures.iter().map(|failure| {
            json!({ "line": failure.place.line, "column": failure.place.column, "problem": failure.problem })
        });
        let failures: Vec<_> = failures.collect();
        let object = json!({
            "path": path,
            "test": outcome.name,
            "line": outcome.place.line,
            "passed": failures.is_empty(),
            "failures": failures,
        });
        writeln!(out, "{}", json_line(&object))?;
        return Ok(());
    }
    let word = if outcome.failures.is_empty() { "passed" } else { "FAILED" };
    writeln!(out, "{}: {}: {word}", printable(&path), printable(&outcome.name))?;
    for failure in &outcome.failures {
        let lines: Vec<String> = failure.problem.lines().map(printable).collect();
        writeln!(out, "  {}:{}: {}", printable(&path), failure.place, lines.join("\n  "))?;
    }
    Ok(())
}
