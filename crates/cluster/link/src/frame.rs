//! Decodes frames: Greeting, Hello, Welcome, Interest, Want and all others. A decoded frame borrows from the bytes it
//! came in; nothing is copied. `put.rs` encodes them.

use khz_model::name::{INSTANCE_MAX, NODE_NAME_MAX};
use khz_model::pattern::PATTERN_MAX;
use khz_model::{Nanos, NodeStatus};

use crate::channel::ChannelFrame;
use crate::definition::DefinitionFrame;
use crate::error::LinkError;
use crate::freeze::{Freeze, Frozen};
use crate::goodbye::{self, Goodbye};
use crate::limits::{
    ACKS_MAX, HAVE_MAX, HUB_NAME_MAX, PATTERNS_MAX, PROGRAM_MAX, SCHEMA_MAX, SOURCES_MAX, TEXT_MAX,
};
use crate::message::*;
use crate::standing::{self, Standing};
use crate::texts::{self, NoText, ReadFrame, TextGiven, TextPiece};
use crate::wire::{Body, Misfit};

const MAGIC: [u8; 4] = *b"khzL";

/// Bytes of a frame's length.
pub const LENGTH_BYTES: usize = 4;

/// Unknown kinds from here on are skipped: a newer peer may know more.
const SKIPPED_FROM: u8 = 128;

/// Kind bytes.
#[allow(missing_docs)]
pub mod kind {
    pub const GREETING: u8 = 1;
    pub const WELCOME: u8 = 2;
    pub const REFUSE: u8 = 3;
    pub const WANT: u8 = 4;
    pub const LEAVE: u8 = 5;
    pub const INTEREST: u8 = 6;
    pub const DISMISS: u8 = 7;
    pub const BEATEN: u8 = 8;
    pub const ROSTER: u8 = 16;
    pub const NOW: u8 = 9;
    pub const AGAIN: u8 = 10;
    pub const CHANNEL: u8 = 11;
    pub const FREEZE: u8 = 12;
    pub const THAW: u8 = 13;
    pub const READ: u8 = 17;
    pub const UNREAD: u8 = 18;
    pub const TEXT_NOW: u8 = 19;
    pub const CHANNELS: u8 = 20;
    pub const HELLO: u8 = 33;
    pub const LANE: u8 = 34;
    pub const SCHEMA: u8 = 35;
    pub const BLOCK: u8 = 36;
    pub const ROWS: u8 = 37;
    pub const END: u8 = 38;
    pub const PAST: u8 = 39;
    pub const LOST: u8 = 40;
    pub const CLOSED: u8 = 41;
    pub const TOLD: u8 = 42;
    pub const BEAT: u8 = 43;
    pub const NODE: u8 = 48;
    pub const NODES: u8 = 49;
    pub const GIVEN: u8 = 44;
    pub const FROZEN: u8 = 45;
    pub const TEXT: u8 = 50;
    pub const NO_TEXT: u8 = 51;
    /// Peers that do not know this kind skip it, like all kinds from 128 on.
    pub const GOODBYE: u8 = 128;
    pub const TEXT_GIVEN: u8 = 52;
    pub const DEFINITION: u8 = 53;
    pub const DEFINITIONS: u8 = 54;
    pub const STANDING: u8 = 129;
}

