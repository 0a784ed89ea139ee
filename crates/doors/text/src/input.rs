//! Splits incoming bytes into commands: `#`, `S`, masks, and lines that begin with a colon. Keeps an
//! unfinished command, whose length is bounded. Executes nothing.

use crate::limits::{LINE_BYTES_MAX, MASK_DIGITS_MAX};
use crate::mask::Mask;

/// A complete command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `#`: list the items.
    Describe,
    /// `S`: send the status.
    Status,
    /// Hexadecimal digits: choose the items.
    Mask(Mask),
    /// The text between a colon and the end of its line.
    Extension(String),
}

/// Why the rest of this connection cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// More digits than a mask may have.
    MaskTooLong,
    /// A line longer than any extension.
    LineTooLong,
}

/// The unfinished command.
#[derive(Debug, Default)]
pub struct Input {
    /// The digits of a mask.
    digits: Vec<u8>,
    /// A line, without its colon.
    line: Option<Vec<u8>>,
}

impl Input {
    /// Takes bytes from the front of `bytes` until a command is complete; `None`: no bytes are left.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Command>, Unusable> {
        while let Some((&byte, rest)) = bytes.split_first() {
            if let Some(line) = &mut self.line {
                *bytes = rest;
                if byte == b'\n' {
                    let line = String::from_utf8_lossy(line).trim().to_owned();
                    self.line = None;
                    return Ok(Some(Command::Extension(line)));
                }
                if line.len() == LINE_BYTES_MAX {
                    return Err(Unusable::LineTooLong);
                }
                line.push(byte);
                continue;
            }
            if byte.is_ascii_hexdigit() {
                *bytes = rest;
                if self.digits.len() == MASK_DIGITS_MAX {
                    return Err(Unusable::MaskTooLong);
                }
                self.digits.push(byte);
                continue;
            }
            if !self.digits.is_empty() {
                // The byte that ends a mask may be a command itself, so it is read again.
                let mask = Mask::of_digits(&self.digits);
                self.digits = Vec::new();
                return Ok(Some(Command::Mask(mask)));
            }
            *bytes = rest;
            match byte {
                b'#' => return Ok(Some(Command::Describe)),
                b'S' => return Ok(Some(Command::Status)),
                b':' => self.line = Some(Vec::new()),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Bytes that are held.
    pub fn kept(&self) -> usize {
        self.digits.len() + self.line.as_ref().map_or(0, Vec::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(input: &mut Input, mut bytes: &[u8]) -> Result<Vec<Command>, Unusable> {
        let mut commands = Vec::new();
        while let Some(command) = input.next(&mut bytes)? {
            commands.push(command);
        }
        Ok(commands)
    }

    fn mask(digits: &[u8]) -> Command {
        Command::Mask(Mask::of_digits(digits))
    }

    #[test]
    fn letters_masks_and_lines_in_any_order() {
        use Command::{Describe, Extension, Status};
        for (text, expected) in [
            ("#S", vec![Describe, Status]),
            ("1fS", vec![mask(b"1f"), Status]),
            ("1F S\r\n", vec![mask(b"1f"), Status]),
            ("8#8\n", vec![mask(b"8"), Describe, mask(b"8")]),
            ("0\nS", vec![Mask::everything()].into_iter().map(Command::Mask).chain([Status]).collect()),
            ("xyz!? \x00\u{e4}S", vec![Status]),
            ("3", vec![]),
            (":sexp\r\nS", vec![Extension("sexp".into()), Status]),
            (": nodes n[1-3] \nS#", vec![Extension("nodes n[1-3]".into()), Status, Describe]),
            ("5:age 1s\n", vec![mask(b"5"), Extension("age 1s".into())]),
        ] {
            assert_eq!(all(&mut Input::default(), text.as_bytes()), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn endless_commands_are_refused_at_their_limit() {
        let mut input = Input::default();
        assert_eq!(all(&mut input, &vec![b'f'; MASK_DIGITS_MAX]), Ok(vec![]));
        assert_eq!(all(&mut input, b"f"), Err(Unusable::MaskTooLong));
        let mut input = Input::default();
        assert_eq!(all(&mut input, b":"), Ok(vec![]));
        assert_eq!(all(&mut input, &vec![b'x'; LINE_BYTES_MAX]), Ok(vec![]));
        assert_eq!(all(&mut input, b"x"), Err(Unusable::LineTooLong));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_are_cut(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b"#S01fF: \n"[..])], 0..200),
            cuts in prop::collection::vec(1usize..20, 1..20),
        ) {
            let whole = all(&mut Input::default(), &bytes);
            let (mut input, mut commands, mut at) = (Input::default(), Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                let end = bytes.len().min(at + cut);
                commands.extend(all(&mut input, &bytes[at..end]).unwrap());
                prop_assert!(input.kept() <= MASK_DIGITS_MAX + LINE_BYTES_MAX);
                at = end;
                if at == bytes.len() {
                    break;
                }
            }
            prop_assert_eq!(whole.unwrap(), commands);
        }
    }
}
