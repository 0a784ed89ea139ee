//! What a fault does to the numbers of a node: a table of metrics for each kind, and the closed forms of their courses. A lane at any
//! rate shows the same, since each value depends only on the time and on what was recorded. It stores nothing.

use khz_model::{Kind, Nanos, Series};

use super::{Fault, FaultEnd, FaultKind};

/// A time, in nanoseconds after the start of the simulation; below 0: before.
pub type Moment = i128;

/// How a symptom goes on between the begin of its fault (0) and its end (1).
#[derive(Clone, Copy, Debug)]
enum Course {
    /// There from the begin on.
    Even,
    /// Slowly first, then fast: the square of the time.
    Grows,
    /// Only in the last part.
    Squeezes,
    /// For some seconds in each minute.
    Bursts,
}

/// Where the last part begins.
const SQUEEZE: f64 = 0.85;
/// A burst: it comes so often, begins so late within this time, and lasts so long (s).
const BURST: (f64, f64, f64) = (60.0, 20.0, 5.0);
/// Memory that fails is taken out of use page by page.
const PAGE_BYTES: u64 = 4_096;
/// What a leak leaves, as a share of the memory that was there.
const LEFT: f64 = 0.005;

/// What happens to a metric.
#[derive(Clone, Copy, Debug)]
enum Effect {
    /// A counter gets so much more each second, a gauge is so much higher, in the metric's unit.
    Adds(f64, Course),
    /// A counter grows by this share less.
    Slows(f64),
    /// A counter gains what the metric of this name and instance lacks because it slows by this share.
    Gains(&'static str, f64),
    /// It falls with the memory that leaks.
    Drains,
    /// It grows by the memory that leaks.
    Fills,
    /// A gauge that the recorded kernel does not print is there, from 0 on, and becomes as high.
    Appears(f64, Course),
}

/// The memory that a leak takes.
const LEAKING: &str = "mem.available";

/// Metric by metric. A metric of a device is touched at the first device only, one of a CPU at all of them.
fn table(kind: FaultKind) -> &'static [(&'static str, Effect)] {
    use Course::*;
    use Effect::*;
    match kind {
        FaultKind::Leak => &[
            ("mem.available", Drains),
            ("mem.free", Drains),
            ("mem.anon_pages", Fills),
            ("mem.active_anon", Fills),
            ("mem.committed", Fills),
            ("vm.swap_out_pages", Adds(8_000.0, Squeezes)),
            ("vm.swap_in_pages", Adds(4_000.0, Squeezes)),
            ("vm.major_page_faults", Adds(2_000.0, Squeezes)),
            ("pressure.memory.some.total", Adds(0.8, Squeezes)),
            ("pressure.memory.full.total", Adds(0.6, Squeezes)),
            ("pressure.memory.full.avg10", Adds(60.0, Squeezes)),
        ],
        FaultKind::DyingDisk => &[
            ("disk.io_now", Adds(30.0, Grows)),
            ("disk.io_time", Adds(0.9, Grows)),
            ("disk.io_time_weighted", Adds(25.0, Grows)),
            ("disk.read_time", Adds(10.0, Grows)),
            ("disk.write_time", Adds(15.0, Grows)),
            ("kernel.procs_blocked", Adds(10.0, Grows)),
            ("pressure.io.some.total", Adds(0.9, Grows)),
            ("pressure.io.full.total", Adds(0.8, Grows)),
            ("pressure.io.full.avg10", Adds(80.0, Grows)),
        ],
        FaultKind::ThrottledCore => &[
            ("cpu.idle", Slows(0.9)),
            ("cpu.user", Gains("cpu.idle", 0.9)),
            ("cpu.all.idle", Slows(0.9)),
            ("cpu.all.user", Gains("cpu.all.idle", 0.9)),
            ("kernel.context_switches", Slows(0.6)),
            ("load.1m", Adds(4.0, Even)),
            ("pressure.cpu.some.total", Adds(0.5, Even)),
        ],
        FaultKind::FlappingLink => &[
            ("net.rx_errors", Adds(400.0, Bursts)),
            ("net.rx_frame", Adds(400.0, Bursts)),
            ("net.rx_dropped", Adds(300.0, Bursts)),
            ("net.tx_errors", Adds(200.0, Bursts)),
            ("net.tx_carrier", Adds(1.0, Bursts)),
        ],
        FaultKind::NoisyNeighbour => &[
            ("cpu.idle", Slows(0.6)),
            ("cpu.user", Slows(0.5)),
            ("cpu.steal", Adds(0.4, Even)),
            ("cpu.all.idle", Slows(0.6)),
            ("cpu.all.user", Slows(0.5)),
            ("cpu.all.steal", Adds(0.8, Even)),
            ("pressure.cpu.some.total", Adds(0.5, Even)),
        ],
        FaultKind::CreepingEcc => &[("mem.hardware_corrupted", Appears(40.0, Grows))],
        FaultKind::IoStorm => &[
            ("disk.written_bytes", Adds(420e6, Even)),
            ("disk.read_bytes", Adds(60e6, Even)),
            ("disk.writes", Adds(3_200.0, Even)),
            ("disk.reads", Adds(900.0, Even)),
            ("disk.io_now", Adds(64.0, Even)),
            ("disk.io_time", Adds(0.97, Even)),
            ("disk.io_time_weighted", Adds(60.0, Even)),
            ("disk.read_time", Adds(12.0, Even)),
            ("disk.write_time", Adds(45.0, Even)),
            ("vm.page_out_bytes", Adds(420e6, Even)),
            ("vm.page_in_bytes", Adds(60e6, Even)),
            ("mem.dirty", Adds(2e9, Even)),
            ("mem.writeback", Adds(2e8, Even)),
            ("kernel.procs_blocked", Adds(12.0, Even)),
            ("load.1m", Adds(12.0, Even)),
            ("pressure.io.some.total", Adds(0.9, Even)),
            ("pressure.io.some.avg10", Adds(90.0, Even)),
            ("pressure.io.full.total", Adds(0.8, Even)),
            ("pressure.io.full.avg10", Adds(80.0, Even)),
        ],
    }
}

