//! What an agent's end sends in these tests: one lane, straight out of a ring.

use khz_link::{Answer, InterestFrame, Lane, Lanes, Overtaken};
use khz_model::Nanos;
use khz_ring::Reader;

#[derive(Clone)]
pub struct RingLane {
    pub reader: Reader,
    pub period: Nanos,
}

impl Lane for RingLane {
    fn id(&self) -> u64 {
        self.reader.label().epoch
    }
    fn name(&self) -> &str {
        "base"
    }
    fn epoch(&self) -> u64 {
        self.reader.label().epoch
    }
    fn generation(&self) -> u32 {
        self.reader.generation()
    }
    fn period(&self) -> Nanos {
        self.period
    }
    fn head(&self) -> u64 {
        self.reader.head()
    }
    fn oldest(&self) -> u64 {
        self.reader.oldest()
    }
    fn newest(&self) -> u64 {
        self.reader.newest()
    }
    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        self.reader.copy(from, most, out).map_err(|_| Overtaken)
    }
    fn schema_bytes(&self, generation: u32) -> Option<u64> {
        self.reader.schema_bytes(generation)
    }
    fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize> {
        self.reader.schema(generation, from, most, out)
    }
}

/// A node that has only that, and grants nothing.
pub struct OneLane(pub RingLane);

impl Lanes for OneLane {
    type Lane = RingLane;
    fn revision(&self) -> u64 {
        1
    }
    fn list(&self, each: &mut dyn FnMut(RingLane)) {
        each(self.0.clone());
    }
    fn ask(&mut self, _: &InterestFrame<'_>) {}
    fn dismiss(&mut self, _: u32) {}
    fn answer(&mut self) -> Option<Answer> {
        None
    }
}
