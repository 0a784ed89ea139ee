//! The columns of a node that a reader's patterns select, and their readings in a row.

use std::sync::Arc;

use khz_block::Decoder;
use khz_model::{Absence, Pattern, Reading, Row, Series};

use crate::schemas::Schema;

/// The slots that a reader wants, and what they mean.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    slots: Vec<u32>,
    /// The column of each slot.
    columns: Vec<Option<u32>>,
    pub series: Arc<Vec<Series>>,
    schema: Option<Arc<Schema>>,
}

impl Columns {
    /// Takes the columns out of a schema; `true` when they are others than before.
    pub fn choose(&mut self, schema: &Arc<Schema>, patterns: &[Pattern]) -> bool {
        if self.schema.as_ref().is_some_and(|known| Arc::ptr_eq(known, schema)) {
            return false;
        }
        let chosen = schema.series().iter().enumerate().filter(|(_, series)| series.is_selected(patterns));
        let (slots, series): (Vec<u32>, Vec<Series>) =
            chosen.map(|(slot, series)| (slot as u32, series.clone())).unzip();
        self.columns = vec![None; schema.series().len()];
        for (&slot, column) in slots.iter().zip(0..) {
            self.columns[slot as usize] = Some(column);
        }
        self.slots = slots;
        self.series = Arc::new(series);
        self.schema = Some(schema.clone());
        true
    }

    /// About the bytes that it holds.
    pub fn held(&self) -> usize {
        self.columns.len() * size_of::<Option<u32>>()
            + self.slots.len() * (size_of::<u32>() + size_of::<Series>())
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// One chosen reading of the decoder's row.
    pub fn reading(&self, decoder: &Decoder, column: usize) -> Reading {
        let reading = self.slots.get(column).and_then(|&slot| decoder.reading(slot as usize));
        reading.unwrap_or(Reading::Absent(Absence::NotYet))
    }

    /// The columns that the decoder's row has changed, in order.
    pub fn changed<'a>(&'a self, decoder: &'a Decoder) -> impl Iterator<Item = usize> + 'a {
        let column = |&slot: &u32| self.columns.get(slot as usize).copied().flatten();
        decoder.changed().iter().filter_map(column).map(|column| column as usize)
    }

    /// One row.
    pub fn row(&self, decoder: &Decoder) -> Row {
        let readings = (0..self.slots.len()).map(|column| self.reading(decoder, column)).collect();
        Row { stamp: decoder.stamp(), readings }
    }
}
