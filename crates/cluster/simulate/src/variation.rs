//! The differences in value between nodes that play the same recording: their uptime and their memory. (Each node also begins at
//! another moment of the recording; `lanes.rs` chooses that.) Related numbers
//! fit together: a node that is up five times as long has counters five times as high everywhere, and more
//! memory means more free memory.

use crate::chance;
use crate::recording::Recording;

/// A node's uptime is at most this many times that of the recorded machine.
const UPTIMES_MAX: u64 = 50;
/// A node has at most this many gigabytes more than the recorded machine.
const GIGABYTES_MAX: u64 = 256;

/// How a slot differs between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vary {
    /// Not at all.
    No,
    /// It has counted for longer.
    Counter,
    /// It has more memory.
    Memory,
}

/// How this slot differs.
pub fn vary(recording: &Recording, slot: usize) -> Vary {
    if recording.states[slot] != 0 {
        return Vary::No;
    }
    match &*recording.series[slot].metric.name {
        "mem.total" | "mem.free" | "mem.available" => Vary::Memory,
        // A gauge, since it can be set back; but it grows like a counter.
        "uptime.up" => Vary::Counter,
        _ if recording.is_counter(slot) => Vary::Counter,
        _ => Vary::No,
    }
}

/// The differences of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variation {
    uptimes: u64,
    memory: u64,
}

impl Variation {
    /// The differences derived from a seed.
    pub fn of_seed(seed: u64) -> Self {
        Variation {
            uptimes: chance::number(seed, 1) % UPTIMES_MAX,
            memory: (chance::number(seed, 2) % GIGABYTES_MAX) << 30,
        }
    }

    /// What to add to a slot with the first recorded value `first`.
    pub fn of(&self, vary: Vary, first: u64) -> u64 {
        match vary {
            Vary::No => 0,
            Vary::Counter => first.wrapping_mul(self.uptimes),
            Vary::Memory => self.memory,
        }
    }
}
