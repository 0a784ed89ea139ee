//! The nodes of a demo by their parts: who runs a job, and at whom the faults come. The same seed chooses the same nodes. It knows
//! nothing of times.

use std::ops::Range;

use khz_simulate::chance;

/// What the nodes' names begin with.
pub const PREFIX: &str = "node";
/// Nodes that the script needs at least.
pub const NODES_MIN: usize = 8;

/// Which node plays what. Numbers begin at 1, as names do.
#[derive(Debug, PartialEq, Eq)]
pub struct Cast {
    nodes: usize,
    /// The nodes of the job, which compute in step.
    pub job: Range<usize>,
    /// The nodes of the other job, which write much at a time.
    pub writers: Range<usize>,
    /// Nodes that nobody uses: most of the others. A node that is idle is not odd where many are.
    pub free: Range<usize>,
    /// The node of the job that becomes slow.
    pub slow: usize,
    /// The node that loses its memory.
    pub leaking: usize,
    /// The node that dies.
    pub dying: usize,
}

impl Cast {
    /// The parts of so many nodes: of 200, the job has 64 and the other one 16.
    pub fn new(nodes: usize, seed: u64) -> Self {
        let share = |of_200: usize, least: usize| (nodes * of_200 / 200).max(least);
        let job = 1..1 + share(64, 4);
        let writers = job.end..job.end + share(16, 2);
        let others = writers.end..nodes + 1;
        let leaking = one_of(&others, seed, 2);
        let dying = one_of(&(others.start..others.end - 1), seed, 3);
        Cast {
            nodes,
            slow: one_of(&job, seed, 1),
            // The last place stands for the one that is taken.
            dying: if dying == leaking { others.end - 1 } else { dying },
            leaking,
            free: others.start..others.start + (others.len() * 2).div_ceil(3),
            job,
            writers,
        }
    }

    /// All nodes.
    pub fn all(&self) -> Range<usize> {
        1..self.nodes + 1
    }

    /// The name of a node, as the simulation has it.
    pub fn name(&self, number: usize) -> String {
        let digits = self.nodes.to_string().len();
        format!("{PREFIX}{number:0digits$}")
    }

    /// Several nodes as a hostlist.
    pub fn names(&self, numbers: &Range<usize>) -> String {
        let digits = self.nodes.to_string().len();
        format!("{PREFIX}[{:0digits$}-{:0digits$}]", numbers.start, numbers.end - 1)
    }
}

fn one_of(numbers: &Range<usize>, seed: u64, purpose: u64) -> usize {
    numbers.start + (chance(seed, purpose) % numbers.len() as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_demo_has_a_job_of_64_nodes() {
        let cast = Cast::new(200, 1);
        assert_eq!(
            (cast.names(&cast.job), cast.names(&cast.writers)),
            ("node[001-064]".into(), "node[065-080]".into())
        );
        assert_eq!(cast, Cast::new(200, 1));
        assert_ne!(cast, Cast::new(200, 2));
    }

    #[test]
    fn every_fault_has_a_node_of_its_own_however_few_there_are() {
        for nodes in NODES_MIN..300 {
            for seed in 0..20 {
                let cast = Cast::new(nodes, seed);
                let others = cast.writers.end..nodes + 1;
                assert!(cast.job.contains(&cast.slow), "{cast:?}");
                assert!(others.contains(&cast.leaking) && others.contains(&cast.dying), "{cast:?}");
                assert_ne!(cast.leaking, cast.dying, "{cast:?}");
            }
        }
    }
}
