//! Plans beside the evaluator: random expressions that a node can compute, executed row by row, give the same series and values as
//! the evaluator has them over the same rows.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use khz_model::metric::{Kind, Unit};
use khz_model::{Instance, Metric, Nanos, NodeName, Series, ValueType};
use khz_plan::{Bound, Identity, Plan, PlanError, is_absent};
use khz_promql::{
    Engine, LabelSet, Limits, Matcher, QueryError, Selection, Sink, Source, Value, compile, stale,
};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

const ROWS: usize = 400;
/// ms.
const PERIOD: i64 = 1_000;
const BEGIN: i64 = 1_700_000_000_000;

/// When rows are gathered (ns since 1970).
fn times(mut late: impl FnMut() -> i64) -> Vec<i64> {
    (0..ROWS as i64).map(|row| (BEGIN + row * PERIOD) * 1_000_000 + late()).collect()
}

/// Numbers that are the same in every run.
struct Random(TestRng);

impl Random {
    fn of(seed: u8) -> Self {
        Random(TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]))
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.0.next_u64() % limit as u64) as usize
    }

    fn of_list<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

fn series() -> Vec<Series> {
    let metric =
        |name: &'static str, exposed: &'static str, kind| Metric::plain(name, exposed, kind, Unit::Count);
    let cpu = |name, mode: &'static str| {
        let mut metric = Metric { places: 2, ..metric(name, "node_cpu_seconds_total", Kind::Counter) };
        metric.exposition.labels = vec![("mode".into(), mode.into())].into();
        metric.of_instances("cpu")
    };
    let all = [
        (metric("net.rx_bytes", "node_rx_bytes_total", Kind::Counter).of_instances("device"), 3),
        (metric("net.tx_bytes", "node_tx_bytes_total", Kind::Counter).of_instances("device"), 3),
        (cpu("cpu.user", "user"), 2),
        (cpu("cpu.system", "system"), 2),
        (Metric { places: 1, value_type: ValueType::Signed, ..metric("temp", "node_temp", Kind::Gauge) }, 0),
        (Metric { value_type: ValueType::Float, ..metric("job.x", "khz_job_x", Kind::Gauge) }, 0),
        (metric("load", "node_load", Kind::Gauge), 0),
    ];
    let mut series = Vec::new();
    for (metric, instances) in all {
        let metric = Arc::new(metric);
        let named = (0..instances).map(|n| Some(Instance::from_kernel(format!("i{n}").as_bytes())));
        let alone = (instances == 0).then_some(None);
        series.extend(named.chain(alone).map(|instance| Series { metric: metric.clone(), instance }));
    }
    series
}

/// The bits of each slot of each row; `None`: the slot is absent.
fn rows(random: &mut Random, series: &[Series]) -> Vec<Vec<Option<u64>>> {
    let mut counts = vec![0u64; series.len()];
    let row = |_| {
        let cell = |(slot, series): (usize, &Series)| {
            counts[slot] = if random.below(40) == 0 {
                random.below(5) as u64
            } else {
                counts[slot] + random.below(90) as u64
            };
            let bits = match (series.metric.value_type, series.metric.kind) {
                (ValueType::Signed, _) => (random.below(400) as i64 - 200).cast_unsigned(),
                (ValueType::Float, _) => match random.below(30) {
                    0 => f64::NAN,
                    1 => f64::INFINITY,
                    2 => -f64::MAX / 1.5,
                    3 => f64::MAX / 1.2,
                    n => n as f64 / 7.0 - 1.0,
                }
                .to_bits(),
                (_, Kind::Counter) => counts[slot],
                _ => random.below(6) as u64,
            };
            (random.below(25) > 0).then_some(bits)
        };
        series.iter().enumerate().map(cell).collect()
    };
    (0..ROWS).map(row).collect()
}

struct Past {
    all: Vec<(LabelSet, Vec<(i64, f64)>)>,
}

impl Past {
    fn of(series: &[Series], times: &[i64], rows: &[Vec<Option<u64>>]) -> Self {
        let node = NodeName::new("n1").unwrap();
        let identity = khz_model::exposed::Identity { node: &node, job: "node" };
        let all = series.iter().enumerate().map(|(slot, series)| {
            let named = [("__name__", &*series.metric.exposition.name)];
            let labels = khz_model::exposed::labels(series, Some(identity), None);
            let sample = |(row, cells): (usize, &Vec<Option<u64>>)| {
                let number = |bits| khz_model::exposed::number(&series.metric, bits).unwrap().to_f64();
                (times[row] / 1_000_000, cells[slot].map_or(stale(), number))
            };
            (LabelSet::new(named.into_iter().chain(labels)), rows.iter().enumerate().map(sample).collect())
        });
        Past { all: all.collect() }
    }
}

