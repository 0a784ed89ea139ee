//! Histograms: each sample of the window is in one bucket, counts of equal buckets add up, and there is a limit.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use khz_model::metric::{Kind, Unit};
use khz_model::{Instance, Metric, Nanos, NodeName, Series, Stamp, ValueType};
use khz_plan::limits::BUCKETS_MAX;
use khz_plan::{BoundHandler, Bucket, Handler, Identity, Values, is_absent};
use proptest::prelude::*;

fn series(instances: usize) -> Vec<Series> {
    let plain = Metric::plain("job.took", "job_took", Kind::Gauge, Unit::Count).of_instances("rank");
    let metric = Arc::new(Metric { value_type: ValueType::Float, ..plain });
    let instance = |number: usize| Some(Instance::from_kernel(number.to_string().as_bytes()));
    (0..instances).map(|number| Series { metric: metric.clone(), instance: instance(number) }).collect()
}

fn bind(seconds: u64, series: &[Series]) -> Result<BoundHandler, khz_plan::PlanError> {
    let handler =
        Handler { values: Values::Histogram { length: Nanos::from_secs(seconds) }, ..Handler::default() };
    let node = NodeName::new("n1").unwrap();
    let identity = Identity { node: &node, job: "node" };
    BoundHandler::new(&handler, series, |_| true, identity, Nanos::SECOND)
}

/// Takes a row; a series without a value is absent in it. Returns whether it is sent.
fn row(bound: &mut BoundHandler, second: u64, values: &[Option<f64>]) -> bool {
    row_at(bound, Nanos::from_secs(100 + second), values)
}

fn row_at(bound: &mut BoundHandler, boot: Nanos, values: &[Option<f64>]) -> bool {
    let stamp = Stamp { boot, real_offset: 1_700_000_000_000_000_000 };
    bound.row(stamp, |slot| values.get(slot as usize).copied().flatten().map(f64::to_bits))
}

/// The counts, by the series and the bucket.
fn counts(bound: &BoundHandler) -> BTreeMap<(u32, String), Option<f64>> {
    let results = bound.results().unwrap().iter().zip(bound.values());
    let count = |&value: &f64| (!is_absent(value)).then_some(value);
    let named = results
        .map(|(result, value)| ((result.of.unwrap(), result.bucket.unwrap().to_string()), count(value)));
    named.collect()
}

/// The histogram of these values, in one window.
fn of(values: &[f64]) -> BTreeMap<(u32, String), Option<f64>> {
    let mut bound = bind(300, &series(1)).unwrap();
    for (second, value) in (0..).zip(values) {
        row(&mut bound, second, &[Some(*value)]);
    }
    counts(&bound)
}

#[test]
fn each_sample_of_the_window_is_in_one_bucket_and_a_bucket_that_was_used_stays() {
    let mut bound = bind(3, &series(2)).unwrap();
    assert!(!row(&mut bound, 0, &[None, None]), "without any sample nothing is known");
    assert_eq!(bound.results().map(<[_]>::len), Some(0));
    assert!(row(&mut bound, 1, &[Some(5.0), None]));
    row(&mut bound, 2, &[Some(5.5), Some(-1.0)]);
    row(&mut bound, 3, &[Some(9.0), None]);
    let named = |of: u32, bucket: &str, count| ((of, bucket.to_owned()), count);
    let expected =
        [named(0, "5..6", Some(2.0)), named(0, "8..10", Some(1.0)), named(1, "-1.25..-1", Some(1.0))];
    assert_eq!(counts(&bound), expected.clone().into());
    // The one leaves the window of the first series; the second series has no sample left.
    row(&mut bound, 4, &[Some(9.5), None]);
    row(&mut bound, 5, &[Some(9.5), None]);
    row(&mut bound, 6, &[Some(9.5), None]);
    let expected = [named(0, "5..6", Some(0.0)), named(0, "8..10", Some(3.0)), named(1, "-1.25..-1", None)];
    assert_eq!(counts(&bound), expected.into());
    let order: Vec<String> =
        bound.results().unwrap().iter().map(|result| result.bucket.unwrap().to_string()).collect();
    assert_eq!(order, ["5..6", "-1.25..-1", "8..10"], "a new bucket is the last series");
    assert_eq!(bound.bits(2), Some(3), "counts are whole numbers");
}

#[test]
fn of_more_buckets_than_there_may_be_the_others_are_counted_together() {
    let values: Vec<f64> = (0..70).map(|power| 2f64.powi(power)).collect();
    let counts = of(&values);
    assert_eq!(counts.len(), BUCKETS_MAX + 1);
    assert_eq!(counts[&(0, "other".to_owned())], Some(6.0));
    assert_eq!(counts.values().flatten().sum::<f64>(), 70.0);
    let strange = of(&[f64::NAN, 1.0, f64::INFINITY]);
    assert_eq!(strange[&(0, "other".to_owned())], Some(2.0));
}

