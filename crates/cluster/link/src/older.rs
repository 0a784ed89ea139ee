//! Rewrites a lane for a peer that speaks an older version of the protocol: it leaves out the slots whose values that
//! peer would misread. The type of a series decides this, not its values. Schema and blocks are encoded again without
//! these slots; rows keep their numbers and stamps, and each block keeps its rows.

use khz_block::{Decoder, Encoder, HEADER_BYTES, Header, SchemaDecoder, SchemaEncoder, Step};
use khz_model::reading::LABELS_STATE;
use khz_model::{Absence, Reading, Series, ValueType};

use crate::limits::{GENERATIONS_MAX, PIECE, VERSION_OF_TYPES};
use crate::source::Lane;

/// True if a peer of this version of the protocol knows the values of the series.
pub fn knows(version: u8, series: &Series) -> bool {
    version >= VERSION_OF_TYPES || series.metric.value_type == ValueType::Unsigned
}

/// The schemas of one lane, as the peer gets them.
#[derive(Debug, Default)]
pub(crate) struct Older {
    /// At most [`GENERATIONS_MAX`]: the peer keeps no more.
    schemas: Vec<Plain>,
}

/// The schema of one generation without the slots that the peer does not know.
#[derive(Debug)]
struct Plain {
    generation: u32,
    /// The schema in the ring, as far as it was read.
    whole: SchemaDecoder,
    /// How many slots of the whole schema were checked, kept or not.
    sorted: usize,
    encoder: SchemaEncoder,
    bytes: Vec<u8>,
    /// The slots that the peer gets.
    kept: Vec<u32>,
}

impl Older {
    /// The generation's schema as the peer gets it; `None`: the ring no longer has it.
    pub fn schema<L: Lane>(&mut self, lane: &L, generation: u32) -> Option<&[u8]> {
        lane.schema_bytes(generation)?;
        Some(&self.plain(lane, generation).bytes)
    }

    /// How many slots of the generation the peer does not get.
    pub fn left_out<L: Lane>(&mut self, lane: &L, generation: u32) -> usize {
        let plain = self.plain(lane, generation);
        plain.sorted - plain.kept.len()
    }

    /// How to write a block for the peer; `None`: unchanged.
    pub fn rewrite<L: Lane>(&mut self, lane: &L, header: &Header) -> Option<Rewrite> {
        let plain = self.plain(lane, header.generation);
        let slots = header.slots;
        let kept = &plain.kept[..plain.kept.partition_point(|&slot| slot < slots)];
        // Slots without meaning are not kept either.
        (kept.len() < slots as usize).then(|| Rewrite::new(header, kept.to_vec()))
    }

    fn plain<L: Lane>(&mut self, lane: &L, generation: u32) -> &mut Plain {
        let at = self.schemas.iter().position(|plain| plain.generation == generation);
        let mut plain = match at {
            Some(at) => self.schemas.remove(at),
            None => Plain::new(generation),
        };
        plain.read(lane);
        if self.schemas.len() == GENERATIONS_MAX {
            self.schemas.remove(0);
        }
        self.schemas.push(plain);
        let newest = self.schemas.len() - 1;
        &mut self.schemas[newest]
    }
}

impl Plain {
    fn new(generation: u32) -> Self {
        Plain {
            generation,
            whole: SchemaDecoder::new(),
            sorted: 0,
            encoder: SchemaEncoder::new(),
            bytes: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Reads what the ring has of the schema now.
    fn read<L: Lane>(&mut self, lane: &L) {
        let mut piece = Vec::new();
        while lane.schema_bytes(self.generation).is_some_and(|bytes| bytes > self.whole.bytes()) {
            piece.clear();
            let copied = lane.schema(self.generation, self.whole.bytes(), PIECE, &mut piece);
            // Slots after damaged bytes have no meaning, and are left out.
            if copied.is_none_or(|copied| copied == 0) || self.whole.feed(&piece).is_err() {
                break;
            }
        }
        for (slot, series) in self.whole.series().iter().enumerate().skip(self.sorted) {
            let is_known = knows(VERSION_OF_TYPES - 1, series);
            if is_known && self.encoder.append(series, &mut self.bytes).is_ok() {
                self.kept.push(slot as u32);
            }
        }
        self.sorted = self.whole.series().len();
    }
}

/// A block under rewriting.
#[derive(Debug)]
pub(crate) struct Rewrite {
    kept: Vec<u32>,
    decoder: Decoder,
    encoder: Encoder,
    /// The beginning of a row whose rest has not come.
    rest: Vec<u8>,
    is_damaged: bool,
}

impl Rewrite {
    fn new(header: &Header, kept: Vec<u32>) -> Self {
        let mut encoder = Encoder::new(header.lane, header.generation, header.period);
        encoder.resume(header.first_row, header.generation);
        Rewrite { kept, decoder: Decoder::new(), encoder, rest: Vec::new(), is_damaged: false }
    }

    /// Takes further bytes of the block, and appends the whole rows in them to `out`, after the header. After damaged
    /// bytes, no further rows are appended.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.is_damaged {
            return;
        }
        self.rest.extend_from_slice(bytes);
        let rest = std::mem::take(&mut self.rest);
        let mut at = 0;
        loop {
            match self.decoder.step(&rest[at..]) {
                Ok(Step::Header(length)) => at += length,
                Ok(Step::Row(length)) => {
                    at += length;
                    self.row(out);
                }
                Ok(Step::Incomplete) => break,
                Err(_) => {
                    self.is_damaged = true;
                    return;
                }
            }
        }
        self.rest = rest;
        self.rest.drain(..at);
    }

