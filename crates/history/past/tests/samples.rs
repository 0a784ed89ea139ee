//! What a past of a few rows, written by hand, is as samples: names, labels, values, and where each series ends.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use khz_model::metric::{Kind, Unit};
use khz_model::{
    Absence, Fault, Instance, Labels, Metric, Nanos, NodeName, QueryError as RangeError, RangeAnswer,
    RangeColumn, RangeContent, RangePart, RangePiece, RangePoint, RangeRequest, RangeRun, RangeShape,
    RangeTotal, Ranges, Reading, Series, Stamp, ValueType,
};
use khz_past::{Known, PastSource, Roster};
use khz_promql::{
    LabelSet, METRIC_NAME, Matcher, QueryError, Selection, SeriesId, Sink, Source, Summaries, is_stale,
};
use proptest::prelude::*;

const HOUR: u64 = 3_600_000;

/// A series of a node and its readings, each with its time in ms.
type Line = (NodeName, Series, Vec<(u64, Reading)>);

/// A past in memory. It gives it hour by hour, as a store does, and writes down what it was asked for.
#[derive(Default)]
struct Hand {
    lines: Vec<Line>,
    asked: Mutex<Vec<String>>,
}

impl Ranges for Hand {
    fn range(&self, request: RangeRequest) -> Result<Box<dyn RangeAnswer>, RangeError> {
        let asked: Vec<String> = request.patterns.iter().map(ToString::to_string).collect();
        self.asked.lock().unwrap().push(asked.join(" "));
        let is_newest = request.shape == RangeShape::Newest;
        let mut parts = Vec::new();
        for (node, series, readings) in &self.lines {
            let is_selected = |pattern: &khz_model::Pattern| {
                pattern.matches_node(node.as_str())
                    && pattern.matches_series(&series.metric.name, series.instance.as_ref())
            };
            if !request.patterns.iter().any(is_selected) {
                continue;
            }
            let rows = readings.iter().map(|(ms, reading)| (stamp(*ms), *reading));
            let rows: Vec<_> =
                rows.filter(|(stamp, _)| (request.from..request.to).contains(&stamp.real())).collect();
            if let RangeShape::Points(_) = request.shape {
                parts.extend(one_point(&rows).map(|point| RangePart {
                    node: node.clone(),
                    series: series.clone(),
                    step: request.from,
                    shift: 0,
                    content: RangeContent::Points(vec![point]),
                    labels: Vec::new(),
                }));
                continue;
            }
            let chunks: Vec<Vec<(Stamp, Reading)>> = match is_newest {
                true => rows.last().map(|row| vec![*row]).into_iter().collect(),
                false => rows
                    .chunk_by(|one, two| hour(one.0) == hour(two.0))
                    .map(<[(Stamp, Reading)]>::to_vec)
                    .collect(),
            };
            for rows in chunks {
                let step = if is_newest { request.from } else { Nanos(hour(rows[0].0)) };
                let labels = rows.iter().filter_map(|(_, reading)| reading.labels()).collect();
                let content = RangeContent::Readings(rows);
                parts.push(RangePart {
                    node: node.clone(),
                    series: series.clone(),
                    step,
                    shift: 0,
                    content,
                    labels,
                });
            }
        }
        parts.sort_by_key(|part| (part.step, part.node.clone(), part.series.to_string()));
        Ok(Box::new(Parts(parts.into_iter())))
    }
}

/// What some rows did; only that they had values, and when, is right.
fn one_point(rows: &[(Stamp, Reading)]) -> Option<RangePoint> {
    let bits = |(stamp, reading): &(Stamp, Reading)| match reading {
        Reading::Present(bits) => Some((stamp.real(), *bits)),
        Reading::Labels(number) => Some((stamp.real(), *number)),
        _ => None,
    };
    let values: Vec<(Nanos, u64)> = rows.iter().filter_map(bits).collect();
    let (first, last) = (*values.first()?, *values.last()?);
    let zero = RangeTotal::Exact(0);
    Some(RangePoint {
        begin: first.0,
        count: values.len() as u64,
        first,
        last,
        lowest: 0,
        highest: 0,
        sum: zero,
        resets: 0,
        changes: 0,
        correction: zero,
    })
}

struct Parts(std::vec::IntoIter<RangePart>);

impl RangeAnswer for Parts {
    fn next(&mut self) -> Result<Option<RangePart>, RangeError> {
        Ok(self.0.next())
    }
}

fn stamp(ms: u64) -> Stamp {
    Stamp { boot: Nanos(ms * 1_000_000 + 999_999), real_offset: 0 }
}

