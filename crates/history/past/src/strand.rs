//! One series over time: its samples in order, and its end. It knows neither labels nor the meaning of values.

use khz_promql::stale;

use crate::clock::milliseconds;
use crate::limits::{PERIODS_MISSED, SILENCE_MIN};

/// The pace of a node's rows, and whether it has fallen silent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// The time of the last row (ms).
    last: Option<i64>,
    /// The last two distances between rows that were not silence.
    distances: [Option<i64>; 2],
    /// The last distance, if it was a silence.
    silence: Option<i64>,
    /// All rows before the first one are known, as far as they still exist.
    knows_earlier: bool,
}

impl Pace {
    /// Notes a row. Returns when the node fell silent before it, if it did.
    pub fn row(&mut self, time: i64) -> Option<i64> {
        let silent = self.silent_by(time);
        let distance = self.last.replace(time).map(|last| time - last);
        let Some(distance) = distance.filter(|distance| *distance > 0) else { return silent };
        if silent.is_none() {
            self.distances = [Some(distance), self.distances[0]];
            self.silence = None;
            return None;
        }
        // Two similar silences in a row mean that the node has become slower.
        let before = self.silence.replace(distance);
        if before.is_some_and(|before| are_alike(before.min(distance), before.max(distance))) {
            self.distances = [Some(distance), before];
        }
        silent
    }

    /// The time of the first row (ms), if earlier rows are needed to decide whether the node is silent when its next row comes at
    /// this time. At least two distances show a period, since a lost row doubles one. `next`: the time of the following row.
    pub fn doubts(&self, time: i64, next: Option<i64>) -> Option<i64> {
        let last = self.last.filter(|_| !self.knows_earlier && self.distances[1].is_none())?;
        let distance = time - last;
        let is_period = |known: i64| known > 0 && are_alike(known, distance);
        let shows = self.distances[0].into_iter().chain(next.map(|next| next - time)).any(is_period);
        (distance > SILENCE_MIN && !shows).then(|| last - self.distances[0].unwrap_or(0))
    }

    /// Notes the rows before the first one, in order.
    pub fn learn(&mut self, earlier: &[i64]) {
        let Some(last) = self.last else { return };
        let known = [self.distances[0].map(|distance| last - distance), Some(last)];
        *self = Pace { knows_earlier: true, ..Pace::default() };
        let first = known.into_iter().flatten().next().unwrap_or(last);
        let earlier = earlier.iter().copied().filter(|time| *time < first);
        earlier.chain(known.into_iter().flatten()).for_each(|time| _ = self.row(time));
    }

    /// Assumes this period if nothing shows one.
    pub fn assume(&mut self, period: i64) {
        if self.period().is_none() {
            self.distances[0] = Some(period);
        }
    }

    /// The shorter of the last two distances: a lost row doubles only one of them.
    pub fn period(&self) -> Option<i64> {
        self.distances.iter().flatten().min().copied()
    }

    /// Notes rows at these times (ns), if the node was not silent between any of them. Otherwise returns false, and the caller must
    /// note them one by one. `distances`: the shortest and the longest distance between these rows, and perhaps others (ms).
    pub fn rows(&mut self, times: &[u64], distances: Option<(i64, i64)>) -> bool {
        let (Some(last), [first, ..]) = (self.last, times) else { return false };
        let to_first = milliseconds(*first) - last;
        let (shortest, longest) = distances.unwrap_or((to_first, to_first));
        let (shortest, longest) = (shortest.min(to_first), longest.max(to_first));
        // No period is shorter than this, so no silence begins earlier.
        let period = self.distances.iter().flatten().fold(shortest, |shortest, known| shortest.min(*known));
        if shortest <= 0 || longest > silence(period) {
            return false;
        }
        let is_shown = self.knows_earlier || self.distances[1].is_some() || longest <= SILENCE_MIN;
        let shows = are_alike(period, longest) && (times.len() > 1 || self.distances[0].is_some());
        if !is_shown && !shows {
            return false;
        }
        let back =
            |rows: usize| times.len().checked_sub(rows).map_or(last, |place| milliseconds(times[place]));
        self.distances = match times.len() {
            1 => [Some(to_first), self.distances[0]],
            _ => [Some(back(1) - back(2)), Some(back(2) - back(3))],
        };
        self.last = Some(back(1));
        self.silence = None;
        true
    }

