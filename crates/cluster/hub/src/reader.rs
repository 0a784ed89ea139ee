//! A reader on a link: another hub, a recorder, a program. It subscribes with the frame Interest, and gets, for each
//! node that a subscription selects, a lane with the selected columns, encoded as blocks.

use std::sync::Arc;

use khz_link::limits::VERSION_OF_NUMBERS;
use khz_link::{InterestFrame, Told, WantFrame};
use khz_model::{ChannelName, ChannelTerms, Interest, Misses, Nanos, Pattern, Rate};
use khz_trust::{Identity, Role};

use crate::channel_list::ChannelList;
use crate::clock;
use crate::cluster::Cluster;
use crate::limits::{MISSES_EFFORT, SUBSCRIPTION_BYTES_MAX, SUBSCRIPTIONS_MAX};
use crate::query::HubQuery;
use crate::reader_texts::ReaderTexts;
use crate::roster::Roster;
use crate::subscription::{ClusterSubscription, Pace};
use crate::turn::Turn;

mod feed_lane;
mod generations;
mod late_block;
mod redefined;

use feed_lane::{FeedLane, Numbering};

/// A reader.
pub(crate) struct Reader {
    pub identity: Identity,
    /// It is a hub that gets nodes from here.
    pub is_hub: bool,
    /// The version of the link that it speaks.
    version: u8,
    feeds: Vec<Feed>,
    numbering: Numbering,
    /// Answers for the next pump: while frames come in there is no room for them.
    answers: Vec<(u32, Result<Rate, String>)>,
    /// The parts of a subscription that no node has; sent after the subscription's answer.
    remarks: Vec<(u32, String)>,
    /// The list of nodes, if the reader wants it.
    roster: Option<Roster>,
    /// The list of channels, if the reader wants it.
    channels: Option<ChannelList>,
    /// The revision of the channels at the last comparison of the definitions that it named.
    revision: u64,
    /// Kernel texts that it wants.
    pub texts: ReaderTexts,
}

/// One subscription of a reader.
struct Feed {
    number: u32,
    pace: Pace,
    subscription: ClusterSubscription,
    /// What the answer will grant; it waits here until there is room for the answer.
    asked: Option<Asked>,
    lanes: Vec<FeedLane>,
    /// The cursor that is read first.
    next: usize,
    /// The subscription or one of its lanes is new: its newest row does not wait for the next flush.
    fresh: bool,
    /// The channel that it named, and the definition at that time.
    named: Option<(ChannelName, Interest)>,
}

/// A subscription that is not answered yet.
struct Asked {
    rate: Rate,
    patterns: Vec<Pattern>,
}

impl Reader {
    /// A reader that speaks version 1 gets row numbers from the hub: `epochs` is what the epochs of its lanes begin at.
    pub fn new(identity: Identity, is_hub: bool, version: u8, epochs: u64) -> Self {
        Reader {
            identity,
            is_hub,
            version,
            feeds: Vec::new(),
            numbering: Numbering::new((version < VERSION_OF_NUMBERS).then_some(epochs)),
            answers: Vec::new(),
            remarks: Vec::new(),
            roster: None,
            channels: None,
            revision: 0,
            texts: ReaderTexts::default(),
        }
    }

    /// A new subscription. It is answered after its nodes are found, which takes turns.
    pub fn interest(&mut self, cluster: &Arc<Cluster>, frame: &InterestFrame<'_>) {
        // It replaces the subscription that had its number.
        self.dismiss(frame.number);
        match self.begin(cluster, frame) {
            Ok(feed) => self.feeds.push(feed),
            Err(text) => self.answers.push((frame.number, Err(text))),
        }
    }

