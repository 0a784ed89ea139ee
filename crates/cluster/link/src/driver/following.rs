//! The reader's side: its subscriptions, which outlive connections, and the thread that connects to one of its hubs (`reader.rs`). A
//! [`ConnectionSink`] takes the rows.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use khz_model::{ChannelTerms, Interest, Nanos, NodeStatus, Pattern};

use crate::dial::{HubName, Identity};
use crate::driver::Shared;
use crate::driver::bell::Bell;
use crate::driver::counters::Counters;
use crate::driver::dialer::{Dialer, FindNear, HubAddress, TlsSettings};
use crate::driver::reader::Reader;
use crate::driver::texts::TextSubscriptions;
use crate::driver::waker::Waker;
use crate::driver::worker::Running;
use crate::lane_sink::LaneSink;
use crate::limits::{HANDLER_BYTES_MAX, PATTERNS_MAX, SUBSCRIPTIONS_MAX};
use crate::texts::ReadFrame;

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
    /// Nodes that the reader follows and that are up only at another one of its hubs, each with that hub's address. Called when the
    /// list has changed. A reader with one hub never gets this call.
    fn elsewhere(&mut self, nodes: &BTreeMap<String, String>) {
        let _ = nodes;
    }
    /// Everything that has arrived was handed to the sink.
    fn rest(&mut self) {}
    /// The reason why the connection must end; `None`: it may stay.
    fn refusal(&mut self) -> Option<String> {
        None
    }
}

/// Why a subscription is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FollowingError {
    /// There are already as many as a hub accepts.
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

/// What the reader requests, on every connection.
#[derive(Default)]
pub(super) struct Requests {
    /// The number of the newest subscription.
    newest: u32,
    pub subscriptions: Vec<Subscription>,
    /// The list of nodes.
    pub roster: bool,
    /// The list of channels.
    pub channels: bool,
    pub texts: TextSubscriptions,
}

pub(super) struct Subscription {
    pub number: u32,
    pub period: Nanos,
    pub exact: bool,
    pub prompt: bool,
    pub past: bool,
    pub channel: Option<Arc<ChannelTerms>>,
    pub patterns: Vec<Pattern>,
    /// The same patterns, as they are sent.
    pub words: Vec<String>,
}

impl Requests {
    /// True if the reader follows this node. A reader that has requested nothing yet follows every
    /// node.
    pub fn follows(&self, node: &str) -> bool {
        let mut all = self.subscriptions.iter().flat_map(|known| &known.patterns);
        let is_idle = self.subscriptions.is_empty() && self.texts.is_empty();
        is_idle || all.any(|pattern| pattern.matches_node(node)) || self.texts.follows(node)
    }

    /// True if the hub that reports this node has the node's rows at the rates that we want. If the node comes through another hub, this
    /// hub has only one row a second.
    pub fn are_served(&self, status: &NodeStatus) -> bool {
        let is_direct = status.hub.is_some();
        let is_fast =
            |known: &&Subscription| known.period < Nanos::SECOND && known.channel.is_none() && !known.past;
        let mut fast = self.subscriptions.iter().filter(is_fast).flat_map(|known| &known.patterns);
        status.up && (is_direct || !fast.any(|pattern| pattern.matches_node(status.node.as_str())))
    }
}

pub(super) fn lock(requests: &Mutex<Requests>) -> MutexGuard<'_, Requests> {
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
        let dialer = Arc::new(Dialer::new(hubs, tls, near, from));
        let reader = Reader::new(identity, sink, requests.clone(), &shared, waker.clone()).among(&dialer);
        let running = Running::start(dialer, shared, reader, None)?;
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

    /// Subscribes to past rows: the rows that the hub has of the base lanes, at any rate, as far back as the sink accepts
    /// each lane. A lane is closed after its newest row.
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
            patterns: interest.patterns.clone(),
            words: interest.patterns.iter().map(ToString::to_string).collect(),
        });
        drop(requests);
        self.running.shared.bell.ring();
        Ok(number)
    }

    /// Ends a subscription. Its lanes are closed one after the other, and get no further rows.
    pub fn unsubscribe(&self, number: u32) {
        lock(&self.requests).subscriptions.retain(|known| known.number != number);
        self.running.shared.bell.ring();
    }

    /// Requests the list of nodes, now and on every later connection, or ends that request.
    pub fn roster(&self, wanted: bool) {
        lock(&self.requests).roster = wanted;
        self.running.shared.bell.ring();
    }

    /// Requests the list of channels, now and on every later connection, or ends that request. The list comes at once, and
    /// again whenever a channel is defined, changed or removed.
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

    /// A waker for its thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Its counters.
    pub fn counters(&self) -> &Counters {
        &self.running.shared.counters
    }
}
