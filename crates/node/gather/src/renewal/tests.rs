//! Sources, lanes and rings over a day in which interfaces come and go by the thousand, in made-up time.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;

use khz_block::{SchemaDecoder, schema::SCHEMA_BYTES_MAX};
use khz_model::{Rate, Stamp};
use khz_ring::{Cursor, Event};

use super::*;
use crate::budget::Budget;
use crate::lane::{Lane, ring_of_tests};
use crate::lane_set::LaneSet;

/// A directory with `proc/net/dev`, removed when this is dropped.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("khz-renewal-{name}-{}", std::process::id()));
        fs::create_dir_all(root.join("proc/net")).unwrap();
        Root(root)
    }

    /// Writes the file: the received bytes of an interface are its number times 1,000 and the time in seconds.
    fn show(&self, interfaces: impl Iterator<Item = u64>, second: u64) {
        let mut text =
            String::from("Inter-|   Receive                                                |  Transmit\n");
        text += " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n";
        for n in interfaces {
            text += &format!(" veth{n}: {} 1 0 0 0 0 0 0 2 3 0 0 0 0 0 0\n", n * 1_000 + second % 1_000);
        }
        fs::write(self.0.join("proc/net/dev"), text).unwrap();
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn stamp(second: u64) -> Stamp {
    Stamp { boot: Nanos::from_secs(second), real_offset: 0 }
}

fn source(root: &Root) -> Source {
    Source::file(&root.0, &khz_parse::net_dev::FILE, Budget::unlimited())
}

fn lane(members: usize) -> Lane {
    let ring = ring_of_tests(1 << 20);
    Lane::new(Some(Rate::from_hz(1).unwrap()), vec![Some(Nanos(0)); members], ring, stamp(0))
}

/// Reads the rows of a lane, each with the names of its own generation.
struct Judge {
    cursor: Cursor,
    /// The schema of the present generation, and its bytes until now.
    schema: SchemaDecoder,
    bytes: usize,
    /// For each slot with received bytes, the interface.
    interfaces: Vec<(usize, u64)>,
    rows: u64,
    generations: u64,
    schema_bytes_most: usize,
}

impl Judge {
    fn new(lane: &Lane) -> Self {
        let cursor = Cursor::new(lane.view.ring.clone(), 0);
        Judge {
            cursor,
            schema: SchemaDecoder::new(),
            bytes: 0,
            interfaces: Vec::new(),
            rows: 0,
            generations: 0,
            schema_bytes_most: 0,
        }
    }

    /// Each row comes once, and each value stands under the name of its interface; returns the newest row's
    /// interfaces that have a value.
    fn read(&mut self, lane: &Lane) -> Vec<u64> {
        let mut here = Vec::new();
        loop {
            match self.cursor.advance() {
                Event::UpToDate => return here,
                Event::Block => self.name_slots(lane),
                Event::Row => {
                    here = self.judge();
                    self.rows += 1;
                }
            }
        }
    }

    fn name_slots(&mut self, lane: &Lane) {
        let generation = u64::from(self.cursor.decoder().header().unwrap().generation);
        if generation != self.generations {
            (self.schema, self.bytes, self.interfaces) = (SchemaDecoder::new(), 0, Vec::new());
            self.generations = generation;
        }
        let (mut bytes, known) = (Vec::new(), self.schema.series().len());
        lane.view.ring.schema(generation as u32, self.bytes as u64, SCHEMA_BYTES_MAX, &mut bytes).unwrap();
        self.schema.feed(&bytes).unwrap();
        self.bytes += bytes.len();
        self.schema_bytes_most = self.schema_bytes_most.max(self.bytes);
        for (slot, series) in self.schema.series().iter().enumerate().skip(known) {
            if series.metric.name == "net.rx_bytes" {
                let number = series.instance.as_ref().unwrap().name()["veth".len()..].parse().unwrap();
                self.interfaces.push((slot, number));
            }
        }
    }

    fn judge(&self) -> Vec<u64> {
        let row = self.cursor.decoder();
        assert_eq!(row.next_row(), self.rows + 1, "once, and in order");
        let second = row.stamp().boot.0 / 1_000_000_000;
        let mut here = Vec::new();
        for &(slot, number) in &self.interfaces {
            let Some(value) = row.reading(slot).and_then(|reading| reading.value()) else { continue };
            assert_eq!(value, number * 1_000 + second % 1_000, "row {}", row.next_row());
            here.push(number);
        }
        here.sort_unstable();
        here
    }
}

/// So many hours in the quick tier; `KHZ_CHURN_HOURS=24` for a day, which takes a minute.
const HOURS: u64 = 4;

#[test]
fn ten_thousand_instances_an_hour_leave_slots_and_schema_bounded() {
    let hours = std::env::var("KHZ_CHURN_HOURS").ok().and_then(|text| text.parse().ok()).unwrap_or(HOURS);
    const EVERY: u64 = 120;
    const NEW: u64 = 10_000 * EVERY / 3_600 + 1;
    let root = Root::new("day");
    let mut sources = [source(&root)];
    let (mut lanes, mut renewal) = (LaneSet::new(vec![lane(1)], 1), Renewal::new(GONE_FOR));
    let (mut judge, mut room, mut calls) = (Judge::new(&lanes[0]), Vec::new(), Vec::new());
    let (mut alive, mut slots_most, mut rows) = (VecDeque::new(), 0, 0);
    for tick in 0..hours * 3_600 / EVERY {
        let second = tick * EVERY;
        alive.extend(tick * NEW..(tick + 1) * NEW);
        // Each lives for two minutes.
        while alive.len() as u64 > NEW {
            alive.pop_front();
        }
        root.show(alive.iter().copied(), second);
        sources[0].gather(stamp(second), &mut room);
        lanes.note(0, &sources[0]);
        lanes[0].record(stamp(second), &sources, &mut calls, &mut None);
        rows += 1;
        assert_eq!(judge.read(&lanes[0]), *alive.make_contiguous(), "in second {second}");
        let renewed = renewal.look(Nanos::from_secs(second), &mut sources);
        lanes.renew(renewed, &sources);
        slots_most = slots_most.max(sources[0].slots());
    }
    assert_eq!((judge.rows, judge.cursor.take_lost()), (rows, 0));
    let metrics = khz_parse::net_dev::FILE.metrics().len();
    // Those that live, those gone for too short a time, and what may be gone before the next generation.
    let bound = metrics * (2 * NEW as usize) * 4 / 3 + GONE_SLOTS_MANY + 2 * metrics * NEW as usize;
    println!(
        "{rows} rows, at most {slots_most} slots of {bound}, {} bytes of schema, {} generations",
        judge.schema_bytes_most, judge.generations
    );
    assert!(slots_most <= bound, "{slots_most} slots, more than {bound}");
    assert!(judge.schema_bytes_most < 64 * bound, "{} bytes of schema", judge.schema_bytes_most);
    let most = 1 + hours * 3_600 * Nanos::SECOND.0 / GENERATION_TIME_MIN.0;
    assert!((2 * hours..=most).contains(&judge.generations), "{} generations", judge.generations);
}

#[test]
fn an_instance_that_comes_back_in_time_keeps_its_slots_and_one_that_comes_back_late_gets_new_ones() {
    let root = Root::new("back");
    let mut sources = [source(&root), source(&root)];
    let (mut lanes, mut renewal) = (LaneSet::new(vec![lane(2)], 2), Renewal::new(GONE_FOR));
    let mut judge = Judge::new(&lanes[0]);
    let mut at = |second: u64, shown: std::ops::Range<u64>| {
        root.show(shown, second);
        let (mut room, mut calls) = (Vec::new(), Vec::new());
        // The second one is read now and then only.
        let read = if second.is_multiple_of(7) { 2 } else { 1 };
        for (index, source) in sources.iter_mut().enumerate().take(read) {
            source.gather(stamp(second), &mut room);
            lanes.note(index, source);
        }
        let renewed = renewal.look(Nanos::from_secs(second), &mut sources);
        lanes.renew(renewed, &sources);
        lanes[0].record(stamp(second), &sources, &mut calls, &mut None);
        let renewed: u32 = (0..2).filter(|&source| renewed.has(source)).map(|source| 1 << source).sum();
        (renewed, sources[0].slots(), sources[1].slots())
    };
    let metrics = khz_parse::net_dev::FILE.metrics().len();
    assert_eq!(at(0, 0..20), (0, 20 * metrics, 20 * metrics));
    assert_eq!(at(1, 0..5), (0, 20 * metrics, 20 * metrics));
    assert_eq!(at(20, 0..20), (0, 20 * metrics, 20 * metrics), "all are back");
    assert_eq!(at(30, 0..5), (0, 20 * metrics, 20 * metrics));
    assert_eq!(at(59, 0..5), (0, 20 * metrics, 20 * metrics), "not gone for long enough");
    assert_eq!(at(60, 0..5), (1, 5 * metrics, 20 * metrics), "the second source has not seen it yet");
    assert_eq!(at(63, 0..20), (0, 20 * metrics, 20 * metrics));
    assert_eq!(at(70, 0..5), (0, 20 * metrics, 20 * metrics));
    assert_eq!(at(101, 0..5), (0, 20 * metrics, 20 * metrics), "a generation lives for longer");
    assert_eq!(at(360, 0..5), (3, 5 * metrics, 5 * metrics));
    judge.cursor = Cursor::new(lanes[0].view.ring.clone(), 0);
    let mut generations = Vec::new();
    while let event @ (Event::Row | Event::Block) = judge.cursor.advance() {
        if event == Event::Block {
            generations.push(judge.cursor.decoder().header().unwrap().generation);
        }
    }
    generations.dedup();
    assert_eq!((generations, lanes[0].view.generation()), (vec![1, 2, 3], 3));
}

/// An agent shows each lane all of its sources at the start, and some of them may have slots already.
#[test]
fn a_lane_without_a_source_has_none_of_its_slots_when_these_are_given_back() {
    let root = Root::new("apart");
    root.show(0..50, 0);
    let mut sources = [source(&root), source(&root)];
    sources.iter_mut().for_each(|source| source.gather(stamp(0), &mut Vec::new()));
    let one = Lane::new(
        Some(Rate::from_hz(10).unwrap()),
        vec![Some(Nanos(0)), None],
        ring_of_tests(1 << 20),
        stamp(0),
    );
    let mut all = vec![lane(2), one];
    for lane in &mut all {
        sources.iter().enumerate().for_each(|(index, source)| lane.know(index, source));
    }
    let (mut lanes, mut renewal, mut calls) = (LaneSet::new(all, 2), Renewal::new(GONE_FOR), Vec::new());
    let mut at = |second: u64, shown: std::ops::Range<u64>| {
        root.show(shown, second);
        // What the first source shows stays as it was.
        sources[1].gather(stamp(second), &mut Vec::new());
        lanes.note(1, &sources[1]);
        let renewed = renewal.look(Nanos::from_secs(second), &mut sources);
        lanes.renew(renewed, &sources);
        for lane in lanes.iter_mut() {
            lane.record(stamp(second), &sources, &mut calls, &mut None);
        }
        let series: Vec<usize> = lanes.iter().map(|lane| lane.view.series().len()).collect();
        (renewed.has(1), series)
    };
    let metrics = khz_parse::net_dev::FILE.metrics().len();
    assert_eq!(at(1, 0..50), (false, vec![100 * metrics, 50 * metrics]));
    assert_eq!(at(2, 0..5), (false, vec![100 * metrics, 50 * metrics]));
    assert_eq!(at(40, 0..5), (true, vec![55 * metrics, 50 * metrics]));
}

#[test]
fn few_slots_of_instances_that_are_gone_are_no_reason_for_another_generation() {
    assert!(!is_worn(GONE_SLOTS_MIN, GONE_SLOTS_MIN));
    assert!(is_worn(GONE_SLOTS_MIN + 1, 4 * GONE_SLOTS_MIN + 3));
    assert!(!is_worn(250, 1_000) && is_worn(251, 1_000));
    let mut renewal = Renewal::new(GONE_FOR);
    assert!(renewal.may(Nanos(0), 65));
    renewal.last = Some(Nanos(0));
    let may = |time, gone| renewal.may(time, gone);
    assert!(!may(Nanos(GENERATION_TIME.0 - 1), GONE_SLOTS_MANY - 1) && may(GENERATION_TIME, 65));
    assert!(!may(Nanos(GENERATION_TIME_MIN.0 - 1), 1 << 20) && may(GENERATION_TIME_MIN, GONE_SLOTS_MANY));
}
