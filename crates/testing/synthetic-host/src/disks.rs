//! `/proc/diskstats` of a made-up host: seventeen counters for each disk and partition.

use std::fmt::Write;

use crate::{KernelFile, Noise, Truth};

/// The metrics of a disk's counters, in the kernel's order.
pub const DISK_COUNTERS: [&str; 17] = [
    "disk.reads",
    "disk.reads_merged",
    "disk.read_bytes",
    "disk.read_time",
    "disk.writes",
    "disk.writes_merged",
    "disk.written_bytes",
    "disk.write_time",
    "disk.io_now",
    "disk.io_time",
    "disk.io_time_weighted",
    "disk.discards",
    "disk.discards_merged",
    "disk.discarded_bytes",
    "disk.discard_time",
    "disk.flushes",
    "disk.flush_time",
];

const READS: usize = 0;
const WRITES: usize = 4;
/// The counters that the text gives in sectors of 512 bytes.
const SECTORS: [usize; 3] = [2, 6, 13];
/// The counters that have 32 bits in the kernel: milliseconds, and requests in progress.
const SHORT: [usize; 7] = [3, 7, 8, 9, 10, 14, 16];
const IO_NOW: usize = 8;

/// A made-up `/proc/diskstats`.
#[derive(Clone, Debug)]
pub struct Disks {
    /// Each disk's name and counters, in the order of the text.
    pub disks: Vec<(String, [u64; 17])>,
}

impl Disks {
    pub(crate) fn new(disks: usize, noise: &mut Noise) -> Self {
        let name = |n: usize| match n % 4 {
            0 => format!("nvme{}n1", n / 4),
            part => format!("nvme{}n1p{part}", n / 4),
        };
        let mut counters = || {
            std::array::from_fn(|i| match i {
                i if SHORT.contains(&i) => noise.counter(30),
                // Few enough sectors that their bytes fit 64 bits.
                i if SECTORS.contains(&i) => noise.counter(50),
                _ => noise.counter(60),
            })
        };
        Disks { disks: (0..disks).map(|n| (name(n), counters())).collect() }
    }
}

impl KernelFile for Disks {
    fn path(&self) -> &'static str {
        "proc/diskstats"
    }

    fn advance(&mut self, noise: &mut Noise) {
        for (_, counters) in &mut self.disks {
            if noise.once_in(2) {
                continue;
            }
            for (index, counter) in counters.iter_mut().enumerate() {
                match index {
                    IO_NOW => *counter = noise.below(200),
                    i if SHORT.contains(&i) => *counter += noise.below(2_000),
                    _ => *counter += noise.growth(),
                }
            }
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (minor, (name, counters)) in self.disks.iter().enumerate() {
            let _ = write!(text, "{:>4} {minor:>7} {name}", 259);
            let _ = counters.iter().try_for_each(|counter| write!(text, " {counter}"));
            text.push('\n');
        }
        text
    }

    fn truth(&self) -> Vec<Truth> {
        let mut truths = Vec::new();
        for (name, counters) in &self.disks {
            let instance = Some(name.clone());
            for (index, (metric, &counter)) in DISK_COUNTERS.iter().zip(counters).enumerate() {
                let value = if SECTORS.contains(&index) { counter * 512 } else { counter };
                truths.push(Truth { metric, instance: instance.clone(), value });
            }
            truths.push(Truth { metric: "disk.ios", instance, value: counters[READS] + counters[WRITES] });
        }
        truths
    }
}
