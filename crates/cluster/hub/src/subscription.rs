//! A reader's subscription to the cluster: rows of all nodes that its patterns select, including nodes that appear
//! later. The nodes are found a part at a time, so that a reader of thousands of nodes does not keep others waiting.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_link::limits::VERSION;
use khz_model::{
    Bell, ChannelTerms, Choice, Delivery, Interest, Nanos, NodeName, Notice, QueryError, Rate, RowNumber,
    Share, Subscription,
};

use crate::cluster::Cluster;
use crate::cursor::{Cursor, Numbers, Selection, deliveries};
use crate::followed::Follows;
use crate::lane::Lane;
use crate::limits::NOTICES_MAX;
use crate::node::{SharedNode, Terms};
use crate::turn::Turn;

/// How the rows of a subscription come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// In flushes.
    Flushed,
    /// Each row at once.
    Prompt,
    /// The rows of the base lane that are here, at any rate.
    Past,
}

/// Nodes taken out of the list at a time.
const NODES_AT_A_TIME: usize = 64;

/// How far the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Not even which nodes its patterns select.
    Searching,
    /// The nodes, and that there is room for them.
    Open,
}

/// A node that the patterns select, and that has no cursor yet.
struct Found {
    node: Arc<SharedNode>,
    selection: Arc<Selection>,
    /// Memory that its cursor will hold at least.
    needed: u64,
    /// That memory is counted already.
    is_reserved: bool,
}

/// A reader's subscription to the cluster.
pub(crate) struct ClusterSubscription {
    cluster: Arc<Cluster>,
    /// Memory that its cursors hold.
    share: Share,
    rate: Rate,
    exact: bool,
    /// What the nodes do with the rows.
    channel: Option<Arc<ChannelTerms>>,
    choice: Choice,
    /// Memory of the choice.
    choice_bytes: u64,
    /// The selections, by the numbers of the patterns that select a node.
    selections: HashMap<Vec<u32>, Arc<Selection>>,
    /// How its rows come.
    pace: Pace,
    /// How its rows are counted.
    numbers: Numbers,
    /// The store keeps its rows.
    is_kept: bool,
    /// Rung for rows, if its reader sleeps until then.
    bell: Option<Arc<Bell>>,
    /// It follows a channel, for which hubs below are asked.
    follows: Option<Follows>,
    /// The version of the link that its reader speaks.
    version: u8,
    /// The reader is a hub: it gets the rows of every epoch that is here.
    is_of_hub: bool,
    cursors: Vec<Cursor>,
    /// The cursor that is read first if not all have their turn.
    next: usize,
    progress: Progress,
    /// Nodes up to this number, in the order in which they appeared, were checked.
    seen: u64,
    found: VecDeque<Found>,
    /// Memory that cursors of the found nodes will hold, as far as there is room.
    reserved: u64,
    /// There is no room for the first found node; it is tried again.
    is_full: bool,
    /// The count of forgotten nodes at the last check.
    forgotten: u64,
    /// Some cursors are at nodes that were forgotten.
    has_ending: bool,
    /// Names of nodes that had a cursor when they were forgotten.
    gone: HashSet<NodeName>,
    notices: Vec<Notice>,
}

impl ClusterSubscription {
    /// Subscribes, and finds all nodes at once. Refused if readers hold as much as they may.
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

