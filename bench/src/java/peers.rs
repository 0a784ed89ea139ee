//! The peer on the JVM: OSHI reads some values of the same five files, beside the gatherer, which reads all of them.

use std::time::Duration;

use crate::error::BenchError;
use crate::java::jvm::{Jvm, warm_up};
use crate::pairs::{Batch, interleave};
use crate::place::Pinned;
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure};

/// OSHI must take at least this many times the CPU time of ours.
const FEWER: f64 = 30.0;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let jvm = Jvm::build(record)?;
    let _pinned = Pinned::here()?;
    let frames = std::env::temp_dir(); // captured texts are not needed
    // How long OSHI keeps values holds for a whole JVM.
    let (fresh, usual) = (jvm.turns(&frames)?, jvm.turns(&frames)?);
    let warm = warm_up(record);
    let mut contenders = [
        fresh.contender("gatherer", "take", warm)?,
        fresh.contender("OSHI", "oshi fresh", 2 * warm)?,
        usual.contender("OSHI, which keeps values for 300 ms", "oshi usual", 2 * warm)?,
    ];
    let span = Duration::from_millis(record.effort.of(300, 100));
    let turns = interleave(&mut contenders, record.effort.pairs(), span)?;
    record.turns("peers", "hot", &turns);

    let mut table = Table::new(&["reader", "us/sample", "quartiles", "x the gatherer's"]);
    let ours = turns[0].map(Batch::cpu_micros);
    for one in &turns {
        let cost = one.map(Batch::cpu_micros);
        let times = Spread::of(ratios(&cost, &ours));
        let (Some(spread), Some(factor)) = (Spread::of(cost), times) else { continue };
        table.row([
            one.name.clone(),
            figure(spread.median),
            format!("{}..{}", figure(spread.lower), figure(spread.upper)),
            figure(factor.median),
        ]);
        match &*one.name {
            "gatherer" => {}
            "OSHI" => record.verdict("OSHI / the gatherer on the JVM", times, Bound::AtLeast(FEWER)),
            other => record.verdict(&format!("{other} / the gatherer"), times, Bound::Stated),
        }
    }
    record.show("## Peers on the JVM: CPU microseconds of the calling thread per sample", &table);
    record.say(
        "OSHI through JNA, with the values of the five files that it has; the gatherer with all of them.\n",
    );
    Ok(())
}
