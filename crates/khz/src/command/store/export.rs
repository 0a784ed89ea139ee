//! `khz store export`: a span of a store as a recording, which all commands read. It needs no hub, and reads a store also while
//! a hub writes it.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use khz_block::trace::LaneHead;
use khz_block::{Encoder, HEADER_BYTES, SchemaEncoder};
use khz_model::{
    Absence, Budget, ByteSize, Nanos, NodeName, Pattern, RangeContent, RangePart, RangeRequest, RangeShape,
    Ranges, Reading, Series, Stamp,
};
use khz_record::{Recorder, Rotation};
use khz_store::StoreReader;
use khz_store::range::RangeReader;
use serde_json::json;

use crate::command::past::{Span, now};
use crate::config::StoreFlags;
use crate::show::outcome::{Done, Failure, Outcome, sentence};
use crate::show::table::say;

/// Examples for `khz store export --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz store export -o all.khzt      everything that this machine's hub stored
  khz store export /srv/khz -m 'node[1-8]:net.*' --from '2026-11-21 14:00:00' \\
          --to '2026-11-21 15:00:00' -o net.khzt
                                    an hour of some series of another store";

/// Memory for what is read at a time: an hour of one node.
const MEMORY: ByteSize = ByteSize(1 << 30);

/// `khz store export`.
#[derive(Debug, Args)]
pub struct StoreExportFlags {
    /// The directory of the store [default: that of this machine's hub].
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Write this recording.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Only these series: [NODES:]METRIC[INSTANCE]; may be given several times.
    #[arg(short = 'm', long = "match", value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// Only from this moment on: '2026-11-21 14:00:00', or how long ago, as -2h.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// Only to this moment.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// The settings.
    #[command(flatten)]
    pub settings: StoreFlags,
}

/// Writes what the flags choose into a recording.
pub fn export(flags: &StoreExportFlags, directory: &Path, out: &mut impl Write) -> Outcome {
    let mut patterns = crate::command::patterns(&flags.patterns)?;
    if patterns.is_empty() {
        patterns.push(Pattern::everything());
    }
    let Span { from, to } = match (&flags.from, &flags.to) {
        (Some(from), to) => Span::of(from, to.as_deref())?,
        (None, Some(to)) => Span { from: Nanos(0), to: crate::command::past::moment("to", to)? },
        (None, None) => Span { from: Nanos(0), to: Nanos(u64::MAX) },
    };
    let failed = |error: &dyn std::error::Error| Failure::work(sentence(error));
    let store = StoreReader::open(directory).map_err(|error| failed(&error))?;
    let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()))
        .with_limits(Budget::new(MEMORY, Arc::default()), u64::MAX);
    let request = RangeRequest { patterns, from, to, shape: RangeShape::Rows };
    let mut answer = reader.range(request).map_err(|error| failed(&error))?;
    let mut export = Export::create(&flags.output, directory)?;
    let (mut group, mut damage) = (Vec::new(), store.damage().len());
    while let Some(part) = answer.next().map_err(|error| failed(&error))? {
        let is_next = |one: &RangePart| one.node == part.node && one.step == part.step;
        if group.last().is_some_and(|last| !is_next(last)) {
            export.step(&std::mem::take(&mut group))?;
        }
        group.push(part);
        damage += say_all(answer.damage());
    }
    damage += say_all(answer.damage());
    export.step(&group)?;
    let (rows, nodes) = export.finish()?;
    writeln!(out, "{rows} rows of {nodes} nodes")?;
    out.flush()?;
    match (damage, rows) {
        (0, 0) => Err(Failure::work("the store has nothing of these series in that time")),
        (0, _) => Ok(Done::Wholly),
        _ => Err(Failure::Reported),
    }
}

fn say_all(sentences: Vec<String>) -> usize {
    sentences.iter().for_each(|sentence| say(sentence));
    sentences.len()
}

/// The recording that is written.
struct Export {
    recorder: Recorder,
    lanes: HashMap<NodeName, Lane>,
    /// The rows get numbers of their own, and so another epoch than at their node.
    epoch: u64,
}

/// The one lane of a node.
struct Lane {
    number: u32,
    generation: u32,
    series: Vec<Series>,
    encoder: Encoder,
    block: Vec<u8>,
}

impl Export {
    fn create(path: &Path, store: &Path) -> Result<Self, Failure> {
        let note = json!({"store": store.display().to_string()}).to_string();
        let recorder = Recorder::create(path, Rotation::default(), note, Nanos(0)).map_err(of_recorder)?;
        Ok(Export { recorder, lanes: HashMap::new(), epoch: now().0 })
    }

