//! Kernel texts between a node, a hub and its readers: one subscription at the node for all readers, differences for readers
//! that have the text before, and reasons if there is no text.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod fake;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fake::{Hub, Node, settings, until};
use khz_follow::{self as follow, Lane, Row, Subscriber};
use khz_link::driver::HubAddress;
use khz_link::texts::{NoText, PackedText, ReadFrame, TextGiven, TextPiece, TextSender, Why, pack};
use khz_link::{Frame, LaneOffer, Role};
use khz_model::{Nanos, NodeName, Stamp};

/// What a reader got for each of its subscriptions: texts, or why there is none.
type Texts = Arc<Mutex<BTreeMap<u32, Vec<Result<Vec<u8>, Why>>>>>;

/// The answers to requests to read a file now: subscription, request, whether it was read, and how many texts had come by then.
type Given = Arc<Mutex<Vec<(u32, u32, bool, usize)>>>;

#[derive(Default)]
struct Notes(Texts, Given);

impl follow::Reader for Notes {
    type Subscription = ();
    type Lane = ();

    fn offered(&mut self, _: &NodeName, _: &LaneOffer<'_>, (): &()) -> Option<()> {
        None
    }
    fn row(&mut self, _: &mut Lane<Self>, _: &Row<'_>) {}
    fn notice(&mut self, (): &(), _: bool, _: &str) {}
    fn text(&mut self, number: u32, text: &Arc<[u8]>, _: Stamp) {
        self.0.lock().unwrap().entry(number).or_default().push(Ok(text.to_vec()));
    }
    fn text_answered(&mut self, answer: TextGiven) {
        let TextGiven { number, ask, is_read } = answer;
        let texts = self.0.lock().unwrap().get(&number).map_or(0, Vec::len);
        self.1.lock().unwrap().push((number, ask, is_read, texts));
    }
    fn no_text(&mut self, none: &NoText<'_>) {
        self.0.lock().unwrap().entry(none.number).or_default().push(Err(none.why));
    }
}

/// A reader, and what it got.
struct Reader {
    subscriber: Subscriber<()>,
    texts: Texts,
    given: Given,
}

impl Reader {
    fn new(hub: &Hub) -> Self {
        let hubs = vec![HubAddress::Net { host: "127.0.0.1".into(), port: hub.address().port() }];
        let notes = Notes::default();
        let (texts, given) = (notes.0.clone(), notes.1.clone());
        Reader { subscriber: Subscriber::start(settings(hubs, Role::Reader), notes).unwrap(), texts, given }
    }

    fn read(&self, number: u32, node: &str, path: &str, hz: u64) {
        let period = Nanos(Nanos::SECOND.0 / hz);
        self.subscriber.link().subscribe_text(&ReadFrame { number, node, period, path });
    }

    /// The answer to a request: whether the file was read, and how many texts had come before.
    fn awaits_given(&self, number: u32, ask: u32) -> (bool, usize) {
        let find = || {
            let given = self.given.lock().unwrap();
            let found = given.iter().find(|given| (given.0, given.1) == (number, ask));
            found.map(|&(_, _, is_read, texts)| (is_read, texts))
        };
        until("the ask is answered", || find().is_some());
        find().unwrap()
    }

    /// All requests before this one have come to the hub: it refuses this one at once.
    fn awaits_all_before(&self, ask: u32) {
        self.read(100, "no body", "stat", 1);
        self.subscriber.link().read_text_now(100, ask);
        assert!(!self.awaits_given(100, ask).0);
    }

    fn last(&self, number: u32) -> Option<Result<Vec<u8>, Why>> {
        self.texts.lock().unwrap().get(&number)?.last().cloned()
    }

