//! How the cost of parsing grows with CPUs, interfaces and disks, on synthetic hosts. Leaves out the read: its cost
//! belongs to the kernel (about 2,780 instructions a CPU for /proc/stat, see docs).

use std::time::Duration;

use khz_model::{Absence, Reading};

use crate::error::BenchError;
use crate::five::{Frames, Swing, digits};
use crate::ours::Replayed;
use crate::pairs::{Batch, Contender, interleave};
use crate::place::Pinned;
use crate::record::Record;
use crate::spread::Spread;
use crate::synth::{self, Moving};
use crate::table::{Table, figure, thousands};

/// CPUs of the hosts.
const CPUS: [usize; 4] = [2, 64, 256, 1_152];

/// Interfaces of the hosts.
const INTERFACES: [usize; 4] = [2, 64, 256, 1_000];

/// Disks of the hosts.
const DISKS: [usize; 3] = [2, 64, 500];

/// Texts of each host.
const FRAMES: usize = 32;

/// At 1,000 Hz about one CPU in ten has changed since the last text: the kernel counts in 10 ms.
const FEW: Moving = Moving { one_in: 10 };

/// At 1 Hz all have changed.
const ALL: Moving = Moving { one_in: 1 };

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let _pinned = Pinned::here()?;
    let heads = ["host", "bytes", "values", "digits", "full", "tenth", "all", "ns/kB"];
    let mut table = Table::new(&heads);
    for cpus in CPUS {
        let hosts = [synth::stat(cpus, FEW, FRAMES), synth::stat(cpus, ALL, FRAMES)];
        row(record, &mut table, &format!("stat, {cpus} CPUs"), "stat", &hosts)?;
    }
    for interfaces in INTERFACES {
        let hosts = [synth::net_dev(interfaces, FEW, FRAMES), synth::net_dev(interfaces, ALL, FRAMES)];
        row(record, &mut table, &format!("net/dev, {interfaces} interfaces"), "net/dev", &hosts)?;
    }
    for disks in DISKS {
        let hosts = [synth::diskstats(disks, FEW, FRAMES), synth::diskstats(disks, ALL, FRAMES)];
        row(record, &mut table, &format!("diskstats, {disks} disks"), "diskstats", &hosts)?;
    }
    record.show("## How parsing grows with the host: CPU microseconds per text (medians)", &table);
    record.say(
        "Digits: the ordinary parse; full: ours by field name; tenth and all: ours, differential, with the\n\
         text copied first, when a tenth or all of the CPUs or interfaces moved. ns/kB: a tenth moved.\n",
    );
    Ok(())
}

fn row(
    record: &mut Record,
    table: &mut Table,
    host: &str,
    file: &str,
    [few, all]: &[Frames; 2],
) -> Result<(), BenchError> {
    let mut numbers = vec![0; 1 << 16];
    let parser = || Replayed::new(file);
    let (mut full, mut tenth, mut whole) = (parser()?, parser()?, parser()?);
    let [mut a, mut b, mut c, mut d] = [0; 4].map(|_: i32| Swing::new());
    let mut contenders = [
        Contender::call("digits", || {
            std::hint::black_box(digits(&all[a.next(all.len())], &mut numbers));
            Ok(())
        }),
        Contender::call("full", || {
            full.parser.lose(Reading::Absent(Absence::NotYet));
            full.take(&all[b.next(all.len())]);
            Ok(())
        }),
        Contender::call("one in ten", || {
            tenth.take(&few[c.next(few.len())]);
            Ok(())
        }),
        Contender::call("all", || {
            whole.take(&all[d.next(all.len())]);
            Ok(())
        }),
    ];
    let span = Duration::from_millis(record.effort.of(60, 20));
    let turns = interleave(&mut contenders, record.effort.pairs(), span)?;
    drop(contenders);
    record.turns("scale", &host.replace(", ", " "), &turns);
    let micros: Vec<f64> = turns
        .iter()
        .map(|t| Spread::of(t.map(Batch::cpu_micros)).map_or(f64::NAN, |spread| spread.median))
        .collect();
    let bytes = few[0].len();
    let mut cells =
        vec![host.to_owned(), thousands(bytes as f64), thousands(full.parser.values().len() as f64)];
    cells.extend(micros.iter().map(|&m| figure(m)));
    cells.push(figure(micros[2] * 1e6 / bytes as f64));
    table.row(cells);
    Ok(())
}
