//! What `khz why` compares: a fixed table of resources, the series that each is made of, and in which direction it holds a job up. It
//! computes one number of a node at a time.

/// How a series of several instances becomes one number of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// All together.
    Sum,
    /// The largest one.
    Max,
}

/// The series that are asked for, and how their instances become one number. Of the clock rates one processor stands for all: a node may
/// have hundreds.
pub const SERIES: [(&str, Fold); 24] = [
    ("cpu.all.user", Fold::Sum),
    ("cpu.all.nice", Fold::Sum),
    ("cpu.all.system", Fold::Sum),
    ("cpu.all.idle", Fold::Sum),
    ("cpu.all.iowait", Fold::Sum),
    ("cpu.all.irq", Fold::Sum),
    ("cpu.all.softirq", Fold::Sum),
    ("cpu.all.steal", Fold::Sum),
    ("kernel.procs_running", Fold::Sum),
    ("mem.available", Fold::Sum),
    ("mem.total", Fold::Sum),
    ("vm.swap_in_pages", Fold::Sum),
    ("vm.swap_out_pages", Fold::Sum),
    ("pressure.cpu.some.total", Fold::Sum),
    ("pressure.memory.some.total", Fold::Sum),
    ("pressure.io.some.total", Fold::Sum),
    ("disk.io_time", Fold::Max),
    ("net.rx_errors", Fold::Sum),
    ("net.tx_errors", Fold::Sum),
    ("net.rx_dropped", Fold::Sum),
    ("net.tx_dropped", Fold::Sum),
    ("tcp.retransmits", Fold::Sum),
    ("cpufreq.scaling_current[0]", Fold::Max),
    ("thermal.package_throttles", Fold::Sum),
];

/// What programs of the job publish.
pub const PUBLISHED: &str = "job.*";

/// One number of a node in one part of the time, by the name in [`SERIES`].
pub type Number<'a> = &'a dyn Fn(&str) -> Option<f64>;

