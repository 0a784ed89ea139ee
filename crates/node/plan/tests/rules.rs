//! What a handler of rules sends: a row when a result comes or goes, when one has been there or away for as long as its rule waits, and
//! every now and then; and that it goes on when the lane's slots change.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use khz_model::metric::{Kind, Unit};
use khz_model::{Instance, Metric, Nanos, NodeName, Series, Stamp};
use khz_plan::{
    BoundHandler, Combine, Condition, Form, Handler, Identity, Judged, Matching, Operator, Over, Plan,
    RulePlan, Selector, Step, StepId, Test, Values, is_absent,
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

/// `disk_used > 5`, or with the highest value of some seconds.
fn above_five(window: Option<u64>, holds: u64, keeps: u64) -> RulePlan {
    let value = match window {
        None => Step::Series(selector()),
        Some(seconds) => {
            Step::Window { selector: selector(), length: Nanos::from_secs(seconds), over: Over::Max }
        }
    };
    let (left, right) = (StepId(0), StepId(1));
    let combine =
        Combine { operator: Operator::Greater, is_bool: false, matching: Matching::default(), left, right };
    let plan = Plan::new(vec![value, Step::Number(5.0), Step::Combine(combine)]).unwrap();
    RulePlan { plan, holds: Nanos::from_secs(holds), keeps: Nanos::from_secs(keeps) }
}

fn bind(rules: Vec<RulePlan>, every: u64, series: &[Series]) -> BoundHandler {
    let handler =
        Handler { values: Values::Rules(rules), every: Nanos::from_secs(every), ..Handler::default() };
    let handler = Handler::take(&handler.to_bytes().unwrap()).unwrap();
    let node = NodeName::new("n1").unwrap();
    let identity = Identity { node: &node, job: "node" };
    BoundHandler::new(&handler, series, |_| true, identity, Nanos::SECOND).unwrap()
}

/// The rows that are sent, one a second: the number of the row, and what is there, `+` if the node is ready.
fn sent(bound: &mut BoundHandler, from: u64, rows: &[&[u64]]) -> Vec<String> {
    let mut all = Vec::new();
    for (second, row) in (from..).zip(rows) {
        let stamp = Stamp { boot: Nanos::from_secs(100 + second), real_offset: 1_700_000_000_000_000_000 };
        if !bound.row(stamp, |slot| row.get(slot as usize).copied()) {
            continue;
        }
        let mut text = format!("{second}:");
        for (result, value) in bound.results().unwrap().iter().zip(bound.values()) {
            match result.judged.unwrap() {
                _ if is_absent(*value) => {}
                Judged::Ready => text.push('+'),
                Judged::Rule(rule) => text += &format!(" r{rule}[{}]={value}", result.labels.get("disk")),
            }
        }
        all.push(text);
    }
    all
}

#[test]
fn a_row_is_sent_when_a_result_comes_or_goes_and_when_its_rule_has_waited() {
    let mut bound = bind(vec![above_five(None, 3, 2)], 60, &series(&["a"]));
    let rows: Vec<&[u64]> = vec![&[1], &[1], &[6], &[7], &[8], &[9], &[9], &[1], &[1], &[1], &[1], &[6]];
    assert_eq!(
        sent(&mut bound, 0, &rows),
        ["0:+", "2:+ r0[a]=6", "5:+ r0[a]=9", "7:+", "9:+", "11:+ r0[a]=6"],
        "three seconds after it came, two after it went"
    );
}

#[test]
fn a_new_reader_gets_a_row_at_once_and_what_is_there_waits_from_that_row_on() {
    let mut bound = bind(vec![above_five(None, 3, 2)], 60, &series(&["a"]));
    let there: Vec<&[u64]> = vec![&[6]; 6];
    assert_eq!(sent(&mut bound, 0, &there[..5]), ["0:+ r0[a]=6", "3:+ r0[a]=6"]);
    bound.read_again();
    assert_eq!(sent(&mut bound, 5, &there), ["5:+ r0[a]=6", "8:+ r0[a]=6"], "it had waited already");
    let away: Vec<&[u64]> = vec![&[1]; 5];
    assert_eq!(sent(&mut bound, 11, &away), ["11:+", "13:+"]);
    bound.read_again();
    assert_eq!(sent(&mut bound, 16, &away), ["16:+", "18:+"]);
}

#[test]
fn values_come_now_and_then_while_there_are_some_and_a_word_each_minute_while_there_are_none() {
    let mut bound = bind(vec![above_five(None, 0, 0)], 5, &series(&["a"]));
    let quiet: Vec<&[u64]> = vec![&[1]; 130];
    assert_eq!(sent(&mut bound, 0, &quiet), ["0:+", "60:+", "120:+"]);
    let loud: Vec<&[u64]> = vec![&[6], &[7], &[8], &[9], &[10], &[11], &[12]];
    assert_eq!(sent(&mut bound, 130, &loud), ["130:+ r0[a]=6", "135:+ r0[a]=11"]);
}

#[test]
fn a_node_is_ready_when_its_longest_window_is_full() {
    let mut bound = bind(vec![above_five(None, 0, 0), above_five(Some(4), 0, 0)], 60, &series(&["a"]));
    let rows: Vec<&[u64]> = vec![&[1], &[1], &[1], &[1], &[1], &[6], &[1], &[1], &[1], &[1]];
    let sent = sent(&mut bound, 0, &rows);
    assert_eq!(sent, ["0:", "4:+", "5:+ r0[a]=6 r1[a]=6", "6:+ r1[a]=6", "9:+"]);
}

#[test]
fn what_is_there_goes_on_when_slots_change_and_what_is_gone_is_told() {
    let rules = || vec![above_five(None, 3, 0)];
    let mut bound = bind(rules(), 60, &series(&["a", "b"]));
    let rows: Vec<&[u64]> = vec![&[6, 6], &[6, 6]];
    assert_eq!(sent(&mut bound, 0, &rows), ["0:+ r0[a]=6 r0[b]=6"]);
    let mut wider = bind(rules(), 60, &series(&["c", "b", "a"]));
    wider.take_over(bound, |slot| Some(2 - slot));
    let rows: Vec<&[u64]> = vec![&[1, 6, 6], &[9, 7, 8]];
    assert_eq!(
        sent(&mut wider, 2, &rows),
        ["3:+ r0[a]=8 r0[b]=7 r0[c]=9"],
        "three seconds after they came first"
    );
    let mut narrower = bind(rules(), 60, &series(&["c"]));
    narrower.take_over(wider, |slot| (slot == 0).then_some(0));
    assert_eq!(sent(&mut narrower, 4, &[&[9]]), ["4:+ r0[c]=9"], "a and b are not there any more");
}
