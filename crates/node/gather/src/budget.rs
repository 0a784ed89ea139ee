//! The budget of a source: a share of one core. A source that would exceed it is gathered less often. Pure
//! arithmetic.

use khz_model::Nanos;

/// The weight of the mean: a new gather counts 1/16.
const WEIGHT: u64 = 16;

/// A gather that took longer than this many times the mean was probably interrupted. It counts only this
/// much, so that one stolen millisecond does not slow a source down.
const OUTLIER: u64 = 4;

/// A source is not held back before this many gathers. The first gather opens the file and finds the layout,
/// the next ones find cold caches, and a busy machine may interrupt any gather. So only the shortest one
/// counts. The small number of these gathers bounds their cost.
const FIRST: u8 = 8;

/// What holds for how often a source is gathered, beside its rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GatherLimits {
    /// The share of one core that it may cost.
    pub share: f64,
    /// The shortest time between two gathers at the present cost; `None`: there was no gather so
    /// far.
    pub period_min: Option<Nanos>,
}

/// The time between two gathers of this cost that a share of a core allows.
pub(crate) fn apart(cost: Nanos, share: f64) -> Nanos {
    Nanos((cost.0 as f64 / share) as u64)
}

/// A share of a core in percent, as exactly as budgets are kept.
pub fn percent(share: f64) -> f64 {
    (share * 1e6).round() / 1e4
}

/// The cost of one source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// The share of a core, in millionths; `None` for no limit.
    share: Option<u64>,
    /// The mean time of a gather, ns.
    mean: u64,
    /// The number of gathers, up to [`FIRST`].
    first: u8,
}

impl Budget {
    /// A budget of `share` of one core: 0.05 is 5 %.
    pub fn new(share: f64) -> Self {
        Budget { share: Some((share * 1e6).max(1.0) as u64), mean: 0, first: 0 }
    }

    pub fn unlimited() -> Self {
        Budget { share: None, mean: 0, first: 0 }
    }

    /// Counts a gather that took `took`.
    #[inline]
    pub fn spend(&mut self, took: Nanos) {
        if self.first < FIRST {
            let shortest = if self.first == 0 { took.0 } else { self.mean.min(took.0) };
            self.mean = shortest.max(1);
            self.first += 1;
            return;
        }
        let took = took.0.min(self.mean * OUTLIER);
        self.mean = (self.mean * (WEIGHT - 1) + took).div_ceil(WEIGHT);
    }

    /// The mean time of a gather; `None` before [`FIRST`] gathers.
    pub fn known_mean(&self) -> Option<Nanos> {
        (self.first >= FIRST).then_some(Nanos(self.mean))
    }

    /// The limit as a share of a core; `None` for no limit.
    pub fn share(&self) -> Option<f64> {
        self.share.map(|share| share as f64 / 1e6)
    }

    /// The shortest time between two gathers that the budget allows; 0 before [`FIRST`] gathers.
    #[inline]
    pub fn period_min(&self) -> Nanos {
        match self.share {
            Some(share) if self.first == FIRST => Nanos(self.mean.saturating_mul(1_000_000) / share),
            _ => Nanos(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dear_source_is_slowed_to_its_share() {
        let mut budget = Budget::new(0.05);
        (0..200).for_each(|_| budget.spend(Nanos::from_micros(100)));
        assert_eq!(budget.period_min(), Nanos::from_millis(2));
    }

    #[test]
    fn one_interrupted_gather_slows_nothing() {
        let mut budget = Budget::new(0.05);
        (0..200).for_each(|_| budget.spend(Nanos::from_micros(10)));
        budget.spend(Nanos::from_millis(50));
        assert!(budget.period_min() < Nanos::from_micros(300));
    }

    #[test]
    fn an_interrupted_first_gather_slows_nothing() {
        let mut budget = Budget::new(0.05);
        budget.spend(Nanos::from_millis(30));
        assert_eq!(
            budget.period_min(),
            Nanos(0),
            "the time to open a file does not predict the time to read it"
        );
        (0..7).for_each(|_| budget.spend(Nanos::from_micros(10)));
        assert_eq!(budget.period_min(), Nanos::from_micros(200));
    }

    #[test]
    fn a_source_that_is_dear_from_the_start_is_held_back_after_its_first_gathers() {
        let mut budget = Budget::new(0.05);
        for _ in 0..FIRST {
            assert_eq!(budget.period_min(), Nanos(0));
            budget.spend(Nanos::from_millis(5));
        }
        assert_eq!(budget.period_min(), Nanos::from_millis(100));
    }

    #[test]
    fn it_recovers_when_the_source_gets_cheaper() {
        let mut budget = Budget::new(0.01);
        (0..100).for_each(|_| budget.spend(Nanos::from_millis(5)));
        assert!(budget.period_min() > Nanos::from_millis(400));
        (0..200).for_each(|_| budget.spend(Nanos::from_micros(5)));
        assert!(budget.period_min() < Nanos::from_millis(1));
    }
}
