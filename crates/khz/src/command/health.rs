//! `khz health`: whether this node is healthy, out of the snapshot that its agent keeps in shared memory. It asks nobody and waits for
//! nothing; only `--on-unhealthy` starts a program.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use khz_actions::{Outcome as Acted, drain_by_hand};
use khz_channel::{About, Comparison};
use khz_client::Page;
use khz_model::{Absence, Metric, Nanos, NodeName, Reading, Refresh, SeriesName, ValueType};
use khz_ring::{RingError, SNAPSHOT_FILE};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use crate::config::health::Unknown;
use crate::config::plan::RingDir;
use crate::config::{NodeFlags, Plan, ReaderFlags, places};
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::quantities::{of_span, of_value};
use crate::show::table::{json_line, printable, remark};

/// Reasons that the line has: Slurm keeps few bytes, and a condition may mean hundreds of series.
const REASONS_MAX: usize = 8;

/// Examples for `khz health --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz health                        the conditions of [health] in khz.toml
  khz health 'mem.available > 256MiB' 'load.1m < 500'
                                    these conditions, all of which must be true
  khz health --on-unhealthy out     if it is unhealthy, [actions.out] drains
                                    this node
  khz health --json                 one object, for programs

In slurm.conf: HealthCheckProgram=/usr/bin/khz-health, a script with the line
'exec khz health --on-unhealthy out'. docs/actions.md says more.

Exit codes: 0 healthy, 1 unhealthy, 2 wrong usage, 3 not known (no agent, no
such series, values too old).";

/// `khz health`.
#[derive(Debug, Args)]
pub struct HealthFlags {
    /// What must be true: SERIES < VALUE, as 'mem.available > 1GiB' [default: those of [health]].
    #[arg(value_name = "CONDITION")]
    pub conditions: Vec<String>,
    /// Values that are older are unknown [default: 10s].
    #[arg(long, value_name = "DURATION")]
    pub age: Option<Nanos>,
    /// What follows from unknown values: unknown (exit code 3), healthy, unhealthy [default: unknown].
    #[arg(long, value_name = "WORD")]
    pub unknown: Option<Unknown>,
    /// If the node is unhealthy, let this action drain it (a dry run unless its dry_run is false).
    #[arg(long, value_name = "ACTION")]
    pub on_unhealthy: Option<String>,
    /// One JSON object.
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Looks at this node.
pub fn run(flags: HealthFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = super::plan(flags.settings.over(outer))?;
    let texts = if flags.conditions.is_empty() { &plan.health.conditions } else { &flags.conditions };
    let known = khz_parse::catalogue();
    let read = |text: &String| Comparison::read(text, |metric| about(&known, metric)).map_err(Failure::usage);
    let conditions: Vec<Comparison> = texts.iter().map(read).collect::<Result<Vec<_>, _>>()?.concat();
    let drains = flags.on_unhealthy.as_ref().or(plan.health.on_unhealthy.as_ref());
    let drains = drains.map(|name| action(&plan, name)).transpose()?;
    if let Some(age) = flags.age.filter(|age| age.0 == 0) {
        return Err(Failure::usage(format!(
            "--age: '{age}' would make every value unknown; an agent writes once a second"
        )));
    }
    let age = flags.age.unwrap_or(Nanos(u64::try_from(plan.health.age.as_nanos()).unwrap_or(u64::MAX)));
    let found = match open(&plan) {
        Ok(mut page) => look(&mut page, &conditions, |condition| age_max(&known, condition, age)),
        Err(problem) => Found { unknown: vec![problem], ..Found::default() },
    };
    let verdict = found.verdict(flags.unknown.unwrap_or(plan.health.unknown));
    let reason = found.reason();
    if flags.json {
        let object = json!({
            "node": plan.node.as_str(), "health": verdict.word(), "reason": reason, "false": found.wrong,
            "unknown": found.unknown, "true": found.right,
        });
        writeln!(out, "{}", json_line(&object))?;
    } else {
        writeln!(out, "{}: {}", verdict.word(), printable(&reason))?;
    }
    out.flush()?;
    if let (Verdict::Unhealthy, Some(action)) = (verdict, drains) {
        drain(&plan, action, &reason);
    }
    match verdict {
        Verdict::Healthy => Ok(Done::Wholly),
        Verdict::Unhealthy => Err(Failure::Reported),
        Verdict::Unknown => Ok(Done::Partly { missing: Vec::new() }),
    }
}

/// What there is to know of a metric: the catalogue of this program.
fn about(known: &[Arc<Metric>], metric: &str) -> Option<About> {
    let metric = known.iter().find(|known| known.name == metric)?;
    let instances = metric.instances.as_deref().map(str::to_owned);
    Some(About {
        unit: metric.unit,
        kind: metric.kind,
        instances,
        is_labels: metric.value_type == ValueType::Labels,
    })
}

fn action<'p>(plan: &'p Plan, name: &str) -> Result<&'p khz_actions::Action, Failure> {
    let settings = &plan.actions;
    match settings.position(name).map(|at| &settings.actions[at]) {
        Some(action) if action.kind.word() == "drain" => Ok(action),
        Some(_) => Err(Failure::usage(format!("the action '{name}' does not drain"))),
        None => Err(Failure::usage(format!("the configuration has no [actions.{name}]"))),
    }
}

