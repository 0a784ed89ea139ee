//! A reader on its connections, one after the other: it sends the hub every request that the hub does not know yet, and passes on
//! what comes. With several hubs, it makes sure that it is connected to the right one (`whereabouts.rs`).

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use khz_model::Nanos;

use crate::allowance::Allowance;
use crate::channel::ChannelFrame;
use crate::dial::{Identity, Vouch};
use crate::driver::counters::Counters;
use crate::driver::dialer::Dialer;
use crate::driver::following::{ConnectionSink, Requests, Subscription, lock};
use crate::driver::outpost::Outpost;
use crate::driver::present_sink::{NodeList, PresentSink};
use crate::driver::session::End;
use crate::driver::texts;
use crate::driver::waker::Waker;
use crate::driver::worker::Caller;
use crate::driver::{Shared, clock};
use crate::error::{LinkError, Reject};
use crate::limits::{INTERESTS_A_SECOND, INTERESTS_AT_ONCE};
use crate::message::Told;
use crate::put::Ask;
use crate::reader_end::ReaderEnd;
use crate::whereabouts::Whereabouts;

/// Subscriptions sent in one burst, and per second: half of what a hub allows, since its clock is not ours.
const SENT_AT_ONCE: u64 = INTERESTS_AT_ONCE / 2;
const SENT_A_SECOND: u64 = INTERESTS_A_SECOND / 2;

/// The lanes of a new connection come within this time, unless the hub has none of their nodes.
const LANES_LATE: Nanos = Nanos::SECOND;

/// How often we count lanes that get no rows. A count at every read would cost too much: a reader may have
/// thousands of lanes.
const COUNT: Nanos = Nanos::from_millis(250);

/// A reader, whatever the connection.
pub(super) struct Reader<S> {
    identity: Arc<Identity>,
    end: ReaderEnd,
    sink: S,
    requests: Arc<Mutex<Requests>>,
    shared: Arc<Shared>,
    waker: Waker,
    /// `None`: there is only one hub.
    choice: Option<Choice>,
    /// If present, this is an outpost of another reader: it subscribes to the same lanes, and takes none. True inside: it wants the
    /// list of nodes.
    outpost: Option<Arc<AtomicBool>>,
}

/// Several hubs, and the choice of the hub where a reader should be.
struct Choice {
    dialer: Arc<Dialer>,
    whereabouts: Whereabouts,
    /// The present one.
    hub: usize,
    /// When the lanes that stand still are counted next.
    next_count: Nanos,
    /// What we last told the sink of nodes at other hubs.
    told: BTreeMap<String, String>,
}

impl Choice {
    /// Tells the sink which nodes are at other hubs, if that has changed.
    fn tell<S: ConnectionSink>(&mut self, sink: &mut S) {
        if !self.whereabouts.compares() {
            return;
        }
        let found = self.whereabouts.elsewhere();
        let is_known = |(node, hub): (&&str, &usize)| {
            self.told.get(*node).is_some_and(|told| *told == self.dialer.address(*hub).to_string())
        };
        if found.len() == self.told.len() && found.iter().all(is_known) {
            return;
        }
        let named = |(node, hub): (&str, usize)| (node.to_owned(), self.dialer.address(hub).to_string());
        self.told = found.into_iter().map(named).collect();
        sink.elsewhere(&self.told);
    }
}

impl<S> Reader<S> {
    /// A reader without a connection, and the waker that wakes it.
    pub fn new(
        identity: Arc<Identity>,
        sink: S,
        requests: Arc<Mutex<Requests>>,
        shared: &Arc<Shared>,
        waker: Waker,
    ) -> Self {
        Reader {
            end: ReaderEnd::new(identity.clone(), clock::now()),
            identity,
            sink,
            requests,
            shared: shared.clone(),
            waker,
            choice: None,
            outpost: None,
        }
    }

    /// The same reader, but it moves between these hubs when its nodes move.
    pub fn among(self, dialer: &Arc<Dialer>) -> Self {
        let hubs = dialer.hubs();
        let choice = (hubs > 1).then(|| Choice {
            dialer: dialer.clone(),
            whereabouts: Whereabouts::new(hubs),
            hub: 0,
            next_count: Nanos(0),
            told: BTreeMap::new(),
        });
        let end = if choice.is_some() { self.end.among_hubs() } else { self.end };
        Reader { choice, end, ..self }
    }

