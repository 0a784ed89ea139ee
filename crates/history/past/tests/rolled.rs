//! Queries over the files of a real store: what roll-ups answer is the same as what rows do, where rows are left; where they are
//! gone, it is as near as minutes are.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use khz_model::metric::{Kind, Unit};
use khz_model::reading::LABELS_STATE;
use khz_model::{
    Absence, Labels, Metric, Nanos, NodeName, QueryError as RangeError, RangeAnswer, RangeRequest, Ranges,
    Reading, Series, Stamp, ValueType,
};
use khz_past::{Known, PastSource, Roster};
use khz_promql::{Engine, Limits, METRIC_NAME, Matcher, Source, Value};
use khz_store::range::RangeReader;
use khz_store::{ColumnFile, NodeRows, StoreReader, roll_up, write_rows};
use proptest::test_runner::{RngAlgorithm, TestRng};

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600 * SECOND;
/// 2025-11-01, a midnight.
const BEGIN: u64 = 1_761_955_200 * SECOND;
const HOURS: u64 = 30;
/// Rows of the first hours are removed.
const GONE: u64 = 14;
/// From row to row: seven seconds, so that rows stand at each place of their minutes.
const PERIOD: u64 = 7 * SECOND;

/// What a steady counter rises by from row to row.
const STEADY: u64 = 70;

/// A past that hides that it has roll-ups.
struct RowsOnly(RangeReader);

impl Ranges for RowsOnly {
    fn range(&self, request: RangeRequest) -> Result<Box<dyn RangeAnswer>, RangeError> {
        self.0.range(request)
    }
}

fn metrics() -> Vec<Metric> {
    let plain =
        |name: &'static str, exposed: &'static str, kind| Metric::plain(name, exposed, kind, Unit::Count);
    vec![
        plain("app.requests", "app_requests_total", Kind::Counter),
        Metric { places: 2, value_type: ValueType::Signed, ..plain("app.depth", "app_depth", Kind::Gauge) },
        plain("app.rare", "app_rare", Kind::Gauge),
        Metric { value_type: ValueType::Labels, ..plain("app.build", "app_build_info", Kind::Gauge) },
        plain("load.1m", "node_load1", Kind::Gauge),
        plain("app.steady", "app_steady_total", Kind::Counter),
    ]
}

/// Numbers that are the same in every run.
struct Random(TestRng);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        use proptest::prelude::Rng;
        self.0.next_u64() % limit
    }
}

/// The rows of some hours of two nodes: a counter with resets, a gauge that is negative at times, a series that is mostly absent,
/// labels that change. One node is away for two hours, and for some minutes now and then.
fn write(folder: &Path, random: &mut Random) {
    let columns: Arc<Vec<Series>> = Arc::new(
        metrics().into_iter().map(|metric| Series { metric: Arc::new(metric), instance: None }).collect(),
    );
    let builds: Vec<Labels> =
        (0..3).map(|n| Labels::new([("version", &*format!("v{n}"))]).unwrap()).collect();
    let mut counters = [5u64, 1_000_000];
    for tier in ["raw", "minute", "hour", "log"] {
        fs::create_dir_all(folder.join(tier)).unwrap();
    }
    let mut hours = Vec::new();
    for hour in 0..HOURS {
        let mut nodes = Vec::new();
        for (number, counter) in counters.iter_mut().enumerate() {
            if number == 1 && (5..7).contains(&hour) {
                continue;
            }
            let mut rows = NodeRows::new();
            rows.columns(&(columns.clone() as Arc<_>)).unwrap();
            let mut row = 0;
            while row < HOUR / PERIOD {
                let at = BEGIN + hour * HOUR + row * PERIOD + PERIOD / 2 + 123_456;
                *counter = if random.below(300) == 0 { random.below(9) } else { *counter + random.below(50) };
                let depth = random.below(900).cast_signed() - 200;
                let rare = if random.below(9) == 0 { 0 } else { Reading::Absent(Absence::NoField).state() };
                let build = &builds[(hour as usize / 4) % 3];
                let states = [0, 0, rare, LABELS_STATE, 0, 0];
                let rare = if rare == 0 { random.below(5) } else { 0 };
                let values = [
                    *counter,
                    depth.cast_unsigned(),
                    rare,
                    build.number(),
                    1,
                    STEADY * (hour * (HOUR / PERIOD) + row),
                ];
                let stamp = Stamp { boot: Nanos(at - BEGIN), real_offset: BEGIN.cast_signed() };
                rows.row(stamp, &states, &values).unwrap();
                row += if number == 1 && random.below(200) == 0 { 60 } else { 1 };
            }
            nodes.push((NodeName::new(&format!("n{number}")).unwrap(), rows));
        }
        let path = folder.join(format!("raw/2025-11-{:02}T{:02}.0.col", 1 + hour / 24, hour % 24));
        write_rows(&path, nodes).unwrap();
        hours.push(path);
    }
    let open = |paths: &[PathBuf]| -> Vec<ColumnFile> {
        let layouts = Arc::default();
        paths.iter().map(|path| ColumnFile::open(path, &layouts).unwrap()).collect()
    };
    let mut days = Vec::new();
    for (day, hours) in hours.chunks(24).enumerate() {
        let path = folder.join(format!("minute/2025-11-{:02}.0.col", 1 + day));
        roll_up(&path, &open(hours), Nanos(60 * SECOND)).unwrap();
        days.push(path);
    }
    roll_up(&folder.join("hour/2025-11.0.col"), &open(&days), Nanos(HOUR)).unwrap();
}

