//! A queue that hands what comes on a link to another thread: whole, undecoded blocks, for programs that keep or forward
//! them. The queue is bounded: if its reader is slow, it drops the oldest blocks and reports them as lost.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use khz_block::{Decoder, Header};
use khz_model::{Nanos, NodeStatus, Stamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};

use crate::dial::HubName;
use crate::driver::bell::Bell;
use crate::driver::following::ConnectionSink;
use crate::lane_sink::{Accept, LaneKey, LaneSink};
use crate::message::{LaneOffer, Told};

/// The default limit of a queue in bytes: seconds of thousands of nodes.
pub const EVENT_BYTES: usize = 32 << 20;

/// The approximate memory of an event without its bytes.
const OWN_BYTES: usize = 96;

/// Something that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A hub has accepted us.
    Up {
        /// The hub's name.
        hub: String,
    },
    /// There is no connection, and all lanes have ended. Sent again only when the reason changes.
    Down {
        /// Why.
        problem: String,
    },
    /// A lane was offered and accepted, or has changed.
    Lane {
        /// Which lane.
        lane: Arc<LaneKey>,
        /// The subscription that it serves.
        interest: u32,
        /// The generation of its schema.
        generation: u32,
        /// Time between two rows.
        period: Nanos,
        /// The row after the newest that the hub knows.
        next_row: u64,
    },
    /// The next bytes of a schema (`docs/block.md`); `offset` 0 begins the schema.
    Schema {
        /// Which lane.
        lane: Arc<LaneKey>,
        /// The generation of the schema.
        generation: u32,
        /// The offset of the bytes in the schema.
        offset: u64,
        /// The bytes.
        bytes: Box<[u8]>,
    },
    /// A closed block whose checksum is right.
    Block {
        /// Which lane.
        lane: Arc<LaneKey>,
        /// Header and rows.
        bytes: Box<[u8]>,
    },
    /// A block begins with this row. The block itself comes once it is complete.
    Began {
        /// Which lane.
        lane: Arc<LaneKey>,
        /// Its first row.
        row: u64,
    },
    /// The newest row of a block that is not complete yet. Several rows that came together cause one
    /// such event.
    Heard {
        /// Which lane.
        lane: Arc<LaneKey>,
        /// When the row was gathered.
        stamp: Stamp,
        /// Time between two rows.
        period: Nanos,
    },
    /// Rows (without `to`) that will not come: they were lost before the hub had them, in the hub, or in this
    /// queue.
    Lost {
        /// Which lane.
        lane: Arc<LaneKey>,
        /// The first of them.
        from: u64,
        /// The first after them.
        to: u64,
    },
    /// The hub answers a subscription.
    Told {
        /// Which subscription.
        interest: u32,
        /// Whether it was granted.
        granted: bool,
        /// At this period; 0: as requested.
        period: Nanos,
        /// Why it was refused, or runs slower.
        text: String,
    },
    /// Nothing more comes in the lane.
    Closed {
        /// Which lane.
        lane: Arc<LaneKey>,
    },
    /// We did not accept a node's lane, because it has one row a second in place of faster rows
    /// ([`LaneSink::declined`]).
    Declined {
        /// Which node.
        node: String,
    },
    /// The hub knows a node; part of the list of nodes ([`crate::driver::Following::roster`]).
    Node {
        /// Which.
        node: String,
        /// Whether the node is up.
        is_up: bool,
    },
    /// The list of nodes is complete.
    Nodes,
    /// The nodes that are up only at another one of the hubs, each with that hub's address.
    Elsewhere {
        /// All of them.
        nodes: BTreeMap<String, String>,
    },
}

impl Event {
    fn bytes(&self) -> usize {
        OWN_BYTES
            + match self {
                Event::Schema { bytes, .. } | Event::Block { bytes, .. } => bytes.len(),
                Event::Up { hub: text } | Event::Down { problem: text } | Event::Told { text, .. } => {
                    text.len()
                }
                Event::Elsewhere { nodes } => nodes.iter().map(|(node, hub)| node.len() + hub.len()).sum(),
                _ => 0,
            }
    }
}

#[derive(Debug)]
struct Queue {
    events: VecDeque<Event>,
    bytes: usize,
    limit: usize,
    dropped: u64,
    /// The sink is gone: nothing more will come.
    is_over: bool,
}

