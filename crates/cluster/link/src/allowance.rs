//! How often something may be said: so many times at once, and so many a second in the long run.

use khz_model::Nanos;

/// What may be said still: `AT_ONCE`, and `A_SECOND` in the long run. It is one number, since each connection of a stranger has it.
#[derive(Debug)]
pub struct Allowance<const AT_ONCE: u64, const A_SECOND: u64> {
    /// When all that was said would have been said at that many a second.
    until: Nanos,
}

impl<const AT_ONCE: u64, const A_SECOND: u64> Allowance<AT_ONCE, A_SECOND> {
    /// Time in which one more is allowed.
    const EACH: u64 = Nanos::SECOND.0 / A_SECOND;

    /// Nothing was said yet.
    pub fn full(now: Nanos) -> Self {
        Allowance { until: now }
    }

    /// Takes one, if there is one.
    pub fn take(&mut self, now: Nanos) -> bool {
        let until = self.until.max(now).0 + Self::EACH;
        let may = until - now.0 <= AT_ONCE * Self::EACH;
        if may {
            self.until = Nanos(until);
        }
        may
    }

    /// When there is something again; `None`: there is.
    pub fn next(&self, now: Nanos) -> Option<Nanos> {
        let ready = (self.until.0 + Self::EACH).saturating_sub(AT_ONCE * Self::EACH);
        (ready > now.0).then_some(Nanos(ready))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_go_at_once_and_so_many_a_second_whatever_the_pauses() {
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
