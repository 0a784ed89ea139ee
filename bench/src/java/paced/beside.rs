//! Our gatherer and the JVM's at 1,000 Hz, in turns on one core: how long a call takes when caches are cold.

use std::time::{Duration, Instant};

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};

use crate::error::BenchError;
use crate::five::{FILES, room};
use crate::java::jvm::{Jvm, warm_up};
use crate::ours::Source;
use crate::pairs::order;
use crate::place::Pinned;
use crate::program::Program;
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure};

const RATE: i64 = 1_000;
const SECOND_NS: i64 = 1_000_000_000;
const PERIOD_NS: i64 = SECOND_NS / RATE;
/// A tick is late when it starts this long after its time, as in `c/paced.c`.
const LATE_NS: i64 = 100_000;

/// Calls in a second while the JIT compiler works: it compiles what is called often.
const WARM_UP_RATE: i64 = 10_000;

/// The JVM's gather must reach this share of our rate.
const SHARE: f64 = 0.90;

/// Our gatherer, then the ways of the Java program.
const SIDES: [&str; 3] = ["ours", "all", "take"];

/// One turn of a side.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Turn {
    calls: f64,
    median_ns: f64,
    late: f64,
    missed: f64,
}

/// Lets the sides take turns.
pub fn run(record: &mut Record, jvm: &Jvm) -> Result<(), BenchError> {
    let _pinned = Pinned::here()?;
    let mut java = Program::of("java Paced turns", jvm.paced(&[]).arg("turns"))?;
    for way in &SIDES[1..] {
        foreign(&mut java, way, WARM_UP_RATE, warm_up(record))?;
    }
    let mut ours = Ours::open()?;
    let span = Duration::from_millis(1_000);
    let mut turns: [Vec<Turn>; SIDES.len()] = Default::default();
    for (number, side) in order(SIDES.len(), record.effort.pairs()).enumerate() {
        record.progress(&format!("1,000 Hz in turns, turn {}: {}", number + 1, SIDES[side]));
        let turn = match SIDES[side] {
            "ours" => ours.turn(span)?,
            way => foreign(&mut java, way, RATE, span)?,
        };
        keep(record, SIDES[side], turns[side].len(), turn);
        turns[side].push(turn);
    }
    show(record, &turns);
    Ok(())
}

fn keep(record: &mut Record, who: &str, number: usize, turn: Turn) {
    for (what, value) in
        [("calls", turn.calls), ("median_ns", turn.median_ns), ("late", turn.late), ("missed", turn.missed)]
    {
        record.sample(["paced", "in turns", who], number, what, value);
    }
}

fn show(record: &mut Record, turns: &[Vec<Turn>; SIDES.len()]) {
    let mut table =
        Table::new(&["who", "us/call", "quartiles", "rate / ours", "quartiles", "late", "missed"]);
    let medians = |side: &[Turn]| side.iter().map(|turn| turn.median_ns).collect::<Vec<_>>();
    let ours = medians(&turns[0]);
    for (name, side) in SIDES.iter().zip(turns) {
        let (time, share) = (Spread::of(medians(side)), Spread::of(ratios(&ours, &medians(side))));
        match *name {
            "ours" => {}
            "all" => {
                let promise = "paced at 1,000 Hz: rate of the JVM's gather / ours";
                record.verdict(promise, share, Bound::AtLeast(SHARE));
            }
            way => {
                record.verdict(&format!("paced at 1,000 Hz: JVM {way}, rate / ours"), share, Bound::Stated)
            }
        }
        let (Some(time), Some(share)) = (time, share) else { continue };
        let sum = |of: fn(&Turn) -> f64| side.iter().map(of).sum::<f64>().to_string();
        table.row([
            if *name == "ours" { String::from("ours") } else { format!("JVM {name}") },
            figure(time.median / 1e3),
            format!("{}..{}", figure(time.lower / 1e3), figure(time.upper / 1e3)),
            figure(share.median),
            format!("{:.3}..{:.3}", share.lower, share.upper),
            sum(|turn| turn.late),
            sum(|turn| turn.missed),
        ]);
    }
    record.show("## All five files at 1,000 Hz, in turns of a second on one core", &table);
    record.say(
        "The wall-clock time around a call: the median of each turn, then of all turns. Before its turns the JVM has\n\
         gathered at 10,000 Hz for a while, so that its JIT compiler is done. Take copies every number besides.\n",
    );
}

