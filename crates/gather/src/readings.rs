//! Readings that no kernel file brings: what each slot means, what it reads at present, and which have another reading
//! than at the gather before.

use khz_model::{Absence, Reading, Schema, Series};

/// A source's slots and their readings.
#[derive(Default)]
pub(crate) struct Readings {
    pub schema: Schema,
    pub values: Vec<u64>,
    pub states: Vec<u8>,
    /// Slots that were set to another reading; whoever gathers clears them.
    pub changed: Vec<u32>,
}

impl Readings {
    /// Gives the series a slot, without a reading as yet; where there is no room for it, it has none.
    pub fn append(&mut self, series: Series) {
        self.schema.append(series);
        self.values.resize(self.schema.len(), 0);
        self.states.resize(self.schema.len(), Absence::NotYet as u8);
    }

    pub fn set(&mut self, slot: usize, reading: Reading) {
        let (state, value) = (reading.state(), reading.bits());
        if (self.states[slot], self.values[slot]) != (state, value) {
            (self.states[slot], self.values[slot]) = (state, value);
            self.changed.push(slot as u32);
        }
    }
}
