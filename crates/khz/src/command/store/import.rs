//! `khz store import`: recordings into a store. It has one lane of each node; of several in a recording it takes the slowest.
//! Rows that the store has already are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use khz_model::{Columns, Nanos, NodeName, Series};
use khz_record::{Event, Lane, Recording};
use khz_store::log::{Intake, LoggedBlock, LoggedLane, SchemaHash};
use khz_store::{Key, Store, StoreError};

use super::{compact, open};
use crate::config::{Plan, StoreFlags};
use crate::role::store::now;
use crate::show::outcome::{Failure, Outcome, sentence};
use crate::show::table::say;

/// Examples for `khz store import --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz store import run.khzt --store /srv/khz
                                    a recording into a store that no hub writes";

/// Bytes of blocks after which they are committed: the log holds more, but not everything.
const COMMIT_BYTES: u64 = 32 << 20;

/// The share of the store's size that is committed at a time, if it is less: what the log has is no room for columns.
const COMMIT_SHARE: u64 = 32;

/// An hour in nanoseconds: the time of a file of rows.
const HOUR: u64 = 3_600_000_000_000;

/// `khz store import`.
#[derive(Debug, Args)]
pub struct StoreImportFlags {
    /// The recordings.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The settings.
    #[command(flatten)]
    pub settings: StoreFlags,
}

/// Puts the rows of recordings into a store, and makes columns of them.
pub fn import(files: &[PathBuf], plan: &Plan, out: &mut impl Write) -> Outcome {
    let recording = Recording::of(files);
    let directory = super::named(None, plan)?;
    std::fs::create_dir_all(&directory)
        .map_err(|error| Failure::work(format!("cannot create {}: {error}", directory.display())))?;
    let (store, intake) = open(&directory, plan)?;
    let (lanes, counts) = (Vec::new(), Counts::default());
    let commit_bytes = COMMIT_BYTES.min(plan.store.keep.0 / COMMIT_SHARE);
    let slowest = slowest(&recording)?;
    let mut import = Import { store: &store, intake, slowest, lanes, commit_bytes, waiting: 0, counts };
    let mut failure = None;
    let read = recording.read(|event| {
        if failure.is_none() {
            failure = import.take(event).err();
        }
    });
    if let Some(error) = failure {
        return Err(Failure::work(sentence(&error)));
    }
    let damaged = read.map_err(|error| Failure::work(sentence(&error)))?;
    let Counts { rows, known, other } = import.counts;
    writeln!(out, "{rows} rows taken in; {known} were there before; {other} of faster lanes are left out")?;
    let outcome = compact::all(&store, out)?;
    for (path, reach) in damaged.iter().filter(|(_, reach)| reach.damages > 0) {
        say(&format!(
            "{}: a part is damaged; what is whole was taken in ({} parts)",
            path.display(),
            reach.damages
        ));
    }
    match damaged.iter().any(|(_, reach)| reach.damages > 0) {
        true => Err(Failure::Reported),
        false => Ok(outcome),
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    rows: u64,
    known: u64,
    other: u64,
}

/// A lane of the recording.
struct Imported {
    /// `None`: the node has a slower one.
    lane: Option<Arc<LoggedLane>>,
    columns: Arc<dyn Columns>,
    hash: SchemaHash,
    /// What the column files have of it in the hour of its last block.
    filed: Option<Filed>,
}

/// The times in an hour at which the column files have all series of a schema.
struct Filed {
    hour: u64,
    hash: SchemaHash,
    times: BTreeSet<u64>,
}

struct Import<'a> {
    store: &'a Store,
    intake: Intake,
    /// The period of each node's slowest lane.
    slowest: BTreeMap<String, Nanos>,
    lanes: Vec<Imported>,
    /// Bytes after which there is a commit.
    commit_bytes: u64,
    /// Bytes that were handed over since the last commit.
    waiting: u64,
    counts: Counts,
}

