//! The fields of frames: Greeting, Hello, Welcome, Interest, Want and others, as data that borrows from the bytes it came
//! in. `docs/link.md` explains every field; [`crate::frame`] decodes the bytes, `put.rs` encodes them.

use khz_model::Nanos;

use crate::channel::ChannelFrame;
use crate::limits::{ACKS_MAX, HAVE_MAX, PATTERNS_MAX};
use crate::wire::Body;

/// An ability in Hello and Welcome: the peer understands Read, Unread, Text and NoText.
pub const KNOWS_TEXTS: u8 = 1;

/// An ability in Hello and Welcome: the peer understands TextNow and TextGiven.
pub const KNOWS_TEXT_NOW: u8 = 4;

/// An ability in Hello and Welcome: the peer understands Channel.
pub const KNOWS_CHANNELS: u8 = 8;

/// An ability in Hello and Welcome: the peer understands Channels, Definition and Definitions.
pub const KNOWS_DEFINITIONS: u8 = 16;

/// An ability in Hello: an Interest may say that the hub itself wants the rows.
pub const KNOWS_OWN: u8 = 32;

/// The same of Freeze, Thaw and Frozen.
pub const KNOWS_FREEZE: u8 = 64;

/// All of them: what this program says in Hello and Welcome.
pub const ABILITIES: u8 =
    KNOWS_TEXTS | KNOWS_TEXT_NOW | KNOWS_CHANNELS | KNOWS_DEFINITIONS | KNOWS_OWN | KNOWS_FREEZE;

/// The hub's first frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting<'a> {
    /// Lowest version that it speaks.
    pub lowest: u8,
    /// Highest version that it speaks.
    pub highest: u8,
    /// Random; the proof in Hello signs it.
    pub nonce: [u8; 32],
    /// Random at the hub's start: after a change the hub's memory is empty.
    pub identity: [u8; 16],
    /// Its name, for people.
    pub name: &'a str,
    /// Identities of the hubs that it gets nodes from, and of theirs, one after the other.
    pub sources: &'a [u8],
}

/// What a peer is, and so what it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A node: sends its own rows.
    Node,
    /// Reads rows.
    Reader,
    /// Another hub, which reads rows.
    Hub,
    /// Reads rows at any rate.
    Operator,
}

impl Role {
    /// Its byte in Hello.
    pub const fn byte(self) -> u8 {
        match self {
            Role::Node => 1,
            Role::Reader => 2,
            Role::Hub => 3,
            Role::Operator => 4,
        }
    }

    /// Its word in tokens and logs.
    pub const fn word(self) -> &'static str {
        match self {
            Role::Node => "node",
            Role::Reader => "reader",
            Role::Hub => "hub",
            Role::Operator => "operator",
        }
    }

    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Role::Node),
            2 => Some(Role::Reader),
            3 => Some(Role::Hub),
            4 => Some(Role::Operator),
            _ => None,
        }
    }
}

/// The identity of a peer that connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The version it chose.
    pub version: u8,
    /// Its role.
    pub role: Role,
    /// Its name, not yet checked.
    pub name: &'a str,
    /// Different for each machine.
    pub machine: [u8; 16],
    /// Different for each boot of a machine.
    pub boot: [u8; 16],
    /// CLOCK_BOOTTIME of its start, ns.
    pub started: i64,
    /// Random at its start: different for each start, whatever clocks do.
    pub start_nonce: u64,
    /// Version of the program.
    pub program: &'a str,
    /// HMAC over the Greeting's nonce, if it has a token.
    pub proof: Option<[u8; 32]>,
    /// Its abilities beyond the first version: [`KNOWS_TEXTS`], [`KNOWS_TEXT_NOW`], [`KNOWS_CHANNELS`],
    /// [`KNOWS_DEFINITIONS`], [`KNOWS_OWN`], [`KNOWS_FREEZE`].
    pub abilities: u8,
}

/// The hub accepts the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version of all further frames.
    pub version: u8,
    /// Longest silence before the peer counts as gone.
    pub silence: Nanos,
    /// As in [`Hello`].
    pub abilities: u8,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No version in common.
    Version,
    /// The proof is missing or wrong.
    Proof,
    /// Another machine is connected under this name.
    NameTaken,
    /// A newer start of the same machine has taken over.
    Superseded,
    /// There is no room for another peer.
    Full,
    /// The role does not permit it.
    NotAllowed,
    /// The peer breaks the protocol.
    Protocol,
    /// A reason that a newer version knows.
    Other(u8),
}

