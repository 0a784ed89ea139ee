//! Functions of windows: each series of a selector keeps its samples of the window in a ring of fixed size, and further data for
//! its function. Adding a sample and removing old ones takes constant time for most functions, and logarithmic time for
//! quantiles; `deriv`, and `stddev` and `stdvar` of doubles, go through the window.

mod extremes;
mod growth;
mod line;
mod moments;
mod quantile;
mod samples;
mod sum;

use khz_model::{Nanos, ValueType};

use self::extremes::Extremes;
use self::growth::Growth;
use self::moments::Moments;
use self::quantile::Quantile;
pub(crate) use self::samples::Samples;
use self::sum::{ExactSum, FloatSum};
use crate::arithmetic::Mean;
use crate::number::{ABSENT, Scale, is_absent};
use crate::plan::Over;

/// The window of one series.
#[derive(Debug)]
pub(crate) struct Window {
    over: Over,
    /// ns.
    length: i64,
    /// ns: how far a sample comes later than the window begins. Rows come some microseconds early or late, and windows that follow
    /// each other must not share the sample between them.
    margin: i64,
    scale: Scale,
    samples: Samples,
    state: State,
}

/// What a function keeps beside the samples.
#[derive(Debug)]
enum State {
    Nothing,
    Exact(ExactSum),
    Float(FloatSum),
    Extremes(Extremes),
    Growth(Growth),
    Moments(Moments),
    /// How often a value differed from the one before, or was below it.
    Pairs(u64),
    Quantile(Quantile),
}

/// Rows in a window of this length, one for a row that comes early, and one because windows begin at whole milliseconds.
pub(crate) fn rows(length: Nanos, period: Nanos) -> usize {
    usize::try_from(length.0.div_ceil(period.0.max(1))).unwrap_or(usize::MAX).saturating_add(2)
}

/// When a row was gathered. It is computed once for all windows of a plan: a division for each would take as long as much else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowTime {
    /// In ns since 1970.
    exact: i64,
    /// The same, down to the millisecond: queries over the store count in these.
    whole: i64,
}

impl RowTime {
    const MS: i64 = 1_000_000;

    /// A time in ns since 1970.
    pub fn new(exact: i64) -> Self {
        RowTime { exact, whole: exact.div_euclid(Self::MS) * Self::MS }
    }

    /// In seconds, as PromQL has it.
    pub fn seconds(self) -> f64 {
        (self.whole / Self::MS) as f64 / 1e3
    }
}

/// Bytes of the window of one series that holds this many rows.
pub(crate) fn bytes(over: Over, rows: usize) -> usize {
    let beside = match over {
        Over::Sum | Over::Avg => 16,
        Over::Rate | Over::Increase => 24,
        Over::Min | Over::Max => 4,
        Over::Quantile(_) => 12,
        _ => 0,
    };
    size_of::<Window>().saturating_add(rows.saturating_mul(Samples::BYTES_EACH + beside))
}

impl Window {
    /// An empty window for this many rows.
    pub fn new(over: Over, length: Nanos, scale: Scale, value_type: ValueType, rows: usize) -> Self {
        let state = match over {
            Over::Sum | Over::Avg if value_type == ValueType::Float => State::Float(FloatSum::new(rows)),
            Over::Sum | Over::Avg => State::Exact(ExactSum::new(value_type)),
            Over::Min | Over::Max => State::Extremes(Extremes::new(over == Over::Max, rows)),
            Over::Rate | Over::Increase => State::Growth(Growth::new(true, value_type, rows)),
            Over::Delta => State::Growth(Growth::new(false, value_type, rows)),
            Over::Stddev | Over::Stdvar if value_type != ValueType::Float => {
                State::Moments(Moments::new(value_type))
            }
            Over::Changes | Over::Resets => State::Pairs(0),
            Over::Quantile(phi) => State::Quantile(Quantile::new(phi, rows)),
            _ => State::Nothing,
        };
        let length = i64::try_from(length.0).unwrap_or(i64::MAX);
        Window { over, length, margin: 0, scale, samples: Samples::new(rows), state }
    }

    /// Rows come with this period: samples lie half a period inside, so that one that comes early or late by less is in one of two
    /// windows that follow each other.
    pub fn join(&mut self, period: Nanos) {
        self.margin = i64::try_from(period.0 / 2).unwrap_or(0);
    }

    /// Reads the oldest sample, which goes next, and the newest, beside which the next one comes.
    #[inline]
    pub fn touch(&self) -> usize {
        let ends = self.samples.oldest().into_iter().chain(self.samples.newest());
        ends.map(|(time, _)| time as usize & 1).sum()
    }

