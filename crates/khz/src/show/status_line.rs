//! The live line of `khz` alone and of an agent on a terminal: rate, late ticks, CPU and memory. An unknown number is a
//! question mark.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use khz_model::{Nanos, Pattern, Query, Sample, Snapshot};

use crate::show::quantities;
use crate::show::table::cut;
use crate::show::terminal;

/// Redrawn once a second: people read no faster.
const PERIOD: Duration = Duration::from_secs(1);
/// Half the period: every line shows numbers that the last one did not have.
const AGE_MAX: Nanos = Nanos::from_millis(500);
/// The numbers of the agent that the line is made of.
const SHOWN: [&str; 4] = ["khz.gather.rate", "khz.lane.*_ticks", "khz.process.cpu", "khz.process.rss_anon"];

/// The numbers of the line; `None`: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Status {
    /// Ticks of the fastest lane in the last second.
    pub rate_reached: Option<f64>,
    /// Ticks of all lanes that began late.
    pub late: Option<u64>,
    /// Ticks of all lanes that were skipped.
    pub skipped: Option<u64>,
    /// Share of one core that this process used in the last second.
    pub cpu_share: Option<f64>,
    /// Anonymous memory of this process (RssAnon).
    pub memory_bytes: Option<u64>,
}

impl Status {
    /// The status in the agent's own numbers; `last_cpu` is the CPU time at the last call, and when that was.
    pub fn of(snapshot: &Snapshot, last_cpu: &mut Option<(f64, Nanos)>) -> Self {
        let samples: Vec<&Sample> = snapshot.nodes.iter().flat_map(|(_, samples)| samples).collect();
        let named = |name: &str| {
            let found = samples.iter().filter(|sample| sample.series.metric.name == name);
            found.filter_map(|sample| Some((sample.reading.value()?, *sample))).collect::<Vec<_>>()
        };
        let number = |name: &str| {
            let found = named(name);
            let &(value, sample) = found.first()?;
            Some((sample.series.metric.format().number(value)?.to_f64(), sample.stamp.boot))
        };
        let sum = |name: &str| {
            let found = named(name);
            (!found.is_empty()).then(|| found.iter().map(|(value, _)| value).sum())
        };
        let cpu = number("khz.process.cpu");
        let cpu_share = match (*last_cpu, cpu) {
            (Some((before, then)), Some((after, now))) if now > then => {
                Some((after - before) / now.since(then).as_secs_f64())
            }
            _ => None,
        };
        *last_cpu = cpu;
        Status {
            rate_reached: number("khz.gather.rate").map(|(rate, _)| rate),
            late: sum("khz.lane.late_ticks"),
            skipped: sum("khz.lane.skipped_ticks"),
            cpu_share,
            memory_bytes: sum("khz.process.rss_anon"),
        }
    }

    /// The line in at most `width` characters, without its end.
    pub fn line(&self, width: usize) -> String {
        let whole =
            |count: Option<u64>| count.map_or("?".to_owned(), |n| quantities::of_value(&n.to_string(), ""));
        let parts = [
            format!("{} Hz", self.rate_reached.map_or("?".to_owned(), |hz| format!("{hz:.0}"))),
            format!("{} late, {} skipped", whole(self.late), whole(self.skipped)),
            format!(
                "CPU {}",
                self.cpu_share.map_or("?".to_owned(), |share| format!("{:.1} %", share * 100.0))
            ),
            self.memory_bytes.map_or("memory ?".to_owned(), |bytes| {
                format!("memory {}", quantities::of_value(&bytes.to_string(), "bytes"))
            }),
        ];
        cut(&parts.join("   "), width)
    }
}

/// Redraws the line once a second, for ever.
pub async fn show(query: Arc<dyn Query>) {
    let Ok(patterns) = SHOWN.iter().map(|text| Pattern::new(text)).collect::<Result<Vec<_>, _>>() else {
        unreachable!("BUG: a pattern of our own cannot be read")
    };
    let mut last_cpu = None;
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let Ok(snapshot) = query.latest(&patterns, AGE_MAX).await else { continue };
        let status = Status::of(&snapshot, &mut last_cpu);
        let width = terminal::stderr_width().unwrap_or(80);
        // A closed terminal is no problem.
        let _ = write!(std::io::stderr(), "\r\x1b[K{}", status.line(width.saturating_sub(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::{Instance, NodeName, Reading, Series, Stamp};

    /// A snapshot of our own numbers, some seconds after boot.
    fn snapshot(second: u64, numbers: &[(&str, &str, u64)]) -> Snapshot {
        let metrics = khz_gather::catalogue();
        let sample = |&(name, instance, value): &(&str, &str, u64)| {
            let metric = metrics.iter().find(|metric| metric.name == name).unwrap().clone();
            let instance = metric.instances.is_some().then(|| Instance::from_kernel(instance.as_bytes()));
            let stamp = Stamp { boot: Nanos::from_secs(second), real_offset: 0 };
            Sample { series: Series { metric, instance }, reading: Reading::Present(value), stamp }
        };
        let node = NodeName::new("n1").unwrap();
        Snapshot { nodes: vec![(node, numbers.iter().map(sample).collect())], missing: Vec::new() }
    }

    #[test]
    fn the_line_is_made_of_the_agents_own_numbers() {
        let mut last_cpu = None;
        let first = snapshot(10, &[("khz.process.cpu", "", 1_000_000_000)]);
        assert_eq!(Status::of(&first, &mut last_cpu), Status::default());
        let second = snapshot(
            12,
            &[
                ("khz.process.cpu", "", 1_050_000_000),
                ("khz.process.rss_anon", "", 1_200_000),
                ("khz.gather.rate", "", 999_500),
                ("khz.lane.late_ticks", "base", 1),
                ("khz.lane.late_ticks", "local", 2),
                ("khz.lane.skipped_ticks", "base", 0),
            ],
        );
        let status = Status::of(&second, &mut last_cpu);
        assert_eq!(status.line(80), "1000 Hz   3 late, 0 skipped   CPU 2.5 %   memory 1.1 MiB");
    }

    #[test]
    fn every_number_of_the_line_is_in_the_catalogue() {
        let metrics = khz_gather::catalogue();
        for text in SHOWN {
            let pattern = Pattern::new(text).unwrap();
            assert!(metrics.iter().any(|metric| pattern.matches_metric(&metric.name)), "{text}");
        }
    }

    #[test]
    fn unknown_is_a_question_mark_not_zero() {
        assert_eq!(Status::default().line(80), "? Hz   ? late, ? skipped   CPU ?   memory ?");
        let status = Status {
            rate_reached: Some(999.6),
            late: Some(1234),
            skipped: Some(0),
            cpu_share: Some(0.0213),
            memory_bytes: Some(3_355_443),
        };
        assert_eq!(status.line(80), "1000 Hz   1,234 late, 0 skipped   CPU 2.1 %   memory 3.2 MiB");
        assert_eq!(status.line(12), "1000 Hz   1…");
    }
}
