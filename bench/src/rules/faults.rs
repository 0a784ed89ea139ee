//! The shipped rules over a simulated cluster with faults: which of them are foretold, how much earlier, and how often rules fire
//! at nodes that have none. The clock is simulated, so days of a whole cluster pass in minutes; the faults are those of
//! `khz simulate --faults`.

mod cluster;
mod course;
mod weather;

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::channel;

use khz_rules::RuleSet;
use khz_simulate::{FaultKind, Library};

use self::cluster::{Cluster, Plan, STEP_MS};
use self::course::{Course, Told};
use crate::error::BenchError;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure};

/// Rules that say what is, and foretell nothing.
const NOT_FORETELLING: [&str; 2] = ["NodeDown", "NodeRebooted"];
const STEPS_PER_HOUR: i64 = 3_600_000 / STEP_MS;
const WEEK_S: f64 = 7.0 * 86_400.0;

/// What is found of all runs together.
#[derive(Default)]
struct Found {
    /// For each kind: faults, those that were foretold, and how much earlier (s).
    kinds: BTreeMap<FaultKind, (u64, u64, Vec<f64>)>,
    /// For each rule: firings at nodes with a fault, and at those without.
    rules: BTreeMap<String, (u64, u64)>,
    /// Time of nodes without a fault (s).
    healthy_s: f64,
    /// How often the end of memory was in its interval, and how often there was one.
    intervals: (u64, u64),
    /// Failures, and those that some rule foretold, as the scores of a hub have them.
    scored: (u64, u64),
}