#[derive(Debug)]
struct SharedQueue {
    queue: Mutex<Queue>,
    bell: Bell,
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Queue {
    fn push(&mut self, event: Event) {
        self.bytes += event.bytes();
        self.events.push_back(event);
        if self.bytes > self.limit {
            self.make_room();
        }
    }

    /// Replaces the oldest blocks by events that report them as lost.
    fn make_room(&mut self) {
        for event in &mut self.events {
            if self.bytes <= self.limit {
                return;
            }
            let Event::Block { lane, bytes } = &*event else { continue };
            let header = bytes.first_chunk().and_then(|head| Header::from_bytes(head, 0).ok());
            let (from, rows) =
                header.map_or((0, 0), |h| (h.first_row, h.closed.map_or(0, |(rows, ..)| rows)));
            let lost = Event::Lost { lane: lane.clone(), from, to: from + u64::from(rows) };
            self.bytes -= event.bytes() - lost.bytes();
            self.dropped += u64::from(rows);
            *event = lost;
        }
    }

    fn is_overfull(&self) -> bool {
        self.bytes > self.limit
    }
}

/// The link's end of the queue.
#[derive(Debug)]
pub struct EventSink {
    shared: Arc<SharedQueue>,
    lanes: HashMap<LaneKey, Arc<LaneKey>>,
    /// How far back it accepts rows of lanes of the past.
    span: Nanos,
    last_problem: Option<String>,
    /// The newest row of each lane that got rows since the last call of `rest`: its time, and the
    /// period.
    heard: HashMap<LaneKey, (Stamp, Nanos)>,
    /// There is an event for which we have not yet woken the reader.
    news: bool,
}

/// The reader's end of the queue. Its descriptor can be polled: it is readable while there may be events.
#[derive(Debug)]
pub struct Events {
    shared: Arc<SharedQueue>,
}

impl Events {
    /// A queue of at most this many bytes, and its other end.
    ///
    /// # Errors
    /// The system has no descriptor for it.
    pub fn new(limit: usize) -> std::io::Result<(EventSink, Events)> {
        Self::with_past(limit, Nanos(0))
    }

    /// The same, with rows of the past as far back as `span`.
    ///
    /// # Errors
    /// As for [`Events::new`].
    pub fn with_past(limit: usize, span: Nanos) -> std::io::Result<(EventSink, Events)> {
        let queue = Queue { events: VecDeque::new(), bytes: 0, limit, dropped: 0, is_over: false };
        let shared = Arc::new(SharedQueue { queue: Mutex::new(queue), bell: Bell::new()? });
        let sink = EventSink {
            shared: shared.clone(),
            lanes: HashMap::new(),
            span,
            last_problem: None,
            heard: HashMap::new(),
            news: false,
        };
        Ok((sink, Events { shared }))
    }

    /// The oldest event, if there is one.
    pub fn try_next(&self) -> Option<Event> {
        let mut queue = self.shared.lock();
        let event = queue.events.pop_front();
        match &event {
            Some(event) => queue.bytes -= event.bytes(),
            None if !queue.is_over => self.shared.bell.silence(),
            None => {}
        }
        event
    }

    /// The oldest event; waits for one this long. `None`: none has come.
    pub fn next_within(&self, time: Duration) -> Option<Event> {
        let until = Instant::now() + time;
        loop {
            if let Some(event) = self.try_next() {
                return Some(event);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_over() {
                return None;
            }
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            // Interrupted or not: the queue is read next.
            let _ = poll(&mut [PollFd::new(self, PollFlags::IN)], Some(&timeout));
        }
    }

    /// Rows that were dropped because this end was slow.
    pub fn dropped(&self) -> u64 {
        self.shared.lock().dropped
    }

    /// True when the link has ended and everything was taken.
    pub fn is_over(&self) -> bool {
        let queue = self.shared.lock();
        queue.is_over && queue.events.is_empty()
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }
}

impl EventSink {
    fn push(&mut self, event: Event) {
        self.shared.lock().push(event);
        self.news = true;
    }

    fn name(&mut self, lane: &LaneKey) -> Arc<LaneKey> {
        self.lanes.entry(lane.clone()).or_insert_with(|| Arc::new(lane.clone())).clone()
    }

    fn offered(&mut self, lane: &LaneKey, offer: &LaneOffer<'_>) {
        let lane = self.name(lane);
        let LaneOffer { interest, generation, period, next_row, .. } = *offer;
        self.push(Event::Lane { lane, interest, generation, period, next_row });
    }
}

impl LaneSink for EventSink {
    fn wants_missed(&self) -> bool {
        true
    }

