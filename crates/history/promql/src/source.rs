//! Where samples come from.

use crate::error::QueryError;
use crate::labels::LabelSet;
use crate::matcher::Matcher;
use crate::run::Run;
use crate::summary::Summary;

/// The bits of a sample that says: from here on the series is not there. It is a NaN of its own, as in Prometheus.
const STALE_BITS: u64 = 0x7ff0_0000_0000_0002;

/// The value of a sample that ends a series.
pub fn stale() -> f64 {
    f64::from_bits(STALE_BITS)
}

/// True for that value, and for no other NaN.
pub fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE_BITS
}

/// Which samples are wanted.
#[derive(Clone, Debug)]
pub struct Selection {
    /// All of them must hold. One of them may be on [`crate::METRIC_NAME`].
    pub matchers: Vec<Matcher>,
    /// Samples after this time (ms since 1970).
    pub after: i64,
    /// And up to this one, included.
    pub to: i64,
    /// The pause between the steps of the evaluation, 0 for one instant; a source may use it to leave out samples that no
    /// step sees.
    pub step: i64,
    /// How far each step looks back.
    pub window: i64,
    /// The look-back is that of an instant selector: of each window only the last sample is wanted.
    pub last_only: bool,
    /// Where summaries may stand for samples.
    pub summaries: Summaries,
}

impl Selection {
    /// True if every window has all samples from one time to another (ms), or none of them.
    pub fn is_whole(&self, first: i64, last: i64) -> bool {
        if first <= self.after || last > self.to {
            return false;
        }
        if self.step <= 0 {
            return true;
        }
        // The bounds of windows: their begins, and their ends, from the first to the last of them.
        let divides = |bound: i64, end: i64| {
            let steps = first.saturating_sub(bound).max(0);
            let steps = steps / self.step + i64::from(steps % self.step > 0);
            let next = bound.saturating_add(steps.saturating_mul(self.step));
            first <= next && next < last && next <= end
        };
        let (first_end, last_begin) =
            (self.after.saturating_add(self.window), self.to.saturating_sub(self.window));
        !divides(self.after, last_begin) && !divides(first_end, self.to)
    }
}

/// Where summaries may stand for samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summaries {
    /// Nowhere. For times with summaries only, a source gives [`Summary::samples`].
    Nowhere,
    /// Where no samples are left. The result is as near as the summaries are.
    WhereSamplesAreGone,
    /// Also wherever all samples of a summary are in the same windows: the result is the same.
    WhereWhole,
}

/// The number of a series within one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesId(pub usize);

/// What takes samples.
pub trait Sink {
    /// Begins a series and returns its number; each series begins once. Fails if the query may not take more.
    fn series(&mut self, labels: LabelSet) -> Result<SeriesId, QueryError>;

    /// Further samples of a series, in the order of time, each time once. Samples of several series may come in turns. A
    /// stale one ends the series until its next sample. A call costs as much as some ten samples.
    fn samples(&mut self, series: SeriesId, times: &[i64], values: &[f64]) -> Result<(), QueryError>;

    /// Further samples of a series, at least one, as [`Sink::samples`] takes them, but in the form in which the source has them.
    fn run(&mut self, series: SeriesId, run: &Run<'_>) -> Result<(), QueryError> {
        run.unpack(|times, values| self.samples(series, times, values))
    }

    /// Further samples of a series, as summaries: only where [`Selection::summaries`] allows it. They come in the order of
    /// time, with the samples.
    fn summaries(&mut self, series: SeriesId, summaries: &[Summary]) -> Result<(), QueryError> {
        let _ = summaries;
        Err(QueryError::Internal(format!(
            "the source gave summaries of the series {}, which nobody asked for",
            series.0
        )))
    }
}

/// Something that has samples.
pub trait Source: Send + Sync {
    /// Gives everything that is wanted to the sink. Returns what the reader should know (damage), one sentence each.
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError>;

    /// The series that have samples in this time, without them. At most `limit`; the flag says that there are more.
    fn series(
        &self,
        matchers: &[Matcher],
        after: i64,
        to: i64,
        limit: usize,
    ) -> Result<(Vec<LabelSet>, bool), QueryError>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_no_bound_divides_is_whole(
            after in -50i64..50, step in 0i64..40, window in 1i64..60, steps in 0i64..5, first in -80i64..200, length in 0i64..50,
        ) {
            let (to, last) = (after + window + steps * step, first + length);
            let summaries = Summaries::WhereWhole;
            let selection =
                Selection { matchers: Vec::new(), after, to, step, window, last_only: false, summaries };
            let windows = (0..=steps).map(|n| (after + n * step, after + window + n * step));
            let is_in = |(after, end): (i64, i64)| {
                let of = |time: &i64| *time > after && *time <= end;
                let inside = (first..=last).filter(of).count();
                inside == 0 || inside as i64 == length + 1
            };
            let is_whole = windows.clone().all(is_in) && first > after && last <= to;
            prop_assert_eq!(selection.is_whole(first, last), is_whole);
        }
    }
}
