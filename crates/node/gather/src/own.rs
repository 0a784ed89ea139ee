//! The agent's own numbers, as metrics like all others: the work and the cost of each source, lane and channel, and of
//! the process; and the clock by which it gathers. Other parts of the program add theirs as tallies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use khz_model::{Absence, Instance, Metric, Nanos, Reading, Series, Unit, exposed};
use khz_parse::Entry;
use khz_parse::entry::{counter, gauge};

use crate::outside::ProgramCounts;
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

/// The metrics of the process and the clock, in slot order.
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
    gauge(exposed::TIME_OWN, "CLOCK_REALTIME", Unit::Seconds, exposed::TIME_HELP)
        .steps(9)
        .exposed(exposed::TIME, &[]),
    // The names that Prometheus' own libraries give a process.
    gauge(
        "khz.process.addresses",
        "size",
        Unit::Bytes,
        "Addresses that the process may use, most of them without memory.",
    )
    .exposed("process_virtual_memory_bytes", &[]),
    gauge(
        "khz.process.open_files",
        "/proc/self/fd",
        Unit::Count,
        "Files that the process has open (Linux 6.2).",
    )
    .exposed("process_open_fds", &[]),
    gauge(
        "khz.process.open_files_max",
        "RLIMIT_NOFILE",
        Unit::Count,
        "How many files the process may have open.",
    )
    .exposed("process_max_fds", &[]),
    gauge(
        "khz.lanes.bytes",
        "lanes",
        Unit::Bytes,
        "What the lanes that readers opened hold when their rings are full.",
    )
    .exposed("khz_lanes_bytes", &[]),
    counter(
        "khz.lanes.refused",
        "refused",
        Unit::Count,
        "Times a reader was refused a lane, or more series of one, for want of memory.",
    )
    .exposed("khz_lanes_refused_total", &[]),
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
        .steps(4)
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

/// The metrics of each channel that runs here, in slot order from the channel's first slot.
static PER_HANDLER: &[Entry] = &[
    counter(
        "khz.handler.rows_in",
        "rows in",
        Unit::Count,
        "Rows of readings that the channel's handler took.",
    )
    .exposed("khz_handler_rows_in_total", &[]),
    counter("khz.handler.rows_out", "rows out", Unit::Count, "Rows that it wrote for its readers.")
        .exposed("khz_handler_rows_out_total", &[]),
    counter("khz.handler.bytes_out", "bytes out", Unit::Bytes, "Bytes of these rows in the ring.")
        .exposed("khz_handler_bytes_out_total", &[]),
    counter(
        "khz.handler.time",
        "time",
        Unit::Seconds,
        "Time spent computing and writing; without gathering.",
    )
    .steps(9)
    .exposed("khz_handler_seconds_total", &[]),
    gauge(
        "khz.handler.series_left_out",
        "series left out",
        Unit::Count,
        "Series that the handler needs and does not have, because it, or all channels, hold as much memory as they may.",
    )
    .exposed("khz_handler_series_left_out", &[]),
];

/// The metrics of each channel with a program, in the order of [`ProgramCounts`].
static PER_PROGRAM: &[Entry] = &[
    counter("khz.program.rows_in", "rows in", Unit::Count, "Rows that the channel's program took.")
        .exposed("khz_program_rows_in_total", &[]),
    counter("khz.program.rows_out", "rows out", Unit::Count, "Rows that it gave.")
        .exposed("khz_program_rows_out_total", &[]),
    counter(
        "khz.program.rows_lost",
        "rows lost",
        Unit::Count,
        "Rows that it did not get, because it was too slow or had failed; and rows of its own that were lost.",
    )
    .exposed("khz_program_rows_lost_total", &[]),
    counter("khz.program.failures", "failures", Unit::Count, "Times it failed and was begun again.")
        .exposed("khz_program_failures_total", &[]),
    counter("khz.program.fuel", "fuel", Unit::Count, "Fuel of its rows: about an instruction each.")
        .exposed("khz_program_fuel_total", &[]),
    gauge("khz.program.fuel_most", "most fuel", Unit::Count, "The most fuel of one row.")
        .exposed("khz_program_fuel_most", &[]),
    counter("khz.program.time", "time", Unit::Seconds, "Time that its rows took.")
        .steps(9)
        .exposed("khz_program_seconds_total", &[]),
    gauge("khz.program.memory", "memory", Unit::Bytes, "Its memory.").exposed("khz_program_memory_bytes", &[]),
];

/// The current numbers of one source, in the order of its entries; `None` if a number is not known yet.
pub(crate) type SourceNumbers = [Option<u64>; 9];
/// The current numbers of one lane; `None` if it has no such number: an on-demand lane has no period.
pub(crate) type LaneNumbers = [Option<u64>; 6];
/// The current numbers of the process; `None` if the kernel did not give them.
pub(crate) type ProcessNumbers = [Option<u64>; 15];

/// What comes and goes, and has numbers of its own.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Lane,
    Handler,
    Program,
}

