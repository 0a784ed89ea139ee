//! Aggregations: each group of series becomes one, or keeps its best. Groups are formed when the plan is bound.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::arithmetic::{Compensated, Mean};
use crate::labels::LabelSet;
use crate::number::{ABSENT, is_absent};
use crate::plan::{Aggregate, Aggregator};

/// The groups of a vector.
#[derive(Debug)]
pub(crate) struct Groups {
    aggregator: Aggregator,
    /// The places of the members of each group.
    members: Vec<Vec<u32>>,
    /// Scratch of a row: values, and their places.
    values: Vec<(f64, u32)>,
}

impl Groups {
    pub fn bind(aggregate: &Aggregate, vector: &[LabelSet]) -> (Self, Vec<LabelSet>) {
        let (mut labels, mut members): (Vec<LabelSet>, Vec<Vec<u32>>) = (Vec::new(), Vec::new());
        let mut known: HashMap<LabelSet, usize> = HashMap::new();
        for (place, series) in vector.iter().enumerate() {
            let group = series.group(&aggregate.grouping);
            let number = *known.entry(group.clone()).or_insert_with(|| {
                labels.push(group);
                members.push(Vec::new());
                members.len() - 1
            });
            members[number].push(place as u32);
        }
        let aggregator = aggregate.aggregator;
        let keeps_series = matches!(aggregator, Aggregator::Topk(_) | Aggregator::Bottomk(_));
        let labels = if keeps_series { vector.to_vec() } else { labels };
        let values = Vec::with_capacity(members.iter().map(Vec::len).max().unwrap_or(0));
        (Groups { aggregator, members, values }, labels)
    }

    pub fn row(&mut self, vector: &[f64], out: &mut [f64]) {
        if matches!(self.aggregator, Aggregator::Topk(_) | Aggregator::Bottomk(_)) {
            out.fill(ABSENT);
        }
        for (group, members) in self.members.iter().enumerate() {
            self.values.clear();
            let there = members.iter().map(|place| (vector[*place as usize], *place));
            self.values.extend(there.filter(|(value, _)| !is_absent(*value)));
            match self.aggregator {
                Aggregator::Topk(count) => best(&mut self.values, count, true, out),
                Aggregator::Bottomk(count) => best(&mut self.values, count, false, out),
                aggregator => out[group] = of_group(aggregator, &mut self.values),
            }
        }
    }
}

/// The value of a group.
fn of_group(aggregator: Aggregator, values: &mut [(f64, u32)]) -> f64 {
    if values.is_empty() {
        return ABSENT;
    }
    let each = values.iter().map(|(value, _)| *value);
    let count = values.len() as f64;
    let total = || {
        let mut sum = Compensated::default();
        each.clone().for_each(|value| sum.add(value));
        sum.total()
    };
    match aggregator {
        Aggregator::Sum => total(),
        Aggregator::Avg => Mean::of(each).value().unwrap_or(ABSENT),
        Aggregator::Min => each.fold(f64::NAN, f64::min),
        Aggregator::Max => each.fold(f64::NAN, f64::max),
        Aggregator::Count => count,
        Aggregator::Group => 1.0,
        Aggregator::Stdvar => variance(each),
        Aggregator::Stddev => variance(each).sqrt(),
        Aggregator::Quantile(phi) => quantile(phi, values),
        Aggregator::Topk(_) | Aggregator::Bottomk(_) => ABSENT,
    }
}

/// Welford's method, without compensation, as Prometheus has it.
fn variance(values: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        if count == 1.0 {
            (mean, squares) = (value, if value.is_finite() { 0.0 } else { f64::NAN });
            continue;
        }
        let distance = value - mean;
        mean += distance / count;
        squares += distance * (value - mean);
    }
    squares / count
}

/// NaN is the lowest.
fn order(one: &(f64, u32), two: &(f64, u32)) -> Ordering {
    one.0.partial_cmp(&two.0).unwrap_or_else(|| two.0.is_nan().cmp(&one.0.is_nan()))
}

fn quantile(phi: f64, values: &mut [(f64, u32)]) -> f64 {
    match phi {
        phi if phi.is_nan() => return f64::NAN,
        phi if phi < 0.0 => return f64::NEG_INFINITY,
        phi if phi > 1.0 => return f64::INFINITY,
        _ => {}
    }
    values.sort_unstable_by(order);
    let rank = phi * (values.len() - 1) as f64;
    let (low, weight) = (rank.floor() as usize, rank - rank.floor());
    match values.get(low + 1) {
        Some((high, _)) if weight > 0.0 => values[low].0 * (1.0 - weight) + high * weight,
        _ => values[low].0,
    }
}

/// Keeps the best; of equal ones the first. NaN is the worst.
fn best(values: &mut [(f64, u32)], count: u32, is_highest: bool, out: &mut [f64]) {
    values.sort_unstable_by(|one, two| {
        let by_value = match (one.0.is_nan(), two.0.is_nan()) {
            (false, false) if is_highest => order(two, one),
            (false, false) => order(one, two),
            (one, two) => one.cmp(&two),
        };
        by_value.then(one.1.cmp(&two.1))
    });
    for (value, place) in values.iter().take(count as usize) {
        out[*place as usize] = *value;
    }
}
