//! Encodes frames: Greeting, Hello, Welcome, Interest, Want and others. Appends each to the bytes that wait to be sent.
//! [`crate::frame`] decodes them.

use khz_model::Nanos;
use khz_model::name::{INSTANCE_MAX, NODE_NAME_MAX};
use khz_model::pattern::PATTERN_MAX;

use crate::channel::ChannelFrame;
use crate::frame::{LENGTH_BYTES, kind};
use crate::limits::{ACKS_MAX, HAVE_MAX, HUB_NAME_MAX, PATTERNS_MAX, PROGRAM_MAX, TEXT_MAX};
use crate::message::*;
use crate::wire::{put_text, put_varint};

/// A frame under construction at the end of a buffer. Its body is written straight into the buffer; [`Open::close`] fills in
/// its length.
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

    /// Removes the frame from the buffer.
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
        put_varint(out, (self.sources.len() / 16) as u64);
        out.extend_from_slice(self.sources);
        frame.close(out);
    }
}

impl Welcome {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let frame = open(out, kind::WELCOME);
        out.push(self.version);
        put_varint(out, self.silence.0 / 1_000_000);
        out.push(self.abilities);
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

/// An Interest or a Channel to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask<'a, P> {
    /// The sender's number for it, from 1.
    pub number: u32,
    /// The period that is requested.
    pub period: Nanos,
    /// The rows are not shared with a faster lane.
    pub exact: bool,
    /// Every row at once.
    pub prompt: bool,
    /// The past rows of the base lane, instead of rows to come.
    pub past: bool,
    /// The hub itself wants the rows, for its store or its rules. Only for a peer that knows this
    /// flag.
    pub own: bool,
    /// What nodes do with the rows before they send them. Only for a peer that knows channels.
    pub channel: Option<ChannelFrame<'a>>,
    /// Patterns, at most [`PATTERNS_MAX`].
    pub patterns: &'a [P],
}

impl<P: AsRef<str>> Ask<'_, P> {
    /// Appends it as an Interest, or as a Channel.
    pub fn put(&self, out: &mut Vec<u8>) {
        let kind = if self.channel.is_some() { kind::CHANNEL } else { kind::INTEREST };
        let frame = open_lane(out, kind, self.number);
        put_u64(out, self.period.0);
        let flags = [self.exact, self.prompt, self.past, self.own];
        out.push(flags.iter().rev().fold(0, |flags, &flag| flags << 1 | u8::from(flag)));
        let patterns = &self.patterns[..self.patterns.len().min(PATTERNS_MAX)];
        put_varint(out, patterns.len() as u64);
        for pattern in patterns {
            put_text(out, pattern.as_ref(), PATTERN_MAX);
        }
        if let Some(channel) = &self.channel {
            channel.put(out);
        }
        frame.close(out);
    }
}

/// Appends a Roster: begins or ends the list of nodes.
pub fn roster(out: &mut Vec<u8>, wanted: bool) {
    let frame = open(out, kind::ROSTER);
    out.push(u8::from(wanted));
    frame.close(out);
}

/// Appends a Dismiss.
pub fn dismiss(out: &mut Vec<u8>, number: u32) {
    open_lane(out, kind::DISMISS, number).close(out);
}

/// Appends an Unread: ends a Read.
pub fn unread(out: &mut Vec<u8>, number: u32) {
    open_lane(out, kind::UNREAD, number).close(out);
}

/// Appends a TextNow: the file of a Read is to be read now.
pub fn text_now(out: &mut Vec<u8>, number: u32, ask: u32) {
    let frame = open_lane(out, kind::TEXT_NOW, number);
    out.extend_from_slice(&ask.to_le_bytes());
    frame.close(out);
}

/// Appends a Now: requests rows of an on-demand Interest now.
pub fn now(out: &mut Vec<u8>, interest: u32, ask: u32) {
    let frame = open_lane(out, kind::NOW, interest);
    out.extend_from_slice(&ask.to_le_bytes());
    frame.close(out);
}

/// Appends an Again: requests the rows from `from` up to `to`, without it, again.
pub fn again(out: &mut Vec<u8>, lane: u32, from: u64, to: u64) {
    let frame = open_lane(out, kind::AGAIN, lane);
    put_u64(out, from);
    put_u64(out, to);
    frame.close(out);
}

/// Appends a Given: the rows that a Now requested came before it.
pub fn given(out: &mut Vec<u8>, lane: u32, ask: u32) {
    let frame = open_lane(out, kind::GIVEN, lane);
    out.extend_from_slice(&ask.to_le_bytes());
    frame.close(out);
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

/// Appends a Beaten; `lanes` adds the lanes with their received rows.
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
        out.push(self.abilities);
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
        if self.stands_in {
            out.push(STANDS_IN);
        }
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
        put_text(out, self.refused_by, NODE_NAME_MAX);
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
mod tests;
