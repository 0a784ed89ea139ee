//! The ticks of a lane: at multiples of its period in wall-clock time, so that all nodes sample together, but
//! counted on the clock that never jumps. Pure: time comes in as an argument.

use khz_model::{Nanos, Stamp};

/// A tick is late if it starts later than a tenth of its period. These limits bound that tenth: every machine
/// has small delays, and a delay of a hundredth of a second always counts.
const LATE_MIN: Nanos = Nanos::from_micros(100);
const LATE_MAX: Nanos = Nanos::from_millis(10);

/// The ticks of one lane.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    period: Nanos,
    next: Nanos,
    /// The ticks that were met, in time or late.
    pub met: u64,
    /// The ticks that were met late.
    pub late: u64,
    /// The ticks that were missed.
    pub skipped: u64,
}

impl Ticks {
    /// Ticks of this period; the first is at the next multiple.
    pub fn new(period: Nanos, now: Stamp) -> Self {
        Ticks { period, next: next_multiple(period, now), met: 0, late: 0, skipped: 0 }
    }

    /// No ticks: rows are written on demand.
    pub fn never() -> Self {
        Ticks { period: Nanos(0), next: Nanos(u64::MAX), met: 0, late: 0, skipped: 0 }
    }

    /// The time between two ticks.
    pub fn period(&self) -> Nanos {
        self.period
    }

    /// The time of the next tick, on CLOCK_BOOTTIME.
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Changes the period from now on; the counts continue.
    pub fn set_period(&mut self, period: Nanos, now: Stamp) {
        self.period = period;
        self.next = next_multiple(period, now);
    }

    /// True when a tick is due; counts it, and schedules the next one after `now`.
    pub fn due(&mut self, now: Stamp) -> bool {
        if now.boot < self.next {
            return false;
        }
        let behind = now.boot.since(self.next);
        // Skip the periods that have passed; never make them up in a burst.
        self.skipped += behind.0 / self.period.0;
        let behind = behind.0 % self.period.0;
        self.met += 1;
        self.late += u64::from(behind > (self.period.0 / 10).clamp(LATE_MIN.0, LATE_MAX.0));
        self.next = next_multiple(self.period, now);
        true
    }
}

/// The next multiple of `period` in real time after `now`, on CLOCK_BOOTTIME. If the wall clock was set, the
/// grid moves with it. The step to the next tick is between half and one and a half periods.
fn next_multiple(period: Nanos, now: Stamp) -> Nanos {
    let into = now.real().0 % period.0;
    let rest = period.0 - into;
    // A clock that was trimmed back must not meet the same tick twice.
    let rest = if rest < period.0 / 2 && into > 0 && rest < 1_000 { rest + period.0 } else { rest };
    Nanos(now.boot.0 + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(boot: u64, offset: i64) -> Stamp {
        Stamp { boot: Nanos(boot), real_offset: offset }
    }

    #[test]
    fn ticks_stand_at_multiples_of_the_period_in_wall_clock_time() {
        let ticks = Ticks::new(Nanos(10 * MS), at(1_003 * MS, 4 * MS as i64));
        assert_eq!((ticks.next().0 + 4 * MS) % (10 * MS), 0);
        assert_eq!(ticks.next(), Nanos(1_006 * MS));
    }

    #[test]
    fn a_late_tick_is_counted_and_does_not_move_the_grid() {
        let mut ticks = Ticks::new(Nanos(10 * MS), at(0, 0));
        assert!(!ticks.due(at(9 * MS, 0)));
        assert!(ticks.due(at(10 * MS + 50_000, 0)));
        assert_eq!((ticks.met, ticks.late, ticks.next()), (1, 0, Nanos(20 * MS)));
        assert!(ticks.due(at(22 * MS, 0)));
        assert_eq!((ticks.met, ticks.late, ticks.skipped, ticks.next()), (2, 1, 0, Nanos(30 * MS)));
    }

    #[test]
    fn missed_ticks_are_skipped_and_counted_never_made_up() {
        let mut ticks = Ticks::new(Nanos(10 * MS), at(0, 0));
        assert!(ticks.due(at(57 * MS, 0)));
        assert_eq!((ticks.met, ticks.skipped, ticks.next()), (1, 4, Nanos(60 * MS)));
        assert!(!ticks.due(at(58 * MS, 0)));
    }

    #[test]
    fn an_hour_forth_or_back_on_the_wall_clock_loses_no_tick_and_adds_none() {
        let hour = 3_600_000 * MS as i64;
        for jump in [hour, -hour] {
            let mut ticks = Ticks::new(Nanos(10 * MS), at(0, 2 * hour));
            let (mut now, mut met) = (0, 0);
            while now < 1_000 * MS {
                let offset = if now > 500 * MS { 2 * hour + jump } else { 2 * hour };
                met += u64::from(ticks.due(at(now, offset)));
                now += MS / 4;
            }
            assert_eq!((met, ticks.late, ticks.skipped), (99, 0, 0), "jump {jump}");
        }
    }

    #[test]
    fn a_trimmed_clock_does_not_meet_a_tick_twice() {
        let mut ticks = Ticks::new(Nanos(MS), at(0, 0));
        assert!(ticks.due(at(MS, 0)));
        // The clock was slewed back by 200 ns: the same multiple lies ahead again.
        let mut ticks = Ticks { next: Nanos(2 * MS), ..ticks };
        assert!(ticks.due(at(2 * MS, -200)));
        assert!(ticks.next() > Nanos(2 * MS + MS / 2));
    }
}
