//! One node, with a mailbox as its connection, in which the test reads the commands.

use khz_link::limits::VERSION;
use khz_link::{ABILITIES, KNOWS_CHANNELS};
use khz_model::{Away, ChannelName, ChannelTerms, Pattern, Presence};

use super::*;
use crate::lane::tests::{gets_rows, gets_rows_at};
use crate::limits::{LANES_MAX, SCHEMA_WORK_A_SECOND, SCHEMA_WORK_MAX};
use crate::mailbox::Mailbox;
use crate::memory::State;

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
        self.connect_as(connection, 0);
    }

    /// The same with these abilities.
    fn connect_as(&mut self, connection: u64, abilities: u8) {
        let link = Link::new(self.mailbox.clone(), connection).of_peer(VERSION, abilities);
        self.node.connect(&Arrival { version: "1.2.3", ..Arrival::default() }, link, NOW);
    }

    /// A lane that is offered under this number, and alive.
    fn lane(&mut self, number: u32, name: &str) -> u64 {
        let id = self.node.lanes_mut().offered(number, name, 7, Nanos::SECOND).expect("room for a lane");
        self.node.lanes_mut().get_mut(id).expect("the lane").alive = true;
        id
    }

    fn problem(&self) -> Option<String> {
        self.node.status(NOW).problem
    }

    fn has_left(&self) -> bool {
        self.node.link().state() == State::Left
    }

    /// The number of a subscription that this lane serves.
    fn subscribe(&mut self, hz: u64, lane: Option<u64>) -> u32 {
        let number = self.node.subscribe(&Arc::new(terms(hz))).expect("room for a wish");
        if let Some(id) = lane {
            self.node.answered(number, Answer { granted: true, text: String::new() }, lane);
            self.node.want(id, None);
        }
        number
    }

    /// What was said since last asked, each with the connection.
    fn said(&self) -> Vec<String> {
        let said = self.mailbox.take().into_iter();
        said.map(|(connection, command)| match command {
            Command::Interest { number, terms, is_own: _ } => match &terms.channel {
                None => format!("{connection}: Interest {number}"),
                Some(channel) => format!("{connection}: Channel {number} {}", channel.name),
            },
            Command::Cut { reason, .. } => format!("{connection}: Cut {reason:?}"),
            other => format!("{connection}: {other:?}"),
        })
        .collect()
    }
}

fn terms(hz: u64) -> Terms {
    let patterns = vec![Pattern::new("cpu.*").expect("a pattern")];
    Terms { patterns, rate: Rate::from_hz(hz), exact: false, prompt: false, channel: None }
}

fn channel(hz: u64, name: &str, handler: &[u8]) -> Arc<Terms> {
    let name = ChannelName::new(name).expect("a good name");
    let channel = Some(Arc::new(ChannelTerms { name, handler: handler.into() }));
    Arc::new(Terms { channel, ..terms(hz) })
}

#[test]
fn readers_share_a_channel_of_the_same_name_handler_and_rate_and_no_other() {
    let mut peer = Peer::new();
    peer.connect_as(1, ABILITIES);
    let first = peer.node.subscribe(&channel(100, "hot", &[1])).expect("room");
    assert_eq!(peer.node.subscribe(&channel(100, "hot", &[1])), Some(first));
    let others = [
        channel(100, "hot", &[2]),
        channel(100, "cold", &[1]),
        channel(10, "hot", &[1]),
        Arc::new(terms(100)),
    ];
    let others = others.map(|terms| peer.node.subscribe(&terms).expect("room"));
    assert!(others.iter().all(|&number| number != first));
    let [a, b, c, d] = others;
    let said = [
        format!("1: Channel {first} hot"),
        format!("1: Channel {a} hot"),
        format!("1: Channel {b} cold"),
        format!("1: Channel {c} hot"),
        format!("1: Interest {d}"),
    ];
    assert_eq!(peer.said(), said);
    peer.node.unsubscribe(first);
    assert_eq!(peer.said(), [""; 0], "another reader wants it");
    peer.node.unsubscribe(first);
    assert_eq!(peer.said(), [format!("1: Dismiss {{ number: {first} }}")]);
}

