//! Bytes a value: real recordings of this machine at 1, 10 and 100 Hz under four workloads, and a day at 1 Hz made of each.
//! VictoriaMetrics beside, on the same samples, where Debian's package is installed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use khz_model::{Nanos, NodeName};
use khz_store::{ColumnFile, NodeRows, StoreError, merge, roll_up, write_rows};

use crate::agent::build_agent;
use crate::columns::{self, Rows};
use crate::error::BenchError;
use crate::load::Load;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::store::folder::Scratch;
use crate::store::synthetic::Synthetic;
use crate::store::victoria::{self, Victoria};
use crate::table::{Table, figure, thousands};

/// A workload, and what makes it.
const WORKLOADS: [(&str, &[&str]); 4] = [
    ("idle", &[]),
    ("compile", &["compile", "compile"]),
    ("netcopy", &["copy"]),
    ("mempressure", &["pressure"]),
];
/// Rates, and for how many seconds each is recorded: in full, quick.
const RATES: [(u64, (u64, u64)); 3] = [(1, (300, 30)), (10, (60, 10)), (100, (30, 5))];
/// The workload runs this long before it is recorded.
const WARM_UP: Duration = Duration::from_secs(3);
/// Hours of a day that is made up, in full and quick.
const HOURS: (u64, u64) = (24, 1);
const HOUR_ROWS: u64 = 3_600;
/// The time of one file before it is merged.
const PIECE: u64 = 600 * Nanos::SECOND.0;
/// The node's name in files.
const NODE: &str = "node";
/// Midnight of 2025-11-13.
const MIDNIGHT: Nanos = Nanos(1_762_992_000_000_000_000);

/// Bytes and values of some rows.
#[derive(Clone, Copy, Default)]
struct Size {
    slots: u64,
    values: u64,
    /// Rows as columns, and their roll-ups.
    bytes: u64,
    rolled: u64,
    /// VictoriaMetrics: samples, bytes, and bytes of its index.
    theirs: Option<(u64, u64, u64)>,
}

impl Size {
    fn a_value(&self, bytes: u64) -> f64 {
        bytes as f64 / self.values.max(1) as f64
    }

    /// VictoriaMetrics, bytes a sample.
    fn their_value(&self) -> Option<f64> {
        self.theirs.map(|(samples, data, _)| data as f64 / samples.max(1) as f64)
    }

    fn add(&mut self, more: &Size) {
        self.slots += more.slots;
        self.values += more.values;
        self.bytes += more.bytes;
        self.rolled += more.rolled;
        let both = self.theirs.zip(more.theirs);
        self.theirs = both.map(|(one, two)| (one.0 + two.0, one.1 + two.1, one.2 + two.2));
    }
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let program = build_agent()?;
    let scratch = Scratch::new("sizes")?;
    let heads = ["recording", "values", "B/slot", "B/value", "rolled up", "VM", "VM index"];
    let mut table = Table::new(&heads);
    let zero = Size { theirs: Some((0, 0, 0)), ..Size::default() };
    let (mut days, mut rates) = (zero, [zero; RATES.len()]);
    for (workload, workers) in WORKLOADS {
        let load = Load::of(workers)?;
        std::thread::sleep(WARM_UP);
        let mut recorded = Vec::new();
        for (rate, seconds) in RATES {
            record.progress(&format!("{workload} is recorded at {rate} Hz"));
            let path = scratch.at(&format!("{workload}-{rate}.khzt"));
            khz_record(&program, rate, record.effort.of(seconds.0, seconds.1), &path)?;
            recorded.push(rows_of(&path)?);
        }
        drop(load);
        for (((rate, _), rows), all) in RATES.iter().zip(&recorded).zip(&mut rates) {
            record.progress(&format!("{workload} at {rate} Hz is written"));
            let mut writing = Writing::begin(&scratch.at("one"))?;
            writing.take(rows)?;
            let size = writing.end()?;
            keep(record, &mut table, &format!("{workload} {rate} Hz"), &size);
            all.add(&size);
        }
        let mut day = Synthetic::of(&recorded[0], MIDNIGHT)
            .ok_or_else(|| failed("khz record", format!("{workload} has too few rows")))?;
        let mut writing = Writing::begin(&scratch.at("day"))?;
        for hour in 0..record.effort.of(HOURS.0, HOURS.1) {
            record.progress(&format!("a day of {workload}: hour {}", hour + 1));
            writing.take(&day.take(HOUR_ROWS))?;
        }
        let size = writing.end()?;
        keep(record, &mut table, &format!("{workload} a day"), &size);
        days.add(&size);
    }
    record.show("## Bytes a value", &table);
    record.say(
        "Recorded by `khz record --direct`, all sources and khz's own numbers. A day: made of the rows at 1 Hz. Slots of what is\n\
         gone have a state and no value. B/value: merged hours; `rolled up`: their minutes and hours on top. VM: bytes a sample\n\
         of VictoriaMetrics without its index, which is in the last column; it keeps no labels as values, and times in ms.\n",
    );
    if days.theirs.is_none_or(|(samples, ..)| samples == 0) {
        record.say(&format!(
            "{0} is not installed (Debian package {0}): nothing is compared with it.\n",
            victoria::NAME
        ));
    }
    for ((rate, _), size) in RATES.iter().zip(&rates) {
        let name = format!("size of recordings at {rate} Hz: bytes a value");
        record.verdict(&name, Spread::of([size.a_value(size.bytes)]), Bound::Stated);
        let name = format!("the same of VictoriaMetrics at {rate} Hz");
        record.verdict(&name, Spread::of(size.their_value()), Bound::Stated);
    }
    let bound = record.effort.of(Bound::AtMost(0.4), Bound::Stated);
    record.verdict("size of a day at 1 Hz: bytes a value", Spread::of([days.a_value(days.bytes)]), bound);
    let with_rolled = days.a_value(days.bytes + days.rolled);
    record.verdict("the same with its roll-ups", Spread::of([with_rolled]), Bound::Stated);
    record.verdict("the same of VictoriaMetrics", Spread::of(days.their_value()), Bound::Stated);
    let ratio = days.their_value().map(|theirs| days.a_value(days.bytes) / theirs);
    let bound = record.effort.of(Bound::AtMost(1.0), Bound::Stated);
    record.verdict("size of a day: as a multiple of VictoriaMetrics'", Spread::of(ratio), bound);
    Ok(())
}

