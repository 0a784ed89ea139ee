//! What rules have recorded, compared with a map in memory: over restarts, with and without a store; and what is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use khz_model::{ByteSize, Query, Rate};
use khz_past::PastSource;
use khz_promql::{
    METRIC_NAME, Matcher, QueryError, Selection, SeriesId, Sink, Source, Summaries, is_stale, stale,
};
use khz_store::range::{OpenRows, RangeReader};
use khz_store::{Keep, Store, StoreReader};
use proptest::prelude::*;

use super::*;
use crate::cluster::Settings;
use crate::query::HubQuery;

/// 2026-11-23T13:59:00 UTC (ms): some steps later another hour has begun.
const BEGIN: i64 = 1_795_442_340_000;

/// A hub that restarts.
struct Hub {
    folder: PathBuf,
    store: Option<Store>,
    cluster: Arc<Cluster>,
    starts: u8,
    /// How long rows are kept.
    raw: Nanos,
}

/// As long as anybody wants.
const LONG: Nanos = Nanos::from_secs(4_000 * 86_400);

impl Hub {
    fn new(has_store: bool) -> Self {
        Hub::keeping(LONG, has_store)
    }

    fn keeping(raw: Nanos, has_store: bool) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("khz-recorded-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let mut hub = Hub { folder, store: None, cluster: cluster(0), starts: 0, raw };
        if has_store {
            hub.start();
        }
        hub
    }

    fn start(&mut self) {
        let keep = Keep { size: ByteSize(1 << 40), raw: self.raw, minute: LONG, hour: LONG };
        let now = Nanos(BEGIN as u64 * 1_000_000);
        let (store, intake, damage) = Store::open(&self.folder, keep, now).expect("a store");
        assert!(damage.is_empty(), "{damage:?}");
        self.starts += 1;
        self.cluster = cluster(self.starts);
        self.cluster.log_to(intake);
        self.store = Some(store);
    }

    /// The hub is killed a second after its last row, and starts again.
    fn restart(&mut self, now: i64) {
        if self.store.is_some() {
            self.commit(now);
            // In this order: what the lanes hand over as they go is not committed.
            self.store = None;
            self.start();
        }
    }

    fn commit(&self, now: i64) {
        if let Some(store) = &self.store {
            store.commit(Nanos(now as u64 * 1_000_000)).expect("room");
        }
    }

    /// Some minutes later the log has become columns.
    fn compact(&self, now: i64) {
        self.commit(now);
        if let Some(store) = &self.store {
            store.seal();
            for later in 0..20u64 {
                let now = Nanos(now as u64 * 1_000_000 + later * 600_000_000_000);
                assert!(store.tick_compaction(now).expect("room").damage.is_empty());
            }
        }
    }