/// Our gatherer of all five files.
struct Ours {
    sources: Vec<Source>,
    room: Vec<u8>,
}

impl Ours {
    fn open() -> Result<Self, BenchError> {
        let sources = FILES.iter().map(|name| Source::open(name)).collect::<Result<Vec<_>, _>>()?;
        Ok(Ours { sources, room: room() })
    }

    fn turn(&mut self, span: Duration) -> Result<Turn, BenchError> {
        let mut times = Vec::with_capacity(span.as_millis() as usize + 1);
        let end = now_ns() + span.as_nanos() as i64;
        let (mut last, mut late, mut missed) = (None, 0, 0);
        loop {
            let due = (now_ns() / PERIOD_NS + 1) * PERIOD_NS;
            missed += last.map_or(0, |last| (due - last) / PERIOD_NS - 1).max(0);
            sleep_until(due)?;
            if due >= end {
                break;
            }
            late += i64::from(now_ns() - due > LATE_NS);
            let start = Instant::now();
            self.gather()?;
            times.push(start.elapsed().as_nanos() as f64);
            last = Some(due);
        }
        let calls = times.len() as f64;
        let median_ns = Spread::of(times).map_or(f64::NAN, |spread| spread.median);
        Ok(Turn { calls, median_ns, late: late as f64, missed: missed as f64 })
    }

    #[inline]
    fn gather(&mut self) -> Result<(), BenchError> {
        self.sources.iter_mut().try_for_each(|one| one.gather(&mut self.room).map(drop))
    }
}

/// A turn of the Java program.
fn foreign(java: &mut Program, way: &str, rate: i64, span: Duration) -> Result<Turn, BenchError> {
    let answer = java.ask(&format!("{way} {rate} {}", span.as_millis()))?;
    parse_turn(&answer).ok_or_else(|| java.refused(&answer))
}

/// Reads `CALLS MEDIAN_NS LATE MISSED`.
fn parse_turn(answer: &str) -> Option<Turn> {
    let numbers = answer.split_whitespace().map(|word| word.parse::<u64>().ok().map(|number| number as f64));
    let numbers = numbers.collect::<Option<Vec<f64>>>()?;
    let [calls, median_ns, late, missed] = numbers[..] else { return None };
    (calls > 0.0).then_some(Turn { calls, median_ns, late, missed })
}

fn now_ns() -> i64 {
    let t = clock_gettime(rustix::time::ClockId::Realtime);
    t.tv_sec * SECOND_NS + t.tv_nsec
}

fn sleep_until(due: i64) -> Result<(), BenchError> {
    let due = Timespec { tv_sec: due / SECOND_NS, tv_nsec: due % SECOND_NS };
    clock_nanosleep_absolute(ClockId::Realtime, &due).map_err(BenchError::call("clock_nanosleep"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_four_numbers_or_nothing() {
        let turn = Turn { calls: 947.0, median_ns: 28_492.0, late: 32.0, missed: 53.0 };
        assert_eq!(parse_turn("947 28492 32 53\n"), Some(turn));
        for bad in ["", "1 2 3", "1 2 3 4 5", "0 1 1 1", "10 null 0 0", "a b c d"] {
            assert_eq!(parse_turn(bad), None, "{bad}");
        }
    }

    #[test]
    fn every_tick_of_our_turn_is_met_or_counted_as_missed() {
        let mut ours = Ours::open().unwrap();
        let turn = ours.turn(Duration::from_millis(50)).unwrap();
        assert!(turn.calls >= 1.0 && turn.median_ns > 0.0, "{turn:?}");
        // What is missed between the last tick and the end is counted, too.
        assert!(turn.calls + turn.missed >= 49.0, "{turn:?}");
    }
}
