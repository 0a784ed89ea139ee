//! Where the rows of a cursor come from: the node's base lane, thinned to the reader's rate, or a lane of the reader's own, for which it
//! subscribes at the node. What was asked for and the period of the base lane decide, and nothing else: each hub decides alike, whoever
//! came first, so that a reader finds the same rows under the same numbers at each of its hubs. It follows no lane.

use super::Cursor;
use crate::node::{Node, Terms};

/// Where rows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The base lane has them all.
    Base,
    /// Only a lane of the reader's own.
    Own,
    /// Not known before the node has said how often it gathers the base lane.
    Unknown,
}

impl Source {
    /// Where the rows of these terms come from; without terms they are rows of the base lane, whatever its rate.
    fn of(terms: Option<&Terms>, node: &Node) -> Self {
        let Some(terms) = terms else { return Source::Base };
        if terms.channel.is_some() || terms.prompt {
            return Source::Own;
        }
        match (terms.rate, node.lanes().base()) {
            (Some(rate), Some(base)) if rate.period() >= base.period => Source::Base,
            (Some(_), None) => Source::Unknown,
            _ => Source::Own,
        }
    }
}

impl Cursor {
    /// Subscribes if the base lane does not serve, and ends that when it does: the node may have been started again at another rate,
    /// or come through another hub.
    pub(super) fn choose_source(&mut self, node: &mut Node) {
        match Source::of(self.selection.terms.as_deref(), node) {
            Source::Own if self.subscribed.is_none() && self.denied.is_none() => self.subscribe(node),
            Source::Base => {
                self.denied = None;
                self.unsubscribe(node);
            }
            Source::Own | Source::Unknown => {}
        }
    }

    fn subscribe(&mut self, node: &mut Node) {
        let Some(terms) = self.selection.terms.clone() else { return };
        let Some(number) = node.subscribe_for(&terms, self.selection.is_kept) else {
            if self.is_of_channel() {
                // It tries again whenever something comes. Its reader hears of that, and is to hear when it has a place.
                self.is_refused = true;
            } else {
                self.denied = Some(false);
            }
            return;
        };
        self.subscribed = Some(number);
        if let Some(bell) = &self.bell {
            node.hear(number, bell);
        }
        self.start = node.start_of_reader(number, self.selection.gives_states());
        // The handler of a channel may change its rate: that is not the node's ceiling.
        self.pace = terms.rate.filter(|_| terms.channel.is_none()).map(khz_model::Pace::new);
    }

    /// Ends its subscription at the node.
    pub(super) fn unsubscribe(&mut self, node: &mut Node) {
        let Some(number) = self.subscribed.take() else { return };
        if self.selection.is_kept {
            node.forsake(number);
        }
        node.unsubscribe(number);
        (self.pace, self.has_answered) = (None, false);
    }

    /// True if the node has too many subscriptions for this channel. The cursor tries again whenever something comes.
    pub fn waits_for_room(&self) -> bool {
        self.is_of_channel() && self.subscribed.is_none()
    }
}