    fn row(&mut self, out: &mut Vec<u8>) {
        let Rewrite { kept, decoder, encoder, .. } = self;
        let reading = |column: usize| cell(decoder, kept[column]);
        if encoder.rows_open() == 0 {
            encoder.key_row(decoder.stamp(), kept.len(), reading, out);
        } else {
            let changed = decoder.changed().iter().filter_map(|slot| kept.binary_search(slot).ok());
            encoder.delta_row(decoder.stamp(), changed, reading, out);
        }
    }

    /// True until it has given a row.
    pub fn is_new(&self) -> bool {
        self.encoder.rows_open() == 0
    }

    /// The number of the row that comes next.
    pub fn next_row(&self) -> u64 {
        self.encoder.rows()
    }

    /// The block has ended: returns its header with the closing fields. `None`: it is damaged, or
    /// has no row.
    pub fn close(&mut self) -> Option<Header> {
        let header = self.encoder.close();
        header.filter(|_| !self.is_damaged && self.rest.is_empty())
    }

    /// A whole closed block.
    pub fn whole(mut self, block: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.feed(block, &mut out);
        let header = self.close()?;
        out[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        Some(out)
    }
}

/// The slot's reading. The peer knows no labels, so they become an absent value.
fn cell(decoder: &Decoder, slot: u32) -> (u8, u64) {
    let reading = decoder.reading(slot as usize).unwrap_or(Reading::Absent(Absence::NotYet));
    match reading.state() {
        LABELS_STATE => (Absence::NotYet as u8, 0),
        state => (state, reading.bits()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use khz_model::metric::{Exposition, Kind, Origin, Refresh, Unit};
    use khz_model::{Instance, Metric, Nanos, Stamp};

    use super::*;
    use crate::source::Overtaken;

    /// A lane with one generation and one block.
    struct OneBlock {
        schema: Vec<u8>,
        block: Vec<u8>,
    }

    impl Lane for OneBlock {
        fn id(&self) -> u64 {
            1
        }
        fn name(&self) -> &str {
            "base"
        }
        fn epoch(&self) -> u64 {
            9
        }
        fn generation(&self) -> u32 {
            3
        }
        fn period(&self) -> Nanos {
            Nanos::SECOND
        }
        fn head(&self) -> u64 {
            self.block.len() as u64
        }
        fn oldest(&self) -> u64 {
            0
        }
        fn newest(&self) -> u64 {
            0
        }
        fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
            let rest = &self.block[from as usize..];
            out.extend_from_slice(&rest[..rest.len().min(most)]);
            Ok(rest.len().min(most))
        }
        fn schema_bytes(&self, generation: u32) -> Option<u64> {
            (generation == 3).then_some(self.schema.len() as u64)
        }
        fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize> {
            let rest = self.schema.get(from as usize..).filter(|_| generation == 3)?;
            out.extend_from_slice(&rest[..rest.len().min(most)]);
            Some(rest.len().min(most))
        }
    }

    const TYPES: [ValueType; 4] =
        [ValueType::Unsigned, ValueType::Signed, ValueType::Float, ValueType::Labels];
    const SLOTS: usize = 24;
    const ROWS: u64 = 40;

    fn series(slot: usize) -> Series {
        let name = ["a.plain", "a.signed", "a.float", "a.labels"][slot % 4];
        let metric = Metric {
            name: name.into(),
            kind: Kind::Gauge,
            unit: Unit::Count,
            value_type: TYPES[slot % 4],
            places: 0,
            max: None,
            refresh: Refresh::Event,
            help: "One of a kind.".into(),
            origin: Origin { file: "jobs".into(), field: name.into() },
            instances: Some("x".into()),
            labels_from: None,
            exposition: Exposition {
                name: name.replace('.', "_").into(),
                help: None,
                labels: Vec::new().into(),
                instance_label: Some("x".into()),
                divisor: 1,
                untyped: false,
            },
            flat: name.replace('.', "").into(),
        };
        let instance = Some(Instance::from_kernel(format!("x{slot}").as_bytes()));
        Series { metric: Arc::new(metric), instance }
    }

    /// Slots without unsigned values are below zero, and absent now and then; others change now and then.
    fn reading(row: u64, slot: usize) -> (u8, u64) {
        match (slot % 4, (row + slot as u64) % 5) {
            (_, 0) => (Absence::InstanceGone as u8, 0),
            (0, _) => (0, row / 3 + slot as u64),
            _ => (0, (-1 - row as i64) as u64),
        }
    }

    fn lane() -> (OneBlock, Header) {
        let (mut encoder, mut schema) = (SchemaEncoder::new(), Vec::new());
        (0..SLOTS).for_each(|slot| encoder.append(&series(slot), &mut schema).unwrap());
        let (mut encoder, mut block) = (Encoder::new(0, 3, Nanos::SECOND), Vec::new());
        encoder.resume(1_000, 3);
        for row in 0..ROWS {
            let stamp = Stamp { boot: Nanos::from_secs(row + 1), real_offset: 7 };
            match row {
                0 => encoder.key_row(stamp, SLOTS, |slot| reading(row, slot), &mut block),
                _ => encoder.delta_row(stamp, 0..SLOTS, |slot| reading(row, slot), &mut block),
            }
        }
        let header = encoder.close().unwrap();
        block[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        (OneBlock { schema, block }, header)
    }

    #[test]
    fn a_block_has_the_same_rows_without_the_slots_that_the_peer_does_not_know_however_its_bytes_come() {
        let (lane, header) = lane();
        let mut older = Older::default();
        assert_eq!(older.left_out(&lane, 3), SLOTS - SLOTS / 4);
        let mut schema = SchemaDecoder::new();
        schema.feed(older.schema(&lane, 3).unwrap()).unwrap();
        assert!(schema.series().iter().enumerate().all(|(column, found)| *found == series(4 * column)));
        assert_eq!(schema.series().len(), SLOTS / 4);
        let whole = older.rewrite(&lane, &header).unwrap().whole(&lane.block).unwrap();
        for piece in [1, 3, 64, 65, 1_000] {
            let (mut rewrite, mut bytes) = (older.rewrite(&lane, &header).unwrap(), Vec::new());
            lane.block.chunks(piece).for_each(|piece| rewrite.feed(piece, &mut bytes));
            assert_eq!(rewrite.next_row(), 1_000 + ROWS);
            let closed = rewrite.close().unwrap();
            bytes[..HEADER_BYTES].copy_from_slice(&closed.to_bytes());
            assert_eq!(bytes, whole, "in pieces of {piece}");
        }
        let (mut decoder, mut rest, mut row) = (Decoder::new(), &whole[..], 0);
        while !rest.is_empty() {
            match decoder.step(rest).unwrap() {
                Step::Header(length) => rest = &rest[length..],
                Step::Row(length) => {
                    rest = &rest[length..];
                    assert_eq!((decoder.slots(), decoder.next_row()), (SLOTS / 4, 1_001 + row));
                    assert_eq!(decoder.stamp().boot, Nanos::from_secs(row + 1));
                    for column in 0..SLOTS / 4 {
                        let found = decoder.reading(column).map(|found| (found.state(), found.bits()));
                        assert_eq!(found, Some(reading(row, 4 * column)), "row {row}, column {column}");
                    }
                    row += 1;
                }
                Step::Incomplete => panic!("half a row"),
            }
        }
        assert_eq!(row, ROWS);
    }

    #[test]
    fn a_damaged_block_is_not_sent_whole_and_a_damaged_schema_gives_no_slot_a_meaning() {
        let (mut lane, header) = lane();
        let mut older = Older::default();
        let cut = lane.block.len() - 2;
        assert!(older.rewrite(&lane, &header).unwrap().whole(&lane.block[..cut]).is_none());
        lane.schema[0] ^= 1;
        let mut older = Older::default();
        assert_eq!(older.schema(&lane, 3), Some(&[][..]));
        let whole = older.rewrite(&lane, &header).unwrap().whole(&lane.block).unwrap();
        let mut decoder = Decoder::new();
        decoder.catch_up(&whole).unwrap();
        assert_eq!((decoder.slots(), decoder.next_row()), (0, 1_000 + ROWS));
    }

    #[test]
    fn a_lane_that_the_peer_knows_whole_goes_as_it_is() {
        let (mut lane, header) = lane();
        let (mut encoder, mut schema) = (SchemaEncoder::new(), Vec::new());
        (0..SLOTS).for_each(|slot| encoder.append(&series(4 * slot), &mut schema).unwrap());
        lane.schema = schema.clone();
        let mut older = Older::default();
        assert_eq!(older.schema(&lane, 3), Some(&schema[..]));
        assert!(older.rewrite(&lane, &header).is_none());
    }
}
