//! What a row costs a plan: ten conditions as one plan, and each of them alone. The rows are those of a recording, with times a
//! millisecond apart.

use std::hint::black_box;
use std::time::Duration;

use khz_model::{Nanos, NodeName, Reading, Series};
use khz_plan::{Bound, Identity, Plan};

use super::{TEN, compiled, workloads};
use crate::block::workload::Cells;
use crate::error::BenchError;
use crate::pairs::{Contender, interleave};
use crate::place::Pinned;
use crate::program::failed;
use crate::record::{Bound as Limit, Record};
use crate::spread::Spread;
use crate::table::{Table, figure};

const PERIOD: Nanos = Nanos::from_millis(1);

/// Rows that are played over and over.
const ROWS: usize = 128;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let pinned = Pinned::here()?;
    let workloads = workloads()?;
    let busy = workloads.iter().find(|workload| workload.name.starts_with("compile"));
    let workload = busy.ok_or_else(|| failed("the recordings", "there is none of compiling"))?;
    // As many as stay in the cache: a node computes on readings that it has just gathered.
    let rows: Vec<Cells> = workload.rows().into_iter().map(|(_, cells)| cells).take(ROWS).collect();
    let ten = TEN.join(" or ");
    let cases = [("ten conditions", ten.as_str())].into_iter().chain(TEN.iter().map(|text| (*text, *text)));
    let mut players: Vec<Contender<'_>> = Vec::new();
    for (name, text) in cases {
        let mut player = Player::new(&compiled(text)?, &workload.series, &rows)?;
        players.push(Contender::call(name, move || {
            player.row();
            Ok(())
        }));
    }
    let span = Duration::from_millis(record.effort.of(200, 60));
    let turns = interleave(&mut players, record.effort.pairs(), span)?;
    record.turns("plan", "compile", &turns);
    let mut table = Table::new(&["expression", "ns a row", "quartiles"]);
    for (number, who) in turns.iter().enumerate() {
        let Some(spread) = Spread::of(who.map(|batch| batch.cpu_micros() * 1e3)) else { continue };
        let quartiles = format!("{}..{}", figure(spread.lower), figure(spread.upper));
        table.row([who.name.clone(), figure(spread.median), quartiles]);
        if number == 0 {
            record.verdict("a plan of ten conditions: ns a row", Some(spread), Limit::AtMost(200.0));
        }
    }
    record.show("## A plan, row by row, with windows of a second at 1,000 Hz", &table);
    record.say(&format!("On CPU {}. The ten conditions are one plan, joined by `or`.\n", pinned.cpu));
    Ok(())
}

/// A plan, and the rows that it gets, over and over.
struct Player<'a> {
    bound: Bound,
    rows: &'a [Cells],
    next: usize,
    time: i64,
}

impl<'a> Player<'a> {
    fn new(plan: &Plan, series: &[Series], rows: &'a [Cells]) -> Result<Self, BenchError> {
        let node = NodeName::new("n1").map_err(|error| failed("the node", error))?;
        let identity = Identity { node: &node, job: "node" };
        let bound = Bound::new(plan, series, identity, PERIOD).map_err(|error| failed("the plan", error))?;
        Ok(Player { bound, rows, next: 0, time: 1_700_000_000_000_000_000 })
    }

    #[inline]
    fn row(&mut self) {
        const PRESENT: u8 = Reading::Present(0).state();
        let row = &self.rows[self.next];
        self.next = if self.next + 1 == self.rows.len() { 0 } else { self.next + 1 };
        self.time += PERIOD.0 as i64;
        let reading = |slot: u32| match row[slot as usize] {
            (PRESENT, bits) => Some(bits),
            _ => None,
        };
        black_box(self.bound.row(self.time, reading));
    }
}
