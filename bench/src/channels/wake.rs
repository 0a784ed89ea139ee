//! From the row that makes a condition true at a node until a program behind a hub has it, beside every row of the same series at the
//! same rate: 1,000 Hz, one node, hub and program on this machine, with one clock.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use khz_client::Access;
use khz_follow::{Lane, Reader, Row, Subscriber};
use khz_link::LaneOffer;
use khz_model::{Interest, Nanos, NodeName, Pattern, Rate};
use khz_plan::{Handler, Values, When};
use rustix::time::{ClockId, clock_gettime};

use super::{compiled, terms};
use crate::error::BenchError;
use crate::load::Load;
use crate::mount::site::{Class, Site};
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::{Spread, quantile, ratios};
use crate::table::{Table, figure};

const NODE: &str = "n1";

/// How many times as long as a raw row the row of a condition may take.
const TIMES: f64 = 1.5;

/// CPU hogs beside it.
const HOGS: [usize; 2] = [0, 16];

/// Rows before those that count.
const SETTLING: Duration = Duration::from_millis(500);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Every row of a series.
    Raw,
    /// Every row of a channel: the condition is always true.
    Channel,
    /// Every row of a series, twenty times a second: hub and program sleep in between.
    Rare,
    /// One row when a condition becomes true, twenty times a second.
    Event,
}

const WAYS: [Way; 4] = [Way::Raw, Way::Channel, Way::Rare, Way::Event];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Raw => "raw rows",
            Way::Channel => "rows of a condition",
            Way::Rare => "raw rows at 20 Hz",
            Way::Event => "20 events a second",
        }
    }

    /// The rows as often without a condition, or with one that costs nothing.
    fn reference(self) -> Way {
        match self {
            Way::Raw | Way::Channel => Way::Raw,
            Way::Rare | Way::Event => Way::Rare,
        }
    }

    fn rate_hz(self) -> u64 {
        if self == Way::Rare { 20 } else { 1_000 }
    }

    fn handler(self) -> Result<Option<Handler>, BenchError> {
        Ok(match self {
            Way::Raw | Way::Rare => None,
            Way::Channel => {
                let values = Values::Plan(compiled("node_memory_MemFree_bytes > 0")?);
                Some(Handler { values, ..Handler::default() })
            }
            Way::Event => {
                // True for ten milliseconds of each fifty.
                let values = Values::Plan(compiled("({\"uptime.up\"} * 100) % 5 < 1")?);
                let when = Some(When { once: true, ..When::default() });
                Some(Handler { values, when, ..Handler::default() })
            }
        })
    }
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let mut table = Table::new(&["hogs, rows", "p50 us", "p99 us", "p50 / raw rows' as often", "quartiles"]);
    for hogs in HOGS {
        let _load = Load::of(&vec!["spin"; hogs])?;
        let mut site = Site::start(Class::Normal)?;
        site.agent(NODE, &["--cpu-max", "100%"])?;
        let span = Duration::from_secs(record.effort.of(4, 2));
        let mut found: [Vec<[f64; 2]>; WAYS.len()] = Default::default();
        for group in 0..record.effort.of(5, 2) {
            for (place, way) in WAYS.iter().chain(WAYS.iter().rev()).enumerate() {
                record.progress(&format!("{hogs} hogs, {}, group {}", way.name(), group + 1));
                let mut times = turn(&site, *way, span)?;
                times.sort_by(f64::total_cmp);
                if times.is_empty() {
                    return Err(failed(way.name(), "no row came"));
                }
                let both = [quantile(&times, 0.5), quantile(&times, 0.99)];
                for (what, value) in ["p50_us", "p99_us"].into_iter().zip(both) {
                    let case = format!("{hogs} hogs");
                    record.sample(["wake", &case, way.name()], group * 2 * WAYS.len() + place, what, value);
                }
                found[*way as usize].push(both);
            }
        }
        show(record, &mut table, hogs, &found);
    }
    record.show("## From the row to the program behind a hub, at 1,000 Hz", &table);
    Ok(())
}