/// Runs the section: each turn in a thread of its own, since only simulated time counts.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let (turns, nodes) = (record.effort.of(3, 1), record.effort.of(128, 48));
    let (hours, faults_of_each) = (record.effort.of(48, 8), record.effort.of(8, 2));
    let (says, said) = channel();
    let all: Vec<Result<Found, BenchError>> = std::thread::scope(|scope| {
        let begun: Vec<_> = (0..turns)
            .map(|turn| {
                let plan = Plan { nodes, hours, faults_of_each, seed: 1 + turn as u64 };
                let says = says.clone();
                scope.spawn(move || one_turn(&plan, |hour| says.send((turn, hour)).unwrap_or_default()))
            })
            .collect();
        drop(says);
        for (turn, hour) in said {
            record.progress(&format!("turn {}, hour {hour} of {hours}", turn + 1));
        }
        begun.into_iter().map(|turn| turn.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let mut found = Found::default();
    for (turn, one) in all.into_iter().enumerate() {
        let one = one?;
        let rate = one.false_alarms() as f64 / (one.healthy_s / WEEK_S);
        record.sample(["faults", "all rules", "shipped"], turn, "false_alarms_node_week", rate);
        found.join(one);
    }
    conclude(record, &found);
    Ok(())
}

/// One simulated cluster, and what rules told of it. `begins` gets each hour that begins.
fn one_turn(plan: &Plan, begins: impl Fn(i64)) -> Result<Found, BenchError> {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/rules");
    let set = RuleSet::load(&[rules]).map_err(|error| failed("packaging/rules", error))?;
    let names = ["idle", "compile", "netcopy", "mempressure"].map(String::from);
    let library = Library::read(&names, None, 0).map_err(|error| failed("the recordings", error))?;
    let (mut cluster, mut course) = (Cluster::new(&library, &set, plan), Course::new(&set));
    let mut told = Told::default();
    for step in 0..plan.steps() {
        if step % STEPS_PER_HOUR == 0 {
            begins(step / STEPS_PER_HOUR);
        }
        course.step(&mut cluster, step, &mut told);
    }
    let mut found = Found::default();
    found.take(&cluster, &told);
    Ok(found)
}

impl Found {
    fn take(&mut self, cluster: &Cluster, told: &Told) {
        for fault in cluster.faults() {
            let Some(failed) = fault.failed else { continue };
            let (count, foretold, leads) = self.kinds.entry(fault.kind).or_default();
            *count += 1;
            if let Some(first) = told.first_within(&fault.node, fault.begin, failed) {
                *foretold += 1;
                leads.push((failed - first) as f64 / 1e3);
            }
        }
        for (rule, count) in told.true_alarms(cluster) {
            self.rules.entry(rule).or_default().0 += count;
        }
        for (rule, count) in told.false_alarms(cluster) {
            self.rules.entry(rule).or_default().1 += count;
        }
        self.healthy_s += cluster.healthy_s();
        self.intervals.0 += told.intervals.0;
        self.intervals.1 += told.intervals.1;
        let (failures, foretold) = told.scores.failures();
        self.scored = (self.scored.0 + failures, self.scored.1 + foretold);
    }

    fn false_alarms(&self) -> u64 {
        self.rules.values().map(|(_, wrong)| wrong).sum()
    }

    fn join(&mut self, other: Found) {
        for (kind, (count, foretold, leads)) in other.kinds {
            let (all, all_foretold, all_leads) = self.kinds.entry(kind).or_default();
            (*all, *all_foretold) = (*all + count, *all_foretold + foretold);
            all_leads.extend(leads);
        }
        for (rule, (right, wrong)) in other.rules {
            let (all_right, all_wrong) = self.rules.entry(rule).or_default();
            (*all_right, *all_wrong) = (*all_right + right, *all_wrong + wrong);
        }
        self.healthy_s += other.healthy_s;
        self.intervals = (self.intervals.0 + other.intervals.0, self.intervals.1 + other.intervals.1);
        self.scored = (self.scored.0 + other.scored.0, self.scored.1 + other.scored.1);
    }
}

fn conclude(record: &mut Record, found: &Found) {
    let one = |value: f64| Spread::of([value]);
    let mut table =
        Table::new(&["fault", "injected", "foretold", "recall", "lead, median min", "lowest", "highest"]);
    let (mut all, mut all_foretold, mut all_leads) = (0u64, 0u64, Vec::new());
    for (kind, (count, foretold, leads)) in &found.kinds {
        let mut sorted = leads.clone();
        sorted.sort_by(f64::total_cmp);
        let minutes = |at: Option<&f64>| at.map_or(String::from("-"), |lead| figure(lead / 60.0));
        let recall = *foretold as f64 / *count as f64;
        table.row([
            kind.as_str().to_owned(),
            count.to_string(),
            foretold.to_string(),
            figure(recall),
            minutes(sorted.get(sorted.len() / 2)),
            minutes(sorted.first()),
            minutes(sorted.last()),
        ]);
        record.verdict(&format!("recall of {}", kind.as_str()), one(recall), Bound::Stated);
        let leads = Spread::of(leads.iter().map(|lead| lead / 60.0));
        record.verdict(&format!("lead time of {}, min", kind.as_str()), leads, Bound::Stated);
        (all, all_foretold) = (all + count, all_foretold + foretold);
        all_leads.extend(sorted);
    }
    record.show("## Faults that were foretold", &table);
    let weeks = found.healthy_s / WEEK_S;
    let mut table =
        Table::new(&["rule", "at nodes with a fault", "at nodes without", "false alarms a node-week"]);
    for (rule, (right, wrong)) in &found.rules {
        table.row([rule.clone(), right.to_string(), wrong.to_string(), figure(*wrong as f64 / weeks)]);
    }
    record
        .show(&format!("## Alarms of each rule, over {} node-weeks without a fault", figure(weeks)), &table);
    record.verdict("recall of all faults", one(all_foretold as f64 / (all as f64).max(1.0)), Bound::Stated);
    record.verdict(
        "lead time of all faults, min",
        Spread::of(all_leads.iter().map(|lead| lead / 60.0)),
        Bound::Stated,
    );
    record.verdict("false alarms a node-week", one(found.false_alarms() as f64 / weeks), Bound::Stated);
    record.verdict("node-weeks without a fault", one(weeks), Bound::Stated);
    let (failures, foretold) = found.scored;
    record.verdict(
        "recall as khz rules score has it",
        one(foretold as f64 / (failures as f64).max(1.0)),
        Bound::Stated,
    );
    if found.intervals.1 > 0 {
        let share = found.intervals.0 as f64 / found.intervals.1 as f64;
        record.verdict("the end of memory is within its interval", one(share), Bound::Stated);
    }
}

/// Whether a rule can foretell anything.
fn foretells(rule: &str) -> bool {
    !NOT_FORETELLING.contains(&rule)
}