impl Source for Past {
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
        for (labels, samples) in &self.all {
            if !wanted.matchers.iter().all(|matcher| matcher.matches(labels.get(&matcher.name))) {
                continue;
            }
            let of_time = |(time, _): &&(i64, f64)| *time > wanted.after && *time <= wanted.to;
            let (times, values): (Vec<i64>, Vec<f64>) = samples.iter().filter(of_time).copied().unzip();
            if !times.is_empty() {
                let id = sink.series(labels.clone())?;
                sink.samples(id, &times, &values)?;
            }
        }
        Ok(Vec::new())
    }

    fn series(&self, _: &[Matcher], _: i64, _: i64, _: usize) -> Result<(Vec<LabelSet>, bool), QueryError> {
        Ok((Vec::new(), false))
    }
}

fn selector(random: &mut Random) -> String {
    let name = random.of_list(&[
        "node_rx_bytes_total",
        "node_tx_bytes_total",
        "node_cpu_seconds_total",
        "node_temp",
        "khz_job_x",
        "node_load",
    ]);
    let condition = random.of_list(&[
        "",
        "",
        "",
        "{device=\"i1\"}",
        "{device!=\"i0\"}",
        "{mode=~\"u.*\"}",
        "{mode!~\"(user|x)\"}",
        "{cpu=~\".+\"}",
        "{device=\"\"}",
    ]);
    format!("{name}{condition}")
}

fn vector(random: &mut Random, depth: usize) -> String {
    match if depth == 0 { random.below(2) } else { random.below(9) } {
        0 => selector(random),
        1 => {
            let function = random.of_list(&[
                "rate",
                "increase",
                "delta",
                "irate",
                "idelta",
                "deriv",
                "changes",
                "resets",
                "sum_over_time",
                "avg_over_time",
                "min_over_time",
                "max_over_time",
                "count_over_time",
                "first_over_time",
                "last_over_time",
                "present_over_time",
                "stddev_over_time",
                "stdvar_over_time",
                "quantile_over_time",
            ]);
            let window = random.of_list(&["2s", "5s", "13s", "60s", "2m500ms"]);
            let phi = if function == "quantile_over_time" {
                random.of_list(&["0, ", "0.5, ", "0.9, ", "1, ", "-1, ", "2, "])
            } else {
                ""
            };
            format!("{function}({phi}{}[{window}])", selector(random))
        }
        2 => {
            let function = random.of_list(&[
                "abs", "ceil", "floor", "round", "sqrt", "ln", "exp", "log2", "log10", "sgn", "-",
            ]);
            format!("{function}({})", vector(random, depth - 1))
        }
        3 => {
            let bounds = random.of_list(&[
                "clamp(X, 1, 50)",
                "clamp(X, 5, 1)",
                "clamp_min(X, 3)",
                "clamp_max(X, 3)",
                "round(X, 0.5)",
            ]);
            bounds.replace('X', &vector(random, depth - 1))
        }
        4 => {
            let how = random.of_list(&[
                "sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "quantile", "topk",
                "bottomk",
            ]);
            let by =
                random.of_list(&["", " by (device)", " without (cpu)", " by (mode, instance)", " by (cpu)"]);
            let parameter = match how {
                "quantile" => "0.75, ",
                "topk" | "bottomk" => random.of_list(&["1, ", "2, ", "0, "]),
                _ => "",
            };
            format!("{how}{by} ({parameter}{})", vector(random, depth - 1))
        }
        5 => {
            let operator =
                random.of_list(&["+", "-", "*", "/", "%", "^", ">", "<", "==", "!= bool", ">= bool", "<="]);
            let number = random.of_list(&["0", "2", "10.5", "time()"]);
            let inner = vector(random, depth - 1);
            if random.below(2) == 0 {
                format!("({inner} {operator} {number})")
            } else {
                format!("({number} {operator} {inner})")
            }
        }
        6 => {
            let operator = random.of_list(&["+", "-", "*", "/", ">", "<", "== bool", "!="]);
            let matching = random.of_list(&[
                "",
                " on (device)",
                " ignoring (mode)",
                " on (instance) group_left ()",
                " on (device) group_right ()",
            ]);
            let (left, right) = (vector(random, depth - 1), vector(random, depth - 1));
            format!("({left} {}{matching} {right})", operator)
        }
        7 => {
            let operator = random.of_list(&["and", "or", "unless"]);
            let matching = random.of_list(&["", " on (device)", " ignoring (mode)", " on ()"]);
            let (left, right) = (vector(random, depth - 1), vector(random, depth - 1));
            format!("({left} {operator}{matching} {right})")
        }
        _ => format!("({})", vector(random, depth - 1)),
    }
}

