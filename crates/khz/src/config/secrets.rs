//! What looks like a secret, wherever it was written: it is neither shown by `khz config` nor repeated in an error. It refuses
//! to judge whether it is a valid one.

use std::borrow::Cow;
use std::path::Path;

/// So many hexadecimal digits in a row, where the name of a file with a secret belongs, are part of the secret.
const DIGITS_OF_A_SECRET: usize = 16;
/// So many are one wherever they stand: a whole one has 64, and nothing else that khz is told has more than 40.
const DIGITS_ANYWHERE: usize = 41;
/// What tokens begin with.
const MARK: &str = "khz-";

/// True for a token or key itself, whole or in part, where the name of its file belongs.
pub fn is_secret(text: &str) -> bool {
    let looks = digits_in_a_row(text) >= DIGITS_OF_A_SECRET || text.contains("-----BEGIN") || is_token(text);
    looks && !Path::new(text).exists()
}

/// True for what begins as a token does, not as the name of a file in a folder.
pub fn is_token(text: &str) -> bool {
    text.trim().starts_with(MARK) && !text.contains('/') && !Path::new(text).exists()
}

/// A text without the secrets that were typed into it.
pub fn hidden(text: &str) -> Cow<'_, str> {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let is_bad = |word: &str| {
        let digits = digits_in_a_row(word);
        digits >= DIGITS_ANYWHERE || digits >= DIGITS_OF_A_SECRET && word.contains(MARK)
    };
    if !text.split(|c| !is_of_word(c)).any(is_bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_of_word(c) != is_of_word(first)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        out.push_str(if is_bad(word) { "(a secret)" } else { word });
        rest = after;
    }
    Cow::Owned(out)
}

fn digits_in_a_row(text: &str) -> usize {
    text.split(|c: char| !c.is_ascii_hexdigit()).map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "khz-reader-bob-00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    #[test]
    fn a_token_is_a_secret_however_it_was_cut() {
        for text in
            [TOKEN, &TOKEN[4..], &TOKEN[30..], &TOKEN[..40], "khz-", " khz-reader-bob-00 ", "-----BEGIN X"]
        {
            assert!(is_secret(text), "{text}");
        }
        for text in ["", "/etc/khz/token", "alice.token", "tls/khz-node-n1.token", "deadbeef.key"] {
            assert!(!is_secret(text), "{text}");
        }
    }

    #[test]
    fn a_secret_is_taken_out_of_a_sentence_and_nothing_else_is() {
        let said = format!("unexpected argument '--tokn={TOKEN}' found; {} too", &TOKEN[15..]);
        assert_eq!(hidden(&said), "unexpected argument '--tokn=(a secret)' found; (a secret) too");
        for text in [
            "cannot read /etc/khz/khz-node-n1.token",
            "commit 5ba0425c1d2e3f405ba0425c1d2e3f405ba0425c",
            "khz-hub.service",
        ] {
            assert_eq!(hidden(text), text);
        }
    }
}
