//! Tries every source once and all of them together: what `khz check` reports.

use std::path::Path;

use khz_gather::{SourcePlan, SourceReport};
use khz_model::{Absence, Fault, Nanos, Rate, Reading};
use khz_parse::own_source::is_own;
use khz_parse::textfile;

use super::together::{Paced, Together};
use super::wanted::Wanted;
use super::{Finding, Found, HeldBack, Missing, SourceCost, privileges};
use crate::config::Plan;
use crate::role::apart;
use crate::role::gatherer::{gather_plan, rate_of, source_plans};
use crate::role::trial::{Trial, trial};
use crate::show::outcome::Failure;

/// Tries each source that is wanted: what it holds, and what it costs. Then finds the highest rate for all of
/// them together.
pub fn probe(plan: &Plan, wanted: &Wanted) -> Result<Found, Failure> {
    let mut planned = source_plans(plan);
    let is_selected = |file: &khz_parse::KernelFile| wanted.refresh_of(file).is_some();
    planned.retain(|source| is_selected(source.file));
    // A captured host has the files that somebody could read.
    let is_root = rustix::process::geteuid().is_root() || plan.root != Path::new("/");
    let cost = |report: SourceReport| {
        let source = planned.iter().find(|source| source.file.name == report.name);
        let as_root = privileges::more(report.name, is_root);
        let is_own = plan.sources.known.named(report.name).is_some_and(is_own);
        let mut cost = SourceCost { as_root, ..source_cost(is_own, report) };
        if let Some(source) = source {
            cost.pace(plan, source);
        }
        cost
    };
    let files = plan.sources.known.iter().filter(|file| is_selected(file)).map(|file| file.name);
    let selected: Vec<&str> = files.collect();
    if selected.is_empty() {
        return Err(wanted.selects_nothing(&plan.sources.known));
    }
    apart::or_here(&plan.root)?;
    let reports = khz_gather::probe(&plan.root, &plan.sources.survey())
        .into_iter()
        .filter(|report| selected.contains(&report.name));
    let sources: Vec<SourceCost> = reports.map(cost).collect();
    // What hangs or is refused has its line, and so has what somebody asked for and this host does not have.
    let is_absent = |source: &SourceCost| matches!(source.finding, Finding::Absent(_));
    if sources.iter().all(is_absent) && !plan.root.join("proc/stat").exists() {
        let root = plan.root.display();
        return Err(Failure::usage(format!("nothing can be read below {root}; is /proc mounted there?")));
    }
    // A source that does not work costs nothing at any rate, and one that is switched off is not gathered.
    let works = |name: &str| sources.iter().any(|s| s.name == name && s.finding == Finding::Works);
    planned.retain(|source| works(source.file.name));
    let files: Vec<_> = planned.iter().map(|source| source.file).collect();
    let trial = match planned.is_empty() {
        true => Trial::default(),
        false => trial(khz_gather::Plan { sources: planned, ..gather_plan(plan) }, plan.rate_max)?,
    };
    let paced = |&(name, gather): &(&'static str, Nanos)| {
        let file = files.iter().find(|file| file.name == name)?;
        Some(Paced { name, gather, refresh: wanted.refresh_of(file)? })
    };
    let paced = trial.sources.iter().filter_map(paced).collect();
    Ok(Found { together: Together::new(trial.tick, paced, plan.cpu_max, plan.rate_max), sources })
}

impl SourceCost {
    /// Notes how often the source is gathered at this cost.
    fn pace(&mut self, plan: &Plan, source: &SourcePlan) {
        let (wanted, limits) = (rate_of(plan, source), source.limits(&plan.root, self.gather));
        let allowed = limits.period_min.and_then(|period| Rate::from_period(rounded(period)));
        let held = allowed.filter(|rate| wanted.is_above(*rate));
        let is_too_dear = self.gather.as_secs_f64() * wanted.hz() > limits.share;
        self.budget = Some(limits.share);
        self.rate = Some(held.unwrap_or(wanted));
        self.held_back = held.map(|_| HeldBack { wanted, is_too_dear });
    }
}

/// A period as people read it: whole seconds, tenths of one, or whole milliseconds. It depends on a cost that is never the same again.
fn rounded(period: Nanos) -> Nanos {
    let step = match period.0 {
        10_000_000_000.. => 1_000_000_000,
        1_000_000_000.. => 100_000_000,
        10_000_000.. => 1_000_000,
        _ => 1,
    };
    Nanos(period.0.next_multiple_of(step))
}

/// What is said of a source that answers, and has no number now.
const NOTHING: &str = "there is nothing now";

fn source_cost(is_own: bool, report: SourceReport) -> SourceCost {
    let is_absent = report.missing.iter().all(|(_, reading)| *reading == Reading::Absent(Absence::NoSource));
    let has_value = report.values > 0;
    let names_several = is_own && report.remark.as_ref().is_some_and(|remark| remark.contains("; /"));
    let stuck = Reading::Failed(Fault::Stuck);
    let is_stuck = !report.missing.is_empty() && report.missing.iter().all(|(_, reading)| *reading == stuck);
    let finding = match (report.gather_time, report.problem) {
        (_, Some(problem)) => Finding::Failed(problem),
        _ if is_own && is_absent && !has_value && report.remark.is_none() => {
            Finding::Absent(format!("there is no file /{}", report.path))
        }
        (None, None) if is_absent && report.name == textfile::FILE.name => {
            Finding::Absent(format!("there is no folder /{}", report.path))
        }
        (None, None) if is_absent => Finding::Absent(Absence::NoSource.to_string()),
        (Some(_), None) if is_stuck && !has_value => Finding::Failed(Fault::Stuck.to_string()),
        // Each has its words below the table.
        (Some(_), None) if !has_value && names_several => {
            Finding::Failed("none of its files has a number".to_owned())
        }
        (Some(_), None) if !has_value && report.remark.is_some() => {
            Finding::Failed(report.remark.clone().unwrap_or_default())
        }
        (Some(_), None) if report.values == 0 && report.missing.is_empty() => {
            Finding::Absent(NOTHING.to_owned())
        }
        (Some(_), None) => Finding::Works,
        (None, None) => Finding::Failed("an empty text".to_owned()),
    };
    let missing = |(series, reading): (String, Reading)| match reading {
        Reading::Absent(why) => Missing { series, is_failed: false, why: format!("absent: {why}") },
        Reading::Failed(fault) => Missing { series, is_failed: true, why: format!("FAILED: {fault}") },
        Reading::Present(_) | Reading::Labels(_) => unreachable!("BUG: a present reading is not missing"),
    };
    SourceCost {
        name: report.name.to_owned(),
        path: format!("/{}", report.path),
        finding,
        values: report.values,
        missing: report.missing.into_iter().map(missing).collect(),
        remark: report.remark.filter(|_| has_value || names_several),
        as_root: None,
        bytes: report.bytes,
        gather: report.gather_time.unwrap_or_default(),
        rate: None,
        budget: None,
        held_back: None,
    }
}
