//! Freezes: rows around a moment that nodes keep for this hub. It requests the freezes, notes the answers, and fetches the kept
//! rows, from some nodes at a time; the caller gets them in a queue. It keeps no rows, writes no file, and decides about no cause.
//!
//! The lock here is always taken last: code that holds it locks no node.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use khz_link::freeze::{Frozen, FrozenState};
use khz_link::frozen;
use khz_link::{End, LaneOffer, Reject, SchemaPiece};
use khz_model::{Nanos, NodeName};

use crate::clock;
use crate::cluster::Cluster;
use crate::limits::FETCH_BYTES_MAX;
use crate::mailbox::Command;
use crate::node::Link;

mod fetch;

use fetch::{Fetch, FetchedLane};

/// Numbers of freezes that are over: nodes that come back later learn that nobody wants their rows.
const OVER_MAX: usize = 4_096;

/// What nodes are to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreezeOrder {
    /// Random, so that no other freeze of any hub has it.
    pub number: u64,
    /// The moment, on our wall clock as it was then, ns since 1970.
    pub at: i64,
    /// The same moment, on our boot clock; `None`: it was before this boot.
    pub since_boot: Option<Nanos>,
    /// Keep rows from this long before the moment.
    pub before: Nanos,
    /// Keep rows until this long after the moment.
    pub after: Nanos,
    /// Why, for people.
    pub cause: String,
}

impl FreezeOrder {
    /// The moment by our wall clock as it is now, and how long ago it was.
    pub(crate) fn moment(&self) -> (i64, Nanos) {
        let wall = clock::wall();
        match self.since_boot {
            Some(at) => {
                let age = clock::boot().since(at);
                (wall.saturating_sub_unsigned(age.0), age)
            }
            None => (self.at, Nanos(u64::try_from(wall.saturating_sub(self.at)).unwrap_or(0))),
        }
    }
}

/// A lane whose rows were frozen.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrozenKey {
    /// The number of the freeze.
    pub number: u64,
    /// The node.
    pub node: NodeName,
    /// The name of the lane at the node: `local`.
    pub lane: String,
}

/// The progress of a freeze, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrozenNews {
    /// Nodes were asked; these were not, each with the reason.
    Asked {
        /// The number of the freeze.
        number: u64,
        /// The nodes that were not asked.
        unasked: Vec<(NodeName, Unasked)>,
    },
    /// A node has answered, perhaps not for the first time.
    Answer {
        /// Which.
        node: NodeName,
        /// What it says.
        frozen: Frozen,
        /// Our time since boot minus the node's, ns; `None`: not known.
        up_longer: Option<i64>,
    },
    /// Rows of this lane come next.
    Lane {
        /// Which.
        key: Arc<FrozenKey>,
        /// As at the node.
        epoch: u64,
        /// Time between two rows.
        period: Nanos,
    },
    /// The next bytes of a schema; `offset` 0 begins it.
    Schema {
        /// Whose.
        key: Arc<FrozenKey>,
        /// Of its lane.
        generation: u32,
        /// Where they are in the schema.
        offset: u64,
        /// The bytes.
        bytes: Box<[u8]>,
    },
    /// A closed block whose checksum is right.
    Block {
        /// Whose.
        key: Arc<FrozenKey>,
        /// Header and rows.
        bytes: Box<[u8]>,
    },
    /// The node does not have these rows (without `to`), although it has rows before and after them.
    Lost {
        /// Whose.
        key: Arc<FrozenKey>,
        /// The first of them.
        from: u64,
        /// The first after them.
        to: u64,
    },
    /// All that this node has kept was fetched. [`Cluster::was_fetched`] makes room for the next.
    Whole {
        /// The number of the freeze.
        number: u64,
        /// The node.
        node: NodeName,
    },
    /// [`Cluster::fetch_again`]: rows of this freeze that came before no longer count, and all of them come again.
    Again {
        /// The number of the freeze.
        number: u64,
    },
}

/// Why a node was not asked to freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unasked {
    /// The hub does not know it.
    Unknown,
    /// It is not connected. It is asked when it comes back.
    Down,
    /// It comes through another hub.
    Below,
    /// Its agent does not know freezes.
    TooOld,
}

impl fmt::Display for Unasked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unasked::Unknown => "this hub does not know the node",
            Unasked::Down => "the node is down",
            Unasked::Below => "the node comes through another hub: freeze it there",
            Unasked::TooOld => "its khz is older than freezes: update it",
        })
    }
}

