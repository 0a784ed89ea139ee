//! What a program has taken on this node, over all lives of the child: the agent's own numbers show it.

use std::sync::atomic::{AtomicU64, Ordering};

use khz_gather::ProgramCounts;
use khz_model::Instance;

/// Which of the counts is a state and no sum: the most fuel of a row, and the memory.
const STATES: [usize; 2] = [5, 7];

/// The counts of one program.
#[derive(Debug)]
pub(crate) struct Counts {
    /// The channel.
    pub channel: Instance,
    /// What earlier lives took.
    before: [AtomicU64; 8],
    now: [AtomicU64; 8],
}

impl Counts {
    pub fn of(channel: Instance) -> Self {
        Counts { channel, before: Default::default(), now: Default::default() }
    }

    /// The child says that it has taken this much since it has the program.
    pub fn set(&self, counts: ProgramCounts) {
        for (now, count) in self.now.iter().zip(counts) {
            now.store(count, Ordering::Relaxed);
        }
    }

    /// The child has died, or begins the program: it counts from 0.
    pub fn begin_again(&self) {
        for (at, (before, now)) in self.before.iter().zip(&self.now).enumerate() {
            let now = now.swap(0, Ordering::Relaxed);
            if !STATES.contains(&at) {
                before.fetch_add(now, Ordering::Relaxed);
            }
        }
    }

    /// A row that came out had no place, or rows were not taken because the child was away.
    pub fn lose(&self, rows: u64) {
        self.before[2].fetch_add(rows, Ordering::Relaxed);
    }

    /// All lives together.
    pub fn all(&self) -> ProgramCounts {
        std::array::from_fn(|at| {
            self.before[at].load(Ordering::Relaxed) + self.now[at].load(Ordering::Relaxed)
        })
    }
}

/// Adds the counts of another lane of the same channel.
pub(crate) fn add(to: &mut ProgramCounts, counts: ProgramCounts) {
    for (at, (to, count)) in to.iter_mut().zip(counts).enumerate() {
        *to = if at == STATES[0] { (*to).max(count) } else { *to + count };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_go_on_over_the_lives_of_the_child_and_states_do_not() {
        let counts = Counts::of(Instance::from_kernel(b"busy"));
        counts.set([10, 5, 1, 0, 1_000, 300, 40, 65_536]);
        counts.begin_again();
        counts.lose(3);
        assert_eq!(counts.all(), [10, 5, 4, 0, 1_000, 0, 40, 0]);
        counts.set([2, 1, 0, 1, 100, 90, 4, 131_072]);
        assert_eq!(counts.all(), [12, 6, 4, 1, 1_100, 90, 44, 131_072]);
        let mut both = counts.all();
        add(&mut both, [1, 1, 1, 1, 1, 50, 1, 1]);
        assert_eq!(both, [13, 7, 5, 2, 1_101, 90, 45, 131_073]);
    }
}
