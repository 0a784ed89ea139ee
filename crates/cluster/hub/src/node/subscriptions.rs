//! What readers want of one node beyond its base lane. Readers with the same patterns at the same rate share one
//! subscription: the node gets one Interest for all of them, and one Dismiss when the last of them is gone. Another rate
//! is another subscription. It sends nothing: it returns commands, which the caller sends to the node.

use std::fmt;
use std::sync::{Arc, Weak};

use khz_link::Allowance;
use khz_model::{Bell, ChannelTerms, Nanos, Pattern, Rate};

use crate::limits::{
    NODE_SUBSCRIPTIONS_MAX, OWN_SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_A_SECOND, SUBSCRIPTIONS_AT_ONCE,
};
use crate::mailbox::Command;
use crate::rule_rows;

/// What a subscription selects, and how its rows are to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Which series; the patterns name no nodes.
    pub patterns: Vec<Pattern>,
    /// How often; `None`: whenever a row is requested.
    pub rate: Option<Rate>,
    /// At this rate even if the kernel refreshes more slowly.
    pub exact: bool,
    /// Every row at once.
    pub prompt: bool,
    /// What the node does with the rows before it sends them.
    pub channel: Option<Arc<ChannelTerms>>,
}

impl Terms {
    /// True if the hub wants these rows itself, to judge: no reader may have such a channel.
    fn are_of_rules(&self) -> bool {
        self.channel.as_ref().is_some_and(|channel| rule_rows::is_name_of_rules(channel.name.as_str()))
    }

    /// True if both have the same rows, whether at once or flushed.
    pub fn has_rows_of(&self, other: &Terms) -> bool {
        self.channel == other.channel
            && (self.rate, self.exact) == (other.rate, other.exact)
            && self.patterns == other.patterns
    }
}

/// A subscription at one node.
pub(crate) struct NodeSubscription {
    /// Its number, never used twice for one node.
    pub number: u32,
    /// Shared with the subscriptions at other nodes that have the same terms.
    terms: Arc<Terms>,
    /// Readers that share it.
    readers: usize,
    /// `None` until the node has answered.
    answer: Option<Answer>,
    /// How many connections have ended since it was made: an answer is that of one of them.
    hang_ups: u64,
    /// The lane that serves it.
    lane: Option<u64>,
    /// Where the lane was when it began to serve.
    start: Option<Start>,
    /// The store keeps its rows.
    is_kept: bool,
    /// Bells of the readers that wait for news.
    bells: Vec<Weak<Bell>>,
    /// Rows or an answer have come since its bells were rung, or the node has come or gone.
    has_news: bool,
}

/// Where a lane was when it began to serve a subscription. It is kept while the node is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub epoch: u64,
    /// The row that came next.
    pub row: u64,
}

impl NodeSubscription {
    /// What the node has answered.
    pub fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }

    /// A number that changes when the connection has ended that the answer was of.
    pub fn hang_ups(&self) -> u64 {
        self.hang_ups
    }

    /// The lane that serves it.
    pub fn lane(&self) -> Option<u64> {
        self.lane
    }

    /// Where its lane was when it began to serve.
    pub fn start(&self) -> Option<Start> {
        self.start
    }

    /// From the next ring on its readers hear of something new.
    fn has_news(&mut self) {
        self.has_news = !self.bells.is_empty();
    }

    /// Rings the bells if there is news, and drops bells without a holder.
    fn ring(&mut self) {
        if std::mem::take(&mut self.has_news) {
            self.bells.retain(|bell| bell.upgrade().inspect(|bell| bell()).is_some());
        }
    }

    fn serve(&mut self, lane: u64, start: Start) {
        self.lane = Some(lane);
        if self.start.is_none_or(|known| known.epoch != start.epoch) {
            self.start = Some(start);
        }
    }

    /// True if the hub itself wants it, for its store or its rules.
    fn is_own(&self) -> bool {
        self.is_kept || self.terms.are_of_rules()
    }

    /// True if the node will not serve it.
    pub fn is_refused(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| !answer.granted)
    }

    /// The frame that says it.
    fn command(&self) -> Command {
        Command::Interest { number: self.number, terms: self.terms.clone(), is_own: self.is_own() }
    }

    #[cfg(test)]
    pub fn readers(&self) -> usize {
        self.readers
    }

    #[cfg(test)]
    pub fn terms(&self) -> &Arc<Terms> {
        &self.terms
    }
}

