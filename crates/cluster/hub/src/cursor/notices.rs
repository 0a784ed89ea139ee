//! Notices for a reader about a node, beside its rows: the node came or went, or serves the subscription at
//! another rate.

use std::sync::atomic::Ordering;

use khz_model::{Nanos, Notice, Presence, Rate};

use super::Cursor;
use crate::clock;

/// The node has too many subscriptions for one more rate.
const DENIED: &str =
    "has too many different subscriptions; showing the base lane: try again when other readers have gone";

impl Cursor {
    /// The node's answer about the rate, once. For a channel: each new answer, and a refusal once on each connection of the node.
    /// After that, a notice whenever the lane becomes slower than requested, or runs at the requested rate again.
    pub fn take_notice(&mut self) -> Option<Notice> {
        if let Some(is_told @ false) = &mut self.denied {
            *is_told = true;
            return Some(Notice::of(self.node.name.clone(), DENIED));
        }
        let number = self.subscribed?;
        let node = self.node.lock();
        let subscription = node.subscriptions().get(number)?;
        let (answer, lane) = (subscription.answer()?.clone(), subscription.lane());
        let connection = subscription.hang_ups();
        drop(node);
        // A node that has come back refuses a channel again. Readers that have waited for its rows since then
        // get a notice.
        if self.is_of_channel() && !answer.granted && self.answered_on != connection {
            (self.answered_on, self.has_answered) = (connection, false);
        }
        // A node that had no memory or no place for a channel has some now, or its khz was updated.
        if answer.granted && std::mem::take(&mut self.is_refused) {
            return Some(Notice::of(self.node.name.clone(), Notice::SENDS_NOW));
        }
        // The text about a granted channel may change, for example when there is memory for other
        // series.
        if answer.granted && self.is_of_channel() && self.said.as_deref().unwrap_or_default() != answer.text {
            self.has_answered = true;
            let text =
                if answer.text.is_empty() { Notice::SENDS_NOW.to_owned() } else { answer.text.clone() };
            let leaves_out = !answer.text.is_empty();
            self.said = leaves_out.then(|| answer.text.into());
            let notice = Notice::of(self.node.name.clone(), text);
            return Some(Notice { leaves_out: Some(leaves_out), ..notice });
        }
        let is_refusal = !self.has_answered && !answer.granted && self.is_of_channel();
        self.is_refused |= is_refusal;
        let text = match self.has_answered || (answer.granted && answer.text.is_empty()) {
            true => self.pace_notice(lane.filter(|_| answer.granted))?,
            false => {
                self.has_answered = true;
                let text = if answer.text.is_empty() { "refused".to_owned() } else { answer.text };
                // A base lane without any of the series shows nothing. A hub above reports its own series
                // itself.
                let is_said = self.columns.are_bare() || self.lane.is_some_and(|served| served.stands_in);
                match answer.granted || self.is_of_channel() || is_said {
                    true => text,
                    false => format!("{text}; showing the base lane"),
                }
            }
        };
        Some(Notice { is_refusal, ..Notice::of(self.node.name.clone(), text) })
    }

    /// From now on: the reader believes that the node is gone, so it hears of the return.
    pub fn knows_as_gone(&mut self) {
        self.up = false;
    }

    /// A notice if the node has gone or come since the reader's last notice.
    pub fn take_change(&mut self) -> Option<Notice> {
        if self.node.up.load(Ordering::Relaxed) == self.up {
            return None;
        }
        let status = self.node.lock().status(clock::boot());
        if std::mem::replace(&mut self.up, status.up) == status.up {
            return None;
        }
        let since = Nanos(u64::try_from(clock::wall()).unwrap_or(0)).since(status.since.unwrap_or_default());
        let (presence, at) = (status.presence(), since.time_of_day());
        let text = match presence {
            Presence::Up if status.connects > 1 => format!("is back since {at} UTC"),
            Presence::Up => format!("is up since {at} UTC"),
            Presence::Left => format!("has left at {at} UTC"),
            Presence::Down | Presence::Missing => {
                let why = status.problem.map(|problem| format!(": {problem}")).unwrap_or_default();
                format!("is down since {at} UTC{why}")
            }
        };
        Some(Notice { change: Some((presence, since)), ..Notice::of(status.node, text) })
    }

    /// A notice about the rate of the lane that serves.
    fn pace_notice(&mut self, serving: Option<u64>) -> Option<String> {
        let served = self.lane.filter(|served| Some(served.id) == serving)?;
        self.pace.as_mut()?.news(Rate::from_period(served.period())?)
    }
}