    /// The same as an outpost, which wants the list of nodes while this is true.
    pub fn into_outpost(self, lists: Arc<AtomicBool>) -> Self {
        Reader { outpost: Some(lists), ..self }
    }
}

impl<S: ConnectionSink> Caller for Reader<S> {
    type End<'a> = ReaderSession<'a, S>;

    fn begin(&mut self, hub: usize, vouch: Option<Vouch>) -> ReaderSession<'_, S> {
        let now = clock::now();
        if let Some(choice) = &mut self.choice {
            choice.hub = hub;
            choice.whereabouts.came_to(hub, now);
        }
        self.end.reconnected(now);
        if let Some(vouch) = vouch {
            self.end.vouched(vouch);
        }
        if self.outpost.is_none() {
            lock(&self.requests).texts.forget_sent();
        }
        ReaderSession {
            reader: self,
            sent: HashSet::new(),
            nodes: NodeList::default(),
            has_channels: false,
            outposts: Vec::new(),
            welcome: now,
            allowance: Allowance::full(now),
            text_allowance: Allowance::full(now),
        }
    }

    fn end(session: ReaderSession<'_, S>, problem: &str) {
        let Reader { end, sink, .. } = session.reader;
        end.cut(sink);
        sink.down(problem);
        sink.rest();
    }

    fn failed(&mut self, problem: &str) {
        self.sink.down(problem);
        self.sink.rest();
    }
}

/// A reader on one connection.
pub(super) struct ReaderSession<'a, S> {
    reader: &'a mut Reader<S>,
    /// Subscriptions that the hub knows.
    sent: HashSet<u32>,
    /// The list of nodes that the hub sends.
    nodes: NodeList,
    /// Our outposts at the other hubs, while we compare the hubs.
    outposts: Vec<Outpost>,
    /// When the hub accepted us.
    welcome: Nanos,
    /// The hub sends the list of channels, or was found not to know such a list.
    has_channels: bool,
    allowance: Allowance<SENT_AT_ONCE, SENT_A_SECOND>,
    text_allowance: Allowance<{ texts::SENT_AT_ONCE }, { texts::SENT_A_SECOND }>,
}

