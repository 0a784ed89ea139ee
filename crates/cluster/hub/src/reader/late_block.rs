//! Late rows for a reader, as closed blocks beside its lane's present block.

use khz_block::{Decoder, Encoder, HEADER_BYTES};
use khz_link::limits::PIECE;
use khz_link::put;
use khz_model::Nanos;

use super::feed_lane::parts;
use super::generations::{Generation, Generations};
use crate::cursor::Columns;

/// A block under construction.
#[derive(Debug)]
pub(super) struct LateBlock {
    lane: u32,
    encoder: Encoder,
    period: Nanos,
    generation: Generation,
    bytes: Vec<u8>,
}

impl LateBlock {
    pub fn new(lane: u32) -> Self {
        let period = Nanos::SECOND;
        LateBlock {
            lane,
            encoder: Encoder::new(lane as u16, 0, period),
            period,
            generation: Generation::default(),
            bytes: Vec::new(),
        }
    }

    /// Time between two rows, from the next block on.
    pub fn set_period(&mut self, period: Nanos) {
        self.period = period;
    }

    /// Adds a row. If it does not follow the row before, the block before is written first.
    pub fn row(
        &mut self,
        generations: &mut Generations,
        columns: &Columns,
        decoder: &Decoder,
        (number, all_changes): (u64, bool),
        out: &mut Vec<u8>,
    ) {
        let stamp = decoder.stamp();
        let generation = generations.of(&columns.series, true);
        let follows = self.encoder.rows() == number && self.generation == generation;
        if !follows || self.encoder.wants_new_block_of_copies(stamp) {
            self.close(generations, out);
        }
        let reading = |column: usize| parts(columns.reading(decoder, column));
        if self.encoder.rows_open() == 0 {
            self.encoder = Encoder::new(self.lane as u16, generation.number, self.period);
            self.encoder.resume(number, generation.number);
            self.generation = generation;
            self.encoder.key_row(stamp, generation.width, reading, &mut self.bytes);
        } else if all_changes {
            let changed = columns.changed(decoder).take_while(|&column| column < generation.width);
            self.encoder.delta_row(stamp, changed, reading, &mut self.bytes);
        } else {
            self.encoder.delta_row(stamp, 0..generation.width, reading, &mut self.bytes);
        }
    }

    /// Writes the block.
    pub fn close(&mut self, generations: &mut Generations, out: &mut Vec<u8>) {
        let Some(header) = self.encoder.close() else { return };
        generations.say(self.lane, self.generation, out);
        self.bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        let pieces = self.bytes.len().div_ceil(PIECE);
        for (number, piece) in self.bytes.chunks(PIECE).enumerate() {
            let frame = put::open_past(out, self.lane, number + 1 == pieces);
            out.extend_from_slice(piece);
            frame.close(out);
        }
        self.bytes.clear();
    }
}