#[test]
fn a_histogram_of_too_many_series_is_refused() {
    let problem = bind(10, &series(300)).unwrap_err().to_string();
    assert!(problem.contains("252 series with a histogram"), "{problem}");
    let problem = bind(300, &series(252)).map(drop);
    assert!(problem.is_ok());
}

#[test]
fn counts_and_the_order_of_buckets_stay_when_slots_change() {
    let all = series(3);
    let mut before = bind(100, &all[..2]).unwrap();
    row(&mut before, 0, &[Some(1.0), Some(2.0)]);
    row(&mut before, 1, &[Some(4.0), Some(2.0)]);
    let names = |bound: &BoundHandler| {
        let results = bound.results().unwrap().iter();
        results.map(|result| (result.of.unwrap(), result.bucket.unwrap().to_string())).collect::<Vec<_>>()
    };
    let name = |of: u32, bucket: &str| (of, bucket.to_owned());
    assert_eq!(names(&before), [name(0, "1..1.25"), name(1, "2..2.5"), name(0, "4..5")]);
    // A new series comes first, and the others go on.
    let moved = [all[2].clone(), all[0].clone(), all[1].clone()];
    let mut after = bind(100, &moved).unwrap();
    after.take_over(before, |slot| Some(slot + 1));
    assert_eq!(names(&after), [name(1, "1..1.25"), name(2, "2..2.5"), name(1, "4..5")]);
    row(&mut after, 2, &[Some(1.0), Some(1.0), Some(2.0)]);
    assert_eq!(after.values(), [2.0, 3.0, 1.0, 1.0]);
    // One goes, and so do its buckets.
    let mut last = bind(100, &moved[..2]).unwrap();
    last.take_over(after, |slot| (slot < 2).then_some(slot));
    assert_eq!(names(&last), [name(1, "1..1.25"), name(1, "4..5"), name(0, "1..1.25")]);
}

fn value() -> impl Strategy<Value = f64> {
    // Of few enough buckets.
    prop_oneof![(-20i32..20).prop_map(f64::from), (-12i32..12).prop_map(|quarter| f64::from(quarter) / 4.0)]
}

proptest! {
    #[test]
    fn windows_that_follow_each_other_share_no_sample_and_leave_none_out(
        late in prop::collection::vec(-400_000_000i64..400_000_000, 10..80),
    ) {
        // Rows come early or late, by less than half a period.
        let mut bound = bind(10, &series(1)).unwrap();
        let (mut seen, mut taken) = (0, 0.0);
        for (number, late) in (1u64..).zip(late) {
            let boot = Nanos((Nanos::from_secs(100 + number).0 as i64 + late / 2) as u64);
            row_at(&mut bound, boot, &[Some(number as f64)]);
            seen += 1;
            if number % 10 == 0 {
                taken += counts(&bound).values().flatten().sum::<f64>();
                prop_assert_eq!(taken, f64::from(seen));
            }
        }
    }

    /// Two windows that follow each other, or two nodes: the sums of equal buckets are the histogram of both.
    #[test]
    fn counts_of_equal_buckets_add_up_to_the_histogram_of_both(
        one in prop::collection::vec(value(), 0..80), two in prop::collection::vec(value(), 0..80),
    ) {
        let mut sum = of(&one);
        for (bucket, count) in of(&two) {
            let known = sum.entry(bucket).or_insert(Some(0.0));
            *known = Some(known.unwrap_or(0.0) + count.unwrap_or(0.0));
        }
        let both: Vec<f64> = one.iter().chain(&two).copied().collect();
        prop_assert_eq!(sum, of(&both));
    }

    /// Whatever comes and goes, the counts are those of the samples that are in the window.
    #[test]
    fn counts_are_those_of_the_samples_in_the_window(values in prop::collection::vec(prop::option::of(value()), 1..60)) {
        let mut bound = bind(7, &series(1)).unwrap();
        for (second, value) in values.iter().enumerate() {
            row(&mut bound, second as u64, &[*value]);
            let within: Vec<f64> = values[(second + 1).saturating_sub(7)..=second].iter().flatten().copied().collect();
            for ((_, bucket), count) in counts(&bound) {
                let expected = within.iter().filter(|value| Bucket::of(**value).to_string() == bucket).count();
                let expected = (!within.is_empty()).then_some(expected as f64);
                prop_assert_eq!(count, expected, "{}", bucket);
            }
        }
    }
}
