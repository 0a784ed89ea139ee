//! The limits of a query. Each limit has a reason; the numbers are those of [`Limits::default`].

use std::time::Duration;

/// What one query may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Samples that a query may read ([`SAMPLES_MAX`]).
    pub samples: u64,
    /// Steps of a range query: Prometheus' limit, more than a screen has dots.
    pub steps: u64,
    /// Series that one selector may give, and that may be in one result.
    pub series: usize,
    /// Bytes that a query may hold at one time: windows, columns, groups, the answer.
    pub bytes: usize,
    /// How long a query may take, Prometheus' default.
    pub time: Duration,
    /// How far an instant selector looks back (ms), as in Prometheus.
    pub lookback: i64,
    /// The step of a subquery that names none (ms): Prometheus' evaluation interval.
    pub subquery_step: i64,
}

/// Samples that a query may read: about a minute of reading on one core.
pub const SAMPLES_MAX: u64 = 4_000_000_000;
/// Steps of a range query, as in Prometheus: a picture has no more dots.
pub const STEPS_MAX: u64 = 11_000;
/// Series of a selector: all of 4,096 nodes, with room.
pub const SERIES_MAX: usize = 2_000_000;
/// Bytes that a query holds: several such queries fit in a small machine.
pub const BYTES_MAX: usize = 1 << 30;
/// How long a query may take, as in Prometheus.
pub const TIME_MAX: Duration = Duration::from_secs(120);
/// A query of a dashboard has some hundred bytes; one that a program writes, some thousand.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// The deepest nesting of expressions, since each takes stack, and a thread has 2 MiB. A row of operators nests, too.
pub const DEPTH_MAX: usize = 100;
/// Regular expressions of a query: each may take a megabyte ([`REGEX_BYTES_MAX`]).
pub const REGEXES_MAX: usize = 64;
/// Conditions of a selector: each is held against the labels of all series.
pub const MATCHERS_MAX: usize = 64;
/// Bytes of a label that `label_replace` or `label_join` makes: one made of itself grows without end.
pub const LABEL_BYTES_MAX: usize = 4 << 10;
/// Bytes that a compiled regular expression, or the set of names that it fits, may take: one that explodes is refused.
pub const REGEX_BYTES_MAX: usize = 1 << 20;
/// Bytes that a long compiled regular expression may take for each byte of its text: an alternation of a thousand host names with
/// dots in them (which fit any sign) takes 145. All texts of a query together have [`TEXT_BYTES_MAX`].
pub const REGEX_BYTES_OF_A_BYTE: usize = 160;
/// Seconds of a duration: a year is 3e7, and the parser breaks at 2e19.
pub(crate) const DURATION_SECONDS_MAX: f64 = 1e12;
/// Ranges that a sample may be in at one time before the samples are kept instead of the states of the ranges. A function
/// whose state is its samples, as `quantile_over_time`, has them kept once from two ranges on.
pub const OPEN_RANGES_MAX: i64 = 64;
/// Sentences of each sort in an answer; as Prometheus.
pub(crate) const SENTENCES_SHOWN: usize = 10;
/// Different sentences that are kept, so that their number is known: series could give one each.
pub(crate) const SENTENCES_KEPT: usize = 10_000;

impl Default for Limits {
    fn default() -> Self {
        Limits {
            samples: SAMPLES_MAX,
            steps: STEPS_MAX,
            series: SERIES_MAX,
            bytes: BYTES_MAX,
            time: TIME_MAX,
            lookback: 300_000,
            subquery_step: 60_000,
        }
    }
}