fn keep(record: &mut Record, table: &mut Table, case: &str, size: &Size) {
    let theirs = size.theirs.unwrap_or_default();
    for (what, value) in [
        ("slots", size.slots),
        ("values", size.values),
        ("bytes", size.bytes),
        ("rolled_bytes", size.rolled),
        ("vm_samples", theirs.0),
        ("vm_bytes", theirs.1),
        ("vm_index_bytes", theirs.2),
    ] {
        record.sample(["sizes", case, "khz"], 0, what, value as f64);
    }
    let a_sample = |bytes: u64| size.theirs.map(|(samples, ..)| bytes as f64 / samples.max(1) as f64);
    let shown = |bytes: Option<f64>| bytes.map_or_else(|| "-".into(), figure);
    table.row([
        case.to_owned(),
        thousands(size.values as f64),
        figure(size.bytes as f64 / size.slots.max(1) as f64),
        figure(size.a_value(size.bytes)),
        figure(size.a_value(size.rolled)),
        shown(a_sample(theirs.1)),
        shown(a_sample(theirs.2)),
    ]);
}

fn khz_record(program: &Path, rate: u64, seconds: u64, path: &Path) -> Result<(), BenchError> {
    let mut command = Command::new(program);
    command.args(["record", "--direct", "--quiet", "--rate", &format!("{rate}Hz")]);
    command.args(["--for", &format!("{seconds}s"), "-o"]).arg(path);
    let output = command.output().map_err(|error| failed("khz record", error))?;
    // 3: rows are missing, because the machine was too busy.
    match output.status.code() {
        Some(0 | 3) => Ok(()),
        _ => Err(failed("khz record", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn rows_of(path: &Path) -> Result<Rows, BenchError> {
    let nodes = columns::read(path)?;
    nodes.into_values().next().ok_or_else(|| failed("khz record", "it has recorded no rows"))
}

fn wrong(error: StoreError) -> BenchError {
    failed("column files", error)
}

/// Rows on their way into files, ours and theirs.
struct Writing {
    folder: PathBuf,
    hours: Vec<PathBuf>,
    size: Size,
    victoria: Option<Victoria>,
}

impl Writing {
    /// Begins in an empty folder.
    fn begin(folder: &Path) -> Result<Self, BenchError> {
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder).map_err(BenchError::file(folder))?;
        let victoria = Victoria::start(&folder.join("victoria"))?;
        Ok(Writing { folder: folder.to_owned(), hours: Vec::new(), size: Size::default(), victoria })
    }

    /// Rows of an hour, or fewer.
    fn take(&mut self, rows: &Rows) -> Result<(), BenchError> {
        let name = NodeName::new(NODE).map_err(|error| failed("a name", error))?;
        // Slots of what is gone have a state and no value.
        let has_value = |state: &&u8| matches!(state, 0 | 64);
        self.size.slots += rows.iter().map(|(.., values)| values.len() as u64).sum::<u64>();
        self.size.values +=
            rows.iter().map(|(_, _, states, _)| states.iter().filter(has_value).count() as u64).sum::<u64>();
        let mut pieces = Vec::new();
        for (number, rows) in
            rows.chunk_by(|one, next| one.0.real().0 / PIECE == next.0.real().0 / PIECE).enumerate()
        {
            let mut node = NodeRows::new();
            for (stamp, columns, states, values) in rows {
                node.columns(columns).and_then(|()| node.row(*stamp, states, values)).map_err(wrong)?;
            }
            let path = self.folder.join(format!("piece-{number}.col"));
            write_rows(&path, [(name.clone(), node)]).map_err(wrong)?;
            pieces.push(path);
        }
        let path = self.folder.join(format!("hour-{}.col", self.hours.len()));
        self.size.bytes += merge(&path, &open(&pieces)?).map_err(wrong)?.written.bytes;
        self.hours.push(path);
        match &mut self.victoria {
            Some(victoria) => victoria.take(NODE, rows),
            None => Ok(()),
        }
    }

    fn end(mut self) -> Result<Size, BenchError> {
        let (minutes, hours) = (self.folder.join("minutes.col"), self.folder.join("hours.col"));
        let rolled = roll_up(&minutes, &open(&self.hours)?, Nanos::from_secs(60)).map_err(wrong)?;
        self.size.rolled += rolled.written.bytes;
        let rolled = roll_up(&hours, &open(&[minutes])?, Nanos::from_secs(3_600)).map_err(wrong)?;
        self.size.rolled += rolled.written.bytes;
        if let Some(victoria) = self.victoria.take() {
            let stored = victoria.end()?;
            self.size.theirs = Some((stored.samples, stored.data, stored.index));
        }
        Ok(self.size)
    }
}

fn open(paths: &[PathBuf]) -> Result<Vec<ColumnFile>, BenchError> {
    let layouts = Arc::default();
    paths.iter().map(|path| ColumnFile::open(path, &layouts).map_err(wrong)).collect()
}
