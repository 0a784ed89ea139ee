//! A page: a piece of an answer. It is written from front to back, sent, and used again. It grows for a large
//! node, and returns that memory afterwards.

use crate::decimal::{self, DECIMAL_BYTES_MAX};
use crate::limits::{PAGE_BYTES, PAGE_BYTES_KEPT};

/// Texts are copied in steps of this many bytes: most need one step and no loop.
pub(crate) const STEP: usize = 32;

/// The page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    bytes: Vec<u8>,
    at: usize,
}

impl Page {
    /// What is written.
    pub fn written(&self) -> &[u8] {
        &self.bytes[..self.at]
    }

    /// True when the page should be sent before more is written.
    pub fn is_full(&self) -> bool {
        self.at >= PAGE_BYTES
    }

    /// Bytes that the page takes.
    pub fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Empties the page.
    pub fn clear(&mut self) {
        self.at = 0;
        if self.bytes.len() > PAGE_BYTES_KEPT {
            self.bytes = Vec::new();
        }
    }

    /// Makes room for this many bytes of texts and decimals; each text takes up to [`STEP`] bytes more than
    /// its length.
    pub fn reserve(&mut self, bytes: usize) {
        let end = self.at + bytes + 2 * STEP;
        if self.bytes.len() < end {
            self.bytes.resize(end.next_multiple_of(4_096), 0);
        }
    }

    /// Appends a text.
    pub fn put(&mut self, text: &[u8]) {
        self.reserve(text.len());
        self.bytes[self.at..self.at + text.len()].copy_from_slice(text);
        self.at += text.len();
    }

    /// Appends a text of `length` bytes that is followed by [`STEP`] further bytes. Needs room.
    #[inline]
    pub fn put_padded(&mut self, padded: &[u8], length: usize) {
        let mut done = 0;
        loop {
            let (from, to) = (done, self.at + done);
            self.bytes[to..to + STEP].copy_from_slice(&padded[from..from + STEP]);
            done += STEP;
            if done >= length {
                break;
            }
        }
        self.at += length;
    }

    /// Appends a decimal and the byte `end`. Needs room.
    #[inline]
    pub fn put_decimal(&mut self, value: u64, places: u8, end: u8) {
        if let Some(out) = self.bytes[self.at..].first_chunk_mut::<DECIMAL_BYTES_MAX>() {
            self.at += decimal::put(out, value, places);
        }
        self.bytes[self.at] = end;
        self.at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_length_come_out_whole() {
        let mut page = Page::default();
        let mut expected = Vec::new();
        for length in [0, 1, 31, 32, 33, 64, 200] {
            let mut text: Vec<u8> = (0..length).map(|n| b'a' + (n % 26) as u8).collect();
            expected.extend_from_slice(&text);
            expected.extend_from_slice(b"0.07\n");
            text.resize(length + STEP, b'?');
            page.reserve(length + DECIMAL_BYTES_MAX + 1);
            page.put_padded(&text, length);
            page.put_decimal(7, 2, b'\n');
        }
        page.put(b"\n");
        expected.push(b'\n');
        assert_eq!(page.written(), expected);
        page.clear();
        assert!(page.written().is_empty());
    }
}
