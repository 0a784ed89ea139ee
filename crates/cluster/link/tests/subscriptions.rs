//! How many Interests and Reads an agent takes from a hub at a time, each until the hub ends it or the connection ends.

mod identity;
mod ring_lane;
mod welcome;

use std::sync::Arc;

use identity::identity;
use khz_link::limits::{FRAME_MAX, INTERESTS_MAX, TEXTS_MAX};
use khz_link::texts::{ReadFrame, Why};
use khz_link::{AgentEnd, Answer, Ask, ChannelFrame, Frame, InterestFrame, Lanes, frame, put};
use khz_model::Nanos;
use ring_lane::RingLane;
use welcome::welcome;

/// A node without lanes that writes down what it is asked.
#[derive(Default)]
struct Asked(Vec<String>);

impl Lanes for Asked {
    type Lane = RingLane;
    fn revision(&self) -> u64 {
        1
    }
    fn list(&self, _: &mut dyn FnMut(RingLane)) {}
    fn ask(&mut self, interest: &InterestFrame<'_>) {
        let channel = interest.channel.map(|channel| format!(" {} {:?}", channel.name, channel.handler));
        self.0.push(format!("ask {}{}", interest.number, channel.unwrap_or_default()));
    }
    fn dismiss(&mut self, number: u32) {
        self.0.push(format!("dismiss {number}"));
    }
    fn now(&mut self, interest: u32, ask: u32) {
        self.0.push(format!("now {interest} {ask}"));
    }
    fn has_texts(&self) -> bool {
        true
    }
    fn read(&mut self, wish: &ReadFrame<'_>) {
        self.0.push(format!("read {} {}", wish.number, wish.path));
    }
    fn text_now(&mut self, number: u32, ask: u32) {
        self.0.push(format!("text now {number} {ask}"));
    }
    fn unread(&mut self, number: u32) {
        self.0.push(format!("unread {number}"));
    }
    fn answer(&mut self) -> Option<Answer> {
        None
    }
}

struct Agent {
    end: AgentEnd<RingLane>,
    asked: Asked,
}

const NOW: Nanos = Nanos::from_secs(100);

impl Agent {
    fn new() -> Self {
        let mut agent = Agent { end: AgentEnd::new(Arc::new(identity()), NOW), asked: Asked::default() };
        agent.gets(welcome);
        agent
    }

    /// The calls of the node because of these frames, and the refusals that are sent at once.
    fn gets(&mut self, say: impl FnOnce(&mut Vec<u8>)) -> (Vec<String>, Vec<String>) {
        let (mut words, mut out, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        say(&mut words);
        self.end.receive(&words, NOW, 0, &mut self.asked, &mut out).expect("a hub's words");
        let mut at = 0;
        while let Some(found) = frame::split(&out[at..], FRAME_MAX).expect("whole frames") {
            match Frame::decode(found.kind, found.body).expect("a frame") {
                Frame::Told(told) => refused.push(format!("told {} {}", told.interest, told.granted)),
                Frame::NoText(none) => {
                    refused.push(format!("no text {} {}", none.number, none.why == Why::TooMany))
                }
                Frame::TextGiven(given) => refused.push(format!("given {} {}", given.number, given.is_read)),
                _ => {}
            }
            at += found.length;
        }
        (std::mem::take(&mut self.asked.0), refused)
    }
}

fn interest(out: &mut Vec<u8>, number: u32) {
    let patterns = &["cpu.*"];
    Ask { number, period: Nanos::SECOND, patterns, ..Ask::default() }.put(out);
}

fn read(out: &mut Vec<u8>, number: u32, path: &str) {
    ReadFrame { number, node: "", period: Nanos::SECOND, path }.put(out);
}

fn none() -> Vec<String> {
    Vec::new()
}

#[test]
fn an_agent_answers_a_limited_number_of_interests_and_one_that_ends_makes_room() {
    let mut agent = Agent::new();
    let most = INTERESTS_MAX as u32;
    for number in 1..=most {
        assert_eq!(agent.gets(|out| interest(out, number)), (vec![format!("ask {number}")], none()));
    }
    let one_more = most + 1;
    assert_eq!(agent.gets(|out| interest(out, one_more)), (none(), vec![format!("told {one_more} false")]));
    assert_eq!(agent.gets(|out| put::now(out, one_more, 5)), (none(), none()), "it was refused");
    assert_eq!(agent.gets(|out| put::now(out, 7, 5)).0, ["now 7 5"]);
    // The same number again replaces the Interest.
    assert_eq!(agent.gets(|out| interest(out, 7)).0, ["dismiss 7", "ask 7"]);
    let with_channel = |out: &mut Vec<u8>, number| {
        let (patterns, channel) = (&["cpu.*"], Some(ChannelFrame { name: "hot", handler: &[8, 9] }));
        Ask { number, period: Nanos::SECOND, channel, patterns, ..Ask::default() }.put(out);
    };
    assert_eq!(agent.gets(|out| with_channel(out, 7)).0, ["dismiss 7", "ask 7 hot [8, 9]"]);
    let refused = vec![format!("told {one_more} false")];
    assert_eq!(agent.gets(|out| with_channel(out, one_more)), (none(), refused), "they count together");
    assert_eq!(agent.gets(|out| put::dismiss(out, 7)).0, ["dismiss 7"]);
    assert_eq!(agent.gets(|out| put::dismiss(out, 7)), (none(), none()), "it was taken back");
    assert_eq!(agent.gets(|out| put::now(out, 7, 6)), (none(), none()));
    assert_eq!(agent.gets(|out| interest(out, one_more)).0, [format!("ask {one_more}")]);
    agent.end.close(&mut agent.asked);
    assert_eq!(agent.asked.0.len(), INTERESTS_MAX, "when the connection is over nobody is interested");
    assert!(agent.asked.0.contains(&format!("dismiss {one_more}")));
}

#[test]
fn an_agent_serves_a_limited_number_of_kernel_texts_and_one_that_ends_makes_room() {
    let mut agent = Agent::new();
    let most = TEXTS_MAX as u32;
    for number in 1..=most {
        assert_eq!(
            agent.gets(|out| read(out, number, "stat")),
            (vec![format!("read {number} stat")], none())
        );
    }
    let one_more = most + 1;
    assert_eq!(
        agent.gets(|out| read(out, one_more, "stat")),
        (none(), vec![format!("no text {one_more} true")])
    );
    assert_eq!(agent.gets(|out| read(out, 3, "meminfo")).0, ["read 3 meminfo"], "at another pace");
    assert_eq!(agent.gets(|out| put::text_now(out, 3, 9)), (vec!["text now 3 9".to_owned()], none()));
    assert_eq!(agent.gets(|out| put::text_now(out, one_more, 9)).1, [format!("given {one_more} false")]);
    assert_eq!(agent.gets(|out| put::unread(out, 3)).0, ["unread 3"]);
    assert_eq!(agent.gets(|out| put::unread(out, 3)), (none(), none()));
    assert_eq!(agent.gets(|out| read(out, one_more, "stat")).0, [format!("read {one_more} stat")]);
    agent.end.close(&mut agent.asked);
    assert_eq!(agent.asked.0.len(), TEXTS_MAX);
}
