//! One node as the hub sees it: who it is, whether it is there, its lanes, and what readers want of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use khz_link::Allowance;
use khz_link::Reason;
use khz_link::texts::{TextFault, TextGiven, TextPiece, Why};
use khz_model::{Away, LaneStatus, Nanos, NodeName, NodeStatus, Rate, Share};

use crate::caller::Caller;
use crate::clock;
use crate::cluster::Cluster;
use crate::counts::Counts;
use crate::demand::{self, Demand, Files, Keeping, Round, Verdict};
use crate::interest::{Interest, Told, Wish};
use crate::lane::Lane;
use crate::limits::{
    GONE_KEPT, INTERESTS_MAX, LANES_MAX, NODE_BYTES_MAX, NODE_BYTES_UNCOUNTED, SCHEMA_WORK_A_SECOND,
    SCHEMA_WORK_MAX, WISHES_A_SECOND, WISHES_AT_ONCE,
};
use crate::mailbox::{Command, Mailbox};
use crate::memory::{Changes, Entry, State};
use crate::schemas::Schema;
use crate::texts::{Knows, TextBytes, TextInbox, Texts, Way};

/// The lane that is always shipped.
pub(crate) const BASE: &str = "base";

/// Connections from here on are no connections of the link door: another hub speaks for the node.
pub(crate) const THROUGH_HUB: u64 = 1 << 63;

/// Former epochs of lanes that are kept for their history.
const FORMER_LANES_MAX: usize = 4;

/// A node that readers and the server share.
#[derive(Debug)]
pub(crate) struct SharedNode {
    pub name: NodeName,
    /// Changes with everything that the node says: a reader looks whether there is anything to look for.
    pub touched: AtomicU64,
    /// Connected; a glance without the lock.
    pub up: AtomicBool,
    /// Its turn among the nodes that appeared; 0: it is forgotten, and who follows it lets go.
    pub turn: AtomicU64,
    state: Mutex<Node>,
    /// Rung when it comes or goes.
    changes: Arc<Changes>,
}

impl SharedNode {
    pub fn new(name: NodeName, now: Nanos, changes: Arc<Changes>) -> Self {
        let state = Mutex::new(Node::new(name.clone(), now));
        let (touched, turn) = (AtomicU64::new(0), AtomicU64::new(0));
        SharedNode { name, touched, up: AtomicBool::new(false), turn, state, changes }
    }

    pub fn lock(&self) -> MutexGuard<'_, Node> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The connection of a node that is up.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub mailbox: Arc<Mailbox>,
    pub connection: u64,
}

/// Who a node said it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub machine: [u8; 16],
    pub boot: [u8; 16],
    /// Boot clock of its start, ns: setting the wall clock back makes no start older.
    pub start: i64,
}

/// What is counted of a node's rows, of all its lanes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub rows: u64,
    pub lost: u64,
    pub late: u64,
}

impl Counted {
    /// With those of a lane. A node may say that it has lost as many rows as it likes.
    fn and(self, lane: &Lane) -> Self {
        Counted {
            rows: self.rows.saturating_add(lane.rows()),
            lost: self.lost.saturating_add(lane.lost()),
            late: self.late.saturating_add(lane.late_rows),
        }
    }

    /// What a lane that is over has counted: what was awaited does not come any more.
    fn of_former(lane: &Lane) -> Self {
        let counted = Counted::default().and(lane);
        Counted { lost: counted.lost.saturating_add(lane.awaited()), ..counted }
    }

    fn plus(self, other: Self) -> Self {
        Counted {
            rows: self.rows.saturating_add(other.rows),
            lost: self.lost.saturating_add(other.lost),
            late: self.late.saturating_add(other.late),
        }
    }
}

/// What somebody asks of a node right now.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub files: &'a Files,
    pub now: Nanos,
    /// Rows may be so old.
    pub age_max: Nanos,
    /// Time between two requests, over a longer time.
    pub ceiling: Nanos,
    pub counts: &'a Counts,
}

/// What is known of a node from before this hub's start, or from another hub; times in ns since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Past {
    pub heard: i64,
    pub since: i64,
    pub address: String,
}

/// Why there is no room for what a node holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// It has more than one may have.
    OfOne,
    /// All of them together have as much as they may.
    OfAll,
}

impl NoRoom {
    /// For the node.
    pub fn text(self) -> &'static str {
        match self {
            NoRoom::OfOne => "this node holds more memory of the hub than one may (NODE_BYTES_MAX)",
            NoRoom::OfAll => {
                "all nodes hold as much memory as a hub gives them: try again, or give it fewer nodes"
            }
        }
    }
}

