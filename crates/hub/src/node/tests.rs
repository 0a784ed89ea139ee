//! One node, its connection a mailbox that a test looks into.

use khz_model::Pattern;

use super::*;

struct Peer {
    node: Node,
    mailbox: Arc<Mailbox>,
}

const NOW: Nanos = Nanos::from_secs(1_000);

impl Peer {
    fn new() -> Self {
        let name = NodeName::new("n1").expect("a good name");
        Peer { node: Node::new(name, NOW), mailbox: Arc::new(Mailbox::new().expect("an eventfd")) }
    }

    fn connect(&mut self, connection: u64) {
        let link = Link { mailbox: self.mailbox.clone(), connection };
        self.node.connect(Identity::default(), "1.2.3", None, link, NOW);
    }

    /// A lane that is offered under this number, and alive.
    fn lane(&mut self, number: u32, name: &str) -> u64 {
        let id = self.node.offered(number, name, 7, Nanos::SECOND).expect("room for a lane");
        self.node.lane_mut(id).expect("the lane").alive = true;
        id
    }

    /// The number of an interest that this lane serves.
    fn interest(&mut self, hz: u64, lane: Option<u64>) -> u32 {
        let number = self.node.wish(&wish(hz)).expect("room for a wish");
        let interest = self.node.interests.iter_mut().find(|interest| interest.number == number);
        interest.expect("the interest").lane = lane;
        number
    }

    /// What was said since last asked, each with the connection.
    fn said(&self) -> Vec<String> {
        let said = self.mailbox.take().into_iter();
        said.map(|(connection, command)| match command {
            Command::Interest { number, .. } => format!("{connection}: Interest {number}"),
            Command::Cut { reason, .. } => format!("{connection}: Cut {reason:?}"),
            other => format!("{connection}: {other:?}"),
        })
        .collect()
    }
}

fn wish(hz: u64) -> Wish {
    let patterns = vec![Pattern::new("cpu.*").expect("a pattern")];
    Wish { patterns, rate: Rate::from_hz(hz), exact: false, prompt: false }
}

#[test]
fn what_belonged_to_a_connection_ends_with_it_and_what_readers_want_stays() {
    let mut peer = Peer::new();
    peer.connect(1);
    let id = peer.lane(4, BASE);
    let number = peer.interest(10, Some(id));
    peer.node.told(number, Told { granted: true, text: "slower".into() });
    assert!(peer.node.numbered(4).is_some() && peer.node.is_linked(1));
    for ends in [true, false] {
        match ends {
            true => assert!(peer.node.disconnect(1, None, NOW)),
            false => peer.connect(2),
        }
        assert!(peer.node.numbered(4).is_none(), "a lane's number is the connection's");
        assert!(peer.node.lane(id).is_some_and(|lane| !lane.alive));
        let interest = peer.node.interest(number).expect("readers want it still");
        assert_eq!((interest.told.as_ref(), interest.lane, interest.readers), (None, None, 1));
        assert!(!peer.node.is_linked(1) && !peer.node.disconnect(1, None, NOW), "that is known already");
    }
    assert!(peer.node.is_linked(2));
}

#[test]
fn a_newer_connection_cuts_the_one_before_and_takes_over_all_that_was_its() {
    let mut peer = Peer::new();
    peer.connect(1);
    let id = peer.lane(4, BASE);
    peer.said();
    peer.connect(2);
    assert_eq!(peer.said(), ["1: Cut Superseded"]);
    assert!(peer.node.numbered(4).is_none() && peer.node.lane(id).is_some_and(|lane| !lane.alive));
    assert!(!peer.node.disconnect(1, None, NOW) && peer.node.is_linked(2));
    assert_eq!(peer.node.connects, 2);
}

#[test]
fn a_lane_that_has_ended_goes_unless_it_is_read_or_has_a_past_or_is_the_base_lane() {
    for (name, is_read, has_past, stays) in [
        ("boost", false, false, false),
        ("boost", true, false, true),
        ("boost", false, true, true),
        (BASE, false, false, true),
    ] {
        let mut peer = Peer::new();
        peer.connect(1);
        let id = peer.lane(4, name);
        let other = peer.lane(5, "alive");
        let lane = peer.node.lane_mut(id).expect("the lane");
        lane.readers = usize::from(is_read);
        lane.recent_bytes = u64::from(has_past);
        peer.node.close_lane(4);
        assert_eq!(peer.node.lane(id).is_some(), stays, "{name}: read: {is_read}, past: {has_past}");
        assert!(peer.node.numbered(4).is_none(), "its number is free");
        assert!(peer.node.lane(other).is_some_and(|lane| lane.alive), "the other one has not ended");
        assert_eq!(peer.node.lanes.len(), peer.node.lane_ids.len());
    }
}

