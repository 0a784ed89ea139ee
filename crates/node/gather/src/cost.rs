//! The cost of the gather thread, measured once a second, and the slowdown of fast lanes that keeps it below the CPU
//! ceiling (`cpu_max`). Pure: times come in as arguments.

use khz_model::{Nanos, Stamp};

/// The time between two measurements of the thread's CPU time.
pub(crate) const LOOK_EVERY: Nanos = Nanos::SECOND;

/// The largest slowdown.
const SLOWDOWN_MAX: u64 = 1_024;

/// If the sources alone would take this many times the ceiling, the thread slows down at once, without a measurement.
/// A smaller excess proves nothing: times of sources are wall-clock times, which include other programs' work.
const SURELY_ABOVE: f64 = 1.5;

/// Below this part of the ceiling the thread runs faster again: even twice the cost is then below the
/// ceiling.
const WELL_BELOW: f64 = 0.45;

/// Above the ceiling the thread runs slower after two measurements in a row, because one busy second of the
/// machine is no reason. Above this many times the ceiling, one measurement is enough.
const FAR_ABOVE: f64 = 2.0;

/// The thread's measurements.
#[derive(Debug)]
pub(crate) struct Cost {
    next: Nanos,
    /// When the last measurement was made; `None` before the first.
    since: Option<Nanos>,
    cpu: Nanos,
    ticks: u64,
    /// The ticks of the last second at which some lane was due, in thousandths of a hertz.
    pub rate_millihertz: u64,
    /// How many times slower than asked the fast lanes run.
    pub slowdown: u64,
    /// How often the thread woke up.
    pub wakeups: u64,
    /// True if the last measurement was above the ceiling.
    was_above: bool,
}

/// A change of the thread's pace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// The share of one core that the thread took.
    pub share: f64,
    /// How many times slower than asked it must run from now on.
    pub slowdown: u64,
}

impl Cost {
    pub fn new(now: Nanos) -> Self {
        let next = Nanos(now.0 + LOOK_EVERY.0);
        Cost {
            next,
            since: None,
            cpu: Nanos(0),
            ticks: 0,
            rate_millihertz: 0,
            slowdown: 1,
            wakeups: 0,
            was_above: false,
        }
    }

    /// True when a measurement is due, once a second.
    #[inline]
    pub fn is_due(&self, now: Stamp) -> bool {
        now.boot >= self.next
    }

    /// Takes the thread's CPU time and its number of ticks; returns a pace if the pace must change.
    pub fn look(&mut self, now: Nanos, cpu: Nanos, ticks: u64, ceiling: f64) -> Option<Pace> {
        let since = self.since.replace(now);
        let (cpu_before, ticks_before) = (self.cpu, self.ticks);
        (self.cpu, self.ticks) = (cpu, ticks);
        self.next = Nanos(now.0 + LOOK_EVERY.0);
        let elapsed = now.since(since?).0.max(1);
        let met = ticks.saturating_sub(ticks_before);
        self.rate_millihertz = (u128::from(met) * 1_000_000_000_000 / u128::from(elapsed)) as u64;
        let share = cpu.since(cpu_before).0 as f64 / elapsed as f64;
        let was_above = std::mem::replace(&mut self.was_above, share > ceiling);
        let slowdown = match share {
            above if above > ceiling * FAR_ABOVE || (above > ceiling && was_above) => {
                (self.slowdown * 2).min(SLOWDOWN_MAX)
            }
            below if below < ceiling * WELL_BELOW => (self.slowdown / 2).max(1),
            _ => self.slowdown,
        };
        let changed = slowdown != self.slowdown;
        self.slowdown = slowdown;
        changed.then_some(Pace { share, slowdown })
    }
}

impl Cost {
    /// Checks a new demand. `expected` returns the share that the sources will take at a slowdown. If that is
    /// surely too much, the thread slows down now, before a measurement shows it.
    pub fn foresee(&mut self, expected: impl Fn(u64) -> f64, ceiling: f64) -> Option<Pace> {
        let before = self.slowdown;
        while self.slowdown < SLOWDOWN_MAX && expected(self.slowdown) > ceiling * SURELY_ABOVE {
            self.slowdown *= 2;
        }
        (self.slowdown != before).then(|| Pace { share: expected(before), slowdown: self.slowdown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// The slowdown after each second, at these percentages of a core and a ceiling of 10.
    fn slowdowns(percents: &[u64]) -> Vec<u64> {
        let (mut cost, mut cpu) = (Cost::new(Nanos(0)), 0);
        cost.look(Nanos(0), Nanos(0), 0, 0.1);
        let mut look = |(second, percent): (usize, &u64)| {
            cpu += percent * S / 100;
            cost.look(Nanos((second as u64 + 1) * S), Nanos(cpu), 0, 0.1);
            cost.slowdown
        };
        percents.iter().enumerate().map(&mut look).collect()
    }

    #[test]
    fn two_looks_above_the_ceiling_halve_the_pace_and_one_does_not() {
        assert_eq!(slowdowns(&[11, 9, 11, 9, 11, 12]), [1, 1, 1, 1, 1, 2]);
    }

    #[test]
    fn far_above_the_ceiling_one_look_is_enough() {
        assert_eq!(slowdowns(&[21, 11, 11]), [2, 4, 8]);
    }

    #[test]
    fn it_becomes_faster_again_as_soon_as_twice_its_cost_is_below_the_ceiling() {
        assert_eq!(slowdowns(&[21, 6, 5, 4, 8]), [2, 2, 2, 1, 1]);
    }

    #[test]
    fn what_was_before_the_first_look_counts_for_nothing() {
        let mut cost = Cost::new(Nanos(0));
        assert_eq!(cost.look(Nanos(S), Nanos(S), 0, 0.1), None);
        cost.look(Nanos(2 * S), Nanos(S), 1_000, 0.1);
        assert_eq!((cost.slowdown, cost.rate_millihertz), (1, 1_000_000));
    }

    #[test]
    fn what_is_surely_too_much_is_slowed_at_once_and_what_may_fit_is_tried() {
        let at = |share: f64| move |slowdown: u64| share / slowdown as f64;
        let mut cost = Cost::new(Nanos(0));
        assert_eq!(cost.foresee(at(0.1), 0.1), None);
        assert_eq!(cost.foresee(at(0.14), 0.1), None, "the time may include another program's work");
        assert_eq!(cost.foresee(at(0.7), 0.1), Some(Pace { share: 0.7, slowdown: 8 }));
        assert_eq!(cost.foresee(at(0.7), 0.1), None, "it runs slower already");
        let mut cost = Cost::new(Nanos(0));
        let hopeless = cost.foresee(|_| 1.0, 0.001);
        assert_eq!(hopeless.map(|pace| pace.slowdown), Some(SLOWDOWN_MAX), "it ends");
    }
}