    fn begin(&self, cluster: &Arc<Cluster>, frame: &InterestFrame<'_>) -> Result<Feed, String> {
        if self.feeds.len() >= SUBSCRIPTIONS_MAX {
            return Err(format!(
                "more than {SUBSCRIPTIONS_MAX} subscriptions on one connection: end one, or connect twice"
            ));
        }
        let channel = frame.channel.map(|channel| channel.to_terms()).transpose();
        let channel = channel.map_err(|error| error.to_string())?;
        if channel.is_some() && frame.past {
            return Err("a channel has no stored rows: subscribe without the past".to_owned());
        }
        let (interest, named) = match channel {
            // Only its name: the hub knows the rest.
            Some(terms) if terms.handler.is_empty() => {
                let interest = cluster.channels.find(&terms.name)?;
                (interest.clone(), Some((terms.name.clone(), interest)))
            }
            channel => (Interest { channel, ..asked(frame)? }, None),
        };
        let pace = match (frame.past, frame.prompt) {
            (true, _) => Pace::Past,
            (false, true) => Pace::Prompt,
            (false, false) => Pace::Flushed,
        };
        Ok(Feed { named, ..self.feed(cluster, frame.number, interest, pace)? })
    }

    /// A subscription, if this reader may have it.
    fn feed(
        &self,
        cluster: &Arc<Cluster>,
        number: u32,
        interest: Interest,
        pace: Pace,
    ) -> Result<Feed, String> {
        let (rate, patterns) = (interest.rate, interest.patterns.clone());
        if !self.identity.role.may_read_at(rate) {
            return Err(format!(
                "{} may not read at {rate}: above 100Hz the operator role is needed",
                self.identity
            ));
        }
        let is_program = |terms: &Arc<ChannelTerms>| khz_plan::is_program(&terms.handler);
        let may_send = matches!(self.identity.role, Role::Operator | Role::Hub);
        if interest.channel.as_ref().is_some_and(is_program) && !may_send {
            return Err(format!(
                "{} may not send programs to nodes: the operator role is needed",
                self.identity
            ));
        }
        let ceiling = cluster.settings.rate_max;
        if rate.is_above(ceiling) {
            return Err(format!("{rate} is above this hub's ceiling of {ceiling}"));
        }
        let said: usize = patterns.iter().map(|pattern| pattern.series().len()).sum();
        if said > SUBSCRIPTION_BYTES_MAX {
            return Err(format!(
                "the patterns have {said} bytes without their nodes, and may have {SUBSCRIPTION_BYTES_MAX}: subscribe in several parts"
            ));
        }
        let numbers = self.numbering.numbers();
        let subscription = ClusterSubscription::begin(cluster.clone(), interest, pace, numbers);
        let subscription = subscription.map_err(|error| error.to_string())?;
        Ok(Feed {
            number,
            pace,
            subscription: subscription.spoken(self.version).of_hub(self.is_hub),
            asked: Some(Asked { rate, patterns }),
            lanes: Vec::new(),
            next: 0,
            fresh: true,
            named: None,
        })
    }

    /// Finds the nodes of its subscriptions as far as the turn goes, and answers subscriptions whose nodes are found.
    fn open(&mut self, cluster: &Arc<Cluster>, turn: &mut Turn) {
        let Reader { feeds, answers, remarks, .. } = self;
        feeds.retain_mut(|feed| {
            if turn.is_over() || !feed.subscription.has_more() && feed.asked.is_none() {
                return true;
            }
            if let Err(error) = feed.subscription.go_on(turn) {
                answers.push((feed.number, Err(error.to_string())));
                return false;
            }
            if let Some(Asked { rate, patterns }) = feed.asked.take_if(|_| feed.subscription.is_open()) {
                let mut effort = MISSES_EFFORT;
                let misses = Misses::within(&&HubQuery::new(cluster.clone()), &patterns, &mut effort);
                turn.spend(MISSES_EFFORT - effort);
                answers.push((feed.number, Ok(rate)));
                remarks.extend(misses.sentences().into_iter().map(|text| (feed.number, text)));
            }
            let notices = feed.subscription.take_notices();
            remarks.extend(
                notices.into_iter().map(|notice| (feed.number, format!("{}: {}", notice.node, notice.text))),
            );
            true
        });
    }