/// In which direction a number holds a job up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worse {
    /// More than the others have.
    High,
    /// Less than the others have.
    Low,
    /// Either.
    Both,
}

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A share, as percent.
    Share,
    /// A number, and what it counts.
    Plain(&'static str),
}

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Resource {
    /// What it is called.
    pub name: &'static str,
    /// What it says.
    pub words: &'static str,
    /// The number.
    pub number: fn(Number<'_>) -> Option<f64>,
    /// A distance from the others that is usual, at least.
    pub least: f64,
    /// In which direction it is odd.
    pub worse: Worse,
    /// How it is written.
    pub form: Form,
    /// How much it says of the reason: what a node waits for says more than that it does not work.
    pub weight: f64,
}

const CAUSE: f64 = 1.0;
const EFFECT: f64 = 0.3;

/// The table.
pub const RESOURCES: [Resource; 15] = [
    Resource {
        name: "io pressure",
        words: "of the time tasks waited for a disk or file system",
        number: |n| n("pressure.io.some.total"),
        least: 0.02,
        worse: Worse::High,
        form: Form::Share,
        weight: CAUSE,
    },
    Resource {
        name: "memory pressure",
        words: "of the time tasks waited for memory",
        number: |n| n("pressure.memory.some.total"),
        least: 0.02,
        worse: Worse::High,
        form: Form::Share,
        weight: CAUSE,
    },
    Resource {
        name: "cpu pressure",
        words: "of the time tasks waited for a processor",
        number: |n| n("pressure.cpu.some.total"),
        least: 0.03,
        worse: Worse::High,
        form: Form::Share,
        weight: CAUSE,
    },
    Resource {
        name: "steal",
        words: "of its processors' time the hypervisor gave to others",
        number: |n| share(n, &["cpu.all.steal"]),
        least: 0.01,
        worse: Worse::High,
        form: Form::Share,
        weight: CAUSE,
    },
    Resource {
        name: "iowait",
        words: "of its processors' time they were idle and waited for a disk",
        number: |n| share(n, &["cpu.all.iowait"]),
        least: 0.02,
        worse: Worse::High,
        form: Form::Share,
        weight: CAUSE,
    },
    Resource {
        name: "disk",
        words: "of the time its busiest disk was busy",
        number: |n| n("disk.io_time"),
        least: 0.05,
        worse: Worse::High,
        form: Form::Share,
        weight: CAUSE,
    },
    Resource {
        name: "swapping",
        words: "pages a second went to swap or came from there",
        number: |n| all(n, &["vm.swap_in_pages", "vm.swap_out_pages"]),
        least: 20.0,
        worse: Worse::High,
        form: Form::Plain("pages/s"),
        weight: CAUSE,
    },
    Resource {
        name: "memory",
        words: "of its memory was available",
        number: |n| Some(n("mem.available")? / n("mem.total").filter(|total| *total > 0.0)?),
        least: 0.03,
        worse: Worse::Low,
        form: Form::Share,
        weight: CAUSE,
    },
    Resource {
        name: "network errors",
        words: "packets a second had errors or were dropped",
        number: |n| all(n, &["net.rx_errors", "net.tx_errors", "net.rx_dropped", "net.tx_dropped"]),
        least: 1.0,
        worse: Worse::High,
        form: Form::Plain("packets/s"),
        weight: CAUSE,
    },
    Resource {
        name: "retransmits",
        words: "TCP segments a second had to be sent again",
        number: |n| n("tcp.retransmits"),
        least: 2.0,
        worse: Worse::High,
        form: Form::Plain("segments/s"),
        weight: CAUSE,
    },
    Resource {
        name: "throttling",
        words: "times a second a processor was too hot and was slowed down",
        number: |n| n("thermal.package_throttles"),
        least: 0.02,
        worse: Worse::High,
        form: Form::Plain("times/s"),
        weight: CAUSE,
    },
    Resource {
        name: "clock rate",
        words: "GHz was the clock rate of its first processor",
        number: |n| Some(n("cpufreq.scaling_current[0]")? / 1e9),
        least: 0.1,
        worse: Worse::Low,
        form: Form::Plain("GHz"),
        weight: CAUSE,
    },
    Resource {
        name: "run queue",
        words: "tasks for each processor ran or waited to run",
        number: |n| Some(n("kernel.procs_running")? / total(n)?),
        least: 0.3,
        worse: Worse::High,
        form: Form::Plain("tasks"),
        weight: EFFECT,
    },
    Resource {
        name: "cpu",
        words: "of its processors' time they worked",
        number: |n| Some(1.0 - share(n, &["cpu.all.idle", "cpu.all.iowait", "cpu.all.steal"])?),
        least: 0.03,
        worse: Worse::Both,
        form: Form::Share,
        weight: EFFECT,
    },
    Resource {
        name: "user",
        words: "of its processors' time they ran user programs",
        number: |n| share(n, &["cpu.all.user"]),
        least: 0.03,
        worse: Worse::Both,
        form: Form::Share,
        weight: EFFECT,
    },
];

/// The processors: what the rates of all their modes are together.
fn total(n: Number<'_>) -> Option<f64> {
    let modes = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
    let all: f64 = modes.iter().filter_map(|mode| n(&format!("cpu.all.{mode}"))).sum();
    (all > 0.0).then_some(all)
}

fn share(n: Number<'_>, modes: &[&str]) -> Option<f64> {
    Some(all(n, modes)? / total(n)?)
}

/// Those that there are, together; `None`: there is none.
fn all(n: Number<'_>, names: &[&str]) -> Option<f64> {
    names.iter().filter_map(|name| n(name)).reduce(|sum, one| sum + one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_processors_do_not_depend_on_how_many_a_node_has() {
        let node = |cpus: f64| {
            move |name: &str| match name {
                "cpu.all.user" => Some(0.5 * cpus),
                "cpu.all.idle" => Some(0.4 * cpus),
                "cpu.all.iowait" => Some(0.1 * cpus),
                _ => None,
            }
        };
        let of = |name: &str, cpus: f64| {
            let resource = RESOURCES.iter().find(|resource| resource.name == name).unwrap();
            (resource.number)(&node(cpus))
        };
        for cpus in [4.0, 128.0] {
            for (name, share) in [("iowait", 0.1), ("user", 0.5), ("cpu", 0.5)] {
                assert!(of(name, cpus).is_some_and(|got| (got - share).abs() < 1e-9), "{name}");
            }
            assert_eq!(of("swapping", cpus), None, "what is not known is not 0");
        }
    }

    #[test]
    fn every_series_is_in_the_catalogue() {
        let known = crate::role::gatherer::metrics();
        for (name, _) in SERIES {
            let pattern = khz_model::Pattern::new(name).unwrap();
            assert!(known.iter().any(|known| pattern.matches_metric(&known.name)), "{name}");
        }
    }
}