/// A node's answer to a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub granted: bool,
    /// Why not, or how it is served.
    pub text: String,
}

impl fmt::Debug for NodeSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodeSubscription { number, terms, readers, lane, .. } = self;
        write!(f, "subscription {number} of {readers} readers, lane {lane:?}: {terms:?}")
    }
}

/// All subscriptions at one node.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    all: Vec<NodeSubscription>,
    /// Some may have a bell.
    have_bells: bool,
    /// New subscriptions that may come.
    allowance: Allowance<SUBSCRIPTIONS_AT_ONCE, SUBSCRIPTIONS_A_SECOND>,
    /// Subscriptions made so far.
    made: u32,
}

impl Subscriptions {
    /// None yet.
    pub fn new(now: Nanos) -> Self {
        Subscriptions { all: Vec::new(), have_bells: false, allowance: Allowance::full(now), made: 0 }
    }

    /// One more reader subscribes; with `is_kept` it is the store. Returns the subscription's number and, if necessary, the command for the
    /// node. `None`: there are too many different subscriptions, or too many new ones came recently.
    pub fn subscribe(
        &mut self,
        terms: &Arc<Terms>,
        is_kept: bool,
        now: Nanos,
    ) -> Option<(u32, Option<Command>)> {
        if let Some(known) = self.all.iter_mut().find(|known| known.terms == *terms) {
            known.readers += 1;
            let was_own = known.is_own();
            known.is_kept |= is_kept;
            // As a reader's channel, the node had no memory for it. As the hub's channel, it may
            // have.
            let again = !was_own && known.is_own() && known.is_refused();
            return Some((known.number, again.then(|| known.command())));
        }
        if !self.have_room(is_kept || terms.are_of_rules()) || !self.allowance.take(now) {
            return None;
        }
        self.made += 1;
        let number = self.made;
        let new = NodeSubscription {
            number,
            terms: terms.clone(),
            readers: 1,
            answer: None,
            hang_ups: 0,
            lane: None,
            start: None,
            is_kept,
            bells: Vec::new(),
            has_news: false,
        };
        let command = new.command();
        self.all.push(new);
        Some((number, Some(command)))
    }

    /// True if there is room for one more subscription. Readers and the hub itself have separate limits.
    fn have_room(&self, is_own: bool) -> bool {
        let limit = if is_own { OWN_SUBSCRIPTIONS_MAX } else { NODE_SUBSCRIPTIONS_MAX };
        self.all.iter().filter(|known| known.is_own() == is_own).count() < limit
    }

    /// One reader less. If it was the last one, returns the command for the node.
    pub fn unsubscribe(&mut self, number: u32) -> Option<Command> {
        let at = self.all.iter().position(|known| known.number == number)?;
        self.all[at].readers -= 1;
        if self.all[at].readers > 0 {
            return None;
        }
        self.all.remove(at);
        Some(Command::Dismiss { number })
    }

    /// A reader of a subscription sleeps until this bell rings.
    pub fn hear(&mut self, number: u32, bell: &Arc<Bell>) {
        if let Some(known) = self.get_mut(number) {
            known.bells.retain(|bell| bell.strong_count() > 0);
            known.bells.push(Arc::downgrade(bell));
            self.have_bells = true;
        }
    }

    /// True if a reader may sleep until a bell rings.
    pub fn have_bells(&self) -> bool {
        self.have_bells
    }

    /// Rows of a lane have come, or are lost: the bells of its subscriptions are to be rung.
    pub fn has_news(&mut self, lane: u64) {
        let served = self.all.iter_mut().filter(|known| known.lane == Some(lane));
        served.for_each(NodeSubscription::has_news);
    }

