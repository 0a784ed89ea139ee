//! The loop on the JVM beside the one in C, from 1 to 100 Hz: CPU time of the whole process.

use crate::error::BenchError;
use crate::java::paced::life::{Kind, Life, Loop};
use crate::java::paced::{G1, Loops};
use crate::ladder::{PAPER_HOUR_AT_50_HZ, paper_seconds};
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure, thousands};

const RATES: [u64; 4] = [1, 10, 50, 100];

const HOUR: f64 = 3_600.0;
const DAY: f64 = 86_400.0;

/// Gathers before the first tick: a JVM that has run for a day has made as many, even at 1 Hz. Without them the code
/// of a run at 1 Hz would be interpreted to its end.
const WARM: Option<u32> = Some(30_000);

const LOOPS: [Loop; 3] = [
    Loop { name: "C loop", kind: Kind::C },
    Loop { name: "JVM", kind: Kind::Jvm { way: "all", flag: G1, warm: WARM } },
    Loop { name: "JVM take", kind: Kind::Jvm { way: "take", flag: G1, warm: WARM } },
];

/// Runs every loop at every rate, one after another.
pub fn run(record: &mut Record, loops: &Loops) -> Result<(), BenchError> {
    let heads = ["rate", "us/tick", "CPU %", "thread", "s/hour", "s/day", "x C", "late", "missed"];
    let mut table = Table::new(&heads);
    for rate in RATES {
        let mut c_share = None;
        for one in &LOOPS {
            record.progress(&format!("{rate} Hz, {}", one.name));
            let life = one.run(loops, rate, record.effort.of(20, 5))?;
            life.keep(record, &format!("{rate} Hz"), one.name, 0);
            let times = life.share / *c_share.get_or_insert(life.share);
            table.row(row(one, rate, &life, times));
            promise(record, one, rate, &life, times);
        }
    }
    record.show("## At a fixed rate: CPU time of the whole process", &table);
    record.say(&explained());
    Ok(())
}

fn row(one: &Loop, rate: u64, life: &Life, times: f64) -> [String; 9] {
    let thread = life.jvm.as_ref().map(|own| figure(own.thread_share * 100.0));
    [
        format!("{rate} Hz, {}", one.name),
        figure(life.micros(rate)),
        figure(life.share * 100.0),
        thread.unwrap_or_default(),
        figure(life.share * HOUR),
        figure(life.share * DAY),
        figure(times),
        life.late.to_string(),
        life.missed.to_string(),
    ]
}

/// The figures that the paper has, and the multiple of the C loop's.
fn promise(record: &mut Record, one: &Loop, rate: u64, life: &Life, times: f64) {
    let name = one.name;
    let mut state = |what: String, value: f64| record.verdict(&what, Spread::of([value]), Bound::Stated);
    match rate {
        1 => state(format!("CPU seconds a day at 1 Hz: {name}"), life.share * DAY),
        50 => state(format!("CPU seconds an hour at 50 Hz: {name}"), life.share * HOUR),
        _ => {}
    }
    if life.jvm.is_some() {
        state(format!("CPU at {rate} Hz: {name} / C loop"), times);
    }
}

fn explained() -> String {
    format!(
        "Five files gathered and parsed at each tick. CPU time is of the run's second half, with all threads of the JVM\n\
         (thread: the gathering one alone, in % of a core); late and missed ticks are of the whole run. Take is what a\n\
         program calls. Not pinned; the JVM with G1, after {} gathers in a row: at 1 Hz, a JVM makes as many in eight\n\
         hours, and takes more CPU time until its JIT compiler has done its work.\n\
         2001: the paper states {} CPU seconds an hour at 50 Hz. Its fastest way gathers /proc/meminfo, alone, in a time\n\
         that comes to {} s a day at 1 Hz, and to {} s an hour at 50 Hz.\n",
        thousands(WARM.map_or(0.0, f64::from)),
        figure(PAPER_HOUR_AT_50_HZ),
        figure(paper_seconds(1.0, DAY)),
        figure(paper_seconds(50.0, HOUR)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_own_figure_agrees_with_its_rate() {
        let computed = paper_seconds(50.0, HOUR);
        assert!((computed - PAPER_HOUR_AT_50_HZ).abs() < 0.5, "{computed}");
        assert!(explained().contains("2.55 s a day at 1 Hz"), "{}", explained());
    }
}
