//! Where a text that is no query cannot be continued: the parser does not say. It looks at brackets, at what the parser's own lexer
//! refuses, at the end, and at operands without an operator between them; where it finds nothing, it names no place.

use promql_parser::parser::lexer;

use super::positions::Position;
use super::tokens::{Kind, Token, tokens};

/// What is wrong, and where.
pub(super) struct Fault {
    pub at: Option<Position>,
    pub problem: String,
}

/// The words that stand between operands, or before them.
const WORDS: [&str; 14] = [
    "and",
    "or",
    "unless",
    "atan2",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "bool",
    "offset",
    "start",
    "end",
];

/// The fault in `text`, at which the parser failed with this problem; `parsed` is what the parser was given.
pub(super) fn fault(text: &str, parsed: &str, problem: String) -> Fault {
    let all = tokens(text);
    let found = bracket(&all).or_else(|| {
        let lexed = lexer(parsed).err();
        match lexed {
            Some(lexed) => refused(parsed, &lexed).map(|token| (token, lexed)),
            None => end(text, &all).or_else(|| operands(&all)),
        }
    });
    match found {
        Some((at, problem)) => Fault { at: Some(Position::at(at)), problem },
        None => Fault { at: None, problem },
    }
}

/// A bracket that nothing closes, or that closes nothing.
fn bracket(all: &[Token<'_>]) -> Option<(usize, String)> {
    let mut open: Vec<&Token<'_>> = Vec::new();
    for token in all.iter().filter(|token| token.kind == Kind::Sign) {
        match token.text {
            "(" | "[" | "{" => open.push(token),
            ")" | "]" | "}" => {
                let opened = open.pop().map(|open| open.text);
                if !matches!((opened, token.text), (Some("("), ")") | (Some("["), "]") | (Some("{"), "}")) {
                    return Some((token.at, format!("unexpected '{}'", token.text)));
                }
            }
            _ => {}
        }
    }
    open.last().map(|open| (open.at, format!("'{}' is never closed", open.text)))
}

/// The token at which the lexer stops: with all before it, it has another problem or none.
fn refused(text: &str, problem: &str) -> Option<usize> {
    let all = tokens(text);
    let is_refused = |token: &Token<'_>| {
        let end = token.at + token.text.len();
        lexer(&text[..end]).err().is_some_and(|other| other == problem)
    };
    all.get(all.partition_point(|token| !is_refused(token))).map(|token| token.at)
}

/// The end, where an operand is missing there.
fn end(text: &str, all: &[Token<'_>]) -> Option<(usize, String)> {
    let closes = |token: &Token<'_>| matches!(token.text, ")" | "]" | "}");
    let is_complete = all.last().is_some_and(|last| match last.kind {
        Kind::Sign => closes(last),
        Kind::Word => !is_word(last),
        Kind::Number | Kind::Text => true,
    });
    (!is_complete).then(|| (text.trim_end().len(), "unexpected end of the query".to_owned()))
}

/// An operand or a bracket's end, and another operand after it.
fn operands(all: &[Token<'_>]) -> Option<(usize, String)> {
    let begins = |token: &Token<'_>| token.kind != Kind::Sign && !is_word(token);
    // Of each bracket that is open: whether it is the list of labels of an operator, after which an operand comes.
    let mut open: Vec<bool> = Vec::new();
    let mut ends = false;
    for (at, token) in all.iter().enumerate() {
        if ends && begins(token) {
            return Some((token.at, format!("unexpected {}", token.text)));
        }
        ends = begins(token) || matches!(token.text, "]" | "}");
        match token.text {
            "(" => open.push(at.checked_sub(1).is_some_and(|before| is_list_of(&all[before]))),
            ")" => ends = open.pop() == Some(false),
            _ => {}
        }
    }
    None
}

/// A word that has a list of labels, and then an operand.
fn is_list_of(token: &Token<'_>) -> bool {
    let words = ["on", "ignoring", "group_left", "group_right"];
    token.kind == Kind::Word && words.iter().any(|word| token.text.eq_ignore_ascii_case(word))
}

fn is_word(token: &Token<'_>) -> bool {
    token.kind == Kind::Word && WORDS.iter().any(|word| token.text.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use crate::text::{format, selector};

    #[test]
    fn a_parse_error_has_the_line_and_column_where_the_text_cannot_go_on() {
        for (text, expected) in [
            ("sum(up", "1:4: parse error: '(' is never closed"),
            ("a +\n  sum(b[5m)", "2:11: parse error: unexpected ')'"),
            ("up{a=\"b\"", "1:3: parse error: '{' is never closed"),
            ("up)", "1:3: parse error: unexpected ')'"),
            ("up +", "1:5: parse error: unexpected end of the query"),
            ("", "1:1: parse error: unexpected end of the query"),
            ("up up", "1:4: parse error: unexpected up"),
            ("sum(up) up", "1:9: parse error: unexpected up"),
            ("sum by (a) up", "1:12: parse error: unexpected up"),
            ("up + on(a) b c", "1:14: parse error: unexpected c"),
            ("on(a) (up) b", "1:12: parse error: unexpected b"),
            ("up ? 1", "1:4: parse error: unexpected character: '?'"),
            (
                "up{a=~\"(\"}",
                "1:7: parse error: the regular expression \"(\" of the label \"a\": unclosed group",
            ),
            ("\"\\q\"", "1:1: parse error: the text \"\\q\" has no end"),
            ("up[1e30]", "1:4: parse error: duration out of range"),
        ] {
            let problem = format(text).unwrap_err().to_string();
            assert!(problem.starts_with(expected), "{text}: {problem}");
        }
        assert!(selector("up{").unwrap_err().to_string().starts_with("1:3: parse error: "));
        // What is wrong here is no place: the types do not fit.
        for text in [
            "rate(up)",
            "up * on(instance) rate(up)",
            "up * ignoring (a) group_left (b) rate(up)",
            "up + ON(instance) sum_over_time(up) / up",
        ] {
            let problem = format(text).unwrap_err().to_string();
            assert!(problem.starts_with("parse error: expected type matrix"), "{text}: {problem}");
        }
    }
}
