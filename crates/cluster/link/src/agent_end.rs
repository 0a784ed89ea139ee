//! The agent's end of a connection: it sends Hello, offers its lanes, sends the rows that the hub requests when they are due,
//! and notices when the hub is gone. It opens no socket and reads no clock. It keeps no rows: they stay in the rings.

use std::sync::Arc;

use khz_model::Nanos;

use crate::beats::{Beats, Pair};
use crate::dial::{Dial, HubName, Identity, Vouch};
use crate::error::{LinkError, Reject};
use crate::flush;
use crate::frame::Frame;
use crate::freeze::Freeze;
use crate::frozen::Order;
use crate::goodbye::Goodbye;
use crate::inbound::Inbound;
use crate::lane_book::LaneBook;
use crate::lane_sender::{LaneSender, Progress};
use crate::limits::{BEAT, CARRY_MAX, FRAME_MAX, INTERESTS_MAX, OUT_MAX, TEXTS_MAX};
use crate::message::*;
use crate::pace::Pace;
use crate::source::{Answer, Lane, Lanes, tend_frozen};
use crate::standing::Standing;
use crate::texts::{NoText, ReadFrame, TextGiven, Why};

/// Where a Beat goes along with rows, a Beat without rows is sent only after this time.
const BEAT_WITHOUT_ROWS: Nanos = Nanos(BEAT.0 * 5 / 4);

/// The counts and measurements of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCounts {
    /// Rows of complete blocks that were sent.
    pub rows: u64,
    /// Rows that the rings had given up before the hub had them.
    pub lost: u64,
    /// How many times the writer overtook the sender.
    pub overtaken: u64,
    /// Rows of complete blocks that the hub does not have yet.
    pub backlog: u64,
    /// Clock offset and round trip.
    pub pair: Option<Pair>,
}

/// One connection to a hub.
#[derive(Debug)]
pub struct AgentEnd<L> {
    dial: Dial,
    inbound: Inbound,
    book: LaneBook<L>,
    /// Current Interests of the hub.
    interests: Vec<u32>,
    /// Current Reads of the hub.
    reads: Vec<u32>,
    beats: Beats,
    last_beat: Option<Nanos>,
    /// Bytes of the last Beaten.
    answer_bytes: usize,
    phase: u64,
    next_flush: Nanos,
    pace: Pace,
    /// More bytes are due than may wait to be sent.
    full: bool,
    /// Missing blocks wait until their pace allows them, or until there is room.
    has_past: bool,
    past_is_held: bool,
    /// When rows of a frozen time are copied next.
    frozen_due: Option<Nanos>,
    retransmits: u64,
}

impl<L: Lane> AgentEnd<L> {
    /// A connection that was just established. `now` is CLOCK_BOOTTIME, as in the stamps of rows.
    pub fn new(identity: Arc<Identity>, now: Nanos) -> Self {
        AgentEnd {
            phase: flush::phase(&identity.name),
            dial: Dial::new(identity, now),
            inbound: Inbound::default(),
            book: LaneBook::new(),
            interests: Vec::new(),
            reads: Vec::new(),
            beats: Beats::default(),
            last_beat: None,
            answer_bytes: 0,
            next_flush: now,
            pace: Pace::new(now),
            full: false,
            has_past: false,
            past_is_held: false,
            frozen_due: None,
            retransmits: 0,
        }
    }

    /// A proof of who we are at this hub. Call this before any bytes come.
    pub fn vouched(&mut self, vouch: Vouch) {
        self.dial.vouched(vouch);
    }

