//! The hub's end of one connection: it greets, judges the Hello (its version too), hands every frame to the hub, answers
//! Beats, and notices silence. It holds no rows and knows no node. Without an unfinished frame it has less than 200
//! bytes.

use khz_model::Nanos;

use crate::allowance::Allowance;
use crate::error::{LinkError, Reject};
use crate::frame::Frame;
use crate::freeze::{self, Freeze, Frozen};
use crate::goodbye::Goodbye;
use crate::inbound::Inbound;
use crate::limits::{
    FRAME_MAX, HANDSHAKE, HELLO_MAX, INTERESTS_A_SECOND, INTERESTS_AT_ONCE, READS_A_SECOND, READS_AT_ONCE,
    SILENCE, SOURCES_MAX, VERSION, VERSION_LOWEST,
};
use crate::message::*;
use crate::put::{self, Acks, Ask};
use crate::standing::Standing;
use crate::texts::{NoText, ReadFrame, TextGiven, TextPiece};

/// What all connections of a hub have in common.
#[derive(Clone, Debug)]
pub struct HubEndConfig {
    /// Random at the hub's start.
    pub identity: [u8; 16],
    /// Its name, for people.
    pub name: String,
    /// Identities of the hubs that it gets nodes from, and of theirs; at most [`SOURCES_MAX`] are sent.
    pub sources: Vec<[u8; 16]>,
    /// The highest version of the protocol that it speaks. Tests set a lower one to get an older hub.
    pub highest: u8,
    /// The abilities in its Welcome. Tests set fewer to get an older hub.
    pub abilities: u8,
    /// A peer must have sent Hello within this time.
    pub handshake: Nanos,
    /// A peer that was silent for this long is gone.
    pub silence: Nanos,
}

impl HubEndConfig {
    /// The protocol's own times.
    pub fn new(identity: [u8; 16], name: impl Into<String>) -> Self {
        HubEndConfig {
            identity,
            name: name.into(),
            sources: Vec::new(),
            highest: VERSION,
            abilities: ABILITIES,
            handshake: HANDSHAKE,
            silence: SILENCE,
        }
    }
}

/// The hub's answer to a Hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The peer is accepted.
    Welcome,
    /// The peer is refused.
    Refuse(Reject),
}

