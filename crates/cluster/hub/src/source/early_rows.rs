//! Rows of a channel that came before older rows. Two lanes below have the same rows, one sends each row at once and the other in
//! flushes, and the second begins while the first lags. A limited number of early rows wait here.

use std::collections::BTreeMap;
use std::sync::Arc;

use khz_block::{Decoder, Encoder};
use khz_model::Nanos;

use super::fed_lane::Origin;
use crate::limits::EARLY_ROWS_MAX;
use crate::schemas::Schema;

/// A row that waits.
pub(super) struct EarlyRow {
    lane: u64,
    generation: u32,
    schema: Option<Arc<Schema>>,
    row: Decoder,
}

impl EarlyRow {
    /// Where it came from.
    pub fn origin(&self) -> Origin<'_> {
        Origin { lane: self.lane, generation: self.generation, schema: self.schema.as_ref() }
    }

    /// The row; all its slots count as changed.
    pub fn row(&self) -> &Decoder {
        &self.row
    }
}

/// The rows that wait, by their numbers.
#[derive(Default)]
pub(super) struct EarlyRows(BTreeMap<u64, EarlyRow>);

impl EarlyRows {
    /// Keeps a row. `false`: there is no room for it, or it cannot be kept.
    pub fn keep(&mut self, number: u64, origin: Origin<'_>, row: &Decoder) -> bool {
        if self.0.len() >= EARLY_ROWS_MAX {
            return false;
        }
        let (mut bytes, mut copy) = (Vec::new(), Decoder::new());
        let reading = |slot: usize| (row.states()[slot], row.values()[slot]);
        Encoder::new(0, 0, Nanos::SECOND).key_row(row.stamp(), row.slots(), reading, &mut bytes);
        let is_kept = copy.catch_up(&bytes).is_ok();
        if is_kept {
            let Origin { lane, generation, schema } = origin;
            self.0.insert(number, EarlyRow { lane, generation, schema: schema.cloned(), row: copy });
        }
        is_kept
    }

    /// Takes the oldest row out if it is not younger than `until`; rows before `next` are dropped.
    pub fn take(&mut self, next: u64, until: u64) -> Option<(u64, EarlyRow)> {
        self.0 = self.0.split_off(&next);
        let first = self.0.first_entry().filter(|first| *first.key() <= until)?;
        Some(first.remove_entry())
    }

    /// True if no row waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
