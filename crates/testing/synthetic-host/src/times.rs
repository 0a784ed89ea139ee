//! `/proc/loadavg` and `/proc/uptime` of a made-up host.

use crate::{KernelFile, Noise, Truth};

/// A made-up `/proc/loadavg`.
#[derive(Clone, Debug)]
pub struct Loadavg {
    /// Hundredths.
    averages: [u64; 3],
    running: u64,
    total: u64,
    last_pid: u64,
}

impl Loadavg {
    pub(crate) fn new(noise: &mut Noise) -> Self {
        let mut load =
            Loadavg { averages: [0; 3], running: 1, total: 100, last_pid: 300 + noise.below(30_000) };
        load.advance(noise);
        load
    }
}

impl KernelFile for Loadavg {
    fn path(&self) -> &'static str {
        "proc/loadavg"
    }

    fn advance(&mut self, noise: &mut Noise) {
        self.averages = [0; 3].map(|_: u64| noise.counter(20));
        self.total = 1 + noise.counter(20);
        self.running = noise.below(self.total) + 1;
        self.last_pid += noise.below(1_000);
    }

    fn text(&self) -> String {
        let [one, five, fifteen] = self.averages.map(hundredths);
        format!("{one} {five} {fifteen} {}/{} {}\n", self.running, self.total, self.last_pid)
    }

    fn truth(&self) -> Vec<Truth> {
        let [one, five, fifteen] = self.averages;
        [
            ("load.1m", one),
            ("load.5m", five),
            ("load.15m", fifteen),
            ("tasks.running", self.running),
            ("tasks.total", self.total),
        ]
        .map(|(metric, value)| Truth { metric, instance: None, value })
        .into()
    }
}

/// A made-up `/proc/uptime`.
#[derive(Clone, Debug)]
pub struct Uptime {
    cpus: u64,
    /// Hundredths of a second.
    up: u64,
    idle: u64,
}

impl Uptime {
    pub(crate) fn new(cpus: usize, noise: &mut Noise) -> Self {
        let up = noise.counter(36);
        let cpus = cpus as u64;
        Uptime { cpus, up, idle: noise.below(up * cpus) }
    }
}

impl KernelFile for Uptime {
    fn path(&self) -> &'static str {
        "proc/uptime"
    }

    fn advance(&mut self, noise: &mut Noise) {
        let passed = noise.below(500);
        self.up += passed;
        self.idle += noise.below(passed * self.cpus);
    }

    fn text(&self) -> String {
        format!("{} {}\n", hundredths(self.up), hundredths(self.idle))
    }

    fn truth(&self) -> Vec<Truth> {
        [("uptime.up", self.up), ("uptime.idle", self.idle)]
            .map(|(metric, value)| Truth { metric, instance: None, value })
            .into()
    }
}

/// `52` as `0.52`.
pub(crate) fn hundredths(steps: u64) -> String {
    format!("{}.{:02}", steps / 100, steps % 100)
}
