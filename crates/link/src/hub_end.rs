//! The hub's end of one connection: greets, judges the Hello, hands every frame to the hub, answers Beats, and
//! says when silence has ended it. It holds no rows and knows no node; one without an unfinished frame has less
//! than 200 bytes.

use khz_model::Nanos;

use crate::error::{LinkError, Reject};
use crate::frame::Frame;
use crate::inbound::Inbound;
use crate::limits::{FRAME_MAX, HANDSHAKE, HELLO_MAX, SILENCE, VERSION};
use crate::message::*;
use crate::put::{self, Acks, Ask};

/// What all connections of a hub have in common.
#[derive(Clone, Debug)]
pub struct HubEndConfig {
    /// Random at the hub's start.
    pub identity: [u8; 16],
    /// Its name, for people.
    pub name: String,
    /// A stranger must have said Hello after so long.
    pub handshake: Nanos,
    /// A peer that has said nothing for so long is gone.
    pub silence: Nanos,
}

impl HubEndConfig {
    /// The protocol's own times.
    pub fn new(identity: [u8; 16], name: impl Into<String>) -> Self {
        HubEndConfig { identity, name: name.into(), handshake: HANDSHAKE, silence: SILENCE }
    }
}

/// What the hub says to a Hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Come in.
    Welcome,
    /// Stay out.
    Refuse(Reject),
}

