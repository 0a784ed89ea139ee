//! The sections: a store is made, its samples are handed to the others, and all are asked the same.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use khz_model::{Metric, Nanos, Series};
use khz_past::{Known, PastSource, Roster};
use khz_promql::{METRIC_NAME, Matcher};
use khz_store::Store;
use khz_store::range::{OpenRows, RangeReader};

use crate::error::BenchError;
use crate::program::failed;
use crate::query::contender::{Found, Question};
use crate::query::feed::feed;
use crate::query::peers::{Kind, Peer};
use crate::query::served::Served;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::store::folder::{self, Scratch};
use crate::store::made_up::{self, Days};
use crate::store::memory::Peak;
use crate::store::nodes::{BEGIN, MOVING, NODES, Nodes, SLOTS};
use crate::store::ranges::keep;
use crate::table::{Table, figure, thousands};

/// 2025-11-01, a midnight.
const NOVEMBER: Nanos = Nanos(1_761_955_200_000_000_000);
/// Answers may differ by this share: Prometheus 2 has ranges that are closed at both ends.
const SUM_APART: f64 = 0.02;
/// Queries of the dashboard.
const PANELS: usize = 30;
const NODES_QUICK: usize = 256;
const HOUR: u64 = 3_600;

/// One series over three weeks.
pub fn weeks(record: &mut Record) -> Result<(), BenchError> {
    let scratch = Scratch::new("query-weeks")?;
    let days = Days {
        nodes: 4,
        series: 24,
        of: made_up::slots,
        begin: NOVEMBER,
        days: record.effort.of(21, 3),
        period: Nanos::from_secs(1),
    };
    let folder = scratch.at("store");
    days.write(&folder, |day| record.progress(&format!("day {} of {}", day + 1, days.days)))?;
    let name = made_up::slots(1)[0].metric.exposition.name.to_string();
    let (from, to) = (days.begin.0 / 1_000_000_000, days.end().0 / 1_000_000_000);
    let one = format!("{name}{{instance=\"node0002\",device=\"slot9\"}}");
    let world = World {
        folder,
        end: days.end(),
        open: Arc::new(()),
        matchers: vec![
            Matcher::equal(METRIC_NAME, &name),
            Matcher::equal("instance", "node0002"),
            Matcher::equal("device", "slot9"),
        ],
        span: (from, to),
    };
    let question = Question { text: format!("rate({one}[5m])"), from: from + 300, to, step: 300 };
    world.play(record, &scratch, &[("rate over 3 weeks", vec![question], Bound::AtMost(200.0))])
}

/// One series of all nodes over the hour up to now: ten-minute files, the log, and open blocks.
pub fn cluster(record: &mut Record) -> Result<(), BenchError> {
    let scratch = Scratch::new("query-cluster")?;
    let folder = scratch.at("store");
    let second = |second: u64| Nanos(BEGIN + second * Nanos::SECOND.0);
    let wrong = |error| failed("the store", error);
    let (store, intake, _) = Store::open(&folder, keep(), second(0)).map_err(wrong)?;
    let count = record.effort.of(NODES, NODES_QUICK);
    let nodes = Nodes::some(count, SLOTS, MOVING, &intake)?;
    for now in 0..HOUR {
        nodes.step(&intake);
        store.commit(second(now)).map_err(wrong)?;
        if now % 60 == 59 {
            record.progress(&format!("minute {} of 60", (now + 1) / 60));
            while !store.tick_compaction(second(now)).map_err(wrong)?.is_idle() {}
        }
    }
    drop((store, intake));
    let name = made_up::slots(1)[0].metric.exposition.name.to_string();
    let (from, to) = (BEGIN / 1_000_000_000, BEGIN / 1_000_000_000 + HOUR);
    let world = World {
        folder,
        end: second(HOUR),
        open: nodes,
        matchers: vec![Matcher::equal(METRIC_NAME, &name), Matcher::equal("device", "slot65")],
        span: (from, to),
    };
    let text = format!("topk(10, rate({name}{{device=\"slot65\"}}[1m]))");
    let question = Question { text, from: from + 60, to, step: 15 };
    let bound = record.effort.of(Bound::AtMost(1_000.0), Bound::Stated);
    world.play(record, &scratch, &[("topk of all nodes over the hour", vec![question], bound)])
}

