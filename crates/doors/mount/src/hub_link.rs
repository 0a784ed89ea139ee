//! Values from a hub at the other end of a link: it subscribes there for the tree, and hands what comes to the tree on the
//! link's thread. It keeps no values.

use std::sync::Arc;

use khz_follow::{Defined, Lane, Reader, Row, Subscriber};
use khz_link::driver::FollowingSettings;
use khz_link::texts::{NoText, ReadFrame, TextGiven, Why};
use khz_link::{HubName, LaneOffer};
use khz_model::{ChannelTerms, Interest, Nanos, NodeName, NodeStatus, Pattern, Rate, Reading, Stamp};

use crate::upstream::{ChannelRow, ChannelSubscription, Sink, Subscription, TextSubscription, Upstream};

/// The period of subscriptions that the base lane serves.
const BASE: Nanos = Nanos::SECOND;

/// A connection to one of the hubs.
pub struct HubLink {
    /// By the tree's numbers.
    subscriber: Subscriber<Ours>,
    sink: Arc<dyn Sink>,
}

impl HubLink {
    /// Connects to one of the hubs, and connects again whenever the connection ends.
    ///
    /// # Errors
    /// The system has no thread or no descriptor for it.
    pub fn start(settings: FollowingSettings, sink: Arc<dyn Sink>) -> std::io::Result<Self> {
        Ok(HubLink { subscriber: Subscriber::start(settings, Receiver(sink.clone()))?, sink })
    }

    fn end(&self, ours: Ours) {
        if let Some(theirs) = self.subscriber.subscriptions().find(|&known| known == ours) {
            self.subscriber.unsubscribe(theirs);
        }
    }

    fn interest(subscription: &Subscription) -> Result<Interest, String> {
        let patterns: Result<Vec<Pattern>, _> =
            subscription.patterns.iter().map(|text| Pattern::new(text)).collect();
        let patterns = patterns.map_err(|error| error.problem)?;
        let rate = subscription.rate.or(Rate::from_period(BASE)).ok_or("there is no such rate")?;
        // A reader who sets a rate gets it even where the kernel updates its numbers more slowly.
        Ok(Interest::new(patterns, rate, subscription.rate.is_some()))
    }
}

impl Upstream for HubLink {
    fn subscribe(&self, subscription: Subscription) {
        let (number, prompt) = (subscription.number, subscription.rate.is_some());
        let subscribed = HubLink::interest(&subscription).and_then(|interest| {
            self.subscriber
                .subscribe(&interest, prompt, Ours::Rows(number))
                .map_err(|error| error.to_string())
        });
        if let Err(problem) = subscribed {
            self.sink.notice(number, &problem);
        }
    }

    fn unsubscribe(&self, number: u32) {
        self.end(Ours::Rows(number));
    }

    fn list_nodes(&self, wanted: bool) {
        self.subscriber.link().roster(wanted);
    }

    fn subscribe_text(&self, subscription: TextSubscription) {
        let TextSubscription { number, node, path, period } = &subscription;
        self.subscriber.link().subscribe_text(&ReadFrame {
            number: *number,
            node: node.as_str(),
            period: *period,
            path,
        });
    }

    fn read_text_now(&self, number: u32, request: u32) {
        self.subscriber.link().read_text_now(number, request);
    }

    fn unsubscribe_text(&self, number: u32) {
        self.subscriber.link().unsubscribe_text(number);
    }

    fn list_channels(&self, wanted: bool) {
        self.subscriber.link().channels(wanted);
    }

    fn subscribe_channel(&self, subscription: ChannelSubscription) {
        let ChannelSubscription { number, name } = subscription;
        let terms = Some(Arc::new(ChannelTerms::named(name)));
        let asked =
            Rate::from_period(BASE).ok_or_else(|| "there is no such rate".to_owned()).and_then(|rate| {
                // Patterns and rate are the channel's own.
                let interest =
                    Interest { channel: terms, ..Interest::new(vec![Pattern::everything()], rate, false) };
                let subscribed = self.subscriber.subscribe(&interest, true, Ours::Channel(number));
                subscribed.map_err(|error| error.to_string())
            });
        if let Err(problem) = asked {
            self.sink.channel_notice(number, false, &problem);
        }
    }

    fn unsubscribe_channel(&self, number: u32) {
        self.end(Ours::Channel(number));
    }
}

/// What a program gets that opens a kernel file that has no text.
fn errno(why: Why) -> i32 {
    match why {
        Why::NotAllowed => libc::EACCES,
        Why::Missing => libc::ENOENT,
        Why::TooLong => libc::EFBIG,
        Why::Stuck => libc::ETIMEDOUT,
        Why::TooMany => libc::EAGAIN,
        Why::NotServed => libc::EOPNOTSUPP,
        Why::Failed | Why::Other(_) => libc::EIO,
    }
}

/// A subscription, as the tree numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ours {
    Rows(u32),
    Channel(u32),
}

/// Receives what comes, on the link's thread.
struct Receiver(Arc<dyn Sink>);

impl Reader for Receiver {
    type Subscription = Ours;
    type Lane = ();

    fn offered(&mut self, _: &NodeName, _: &LaneOffer<'_>, _: &Ours) -> Option<()> {
        Some(())
    }

    fn columns(&mut self, lane: &mut Lane<Self>, _: usize) {
        let columns = Arc::new(lane.series().to_vec());
        match *lane.subscription() {
            Ours::Rows(number) => self.0.columns(lane.number(), number, lane.node(), &columns),
            Ours::Channel(number) => self.0.channel_columns(lane.number(), number, lane.node(), &columns),
        }
    }

    fn row(&mut self, lane: &mut Lane<Self>, row: &Row<'_>) {
        match lane.subscription() {
            Ours::Rows(_) => self.0.row(lane.number(), row.stamp(), &mut row.changed()),
            Ours::Channel(_) => {
                let readings: Vec<Reading> = row.all().collect();
                let (epoch, number, stamp) = (lane.epoch(), row.number(), row.stamp());
                self.0.channel_row(&ChannelRow {
                    lane: lane.number(),
                    epoch,
                    number,
                    stamp,
                    readings: &readings,
                });
            }
        }
    }

    fn closed(&mut self, lane: Lane<Self>, _: Option<&str>) {
        self.0.closed(lane.number());
    }

    fn notice(&mut self, subscription: &Ours, granted: bool, text: &str) {
        match *subscription {
            Ours::Rows(number) => self.0.notice(number, text),
            Ours::Channel(number) => self.0.channel_notice(number, granted, text),
        }
    }

    fn channels(&mut self, channels: Option<Vec<Defined>>) {
        self.0.channels(channels);
    }

    fn nodes(&mut self, nodes: Vec<NodeStatus>, is_last: bool) {
        self.0.nodes(&nodes, is_last);
    }

    fn text(&mut self, number: u32, text: &Arc<[u8]>, stamp: Stamp) {
        self.0.text(number, text, stamp);
    }

    fn text_answered(&mut self, answer: TextGiven) {
        self.0.text_answered(answer.number, answer.ask, answer.is_read);
    }

    fn no_text(&mut self, none: &NoText<'_>) {
        self.0.no_text(none.number, errno(none.why), none.text);
    }

    fn up(&mut self, hub: &HubName) {
        self.0.connected(true, &hub.name);
    }

    fn down(&mut self, problem: &str) {
        self.0.connected(false, problem);
    }
}
