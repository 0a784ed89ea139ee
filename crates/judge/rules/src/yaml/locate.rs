//! Where a character of a scalar's text stands in the file. The parser gives only the scalar's beginning: the text and the
//! file are walked side by side, over indentation, folded lines and escapes.

use std::sync::Arc;

use saphyr_parser::ScalarStyle;

use super::Scalar;
use crate::finding::Place;

/// The text of a file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    text: Arc<str>,
    /// Where each line begins, in bytes.
    lines: Arc<[usize]>,
}

impl Source {
    pub fn new(text: &str) -> Self {
        let after = text.match_indices('\n').map(|(at, _)| at + 1);
        Source { text: Arc::from(text), lines: std::iter::once(0).chain(after).collect() }
    }

    /// The byte at a place, and the rest of the text from there.
    fn from(&self, place: Place) -> &str {
        let line = self.lines.get(place.line - 1).copied().unwrap_or(self.text.len());
        let rest = &self.text[line..];
        let at = rest.char_indices().nth(place.column - 1).map_or(rest.len(), |(at, _)| at);
        &rest[at..]
    }

    /// The place of a byte of this scalar's text. A scalar that an alias brought is where it was written first.
    pub fn place_in(&self, scalar: &Scalar, begin: Place, offset: usize) -> Place {
        let text = &scalar.text[..scalar.text.floor_char_boundary(offset.min(scalar.text.len()))];
        let dark = text.chars().filter(|c| !c.is_whitespace()).count();
        // After an end of line the place is that of the next character that is seen.
        let trailing = text.chars().rev().take_while(|c| *c == ' ').count();
        let seen = scalar.text[text.len()..].chars().next().is_some_and(|c| !c.is_whitespace());
        let mut walk = Walk { rest: self.from(begin).chars().peekable(), place: begin };
        walk.enter(scalar);
        let mut last = walk.place;
        for _ in 0..dark {
            walk.skip_white(scalar.style);
            walk.step(scalar.style);
            last = walk.place;
        }
        if seen || dark == 0 {
            walk.skip_white(scalar.style);
            return walk.place;
        }
        Place { line: last.line, column: last.column + trailing }
    }
}

/// What follows a backslash where it stands for white space, or for nothing.
const WHITE_ESCAPES: &str = "ntrvf \t\nN_LP";

/// The file from a place on.
struct Walk<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    place: Place,
}

impl Walk<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        match c {
            '\n' => self.place = Place { line: self.place.line + 1, column: 1 },
            _ => self.place.column += 1,
        }
        Some(c)
    }

    /// Goes to the first character of the content: after an anchor, a tag, a quote. The parser says of a block where its content
    /// begins, unless it has an anchor or a tag.
    fn enter(&mut self, scalar: &Scalar) {
        let is_block = matches!(scalar.style, ScalarStyle::Literal | ScalarStyle::Folded);
        let first = scalar.text.trim_start().chars().next();
        while matches!(self.rest.peek(), Some('&' | '!')) && (!is_block || self.rest.peek() != first.as_ref())
        {
            while self.rest.peek().is_some_and(|c| !c.is_whitespace()) {
                self.next();
            }
            self.skip_white(scalar.style);
            if is_block && matches!(self.rest.peek(), Some('|' | '>')) {
                while self.next().is_some_and(|c| c != '\n') {}
            }
        }
        if matches!(scalar.style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted) {
            self.next();
        }
    }

    /// Goes over white space, written as an escape, too.
    fn skip_white(&mut self, style: ScalarStyle) {
        loop {
            let mut ahead = self.rest.clone();
            match (ahead.next(), ahead.next()) {
                (Some(c), _) if c.is_whitespace() => {
                    self.next();
                }
                (Some('\\'), Some(c)) if style == ScalarStyle::DoubleQuoted && WHITE_ESCAPES.contains(c) => {
                    self.next();
                    self.next();
                }
                _ => return,
            }
        }
    }

    /// Goes over one character of the text that is no white space, however it is written.
    fn step(&mut self, style: ScalarStyle) {
        match self.next() {
            Some('\'') if style == ScalarStyle::SingleQuoted => {
                self.next();
            }
            Some('\\') if style == ScalarStyle::DoubleQuoted => {
                let digits = match self.next() {
                    Some('x') => 2,
                    Some('u') => 4,
                    Some('U') => 8,
                    _ => 0,
                };
                for _ in 0..digits {
                    self.next();
                }
            }
            _ => {}
        }
    }
}