/// The modes of the processors of 128 nodes over a day, and a dashboard.
pub fn day(record: &mut Record) -> Result<(), BenchError> {
    let scratch = Scratch::new("query-day")?;
    let modes = modes(usize::MAX).len();
    let days = Days {
        nodes: record.effort.of(128, 16),
        series: modes,
        of: self::modes,
        begin: NOVEMBER,
        days: 1,
        period: Nanos::from_secs(10),
    };
    let folder = scratch.at("store");
    record.progress("a day of all nodes is written");
    days.write(&folder, |_| {})?;
    let (from, to) = (days.begin.0 / 1_000_000_000, days.end().0 / 1_000_000_000);
    let world = World {
        folder,
        end: days.end(),
        open: Arc::new(()),
        matchers: vec![Matcher::equal(METRIC_NAME, "node_cpu_seconds_total")],
        span: (from, to),
    };
    let average = Question {
        text: "avg by (mode) (rate(node_cpu_seconds_total[5m]))".into(),
        from: from + 300,
        to,
        step: 300,
    };
    let panels =
        (0..PANELS).map(|panel| Question { text: panel_text(panel), from: to - 6 * HOUR, to, step: 60 });
    world.play(
        record,
        &scratch,
        &[
            ("modes of a day", vec![average], Bound::Stated),
            ("thirty queries at once", panels.collect(), Bound::Stated),
        ],
    )
}

/// The queries of a dashboard: some of all nodes, some of one.
fn panel_text(panel: usize) -> String {
    let mode = ["user", "system", "idle", "iowait", "irq"][panel % 5];
    let rate = |more: String| format!("rate(node_cpu_seconds_total{{mode=\"{mode}\"{more}}}[5m])");
    match panel / 5 {
        0 => format!("avg({})", rate(String::new())),
        1 => format!("topk(5, {})", rate(String::new())),
        2 => format!("quantile(0.9, {})", rate(String::new())),
        node => rate(format!(",instance=\"node{node:04}\"")),
    }
}

/// The counters of one processor, by mode.
fn modes(count: usize) -> Vec<Series> {
    let metrics = khz_parse::catalogue().into_iter();
    let of_cpu = metrics.filter(|metric| metric.exposition.name == "node_cpu_seconds_total");
    let instance = Some(khz_model::Instance::from_kernel(b"cpu0"));
    of_cpu.take(count).map(|metric| Series { metric, instance: instance.clone() }).collect()
}

/// A store, and what is asked of it.
struct World {
    folder: PathBuf,
    end: Nanos,
    open: Arc<dyn OpenRows>,
    /// The samples that the others get.
    matchers: Vec<Matcher>,
    /// Seconds since 1970.
    span: (u64, u64),
}

