//! The reader's side: a connection to one of its hubs, on which its interests are said and their rows come back. It
//! says them anew on every connection; who takes the rows is somebody else.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use khz_block::Decoder;
use khz_model::{Interest, Nanos, NodeStatus, Stamp};

use crate::allowance::Allowance;
use crate::dial::{HubName, Identity, Vouch};
use crate::driver::Shared;
use crate::driver::bell::Bell;
use crate::driver::clock;
use crate::driver::counters::Counters;
use crate::driver::dialer::{Dialer, FindNear, HubAddress, TlsSettings};
use crate::driver::reads::{self, Reads};
use crate::driver::session::End;
use crate::driver::worker::{Caller, Running};
use crate::error::{LinkError, Reject};
use crate::limits::{INTERESTS_A_SECOND, INTERESTS_AT_ONCE, INTERESTS_MAX, PATTERNS_MAX};
use crate::message::{LaneOffer, Told};
use crate::put::Ask;
use crate::reader_end::{Accept, LaneKey, LaneSink, ReaderEnd};
use crate::texts::{NoText, ReadFrame, TextGiven};

/// Interests that one reader may have at a time: a hub takes no more on one connection.
pub const WISHES_MAX: usize = INTERESTS_MAX;

/// Interests said in one go, and a second: half of what a hub allows, since its clock is not ours.
const SAID_AT_ONCE: u64 = INTERESTS_AT_ONCE / 2;
const SAID_A_SECOND: u64 = INTERESTS_A_SECOND / 2;

/// What the thread needs to know.
pub struct FollowingSettings {
    /// The hubs, the preferred one first.
    pub hubs: Vec<HubAddress>,
    /// Who we are; the role is reader, operator or hub.
    pub identity: Arc<Identity>,
    /// TLS around the link; `None`: none.
    pub tls: Option<TlsSettings>,
    /// Finds what vouches for us on this machine; `None`: nothing does.
    pub near: Option<FindNear>,
    /// The local address that we connect from; `None`: the kernel chooses.
    pub from: Option<IpAddr>,
    /// Numbers that it counts.
    pub counters: Counters,
}

/// Who takes what comes, on the link's thread: what it does must be short, or rows are lost at the hub.
///
/// Lanes are offered on every connection. One that has the epoch that it had before goes on where it was; a hub of the first version gives
/// each another epoch.
pub trait ConnectionSink: LaneSink + Send + 'static {
    /// A hub has welcomed us.
    fn up(&mut self, hub: &HubName);
    /// There is no connection, for this reason; said at every failed attempt.
    fn down(&mut self, problem: &str);
    /// Everything that had come was handed over.
    fn rest(&mut self) {}
    /// Why the connection cannot go on, if it cannot.
    fn refusal(&mut self) -> Option<String> {
        None
    }
}

/// Why an interest cannot be said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FollowingError {
    /// There are as many as a hub takes.
    #[error("there are {WISHES_MAX} interests already, as many as one connection may have; dismiss one")]
    TooMany,
    /// It selects nothing, or has too many patterns.
    #[error("an interest has between 1 and {PATTERNS_MAX} patterns; this one has {0}")]
    Patterns(usize),
}

/// A reader's running thread. Dropping it ends the connection and the thread.
pub struct Following {
    wishes: Arc<Mutex<Wishes>>,
    running: Running,
}

/// What is wanted, on whatever connection.
#[derive(Default)]
struct Wishes {
    asked: u32,
    standing: Vec<Standing>,
    /// How the nodes are is wanted too.
    roster: bool,
    /// Kernel texts are, too.
    reads: Reads,
}

#[derive(Clone)]
struct Standing {
    number: u32,
    period: Nanos,
    exact: bool,
    prompt: bool,
    past: bool,
    patterns: Vec<String>,
}