    /// Takes the reading of a row, if it has one, and gives the function's value at this time.
    pub fn row(&mut self, time: RowTime, bits: Option<u64>) -> f64 {
        // Counted in nanoseconds, a window that ends 50 us late would lack its first sample. Where windows follow each other, half a
        // period decides instead.
        let time = if self.margin == 0 { time.whole } else { time.exact };
        let begin = time.saturating_sub(self.length);
        let after = begin.saturating_add(self.margin);
        while self.samples.oldest().is_some_and(|(oldest, _)| oldest <= after) {
            self.remove();
        }
        if let Some(bits) = bits
            && let value = self.scale.number(bits)
            && !is_absent(value)
        {
            // Rows came faster than was said: the oldest go.
            if self.samples.is_full() {
                self.remove();
            }
            self.add(time, value, bits);
        }
        if let State::Quantile(quantile) = &mut self.state {
            quantile.settle(&self.samples);
        }
        self.value(begin, time)
    }

    fn add(&mut self, time: i64, value: f64, bits: u64) {
        let (before, before_bits) = (self.samples.newest(), self.samples.newest_bits());
        let slot = self.samples.add(time, value, bits);
        match &mut self.state {
            State::Nothing => {}
            State::Exact(sum) => sum.add(bits),
            State::Float(sum) => sum.add(value),
            State::Extremes(extremes) => extremes.add(slot, &self.samples),
            State::Growth(growth) => {
                growth.add(time, before.zip(before_bits).map(|((_, before), bits)| (before, bits)), value)
            }
            State::Moments(moments) => moments.add(bits, &self.samples),
            State::Pairs(count) => {
                *count += u64::from(before.is_some_and(|(_, before)| counts(self.over, before, value)));
            }
            State::Quantile(quantile) => quantile.add(slot, &self.samples),
        }
    }

    /// Removes the oldest sample.
    fn remove(&mut self) {
        let Some((_, value)) = self.samples.oldest() else { return };
        let slot = self.samples.oldest_slot();
        match &mut self.state {
            State::Nothing => {}
            State::Exact(sum) => sum.remove(self.samples.oldest_bits()),
            State::Float(sum) => sum.remove(&self.samples),
            State::Extremes(extremes) => extremes.remove(slot),
            State::Growth(_) => {}
            State::Moments(moments) => moments.remove(self.samples.oldest_bits()),
            State::Pairs(count) => {
                let next = self.samples.iter().nth(1);
                *count -= u64::from(next.is_some_and(|(_, next)| counts(self.over, value, next)));
            }
            State::Quantile(quantile) => quantile.remove(slot, &self.samples),
        }
        self.samples.remove();
        if let State::Growth(growth) = &mut self.state {
            growth.begin_at(self.samples.oldest().map(|(time, _)| time));
        }
    }

    fn value(&self, begin: i64, end: i64) -> f64 {
        let (Some(first), Some(last)) = (self.samples.oldest(), self.samples.newest()) else { return ABSENT };
        let count = self.samples.len() as f64;
        match (&self.state, self.over) {
            (State::Exact(sum), over) => sum.total(&self.scale) / if over == Over::Avg { count } else { 1.0 },
            (State::Float(sum), Over::Avg) if sum.total().is_finite() => sum.total() / count,
            // The sum is more than a double holds, which the mean need not be.
            (State::Float(_), Over::Avg) => {
                Mean::of(self.samples.iter().map(|(_, value)| value)).value().unwrap_or(ABSENT)
            }
            (State::Float(sum), _) => sum.total(),
            (State::Extremes(extremes), _) => extremes.value(&self.samples),
            (State::Growth(growth), over) => {
                let parts = if over == Over::Rate { self.length as f64 / 1e9 } else { 1.0 };
                growth.extrapolated((first, last, count), (begin, end), parts, &self.scale)
            }
            (State::Pairs(pairs), _) => *pairs as f64,
            (State::Quantile(quantile), _) => quantile.value(&self.samples),
            (State::Nothing, Over::First) => first.1,
            (State::Nothing, Over::Last) => last.1,
            (State::Nothing, Over::Count) => count,
            (State::Nothing, Over::Irate) => growth::instant(&self.samples, true),
            (State::Nothing, Over::Idelta) => growth::instant(&self.samples, false),
            (State::Moments(moments), over) => {
                let square = self.scale.steps() * self.scale.steps();
                let variance = moments.variance(self.samples.len()).map(|variance| variance / square);
                let variance = variance.unwrap_or_else(|| line::variance(&self.samples));
                if over == Over::Stddev { variance.sqrt() } else { variance }
            }
            (State::Nothing, Over::Deriv) => line::slope(&self.samples),
            (State::Nothing, Over::Stdvar) => line::variance(&self.samples),
            (State::Nothing, Over::Stddev) => line::variance(&self.samples).sqrt(),
            (State::Nothing, _) => 1.0,
        }
    }
}

fn counts(over: Over, before: f64, after: f64) -> bool {
    match over {
        Over::Resets => after < before,
        _ => before != after && !(before.is_nan() && after.is_nan()),
    }
}