/// What faults do to the slots of one row.
#[derive(Clone, Debug, Default)]
pub struct Symptoms {
    /// For each slot what happens to it; most have nothing.
    touches: Vec<Vec<Touch>>,
}

#[derive(Clone, Debug)]
struct Touch {
    effect: Effect,
    is_counter: bool,
    /// Steps of the reading in one unit.
    scale: f64,
    strength: f64,
    begin: Moment,
    lasts: Nanos,
    end: FaultEnd,
    /// Another slot that decides how much.
    of: Option<usize>,
}

impl Symptoms {
    /// What these faults do to a row of these series.
    pub fn new(faults: &[Fault], series: &[Series]) -> Self {
        let mut touches: Vec<Vec<Touch>> = series.iter().map(|_| Vec::new()).collect();
        for fault in faults {
            for (metric, effect) in table(fault.kind) {
                let slots = series.iter().enumerate().filter(|(_, one)| one.metric.name == *metric);
                let slots: Vec<(usize, &Series)> = match metric.starts_with("net.")
                    || metric.starts_with("disk.")
                {
                    true => slots.min_by_key(|(slot, one)| (is_virtual(one), *slot)).into_iter().collect(),
                    false => slots.collect(),
                };
                for (slot, one) in slots {
                    let of = |name: &str, instance: &Option<khz_model::Instance>| {
                        series
                            .iter()
                            .position(|other| other.metric.name == name && other.instance == *instance)
                    };
                    let of = match effect {
                        Effect::Gains(name, _) => of(name, &one.instance),
                        Effect::Drains | Effect::Fills => of(LEAKING, &None),
                        _ => None,
                    };
                    touches[slot].push(Touch {
                        effect: *effect,
                        is_counter: one.metric.kind == Kind::Counter,
                        scale: 10f64.powi(i32::from(one.metric.places)),
                        strength: fault.strength,
                        begin: i128::from(fault.begin.0),
                        lasts: fault.lasts,
                        end: fault.end,
                        of,
                    });
                }
            }
        }
        Symptoms { touches }
    }

    /// Whether anything happens to a slot.
    pub fn touch(&self, slot: usize) -> bool {
        self.touches.get(slot).is_some_and(|all| !all.is_empty())
    }

    /// Whether a slot has a value although none was recorded.
    pub fn appears(&self, slot: usize) -> bool {
        let all = self.touches.get(slot).map(Vec::as_slice).unwrap_or_default();
        all.iter().any(|touch| matches!(touch.effect, Effect::Appears(..)))
    }