/// The hub, as its end of a connection calls it. Each frame causes one call, in order; the arguments borrow from the
/// bytes that came. If a method returns an error, the connection ends with that reason.
///
/// Nodes send lanes and their rows. Readers and other hubs send Interests, and Wants for the lanes that the hub offers for
/// them.
#[allow(unused_variables)]
pub trait HubSide {
    /// The first frame. No other method is called before the peer is accepted.
    fn hello(&mut self, hello: &Hello<'_>, nonce: &[u8; 32]) -> Verdict;

    /// A node offers a lane, or a lane that it has offered has changed. The hub may return a Want now, or send it later
    /// ([`HubEnd::want`]).
    fn lane(&mut self, offer: &LaneOffer<'_>) -> Result<Option<Want>, Reject>;

    /// A piece of a lane's schema.
    fn schema(&mut self, piece: &SchemaPiece<'_>) -> Result<(), Reject>;

    /// A block begins: its header and some of its rows.
    fn block(&mut self, lane: u32, bytes: &[u8]) -> Result<(), Reject>;

    /// The block continues; rows may be cut anywhere.
    fn rows(&mut self, lane: u32, bytes: &[u8]) -> Result<(), Reject>;

    /// The block is complete.
    fn end(&mut self, end: &End) -> Result<(), Reject>;

    /// A piece of a closed block from the past; `last` completes it.
    fn past(&mut self, lane: u32, last: bool, bytes: &[u8]) -> Result<(), Reject>;

    /// The node no longer has these rows (without `to`).
    fn lost(&mut self, lane: u32, from: u64, to: u64) -> Result<(), Reject>;

    /// Nothing more will come in the lane.
    fn closed(&mut self, lane: u32) -> Result<(), Reject>;

    /// The answer to an Interest of ours. The hub may return a Want for a lane that was already
    /// offered.
    fn told(&mut self, told: &Told<'_>) -> Result<Option<Want>, Reject>;

    /// What a node could keep because of a Freeze.
    fn frozen(&mut self, frozen: &Frozen) -> Result<(), Reject> {
        Ok(())
    }

    /// The rows that a Now requested have come.
    fn given(&mut self, lane: u32, ask: u32) -> Result<(), Reject> {
        Ok(())
    }

    /// A Beat came. `acks` takes, for each lane of this node, how many rows were received and
    /// stored.
    fn beat(&mut self, beat: &Beat, acks: &mut Acks<'_>);

    /// A reader subscribes to rows, with or without a channel.
    fn interest(&mut self, interest: &InterestFrame<'_>) -> Result<(), Reject> {
        Err(Reject { reason: Reason::NotAllowed, text: "interests are not accepted here".into() })
    }

    /// A reader ends a subscription.
    fn dismiss(&mut self, number: u32) -> Result<(), Reject> {
        Ok(())
    }

    /// A reader requests the list of nodes, or ends that request.
    fn roster(&mut self, wanted: bool) -> Result<(), Reject> {
        Ok(())
    }

    /// A reader requests the list of channels, or ends that request.
    fn channels(&mut self, wanted: bool) -> Result<(), Reject> {
        Ok(())
    }

    /// A reader subscribes to a kernel file of a node.
    fn read(&mut self, read: &ReadFrame<'_>) -> Result<(), Reject> {
        Err(Reject { reason: Reason::NotAllowed, text: "kernel texts are not passed on here".into() })
    }

    /// A reader ends its subscription to a kernel file.
    fn unread(&mut self, number: u32) -> Result<(), Reject> {
        Ok(())
    }

    /// A reader requests that the kernel file of a subscription is read now.
    fn text_now(&mut self, number: u32, ask: u32) -> Result<(), Reject> {
        Ok(())
    }

    /// This node has read a kernel file because of a TextNow, or could not.
    fn text_given(&mut self, given: TextGiven) -> Result<(), Reject> {
        Ok(())
    }

    /// A piece of a kernel text from this node.
    fn text(&mut self, piece: &TextPiece<'_>) -> Result<(), Reject> {
        Ok(())
    }

    /// This node has no such text.
    fn no_text(&mut self, none: &NoText<'_>) -> Result<(), Reject> {
        Ok(())
    }

    /// Why this node is not at the hub that it prefers; each replaces the one before.
    fn standing(&mut self, standing: &Standing<'_>) -> Result<(), Reject> {
        Ok(())
    }

    /// This node ends, or goes to another hub, on purpose: the connection ends soon.
    fn goodbye(&mut self, goodbye: &Goodbye<'_>) -> Result<(), Reject> {
        Ok(())
    }

    /// A reader accepts a lane that it was offered.
    fn want(&mut self, want: &WantFrame<'_>) -> Result<(), Reject> {
        Ok(())
    }

    /// A reader leaves a lane.
    fn leave(&mut self, lane: u32) -> Result<(), Reject> {
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeted,
    Welcomed(Role),
    Over,
}

/// One connection.
#[derive(Debug)]
pub struct HubEnd {
    state: State,
    nonce: [u8; 32],
    /// The connection ends at this time unless bytes come before.
    deadline: Nanos,
    silence: Nanos,
    /// The highest version that it speaks.
    highest: u8,
    abilities: u8,
    /// Interests that the peer may send.
    interests: Allowance<INTERESTS_AT_ONCE, INTERESTS_A_SECOND>,
    /// Reads that the peer may send.
    reads: Allowance<READS_AT_ONCE, READS_A_SECOND>,
    inbound: Inbound,
}

impl HubEnd {
    /// A connection that was just accepted; the greeting goes to `out`. `nonce` must be random.
    pub fn new(config: &HubEndConfig, nonce: [u8; 32], now: Nanos, out: &mut Vec<u8>) -> Self {
        let HubEndConfig { identity, name, sources, highest, .. } = config;
        let sources = &sources.as_flattened()[..16 * sources.len().min(SOURCES_MAX)];
        Greeting { lowest: VERSION_LOWEST, highest: *highest, nonce, identity: *identity, name, sources }
            .put(out);
        HubEnd {
            state: State::Greeted,
            nonce,
            deadline: Nanos(now.0 + config.handshake.0),
            silence: config.silence,
            highest: config.highest,
            abilities: config.abilities,
            interests: Allowance::full(now),
            reads: Allowance::full(now),
            inbound: Inbound::default(),
        }
    }

    /// Takes bytes that came at `now` (any monotonic clock) and `wall` (ns since 1970), and calls `hub` for each frame. Answers
    /// go to `out`. After an error, `out` has a Refuse: the caller sends as much of `out` as it can at once, and closes the
    /// connection.
    pub fn receive<H: HubSide>(
        &mut self,
        bytes: &[u8],
        now: Nanos,
        wall: i64,
        hub: &mut H,
        out: &mut Vec<u8>,
    ) -> Result<(), LinkError> {
        if self.state == State::Over {
            return Err(LinkError::Over);
        }
        let mut inbound = std::mem::take(&mut self.inbound);
        let result = inbound.feed(bytes, self.limit(), |kind, body| {
            self.take(kind, body, now, wall, hub, out)?;
            Ok(self.limit())
        });
        self.inbound = inbound;
        result.map_err(|error| self.give_up(error, out))
    }

    fn limit(&self) -> usize {
        if self.state == State::Greeted { HELLO_MAX } else { FRAME_MAX }
    }

    fn take<H: HubSide>(
        &mut self,
        kind: u8,
        body: &[u8],
        now: Nanos,
        wall: i64,
        hub: &mut H,
        out: &mut Vec<u8>,
    ) -> Result<(), LinkError> {
        let frame = Frame::decode(kind, body)?;
        let done = match (self.state, &frame) {
            (State::Greeted, Frame::Hello(hello)) => self.hello(hello, hub, out),
            (State::Welcomed(Role::Node), _) => from_node(&frame, wall, hub, out)?,
            (State::Welcomed(_), _) => {
                match &frame {
                    Frame::Interest(_) => pace(&mut self.interests, now, "interests")?,
                    Frame::Read(_) => pace(&mut self.reads, now, "kernel texts")?,
                    _ => {}
                }
                from_reader(&frame, wall, hub, out)?
            }
            _ => return Err(LinkError::OutOfPlace { frame: frame.name() }),
        };
        done.map_err(LinkError::Rejected)?;
        self.deadline = Nanos(now.0 + self.silence.0);
        Ok(())
    }

    fn hello<H: HubSide>(&mut self, hello: &Hello<'_>, hub: &mut H, out: &mut Vec<u8>) -> Result<(), Reject> {
        let highest = self.highest;
        if !(VERSION_LOWEST..=highest).contains(&hello.version) {
            let text = format!(
                "this hub speaks versions {VERSION_LOWEST} to {highest} of the protocol, not {}",
                hello.version
            );
            return Err(Reject { reason: Reason::Version, text });
        }
        // Abilities that only the peer knows do not count.
        let hello = &Hello { abilities: hello.abilities & self.abilities, ..hello.clone() };
        match hub.hello(hello, &self.nonce) {
            Verdict::Refuse(reject) => Err(reject),
            Verdict::Welcome => {
                self.state = State::Welcomed(hello.role);
                Welcome { version: hello.version, silence: self.silence, abilities: self.abilities }.put(out);
                Ok(())
            }
        }
    }

    /// Ends the connection, and sends the peer the reason.
    fn give_up(&mut self, error: LinkError, out: &mut Vec<u8>) -> LinkError {
        match &error {
            LinkError::Rejected(reject) => put::refuse(out, reject.reason, &reject.text),
            other => put::refuse(out, Reason::Protocol, &other.to_string()),
        }
        self.state = State::Over;
        self.inbound.drop_all();
        error
    }

    /// When silence ends the connection. Before the welcome: when the time of the handshake is over. Later: when no whole
    /// frame has come for the time of the silence.
    pub fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// The role in which the peer was accepted.
    pub fn role(&self) -> Option<Role> {
        match self.state {
            State::Welcomed(role) => Some(role),
            _ => None,
        }
    }

    /// Bytes of an unfinished frame that are kept.
    pub fn kept(&self) -> usize {
        self.inbound.kept()
    }

    /// Sends a Want for a lane.
    pub fn want(&self, lane: u32, want: &Want, out: &mut Vec<u8>) {
        want.put(lane, out);
    }

    /// Leaves the lane.
    pub fn leave(&self, lane: u32, out: &mut Vec<u8>) {
        put::leave(out, lane);
    }

    /// Requests rows at another rate from a node, or rows of a channel from one that knows channels.
    pub fn interest<P: AsRef<str>>(&self, ask: &Ask<'_, P>, out: &mut Vec<u8>) {
        ask.put(out);
    }

    /// Requests a row of an on-demand Interest now.
    pub fn now(&self, interest: u32, ask: u32, out: &mut Vec<u8>) {
        put::now(out, interest, ask);
    }

    /// Requests the closed blocks with these rows again. Only for a node that speaks [`crate::limits::VERSION_OF_NUMBERS`].
    pub fn again(&self, lane: u32, from: u64, to: u64, out: &mut Vec<u8>) {
        put::again(out, lane, from, to);
    }

    /// Tells a node to keep the rows around a moment, if the node knows Freeze.
    pub fn freeze(&self, order: &Freeze<'_>, out: &mut Vec<u8>) {
        order.put(out);
    }

    /// Tells a node to drop the rows of a freeze, if the node knows Freeze.
    pub fn thaw(&self, number: u64, out: &mut Vec<u8>) {
        freeze::put_thaw(out, number);
    }

    /// Ends an Interest.
    pub fn dismiss(&self, number: u32, out: &mut Vec<u8>) {
        put::dismiss(out, number);
    }

    /// Subscribes to a kernel text of a node, or changes the period.
    pub fn read(&self, read: &ReadFrame<'_>, out: &mut Vec<u8>) {
        read.put(out);
    }

    /// Requests that a node reads a kernel text now, if the node knows TextNow.
    pub fn text_now(&self, number: u32, ask: u32, out: &mut Vec<u8>) {
        put::text_now(out, number, ask);
    }

    /// Ends a subscription to a kernel text.
    pub fn unread(&self, number: u32, out: &mut Vec<u8>) {
        put::unread(out, number);
    }

    /// Ends the connection from our side: after this every frame is an error.
    pub fn refuse(&mut self, reason: Reason, text: &str, out: &mut Vec<u8>) {
        put::refuse(out, reason, text);
        self.state = State::Over;
        self.inbound.drop_all();
    }
}

type Taken = Result<(), Reject>;

fn from_node<H: HubSide>(
    frame: &Frame<'_>,
    wall: i64,
    hub: &mut H,
    out: &mut Vec<u8>,
) -> Result<Taken, LinkError> {
    let answer = |lane: u32, want: Option<Want>, out: &mut Vec<u8>| {
        if let Some(want) = want {
            want.put(lane, out);
        }
    };
    Ok(match frame {
        Frame::Rows { lane, bytes } => hub.rows(*lane, bytes),
        Frame::Block { lane, bytes } => hub.block(*lane, bytes),
        Frame::End(end) => hub.end(end),
        Frame::Past { lane, last, bytes } => hub.past(*lane, *last, bytes),
        Frame::Schema(piece) => hub.schema(piece),
        Frame::Lane(offer) => hub.lane(offer).map(|want| answer(offer.lane, want, out)),
        Frame::Lost { lane, from, to } => hub.lost(*lane, *from, *to),
        Frame::Closed { lane } => hub.closed(*lane),
        Frame::Told(told) => hub.told(told).map(|want| answer(told.lane, want, out)),
        Frame::Beat(beat) => beaten(beat, wall, hub, out),
        Frame::Given { lane, ask } => hub.given(*lane, *ask),
        Frame::Text(piece) => hub.text(piece),
        Frame::NoText(none) => hub.no_text(none),
        Frame::Goodbye(goodbye) => hub.goodbye(goodbye),
        Frame::TextGiven(given) => hub.text_given(*given),
        Frame::Standing(standing) => hub.standing(standing),
        Frame::Frozen(frozen) => hub.frozen(frozen),
        Frame::Newer { .. } => Ok(()),
        _ => return Err(LinkError::OutOfPlace { frame: frame.name() }),
    })
}

fn from_reader<H: HubSide>(
    frame: &Frame<'_>,
    wall: i64,
    hub: &mut H,
    out: &mut Vec<u8>,
) -> Result<Taken, LinkError> {
    Ok(match frame {
        Frame::Interest(interest) => hub.interest(interest),
        Frame::Dismiss { number } => hub.dismiss(*number),
        Frame::Roster { wanted } => hub.roster(*wanted),
        Frame::Channels { wanted } => hub.channels(*wanted),
        Frame::Read(read) => hub.read(read),
        Frame::Unread { number } => hub.unread(*number),
        Frame::TextNow { number, ask } => hub.text_now(*number, *ask),
        Frame::Want(want) => hub.want(want),
        Frame::Leave { lane } => hub.leave(*lane),
        Frame::Beat(beat) => beaten(beat, wall, hub, out),
        Frame::Newer { .. } | Frame::Goodbye(_) | Frame::Standing(_) => Ok(()),
        _ => return Err(LinkError::OutOfPlace { frame: frame.name() }),
    })
}

fn beaten<H: HubSide>(beat: &Beat, wall: i64, hub: &mut H, out: &mut Vec<u8>) -> Taken {
    put::beaten(out, beat.stamp, wall, wall, |acks| hub.beat(beat, acks));
    Ok(())
}

/// Refuses frames that a peer sends too often.
fn pace<const AT_ONCE: u64, const A_SECOND: u64>(
    allowance: &mut Allowance<AT_ONCE, A_SECOND>,
    now: Nanos,
    what: &str,
) -> Result<(), LinkError> {
    if allowance.take(now) {
        return Ok(());
    }
    let text = format!("more than {A_SECOND} new {what} a second");
    Err(LinkError::Rejected(Reject { reason: Reason::Full, text }))
}

#[cfg(test)]
mod every_frame;
#[cfg(test)]
mod tests;
