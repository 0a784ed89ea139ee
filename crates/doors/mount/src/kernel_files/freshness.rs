//! How fresh a kernel file's text is. The time of the request counts, not the time at which the text came: a text that
//! answers a request is of that instant or later, whatever the network and the clocks do. A reader begins with a text that
//! is not older than [`TEXT_AGE_MAX`]; if the node does not answer, it begins with the last one.

use std::sync::Arc;
use std::time::Instant;

use khz_model::Stamp;

use crate::limits::{TEXT_AGE_MAX, TEXT_NOW_PAUSE};

/// How fresh one text is. The node has one request at a time, for all readers.
#[derive(Debug, Default)]
pub(super) struct Freshness {
    /// The node read the text at this instant or later.
    of: Option<Instant>,
    /// Number of the last request.
    requested: u32,
    /// When the request was sent that has no answer yet.
    under_way: Option<Instant>,
    /// A reader has waited too long for that answer: no other reader waits.
    is_late: bool,
    /// Until this instant the node is not asked again.
    paused_until: Option<Instant>,
    /// A text that is older than the one that is shown. It is shown only when the node confirms it.
    unconfirmed: Option<(Arc<[u8]>, Stamp)>,
}

/// Whether a reader may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The text is fresh, or nothing better can be had.
    Read,
    /// The reader has waited long enough, and reads what is there.
    GiveUp,
    /// The node has to be asked first.
    Ask,
}

impl Freshness {
    /// Whether a reader that has waited since `began` may begin. `can_ask`: the node can be asked.
    pub fn judge(&mut self, began: Instant, now: Instant, is_late: bool, can_ask: bool) -> Verdict {
        if self.of.is_some_and(|of| began.saturating_duration_since(of) <= TEXT_AGE_MAX) {
            return Verdict::Read;
        }
        if is_late {
            self.is_late = self.under_way.is_some();
            return Verdict::GiveUp;
        }
        let is_paused = self.paused_until.is_some_and(|until| now < until);
        if self.is_late || is_paused || !can_ask { Verdict::Read } else { Verdict::Ask }
    }

    /// Whether a reader gets the last text though a new subscription has not brought one: where it has waited long enough
    /// (`is_late`), or another reader had, and the node has not answered since.
    pub fn gives_up(&mut self, is_late: bool) -> bool {
        self.is_late |= is_late && self.under_way.is_some();
        is_late || self.is_late
    }

    /// The number of a new request; `None`: one is under way.
    pub fn ask(&mut self, now: Instant) -> Option<u32> {
        if self.under_way.is_some() {
            return None;
        }
        self.requested = self.requested.wrapping_add(1);
        self.under_way = Some(now);
        Some(self.requested)
    }

    /// A request was answered: the node has read the file (`is_read`), or cannot be asked. `false`: it was another request.
    pub fn answer(&mut self, request: u32, is_read: bool, now: Instant) -> bool {
        if self.requested != request {
            return false;
        }
        self.is_late = false;
        let Some(asked) = self.under_way.take() else { return false };
        if is_read {
            self.of = Some(asked);
        } else {
            self.paused_until = Some(now + TEXT_NOW_PAUSE);
        }
        true
    }

    /// Keeps a text that is older than the one that is shown, until the node confirms it. `None`: a newer text has come, and
    /// no older one is kept.
    pub fn set_unconfirmed(&mut self, text: Option<(Arc<[u8]>, Stamp)>) {
        self.unconfirmed = text;
    }

    /// The node has confirmed what it sent last.
    pub fn confirm(&mut self) -> Option<(Arc<[u8]>, Stamp)> {
        self.unconfirmed.take()
    }

    /// Nobody will answer the last request.
    pub fn reset(&mut self) {
        *self = Freshness { of: self.of, requested: self.requested, ..Freshness::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_text_is_as_fresh_as_the_request_that_it_answers() {
        let (mut text, now) = (Freshness::default(), Instant::now());
        assert_eq!(text.judge(now, now, false, true), Verdict::Ask);
        assert_eq!((text.ask(now), text.ask(now)), (Some(1), None));
        assert!(!text.answer(7, true, now) && text.answer(1, true, now + 20 * MS));
        assert_eq!(text.judge(now + TEXT_AGE_MAX, now, false, true), Verdict::Read);
        assert_eq!(text.judge(now + TEXT_AGE_MAX + MS, now, false, true), Verdict::Ask);
    }

    #[test]
    fn a_node_that_does_not_answer_or_cannot_be_asked_keeps_nobody_waiting() {
        let (mut text, now) = (Freshness::default(), Instant::now());
        text.ask(now);
        assert_eq!(text.judge(now, now + MS, true, true), Verdict::GiveUp);
        assert_eq!(text.judge(now, now + MS, false, true), Verdict::Read);
        text.answer(1, false, now + MS);
        assert_eq!(text.judge(now, now + 2 * MS, false, true), Verdict::Read);
        assert_eq!(text.judge(now, now + MS + TEXT_NOW_PAUSE, false, true), Verdict::Ask);
        assert_eq!(text.judge(now, now + MS + TEXT_NOW_PAUSE, false, false), Verdict::Read, "no hub");
    }

    #[test]
    fn of_a_new_subscription_without_an_answer_one_reader_waits_and_the_others_do_not() {
        let (mut text, now) = (Freshness::default(), Instant::now());
        assert!(!text.gives_up(false));
        text.ask(now);
        assert!(!text.gives_up(false) && text.gives_up(true) && text.gives_up(false));
        assert!(text.answer(1, true, now + MS) && !text.gives_up(false));
        assert!(text.gives_up(true) && !text.gives_up(false), "nothing is asked that could be answered");
    }
}
