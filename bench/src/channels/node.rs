//! 64 channels on this node at 100 Hz, beside a plain lane of the same sources at the same rate: the gather thread's CPU time, and
//! the memory of the agent.

use std::time::Duration;

use khz_gather::{Agent, LaneHandle, Plan, WantedBy};
use khz_model::{Nanos, NodeName, Pattern, Rate};
use khz_plan::{Handler, Values};

use super::{TEN, compiled, terms};
use crate::error::BenchError;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::store::memory::without_files_kb;
use crate::table::{Table, figure};

const RATE_HZ: u64 = 100;

/// The number of channels. A node executes more: `khz_gather::CHANNELS_MAX`.
const CHANNELS: usize = 64;

/// Share of a core, in percent, that 64 channels may take above gathering.
const ABOVE_MAX: f64 = 1.0;

/// Memory of the channels beyond their windows, MB.
const MEMORY_MAX: f64 = 1.0;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let span = Duration::from_secs(record.effort.of(10, 5));
    let mut shares: [Vec<f64>; 2] = Default::default();
    let mut held = Vec::new();
    for group in 0..record.effort.of(5, 2) {
        for (place, side) in [0, 1, 1, 0].into_iter().enumerate() {
            record.progress(&format!("turn {}", group * 4 + place + 1));
            let (share, memory) = turn(side == 1, span)?;
            let who = ["lane", "channels"][side];
            record.sample(["node", "100 Hz", who], group * 4 + place, "cpu_percent", share);
            record.sample(["node", "100 Hz", who], group * 4 + place, "memory_mb", memory);
            shares[side].push(share);
            if side == 1 {
                held.push(memory);
            }
        }
    }
    let above: Vec<f64> = shares[1].iter().zip(&shares[0]).map(|(with, without)| with - without).collect();
    let mut table = Table::new(&["", "of a core, %", "quartiles"]);
    let cases = [("a lane of 100 Hz", &shares[0]), ("and 64 channels", &shares[1]), ("above", &above)];
    for (name, shares) in cases {
        let Some(spread) = Spread::of(shares.iter().copied()) else { continue };
        let quartiles = format!("{}..{}", figure(spread.lower), figure(spread.upper));
        table.row([name.to_owned(), figure(spread.median), quartiles]);
    }
    record.show("## 64 channels on one node at 100 Hz", &table);
    record.verdict(
        "64 channels at 100 Hz: % of a core above gathering",
        Spread::of(above),
        Bound::AtMost(ABOVE_MAX),
    );
    record.verdict("64 channels: memory, MB", Spread::of(held), Bound::AtMost(MEMORY_MAX));
    record.say(
        "Memory: how much the process grows from before the channels are opened until the end of the turn, with their windows \
         of a second (100 samples) and their rings of 64 KiB.\n",
    );
    Ok(())
}

/// The share of a core that gathering takes, in percent, and the megabytes that channels add.
fn turn(with_channels: bool, span: Duration) -> Result<(f64, f64), BenchError> {
    let node = NodeName::new("n1").map_err(|error| failed("the node", error))?;
    let agent = Agent::start(Plan::new("/", node)).map_err(|error| failed("the agent", error))?;
    let rate = Rate::from_hz(RATE_HZ).ok_or_else(|| failed("the rate", "there is none"))?;
    let wrong = |error| failed("the lane", error);
    let patterns = ["load.*", "mem.*", "kernel.*"];
    let patterns: Result<Vec<Pattern>, _> = patterns.iter().map(|text| Pattern::new(text)).collect();
    let patterns = patterns.map_err(|error| failed("the patterns", error))?;
    let _lane = agent.follow(&patterns, rate, true).map_err(wrong)?;
    std::thread::sleep(Duration::from_secs(1));
    let before = without_files_kb()?;
    let everything = [Pattern::everything()];
    let mut channels: Vec<LaneHandle> = Vec::new();
    for number in (0..CHANNELS).filter(|_| with_channels) {
        let values = Values::Plan(compiled(TEN[number % TEN.len()])?);
        let terms = terms(&format!("c{number}"), &Handler { values, ..Handler::default() })?;
        channels.push(
            agent
                .shared_lanes()
                .follow_channel(&everything, rate, true, &terms, WantedBy::Readers)
                .map_err(wrong)?,
        );
    }
    std::thread::sleep(Duration::from_secs(2));
    let start = cpu();
    std::thread::sleep(span);
    let share = cpu().since(start).0 as f64 / span.as_nanos() as f64 * 100.0;
    let memory = (without_files_kb()? - before) / 1e3;
    drop(channels);
    agent.stop();
    Ok((share, memory))
}

/// CPU time of this process, which does nothing else.
fn cpu() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
