//! A reader on a link: another hub, a recorder, a program. It sends interests and gets, for each node that an
//! interest speaks of, a lane of its own with the columns that it selects, encoded as blocks.

use std::sync::Arc;

use khz_link::{InterestFrame, Reason, Reject, Told, WantFrame};
use khz_model::{Interest, Misses, Nanos, Pattern, Rate};
use khz_trust::Identity;

use crate::cluster::Cluster;
use crate::limits::INTERESTS_MAX;
use crate::query::{ClusterSubscription, HubQuery, Pace};
use crate::reader_texts::ReaderTexts;
use crate::roster::Roster;

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
    lanes: Vec<FeedLane>,
    /// The follower that is looked after first.
    next: usize,
    /// It, or a lane of it, was not wanted a moment ago: nobody waits for the next flush to see the newest row.
    fresh: bool,
}

impl Feed {
    /// Closes the lanes of nodes that were forgotten, once everything of them was said.
    fn drop_over(&mut self, out: &mut Vec<u8>) {
        let over = self.subscription.drop_over();
        let mut at = 0;
        self.lanes.retain_mut(|lane| {
            let is_over = over.binary_search(&at).is_ok();
            if is_over {
                lane.close(out);
            }
            at += 1;
            !is_over
        });
    }
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

    /// A new interest.
    pub fn interest(&mut self, cluster: &Arc<Cluster>, frame: &InterestFrame<'_>) -> Result<(), Reject> {
        if self.feeds.len() >= INTERESTS_MAX {
            let text = format!("more than {INTERESTS_MAX} interests on one connection");
            return Err(Reject { reason: Reason::Full, text });
        }
        let answer = self.open(cluster, frame);
        self.answers.push((frame.number, answer));
        Ok(())
    }

    fn open(&mut self, cluster: &Arc<Cluster>, frame: &InterestFrame<'_>) -> Result<Rate, String> {
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
        let misses = Misses::of(&&HubQuery::new(cluster.clone()), &patterns).sentences();
        self.remarks.extend(misses.into_iter().map(|text| (frame.number, text)));
        let interest = Interest { patterns, rate, exact: frame.exact };
        let pace = match (frame.past, frame.prompt) {
            (true, _) => Pace::Past,
            (false, true) => Pace::Prompt,
            (false, false) => Pace::Flushed,
        };
        let subscription =
            ClusterSubscription::new(cluster.clone(), interest, pace, self.numbering.numbers());
        let subscription = subscription.map_err(|error| error.to_string())?;
        self.dismiss(frame.number);
        self.feeds.push(Feed {
            number: frame.number,
            pace,
            subscription,
            lanes: Vec::new(),
            next: 0,
            fresh: true,
        });
        Ok(rate)
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
            if let Some(follower) = feed.subscription.followers().get_mut(at) {
                feed.lanes[at].want(want, follower, feed.pace == Pace::Past);
            }
        }
    }

    /// It is not wanted any more.
    pub fn leave(&mut self, lane: u32) {
        for feed in &mut self.feeds {
            let Some(at) = feed.lanes.iter().position(|known| known.number == lane) else { continue };
            if let Some(follower) = feed.subscription.followers().get_mut(at) {
                feed.lanes[at].leave(follower);
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
        !self.answers.is_empty() || self.feeds.iter().any(|feed| feed.fresh) || self.texts.has_news()
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
    pub fn pump(&mut self, cluster: &Cluster, prompt_only: bool, out: &mut Vec<u8>) -> bool {
        let mut has_more = false;
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
        let is_due = |feed: &&mut Feed| feed.pace == Pace::Prompt || feed.fresh || !prompt_only;
        for feed in self.feeds.iter_mut().filter(is_due) {
            feed.fresh = false;
            let (number, pace) = (feed.number, feed.pace);
            feed.drop_over(out);
            let followers = feed.subscription.followers();
            while feed.lanes.len() < followers.len() {
                feed.lanes.push(FeedLane::new(&mut self.numbering));
            }
            // A reader that is behind goes on where it stopped, so that no node waits behind the others for ever.
            let (all, first) = (followers.len(), feed.next);
            for index in (0..all).map(|n| (first + n) % all) {
                if out.len() > out_max {
                    feed.next = index;
                    return true;
                }
                let (lane, follower) = (&mut feed.lanes[index], &mut followers[index]);
                if lane.is_over {
                    continue;
                }
                has_more |= lane.pump(number, follower, &mut self.numbering, cluster, out);
                if pace == Pace::Past && lane.wanted && follower.is_caught_up() {
                    lane.close(out);
                }
            }
            has_more |= feed.subscription.has_ending();
        }
        self.texts.pump(cluster, &self.identity, out);
        has_more
    }
}
