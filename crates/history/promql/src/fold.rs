//! Functions of the samples in a range, as folds: samples come in pieces, and only the state is kept. So a range of an hour takes
//! as much memory as one of a minute.

mod deviation;
mod last;
mod line;
mod mean;
mod plain;
mod quantile;
mod rate;
mod sum;

pub(crate) use deviation::{Spread, Stddev, Stdvar};
pub(crate) use last::{First, Idelta, Irate, Last};
pub(crate) use line::{Deriv, PredictLinear};
pub(crate) use mean::Mean;
pub(crate) use plain::{Changes, Count, Highest, Lowest, Present, Resets};
pub(crate) use quantile::{Quantile, quantile};
pub(crate) use rate::{Delta, Increase, Rate};
pub(crate) use sum::Sum;

use crate::summary::Summary;

/// The range of one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// The time of the step (ms).
    pub(crate) time: i64,
    /// The range begins after this time (ms).
    pub(crate) after: i64,
    /// The range ends with this time (ms).
    pub(crate) end: i64,
    /// The other argument of the function, if it has one.
    pub(crate) parameter: f64,
}

/// A function of the samples in a range.
pub(crate) trait Fold {
    /// The state keeps all samples: where ranges overlap, it is better to keep the samples once.
    const KEEPS: bool = false;

    /// Summaries of samples give the same result as the samples.
    const SUMS: bool = false;

    /// [`Fold::join`] needs neither the sum nor the changes of a summary. So of samples that rise, the first one, the last one and how
    /// many they are give the same result as all of them.
    const ENDS: bool = false;

    /// Before the first sample.
    fn begin(window: &Window) -> Self;

    /// The next samples, at least one, in the order of time.
    fn push(&mut self, times: &[i64], values: &[f64]);

    /// The next samples, as a summary: of a function with [`Fold::SUMS`]; others get [`Summary::samples`].
    fn join(&mut self, summary: &Summary) {
        let _ = summary;
    }

    /// The result; `None` if there is none of these samples.
    fn end(&mut self, window: &Window) -> Option<f64>;
}

/// A function of a range, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Rate,
    Increase,
    Delta,
    Irate,
    Idelta,
    Deriv,
    PredictLinear,
    Changes,
    Resets,
    Sum,
    Avg,
    Min,
    Max,
    Count,
    Last,
    First,
    Present,
    Quantile,
    Stddev,
    Stdvar,
}

impl Over {
    /// The function of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "rate" => Over::Rate,
            "increase" => Over::Increase,
            "delta" => Over::Delta,
            "irate" => Over::Irate,
            "idelta" => Over::Idelta,
            "deriv" => Over::Deriv,
            "predict_linear" => Over::PredictLinear,
            "changes" => Over::Changes,
            "resets" => Over::Resets,
            "sum_over_time" => Over::Sum,
            "avg_over_time" => Over::Avg,
            "min_over_time" => Over::Min,
            "max_over_time" => Over::Max,
            "count_over_time" => Over::Count,
            "last_over_time" => Over::Last,
            "first_over_time" => Over::First,
            "present_over_time" => Over::Present,
            "quantile_over_time" => Over::Quantile,
            "stddev_over_time" => Over::Stddev,
            "stdvar_over_time" => Over::Stdvar,
            _ => return None,
        })
    }

    /// The result is a sample of the series itself, so that it keeps the name.
    pub(crate) fn keeps_name(self) -> bool {
        matches!(self, Over::Last | Over::First)
    }

    /// Meant for counters; a metric whose name does not say that it is one is worth an info.
    pub(crate) fn is_of_counters(self) -> bool {
        matches!(self, Over::Rate | Over::Increase)
    }
}
