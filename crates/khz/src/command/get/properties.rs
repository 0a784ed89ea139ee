//! Java property files, as `java.util.Properties` reads them: the ancestors' format. Text in, text out.

use std::fmt::Write;

/// `key=value` and the line's end, both escaped.
pub fn line(key: &str, value: &str) -> String {
    format!("{}={}\n", escape(key, true), escape(value, false))
}

/// A comment of one line, whatever the text holds.
pub fn comment(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("# {text}\n")
}

/// In a key every blank, `:` and `=` ends it, in a value only leading blanks vanish; `#` and `!` start a
/// comment; what is not printable ASCII is written as UTF-16 units, since the file is Latin-1.
fn escape(text: &str, is_key: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c {
            ' ' if is_key || at == 0 => escaped.push_str("\\ "),
            ':' | '=' | '#' | '!' | '\\' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '\t' => escaped.push_str("\\t"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\u{c}' => escaped.push_str("\\f"),
            ' '..='~' => escaped.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a String cannot fail.
                    let _ = write!(escaped, "\\u{unit:04X}");
                }
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_escaped_as_java_reads_them() {
        for (key, value, expected) in [
            ("mem.free", "123", "mem.free=123\n"),
            ("net.rx_bytes[eth0]", "7", "net.rx_bytes[eth0]=7\n"),
            ("node7:load.1m", "0.52", "node7\\:load.1m=0.52\n"),
            ("a b=c", " d e", "a\\ b\\=c=\\ d e\n"),
            ("#x!", "\\", "\\#x\\!=\\\\\n"),
            ("é", "𝄞", "\\u00E9=\\uD834\\uDD1E\n"),
            ("t\tn\n", "", "t\\tn\\n=\n"),
        ] {
            assert_eq!(line(key, value), expected);
        }
    }

    #[test]
    fn a_comment_stays_on_its_line() {
        assert_eq!(comment("absent\nevil=1"), "# absent evil=1\n");
    }
}
