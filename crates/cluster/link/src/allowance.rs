//! How often a peer may send something: a number in one burst, and a rate in the long run.

use khz_model::Nanos;

/// How many more may be sent: `AT_ONCE` in one burst, and `A_SECOND` in the long run. The method is GCRA, which needs only
/// one number of state: a peer that has proved nothing may make us hold it.
#[derive(Debug)]
pub struct Allowance<const AT_ONCE: u64, const A_SECOND: u64> {
    /// The time at which everything sent so far would have been sent, at a rate of `A_SECOND`.
    until: Nanos,
}

impl<const AT_ONCE: u64, const A_SECOND: u64> Allowance<AT_ONCE, A_SECOND> {
    /// The time after which one more is allowed.
    const EACH: u64 = Nanos::SECOND.0 / A_SECOND;

    /// Nothing was sent yet.
    pub fn full(now: Nanos) -> Self {
        Allowance { until: now }
    }

    /// Takes one, if one is allowed now.
    pub fn take(&mut self, now: Nanos) -> bool {
        let until = self.until.max(now).0 + Self::EACH;
        let may = until - now.0 <= AT_ONCE * Self::EACH;
        if may {
            self.until = Nanos(until);
        }
        may
    }

    /// When one more is allowed; `None`: now.
    pub fn next(&self, now: Nanos) -> Option<Nanos> {
        let ready = (self.until.0 + Self::EACH).saturating_sub(AT_ONCE * Self::EACH);
        (ready > now.0).then_some(Nanos(ready))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_and_later_ones_at_the_rate_whatever_the_pauses() {
        let (mut allowance, mut now, mut said) = (Allowance::<8, 4>::full(Nanos(0)), Nanos(0), 0);
        while now < Nanos::from_secs(10) {
            if allowance.take(now) {
                said += 1;
                continue;
            }
            let next = allowance.next(now).expect("it is used up");
            assert!(next > now);
            now = next;
        }
        assert_eq!(said, 8 + 10 * 4 - 1);
        let later = Nanos::from_secs(100);
        assert_eq!(allowance.next(later), None);
        assert_eq!((0..20).filter(|_| allowance.take(later)).count(), 8);
    }
}
