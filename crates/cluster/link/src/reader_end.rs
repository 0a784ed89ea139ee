//! The reader's end of a connection: it sends subscriptions, accepts the lanes that the hub offers for them, and remembers
//! which rows it has, also across connections. It opens no socket.

use std::collections::HashMap;
use std::sync::Arc;

use khz_model::Nanos;

use crate::beats::{Beats, Pair};
use crate::definition;
use crate::dial::{Dial, HubName, Identity, Vouch};
use crate::epoch::have_same_rows;
use crate::error::{LinkError, Reject};
use crate::frame::Frame;
use crate::inbound::Inbound;
use crate::intake::Intake;
use crate::lane_sink::{Accept, Held, LaneKey, LaneSink, Named};
use crate::left_lanes::{LeftLanes, OVERLAP};
use crate::limits::{BEAT, FOLLOWED_MAX, FRAME_MAX, KEPT_FOR};
use crate::message::*;
use crate::put::{self, Ask};
use crate::texts::{NoText, ReadFrame, TextFault, TextIntake, Why};

/// If a lane is offered this soon after its subscription, it existed when the subscription was made: its rows come from now on. A
/// lane that is offered later has come with its node, or is new. Then the reader wants the rows since it subscribed, since it may
/// have had the lane at another hub.
const OFFERED_LATE: Nanos = Nanos::from_secs(2);

/// A lane stands still when no rows have come for this long, and for three of its periods. Nodes flush once a
/// second.
const STOOD_STILL: Nanos = Nanos::from_secs(2);

/// A lane of the present connection.
#[derive(Debug)]
struct Followed {
    key: LaneKey,
    /// The subscription for which the hub offered it; 0: none.
    interest: u32,
    intake: Intake,
    period: Nanos,
    /// When a frame of this lane came last.
    heard: Nanos,
}

/// The rows of a lane that is not, or not yet, offered on the present connection.
#[derive(Debug)]
struct Kept {
    intake: Intake,
    /// When its last row came.
    left: Nanos,
}

/// A subscription.
#[derive(Clone, Copy, Debug)]
struct Subscribed {
    since: Nanos,
    is_to_channel: bool,
}

/// A reader's end of the link.
#[derive(Debug)]
pub struct ReaderEnd {
    identity: Arc<Identity>,
    /// The reader may connect to several hubs.
    has_others: bool,
    dial: Dial,
    inbound: Inbound,
    beats: Beats,
    next_beat: Nanos,
    /// Lanes of this connection, by number.
    lanes: HashMap<u32, Followed>,
    /// Subscriptions whose lanes the hub has ended on this connection, and the number of those lanes.
    ended: HashMap<u32, u64>,
    /// The subscriptions, on every connection.
    subscribed: HashMap<u32, Subscribed>,
    kept: HashMap<LaneKey, Kept>,
    /// The lanes of this node and name that were left, whatever their epochs.
    left: HashMap<(String, String), LeftLanes>,
    /// Up to this time lanes had rows that `left` no longer remembers, because there was no room.
    forgotten: Nanos,
    /// When bytes came last.
    now: Nanos,
    /// Subscriptions to kernel texts on this connection.
    reads: HashMap<u32, TextIntake>,
}

impl ReaderEnd {
    /// A reader without rows, whose first connection was just established.
    pub fn new(identity: Arc<Identity>, now: Nanos) -> Self {
        ReaderEnd {
            dial: Dial::new(identity.clone(), now),
            identity,
            has_others: false,
            inbound: Inbound::default(),
            beats: Beats::default(),
            next_beat: now,
            lanes: HashMap::new(),
            ended: HashMap::new(),
            subscribed: HashMap::new(),
            kept: HashMap::new(),
            left: HashMap::new(),
            forgotten: Nanos(0),
            now,
            reads: HashMap::new(),
        }
    }

    /// The same for a reader that may connect to several hubs. If it takes late rows, it refuses lanes that stand in for faster ones:
    /// it gets the faster rows, from its beginning on, from the hub to which the node is directly connected.
    pub fn among_hubs(self) -> Self {
        ReaderEnd { has_others: true, ..self }
    }