fn is_near(one: f64, two: f64) -> bool {
    one == two || (one.is_nan() && two.is_nan()) || (one - two).abs() <= 1e-12 * one.abs().max(two.abs())
}

/// What the evaluator says at a row.
fn expected(past: &Past, text: &str, time: i64) -> Result<BTreeMap<String, f64>, QueryError> {
    let shown = |labels: &LabelSet| format!("{labels:?}");
    Ok(match Engine::new(Limits::default()).query(past, text, time)?.value {
        Value::Vector(all) => all.iter().map(|sample| (shown(&sample.labels), sample.value)).collect(),
        Value::Scalar(_, value) => BTreeMap::from([(String::new(), value)]),
        _ => unreachable!(),
    })
}

fn found(bound: &mut Bound, time: i64, row: &[Option<u64>]) -> BTreeMap<String, f64> {
    let values = bound.row(time, |slot| row[slot as usize]).to_vec();
    let labels = bound.labels().iter().map(|labels| format!("{:?}", LabelSet::new(labels.iter())));
    let named: Vec<String> = if bound.labels().is_empty() { vec![String::new()] } else { labels.collect() };
    named.into_iter().zip(values).filter(|(_, value)| !is_absent(*value)).collect()
}

#[test]
fn a_plan_gives_what_the_evaluator_gives() {
    compare(1, &times(|| 0));
}

#[test]
fn a_plan_gives_what_the_evaluator_gives_of_rows_that_come_early_and_late() {
    // Within a millisecond, beyond it, and by more than half a period.
    for (seed, most) in [(2, 900_000), (3, 5_000_000), (4, 700_000_000)] {
        let mut random = Random::of(10 + seed);
        compare(
            seed,
            &times(|| random.below(most) as i64 - if most < 1_000_000 { 0 } else { most as i64 / 2 }),
        );
    }
}

/// Compares 700 random expressions at some of the rows, which come at these times.
fn compare(seed: u8, times: &[i64]) {
    let series = series();
    let mut random = Random::of(seed);
    let rows = rows(&mut random, &series);
    let past = Past::of(&series, times, &rows);
    let node = NodeName::new("n1").unwrap();
    let (mut compared, mut refused) = (0, 0);
    for _ in 0..700 {
        let depth = random.below(4);
        let text = vector(&mut random, depth);
        let plan = match compile(&text) {
            Ok(plan) => plan,
            Err(error) => panic!("{text}: {error}"),
        };
        let mut bytes = Vec::new();
        plan.put(&mut bytes);
        assert_eq!(Plan::take(&bytes).as_ref(), Ok(&plan), "{text}");
        assert!((0..bytes.len()).all(|end| Plan::take(&bytes[..end]).is_err()), "{text}");
        let identity = Identity { node: &node, job: "node" };
        let mut bound = match Bound::new(&plan, &series, identity, Nanos(PERIOD as u64 * 1_000_000)) {
            Ok(bound) => bound,
            Err(PlanError::Twins { .. } | PlanError::Ambiguous { .. }) => {
                refused += 1;
                continue;
            }
            Err(error) => panic!("{text}: {error}"),
        };
        for (number, row) in rows.iter().enumerate() {
            let found = found(&mut bound, times[number], row);
            if number % 41 != 7 && number != 399 {
                continue;
            }
            let expected = expected(&past, &text, times[number] / 1_000_000)
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            let keys = |all: &BTreeMap<String, f64>| all.keys().cloned().collect::<Vec<_>>();
            assert_eq!(keys(&expected), keys(&found), "{text} at row {number}");
            for (labels, value) in &expected {
                assert!(
                    is_near(*value, found[labels]),
                    "{text} {labels} at row {number}: {value}, the plan has {}",
                    found[labels]
                );
            }
            compared += expected.len();
        }
    }
    assert!(compared > 6_000 && refused < 300, "{compared} values compared, {refused} refused");
}