/// Where the news go.
struct Queue(Box<dyn Fn(FrozenNews) + Send>);

impl Queue {
    fn send(&self, news: FrozenNews) {
        (self.0)(news);
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue")
    }
}

/// All freezes of a hub.
#[derive(Debug, Default)]
pub(crate) struct Freezes {
    state: Mutex<State>,
    /// Lanes that are fetched now, without the lock: usually none.
    fetched: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    news: Option<Queue>,
    orders: BTreeMap<u64, Order>,
    over: VecDeque<u64>,
    fetches: BTreeMap<(u64, NodeName), Fetch>,
    /// The fetch and the place in it of each lane that has a number on a connection.
    lanes: HashMap<(u64, u32), ((u64, NodeName), usize)>,
    /// Bytes that nodes were asked for, and that nobody has taken yet.
    under_way: u64,
}

#[derive(Debug)]
struct Order {
    order: Arc<FreezeOrder>,
    /// Nodes whose rows are wanted. A node that has delivered its rows is asked again when it comes back: the rows may be
    /// lost here.
    awaited: BTreeSet<NodeName>,
}

impl State {
    fn tell(&self, news: FrozenNews) {
        if let Some(queue) = &self.news {
            queue.send(news);
        }
    }

    fn awaits(&self, number: u64, node: &NodeName) -> bool {
        self.orders.get(&number).is_some_and(|order| order.awaited.contains(node))
    }

    /// Begins to fetch from the nodes for which there is room.
    fn pump(&mut self) {
        let State { fetches, under_way, news, .. } = self;
        for fetch in fetches.values_mut().filter(|fetch| fetch.is_ready()) {
            let bytes = fetch.bytes();
            if *under_way > 0 && under_way.saturating_add(bytes) > FETCH_BYTES_MAX {
                break;
            }
            *under_way += bytes;
            for lane in fetch.begin() {
                let (key, epoch, period) = (lane.key.clone(), lane.epoch, lane.period);
                if let Some(queue) = news {
                    queue.send(FrozenNews::Lane { key, epoch, period });
                }
            }
        }
    }

    /// Takes what came in a lane. When a node has delivered everything, the queue says so.
    fn take(
        &mut self,
        connection: u64,
        lane: u32,
        take: impl FnOnce(&mut FetchedLane, &Queue) -> Result<(), Reject>,
    ) -> Result<(), Reject> {
        let Some((key, place)) = self.lanes.get(&(connection, lane)) else { return Ok(()) };
        let (Some(fetch), Some(news)) = (self.fetches.get_mut(key), &self.news) else { return Ok(()) };
        if fetch.is_wasted {
            fetch.lanes.get_mut(*place).map_or(Ok(()), |known| take(known, &Queue(Box::new(drop))))?;
            let key = key.clone();
            self.ends_wasted(&key);
            return Ok(());
        }
        let Some(known) = fetch.lanes.get_mut(*place).filter(|_| fetch.is_begun) else { return Ok(()) };
        take(known, news)?;
        if fetch.ends() {
            let (number, node) = key.clone();
            news.send(FrozenNews::Whole { number, node });
        }
        Ok(())
    }

    /// When all has come that the caller has no use for, it is asked for again.
    fn ends_wasted(&mut self, key: &(u64, NodeName)) {
        let Some(fetch) = self.fetches.get_mut(key) else { return };
        if fetch.ends() {
            self.under_way -= fetch.under_way();
            fetch.again();
            self.pump();
        }
    }

    /// Nothing more is fetched of a node.
    fn end_fetch(&mut self, key: &(u64, NodeName)) {
        if let Some(fetch) = self.fetches.remove(key) {
            self.under_way -= fetch.under_way();
        }
        self.lanes.retain(|_, (known, _)| known != key);
    }
}

