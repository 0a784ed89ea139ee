//! The summary of a series over some time, in place of its samples. It is all that is left of old times, and is enough for most
//! functions of ranges.

/// The pause between the samples of a long summary (ms): shorter than any look-back.
const SAMPLE_EVERY: i64 = 60_000;

/// The summary of consecutive samples of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The time (ms since 1970) and the value of the first sample.
    pub first: (i64, f64),
    /// Those of the last one.
    pub last: (i64, f64),
    /// How many samples; at least one.
    pub count: u64,
    /// The lowest value.
    pub lowest: f64,
    /// The highest value.
    pub highest: f64,
    /// The sum of all values.
    pub sum: f64,
    /// The sum of the values before each reset.
    pub correction: f64,
    /// How many times a value was lower than the one before.
    pub resets: u64,
    /// How many times a value differed from the one before.
    pub changes: u64,
}

impl Summary {
    /// The part after one time and up to another; `None` if there is none. A summary that does not lie whole in this time is
    /// divided as if its samples were evenly spread in time, and its values rose or fell evenly.
    pub(crate) fn within(&self, after: i64, end: i64) -> Option<Summary> {
        if self.first.0 > after && self.last.0 <= end {
            return Some(*self);
        }
        if self.last.0 <= after || self.first.0 > end {
            return None;
        }
        let last = self.count.saturating_sub(1);
        let pause = self.last.0.saturating_sub(self.first.0) as f64 / last.max(1) as f64;
        let time = |number: u64| match number == last {
            true => self.last.0,
            false => self.first.0.saturating_add((pause * number as f64) as i64),
        };
        // The first one that is after a time.
        let place = |limit: i64| {
            let guess = (limit.saturating_sub(self.first.0) as f64 / pause.max(f64::MIN_POSITIVE)) as u64;
            let near = guess.saturating_sub(1).min(last)..=last;
            near.into_iter().find(|&number| time(number) > limit).unwrap_or(last + 1)
        };
        let (from, to) = (if self.first.0 > after { 0 } else { place(after) }, place(end).checked_sub(1)?);
        (from <= to).then(|| self.part(from, to, time))
    }

    /// The samples from one number to another, both included.
    fn part(&self, from: u64, to: u64, time: impl Fn(u64) -> i64) -> Summary {
        let last = self.count - 1;
        let value = |number: u64| match number {
            0 => self.first.1,
            number if number == last => self.last.1,
            number => self.first.1 + (self.last.1 - self.first.1) * (number as f64 / last as f64),
        };
        let (first, end, count) = ((time(from), value(from)), (time(to), value(to)), to - from + 1);
        let share = count as f64 / self.count as f64;
        // The changes and resets between samples.
        let pairs = (count - 1) as f64 / last as f64;
        if count == 1 {
            let (lowest, highest, sum) = (first.1, first.1, first.1);
            return Summary {
                first,
                last: end,
                count,
                lowest,
                highest,
                sum,
                correction: 0.0,
                resets: 0,
                changes: 0,
            };
        }
        let sum = match (from, to) {
            // A bound that cuts off one sample, as bounds on whole minutes do: the rest is known.
            (1, to) if to == last => self.sum - self.first.1,
            (0, to) if to + 1 == last => self.sum - self.last.1,
            _ => self.sum * share,
        };
        let some = |number: u64| (number as f64 * pairs).round() as u64;
        Summary {
            first,
            last: end,
            count,
            sum,
            correction: self.correction * pairs,
            resets: some(self.resets),
            changes: some(self.changes),
            ..*self
        }
    }

