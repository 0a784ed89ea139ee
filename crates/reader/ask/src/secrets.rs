//! What a server or a program says, without the secrets that it was shown: in whatever form it quotes them, whole or in part.
//! Knows the secrets only by their values, and does not read any file.

use std::collections::HashSet;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{GeneralPurpose, general_purpose::NO_PAD};
use base64::prelude::BASE64_STANDARD;

/// Secrets that are looked for: each way has one or two, and headers.
const SECRETS_MAX: usize = 256;
/// A text of this many bytes may have been cut ...
const LONG_TEXT_BYTES: usize = 1_000;
/// ... and then so short a begin of a secret at its end is hidden, too.
const PART_BYTES_AT_END_MIN: usize = 3;
/// So long a part of a secret is hidden like the whole.
const SECRET_PART_BYTES: usize = 8;
/// What is shown in place of a secret.
const HIDDEN: &str = "(a secret)";

/// Secrets, in all forms in which they are recognised.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    values: Vec<String>,
}

impl Secrets {
    /// Adds a value that nobody else may see. A header such as `Bearer TOKEN` or `Basic ...` is added with what is in it.
    pub fn add(&mut self, value: &str) {
        self.add_one(value.trim());
        let Some((scheme, rest)) = value.trim().split_once(' ') else { return };
        self.add_one(rest.trim());
        let decoded =
            BASE64_STANDARD.decode(rest.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some(pair) = decoded.filter(|_| scheme.eq_ignore_ascii_case("basic")) {
            self.add_one(&pair);
            self.add_one(pair.split_once(':').map_or("", |(_, password)| password));
        }
    }

    /// Adds what follows the '?' of a URL, and each of its values.
    pub fn add_url(&mut self, url: &str) {
        let Some((_, query)) = url.split_once('?') else { return };
        self.add_one(query);
        for value in query.split(['&', ';']).filter_map(|pair| pair.split_once('=')).map(|(_, value)| value) {
            // `v=2` is none: its letters are in any text.
            if value.len() >= QUERY_VALUE_BYTES_MIN {
                self.add_one(value);
                self.add_one(&percent_decoded(value));
            }
        }
    }

    /// Adds all secrets of another.
    pub fn add_all(&mut self, other: &Secrets) {
        other.values.iter().for_each(|value| self.add_one(value));
    }

    fn add_one(&mut self, value: &str) {
        let is_new = !value.is_empty() && !self.values.iter().any(|known| known == value);
        if is_new && self.values.len() < SECRETS_MAX {
            self.values.push(value.to_owned());
        }
    }

    /// A text without them. A word that has a part of a secret goes as a whole.
    pub fn hide(&self, text: &str) -> String {
        let small = text.to_ascii_lowercase();
        let small = small.as_bytes();
        let mut is_hidden = vec![false; small.len()];
        for form in self.values.iter().flat_map(|value| forms(value)) {
            mark(small, &form, &mut is_hidden);
        }
        if !is_hidden.contains(&true) {
            return text.to_owned();
        }
        widen(small, &mut is_hidden);
        let (mut out, mut was_hidden) = (String::new(), false);
        for (at, letter) in text.char_indices() {
            // A letter of several bytes is in no form: it is hidden or not as a whole.
            let hides = is_hidden[at];
            match (hides, was_hidden) {
                (true, false) => out.push_str(HIDDEN),
                (true, true) => {}
                (false, _) => out.push(letter),
            }
            was_hidden = hides;
        }
        out
    }
}

/// Values of a URL's query that are shorter are no secrets.
const QUERY_VALUE_BYTES_MIN: usize = 4;

/// The forms of a value, in small letters: programs quote as they like.
fn forms(value: &str) -> Vec<Vec<u8>> {
    let bytes = value.as_bytes();
    let mut forms: Vec<String> = vec![
        value.to_owned(),
        percent_encoded(bytes, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)),
        percent_encoded(bytes, |byte| byte.is_ascii_alphanumeric() || b"-._~/:@!$&'()*+,;=".contains(&byte)),
        percent_encoded(bytes, |byte| byte.is_ascii_alphanumeric() || b"*-._ ".contains(&byte))
            .replace(' ', "+"),
        percent_encoded(bytes, |_| false),
        bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        value.replace('\\', "\\\\").replace('"', "\\\""),
        value
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&#34;")
            .replace('\'', "&#39;"),
        value
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;")
            .replace('\'', "&#x27;"),
        value.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e"),
    ];
    for alphabet in [alphabet::STANDARD, alphabet::URL_SAFE] {
        let engine = GeneralPurpose::new(&alphabet, NO_PAD);
        // Of `user:password`, the password begins at the first, second or third byte of three.
        for before in 0..3_usize {
            let whole = [&[0; 2][..before], bytes].concat();
            let coded = engine.encode(&whole);
            // Letters at both ends have bits of what is around them.
            let begin = (before * 8).div_ceil(6);
            let end = if whole.len() % 3 == 0 { coded.len() } else { coded.len() - 1 };
            forms.extend(
                coded.get(begin..end).filter(|part| part.len() >= BASE64_PART_MIN).map(str::to_owned),
            );
        }
    }
    forms.sort();
    forms.dedup();
    let forms = forms.into_iter().filter(|form| !form.is_empty());
    forms.map(|form| form.to_ascii_lowercase().into_bytes()).collect()
}