impl World {
    fn play(
        self,
        record: &mut Record,
        scratch: &Scratch,
        questions: &[(&str, Vec<Question>, Bound)],
    ) -> Result<(), BenchError> {
        let (store, ..) =
            Store::open(&self.folder, keep(), self.end).map_err(|error| failed("the store", error))?;
        let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), self.open.clone());
        let kinds = Kind::ALL.into_iter().filter(|kind| kind.is_installed());
        let started = kinds.map(|kind| Peer::start(kind, &scratch.at(kind.name())));
        let peers: Vec<Peer> = started.collect::<Result<_, _>>()?;
        for kind in Kind::ALL.iter().filter(|kind| !kind.is_installed()) {
            record.say(&format!("{} is not installed, so it is missing here.\n", kind.name()));
        }
        self.feed(record, &reader, &peers)?;
        // They begin again with what is on their disks.
        let folders = peers.into_iter().map(|peer| Ok((peer.kind, peer.end()?)));
        let folders: Vec<(Kind, PathBuf)> = folders.collect::<Result<_, BenchError>>()?;
        let mut table =
            Table::new(&["query", "of", "pages", "ms", "quartiles", "series", "points", "memory, MB"]);
        for (name, all, bound) in questions {
            self.ask(record, &mut table, (&reader, &folders), (name, all, *bound))?;
        }
        record.show("## PromQL on one core", &table);
        record.say(
            "Each program runs on the same core, and is asked over HTTP with the same samples. Warm: it was asked the same\n\
             before. Cold: it was just started (khz: its files stayed open), and the pages of its files were taken out of memory. VictoriaMetrics\n\
             is asked without its cache of results. Memory: anonymous memory of the process (khz: of this benchmark).\n",
        );
        Ok(())
    }

    fn feed(&self, record: &mut Record, reader: &RangeReader, peers: &[Peer]) -> Result<(), BenchError> {
        if peers.is_empty() {
            return Ok(());
        }
        let known = Known {
            metrics: metrics(),
            job: Arc::from("node"),
            now: Nanos(self.end.0 + HOUR * Nanos::SECOND.0),
            roster: Roster::Listed(Vec::new()),
            owners: Vec::new(),
        };
        let source = PastSource::new(Arc::new(reader.clone()), known);
        let ms = |second: u64| second.cast_signed() * 1_000;
        let (from, to) = (ms(self.span.0), ms(self.span.1));
        let start = Instant::now();
        let samples = feed(&source, &self.matchers, (from, to), peers, |at| {
            record.progress(&format!("samples for the others: {} %", 100 * (at - from) / (to - from).max(1)));
        })?;
        record.say(&format!(
            "{} samples, handed over in {} s\n",
            thousands(samples as f64),
            figure(start.elapsed().as_secs_f64())
        ));
        Ok(())
    }

    fn ask(
        &self,
        record: &mut Record,
        table: &mut Table,
        (reader, folders): (&RangeReader, &[(Kind, PathBuf)]),
        (name, questions, bound): (&str, &[Question], Bound),
    ) -> Result<(), BenchError> {
        let mut turns = Turns { record, table, name, questions };
        let served = Served::start(reader.clone(), self.open.nodes(), metrics())?;
        let peak = Peak::begin()?;
        let (_, found) = turns.once(served.address, "")?;
        let memory = peak.grown_kb()?;
        let ours = turns.warm("khz", served.address, "", memory)?;
        drop(served);
        let cold = turns.cold("khz", || {
            folder::evict(&self.folder)?;
            let served = Served::start(reader.without_unpacked(), self.open.nodes(), metrics())?;
            turns_once(questions, served.address, "")
        })?;
        turns.record.verdict(&format!("{name}, warm: ms"), ours, bound);
        turns.record.verdict(&format!("{name}, cold: ms"), cold, bound);
        for (kind, folder) in folders {
            let peer = Peer::start(*kind, folder)?;
            let (_, theirs) = turns.once(peer.address, kind.parameters())?;
            let memory = peer.process.held()?.anonymous_kb as f64;
            let times = turns.warm(kind.name(), peer.address, kind.parameters(), memory)?;
            peer.end()?;
            turns.cold(kind.name(), || {
                folder::evict(folder)?;
                let peer = Peer::start(*kind, folder)?;
                let asked = turns_once(questions, peer.address, kind.parameters())?;
                peer.end()?;
                Ok(asked)
            })?;
            turns.compare(*kind, found, theirs)?;
            turns.ratio(*kind, ours, times);
        }
        Ok(())
    }
}

/// The turns of one question, or of several at once.
struct Turns<'a> {
    record: &'a mut Record,
    table: &'a mut Table,
    name: &'a str,
    questions: &'a [Question],
}

/// Asks all questions at once. Returns the milliseconds until all are answered, and what came.
fn turns_once(questions: &[Question], address: SocketAddr, more: &str) -> Result<(f64, Found), BenchError> {
    let start = Instant::now();
    let answers: Vec<Result<_, BenchError>> = std::thread::scope(|scope| {
        let asked: Vec<_> =
            questions.iter().map(|question| scope.spawn(|| question.ask(address, more))).collect();
        let ended = |_| Err(failed("a question", "its thread has ended"));
        asked.into_iter().map(|asked| asked.join().unwrap_or_else(ended)).collect()
    });
    let took = start.elapsed().as_secs_f64() * 1e3;
    let mut all = Found { series: 0, points: 0, sum: 0.0 };
    for answer in answers {
        let (found, _) = answer?;
        all.series += found.series;
        all.points += found.points;
        all.sum += found.sum;
    }
    Ok((took, all))
}

