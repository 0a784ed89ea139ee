//! `khz rules check`: reads rule files, and names everything that is wrong with them.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use khz_rules::{RuleSet, RulesError};
use serde_json::json;

use super::{Gathered, name_all, object};
use crate::show::outcome::{Done, Failure, Outcome, sentence};
use crate::show::table::{json_line, printable};

/// Examples for `khz rules check --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz rules check /etc/khz/rules    all rule files of a directory
  khz rules check a.yml b.yml --json
                                    one object a line: files, then findings";

/// `khz rules check`.
#[derive(Debug, Args)]
pub struct RulesCheckFlags {
    /// Rule files, or directories of them.
    #[arg(value_name = "FILE|DIR", required = true)]
    pub paths: Vec<PathBuf>,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// Checks the files.
pub fn run(flags: &RulesCheckFlags, out: &mut impl Write) -> Outcome {
    let mut set = match RuleSet::load(&flags.paths) {
        Ok(set) => set,
        Err(RulesError::Refused(findings)) => {
            if flags.json {
                for finding in findings.iter() {
                    writeln!(out, "{}", json_line(&object(finding)))?;
                }
            } else {
                name_all(&findings);
            }
            out.flush()?;
            return Err(Failure::Reported);
        }
        Err(error) => return Err(Failure::work(sentence(&error))),
    };
    let gathered = Gathered::new();
    set.warn_of_gathered(&|name| gathered.has(name));
    for file in &set.files {
        let (groups, rules) =
            (file.groups.len(), file.groups.iter().map(|group| group.rules.len()).sum::<usize>());
        let path = file.path.to_string_lossy();
        match flags.json {
            true => {
                writeln!(out, "{}", json_line(&json!({ "path": path, "groups": groups, "rules": rules })))?;
            }
            false => {
                let s = |count: usize| if count == 1 { "" } else { "s" };
                writeln!(
                    out,
                    "{}: {rules} rule{} in {groups} group{}",
                    printable(&path),
                    s(rules),
                    s(groups)
                )?;
            }
        }
    }
    if flags.json {
        for finding in set.warnings.iter() {
            writeln!(out, "{}", json_line(&object(finding)))?;
        }
    }
    out.flush()?;
    if !flags.json {
        name_all(&set.warnings);
    }
    Ok(Done::Wholly)
}