/// Has Slurm drain this node. What comes of it does not change the exit code: the node is unhealthy.
fn drain(plan: &Plan, action: &khz_actions::Action, reason: &str) {
    match drain_by_hand(action, plan.node.as_str(), reason) {
        Some((Acted::Done | Acted::Nothing | Acted::DryRun, text)) => remark!("{}: {text}", action.name),
        Some((outcome, text)) => remark!("{}: {}: {text}", action.name, outcome.word()),
        None => {}
    }
}

/// The snapshot of this node.
fn open(plan: &Plan) -> Result<Page, String> {
    let Some(folder) = places::rings_of(&plan.ring_dir, &plan.node) else {
        return Err("no agent has shared memory here (ring_dir is none)".to_owned());
    };
    let path = folder.join(SNAPSHOT_FILE);
    let page = match plan.ring_dir {
        RingDir::Usual if !path.exists() => elsewhere(&plan.node, &path),
        _ => Page::open(&path),
    };
    page.map_err(|error| format!("no agent: {}", crate::show::outcome::sentence(&error)))
}

/// The snapshot of an agent that runs as another user, who has a directory of his own. If it is there nowhere, the error names the
/// usual place. If nobody has given this node a name of its own, an agent that has one is this node's as well.
fn elsewhere(node: &NodeName, usual: &Path) -> Result<Page, RingError> {
    let of_node = |folder: PathBuf| folder.join(node.as_str()).join(SNAPSHOT_FILE);
    let found = khz_client::place::snapshot_dirs().into_iter().map(of_node).find(|path| path.exists());
    let is_host = rustix::system::uname().nodename().to_bytes() == node.as_str().as_bytes();
    match found {
        Some(path) => Page::open(&path),
        None if is_host => Page::local(),
        None => Page::open(usual),
    }
}

/// What was found.
#[derive(Debug, Default)]
struct Found {
    right: Vec<String>,
    wrong: Vec<String>,
    unknown: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Healthy,
    Unhealthy,
    Unknown,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Healthy => "healthy",
            Verdict::Unhealthy => "unhealthy",
            Verdict::Unknown => "unknown",
        }
    }
}

impl Found {
    /// What is false decides; then what is unknown.
    fn verdict(&self, unknown: Unknown) -> Verdict {
        match (self.wrong.is_empty(), self.unknown.is_empty(), unknown) {
            (false, ..) | (true, false, Unknown::Unhealthy) => Verdict::Unhealthy,
            (true, false, Unknown::Neither) => Verdict::Unknown,
            (true, false, Unknown::Healthy) | (true, true, _) => Verdict::Healthy,
        }
    }

    /// One line: what is false, then what is unknown.
    fn reason(&self) -> String {
        let told: Vec<&str> = self.wrong.iter().chain(&self.unknown).map(String::as_str).collect();
        let all = if told.is_empty() { self.right.iter().map(String::as_str).collect() } else { told };
        let more = all.len().saturating_sub(REASONS_MAX);
        let mut text = all[..all.len() - more].join(", ");
        if more > 0 {
            text += &format!(", and {more} more");
        }
        text
    }
}

/// How old the values of a condition may be: a value that is renewed every ten seconds is as good for ten seconds more.
fn age_max(known: &[Arc<Metric>], condition: &Comparison, age: Nanos) -> Nanos {
    let meant = known.iter().filter(|metric| condition.pattern.matches_metric(&metric.name));
    let period = |metric: &Arc<Metric>| match metric.refresh {
        Refresh::Every(period) => Some(period),
        Refresh::Event | Refresh::Constant => None,
    };
    let renewed = meant.filter_map(period).max().unwrap_or_default();
    Nanos(age.0.saturating_add(renewed.0))
}

/// Compares the latest values.
fn look(page: &mut Page, conditions: &[Comparison], age_max: impl Fn(&Comparison) -> Nanos) -> Found {
    let mut found = Found::default();
    if page.has_ended() {
        found.unknown.push("the agent has ended".to_owned());
        return found;
    }
    let now = boot_clock();
    for condition in conditions {
        let slots = select(page, condition);
        if slots.is_empty() {
            found.unknown.push(format!("{}: this node has no such series", condition.text));
        }
        let (gone, there): (Vec<u32>, Vec<u32>) = slots.into_iter().partition(|slot| is_gone(page, *slot));
        // What was removed does not count, as long as others of the same kind are there: a disk that was unplugged makes no node ill.
        for slot in if there.is_empty() { gone } else { there } {
            judge(page, slot, condition, (now, age_max(condition)), &mut found);
        }
    }
    found
}