/// What the hub knows of a node.
#[derive(Debug)]
pub(crate) struct Node {
    pub name: NodeName,
    pub identity: Identity,
    pub version: String,
    pub caller: Option<Caller>,
    pub link: Option<Link>,
    /// When it was last heard, and when it came or went, on our boot clock.
    pub heard: Nanos,
    pub changed: Nanos,
    pub connects: u64,
    /// As long as it has not connected here.
    pub past: Option<Past>,
    /// The configuration says that it should be there.
    pub is_expected: bool,
    /// It has said goodbye: when the connection ends it has left.
    pub says_goodbye: bool,
    /// It has ended on purpose.
    pub has_left: bool,
    /// The other hub that tells of it, and whether it is expected there.
    pub told_by: Option<(String, bool)>,
    pub problem: Option<String>,
    /// Its name is believed: nothing has proved it.
    pub believed: bool,
    /// Why it is not at the hub that it would rather have, and when it said so.
    pub away: Option<(Away, Nanos)>,
    pub lanes: Vec<Lane>,
    /// Ids of the lanes, beside them.
    pub lane_ids: Vec<u64>,
    /// Present connection: its lane numbers and what they are here.
    pub numbers: Vec<(u32, u64)>,
    /// Lanes of former epochs, for their history.
    pub former: Vec<Lane>,
    /// Their ids, beside them: readers fetch what they have not yet.
    former_ids: Vec<u64>,
    /// What lanes that are gone had counted: a node's counters never fall.
    gone: Counted,
    /// Wishes that may come.
    wishes: Allowance<WISHES_AT_ONCE, WISHES_A_SECOND>,
    /// What its schemas may still cost, and when that was.
    schema_work: (u64, Nanos),
    /// What it holds beside its schemas, when that was counted last, and bytes that came since.
    share: Option<Share>,
    uncounted: u64,
    /// What nobody needs of it was given back since it went.
    has_given_back: bool,
    pub interests: Vec<Interest>,
    /// What is asked of it right now.
    demand: Option<Demand>,
    /// How long it is kept ready for that.
    keeping: Keeping,
    interests_made: u32,
    lanes_made: u64,
    /// Kernel texts that readers want of it.
    pub texts: Texts,
    /// It understands wishes for them.
    knows: Knows,
    /// It can be asked for rows once more.
    pub knows_again: bool,
    pub clock_offset: Option<i64>,
    pub round_trip: Option<Nanos>,
    pub retransmitted: Option<u64>,
}

impl Node {
    fn new(name: NodeName, now: Nanos) -> Self {
        Node {
            name,
            identity: Identity::default(),
            version: String::new(),
            caller: None,
            link: None,
            heard: now,
            changed: now,
            connects: 0,
            past: None,
            is_expected: false,
            says_goodbye: false,
            has_left: false,
            told_by: None,
            problem: None,
            believed: false,
            away: None,
            lanes: Vec::new(),
            lane_ids: Vec::new(),
            numbers: Vec::new(),
            former: Vec::new(),
            former_ids: Vec::new(),
            gone: Counted::default(),
            wishes: Allowance::full(now),
            schema_work: (SCHEMA_WORK_MAX, now),
            share: None,
            uncounted: 0,
            has_given_back: true,
            interests: Vec::new(),
            demand: None,
            keeping: Keeping::default(),
            interests_made: 0,
            lanes_made: 0,
            texts: Texts::new(now),
            knows: Knows::default(),
            knows_again: false,
            clock_offset: None,
            round_trip: None,
            retransmitted: None,
        }
    }

    /// Whether a connection of this identity may take the node's place now. The same machine with a start that
    /// is not older may; another machine only when nobody holds the name.
    pub fn admits(&self, identity: &Identity) -> Result<(), (Reason, String)> {
        // Who comes himself is believed more than a hub that speaks for him.
        if self.link.as_ref().is_none_or(|link| link.connection >= THROUGH_HUB) {
            return Ok(());
        }
        let name = &self.name;
        if identity.machine != self.identity.machine {
            let address = self.caller.map_or_else(String::new, |caller| format!(" (from {})", caller.from()));
            let text = format!(
                "the name {name} is taken by another machine that is connected{address}: give one of them another name (--node)"
            );
            return Err((Reason::NameTaken, text));
        }
        if identity.boot != self.identity.boot || identity.start >= self.identity.start {
            return Ok(());
        }
        let text =
            format!("{name} has been started again on this machine since: only one agent may speak for it");
        Err((Reason::Superseded, text))
    }

