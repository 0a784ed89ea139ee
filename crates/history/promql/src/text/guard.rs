//! Limits of a query's text before it is parsed: the parser and all later code recurse, and the parser compiles each regular
//! expression with megabytes of room.

use super::bytes::unquoted;
use super::durations;
use super::positions::Position;
use super::tokens::{Kind, Token, tokens};
use crate::error::QueryError;
use crate::limits::{DEPTH_MAX, DURATION_SECONDS_MAX, REGEXES_MAX, TEXT_BYTES_MAX};
use crate::matcher::{Matcher, shortened};

/// Fails for a text that the parser must not see.
pub(super) fn check(text: &str) -> Result<(), QueryError> {
    let bad = |problem: String| Err(QueryError::Bad(format!("parse error: {problem}")));
    let bad_at = |token: &Token<'_>, problem: String| {
        let place = Position::at(token.at).line_and_column(text);
        Err(QueryError::Bad(format!("{place}: parse error: {problem}")))
    };
    if text.len() > TEXT_BYTES_MAX {
        return bad(format!("it has {} bytes, and may have {TEXT_BYTES_MAX}", text.len()));
    }
    let tokens = tokens(text);
    if depth(&tokens) > DEPTH_MAX {
        let advice = "operators in a row nest, too: put brackets around the parts of a long sum";
        let problem = format!("expressions are nested deeper than {DEPTH_MAX} ({advice})");
        // Each further token may make it deeper, and none makes it less deep.
        let counts: Vec<usize> = (1..tokens.len()).collect();
        let fitting = counts.partition_point(|&count| depth(&tokens[..count]) <= DEPTH_MAX);
        return bad_at(&tokens[fitting], problem);
    }
    let (mut regexes, mut one_too_many) = (0, None);
    for (at, token) in tokens.iter().enumerate() {
        // The parser panics at some of them.
        if token.kind == Kind::Text && unquoted(token.text).is_none() {
            return bad_at(
                token,
                format!("the text {} has no end, or an unknown escape", shortened(token.text)),
            );
        }
        if matches!(token.text, "=~" | "!~") {
            regexes += 1;
            if regexes == REGEXES_MAX + 1 {
                one_too_many = Some(at.saturating_sub(1));
            }
            let value = tokens.get(at + 1).filter(|next| next.kind == Kind::Text);
            if let Some((token, value)) = value.and_then(|token| Some((token, unquoted(token.text)?))) {
                let (label, value) = (before(&tokens, at), String::from_utf8_lossy(&value));
                if let Some(Err(problem)) = Matcher::new(&label, tokens[at].text, &value) {
                    return bad_at(token, problem.to_string());
                }
            }
        }
        if matches!(token.kind, Kind::Number | Kind::Word)
            && (seconds_beyond(&tokens, at) || durations::is_beyond(token.text))
        {
            return bad_at(token, format!("duration out of range: {}", shortened(token.text)));
        }
        if token.kind == Kind::Number && token.text.parse::<f64>().is_ok_and(f64::is_infinite) {
            return bad_at(
                token,
                format!("the number {} is out of range; infinity is written Inf", shortened(token.text)),
            );
        }
    }
    match one_too_many {
        Some(at) => {
            bad_at(&tokens[at], format!("it has {regexes} regular expressions, and may have {REGEXES_MAX}"))
        }
        None => Ok(()),
    }
}