/// All frames, with fields as in `docs/link.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Frame<'a> {
    Greeting(Greeting<'a>),
    Welcome(Welcome),
    Refuse {
        reason: Reason,
        text: &'a str,
    },
    Want(WantFrame<'a>),
    Leave {
        lane: u32,
    },
    /// An Interest, or a Channel: an Interest with a channel.
    Interest(InterestFrame<'a>),
    Dismiss {
        number: u32,
    },
    Beaten(Beaten<'a>),
    Now {
        interest: u32,
        ask: u32,
    },
    Again {
        lane: u32,
        from: u64,
        to: u64,
    },
    Hello(Hello<'a>),
    Lane(LaneOffer<'a>),
    Schema(SchemaPiece<'a>),
    Block {
        lane: u32,
        bytes: &'a [u8],
    },
    Rows {
        lane: u32,
        bytes: &'a [u8],
    },
    End(End),
    Past {
        lane: u32,
        last: bool,
        bytes: &'a [u8],
    },
    Lost {
        lane: u32,
        from: u64,
        to: u64,
    },
    Closed {
        lane: u32,
    },
    Told(Told<'a>),
    Beat(Beat),
    Roster {
        wanted: bool,
    },
    Node(Box<NodeStatus>),
    Nodes {
        count: u64,
    },
    Given {
        lane: u32,
        ask: u32,
    },
    Read(ReadFrame<'a>),
    Unread {
        number: u32,
    },
    Text(TextPiece<'a>),
    NoText(NoText<'a>),
    Goodbye(Goodbye<'a>),
    TextNow {
        number: u32,
        ask: u32,
    },
    TextGiven(TextGiven),
    Channels {
        wanted: bool,
    },
    Definition(DefinitionFrame<'a>),
    Definitions {
        count: u64,
    },
    Standing(Standing<'a>),
    Freeze(Freeze<'a>),
    Thaw {
        number: u64,
    },
    Frozen(Box<Frozen>),
    /// A kind that a newer version knows.
    Newer {
        kind: u8,
    },
}

/// One frame, cut out of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a> {
    /// Its kind.
    pub kind: u8,
    /// Its body.
    pub body: &'a [u8],
    /// Bytes of the whole frame.
    pub length: usize,
}

/// The frame at the start of `bytes`; `None`: it is not complete. `limit` is for kind and body together.
pub fn split(bytes: &[u8], limit: usize) -> Result<Option<Raw<'_>>, LinkError> {
    let Some(length) = bytes.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > limit {
        return Err(LinkError::TooLarge { length: length as u64, limit });
    }
    if length == 0 {
        return Err(LinkError::Damaged { frame: "a frame", at: 0, problem: "it has no kind" });
    }
    let end = LENGTH_BYTES + length;
    let Some(frame) = bytes.get(LENGTH_BYTES..end) else { return Ok(None) };
    Ok(frame.split_first().map(|(&kind, body)| Raw { kind, body, length: end }))
}

impl<'a> Frame<'a> {
    /// Reads one frame's body.
    pub fn decode(kind: u8, body: &'a [u8]) -> Result<Self, LinkError> {
        let name = name(kind).ok_or(LinkError::UnknownKind { kind })?;
        decode(kind, &mut Body::new(body)).map_err(|Misfit { at, problem }| LinkError::Damaged {
            frame: name,
            at,
            problem,
        })
    }

    /// The frame's name, for messages.
    pub fn name(&self) -> &'static str {
        name(self.kind()).unwrap_or("a frame")
    }

    /// Its kind byte.
    pub fn kind(&self) -> u8 {
        match self {
            Frame::Greeting(_) => kind::GREETING,
            Frame::Welcome(_) => kind::WELCOME,
            Frame::Refuse { .. } => kind::REFUSE,
            Frame::Want(_) => kind::WANT,
            Frame::Leave { .. } => kind::LEAVE,
            Frame::Interest(InterestFrame { channel: Some(_), .. }) => kind::CHANNEL,
            Frame::Interest(_) => kind::INTEREST,
            Frame::Dismiss { .. } => kind::DISMISS,
            Frame::Beaten(_) => kind::BEATEN,
            Frame::Hello(_) => kind::HELLO,
            Frame::Lane(_) => kind::LANE,
            Frame::Schema(_) => kind::SCHEMA,
            Frame::Block { .. } => kind::BLOCK,
            Frame::Rows { .. } => kind::ROWS,
            Frame::End(_) => kind::END,
            Frame::Past { .. } => kind::PAST,
            Frame::Lost { .. } => kind::LOST,
            Frame::Closed { .. } => kind::CLOSED,
            Frame::Told(_) => kind::TOLD,
            Frame::Beat(_) => kind::BEAT,
            Frame::Roster { .. } => kind::ROSTER,
            Frame::Node(_) => kind::NODE,
            Frame::Nodes { .. } => kind::NODES,
            Frame::Now { .. } => kind::NOW,
            Frame::Again { .. } => kind::AGAIN,
            Frame::Given { .. } => kind::GIVEN,
            Frame::Read(_) => kind::READ,
            Frame::Unread { .. } => kind::UNREAD,
            Frame::Text(_) => kind::TEXT,
            Frame::NoText(_) => kind::NO_TEXT,
            Frame::Goodbye(_) => kind::GOODBYE,
            Frame::TextNow { .. } => kind::TEXT_NOW,
            Frame::TextGiven(_) => kind::TEXT_GIVEN,
            Frame::Channels { .. } => kind::CHANNELS,
            Frame::Definition(_) => kind::DEFINITION,
            Frame::Definitions { .. } => kind::DEFINITIONS,
            Frame::Standing(_) => kind::STANDING,
            Frame::Freeze(_) => kind::FREEZE,
            Frame::Thaw { .. } => kind::THAW,
            Frame::Frozen(_) => kind::FROZEN,
            Frame::Newer { kind } => *kind,
        }
    }
}

const fn name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        kind::GREETING => "Greeting",
        kind::WELCOME => "Welcome",
        kind::REFUSE => "Refuse",
        kind::WANT => "Want",
        kind::LEAVE => "Leave",
        kind::INTEREST => "Interest",
        kind::CHANNEL => "Channel",
        kind::DISMISS => "Dismiss",
        kind::BEATEN => "Beaten",
        kind::HELLO => "Hello",
        kind::LANE => "Lane",
        kind::SCHEMA => "Schema",
        kind::BLOCK => "Block",
        kind::ROWS => "Rows",
        kind::END => "End",
        kind::PAST => "Past",
        kind::LOST => "Lost",
        kind::CLOSED => "Closed",
        kind::TOLD => "Told",
        kind::BEAT => "Beat",
        kind::ROSTER => "Roster",
        kind::NODE => "Node",
        kind::NODES => "Nodes",
        kind::NOW => "Now",
        kind::AGAIN => "Again",
        kind::GIVEN => "Given",
        kind::READ => "Read",
        kind::UNREAD => "Unread",
        kind::TEXT => "Text",
        kind::NO_TEXT => "NoText",
        kind::GOODBYE => "Goodbye",
        kind::TEXT_NOW => "TextNow",
        kind::TEXT_GIVEN => "TextGiven",
        kind::CHANNELS => "Channels",
        kind::DEFINITION => "Definition",
        kind::DEFINITIONS => "Definitions",
        kind::STANDING => "Standing",
        kind::FREEZE => "Freeze",
        kind::THAW => "Thaw",
        kind::FROZEN => "Frozen",
        newer if newer >= SKIPPED_FROM => "a newer frame",
        _ => return None,
    })
}

fn decode<'a>(kind: u8, body: &mut Body<'a>) -> Result<Frame<'a>, Misfit> {
    Ok(match kind {
        kind::GREETING => Frame::Greeting(greeting(body)?),
        kind::WELCOME => {
            let (version, silence) = (body.u8()?, millis(body)?);
            Frame::Welcome(Welcome { version, silence, abilities: abilities(body)? })
        }
        kind::REFUSE => Frame::Refuse { reason: Reason::from_byte(body.u8()?), text: body.text(TEXT_MAX)? },
        kind::WANT => Frame::Want(want(body)?),
        kind::LEAVE => Frame::Leave { lane: body.number()? },
        kind::INTEREST => Frame::Interest(interest(body)?),
        kind::CHANNEL => {
            let interest = interest(body)?;
            Frame::Interest(InterestFrame { channel: Some(ChannelFrame::read(body)?), ..interest })
        }
        kind::DISMISS => Frame::Dismiss { number: body.number()? },
        kind::BEATEN => Frame::Beaten(beaten(body)?),
        kind::HELLO => Frame::Hello(hello(body)?),
        kind::LANE => Frame::Lane(lane(body)?),
        kind::SCHEMA => Frame::Schema(schema(body)?),
        kind::BLOCK => Frame::Block { lane: body.number()?, bytes: body.rest() },
        kind::ROWS => Frame::Rows { lane: body.number()?, bytes: body.rest() },
        kind::END => {
            Frame::End(End { lane: body.number()?, rows: body.u32()?, bytes: body.u32()?, crc: body.u32()? })
        }
        kind::PAST => Frame::Past { lane: body.number()?, last: flags(body, 1)? == 1, bytes: body.rest() },
        kind::LOST => lost(body)?,
        kind::CLOSED => Frame::Closed { lane: body.number()? },
        kind::TOLD => Frame::Told(Told {
            interest: body.number()?,
            granted: flags(body, 1)? == 1,
            period: body.period()?,
            text: body.text(TEXT_MAX)?,
            lane: body.number()?,
            refused_by: if body.is_at_end() { "" } else { body.text(NODE_NAME_MAX)? },
        }),
        kind::BEAT => Frame::Beat(Beat {
            stamp: body.i64()?,
            round_trip: Some(body.u64()?).filter(|&ns| ns != u64::MAX).map(Nanos),
            offset: body.i64()?,
            retransmits: body.varint()?,
        }),
        kind::ROSTER => Frame::Roster { wanted: flags(body, 1)? == 1 },
        kind::NODE => Frame::Node(Box::new(crate::node_status::decode(body)?)),
        kind::NODES => Frame::Nodes { count: body.varint()? },
        kind::NOW => Frame::Now { interest: body.number()?, ask: body.u32()? },
        kind::AGAIN => again(body)?,
        kind::GIVEN => Frame::Given { lane: body.number()?, ask: body.u32()? },
        kind::READ => Frame::Read(texts::decode_read(body)?),
        kind::UNREAD => Frame::Unread { number: body.number()? },
        kind::TEXT => Frame::Text(texts::decode_text(body)?),
        kind::NO_TEXT => Frame::NoText(texts::decode_no_text(body)?),
        kind::GOODBYE => Frame::Goodbye(goodbye::decode(body)?),
        kind::TEXT_NOW => Frame::TextNow { number: body.number()?, ask: body.u32()? },
        kind::CHANNELS => Frame::Channels { wanted: flags(body, 1)? == 1 },
        kind::DEFINITION => Frame::Definition(DefinitionFrame::read(body)?),
        kind::DEFINITIONS => Frame::Definitions { count: body.varint()? },
        kind::TEXT_GIVEN => {
            let (number, ask) = (body.number()?, body.u32()?);
            Frame::TextGiven(TextGiven { number, ask, is_read: flags(body, 1)? == 1 })
        }
        kind::STANDING => Frame::Standing(standing::decode(body)?),
        kind::FREEZE => Frame::Freeze(Freeze::read(body)?),
        kind::THAW => Frame::Thaw { number: body.u64()? },
        kind::FROZEN => Frame::Frozen(Box::new(Frozen::read(body)?)),
        kind => Frame::Newer { kind },
    })
}

fn magic(body: &mut Body<'_>) -> Result<(), Misfit> {
    let problem = "it does not begin with khzL: this is no Kilohertz link";
    if body.array()? == MAGIC { Ok(()) } else { Err(Misfit { at: 0, problem }) }
}

/// A byte of flags, none above `highest`.
fn flags(body: &mut Body<'_>, highest: u8) -> Result<u8, Misfit> {
    let at = body.at();
    Some(body.u8()?).filter(|&flags| flags <= highest).ok_or(Misfit { at, problem: "unknown flags" })
}

fn millis(body: &mut Body<'_>) -> Result<Nanos, Misfit> {
    Ok(Nanos::from_millis(body.varint()?))
}

fn greeting<'a>(body: &mut Body<'a>) -> Result<Greeting<'a>, Misfit> {
    magic(body)?;
    Ok(Greeting {
        lowest: body.u8()?,
        highest: body.u8()?,
        nonce: body.array()?,
        identity: body.array()?,
        name: body.text(HUB_NAME_MAX)?,
        sources: sources(body)?,
    })
}

/// A hub of an older version sends no sources.
fn sources<'a>(body: &mut Body<'a>) -> Result<&'a [u8], Misfit> {
    if body.is_at_end() {
        return Ok(&[]);
    }
    let at = body.at();
    let count = body.varint()?;
    if count > SOURCES_MAX as u64 {
        return Err(Misfit { at, problem: "more sources than a Greeting may have" });
    }
    body.bytes(16 * count as usize)
}

fn hello<'a>(body: &mut Body<'a>) -> Result<Hello<'a>, Misfit> {
    magic(body)?;
    Ok(Hello {
        version: body.u8()?,
        role: {
            let at = body.at();
            Role::from_byte(body.u8()?).ok_or(Misfit { at, problem: "an unknown role" })?
        },
        name: body.text(NODE_NAME_MAX)?,
        machine: body.array()?,
        boot: body.array()?,
        started: body.i64()?,
        start_nonce: body.u64()?,
        program: body.text(PROGRAM_MAX)?,
        proof: match flags(body, 1)? {
            0 => None,
            _ => Some(body.array()?),
        },
        abilities: abilities(body)?,
    })
}

