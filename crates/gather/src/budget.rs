//! What a source may cost: a share of one core. One that would exceed it is gathered less often, and says so.
//! Pure arithmetic.

use khz_model::Nanos;

/// The mean follows the newest gathers with this weight (1/16).
const WEIGHT: u64 = 16;

/// A gather that took longer than this many times the mean was interrupted by somebody else: it counts as
/// that much, so that one stolen millisecond does not slow a source down.
const OUTLIER: u64 = 4;

/// A source is not held back before it was gathered this often: the first gather opens the file and finds the layout, the
/// next ones find cold caches, and on a busy machine each of them may be interrupted. Of all of them the shortest counts.
/// What they cost has a limit: they are this number.
const FIRST: u8 = 8;

/// The cost of one source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Share of a core, in millionths; `None` for no limit.
    share: Option<u64>,
    /// Mean time of a gather, ns.
    mean: u64,
    /// How many of the first gathers there were.
    first: u8,
}

impl Budget {
    /// `share` of one core: 0.05 is 5 %.
    pub fn new(share: f64) -> Self {
        Budget { share: Some((share * 1e6).max(1.0) as u64), mean: 0, first: 0 }
    }

    pub fn unlimited() -> Self {
        Budget { share: None, mean: 0, first: 0 }
    }

    /// A gather took that long.
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

    /// What a gather takes; `None`: too few have been seen.
    pub fn known_mean(&self) -> Option<Nanos> {
        (self.first >= FIRST).then_some(Nanos(self.mean))
    }

    /// The limit as a share of a core; `None` for no limit.
    pub fn share(&self) -> Option<f64> {
        self.share.map(|share| share as f64 / 1e6)
    }

    /// Shortest time between two gathers that the budget allows; none while the first gathers last.
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
        assert_eq!(budget.period_min(), Nanos(0), "opening a file says nothing about reading it");
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
