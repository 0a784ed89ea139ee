//! One group of rules as a lane: each of its series has a slot, each of its evaluations is a row, and a slot without a sample is
//! absent. The schema grows only with new series. When many are gone for long, the others get new slots in another generation.

use std::collections::HashMap;

use khz_block::{Encoder, SchemaEncoder};
use khz_model::{Absence, Nanos, Reading, Series, Stamp, recorded};
use khz_promql::{LabelSet, METRIC_NAME, is_stale};

use super::{Appended, GROUP_SERIES_MAX};
use crate::cluster::Cluster;
use crate::counts::Counts;
use crate::lane::{Lane, Reject};
use crate::limits::{GONE_SERIES_KEPT, GONE_SERIES_MIN};

/// A group and its lane.
#[derive(Debug)]
pub(super) struct Group {
    lane: Lane,
    encoder: Encoder,
    names: SchemaEncoder,
    generation: u32,
    /// The slot of each series.
    slots: HashMap<LabelSet, u32>,
    cells: Vec<Cell>,
    /// Slots of the open block.
    open: usize,
    /// Evaluations so far, and the time of the last one.
    evaluations: u64,
    last: Option<i64>,
}

/// The content of a slot.
#[derive(Debug)]
struct Cell {
    labels: LabelSet,
    reading: Reading,
    /// The evaluation that had it last, and its time.
    seen: u64,
    at: i64,
}

/// A series without a sample.
const NOTHING: Reading = Reading::Absent(Absence::NoResult);

impl Group {
    pub fn new(lane: Lane) -> Self {
        Group {
            encoder: Encoder::new(0, 0, lane.period),
            lane,
            names: SchemaEncoder::new(),
            generation: 0,
            slots: HashMap::new(),
            cells: Vec::new(),
            open: 0,
            evaluations: 0,
            last: None,
        }
    }

    pub fn lane(&mut self) -> &mut Lane {
        &mut self.lane
    }

    /// The time of the last evaluation.
    pub fn last(&self) -> Option<i64> {
        self.last
    }

    pub fn series(&self) -> usize {
        self.cells.len()
    }

    /// Records an evaluation. After an error, series have new slots from the next one on.
    pub fn append(
        &mut self,
        cluster: &Cluster,
        time: i64,
        at: Nanos,
        samples: &[(LabelSet, f64)],
    ) -> Result<Appended, Reject> {
        let appended = self.record(cluster, time, at, samples);
        if appended.is_err() {
            self.forget(cluster, |_| false);
        }
        appended
    }

    fn record(
        &mut self,
        cluster: &Cluster,
        time: i64,
        at: Nanos,
        samples: &[(LabelSet, f64)],
    ) -> Result<Appended, Reject> {
        self.give_up_gone(cluster, time)?;
        let mut piece = Vec::new();
        let appended = self.take(cluster, time, samples, &mut piece);
        self.grow(cluster, &piece)?;
        let stamp = Stamp { boot: at, real_offset: 0 };
        if let Some(last) = self.last {
            // The period of the next block.
            self.encoder.set_period(Nanos(time.abs_diff(last).saturating_mul(1_000_000)));
        }
        self.row(cluster, stamp)?;
        self.last = Some(time);
        Ok(appended)
    }

    /// Gives each sample its slot, and takes the value out of slots without one.
    fn take(
        &mut self,
        cluster: &Cluster,
        time: i64,
        samples: &[(LabelSet, f64)],
        piece: &mut Vec<u8>,
    ) -> Appended {
        self.evaluations += 1;
        let mut appended = Appended::default();
        // As a rule series come in the order of the evaluation before.
        let mut next = 0;
        for (labels, value) in samples {
            let is_next = |slot: &usize| self.cells.get(*slot).is_some_and(|cell| cell.labels == *labels);
            let known =
                Some(next).filter(is_next).or_else(|| self.slots.get(labels).map(|slot| *slot as usize));
            let slot = match known {
                Some(slot) if self.cells[slot].seen == self.evaluations => {
                    Err(format!("the series {} is there twice", shown(labels)))
                }
                Some(slot) => Ok(slot),
                None => self.begin(cluster, labels, piece),
            };
            match slot {
                Ok(slot) => {
                    let reading = if is_stale(*value) { NOTHING } else { Reading::Present(value.to_bits()) };
                    let cell = &mut self.cells[slot];
                    (cell.reading, cell.seen) = (reading, self.evaluations);
                    if reading != NOTHING {
                        cell.at = time;
                    }
                    next = slot + 1;
                }
                Err(problem) => {
                    appended.refused += 1;
                    appended.problem.get_or_insert(problem);
                }
            }
        }
        let gone = self.cells.iter_mut().filter(|cell| cell.seen != self.evaluations);
        gone.for_each(|cell| cell.reading = NOTHING);
        appended
    }

