//! Ten thousand rules on thousands of simulated nodes at 1 Hz: the hub's CPU and memory, in turns with a hub without rules. No rule is
//! true: nodes say so once a minute. What a node pays for judging is in no figure here (`channels plan` has it).

use std::time::{Duration, Instant};

use super::site::Site;
use crate::error::BenchError;
use crate::http;
use crate::hub::cluster::Simulation;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure};

const NODES: u64 = 4_096;
const RULES: usize = 10_000;

/// The figure, in percent of a core.
const SHARE_MAX: f64 = 50.0;

/// From the last node's connection until all of them judge, at most: 4 GB of rules go out to them.
const SETTLING: Duration = Duration::from_secs(300);

/// Between questions for who judges, and before the measured span.
const LULL: Duration = Duration::from_secs(5);

/// Rules as people write them: a threshold of its own for each, over what every node has.
fn rules() -> String {
    const EXPRS: [&str; 5] = [
        "node_load1 > ",
        "node_procs_blocked > ",
        "node_memory_MemTotal_bytes < ",
        "node_procs_running > ",
        "node_load15 > node_load1 + ",
    ];
    let rule = |n: usize| {
        let (expr, hold) = (EXPRS[n % EXPRS.len()], 1 + n % 5);
        let value = if n % EXPRS.len() == 2 { 0 } else { 1_000_000 + n };
        format!(
            "  - alert: A{n}\n    expr: {expr}{value}\n    for: {hold}m\n    annotations: {{summary: '{{{{ $labels.instance }}}}'}}\n"
        )
    };
    format!("groups:\n- name: g\n  interval: 1s\n  rules:\n{}", (0..RULES).map(rule).collect::<String>())
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let (turns, span) = (record.effort.of(3, 1), Duration::from_secs(record.effort.of(60, 20)));
    let mut found = [Vec::new(), Vec::new()];
    let mut memory = [Vec::new(), Vec::new()];
    let mut settle = Vec::new();
    for turn in 0..turns {
        for (what, name) in ["no rules", "rules"].into_iter().enumerate() {
            record.progress(&format!("{name}, turn {}", turn + 1));
            let text = if what == 0 { String::new() } else { rules() };
            let site = Site::start(&text, None, &["--store", "none", "--history", "0MiB"])?;
            let settling = if what == 1 { SETTLING } else { Duration::ZERO };
            let seconds = (span + settling + LULL).as_secs() + 60;
            let simulation =
                Simulation::start(&site.program, site.link, (NODES, 1), seconds, &["--quiet-rules"])?;
            simulation.wait_for_all()?;
            let came = Instant::now();
            if what == 1 {
                wait_until_all_judge(&site)?;
            }
            let settled = came.elapsed();
            // What came late is not part of the span.
            std::thread::sleep(LULL);
            let before = site.hub.counted()?;
            std::thread::sleep(span);
            let after = site.hub.counted()?;
            let share = (after.cpu_ns - before.cpu_ns) as f64 / span.as_nanos() as f64 * 100.0;
            let held = site.hub.held()?;
            record.sample(["scale", "4096 x 1", name], turn, "cpu_percent", share);
            record.sample(["scale", "4096 x 1", name], turn, "anonymous_kb", held.anonymous_kb as f64);
            record.sample(["scale", "4096 x 1", name], turn, "settled_s", settled.as_secs_f64());
            if what == 1 {
                settle.push(settled.as_secs_f64());
            }
            found[what].push(share);
            memory[what].push(held.anonymous_kb as f64 / 1e3);
            drop(simulation);
        }
    }
    let mut table = Table::new(&["hub of 4,096 nodes at 1 Hz", "% of a core", "MB"]);
    for (what, name) in ["without rules", "with 10,000 rules, judged at the nodes"].into_iter().enumerate() {
        let (share, held) = (Spread::of(found[what].clone()), Spread::of(memory[what].clone()));
        let (Some(shown), Some(of_memory)) = (&share, &held) else { continue };
        table.row([name.to_owned(), figure(shown.median), figure(of_memory.median)]);
        let bound = if what == 1 { Bound::AtMost(SHARE_MAX) } else { Bound::Stated };
        record.verdict(&format!("{name}: CPU, % of a core"), share, bound);
        record.verdict(&format!("{name}: memory, MB"), held, Bound::Stated);
    }
    let until_all = Spread::of(settle);
    record.verdict("from the last node until all judge 10,000 rules, s", until_all, Bound::Stated);
    record.show("## What rules cost a hub", &table);
    Ok(())
}

/// Fails unless every node judges every rule in time.
fn wait_until_all_judge(site: &Site) -> Result<(), BenchError> {
    let end = Instant::now() + SETTLING;
    loop {
        let rules = http::get(site.http, "/api/v1/rules?exclude_alerts=true")?;
        let judged = rules.matches(&format!("\"judged\":{{\"nodes\":{NODES},\"hub\":0}}")).count();
        if judged == RULES {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(failed("khz hub", format!("{judged} of {RULES} rules are judged at all nodes")));
        }
        std::thread::sleep(LULL);
    }
}