#[test]
fn a_node_that_is_older_than_channels_is_sent_none_and_one_that_was_updated_is() {
    let mut peer = Peer::new();
    peer.connect_as(1, ABILITIES & !KNOWS_CHANNELS);
    let number = peer.node.subscribe(&channel(100, "hot", &[1])).expect("room");
    let plain = peer.node.subscribe(&Arc::new(terms(100))).expect("room");
    assert_eq!(peer.said(), [format!("1: Interest {plain}")]);
    let answer = |peer: &Peer| peer.node.subscriptions.get(number).and_then(|known| known.answer().cloned());
    let text = TOO_OLD_FOR_CHANNELS.to_owned();
    assert_eq!(answer(&peer), Some(Answer { granted: false, text }));
    for (connection, abilities) in [(2, 0), (3, ABILITIES), (4, 0)] {
        peer.connect_as(connection, abilities);
        peer.node.send_subscriptions();
        let said: Vec<String> = peer.said().into_iter().filter(|said| said.contains("hot")).collect();
        let is_asked = abilities == ABILITIES;
        assert_eq!(said, Vec::from_iter(is_asked.then(|| format!("{connection}: Channel {number} hot"))));
        assert_eq!(answer(&peer).is_none(), is_asked, "it answers itself");
    }
}

#[test]
fn a_node_behind_another_hub_leaves_the_answer_to_what_reads_that_hub() {
    let mut peer = Peer::new();
    peer.connect(THROUGH_HUB | 1);
    let number = peer.node.subscribe(&channel(100, "hot", &[1])).expect("room");
    assert_eq!(peer.said(), [format!("{}: Channel {number} hot", THROUGH_HUB | 1)]);
}

#[test]
fn what_belonged_to_a_connection_ends_with_it_and_what_readers_want_stays() {
    let mut peer = Peer::new();
    peer.connect(1);
    let id = peer.lane(4, BASE);
    let number = peer.subscribe(10, Some(id));
    peer.node.answered(number, Answer { granted: true, text: "slower".into() }, None);
    assert!(peer.node.lanes_mut().numbered(4).is_some() && peer.node.link().is_linked(1));
    for ends in [true, false] {
        match ends {
            true => assert!(peer.node.disconnect(1, None, NOW)),
            false => peer.connect(2),
        }
        assert!(peer.node.lanes_mut().numbered(4).is_none(), "a lane's number is the connection's");
        assert!(peer.node.lanes().get(id).is_some_and(|lane| !lane.alive));
        let kept = peer.node.subscriptions.get(number).expect("readers want it still");
        assert_eq!((kept.answer(), kept.lane(), kept.readers()), (None, None, 1));
        assert!(
            !peer.node.link().is_linked(1) && !peer.node.disconnect(1, None, NOW),
            "that is known already"
        );
    }
    assert!(peer.node.link().is_linked(2));
}

#[test]
fn a_newer_connection_cuts_the_one_before_and_takes_over_all_that_was_its() {
    let mut peer = Peer::new();
    peer.connect(1);
    let id = peer.lane(4, BASE);
    peer.said();
    peer.connect(2);
    assert_eq!(peer.said(), ["1: Cut Superseded"]);
    assert!(
        peer.node.lanes_mut().numbered(4).is_none()
            && peer.node.lanes().get(id).is_some_and(|lane| !lane.alive)
    );
    assert!(!peer.node.disconnect(1, None, NOW) && peer.node.link().is_linked(2));
    assert_eq!(peer.node.link().connects(), 2);
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
        let lane = peer.node.lanes_mut().get_mut(id).expect("the lane");
        lane.readers = usize::from(is_read);
        lane.recent_bytes = u64::from(has_past);
        peer.node.close_lane(4);
        assert_eq!(peer.node.lanes().get(id).is_some(), stays, "{name}: read: {is_read}, past: {has_past}");
        assert!(peer.node.lanes_mut().numbered(4).is_none(), "its number is free");
        assert!(peer.node.lanes().get(other).is_some_and(|lane| lane.alive), "the other one has not ended");
    }
}

