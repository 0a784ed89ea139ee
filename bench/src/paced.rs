//! The table again under an agent's conditions: a thousand reads a second on a busy machine, where caches are
//! cold and the numbers change. Bare read, ordinary parse and ours take turns tick by tick.

use std::time::Instant;

use khz_parse::Outcome;
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};

use crate::error::BenchError;
use crate::five::{FILES, Kept, digits, room};
use crate::hot::share_to_reach;
use crate::load::Load;
use crate::ours::{Check, Source};
use crate::place::Pinned;
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure, thousands};

/// One tick a millisecond.
const PERIOD_NS: i64 = 1_000_000;

/// The order of turns: forth and back.
const TURNS: [Side; 6] = [Side::Bare, Side::Digits, Side::Ours, Side::Ours, Side::Digits, Side::Bare];

/// Ticks of a turn: much shorter than the phases of a busy machine.
const TURN_TICKS: usize = 12;

/// The first ticks of a turn find caches and branch predictor in the state of the other sides, so they are
/// not kept: each side is measured in the state of its own 1,000 Hz. In turns of 50 ticks the first tick
/// costs up to three times as much, the second a tenth more, and from the third on nothing changes.
const SETTLING_TICKS: usize = 2;

/// Rounds of all turns in a block; the medians of a block are one sample.
const BLOCK_ROUNDS: usize = 16;

/// The buffers of each side, one for all files, and the numbers of an ordinary parse.
struct Rooms {
    bare: Vec<u8>,
    digits: Vec<u8>,
    ours: Vec<u8>,
    numbers: Vec<u64>,
}

/// Most numbers of an ordinary parse.
const NUMBERS_MAX: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Bare,
    Digits,
    Ours,
}

/// One file, read in three ways, each with its own open file.
struct Lane {
    bare: Kept,
    digits: Kept,
    ours: Source,
    check: Check,
    /// Nanoseconds of each side's calls in the present block.
    times: [Vec<f64>; 3],
    in_place: u64,
    gathers: u64,
    changed: u64,
}

/// Medians and trimmed means of all blocks of a file, in nanoseconds, by side.
#[derive(Default)]
struct Blocks {
    medians: [Vec<f64>; 3],
    trimmed: [Vec<f64>; 3],
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let _busy = Load::start()?;
    let _pinned = Pinned::here()?;
    let blocks = record.effort.of(50, 8);
    let mut lanes = FILES.iter().map(|name| Lane::open(name)).collect::<Result<Vec<_>, _>>()?;
    let mut results: Vec<Blocks> = FILES.iter().map(|_| Blocks::default()).collect();
    let mut rooms = Rooms { bare: room(), digits: room(), ours: room(), numbers: vec![0; NUMBERS_MAX] };
    let clock_ns = clock_cost();
    rounds(&mut lanes, 1, &mut rooms)?; // warms the buffers; not kept
    lanes.iter_mut().for_each(Lane::forget);
    let mut missed = 0;
    for number in 0..blocks {
        missed += rounds(&mut lanes, BLOCK_ROUNDS, &mut rooms)?;
        for ((lane, result), name) in lanes.iter_mut().zip(&mut results).zip(FILES) {
            lane.close_block(record, name, number, clock_ns, result);
        }
    }
    show(record, &results);
    show_facts(record, &lanes);
    record.say(&format!(
        "{} ticks at 1,000 Hz in {blocks} blocks, {missed} missed. Turns of {TURN_TICKS} ticks, the first {SETTLING_TICKS} not kept: bare\n\
         read, digit parse, ours, ours, digit parse, bare read. Beside them a compiler loop, a datagram\n\
         stream and a memory toucher. The clock's own {clock_ns:.0} ns are taken off. Shares are ratios of block\n\
         medians; trimmed: of means without the fastest and slowest tenth.\n",
        thousands((blocks * BLOCK_ROUNDS * TURNS.len() * TURN_TICKS) as f64),
    ));
    Ok(())
}

impl Lane {
    fn open(name: &str) -> Result<Self, BenchError> {
        Ok(Lane {
            bare: Kept::open(name)?,
            digits: Kept::open(name)?,
            ours: Source::open(name)?,
            check: Check::new(name)?,
            times: Default::default(),
            in_place: 0,
            gathers: 0,
            changed: 0,
        })
    }

    fn forget(&mut self) {
        self.times = Default::default();
        (self.in_place, self.gathers, self.changed) = (0, 0, 0);
    }

    /// One timed call of one side.
    #[inline]
    fn call(&mut self, side: Side, kept: bool, rooms: &mut Rooms) -> Result<(), BenchError> {
        let start = Instant::now();
        let mut outcome = None;
        match side {
            Side::Bare => {
                std::hint::black_box(self.bare.load(&mut rooms.bare)?.len());
            }
            Side::Digits => {
                let text = self.digits.load(&mut rooms.digits)?;
                std::hint::black_box(digits(text, &mut rooms.numbers));
            }
            Side::Ours => outcome = Some(self.ours.gather(&mut rooms.ours)?),
        }
        let taken = start.elapsed();
        if !kept {
            return Ok(());
        }
        self.times[side as usize].push(taken.as_nanos() as f64);
        if let Some(outcome) = outcome {
            self.gathers += 1;
            self.in_place += u64::from(outcome == Outcome::InPlace);
            self.changed += self.ours.parser().changed().len() as u64;
        }
        Ok(())
    }

    /// Gives our parser one more text and compares its readings with a full parse.
    fn verify(&mut self, rooms: &mut Rooms) -> Result<(), BenchError> {
        let text = self.bare.load(&mut rooms.bare)?;
        self.ours.parser().advance_with(text);
        self.check.compare(self.ours.parser(), text);
        Ok(())
    }

