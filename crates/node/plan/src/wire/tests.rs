//! Plans and handlers have the bytes that they always had, and any bytes are a plan or an error.

use super::*;
use crate::handler::{Deadband, Effect, Handler, Values, When};
use proptest::prelude::*;

fn selector(form: Form, tests: Vec<Test>) -> Selector {
    let condition = |(at, test)| Condition { label: format!("label{at}"), test };
    Selector { form, conditions: tests.into_iter().enumerate().map(condition).collect() }
}

/// A plan of one window for each function, one step for each function of a value, and so on: whatever bytes can say.
fn everything() -> Vec<Plan> {
    let texts = || vec![String::from("a*"), String::from("b?")];
    let tests = vec![
        Test::Is(String::from("ü")),
        Test::IsNot(String::new()),
        Test::Fits(texts()),
        Test::FitsNot(texts()),
    ];
    let first = || Step::Series(selector(Form::Own, vec![Test::Is(String::from("x"))]));
    let labels = || vec![String::from("cpu"), String::from("mode")];
    let mut plans = vec![vec![Step::Number(-0.5)], vec![Step::Time]];
    plans.push(vec![Step::Series(selector(Form::Exposed, tests))]);
    let over = OVER.map(|(_, over)| over).into_iter().chain([Over::Quantile(0.99)]);
    plans.extend(over.map(|over| {
        let selector = selector(Form::Own, vec![Test::Is(String::from("x"))]);
        vec![Step::Window { selector, length: Nanos::SECOND, over }]
    }));
    let more = [Math::Round(0.25), Math::Clamp(1.0, 2.0), Math::AtLeast(3.0), Math::AtMost(4.0)];
    let math = MATH.map(|(_, math)| math).into_iter().chain(more);
    plans.extend(math.map(|math| vec![first(), Step::Math(math, StepId(0))]));
    plans.extend(OPERATORS.into_iter().zip(MANY.into_iter().cycle()).map(|((_, operator), (_, many))| {
        let is_of_sets = operator.is_of_sets();
        let many = if is_of_sets { Many::Neither } else { many };
        let include = if many == Many::Neither { Vec::new() } else { vec![String::from("host")] };
        let grouping = Grouping { is_without: is_of_sets, labels: labels() };
        let matching = Matching { grouping, many, include };
        let is_bool = operator == Operator::Less;
        let combine = Combine { operator, is_bool, matching, left: StepId(0), right: StepId(1) };
        vec![first(), first(), Step::Combine(combine)]
    }));
    let more = [Aggregator::Quantile(0.5), Aggregator::Topk(300), Aggregator::Bottomk(2)];
    let aggregators = AGGREGATORS.map(|(_, aggregator)| aggregator).into_iter().chain(more);
    plans.extend(aggregators.map(|aggregator| {
        let grouping = Grouping { is_without: false, labels: labels() };
        vec![first(), Step::Aggregate(Aggregate { aggregator, grouping, of: StepId(0) })]
    }));
    plans.into_iter().map(|steps| Plan::new(steps).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_bytes_of_plans_stay() {
    let mut written = String::new();
    for plan in everything() {
        let mut bytes = Vec::new();
        plan.put(&mut bytes);
        assert_eq!(Plan::take(&bytes), Ok(plan));
        written += &(hex(&bytes) + "\n");
    }
    assert_eq!(written, include_str!("golden.plans"), "nodes of other versions know these bytes");
}

#[test]
fn the_bytes_of_handlers_stay() {
    let plan = |number| Plan::new(vec![Step::Number(number)]).unwrap();
    let when = |plan, unless, once| {
        let (holds, quiet) = (Nanos::SECOND, if once { Nanos(7_000_000) } else { Nanos(0) });
        When { plan, holds, unless, at_least: 3, of: 5, once, quiet }
    };
    let deadband = Some(Deadband { absolute: 1.5, relative: 0.05 });
    let length = Nanos(2_000_000_000);
    let none = Handler::default;
    let handlers = [
        none(),
        Handler { values: Values::Plan(plan(1.0)), when: Some(when(None, None, true)), ..none() },
        Handler { values: Values::Each { over: Over::Quantile(0.9), length }, every: length, ..none() },
        Handler { values: Values::Histogram { length }, ..none() },
        Handler { when: Some(when(Some(plan(2.0)), Some(plan(3.0)), false)), deadband, ..none() },
        Handler { when: Some(when(Some(plan(2.0)), None, false)), effect: Effect::SlowsDown(100), ..none() },
        Handler {
            when: Some(when(Some(plan(2.0)), None, false)),
            effect: Effect::Surrounds { before: Nanos::SECOND, after: length },
            ..none()
        },
    ];
    let mut written = String::new();
    for handler in handlers {
        let bytes = handler.to_bytes().unwrap();
        assert_eq!(Handler::take(&bytes), Ok(handler));
        written += &(hex(&bytes) + "\n");
    }
    assert_eq!(written, include_str!("golden.handlers"), "nodes of other versions know these bytes");
}

proptest! {
    #[test]
    fn any_bytes_are_a_plan_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), is_begun: bool) {
        let bytes = if is_begun { [&[VERSION, 3][..], &bytes].concat() } else { bytes };
        if let Ok(plan) = Plan::take(&bytes) {
            let mut again = Vec::new();
            plan.put(&mut again);
            // Numbers may be written longer than they are; the plan is the same. NaN is not equal to itself.
            prop_assert_eq!(format!("{:?}", Plan::take(&again)), format!("{:?}", Ok::<_, PlanError>(plan)));
        }
    }
}
