//! Which lane serves a cursor: the node's base lane, thinned to the reader's rate, or a separate lane, for which the cursor subscribes
//! at the node. Only the request and the rate of the base lane decide. So each hub decides alike, and a reader finds the same rows
//! under the same numbers at each of its hubs. It follows no lane.

use super::Cursor;
use crate::node::{Node, Terms};

/// What serves a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// The base lane: it has all rows.
    ByBase,
    /// A lane of its own.
    ByOwn,
    /// Not known before the node has said how often it samples its base lane.
    Unknown,
}

impl Served {
    /// The lane that serves these terms. Without terms it is the base lane, at any rate.
    fn of(terms: Option<&Terms>, node: &Node) -> Self {
        let Some(terms) = terms else { return Served::ByBase };
        if terms.channel.is_some() || terms.prompt {
            return Served::ByOwn;
        }
        match (terms.rate, node.lanes().base()) {
            // A node at its CPU ceiling samples slower for a while. Lanes of their own would only cost it more.
            (Some(rate), Some(base)) if rate.period() >= base.fastest() => Served::ByBase,
            (Some(_), None) => Served::Unknown,
            _ => Served::ByOwn,
        }
    }
}

impl Cursor {
    /// Subscribes if the base lane does not serve, and ends that when it does: the node may have been started again at another rate,
    /// or come through another hub.
    pub(super) fn subscribe_as_needed(&mut self, node: &mut Node) {
        match Served::of(self.selection.terms.as_deref(), node) {
            Served::ByOwn if self.subscribed.is_none() && self.denied.is_none() => self.subscribe(node),
            Served::ByBase => {
                self.denied = None;
                self.unsubscribe(node);
            }
            Served::ByOwn | Served::Unknown => {}
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
        // The handler of a channel may change its rate; then the rate is not limited by the node.
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

    /// True if a lane serves its subscription, or none will now.
    pub fn is_served(&self) -> bool {
        let node = self.node.lock();
        let subscription = self.subscribed.and_then(|number| node.subscriptions().get(number));
        !node.link().is_up() || subscription.is_none_or(|one| one.lane().is_some() || one.is_refused())
    }

    /// True if the node has too many subscriptions for this channel. The cursor tries again whenever something comes.
    pub fn waits_for_room(&self) -> bool {
        self.is_of_channel() && self.subscribed.is_none()
    }
}