/// Whether the instance of a slot is gone, such as a disk that was removed.
fn is_gone(page: &mut Page, slot: u32) -> bool {
    let latest = page.read(slot).ok().flatten();
    latest.is_some_and(|latest| latest.reading == Reading::Absent(Absence::InstanceGone))
}

/// The slots of a condition. Names of other metrics are not even read.
fn select(page: &mut Page, condition: &Comparison) -> Vec<u32> {
    let pattern = &condition.pattern;
    let is_meant = |name: &str| {
        let is_near = name.starts_with(pattern.metric());
        let series = is_near.then(|| SeriesName::parse(name).ok()).flatten();
        series.is_some_and(|series| pattern.matches_series(&series.metric, series.instance.as_ref()))
    };
    let names = page.names().iter().enumerate();
    names.filter(|(_, slot)| is_meant(&slot.name)).map(|(slot, _)| slot as u32).collect()
}

fn judge(
    page: &mut Page,
    slot: u32,
    condition: &Comparison,
    (now, age_max): (Nanos, Nanos),
    found: &mut Found,
) {
    let name = page
        .names()
        .get(slot as usize)
        .map(|slot| (slot.name.clone(), slot.unit.clone()))
        .unwrap_or_default();
    let name = (plain(&name.0, page), name.1);
    let mut unknown = |why: String| found.unknown.push(format!("{}: {}: {why}", condition.text, name.0));
    let latest = match page.read(slot) {
        Ok(Some(latest)) => latest,
        Ok(None) => return unknown("its value is gone".to_owned()),
        Err(error) => return unknown(error.to_string()),
    };
    let age = now.since(latest.stamp.boot);
    if age > age_max {
        let span = |age: Nanos| of_span(age.0 as f64 / 1e9);
        return unknown(format!("its value is {} old, and may be {} old", span(age), span(age_max)));
    }
    let number = match latest.format.value_or_why(latest.reading) {
        Ok(khz_model::Value::Number(number)) => number,
        Ok(_) => return unknown("it is no number".to_owned()),
        Err(why) => return unknown(why.to_string()),
    };
    let (name, unit) = &name;
    let text = format!("{name} is {}", of_value(&number.to_string(), unit.as_str()));
    match condition.holds(number.to_f64()) {
        true => found.right.push(text),
        false => found.wrong.push(format!("{text} (must be {})", condition.text)),
    }
}

/// A series as people name it: `fs.read_only[/]`. Labels are there only if several series have that name.
fn plain(name: &str, page: &mut Page) -> String {
    let short = |name: &str| {
        let series = SeriesName::parse(name).ok()?;
        let instance = series.instance.as_ref()?;
        Some(format!("{}[{}]", series.metric, instance.primary()?))
    };
    let Some(of_name) = short(name) else { return name.to_owned() };
    let metric = name.split('[').next().unwrap_or_default();
    let alike = page.names().iter().filter(|slot| slot.name.starts_with(metric));
    match alike.filter(|slot| short(&slot.name).as_deref() == Some(&*of_name)).count() {
        1 => khz_model::printable::printable(&of_name).into_owned(),
        _ => name.to_owned(),
    }
}

/// The clock of stamps.
fn boot_clock() -> Nanos {
    let now = clock_gettime(ClockId::Boottime);
    Nanos(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_never_healthy_unless_somebody_says_so() {
        let found = |wrong: usize, unknown: usize| Found {
            right: vec!["r".to_owned()],
            wrong: vec!["w".to_owned(); wrong],
            unknown: vec!["u".to_owned(); unknown],
        };
        use Unknown::{Healthy, Unhealthy};
        assert_eq!(found(0, 0).verdict(Unhealthy), Verdict::Healthy);
        assert_eq!(found(0, 1).verdict(Unknown::default()), Verdict::Unknown);
        assert_eq!(found(0, 1).verdict(Healthy), Verdict::Healthy);
        assert_eq!(found(0, 1).verdict(Unhealthy), Verdict::Unhealthy);
        assert_eq!(found(1, 1).verdict(Healthy), Verdict::Unhealthy, "what is false decides");
        assert_eq!((found(1, 1).reason(), found(0, 0).reason()), ("w, u".to_owned(), "r".to_owned()));
        assert_eq!(found(10, 9).reason(), "w, w, w, w, w, w, w, w, and 11 more");
    }
}
