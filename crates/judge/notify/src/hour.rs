//! Limits the number of messages per hour, also over restarts. When the limit is reached, one more message sums up the waiting
//! alerts. Then no message is sent until the hour is over.

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
    /// Send nothing before this moment of the steady clock.
    Silence(u64),
}

/// The messages of an hour, in the form that survives a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// When the first of them was sent, in ms since 1970.
    pub began: i64,
    /// How many there were.
    pub messages: u32,
}

/// The messages of this hour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hour {
    most: u32,
    /// When the hour is over, on the steady clock.
    ends: u64,
    /// When it began, in ms since 1970.
    began: i64,
    said: u32,
    /// The last hour reached its limit, so the waiting alerts come in one message.
    was_full: bool,
}

impl Hour {
    /// At most this many messages an hour.
    pub fn new(most: u32) -> Self {
        Hour { most: most.max(1), ends: 0, began: 0, said: 0, was_full: false }
    }

    /// The same, where an earlier process has sent messages.
    pub fn restore(most: u32, sent: Option<Sent>, now: Now) -> Self {
        let hour = Hour::new(most);
        let Some(Sent { began, messages }) = sent else { return hour };
        // Somebody may have set the clock back. Then the hour begins now, so that nobody waits longer than an hour.
        let ago = u64::try_from(now.wall.saturating_sub(began)).unwrap_or(0);
        match HOUR.checked_sub(ago).filter(|left| *left > 0) {
            Some(left) => Hour { ends: now.steady.saturating_add(left), began, said: messages, ..hour },
            None => Hour { was_full: messages > hour.most, ..hour },
        }
    }

    /// The state that survives a restart. `on_way`: another message is on its way, which people may have got.
    pub fn sent(&self, on_way: bool, now: Now) -> Option<Sent> {
        let (began, before) = if self.said == 0 { (now.wall, 0) } else { (self.began, self.said) };
        let messages = before.saturating_add(u32::from(on_way));
        (messages > 0).then_some(Sent { began, messages })
    }

    /// What may be said now.
    pub fn turn(&mut self, now: Now) -> Turn {
        if self.said > 0 && now.steady >= self.ends {
            (self.was_full, self.said) = (self.said > self.most, 0);
        }
        match self.said {
            _ if self.was_full => Turn::Summary,
            said if said < self.most => Turn::Message,
            said if said == self.most => Turn::Summary,
            _ => Turn::Silence(self.ends),
        }
    }

    /// Something was said.
    pub fn said(&mut self, now: Now) {
        if self.said == 0 {
            (self.ends, self.began) = (now.steady.saturating_add(HOUR), now.wall);
        }
        self.was_full = false;
        self.said = self.said.saturating_add(1);
    }

    /// The moment before which nothing is sent.
    pub fn silent_until(&self) -> u64 {
        if self.said > self.most { self.ends } else { 0 }
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

    #[test]
    fn an_hour_goes_on_over_a_restart_whatever_the_clocks_say() {
        let began = 1_700_000_000_000;
        let moment = |steady, after: i64| Now { steady, wall: began + after };
        let mut hour = Hour::new(1);
        assert_eq!((hour.sent(false, moment(9, 0)), hour.turn(moment(9, 0))), (None, Turn::Message));
        assert_eq!(hour.sent(true, moment(9, 0)), Some(Sent { began, messages: 1 }), "it is on its way");
        hour.said(moment(9, 0));
        hour.said(moment(9, 0));
        let sent = hour.sent(false, moment(60_009, 60_000));
        assert_eq!(sent, Some(Sent { began, messages: 2 }));
        // The steady clock of the next process begins at zero.
        let turn = |after| Hour::restore(1, sent, moment(5, after)).turn(moment(5, after));
        assert_eq!(turn(60_000), Turn::Silence(5 + HOUR - 60_000));
        assert_eq!(turn(-60_000), Turn::Silence(5 + HOUR), "the clock was set back");
        assert_eq!(turn(3_600_000), Turn::Summary, "it ended in silence: what waits comes in one message");
        let few = Some(Sent { began, messages: 1 });
        assert_eq!(Hour::restore(1, few, moment(5, 3_600_000)).turn(moment(5, 0)), Turn::Message);
        assert_eq!(Hour::restore(1, few, moment(5, 0)).turn(moment(5, 0)), Turn::Summary);
    }
}