fn lock(wishes: &Mutex<Wishes>) -> MutexGuard<'_, Wishes> {
    wishes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Following {
    /// Starts the thread, which connects at once.
    ///
    /// # Errors
    /// The system has no thread or no descriptor for it.
    pub fn start<S: ConnectionSink>(settings: FollowingSettings, sink: S) -> std::io::Result<Self> {
        let FollowingSettings { hubs, identity, tls, near, from, counters } = settings;
        let wishes = Arc::<Mutex<Wishes>>::default();
        let reader =
            Reader { reader_end: ReaderEnd::new(identity, clock::now()), sink, wishes: wishes.clone() };
        let shared = Shared::new(Bell::new()?, counters);
        Ok(Following {
            wishes,
            running: Running::start(Dialer::new(hubs, tls, near, from), shared, reader, None)?,
        })
    }

    /// Says an interest, now and on every later connection; `prompt`: every row at once, not in flushes. Its number
    /// comes with the lanes that are offered for it, and with what the hub tells of it.
    ///
    /// # Errors
    /// There are too many, or it has too many patterns.
    pub fn ask(&self, interest: &Interest, prompt: bool) -> Result<u32, FollowingError> {
        self.stand(interest, prompt, false)
    }

    /// Wants the rows that the hub has of the base lanes, as far back as the sink's wish for each lane says, whatever the rate
    /// of the interest; behind the newest the lane is closed.
    ///
    /// # Errors
    /// As there.
    pub fn ask_past(&self, interest: &Interest) -> Result<u32, FollowingError> {
        self.stand(interest, false, true)
    }

    fn stand(&self, interest: &Interest, prompt: bool, past: bool) -> Result<u32, FollowingError> {
        let patterns = interest.patterns.len();
        if patterns == 0 || patterns > PATTERNS_MAX {
            return Err(FollowingError::Patterns(patterns));
        }
        let mut wishes = lock(&self.wishes);
        if wishes.standing.len() >= WISHES_MAX {
            return Err(FollowingError::TooMany);
        }
        wishes.asked = wishes.asked.wrapping_add(1).max(1);
        let number = wishes.asked;
        wishes.standing.push(Standing {
            number,
            period: interest.rate.period(),
            exact: interest.exact,
            prompt,
            past,
            patterns: interest.patterns.iter().map(ToString::to_string).collect(),
        });
        drop(wishes);
        self.running.shared.bell.ring();
        Ok(number)
    }

    /// Takes an interest back: its lanes are closed, one after the other, and nothing comes in them any more.
    pub fn dismiss(&self, number: u32) {
        lock(&self.wishes).standing.retain(|standing| standing.number != number);
        self.running.shared.bell.ring();
    }

    /// Wants to know how the nodes are, now and on every later connection, or does not any more.
    pub fn roster(&self, wanted: bool) {
        lock(&self.wishes).roster = wanted;
        self.running.shared.bell.ring();
    }

    /// Wants to see a kernel file of a node, now and whenever it has changed, on this connection and later ones. The
    /// number is the caller's, at most [`crate::limits::READS_MAX`] at a time; the same number again changes the pace.
    pub fn read(&self, wish: &ReadFrame<'_>) {
        lock(&self.wishes).reads.want(wish);
        self.running.shared.bell.ring();
    }

    /// Wants a kernel file that is wanted already to be read at once. `ask` is the caller's: it comes back with the answer,
    /// and only that to the last one is certain to come.
    pub fn text_now(&self, number: u32, ask: u32) {
        lock(&self.wishes).reads.ask(number, ask);
        self.running.shared.bell.ring();
    }

    /// Does not want it any more.
    pub fn unread(&self, number: u32) {
        lock(&self.wishes).reads.dismiss(number);
        self.running.shared.bell.ring();
    }

    /// What it counts.
    pub fn counters(&self) -> &Counters {
        &self.running.shared.counters
    }
}

/// A reader, whatever the connection.
struct Reader<S> {
    reader_end: ReaderEnd,
    sink: S,
    wishes: Arc<Mutex<Wishes>>,
}

impl<S: ConnectionSink> Caller for Reader<S> {
    type End<'a> = ReaderSession<'a, S>;

