//! A node with real rings: lanes whose every value follows from epoch, row and slot, so that what arrives can be
//! judged by itself.

use std::collections::VecDeque;

use khz_block::{Decoder, Encoder, Header};
use khz_link::freeze::Frozen;
use khz_link::frozen::{Freezes, MaybeFrozen, Order};
use khz_link::{Answer, InterestFrame, Lane, Lanes};
use khz_model::{Nanos, Stamp};
use khz_ring::{Label, Ring, Writer};

use crate::random::{Random, mix};
use crate::ring_lane::RingLane;

/// What the values and the schema of a generation follow from: slots of another one mean something else.
pub fn meaning(epoch: u64, generation: u32) -> u64 {
    epoch ^ mix(generation.into())
}

/// The values of a row. Slot 0 has the number of the row; others change now and then.
pub fn value(epoch: u64, row: u64, slot: usize) -> (u8, u64) {
    if slot == 0 {
        return (0, row);
    }
    let step = row / (1 + slot as u64 % 7);
    match mix(epoch ^ slot as u64) % 9 {
        0 if step % 5 == 3 => (2, 0),
        pace => (0, mix(epoch ^ slot as u64 ^ (step * (pace % 2))) >> (slot % 60)),
    }
}

/// A byte of a schema.
pub fn schema_byte(epoch: u64, at: u64) -> u8 {
    mix(epoch ^ at) as u8
}

/// The epoch of the lane with this id.
pub fn epoch(id: u64) -> u64 {
    mix(id)
}

/// A decoded row must be the one that its slot 0 names.
pub fn judge(epoch: u64, row: &Decoder) {
    let (number, meaning) = (number(row), meaning(epoch, generation(row)));
    for slot in 0..row.slots() {
        let reading = row.reading(slot).map(|reading| (reading.state(), reading.bits()));
        assert_eq!(reading, Some(value(meaning, number, slot)), "row {number}, slot {slot}");
    }
}

/// The same where the name of the lane, which no checksum covers, may have been damaged: it must be some lane's row.
pub fn judge_of_any_lane(row: &Decoder) {
    let number = number(row);
    let is_of = |meaning| {
        (0..row.slots()).all(|slot| {
            row.reading(slot).map(|reading| (reading.state(), reading.bits()))
                == Some(value(meaning, number, slot))
        })
    };
    // No checksum covers the generation either.
    let is_of_lane = |id| (1..100).any(|generation| is_of(meaning(epoch(id), generation)));
    assert!((1..100).any(is_of_lane), "row {number} is no lane's");
}

fn generation(row: &Decoder) -> u32 {
    row.header().expect("a row of a block").generation
}

fn number(row: &Decoder) -> u64 {
    row.reading(0).and_then(|reading| reading.value()).expect("slot 0 is always there")
}

/// The writing side of a lane.
pub struct Producer {
    pub lane: RingLane,
    writer: Writer,
    encoder: Encoder,
    slots: usize,
    schema_bytes: u64,
    due: Nanos,
    interest: Option<u32>,
}

impl Producer {
    fn new(id: u64, name: &str, period: Nanos, slots: usize, ring: u64, now: Nanos) -> Self {
        let epoch = epoch(id);
        let label = Label {
            node: "node1".into(),
            lane: name.into(),
            number: id as u16,
            machine: [1; 16],
            boot: [2; 16],
            epoch,
            created: 0,
        };
        let Ring { writer, reader, .. } = Ring::anonymous(ring, label).expect("memory for a ring");
        let encoder = Encoder::new(id as u16, writer.generation(), period);
        let lane = RingLane { id, name: name.into(), period, reader, is_regular: true };
        let mut producer =
            Producer { lane, writer, encoder, slots: 0, schema_bytes: 0, due: now, interest: None };
        producer.grow(slots);
        producer
    }

