//! What history costs as columns: a recording, its nodes' rows as ten-minute files, merged, rolled up, and read again.
//! It prints bytes and CPU time for each value; it compares with nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use khz_model::{Nanos, NodeName, Series, Stamp};
use khz_record::{Event, Recording};
use khz_store::{ColumnFile, History, Key, NodeRows, StoreError, merge, roll_up, write_rows};
use rustix::time::{ClockId, clock_gettime};

use crate::error::BenchError;
use crate::program::failed;

/// The time of one file before it is merged.
const PIECE: Nanos = Nanos::from_secs(600);
/// The files of three weeks, and the rows of each: an hour at 1 Hz.
const HOURS: u64 = 504;
const HOUR_ROWS: u64 = 3_600;
/// Series of the node in the three weeks: as many as it takes for a file to look like a real one, and no more.
const WEEKS_SERIES: usize = 24;
/// Buckets of the question about three weeks.
const POINTS: u64 = 1_000;
/// The finer roll-up.
const MINUTE: Nanos = Nanos::from_secs(60);
/// Questions, of which the fastest and the middle one are printed.
const QUESTIONS: usize = 11;

/// Rows of one node.
pub type Rows = Vec<(Stamp, Arc<Vec<Series>>, Vec<u8>, Vec<u64>)>;

/// Measures a recording; files are written into `folder`.
pub fn measure(recording: &Path, folder: &Path) -> Result<(), BenchError> {
    fs::create_dir_all(folder).map_err(BenchError::file(folder))?;
    let nodes = read(recording)?;
    let values: usize = nodes.values().flatten().map(|(.., values)| values.len()).sum();
    // Slots of what is gone have a state and no value.
    let has_value = |states: &Vec<u8>| states.iter().filter(|&&state| state == 0 || state == 64).count();
    let present: usize = nodes.values().flatten().map(|(_, _, states, _)| has_value(states)).sum();
    println!("{}: {} nodes, {values} slots, {present} values", recording.display(), nodes.len());
    let per_value = |what: &str, bytes: u64, nanos: u64, count: usize| {
        let (slots, values) = (values.max(1) as f64, present.max(1) as f64);
        println!(
            "{what:<24} {:.3} bytes a slot, {:.3} a value, {:.1} ns of CPU a slot",
            bytes as f64 / slots,
            bytes as f64 / values,
            nanos as f64 / count.max(1) as f64
        );
    };

    let mut pieces = Vec::new();
    let (mut bytes, start) = (0, cpu());
    for (number, piece) in cut(&nodes).into_iter().enumerate() {
        let path = folder.join(format!("piece-{number}.khzc"));
        bytes += write_rows(&path, piece).map_err(store)?.bytes;
        pieces.push(path);
    }
    per_value("ten-minute files", bytes, cpu() - start, values);

    let (hour, start) = (folder.join("hour.khzc"), cpu());
    let written = merge(&hour, &open(&pieces)?).map_err(store)?.written;
    per_value("merged", written.bytes, cpu() - start, values);

    for (name, resolution) in [("minutes", 60), ("hours", 3_600)] {
        let (path, start) = (folder.join(format!("{name}.khzc")), cpu());
        let files = open(std::slice::from_ref(&hour))?;
        let written = roll_up(&path, &files, Nanos::from_secs(resolution)).map_err(store)?.written;
        per_value(&format!("rolled up to {name}"), written.bytes, cpu() - start, values);
    }

    let (history, start) = (History::of(open(&[hour])?).map_err(store)?, cpu());
    let mut read = 0;
    for (node, rows) in &nodes {
        for key in rows.last().into_iter().flat_map(|(_, columns, ..)| columns.iter().map(Key::of)) {
            history.range(node, &key, Nanos(0), Nanos(u64::MAX), |_, _| read += 1).map_err(store)?;
        }
    }
    per_value("read, series by series", 0, cpu() - start, read);
    weeks(&nodes, folder)
}