#[test]
fn a_node_hears_once_what_is_wanted_and_once_that_it_is_wanted_no_more() {
    let mut peer = Peer::new();
    peer.connect(1);
    let id = peer.lane(4, "boost");
    let number = peer.subscribe(10, Some(id));
    assert_eq!(peer.subscribe(10, Some(id)), number, "another reader wants the same");
    assert_eq!(peer.said(), [format!("1: Interest {number}")]);
    peer.node.unsubscribe(number);
    assert_eq!(
        (peer.said(), peer.node.subscriptions.get(number).map(|one| one.readers())),
        (vec![], Some(1))
    );
    peer.node.unsubscribe(number);
    let leave = "1: Leave { lane: 4 }".to_owned();
    assert_eq!(peer.said(), [format!("1: Dismiss {{ number: {number} }}"), leave]);
    assert!(peer.node.subscriptions.get(number).is_none());
    peer.node.unsubscribe(number);
    assert_eq!(peer.said(), [""; 0]);
}

#[test]
fn a_lane_is_left_with_the_last_subscription_that_it_serves_and_the_base_lane_never() {
    let mut peer = Peer::new();
    peer.connect(1);
    let (base, boost) = (peer.lane(3, BASE), peer.lane(4, "boost"));
    let subscriptions = [
        peer.subscribe(10, Some(boost)),
        peer.subscribe(20, Some(boost)),
        peer.subscribe(1, Some(base)),
        peer.subscribe(50, None),
    ];
    // Until one of them is answered, its lane may be the lane that would be left.
    peer.node.answered(subscriptions[3], Answer { granted: false, text: "no".into() }, None);
    peer.said();
    let expected = [&[][..], &["1: Leave { lane: 4 }"], &[], &[]];
    for (number, leaves) in subscriptions.into_iter().zip(expected) {
        peer.node.unsubscribe(number);
        let dismissed = format!("1: Dismiss {{ number: {number} }}");
        assert_eq!(peer.said(), [&[&dismissed[..]], leaves].concat());
    }
}

#[test]
fn a_reader_that_requests_rows_waits_for_the_answer_to_its_request_and_no_other() {
    let mut peer = Peer::new();
    let (files, counts, round) =
        (Files::from([("stat".to_owned(), "cpu.user".to_owned())]), Counts::default(), Arc::default());
    let second = Nanos::SECOND;
    let asking =
        RowRequest { files: &files, now: NOW, age_max: Nanos(1), ceiling: Nanos(1), counts: &counts };
    assert_eq!(peer.node.request(&asking, &round), None, "nobody is there who could answer");
    peer.connect(1);
    assert_eq!(peer.node.request(&asking, &round), Some(1));
    assert!(!peer.node.has_answered(1));
    let subscription = peer.node.subscriptions.first().expect("a subscription").number;
    assert_eq!(peer.said(), [format!("1: Interest {subscription}")], "the request waits for its lane");
    let id = peer.lane(4, "now");
    peer.node.serve(subscription, id);
    peer.node.lane_is_ready(subscription, &counts);
    assert_eq!(peer.said(), [format!("1: Now {{ number: {subscription}, ask: 1 }}")]);
    peer.node.request_answered(5, 1, NOW, &counts);
    assert!(!peer.node.has_answered(1), "that was another lane");
    peer.node.request_answered(4, 1, NOW, &counts);
    assert!(peer.node.has_answered(1) && !peer.node.has_answered(2));
    peer.node.lane_is_ready(subscription, &counts);
    assert_eq!(peer.said(), [""; 0], "it was answered");
    let later = RowRequest { now: Nanos(NOW.0 + second.0), ..asking };
    assert_eq!(peer.node.request(&later, &round), Some(2));
    assert_eq!(peer.said(), [format!("1: Now {{ number: {subscription}, ask: 2 }}")]);
    peer.node.answered(subscription, Answer { granted: false, text: "no".into() }, None);
    assert!(peer.node.has_answered(2), "who is refused does not wait");
    // No reader has requested rows for a while: the subscription ends.
    peer.node.end_unused_requests(Nanos(NOW.0 + 2 * second.0));
    assert!(peer.node.subscriptions.get(subscription).is_some());
    peer.node.end_unused_requests(Nanos(NOW.0 + 1_000 * second.0));
    assert!(peer.node.subscriptions.get(subscription).is_none() && !peer.node.has_answered(2));
}

