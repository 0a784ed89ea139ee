//! Where a process runs: on one CPU, the same for all contenders. Memory and caches of the other CPUs belong
//! to other processes, as on a machine in real use.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::BenchError;

/// While it exists, this thread and the children it starts run on one CPU.
pub struct Pinned {
    before: CpuSet,
    /// The CPU.
    pub cpu: usize,
}

impl Pinned {
    /// Pins this thread to the last CPU that it may use; the first one handles most interrupts.
    pub fn here() -> Result<Self, BenchError> {
        Pinned::to(|_, cpu| {
            let mut one = CpuSet::new();
            one.set(cpu);
            one
        })
    }

    /// Keeps this thread, and the children it starts, off the CPU of [`Pinned::here`], if there are others.
    pub fn elsewhere() -> Result<Self, BenchError> {
        Pinned::to(|before, cpu| {
            let mut others = *before;
            others.unset(cpu);
            if others.count() == 0 { *before } else { others }
        })
    }

    fn to(choose: impl Fn(&CpuSet, usize) -> CpuSet) -> Result<Self, BenchError> {
        let before = sched_getaffinity(None).map_err(BenchError::call("sched_getaffinity"))?;
        let cpu = (0..CpuSet::MAX_CPU).rev().find(|&cpu| before.is_set(cpu)).unwrap_or(0);
        sched_setaffinity(None, &choose(&before, cpu)).map_err(BenchError::call("sched_setaffinity"))?;
        Ok(Pinned { before, cpu })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}
