//! Foreign bytes as text that keeps every byte: names of files and words of commands need not be UTF-8, and two names must
//! never become one.
//!
//! - A byte that is not part of a UTF-8 character becomes a character of its own, from the end of the last private plane:
//!   0x80 is U+10FF80, 0xFF is U+10FFFF.
//! - If those characters themselves occur, each of their bytes is replaced in the same way. So each text means one
//!   sequence of bytes.
//! - Everything else stays as it is, and costs a search for one byte.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A byte plus this is its character.
const OFFSET: u32 = 0x10_ff00;
/// The first byte of those characters in UTF-8, and of few others.
const LEAD: u8 = 0xf4;

/// `bytes` as text.
pub fn of(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if memchr::memchr(LEAD, bytes).is_none() => Cow::Borrowed(text),
        _ => Cow::Owned(escaped(bytes)),
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let single = |text: &mut String, bytes: &[u8]| {
        text.extend(bytes.iter().filter_map(|byte| char::from_u32(OFFSET + u32::from(*byte))));
    };
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match byte(letter) {
                Some(_) => single(&mut text, letter.encode_utf8(&mut [0; 4]).as_bytes()),
                None => text.push(letter),
            }
        }
        single(&mut text, chunk.invalid());
    }
    text
}

/// The byte that a character stands for.
fn byte(letter: char) -> Option<u8> {
    u32::from(letter)
        .checked_sub(OFFSET)
        .and_then(|byte| u8::try_from(byte).ok())
        .filter(|byte| *byte >= 0x80)
}

/// The bytes that `text` was made from.
pub fn bytes(text: &str) -> Cow<'_, [u8]> {
    if memchr::memchr(LEAD, text.as_bytes()).is_none() {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for letter in text.chars() {
        match byte(letter) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

/// The file called `text`.
pub fn path(text: &str) -> Cow<'_, Path> {
    match bytes(text) {
        Cow::Borrowed(_) => Cow::Borrowed(Path::new(text)),
        Cow::Owned(bytes) => Cow::Owned(PathBuf::from(OsString::from_vec(bytes))),
    }
}

/// The name of a file as text.
pub fn name(path: impl AsRef<OsStr>) -> String {
    of(path.as_ref().as_bytes()).into_owned()
}

/// A file's name: a path, or text that [`of`] made.
pub trait Named {
    /// The path.
    fn path(self) -> PathBuf;
}

impl Named for &str {
    fn path(self) -> PathBuf {
        path(self).into_owned()
    }
}

impl Named for &String {
    fn path(self) -> PathBuf {
        path(self).into_owned()
    }
}

impl Named for &Path {
    fn path(self) -> PathBuf {
        self.into()
    }
}

impl Named for &PathBuf {
    fn path(self) -> PathBuf {
        self.clone()
    }
}

impl Named for PathBuf {
    fn path(self) -> PathBuf {
        self
    }
}

impl Named for Cow<'_, Path> {
    fn path(self) -> PathBuf {
        self.into_owned()
    }
}

impl Named for &Cow<'_, Path> {
    fn path(self) -> PathBuf {
        self.to_path_buf()
    }
}

/// The words of a command line.
pub fn words(words: impl Iterator<Item = OsString>) -> Vec<String> {
    words.map(|word| name(&word)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_text_is_itself() {
        for text in ["", "a/b.rrd", "grün/日本", "\u{10fe00}"] {
            assert_eq!((&*of(text.as_bytes()), &*bytes(text)), (text, text.as_bytes()));
        }
    }

    #[test]
    fn two_names_never_become_one() {
        let names: [&[u8]; 5] =
            [b"\xff", b"\xfe", b"\xef\xbf\xbd", "\u{10ffff}".as_bytes(), "\u{10fffe}".as_bytes()];
        for (index, name) in names.iter().enumerate() {
            assert_eq!(&*bytes(&of(name)), *name);
            assert!(names[..index].iter().all(|other| of(other) != of(name)));
        }
    }

    proptest! {
        #[test]
        fn every_byte_comes_back(given in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xf4), Just(0x8f), Just(0xbf)], 0..40)) {
            let text = of(&given);
            prop_assert_eq!(&*bytes(&text), &given[..]);
        }
    }
}