/// The hub behind a connection. Each method is called once for each frame, in order, and borrows from the bytes
/// that came; an error ends the connection with that reason.
///
/// From a node come lanes and their rows. From a reader or another hub come interests, and Wants for the lanes
/// that were offered for them.
#[allow(unused_variables)]
pub trait HubSide {
    /// The first frame. Nothing else is called before it was welcomed.
    fn hello(&mut self, hello: &Hello<'_>, nonce: &[u8; 32]) -> Verdict;

    /// A node offers a lane, or offers it anew. What is wanted of it may be said at once or later
    /// ([`HubEnd::want`]).
    fn lane(&mut self, offer: &LaneOffer<'_>) -> Result<Option<Want>, Reject>;

    /// A piece of a lane's schema.
    fn schema(&mut self, piece: &SchemaPiece<'_>) -> Result<(), Reject>;

    /// A block begins: its header and some of its rows.
    fn block(&mut self, lane: u32, bytes: &[u8]) -> Result<(), Reject>;

    /// The block goes on; rows may be cut anywhere.
    fn rows(&mut self, lane: u32, bytes: &[u8]) -> Result<(), Reject>;

    /// The block is complete.
    fn end(&mut self, end: &End) -> Result<(), Reject>;

    /// A piece of a closed block from the past; `last` completes it.
    fn past(&mut self, lane: u32, last: bool, bytes: &[u8]) -> Result<(), Reject>;

    /// The node does not have these rows any more (without `to`).
    fn lost(&mut self, lane: u32, from: u64, to: u64) -> Result<(), Reject>;

    /// Nothing more will come in the lane.
    fn closed(&mut self, lane: u32) -> Result<(), Reject>;

    /// What became of an interest of ours. A lane that was offered before may be wanted now.
    fn told(&mut self, told: &Told<'_>) -> Result<Option<Want>, Reject>;

    /// A Beat came; `acks` takes what was received and stored of each lane of this node.
    fn beat(&mut self, beat: &Beat, acks: &mut Acks<'_>);

    /// A reader wants rows.
    fn interest(&mut self, interest: &InterestFrame<'_>) -> Result<(), Reject> {
        Err(Reject { reason: Reason::NotAllowed, text: "interests are not accepted here".into() })
    }

    /// A reader does not want them any more.
    fn dismiss(&mut self, number: u32) -> Result<(), Reject> {
        Ok(())
    }

    /// A reader wants a lane that it was offered.
    fn want(&mut self, want: &WantFrame<'_>) -> Result<(), Reject> {
        Ok(())
    }

    /// A reader does not want the lane any more.
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
    /// When it ends unless something comes.
    deadline: Nanos,
    silence: Nanos,
    inbound: Inbound,
}

impl HubEnd {
    /// A connection that was just accepted; the greeting goes to `out`. `nonce` must be random.
    pub fn new(config: &HubEndConfig, nonce: [u8; 32], now: Nanos, out: &mut Vec<u8>) -> Self {
        let HubEndConfig { identity, name, .. } = config;
        Greeting { lowest: VERSION, highest: VERSION, nonce, identity: *identity, name }.put(out);
        HubEnd {
            state: State::Greeted,
            nonce,
            deadline: Nanos(now.0 + config.handshake.0),
            silence: config.silence,
            inbound: Inbound::default(),
        }
    }

    /// Takes bytes that came at `now` (any monotonic clock) and `wall` (ns since 1970); calls `hub` for each frame.
    /// Answers go to `out`. After an error the connection is to be closed, once `out` was sent as far as it goes
    /// at once: a Refuse stands there.
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
            (State::Welcomed(_), _) => from_reader(&frame, wall, hub, out)?,
            _ => return Err(LinkError::OutOfPlace { frame: frame.name() }),
        };
        done.map_err(LinkError::Rejected)?;
        self.deadline = Nanos(now.0 + self.silence.0);
        Ok(())
    }

    fn hello<H: HubSide>(&mut self, hello: &Hello<'_>, hub: &mut H, out: &mut Vec<u8>) -> Result<(), Reject> {
        if hello.version != VERSION {
            let text = format!("this hub speaks version {VERSION} of the protocol, not {}", hello.version);
            return Err(Reject { reason: Reason::Version, text });
        }
        match hub.hello(hello, &self.nonce) {
            Verdict::Refuse(reject) => Err(reject),
            Verdict::Welcome => {
                self.state = State::Welcomed(hello.role);
                Welcome { version: VERSION, silence: self.silence }.put(out);
                Ok(())
            }
        }
    }

    /// Ends the connection, and tells the peer why.
    fn give_up(&mut self, error: LinkError, out: &mut Vec<u8>) -> LinkError {
        match &error {
            LinkError::Rejected(reject) => put::refuse(out, reject.reason, &reject.text),
            other => put::refuse(out, Reason::Protocol, &other.to_string()),
        }
        self.state = State::Over;
        self.inbound.drop_all();
        error
    }

    /// When silence ends the connection. A stranger has the handshake's time in all, a peer the silence after
    /// each whole frame.
    pub fn deadline(&self) -> Nanos {
        self.deadline
    }

    /// As what the peer was welcomed.
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

    /// Wants a lane.
    pub fn want(&self, lane: u32, want: &Want, out: &mut Vec<u8>) {
        want.put(lane, out);
    }

    /// Does not want the lane any more.
    pub fn leave(&self, lane: u32, out: &mut Vec<u8>) {
        put::leave(out, lane);
    }

    /// Asks a node for rows at another rate.
    pub fn interest<P: AsRef<str>>(&self, ask: &Ask<'_, P>, out: &mut Vec<u8>) {
        ask.put(out);
    }

    /// Takes an interest back.
    pub fn dismiss(&self, number: u32, out: &mut Vec<u8>) {
        put::dismiss(out, number);
    }

    /// Ends the connection from our side: what comes after this is an error.
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
        Frame::Want(want) => hub.want(want),
        Frame::Leave { lane } => hub.leave(*lane),
        Frame::Beat(beat) => beaten(beat, wall, hub, out),
        Frame::Newer { .. } => Ok(()),
        _ => return Err(LinkError::OutOfPlace { frame: frame.name() }),
    })
}

fn beaten<H: HubSide>(beat: &Beat, wall: i64, hub: &mut H, out: &mut Vec<u8>) -> Taken {
    put::beaten(out, beat.stamp, wall, wall, |acks| hub.beat(beat, acks));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::split;

    #[derive(Default)]
    struct Notes {
        refuse: bool,
        heard: Vec<String>,
    }

    impl HubSide for Notes {
        fn hello(&mut self, hello: &Hello<'_>, _: &[u8; 32]) -> Verdict {
            self.heard.push(format!("hello {}", hello.name));
            match self.refuse {
                true => Verdict::Refuse(Reject { reason: Reason::NameTaken, text: "taken".into() }),
                false => Verdict::Welcome,
            }
        }
        fn lane(&mut self, offer: &LaneOffer<'_>) -> Result<Option<Want>, Reject> {
            self.heard.push(format!("lane {}", offer.name));
            Ok(Some(Want { from_row: 7, have: vec![(9, 12)], ..Want::default() }))
        }
        fn schema(&mut self, _: &SchemaPiece<'_>) -> Result<(), Reject> {
            Err(Reject::protocol("no schema now"))
        }
        fn block(&mut self, lane: u32, bytes: &[u8]) -> Result<(), Reject> {
            self.heard.push(format!("block {lane} {}", bytes.len()));
            Ok(())
        }
        fn rows(&mut self, lane: u32, bytes: &[u8]) -> Result<(), Reject> {
            self.heard.push(format!("rows {lane} {}", bytes.len()));
            Ok(())
        }
        fn end(&mut self, _: &End) -> Result<(), Reject> {
            Ok(())
        }
        fn past(&mut self, _: u32, _: bool, _: &[u8]) -> Result<(), Reject> {
            Ok(())
        }
        fn lost(&mut self, _: u32, from: u64, to: u64) -> Result<(), Reject> {
            self.heard.push(format!("lost {from}..{to}"));
            Ok(())
        }
        fn closed(&mut self, _: u32) -> Result<(), Reject> {
            Ok(())
        }
        fn told(&mut self, _: &Told<'_>) -> Result<Option<Want>, Reject> {
            Ok(None)
        }
        fn beat(&mut self, _: &Beat, acks: &mut Acks<'_>) {
            acks.push(Ack { lane: 1, received: 12, stored: 10 });
        }
    }

    fn hello(role: Role) -> Vec<u8> {
        let hello = Hello {
            version: VERSION,
            role,
            name: "node1",
            machine: [1; 16],
            boot: [2; 16],
            started: 5,
            start_nonce: 6,
            program: "0.1.0",
            proof: None,
        };
        let mut out = Vec::new();
        hello.put(&mut out);
        out
    }

    fn offer() -> Vec<u8> {
        let offer = LaneOffer {
            lane: 1,
            node: "",
            name: "base",
            epoch: 3,
            generation: 1,
            period: Nanos::SECOND,
            interest: 0,
            oldest_row: 0,
            next_row: 20,
            schema_bytes: 100,
            schema_hash: [0; 16],
        };
        let mut out = Vec::new();
        offer.put(&mut out);
        out
    }

    struct Connection {
        end: HubEnd,
        hub: Notes,
        out: Vec<u8>,
    }

    impl Connection {
        fn new() -> Self {
            let mut out = Vec::new();
            let end = HubEnd::new(&HubEndConfig::new([4; 16], "hub"), [9; 32], Nanos(0), &mut out);
            Connection { end, hub: Notes::default(), out }
        }
        fn say(&mut self, bytes: &[u8], at: Nanos) -> Result<(), LinkError> {
            self.end.receive(bytes, at, 1_000, &mut self.hub, &mut self.out)
        }
        /// The names of what the hub has said since last asked.
        fn said(&mut self) -> Vec<&'static str> {
            let bytes = std::mem::take(&mut self.out);
            let (mut at, mut names) = (0, Vec::new());
            while let Some(frame) = split(&bytes[at..], FRAME_MAX).unwrap() {
                names.push(Frame::decode(frame.kind, frame.body).unwrap().name());
                at += frame.length;
            }
            names
        }
    }