    /// A subscription without cursors: [`ClusterSubscription::go_on`] finds the nodes.
    pub fn begin(
        cluster: Arc<Cluster>,
        interest: Interest,
        pace: Pace,
        numbers: Numbers,
    ) -> Result<Self, QueryError> {
        let is_of_channel = interest.channel.is_some();
        let follows = is_of_channel.then(|| Follows::new(cluster.clone(), &interest, pace == Pace::Prompt));
        let Interest { patterns, rate, exact, channel } = interest;
        let choice = Choice::new(patterns.into());
        let handler_bytes = channel.as_ref().map_or(0, |channel| channel.handler.len());
        let choice_bytes = (choice.held() + handler_bytes) as u64;
        let share = may_hold(&cluster, choice_bytes)?;
        Ok(ClusterSubscription {
            follows,
            choice_bytes,
            share,
            rate,
            exact,
            channel,
            choice,
            selections: HashMap::new(),
            pace,
            numbers,
            is_kept: false,
            bell: None,
            version: VERSION,
            is_of_hub: false,
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

    /// Its reader speaks this version of the link.
    pub fn spoken(mut self, version: u8) -> Self {
        self.version = version;
        self
    }

    /// Its reader is a hub.
    pub fn of_hub(mut self, is_of_hub: bool) -> Self {
        self.is_of_hub = is_of_hub && self.pace != Pace::Past;
        self
    }

    /// The store keeps its rows.
    pub fn kept(mut self) -> Self {
        self.is_kept = true;
        self.follows.iter().for_each(Follows::keep);
        self
    }

    /// True once there is room for the subscription: from then on it cannot be refused.
    pub fn is_open(&self) -> bool {
        self.progress == Progress::Open
    }

    /// True if there are nodes to find or cursors to make.
    pub fn has_more(&self) -> bool {
        !self.is_open() || !self.found.is_empty() || self.seen < self.cluster.appeared()
    }

    /// The same, unless it has to wait until other readers have gone.
    pub fn can_go_on(&self) -> bool {
        self.has_more() && !self.is_full
    }

    /// Finds nodes and makes cursors, as far as the turn goes. Refused if readers hold as much as they may.
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

    /// Checks nodes that it does not know, as far as the turn goes.
    fn search(&mut self, turn: &mut Turn) {
        let appeared = self.cluster.appeared();
        // Nodes that appear later are checked one by one.
        let names = self.choice.names().map(|names| names.len());
        if let Some(names) = names.filter(|_| self.seen == 0) {
            turn.spend(names);
            // A node that has appeared since is checked later, like every new node.
            let is_seen = |node: &Arc<SharedNode>| node.appearance.load(Ordering::Acquire) <= appeared;
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

    /// Notes a node if the patterns mean it.
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
            channel: self.channel.clone(),
        });
        let selection =
            Selection::new(patterns.clone(), speaking.clone(), terms).spoken(self.version).kept(self.is_kept);
        let selection = Arc::new(selection);
        self.selections.insert(speaking, selection.clone());
        selection
    }

    /// Makes cursors for the found nodes. `true`: for all of them.
    fn follow_found(&mut self, turn: &mut Turn) -> bool {
        while let Some(found) = self.found.front() {
            let (needed, is_reserved) = (found.needed, found.is_reserved);
            // The reader must learn first that the lanes of the forgotten node are over: the new ones may look the
            // same.
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

    /// Whether a node that appeared after the subscription was opened may have a cursor: other readers may have taken
    /// the room.
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
                "is not shown yet, and neither are the nodes after it: readers hold all of the {limit} bytes that they may"
            );
            self.note(Notice::of(node.name.clone(), text));
        }
        false
    }

    /// True while it has cursors of forgotten nodes.
    pub fn has_ending(&self) -> bool {
        self.has_ending
    }

    /// True while it has a cursor of a forgotten node of this name.
    fn is_ending(&self, name: &NodeName) -> bool {
        self.cursors.iter().any(|cursor| cursor.is_ending() && cursor.node.name == *name)
    }

    fn note(&mut self, notice: Notice) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push(notice);
        }
    }

    fn follow(&mut self, node: Arc<SharedNode>, selection: Arc<Selection>) {
        let period = if self.pace == Pace::Past { Nanos(0) } else { self.rate.period() };
        let name = node.name.clone();
        let mut cursor = Cursor::new(node, selection, period, self.numbers);
        if self.is_of_hub {
            cursor.takes_every_epoch();
        }
        if cursor.waits_for_room() {
            let text = "has too many different subscriptions; its rows come when other readers have gone";
            self.note(Notice::of(name.clone(), text));
        }
        if self.gone.remove(&name) {
            // The node was forgotten and is back: the reader learns that it is up.
            cursor.knows_as_gone();
        }
        if let Some(bell) = &self.bell {
            cursor.ring(bell);
        }
        self.cursors.push(cursor);
    }

    /// Its reader has the rows of nodes up to these, by an earlier subscription to the same channel.
    pub fn go_on_after(&mut self, places: &[(NodeName, RowNumber)]) {
        for cursor in &mut self.cursors {
            let place = places.iter().find(|(node, _)| *node == cursor.node.name);
            place.into_iter().for_each(|(_, last)| cursor.go_on_after(*last));
        }
    }

    /// True once each node that is up has answered it.
    pub fn is_served(&self) -> bool {
        self.cursors.iter().all(Cursor::is_served)
    }

    /// Its cursors hold this many bytes.
    pub fn counted(&self, held: u64) {
        // A subscription that is open is never refused: only new ones are.
        self.share.set(held + self.reserved + self.choice_bytes);
    }

    /// Counts the bytes that its cursors hold.
    pub(crate) fn count(&self) {
        self.counted(self.cursors.iter().map(Cursor::held).sum());
    }

    /// How many nodes have a cursor so far.
    pub fn cursor_count(&self) -> usize {
        self.cursors.len()
    }

    /// The cursors, one for each node that was found.
    pub fn cursors(&mut self) -> &mut [Cursor] {
        &mut self.cursors
    }

    /// Drops the cursors of forgotten nodes that are read to the end. Returns their indexes: a list that
    /// runs beside the cursors applies `swap_remove` to these, in this order.
    pub fn let_go(&mut self) -> Vec<usize> {
        let forgotten = self.cluster.forgotten();
        if std::mem::replace(&mut self.forgotten, forgotten) != forgotten {
            // A node that came back has appeared once more: it has another number, and gets another cursor.
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

    /// Follows the nodes without reading a row, so that they send the rows, and the store gets them. Returns what they say.
    pub fn tend(&mut self) -> Vec<Notice> {
        self.find_nodes();
        for cursor in &mut self.cursors {
            cursor.read(|_| {});
            cursor.log(&self.cluster);
        }
        self.notices()
    }

    /// Follows nodes that have come, and leaves those that are forgotten, without a look at the others. Returns whether cursors
    /// have changed their places.
    pub fn find_new(&mut self) -> bool {
        let has_moved = !self.let_go().is_empty();
        // An open subscription is not refused.
        let _ = self.go_on(&mut Turn::whole());
        has_moved
    }

    /// Takes the notices that come from the hub itself, not from a node.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Finds all nodes: a door has its own thread and need not take turns.
    fn find_nodes(&mut self) {
        self.find_new();
        self.count();
    }
}

/// Takes this many bytes of the memory that readers may hold.
fn may_hold(cluster: &Cluster, bytes: u64) -> Result<Share, QueryError> {
    let share = cluster.may_follow(bytes).then(|| cluster.follow_bytes.take(bytes)).flatten();
    share.ok_or_else(|| {
        let limit = cluster.follow_bytes_max() as usize;
        QueryError::Full { what: "bytes that readers' places at nodes may hold", limit }
    })
}

impl Subscription for ClusterSubscription {
    fn poll(&mut self) -> Vec<Delivery> {
        self.find_nodes();
        self.cursors.iter_mut().flat_map(|cursor| deliveries(cursor, usize::MAX)).collect()
    }

    fn poll_some(&mut self, readings_max: usize) -> Vec<Delivery> {
        self.find_nodes();
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

    fn ring(&mut self, bell: &Bell) -> bool {
        if self.pace != Pace::Prompt {
            return false;
        }
        // The bells at the nodes end with this one, also where the caller keeps its own.
        let bell = self.bell.insert(Arc::new(bell.clone()));
        self.cluster.newcomers.hear(bell);
        self.cursors.iter_mut().for_each(|cursor| cursor.ring(bell));
        true
    }

    fn places(&self) -> Vec<(NodeName, RowNumber)> {
        let place = |cursor: &Cursor| Some((cursor.node.name.clone(), cursor.last_number()?));
        self.cursors.iter().filter_map(place).collect()
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