    fn offered(&mut self, lane: &LaneKey, offer: &LaneOffer<'_>) -> Option<Accept> {
        self.offered(lane, offer);
        Some(Accept { span: self.span, prompt: false, from: None, held: None })
    }

    fn changed(&mut self, lane: &LaneKey, offer: &LaneOffer<'_>) {
        self.offered(lane, offer);
    }

    fn declined(&mut self, lane: &LaneKey) {
        self.push(Event::Declined { node: lane.node.clone() });
    }

    fn schema(&mut self, lane: &LaneKey, generation: u32, offset: u64, bytes: &[u8]) {
        let lane = self.name(lane);
        self.push(Event::Schema { lane, generation, offset, bytes: bytes.into() });
    }

    fn row(&mut self, lane: &LaneKey, number: u64, row: &Decoder) {
        let Some(header) = row.header() else { return };
        if header.first_row == number {
            let lane = self.name(lane);
            self.push(Event::Began { lane, row: number });
        }
        let newest = (row.stamp(), header.period);
        match self.heard.get_mut(lane) {
            Some(heard) => *heard = newest,
            None => {
                self.heard.insert(lane.clone(), newest);
            }
        }
    }

    fn block(&mut self, lane: &LaneKey, bytes: &[u8]) {
        let lane = self.name(lane);
        self.push(Event::Block { lane, bytes: bytes.into() });
    }

    fn lost(&mut self, lane: &LaneKey, from: u64, to: u64) {
        let lane = self.name(lane);
        self.push(Event::Lost { lane, from, to });
    }

    fn answered(&mut self, told: &Told<'_>) {
        let Told { interest, granted, period, text, .. } = *told;
        self.push(Event::Told { interest, granted, period, text: text.to_owned() });
    }

    fn closed(&mut self, lane: &LaneKey) {
        let name = self.name(lane);
        self.lanes.remove(lane);
        self.heard.remove(lane);
        self.push(Event::Closed { lane: name });
    }

    fn node(&mut self, status: &NodeStatus) {
        self.push(Event::Node { node: status.node.to_string(), is_up: status.up });
    }

    fn nodes_end(&mut self) {
        self.push(Event::Nodes);
    }
}

impl ConnectionSink for EventSink {
    fn up(&mut self, hub: &HubName) {
        self.last_problem = None;
        self.push(Event::Up { hub: hub.name.clone() });
    }

    fn down(&mut self, problem: &str) {
        self.lanes.clear();
        self.heard.clear();
        if self.last_problem.as_deref() != Some(problem) {
            self.last_problem = Some(problem.to_owned());
            self.push(Event::Down { problem: problem.to_owned() });
        }
    }

    fn elsewhere(&mut self, nodes: &BTreeMap<String, String>) {
        self.push(Event::Elsewhere { nodes: nodes.clone() });
    }

    fn rest(&mut self) {
        for (lane, (stamp, period)) in std::mem::take(&mut self.heard) {
            let lane = self.name(&lane);
            self.push(Event::Heard { lane, stamp, period });
        }
        if std::mem::take(&mut self.news) {
            self.shared.bell.ring();
        }
    }

    /// Only blocks can be dropped.
    fn refusal(&mut self) -> Option<String> {
        let overfull = self.shared.lock().is_overfull();
        overfull.then(|| "its reader is too slow for what the hub has to say".to_owned())
    }
}

impl Drop for EventSink {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.bell.ring();
    }
}

#[cfg(test)]
mod tests {
    use khz_block::Encoder;
    use khz_model::Stamp;

    use super::*;

    fn lane(name: &str) -> LaneKey {
        LaneKey { node: "n1".into(), name: name.into(), epoch: 7 }
    }

    /// A closed block of this many rows, with some more bytes after them.
    fn block(first_row: u64, rows: u64, more: usize) -> Vec<u8> {
        let (mut encoder, mut bytes) = (Encoder::new(0, 1, Nanos::SECOND), Vec::new());
        encoder.resume(first_row, 1);
        for row in 0..rows {
            let stamp = Stamp { boot: Nanos(row), real_offset: 0 };
            match row {
                0 => encoder.key_row(stamp, 1, |_| (0, row), &mut bytes),
                _ => encoder.delta_row(stamp, 0..1, |_| (0, row), &mut bytes),
            }
        }
        let header = encoder.close().unwrap().to_bytes();
        bytes[..header.len()].copy_from_slice(&header);
        bytes.extend(vec![0; more]);
        bytes
    }

