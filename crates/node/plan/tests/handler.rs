//! What a handler makes of rows: which it sends, with which values, and that it goes on when the lane's slots change.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use khz_model::metric::{Kind, Unit};
use khz_model::{Instance, Metric, Nanos, NodeName, Series, Stamp};
use khz_plan::{
    Aggregate, Aggregator, BoundHandler, Combine, Condition, Deadband, Form, Grouping, Handler, Identity,
    Matching, Operator, Over, Plan, Selector, Step, StepId, Test, Values, When, is_absent,
};

fn series(instances: &[&str]) -> Vec<Series> {
    let metric =
        Arc::new(Metric::plain("disk.used", "disk_used", Kind::Gauge, Unit::Count).of_instances("disk"));
    let of = |name: &&str| Series {
        metric: metric.clone(),
        instance: Some(Instance::from_kernel(name.as_bytes())),
    };
    instances.iter().map(of).collect()
}

fn selector() -> Selector {
    let conditions = vec![Condition { label: "__name__".into(), test: Test::Is("disk_used".into()) }];
    Selector { form: Form::Exposed, conditions }
}

fn plan(steps: Vec<Step>) -> Option<Plan> {
    Some(Plan::new(steps).unwrap())
}

fn planned(plan: Option<Plan>) -> Values {
    Values::Plan(plan.unwrap())
}

/// `disk_used > bound`, or another operator.
fn compared(operator: Operator, bound: f64) -> Option<Plan> {
    let (left, right) = (StepId(0), StepId(1));
    let combine = Combine { operator, is_bool: false, matching: Matching::default(), left, right };
    plan(vec![Step::Series(selector()), Step::Number(bound), Step::Combine(combine)])
}

fn window(over: Over, seconds: u64) -> Vec<Step> {
    vec![Step::Window { selector: selector(), length: Nanos::from_secs(seconds), over }]
}

fn bind(handler: &Handler, series: &[Series]) -> BoundHandler {
    let node = NodeName::new("n1").unwrap();
    BoundHandler::new(handler, series, |_| true, Identity { node: &node, job: "node" }, Nanos::SECOND)
        .unwrap()
}

fn stamp(second: u64) -> Stamp {
    Stamp { boot: Nanos::from_secs(100 + second), real_offset: 1_700_000_000_000_000_000 }
}

/// For each row, a second apart, the values that are sent; empty: none is. A reading of -1 is not there.
fn sent(bound: &mut BoundHandler, from: u64, rows: &[&[i64]]) -> Vec<Vec<Option<f64>>> {
    let mut take = |(number, row): (u64, &&[i64])| {
        let reading =
            |slot: u32| row.get(slot as usize).filter(|value| **value >= 0).map(|value| *value as u64);
        if !bound.row(stamp(from + number), reading) {
            return Vec::new();
        }
        match bound.results() {
            Some(_) => bound.values().iter().map(|&value| (!is_absent(value)).then_some(value)).collect(),
            None => row.iter().map(|&value| Some(value as f64)).collect(),
        }
    };
    (from..).map(|number| number - from).zip(rows).map(&mut take).collect()
}

/// The numbers of the rows that are sent.
fn numbers(bound: &mut BoundHandler, rows: &[&[i64]]) -> Vec<usize> {
    let sent = sent(bound, 0, rows);
    sent.iter().enumerate().filter(|(_, row)| !row.is_empty()).map(|(number, _)| number).collect()
}

#[test]
fn a_handler_of_nothing_sends_every_row_as_it_is() {
    let mut bound = bind(&Handler::default(), &series(&["a"]));
    assert_eq!(bound.results(), None);
    assert_eq!(numbers(&mut bound, &[&[1], &[1], &[-1]]), [0, 1, 2]);
}

#[test]
fn values_without_a_condition_are_sent_when_there_are_some() {
    let handler = Handler { values: planned(compared(Operator::Greater, 5.0)), ..Handler::default() };
    let mut bound = bind(&handler, &series(&["a", "b"]));
    let rows: [&[i64]; 4] = [&[1, 2], &[9, 2], &[9, 7], &[-1, -1]];
    assert_eq!(
        sent(&mut bound, 0, &rows),
        [vec![], vec![Some(9.0), None], vec![Some(9.0), Some(7.0)], vec![]]
    );
}

#[test]
fn readings_are_sent_while_a_condition_of_another_series_holds() {
    let when = When { plan: compared(Operator::Greater, 5.0), ..When::default() };
    let handler = Handler { when: Some(when), ..Handler::default() };
    let mut bound = bind(&handler, &series(&["a", "b"]));
    assert_eq!(numbers(&mut bound, &[&[1, 2], &[1, 6], &[8, 8], &[1, 1], &[6, 1]]), [1, 2, 4]);
}

#[test]
fn a_second_series_that_becomes_true_is_told_while_the_first_one_is_on() {
    let when = When { once: true, ..When::default() };
    let handler =
        Handler { values: planned(compared(Operator::Greater, 5.0)), when: Some(when), ..Handler::default() };
    let mut bound = bind(&handler, &series(&["a", "b"]));
    let rows: [&[i64]; 5] = [&[6, 1], &[6, 1], &[6, 6], &[1, 6], &[6, 6]];
    assert_eq!(numbers(&mut bound, &rows), [0, 2, 4]);
}

