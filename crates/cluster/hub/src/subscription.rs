//! Rows of all nodes that some patterns speak of, also of those that appear later. Which nodes these are is found out a
//! part at a time, so that a reader of thousands of nodes does not keep others waiting.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_model::{Choice, Delivery, Interest, Nanos, NodeName, Notice, QueryError, Rate, Share, Subscription};

use crate::cluster::Cluster;
use crate::cursor::{Cursor, Numbers, Selection, deliveries};
use crate::lane::Lane;
use crate::limits::NOTICES_MAX;
use crate::node::{SharedNode, Terms};
use crate::turn::Turn;

/// How the rows of a subscription come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// In flushes.
    Flushed,
    /// Each at once.
    Prompt,
    /// Those of the base lane that there are, whatever the rate.
    Past,
}

/// Nodes that are taken out of the list at a time.
const NODES_AT_A_TIME: usize = 64;

/// What was found out so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Which nodes are meant.
    Searching,
    /// That there is room for them.
    Open,
}

/// A node that is meant and is not followed yet.
struct Found {
    node: Arc<SharedNode>,
    selection: Arc<Selection>,
    /// What following it will hold at the least.
    needed: u64,
    /// That is counted already.
    is_reserved: bool,
}

/// Rows of all nodes that the patterns speak of, also of those that appear later.
pub(crate) struct ClusterSubscription {
    cluster: Arc<Cluster>,
    /// What its cursors hold.
    share: Share,
    rate: Rate,
    exact: bool,
    choice: Choice,
    /// What that holds.
    choice_bytes: u64,
    /// What is selected of nodes, by the patterns that speak of them.
    selections: HashMap<Vec<u32>, Arc<Selection>>,
    /// How its rows come.
    pace: Pace,
    /// How they are counted.
    numbers: Numbers,
    cursors: Vec<Cursor>,
    /// Whose turn is first when not all come to theirs.
    next: usize,
    progress: Progress,
    /// Nodes that appeared up to this turn were asked about.
    seen: u64,
    found: VecDeque<Found>,
    /// What following those will hold for which there is room.
    reserved: u64,
    /// There is no room for the node that appeared last: it is tried again.
    is_full: bool,
    /// The count of forgotten nodes when they were looked for last.
    forgotten: u64,
    /// Some cursors are of nodes that were forgotten.
    has_ending: bool,
    /// Names of nodes that were followed when they were forgotten.
    gone: HashSet<NodeName>,
    notices: Vec<Notice>,
}

impl ClusterSubscription {
    /// All at once. Refused where readers hold as much as they may.
    pub fn new(
        cluster: Arc<Cluster>,
        interest: Interest,
        pace: Pace,
        numbers: Numbers,
    ) -> Result<Self, QueryError> {
        let mut subscription = ClusterSubscription::begin(cluster, interest, pace, numbers)?;
        subscription.go_on(&mut Turn::whole())?;
        Ok(subscription)
    }

    /// One that follows nobody yet: [`ClusterSubscription::go_on`] finds out whom.
    pub fn begin(
        cluster: Arc<Cluster>,
        interest: Interest,
        pace: Pace,
        numbers: Numbers,
    ) -> Result<Self, QueryError> {
        let Interest { patterns, rate, exact } = interest;
        let choice = Choice::new(patterns.into());
        let choice_bytes = choice.held() as u64;
        let share = may_hold(&cluster, choice_bytes)?;
        Ok(ClusterSubscription {
            choice_bytes,
            share,
            rate,
            exact,
            choice,
            selections: HashMap::new(),
            pace,
            numbers,
            cursors: Vec::new(),
            next: 0,
            progress: Progress::Searching,
            seen: 0,
            found: VecDeque::new(),
            reserved: 0,
            is_full: false,
            forgotten: cluster.forgotten(),
            has_ending: false,
            gone: HashSet::new(),
            notices: Vec::new(),
            cluster,
        })
    }

    /// True once it is known that there is room for it: it is not refused any more.
    pub fn is_open(&self) -> bool {
        self.progress == Progress::Open
    }

    /// True where there is more to find out.
    pub fn has_more(&self) -> bool {
        !self.is_open() || !self.found.is_empty() || self.seen < self.cluster.appeared()
    }

    /// The same where that need not wait until others have gone.
    pub fn is_behind(&self) -> bool {
        self.has_more() && !self.is_full
    }

