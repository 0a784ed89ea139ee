//! The texts of one Read at their receiver: pieces are put together, checked, and unpacked against the text before. It holds
//! the newest text, against which the next text is packed, and at most one incomplete text.

use std::sync::Arc;

use khz_model::Stamp;

use super::TextPiece;
use super::packed::{PACKED_MAX, unpack};
use crate::error::Reject;
use crate::limits::TEXT_BYTES_MAX;

/// Why a piece brings no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextFault {
    /// The text is too large: its pieces are dropped.
    TooLong {
        /// Its length.
        bytes: u32,
    },
    /// The peer breaks the protocol.
    Protocol(&'static str),
}

impl From<TextFault> for Reject {
    fn from(fault: TextFault) -> Self {
        match fault {
            TextFault::TooLong { bytes } => Reject::protocol(format!("a text of {bytes} bytes")),
            TextFault::Protocol(problem) => Reject::protocol(problem),
        }
    }
}

#[derive(Debug)]
struct Open {
    version: u32,
    packed: Vec<u8>,
}

/// The text of one Read.
#[derive(Debug, Default)]
pub struct TextIntake {
    version: u32,
    text: Option<(Arc<[u8]>, Stamp)>,
    open: Option<Open>,
}

impl TextIntake {
    /// The newest text, and when its file was read.
    pub fn text(&self) -> Option<&(Arc<[u8]>, Stamp)> {
        self.text.as_ref()
    }

    /// Bytes that are held.
    pub fn held(&self) -> usize {
        let text = self.text.as_ref().map_or(0, |(text, _)| text.len());
        text + self.open.as_ref().map_or(0, |open| open.packed.len())
    }

    /// Another sender begins, and packs its texts against none of the earlier ones. The newest text
    /// stays.
    pub fn begin_anew(&mut self) {
        (self.version, self.open) = (0, None);
    }

    /// Takes a piece; `true` when it completes a text.
    ///
    /// # Errors
    /// The piece does not fit.
    pub fn take(&mut self, piece: &TextPiece<'_>) -> Result<bool, TextFault> {
        if piece.length as usize > TEXT_BYTES_MAX || piece.packed as usize > PACKED_MAX {
            self.open = None;
            return Err(TextFault::TooLong { bytes: piece.length.max(piece.packed) });
        }
        if piece.at == 0 {
            self.open = Some(Open { version: piece.version, packed: Vec::new() });
        }
        let is_next =
            |open: &&mut Open| open.version == piece.version && open.packed.len() == piece.at as usize;
        let Some(open) = self.open.as_mut().filter(is_next) else {
            return Err(TextFault::Protocol("a piece of a text that does not continue it"));
        };
        open.packed.extend_from_slice(piece.bytes);
        if open.packed.len() < piece.packed as usize {
            return Ok(false);
        }
        let packed = self.open.take().map(|open| open.packed).unwrap_or_default();
        let base = match (piece.base, &self.text) {
            (0, _) => &[],
            (base, Some((text, _))) if base == self.version => &text[..],
            _ => return Err(TextFault::Protocol("a text packed against one that is not here")),
        };
        let text = unpack(&packed, base, piece.length as usize).map_err(TextFault::Protocol)?;
        self.text = Some((text.into(), piece.stamp));
        self.version = piece.version;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, split};
    use crate::limits::{FRAME_MAX, PIECE};
    use crate::texts::{PackedText, TextSender, pack};

    fn packed(version: u32, base: u32, text: &[u8], against: &[u8]) -> PackedText {
        let bytes = pack(text, against).unwrap().into();
        PackedText { version, base, stamp: Stamp::default(), length: text.len() as u32, bytes }
    }

    /// Every piece, over the wire; whether a text was complete.
    fn hear(intake: &mut TextIntake, text: PackedText) -> Result<bool, TextFault> {
        let (mut sender, mut complete) = (TextSender::new(7, text), false);
        loop {
            let mut out = Vec::new();
            let more = sender.say(&mut out);
            let raw = split(&out, FRAME_MAX).unwrap().unwrap();
            let Ok(Frame::Text(piece)) = Frame::decode(raw.kind, raw.body) else { panic!("no Text") };
            complete |= intake.take(&piece)?;
            if !more {
                return Ok(complete);
            }
        }
    }

    #[test]
    fn texts_arrive_whole_in_pieces_and_differing() {
        let mut noise = 1u64;
        let mut random = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (noise >> 56) as u8
        };
        let first: Vec<u8> = (0..5 * PIECE).map(|_| random()).collect();
        let mut second = first.clone();
        second[100_000] ^= 1;
        let mut intake = TextIntake::default();
        assert_eq!(hear(&mut intake, packed(1, 0, &first, &[])), Ok(true));
        let differing = packed(2, 1, &second, &first);
        assert!(differing.bytes.len() < PIECE / 4);
        assert_eq!(hear(&mut intake, differing), Ok(true));
        assert_eq!(&intake.text().unwrap().0[..], second);
    }

    #[test]
    fn a_text_against_one_that_is_not_here_is_refused() {
        let mut intake = TextIntake::default();
        let refused = Err(TextFault::Protocol("a text packed against one that is not here"));
        assert_eq!(hear(&mut intake, packed(2, 1, b"b", b"a")), refused);
        assert_eq!(hear(&mut intake, packed(1, 0, b"a", &[])), Ok(true));
        intake.begin_anew();
        assert_eq!(hear(&mut intake, packed(2, 1, b"b", b"a")), refused);
        assert_eq!(&intake.text().unwrap().0[..], b"a", "the last one stays");
    }

    #[test]
    fn a_file_of_100_mb_is_refused_before_anything_is_kept() {
        let mut intake = TextIntake::default();
        let (length, packed) = (100 << 20, 9);
        let stamp = Stamp::default();
        let piece = TextPiece { number: 1, version: 1, base: 0, stamp, length, packed, at: 0, bytes: b"123" };
        assert_eq!(intake.take(&piece), Err(TextFault::TooLong { bytes: 100 << 20 }));
        assert_eq!(
            intake.take(&TextPiece { length: 9, packed: 100 << 20, ..piece }).is_err(),
            intake.held() == 0
        );
        assert_eq!(intake.held(), 0);
    }

    #[test]
    fn pieces_out_of_order_are_refused() {
        let mut intake = TextIntake::default();
        let stamp = Stamp::default();
        let piece =
            TextPiece { number: 1, version: 1, base: 0, stamp, length: 9, packed: 9, at: 0, bytes: b"123" };
        assert_eq!(intake.take(&piece), Ok(false));
        assert!(intake.take(&TextPiece { at: 6, ..piece }).is_err());
        assert!(intake.take(&TextPiece { at: 3, version: 2, ..piece }).is_err());
    }
}
