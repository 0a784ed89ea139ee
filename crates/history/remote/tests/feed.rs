//! What a receiver gets of a store's rows: each once, in the order of time, and the end of each series.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_block::{Encoder, Header};
use khz_model::metric::{Kind, Unit};
use khz_model::{
    Absence, ByteSize, Columns, Instance, Labels, Metric, Nanos, NodeName, Pattern, Reading, Series, Stamp,
    ValueType, recorded,
};
use khz_promql::is_stale;
use khz_remote::message::WriteRequest;
use khz_remote::write::{Counts, Cursors, Feed, Request, Rules, Settings};
use khz_store::compact::Step;
use khz_store::log::{Intake, LoggedBlock};
use khz_store::range::RangeReader;
use khz_store::{Keep, Store};

const SECOND: u64 = 1_000_000_000;
/// 2026-11-23T14:00:00 UTC.
const BEGIN: u64 = 1_795_442_400;

/// A store in a folder of its own, and what sends out of it.
struct Lab {
    folder: PathBuf,
    store: Store,
    intake: Intake,
    counts: Arc<Counts>,
    feed: Option<Feed>,
    /// The second of the last pass.
    at: Option<u64>,
    settings: Settings,
    got: Got,
}

/// What the receiver has: by the labels, time and value.
#[derive(Debug, Default)]
struct Got(BTreeMap<String, Vec<(i64, f64)>>);

impl Got {
    fn take(&mut self, request: &Request) {
        for series in WriteRequest::unpack(&request.pack().unwrap()).unwrap().timeseries {
            let labels: Vec<String> =
                series.labels.iter().map(|label| format!("{}={}", label.name, label.value)).collect();
            let samples = self.0.entry(labels.join(" ")).or_default();
            samples.extend(series.samples.iter().map(|sample| (sample.timestamp, sample.value())));
        }
    }

    /// The samples of the one series whose labels have these words: seconds since the begin, and the value or `end`.
    fn of(&self, words: &[&str]) -> String {
        let mut found = self.0.iter().filter(|(labels, _)| words.iter().all(|word| labels.contains(word)));
        let (_, samples) = found.next().unwrap_or_else(|| panic!("{words:?} in {self:?}"));
        assert!(found.next().is_none(), "{words:?} in {self:?}");
        assert!(samples.is_sorted_by(|one, next| one.0 < next.0), "{samples:?}");
        let shown = |(time, value): &(i64, f64)| {
            let seconds = (*time - BEGIN as i64 * 1_000) as f64 / 1_000.0;
            if is_stale(*value) { format!("{seconds}:end") } else { format!("{seconds}:{value}") }
        };
        samples.iter().map(shown).collect::<Vec<_>>().join(" ")
    }
}

fn settings() -> Settings {
    Settings {
        patterns: vec![Pattern::everything()],
        job: "khz".into(),
        rules: Rules::default(),
        every: 1,
        batch: 10,
        delay: 30 * SECOND,
        samples_max: 100,
    }
}

impl Lab {
    fn new(name: &str, settings: Settings) -> Self {
        Lab::keeping(name, settings, Nanos(4_000 * 86_400 * SECOND))
    }

    /// A store that keeps rows for this long.
    fn keeping(name: &str, settings: Settings, raw: Nanos) -> Self {
        let folder =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let long = Nanos(4_000 * 86_400 * SECOND);
        let keep = Keep { size: ByteSize(1 << 40), raw, minute: long, hour: long };
        let (store, intake, damage) = Store::open(&folder, keep, Nanos(BEGIN * SECOND)).unwrap();
        assert!(damage.is_empty());
        let (counts, got) = (Arc::default(), Got::default());
        let mut lab = Lab { folder, store, intake, counts, feed: None, at: None, settings, got };
        lab.begin();
        lab
    }

    /// Another sender begins where the last one has ended.
    fn begin(&mut self) {
        (self.feed, self.at) = (None, None);
        let cursors =
            Cursors::open(&self.folder.join("remote"), "vm", Nanos(BEGIN * SECOND - SECOND)).unwrap();
        let reader = RangeReader::new(self.store.shelf().clone(), Some(self.store.log()), Arc::new(()));
        self.feed = Some(Feed::new(&reader, cursors, self.settings.clone(), self.counts.clone()));
    }

