//! The agent's own numbers, as metrics like all others: the work and the cost of each source and lane, and of
//! the process. Other parts of the program add theirs as tallies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use khz_model::{Absence, Instance, Metric, Reading, Series, Unit};
use khz_parse::Entry;
use khz_parse::entry::{counter, gauge};

use crate::readings::Readings;

/// The name of the source that these numbers come from.
pub(crate) const SOURCE: &str = "khz";

/// The file name in the origin of these metrics.
const ORIGIN: &str = "khz itself";

/// The value of a tally whose number is not known; it is shown as absent.
const UNKNOWN: u64 = u64::MAX;

/// A number that another part of the program counts and the agent shows; `u64::MAX` means that it is not
/// known at present.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Its catalogue entry.
    pub metric: Arc<Metric>,
    /// Its instance, if the metric has instances.
    pub instance: Option<Instance>,
    /// The number.
    pub count: Arc<AtomicU64>,
}

/// The metrics of the process, in slot order.
static PROCESS: &[Entry] = &[
    counter("khz.process.cpu", "CLOCK_PROCESS_CPUTIME_ID", Unit::Seconds, "CPU time of the whole process.")
        .steps(9)
        .exposed("khz_process_cpu_seconds_total", &[]),
    gauge("khz.process.rss_anon", "resident - shared", Unit::Bytes, "Memory of the process that is its own.")
        .exposed("khz_process_rss_anon_bytes", &[]),
    gauge(
        "khz.process.rss_shared",
        "shared",
        Unit::Bytes,
        "Mapped files and shared memory of the process: program, libraries, rings.",
    )
    .exposed("khz_process_rss_shared_bytes", &[]),
    counter("khz.gather.cpu", "CLOCK_THREAD_CPUTIME_ID", Unit::Seconds, "CPU time of the gather thread.")
        .steps(9)
        .exposed("khz_gather_cpu_seconds_total", &[]),
    counter("khz.gather.wakeups", "wakeups", Unit::Count, "Times the gather thread woke up.")
        .exposed("khz_gather_wakeups_total", &[]),
    gauge("khz.gather.rate", "rate", Unit::Hertz, "Ticks of the last second at which some lane was due.")
        .steps(3)
        .exposed("khz_gather_rate_hertz", &[]),
    gauge(
        "khz.gather.slowdown",
        "slowdown",
        Unit::Count,
        "How many times slower than asked, to stay below the CPU ceiling.",
    )
    .exposed("khz_gather_slowdown", &[]),
    counter("khz.merge.requests", "requests", Unit::Count, "Questions for the latest readings.")
        .exposed("khz_merge_requests_total", &[]),
    counter("khz.merge.gathers", "gathers", Unit::Count, "Gathers made to answer them; the rest was shared.")
        .exposed("khz_merge_gathers_total", &[]),
];

/// The metrics of each source, in slot order from the source's first slot.
static PER_SOURCE: &[Entry] = &[
    counter("khz.source.gathers", "gathers", Unit::Count, "Times the source was gathered.")
        .exposed("khz_source_gathers_total", &[]),
    counter("khz.source.failures", "failures", Unit::Count, "Gathers that failed or found a faulty text.")
        .exposed("khz_source_failures_total", &[]),
    counter(
        "khz.source.full_parses",
        "full parses",
        Unit::Count,
        "Texts whose layout had moved, so that they were parsed in full.",
    )
    .exposed("khz_source_full_parses_total", &[]),
    counter(
        "khz.source.late_ticks",
        "late ticks",
        Unit::Count,
        "Ticks at which the source was due and that came late.",
    )
    .exposed("khz_source_late_ticks_total", &[]),
    gauge("khz.source.bytes", "bytes", Unit::Bytes, "Size of the latest text.")
        .exposed("khz_source_bytes", &[]),
    counter("khz.source.gather_time", "gather time", Unit::Seconds, "Time spent reading and parsing.")
        .steps(9)
        .exposed("khz_source_gather_seconds_total", &[]),
    gauge("khz.source.last_gather_time", "last gather time", Unit::Seconds, "Time of the latest gather.")
        .steps(9)
        .exposed("khz_source_last_gather_seconds", &[]),
    gauge("khz.source.budget", "budget", Unit::Percent, "What the source may cost, in percent of one core.")
        .steps(2)
        .exposed("khz_source_budget_percent", &[]),
    gauge(
        "khz.source.period_min",
        "period",
        Unit::Seconds,
        "Shortest period that the budget allows at the present cost.",
    )
    .steps(9)
    .exposed("khz_source_period_min_seconds", &[]),
];

