//! Why an agent is not at the hub that it prefers, as a frame to its present hub. A hub that does not know the frame skips it.

use khz_model::Nanos;

use crate::frame::kind;
use crate::limits::TEXT_MAX;
use crate::put::open;
use crate::wire::{Body, Misfit, put_text};

/// A hub's address in an agent's settings: a host name and a port.
const ADDRESS_MAX: usize = 300;

/// Times that are not known.
const UNKNOWN: u64 = u64::MAX;

/// The frame. Times are relative to now: how long ago, or how long from now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing<'a> {
    /// The hub that it prefers, as its settings name it.
    pub first: &'a str,
    /// Why it is not there.
    pub problem: &'a str,
    /// How long ago the problem began.
    pub since: Option<Nanos>,
    /// The shortest time until the agent may be at a better hub; `None`: it stays.
    pub back: Option<Nanos>,
}

impl Standing<'_> {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let time = |time: Option<Nanos>| time.map_or(UNKNOWN, |time| time.0).to_le_bytes();
        let frame = open(out, kind::STANDING);
        put_text(out, self.first, ADDRESS_MAX);
        put_text(out, self.problem, TEXT_MAX);
        out.extend_from_slice(&time(self.since));
        out.extend_from_slice(&time(self.back));
        frame.close(out);
    }
}

pub(crate) fn decode<'a>(body: &mut Body<'a>) -> Result<Standing<'a>, Misfit> {
    let (first, problem) = (body.text(ADDRESS_MAX)?, body.text(TEXT_MAX)?);
    let mut time = || body.u64().map(|time| Some(time).filter(|&time| time != UNKNOWN).map(Nanos));
    Ok(Standing { first, problem, since: time()?, back: time()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, split};
    use crate::limits::FRAME_MAX;

    #[test]
    fn a_standing_survives_the_way_there_and_old_hubs_skip_its_kind() {
        let mut out = Vec::new();
        let standing = Standing { first: "hub1:7071", problem: "silent", since: Some(Nanos(7)), back: None };
        standing.put(&mut out);
        let raw = split(&out, FRAME_MAX).unwrap().unwrap();
        assert!(raw.kind >= 128, "kinds below 128 end the connection where they are unknown");
        assert_eq!(Frame::decode(raw.kind, raw.body), Ok(Frame::Standing(standing)));
        for cut in 0..raw.body.len() {
            assert!(Frame::decode(raw.kind, &raw.body[..cut]).is_err(), "{cut}");
        }
    }
}
