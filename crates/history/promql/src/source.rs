//! Where samples come from.

use crate::error::QueryError;
use crate::labels::LabelSet;
use crate::matcher::Matcher;

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