    /// Writes the rows of one node in one step.
    fn step(&mut self, parts: &[RangePart]) -> Result<(), Failure> {
        let Some(first) = parts.first() else { return Ok(()) };
        let rows = rows(parts);
        let series: Vec<Series> = parts.iter().map(|part| part.series.clone()).collect();
        if !self.lanes.contains_key(&first.node) {
            self.begin(&first.node, period(&rows))?;
        }
        let Export { recorder, lanes, .. } = self;
        let Some(lane) = lanes.get_mut(&first.node) else { return Ok(()) };
        if lane.series != series {
            lane.close(recorder)?;
            lane.renew(series, recorder)?;
        }
        for (stamp, readings) in rows.into_values() {
            lane.row(stamp, &readings, recorder)?;
        }
        Ok(())
    }

    fn begin(&mut self, node: &NodeName, period: Nanos) -> Result<(), Failure> {
        let number = self.lanes.len() as u32 + 1;
        let head =
            LaneHead { lane: number, node: node.as_str(), name: "base", epoch: self.epoch, period: period.0 };
        self.recorder.lane(&head).map_err(of_recorder)?;
        let encoder = Encoder::new(0, 0, period);
        let lane = Lane { number, generation: 0, series: Vec::new(), encoder, block: Vec::new() };
        self.lanes.insert(node.clone(), lane);
        Ok(())
    }

    /// Returns how many rows of how many nodes it has.
    fn finish(mut self) -> Result<(u64, usize), Failure> {
        for lane in self.lanes.values_mut() {
            lane.close(&mut self.recorder)?;
        }
        let counts = self.recorder.finish("{}").map_err(of_recorder)?;
        Ok((counts.rows, self.lanes.len()))
    }
}

impl Lane {
    /// The slots have these meanings from here on.
    fn renew(&mut self, series: Vec<Series>, recorder: &mut Recorder) -> Result<(), Failure> {
        let (mut schema, mut bytes) = (SchemaEncoder::new(), Vec::new());
        for series in &series {
            schema.append(series, &mut bytes).map_err(|error| Failure::work(sentence(&error)))?;
        }
        self.generation += 1;
        self.series = series;
        recorder.schema(self.number, self.generation, 0, &bytes).map_err(of_recorder)
    }

    fn row(&mut self, stamp: Stamp, readings: &[Reading], recorder: &mut Recorder) -> Result<(), Failure> {
        let reading = |slot: usize| (readings[slot].state(), readings[slot].bits());
        if self.encoder.rows_open() > 0 && !self.encoder.wants_new_block(stamp) {
            self.encoder.delta_row(stamp, 0..readings.len(), reading, &mut self.block);
            return Ok(());
        }
        self.close(recorder)?;
        self.encoder.resume(self.encoder.rows(), self.generation);
        self.encoder.key_row(stamp, readings.len(), reading, &mut self.block);
        Ok(())
    }

    fn close(&mut self, recorder: &mut Recorder) -> Result<(), Failure> {
        let Some(header) = self.encoder.close() else { return Ok(()) };
        self.block[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        let written = recorder.block(self.number, &self.block).map_err(of_recorder);
        self.block.clear();
        written
    }
}

fn of_recorder(error: khz_record::RecordError) -> Failure {
    Failure::work(sentence(&error))
}

/// The rows of parts that belong together, by their times: what a series does not have in a row is absent.
fn rows(parts: &[RangePart]) -> BTreeMap<(u64, u64), (Stamp, Vec<Reading>)> {
    let mut rows = BTreeMap::new();
    for (slot, part) in parts.iter().enumerate() {
        let RangeContent::Readings(readings) = &part.content else { continue };
        for &(stamp, reading) in readings {
            let none = || (stamp, vec![Reading::Absent(Absence::NotYet); parts.len()]);
            let row = rows.entry((stamp.real().0, stamp.boot.0)).or_insert_with(none);
            row.1[slot] = reading;
        }
    }
    rows
}

/// How far apart rows are as a rule.
fn period(rows: &BTreeMap<(u64, u64), (Stamp, Vec<Reading>)>) -> Nanos {
    let times: Vec<u64> = rows.keys().map(|(real, _)| *real).collect();
    let mut apart: Vec<u64> =
        times.windows(2).map(|pair| pair[1] - pair[0]).filter(|&apart| apart > 0).collect();
    apart.sort_unstable();
    // Ticks are at whole milliseconds; a row may come a little later.
    let median = apart.get(apart.len() / 2).copied().unwrap_or(Nanos::SECOND.0);
    Nanos((median + 500_000) / 1_000_000 * 1_000_000).max(Nanos(1_000_000))
}
