//! A hub's end of a connection, with peers that connect to it.

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

pub(super) fn hello(role: Role) -> Vec<u8> {
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
        abilities: 0,
    };
    let mut out = Vec::new();
    hello.put(&mut out);
    out
}

pub(super) fn offer() -> Vec<u8> {
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
        stands_in: false,
    };
    let mut out = Vec::new();
    offer.put(&mut out);
    out
}

/// The names of these frames.
pub(super) fn names(bytes: &[u8]) -> Vec<&'static str> {
    let (mut at, mut names) = (0, Vec::new());
    while let Some(frame) = split(&bytes[at..], FRAME_MAX).unwrap() {
        names.push(Frame::decode(frame.kind, frame.body).unwrap().name());
        at += frame.length;
    }
    names
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
    /// The names of the frames that the hub has sent since the last call.
    fn said(&mut self) -> Vec<&'static str> {
        names(&std::mem::take(&mut self.out))
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
    Ask { number: 1, period: Nanos(1), prompt: true, patterns: &["cpu.*"], ..Ask::default() }
        .put(&mut interest);
    for (role, wrong, frame) in [(Role::Reader, offer(), "Lane"), (Role::Node, interest, "Interest")] {
        let mut connection = Connection::new();
        connection.say(&hello(role), Nanos(1)).unwrap();
        assert_eq!(connection.say(&wrong, Nanos(2)), Err(LinkError::OutOfPlace { frame }));
    }
}

#[test]
fn a_peer_that_sends_half_a_hello_has_no_more_time_than_one_that_sends_nothing() {
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
