//! A job of a simulation: nodes that do the same work at the same time. It says which nodes these are and what they play; it plays
//! nothing.

use khz_model::{Nanos, Pattern};

use crate::chance;

/// The ranks of a parallel program begin at most this long after each other.
const STAGGER: Nanos = Nanos::from_secs(2);

/// Nodes that play the same recording in step, so that one that differs is seen.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its nodes.
    pub nodes: Pattern,
    /// The number of their recording in the library.
    pub workload: usize,
    /// Time between two rows of their base lanes.
    pub period: Nanos,
}

/// Row of the recording that a node in step plays so long after the start of the simulation.
pub fn row_in_step(seed: u64, since: Nanos, period: Nanos) -> u64 {
    (since.0 + chance::number(seed, 8) % STAGGER.0) / period.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_comes_later_is_in_step_with_the_others() {
        let period = Nanos::from_millis(100);
        let at = |seed, second| row_in_step(seed, Nanos::from_secs(second), period);
        for seed in 0..50 {
            assert_eq!(at(seed, 70) - at(seed, 10), 600);
            assert!(at(seed, 10).abs_diff(at(seed + 1, 10)) <= 20);
        }
        assert_ne!(at(1, 10), at(2, 10));
    }
}
