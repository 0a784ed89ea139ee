//! `khz rules show`: what each rule of some files is, and where it would be judged; or where those of a running hub are.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use khz_rules::{Group, Placement, Rule, RuleSet, duration_text, place};
use serde_json::{Value, json};

use super::refuse;
use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use crate::role::hub::judge::Gathered;
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::table::{Side, Table, cut, json_line, remark};
use crate::show::terminal;

/// Examples for `khz rules show --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz rules show                    where the rules of the hub on this machine
                                    are judged, on how many nodes
  khz rules show /etc/khz/rules     which rules the nodes judge themselves
  khz rules show disk.yml --json    one object a line";

/// Letters of a name in the table: `--json` has the whole.
const NAME_CHARS_MAX: usize = 36;

/// `khz rules show`.
#[derive(Debug, Args)]
pub struct RulesShowFlags {
    /// Rule files, or directories of them.
    #[arg(value_name = "FILE|DIR")]
    pub paths: Vec<PathBuf>,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Shows the rules of the files.
pub fn run(flags: RulesShowFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    match flags.paths.is_empty() {
        true => of_hub(flags, outer, out),
        false => of_files(flags, outer, out),
    }
}

/// Where a running hub's rules are judged.
fn of_hub(flags: RulesShowFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.settings.over(outer))?;
    let answer = flags.target.running(&plan)?.rules()?;
    let titles =
        [("GROUP", Side::Left), ("RULE", Side::Left), ("AT NODES", Side::Right), ("AT HUB", Side::Right)];
    let mut table = Table::new(&titles, 1);
    for group in &answer.data.groups {
        for rule in &group.rules {
            let counts = rule.judged.map(|judged| (judged.nodes, judged.hub));
            if flags.json {
                let object = json!({
                    "path": group.file, "group": group.name, "rule": rule.name,
                    "at_nodes": counts.map(|counts| counts.0), "at_hub": counts.map(|counts| counts.1),
                });
                writeln!(out, "{}", json_line(&object))?;
                continue;
            }
            let (nodes, hub) = match counts {
                Some((nodes, hub)) => (nodes.to_string(), hub.to_string()),
                None => (String::from("-"), String::from("all")),
            };
            table.row([group.name.clone(), rule.name.clone(), nodes, hub]);
        }
    }
    if !flags.json {
        match answer.data.groups.is_empty() {
            true => remark!("this khz has no rules in use (khz hub --rules DIR)"),
            false => out.write_all(table.render(terminal::width()).as_bytes())?,
        }
    }
    out.flush()?;
    Ok(Done::Wholly)
}

/// What the rules of files are, and where this khz as a hub would have them judged.
fn of_files(flags: RulesShowFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.settings.over(outer))?;
    let usual = (plan.rules_interval.0 / 1_000_000).cast_signed();
    let set = match RuleSet::load(&flags.paths) {
        Ok(set) => set,
        Err(error) => {
            refuse(error, flags.json, out)?;
            return Err(Failure::Reported);
        }
    };
    let gathered = Gathered::new();
    let gathers = |name: &str| gathered.has(name);
    let titles = ["RULE", "EVERY", "FOR", "JUDGED BY"].map(|title| (title, Side::Left));
    let mut table = Table::wrapping(&titles);
    for group in set.groups() {
        if !flags.json {
            table.remark(cut(&group.name, NAME_CHARS_MAX), &format!("{} (a group)", group.file));
        }
        for rule in &group.rules {
            let placement = place(group, rule, &gathers);
            match flags.json {
                true => writeln!(out, "{}", json_line(&object(group, rule, &placement, usual)))?,
                false => table.row(cells(group, rule, &placement, usual)),
            }
        }
    }
    if !flags.json {
        out.write_all(table.render(terminal::width()).as_bytes())?;
    }
    out.flush()?;
    Ok(Done::Wholly)
}

/// How often a group is judged (ms): without an interval of its own, as often as is usual.
fn interval(group: &Group, usual: i64) -> i64 {
    group.interval.unwrap_or(usual)
}

fn cells(group: &Group, rule: &Rule, placement: &Placement, usual: i64) -> [String; 4] {
    let hold = rule.alerting().map_or_else(
        || String::from("records"),
        |alerting| match alerting.hold {
            0 => String::from("at once"),
            hold => duration_text(hold),
        },
    );
    let at = match placement {
        Placement::AtNodes(_) => String::from("nodes"),
        Placement::AtHub(hub) => format!("hub: {} ({})", hub.why, hub.place),
    };
    let name = format!("  {}", cut(&rule.name, NAME_CHARS_MAX));
    [name, duration_text(interval(group, usual)), hold, at]
}

fn object(group: &Group, rule: &Rule, placement: &Placement, usual: i64) -> Value {
    let (at, why) = match placement {
        Placement::AtNodes(_) => ("nodes", Value::Null),
        Placement::AtHub(hub) => {
            ("hub", json!({ "line": hub.place.line, "column": hub.place.column, "why": hub.why }))
        }
    };
    let alerting = rule.alerting();
    json!({
        "path": &*group.file,
        "line": rule.place.line,
        "group": &*group.name,
        "rule": &*rule.name,
        "kind": if alerting.is_some() { "alert" } else { "record" },
        "expr": &*rule.expr,
        "interval": duration_text(interval(group, usual)),
        "for": alerting.map(|alerting| duration_text(alerting.hold)),
        "keep_firing_for": alerting.map(|alerting| duration_text(alerting.keep_firing)),
        "at": at,
        "reason": why,
    })
}
