//! How many messages people get: at most some an hour. When the number is reached, one more message sums up what waits, and then
//! there is silence until the hour is over.

use crate::now::Now;

/// An hour, in ms.
const HOUR: u64 = 3_600_000;

/// What may be said now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A message.
    Message,
    /// Everything that waits, in one message.
    Summary,
    /// Nothing before this moment of the steady clock.
    Silence(u64),
}

/// The messages of this hour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hour {
    most: u32,
    began: u64,
    said: u32,
    /// The last hour ended in silence: what waits comes in one message.
    was_full: bool,
}

impl Hour {
    /// At most this many messages an hour.
    pub fn new(most: u32) -> Self {
        Hour { most: most.max(1), began: 0, said: 0, was_full: false }
    }

    /// What may be said now.
    pub fn turn(&mut self, now: Now) -> Turn {
        if self.said > 0 && now.steady >= self.began.saturating_add(HOUR) {
            (self.was_full, self.said) = (self.said > self.most, 0);
        }
        match self.said {
            _ if self.was_full => Turn::Summary,
            said if said < self.most => Turn::Message,
            said if said == self.most => Turn::Summary,
            _ => Turn::Silence(self.began.saturating_add(HOUR)),
        }
    }

    /// Something was said.
    pub fn said(&mut self, now: Now) {
        if self.said == 0 {
            self.began = now.steady;
        }
        self.was_full = false;
        self.said += 1;
    }

    /// The moment before which nothing is said.
    pub fn silent_until(&self) -> u64 {
        if self.said > self.most { self.began.saturating_add(HOUR) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(steady: u64) -> Now {
        Now { steady, wall: 0 }
    }

    #[test]
    fn beyond_the_number_there_is_one_summary_and_then_silence_until_the_hour_is_over() {
        let mut hour = Hour::new(2);
        let mut turns = Vec::new();
        for steady in [10, 20, 30, 40, HOUR + 9, HOUR + 10, HOUR + 11] {
            let turn = hour.turn(at(steady));
            turns.push(turn);
            if !matches!(turn, Turn::Silence(_)) {
                hour.said(at(steady));
            }
        }
        let silence = Turn::Silence(HOUR + 10);
        assert_eq!(
            turns,
            [Turn::Message, Turn::Message, Turn::Summary, silence, silence, Turn::Summary, Turn::Message]
        );
        assert_eq!(hour.silent_until(), 0);
    }
}
