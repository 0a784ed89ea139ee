//! Queries that would take too much are refused, with Prometheus' kind of error, and soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use khz_promql::{Engine, LabelSet, Limits, Matcher, QueryError, Selection, Sink, Source, Value};

/// Series without end: as many as the sink takes, each with a sample a second.
struct Endless {
    series: usize,
    /// Set when this many samples are given.
    cancel: Option<(Arc<AtomicBool>, usize)>,
    given: AtomicUsize,
}

impl Endless {
    fn of(series: usize) -> Self {
        Endless { series, cancel: None, given: AtomicUsize::new(0) }
    }
}

impl Source for Endless {
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
        for number in 0..self.series {
            let series = sink.series(LabelSet::new([("__name__", "x"), ("i", &number.to_string())]))?;
            let mut second = wanted.after.div_euclid(1000) + 1;
            while second * 1000 <= wanted.to {
                let times: Vec<i64> =
                    (second..second + 1_000).map(|s| s * 1000).filter(|t| *t <= wanted.to).collect();
                let values: Vec<f64> = times.iter().map(|time| (time % 7_919) as f64).collect();
                sink.samples(series, &times, &values)?;
                second += 1_000;
                let given = self.given.fetch_add(times.len(), Ordering::Relaxed);
                if let Some((flag, after)) = &self.cancel
                    && given > *after
                {
                    flag.store(true, Ordering::Relaxed);
                }
            }
        }
        Ok(Vec::new())
    }

    fn series(&self, _: &[Matcher], _: i64, _: i64, _: usize) -> Result<(Vec<LabelSet>, bool), QueryError> {
        Ok((Vec::new(), false))
    }
}

fn error(limits: Limits, series: usize, query: &str) -> QueryError {
    let answer = Engine::new(limits).query(&Endless::of(series), query, 1_700_000_000_000);
    answer.err().unwrap_or_else(|| panic!("{query} is answered"))
}

#[test]
fn a_query_that_reads_too_many_samples_is_refused() {
    let limits = Limits { samples: 10_000, ..Limits::default() };
    let error = error(limits, usize::MAX, "sum(rate(x[1h]))");
    assert_eq!(error.kind(), "execution");
    assert!(
        error
            .to_string()
            .starts_with("query processing would load too many samples into memory in query execution")
    );
}

#[test]
fn what_a_query_has_held_is_said_also_where_it_is_refused() {
    let held = Arc::new(AtomicUsize::new(0));
    let engine = |bytes| Engine::new(Limits { bytes, ..Limits::default() }).counting_in(held.clone());
    let query = |bytes| engine(bytes).query(&Endless::of(1), "x[1w]", 1_700_000_000_000);
    assert!(query(1 << 20).is_err());
    let refused = held.load(Ordering::Relaxed);
    assert!(refused > 1 << 18 && refused <= 1 << 20, "{refused}");
    assert!(query(1 << 30).is_ok());
    // 604,800 samples.
    assert!(held.load(Ordering::Relaxed) > 604_800 * 16);
}

#[test]
fn a_query_that_holds_too_much_is_refused_whatever_holds_it() {
    let limits = Limits { bytes: 1 << 20, ..Limits::default() };
    for (series, query) in [
        (usize::MAX, "x"),
        (1, "x[1w]"),
        (1, "max_over_time(x[290y:1ms])"),
        (1, "sum_over_time(vector(1)[290y:1ms])"),
        (1, "sum_over_time(vector(time())[1y:1s])"),
        (1, "quantile_over_time(0.5, x[4w])"),
        (1_000, "count_values(\"v\", x) or max_over_time(x[1d:1s])"),
        (20_000, "topk(20000, x) or bottomk(20000, x)"),
    ] {
        let error = error(limits, series, query);
        assert!(
            error.kind() == "execution" && error.to_string().contains("1048576 bytes"),
            "{query}: {error}"
        );
    }
}

#[test]
fn a_selector_of_too_many_series_is_refused() {
    let error = error(Limits { series: 100, ..Limits::default() }, 101, "count(x)");
    assert!(error.kind() == "execution" && error.to_string().contains("more than 100 series"), "{error}");
}