fn hour(stamp: Stamp) -> u64 {
    stamp.real().0 / (HOUR * 1_000_000)
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn alone(name: &str, exposed: &str) -> Metric {
    Metric::plain(name.to_owned(), exposed.to_owned(), Kind::Gauge, Unit::Count)
}

fn series(metric: &Metric, instance: Option<&str>) -> Series {
    let instance = instance.map(|text| Instance::parse(text).unwrap());
    Series { metric: Arc::new(metric.clone()), instance }
}

fn load() -> Metric {
    Metric { places: 2, ..alone("load.1m", "node_load1") }
}

fn received() -> Metric {
    alone("net.rx_bytes", "node_network_receive_bytes_total").of_instances("device")
}

fn mode(name: &'static str, mode: &'static str) -> Metric {
    let mut metric = Metric { places: 2, ..alone(name, "node_cpu_seconds_total").of_instances("cpu") };
    metric.exposition.labels = vec![("mode".into(), mode.into())].into();
    metric
}

fn uname() -> Metric {
    Metric { value_type: ValueType::Labels, ..alone("host.uname", "node_uname_info") }
}

/// Rows from one time to another, by one second, of this value.
fn each_second(from: u64, to: u64, value: u64) -> Vec<(u64, Reading)> {
    (from..=to).step_by(1_000).map(|ms| (ms, Reading::Present(value))).collect()
}

fn source(lines: Vec<Line>, now: u64) -> (PastSource, Arc<Hand>) {
    let mut metrics: Vec<Arc<Metric>> = Vec::new();
    for (_, series, _) in &lines {
        if !metrics.iter().any(|known| known.name == series.metric.name) {
            metrics.push(series.metric.clone());
        }
    }
    let hand = Arc::new(Hand { lines, asked: Mutex::default() });
    let roster = vec![(node("dead"), Some(Nanos(5_000_000_000))), (node("n1"), None)];
    let known = Known {
        metrics,
        job: "node".into(),
        now: Nanos(now * 1_000_000),
        roster: Roster::Listed(roster),
        owners: Vec::new(),
    };
    (PastSource::new(hand.clone(), known), hand)
}

#[derive(Default)]
struct Collected(Vec<(LabelSet, Vec<(i64, f64)>)>);

impl Sink for Collected {
    fn series(&mut self, labels: LabelSet) -> Result<SeriesId, QueryError> {
        self.0.push((labels, Vec::new()));
        Ok(SeriesId(self.0.len() - 1))
    }

    fn samples(&mut self, series: SeriesId, times: &[i64], values: &[f64]) -> Result<(), QueryError> {
        let all = &mut self.0[series.0].1;
        for (time, value) in times.iter().zip(values) {
            assert!(all.last().is_none_or(|(last, _)| last < time), "samples are in order, each time once");
            all.push((*time, *value));
        }
        Ok(())
    }
}

fn shown(labels: &LabelSet) -> String {
    let others: Vec<String> = labels
        .iter()
        .filter(|(name, _)| &***name != METRIC_NAME)
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    format!("{}{{{}}}", labels.get(METRIC_NAME), others.join(","))
}

fn matchers(conditions: &[(&str, &str, &str)]) -> Vec<Matcher> {
    conditions
        .iter()
        .map(|(name, operator, value)| Matcher::new(name, operator, value).unwrap().unwrap())
        .collect()
}

/// The samples of some series after 0: `time:value`, `x` where the series ends.
fn samples(source: &PastSource, to: i64, conditions: &[(&str, &str, &str)]) -> BTreeMap<String, String> {
    samples_between(source, (0, to), conditions)
}

/// The same after another time.
fn samples_between(
    source: &PastSource,
    (after, to): (i64, i64),
    conditions: &[(&str, &str, &str)],
) -> BTreeMap<String, String> {
    let window = to - after;
    let wanted = Selection {
        matchers: matchers(conditions),
        after,
        to,
        step: 0,
        window,
        last_only: false,
        summaries: Summaries::Nowhere,
    };
    let mut all = Collected::default();
    source.select(&wanted, &mut all).unwrap();
    let text = |(time, value): &(i64, f64)| match is_stale(*value) {
        true => format!("{time}:x"),
        false => format!("{time}:{value}"),
    };
    let count = all.0.len();
    let map: BTreeMap<String, String> = all
        .0
        .iter()
        .map(|(labels, samples)| (shown(labels), samples.iter().map(text).collect::<Vec<_>>().join(" ")))
        .collect();
    assert_eq!(map.len(), count, "no label set is there twice");
    map
}

/// The series that a listing has of this time, in order.
fn listed(source: &PastSource, (after, to): (i64, i64), conditions: &[(&str, &str, &str)]) -> Vec<String> {
    let (all, is_cut) = source.series(&matchers(conditions), after, to, 100).unwrap();
    assert!(!is_cut);
    let mut all: Vec<String> = all.iter().map(shown).collect();
    all.sort();
    all
}

const NAME: &str = METRIC_NAME;

fn only(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, samples)| ((*name).to_owned(), (*samples).to_owned())).collect()
}

#[test]
fn a_reading_is_the_number_that_metrics_prints_with_the_same_labels() {
    let mut pages = alone("vm.page_in_bytes", "node_vmstat_pgpgin");
    pages.exposition.divisor = 1_024;
    let reading = |value| vec![(1_500, Reading::Present(value))];
    let (source, _) = source(
        vec![
            (node("n1"), series(&load(), None), reading(52)),
            (node("n1"), series(&pages, None), reading(1_536)),
            (node("n1"), series(&received(), Some("eth0,instance=x")), reading(u64::MAX)),
            (node("n1"), series(&mode("cpu.user", "user"), Some("0")), reading(1_234_567_890_123_456_789)),
        ],
        9_000,
    );
    let ask = |name| samples(&source, 9_000, &[(NAME, "=", name)]);
    assert_eq!(ask("node_load1"), only(&[("node_load1{instance=n1,job=node}", "1500:0.52")]));
    assert_eq!(ask("node_vmstat_pgpgin"), only(&[("node_vmstat_pgpgin{instance=n1,job=node}", "1500:1.5")]));
    assert_eq!(
        ask("node_network_receive_bytes_total"),
        only(&[(
            "node_network_receive_bytes_total{device=eth0,exported_instance=x,instance=n1,job=node}",
            "1500:18446744073709552000"
        )])
    );
    assert_eq!(
        ask("node_cpu_seconds_total"),
        only(&[("node_cpu_seconds_total{cpu=0,instance=n1,job=node,mode=user}", "1500:12345678901234568")])
    );
    assert_eq!(ask("nothing"), only(&[]));
}

