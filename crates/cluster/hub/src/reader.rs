//! A reader on a link: another hub, a recorder, a program. It sends interests and gets, for each node that an
//! interest speaks of, a lane of its own with the columns that it selects, encoded as blocks.

use std::sync::Arc;

use khz_link::{InterestFrame, Told, WantFrame};
use khz_model::{Interest, Misses, Nanos, Pattern, Rate};
use khz_trust::Identity;

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

use feed_lane::{FeedLane, Numbering};

/// Somebody who wants rows.
pub(crate) struct Reader {
    pub identity: Identity,
    /// It is a hub that gets its nodes from here.
    pub is_hub: bool,
    feeds: Vec<Feed>,
    numbering: Numbering,
    /// Answers that wait for the next pump: there is no room for them where interests come in.
    answers: Vec<(u32, Result<Rate, String>)>,
    /// What of an interest nobody has, said behind its answer.
    remarks: Vec<(u32, String)>,
    /// It wants to know how the nodes are.
    roster: Option<Roster>,
    /// Kernel texts that it wants.
    pub texts: ReaderTexts,
}

/// One interest of a reader.
struct Feed {
    number: u32,
    pace: Pace,
    subscription: ClusterSubscription,
    /// What it is granted, once there is room for it: until then it was not answered.
    asked: Option<Asked>,
    lanes: Vec<FeedLane>,
    /// The cursor that is looked after first.
    next: usize,
    /// It, or a lane of it, was not wanted a moment ago: nobody waits for the next flush to see the newest row.
    fresh: bool,
}

/// An interest that was not answered yet.
struct Asked {
    rate: Rate,
    patterns: Vec<Pattern>,
}

impl Reader {
    /// `epochs` where its lanes are numbered here: it knows no other way.
    pub fn new(identity: Identity, is_hub: bool, epochs: Option<u64>) -> Self {
        Reader {
            identity,
            is_hub,
            feeds: Vec::new(),
            numbering: Numbering::new(epochs),
            answers: Vec::new(),
            remarks: Vec::new(),
            roster: None,
            texts: ReaderTexts::default(),
        }
    }

    /// A new interest. Which nodes it speaks of is found out afterwards, in turns; then it is answered.
    pub fn interest(&mut self, cluster: &Arc<Cluster>, frame: &InterestFrame<'_>) {
        // It takes the place of the one that had its number.
        self.dismiss(frame.number);
        match self.begin(cluster, frame) {
            Ok(feed) => self.feeds.push(feed),
            Err(text) => self.answers.push((frame.number, Err(text))),
        }
    }

    fn begin(&self, cluster: &Arc<Cluster>, frame: &InterestFrame<'_>) -> Result<Feed, String> {
        if self.feeds.len() >= SUBSCRIPTIONS_MAX {
            return Err(format!(
                "more than {SUBSCRIPTIONS_MAX} interests on one connection: dismiss one, or connect twice"
            ));
        }
        let rate = Rate::from_period(frame.period).ok_or("no such rate")?;
        if !self.identity.role.may_read_at(rate) {
            return Err(format!(
                "{} may not read at {rate}: above 100Hz the operator role is needed",
                self.identity
            ));
        }
        let ceiling = cluster.settings.rate_max;
        if rate.period() < ceiling.period() {
            return Err(format!("{rate} is above this hub's ceiling of {ceiling}"));
        }
        let patterns: Result<Vec<Pattern>, _> = frame.patterns().map(Pattern::new).collect();
        let patterns = patterns.map_err(|error| error.to_string())?;
        let said: usize = patterns.iter().map(|pattern| pattern.series().len()).sum();
        if said > SUBSCRIPTION_BYTES_MAX {
            return Err(format!(
                "the patterns have {said} bytes without their nodes, and may have {SUBSCRIPTION_BYTES_MAX}: ask in several interests"
            ));
        }
        let interest = Interest { patterns: patterns.clone(), rate, exact: frame.exact };
        let pace = match (frame.past, frame.prompt) {
            (true, _) => Pace::Past,
            (false, true) => Pace::Prompt,
            (false, false) => Pace::Flushed,
        };
        let numbers = self.numbering.numbers();
        let subscription = ClusterSubscription::begin(cluster.clone(), interest, pace, numbers);
        Ok(Feed {
            number: frame.number,
            pace,
            subscription: subscription.map_err(|error| error.to_string())?,
            asked: Some(Asked { rate, patterns }),
            lanes: Vec::new(),
            next: 0,
            fresh: true,
        })
    }

    /// Finds out whom its interests speak of, as far as the turn goes, and answers those of which that is known.
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

    /// An interest is taken back.
    pub fn dismiss(&mut self, number: u32) {
        self.feeds.retain(|feed| feed.number != number);
    }

    /// Wants to know how the nodes are, or does not any more.
    pub fn roster(&mut self, wanted: bool) {
        match wanted {
            true if self.roster.is_none() => self.roster = Some(Roster::new()),
            true => {}
            false => self.roster = None,
        }
    }