impl Import<'_> {
    fn take(&mut self, event: Event<'_>) -> Result<(), StoreError> {
        match event {
            Event::Lane(number, lane, period) => self.lane(number, lane, period),
            Event::Columns(number, series) => {
                if let Some(lane) = self.lanes.get_mut(number) {
                    lane.hash = hash(&series);
                    lane.columns = series;
                }
            }
            Event::Block(block) => {
                let (number, header, bytes) = (block.lane, block.header, Arc::new(block.bytes().to_vec()));
                let mut times = Vec::new();
                block.rows(|_, row| times.push(row.stamp().real().0));
                let (rows, last) = (times.len() as u32, Nanos(times.last().copied().unwrap_or_default()));
                let Some(lane) = self.lanes.get_mut(number) else { return Ok(()) };
                let Some(logged) = lane.lane.clone() else {
                    self.counts.other += u64::from(rows);
                    return Ok(());
                };
                let end = header.first_row.saturating_add(rows.into());
                let is_logged =
                    logged.stored().iter().any(|&(from, to)| from <= header.first_row && end <= to);
                if is_logged || lane.has_filed(self.store, &logged, &times)? {
                    self.counts.known += u64::from(rows);
                    return Ok(());
                }
                self.counts.rows += u64::from(rows);
                self.waiting += bytes.len() as u64;
                let (schema, schema_hash) = (lane.columns.clone(), lane.hash);
                let block = LoggedBlock { header, rows, schema, schema_hash, bytes, last, shift: 0 };
                self.intake.block(&logged, block);
            }
            Event::Lost(..) | Event::Note(_) | Event::ClockSet(_) => {}
        }
        if self.waiting >= self.commit_bytes {
            self.waiting = 0;
            self.store.commit(now())?;
            // So that hours are rolled up before the store's size removes their rows.
            while !self.store.tick_compaction(now())?.is_idle() {}
        }
        Ok(())
    }

    fn lane(&mut self, number: usize, lane: &Lane, period: Nanos) {
        let is_slowest = self.slowest.get(&*lane.node) == Some(&period);
        let node = NodeName::new(&lane.node).ok().filter(|_| is_slowest);
        let nothing: Arc<dyn Columns> = Arc::new(Vec::<Series>::new());
        while self.lanes.len() <= number {
            self.lanes.push(Imported { lane: None, columns: nothing.clone(), hash: [0; 16], filed: None });
        }
        self.lanes[number].lane = node.map(|node| self.intake.lane(&node, lane.epoch));
    }
}

impl Imported {
    /// Whether the column files have all rows of these times, each with all series of the lane.
    fn has_filed(&mut self, store: &Store, lane: &LoggedLane, times: &[u64]) -> Result<bool, StoreError> {
        for &time in times {
            let hour = time - time % HOUR;
            let is_known = |filed: &&Filed| (filed.hour, filed.hash) == (hour, self.hash);
            let filed = match self.filed.take_if(|filed| is_known(&&*filed)) {
                Some(filed) => filed,
                None => {
                    let times = filed_times(store, lane, self.columns.series(), hour)?;
                    Filed { hour, hash: self.hash, times }
                }
            };
            let has = filed.times.contains(&time);
            self.filed = Some(filed);
            if !has {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The times in an hour at which the column files have all these series of a node.
fn filed_times(
    store: &Store,
    lane: &LoggedLane,
    series: &[Series],
    hour: u64,
) -> Result<BTreeSet<u64>, StoreError> {
    let (from, to) = (Nanos(hour), Nanos(hour.saturating_add(HOUR)));
    let files = store.shelf().history(Nanos(0), from, to)?.found;
    let mut all: Option<BTreeSet<u64>> = None;
    for series in series {
        let mut times = BTreeSet::new();
        // What cannot be read is not there: it is taken in again.
        files.range(lane.node(), &Key::of(series), from, to, |stamp, _| _ = times.insert(stamp.real().0))?;
        if let Some(all) = &all {
            times.retain(|time| all.contains(time));
        }
        if times.is_empty() {
            return Ok(times);
        }
        all = Some(times);
    }
    Ok(all.unwrap_or_default())
}

/// The period of each node's slowest lane.
fn slowest(recording: &Recording) -> Result<BTreeMap<String, Nanos>, Failure> {
    let mut slowest = BTreeMap::new();
    let read = recording.read(|event| {
        if let Event::Lane(_, lane, period) = event {
            let known = slowest.entry(lane.node.to_string()).or_insert(period);
            *known = period.max(*known);
        }
    });
    read.map_err(|error| Failure::work(sentence(&error)))?;
    Ok(slowest)
}

/// What tells one schema from every other one: the hash of its bytes.
fn hash(series: &[Series]) -> SchemaHash {
    let (mut encoder, mut bytes) = (khz_block::SchemaEncoder::new(), Vec::new());
    for series in series {
        // They were read out of such bytes, so they fit.
        let _ = encoder.append(series, &mut bytes);
    }
    khz_link::hash_of_schema(&bytes)
}
