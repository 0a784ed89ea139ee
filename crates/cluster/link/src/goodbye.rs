//! The frame Goodbye, the last of an agent: the agent ends or goes to another hub on purpose. A hub that does not know
//! the frame skips it, and then reports the node as down.

use crate::frame::kind;
use crate::limits::TEXT_MAX;
use crate::put::open;
use crate::wire::{Body, Misfit, put_text};

/// Why an agent leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leaving {
    /// It ends, because it was stopped.
    Ends,
    /// It goes to another hub.
    Moves,
    /// A reason that a newer version knows.
    Other(u8),
}

impl Leaving {
    const fn byte(self) -> u8 {
        match self {
            Leaving::Ends => 1,
            Leaving::Moves => 2,
            Leaving::Other(byte) => byte,
        }
    }

    const fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Leaving::Ends,
            2 => Leaving::Moves,
            other => Leaving::Other(other),
        }
    }
}

/// The frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goodbye<'a> {
    /// Why.
    pub leaving: Leaving,
    /// The same for people; may be empty.
    pub text: &'a str,
}

impl Goodbye<'_> {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let frame = open(out, kind::GOODBYE);
        out.push(self.leaving.byte());
        put_text(out, self.text, TEXT_MAX);
        frame.close(out);
    }
}

pub(crate) fn decode<'a>(body: &mut Body<'a>) -> Result<Goodbye<'a>, Misfit> {
    Ok(Goodbye { leaving: Leaving::from_byte(body.u8()?), text: body.text(TEXT_MAX)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, split};
    use crate::limits::FRAME_MAX;

    #[test]
    fn a_goodbye_survives_the_way_there_and_old_hubs_skip_its_kind() {
        let mut out = Vec::new();
        let goodbye = Goodbye { leaving: Leaving::Moves, text: "to hub1, which is back" };
        goodbye.put(&mut out);
        let raw = split(&out, FRAME_MAX).unwrap().unwrap();
        assert!(raw.kind >= 128, "kinds below 128 end the connection where they are unknown");
        assert_eq!(Frame::decode(raw.kind, raw.body), Ok(Frame::Goodbye(goodbye)));
        for cut in 0..raw.body.len() {
            assert!(Frame::decode(raw.kind, &raw.body[..cut]).is_err(), "{cut}");
        }
        assert_eq!(
            Frame::decode(raw.kind, &[9, 0]),
            Ok(Frame::Goodbye(Goodbye { leaving: Leaving::Other(9), text: "" }))
        );
    }
}
