//! Bytes of the rows that channels send, beside the raw rows of the same series: for the recorded workloads at 100 Hz, a hundred
//! series, those that change most.

use std::collections::HashSet;

use khz_block::Encoder;
use khz_model::{Nanos, NodeName, Reading, Series};
use khz_plan::{BoundHandler, Deadband, Handler, Identity, Over, Values, When};

use super::{compiled, workloads};
use crate::block::workload::{Cells, Workload};
use crate::error::BenchError;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure, thousands};

/// Series of a channel.
const SERIES: usize = 100;

/// The share of the raw rows' bytes that means over a second may take.
const SHARE: f64 = 1.0 / 20.0;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let heads = ["workload", "handler", "rows", "bytes", "of the raw rows' bytes, %"];
    let mut table = Table::new(&heads);
    // Of busy machines, and of an idle one, whose raw rows are small already.
    let mut worst = vec![[0.0f64; 2]; handlers()?.len()];
    for workload in workloads()? {
        let chosen = most_changing(&workload);
        let (rows, raw) = sent(&workload, &chosen, &Handler::default())?;
        table.row([
            workload.name.clone(),
            "raw rows".into(),
            rows.to_string(),
            thousands(raw as f64),
            figure(100.0),
        ]);
        for (number, (name, handler)) in handlers()?.into_iter().enumerate() {
            let (rows, bytes) = sent(&workload, &chosen, &handler)?;
            let share = bytes as f64 / raw as f64;
            record.sample(["bytes", &workload.name, name], 0, "share", share);
            table.row([
                String::new(),
                name.into(),
                rows.to_string(),
                thousands(bytes as f64),
                figure(share * 100.0),
            ]);
            let worst = &mut worst[number][usize::from(workload.name.starts_with("idle"))];
            *worst = worst.max(share);
        }
    }
    for (number, (name, _)) in handlers()?.into_iter().enumerate() {
        let bound = if number == 0 { Bound::AtMost(SHARE) } else { Bound::Stated };
        let [busy, idle] = worst[number].map(|share| Spread::of([share]));
        record.verdict(&format!("{name}: share of the raw rows' bytes, worst busy machine"), busy, bound);
        record.verdict(&format!("{name}: the same, an idle machine"), idle, Bound::Stated);
    }
    record.show("## What channels send, of 100 series at 100 Hz, for a minute", &table);
    record.say("Bytes of blocks, as they are in the ring and on the link, without frames.\n");
    Ok(())
}

/// The handlers, each with its name.
fn handlers() -> Result<Vec<(&'static str, Handler)>, BenchError> {
    let values = || Values::Each { over: Over::Avg, length: Nanos::SECOND };
    let deadband = Some(Deadband { absolute: 0.0, relative: 0.05 });
    let when = When { plan: Some(compiled("node_procs_running > 4")?), ..When::default() };
    Ok(vec![
        (
            "means over 1 s, each second",
            Handler { values: values(), every: Nanos::SECOND, ..Handler::default() },
        ),
        ("deadband 5 % of any value", Handler { deadband, ..Handler::default() }),
        ("means over 1 s, deadband 5 %", Handler { values: values(), deadband, ..Handler::default() }),
        ("while more than 4 processes run", Handler { when: Some(when), ..Handler::default() }),
    ])
}

/// The slots that change in most rows.
fn most_changing(workload: &Workload) -> Vec<usize> {
    let mut changes = vec![0usize; workload.slots()];
    for row in workload.training().chain(workload.measured()).flatten() {
        row.changes.iter().for_each(|&(slot, _)| changes[slot as usize] += 1);
    }
    let mut slots: Vec<usize> = (0..workload.slots()).collect();
    slots.sort_by_key(|&slot| std::cmp::Reverse(changes[slot]));
    slots.truncate(SERIES);
    slots.sort_unstable();
    slots
}

/// Rows and bytes that a handler sends of these slots.
fn sent(workload: &Workload, chosen: &[usize], handler: &Handler) -> Result<(u64, u64), BenchError> {
    const PRESENT: u8 = Reading::Present(0).state();
    let node = NodeName::new("n1").map_err(|error| failed("the node", error))?;
    let identity = Identity { node: &node, job: "node" };
    let names: HashSet<&str> = chosen.iter().map(|&slot| workload.names[slot].as_str()).collect();
    let is_shown = |series: &Series| names.contains(series.to_string().as_str());
    let mut bound = BoundHandler::new(handler, &workload.series, is_shown, identity, workload.period)
        .map_err(|error| failed("the handler", error))?;
    let is_raw = bound.results().is_none();
    let period = if handler.every > Nanos(0) { handler.every } else { workload.period };
    let mut encoder = Encoder::new(0, 1, period);
    let (mut rows, mut bytes, mut out) = (0, 0, Vec::new());
    for (stamp, cells) in workload.rows() {
        let reading = |slot: u32| match cells[slot as usize] {
            (PRESENT, bits) => Some(bits),
            _ => None,
        };
        if !bound.row(stamp, reading) {
            continue;
        }
        let cells: Cells = if is_raw {
            chosen.iter().map(|&slot| cells[slot]).collect()
        } else {
            let absent = (Reading::Absent(khz_model::Absence::NoResult).state(), 0);
            let cell = |at| bound.bits(at).map_or(absent, |bits| (PRESENT, bits));
            (0..bound.values().len()).map(cell).collect()
        };
        out.clear();
        if encoder.wants_new_block(stamp) || rows == 0 {
            encoder.close();
            encoder.key_row(stamp, cells.len(), |slot| cells[slot], &mut out);
        } else {
            encoder.delta_row(stamp, 0..cells.len(), |slot| cells[slot], &mut out);
        }
        (rows, bytes) = (rows + 1, bytes + out.len() as u64);
    }
    Ok((rows, bytes))
}
