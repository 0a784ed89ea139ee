//! The live line of a hub on a terminal: nodes that are up, rows that come in, CPU and memory. An unknown number is a
//! question mark.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use khz_model::{Nanos, Query, Sample};

use crate::show::quantities;
use crate::show::table::cut;
use crate::show::terminal;

/// Redrawn once a second: people read no faster.
const PERIOD: Duration = Duration::from_secs(1);

/// The numbers of the line at one moment; `None`: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Numbers {
    when: Nanos,
    up: Option<f64>,
    known: Option<f64>,
    rows: Option<f64>,
    awaited: Option<f64>,
    lost: Option<f64>,
    not_stored: Option<f64>,
    cpu: Option<f64>,
    memory: Option<f64>,
}

impl Numbers {
    fn at(samples: &[Sample]) -> Self {
        let sum = |name: &str| {
            let found = samples.iter().filter(|sample| sample.series.metric.name == name);
            let values = found.map(|s| Some(s.series.metric.format().number(s.reading.value()?)?.to_f64()));
            values.reduce(|sum, value| Some(sum? + value?)).flatten()
        };
        Numbers {
            when: samples.first().map_or(Nanos(0), |sample| sample.stamp.boot),
            up: sum("khz.hub.nodes_up"),
            known: sum("khz.hub.nodes"),
            rows: sum("khz.hub.rows"),
            awaited: sum("khz.node.rows_awaited"),
            lost: sum("khz.hub.rows_lost"),
            not_stored: sum("khz.store.rows_lost"),
            cpu: sum("khz.process.cpu"),
            memory: sum("khz.process.rss_anon"),
        }
    }

    /// The line in at most `width` characters; rates are since `before`.
    fn line(&self, before: &Numbers, width: usize) -> String {
        let seconds = self.when.since(before.when).as_secs_f64();
        let rate = |now: Option<f64>, then: Option<f64>| {
            Some((now? - then?) / seconds).filter(|rate| rate.is_finite())
        };
        let whole = |number: Option<f64>| {
            number.map_or("?".to_owned(), |n| quantities::of_value(&format!("{n:.0}"), ""))
        };
        let parts = [
            format!("{} of {} nodes up", whole(self.up), whole(self.known)),
            format!("{} rows/s", whole(rate(self.rows, before.rows))),
            match self.awaited.unwrap_or(0.0) {
                0.0 => format!("{} lost", whole(self.lost)),
                _ => format!("{} awaited, {} lost", whole(self.awaited), whole(self.lost)),
            },
            // Without a store, or while it has everything, there is nothing to say.
            match self.not_stored.unwrap_or(0.0) {
                0.0 => String::new(),
                _ => format!("{} not stored", whole(self.not_stored)),
            },
            rate(self.cpu, before.cpu)
                .map_or("CPU ?".to_owned(), |share| format!("CPU {:.1} %", share * 100.0)),
            self.memory.map_or("memory ?".to_owned(), |bytes| {
                format!("memory {}", quantities::of_value(&format!("{bytes:.0}"), "bytes"))
            }),
        ];
        let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        cut(&parts.join("   "), width)
    }
}

/// Redraws the line once a second, for ever.
pub async fn show(query: Arc<dyn Query>) {
    let mut before = Numbers::default();
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let Some(samples) = query.own() else { return std::future::pending().await };
        let numbers = Numbers::at(&samples);
        let width = terminal::stderr_width().unwrap_or(80);
        // A closed terminal is no problem.
        let _ = write!(std::io::stderr(), "\r\x1b[K{}", numbers.line(&before, width.saturating_sub(1)));
        before = numbers;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_known_and_no_more() {
        let before =
            Numbers { when: Nanos::from_secs(10), rows: Some(1_000.0), cpu: Some(1.0), ..Numbers::default() };
        let now = Numbers {
            when: Nanos::from_secs(11),
            up: Some(4_095.0),
            known: Some(4_096.0),
            rows: Some(410_600.0),
            awaited: Some(0.0),
            lost: Some(0.0),
            not_stored: Some(0.0),
            cpu: Some(1.4),
            memory: None,
        };
        assert_eq!(
            now.line(&before, 100),
            "4,095 of 4,096 nodes up   409,600 rows/s   0 lost   CPU 40.0 %   memory ?"
        );
        let full = Numbers { not_stored: Some(70.0), ..now };
        assert!(full.line(&before, 100).contains("   0 lost   70 not stored   CPU"), "the disk is full");
        assert!(now.line(&Numbers::default(), 100).contains("? rows/s"), "there are no numbers before");
    }
}
