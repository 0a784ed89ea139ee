//! Walks a text by lines and words, as ranges into it: the full parsers' only tool. It copies nothing.

use std::ops::Range;

/// Words (runs without spaces or tabs) of `text[range]`.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    text: &'a [u8],
    range: Range<usize>,
}

/// The words of `text[range]`.
pub fn words(text: &[u8], range: Range<usize>) -> Words<'_> {
    Words { text, range }
}

impl Words<'_> {
    /// The range after the last word.
    pub fn rest(&self) -> Range<usize> {
        self.range.clone()
    }
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

impl Iterator for Words<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let mut start = self.range.start;
        while start < self.range.end && is_blank(self.text[start]) {
            start += 1;
        }
        let mut end = start;
        while end < self.range.end && !is_blank(self.text[end]) {
            end += 1;
        }
        self.range.start = end;
        (start < end).then_some(start..end)
    }
}

/// Splits `text[range]` at the first `mark`: the ranges before and after it.
pub fn split_at_mark(text: &[u8], range: Range<usize>, mark: u8) -> Option<(Range<usize>, Range<usize>)> {
    let at = range.start + text[range.clone()].iter().position(|&b| b == mark)?;
    Some((range.start..at, at + 1..range.end))
}
