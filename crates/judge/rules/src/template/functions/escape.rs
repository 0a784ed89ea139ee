//! Texts for HTML, JavaScript and URLs.

use std::fmt::Write as _;

pub(super) fn html(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0' => all.push('\u{fffd}'),
            '"' => all.push_str("&#34;"),
            '\'' => all.push_str("&#39;"),
            '&' => all.push_str("&amp;"),
            '<' => all.push_str("&lt;"),
            '>' => all.push_str("&gt;"),
            c => all.push(c),
        }
    }
    all
}

pub(super) fn js(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => all.push_str("\\\\"),
            '\'' => all.push_str("\\'"),
            '"' => all.push_str("\\\""),
            '<' | '>' | '&' | '=' => {
                let _ = write!(all, "\\u{:04X}", u32::from(c));
            }
            c if c.is_control() || (!c.is_ascii() && is_hidden(c)) => {
                let _ = write!(all, "\\u{:04X}", u32::from(c));
            }
            c => all.push(c),
        }
    }
    all
}

/// True for what is not printed, spaces of other scripts among them.
pub(super) fn is_hidden(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e000}'..='\u{f8ff}')
}

pub(super) fn query(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => all.push(char::from(byte)),
            b' ' => all.push('+'),
            byte => {
                let _ = write!(all, "%{byte:02X}");
            }
        }
    }
    all
}
