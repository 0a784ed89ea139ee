//! Texts by verbs of `printf`.

use std::fmt::Write as _;

use super::verb::Flags;
use crate::template::functions::escape::is_hidden;

/// A text in its width: zeros stand on the left only.
pub(super) fn padded(flags: &Flags, text: String) -> String {
    let missing = flags.width.unwrap_or(0).saturating_sub(text.chars().count());
    match (missing, flags.minus, flags.zero) {
        (0, ..) => text,
        (_, true, _) => text + &" ".repeat(missing),
        (_, false, true) => "0".repeat(missing) + &text,
        (_, false, false) => " ".repeat(missing) + &text,
    }
}

/// `%s`: as many letters as the precision says.
pub(super) fn shown(flags: &Flags, text: &str) -> String {
    padded(flags, cut(flags, text).to_owned())
}

fn cut<'a>(flags: &Flags, text: &'a str) -> &'a str {
    let end = flags.precision.and_then(|count| text.char_indices().nth(count));
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

/// `%q`
pub(super) fn quoted(flags: &Flags, text: &str) -> String {
    let shown = cut(flags, text);
    let needs_quotes = |c: char| c == '`' || c == '\u{feff}' || (c.is_ascii_control() && c != '\t');
    if flags.sharp && !shown.contains(needs_quotes) {
        return padded(flags, format!("`{shown}`"));
    }
    padded(flags, format!("\"{}\"", escaped(shown, '"', flags.plus)))
}

/// `%q` of a letter.
pub(super) fn quoted_letter(flags: &Flags, c: char) -> String {
    padded(flags, format!("'{}'", escaped(&c.to_string(), '\'', flags.plus)))
}

/// `%x` of a text: its bytes, with a blank between them if that is wanted.
pub(super) fn bytes(flags: &Flags, c: char, bytes: &[u8]) -> String {
    let bytes = &bytes[..flags.precision.unwrap_or(bytes.len()).min(bytes.len())];
    let prefix = if c == 'x' { "0x" } else { "0X" };
    let hex = |byte: &u8| if c == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") };
    let prefix = if flags.sharp && !bytes.is_empty() { prefix } else { "" };
    let all: Vec<String> = bytes.iter().map(hex).collect();
    padded(
        flags,
        match flags.space {
            true => all.iter().map(|hex| format!("{prefix}{hex}")).collect::<Vec<_>>().join(" "),
            false => format!("{prefix}{}", all.concat()),
        },
    )
}

/// A text as Go quotes it.
fn escaped(text: &str, quote: char, is_ascii: bool) -> String {
    let mut all = String::new();
    for c in text.chars() {
        match c {
            '\x07' => all.push_str("\\a"),
            '\x08' => all.push_str("\\b"),
            '\x0c' => all.push_str("\\f"),
            '\n' => all.push_str("\\n"),
            '\r' => all.push_str("\\r"),
            '\t' => all.push_str("\\t"),
            '\x0b' => all.push_str("\\v"),
            '\\' => all.push_str("\\\\"),
            c if c == quote => all.extend(['\\', c]),
            c if (c as u32) < 0x80 && c.is_control() => drop(write!(all, "\\x{:02x}", c as u32)),
            c if is_hidden(c) || (is_ascii && !c.is_ascii()) => match c as u32 {
                number @ ..0x1_0000 => drop(write!(all, "\\u{number:04x}")),
                number => drop(write!(all, "\\U{number:08x}")),
            },
            c => all.push(c),
        }
    }
    all
}
