//! Cuts the bytes that come into frames. Frames that are whole in the input are handed over without a copy; only an
//! unfinished one at the end is kept.

use crate::error::LinkError;
use crate::frame::{LENGTH_BYTES, split};

/// A kept buffer larger than this is given back once its frame is complete.
const KEPT_MAX: usize = 4 << 10;

/// The unfinished frame of one connection.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    partial: Vec<u8>,
}

impl Inbound {
    /// Calls `take` with kind and body of each whole frame in the kept bytes and `bytes`. `take` returns the limit for the next
    /// frame. It keeps at most one frame, and of that only the bytes that have come.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        mut limit: usize,
        mut take: impl FnMut(u8, &[u8]) -> Result<usize, LinkError>,
    ) -> Result<(), LinkError> {
        if !self.partial.is_empty() {
            if !self.complete(&mut bytes, limit)? {
                return Ok(());
            }
            let whole = std::mem::take(&mut self.partial);
            if let Some(frame) = split(&whole, limit)? {
                limit = take(frame.kind, frame.body)?;
            }
            if whole.capacity() <= KEPT_MAX {
                self.partial = whole;
                self.partial.clear();
            }
        }
        while let Some(frame) = split(bytes, limit)? {
            limit = take(frame.kind, frame.body)?;
            bytes = &bytes[frame.length..];
        }
        if !bytes.is_empty() {
            self.partial.reserve_exact(bytes.len());
            self.partial.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Moves the missing bytes of the kept frame out of `bytes`; `true` when the frame is whole.
    fn complete(&mut self, bytes: &mut &[u8], limit: usize) -> Result<bool, LinkError> {
        self.append(bytes, LENGTH_BYTES);
        // Checks the length before more is kept.
        split(&self.partial, limit)?;
        let Some(length) = self.partial.first_chunk::<LENGTH_BYTES>() else { return Ok(false) };
        let end = LENGTH_BYTES + u32::from_le_bytes(*length) as usize;
        self.append(bytes, end);
        Ok(self.partial.len() == end)
    }

    /// Appends until the kept frame has `end` bytes.
    fn append(&mut self, bytes: &mut &[u8], end: usize) {
        let missing = end.saturating_sub(self.partial.len()).min(bytes.len());
        let (now, later) = bytes.split_at(missing);
        self.partial.extend_from_slice(now);
        *bytes = later;
    }

    /// Bytes that are kept.
    pub fn kept(&self) -> usize {
        self.partial.len()
    }

    /// Forgets what was kept.
    pub fn drop_all(&mut self) {
        self.partial = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(bodies: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for body in bodies {
            bytes.extend_from_slice(&(body.len() as u32 + 1).to_le_bytes());
            bytes.push(7);
            bytes.extend_from_slice(body);
        }
        bytes
    }

    proptest! {
        #[test]
        fn frames_come_out_whole_however_the_stream_is_cut(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12),
            cuts in prop::collection::vec(1usize..50, 1..40),
        ) {
            let bytes = stream(&bodies);
            let (mut inbound, mut out, mut at) = (Inbound::default(), Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                if at == bytes.len() {
                    break;
                }
                let end = bytes.len().min(at + cut);
                inbound.feed(&bytes[at..end], 64, |kind, body| {
                    assert_eq!(kind, 7);
                    out.push(body.to_vec());
                    Ok(64)
                }).unwrap();
                prop_assert!(inbound.kept() <= 68);
                at = end;
            }
            prop_assert_eq!(out, bodies);
        }
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_anything_is_kept() {
        let mut inbound = Inbound::default();
        for byte in [0xff, 0xff, 0xff] {
            assert!(inbound.feed(&[byte], 1_024, |_, _| Ok(1_024)).is_ok());
        }
        let error = inbound.feed(&[0xff, 33], 1_024, |_, _| Ok(1_024)).unwrap_err();
        assert_eq!(error, LinkError::TooLarge { length: 0xffff_ffff, limit: 1_024 });
        assert!(inbound.kept() <= 4);
    }

    #[test]
    fn whole_frames_are_handed_over_where_they_are() {
        let bytes = stream(&[vec![1; 30], vec![2; 30]]);
        let mut inbound = Inbound::default();
        let inside = bytes.as_ptr_range();
        inbound
            .feed(&bytes, 64, |_, body| {
                assert!(inside.contains(&body.as_ptr()));
                Ok(64)
            })
            .unwrap();
        assert_eq!(inbound.kept(), 0);
    }
}
