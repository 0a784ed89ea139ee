//! `khz rules`: checks rule files of Prometheus, runs their tests, and shows where each rule would be judged and how good it is; has a
//! hub load its rule files again.

mod check;
mod reload;
mod score;
mod show;
mod test;

use std::io::Write;

use clap::Subcommand;
use khz_model::printable::printable_lines;
use khz_rules::{Finding, Findings, RulesError, Severity};
use serde_json::{Value, json};

use crate::config::NodeFlags;
use crate::show::outcome::{Failure, Outcome, sentence};
use crate::show::table::{json_line, on_stderr, remark};

/// `khz rules`.
#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// Check rule files: names, durations, labels, expressions, templates.
    ///
    /// Of a directory all files are checked that end in .yml, .yaml or .rules. Each error is named with its file, line and
    /// column. What is only probably wrong is a warning, and does not fail.
    #[command(after_help = check::EXAMPLES)]
    Check(check::RulesCheckFlags),
    /// Run tests of rules, in the format of `promtool test rules`.
    #[command(after_help = test::EXAMPLES)]
    Test(test::RulesTestFlags),
    /// Show each rule: how often it is evaluated, and where, at the nodes or at the hub, and why.
    ///
    /// Without files, a running hub says on how many nodes its rules are judged by these themselves.
    #[command(after_help = show::EXAMPLES)]
    Show(show::RulesShowFlags),
    /// Show how good each alerting rule is as a warning: what became of the nodes that it fired at, and how much earlier it fired.
    #[command(after_help = score::EXAMPLES)]
    Score(score::RulesScoreFlags),
    /// Have a hub load its rule files again (as SIGHUP does). If one has an error, those before stay in use.
    #[command(after_help = reload::EXAMPLES)]
    Reload(reload::RulesReloadFlags),
}

/// Runs one of them.
pub fn run(command: RulesCommand, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    match command {
        RulesCommand::Check(flags) => check::run(&flags, out),
        RulesCommand::Test(flags) => test::run(&flags, out),
        RulesCommand::Show(flags) => show::run(flags, outer, out),
        RulesCommand::Score(flags) => score::run(flags, outer, out),
        RulesCommand::Reload(flags) => reload::run(flags, outer, out),
    }
}

/// Names all findings on stderr. Lines begin with the place, as those of compilers do: editors go there.
fn name_all(findings: &Findings) {
    for finding in findings.iter() {
        on_stderr(&format!("{}\n", printable_lines(&finding.to_string())));
    }
    if findings.more > 0 {
        remark!("and {} more", findings.more);
    }
}

/// Says why rules or tests are refused: with `as_json` one object for each finding, else in words on stderr.
fn refuse(error: RulesError, as_json: bool, out: &mut impl Write) -> Result<(), Failure> {
    match (error, as_json) {
        (RulesError::Refused(findings), true) => {
            for finding in findings.iter() {
                writeln!(out, "{}", json_line(&object(finding)))?;
            }
        }
        (RulesError::Refused(findings), false) => name_all(&findings),
        // It is about no file.
        (error, true) => {
            let none = Value::Null;
            let object = json!({
                "severity": "error", "path": none, "line": none, "column": none, "problem": sentence(&error),
            });
            writeln!(out, "{}", json_line(&object))?;
        }
        (error, false) => remark!("{}", sentence(&error)),
    }
    out.flush()?;
    Ok(())
}

/// A finding for programs.
fn object(finding: &Finding) -> Value {
    json!({
        "severity": if finding.severity == Severity::Error { "error" } else { "warning" },
        "path": finding.path.to_string_lossy(),
        "line": finding.place.map(|place| place.line),
        "column": finding.place.map(|place| place.column),
        "problem": finding.problem,
    })
}