fn show(record: &mut Record, table: &mut Table, hogs: usize, found: &[Vec<[f64; 2]>; WAYS.len()]) {
    let of = |way: Way, what: usize| found[way as usize].iter().map(|both| both[what]).collect::<Vec<f64>>();
    for way in WAYS {
        let (p50, p99) = (of(way, 0), of(way, 1));
        let times = Spread::of(ratios(&p50, &of(way.reference(), 0)));
        let (Some(middle), Some(tail), Some(spread)) = (Spread::of(p50), Spread::of(p99), times) else {
            continue;
        };
        table.row([
            format!("{hogs}, {}", way.name()),
            figure(middle.median),
            figure(tail.median),
            figure(spread.median),
            format!("{}..{}", figure(spread.lower), figure(spread.upper)),
        ]);
        if way != way.reference() {
            let bound = if hogs == 0 { Bound::AtMost(TIMES) } else { Bound::Stated };
            record.verdict(&format!("{}, {hogs} hogs: p50 / raw rows' as often", way.name()), times, bound);
        }
        record.verdict(&format!("{}, {hogs} hogs: p50, us", way.name()), Some(middle), Bound::Stated);
        record.verdict(&format!("{}, {hogs} hogs: p99, us", way.name()), Some(tail), Bound::Stated);
    }
}

/// The microseconds that each row took.
fn turn(site: &Site, way: Way, span: Duration) -> Result<Vec<f64>, BenchError> {
    let wrong = |error: &dyn std::fmt::Display| failed("the reader", error);
    let access = Access::local_in(Some(&site.folder().join("run"))).map_err(|error| wrong(&error))?;
    let (out, rows) = channel();
    let settings = access.settings().map_err(|error| wrong(&error))?;
    let subscriber = Subscriber::start(settings, Clock(out)).map_err(|error| wrong(&error))?;
    let patterns = vec![Pattern::new(&format!("{NODE}:mem.free")).map_err(|error| wrong(&error))?];
    let rate = Rate::from_hz(way.rate_hz()).ok_or_else(|| failed("the rate", "there is none"))?;
    let mut interest = Interest::new(patterns, rate, true);
    interest.channel = way.handler()?.map(|handler| terms("wake", &handler)).transpose()?;
    subscriber.subscribe(&interest, true, ()).map_err(|error| wrong(&error))?;
    gather(&rows, span)
}

fn gather(rows: &Receiver<Result<f64, String>>, span: Duration) -> Result<Vec<f64>, BenchError> {
    let patience = Duration::from_secs(10);
    let next = || match rows.recv_timeout(patience) {
        Ok(Ok(time)) => Ok(time),
        Ok(Err(problem)) => Err(failed("the node", problem)),
        Err(error) => Err(failed("the reader", error)),
    };
    next()?;
    let begin = Instant::now() + SETTLING;
    while Instant::now() < begin {
        next()?;
    }
    let (end, mut times) = (Instant::now() + span, Vec::new());
    while Instant::now() < end {
        times.push(next()?);
    }
    Ok(times)
}

fn boot() -> Nanos {
    let time = clock_gettime(ClockId::Boottime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Notes how long each row took, on the thread that receives it.
struct Clock(Sender<Result<f64, String>>);

impl Reader for Clock {
    type Subscription = ();
    type Lane = ();

    fn offered(&mut self, _: &NodeName, _: &LaneOffer<'_>, (): &()) -> Option<()> {
        Some(())
    }

    fn row(&mut self, _: &mut Lane<Self>, row: &Row<'_>) {
        // Nobody listens any more when the turn is over.
        let _ = self.0.send(Ok(boot().since(row.stamp().boot).0 as f64 / 1e3));
    }

    fn notice(&mut self, (): &(), granted: bool, text: &str) {
        if !granted {
            let _ = self.0.send(Err(text.to_owned()));
        }
    }
}
