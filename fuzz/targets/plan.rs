//! Plans: bytes that a node might get, taken or refused; what is taken is bound to some series and executed, within the limits.

#![no_main]

use std::sync::Arc;

use khz_model::metric::{Kind, Unit};
use khz_model::{Instance, Metric, Nanos, NodeName, Series, ValueType};
use khz_plan::{Bound, Identity, Plan};

fn series() -> Vec<Series> {
    let types = [ValueType::Unsigned, ValueType::Signed, ValueType::Float];
    let metric = |(number, value_type): (usize, ValueType)| {
        let metric = Metric::plain("a", "a", Kind::Counter, Unit::Count).of_instances("device");
        let instance = Some(Instance::from_kernel(&[b'0' + number as u8]));
        Series { metric: Arc::new(Metric { value_type, ..metric }), instance }
    };
    types.into_iter().enumerate().map(metric).collect()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(plan) = Plan::take(bytes) else { return };
    let mut again = Vec::new();
    plan.put(&mut again);
    assert!(Plan::take(&again).is_ok(), "what was taken is put so that it is taken again");
    let node = NodeName::new("n").expect("a name");
    let identity = Identity { node: &node, job: "node" };
    let Ok(mut bound) = Bound::new(&plan, &series(), identity, Nanos::from_millis(100)) else { return };
    for row in 0..40u32 {
        let time = i64::from(row) * 100_000_000 * if row == 30 { -1 } else { 1 };
        let bits = |slot: u32| {
            let byte = bytes.get((row * 3 + slot) as usize % bytes.len())?;
            (*byte != 0).then(|| u64::from(*byte) << (byte % 64))
        };
        let count = bound.row(time, bits).len();
        assert!(count == bound.labels().len() || bound.labels().is_empty());
    }
});
