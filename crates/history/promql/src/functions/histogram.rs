//! Computes facts about samples from the buckets of a classic histogram.

/// A bucket: how many samples were at most this large.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    pub(crate) upper: f64,
    pub(crate) count: f64,
}

/// The corrections that make sure that no bucket has less than the one below it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Changed {
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
    pub(crate) difference: f64,
}

/// Counts that differ by less than this part of them differ by rounding.
const ROUNDING: f64 = 1e-12;

/// Sorts buckets and joins those with the same bound. False if they are not complete: the last must have no bound.
fn order(buckets: &mut Vec<Bucket>) -> bool {
    buckets.sort_by(|one, two| one.upper.total_cmp(&two.upper));
    if buckets.last().is_none_or(|last| last.upper != f64::INFINITY) {
        return false;
    }
    let mut joined: Vec<Bucket> = Vec::with_capacity(buckets.len());
    for bucket in buckets.iter() {
        match joined.last_mut() {
            Some(last) if last.upper == bucket.upper => last.count += bucket.count,
            _ => joined.push(*bucket),
        }
    }
    *buckets = joined;
    true
}

fn nearly_equal(one: f64, two: f64) -> bool {
    let (sum, difference) = (one.abs() + two.abs(), (one - two).abs());
    if one == two || (one.is_nan() && two.is_nan()) {
        true
    } else if one == 0.0 || two == 0.0 || sum < f64::MIN_POSITIVE {
        difference < ROUNDING * f64::MIN_POSITIVE
    } else {
        difference / sum.min(f64::MAX) < ROUNDING
    }
}

/// Raises counts that are below those of smaller buckets.
fn raise(buckets: &mut [Bucket]) -> Option<Changed> {
    let mut changed: Option<Changed> = None;
    let mut before = buckets[0].count;
    for bucket in &mut buckets[1..] {
        if nearly_equal(before, bucket.count) {
            bucket.count = before;
        } else if bucket.count < before {
            let difference = before - bucket.count;
            let all =
                changed.get_or_insert(Changed { lowest: bucket.upper, highest: bucket.upper, difference });
            all.lowest = all.lowest.min(bucket.upper);
            all.highest = all.highest.max(bucket.upper);
            all.difference = all.difference.max(difference);
            bucket.count = before;
        } else {
            before = bucket.count;
        }
    }
    changed
}

/// The φ-quantile, taking the samples of a bucket as evenly spread.
pub(crate) fn quantile(phi: f64, buckets: &mut Vec<Bucket>) -> (f64, Option<Changed>) {
    if phi.is_nan() {
        return (f64::NAN, None);
    }
    if !(0.0..=1.0).contains(&phi) {
        return (if phi < 0.0 { f64::NEG_INFINITY } else { f64::INFINITY }, None);
    }
    if !order(buckets) {
        return (f64::NAN, None);
    }
    let changed = raise(buckets);
    let last = buckets.len() - 1;
    let all = buckets[last].count;
    if last == 0 || all == 0.0 {
        return (f64::NAN, changed);
    }
    let mut rank = phi * all;
    let at = buckets[..last]
        .partition_point(|bucket| bucket.count < rank || bucket.count.is_nan() || rank.is_nan());
    if at == last {
        return (buckets[last - 1].upper, changed);
    }
    let upper = buckets[at].upper;
    if at == 0 && upper <= 0.0 {
        return (upper, changed);
    }
    let (mut lower, mut count) = (0.0, buckets[at].count);
    if at > 0 {
        lower = buckets[at - 1].upper;
        count -= buckets[at - 1].count;
        rank -= buckets[at - 1].count;
    }
    (lower + (upper - lower) * (rank / count), changed)
}

/// How many samples, as a part of all, are between two bounds.
pub(crate) fn fraction(low: f64, high: f64, buckets: &mut Vec<Bucket>) -> f64 {
    if buckets.is_empty() || !order(buckets) {
        return f64::NAN;
    }
    let all = buckets[buckets.len() - 1].count;
    if all == 0.0 || low.is_nan() || high.is_nan() {
        return f64::NAN;
    }
    if low >= high {
        return 0.0;
    }
    (below(high, buckets).min(all) - below(low, buckets).min(all)) / all
}

/// How many samples are below a bound, if the samples of each bucket are evenly spread. An unbounded bucket is not divided: nothing
/// of the last one is below any bound, and all of the first one is, if it begins at minus infinity.
fn below(bound: f64, buckets: &[Bucket]) -> f64 {
    let mut lower = if buckets[0].upper > 0.0 { 0.0 } else { f64::NEG_INFINITY };
    let mut before = 0.0;
    for bucket in buckets {
        if lower >= bound {
            return before;
        }
        if bucket.upper > bound {
            if lower == f64::NEG_INFINITY {
                return bucket.count;
            }
            return before + (bucket.count - before) * (bound - lower) / (bucket.upper - lower);
        }
        (lower, before) = (bucket.upper, bucket.count);
    }
    before
}