    /// Whether anything happens to any slot.
    pub fn show(&self) -> bool {
        self.touches.iter().any(|all| !all.is_empty())
    }

    /// The value of a slot at a time, where `recorded` is what the slot has without faults, and `at` what any slot had at any time.
    pub fn value(&self, slot: usize, now: Moment, recorded: u64, at: &dyn Fn(Moment, usize) -> u64) -> u64 {
        let all = self.touches.get(slot).map(Vec::as_slice).unwrap_or_default();
        all.iter()
            .filter(|touch| now > touch.begin)
            .fold(recorded, |value, touch| touch.value(value, slot, now, at))
    }
}

/// Devices that no cable and no platter belongs to: these have a fault only where there is no other one.
fn is_virtual(series: &Series) -> bool {
    const BEGINS: [&str; 10] = ["loop", "ram", "zram", "dm-", "sr", "ifb", "docker", "veth", "virbr", "br-"];
    let name = series.instance.as_ref().map_or("", |device| device.name());
    name == "lo" || BEGINS.iter().any(|begin| name.starts_with(begin))
}

impl Touch {
    fn value(&self, value: u64, slot: usize, now: Moment, at: &dyn Fn(Moment, usize) -> u64) -> u64 {
        let lasts = self.lasts.as_secs_f64();
        let over = self.begin + i128::from(self.lasts.0);
        // What a fault that is over has done to counters stays.
        let is_over = now > over && self.end != FaultEnd::Stays;
        let worst = if is_over { over } else { now };
        let elapsed = (worst - self.begin) as f64 / 1e9;
        let part = (elapsed / lasts).min(1.0);
        let lost = |of: usize, share: f64| {
            at(worst, of).saturating_sub(at(self.begin, of)) as f64 * (share * self.strength)
        };
        let leaked = || {
            let of = if is_over { None } else { self.of };
            of.map_or(0.0, |of| at(self.begin, of) as f64 * part * self.strength)
        };
        let more = |by: f64| value.saturating_add(by.max(0.0).round() as u64);
        match self.effect {
            Effect::Adds(each, course) if self.is_counter => {
                more(each * self.scale * self.strength * course.sum(elapsed, lasts))
            }
            Effect::Adds(_, _) if is_over => value,
            Effect::Adds(each, course) => {
                more(each * self.scale * self.strength * course.level(elapsed, lasts))
            }
            Effect::Appears(pages, course) => {
                let pages = pages * self.strength * course.level(elapsed, lasts);
                value.saturating_add(pages.floor() as u64 * PAGE_BYTES)
            }
            Effect::Slows(share) => value.saturating_sub(lost(slot, share).round() as u64),
            Effect::Gains(_, share) => more(self.of.map_or(0.0, |of| lost(of, share))),
            Effect::Fills => more(leaked()),
            Effect::Drains => {
                let floor = (value as f64 * LEFT) as u64;
                value.saturating_sub(leaked().round() as u64).max(floor)
            }
        }
    }
}

impl Course {
    /// How bad it is.
    fn level(self, elapsed: f64, lasts: f64) -> f64 {
        let part = (elapsed / lasts).min(1.0);
        match self {
            Course::Even => 1.0,
            Course::Grows => part * part,
            Course::Squeezes => ((part - SQUEEZE) / (1.0 - SQUEEZE)).max(0.0),
            Course::Bursts => {
                let (every, after, length) = BURST;
                f64::from((after..after + length).contains(&(elapsed % every)))
            }
        }
    }

    /// The sum of that over the time (s).
    fn sum(self, elapsed: f64, lasts: f64) -> f64 {
        let (part, beyond) = ((elapsed / lasts).min(1.0), (elapsed - lasts).max(0.0));
        match self {
            Course::Even => elapsed,
            Course::Grows => lasts * part.powi(3) / 3.0 + beyond,
            Course::Squeezes => {
                let squeezed = ((part - SQUEEZE) / (1.0 - SQUEEZE)).max(0.0);
                lasts * (1.0 - SQUEEZE) * squeezed * squeezed / 2.0 + beyond
            }
            Course::Bursts => {
                let (every, after, length) = BURST;
                (elapsed / every).floor() * length + (elapsed % every - after).clamp(0.0, length)
            }
        }
    }
}

#[cfg(test)]
mod tests;
