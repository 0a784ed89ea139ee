//! What an agent's end sends in these tests: one lane, straight out of a ring.

use khz_link::{Answer, InterestFrame, Lanes};
use khz_model::Nanos;
use khz_ring::Reader;

use crate::ring_lane::RingLane;

/// A node that has only that. If its rows may come at any time, it grants it to every interest.
pub struct OneLane {
    lane: RingLane,
    answers: Vec<Answer>,
    revision: u64,
}

impl OneLane {
    pub fn new(reader: Reader, period: Nanos) -> Self {
        let id = reader.label().epoch;
        let lane = RingLane { id, name: "base".into(), period, reader, is_regular: true };
        OneLane { lane, answers: Vec::new(), revision: 1 }
    }

    /// The same; its rows may come at any time.
    #[allow(dead_code)]
    pub fn irregular(reader: Reader, period: Nanos) -> Self {
        let OneLane { lane, answers, revision } = OneLane::new(reader, period);
        OneLane { lane: RingLane { is_regular: false, ..lane }, answers, revision }
    }
}

impl Lanes for OneLane {
    type Lane = RingLane;
    fn revision(&self) -> u64 {
        self.revision
    }
    fn list(&self, each: &mut dyn FnMut(RingLane)) {
        each(self.lane.clone());
    }
    fn ask(&mut self, ask: &InterestFrame<'_>) {
        if !self.lane.is_regular {
            let (lane, period) = (Some(self.lane.id), self.lane.period);
            self.answers.push(Answer { interest: ask.number, lane, period, text: String::new() });
            self.revision += 1;
        }
    }
    fn dismiss(&mut self, _: u32) {}
    fn answer(&mut self) -> Option<Answer> {
        self.answers.pop()
    }
}