    /// A connection speaks for the node from now on; one that did so before is cut.
    pub fn connect(
        &mut self,
        identity: Identity,
        version: &str,
        caller: Option<Caller>,
        link: Link,
        now: Nanos,
    ) {
        let another_boot = self.link.is_some() && identity.boot != self.identity.boot;
        if let Some(before) = self.link.replace(link) {
            let text = format!("{} has connected anew", self.name);
            before.mailbox.put(before.connection, Command::Cut { reason: Reason::Superseded, text });
        } else {
            self.changed = now;
        }
        self.identity = identity;
        version.clone_into(&mut self.version);
        self.caller = caller;
        self.heard = now;
        self.connects += 1;
        self.past = None;
        (self.says_goodbye, self.has_left) = (false, false);
        // A reboot is seen after its old connection has ended; two boots at once are two machines.
        self.problem = another_boot.then(|| {
            "another boot of the same machine id was connected: is it a clone (/etc/machine-id)?".to_owned()
        });
        self.knows_again = false;
        self.away = None;
        self.has_given_back = false;
        self.forget_connection();
    }

    /// Nothing that belonged to a connection is there any more.
    fn forget_connection(&mut self) {
        self.numbers.clear();
        for lane in &mut self.lanes {
            lane.hang_up();
        }
        for interest in &mut self.interests {
            interest.told = None;
            interest.lane = None;
        }
        if let Some(demand) = &mut self.demand {
            demand.refused = false;
            demand.give_up();
        }
    }

    /// The connection has ended. `false`: it was superseded before.
    pub fn disconnect(&mut self, connection: u64, problem: Option<String>, now: Nanos) -> bool {
        if self.link.as_ref().is_none_or(|link| link.connection != connection) {
            return false;
        }
        self.link = None;
        self.changed = now;
        self.has_left = std::mem::take(&mut self.says_goodbye);
        self.problem = problem.filter(|_| !self.has_left);
        self.away = None;
        self.forget_connection();
        self.texts.disconnected();
        true
    }

    /// True when this connection speaks for the node.
    pub fn is_linked(&self, connection: u64) -> bool {
        self.link.as_ref().is_some_and(|link| link.connection == connection)
    }

    /// The connection understands so much of kernel texts: the wishes that stand are said.
    pub fn connect_texts(&mut self, knows: Knows) {
        self.knows = knows;
        if let Some(link) = &self.link {
            self.texts.connected(link, knows);
        }
    }

    /// The texts, and the way to the node.
    fn texts_and_way(&mut self) -> (&mut Texts, Way<'_>) {
        let knows = self.knows;
        (&mut self.texts, self.link.as_ref().map(|link| (link, knows)))
    }

    /// A reader wants to see a kernel file.
    pub fn want_text(
        &mut self,
        path: &str,
        wanting: (&Arc<TextInbox>, u32, Nanos),
        all: &TextBytes,
    ) -> Result<u32, (Why, String)> {
        let (texts, way) = self.texts_and_way();
        texts.want(path, wanting, way, all)
    }

    /// He wants it at another pace.
    pub fn pace_text(&mut self, number: u32, inbox: &Arc<TextInbox>, reader: u32, period: Nanos) {
        let (texts, way) = self.texts_and_way();
        texts.pace(number, inbox, reader, period, way);
    }

    /// He wants it to be read at once.
    pub fn ask_text(&mut self, number: u32, inbox: &Arc<TextInbox>, reader: u32, ask: u32) {
        let (texts, way) = self.texts_and_way();
        texts.ask(number, inbox, (reader, ask), way);
    }

    /// The node has read a file, as it was asked to, or cannot.
    pub fn text_given(&mut self, given: TextGiven) {
        let (texts, way) = self.texts_and_way();
        texts.given(given, way);
    }

    /// He does not want it any more.
    pub fn leave_text(&mut self, number: u32, inbox: &Arc<TextInbox>, reader: u32) {
        let (texts, way) = self.texts_and_way();
        texts.leave(number, inbox, reader, way);
    }

    /// A piece of a kernel text came.
    pub fn take_text(&mut self, piece: &TextPiece<'_>) -> Result<bool, TextFault> {
        self.texts.take(piece, self.link.as_ref())
    }

    /// The lane with that id.
    pub fn lane(&self, id: u64) -> Option<&Lane> {
        self.lanes.get(self.lane_ids.iter().position(|&known| known == id)?)
    }

    /// The same, also when its epoch is over: readers may not have fetched all of it.
    pub fn lane_or_former(&self, id: u64) -> Option<&Lane> {
        let former = || self.former.get(self.former_ids.iter().position(|&known| known == id)?);
        self.lane(id).or_else(former)
    }

