//! A node with real rings: a base lane, and a faster one as long as somebody wants it and a while longer. The first value of
//! a row is its number.

use std::collections::VecDeque;
use std::sync::Arc;

use khz_block::{Encoder, SchemaEncoder};
use khz_link::{Answer, InterestFrame, Lane as _, Lanes};
use khz_model::{Nanos, Series, Stamp};
use khz_ring::{Label, Ring, Writer};

use super::ring_lane::RingLane;
use crate::simulation::random::mix;

/// A lane that lives on after its last interest does so for this time.
const LINGER: Nanos = Nanos::from_secs(10);

/// A lane and its writer.
pub struct Producer {
    pub lane: RingLane,
    writer: Writer,
    encoder: Encoder,
    schema: SchemaEncoder,
    slots: usize,
    due: Nanos,
    interests: Vec<u32>,
    left: Nanos,
}

impl Producer {
    fn new(id: u64, name: &str, period: Nanos, ring: u64, now: Nanos, is_channel: bool) -> Self {
        let (node, lane) = ("n".to_owned(), name.to_owned());
        let (machine, boot) = ([1; 16], [2; 16]);
        let label = Label { node, lane, number: id as u16, machine, boot, epoch: 1_000 + id, created: 0 };
        let Ring { writer, reader, .. } = Ring::anonymous(ring, label).expect("memory for a ring");
        let encoder = Encoder::new(id as u16, writer.generation(), period);
        let lane = RingLane { id, name: name.into(), period, reader, is_regular: !is_channel };
        let schema = SchemaEncoder::new();
        let mut producer =
            Producer { lane, writer, encoder, schema, slots: 0, due: now, interests: Vec::new(), left: now };
        producer.grow(4);
        producer
    }

    /// It has more slots from the next block on.
    pub fn grow(&mut self, slots: usize) {
        self.close();
        let mut bytes = Vec::new();
        for slot in self.slots..self.slots + slots {
            self.schema.append(&series(slot), &mut bytes).expect("room");
        }
        self.writer.extend_schema(&bytes).expect("room in the ring");
        self.slots += slots;
    }

    pub fn close(&mut self) {
        if let Some(header) = self.encoder.close() {
            self.writer.close(&header);
        }
    }

    fn produce(&mut self, now: Nanos) {
        while self.due <= now {
            // A channel has rows at random moments.
            if !self.lane.is_regular && !mix(self.due.0 ^ self.lane.id).is_multiple_of(7) {
                self.due = Nanos(self.due.0 + self.lane.period.0);
                continue;
            }
            let stamp = Stamp { boot: self.due, real_offset: 0 };
            if self.encoder.wants_new_block(stamp) {
                self.close();
            }
            let (row, slots) = (self.encoder.rows(), self.slots);
            let mut bytes = Vec::new();
            let reading = |slot| (0, if slot == 0 { row } else { row / (1 + slot as u64) });
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

    /// Rows written so far.
    pub fn rows(&self) -> u64 {
        self.encoder.rows()
    }

    /// First row that the ring holds.
    pub fn oldest_row(&self) -> u64 {
        let header = self.lane.reader.header(self.lane.reader.oldest());
        header.map_or(self.rows(), |header| header.first_row)
    }
}

/// The series of a slot: the first is the row's number.
pub fn series(slot: usize) -> Series {
    use khz_model::{Instance, metric};
    let metric = crate::counts::own_metric(
        if slot == 0 { "a.number" } else { "a.part" },
        if slot == 0 { "a_number" } else { "a_part" },
        "Made up.",
        metric::Kind::Gauge,
        metric::Unit::Count,
        (slot > 0).then_some("part"),
    );
    let instance = (slot > 0).then(|| Instance::from_kernel(slot.to_string().as_bytes()));
    Series { metric: Arc::new(metric), instance }
}

/// The node.
pub struct Node {
    pub lanes: Vec<Producer>,
    /// Lanes that are over.
    pub over: Vec<Producer>,
    ring: u64,
    made: u64,
    revision: u64,
    answers: VecDeque<Answer>,
    now: Nanos,
    pub is_stopped: bool,
}

/// Time between two rows of the base lane.
pub const BASE: Nanos = Nanos::from_millis(100);

impl Node {
    pub fn new(ring: u64, now: Nanos) -> Self {
        let base = Producer::new(1, "base", BASE, ring, now, false);
        let (over, answers) = (Vec::new(), VecDeque::new());
        Node { lanes: vec![base], over, ring, made: 1, revision: 0, answers, now, is_stopped: false }
    }

    pub fn produce(&mut self, now: Nanos) {
        self.now = now;
        if self.is_stopped {
            return;
        }
        self.lanes.iter_mut().for_each(|lane| lane.produce(now));
        while let Some(at) = self
            .lanes
            .iter()
            .position(|lane| lane.lane.id > 1 && lane.interests.is_empty() && now.since(lane.left) > LINGER)
        {
            self.end(at);
        }
    }

    fn end(&mut self, at: usize) {
        let mut lane = self.lanes.remove(at);
        lane.close();
        self.over.push(lane);
        self.revision += 1;
    }

    /// The agent is killed and starts again: the base lane continues in its ring, other lanes are
    /// gone.
    pub fn restart(&mut self) {
        self.lanes[0].close();
        while self.lanes.len() > 1 {
            self.end(1);
        }
        self.answers.clear();
    }

    pub fn grow(&mut self, at: usize) {
        let at = at % self.lanes.len();
        self.lanes[at].grow(1);
        self.revision += 1;
    }

    pub fn of_epoch(&self, epoch: u64) -> &Producer {
        let mut all = self.lanes.iter().chain(&self.over);
        all.find(|lane| lane.lane.epoch() == epoch).expect("a lane of this node")
    }
}

impl Lanes for Node {
    type Lane = RingLane;

    fn revision(&self) -> u64 {
        self.revision
    }

    fn list(&self, each: &mut dyn FnMut(RingLane)) {
        self.lanes.iter().for_each(|lane| each(lane.lane.clone()));
    }

    fn ask(&mut self, ask: &InterestFrame<'_>) {
        let at = self.lanes.iter().position(|lane| lane.lane.period == ask.period).unwrap_or_else(|| {
            self.made += 1;
            let is_taken = |name: &String| self.lanes.iter().any(|lane| *lane.lane.name == **name);
            let name = (1..).map(|n| format!("boost{n}")).find(|name| !is_taken(name)).unwrap_or_default();
            let is_channel = ask.channel.is_some();
            let new = Producer::new(self.made, &name, ask.period, self.ring, self.now, is_channel);
            self.lanes.push(new);
            self.revision += 1;
            self.lanes.len() - 1
        });
        self.lanes[at].interests.push(ask.number);
        let id = Some(self.lanes[at].lane.id);
        self.answers.push_back(Answer {
            interest: ask.number,
            lane: id,
            period: ask.period,
            text: String::new(),
        });
    }

    fn dismiss(&mut self, number: u32) {
        for lane in &mut self.lanes {
            let before = lane.interests.len();
            lane.interests.retain(|known| *known != number);
            if lane.interests.len() < before {
                lane.left = self.now;
            }
        }
    }

    fn answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }
}