/// A peer of an older version sends no abilities, and has none.
fn abilities(body: &mut Body<'_>) -> Result<u8, Misfit> {
    if body.is_at_end() { Ok(0) } else { body.u8() }
}

fn want<'a>(body: &mut Body<'a>) -> Result<WantFrame<'a>, Misfit> {
    let lane = body.number()?;
    let (epoch, from_row) = (body.u64()?, body.row()?);
    let span = Nanos(body.u64()?);
    let schema_bytes = body.varint()?;
    let prompt = flags(body, 1)? == 1;
    let at = body.at();
    let count = body.varint()?;
    if count > HAVE_MAX as u64 {
        return Err(Misfit { at, problem: "more ranges than a Want may have" });
    }
    let have = body.bytes(count as usize * 16)?;
    Ok(WantFrame { lane, epoch, from_row, span, schema_bytes, prompt, have })
}

fn interest<'a>(body: &mut Body<'a>) -> Result<InterestFrame<'a>, Misfit> {
    let number = body.number()?;
    let period = Nanos(body.u64()?);
    let flags = flags(body, 15)?;
    let at = body.at();
    let count = body.varint()?;
    if count > PATTERNS_MAX as u64 {
        return Err(Misfit { at, problem: "more patterns than an interest may have" });
    }
    let start = body.at();
    for _ in 0..count {
        body.text(PATTERN_MAX)?;
    }
    let [exact, prompt, past, own] = [1, 2, 4, 8].map(|flag| flags & flag != 0);
    let patterns = body.since(start);
    let (channel, count) = (None, count as usize);
    Ok(InterestFrame { number, period, exact, prompt, past, own, channel, count, patterns })
}

