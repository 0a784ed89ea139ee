//! A plan that is bound allocates nothing, whatever it computes and however its windows fill and empty. This test needs its own
//! process, because it counts every allocation.

#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use khz_model::metric::{Kind, Unit};
use khz_model::{Instance, Metric, Nanos, NodeName, Series, Stamp, ValueType};
use khz_plan::{
    Aggregate, Aggregator, Bound, BoundHandler, Combine, Condition, Deadband, Form, Grouping, Handler,
    Identity, Matching, Math, Operator, Over, Plan, Selector, Step, StepId, Test, Values, When,
};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes unchanged to the system's allocator; counting touches none of its memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises hold for the system's allocator too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises hold for the system's allocator too.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises hold for the system's allocator too.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Eight series: whole numbers and doubles.
fn series() -> Vec<Series> {
    let metric = |name: &'static str, value_type| {
        let metric = Metric::plain(name, name, Kind::Counter, Unit::Count).of_instances("device");
        Arc::new(Metric { value_type, ..metric })
    };
    let metrics = [metric("whole", ValueType::Unsigned), metric("double", ValueType::Float)];
    let instances = |metric: &Arc<Metric>| {
        let metric = metric.clone();
        (0..4).map(move |n| Series {
            metric: metric.clone(),
            instance: Some(Instance::from_kernel(format!("i{n}").as_bytes())),
        })
    };
    metrics.iter().flat_map(instances).collect()
}

fn everything() -> Plan {
    let selector = |name: &str| {
        let conditions = vec![Condition { label: "__name__".into(), test: Test::Is(name.into()) }];
        Selector { form: Form::Exposed, conditions }
    };
    let mut steps = vec![Step::Series(selector("whole")), Step::Number(3.0)];
    for over in [
        Over::Rate,
        Over::Delta,
        Over::Irate,
        Over::Deriv,
        Over::Changes,
        Over::Sum,
        Over::Avg,
        Over::Min,
        Over::Max,
        Over::Count,
        Over::Stddev,
        Over::Quantile(0.9),
    ] {
        for name in ["whole", "double"] {
            steps.push(Step::Window { selector: selector(name), length: Nanos::from_secs(20), over });
        }
    }
    let last = |steps: &[Step]| StepId(steps.len() as u16 - 1);
    steps.push(Step::Math(Math::Sqrt, StepId(0)));
    for aggregator in [
        Aggregator::Sum,
        Aggregator::Stddev,
        Aggregator::Quantile(0.5),
        Aggregator::Topk(2),
        Aggregator::Bottomk(1),
    ] {
        steps.push(Step::Aggregate(Aggregate { aggregator, grouping: Grouping::default(), of: StepId(0) }));
    }
    for operator in [Operator::Add, Operator::Greater, Operator::And, Operator::Or, Operator::Unless] {
        let (matching, of) = (Matching::default(), last(&steps));
        steps.push(Step::Combine(Combine { operator, is_bool: false, matching, left: StepId(0), right: of }));
    }
    steps.push(Step::Combine(Combine {
        operator: Operator::Less,
        is_bool: true,
        matching: Matching::default(),
        left: StepId(1),
        right: StepId(0),
    }));
    Plan::new(steps).unwrap()
}

#[test]
fn a_row_allocates_nothing() {
    a_row_of_a_handler_allocates_nothing();
    a_row_of_a_plan_allocates_nothing();
}

/// With everything that a handler may have.
fn a_row_of_a_handler_allocates_nothing() {
    let (series, node) = (series(), NodeName::new("n1").unwrap());
    let identity = Identity { node: &node, job: "node" };
    let when =
        When { unless: Some(everything()), plan: Some(everything()), at_least: 2, of: 3, ..When::default() };
    let handler = Handler {
        values: Values::Plan(everything()),
        when: Some(When { holds: Nanos::SECOND, ..when }),
        deadband: Some(Deadband { absolute: 0.0, relative: 0.01 }),
        every: Nanos::from_secs(3),
        ..Handler::default()
    };
    let mut bound = BoundHandler::new(&handler, &series, |_| true, identity, Nanos::SECOND).unwrap();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let mut sent = 0;
    for row in 0..5_000u64 {
        let stamp = Stamp { boot: Nanos(row * 700_000_000), real_offset: 1_700_000_000_000_000_000 };
        let bits = |slot: u32| (row % 7 != u64::from(slot)).then_some(row * u64::from(slot + 1) % 977);
        sent += u32::from(bound.row(stamp, bits));
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
    assert!(sent < 5_000);
}

fn a_row_of_a_plan_allocates_nothing() {
    let (series, node) = (series(), NodeName::new("n1").unwrap());
    let identity = Identity { node: &node, job: "node" };
    let mut bound = Bound::new(&everything(), &series, identity, Nanos::SECOND).unwrap();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let mut sum = 0.0;
    for row in 0..5_000i64 {
        // Faster than was said, now and then not there, now and then reset.
        let time = row * 700_000_000 + if row % 1_000 > 900 { 100_000_000_000 } else { 0 };
        let bits = |slot: u32| {
            let value = (row * i64::from(slot + 1) % 977) as u64;
            let bits = if slot < 4 { value } else { (value as f64 / 3.0).to_bits() };
            (row % 7 != i64::from(slot)).then_some(bits)
        };
        sum += bound.row(time, bits).iter().filter(|value| !khz_plan::is_absent(**value)).sum::<f64>();
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
    assert!(sum > 0.0);
}
