//! Pauses before a resend. Each is twice as long as the last one, up to a limit, and randomized, so that many senders do not return
//! at the same moment.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::now::millis;

/// The first pause, in ms.
const PAUSE_MIN: u64 = 500;

/// The pauses of one way.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: u64,
    most: u64,
    chance: u64,
}

impl Pauses {
    /// Pauses of at most this many ms.
    pub fn new(most: u64) -> Self {
        // Hash maps are seeded at random; so is this.
        Pauses { next: PAUSE_MIN, most, chance: RandomState::new().hash_one(0) | 1 }
    }

    /// The next pause in ms: a random part of it, at least half, and at least what the other side wishes.
    pub fn take(&mut self, wish: Option<Duration>) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        let jittered = self.next / 2 + self.chance % (self.next / 2 + 1);
        self.next = (self.next * 2).min(self.most);
        wish.map_or(jittered, |wish| millis(wish).max(jittered).min(self.most))
    }

    /// After a success, the next pause is the shortest one.
    pub fn reset(&mut self) {
        self.next = PAUSE_MIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_are_spread() {
        let mut pauses = Pauses::new(30_000);
        for whole in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            let pause = pauses.take(None);
            assert!((whole / 2..=whole).contains(&pause), "{pause} of {whole}");
        }
        assert_eq!(pauses.take(Some(Duration::from_secs(3_600))), 30_000, "a wish has a limit, too");
        pauses.reset();
        assert!(pauses.take(None) <= 500);
        assert_eq!(Pauses::new(30_000).take(Some(Duration::from_secs(7))), 7_000);
    }
}