    /// A subscription ends.
    pub fn dismiss(&mut self, number: u32) {
        self.feeds.retain(|feed| feed.number != number);
    }

    /// The reader wants the list of nodes, or does not want it any more.
    pub fn roster(&mut self, wanted: bool) {
        match wanted {
            true if self.roster.is_none() => self.roster = Some(Roster::new()),
            true => {}
            false => self.roster = None,
        }
    }

    /// The reader wants the list of channels, or does not want it any more.
    pub fn channels(&mut self, wanted: bool) {
        match wanted {
            true if self.channels.is_none() => self.channels = Some(ChannelList::new()),
            true => {}
            false => self.channels = None,
        }
    }

    /// The reader wants a lane that it was offered.
    pub fn want(&mut self, want: &WantFrame<'_>) {
        for feed in &mut self.feeds {
            let Some(at) = feed.lanes.iter().position(|lane| lane.number == want.lane) else { continue };
            feed.fresh |= !feed.lanes[at].wanted;
            if let Some(cursor) = feed.subscription.cursors().get_mut(at) {
                feed.lanes[at].want(want, cursor, feed.pace == Pace::Past);
            }
        }
    }

    /// The reader does not want a lane any more.
    pub fn leave(&mut self, lane: u32) {
        for feed in &mut self.feeds {
            let Some(at) = feed.lanes.iter().position(|known| known.number == lane) else { continue };
            if let Some(cursor) = feed.subscription.cursors().get_mut(at) {
                feed.lanes[at].leave(cursor);
            }
        }
    }

    /// True if a subscription wants every row at once.
    pub fn is_prompt(&self) -> bool {
        self.feeds.iter().any(|feed| feed.pace == Pace::Prompt)
    }

    /// True if no subscription waits for a flush.
    pub fn is_all_prompt(&self) -> bool {
        self.roster.is_none()
            && self.channels.is_none()
            && self.feeds.iter().all(|feed| feed.pace == Pace::Prompt)
    }

    /// True if a subscription waits for its answer, or for its first rows.
    pub fn has_answers(&self) -> bool {
        let is_new = |feed: &Feed| feed.fresh || feed.has_new();
        !self.answers.is_empty() || self.feeds.iter().any(is_new) || self.texts.has_news()
    }

    /// True if the reader wants anything.
    pub fn is_busy(&self) -> bool {
        let has_rows = !self.feeds.is_empty() || !self.answers.is_empty();
        let has_lists = self.roster.is_some() || self.channels.is_some();
        has_rows || has_lists || self.texts.has_news() || self.texts.is_waiting()
    }

    /// When the next part of a list is due; rows do not make it due.
    pub fn next_timed(&self) -> Option<Nanos> {
        let roster = self.roster.as_ref().map(Roster::next);
        roster.into_iter().chain(self.channels.as_ref().map(ChannelList::next)).min()
    }

    /// Writes answers, lanes and new rows, unless `out` is full. `true`: there is more to write, even if nothing
    /// comes.
    pub fn pump(
        &mut self,
        cluster: &Arc<Cluster>,
        turn: &mut Turn,
        prompt_only: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut has_more = false;
        self.let_go(out);
        self.follow_definitions(cluster, out);
        self.open(cluster, turn);
        for (interest, answer) in self.answers.drain(..) {
            let (granted, period, text) = match &answer {
                Ok(rate) => (true, rate.period(), ""),
                Err(text) => (false, Nanos(0), text.as_str()),
            };
            Told { interest, granted, period, text, lane: 0, refused_by: "" }.put(out);
        }
        for (interest, text) in self.remarks.drain(..) {
            Told { interest, granted: true, period: Nanos(0), text: &text, lane: 0, refused_by: "" }.put(out);
        }
        let out_max = cluster.out_bytes_max();
        if let Some(roster) = self.roster.as_mut().filter(|_| !prompt_only) {
            roster.pump(cluster, out);
        }
        if let Some(channels) = self.channels.as_mut().filter(|_| !prompt_only) {
            channels.pump(cluster, out);
        }
        for feed in &mut self.feeds {
            let is_due = feed.pace == Pace::Prompt || feed.fresh || !prompt_only;
            if is_due {
                has_more |= feed.pump(&mut self.numbering, cluster, turn, out);
            }
            feed.look_at_new(&mut self.numbering, cluster, turn, out);
            if out.len() > out_max {
                return true;
            }
            has_more |= feed.subscription.has_ending();
        }
        self.texts.pump(cluster, &self.identity, out);
        has_more
    }

