//! `/proc/pressure/*` of a made-up host: averages that the kernel recomputes, and totals that grow.

use crate::times::hundredths;
use crate::{KernelFile, Noise, Truth};

/// A made-up `/proc/pressure` file.
#[derive(Clone, Debug)]
pub struct Pressure {
    path: &'static str,
    some: Option<Line>,
    full: Line,
}

#[derive(Clone, Debug)]
struct Line {
    metrics: [&'static str; 4],
    /// Hundredths of a percent, over 10, 60 and 300 s.
    averages: [u64; 3],
    /// Microseconds.
    total: u64,
}

macro_rules! line {
    ($what:literal, $noise:expr) => {
        Line::new(
            [
                concat!("pressure.", $what, ".avg10"),
                concat!("pressure.", $what, ".avg60"),
                concat!("pressure.", $what, ".avg300"),
                concat!("pressure.", $what, ".total"),
            ],
            $noise,
        )
    };
}

impl Pressure {
    /// The files for CPUs, memory, disks and interrupts. The last one has only one line.
    pub(crate) fn all(noise: &mut Noise) -> [Self; 4] {
        let file = |path, some, full| Pressure { path, some, full };
        [
            file("proc/pressure/cpu", Some(line!("cpu.some", noise)), line!("cpu.full", noise)),
            file("proc/pressure/memory", Some(line!("memory.some", noise)), line!("memory.full", noise)),
            file("proc/pressure/io", Some(line!("io.some", noise)), line!("io.full", noise)),
            file("proc/pressure/irq", None, line!("irq.full", noise)),
        ]
    }

    fn lines(&self) -> impl Iterator<Item = (&'static str, &Line)> {
        self.some.iter().map(|line| ("some", line)).chain([("full", &self.full)])
    }
}

impl Line {
    fn new(metrics: [&'static str; 4], noise: &mut Noise) -> Self {
        let mut line = Line { metrics, averages: [0; 3], total: noise.counter(45) };
        line.advance(noise);
        line
    }

    fn advance(&mut self, noise: &mut Noise) {
        self.averages = [0; 3].map(|_: u64| noise.below(10_001));
        self.total += noise.growth();
    }
}

impl KernelFile for Pressure {
    fn path(&self) -> &'static str {
        self.path
    }

    fn advance(&mut self, noise: &mut Noise) {
        self.some.iter_mut().chain([&mut self.full]).for_each(|line| line.advance(noise));
    }

    fn text(&self) -> String {
        let print = |(kind, line): (&str, &Line)| {
            let [ten, sixty, three_hundred] = line.averages.map(hundredths);
            format!("{kind} avg10={ten} avg60={sixty} avg300={three_hundred} total={}\n", line.total)
        };
        self.lines().map(print).collect()
    }

    fn truth(&self) -> Vec<Truth> {
        let of = |(_, line): (&str, &Line)| {
            let [ten, sixty, three_hundred] = line.averages;
            let values = [ten, sixty, three_hundred, line.total];
            line.metrics
                .into_iter()
                .zip(values)
                .map(|(metric, value)| Truth { metric, instance: None, value })
                .collect::<Vec<_>>()
        };
        self.lines().flat_map(of).collect()
    }
}
