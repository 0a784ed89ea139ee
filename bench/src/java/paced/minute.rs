//! 1,000 Hz for a minute: whether the JVM meets its ticks as the C loop does, with each of two garbage collectors.

use crate::error::BenchError;
use crate::java::paced::life::{Jvm, Kind, Life, Loop};
use crate::java::paced::{G1, Loops, ZGC};
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure, thousands};

const RATE: u64 = 1_000;

/// Programs call `take`, so that is what has to meet its ticks.
const LOOPS: [Loop; 3] = [
    Loop { name: "C loop", kind: Kind::C },
    Loop { name: "G1", kind: Kind::Jvm { way: "take", flag: G1, warm: None } },
    Loop { name: "ZGC", kind: Kind::Jvm { way: "take", flag: ZGC, warm: None } },
];

/// Missed ticks that the JVM may have beyond the C loop's.
const MORE_MISSED: f64 = 0.0;

/// How often each loop runs, in turns: what else happens on the machine meets all three.
const TURNS: usize = 3;

/// Runs the loops in turns.
pub fn run(record: &mut Record, loops: &Loops) -> Result<(), BenchError> {
    let heads =
        ["loop", "turn", "ticks", "missed", "late", "CPU %", "RSS MB", "pauses", "longest ms", "wake us"];
    let mut table = Table::new(&heads);
    let mut lives: [Vec<Life>; 3] = Default::default();
    for turn in 0..record.effort.of(TURNS, 1) {
        for (one, lives) in LOOPS.iter().zip(&mut lives) {
            record.progress(&format!("1,000 Hz, {}, turn {}", one.name, turn + 1));
            let life = one.run(loops, RATE, record.effort.of(60, 5))?;
            life.keep(record, "1000 Hz", one.name, turn);
            table.row(row(one, turn, &life));
            lives.push(life);
        }
    }
    let [c, jvms @ ..] = &lives;
    let missed = Spread::of(c.iter().map(|life| life.missed));
    record.verdict("1,000 Hz: missed ticks of the C loop", missed, Bound::Stated);
    for (one, lives) in LOOPS[1..].iter().zip(jvms) {
        promise(record, one.name, lives, c);
    }
    let seconds = record.effort.of("a minute", "5 s");
    record.show(&format!("## 1,000 Hz for {seconds}: the C loop, and the JVM with two collectors"), &table);
    record.say(&format!(
        "The JVM calls take. Ticks are counted from the first on, while the JIT compiler works; CPU time is of the second\n\
         half. Pauses of the garbage collector in whole ms. Wake: how long after its time a tick begins, in the middle; the\n\
         kernel may delay a sleep of either loop by its timer slack, {}. Neither is pinned.\n",
        timer_slack().map_or(String::from("which is not known"), |ns| format!("{} us", figure(ns / 1e3))),
    ));
    Ok(())
}

fn row(one: &Loop, turn: usize, life: &Life) -> [String; 10] {
    let own = |of: &dyn Fn(&Jvm) -> f64| life.jvm.as_ref().map(of);
    [
        one.name.to_owned(),
        (turn + 1).to_string(),
        thousands(life.ticks),
        thousands(life.missed),
        thousands(life.late),
        figure(life.share * 100.0),
        figure(life.resident_kb / 1e3),
        own(&|jvm| jvm.pauses).map_or(String::new(), thousands),
        own(&|jvm| jvm.longest_pause_ms).map_or(String::new(), thousands),
        own(&|jvm| jvm.wake_ns / 1e3).map_or(String::new(), figure),
    ]
}

/// What the JVM promises beside the C loop of the same turn, and what it costs.
fn promise(record: &mut Record, name: &str, lives: &[Life], c: &[Life]) {
    let more = lives.iter().zip(c).map(|(life, c)| life.missed - c.missed);
    let missed = format!("1,000 Hz, {name}: missed ticks above the C loop's");
    record.verdict(&missed, Spread::of(more), Bound::AtMost(MORE_MISSED));
    let own =
        |of: &dyn Fn(&Jvm) -> f64| Spread::of(lives.iter().filter_map(|life| life.jvm.as_ref()).map(of));
    for (what, spread) in [
        ("longest GC pause in ms", own(&|jvm| jvm.longest_pause_ms)),
        ("CPU %", Spread::of(lives.iter().map(|life| life.share * 100.0))),
        ("RSS in MB", Spread::of(lives.iter().map(|life| life.resident_kb / 1e3))),
        ("bytes allocated in the second half", own(&|jvm| jvm.bytes)),
    ] {
        record.verdict(&format!("1,000 Hz, {name}: {what}"), spread, Bound::Stated);
    }
}

/// By how many nanoseconds the kernel may delay a sleep of this process and of those that it starts.
fn timer_slack() -> Option<f64> {
    std::fs::read_to_string("/proc/self/timerslack_ns").ok()?.trim().parse().ok()
}
