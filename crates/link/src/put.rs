//! Says a message: appends it as one frame to what waits to be sent. The other half of [`crate::frame`].

use khz_model::Nanos;
use khz_model::name::{INSTANCE_MAX, NODE_NAME_MAX};
use khz_model::pattern::PATTERN_MAX;

use crate::frame::{LENGTH_BYTES, kind};
use crate::limits::{ACKS_MAX, HAVE_MAX, HUB_NAME_MAX, PATTERNS_MAX, PROGRAM_MAX, TEXT_MAX};
use crate::message::*;
use crate::wire::{put_text, put_varint};

/// A frame under construction at the end of a buffer; [`Open::close`] fills in its length. What is between may be
/// written straight into the buffer.
#[derive(Debug)]
#[must_use]
pub struct Open {
    start: usize,
}

/// Begins a frame.
pub fn open(out: &mut Vec<u8>, kind: u8) -> Open {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    out.push(kind);
    Open { start }
}

/// Begins a frame whose body begins with a lane's number.
pub fn open_lane(out: &mut Vec<u8>, kind: u8, lane: u32) -> Open {
    let open = open(out, kind);
    put_varint(out, u64::from(lane));
    open
}

impl Open {
    /// Ends the frame.
    pub fn close(self, out: &mut [u8]) {
        let length = out.len() - self.start - LENGTH_BYTES;
        out[self.start..self.start + LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    }

    /// Takes the frame back.
    pub fn cancel(self, out: &mut Vec<u8>) {
        out.truncate(self.start);
    }
}

impl Greeting<'_> {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let frame = open(out, kind::GREETING);
        out.extend_from_slice(b"khzL");
        out.extend_from_slice(&[self.lowest, self.highest]);
        out.extend_from_slice(&self.nonce);
        out.extend_from_slice(&self.identity);
        put_text(out, self.name, HUB_NAME_MAX);
        frame.close(out);
    }
}

impl Welcome {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let frame = open(out, kind::WELCOME);
        out.push(self.version);
        put_varint(out, self.silence.0 / 1_000_000);
        frame.close(out);
    }
}

/// Appends a Refuse.
pub fn refuse(out: &mut Vec<u8>, reason: Reason, text: &str) {
    let frame = open(out, kind::REFUSE);
    out.push(reason.byte());
    put_text(out, text, TEXT_MAX);
    frame.close(out);
}

impl Want {
    /// Appends it for a lane. Ranges beyond [`HAVE_MAX`] are left out: their rows come again and are dropped.
    pub fn put(&self, lane: u32, out: &mut Vec<u8>) {
        let frame = open_lane(out, kind::WANT, lane);
        put_u64(out, self.epoch);
        put_u64(out, self.from_row);
        put_u64(out, self.span.0);
        put_varint(out, self.schema_bytes);
        out.push(u8::from(self.prompt));
        let have = &self.have[..self.have.len().min(HAVE_MAX)];
        put_varint(out, have.len() as u64);
        for &(from, to) in have {
            put_u64(out, from);
            put_u64(out, to);
        }
        frame.close(out);
    }
}

/// Appends a Leave.
pub fn leave(out: &mut Vec<u8>, lane: u32) {
    open_lane(out, kind::LEAVE, lane).close(out);
}

/// An interest to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask<'a, P> {
    /// The asker's number for it, from 1.
    pub number: u32,
    /// Wanted period.
    pub period: Nanos,
    /// Not shared with a faster lane.
    pub exact: bool,
    /// Every row at once.
    pub prompt: bool,
    /// Patterns, at most [`PATTERNS_MAX`].
    pub patterns: &'a [P],
}

impl<P: AsRef<str>> Ask<'_, P> {
    /// Appends it as an Interest.
    pub fn put(&self, out: &mut Vec<u8>) {
        let frame = open_lane(out, kind::INTEREST, self.number);
        put_u64(out, self.period.0);
        out.push(u8::from(self.exact) | u8::from(self.prompt) << 1);
        let patterns = &self.patterns[..self.patterns.len().min(PATTERNS_MAX)];
        put_varint(out, patterns.len() as u64);
        for pattern in patterns {
            put_text(out, pattern.as_ref(), PATTERN_MAX);
        }
        frame.close(out);
    }
}

/// Appends a Dismiss.
pub fn dismiss(out: &mut Vec<u8>, number: u32) {
    open_lane(out, kind::DISMISS, number).close(out);
}

/// The lanes of a Beaten, written straight into its frame.
#[derive(Debug)]
pub struct Acks<'a> {
    out: &'a mut Vec<u8>,
    count: u16,
}

impl Acks<'_> {
    /// Adds a lane; those beyond [`ACKS_MAX`] are left out.
    pub fn push(&mut self, ack: Ack) {
        if usize::from(self.count) == ACKS_MAX {
            return;
        }
        put_varint(self.out, u64::from(ack.lane));
        put_u64(self.out, ack.received);
        put_u64(self.out, ack.stored);
        self.count += 1;
    }
}

