//! A recorded workload as rows, with the changes in each, grouped as in its blocks.

use std::fs;
use std::path::Path;

use khz_block::trace::{Chunk, Chunks};
use khz_block::{Decoder, Encoder, Header, SchemaDecoder};
use khz_model::{Absence, Nanos, Reading, Series, Stamp};

use crate::error::BenchError;
use crate::program::failed;

/// Shorter groups are left out: there the schema grew, or the recording machine's clock was set. At 1 Hz they
/// would be half of a minute's groups, but only a thousandth of a day's.
const GROUP_ROWS_MIN: usize = 10;

/// State and value of each slot.
pub type Cells = Vec<(u8, u64)>;

/// A row.
pub struct Row {
    pub stamp: Stamp,
    /// The slots that differ from the row before, in order; in the first row of a group, all.
    pub changes: Vec<(u32, (u8, u64))>,
}

/// Rows of one workload at one rate.
pub struct Workload {
    /// "idle 100 Hz".
    pub name: String,
    /// Takes every how-many-th row of the recording.
    pub every: usize,
    /// The name of each slot.
    pub names: Vec<String>,
    /// What each slot means.
    pub series: Vec<Series>,
    pub period: Nanos,
    groups: Vec<Vec<Row>>,
}

/// Every recording of the folder, at 100 Hz and at 1 Hz.
pub fn all(folder: &Path) -> Result<Vec<Workload>, BenchError> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .map_err(BenchError::file(folder))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "khzt"))
        .collect();
    files.sort();
    let mut workloads = Vec::new();
    for file in files {
        for every in [1, 100] {
            workloads.push(Workload::read(&file, every)?);
        }
    }
    Ok(workloads)
}

impl Workload {
    fn read(file: &Path, every: usize) -> Result<Self, BenchError> {
        let bytes = fs::read(file).map_err(BenchError::file(file))?;
        let wrong = |e| failed(file.display().to_string(), e);
        let (mut schema, mut decoder) = (SchemaDecoder::new(), Decoder::new());
        let (mut rows, mut number) = (Vec::new(), 0);
        for chunk in Chunks::of(&bytes).map_err(wrong)? {
            match chunk.map_err(wrong)? {
                Chunk::Schema(bytes) => schema.feed(bytes).map_err(wrong)?,
                Chunk::Block(bytes) => super::decode_block(&mut decoder, bytes, |decoder| {
                    if number % every == 0 {
                        rows.push((decoder.stamp(), cells(decoder)));
                    }
                    number += 1;
                })?,
                // The workloads are traces of one lane.
                Chunk::Sealed(_) => {}
            }
        }
        let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let name = name.split('-').next().unwrap_or_default().to_owned();
        let period = decoder.header().map_or(Nanos::SECOND, |header| Nanos(header.period.0 * every as u64));
        let name = format!("{name} {} Hz", Nanos::SECOND.0 / period.0.max(1));
        let series = schema.series().to_vec();
        let names = series.iter().map(ToString::to_string).collect();
        let mut workload = Workload { name, every, names, series, period, groups: Vec::new() };
        workload.group(rows);
        Ok(workload)
    }

    /// Splits the rows into groups where blocks would end.
    fn group(&mut self, rows: Vec<(Stamp, Cells)>) {
        let (mut encoder, mut bytes) = (self.encoder(), Vec::new());
        let mut before = Cells::new();
        for (stamp, cells) in rows {
            bytes.clear();
            let slots = cells.len();
            if encoder.wants_new_block(stamp) || slots > before.len() {
                encoder.close();
                encoder.key_row(stamp, slots, |slot| cells[slot], &mut bytes);
                before.clear();
                self.groups.push(Vec::new());
            } else {
                encoder.delta_row(stamp, 0..slots, |slot| cells[slot], &mut bytes);
            }
            let all = (0..).zip(cells.iter().copied());
            let changes = all.filter(|&(slot, cell)| before.get(slot as usize) != Some(&cell)).collect();
            if let Some(group) = self.groups.last_mut() {
                group.push(Row { stamp, changes });
            }
            before = cells;
        }
        self.groups.retain(|group| group.len() >= GROUP_ROWS_MIN);
    }

    pub fn encoder(&self) -> Encoder {
        Encoder::new(0, 1, self.period)
    }

    /// Every row whole, in the order of the recording.
    pub fn rows(&self) -> Vec<(Stamp, Cells)> {
        let mut cells = vec![(Reading::Absent(Absence::NotYet).state(), 0); self.slots()];
        let rows = self.groups.iter().flatten();
        let whole = |row: &Row| {
            row.changes.iter().for_each(|&(slot, cell)| cells[slot as usize] = cell);
            (row.stamp, cells.clone())
        };
        rows.map(whole).collect()
    }

    /// The groups for training dictionaries ...
    pub fn training(&self) -> impl Iterator<Item = &[Row]> + Clone {
        self.groups.iter().skip(1).step_by(2).map(Vec::as_slice)
    }

    /// ... and the others, which are measured.
    pub fn measured(&self) -> impl Iterator<Item = &[Row]> + Clone {
        self.groups.iter().step_by(2).map(Vec::as_slice)
    }

    pub fn slots(&self) -> usize {
        self.names.len()
    }

    /// How many slots a row changes, not counting key rows.
    pub fn changes_per_row(&self) -> f64 {
        let deltas = self.measured().flat_map(|group| &group[1..]);
        let (rows, changes) = deltas.fold((0, 0), |(rows, sum), row| (rows + 1, sum + row.changes.len()));
        changes as f64 / f64::max(1.0, f64::from(rows))
    }

    /// Rows of a closed block.
    pub fn rows_of(&self, block: &[u8]) -> usize {
        let header = block.first_chunk().and_then(|head| Header::from_bytes(head, 0).ok());
        header.and_then(|header| header.closed).map_or(0, |(rows, ..)| rows as usize)
    }
}

fn cells(decoder: &Decoder) -> Cells {
    let readings = (0..decoder.slots()).filter_map(|slot| decoder.reading(slot));
    readings.map(|reading| (reading.state(), reading.bits())).collect()
}
