//! The frames of kernel texts, as data and as bytes.

use khz_model::name::NODE_NAME_MAX;
use khz_model::{Nanos, Stamp};

use crate::frame::kind;
use crate::limits::{TEXT_MAX, TEXT_PATH_MAX};
use crate::put::{open, open_lane};
use crate::wire::{Body, Misfit, put_text, put_varint};

/// A subscription to a kernel file: its text comes now and whenever it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadFrame<'a> {
    /// The sender's number for it, from 1. The same number again changes its period.
    pub number: u32,
    /// The node whose file it is; empty: the receiver's own.
    pub node: &'a str,
    /// The time between two reads of the file.
    pub period: Nanos,
    /// The path below `/proc`, not yet checked; empty: the list of files that may be read.
    pub path: &'a str,
}

impl ReadFrame<'_> {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let frame = open_lane(out, kind::READ, self.number);
        put_text(out, self.node, NODE_NAME_MAX);
        out.extend_from_slice(&self.period.0.to_le_bytes());
        put_text(out, self.path, TEXT_PATH_MAX);
        frame.close(out);
    }
}

pub(crate) fn decode_read<'a>(body: &mut Body<'a>) -> Result<ReadFrame<'a>, Misfit> {
    Ok(ReadFrame {
        number: body.number()?,
        node: body.text(NODE_NAME_MAX)?,
        period: Nanos(body.u64()?),
        path: body.text(TEXT_PATH_MAX)?,
    })
}

/// A piece of a packed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPiece<'a> {
    /// The number of the Read.
    pub number: u32,
    /// Counts the texts of this Read, from 1.
    pub version: u32,
    /// The version that it is packed against; 0: none.
    pub base: u32,
    /// When the file was read.
    pub stamp: Stamp,
    /// Bytes of the text.
    pub length: u32,
    /// Bytes of the packed text.
    pub packed: u32,
    /// The offset of this piece in the packed text.
    pub at: u32,
    /// The piece.
    pub bytes: &'a [u8],
}

impl TextPiece<'_> {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let frame = open_lane(out, kind::TEXT, self.number);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.base.to_le_bytes());
        out.extend_from_slice(&self.stamp.boot.0.to_le_bytes());
        out.extend_from_slice(&self.stamp.real_offset.to_le_bytes());
        for field in [self.length, self.packed, self.at] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(self.bytes);
        frame.close(out);
    }
}

pub(crate) fn decode_text<'a>(body: &mut Body<'a>) -> Result<TextPiece<'a>, Misfit> {
    let number = body.number()?;
    let at_version = body.at();
    let (version, base) = (body.u32()?, body.u32()?);
    if version == 0 || version == base {
        return Err(Misfit { at: at_version, problem: "a text without a version of its own" });
    }
    let stamp = Stamp { boot: Nanos(body.u64()?), real_offset: body.i64()? };
    let (length, packed) = (body.u32()?, body.u32()?);
    let at_piece = body.at();
    let at = body.u32()?;
    let bytes = body.rest();
    if bytes.is_empty() || u64::from(at) + bytes.len() as u64 > u64::from(packed) {
        return Err(Misfit { at: at_piece, problem: "a piece that is no part of its text" });
    }
    Ok(TextPiece { number, version, base, stamp, length, packed, at, bytes })
}

/// Why there is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// The node does not serve this file.
    NotAllowed,
    /// There is no such file.
    Missing,
    /// It is larger than a text may be.
    TooLong,
    /// Reading it takes too long.
    Stuck,
    /// Reading it has failed.
    Failed,
    /// There are too many Reads.
    TooMany,
    /// The node, or a hub on the way, does not know kernel texts.
    NotServed,
    /// A reason that a newer version knows.
    Other(u8),
}

impl Why {
    pub(crate) const fn byte(self) -> u8 {
        match self {
            Why::NotAllowed => 1,
            Why::Missing => 2,
            Why::TooLong => 3,
            Why::Stuck => 4,
            Why::Failed => 5,
            Why::TooMany => 6,
            Why::NotServed => 7,
            Why::Other(byte) => byte,
        }
    }

    pub(crate) const fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Why::NotAllowed,
            2 => Why::Missing,
            3 => Why::TooLong,
            4 => Why::Stuck,
            5 => Why::Failed,
            6 => Why::TooMany,
            7 => Why::NotServed,
            other => Why::Other(other),
        }
    }
}

/// There is no text, or no longer one. The Read stays: a text may come when the reason is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoText<'a> {
    /// The number of the Read.
    pub number: u32,
    /// Why.
    pub why: Why,
    /// The same for people.
    pub text: &'a str,
}

impl NoText<'_> {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let frame = open(out, kind::NO_TEXT);
        put_varint(out, u64::from(self.number));
        out.push(self.why.byte());
        put_text(out, self.text, TEXT_MAX);
        frame.close(out);
    }
}

/// The answer to a TextNow. If the text has changed, it comes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextGiven {
    /// The number of the Read.
    pub number: u32,
    /// The TextNow that it answers.
    pub ask: u32,
    /// The file was read because of the TextNow. If false, its node cannot be asked now.
    pub is_read: bool,
}

impl TextGiven {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let frame = open_lane(out, kind::TEXT_GIVEN, self.number);
        out.extend_from_slice(&self.ask.to_le_bytes());
        out.push(u8::from(self.is_read));
        frame.close(out);
    }
}

pub(crate) fn decode_no_text<'a>(body: &mut Body<'a>) -> Result<NoText<'a>, Misfit> {
    Ok(NoText { number: body.number()?, why: Why::from_byte(body.u8()?), text: body.text(TEXT_MAX)? })
}