#[test]
fn a_node_is_told_once_what_is_wanted_and_once_that_nobody_wants_it() {
    let mut peer = Peer::new();
    peer.connect(1);
    let id = peer.lane(4, "boost");
    let number = peer.interest(10, Some(id));
    assert_eq!(peer.interest(10, Some(id)), number, "the same wish of another reader");
    assert_eq!(peer.said(), [format!("1: Interest {number}")]);
    peer.node.unwish(number);
    assert_eq!((peer.said(), peer.node.interest(number).map(|one| one.readers)), (vec![], Some(1)));
    peer.node.unwish(number);
    let leave = "1: Leave { lane: 4 }".to_owned();
    assert_eq!(peer.said(), [format!("1: Dismiss {{ number: {number} }}"), leave]);
    assert!(peer.node.interest(number).is_none());
    peer.node.unwish(number);
    assert_eq!(peer.said(), [""; 0]);
}

#[test]
fn a_lane_is_left_with_the_last_interest_that_it_serves_and_the_base_lane_never() {
    let mut peer = Peer::new();
    peer.connect(1);
    let (base, boost) = (peer.lane(3, BASE), peer.lane(4, "boost"));
    let interests = [
        peer.interest(10, Some(boost)),
        peer.interest(20, Some(boost)),
        peer.interest(1, Some(base)),
        peer.interest(50, None),
    ];
    peer.said();
    let expected = [&[][..], &["1: Leave { lane: 4 }"], &[], &[]];
    for (number, leaves) in interests.into_iter().zip(expected) {
        peer.node.unwish(number);
        let dismissed = format!("1: Dismiss {{ number: {number} }}");
        assert_eq!(peer.said(), [&[&dismissed[..]], leaves].concat());
    }
}

#[test]
fn who_asks_for_rows_of_now_waits_for_the_answer_to_his_request_and_no_other() {
    let mut peer = Peer::new();
    let (files, counts, round) =
        (Files::from([("stat".to_owned(), "cpu.user".to_owned())]), Counts::default(), Arc::default());
    let second = Nanos::SECOND;
    let asking = Asking { files: &files, now: NOW, age_max: Nanos(1), ceiling: Nanos(1), counts: &counts };
    assert_eq!(peer.node.ask(&asking, &round), None, "nobody is there who could answer");
    peer.connect(1);
    assert_eq!(peer.node.ask(&asking, &round), Some(1));
    assert!(!peer.node.has_answered(1));
    let interest = peer.node.interests[0].number;
    assert_eq!(peer.said(), [format!("1: Interest {interest}")], "the request waits for its lane");
    let id = peer.lane(4, "now");
    peer.node.interests[0].lane = Some(id);
    peer.node.demand_lane(interest, &counts);
    assert_eq!(peer.said(), [format!("1: Now {{ number: {interest}, ask: 1 }}")]);
    peer.node.given(5, 1, NOW, &counts);
    assert!(!peer.node.has_answered(1), "that was another lane");
    peer.node.given(4, 1, NOW, &counts);
    assert!(peer.node.has_answered(1) && !peer.node.has_answered(2));
    peer.node.demand_lane(interest, &counts);
    assert_eq!(peer.said(), [""; 0], "it was answered");
    let later = Asking { now: Nanos(NOW.0 + second.0), ..asking };
    assert_eq!(peer.node.ask(&later, &round), Some(2));
    assert_eq!(peer.said(), [format!("1: Now {{ number: {interest}, ask: 2 }}")]);
    peer.node.told(interest, Told { granted: false, text: "no".into() });
    assert!(peer.node.has_answered(2), "who is refused does not wait");
    // Nobody has wanted it for long: the interest is taken back.
    peer.node.forget_demand(Nanos(NOW.0 + 2 * second.0));
    assert!(peer.node.interest(interest).is_some());
    peer.node.forget_demand(Nanos(NOW.0 + 1_000 * second.0));
    assert!(peer.node.interest(interest).is_none() && !peer.node.has_answered(2));
}
