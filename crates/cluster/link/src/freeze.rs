//! The frames Freeze, Thaw and Frozen: a hub asks a node to keep the rows around a moment, and the node says what it could keep. What a
//! node does about them is in [`crate::frozen`].

use khz_model::Nanos;
use khz_model::name::INSTANCE_MAX;

use crate::frame::kind;
use crate::limits::{CAUSE_MAX, FROZEN_LANES_MAX, TEXT_MAX};
use crate::put::open;
use crate::wire::{Body, Misfit, put_text, put_varint};

/// The frame Freeze: the rows of this time are to be kept until the hub has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freeze<'a> {
    /// Random, so that no other freeze of any hub has it.
    pub number: u64,
    /// The moment to keep, on the hub's wall clock, ns since 1970.
    pub at: i64,
    /// How long before this frame the moment was: a node needs this if it has not yet measured the hub's clock.
    pub age: Nanos,
    /// Keep rows from this long before the moment.
    pub before: Nanos,
    /// Keep rows until this long after the moment.
    pub after: Nanos,
    /// Why, for people.
    pub cause: &'a str,
}

impl<'a> Freeze<'a> {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let frame = open(out, kind::FREEZE);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.at.to_le_bytes());
        for time in [self.age, self.before, self.after] {
            out.extend_from_slice(&time.0.to_le_bytes());
        }
        put_text(out, self.cause, CAUSE_MAX);
        frame.close(out);
    }

    pub(crate) fn read(body: &mut Body<'a>) -> Result<Self, Misfit> {
        Ok(Freeze {
            number: body.u64()?,
            at: body.i64()?,
            age: Nanos(body.u64()?),
            before: Nanos(body.u64()?),
            after: Nanos(body.u64()?),
            cause: body.text(CAUSE_MAX)?,
        })
    }
}

/// Appends a Thaw: the node no longer needs to keep this freeze.
pub fn put_thaw(out: &mut Vec<u8>, number: u64) {
    let frame = open(out, kind::THAW);
    out.extend_from_slice(&number.to_le_bytes());
    frame.close(out);
}

/// The state of a freeze at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrozenState {
    /// It keeps nothing; the text says why.
    Refused,
    /// The rows of the time that its rings have are safe. The rest of the time is still to come.
    Marked,
    /// It has all rows that it will get, and offers them.
    Kept,
    /// A state that a newer version knows.
    Other(u8),
}

impl FrozenState {
    const fn byte(self) -> u8 {
        match self {
            FrozenState::Refused => 0,
            FrozenState::Marked => 1,
            FrozenState::Kept => 2,
            FrozenState::Other(byte) => byte,
        }
    }

    const fn from_byte(byte: u8) -> Self {
        match byte {
            0 => FrozenState::Refused,
            1 => FrozenState::Marked,
            2 => FrozenState::Kept,
            other => FrozenState::Other(other),
        }
    }
}

/// What a node has frozen of one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenLane {
    /// The name of the lane that was copied.
    pub name: String,
    /// Its first row, and the row after its last.
    pub rows: (u64, u64),
    /// Bytes of its blocks and schemas.
    pub bytes: u64,
    /// The length of time at the beginning that was no longer in the ring.
    pub missing: Nanos,
}

/// The frame Frozen: the answer to a Freeze, sent again when the state changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// The number of the Freeze.
    pub number: u64,
    /// The state of the freeze.
    pub state: FrozenState,
    /// Why it keeps nothing, or less than was asked for; may be empty.
    pub text: String,
    /// The lanes, at most [`FROZEN_LANES_MAX`].
    pub lanes: Vec<FrozenLane>,
}

