//! What an agent's end sends of its lane, over a real ring: the hash of its schema, and how many rows were sent and lost.

mod identity;
mod one_lane;
mod ring_lane;
mod welcome;

use std::sync::Arc;

use identity::identity;
use khz_block::Encoder;
use khz_link::limits::FRAME_MAX;
use khz_link::texts::{ReadFrame, TextGiven, Why};
use khz_link::{AgentEnd, Frame, Want, frame, put};
use khz_model::{Nanos, Stamp};
use khz_ring::{Label, Ring, Writer};
use one_lane::OneLane;
use ring::digest::{SHA256, digest};
use ring_lane::RingLane;
use welcome::welcome;

/// An agent with one lane, and a hub that takes everything.
struct Agent {
    end: AgentEnd<RingLane>,
    lanes: OneLane,
    writer: Writer,
    encoder: Encoder,
    /// Slots of a row, each of ten bytes.
    slots: usize,
    now: Nanos,
    /// The bytes that it has sent and the hub has not read.
    out: Vec<u8>,
    /// At each Beat, how many answers might wait.
    may_wait: Vec<usize>,
}

impl Agent {
    fn new(ring_bytes: u64, schema: &[u8]) -> Self {
        let (node, lane) = ("n1".to_owned(), "base".to_owned());
        let label = Label { node, lane, number: 1, machine: [1; 16], boot: [2; 16], epoch: 9, created: 0 };
        let Ring { mut writer, reader, .. } = Ring::anonymous(ring_bytes, label).expect("a ring");
        writer.extend_schema(schema).expect("room for a schema");
        let encoder = Encoder::new(1, writer.generation(), Nanos::SECOND);
        let now = Nanos::from_secs(100);
        let mut agent = Agent {
            end: AgentEnd::new(Arc::new(identity()), now),
            lanes: OneLane::new(reader, Nanos::SECOND),
            writer,
            encoder,
            slots: 100,
            now,
            out: Vec::new(),
            may_wait: Vec::new(),
        };
        agent.gets(welcome);
        agent
    }

    fn gets(&mut self, say: impl FnOnce(&mut Vec<u8>)) {
        let mut words = Vec::new();
        say(&mut words);
        let wall = self.now.0 as i64;
        self.end.receive(&words, self.now, wall, &mut self.lanes, &mut self.out).expect("a hub's words");
    }

    /// Writes rows, a second apart, in blocks that end by themselves.
    fn rows(&mut self, count: u64) {
        for _ in 0..count {
            self.now = Nanos(self.now.0 + Nanos::SECOND.0);
            let (stamp, step, mut row) =
                (Stamp { boot: self.now, real_offset: 0 }, self.encoder.rows(), Vec::new());
            let reading = |slot: usize| (0, step.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ slot as u64);
            if self.encoder.wants_new_block(stamp)
                && let Some(header) = self.encoder.close()
            {
                self.writer.close(&header);
            }
            if self.encoder.rows_open() == 0 {
                self.encoder.key_row(stamp, self.slots, reading, &mut row);
                assert!(self.writer.begin(&row));
            } else {
                self.encoder.delta_row(stamp, 0..self.slots, reading, &mut row);
                assert!(self.writer.append(&row));
            }
        }
    }

    /// Polls it until everything is sent to a hub that answers every Beat at once; passes each frame to `take`.
    fn says(&mut self, mut take: impl FnMut(&Frame<'_>)) {
        let mut quiet = 0;
        // Nothing but Beats for seconds: there is nothing left to send.
        while quiet < 5 {
            let wall = self.now.0 as i64;
            self.end.poll(self.now, wall, &mut self.lanes, &mut self.out).expect("a hub that answers");
            let said = std::mem::take(&mut self.out);
            let (mut at, mut answers, mut is_news) = (0, Vec::new(), false);
            while let Some(found) = frame::split(&said[at..], FRAME_MAX).expect("whole frames") {
                let frame = Frame::decode(found.kind, found.body).expect("a frame");
                match &frame {
                    Frame::Beat(beat) => {
                        self.may_wait.push(self.end.answers_may_wait().0);
                        put::beaten(&mut answers, beat.stamp, beat.stamp, beat.stamp, |_| {});
                    }
                    _ => is_news = true,
                }
                take(&frame);
                at += found.length;
            }
            self.gets(|out| out.extend(answers));
            quiet = if is_news { 0 } else { quiet + 1 };
            self.now = self.end.next_wake().max(self.now);
        }
    }

    fn is_wanted(&mut self, from_row: u64) {
        self.gets(|out| Want { epoch: 9, from_row, span: Nanos(u64::MAX), ..Want::default() }.put(1, out));
    }
}

#[test]
fn an_offer_has_the_hash_of_the_whole_schema_however_long_that_is() {
    const PIECE: usize = khz_link::limits::PIECE;
    for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5] {
        let schema: Vec<u8> = (0..length).map(|at| (at * 31 % 251) as u8).collect();
        let mut agent = Agent::new(1 << 20, &schema);
        let mut offered = None;
        agent.says(|frame| {
            if let Frame::Lane(offer) = frame {
                offered = Some((offer.schema_bytes, offer.schema_hash));
            }
        });
        let expected = <[u8; 16]>::try_from(&digest(&SHA256, &schema).as_ref()[..16]).expect("sixteen bytes");
        assert_eq!(offered, Some((length as u64, expected)), "{length} bytes");
    }
}

