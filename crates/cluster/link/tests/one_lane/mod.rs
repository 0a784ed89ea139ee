//! What an agent's end sends in these tests: one lane, straight out of a ring.

use khz_link::{Answer, InterestFrame, Lanes};
use khz_model::Nanos;
use khz_ring::Reader;

use crate::ring_lane::RingLane;

/// A node that has only that, and grants nothing.
pub struct OneLane(RingLane);

impl OneLane {
    pub fn new(reader: Reader, period: Nanos) -> Self {
        let id = reader.label().epoch;
        OneLane(RingLane { id, name: "base".into(), period, reader, is_regular: true })
    }

    /// The same; its rows may come at any time.
    #[allow(dead_code)]
    pub fn irregular(reader: Reader, period: Nanos) -> Self {
        let OneLane(lane) = OneLane::new(reader, period);
        OneLane(RingLane { is_regular: false, ..lane })
    }
}

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