    /// The lane with that id, to change.
    pub fn lane_mut(&mut self, id: u64) -> Option<&mut Lane> {
        if let Some(at) = self.former_ids.iter().position(|&known| known == id) {
            return self.former.get_mut(at);
        }
        self.lanes.get_mut(self.lane_ids.iter().position(|&known| known == id)?)
    }

    /// Asks the node for rows of a lane once more; `false`: it cannot be asked.
    pub fn ask_again(&mut self, id: u64, from: u64, to: u64) -> bool {
        let number = self.numbers.iter().find(|&&(_, known)| known == id).map(|&(number, _)| number);
        let (Some(lane), Some(link), true) = (number, self.link.clone(), self.knows_again) else {
            return false;
        };
        if let Some(known) = self.lane_mut(id) {
            known.late.ask(from, to);
        }
        link.mailbox.put(link.connection, Command::Again { lane, from, to });
        true
    }

    /// The lane with that number on the present connection.
    #[inline]
    pub fn numbered(&mut self, number: u32) -> Option<&mut Lane> {
        let &(_, id) = self.numbers.iter().find(|(known, _)| *known == number)?;
        self.lane_mut(id)
    }

    /// Id of the base lane.
    pub fn base(&self) -> Option<u64> {
        let at = self.lanes.iter().position(|lane| lane.name == BASE)?;
        self.lane_ids.get(at).copied()
    }

    /// What its base lane holds, once it has said so.
    pub fn schema(&self) -> Option<Arc<Schema>> {
        let schema = self.lane(self.base()?)?.newest_schema()?;
        (!schema.series().is_empty()).then_some(schema)
    }

    /// The lane that an offer speaks of: known, or new. A new epoch of a known lane puts the former one aside.
    pub fn offered(&mut self, number: u32, name: &str, epoch: u64, period: Nanos) -> Option<u64> {
        let known = self.lanes.iter().position(|lane| lane.name == name);
        let mut before = Counted::default();
        if let Some(at) = known {
            if self.lanes[at].epoch == epoch {
                self.lanes[at].period = period;
                self.number(number, self.lane_ids[at]);
                return Some(self.lane_ids[at]);
            }
            let id = self.lane_ids.remove(at);
            let former = self.lanes.remove(at);
            // The lane goes on counting under its name.
            before = Counted::of_former(&former);
            if former.recent_bytes > 0 || former.readers > 0 {
                self.former.push(former);
                self.former_ids.push(id);
                if self.former.len() > FORMER_LANES_MAX {
                    self.former.remove(0);
                    self.former_ids.remove(0);
                }
            }
        }
        if self.lanes.len() >= LANES_MAX {
            self.drop_dead_lane()?;
        }
        self.lanes_made += 1;
        let id = self.lanes_made;
        self.lanes.push(Lane::after(name, epoch, period, (before.rows, before.lost, before.late)));
        self.lane_ids.push(id);
        self.number(number, id);
        Some(id)
    }

    /// A lane is wanted from this row on, or what comes of it, on a connection that has just been made or has just offered it; what a reader has
    /// had asked for on the one before is asked for again.
    pub fn wants(&mut self, id: u64, from: Option<u64>) {
        let Some(lane) = self.lane_mut(id) else { return };
        if !lane.late.want(from) {
            return;
        }
        for (from, to) in lane.late.asked().to_vec() {
            self.ask_again(id, from, to);
        }
    }

    /// A lane has one number, and a number one lane; those of lanes that are gone go with them.
    fn number(&mut self, number: u32, id: u64) {
        let Node { numbers, lane_ids, .. } = self;
        numbers.retain(|&(known, lane)| known != number && lane != id && lane_ids.contains(&lane));
        numbers.push((number, id));
    }

    /// Takes a lane out; what it has counted stays.
    fn remove_lane(&mut self, at: usize) -> Lane {
        self.lane_ids.remove(at);
        let lane = self.lanes.remove(at);
        self.gone = self.gone.plus(Counted::of_former(&lane));
        lane
    }

    /// A piece of a schema came that costs so much: `false` when such pieces have cost too much of late.
    pub fn may_grow(&mut self, cost: usize, now: Nanos) -> bool {
        let (left, at) = self.schema_work;
        let back = u128::from(now.since(at).0) * u128::from(SCHEMA_WORK_A_SECOND) / 1_000_000_000;
        let left = u64::try_from(back).unwrap_or(u64::MAX).saturating_add(left).min(SCHEMA_WORK_MAX);
        let rest = left.checked_sub(cost as u64);
        self.schema_work = (rest.unwrap_or(left), now);
        rest.is_some()
    }