#[test]
fn our_own_name_answers_to_itself_alone_and_in_our_own_unit() {
    let mut pages = alone("vm.page_in_bytes", "node_vmstat_pgpgin");
    pages.exposition.divisor = 1_024;
    let one = |metric: &Metric, instance| {
        (node("n1"), series(metric, instance), vec![(1_500, Reading::Present(1_536))])
    };
    let (source, _) = source(vec![one(&pages, None), one(&received(), Some("eth0"))], 9_000);
    let ask = |operator, name| samples(&source, 9_000, &[(NAME, operator, name)]);
    assert_eq!(ask("=", "vm.page_in_bytes"), only(&[("vm.page_in_bytes{instance=n1}", "1500:1536")]));
    assert_eq!(ask("=", "net.rx_bytes"), only(&[("net.rx_bytes{device=eth0,instance=n1}", "1500:1536")]));
    assert_eq!(ask("=~", "vm.page_in_bytes|net.rx_bytes"), only(&[]));
    let all = ask("=~", ".+");
    assert!(all.keys().all(|name| !name.contains("net.rx") && !name.contains("vm.page")), "{all:?}");
    let listed = source.series(&matchers(&[(NAME, "!=", "")]), 0, 9_000, 100).unwrap().0;
    assert!(
        listed.iter().all(|labels| labels.get(NAME).starts_with("node_") || labels.get(NAME) == "up"),
        "{listed:?}"
    );
    let listed = source.series(&matchers(&[(NAME, "=", "net.rx_bytes")]), 0, 9_000, 100).unwrap().0;
    assert_eq!(listed.iter().map(shown).collect::<Vec<_>>(), ["net.rx_bytes{device=eth0,instance=n1}"]);
}

#[test]
fn a_slot_that_turns_absent_or_failed_ends_its_series_at_once_and_begins_again() {
    let present = Reading::Present(7);
    let rows = [
        present,
        Reading::Absent(Absence::InstanceGone),
        Reading::Absent(Absence::InstanceGone),
        present,
        Reading::Failed(Fault::Malformed),
        present,
    ];
    let rows = (1..).map(|second| second * 1_000).zip(rows).collect();
    let (source, _) = source(vec![(node("n1"), series(&received(), Some("eth0")), rows)], 6_500);
    assert_eq!(
        samples(&source, 9_000, &[("device", "=", "eth0")]).values().collect::<Vec<_>>(),
        [&"1000:7 2000:x 4000:7 5000:x 6000:7".to_owned()]
    );
}

#[test]
fn a_node_that_falls_silent_ends_its_series_and_no_series_ends_after_the_present() {
    let mut rows = each_second(1_000, 3_000, 1);
    rows.extend(each_second(20_000, 22_000, 2));
    let lines = || vec![(node("n1"), series(&load(), None), rows.clone())];
    let ask = |now| samples(&source(lines(), now).0, 60_000, &[(NAME, "=", "node_load1")]);
    let until = "1000:0.01 2000:0.01 3000:0.01 8000:x 20000:0.02 21000:0.02 22000:0.02";
    let name = "node_load1{instance=n1,job=node}";
    assert_eq!(ask(26_000), only(&[(name, until)]), "its next row may be on its way");
    assert_eq!(ask(90_000), only(&[(name, &format!("{until} 27000:x"))]));
    // A gap that is filled later heals.
    let mut filled = lines();
    filled[0].2 = each_second(1_000, 22_000, 1);
    let healed = samples(&source(filled, 26_000).0, 60_000, &[(NAME, "=", "node_load1")]);
    assert!(!healed[name].contains('x'), "{healed:?}");
}

#[test]
fn rows_of_a_slow_lane_are_not_taken_for_silence() {
    let rows = (1..6).map(|minute| (minute * 60_000, Reading::Present(minute))).collect();
    let (source, _) = source(vec![(node("n1"), series(&load(), None), rows)], 400_000);
    let all = samples(&source, 400_000, &[(NAME, "=", "node_load1")]);
    assert_eq!(all.values().next().unwrap(), "60000:0.01 120000:0.02 180000:0.03 240000:0.04 300000:0.05");
}

/// The newest sample of one series at a time (ms) with this look-back, if it has a value.
fn newest_at(source: &PastSource, at: i64, lookback: i64, name: &str) -> Option<String> {
    let all = samples_between(source, (at - lookback, at), &[(NAME, "=", name), ("instance", "=", "n1")]);
    let newest = all.values().next()?.rsplit(' ').next()?.to_owned();
    (!newest.ends_with(":x") && !newest.is_empty()).then_some(newest)
}

#[test]
fn a_series_that_has_ended_stays_ended_in_the_last_seconds_of_the_look_back() {
    for period in [400, 1_000, 10_000, 15_000, 20_000, 60_000, 99_000] {
        let times = (1..=40).map(|row| row * period);
        let rows = times.map(|ms| (ms, Reading::Present(1))).collect();
        let (source, _) = source(vec![(node("n1"), series(&load(), None), rows)], 10_000_000);
        let (last, silent) = (40 * period as i64, (3 * period as i64).max(5_000));
        for at in (last..last + 300_000).step_by(500) {
            for name in ["node_load1", "node_time_seconds"] {
                let is_there = newest_at(&source, at, 300_000, name).is_some();
                assert_eq!(is_there, at < last + silent, "{name} {period} {}", at - last);
            }
        }
    }
}