    /// When the node fell silent, if it did so before this time. Two rows show its period. Before them, it is unknown.
    pub fn silent_by(&self, time: i64) -> Option<i64> {
        let period = self.period()?;
        let end = self.last? + silence(period);
        (end < time).then_some(end)
    }
}

/// How late a node with this period (ms) may be before it counts as missing.
pub(crate) fn silence(period: i64) -> i64 {
    (period * PERIODS_MISSED).max(SILENCE_MIN)
}

/// True if both distances may mean the same period: a clock is adjusted a little, or a row is late.
fn are_alike(shorter: i64, longer: i64) -> bool {
    longer <= shorter.saturating_add(shorter / 2)
}

/// The shortest and the longest distance between two of these times (ns) that follow each other, in ms; `None`: there are no two.
pub(crate) fn distances_ms(times: &[u64]) -> Option<(i64, i64)> {
    let distances = times.windows(2).map(|two| milliseconds(two[1]) - milliseconds(two[0]));
    distances.fold(None, |known, distance| {
        let (shortest, longest) = known.unwrap_or((distance, distance));
        Some((shortest.min(distance), longest.max(distance)))
    })
}

/// Samples of one series that were not passed on yet. Of several samples at one time the last one counts, so the last sample waits
/// for the next one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    pub times: Vec<i64>,
    pub values: Vec<f64>,
    /// The series is present: its last sample is not stale.
    is_there: bool,
}

impl Samples {
    /// Adds a sample; one that is older than the last is left out.
    pub fn push(&mut self, time: i64, value: f64) {
        self.put(time, value);
        self.is_there = true;
    }

    /// Adds samples that are later than all before.
    pub fn extend(&mut self, times: &[i64], values: &[f64]) {
        self.times.extend_from_slice(times);
        self.values.extend_from_slice(values);
        self.is_there |= !times.is_empty();
    }

    /// True if all samples are before this time.
    pub fn is_before(&self, time: i64) -> bool {
        self.times.last().is_none_or(|last| *last < time)
    }

    /// Ends the series, if it is there.
    pub fn end(&mut self, time: i64) {
        if self.is_there {
            self.put(time, stale());
            self.is_there = false;
        }
    }

    fn put(&mut self, time: i64, value: f64) {
        match self.times.last() {
            Some(&last) if last > time => {}
            Some(&last) if last == time => {
                if let Some(old) = self.values.last_mut() {
                    *old = value;
                }
            }
            _ => {
                self.times.push(time);
                self.values.push(value);
            }
        }
    }

    /// Removes all samples, or all but the last one, which may still be replaced.
    pub fn clear(&mut self, is_over: bool) {
        let passed = self.passed(is_over);
        self.times.drain(..passed);
        self.values.drain(..passed);
    }