    /// Memory of its blocks that have not ended and of the newest rows, and of its schemas, each once.
    fn held(&self) -> (u64, u64) {
        let lanes = || self.lanes.iter().chain(&self.former);
        let mut schemas: Vec<(*const Schema, u64)> = lanes().flat_map(Lane::schemas_held).collect();
        schemas.sort_unstable();
        schemas.dedup();
        let schemas = schemas.into_iter().map(|(_, held)| held).sum();
        (size_of::<SharedNode>() as u64 + lanes().map(Lane::held).sum::<u64>(), schemas)
    }

    /// This number of bytes has come from it. What it holds is counted now and then; an error says that it may not hold that.
    pub fn take_bytes(&mut self, bytes: usize, cluster: &Cluster) -> Result<(), NoRoom> {
        self.uncounted = self.uncounted.saturating_add(bytes as u64);
        if self.uncounted < NODE_BYTES_UNCOUNTED {
            return Ok(());
        }
        self.count(cluster)
    }

    /// Counts what it holds.
    pub fn count(&mut self, cluster: &Cluster) -> Result<(), NoRoom> {
        self.uncounted = 0;
        let (held, schemas) = self.held();
        let more = held.saturating_sub(self.share.as_ref().map_or(0, Share::bytes));
        let has_room = more == 0 || cluster.may_hold(more);
        match &self.share {
            Some(share) => _ = share.set(held),
            None => self.share = cluster.node_bytes.take(held),
        }
        if held + schemas > NODE_BYTES_MAX {
            return Err(NoRoom::OfOne);
        }
        if !has_room {
            return Err(NoRoom::OfAll);
        }
        Ok(())
    }

    /// When it gives back what nobody needs, if it has gone and has not done so.
    pub fn gives_back_at(&self) -> Option<Nanos> {
        (self.link.is_none() && !self.has_given_back).then_some(Nanos(self.changed.0 + GONE_KEPT.0))
    }

    /// It has gone: what is neither history nor read goes, with `all` history too. What is known of it stays: its name, how
    /// it is, which rows came. `true`: there was something.
    pub fn give_back(&mut self, cluster: &Cluster, all: bool) -> bool {
        let keeps_history = cluster.keeps_history();
        let is_read = |lane: &Lane| lane.readers > 0 || lane.late_readers > 0;
        let before = self.held();
        let mut at = 0;
        while at < self.lanes.len() {
            let lane = &mut self.lanes[at];
            if is_read(lane) || lane.name == BASE {
                if !is_read(lane) {
                    lane.give_back(keeps_history, all);
                }
                at += 1;
            } else {
                self.remove_lane(at);
            }
        }
        let Node { former, former_ids, .. } = self;
        for at in (0..former.len()).rev().filter(|&at| !is_read(&former[at])).collect::<Vec<_>>() {
            former[at].give_back(keeps_history, all);
            if former[at].name != BASE || former[at].recent_bytes == 0 {
                former.remove(at);
                former_ids.remove(at);
            }
        }
        // Those that are read are asked again later.
        self.has_given_back = !self.lanes.iter().chain(&self.former).any(is_read);
        // It holds less than before.
        let _ = self.count(cluster);
        before != self.held()
    }

    /// What was counted of its rows so far.
    pub fn counted(&self) -> Counted {
        self.lanes.iter().fold(self.gone, Counted::and)
    }

    fn drop_dead_lane(&mut self) -> Option<()> {
        let at = self.lanes.iter().position(|lane| !lane.alive && lane.readers == 0 && lane.name != BASE)?;
        self.remove_lane(at);
        Some(())
    }

    /// A lane that readers opened has closed.
    pub fn close_lane(&mut self, number: u32) {
        let Some(at) = self.numbers.iter().position(|&(known, _)| known == number) else { return };
        let (_, id) = self.numbers.remove(at);
        for interest in self.interests.iter_mut().filter(|interest| interest.lane == Some(id)) {
            interest.lane = None;
        }
        if let Some(lane) = self.lane_mut(id) {
            lane.alive = false;
            lane.late.leave();
        }
        self.drop_unread_lanes();
    }

    /// Lanes that have ended, that nobody reads and that have no history.
    fn drop_unread_lanes(&mut self) {
        let mut at = 0;
        while at < self.lanes.len() {
            let lane = &self.lanes[at];
            if lane.alive || lane.readers > 0 || lane.recent_bytes > 0 || lane.name == BASE {
                at += 1;
            } else {
                self.remove_lane(at);
            }
        }
    }

