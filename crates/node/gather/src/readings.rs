//! The readings of a source that is not a kernel file: the meaning of each slot, its current reading, and the
//! slots that the last gather changed.

use khz_model::{Absence, Reading, Schema, Series};

/// State and bits of a reading, as blocks have them.
pub(crate) type Cell = (u8, u64);

/// The cell of a reading before there is one.
pub(crate) const NOT_YET: Cell = (Reading::Absent(Absence::NotYet).state(), 0);

/// A source's slots and their readings.
#[derive(Default)]
pub(crate) struct Readings {
    pub schema: Schema,
    pub values: Vec<u64>,
    pub states: Vec<u8>,
    /// Slots that were set to another reading. The source clears the list when it gathers.
    pub changed: Vec<u32>,
}

impl Readings {
    /// Gives the series a slot, without a reading yet. If no slot is left, the series has none.
    pub fn append(&mut self, series: Series) {
        self.schema.append(series);
        self.values.resize(self.schema.len(), 0);
        self.states.resize(self.schema.len(), Absence::NotYet as u8);
    }

    /// The slot has the reading that a slot had before.
    pub fn take_over(&mut self, slot: usize, before: &Readings, old: usize) {
        (self.states[slot], self.values[slot]) = (before.states[old], before.values[old]);
    }

    pub fn set(&mut self, slot: usize, reading: Reading) {
        let (state, value) = (reading.state(), reading.bits());
        if (self.states[slot], self.values[slot]) != (state, value) {
            (self.states[slot], self.values[slot]) = (state, value);
            self.changed.push(slot as u32);
        }
    }
}
