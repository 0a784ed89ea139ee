//! The reader's side: a connection to one of its hubs, on which it subscribes and gets rows. It subscribes again on every
//! connection. A [`ConnectionSink`] takes the rows.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use khz_block::Decoder;
use khz_model::{ChannelTerms, Interest, Nanos, NodeStatus, Stamp};

use crate::allowance::Allowance;
use crate::channel::ChannelFrame;
use crate::definition::DefinitionFrame;
use crate::dial::{HubName, Identity, Vouch};
use crate::driver::Shared;
use crate::driver::bell::Bell;
use crate::driver::clock;
use crate::driver::counters::Counters;
use crate::driver::dialer::{Dialer, FindNear, HubAddress, TlsSettings};
use crate::driver::session::End;
use crate::driver::texts::{self, TextSubscriptions};
use crate::driver::waker::Waker;
use crate::driver::worker::{Caller, Running};
use crate::error::{LinkError, Reject};
use crate::limits::{HANDLER_BYTES_MAX, INTERESTS_A_SECOND, INTERESTS_AT_ONCE, INTERESTS_MAX, PATTERNS_MAX};
use crate::message::{LaneOffer, Told};
use crate::put::Ask;
use crate::reader_end::{Accept, LaneKey, LaneSink, ReaderEnd};
use crate::texts::{NoText, ReadFrame, TextGiven};

/// Subscriptions that one reader may have at a time: a hub takes no more on one connection.
pub const SUBSCRIPTIONS_MAX: usize = INTERESTS_MAX;

/// Subscriptions sent in one burst, and per second: half of what a hub allows, since its clock is not ours.
const SENT_AT_ONCE: u64 = INTERESTS_AT_ONCE / 2;
const SENT_A_SECOND: u64 = INTERESTS_A_SECOND / 2;

/// What the thread of a reader needs.
pub struct FollowingSettings {
    /// The hubs, the preferred one first.
    pub hubs: Vec<HubAddress>,
    /// Our identity; the role is reader, operator or hub.
    pub identity: Arc<Identity>,
    /// TLS around the link; `None`: none.
    pub tls: Option<TlsSettings>,
    /// Finds a proof of who we are on this machine; `None`: there is none.
    pub near: Option<FindNear>,
    /// The local address that we connect from; `None`: the kernel chooses.
    pub from: Option<IpAddr>,
    /// Where it counts.
    pub counters: Counters,
}

/// Takes what arrives, on the link's thread. Its methods must be short, or the hub drops rows.
///
/// A hub offers lanes on every connection. A lane with the epoch that it had before continues there. A hub of the first
/// version gives each lane another epoch.
pub trait ConnectionSink: LaneSink + Send + 'static {
    /// A hub has accepted us.
    fn up(&mut self, hub: &HubName);
    /// There is no connection, for this reason. Called at the end of a connection and at every failed attempt.
    fn down(&mut self, problem: &str);
    /// Everything that has arrived was handed over.
    fn rest(&mut self) {}
    /// Why the connection must end, if it must.
    fn refusal(&mut self) -> Option<String> {
        None
    }
}

/// Why a subscription is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FollowingError {
    /// There are as many as a hub takes.
    #[error("there are {SUBSCRIPTIONS_MAX} subscriptions, as many as one connection may have; end one first")]
    TooMany,
    /// It has no pattern, or too many.
    #[error("a subscription has between 1 and {PATTERNS_MAX} patterns; this one has {0}")]
    Patterns(usize),
    /// The handler of its channel is too long.
    #[error("the handler of a channel has at most {HANDLER_BYTES_MAX} bytes; this one has {0}")]
    Handler(usize),
}

/// A reader's running thread. Dropping it ends the connection and the thread.
pub struct Following {
    requests: Arc<Mutex<Requests>>,
    waker: Waker,
    running: Running,
}

/// What the reader requests, whatever the connection.
#[derive(Default)]
struct Requests {
    /// The number of the newest subscription.
    newest: u32,
    subscriptions: Vec<Subscription>,
    /// The list of nodes.
    roster: bool,
    /// The list of channels.
    channels: bool,
    texts: TextSubscriptions,
}

#[derive(Clone)]
struct Subscription {
    number: u32,
    period: Nanos,
    exact: bool,
    prompt: bool,
    past: bool,
    channel: Option<Arc<ChannelTerms>>,
    patterns: Vec<String>,
}