    /// One more reader has this wish. `None`: too many different ones, at once or one after the other.
    pub fn wish(&mut self, wish: &Arc<Wish>) -> Option<u32> {
        if let Some(known) = self.interests.iter_mut().find(|interest| interest.wish == *wish) {
            known.readers += 1;
            return Some(known.number);
        }
        if self.interests.len() >= INTERESTS_MAX || !self.wishes.take(clock::boot()) {
            return None;
        }
        self.interests_made += 1;
        let number = self.interests_made;
        self.interests.push(Interest { number, wish: wish.clone(), readers: 1, told: None, lane: None });
        if let Some(link) = &self.link {
            link.mailbox.put(link.connection, Command::Interest { number, wish: wish.clone() });
        }
        Some(number)
    }

    /// A reader with this interest has gone.
    pub fn unwish(&mut self, number: u32) {
        let Some(at) = self.interests.iter().position(|interest| interest.number == number) else { return };
        self.interests[at].readers -= 1;
        if self.interests[at].readers > 0 {
            return;
        }
        self.interests.remove(at);
        if let Some(link) = &self.link {
            link.mailbox.put(link.connection, Command::Dismiss { number });
        }
        self.leave_unwanted();
    }

    /// Leaves the lanes that serve no interest: one that the node has anyway goes on unless it is told that nobody wants it. While
    /// an interest is not answered none is left: it may be the one that will serve, and its Want may be said before the Leave.
    fn leave_unwanted(&mut self) {
        let is_answered = |interest: &Interest| interest.told.is_some();
        let Some(link) = self.link.clone().filter(|_| self.interests.iter().all(is_answered)) else { return };
        let base = self.base();
        let serves = |id| Some(id) == base || self.interests.iter().any(|known| known.lane == Some(id));
        let unwanted: Vec<_> = self.numbers.iter().copied().filter(|&(_, id)| !serves(id)).collect();
        for (lane, id) in unwanted {
            if self.lane_mut(id).is_some_and(|known| known.late.leave()) {
                link.mailbox.put(link.connection, Command::Leave { lane });
            }
        }
    }

    /// Somebody wants rows of these files no older than that; tells which request is waited for.
    pub fn ask(&mut self, want: &Asking<'_>, round: &Arc<Round>) -> Option<u32> {
        let Asking { files, now, age_max, ceiling, counts } = *want;
        // A node that comes through another hub has what that hub pushes.
        if self.link.as_ref().is_none_or(|link| link.connection >= THROUGH_HUB) {
            return None;
        }
        self.keeping.note(now);
        let covers = self.demand.as_ref().is_some_and(|demand| demand.covers(files));
        if !covers && !self.demand_more(files, now) {
            return None;
        }
        let (link, demand) = (self.link.as_ref()?, self.demand.as_mut()?);
        let crowded = demand.is_crowded(now, age_max);
        match demand.ask(now, age_max, ceiling, round) {
            Verdict::Enough => None,
            Verdict::Wait(ask) => Some(ask),
            Verdict::Send(ask) => {
                Counts::add(&counts.now_crowded, crowded.into());
                let number = demand.number;
                // Before its lane is there the request waits for it.
                if self.interests.iter().any(|known| known.number == number && known.lane.is_some()) {
                    Counts::add(&counts.now_requests, 1);
                    link.mailbox.put(link.connection, Command::Now { number, ask });
                }
                Some(ask)
            }
        }
    }

    /// An interest for these files and those that are wanted already takes the place of the present one.
    fn demand_more(&mut self, files: &Files, now: Nanos) -> bool {
        let mut files = files.clone();
        files.extend(self.demand.iter().flat_map(|demand| demand.files.clone()));
        let Some(number) = self.wish(&Arc::new(demand::wish(&files))) else { return false };
        self.demand_less();
        self.demand = Some(Demand::new(files, number, now));
        true
    }

    fn demand_less(&mut self) {
        if let Some(mut demand) = self.demand.take() {
            demand.give_up();
            self.unwish(demand.number);
        }
    }

    /// Takes the demand back when nobody has asked for long.
    pub fn forget_demand(&mut self, now: Nanos) {
        if self.demand.as_ref().is_some_and(|demand| demand.is_forgotten(now, self.keeping)) {
            self.demand_less();
        }
    }

    /// The lane of an interest is there: a request that waits for it is sent.
    pub fn demand_lane(&mut self, interest: u32, counts: &Counts) {
        let (Some(demand), Some(link)) = (&self.demand, &self.link) else { return };
        if demand.number == interest && !demand.has_answered(demand.sent()) {
            Counts::add(&counts.now_requests, 1);
            let command = Command::Now { number: interest, ask: demand.sent() };
            link.mailbox.put(link.connection, command);
        }
    }