impl Kind {
    fn entries(self) -> &'static [Entry] {
        match self {
            Kind::Lane => PER_LANE,
            Kind::Handler => PER_HANDLER,
            Kind::Program => PER_PROGRAM,
        }
    }

    /// The metrics of its instances, which all of them share.
    fn metrics(self) -> Vec<Arc<Metric>> {
        metrics_of(self.entries(), self.label())
    }

    /// The label of its instances.
    fn label(self) -> &'static str {
        match self {
            Kind::Lane => "lane",
            Kind::Handler | Kind::Program => "channel",
        }
    }
}

/// The slots of a lane or a channel.
struct Part {
    kind: Kind,
    name: Instance,
    first: usize,
    /// When it had numbers last.
    heard: Nanos,
}

impl Part {
    fn slots(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.kind.entries().len()
    }
}

/// The numbers of a source. It has slots only once something of the source was there: a machine has about
/// half of all sources that khz knows.
struct OfSource {
    name: &'static str,
    first: Option<usize>,
}

/// The slots and current readings of the agent's own numbers.
pub(crate) struct OwnNumbers {
    readings: Readings,
    tallies: Vec<Tally>,
    sources: Vec<OfSource>,
    parts: Vec<Part>,
    of_sources: Vec<Arc<Metric>>,
    of_lanes: Vec<Arc<Metric>>,
    of_handlers: Vec<Arc<Metric>>,
    of_programs: Vec<Arc<Metric>>,
    /// When the present round of numbers began.
    now: Nanos,
}

