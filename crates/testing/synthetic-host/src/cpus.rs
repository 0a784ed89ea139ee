//! `/proc/stat` of a made-up host: CPU times in ticks, interrupts, context switches, forks, tasks.

use std::fmt::Write;

use crate::{KernelFile, Noise, Truth};

/// The metrics of a CPU's ten times, in the kernel's order.
pub const CPU_STATES: [&str; 10] = [
    "cpu.user",
    "cpu.nice",
    "cpu.system",
    "cpu.idle",
    "cpu.iowait",
    "cpu.irq",
    "cpu.softirq",
    "cpu.steal",
    "cpu.guest",
    "cpu.guest_nice",
];

/// The same, summed over all CPUs.
const ALL_STATES: [&str; 10] = [
    "cpu.all.user",
    "cpu.all.nice",
    "cpu.all.system",
    "cpu.all.idle",
    "cpu.all.iowait",
    "cpu.all.irq",
    "cpu.all.softirq",
    "cpu.all.steal",
    "cpu.all.guest",
    "cpu.all.guest_nice",
];

/// A made-up `/proc/stat`.
#[derive(Clone, Debug)]
pub struct Cpus {
    /// The numbers of the CPUs that are printed, in this order. The sum counts all CPUs, printed or not.
    pub online: Vec<usize>,
    times: Vec<[u64; 10]>,
    interrupts: Vec<u64>,
    /// Interrupts without a number.
    interrupts_unnumbered: u64,
    softirqs: [u64; 10],
    switches: u64,
    boot_time: u64,
    forks: u64,
    running: u64,
    blocked: u64,
}

impl Cpus {
    pub(crate) fn new(cpus: usize, interrupts: usize, noise: &mut Noise) -> Self {
        Cpus {
            online: (0..cpus).collect(),
            // 2^40 ticks of 10 ms are 348 years.
            times: (0..cpus).map(|_| [0; 10].map(|_: u64| noise.counter(40))).collect(),
            interrupts: (0..interrupts)
                .map(|_| if noise.once_in(4) { noise.counter(40) } else { 0 })
                .collect(),
            interrupts_unnumbered: noise.counter(40),
            softirqs: [0; 10].map(|_: u64| noise.counter(40)),
            switches: noise.counter(60),
            boot_time: 1_700_000_000 + noise.below(100_000_000),
            forks: noise.counter(32),
            running: 1 + noise.below(300),
            blocked: noise.below(3),
        }
    }

    fn all(&self, state: usize) -> u64 {
        self.times.iter().map(|times| times[state]).sum()
    }

    fn interrupts_in_all(&self) -> u64 {
        self.interrupts_unnumbered + self.interrupts.iter().sum::<u64>()
    }
}

impl KernelFile for Cpus {
    fn path(&self) -> &'static str {
        "proc/stat"
    }

    fn advance(&mut self, noise: &mut Noise) {
        for times in &mut self.times {
            // Some ticks pass; each belongs to one state.
            for _ in 0..noise.below(4) {
                times[noise.below(10) as usize] += noise.below(200);
            }
        }
        for interrupt in self.interrupts.iter_mut().filter(|count| **count > 0) {
            *interrupt += noise.growth();
        }
        self.interrupts_unnumbered += noise.growth();
        self.softirqs.iter_mut().for_each(|count| *count += noise.growth());
        self.switches += noise.growth();
        self.forks += noise.below(20);
        self.running = 1 + noise.below(300);
        self.blocked = noise.below(12);
    }

    fn text(&self) -> String {
        // Two blanks: the kernel writes "cpu ", and a blank before each number.
        let mut text = String::from("cpu ");
        let _ = (0..10).try_for_each(|state| write!(text, " {}", self.all(state)));
        for &cpu in &self.online {
            let _ = write!(text, "\ncpu{cpu}");
            let _ = self.times[cpu].iter().try_for_each(|time| write!(text, " {time}"));
        }
        let _ = write!(text, "\nintr {}", self.interrupts_in_all());
        let _ = self.interrupts.iter().try_for_each(|count| write!(text, " {count}"));
        let _ = write!(
            text,
            "\nctxt {}\nbtime {}\nprocesses {}\nprocs_running {}\nprocs_blocked {}\nsoftirq {}",
            self.switches,
            self.boot_time,
            self.forks,
            self.running,
            self.blocked,
            self.softirqs.iter().sum::<u64>(),
        );
        let _ = self.softirqs.iter().try_for_each(|count| write!(text, " {count}"));
        text.push('\n');
        text
    }

    fn truth(&self) -> Vec<Truth> {
        let one = |metric, value| Truth { metric, instance: None, value };
        let mut truths: Vec<_> = (0..10).map(|state| one(ALL_STATES[state], self.all(state))).collect();
        truths.extend([
            one("kernel.interrupts", self.interrupts_in_all()),
            one("kernel.context_switches", self.switches),
            one("kernel.boot_time", self.boot_time),
            one("kernel.forks", self.forks),
            one("kernel.procs_running", self.running),
            one("kernel.procs_blocked", self.blocked),
        ]);
        for &cpu in &self.online {
            truths.extend(CPU_STATES.iter().zip(self.times[cpu]).map(|(metric, value)| Truth {
                metric,
                instance: Some(cpu.to_string()),
                value,
            }));
        }
        truths
    }
}