fn lock(requests: &Mutex<Requests>) -> MutexGuard<'_, Requests> {
    requests.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Following {
    /// Starts the thread, which connects at once.
    ///
    /// # Errors
    /// The system has no thread or no descriptor for it.
    pub fn start<S: ConnectionSink>(settings: FollowingSettings, sink: S) -> std::io::Result<Self> {
        let FollowingSettings { hubs, identity, tls, near, from, counters } = settings;
        let requests = Arc::<Mutex<Requests>>::default();
        let shared = Shared::new(Bell::new()?, counters);
        let waker = Waker::of(&shared);
        let end = ReaderEnd::new(identity, clock::now());
        let reader = Reader { end, sink, requests: requests.clone(), waker: waker.clone() };
        let running = Running::start(Dialer::new(hubs, tls, near, from), shared, reader, None)?;
        Ok(Following { requests, waker, running })
    }

    /// Subscribes, now and on every later connection; `prompt`: every row at once, not in flushes. The hub's answer and the
    /// lanes that it offers for the subscription carry the number that this returns.
    ///
    /// # Errors
    /// There are too many subscriptions, or this one has too many patterns or too long a handler.
    pub fn subscribe(&self, interest: &Interest, prompt: bool) -> Result<u32, FollowingError> {
        self.add(interest, prompt, false)
    }

    /// Subscribes to rows of the past: those of the base lanes that the hub has, as far back as the sink accepts each lane,
    /// whatever the rate. After its newest row a lane is closed.
    ///
    /// # Errors
    /// As for [`Following::subscribe`].
    pub fn subscribe_past(&self, interest: &Interest) -> Result<u32, FollowingError> {
        self.add(interest, false, true)
    }

    fn add(&self, interest: &Interest, prompt: bool, past: bool) -> Result<u32, FollowingError> {
        let patterns = interest.patterns.len();
        if patterns == 0 || patterns > PATTERNS_MAX {
            return Err(FollowingError::Patterns(patterns));
        }
        let handler = interest.channel.as_ref().map_or(0, |channel| channel.handler.len());
        if handler > HANDLER_BYTES_MAX {
            return Err(FollowingError::Handler(handler));
        }
        let mut requests = lock(&self.requests);
        if requests.subscriptions.len() >= SUBSCRIPTIONS_MAX {
            return Err(FollowingError::TooMany);
        }
        requests.newest = requests.newest.wrapping_add(1).max(1);
        let number = requests.newest;
        requests.subscriptions.push(Subscription {
            number,
            period: interest.rate.period(),
            exact: interest.exact,
            prompt,
            past,
            channel: interest.channel.clone(),
            patterns: interest.patterns.iter().map(ToString::to_string).collect(),
        });
        drop(requests);
        self.running.shared.bell.ring();
        Ok(number)
    }

    /// Ends a subscription. Its lanes are closed, one after the other, and no further rows come in them.
    pub fn unsubscribe(&self, number: u32) {
        lock(&self.requests).subscriptions.retain(|known| known.number != number);
        self.running.shared.bell.ring();
    }

    /// Requests the list of nodes, now and on every later connection, or ends that.
    pub fn roster(&self, wanted: bool) {
        lock(&self.requests).roster = wanted;
        self.running.shared.bell.ring();
    }

    /// Requests the list of channels, now and on every later connection, or ends that. It comes at once, and again whenever
    /// one is defined, changed or removed.
    pub fn channels(&self, wanted: bool) {
        lock(&self.requests).channels = wanted;
        self.running.shared.bell.ring();
    }

    /// Subscribes to a kernel file of a node: its text comes now and whenever it has changed, on this connection and on later
    /// ones. The caller chooses the number. There are at most [`crate::limits::READS_MAX`] at a time. The same number again
    /// changes the period.
    pub fn subscribe_text(&self, read: &ReadFrame<'_>) {
        lock(&self.requests).texts.subscribe(read);
        self.running.shared.bell.ring();
    }

    /// Requests that the node reads the kernel file of a subscription now. The caller chooses `ask`, and the answer carries
    /// it; only the last request of a subscription is certain to be answered.
    pub fn read_text_now(&self, number: u32, ask: u32) {
        lock(&self.requests).texts.read_now(number, ask);
        self.running.shared.bell.ring();
    }

    /// Ends the subscription to a kernel file.
    pub fn unsubscribe_text(&self, number: u32) {
        lock(&self.requests).texts.unsubscribe(number);
        self.running.shared.bell.ring();
    }

    /// What wakes its thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// What it counts.
    pub fn counters(&self) -> &Counters {
        &self.running.shared.counters
    }
}

/// A reader, whatever the connection.
struct Reader<S> {
    end: ReaderEnd,
    sink: S,
    requests: Arc<Mutex<Requests>>,
    waker: Waker,
}

impl<S: ConnectionSink> Caller for Reader<S> {
    type End<'a> = ReaderSession<'a, S>;

