//! Comparing, sorting and averaging values, some of them unknown, in rrdtool's order.

use crate::number::UNKNOWN;

/// MIN and MAX: an unknown value wins; `second` selects `b`.
pub(super) fn pick(a: f64, b: f64, second: bool) -> f64 {
    if a.is_nan() {
        a
    } else if b.is_nan() || second {
        b
    } else {
        a
    }
}

/// The other side where one is unknown.
pub(super) fn known(a: f64, b: f64) -> Option<f64> {
    if a.is_nan() {
        Some(b)
    } else if b.is_nan() {
        Some(a)
    } else {
        None
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        return UNKNOWN;
    }
    values.iter().fold(0.0, |sum, value| sum + value) / values.len() as f64
}

/// Sample deviation by running mean. The last bit may differ from rrdtool's in one case of fifteen.
pub(super) fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return UNKNOWN;
    }
    let (mut average, mut squares) = (0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        let ahead = value - average;
        average += ahead / (index as f64 + 1.0);
        squares += ahead * (value - average);
    }
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

/// Whether `a` may stay before `b`: unknown first, then by size, except that an infinite `b` counts as its
/// opposite. That is not a consistent order, so the sort below must be the merge sort of rrdtool's C library.
fn stays_before(a: f64, b: f64) -> bool {
    if a.is_nan() {
        true
    } else if b.is_nan() {
        false
    } else if a.is_infinite() {
        a < 0.0
    } else if b.is_infinite() {
        b < 0.0
    } else {
        a <= b
    }
}

/// The known values, each unknown one replaced by the last: as the order is not consistent, their places matter.
pub(super) fn without_unknown(mut values: Vec<f64>) -> Vec<f64> {
    let mut at = 0;
    while at < values.len() {
        match values[at].is_nan() {
            true => drop(values.swap_remove(at)),
            false => at += 1,
        }
    }
    values
}

pub(crate) fn merge_sort(values: &[f64]) -> Vec<f64> {
    if values.len() < 2 {
        return values.to_vec();
    }
    let (left, right) = values.split_at(values.len() / 2);
    let (left, right) = (merge_sort(left), merge_sort(right));
    let mut merged = Vec::with_capacity(values.len());
    let (mut i, mut j) = (0, 0);
    while i < left.len() && j < right.len() {
        if stays_before(left[i], right[j]) {
            merged.push(left[i]);
            i += 1;
        } else {
            merged.push(right[j]);
            j += 1;
        }
    }
    merged.extend_from_slice(&left[i..]);
    merged.extend_from_slice(&right[j..]);
    merged
}

/// All values, unknown ones first, then by size.
pub(crate) fn ranked(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| b.is_nan().cmp(&a.is_nan()).then(a.total_cmp(b)));
    sorted
}