    /// Ends the lanes of nodes that were forgotten.
    fn let_go(&mut self, out: &mut Vec<u8>) {
        for feed in &mut self.feeds {
            let places = feed.subscription.let_go();
            let mut followed = feed.subscription.cursors().len() + places.len();
            for at in places {
                // The last cursor takes the place, with its lane if it has one already.
                if feed.lanes.len() == followed {
                    feed.lanes.swap_remove(at).end(out);
                } else if let Some(lane) = feed.lanes.get_mut(at) {
                    std::mem::replace(lane, FeedLane::new(&mut self.numbering)).end(out);
                }
                followed -= 1;
            }
        }
    }
}

impl Feed {
    /// Writes new rows of the cursors that were read before. `true`: there is more.
    fn pump(
        &mut self,
        numbering: &mut Numbering,
        cluster: &Cluster,
        turn: &mut Turn,
        out: &mut Vec<u8>,
    ) -> bool {
        let (mut has_more, mut held, mut waits) = (false, 0, false);
        let now = clock::boot();
        let out_max = cluster.out_bytes_max();
        let cursors = self.subscription.cursors();
        // A slow reader continues where it stopped, so that each node has its turn.
        let (all, first) = (self.lanes.len(), self.next);
        for index in (0..all).map(|n| (first + n) % all) {
            if out.len() > out_max {
                (self.next, self.fresh) = (index, false);
                return true;
            }
            let (lane, cursor) = (&mut self.lanes[index], &mut cursors[index]);
            if !lane.is_over {
                // Columns that must be chosen first wait for another turn; rows do not.
                if turn.is_over() && cursor.is_costly() {
                    waits = true;
                } else {
                    has_more |= lane.pump(self.number, cursor, numbering, cluster, now, out);
                    turn.spend(cursor.take_cost());
                }
                if self.pace == Pace::Past && lane.wanted && cursor.is_caught_up() {
                    lane.close(out);
                }
            }
            held += cursor.held();
        }
        self.fresh = waits;
        if all == cursors.len() {
            self.subscription.counted(held);
        }
        has_more
    }

    /// Reads new cursors for the first time, in their order, as far as the turn goes.
    fn look_at_new(
        &mut self,
        numbering: &mut Numbering,
        cluster: &Cluster,
        turn: &mut Turn,
        out: &mut Vec<u8>,
    ) {
        let out_max = cluster.out_bytes_max();
        let now = clock::boot();
        let new = self.subscription.cursors().iter_mut().skip(self.lanes.len());
        for cursor in new {
            if turn.is_over() || out.len() > out_max {
                return;
            }
            let mut lane = FeedLane::new(numbering);
            lane.pump(self.number, cursor, numbering, cluster, now, out);
            turn.spend(1 + cursor.take_cost());
            self.lanes.push(lane);
        }
    }

    /// True if it has nodes that were not read yet.
    fn has_new(&self) -> bool {
        self.asked.is_some()
            || self.subscription.can_go_on()
            || self.lanes.len() < self.subscription.cursor_count()
    }
}

/// The interest that a frame itself describes.
fn asked(frame: &InterestFrame<'_>) -> Result<Interest, String> {
    let rate = Rate::from_period(frame.period).ok_or("no such rate")?;
    let patterns: Result<Vec<Pattern>, _> = frame.patterns().map(Pattern::new).collect();
    let patterns = patterns.map_err(|error| error.to_string())?;
    Ok(Interest::new(patterns, rate, frame.exact))
}