    fn begin(&mut self, vouch: Option<Vouch>) -> ReaderSession<'_, S> {
        let now = clock::now();
        self.reader_end.reconnected(now);
        if let Some(vouch) = vouch {
            self.reader_end.vouched(vouch);
        }
        lock(&self.wishes).reads.forget_said();
        ReaderSession {
            reader: self,
            said: HashSet::new(),
            has_roster: false,
            allowance: Allowance::full(now),
            reads_allowance: Allowance::full(now),
        }
    }

    fn end(end: ReaderSession<'_, S>, problem: &str) {
        let Reader { reader_end, sink, .. } = end.reader;
        reader_end.cut(sink);
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
    /// Interests that the hub knows.
    said: HashSet<u32>,
    /// The hub tells how the nodes are.
    has_roster: bool,
    allowance: Allowance<SAID_AT_ONCE, SAID_A_SECOND>,
    reads_allowance: Allowance<{ reads::SAID_AT_ONCE }, { reads::SAID_A_SECOND }>,
}

impl<S: ConnectionSink> ReaderSession<'_, S> {
    /// Says what the hub does not know yet, and takes back what is not wanted any more.
    fn say(&mut self, now: Nanos, out: &mut Vec<u8>) {
        let Reader { reader_end, sink, wishes, .. } = &mut *self.reader;
        let mut wishes = lock(wishes);
        let is_wanted = |number: &u32| wishes.standing.iter().any(|standing| standing.number == *number);
        for number in self.said.extract_if(|number| !is_wanted(number)) {
            reader_end.dismiss(number, sink, out);
        }
        if self.has_roster != wishes.roster {
            self.has_roster = wishes.roster;
            reader_end.roster(wishes.roster, out);
        }
        for standing in &wishes.standing {
            if self.said.contains(&standing.number) || !self.allowance.take(now) {
                continue;
            }
            let Standing { number, period, exact, prompt, past, ref patterns } = *standing;
            reader_end.ask(&Ask { number, period, exact, prompt, past, patterns }, out);
            self.said.insert(number);
        }
        wishes.reads.say(reader_end, sink, || self.reads_allowance.take(now), out);
    }
}

impl<S: ConnectionSink> End for ReaderSession<'_, S> {
    fn receive(&mut self, bytes: &[u8], now: Nanos, wall: i64, out: &mut Vec<u8>) -> Result<(), LinkError> {
        let mut sink = Wanted { said: &self.said, sink: &mut self.reader.sink };
        self.reader.reader_end.receive(bytes, now, wall, &mut sink, out)?;
        match self.reader.sink.refusal() {
            Some(text) => Err(LinkError::Rejected(Reject::protocol(text))),
            None => Ok(()),
        }
    }

    fn poll(&mut self, now: Nanos, wall: i64, out: &mut Vec<u8>) -> Result<(), LinkError> {
        self.reader.reader_end.poll(now, wall, out)?;
        if self.reader.reader_end.is_welcome() {
            self.say(now, out);
        }
        Ok(())
    }

    fn next_wake(&self) -> Nanos {
        let wake = self.reader.reader_end.next_wake();
        let wishes = lock(&self.reader.wishes);
        let (now, waits) = (clock::now(), wishes.standing.len() > self.said.len());
        let interests = self.allowance.next(now).filter(|_| waits);
        let reads = self.reads_allowance.next(now).filter(|_| wishes.reads.is_waiting());
        interests.into_iter().chain(reads).fold(wake, Nanos::min)
    }

    fn is_welcome(&self) -> bool {
        self.reader.reader_end.is_welcome()
    }

    fn welcomed(&mut self) {
        let Reader { reader_end, sink, .. } = &mut *self.reader;
        sink.up(reader_end.hub());
    }

    fn read_all(&mut self) {
        self.reader.sink.rest();
    }

    fn count(&mut self, counters: &Counters) {
        if self.is_welcome() {
            counters.set_pair(self.reader.reader_end.pair());
        }
    }
}

/// The sink, without lanes of interests that were dismissed while their offer was under way.
struct Wanted<'a, S> {
    said: &'a HashSet<u32>,
    sink: &'a mut S,
}

impl<S: LaneSink> LaneSink for Wanted<'_, S> {
    fn wants_missed(&self) -> bool {
        self.sink.wants_missed()
    }
    fn offered(&mut self, lane: &LaneKey, offer: &LaneOffer<'_>) -> Option<Accept> {
        if offer.interest != 0 && !self.said.contains(&offer.interest) {
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