/// A node that connects, by its machine, boot and start.
fn who(machine: u8, boot: u8, start: i64) -> Identity {
    Identity { machine: [machine; 16], boot: [boot; 16], start }
}

/// The same, when it connects.
fn arrival(machine: u8, boot: u8, start: i64) -> Arrival<'static> {
    Arrival { identity: who(machine, boot, start), ..Arrival::default() }
}

#[test]
fn a_name_belongs_to_its_machine_while_that_is_connected_and_to_its_latest_start() {
    let mut peer = Peer::new();
    assert!(peer.node.admits(&who(1, 1, 5)).is_ok(), "nobody has the name");
    let link = |connection| Link::new(peer.mailbox.clone(), connection);
    peer.node.connect(&arrival(1, 1, 5), link(1), NOW);
    let reason = |node: &Node, identity| node.admits(&identity).err().map(|(reason, _)| reason);
    assert_eq!(reason(&peer.node, who(2, 1, 9)), Some(Reason::NameTaken));
    assert_eq!(reason(&peer.node, who(1, 1, 4)), Some(Reason::Superseded));
    for later in [who(1, 1, 5), who(1, 1, 6), who(1, 2, 0)] {
        assert_eq!(reason(&peer.node, later), None, "{later:?}");
    }
    // A node that comes itself is believed more than a hub that speaks for it.
    peer.node.connect(&arrival(1, 1, 5), link(THROUGH_HUB), NOW);
    assert_eq!(reason(&peer.node, who(2, 1, 0)), None);
    assert!(peer.node.disconnect(THROUGH_HUB, None, NOW));
    assert_eq!(reason(&peer.node, who(2, 1, 0)), None, "nobody is connected");
}

#[test]
fn two_boots_of_a_machine_that_are_connected_at_once_are_a_problem_and_a_reboot_is_none() {
    let mut peer = Peer::new();
    let link = |connection| Link::new(peer.mailbox.clone(), connection);
    peer.node.connect(&arrival(1, 1, 5), link(1), NOW);
    peer.node.connect(&arrival(1, 1, 6), link(2), NOW);
    assert_eq!(peer.problem(), None, "the same boot");
    peer.node.connect(&arrival(1, 2, 0), link(3), NOW);
    assert!(peer.problem().is_some_and(|text| text.contains("clone")));
    peer.node.disconnect(3, Some("it was cut".into()), NOW);
    assert_eq!(peer.problem().as_deref(), Some("it was cut"));
    peer.node.connect(&arrival(1, 3, 0), link(4), NOW);
    assert_eq!(peer.problem(), None, "it was rebooted");
    peer.node.link_mut().goodbye(None);
    peer.node.disconnect(4, Some("it has closed the connection".into()), NOW);
    assert_eq!((peer.problem().as_deref(), peer.has_left()), (None, true), "it has left on purpose");
    peer.node.connect(&arrival(1, 3, 0), link(5), NOW);
    peer.node.link_mut().goodbye(Some("goes back to hub1".into()));
    peer.node.disconnect(5, Some("it has closed the connection".into()), NOW);
    assert_eq!((peer.problem().as_deref(), peer.has_left()), (Some("goes back to hub1"), true));
    peer.node.connect(&arrival(1, 3, 0), link(5), NOW);
    assert!(!peer.has_left());
}