impl Frozen {
    /// Bytes of all its lanes.
    pub fn bytes(&self) -> u64 {
        self.lanes.iter().fold(0, |sum, lane| lane.bytes.saturating_add(sum))
    }

    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let frame = open(out, kind::FROZEN);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.push(self.state.byte());
        put_text(out, &self.text, TEXT_MAX);
        let lanes = &self.lanes[..self.lanes.len().min(FROZEN_LANES_MAX)];
        put_varint(out, lanes.len() as u64);
        for FrozenLane { name, rows: (from, to), bytes, missing } in lanes {
            put_text(out, name, INSTANCE_MAX);
            out.extend_from_slice(&from.to_le_bytes());
            out.extend_from_slice(&to.to_le_bytes());
            put_varint(out, *bytes);
            out.extend_from_slice(&missing.0.to_le_bytes());
        }
        frame.close(out);
    }

    pub(crate) fn read(body: &mut Body<'_>) -> Result<Self, Misfit> {
        let (number, state) = (body.u64()?, FrozenState::from_byte(body.u8()?));
        let text = body.text(TEXT_MAX)?.to_owned();
        let at = body.at();
        let count = body.varint()?;
        if count > FROZEN_LANES_MAX as u64 {
            return Err(Misfit { at, problem: "more lanes than a Frozen may have" });
        }
        let lane = |_| {
            let name = body.text(INSTANCE_MAX)?.to_owned();
            let rows = (body.row()?, body.row()?);
            Ok(FrozenLane { name, rows, bytes: body.varint()?, missing: Nanos(body.u64()?) })
        };
        let lanes = (0..count).map(lane).collect::<Result<_, Misfit>>()?;
        Ok(Frozen { number, state, text, lanes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, split};
    use crate::limits::FRAME_MAX;

    fn read(bytes: &[u8]) -> Frame<'_> {
        let raw = split(bytes, FRAME_MAX).expect("a frame").expect("the whole frame");
        for end in 0..raw.body.len() {
            assert!(Frame::decode(raw.kind, &raw.body[..end]).is_err(), "{end}");
        }
        Frame::decode(raw.kind, raw.body).expect("a good frame")
    }

    fn order() -> Freeze<'static> {
        let (before, after) = (Nanos::from_secs(20), Nanos::from_secs(5));
        Freeze { number: 0x0123_4567_89ab_cdef, at: -2, age: Nanos(3), before, after, cause: "a crash" }
    }

    fn answer() -> Frozen {
        let lane = |name: &str| FrozenLane {
            name: name.to_owned(),
            rows: (7, 300),
            bytes: 70_000,
            missing: Nanos::from_secs(2),
        };
        let (state, text) = (FrozenState::Kept, "the ring is short".to_owned());
        Frozen { number: 9, state, text, lanes: vec![lane("local"), lane("boost1")] }
    }

    #[test]
    fn the_frames_survive_the_way_there() {
        let mut out = Vec::new();
        order().put(&mut out);
        assert_eq!(read(&out), Frame::Freeze(order()));
        out.clear();
        put_thaw(&mut out, 7);
        assert_eq!(read(&out), Frame::Thaw { number: 7 });
        for state in [FrozenState::Refused, FrozenState::Marked, FrozenState::Kept, FrozenState::Other(9)] {
            out.clear();
            let frozen = Frozen { state, ..answer() };
            frozen.put(&mut out);
            assert_eq!(read(&out), Frame::Frozen(Box::new(frozen)));
        }
        assert_eq!(answer().bytes(), 140_000);
    }

    #[test]
    fn the_bytes_of_freeze_thaw_and_frozen_stay() {
        let mut out = Vec::new();
        order().put(&mut out);
        put_thaw(&mut out, 7);
        Frozen { lanes: answer().lanes[..1].to_vec(), ..answer() }.put(&mut out);
        let text: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
        let freeze = "310000000cefcdab8967452301feffffffffffffff030000000000000000c817a80400000000f2052a010000000761206372617368";
        let thaw = "090000000d0700000000000000";
        let frozen = concat!(
            "3e0000002d09000000000000000211746865207269",
            "6e672069732073686f727401056c6f63616c",
            "07000000000000002c01000000000000f0a2040094357700000000",
        );
        assert_eq!(text, [freeze, thaw, frozen].concat());
    }
}
