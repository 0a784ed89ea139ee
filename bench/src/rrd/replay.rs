//! A log with a million updates after kill -9: the time until the first answer, and until all updates are
//! back.

use super::client::batches;
use super::daemons::{Daemon, Setup, Side};
use super::tree::{START, STEP, Tree};
use crate::error::BenchError;
use crate::program::build_directory;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure};

/// Updates of each file in the log.
const VALUES: i64 = 10;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let files = record.effort.of(100_000, 2_000);
    let tree = Tree::fresh(record, files)?;
    let folder = build_directory()?.join("bench-rrd-daemons");
    let mut both = Vec::new();
    for side in [Side::Theirs, Side::Ours] {
        record.progress(&format!("{} takes {VALUES} updates a file, then it is killed", side.name()));
        let mut daemon = Daemon::start(Setup::fresh(side, &folder)?)?;
        for value in 1..=VALUES {
            daemon.send(&batches(tree.paths().iter(), START + value * STEP), 1)?;
        }
        both.push(daemon.kill());
    }
    let (mut first, mut whole) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for turn in 0..record.effort.of(3, 1) {
        for (who, setup) in both.iter().enumerate() {
            let mut daemon = Daemon::start(setup.clone())?;
            if setup.side == Side::Ours {
                // Ours answers before it has read its log; rrdcached does not.
                daemon.wait("UpdatesPending", |pending| pending >= files as u64 * VALUES as u64)?;
            }
            let (answer, all) = (daemon.first_answer.as_secs_f64(), daemon.started.elapsed().as_secs_f64());
            first[who].push(answer);
            whole[who].push(all);
            for (what, value) in [("first answer s", answer), ("replayed s", all)] {
                record.sample(["replay", &files.to_string(), setup.side.name()], turn, what, value);
            }
            record.progress(&format!("turn {turn}, {}: {all:.1} s", setup.side.name()));
            daemon.kill();
        }
    }
    let mut table = Table::new(&["replay", "first answer s", "all replayed s", "lines/s"]);
    for (who, setup) in both.iter().enumerate() {
        let of = |figures: &[f64]| Spread::of(figures.iter().copied()).map_or(f64::NAN, |s| s.median);
        let all = of(&whole[who]);
        table.row([
            setup.side.name().into(),
            figure(of(&first[who])),
            figure(all),
            figure(files as f64 * VALUES as f64 / all),
        ]);
    }
    record.show(&format!("## Replay of {} updates of {files} files", files as i64 * VALUES), &table);
    let ratio = whole[0].iter().zip(&whole[1]).map(|(theirs, ours)| theirs / ours);
    record.verdict("replay, times as fast", Spread::of(ratio), Bound::AtLeast(3.0));
    record.verdict("first answer, seconds", Spread::of(first[1].iter().copied()), Bound::AtMost(1.0));
    Ok(())
}