struct World {
    /// Every row, and no roll-up.
    rows: PastSource,
    /// Every row, and roll-ups.
    both: PastSource,
    /// Minutes of the first hours, rows of the others.
    minutes: PastSource,
    /// Hours of the first hours, rows of the others.
    hours: PastSource,
}

fn world(seed: u8) -> World {
    let mut random = Random(TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("past-rolled-{seed}"));
    let _ = fs::remove_dir_all(&folder);
    let paths = ["whole", "minutes", "hours"].map(|name| folder.join(name));
    write(&paths[0], &mut random);
    let copy = |from: &Path, to: &Path, is_kept: &dyn Fn(&str) -> bool| {
        for tier in ["raw", "minute", "hour", "log"] {
            fs::create_dir_all(to.join(tier)).unwrap();
            for entry in fs::read_dir(from.join(tier)).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                if is_kept(&format!("{tier}/{name}")) {
                    fs::copy(entry.path(), to.join(tier).join(name)).unwrap();
                }
            }
        }
    };
    let is_late = |name: &str| !name.starts_with("raw/") || *name >= *format!("raw/2025-11-01T{GONE:02}");
    copy(&paths[0], &paths[1], &is_late);
    copy(&paths[1], &paths[2], &|name| name != "minute/2025-11-01.0.col");
    let reader = |path: &Path| {
        let store = StoreReader::open(path).unwrap();
        RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()))
    };
    World {
        rows: PastSource::new(Arc::new(RowsOnly(reader(&paths[0]))), known()),
        both: PastSource::new(Arc::new(reader(&paths[0])), known()),
        minutes: PastSource::new(Arc::new(reader(&paths[1])), known()),
        hours: PastSource::new(Arc::new(reader(&paths[2])), known()),
    }
}

fn known() -> Known {
    Known {
        metrics: metrics().into_iter().map(Arc::new).collect(),
        job: "node".into(),
        now: Nanos(BEGIN + (HOURS + 1) * HOUR),
        roster: Roster::Listed(["n0", "n1"].map(|node| (NodeName::new(node).unwrap(), None)).into()),
        owners: Vec::new(),
    }
}

type Found = Vec<(String, Vec<(i64, f64)>)>;

/// The series of an answer, by their labels.
fn ask(source: &PastSource, text: &str, (from, to, step): (i64, i64, i64)) -> Found {
    let engine = Engine::new(Limits::default());
    let answer =
        engine.query_range(source, text, from, to, step).unwrap_or_else(|error| panic!("{text}: {error}"));
    let Value::Matrix(series) = answer.value else { panic!("{text} is no matrix") };
    let mut all: Found =
        series.into_iter().map(|series| (format!("{:?}", series.labels), series.samples)).collect();
    all.sort_by(|one, two| one.0.cmp(&two.0));
    all
}

fn is_near(one: f64, two: f64, share: f64) -> bool {
    one == two || (one - two).abs() <= share * one.abs().max(two.abs()).max(1e-9)
}

fn compare(text: &str, expected: &Found, found: &Found, share: f64) {
    let shape = |all: &Found| -> Vec<(String, Vec<i64>)> {
        all.iter()
            .map(|(labels, samples)| (labels.clone(), samples.iter().map(|one| one.0).collect()))
            .collect()
    };
    assert_eq!(shape(expected), shape(found), "{text}");
    for ((labels, expected), (_, found)) in expected.iter().zip(found) {
        for ((time, one), (_, two)) in expected.iter().zip(found) {
            assert!(
                is_near(*one, *two, share),
                "{text} {labels} at {time}: {one} of rows, {two} of roll-ups"
            );
        }
    }
}

