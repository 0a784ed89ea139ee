//! A node with very many series refuses a plan before it allocates what the plan would need.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use khz_model::metric::{Kind, Unit};
use khz_model::{Instance, Metric, Nanos, NodeName, Series};
use khz_plan::{Bound, Form, Identity, Over, Plan, Selector, Step};

#[test]
fn limits_hold_before_anything_is_allocated() {
    let metric = Arc::new(Metric::plain("a", "a", Kind::Counter, Unit::Count).of_instances("device"));
    let instance = |n: usize| Some(Instance::from_kernel(format!("i{n}").as_bytes()));
    let of = |n| Series { metric: metric.clone(), instance: instance(n) };
    let series: Vec<Series> = (0..20_000).map(of).collect();
    let node = NodeName::new("n1").unwrap();
    let identity = Identity { node: &node, job: "node" };
    let refused = |step: Step| {
        let plan = Plan::new(vec![step]).unwrap();
        Bound::new(&plan, &series, identity, Nanos::from_millis(1)).unwrap_err().to_string()
    };
    let selector = Selector { form: Form::Exposed, conditions: Vec::new() };
    assert!(refused(Step::Series(selector.clone())).contains("16384 series"));
    let window = Step::Window { selector, length: Nanos::from_secs(300), over: Over::Max };
    assert!(refused(window).contains("windows of 4MiB"));
}
