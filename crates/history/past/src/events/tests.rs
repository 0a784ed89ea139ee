//! What becomes an event, and what does not: samples in, events out.

use super::*;
use khz_promql::stale;

/// A source with some series, whatever is asked of their time.
struct Fixed(Vec<(LabelSet, Vec<(i64, f64)>)>);

impl Source for Fixed {
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
        for (labels, samples) in &self.0 {
            if !wanted.matchers.iter().all(|matcher| matcher.matches(labels.get(&matcher.name))) {
                continue;
            }
            let id = sink.series(labels.clone())?;
            let of_time = |time: &i64| *time > wanted.after && *time <= wanted.to;
            for (time, value) in samples.iter().filter(|(time, _)| of_time(time)) {
                sink.samples(id, &[*time], &[*value])?;
            }
        }
        Ok(Vec::new())
    }

    fn series(&self, _: &[Matcher], _: i64, _: i64, _: usize) -> Result<(Vec<LabelSet>, bool), QueryError> {
        Ok((Vec::new(), false))
    }
}

/// The first instant: a minute and an hour, so that there is time before it (ms).
const T: i64 = 3_660_000;

fn labels(text: &[(&str, &str)]) -> LabelSet {
    LabelSet::new(text.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

fn up(samples: impl IntoIterator<Item = (i64, f64)>) -> (LabelSet, Vec<(i64, f64)>) {
    (labels(&[("__name__", "up"), ("instance", "n1")]), samples.into_iter().collect())
}

/// A 1 in each of these seconds after [`T`].
fn seconds(seconds: impl IntoIterator<Item = i64>) -> Vec<(i64, f64)> {
    seconds.into_iter().map(|second| (T + second * 1_000, 1.0)).collect()
}

/// What is found in ten minutes: kind, begin and end in seconds after [`T`], words.
fn found(series: Vec<(LabelSet, Vec<(i64, f64)>)>) -> Vec<String> {
    let events = events(&Fixed(series), "n1", (T, T + 600_000)).unwrap();
    let told = |event: &Event| {
        let seconds = |time: i64| (time - T) as f64 / 1_000.0;
        let end = event.end.map_or("on".to_owned(), |end| seconds(end).to_string());
        let earlier = if event.is_earlier { " or earlier" } else { "" };
        format!("{} {}{earlier} to {end}: {}", event.kind.as_str(), seconds(event.begin), event.text)
    };
    events.events.iter().map(told).collect()
}

#[test]
fn a_silence_is_one_event_from_the_last_row_to_the_next() {
    let silent = (25..90).map(|second| (T + second * 1_000, 0.0));
    let rows = seconds(0..20).into_iter().chain(silent).chain(seconds(90..600));
    assert_eq!(found(vec![up(rows)]), ["down 19 to 90: down"]);
}

#[test]
fn a_node_that_is_down_all_the_time_went_down_earlier_and_has_not_come_back() {
    let silent = (-60..600).map(|second| (T + second * 1_000, 0.0));
    assert_eq!(found(vec![up(silent)]), ["down -59 or earlier to on: down"]);
}

#[test]
fn single_rows_that_are_missing_are_counted_and_a_node_that_becomes_slower_loses_none() {
    let rows = seconds((0..20).chain(21..30).chain(33..40));
    assert_eq!(
        found(vec![up(rows)]),
        ["missing 19 to 21: 1 row is missing", "missing 29 to 33: 3 rows are missing"]
    );
    let slower = seconds((0..20).chain((23..600).step_by(4)));
    let events = found(vec![up(slower)]);
    assert!(events.len() <= 3, "only until its new pace is known: {events:?}");
}

#[test]
fn the_first_rows_of_a_node_show_no_loss_since_nobody_knows_its_pace() {
    assert_eq!(found(vec![up(seconds([0, 30, 60, 90, 120]))]), Vec::<String>::new());
}

fn of_node(name: &str, samples: &[(i64, f64)]) -> (LabelSet, Vec<(i64, f64)>) {
    let samples = samples.iter().map(|(second, value)| (T + second * 1_000, *value)).collect();
    (labels(&[("__name__", name), ("instance", "n1")]), samples)
}

#[test]
fn a_boot_has_the_time_of_the_boot_and_starts_khz_as_one_event() {
    let second = |seconds: i64| (T / 1_000 + seconds) as f64;
    let boot =
        of_node("node_boot_time_seconds", &[(0, 100.0), (10, 100.0), (60, second(40)), (61, second(40))]);
    let used =
        of_node("khz_process_cpu_seconds_total", &[(0, 5.0), (10, 6.0), (60, 0.1), (300, 4.0), (310, 0.2)]);
    assert_eq!(
        found(vec![boot, used]),
        ["booted 40 to 40: booted", "restarted 300 to 310: khz was started again"]
    );
}

#[test]
fn a_clock_that_is_set_is_no_boot() {
    let boot = of_node("node_boot_time_seconds", &[(0, 100.0), (10, 103.0), (20, 97.0)]);
    assert_eq!(found(vec![boot]), Vec::<String>::new());
}

#[test]
fn an_alert_lasts_while_its_series_is_there_and_one_that_is_pending_is_none() {
    let alert = |state: &str, samples: &[(i64, f64)]| {
        let samples = samples.iter().map(|(second, value)| (T + second * 1_000, *value)).collect();
        let given =
            [("__name__", "ALERTS"), ("instance", "n1"), ("alertname", "Full"), ("alertstate", state)];
        let rest = [("severity", "critical"), ("job", "node"), ("mountpoint", "/var")];
        (labels(&[&given[..], &rest].concat()), samples)
    };
    let firing = alert("firing", &[(60, 1.0), (75, 1.0), (90, stale()), (300, 1.0), (315, 1.0)]);
    let pending = alert("pending", &[(30, 1.0), (45, 1.0), (60, stale())]);
    assert_eq!(
        found(vec![pending, firing]),
        [
            "alert 60 to 90: Full (critical) mountpoint=/var",
            "alert 300 to on: Full (critical) mountpoint=/var"
        ]
    );
}

#[test]
fn what_was_so_when_reading_begins_may_have_begun_earlier() {
    let given = [("__name__", "ALERTS"), ("instance", "n1"), ("alertname", "A"), ("alertstate", "firing")];
    let samples = (-4..4).map(|n| (T + n * 15_000, 1.0)).chain([(T + 60_000, stale())]).collect();
    assert_eq!(found(vec![(labels(&given), samples)]), ["alert -45 or earlier to 60: A"]);
}

#[test]
fn a_boost_lasts_while_its_lane_is_there_and_another_rate_is_another_boost() {
    let lane = |name: &str, samples: &[(i64, f64)]| {
        let samples = samples.iter().map(|(second, value)| (T + second * 1_000, *value)).collect();
        (labels(&[("__name__", "khz_lane_period_seconds"), ("instance", "n1"), ("lane", name)]), samples)
    };
    let boost = lane("boost1", &[(50, 0.01), (51, 0.01), (52, 0.1), (70, stale())]);
    let base = lane("base", &[(50, 1.0), (51, 1.0)]);
    assert_eq!(found(vec![base, boost]), ["boost 50 to 52: boost1: 100 Hz", "boost 52 to 70: boost1: 10 Hz"]);
}

#[test]
fn of_too_many_events_the_newest_stay_and_the_others_are_counted() {
    use crate::limits::EVENTS_MAX;
    // A row is missing every ten seconds.
    let second = |n: i64| n + n / 10;
    let rows: Vec<(i64, f64)> = (0..20_000).map(|n| (T + second(n) * 1_000, 1.0)).collect();
    let end = T + 30_000_000;
    let found = events(&Fixed(vec![up(rows)]), "n1", (T, end)).unwrap();
    assert_eq!(found.events.len(), EVENTS_MAX);
    assert_eq!(found.left_out, 1_999 - EVENTS_MAX as u64);
    assert_eq!(found.events.last().unwrap().end, Some(T + second(19_990) * 1_000));
}

#[test]
fn many_events_of_one_kind_hide_no_other_and_no_older_series_hides_a_newer_one() {
    use crate::limits::EVENTS_MAX;
    let silent = (25..90).map(|second| (T + second * 1_000, 0.0));
    let node = seconds(0..20).into_iter().chain(silent).chain(seconds(90..600));
    // The alerts of each series are newer than those of the series before it.
    let alert = |number: i64| {
        let name = format!("A{number}");
        let labels =
            [("__name__", "ALERTS"), ("instance", "n1"), ("alertname", &*name), ("alertstate", "firing")];
        let firings = (0..20).flat_map(|firing| {
            let begin = T + 100_000 + number * 5_000 + firing * 200;
            [(begin, 1.0), (begin + 100, stale())]
        });
        (self::labels(&labels), firings.collect())
    };
    let series = (0..90).rev().map(alert).chain([up(node)]).collect();
    let found = events(&Fixed(series), "n1", (T, T + 600_000)).unwrap();
    let count = |kind| found.events.iter().filter(|event| event.kind == kind).count();
    assert_eq!((count(EventKind::Down), count(EventKind::Alert)), (1, EVENTS_MAX - 1));
    assert_eq!(found.left_out, 1_800 - (EVENTS_MAX as u64 - 1));
    let oldest = found.events.iter().find(|event| event.kind == EventKind::Alert).unwrap();
    assert!(oldest.begin >= T + 100_000 + 64 * 5_000, "{}", oldest.begin - T);
}