    /// Makes the block's samples from its times.
    fn close_block(
        &mut self,
        record: &mut Record,
        name: &str,
        block: usize,
        clock_ns: f64,
        result: &mut Blocks,
    ) {
        for side in [Side::Bare, Side::Digits, Side::Ours] {
            let times = std::mem::take(&mut self.times[side as usize]);
            let Some(spread) = Spread::of(times.iter().map(|t| t - clock_ns)) else { continue };
            for (what, value) in [
                ("min_ns", spread.min),
                ("lower_ns", spread.lower),
                ("median_ns", spread.median),
                ("upper_ns", spread.upper),
                ("max_ns", spread.max),
                ("trimmed_ns", spread.trimmed),
                ("calls", spread.count as f64),
            ] {
                record.sample(["paced", name, side.name()], block, what, value);
            }
            result.medians[side as usize].push(spread.median);
            result.trimmed[side as usize].push(spread.trimmed);
        }
    }
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::Bare => "bare",
            Side::Digits => "digits",
            Side::Ours => "ours",
        }
    }
}

/// Runs this many rounds of turns; returns how many ticks were missed.
fn rounds(lanes: &mut [Lane], rounds: usize, rooms: &mut Rooms) -> Result<u64, BenchError> {
    let mut due = now_ns() / PERIOD_NS * PERIOD_NS + PERIOD_NS;
    let mut missed = 0;
    for tick in 0..rounds * TURNS.len() * TURN_TICKS {
        sleep_until(due)?;
        let (side, of_turn) = (TURNS[tick / TURN_TICKS % TURNS.len()], tick % TURN_TICKS);
        // The first file after the sleep finds the coldest caches, so the files take turns in being first.
        for step in 0..lanes.len() {
            lanes[(tick + step) % FILES.len()].call(side, of_turn >= SETTLING_TICKS, rooms)?;
        }
        // A check disturbs the caches, so it comes before ticks that are not kept.
        if side == Side::Ours && of_turn + 1 == TURN_TICKS {
            lanes.iter_mut().try_for_each(|lane| lane.verify(rooms))?;
        }
        let next = now_ns() / PERIOD_NS * PERIOD_NS + PERIOD_NS;
        missed += ((next - due) / PERIOD_NS - 1).max(0) as u64;
        due = next;
    }
    Ok(missed)
}

fn now_ns() -> i64 {
    let t = clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

fn sleep_until(due: i64) -> Result<(), BenchError> {
    let due = Timespec { tv_sec: due / 1_000_000_000, tv_nsec: due % 1_000_000_000 };
    clock_nanosleep_absolute(ClockId::Monotonic, &due).map_err(BenchError::call("clock_nanosleep"))
}

/// The cost of reading the clock twice, in nanoseconds.
fn clock_cost() -> f64 {
    let costs = (0..10_001).map(|_| Instant::now().elapsed().as_nanos() as f64);
    Spread::of(costs).map_or(0.0, |spread| spread.median)
}

fn show(record: &mut Record, results: &[Blocks]) {
    let heads = ["file", "bare us", "digits us", "ours us", "digits", "ours", "quartiles", "trimmed"];
    let mut table = Table::new(&heads);
    for (name, Blocks { medians, trimmed }) in FILES.iter().zip(results) {
        let [bare, ordinary, ours] = medians;
        let share = |side: &[f64], bare: &[f64]| Spread::of(ratios(bare, side));
        let reached = share(ours, bare);
        let promise = format!("{name}, paced: total / bare read");
        record.verdict(&promise, reached, Bound::AtLeast(share_to_reach(name)));
        let micros = |side: &[f64]| Spread::of(side.iter().copied()).map_or(f64::NAN, |s| s.median) / 1e3;
        let trimmed = share(&trimmed[Side::Ours as usize], &trimmed[Side::Bare as usize]);
        let (Some(reached), Some(trimmed), Some(digits)) = (reached, trimmed, share(ordinary, bare)) else {
            continue;
        };
        table.row([
            format!("/proc/{name}"),
            figure(micros(bare)),
            figure(micros(ordinary)),
            figure(micros(ours)),
            figure(digits.median),
            figure(reached.median),
            format!("{:.3}..{:.3}", reached.lower, reached.upper),
            figure(trimmed.median),
        ]);
    }
    record.show("## Paced at 1,000 Hz on a busy machine: time per call, share of the bare read", &table);
}

fn show_facts(record: &mut Record, lanes: &[Lane]) {
    let mut table = Table::new(&["file", "gathers", "in place", "changed/gather", "compared", "wrong"]);
    let mut wrong = 0;
    for (name, lane) in FILES.iter().zip(lanes) {
        let gathers = lane.gathers.max(1) as f64;
        wrong += lane.check.wrong;
        record.sample(["paced", name, "ours"], 0, "wrong", lane.check.wrong as f64);
        record.sample(["paced", name, "ours"], 0, "in_place_share", lane.in_place as f64 / gathers);
        table.row([
            format!("/proc/{name}"),
            thousands(lane.gathers as f64),
            format!("{:.2} %", 100.0 * lane.in_place as f64 / gathers),
            figure(lane.changed as f64 / gathers),
            thousands(lane.check.compared as f64),
            lane.check.wrong.to_string(),
        ]);
    }
    record.show("## What changed, and readings compared with a full parse", &table);
    record.verdict("wrong readings, paced", Spread::of([wrong as f64]), Bound::AtMost(0.0));
}
