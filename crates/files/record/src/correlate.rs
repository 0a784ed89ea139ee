//! Which series move together with a reference series, and how much earlier or later: Pearson's coefficient at every lag of
//! a range, over the moments at which both are known. Pure arithmetic on a grid. The work is bounded; series beyond the
//! bounds are counted.

use std::cmp::Ordering;

/// How much work may be done.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest lag, in samples, in both directions.
    pub lag: usize,
    /// Pairs of samples that are multiplied, over all series and lags.
    pub pairs: u64,
    /// Fewest pairs of samples for a coefficient: fewer say nothing.
    pub pairs_min: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { lag: 600, pairs: 8_000_000_000, pairs_min: 10 }
    }
}

/// The reference series, and the limits of the comparison.
#[derive(Clone, Copy, Debug)]
pub struct With<'a> {
    /// Its samples; NaN where unknown.
    pub samples: &'a [f32],
    /// How much work may be done.
    pub limits: Limits,
}

/// How one series moves with the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// The number of the series, as the caller gave it.
    pub place: usize,
    /// Pearson's coefficient at the best lag, -1 to 1.
    pub coefficient: f64,
    /// How many samples later than the reference it moves; negative: earlier.
    pub lag: i64,
    /// Pairs of samples that the coefficient comes from.
    pub pairs: usize,
    /// The coefficient at lag 0, where there is one.
    pub at_once: Option<f64>,
}

/// Series that were not compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Series that never change.
    pub constant: usize,
    /// Series with too few samples at the moments of the reference.
    pub short: usize,
    /// Series that the limit of work left out.
    pub work: usize,
}

/// Compares every other series with the reference. The closest matches come first.
pub fn correlate<'a>(
    with: With<'_>,
    others: impl Iterator<Item = (usize, &'a [f32])>,
) -> (Vec<Match>, Skipped) {
    let (mut matches, mut skipped, mut done) = (Vec::new(), Skipped::default(), 0u64);
    let Some(one) = centred(with.samples) else { return (matches, skipped) };
    let lag = with.limits.lag.min(one.len().saturating_sub(1));
    let work = (2 * lag as u64 + 1) * one.len() as u64;
    for (place, samples) in others {
        if done + work > with.limits.pairs {
            skipped.work += 1;
            continue;
        }
        let Some(other) = centred(samples) else {
            skipped.constant += 1;
            continue;
        };
        done += work;
        match best(&one, &other, lag, with.limits.pairs_min) {
            Some(found) => matches.push(Match { place, ..found }),
            None => skipped.short += 1,
        }
    }
    let closest = |a: &Match, b: &Match| b.coefficient.abs().partial_cmp(&a.coefficient.abs());
    matches.sort_by(|a, b| closest(a, b).unwrap_or(Ordering::Equal).then(a.place.cmp(&b.place)));
    (matches, skipped)
}

/// The samples minus their mean, so that sums of squares stay exact; `None`: they are all the same, or unknown.
fn centred(samples: &[f32]) -> Option<Vec<f64>> {
    let known = || samples.iter().filter(|sample| sample.is_finite()).map(|&sample| f64::from(sample));
    let count = known().count();
    let first = known().next()?;
    if known().all(|sample| sample == first) {
        return None;
    }
    let mean = known().sum::<f64>() / count as f64;
    Some(samples.iter().map(|&sample| f64::from(sample) - mean).collect())
}

fn best(one: &[f64], other: &[f64], lag: usize, pairs_min: usize) -> Option<Match> {
    let lag = lag as i64;
    let mut best: Option<Match> = None;
    let mut at_once = None;
    // The smallest lag first: if two lags are equally good, the nearer one wins.
    let lags = (0..=lag).flat_map(|lag| if lag == 0 { vec![0] } else { vec![lag, -lag] });
    for lag in lags {
        let Some((coefficient, pairs)) = at_lag(one, other, lag, pairs_min) else { continue };
        if lag == 0 {
            at_once = Some(coefficient);
        }
        if best.is_none_or(|best| coefficient.abs() > best.coefficient.abs() + 1e-12) {
            best = Some(Match { place: 0, coefficient, lag, pairs, at_once: None });
        }
    }
    best.map(|best| Match { at_once, ..best })
}

/// Pearson's coefficient of `one[i]` and `other[i + lag]`, where both are known.
fn at_lag(one: &[f64], other: &[f64], lag: i64, pairs_min: usize) -> Option<(f64, usize)> {
    let shift = lag.unsigned_abs() as usize;
    let (one, other) = if lag >= 0 { (one, other.get(shift..)?) } else { (one.get(shift..)?, other) };
    let (mut n, mut a, mut b, mut aa, mut bb, mut ab) = (0usize, 0.0, 0.0, 0.0, 0.0, 0.0);
    for (&x, &y) in one.iter().zip(other) {
        let is_known = x.is_finite() && y.is_finite();
        let (x, y) = if is_known { (x, y) } else { (0.0, 0.0) };
        n += usize::from(is_known);
        a += x;
        b += y;
        aa += x * x;
        bb += y * y;
        ab += x * y;
    }
    if n < pairs_min.max(2) {
        return None;
    }
    let count = n as f64;
    let (va, vb) = (aa - a * a / count, bb - b * b / count);
    // A series that is constant over these pairs has no coefficient.
    if va <= aa * 1e-12 || vb <= bb * 1e-12 {
        return None;
    }
    let coefficient = (ab - a * b / count) / (va * vb).sqrt();
    Some((coefficient.clamp(-1.0, 1.0), n))
}

#[cfg(test)]
mod tests;
