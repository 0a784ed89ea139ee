//! What a lane of a simulated node shows at each tick: the recording from some moment on, the node's differences from other nodes, and
//! what its faults do. It writes no rows.

use std::rc::Rc;

use khz_model::{Nanos, Stamp};

use crate::faults::{Fault, Moment, Symptoms};
use crate::recording::has_value;
use crate::reel::Reel;
use crate::variation::Variation;

/// The state of readings that are there.
const PRESENT: u8 = 0;

/// What is played, and since when.
pub struct Played {
    /// The recording at the lane's rate.
    pub reel: Rc<Reel>,
    /// The reel's row at the start.
    pub phase: u64,
    /// How this node differs from others.
    pub variation: Variation,
    /// When the first row is gathered.
    pub start: Stamp,
    /// What is wrong with the node.
    symptoms: Symptoms,
    /// When the simulation began, on CLOCK_BOOTTIME.
    zero: Nanos,
}

impl Played {
    /// The recording at a node with these faults; `zero` is when the simulation began.
    pub fn new(
        reel: Rc<Reel>,
        phase: u64,
        variation: Variation,
        start: Stamp,
        (faults, zero): (&[Fault], Nanos),
    ) -> Self {
        let symptoms = Symptoms::new(faults, reel.series());
        Played { reel, phase, variation, start, symptoms, zero }
    }

    /// When the row of a tick is gathered.
    pub fn stamp(&self, tick: u64) -> Stamp {
        let Stamp { boot, real_offset } = self.start;
        Stamp { boot: Nanos(boot.0 + tick * self.reel.period.0), real_offset }
    }

    /// How many periods have passed since the start.
    pub fn tick(&self, now: Nanos) -> u64 {
        now.since(self.start.boot).0 / self.reel.period.0
    }

    /// State and value of a slot at a tick.
    pub fn reading(&self, tick: u64, slot: usize) -> (u8, u64) {
        let (state, value) = self.reel.reading_at(self.phase + tick, slot, &self.variation);
        if !self.symptoms.touch(slot) || !(has_value(state) || self.symptoms.appears(slot)) {
            return (state, value);
        }
        let now = i128::from(self.stamp(tick).boot.0) - i128::from(self.zero.0);
        let state = if has_value(state) { state } else { PRESENT };
        (state, self.symptoms.value(slot, now, value, &|time, slot| self.recorded(time, slot)))
    }

    /// The value of a slot without faults, at any time. The recording is played from its first row on at the earliest.
    fn recorded(&self, time: Moment, slot: usize) -> u64 {
        let period = i128::from(self.reel.period.0);
        let since = time + i128::from(self.zero.0) - i128::from(self.start.boot.0);
        let row = (i128::from(self.phase) * period + since).max(0) / period;
        self.reel.reading_at(row as u64, slot, &self.variation).1
    }
}