    fn awaits(&self, number: u32, expected: Result<&[u8], Why>) {
        let expected = expected.map(<[u8]>::to_vec);
        until("the reader has the answer", || self.last(number).as_ref() == Some(&expected));
    }
}

/// The next Read that comes to the node: number, path, period.
fn next_read(node: &mut Node) -> (u32, String, Nanos) {
    node.await_frame(|frame| match frame {
        Frame::Read(ReadFrame { number, path, period, .. }) => Some((*number, (*path).to_owned(), *period)),
        Frame::Unread { .. } => panic!("{frame:?} before a Read"),
        _ => None,
    })
}

/// The next Read, after any number of Unreads.
fn next_read_after_unreads(node: &mut Node) -> (u32, String, Nanos) {
    node.await_frame(|frame| match frame {
        Frame::Read(ReadFrame { number, path, period, .. }) => Some((*number, (*path).to_owned(), *period)),
        _ => None,
    })
}

/// The node sends a text. Returns the number of bytes.
fn say(node: &mut Node, number: u32, (version, text): (u32, &[u8]), (base, before): (u32, &[u8])) -> usize {
    let bytes = pack(text, before).unwrap().into();
    let stamp = Stamp { boot: Nanos(u64::from(version)), real_offset: 0 };
    let text = PackedText { version, base, stamp, length: text.len() as u32, bytes };
    let mut sender = TextSender::new(number, text);
    while sender.say(&mut node.out) {}
    let bytes = node.out.len();
    node.send();
    bytes
}

#[test]
fn a_node_is_asked_once_for_all_readers_at_the_pace_of_the_fastest_and_no_more_when_the_last_has_left() {
    let hub = Hub::new();
    let mut node = Node::join(hub.address(), "a");
    let (one, two) = (Reader::new(&hub), Reader::new(&hub));
    one.read(5, "a", "meminfo", 1);
    let (number, path, period) = next_read(&mut node);
    assert_eq!((path.as_str(), period), ("meminfo", Nanos::SECOND));
    say(&mut node, number, (1, b"first"), (0, b""));
    one.awaits(5, Ok(b"first"));

    two.read(9, "a", "meminfo", 10);
    two.awaits(9, Ok(b"first"));
    assert_eq!(
        next_read(&mut node),
        (number, "meminfo".into(), Nanos::from_millis(100)),
        "the same Read, faster"
    );
    say(&mut node, number, (2, b"second"), (1, b"first"));
    one.awaits(5, Ok(b"second"));
    two.awaits(9, Ok(b"second"));

    drop(two);
    assert_eq!(next_read(&mut node), (number, "meminfo".into(), Nanos::SECOND), "slower again");
    one.subscriber.link().unsubscribe_text(5);
    let gone = node.await_frame(|frame| match frame {
        Frame::Unread { number } => Some(*number),
        _ => None,
    });
    assert_eq!(gone, number);
    // A text that was under way belongs to no subscription, and does no harm.
    say(&mut node, number, (3, b"third"), (2, b"second"));
    node.beat();
    assert_eq!(hub.own("khz.hub.texts"), 2);
    assert_eq!(one.last(5), Some(Ok(b"second".to_vec())));
}

#[test]
fn changes_travel_as_differences_and_a_reader_who_comes_later_gets_the_whole() {
    let hub = Hub::new();
    let mut node = Node::join(hub.address(), "a");
    let first: String = (0..9_000).map(|n: u32| format!("{:x}\n", n.wrapping_mul(2_654_435_761))).collect();
    let texts: Vec<String> = (0..20).map(|n| format!("{first}{n}\n")).collect();
    let one = Reader::new(&hub);
    one.read(1, "a", "interrupts", 1);
    let (number, ..) = next_read(&mut node);
    let whole = say(&mut node, number, (1, texts[0].as_bytes()), (0, b""));
    one.awaits(1, Ok(texts[0].as_bytes()));
    let bytes = |reader: &Reader| {
        reader.subscriber.link().counters().bytes_received.load(std::sync::atomic::Ordering::Relaxed) as usize
    };
    let before = bytes(&one);
    for (version, pair) in texts.windows(2).enumerate() {
        let version = version as u32 + 1;
        let (before, after) = (pair[0].as_bytes(), pair[1].as_bytes());
        let differing = say(&mut node, number, (version + 1, after), (version, before));
        assert!(differing * 50 < whole, "{differing} of {whole} bytes");
        one.awaits(1, Ok(after));
    }
    assert!(bytes(&one) - before < whole, "the hub has passed on differences");
    let late = Reader::new(&hub);
    late.read(1, "a", "interrupts", 1);
    late.awaits(1, Ok(texts[19].as_bytes()));
}

#[test]
fn a_node_that_comes_back_gets_the_reads_again_and_texts_continue() {
    let hub = Hub::new();
    let mut node = Node::join(hub.address(), "a");
    let reader = Reader::new(&hub);
    reader.read(1, "a", "loadavg", 1);
    let (number, ..) = next_read(&mut node);
    say(&mut node, number, (1, b"before"), (0, b""));
    reader.awaits(1, Ok(b"before"));
    drop(node);
    let mut node = Node::connect(hub.address(), "a");
    node.started = 2_000;
    // The Read comes after the Welcome, with or without lanes.
    node.hello(None);
    let (number, path, _) = next_read(&mut node);
    assert_eq!(path, "loadavg");
    say(&mut node, number, (1, b"after"), (0, b""));
    reader.awaits(1, Ok(b"after"));
}

#[test]
fn a_read_of_a_forgotten_node_waits_for_it_to_come_back() {
    use khz_model::{Pattern, Query};
    let hub = Hub::new();
    let mut node = Node::join(hub.address(), "a");
    let reader = Reader::new(&hub);
    reader.read(1, "a", "loadavg", 1);
    let (number, ..) = next_read(&mut node);
    say(&mut node, number, (7, b"before"), (0, b""));
    reader.awaits(1, Ok(b"before"));
    drop(node);
    until("it is down", || hub.own("khz.hub.nodes_up") == 0);
    assert_eq!(hub.query.forget(&Pattern::new("a:*").unwrap()).unwrap().nodes.len(), 1);
    let mut node = Node::connect(hub.address(), "a");
    node.hello(None);
    let (number, path, _) = next_read(&mut node);
    assert_eq!(path, "loadavg");
    say(&mut node, number, (1, b"after"), (0, b""));
    reader.awaits(1, Ok(b"after"));
}

#[test]
fn a_read_of_a_node_that_has_not_come_yet_waits_for_it() {
    let hub = Hub::new();
    let reader = Reader::new(&hub);
    reader.read(1, "late", "loadavg", 1);
    until("the reader is there", || hub.own("khz.hub.connections") == 1);
    Node::join(hub.address(), "other").row(1, [1; 4]).beat();
    let mut node = Node::connect(hub.address(), "late");
    node.hello(None);
    let (number, path, _) = next_read(&mut node);
    assert_eq!(path, "loadavg");
    say(&mut node, number, (1, b"here"), (0, b""));
    reader.awaits(1, Ok(b"here"));
}

#[test]
fn a_file_of_100_mb_is_refused_with_a_reason_and_counted_and_the_node_goes_on() {
    let hub = Hub::new();
    let mut node = Node::join(hub.address(), "a");
    let reader = Reader::new(&hub);
    reader.read(1, "a", "huge", 1);
    let (number, ..) = next_read(&mut node);
    let stamp = Stamp::default();
    for at in 0..200 {
        let (version, base, length, packed) = (1, 0, 100 << 20, 100 << 20);
        let piece =
            TextPiece { number, version, base, stamp, length, packed, at: at * 9_000, bytes: &[7; 9_000] };
        piece.put(&mut node.out);
    }
    node.send();
    reader.awaits(1, Err(Why::TooLong));
    assert_eq!(hub.own("khz.hub.texts_refused"), 1);
    let stopped = node.await_frame(|frame| match frame {
        Frame::Unread { number } => Some(*number),
        _ => None,
    });
    assert_eq!(stopped, number, "it is not to go on");
    // A text that is packed against the dropped one does no harm.
    say(&mut node, number, (2, b"small now"), (1, b"huge"));
    node.row(2, [1, 2, 3, 4]).beat();
    // A reader that subscribes again begins again.
    reader.subscriber.link().unsubscribe_text(1);
    reader.read(2, "a", "huge", 1);
    let (number, ..) = next_read_after_unreads(&mut node);
    say(&mut node, number, (1, b"small now"), (0, b""));
    reader.awaits(2, Ok(b"small now"));
}

#[test]
fn pieces_and_packings_that_make_no_sense_end_the_nodes_connection_and_no_others() {
    let hub = Hub::new();
    let reader = Reader::new(&hub);
    let mut other = Node::join(hub.address(), "other");
    let nonsense =
        [("stat", 7, 0, &b"x"[..]), ("swaps", 0, 3, b"x"), ("uptime", 0, 0, b"this is no zstd frame")];
    for (path, base, at, bytes) in nonsense {
        let mut node = Node::join(hub.address(), "a");
        reader.read(1, "a", path, 1);
        // The Read before it may come once more, and its Unread.
        let number = loop {
            let (number, found, _) = next_read_after_unreads(&mut node);
            if found == path {
                break number;
            }
        };
        let (packed, stamp) = (at + bytes.len() as u32, Stamp::default());
        let piece = TextPiece { number, version: 8, base, stamp, length: 9, packed, at, bytes };
        piece.put(&mut node.out);
        node.send();
        assert_eq!(node.refusal().0, khz_link::Reason::Protocol, "{piece:?}");
        reader.subscriber.link().unsubscribe_text(1);
        until("it has left", || hub.own("khz.hub.connections") == 2);
    }
    other.row(1, [1; 4]).beat();
}

#[test]
fn an_old_peer_refuses_a_read_and_never_gets_frames_that_it_does_not_know() {
    let hub = Hub::new();
    let reader = Reader::new(&hub);
    let mut old = Node::connect(hub.address(), "old");
    old.abilities = 0;
    old.hello(None).offer(1, 0);
    reader.read(1, "old", "meminfo", 1);
    reader.awaits(1, Err(Why::NotServed));
    old.row(1, [1; 4]).beat();
    reader.read(2, "no body", "meminfo", 1);
    reader.awaits(2, Err(Why::Missing));
    for (number, path) in [(3, "../etc/passwd"), (4, "/etc/passwd"), (5, "a/../../b"), (6, "a\nb")] {
        reader.read(number, "old", path, 1);
        reader.awaits(number, Err(Why::NotAllowed));
    }
    reader.read(7, "old", "stat", 1_000);
    reader.awaits(7, Err(Why::NotAllowed));
    let mut node = Node::join(hub.address(), "a");
    reader.read(8, "a", "kcore", 1);
    let (number, ..) = next_read(&mut node);
    NoText { number, why: Why::NotAllowed, text: "no" }.put(&mut node.out);
    node.send();
    reader.awaits(8, Err(Why::NotAllowed));
}

#[test]
fn a_node_is_asked_for_so_many_files_and_one_too_many_is_told() {
    let hub = Hub::new();
    let mut node = Node::join(hub.address(), "a");
    let reader = Reader::new(&hub);
    let most = khz_link::limits::TEXTS_MAX as u32;
    for number in 1..=most + 1 {
        reader.read(number, "a", &format!("file{number}"), 1);
    }
    reader.awaits(most + 1, Err(Why::TooMany));
    let mut asked = std::collections::BTreeSet::new();
    while asked.len() < most as usize {
        asked.insert(next_read(&mut node).1);
    }
    assert!(!asked.contains(&format!("file{}", most + 1)));
}

/// The next TextNow that comes to the node: number, ask.
fn asked(node: &mut Node) -> (u32, u32) {
    node.await_frame(|frame| match frame {
        &Frame::TextNow { number, ask } => Some((number, ask)),
        _ => None,
    })
}

fn give(node: &mut Node, number: u32, ask: u32) {
    TextGiven { number, ask, is_read: true }.put(&mut node.out);
    node.send();
}

#[test]
fn a_node_is_asked_one_thing_at_a_time_and_all_who_ask_meanwhile_are_answered_by_the_next() {
    let hub = Hub::new();
    let mut node = Node::join(hub.address(), "a");
    let (one, two) = (Reader::new(&hub), Reader::new(&hub));
    one.read(5, "a", "stat", 1);
    one.subscriber.link().read_text_now(5, 70);
    let (number, ..) = next_read(&mut node);
    assert_eq!(asked(&mut node), (number, 1));
    say(&mut node, number, (1, b"first"), (0, b""));
    two.read(9, "a", "stat", 1);
    two.awaits(9, Ok(b"first"));
    for (reader, number, ask) in [(&one, 5, 71), (&two, 9, 3), (&two, 9, 4)] {
        reader.subscriber.link().read_text_now(number, ask);
        reader.awaits_all_before(ask);
    }
    assert_eq!(one.given.lock().unwrap().iter().filter(|given| given.0 == 5).count(), 0);
    give(&mut node, number, 1);
    assert_eq!(asked(&mut node), (number, 2), "one more for all who asked after the first was said");
    say(&mut node, number, (2, b"second"), (1, b"first"));
    give(&mut node, number, 2);
    assert_eq!(one.awaits_given(5, 71), (true, 2), "the text comes before the answer");
    assert_eq!(two.awaits_given(9, 4), (true, 2));
    assert_eq!(two.last(9), Some(Ok(b"second".to_vec())));
    // If the file is unchanged, the answer comes alone.
    two.subscriber.link().read_text_now(9, 5);
    assert_eq!(asked(&mut node), (number, 3), "and nothing was asked in between");
    give(&mut node, number, 3);
    assert_eq!(two.awaits_given(9, 5), (true, 2));
}

#[test]
fn an_ask_that_nobody_can_answer_is_answered_at_once() {
    let hub = Hub::new();
    let reader = Reader::new(&hub);
    let mut old = Node::connect(hub.address(), "old");
    old.abilities = khz_link::KNOWS_TEXTS;
    old.hello(None).offer(1, 0);
    reader.read(1, "old", "stat", 1);
    let (number, ..) = next_read(&mut old);
    say(&mut old, number, (1, b"as it was"), (0, b""));
    reader.awaits(1, Ok(b"as it was"));
    reader.subscriber.link().read_text_now(1, 1);
    assert_eq!(reader.awaits_given(1, 1), (false, 1), "an agent that does not know how");
    reader.read(2, "not here yet", "stat", 1);
    reader.read(3, "nothere", "stat", 1);
    reader.subscriber.link().read_text_now(3, 1);
    assert_eq!(reader.awaits_given(3, 1), (false, 0), "a node that has not come");
    let mut node = Node::join(hub.address(), "a");
    reader.read(4, "a", "stat", 1);
    reader.subscriber.link().read_text_now(4, 1);
    next_read(&mut node);
    asked(&mut node);
    drop(node);
    assert_eq!(reader.awaits_given(4, 1), (false, 0), "a node that has left without an answer");
    // The old one never got a frame that it does not know.
    old.row(1, [1; 4]).beat();
}