    /// Looks for its nodes, and follows them, as far as the turn goes. Refused where readers hold as much as they may.
    pub fn go_on(&mut self, turn: &mut Turn) -> Result<(), QueryError> {
        if self.progress == Progress::Searching {
            self.search(turn);
            if self.seen < self.cluster.appeared() {
                return Ok(());
            }
            let here = self.share.bytes();
            self.share.set(0);
            self.share = may_hold(&self.cluster, here + self.reserved)?;
            self.found.make_contiguous().sort_by(|one, two| one.node.name.cmp(&two.node.name));
            self.progress = Progress::Open;
        }
        while !turn.is_over() && self.follow_found(turn) && self.seen < self.cluster.appeared() {
            self.search(turn);
        }
        Ok(())
    }

    /// Asks which nodes are meant of those that it does not know, as far as the turn goes.
    fn search(&mut self, turn: &mut Turn) {
        let appeared = self.cluster.appeared();
        // Those that come later are asked about one by one.
        let names = self.choice.names().map(|names| names.len());
        if let Some(names) = names.filter(|_| self.seen == 0) {
            turn.spend(names);
            // One that has appeared since then comes once more, in its turn.
            let is_seen = |node: &Arc<SharedNode>| node.turn.load(Ordering::Acquire) <= appeared;
            for node in self.cluster.chosen(&self.choice).into_iter().filter(is_seen) {
                self.meet(node);
            }
            self.seen = appeared;
            return;
        }
        while self.seen < appeared && !turn.is_over() {
            let most = (turn.left() / self.choice.cost()).clamp(1, NODES_AT_A_TIME);
            let nodes = self.cluster.appeared_after(self.seen, most);
            if nodes.len() < most {
                self.seen = appeared;
            }
            turn.spend(nodes.len() * self.choice.cost());
            for (number, node) in nodes {
                self.meet(node);
                self.seen = self.seen.max(number);
            }
        }
    }

    /// Notes a node, if it is meant.
    fn meet(&mut self, node: Arc<SharedNode>) {
        let speaking = self.choice.speaking(node.name.as_str());
        if speaking.is_empty() {
            return;
        }
        let slots = {
            let node = node.lock();
            node.lanes().base().map_or(0, Lane::slots)
        };
        let (needed, is_reserved) = (Cursor::held_at_least(slots), !self.is_open());
        self.reserved += if is_reserved { needed } else { 0 };
        let selection = self.selection(speaking);
        self.found.push_back(Found { node, selection, needed, is_reserved });
    }

    fn selection(&mut self, speaking: Vec<u32>) -> Arc<Selection> {
        if let Some(known) = self.selections.get(&speaking) {
            return known.clone();
        }
        let patterns = self.choice.patterns();
        let of_any_node = |&number: &u32| patterns[number as usize].of_any_node();
        let prompt = self.pace == Pace::Prompt;
        let terms = (self.pace != Pace::Past).then(|| Terms {
            patterns: speaking.iter().map(of_any_node).collect(),
            rate: Some(self.rate),
            exact: self.exact,
            prompt,
        });
        let selection = Arc::new(Selection::new(patterns.clone(), speaking.clone(), terms));
        self.selections.insert(speaking, selection.clone());
        selection
    }

    /// Follows those that were found; `true`: all of them.
    fn follow_found(&mut self, turn: &mut Turn) -> bool {
        while let Some(found) = self.found.front() {
            let (needed, is_reserved) = (found.needed, found.is_reserved);
            // The reader learns first that the lanes of the forgotten one are over: these may be the same.
            let is_early = self.has_ending && self.is_ending(&found.node.name);
            if turn.is_over() || is_early || !is_reserved && !self.has_room(needed) {
                return false;
            }
            if is_reserved {
                self.reserved = self.reserved.saturating_sub(needed);
            }
            turn.spend(1);
            if let Some(Found { node, selection, .. }) = self.found.pop_front()
                && !node.is_forgotten()
            {
                self.follow(node, selection);
            }
        }
        true
    }

    /// Whether a node that has appeared since it is open may be followed: what others came to hold meanwhile may leave no room.
    fn has_room(&mut self, needed: u64) -> bool {
        if self.cluster.may_follow(needed) {
            self.share.set(self.share.bytes() + needed);
            self.is_full = false;
            return true;
        }
        if !std::mem::replace(&mut self.is_full, true)
            && let Some(Found { node, .. }) = self.found.front()
        {
            let limit = self.cluster.follow_bytes_max();
            let text = format!(
                "is not shown yet, nor are those that come after it: readers hold the {limit} bytes at nodes that they may"
            );
            self.note(Notice::of(node.name.clone(), text));
        }
        false
    }

    /// True while cursors of forgotten nodes are here.
    pub fn has_ending(&self) -> bool {
        self.has_ending
    }

    /// Whether a node of this name was forgotten, and not everything of it was handed out.
    fn is_ending(&self, name: &NodeName) -> bool {
        self.cursors.iter().any(|cursor| cursor.is_ending() && cursor.node.name == *name)
    }

