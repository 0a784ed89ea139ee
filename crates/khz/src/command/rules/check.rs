//! `khz rules check`: reads rule files, and names everything that is wrong with them.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use khz_rules::limits::FILE_BYTES_MAX;
use khz_rules::{Finding, RuleSet, Severity};
use serde_json::json;

use super::{name_all, object, refuse};
use crate::config::NodeFlags;
use crate::role::hub::judge::Gathered;
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::table::{json_line, printable, remark};

/// Examples for `khz rules check --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz rules check /etc/khz/rules    all rule files of a directory
  khz rules check - < a.yml         standard input
  khz rules check a.yml b.yml --json
                                    one object a line: files, then findings
  khz rules check DIR --config /etc/khz/khz.toml
                                    also the names of actions (docs/actions.md)";

/// `khz rules check`.
#[derive(Debug, Args)]
pub struct RulesCheckFlags {
    /// Rule files, or directories of them; '-' alone is standard input.
    #[arg(value_name = "FILE|DIR", required = true)]
    pub paths: Vec<PathBuf>,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// Check the names of actions (khz_actions) against this configuration, too.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Checks the files.
pub fn run(flags: &RulesCheckFlags, out: &mut impl Write) -> Outcome {
    let loaded = match &flags.paths[..] {
        [path] if path.as_os_str() == "-" => RuleSet::parse(Path::new("standard input"), &standard_input()?),
        paths if paths.iter().any(|path| path.as_os_str() == "-") => {
            return Err(Failure::usage("'-' is standard input, and stands alone"));
        }
        paths => RuleSet::load(paths),
    };
    let mut set = match loaded {
        Ok(set) => set,
        Err(error) => {
            refuse(error, flags.json, out)?;
            return Err(Failure::Reported);
        }
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
    let unknown = match &flags.config {
        Some(config) => unknown_actions(&set, config)?,
        None => Vec::new(),
    };
    if flags.json {
        for finding in &unknown {
            writeln!(out, "{}", json_line(&object(finding)))?;
        }
    }
    out.flush()?;
    if !flags.json {
        name_all(&set.warnings);
        unknown.iter().for_each(|finding| remark!("{finding}"));
    }
    if unknown.is_empty() { Ok(Done::Wholly) } else { Err(Failure::Reported) }
}

/// What is on standard input, within the size of a rule file.
fn standard_input() -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let read = std::io::stdin().take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut text);
    read.map_err(|error| Failure::work(format!("cannot read standard input: {error}")))?;
    match text.len() > FILE_BYTES_MAX {
        true => Err(Failure::work(format!(
            "standard input has more than {FILE_BYTES_MAX} bytes, the limit of a rule file"
        ))),
        false => Ok(text),
    }
}

/// Names of actions that the configuration does not define.
fn unknown_actions(set: &RuleSet, config: &Path) -> Result<Vec<Finding>, Failure> {
    let flags = NodeFlags { config: Some(config.to_owned()), given: Vec::new() };
    let (_, plan) = crate::command::plan(flags)?;
    let mut findings = Vec::new();
    for rule in set.groups().flat_map(|group| group.rules.iter().map(move |rule| (group, rule))) {
        let (group, rule) = rule;
        let annotations = rule.alerting().map(|alerting| &alerting.annotations[..]).unwrap_or_default();
        let asked = annotations.iter().filter(|(name, _)| &**name == khz_actions::ANNOTATION);
        for name in asked.flat_map(|(_, template)| khz_actions::names(template.text())) {
            if plan.actions.position(name).is_none() {
                let problem = format!(
                    "alert {} asks for the action '{name}', which the configuration does not define: it has {}",
                    rule.name,
                    plan.actions.known()
                );
                let (path, place) = (PathBuf::from(&*group.file), Some(rule.place));
                findings.push(Finding { severity: Severity::Error, path, place, problem });
            }
        }
    }
    Ok(findings)
}
