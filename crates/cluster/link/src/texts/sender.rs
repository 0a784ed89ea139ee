//! Sends a packed text in pieces, so that rows can go between them.

use super::{PackedText, TextPiece};
use crate::limits::PIECE;

/// The rest of one text.
#[derive(Clone, Debug)]
pub struct TextSender {
    number: u32,
    text: PackedText,
    at: usize,
}

impl TextSender {
    /// The whole text, for the Read with this number.
    pub fn new(number: u32, text: PackedText) -> Self {
        TextSender { number, text, at: 0 }
    }

    /// The number of the Read.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Sends the next piece; `false` if it was the last.
    pub fn say(&mut self, out: &mut Vec<u8>) -> bool {
        let PackedText { version, base, stamp, length, bytes } = &self.text;
        let rest = bytes.get(self.at..).unwrap_or_default();
        let piece = &rest[..rest.len().min(PIECE)];
        TextPiece {
            number: self.number,
            version: *version,
            base: *base,
            stamp: *stamp,
            length: *length,
            packed: bytes.len() as u32,
            at: self.at as u32,
            bytes: piece,
        }
        .put(out);
        self.at += piece.len();
        self.at < bytes.len()
    }
}
