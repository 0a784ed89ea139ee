//! Foreign text made safe for a screen. Shows as a number each character that a terminal obeys, that turns
//! the writing direction, or that is invisible. Does not change what programs exchange: in JSON the escape
//! means the same text.

use std::borrow::Cow;
use std::fmt::Write as _;

/// True for invisible characters: direction marks and overrides (with which a name can look like another
/// one), joiners, fillers, tags, and separators that break lines.
pub fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// The text on one line of a terminal, a page or a log. Control characters become `?`, hidden ones their
/// number, `\u202e`.
pub fn printable(text: &str) -> Cow<'_, str> {
    shown(text, |c| c.is_control())
}

/// The same for a text of several lines; line breaks stay.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    shown(text, |c| c.is_control() && c != '\n' && c != '\t')
}

/// JSON whose strings show hidden characters as escapes; a program that reads it gets the same strings.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    // Outside its strings JSON is ASCII. Inside, control characters are escaped already, except DEL and the
    // C1 controls.
    if json.is_ascii() { Cow::Borrowed(json) } else { shown(json, |_| false) }
}

fn shown(text: &str, obeyed: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| obeyed(c) || is_hidden(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if obeyed(c) => out.push('?'),
            c if is_hidden(c) => escape(&mut out, c),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Writes a character as its UTF-16 units, as JSON does: `\u202e`.
pub fn escape(out: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        // Writing to a String cannot fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every character that the Unicode report on bidirectional text lists as a direction mark.
    const DIRECTIONS: &str =
        "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";

    #[test]
    fn what_turns_the_direction_of_writing_is_shown_as_its_number() {
        for c in DIRECTIONS.chars() {
            let name = format!("eth{c}0");
            assert_eq!(printable(&name), format!("eth\\u{:04x}0", u32::from(c)));
        }
        assert_eq!(printable("a\u{200b}b\u{feff}c\u{e0041}"), "a\\u200bb\\ufeffc\\udb40\\udc41");
    }

    #[test]
    fn a_terminal_obeys_nothing_and_ordinary_text_stays() {
        assert_eq!(printable("sd\x1b[2Ja\r\n\u{9b}"), "sd?[2Ja???");
        assert_eq!(printable_lines("a\x1b\n\tb"), "a?\n\tb");
        for text in ["", "eth0", "Größe 12 µs – Ω", "名前", "עברית", "…"] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn json_means_the_same_and_hides_nothing() {
        let json = format!("{{\"instance\":\"{DIRECTIONS}\u{e0041}é\"}}");
        let shown = printable_json(&json);
        assert!(!shown.chars().any(is_hidden) && shown.contains("\\u202e\\u2066") && shown.contains('é'));
        assert!(shown.contains("\\udb40\\udc41"));
        assert_eq!(printable_json("{\"a\":1}"), "{\"a\":1}");
    }
}