/// Appends a Beaten; `lanes` adds what was received.
pub fn beaten(
    out: &mut Vec<u8>,
    stamp: i64,
    received: i64,
    answered: i64,
    lanes: impl FnOnce(&mut Acks<'_>),
) {
    let frame = open(out, kind::BEATEN);
    put_i64(out, stamp);
    put_i64(out, received);
    put_i64(out, answered);
    let count_at = out.len();
    out.extend_from_slice(&[0; 2]);
    let mut acks = Acks { out, count: 0 };
    lanes(&mut acks);
    let count = acks.count;
    out[count_at..count_at + 2].copy_from_slice(&count.to_le_bytes());
    frame.close(out);
}

impl Hello<'_> {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let frame = open(out, kind::HELLO);
        out.extend_from_slice(b"khzL");
        out.extend_from_slice(&[self.version, self.role.byte()]);
        put_text(out, self.name, NODE_NAME_MAX);
        out.extend_from_slice(&self.machine);
        out.extend_from_slice(&self.boot);
        put_i64(out, self.started);
        put_u64(out, self.start_nonce);
        put_text(out, self.program, PROGRAM_MAX);
        out.push(u8::from(self.proof.is_some()));
        out.extend_from_slice(self.proof.as_ref().map_or(&[], |proof| proof.as_slice()));
        frame.close(out);
    }
}

impl LaneOffer<'_> {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let frame = open_lane(out, kind::LANE, self.lane);
        put_text(out, self.node, NODE_NAME_MAX);
        put_text(out, self.name, INSTANCE_MAX);
        put_u64(out, self.epoch);
        out.extend_from_slice(&self.generation.to_le_bytes());
        put_u64(out, self.period.0);
        put_varint(out, u64::from(self.interest));
        put_u64(out, self.oldest_row);
        put_u64(out, self.next_row);
        put_varint(out, self.schema_bytes);
        out.extend_from_slice(&self.schema_hash);
        frame.close(out);
    }
}

/// Begins a Schema, to be followed by a piece of it.
pub fn open_schema(out: &mut Vec<u8>, lane: u32, generation: u32, offset: u64) -> Open {
    let frame = open_lane(out, kind::SCHEMA, lane);
    out.extend_from_slice(&generation.to_le_bytes());
    put_varint(out, offset);
    frame
}

/// Begins a Past, to be followed by a piece of a block.
pub fn open_past(out: &mut Vec<u8>, lane: u32, last: bool) -> Open {
    let frame = open_lane(out, kind::PAST, lane);
    out.push(u8::from(last));
    frame
}

impl End {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let frame = open_lane(out, kind::END, self.lane);
        for field in [self.rows, self.bytes, self.crc] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        frame.close(out);
    }
}

/// Appends a Lost: the rows from `from` up to `to`, without it.
pub fn lost(out: &mut Vec<u8>, lane: u32, from: u64, to: u64) {
    let frame = open_lane(out, kind::LOST, lane);
    put_u64(out, from);
    put_u64(out, to);
    frame.close(out);
}

/// Appends a Closed.
pub fn closed(out: &mut Vec<u8>, lane: u32) {
    open_lane(out, kind::CLOSED, lane).close(out);
}

impl Told<'_> {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let frame = open_lane(out, kind::TOLD, self.interest);
        out.push(u8::from(self.granted));
        put_u64(out, self.period.0);
        put_text(out, self.text, TEXT_MAX);
        put_varint(out, u64::from(self.lane));
        frame.close(out);
    }
}