    /// Samples that show the same: the first, the last and, of a long time, one each minute between them. Values that only
    /// rise rise evenly; others are the mean.
    pub fn samples(&self) -> impl Iterator<Item = (i64, f64)> {
        let Summary { first, last, .. } = *self;
        let rises = self.correction == 0.0 && first.1 == self.lowest && last.1 == self.highest;
        let mean = self.sum / self.count as f64;
        let length = last.0.saturating_sub(first.0);
        let steps = if self.count > 2 { length.saturating_sub(1) / SAMPLE_EVERY } else { 0 };
        let between = (1..=steps).map(move |step| {
            let passed = step * SAMPLE_EVERY;
            let risen = first.1 + (last.1 - first.1) * (passed as f64 / length as f64);
            (first.0 + passed, if rises { risen } else { mean })
        });
        std::iter::once(first).chain(between).chain((last.0 > first.0).then_some(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The summary of samples.
    fn of(samples: &[(i64, f64)]) -> Summary {
        let values = || samples.iter().map(|(_, value)| *value);
        let pairs = || samples.windows(2).map(|two| (two[0].1, two[1].1));
        Summary {
            first: samples[0],
            last: samples[samples.len() - 1],
            count: samples.len() as u64,
            lowest: values().fold(f64::INFINITY, f64::min),
            highest: values().fold(f64::NEG_INFINITY, f64::max),
            sum: values().sum(),
            correction: pairs().filter(|(before, after)| after < before).map(|(before, _)| before).sum(),
            resets: pairs().filter(|(before, after)| after < before).count() as u64,
            changes: pairs().filter(|(before, after)| after != before).count() as u64,
        }
    }

    proptest! {
        #[test]
        fn a_division_loses_and_invents_no_sample(
            count in 1i64..200, pause in 1i64..5_000, begin in -10_000i64..10_000, at in -20_000i64..1_100_000,
        ) {
            let samples: Vec<(i64, f64)> = (0..count).map(|n| (begin + n * pause, (n * 3) as f64)).collect();
            let whole = of(&samples);
            let (before, after) = (whole.within(i64::MIN, at), whole.within(at, i64::MAX));
            let earlier = samples.iter().filter(|(time, _)| *time <= at).count();
            prop_assert_eq!(before.map_or(0, |part| part.count as usize), earlier);
            prop_assert_eq!(after.map_or(0, |part| part.count as usize), samples.len() - earlier);
            // Values that rise evenly are divided exactly; the sums are not, but nothing is lost.
            if let (Some(before), Some(after)) = (before, after) {
                prop_assert_eq!(before.last.0, samples[earlier - 1].0);
                prop_assert!((before.last.1 - samples[earlier - 1].1).abs() < 1e-6);
                prop_assert_eq!(after.first.0, samples[earlier].0);
            }
        }
    }

    #[test]
    fn a_bound_on_the_first_or_before_the_last_sample_is_exact() {
        let samples: Vec<(i64, f64)> = (0..60).map(|n| (n * 1_000, ((n * 7) % 11) as f64)).collect();
        let whole = of(&samples);
        let (one, rest) = (whole.within(-60_000, 0).unwrap(), whole.within(0, 60_000).unwrap());
        assert_eq!((one.count, one.sum, one.highest), (1, samples[0].1, samples[0].1));
        assert_eq!((rest.count, rest.sum, rest.first.0), (59, whole.sum - samples[0].1, 1_000));
        let rest = whole.within(-1, 58_000).unwrap();
        assert_eq!((rest.count, rest.sum), (59, whole.sum - samples[59].1));
        assert_eq!((whole.within(59_000, i64::MAX), whole.within(-5, -1)), (None, None));
    }

    #[test]
    fn an_hour_becomes_samples_that_no_look_back_misses() {
        let counter = of(&(0..3_600).map(|n| (n * 1_000, n as f64)).collect::<Vec<_>>());
        let samples: Vec<(i64, f64)> = counter.samples().collect();
        assert_eq!((samples.len(), samples[0], samples[60]), (61, (0, 0.0), (3_599_000, 3_599.0)));
        assert_eq!(samples[1], (60_000, 60.0));
        let gauge = of(&(0..3_600).map(|n| (n * 1_000, (n % 2) as f64)).collect::<Vec<_>>());
        assert_eq!(gauge.samples().nth(1), Some((60_000, 0.5)));
        assert_eq!(of(&[(7, 1.0)]).samples().collect::<Vec<_>>(), [(7, 1.0)]);
    }
}