#[test]
fn another_epoch_is_another_lane_that_goes_on_counting_and_the_former_ones_keep_their_past() {
    let mut peer = Peer::new();
    peer.connect(1);
    let mut ids = Vec::new();
    for epoch in 1..=11 {
        let id = peer.node.lanes_mut().offered(3, BASE, epoch, Nanos::SECOND).expect("room for a lane");
        let lane = peer.node.lanes_mut().get_mut(id).expect("the lane");
        assert_eq!((lane.epoch, lane.rows(), lane.lost()), (epoch, 4 * (epoch - 1), 7 * (epoch - 1)));
        // Four rows, two that are lost, and five that are awaited: with the epoch they are lost too.
        gets_rows(lane, 0, 3);
        lane.lose(3, 5);
        gets_rows(lane, 10, 1);
        lane.late_rows += 1;
        // One of them has neither a past nor readers.
        lane.trim(if epoch == 5 { 0 } else { u64::MAX });
        ids.push(id);
        assert_eq!(peer.node.lanes().base().map(|lane| lane.id), Some(id));
        assert_eq!(
            peer.node.lanes_mut().offered(8, BASE, epoch, Nanos(5)),
            Some(id),
            "known, under another number"
        );
        assert_eq!(peer.node.lanes().get(id).map(|lane| lane.period), Some(Nanos(5)));
        assert!(peer.node.lanes_mut().numbered(3).is_none() && peer.node.lanes_mut().numbered(8).is_some());
    }
    let known: Vec<bool> = ids.iter().map(|&id| peer.node.lanes().get_or_former(id).is_some()).collect();
    assert_eq!(
        known,
        [false, true, true, true, false, true, true, true, true, true, true],
        "of the former ones the latest eight with a past"
    );
    assert_eq!(
        (
            peer.node.lanes().get(ids[5]).is_some(),
            peer.node.lanes().present().len(),
            peer.node.lanes().history_lanes()
        ),
        (false, 1, 9)
    );
    let counted = peer.node.lanes().counted();
    assert_eq!((counted.rows, counted.lost, counted.late), (44, 72, 11));
}

#[test]
fn a_node_has_a_limit_of_lanes_and_makes_room_only_with_ended_ones_that_no_reader_follows() {
    let mut peer = Peer::new();
    peer.connect(1);
    let ids: Vec<u64> = (0..LANES_MAX as u32).map(|n| peer.lane(n + 1, &format!("lane{n}"))).collect();
    let more = |peer: &mut Peer, name: &str| peer.node.lanes_mut().offered(1_000, name, 1, Nanos::SECOND);
    assert_eq!(more(&mut peer, "one too many"), None);
    peer.node.lanes_mut().get_mut(ids[3]).expect("a lane").readers = 1;
    for id in [ids[3], ids[5]] {
        peer.node.lanes_mut().get_mut(id).expect("a lane").alive = false;
    }
    peer.lane(1_000, "another");
    assert!(peer.node.lanes().get(ids[5]).is_none() && peer.node.lanes().get(ids[3]).is_some());
    assert_eq!(more(&mut peer, "one too many"), None, "the other one is read");
}

#[test]
fn pieces_of_schemas_may_cost_so_much_at_once_and_so_much_a_second() {
    let mut peer = Peer::new();
    let at = |seconds: u64| Nanos(NOW.0 + seconds * Nanos::SECOND.0);
    let mut may = |cost: u64, seconds| peer.node.may_grow(cost as usize, at(seconds));
    assert!(may(SCHEMA_WORK_MAX - 1, 0) && may(1, 0));
    assert!(!may(1, 0));
    assert!(may(SCHEMA_WORK_A_SECOND, 1) && !may(1, 1));
    assert!(!may(2 * SCHEMA_WORK_A_SECOND + 1, 3), "what is too much takes nothing");
    assert!(may(2 * SCHEMA_WORK_A_SECOND, 3));
    assert!(!may(SCHEMA_WORK_MAX + 1, 1_000) && may(SCHEMA_WORK_MAX, 1_000), "no more than at once");
}

#[test]
fn what_the_roster_says_of_a_node_holds_until_it_connects() {
    let entry = |state, heard, since| Entry {
        node: NodeName::new("n1").expect("a good name"),
        state,
        heard,
        since,
        address: "10.0.0.7:1".into(),
        version: "0.9".into(),
    };
    let mut peer = Peer::new();
    assert_eq!(peer.node.entry(NOW), None, "it was never heard");
    assert_eq!(peer.node.link().must_stay(), None, "nobody expects it");
    let mut expected = Peer::new();
    expected.node.link_mut().expect();
    assert!(expected.node.link().must_stay().is_some_and(|why| why.contains("never seen")));
    // A node that was up when the hub ended is down since it was last heard.
    peer.node.link_mut().remember(&entry(State::Up, 50, 20));
    assert_eq!(peer.node.entry(NOW), Some(entry(State::Down, 50, 50)));
    assert_eq!(peer.node.link().must_stay(), None);
    peer.node.link_mut().remember(&entry(State::Left, 70, 60));
    assert_eq!(peer.node.entry(NOW), Some(entry(State::Down, 50, 50)), "the first word counts");
    let mut left = Peer::new();
    left.node.link_mut().remember(&entry(State::Left, 70, 60));
    assert_eq!(left.node.entry(NOW), Some(entry(State::Left, 70, 60)));
    let status = left.node.status(NOW);
    assert_eq!((status.left, status.up, status.address.as_deref()), (true, false, Some("10.0.0.7:1")));
    left.connect(1);
    left.node.link_mut().remember(&entry(State::Left, 70, 60));
    let now = left.node.entry(NOW).expect("it is there");
    assert!(
        now.state == State::Up && now.heard > 1_000_000 && now.version == "1.2.3" && now.address.is_empty()
    );
    assert!(left.node.link().must_stay().is_some_and(|why| why.contains("still up")));
    left.node.disconnect(1, None, NOW);
    assert_eq!(
        (left.node.entry(NOW).map(|entry| entry.state), left.node.link().must_stay()),
        (Some(State::Down), None)
    );
}