impl<S: ConnectionSink> ReaderSession<'_, S> {
    /// Sends the requests that the hub does not know yet, and ends the requests that the reader has
    /// ended.
    fn send(&mut self, now: Nanos, out: &mut Vec<u8>) {
        let Reader { end, sink, requests, choice, outpost, .. } = &mut *self.reader;
        let looks = choice.as_ref().is_some_and(|choice| choice.whereabouts.looks());
        // Reported after the lock is released: a sink may take locks under which other threads
        // subscribe.
        let mut refused = Vec::new();
        let mut requests = lock(requests);
        let is_current = |number: &u32| requests.subscriptions.iter().any(|known| known.number == *number);
        for number in self.sent.extract_if(|number| !is_current(number)) {
            end.dismiss(number, sink, out);
        }
        let is_shown = outpost.as_ref().map_or(requests.roster, |lists| lists.load(Ordering::Relaxed));
        if let Some(is_sent) = self.nodes.want(is_shown, looks) {
            end.roster(is_sent, out);
        }
        if self.has_channels != requests.channels && outpost.is_none() {
            self.has_channels = requests.channels;
            match end.knows_definitions() {
                true => end.channels(requests.channels, out),
                false if requests.channels => sink.no_definitions(),
                false => {}
            }
        }
        for subscription in &requests.subscriptions {
            if self.sent.contains(&subscription.number) || !self.allowance.take(now) {
                continue;
            }
            let Subscription { number, period, exact, prompt, past, ref channel, ref words, .. } =
                *subscription;
            self.sent.insert(number);
            if channel.is_some() && !end.knows_channels() {
                refused.push(number);
                continue;
            }
            let channel = channel.as_deref().map(ChannelFrame::from);
            end.ask(&Ask { number, period, exact, prompt, past, own: false, channel, patterns: words }, out);
        }
        if outpost.is_none() {
            requests.texts.send(end, sink, || self.text_allowance.take(now), out);
        }
        drop(requests);
        for interest in refused {
            let text = "the hub's khz is older than channels: update it";
            let (granted, period, lane, refused_by) = (false, Nanos(0), 0, "");
            sink.answered(&Told { interest, granted, period, text, lane, refused_by });
        }
    }

    /// Searches for the nodes whose rows do not come here, and moves to the hub where they are.
    fn choose_hub(&mut self, now: Nanos) {
        let Reader { end, sink, identity, requests, shared, choice: Some(choice), .. } = &mut *self.reader
        else {
            return;
        };
        let is_late = now.since(self.welcome) >= LANES_LATE;
        if now >= choice.next_count {
            choice.next_count = Nanos(now.0 + COUNT.0);
            let requests = lock(requests);
            let regular = requests.subscriptions.iter().filter(|all| all.channel.is_none() && !all.past);
            let is_regular = |number| regular.clone().any(|known| known.number == number);
            let has_none = regular.clone().next().is_some() && !end.has_lanes();
            let still = end.stand_still(now, is_regular) + u64::from(has_none && is_late);
            let has_channels = requests.subscriptions.iter().any(|all| all.channel.is_some());
            choice.whereabouts.stand_still(still, has_channels, now);
        }
        if let Some((up, lacks)) = self.nodes.take_complete() {
            choice.whereabouts.here(up, lacks, now);
        }
        self.outposts.retain(|outpost| choice.whereabouts.holds(outpost.hub()));
        if choice.whereabouts.compares() {
            let is_at = |hub: usize| self.outposts.iter().any(|outpost| outpost.hub() == hub);
            let others = (0..choice.dialer.hubs()).filter(|&hub| hub != choice.hub && !is_at(hub));
            let start = |hub| Outpost::start(hub, &choice.dialer, identity, requests, shared);
            let new: Vec<Outpost> = others.filter_map(start).collect();
            self.outposts.extend(new);
        }
        for outpost in &self.outposts {
            outpost.set_lists(choice.whereabouts.compares());
            if let Some(up) = outpost.take_list() {
                choice.whereabouts.there(outpost.hub(), up, now);
            }
        }
        choice.tell(sink);
        if is_late && let Some((hub, nodes)) = choice.whereabouts.better() {
            let nodes = if nodes == 1 { "1 node is".to_owned() } else { format!("{nodes} nodes are") };
            let text = format!("leaves for {}, where {nodes} that it follows", choice.dialer.address(hub));
            shared.moves.set(hub, text);
            shared.bell.ring();
        }
    }
}

impl<S: ConnectionSink> End for ReaderSession<'_, S> {
    fn receive(&mut self, bytes: &[u8], now: Nanos, wall: i64, out: &mut Vec<u8>) -> Result<(), LinkError> {
        let Reader { end, sink, requests, .. } = &mut *self.reader;
        let mut sink = PresentSink { sent: &self.sent, nodes: &mut self.nodes, requests, sink };
        end.receive(bytes, now, wall, &mut sink, out)?;
        match self.reader.sink.refusal() {
            Some(text) => Err(LinkError::Rejected(Reject::protocol(text))),
            None => Ok(()),
        }
    }

    fn poll(&mut self, now: Nanos, wall: i64, out: &mut Vec<u8>) -> Result<(), LinkError> {
        self.reader.end.poll(now, wall, out)?;
        if self.reader.end.is_welcome() {
            self.choose_hub(now);
            self.send(now, out);
            if self.reader.waker.was_used() {
                self.reader.sink.rest();
            }
        }
        Ok(())
    }

    fn next_wake(&self) -> Nanos {
        let wake = self.reader.end.next_wake();
        let requests = lock(&self.reader.requests);
        let (now, waits) = (clock::now(), requests.subscriptions.len() > self.sent.len());
        let rows = self.allowance.next(now).filter(|_| waits);
        let sends_texts = requests.texts.is_waiting() && self.reader.outpost.is_none();
        let texts = self.text_allowance.next(now).filter(|_| sends_texts);
        rows.into_iter().chain(texts).fold(wake, Nanos::min)
    }

    fn is_welcome(&self) -> bool {
        self.reader.end.is_welcome()
    }

    fn welcomed(&mut self) {
        let Reader { end, sink, .. } = &mut *self.reader;
        self.welcome = clock::now();
        sink.up(end.hub());
    }

    fn read_all(&mut self) {
        self.reader.sink.rest();
    }

    fn count(&mut self, counters: &Counters) {
        if self.is_welcome() {
            counters.set_pair(self.reader.end.pair());
        }
    }
}
