//! The meaning of a lane's slots, as its ring has it: publishes new slots before the first row with them, and binds the handler to the
//! readings. It writes no rows.

use std::sync::Arc;

use khz_block::SchemaEncoder;
use khz_model::{QueryError, Series, ValueType};

use super::Lane;
use crate::handled::Handled;
use crate::source::Source;

/// How many of the series that a channel leaves out are named.
const LEFT_OUT_NAMED: usize = 4;

/// The part of the schema that readers know. The fields that a tick touches come first.
#[derive(Default)]
#[repr(C)]
pub(super) struct PublishedSchema {
    /// The number of slots at the last attempt; `None` before the first.
    pub tried: Option<usize>,
    /// The number of slots that readers know; rows have only these.
    pub slots: usize,
    /// Some of them have labels as readings.
    pub has_labels: bool,
    /// True until the ring has begun the generation of these slots.
    pub is_next: bool,
    encoder: SchemaEncoder,
    /// Bytes from the encoder that are not in the ring yet.
    waiting: Vec<u8>,
}

impl Lane {
    pub(super) fn begin_generation(&mut self) {
        if let Some(header) = self.encoder.close() {
            self.ring.close(&header);
        }
        self.encoder.resume(self.encoder.rows(), self.ring.generation().saturating_add(1));
        self.schema = PublishedSchema { is_next: true, ..PublishedSchema::default() };
    }

    /// Binds the handler to the lane's readings. If its series change, the next row begins another generation. `false`: it
    /// cannot be bound to them. The next attempt comes when the slots change, not at each row.
    #[cold]
    pub(super) fn bind(&mut self, sources: &[Source]) -> bool {
        let Some(handled) = &mut self.handled else { return true };
        self.slots_bound = self.slots.len();
        let series = |&(source, slot): &(u16, u32)| {
            sources.get(source as usize).and_then(|source| source.series().get(slot as usize)).cloned()
        };
        let readings: Vec<Series> = self.slots.iter().map_while(series).collect();
        // The shortest period that the lane may have: windows have room for its rows.
        let (bound, problem) = match handled.bind_most(&readings, self.asked) {
            Ok((goes_on, problem)) => (Some(goes_on), problem),
            Err(problem) => (None, Some(problem)),
        };
        self.leaves_out = problem.is_some();
        self.lacks_memory = problem.as_ref().is_some_and(QueryError::is_for_now);
        let rows_go_on = bound.is_some() || self.is_bound && readings.starts_with(handled.bound_to());
        let out = &readings[if rows_go_on { handled.readings() } else { 0 }..];
        let text = problem.map_or_else(String::new, |problem| left_out(out, readings.len(), &problem));
        if !text.is_empty() {
            tracing::warn!("lane {}: {text}", self.view.name);
        }
        if !text.is_empty() || self.without_room == 0 {
            self.view.set_lacks(text);
        }
        if bound == Some(false) && self.schema.slots > 0 {
            self.begin_generation();
        }
        bound.is_some()
    }

    /// Publishes the meaning of new slots before a block with these slots begins. If the ring has no room,
    /// the rows continue without them; the next attempt comes when there are further slots.
    #[cold]
    pub(super) fn publish_schema(&mut self, sources: &[Source]) {
        let PublishedSchema { encoder, waiting, slots, has_labels, tried, is_next } = &mut self.schema;
        let width = self.handled.as_ref().map_or(self.slots.len(), Handled::slots);
        let mut series = Vec::with_capacity(width);
        if !*is_next {
            series.extend_from_slice(&self.view.series());
        }
        *tried = Some(width);
        for slot in series.len()..width {
            let known = match &self.handled {
                Some(handled) => handled.series(slot).cloned(),
                None => {
                    let (source, slot) = self.slots[slot];
                    sources[source as usize].series().get(slot as usize).cloned()
                }
            };
            let Some(known) = known else { break };
            let is_new = series.len() >= encoder.len();
            if is_new && let Err(error) = encoder.append(&known, waiting) {
                tracing::warn!("lane {}: {error}; further slots are left out", self.view.name);
                break;
            }
            series.push(known);
        }
        let taken = match *is_next {
            true => self.ring.begin_generation(waiting),
            false => self.ring.extend_schema(waiting),
        };
        if taken.is_err() {
            let name = &self.view.name;
            tracing::warn!("lane {name}: no room in its ring for the names of new slots; they are left out");
            return;
        }
        // The ring has them; more come only with new slots.
        *waiting = Vec::new();
        (*slots, *is_next) = (series.len(), false);
        *has_labels = series.iter().any(|series| series.metric.value_type == ValueType::Labels);
        let described = (self.ring.generation(), Arc::new(series));
        *self.view.schema.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = described;
        self.keep_rows();
    }

    /// The meaning of the slots of a lane that readers opened is known before its first row.
    pub fn publish_opened(&mut self, sources: &[Source]) {
        self.publish_channel(sources);
        if self.handled.is_none() && self.schema.tried != Some(self.width()) {
            self.publish_schema(sources);
        }
    }

    /// The meaning of a channel's slots is known before its first row: readers who follow it have its columns, and know which row
    /// comes next.
    pub fn publish_channel(&mut self, sources: &[Source]) {
        if self.handled.is_none() {
            return;
        }
        if self.slots_bound != self.slots.len() {
            self.is_bound |= self.bind(sources);
        }
        let width = self.width();
        if self.is_bound && width > 0 && self.schema.tried != Some(width) {
            self.publish_schema(sources);
        }
    }
}

/// What readers are to know of a channel whose handler does not have these of all its series.
fn left_out(out: &[Series], all: usize, problem: &QueryError) -> String {
    let names: Vec<String> = out.iter().take(LEFT_OUT_NAMED).map(Series::to_string).collect();
    let more = match out.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names = names.join(", ");
    match all - out.len() {
        0 => format!("sends no rows: {problem}; without {names}{more}"),
        sent => format!("sends {sent} of {all} series, without {names}{more}: {problem}"),
    }
}