    /// Another connection was established. Rows that were received or lost stay settled; subscriptions must be sent
    /// again.
    pub fn reconnected(&mut self, now: Nanos) {
        self.kept.retain(|_, kept| now.since(kept.left) < KEPT_FOR);
        for lane in self.lanes.keys().copied().collect::<Vec<_>>() {
            self.leave_lane(lane);
        }
        self.dial = Dial::new(self.identity.clone(), now);
        self.inbound = Inbound::default();
        self.beats = Beats::default();
        self.next_beat = now;
        self.now = now;
        self.ended.clear();
        self.reads.clear();
    }

    /// A proof of who we are at this hub. Call this before any bytes come.
    pub fn vouched(&mut self, vouch: Vouch) {
        self.dial.vouched(vouch);
    }

    /// Takes bytes from the hub.
    pub fn receive<S: LaneSink>(
        &mut self,
        bytes: &[u8],
        now: Nanos,
        wall: i64,
        sink: &mut S,
        out: &mut Vec<u8>,
    ) -> Result<(), LinkError> {
        self.now = now;
        let mut inbound = std::mem::take(&mut self.inbound);
        let result = inbound.feed(bytes, FRAME_MAX, |kind, body| {
            self.take(&Frame::decode(kind, body)?, now, wall, sink, out)?;
            Ok(FRAME_MAX)
        });
        self.inbound = inbound;
        result
    }

    fn take<S: LaneSink>(
        &mut self,
        frame: &Frame<'_>,
        now: Nanos,
        wall: i64,
        sink: &mut S,
        out: &mut Vec<u8>,
    ) -> Result<(), LinkError> {
        if !self.dial.is_welcome() {
            self.next_beat = now;
            return self.dial.take(frame, now, out);
        }
        match frame {
            Frame::Beaten(beaten) => {
                self.beats.beaten(beaten, now, wall);
                sink.clock(self.beats.best().map(|pair| pair.offset));
            }
            Frame::Refuse { reason, text } => {
                return Err(LinkError::Refused { reason: *reason, text: (*text).to_owned() });
            }
            Frame::Newer { .. } | Frame::Goodbye(_) | Frame::Standing(_) => {}
            Frame::Told(told) => sink.answered(told),
            Frame::Node(status) => sink.node(status),
            Frame::Nodes { .. } => sink.nodes_end(),
            Frame::Definition(definition) => sink.definition(definition),
            Frame::Definitions { .. } => sink.definitions_end(),
            Frame::Text(piece) => self.text(piece, sink).map_err(LinkError::Rejected)?,
            Frame::NoText(none) if self.reads.contains_key(&none.number) => sink.no_text(none),
            Frame::TextGiven(given) if self.reads.contains_key(&given.number) => sink.text_given(*given),
            Frame::NoText(_) | Frame::TextGiven(_) => {}
            Frame::Lane(offer) => self.offer(offer, sink, out).map_err(LinkError::Rejected)?,
            _ => match lane_of(frame) {
                Some(lane) => self.lane(lane, frame, sink).map_err(LinkError::Rejected)?,
                None => return Err(LinkError::OutOfPlace { frame: frame.name() }),
            },
        }
        Ok(())
    }

    fn offer<S: LaneSink>(
        &mut self,
        offer: &LaneOffer<'_>,
        sink: &mut S,
        out: &mut Vec<u8>,
    ) -> Result<(), Reject> {
        let key = LaneKey { node: offer.node.into(), name: offer.name.into(), epoch: offer.epoch };
        if let Some(followed) = self.lanes.get_mut(&offer.lane).filter(|followed| followed.key == key) {
            // The lane was offered before and has changed. It stays accepted.
            (followed.interest, followed.period) = (offer.interest, offer.period);
            sink.changed(&key, offer);
            return Ok(());
        }
        if offer.stands_in && self.has_others && sink.wants_missed() {
            sink.declined(&key);
            return Ok(());
        }
        let Some(accept) = sink.offered(&key, offer) else { return Ok(()) };
        if self.lanes.len() == FOLLOWED_MAX {
            return Err(Reject::protocol("more lanes than a follower takes"));
        }
        let mut intake = match accept.held {
            // The sink may lack rows that came here before, so they must not be left out.
            Some(_) => Intake::new(key.epoch),
            None => self.take_kept(&key),
        };
        if let Some(left) = self.left_of(&key, offer.interest) {
            self.go_on_after(left, &mut intake, (&key, offer), sink);
        }
        self.want(&key, &intake, offer, accept, sink.wants_missed()).put(offer.lane, out);
        let (interest, period, heard) = (offer.interest, offer.period, self.now);
        self.lanes.insert(offer.lane, Followed { key, interest, intake, period, heard });
        Ok(())
    }