impl Beat {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let frame = open(out, kind::BEAT);
        put_i64(out, self.stamp);
        put_u64(out, self.round_trip.map_or(u64::MAX, |ns| ns.0));
        put_i64(out, self.offset);
        put_varint(out, self.retransmits);
        frame.close(out);
    }
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, split};
    use crate::limits::FRAME_MAX;

    fn whole(bytes: &[u8]) -> Frame<'_> {
        let frame = split(bytes, FRAME_MAX).unwrap().unwrap();
        assert_eq!(frame.length, bytes.len());
        Frame::decode(frame.kind, frame.body).unwrap()
    }

    /// Cut anywhere, a body is refused (or was only cut in its free end); with more behind it, it reads the same.
    fn cuts_are_noticed(bytes: &[u8]) {
        let frame = split(bytes, FRAME_MAX).unwrap().unwrap();
        for end in 0..frame.body.len() {
            let _ = Frame::decode(frame.kind, &frame.body[..end]);
        }
        let longer = [frame.body, &[0xaa; 5]].concat();
        assert_eq!(Frame::decode(frame.kind, &longer), Frame::decode(frame.kind, frame.body));
    }

    #[test]
    fn every_message_reads_as_it_was_said() {
        let text = "kürzlich";
        let greeting = Greeting { lowest: 1, highest: 2, nonce: [3; 32], identity: [4; 16], name: text };
        let mut out = Vec::new();
        let mut check = |put: &dyn Fn(&mut Vec<u8>), expected: Frame<'_>| {
            out.clear();
            put(&mut out);
            assert_eq!(whole(&out), expected);
            if !matches!(expected, Frame::Rows { .. } | Frame::Schema(_) | Frame::Past { .. }) {
                cuts_are_noticed(&out);
            }
        };
        check(&|out| greeting.put(out), Frame::Greeting(greeting.clone()));
        let welcome = Welcome { version: 1, silence: Nanos::from_millis(2_500) };
        check(&|out| welcome.put(out), Frame::Welcome(welcome));
        check(&|out| refuse(out, Reason::Full, text), Frame::Refuse { reason: Reason::Full, text });
        for proof in [None, Some([8; 32])] {
            let (machine, boot) = ([1; 16], [2; 16]);
            let hello = Hello {
                version: 1,
                role: Role::Hub,
                name: "n1",
                machine,
                boot,
                started: -5,
                start_nonce: 6,
                program: "0.1.0",
                proof,
            };
            check(&|out| hello.put(out), Frame::Hello(hello.clone()));
        }
        let offer = LaneOffer {
            lane: 300,
            node: "n7",
            name: "base",
            epoch: u64::MAX,
            generation: 2,
            period: Nanos(9),
            interest: 4,
            oldest_row: 5,
            next_row: 6,
            schema_bytes: 7,
            schema_hash: [8; 16],
        };
        check(&|out| offer.put(out), Frame::Lane(offer.clone()));
        check(&|out| leave(out, 3), Frame::Leave { lane: 3 });
        check(&|out| dismiss(out, 3), Frame::Dismiss { number: 3 });
        check(&|out| closed(out, 3), Frame::Closed { lane: 3 });
        check(&|out| lost(out, 3, 4, 9), Frame::Lost { lane: 3, from: 4, to: 9 });
        let end = End { lane: 1, rows: 2, bytes: 3, crc: 4 };
        check(&|out| end.put(out), Frame::End(end));
        let told = Told { interest: 1, granted: true, period: Nanos(5), text, lane: 2 };
        check(&|out| told.put(out), Frame::Told(told.clone()));
        for round_trip in [None, Some(Nanos(5))] {
            let beat = Beat { stamp: -1, round_trip, offset: -7, retransmits: 300 };
            check(&|out| beat.put(out), Frame::Beat(beat));
        }
        let (lane, bytes) = (4, [1, 2, 3].as_slice());
        let piece = |out: &mut Vec<u8>, open: Open| {
            out.extend_from_slice(bytes);
            open.close(out);
        };
        let schema = SchemaPiece { lane, generation: 2, offset: 700, bytes };
        check(
            &|out| {
                let open = open_schema(out, lane, 2, 700);
                piece(out, open)
            },
            Frame::Schema(schema),
        );
        check(
            &|out| {
                let open = open_past(out, lane, true);
                piece(out, open)
            },
            Frame::Past { lane, last: true, bytes },
        );
        check(
            &|out| {
                let open = open_lane(out, kind::ROWS, lane);
                piece(out, open)
            },
            Frame::Rows { lane, bytes },
        );
    }

    #[test]
    fn lists_read_as_they_were_said() {
        let mut out = Vec::new();
        let want = Want {
            epoch: 1,
            from_row: 2,
            span: Nanos(3),
            schema_bytes: 4,
            prompt: true,
            have: vec![(5, 6), (8, 12)],
        };
        want.put(9, &mut out);
        let Frame::Want(said) = whole(&out) else { panic!() };
        assert_eq!((said.lane, said.to_want()), (9, want));
        cuts_are_noticed(&out);

        out.clear();
        Ask { number: 1, period: Nanos(2), exact: true, prompt: false, patterns: &["cpu.*", "n1:mem.*[*]"] }
            .put(&mut out);
        let Frame::Interest(said) = whole(&out) else { panic!() };
        assert_eq!(said.patterns().collect::<Vec<_>>(), ["cpu.*", "n1:mem.*[*]"]);
        assert_eq!((said.exact, said.prompt), (true, false));
        cuts_are_noticed(&out);

        out.clear();
        let acks = [Ack { lane: 1, received: 2, stored: 3 }, Ack { lane: 500, received: 4, stored: 5 }];
        beaten(&mut out, 1, 2, 3, |lanes| acks.iter().for_each(|ack| lanes.push(*ack)));
        let Frame::Beaten(said) = whole(&out) else { panic!() };
        assert_eq!(said.acks().collect::<Vec<_>>(), acks);
        cuts_are_noticed(&out);
    }

    #[test]
    fn lists_and_texts_that_are_too_long_are_cut_by_whoever_says_them() {
        let mut out = Vec::new();
        beaten(&mut out, 1, 2, 3, |lanes| {
            (0..5_000).for_each(|lane| lanes.push(Ack { lane, received: 0, stored: 0 }))
        });
        let Frame::Beaten(said) = whole(&out) else { panic!() };
        assert_eq!(said.acks().count(), ACKS_MAX);
        out.clear();
        refuse(&mut out, Reason::Full, &"x".repeat(10_000));
        let Frame::Refuse { text, .. } = whole(&out) else { panic!() };
        assert_eq!(text.len(), TEXT_MAX);
    }
}
