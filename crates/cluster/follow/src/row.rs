//! One row of a lane, while the decoder has it.

use khz_block::Decoder;
use khz_model::{Absence, Reading, Stamp};

/// A row.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    number: u64,
    decoder: &'a Decoder,
}

impl<'a> Row<'a> {
    pub(crate) fn new(number: u64, decoder: &'a Decoder) -> Self {
        Row { number, decoder }
    }

    /// Its number in the lane's epoch.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When the node gathered it.
    pub fn stamp(&self) -> Stamp {
        self.decoder.stamp()
    }

    /// The slots that may differ from the row before (after a gap, all slots), with their readings.
    pub fn changed(&self) -> impl Iterator<Item = (usize, Reading)> + use<'a> {
        let row = *self;
        row.decoder.changed().iter().map(move |&slot| (slot as usize, row.reading(slot as usize)))
    }

    /// The readings of all slots, in the order of the slots.
    pub fn all(&self) -> impl Iterator<Item = Reading> + use<'a> {
        let row = *self;
        (0..row.decoder.slots()).map(move |slot| row.reading(slot))
    }

    /// The reading of a slot; absent if the row does not have the slot yet.
    pub fn reading(&self, slot: usize) -> Reading {
        self.decoder.reading(slot).unwrap_or(Reading::Absent(Absence::NotYet))
    }

    /// The row as the block's decoder has it, for a reader that encodes it again.
    pub fn decoder(&self) -> &'a Decoder {
        self.decoder
    }
}