    fn grow(&mut self, slots: usize) {
        self.close();
        self.slots += slots;
        let (start, more) = (self.schema_bytes, slots as u64 * 40);
        let meaning = self.meaning();
        let bytes: Vec<u8> = (start..start + more).map(|at| schema_byte(meaning, at)).collect();
        self.writer.extend_schema(&bytes).expect("room for the schema");
        self.schema_bytes += more;
    }

    /// What its slots mean now.
    fn meaning(&self) -> u64 {
        meaning(self.lane.epoch(), self.writer.generation())
    }

    /// Slots are given back: the next generation has this number of them.
    fn renew(&mut self, slots: usize) {
        self.close();
        self.slots = slots;
        self.schema_bytes = slots as u64 * 40;
        let generation = self.writer.generation() + 1;
        let meaning = meaning(self.lane.epoch(), generation);
        let bytes: Vec<u8> = (0..self.schema_bytes).map(|at| schema_byte(meaning, at)).collect();
        self.writer.begin_generation(&bytes).expect("room for the schema");
        self.encoder.resume(self.encoder.rows(), generation);
    }

    fn close(&mut self) {
        if let Some(header) = self.encoder.close() {
            self.writer.close(&header);
        }
    }

    fn produce(&mut self, now: Nanos, real_offset: i64) {
        while self.due <= now {
            let stamp = Stamp { boot: self.due, real_offset };
            if self.encoder.wants_new_block(stamp) {
                self.close();
            }
            let (meaning, row, slots) = (self.meaning(), self.encoder.rows(), self.slots);
            let mut bytes = Vec::new();
            let reading = |slot| value(meaning, row, slot);
            if self.encoder.rows_open() == 0 {
                self.encoder.key_row(stamp, slots, reading, &mut bytes);
                assert!(self.writer.begin(&bytes));
            } else {
                self.encoder.delta_row(stamp, 0..slots, reading, &mut bytes);
                assert!(self.writer.append(&bytes));
            }
            self.due = Nanos(self.due.0 + self.lane.period.0);
        }
    }

    /// The last block is complete.
    pub fn finish(&mut self) {
        self.close();
        // The End of a block is sent when the ring continues after it.
        let stamp = Stamp { boot: self.due, real_offset: 0 };
        let (meaning, row, slots) = (self.meaning(), self.encoder.rows(), self.slots);
        let mut bytes = Vec::new();
        self.encoder.key_row(stamp, slots, |slot| value(meaning, row, slot), &mut bytes);
        assert!(self.writer.begin(&bytes));
    }

    /// Rows of complete blocks.
    pub fn rows_complete(&self) -> u64 {
        self.encoder.rows() - u64::from(self.encoder.rows_open())
    }

    /// Rows written so far.
    pub fn rows(&self) -> u64 {
        self.encoder.rows()
    }

    /// First row that the ring holds.
    pub fn oldest_row(&self) -> u64 {
        let header: Option<Header> = self.lane.reader.header(self.lane.reader.oldest());
        header.map_or(self.rows(), |header| header.first_row)
    }
}

/// The node: lanes that are always there, and those that interests open.
pub struct Node {
    pub producers: Vec<Producer>,
    pub closed: Vec<Producer>,
    revision: u64,
    next_id: u64,
    answers: VecDeque<Answer>,
    now: Nanos,
    pub stopped: bool,
    freezes: Freezes<RingLane>,
}

impl Node {
    pub fn new(random: &mut Random, now: Nanos) -> Self {
        let ring = |random: &mut Random| 64 << (10 + random.below(4));
        let base_period = Nanos(1_000_000_000 / [1, 10, 20][random.below(3) as usize]);
        let fast_period = Nanos(1_000_000_000 / [50, 100, 250][random.below(3) as usize]);
        let base = Producer::new(1, "base", base_period, 30 + random.below(60) as usize, ring(random), now);
        let fast = Producer::new(2, "fast", fast_period, 5 + random.below(30) as usize, ring(random), now);
        Node {
            producers: vec![base, fast],
            closed: Vec::new(),
            revision: 0,
            next_id: 3,
            answers: VecDeque::new(),
            now,
            stopped: false,
            freezes: Freezes::default(),
        }
    }

