//! Finds the place of an error in an invalid query, since the parser does not report it. It checks the brackets, the parser's own
//! lexer, the end, operands without an operator in between, and finally the innermost part that is wrong by itself.

use promql_parser::parser::lexer;

use super::positions::Position;
use super::tokens::{Kind, Token, tokens};

/// An error and its place.
pub(super) struct Fault {
    pub at: Position,
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
/// `parse` gives the problem of another text, if it has one.
pub(super) fn fault(
    text: &str,
    parsed: &str,
    problem: String,
    parse: impl Fn(&str) -> Option<String>,
) -> Fault {
    let all = tokens(text);
    let found = bracket(&all).or_else(|| {
        let lexed = lexer(parsed).err();
        match lexed {
            Some(lexed) => refused(parsed, &lexed).map(|token| (token, lexed)),
            None => {
                end(text, &all).or_else(|| lists(&all)).or_else(|| operands(&all)).or_else(|| operators(&all))
            }
        }
    });
    match found {
        Some((at, problem)) => Fault { at: Position::at(at), problem },
        None => {
            let at =
                range(text, &all, &problem, &parse).unwrap_or_else(|| innermost(text, &all, &problem, parse));
            Fault { at: Position::at(at), problem }
        }
    }
}

/// Where the duration of a range stands that has this problem by itself.
fn range(
    text: &str,
    all: &[Token<'_>],
    problem: &str,
    parse: &impl Fn(&str) -> Option<String>,
) -> Option<usize> {
    all.iter().enumerate().filter(|(_, token)| token.text == "[").find_map(|(opened, token)| {
        let closed = all[opened..].iter().find(|token| token.text == "]")?;
        let alone = format!("a{}", &text[token.at..closed.at + 1]);
        (parse(&alone).as_deref() == Some(problem)).then(|| all[opened + 1].at)
    })
}

/// The start of the innermost part that has this problem by itself: a call, a group in brackets, or the whole text. If it has one
/// operator, the place of the operator, since the problem is between its operands.
fn innermost(text: &str, all: &[Token<'_>], problem: &str, parse: impl Fn(&str) -> Option<String>) -> usize {
    let mut open: Vec<usize> = Vec::new();
    for (at, token) in all.iter().enumerate().filter(|(_, token)| token.kind == Kind::Sign) {
        match token.text {
            "(" | "{" => open.push(at),
            ")" | "}" => {
                let Some(opened) = open.pop() else { continue };
                let begin = match token.text {
                    ")" => begin_of_call(all, opened),
                    _ => begin_of_selector(all, opened),
                };
                let part = &text[all[begin].at..token.at + 1];
                if parse(part).is_some_and(|other| other == problem) {
                    // The parameter comes first, and only it is a number or a text.
                    if is_of_parameter(problem) {
                        return all[opened + 1].at;
                    }
                    return match begin == opened && token.text == ")" {
                        true => operator(&all[opened + 1..at]).unwrap_or(all[opened].at),
                        false => all[begin].at,
                    };
                }
            }
            _ => {}
        }
    }
    let begin = || all.first().map(|first| first.at);
    modifier(all, problem)
        .or_else(|| operator(all))
        .or_else(|| text_operand(all, problem))
        .or_else(begin)
        .unwrap_or(0)
}

/// The `offset` or `@` that follows something else than a selector, if that is the problem.
fn modifier(all: &[Token<'_>], problem: &str) -> Option<usize> {
    let is_it = |token: &Token<'_>| token.text == "@" || is_one_of(token, &["offset"]);
    let wrong = all.windows(2).find(|pair| pair[0].text == ")" && is_it(&pair[1]))?;
    problem.contains(" modifier must be preceded by ").then_some(wrong[1].at)
}

/// The text that an operator cannot take, if that is the problem.
fn text_operand(all: &[Token<'_>], problem: &str) -> Option<usize> {
    let is_operator = |token: &Token<'_>| {
        token.kind == Kind::Sign && !matches!(token.text, "," | "(" | ")" | "{" | "}" | "=" | "=~" | "!~")
    };
    let mut braces = 0;
    let mut found = None;
    for pair in all.windows(2) {
        braces += i32::from(pair[0].text == "{") - i32::from(pair[0].text == "}");
        let text = pair
            .iter()
            .zip(pair.iter().rev())
            .find(|(one, other)| one.kind == Kind::Text && is_operator(other));
        found = found.or(text.filter(|_| braces == 0).map(|(text, _)| text.at));
    }
    found.filter(|_| problem.starts_with("binary expression must contain only scalar"))
}

/// Whether the parameter of an aggregation is what the parser does not take.
fn is_of_parameter(problem: &str) -> bool {
    ["scalar", "string"]
        .iter()
        .any(|wanted| problem.starts_with(&format!("expected type {wanted} in aggregation expression")))
}

/// The name before the bracket of a selector, or the bracket itself.
fn begin_of_selector(all: &[Token<'_>], opened: usize) -> usize {
    let named = |before: &usize| all[*before].kind == Kind::Word && !is_word(&all[*before]);
    opened.checked_sub(1).filter(named).unwrap_or(opened)
}

/// The first token of a call or an aggregation whose bracket this is; the bracket itself if it is only a group.
fn begin_of_call(all: &[Token<'_>], opened: usize) -> usize {
    let Some(before) = opened.checked_sub(1) else { return opened };
    if all[before].kind == Kind::Word && !is_word(&all[before]) {
        return before;
    }
    // sum by (a) (b)
    let list = (0..before).rev().find(|&at| all[at].text == "(").filter(|_| all[before].text == ")");
    match list.and_then(|list| list.checked_sub(2)) {
        Some(name) if is_one_of(&all[name + 1], &["by", "without"]) => name,
        _ => opened,
    }
}

/// The operator of these tokens that is in no bracket; `None` if there are none or several.
fn operator(all: &[Token<'_>]) -> Option<usize> {
    let (mut depth, mut found, mut ends) = (0, Vec::new(), false);
    for token in all {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ if depth > 0 => {}
            _ => {
                let is_sign = token.kind == Kind::Sign && !matches!(token.text, "," | "@" | ":");
                // In front of an operand a sign is no operator.
                if ends && is_sign || is_one_of(token, &WORDS[..4]) {
                    found.push(token.at);
                }
            }
        }
        ends = ends_operand(token);
    }
    if let [one] = found[..] { Some(one) } else { None }
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
    // For each open bracket: whether it is the label list of an operator, after which an operand follows.
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

/// An operator that needs an operand before it, and has none.
fn operators(all: &[Token<'_>]) -> Option<(usize, String)> {
    const BINARY: [&str; 10] = ["*", "/", "%", "^", "==", "!=", ">=", "<=", ">", "<"];
    let is_binary = |token: &Token<'_>| match token.kind {
        Kind::Sign => BINARY.contains(&token.text),
        _ => is_one_of(token, &WORDS[..4]),
    };
    // In braces they compare labels.
    let (mut braces, mut ends) = (0, false);
    for token in all {
        match token.text {
            "{" => braces += 1,
            "}" => braces -= 1,
            text if braces == 0 && !ends && is_binary(token) => {
                return Some((token.at, format!("unexpected {text}")));
            }
            _ => {}
        }
        ends = ends_operand(token);
    }
    None
}

/// A word that a list of labels in brackets has to follow, and something else does.
fn lists(all: &[Token<'_>]) -> Option<(usize, String)> {
    let has_list = |token: &Token<'_>| is_one_of(token, &["by", "without", "on", "ignoring"]);
    let wrong = all.windows(2).find(|pair| has_list(&pair[0]) && pair[1].text != "(")?;
    Some((wrong[1].at, format!("unexpected {}: '(' must follow '{}'", wrong[1].text, wrong[0].text)))
}

/// A word that has a list of labels, and then an operand.
fn is_list_of(token: &Token<'_>) -> bool {
    is_one_of(token, &["on", "ignoring", "group_left", "group_right"])
}

/// An operand may end with it, so that an operator may follow.
fn ends_operand(token: &Token<'_>) -> bool {
    token.kind != Kind::Sign && !is_word(token) || matches!(token.text, ")" | "]" | "}")
}

fn is_word(token: &Token<'_>) -> bool {
    is_one_of(token, &WORDS)
}

fn is_one_of(token: &Token<'_>, words: &[&str]) -> bool {
    token.kind == Kind::Word && words.iter().any(|word| token.text.eq_ignore_ascii_case(word))
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
            ("up > > 3", "1:6: parse error: unexpected >"),
            ("up{a=\"b\"} and and up", "1:15: parse error: unexpected and"),
            ("sum(up) / (* 2)", "1:12: parse error: unexpected *"),
            ("sum by instance (up)", "1:8: parse error: unexpected instance: '(' must follow 'by'"),
            ("up * on a up", "1:9: parse error: unexpected a: '(' must follow 'on'"),
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
        // Types that do not fit, and functions that there are not: where the innermost part begins, or its only operator stands.
        for (text, expected) in [
            ("rate(up)", "1:1: parse error: expected type matrix"),
            ("rate(up[0s])", "1:9: parse error: duration must be greater than 0"),
            ("sum(rate(a[5m])) / max_over_time(b{c=\"[\"}[0m:1m])", "1:43: parse error: "),
            ("up * on(instance) rate(up)", "1:19: parse error: expected type matrix"),
            ("up * ignoring (a) group_left (b) rate(up)", "1:34: parse error: expected type matrix"),
            ("up + ON(instance) sum_over_time(up) / up", "1:19: parse error: expected type matrix"),
            ("sum by (a) (\n max(rte(up[5m])))", "2:6: parse error: unknown function"),
            ("a + b == \"x\"", "1:10: parse error: binary expression must contain only"),
            ("sum(a) offset 5m", "1:8: parse error: offset modifier must be preceded by"),
            ("1 + sum(b{c=\"offset\"}) offset 5m", "1:24: parse error: offset modifier must be"),
            ("1 + 2 == 3", "1:1: parse error: comparisons between scalars"),
            ("1 == 3", "1:3: parse error: comparisons between scalars"),
            ("up + (1 > 2)", "1:9: parse error: comparisons between scalars"),
            ("1 and up", "1:3: parse error: set operator 'and'"),
            ("sum by (a) (1)", "1:1: parse error: expected type vector"),
            ("1 + topk(\"x\", a)", "1:10: parse error: expected type scalar"),
            ("quantile by (b) (a, a)", "1:18: parse error: expected type scalar"),
            ("count_values(1, a)", "1:14: parse error: expected type string"),
            ("1 + {}", "1:5: parse error: vector selector must"),
            ("sum(1 + a{__name__=\"b\"})", "1:9: parse error: metric name must not be set twice"),
            ("sum(-rate(up[5m]), 2)", "1:1: parse error: "),
            ("up - \"x\"", "1:4: parse error: binary expression"),
        ] {
            let problem = format(text).unwrap_err().to_string();
            assert!(problem.starts_with(expected), "{text}: {problem}");
        }
    }
}