    /// Rings the bells of subscriptions that have news.
    pub fn ring(&mut self) {
        self.all.iter_mut().for_each(NodeSubscription::ring);
        self.have_bells = self.all.iter().any(|known| !known.bells.is_empty());
    }

    /// The store keeps the rows of a subscription no longer.
    pub fn forsake(&mut self, number: u32) {
        if let Some(known) = self.get_mut(number) {
            known.is_kept = false;
        }
    }

    /// True if the lane serves a subscription whose rows the store keeps.
    pub fn are_kept(&self, lane: u64) -> bool {
        self.served_by(lane).any(|known| known.is_kept)
    }

    /// True if the store keeps the rows of the channel with this name.
    pub fn keep_channel(&self, name: &str) -> bool {
        let is_of = |known: &&NodeSubscription| {
            known.terms.channel.as_ref().is_some_and(|channel| channel.name.as_str() == name)
        };
        self.all.iter().filter(is_of).any(|known| known.is_kept)
    }

    /// The subscription with this number.
    pub fn get(&self, number: u32) -> Option<&NodeSubscription> {
        self.all.iter().find(|known| known.number == number)
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut NodeSubscription> {
        self.all.iter_mut().find(|known| known.number == number)
    }

    /// The node has answered, and perhaps named the lane that serves the subscription.
    pub fn answered(&mut self, number: u32, answer: Answer, lane: Option<(u64, Start)>) {
        if let Some(known) = self.get_mut(number) {
            // A grant without a word is no notice; the rows ring.
            if !answer.granted || !answer.text.is_empty() {
                known.has_news();
            }
            known.answer = Some(answer);
            if let Some((lane, start)) = lane {
                known.serve(lane, start);
            }
        }
    }

    /// The node offers a lane for a subscription.
    pub fn serve(&mut self, number: u32, lane: u64, start: Start) {
        if let Some(known) = self.get_mut(number) {
            known.serve(lane, start);
        }
    }

    /// The first row that a reader of a channel is to get out of a lane. `None`: the lane serves no channel.
    pub fn channel_start(&self, lane: u64) -> Option<u64> {
        let of_channels = self.served_by(lane).filter(|known| known.terms.channel.is_some());
        of_channels.filter_map(|known| known.start).map(|start| start.row).min()
    }

    /// A lane is over.
    pub fn lane_closed(&mut self, lane: u64) {
        self.all.iter_mut().filter(|known| known.lane == Some(lane)).for_each(|known| known.lane = None);
    }

    /// The connection has ended, or another one begins: the answers were its own.
    pub fn hang_up(&mut self) {
        for known in &mut self.all {
            (known.answer, known.lane) = (None, None);
            known.hang_ups += 1;
            known.has_news();
        }
    }

    /// The commands for a new connection: all subscriptions.
    pub fn commands(&self) -> impl Iterator<Item = Command> {
        self.all.iter().map(NodeSubscription::command)
    }

    /// True once the node has answered all of them.
    pub fn are_answered(&self) -> bool {
        self.all.iter().all(|known| known.answer.is_some())
    }

    /// The subscriptions that want the rows of these terms.
    pub fn wanting(&self, terms: &Terms) -> Vec<u32> {
        self.all.iter().filter(|known| known.terms.has_rows_of(terms)).map(|known| known.number).collect()
    }

    fn served_by(&self, lane: u64) -> impl Iterator<Item = &NodeSubscription> {
        self.all.iter().filter(move |known| known.lane == Some(lane))
    }

    /// True if the lane serves a subscription.
    pub fn need(&self, lane: u64) -> bool {
        self.served_by(lane).next().is_some()
    }

    /// True if a subscription that the lane serves wants every row at once.
    pub fn are_prompt(&self, lane: u64) -> bool {
        self.served_by(lane).any(|known| known.terms.prompt)
    }

    /// The fastest rate that a reader asked for of this lane; `None`: no reader did.
    pub fn rate_of(&self, lane: u64) -> Option<Rate> {
        self.served_by(lane).filter_map(|known| known.terms.rate).min_by_key(|rate| rate.period())
    }

    #[cfg(test)]
    pub fn first(&self) -> Option<&NodeSubscription> {
        self.all.first()
    }
}
