//! In what two nodes that play the same recording differ: how long they are up already, and how much memory they
//! have. What belongs together stays together: a node that is up five times as long has counted five times as much
//! everywhere, and more memory is more free memory.

use crate::chance;
use crate::recording::Recording;

/// A node is up at most so many times as long as the recorded machine was.
const UPTIMES_MAX: u64 = 50;
/// A node has at most so many gigabytes more.
const GIGABYTES_MAX: u64 = 256;

/// How a slot differs from node to node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vary {
    /// Not at all.
    No,
    /// It has been counting for longer.
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
        // A gauge, because it can be set back; it grows all the same.
        "uptime.up" => Vary::Counter,
        _ if recording.is_counter(slot) => Vary::Counter,
        _ => Vary::No,
    }
}

/// One node's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variation {
    uptimes: u64,
    memory: u64,
}

impl Variation {
    /// The one that follows from a seed.
    pub fn of_seed(seed: u64) -> Self {
        Variation {
            uptimes: chance::number(seed, 1) % UPTIMES_MAX,
            memory: (chance::number(seed, 2) % GIGABYTES_MAX) << 30,
        }
    }

    /// What is added to a slot whose first recorded value is `first`.
    pub fn of(&self, vary: Vary, first: u64) -> u64 {
        match vary {
            Vary::No => 0,
            Vary::Counter => first.wrapping_mul(self.uptimes),
            Vary::Memory => self.memory,
        }
    }
}