/// The metrics of each lane, in slot order from the lane's first slot.
static PER_LANE: &[Entry] = &[
    counter("khz.lane.rows", "rows", Unit::Count, "Rows recorded.").exposed("khz_lane_rows_total", &[]),
    counter("khz.lane.late_ticks", "late ticks", Unit::Count, "Ticks that came late.")
        .exposed("khz_lane_late_ticks_total", &[]),
    counter("khz.lane.skipped_ticks", "skipped ticks", Unit::Count, "Ticks that were missed altogether.")
        .exposed("khz_lane_skipped_ticks_total", &[]),
    gauge(
        "khz.lane.period",
        "period",
        Unit::Seconds,
        "Time between two ticks; a lane whose rows are written on demand has none.",
    )
    .steps(9)
    .exposed("khz_lane_period_seconds", &[]),
    gauge("khz.lane.ring_bytes", "ring", Unit::Bytes, "Bytes of the ring in use.")
        .exposed("khz_lane_ring_bytes", &[]),
    gauge("khz.lane.readers", "readers", Unit::Count, "Subscriptions that follow the lane.")
        .exposed("khz_lane_readers", &[]),
];

/// The current numbers of one source, in the order of its entries; `None` if a number is not known yet.
pub(crate) type SourceNumbers = [Option<u64>; 9];
/// The current numbers of one lane; `None` if it has no such number: an on-demand lane has no period.
pub(crate) type LaneNumbers = [Option<u64>; 6];
/// The current numbers of the process; `None` if the kernel did not give them.
pub(crate) type ProcessNumbers = [Option<u64>; 9];

/// The slots and current readings of the agent's own numbers.
pub(crate) struct OwnNumbers {
    readings: Readings,
    tallies: Vec<Tally>,
    first_source: usize,
    lanes: Vec<(Instance, usize)>,
}

impl OwnNumbers {
    pub fn new(sources: &[&str], tallies: Vec<Tally>) -> Self {
        let mut readings = Readings::default();
        for entry in PROCESS {
            readings.append(Series { metric: entry.metric(ORIGIN, None), instance: None });
        }
        for tally in &tallies {
            readings.append(Series { metric: tally.metric.clone(), instance: tally.instance.clone() });
        }
        let first_source = readings.schema.len();
        for source in sources {
            append_instance(&mut readings, PER_SOURCE, "source", &Instance::from_kernel(source.as_bytes()));
        }
        OwnNumbers { readings, tallies, first_source, lanes: Vec::new() }
    }

    pub fn readings(&self) -> &Readings {
        &self.readings
    }

    /// Begins a new round of numbers.
    pub fn begin(&mut self, process: ProcessNumbers) {
        self.readings.changed.clear();
        for (slot, number) in process.into_iter().enumerate() {
            self.readings
                .set(slot, number.map_or(Reading::Failed(khz_model::Fault::Unreadable), Reading::Present));
        }
        for i in 0..self.tallies.len() {
            let reading = match self.tallies[i].count.load(Ordering::Relaxed) {
                UNKNOWN => Reading::Absent(Absence::NotYet),
                count => Reading::Present(count),
            };
            self.readings.set(PROCESS.len() + i, reading);
        }
        for i in 0..self.lanes.len() {
            let first = self.lanes[i].1;
            (first..first + PER_LANE.len())
                .for_each(|slot| self.readings.set(slot, Reading::Absent(Absence::InstanceGone)));
        }
    }

    pub fn source(&mut self, index: usize, numbers: SourceNumbers) {
        let first = self.first_source + index * PER_SOURCE.len();
        self.set(first, &numbers);
    }

    pub fn lane(&mut self, name: &Instance, numbers: LaneNumbers) {
        let first = match self.lanes.iter().find(|(known, _)| known == name) {
            Some((_, first)) => *first,
            None => {
                let first = self.readings.schema.len();
                append_instance(&mut self.readings, PER_LANE, "lane", name);
                if self.readings.schema.len() != first + PER_LANE.len() {
                    // No slots are left: run the lane without numbers about it.
                    return;
                }
                self.lanes.push((name.clone(), first));
                first
            }
        };
        self.set(first, &numbers);
    }

    /// Sets the slots from `first` on to these numbers.
    fn set(&mut self, first: usize, numbers: &[Option<u64>]) {
        for (slot, number) in (first..).zip(numbers) {
            self.readings.set(slot, number.map_or(Reading::Absent(Absence::NotYet), Reading::Present));
        }
    }
}

fn append_instance(
    readings: &mut Readings,
    entries: &'static [Entry],
    label: &'static str,
    instance: &Instance,
) {
    for entry in entries {
        readings
            .append(Series { metric: entry.metric(ORIGIN, Some(label)), instance: Some(instance.clone()) });
    }
}

/// The catalogue entries of the agent's own numbers.
pub(crate) fn metrics() -> Vec<Arc<Metric>> {
    let process = PROCESS.iter().map(|e| e.metric(ORIGIN, None));
    let sources = PER_SOURCE.iter().map(|e| e.metric(ORIGIN, Some("source")));
    process.chain(sources).chain(PER_LANE.iter().map(|e| e.metric(ORIGIN, Some("lane")))).collect()
}