    /// Gives a new series a slot, and adds its meaning to a piece of the schema.
    fn begin(&mut self, cluster: &Cluster, labels: &LabelSet, piece: &mut Vec<u8>) -> Result<usize, String> {
        if self.cells.len() >= GROUP_SERIES_MAX {
            return Err(format!("a group of rules has at most {GROUP_SERIES_MAX} series"));
        }
        let series = series(labels)?;
        if !cluster.recorded.reserve() {
            return Err(format!("all rules together have at most {} series", super::RECORDED_SERIES_MAX));
        }
        if let Err(error) = self.names.append(&series, piece) {
            cluster.recorded.release(1);
            return Err(format!("the series {}: {error}", shown(labels)));
        }
        let slot = self.cells.len();
        self.slots.insert(labels.clone(), slot as u32);
        self.cells.push(Cell { labels: labels.clone(), reading: NOTHING, seen: 0, at: 0 });
        Ok(slot)
    }

    fn grow(&mut self, cluster: &Cluster, piece: &[u8]) -> Result<(), Reject> {
        if piece.is_empty() {
            return Ok(());
        }
        let before = self.lane.schema(self.generation).cloned();
        let schema = cluster.schemas.grow(before, piece, None)?;
        self.lane.set_schema(self.generation, schema);
        Ok(())
    }

    /// Writes the row.
    fn row(&mut self, cluster: &Cluster, stamp: Stamp) -> Result<(), Reject> {
        let (counts, keep) = (&cluster.counts, cluster.keeps_history());
        let slots = self.cells.len();
        if slots == 0 {
            // There were no series before, so none can end.
            return Ok(());
        }
        let begins = self.open != slots || self.encoder.wants_new_block(stamp);
        let cells = &self.cells;
        let reading = |slot: usize| (cells[slot].reading.state(), cells[slot].reading.bits());
        let mut bytes = Vec::new();
        if !begins {
            self.encoder.delta_row(stamp, 0..slots, reading, &mut bytes);
            return self.lane.append(&bytes).map(|rows| Counts::add(&counts.recorded, rows));
        }
        if let Some((rows, length, checksum)) = self.encoder.close().and_then(|header| header.closed) {
            self.lane.end(rows, length, checksum)?;
        }
        self.encoder.resume(self.encoder.rows(), self.generation);
        self.encoder.key_row(stamp, slots, reading, &mut bytes);
        self.open = slots;
        let rows = self.lane.begin(&bytes, keep)?;
        self.lane.trim(cluster.history_share());
        Counts::add(&counts.recorded, rows);
        Ok(())
    }

    /// Gives the slots up that had no sample for long, if they are many.
    fn give_up_gone(&mut self, cluster: &Cluster, time: i64) -> Result<(), Reject> {
        let is_gone =
            |cell: &Cell| cell.reading == NOTHING && time.saturating_sub(cell.at) > GONE_SERIES_KEPT;
        let gone = self.cells.iter().filter(|cell| is_gone(cell)).count();
        if gone <= GONE_SERIES_MIN.max(self.cells.len() / 4) {
            return Ok(());
        }
        self.forget(cluster, |cell| !is_gone(cell));
        let mut piece = Vec::new();
        for cell in &self.cells {
            let series = series(&cell.labels).map_err(|_| "BUG: a series that is known is refused")?;
            self.names.append(&series, &mut piece).map_err(|_| "BUG: fewer series do not fit")?;
        }
        self.grow(cluster, &piece)
    }

    /// Keeps these series, in another generation, whose schema is still to come.
    fn forget(&mut self, cluster: &Cluster, is_kept: impl Fn(&Cell) -> bool) {
        let before = self.cells.len();
        self.cells.retain(is_kept);
        cluster.recorded.release(before - self.cells.len());
        let slot = |(slot, cell): (usize, &Cell)| (cell.labels.clone(), slot as u32);
        self.slots = self.cells.iter().enumerate().map(slot).collect();
        self.names = SchemaEncoder::new();
        self.generation = self.generation.wrapping_add(1);
        if let Some((rows, length, checksum)) = self.encoder.close().and_then(|header| header.closed) {
            // A block that does not end as it should is dropped there.
            let _ = self.lane.end(rows, length, checksum);
        }
        self.open = 0;
    }
}

/// The series with these labels.
fn series(labels: &LabelSet) -> Result<Series, String> {
    let others = labels.iter().filter(|(name, _)| ***name != *METRIC_NAME);
    let others = others.map(|(name, value)| (&**name, &**value));
    recorded::series(labels.get(METRIC_NAME), others).map_err(|error| error.to_string())
}

/// Labels as people read them, not too long.
fn shown(labels: &LabelSet) -> String {
    let all: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    let mut text = format!("{{{}}}", all.join(","));
    text.truncate(text.floor_char_boundary(SHOWN_BYTES));
    text
}

/// Bytes of labels in a message.
const SHOWN_BYTES: usize = 256;