    fn begin(&mut self, vouch: Option<Vouch>) -> ReaderSession<'_, S> {
        let now = clock::now();
        self.end.reconnected(now);
        if let Some(vouch) = vouch {
            self.end.vouched(vouch);
        }
        lock(&self.requests).texts.forget_sent();
        ReaderSession {
            reader: self,
            sent: HashSet::new(),
            has_roster: false,
            has_channels: false,
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
struct ReaderSession<'a, S> {
    reader: &'a mut Reader<S>,
    /// Subscriptions that the hub knows.
    sent: HashSet<u32>,
    /// The hub sends the list of nodes.
    has_roster: bool,
    /// The hub sends the list of channels, or was found not to know such a list.
    has_channels: bool,
    allowance: Allowance<SENT_AT_ONCE, SENT_A_SECOND>,
    text_allowance: Allowance<{ texts::SENT_AT_ONCE }, { texts::SENT_A_SECOND }>,
}

impl<S: ConnectionSink> ReaderSession<'_, S> {
    /// Sends what the hub does not know yet, and ends what the reader has ended.
    fn send(&mut self, now: Nanos, out: &mut Vec<u8>) {
        let Reader { end, sink, requests, .. } = &mut *self.reader;
        // Told after the lock: a sink may take locks within which others subscribe.
        let mut refused = Vec::new();
        let mut requests = lock(requests);
        let is_current = |number: &u32| requests.subscriptions.iter().any(|known| known.number == *number);
        for number in self.sent.extract_if(|number| !is_current(number)) {
            end.dismiss(number, sink, out);
        }
        if self.has_roster != requests.roster {
            self.has_roster = requests.roster;
            end.roster(requests.roster, out);
        }
        if self.has_channels != requests.channels {
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
            let Subscription { number, period, exact, prompt, past, ref channel, ref patterns } =
                *subscription;
            self.sent.insert(number);
            if channel.is_some() && !end.knows_channels() {
                refused.push(number);
                continue;
            }
            let channel = channel.as_deref().map(ChannelFrame::from);
            end.ask(&Ask { number, period, exact, prompt, past, channel, patterns }, out);
        }
        requests.texts.send(end, sink, || self.text_allowance.take(now), out);
        drop(requests);
        for interest in refused {
            let text = "the hub's khz is older than channels: update it";
            let (granted, period, lane, refused_by) = (false, Nanos(0), 0, "");
            sink.answered(&Told { interest, granted, period, text, lane, refused_by });
        }
    }
}

impl<S: ConnectionSink> End for ReaderSession<'_, S> {
    fn receive(&mut self, bytes: &[u8], now: Nanos, wall: i64, out: &mut Vec<u8>) -> Result<(), LinkError> {
        let mut sink = Current { sent: &self.sent, sink: &mut self.reader.sink };
        self.reader.end.receive(bytes, now, wall, &mut sink, out)?;
        match self.reader.sink.refusal() {
            Some(text) => Err(LinkError::Rejected(Reject::protocol(text))),
            None => Ok(()),
        }
    }

    fn poll(&mut self, now: Nanos, wall: i64, out: &mut Vec<u8>) -> Result<(), LinkError> {
        self.reader.end.poll(now, wall, out)?;
        if self.reader.end.is_welcome() {
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
        let texts = self.text_allowance.next(now).filter(|_| requests.texts.is_waiting());
        rows.into_iter().chain(texts).fold(wake, Nanos::min)
    }

    fn is_welcome(&self) -> bool {
        self.reader.end.is_welcome()
    }

    fn welcomed(&mut self) {
        let Reader { end, sink, .. } = &mut *self.reader;
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

/// The sink, without lanes of subscriptions that ended while the offer was under way.
struct Current<'a, S> {
    sent: &'a HashSet<u32>,
    sink: &'a mut S,
}

impl<S: LaneSink> LaneSink for Current<'_, S> {
    fn wants_missed(&self) -> bool {
        self.sink.wants_missed()
    }
    fn offered(&mut self, lane: &LaneKey, offer: &LaneOffer<'_>) -> Option<Accept> {
        if offer.interest != 0 && !self.sent.contains(&offer.interest) {
            return None;
        }
        self.sink.offered(lane, offer)
    }
    fn changed(&mut self, lane: &LaneKey, offer: &LaneOffer<'_>) {
        self.sink.changed(lane, offer);
    }
    fn schema(&mut self, lane: &LaneKey, generation: u32, offset: u64, bytes: &[u8]) {
        self.sink.schema(lane, generation, offset, bytes);
    }
    fn row(&mut self, lane: &LaneKey, number: u64, row: &Decoder) {
        self.sink.row(lane, number, row);
    }
    fn block(&mut self, lane: &LaneKey, bytes: &[u8]) {
        self.sink.block(lane, bytes);
    }
    fn lost(&mut self, lane: &LaneKey, from: u64, to: u64) {
        self.sink.lost(lane, from, to);
    }
    fn answered(&mut self, told: &Told<'_>) {
        self.sink.answered(told);
    }
    fn closed(&mut self, lane: &LaneKey) {
        self.sink.closed(lane);
    }
    fn node(&mut self, status: &NodeStatus) {
        self.sink.node(status);
    }
    fn nodes_end(&mut self) {
        self.sink.nodes_end();
    }
    fn definition(&mut self, definition: &DefinitionFrame<'_>) {
        self.sink.definition(definition);
    }
    fn definitions_end(&mut self) {
        self.sink.definitions_end();
    }
    fn no_definitions(&mut self) {
        self.sink.no_definitions();
    }
    fn text(&mut self, number: u32, text: &Arc<[u8]>, stamp: Stamp) {
        self.sink.text(number, text, stamp);
    }
    fn no_text(&mut self, none: &NoText<'_>) {
        self.sink.no_text(none);
    }
    fn text_given(&mut self, given: TextGiven) {
        self.sink.text_given(given);
    }
}