impl OwnNumbers {
    pub fn new(sources: &[&'static str], tallies: Vec<Tally>) -> Self {
        let mut readings = Readings::default();
        for entry in PROCESS {
            readings.append(Series { metric: entry.metric(ORIGIN, None), instance: None });
        }
        for tally in &tallies {
            readings.append(Series { metric: tally.metric.clone(), instance: tally.instance.clone() });
        }
        OwnNumbers {
            readings,
            tallies,
            sources: sources.iter().map(|&name| OfSource { name, first: None }).collect(),
            parts: Vec::new(),
            of_sources: metrics_of(PER_SOURCE, "source"),
            of_lanes: Kind::Lane.metrics(),
            of_handlers: Kind::Handler.metrics(),
            of_programs: Kind::Program.metrics(),
            now: Nanos(0),
        }
    }

    pub fn readings(&self) -> &Readings {
        &self.readings
    }

    /// Begins a new round of numbers.
    pub fn begin(&mut self, process: ProcessNumbers, now: Nanos) {
        self.now = now;
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
        for slot in self.parts.iter().flat_map(Part::slots) {
            self.readings.set(slot, Reading::Absent(Absence::InstanceGone));
        }
    }

    /// Writes the numbers of a source that is there, or was.
    pub fn source(&mut self, index: usize, numbers: SourceNumbers) {
        let first = self.sources[index].first.or_else(|| {
            let name = Instance::from_kernel(self.sources[index].name.as_bytes());
            self.sources[index].first = append_instance(&mut self.readings, &self.of_sources, &name);
            self.sources[index].first
        });
        if let Some(first) = first {
            self.set(first, &numbers);
        }
    }

    pub fn lane(&mut self, name: &Instance, numbers: LaneNumbers) {
        self.part(Kind::Lane, name, &numbers);
    }

    /// The numbers of a channel: rows in, rows out, bytes out, and time; and the series that it does not have.
    pub fn handler(&mut self, channel: &Instance, [rows_in, rows_out, bytes, time]: [u64; 4], left_out: u64) {
        self.part(Kind::Handler, channel, &[rows_in, rows_out, bytes, time, left_out].map(Some));
    }

    /// The numbers of a channel's program.
    pub fn program(&mut self, channel: &Instance, counts: ProgramCounts) {
        self.part(Kind::Program, channel, &counts.map(Some));
    }

    fn part(&mut self, kind: Kind, name: &Instance, numbers: &[Option<u64>]) {
        let known = self.parts.iter_mut().find(|part| part.kind == kind && part.name == *name);
        let first = match known {
            Some(part) => {
                part.heard = self.now;
                part.first
            }
            None => match self.add(kind, name.clone(), self.now) {
                Some(first) => first,
                // No slots are left: it runs without numbers about it.
                None => return,
            },
        };
        self.set(first, numbers);
    }

    /// Gives it slots; `None`: none are left.
    fn add(&mut self, kind: Kind, name: Instance, heard: Nanos) -> Option<usize> {
        let metrics = match kind {
            Kind::Lane => &self.of_lanes,
            Kind::Handler => &self.of_handlers,
            Kind::Program => &self.of_programs,
        };
        let first = append_instance(&mut self.readings, metrics, &name)?;
        self.parts.push(Part { kind, name, first, heard });
        Some(first)
    }

    /// The number of slots of lanes and channels that have had no numbers for this long.
    pub fn slots_gone(&self, now: Nanos, age: Nanos) -> usize {
        let gone = self.parts.iter().filter(|part| now.since(part.heard) >= age);
        gone.map(|part| part.slots().len()).sum()
    }

    /// Gives those slots back; the others get new ones.
    pub fn renew(&mut self, now: Nanos, age: Nanos) {
        let before = std::mem::take(&mut self.readings);
        for slot in 0..PROCESS.len() + self.tallies.len() {
            self.readings.append(before.schema.series()[slot].clone());
            self.readings.take_over(slot, &before, slot);
        }
        for source in &mut self.sources {
            let Some(old) = source.first else { continue };
            let name = Instance::from_kernel(source.name.as_bytes());
            source.first = append_instance(&mut self.readings, &self.of_sources, &name);
            if let Some(new) = source.first {
                (new..new + PER_SOURCE.len())
                    .zip(old..)
                    .for_each(|(new, old)| self.readings.take_over(new, &before, old));
            }
        }
        for part in std::mem::take(&mut self.parts) {
            if now.since(part.heard) >= age {
                continue;
            }
            let slots = part.slots();
            if let Some(first) = self.add(part.kind, part.name, part.heard) {
                (first..).zip(slots).for_each(|(new, old)| self.readings.take_over(new, &before, old));
            }
        }
    }

    /// Sets the slots from `first` on to these numbers.
    fn set(&mut self, first: usize, numbers: &[Option<u64>]) {
        for (slot, number) in (first..).zip(numbers) {
            self.readings.set(slot, number.map_or(Reading::Absent(Absence::NotYet), Reading::Present));
        }
    }
}

/// The metrics of these entries, whose instances have this label.
fn metrics_of(entries: &'static [Entry], label: &'static str) -> Vec<Arc<Metric>> {
    entries.iter().map(|entry| entry.metric(ORIGIN, Some(label))).collect()
}

/// Gives an instance its slots. Returns the first slot; `None`: there is no room for all slots.
fn append_instance(readings: &mut Readings, metrics: &[Arc<Metric>], instance: &Instance) -> Option<usize> {
    let first = readings.schema.len();
    for metric in metrics {
        readings.append(Series { metric: metric.clone(), instance: Some(instance.clone()) });
    }
    (readings.schema.len() == first + metrics.len()).then_some(first)
}

/// The catalogue entries of the agent's own numbers.
pub(crate) fn metrics() -> Vec<Arc<Metric>> {
    let process = PROCESS.iter().map(|e| e.metric(ORIGIN, None));
    let sources = metrics_of(PER_SOURCE, "source");
    let of_parts = [Kind::Lane, Kind::Handler, Kind::Program].into_iter().flat_map(Kind::metrics);
    process.chain(sources).chain(of_parts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Nanos = Nanos::SECOND;

    fn name(text: &str) -> Instance {
        Instance::from_kernel(text.as_bytes())
    }

    /// The value of a channel's rows, by the schema.
    fn rows(own: &OwnNumbers, channel: &str) -> Option<Reading> {
        let is_it = |series: &Series| {
            &*series.metric.name == "khz.handler.rows_in" && series.instance == Some(name(channel))
        };
        let slot = own.readings.schema.series().iter().position(is_it)?;
        Some(Reading::from_parts(own.readings.states[slot], own.readings.values[slot]))
    }

    #[test]
    fn slots_of_lanes_and_channels_that_are_gone_are_given_back_and_the_others_keep_their_numbers() {
        let mut own = OwnNumbers::new(&["stat", "meminfo"], Vec::new());
        own.begin([Some(7); 15], S);
        own.source(1, [Some(5); 9]);
        let fixed = own.readings.schema.len();
        for n in 0..30 {
            own.handler(&name(&format!("c{n}")), [n, 0, 0, 0], 0);
        }
        own.lane(&name("base"), [Some(9); 6]);
        let series = own.readings.schema.series();
        assert!(
            Arc::ptr_eq(&series[fixed].metric, &series[fixed + PER_HANDLER.len()].metric),
            "channels share their metrics"
        );
        own.begin([Some(7); 15], Nanos(40 * S.0));
        own.source(1, [Some(5); 9]);
        own.lane(&name("base"), [Some(9); 6]);
        own.handler(&name("c4"), [44, 0, 0, 0], 0);
        let now = Nanos(41 * S.0);
        assert_eq!(own.slots_gone(now, Nanos(30 * S.0)), 29 * PER_HANDLER.len());
        let base = own.parts.iter().find(|part| part.kind == Kind::Lane).map(|part| part.slots()).unwrap();
        assert_eq!(own.readings.values[base], [9; 6]);
        own.renew(now, Nanos(30 * S.0));
        assert_eq!(own.readings.schema.len(), fixed + 6 + PER_HANDLER.len());
        assert_eq!(
            (own.slots_gone(now, Nanos(30 * S.0)), own.readings.values.len()),
            (0, fixed + 6 + PER_HANDLER.len())
        );
        assert_eq!(own.readings.values[PROCESS.len()..fixed], [5; 9]);
        assert_eq!((rows(&own, "c4"), rows(&own, "c5")), (Some(Reading::Present(44)), None));
        // A channel of an old name begins with new slots.
        own.handler(&name("c5"), [55, 0, 0, 0], 0);
        assert_eq!(rows(&own, "c5"), Some(Reading::Present(55)));
    }
}