impl Freezes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// True if a lane of a connection has frozen rows.
    #[inline]
    pub fn is_fetched(&self, connection: u64, lane: u32) -> bool {
        self.fetched.load(Ordering::Relaxed) > 0 && self.state().lanes.contains_key(&(connection, lane))
    }

    /// A node has connected: requests what it keeps.
    pub fn connected(&self, node: &NodeName, link: &Link) {
        let state = self.state();
        let orders = state.orders.values().filter(|order| order.awaited.contains(node));
        let orders: Vec<_> = orders.map(|order| order.order.clone()).collect();
        drop(state);
        if link.freezes() {
            orders.into_iter().for_each(|order| link.send(Command::Freeze(order)));
        }
    }

    /// A connection has ended. Rows that were fetched over it count; the other rows come over the
    /// next connection.
    pub fn disconnected(&self, connection: u64) {
        if self.fetched.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut state = self.state();
        let State { fetches, lanes, under_way, .. } = &mut *state;
        for fetch in fetches.values_mut().filter(|fetch| fetch.is_over(connection)) {
            *under_way -= fetch.under_way();
            fetch.cut();
        }
        lanes.retain(|(of, _), _| *of != connection);
        self.fetched.store(lanes.len(), Ordering::Relaxed);
        state.pump();
    }

    /// A node has answered.
    pub fn answered(&self, node: &NodeName, connection: u64, frozen: &Frozen, up_longer: Option<i64>) {
        let mut state = self.state();
        if !state.awaits(frozen.number, node) {
            return;
        }
        state.tell(FrozenNews::Answer { node: node.clone(), frozen: frozen.clone(), up_longer });
        let key = (frozen.number, node.clone());
        match frozen.state {
            FrozenState::Kept if frozen.lanes.is_empty() => {
                let (number, node) = key;
                state.tell(FrozenNews::Whole { number, node });
            }
            FrozenState::Kept => {
                let fetch = state.fetches.entry(key).or_default();
                fetch.kept(connection, frozen);
                state.pump();
            }
            FrozenState::Refused => {
                if let Some(order) = state.orders.get_mut(&frozen.number) {
                    order.awaited.remove(node);
                }
                state.end_fetch(&key);
                self.fetched.store(state.lanes.len(), Ordering::Relaxed);
                state.pump();
            }
            FrozenState::Marked | FrozenState::Other(_) => {}
        }
    }

    /// A node offers frozen rows, perhaps of a freeze that is over, or of another hub.
    pub fn offered(&self, node: &NodeName, link: &Link, offer: &LaneOffer<'_>) {
        let Some((number, lane)) = frozen::of_name(offer.name) else { return };
        let mut state = self.state();
        if !state.awaits(number, node) {
            if state.over.contains(&number) {
                link.send(Command::Thaw { number });
            }
            return;
        }
        let key = (number, node.clone());
        let named = FrozenKey { number, node: node.clone(), lane: lane.to_owned() };
        let place = state.fetches.entry(key.clone()).or_default().offered(link, named, offer);
        state.lanes.insert((link.connection(), offer.lane), (key, place));
        self.fetched.store(state.lanes.len(), Ordering::Relaxed);
        state.pump();
    }

    /// A piece of a schema came.
    pub fn schema(&self, connection: u64, piece: &SchemaPiece<'_>) -> Result<(), Reject> {
        self.state().take(connection, piece.lane, |lane, news| lane.schema(piece, news))
    }

    /// A block begins.
    pub fn block(&self, connection: u64, lane: u32, bytes: &[u8]) -> Result<(), Reject> {
        self.state().take(connection, lane, |lane, news| lane.block(bytes, news))
    }

    /// It continues.
    pub fn rows(&self, connection: u64, lane: u32, bytes: &[u8]) -> Result<(), Reject> {
        self.state().take(connection, lane, |lane, news| lane.rows(bytes, news))
    }

    /// It is complete.
    pub fn end(&self, connection: u64, end: &End) -> Result<(), Reject> {
        self.state().take(connection, end.lane, |lane, news| lane.end(end, news))
    }

    /// A piece of a closed block came.
    pub fn past(&self, connection: u64, lane: u32, last: bool, bytes: &[u8]) -> Result<(), Reject> {
        self.state().take(connection, lane, |lane, news| lane.past(last, bytes, news))
    }

    /// The node does not have these rows.
    pub fn lost(&self, connection: u64, lane: u32, from: u64, to: u64) -> Result<(), Reject> {
        self.state().take(connection, lane, |lane, news| {
            lane.lost(from, to, news);
            Ok(())
        })
    }

    /// No more rows come in a lane: rows that it lacks are lost.
    pub fn closed(&self, connection: u64, lane: u32) {
        let mut state = self.state();
        // It cannot fail.
        let _ = state.take(connection, lane, |lane, news| {
            lane.lost(lane.rows.0, lane.rows.1, news);
            Ok(())
        });
        state.lanes.remove(&(connection, lane));
        self.fetched.store(state.lanes.len(), Ordering::Relaxed);
    }
}