    #[test]
    fn a_node_is_greeted_welcomed_asked_and_acknowledged() {
        let mut connection = Connection::new();
        assert_eq!(connection.said(), ["Greeting"]);
        connection.say(&hello(Role::Node), Nanos(1)).unwrap();
        assert_eq!(connection.said(), ["Welcome"]);
        connection.say(&offer(), Nanos(2)).unwrap();
        assert_eq!(connection.said(), ["Want"]);
        let mut bytes = Vec::new();
        let rows = put::open_lane(&mut bytes, crate::frame::kind::ROWS, 1);
        bytes.extend_from_slice(&[1, 2, 3]);
        rows.close(&mut bytes);
        Beat { stamp: 1, round_trip: None, offset: 0, retransmits: 0 }.put(&mut bytes);
        for byte in bytes {
            connection.say(&[byte], Nanos(3)).unwrap();
        }
        assert_eq!(connection.said(), ["Beaten"]);
        assert_eq!(connection.hub.heard, ["hello node1", "lane base", "rows 1 3"]);
        assert_eq!(connection.end.deadline(), Nanos(3 + SILENCE.0));
    }

    #[test]
    fn nothing_is_heard_before_the_hello_and_nothing_after_a_refusal() {
        let mut connection = Connection::new();
        connection.out.clear();
        assert!(matches!(connection.say(&offer(), Nanos(1)), Err(LinkError::OutOfPlace { frame: "Lane" })));
        assert_eq!(connection.said(), ["Refuse"]);
        assert_eq!(connection.say(&hello(Role::Node), Nanos(1)), Err(LinkError::Over));
        let mut connection = Connection::new();
        connection.hub.refuse = true;
        let both = [hello(Role::Node), offer()].concat();
        assert!(matches!(connection.say(&both, Nanos(1)), Err(LinkError::Rejected(_))));
        assert_eq!(connection.hub.heard, ["hello node1"]);
        assert_eq!(connection.said(), ["Greeting", "Refuse"]);
    }

    #[test]
    fn a_reader_may_not_offer_lanes_and_a_node_may_not_ask() {
        let mut interest = Vec::new();
        Ask { number: 1, period: Nanos(1), exact: false, prompt: true, patterns: &["cpu.*"] }
            .put(&mut interest);
        for (role, wrong, frame) in [(Role::Reader, offer(), "Lane"), (Role::Node, interest, "Interest")] {
            let mut connection = Connection::new();
            connection.say(&hello(role), Nanos(1)).unwrap();
            assert_eq!(connection.say(&wrong, Nanos(2)), Err(LinkError::OutOfPlace { frame }));
        }
    }

    #[test]
    fn a_stranger_who_says_little_has_no_more_time_than_one_who_says_nothing() {
        let mut connection = Connection::new();
        let hello = hello(Role::Node);
        connection.say(&hello[..hello.len() - 1], Nanos::from_secs(4)).unwrap();
        assert_eq!(connection.end.deadline(), HANDSHAKE);
        assert!(connection.end.kept() <= HELLO_MAX && size_of::<HubEnd>() <= 120);
    }

    #[test]
    fn a_stranger_with_a_large_frame_is_cut_at_its_length() {
        for length in [HELLO_MAX as u32 + 1, u32::MAX] {
            let mut connection = Connection::new();
            let error = connection.say(&length.to_le_bytes(), Nanos(1)).unwrap_err();
            assert_eq!(error, LinkError::TooLarge { length: length.into(), limit: HELLO_MAX });
            assert_eq!(connection.end.kept(), 0);
        }
        let mut browser = Connection::new();
        assert!(browser.say(b"GET / HTTP/1.1\r\n", Nanos(1)).is_err());
    }
}