    fn all(events: &Events) -> Vec<Event> {
        std::iter::from_fn(|| events.try_next()).collect()
    }

    /// True when the descriptor is readable: there may be events.
    fn rings(events: &Events) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&now)).unwrap() == 1
    }

    #[test]
    fn why_there_is_no_connection_is_said_once_until_it_changes_or_there_was_one() {
        let (mut sink, events) = Events::new(EVENT_BYTES).unwrap();
        let hub = HubName { name: "hub1".into(), ..HubName::default() };
        for problem in ["refused", "refused", "silent", "silent"] {
            sink.down(problem);
        }
        sink.up(&hub);
        sink.down("silent");
        let down = |problem: &str| Event::Down { problem: problem.into() };
        assert_eq!(
            all(&events),
            [down("refused"), down("silent"), Event::Up { hub: "hub1".into() }, down("silent")]
        );
    }

    #[test]
    fn the_reader_is_woken_for_news_when_the_link_rests_and_sleeps_when_it_has_taken_all() {
        let (mut sink, events) = Events::new(EVENT_BYTES).unwrap();
        sink.rest();
        assert!(!rings(&events), "there is no news");
        sink.nodes_end();
        assert!(!rings(&events), "more may come at once");
        sink.rest();
        assert!(rings(&events));
        assert_eq!(all(&events), [Event::Nodes]);
        assert!(!rings(&events));
        sink.rest();
        assert!(!rings(&events), "the reader was woken for that");
        assert!(events.next_within(Duration::ZERO).is_none() && !events.is_over());
        sink.nodes_end();
        drop(sink);
        assert!(rings(&events) && !events.is_over(), "there is one left");
        assert_eq!(events.next_within(Duration::from_secs(20)), Some(Event::Nodes));
        assert!(events.is_over() && rings(&events), "the descriptor stays readable after the end");
        assert_eq!(events.next_within(Duration::from_secs(1_000)), None, "it does not wait after the end");
    }

    #[test]
    fn of_a_reader_that_is_slow_the_oldest_blocks_are_lost_and_nothing_else() {
        let (mut sink, events) = Events::new(3_000).unwrap();
        let base = lane("base");
        let blocks: Vec<Vec<u8>> = (0..4).map(|n| block(n * 5, 5, 700)).collect();
        sink.schema(&base, 1, 0, &[1; 100]);
        for block in &blocks[..3] {
            sink.block(&base, block);
        }
        assert_eq!((events.dropped(), sink.refusal()), (0, None));
        sink.block(&base, &blocks[3]);
        assert_eq!(events.dropped(), 5);
        let key = Arc::new(base.clone());
        let kept = |n: usize| Event::Block { lane: key.clone(), bytes: blocks[n].clone().into() };
        let schema =
            Event::Schema { lane: key.clone(), generation: 1, offset: 0, bytes: vec![1; 100].into() };
        let lost = Event::Lost { lane: key.clone(), from: 0, to: 5 };
        assert_eq!(all(&events), [schema, lost, kept(1), kept(2), kept(3)]);
        assert_eq!(events.shared.lock().bytes, 0, "what was taken is not counted any more");
        // Only blocks can be dropped: the connection of a reader that leaves other events ends.
        for _ in 0..40 {
            sink.answered(&Told {
                interest: 1,
                granted: true,
                period: Nanos(0),
                text: "",
                lane: 0,
                refused_by: "",
            });
        }
        assert!(sink.refusal().is_some());
        all(&events);
        assert_eq!((sink.refusal(), events.dropped()), (None, 5));
    }

    #[test]
    fn a_block_has_begun_with_its_first_row_and_no_other() {
        let (mut sink, events) = Events::new(EVENT_BYTES).unwrap();
        let mut decoder = Decoder::new();
        decoder.catch_up(&block(5, 3, 0)).unwrap();
        for row in [7, 5, 6] {
            sink.row(&lane("base"), row, &decoder);
        }
        let base = Arc::new(lane("base"));
        assert_eq!(all(&events), [Event::Began { lane: base.clone(), row: 5 }]);
        // Several frames that came together are one piece of news.
        sink.rest();
        sink.rest();
        let (stamp, period) = (decoder.stamp(), Nanos::SECOND);
        assert_eq!(all(&events), [Event::Heard { lane: base, stamp, period }]);
    }
}