#[test]
fn what_was_sent_and_lost_is_counted_also_of_a_lane_that_was_left() {
    let mut agent = Agent::new(1 << 17, &[1; 100]);
    let (mut told_lost, mut next) = (0, 0);
    agent.says(|_| {});
    for turn in 1..=3 {
        agent.rows(30);
        agent.is_wanted(next);
        agent.says(|_| {});
        // More than the ring holds, while the hub does not read.
        agent.rows(1_000);
        let before = agent.end.counts();
        assert_eq!(before.overtaken, turn - 1);
        agent.says(|frame| {
            if let Frame::Lost { from, to, .. } = frame {
                told_lost += to - from;
            }
        });
        let counts = agent.end.counts();
        assert_eq!(counts.overtaken, turn, "it was overtaken once in turn {turn}");
        assert!(counts.lost > before.lost + 500, "{} and {}", counts.lost, before.lost);
        assert_eq!(counts.lost, told_lost);
        next = agent.encoder.rows();
        if turn == 1 {
            let open = u64::from(agent.encoder.rows_open());
            assert_eq!(
                counts.rows + counts.lost,
                next - open,
                "each row of a block that has ended is sent or lost"
            );
        }
        agent.gets(|out| put::leave(out, 1));
        let left = agent.end.counts();
        assert_eq!((left.rows, left.lost, left.overtaken), (counts.rows, counts.lost, counts.overtaken));
    }
}

#[test]
fn answers_to_beats_may_wait_but_while_they_pace_what_is_said_of_the_past() {
    let mut agent = Agent::new(1 << 24, &[1; 100]);
    agent.slots = 1_000;
    // The first of them tell the clocks' distance.
    agent.says(|_| {});
    agent.may_wait.clear();
    agent.says(|_| {});
    assert!(
        agent.may_wait.len() >= 5 && agent.may_wait.iter().all(|&answers| answers == 1),
        "{:?}",
        agent.may_wait
    );
    // Some fifteen megabytes, of which four go in a second.
    agent.rows(1_500);
    agent.may_wait.clear();
    agent.is_wanted(0);
    let mut past = 0;
    agent.says(|frame| past += usize::from(matches!(frame, Frame::Past { .. })));
    assert!(past > 10, "{past} pieces of the past");
    let paced = agent.may_wait.iter().filter(|&&answers| answers == 0).count();
    assert!(paced >= 2 && agent.may_wait.ends_with(&[1; 3]), "{:?}", agent.may_wait);
}

#[test]
fn a_node_without_kernel_texts_refuses_each_wish_at_once() {
    let mut agent = Agent::new(1 << 16, &[1; 100]);
    agent.gets(|out| ReadFrame { number: 3, node: "", period: Nanos::SECOND, path: "stat" }.put(out));
    let mut why = Vec::new();
    agent.says(|frame| {
        if let Frame::NoText(none) = frame {
            why.push((none.number, none.why));
        }
    });
    assert_eq!(why, [(3, Why::NotServed)]);
    // It does not want it: what is asked of it now is not read.
    let mut given = Vec::new();
    agent.gets(|out| put::text_now(out, 3, 7));
    agent.says(|frame| {
        if let Frame::TextGiven(answer) = frame {
            given.push(*answer);
        }
    });
    assert_eq!(given, [TextGiven { number: 3, ask: 7, is_read: false }]);
}
