//! `/sys/fs/cgroup/cpu.stat` (cgroup v2): CPU time of the control group that is mounted there.
//!
//! - On a host, that is everything but the kernel's idle threads.
//! - In a container, it is the container.
//! - With `--root`, it is the control group that is mounted below that root.
//!
//! Kernel documentation: Documentation/admin-guide/cgroup-v2.rst, "CPU Interface Files". Cgroup v1 has no
//! such file; its metrics are Absent there.

use khz_model::Unit;

use crate::entry::{Entry, counter};
use crate::kernel_file::{KernelFile, Pieces};
use crate::vmstat;

/// The file.
pub static CPU: KernelFile = KernelFile {
    name: "cgroup/cpu",
    path: "sys/fs/cgroup/cpu.stat",
    pieces: Pieces::Whole,
    only_base: false,
    scalars: SCALARS,
    groups: &[],
    // Each line is a name and a number.
    parse: vmstat::parse,
};

/// The kernel prints whole microseconds.
const fn time(name: &'static str, field: &'static str, family: &'static str, help: &'static str) -> Entry {
    counter(name, field, Unit::Seconds, help).steps(6).exposed(family, &[])
}

const fn count(name: &'static str, field: &'static str, family: &'static str, help: &'static str) -> Entry {
    counter(name, field, Unit::Count, help).exposed(family, &[])
}

static SCALARS: &[Entry] = &[
    time(
        "cgroup.cpu.usage",
        "usage_usec",
        "khz_root_cgroup_cpu_usage_seconds_total",
        "CPU time of the control group, of user programs and of the kernel for them.",
    ),
    time(
        "cgroup.cpu.user",
        "user_usec",
        "khz_root_cgroup_cpu_user_seconds_total",
        "CPU time of the control group in user programs.",
    ),
    time(
        "cgroup.cpu.system",
        "system_usec",
        "khz_root_cgroup_cpu_system_seconds_total",
        "CPU time of the control group in the kernel.",
    ),
    time(
        "cgroup.cpu.nice",
        "nice_usec",
        "khz_root_cgroup_cpu_nice_seconds_total",
        "CPU time of the control group in user programs of low priority (Linux 6.13).",
    ),
    count(
        "cgroup.cpu.periods",
        "nr_periods",
        "khz_root_cgroup_cpu_periods_total",
        "Periods in which the control group's CPU limit was enforced.",
    ),
    count(
        "cgroup.cpu.throttled",
        "nr_throttled",
        "khz_root_cgroup_cpu_throttled_total",
        "Periods in which the control group reached its CPU limit and had to wait.",
    ),
    time(
        "cgroup.cpu.throttled_time",
        "throttled_usec",
        "khz_root_cgroup_cpu_throttled_seconds_total",
        "Time that the control group's CPUs waited because of its CPU limit.",
    ),
];

#[cfg(test)]
mod tests {
    use crate::{Outcome, Parser};
    use khz_model::{Absence, Reading};

    #[test]
    fn a_group_without_a_limit_has_no_periods() {
        let mut parser = Parser::new(&super::CPU);
        let text =
            "usage_usec 4310\nuser_usec 1200\nsystem_usec 3110\nnice_usec 0\ncore_sched.force_idle_usec 0\n";
        parser.advance_with(text.as_bytes());
        assert_eq!(parser.values()[..4], [4_310, 1_200, 3_110, 0]);
        assert_eq!(parser.reading(5), Some(Reading::Absent(Absence::NoField)));
        assert_eq!(parser.advance_with(text.replace("4310", "4395").as_bytes()), Outcome::InPlace);
        assert_eq!(parser.values()[0], 4_395);
    }

    #[test]
    fn damage_is_failed_never_zero() {
        let mut parser = Parser::new(&super::CPU);
        parser.advance_with(b"usage_usec\nsystem_usec x\n");
        assert!(matches!(parser.reading(0), Some(Reading::Failed(_))));
        assert!(matches!(parser.reading(2), Some(Reading::Failed(_))));
    }
}