    /// A lane that was offered is wanted.
    pub fn want(&mut self, want: &WantFrame<'_>) {
        for feed in &mut self.feeds {
            let Some(at) = feed.lanes.iter().position(|lane| lane.number == want.lane) else { continue };
            feed.fresh |= !feed.lanes[at].wanted;
            if let Some(cursor) = feed.subscription.cursors().get_mut(at) {
                feed.lanes[at].want(want, cursor, feed.pace == Pace::Past);
            }
        }
    }

    /// It is not wanted any more.
    pub fn leave(&mut self, lane: u32) {
        for feed in &mut self.feeds {
            let Some(at) = feed.lanes.iter().position(|known| known.number == lane) else { continue };
            if let Some(cursor) = feed.subscription.cursors().get_mut(at) {
                feed.lanes[at].leave(cursor);
            }
        }
    }

    /// True where some interest wants every row at once.
    pub fn is_prompt(&self) -> bool {
        self.feeds.iter().any(|feed| feed.pace == Pace::Prompt)
    }

    /// True where nothing waits for a flush.
    pub fn is_all_prompt(&self) -> bool {
        self.roster.is_none() && self.feeds.iter().all(|feed| feed.pace == Pace::Prompt)
    }

    /// True where an interest waits for its answer, or for its first rows.
    pub fn has_answers(&self) -> bool {
        let is_new = |feed: &Feed| feed.fresh || feed.has_new();
        !self.answers.is_empty() || self.feeds.iter().any(is_new) || self.texts.has_news()
    }

    /// True where there is something to look for.
    pub fn is_busy(&self) -> bool {
        let has_rows = !self.feeds.is_empty() || !self.answers.is_empty() || self.roster.is_some();
        has_rows || self.texts.has_news() || self.texts.is_waiting()
    }

    /// When it wants to hear of something that does not come: how the nodes are.
    pub fn next_timed(&self) -> Option<Nanos> {
        self.roster.as_ref().map(Roster::next)
    }

    /// Says what there is to say: answers, lanes, and the rows that came since; nothing while `out` is full. `true`: there
    /// is more, whether anything comes or not.
    pub fn pump(
        &mut self,
        cluster: &Arc<Cluster>,
        turn: &mut Turn,
        prompt_only: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut has_more = false;
        self.let_go(out);
        self.open(cluster, turn);
        for (interest, answer) in self.answers.drain(..) {
            let (granted, period, text) = match &answer {
                Ok(rate) => (true, rate.period(), ""),
                Err(text) => (false, Nanos(0), text.as_str()),
            };
            Told { interest, granted, period, text, lane: 0 }.put(out);
        }
        for (interest, text) in self.remarks.drain(..) {
            Told { interest, granted: true, period: Nanos(0), text: &text, lane: 0 }.put(out);
        }
        let out_max = cluster.out_bytes_max();
        if let Some(roster) = self.roster.as_mut().filter(|_| !prompt_only) {
            roster.pump(cluster, out);
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

    /// Nothing more comes of nodes that were forgotten.
    fn let_go(&mut self, out: &mut Vec<u8>) {
        for feed in &mut self.feeds {
            let places = feed.subscription.let_go();
            let mut followed = feed.subscription.cursors().len() + places.len();
            for at in places {
                // The last cursor takes its place, with its lane where it has one already.
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
    /// Says what has come since, of the cursors that were looked at before; `true`: that is not all.
    fn pump(
        &mut self,
        numbering: &mut Numbering,
        cluster: &Cluster,
        turn: &mut Turn,
        out: &mut Vec<u8>,
    ) -> bool {
        let (mut has_more, mut held, mut waits) = (false, 0, false);
        let out_max = cluster.out_bytes_max();
        let cursors = self.subscription.cursors();
        // A reader that is behind goes on where it stopped, so that each node has its turn.
        let (all, first) = (self.lanes.len(), self.next);
        for index in (0..all).map(|n| (first + n) % all) {
            if out.len() > out_max {
                (self.next, self.fresh) = (index, false);
                return true;
            }
            let (lane, cursor) = (&mut self.lanes[index], &mut cursors[index]);
            if !lane.is_over {
                // Columns that have to be chosen first wait for another turn, rows do not.
                if turn.is_over() && cursor.is_costly() {
                    waits = true;
                } else {
                    has_more |= lane.pump(self.number, cursor, numbering, cluster, out);
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

    /// Looks at cursors for the first time, in their order, as far as the turn goes.
    fn look_at_new(
        &mut self,
        numbering: &mut Numbering,
        cluster: &Cluster,
        turn: &mut Turn,
        out: &mut Vec<u8>,
    ) {
        let out_max = cluster.out_bytes_max();
        let new = self.subscription.cursors().iter_mut().skip(self.lanes.len());
        for cursor in new {
            if turn.is_over() || out.len() > out_max {
                return;
            }
            let mut lane = FeedLane::new(numbering);
            lane.pump(self.number, cursor, numbering, cluster, out);
            turn.spend(1 + cursor.take_cost());
            self.lanes.push(lane);
        }
    }

    /// True where it has nodes that were not looked at.
    fn has_new(&self) -> bool {
        self.asked.is_some()
            || self.subscription.is_behind()
            || self.lanes.len() < self.subscription.cursor_count()
    }
}
