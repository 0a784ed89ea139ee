//! How fast missing blocks are sent. The rate begins low, doubles while the hub answers quickly, and halves when it does not,
//! so that thousands of agents that come back at once do not overload a hub.

use khz_model::Nanos;

use crate::limits::{PAST_RATE, PAST_RATE_FIRST};

/// The lowest rate.
const SLOWEST: u64 = 16 << 10;
/// If a Beat is answered within the first time, the rate doubles; if the answer takes longer than the second time,
/// the rate halves.
const AT_EASE: Nanos = Nanos::from_millis(100);
const BUSY: Nanos = Nanos::from_millis(300);
/// Missing blocks go in this many bursts a second.
const BURSTS_A_SECOND: u64 = 20;

/// A budget of bytes that fills with time.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Bytes a second.
    rate: u64,
    /// Bytes that may be sent now; negative after a block that was larger than the rest.
    budget: i64,
    filled: Nanos,
}

impl Pace {
    pub fn new(now: Nanos) -> Self {
        Pace { rate: PAST_RATE_FIRST, budget: 0, filled: now }
    }

    /// Fills the budget up to `now`. Returns true when bytes may be sent.
    pub fn may_send(&mut self, now: Nanos) -> bool {
        let passed = now.since(self.filled).0.min(1_000_000_000);
        let gained = self.rate * passed / 1_000_000_000;
        if gained > 0 {
            self.budget = (self.budget + gained as i64).min(self.burst() * 2);
            self.filled = now;
        }
        self.budget > 0
    }

    fn burst(&self) -> i64 {
        (self.rate / BURSTS_A_SECOND) as i64
    }

    /// This many bytes were sent.
    pub fn spend(&mut self, bytes: usize) {
        self.budget -= bytes as i64;
    }

    /// When there is budget for a burst again.
    pub fn ready_at(&self) -> Nanos {
        let missing = (self.burst() - self.budget).max(1) as u64;
        Nanos(self.filled.0 + (missing * 1_000_000_000).div_ceil(self.rate))
    }

    /// A Beat was answered after this time.
    pub fn answered(&mut self, took: Nanos) {
        if took <= AT_EASE {
            self.rate = (self.rate * 2).min(PAST_RATE);
        } else if took > BUSY {
            self.rate = (self.rate / 2).max(SLOWEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes sent in this many seconds in blocks of 16 KiB.
    fn sent(pace: &mut Pace, from: Nanos, seconds: u64) -> u64 {
        let (mut now, mut bytes) = (from, 0);
        while now < Nanos(from.0 + seconds * 1_000_000_000) {
            while pace.may_send(now) {
                pace.spend(16 << 10);
                bytes += 16 << 10;
            }
            assert!(pace.ready_at() > now);
            now = pace.ready_at();
        }
        bytes
    }

    #[test]
    fn it_sends_at_its_rate_and_no_faster() {
        let mut pace = Pace::new(Nanos(0));
        let first = sent(&mut pace, Nanos(0), 10);
        assert!((550 << 10..=700 << 10).contains(&first), "{first}");
        (0..20).for_each(|_| pace.answered(Nanos(0)));
        let fast = sent(&mut pace, Nanos::from_secs(10), 10);
        assert!((38 << 20..=42 << 20).contains(&fast), "{fast}");
    }

    #[test]
    fn a_busy_hub_is_spared() {
        let mut pace = Pace::new(Nanos(0));
        (0..20).for_each(|_| pace.answered(Nanos::SECOND));
        assert_eq!(pace.rate, SLOWEST);
        pace.answered(Nanos::from_millis(200));
        assert_eq!(pace.rate, SLOWEST);
        pace.answered(Nanos::from_millis(10));
        assert_eq!(pace.rate, SLOWEST * 2);
    }
}
