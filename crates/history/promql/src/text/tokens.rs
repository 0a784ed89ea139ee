//! The tokens of a query, with their places. It knows no grammar.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name, or a word of the language.
    Word,
    /// A number or a duration.
    Number,
    /// A quoted text, with its quotes.
    Text,
    /// Everything else: one or two characters.
    Sign,
}

/// A token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// Where it begins, in bytes.
    pub(super) at: usize,
}

/// The signs of two characters.
const PAIRS: [&str; 6] = ["==", "!=", "=~", "!~", ">=", "<="];

/// All tokens, without blanks and comments.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        if first == '#' {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let (kind, length) = match first {
            '"' | '\'' | '`' => (Kind::Text, quoted(rest, first)),
            '0'..='9' | '.' => (Kind::Number, number(rest)),
            // Between the range and the step of a subquery.
            ':' if !rest[1..].starts_with(|c: char| c.is_alphabetic() || c == '_') => (Kind::Sign, 1),
            _ if first.is_alphabetic() || first == '_' || first == ':' => (Kind::Word, word(rest)),
            _ if rest.get(..2).is_some_and(|two| PAIRS.contains(&two)) => (Kind::Sign, 2),
            _ => (Kind::Sign, first.len_utf8()),
        };
        all.push(Token { kind, text: &rest[..length], at });
        at += length;
    }
    all
}

/// The text with other texts for some tokens, as `other` says: it gets all tokens, and the place of one among them.
pub(super) fn rewritten(text: &str, other: impl Fn(&[Token<'_>], usize) -> Option<String>) -> String {
    let tokens = tokens(text);
    let (mut all, mut copied) = (String::with_capacity(text.len()), 0);
    for (at, token) in tokens.iter().enumerate() {
        if let Some(other) = other(&tokens, at) {
            all.push_str(&text[copied..token.at]);
            all.push_str(&other);
            copied = token.at + token.text.len();
        }
    }
    all.push_str(&text[copied..]);
    all
}

/// The length of a quoted text, its quotes included; up to the end if it never ends.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote != '`' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a number or a duration: digits, letters, and a sign after an exponent.
fn number(rest: &str) -> usize {
    let hexadecimal = rest.len() > 1 && matches!(rest.as_bytes()[1], b'x' | b'X');
    let mut before = ' ';
    for (at, c) in rest.char_indices() {
        let exponent = !hexadecimal && matches!(before, 'e' | 'E') && matches!(c, '+' | '-');
        if !(c.is_ascii_alphanumeric() || c == '.' || c == '_' || exponent) {
            return at;
        }
        before = c;
    }
    rest.len()
}

fn word(rest: &str) -> usize {
    rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len())
}