#[test]
fn what_another_hub_tells_of_a_node_counts_while_it_is_not_here() {
    let mut below = Peer::new();
    below.connect(1);
    below.node.link_mut().expect();
    let up = below.node.status(NOW);
    below.node.link_mut().goodbye(None);
    below.node.disconnect(1, None, NOW);
    let left = below.node.status(Nanos(NOW.0 + 7));
    let mut peer = Peer::new();
    assert!(!peer.node.link_mut().reported_by(0, "hub2", &up), "one that is up there comes by itself");
    assert!(!peer.node.status(NOW).left && peer.node.status(NOW).expected);
    assert!(peer.node.link_mut().reported_by(0, "hub2", &left), "that is news");
    assert!(!peer.node.link_mut().reported_by(0, "hub2", &left), "and then it is not");
    let status = peer.node.status(NOW);
    assert!(status.left && !status.up && status.heard.is_some() && status.version == "1.2.3");
    assert!(peer.node.link().must_stay().is_some_and(|why| why.contains("hub2")));
    peer.connect(5);
    assert!(!peer.node.link_mut().reported_by(0, "hub2", &left), "it is here");
    assert!(!peer.node.status(NOW).left && peer.node.status(NOW).up);
}

/// What a hub says that heard the node this many seconds ago; `None`: never.
fn listed(heard: Option<u64>, left: bool, expected: bool) -> NodeStatus {
    let mut of = Peer::new();
    of.connect(1);
    of.node.disconnect(1, None, NOW);
    NodeStatus { heard: heard.map(Nanos::from_secs), left, expected, ..of.node.status(NOW) }
}

#[test]
fn of_two_hubs_that_of_the_one_counts_which_heard_the_node_last() {
    let mut peer = Peer::new();
    let mut hears = |source, status: &NodeStatus| {
        let is_news = peer.node.link_mut().reported_by(source, "hub", status);
        (is_news, peer.node.status(NOW).left)
    };
    // It left the second hub for the first one, where it died.
    assert_eq!(hears(1, &listed(Some(100), true, false)), (true, true));
    assert_eq!(hears(0, &listed(Some(10), false, false)), (true, false));
    for _ in 0..3 {
        assert_eq!(hears(1, &listed(Some(101), true, false)), (false, false), "an old word");
        assert_eq!(hears(0, &listed(Some(11), false, false)), (false, false));
    }
    // The first hub is gone; what the second one knows is older.
    assert!(!peer.node.link_mut().forget_report(0, true), "the second one remembers it");
    assert!(!peer.node.link_mut().reported_by(1, "hub", &listed(Some(102), true, false)));
    assert!(!peer.node.status(NOW).left);
}

#[test]
fn while_a_hub_below_is_away_a_node_that_it_expects_stays_missing_and_can_be_forgotten() {
    let mut peer = Peer::new();
    assert!(peer.node.link_mut().reported_by(0, "below", &listed(None, false, true)));
    assert_eq!(peer.node.status(NOW).presence(), Presence::Missing);
    assert!(peer.node.link().must_stay().is_some_and(|why| why.contains("of hub below")));
    peer.node.link_mut().source_is_away(0);
    assert_eq!(peer.node.status(NOW).presence(), Presence::Missing, "nobody has said otherwise");
    assert_eq!(peer.node.link().must_stay(), None, "the hub may be away for ever");
    assert!(!peer.node.link_mut().reported_by(0, "below", &listed(None, false, true)), "the same as before");
    assert!(peer.node.link().must_stay().is_some());
    assert!(
        peer.node.link_mut().forget_report(0, false),
        "its new list does not have the node: nobody knows of it"
    );
    assert_eq!(peer.node.link().must_stay(), None);
}