fn beaten<'a>(body: &mut Body<'a>) -> Result<Beaten<'a>, Misfit> {
    let (stamp, received, answered) = (body.i64()?, body.i64()?, body.i64()?);
    let at = body.at();
    let count = usize::from(body.u16()?);
    if count > ACKS_MAX {
        return Err(Misfit { at, problem: "more lanes than a Beaten may have" });
    }
    let start = body.at();
    for _ in 0..count {
        ack(body)?;
    }
    Ok(Beaten { stamp, received, answered, count, acks: body.since(start) })
}

fn lane<'a>(body: &mut Body<'a>) -> Result<LaneOffer<'a>, Misfit> {
    Ok(LaneOffer {
        lane: body.number()?,
        node: body.text(NODE_NAME_MAX)?,
        name: body.text(INSTANCE_MAX)?,
        epoch: body.u64()?,
        generation: body.u32()?,
        period: body.period()?,
        interest: body.number()?,
        oldest_row: body.row()?,
        next_row: body.row()?,
        schema_bytes: schema_size(body)?,
        schema_hash: body.array()?,
        stands_in: !body.is_at_end() && body.u8()? & STANDS_IN != 0,
    })
}

fn schema<'a>(body: &mut Body<'a>) -> Result<SchemaPiece<'a>, Misfit> {
    let (lane, generation) = (body.number()?, body.u32()?);
    let at = body.at();
    let offset = schema_size(body)?;
    let bytes = body.rest();
    if offset + bytes.len() as u64 > SCHEMA_MAX {
        return Err(Misfit { at, problem: "a schema larger than 16 MiB" });
    }
    Ok(SchemaPiece { lane, generation, offset, bytes })
}

fn schema_size(body: &mut Body<'_>) -> Result<u64, Misfit> {
    let at = body.at();
    let size = body.varint()?;
    if size > SCHEMA_MAX { Err(Misfit { at, problem: "a schema larger than 16 MiB" }) } else { Ok(size) }
}

fn lost<'a>(body: &mut Body<'a>) -> Result<Frame<'a>, Misfit> {
    let (lane, (from, to)) = (body.number()?, rows(body)?);
    Ok(Frame::Lost { lane, from, to })
}

fn again<'a>(body: &mut Body<'a>) -> Result<Frame<'a>, Misfit> {
    let (lane, (from, to)) = (body.number()?, rows(body)?);
    Ok(Frame::Again { lane, from, to })
}

/// A range of rows.
fn rows(body: &mut Body<'_>) -> Result<(u64, u64), Misfit> {
    let at = body.at();
    let (from, to) = (body.row()?, body.row()?);
    if from > to { Err(Misfit { at, problem: "rows backwards" }) } else { Ok((from, to)) }
}