    /// A block of a node, with rows at these seconds; the row numbers begin with `first`.
    fn block(&self, node: &str, epoch: u64, first: u64, seconds: &[f64], rows: &[Vec<(Series, Reading)>]) {
        let lane = self.intake.lane(&NodeName::stored(node).unwrap(), epoch);
        let columns: Vec<Series> = rows[0].iter().map(|(series, _)| series.clone()).collect();
        let mut encoder = Encoder::new(0, 1, Nanos(SECOND));
        encoder.resume(first, 1);
        let (mut bytes, mut last) = (Vec::new(), Nanos(0));
        for (second, row) in seconds.iter().zip(rows) {
            let at = BEGIN * SECOND + (second * 1e9) as u64;
            let stamp = Stamp { boot: Nanos(at), real_offset: 0 };
            last = stamp.real();
            let of_slot = |slot: usize| (row[slot].1.state(), row[slot].1.bits());
            match encoder.rows_open() {
                0 => encoder.key_row(stamp, row.len(), of_slot, &mut bytes),
                _ => encoder.delta_row(stamp, 0..row.len(), of_slot, &mut bytes),
            }
        }
        let mut hash = [epoch as u8; 16];
        hash[1] = columns.len() as u8;
        let block = LoggedBlock {
            header: Header::from_bytes(bytes.first_chunk().unwrap(), 0).unwrap(),
            rows: encoder.rows_open(),
            schema: Arc::new(columns) as Arc<dyn Columns>,
            schema_hash: hash,
            bytes: Arc::new(bytes),
            last,
            shift: 0,
        };
        self.intake.block(&lane, block);
        self.store.commit(Nanos(BEGIN * SECOND)).unwrap();
    }

    /// A block of a node with one row a second, whose one series counts the seconds.
    fn seconds(&self, node: &str, epoch: u64, first_row: u64, seconds: std::ops::Range<u64>) {
        let times: Vec<f64> = seconds.clone().map(|second| second as f64 + 0.003).collect();
        let rows: Vec<_> =
            seconds.map(|second| vec![(gauge("made", None), Reading::Present(second))]).collect();
        self.block(node, epoch, first_row, &times, &rows);
    }

    /// Passes each second up to this one.
    fn pass(&mut self, second: u64) {
        for second in self.at.map_or(second, |at| (at + 1).min(second))..=second {
            self.pass_at(second);
        }
    }

    /// Passes at this second until nothing more is sent.
    fn pass_at(&mut self, second: u64) {
        self.at = Some(second);
        let (feed, got) = (self.feed.as_mut().unwrap(), &mut self.got);
        let now = Nanos((BEGIN + second) * SECOND);
        while {
            let pass = feed.pass(now, &mut |request| {
                got.take(request);
                true
            });
            assert!(pass.problems.is_empty(), "{:?}", pass.problems);
            pass.is_behind
        } {}
        feed.save().unwrap();
    }