#[test]
fn a_series_stays_on_until_its_own_condition_takes_it_back() {
    let when = When { unless: compared(Operator::Less, 3.0), ..When::default() };
    let handler = Handler { values: planned(plan(window(Over::Last, 1))), when: None, ..Handler::default() };
    // Hysteresis over readings: on above 5, off below 3, for each disk.
    let when = When { plan: compared(Operator::Greater, 5.0), ..when };
    let handler = Handler { when: Some(when), ..handler };
    let mut bound = bind(&handler, &series(&["a", "b"]));
    let rows: [&[i64]; 6] = [&[4, 4], &[6, 4], &[4, 4], &[4, 1], &[2, 4], &[4, 4]];
    assert_eq!(numbers(&mut bound, &rows), [1, 2, 3]);
}

#[test]
fn one_row_comes_in_each_interval() {
    let handler = Handler { every: Nanos::from_secs(10), ..Handler::default() };
    let mut bound = bind(&handler, &series(&["a"]));
    let rows: Vec<&[i64]> = vec![&[1]; 35];
    assert_eq!(numbers(&mut bound, &rows), [0, 10, 20, 30]);
}

#[test]
fn a_deadband_holds_for_readings_and_for_results() {
    let deadband = Some(Deadband { absolute: 0.0, relative: 0.1 });
    let rows: [&[i64]; 5] = [&[100, 7], &[105, 7], &[111, 7], &[111, -1], &[111, -1]];
    let mut raw = bind(&Handler { deadband, ..Handler::default() }, &series(&["a", "b"]));
    assert_eq!(numbers(&mut raw, &rows), [0, 2, 3]);
    let values = planned(compared(Operator::GreaterEqual, 0.0));
    let mut computed = bind(&Handler { values, deadband, ..Handler::default() }, &series(&["a", "b"]));
    assert_eq!(numbers(&mut computed, &rows), [0, 2, 3]);
}

#[test]
fn a_function_of_each_series_has_the_channels_own_series_only() {
    let values = Values::Each { over: Over::Avg, length: Nanos::from_secs(2) };
    let handler = Handler {
        values,
        when: Some(When { plan: compared(Operator::Greater, 5.0), ..When::default() }),
        ..Handler::default()
    };
    let (node, all) = (NodeName::new("n1").unwrap(), series(&["a", "b"]));
    let is_shown = |series: &Series| series.instance.as_ref().is_some_and(|instance| instance.name() == "a");
    let identity = Identity { node: &node, job: "node" };
    let mut bound = BoundHandler::new(&handler, &all, is_shown, identity, Nanos::SECOND).unwrap();
    let results = bound.results().unwrap();
    assert_eq!(results.len(), 1);
    let labels = &results[0].labels;
    assert_eq!((labels.get("__name__"), labels.get("disk"), results[0].of), ("disk.used", "a", Some(0)));
    // A thousandth of what the gauge counts.
    assert_eq!(results[0].format.places, 3);
    // The condition is of the other one.
    let rows: [&[i64]; 3] = [&[2, 1], &[4, 9], &[5, 9]];
    assert_eq!(sent(&mut bound, 0, &rows), [vec![], vec![Some(3.0)], vec![Some(4.5)]]);
    assert_eq!(bound.bits(0), Some(4_500));
}

#[test]
fn a_number_is_a_result_of_one_series_without_labels() {
    let aggregate = Aggregate {
        aggregator: Aggregator::Sum,
        grouping: Grouping { is_without: false, labels: vec![] },
        of: StepId(0),
    };
    for steps in [vec![Step::Number(4.0)], vec![Step::Series(selector()), Step::Aggregate(aggregate)]] {
        let mut bound =
            bind(&Handler { values: planned(plan(steps)), ..Handler::default() }, &series(&["a", "b"]));
        assert_eq!(bound.results().unwrap().len(), 1);
        assert_eq!(sent(&mut bound, 0, &[&[1, 3]]), [[Some(4.0)]]);
    }
}

/// Whatever a handler remembers, it remembers when series come, go, or change their slots.
#[test]
fn it_goes_on_when_slots_change() {
    let deadband = Some(Deadband { absolute: 0.5, relative: 0.0 });
    let condition = When {
        unless: compared(Operator::Less, 3.0),
        plan: compared(Operator::Greater, 5.0),
        ..When::default()
    };
    let handlers = [
        Handler { values: planned(plan(window(Over::Sum, 100))), ..Handler::default() },
        Handler { values: planned(plan(window(Over::Max, 100))), deadband, ..Handler::default() },
        Handler { when: Some(condition.clone()), ..Handler::default() },
        Handler {
            values: planned(plan(window(Over::Avg, 100))),
            when: Some(condition),
            every: Nanos::from_secs(2),
            ..Handler::default()
        },
        Handler { deadband, ..Handler::default() },
    ];
    for handler in handlers {
        // The same rows with the slots as they are, and with others from the sixth row on.
        let value = |row: u64, disk: u64| ((row * 7 + disk * 3) % 9) as i64;
        let straight: Vec<Vec<i64>> = (0..12).map(|row| vec![value(row, 0), value(row, 1)]).collect();
        let rows: Vec<&[i64]> = straight.iter().map(Vec::as_slice).collect();
        let names = [series(&["a", "b"]), series(&["b", "new", "a"])];
        let expected = sent(&mut bind(&handler, &names[0]), 0, &rows);
        let mut bound = bind(&handler, &names[0]);
        let mut found = sent(&mut bound, 0, &rows[..6]);
        let mut after = bind(&handler, &names[1]);
        after.take_over(bound, |slot| [Some(2), Some(0)][slot as usize]);
        let moved: Vec<Vec<i64>> = straight[6..].iter().map(|row| vec![row[1], -1, row[0]]).collect();
        let moved: Vec<&[i64]> = moved.iter().map(Vec::as_slice).collect();
        for row in sent(&mut after, 6, &moved) {
            found.push(if row.is_empty() { row } else { vec![row[2], row[0]] });
        }
        assert_eq!(found, expected, "{handler:?}");
    }
}