    /// A request was answered by rows of the lane of this number.
    pub fn given(&mut self, lane: u32, ask: u32, now: Nanos, counts: &Counts) {
        let id = self.numbers.iter().find(|(number, _)| *number == lane).map(|&(_, id)| id);
        let (Some(demand), Some(link)) = (&mut self.demand, &self.link) else { return };
        let number = demand.number;
        if !self.interests.iter().any(|known| known.number == number && known.lane == id && id.is_some()) {
            return;
        }
        Counts::add(&counts.now_answers, 1);
        if let Some(next) = demand.given(ask, now) {
            Counts::add(&counts.now_requests, 1);
            link.mailbox.put(link.connection, Command::Now { number, ask: next });
        }
    }

    /// Whether a request was answered.
    pub fn has_answered(&self, ask: u32) -> bool {
        self.demand.as_ref().is_some_and(|demand| demand.has_answered(ask))
    }

    /// What the node answered to an interest, and the lane that serves it.
    pub fn told(&mut self, number: u32, told: Told, lane: Option<u64>) {
        if let Some(demand) = self.demand.as_mut().filter(|demand| demand.number == number && !told.granted) {
            demand.refused = true;
            demand.give_up();
        }
        if let Some(interest) = self.interests.iter_mut().find(|interest| interest.number == number) {
            interest.told = Some(told);
            interest.lane = lane.or(interest.lane);
        }
        self.leave_unwanted();
    }

    /// The interest with that number.
    pub fn interest(&self, number: u32) -> Option<&Interest> {
        self.interests.iter().find(|interest| interest.number == number)
    }

    /// Lanes that have a past, or will have one.
    pub fn history_lanes(&self) -> usize {
        let has_past = |lane: &&Lane| lane.recent_bytes > 0 || lane.name == BASE;
        self.lanes.iter().chain(&self.former).filter(has_past).count()
    }

    /// What came late and was not fetched is given up.
    pub fn forget_late(&mut self, now: Nanos) {
        for lane in self.lanes.iter_mut().chain(&mut self.former) {
            lane.late.keep_house(now, lane.late_readers > 0);
        }
    }

    /// No lane keeps more of the past than this.
    pub fn trim(&mut self, bytes_max: u64) {
        self.lanes.iter_mut().chain(&mut self.former).for_each(|lane| lane.trim(bytes_max));
    }

    /// The base lane, and those whose rows somebody wants, each with its id. One that is only offered sends nothing, one that has
    /// ended has only a past, and one that its readers have left, as the local lane that the node has anyway, sends nothing any more.
    fn running(&self) -> impl Iterator<Item = (&Lane, u64)> {
        let is_wanted = |id| self.interests.iter().any(|interest| interest.lane == Some(id));
        let lanes = self.lanes.iter().zip(self.lane_ids.iter().copied()).filter(|(lane, _)| lane.has_rows());
        lanes.filter(move |&(lane, id)| lane.name == BASE || lane.alive && is_wanted(id))
    }

    /// The fastest rate that somebody asked for of this lane; `None`: nobody did.
    fn asked_of(&self, lane: u64) -> Option<Rate> {
        let served = self.interests.iter().filter(|interest| interest.lane == Some(lane));
        served.filter_map(|interest| interest.wish.rate).min_by_key(|rate| rate.period())
    }

    /// How it is.
    pub fn status(&self, now: Nanos) -> NodeStatus {
        let up = self.link.is_some();
        let (heard, since) = match &self.past {
            Some(past) => (Some(clock::ago(past.heard)), Some(clock::ago(past.since))),
            None => ((self.connects > 0).then(|| now.since(self.heard)), Some(now.since(self.changed))),
        };
        let address = self.past.as_ref().map(|past| past.address.clone()).filter(|text| !text.is_empty());
        NodeStatus {
            node: self.name.clone(),
            up,
            left: self.has_left && !up,
            expected: self.is_expected || self.told_by.as_ref().is_some_and(|(_, expected)| *expected),
            heard,
            since,
            address: self.caller.map(|caller| caller.to_string()).or(address),
            version: self.version.clone(),
            lanes: (self.running())
                .filter_map(|(lane, id)| lane_status(lane, self.asked_of(id), self.clock_offset))
                .collect(),
            clock_offset: self.clock_offset,
            round_trip: self.round_trip,
            retransmitted: self.retransmitted,
            connects: self.connects,
            problem: self.problem.clone(),
            believed: self.believed,
            // Who answers knows its own name.
            hub: None,
            away: self.away.as_ref().map(|(away, said)| aged(away, now.since(*said))),
        }
    }
}

