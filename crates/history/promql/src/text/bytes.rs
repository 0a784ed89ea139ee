//! Texts of a query that are not UTF-8. Prometheus' strings are bytes, and `"\xff"` is one of them; ours are characters. A
//! byte that belongs to no character becomes a character that nothing else uses, so that it equals only itself.

use std::borrow::Cow;

use super::tokens::{Kind, Token, rewritten};

/// The first of 256 such characters; they are for private use and mean nothing to anybody.
const FIRST: u32 = 0x10_ff00;

/// The byte that a character stands for.
pub(crate) fn byte_of(character: char) -> Option<u8> {
    (character as u32).checked_sub(FIRST).and_then(|byte| u8::try_from(byte).ok())
}

/// True if a label can have this name: it is not empty, and all of it is UTF-8.
pub(crate) fn is_label_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| byte_of(c).is_none())
}

/// The query with texts that the parser reads as Prometheus would: escaped bytes are characters, and what stands in backquotes
/// has escapes. The number of tokens is the same, but not their places.
pub(super) fn readable(text: &str) -> String {
    rewritten(text, |tokens, at| {
        let Token { kind, text, .. } = tokens[at];
        // The parser's crate looks for escapes in backquotes, too.
        let is_raw = text.starts_with('`') && text.contains('\\');
        let is_taken = |c| byte_of(c).is_some();
        let is_other = kind == Kind::Text && (is_raw || has_escaped_bytes(text) || text.contains(is_taken));
        is_other.then(|| unquoted(text)).flatten().map(|bytes| quoted(&bytes))
    })
}

/// Bytes as a text in double quotes.
fn quoted(bytes: &[u8]) -> String {
    let mut all = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => all.extend(['\\', c]),
                '\n' => all.push_str("\\n"),
                // One of the characters for bytes, itself: its own bytes keep it apart from the byte that it would stand for.
                c if byte_of(c).is_some() => {
                    all.extend(c.encode_utf8(&mut [0; 4]).bytes().filter_map(of_byte))
                }
                c => all.push(c),
            }
        }
        all.extend(chunk.invalid().iter().copied().filter_map(of_byte));
    }
    all.push('"');
    all
}

/// The character that stands for a byte.
fn of_byte(byte: u8) -> Option<char> {
    char::from_u32(FIRST + u32::from(byte))
}

/// A text or a label's value as an answer shows it, which can only be UTF-8: U+FFFD for each byte that belongs to no character.
pub fn shown_text(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| byte_of(c).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    let mut shown = String::with_capacity(text.len());
    for chunk in bytes.utf8_chunks() {
        shown.push_str(chunk.valid());
        shown.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(shown)
}

/// The bytes of a text with its quotes; `None` if it does not end, or has an escape that there is not.
pub(super) fn unquoted(text: &str) -> Option<Vec<u8>> {
    let quote = text.chars().next()?;
    let inner = text.get(1..)?.strip_suffix(quote)?;
    if quote == '`' { Some(inner.as_bytes().to_vec()) } else { unescaped(inner) }
}

fn has_escaped_bytes(text: &str) -> bool {
    !text.starts_with('`')
        && text
            .as_bytes()
            .windows(2)
            // The characters for bytes can be written as such, too: `\U0010ff41`.
            .any(|two| two[0] == b'\\' && (matches!(two[1], b'x' | b'U') || two[1].is_ascii_digit()))
}

/// The bytes that a text stands for; `None` if an escape is wrong, which the parser then says.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escape = rest.chars().next()?;
        let digits = match escape {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            '0'..='7' => 3,
            _ => 0,
        };
        if escape.is_ascii_digit() {
            bytes.push(u8::from_str_radix(rest.get(..digits).filter(|_| digits == 3)?, 8).ok()?);
            rest = &rest[digits..];
            continue;
        }
        rest = &rest[escape.len_utf8()..];
        if digits > 0 {
            let code = u32::from_str_radix(rest.get(..digits)?, 16).ok()?;
            rest = &rest[digits..];
            if escape == 'x' {
                bytes.push(u8::try_from(code).ok()?);
            } else {
                bytes.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut [0; 4]).as_bytes());
            }
            continue;
        }
        bytes.push(match escape {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '"' | '\'' => escape as u8,
            _ => return None,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_bytes_become_the_characters_that_they_are_or_such_that_nothing_else_uses() {
        assert_eq!(readable(r#"x{a="\xc3\xa9", b='\303\251"'} # "\x"#), r#"x{a="é", b="é\""} # "\x"#);
        assert_eq!(readable(r#""a\nb" "\u00e9" `\xff`"#), r#""a\nb" "\u00e9" "\\xff""#);
        assert_eq!(readable(r#""\xz" "\9" "\x"#), r#""\xz" "\9" "\x"#);
        let lone = readable(r#""a\xffb""#);
        assert!(lone.chars().any(|c| byte_of(c) == Some(0xff)), "{lone}");
        assert_eq!(
            readable("\"\u{10ffff}\""),
            readable(r#""\xf4\x8f\xbf\xbf""#)
                .replace('\u{10ffff}', "\u{10fff4}\u{10ff8f}\u{10ffbf}\u{10ffbf}")
        );
        for (text, shown) in [
            (r#""\xff""#, "\"\u{fffd}\""),
            (r#""é\xe2\x82.""#, "\"é\u{fffd}\u{fffd}.\""),
            ("\"\u{10ffff}\"", "\"\u{10ffff}\""),
            (r#""\U0010ff41""#, "\"\u{10ff41}\""),
            ("`\u{10ff41}`", "\"\u{10ff41}\""),
            (r#""plain""#, r#""plain""#),
        ] {
            assert_eq!(shown_text(&readable(text)), shown, "{text}");
        }
        assert_ne!(readable(r#""\xff""#), readable("\"\u{10ffff}\""));
        assert_ne!(readable(r#""\xff""#), readable(r#""\U0010ffff""#));
        assert!(!is_label_name(&lone) && !is_label_name("") && is_label_name("é.b"));
    }
}