    /// Takes bytes from the hub. The next [`AgentEnd::poll`] sends the answers.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        now: Nanos,
        wall: i64,
        lanes: &mut impl Lanes<Lane = L>,
        out: &mut Vec<u8>,
    ) -> Result<(), LinkError> {
        let mut inbound = std::mem::take(&mut self.inbound);
        let result = inbound.feed(bytes, FRAME_MAX, |kind, body| {
            self.take(&Frame::decode(kind, body)?, now, wall, lanes, out)?;
            Ok(FRAME_MAX)
        });
        self.inbound = inbound;
        result
    }

    fn take(
        &mut self,
        frame: &Frame<'_>,
        now: Nanos,
        wall: i64,
        lanes: &mut impl Lanes<Lane = L>,
        out: &mut Vec<u8>,
    ) -> Result<(), LinkError> {
        if !self.dial.is_welcome() {
            self.dial.take(frame, now, out)?;
            self.book.speaks(self.dial.version(), self.dial.knows_freeze());
            self.next_flush = now;
            return Ok(());
        }
        match frame {
            Frame::Want(want) => self.want(want, now, wall, lanes)?,
            Frame::Leave { lane } => {
                if let Some(id) = self.book.leave(*lane) {
                    lanes.prompt(id, false);
                }
            }
            Frame::Again { lane, from, to } => self.again(*lane, *from, *to)?,
            Frame::Interest(interest) => self.interest(interest, lanes, out),
            Frame::Dismiss { number } => self.dismiss(*number, lanes),
            Frame::Now { interest, ask } if self.interests.contains(interest) => lanes.now(*interest, *ask),
            // The hub ended the Interest before it knew our refusal.
            Frame::Now { .. } => {}
            Frame::Read(read) => self.read(read, lanes, out),
            Frame::Unread { number } => self.unread(*number, lanes),
            Frame::TextNow { number, ask } if self.reads.contains(number) => lanes.text_now(*number, *ask),
            // A Read that was refused.
            Frame::TextNow { number, ask } => {
                TextGiven { number: *number, ask: *ask, is_read: false }.put(out);
            }
            Frame::Beaten(beaten) => self.beaten(beaten, now, wall),
            Frame::Freeze(freeze) => lanes.freeze(self.order(freeze, now), now),
            Frame::Thaw { number } => lanes.thaw(*number),
            Frame::Refuse { reason, text } => {
                return Err(LinkError::Refused { reason: *reason, text: (*text).to_owned() });
            }
            Frame::Newer { .. } | Frame::Goodbye(_) | Frame::Standing(_) => {}
            _ => return Err(LinkError::OutOfPlace { frame: frame.name() }),
        }
        Ok(())
    }

    fn want(
        &mut self,
        want: &WantFrame<'_>,
        now: Nanos,
        wall: i64,
        lanes: &mut impl Lanes<Lane = L>,
    ) -> Result<(), LinkError> {
        let mut scratch = std::mem::take(&mut self.book.scratch);
        let unknown = |()| LinkError::Rejected(Reject::protocol("a Want for a lane that was never offered"));
        // The hub sent the Want before our Closed arrived.
        if let Some(entry) = self.book.numbered(want.lane).map_err(unknown)? {
            let (id, period) = (entry.lane.id(), entry.lane.period());
            lanes.prompt(id, want.prompt);
            let is_fast = period > Nanos(0) && period <= flush::CARRIED && entry.lane.freeze().is_none();
            let carried = !want.prompt && is_fast && lanes.carry(id);
            let generation = entry.wanted_generation();
            let (lane, older) = (&entry.lane, &mut entry.older);
            let sender = entry.sender.get_or_insert_with(|| {
                LaneSender::new(want.lane, lane, older, generation, want, now, &mut scratch)
            });
            (sender.prompt, sender.carried) = (want.prompt, carried);
        }
        self.book.scratch = scratch;
        let wait = flush::wait(self.interval(), self.phase, wall);
        self.next_flush = self.next_flush.min(Nanos(now.0 + wait.0));
        Ok(())
    }

    /// The time that a hub names, on our clock.
    fn order(&self, freeze: &Freeze<'_>, now: Nanos) -> Order {
        let Freeze { number, at, age, before, after, .. } = *freeze;
        Order::around(number, now.since(self.beats.ago(at, age, now)), before, after)
    }

    fn again(&mut self, lane: u32, from: u64, to: u64) -> Result<(), LinkError> {
        let LaneBook { scratch, .. } = &mut self.book;
        let mut scratch = std::mem::take(scratch);
        let unknown =
            |()| LinkError::Rejected(Reject::protocol("an Again for a lane that was never offered"));
        // The hub sent the frame before our Closed or its own Leave arrived.
        if let Some(entry) = self.book.numbered(lane).map_err(unknown)?
            && let Some(sender) = &mut entry.sender
        {
            sender.again(&entry.lane, from, to, &mut scratch);
            self.has_past = true;
        }
        self.book.scratch = scratch;
        Ok(())
    }

    fn interest(&mut self, ask: &InterestFrame<'_>, lanes: &mut impl Lanes<Lane = L>, out: &mut Vec<u8>) {
        // The same number again replaces the Interest.
        self.dismiss(ask.number, lanes);
        if self.interests.len() == INTERESTS_MAX {
            let text = "this node answers no more interests at a time";
            Told { interest: ask.number, granted: false, period: Nanos(0), text, lane: 0, refused_by: "" }
                .put(out);
            return;
        }
        self.interests.push(ask.number);
        lanes.ask(ask);
    }

    fn dismiss(&mut self, number: u32, lanes: &mut impl Lanes<Lane = L>) {
        if let Some(at) = self.interests.iter().position(|&known| known == number) {
            self.interests.swap_remove(at);
            lanes.dismiss(number);
        }
    }

    fn read(&mut self, read: &ReadFrame<'_>, lanes: &mut impl Lanes<Lane = L>, out: &mut Vec<u8>) {
        let is_new = !self.reads.contains(&read.number);
        let refused = match (lanes.has_texts(), is_new && self.reads.len() == TEXTS_MAX) {
            (false, _) => Some((Why::NotServed, "this node shows no kernel texts")),
            (true, true) => Some((Why::TooMany, "this node shows no more kernel texts at a time")),
            (true, false) => None,
        };
        if let Some((why, text)) = refused {
            return NoText { number: read.number, why, text }.put(out);
        }
        if is_new {
            self.reads.push(read.number);
        }
        lanes.read(read);
    }

    fn unread(&mut self, number: u32, lanes: &mut impl Lanes<Lane = L>) {
        if let Some(at) = self.reads.iter().position(|&known| known == number) {
            self.reads.swap_remove(at);
            lanes.unread(number);
        }
    }

    /// Sends kernel texts, after the rows.
    fn texts(&mut self, lanes: &mut impl Lanes<Lane = L>, out: &mut Vec<u8>) {
        while !self.full && !self.reads.is_empty() {
            if out.len() >= OUT_MAX {
                self.full = true;
            } else if !lanes.say_text(out) {
                break;
            }
        }
    }

    fn beaten(&mut self, beaten: &Beaten<'_>, now: Nanos, wall: i64) {
        if let Some(took) = self.beats.beaten(beaten, now, wall) {
            self.pace.answered(took);
        }
        self.answer_bytes = beaten.frame_bytes();
        for ack in beaten.acks() {
            if let Ok(Some(entry)) = self.book.numbered(ack.lane)
                && let Some(sender) = &mut entry.sender
            {
                sender.received = ack.received;
            }
        }
    }

    /// Sends what is due: appends it to `out`, which still holds the bytes that were not sent
    /// before.
    pub fn poll(
        &mut self,
        now: Nanos,
        wall: i64,
        lanes: &mut impl Lanes<Lane = L>,
        out: &mut Vec<u8>,
    ) -> Result<(), LinkError> {
        self.silence(now)?;
        if !self.dial.is_welcome() {
            self.frozen_due = tend_frozen(lanes, now);
            return Ok(());
        }
        let is_idle = out.is_empty();
        self.tell(now, lanes, out);
        let due = now >= self.next_flush;
        for entry in &mut self.book.entries {
            if let Some(sender) = entry.sender.as_mut().filter(|sender| due || sender.prompt) {
                sender.release(&entry.lane);
            }
        }
        let before = out.len();
        self.full = self.live(out) == Progress::Full;
        if due {
            self.beat(now, wall, out);
            self.next_flush = Nanos(now.0 + flush::wait(self.interval(), self.phase, wall).0);
        } else if out.len() > before && self.rows_carry_a_beat(now) {
            self.beat(now, wall, out);
            self.next_flush = Nanos(now.0 + BEAT_WITHOUT_ROWS.0);
        }
        self.texts(lanes, out);
        self.past(now, is_idle && !self.full, out);
        let lanes = self.book.entries.len();
        self.book.close_gone(out);
        if self.book.entries.len() < lanes {
            // The next answers acknowledge fewer lanes, and have another length.
            self.answer_bytes = 0;
        }
        Ok(())
    }

    fn silence(&self, now: Nanos) -> Result<(), LinkError> {
        if now < self.deadline() {
            return Ok(());
        }
        Err(LinkError::Silent(self.beats.waited(now).unwrap_or(self.dial.waited(now))))
    }

    fn deadline(&self) -> Nanos {
        if !self.dial.is_welcome() {
            return self.dial.deadline();
        }
        self.beats.late().unwrap_or(Nanos(u64::MAX))
    }

    /// Offers lanes and passes answers on.
    fn tell(&mut self, now: Nanos, lanes: &mut impl Lanes<Lane = L>, out: &mut Vec<u8>) {
        self.frozen_due = tend_frozen(lanes, now);
        // Sent before the offers of lanes: the hub then knows how much it requests.
        for frozen in std::iter::from_fn(|| lanes.frozen()).filter(|_| self.dial.knows_freeze()) {
            frozen.put(out);
        }
        let answers: Vec<Answer> = std::iter::from_fn(|| lanes.answer()).collect();
        self.book.refresh(lanes, &answers, out);
        for answer in answers.iter().filter(|answer| self.interests.contains(&answer.interest)) {
            let Answer { interest, lane, period, text } = answer;
            let number = self.book.number_of(*lane);
            Told {
                interest: *interest,
                granted: number != 0,
                period: *period,
                text,
                lane: number,
                refused_by: "",
            }
            .put(out);
        }
    }

    fn live(&mut self, out: &mut Vec<u8>) -> Progress {
        let LaneBook { entries, scratch, .. } = &mut self.book;
        for entry in entries {
            if let Some(sender) = &mut entry.sender {
                if sender.live(&entry.lane, &mut entry.older, scratch, out) == Progress::Full {
                    return Progress::Full;
                }
                sender.given(out);
            }
        }
        Progress::Done
    }

    /// The fastest interval of the lanes that are flushed.
    fn interval(&self) -> Nanos {
        let flushed = self.book.entries.iter().filter(|e| e.sender.as_ref().is_some_and(|s| !s.prompt));
        // Frozen rows are sent when there is room.
        let flushed = flushed.filter(|entry| entry.lane.freeze().is_none());
        flushed.map(|entry| flush::interval(entry.lane.period())).min().unwrap_or(flush::LONGEST)
    }

    fn beat(&mut self, now: Nanos, wall: i64, out: &mut Vec<u8>) {
        // A flush that comes a little early counts as the flush of this second.
        let tolerance = self.interval().0 / 2;
        if self.last_beat.is_none_or(|last| now.since(last).0 + tolerance >= BEAT.0) {
            self.last_beat = Some(now);
            let LaneBook { entries, scratch, .. } = &mut self.book;
            for entry in entries {
                if let Some(sender) = &mut entry.sender {
                    sender.refresh(&entry.lane, scratch);
                }
            }
            // The answers' speed sets the pace of missing blocks.
            let may_wait = !self.has_past;
            self.beats.beat(now, wall, self.retransmits, may_wait).put(out);
        }
    }

    /// Where all lanes are prompt, a Beat goes along with the last row before the Beat is due. So the Beat needs no
    /// wake-up.
    fn rows_carry_a_beat(&self, now: Nanos) -> bool {
        let live = || self.senders().filter(|(lane, _)| lane.freeze().is_none());
        let regular = live().filter(|(lane, _)| lane.is_regular());
        let until_next_row = regular.map(|(lane, _)| lane.period().0).min().unwrap_or(0);
        let next_is_late =
            self.last_beat.is_none_or(|last| now.since(last).0.saturating_add(until_next_row) > BEAT.0);
        next_is_late && live().all(|(_, sender)| sender.prompt)
    }

    /// Sends missing blocks, the newest of all lanes first, as far as pace and room allow.
    fn past(&mut self, now: Nanos, has_room: bool, out: &mut Vec<u8>) {
        let LaneBook { entries, scratch, .. } = &mut self.book;
        loop {
            let pending = entries.iter_mut().filter_map(|entry| {
                let began = entry.sender.as_ref()?.past_began()?;
                Some((began, entry))
            });
            let newest = pending.max_by_key(|(began, _)| *began);
            self.has_past = newest.is_some();
            let Some((_, entry)) = newest else { break };
            if !has_room || out.len() >= OUT_MAX || !self.pace.may_send(now) {
                break;
            }
            let before = out.len();
            if let Some(sender) = &mut entry.sender {
                sender.past(&entry.lane, &mut entry.older, scratch, out);
            }
            self.pace.spend(out.len() - before);
        }
        self.past_is_held = self.has_past && !has_room;
        for sender in entries.iter_mut().filter_map(|entry| entry.sender.as_mut()) {
            sender.lost(out);
        }
    }

    /// When to call [`AgentEnd::poll`] next, if no bytes come and no prompt lane has a new row before
    /// then.
    pub fn next_wake(&self) -> Nanos {
        let frozen = self.frozen_due.unwrap_or(Nanos(u64::MAX));
        let deadline = self.deadline().min(frozen);
        if !self.dial.is_welcome() {
            return deadline;
        }
        let waits_for_pace = self.has_past && !self.past_is_held;
        let past = if waits_for_pace { self.pace.ready_at() } else { Nanos(u64::MAX) };
        let is_carried = |sender: &LaneSender| sender.prompt || sender.carried;
        let is_fast = |period: Nanos| period > Nanos(0) && period <= flush::CARRIED;
        let late = match self.senders().any(|(entry, sender)| is_carried(sender) && is_fast(entry.period())) {
            true => flush::CARRIED_LATE,
            false => Nanos(0),
        };
        deadline.min(Nanos(self.next_flush.0.saturating_add(late.0))).min(past)
    }

    fn senders(&self) -> impl Iterator<Item = (&L, &LaneSender)> {
        self.book.entries.iter().filter_map(|entry| Some((&entry.lane, entry.sender.as_ref()?)))
    }

    /// The first time at which a poll at a new row sends something: at once if a lane is prompt, at the next flush if a lane is
    /// flushed along with its rows.
    pub fn carries_from(&self) -> Nanos {
        let from = |sender: &LaneSender| match (sender.prompt, sender.carried) {
            (true, _) => Nanos(0),
            (_, true) => self.next_flush,
            _ => Nanos(u64::MAX),
        };
        self.senders().map(|(_, sender)| from(sender)).min().unwrap_or(Nanos(u64::MAX))
    }

    /// True if the thread that writes rows sends some at least once a second. That thread then also sends what is due at
    /// a flush.
    pub fn is_carried_often(&self) -> bool {
        let comes_often = |lane: &L| lane.is_regular() && lane.period() > Nanos(0) && lane.period() <= BEAT;
        self.frozen_due.is_none() && self.senders().any(|(lane, sender)| sender.prompt && comes_often(lane))
    }

    /// True while a poll would send only a few rows, and perhaps a Beat. The thread that has written the rows may poll then.
    pub fn is_calm(&self, lanes: &impl Lanes<Lane = L>) -> bool {
        let is_idle = self.is_welcome() && !self.wants_room() && !self.has_past && self.reads.is_empty();
        let is_idle = is_idle && lanes.frozen_due().is_none();
        let unsent = || self.senders().map(|(lane, sender)| sender.unsent(lane)).sum::<u64>();
        is_idle && !lanes.may_grant() && self.book.is_current(lanes) && unsent() <= CARRY_MAX
    }

    /// How many of the next answers need not wake a thread, and the bytes of each. They are read at the next poll that has another
    /// reason. (At 1 Hz they would be one of an agent's three wake-ups a second.)
    pub fn answers_may_wait(&self) -> (usize, usize) {
        let is_known = self.is_welcome() && self.answer_bytes > 0;
        (if is_known { self.beats.answers_may_wait() } else { 0 }, self.answer_bytes)
    }

    /// `bytes` have come and stay unread; an answer has `answer` bytes. If the bytes are whole answers, none of those
    /// answers is late. `false`: the bytes are something else.
    pub fn kept(&mut self, bytes: usize, answer: usize) -> bool {
        if self.answer_bytes == 0 || answer == 0 {
            return bytes == 0;
        }
        if bytes == answer * self.beats.unread() {
            self.beats.all_came();
        }
        bytes.is_multiple_of(answer)
    }

    /// True when more is due and waits only for room in `out`.
    pub fn wants_room(&self) -> bool {
        self.full || self.past_is_held
    }

    /// True when a lane is prompt: poll at every row.
    pub fn is_prompt(&self) -> bool {
        self.book.entries.iter().any(|entry| entry.sender.as_ref().is_some_and(|sender| sender.prompt))
    }

    /// True once the hub has accepted us.
    pub fn is_welcome(&self) -> bool {
        self.dial.is_welcome()
    }

    /// The version of the protocol that both speak.
    pub fn version(&self) -> u8 {
        self.dial.version()
    }

    /// The most slots of a lane that the hub was not offered, because it speaks an older version.
    pub fn left_out(&self) -> usize {
        self.book.left_out()
    }

    /// The hub's names.
    pub fn hub(&self) -> &HubName {
        self.dial.hub()
    }

    /// Our name, as the hub knows it.
    pub fn name(&self) -> &str {
        &self.dial.identity().name
    }

    /// Sets the TCP segments that were retransmitted so far, for the next Beat.
    pub fn set_retransmits(&mut self, segments: u64) {
        self.retransmits = segments;
    }

    /// The counts of this connection so far.
    pub fn counts(&self) -> AgentCounts {
        let sent = self.book.counts();
        let live = self.senders().filter(|(lane, _)| lane.freeze().is_none());
        let backlog = live.map(|(_, sender)| sender.backlog()).sum();
        AgentCounts {
            rows: sent.rows,
            lost: sent.lost,
            overtaken: sent.overtaken,
            backlog,
            pair: self.beats.best(),
        }
    }

    /// All rows before this number have arrived in the lane with this [`Lane::id`]. `None`: the hub does not request the lane.
    pub fn received(&self, id: u64) -> Option<u64> {
        let entry = self.book.entries.iter().find(|entry| entry.lane.id() == id)?;
        entry.sender.as_ref().map(|sender| sender.received)
    }

    /// Sends why this node is not at the hub that it prefers.
    pub fn stand(&self, standing: &Standing<'_>, out: &mut Vec<u8>) {
        if self.dial.is_welcome() {
            standing.put(out);
        }
    }

    /// Sends the rows that are in the rings now, including rows that wait for a flush: no later flush will come. `false`: call again when
    /// these rows are sent, for there are more.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.dial.is_welcome() {
            return true;
        }
        for entry in &mut self.book.entries {
            if let Some(sender) = entry.sender.as_mut() {
                sender.release(&entry.lane);
            }
        }
        self.live(out) == Progress::Done
    }

    /// Sends that this node leaves on purpose. The caller closes the connection when the frame is
    /// sent.
    pub fn goodbye(&self, goodbye: &Goodbye<'_>, out: &mut Vec<u8>) {
        if self.dial.is_welcome() {
            goodbye.put(out);
        }
    }

    /// The connection has ended, and with it all its Interests and Reads.
    pub fn close(self, lanes: &mut impl Lanes<Lane = L>) {
        for entry in self.book.entries {
            if entry.sender.is_some_and(|sender| sender.prompt || sender.carried) {
                lanes.prompt(entry.lane.id(), false);
            }
        }
        for number in self.interests {
            lanes.dismiss(number);
        }
        for number in self.reads {
            lanes.unread(number);
        }
        lanes.hang_up();
    }
}