/// One series over three weeks at 1 Hz: the recording over and over.
fn weeks(nodes: &BTreeMap<NodeName, Rows>, folder: &Path) -> Result<(), BenchError> {
    let Some((node, rows)) = nodes.first_key_value() else { return Ok(()) };
    let mut paths = Vec::new();
    let mut next = rows.iter().cycle();
    for hour in 0..HOURS {
        let mut piece = NodeRows::new();
        let columns: Vec<Series> = rows[0].1.iter().take(WEEKS_SERIES).cloned().collect();
        piece.columns(&Arc::new(columns)).map_err(store)?;
        for row in 0..HOUR_ROWS {
            let Some((stamp, _, states, values)) = next.next() else { continue };
            let boot = Nanos((hour * HOUR_ROWS + row) * Nanos::SECOND.0 + stamp.boot.0 % 1_000_000);
            piece.row(Stamp { boot, ..*stamp }, states, values).map_err(store)?;
        }
        let path = folder.join(format!("hour-{hour}.khzc"));
        write_rows(&path, [(node.clone(), piece)]).map_err(store)?;
        paths.push(path);
    }
    let mut days = Vec::new();
    for (day, hours) in paths.chunks(24).enumerate() {
        let path = folder.join(format!("day-{day}.khzc"));
        roll_up(&path, &open(hours)?, MINUTE).map_err(store)?;
        days.push(path);
    }
    let width = HOURS * HOUR_ROWS * Nanos::SECOND.0 / POINTS;
    ask(nodes, "seconds", &History::of(open(&paths)?).map_err(store)?, Nanos(width))?;
    // Buckets of whole minutes need no seconds.
    let width = Nanos(width.next_multiple_of(MINUTE.0));
    ask(nodes, "minutes", &History::of(open(&days)?).map_err(store)?, width)
}

/// Asks for some series of three weeks.
fn ask(
    nodes: &BTreeMap<NodeName, Rows>,
    what: &str,
    history: &History,
    width: Nanos,
) -> Result<(), BenchError> {
    let Some((node, rows)) = nodes.first_key_value() else { return Ok(()) };
    let from = rows.first().map_or(0, |(stamp, ..)| stamp.real_offset).max(0).cast_unsigned();
    let from = from - from % MINUTE.0;
    let span = HOURS * HOUR_ROWS * Nanos::SECOND.0;
    for series in rows[0].1.iter().take(WEEKS_SERIES).step_by(4) {
        let (key, mut times) = (Key::of(series), Vec::new());
        for _ in 0..QUESTIONS {
            let start = cpu();
            let answer =
                history.buckets(node, &key, Nanos(from), Nanos(from + span), width).map_err(store)?;
            let count: u64 = answer.found.iter().flatten().map(|summary| summary.count).sum();
            times.push((cpu() - start, count));
        }
        times.sort_unstable();
        let (fastest, middle) = (times[0], times[QUESTIONS / 2]);
        println!(
            "three weeks of {series} out of {what}: {} values as {} points in {:.1} ms of CPU (fastest {:.1})",
            middle.1,
            span.div_ceil(width.0),
            middle.0 as f64 / 1e6,
            fastest.0 as f64 / 1e6,
        );
    }
    Ok(())
}

/// The rows of a recording.
pub fn read(recording: &Path) -> Result<BTreeMap<NodeName, Rows>, BenchError> {
    let (mut lanes, mut columns) = (BTreeMap::new(), BTreeMap::new());
    let mut nodes: BTreeMap<NodeName, Rows> = BTreeMap::new();
    let read = Recording::of(&[recording.to_owned()]).read(|event| match event {
        Event::Lane(number, lane, _) => {
            lanes.insert(number, NodeName::new(&lane.node));
        }
        Event::Columns(number, series) => {
            columns.insert(number, series);
        }
        Event::Block(block) => {
            let (Some(Ok(node)), Some(series)) = (lanes.get(&block.lane), columns.get(&block.lane)) else {
                return;
            };
            let rows = nodes.entry(node.clone()).or_default();
            block.rows(|_, row| {
                rows.push((row.stamp(), series.clone(), row.states().to_vec(), row.values().to_vec()));
            });
        }
        Event::Lost(..) | Event::Note(_) | Event::ClockSet(_) => {}
    });
    read.map_err(|error| failed("the recording", error))?;
    Ok(nodes)
}

/// The rows of all nodes in pieces of ten minutes.
fn cut(nodes: &BTreeMap<NodeName, Rows>) -> Vec<Vec<(NodeName, NodeRows)>> {
    let mut pieces: BTreeMap<u64, BTreeMap<NodeName, NodeRows>> = BTreeMap::new();
    for (node, rows) in nodes {
        for (stamp, columns, states, values) in rows {
            let piece = pieces.entry(stamp.real().0 / PIECE.0).or_default();
            let rows = piece.entry(node.clone()).or_default();
            // A recording has one definition of each series.
            let _ = rows.columns(columns).and_then(|()| rows.row(*stamp, states, values));
        }
    }
    pieces.into_values().map(|nodes| nodes.into_iter().collect()).collect()
}

fn open(paths: &[PathBuf]) -> Result<Vec<ColumnFile>, BenchError> {
    let layouts = Arc::default();
    paths.iter().map(|path| ColumnFile::open(path, &layouts).map_err(store)).collect()
}

fn store(error: StoreError) -> BenchError {
    failed("the store", error)
}

/// CPU time of this thread, in ns.
fn cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * Nanos::SECOND.0 + time.tv_nsec.cast_unsigned()
}