#[test]
fn a_query_without_end_stops_at_its_deadline_or_when_it_is_cancelled() {
    let soon = Limits { time: Duration::from_millis(20), bytes: usize::MAX, ..Limits::default() };
    let late = error(soon, usize::MAX, "sum(rate(x[4w]))");
    assert_eq!(
        (late.kind(), late.to_string().as_str()),
        ("timeout", "query timed out in expression evaluation")
    );
    // Nothing is read here: what takes so long is the evaluation itself.
    let steps =
        Limits { time: Duration::from_millis(20), bytes: usize::MAX, steps: u64::MAX, ..Limits::default() };
    let busy = "sum_over_time(sum_over_time(sum_over_time(vector(1)[1h:1s])[1h:1s])[1d:1s])";
    assert_eq!(error(steps, 1, busy).kind(), "timeout");

    let flag = Arc::new(AtomicBool::new(false));
    let source = Endless { cancel: Some((Arc::clone(&flag), 50_000)), ..Endless::of(usize::MAX) };
    let engine = Engine::new(Limits { bytes: usize::MAX, ..Limits::default() }).cancelled_by(flag);
    assert_eq!(engine.query(&source, "sum(rate(x[4w]))", 1_700_000_000_000), Err(QueryError::Cancelled));
}

#[test]
fn ranges_that_are_long_and_many_stop_at_the_deadline_although_few_samples_are_read() {
    let limits = Limits { time: Duration::from_millis(100), ..Limits::default() };
    for query in ["quantile_over_time(0.5, x[20d])", "stddev_over_time(x[20d])", "max_over_time(x[20d])"] {
        let answer = Engine::new(limits).query_range(
            &Endless::of(1),
            query,
            1_700_000_000_000,
            1_700_010_000_000,
            1_000,
        );
        assert_eq!(answer.err().map(|error| error.kind()), Some("timeout"), "{query}");
    }
}

#[test]
fn too_many_steps_and_wrong_times_are_refused_in_the_words_of_prometheus() {
    let engine = Engine::default();
    let ask = |start, end, step| engine.query_range(&Endless::of(0), "vector(1)", start, end, step);
    let problem = |start, end, step| ask(start, end, step).unwrap_err();
    assert_eq!(problem(0, 11_001, 1).kind(), "bad_data");
    assert!(problem(0, 11_001, 1).to_string().starts_with(
        "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)"
    ));
    assert!(problem(1, 0, 1).to_string().contains("end timestamp must not be before start time"));
    assert!(problem(0, 1, 0).to_string().contains("zero or negative query resolution step widths"));
    assert!(problem(i64::MIN, i64::MAX, 1).to_string().contains("maximum resolution"));
    assert!(matches!(ask(0, 11_000, 1).unwrap().value, Value::Matrix(all) if all[0].samples.len() == 11_001));
}

#[test]
fn times_at_the_end_of_the_world_do_not_panic() {
    let engine = Engine::new(Limits { bytes: 4 << 20, ..Limits::default() });
    for time in [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX] {
        for query in [
            "x",
            "x[1y]",
            "rate(x[290y] offset 290y)",
            "x offset -290y",
            "x @ 1e300",
            "x @ -1e15",
            "year()",
            "time()",
            "sum_over_time(x[1h:10m] offset -290y)",
            "max_over_time(vector(1)[1h:10m] @ -1e12)",
            "hour(vector(1e300))",
            "max_over_time(vector(1)[1h:1ms])",
            "sum_over_time(vector(time() * 2 + time())[1h:1ms])",
            "rate(x[1h] @ 5)",
            "-time()",
        ] {
            let _ = engine.query(&Endless::of(0), query, time);
            let _ = engine.query_range(&Endless::of(0), query, time, time, i64::MAX);
            let _ = engine.query_range(&Endless::of(0), query, i64::MIN, i64::MAX, i64::MAX / 2);
        }
    }
}