/// What is remembered of it.
impl Node {
    /// As the roster says; `None`: it was never heard.
    pub fn entry(&self, now: Nanos) -> Option<Entry> {
        let (heard, since) = match &self.past {
            Some(past) => (past.heard, past.since),
            None if self.connects == 0 => return None,
            None => (clock::at(self.heard, now), clock::at(self.changed, now)),
        };
        let address = self.past.as_ref().map(|past| past.address.clone());
        Some(Entry {
            node: self.name.clone(),
            state: match self.link {
                Some(_) => State::Up,
                None if self.has_left => State::Left,
                None => State::Down,
            },
            heard,
            since,
            address: address.or(self.caller.map(|caller| caller.to_string())).unwrap_or_default(),
            version: self.version.clone(),
        })
    }

    /// It was known before this hub's start. One that was up then is down until it comes: since when, nobody knows but
    /// that it was heard then.
    pub fn remember(&mut self, entry: &Entry) {
        if self.connects > 0 || self.past.is_some() {
            return;
        }
        let since = if entry.state == State::Up { entry.heard } else { entry.since };
        self.past = Some(Past { heard: entry.heard, since, address: entry.address.clone() });
        self.has_left = entry.state == State::Left;
        self.version.clone_from(&entry.version);
    }

    /// Another hub says how a node is. `true`: that is news.
    pub fn told_of(&mut self, hub: &str, status: &NodeStatus) -> bool {
        if self.link.is_some() || status.up {
            self.told_by = Some((hub.to_owned(), status.expected));
            return false;
        }
        let before = (self.told_by.clone(), self.has_left, self.past.is_some());
        self.told_by = Some((hub.to_owned(), status.expected));
        self.has_left = status.left;
        if let (0, Some(heard)) = (self.connects, status.heard) {
            let at = |age: Nanos| clock::wall().saturating_sub(i64::try_from(age.0).unwrap_or(i64::MAX));
            let address = status.address.clone().unwrap_or_default();
            self.past = Some(Past { heard: at(heard), since: at(status.since.unwrap_or(heard)), address });
            self.version.clone_from(&status.version);
        }
        before != (self.told_by.clone(), self.has_left, self.past.is_some())
    }

    /// Why it cannot be forgotten, if it cannot.
    pub fn must_stay(&self) -> Option<String> {
        match &self.told_by {
            _ if self.link.is_some() => Some("it is up; a node that is there cannot be forgotten".into()),
            Some((hub, _)) => Some(format!("hub {hub} tells of it; forget it there")),
            None if self.connects == 0 && self.past.is_none() => {
                Some("it was never seen, and the setting `nodes` expects it".into())
            }
            None => None,
        }
    }
}

/// The same so much later.
fn aged(away: &Away, later: Nanos) -> Away {
    let add = |time: Nanos| Nanos(time.0.saturating_add(later.0));
    Away {
        since: away.since.map(add),
        back: away.back.map(|time| Nanos(time.0.saturating_sub(later.0))),
        ..away.clone()
    }
}

/// How a lane is that somebody asked for at `asked`; nobody asks for the fixed ones.
fn lane_status(lane: &Lane, asked: Option<Rate>, clock_offset: Option<i64>) -> Option<LaneStatus> {
    let rate = Rate::from_period(lane.period)?;
    // The row's stamp is the node's; our clock minus its is known from the beats.
    let age = lane.newest().map(|stamp| {
        let theirs = i128::from(stamp.boot.0) + i128::from(stamp.real_offset);
        let ours = i128::from(clock::wall());
        let age = ours - theirs + i128::from(clock_offset.unwrap_or(0));
        Nanos(u64::try_from(age.max(0)).unwrap_or(u64::MAX))
    });
    Some(LaneStatus {
        name: lane.name.clone(),
        rate,
        asked: asked.unwrap_or(rate),
        slots: lane.slots() as u64,
        age,
        rows: lane.rows(),
        awaited: lane.awaited(),
        lost: lane.lost(),
        late: lane.late_rows,
    })
}

impl SharedNode {
    /// Marks it as there or not, for glances without the lock.
    pub fn set_up(&self, up: bool) {
        self.up.store(up, Ordering::Relaxed);
        self.changes.ring();
    }

    /// True when the cluster does not know it any more.
    pub fn is_forgotten(&self) -> bool {
        self.turn.load(Ordering::Acquire) == 0
    }
}

#[cfg(test)]
mod held_tests;
#[cfg(test)]
mod tests;
