//! The rows of one ring, with columns that keep their meaning over restarts of the agent. Damaged blocks are left out and
//! counted.

use std::collections::HashMap;

use khz_block::schema::SCHEMA_BYTES_MAX;
use khz_block::{Decoder, SchemaDecoder, Step};
use khz_model::{Absence, Instance, Nanos, Pattern, Reading, Series, Stamp};
use khz_ring::Reader;

/// One row of some columns.
pub struct Row {
    /// Its number in the lane.
    pub number: u64,
    /// When it was gathered.
    pub stamp: Stamp,
    /// One reading a column.
    pub readings: Vec<Reading>,
}

/// Some columns of a ring's latest rows.
pub struct Recording {
    reader: Reader,
    /// What the columns are.
    pub columns: Vec<Series>,
    /// For each generation the slot of each column.
    slots: HashMap<u32, Vec<Option<u32>>>,
    /// Where the blocks begin.
    pub blocks: Vec<u64>,
    /// Only rows after this moment.
    since: Option<Nanos>,
}

impl Recording {
    /// The rows of the last `span` that the ring holds (all without one), counted back from its newest row. Columns are
    /// the series that a pattern selects; all without one.
    pub fn of(reader: Reader, patterns: &[Pattern], span: Option<Nanos>) -> Self {
        let mut blocks = reader.blocks();
        let newest = blocks.last().and_then(|&at| newest_stamp(&reader, at));
        let since = span.zip(newest).map(|(span, newest)| newest.boot.since(span));
        let begins = |at: &u64| reader.header(*at).map(|header| header.stamp.boot);
        if let Some(since) = since {
            // The last block that begins before the span has rows of it.
            let first = blocks.iter().rposition(|at| begins(at).is_some_and(|begins| begins <= since));
            blocks.drain(..first.unwrap_or(0));
        }
        let mut recording = Recording { reader, columns: Vec::new(), slots: HashMap::new(), blocks, since };
        recording.find_columns(patterns);
        recording
    }

    /// Columns in the order of the newest generation, followed by those that only older generations have.
    fn find_columns(&mut self, patterns: &[Pattern]) {
        let mut places: HashMap<(String, Option<Instance>), usize> = HashMap::new();
        let generations = self.blocks.iter().rev().filter_map(|&at| Some(self.reader.header(at)?.generation));
        let mut generations: Vec<u32> = generations.collect();
        generations.dedup();
        for generation in generations {
            if self.slots.contains_key(&generation) {
                continue;
            }
            let mut slots = vec![None; self.columns.len()];
            for (slot, series) in schema(&self.reader, generation).into_iter().enumerate() {
                if !patterns.is_empty() && !series.is_selected(patterns) {
                    continue;
                }
                let name = (series.metric.name.to_string(), series.instance.clone());
                let place = *places.entry(name).or_insert_with(|| {
                    self.columns.push(series);
                    slots.push(None);
                    self.columns.len() - 1
                });
                slots[place] = Some(slot as u32);
            }
            self.slots.insert(generation, slots);
        }
    }

    /// Passes every row to `take`, oldest first. Returns the number of blocks that were overwritten or damaged.
    pub fn each(&self, mut take: impl FnMut(Row) -> std::io::Result<()>) -> std::io::Result<usize> {
        let mut lost = 0;
        let mut bytes = Vec::new();
        for &at in &self.blocks {
            bytes.clear();
            let Some(header) = self.reader.block(at, &mut bytes) else {
                lost += 1;
                continue;
            };
            let slots = self.slots.get(&header.generation).map_or(&[][..], Vec::as_slice);
            let is_whole = rows(&bytes, |decoder| {
                if self.since.is_some_and(|since| decoder.stamp().boot <= since) {
                    return Ok(());
                }
                let reading = |at: usize| {
                    let slot = slots.get(at).copied().flatten();
                    let reading = slot.and_then(|slot| decoder.reading(slot as usize));
                    reading.unwrap_or(Reading::Absent(Absence::NotYet))
                };
                take(Row {
                    number: decoder.next_row() - 1,
                    stamp: decoder.stamp(),
                    readings: (0..self.columns.len()).map(reading).collect(),
                })
            })?;
            lost += usize::from(!is_whole);
        }
        Ok(lost)
    }

    /// The ring.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }
}

/// The series of a generation's slots, as far as the schema can be read.
fn schema(reader: &Reader, generation: u32) -> Vec<Series> {
    let (mut bytes, mut decoder) = (Vec::new(), SchemaDecoder::new());
    reader.schema(generation, 0, SCHEMA_BYTES_MAX, &mut bytes);
    // The records before a damaged one are right.
    let _ = decoder.feed(&bytes);
    decoder.series().to_vec()
}

/// The rows of one block; `false` when it is damaged.
fn rows(block: &[u8], mut take: impl FnMut(&Decoder) -> std::io::Result<()>) -> std::io::Result<bool> {
    let (mut decoder, mut done) = (Decoder::new(), 0);
    loop {
        match decoder.step(&block[done..]) {
            Ok(Step::Row(length)) => {
                done += length;
                take(&decoder)?;
            }
            Ok(Step::Header(length)) if done == 0 => done = length,
            Ok(Step::Incomplete) => return Ok(done == block.len()),
            Ok(Step::Header(_)) | Err(_) => return Ok(false),
        }
    }
}

/// When the last row of the block at `at` was gathered.
pub fn newest_stamp(reader: &Reader, at: u64) -> Option<Stamp> {
    let mut bytes = Vec::new();
    reader.block(at, &mut bytes)?;
    let mut newest = None;
    rows(&bytes, |decoder| {
        newest = Some(decoder.stamp());
        Ok(())
    })
    .ok()?;
    newest
}

/// Rows in the block at `at`.
pub fn count(reader: &Reader, at: u64) -> u64 {
    match reader.header(at) {
        None => 0,
        Some(header) => match header.closed {
            Some((rows, _, _)) => rows.into(),
            None => {
                let (mut bytes, mut count) = (Vec::new(), 0);
                reader.block(at, &mut bytes);
                // A damaged row ends the count. The closure cannot fail.
                let _ = rows(&bytes, |_| {
                    count += 1;
                    Ok(())
                });
                count
            }
        },
    }
}