impl Turns<'_> {
    fn once(&self, address: SocketAddr, more: &str) -> Result<(f64, Found), BenchError> {
        turns_once(self.questions, address, more)
    }

    /// Asks again and again.
    fn warm(
        &mut self,
        who: &str,
        address: SocketAddr,
        more: &str,
        memory_kb: f64,
    ) -> Result<Option<Spread>, BenchError> {
        let (mut times, mut found) = (Vec::new(), None);
        for turn in 0..self.record.effort.of(10, 3) {
            self.record.progress(&format!("{}: {who}, turn {}", self.name, turn + 1));
            let (took, came) = self.once(address, more)?;
            self.record.sample([self.name, who, "warm"], turn, "wall_ms", took);
            times.push(took);
            found = Some(came);
        }
        let spread = Spread::of(times);
        self.row(who, "warm", spread, found, Some(memory_kb));
        Ok(spread)
    }

    /// Asks somebody who has nothing in memory, a few times.
    fn cold(
        &mut self,
        who: &str,
        mut asked: impl FnMut() -> Result<(f64, Found), BenchError>,
    ) -> Result<Option<Spread>, BenchError> {
        let (mut times, mut found) = (Vec::new(), None);
        for turn in 0..self.record.effort.of(3, 1) {
            let (took, came) = asked()?;
            self.record.sample([self.name, who, "cold"], turn, "wall_ms", took);
            times.push(took);
            found = Some(came);
        }
        let spread = Spread::of(times);
        self.row(who, "cold", spread, found, None);
        Ok(spread)
    }

    fn row(
        &mut self,
        who: &str,
        pages: &str,
        times: Option<Spread>,
        found: Option<Found>,
        memory_kb: Option<f64>,
    ) {
        let (Some(times), Some(found)) = (times, found) else { return };
        self.table.row([
            self.name.to_owned(),
            who.to_owned(),
            pages.to_owned(),
            figure(times.median),
            format!("{}..{}", figure(times.lower), figure(times.upper)),
            thousands(found.series as f64),
            thousands(found.points as f64),
            memory_kb.map_or(String::new(), |kb| figure(kb / 1e3)),
        ]);
    }

    /// The same samples must give the same answer, but for the edges of ranges.
    fn compare(&mut self, kind: Kind, ours: Found, theirs: Found) -> Result<(), BenchError> {
        let apart = (theirs.sum - ours.sum).abs() / ours.sum.abs().max(f64::MIN_POSITIVE);
        self.record.say(&format!(
            "{}: the sum of all values of {} differs from ours by {} %\n",
            self.name,
            kind.name(),
            figure(100.0 * apart)
        ));
        // VictoriaMetrics has a rate of its own, without extrapolation.
        if kind == Kind::Prometheus && apart > SUM_APART {
            return Err(failed(
                self.name,
                format!("Prometheus answers otherwise: {theirs:?}, and ours {ours:?}"),
            ));
        }
        Ok(())
    }

    fn ratio(&mut self, kind: Kind, ours: Option<Spread>, theirs: Option<Spread>) {
        let (Some(ours), Some(theirs)) = (ours, theirs) else { return };
        let least = if kind == Kind::Prometheus { 3.0 } else { 1.0 };
        let bound = self.record.effort.of(Bound::AtLeast(least), Bound::Stated);
        let promise = format!("{}: how many times as long {} takes", self.name, kind.name());
        self.record.verdict(&promise, Spread::of([theirs.median / ours.median]), bound);
    }
}

/// All metrics that nodes can have.
fn metrics() -> Vec<Arc<Metric>> {
    khz_parse::catalogue()
}
