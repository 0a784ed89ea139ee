//! Files below `/proc/net` of a made-up host that have a line of hexadecimal numbers for each CPU.

use crate::{KernelFile, Noise, Truth};

/// The metrics and their columns of softnet_stat, and the number of its columns: the thirteenth is the CPU's number.
const SOFTNET: [(usize, &str); 7] = [
    (0, "softnet.processed"),
    (1, "softnet.dropped"),
    (2, "softnet.squeezed"),
    (8, "softnet.collisions"),
    (9, "softnet.woken"),
    (10, "softnet.flow_limited"),
    (11, "softnet.backlog"),
];
const SOFTNET_COLUMNS: usize = 15;
const CPU: usize = 12;

/// A made-up `/proc/net/softnet_stat`.
#[derive(Clone, Debug)]
pub struct Softnet {
    cpus: Vec<[u32; SOFTNET.len()]>,
}

impl Softnet {
    pub(crate) fn new(cpus: usize, noise: &mut Noise) -> Self {
        let mut number = || noise.counter(31) as u32;
        Softnet { cpus: (0..cpus).map(|_| std::array::from_fn(|_| number())).collect() }
    }
}

impl KernelFile for Softnet {
    fn path(&self) -> &'static str {
        "proc/net/softnet_stat"
    }

    fn advance(&mut self, noise: &mut Noise) {
        // The kernel's counters have 32 bits, and begin again.
        self.cpus.as_flattened_mut().iter_mut().for_each(|value| {
            *value = value.wrapping_add(noise.growth() as u32);
        });
    }

    fn text(&self) -> String {
        let line = |(cpu, numbers): (usize, &[u32; SOFTNET.len()])| {
            let number = |column| match column {
                CPU => cpu as u32,
                _ => {
                    let at = SOFTNET.iter().position(|(known, _)| *known == column);
                    at.map_or(0, |at| numbers[at])
                }
            };
            let words: Vec<String> =
                (0..SOFTNET_COLUMNS).map(|column| format!("{:08x}", number(column))).collect();
            words.join(" ") + "\n"
        };
        self.cpus.iter().enumerate().map(line).collect()
    }

    fn truth(&self) -> Vec<Truth> {
        let of_cpu = |(cpu, numbers): (usize, &[u32; SOFTNET.len()])| {
            let truth = move |((_, metric), value): ((usize, &'static str), u32)| Truth {
                metric,
                instance: Some(cpu.to_string()),
                value: u64::from(value),
            };
            SOFTNET.into_iter().zip(*numbers).map(truth)
        };
        self.cpus.iter().enumerate().flat_map(of_cpu).collect()
    }
}

/// The columns of nf_conntrack, and the metrics that are their sums.
const CONNTRACK: [(&str, Option<&str>); 11] = [
    ("entries", None),
    ("found", Some("conntrack.found")),
    ("new", None),
    ("invalid", Some("conntrack.invalid")),
    ("ignore", Some("conntrack.ignored")),
    ("insert", Some("conntrack.inserted")),
    ("insert_failed", Some("conntrack.insert_failed")),
    ("drop", Some("conntrack.dropped")),
    ("early_drop", Some("conntrack.early_dropped")),
    ("icmp_error", None),
    ("search_restart", Some("conntrack.search_restarts")),
];

/// A made-up `/proc/net/stat/nf_conntrack`.
#[derive(Clone, Debug)]
pub struct Conntrack {
    cpus: Vec<[u32; CONNTRACK.len()]>,
}

impl Conntrack {
    pub(crate) fn new(cpus: usize, noise: &mut Noise) -> Self {
        let mut number = || noise.counter(31) as u32;
        Conntrack { cpus: (0..cpus).map(|_| std::array::from_fn(|_| number())).collect() }
    }
}

impl KernelFile for Conntrack {
    fn path(&self) -> &'static str {
        "proc/net/stat/nf_conntrack"
    }

    fn advance(&mut self, noise: &mut Noise) {
        self.cpus.as_flattened_mut().iter_mut().for_each(|value| {
            *value = value.wrapping_add(noise.growth() as u32);
        });
    }

    fn text(&self) -> String {
        let names: Vec<&str> = CONNTRACK.iter().map(|(name, _)| *name).collect();
        let line = |numbers: &[u32; CONNTRACK.len()]| {
            let words: Vec<String> = numbers.iter().map(|number| format!("{number:08x}")).collect();
            words.join(" ") + "\n"
        };
        names.join(" ") + "\n" + &self.cpus.iter().map(line).collect::<String>()
    }

    fn truth(&self) -> Vec<Truth> {
        let sum = |column: usize| self.cpus.iter().map(|numbers| u64::from(numbers[column])).sum();
        let truth = |(column, (_, metric)): (usize, (&str, Option<&'static str>))| {
            metric.map(|metric| Truth { metric, instance: None, value: sum(column) })
        };
        CONNTRACK.into_iter().enumerate().filter_map(truth).collect()
    }
}