    /// The earlier lanes of the same node and subscription. `None` for a channel: each lane of a channel has its own rows, whenever they
    /// were gathered.
    fn left_of(&self, key: &LaneKey, interest: u32) -> Option<&LeftLanes> {
        let is_to_channel = self.subscribed.get(&interest).is_some_and(|known| known.is_to_channel);
        self.left.get(&(key.node.clone(), key.name.clone())).filter(|_| !is_to_channel)
    }

    /// When the reader subscribed; earlier rows are not wanted. Rows that it has forgotten count as rows that it has.
    fn begun(&self, interest: u32) -> Option<Nanos> {
        Some(self.subscribed.get(&interest)?.since.max(self.forgotten))
    }

    /// A lane is offered that follows earlier lanes. Rows that came in those do not come again.
    fn go_on_after<S: LaneSink>(
        &self,
        left: &LeftLanes,
        intake: &mut Intake,
        (key, offer): (&LaneKey, &LaneOffer<'_>),
        sink: &mut S,
    ) {
        intake.knows_clock(left.clock());
        let has_others = left.have_others(key.epoch);
        if !sink.wants_missed() {
            if has_others {
                intake.give_up(offer.next_row, &mut Named(key, sink));
            }
            return;
        }
        let begun = self.begun(offer.interest).unwrap_or(left.end());
        intake.follows(left.times_elsewhere(key.epoch, intake.has_rows(), begun), offer.stands_in);
        // Rows from times that other lanes cover need not come at all.
        let Some(after) = left.lacks_after(key.epoch).filter(|_| has_others) else { return };
        let until = offer.next_row.saturating_sub(self.ticks_since(after, offer.period));
        match offer.stands_in {
            true => intake.skip(until),
            false => intake.give_up_newer(until, &mut Named(key, sink)),
        }
    }

    /// How many rows of this period there may be since `then`.
    fn ticks_since(&self, then: Nanos, period: Nanos) -> u64 {
        let since = self.now.since(then).0.saturating_add(OVERLAP.0);
        since.checked_div(period.0).map_or(u64::MAX, |rows| rows + 1)
    }

    /// The rows that the reader has of a lane. The last rows may have come by another way, where the lane has another epoch: they
    /// must not come again.
    fn take_kept(&mut self, key: &LaneKey) -> Intake {
        let left = self.left.get(&(key.node.clone(), key.name.clone()));
        let by_other_way: Vec<u64> = left
            .into_iter()
            .flat_map(LeftLanes::epochs)
            .filter(|&epoch| epoch != key.epoch && have_same_rows(epoch, key.epoch))
            .collect();
        let keys =
            by_other_way.into_iter().map(|epoch| LaneKey { epoch, ..key.clone() }).chain([key.clone()]);
        let kept = keys.filter_map(|key| self.kept.remove(&key)).max_by_key(|kept| kept.left);
        kept.map_or_else(|| Intake::new(key.epoch), |kept| kept.intake.under(key.epoch))
    }

    /// The Want for a lane. A known lane: the rows that were missed. A lane that replaces others: the rows of the times that the
    /// others lack. A new lane: rows from now on. But if a new lane is offered long after the subscription, a reader that takes late
    /// rows gets the rows since the subscription.
    fn want(
        &self,
        key: &LaneKey,
        intake: &Intake,
        offer: &LaneOffer<'_>,
        accept: Accept,
        missed: bool,
    ) -> Want {
        let Accept { span, prompt, from, held } = accept;
        if let Some(Held { from, ranges }) = held {
            let all = intake.want(offer, Nanos(u64::MAX), prompt);
            return Want { from_row: from, have: ranges, ..all };
        }
        let begun = self.begun(offer.interest);
        match (span, missed, intake.has_rows()) {
            (Nanos(0), true, true) => {
                let span = self.span_of_missed(key, intake, offer).unwrap_or(Nanos(u64::MAX));
                Want { span, ..intake.want_missed(offer, prompt) }
            }
            (Nanos(0), true, false) => match self.left.get(&(key.node.clone(), key.name.clone())) {
                Some(left) => {
                    let regular = || begun.filter(|_| self.left_of(key, offer.interest).is_some());
                    let since = regular().map_or(left.end(), |begun| left.lacks_since(begun));
                    intake.want(offer, Nanos(self.now.since(since).0 + OVERLAP.0), prompt)
                }
                None => match begun.map(|begun| self.now.since(begun)) {
                    Some(ago) if ago > OFFERED_LATE => intake.want(offer, ago, prompt),
                    _ => Want { span: Nanos(u64::MAX), ..intake.want_new(offer, from, prompt) },
                },
            },
            (Nanos(0), false, _) => intake.want_new(offer, from, prompt),
            _ => intake.want(offer, span, prompt),
        }
    }

    /// How far back rows of a known lane are wanted, if there may be rows of other epochs that no hub has sent yet: the hub offers those
    /// only if the span is limited. The span covers all rows of this lane. `None`: all rows of this lane, and no others.
    fn span_of_missed(&self, key: &LaneKey, intake: &Intake, offer: &LaneOffer<'_>) -> Option<Nanos> {
        let left = self.left_of(key, offer.interest)?;
        let since = left.lacks_since(self.begun(offer.interest)?);
        if since >= left.end() {
            return None;
        }
        let first = left.first(key.epoch)?.min(since);
        let rows = offer.next_row.saturating_sub(intake.first_row()?);
        let by_period = rows.saturating_add(1).saturating_mul(offer.period.0);
        Some(Nanos(self.now.since(first).0.max(by_period).saturating_add(OVERLAP.0)))
    }

    fn lane<S: LaneSink>(&mut self, lane: u32, frame: &Frame<'_>, sink: &mut S) -> Result<(), Reject> {
        // The frame was under way when the lane was left.
        let Some(Followed { key, intake, heard, interest, .. }) = self.lanes.get_mut(&lane) else {
            return Ok(());
        };
        *heard = self.now;
        let mut named = Named(key, sink);
        match frame {
            Frame::Schema(piece) => {
                let SchemaPiece { generation, offset, bytes, .. } = *piece;
                let known = intake.schema(generation, offset, bytes.len())?;
                if known < bytes.len() {
                    sink.schema(key, generation, offset + known as u64, &bytes[known..]);
                }
            }
            Frame::Block { bytes, .. } => {
                intake.begin(bytes, &mut named)?;
                intake.came(self.now);
            }
            Frame::Rows { bytes, .. } => {
                intake.rows(bytes, &mut named)?;
                intake.came(self.now);
            }
            Frame::End(end) => intake.end(end, &mut named)?,
            Frame::Past { last, bytes, .. } => intake.past(*last, bytes, &mut named)?,
            Frame::Lost { from, to, .. } => intake.lost(*from, *to, &mut named),
            Frame::Closed { .. } => {
                *self.ended.entry(*interest).or_default() += 1;
                intake.cut_off(&mut named);
                sink.closed(key);
                self.leave_lane(lane);
            }
            _ => {}
        }
        Ok(())
    }

    fn leave_lane(&mut self, lane: u32) {
        let Some(followed) = self.lanes.remove(&lane) else { return };
        let Followed { key, interest, mut intake, heard, .. } = followed;
        intake.cut();
        if !intake.has_rows() {
            return;
        }
        let begun = self.subscribed.get(&interest).map_or(heard, |subscribed| subscribed.since);
        let node = (key.node.clone(), key.name.clone());
        // Lanes that keep coming and going must not fill the memory.
        if self.left.len() >= FOLLOWED_MAX && !self.left.contains_key(&node) {
            self.forget_left();
        }
        self.left.entry(node).or_insert_with(|| LeftLanes::new(begun)).leave(key.epoch, &intake);
        if self.kept.len() < FOLLOWED_MAX {
            self.kept.insert(key, Kept { intake, left: self.now });
        }
    }

    /// Forgets the older half of the nodes in `left`. The reader wants no older rows of those nodes: it may have
    /// them.
    fn forget_left(&mut self) {
        let mut ends: Vec<Nanos> = self.left.values().map(LeftLanes::end).collect();
        let half = ends.len() / 2;
        let (_, &mut until, _) = ends.select_nth_unstable(half);
        self.left.retain(|_, left| left.end() > until);
        self.forgotten = self.forgotten.max(until);
    }

    fn text<S: LaneSink>(&mut self, piece: &crate::texts::TextPiece<'_>, sink: &mut S) -> Result<(), Reject> {
        // The piece was under way when the subscription ended.
        let Some(intake) = self.reads.get_mut(&piece.number) else { return Ok(()) };
        match intake.take(piece) {
            Ok(true) => {
                if let Some((text, stamp)) = intake.text() {
                    sink.text(piece.number, text, *stamp);
                }
                Ok(())
            }
            Ok(false) => Ok(()),
            Err(TextFault::TooLong { bytes }) => {
                let text = format!("a text of {bytes} bytes");
                sink.no_text(&NoText { number: piece.number, why: Why::TooLong, text: &text });
                Ok(())
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// True where the hub passes kernel texts on.
    pub fn knows_texts(&self) -> bool {
        self.dial.knows_texts()
    }

    /// True where the hub takes channels.
    pub fn knows_channels(&self) -> bool {
        self.dial.knows_channels()
    }

    /// True where the hub lists its channels.
    pub fn knows_definitions(&self) -> bool {
        self.dial.knows_definitions()
    }

    /// Subscribes to a kernel file, or changes the period.
    pub fn read(&mut self, read: &ReadFrame<'_>, out: &mut Vec<u8>) {
        self.reads.entry(read.number).or_default();
        read.put(out);
    }

    /// True where the hub takes requests to read a kernel file now.
    pub fn knows_text_now(&self) -> bool {
        self.dial.knows_text_now()
    }

    /// Requests that the file of a subscription is read now.
    pub fn text_now(&self, number: u32, ask: u32, out: &mut Vec<u8>) {
        put::text_now(out, number, ask);
    }

    /// Ends a subscription to a kernel file.
    pub fn unread(&mut self, number: u32, out: &mut Vec<u8>) {
        if self.reads.remove(&number).is_some() {
            put::unread(out, number);
        }
    }

    /// Sends what is due: a Beat once a second.
    pub fn poll(&mut self, now: Nanos, wall: i64, out: &mut Vec<u8>) -> Result<(), LinkError> {
        if now >= self.deadline() {
            return Err(LinkError::Silent(self.beats.waited(now).unwrap_or(self.dial.waited(now))));
        }
        if self.dial.is_welcome() && now >= self.next_beat {
            self.beats.beat(now, wall, 0, false).put(out);
            self.next_beat = Nanos(now.0 + BEAT.0);
        }
        Ok(())
    }

    fn deadline(&self) -> Nanos {
        if !self.dial.is_welcome() {
            return self.dial.deadline();
        }
        self.beats.late().unwrap_or(Nanos(u64::MAX))
    }

    /// When to call [`ReaderEnd::poll`] next.
    pub fn next_wake(&self) -> Nanos {
        if self.dial.is_welcome() { self.deadline().min(self.next_beat) } else { self.deadline() }
    }

    /// True once the hub has accepted us: subscriptions may be sent.
    pub fn is_welcome(&self) -> bool {
        self.dial.is_welcome()
    }

    /// Sends a subscription; with a channel only to a hub that knows channels.
    pub fn ask<P: AsRef<str>>(&mut self, ask: &Ask<'_, P>, out: &mut Vec<u8>) {
        let is_to_channel = ask.channel.is_some();
        self.subscribed.entry(ask.number).or_insert(Subscribed { since: self.now, is_to_channel });
        ask.put(out);
    }

    /// Ends a subscription: its lanes are closed.
    pub fn dismiss<S: LaneSink>(&mut self, number: u32, sink: &mut S, out: &mut Vec<u8>) {
        put::dismiss(out, number);
        self.ended.remove(&number);
        self.subscribed.remove(&number);
        for (_, Followed { key, mut intake, .. }) in self.lanes.extract_if(|_, lane| lane.interest == number)
        {
            intake.cut_off(&mut Named(&key, sink));
            sink.closed(&key);
        }
    }

    /// The connection has ended: hands out the rows of open blocks.
    pub fn cut<S: LaneSink>(&mut self, sink: &mut S) {
        for Followed { key, intake, .. } in self.lanes.values_mut() {
            intake.cut_off(&mut Named(key, sink));
        }
    }

    /// The hub's names.
    pub fn hub(&self) -> &HubName {
        self.dial.hub()
    }

    /// Requests the list of nodes, or ends that request.
    pub fn roster(&self, wanted: bool, out: &mut Vec<u8>) {
        put::roster(out, wanted);
    }

    /// Requests the list of channels, or ends that request. Only for a hub that knows such lists.
    pub fn channels(&self, wanted: bool, out: &mut Vec<u8>) {
        definition::put_wanted(out, wanted);
    }

    /// Leaves a lane.
    pub fn leave(&mut self, key: &LaneKey, out: &mut Vec<u8>) {
        let numbers: Vec<u32> = self.lanes.iter().filter(|(_, f)| f.key == *key).map(|(&n, _)| n).collect();
        for number in numbers {
            put::leave(out, number);
            self.leave_lane(number);
        }
    }

    /// True if there are lanes on this connection.
    pub fn has_lanes(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// How many lanes stand still, or were ended by the hub. Only subscriptions whose rows come regularly count.
    pub fn stand_still(&self, now: Nanos, is_regular: impl Fn(u32) -> bool) -> u64 {
        let stands = |lane: &&Followed| {
            let most = STOOD_STILL.max(Nanos(lane.period.0.saturating_mul(3)));
            now.since(lane.heard) >= most && is_regular(lane.interest)
        };
        let still = self.lanes.values().filter(stands).count() as u64;
        let ended = self.ended.iter().filter(|(number, _)| is_regular(**number));
        still + ended.map(|(_, lanes)| lanes).sum::<u64>()
    }

    /// The first row of a lane that was neither received nor lost.
    pub fn complete_until(&self, key: &LaneKey) -> Option<u64> {
        let here = self.lanes.values().find(|followed| followed.key == *key).map(|followed| &followed.intake);
        Some(here.or_else(|| self.kept.get(key).map(|kept| &kept.intake))?.complete_until())
    }

    /// Rows of a lane between the oldest and the newest that were neither received nor lost.
    pub fn missing(&self, key: &LaneKey) -> Option<u64> {
        let here = self.lanes.values().find(|followed| followed.key == *key).map(|followed| &followed.intake);
        Some(here.or_else(|| self.kept.get(key).map(|kept| &kept.intake))?.missing())
    }

    /// Clock offset and round trip.
    pub fn pair(&self) -> Option<Pair> {
        self.beats.best()
    }
}

/// The lane that a frame with rows is about.
fn lane_of(frame: &Frame<'_>) -> Option<u32> {
    match frame {
        Frame::Schema(piece) => Some(piece.lane),
        Frame::End(end) => Some(end.lane),
        Frame::Block { lane, .. }
        | Frame::Rows { lane, .. }
        | Frame::Past { lane, .. }
        | Frame::Lost { lane, .. }
        | Frame::Closed { lane } => Some(*lane),
        _ => None,
    }
}