#[test]
fn the_rows_before_a_selection_are_asked_for_some_times_however_many_series_end_in_it() {
    for (nodes, expected) in [(3, 6), (100, 100)] {
        let lines = (0..nodes)
            .map(|n| (node(&format!("n{n}")), series(&load(), None), each_second(1_000, 99_000, 1)));
        let (source, hand) = source(lines.collect(), 1_000_000);
        // Only the last row of each is in it.
        let all = samples_between(&source, (98_500, 398_500), &[(NAME, "=", "node_load1")]);
        assert_eq!(all.len(), nodes);
        assert!(all.values().all(|samples| samples == "99000:0.01 104000:x"), "{all:?}");
        let asked = hand.asked.lock().unwrap().len();
        assert!(asked < expected, "{nodes}: {asked}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a node's period is, which rows are lost, and how long it was away before its last rows: where its series end does not
    /// depend on where a query begins, and a series that has ended does not come back without a new row.
    #[test]
    fn where_a_series_ends_does_not_depend_on_how_far_a_query_looks_back(
        period in prop_oneof![300u64..3_000, 3_000u64..40_000, 40_000u64..95_000],
        before in prop::collection::vec((0u8..10, 0u64..100), 12..40),
        away in prop_oneof![Just(0u64), 1_000u64..1_500_000],
        after in prop::collection::vec(0u64..100, 0..4),
        lookback in prop_oneof![Just(300_000i64), 20_000i64..600_000],
    ) {
        let mut times: Vec<u64> = Vec::new();
        let late = |number: usize, late: u64| 1_000_000 + number as u64 * period + period * late / 2_000;
        for (number, (lost, by)) in before.iter().enumerate() {
            if *lost > 0 {
                times.push(late(number, *by));
            }
        }
        prop_assume!(times.len() >= 8);
        times.extend(after.iter().enumerate().map(|(n, by)| late(before.len() + n, *by) + away));
        let last = *times.last().unwrap() as i64;
        let rows: Vec<_> = times.iter().map(|ms| (*ms, Reading::Present(1))).collect();
        let (source, _) = source(vec![(node("n1"), series(&load(), None), rows)], 100_000_000);
        // A query of everything says where it ends.
        let all = samples(&source, 90_000_000, &[(NAME, "=", "node_load1")]);
        let ended = all.values().next().unwrap().rsplit(' ').next().and_then(|sample| sample.strip_suffix(":x"));
        let ended: i64 = ended.map_or(i64::MAX, |time| time.parse().unwrap());
        for at in (last..last + lookback + 1_000).step_by(1_700) {
            let is_there = newest_at(&source, at, lookback, "node_load1").is_some();
            prop_assert_eq!(is_there, at < ended && at < last + lookback, "{} after the last row, ended {}", at - last, ended - last);
        }
    }
}

#[test]
fn several_rows_in_one_millisecond_are_one_sample_the_last_one() {
    struct Fast;
    impl Ranges for Fast {
        fn range(&self, request: RangeRequest) -> Result<Box<dyn RangeAnswer>, RangeError> {
            let at = |micros: u64| Stamp { boot: Nanos(micros * 1_000), real_offset: 0 };
            let part = |step, rows: &[(u64, u64)]| RangePart {
                node: node("n1"),
                series: series(&load(), None),
                step: Nanos(step),
                shift: 0,
                content: RangeContent::Readings(
                    rows.iter().map(|(micros, value)| (at(*micros), Reading::Present(*value))).collect(),
                ),
                labels: Vec::new(),
            };
            let is_load = request.patterns.iter().any(|pattern| pattern.matches_metric("load.1m"));
            let parts = [
                part(0, &[(5_100, 1), (5_200, 2), (6_000, 3), (6_100, 4)]),
                part(1, &[(6_900, 5), (7_000, 6)]),
            ];
            Ok(Box::new(Parts(parts.into_iter().filter(|_| is_load).collect::<Vec<_>>().into_iter())))
        }
    }
    let known = Known {
        metrics: vec![Arc::new(load())],
        job: "node".into(),
        now: Nanos(8_000_000),
        roster: Roster::Listed(Vec::new()),
        owners: Vec::new(),
    };
    let source = PastSource::new(Arc::new(Fast), known);
    let all = samples(&source, 100, &[(NAME, "=", "node_load1")]);
    assert_eq!(all.values().next().unwrap(), "5:0.02 6:0.05 7:0.06");
}

#[test]
fn labels_that_change_end_one_series_and_begin_another() {
    let release = |text| Labels::new([("release", text), ("nodename", "n1")]).unwrap();
    let (old, new) = (release("6.1"), release("6.18"));
    let labels = |labels: &Labels| Reading::Labels(labels.number());
    let rows = vec![
        (1_000, labels(&old)),
        (2_000, labels(&old)),
        (3_000, labels(&new)),
        (4_000, Reading::Absent(Absence::NotYet)),
        (5_000, labels(&old)),
    ];
    let (source, _) = source(vec![(node("n1"), series(&uname(), None), rows)], 5_500);
    assert_eq!(
        samples(&source, 9_000, &[(NAME, "=", "node_uname_info")]),
        only(&[
            ("node_uname_info{instance=n1,job=node,nodename=n1,release=6.1}", "1000:1 2000:1 3000:x 5000:1"),
            ("node_uname_info{instance=n1,job=node,nodename=n1,release=6.18}", "3000:1 4000:x"),
        ])
    );
    let only_old = samples(&source, 9_000, &[("release", "=~", "6.1")]);
    assert_eq!(only_old.len(), 1);
    // A listing has each of them that was in force in its time.
    let listed = |after, to, release| listed(&source, (after, to), &[("release", "=~", release)]);
    let [old, new] = ["6.1", "6.18"]
        .map(|release| format!("node_uname_info{{instance=n1,job=node,nodename=n1,release={release}}}"));
    assert_eq!(listed(0, 9_000, ".+"), [new.clone(), old.clone()]);
    assert_eq!(listed(0, 4_500, "6.1"), [old.as_str()], "it is not the newest");
    assert_eq!(listed(2_000, 4_500, ".+"), [new]);
    assert_eq!(listed(0, 2_000, ".+"), [old]);
}

#[test]
fn a_metric_that_changes_its_type_stays_one_series() {
    let float = Metric { value_type: ValueType::Float, places: 0, ..load() };
    let (source, _) = source(
        vec![
            (
                node("n1"),
                series(&load(), None),
                vec![(1_000, Reading::Present(50)), (3_000, Reading::Absent(Absence::NotYet))],
            ),
            (
                node("n1"),
                series(&float, None),
                vec![
                    (2_000, Reading::Present(0.25f64.to_bits())),
                    (3_000, Reading::Present(0.75f64.to_bits())),
                ],
            ),
        ],
        3_500,
    );
    let all = samples(&source, 9_000, &[(NAME, "=", "node_load1")]);
    assert_eq!(all, only(&[("node_load1{instance=n1,job=node}", "1000:0.5 2000:0.25 3000:0.75")]));
}

#[test]
fn a_series_has_the_labels_of_the_one_that_describes_it_at_that_time() {
    let description =
        Metric { value_type: ValueType::Labels, ..alone("top.process", "khz_top_info").of_instances("rank") };
    let ranked = Metric {
        labels_from: Some("top.process".into()),
        ..alone("top.cpu", "khz_top_cpu").of_instances("rank")
    };
    let process = |name| Reading::Labels(Labels::new([("command", name)]).unwrap().number());
    let (source, _) = source(
        vec![
            (
                node("n1"),
                series(&ranked, Some("1")),
                vec![(1_000, Reading::Present(90)), (2_000, Reading::Present(80))],
            ),
            (
                node("n1"),
                series(&description, Some("1")),
                vec![(1_000, process("cc")), (2_000, process("ld"))],
            ),
        ],
        2_500,
    );
    assert_eq!(
        samples(&source, 9_000, &[(NAME, "=", "khz_top_cpu")]),
        only(&[
            ("khz_top_cpu{command=cc,instance=n1,job=node,rank=1}", "1000:90 2000:x"),
            ("khz_top_cpu{command=ld,instance=n1,job=node,rank=1}", "2000:80"),
        ])
    );
    assert_eq!(
        listed(&source, (0, 9_000), &[(NAME, "=", "khz_top_cpu")]),
        ["cc", "ld"].map(|name| format!("khz_top_cpu{{command={name},instance=n1,job=node,rank=1}}"))
    );
}

/// Zeros from one time to another.
fn zeros(from: u64, to: u64, step: usize) -> String {
    (from..=to).step_by(step).map(|time| format!("{time}:0")).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_average_of_up_is_the_part_of_the_time_in_which_the_node_was_there_whatever_its_rate() {
    for (period, step) in
        [(1, 1_000), (10, 1_000), (700, 1_000), (800, 1_000), (1_000, 1_000), (999, 999), (10_000, 10_000)]
    {
        let minutes_up = (0..120_000).step_by(period).map(|ms| (1_000 + ms, Reading::Present(1))).collect();
        let (source, _) = source(vec![(node("n1"), series(&load(), None), minutes_up)], 241_000);
        let wanted = [(NAME, "=", "up"), ("instance", "=", "n1")];
        let all = &samples(&source, 240_999, &wanted)["up{instance=n1,job=node}"];
        let count = |value: &str| all.split(' ').filter(|sample| sample.ends_with(value)).count();
        let (ones, zeros) = (count(":1"), count(":0"));
        assert_eq!(ones, 120_000usize.div_ceil(step), "{period}");
        // From the end of the last row's time on the node may be late: three periods, five seconds at least.
        let silent = 120_000 - (3 * period).max(5_000);
        assert!(zeros.abs_diff(silent / step) <= 1, "{period}: {zeros}");
    }
    // A node that slows down while somebody watches, and is then lost: the last rows say how often it sends.
    let mut rows: Vec<_> = (1_000..3_000).step_by(10).map(|ms| (ms, Reading::Present(1))).collect();
    rows.extend([6_000, 9_000, 12_000].map(|ms| (ms, Reading::Present(1))));
    let (source, _) = source(vec![(node("n1"), series(&load(), None), rows)], 30_000);
    let all =
        &samples(&source, 90_000, &[(NAME, "=", "up"), ("instance", "=", "n1")])["up{instance=n1,job=node}"];
    assert!(all.ends_with(" 9000:1 12000:1 21000:0 24000:0 27000:0 30000:0"), "{all}");
}

#[test]
fn the_samples_of_up_do_not_depend_on_where_a_query_begins() {
    for period in [1, 7, 100, 250, 300, 700, 899, 900, 1_000, 1_100] {
        let rows = (0..20_000).step_by(period).map(|ms| (3_003 + ms, Reading::Present(1))).collect();
        let (source, _) = source(vec![(node("n1"), series(&load(), None), rows)], 23_000);
        let up = |after| {
            let wanted = [(NAME, "=", "up"), ("instance", "=", "n1")];
            samples_between(&source, (after, 22_000), &wanted).into_values().next().unwrap_or_default()
        };
        let all = up(0);
        let time_of = |sample: &str| sample.split(':').next().unwrap().parse::<i64>().unwrap();
        for after in (3_000..9_000).step_by(37).chain([3_999, 4_000, 4_001]) {
            let rest: Vec<_> = all.split(' ').filter(|sample| time_of(sample) > after).collect();
            assert_eq!(up(after), rest.join(" "), "{period} after {after}");
        }
    }
}

#[test]
fn zeros_of_up_are_as_frequent_as_rows_however_few_of_them_a_query_reads() {
    for period in [400u64, 1_000, 10_000, 60_000, 120_000] {
        let step = period.max(1_000) as i64;
        // Twenty rows, a silence of some periods, and one or more rows after it.
        let gap = 20 * period + 900_000;
        for rows_after in [1, 2, 9] {
            let times = (0..20).chain(0..rows_after).enumerate();
            let times = times.map(|(n, number)| 100_000 + number * period + if n < 20 { 0 } else { gap });
            let times: Vec<u64> = times.collect();
            let (last, end) = (times[19] as i64, times[20] as i64);
            let lines = vec![(
                node("n1"),
                series(&load(), None),
                times.iter().map(|ms| (*ms, Reading::Present(1))).collect(),
            )];
            let (source, _) = source(lines, *times.last().unwrap());
            for rows in 0..5 {
                let after = last - rows * period as i64 + period as i64 / 2 - 1;
                let wanted = [(NAME, "=", "up"), ("instance", "=", "n1")];
                let all = samples_between(&source, (after, end + 1), &wanted).into_values().next().unwrap();
                let sample = |text: &str| {
                    let (time, value) = text.split_once(':').unwrap();
                    (time.parse::<i64>().unwrap(), value == "0")
                };
                let zeros: Vec<i64> = all
                    .split(' ')
                    .map(sample)
                    .filter(|(_, is_zero)| *is_zero)
                    .map(|(time, _)| time)
                    .collect();
                let is_even = zeros.windows(2).all(|two| two[1] - two[0] == step);
                let count = (end - last) / step;
                assert!(is_even, "{period} {rows} {rows_after}: {zeros:?}");
                let late = (3 * step).max(5_000) / step + 1;
                assert!(
                    (count - late - 1..=count).contains(&(zeros.len() as i64)),
                    "{period} {rows} {rows_after}: {} of {count}",
                    zeros.len()
                );
            }
        }
    }
}

#[test]
fn a_silence_that_is_over_has_zeros_wherever_a_query_begins_and_ends_in_it() {
    for period in [1_000u64, 10_000, 60_000] {
        let gap = 20 * period + 900_000;
        let times = (0..20).map(|n| 100_000 + n * period);
        let times: Vec<u64> = times.chain((0..5).map(|n| 100_000 + 19 * period + gap + n * period)).collect();
        let (last, back) = (times[19] as i64, times[20] as i64);
        let lines = vec![(
            node("n1"),
            series(&load(), None),
            times.iter().map(|ms| (*ms, Reading::Present(1))).collect(),
        )];
        let (source, _) = source(lines, *times.last().unwrap());
        let silent = (3 * period as i64).max(5_000);
        for begin in (last + 1..back - 2).step_by(gap as usize / 40) {
            for length in [3 * period as i64, 100_000] {
                let end = (begin + length).min(back - 1);
                let wanted = [(NAME, "=", "up"), ("instance", "=", "n1")];
                let all =
                    samples_between(&source, (begin, end), &wanted).into_values().next().unwrap_or_default();
                let zeros = all.split(' ').filter(|sample| sample.ends_with(":0")).count() as i64;
                let time = end - begin.max(last + silent - 1);
                let expected = if time <= 0 { 0 } else { (time - 1).max(0) / period as i64 + 1 };
                assert!(
                    (expected - 1..=expected + 1).contains(&zeros),
                    "{period}: {begin} to {end} after {last}: {all}"
                );
            }
        }
    }
}

#[test]
fn a_node_that_was_away_when_the_selection_begins_is_down_from_there_on() {
    let lines = |period: u64, last: u64, first: u64| {
        let before = (0..=last).rev().step_by(period as usize).take(50).collect::<Vec<_>>();
        let rows = before.into_iter().rev().chain((first..first + 20 * period).step_by(period as usize));
        let rows: Vec<_> = rows.map(|ms| (ms, Reading::Present(1))).collect();
        vec![(node("n1"), series(&load(), None), rows)]
    };
    let up = |lines: Vec<Line>, (after, to)| {
        let (source, _) = source(lines, 10_000_000);
        let all = samples_between(&source, (after, to), &[(NAME, "=", "up"), ("instance", "=", "n1")]);
        all.into_values().next()
    };
    // Away since long before, back in the middle.
    let back = up(lines(1_000, 60_000, 2_000_500), (1_995_000, 2_002_000)).unwrap();
    assert_eq!(back, format!("{} 2000500:1 2001500:1", zeros(1_995_001, 2_000_499, 1_000)));
    let slow = up(lines(10_000, 60_000, 2_000_500), (1_960_000, 2_012_000)).unwrap();
    assert_eq!(slow, format!("{} 2000500:1 2010500:1", zeros(1_960_001, 2_000_499, 10_000)));
    let fast = up(lines(400, 60_000, 2_000_500), (1_997_000, 2_001_000)).unwrap();
    assert_eq!(fast, "1997001:0 1998001:0 1999001:0 2000001:0 2000500:1");
    // It fell silent just before: for five seconds nobody knows.
    let just = up(lines(1_000, 1_994_000, 2_001_000), (1_995_000, 2_002_500)).unwrap();
    assert_eq!(just, "1999000:0 2000000:0 2001000:1 2002000:1");
    // Rows without a gap, however slow; and a node that nobody knew before.
    let slow = up(lines(60_000, 1_990_000, 2_050_000), (2_000_000, 2_120_000)).unwrap();
    assert_eq!(slow, "2050000:1 2110000:1");
    let mut new = lines(1_000, 0, 2_000_500);
    new[0].2.remove(0);
    assert_eq!(up(new, (0, 2_001_000)).unwrap(), "2000500:1");
    // It is back, but after the selection.
    let away = up(lines(1_000, 60_000, 2_000_500), (1_000_000, 1_003_500)).unwrap();
    assert_eq!(away, "1000001:0 1001001:0 1002001:0 1003001:0");
    let soon = up(lines(1_000, 60_000, 2_000_500), (100_000, 110_000)).unwrap();
    assert_eq!(soon, zeros(100_001, 110_000, 1_000), "the rows before show its period");
    let mut one = lines(1_000, 60_000, 2_000_500);
    one[0].2.drain(..49);
    assert_eq!(up(one, (100_000, 110_000)), None, "its period may be long");
}

#[test]
fn the_rows_before_a_selection_are_asked_for_some_times_however_many_nodes_come_late() {
    let rows = || [each_second(1_000, 9_000, 1), each_second(2_000_000, 2_005_000, 1)].concat();
    let lines = (0..100).map(|n| (node(&format!("n{n}")), series(&load(), None), rows()));
    let (source, hand) = source(lines.collect(), 2_005_500);
    let all = samples_between(&source, (1_990_000, 2_005_500), &[(NAME, "=", "up")]);
    for n in 0..100 {
        assert!(all[&format!("up{{instance=n{n},job=node}}")].starts_with("1990001:0 1991001:0 "), "{n}");
    }
    assert!(hand.asked.lock().unwrap().len() < 40);
}

#[test]
fn a_node_with_one_row_is_down_when_the_hub_says_so() {
    let rows = vec![(2_000, Reading::Present(1))];
    let (source, _) = source(vec![(node("dead"), series(&load(), None), rows)], 8_000);
    assert_eq!(
        samples(&source, 9_000, &[(NAME, "=", "up")]),
        only(&[("up{instance=dead,job=node}", &*format!("2000:1 {}", zeros(5_000, 8_000, 1_000)))])
    );
}

#[test]
fn a_node_that_was_forgotten_is_not_down() {
    let rows = [each_second(1_000, 3_000, 1), each_second(40_000, 42_000, 1)].concat();
    let (source, _) = source(vec![(node("forgotten"), series(&load(), None), rows)], 90_500);
    let all = samples(&source, 90_000, &[(NAME, "=", "up"), ("instance", "=", "forgotten")]);
    let up = &all["up{instance=forgotten,job=node}"];
    let rows_and_gap =
        format!("1000:1 2000:1 3000:1 {} 40000:1 41000:1 42000:1", zeros(8_000, 39_999, 1_000));
    let after = up.strip_prefix(&rows_and_gap).unwrap_or_else(|| panic!("{up}"));
    assert!(!after.contains(":0") && after.split_whitespace().count() == 1, "one mark of the end: {after}");
}

#[test]
fn a_node_is_up_while_its_rows_come_and_its_clock_is_a_series() {
    let mut rows = each_second(1_000, 3_000, 1);
    rows.push((70_000, Reading::Present(1)));
    let (source, _) = source(vec![(node("n1"), series(&load(), None), rows)], 70_500);
    assert_eq!(
        samples(&source, 90_000, &[(NAME, "=", "up")]),
        only(&[
            ("up{instance=dead,job=node}", &*zeros(5_000, 70_500, 1_000)),
            (
                "up{instance=n1,job=node}",
                &*format!("1000:1 2000:1 3000:1 {} 70000:1", zeros(8_000, 69_999, 1_000))
            ),
        ])
    );
    assert_eq!(
        samples(&source, 90_000, &[(NAME, "=", "node_time_seconds"), ("instance", "=", "n1")]),
        only(&[(
            "node_time_seconds{instance=n1,job=node}",
            "1000:1.000999999 2000:2.000999999 3000:3.000999999 8000:x 70000:70.000999999"
        )])
    );
}

#[test]
fn only_what_can_be_meant_is_read() {
    let reading = || each_second(1_000, 2_000, 1);
    let (source, hand) = source(
        vec![
            (node("n1"), series(&load(), None), reading()),
            (node("n1"), series(&received(), Some("eth0")), reading()),
            (node("n1"), series(&mode("cpu.user", "user"), Some("0")), reading()),
            (node("n1"), series(&mode("cpu.idle", "idle"), Some("0")), reading()),
        ],
        2_500,
    );
    let asked = |conditions: &[(&str, &str, &str)]| {
        samples(&source, 9_000, conditions);
        std::mem::take(&mut *hand.asked.lock().unwrap())
    };
    assert_eq!(asked(&[(NAME, "=", "node_load1")]), ["load.1m"]);
    assert_eq!(asked(&[(NAME, "=", "node_load1"), ("instance", "=~", "n1|n2")]), ["n1,n2:load.1m"]);
    assert_eq!(asked(&[(NAME, "=", "node_load1"), ("instance", "=", "")]), [""; 0]);
    assert_eq!(asked(&[(NAME, "=", "node_load1"), ("job", "=", "other")]), [""; 0]);
    assert_eq!(
        asked(&[(NAME, "=", "node_cpu_seconds_total"), ("mode", "=", "idle"), ("cpu", "=", "0")]),
        ["cpu.idle[0]"]
    );
    assert_eq!(asked(&[(NAME, "=", "khz_job_queue")]), ["job.*"], "a job of the past may have had this name");
    assert_eq!(asked(&[(NAME, "=", "net.rx_bytes"), ("device", "=", "a]b")]), ["net.rx_bytes[a%5Db]"]);
    assert_eq!(
        asked(&[(NAME, "=", "up")]),
        ["khz.gather.cpu load.1m", "dead:khz.gather.cpu dead:load.1m"],
        "a node without a row may have had one before"
    );
    assert_eq!(
        asked(&[(NAME, "=", "up"), ("instance", "=", "n1")]),
        ["n1:khz.gather.cpu n1:load.1m"],
        "whose first row is in time"
    );
}

/// Rows of labels without an end; the newest is one row.
struct Endless {
    labels: Labels,
    is_newest: bool,
    given: u64,
}

impl Ranges for Endless {
    fn range(&self, request: RangeRequest) -> Result<Box<dyn RangeAnswer>, RangeError> {
        let is_newest = request.shape == RangeShape::Newest;
        Ok(Box::new(Endless { labels: self.labels.clone(), is_newest, given: 0 }))
    }
}

impl RangeAnswer for Endless {
    fn next(&mut self) -> Result<Option<RangePart>, RangeError> {
        const ROWS: u64 = 1 << 16;
        let (number, first) = (self.labels.number(), self.given * ROWS);
        self.given += 1;
        assert!(first < 1 << 24, "nobody wants so many rows");
        let row = Reading::Labels(number);
        let content = match self.is_newest {
            true => RangeContent::Readings(vec![(stamp(ROWS), row)]),
            false => {
                let times: Vec<u64> = (first..first + ROWS).map(|ms| ms * 1_000_000).collect();
                let runs = vec![RangeRun { rows: 0..ROWS as usize, state: row.state(), values: Some(0) }];
                let values = Arc::new(vec![number; ROWS as usize]);
                let piece = RangePiece { times: Arc::new(times.into()), runs, values };
                RangeContent::Column(RangeColumn { pieces: vec![piece] })
            }
        };
        let (node, series, step) = (node("n1"), series(&uname(), None), Nanos(first));
        let part = RangePart { node, series, step, content, labels: Vec::new(), shift: 0 };
        Ok((!self.is_newest || self.given == 1).then_some(part))
    }
}

#[test]
fn a_listing_of_labels_ends_however_many_rows_there_are() {
    let labels = Labels::new([("release", "6.1")]).unwrap();
    let (metrics, roster) = (vec![Arc::new(uname())], Roster::Listed(Vec::new()));
    let known = Known { metrics, job: "node".into(), now: Nanos(u64::MAX), roster, owners: Vec::new() };
    let source = PastSource::new(Arc::new(Endless { labels, is_newest: false, given: 0 }), known);
    assert_eq!(
        listed(&source, (0, i64::MAX / 1_000_000), &[(NAME, "=", "node_uname_info")]),
        ["node_uname_info{instance=n1,job=node,release=6.1}"]
    );
}

#[test]
fn a_listing_has_each_series_that_had_a_value_in_its_time_whatever_its_last_reading_is() {
    let states = [
        Reading::Absent(Absence::NoField),
        Reading::Absent(Absence::NoSource),
        Reading::Absent(Absence::InstanceGone),
        Reading::Failed(Fault::Unreadable),
    ];
    let mut lines = Vec::new();
    for (number, state) in states.into_iter().enumerate() {
        let rows = vec![(1_000, Reading::Present(7)), (2_000, state), (3_000, state)];
        lines.push((node("n1"), series(&received(), Some(&format!("eth{number}"))), rows));
    }
    // It never had one.
    let never = Reading::Absent(Absence::InstanceGone);
    lines.push((node("n1"), series(&received(), Some("lo")), vec![(1_000, never), (3_000, never)]));
    let (source, hand) = source(lines, 3_500);
    let name = (NAME, "=", "node_network_receive_bytes_total");
    let of = |device| format!("node_network_receive_bytes_total{{device={device},instance=n1,job=node}}");
    let all: Vec<String> = (0..4).map(|number| of(format!("eth{number}"))).collect();
    assert_eq!(listed(&source, (0, 9_000), &[name]), all);
    assert_eq!(listed(&source, (0, 9_000), &[name, ("device", "=~", "eth2|lo")]), [of("eth2".to_owned())]);
    assert_eq!(listed(&source, (1_500, 9_000), &[name]), [""; 0], "that was before");
    let asked = hand.asked.lock().unwrap();
    assert!(asked.iter().any(|asked| asked.contains("n1:net.rx_bytes[lo]")), "{asked:?}");
}

#[test]
fn a_listing_of_more_series_than_it_can_ask_for_goes_by_the_reason_of_their_absence() {
    let absent = |why| vec![(1_000, Reading::Present(1)), (2_000, Reading::Absent(why))];
    let count = 4_200;
    let mut lines: Vec<Line> = (0..count)
        .map(|n| (node(&format!("n{n}")), series(&load(), None), absent(Absence::InstanceGone)))
        .collect();
    // What few nodes lack is asked for all the same.
    lines.push((node("n1"), series(&received(), Some("eth0")), absent(Absence::NoField)));
    let (source, _) = source(lines, 2_500);
    let list = |name| source.series(&matchers(&[(NAME, "=~", name)]), 0, 9_000, 10_000).unwrap().0.len();
    assert_eq!(list("node_load1|node_network.*"), count + 1);
}

#[test]
fn a_listing_stops_at_its_limit_and_says_so() {
    let lines = (0..5).map(|n| (node(&format!("n{n}")), series(&load(), None), each_second(1_000, 2_000, 1)));
    let (source, _) = source(lines.collect(), 2_500);
    let list = |limit| source.series(&matchers(&[(NAME, "=", "node_load1")]), 0, 9_000, limit).unwrap();
    assert_eq!((list(5).0.len(), list(5).1), (5, false));
    assert_eq!((list(3).0.len(), list(3).1), (3, true));
}
