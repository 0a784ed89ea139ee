//! How much a series has grown in a window, extrapolated to its bounds as Prometheus does it.

use std::collections::VecDeque;

use khz_model::ValueType;

use super::samples::Samples;
use super::sum::ExactSum;
use crate::arithmetic::Compensated;
use crate::number::{ABSENT, Scale};

/// The resets of a counter within the window.
#[derive(Debug)]
pub(super) struct Growth {
    is_counter: bool,
    resets: VecDeque<Reset>,
    /// The sum of all resets; `None` for doubles: their resets are added up at each row, since subtracting doubles loses
    /// digits.
    lost: Option<ExactSum>,
}

/// A reset: the time of the sample after it, and the one before it.
#[derive(Clone, Copy, Debug)]
struct Reset {
    time: i64,
    before: f64,
    bits: u64,
}

impl Growth {
    pub fn new(is_counter: bool, value_type: ValueType, rows: usize) -> Self {
        let room = if is_counter { rows.max(1) } else { 0 };
        let lost = (value_type != ValueType::Float).then(|| ExactSum::new(value_type));
        Growth { is_counter, resets: VecDeque::with_capacity(room), lost }
    }

    /// Takes a sample; `before` is the one before it, and its bits.
    pub fn add(&mut self, time: i64, before: Option<(f64, u64)>, value: f64) {
        if let Some((before, bits)) = before.filter(|(before, _)| self.is_counter && value < *before) {
            self.resets.push_back(Reset { time, before, bits });
            if let Some(lost) = &mut self.lost {
                lost.add(bits);
            }
        }
    }

    /// Forgets resets before this sample, the oldest now.
    pub fn begin_at(&mut self, oldest: Option<i64>) {
        let is_over = |reset: &Reset| oldest.is_none_or(|oldest| reset.time <= oldest);
        while let Some(reset) = self.resets.front().copied().filter(is_over) {
            self.resets.pop_front();
            if let Some(lost) = &mut self.lost {
                lost.remove(reset.bits);
            }
        }
    }

    fn lost(&self, scale: &Scale) -> f64 {
        if let Some(lost) = &self.lost {
            return lost.total(scale);
        }
        let mut lost = Compensated::default();
        self.resets.iter().for_each(|reset| lost.add(reset.before));
        lost.total()
    }

    /// The growth in the window, divided by this number of parts.
    pub fn extrapolated(
        &self,
        (first, last, count): ((i64, f64), (i64, f64), f64),
        (after, end): (i64, i64),
        parts: f64,
        scale: &Scale,
    ) -> f64 {
        if count < 2.0 {
            return ABSENT;
        }
        let grown = match self.resets.is_empty() {
            true => last.1 - first.1,
            false => last.1 - first.1 + self.lost(scale),
        };
        // In seconds, and in this order, as the evaluator computes it: bit for bit the same.
        let seconds = |from: i64, to: i64| to.wrapping_sub(from) as f64 / 1e9;
        let covered = seconds(first.0, last.0);
        let (mut to_start, mut to_end) = (seconds(after, first.0), seconds(last.0, end));
        // Where samples are about this far apart, only the exact words decide.
        if to_start.max(to_end) * (count - 1.0) >= covered * 1.099 {
            let between = covered / (count - 1.0);
            // Samples that are this close to a bound of the window are taken to go on up to it.
            let near = between * 1.1;
            if to_start >= near {
                to_start = between / 2.0;
            }
            if to_end >= near {
                to_end = between / 2.0;
            }
        }
        // A counter was never below zero.
        if self.is_counter && grown > 0.0 && first.1 >= 0.0 {
            to_start = to_start.min(covered * (first.1 / grown));
        }
        grown * ((covered + to_start + to_end) / covered / parts)
    }
}

/// The difference of the last two samples; of a counter, in a second.
pub(super) fn instant(samples: &Samples, is_rate: bool) -> f64 {
    let mut newest = samples.iter().rev();
    let (Some((later, last)), Some((earlier, before))) = (newest.next(), newest.next()) else {
        return ABSENT;
    };
    if !is_rate {
        return last - before;
    }
    let elapsed = later.wrapping_sub(earlier);
    if elapsed == 0 {
        return ABSENT;
    }
    // After a reset of the counter, all that it shows came since.
    let grown = if last < before { last } else { last - before };
    grown / (elapsed as f64 / 1e9)
}