const FUNCTIONS: [&str; 13] = [
    "count_over_time",
    "sum_over_time",
    "avg_over_time",
    "min_over_time",
    "max_over_time",
    "last_over_time",
    "first_over_time",
    "present_over_time",
    "changes",
    "resets",
    "rate",
    "increase",
    "delta",
];
const NAMES: [&str; 4] =
    ["app_requests_total", "app_depth", "app_rare", "app_requests_total{instance=\"n1\"}"];
/// What is made of the times of rows.
const DERIVED: [&str; 2] = ["up", "node_time_seconds"];

#[test]
fn where_rows_are_left_roll_ups_give_the_same_result() {
    let world = world(1);
    let mut random = Random(TestRng::from_seed(RngAlgorithm::ChaCha, &[9; 32]));
    let begin = (BEGIN / 1_000_000) as i64;
    for turn in 0..150 {
        let function = FUNCTIONS[random.below(13) as usize];
        let names: Vec<&str> = NAMES.into_iter().chain(DERIVED).collect();
        let name = names[random.below(names.len() as u64) as usize];
        // Bounds on whole hours, on whole seconds, and anywhere.
        let unit = [3_600_000, 1_000, 1][random.below(3) as usize];
        let minutes = |random: &mut Random, most: u64| (random.below(most * 60_000) / unit * unit) as i64;
        let window = minutes(&mut random, 1_700).max(60_000);
        let from = begin + minutes(&mut random, 1_700);
        let (steps, step) = (random.below(4) as i64, 4 * 3_600_000 + minutes(&mut random, 300));
        let text = format!("{function}({name}[{window}ms])");
        let time = (from, from + steps * step, step);
        let expected = ask(&world.rows, &text, time);
        compare(&format!("{turn}: {text} {time:?}"), &expected, &ask(&world.both, &text, time), 1e-11);
    }
}

#[test]
fn where_rows_are_gone_whole_minutes_give_the_same_result() {
    let world = world(2);
    let begin = (BEGIN / 1_000_000) as i64;
    let minute = 60_000;
    for function in FUNCTIONS {
        for name in NAMES {
            for window in [5, 61, 300] {
                let text = format!("{function}({name}[{window}m])");
                for time in [
                    (begin + 400 * minute, begin + 500 * minute, 7 * minute),
                    // Over the end of what is gone.
                    (
                        begin + (GONE as i64 * 60 - 90) * minute,
                        begin + (GONE as i64 * 60 + 200) * minute,
                        5 * minute,
                    ),
                    (begin + 1_200 * minute, begin + 1_700 * minute, 50 * minute),
                ] {
                    compare(&text, &ask(&world.rows, &text, time), &ask(&world.minutes, &text, time), 1e-11);
                }
            }
            for window in [1, 5] {
                let text = format!("{function}({name}[{window}h])");
                let hour = 60 * minute;
                let time = (begin + 6 * hour, begin + 20 * hour, hour);
                compare(&text, &ask(&world.rows, &text, time), &ask(&world.hours, &text, time), 1e-11);
            }
        }
    }
}

#[test]
fn the_average_of_up_is_a_share_of_time_wherever_a_range_begins() {
    let world = world(9);
    let (begin, minute) = ((BEGIN / 1_000_000) as i64, 60_000);
    // The second node is away from the fifth hour to the seventh one.
    let (away, back) = (begin + 300 * minute, begin + 420 * minute);
    for source in [&world.rows, &world.both, &world.minutes, &world.hours] {
        for before in -3..12 {
            let (from, at) = (away - before * minute, back + 30 * minute);
            let text = format!("avg_over_time(up{{instance=\"n1\"}}[{}m])", (at - from) / minute);
            let found = ask(source, &text, (at, at, minute));
            let up = (before.max(0) + 30) as f64 / ((at - from) / minute) as f64;
            // A node that falls silent counts as up for some periods more: three minutes where there are only minutes. After the two
            // hours it is away for seven minutes once.
            let (late, hole) = (4.0 / ((at - from) / minute) as f64, 8.0 / ((at - from) / minute) as f64);
            let share = found[0].1[0].1;
            assert!((up - hole..up + late + 0.01).contains(&share), "{text}: {share}, not {up}");
        }
    }
}

