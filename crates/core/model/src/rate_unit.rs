//! The unit of a counter that is shown as a rate, the same wherever it is shown. Seconds counted each second
//! mean different things: busy processors, a share of the time, or requests that wait at the same time. A
//! percent is always a share of a whole, and at most a hundred.

use std::borrow::Cow;

use crate::metric::{Kind, Metric, Unit};

/// The unit of a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateUnit {
    /// Processor seconds a second: 1.5 is one and a half processors.
    Cpus,
    /// The share of the time in which a state held: 1 is all of it.
    ShareOfTime,
    /// Durations of several things added up: how many of these things there were at the same time.
    AtATime,
    /// Any other unit, counted each second.
    PerSecond(Cow<'static, str>),
}

impl RateUnit {
    /// The unit for a counter with this name (without its instance) and unit (`seconds`, `bytes`).
    pub fn of(name: &str, unit: &str) -> Self {
        if unit != Unit::Seconds.as_str() {
            return RateUnit::PerSecond(known(unit));
        }
        let is_of_cpus = name.starts_with("cpu.") || name.starts_with("cgroup.cpu") || name.ends_with(".cpu");
        let is_of_several =
            name.starts_with("disk.") || name.starts_with("tape.") || name == "schedstat.waiting";
        if name.starts_with("pressure.") || SHARES.contains(&name) {
            RateUnit::ShareOfTime
        } else if is_of_cpus || ["uptime.idle", "schedstat.running"].contains(&name) {
            RateUnit::Cpus
        } else if is_of_several {
            RateUnit::AtATime
        } else {
            // A job's metric: only its publisher knows what the seconds mean.
            RateUnit::PerSecond(known(unit))
        }
    }

    /// The unit for this metric; `None`: a gauge is no rate.
    pub fn of_metric(metric: &Metric) -> Option<Self> {
        (metric.kind == Kind::Counter).then(|| RateUnit::of(&metric.name, metric.unit.as_str()))
    }

    /// Its name in the catalogue, on axes and in column titles.
    pub fn name(&self) -> Cow<'static, str> {
        match self {
            RateUnit::Cpus => "CPUs".into(),
            RateUnit::ShareOfTime => "share of the time".into(),
            RateUnit::AtATime => "at a time".into(),
            RateUnit::PerSecond(unit) => format!("{unit}/s").into(),
        }
    }
}

/// Times of which no second passes more than once.
const SHARES: [&str; 10] = [
    "btrfs.commit_time",
    "disk.io_time",
    "khz.source.gather_time",
    "tape.io_time",
    "fibrechannel.time_since_reset",
    "cgroup.cpu_waiting",
    "cgroup.memory_waiting",
    "cgroup.memory_stalled",
    "cgroup.io_waiting",
    "cgroup.io_stalled",
];

fn known(unit: &str) -> Cow<'static, str> {
    Unit::named(unit).map_or_else(|| unit.to_owned().into(), |unit| unit.as_str().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_per_second_mean_what_the_counter_counts() {
        for (name, unit, expected) in [
            ("cpu.all.user", "seconds", "CPUs"),
            ("cpu.idle", "seconds", "CPUs"),
            ("khz.process.cpu", "seconds", "CPUs"),
            ("disk.io_time", "seconds", "share of the time"),
            ("disk.read_time", "seconds", "at a time"),
            ("pressure.io.some.total", "seconds", "share of the time"),
            ("cgroup.cpu_usage", "seconds", "CPUs"),
            ("cgroup.cpu_throttled_time", "seconds", "CPUs"),
            ("cgroup.cpu_waiting", "seconds", "share of the time"),
            ("cgroup.io_stalled", "seconds", "share of the time"),
            ("schedstat.running", "seconds", "CPUs"),
            ("schedstat.waiting", "seconds", "at a time"),
            ("job.waited", "seconds", "seconds/s"),
            ("net.rx_bytes", "bytes", "bytes/s"),
            ("job.cost", "furlongs", "furlongs/s"),
        ] {
            assert_eq!(RateUnit::of(name, unit).name(), expected, "{name}");
        }
    }
}
