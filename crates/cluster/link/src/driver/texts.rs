//! The kernel texts that a reader subscribes to, whatever the connection. It sends the subscriptions on every connection, as
//! fast as a hub allows. It holds no text.

use std::collections::{BTreeMap, BTreeSet};

use khz_model::Nanos;

use crate::lane_sink::LaneSink;
use crate::limits::{READS_A_SECOND, READS_AT_ONCE};
use crate::reader_end::ReaderEnd;
use crate::texts::{NoText, ReadFrame, TextGiven, Why};

/// Half of what a hub allows, since its clock is not ours.
pub(super) const SENT_AT_ONCE: u64 = READS_AT_ONCE / 2;
pub(super) const SENT_A_SECOND: u64 = READS_A_SECOND / 2;

/// The subscriptions.
#[derive(Debug, Default)]
pub(super) struct TextSubscriptions {
    current: BTreeMap<u32, TextSubscription>,
    /// Numbers of subscriptions whose present state the hub does not know.
    unsent: BTreeSet<u32>,
    /// Requests to read a text now: the last request of each subscription, until it is sent.
    requests: BTreeMap<u32, u32>,
}

#[derive(Debug)]
struct TextSubscription {
    node: String,
    path: String,
    period: Nanos,
}

impl TextSubscriptions {
    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// True if a subscription is for a text of this node.
    pub fn follows(&self, node: &str) -> bool {
        self.current.values().any(|text| text.node == node)
    }

    /// Subscribes to a text, or changes its period.
    pub fn subscribe(&mut self, read: &ReadFrame<'_>) {
        let &ReadFrame { number, node, period, path } = read;
        let subscription = TextSubscription { node: node.to_owned(), path: path.to_owned(), period };
        self.current.insert(number, subscription);
        self.unsent.insert(number);
    }

    /// Requests that the text of a current subscription is read now.
    pub fn read_now(&mut self, number: u32, ask: u32) {
        if self.current.contains_key(&number) {
            self.requests.insert(number, ask);
        }
    }

    /// Ends a subscription.
    pub fn unsubscribe(&mut self, number: u32) {
        self.requests.remove(&number);
        if self.current.remove(&number).is_some() {
            self.unsent.insert(number);
        }
    }

    /// The hub is another one, or has forgotten all subscriptions.
    pub fn forget_sent(&mut self) {
        self.unsent = self.current.keys().copied().collect();
    }

    /// True when there is something to send.
    pub fn is_waiting(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends the subscriptions that the hub does not know, as far as `may` allows, and the
    /// requests.
    pub fn send<S: LaneSink>(
        &mut self,
        end: &mut ReaderEnd,
        sink: &mut S,
        may: impl FnMut() -> bool,
        out: &mut Vec<u8>,
    ) {
        self.send_subscriptions(end, sink, may, out);
        // A request waits until the hub knows the subscription.
        for (number, ask) in self.requests.extract_if(.., |number, _| !self.unsent.contains(number)) {
            if end.knows_text_now() {
                end.text_now(number, ask, out);
            } else {
                sink.text_given(TextGiven { number, ask, is_read: false });
            }
        }
    }

    fn send_subscriptions<S: LaneSink>(
        &mut self,
        end: &mut ReaderEnd,
        sink: &mut S,
        mut may: impl FnMut() -> bool,
        out: &mut Vec<u8>,
    ) {
        while let Some(&number) = self.unsent.first() {
            let Some(TextSubscription { node, path, period }) = self.current.get(&number) else {
                end.unread(number, out);
                self.unsent.remove(&number);
                continue;
            };
            if !end.knows_texts() {
                let text = "this hub is older than kernel texts: it passes none on";
                sink.no_text(&NoText { number, why: Why::NotServed, text });
            } else if may() {
                end.read(&ReadFrame { number, node, period: *period, path }, out);
            } else {
                return;
            }
            self.unsent.remove(&number);
        }
    }
}