impl Cluster {
    /// Calls `take` with all news of freezes. `take` must not wait.
    pub fn tell_of_freezes(&self, take: impl Fn(FrozenNews) + Send + 'static) {
        self.freezes.state().news = Some(Queue(Box::new(take)));
    }

    /// Sends all nodes the Freeze in one turn of the link door. Nodes that are down get it when they come back.
    pub fn freeze(&self, order: FreezeOrder, nodes: &BTreeSet<NodeName>) {
        let (number, order) = (order.number, Arc::new(order));
        let awaited = nodes.clone();
        // In this order: a node that connects meanwhile is asked, perhaps twice.
        self.freezes.state().orders.insert(number, Order { order: order.clone(), awaited });
        let mut unasked = Vec::new();
        for name in nodes {
            let link = match self.node(name) {
                None => Err(Unasked::Unknown),
                Some(node) => node.lock().link().link().cloned().ok_or(Unasked::Down),
            };
            let link = link.and_then(|link| match (link.is_through_hub(), link.freezes()) {
                (true, _) => Err(Unasked::Below),
                (_, false) => Err(Unasked::TooOld),
                _ => Ok(link),
            });
            match link {
                Ok(link) => link.send(Command::Freeze(order.clone())),
                Err(why) => unasked.push((name.clone(), why)),
            }
        }
        self.freezes.state().tell(FrozenNews::Asked { number, unasked });
    }

    /// The caller has taken the rows of a node, so others are fetched. The node keeps its rows until the freeze is over
    /// ([`Cluster::thaw`]), since they are on disk only then.
    pub fn was_fetched(&self, number: u64, name: &NodeName) {
        let mut state = self.freezes.state();
        let State { fetches, under_way, .. } = &mut *state;
        if let Some(fetch) = fetches.get_mut(&(number, name.clone())) {
            *under_way -= fetch.under_way();
            fetch.is_taken();
        }
        state.pump();
    }

    /// The rows that were taken for a freeze are lost: requests all of them again from its nodes. They keep the rows until
    /// the freeze is over.
    pub fn fetch_again(&self, number: u64) {
        let mut state = self.freezes.state();
        state.tell(FrozenNews::Again { number });
        let State { fetches, under_way, .. } = &mut *state;
        for fetch in fetches.iter_mut().filter(|((of, _), _)| *of == number).map(|(_, fetch)| fetch) {
            *under_way -= fetch.under_way();
            fetch.again();
            *under_way += fetch.under_way();
        }
        state.pump();
    }

    /// For this freeze, no rows of these nodes are wanted, even if they come back.
    pub fn leave_out(&self, number: u64, nodes: &BTreeSet<NodeName>) {
        let mut state = self.freezes.state();
        if let Some(order) = state.orders.get_mut(&number) {
            order.awaited.retain(|node| !nodes.contains(node));
        }
        for node in nodes {
            state.end_fetch(&(number, node.clone()));
        }
        self.freezes.fetched.store(state.lanes.len(), Ordering::Relaxed);
        state.pump();
    }

    /// A freeze is over, whether or not all was fetched: its nodes need not keep anything.
    pub fn thaw(&self, number: u64, nodes: &BTreeSet<NodeName>) {
        let mut left = Vec::new();
        {
            let mut state = self.freezes.state();
            state.orders.remove(&number);
            state.note_over(number);
            for ((connection, lane), ((of, _), _)) in &state.lanes {
                if *of == number {
                    left.push((*connection, *lane));
                }
            }
            let keys: Vec<_> = state.fetches.keys().filter(|(of, _)| *of == number).cloned().collect();
            for key in keys {
                state.end_fetch(&key);
            }
            self.freezes.fetched.store(state.lanes.len(), Ordering::Relaxed);
            state.pump();
        }
        for name in nodes {
            let link = self.node(name).and_then(|node| node.lock().link().link().cloned());
            let Some(link) = link.filter(|link| link.freezes() && !link.is_through_hub()) else { continue };
            let lanes = left.iter().filter(|(connection, _)| *connection == link.connection());
            lanes.for_each(|&(_, lane)| link.send(Command::Leave { lane }));
            link.send(Command::Thaw { number });
        }
    }

    /// A freeze of an earlier start is over.
    pub fn is_thawed(&self, number: u64) {
        self.freezes.state().note_over(number);
    }
}

impl State {
    fn note_over(&mut self, number: u64) {
        if self.over.len() == OVER_MAX {
            self.over.pop_front();
        }
        self.over.push_back(number);
    }
}