impl Reason {
    pub(crate) const fn byte(self) -> u8 {
        match self {
            Reason::Version => 1,
            Reason::Proof => 2,
            Reason::NameTaken => 3,
            Reason::Superseded => 4,
            Reason::Full => 5,
            Reason::NotAllowed => 6,
            Reason::Protocol => 7,
            Reason::Other(byte) => byte,
        }
    }

    pub(crate) const fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Reason::Version,
            2 => Reason::Proof,
            3 => Reason::NameTaken,
            4 => Reason::Superseded,
            5 => Reason::Full,
            6 => Reason::NotAllowed,
            7 => Reason::Protocol,
            other => Reason::Other(other),
        }
    }
}

/// A lane that the sender has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneOffer<'a> {
    /// Its number within this connection, from 1.
    pub lane: u32,
    /// The lane's node; empty: the sender itself.
    pub node: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Random when its ring was created; row numbers count within it.
    pub epoch: u64,
    /// Generation of the schema.
    pub generation: u32,
    /// Period.
    pub period: Nanos,
    /// The interest that it answers; 0 = none.
    pub interest: u32,
    /// First row that its ring holds.
    pub oldest_row: u64,
    /// Row that comes next.
    pub next_row: u64,
    /// Bytes of the schema.
    pub schema_bytes: u64,
    /// First 16 bytes of the schema's SHA-256.
    pub schema_hash: [u8; 16],
    /// The lane stands in for a faster lane. Only the hub to which the node is directly connected has the faster lane; this lane
    /// comes through that hub.
    pub stands_in: bool,
}

/// The flag of a Lane that stands in for a faster one ([`LaneOffer::stands_in`]).
pub(crate) const STANDS_IN: u8 = 1;

/// The hash by which peers know the schema with these bytes.
pub fn hash_of_schema(whole: &[u8]) -> [u8; 16] {
    schema_hash(ring::digest::digest(&ring::digest::SHA256, whole))
}

/// The hash by which peers know a schema: the first half of its SHA-256.
pub fn schema_hash(whole: ring::digest::Digest) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&whole.as_ref()[..16]);
    half
}

/// Which rows of a lane its receiver sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Want {
    /// The epoch that `from_row` and `have` belong to.
    pub epoch: u64,
    /// Rows before this one are not sent.
    pub from_row: u64,
    /// Blocks that ended longer ago than this are not sent.
    pub span: Nanos,
    /// Bytes of the schema's present generation that the sender has.
    pub schema_bytes: u64,
    /// Every row at once, instead of flushed.
    pub prompt: bool,
    /// Ranges of rows (from, to) above `from_row` that the sender already has, ascending, [`HAVE_MAX`] at most.
    pub have: Vec<(u64, u64)>,
}

/// A Want that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantFrame<'a> {
    /// The lane.
    pub lane: u32,
    /// As in [`Want`].
    pub epoch: u64,
    /// As in [`Want`].
    pub from_row: u64,
    /// As in [`Want`].
    pub span: Nanos,
    /// As in [`Want`].
    pub schema_bytes: u64,
    /// As in [`Want`].
    pub prompt: bool,
    pub(crate) have: &'a [u8],
}

impl WantFrame<'_> {
    /// Ranges of rows that the sender already has.
    pub fn have(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.have.chunks_exact(16).map(|pair| {
            let mut pair = Body::new(pair);
            (pair.u64().unwrap_or_default(), pair.u64().unwrap_or_default())
        })
    }

    /// The same, owned.
    pub fn to_want(&self) -> Want {
        let WantFrame { epoch, from_row, span, schema_bytes, prompt, .. } = *self;
        Want { epoch, from_row, span, schema_bytes, prompt, have: self.have().take(HAVE_MAX).collect() }
    }
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterestFrame<'a> {
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
    /// The hub itself wants the rows, for its store or its rules.
    pub own: bool,
    /// What nodes do with the rows before they send them; `None`: nothing.
    pub channel: Option<ChannelFrame<'a>>,
    pub(crate) count: usize,
    pub(crate) patterns: &'a [u8],
}

