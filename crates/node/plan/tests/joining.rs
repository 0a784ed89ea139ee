//! Windows that follow each other (`every` at least as long as the window): each row is in one of them, whatever the function, and
//! however early or late rows come.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use khz_model::metric::{Kind, Unit};
use khz_model::{Instance, Metric, Nanos, NodeName, Series, Stamp, ValueType};
use khz_plan::{BoundHandler, Handler, Identity, Over, Values};
use proptest::prelude::*;

/// Rows in a window.
const ROWS: u64 = 10;
/// A second of the wall clock that is no multiple of anything here.
const START: u64 = 1_700_000_003;

/// What a handler sends of rows at 1 Hz that come this much late (ns): the number of the row, and the values.
fn sent(values: Values, late: &[i64], after: u64) -> Vec<(u64, Vec<f64>)> {
    let plain = Metric::plain("job.took", "job_took", Kind::Gauge, Unit::Count).of_instances("rank");
    let metric = Arc::new(Metric { value_type: ValueType::Float, ..plain });
    let series = [Series { metric, instance: Some(Instance::from_kernel(b"0")) }];
    let node = NodeName::new("n1").unwrap();
    let identity = Identity { node: &node, job: "node" };
    let handler = Handler { values, every: Nanos::from_secs(ROWS), ..Handler::default() };
    let mut bound = BoundHandler::new(&handler, &series, |_| true, identity, Nanos::SECOND).unwrap();
    let mut found = Vec::new();
    for (number, &late) in (after..).zip(late) {
        let boot = Nanos(Nanos::from_secs(1_000 + number).0.saturating_add_signed(late));
        let stamp = Stamp { boot, real_offset: (START - 1_000) as i64 * 1_000_000_000 };
        if bound.row(stamp, |_| Some((number as f64).to_bits())) {
            found.push((number, bound.values().to_vec()));
        }
    }
    found
}

fn late() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(-240_000_000i64..240_000_000, 30..80)
}

proptest! {
    #[test]
    fn each_row_is_in_one_window(late in late(), after in 0..ROWS) {
        let window = |over| Values::Each { over, length: Nanos::from_secs(ROWS) };
        let of = |over| sent(window(over), &late, after);
        let counts = of(Over::Count);
        prop_assert!(counts.len() as u64 >= late.len() as u64 / ROWS - 1);
        let all = [of(Over::First), of(Over::Last), of(Over::Sum), of(Over::Min), of(Over::Max), of(Over::Avg)];
        for (place, (number, count)) in counts.iter().enumerate() {
            // On the grid of the wall clock, which all nodes share; and full, the first one too.
            prop_assert_eq!((START + number) % ROWS, 0);
            prop_assert_eq!(count, &[ROWS as f64]);
            prop_assert_eq!(*number, counts[0].0 + place as u64 * ROWS);
            let (first, last) = ((number - ROWS + 1) as f64, *number as f64);
            prop_assert!(first as u64 >= after);
            let mean = (first + last) / 2.0;
            let expected = [first, last, mean * ROWS as f64, first, last, mean];
            for (found, expected) in all.iter().zip(expected) {
                prop_assert_eq!(&found[place], &(*number, vec![expected]));
            }
        }
        let histograms = sent(Values::Histogram { length: Nanos::from_secs(ROWS) }, &late, after);
        let totals: Vec<(u64, Vec<f64>)> =
            histograms.into_iter().map(|(number, counts)| (number, vec![counts.iter().sum()])).collect();
        prop_assert_eq!(totals, counts);
    }

    /// With shorter intervals, windows overlap: each row may be sent from the first on.
    #[test]
    fn windows_that_overlap_are_sent_at_once(late in late()) {
        let values = Values::Each { over: Over::Count, length: Nanos::from_secs(2 * ROWS) };
        let counts: Vec<f64> = sent(values, &late, 0).into_iter().map(|(_, values)| values[0]).collect();
        prop_assert_eq!(&counts[..3], &[1.0, 8.0, 18.0]);
    }
}