#[test]
fn where_rows_are_gone_series_are_there_when_they_were() {
    let world = world(3);
    let begin = (BEGIN / 1_000_000) as i64;
    let (minute, hour) = (60_000, 3_600_000);
    let time = (begin + hour + 30_000, begin + 13 * hour, 10 * minute);
    // Only the times: a minute has no values between its first and its last.
    for text in
        ["app_requests_total", "app_depth", "app_build_info", "up", "quantile_over_time(0.5, app_depth[10m])"]
    {
        let times = |source| -> Vec<(String, Vec<i64>)> {
            let all = ask(source, text, time);
            all.into_iter()
                .map(|(labels, samples)| (labels, samples.iter().map(|one| one.0).collect()))
                .collect()
        };
        // The second node was away for some minutes at a time, which minutes show to a minute.
        let n0 = |all: Vec<(String, Vec<i64>)>| -> Vec<_> {
            all.into_iter().filter(|(labels, _)| labels.contains("n0")).collect()
        };
        assert_eq!(n0(times(&world.rows)), n0(times(&world.minutes)), "{text}");
        assert_eq!(n0(times(&world.rows)), n0(times(&world.hours)), "{text}");
        let away = |all: Vec<(String, Vec<i64>)>| {
            all.into_iter()
                .filter(|(labels, _)| labels.contains("n1") && text != "up")
                .flat_map(|(_, times)| times)
                .filter(|time| (begin + 5 * hour + 6 * minute..begin + 7 * hour).contains(time))
                .count()
        };
        if !text.contains("quantile") {
            assert_eq!((away(times(&world.minutes)), away(times(&world.hours))), (0, 0), "{text}");
        }
    }
    // At the border, and after it: rows follow where buckets end.
    let border = begin + GONE as i64 * hour;
    for time in [(border - 4_000, border + 4_000, 500), (border - 120_000, border + 120_000, 7_000)] {
        for text in ["app_requests_total", "app_depth", "app_build_info"] {
            let count =
                |source| ask(source, text, time).iter().map(|(_, samples)| samples.len()).sum::<usize>();
            assert_eq!(count(&world.rows), count(&world.minutes), "{text} {time:?}");
            assert_eq!(count(&world.rows), count(&world.hours), "{text} {time:?}");
        }
    }
    let up = |source| {
        ask(source, "avg_over_time(up{instance=\"n1\"}[12h])", (begin + 12 * hour, begin + 12 * hour, hour))
    };
    let (expected, found) = (up(&world.rows)[0].1[0].1, up(&world.minutes)[0].1[0].1);
    // Three periods go by without samples until a node counts as silent: here three minutes.
    assert!((expected - found).abs() < 0.1, "{expected} of rows, {found} of minutes");
}

#[test]
fn where_only_hours_are_left_a_steady_counter_is_steady() {
    let world = world(4);
    let begin = (BEGIN / 1_000_000) as i64;
    let (minute, hour) = (60_000, 3_600_000);
    let time = (begin + hour + 90_000, begin + 4 * hour, 7 * minute);
    let a_second = STEADY as f64 / (PERIOD / SECOND) as f64;
    // Between two hours nine seconds go by without a row.
    for function in ["rate", "irate", "deriv"] {
        let all = ask(&world.hours, &format!("{function}(app_steady_total{{instance=\"n0\"}}[5m])"), time);
        assert_eq!(all[0].1.len(), 26, "{function}");
        assert!(all[0].1.iter().all(|(_, value)| is_near(*value, a_second, 0.25)), "{function}: {all:?}");
    }
    // An hour with resets has the same growth, in whatever parts it is asked for.
    let of_parts = |source, window: i64| -> f64 {
        let text = format!("increase(app_requests_total{{instance=\"n0\"}}[{window}m])");
        let from = begin + hour + window * minute;
        ask(source, &text, (from, begin + 4 * hour, window * minute))[0].1.iter().map(|one| one.1).sum()
    };
    let whole = of_parts(&world.rows, 60);
    for window in [1, 5, 20, 60] {
        let parts = of_parts(&world.hours, window);
        assert!(is_near(parts, whole, 0.15), "in parts of {window} minutes {parts} instead of {whole}");
    }
}

#[test]
fn an_average_of_up_does_not_depend_on_what_is_left() {
    let world = world(5);
    let begin = (BEGIN / 1_000_000) as i64;
    let hour = 3_600_000;
    // Two hours away in the part that is gone, of eight before the border and eight after it.
    for (from, to) in [(GONE - 12, GONE + 8), (GONE - 10, GONE + 4)] {
        let text = format!("avg_over_time(up{{instance=\"n1\"}}[{}h])", to - from);
        let time = begin + to as i64 * hour;
        let up = |source| ask(source, &text, (time, time, hour))[0].1[0].1;
        let (rows, minutes, hours) = (up(&world.rows), up(&world.minutes), up(&world.hours));
        assert!((rows - minutes).abs() < 0.08, "{text}: {rows} of rows, {minutes} of minutes");
        assert!((rows - hours).abs() < 0.2, "{text}: {rows} of rows, {hours} of hours");
    }
}

