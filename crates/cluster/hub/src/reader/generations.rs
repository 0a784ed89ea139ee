//! The sets of columns that a reader's lane has had, each with a number and its schema: late rows may have an older
//! set. It remembers as many as the reader does.

use std::sync::Arc;

use khz_block::SchemaEncoder;
use khz_link::limits::GENERATIONS_MAX;
use khz_link::{put, schema_hash};
use khz_model::Series;
use ring::digest::{SHA256, digest};

/// A schema goes in pieces of about this size.
const PIECE: usize = 64 << 10;

/// One set of columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Generation {
    pub number: u32,
    /// Columns that the schema has room for.
    pub width: usize,
}

#[derive(Debug)]
struct Known {
    generation: Generation,
    series: Arc<Vec<Series>>,
    schema: Vec<u8>,
    /// The reader has its schema.
    is_said: bool,
}

/// All sets of a lane, the present one last.
#[derive(Debug, Default)]
pub(super) struct Generations {
    known: Vec<Known>,
    made: u32,
    /// The number of the generation that is not late: it is never dropped for others.
    present: u32,
}

impl Generations {
    /// The set with these columns; it is created if there is none. For late rows, a set that begins with these columns
    /// is enough.
    pub fn of(&mut self, series: &Arc<Vec<Series>>, is_late: bool) -> Generation {
        let has_these = |known: &&Known| {
            let begins_so = || known.series.get(..series.len()) == Some(&series[..]);
            let is_long = is_late || known.series.len() == series.len();
            Arc::ptr_eq(&known.series, series) || is_long && begins_so()
        };
        if let Some(known) = self.known.iter().rev().find(has_these) {
            let generation =
                Generation { width: known.generation.width.min(series.len()), ..known.generation };
            self.present = if is_late { self.present } else { generation.number };
            return generation;
        }
        let (mut encoder, mut schema) = (SchemaEncoder::new(), Vec::new());
        // A schema has limits; a reader that selects more columns gets the first ones.
        let width = series.iter().take_while(|one| encoder.append(one, &mut schema).is_ok()).count();
        if self.known.len() == GENERATIONS_MAX {
            let others = |known: &Known| known.generation.number != self.present;
            self.known.remove(self.known.iter().position(others).unwrap_or(0));
        }
        self.made += 1;
        self.present = if is_late { self.present } else { self.made };
        let generation = Generation { number: self.made, width };
        self.known.push(Known { generation, series: series.clone(), schema, is_said: false });
        generation
    }

    fn known(&mut self, generation: Generation) -> Option<&mut Known> {
        self.known.iter_mut().find(|known| known.generation.number == generation.number)
    }

    /// Bytes of its schema, and the first half of their hash.
    pub fn described(&mut self, generation: Generation) -> (u64, [u8; 16]) {
        let schema = self.known(generation).map_or(&[][..], |known| &known.schema);
        (schema.len() as u64, schema_hash(digest(&SHA256, schema)))
    }

    /// Its schema is sent before the next block, even if the reader has it.
    pub fn say_again(&mut self, generation: Generation) {
        if let Some(known) = self.known(generation) {
            known.is_said = false;
        }
    }

    /// Writes its whole schema, if the reader does not have it.
    pub fn say(&mut self, lane: u32, generation: Generation, out: &mut Vec<u8>) {
        let Some(known) = self.known(generation).filter(|known| !known.is_said) else { return };
        known.is_said = true;
        for (number, piece) in known.schema.chunks(PIECE).enumerate() {
            let frame = put::open_schema(out, lane, generation.number, (number * PIECE) as u64);
            out.extend_from_slice(piece);
            frame.close(out);
        }
    }
}
