//! Texts that are probably secrets: neither `khz config` nor an error prints them. Whether a secret is valid is not checked
//! here.

use std::borrow::Cow;
use std::path::Path;

/// Where the name of a file is expected, this many hexadecimal digits in a row are a part of a secret.
const DIGITS_OF_A_SECRET: usize = 16;
/// Anywhere else, this many are a part of one: a secret has 64, and nothing else on a command line has more than 40.
const DIGITS_ANYWHERE: usize = 41;
/// What tokens begin with.
const TOKEN_START: &str = "khz-";

/// True for a token or key, whole or in part, where the name of its file is expected.
pub fn is_secret(text: &str) -> bool {
    let is_like_one =
        digits_in_a_row(text) >= DIGITS_OF_A_SECRET || text.contains("-----BEGIN") || is_token(text);
    is_like_one && !Path::new(text).exists()
}

/// True for a text that begins like a token and is not the path of a file.
pub fn is_token(text: &str) -> bool {
    text.trim().starts_with(TOKEN_START) && !text.contains('/') && !Path::new(text).exists()
}

/// A text in which secrets are replaced.
pub fn hidden(text: &str) -> Cow<'_, str> {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let is_bad = |word: &str| {
        let runs = || word.split(|c: char| !c.is_ascii_hexdigit());
        // A long name may have letters up to f alone; of a secret's digits some are from 0 to 9.
        let is_part = |run: &str| run.len() >= DIGITS_ANYWHERE && run.contains(|c: char| c.is_ascii_digit());
        runs().any(is_part) || digits_in_a_row(word) >= DIGITS_OF_A_SECRET && word.contains(TOKEN_START)
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
        let error = format!("unexpected argument '--tokn={TOKEN}' found; {} too", &TOKEN[15..]);
        assert_eq!(hidden(&error), "unexpected argument '--tokn=(a secret)' found; (a secret) too");
        for text in [
            "cannot read /etc/khz/khz-node-n1.token",
            "commit 5ba0425c1d2e3f405ba0425c1d2e3f405ba0425c",
            "khz-hub.service",
            &format!("(column 65 of '{}')", "a".repeat(65)),
            &format!("there is no channel '{}'", "deadbeef".repeat(8)),
        ] {
            assert_eq!(hidden(text), text);
        }
    }
}