/// The label before this operator, without quotes.
fn before(tokens: &[Token<'_>], at: usize) -> String {
    let Some(label) = at.checked_sub(1).map(|before| tokens[before]) else { return String::new() };
    match unquoted(label.text).filter(|_| label.kind == Kind::Text) {
        Some(name) => String::from_utf8_lossy(&name).into_owned(),
        None => label.text.to_owned(),
    }
}

/// True for a number that stands for a duration and is larger than any: the parser would panic.
fn seconds_beyond(tokens: &[Token<'_>], at: usize) -> bool {
    let is_range = at.checked_sub(1).is_some_and(|before| matches!(tokens[before].text, "[" | ":"));
    (is_range || durations::is_offset(tokens, at))
        && tokens[at].text.parse::<f64>().is_ok_and(|number| {
            // This also catches numbers that are not finite.
            !(0.0..=DURATION_SECONDS_MAX).contains(&number)
        })
}

/// An upper bound for how deep the tree of these tokens is.
fn depth(tokens: &[Token<'_>]) -> usize {
    #[derive(Default)]
    struct Level {
        /// Operators since the last comma.
        operators: usize,
        /// The deepest group since the last comma.
        inner: usize,
        /// The deepest part before it.
        deepest: usize,
    }
    impl Level {
        fn close_part(&mut self) {
            self.deepest = self.deepest.max(self.operators + self.inner);
            (self.operators, self.inner) = (0, 0);
        }
    }
    let mut levels = vec![Level::default()];
    for token in tokens {
        match token.text {
            "(" | "[" | "{" => levels.push(Level::default()),
            ")" | "]" | "}" if levels.len() > 1 => {
                if let Some(mut closed) = levels.pop() {
                    closed.close_part();
                    if let Some(level) = levels.last_mut() {
                        // A bracket after an expression (a subquery) nests it once more.
                        level.operators += usize::from(token.text == "]");
                        level.inner = level.inner.max(closed.deepest + 1);
                    }
                }
            }
            _ if token.kind == Kind::Text => {}
            "," => {
                if let Some(level) = levels.last_mut() {
                    level.close_part();
                }
            }
            _ => {
                let operator = token.kind == Kind::Sign
                    || ["and", "or", "unless", "atan2"]
                        .iter()
                        .any(|word| token.text.eq_ignore_ascii_case(word));
                if let Some(level) = levels.last_mut() {
                    level.operators += usize::from(operator);
                }
            }
        }
    }
    while levels.len() > 1 {
        if let Some(mut open) = levels.pop() {
            open.close_part();
            if let Some(level) = levels.last_mut() {
                level.inner = level.inner.max(open.deepest + 1);
            }
        }
    }
    levels.pop().map_or(0, |mut level| {
        level.close_part();
        level.deepest
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        check(text).map_or_else(|error| error.to_string(), |()| String::from("none"))
    }

    #[test]
    fn what_would_take_the_stack_the_memory_or_the_process_is_refused_before_the_parser_sees_it() {
        let deep = format!("{}1{}", "(".repeat(100_000 / 4), ")".repeat(100_000 / 4));
        assert!(problem(&deep).contains("nested deeper"));
        assert!(problem(&"(".repeat(60_000)).contains("nested deeper"));
        assert!(problem(&"-".repeat(60_000)).contains("nested deeper"));
        assert!(problem(&format!("1{}", "+1".repeat(1_000))).contains("nested deeper"));
        assert!(problem(&format!("x{}", "[1m:]".repeat(1_000))).contains("nested deeper"));
        assert!(problem(&"x".repeat(TEXT_BYTES_MAX + 1)).contains("bytes"));
        assert!(problem(r#"x{a=~"((a{100}){100}){100}"}"#).contains("regular expression"));
        assert!(problem(&format!("x{{{}}}", r#"a=~"b","#.repeat(65))).contains("65 regular expressions"));
        let beyond = [
            "x[1000000y]",
            "x offset 1000000y",
            "x offset -293y",
            "x[293y]",
            "x[5m:1000000y]",
            "x[99999999999999999999s]",
            "x[292y52w2d]",
            "1 + 293y",
            "1e1000",
            "x * 1e309",
        ];
        for text in beyond {
            assert!(problem(text).contains("out of range"), "{text}");
        }
        for text in ["x[292y]", "x[292y12w]", "1e308", "Inf", "x[5m:292y]"] {
            assert_eq!(problem(text), "none", "{text}");
        }
        for text in ["x[1e30]", "x offset 1e30", "x offset -1e30", "x[Inf]", "x offset NaN", "x[5m:1e30]"] {
            assert!(problem(text).contains("out of range"), "{text}");
        }
        for text in [r#""\xü""#, r#"{a=~"\x€"}"#, r#"'\0ü1'"#, r#""\u12ü4""#, r#""\q""#, "\"", "`x"] {
            assert!(problem(text).contains("unknown escape"), "{text}");
            assert!(crate::text::format(text).is_err());
        }
        for text in ["x[300]", "sum(a,b) + (c - d) * 1e30", "x{a=\"((((\"} or y # ((((", "f(1+1, 2+2)"] {
            assert_eq!(problem(text), "none", "{text}");
        }
    }
}