    fn query(&self) -> Arc<dyn Query> {
        let query = HubQuery::new(self.cluster.clone());
        Arc::new(match &self.store {
            None => query,
            Some(store) => {
                let open: Arc<dyn OpenRows> = self.cluster.clone();
                let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), open);
                query.remembering(Arc::new(reader))
            }
        })
    }

    fn source(&self) -> PastSource {
        PastSource::of(self.query(), "node".into(), Nanos(u64::MAX / 2))
    }

    fn append(&self, group: &str, time: i64, samples: &[(LabelSet, f64)]) -> Appended {
        RecordedSeries::new(self.cluster.clone()).append(group, time, samples).expect("room")
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn cluster(start: u8) -> Arc<Cluster> {
    let rate_max = Rate::from_hz(1_000).expect("a rate");
    Cluster::new(Settings { name: "hub".into(), history: ByteSize(64 << 20), rate_max }, [start + 1; 16])
}

/// What is found: by label set, each sample's time and bits; an end as `None`.
type Found = BTreeMap<LabelSet, Vec<(i64, Option<u64>)>>;

#[derive(Default)]
struct Collected(Vec<(LabelSet, Samples)>);

/// Times and bits; `None`: the series ends.
type Samples = Vec<(i64, Option<u64>)>;

impl Sink for Collected {
    fn series(&mut self, labels: LabelSet) -> Result<SeriesId, QueryError> {
        assert!(self.0.iter().all(|(known, _)| *known != labels), "{labels:?} begins twice");
        self.0.push((labels, Vec::new()));
        Ok(SeriesId(self.0.len() - 1))
    }

    fn samples(&mut self, series: SeriesId, times: &[i64], values: &[f64]) -> Result<(), QueryError> {
        let bits = values.iter().map(|value| (!is_stale(*value)).then_some(value.to_bits()));
        let all = &mut self.0[series.0].1;
        all.extend(times.iter().copied().zip(bits));
        assert!(all.is_sorted_by(|one, next| one.0 < next.0), "{all:?}");
        Ok(())
    }
}

fn found(source: &PastSource, matchers: &[Matcher], after: i64, to: i64) -> Found {
    let wanted = Selection {
        matchers: matchers.to_vec(),
        after,
        to,
        step: 0,
        window: to - after,
        last_only: false,
        summaries: Summaries::Nowhere,
    };
    let mut collected = Collected::default();
    assert_eq!(source.select(&wanted, &mut collected).expect("an answer"), [""; 0]);
    collected.0.into_iter().filter(|(_, samples)| !samples.is_empty()).collect()
}

fn labels(all: &[(&str, &str)]) -> LabelSet {
    LabelSet::new(all.iter().copied())
}

fn matcher(name: &str, operator: &str, value: &str) -> Matcher {
    Matcher::new(name, operator, value).expect("an operator").expect("an expression")
}

#[derive(Clone, Debug)]
enum Turn {
    /// A group is evaluated so much later (ms), with these series and values.
    Evaluate(usize, i64, BTreeMap<usize, u64>),
    Commit,
    Compact,
    Restart,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let value = prop_oneof![any::<u64>(), Just(0), (0u64..9).prop_map(|n| (n as f64).to_bits())];
    let series = prop::collection::btree_map(0usize..8, value, 0..8);
    let evaluate =
        (0usize..3, 1i64..40_000, series).prop_map(|(group, ms, all)| Turn::Evaluate(group, ms, all));
    let turn = prop_oneof![
        12 => evaluate, 1 => Just(Turn::Commit), 1 => Just(Turn::Compact), 1 => Just(Turn::Restart)
    ];
    prop::collection::vec(turn, 1..60)
}

/// The label set of a series of a group. Two of them are called as metrics of nodes are.
fn series_of(group: usize, number: usize) -> LabelSet {
    let name = ["job:x:rate5m", "ALERTS", "up", "node_load1"][number % 4];
    let (group, number) = (group.to_string(), number.to_string());
    labels(&[(METRIC_NAME, name), ("instance", "n1"), ("group", &group), ("n", &number)])
}

/// What the samples of a window are: an end counts only after a value.
fn within(all: &Found, after: i64, to: i64) -> Found {
    let cut = |samples: &Vec<(i64, Option<u64>)>| {
        let inside = samples.iter().filter(|(time, _)| *time > after && *time <= to);
        inside.skip_while(|(_, bits)| bits.is_none()).copied().collect::<Vec<_>>()
    };
    let cut = all.iter().map(|(labels, samples)| (labels.clone(), cut(samples)));
    cut.filter(|(_, samples)| !samples.is_empty()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn what_was_recorded_is_found_exactly_as_it_was_over_restarts(
        turns in turns(), has_store: bool, from in 0i64..600_000, length in 1i64..600_000,
    ) {
        let mut hub = Hub::new(has_store);
        let (mut now, mut all, mut alive) = (BEGIN, Found::new(), BTreeMap::<usize, BTreeSet<LabelSet>>::new());
        for turn in turns {
            match turn {
                Turn::Commit => hub.commit(now),
                Turn::Compact => hub.compact(now),
                Turn::Restart => {
                    hub.restart(now);
                    if has_store {
                        alive.clear();
                    }
                }
                Turn::Evaluate(group, later, values) => {
                    now += later;
                    let samples: Vec<(LabelSet, f64)> =
                        values.iter().map(|(number, bits)| (series_of(group, *number), f64::from_bits(*bits))).collect();
                    prop_assert_eq!(hub.append(&format!("file;{group}"), now, &samples), Appended::default());
                    let there: BTreeSet<LabelSet> =
                        samples.iter().filter(|(_, value)| !is_stale(*value)).map(|(labels, _)| labels.clone()).collect();
                    for (labels, value) in samples.into_iter().filter(|(_, value)| !is_stale(*value)) {
                        all.entry(labels).or_default().push((now, Some(value.to_bits())));
                    }
                    for gone in alive.entry(group).or_default().iter().filter(|labels| !there.contains(*labels)) {
                        all.entry(gone.clone()).or_default().push((now, None));
                    }
                    alive.insert(group, there);
                }
            }
        }
        let source = hub.source();
        let named = [matcher(METRIC_NAME, "=~", ".+")];
        prop_assert_eq!(found(&source, &named, 0, i64::MAX / 4), all.clone());
        let (after, to) = (BEGIN + from, BEGIN + from + length);
        prop_assert_eq!(found(&source, &named, after, to), within(&all, after, to));
        for (name, operator, value) in [
            (METRIC_NAME, "=", "up"), (METRIC_NAME, "=", "node_load1"), (METRIC_NAME, "=", "none"), ("n", "=", "3"), ("n", "!=", "3"),
            ("instance", "=", "n1"), ("job", "=", ""), ("job", "!=", ""), ("group", "=~", "1|2"),
        ] {
            let matchers = [matcher(METRIC_NAME, "!=", ""), matcher(name, operator, value)];
            let fits = |labels: &LabelSet| matchers.iter().all(|it| it.matches(labels.get(&it.name)));
            let expected: Found = within(&all, after, to).into_iter().filter(|(labels, _)| fits(labels)).collect();
            prop_assert_eq!(found(&source, &matchers, after, to), expected.clone());
            let (listed, is_cut) = source.series(&matchers, after, to, 1_000).expect("a list");
            let listed: BTreeSet<LabelSet> = listed.into_iter().collect();
            prop_assert_eq!((listed, is_cut), (expected.into_keys().collect(), false));
        }
        // No list of nodes has a group.
        let query = hub.query();
        prop_assert!(query.nodes().is_empty() && query.status().is_empty() && query.metrics().is_empty());
        prop_assert!(query.past_metrics().is_empty(), "{:?}", query.past_metrics());
        prop_assert!(all.is_empty() || !query.owners().is_empty());
    }
}

#[test]
fn a_series_goes_on_in_the_group_to_which_its_rule_has_moved() {
    for has_store in [false, true] {
        let hub = Hub::new(has_store);
        let one = labels(&[(METRIC_NAME, "a:b"), ("x", "1")]);
        for (group, second, value) in [("old", 0, 1.0), ("old", 15, 2.0), ("new", 30, 3.0), ("new", 45, 4.0)]
        {
            hub.append(group, BEGIN + second * 1_000, &[(one.clone(), value)]);
        }
        hub.append("old", BEGIN + 31_000, &[]);
        let all = found(&hub.source(), &[matcher(METRIC_NAME, "=", "a:b")], 0, i64::MAX / 4);
        let shown = |(time, bits): &(i64, Option<u64>)| ((time - BEGIN) / 1_000, bits.map(f64::from_bits));
        let shown: Vec<_> = all[&one].iter().map(shown).collect();
        let expected = [(0, Some(1.0)), (15, Some(2.0)), (30, Some(3.0)), (31, None), (45, Some(4.0))];
        assert_eq!(shown, expected, "{has_store}");
    }
}

#[test]
fn what_cannot_be_recorded_is_refused_and_the_rest_is_recorded() {
    let hub = Hub::new(false);
    let good = labels(&[(METRIC_NAME, "good"), ("x", "1")]);
    let long = "v".repeat(5_000);
    let samples = [
        (labels(&[("x", "1")]), 1.0),
        (good.clone(), 2.0),
        (good.clone(), 3.0),
        (labels(&[(METRIC_NAME, "long"), ("x", &long)]), 4.0),
        (labels(&[(METRIC_NAME, "odd"), ("__x", "1")]), 5.0),
    ];
    let Appended { refused, problem } = hub.append("g", BEGIN, &samples);
    assert_eq!(refused, 4);
    assert!(problem.expect("why").starts_with("a recorded series has a name"));
    let all = found(&hub.source(), &[matcher("x", "!=", "")], 0, i64::MAX / 4);
    assert_eq!(all, Found::from([(good, vec![(BEGIN, Some(2f64.to_bits()))])]));
    let writer = RecordedSeries::new(hub.cluster.clone());
    let refused = |group: &str, time| writer.append(group, time, &[]).expect_err("refused").to_string();
    let text = refused("g", BEGIN);
    assert!(text.starts_with(&format!(
        "the group g: its evaluation at {BEGIN} ms is not recorded: the one before was at {BEGIN} ms"
    )));
    assert!(refused("g", -1).contains("before 1970"));
    assert!(refused("", BEGIN).contains("1 to 4096 bytes"));
}

#[test]
fn series_that_are_gone_for_long_give_their_slots_up_and_the_others_stay() {
    let hub = Hub::new(true);
    let one = |round: i64, n: i64| {
        labels(&[(METRIC_NAME, "many"), ("round", &round.to_string()), ("n", &n.to_string())])
    };
    let stays = labels(&[(METRIC_NAME, "stays")]);
    for round in 0..50 {
        let time = BEGIN + round * 60_000;
        let mut samples: Vec<(LabelSet, f64)> = (0..20).map(|n| (one(round, n), n as f64)).collect();
        samples.insert(round as usize % 20, (stays.clone(), round as f64));
        assert_eq!(hub.append("g", time, &samples), Appended::default());
    }
    let slots = hub.cluster.recorded.series.load(Ordering::Relaxed);
    assert!(slots < 500, "{slots} slots for 21 series");
    hub.compact(BEGIN + 50 * 60_000);
    assert!(hub.query().reach().rows > Nanos(0), "they are columns");
    let source = hub.source();
    let all = found(&source, &[matcher(METRIC_NAME, "=", "stays")], 0, i64::MAX / 4);
    let expected: Vec<_> = (0..50).map(|n| (BEGIN + n * 60_000, Some((n as f64).to_bits()))).collect();
    assert_eq!(all[&stays], expected);
    let all = found(&source, &[matcher(METRIC_NAME, "=", "many")], 0, i64::MAX / 4);
    assert_eq!(all.len(), 1_000);
    for (labels, samples) in &all {
        let round: i64 = labels.get("round").parse().expect("a number");
        let (n, time) = (labels.get("n").parse::<f64>().expect("a number"), BEGIN + round * 60_000);
        let end = (round < 49).then_some((time + 60_000, None));
        let expected: Vec<_> = [(time, Some(n.to_bits()))].into_iter().chain(end).collect();
        assert_eq!(samples, &expected, "{labels:?}");
    }
}

#[test]
fn where_rows_are_gone_roll_ups_answer_for_what_was_recorded() {
    let hub = Hub::keeping(Nanos::from_secs(3_600), true);
    let often = labels(&[(METRIC_NAME, "a:often"), ("x", "1")]);
    let rarely = labels(&[(METRIC_NAME, "a:rarely"), ("x", "2")]);
    // From the begin of an hour on.
    let begin = BEGIN + 60_000;
    let (store, clock) = (hub.store.as_ref().expect("a store"), |ms: i64| Nanos(ms as u64 * 1_000_000));
    let compact = |now: i64, ticks: i64| {
        hub.cluster.hand_over(Nanos(0));
        hub.commit(now);
        store.seal();
        for _ in 0..ticks {
            let tick = store.tick_compaction(clock(now)).expect("room");
            assert!(tick.damage.is_empty(), "{:?}", tick.damage);
        }
    };
    for turn in 0..4 * 240i64 {
        let now = begin + turn * 15_000 + 3;
        hub.append("often", now, &[(often.clone(), turn as f64)]);
        if turn % 16 == 0 {
            hub.append("rarely", now + 1, &[(rarely.clone(), 1.0)]);
        }
        if turn % 40 == 39 {
            compact(now, 20);
        }
    }
    compact(begin + 4 * 3_600_000 + 600_000, 60);
    let source = hub.source();
    assert_eq!(hub.query().reach().rows, clock(begin + 3 * 3_600_000));
    let engine = khz_promql::Engine::default();
    let value = |query: &str, at: i64| match engine.query(&source, query, at).expect("an answer").value {
        khz_promql::Value::Vector(found) => found.iter().map(|one| one.value).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let end = begin + 2 * 3_600_000 - 1;
    assert_eq!(value("count_over_time(a:often{x=\"1\"}[1h])", end), [240.0]);
    assert_eq!(value("sum_over_time(a:often[1h])", end), [(240..480).sum::<i64>() as f64]);
    assert_eq!(value("max_over_time({__name__=~\"a:.*\"}[1h])", end), [479.0, 1.0]);
    // Another process lists groups as such, and finds nothing wrong.
    let reader = || StoreReader::open(&hub.folder).expect("a store");
    assert_eq!(reader().check().expect("a check").len(), 0);
    let (files, log) = (reader().shelf().clone(), reader().log());
    let inventory = RangeReader::new(files, Some(log), Arc::new(())).inventory();
    assert!(inventory.nodes.is_empty() && inventory.metrics.is_empty() && inventory.damage.is_empty());
    let owners = ["often", "rarely"].map(NodeName::of_group);
    assert_eq!(inventory.owners.into_iter().collect::<Vec<_>>(), owners);
    // Each fourth minute has an evaluation, and the look-back is longer.
    for minute in 0..60 {
        assert_eq!(value("a:rarely", begin + minute * 60_000 + 5), [1.0], "minute {minute}");
    }
}

#[test]
fn too_many_groups_are_refused_and_one_that_is_silent_makes_room() {
    let hub = Hub::new(false);
    let writer = RecordedSeries::new(hub.cluster.clone());
    let one = [(labels(&[(METRIC_NAME, "a")]), 1.0)];
    for n in 0..GROUPS_MAX as i64 {
        hub.append(&n.to_string(), BEGIN + n, &one);
    }
    let error = writer.append("more", BEGIN + 60_000, &one).expect_err("refused");
    assert_eq!(error, RecordError::Groups("more".into()));
    hub.append("more", BEGIN + GROUP_SILENT_KEPT + 1, &one);
    let owners = hub.cluster.recorded.owners();
    assert_eq!(
        (hub.cluster.recorded.len(), owners.len()),
        (GROUPS_MAX, GROUPS_MAX + 1),
        "its past stays known"
    );
    assert!(owners.contains(&NodeName::of_group("more")) && owners.contains(&NodeName::of_group("0")));
    assert!(hub.cluster.recorded.blocks(&NodeName::of_group("0")).is_none());
    assert_eq!(hub.cluster.recorded.series.load(Ordering::Relaxed), GROUPS_MAX);
    hub.append("more", BEGIN + GROUP_SILENT_KEPT + 2, &[(one[0].0.clone(), stale())]);
}