    pub fn produce(&mut self, now: Nanos, real_offset: i64) {
        self.now = now;
        if !self.stopped {
            self.producers.iter_mut().for_each(|producer| producer.produce(now, real_offset));
        }
    }

    /// A new device: the schema of some lane grows.
    pub fn grow(&mut self, random: &mut Random) {
        let at = random.below(self.producers.len() as u64) as usize;
        self.producers[at].grow(1 + random.below(20) as usize);
        self.revision += 1;
    }

    /// Devices are gone: the slots of some lane are given back, and those that stay have other numbers.
    pub fn renew(&mut self, random: &mut Random) {
        let at = random.below(self.producers.len() as u64) as usize;
        self.producers[at].renew(1 + random.below(60) as usize);
        self.revision += 1;
    }

    /// The agent starts again: open blocks were closed, interests are gone.
    pub fn restart(&mut self) {
        self.producers.iter_mut().for_each(Producer::close);
        self.freezes = Freezes::default();
        self.answers.clear();
        let interests: Vec<u32> = self.producers.iter().filter_map(|p| p.interest).collect();
        interests.into_iter().for_each(|number| self.dismiss(number));
    }

    pub fn find(&self, epoch: u64) -> Option<&Producer> {
        self.producers.iter().chain(&self.closed).find(|producer| producer.lane.epoch() == epoch)
    }

    pub fn rows_held(&self) -> u64 {
        self.producers.iter().map(|producer| producer.rows() - producer.oldest_row()).sum()
    }
}

impl Lanes for Node {
    type Lane = MaybeFrozen<RingLane>;

    fn revision(&self) -> u64 {
        self.revision + (self.freezes.changes() << 32)
    }

    fn list(&self, each: &mut dyn FnMut(MaybeFrozen<RingLane>)) {
        self.producers.iter().for_each(|producer| each(MaybeFrozen::Live(producer.lane.clone())));
        self.freezes.offered().for_each(|ring| each(MaybeFrozen::Frozen(ring)));
    }

    fn freeze(&mut self, order: Order, now: Nanos) {
        let lanes = self.producers.iter().map(|producer| producer.lane.clone()).collect();
        self.freezes.freeze(order, lanes, now);
    }

    fn thaw(&mut self, number: u64) {
        self.freezes.thaw(number);
    }

    fn keep_frozen(&mut self, now: Nanos) {
        self.freezes.copy(now);
    }

    fn frozen_due(&self) -> Option<Nanos> {
        self.freezes.next_due()
    }

    fn frozen(&mut self) -> Option<Frozen> {
        self.freezes.answer()
    }

    fn ask(&mut self, ask: &InterestFrame<'_>) {
        assert_eq!(ask.patterns().collect::<Vec<_>>(), ["cpu.*"]);
        let mut answer = Answer { interest: ask.number, lane: None, period: ask.period, text: String::new() };
        if self.producers.len() < 4 {
            let id = self.next_id;
            self.next_id += 1;
            let mut boost = Producer::new(id, "boost", ask.period, 7, 64 << 10, self.now);
            boost.interest = Some(ask.number);
            self.producers.push(boost);
            self.revision += 1;
            answer.lane = Some(id);
        } else {
            answer.text = "too many lanes".into();
        }
        self.answers.push_back(answer);
    }

    fn dismiss(&mut self, number: u32) {
        let Some(at) = self.producers.iter().position(|p| p.interest == Some(number)) else { return };
        let mut producer = self.producers.remove(at);
        producer.close();
        producer.interest = None;
        self.closed.push(producer);
        self.revision += 1;
    }

    fn answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }
}