#[test]
fn a_node_that_the_other_hub_has_forgotten_can_be_forgotten_here() {
    let mut peer = Peer::new();
    assert!(peer.node.link_mut().reported_by(0, "below", &listed(Some(10), false, true)));
    assert!(peer.node.link().must_stay().is_some_and(|why| why.contains("below")));
    assert!(peer.node.link_mut().reported_by(0, "below", &listed(None, false, true)), "it is missing again");
    let status = peer.node.status(NOW);
    assert_eq!((status.presence(), status.heard), (Presence::Missing, None));
    assert!(peer.node.link().must_stay().is_some_and(|why| why.contains("the setting `nodes` of hub below")));
    // A hub that has started again knows of it from its own roster.
    let mut again = Peer::new();
    again.node.link_mut().remember(&Entry {
        node: NodeName::new("n1").expect("a good name"),
        state: State::Down,
        heard: 50,
        since: 50,
        address: String::new(),
        version: String::new(),
    });
    again.node.link_mut().reported_by(0, "below", &listed(None, false, true));
    assert_eq!(again.node.link().must_stay(), None);
}

#[test]
fn a_node_that_the_other_hub_was_made_to_forget_is_forgotten_here_unless_it_was_here_itself() {
    let told =
        |peer: &mut Peer| peer.node.link_mut().reported_by(0, "below", &listed(Some(10), false, false));
    let mut peer = Peer::new();
    told(&mut peer);
    assert!(peer.node.link_mut().forget_report(0, true));
    // The other hub may have started without what it knew.
    told(&mut peer);
    assert!(!peer.node.link_mut().forget_report(0, false));
    told(&mut peer);
    peer.node.link_mut().expect();
    assert!(!peer.node.link_mut().forget_report(0, true), "it is expected here");
    let mut peer = Peer::new();
    peer.connect(1);
    told(&mut peer);
    assert!(!peer.node.link_mut().forget_report(0, true), "it is up");
}

#[test]
fn a_refusal_is_shown_with_its_age_while_it_goes_on_and_then_what_else_is_wrong() {
    let mut peer = Peer::new();
    peer.connect(1);
    let problem =
        |peer: &Peer, seconds: u64| peer.node.status(Nanos(NOW.0 + seconds * 1_000_000_000)).problem;
    peer.node.link_mut().refused("refused 10.0.0.9: the name n1 is taken".into(), NOW);
    assert_eq!(problem(&peer, 7).as_deref(), Some("refused 10.0.0.9: the name n1 is taken (7 s ago)"));
    peer.node
        .link_mut()
        .refused("refused 10.0.0.9: the name n1 is taken".into(), Nanos(NOW.0 + 30_000_000_000));
    assert_eq!(problem(&peer, 140).as_deref(), Some("refused 10.0.0.9: the name n1 is taken (110 s ago)"));
    assert_eq!(problem(&peer, 150), None, "the other machine has given up, or has another name");
    peer.node.link_mut().refused("refused 10.0.0.9: the name n1 is taken".into(), NOW);
    peer.node.disconnect(1, Some("silent for too long".into()), NOW);
    assert_eq!(problem(&peer, 1).as_deref(), Some("silent for too long"));
}

#[test]
fn why_a_node_is_down_at_another_hub_is_shown_here_also_if_it_never_had_a_lane() {
    let mut peer = Peer::new();
    let down = NodeStatus { problem: Some("silent for too long".into()), ..listed(Some(10), false, false) };
    assert!(peer.node.link_mut().reported_by(0, "below", &down));
    assert_eq!(peer.node.status(NOW).problem.as_deref(), Some("at hub below: silent for too long"));
    assert!(peer.node.link_mut().reported_by(0, "below", &listed(None, false, true)));
    assert_eq!(peer.node.status(NOW).problem, None, "it was forgotten there");
}