impl<'a> InterestFrame<'a> {
    /// The patterns, at most [`PATTERNS_MAX`], as texts that are not yet checked to be patterns.
    pub fn patterns(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut body = Body::new(self.patterns);
        (0..self.count.min(PATTERNS_MAX)).map_while(move |_| body.text(usize::MAX).ok())
    }
}

/// The answer to an Interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told<'a> {
    /// The number of the Interest.
    pub interest: u32,
    /// Whether rows will come.
    pub granted: bool,
    /// At this period.
    pub period: Nanos,
    /// Why it is refused or slower; may be empty.
    pub text: &'a str,
    /// The lane that serves the Interest, if that lane was offered before; 0: a lane that is offered now, or none.
    pub lane: u32,
    /// The node that refuses a channel which a hub grants for other nodes; then the text begins with the node's name. Empty:
    /// no node.
    pub refused_by: &'a str,
}

/// A piece of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaPiece<'a> {
    /// The lane.
    pub lane: u32,
    /// Generation of the schema.
    pub generation: u32,
    /// The offset of the piece in the schema.
    pub offset: u64,
    /// The piece.
    pub bytes: &'a [u8],
}

/// The last fields of a closed block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The lane.
    pub lane: u32,
    /// Rows of the block.
    pub rows: u32,
    /// Bytes of rows.
    pub bytes: u32,
    /// Their CRC-32.
    pub crc: u32,
}

/// A node's sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Sender's wall clock, ns since 1970; comes back in Beaten.
    pub stamp: i64,
    /// Round trip of the best recent Beat, if known.
    pub round_trip: Option<Nanos>,
    /// Hub's clock minus sender's, measured with that Beat, ns.
    pub offset: i64,
    /// TCP segments retransmitted so far on this connection.
    pub retransmits: u64,
}

/// The hub's answer to a Beat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beaten<'a> {
    /// The Beat's stamp.
    pub stamp: i64,
    /// Hub's wall clock when the Beat came.
    pub received: i64,
    /// Hub's wall clock when this was written.
    pub answered: i64,
    pub(crate) count: usize,
    pub(crate) acks: &'a [u8],
}

/// How many rows of a lane the other side has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The lane.
    pub lane: u32,
    /// All rows before were received.
    pub received: u64,
    /// All rows before are stored.
    pub stored: u64,
}

impl Beaten<'_> {
    /// Bytes of the whole frame.
    pub(crate) fn frame_bytes(&self) -> usize {
        const HEAD: usize = 4 + 1;
        const TIMES_AND_COUNT: usize = 3 * 8 + 2;
        HEAD + TIMES_AND_COUNT + self.acks.len()
    }

    /// The lanes' states, at most [`ACKS_MAX`].
    pub fn acks(&self) -> impl Iterator<Item = Ack> + '_ {
        let mut body = Body::new(self.acks);
        (0..self.count.min(ACKS_MAX)).map_while(move |_| ack(&mut body).ok())
    }
}

pub(crate) fn ack(body: &mut Body<'_>) -> Result<Ack, crate::wire::Misfit> {
    Ok(Ack { lane: body.number()?, received: body.row()?, stored: body.row()? })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_reason_and_role_is_read_back_from_its_byte_and_has_it_for_itself() {
        let reasons = [
            Reason::Version,
            Reason::Proof,
            Reason::NameTaken,
            Reason::Superseded,
            Reason::Full,
            Reason::NotAllowed,
            Reason::Protocol,
        ];
        let bytes: Vec<u8> = reasons.iter().map(|reason| reason.byte()).collect();
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7], "as docs/link.md has them");
        for byte in 0..=255 {
            assert_eq!(Reason::from_byte(byte).byte(), byte);
            assert_eq!(matches!(Reason::from_byte(byte), Reason::Other(_)), !bytes.contains(&byte), "{byte}");
        }
        let roles = [Role::Node, Role::Reader, Role::Hub, Role::Operator];
        assert_eq!(roles.map(Role::byte), [1, 2, 3, 4]);
        assert_eq!(roles.map(Role::word), ["node", "reader", "hub", "operator"]);
        for byte in 0..=255 {
            let role = Role::from_byte(byte);
            assert_eq!(role.map(Role::byte), roles.map(Role::byte).contains(&byte).then_some(byte));
        }
        assert_eq!(reasons.into_iter().collect::<HashSet<_>>().len(), reasons.len());
    }
}