/// The series that a listing has of a time (ms), in order.
fn listed(source: &PastSource, (after, to): (i64, i64), name: &str) -> Vec<String> {
    let named = Matcher::new(METRIC_NAME, "=", name).unwrap().unwrap();
    let (all, is_cut) = source.series(&[named], after, to, 100).unwrap();
    assert!(!is_cut);
    let mut all: Vec<String> = all.iter().map(|labels| format!("{labels:?}")).collect();
    all.sort();
    all
}

#[test]
fn a_listing_has_what_was_there_where_only_roll_ups_are_left() {
    let world = world(6);
    let begin = (BEGIN / 1_000_000) as i64;
    let (minute, hour) = (60_000, 3_600_000);
    // The labels of a build change each four hours; the second node is away from hour 5 to 7.
    for (from, to, builds) in [
        (hour, 13 * hour, 6),
        (hour, 3 * hour, 2),
        (5 * hour + 20 * minute, 6 * hour + 40 * minute, 1),
        (8 * hour + 10 * minute, 8 * hour + 50 * minute, 2),
        (3 * hour + 50 * minute, 4 * hour + 10 * minute, 4),
        (12 * hour + 10 * minute, 20 * hour, 4),
        (15 * hour, 16 * hour, 2),
    ] {
        let time = (begin + from, begin + to);
        let expected = listed(&world.rows, time, "app_build_info");
        assert_eq!(expected.len(), builds, "{from} {to}");
        for name in ["app_build_info", "app_requests_total", "app_rare", "up", "node_time_seconds"] {
            let expected = listed(&world.rows, time, name);
            for (source, what) in [(&world.minutes, "minutes"), (&world.hours, "hours")] {
                assert_eq!(listed(source, time, name), expected, "{name} of {what} from {from} to {to}");
            }
        }
    }
    assert_eq!(listed(&world.hours, (begin - 20 * hour, begin - 10 * hour), "app_depth"), [""; 0]);
}

/// A byte in the middle of the file, or its end.
fn damage(path: &Path, is_whole: bool) {
    let mut bytes = fs::read(path).unwrap();
    if is_whole {
        bytes.truncate(bytes.len() - 9);
    } else {
        let at = bytes.len() / 3;
        bytes[at] ^= 1;
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_hour_is_answered_out_of_its_roll_up_with_a_warning() {
    for (seed, is_whole) in [(7, true), (8, false)] {
        let whole = world(seed);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("past-rolled-{seed}/whole"));
        damage(&folder.join("raw/2025-11-01T20.0.col"), is_whole);
        let store = StoreReader::open(&folder).unwrap();
        let reader = || RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()));
        let damaged = PastSource::new(Arc::new(reader()), known());
        let begin = (BEGIN / 1_000_000) as i64;
        let (minute, hour) = (60_000, 3_600_000);
        // Whole minutes: as of rows.
        let time = (begin + 19 * hour, begin + 23 * hour, 20 * minute);
        let mut are_told = 0;
        for name in NAMES {
            for function in ["count_over_time", "sum_over_time", "increase", "max_over_time"] {
                let text = format!("{function}({name}[20m])");
                compare(&text, &ask(&whole.minutes, &text, time), &ask(&damaged, &text, time), 1e-11);
            }
            let answer = Engine::new(Limits::default()).query_range(&damaged, name, time.0, time.1, time.2);
            let warnings = answer.unwrap().warnings;
            are_told += warnings.iter().filter(|it| it.contains("2025-11-01T20.0.col")).count();
            let in_hour = (begin + 20 * hour, begin + 21 * hour - 1, minute);
            let count = |source| ask(source, name, in_hour).iter().map(|it| it.1.len()).sum::<usize>();
            assert!(count(&damaged) * 10 >= count(&whole.minutes) * 9, "{name}");
        }
        assert!(are_told >= 1, "{is_whole}");
        assert!(!is_whole || are_told == NAMES.len(), "all of it");
        // A node whose rows cannot be read was not away.
        let up = "avg_over_time(up{instance=\"n0\"}[3h])";
        let time = (begin + 22 * hour, begin + 22 * hour, hour);
        assert_eq!(ask(&damaged, up, time)[0].1[0].1, 1.0);
    }
}