/// A shorter piece of base64 is in any text.
const BASE64_PART_MIN: usize = 4;

fn percent_encoded(bytes: &[u8], stays: impl Fn(u8) -> bool) -> String {
    let one = |byte: &u8| match stays(*byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02x}"),
    };
    bytes.iter().map(one).collect()
}

fn percent_decoded(text: &str) -> String {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        let code = text.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let decoded = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        out.push(decoded.unwrap_or(*byte));
        at += if decoded.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Marks where a text has a form, or a long part of it.
fn mark(text: &[u8], form: &[u8], is_hidden: &mut [bool]) {
    let part = form.len().min(SECRET_PART_BYTES);
    if text.len() < part {
        return;
    }
    // A long text was cut, perhaps in the middle of a secret.
    let rest = text.strip_suffix(b"...").unwrap_or(text);
    let begun = (PART_BYTES_AT_END_MIN..part).rev().find(|&length| rest.ends_with(&form[..length]));
    if let Some(length) = begun.filter(|_| text.len() >= LONG_TEXT_BYTES) {
        is_hidden[rest.len() - length..].fill(true);
    }
    let parts: HashSet<&[u8]> = form.windows(part).collect();
    for (at, window) in text.windows(part).enumerate() {
        if parts.contains(window) {
            is_hidden[at..at + part].fill(true);
        }
    }
}

/// Hides the rest of each word that is hidden in part: what is left of a code could be read by its bits.
fn widen(text: &[u8], is_hidden: &mut [bool]) {
    let is_code = |byte: u8| byte.is_ascii_alphanumeric() || b"+/_-%".contains(&byte);
    let mut at = 0;
    while at < text.len() {
        let end = (at..text.len()).find(|&end| !is_code(text[end])).unwrap_or(text.len());
        if is_hidden[at..end].contains(&true) {
            is_hidden[at..end].fill(true);
        }
        at = end + 1;
    }
    // A blank at the begin of what is hidden tells nothing.
    for at in 0..text.len() {
        is_hidden[at] &= text[at] != b' ' || (at > 0 && is_hidden[at - 1]);
    }
    // The signs that fill up base64 belong to it.
    for at in 1..text.len() {
        is_hidden[at] |= text[at] == b'=' && is_hidden[at - 1];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A secret as people have it: a password, a token, a sentence.
    fn secret() -> impl Strategy<Value = String> {
        prop_oneof![
            "[!-~]{8,40}",
            "[a-zA-Z0-9]{8,64}",
            "[a-z]{4,9} [a-z]{4,9} [a-z]{4,9}",
            "[A-Za-z0-9+/]{20,44}=="
        ]
    }

    fn coded(bytes: &[u8]) -> [String; 4] {
        let url = GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        let percent: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
        [BASE64_STANDARD.encode(bytes), url.encode(bytes), hex, percent]
    }

    /// All that a hostile server makes of a secret.
    fn quotations(user: &str, secret: &str) -> Vec<String> {
        let pair = format!("{user}:{secret}");
        let plain = format!("\0{user}\0{secret}");
        let mut all = vec![
            secret.to_owned(),
            pair.clone(),
            secret.to_uppercase(),
            serde_json::json!(secret).to_string(),
        ];
        for bytes in [secret, &pair, &plain, &format!("Bearer {secret}")] {
            all.extend(coded(bytes.as_bytes()));
        }
        all
    }

    /// True if a text has eight bytes in a row of another.
    fn has_part(text: &str, of: &str) -> bool {
        let (text, of) = (text.as_bytes(), of.as_bytes());
        of.windows(SECRET_PART_BYTES).any(|part| text.windows(SECRET_PART_BYTES).any(|window| window == part))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

        #[test]
        fn no_form_of_a_secret_and_no_long_part_of_one_is_passed_on(
            (user, secret) in ("[a-z]{1,8}", secret()),
            (before, after) in ("[ -~]{0,20}", "[ -~]{0,20}"),
            share in 0.0..1.0f64,
        ) {
            let mut secrets = Secrets::default();
            secrets.add(&secret);
            for quoted in quotations(&user, &secret) {
                let shown = secrets.hide(&format!("{before} {quoted} {after}"));
                // What is said around it may be equal by chance.
                if !has_part(&format!("{before} (a secret) {after}"), &secret) {
                    prop_assert!(!has_part(&shown, &secret), "{}: {}", quoted, shown);
                }
                prop_assert!(shown.contains(HIDDEN), "{}: {}", quoted, shown);
                // No letter of what codes the secret is left, but of what codes the user's name.
                let words = shown.replace(HIDDEN, "");
                prop_assert!(!has_part(&words, &coded(secret.as_bytes())[0]), "{}: {}", quoted, shown);
            }
            let part = ((secret.len() - SECRET_PART_BYTES) as f64 * share) as usize;
            let part = &secret[part..part + SECRET_PART_BYTES];
            let shown = secrets.hide(&format!("({part})"));
            prop_assert!(!shown.contains(part), "{}", shown);
        }

        #[test]
        fn what_has_no_secret_stays_as_it_is(text in "[ -~\u{e4}\u{20ac}]{0,80}") {
            let mut secrets = Secrets::default();
            secrets.add("\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}\u{7}\u{8}\u{e}");
            prop_assert_eq!(secrets.hide(&text), text);
            prop_assert_eq!(Secrets::default().hide("250 Ok"), "250 Ok");
        }
    }

    #[test]
    fn what_servers_have_quoted_is_hidden() {
        let mut secrets = Secrets::default();
        secrets.add("Basic YW11c2VyOlNFQ1JFVFBBU1M=");
        secrets.add_url("http://hook/x?token=SECRETQUERY&v=2");
        for (said, expected) in [
            ("bad AUTH PLAIN AGFtdXNlcgBTRUNSRVRQQVNT", "bad AUTH PLAIN (a secret)"),
            ("denied: amuser:SECRETPASS!", "denied: (a secret)!"),
            ("denied: YW11c2VyOlNFQ1JFVFBBU1M=", "denied: (a secret)"),
            ("POST /hook?token=SECRETQUERY HTTP/1.1", "POST /hook?(a secret) HTTP/1.1"),
            ("bad CRETPASS, v2", "bad (a secret), v2"),
            ("250 2.0.0 Ok: queued as 4A1B2C", "250 2.0.0 Ok: queued as 4A1B2C"),
        ] {
            assert_eq!(secrets.hide(said), expected);
        }
        let cut = format!("{}: SECRE...", "x".repeat(1_100));
        assert!(!secrets.hide(&cut).contains("SECRE"), "a text that was cut in a secret");
    }
}