    /// How many of the samples can be passed on.
    pub fn passed(&self, is_over: bool) -> usize {
        if is_over { self.times.len() } else { self.times.len().saturating_sub(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_promql::is_stale;

    fn silences(rows: &[i64]) -> Vec<i64> {
        let mut pace = Pace::default();
        rows.iter().filter_map(|row| pace.row(*row)).collect()
    }

    #[test]
    fn a_node_is_silent_when_three_of_its_periods_are_missing() {
        assert_eq!(silences(&[0, 1_000, 2_000, 6_900, 7_900]), [0i64; 0], "five seconds are not over");
        assert_eq!(silences(&[0, 1_000, 2_000, 9_000, 10_000]), [7_000]);
        assert_eq!(silences(&[0, 60_000, 120_000, 299_000, 359_000]), [0i64; 0], "it sends each minute");
        assert_eq!(silences(&[0, 60_000, 120_000, 301_000]), [300_000]);
        assert_eq!(silences(&[0, 600_000]), [0i64; 0], "its period is not known");
        assert_eq!(silences(&[0, 1_000, 700_000, 1_400_000]), [6_000, 705_000], "silence is no period");
        let slower = [0, 1_000, 2_000, 17_000, 32_000, 47_000, 62_000];
        assert_eq!(
            silences(&slower),
            [7_000, 22_000],
            "unless it repeats: the agent has begun again, slower"
        );
    }

    #[test]
    fn the_rows_before_the_first_one_are_needed_only_where_nothing_else_shows_the_period() {
        let of = |rows: &[i64]| {
            let mut pace = Pace::default();
            rows.iter().for_each(|row| _ = pace.row(*row));
            pace
        };
        assert_eq!(of(&[1_000]).doubts(6_000, None), None, "nobody is silent for five seconds");
        assert_eq!(of(&[1_000]).doubts(6_001, None), Some(1_000));
        assert_eq!(of(&[1_000]).doubts(16_000, Some(31_000)), None, "it sends each 15 seconds");
        assert_eq!(of(&[1_000]).doubts(16_000, Some(17_000)), Some(1_000));
        assert_eq!(of(&[1_000, 16_000]).doubts(31_000, None), None);
        assert_eq!(of(&[1_000, 16_000]).doubts(50_000, None), Some(1_000));
        assert_eq!(of(&[1_000, 2_000, 3_000]).doubts(50_000, None), None);
        let mut pace = of(&[100_000]);
        pace.learn(&[97_000, 98_000, 99_000, 100_000]);
        assert_eq!((pace.silent_by(105_000), pace.silent_by(106_000)), (None, Some(105_000)));
        assert_eq!(pace.doubts(900_000, None), None, "they are asked for once");
        let mut pace = of(&[100_000, 120_000]);
        pace.learn(&[]);
        assert_eq!(pace.silent_by(900_000), Some(180_000));
    }

    #[test]
    fn rows_that_are_noted_together_leave_what_rows_one_by_one_leave() {
        let rows = |rows: &[u64]| rows.iter().map(|ms| ms * 1_000_000 + 7).collect::<Vec<u64>>();
        for (first, then) in [
            (vec![1_000, 2_000], vec![3_000]),
            (vec![1_000, 2_000], vec![3_000, 4_500]),
            (vec![1_000], vec![61_000, 122_000, 183_000]),
            (vec![1_000, 2_000], vec![3_000, 4_000, 12_000]),
            (vec![1_000, 2_000], vec![2_000, 3_000]),
        ] {
            let mut one_by_one = Pace::default();
            first.iter().for_each(|row| _ = one_by_one.row(*row as i64));
            let mut together = one_by_one;
            let silences = then.iter().filter_map(|row| one_by_one.row(*row as i64)).count();
            let is_silent = silences > 0;
            let times = rows(&then);
            let is_even = then[0] != *first.last().unwrap();
            assert_eq!(
                together.rows(&times, distances_ms(&times)),
                !is_silent && is_even,
                "{first:?} {then:?}"
            );
            if !is_silent && is_even {
                assert_eq!((together.last, together.distances), (one_by_one.last, one_by_one.distances));
            }
            // Wider distances of other rows say nothing, or the same.
            assert!(!Pace { last: Some(0), ..Pace::default() }.rows(&times, Some((0, 90_000))));
        }
    }

    #[test]
    fn of_samples_at_one_time_the_last_one_counts_and_an_end_ends_once() {
        let mut samples = Samples::default();
        samples.end(1);
        samples.push(5, 1.0);
        samples.push(5, 2.0);
        samples.push(4, 9.0);
        assert_eq!(
            (samples.times.clone(), samples.values.clone(), samples.passed(false)),
            (vec![5], vec![2.0], 0)
        );
        samples.end(6);
        samples.end(7);
        assert_eq!(samples.times, [5, 6]);
        assert!(is_stale(samples.values[1]));
        samples.clear(false);
        assert_eq!((samples.times.len(), samples.passed(true)), (1, 1));
    }
}