    fn late(&self) -> u64 {
        self.counts.late.load(Ordering::Relaxed)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn gauge(name: &'static str, instance: Option<&str>) -> Series {
    let metric = Metric::plain(name, name, Kind::Gauge, Unit::Count);
    let metric = if instance.is_some() { metric.of_instances("device") } else { metric };
    Series { metric: Arc::new(metric), instance: instance.map(|name| Instance::from_text(name).unwrap()) }
}

#[test]
fn rows_are_sent_once_in_batches_at_whole_seconds() {
    let mut lab = Lab::new("once", settings());
    lab.seconds("n1", 1, 0, 0..15);
    lab.pass(12);
    // What comes in the last seconds may be incomplete, and a batch has ten seconds.
    assert!(lab.got.0.is_empty());
    lab.pass(13);
    let ten: Vec<String> = (0..10).map(|second| format!("{second}:{second}")).collect();
    assert_eq!(lab.got.of(&["__name__=made", "instance=n1", "job=khz"]), ten.join(" "));
    lab.pass(14);
    lab.seconds("n1", 1, 15, 15..20);
    lab.pass(23);
    let twenty: Vec<String> = (0..20).map(|second| format!("{second}:{second}")).collect();
    assert_eq!(lab.got.of(&["made"]), twenty.join(" "));
    // A restart begins where it was.
    lab.begin();
    lab.pass(24);
    assert_eq!(lab.got.of(&["made"]), twenty.join(" "));
}

#[test]
fn a_series_without_a_value_ends_at_the_row_that_says_so_and_one_that_is_gone_at_the_first_without_it() {
    let mut lab = Lab::new("ends", settings());
    let row = |a: Reading, b: Option<u64>| {
        let mut row = vec![(gauge("a", None), a)];
        row.extend(b.map(|b| (gauge("b", Some("eth0")), Reading::Present(b))));
        row
    };
    let absent = Reading::Absent(Absence::InstanceGone);
    let rows = [row(Reading::Present(5), Some(1)), row(absent, Some(2)), row(absent, Some(3))];
    lab.block("n1", 1, 0, &[0.0, 1.0, 2.0], &rows);
    lab.block("n1", 1, 3, &[3.0, 4.0], &[row(Reading::Present(6), None), row(Reading::Present(7), None)]);
    lab.pass(13);
    assert_eq!(lab.got.of(&["__name__=a"]), "0:5 1:end 3:6 4:7");
    assert_eq!(lab.got.of(&["__name__=b", "device=eth0"]), "0:1 1:2 2:3 3:end");
}

#[test]
fn what_rules_have_recorded_is_sent_with_its_own_labels_and_times() {
    let external = BTreeMap::from([("cluster".to_owned(), "c1".to_owned())]);
    let rules = Rules::new(external, Vec::new()).unwrap();
    let mut lab = Lab::new("recorded", Settings { rules, ..settings() });
    let one = |name: &str, reading| {
        (recorded::series(name, [("instance", "n1"), ("mode", "user")]).unwrap(), reading)
    };
    let (value, none) = (|value: f64| Reading::Present(value.to_bits()), Reading::Absent(Absence::NoResult));
    let owner = NodeName::of_group("cpu.yml;load");
    let rows = [
        vec![one("a:b", value(0.5)), one("c", none)],
        vec![one("a:b", none), one("c", value(1.0))],
        vec![one("a:b", none), one("c", value(2.0))],
    ];
    lab.block(owner.as_str(), 1, 0, &[0.25, 2.125, 9.25], &rows);
    lab.pass(13);
    let names: Vec<&String> = lab.got.0.keys().collect();
    let of = |name: &str| format!("__name__={name} cluster=c1 instance=n1 mode=user");
    assert_eq!(names, [&of("a:b"), &of("c")]);
    assert_eq!(lab.got.of(&["a:b"]), "0.25:0.5 2.125:end");
    assert_eq!(lab.got.of(&["=c "]), "2.125:1 9.25:2");
    // A restart begins where it was; a group that is silent goes on if it comes back.
    lab.begin();
    lab.block(owner.as_str(), 1, 3, &[60.0], &[vec![one("a:b", value(3.0)), one("c", none)]]);
    lab.pass(73);
    assert_eq!(lab.got.of(&["a:b"]), "0.25:0.5 2.125:end 60:3");
    // Patterns of nodes mean none of it; those of recorded series do.
    for (pattern, is_sent) in [("n*:*", false), ("made", false), ("recorded[a%3A*]", true)] {
        let patterns = vec![Pattern::new(pattern).unwrap()];
        let mut lab = Lab::new("recorded-some", Settings { patterns, ..settings() });
        lab.block(owner.as_str(), 1, 0, &[0.25, 2.125, 9.25], &rows);
        lab.pass(13);
        let names: Vec<&str> = lab.got.0.keys().map(String::as_str).collect();
        let expected: &[&str] = if is_sent { &["__name__=a:b instance=n1 mode=user"] } else { &[] };
        assert_eq!(names, expected, "{pattern}");
    }
}

#[test]
fn a_silent_node_and_the_end_of_an_epoch_end_its_series_just_after_their_last_sample() {
    let mut lab = Lab::new("silent", settings());
    lab.seconds("n1", 1, 0, 0..5);
    lab.seconds("n2", 1, 0, 0..5);
    // The agent was started again: rows are numbered from 0.
    lab.seconds("n2", 2, 0, 6..20);
    lab.pass(13);
    assert_eq!(lab.got.of(&["n1"]), "0:0 1:1 2:2 3:3 4:4", "it may only be late");
    lab.pass(23);
    assert_eq!(lab.got.of(&["n1"]), "0:0 1:1 2:2 3:3 4:4 4.001:end");
    let more: Vec<String> = (6..20).map(|second| format!("{second}:{second}")).collect();
    assert_eq!(lab.got.of(&["n2"]), format!("0:0 1:1 2:2 3:3 4:4 4.001:end {}", more.join(" ")));
    // It comes back; what it had in between comes in order.
    lab.seconds("n1", 1, 5, 5..8);
    lab.seconds("n1", 1, 8, 40..42);
    lab.pass(53);
    assert_eq!(lab.got.of(&["n1"]), "0:0 1:1 2:2 3:3 4:4 4.001:end 5:5 6:6 7:7 7.001:end 40:40 41:41");
    assert_eq!(lab.late(), 0);
}

#[test]
fn a_node_is_silent_after_three_of_its_own_periods_however_slow_it_is() {
    for period in [1, 7, 10, 15, 20, 30, 60, 90] {
        let mut lab = Lab::new("slow", settings());
        let row = |row: u64| vec![(gauge("made", None), Reading::Present(row))];
        let rows = 12;
        for number in 0..rows {
            let at = number * period;
            lab.block("n1", 1, number, &[at as f64 + 0.003], &[row(number)]);
            // The hub begins again in the middle: what is alive has to be found again.
            if number == 8 {
                lab.begin();
            }
            for second in (at + 3..at + period + 3).filter(|second| second % 5 == 3) {
                lab.pass(second);
            }
        }
        let last = (rows - 1) * period;
        let alive = (0..rows).map(|row| format!("{}:{row}", row * period)).collect::<Vec<_>>().join(" ");
        let silent = (3 * period).max(10);
        lab.pass(last + silent + 3);
        assert_eq!(lab.got.of(&["n1"]), alive, "{period}: it may only be late");
        lab.pass(last + silent + 24 + 30);
        assert_eq!(lab.got.of(&["n1"]), format!("{alive} {last}.001:end"), "{period}");
    }
}

#[test]
fn rows_wait_for_those_before_them_and_what_comes_later_than_that_is_counted() {
    let mut lab = Lab::new("holes", settings());
    lab.seconds("n1", 1, 0, 0..3);
    lab.seconds("n1", 1, 8, 8..20);
    lab.pass(23);
    assert_eq!(lab.got.of(&["n1"]), "0:0 1:1 2:2");
    lab.seconds("n1", 1, 3, 3..8);
    lab.pass(24);
    let twenty: Vec<String> = (0..20).map(|second| format!("{second}:{second}")).collect();
    assert_eq!(lab.got.of(&["n1"]), twenty.join(" "));
    // This hole is filled too late.
    lab.seconds("n1", 1, 25, 25..40);
    lab.pass_at(43);
    lab.pass(72);
    assert_eq!(lab.got.of(&["n1"]), twenty.join(" "));
    lab.pass(73);
    let rest: Vec<String> = (25..40).map(|second| format!("{second}:{second}")).collect();
    assert_eq!(lab.got.of(&["n1"]), format!("{} {}", twenty.join(" "), rest.join(" ")) + " 39.001:end");
    assert_eq!(lab.late(), 0);
    lab.seconds("n1", 1, 20, 20..25);
    lab.seconds("n1", 1, 40, 73..75);
    lab.pass(83);
    assert_eq!(lab.late(), 5);
    lab.pass(93);
    assert_eq!(lab.late(), 5, "they are counted once");
}

#[test]
fn what_a_receiver_has_missed_comes_out_of_columns_each_row_once() {
    let mut lab = Lab::new("columns", Settings { samples_max: 5_000, ..settings() });
    // Two hours of one row a second, and a node that was there only in between.
    for minute in 0..120 {
        lab.seconds("n1", 1, minute * 60, minute * 60..(minute + 1) * 60);
    }
    lab.seconds("n2", 1, 0, 4_000..4_060);
    lab.store.seal();
    let later = Nanos((BEGIN + 2 * 3_600 + 400) * SECOND);
    while lab.store.tick_compaction(later).unwrap().step != Step::Nothing {}
    lab.seconds("n1", 1, 7_200, 7_200..7_260);
    lab.pass(7_263);
    let all: Vec<String> = (0..7_260).map(|second| format!("{second}:{second}")).collect();
    assert_eq!(lab.got.of(&["n1"]), all.join(" "));
    assert_eq!(lab.got.of(&["n2"]).split(' ').count(), 61, "its end, too");
    assert_eq!(lab.late(), 0);
}

#[test]
fn samples_of_a_longer_period_are_those_at_its_begin() {
    let mut lab = Lab::new("every", Settings { every: 15, batch: 30, ..settings() });
    lab.seconds("n1", 1, 0, 0..70);
    lab.pass(63);
    lab.seconds("n1", 1, 70, 70..100);
    lab.pass(93);
    assert_eq!(lab.got.of(&["n1"]), "0:0 15:15 30:30 45:45 60:60 75:75");
}

#[test]
fn labels_come_with_readings_and_change_with_them() {
    let mut lab = Lab::new("labels", settings());
    let labels = |process: &str| Labels::new([("comm", process)]).unwrap();
    let (one, two) = (labels("init"), labels("make"));
    let mut who = Metric::plain("top.who", "khz_top_info", Kind::Gauge, Unit::Count).of_instances("rank");
    who.value_type = ValueType::Labels;
    let mut busy = Metric::plain("top.busy", "khz_top_busy", Kind::Gauge, Unit::Count).of_instances("rank");
    busy.labels_from = Some("top.who".into());
    let series =
        [busy, who].map(|metric| Series { metric: Arc::new(metric), instance: Instance::from_text("3") });
    let row = |value: u64, labels: &Labels| {
        let readings = [Reading::Present(value), Reading::Labels(labels.number())];
        series.iter().cloned().zip(readings).collect::<Vec<_>>()
    };
    lab.block("n1", 1, 0, &[0.0, 1.0, 2.0], &[row(5, &one), row(6, &two), row(7, &two)]);
    lab.pass(13);
    assert_eq!(lab.got.of(&["khz_top_busy", "comm=init", "rank=3"]), "0:5 1:end");
    assert_eq!(lab.got.of(&["khz_top_busy", "comm=make", "rank=3"]), "1:6 2:7");
    assert_eq!(lab.got.of(&["khz_top_info", "comm=init"]), "0:1 1:end");
}

#[test]
fn after_a_restart_series_that_were_alive_before_it_are_ended() {
    let mut lab = Lab::new("recall", settings());
    let row = |second: u64, has_b: bool| {
        let mut row = vec![(gauge("a", None), Reading::Present(second))];
        row.extend(has_b.then(|| (gauge("b", Some("eth0")), Reading::Present(second))));
        row
    };
    let times = |from: u64| -> Vec<f64> { (from..from + 10).map(|second| second as f64 + 0.003).collect() };
    let rows = |from: u64, has_b| -> Vec<_> { (from..from + 10).map(|second| row(second, has_b)).collect() };
    lab.block("n1", 1, 0, &times(0), &rows(0, true));
    lab.seconds("n2", 1, 0, 0..10);
    lab.pass(13);
    lab.begin();
    lab.block("n1", 1, 10, &times(10), &rows(10, false));
    lab.pass(23);
    let ten: Vec<String> = (0..10).map(|second| format!("{second}:{second}")).collect();
    assert_eq!(lab.got.of(&["__name__=b"]), format!("{} 10:end", ten.join(" ")));
    for second in [43, 63, 400] {
        lab.pass(second);
        let why = "rows may be on their way to a hub that has just started, or the node is at another hub";
        assert_eq!(lab.got.of(&["n2"]), ten.join(" "), "{why}");
    }
    lab.seconds("n2", 1, 10, 500..510);
    lab.pass(523);
    assert!(lab.got.of(&["n2"]).ends_with(" 509:509"));
    for second in 524..560 {
        lab.pass(second);
    }
    assert!(lab.got.of(&["n2"]).ends_with(" 509:509 509.001:end"), "from now on its silence counts");
}

#[test]
fn the_series_of_a_node_that_has_moved_to_another_hub_have_no_end_here() {
    let mut lab = Lab::new("moved", settings());
    let moved = |node: &NodeName| node.as_str() == "n2";
    lab.feed = lab.feed.take().map(|feed| feed.asking(Box::new(moved)));
    lab.seconds("n1", 1, 0, 0..10);
    lab.seconds("n2", 1, 0, 0..10);
    for second in 13..60 {
        lab.pass(second);
    }
    let ten = (0..10).map(|second| format!("{second}:{second}")).collect::<Vec<_>>().join(" ");
    assert_eq!(lab.got.of(&["n1"]), format!("{ten} 9.001:end"));
    assert_eq!(lab.got.of(&["n2"]), ten);
    // It comes back, and says nothing of the time when it was elsewhere.
    lab.seconds("n2", 1, 10, 60..70);
    lab.pass(73);
    let back = (60..70).map(|second| format!("{second}:{second}")).collect::<Vec<_>>().join(" ");
    assert_eq!(lab.got.of(&["n2"]), format!("{ten} {back}"));
}

#[test]
fn after_a_hub_stood_still_nodes_are_not_silent_before_their_rows_may_have_come() {
    let mut lab = Lab::new("still", settings());
    lab.seconds("n1", 1, 0, 0..10);
    lab.pass(13);
    // It stood still for a minute. The rows of that time come within `delay`.
    lab.pass_at(73);
    lab.seconds("n1", 1, 10, 10..70);
    lab.pass(83);
    let all = (0..70).map(|second| format!("{second}:{second}")).collect::<Vec<_>>().join(" ");
    assert_eq!(lab.got.of(&["n1"]), all);
}

#[test]
fn what_the_store_has_removed_unsent_is_counted_and_a_node_without_rows_is_forgotten() {
    let mut lab =
        Lab::keeping("removed", Settings { samples_max: 5_000, ..settings() }, Nanos(7_200 * SECOND));
    let minutes = |lab: &Lab, minutes: std::ops::Range<u64>| {
        minutes.for_each(|minute| lab.seconds("n1", 1, minute * 60, minute * 60..(minute + 1) * 60));
    };
    minutes(&lab, 0..16);
    lab.seconds("n2", 1, 0, 0..60);
    lab.pass(963);
    let cursors = |lab: &Lab| std::fs::read_to_string(lab.folder.join("remote/vm.cursor")).unwrap();
    assert!(cursors(&lab).contains(" n2\n"));
    // Five hours pass without a receiver, and the store keeps two.
    minutes(&lab, 16..300);
    lab.store.seal();
    let later = Nanos((BEGIN + 5 * 3_600 + 400) * SECOND);
    while lab.store.tick_compaction(later).unwrap().step != Step::Nothing {}
    minutes(&lab, 300..301);
    lab.pass(18_063);
    let expected: Vec<String> =
        (0..960).chain(10_800..18_060).map(|second| format!("{second}:{second}")).collect();
    let got = lab.got.of(&["n1"]).replace(" 959.001:end", "");
    assert_eq!(got, expected.join(" "));
    assert_eq!(lab.counts.removed.load(Ordering::Relaxed), 10_800 - 960);
    assert!(!cursors(&lab).contains(" n2\n") && cursors(&lab).contains(" n1\n"));
}

#[test]
fn a_clock_that_was_ahead_at_the_first_start_stops_nothing_when_it_is_right_again() {
    let mut lab = Lab::new("ahead", settings());
    // The clock is right from here on: it was an hour ahead when the hub was started for the first time.
    lab.feed = None;
    std::fs::remove_file(lab.folder.join("remote/vm.cursor")).unwrap();
    let ahead = Nanos((BEGIN + 3_600) * SECOND);
    let cursors = Cursors::open(&lab.folder.join("remote"), "vm", ahead).unwrap();
    let reader = RangeReader::new(lab.store.shelf().clone(), Some(lab.store.log()), Arc::new(()));
    let mut feed = Feed::new(&reader, cursors, lab.settings.clone(), lab.counts.clone());
    lab.seconds("n1", 1, 0, 0..30);
    let told = feed.pass(Nanos((BEGIN + 10) * SECOND), &mut |_| true).problems;
    assert_eq!(told, ["the clock was 3590 s ahead at the first start: sending begins with the rows of now"]);
    feed.save().unwrap();
    (lab.feed, lab.at) = (Some(feed), Some(10));
    lab.pass(60);
    let sent = lab.got.of(&["made"]);
    assert!(sent.starts_with("10:10 11:11 ") && sent.contains(" 29:29"), "{sent}");
}
