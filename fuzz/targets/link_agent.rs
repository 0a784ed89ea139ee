//! An agent's end that hears anything from its hub: it sends or ends the connection with a reason, and what waits to
//! be sent stays within its limit, however much is wanted.

#![no_main]

use std::sync::Arc;

use khz_block::Encoder;
use khz_link::limits::{BLOCK_MAX, OUT_MAX};
use khz_link::texts::ReadFrame;
use khz_link::{
    AgentEnd, Answer, Greeting, Identity, InterestFrame, Lane, Lanes, Overtaken, Role, Welcome,
};
use khz_model::{Nanos, Stamp};

/// A ring that never wraps.
#[derive(Clone)]
struct Flat {
    bytes: Arc<Vec<u8>>,
    newest: u64,
}

impl Lane for Flat {
    fn id(&self) -> u64 {
        1
    }
    fn name(&self) -> &str {
        "base"
    }
    fn epoch(&self) -> u64 {
        9
    }
    fn generation(&self) -> u32 {
        1
    }
    fn period(&self) -> Nanos {
        Nanos::from_millis(10)
    }
    fn head(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn oldest(&self) -> u64 {
        0
    }
    fn newest(&self) -> u64 {
        self.newest
    }
    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        let rest = self.bytes.get(from as usize..).ok_or(Overtaken)?;
        let rest = &rest[..rest.len().min(most)];
        out.extend_from_slice(rest);
        Ok(rest.len())
    }
    fn schema_bytes(&self, generation: u32) -> Option<u64> {
        (generation == 1).then_some(100)
    }
    fn schema(&self, _: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize> {
        let length = 100u64.checked_sub(from)?.min(most as u64) as usize;
        out.resize(out.len() + length, 7);
        Some(length)
    }
}

struct Node {
    lane: Flat,
    answers: Vec<Answer>,
    interests: usize,
    reads: std::collections::BTreeSet<u32>,
}

impl Lanes for Node {
    type Lane = Flat;
    fn revision(&self) -> u64 {
        1
    }
    fn list(&self, each: &mut dyn FnMut(Flat)) {
        each(self.lane.clone());
    }
    fn ask(&mut self, ask: &InterestFrame<'_>) {
        self.interests += 1;
        assert!(self.interests <= khz_link::limits::INTERESTS_MAX);
        let lane = ask.number.is_multiple_of(2).then_some(1);
        self.answers.push(Answer { interest: ask.number, lane, period: ask.period, text: "no".into() });
    }
    fn dismiss(&mut self, _: u32) {
        self.interests -= 1;
    }
    fn has_texts(&self) -> bool {
        true
    }
    fn read(&mut self, wish: &ReadFrame<'_>) {
        self.reads.insert(wish.number);
        assert!(self.reads.len() <= khz_link::limits::TEXTS_MAX);
    }
    fn unread(&mut self, number: u32) {
        assert!(self.reads.remove(&number));
    }
    fn answer(&mut self) -> Option<Answer> {
        self.answers.pop()
    }
}

/// Forty blocks of ten rows, the last one open.
fn ring() -> Flat {
    let (mut bytes, mut newest) = (Vec::new(), 0usize);
    let mut encoder = Encoder::new(1, 1, Nanos::from_millis(10));
    for row in 0..400u64 {
        let stamp = Stamp { boot: Nanos(row * 10_000_000), real_offset: 0 };
        if row % 10 == 0 {
            if let Some(header) = encoder.close() {
                bytes[newest..newest + khz_block::HEADER_BYTES].copy_from_slice(&header.to_bytes());
            }
            newest = bytes.len();
            encoder.key_row(stamp, 100, |slot| (0, row << slot.min(40)), &mut bytes);
        } else {
            encoder.delta_row(stamp, 0..100, |slot| (0, row << slot.min(40)), &mut bytes);
        }
    }
    Flat { bytes: Arc::new(bytes), newest: newest as u64 }
}

fn identity() -> Arc<Identity> {
    Arc::new(Identity {
        role: Role::Node,
        name: "n1".into(),
        machine: [1; 16],
        boot: [2; 16],
        started: 1,
        start_nonce: 1,
        program: "fuzz".into(),
        prove: None,
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static RING: std::sync::OnceLock<Flat> = std::sync::OnceLock::new();
    let mut node = Node { lane: RING.get_or_init(ring).clone(), answers: Vec::new(), interests: 0, reads: Default::default() };
    let (mut now, mut out) = (Nanos::from_secs(5), Vec::new());
    let mut end = AgentEnd::new(identity(), now);
    let Some((&first, mut rest)) = bytes.split_first() else { return };
    if first % 4 != 0 {
        let mut words = Vec::new();
        Greeting { lowest: 1, highest: 1, nonce: [0; 32], identity: [0; 16], name: "hub", sources: &[] }.put(&mut words);
        Welcome { version: 1, silence: Nanos::SECOND, abilities: 0 }.put(&mut words);
        end.receive(&words, now, 0, &mut node, &mut out).expect("a good hub");
    }
    // The first byte of each piece is its length, and how long it took to come.
    while let Some((&length, pieces)) = rest.split_first() {
        let (piece, later) = pieces.split_at(pieces.len().min(1 + usize::from(length)));
        rest = later;
        now.0 += u64::from(length) * 10_000_000;
        let wall = (now.0 as i64).wrapping_mul(i64::from(first));
        let heard = end.receive(piece, now, wall, &mut node, &mut out);
        if heard.and_then(|()| end.poll(now, wall, &mut node, &mut out)).is_err() {
            break;
        }
        assert!(out.len() <= OUT_MAX + BLOCK_MAX / 64, "{} bytes wait", out.len());
        if length % 2 == 0 {
            out.clear();
        }
        assert!(end.next_wake() > Nanos(0));
        let _ = end.counts();
    }
    end.close(&mut node);
    assert_eq!((node.interests, node.reads.len()), (0, 0));
});