    fn note(&mut self, notice: Notice) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push(notice);
        }
    }

    fn follow(&mut self, node: Arc<SharedNode>, selection: Arc<Selection>) {
        let is_base = {
            let state = node.lock();
            let base = state.lanes().base().map_or(Nanos::SECOND, |lane| lane.period);
            self.pace == Pace::Past || self.rate.period() >= base && self.pace == Pace::Flushed
        };
        let period = if self.pace == Pace::Past { Nanos(0) } else { self.rate.period() };
        let name = node.name.clone();
        let mut cursor = Cursor::new(node.clone(), selection.clone(), !is_base, period, self.numbers);
        if cursor.is_none() {
            let text = "is asked for too many different things; showing the base lane: try again when others have gone";
            self.note(Notice::of(name.clone(), text));
            cursor = Cursor::new(node, selection, false, period, self.numbers);
        }
        if let (true, Some(cursor)) = (self.gone.remove(&name), &mut cursor) {
            // It was forgotten and has come back: the reader learns that it is here.
            cursor.knows_as_gone();
        }
        self.cursors.extend(cursor);
    }

    /// Its cursors hold this.
    pub fn counted(&self, held: u64) {
        // Who has been taken in is not thrown out: it is newcomers who are refused.
        self.share.set(held + self.reserved + self.choice_bytes);
    }

    fn count(&self) {
        self.counted(self.cursors.iter().map(Cursor::held).sum());
    }

    /// How many nodes are followed so far.
    pub fn cursor_count(&self) -> usize {
        self.cursors.len()
    }

    /// One cursor for each node that is followed so far.
    pub fn cursors(&mut self) -> &mut [Cursor] {
        &mut self.cursors
    }

    /// Lets the cursors of forgotten nodes go, of which everything was handed out, and tells their places: each is taken by
    /// the last one, in this order.
    pub fn let_go(&mut self) -> Vec<usize> {
        let forgotten = self.cluster.forgotten();
        if std::mem::replace(&mut self.forgotten, forgotten) != forgotten {
            // One that was forgotten and came back has another turn: it is followed again.
            self.cursors.iter_mut().filter(|cursor| cursor.is_forgotten()).for_each(Cursor::end);
            self.has_ending = true;
        }
        if !self.has_ending {
            return Vec::new();
        }
        let places = (0..self.cursors.len()).rev().filter(|&at| self.cursors[at].is_over());
        let places: Vec<usize> = places.collect();
        for &at in &places {
            let cursor = self.cursors.swap_remove(at);
            if self.gone.len() < NOTICES_MAX {
                self.gone.insert(cursor.node.name.clone());
            }
        }
        self.has_ending = self.cursors.iter().any(Cursor::is_ending);
        places
    }

    /// What is to be said of its nodes beside what they say.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// A door has a thread of its own: it finds all there is to find.
    fn look_for_nodes(&mut self) {
        self.let_go();
        // An open one is not refused any more.
        let _ = self.go_on(&mut Turn::whole());
        self.count();
    }
}

/// Takes this number of bytes of what readers may hold at nodes.
fn may_hold(cluster: &Cluster, bytes: u64) -> Result<Share, QueryError> {
    let share = cluster.may_follow(bytes).then(|| cluster.follow_bytes.take(bytes)).flatten();
    share.ok_or_else(|| {
        let limit = cluster.follow_bytes_max() as usize;
        QueryError::Full { what: "bytes that readers' places at nodes may hold", limit }
    })
}

impl Subscription for ClusterSubscription {
    fn poll(&mut self) -> Vec<Delivery> {
        self.look_for_nodes();
        self.cursors.iter_mut().flat_map(|cursor| deliveries(cursor, usize::MAX)).collect()
    }

    fn poll_some(&mut self, readings_max: usize) -> Vec<Delivery> {
        self.look_for_nodes();
        let (all, mut some, mut left) = (self.cursors.len(), Vec::new(), readings_max);
        for at in (0..all).map(|n| (self.next + n) % all) {
            if left == 0 {
                self.next = at;
                break;
            }
            for delivery in deliveries(&mut self.cursors[at], left) {
                left = left.saturating_sub(delivery.rows.iter().map(|row| row.readings.len()).sum());
                some.push(delivery);
            }
        }
        some
    }

    fn rate(&self) -> Rate {
        self.rate
    }

    fn notices(&mut self) -> Vec<Notice> {
        let mut notices = self.take_notices();
        for cursor in &mut self.cursors {
            notices.extend(cursor.take_change());
            notices.extend(cursor.take_notice());
        }
        notices
    }
}

#[cfg(test)]
mod tests;