#[test]
fn a_status_shows_the_lanes_that_run_each_with_the_fastest_rate_that_was_asked_for() {
    let mut peer = Peer::new();
    peer.connect(1);
    let (base, boost, left) = (peer.lane(3, BASE), peer.lane(4, "boost"), peer.lane(5, "local"));
    for id in [base, boost, left] {
        let lane = peer.node.lanes_mut().get_mut(id).expect("the lane");
        gets_rows(lane, 0, 1);
        lane.set_period(Nanos::SECOND);
    }
    let offered = peer.lane(6, "offered");
    for (hz, lane) in
        [(10, Some(boost)), (100, Some(boost)), (50, Some(boost)), (1_000, Some(offered)), (1_000, None)]
    {
        peer.subscribe(hz, lane);
    }
    let shown = |node: &Node| -> Vec<(String, Rate)> {
        node.status(NOW).lanes.into_iter().map(|lane| (lane.name, lane.asked)).collect()
    };
    let hz = |hz| Rate::from_hz(hz).expect("a rate");
    // The local lane is not wanted, and no row has come of the lane that is only offered.
    assert_eq!(shown(&peer.node), [("base".to_owned(), hz(1)), ("boost".to_owned(), hz(100))]);
    peer.node.lanes_mut().get_mut(boost).expect("the lane").alive = false;
    peer.node.lanes_mut().get_mut(base).expect("the lane").alive = false;
    assert_eq!(shown(&peer.node), [("base".to_owned(), hz(1))], "of one that has ended there is only a past");
}

/// A beat of a node whose clock is ahead of ours by `ahead`.
fn beat(ahead: i64) -> khz_link::Beat {
    khz_link::Beat { stamp: 0, round_trip: Some(Nanos(1)), offset: -ahead, retransmits: 0 }
}

#[test]
fn a_lane_is_as_old_as_its_newest_row_by_our_clock() {
    let (hour, wall) = (3_600 * Nanos::SECOND.0, clock::wall() as u64);
    // The node's clock may be ahead of ours or slow; a row from the future has age 0.
    for (gathered, offset, hours) in [
        (wall - 10 * hour, None, 10),
        (wall - 10 * hour, Some(5 * hour as i64), 15),
        (wall - 10 * hour, Some(-3 * hour as i64), 7),
        (wall + 100 * hour, None, 0),
    ] {
        let mut peer = Peer::new();
        peer.connect(1);
        let id = peer.lane(3, BASE);
        let lane = peer.node.lanes_mut().get_mut(id).expect("the lane");
        gets_rows_at(lane, 0, 2, |row| gathered - hour * (1 - row));
        lane.set_period(Nanos::SECOND);
        if let Some(offset) = offset {
            peer.node.link_mut().beat(&beat(offset), NOW);
        }
        let status = peer.node.status(NOW).lanes.pop().expect("the base lane");
        let age = status.age.expect("a row has come").0;
        // However busy the machine is, this takes less than an hour.
        assert!((hours * hour..(hours + 1) * hour).contains(&age), "{age} ns, not {hours} h");
        assert_eq!((status.rows, status.slots, status.lost, status.awaited, status.late), (2, 1, 0, 0, 0));
    }
}

#[test]
fn why_a_node_is_away_grows_older_while_it_stays_so() {
    let mut peer = Peer::new();
    peer.connect(1);
    let away = |since, back| Away { first: "hub1".into(), problem: "refused".into(), since, back };
    peer.node.link_mut().set_away(away(Some(Nanos(5)), Some(Nanos(30))), NOW);
    let told = |peer: &Peer, later: u64| peer.node.status(Nanos(NOW.0 + later)).away;
    assert_eq!(told(&peer, 0), Some(away(Some(Nanos(5)), Some(Nanos(30)))));
    assert_eq!(told(&peer, 10), Some(away(Some(Nanos(15)), Some(Nanos(20)))));
    assert_eq!(told(&peer, 31), Some(away(Some(Nanos(36)), Some(Nanos(0)))));
    peer.node.link_mut().set_away(away(None, None), NOW);
    assert_eq!(told(&peer, 10), Some(away(None, None)));
    peer.node.disconnect(1, None, NOW);
    assert_eq!(told(&peer, 10), None);
}
