//! Underscores in numbers (`1_000_000`, `0x_53_AB`), which Prometheus 3 allows and the parser's crate does not know.

use super::tokens::{Kind, Token, rewritten};

/// The text without the underscores that stand between digits of a number. All other underscores stay, and are errors.
pub(super) fn without_underscores(text: &str) -> String {
    rewritten(text, |tokens, at| {
        let Token { kind, text, .. } = tokens[at];
        let is_separated = kind == Kind::Number && text.contains('_') && separates(text);
        is_separated.then(|| text.replace('_', ""))
    })
}

/// True if each underscore is between two digits, or after `0x`.
fn separates(number: &str) -> bool {
    let bytes = number.as_bytes();
    let is_hexadecimal = bytes.len() > 1 && bytes[0] == b'0' && matches!(bytes[1], b'x' | b'X');
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (is_hexadecimal && byte.is_ascii_hexdigit());
    let mut places = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'_').map(|(at, _)| at);
    places.all(|at| {
        let is_after = at > 0 && (is_digit(&bytes[at - 1]) || (is_hexadecimal && at == 2));
        is_after && bytes.get(at + 1).is_some_and(is_digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn underscores_between_digits_are_left_out_and_others_are_errors() {
        for (text, expected) in [
            ("1_000_000", "1000000"),
            ("0x_53_AB_F3_82", "0x53ABF382"),
            (".123_456", ".123456"),
            ("1_000e1_0 + x_1{a=\"1_0\"}", "1000e10 + x_1{a=\"1_0\"}"),
        ] {
            assert_eq!(without_underscores(text), expected);
            assert!(crate::text::format(text).is_ok(), "{text}");
        }
        for text in ["1__000", "1_", "1_.5", "1._5", "0_x1", "1_e5"] {
            assert_eq!(without_underscores(text), text);
            assert!(crate::text::format(text).is_err(), "{text}");
        }
    }
}
