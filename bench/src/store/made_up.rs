//! Made-up column files: hours of a few series, written as compaction writes them, and rolled up. What a store takes weeks
//! to get is there in seconds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use khz_model::calendar::Civil;
use khz_model::{Instance, Metric, Nanos, NodeName, Series, Stamp};
use khz_store::{ColumnFile, NodeRows, StoreError, roll_up, write_rows};

use crate::error::BenchError;
use crate::program::failed;

const HOUR: u64 = 3_600;
const HOURS_A_DAY: u64 = 24;

/// Column files over some days.
pub struct Days {
    pub nodes: usize,
    pub series: usize,
    /// What the series are, by their count.
    pub of: fn(usize) -> Vec<Series>,
    /// Midnight of the first day.
    pub begin: Nanos,
    pub days: u64,
    /// From row to row.
    pub period: Nanos,
}

impl Days {
    /// When the last day is over.
    pub fn end(&self) -> Nanos {
        Nanos(self.begin.0 + self.days * HOURS_A_DAY * HOUR * Nanos::SECOND.0)
    }

    /// Writes a file of each hour, the minutes of each day into one file, and the hours of each month. `told` is called before
    /// each day.
    pub fn write(&self, store: &Path, mut told: impl FnMut(u64)) -> Result<(), BenchError> {
        for tier in ["raw", "minute", "hour"] {
            let folder = store.join(tier);
            fs::create_dir_all(&folder).map_err(BenchError::file(folder))?;
        }
        let mut walks: Vec<Walk> = (0..self.nodes).map(|node| Walk::new(self.series, node as u64)).collect();
        let columns = Arc::new((self.of)(self.series));
        let mut months: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for day in 0..self.days {
            told(day);
            let hours = (0..HOURS_A_DAY).map(|hour| {
                let begin = Nanos(self.begin.0 + (day * HOURS_A_DAY + hour) * HOUR * Nanos::SECOND.0);
                self.hour(store, begin, &columns, &mut walks)
            });
            let hours: Vec<PathBuf> = hours.collect::<Result<_, _>>()?;
            let date = Civil::of(Nanos(self.begin.0 + day * HOURS_A_DAY * HOUR * Nanos::SECOND.0));
            let month = format!("{:04}-{:02}", date.year, date.month);
            let path = store.join("minute").join(format!("{month}-{:02}.0.col", date.day));
            roll_up(&path, &open(&hours)?, Nanos::from_secs(60)).map_err(wrong)?;
            months.entry(month).or_default().push(path);
        }
        months.iter().try_for_each(|(month, days)| {
            let path = store.join("hour").join(format!("{month}.0.col"));
            roll_up(&path, &open(days)?, Nanos::from_secs(HOUR)).map(drop).map_err(wrong)
        })
    }

    fn hour(
        &self,
        store: &Path,
        begin: Nanos,
        columns: &Arc<Vec<Series>>,
        walks: &mut [Walk],
    ) -> Result<PathBuf, BenchError> {
        let Civil { year, month, day, hour, .. } = Civil::of(begin);
        let path = store.join("raw").join(format!("{year:04}-{month:02}-{day:02}T{hour:02}.0.col"));
        let rows = HOUR * Nanos::SECOND.0 / self.period.0;
        let states = vec![0; self.series];
        let nodes = walks.iter_mut().enumerate().map(|(number, walk)| {
            let mut node = NodeRows::new();
            let done = node.columns(columns).and_then(|()| {
                (0..rows).try_for_each(|row| {
                    let jitter = walk.below(30_000);
                    let boot = Nanos(begin.0 - self.begin.0 + row * self.period.0 + jitter);
                    let stamp = Stamp { boot, real_offset: self.begin.0.cast_signed() };
                    node.row(stamp, &states, walk.step())
                })
            });
            done.map(|()| (name(number), node))
        });
        // One node at a time is in memory.
        let mut problem = None;
        let whole = nodes.map_while(|node| node.map_err(|error| problem = Some(error)).ok());
        write_rows(&path, whole).map_err(wrong)?;
        problem.map_or(Ok(path), |error| Err(wrong(error)))
    }
}

/// The name of a node.
fn name(number: usize) -> NodeName {
    NodeName::new(&format!("node{number:04}")).expect("BUG: digits are a name")
}

/// Series of one metric, an interface each.
pub fn slots(count: usize) -> Vec<Series> {
    let metric = with_instances();
    let instance = |slot: usize| Some(Instance::from_kernel(format!("slot{slot}").as_bytes()));
    (0..count).map(|slot| Series { metric: metric.clone(), instance: instance(slot) }).collect()
}

/// A metric whose series have instances.
pub fn with_instances() -> Arc<Metric> {
    let mut catalogue = khz_parse::catalogue().into_iter();
    catalogue.find(|metric| metric.name == "net.rx_bytes").expect("BUG: every catalogue has interfaces")
}

fn open(paths: &[PathBuf]) -> Result<Vec<ColumnFile>, BenchError> {
    let layouts = Arc::default();
    paths.iter().map(|path| ColumnFile::open(path, &layouts).map_err(wrong)).collect()
}

fn wrong(error: StoreError) -> BenchError {
    failed("column files", error)
}

/// The values of a node, all of them counters: of three series one is busy, one slow, and one changes now and then.
struct Walk {
    values: Vec<u64>,
    random: u64,
}

impl Walk {
    fn new(series: usize, seed: u64) -> Self {
        Walk { values: vec![1_000_000; series], random: seed * 2 + 1 }
    }

    /// Knuth's generator: numbers that are the same in every run.
    fn below(&mut self, limit: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }

    fn step(&mut self) -> &[u64] {
        for slot in 0..self.values.len() {
            let value = self.values[slot];
            self.values[slot] = match slot % 3 {
                0 => value + self.below(1_500),
                1 => value + self.below(64),
                _ if self.below(60) == 0 => value + 1,
                _ => value,
            };
        }
        &self.values
    }
}
